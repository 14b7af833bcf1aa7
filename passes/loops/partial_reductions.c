/* SPDX-License-Identifier: Apache-2.0 */
/* partial_reductions: reduces element-wise inside a loop and across threads once after it.
 *
 *   %s = for …, %zero {                      %t = for …, zeros {
 *     (%k: range, %c: f32[1, %n])              (%k: range, %c: f32[64, %n])
 *     %r = reduce %v fn=sum axis=0      →      %n = add %c, fix %v
 *     %n = add %c, %r                          yield %n }
 *     yield %n }                             %s = add %zero, (reduce %t fn=sum axis=0)
 *
 * A reduction crosses threads, and a reduction across warps needs a barrier: this way once per loop
 * instead of once per iteration. The price is a partial result of as many registers as a thread
 * owns elements of the tile. Requires: stage (padding is the identity element, the loops are
 * final). Reassociates reductions. Argmax and argmin: partial_argmax.c. */
#include "passes/loops/partial_reductions.h"

#include "ir/target/target.h"
#include "passes/analysis/reduce_identity.h"
#include "passes/pass.h"
#include "support/int_math.h"

#include <math.h>

enum { MAX_REGISTERS = 32 }; /* of a thread, that one loop may take for this */

/* The reduction that the loop combines with carried value `i`, and with nothing else; else NULL. */
static Op *carried_reduce(const Defer *d, int i)
{
    const Block *body = d->loop->regions[0];
    const Value *carried = body->args[1 + i];
    const Op *next = body->last->operands[i]->def;
    if (!next || next->parent != body || next->n_operands != 2 ||
        value_count_uses(d->func, carried) != 1 ||
        value_count_uses(d->func, next->results[0]) != 1) {
        return NULL;
    }
    for (int k = 0; k < 2; k++) {
        Op *reduce = next->operands[1 - k]->def;
        bool good = next->operands[k] == carried && reduce && reduce->kind == OP_REDUCE &&
                    reduce->parent == body && reduce->n_operands == 1 &&
                    next->kind == reduce_combiner(op_word(reduce, ATTR_FN)) &&
                    value_count_uses(d->func, reduce->results[0]) == 1;
        if (good) {
            return reduce;
        }
    }
    return NULL;
}

static int64_t threads_of(const Defer *d)
{
    const Op *launch = op_enclosing(d->loop, OP_LAUNCH);
    const Attr *warps = launch ? op_attr(launch, ATTR_WARPS) : NULL;
    return warps && warps->n == 1 ? warps->ints[0] * d->func->target->warp : 0;
}

/* Registers that a thread needs for its elements of a tile; at least INT64_MAX / 2: unknown. */
static int64_t defer_registers(const Defer *d, Type type)
{
    int64_t elements = 1, threads = threads_of(d);
    for (int i = 0; i < type->rank; i++) {
        int64_t capacity = poly_capacity(type->dims[i]);
        if (capacity < 0 || __builtin_mul_overflow(elements, capacity, &elements)) {
            return INT64_MAX;
        }
    }
    int words = dtype_bytes(type->dtype) > 4 ? 2 : 1;
    return threads && elements < INT64_MAX / 2 ? ceil_div(elements, threads) * words : INT64_MAX;
}

/* True for a reduction whose operand is only the result of one of the same kind: axes are
 * reduced one after another. */
static const Op *reduced_before(const Defer *d, const Op *reduce)
{
    const Op *before = reduce->operands[0]->def;
    bool same = before && before->kind == OP_REDUCE && before->parent == reduce->parent &&
                before->n_operands == 1 && value_count_uses(d->func, before->results[0]) == 1 &&
                text_equal(op_word(before, ATTR_FN), op_word(reduce, ATTR_FN));
    return same ? before : NULL;
}

/* Reductions of one kind, one after the other, as many as a thread has registers for: the last one
 * is `last`. */
typedef struct Chain {
    const Op *ops[MAX_RANK]; /* the last one first */
    int n;
    int64_t registers;
} Chain;

static Chain chain_to(const Defer *d, const Op *last)
{
    int64_t available = MAX_REGISTERS - d->registers;
    Chain chain = {.registers = INT64_MAX};
    for (const Op *op = last; op && chain.n < MAX_RANK; op = reduced_before(d, op)) {
        int64_t registers = defer_registers(d, op->operands[0]->type);
        if (registers > available) {
            break;
        }
        chain.ops[chain.n++] = op;
        chain.registers = registers;
    }
    return chain;
}

/* The tile's type without the loop's range: it outlives the loop. */
Type defer_outliving(const Defer *d, Type type)
{
    const Value *walker = d->loop->regions[0]->args[0];
    Dim dims[MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        const DimVar *range = poly_as_range(type->dims[i]);
        bool own = range && range->binder == walker;
        dims[i] = own ? poly_const(d->func, poly_capacity(type->dims[i])) : type->dims[i];
    }
    return type_with_dims(d->func, type, type->rank, dims);
}

