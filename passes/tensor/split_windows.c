/* SPDX-License-Identifier: Apache-2.0 */
/* split_windows: computes a convolution over the windows that pool its result.
 *
 *   in %v: tensor<bf16[N, P, Q, R, S, C]>        in %v: tensor<bf16[N, U, V, 2, 2, R, S, C]>
 *       im2col %x [1, 1, 0] [1, 1, 0]                im2col %x [2, 1, 0, 1] [2, 1, 0, 1]
 *   %d = sum over r, s, c of %v * %w             %d = sum over r, s, c of %v * %w
 *            : f32[N, P, Q, O]              →             : f32[N, U, V, 2, 2, O]
 *   %g = gather %d[%n, 2 * %u + %i,              %y = max of %d over i, j
 *                  2 * %v + %j, %o]
 *   %y = max of %g over i, j
 *
 * A pooling window reads the convolution's result at computed indices, so the whole result would go
 * through memory. Instead, the convolution is computed over the windows and the positions inside of
 * a window. The latter are batch axes of the dot: `fuse` lets the launch of the dot reduce them
 * (passes/fuse/fuse_split_products.c), and only one result per window is stored. Applies to windows
 * that do not overlap, so that nothing is computed twice, of convolutions whose input im2col_view
 * has made a view, within the limits of TMA's descriptors, where nothing else reads the convolution
 * and there are windows enough for all multiprocessors. Requires the tensor level. Reassociates the
 * reduction of a window. */
#include "ir/layout/matrix_instr.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/im2col_limits.h"
#include "passes/pass.h"
#include "passes/tensor/reindex.h"
#include "support/int_math.h"

enum {
    MAX_WINDOW = 64,      /* elements of a window: a block multiplies them one after the other */
    TILE_ELEMENTS = 8192, /* of what a block leaves of windows, at least */
};

/* How a gather reads an array: each axis of its result is a position or a place in a window. */
typedef struct Pooling {
    Op *gather;
    unsigned inner; /* axes of its result that are places in windows */
    int64_t window; /* elements of one */
} Pooling;

/* ---- which gathers pool ---- */

/* The axes of the gather's result, one or two, of which the index is a sum. */
typedef struct IndexAxes {
    int outer, inner; /* of two the one with the greater step, and the other; -1: there is none */
    int64_t steps[2];
} IndexAxes;

static bool find_axes(const Affine *map, const Instance *own, IndexAxes *found)
{
    *found = (IndexAxes){.outer = -1, .inner = -1};
    if (!map_is_sum(map) || map->n < 1 || map->n > 2) {
        return false;
    }
    for (int i = 0, n = 0; i < own->value->type->rank; i++) {
        int64_t coef;
        if (!map_coef(map, map_as_axis(own->at[i]), &coef) || coef < 0) {
            return false;
        }
        if (coef && n++ == 0) {
            found->outer = i;
            found->steps[0] = coef;
        } else if (coef) {
            bool greater = coef > found->steps[0];
            found->inner = greater ? found->outer : i;
            found->steps[1] = greater ? found->steps[0] : coef;
            found->outer = greater ? i : found->outer;
            found->steps[0] = greater ? coef : found->steps[0];
        }
    }
    return (found->outer >= 0) + (found->inner >= 0) == map->n;
}

/* Are all indices sums of axes of their own, with windows that do not overlap? */
static bool find_pooling(Computations *all, Op *gather, Pooling *pooling)
{
    Instance own = computations_own(all, gather->results[0]);
    Type type = gather->results[0]->type;
    unsigned seen = 0;
    *pooling = (Pooling){.gather = gather, .window = 1};
    for (int i = 0; i < gather->operands[0]->type->rank; i++) {
        const Affine *map = computations_map(all, gather->operands[1 + i], own.at);
        IndexAxes axes;
        int64_t extent = 1;
        if (!find_axes(map, &own, &axes)) {
            return false;
        }
        unsigned bits = 1u << axes.outer | (axes.inner >= 0 ? 1u << axes.inner : 0);
        if (axes.inner >= 0) {
            pooling->inner |= 1u << axes.inner;
            if (!poly_is_const(type->dims[axes.inner], &extent) ||
                mul_sat(extent - 1, axes.steps[1]) >= axes.steps[0]) {
                return false;
            }
        }
        if (seen & bits) {
            return false;
        }
        seen |= bits;
        pooling->window = mul_sat(pooling->window, extent);
    }
    return pooling->inner && seen == an_all_axes(type);
}

