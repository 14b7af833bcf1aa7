/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a `parallel` of the source: what it says, the user's lines, or less where a block cannot
 * hold that much. */
#include "passes/tile_steps.h"

enum {
    LOOPS_ALONE = 4,         /* steps of loops shrink by up to this before those of grids do */
    SHARED_SLACK = 4096,     /* of shared memory, for reductions and barriers */
    RESERVED_BYTES = 1024,   /* of a multiprocessor's, for each block */
    LEAST_STEP = 16,         /* unless it turns out that not even that fits */
    MOST_SHRINK = 64,        /* of the source's steps, before it is known what does not fit */
    THREAD_RANKED = 8,       /* elements that are ranked where no table says their places: digits,
                                ranks, values, and what comes with them */
    THREAD_HELD_BYTES = 840, /* of accumulators and operands that a thread may hold */
    MOST_LOADS = 32,         /* that are told apart */
    STEP_COLUMNS = 32,       /* what a step of a loop costs beside its own, measured on an H200 */
    EVEN_COLUMNS = 32,       /* steps that the matrix units of all types take */
    EVEN_GAIN = 8,           /* % that another step must save */
    GROUP_WARPS = 4,         /* that multiply 64 rows together */
    GROUP_ROWS = 64,
    THIRD_HELD_BYTES = 520, /* of THREAD_HELD_BYTES, where three groups share the registers */
    SINGLE_HELD_BYTES =
        960,             /* of a group alone, less a byte for each element a head: 256 spill beside
                                80 keys, not beside 64 */
    THIRD_GAIN = 1200,   /* over the depth of scores: % that a third group gains at the same steps,
                          measured on an H200 with 64, 80, 96 and 128 */
    THIRD_LEAST = 3,     /* % that it must save */
    THIRD_COLUMNS = 128, /* at most of loops' steps then */
    TILE_COLUMNS = 1270, /* what a tile of two groups costs beside its steps */
    THIRD_TILE_COLUMNS = 1600, /* of three */
    LEAST_COLUMNS = 48,        /* of loops' steps that are made shorter for it, by UNIT_COLUMNS */
    UNIT_COLUMNS = 16,
};

typedef struct Steps {
    Func *func;
    int64_t shrink; /* divides the source's steps of loops, and beyond LOOPS_ALONE of grids too */
    int64_t shared; /* bytes of products' operands */
    int64_t once, walked, stored; /* of it: loaded once, by a loop's step; results' tiles */
    int64_t lent;                 /* of the results' tiles: fit into what is loaded once */
    Type loaded;                  /* that is loaded once */
    int64_t held, operand; /* bytes in registers: accumulators, the largest of their operands */
    const Op *loads[MOST_LOADS]; /* that are measured: several products may read one tile */
    int n_loads;
    int64_t rows, accumulators, elements; /* largest of the products and of all values */
    bool wgmma, any_dot, loops_first, ranks, looks_up;
    bool even;       /* loops of few steps take such as leave little of the last one unused */
    bool third;      /* three groups of warps multiply, where the source's rows are two's */
    bool single;     /* one group does */
    int64_t columns; /* at most of a loop's step then */
    int n_dots;
    int64_t depth;     /* of products whose left operand is loaded */
    const Unit *unit;  /* of single warps, of some product; NULL: none */
    unsigned narrowed; /* bits of the grid's axes whose steps are less than the source's */
} Steps;

static int64_t elements_of(Type type)
{
    int64_t n = 1;
    for (int i = 0; i < type->rank; i++) {
        n *= larger(1, poly_capacity(type->dims[i]));
    }
    return n;
}

/* Does a loop's own range index this load? Then each step brings another tile. */
static bool is_walked(const Op *load)
{
    for (int i = 1; i < load->n_operands; i++) {
        const Value *index = load->operands[i];
        const Op *binder = index && index->block ? index->block->parent : NULL;
        if (binder && binder->kind == OP_FOR) {
            return true;
        }
    }
    return false;
}

