/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses warp groups, blocks and tile sizes of dot chains: two dots in a loop, the second of which
 * multiplies values computed from the first one's result (attention). The elementwise work between
 * the dots overlaps with the dots of other warp groups: of the same block, which share the loaded
 * operands, or of other blocks of the multiprocessor, which never wait for each other.
 *
 * The cost (passes/analysis/cost_model.h): each block is a chain of dependent steps, of which a
 * multiprocessor has several (streams); they share its issue slots, the bytes from L2, and memory.
 * The constants were fitted to 165 measurements on an H200 (docs/lab/attention.md). */
#include "passes/tile/tile_hand_tiled.h"

#include "ir/memo.h"
#include "ir/nominal_sizes.h"
#include "passes/analysis/cost_model.h"

#include <math.h>

enum {
    LONG_READ = 2048, /* elements of an axis if the loop's bounds are loaded: one of many */
    MAX_DEPTH = 16,   /* of operations that compute bounds */
    MAX_TILES = 4096, /* of an axis whose steps are counted one by one */
    MAX_GROUPS = 3,   /* of a block, and of the blocks of a multiprocessor */
    MIN_COLUMNS = 48, /* of a step */
    UNIT_BYTES = 32,  /* of a row of the second dot's A operand, by which steps differ */
    MASK_BYTES = 64,  /* of a thread's registers for masks */
    GAIN = 1,         /* % that another plan than the source's must save, */
    GAIN_THIRD = 5,   /* and one of three groups, to which fewer measurements were fitted */
};

/* In cycles of a multiprocessor; *_DEPTH is more for each element of the first dot's k.
 *
 * The chain of a group: a tile, without its steps; a tile that ends within a step, by three groups;
 * a tile of a block that is the only one of its multiprocessor; a step, and a column of it. */
static const double TILE = 345, TILE_DEPTH = 20, RAGGED_TILE = 3400, SINGLE_BLOCK_TILE = 11500,
                    STEP = 249, COLUMN = 0.58, COLUMN_DEPTH = 0.0742;
/* Issue slots and the matrix unit: of a tile, and of a column of a step. */
static const double ISSUE_TILE = 981, ISSUE = 4.21, ISSUE_DEPTH = 0.046;
/* Bytes per cycle from L2 and of memory, in addition to those of the machine's row. */
static const double L2_RATE = 71.0 / 64, MEMORY_RATE = 22.6 * 132 / 2460;
/* The part of the time that three groups of a block take that issue their dots in a fixed order. */
static const double ORDERED = 0.777, ORDERED_DEPTH = 0.0016;
static const double OVERLAP = 2.46; /* the exponent of the norm of what overlaps */

/* The one axis of the grid that is taken in steps; NULL: none, or several. */
static const Value *stepped_axis(const Op *parallel)
{
    const Attr *steps = op_attr(parallel, ATTR_STEPS);
    const Value *found = NULL;
    for (int i = 0; i < steps->n; i++) {
        if (source_steps_along(parallel, i)) {
            if (found) {
                return NULL;
            }
            found = parallel->regions[0]->args[i];
        }
    }
    return found;
}

static bool is_made_of_scores(Func *func, const Op *parallel, const BlockFootprint *steps)
{
    const Value *axis = stepped_axis(parallel);
    return axis && func->target->has_setmaxnreg && steps->wgmma && steps->n_dots == 2 &&
           steps->loaded && steps->operand > 0 && steps->rows == 2 * tile_group_rows(func) &&
           !schedule_peek_entry(func, "warps", "") &&
           !schedule_user_entry(func, "tile", poly_as_range(axis->type->dims[0])->name);
}

/* ---- the loop ---- */

typedef struct ScoreWalk {
    const Op *loop;  /* the loop with the widest step, or NULL */
    int64_t columns; /* of its step */
    double heads;
    int64_t rows, extent; /* maximum extents: of the grid, of the loop */
    bool from_zero;       /* the loop of every tile begins at 0 */
    bool whole;           /* … and ends at the extent */
    bool grows;           /* … and ends at the tile's own end (causal) */
    bool read;            /* its bounds are loaded; tiles are not persistent then */
} ScoreWalk;

static bool find_read(Memo *seen, const Value *bound, int depth)
{
    const Op *op = depth < MAX_DEPTH ? bound->def : NULL;
    bool found = op && op->kind == OP_LOAD;
    int64_t known;
    if (memo_known(seen, bound, depth, &known)) {
        return false; /* or the search would have ended */
    }
    memo_keep(seen, bound, depth, 1);
    for (int i = 0; op && !found && i < op->n_operands; i++) {
        found = op->operands[i] && find_read(seen, op->operands[i], depth + 1);
    }
    return found;
}

