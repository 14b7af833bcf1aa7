/* SPDX-License-Identifier: Apache-2.0 */
/* Coordinates of the registers of a thread within a tile, and strides of tensors. A coordinate is
 * thread part XOR register part; in all layouts that the compiler builds the two share no bits, so
 * the XOR is also an OR and an ADD, which fold into addresses. */
#include "codegen/gpu/gpu_emitters.h"

bool gpu_is_disjoint(const Layout *layout, int axis)
{
    uint32_t mine = (uint32_t)gpu_register_coord(layout, axis, layout_registers(layout) - 1);
    return (mine & layout_thread_bits(layout, axis)) == 0;
}

static LLVMValueRef shifted(GpuEmitter *em, LLVMValueRef id, uint32_t mask, int shift)
{
    LLVMValueRef part = LLVMBuildAnd(em->builder, id, gpu_i32(em, mask), "");
    if (shift > 0) {
        return LLVMBuildShl(em->builder, part, gpu_i32(em, shift), "");
    }
    return shift < 0 ? LLVMBuildLShr(em->builder, part, gpu_i32(em, -shift), "") : part;
}

/* Input bits that move by the same distance move together: one AND and one shift each. */
static LLVMValueRef spread(GpuEmitter *em, const Layout *layout, LayoutIn in, int axis,
                           LLVMValueRef id, LLVMValueRef sum)
{
    for (int shift = -LAYOUT_BITS; shift < 32; shift++) {
        uint32_t mask = 0;
        for (int bit = 0; bit < layout->bits[in]; bit++) {
            int to = bit + shift;
            if (to >= 0 && to < 32 && (uint32_t)layout->basis[in][bit][axis] >> to & 1) {
                mask |= 1u << bit;
            }
        }
        if (mask) {
            LLVMValueRef part = shifted(em, id, mask, shift);
            sum = sum ? LLVMBuildXor(em->builder, sum, part, "") : part;
        }
    }
    return sum;
}

/* Computed once a role, in its entry block, so that every later use is dominated. */
LLVMValueRef gpu_thread_coord(GpuEmitter *em, const Layout *layout, int axis)
{
    GpuRole *role = em->role;
    for (size_t i = 0; i < role->coords.n; i++) {
        if (role->coords.items[i].layout == layout && role->coords.items[i].axis == axis) {
            return role->coords.items[i].value;
        }
    }
    LLVMBasicBlockRef here = LLVMGetInsertBlock(em->builder);
    LLVMPositionBuilderBefore(em->builder, LLVMGetBasicBlockTerminator(role->entry));
    LLVMValueRef value = spread(em, layout, IN_LANE, axis, role->lane, NULL);
    value = spread(em, layout, IN_WARP, axis, role->warp, value);
    value = value ? value : gpu_i32(em, 0);
    gpu_go(em, here);
    GpuCoord coord = {layout, axis, value};
    ARENA_PUSH(em->arena, &role->coords, coord);
    return value;
}

LLVMValueRef gpu_coord(GpuEmitter *em, const Layout *layout, int axis, int r)
{
    LLVMValueRef thread = gpu_thread_coord(em, layout, axis);
    int mine = gpu_register_coord(layout, axis, r);
    if (mine == 0) {
        return thread;
    }
    if (layout_thread_bits(layout, axis) & (uint32_t)mine) {
        return LLVMBuildXor(em->builder, thread, gpu_i32(em, mine), "");
    }
    return LLVMBuildNUWAdd(em->builder, thread, gpu_i32(em, mine), "");
}

/* ---- holders ---- */

static LLVMValueRef and_zero(GpuEmitter *em, LLVMValueRef sum, LLVMValueRef id, uint32_t mask)
{
    if (!mask) {
        return sum;
    }
    LLVMValueRef bits = LLVMBuildAnd(em->builder, id, gpu_i32(em, mask), "");
    LLVMValueRef zero = LLVMBuildICmp(em->builder, LLVMIntEQ, bits, gpu_i32(em, 0), "");
    return gpu_both(em, sum, zero);
}

LLVMValueRef gpu_both(GpuEmitter *em, LLVMValueRef a, LLVMValueRef c)
{
    if (!a || !c) {
        return a ? a : c;
    }
    return LLVMBuildAnd(em->builder, a, c, "");
}

uint32_t gpu_lane_copies(const GpuEmitter *em, const Layout *layout)
{
    return layout_copy_bits(layout, IN_LANE, em->warp_bits);
}