static bool is_measured(Steps *steps, const Op *load)
{
    for (int i = 0; i < steps->n_loads; i++) {
        if (steps->loads[i] == load) {
            return true;
        }
    }
    if (steps->n_loads < MOST_LOADS) {
        steps->loads[steps->n_loads++] = load;
    }
    return false;
}

static bool is_loaded(const Value *operand)
{
    const Op *load = operand->def;
    while (load && load->kind == OP_PERMUTE) {
        load = load->operands[0]->def;
    }
    return load && load->kind == OP_LOAD;
}

static void measure_operand(Steps *steps, const Value *operand)
{
    const Op *load = operand->def;
    int64_t bytes = elements_of(operand->type) * dtype_bytes(operand->type->dtype);
    while (load && load->kind == OP_PERMUTE) {
        load = load->operands[0]->def;
    }
    bool loaded = load && load->kind == OP_LOAD;
    if (loaded && is_measured(steps, load)) {
        return;
    }
    steps->shared += bytes;
    if (!loaded) {
        steps->operand = larger(steps->operand, bytes);
    } else if (is_walked(load)) {
        steps->walked += bytes;
    } else {
        steps->once += bytes;
        steps->loaded = load->results[0]->type;
    }
}

static void measure_dot(Steps *steps, const Op *op)
{
    Type c = op->results[0]->type;
    steps->any_dot = true;
    steps->n_dots++;
    const Unit *unit = product_unit(steps->func, op);
    steps->wgmma = (unit && unit_warps(unit) > 1) || steps->wgmma;
    steps->unit = unit && unit_warps(unit) == 1 ? unit : steps->unit;
    if (is_loaded(op->operands[0])) {
        Type a = op->operands[0]->type;
        steps->depth = larger(steps->depth, poly_capacity(a->dims[a->rank - 1]));
    }
    measure_operand(steps, op->operands[0]);
    measure_operand(steps, op->operands[1]);
    steps->rows = larger(steps->rows, poly_capacity(c->dims[0]));
    steps->accumulators = larger(steps->accumulators, elements_of(c));
    steps->held += elements_of(c) * dtype_bytes(c->dtype);
}

static void measure_op(Op *op, void *user)
{
    Steps *steps = user;
    for (int i = 0; i < op->n_results; i++) {
        if (op->results[i]->type->kind == TYPE_ARRAY) {
            steps->elements = larger(steps->elements, elements_of(op->results[i]->type));
        }
    }
    steps->ranks |= op->kind == OP_RANK;
    steps->looks_up |= op->kind == OP_LOOKUP;
    if (op->kind == OP_DOT) {
        measure_dot(steps, op);
    } else if (op->kind == OP_STORE) {
        Type value = op->operands[op->n_operands - 1]->type;
        steps->stored += elements_of(value) * dtype_bytes(value->dtype);
        steps->lent = value == steps->loaded ? elements_of(value) * dtype_bytes(value->dtype) : 0;
    }
}

static bool begins_at_zero(const Op *loop)
{
    const Op *first = loop->kind == OP_FOR ? loop->operands[0]->def : NULL;
    return first && first->kind == OP_CONST && op_attr(first, ATTR_VALUE)->i == 0;
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
    return (extent + step - 1) / step * (step + STEP_COLUMNS);
}

/* The step near the source's that walks a short axis in the least time: 320 keys are two steps of
 * 160, not three of 128. */
static int64_t even_step(int64_t written, int64_t extent)
{
    int64_t best = written, least = walk_cost(extent, written);
    int64_t enough = least * (100 - EVEN_GAIN) / 100;
    int64_t first = larger(1, written / 2 / EVEN_COLUMNS) * EVEN_COLUMNS;
    for (int64_t step = first; step <= written * 5 / 4; step += EVEN_COLUMNS) {
        int64_t cost = walk_cost(extent, step);
        if (cost <= enough && cost <= least) {
            best = step;
            least = cost;
        }
    }
    return best;
}

