/* SPDX-License-Identifier: Apache-2.0 */
/* Warp groups for scores: two products in a loop, of which the second one's left operand is made of
 * the first one's result. What is done with scores hides under other groups' products: of the same
 * block, which share what is loaded, or of others of a multiprocessor, which never wait for one
 * another. What takes the least time is chosen, by a model of a multiprocessor's groups whose
 * constants were fitted to 165 measurements on an H200 (docs/lab/attention.md). */
#include "passes/tile/tile_hand_tiled.h"

#include "ir/memo.h"

#include <math.h>

enum {
    LONG = 8192,      /* what is not known */
    LONG_READ = 2048, /* a walk whose bounds are read from memory: of one sequence of many */
    MAX_DEPTH = 16,   /* of what bounds are made of */
    MAX_TILES = 4096, /* of an axis that are counted one by one */
    MAX_GROUPS = 3,   /* of a block, and of the blocks of a multiprocessor */
    MIN_COLUMNS = 48, /* of loops' steps */
    UNIT_BYTES = 32,  /* of a row of the second product's left operand, by which steps differ */
    HELD_MASKED = 64, /* bytes of a thread's registers that masks take */
    GAIN = 1,         /* % that other groups than the source's must save, */
    GAIN_THIRD = 5,   /* and three, whose rates at great depth are less sure */
};

/* In cycles of a multiprocessor; what depends on it, for each element of the depth. */
static const double START = 6030, /* of a launch */
    TILE = 345, TILE_DEPTH = 20,  /* of a group's chain: what a tile takes, */
    TILE_ENDS = 3400,             /* that ends within a step, by three groups, */
    TILE_ALONE = 11500,           /* that a block of its own takes, beside no other, */
    STEP = 249, COLUMN = 0.58, COLUMN_DEPTH = 0.0742, /* a step, a column of it */
    ISSUE_TILE = 981, ISSUE = 4.21,
                    ISSUE_DEPTH = 0.046,   /* of the issue slots and the matrix unit */
    CACHE_BYTES = 71, MEMORY_BYTES = 22.6, /* that come in a cycle */
    THIRD = 0.777, THIRD_DEPTH = 0.0016,   /* of the time, by three groups in turns */
    OVERLAP = 2.46; /* the norm by which what runs at once adds up; 1: nothing overlaps */

