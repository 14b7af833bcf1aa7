/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates of code that combines elements along an axis: of reductions, scans and folds. A thread
 * combines what it has, lanes exchange by shuffles, and warps through shared memory. */
#include "passes/analysis/code_registers.h"

#include <math.h>

/* Instructions of a shuffle with its selection or move; of a barrier with addresses. */
static const double SHUFFLE = 2, EXCHANGE = 12;

/* How elements along the axis are combined: those of a thread, then by shuffles with other lanes,
 * then through shared memory with other warps. */
typedef struct Combining {
    double in, out;   /* registers of a thread, of one operand and of its result */
    double values;    /* that are combined together */
    double each;      /* instructions that combine two elements */
    int lanes, warps; /* bits of their numbers along the axis */
    double runs;      /* of adjacent elements of a thread */
    double vector;    /* elements of the result that one access moves */
} Combining;

static double region_instructions(const CodeSize *size, const Op *op)
{
    double sum = 0;
    for (const Op *in = op->n_regions ? op->regions[0]->first : NULL; in; in = in->next) {
        sum += an_code_counts(size, in).instructions;
    }
    return sum;
}

static Combining combining_of(const CodeSize *size, const Op *op)
{
    const Value *operand = op->operands[0];
    Combining c = {.in = code_registers(operand->type),
                   .out = code_registers(op->results[0]->type),
                   .values = op->n_results,
                   .each = op->n_regions ? region_instructions(size, op) : 1,
                   .runs = 1,
                   .vector = 1};
    if (type_is_tile(operand->type) && operand->type->layout) {
        int axis = (int)op_int(op, ATTR_AXIS, 0);
        Layout held = layout_compact(operand->type->layout);
        c.lanes = code_bits_along(&held, IN_LANE, axis);
        c.warps = code_bits_along(&held, IN_WARP, axis);
        c.runs = fmax(1, c.in / layout_contiguous(&held, axis));
        c.vector = code_shared_vector(size->func, op->results[0]->type);
    }
    return c;
}

/* Of a reduction or fold, in addition to the ops of its region, which are counted once. */
static double reduce_instructions(const Combining *c, bool crosses)
{
    double within = (c->in - c->out) * c->each;
    double shuffled = c->out * c->lanes * (SHUFFLE * c->values + c->each);
    double others = crosses ? exp2(c->warps) : 0;
    double shared = crosses ? EXCHANGE + c->out * (c->values + others * (c->values + c->each)) : 0;
    return within + shuffled + shared;
}

/* Each thread combines its runs, lanes combine what comes before each run, and warps what comes
 * before them; then each element is combined with all that comes before it. */
static double scan_instructions(const Combining *c, bool crosses)
{
    double within = 2 * c->in * c->each;
    double shuffled = c->runs * c->lanes * ((SHUFFLE + 1) * c->values + c->each);
    double others = crosses ? exp2(c->warps) : 0;
    double shared = crosses ? EXCHANGE + others * (2 * c->values + c->each) : 0;
    return within + shuffled + shared;
}

CodeCounts code_combine_counts(const CodeSize *size, const Op *op)
{
    Combining c = combining_of(size, op);
    bool scans = op->kind == OP_SCAN || op_int(op, ATTR_SCAN, 0);
    bool crosses = c.warps > 0;
    double n = scans ? scan_instructions(&c, crosses) : reduce_instructions(&c, crosses);
    n -= op->n_regions ? c.each : 0;
    double stores = 0;
    if (crosses) {
        stores = c.values * (scans ? 1 : c.out / c.vector);
    }
    return (CodeCounts){.instructions = fmax(0, n), .shared_stores = stores};
}
