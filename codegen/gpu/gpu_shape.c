/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that need no communication between threads: constants, indices, arithmetic, shapes, masks.
 * Registers that hold the same element share one LLVM value, so it is computed once. */
#include "codegen/gpu/gpu_emitters.h"
#include "ir/op_axes.h"
#include "codegen/scalar/scalar_ops.h"

#include <math.h>

enum {
    MAX_OPERANDS = 4,
    DEPTH = 5, /* of the ops that bound the argument of a reciprocal */
};

void gpu_emit_const(GpuEmitter *em, const Op *op)
{
    const Value *result = op->results[0];
    GpuValue *out = gpu_define(em, result);
    DType dtype = result->type->dtype;
    LLVMValueRef value = llvm_number(em->l, dtype, gpu_type(em, dtype), op_attr(op, ATTR_VALUE));
    for (int r = 0; r < out->n; r++) {
        out->regs[r] =
            !type_is_tile(result->type) || gpu_exists(em, result->type, r) ? value : NULL;
    }
}

/* What the value is no less than, unless it is NaN. */
static double least_of(const Value *value, int depth)
{
    const Op *op = value->def;
    while (op && op->kind == OP_BROADCAST) {
        op = op->operands[0]->def;
    }
    if (!op || depth == 0 || (op->kind != OP_CONST && !op_has(op, TRAIT_ELEMENTWISE))) {
        return -INFINITY;
    }
    double least[MAX_OPERANDS];
    for (int i = 0; i < op->n_operands; i++) {
        least[i] = least_of(op->operands[i], depth - 1);
    }
    bool positive = op->n_operands > 1 && least[0] >= 0 && least[1] >= 0;
    switch (op->kind) {
    case OP_CONST: return op_attr(op, ATTR_VALUE)->f;
    case OP_FAST_EXP2:
    case OP_ABS: return 0;
    case OP_ADD: return least[0] + least[1];
    case OP_MUL: return positive ? least[0] * least[1] : -INFINITY;
    case OP_FMA: return positive ? least[0] * least[1] + least[2] : -INFINITY;
    case OP_MIN: return fmin(least[0], least[1]);
    case OP_MAX: return fmax(least[0], least[1]);
    default: return -INFINITY;
    }
}

static LLVMValueRef emit_element(GpuEmitter *em, const Op *op, const GpuValue *ins, int r)
{
    LLVMValueRef operands[MAX_OPERANDS];
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = ins[i].n == 1 ? ins[i].regs[0] : ins[i].regs[r];
    }
    if (gpu_is_distance(op)) {
        return gpu_emit_distance(em, operands[0], operands[1]);
    }
    if (gpu_compares_indices(op)) {
        gpu_compare_difference(em, operands);
    }
    if (op->kind == OP_FAST_EXP2) {
        return em->target->fast_exp2(em, operands[0]);
    }
    /* Never denormal, which costs three instructions to look for. */
    if (op->kind == OP_FAST_RECIPROCAL && em->target->reciprocal &&
        least_of(op->operands[0], DEPTH) >= 1) {
        return em->target->reciprocal(em, operands[0]);
    }
    return op_has_exact_operand(op->kind) && em->target->fast
               ? em->target->fast(em, op->kind, operands[0])
               : scalar_emit_op(em->l, op, operands);
}

/* bf16 is the upper half of an f32: one operation on the word that holds it. */
static LLVMValueRef widen_half(GpuEmitter *em, const GpuHalf *half)
{
    LLVMBuilderRef b = em->builder;
    LLVMValueRef word = half->high
                            ? LLVMBuildAnd(b, half->word, gpu_i32(em, (int64_t)0xffff0000), "")
                            : LLVMBuildShl(b, half->word, gpu_i32(em, 16), "");
    return LLVMBuildBitCast(b, word, em->f32, "");
}

