/* SPDX-License-Identifier: Apache-2.0 */
/* Splits the axis of long reductions and scans of few rows across blocks; a second launch combines
 * the partial results.
 *
 *   store %y[:], reduce %x fn=sum axis=0    →    launch dims=[128] { (%c: i64)
 *                                                  store %part[%c], the sum of share %c }
 *                                                parallel { store %y[:], reduce %part }
 *
 * The second launch is a group like any other and is tiled independently. Slices are multiples of
 * the step and do not depend on the device's schedule, so the result has the same bits on every
 * run. Rows that are stored along the axis (row_column_sweep.h) are stored by the first launch. The
 * second launch of a scan has the same slices, each starting from the total of those before it (for
 * a reverse scan, behind it). On GPUs, scans use a single pass instead if possible
 * (tile_lookback.c). */
#include "passes/tile/tile_emit.h"
#include "support/int_math.h"

#include "ir/ir_errors.h"
#include "ir/nominal_sizes.h"
#include "passes/analysis/cost_model.h"
#include "passes/tile/tile_steps.h"

enum {
    SHARES_CPU = 32,
    MAX_STORES = 64, /* of a group (fuse.c) */
    MAX_BLOCKS_CPU = 16,
    MAX_SHARES = 65536,
    SHORT_WALK_BLOCKS = 2, /* of a multiprocessor, that shares of a walk are to make */
};

/* ---- when ---- */

static bool is_along(const TileEmitter *e, const Op *op, int item)
{
    return an_folds_along(e->plan->axes, op, e->plan->items[item].class);
}

/* Its other axes are in the grid. */
static bool is_in_grid(const TileEmitter *e, const Value *value, int item)
{
    bool in = true;
    for (int i = 0; i < value->type->rank && in; i++) {
        int other = emit_item(e, value, i);
        in = other < 0 || other == item ||
             (other < e->plan->n_stored && e->plan->items[other].how != AXIS_LOOP);
    }
    return in;
}

/* And what it folds is made of no other fold along the axis. */
static bool may_share(const TileEmitter *e, const Op *op, int item, const bool *made)
{
    bool may = is_in_grid(e, op->results[0], item);
    for (int i = 0; i < op->n_operands && may; i++) {
        may = !made[op->operands[i]->id];
    }
    return may;
}

static bool goes_along(const TileEmitter *e, const Op *store, int item)
{
    return an_goes_along(e->plan->axes, axes_written(store), e->plan->items[item].class);
}

/* Where a scanned axis is stored, every store goes along it: the others would be every share's. Of
 * an axis that is walked for rows and columns, the rows are stored by the walk. A scatter is only
 * part of the launch that scans. */
static bool may_store(const TileEmitter *e, const Op *store, const AxisSplit *split)
{
    if (store->kind != OP_STORE && store->kind != OP_SCATTER) {
        return false;
    }
    bool walked = e->plan->items[split->item].walked;
    return walked ? !goes_along(e, store, split->item) ||
                        is_in_grid(e, axes_written(store), split->item)
                  : split->item >= e->plan->n_stored || goes_along(e, store, split->item);
}

static bool find_folds(const TileEmitter *e, const Op *group, AxisSplit *split)
{
    const Block *block = group->regions[0];
    const bool *made = an_made_of_folds(e->plan->axes, block, e->plan->items[split->item].class);
    bool scatters = false;
    for (Op *op = block->first; op; op = op->next) {
        if (op->n_regions && op->kind != OP_FOLD) {
            return false;
        }
        if (is_along(e, op, split->item)) {
            if (split->n == MAX_SCANS || !may_share(e, op, split->item, made)) {
                return false;
            }
            split->scans = split->scans || op->kind == OP_SCAN || op_int(op, ATTR_SCAN, 0);
            split->ops[split->n++] = op;
        }
        if (axes_written(op) && !may_store(e, op, split)) {
            return false;
        }
        scatters = scatters || op->kind == OP_SCATTER;
    }
    return split->n > 0 && (split->scans || !scatters);
}

enum { MANY = 1 << 24 }; /* more blocks than any device holds */

