/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of defer share. */
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

/* The fold of an extreme and its place that the loop combines with carried values `i` and `i` + 1,
 * and with nothing else; else NULL. */
const Op *defer_carried_extreme(const Defer *d, int i);
void defer_extreme(Defer *d, int i, const Op *fold);

#endif
