/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the tiles, warps, slices of k and raster of a fusion group around a dot. */
#include "passes/tile/tile_steps.h"
#include "support/int_math.h"

#include "ir/ir_errors.h"
#include "ir/nominal_sizes.h"
#include "passes/analysis/access_width.h"
#include "passes/analysis/cost_model.h"
#include "passes/analysis/dequant_scale.h"

#include <math.h>

enum {
    MAX_COUNTED = 1 << 24, /* elements of an axis of which tiles are counted */
    RASTER_ROWS = 1024,    /* of a raster group (measured: tiles of 128 and 256 rows) */
    LEAST_COLUMNS = 32,    /* of a warp group's tile, where registers suffice */
    OTHER_REGISTERS = 32, /* of a thread, besides accumulators and fragments: addresses, counters */
    UPCAST_DEPTH = 128,   /* elements of a step if an operand is upcast */
    MIN_STEPS = 4,        /* of a slice of k */
    PLAIN_STEPS = 2,      /* the same if threads load the operands, */
    PLAIN_CYCLES = 2000,  /* which takes so long a step */
    MIN_TAIL = 2,         /* slices of a split-K tail */
    MAX_RASTER_GROUP = 65536, /* tiles of rows: more than any grid has need of */
    REDUCED_ELEMENTS = 16384, /* of a tile that is reduced besides the dot */
};

/* ---- products ---- */

const char *tile_two_sums_reason(bool folds)
{
    return folds ? "a product's sums and what products are folded into share a thread's registers"
                 : "a step's sums and the sums of all steps share a thread's registers";
}

static const char *columns_reason(int64_t most, bool twice, bool folds, bool wide)
{
    if (most == 256) {
        return "the widest product instruction, or as wide as the matrix is";
    }
    if (twice) {
        return tile_two_sums_reason(folds);
    }
    return wide ? "accumulators of all products share a thread's registers"
                : "operands pass through registers, which accumulators must leave";
}

/* Columns of which the sums of all dots fit a thread of a warp group, at most LEAST_COLUMNS:
 * narrower instructions waste the matrix unit. */
static int64_t fewest_columns(const Func *func, const TilePlan *plan)
{
    const MatrixInstr *unit = plan->instruction;
    int64_t lanes = (int64_t)mma_warps(unit) * func->target->warp;
    int64_t registers = func->target->registers_thread - OTHER_REGISTERS;
    int64_t columns = registers * lanes / unit->m / max_i64(1, plan->n_dots);
    return max_i64(unit->n, min_i64(LEAST_COLUMNS, power_of_two_at_most(max_i64(1, columns))));
}

/* If the group has several dots that differ, or one whose steps are `scaled`, or the target has no
 * rates. */
static void choose_by_fit(Func *func, TilePlan *plan, AxisPlan *m, AxisPlan *n, bool scaled)
{
    const MatrixInstr *unit = plan->instruction;
    bool wide = tile_operands_stay_out(func, plan->dot);
    if (m) {
        set_halved(func, m, max_i64(unit->m, fitted(m->dim, 128)), unit->m, TURN_ROWS,
                   "two warp groups of 64 rows, or one where there are no more rows");
    }
    if (n) {
        bool folds = tile_folded_products(plan) > 1;
        bool twice = unit->max_accumulate_k != 0 || scaled || folds;
        int64_t least = fewest_columns(func, plan);
        int64_t most =
            max_i64(least, (wide && !twice ? 256 : 128) / power_of_two_at_least(plan->n_dots));
        set_halved(func, n, max_i64(least, fitted(n->dim, most)), unit->n, TURN_COLUMNS,
                   columns_reason(most, twice, folds, wide));
    }
    if (m && n && m->step > unit->m &&
        2 * tile_blocks(plan, m, n) <= func->target->machine->num_sms) {
        set_halved(func, m, unit->m, unit->m, TURN_ROWS,
                   "one warp group of 64 rows: twice as many multiprocessors have a tile");
    }
}

/* Warps of a tile: a warp group for each 64 rows, at most two, or three if the model chose them;
 * one if a block has two tiles (ping-pong). */
static void choose_teams(Func *func, TilePlan *plan, const AxisPlan *m, bool three_groups)
{
    bool may = func->target->has_setmaxnreg && tile_operands_stay_out(func, plan->dot);
    bool on = may && schedule_decide_on(func, "pingpong", false,
                                        "the matrix unit and the epilogue share the register "
                                        "ports, so overlapping them gains little");
    plan->teams = on ? 2 : 1;
    int64_t groups = m ? max_i64(1, m->step / 64) : 1;
    plan->warps = three_groups ? THREE_GROUP_WARPS : min_i64(8, groups * 4);
    plan->warps = on ? 4 : plan->warps;
}