int64_t tile_grid_blocks(const TilePlan *plan, bool nominal)
{
    int64_t blocks = 1;
    for (int i = 0; i < plan->n_stored && blocks < MANY; i++) {
        const AxisPlan *axis = &plan->items[i];
        if (axis->how != AXIS_LOOP) {
            int64_t extent = nominal ? poly_nominal(axis->dim) : poly_most(axis->dim);
            int64_t step = max_i64(1, axis->step);
            int64_t tiles = extent == INT64_MAX ? MANY : ceil_div(extent, step);
            blocks *= max_i64(1, tiles);
        }
    }
    return blocks;
}

/* Elements that a block meets on its way along an axis. Of other axes that are stored it has a
 * tile, of those that are folded as well all. */
static int64_t work_along(const TilePlan *plan, int item)
{
    int64_t work = max_i64(1, poly_nominal(plan->items[item].dim));
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        int64_t met = i < plan->n_stored ? axis->step : poly_nominal(axis->dim);
        if (i != item && __builtin_mul_overflow(work, max_i64(1, met), &work)) {
            return INT64_MAX;
        }
    }
    return work;
}

/* Shares of a walk that is not long, of blocks that leave multiprocessors idle: each step waits for
 * its loads, and fewer steps save more than a second launch takes, or there is one share. (The
 * product of a vector and 1000×3000 bf16 on an H200: 47 blocks of 16 steps 15.8 us, 4 shares
 * 9.7.) */
static int64_t shares_of_short_walk(const TileEmitter *e, int64_t steps, int64_t blocks)
{
    const Machine *machine = e->func->target->machine;
    int64_t shares = power_of_two_at_most(
        max_i64(1, min_i64(SHORT_WALK_BLOCKS * machine->num_sms / blocks, steps / 2)));
    double saved = (double)(steps - ceil_div(steps, shares)) * machine->load_ns;
    double launch = (double)machine->host_cycles * 1e3 / machine->matrix_clock;
    return 2 * blocks <= machine->num_sms && saved > 2 * launch ? shares : 1;
}

/* Shares of an axis for a grid of so many blocks; 1: it is not worth a second launch. */
static int64_t derived_shares(const TileEmitter *e, const AxisSplit *split, int64_t blocks)
{
    const Target *target = e->func->target;
    const AxisPlan *axis = &e->plan->items[split->item];
    bool is_long = work_along(e->plan, split->item) > LONG_WALK;
    if (!is_gpu(e->func)) {
        return is_long && blocks <= MAX_BLOCKS_CPU ? SHARES_CPU : 1;
    }
    if (!is_long) {
        int64_t steps = ceil_div(poly_nominal(axis->dim), max_i64(1, axis->step));
        return split->scans ? 1 : shares_of_short_walk(e, steps, blocks);
    }
    int64_t wanted =
        (split->scans ? 2 : max_i64(1, e->plan->occupancy)) * target->machine->num_sms / blocks;
    int64_t steps = (poly_most(axis->dim) - 1) / max_i64(1, axis->step) + 1;
    if (e->plan->by_ranges && wanted <= blocks) {
        return 1; /* each row's range lies in few of the shares */
    }
    int64_t most = max_i64(1, min_i64(wanted, steps)), power = power_of_two_at_most(most);
    /* So many that all run at once: three bits of the number, and tiles of it are mostly full. */
    return split->scans ? power : most / max_i64(1, power / 4) * max_i64(1, power / 4);
}

/* A slice has whole steps of the axis: of more slices than steps the last would be empty. Blocks of
 * a cluster are counted elsewhere, by the same entry. */
static int64_t slices_with_work(const TileEmitter *e, const ScheduleEntry *given, int item,
                                int64_t shares)
{
    const AxisPlan *axis = &e->plan->items[item];
    int64_t most = poly_most(axis->dim), step = max_i64(1, axis->step);
    int64_t steps = most == INT64_MAX ? shares : max_i64(1, ceil_div(most, step));
    if (shares <= steps || e->plan->cluster_split_k > 1) {
        return shares;
    }
    if (given && given->origin > ENTRY_PINNED) {
        Diag *d =
            diag_warning(e->func->diags, 0, given->span, "`split_k %lld` makes %lld slice%s here",
                         (long long)shares, (long long)steps, steps == 1 ? "" : "s");
        diag_note(e->func->diags, d, "%s has at most %lld elements, in steps of %lld", axis->name,
                  (long long)most, (long long)step);
    }
    return steps;
}

