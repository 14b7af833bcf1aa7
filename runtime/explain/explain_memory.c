/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates the traffic of global memory. If a launch requests more than each array once, L2
 * serves a part of it. Blocks are traced as they run, as many at once as the device holds and all
 * equally far advanced; their accesses go through a cache model that begins empty. After some time
 * the rest of the launch is assumed to continue at the same rate. */
#include "runtime/explain/explain_occupancy.h"
#include "support/int_math.h"

#include "ir/build.h"
#include "runtime/explain/explain_grid.h"
#include "runtime/explain/l2_model.h"

enum {
    STEPS_A_VISIT = 16,
    PIECES_A_VISIT = 7,
    FOLLOWED = 1 << 18,
    LINE_BYTES = 128,
    MAX_RATE = 1 << 12
};
static const double MAX_VISITS = 2e6, MAX_PIECES = 3e7;
static const double REREAD = 1.02; /* of what arrays hold: it is read once */

/* What is read stays in a part of the cache (an H200 keeps some of it in both halves, as the two
 * scans of examples/cumsum.tile show), what is written in all of it. */
static double kept_bytes(const Machine *machine, double cache)
{
    return machine->l2_percent / 100.0 * cache;
}

typedef struct BlockTrace {
    const Func *func;
    EvalPoint context;
    Level2 *level2;
    int64_t block, blocks, nth;
    double moved;          /* bytes, by this block in its present role */
    size_t since;          /* what this block has touched */
    bool was_abandoned;    /* a round alone costs too much */
    double visits, pieces; /* of ops; of rows that lie together: what this costs */
    double most_visits, most_pieces;
} BlockTrace;

/* A round that costs so much more than all of them should is not followed to its end. */
static const double MOST_OF_A_ROUND = 1.5;

static bool is_abandoned(BlockTrace *trace)
{
    trace->was_abandoned = trace->was_abandoned ||
                           trace->visits > MOST_OF_A_ROUND * trace->most_visits ||
                           trace->pieces > MOST_OF_A_ROUND * trace->most_pieces;
    return trace->was_abandoned;
}

/* ---- one access: rows of a box ---- */

typedef struct Box {
    int n;
    int64_t first[MAX_RANK], counts[MAX_RANK], strides[MAX_RANK]; /* of elements */
} Box;

static bool find_axis(BlockTrace *trace, const Value *index, int64_t extent, int64_t *first,
                      int64_t *end)
{
    int32_t none[MAX_RANK] = {0};
    *first = 0;
    *end = extent;
    if (index && index->type->kind == TYPE_RANGE) {
        const Bound *bound = &trace->context.bound[index->id];
        *first = bound->first > bound->least ? bound->first : bound->least;
        *end = bound->end < extent ? bound->end : extent;
    } else if (index) {
        if (!context_eval(&trace->context, index, none, first)) {
            *first = 0;
        }
        *first = trace->context.guessed && extent > 0 ? *first % extent : *first;
        *end = *first + 1 < extent ? *first + 1 : extent;
    }
    *first = *first > 0 ? *first : 0;
    return *first < *end;
}

static bool find_box(BlockTrace *trace, const Access *access, Box *box)
{
    Type type = access->memory->type;
    int64_t stride = 1, end;
    box->n = access->n;
    for (int axis = access->n; axis-- > 0;) {
        int64_t extent;
        if (!context_dim(&trace->context, type->dims[axis], &extent) ||
            !find_axis(trace, access->indices[axis], extent, &box->first[axis], &end)) {
            return false;
        }
        box->counts[axis] = end - box->first[axis];
        box->strides[axis] = stride;
        if (type->strides &&
            !context_dim(&trace->context, type->strides[axis], &box->strides[axis])) {
            return false;
        }
        if (__builtin_mul_overflow(stride, extent, &stride)) {
            return false;
        }
    }
    return true;
}

static void touch_rows(BlockTrace *trace, const Box *box, int axis, int64_t at, double bits,
                       int64_t base, bool writes)
{
    if (axis < box->n - 1 || (axis < box->n && box->strides[axis] != 1)) {
        for (int64_t i = 0; i < box->counts[axis]; i++) {
            touch_rows(trace, box, axis + 1, at + (box->first[axis] + i) * box->strides[axis], bits,
                       base, writes);
        }
        return;
    }
    int64_t first = at + (axis < box->n ? box->first[axis] : 0);
    int64_t count = axis < box->n ? box->counts[axis] : 1;
    int64_t from = (int64_t)((double)first * bits / 8);
    int64_t end = (int64_t)((double)(first + count) * bits / 8);
    end = end > from ? end : from + 1;
    level2_note(trace->level2, (float)trace->moved, base + from, base + end, writes);
    trace->pieces += 1 + (double)(end - from) / LINE_BYTES;
    trace->moved += (double)(end - from);
}

