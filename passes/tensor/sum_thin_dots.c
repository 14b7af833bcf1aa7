/* SPDX-License-Identifier: Apache-2.0 */
/* sum_thin_dots: computes dots that are too thin for tiles as plain reductions.
 *
 *                                           %a' = expand %a axis=1, broadcast : f32[M, 1, K]
 *   %d = dot %a, %b : f32[M, 1]      →      %b' = permute %b, expand, broadcast : f32[M, 1, K]
 *                                           %p = mul %a', %b'
 *                                           %d = reduce %p fn=sum axis=2, squeeze
 *
 * A dot with one row or one column reads each element of the other operand once, and a dot with few
 * terms takes less time than writing its result: both are limited by memory. A reduction along K
 * divides long rows among blocks, reads them by wide accesses and shares a launch with its
 * producers and consumers. A dot's tile would multiply padding columns, copy rows of one element
 * for alignment, and occupy few blocks. Index notation writes the same sum, which raise_to_dot
 * leaves alone for the same reason. Does nothing to products of what the source tiles by hand, and
 * where the extents are not constant. Requires the tensor level. Changes the association order of
 * the sum. */
#include "ir/build.h"
#include "ir/op_axes.h"
#include "passes/pass.h"

/* Terms of which a matrix unit, whose instructions add up 16 and more, would do a quarter of its
 * work at most (MIN_EDGE of raise_to_dot, which leaves shorter sums alone). */
enum { MIN_DEPTH = 4 };

/* ---- which products ---- */

static bool is_thin(const Op *dot)
{
    int rank = dot->results[0]->type->rank;
    Type a = dot->operands[0]->type, b = dot->operands[1]->type;
    bool unit = dtype_bits(a->dtype) <= 16; /* else threads multiply few terms as well as many */
    int64_t depth;
    return poly_is_number(a->dims[rank - 2], 1) || poly_is_number(b->dims[rank - 1], 1) ||
           poly_is_number(a->dims[rank - 1], 1) ||
           (unit && poly_is_const(a->dims[rank - 1], &depth) && depth >= 1 && depth < MIN_DEPTH);
}

/* Arrays of the tensor level are whole: tiles have ranges as axes. */
static bool is_whole(const Value *value)
{
    bool whole = value->type->kind == TYPE_ARRAY && value->type->rank >= 2;
    for (int i = 0; whole && i < value->type->rank; i++) {
        whole = !poly_as_range(value->type->dims[i]);
    }
    return whole;
}

static bool may_sum(const Op *op)
{
    return op->kind == OP_DOT && op->n_operands == 2 && op->n_attrs == 0 &&
           op->results[0]->type->rank < MAX_RANK && is_whole(op->operands[0]) &&
           is_whole(op->operands[1]) && is_thin(op);
}

/* ---- their terms ---- */

/* An operand with the axes of all terms, `missing` the one that it does not have. */
static Value *spread(Builder *b, Value *operand, int missing, int rank, const Dim *dims,
                     DType dtype)
{
    Value *cast = build_cast(b, operand, dtype);
    return build_broadcast(b, build_expand(b, cast, missing), rank, dims);
}

static Value *swapped(Builder *b, Value *value)
{
    int64_t perm[MAX_RANK];
    int rank = value->type->rank;
    for (int i = 0; i < rank; i++) {
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    }
    return build_permute(b, value, perm);
}

static void sum_terms(Func *func, Op *dot)
{
    Builder b = build_before(func, dot);
    b.span = dot->span;
    Value *left = dot->operands[0], *right = dot->operands[1];
    Type type = dot->results[0]->type;
    int rank = type->rank;
    Dim dims[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        dims[i] = type->dims[i];
    }
    dims[rank] = left->type->dims[rank - 1];
    Value *a = spread(&b, left, rank - 1, rank + 1, dims, type->dtype);
    Value *c = spread(&b, swapped(&b, right), rank - 2, rank + 1, dims, type->dtype);
    Value *sum = build_binary(&b, OP_MUL, a, c);
    if (!poly_is_number(dims[rank], 1)) {
        sum = build_reduce(&b, "sum", sum, rank);
    }
    sum = build_squeeze(&b, sum, rank);
    sum->name = dot->results[0]->name;
    func_replace_uses(func, dot->results[0], sum);
    op_remove(dot);
}

/* Blocks of a loop or a branch are of the tensor level, too; those of `parallel` are tiled. */
static void sum_in(Func *func, Block *block)
{
    for (Op *op = block->first, *next; op; op = next) {
        next = op->next;
        for (int r = 0; r < op->n_regions && op->kind != OP_PARALLEL; r++) {
            sum_in(func, op->regions[r]);
        }
        if (may_sum(op)) {
            sum_terms(func, op);
        }
    }
}

void pass_sum_thin_dots(Func *func)
{
    sum_in(func, func->body);
}
