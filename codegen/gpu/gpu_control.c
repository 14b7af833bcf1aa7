/* SPDX-License-Identifier: Apache-2.0 */
/* The ops `for`, `if` and `tiles`, and the map from a block to its tile. A loop has one phi per
 * register that is computed: replicas, and registers outside of their tile, have none. */
#include "codegen/gpu/gpu_emitters.h"

/* ---- carried values ---- */

typedef struct Carried {
    GpuEmitter *em;
    const Op *op;
    int n;
    Value **args, **results; /* region arguments, op results */
    LLVMValueRef **phis;     /* by value, by register; NULL: no such register */
    LLVMValueRef **chunks;   /* the same at the head of the loop over chunks */
    GpuTotals *totals;       /* NULL: no sum begins at zero again, and there are no chunks */
    LLVMBasicBlockRef from, header;
} Carried;

/* The value in the registers of another type of the same tile. */
static GpuValue as_type(GpuEmitter *em, const Op *op, const Value *value, Type type)
{
    GpuValue out = {.n = gpu_registers(em, type)};
    out.regs = ARENA_ARRAY(em->arena, LLVMValueRef, out.n);
    if (type_is_tile(value->type)) {
        gpu_renamed(em, op, value->type, gpu_value(em, value), type, &out);
    } else {
        out.regs[0] = gpu_scalar(em, value);
    }
    return out;
}

static bool is_computed(const Value *arg, int r)
{
    return !type_is_tile(arg->type) || gpu_canonical(arg->type->layout, r) == r;
}

static void define_copies(const Value *value, GpuValue *out)
{
    for (int r = 0; type_is_tile(value->type) && r < out->n; r++) {
        out->regs[r] = out->regs[gpu_canonical(value->type->layout, r)];
    }
}

/* ---- of those, sums that begin at zero again ---- */

/* The registers of argument i that have phis, one behind the other: none where it has no total. */
static int summed(const Carried *c, int i, const GpuValue *from, LLVMValueRef *to)
{
    int n = 0;
    for (int r = 0; gpu_totals_has(c->totals, i) && r < from->n; r++) {
        if (from->regs[r] && is_computed(c->args[i], r)) {
            to[n++] = from->regs[r];
        }
    }
    return n;
}

static void put_summed(const Carried *c, int i, const LLVMValueRef *from, GpuValue *to)
{
    int n = 0;
    for (int r = 0; gpu_totals_has(c->totals, i) && r < to->n; r++) {
        if (to->regs[r] && is_computed(c->args[i], r)) {
            to->regs[r] = from[n++];
        }
    }
}

/* What the sums among the values become, behind a chunk or behind the loop. */
static void add_totals(Carried *c, GpuValue *values, bool chunk)
{
    if (!c->totals) {
        return;
    }
    LLVMValueRef **regs = ARENA_ARRAY(c->em->arena, LLVMValueRef *, c->n);
    int *n = ARENA_ARRAY(c->em->arena, int, c->n);
    for (int i = 0; i < c->n; i++) {
        regs[i] = ARENA_ARRAY(c->em->arena, LLVMValueRef, values[i].n + 1);
        n[i] = summed(c, i, &values[i], regs[i]);
    }
    if (chunk) {
        gpu_totals_chunk(c->totals, regs, n);
    } else {
        gpu_totals_end(c->totals, regs, n);
    }
    for (int i = 0; i < c->n; i++) {
        put_summed(c, i, regs[i], &values[i]);
    }
}

/* What the arguments start from; before the loop. */
static GpuValue *starts(Carried *c, Value *const *inits)
{
    GpuEmitter *em = c->em;
    GpuValue *values = ARENA_ARRAY(em->arena, GpuValue, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        values[i] = as_type(em, c->op, inits[i], c->args[i]->type);
        LLVMValueRef *regs = ARENA_ARRAY(em->arena, LLVMValueRef, values[i].n + 1);
        int n = summed(c, i, &values[i], regs);
        if (n) {
            gpu_totals_begin(c->totals, i, regs, n);
            put_summed(c, i, regs, &values[i]);
        }
    }
    return values;
}

