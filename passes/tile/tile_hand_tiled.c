/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the tile sizes of a `parallel` of the source: those of the source or of the user's
 * schedule entries, or smaller ones if a block cannot hold so much. */
#include "passes/tile/tile_hand_tiled.h"

#include "support/int_math.h"

enum {
    LOOPS_ALONE = 4,         /* steps of loops shrink by up to this before those of grids do */
    SHARED_SLACK = 4096,     /* of shared memory, for reductions and barriers */
    MIN_STEP = 16,           /* unless it turns out that not even that fits */
    MAX_SHRINK = 64,         /* of the source's steps, before it is known what does not fit */
    THREAD_RANKED = 8,       /* elements ranked without a table: digits, ranks and values live */
    THREAD_HELD_BYTES = 840, /* of accumulators and operands that a thread may hold */
    STEP_COLUMNS = 32,       /* what a step of a loop costs in addition to its own, measured on an
                                H200 */
    EVEN_COLUMNS = 32,       /* steps that the matrix units of all types take */
    EVEN_GAIN = 8,           /* % that another step must save */
    RESERVED_BYTES = 90,     /* bytes of a thread's registers that are no accumulators, and half a
                                byte for each element of the scores' depth: nothing spills then */
    SCARCE = 144,            /* registers: where there are fewer, */
    SCARCE_RESERVED_BYTES = 24, /* this many bytes more */
    MAX_CONSUMER = 240,
    CHAIN_DOTS = 3, /* products of a step, that wait for one another */
};

/* An axis that one tile holds, rounded up, has its step. */
bool source_steps_along(const Op *op, int axis)
{
    const DimVar *range = op_attr(op, ATTR_STEPS)->ints[axis]
                              ? poly_as_range(op->regions[0]->args[axis]->type->dims[0])
                              : NULL;
    return range && !range->holds_all;
}

static bool begins_at_zero(const Op *loop)
{
    return loop->kind == OP_FOR && value_is_const(for_lo(loop), 0);
}

static bool is_whole(const Op *loop)
{
    const Op *end = begins_at_zero(loop) ? loop->operands[1]->def : NULL;
    return end && end->kind == OP_SIZE;
}

/* Does the loop walk all of an axis? Then this is its extent, the most that it can be; else, or
 * where that is not known, 0. */
static int64_t walks_all(const Op *loop)
{
    int64_t most = is_whole(loop) ? poly_most(op_attr(loop, ATTR_DIMS)->dims[0]) : 0;
    return most < INT32_MAX ? most : 0;
}

static int64_t walk_cost(int64_t extent, int64_t step)
{
    return ceil_div(extent, step) * (step + STEP_COLUMNS);
}

/* The step near the source's that walks a short axis in the least time: 320 keys are two steps of
 * 160, not three of 128. */
static int64_t even_step(int64_t written, int64_t extent)
{
    int64_t best = written, least = walk_cost(extent, written);
    int64_t enough = least * (100 - EVEN_GAIN) / 100;
    int64_t first = max_i64(1, written / 2 / EVEN_COLUMNS) * EVEN_COLUMNS;
    for (int64_t step = first; step <= written * 5 / 4; step += EVEN_COLUMNS) {
        int64_t cost = walk_cost(extent, step);
        if (cost <= enough && cost <= least) {
            best = step;
            least = cost;
        }
    }
    return best;
}

/* Of other warp groups than the source's: their rows in the grid, their columns in the loops. */
static int64_t planned_step(const BlockFootprint *steps, const Op *op, int64_t written)
{
    const WarpGroupPlan *plan = &steps->plan;
    int64_t group = tile_group_rows(steps->func);
    if (op->kind == OP_FOR && plan->columns) {
        return written == plan->widest ? plan->columns : min_i64(written, plan->columns);
    }
    bool rows = op->kind != OP_FOR && plan->groups && written == 2 * group;
    return rows ? plan->groups * group : written;
}

/* Why a planned step is another one than the source's. */
static const char *planned_why(const WarpGroupPlan *plan, const Op *op, bool more)
{
    if (op->kind == OP_FOR) {
        if (more) {
            return "more than the source says: fewer steps, or less of the last one unused";
        }
        if (plan->blocks > 1) {
            return "fewer than the source says: the blocks share memory and registers";
        }
        return plan->groups == 3
                   ? "fewer than the source says: three warp groups share the registers"
                   : "fewer than the source says: less of the last step unused";
    }
    if (plan->groups == 3) {
        return "three warp groups of 64 rows: one's work on elements hides under two's products";
    }
    return plan->blocks > 1 ? "one warp group of 64 rows a block: groups are never in step, and "
                              "few rows of the last tile are none"
                            : "one warp group of 64 rows: the device holds as many tiles at once "
                              "as there are, or larger ones would be as many";
}