void gpu_emit_register(GpuEmitter *em, const Op *op, int r)
{
    GpuValue *out = gpu_value(em, op->results[0]), ins[MAX_OPERANDS];
    for (int i = 0; i < op->n_operands; i++) {
        ins[i] = *gpu_value(em, op->operands[i]);
    }
    if (gpu_starts(em, op->results[0], out, r)) {
        GpuValue *first = gpu_value(em, op->operands[0]);
        bool widens = op->kind == OP_CAST && op->operands[0]->type->dtype == DT_BF16 &&
                      op->results[0]->type->dtype == DT_F32 && first->halves &&
                      first->halves[r].word;
        out->regs[r] = widens ? widen_half(em, &first->halves[r]) : emit_element(em, op, ins, r);
    }
}

static LLVMValueRef operand_register(GpuEmitter *em, const Op *op, int i, int r)
{
    const GpuValue *in = gpu_value(em, op->operands[i]);
    return in->regs[in->n == 1 ? 0 : r];
}

bool gpu_emit_narrowed(GpuEmitter *em, const Op *op, int r)
{
    const Value *result = op->results[0];
    DType to = result->type->dtype;
    bool narrows = op->kind == OP_CAST && op->operands[0]->type->dtype == DT_F32 &&
                   (to == DT_F8E4M3 || to == DT_F8E5M2) && em->target->narrow_pair;
    GpuValue *out = gpu_value(em, result);
    if (!narrows || !gpu_starts(em, result, out, r) || !gpu_starts(em, result, out, r + 1)) {
        return false;
    }
    LLVMValueRef low = operand_register(em, op, 0, r), high = operand_register(em, op, 0, r + 1);
    bool done = em->target->narrow_pair(em, to, &low, &high);
    if (done) {
        out->regs[r] = low;
        out->regs[r + 1] = high;
    }
    return done;
}

/* Operands of registers [from, from + n), NULL where the result has none to compute. */
static void take_operands(GpuEmitter *em, const Op *op, int from, int n, LLVMValueRef **a,
                          LLVMValueRef **d)
{
    const Value *result = op->results[0];
    *a = ARENA_ARRAY(em->arena, LLVMValueRef, n);
    *d = ARENA_ARRAY(em->arena, LLVMValueRef, n);
    for (int i = 0; i < n; i++) {
        bool own = gpu_exists(em, result->type, from + i) &&
                   gpu_first_equal(result, from + i) == from + i;
        (*a)[i] = own ? operand_register(em, op, 0, from + i) : NULL;
        (*d)[i] = own ? operand_register(em, op, 1, from + i) : NULL;
    }
}

bool gpu_quotients_check(GpuEmitter *em, const Op *op, GpuDivide how, LLVMValueRef *used,
                         LLVMValueRef *good)
{
    LLVMValueRef *a, *d;
    int n = gpu_registers(em, op->results[0]->type);
    take_operands(em, op, 0, n, &a, &d);
    return gpu_divisions_check(em, n, a, d, how, used, good);
}

void gpu_emit_quotients(GpuEmitter *em, const Op *op, int from, int n, GpuDivide how,
                        LLVMValueRef *good)
{
    const Value *result = op->results[0];
    GpuValue *out = gpu_value(em, result);
    LLVMValueRef *a, *d;
    take_operands(em, op, from, n, &a, &d);
    bool done = gpu_emit_divisions(em, n, a, d, out->regs + from, how, good);
    for (int r = from; r < from + n; r++) {
        if (done) {
            gpu_starts(em, result, out, r); /* copies take what their first has */
        } else {
            gpu_emit_register(em, op, r);
        }
    }
}

/* Is the result used by what follows in its block alone, and everywhere in this way? */
static bool is_used_only(const Op *op, bool (*way)(const Op *user, int operand))
{
    for (const Op *user = op->next; user; user = user->next) {
        if (user->n_regions > 0) {
            return false;
        }
        for (int i = 0; i < user->n_operands; i++) {
            if (user->operands[i] == op->results[0] && !way(user, i)) {
                return false;
            }
        }
    }
    return true;
}

