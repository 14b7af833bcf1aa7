/* SPDX-License-Identifier: Apache-2.0 */
/* Describes a dot to the cost model (analysis/dot_cost.h), and phrases the reason of the model's
 * choice for `explain`. */
#include "passes/tile/tile_steps.h"
#include "ir/nominal_sizes.h"
#include "support/int_math.h"

#include "passes/analysis/access_width.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/analysis/dot_model_inputs.h"
#include "passes/analysis/masked_operand.h"

enum {
    MAX_PARTS = 16,  /* partial results that a thread adds one by one; more: several threads */
    MAX_OPS = 4,     /* operations of an epilogue, if three warp groups share a tile */
    N_MULTIPLE = 16, /* of a tile's n, if registers for two accumulators bound it */
};

AxisPlan *tile_axis_of(TilePlan *plan, const Value *value, int axis)
{
    int class = axes_class(plan->axes, value, axis);
    for (int i = 0; i < plan->n; i++) {
        if (plan->items[i].class == class) {
            return &plan->items[i];
        }
    }
    return NULL;
}

static int lines_of(const Func *func, const Op *dot, int side)
{
    Access access = op_access(an_masked_load(func, dot, side), 0);
    return product_lines(&access);
}

static bool reads_windows(const Func *func, const Op *dot, int side)
{
    const Op *load = an_masked_load(func, dot, side);
    return load && func_im2col_of(func, op_access(load, 0).memory);
}

/* True if TMA can describe both operands (rows of 16 bytes). Others pass through registers. */
bool tile_operands_stay_out(const Func *func, const Op *dot)
{
    for (int side = 0; side < 2; side++) {
        const Op *load = an_masked_load(func, dot, side);
        if (!load) {
            return false;
        }
        Access access = op_access(load, 0);
        if (access.n < 2 || !an_tma_rows(&access)) {
            return false;
        }
    }
    return func->target->has_bulk_copy;
}

static int64_t user_value(Func *func, const char *key, const AxisPlan *axis)
{
    const ScheduleEntry *line = axis ? schedule_user_entry(func, key, axis->name) : NULL;
    return line && line->number > 0 ? line->number : 0;
}

static bool user_zero(Func *func, const char *key, const AxisPlan *axis)
{
    const ScheduleEntry *line = schedule_user_entry(func, key, axis->name);
    return line && line->number == 0;
}

/* True if B is contiguous along the product's n. */
static bool n_is_contiguous(const Op *dot)
{
    bool transposed = false;
    for (const Op *op = dot->operands[1]->def; op && op->kind != OP_LOAD;
         op = op->operands[op->kind == OP_SELECT]->def) {
        transposed ^= op->kind == OP_PERMUTE;
    }
    return !transposed;
}

static int64_t user_split_k(Func *func)
{
    const ScheduleEntry *line = schedule_user_entry(func, "split_k", "");
    return line && line->number > 0 ? line->number : 0;
}

bool tile_can_split_k(const TilePlan *plan)
{
    const Op *dot = plan->dot;
    const AxisPlan *k =
        dot ? tile_axis_of((TilePlan *)plan, dot->operands[0], dot->operands[0]->type->rank - 1)
            : NULL;
    bool may = k && plan->n_dots == 1 && dot->n_operands == 2 && !plan->is_rest &&
               !(k->flags & AXIS_STORED);
    for (int i = plan->n_stored; i < plan->n && may; i++) {
        may = &plan->items[i] == k;
    }
    return may;
}

/* The next sum of the dot's batches behind this op, of what nothing else reads; NULL: none. */
static Op *next_sum(const Op *op)
{
    const ValueUse *use = use_first(op->results[0], op->parent);
    while (use && !use_next(use, op->parent)) {
        Op *next = use->op;
        bool unit = next->kind == OP_SQUEEZE || next->kind == OP_EXPAND;
        bool sum = next->kind == OP_REDUCE && next->n_operands == 1 &&
                   text_equal(op_word(next, ATTR_FN), "sum");
        if (!unit) {
            return sum ? next : NULL;
        }
        use = use_first(next->results[0], next->parent);
    }
    return NULL;
}