/* ---- phis ---- */

/* Phis for the registers of argument i that start from these, which become the phis. */
static LLVMValueRef *phis_of(Carried *c, int i, GpuValue *inits)
{
    LLVMValueRef *phis = ARENA_ARRAY(c->em->arena, LLVMValueRef, inits->n);
    for (int r = 0; r < inits->n; r++) {
        if (inits->regs[r] && is_computed(c->args[i], r)) {
            phis[r] = LLVMBuildPhi(c->em->builder, LLVMTypeOf(inits->regs[r]), "");
            LLVMAddIncoming(phis[r], &inits->regs[r], &c->from, 1);
            inits->regs[r] = phis[r];
        }
    }
    return phis;
}

static void feed_phis(Carried *c, LLVMValueRef **phis, const GpuValue *values)
{
    LLVMBasicBlockRef from = LLVMGetInsertBlock(c->em->builder);
    for (int i = 0; i < c->n; i++) {
        for (int r = 0; r < values[i].n; r++) {
            if (phis[i][r]) {
                LLVMAddIncoming(phis[i][r], &values[i].regs[r], &from, 1);
            }
        }
    }
}

/* At the head of the loop over chunks: the inits become what a chunk starts from. */
static void open_chunks(Carried *c, GpuValue *inits)
{
    c->chunks = ARENA_ARRAY(c->em->arena, LLVMValueRef *, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        c->chunks[i] = phis_of(c, i, &inits[i]);
    }
}

/* At the head of the loop: a phi for each register of each argument. */
static void open_carried(Carried *c, GpuValue *inits)
{
    c->phis = ARENA_ARRAY(c->em->arena, LLVMValueRef *, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        GpuValue *out = gpu_define(c->em, c->args[i]);
        c->phis[i] = phis_of(c, i, &inits[i]);
        for (int r = 0; r < out->n; r++) {
            out->regs[r] = c->phis[i][r] ? c->phis[i][r] : out->regs[r];
        }
        define_copies(c->args[i], out);
    }
}

/* At the end of the body: what the next round starts from. */
static void feed_back(Carried *c, const Op *yield)
{
    GpuValue *next = ARENA_ARRAY(c->em->arena, GpuValue, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        next[i] = as_type(c->em, yield, yield->operands[i], c->args[i]->type);
    }
    feed_phis(c, c->phis, next);
}

/* The arguments as they are behind the last round, whose registers may be changed. */
static GpuValue *last_values(Carried *c)
{
    GpuValue *values = ARENA_ARRAY(c->em->arena, GpuValue, c->n + 1);
    for (int i = 0; i < c->n; i++) {
        values[i] = *gpu_value(c->em, c->args[i]);
    }
    return values;
}

/* After the loop: the results are the phis, and what was taken from them. */
static void define_results(Carried *c)
{
    GpuValue *values = last_values(c); /* nothing behind the loop reads the arguments */
    add_totals(c, values, false);
    for (int i = 0; i < c->n; i++) {
        if (gpu_totals_has(c->totals, i)) {
            define_copies(c->args[i], &values[i]);
        }
        GpuValue last = as_type(c->em, c->op, c->args[i], c->results[i]->type);
        GpuValue *out = gpu_define(c->em, c->results[i]);
        for (int r = 0; r < out->n; r++) {
            out->regs[r] = last.regs[r];
        }
    }
}

/* ---- loops ---- */

/* A counted loop under construction: i from lo, while i < hi, by step. With totals it is the inner
 * one of two: the outer one goes from chunk to chunk, so that a step has no branch more. */
typedef struct CountedLoop {
    LLVMValueRef i, hi, chunk; /* chunk: where the one that is here began */
    LLVMBasicBlockRef header, after, outer;
    Carried carried;
} CountedLoop;