/* ---- gathers: runs whose ends say that what is between them lies side by side ---- */

typedef struct Gather {
    BlockTrace *trace;
    Access access;
    Type tile;
    int64_t strides[MAX_RANK], extents[MAX_RANK], limits[MAX_RANK];
    int64_t base;
    double bits;
} Gather;

static bool find_place(Gather *g, const int32_t *coords, int64_t *at)
{
    EvalPoint *c = &g->trace->context;
    *at = 0;
    for (int axis = 0; axis < g->access.n; axis++) {
        int32_t none[MAX_RANK] = {0};
        const Value *index = g->access.indices[axis];
        int64_t place;
        if (!context_eval(c, index, index->type->rank ? coords : none, &place)) {
            return false;
        }
        place = c->guessed && g->extents[axis] > 0 ? place % g->extents[axis] : place;
        if (place < 0 || place >= g->extents[axis]) {
            return false;
        }
        *at += place * g->strides[axis];
    }
    return true;
}

/* Indices that take long to compute count as more visits. */
static bool gather_place(Gather *g, const int32_t *coords, int64_t *at)
{
    int64_t before = g->trace->context.taken;
    bool found = find_place(g, coords, at);
    g->trace->visits += 1 + (double)(g->trace->context.taken - before) / STEPS_A_VISIT;
    return found;
}

/* Elements [from, end) of the last axis. */
static void touch_run(Gather *g, int32_t *coords, int64_t from, int64_t end)
{
    int last = g->tile->rank - 1;
    int64_t a, b, n = end - from;
    coords[last] = (int32_t)from;
    bool first = gather_place(g, coords, &a);
    coords[last] = (int32_t)(end - 1);
    bool final = gather_place(g, coords, &b);
    coords[last] = (int32_t)(from + n / 2);
    if (is_abandoned(g->trace) || (!first && !final && !gather_place(g, coords, &a))) {
        return; /* outside of the tensor from end to end */
    }
    if (n > 1 && (!first || !final || (b - a != n - 1 && a - b != n - 1 && a != b))) {
        touch_run(g, coords, from, from + n / 2);
        touch_run(g, coords, from + n / 2, end);
    } else if (first && final) {
        int64_t lo = (int64_t)((double)(a < b ? a : b) * g->bits / 8);
        int64_t hi = (int64_t)((double)((a < b ? b : a) + 1) * g->bits / 8);
        hi = hi > lo ? hi : lo + 1;
        level2_note(g->trace->level2, (float)g->trace->moved, g->base + lo, g->base + hi, false);
        g->trace->pieces += 1 + (double)(hi - lo) / LINE_BYTES;
        g->trace->moved += (double)(hi - lo);
    }
}

static void touch_runs(Gather *g, int32_t *coords, int axis)
{
    if (axis == g->tile->rank - 1) {
        touch_run(g, coords, 0, g->limits[axis]);
        return;
    }
    for (int64_t i = 0; i < g->limits[axis] && !is_abandoned(g->trace); i++) {
        coords[axis] = (int32_t)i;
        touch_runs(g, coords, axis + 1);
    }
}

static void trace_gather(BlockTrace *trace, const Op *op)
{
    Gather g = {.trace = trace, .access = op_access(op, 0), .tile = op->results[0]->type};
    Type type = g.access.memory->type;
    const EvalPoint *c = &trace->context;
    int32_t coords[MAX_RANK] = {0};
    int64_t stride = 1;
    for (int axis = g.access.n; axis-- > 0;) {
        g.strides[axis] = stride;
        if (!g.access.indices[axis] || !context_dim(c, type->dims[axis], &g.extents[axis]) ||
            (type->strides && !context_dim(c, type->strides[axis], &g.strides[axis])) ||
            __builtin_mul_overflow(stride, g.extents[axis], &stride)) {
            return;
        }
    }
    for (int axis = 0; axis < g.tile->rank; axis++) {
        if (!context_dim(c, g.tile->dims[axis], &g.limits[axis]) || g.limits[axis] < 1) {
            return;
        }
    }
    g.base = (int64_t)g.access.memory->id << 44;
    g.bits = dtype_memory_bits(type->dtype);
    if (g.tile->rank > 0) {
        touch_runs(&g, coords, 0);
    }
}

static bool is_traced(const Func *func, const Op *op, Access *access)
{
    bool reads = op->kind == OP_LOAD || op->kind == OP_BULK_LOAD || op->kind == OP_COPY_LOAD ||
                 op->kind == OP_GATHER;
    bool writes = op->kind == OP_STORE || op->kind == OP_BULK_STORE;
    if (!reads && !writes) {
        return false;
    }
    *access = op_access_nth(op, op->kind == OP_BULK_STORE ? 1 : 0);
    return access->memory->type->kind == TYPE_TENSOR && !func_im2col_of(func, access->memory);
}