const char tile_as_source[] = "as the source says";

static int times_smaller(const Func *func)
{
    return func->retry.dot_halvings + func->retry.plain_halvings;
}

/* The step of the axis as the source has it, or the user's line. */
static int64_t source_step(const BlockFootprint *steps, const Op *op, const Value *arg,
                           int64_t written, int64_t shrink, bool exact)
{
    Func *func = steps->func;
    int64_t extent = steps->even ? walks_all(op) : 0;
    const DimVar *var = poly_as_range(arg->type->dims[0]);
    int64_t base = written > 0 ? written : 128;
    int64_t source = base;
    base = planned_step(steps, op, base);
    int64_t even = extent > 0 && !exact ? even_step(base, extent) : base;
    int64_t least = min_i64(base, max_i64(1, MIN_STEP >> times_smaller(func)));
    int64_t derived = exact ? base : max_i64(least, base / shrink);
    const char *name = var->name ? var->name : "range";
    if (exact) {
        return source;
    }
    bool narrowed = op->kind == OP_PARALLEL && (steps->narrowed >> arg->index & 1);
    const char *why = shrink == 1 && !narrowed
                          ? tile_as_source
                          : "the source's, halved until a block has space for the products' "
                            "tiles";
    if (base != source && !narrowed) {
        why = planned_why(&steps->plan, op, base > source);
    }
    if (even != base) {
        derived = even;
        why = arena_printf(func->arena,
                           "at most %lld of %s: fewer steps, or less of the last "
                           "unused, than by %lld",
                           (long long)extent, name, (long long)base);
    }
    return tile_checked_step(func, name,
                             schedule_decide_int(func, "tile", name, derived, "%s", why));
}

static void set_steps(Op *op, void *user)
{
    const BlockFootprint *steps = user;
    Attr *attr = (Attr *)op_attr(op, ATTR_STEPS);
    if (!attr || (op->kind != OP_PARALLEL && op->kind != OP_FOR)) {
        return;
    }
    bool exact = op_int(op, ATTR_EXACT, 0) != 0;
    for (int i = 0; i < attr->n; i++) {
        if (!source_steps_along(op, i)) {
            continue;
        }
        Value *arg = op->regions[0]->args[i];
        DimVar *var = poly_as_range(arg->type->dims[0]);
        /* A matrix unit wants many rows; fused multiply-adds want square tiles. */
        int64_t alone = steps->loops_first ? LOOPS_ALONE : 1;
        int64_t shrink = op->kind == OP_FOR ? steps->shrink : steps->shrink / alone;
        attr->ints[i] = source_step(steps, op, arg, attr->ints[i], max_i64(1, shrink), exact);
        var->capacity = attr->ints[i];
    }
}

static void walk_group(Op *parallel, WalkFn *fn, BlockFootprint *steps)
{
    fn(parallel, steps);
    block_walk(parallel->regions[0], fn, steps);
}

static void save_steps(Op *op, void *user)
{
    SavedSteps *saved = user;
    Attr *attr = (Attr *)op_attr(op, ATTR_STEPS);
    for (int i = 0; attr && i < attr->n && saved->n < 64; i++) {
        if (attr->ints[i] && !source_steps_along(op, i)) {
            continue;
        }
        saved->items[saved->n].attr = attr;
        saved->items[saved->n].at = i;
        saved->items[saved->n++].step = attr->ints[i];
    }
}

int64_t source_blocks(Func *func)
{
    const ScheduleEntry *line =
        func->target->has_setmaxnreg ? schedule_user_entry(func, "occupancy", "") : NULL;
    return line && line->number > 1 ? line->number : 1;
}

static int64_t blocks_of(Func *func, const BlockFootprint *steps)
{
    return steps->plan.blocks ? steps->plan.blocks : source_blocks(func);
}

/* Bytes of accumulators and operands that a thread of this many groups may hold: what those that
 * copy leave of its share of the registers (stage_role_resources.c). */
static int64_t held_by(const Func *func, const BlockFootprint *steps, int64_t groups,
                       int64_t blocks)
{
    const Target *target = func->target;
    int64_t group = target->group_warps * target->warp, unit = target->register_step;
    int64_t each = target->registers / blocks / ((groups + 1) * group);
    int64_t left = each / unit * unit * (groups + 1) - target->setmaxnreg_min;
    int64_t registers = min_i64(MAX_CONSUMER, left / groups / unit * unit);
    int64_t reserved_bytes =
        RESERVED_BYTES + steps->depth / 2 + (registers < SCARCE ? SCARCE_RESERVED_BYTES : 0);
    return registers * (int64_t)sizeof(int32_t) - reserved_bytes - steps->plan.reserved;
}