static bool is_read(const Value *bound)
{
    Memo *seen = memo_about(bound);
    bool found = find_read(seen, bound, 0);
    memo_close(seen);
    return found;
}

static void see_loop(Op *op, void *user)
{
    ScoreWalk *walk = user;
    const Attr *steps = op->kind == OP_FOR ? op_attr(op, ATTR_STEPS) : NULL;
    if (steps && steps->ints[0] > walk->columns) {
        walk->loop = op;
        walk->columns = steps->ints[0];
    }
}

static int64_t known(Dim dim)
{
    return max_i64(1, min_i64(poly_nominal(dim), INT32_MAX));
}

static ScoreWalk walk_of(const Op *parallel)
{
    ScoreWalk walk = {.heads = 1};
    block_walk(parallel->regions[0], see_loop, &walk);
    const Attr *dims = op_attr(parallel, ATTR_DIMS), *steps = op_attr(parallel, ATTR_STEPS);
    for (int i = 0; i < dims->n; i++) {
        if (source_steps_along(parallel, i)) {
            walk.rows = known(dims->dims[i]);
        } else if (steps->ints[i] == 0) {
            walk.heads *= (double)known(dims->dims[i]);
        }
    }
    if (!walk.loop) {
        return walk;
    }
    const Op *end = for_hi(walk.loop)->def;
    walk.from_zero = value_is_const(for_lo(walk.loop), 0);
    walk.whole = walk.from_zero && end && end->kind == OP_SIZE;
    walk.grows = walk.from_zero && end && end->kind == OP_END;
    walk.read = is_read(for_lo(walk.loop)) || is_read(for_hi(walk.loop));
    walk.extent = known(op_attr(walk.loop, ATTR_DIMS)->dims[0]);
    walk.extent = walk.read ? min_i64(walk.extent, LONG_READ) : walk.extent;
    return walk;
}

/* Steps of all tiles of a head, and of its longest one. */
typedef struct Count {
    double tiles, steps, longest;
} Count;

static double steps_by(double extent, int64_t columns)
{
    return ceil(extent / (double)columns);
}

static Count count_steps(const ScoreWalk *walk, int64_t rows, int64_t columns)
{
    double tiles = steps_by((double)walk->rows, rows);
    double all = steps_by((double)walk->extent, columns);
    Count count = {tiles, tiles * all, all};
    if (walk->grows && tiles <= MAX_TILES) {
        count.steps = 0;
        for (int64_t tile = 1; tile <= (int64_t)tiles; tile++) {
            int64_t end = min_i64(min_i64(tile * rows, walk->rows), walk->extent);
            count.steps += steps_by((double)end, columns);
        }
    } else if (walk->grows) {
        count.steps = tiles * (all + 1) / 2;
    }
    return count;
}

/* ---- the cost ---- */

/* How much longer than the mean the busiest multiprocessor, or place of a block, takes. */
static double unevenness(const ScoreWalk *walk, double tiles, double places)
{
    double waves = ceil(tiles / places) / (tiles / places);
    return walk->grows ? (1 + waves) / 2 : waves;
}

static double plan_cycles(const Func *func, const ScoreWalk *walk, const BlockFootprint *steps,
                          const WarpGroupPlan *plan)
{
    int64_t rows = plan->groups * tile_group_rows(func);
    Count count = count_steps(walk, rows, plan->columns);
    const Machine *machine = func->target->machine;
    double sms = machine->num_sms, places = sms * (double)plan->blocks;
    double heads = walk->heads, tiles = count.tiles * heads, depth = (double)steps->depth;
    double columns = (double)plan->columns, groups = (double)plan->groups;
    double tile = TILE + TILE_DEPTH * depth;
    double step = STEP + (COLUMN + COLUMN_DEPTH * depth) * columns;
    double chain = (count.tiles * tile + count.steps * step) * heads / places;
    chain = fmax(chain * unevenness(walk, tiles, places), tile + count.longest * step);
    double issue = count.tiles * ISSUE_TILE + count.steps * columns * (ISSUE + ISSUE_DEPTH * depth);
    issue *= groups * heads / sms * unevenness(walk, tiles, sms);
    double row = depth * 2 * (double)sizeof(int16_t) * heads / sms;
    double l2 =
        (count.tiles * (double)rows + count.steps * columns) * row / (L2_RATE * machine->l2_bytes);
    double memory =
        (double)(walk->rows + walk->extent) * row * sms / (MEMORY_RATE * machine->memory_bytes);
    double all = cost_norm((double[]){chain, issue, l2, memory}, 4, OVERLAP);
    double ragged = plan->groups == 3 && walk->grows ? RAGGED_TILE * tiles / places : 0;
    double single = walk->read && plan->blocks == 1 ? SINGLE_BLOCK_TILE * tiles / places : 0;
    return cost_launches(machine, 1) + ragged + single +
           all * (plan->groups == 3 ? ORDERED + ORDERED_DEPTH * depth : 1);
}

