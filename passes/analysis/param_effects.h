/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors ops read and write, by parameter number. A view counts as the tensor whose memory
 * it shows. */
#ifndef TESSERA_PASSES_ANALYSIS_PARAM_EFFECTS_H
#define TESSERA_PASSES_ANALYSIS_PARAM_EFFECTS_H

#include "ir/ir.h"

typedef struct ParamEffects {
    uint64_t *reads, *writes; /* one bit per parameter */
    size_t words;             /* of 64 bits, of each of both */
} ParamEffects;

ParamEffects param_effects_new(const Func *func);
/* Adds what the op itself reads and writes, without the ops in its regions. */
void param_effects_add_op(ParamEffects *effects, const Func *func, const Op *op);
void param_effects_add(ParamEffects *to, const ParamEffects *from);
/* True if `later` reads or writes a tensor that `earlier` writes, or writes one that it reads.
 * `among`: only tensors that these effects both read and write count; NULL: all count. */
bool param_effects_conflict(const ParamEffects *earlier, const ParamEffects *later,
                            const ParamEffects *among);

#endif