/* The user's shares of the axis, or the derived ones, of which the reason names the axis. */
static int64_t given_shares(const TileEmitter *e, int item, int64_t derived, const char *reason)
{
    const ScheduleEntry *given = schedule_user_entry(e->func, "split_k", "");
    int64_t shares =
        schedule_decide_int(e->func, "split_k", "", derived, reason, e->plan->items[item].name);
    if (shares >= 1 && shares <= MAX_SHARES) {
        return slices_with_work(e, given, item, shares);
    }
    Diag *d = diag_error(e->func->diags, ERR_NOT_HERE, given->span,
                         "`split_k %lld` is not possible", (long long)shares);
    diag_help(e->func->diags, d, "1, which is none, to %d", MAX_SHARES);
    return derived;
}

static int64_t shares_of(const TileEmitter *e, const AxisSplit *split, int64_t blocks)
{
    int64_t derived = derived_shares(e, split, blocks);
    bool asked = !split->scans && (derived > 1 || schedule_user_entry(e->func, "split_k", ""));
    return asked ? given_shares(e, split->item, derived, "few blocks would walk %s, a long axis")
                 : derived;
}

/* What a product contracts, or the batches that are summed: in as many shares as its tiles were
 * chosen for, or as are given. */
static bool choose_contracted(const TileEmitter *e, AxisSplit *split)
{
    const TilePlan *plan = e->plan;
    Op *dot = plan->dot, *sum = tile_shared_sum(plan);
    int64_t derived = max_i64(1, plan->split_k);
    if (!is_gpu(e->func) || !(tile_can_split_k(plan) || sum) ||
        (derived < 2 && !schedule_user_entry(e->func, "split_k", ""))) {
        return false;
    }
    int item = sum ? emit_item(e, sum->operands[0], (int)op_int(sum, ATTR_AXIS, 0))
                   : emit_item(e, dot->operands[0], dot->operands[0]->type->rank - 1);
    const char *reason = "too few tiles for the device: parts of %s, which a second launch adds";
    if (plan->split_k_tail) {
        reason = "parts of %s for each tile of the tail, which a launch behind adds";
    } else if (plan->cluster_split_k > 1) {
        reason = "too few tiles for the device: parts of %s, which a cluster adds";
    }
    *split = (AxisSplit){.item = item, .shares = given_shares(e, item, derived, reason), .n = 1};
    split->ops[0] = sum ? sum : dot;
    return split->shares > 1 && plan->items[item].how == AXIS_LOOP;
}

static bool choose(const TileEmitter *e, const Op *group, AxisSplit *split)
{
    const TilePlan *plan = e->plan;
    if (plan->dot || plan->is_rest) {
        return plan->dot && choose_contracted(e, split);
    }
    for (int i = plan->n; i-- > 0;) {
        const AxisPlan *axis = &plan->items[i];
        bool row = (axis->flags & AXIS_STORED) && !(axis->flags & AXIS_SCANNED) && !axis->walked;
        *split = (AxisSplit){.item = i};
        if (axis->how == AXIS_LOOP && !row && find_folds(e, group, split)) {
            /* Scans are not shared out for sizes that may be more. */
            split->shares = shares_of(e, split, tile_grid_blocks(plan, !split->scans));
            if (split->shares > 1) {
                return true;
            }
        }
    }
    return false;
}

/* ---- the shares ---- */

