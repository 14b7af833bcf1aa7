/* SPDX-License-Identifier: Apache-2.0 */
/* Integers that were cast from inexact floats are intervals of whole numbers, and the samples are
 * their two ends. Operations that preserve order (a sum, a cast to more bits, a less-than
 * comparison) map ends to ends. A remainder, bit operations or an equality do not: `% 2` may be
 * equal at both ends of an interval of three numbers and differ in between. The result of such an
 * op is then unconstrained: any value that the op can give is accepted. */
#include "ir/interp/interp_internal.h"

enum { MAX_VISITS = 32 };

/* Does the value come from such a cast, or from an atomic whose old element depends on an order, by
 * arithmetic? A bit pattern of a float does not. */
static bool is_counted(const Value *value, int *visits)
{
    const Op *def = value->def;
    if (!def || ++*visits > MAX_VISITS || def->kind == OP_BITCAST || def->n_operands == 0 ||
        dtype_is_float(value->type->dtype)) {
        return false;
    }
    if (def->kind == OP_SCATTER) {
        return true;
    }
    if (def->kind == OP_CAST && dtype_is_float(def->operands[0]->type->dtype)) {
        return true;
    }
    for (int i = def->kind == OP_SELECT; i < def->n_operands; i++) {
        if (def->operands[i] && is_counted(def->operands[i], visits)) {
            return true;
        }
    }
    return false;
}

static bool loses_order(const Op *op)
{
    const char *pred = op->kind == OP_CMP ? op_word(op, ATTR_PRED) : "";
    DType to = op->results[0]->type->dtype, from = op->operands[0]->type->dtype;
    switch (op->kind) {
    case OP_MOD:
    case OP_AND:
    case OP_OR:
    case OP_XOR: return to != DT_BOOL;
    case OP_CMP: return text_equal(pred, "eq") || text_equal(pred, "ne");
    case OP_CAST:
        return dtype_is_int(from) && dtype_is_int(to) && dtype_bits(to) < dtype_bits(from);
    default: return false;
    }
}

static bool is_exact(const int64_t hull[2])
{
    return hull[0] == hull[1];
}

/* Of one period the remainder keeps the order. */
static bool free_remainder(InterpRun *run, Array *result, int64_t i, const int64_t x[2],
                           const int64_t y[2])
{
    if (!is_exact(y) || y[0] <= 0 || x[0] < 0) {
        return false;
    }
    if (x[0] / y[0] != x[1] / y[0]) {
        array_free(run, result, i, (Scalar){.i = 0}, (Scalar){.i = y[0] - 1});
    }
    return true;
}

static bool free_mask(InterpRun *run, Array *result, int64_t i, const int64_t x[2],
                      const int64_t y[2])
{
    const int64_t *mask = is_exact(x) ? x : y;
    if (!is_exact(mask) || mask[0] < 0) {
        return false;
    }
    array_free(run, result, i, (Scalar){.i = 0}, (Scalar){.i = mask[0]});
    return true;
}

static bool free_cast(const Array *result, const int64_t x[2])
{
    int64_t least = dtype_least(result->dtype), bits = dtype_bits(result->dtype);
    int64_t most = least + (int64_t)((UINT64_C(1) << bits) - 1);
    return x[0] >= least && x[1] <= most; /* all of it fits */
}

/* True if element `i` of the result takes no other value than its samples and the interval that
 * this leaves behind, where its operands take those of x and y. */
static bool is_bounded(InterpRun *run, const Op *op, Array *result, int64_t i, const int64_t x[2],
                       const int64_t y[2])
{
    switch (op->kind) {
    case OP_MOD: return free_remainder(run, result, i, x, y);
    case OP_AND: return free_mask(run, result, i, x, y);
    case OP_CMP: return x[1] < y[0] || y[1] < x[0];
    default: return op->kind == OP_CAST && free_cast(result, x);
    }
}

void interp_free_steps(InterpRun *run, const Op *op, Array *const *items, Array *result)
{
    bool counted = false;
    if (!run->options->bounds || !result->samples || !loses_order(op)) {
        return;
    }
    for (int i = 0; i < op->n_operands; i++) {
        int visits = 0;
        counted = counted || is_counted(op->operands[i], &visits);
    }
    for (int64_t i = 0; counted && i < result->n; i++) {
        /* The result may take any value if the operands' intervals allow one that no sample shows.
         * */
        int64_t x[2], y[2] = {0, 0};
        array_hull(items[0], i, x);
        if (op->n_operands > 1) {
            array_hull(items[1], i, y);
        }
        if (x[1] - x[0] <= 1 && y[1] - y[0] <= 1) {
            continue; /* the samples cover both intervals */
        }
        if (!is_bounded(run, op, result, i, x, y)) {
            array_any(run, result, i);
        }
    }
}