LLVMValueRef gpu_first_holder(GpuEmitter *em, const Layout *layout)
{
    return and_zero(em, gpu_first_warp(em, layout), em->role->lane, gpu_lane_copies(em, layout));
}

LLVMValueRef gpu_first_warp(GpuEmitter *em, const Layout *layout)
{
    return and_zero(em, NULL, em->role->warp, plan_warp_copies(em->role->warps, layout));
}

LLVMValueRef gpu_extract_bits(GpuEmitter *em, LLVMValueRef id, uint32_t mask)
{
    LLVMValueRef sum = gpu_i32(em, 0);
    int to = 0;
    for (int bit = 0; bit < 32; bit++) {
        if (mask >> bit & 1) {
            LLVMValueRef part = LLVMBuildLShr(em->builder, id, gpu_i32(em, bit), "");
            part = LLVMBuildAnd(em->builder, part, gpu_i32(em, 1), "");
            part = LLVMBuildShl(em->builder, part, gpu_i32(em, to++), "");
            sum = LLVMBuildOr(em->builder, sum, part, "");
        }
    }
    return sum;
}

bool gpu_overhangs(GpuEmitter *em, Type type, int axis)
{
    uint32_t most = layout_thread_bits(type->layout, axis);
    for (int bit = 0; bit < type->layout->bits[IN_REGISTER]; bit++) {
        most |= (uint32_t)type->layout->basis[IN_REGISTER][bit][axis];
    }
    return (int64_t)most >= gpu_extent(em, type, axis);
}

LLVMValueRef gpu_in_tile(GpuEmitter *em, Type type, int r)
{
    LLVMValueRef inside = NULL;
    for (int axis = 0; axis < type->rank; axis++) {
        if (gpu_overhangs(em, type, axis)) {
            LLVMValueRef coord = gpu_coord(em, type->layout, axis, r);
            LLVMValueRef extent = gpu_i32(em, gpu_extent(em, type, axis));
            inside =
                gpu_both(em, inside, LLVMBuildICmp(em->builder, LLVMIntSLT, coord, extent, ""));
        }
    }
    return inside;
}

/* ---- strides ---- */

void gpu_strides(GpuEmitter *em, Type tensor, LLVMValueRef *strides)
{
    LLVMValueRef stride = gpu_i64(em, 1);
    for (int axis = tensor->rank - 1; axis >= 0; axis--) {
        if (tensor->strides) {
            strides[axis] = gpu_size_value(em, tensor->strides[axis]);
            continue;
        }
        strides[axis] = stride;
        stride = LLVMBuildMul(em->builder, stride, gpu_size_value(em, tensor->dims[axis]), "");
    }
}

/* Strides of known sizes become constants, so that accesses at such distances share one address. */
void gpu_known_strides(GpuEmitter *em, Type tensor, LLVMValueRef *strides)
{
    int64_t stride = 1, most;
    gpu_strides(em, tensor, strides);
    for (int axis = tensor->rank - 1; axis >= 0 && !tensor->strides; axis--) {
        strides[axis] = gpu_i64(em, stride);
        most = poly_most(tensor->dims[axis]);
        if (poly_least(tensor->dims[axis]) != most ||
            __builtin_mul_overflow(stride, most, &stride)) {
            return;
        }
    }
}

LLVMValueRef gpu_range_length(GpuEmitter *em, const Value *range)
{
    GpuValue *bounds = gpu_value(em, range);
    LLVMValueRef length = LLVMBuildSub(em->builder, bounds->regs[1], bounds->regs[0], "");
    return LLVMBuildTrunc(em->builder, length, em->i32, "");
}

/* ---- registers that lie side by side ---- */

int gpu_run_bits(const Layout *layout, int axis, int most, int *bits)
{
    int n = 0;
    for (bool found = true; found && n < most;) {
        found = false;
        for (int i = 0; i < layout->bits[IN_REGISTER] && !found; i++) {
            found = mma_basis_moves(layout->basis[IN_REGISTER][i], axis, 1 << n);
            bits[n] = i;
        }
        n += found;
    }
    return n;
}

int gpu_deposit_bits(const int *bits, int n, int i)
{
    int r = 0;
    for (int at = 0; at < n; at++) {
        r |= (i >> at & 1) << bits[at];
    }
    return r;
}