/* A multicast group: adjacent blocks along one of the axes that load the tile that they share once.
 * Whether the copies allow it is known later (stage_multicast.c), which records the entry. */
static void choose_multicast(Func *func, AxisPlan *axis, const AxisPlan *other, int64_t derived)
{
    const ScheduleEntry *line = schedule_user_entry(func, "multicast", axis->name);
    int64_t most = func->target->portable_cluster;
    int64_t blocks = line ? line->number : derived;
    bool may = blocks >= 1 && blocks <= most && (blocks & (blocks - 1)) == 0;
    if (line && (!may || (blocks > 1 && other && other->multicast > 1))) {
        Diag *d = diag_error(
            func->diags, ERR_NOT_HERE, line->span,
            may ? "`multicast %s %lld` is not possible in addition to that of another axis"
                : "`multicast %s %lld` is not possible",
            axis->name, (long long)blocks);
        diag_help(func->diags, d, "a power of two from 1 to %lld, along one axis", (long long)most);
    } else if (blocks > 1) {
        axis->multicast = blocks;
    } else if (line) {
        schedule_decide_int(func, "multicast", axis->name, 1, "each block loads its own operands");
    }
}

/* A split-K tail: the tiles of the first elements of an axis are split, instead of a last wave. */
static void choose_tail(Func *func, const Op *group, TilePlan *plan, AxisPlan *axis,
                        int64_t derived)
{
    const ScheduleEntry *line = axis ? schedule_user_entry(func, "split_k_tail", axis->name) : NULL;
    if (!axis || (!derived && !line) || !tile_can_tail(func, group, plan)) {
        return;
    }
    int64_t step = axis->step * max_i64(1, axis->multicast);
    derived = derived % step == 0 ? derived : 0; /* the tile was halved since */
    int64_t upto =
        schedule_decide_int(func, "split_k_tail", axis->name, derived,
                            "their tiles would be a last wave that leaves multiprocessors "
                            "idle: a part of one is each block's");
    int64_t most = poly_most(axis->dim);
    bool past = most <= INT64_MAX - step && upto > ceil_div(most, step) * step;
    if (upto < 0 || upto % step != 0 || past || (upto > 0 && plan->split_k_tail)) {
        Diag *d =
            diag_error(func->diags, ERR_NOT_HERE, line->span,
                       "`split_k_tail %s %lld` is not possible%s", axis->name, (long long)upto,
                       plan->split_k_tail ? " in addition to that of another axis" : "");
        diag_help(func->diags, d, "a multiple of %lld, whole tiles, along one axis%s",
                  (long long)step,
                  past ? arena_printf(func->arena, "; %s has at most %lld elements", axis->name,
                                      (long long)most)
                       : "");
    } else if (upto > 0) {
        plan->split_k_tail = axis;
        plan->tail_upto = upto;
        plan->split_k = max_i64(MIN_TAIL, plan->split_k);
    }
}

/* Tiles for warp-group MMA from shared memory. Returns the step along k. */
static int64_t choose_groups(Func *func, const Op *group, TilePlan *plan, AxisPlan *m, AxisPlan *n,
                             bool scaled)
{
    const MatrixInstr *unit = plan->instruction;
    DotTiling tiles = {.depth = func->target->shared_row / dtype_bytes(unit->operands)};
    const char *reason = tile_choose_waves(func, group, plan, m, n, &tiles);
    bool three_groups = false;
    if (reason) {
        three_groups = tiles.three_groups;
        const char *rows = "one warp group of 64 rows";
        if (three_groups) {
            rows = "three warp groups, each of 64 rows";
        } else if (tiles.m > unit->m) {
            rows = "two warp groups, each of 64 rows or a multiple";
        }
        set_halved(func, m, tiles.m, unit->m, TURN_ROWS, rows);
        three_groups = three_groups && m->step == THREE_GROUP_ROWS;
        set_halved(func, n, tiles.n, unit->n, TURN_COLUMNS, reason);
        plan->split_k = tiles.split_k;
        plan->cluster_split_k = tiles.clustered ? tiles.split_k : 0;
    } else {
        choose_by_fit(func, plan, m, n, scaled);
        /* The user's tiles would be those of the launch that combines the slices, too. */
        bool bulk =
            tile_operands_stay_out(func, plan->dot) || schedule_has_user_entry(func, "tile");
        if (m && n && !bulk) {
            int64_t most = tile_choose_split_k(func, plan, m, n, tiles.depth, PLAIN_STEPS);
            plan->split_k = tile_weigh_slices(func, plan, most, tiles.depth, PLAIN_CYCLES);
        }
    }
    choose_teams(func, plan, m, three_groups);
    if (m && n && func->target->cluster > 1) {
        choose_multicast(func, m, NULL, tiles.multicast_m);
        choose_multicast(func, n, m, tiles.multicast_n);
    }
    plan->tail_upto = tiles.split_k_tail * (tiles.tail_along_n ? tiles.n : tiles.m);
    if (tiles.split_k_tail) {
        plan->split_k_tail = tiles.tail_along_n ? n : m;
    } else {
        plan->split_k_tail = NULL;
    }
    return tiles.depth;
}

