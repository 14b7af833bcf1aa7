/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the floating-point operations of a kernel's dots as written, two for each multiply-add,
 * over whole extents. A loop that ends where a range of the grid ends (a causal mask) counts only
 * the iterations that it executes; slices of an axis whose bounds depend on data are assumed to be
 * equally long. */
#include "runtime/compile/compilation.h"

#include "ir/build.h"
#include "passes/analysis/range_facts.h"

#include <math.h>

static const double UNKNOWN = 0x1p62; /* rounds of a loop whose ends no size says */
static const double GUESSED = 16;

typedef struct Count {
    Func *func;
    int64_t *values; /* of sizes and, once met, of ranges: their whole */
    double flops;
    bool known;
    bool guess; /* rounds of which only data know: GUESSED, and the count stays known */
} Count;

static double extent(Count *count, Dim dim)
{
    int64_t value;
    if (!poly_eval(dim, count->values, &value)) {
        count->known = false;
        return 0;
    }
    return (double)value;
}

static bool mentions(Type type, const DimVar *var)
{
    for (int i = 0; i < type->rank; i++) {
        if (poly_mentions(type->dims[i], var)) {
            return true;
        }
    }
    return false;
}

/* The END of a range that this value is, or is bounded by. */
static const Op *find_end(const Value *value, int depth)
{
    const Op *op = value->def;
    if (!op || depth == 0) {
        return NULL;
    }
    if (op->kind == OP_END) {
        return op;
    }
    for (int i = 0; op->kind == OP_MIN && i < op->n_operands; i++) {
        const Op *end = find_end(op->operands[i], depth - 1);
        if (end) {
            return end;
        }
    }
    return NULL;
}

/* The share of [0, S) × [0, L) on and below the diagonal. */
static double triangle(double s, double l)
{
    double part = s <= l ? s * (s + 1) / 2 : l * (l + 1) / 2 + (s - l) * l;
    return s > 0 && l > 0 ? part / (s * l) : 0;
}

/* How many parts of the loop's axis there are, if data say where each begins; else 1. */
static double count_parts(Count *count, const Op *loop)
{
    const Value *by = loop->kind == OP_FOR ? range_part_chooser(loop) : NULL;
    if (!by) {
        return 1;
    }
    const Op *binder = by->block->parent;
    int64_t step = op_attr(binder, ATTR_STEPS)->ints[by->index];
    double parts = extent(count, op_attr(binder, ATTR_DIMS)->dims[by->index]);
    if (parts <= 1 || parts >= UNKNOWN) {
        return 1;
    }
    return ceil(parts / (double)(step > 0 ? step : 1));
}

static double loop_share(Count *count, const Op *loop)
{
    const Op *end = find_end(for_hi(loop), 4);
    const Attr *dims = op_attr(loop, ATTR_DIMS);
    if (!end || !dims || end->operands[0]->type->kind != TYPE_RANGE) {
        return 1;
    }
    const DimVar *range = poly_as_range(end->operands[0]->type->dims[0]);
    return range ? triangle(extent(count, range->axis_extent), extent(count, dims->dims[0])) : 1;
}

/* Do the types of an op's elements have the range as an axis? */
static bool shows(const Op *op, const DimVar *var)
{
    return (op->n_results > 0 && mentions(op->results[0]->type, var)) ||
           (op->n_operands > 0 && op->operands[0] && mentions(op->operands[0]->type, var));
}

/* How often a loop runs what is in it, beyond the axes that the op's own types show. */
static double times_of(Count *count, const Op *loop, const Op *op)
{
    const Attr *dims = op_attr(loop, ATTR_DIMS), *steps = op_attr(loop, ATTR_STEPS);
    double times = loop->kind == OP_FOR ? loop_share(count, loop) : 1;
    double parts = count_parts(count, loop);
    for (int i = 0; dims && i < dims->n; i++) {
        double whole = extent(count, dims->dims[i]);
        int64_t step = steps && i < steps->n ? steps->ints[i] : 0;
        const Value *arg = i < loop->regions[0]->n_args ? loop->regions[0]->args[i] : NULL;
        const DimVar *var =
            arg && arg->type->kind == TYPE_RANGE ? poly_as_range(arg->type->dims[0]) : NULL;
        if (!var && whole >= UNKNOWN) {
            count->known = count->known && count->guess; /* data say how often */
            times *= GUESSED;
        } else if (!var) {
            times *= ceil(whole / parts);
        } else if (!shows(op, var)) {
            times *= step > 0 ? ceil(ceil(whole / parts) / (double)step) : 1;
        } else {
            times /= parts;
        }
    }
    return times;
}

static void count_dot(Op *op, void *user)
{
    Count *count = user;
    if (op->kind != OP_DOT || !count->known) {
        return;
    }
    Type result = op->results[0]->type, a = op->operands[0]->type;
    double flops = 2 * extent(count, a->dims[a->rank - 1]);
    for (int i = 0; i < result->rank; i++) {
        flops *= extent(count, result->dims[i]);
    }
    for (const Op *at = op->parent->parent; at; at = at->parent->parent) {
        if (at->kind == OP_FOR || at->kind == OP_PARALLEL) {
            flops *= times_of(count, at, op);
        }
    }
    count->flops += flops;
}

static bool give_ranges(Count *count)
{
    for (size_t i = 0; i < count->func->dimvars.n; i++) {
        const DimVar *var = count->func->dimvars.items[i];
        if (var->kind == DIM_SIZE && count->values[i] < 0) {
            return false;
        }
        if (var->kind == DIM_RANGE &&
            (!var->axis_extent || !poly_eval(var->axis_extent, count->values, &count->values[i]))) {
            return false;
        }
    }
    return true;
}

double func_flops(Func *func, const TesseraOptions *options)
{
    Count count = {.func = func, .known = true};
    count.values = sizes_by_id(func, options->sizes, options->n_sizes);
    if (!give_ranges(&count)) {
        return 0;
    }
    func_walk(func, count_dot, &count);
    return count.known ? count.flops : 0;
}

/* ---- all work ---- */

static double elements(Count *count, Type type)
{
    double n = 1;
    for (int i = 0; type->kind == TYPE_ARRAY && i < type->rank; i++) {
        n *= extent(count, type->dims[i]);
    }
    return n;
}

/* Elements that an op makes, or reads where those are more; of a product its multiplications. */
static void count_work(Op *op, void *user)
{
    Count *count = user;
    double work = op->n_results > 0 ? elements(count, op->results[0]->type) : 0;
    for (int i = 0; i < op->n_operands; i++) {
        double read = op->operands[i] ? elements(count, op->operands[i]->type) : 0;
        work = read > work ? read : work;
    }
    if (op->kind == OP_DOT) {
        Type a = op->operands[0]->type;
        work = elements(count, op->results[0]->type) * extent(count, a->dims[a->rank - 1]);
    }
    for (const Op *at = op->parent->parent; at; at = at->parent->parent) {
        if (at->kind == OP_FOR || at->kind == OP_PARALLEL) {
            work *= times_of(count, at, op);
        } else if (at->kind == OP_WHILE) {
            work *= GUESSED;
        }
    }
    count->flops += work;
}

double func_work(Func *func, const TesseraSize *sizes, size_t n)
{
    Count count = {.func = func, .known = true, .guess = true};
    count.values = sizes_by_id(func, sizes, n);
    if (!give_ranges(&count)) {
        return 0;
    }
    func_walk(func, count_work, &count);
    return count.known ? count.flops : 0;
}
