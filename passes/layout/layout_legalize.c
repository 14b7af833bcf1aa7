/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the operands of every op the layout that the op needs. A value that a use needs in another
 * layout is converted without moving data if every thread already owns what it needs, recomputed if
 * it is cheap, or moved through shared memory:
 *
 *     %s = shared swizzle=128 : shared<f32[1, 64, 64]>      at the top of the launch
 *     barrier                                                    earlier readers of %s are done
 *     shared_store %s[%zero, :, :], %v
 *     barrier
 *     %w = shared_load %s[%zero, :, :] : f32[%m, %n]@L1 */
#include "passes/analysis/access_width.h"
#include "passes/analysis/axis_classes.h"
#include "passes/layout/assign_layouts.h"

#include <string.h>

static void set_layout(LayoutPass *pass, Value *value, const Layout *layout)
{
    value->type = type_with_layout(pass->func, value->type, layout);
}

/* ---- another layout for a value ---- */

static const Layout *operand_layout(LayoutPass *pass, const Op *op, const Layout *result)
{
    return layout_intern(pass, layout_of_operand(op, result));
}

/* Computes a cheap value again, in this layout, at the cursor. */
static Value *remade(LayoutPass *pass, Builder *b, Value *value, const Layout *layout)
{
    Op *op = value->def;
    Value *operands[3] = {0};
    for (int i = 0; i < op->n_operands; i++) {
        Value *operand = op->operands[i];
        bool spread = layout_spreads(operand);
        operands[i] = spread ? remade(pass, b, operand, operand_layout(pass, op, layout)) : operand;
    }
    CloneMap map = clone_map_new(pass->func);
    Op *copy = clone_op(b, &map, op);
    for (int i = 0; i < op->n_operands; i++) {
        op_set_operand(copy, i, operands[i]);
    }
    set_layout(pass, copy->results[0], layout);
    return copy->results[0];
}

static Value *through_shared(LayoutPass *pass, Builder *b, const Op *at, Value *value, Type to)
{
    Value *operands[MAX_RANK + 3] = {0};
    int n = 0;
    operands[n++] = layout_scratch(pass, at, value, to->layout, false);
    operands[n++] = build_int(b, type_scalar(pass->func, DT_I32), 0);
    n += value->type->rank; /* whole axes */
    operands[n] = value;
    build_op(b, OP_BARRIER, 0, NULL, 0, NULL, 0);
    build_op(b, OP_SHARED_STORE, n + 1, operands, 0, NULL, 0);
    build_op(b, OP_BARRIER, 0, NULL, 0, NULL, 0);
    return build_op(b, OP_SHARED_LOAD, n, operands, 1, &to, 0)->results[0];
}

/* `at`: the op that needs the layout; new ops are inserted at the cursor, directly before or after
 * it. */
static Value *with_layout(LayoutPass *pass, Builder *b, const Op *at, Value *value,
                          const Layout *layout)
{
    const Layout *has = value->type->layout;
    if (has == layout) {
        return value;
    }
    if (!has) {
        return remade(pass, b, value, layout);
    }
    Type to = type_with_layout(pass->func, value->type, layout);
    if (layout_is_noop_conversion(has, layout)) {
        return build_op(b, OP_CONVERT, 1, &value, 1, &to, 0)->results[0];
    }
    return through_shared(pass, b, at, value, to);
}

static void want(LayoutPass *pass, Op *op, int operand, const Layout *layout)
{
    Builder b = build_before(pass->func, op);
    if (layout_spreads(op->operands[operand])) {
        op_set_operand(op, operand, with_layout(pass, &b, op, op->operands[operand], layout));
    }
}

/* An operand that may have any layout, but needs one. */
static void want_any(LayoutPass *pass, Op *op, int operand)
{
    Value *value = op->operands[operand];
    if (!layout_spreads(value) || value->type->layout) {
        return;
    }
    int bits = dtype_memory_bits(value->type->dtype);
    int wide = layout_capped(pass, 8 * pass->func->target->vector_bytes / bits);
    int warps = layout_warps(pass, op->parent);
    Layout layout = layout_of_memory(pass, value->type, wide, bits, warps);
    want(pass, op, operand, layout_intern(pass, layout));
}

