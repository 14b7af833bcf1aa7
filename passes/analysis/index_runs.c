/* SPDX-License-Identifier: Apache-2.0 */
/* Finds runs of adjacent elements: those that a gather reads, or a scatter writes, as neighbours in
 * memory, so that one vector access moves them, and those that are equal, so that one of them is
 * computed. */
#include "passes/analysis/index_runs.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "passes/analysis/access_width.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/index_bounds.h"
#include "passes/analysis/range_facts.h"
#include "support/int_math.h"

/* What a value is in each run of `width` elements along an axis. `width` is a power of two, so that
 * integers that wrap around keep what is said here. */
typedef enum RunKind {
    RUN_ANY,
    RUN_SAME, /* one number */
    RUN_STEP, /* a multiple of `width`, then one more for each element */
} RunKind;

typedef struct Runs {
    Memo *memo;
    int64_t width;
} Runs;

static RunKind run_of(const Runs *runs, const Value *value, int axis);

static bool is_multiple(const Runs *runs, const Value *value)
{
    return an_divisor(value) % runs->width == 0;
}

/* A comparison with a bound between two runs: `k < 24` in runs of 8. */
static RunKind run_of_comparison(const Runs *runs, const Op *op, RunKind a, RunKind b)
{
    const char *pred = op_word(op, ATTR_PRED);
    bool below = text_equal(pred, "lt") || text_equal(pred, "ge");
    bool above = text_equal(pred, "gt") || text_equal(pred, "le");
    bool left = below && a == RUN_STEP && b == RUN_SAME && is_multiple(runs, op->operands[1]);
    bool right = above && a == RUN_SAME && b == RUN_STEP && is_multiple(runs, op->operands[0]);
    return left || right ? RUN_SAME : RUN_ANY;
}

/* A positive number, or the size of an axis: where that is 0 there are no elements. */
static bool is_divisor(const Value *value)
{
    const Attr *number = value_const(value);
    const Op *op = value->def;
    while (op && op->kind == OP_CAST) {
        op = value_unstretched(op->operands[0])->def;
    }
    return number ? number->i > 0 : op && op->kind == OP_SIZE;
}

static RunKind run_of_binary(const Runs *runs, const Op *op, int axis)
{
    const Value *right = op->operands[1];
    RunKind a = run_of(runs, op->operands[0], axis), b = run_of(runs, right, axis);
    const Value *by = value_unstretched(right);
    const Attr *bits = value_const(by);
    switch (op->kind) {
    case OP_ADD:
        if (a == RUN_SAME && b == RUN_STEP && is_multiple(runs, op->operands[0])) {
            return RUN_STEP;
        }
        return a == RUN_STEP && b == RUN_SAME && is_multiple(runs, right) ? RUN_STEP : RUN_ANY;
    case OP_CMP: return run_of_comparison(runs, op, a, b);
    case OP_SUB: return a == RUN_STEP && b == RUN_SAME && is_multiple(runs, right) ? a : RUN_ANY;
    case OP_DIV:
        return a == RUN_STEP && is_divisor(by) && is_multiple(runs, right) ? RUN_SAME : RUN_ANY;
    case OP_SHR:
        return a == RUN_STEP && bits && bits->i > 0 && bits->i < 63 &&
                       (1LL << bits->i) % runs->width == 0
                   ? RUN_SAME
                   : RUN_ANY;
    case OP_MOD: return a == RUN_STEP && is_divisor(by) && is_multiple(runs, right) ? a : RUN_ANY;
    default: return RUN_ANY;
    }
}

