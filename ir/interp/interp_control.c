/* SPDX-License-Identifier: Apache-2.0 */
/* Control flow. A frame is an active region; its op decides what happens at the region's end: the
 * next iteration, the next block, or the return to the enclosing frame. */
#include "ir/interp/interp_internal.h"
#include "support/int_math.h"

#include <string.h>

static Frame *top(Agent *agent)
{
    return &agent->frames.items[agent->frames.n - 1];
}

static Frame *push(InterpRun *run, const Op *op, const Block *block)
{
    Frame frame = {.op = op, .block = block};
    ARENA_PUSH(run->arena, &run->agent->frames, frame);
    return top(run->agent);
}

/* ---- values of a region ---- */

static void drop_value(InterpRun *run, const Value *value)
{
    if (value->type->kind == TYPE_ARRAY) {
        array_drop(run, run->cells[value->id].array);
        run->cells[value->id].array = NULL;
    }
}

void drop_block(InterpRun *run, const Block *block)
{
    for (int i = 0; i < block->n_args; i++) {
        drop_value(run, block->args[i]);
    }
    for (const Op *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->n_results; i++) {
            drop_value(run, op->results[i]);
        }
    }
}

static void bind_integer(InterpRun *run, const Value *arg, int64_t value)
{
    Array *array = array_new(run, arg->type->dtype, 0, NULL);
    array_fill(array, (Scalar){.i = value});
    run->cells[arg->id].array = array;
}

/* An iterator: an integer, or the range [lo, min(lo + step, end)). */
static void bind_iterator(InterpRun *run, const Value *arg, int64_t lo, int64_t step, int64_t end)
{
    if (arg->type->kind != TYPE_RANGE) {
        bind_integer(run, arg, lo);
        return;
    }
    const DimVar *var = poly_as_range(arg->type->dims[0]);
    end = end > lo ? end : lo; /* of a cluster's tile past the end */
    Range range = {.lo = lo, .end = end - lo < step ? end : lo + step};
    range.extent = run->func->padded ? step : range.end - lo;
    run->cells[arg->id].range = range;
    run->lens[var->id] = range.end - lo;
    run->extents[var->id] = range.extent;
}

/* How many of these values the region's iterators take; the rest is carried. */
static void bind_carried(InterpRun *run, const Block *block, int first, Array **values)
{
    for (int i = first; i < block->n_args; i++) {
        run->cells[block->args[i]->id].array = values[i - first];
    }
}

Array **taken(InterpRun *run, const Op *op, int first, int n)
{
    Array **values = (Array **)(void *)buffer_new(run, sizeof(Array *) * (size_t)n)->bytes;
    for (int i = 0; i < n; i++) {
        values[i] = array_keep(run_unsettled(run, op, first + i));
    }
    return values;
}

void give_back(InterpRun *run, Array **values)
{
    buffer_drop(run, (Buffer *)(void *)((unsigned char *)values - offsetof(Buffer, bytes)));
}

static void set_results(InterpRun *run, const Op *op, Array **values)
{
    for (int i = 0; i < op->n_results; i++) {
        run_result(run, op, i, values[i]);
    }
}

/* ---- for ---- */

/* `by auto`: any step is right; the seed draws one. */
static int64_t step_of(InterpRun *run, const Op *op, int axis, int64_t extent)
{
    int64_t step = op_attr(op, ATTR_STEPS)->ints[axis];
    if (step >= 0) {
        return step ? step : 1;
    }
    int64_t parts = 1 + (int64_t)(run_random(run) % 3);
    return extent > parts ? ceil_div(extent, parts) : 1;
}

static bool for_next(InterpRun *run, Frame *frame, Array **carried)
{
    if (frame->next >= frame->count && !frame->empty) {
        return false;
    }
    frame->empty = false;
    int64_t at = frame->next, past = frame->count - 1 - frame->first;
    if (op_int(frame->op, ATTR_DESCENDING, 0)) {
        at = frame->first + past / frame->step * frame->step - (frame->next - frame->first);
    }
    bind_iterator(run, frame->block->args[0], at, frame->step, frame->count);
    bind_carried(run, frame->block, 1, carried);
    frame->next += frame->step;
    frame->at = frame->block->first;
    return true;
}