/* Opens the loop over chunks and returns the index at which the current chunk ends. */
static LLVMValueRef open_chunk(GpuEmitter *em, CountedLoop *loop, LLVMValueRef lo, GpuValue *inits)
{
    Carried *c = &loop->carried;
    loop->outer = gpu_new_block(em, "chunk");
    LLVMBuildBr(em->builder, loop->outer);
    gpu_go(em, loop->outer);
    loop->chunk = LLVMBuildPhi(em->builder, LLVMTypeOf(lo), "");
    LLVMAddIncoming(loop->chunk, &lo, &c->from, 1);
    open_chunks(c, inits);
    c->from = loop->outer;
    LLVMValueRef end = LLVMBuildNSWAdd(em->builder, loop->chunk, c->totals->chunk, "");
    return llvm_call2(em->l, "llvm.smin", end, loop->hi);
}

static CountedLoop open_loop(GpuEmitter *em, const Op *op, LLVMValueRef lo, LLVMValueRef hi,
                             int first_init, int first_arg)
{
    CountedLoop loop = {.header = gpu_new_block(em, "loop"), .after = NULL};
    LLVMBasicBlockRef body = gpu_new_block(em, "body");
    loop.after = gpu_new_block(em, "end");
    loop.hi = llvm_bound(em->l, hi);
    loop.carried = (Carried){.em = em,
                             .op = op,
                             .n = op->n_results,
                             .args = op->regions[0]->args + first_arg,
                             .results = op->results,
                             .totals = gpu_totals_open(em, op, loop.hi)};
    GpuValue *inits = starts(&loop.carried, op->operands + first_init);
    loop.carried.from = LLVMGetInsertBlock(em->builder);
    LLVMValueRef end = loop.carried.totals ? open_chunk(em, &loop, lo, inits) : loop.hi;
    lo = loop.carried.totals ? loop.chunk : lo;
    LLVMBuildBr(em->builder, loop.header);
    gpu_go(em, loop.header);
    loop.i = LLVMBuildPhi(em->builder, LLVMTypeOf(lo), "i");
    LLVMAddIncoming(loop.i, &lo, &loop.carried.from, 1);
    open_carried(&loop.carried, inits);
    LLVMValueRef more = LLVMBuildICmp(em->builder, LLVMIntSLT, loop.i, end, "");
    LLVMBuildCondBr(em->builder, more, body, loop.after);
    gpu_go(em, body);
    return loop;
}

/* Ends a chunk: adds its sums to the totals and branches to the next chunk if one is left. */
static void close_chunk(GpuEmitter *em, CountedLoop *loop)
{
    Carried *c = &loop->carried;
    LLVMBasicBlockRef next = gpu_new_block(em, "next_chunk");
    LLVMBasicBlockRef last = gpu_new_block(em, "last_chunk");
    LLVMValueRef more = LLVMBuildICmp(em->builder, LLVMIntSLT, loop->i, loop->hi, "");
    LLVMBuildCondBr(em->builder, more, next, last);
    gpu_go(em, next);
    GpuValue *values = last_values(c);
    for (int i = 0; i < c->n; i++) {
        values[i].regs =
            arena_copy(em->arena, values[i].regs, sizeof(LLVMValueRef) * (size_t)values[i].n);
    }
    add_totals(c, values, true);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(em->builder);
    LLVMAddIncoming(loop->chunk, &loop->i, &from, 1);
    feed_phis(c, c->chunks, values);
    LLVMBuildBr(em->builder, loop->outer);
    gpu_go(em, last);
}