/* Is all that is made of the gather made of its windows' reductions? */
static bool reduces_windows(const Func *func, const Pooling *pooling)
{
    const Value *value = pooling->gather->results[0];
    int axes[MAX_RANK];
    unsigned left = pooling->inner;
    for (int i = 0; i < value->type->rank; i++) {
        axes[i] = i;
    }
    while (left) {
        const ValueUse *use = use_first(value, func->body);
        const Op *op = use && !use_next(use, func->body) ? use->op : NULL;
        int axis = op ? (int)op_int(op, ATTR_AXIS, 0) : 0;
        if (!op || op->parent != func->body) {
            return false;
        }
        if (op->kind == OP_REDUCE && op->n_operands == 1 && (left >> axes[axis] & 1)) {
            left &= ~(1u << axes[axis]);
        } else if (op->kind == OP_SQUEEZE) {
            for (int i = axis; i + 1 < value->type->rank; i++) {
                axes[i] = axes[i + 1];
            }
        } else if (op->kind != OP_CAST) {
            return false;
        }
        value = op->results[0];
    }
    return true;
}

/* ---- of which convolutions ---- */

/* Is the value made of a view, element by element and by sums? Keeps the answer for all values that
 * it looks at. */
static bool is_of_view(const Func *func, Memo *made, const Value *value)
{
    const Op *op = value->def;
    int64_t known;
    if (!op || value->type->kind != TYPE_ARRAY) {
        return false;
    }
    if (memo_known(made, value, 0, &known)) {
        return known != 0;
    }
    if (op->kind == OP_LOAD) {
        return memo_keep(made, value, 0, func_im2col_of(func, op->operands[0]) != NULL) != 0;
    }
    bool sum = op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "sum");
    bool follows = sum || op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE), found = false;
    for (int i = 0; follows && i < op->n_operands; i++) {
        found = is_of_view(func, made, op->operands[i]) || found;
    }
    return memo_keep(made, value, 0, found) != 0;
}

/* Does all that is made of views below the gather go through it? Otherwise the convolution would be
 * computed twice. */
static bool is_bottleneck(const Func *func, const Memo *made, const Op *gather)
{
    int64_t of_view, known;
    for (const Op *op = func->body->first; op; op = op->next) {
        const Value *value = op->n_results == 1 ? op->results[0] : NULL;
        bool between = value && op->kind != OP_LOAD && memo_known(made, value, 0, &of_view) &&
                       of_view != 0;
        const ValueUse *use = between ? use_first(value, func->body) : NULL;
        for (; use; use = use_next(use, func->body)) {
            const Op *user = use->op;
            if (user != gather &&
                (user->n_results != 1 || !memo_known(made, user->results[0], 0, &known))) {
                return false;
            }
        }
    }
    return true;
}

/* Do the windows fill the device with tiles? */
static bool are_many(const Func *func, const Pooling *pooling)
{
    Type type = pooling->gather->results[0]->type;
    int64_t n = 1, machines = func->target->machine->num_sms;
    for (int i = 0; i < type->rank; i++) {
        n = pooling->inner >> i & 1 ? n : mul_sat(n, poly_nominal(type->dims[i]));
    }
    return n / TILE_ELEMENTS >= machines;
}

/* ---- views ---- */

/* An axis of the gather's result for each axis of a view with windows, in their order. */
typedef struct SplitView {
    Im2colView view;
    Dim positions[MAX_SPATIAL], inners[MAX_SPATIAL], taps[MAX_SPATIAL];
    int axes[MAX_RANK], n;
} SplitView;