/* Of a third warp group: more rows in the grid, fewer columns in the loops. */
static int64_t third_step(const Steps *steps, const Op *op, int64_t written)
{
    if (op->kind == OP_FOR) {
        return smaller(written, steps->columns);
    }
    return written == 2 * GROUP_ROWS ? 3 * GROUP_ROWS : written;
}

static int64_t single_step(const Steps *steps, const Op *op, int64_t written)
{
    if (op->kind == OP_FOR) {
        return smaller(written, steps->columns);
    }
    return written == 2 * GROUP_ROWS ? GROUP_ROWS : written;
}

static int times_smaller(const Func *func)
{
    return func->fit.smaller + func->fit.plain;
}

/* The step of the axis as the source has it, or the user's line. */
static int64_t source_step(const Steps *steps, const Op *op, const Value *arg, int64_t written,
                           int64_t shrink, bool exact)
{
    Func *func = steps->func;
    int64_t extent = steps->even ? walks_all(op) : 0;
    const DimVar *var = poly_as_range(arg->type->dims[0]);
    int64_t base = written > 0 ? written : 128;
    int64_t source = base;
    base = steps->third ? third_step(steps, op, base) : base;
    base = steps->single ? single_step(steps, op, base) : base;
    int64_t even = extent > 0 && !exact ? even_step(base, extent) : base;
    int64_t least = smaller(base, larger(1, LEAST_STEP >> times_smaller(func)));
    int64_t derived = exact ? base : larger(least, base / shrink);
    const char *name = var->name ? var->name : "range";
    if (exact) {
        return source;
    }
    bool narrowed = op->kind == OP_PARALLEL && (steps->narrowed >> arg->index & 1);
    const char *why = shrink == 1 && !narrowed
                          ? "as the source says"
                          : "the source's, halved until a block has room for the products' "
                            "tiles";
    if (base < source && op->kind != OP_FOR) {
        why = "one warp group of 64 rows: the device holds as many tiles at once as there are, or "
              "larger ones would be as many";
    } else if (base != source) {
        why =
            op->kind == OP_FOR && steps->single
                ? "fewer than the source says: the blocks of a multiprocessor share its memory"
            : op->kind == OP_FOR
                ? "fewer than the source says: three warp groups share the registers"
                : "three warp groups of 64 rows: one's work on elements hides under two's products";
    }
    if (even != base) {
        derived = even;
        why = arena_printf(func->arena,
                           "at most %lld of %s: fewer steps, or less of the last "
                           "unused, than by %lld",
                           (long long)extent, name, (long long)base);
    }
    return tile_checked_step(func, name, schedule_number(func, "tile", name, derived, "%s", why));
}

static void set_steps(Op *op, void *user)
{
    const Steps *steps = user;
    Attr *attr = (Attr *)op_attr(op, ATTR_STEPS);
    if (!attr || (op->kind != OP_PARALLEL && op->kind != OP_FOR)) {
        return;
    }
    bool exact = op_int(op, ATTR_EXACT, 0) != 0;
    for (int i = 0; i < attr->n; i++) {
        if (attr->ints[i] == 0) {
            continue;
        }
        Value *arg = op->regions[0]->args[i];
        DimVar *var = poly_as_range(arg->type->dims[0]);
        /* A matrix unit wants many rows; fused multiply-adds want square tiles. */
        int64_t alone = steps->loops_first ? LOOPS_ALONE : 1;
        int64_t shrink = op->kind == OP_FOR ? steps->shrink : steps->shrink / alone;
        attr->ints[i] = source_step(steps, op, arg, attr->ints[i], larger(1, shrink), exact);
        var->capacity = attr->ints[i];
    }
}

static void walk_group(Op *parallel, WalkFn *fn, Steps *steps)
{
    fn(parallel, steps);
    block_walk(parallel->regions[0], fn, steps);
}

/* The source's own steps, to start again from when they are halved. */
typedef struct Saved {
    struct {
        Attr *attr;
        int64_t step;
        int at;
    } items[64];
    int n;
} Saved;