/* ---- one block, or one of its tiles ---- */

static void trace_block(BlockTrace *trace, const Block *block);

static void find_tensor(Op *op, void *user)
{
    bool *found = user;
    for (int i = 0; i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        *found |= value && value->type->kind == TYPE_TENSOR;
    }
}

static bool accesses(Block *block)
{
    bool found = false;
    block_walk(block, find_tensor, &found);
    return found;
}

static void trace_for(BlockTrace *trace, const Op *op)
{
    EvalPoint *c = &trace->context;
    int64_t lo = 0, hi = 0, whole, step = op_attr(op, ATTR_STEPS)->ints[0];
    if (!accesses(op->regions[0]) || !context_dim(c, op_attr(op, ATTR_DIMS)->dims[0], &whole)) {
        return;
    }
    if (!context_scalar(c, for_lo(op), &lo) || !context_scalar(c, for_hi(op), &hi) || hi > whole) {
        lo = lo > 0 && lo < whole ? lo : 0;
        hi = whole;
    }
    int64_t each = step ? step : 1, n = hi > lo ? (hi - lo + each - 1) / each : 0;
    bool back = op_int(op, ATTR_DESCENDING, 0) != 0;
    for (int64_t i = 0; i < n && !is_abandoned(trace); i++) {
        context_bind(c, op->regions[0]->args[0], lo + (back ? n - 1 - i : i) * each, step, hi);
        trace_block(trace, op->regions[0]);
    }
}

static void trace_if(BlockTrace *trace, const Op *op)
{
    int64_t taken;
    bool known = context_scalar(&trace->context, op->operands[0], &taken);
    for (int i = 0; i < op->n_regions; i++) {
        if (!known || i == (taken ? 0 : 1)) {
            trace_block(trace, op->regions[i]);
        }
    }
}

static void trace_op(BlockTrace *trace, const Op *op)
{
    Grid grid;
    trace->visits++;
    Access access;
    Box box;
    bool traced = is_traced(trace->func, op, &access);
    if (traced && op->kind == OP_GATHER) {
        trace_gather(trace, op);
    } else if (traced && find_box(trace, &access, &box)) {
        bool writes = op->kind == OP_STORE || op->kind == OP_BULK_STORE;
        double bits = dtype_memory_bits(access.memory->type->dtype);
        /* Axes that are adjacent in memory become one. */
        int n = 0;
        for (int axis = 0; axis < box.n; axis++) {
            box.first[n] = box.first[axis];
            box.counts[n] = box.counts[axis];
            box.strides[n] = box.strides[axis];
            if (n > 0 && box.strides[n - 1] == box.counts[n] * box.strides[n] &&
                box.first[n] == 0) {
                box.first[n - 1] *= box.counts[n];
                box.counts[n - 1] *= box.counts[n];
                box.strides[n - 1] = box.strides[n];
            } else {
                n++;
            }
        }
        box.n = n;
        touch_rows(trace, &box, 0, 0, bits, (int64_t)access.memory->id << 44, writes);
    }
    switch (op->kind) {
    case OP_FOR: trace_for(trace, op); break;
    case OP_IF: trace_if(trace, op); break;
    case OP_ROLES: {
        /* Roles run concurrently: each one's accesses are rescaled to the time in which all run. */
        level2_rescale(trace->level2, trace->since, 0);
        for (int i = 0; i < op->n_regions; i++) {
            size_t since = level2_noted(trace->level2);
            trace->moved = 0;
            trace_block(trace, op->regions[i]);
            level2_rescale(trace->level2, since, trace->moved > 0 ? 1 / trace->moved : 1);
        }
        trace->moved = 0;
    } break;
    case OP_TILE_LOOP:
        if (grid_make(&trace->context, op, &grid) &&
            grid_bind_nth(&trace->context, &grid, trace->block, trace->blocks, trace->nth)) {
            trace_block(trace, op->regions[0]);
        }
        break;
    case OP_WHILE:
        trace_block(trace, op->regions[0]);
        trace_block(trace, op->regions[1]);
        break;
    default: break;
    }
}

static void trace_block(BlockTrace *trace, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        trace_op(trace, op);
    }
}

/* ---- the launch ---- */

/* Rounds of as many blocks as there are at once; of persistent ones, of their tiles. False: not to
 * the end, from where what is read is taken to continue alike. */
