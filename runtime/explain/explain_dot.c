/* SPDX-License-Identifier: Apache-2.0 */
/* Describes the dot of a launch: the work of one step, the number of tiles per multiprocessor, and
 * what keeps it below the peak rate of the matrix units, by the model that chose its tiles
 * (passes/analysis/wave_model.c). */
#include "runtime/explain/explain_occupancy.h"

#include "ir/build.h"
#include "passes/analysis/dot_model_inputs.h"
#include "support/int_math.h"

enum {
    MAX_LOSS = 20, /* percent */
};

/* The instruction cache, of which hot code should take the budget at most. */
static const double CACHE_OF_BUDGET = 4.0 / 3;

static void find_dot(Op *op, void *user)
{
    ProductReport *product = user;
    bool dot = op->kind == OP_DOT_ASYNC || op->kind == OP_DOT;
    if (dot && product->op && op_enclosing(product->op, OP_FOR) && !op_enclosing(op, OP_FOR)) {
        return; /* of the last step, behind the loop */
    }
    if (dot) {
        const Op *last = product->op;
        bool same = !last || (op->parent == last->parent && op->kind == last->kind &&
                              op->results[0]->type == last->results[0]->type);
        product->alike = same && (!last || product->alike);
        product->op = op;
        product->n++;
    }
}

static bool axis_extent(const ReportInput *input, Dim dim, int64_t *out)
{
    const DimVar *range = poly_as_range(dim);
    return poly_eval(range && range->axis_extent ? range->axis_extent : dim, input->sizes, out) &&
           *out > 0;
}

/* The same, of an axis of a grid that may be walked in part. */
static bool grid_extent(const ReportInput *input, const Op *launch, Dim dim, int64_t *out)
{
    const DimVar *range = poly_as_range(dim);
    const Attr *dims = op_attr(launch, ATTR_DIMS);
    bool whole = axis_extent(input, dim, out);
    for (int i = 0; whole && dims && i < dims->n; i++) {
        if (range && range->axis_extent == dims->dims[i] && axis_end(launch, i) < *out) {
            *out = axis_end(launch, i);
        }
        *out -= range && range->axis_extent == dims->dims[i] ? axis_begin(launch, i) : 0;
    }
    return whole && *out > 0;
}

static bool reads_before(const Op *op, int side, const Value *memory)
{
    for (const Op *other = op->parent->first; other; other = other->next) {
        for (int i = 0; i < 2 && (other->kind == op->kind); i++) {
            if (other == op && i == side) {
                return false;
            }
            if (op_access_nth(other, i).memory == memory) {
                return true;
            }
        }
    }
    return false;
}

/* The axis itself, or a strip of it that a loop takes behind the product (strip_mine). */
static bool is_same_axis(Dim dim, Dim own)
{
    const DimVar *part = poly_as_range(dim), *range = poly_as_range(own);
    const Op *loop = part && range && part->binder ? value_block(part->binder)->parent : NULL;
    const Op *from =
        loop && loop->kind == OP_FOR ? value_def_of_kind(for_lo(loop), OP_START) : NULL;
    return dim == own || (from && from->operands[0] == range->binder);
}

static void count_op(Op *op, void *user)
{
    ProductReport *product = user;
    Type type = op->n_results ? op->results[0]->type : NULL, own = product->op->results[0]->type;
    bool same = type && type->kind == TYPE_ARRAY && type->rank == own->rank;
    for (int i = 0; same && i < own->rank; i++) {
        same = is_same_axis(type->dims[i], own->dims[i]);
    }
    product->ops += same && op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_CAST;
}

/* Loops over the taps of a convolution, one at a time; 0: others. */
static int64_t count_rounds(const Report *report, const Op *loop)
{
    int64_t iterations = 1, extent;
    for (const Op *up = op_enclosing(loop, OP_FOR); up; up = op_enclosing(up, OP_FOR)) {
        if (op_attr(up, ATTR_STEPS)->ints[0] != 0 ||
            !axis_extent(report->input, op_attr(up, ATTR_DIMS)->dims[0], &extent) ||
            __builtin_mul_overflow(iterations, extent, &iterations)) {
            return 0;
        }
    }
    return iterations;
}

/* Does a block take a part of the loop, or of one around it? */
static bool is_shared_out(const Op *loop)
{
    bool found = false;
    for (; loop && !found; loop = op_enclosing(loop, OP_FOR)) {
        const Op *end = for_hi(loop)->def;
        found = end && end->kind == OP_MIN;
    }
    return found;
}

/* Do its bounds depend on the tile, as those of a triangular product do? */
static bool has_own_bounds(const Op *loop)
{
    const Op *lo = for_lo(loop)->def, *hi = for_hi(loop)->def;
    return (lo && lo->kind != OP_CONST) || (hi && hi->kind != OP_SIZE && hi->kind != OP_CONST);
}