/* Which part of the axis share `c` has. */
void emit_enter_slice(TileEmitter *e, EmitFrame *frame, AxisSplit *split, Value *c)
{
    const AxisPlan *axis = &e->plan->items[split->item];
    Builder *b = &frame->at;
    int64_t size = max_i64(1, axis->step); /* of a step: batches are taken one by one */
    Value *all = build_size(b, axis->dim), *step = build_i64(b, size);
    Value *per_step = build_i64(b, split->shares * size);
    Value *less = build_binary(b, OP_ADD, all, build_i64(b, split->shares * size - 1));
    Value *each = build_binary(b, OP_MUL, build_binary(b, OP_DIV, less, per_step), step);
    split->share = c;
    split->lo = build_binary(b, OP_MUL, c, each);
    split->hi = build_binary(b, OP_MIN, build_binary(b, OP_ADD, split->lo, each), all);
}

/* What has the axes of a part: what is folded along `axis`; of a product its result, along none. */
static const Value *part_shape(const Op *op, int i, int *axis)
{
    bool dot = op->kind == OP_DOT;
    *axis = dot ? -1 : (int)op_int(op, ATTR_AXIS, 0);
    return dot ? op->results[0] : op->operands[i];
}

static Value *new_part(TileEmitter *e, const AxisSplit *split, const Value *operand, int axis)
{
    Dim dims[MAX_RANK];
    Type type = operand->type;
    int n = 0;
    dims[n++] = poly_const(e->func, split->shares);
    for (int i = 0; i < type->rank; i++) {
        if (i != axis) {
            int item = emit_item(e, operand, i);
            int64_t upto = item < 0 ? 0 : e->plan->items[item].upto;
            dims[n++] = upto > 0 ? poly_const(e->func, upto) : type->dims[i];
        }
    }
    const char *name = arena_printf(e->func->arena, "part%zu", e->func->params.n);
    return func_param(e->func, name, type_tensor(e->func, type->dtype, n, dims), PARAM_SCRATCH);
}

/* Where the part of share `c` lies (NULL: of all of them). */
static void part_indices(const TileEmitter *e, const EmitFrame *frame, const Value *operand,
                         int axis, Value *c, Value **indices)
{
    int n = 0;
    indices[n++] = c;
    for (int i = 0; i < operand->type->rank; i++) {
        int item = emit_item(e, operand, i);
        if (i != axis) {
            indices[n++] = item < 0 ? NULL : frame->ranges[item];
        }
    }
}

/* Without the folded axis (-1: none) and batches, which are one element each here. */
static Value *without_scalars(TileEmitter *e, EmitFrame *frame, const Value *shape, int axis,
                              Value *total)
{
    for (int i = shape->type->rank; i-- > 0;) {
        bool one = i == axis || emit_is_scalar(e, emit_item(e, shape, i));
        total = one ? emit_without(&frame->at, total, i) : total;
    }
    return total;
}

static void store_part(TileEmitter *e, EmitFrame *frame, AxisSplit *split, int k,
                       Value *const *totals)
{
    const Op *op = split->ops[k];
    split->parts[k] = ARENA_ARRAY(e->func->arena, Value *, op->n_results);
    for (int i = 0; i < op->n_results; i++) {
        int axis;
        const Value *shape = part_shape(op, i, &axis);
        Value *indices[MAX_RANK], *part = new_part(e, split, shape, axis), *total = totals[i];
        part_indices(e, frame, shape, axis, split->share, indices);
        build_store(&frame->at, part, indices,
                    e->plan->dot ? without_scalars(e, frame, shape, axis, total)
                                 : build_squeeze(&frame->at, total, axis));
        split->parts[k][i] = part;
    }
}

/* The rows that a walk stores are no longer the group's. */
static int take_rows(TileEmitter *e, const Op *group, const AxisSplit *split, Op **stores)
{
    int n = 0;
    for (Op *op = group->regions[0]->first; op; op = op->next) {
        if (axes_written(op) && goes_along(e, op, split->item)) {
            stores[n++] = op;
        }
    }
    return n;
}

