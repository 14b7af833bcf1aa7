/* SPDX-License-Identifier: Apache-2.0 */
/* Partial reductions of argmax and argmin (attribute `arg` of a fold): inside the loop, each thread
 * keeps the best pair of value and index among its own elements. After the loop, two plain
 * reductions combine the pairs of all threads: the maximum, then the least index that has it.
 *
 *   %v, %i = for …, %nothing {               %t, %p = for …, %nothing {
 *     (%k: range, %a: f32[1], %b: i64[1])      (%k: range, %a: f32[64], %b: i64[64])
 *     %c, %d = fold %x, %at arg=max  →     %n = to_static %x is greater than %a
 *     %n = %c is greater than %a               yield (select %n, %x, %a), (select %n, %at, %b) }
 *     yield (select %n, %c, %a),             %v = reduce %t fn=max
 *           (select %n, %d, %b) }            %i = reduce (select %t is %v, %p, most) fn=min
 *
 * Indices grow from step to step, so the first maximum that a thread finds has its least index. */
#include "passes/loops/partial_reductions.h"

#include "passes/analysis/reduce_identity.h"

/* Values of the loop's body that depend on the fold's results or on what the loop carries. */
typedef struct Cone {
    const Value *in[64];
    int n;
} Cone;

static bool is_in(const Cone *cone, const Value *value)
{
    for (int i = 0; i < cone->n; i++) {
        if (cone->in[i] == value) {
            return true;
        }
    }
    return false;
}

static Cone cone_of(const Block *body, int i, const Op *fold)
{
    return (Cone){{body->args[1 + i], body->args[2 + i], fold->results[0], fold->results[1]}, 4};
}

/* The cone's ops, each an element-wise one; false: there are others, or too many. `*uses`: of its
 * values, by them. */
static bool gather_cone(const Op *fold, const Block *body, Cone *cone, uint32_t *uses)
{
    for (const Op *op = body->first; op && op != body->last; op = op->next) {
        uint32_t own = 0;
        for (int i = 0; i < op->n_operands; i++) {
            own += op->operands[i] && is_in(cone, op->operands[i]);
        }
        if (!own || op == fold) {
            continue;
        }
        *uses += own;
        if (!op_has(op, TRAIT_ELEMENTWISE) || op->n_results != 1 || cone->n == 64) {
            return false;
        }
        cone->in[cone->n++] = op->results[0];
    }
    return true;
}

/* True if the indices count up along the loop's own range, so that those of each iteration are
 * greater than those of earlier ones. */
static bool grows(const Defer *d, const Op *fold)
{
    const Op *op = fold->operands[1]->def;
    while (op && (op->kind == OP_BROADCAST || op->kind == OP_EXPAND || op->kind == OP_SELECT)) {
        op = op->operands[op->kind == OP_SELECT ? 1 : 0]->def; /* chosen where it is not padding */
    }
    return op && op->kind == OP_INDEX && op->operands[0] == d->loop->regions[0]->args[0] &&
           !op_int(d->loop, ATTR_DESCENDING, 0);
}

/* From the last on, each without uses by then. */
static void remove_cone(Block *body, int i, const Op *fold)
{
    Cone cone = cone_of(body, i, fold);
    uint32_t uses = 0;
    gather_cone(fold, body, &cone, &uses);
    for (Op *op = body->last->prev, *before; op; op = before) {
        before = op->prev;
        if (op == fold || (op->n_results == 1 && is_in(&cone, op->results[0]))) {
            op_remove(op);
        }
    }
}

static const Value *unspread(const Value *value)
{
    const Op *op = value->def;
    return op && op->kind == OP_BROADCAST ? op->operands[0] : value;
}

const Op *defer_carried_extreme(const Defer *d, int i)
{
    const Block *body = d->loop->regions[0];
    const Op *value = body->last->operands[i]->def, *place = body->last->operands[i + 1]->def;
    const Value *carried[2] = {body->args[1 + i], body->args[2 + i]};
    if (!value || !place || value->kind != OP_SELECT || place->kind != OP_SELECT ||
        value->operands[0] != place->operands[0] || value->operands[2] != carried[0] ||
        place->operands[2] != carried[1]) {
        return NULL;
    }
    const Op *fold = value->operands[1]->def;
    if (!fold || fold->parent != body || fold->kind != OP_FOLD || fold->n_results != 2 ||
        !op_word(fold, ATTR_ARG) || op_int(fold, ATTR_SCAN, 0) ||
        place->operands[1] != fold->results[1] || value->operands[1] != fold->results[0] ||
        !grows(d, fold)) {
        return NULL;
    }
    for (int k = 0; k < 2; k++) { /* its initial value is the identity element */
        if (unspread(d->loop->operands[2 + i + k]) != fold->operands[2 + k]) {
            return NULL;
        }
    }
    Cone cone = cone_of(body, i, fold);
    uint32_t uses = 0, all = 0;
    if (!gather_cone(fold, body, &cone, &uses)) {
        return NULL;
    }
    for (int k = 0; k < cone.n; k++) {
        all += (uint32_t)value_count_uses(d->func, cone.in[k]);
    }
    return all == uses + 2 ? fold : NULL; /* and the two that the loop yields */
}