/* The axis of the gather's result that the index is, from the first element on; -1: others. */
static int whole_axis(Computations *all, const Op *gather, const Instance *own, int index)
{
    const Affine *map = computations_map(all, gather->operands[1 + index], own->at);
    const Axis *axis = map ? map_as_axis(map) : NULL;
    for (int i = 0; axis && i < own->value->type->rank; i++) {
        bool same = own->value->type->dims[i] == gather->operands[0]->type->dims[index];
        if (map_as_axis(own->at[i]) == axis) {
            return same ? i : -1;
        }
    }
    return -1;
}

/* Positions of the view along a spatial axis as positions of windows and places in them. */
static bool split_positions(Computations *all, const Op *gather, const Instance *own, int i,
                            SplitView *split, int *axes)
{
    Func *func = all->space.func;
    const Affine *map = computations_map(all, gather->operands[2 + i], own->at);
    IndexAxes found;
    if (!find_axes(map, own, &found)) {
        return false;
    }
    int64_t stride = split->view.axes[i].stride;
    Dim base = poly_mul(func, map->base, poly_const(func, stride));
    base = base ? poly_add(func, base, split->view.axes[i].offset) : NULL;
    if (!base || split->view.axes[i].inner) {
        return false;
    }
    split->view.axes[i].offset = base;
    split->view.axes[i].stride = mul_sat(stride, found.steps[0]);
    split->view.axes[i].inner = found.inner >= 0 ? mul_sat(stride, found.steps[1]) : 0;
    split->positions[i] = own->value->type->dims[found.outer];
    split->inners[i] = found.inner >= 0 ? own->value->type->dims[found.inner] : NULL;
    axes[0] = found.outer;
    axes[1] = found.inner;
    return true;
}

/* The view of which the gather reads all elements; false: it reads others, or the engine cannot
 * walk it. */
static bool find_split_view(Computations *all, const Op *gather, SplitView *split)
{
    Func *func = all->space.func;
    const Value *memory = gather->operands[0];
    Instance own = computations_own(all, gather->results[0]);
    int positions[MAX_SPATIAL][2], n = 0, at;
    *split = (SplitView){.view = *func_im2col_of(func, memory)};
    bool good = true;
    split->axes[n++] = whole_axis(all, gather, &own, 0);
    for (int i = 0; i < split->view.n && good; i++) {
        good = split_positions(all, gather, &own, i, split, positions[i]);
        split->axes[n++] = good ? positions[i][0] : -1;
    }
    for (int i = 0; i < split->view.n && good; i++) {
        split->axes[n] = positions[i][1];
        n += split->view.axes[i].inner > 0;
    }
    at = 1 + split->view.n;
    for (int i = 0; i < split->view.n && good; i++) {
        if (split->view.axes[i].dilation) {
            split->taps[i] = memory->type->dims[at];
            split->axes[n++] = whole_axis(all, gather, &own, at++);
        }
    }
    split->axes[n++] = whole_axis(all, gather, &own, at);
    split->n = n;
    for (int i = 0; i < n && good; i++) {
        good = split->axes[i] >= 0;
    }
    Type source = im2col_source_type(func, &split->view);
    for (int i = 0; i < split->view.n && good; i++) {
        Im2colExtents extents = {source->dims[1 + i], split->positions[i], split->inners[i],
                                 split->taps[i]};
        good = an_im2col_steps(&split->view, i) && an_im2col_fits(func, &split->view, i, &extents);
    }
    return good && n == gather->results[0]->type->rank;
}

static void load_split_view(Func *func, Op *gather, const SplitView *split)
{
    int64_t perm[MAX_RANK];
    for (int i = 0; i < split->n; i++) {
        perm[split->axes[i]] = i;
    }
    Builder b = build_before(func, gather);
    b.span = gather->span;
    Value *view =
        func_im2col_view(func, &split->view, split->positions, split->inners, split->taps);
    Value *value = build_permute(&b, build_load(&b, view, WHOLE), perm);
    value->name = gather->results[0]->name;
    func_replace_uses(func, gather->results[0], value);
    op_remove(gather);
}

/* The next gather of a view between the ops, `op` among them; NULL: there is none. */
static Op *gather_of_view(const Func *func, Op *op, const Op *last)
{
    while (op != last && !(op->kind == OP_GATHER && func_im2col_of(func, op->operands[0]))) {
        op = op->next;
    }
    return op == last ? NULL : op;
}

