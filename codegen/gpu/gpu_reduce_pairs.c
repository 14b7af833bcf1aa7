/* SPDX-License-Identifier: Apache-2.0 */
/* Maximum reductions of 16-bit floats that compare both elements of a 32-bit word at once, as they
 * were loaded, instead of upcasting each first. */
#include "codegen/gpu/gpu_reduce.h"
#include "codegen/scalar/scalar_ops.h"
#include "ir/build.h"

#include <string.h>

/* Is it widened anew behind the reduction (passes/layout/rematerialize_casts.c)? */
static bool is_narrow_behind(const Op *reduce, const Value *narrow)
{
    for (const Op *op = reduce->next; op; op = op->next) {
        if (op->kind == OP_REMAT && op->operands[0] == narrow) {
            return true;
        }
    }
    return false;
}

/* The greatest of 16-bit floats, widened, is the greatest of what was widened: words that hold two
 * of them are compared as they were loaded, where what is widened need not be there yet. */
const GpuValue *gpu_reduce_find_pairs(Reducer *red)
{
    const Op *cast = red->op->operands[0]->def;
    bool extreme = red->reduction == OP_MAX || red->reduction == OP_MIN;
    if (!extreme || !red->em->target->extreme_pair || !cast || cast->kind != OP_CAST ||
        red->dtype != DT_F32 || gpu_overhangs(red->em, red->from, red->axis)) {
        return NULL;
    }
    DType narrow = cast->operands[0]->type->dtype;
    const GpuValue *in = gpu_value(red->em, cast->operands[0]);
    bool pairs = (narrow == DT_BF16 || narrow == DT_F16) && in->halves &&
                 is_narrow_behind(red->op, cast->operands[0]);
    return pairs ? in : NULL;
}

LLVMValueRef gpu_reduce_pair_at(const Reducer *red, int r)
{
    if (!red->pairs || r % 2 || r + 1 >= red->n ||
        gpu_canonical(red->from->layout, r + 1) != r + 1) {
        return NULL;
    }
    const GpuHalf *halves = red->pairs->halves + r;
    return halves[1].word == halves[0].word ? halves[0].word : NULL;
}

static LLVMValueRef greater(Reducer *red, LLVMValueRef a, LLVMValueRef c)
{
    DType dtype = red->op->operands[0]->def->operands[0]->type->dtype;
    return red->em->target->extreme_pair(red->em, red->reduction == OP_MAX, dtype, a, c);
}

void gpu_reduce_take_pair(Reducer *red, LLVMValueRef word, int r)
{
    LLVMValueRef *to = &red->words[gpu_reduce_target(red, r)];
    *to = *to ? greater(red, *to, word) : word;
}

/* Are the elements of a word of different results, and all elements in words? */
static bool are_separate(const Reducer *red)
{
    const Layout *layout = red->from->layout;
    bool words =
        layout->bits[IN_REGISTER] > 0 && !gpu_reduce_moves(red, layout->basis[IN_REGISTER][0]);
    for (int r = 0; r < red->n; r++) {
        words = words && !red->regs[r];
    }
    return words;
}

bool gpu_reduce_end_pairs(Reducer *red)
{
    bool separate = red->pairs && are_separate(red);
    if (separate) {
        /* Two 16-bit results share a word, which halves the comparisons and the shuffles. */
        const Layout *layout = red->from->layout;
        for (int bit = layout->bits[IN_REGISTER] - 1; bit > 0; bit--) {
            for (int r = 0; r < red->n && gpu_reduce_moves(red, layout->basis[IN_REGISTER][bit]);
                 r++) {
                if (red->words[r] && r >> bit & 1) {
                    LLVMValueRef *to = &red->words[r & ~(1 << bit)];
                    *to = *to ? greater(red, *to, red->words[r]) : red->words[r];
                    red->words[r] = NULL;
                }
            }
        }
        for (int bit = layout->bits[IN_LANE] - 1; bit >= 0; bit--) {
            for (int r = 0; r < red->n && gpu_reduce_moves(red, layout->basis[IN_LANE][bit]); r++) {
                if (red->words[r]) {
                    LLVMValueRef other = gpu_shuffle(red->em, red->words[r], 1 << bit);
                    red->words[r] = greater(red, red->words[r], other);
                }
            }
        }
    }
    for (int r = 0; r < red->n; r++) {
        if (red->words[r]) {
            LLVMValueRef both[2];
            GpuEmitter *em = red->em;
            DType dtype = red->op->operands[0]->def->operands[0]->type->dtype;
            LLVMTypeRef pair = LLVMVectorType(gpu_type(em, dtype), 2);
            gpu_unpack(em, LLVMBuildBitCast(em->builder, red->words[r], pair, ""), 2, both);
            for (int i = 0; i < 2; i++) {
                both[i] = LLVMBuildFPExt(em->builder, both[i], em->f32, "");
            }
            red->regs[r] = gpu_reduce_combine(red, red->regs[r], both[0]);
            red->regs[r + 1] = gpu_reduce_combine(red, red->regs[r + 1], both[1]);
        }
    }
    return separate;
}