/* Folds share one walk with the rows that are stored. */
static void store_parts(TileEmitter *e, const Op *group, EmitFrame *frame, AxisSplit *split)
{
    Op *stores[MAX_STORES];
    bool walked = e->plan->items[split->item].walked;
    int n = walked ? take_rows(e, group, split, stores) : 0;
    if (walked) {
        emit_walk(e, frame, split->item, split->n, split->ops, n, stores);
    }
    for (int k = 0; k < split->n; k++) {
        store_part(e, frame, split, k, emit_share_totals(e, frame, split->ops[k]));
    }
    for (int i = 0; i < n; i++) {
        op_remove(stores[i]);
    }
}

/* ---- what they come to ---- */

/* Only the shares that a scan walks before this one count. */
static Value *only_before(TileEmitter *e, EmitFrame *frame, const AxisSplit *split, const Op *op,
                          int i, Value *parts)
{
    Builder *b = &frame->at;
    Type type = parts->type;
    Value *which = build_iota(b, type->dims[0], DT_I64);
    Value *share = build_broadcast(b, split->share, 1, type->dims);
    Value *before = build_cmp(b, op_int(op, ATTR_REVERSE, 0) ? "gt" : "lt", which, share);
    while (before->type->rank < type->rank) {
        before = build_expand(b, before, before->type->rank);
    }
    before = build_broadcast(b, before, type->rank, type->dims);
    return build_select(b, before, parts, emit_nothing(e, frame, op, i, type));
}

static void combine_parts(TileEmitter *e, EmitFrame *frame, const AxisSplit *split, int k,
                          Value **out)
{
    const Op *op = split->ops[k];
    int n = op->n_results, axis = (int)op_int(op, ATTR_AXIS, 0);
    Value **parts = ARENA_ARRAY(e->func->arena, Value *, n);
    for (int i = 0; i < n; i++) {
        Value *indices[MAX_RANK];
        part_indices(e, frame, op->operands[i], axis, NULL, indices);
        parts[i] = build_load(&frame->at, split->parts[k][i], indices);
        parts[i] = only_before(e, frame, split, op, i, parts[i]);
    }
    emit_fold_arrays(e, frame, op, parts);
    for (int i = 0; i < n; i++) {
        Value *total = build_squeeze(&frame->at, parts[i], 0);
        out[i] = build_expand(&frame->at, total, axis);
    }
}

/* The scans again, each share beginning with what those before it come to. */
static void emit_scans(TileEmitter *e, Op *group, AxisSplit *split)
{
    EmitFrame frame = emit_frame(e);
    Op *launch = emit_launch(e, group, &frame, poly_const(e->func, split->shares), "share");
    emit_enter_slice(e, &frame, split, launch->regions[0]->args[0]);
    for (int k = 0; k < split->n; k++) {
        split->inits[k] = ARENA_ARRAY(e->func->arena, Value *, split->ops[k]->n_results);
        combine_parts(e, &frame, split, k, split->inits[k]);
    }
    emit_effects(e, group, &frame);
}

/* ---- the rest of the group ---- */

/* The same reduction, of what the shares came to; of products their sum. */
static Value **reduce_parts(Func *func, Builder *b, const Op *op, Value **parts)
{
    if (op->kind != OP_FOLD) {
        const char *fn = op->kind == OP_DOT ? "sum" : op_word(op, ATTR_FN);
        Value **total = ARENA_ARRAY(func->arena, Value *, 1);
        total[0] = build_reduce(b, fn, parts[0], 0);
        return total;
    }
    CloneMap map = clone_map_new(func);
    Op *fold = clone_op(b, &map, op);
    op_set_int(func, fold, ATTR_AXIS, 0);
    for (int i = 0; i < op->n_results; i++) {
        Dim dims[MAX_RANK];
        Type type = parts[i]->type;
        for (int axis = 0; axis < type->rank; axis++) {
            dims[axis] = axis ? type->dims[axis] : poly_const(func, 1);
        }
        op_set_operand(fold, i, parts[i]);
        fold->results[i]->type = type_with_dims(func, type, type->rank, dims);
    }
    return fold->results;
}