/* True if dots of a batch axis are summed. */
bool tile_is_summed_batch(const TilePlan *plan, const AxisPlan *axis)
{
    const Value *product = plan->dot->results[0];
    bool batch = false;
    for (int i = 0; i < product->type->rank - 2; i++) {
        batch = batch || axes_class(plan->axes, product, i) == axis->class;
    }
    return batch && !(axis->flags & AXIS_STORED);
}

/* The user's tiles and warps, where there are any. */
static MmaTileShape given_tiles(Func *func, const TilePlan *plan, const AxisPlan *m,
                                const AxisPlan *n)
{
    MmaTileShape tiles = {
        .warps = tile_known_warps(func, NULL),
        .along_k = {tile_along_k(func, plan->dot, 0), tile_along_k(func, plan->dot, 1)},
        .stay_out = tile_operands_stay_out(func, plan->dot)};
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        const ScheduleEntry *line = schedule_user_entry(func, "tile", axis->name);
        bool batch = axis != m && axis != n && (axis->flags & AXIS_STORED);
        if (line && axis == m) {
            tiles.rows = line->number;
        } else if (line && axis == n) {
            tiles.columns = line->number;
        } else if (line && !batch && (axis->flags & AXIS_CONTRACTED)) {
            tiles.depth = line->number;
        }
    }
    return tiles;
}

/* ---- other reductions over the dot's tile ---- */

typedef struct OtherTile {
    TilePlan *plan;
    const AxisPlan *axis;
    int64_t most; /* elements of a tile that has the axis, along the axes that have steps */
} OtherTile;

static void measure_other(Op *op, void *user)
{
    OtherTile *other = user;
    for (int r = 0; r < op->n_results; r++) {
        const Value *value = op->results[r];
        int64_t elements = 1;
        bool has = false;
        for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
            const AxisPlan *axis = tile_axis_of(other->plan, value, i);
            has = has || axis == other->axis;
            elements *= axis && axis != other->axis ? max_i64(1, axis->step) : 1;
        }
        other->most = has ? max_i64(other->most, elements) : other->most;
    }
}

/* The product's tile is large already: little of another axis is held with it. A CPU's buffers are
 * made of whole vectors. */
static void choose_other_reductions(Func *func, const Op *group, TilePlan *plan)
{
    int64_t lanes = is_gpu(func) ? 1 : func->target->vector_bytes / 4;
    for (int i = plan->n_stored; i < plan->n; i++) {
        AxisPlan *axis = &plan->items[i];
        if (axis->how != AXIS_PART && !(axis->flags & AXIS_CONTRACTED) &&
            !tile_is_summed_batch(plan, axis)) {
            OtherTile other = {plan, axis, 1};
            block_walk(group->regions[0], measure_other, &other);
            int64_t wanted = power_of_two_at_most(REDUCED_ELEMENTS / other.most);
            wanted = wanted < lanes ? 1 : wanted;
            tile_set_step(func, axis, AXIS_LOOP, fitted(axis->dim, wanted),
                          "as much as a block has space for in addition to a product");
        }
    }
}

/* Elements of k with the same scale; 0: any number. The user's step may differ. */
static int64_t same_factor(const Func *func, const Op *dot, const MmaTileShape *tiles, MmaTypes *of)
{
    ScaledDot found;
    *of = tile_operands(func, dot);
    if (!an_scaled_dot(func, dot, &found) || found.block == 0) {
        return 0;
    }
    if (tiles->depth && found.block % tiles->depth != 0) {
        *of = (MmaTypes){DT_F32, DT_F32};
        return 0;
    }
    return found.block & -found.block;
}

/* Warp-level MMA on what TMA loads, of which B is upcast in registers: that takes instructions for
 * each of its elements, so that a warp has few rows and many columns. */
