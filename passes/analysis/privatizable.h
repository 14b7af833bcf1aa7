/* SPDX-License-Identifier: Apache-2.0 */
/* Small tensors that a launch changes only by order-independent atomics. */
#ifndef TESSERA_PASSES_ANALYSIS_PRIVATIZABLE_H
#define TESSERA_PASSES_ANALYSIS_PRIVATIZABLE_H

#include "ir/ir.h"

enum { MAX_GATHERED = 4 };

typedef struct PrivatizableTensor {
    Value *tensor;
    const char *fn; /* of all scatters to it */
    int64_t elements;
    DType dtype;        /* of a block's own copy */
    int64_t most_tiles; /* that a copy has space for: counts of 32 bits; 0: any number */
} PrivatizableTensor;

/* The tensors that blocks of the group or launch gather changes of in shared memory, if the
 * schedule has them do so. Returns how many. */
int an_privatizable(Func *func, const Op *launch, PrivatizableTensor *found);

#endif
