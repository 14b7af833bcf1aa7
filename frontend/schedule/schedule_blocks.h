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
/* True if the block is for this kernel and, if `named`, names this target, else names none. */
bool block_applies(const Lower *l, const ScheduleDecl *schedule, const char *target, bool named);
/* Evaluates the `when` of a block; a remark reports a condition that the known facts leave open. */
bool block_holds(Lower *l, const ScheduleDecl *schedule, const int64_t *sizes);
/* True if both entries decide the same for the same launches. */
bool block_same_entry(const EntryDecl *a, const EntryDecl *b);
/* "tile M", "launch 1: tile M" */
const char *block_entry_name(Lower *l, const EntryDecl *decl);
/* Reports the axis of an entry that the kernel does not have. */
void block_check_axis(Lower *l, const EntryDecl *entry);

#endif
