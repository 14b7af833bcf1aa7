/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the ops of a launch for a sample of its blocks and loop iterations. A full trace would
 * take as long as the interpreter; each sampled iteration has a weight that says how many
 * iterations it stands for. */
#include "runtime/explain/launch_trace.h"

#include "ir/build.h"
#include "passes/analysis/range_facts.h"
#include "runtime/explain/explain_grid.h"
#include "support/int_math.h"

enum {
    MAX_SAMPLES = 24,
    ALONE = 16,
    AMONG_TWO = 6,
    AMONG_MORE = 3,
    IN_LOOP = 4,
    COSTLY = 3,
    MAX_WALKED = 20000, /* ops; each takes up to some 50 us */
    TOO_LONG = 2 * MAX_WALKED,
    STEPS_A_LOOK = 256, /* of evaluations of indices, which take as long as a plain look */
    MAX_TILES = 96,
    WIDE = 32
};

typedef struct Samples {
    int64_t at[MAX_SAMPLES];
    double times[MAX_SAMPLES];
    int n;
} Samples;

/* Which rounds of n to look at: one that stands for all where the walk has taken long. */
static Samples sample(Walk *walk, int64_t n, int most)
{
    if ((double)walk->looks > TOO_LONG * walk->share && n > 1) {
        walk->coarse = true;
        return (Samples){.at = {n - 1}, .times = {(double)n}, .n = 1};
    }
    /* The sample takes the last iteration and one of each of `most` parts of the others, at uneven
     * distances, because even ones would all be aligned alike in memory. */
    int limit = walk->few ? 1 : most;
    walk->coarse = walk->coarse || (walk->few && n > limit + 1);
    Samples s = {.n = 0};
    int64_t rest = n - 1;
    if (n <= limit + 1) {
        for (; s.n < n; s.n++) {
            s.at[s.n] = s.n;
            s.times[s.n] = 1;
        }
        return s;
    }
    for (; s.n < limit; s.n++) {
        int64_t from = rest * s.n / limit, end = rest * (s.n + 1) / limit;
        int64_t middle = from + (end - from - (s.n & 1)) / 2;
        s.at[s.n] = middle + (end - from >= WIDE ? s.n * 5 % 8 - 4 : 0);
        s.times[s.n] = (double)(end - from);
    }
    s.at[s.n] = rest;
    s.times[s.n++] = 1;
    return s;
}

static void walk_block(Walk *walk, const Block *block, double times);

/* ---- grids ---- */

static void walk_axis(Walk *walk, const Grid *grid, int axis, double times)
{
    if (axis == grid->n) {
        grid_align(&walk->context, grid);
        walk->begin(walk);
        walk_block(walk, grid->op->regions[0], times);
        return;
    }
    int64_t from = axis_begin(grid->op, axis), n = grid->tiles[axis];
    int64_t full = steps_over(grid->extents[axis] - from, grid->steps[axis]);
    int long_axes = 0;
    n = grid->steps[axis] > 0 && full < n ? full : n; /* the others of a cluster have nothing */
    for (int i = 0; i < grid->n; i++) {
        long_axes += grid->tiles[i] > AMONG_MORE;
    }
    static const int SAMPLES[] = {ALONE, ALONE, AMONG_TWO, AMONG_MORE}; /* by long axes */
    int most = SAMPLES[long_axes < 3 ? long_axes : 3];
    if (grid_tiles(grid) <= MAX_TILES) {
        most = MAX_SAMPLES - 1;
    }
    Samples s = sample(walk, n, walk->costly ? (most + COSTLY - 1) / COSTLY : most);
    for (int i = 0; i < s.n; i++) {
        grid_bind(&walk->context, grid, axis, s.at[i]);
        walk_axis(walk, grid, axis + 1, times * s.times[i]);
    }
}

/* ---- control ---- */

static void find_access(Op *op, void *user)
{
    bool *found = user;
    for (int i = 0; i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        *found |= value && (value->type->kind == TYPE_TENSOR || value->type->kind == TYPE_SHARED);
    }
}

static void walk_if(Walk *walk, const Op *op, double times)
{
    int64_t taken;
    if (context_scalar(&walk->context, op->operands[0], &taken)) {
        walk_block(walk, op->regions[taken ? 0 : 1], times);
        return;
    }
    for (int i = 0; i < op->n_regions; i++) {
        block_walk(op->regions[i], find_access, &walk->uncertain);
    }
    walk_block(walk, op->regions[0], times / 2);
    walk_block(walk, op->regions[1], times / 2);
}

/* How many parts of the axis there are, if data say where each begins; 0: it is none. */
static int64_t count_parts(EvalPoint *c, const Op *loop)
{
    const Value *by = range_part_chooser(loop);
    const Op *binder = by ? by->block->parent : NULL;
    int64_t extent;
    if (!binder || !context_dim(c, op_attr(binder, ATTR_DIMS)->dims[by->index], &extent)) {
        return 0;
    }
    return steps_over(extent, op_attr(binder, ATTR_STEPS)->ints[by->index]);
}