static void for_begin(InterpRun *run, const Op *op)
{
    int64_t extent = run_dim(run, op, run->lens, op_attr(op, ATTR_DIMS)->dims[0]);
    /* Both bounds before the carried values, which may be the same value at its last use. */
    int64_t lo = run_integer(run, op, for_lo(op)), hi = run_integer(run, op, for_hi(op));
    Array **inits = taken(run, op, 2, for_carried(op));
    Frame *frame = push(run, op, op->regions[0]);
    frame->next = frame->first = lo;
    frame->count = hi < extent ? hi : extent;
    frame->step = step_of(run, op, 0, extent);
    frame->empty = op_int(op, ATTR_SINGLE_TRIP, 0) > 1 && frame->first >= frame->count;
    bool one =
        frame->empty || (frame->first < frame->count && frame->count - frame->first <= frame->step);
    if (op_int(op, ATTR_SINGLE_TRIP, 0) && !one) {
        run_fail(run, op, "is said to have one step, and walks from %lld to %lld by %lld",
                 (long long)frame->first, (long long)frame->count, (long long)frame->step);
    }
    if (!for_next(run, frame, inits)) {
        run->agent->frames.n--;
        set_results(run, op, inits);
    }
    give_back(run, inits);
}

/* ---- grids ---- */

static int64_t shuffled(const Frame *frame, int64_t i)
{
    uint64_t n = (uint64_t)frame->count;
    return (int64_t)(((uint64_t)i % n * (uint64_t)frame->stride + (uint64_t)frame->shift) % n);
}

static void grid_extents(InterpRun *run, Frame *frame)
{
    const Attr *dims = op_attr(frame->op, ATTR_DIMS);
    frame->count = 1;
    for (int i = 0; i < dims->n; i++) {
        frame->dims[i] = run_dim(run, frame->op, run->lens, dims->dims[i]);
        frame->steps[i] = step_of(run, frame->op, i, frame->dims[i]);
        int64_t upto = axis_end(frame->op, i);
        frame->dims[i] = frame->dims[i] < upto ? frame->dims[i] : upto;
        int64_t all = frame->dims[i] - axis_begin(frame->op, i);
        frame->tiles[i] = all > 0 ? (all + frame->steps[i] - 1) / frame->steps[i] : 0;
        if (i == dims->n - 1 && op_int(frame->op, ATTR_CLUSTER, 1) > 1) {
            frame->tiles[i] = op_int(frame->op, ATTR_CLUSTER, 1);
        }
        if (__builtin_mul_overflow(frame->count, frame->tiles[i], &frame->count)) {
            run_fail(run, frame->op, "too many blocks");
        }
    }
}

/* The coordinates of a tile, the last axis fastest. With a raster of g, axis -2 walks g tiles for
 * each step of axis -1. */
static void tile_at(const Frame *frame, int n, int64_t id, int64_t *at)
{
    int64_t group = op_int(frame->op, ATTR_RASTER_GROUP, 0);
    for (int i = n - 1; i >= (group && n >= 2 ? n : 0); i--) {
        at[i] = id % frame->tiles[i];
        id /= frame->tiles[i];
    }
    if (!group || n < 2) {
        return;
    }
    int64_t rows = frame->tiles[n - 2], cols = frame->tiles[n - 1];
    int64_t plane = id % (rows * cols), first = plane / (group * cols) * group;
    int64_t height = rows - first < group ? rows - first : group;
    int64_t inside = plane % (group * cols);
    at[n - 2] = first + inside % height;
    at[n - 1] = inside / height;
    id /= rows * cols;
    for (int i = n - 3; i >= 0; i--) {
        at[i] = id % frame->tiles[i];
        id /= frame->tiles[i];
    }
}