/* A matrix unit's tiles: two slots of what loops bring, and registers for accumulators. A result
 * may leave through the buffer of an operand that was loaded once (stage_epilogue.c). */
static bool unit_steps_fit(Func *func, const BlockFootprint *steps)
{
    int64_t rows = tile_group_rows(func), reserved = func->target->shared_reserved;
    int64_t most = steps->rows == 3 * rows ? 3 : 2;
    int64_t groups = max_i64(1, min_i64(most, steps->rows / rows));
    int64_t threads = groups * func->target->group_warps * func->target->warp;
    bool own = !steps->plan.groups && groups <= 2; /* the source's steps: nothing to weigh */
    int64_t held =
        own ? THREAD_HELD_BYTES : held_by(func, steps, groups, max_i64(1, steps->plan.blocks));
    int64_t available = (func->target->shared_bytes + reserved) / blocks_of(func, steps);
    return steps->loaded_once + steps->stored - steps->lent + 2 * (steps->walked + steps->plain) +
                   SHARED_SLACK + reserved <=
               available &&
           steps->held + steps->operand <= threads * held;
}

bool source_fits(Func *func, const BlockFootprint *steps)
{
    if (!is_gpu(func) || !steps->any_dot) {
        return true;
    }
    if (steps->wgmma) {
        return unit_steps_fit(func, steps);
    }
    /* A product by fma also stages operands that come from registers; copies have two slots. */
    int64_t available = func->target->shared_bytes, walked = steps->unit ? 0 : steps->walked;
    int64_t ahead = func->target->async_copy_bytes ? walked + SHARED_SLACK : 0;
    available =
        func->retry.alias_buffers ? available : min_i64(available * 7 / 8, available - ahead);
    return steps->shared <= available && steps->accumulators <= (int64_t)256 * THREAD_ACCUMULATORS;
}

static int64_t source_warps(const Func *func, const BlockFootprint *steps)
{
    if (steps->wgmma) {
        int64_t warps = func->target->group_warps, rows = tile_group_rows(func);
        int64_t groups = power_of_two_at_least(max_i64(1, steps->rows / rows));
        return steps->rows == 3 * rows ? 3 * warps : min_i64(2, groups) * warps;
    }
    int64_t each = steps->ranks && !steps->looks_up ? THREAD_RANKED : THREAD_ELEMENTS;
    int64_t threads =
        steps->any_dot ? steps->accumulators / (THREAD_ACCUMULATORS / 4) : steps->elements / each;
    if (steps->unit) { /* more than one warp for each of its rows would share them */
        int64_t rows = max_i64(1, steps->rows / steps->unit->m) * func->target->warp;
        threads = min_i64(threads, max_i64(rows, steps->accumulators / THREAD_ACCUMULATORS));
    }
    threads = min_i64(max_i64(threads, func->target->warp),
                      steps->any_dot ? 256 : func->target->max_threads);
    return power_of_two_at_least(threads / func->target->warp);
}

static void restore_steps(const SavedSteps *saved)
{
    for (int i = 0; i < saved->n; i++) {
        saved->items[i].attr->ints[saved->items[i].at] = saved->items[i].step;
    }
}

static void try_steps(Func *func, Op *parallel, const SavedSteps *saved, int64_t shrink, bool even,
                      BlockFootprint *steps)
{
    bool loops_first = steps->wgmma || steps->unit;
    restore_steps(saved);
    *steps = (BlockFootprint){.func = func, .shrink = shrink, .loops_first = loops_first,
                              .even = even, .narrowed = steps->narrowed};
    walk_group(parallel, set_steps, steps);
    source_measure(parallel, steps);
}

void source_try(Func *func, Op *parallel, const SavedSteps *saved, WarpGroupPlan plan,
                BlockFootprint *steps)
{
    restore_steps(saved);
    *steps = (BlockFootprint){.func = func, .shrink = 1, .loops_first = true, .plan = plan};
    walk_group(parallel, set_steps, steps);
    source_measure(parallel, steps);
}

/* The grid's widest axis, down to the rows of a warp group; false: none is wider. */
static bool narrow_widest(const Op *parallel, SavedSteps *saved, BlockFootprint *steps)
{
    const Attr *grid = op_attr(parallel, ATTR_STEPS);
    int64_t rows = tile_group_rows(steps->func);
    int widest = -1;
    for (int i = 0; i < saved->n && !op_int(parallel, ATTR_EXACT, 0); i++) {
        bool wide = saved->items[i].attr == grid && saved->items[i].step > rows;
        bool most = widest < 0 || saved->items[i].step > saved->items[widest].step;
        widest = wide && most ? i : widest;
    }
    if (widest >= 0) {
        saved->items[widest].step /= 2;
        steps->narrowed |= 1u << saved->items[widest].at;
    }
    return widest >= 0;
}