/* What `first: min(first + n, …)` says: at most n elements; 0: nothing. */
static int64_t most_elements(EvalPoint *c, const Op *loop)
{
    const Op *from = value_def_of_kind(for_lo(loop), OP_MAX);
    const Value *first = from ? from->operands[0] : for_lo(loop);
    const Op *end = value_def_of_kind(for_hi(loop), OP_MIN);
    int64_t most = 0;
    for (int i = 0; end && i < 2 && most <= 0; i++) {
        const Op *sum = value_def_of_kind(end->operands[i], OP_ADD);
        bool same = sum && sum->operands[0] == first;
        most = same && context_scalar(c, sum->operands[1], &most) ? most : 0;
    }
    return most;
}

static void walk_loop(Walk *walk, const Op *op, double times)
{
    EvalPoint *c = &walk->context;
    int64_t lo = 0, hi = 0, whole, step = op_attr(op, ATTR_STEPS)->ints[0];
    bool known = context_dim(c, op_attr(op, ATTR_DIMS)->dims[0], &whole);
    bool bounded = context_scalar(c, for_lo(op), &lo) && context_scalar(c, for_hi(op), &hi);
    bool data = !known || !bounded;
    int64_t parts = known && !bounded ? count_parts(c, op) : 0;
    walk->uncertain |= data;
    walk->equal_parts |= data && !walk->data_loop && parts > 0;
    walk->data_loop = data && !walk->data_loop ? op : walk->data_loop;
    if (!known) {
        whole = step > 0 ? step : 1; /* one round */
    }
    if (!bounded || hi >= whole) {
        hi = parts > 0 ? ceil_div(whole, parts) : whole;
    }

    lo = bounded ? lo : 0;
    int64_t limit = parts > 0 ? most_elements(c, op) : 0;
    hi = limit > 0 && limit < hi ? limit : hi;
    int64_t n = steps_over(hi - lo, step);
    int most = walk->costly ? IN_LOOP / 2 : IN_LOOP;
    Samples s = sample(walk, bounded || parts > 0 || n < 1 ? n : 1, most);
    for (int i = 0; i < s.n; i++) {
        context_bind(c, op->regions[0]->args[0], lo + s.at[i] * (step ? step : 1), step, hi);
        walk->begin(walk);
        walk_block(walk, op->regions[0], times * s.times[i]);
    }
    walk->begin(walk);
}

static void walk_op(Walk *walk, const Op *op, double times)
{
    Grid grid;
    int64_t before = walk->context.taken;
    walk->each(walk, op, times);
    walk->looks += 1 + (walk->context.taken - before) / STEPS_A_LOOK;
    switch (op->kind) {
    case OP_FOR: walk_loop(walk, op, times); break;
    case OP_IF: walk_if(walk, op, times); break;
    case OP_ROLES: {
        /* Each role has its own number of warps. */
        const Attr *warps = op_attr(op, ATTR_WARPS);
        const Attr *teams = op_attr(op, ATTR_TEAMS);
        int block = walk->warps;
        for (int i = 0; i < op->n_regions; i++) {
            walk->warps = (int)(warps->ints[i] / (teams ? teams->ints[i] : 1));
            walk_block(walk, op->regions[i], times);
        }
        walk->warps = block;
    } break;
    case OP_PARALLEL:
        if (grid_make(&walk->context, op, &grid)) {
            walk_axis(walk, &grid, 0, times);
        }
        break;
    case OP_TILE_LOOP: /* all blocks together walk each once */
        if (grid_make(&walk->context, op, &grid)) {
            walk_axis(walk, &grid, 0, times / walk->blocks);
        }
        break;
    case OP_WHILE:
        walk->uncertain = true;
        walk->data_loop = walk->data_loop ? walk->data_loop : op;
        walk_block(walk, op->regions[0], times);
        walk_block(walk, op->regions[1], times);
        break;
    default: break;
    }
}

static void walk_block(Walk *walk, const Block *block, double times)
{
    for (const Op *op = block->first; op && times > 0; op = op->next) {
        walk_op(walk, op, times);
    }
}

/* How many ops a walk looks at, where loops and grids have as many rounds as are sampled. */
static double looked_at(const Block *block)
{
    double all = 0;
    for (const Op *op = block->first; op; op = op->next) {
        double within = 1, iterations = 1;
        for (int i = 0; i < op->n_regions; i++) {
            within += looked_at(op->regions[i]);
        }
        const Attr *dims = op_attr(op, ATTR_DIMS);
        bool grid = op->kind == OP_PARALLEL || op->kind == OP_TILE_LOOP;
        for (int i = 0; grid && dims && i < dims->n; i++) {
            iterations *= AMONG_MORE + 1;
        }
        all += within * (op->kind == OP_FOR ? IN_LOOP + 1 : iterations);
    }
    return all;
}

void walk_launch(Walk *walk, const Op *launch)
{
    Grid grid;
    bool persistent = op_int(launch, ATTR_PERSISTENT, 0) != 0;
    double blocks = persistent ? 1 : ALONE;
    const Attr *dims = op_attr(launch, ATTR_DIMS);
    for (int i = 2; dims && i < dims->n && !persistent; i++) {
        blocks *= AMONG_MORE + 1;
    }
    walk->few = blocks * looked_at(launch->regions[0]) > MAX_WALKED * walk->share;
    if (persistent) {
        walk_block(walk, launch->regions[0], walk->blocks);
    } else if (grid_make(&walk->context, launch, &grid)) {
        walk_axis(walk, &grid, 0, 1);
    }
}