static Op *outermost_sum(const Op *dot)
{
    Op *found = NULL;
    for (Op *sum = next_sum(dot); sum; sum = next_sum(sum)) {
        found = sum;
    }
    return found;
}

/* Do the sums of the dot's batches, which continue in its accumulator, reduce the axis? */
static bool is_summed(const TilePlan *plan, const AxisPlan *axis)
{
    for (const Op *sum = next_sum(plan->dot); sum; sum = next_sum(sum)) {
        int reduced = (int)op_int(sum, ATTR_AXIS, 0);
        if (tile_axis_of((TilePlan *)plan, sum->operands[0], reduced) == axis) {
            return true;
        }
    }
    return false;
}

int64_t tile_folded_products(const TilePlan *plan)
{
    int64_t folds = 1;
    for (int i = plan->n_stored; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        bool folds_own = tile_is_summed_batch(plan, axis) && !is_summed(plan, axis);
        folds = folds_own ? mul_sat(folds, max_i64(1, poly_nominal(axis->dim))) : folds;
    }
    return folds;
}

Op *tile_shared_sum(const TilePlan *plan)
{
    const Op *dot = plan->dot;
    bool may = dot && plan->n_dots == 1 && dot->n_operands == 2 && !plan->is_rest &&
               tile_folded_products(plan) == 1;
    Op *sum = may ? outermost_sum(dot) : NULL;
    const AxisPlan *k =
        sum ? tile_axis_of((TilePlan *)plan, dot->operands[0], dot->operands[0]->type->rank - 1)
            : NULL;
    const AxisPlan *shared = sum ? tile_axis_of((TilePlan *)plan, sum->operands[0],
                                                (int)op_int(sum, ATTR_AXIS, 0))
                                 : NULL;
    may = k && shared && shared != k && !(k->flags & AXIS_STORED);
    for (int i = plan->n_stored; i < plan->n && may; i++) {
        may = &plan->items[i] == k || tile_is_summed_batch(plan, &plan->items[i]);
    }
    return may ? sum : NULL;
}

typedef struct Tailed {
    TilePlan *plan;
    bool may;
} Tailed;

/* Two launches that take different rows, or columns, must write nothing but the product. */
static void check_tailed(Op *op, void *user)
{
    Tailed *tailed = user;
    const Value *product = tailed->plan->dot->results[0], *written = axes_written(op);
    for (int i = 0; written && i < product->type->rank; i++) {
        const AxisPlan *axis = tile_axis_of(tailed->plan, product, i);
        bool found = false;
        for (int k = 0; k < written->type->rank; k++) {
            found = found || tile_axis_of(tailed->plan, written, k) == axis;
        }
        tailed->may = tailed->may && found && op->kind == OP_STORE;
    }
    tailed->may = tailed->may && op->n_regions == 0;
}

bool tile_stores_product(const Op *group, TilePlan *plan)
{
    Tailed tailed = {plan, true};
    block_walk(group->regions[0], check_tailed, &tailed);
    return tailed.may;
}

bool tile_can_tail(const Func *func, const Op *group, TilePlan *plan)
{
    return is_gpu(func) && tile_can_split_k(plan) && plan->n_stored == 2 &&
           plan->dot->results[0]->type->rank == 2 && tile_stores_product(group, plan);
}

typedef struct Result {
    TilePlan *plan;
    const AxisPlan *m, *n;
    int ops;
    int fold_ops; /* of `ops`, those on each product that is folded */
} Result;

static void count_result(Op *op, void *user)
{
    Result *result = user;
    const Value *value = op->n_results ? op->results[0] : NULL;
    bool rows = false, columns = false, places = false;
    for (int i = 0; value && value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        const AxisPlan *axis = tile_axis_of(result->plan, value, i);
        rows = rows || axis == result->m;
        columns = columns || axis == result->n;
        places = places || (axis && tile_is_summed_batch(result->plan, axis));
    }
    bool counts = rows && columns && op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_CAST;
    result->ops += counts && !places;
    result->fold_ops += counts && places;
}