static void bind_tile(InterpRun *run, const Frame *frame, int64_t id)
{
    int64_t at[MAX_RANK];
    int n = op_attr(frame->op, ATTR_DIMS)->n;
    tile_at(frame, n, id, at);
    for (int i = 0; i < n && i < frame->block->n_args; i++) {
        int64_t first = axis_begin(frame->op, i) + at[i] * frame->steps[i];
        bind_iterator(run, frame->block->args[i], first, frame->steps[i], frame->dims[i]);
    }
    if (run->func->padded && op_int(frame->op, ATTR_ALIGNED, 1) > 1) {
        /* With `aligned`, a tile of the last axis begins at the multiple of `aligned` elements at
         * or before its row's tile: the elements before the tile are padding. */
        int64_t row = 0, aligned = op_int(frame->op, ATTR_ALIGNED, 1);
        for (int i = 0; i < n - 1; i++) {
            row = row * frame->dims[i] + at[i] * frame->steps[i];
        }
        Range *range = &run->cells[frame->block->args[n - 1]->id].range;
        int64_t shift = row * frame->dims[n - 1] % aligned;
        range->lo -= shift;
        run->lens[poly_as_range(frame->block->args[n - 1]->type->dims[0])->id] += shift;
    }
}

static void end_block(InterpRun *run, const Op *launch)
{
    async_end_agent(run, run->agent, launch);
    async_end_block(run);
}

/* Below it lies only the body. */
static bool is_outermost(const InterpRun *run)
{
    return run->agent->frames.n == 2;
}

/* False: all blocks are done. */
static bool next_block(InterpRun *run, Frame *frame, int64_t *id)
{
    do {
        if (frame->next >= frame->count) {
            if (!run->cluster || !run->cluster->waiting) {
                return false;
            }
            run->cluster->waiting = false;
            frame->next = 0;
        }
        *id = shuffled(frame, frame->next++);
    } while (run->cluster && run->cluster->done[*id]);
    return true;
}

static bool grid_next(InterpRun *run, Frame *frame)
{
    int64_t id;
    if (!next_block(run, frame, &id)) {
        run->writer = is_outermost(run) ? 0 : run->writer;
        run->cluster = NULL;
        return false;
    }
    if (is_outermost(run)) { /* a block that is begun anew is the same one */
        run->writer = run->cluster ? run->first_writer + (uint32_t)id : ++run->writers;
    }
    if (run->cluster) {
        cluster_block(run, id);
    }
    if (frame->op->kind == OP_LAUNCH) {
        /* A launch's block begins with fresh clocks and no pending stores, products or copies. */
        Agent *agent = run->agent;
        memset(&agent->known, 0, sizeof agent->known);
        memset(&agent->joined, 0, sizeof agent->joined);
        agent->clock = 1;
        agent->fenced_at = agent->stores = agent->stores_done = 0;
        agent->products = agent->products_done = 0;
        agent->copies = agent->copies_done = agent->copied = agent->copies_empty =
            agent->copies_fenced = 0;
        run->n_agents = 1;
    }
    if (op_int(frame->op, ATTR_PERSISTENT, 0)) {
        run->block = id;
        run->blocks = frame->count;
    } else {
        bind_tile(run, frame, id);
    }
    frame->at = frame->block->first;
    return true;
}

static void grid_begin(InterpRun *run, const Op *op)
{
    Frame *frame = push(run, op, op->regions[0]);
    grid_extents(run, frame);
    if (op_int(op, ATTR_PERSISTENT, 0) && frame->count > 0) {
        int64_t tiles = frame->count, most = op_int(op, ATTR_MAX_TILES, tiles);
        int64_t least = tiles / most + (tiles % most != 0);
        frame->count = 2 + (int64_t)(run_random(run) % 2);
        frame->count = least > frame->count ? least : frame->count;
        /* The number of blocks is a multiple of the cluster size, and at most the number of tiles.
         * */
        int64_t blocks = frame->count;
        int64_t size = op_int(op, ATTR_CLUSTER, 1);
        blocks = round_up(blocks, size);
        frame->count = size > 1 && blocks > tiles ? tiles : blocks;
    }
    /* Blocks run in the order i * stride + shift modulo the count, which visits each block once. */
    int64_t n = frame->count > 0 ? frame->count : 1;
    frame->shift = (int64_t)(run_random(run) % (uint64_t)n);
    frame->stride = 1 + (int64_t)(run_random(run) % (uint64_t)(n < 1000003 ? n : 1000003));
    while (gcd(frame->stride, n) != 1) {
        frame->stride++;
    }
    if (is_outermost(run)) {
        run->first_writer = run->writers + 1;
    }
    if (op_int(op, ATTR_CLUSTER, 1) > 1) {
        cluster_begin(run, op, frame->count);
        run->writers += (uint32_t)frame->count;
    }
    if (!grid_next(run, frame)) {
        run->agent->frames.n--;
    }
}