/* The one axis of the grid that is taken in steps; NULL: none, or several. */
static const Value *stepped_axis(const Op *parallel)
{
    const Attr *steps = op_attr(parallel, ATTR_STEPS);
    const Value *found = NULL;
    for (int i = 0; i < steps->n; i++) {
        if (steps->ints[i] != 0) {
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

/* ---- the walk ---- */

typedef struct ScoreWalk {
    const Op *loop; /* that takes most at a step, or NULL */
    int64_t columns;
    double heads;
    int64_t rows, extent; /* as many as there can be */
    bool from_zero;       /* every tile begins with the extent, */
    bool whole;           /* and walks all of it, */
    bool grows;           /* or up to the tile's own end */
    bool read;            /* or what memory says: the device deals such tiles out */
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

/* What is not known is taken to be long. */
static int64_t known(Dim dim)
{
    int64_t most = poly_most(dim);
    return most < INT32_MAX ? max_i64(1, most) : LONG;
}

static ScoreWalk walk_of(const Op *parallel)
{
    ScoreWalk walk = {.heads = 1};
    block_walk(parallel->regions[0], see_loop, &walk);
    const Attr *dims = op_attr(parallel, ATTR_DIMS), *steps = op_attr(parallel, ATTR_STEPS);
    for (int i = 0; i < dims->n; i++) {
        if (steps->ints[i]) {
            walk.rows = known(dims->dims[i]);
        } else {
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

/* ---- what it takes ---- */

/* How much longer than the mean the multiprocessor, or place of a block, that gets most takes. */
static double unevenness(const ScoreWalk *walk, double tiles, double places)
{
    double waves = ceil(tiles / places) / (tiles / places);
    return walk->grows ? (1 + waves) / 2 : waves;
}

/* The groups of a multiprocessor are chains beside one another, whose instructions and copies share
 * it. */
static double time_of(const Func *func, const ScoreWalk *walk, const BlockFootprint *steps,
                      const WarpGroupPlan *plan)
{
    int64_t rows = plan->groups * tile_group_rows(func);
    Count count = count_steps(walk, rows, plan->columns);
    double units = func->target->machine->num_sms, places = units * (double)plan->blocks;
    double heads = walk->heads, tiles = count.tiles * heads, depth = (double)steps->depth;
    double columns = (double)plan->columns, groups = (double)plan->groups;
    double tile = TILE + TILE_DEPTH * depth;
    double step = STEP + (COLUMN + COLUMN_DEPTH * depth) * columns;
    double chain = (count.tiles * tile + count.steps * step) * heads / places;
    chain = fmax(chain * unevenness(walk, tiles, places), tile + count.longest * step);
    double issue = count.tiles * ISSUE_TILE + count.steps * columns * (ISSUE + ISSUE_DEPTH * depth);
    issue *= groups * heads / units * unevenness(walk, tiles, units);
    double row = depth * 2 * (double)sizeof(int16_t) * heads / units;
    double cache = (count.tiles * (double)rows + count.steps * columns) * row / CACHE_BYTES;
    double memory = (double)(walk->rows + walk->extent) * row / MEMORY_BYTES;
    double all =
        pow(pow(chain, OVERLAP) + pow(issue, OVERLAP) + pow(cache, OVERLAP) + pow(memory, OVERLAP),
            1 / OVERLAP);
    double ends = plan->groups == 3 && walk->grows ? TILE_ENDS * tiles / places : 0;
    double alone = walk->read && plan->blocks == 1 ? TILE_ALONE * tiles / places : 0;
    return START + ends + alone + all * (plan->groups == 3 ? THIRD + THIRD_DEPTH * depth : 1);
}

/* ---- the choice ---- */

typedef struct Choice {
    Func *func;
    Op *parallel;
    const SavedSteps *saved;
    ScoreWalk walk; /* of the source's steps */
    WarpGroupPlan plan;
    double time; /* 0: none yet */
} Choice;

/* Masked steps are as few as can be, and hold more registers, except of three groups, which make
 * the columns' indices anew; a walk that begins behind the axis' begin is masked at both ends.
 * Where the device deals tiles out, one block's beginning hides under another one's products.
 * Three groups take the source's steps: 64 elements a head, 4×32×4096: 612 us by 128, 637 by 96. */
static bool may_take(const Func *func, const ScoreWalk *walk, const WarpGroupPlan *plan)
{
    int64_t rows = plan->groups * tile_group_rows(func);
    bool even = rows % plan->columns == 0 || plan->columns % rows == 0;
    bool plain = (plan->groups < 3 || walk->grows) && plan->blocks == 1;
    bool beside = walk->read && plan->groups == 1 && plan->blocks > 1;
    return walk->whole || ((plain || beside) && plan->columns == walk->columns) ||
           (walk->from_zero && plan->groups < 3 && even);
}

static void consider(Choice *best, WarpGroupPlan plan)
{
    BlockFootprint steps;
    plan.widest = best->walk.columns;
    plan.beside = best->walk.whole || plan.groups == 3 ? 0 : HELD_MASKED;
    if (!may_take(best->func, &best->walk, &plan)) {
        return;
    }
    source_try(best->func, best->parallel, best->saved, plan, &steps);
    int64_t columns = walk_of(best->parallel).columns;
    bool taken = columns == plan.columns || columns == best->walk.columns; /* or the user's */
    if (plan.groups == 3 && columns * 4 < steps.depth * 3) {
        return; /* short steps: by 64 of 128 elements 1716 us for 1571 of two groups (4×32×4096) */
    }
    if (!taken || steps.rows != plan.groups * tile_group_rows(best->func) ||
        !source_fits(best->func, &steps)) {
        return;
    }
    WarpGroupPlan made = plan;
    made.columns = columns;
    double time = time_of(best->func, &best->walk, &steps, &made);
    bool source = best->plan.groups == 2 && best->plan.columns == best->walk.columns;
    bool unsure = plan.groups == 3 && !best->walk.grows;
    int64_t gain = !source ? 0 : unsure ? GAIN_THIRD : GAIN;
    if (best->time == 0 || time < best->time * (double)(100 - gain) / 100) {
        best->plan = plan;
        best->time = time;
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
        int64_t most = given ? given : groups == 1 ? MAX_GROUPS : 1;
        for (int64_t blocks = given ? given : 1; blocks <= most; blocks++) {
            for (int64_t columns = source * 5 / 4 / unit * unit; columns >= MIN_COLUMNS;
                 columns -= unit) {
                consider(&best, (WarpGroupPlan){groups, blocks, columns, 0, 0});
            }
        }
    }
    if (best.time > 0) {
        source_try(func, parallel, saved, best.plan, steps);
    }
    return best.time > 0;
}
