/* SPDX-License-Identifier: Apache-2.0 */
/* swap_ab: computes a dot as its transpose where that tiles better or the instruction requires it.
 *
 *   %p = dot %a, %b : f32[M, N]          %t = permute %a perm=[1, 0]; %u = permute %b perm=[1, 0]
 *   store %y[:, :], %p             →     %q = dot %u, %t : f32[N, M]
 *                                        %p = permute %q perm=[1, 0] : f32[M, N]
 *                                        store %y[:, :], %p
 *
 * wgmma tiles have a multiple of 64 rows but a multiple of 8 columns: 300 rows are padded to 320 or
 * 384, 300 columns to 304. The wave model (analysis/wave_model.h) prices both forms. wgmma reads a
 * 32-bit (tf32) right operand only with k contiguous but a left one also from registers, so `a @ b`
 * is computed swapped. It upcasts a 4-bit operand only as a left operand in registers, so `x @ w.T`
 * is computed swapped; warp-level instructions upcast either operand, but are slower.
 *
 * The result passes through shared memory, where it is written transposed element by element, so
 * the epilogue must be element-wise. Requires the tensor level. Changes bits only by the
 * association order of another instruction. */
#include "ir/build.h"
#include "ir/layout/matrix_instr.h"
#include "ir/nominal_sizes.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/access_width.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/analysis/dot_model_inputs.h"
#include "passes/pass.h"

enum {
    MAX_ROWS = 64,    /* a tile's least: what has no more is bound by memory */
    MIN_GAIN = 10,    /* percent: the model may be wrong by as much */
    NARROW_ROWS = 32, /* that single warps multiply as fast, of a narrow right operand */
    TURNED_STORE = 1, /* more operations of an element: two of 16 bits do not leave together */
};

typedef struct Swap {
    Func *func;
    const Op *dot;
    bool *turned; /* by value id: the product, or made of it element by element */
    int ops;
    bool alone; /* the only product, and all that reads it is element by element */
} Swap;

/* ---- what is done with the product ---- */

static bool is_turned(const Swap *s, const Value *value)
{
    return value && s->turned[value->id];
}

/* The same for whole rows or columns, or for all. */
static bool is_spread(const Value *value)
{
    const Op *op = value->def;
    return value->type->kind != TYPE_ARRAY || value->type->rank == 0 ||
           (op && (op->kind == OP_BROADCAST || op->kind == OP_CONST));
}

static void follow(Op *op, void *user)
{
    Swap *s = user;
    bool reads = false, others = true;
    s->alone &= op->kind != OP_DOT || op == s->dot;
    for (int i = 0; i < op->n_operands; i++) {
        reads |= is_turned(s, op->operands[i]);
        others &= !op->operands[i] || is_turned(s, op->operands[i]) || is_spread(op->operands[i]);
    }
    if (!reads || op == s->dot) {
        return;
    }
    bool element = op_has(op, TRAIT_ELEMENTWISE) && others;
    s->alone &= element || op->kind == OP_STORE;
    s->ops += element && op->kind != OP_CAST;
    for (int i = 0; i < op->n_results; i++) {
        s->turned[op->results[i]->id] = true;
    }
}

static bool is_alone(Swap *s)
{
    s->turned = ARENA_ARRAY(s->func->arena, bool, s->func->n_values + 1);
    s->alone = true;
    s->turned[s->dot->results[0]->id] = true;
    func_walk(s->func, follow, s);
    return s->alone;
}

/* ---- both ways ---- */