/* Elements of the loop's axis that a tile multiplies on average: what the trace counted, where the
 * bounds depend on the tile. */
static int64_t mean_depth(const LaunchReport *launch, const ProductReport *product,
                          const DotProblem *size, const DotTiling *tiles)
{
    double each = 2.0 * (double)tiles->m * (double)tiles->n * product->n * (double)size->taps;
    double depth = launch->roofline.matrix_flops / (each * (double)tiles->count);
    return depth >= 1 && depth < (double)size->k ? (int64_t)depth : size->k;
}

typedef struct OperandCopy {
    const Value *to;
    int lines; /* 0: no copy of the engine */
} OperandCopy;

static void find_copy(Op *op, void *user)
{
    OperandCopy *copy = user;
    if (op->kind == OP_BULK_LOAD && op_access_nth(op, 1).memory == copy->to) {
        Access from = op_access(op, 0);
        copy->lines = product_lines(&from);
    }
}

/* Of the cache, that 128 bytes of an operand's row take. */
static int lines_of(const LaunchReport *launch, const Op *op, int side)
{
    OperandCopy copy = {.to = op_access_nth(op, side).memory};
    block_walk(launch->op->regions[0], find_copy, &copy);
    return copy.lines;
}

/* The sizes of the product, and its tiles; false: it is not one that the model knows. */
static bool measure(const Report *report, const LaunchReport *launch, ProductReport *product,
                    DotProblem *size, DotTiling *tiles)
{
    int64_t count = product->tiles;
    const Op *op = product->op, *loop = op_enclosing(op, OP_FOR);
    Type type = op->results[0]->type;
    int64_t whole[3];
    if (!report->sized || op->kind != OP_DOT_ASYNC || !product->alike || !loop || type->rank != 2 ||
        op_attr(loop, ATTR_STEPS)->ints[0] < 1 || count_rounds(report, loop) == 0 ||
        !grid_extent(report->input, launch->op, type->dims[0], &whole[0]) ||
        !grid_extent(report->input, launch->op, type->dims[1], &whole[1]) ||
        !axis_extent(report->input, op_attr(loop, ATTR_DIMS)->dims[0], &whole[2]) || count < 1) {
        return false;
    }
    int64_t shares = 1;
    const Attr *dims = op_attr(launch->op, ATTR_DIMS);
    bool cluster = op_int(launch->op, ATTR_CLUSTER, 1) > 1;
    if (is_shared_out(loop) && dims && dims->n > 2) { /* the first axis is theirs, or last */
        poly_is_const(dims->dims[cluster ? dims->n - 1 : 0], &shares);
    }
    tiles->clustered = cluster && shares > 1;
    tiles->m = poly_capacity(type->dims[0]);
    tiles->n = poly_capacity(type->dims[1]);
    tiles->depth = op_attr(loop, ATTR_STEPS)->ints[0];
    tiles->split_k = shares;
    tiles->multicast_m = tiles->multicast_n = 1;
    /* Blocks of a multicast group load the tiles along one axis once. */
    const Attr *multicast = op_attr(launch->op, ATTR_MULTICAST),
               *block_dims = op_attr(launch->op, ATTR_DIMS);
    for (int i = 0; multicast && i < multicast->n; i++) {
        const DimVar *rows = poly_as_range(op->results[0]->type->dims[0]);
        bool along_m = rows && rows->axis_extent == block_dims->dims[i];
        *(along_m ? &tiles->multicast_m : &tiles->multicast_n) *= multicast->ints[i];
    }
    tiles->count = count;
    block_walk(launch->op->regions[0], count_op, product);
    Access access = op_access_nth(op, 1);
    *size = (DotProblem){.m = whole[0],
                         .n = whole[1],
                         .k = whole[2],
                         .taps = count_rounds(report, loop),
                         .a_lines = lines_of(launch, op, 0),
                         .b_lines = lines_of(launch, op, 1),
                         .moved = launch->roofline.read + launch->roofline.written,
                         .dots = product->n,
                         .bytes = dtype_bytes(access.memory->type->dtype),
                         .epilogue_ops = product->ops};
    if (has_own_bounds(loop) && !is_shared_out(loop)) {
        size->k = mean_depth(launch, product, size, tiles);
    }
    if (size->a_lines == 0 && size->b_lines == 0) {
        return false; /* threads bring the operands: predict_pipes.c */
    }
    int64_t each =
        mul_sat(mul_sat(ceil_div(whole[0], tiles->m), ceil_div(whole[1], tiles->n)), shares);
    size->batch = count / each > 0 ? count / each : 1;
    return true;
}

