/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a reduction inside of a warp: registers of a thread first, then lanes by butterfly
 * shuffles. */
#include "codegen/gpu/gpu_reduce.h"
#include "codegen/scalar/scalar_ops.h"

LLVMValueRef gpu_reduce_combine(Reducer *red, LLVMValueRef a, LLVMValueRef c)
{
    if (!a || !c) {
        return a ? a : c;
    }
    return scalar_combine(red->em->l, red->reduction, red->dtype, a, c);
}

bool gpu_reduce_moves(const Reducer *red, const int32_t *basis)
{
    if (basis[red->axis] == 0) {
        return false;
    }
    for (int axis = 0; axis < red->from->rank; axis++) {
        if (axis != red->axis && basis[axis]) {
            gpu_bug(red->em, red->op, "a layout bit that moves along the reduced axis and another");
        }
    }
    return true;
}

int gpu_reduce_target(const Reducer *red, int r)
{
    const Layout *layout = red->from->layout;
    int side = red->n > GPU_MAX_TILE_REGISTERS ? GPU_GROUP / 2 : GPU_GROUP;
    for (int bit = 0; bit < layout->bits[IN_REGISTER]; bit++) {
        if (1 << bit >= side && gpu_reduce_moves(red, layout->basis[IN_REGISTER][bit])) {
            r &= ~(1 << bit);
        }
    }
    return r;
}

/* Halves the registers along each bit of the axis, highest first: short chains. */
void gpu_reduce_registers(Reducer *red)
{
    const Layout *layout = red->from->layout;
    for (int bit = layout->bits[IN_REGISTER] - 1; bit >= 0; bit--) {
        if (!gpu_reduce_moves(red, layout->basis[IN_REGISTER][bit])) {
            continue;
        }
        for (int r = 0; r < red->n; r++) {
            if (!(r >> bit & 1)) {
                red->regs[r] = gpu_reduce_combine(red, red->regs[r], red->regs[r | 1 << bit]);
            } else {
                red->regs[r] = NULL;
            }
        }
    }
}

bool gpu_reduce_is_canonical(const Reducer *red, int r)
{
    return red->regs[r] && gpu_canonical(red->from->layout, r) == r;
}

void gpu_reduce_lanes(Reducer *red)
{
    const Layout *layout = red->from->layout;
    for (int bit = layout->bits[IN_LANE] - 1; bit >= 0; bit--) {
        if (!gpu_reduce_moves(red, layout->basis[IN_LANE][bit])) {
            continue;
        }
        for (int r = 0; r < red->n; r++) {
            if (gpu_reduce_is_canonical(red, r)) {
                LLVMValueRef other = gpu_shuffle(red->em, red->regs[r], 1 << bit);
                red->regs[r] = gpu_reduce_combine(red, red->regs[r], other);
            }
        }
    }
}
