/* SPDX-License-Identifier: Apache-2.0 */
/* Coordinates that arrays of indices give, for gathers and scatters. Only interp*.c include this.
 */
#ifndef TESSERA_IR_INTERP_INTERP_COORDS_H
#define TESSERA_IR_INTERP_INTERP_COORDS_H

#include "ir/interp/interp_internal.h"

typedef struct Places {
    int rank;
    int64_t dims[MAX_RANK], strides[MAX_RANK];
    bool guarded[MAX_RANK];
    const Array *indices[MAX_RANK]; /* NULL: any place along the axis */
    bool ring;                      /* the first index counts modulo the extent */
    bool inexact;                   /* some index has samples */
} Places;

/* What an element's indices say. A later one outweighs an earlier, axis by axis. */
typedef enum CoordKind {
    COORD_INSIDE,
    COORD_UNKNOWN, /* an index is poison, and checked */
    COORD_OUTSIDE, /* and not checked */
    COORD_WILD,    /* an index is poison, and not checked */
    COORD_GUARDED, /* outside, and checked */
} CoordKind;

Places places_of(InterpRun *run, const Op *op, Access access, int rank, const int64_t *dims);
/* Of element i, in the base plane (-1) or a sample; `offset` counts when the place is inside. */
CoordKind place_at(const Places *places, int64_t i, int sample, int64_t *offset);
/* May element i lie at places between those of its samples? */
bool place_is_wide(const Places *places, int64_t i);
/* Fails with the element's indices. */
_Noreturn void place_fail(InterpRun *run, const Op *op, const Places *places, int64_t i,
                          const char *what, const char *name);

#endif