/* The op can only produce this layout; a conversion follows for users that expect another one. */
static void give_nth(LayoutPass *pass, Op *op, int nth, const Layout *layout)
{
    Value *result = op->results[nth];
    const Layout *expected = result->type->layout;
    if (expected == layout) {
        return;
    }
    set_layout(pass, result, layout);
    if (!expected) {
        return;
    }
    Builder b = build_after(pass->func, op);
    Op *before = op->next;
    Value *other = with_layout(pass, &b, op, result, expected);
    func_replace_uses(pass->func, result, other);
    for (Op *made = op->next; made != before; made = made->next) {
        for (int i = 0; i < made->n_operands; i++) {
            if (made->operands[i] == other) {
                op_set_operand(made, i, result);
            }
        }
    }
}

static void give(LayoutPass *pass, Op *op, const Layout *layout)
{
    give_nth(pass, op, 0, layout);
}

/* ---- products ---- */

/* A dot by fused multiply-adds reads its operands from shared memory. */
static void dot_operand_to_shared(LayoutPass *pass, Op *op, int at)
{
    Value *value = op->operands[at];
    Value *operands[2 * (MAX_RANK + 1) + 1] = {0};
    Value *store[5] = {0};
    want_any(pass, op, at);
    value = op->operands[at];
    Builder b = build_before(pass->func, op);
    store[0] = layout_scratch(pass, op, value, value->type->layout, true);
    store[1] = build_int(&b, type_scalar(pass->func, DT_I32), 0);
    store[4] = value;
    build_op(&b, OP_BARRIER, 0, NULL, 0, NULL, 0);
    build_op(&b, OP_SHARED_STORE, 5, store, 0, NULL, 0);
    build_op(&b, OP_BARRIER, 0, NULL, 0, NULL, 0);
    int n = 0;
    for (int i = 0; i < op->n_operands; i++) {
        if (i != at) {
            operands[n++] = op->operands[i];
            continue;
        }
        memcpy(&operands[n], store, sizeof(Value *) * 4);
        n += 4;
    }
    op_set_operands(pass->func, op, n, operands);
}

static void legalize_product(LayoutPass *pass, Op *op)
{
    const Layout *layout = layout_intern(pass, layout_of_product(pass, op));
    Layout left;
    bool registers = layout_of_left(pass, op, &left);
    for (int nth = 0; nth < 2; nth++) {
        Access access = op_access_nth(op, nth);
        if (access.n > 0) {
            continue;
        }
        if (registers && nth == 0) {
            want(pass, op, access.at, layout_intern(pass, left));
        } else {
            dot_operand_to_shared(pass, op, access.at);
        }
    }
    int acc = access_next(op, access_next(op, 0));
    if (acc < op->n_operands) {
        want(pass, op, acc, layout);
    }
    if (op->kind == OP_DOT_ASYNC) {
        set_layout(pass, op->results[0], layout); /* moved after the wait for the dot, if at all */
    } else {
        give(pass, op, layout);
    }
}

/* The result of a dot's wait has the layout of the dot. */
static void legalize_settle(LayoutPass *pass, Op *op)
{
    for (int i = 0; i < op->n_results; i++) {
        const Value *unsettled = op->operands[i];
        if (unsettled->def && unsettled->def->kind == OP_DOT_ASYNC) {
            give_nth(pass, op, i, unsettled->type->layout);
        } else {
            want(pass, op, i, op->results[i]->type->layout);
        }
    }
}

/* ---- reductions ---- */

/* Reductions across warps exchange a power of two of partial results. If some of those warps do not
 * exist (three warp groups, say), the elements are distributed over fewer warps. */
static const Layout *exchanged(LayoutPass *pass, const Op *op, const Layout *from, int axis)
{
    Type type = op->operands[0]->type;
    int warps = layout_warps(pass, op->parent);
    if (!layout_crosses(from, IN_WARP, axis) || 1 << from->bits[IN_WARP] <= warps) {
        return from;
    }
    int bits = dtype_memory_bits(type->dtype);
    return layout_intern(pass, layout_of_memory(pass, type, 1, bits, warps));
}

