/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of schedule and tune blocks: for which kernel, target and sizes they apply. Private
 * to the component. */
#ifndef TESSERA_FRONTEND_SCHEDULE_SCHEDULE_BLOCKS_H
#define TESSERA_FRONTEND_SCHEDULE_SCHEDULE_BLOCKS_H

#include "frontend/lower/lower.h"

typedef struct BlockSelection {
    const char *target;
    const int64_t *sizes; /* given ones, by DimVar.id; may be NULL */
    const char *chosen;   /* the name of a schedule; NULL: none */
} BlockSelection;

Lower block_lower(Module *module, const KernelSignature *kernel, Func *func);
/* Is it for this kernel, and for this target by name, or for all? */
bool block_applies(const Lower *l, const ScheduleDecl *schedule, const char *target, bool named);
/* Its `when`; what is not known of the sizes is remarked. */
bool block_holds(Lower *l, const ScheduleDecl *schedule, const int64_t *sizes);
/* That the kernel has the dimension that the line is for. */
/* Do they decide the same, for the same launches? */
bool block_same_entry(const EntryDecl *a, const EntryDecl *b);
/* "tile M", "launch 1: tile M" */
const char *block_entry_name(Lower *l, const EntryDecl *decl);
void block_check_dimension(Lower *l, const EntryDecl *entry);

#endif