static const Op *load_of(const Value *value, bool *turned)
{
    const Op *op = value->def;
    *turned = false;
    while (op && (op->kind == OP_PERMUTE || op->kind == OP_TF32)) {
        *turned ^= op_permutes_axes(op);
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_LOAD ? op : NULL;
}

static bool measure(const Func *func, const Op *dot, DotProblem *plain, DotProblem *swapped)
{
    Type a = dot->operands[0]->type, c = dot->results[0]->type;
    bool turned[2] = {false, false};
    int lines[2];
    for (int side = 0; side < 2; side++) {
        const Op *load = load_of(dot->operands[side], &turned[side]);
        load = load ? load : an_operand_load(func, dot, side);
        if (!load) {
            return false;
        }
        Access access = op_access(load, 0);
        if (access.n != 2 || access.memory->type->kind != TYPE_TENSOR || !an_tma_rows(&access)) {
            return false;
        }
        lines[side] = product_lines(&access);
    }
    int64_t m = poly_nominal(c->dims[0]), n = poly_nominal(c->dims[1]);
    int64_t k = poly_nominal(a->dims[1]);
    int bytes = dtype_bytes(a->dtype);
    *plain = (DotProblem){.m = m,
                          .n = n,
                          .k = k,
                          .batch = 1,
                          .taps = 1,
                          .n_multiple = product_columns(!turned[1], bytes),
                          .a_lines = lines[0],
                          .b_lines = lines[1],
                          .can_split_k = true,
                          .can_tail = true,
                          .is_nominal = poly_is_nominal(c->dims[0]) || poly_is_nominal(c->dims[1]),
                          .can_multicast = true,
                          .dots = 1,
                          .bytes = bytes};
    *swapped = *plain;
    swapped->m = n;
    swapped->n = m;
    swapped->n_multiple = product_columns(turned[0], bytes);
    swapped->a_lines = lines[1];
    swapped->b_lines = lines[0];
    return true;
}

/* Percent of time that the transpose takes less; 0: it is not known, or not asked. */
static double gain_of(const Func *func, const DotProblem *plain, const DotProblem *swapped)
{
    int64_t m = plain->m, n = plain->n, k = plain->k;
    bool known = m > MAX_ROWS && n > MAX_ROWS && k > 0 && m <= PRODUCT_MAX && n <= PRODUCT_MAX &&
                 k <= PRODUCT_MAX;
    if (!known || schedule_has_user_entry(func, "tile")) {
        return 0;
    }
    const Machine *rates = func->target->machine;
    double one = wave_model_choose(func->target, rates, plain).cycles;
    double other = wave_model_choose(func->target, rates, swapped).cycles;
    return 100 * (1 - other / one);
}

/* The unit of warp groups that multiplies the transpose, of whose left operand, narrow along k,
 * threads widen elements; NULL: there is none, or no need. */
static const MatrixInstr *unit_that_widens(const Func *func, const Op *dot)
{
    ScaledDot found;
    Type c = dot->results[0]->type;
    if (c->rank != 2 || dot->n_operands != 2 || !func->target->has_bulk_copy ||
        !an_scaled_dot(func, dot, &found) ||
        mma_find(func->target, "wgmma", found.left, found.right, DT_F32)) {
        return NULL;
    }
    const FactorSide *right = &found.sides[1];
    return right->along_k == right->narrow->type->rank - 1
               ? mma_find(func->target, "wgmma", found.right, found.left, DT_F32)
               : NULL;
}

/* The unit of warp groups that multiplies it, if its operands lie well. */
static const MatrixInstr *unit_for(const Func *func, const Op *dot)
{
    Type a = dot->operands[0]->type, b = dot->operands[1]->type, c = dot->results[0]->type;
    bool plain = c->rank == 2 && dot->n_operands == 2 && c->dtype == DT_F32;
    bool rounded = an_rounded(dot);
    if (!plain || !func->target->has_bulk_copy) {
        return NULL;
    }
    return mma_find(func->target, "wgmma", rounded ? DT_TF32 : a->dtype,
                    rounded ? DT_TF32 : b->dtype, DT_F32);
}

/* Does the unit take the right operand where k is contiguous alone, which it is in the left one? */
static bool is_swapped(const MatrixInstr *unit, const Op *dot)
{
    bool turned[2];
    bool loads = load_of(dot->operands[0], &turned[0]) && load_of(dot->operands[1], &turned[1]);
    return mma_can_read_a(unit) && loads && !turned[0] && !turned[1];
}

static void swap(Func *func, Op *dot)
{
    static const int64_t TURN[] = {1, 0};
    Builder b = build_before(func, dot);
    b.span = dot->span;
    Value *left = build_permute(&b, dot->operands[1], TURN);
    Value *right = build_permute(&b, dot->operands[0], TURN);
    Value *product = build_dot(&b, left, right, NULL, DT_F32);
    Value *turned = build_permute(&b, product, TURN);
    func_replace_uses(func, dot->results[0], turned);
    op_remove(dot);
}

/* More rows than single warps share widened elements for: from this many on groups are faster. */
static void swap_narrow(Func *func, Op *dot, int64_t rows)
{
    bool pays = rows > NARROW_ROWS && rows <= PRODUCT_MAX;
    const char *reason =
        pays ? "warp groups multiply faster, and widen a left operand alone"
             : "so few rows are multiplied as fast by single warps, which widen either operand";
    if (schedule_decide_on(func, "swap_ab", pays, "%s", reason)) {
        swap(func, dot);
    }
}

static void find_dot(Op *op, void *user)
{
    Op **dot = user;
    *dot = op->kind == OP_DOT ? op : *dot;
}

void pass_swap_ab(Func *func)
{
    Op *dot = NULL;
    DotProblem plain, swapped;
    func_walk(func, find_dot, &dot);
    Swap s = {.func = func, .dot = dot};
    bool may = dot && func->target;
    const MatrixInstr *unit = may ? unit_for(func, dot) : NULL, *widens = NULL;
    if (may && !unit) {
        unit = widens = unit_that_widens(func, dot);
    }
    bool is_transposed = unit && is_swapped(unit, dot);
    if (!unit || (unit->smem_k_major_only && !is_transposed) || !is_alone(&s) ||
        !measure(func, dot, &plain, &swapped)) {
        return;
    }
    if (widens) {
        swap_narrow(func, dot, plain.m);
        return;
    }
    plain.epilogue_ops = s.ops;
    swapped.epilogue_ops = s.ops + TURNED_STORE;
    double gain = is_transposed ? 0 : gain_of(func, &plain, &swapped);
    bool wide = is_transposed && plain.n > MAX_ROWS;
    bool pays = wide || gain > MIN_GAIN;
    const char *reason = "tiles of the transpose would not fill the device better";
    if (wide) {
        reason =
            "the matrix unit of warp groups takes the right operand along k alone, as the left "
            "one lies";
    } else if (pays) {
        reason = "tiles of the transpose fill the device better: %.0f %% less time is expected";
    }
    if (schedule_decide_on(func, "swap_ab", pays, reason, gain)) {
        swap(func, dot);
    }
}