static void legalize_reduce(LayoutPass *pass, Op *op)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    want_any(pass, op, 0);
    const Layout *from = exchanged(pass, op, op->operands[0]->type->layout, axis);
    want(pass, op, 0, from);
    give(pass, op, layout_intern(pass, layout_drop_axis(from, axis)));
    if (!layout_crosses(from, IN_WARP, axis) || op->n_operands > 1) {
        return;
    }
    Value *operands[4] = {op->operands[0], layout_reduce_scratch(pass, op), NULL, NULL};
    op_set_operands(pass->func, op, 4, operands);
}

static void legalize_cluster_reduce(LayoutPass *pass, Op *op)
{
    want_any(pass, op, 0);
    give(pass, op, op->operands[0]->type->layout);
    if (op->n_operands == 1) {
        Value *tile = tile_loop_ring_index(op_enclosing(op, OP_TILE_LOOP));
        Value *operands[5] = {op->operands[0], layout_cluster_scratch(pass, op, tile ? 2 : 1)};
        operands[2] = tile;
        op_set_operands(pass->func, op, tile ? 5 : 4, operands);
    }
}

/* The load has the layout that the users of its result expect. */
static void legalize_cluster_scatter(LayoutPass *pass, Op *op)
{
    want_any(pass, op, 0);
    if (op->n_operands == 1) {
        Value *memory = layout_scatter_scratch(pass, op);
        Value *operands[6] = {op->operands[0], memory};
        op_set_operands(pass->func, op, 2 + memory->type->rank, operands);
    }
}

/* ---- scans and folds ---- */

/* The layout of the first operand that has one. */
static const Layout *folded_layout(LayoutPass *pass, Op *op)
{
    for (int i = 0; i < op->n_results; i++) {
        if (op->operands[i]->type->layout) {
            return op->operands[i]->type->layout;
        }
    }
    want_any(pass, op, 0);
    return op->operands[0]->type->layout;
}

static void legalize_fold(LayoutPass *pass, Op *op)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    bool scan = op->kind == OP_SCAN || op_int(op, ATTR_SCAN, 0) != 0;
    const Layout *layout = exchanged(pass, op, folded_layout(pass, op), axis);
    const Layout *to = scan ? layout : layout_intern(pass, layout_drop_axis(layout, axis));
    bool has_scratch = op->n_operands > (op->kind == OP_SCAN ? 1 : 2 * op->n_results);
    for (int i = 0; i < op->n_results; i++) {
        want(pass, op, i, layout);
        give_nth(pass, op, i, to);
    }
    if (layout_crosses(layout, IN_WARP, axis) && !has_scratch) {
        /* The scratch buffer becomes the last access, a whole one without indices. */
        int n = op->n_operands;
        Value **operands = ARENA_ARRAY(pass->func->arena, Value *, n + 3);
        memcpy(operands, op->operands, sizeof(Value *) * (size_t)n);
        operands[n] = layout_fold_scratch(pass, op);
        op_set_operands(pass->func, op, n + 3, operands);
    }
}

/* ---- histogram, rank, tile_scatter ---- */

static void add_scratch(LayoutPass *pass, Op *op, int plain)
{
    Value *operands[MAX_TABLES + 4] = {NULL};
    if (op->n_operands == plain) {
        memcpy(operands, op->operands, sizeof *operands * (size_t)plain);
        operands[plain] = layout_rank_scratch(pass, op); /* and whole axes of it */
        op_set_operands(pass->func, op, plain + 3, operands);
    }
}

/* The value's layout; if it has none, that of an access. */
static const Layout *some_layout(LayoutPass *pass, const Op *op, Type type)
{
    int bits = dtype_memory_bits(type->dtype), warps = layout_warps(pass, op->parent);
    return type->layout ? type->layout
                        : layout_intern(pass, layout_of_memory(pass, type, 1, bits, warps));
}

static void legalize_histogram(LayoutPass *pass, Op *op)
{
    want_any(pass, op, 0);
    give(pass, op, some_layout(pass, op, op->results[0]->type));
    add_scratch(pass, op, 1);
}