static RunKind run_of_op(const Runs *runs, const Op *op, int axis)
{
    if (op_moves_axes(op)) {
        return run_of(runs, op->operands[0], op_operand_axis(op, 0, axis));
    }
    switch (op->kind) {
    case OP_CONST: return RUN_SAME;
    case OP_IOTA: return RUN_STEP;
    case OP_INDEX: {
        const Value *range = op->operands[0];
        bool aligned = range_aligned(poly_as_range(range->type->dims[0])) <= 1;
        return aligned && is_multiple(runs, range) ? RUN_STEP : RUN_ANY;
    }
    case OP_CAST: {
        RunKind kind = run_of(runs, op->operands[0], axis);
        return kind == RUN_SAME || dtype_is_int(op->results[0]->type->dtype) ? kind : RUN_ANY;
    }
    case OP_MASK: {
        bool other = op_int(op, ATTR_AXIS, 0) != axis;
        const DimVar *range = poly_as_range(op->results[0]->type->dims[axis]);
        bool whole = other || (range && an_end_divisor(range->binder) % runs->width == 0);
        return whole && run_of(runs, op->operands[0], axis) == RUN_SAME ? RUN_SAME : RUN_ANY;
    }
    default: break;
    }
    bool same = op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; i < op->n_operands && same; i++) {
        same = run_of(runs, op->operands[i], axis) == RUN_SAME;
    }
    if (same) {
        return RUN_SAME;
    }
    if (op_has(op, TRAIT_ELEMENTWISE) && op->n_operands == 2) {
        return run_of_binary(runs, op, axis);
    }
    return RUN_ANY;
}

/* `axis`: of the value, along which the runs are; -1: of none. */
static RunKind run_of(const Runs *runs, const Value *value, int axis)
{
    int64_t found;
    if (axis < 0 || value->type->rank == 0) {
        return RUN_SAME;
    }
    if (!value->def || value->def->n_results != 1) {
        return RUN_ANY;
    }
    int key = log2_ceil(runs->width) * MAX_RANK + axis;
    return memo_known(runs->memo, value, key, &found)
               ? (RunKind)found
               : (RunKind)memo_keep(runs->memo, value, key, run_of_op(runs, value->def, axis));
}

int64_t an_equal_run(Memo *memo, const Value *value, int axis, int64_t most)
{
    int64_t width = most;
    while (width > 1 && run_of(&(Runs){memo, width}, value, axis) != RUN_SAME) {
        width /= 2;
    }
    return width;
}

/* True for a gather, and for a scatter that only stores. */
static bool is_plain(const Op *op)
{
    return op->kind != OP_SCATTER ||
           (text_equal(op_word(op, ATTR_FN), "set") && op->n_results == 0);
}

static Type tile_of(const Op *op)
{
    return op_moved_value(op)->type;
}

/* True if the index, of which a scalar is one for all elements, has runs of this kind. */
static bool is_run(const Runs *runs, const Op *op, const Value *index, RunKind kind)
{
    int axis = index->type->rank ? tile_of(op)->rank - 1 : -1;
    return run_of(runs, index, axis) == kind;
}

bool an_has_runs(const Op *op, int64_t width)
{
    Access access = op_access(op, 0);
    Type memory = access.memory->type;
    if (!is_plain(op) || tile_of(op)->rank == 0 || access.n == 0 || memory->kind != TYPE_TENSOR ||
        dtype_is_packed(memory->dtype) || an_row_divisor(&access) % width) {
        return false;
    }
    Runs runs = {memo_about(op_moved_value(op)), width};
    bool good = true;
    for (int i = 0; i < access.n && good; i++) {
        good = is_run(&runs, op, access.indices[i], i + 1 < access.n ? RUN_SAME : RUN_STEP);
    }
    const Value *mask = op->kind == OP_SCATTER ? scatter_parts(op).mask : NULL;
    good = good && (!mask || is_run(&runs, op, mask, RUN_SAME));
    memo_close(runs.memo);
    return good;
}

int64_t an_run_stride(const Op *op)
{
    Access access = op_access(op, 0);
    Type memory = access.memory->type;
    int last = tile_of(op)->rank - 1;
    int64_t stride = 0;
    if (!is_plain(op) || last < 0 || memory->kind != TYPE_TENSOR ||
        !type_stride_is(memory, access.n - 1, 1)) {
        return 0;
    }
    for (int i = 0; i < access.n; i++) {
        const Value *index = access.indices[i];
        bool varies = index->type->rank && (an_varies(NULL, index) >> last & 1);
        if (varies != (i + 1 == access.n)) {
            return 0;
        }
    }
    return an_index_stride(access.indices[access.n - 1], last, &stride) ? stride : 0;
}