typedef struct Alike {
    Func *func;
    TilePlan *plan;
    bool alike;
} Alike;

static void check_alike(Op *op, void *user)
{
    Alike *all = user;
    const Op *dot = all->plan->dot;
    if (op->kind != OP_DOT) {
        return;
    }
    bool same = op->results[0]->type == dot->results[0]->type &&
                op->operands[0]->type == dot->operands[0]->type &&
                tile_operands_stay_out(all->func, op) &&
                n_is_contiguous(op) == n_is_contiguous(dot);
    for (int i = 0; i < dot->operands[0]->type->rank && same; i++) {
        same = tile_axis_of(all->plan, op->operands[0], i) ==
               tile_axis_of(all->plan, dot->operands[0], i);
    }
    for (int i = 0; i < dot->results[0]->type->rank && same; i++) {
        same = tile_axis_of(all->plan, op->results[0], i) ==
               tile_axis_of(all->plan, dot->results[0], i);
    }
    all->alike = all->alike && same;
}

/* True if all dots of the group have the same axes, and TMA can load their operands. */
static bool all_alike(Func *func, const Op *group, TilePlan *plan)
{
    Alike all = {func, plan, true};
    block_walk(group->regions[0], check_alike, &all);
    return all.alike;
}

/* The nominal extent. Of an axis that was collapsed from several, the product of their bounds is
 * closer than the bound of the product, in which a size may occur with either sign. */
static int64_t nominal_along(const Func *func, Dim dim)
{
    int64_t most = poly_nominal(dim);
    for (size_t i = 0; i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        int from = 0;
        for (int axis = 0; param->collapsed && axis < param->value->type->rank; axis++) {
            int64_t product = 1;
            for (int k = 0; k < param->collapsed[axis]; k++) {
                product = mul_sat(product, poly_nominal(param->caller_type->dims[from++]));
            }
            bool same = param->value->type->dims[axis] == dim;
            most = same && product < most ? product : most;
        }
    }
    return poly_is_nominal(dim) ? min_i64(most, PRODUCT_MAX) : most;
}

static bool has_taps(const TilePlan *plan)
{
    bool found = false;
    for (int i = 0; i < plan->n; i++) {
        found = found || tile_is_summed_batch(plan, &plan->items[i]);
    }
    return found;
}

typedef struct EpilogueCheck {
    Func *func;
    bool may;
} EpilogueCheck;

/* Three warp groups need an epilogue whose elements stay with their thread. */
static void check_epilogue(Op *op, void *user)
{
    EpilogueCheck *check = user;
    bool operand = op->n_operands && op->operands[0]->def && op->operands[0]->def->kind == OP_LOAD;
    for (int i = 0; op_has(op, TRAIT_ELEMENTWISE) && i < op->n_operands; i++) {
        const Op *def = op->operands[i]->def;
        bool tile = def && def->kind == OP_LOAD && def->results[0]->type->rank > 1;
        check->may = check->may && !tile; /* it would be loaded in another layout */
    }
    switch (op->kind) {
    case OP_DOT:
    case OP_LOAD:
    case OP_STORE:
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_CONST: break;
    case OP_PERMUTE: check->may = check->may && operand; break;
    default: check->may = check->may && op_has(op, TRAIT_ELEMENTWISE); break;
    }
}

/* Three warp groups have 160 registers a thread, and a number of warps that is no power of two: the
 * rows between 192 and 256 belong to no warp. */