static Value *is_negative(Builder *b, Value *place)
{
    return build_cmp(b, "lt", place, build_int(b, place->type, 0));
}

/* True where the element takes precedence over the best one so far. */
static Value *beats(Builder *b, const char *extreme, Value *element, Value *found)
{
    Value *is = build_cmp(b, text_equal(extreme, "max") ? "gt" : "lt", element, found);
    if (dtype_is_float(element->type->dtype)) {
        Value *before = build_unary(b, OP_NOT, build_unary(b, OP_ISNAN, found));
        Value *first = build_binary(b, OP_AND, build_unary(b, OP_ISNAN, element), before);
        is = build_binary(b, OP_OR, is, first);
    }
    return is;
}

static Value *spread(Builder *b, Value *value, Type like)
{
    Type type = type_with_dtype(b->func, like, value->type->dtype);
    return build_broadcast(b, value, type->rank, type->dims);
}

/* The best pair of all threads. `values` where a thread found nothing are the identity element. */
static void combine_threads(Builder *b, const Op *fold, Value *values, Value *places, Value **out)
{
    const char *extreme = op_word(fold, ATTR_ARG);
    int axis = (int)op_int(fold, ATTR_AXIS, 0);
    Value *none = is_negative(b, places);
    Value *known = build_select(b, none, reduce_neutral_tile(b, extreme, values->type), values);
    Value *best = build_reduce(b, extreme, known, axis);
    op_inherit_over(b->func, best->def, fold);
    Value *hit = build_cmp(b, "eq", known, spread(b, best, known->type));
    if (dtype_is_float(known->type->dtype)) {
        hit = build_binary(b, OP_OR, hit, build_unary(b, OP_ISNAN, known));
    }
    hit = build_binary(b, OP_AND, hit, build_unary(b, OP_NOT, none));
    Value *past = build_int(b, places->type, INT64_MAX);
    Value *least = build_reduce(b, "min", build_select(b, hit, places, past), axis);
    op_inherit_over(b->func, least->def, fold);
    Value *any = build_cmp(b, "lt", least, build_int(b, least->type, INT64_MAX));
    out[0] = build_select(b, any, best, spread(b, fold->operands[2], best->type));
    out[1] = build_select(b, any, least, spread(b, fold->operands[3], least->type));
}

void defer_extreme(Defer *d, int i, const Op *fold)
{
    Func *func = d->func;
    Op *loop = d->loop;
    Block *body = loop->regions[0];
    Builder before = build_before(func, loop), inside = build_before(func, body->last);
    Builder after = build_after(func, loop);
    Value *tiles[2], *found[2], *out[2];
    inside.span = after.span = fold->span;
    for (int k = 0; k < 2; k++) {
        Type type = defer_outliving(d, fold->operands[k]->type);
        tiles[k] = fold->operands[k];
        if (type != tiles[k]->type) {
            tiles[k] = build_op(&inside, OP_TO_STATIC, 1, &tiles[k], 1, &type, 0)->results[0];
        }
        Value *neutral = fold->operands[2 + k];
        op_set_operand(loop, 2 + i + k, spread(&before, neutral, type));
        found[k] = body->args[1 + i + k];
        op_set_operand(body->last, i + k, loop->operands[2 + i + k]); /* who used it is dead now */
    }
    remove_cone(body, i, fold);
    for (int k = 0; k < 2; k++) {
        found[k]->type = tiles[k]->type;
        loop->results[i + k]->type = tiles[k]->type;
    }
    Value *take = beats(&inside, op_word(fold, ATTR_ARG), tiles[0], found[0]);
    take = build_binary(&inside, OP_OR, is_negative(&inside, found[1]), take);
    Value *is = build_unary(&inside, OP_NOT, is_negative(&inside, tiles[1]));
    take = build_binary(&inside, OP_AND, is, take);
    for (int k = 0; k < 2; k++) {
        op_set_operand(body->last, i + k, build_select(&inside, take, tiles[k], found[k]));
    }
    Value *mark[2]; /* replaces the results until all new ops exist */
    for (int k = 0; k < 2; k++) {
        mark[k] = reduce_neutral_tile(&before, "sum", loop->results[i + k]->type);
        func_replace_uses(func, loop->results[i + k], mark[k]);
    }
    combine_threads(&after, fold, loop->results[i], loop->results[i + 1], out);
    for (int k = 0; k < 2; k++) {
        func_replace_uses(func, mark[k], out[k]);
    }
}