/* True if the value is the identity element of the reduction. */
static bool is_neutral(const Value *value, const char *fn)
{
    int64_t integer = 0;
    const Attr *number = value_const(value);
    double neutral = reduce_neutral(fn, value->type->dtype, &integer);
    bool is_float = dtype_is_float(value->type->dtype);
    return number && (is_float ? number->f == neutral && !signbit(number->f) == !signbit(neutral)
                               : number->i == integer);
}

/* `alone`: the loop around reduces the result on, and wants nothing in between. */
static void defer(Defer *d, int i, const Chain *chain, bool alone)
{
    const Op *reduce = chain->ops[chain->n - 1];
    Func *func = d->func;
    Op *loop = d->loop;
    Block *body = loop->regions[0];
    Value *tile = reduce->operands[0], *init = loop->operands[2 + i], *result = loop->results[i];
    Value *carried = body->args[1 + i];
    const char *fn = op_word(reduce, ATTR_FN);
    Op *old = body->last->operands[i]->def;
    Type type = defer_outliving(d, tile->type);

    Builder before = build_before(func, loop), inside = build_before(func, old);
    Builder after = build_after(func, loop);
    inside.span = after.span = reduce->span;
    op_set_operand(loop, 2 + i, reduce_neutral_tile(&before, fn, type));
    if (type != tile->type) {
        tile = build_op(&inside, OP_TO_STATIC, 1, &tile, 1, &type, 0)->results[0];
    }
    carried->type = type;
    op_set_operand(body->last, i, build_binary(&inside, reduce_combiner(fn), carried, tile));
    op_remove(old);

    result->type = type;
    Value *total = result, *first = NULL;
    for (int k = chain->n; k-- > 0;) {
        total = build_reduce(&after, fn, total, (int)op_int(chain->ops[k], ATTR_AXIS, 0));
        op_inherit_over(func, total->def, chain->ops[k]);
        first = first ? first : total;
    }
    Value *all = alone && is_neutral(init, fn)
                     ? total
                     : build_binary(&after, reduce_combiner(fn), init, total);
    func_replace_uses(func, result, all);
    op_set_operand(first->def, 0, result);
}

/* True if the loop around it reduces the result further. Then that loop may carry the whole
 * tile. */
static bool is_reduced_on(const Defer *d, int i, const char *fn)
{
    const Op *outer = d->loop->parent->parent;
    const Op *next = outer && outer->kind == OP_FOR ? d->loop->next : NULL;
    while (next && !(next->kind == OP_REDUCE && next->operands[0] == d->loop->results[i])) {
        next = next->next;
    }
    return next && value_count_uses(d->func, d->loop->results[i]) == 1 &&
           text_equal(op_word(next, ATTR_FN), fn);
}

static void defer_in(Op *op, void *user)
{
    Defer d = {.func = user, .loop = op};
    int64_t extent;
    if (op->kind != OP_FOR || op_enclosing(op, OP_ROLES)) {
        return;
    }
    bool single_trip = poly_is_const(op_attr(op, ATTR_DIMS)->dims[0], &extent) &&
                       extent <= op_attr(op, ATTR_STEPS)->ints[0];
    for (int i = 0; !single_trip && i + 1 < op->n_results; i++) {
        const Op *fold = defer_carried_extreme(&d, i);
        int64_t registers = fold ? defer_registers(&d, fold->operands[0]->type) +
                                       defer_registers(&d, fold->operands[1]->type)
                                 : INT64_MAX;
        if (fold && registers <= MAX_REGISTERS - d.registers) {
            d.registers += registers;
            defer_extreme(&d, i, fold);
        }
    }
    for (int i = 0; i < op->n_results; i++) {
        const Op *reduce = carried_reduce(&d, i);
        bool on = reduce && is_reduced_on(&d, i, op_word(reduce, ATTR_FN));
        Chain chain = reduce && (!single_trip || on) ? chain_to(&d, reduce) : (Chain){0};
        if (chain.n) {
            d.registers += chain.registers;
            defer(&d, i, &chain, on);
        }
    }
}

/* Inner loops first: the tiles that they yield may be carried by outer ones. */
static void defer_inside(Func *func, const Block *block)
{
    for (Op *op = block->first; op; op = op->next) {
        for (int r = 0; r < op->n_regions; r++) {
            defer_inside(func, op->regions[r]);
        }
        defer_in(op, func);
    }
}

/* Inner loops only, a second time: a walk lets each loop take a limited number of registers. */
static void defer_repeated(Op *op, void *user)
{
    if (op->kind == OP_FOR && op_enclosing(op, OP_FOR)) {
        defer_in(op, user);
    }
}

void pass_partial_reductions(Func *func)
{
    if (!func->target || func->target->warp == 1) {
        return;
    }
    defer_inside(func, func->body);
    func_walk(func, defer_repeated, func); /* reductions that outer loops left */
    func_remove_dead(func);
}