static void save_steps(Op *op, void *user)
{
    Saved *saved = user;
    Attr *attr = (Attr *)op_attr(op, ATTR_STEPS);
    for (int i = 0; attr && i < attr->n && saved->n < 64; i++) {
        saved->items[saved->n].attr = attr;
        saved->items[saved->n].at = i;
        saved->items[saved->n++].step = attr->ints[i];
    }
}

/* Of products of warp groups, one unless the user says so. */
static int64_t given_blocks(Func *func)
{
    const Line *line = func->target->roles ? schedule_given(func, "blocks", "") : NULL;
    return line && line->number > 1 ? line->number : 1;
}

/* A matrix unit's tiles: two slots of what loops bring, and registers for accumulators. A result
 * may leave through the buffer of an operand that was loaded once (stage_store.c). */
static bool unit_steps_fit(Func *func, const Steps *steps)
{
    int64_t groups = steps->third ? 3 : larger(1, smaller(2, steps->rows / GROUP_ROWS));
    int64_t threads = groups * GROUP_WARPS * func->target->warp;
    int64_t held = steps->third ? THIRD_HELD_BYTES : THREAD_HELD_BYTES;
    held = steps->single ? smaller(held, SINGLE_HELD_BYTES - steps->depth) : held;
    int64_t room = (func->target->shared_bytes + RESERVED_BYTES) / given_blocks(func);
    return steps->once + steps->stored - steps->lent + 2 * steps->walked + SHARED_SLACK +
                   RESERVED_BYTES <=
               room &&
           steps->held + steps->operand <= threads * held;
}

static bool steps_fit(Func *func, const Steps *steps)
{
    if (!is_gpu(func) || !steps->any_dot) {
        return true;
    }
    if (steps->wgmma) {
        return unit_steps_fit(func, steps);
    }
    /* A product by fma also stages operands that come from registers, and loops keep two tiles. */
    return steps->shared <= func->target->shared_bytes * 7 / 8 &&
           steps->accumulators <= (int64_t)256 * THREAD_ACCUMULATORS;
}

static int64_t source_warps(const Func *func, const Steps *steps)
{
    if (steps->third || (steps->wgmma && steps->rows == 3 * GROUP_ROWS)) {
        return 3 * GROUP_WARPS;
    }
    if (steps->wgmma) {
        return smaller(8, power_of_two_at_least(larger(1, steps->rows / 64) * 4));
    }
    int64_t each = steps->ranks && !steps->looks_up ? THREAD_RANKED : THREAD_ELEMENTS;
    int64_t threads =
        steps->any_dot ? steps->accumulators / (THREAD_ACCUMULATORS / 4) : steps->elements / each;
    if (steps->unit) { /* more than one warp for each of its rows would share them */
        int64_t rows = larger(1, steps->rows / steps->unit->m) * func->target->warp;
        threads = smaller(threads, larger(rows, steps->accumulators / THREAD_ACCUMULATORS));
    }
    threads = smaller(larger(threads, func->target->warp),
                      steps->any_dot ? 256 : func->target->max_threads);
    return power_of_two_at_least(threads / func->target->warp);
}

static void restore_steps(const Saved *saved)
{
    for (int i = 0; i < saved->n; i++) {
        saved->items[i].attr->ints[saved->items[i].at] = saved->items[i].step;
    }
}

static void try_steps(Func *func, Op *parallel, const Saved *saved, int64_t shrink, bool even,
                      Steps *steps)
{
    restore_steps(saved);
    *steps = (Steps){.func = func,
                     .shrink = shrink,
                     .loops_first = steps->wgmma || steps->unit,
                     .even = even,
                     .narrowed = steps->narrowed};
    walk_group(parallel, set_steps, steps);
    walk_group(parallel, measure_op, steps);
}

/* ---- one warp group, or a third ---- */

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

/* Two products in a loop, of which the second one's left operand is made of the first one's result:
 * the work between them is what other groups' products hide. */
