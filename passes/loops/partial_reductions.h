/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that partial_reductions.c and partial_argmax.c share. */
#ifndef TESSERA_PASSES_LOOPS_PARTIAL_REDUCTIONS_H
#define TESSERA_PASSES_LOOPS_PARTIAL_REDUCTIONS_H

#include "ir/build.h"

typedef struct Defer {
    Func *func;
    Op *loop;
    int64_t registers; /* taken so far */
} Defer;

/* The tile's type without the loop's range: it outlives the loop. */
Type defer_outliving(const Defer *d, Type type);

/* The argmax or argmin fold whose results the loop combines with loop-carried values `i` and `i`
 * + 1, and with nothing else; NULL: there is none. */
const Op *defer_carried_extreme(const Defer *d, int i);
void defer_extreme(Defer *d, int i, const Op *fold);

#endif
