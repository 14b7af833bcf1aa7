/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of exponentials in the epilogue of a dot, in parts.
 *
 *   %m = reduce %z fn=max axis=1              %n = reduce_parts %z fn=max
 *   %d = sub %z, h(%m)                        %k = reduce_parts exp(%z - repeat_parts %n) fn=sum
 *   %l = reduce exp(%d) fn=sum axis=1    →    %m = reduce %n fn=max axis=1
 *                                             %l = reduce %k * exp(%n - h(%m)) fn=sum axis=1
 *
 * The sum of a part whose elements are all -inf is 0, and so is its factor. If an element is inf,
 * the sum of its part is 1 and the factor gives the result that the whole row would give: inf or
 * NaN. */
#include "passes/fuse/fuse_moments.h"

#include "ir/op_axes.h"
#include "passes/analysis/epilogue_folds.h"

#include <math.h>

enum { MAX_DEPTH = 64 };

/* Is the value, of rows, made of the maximum of `of` along the axis? */
static bool is_of_maximum(const Value *value, const Value *of, int axis, int depth)
{
    const Op *op = value->def;
    if (!op || depth == 0) {
        return false;
    }
    if (op->kind == OP_REDUCE) {
        return op->operands[0] == of && op_int(op, ATTR_AXIS, 0) == axis &&
               text_equal(op_word(op, ATTR_FN), "max");
    }
    bool found = false;
    for (int i = 0; (op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_BROADCAST) && !found &&
                    i < op->n_operands; i++) {
        found = is_of_maximum(op->operands[i], of, axis, depth - 1);
    }
    return found;
}

static bool is_difference(const Op *op, int axis)
{
    const Op *spread = op->kind == OP_SUB ? value_def_of_kind(op->operands[1], OP_BROADCAST) : NULL;
    return spread && spread->operands[0]->type->rank == op->results[0]->type->rank &&
           fuse_is_constant_along(op->operands[1], axis) &&
           is_of_maximum(spread->operands[0], op->operands[0], axis, 8);
}

/* ---- the function of the difference ---- */

bool fuse_is_exponential(const Value *value)
{
    const Op *op = value->def;
    return op && (op->kind == OP_FAST_EXP2 || text_equal(op_word(op, ATTR_ENDS), "exp"));
}

static bool is_number(const Value *value)
{
    const Op *op = value->def;
    return type_is_scalar(value->type) || op->kind == OP_CONST ||
           (op->kind == OP_BROADCAST && type_is_scalar(op->operands[0]->type));
}

typedef struct Search {
    Op *difference;
    Memo *seen;
    int axis, instructions;
} Search;

/* Is the value made of one difference and of numbers alone? */
static bool find(Search *s, const Value *value, int depth)
{
    Op *op = value->def;
    if (is_number(value) || !memo_visit(s->seen, value)) {
        return true;
    }
    if (is_difference(op, s->axis)) {
        bool good = !s->difference || s->difference == op;
        s->difference = op;
        return good;
    }
    bool good = depth > 0 && op_has(op, TRAIT_ELEMENTWISE);
    s->instructions += an_epilogue_instructions(op);
    for (int i = 0; good && i < op->n_operands; i++) {
        good = op->operands[i]->def && find(s, op->operands[i], depth - 1);
    }
    return good;
}

Op *fuse_find_difference(Func *func, const Op *fold, int axis, int *instructions)
{
    Search s = {.seen = memo_open(func), .axis = axis};
    bool good = find(&s, fold->operands[0], MAX_DEPTH);
    memo_close(s.seen);
    *instructions = s.instructions;
    return good ? s.difference : NULL;
}

/* The same function of another array; `map` has what stands for the difference. */
static Value *applied(Builder *b, CloneMap *map, Value *value, Type shape)
{
    Value *known = clone_get(map, value);
    const Op *op = value->def;
    if (known != value || type_is_scalar(value->type)) {
        return known;
    }
    Value *operands[4];
    Type type = type_with_dtype(b->func, shape, value->type->dtype);
    if (op->kind == OP_BROADCAST) {
        known = build_broadcast(b, op->operands[0], type->rank, type->dims);
    } else {
        for (int i = 0; i < op->n_operands; i++) {
            operands[i] = applied(b, map, op->operands[i], shape);
        }
        Op *copy = build_op(b, op->kind, op->n_operands, operands, 1, &type, 0);
        copy->attrs = op->attrs;
        copy->n_attrs = op->n_attrs;
        known = copy->results[0];
    }
    clone_map_value(map, value, known);
    return known;
}

static Value *exponentials(Builder *b, const PartialFold *partial, Value *difference)
{
    CloneMap map = clone_map_new(b->func);
    clone_map_value(&map, partial->difference->results[0], difference);
    return applied(b, &map, partial->fold->operands[0], difference->type);
}

/* Does the function limit its argument from above? */
static bool is_limited(const PartialFold *partial)
{
    const Value *of = partial->difference->results[0];
    const Block *block = partial->fold->parent;
    bool limited = false;
    for (const ValueUse *use = use_first(of, block); use; use = use_next(use, block)) {
        limited = limited || use->op->kind == OP_MIN;
    }
    return limited;
}

/* From the part's maximum. That none is more than 0 is said where the function asks: simplify then
 * leaves out the limit, and what the function does for large arguments. */
static Value *difference_in_part(Builder *b, const PartialFold *partial, Value *repeated)
{
    Value *difference = build_binary(b, OP_SUB, partial->base.value, repeated);
    Value *zero = is_limited(partial) ? build_float(b, difference->type, 0) : NULL;
    return zero ? build_binary(b, OP_MIN, difference, zero) : difference;
}

/* ---- the sums ---- */

/* The sum of a part, but where its maximum is infinite, from which no difference is a number: 0 of
 * -inf alone. Of inf any number does but 0. */
static Value *where_finite(Builder *b, Value *greatest, Value *sum)
{
    Type type = greatest->type;
    Value *inf = build_float(b, type, INFINITY), *zero = build_float(b, type, 0);
    Value *infinite = build_cmp(b, "eq", build_unary(b, OP_ABS, greatest), inf);
    Value *above = build_cmp(b, "gt", greatest, zero);
    Value *other = build_select(b, above, build_float(b, type, 1), zero);
    return build_select(b, infinite, other, sum);
}

Value *fuse_sum_exponentials(EpilogueFolds *f, Builder *b, const PartialFold *partial)
{
    const Base *base = &partial->base;
    Value *row = partial->difference->operands[1]->def->operands[0], *z = base->value;
    if (!base->by) {
        return NULL;
    }
    Value *greatest = fuse_part_of_base(f, base, "max");
    Builder after = build_after(f->func, greatest->def);
    after.span = partial->fold->span;
    Value *repeated =
        build_repeat_parts(&after, greatest, base->axis, base->by, z->type->dims[base->axis]);
    Value *terms = exponentials(&after, partial, difference_in_part(&after, partial, repeated));
    Value *sums =
        where_finite(&after, greatest, fuse_reduce_parts(&after, base, "sum", terms));
    f->others[f->n_others++] = sums;
    row = build_broadcast(b, row, greatest->type->rank, greatest->type->dims);
    Value *off = build_binary(b, OP_SUB, greatest, row);
    return build_binary(b, OP_MUL, sums, exponentials(b, partial, off));
}