static int64_t choose_upcast_b(Func *func, TilePlan *plan, AxisPlan *m, AxisPlan *n)
{
    const MatrixInstr *unit = plan->instruction;
    int64_t rows = max_i64(unit->m, fitted(m->dim, 128));
    int64_t columns = max_i64(8 * unit->n, fitted(n->dim, rows <= 64 ? 256 : 128));
    set_halved(func, m, rows, unit->m, TURN_ROWS, "rows that share each widened element");
    set_halved(func, n, columns, unit->n, TURN_COLUMNS,
               "columns that share each element of the left operand");
    plan->warps = 8;
    plan->split_k = tile_choose_split_k(func, plan, m, n, UPCAST_DEPTH, MIN_STEPS);
    plan->cluster_split_k = tile_held_together(func, plan);
    return UPCAST_DEPTH;
}

/* Cycles of the busiest multiprocessor for tiles with this many columns, whose rows a warp group
 * upcasts. Fitted on the H200 (docs/lab/products.md): the matrix unit takes 8 of COLUMN's cycles;
 * upcasting the rows takes STEP's; a launch that combines slices of k takes LAUNCH. */
static double upcast_cycles(Func *func, TilePlan *plan, const AxisPlan *m, AxisPlan *n,
                            int64_t columns)
{
    static const double COLUMN = 8.66, STEP = 288, LAUNCH = 5000;
    const Op *dot = plan->dot;
    const AxisPlan *k = tile_axis_of(plan, dot->operands[0], dot->operands[0]->type->rank - 1);
    int64_t steps = ceil_div(k ? poly_nominal(k->dim) : 1, UPCAST_DEPTH);
    n->step = columns;
    int64_t slices = tile_choose_split_k(func, plan, m, n, UPCAST_DEPTH, MIN_STEPS);
    int64_t tiles = tiles_of(m, m->step) * tiles_of(n, columns) * slices;
    StepCost step = {.busy = {[COST_MATRIX] = COLUMN * (double)columns}, .exposed = STEP};
    TileCost tile = {.steps = (double)ceil_div(steps, slices), .step = cost_step(&step)};
    return (double)cost_waves(tiles, func->target->machine->num_sms) * cost_tile(&tile) +
           (slices > 1 ? LAUNCH : 0);
}

/* Is the extent one for which cycles can be counted? */
static bool is_countable(const AxisPlan *axis)
{
    return axis && poly_nominal(axis->dim) <= MAX_COUNTED;
}

/* The columns that cost least. */
static int64_t upcast_columns(Func *func, TilePlan *plan, const AxisPlan *m, AxisPlan *n,
                              int64_t most)
{
    const Op *dot = plan->dot;
    const AxisPlan *k = tile_axis_of(plan, dot->operands[0], dot->operands[0]->type->rank - 1);
    int64_t unit = plan->instruction->n,
            best = max_i64(unit, fitted(n->dim, power_of_two_at_most(most)));
    if (!is_countable(m) || !is_countable(n) || !is_countable(k)) {
        return best;
    }
    double least = upcast_cycles(func, plan, m, n, best);
    for (int64_t columns = unit; columns <= most; columns += unit) {
        double cycles = upcast_cycles(func, plan, m, n, columns);
        best = cycles < least ? columns : best;
        least = fmin(least, cycles);
    }
    return best;
}

/* Warp-group MMA whose A operand is upcast in registers, for all columns of the tile. Scales are
 * applied to the result of a step, so that accumulators take twice the registers. */
static int64_t choose_upcast_a(Func *func, TilePlan *plan, AxisPlan *m, AxisPlan *n, bool scaled)
{
    enum { MAX_SCALED = 192, MAX_PLAIN = 256 };
    const MatrixInstr *unit = plan->instruction;
    set_halved(func, m, max_i64(unit->m, fitted(m->dim, 128)), unit->m, TURN_ROWS,
               "two warp groups of 64 rows, or one where there are no more rows");
    int64_t columns = upcast_columns(func, plan, m, n, scaled ? MAX_SCALED : MAX_PLAIN);
    set_halved(func, n, columns, unit->n, TURN_COLUMNS,
               "columns that share each widened element; the last wave is nearly full");
    choose_teams(func, plan, m, false);
    plan->split_k = tile_choose_split_k(func, plan, m, n, UPCAST_DEPTH, MIN_STEPS);
    plan->cluster_split_k = tile_held_together(func, plan);
    return UPCAST_DEPTH;
}

static bool is_upcast(const Func *func, const TilePlan *plan, const MmaTypes *of, const AxisPlan *m,
                      const AxisPlan *n)
{
    return m && n && plan->n_dots == 1 && plan->dot->results[0]->type->rank == 2 &&
           func->target->has_setmaxnreg && of->left != of->right &&
           tile_operands_stay_out(func, plan->dot);
}