static const char *limiter(const DotCost *costs, double ideal)
{
    double walked = costs->tiles_per_sm, steps = walked * (double)costs->steps;
    double multiply = steps * costs->matrix, all = dot_cost_cycles(costs);
    double losses[] = {multiply - ideal, steps * (costs->step - costs->matrix),
                       walked * costs->epilogue, costs->combine};
    static const char *const names[] = {
        "multiprocessors without a tile in the last wave, and ragged edges",
        "operands that come from L2", "the work on each tile's result",
        "the launch that adds the shares"};
    int worst = 0;
    for (int i = 1; i < 4; i++) {
        worst = losses[i] > losses[worst] ? i : worst;
    }
    if (costs->memory > multiply && costs->memory * 2 > all) {
        return "memory, which brings the operands";
    }
    if (losses[worst] * 100 < all * MAX_LOSS) {
        return "the matrix units";
    }
    return names[worst];
}

/* What waves alone leave of the roofline, where there is no model. */
static void bound_share(const Report *report, LaunchReport *launch)
{
    ProductReport *product = &launch->product;
    double places = (double)report->target->machine->num_sms *
                    (launch->occupancy.resident > 1 ? launch->occupancy.resident : 1);
    if (product->tiles < 1 || !report->sized) {
        return;
    }
    product->waves = (double)product->tiles / places;
    double walked = (double)(int64_t)product->waves;
    walked += walked < product->waves;
    product->tail = 1 - product->waves / walked;
    product->share = 1 - product->tail;
    if (launch->roofline.memory_bound) {
        product->limiter = "memory, which brings the operands";
    } else if (product->tail * 100 > MAX_LOSS) {
        product->limiter = "multiprocessors without a tile in the last wave";
    } else {
        product->limiter = "the matrix units";
    }
}

/* Cycles of a tile in which its code comes, where it is so long that the instruction cache keeps
 * none of it for the next warp or tile. */
static double fetch_cycles(const Report *report, const LaunchReport *launch)
{
    double cache = (double)report->target->code_bytes * CACHE_OF_BUDGET;
    double warps = (double)warps_that_compute(launch);
    return cache > 0 && (double)launch->code_bytes > cache
               ? (double)launch->code_bytes * warps / report->target->machine->fetch_bytes
               : 0;
}

void product_make(const Report *report, LaunchReport *launch, int64_t count)
{
    ProductReport *product = &launch->product;
    const Machine *rates = report->target->machine;
    DotProblem size;
    DotTiling tiles = {.m = 0};
    block_walk(launch->op->regions[0], find_dot, product);
    if (!product->op) {
        return;
    }
    Type type = product->op->results[0]->type;
    product->unit = op_word(product->op, ATTR_INSTRUCTION);
    if (type->rank == 2) {
        product->m = poly_capacity(type->dims[0]);
        product->n_columns = poly_capacity(type->dims[1]);
    }
    product->instruction = mma_of_dot(report->target, product->op);
    /* The ring buffers that the dots of the loop read give the bytes of a pipeline stage and the
     * number of stages. */
    for (const Op *op = product->op->parent->first; op; op = op->next) {
        for (int side = 0; side < 2 && op->kind == product->op->kind; side++) {
            Access access = op_access_nth(op, side);
            Type tile_type = access.n ? access.memory->type : NULL;
            int64_t bytes = tile_type ? dtype_bytes(tile_type->dtype) : 0;
            for (int i = 1; tile_type && i < tile_type->rank; i++) {
                bytes *= poly_capacity(tile_type->dims[i]);
            }
            if (tile_type && !reads_before(op, side, access.memory)) {
                product->slots = (int)poly_capacity(tile_type->dims[0]);
                product->slot_bytes += bytes;
            }
        }
    }
    product->tiles = count;
    if (!mma_warpgroup(report->target) || !measure(report, launch, product, &size, &tiles)) {
        bound_share(report, launch);
        return;
    }
    DotCost costs = dot_cost(report->target, rates, &size, &tiles);
    double flops = 2.0 * (double)size.m * (double)size.n * (double)size.k * (double)size.batch *
                   (double)size.taps * size.dots;
    double rate = machine_product(rates, size.bytes);
    double ideal = flops / (rate * report->target->machine->num_sms);
    double floor = ideal > costs.memory ? ideal : costs.memory;
    costs.epilogue += fetch_cycles(report, launch);
    product->modelled = true;
    product->cost = costs;
    product->waves = wave_model_waves(report->target, &tiles);
    product->tail = 1 - product->waves / costs.tiles_per_sm;
    product->cycles = dot_cost_cycles(&costs);
    product->share = floor / product->cycles;
    product->limiter = limiter(&costs, ideal);
}
