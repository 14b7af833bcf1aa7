/* SPDX-License-Identifier: Apache-2.0 */
/* What the model of a product's tiles (analysis/wave_model.h) is given, and what is said of its
 * answer. */
#include "passes/tile/tile_steps.h"
#include "support/int_math.h"

#include "passes/analysis/access_width.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/analysis/dot_model_inputs.h"
#include "passes/analysis/masked_operand.h"

enum {
    MAX_PARTS = 16,     /* that a thread adds one by one; more are shared out over threads */
    MAX_OPS = 4,        /* with an element, where three warp groups share a tile */
    APART_COLUMNS = 16, /* of a tile, where registers for two sums bound it, not its rows */
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

/* Rows of 16 bytes: what the copy engine can describe. Other operands pass through registers. */
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

static int64_t given_along(Func *func, const char *key, const AxisPlan *axis)
{
    const ScheduleEntry *line = axis ? schedule_user_entry(func, key, axis->name) : NULL;
    return line && line->number > 0 ? line->number : 0;
}

static bool is_given_zero(Func *func, const char *key, const AxisPlan *axis)
{
    const ScheduleEntry *line = schedule_user_entry(func, key, axis->name);
    return line && line->number == 0;
}

/* Does the right operand lie with the product's columns side by side? */
static bool columns_lie(const Op *dot)
{
    bool turned = false;
    for (const Op *op = dot->operands[1]->def; op && op->kind != OP_LOAD;
         op = op->operands[op->kind == OP_SELECT]->def) {
        turned ^= op->kind == OP_PERMUTE;
    }
    return !turned;
}

static int64_t given_shares(Func *func)
{
    const ScheduleEntry *line = schedule_user_entry(func, "split_k", "");
    return line && line->number > 0 ? line->number : 0;
}

bool tile_may_share(const TilePlan *plan)
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

typedef struct Tailed {
    TilePlan *plan;
    bool may;
} Tailed;

/* Launches that have a part of the rows, or columns, each: nothing else may be written. */
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

bool tile_may_tail(const Func *func, const Op *group, TilePlan *plan)
{
    return is_gpu(func) && tile_may_share(plan) && plan->n_stored == 2 &&
           plan->dot->results[0]->type->rank == 2 && tile_stores_product(group, plan);
}

typedef struct Result {
    TilePlan *plan;
    const AxisPlan *m, *n;
    int ops;
} Result;

static void count_result(Op *op, void *user)
{
    Result *result = user;
    const Value *value = op->n_results ? op->results[0] : NULL;
    bool rows = false, columns = false;
    for (int i = 0; value && value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        const AxisPlan *axis = tile_axis_of(result->plan, value, i);
        rows = rows || axis == result->m;
        columns = columns || axis == result->n;
    }
    result->ops += rows && columns && op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_CAST;
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
                tile_operands_stay_out(all->func, op) && columns_lie(op) == columns_lie(dot);
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

/* Has every product of the group the same axes, and can the copy engine bring its operands? */
static bool all_alike(Func *func, const Op *group, TilePlan *plan)
{
    Alike all = {func, plan, true};
    block_walk(group->regions[0], check_alike, &all);
    return all.alike;
}

/* Of an axis that several have become the bounds of each are closer than those of their product, in
 * which a size may both add and take away. */
static int64_t most_along(const Func *func, Dim dim)
{
    int64_t most = poly_most(dim);
    for (size_t i = 0; i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        int from = 0;
        for (int axis = 0; param->collapsed && axis < param->value->type->rank; axis++) {
            int64_t product = 1;
            for (int k = 0; k < param->collapsed[axis]; k++) {
                product = mul_sat(product, poly_most(param->caller_type->dims[from++]));
            }
            bool same = param->value->type->dims[axis] == dim;
            most = same && product < most ? product : most;
        }
    }
    return most;
}

static bool has_taps(const TilePlan *plan)
{
    bool found = false;
    for (int i = 0; i < plan->n; i++) {
        found = found || tile_is_summed_batch(plan, &plan->items[i]);
    }
    return found;
}

typedef struct Thirds {
    Func *func;
    bool may;
} Thirds;

/* What is made of a tile stays with the thread that has it, and is little. */
static void check_thirds(Op *op, void *user)
{
    Thirds *thirds = user;
    bool operand = op->n_operands && op->operands[0]->def && op->operands[0]->def->kind == OP_LOAD;
    for (int i = 0; op_has(op, TRAIT_ELEMENTWISE) && i < op->n_operands; i++) {
        const Op *def = op->operands[i]->def;
        bool tile = def && def->kind == OP_LOAD && def->results[0]->type->rank > 1;
        thirds->may = thirds->may && !tile; /* it would come in another layout */
    }
    switch (op->kind) {
    case OP_DOT:
    case OP_LOAD:
    case OP_STORE:
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_CONST: break;
    case OP_PERMUTE: thirds->may = thirds->may && operand; break;
    default: thirds->may = thirds->may && op_has(op, TRAIT_ELEMENTWISE); break;
    }
}

/* Three warp groups have 160 registers a thread, and warps that are no power of two: rows of a tile
 * that no warp has must be nobody's. */
static bool may_have_thirds(Func *func, const Op *group, const TilePlan *plan, int ops)
{
    const ScheduleEntry *warps = schedule_peek_entry(func, "warps", "");
    Thirds thirds = {func, plan->n_dots == 1 && !plan->instruction->max_accumulate_k &&
                               ops <= MAX_OPS && func->target->has_setmaxnreg &&
                               !schedule_user_entry(func, "pingpong", "") &&
                               (!warps || warps->number == THIRDS_WARPS)};
    block_walk(group->regions[0], check_thirds, &thirds);
    return thirds.may;
}

/* The extents of products alike, if they are known: the most that they can be. */
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
        .m = most_along(func, m->dim),
        .n = most_along(func, n->dim),
        .k = poly_most(k->dim),
        .batch = 1,
        .rounds = 1,
        .columns_of = plan->instruction->max_accumulate_k
                          ? APART_COLUMNS
                          : product_columns(columns_lie(dot), bytes),
        .left_lines = lines_of(func, dot, 0),
        .right_lines = lines_of(func, dot, 1),
        .given_m = m->whole ? m->whole : given_along(func, "tile", m),
        .given_n = n->whole ? n->whole : given_along(func, "tile", n),
        .given_k = given_along(func, "tile", k),
        .given_split_k = given_shares(func),
        .given_beside_m = given_along(func, "multicast", m),
        .given_beside_n = given_along(func, "multicast", n),
        .given_tail_m = given_along(func, "split_k_tail", m),
        .given_tail_n = given_along(func, "split_k_tail", n),
        .may_tail = tile_may_tail(func, group, plan) && func->target->has_setmaxnreg &&
                    !is_given_zero(func, "split_k_tail", m) &&
                    !is_given_zero(func, "split_k_tail", n),
        .may_share = tile_may_share(plan),
        .open = poly_least(m->dim) < poly_most(m->dim) || poly_least(n->dim) < poly_most(n->dim),
        .may_cluster = tile_may_cluster(func, group, plan),
        .given_cluster = cluster ? cluster->number : 0,
        .apart = plan->instruction->max_accumulate_k != 0,
        .dots = plan->n_dots,
        .bytes = bytes};
    /* Blocks that wait for one another would take as many steps each. */
    size->masked = an_is_masked(dot, 0) || an_is_masked(dot, 1);
    if (size->masked) {
        size->may_tail = false;
        size->may_cluster = size->given_cluster > 1;
    }
    /* Few channels for each of many taps: what is past them is multiplied at every one. */
    int64_t whole = product_columns(true, bytes), row = fitted(k->dim, whole);
    if (has_taps(plan) && !size->given_k && row < whole) {
        size->given_k = max_i64(plan->instruction->k, row);
    }
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        if (axis != m && axis != n && axis != k && axis->how != AXIS_PART) {
            int64_t *times = tile_is_summed_batch(plan, axis) ? &size->rounds : &size->batch;
            *times *= min_i64(poly_most(axis->dim), PRODUCT_MAX + 1);
        }
        if (size->batch > PRODUCT_MAX || size->rounds > PRODUCT_MAX) {
            return false;
        }
    }
    Result result = {plan, m, n, 0};
    block_walk(group->regions[0], count_result, &result);
    size->ops = result.ops;
    size->thirds = may_have_thirds(func, group, plan, result.ops);
    const ScheduleEntry *turns = schedule_user_entry(func, "pingpong", "");
    size->may_meet = func->target->has_setmaxnreg && func->target->cluster > 1 &&
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
                tiles->split_k_tail ? " beside the tail" : "", target->machine->num_sms,
                waves_count(target, tiles));
    const MatrixInstr *instruction = mma_warpgroup(target);
    int64_t m = min_i64(128, max_i64(instruction->m, power_of_two_at_least(min_i64(size->m, 128))));
    int64_t n = instruction->max_n / power_of_two_at_least(size->dots);
    DotTiling usual = wave_model_tiling(target, rates, size, m, n, 1);
    if (usual.cycles > tiles->cycles && (m != tiles->m || n != tiles->n)) {
        text_printf(&why, "; tiles of %lld by %lld: %.2f, %.0f %% more time", (long long)m,
                    (long long)n, waves_count(target, &usual),
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
    tiles->thirds = size.thirds && tiles->m == THIRDS_ROWS &&
                    (!size.given_m || schedule_peek_entry(func, "warps", ""));
    plan->is_timed = true;
    plan->single_wave = wave_model_is_single_wave(func->target, rates, &size, tiles);
    return waves_reason(func, rates, &size, tiles);
}

/* ---- what shares come to ---- */

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