static bool can_have_three_groups(Func *func, const Op *group, const TilePlan *plan, int ops)
{
    const ScheduleEntry *warps = schedule_peek_entry(func, "warps", "");
    EpilogueCheck check = {func, plan->n_dots == 1 && !plan->instruction->max_accumulate_k &&
                                     ops <= MAX_OPS && func->target->has_setmaxnreg &&
                                     !schedule_user_entry(func, "pingpong", "") &&
                                     (!warps || warps->number == THREE_GROUP_WARPS)};
    block_walk(group->regions[0], check_epilogue, &check);
    return check.may;
}

/* The nominal extents of the group's dots; false if they are too long, or the dots differ. */
static bool product_size(Func *func, const Op *group, TilePlan *plan, AxisPlan *m, AxisPlan *n,
                         DotProblem *size)
{
    const Op *dot = plan->dot;
    Type left = dot->operands[0]->type;
    AxisPlan *k = tile_axis_of(plan, dot->operands[0], left->rank - 1);
    ScaledDot narrow;
    if (!m || !n || !k || an_scaled_dot(func, dot, &narrow) || !all_alike(func, group, plan)) {
        return false;
    }
    int bytes = dtype_bytes(left->dtype);
    const ScheduleEntry *cluster = schedule_peek_entry(func, "cluster", "");
    *size = (DotProblem){
        .m = nominal_along(func, m->dim),
        .n = nominal_along(func, n->dim),
        .k = poly_nominal(k->dim),
        .batch = 1,
        .taps = 1,
        .n_multiple = plan->instruction->max_accumulate_k
                          ? N_MULTIPLE
                          : product_columns(n_is_contiguous(dot), bytes),
        .a_lines = lines_of(func, dot, 0),
        .b_lines = lines_of(func, dot, 1),
        .b_windows = reads_windows(func, dot, 1),
        .user_m = m->whole ? m->whole : user_value(func, "tile", m),
        .user_n = n->whole ? n->whole : user_value(func, "tile", n),
        .user_k = user_value(func, "tile", k),
        .user_split_k = user_split_k(func),
        .user_multicast_m = user_value(func, "multicast", m),
        .user_multicast_n = user_value(func, "multicast", n),
        .user_tail_m = user_value(func, "split_k_tail", m),
        .user_tail_n = user_value(func, "split_k_tail", n),
        .can_tail = tile_can_tail(func, group, plan) && func->target->has_setmaxnreg &&
                    !user_zero(func, "split_k_tail", m) && !user_zero(func, "split_k_tail", n),
        .can_split_k = tile_can_split_k(plan) || tile_shared_sum(plan),
        .is_bound =
            poly_least(m->dim) < poly_most(m->dim) || poly_least(n->dim) < poly_most(n->dim),
        .is_nominal = poly_is_nominal(m->dim) || poly_is_nominal(n->dim),
        .can_cluster = tile_can_cluster(func, group, plan),
        .user_cluster = cluster ? cluster->number : 0,
        .two_accumulators = plan->instruction->max_accumulate_k != 0,
        .dots = plan->n_dots,
        .bytes = bytes};
    const Op *sum = tile_shared_sum(plan);
    if (sum) {
        int64_t axis = op_int(sum, ATTR_AXIS, 0);
        size->shared = nominal_along(func, sum->operands[0]->type->dims[axis]);
    }
    /* Blocks of a cluster would all take as many steps as the longest. */
    size->masked = an_is_masked(dot, 0) || an_is_masked(dot, 1);
    if (size->masked) {
        size->can_tail = false;
        size->can_cluster = size->user_cluster > 1;
    }
    /* Few channels: with deeper steps, padding would be multiplied at every tap. */
    int64_t whole = product_columns(true, bytes), row = fitted(k->dim, whole);
    if (has_taps(plan) && !size->user_k && row < whole) {
        size->user_k = max_i64(plan->instruction->k, row);
    }
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        if (axis != m && axis != n && axis != k && axis->how != AXIS_PART) {
            int64_t *times = tile_is_summed_batch(plan, axis) ? &size->taps : &size->batch;
            *times *= min_i64(poly_nominal(axis->dim), PRODUCT_MAX + 1);
            size->is_nominal = size->is_nominal || poly_is_nominal(axis->dim);
        }
        if (size->batch > PRODUCT_MAX || size->taps > PRODUCT_MAX) {
            return false;
        }
    }
    Result result = {.plan = plan, .m = m, .n = n};
    block_walk(group->regions[0], count_result, &result);
    size->epilogue_ops = result.ops;
    size->folds = tile_folded_products(plan);
    size->fold_ops = result.fold_ops + 1; /* and the fold itself */
    size->three_groups = can_have_three_groups(func, group, plan, result.ops + result.fold_ops);
    const ScheduleEntry *turns = schedule_user_entry(func, "pingpong", "");
    size->can_multicast = func->target->has_setmaxnreg && func->target->cluster > 1 &&
                          plan->n_dots == 1 && !has_taps(plan) && !size->masked &&
                          !(turns && text_equal(turns->symbol, "on"));
    return size->m > 0 && size->n > 0 && size->k > 0 && size->m <= PRODUCT_MAX &&
           size->n <= PRODUCT_MAX && size->k <= PRODUCT_MAX;
}