/* In the group, which is of whole tensors again. */
static void use_parts(Func *func, const AxisSplit *split, int k)
{
    Op *op = split->ops[k];
    int axis;
    part_shape(op, 0, &axis);
    Builder b = build_before(func, op);
    Value **parts = ARENA_ARRAY(func->arena, Value *, op->n_results);
    for (int i = 0; i < op->n_results; i++) {
        Dim dims[MAX_RANK];
        parts[i] = build_load(&b, split->parts[k][i], WHOLE);
        for (int d = 0; axis < 0 && d < op->results[i]->type->rank; d++) {
            dims[1 + d] = op->results[i]->type->dims[d]; /* of a tail, too: as all else here */
        }
        if (axis < 0) {
            dims[0] = parts[i]->type->dims[0];
            parts[i]->type = type_with_dims(func, parts[i]->type, parts[i]->type->rank, dims);
        }
    }
    Value **totals = reduce_parts(func, &b, op, parts);
    for (int i = 0; i < op->n_results; i++) {
        Value *total = build_squeeze(&b, totals[i], 0);
        total = axis < 0 ? total : build_expand(&b, total, axis);
        func_replace_uses(func, op->results[i], total);
    }
}

/* ---- a tail ---- */

/* What the axis is of the values that are written: the launch behind has the same part of it. */
static void limit_rest(Func *func, Op *group, TilePlan *plan)
{
    const Op *store = group->regions[0]->first;
    int64_t upto[MAX_RANK] = {0};
    while (!axes_written(store)) {
        store = store->next;
    }
    const Value *written = axes_written(store);
    for (int i = 0; i < written->type->rank; i++) {
        upto[i] = tile_axis_of(plan, written, i) == plan->split_k_tail ? plan->tail_upto : 0;
    }
    op_set_ints(func, group, ATTR_AXIS_END, written->type->rank, upto);
}

/* All but the tail's tiles have a launch of their own, before that of the shares. */
static void emit_body(Func *func, Op *group, TilePlan *plan)
{
    plan->split_k_tail->from = plan->tail_upto;
    tile_emit(func, group, plan);
    plan->split_k_tail->from = 0;
    plan->split_k_tail->upto = plan->tail_upto;
    limit_rest(func, group, plan);
}

/* A scan that is shared out reads its elements twice. Blocks that walk all of the axis move less,
 * if they are enough to keep memory busy. */
static bool scan_pays(const TileEmitter *e, const AxisSplit *split)
{
    enum { PASSES = 2, PASSES_SHARED = 3 }; /* over as many bytes as are read, or written */
    const Machine *machine = e->func->target->machine;
    double blocks = (double)tile_grid_blocks(e->plan, false);
    double alone = PASSES / cost_busy(machine, blocks);
    return alone > PASSES_SHARED / cost_busy(machine, blocks * (double)split->shares);
}

SplitResult tile_split(Func *func, Op *group, TilePlan *plan)
{
    AxisSplit split;
    TileEmitter e = {.func = func, .plan = plan};
    if (!choose(&e, group, &split)) {
        return SPLIT_NOT;
    }
    if (plan->split_k_tail) {
        emit_body(func, group, plan);
        schedule_at_op(func, group);
    }
    if (split.scans && is_gpu(func) && tile_lookback(func, group, plan, &split)) {
        return SPLIT_DONE;
    }
    bool asked = schedule_user_entry(func, "scan", "") != NULL;
    if (split.scans && is_gpu(func) && !asked && !scan_pays(&e, &split)) {
        return SPLIT_NOT;
    }
    if (plan->dot && plan->cluster_split_k > 1) {
        plan->cluster = plan->cluster_split_k;
        tile_emit_cluster_split_k(&e, group, &split);
        return SPLIT_DONE;
    }
    EmitFrame first = emit_frame(&e);
    Op *launch = emit_launch(&e, group, &first, poly_const(func, split.shares), "share");
    emit_enter_slice(&e, &first, &split, launch->regions[0]->args[0]);
    e.split = &split;
    store_parts(&e, group, &first, &split);
    if (split.scans) {
        emit_scans(&e, group, &split);
        return SPLIT_DONE;
    }
    for (int k = 0; k < split.n; k++) {
        use_parts(func, &split, k);
    }
    func_remove_dead(func);
    return SPLIT_REST;
}