/* ---- tiles ---- */

static bool tiles_next(InterpRun *run, Frame *frame, Array **carried)
{
    if (frame->next >= frame->count) {
        return false;
    }
    int axes = op_attr(frame->op, ATTR_DIMS)->n;
    bind_tile(run, frame, frame->next);
    if (op_int(frame->op, ATTR_TILE_INDEX, 0)) { /* the teams of a role are one here */
        bind_integer(run, frame->block->args[axes], (frame->next - run->block) / run->blocks);
    } else {
        bind_carried(run, frame->block, axes, carried);
    }
    const char *deal = op_word(frame->op, ATTR_DEAL);
    int64_t step = run->blocks;
    if (deal && text_equal(deal, "zigzag")) { /* every other round goes backwards */
        int64_t back = 2 * run->block + 1;
        step = frame->next / run->blocks % 2 ? back : 2 * run->blocks - back;
    }
    frame->next += step;
    frame->at = frame->block->first;
    return true;
}

/* The next tile of a block that takes its tiles from a counter, whose value the region yields. */
static void tile_counted(InterpRun *run, Frame *frame, Array **values)
{
    const char *deal = op_word(frame->op, ATTR_DEAL);
    if (deal && text_equal(deal, "counter")) {
        frame->next = run->blocks + array_scalar(values[frame->op->n_results - 1], 0).i;
    }
}

static void tiles_begin(InterpRun *run, const Op *op)
{
    if (run->blocks == 0) {
        run_fail(run, op, "tiles outside of a persistent launch");
    }
    Array **inits = taken(run, op, 0, op->n_operands);
    Frame *frame = push(run, op, op->regions[0]);
    grid_extents(run, frame);
    frame->next = run->block;
    if (!tiles_next(run, frame, inits)) {
        run->agent->frames.n--;
        set_results(run, op, inits);
    }
    give_back(run, inits);
}

/* ---- all ---- */

static void if_begin(InterpRun *run, const Op *op)
{
    int64_t holds = run_integer(run, op, op->operands[0]);
    const Block *side = op->regions[holds ? 0 : 1];
    push(run, op, side)->at = side->first;
}

void control_begin(InterpRun *run, const Op *op)
{
    switch (op->kind) {
    case OP_FOR: for_begin(run, op); break;
    case OP_TILE_LOOP: tiles_begin(run, op); break;
    case OP_IF: if_begin(run, op); break;
    case OP_WHILE: while_begin(run, op); break;
    default: grid_begin(run, op); break;
    }
}

static bool continues(InterpRun *run, Frame *frame, Array **values)
{
    switch (frame->op->kind) {
    case OP_FOR: return for_next(run, frame, values);
    case OP_TILE_LOOP: tile_counted(run, frame, values); return tiles_next(run, frame, values);
    case OP_LAUNCH:
        end_block(run, frame->op);
        cluster_block_end(run);
        return grid_next(run, frame);
    case OP_PARALLEL: return grid_next(run, frame);
    default: return false;
    }
}

void control_end(InterpRun *run, const Op *yield)
{
    Frame *frame = top(run->agent);
    const Op *op = frame->op;
    if (op && op->kind == OP_WHILE) {
        while_end(run, yield);
        return;
    }
    int n = yield ? yield->n_operands : 0;
    if (op && op->kind != OP_ROLES && op->n_results && n != op->n_results) {
        run_fail(run, op, "the region hands out %d values", n);
    }
    Array **values = taken(run, yield, 0, n);
    drop_block(run, frame->block);
    if (!op || !continues(run, frame, values)) {
        run->agent->frames.n--;
        if (op && op->kind != OP_ROLES) {
            set_results(run, op, values);
        }
    }
    give_back(run, values);
}