static void close_loop(GpuEmitter *em, CountedLoop *loop, LLVMValueRef step)
{
    feed_back(&loop->carried, loop->carried.op->regions[0]->last);
    LLVMValueRef next = LLVMBuildNSWAdd(em->builder, loop->i, step, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(em->builder);
    LLVMAddIncoming(loop->i, &next, &latch, 1);
    LLVMBuildBr(em->builder, loop->header);
    gpu_go(em, loop->after);
    if (loop->carried.totals) {
        close_chunk(em, loop);
    }
    define_results(&loop->carried);
}

static LLVMValueRef least(GpuEmitter *em, LLVMValueRef a, LLVMValueRef c)
{
    return llvm_call2(em->l, "llvm.smin", a, c);
}

/* The argument that stands for one step of an axis: a range, or an index where the step is 0. */
static void define_step(GpuEmitter *em, const Value *arg, LLVMValueRef first, int64_t step,
                        LLVMValueRef end)
{
    if (step == 0) {
        gpu_define_scalar(em, arg, first);
        return;
    }
    LLVMValueRef past = LLVMBuildNSWAdd(em->builder, first, gpu_i64(em, step), "");
    gpu_define_range(em, arg, first, least(em, past, end));
}

/* Where the step begins that the counter stands for: a descending loop takes the last one first. */
static LLVMValueRef loop_start(GpuEmitter *em, const Op *op, LLVMValueRef counter, LLVMValueRef hi)
{
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    if (!op_int(op, ATTR_DESCENDING, 0)) {
        return counter;
    }
    LLVMBuilderRef b = em->builder;
    LLVMValueRef size = gpu_i64(em, step ? step : 1), lo = gpu_scalar(em, for_lo(op));
    LLVMValueRef past = LLVMBuildSub(b, LLVMBuildSub(b, hi, lo, ""), gpu_i64(em, 1), "");
    past = LLVMBuildMul(b, LLVMBuildUDiv(b, past, size, ""), size, "");
    return LLVMBuildSub(b, LLVMBuildAdd(b, lo, past, ""), LLVMBuildSub(b, counter, lo, ""), "");
}

/* The values of an op or of a region's arguments are these, in their own registers. */
static void define_as(GpuEmitter *em, const Op *op, int n, Value *const *values, Value *const *from)
{
    for (int i = 0; i < n; i++) {
        *gpu_define(em, values[i]) = as_type(em, op, from[i], values[i]->type);
    }
}

/* No loop at all. */
static void emit_once(GpuEmitter *em, Op *op, int64_t step, LLVMValueRef hi)
{
    Block *region = op->regions[0];
    int n = for_carried(op);
    define_as(em, op, n, region->args + 1, op->operands + 2);
    define_step(em, region->args[0], gpu_scalar(em, for_lo(op)), step, hi);
    gpu_emit_block(em, region);
    define_as(em, op, n, op->results, region->last->operands);
}

void gpu_emit_for(GpuEmitter *em, Op *op)
{
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    LLVMValueRef whole = gpu_size_value(em, op_attr(op, ATTR_DIMS)->dims[0]);
    LLVMValueRef hi = least(em, gpu_scalar(em, for_hi(op)), whole);
    if (op_int(op, ATTR_SINGLE_TRIP, 0) > 1) { /* past the end it has no elements */
        LLVMValueRef lo = gpu_scalar(em, for_lo(op));
        LLVMValueRef past = LLVMBuildICmp(em->builder, LLVMIntSGT, lo, hi, "");
        hi = LLVMBuildSelect(em->builder, past, lo, hi, "");
    }
    if (op_int(op, ATTR_SINGLE_TRIP, 0)) {
        emit_once(em, op, step, hi);
        return;
    }
    CountedLoop loop = open_loop(em, op, gpu_scalar(em, for_lo(op)), hi, 2, 1);
    LLVMValueRef start = loop_start(em, op, loop.i, hi);
    define_step(em, op->regions[0]->args[0], start, step, hi);
    gpu_emit_block(em, op->regions[0]);
    close_loop(em, &loop, gpu_i64(em, step ? step : 1));
}

/* ---- if ---- */

void gpu_emit_if(GpuEmitter *em, Op *op)
{
    LLVMBasicBlockRef starts[2] = {gpu_new_block(em, "then"), gpu_new_block(em, "else")};
    LLVMBasicBlockRef after = gpu_new_block(em, "after"), ends[2];
    GpuValue *sides[2];
    LLVMBuildCondBr(em->builder, gpu_scalar(em, op->operands[0]), starts[0], starts[1]);
    for (int side = 0; side < 2; side++) {
        gpu_go(em, starts[side]);
        gpu_emit_block(em, op->regions[side]);
        const Op *yield = op->regions[side]->last;
        sides[side] = ARENA_ARRAY(em->arena, GpuValue, op->n_results + 1);
        for (int i = 0; i < op->n_results; i++) {
            sides[side][i] = as_type(em, yield, yield->operands[i], op->results[i]->type);
        }
        ends[side] = LLVMGetInsertBlock(em->builder);
        LLVMBuildBr(em->builder, after);
    }
    gpu_go(em, after);
    for (int i = 0; i < op->n_results; i++) {
        GpuValue *out = gpu_define(em, op->results[i]);
        for (int r = 0; r < out->n; r++) {
            LLVMValueRef from[] = {sides[0][i].regs[r], sides[1][i].regs[r]};
            if (from[0] && is_computed(op->results[i], r)) {
                out->regs[r] = LLVMBuildPhi(em->builder, LLVMTypeOf(from[0]), "");
                LLVMAddIncoming(out->regs[r], from, ends, 2);
            }
        }
        define_copies(op->results[i], out);
    }
}

/* ---- tiles of a grid ---- */

typedef struct Grid {
    GpuEmitter *em;
    int n;
    LLVMValueRef extents[MAX_RANK]; /* i64 */
    LLVMValueRef counts[MAX_RANK];  /* i32: tiles along each axis */
    int64_t steps[MAX_RANK];
    int64_t from[MAX_RANK]; /* the first element */
    bool single[MAX_RANK];  /* of the axis there is one tile, or no tile at all */
    int64_t grouped;
    int64_t cluster;  /* tiles of the last axis, some of which may lie past its end; 1: none */
    int64_t together; /* tiles side by side along `beside` that go to blocks of a cluster */
    int beside;       /* -1: none do */
    bool descending;
    bool paired; /* along the last axis, long tiles and short ones in turn */
} Grid;

/* Counts are of what goes to one cluster, along the axis that its tiles lie on. */
static void find_together(Grid *grid, const Op *op)
{
    const Attr *beside = op_attr(op, ATTR_MULTICAST);
    for (int axis = 0; beside && axis < grid->n; axis++) {
        if (beside->ints[axis] > 1) {
            LLVMBuilderRef b = grid->em->builder;
            grid->together = beside->ints[axis];
            grid->beside = axis;
            LLVMValueRef more = gpu_i32(grid->em, grid->together - 1);
            LLVMValueRef count = LLVMBuildAdd(b, grid->counts[axis], more, "");
            grid->counts[axis] = LLVMBuildUDiv(b, count, gpu_i32(grid->em, grid->together), "");
        }
    }
    if (grid->beside >= 0 && grid->beside == grid->n - 2 && grid->grouped > 1) {
        grid->grouped = (grid->grouped + grid->together - 1) / grid->together;
    }
}

static Grid make_grid(GpuEmitter *em, const Op *op)
{
    const Attr *dims = op_attr(op, ATTR_DIMS), *steps = op_attr(op, ATTR_STEPS);
    Grid grid = {.em = em,
                 .n = dims ? dims->n : 0,
                 .grouped = op_int(op, ATTR_RASTER_GROUP, 0),
                 .cluster = op_int(op, ATTR_CLUSTER, 1),
                 .together = 1,
                 .beside = -1,
                 .descending = op_int(op, ATTR_DESCENDING, 0) != 0};
    if (grid.n > MAX_RANK) {
        gpu_bug(em, op, "has too many axes");
    }
    for (int axis = 0; axis < grid.n; axis++) {
        int64_t step = steps->ints[axis];
        LLVMValueRef count = gpu_size_value(em, dims->dims[axis]);
        if (axis_end(op, axis) < INT64_MAX) {
            LLVMValueRef end = gpu_i64(em, axis_end(op, axis));
            LLVMValueRef less = LLVMBuildICmp(em->builder, LLVMIntSLT, count, end, "");
            count = LLVMBuildSelect(em->builder, less, count, end, "");
        }
        grid.extents[axis] = count;
        grid.steps[axis] = step;
        grid.from[axis] = axis_begin(op, axis);
        if (grid.from[axis]) { /* of an axis that ends before it there are no tiles */
            LLVMValueRef from = gpu_i64(em, grid.from[axis]);
            LLVMValueRef some = LLVMBuildICmp(em->builder, LLVMIntSGT, count, from, "");
            count = LLVMBuildSub(em->builder, count, from, "");
            count = LLVMBuildSelect(em->builder, some, count, gpu_i64(em, 0), "");
        }
        if (step > 1) {
            count = LLVMBuildNSWAdd(em->builder, count, gpu_i64(em, step - 1), "");
            count = LLVMBuildUDiv(em->builder, count, gpu_i64(em, step), "");
        }
        grid.counts[axis] = LLVMBuildTrunc(em->builder, count, em->i32, "");
        grid.single[axis] = poly_most(dims->dims[axis]) <= step;
    }
    if (grid.cluster > 1) {
        grid.counts[grid.n - 1] = gpu_i32(em, grid.cluster);
        grid.single[grid.n - 1] = false;
    }
    find_together(&grid, op);
    return grid;
}

static LLVMValueRef divide(Grid *grid, LLVMValueRef a, LLVMValueRef by, LLVMValueRef *rest)
{
    LLVMBuilderRef b = grid->em->builder;
    LLVMValueRef quotient = LLVMBuildUDiv(b, a, by, "");
    *rest = LLVMBuildSub(b, a, LLVMBuildMul(b, quotient, by, ""), "");
    return quotient;
}

/* The last two axes in groups: `grouped` tiles of axis -2 for each tile of axis -1. */
static void split_grouped(Grid *grid, LLVMValueRef id, LLVMValueRef *tile)
{
    GpuEmitter *em = grid->em;
    LLVMBuilderRef b = em->builder;
    LLVMValueRef group = gpu_i32(em, grid->grouped), within;
    LLVMValueRef rows = grid->counts[grid->n - 2], cols = grid->counts[grid->n - 1];
    LLVMValueRef index = divide(grid, id, LLVMBuildMul(b, group, cols, ""), &within);
    LLVMValueRef first = LLVMBuildMul(b, index, group, "");
    LLVMValueRef height = least(em, LLVMBuildSub(b, rows, first, ""), group);
    LLVMValueRef row;
    tile[grid->n - 1] = divide(grid, within, height, &row);
    tile[grid->n - 2] = LLVMBuildAdd(b, first, row, "");
}

/* The first `left` axes; the last of them the fastest. */
static void split_axes(Grid *grid, LLVMValueRef id, int left, LLVMValueRef *tile)
{
    for (int axis = left - 1; axis > 0; axis--) {
        if (grid->single[axis]) {
            tile[axis] = gpu_i32(grid->em, 0);
        } else {
            id = divide(grid, id, grid->counts[axis], &tile[axis]);
        }
    }
    if (left > 0) {
        tile[0] = id;
    }
}

/* Which tile (i32 on each axis) has this number; of a cluster's, the first one. The division by how
 * many tiles an axis has stands in front of a block's first load: none where a tile holds it. */
static void split(Grid *grid, LLVMValueRef id, LLVMValueRef *tile)
{
    bool grouped = grid->grouped > 1 && grid->n >= 2;
    int left = grid->n;
    if (grouped) {
        LLVMValueRef plane = LLVMBuildMul(grid->em->builder, grid->counts[grid->n - 2],
                                          grid->counts[grid->n - 1], "");
        LLVMValueRef within = id;
        if (grid->n > 2) {
            id = divide(grid, id, plane, &within);
        }
        split_grouped(grid, within, tile);
        left -= 2;
    }
    split_axes(grid, id, left, tile);
}

static LLVMValueRef count_tiles(Grid *grid)
{
    LLVMValueRef total = gpu_i32(grid->em, 1);
    for (int axis = 0; axis < grid->n; axis++) {
        total = LLVMBuildMul(grid->em->builder, total, grid->counts[axis], "");
    }
    return LLVMBuildMul(grid->em->builder, total, gpu_i32(grid->em, grid->together), "");
}

/* The last range begins at a multiple of `aligned` elements in memory, before its row. */
static void align_row(Grid *grid, int64_t aligned, Value *const *args)
{
    GpuEmitter *em = grid->em;
    LLVMBuilderRef b = em->builder;
    LLVMValueRef row = gpu_i64(em, 0);
    for (int axis = 0; axis < grid->n - 1; axis++) {
        row = LLVMBuildMul(b, row, grid->extents[axis], "");
        row = LLVMBuildAdd(b, row, gpu_value(em, args[axis])->regs[0], "");
    }
    row = LLVMBuildMul(b, row, grid->extents[grid->n - 1], "");
    LLVMValueRef shift = LLVMBuildAnd(b, row, gpu_i64(em, aligned - 1), "");
    GpuValue *range = gpu_value(em, args[grid->n - 1]);
    range->regs[0] = LLVMBuildSub(b, range->regs[0], shift, "");
}

/* Tiles in twos that cost as much as any other two: the last one of a row and the first one of the
 * row beside it, the last but one and the second one, … So each row may have an odd number of them;
 * of a row that is left alone, its own last and first one. */
static void split_paired(Grid *grid, LLVMValueRef id, LLVMValueRef *tile)
{
    LLVMBuilderRef b = grid->em->builder;
    int last = grid->n - 1;
    LLVMValueRef one = gpu_i32(grid->em, 1), rows = one, within;
    for (int axis = 0; axis < last; axis++) {
        rows = LLVMBuildMul(b, rows, grid->counts[axis], "");
    }
    LLVMValueRef both = LLVMBuildShl(b, grid->counts[last], one, "");
    LLVMValueRef row = LLVMBuildShl(b, divide(grid, id, both, &within), one, "");
    LLVMValueRef beside = LLVMBuildAdd(b, row, one, "");
    LLVMValueRef odd = LLVMBuildTrunc(b, within, grid->em->i1, "");
    LLVMValueRef there = LLVMBuildICmp(b, LLVMIntULT, beside, rows, "");
    row = LLVMBuildSelect(b, LLVMBuildAnd(b, odd, there, ""), beside, row, "");
    LLVMValueRef half = LLVMBuildLShr(b, within, one, "");
    LLVMValueRef back = LLVMBuildSub(b, LLVMBuildSub(b, grid->counts[last], one, ""), half, "");
    tile[last] = LLVMBuildSelect(b, odd, half, back, "");
    split_axes(grid, row, last, tile);
}

static void define_tile(Grid *grid, LLVMValueRef id, Value *const *args)
{
    GpuEmitter *em = grid->em;
    LLVMValueRef tile[MAX_RANK];
    if (grid->descending && !grid->paired) {
        LLVMValueRef last = LLVMBuildSub(em->builder, count_tiles(grid), gpu_i32(em, 1), "");
        id = LLVMBuildSub(em->builder, last, id, "");
    }
    if (grid->beside >= 0) {
        LLVMValueRef rank;
        id = divide(grid, id, gpu_i32(em, grid->together), &rank);
        split(grid, id, tile);
        LLVMValueRef *at = &tile[grid->beside];
        *at = LLVMBuildMul(em->builder, *at, gpu_i32(em, grid->together), "");
        *at = LLVMBuildAdd(em->builder, *at, rank, "");
    } else {
        (grid->paired ? split_paired : split)(grid, id, tile);
    }
    for (int axis = 0; axis < grid->n; axis++) {
        int64_t step = grid->steps[axis];
        LLVMValueRef first = LLVMBuildZExt(em->builder, tile[axis], em->i64, "");
        first = LLVMBuildNSWMul(em->builder, first, gpu_i64(em, step ? step : 1), "");
        if (grid->from[axis]) {
            first = LLVMBuildNSWAdd(em->builder, first, gpu_i64(em, grid->from[axis]), "");
        }
        LLVMValueRef extent = grid->extents[axis];
        bool outside = axis == grid->beside || (grid->cluster > 1 && axis == grid->n - 1);
        if (outside) { /* past the end a tile has no elements */
            LLVMValueRef past = LLVMBuildICmp(em->builder, LLVMIntSGT, first, extent, "");
            extent = LLVMBuildSelect(em->builder, past, first, extent, "");
        }
        define_step(em, args[axis], first, step, extent);
    }
}

/* Tiles of which each costs more than the one before: a block takes two after the other of those
 * that `split_paired` orders, and goes on behind all blocks' pairs, so that all have about the same
 * to do. Where there is but one tile a block, that one. */
static LLVMValueRef pair_step(GpuEmitter *em, LLVMValueRef i, LLVMValueRef blocks,
                              LLVMValueRef pairs)
{
    LLVMBuilderRef b = em->builder;
    LLVMValueRef past =
        LLVMBuildSub(b, LLVMBuildShl(b, blocks, gpu_i32(em, 1), ""), gpu_i32(em, 1), "");
    LLVMValueRef odd = LLVMBuildTrunc(b, i, em->i1, "");
    LLVMValueRef next = LLVMBuildSelect(b, odd, past, gpu_i32(em, 1), "");
    return LLVMBuildSelect(b, pairs, next, blocks, "");
}

/* Each team of the role takes its share of the block's tiles, as if it were a block of its own. */
void gpu_emit_tiles(GpuEmitter *em, Op *op)
{
    LLVMBuilderRef b = em->builder;
    Grid grid = make_grid(em, op);
    bool numbered = op_int(op, ATTR_TILE_INDEX, 0) != 0;
    LLVMValueRef first = em->target->block_id(em), blocks = em->target->block_count(em);
    LLVMValueRef step = blocks;
    if (em->role->team) {
        if (!numbered) {
            gpu_bug(em, op, "teams take numbered tiles");
        }
        first = LLVMBuildAdd(b, first, LLVMBuildMul(b, em->role->team, blocks, ""), "");
        step = LLVMBuildMul(b, blocks, gpu_i32(em, em->role->teams), "");
    }
    LLVMValueRef total = count_tiles(&grid), pairs = NULL;
    grid.paired = grid.descending && !numbered && grid.grouped <= 1 && grid.beside < 0;
    if (grid.paired) {
        pairs = LLVMBuildICmp(b, LLVMIntSGT, total, blocks, "pairs");
        first = LLVMBuildShl(b, first, LLVMBuildZExt(b, pairs, em->i32, ""), "");
    }
    gpu_cluster_walk(em, op);
    CountedLoop loop = open_loop(em, op, first, total, 0, grid.n);
    define_tile(&grid, loop.i, op->regions[0]->args);
    if (numbered) {
        LLVMValueRef number = LLVMBuildUDiv(b, loop.i, blocks, "number");
        gpu_define_scalar(em, op->regions[0]->args[grid.n], number);
    }
    gpu_emit_block(em, op->regions[0]);
    step = grid.paired ? pair_step(em, loop.i, blocks, pairs) : step;
    close_loop(em, &loop, step);
}

void gpu_emit_launch(GpuEmitter *em, Op *op)
{
    if (!op_int(op, ATTR_PERSISTENT, 0)) {
        Grid grid = make_grid(em, op);
        define_tile(&grid, em->target->block_id(em), op->regions[0]->args);
        if (op_int(op, ATTR_ALIGNED, 1) > 1) {
            align_row(&grid, op_int(op, ATTR_ALIGNED, 1), op->regions[0]->args);
        }
    }
    gpu_emit_block(em, op->regions[0]);
}