static bool find_view(Func *func, const Op *gather, SplitView *split)
{
    Computations *all = computations_open(func);
    bool good = find_split_view(all, gather, split);
    computations_close(all);
    return good;
}

/* Could all gathers of views between the ops be loads? */
static bool are_views(Func *func, Op *first, const Op *last)
{
    int n = 0;
    for (Op *op = first; (op = gather_of_view(func, op, last)); op = op->next, n++) {
        SplitView split;
        if (!find_view(func, op, &split)) {
            return false;
        }
    }
    return n > 0;
}

static void load_views(Func *func, Op *first, const Op *last)
{
    for (Op *op = first, *next; (op = gather_of_view(func, op, last)); op = next) {
        SplitView split;
        next = op->next;
        if (find_view(func, op, &split)) {
            load_split_view(func, op, &split);
        }
    }
}

/* ---- the program ---- */

/* The elements that the gather reads, over the axes of its result; NULL: they cannot be said so. */
static Value *windows_of(Func *func, Op *gather)
{
    Type type = gather->results[0]->type;
    Reindex r = {.b = build_before(func, gather),
                 .all = computations_open(func),
                 .varies = an_varies_all(func),
                 .reduces = true,
                 .rank = type->rank};
    Instance elements = {.value = gather->operands[0]}, places = {.value = gather->results[0]};
    r.b.span = gather->span;
    for (int i = 0; i < r.rank; i++) {
        r.dims[i] = type->dims[i];
        r.axes[i] = axis_new(&r.all->space, r.dims[i], NULL);
        places.at[i] = map_axis(&r.all->space, r.axes[i]);
    }
    for (int i = 0; i < elements.value->type->rank; i++) {
        elements.at[i] = computations_map(r.all, gather->operands[1 + i], places.at);
    }
    Spread made = reindex_instance(&r, &elements);
    computations_close(r.all);
    memo_close(r.varies);
    r.rank = type->rank;
    bool good = made.value && !(made.axes >> type->rank);
    return good ? reindex_spread(&r, made, (1u << type->rank) - 1) : NULL;
}

static bool is_wanted(Func *func, const Pooling *pooling)
{
    const char *reason = "a block multiplies a window place by place, and stores what is left";
    bool is_long = pooling->window > MAX_WINDOW, few = !are_many(func, pooling);
    if (is_long) {
        reason = "a block would multiply long windows place by place";
    } else if (few) {
        reason = "too few windows to fill the device: all results are stored, and then pooled";
    }
    const char *derived = is_long || few ? "separate" : "fused";
    return text_equal(schedule_decide_symbol(func, "pooling", "", derived, "%s", reason), "fused");
}

static bool split_gather(Func *func, const Pooling *pooling)
{
    Op *gather = pooling->gather, *before = gather->prev;
    Value *value = windows_of(func, gather);
    Op *first = before ? before->next : func->body->first;
    if (!value || !are_views(func, first, gather) || !is_wanted(func, pooling)) {
        return false;
    }
    load_views(func, first, gather);
    value->name = gather->results[0]->name;
    func_replace_uses(func, gather->results[0], value);
    op_remove(gather);
    return true;
}

static bool pools_convolution(Func *func, Op *op, Pooling *pooling)
{
    if (op->kind != OP_GATHER || op->operands[0]->type->kind != TYPE_ARRAY ||
        !gather_stays_inside(op)) {
        return false;
    }
    Computations *all = computations_open(func);
    Memo *made = memo_open(func);
    bool good = find_pooling(all, op, pooling) && reduces_windows(func, pooling) &&
                is_of_view(func, made, op->operands[0]) && is_bottleneck(func, made, op);
    memo_close(made);
    computations_close(all);
    return good;
}

void pass_split_windows(Func *func)
{
    bool any = false;
    if (!mma_reads_bulk_copies(func->target)) {
        return;
    }
    for (Op *op = func->body->first, *next; op; op = next) {
        Pooling pooling;
        next = op->next;
        any = (pools_convolution(func, op, &pooling) && split_gather(func, &pooling)) || any;
    }
    func_remove_dead(func);
    if (any) {
        pass_simplify(func);
    }
}
