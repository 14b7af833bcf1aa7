/* SPDX-License-Identifier: Apache-2.0 */
/* unroll_places: unrolls a short axis (coordinates, colours, complex parts) into separate values,
 * so that a value that is computed per pair is computed once for all indices of that axis.
 *
 *   %d = sub %a, %b : f32[N, N, 3]            %d0 = sub %a0, %b0 : f32[N, N]     … %d1, %d2
 *   %q = mul %d, %d                           %q0 = mul %d0, %d0                 … %r2
 *   %r = reduce %q fn=sum axis=2       →      %r = fma %d2, %d2, %q1 : f32[N, N]
 *   %s = … %r : f32[N, N, 1]                  %s = … %r : f32[N, N]
 *   %f = mul (broadcast %s), %d               %f0 = mul %s, %d0                  … %f1, %f2
 *   %y = reduce %f fn=sum axis=1              %y0 = reduce %f0 fn=sum axis=1     … %y1, %y2
 *                                             %y = select (%c == 0), %y0, …
 *
 * Positions, colours, quaternions and complex numbers have a last axis of two to four places. Where
 * their elements meet pair by pair, a reduction along that axis has other axes than what is made of
 * its result for each place: `fuse` would store the result for all pairs, and lanes would be spent
 * on an axis of three. As values of their own the places are ops of one loop over the pairs.
 * Applies to reductions along such an axis, and to reductions along another one that leave such an
 * axis and need something for all of its places, where no array in memory has an element for each
 * term: otherwise what is read takes the time, and neighbours in memory should stay together. Sums
 * of what is shared times a small array, as of a convolution to three channels, stay products.
 * Requires the tensor level. Sums in another order. */
#include "ir/build.h"
#include "ir/drop_axis.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/reduce_identity.h"
#include "passes/pass.h"

#include <limits.h>

enum {
    MAX_PLACES = 4,   /* of a short axis: more are registers of a thread for each term */
    LONG_AXIS = 16,   /* elements: there are pairs along two of these */
    MAX_STEPS = 1024, /* of a walk over what a term is made of */
};

typedef struct Unroll {
    Func *func;
    AxesDropped taken[MAX_PLACES]; /* what was computed at each place */
    bool changed;
} Unroll;

/* ---- what a term is made of ---- */

/* The term's axes on which the axes of a part of it lie; -1: on none. */
typedef struct AxisPositions {
    int on[MAX_RANK];
} AxisPositions;

typedef struct Terms {
    const Value *term;
    Memo *varies;
    int short_axis;
    unsigned reduced; /* the axis of the reduction */
    unsigned long_axes;
    int steps;
    bool shared; /* something is computed for each pair, and the same at all places, */
    bool own;    /* and something that is not a plain factor, and differs */
    bool loads;  /* some array in memory has the short axis */
} Terms;

static unsigned covers(const Terms *t, const Value *value, const AxisPositions *positions)
{
    unsigned axes = an_varies(t->varies, value), on = 0;
    for (int i = 0; i < value->type->rank; i++) {
        on |= axes >> i & 1 && positions->on[i] >= 0 ? 1u << positions->on[i] : 0;
    }
    return on;
}

static AxisPositions positions_below(const Op *op, int at, const AxisPositions *positions)
{
    AxisPositions below;
    for (int i = 0; i < op->operands[at]->type->rank; i++) {
        OpAxis axis = op_axis(op, at, i);
        below.on[i] = axis.role == AXIS_TIED ? positions->on[axis.result] : -1;
    }
    return below;
}

/* True if each array that the part reads, and that varies along the short axis, has fewer elements
 * than there are terms. */
static bool is_of_smaller_arrays(Terms *t, const Value *value, AxisPositions positions)
{
    const Op *op = value->def;
    unsigned on = covers(t, value, &positions), at = 1u << t->short_axis;
    bool follows = op && (op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE));
    if (++t->steps > MAX_STEPS) {
        return false;
    }
    if (!(on & at)) {
        bool read = op && (op->kind == OP_LOAD || op->kind == OP_GATHER);
        bool pairs = (on & t->reduced) && (on & t->long_axes & ~t->reduced);
        bool moved = op && op_moves_axes(op);
        t->shared = t->shared || (pairs && op && !read && !moved);
        if (!moved) {
            return true;
        }
    } else if (follows) {
        bool pairs = (on & t->reduced) && (on & t->long_axes & ~t->reduced);
        bool factor = value == t->term && op->kind == OP_MUL;
        t->own = t->own || (pairs && !factor && !op_moves_axes(op));
    } else {
        bool load = op && op->kind == OP_LOAD;
        t->loads = t->loads || load;
        return (load || (op && op->kind == OP_IOTA)) && (on & t->long_axes) != t->long_axes;
    }
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        if (operand->type->rank > 0 &&
            !is_of_smaller_arrays(t, operand, positions_below(op, i, &positions))) {
            return false;
        }
    }
    return true;
}