static bool is_made_of_scores(Func *func, const Op *parallel, const Steps *steps)
{
    const Value *axis = stepped_axis(parallel);
    return axis && func->target->roles && steps->wgmma && steps->n_dots == 2 &&
           steps->operand > 0 && steps->rows == 2 * GROUP_ROWS &&
           !schedule_given(func, "warps", "") &&
           !schedule_given(func, "tile", poly_as_range(axis->type->dims[0])->name);
}

static int64_t tiles_by(int64_t extent, int64_t step)
{
    return (extent + step - 1) / step;
}

typedef struct Widest {
    const Op *loop; /* that takes most at a step, or NULL */
    int64_t columns;
} Widest;

static void see_loop(Op *op, void *user)
{
    Widest *walk = user;
    const Attr *steps = op->kind == OP_FOR ? op_attr(op, ATTR_STEPS) : NULL;
    if (steps && steps->ints[0] > walk->columns) {
        *walk = (Widest){op, steps->ints[0]};
    }
}

static Widest widest_walk(const Op *parallel)
{
    Widest walk = {NULL, 0};
    block_walk(parallel->regions[0], see_loop, &walk);
    return walk;
}

/* Tiles of so many rows; 0: not known. */
static double count_tiles(const Op *parallel, int64_t rows)
{
    const Attr *dims = op_attr(parallel, ATTR_DIMS), *steps = op_attr(parallel, ATTR_STEPS);
    double tiles = 1;
    for (int i = 0; i < dims->n; i++) {
        int64_t most = poly_most(dims->dims[i]);
        if (most >= INT32_MAX) {
            return 0;
        }
        tiles *= (double)(steps->ints[i] ? tiles_by(most, rows) : most);
    }
    return tiles;
}

/* One group of 64 rows where two would be waves of no less tiles, each of which takes longer: few
 * queries of each head, or few heads. */
static bool choose_single(Func *func, Op *parallel, const Saved *saved, Steps *steps)
{
    double units = func->target->units;
    double one = count_tiles(parallel, GROUP_ROWS), two = count_tiles(parallel, 2 * GROUP_ROWS);
    bool as_few = one > 0 && (one <= two || one <= units);
    if (!as_few || !is_made_of_scores(func, parallel, steps)) {
        return false;
    }
    Widest walk = widest_walk(parallel);
    for (int64_t most = walk.columns; most >= LEAST_COLUMNS; most -= UNIT_COLUMNS) {
        Steps single = {.func = func, .shrink = 1, .loops_first = true, .even = true};
        restore_steps(saved);
        single.single = true;
        single.columns = most;
        walk_group(parallel, set_steps, &single);
        walk_group(parallel, measure_op, &single);
        if (steps_fit(func, &single)) {
            *steps = single;
            return true;
        }
    }
    return false;
}

/* What the grid's waves take with the steps as they are, relatively; where it is not known how many
 * there are, what an element of a row takes. */
static double grid_time(const Func *func, const Op *parallel, const Steps *steps)
{
    Widest walk = widest_walk(parallel);
    int64_t rows = (steps->third ? 3 : 2) * GROUP_ROWS, columns = walk.columns;
    int64_t extent = poly_most(op_attr(walk.loop, ATTR_DIMS)->dims[0]);
    double pace = steps->third ? 1 + (double)THIRD_GAIN / 100 / (double)larger(1, steps->depth) : 1;
    double tiles = count_tiles(parallel, rows);
    if (tiles == 0 || extent >= INT32_MAX) {
        return (double)(columns + STEP_COLUMNS) / (double)columns / pace;
    }
    double walked = (double)walk_cost(extent, columns) * (double)rows / (2 * GROUP_ROWS) / pace;
    double waves = tiles / func->target->units, whole = (double)(int64_t)waves;
    return (whole + (waves > whole)) *
           ((steps->third ? THIRD_TILE_COLUMNS : TILE_COLUMNS) + walked);
}