static const char *depth_reason(const Func *func, const MatrixInstr *unit, bool whole,
                                int64_t bytes)
{
    if (!unit) {
        return "as deep as the operands' tiles stay small";
    }
    if (!whole) {
        return "no factor of an operand changes in it";
    }
    if (bytes > func->target->shared_row) {
        return "rows of swizzled shared memory; small tiles synchronize less often";
    }
    return bytes == func->target->shared_row ? "one 128-byte row of swizzled shared memory"
                                             : "half a 128-byte row of swizzled shared memory";
}

/* Chooses the tiles of all axes but k, whose step is returned. `same`: elements of k with one
 * scale; 0: no operand is scaled. */
static int64_t choose_depth(Func *func, const Op *group, TilePlan *plan, const MmaTypes *of,
                            AxisPlan *m, AxisPlan *n, int64_t same)
{
    const MatrixInstr *unit = plan->instruction;
    if (!unit) {
        return tile_choose_fma(func, group, plan, m, n);
    }
    bool upcast = is_upcast(func, plan, of, m, n);
    if (mma_warps(unit) > 1) {
        return upcast ? choose_upcast_a(func, plan, m, n, same != 0)
                      : choose_groups(func, group, plan, m, n, same != 0);
    }
    return upcast ? choose_upcast_b(func, plan, m, n)
                  : tile_choose_warp_mma(func, plan, m, n, same != 0);
}

void tile_choose_product(Func *func, const Op *group, TilePlan *plan)
{
    MmaTypes of;
    int rank = plan->dot->results[0]->type->rank;
    AxisPlan *m = tile_axis_of(plan, plan->dot->results[0], rank - 2);
    AxisPlan *n = tile_axis_of(plan, plan->dot->results[0], rank - 1);
    MmaTileShape tiles = given_tiles(func, plan, m, n);
    int64_t same = same_factor(func, plan->dot, &tiles, &of);
    const MatrixInstr *unit =
        tile_instruction(func, &of, plan->dot->results[0]->type->dtype, &tiles);
    plan->instruction = unit;
    int64_t depth = choose_depth(func, group, plan, &of, m, n, same);
    bool whole = !same || depth <= same;
    depth = whole ? depth : same;
    int bytes = dtype_bytes(of.left);
    for (int i = 0; i < plan->n; i++) {
        AxisPlan *axis = &plan->items[i];
        if (axis->how != AXIS_PART && axis != m && axis != n && (axis->flags & AXIS_STORED)) {
            axis->how = AXIS_SCALAR; /* a batch: one matrix at a time */
            axis->step = 0;
        } else if (tile_is_summed_batch(plan, axis)) {
            axis->how = AXIS_LOOP;
            axis->step = 0;
        } else if (axis->flags & AXIS_CONTRACTED) {
            /* Threads multiply every element of a tile: a short axis has a short tile. */
            int64_t least = unit ? unit->k : min_i64(FMA_MIN, fitted(axis->dim, depth));
            set_halved(func, axis, unit ? depth : fitted(axis->dim, depth), least, TURN_DEPTH,
                       depth_reason(func, unit, whole, depth * bytes));
        }
    }
    choose_other_reductions(func, group, plan);
    const AxisPlan *tail = plan->split_k_tail; /* that the model chose */
    plan->split_k_tail = NULL;
    choose_tail(func, group, plan, m, tail && tail == m ? plan->tail_upto : 0);
    choose_tail(func, group, plan, n, tail && tail == n ? plan->tail_upto : 0);
    if (!plan->split_k_tail && tail) {
        plan->split_k = 0;
    }
    tile_choose_cluster_split_k(func, group, plan, plan->cluster_split_k > 1);
    if (is_gpu(func) && plan->n_stored == 2 && plan->cluster_split_k < 2) {
        int64_t derived =
            plan->instruction && m ? min_i64(8, max_i64(1, RASTER_ROWS / max_i64(64, m->step))) : 8;
        plan->raster_group = schedule_decide_int(
            func, "raster", "grouped", derived,
            "%lld tiles of rows share columns of the right operand in L2", (long long)derived);
        if (plan->raster_group < 0 || plan->raster_group > MAX_RASTER_GROUP) {
            Diag *d = diag_error(
                func->diags, ERR_NOT_HERE, schedule_user_entry(func, "raster", "grouped")->span,
                "`raster grouped %lld` is not possible", (long long)plan->raster_group);
            diag_help(func->diags, d, "0, which is row by row, to %d", MAX_RASTER_GROUP);
            plan->raster_group = derived;
        }
    }
}