/* The extent, by what is known of sizes; -1: it may vary. */
static int64_t places_of(Dim extent)
{
    int64_t most = poly_most(extent);
    return most == poly_least(extent) ? most : -1;
}

static bool is_short(Dim extent)
{
    int64_t places = places_of(extent);
    return places > 1 && places <= MAX_PLACES;
}

/* Do the terms of the reduction have such a short axis? */
static bool can_unroll(const Unroll *u, const Op *reduce, int short_axis)
{
    const Value *term = reduce->operands[0];
    int along = (int)op_int(reduce, ATTR_AXIS, 0), n = 0;
    Terms t = {.term = term, .short_axis = short_axis, .reduced = 1u << along};
    AxisPositions positions;
    for (int i = 0; i < term->type->rank; i++) {
        bool is_long = poly_nominal(term->type->dims[i]) >= LONG_AXIS;
        positions.on[i] = i;
        t.long_axes |= is_long ? 1u << i : 0;
        n += is_long;
    }
    if (n < 2 || !is_short(term->type->dims[short_axis])) {
        return false;
    }
    t.varies = memo_open(u->func);
    bool can = is_of_smaller_arrays(&t, term, positions) && t.loads &&
               ((t.shared && t.own) || along == short_axis);
    memo_close(t.varies);
    return can;
}

/* ---- its places, one by one ---- */

static Value *taken(Unroll *u, Builder *b, Value *value, int axis, int64_t place)
{
    return axis_taken_once(&u->taken[place], b, value, axis, build_i64(b, place));
}

/* total + a * c is one fused multiply-add. */
static Value *combined(Builder *b, const char *fn, Value *total, Value *next)
{
    const Op *op = next->def;
    bool fused = text_equal(fn, "sum") && op && op->kind == OP_MUL && next->type == total->type &&
                 dtype_is_float(next->type->dtype);
    return fused ? build_fma(b, op->operands[0], op->operands[1], total)
                 : build_binary(b, reduce_combiner(fn), total, next);
}

/* Replaces a reduction along a short axis by the reduction of its places. */
static void combine_places(Unroll *u, Op *reduce)
{
    Builder b = build_before(u->func, reduce);
    int axis = (int)op_int(reduce, ATTR_AXIS, 0);
    Value *terms = reduce->operands[0], *total = NULL;
    int64_t places = places_of(terms->type->dims[axis]);
    b.span = reduce->span;
    for (int64_t i = 0; i < places; i++) {
        Value *next = taken(u, &b, terms, axis, i);
        total = total ? combined(&b, op_word(reduce, ATTR_FN), total, next) : next;
    }
    Value *kept = build_expand(&b, total, axis);
    func_replace_uses(u->func, reduce->results[0], kept);
}

/* Replaces a reduction that leaves a short axis by one for each place, and their stack. */
static void reduce_places(Unroll *u, Op *reduce, int axis)
{
    Builder b = build_before(u->func, reduce);
    Type type = reduce->results[0]->type;
    int along = (int)op_int(reduce, ATTR_AXIS, 0);
    Value *terms = reduce->operands[0], *stack = NULL, *which = NULL;
    int64_t places = places_of(terms->type->dims[axis]);
    b.span = reduce->span;
    which = build_places(&b, axis, type);
    for (int64_t i = 0; i < places; i++) {
        Value *one = taken(u, &b, terms, axis, i);
        one = build_reduce(&b, op_word(reduce, ATTR_FN), one, along - (axis < along));
        op_inherit_over(u->func, one->def, reduce);
        one = build_expand(&b, one, axis);
        one = build_broadcast(&b, one, type->rank, type->dims);
        Value *here = build_cmp(&b, "eq", which, build_int(&b, which->type, i));
        stack = stack ? build_select(&b, here, one, stack) : one;
    }
    func_replace_uses(u->func, reduce->results[0], stack);
}

static bool reduces_terms(const Op *op)
{
    return op->kind == OP_REDUCE && op->n_operands == 1 && !op_attr(op, ATTR_OVER) &&
           op->operands[0]->type->kind == TYPE_ARRAY;
}

static void unroll(Unroll *u, Op *reduce)
{
    int along = (int)op_int(reduce, ATTR_AXIS, 0);
    if (can_unroll(u, reduce, along)) {
        combine_places(u, reduce);
        u->changed = true;
        return;
    }
    for (int i = 0; i < reduce->results[0]->type->rank; i++) {
        if (i != along && can_unroll(u, reduce, i)) {
            reduce_places(u, reduce, i);
            u->changed = true;
            return;
        }
    }
}

void pass_unroll_places(Func *func)
{
    Unroll u = {.func = func};
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        if (reduces_terms(op)) {
            unroll(&u, op);
        }
    }
    if (u.changed) {
        pass_simplify(func);
    }
}
