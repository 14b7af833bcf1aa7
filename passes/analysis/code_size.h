/* SPDX-License-Identifier: Apache-2.0 */
/* How long the machine code of ops is. A tile costs an instruction or several for each register of
 * a thread, since code generation unrolls all of them; code that exceeds the instruction cache is
 * fetched again by every warp that executes it. */
#ifndef TESSERA_PASSES_ANALYSIS_CODE_SIZE_H
#define TESSERA_PASSES_ANALYSIS_CODE_SIZE_H

#include "ir/ir.h"

/* What a thread executes: instructions, and which of them access memory. */
typedef struct CodeCounts {
    double instructions, loads, shared_stores; /* loads: of global memory */
} CodeCounts;

/* A function whose code is measured, as it is now. */
typedef struct CodeSize {
    const Func *func;
    bool *taken;        /* by Value.id: an op that is emitted takes it */
    uint32_t *same;     /* by Value.id: the first value that is computed alike, or its own */
    unsigned *varies;   /* by Value.id: along which axes, as bits */
    const Op **first;   /* by Value.id, of a tensor: the first op that accesses it */
    const Op **guarded; /* by Value.id, of an index: the first access that compares its end */
    bool *invariant;    /* by Value.id: it is the same in each round of the loop around it */
    double *own_loads;  /* by Value.id of a gather: fraction of the elements that it loads itself */
    bool divides;       /* f32, with a slow way that all divisions share */
} CodeSize;
/* Of one launch, or (NULL) of all. */
CodeSize an_code_size(Func *func, const Op *launch);

/* Of one op, each time it is executed, without the ops in its regions. */
CodeCounts an_op_counts(const CodeSize *size, const Op *op);
/* Of the code of an op with its regions: each op once, or as often as a short loop is written
 * out. */
CodeCounts an_code_counts(const CodeSize *size, const Op *op);
/* Of a round of a loop: of its ops but those whose results are the same in each round, which LLVM
 * moves out of it. Of another op, as an_code_counts. */
CodeCounts an_iteration_counts(const CodeSize *size, const Op *op);
/* True if the op is executed before the loop around it, once for all rounds. */
bool an_leaves_loop(const CodeSize *size, const Op *op);
/* Estimated bytes of machine code of the op with its regions. */
int64_t an_code_bytes(const CodeSize *size, const Op *op);
/* The loop in which a launch spends its time: of the innermost loops around dots, or else of all,
 * the one with most instructions. NULL: it has none. */
const Op *an_hot_loop(const CodeSize *size, const Op *launch);

#endif
