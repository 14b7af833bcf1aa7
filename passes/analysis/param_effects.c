/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of the tensors that ops read and write, by parameter number, and whether two sets conflict.
 * A view has the number of the tensor whose memory it shows. */
#include "passes/analysis/param_effects.h"

ParamEffects param_effects_new(const Func *func)
{
    size_t words = func->params.n / 64 + 1;
    return (ParamEffects){ARENA_ARRAY(func->arena, uint64_t, words),
                          ARENA_ARRAY(func->arena, uint64_t, words), words};
}

void param_effects_add_op(ParamEffects *effects, const Func *func, const Op *op)
{
    bool writes = op->kind == OP_STORE || op->kind == OP_SCATTER || op->kind == OP_BULK_STORE ||
                  op->kind == OP_TAKE_TILE;
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        const Value *memory = op->operands[at];
        if (memory && memory->type->kind == TYPE_TENSOR) {
            uint32_t index = func_memory_of(func, memory)->index;
            uint64_t *bits = writes ? effects->writes : effects->reads;
            bits[index / 64] |= (uint64_t)1 << index % 64;
        }
    }
}

void param_effects_add(ParamEffects *to, const ParamEffects *from)
{
    for (size_t i = 0; i < to->words; i++) {
        to->reads[i] |= from->reads[i];
        to->writes[i] |= from->writes[i];
    }
}

bool param_effects_conflict(const ParamEffects *earlier, const ParamEffects *later,
                            const ParamEffects *among)
{
    for (size_t i = 0; i < earlier->words; i++) {
        uint64_t both = (earlier->writes[i] & (later->reads[i] | later->writes[i])) |
                        (earlier->reads[i] & later->writes[i]);
        if (both & (among ? among->reads[i] & among->writes[i] : UINT64_MAX)) {
            return true;
        }
    }
    return false;
}