/* Three groups of 64 rows where two would do, with as many columns as their registers hold, if that
 * takes less time. `steps`: of two. A walk that ends with the tile's rows, as under a causal mask,
 * wants steps that divide them: of 64 elements a head 404 TFLOP/s by 96 columns, 384 by 112 and 399
 * by 128, which spill (H200). One that begins behind the axis' begin, too, is masked at both ends,
 * which takes more registers than three groups have. */
static bool choose_third(Func *func, Op *parallel, const Saved *saved, Steps *steps)
{
    Widest walk = widest_walk(parallel);
    int64_t columns = smaller(THIRD_COLUMNS, walk.columns);
    if (columns == 0 || !begins_at_zero(walk.loop) || !is_made_of_scores(func, parallel, steps)) {
        return false;
    }
    double two = grid_time(func, parallel, steps);
    for (int64_t most = columns; most >= LEAST_COLUMNS; most -= UNIT_COLUMNS) {
        if (!is_whole(walk.loop) && 3 * GROUP_ROWS % most) {
            continue;
        }
        Steps third = {.func = func, .shrink = 1, .loops_first = true, .even = true};
        restore_steps(saved);
        third.third = true;
        third.columns = most;
        walk_group(parallel, set_steps, &third);
        walk_group(parallel, measure_op, &third);
        if (steps_fit(func, &third)) {
            double three = grid_time(func, parallel, &third);
            *steps = three * 100 <= two * (100 - THIRD_LEAST) ? third : *steps;
            return steps->third;
        }
    }
    return false;
}

/* The grid's widest axis, down to the rows of a warp group; false: none is wider. */
static bool narrow_widest(const Op *parallel, Saved *saved, Steps *steps)
{
    const Attr *grid = op_attr(parallel, ATTR_STEPS);
    int widest = -1;
    for (int i = 0; i < saved->n && !op_int(parallel, ATTR_EXACT, 0); i++) {
        bool wide = saved->items[i].attr == grid && saved->items[i].step > GROUP_ROWS;
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
 * no room for even so are accumulators: the grid's widest axis is halved, and the loops have their
 * steps again. */
static int64_t halve_steps(Func *func, Op *parallel, Saved *saved, Steps *steps)
{
    bool wgmma = steps->wgmma;
    int64_t shrink = 1;
    try_steps(func, parallel, saved, shrink, false, steps);
    while (shrink < MOST_SHRINK && !steps_fit(func, steps)) {
        bool narrows = wgmma && (shrink == LOOPS_ALONE || !steps->wgmma) &&
                       narrow_widest(parallel, saved, steps);
        shrink = narrows ? 1 : 2 * shrink;
        steps->wgmma |= narrows;
        try_steps(func, parallel, saved, shrink, false, steps);
    }
    return shrink;
}

/* What fits as far as it can be told here; then halved as often as it turned out not to. */
static void choose_steps(Func *func, Op *parallel, Steps *steps)
{
    Saved saved = {.n = 0};
    save_steps(parallel, &saved);
    block_walk(parallel->regions[0], save_steps, &saved);
    walk_group(parallel, measure_op, steps);
    if (steps->wgmma && !times_smaller(func)) {
        try_steps(func, parallel, &saved, 1, true, steps);
        bool fits = steps_fit(func, steps);
        if (choose_single(func, parallel, &saved, steps) ||
            (fits && choose_third(func, parallel, &saved, steps))) {
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
    Steps steps = {.func = func};
    choose_steps(func, parallel, &steps);
    int64_t warps = 1;
    if (is_gpu(func)) {
        warps = tile_checked_warps(func, steps.wgmma ? steps.rows : 0, source_warps(func, &steps),
                                   "a thread holds its share of the tiles");
    }
    op_set_ints(func, parallel, ATTR_WARPS, 1, &warps);
    if (is_gpu(func) && steps.wgmma && given_blocks(func) > 1) {
        int64_t blocks = tile_checked_blocks(func, 0, warps * func->target->warp);
        op_set_int(func, parallel, ATTR_BLOCKS, blocks);
    }
}