static bool carries(const Op *user, int operand)
{
    return op_has_exact_operand(user->kind) && operand == 1;
}

static bool rounds(const Op *user, int operand)
{
    return user->kind == OP_CAST && user->results[operand]->type->dtype == DT_BF16;
}

bool gpu_is_division(const Op *op)
{
    return op->kind == OP_DIV && type_is_tile(op->results[0]->type) &&
           op->results[0]->type->dtype == DT_F32 &&
           !is_used_only(op, carries); /* LLVM drops what only an approximation carries */
}

bool gpu_is_rounded(const Op *division)
{
    return is_used_only(division, rounds);
}

void gpu_emit_elementwise(GpuEmitter *em, const Op *op)
{
    const Value *result = op->results[0];
    GpuValue *out = gpu_define(em, result);
    GpuValue ins[MAX_OPERANDS];
    bool renamed = false;
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        ins[i] = *gpu_value(em, operand);
        if (type_is_tile(operand->type) && operand->type->layout != result->type->layout) {
            ins[i] = (GpuValue){.regs = ARENA_ARRAY(em->arena, LLVMValueRef, out->n), .n = out->n};
            gpu_renamed(em, op, operand->type, gpu_value(em, operand), result->type, &ins[i]);
            renamed = true;
        }
    }
    if (gpu_is_division(op) && !renamed) {
        /* In pieces: the long way of each keeps its operands alive. */
        for (int from = 0; from < out->n; from += GPU_GROUP) {
            gpu_emit_quotients(em, op, from, out->n - from < GPU_GROUP ? out->n - from : GPU_GROUP,
                               DIVIDE_CHECKED, NULL);
        }
        return;
    }
    for (int r = 0; r < out->n; r++) {
        if (gpu_starts(em, result, out, r)) {
            out->regs[r] = emit_element(em, op, ins, r);
        }
    }
}

/* ---- renaming ---- */

/* The coordinates in the operand of the element that becomes the result's element `result`. */
static void operand_coords(const Op *op, const int32_t *result, int32_t *operand)
{
    for (int i = 0; i < op->operands[0]->type->rank; i++) {
        OpAxis axis = op_axis(op, 0, i);
        operand[i] = axis.role == AXIS_TIED ? result[axis.result] : 0;
    }
}

static int find_register(const Layout *layout, const int32_t *coords)
{
    for (int r = 0; r < layout_registers(layout); r++) {
        bool same = true;
        for (int axis = 0; same && axis < layout->rank; axis++) {
            same = gpu_register_coord(layout, axis, r) == coords[axis];
        }
        if (same) {
            return r;
        }
    }
    return -1;
}

static const int32_t *basis_or_zero(const Layout *layout, LayoutIn in, int bit)
{
    static const int32_t zero[MAX_RANK] = {0};
    return bit < layout->bits[in] ? layout->basis[in][bit] : zero;
}

/* Lanes and warps must not move: what they add to the result's element, projected, is what they add
 * to the operand's. */
static void check_threads(GpuEmitter *em, const Op *op)
{
    static const Layout nowhere = {.rank = 0};
    const Type from = op->operands[0]->type, to = op->results[0]->type;
    const Layout *result = to->rank ? to->layout : &nowhere;
    for (int in = IN_LANE; in <= IN_WARP; in++) {
        for (int bit = 0; bit < LAYOUT_BITS; bit++) {
            int32_t coords[MAX_RANK];
            operand_coords(op, basis_or_zero(result, in, bit), coords);
            const int32_t *have = basis_or_zero(from->layout, in, bit);
            for (int axis = 0; axis < from->rank; axis++) {
                if (have[axis] != coords[axis]) {
                    gpu_bug(em, op,
                            "operand and result have layouts that move elements between "
                            "threads");
                }
            }
        }
    }
}