/* Digits must be in order along the axis; small tables may have any layout. */
static void legalize_rank(LayoutPass *pass, Op *op)
{
    int warps = layout_warps(pass, op->parent);
    Layout in_order = layout_in_order(pass, op->results[0]->type, warps);
    const Layout *layout = layout_intern(pass, in_order);
    want(pass, op, 0, layout);
    for (int i = 0; i < op->n_results; i++) {
        want_any(pass, op, i + 1);
        give_nth(pass, op, i, layout);
    }
    add_scratch(pass, op, op->n_results + 1);
}

static void legalize_arrange(LayoutPass *pass, Op *op)
{
    const Layout *layout = op->operands[1]->type->layout;
    layout = layout ? layout : some_layout(pass, op, op->operands[0]->type);
    want(pass, op, 0, layout);
    want(pass, op, 1, layout);
    give(pass, op, some_layout(pass, op, op->results[0]->type));
    add_scratch(pass, op, 2);
}

static void legalize_lookup(LayoutPass *pass, Op *op)
{
    const Layout *layout = some_layout(pass, op, op->results[0]->type);
    want_any(pass, op, 0);
    want(pass, op, 1, layout);
    give(pass, op, layout);
    add_scratch(pass, op, 2);
}

/* ---- memory ---- */

static void legalize_load(LayoutPass *pass, Op *op)
{
    Type type = op->results[0]->type;
    const Layout *better =
        type->layout ? layout_coalesced_instead(pass, op, type, type->layout) : NULL;
    if (better) {
        give(pass, op, better);
    }
}

/* The same with registers numbered so that neighbours along the last axis follow one another, as
 * accesses take them: those of a product that is made as its transpose are rows. */
static const Layout *runs_first(LayoutPass *pass, const Layout *layout)
{
    Layout runs = *layout;
    int axis = layout->rank - 1, n = 0;
    if (layout_contiguous(layout, axis) > 1 || pass->func->target->family != FAMILY_NVPTX) {
        return layout; /* wide enough; AMD's scalar registers spill with wider ones (attention) */
    }
    for (int bit = 0; bit < runs.bits[IN_REGISTER]; bit++) {
        int32_t *moved = runs.basis[IN_REGISTER][bit];
        bool next = moved[axis] == 1 << n;
        for (int i = 0; i < axis; i++) {
            next = next && moved[i] == 0;
        }
        if (next) {
            int32_t basis[MAX_RANK];
            memcpy(basis, moved, sizeof basis);
            memmove(runs.basis[IN_REGISTER][n + 1], runs.basis[IN_REGISTER][n],
                    sizeof basis * (size_t)(bit - n));
            memcpy(runs.basis[IN_REGISTER][n++], basis, sizeof basis);
            bit = n - 1; /* the next one may be among the bits that were shifted */
        }
    }
    return n == 0 || layout_equal(&runs, layout) ? layout : layout_intern(pass, runs);
}

static void legalize_shared_store(LayoutPass *pass, Op *op)
{
    int at = op->n_operands - 1;
    want_any(pass, op, at);
    if (op->operands[at]->type->layout) {
        want(pass, op, at, runs_first(pass, op->operands[at]->type->layout));
    }
}

static void legalize_store(LayoutPass *pass, Op *op)
{
    int at = op->n_operands - 1;
    legalize_shared_store(pass, op);
    Type type = op->operands[at]->type;
    const Layout *better =
        type->layout ? layout_coalesced_instead(pass, op, type, type->layout) : NULL;
    if (better) {
        want(pass, op, at, better);
    }
}

/* ---- gathers and scatters ---- */

static void legalize_gather(LayoutPass *pass, Op *op)
{
    const Layout *layout = op->results[0]->type->layout;
    for (int i = 1; layout && i < op->n_operands; i++) {
        want(pass, op, i, layout);
    }
}

/* The layout of an operand that has one: indices and masks are often rematerializable values, which
 * have none. */
static const Layout *effect_layout(LayoutPass *pass, const Op *op, const Value *value)
{
    const Op *loop = op_enclosing(op, OP_WHILE);
    while (loop && !layout_spreads(loop->regions[0]->last->operands[0])) {
        loop = op_enclosing(loop, OP_WHILE);
    }
    if (loop) { /* the loop decides for each element whether it takes effect */
        return loop->results[0]->type->layout;
    }
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        if (layout_spreads(operand) && operand->type->layout) {
            return operand->type->layout;
        }
    }
    int bits = dtype_memory_bits(value->type->dtype);
    int warps = layout_warps(pass, op->parent);
    return layout_intern(pass, layout_of_memory(pass, value->type, 1, bits, warps));
}