/* "24 × 16 tiles, 2.9 waves of 132; 128 × 256: 2.2, 30 % longer" */
static const char *waves_reason(Func *func, const Machine *rates, const DotProblem *size,
                                const DotTiling *tiles)
{
    const Target *target = func->target;
    Text why = text_new(func->arena);
    text_printf(&why, "%lld tiles%s on %d multiprocessors: %.2f waves", (long long)tiles->count,
                tiles->split_k_tail ? " in addition to the tail" : "", target->machine->num_sms,
                wave_model_waves(target, tiles));
    const MatrixInstr *instruction = mma_warpgroup(target);
    int64_t m = min_i64(128, max_i64(instruction->m, power_of_two_at_least(min_i64(size->m, 128))));
    int64_t n = instruction->max_n / power_of_two_at_least(size->dots);
    DotTiling usual = wave_model_tiling(target, rates, size, m, n, 1);
    if (usual.cycles > tiles->cycles && (m != tiles->m || n != tiles->n)) {
        text_printf(&why, "; tiles of %lld by %lld: %.2f, %.0f %% more time", (long long)m,
                    (long long)n, wave_model_waves(target, &usual),
                    100 * (usual.cycles / tiles->cycles - 1));
    }
    return why.data;
}

const char *tile_choose_waves(Func *func, const Op *group, TilePlan *plan, AxisPlan *m, AxisPlan *n,
                              DotTiling *tiles)
{
    const Machine *rates = func->target->machine;
    DotProblem size;
    if (!rates || !product_size(func, group, plan, m, n, &size)) {
        return NULL;
    }
    *tiles = wave_model_choose(func->target, rates, &size);
    tiles->three_groups = size.three_groups && tiles->m == THREE_GROUP_ROWS &&
                          (!size.user_m || schedule_peek_entry(func, "warps", ""));
    plan->is_timed = true;
    plan->single_wave = wave_model_is_single_wave(func->target, rates, &size, tiles);
    return waves_reason(func, rates, &size, tiles);
}

/* ---- combining slices of k ---- */

bool tile_choose_parts(const Op *group, TilePlan *plan)
{
    bool found = false;
    for (const Op *op = group->regions[0]->first; op && plan->is_rest; op = op->next) {
        const Op *load = op->kind == OP_REDUCE ? op->operands[0]->def : NULL;
        int64_t extent;
        if (load && load->kind == OP_LOAD && load->results[0]->type->rank > 2 &&
            op_int(op, ATTR_AXIS, 0) == 0 &&
            poly_is_const(load->results[0]->type->dims[0], &extent) && extent <= MAX_PARTS) {
            AxisPlan *axis = tile_axis_of(plan, load->results[0], 0);
            if (axis && !(axis->flags & AXIS_STORED)) {
                axis->how = AXIS_UNROLL;
                axis->step = 0;
                found = true;
            }
        }
    }
    return found;
}