void gpu_emit_rename(GpuEmitter *em, const Op *op)
{
    const Value *from = op->operands[0], *to = op->results[0];
    if (!type_is_tile(from->type)) {
        LLVMValueRef scalar = gpu_scalar(em, from);
        const Value *result = op->results[0];
        GpuValue *out = gpu_define(em, result);
        for (int r = 0; r < out->n; r++) {
            out->regs[r] =
                !type_is_tile(result->type) || gpu_exists(em, result->type, r) ? scalar : NULL;
        }
        return;
    }
    GpuValue *in = gpu_value(em, from), *out = gpu_define(em, to);
    if (!type_is_tile(to->type)) { /* squeezed to a scalar: all threads must hold it */
        check_threads(em, op);
        out->regs[0] = in->regs[0];
        return;
    }
    check_threads(em, op);
    for (int r = 0; r < out->n; r++) {
        int32_t wanted[MAX_RANK] = {0}, coords[MAX_RANK];
        if (!gpu_exists(em, to->type, r)) {
            continue;
        }
        for (int axis = 0; axis < to->type->rank; axis++) {
            wanted[axis] = gpu_register_coord(to->type->layout, axis, r);
        }
        operand_coords(op, wanted, coords);
        int source = find_register(from->type->layout, coords);
        if (source < 0) {
            gpu_bug(em, op, "an element of the result that this thread does not hold");
        }
        out->regs[r] = in->regs[source];
    }
}

void gpu_emit_strip(GpuEmitter *em, const Op *op)
{
    const Value *from = op->operands[0], *to = op->results[0];
    GpuValue *in = gpu_value(em, from), *out = gpu_define(em, to);
    int axis = (int)op_int(op, ATTR_AXIS, 0), step = (int)op_int(op, ATTR_STEP, 0);
    for (int r = 0; r < out->n; r++) {
        int32_t coords[MAX_RANK];
        for (int i = 0; i < to->type->rank; i++) {
            coords[i] = gpu_register_coord(to->type->layout, i, r);
        }
        coords[axis] += step;
        if (gpu_exists(em, to->type, r)) {
            int source = find_register(from->type->layout, coords);
            LLVMValueRef moved = source < 0 ? NULL : in->regs[source];
            out->regs[r] = moved ? moved : LLVMGetPoison(LLVMTypeOf(in->regs[r]));
        }
    }
}

void gpu_renamed(GpuEmitter *em, const Op *op, Type from, const GpuValue *in, Type to,
                 GpuValue *out)
{
    if (from->layout == to->layout) {
        for (int r = 0; r < out->n; r++) {
            out->regs[r] = in->regs[r];
        }
        return;
    }
    if (!layout_is_noop_conversion(from->layout, to->layout)) {
        gpu_bug(em, op, "operands and results have layouts that move elements between threads");
    }
    for (int r = 0; r < out->n; r++) {
        int source = layout_source_register(from->layout, to->layout, (uint32_t)r);
        out->regs[r] = gpu_exists(em, to, r) ? in->regs[source] : NULL;
    }
}

/* ---- mask ---- */

LLVMValueRef gpu_skipped(GpuEmitter *em, Dim dim)
{
    const DimVar *range = poly_as_range(dim);
    const Value *binder = range ? range->binder : NULL;
    const Op *op = binder && binder->block ? binder->block->parent : NULL;
    if (!op || op_int(op, ATTR_ALIGNED, 1) == 1 ||
        binder->index + 1 != (uint32_t)op->regions[0]->n_args) {
        return NULL;
    }
    LLVMValueRef before = LLVMBuildNeg(em->builder, gpu_value(em, binder)->regs[0], "");
    return LLVMBuildTrunc(em->builder, before, em->i32, "");
}

/* i32: how many elements of a tile's axis exist. */
static LLVMValueRef axis_length(GpuEmitter *em, Type type, int axis)
{
    DimVar *range = poly_as_range(type->dims[axis]);
    if (!range) {
        return gpu_i32(em, gpu_extent(em, type, axis));
    }
    GpuValue *bounds = gpu_value(em, range->binder);
    LLVMValueRef length = LLVMBuildSub(em->builder, bounds->regs[1], bounds->regs[0], "");
    return LLVMBuildTrunc(em->builder, length, em->i32, "");
}