/* Steps of loops are halved first, as far as they are alone. What a matrix unit of warp groups has
 * no space for even so are accumulators: the grid's widest axis is halved, and the loops have their
 * steps again. */
static int64_t halve_steps(Func *func, Op *parallel, SavedSteps *saved, BlockFootprint *steps)
{
    bool wgmma = steps->wgmma;
    int64_t shrink = 1;
    try_steps(func, parallel, saved, shrink, false, steps);
    while (shrink < MAX_SHRINK && !source_fits(func, steps)) {
        bool narrows = wgmma && (shrink == LOOPS_ALONE || !steps->wgmma) &&
                       narrow_widest(parallel, saved, steps);
        shrink = narrows ? 1 : 2 * shrink;
        steps->wgmma |= narrows;
        try_steps(func, parallel, saved, shrink, false, steps);
    }
    return shrink;
}

typedef struct Loops {
    int64_t widest;        /* of their steps in the source */
    int64_t before, after; /* what walks of known lengths take, as they are, and by twice that */
} Loops;

static void see_loop(Op *op, void *user)
{
    Loops *loops = user;
    const Attr *steps = op->kind == OP_FOR ? op_attr(op, ATTR_STEPS) : NULL;
    int64_t step = steps ? steps->ints[0] : 0;
    int64_t most = step > 0 ? poly_most(op_attr(op, ATTR_DIMS)->dims[0]) : INT32_MAX;
    int64_t extent = most < INT32_MAX ? most : 0;
    loops->widest = max_i64(loops->widest, step);
    loops->before += extent > 0 ? walk_cost(extent, step) : 0;
    loops->after += extent > 0 ? walk_cost(extent, 2 * step) : 0;
}

/* Steps of several products after one another, as gradients', twice as wide where all of them still
 * fit: groups wait for half as many. dq of 64 elements a head by 128 keys, 4×32×4096 causal: 847 us
 * for 904. `steps`: as the source has them, which fit. */
static bool choose_wider(Func *func, Op *parallel, const SavedSteps *saved, BlockFootprint *steps)
{
    Loops loops = {.widest = 0};
    restore_steps(saved);
    block_walk(parallel->regions[0], see_loop, &loops);
    if (steps->n_dots < CHAIN_DOTS || loops.widest == 0 || loops.after > loops.before ||
        steps->rows != 2 * tile_group_rows(func)) {
        return false;
    }
    WarpGroupPlan plan = {.columns = 2 * loops.widest, .widest = loops.widest};
    source_try(func, parallel, saved, plan, steps);
    return steps->wgmma && source_fits(func, steps);
}

/* What fits as far as it can be known here; then halved as often as it turned out not to. */
static void choose_steps(Func *func, Op *parallel, BlockFootprint *steps)
{
    SavedSteps saved = {.n = 0};
    save_steps(parallel, &saved);
    block_walk(parallel->regions[0], save_steps, &saved);
    source_measure(parallel, steps);
    if (steps->wgmma && !times_smaller(func)) {
        try_steps(func, parallel, &saved, 1, true, steps);
        bool fits = source_fits(func, steps);
        if (tile_choose_groups(func, parallel, &saved, steps) ||
            (fits && choose_wider(func, parallel, &saved, steps))) {
            return;
        }
        try_steps(func, parallel, &saved, 1, true, steps);
        if (fits) {
            return;
        }
    }
    int64_t shrink = halve_steps(func, parallel, &saved, steps);
    if (times_smaller(func)) {
        try_steps(func, parallel, &saved, shrink << times_smaller(func), false, steps);
    }
}

void tile_choose_source(Func *func, Op *parallel)
{
    BlockFootprint steps = {.func = func};
    choose_steps(func, parallel, &steps);
    int64_t warps = 1;
    if (is_gpu(func)) {
        warps = tile_checked_warps(func, steps.wgmma ? steps.rows : 0, source_warps(func, &steps),
                                   "a thread holds its share of the tiles");
    }
    op_set_ints(func, parallel, ATTR_WARPS, 1, &warps);
    if (is_gpu(func) && steps.wgmma && blocks_of(func, &steps) > 1) {
        int64_t threads = warps * func->target->warp;
        int64_t blocks =
            tile_checked_blocks(func, (int)(blocks_of(func, &steps) * threads), threads);
        op_set_int(func, parallel, ATTR_OCCUPANCY, blocks);
    }
}