/* scatter, print and assert: each element is handled alone. */
static void legalize_effect(LayoutPass *pass, Op *op)
{
    const Value *value = axes_written(op);
    if (!layout_spreads(value)) {
        return;
    }
    const Layout *layout = effect_layout(pass, op, value);
    for (int i = 0; i < op->n_operands; i++) {
        want(pass, op, i, layout);
    }
    if (op->n_results) {
        give_nth(pass, op, 0, layout);
    }
}

/* ---- all ops ---- */

static void legalize_yield(LayoutPass *pass, Op *op)
{
    const Op *parent = op->parent->parent;
    for (int i = 0; parent && i < op->n_operands; i++) {
        if (layout_spreads(op->operands[i])) {
            want(pass, op, i, parent->results[i]->type->layout);
        }
    }
}

static void legalize_inits(LayoutPass *pass, Op *op, int first)
{
    for (int i = 0; i < op->n_results; i++) {
        want(pass, op, first + i, op->results[i]->type->layout);
    }
}

static void legalize_same(LayoutPass *pass, Op *op)
{
    if (!layout_spreads(op->results[0])) {
        return;
    }
    const Layout *layout = operand_layout(pass, op, op->results[0]->type->layout);
    for (int i = 0; i < op->n_operands; i++) {
        want(pass, op, i, layout);
    }
}

static void legalize_op(LayoutPass *pass, Op *op)
{
    switch (op->kind) {
    case OP_FOR: legalize_inits(pass, op, 2); return;
    case OP_TILE_LOOP:
    case OP_WHILE: legalize_inits(pass, op, 0); return;
    case OP_DOT_WAIT: legalize_settle(pass, op); return;
    case OP_YIELD: legalize_yield(pass, op); return;
    case OP_DOT:
    case OP_DOT_ASYNC: legalize_product(pass, op); return;
    case OP_REDUCE: legalize_reduce(pass, op); return;
    case OP_CLUSTER_REDUCE: legalize_cluster_reduce(pass, op); return;
    case OP_CLUSTER_REDUCE_SCATTER: legalize_cluster_scatter(pass, op); return;
    case OP_SCAN:
    case OP_FOLD: legalize_fold(pass, op); return;
    case OP_HISTOGRAM: legalize_histogram(pass, op); return;
    case OP_RANK: legalize_rank(pass, op); return;
    case OP_TILE_SCATTER: legalize_arrange(pass, op); return;
    case OP_LOOKUP: legalize_lookup(pass, op); return;
    case OP_GATHER:
    case OP_SPIN_LOAD: legalize_gather(pass, op); return;
    case OP_PRINT:
    case OP_ASSERT:
    case OP_SCATTER: legalize_effect(pass, op); return;
    case OP_LOAD: legalize_load(pass, op); return;
    case OP_STORE: legalize_store(pass, op); return;
    case OP_SHARED_STORE: legalize_shared_store(pass, op); return;
    case OP_SQUEEZE:
        if (!layout_spreads(op->results[0])) {
            want_any(pass, op, 0);
            return;
        }
        legalize_same(pass, op);
        return;
    default: break;
    }
    if (op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_MASK || op->kind == OP_BROADCAST ||
        op->kind == OP_EXPAND || op->kind == OP_PERMUTE) {
        legalize_same(pass, op);
    }
}

/* Rematerializable values have no layout: each use has computed its own copy, and the original is
 * removed. */
static bool is_left_behind(const Op *op)
{
    return op->n_results == 1 && layout_spreads(op->results[0]) &&
           layout_is_cheap(op->results[0]) && !op->results[0]->type->layout;
}

void layout_legalize(LayoutPass *pass)
{
    for (size_t i = 0; i < pass->ops.n; i++) {
        if (!is_left_behind(pass->ops.items[i])) {
            legalize_op(pass, pass->ops.items[i]);
        }
    }
    func_remove_dead(pass->func);
}