enum { MAX_PLACES = 32, MAX_ADJACENT = 16 /* another mask, which holds as many */ };

typedef struct Mask {
    const Op *op;
    const Layout *layout;
    int axis;
    LLVMValueRef length, remaining; /* i32: the length less the thread's part; NULL: not at hand */
} Mask;

static int places(const Mask *mask)
{
    int n = 1;
    for (int i = 0; i < mask->layout->bits[IN_REGISTER]; i++) {
        n *= mask->layout->basis[IN_REGISTER][i][mask->axis] ? 2 : 1;
    }
    return n;
}

/* Is register r's element inside? One comparison serves `vector` neighbours along the axis. */
static LLVMValueRef mask_inside(GpuEmitter *em, const Mask *mask, LLVMValueRef *known, int r)
{
    int axis = mask->axis, group = (int)op_int(mask->op, ATTR_VECTOR, 1);
    int at = gpu_register_coord(mask->layout, axis, r) / group;
    for (int i = 0; i < r; i++) {
        if (known[i] && gpu_register_coord(mask->layout, axis, i) / group == at) {
            return known[i];
        }
    }
    /* The register's coordinate is compared with the length, or with the length less the thread's
     * part. */
    LLVMValueRef index = mask->remaining
                             ? gpu_i32(em, gpu_register_coord(mask->layout, mask->axis, r))
                             : gpu_coord(em, mask->layout, mask->axis, r);
    LLVMValueRef inside = LLVMBuildICmp(em->builder, LLVMIntSLT, index,
                                        mask->remaining ? mask->remaining : mask->length, "");
    LLVMValueRef skipped = gpu_skipped(em, mask->op->results[0]->type->dims[axis]);
    if (!skipped) {
        return inside;
    }
    LLVMValueRef coord = gpu_coord(em, mask->layout, axis, r);
    return gpu_both(em, inside, LLVMBuildICmp(em->builder, LLVMIntSGE, coord, skipped, ""));
}

void gpu_emit_mask(GpuEmitter *em, const Op *op)
{
    const Value *result = op->results[0];
    DType dtype = result->type->dtype;
    LLVMValueRef neutral = llvm_number(em->l, dtype, gpu_type(em, dtype), op_attr(op, ATTR_VALUE));
    /* A compiler keeps the coordinates of a few registers live around a loop. For many registers
     * the thread's part is subtracted from the length instead, which leaves comparisons with
     * constants. */
    const Value *value = op->results[0];
    Mask mask = {.op = op, .layout = value->type->layout, .axis = (int)op_int(op, ATTR_AXIS, 0)};
    mask.length = axis_length(em, value->type, mask.axis);
    int most = value_def_of_kind(op->operands[0], OP_SELECT) ? MAX_ADJACENT : MAX_PLACES;
    if (gpu_is_disjoint(mask.layout, mask.axis) && places(&mask) > most) {
        LLVMValueRef part = gpu_thread_coord(em, mask.layout, mask.axis);
        mask.remaining = LLVMBuildSub(em->builder, mask.length, part, "");
    }
    GpuValue *in = gpu_value(em, op->operands[0]), *out = gpu_define(em, result);
    GpuValue mine = {.regs = ARENA_ARRAY(em->arena, LLVMValueRef, out->n), .n = out->n};
    LLVMValueRef *inside = ARENA_ARRAY(em->arena, LLVMValueRef, out->n);
    gpu_renamed(em, op, op->operands[0]->type, in, result->type, &mine);
    for (int r = 0; r < out->n; r++) {
        if (gpu_starts(em, result, out, r)) {
            inside[r] = mask_inside(em, &mask, inside, r);
            out->regs[r] = LLVMBuildSelect(em->builder, inside[r], mine.regs[r], neutral, "");
        }
    }
}