/* ---- the choice ---- */

typedef struct Choice {
    Func *func;
    Op *parallel;
    const SavedSteps *saved;
    ScoreWalk walk; /* of the source's steps */
    WarpGroupPlan plan;
    double cycles; /* 0: none yet */
} Choice;

/* True if the plan's masks stay few and fit the registers. A loop over the whole axis has none. A
 * causal loop is masked in the step that its tile ends in, so rows and columns are multiples of one
 * another; one that begins within the axis is masked at both ends, and keeps the source's steps.
 * Three groups keep the source's steps, too: they recompute the indices of the columns
 * (docs/lab/attention.md). If bounds are loaded, the prologue of one block overlaps with the dots
 * of another. */
static bool can_take(const Func *func, const ScoreWalk *walk, const WarpGroupPlan *plan)
{
    int64_t rows = plan->groups * tile_group_rows(func);
    bool even = rows % plan->columns == 0 || plan->columns % rows == 0;
    bool plain = (plan->groups < 3 || walk->grows) && plan->blocks == 1;
    bool several = walk->read && plan->groups == 1 && plan->blocks > 1;
    return walk->whole || ((plain || several) && plan->columns == walk->columns) ||
           (walk->from_zero && plan->groups < 3 && even);
}

static void consider(Choice *best, WarpGroupPlan plan)
{
    BlockFootprint steps;
    plan.widest = best->walk.columns;
    plan.reserved = best->walk.whole || plan.groups == 3 ? 0 : MASK_BYTES;
    if (!can_take(best->func, &best->walk, &plan)) {
        return;
    }
    source_try(best->func, best->parallel, best->saved, plan, &steps);
    int64_t columns = walk_of(best->parallel).columns;
    bool taken = columns == plan.columns || columns == best->walk.columns; /* or the user's */
    if (plan.groups == 3 && columns * 4 < steps.depth * 3) {
        return; /* short steps are slower than two groups (docs/lab/attention.md) */
    }
    if (!taken || steps.rows != plan.groups * tile_group_rows(best->func) ||
        !source_fits(best->func, &steps)) {
        return;
    }
    WarpGroupPlan made = plan;
    made.columns = columns;
    double cycles = plan_cycles(best->func, &best->walk, &steps, &made);
    bool source = best->plan.groups == 2 && best->plan.columns == best->walk.columns;
    bool unsure = plan.groups == 3 && !best->walk.grows;
    int64_t gain = GAIN;
    if (!source) {
        gain = 0;
    } else if (unsure) {
        gain = GAIN_THIRD;
    }
    if (best->cycles == 0 || cycles < best->cycles * (double)(100 - gain) / 100) {
        best->plan = plan;
        best->cycles = cycles;
    }
}

bool tile_choose_groups(Func *func, Op *parallel, const SavedSteps *saved, BlockFootprint *steps)
{
    Choice best = {.func = func, .parallel = parallel, .saved = saved};
    if (!is_made_of_scores(func, parallel, steps)) {
        return false;
    }
    source_try(func, parallel, saved, (WarpGroupPlan){.groups = 0}, steps);
    best.walk = walk_of(parallel);
    int64_t given = schedule_user_entry(func, "occupancy", "") ? source_blocks(func) : 0;
    int64_t unit = UNIT_BYTES / dtype_bytes(steps->loaded->dtype), source = best.walk.columns;
    if (source == 0) { /* loops without steps */
        WarpGroupPlan one = {.groups = 1, .blocks = 1};
        bool few = given <= 1 && best.walk.rows > 0 && best.walk.rows <= tile_group_rows(func);
        source_try(func, parallel, saved, few ? one : (WarpGroupPlan){.groups = 0}, steps);
        return few;
    }
    if (given <= 1) {
        consider(&best, (WarpGroupPlan){.groups = 2, .blocks = 1, .columns = source});
    }
    for (int64_t groups = 1; groups <= MAX_GROUPS; groups++) {
        int64_t most = 1;
        if (given) {
            most = given;
        } else if (groups == 1) {
            most = MAX_GROUPS;
        }
        for (int64_t blocks = given ? given : 1; blocks <= most; blocks++) {
            for (int64_t columns = source * 5 / 4 / unit * unit; columns >= MIN_COLUMNS;
                 columns -= unit) {
                consider(&best, (WarpGroupPlan){groups, blocks, columns, 0, 0});
            }
        }
    }
    if (best.cycles > 0) {
        source_try(func, parallel, saved, best.plan, steps);
    }
    return best.cycles > 0;
}