static bool trace_waves(BlockTrace *trace, const LaunchReport *launch, int64_t tiles,
                        int64_t coresident, Moved *all)
{
    bool persistent = launch->plan->persistent;
    int64_t at_once = persistent ? launch->blocks : coresident, n = ceil_div(tiles, at_once);
    Moved half = {0};
    int64_t from = 0, i = 0;
    for (; i < n && trace->visits < trace->most_visits && trace->pieces < trace->most_pieces; i++) {
        int64_t blocks = tiles - i * at_once < at_once ? tiles - i * at_once : at_once;
        for (int64_t b = 0; b < (persistent ? at_once : blocks) && !is_abandoned(trace); b++) {
            trace->block = persistent ? b : i * at_once + b;
            trace->nth = persistent ? i : 0;
            Grid grid;
            trace->since = level2_noted(trace->level2);
            trace->moved = 0;
            if (launch->plan->persistent ||
                (grid_make(&trace->context, launch->op, &grid) &&
                 grid_bind_nth(&trace->context, &grid, trace->block, trace->blocks, 0))) {
                trace_block(trace, launch->op->regions[0]);
            }
            if (trace->moved > 0) {
                level2_rescale(trace->level2, trace->since, 1 / trace->moved);
            }
        }
        level2_turn(trace->level2);
        if (2 * trace->visits < trace->most_visits && 2 * trace->pieces < trace->most_pieces) {
            half = level2_moved(trace->level2);
            from = i + 1;
        }
    }
    *all = level2_moved(trace->level2);
    double rest = i > from ? (double)(n - i) / (double)(i - from) : 0;
    all->read += (all->read - half.read) * rest;
    return i == n;
}

/* What is read and written once takes its parts of the cache, where a part of what is written
 * stays. */
static double left_behind(double read, double written, double cache)
{
    double all = read + written;
    return all > cache ? cache * written / all : written;
}

static bool accesses_otherwise(const Func *func, const LaunchReport *launch)
{
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *at = &launch->accesses.items[i];
        Access access;
        if (at->value->type->kind == TYPE_TENSOR && !is_traced(func, at->op, &access)) {
            return true;
        }
    }
    return false;
}

/* Registers that spill are written, too; where the next block of a multiprocessor writes the same
 * again before it gives way, not to memory. */
static double spilled(const LaunchReport *launch, int lanes, double coresident, double kept)
{
    const Roofline *r = &launch->roofline;
    double threads = (double)launch->warps * lanes;
    double each = launch->assembled ? launch->assembled->spilled * threads : 0;
    double waves = (double)launch->blocks / coresident;
    bool stays = waves <= 1 || (r->read + r->written) / waves + coresident * each <= kept;
    return stays ? 0 : each * (double)launch->blocks;
}

/* By the blocks' walk; false: that is not to be had, or not needed. */
static bool walk_memory(const Report *report, LaunchReport *launch, int64_t tiles,
                        int64_t coresident, double cache, double spills)
{
    const ReportInput *input = report->input;
    Roofline *r = &launch->roofline;
    double kept = kept_bytes(report->target->machine, cache);
    if (input->brief || input->sampled || accesses_otherwise(input->func, launch) ||
        r->asked_read <= REREAD * r->read || r->read + r->written < kept) {
        return false;
    }
    int64_t rate = 1;
    double lines = (r->asked_read + r->asked_written) / LINE_BYTES;
    while (rate < MAX_RATE && lines / (double)rate > FOLLOWED) {
        rate *= 2;
    }
    Moved all;
    BlockTrace trace = {.func = input->func,
                        .context = context_of(input->func, input->sizes),
                        .level2 = level2_new(input->func->arena, (int64_t)kept, rate),
                        .most_visits = MAX_VISITS * report_share(report),
                        .most_pieces = MAX_PIECES * report_share(report),
                        .blocks = launch->blocks};
    bool ended = trace_waves(&trace, launch, tiles, coresident, &all);
    launch->visits = (int64_t)(trace.visits + trace.pieces / PIECES_A_VISIT);
    launch->untraced = trace.was_abandoned;
    if (trace.was_abandoned) {
        return false;
    }
    double written = r->written + spills;
    r->memory_read = all.read > r->read ? all.read : r->read;
    r->memory_written =
        ended ? all.written + spills : written - left_behind(r->memory_read, written, cache);
    return true;
}

void memory_make(const Report *report, LaunchReport *launch, int64_t tiles)
{
    Roofline *r = &launch->roofline;
    r->memory_read = r->read;
    r->memory_written = r->written;
    int64_t coresident = (int64_t)launch->occupancy.resident * report->target->machine->num_sms;
    double cache = report->card ? report->card->l2_mib * 1048576.0 : 0;
    if (!report->card || tiles < 1 || coresident < 1 || launch->blocks < 1) {
        return;
    }
    double spills = spilled(launch, report->target->warp, (double)coresident,
                            kept_bytes(report->target->machine, cache));
    if (!walk_memory(report, launch, tiles, coresident, cache, spills)) {
        double written = r->written + spills;
        r->memory_written = written - left_behind(r->read, written, cache);
    }
    r->memory_read += r->written_in_parts;
}
