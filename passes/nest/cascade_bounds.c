/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds the loop of a cascaded reduction. If the terms are `select c, x, -inf`, or, without a
 * maximum, `select c, x, 0`, a tile in which c holds nowhere does not change the partial results,
 * so the loop skips it. */
#include "passes/nest/nest.h"

#include "ir/op_axes.h"

enum { MAX_SUM = 6, MAX_NESTED = 24 };

/* What a number that comes from data is limited to, so that arithmetic on it does not overflow. */
static const int64_t MAX_DATA = (int64_t)1 << 60;

/* of_row * (the row's index) + of_column * (the column's) + numbers + base >= 0. */
typedef struct Limit {
    int64_t of_row, of_column, base;
    struct {
        Value *value;
        int64_t times;
    } numbers[MAX_SUM];
    int n;
} Limit;

enum { MAX_CONDITIONS = 8 };

/* A condition without which a term changes no state. */
typedef struct Condition {
    Value *value;
    NestAxes axes;
} Condition;

typedef struct Conditions {
    Condition items[MAX_CONDITIONS];
    int n;
} Conditions;

typedef struct Bounder {
    Cascade *c;
    NestScope *s;
    Memo *seen;     /* of find_conditions: factors may share operands */
    Value *lo, *hi; /* NULL: the whole axis */
} Bounder;

/* A number that neither a row's nor a column's index takes part in. */
static bool add_number(Bounder *b, Value *value, const NestAxes *axes, int64_t times, Limit *limit)
{
    NestAxes none = *axes;
    for (int i = 0; i < value->type->rank; i++) {
        bool range = none.items[i].kind == NEST_LOOP &&
                     b->c->nest.loops[none.items[i].loop].is_range;
        none.items[i].kind = range || none.items[i].kind == NEST_UNIT ? NEST_DROPPED
                                                                      : none.items[i].kind;
    }
    Value *by = limit->n < MAX_SUM ? nest_value(b->s, value, &none) : NULL;
    if (!by || !type_is_scalar(by->type) || by->type->dtype != DT_I64) {
        return false;
    }
    limit->numbers[limit->n].value = by;
    limit->numbers[limit->n++].times = times;
    return true;
}

static bool add_sum(Bounder *b, Value *value, const NestAxes *axes, int64_t times, Limit *limit,
                    int depth)
{
    const Op *op = value->def;
    const Attr *number = op ? value_const(value) : NULL;
    if (number) {
        limit->base += times * number->i;
        return number->i < (1 << 30) && number->i > -(1 << 30);
    }
    if (op && op->kind == OP_IOTA && axes->items[0].kind == NEST_LOOP) {
        int loop = axes->items[0].loop, column = b->c->nest.column;
        if (loop == column || loop == column - 1) {
            limit->of_column += loop == column ? times : 0;
            limit->of_row += loop == column ? 0 : times;
            return true;
        }
    }
    if (op && depth < MAX_NESTED && (op->kind == OP_ADD || op->kind == OP_SUB)) {
        return add_sum(b, op->operands[0], axes, times, limit, depth + 1) &&
               add_sum(b, op->operands[1], axes, op->kind == OP_SUB ? -times : times, limit,
                       depth + 1);
    }
    NestAxes inner;
    if (op && depth < MAX_NESTED && op_moves_axes(op) && op->operands[0]->type->rank > 0 &&
        nest_operand_axes(&b->c->nest, op, 0, axes, &inner)) {
        return add_sum(b, op->operands[0], &inner, times, limit, depth + 1);
    }
    return add_number(b, value, axes, times, limit);
}

/* The numbers and the base, and the row's index where it takes part, as large as they get. */
static Value *build_most(Bounder *b, const Limit *limit)
{
    Builder *at = &b->s->b;
    Value *sum = NULL;
    if (limit->of_row) {
        Value *row = b->c->nest.loops[b->c->nest.column - 1].binder;
        sum = build_range_fact(at, limit->of_row > 0 ? OP_END : OP_START, row);
    }
    int64_t base = limit->base - (limit->of_row > 0);
    if (limit->of_row < 0) {
        sum = build_binary(at, OP_SUB, build_i64(at, 0), sum);
    }
    for (int i = 0; i < limit->n; i++) {
        Value *number = limit->numbers[i].value;
        number = build_binary(at, OP_MAX, number, build_i64(at, -MAX_DATA));
        number = build_binary(at, OP_MIN, number, build_i64(at, MAX_DATA));
        sum = sum ? sum : build_i64(at, 0);
        sum = build_binary(at, limit->numbers[i].times > 0 ? OP_ADD : OP_SUB, sum, number);
    }
    base += limit->of_column < 0; /* the loop ends behind the last column */
    if (!sum || base) {
        sum = sum ? build_binary(at, OP_ADD, sum, build_i64(at, base)) : build_i64(at, base);
    }
    return sum;
}

static bool is_single(int64_t times)
{
    return times == 1 || times == -1;
}

static void apply(Bounder *b, const Limit *limit)
{
    Builder *at = &b->s->b;
    bool simple = is_single(limit->of_column) && (limit->of_row == 0 || is_single(limit->of_row));
    for (int i = 0; i < limit->n; i++) {
        simple = simple && is_single(limit->numbers[i].times);
    }
    if (!simple) {
        return;
    }
    Value *most = build_most(b, limit);
    if (limit->of_column < 0) { /* column <= most */
        b->hi = b->hi ? build_binary(at, OP_MIN, b->hi, most) : most;
    } else { /* column >= -most */
        Value *least = build_binary(at, OP_SUB, build_i64(at, 0), most);
        b->lo = b->lo ? build_binary(at, OP_MAX, b->lo, least) : least;
    }
}

static void add_condition(Bounder *b, Value *condition, const NestAxes *axes, int depth)
{
    const Op *op = condition->def;
    NestAxes inner;
    if (!op || depth > MAX_NESTED) {
        return;
    }
    if (op->kind == OP_AND) {
        add_condition(b, op->operands[0], axes, depth + 1);
        add_condition(b, op->operands[1], axes, depth + 1);
    } else if (op_moves_axes(op) && nest_operand_axes(&b->c->nest, op, 0, axes, &inner)) {
        add_condition(b, op->operands[0], &inner, depth + 1);
    } else if (op->kind == OP_CMP && op->operands[0]->type->dtype == DT_I64) {
        const char *pred = op_word(op, ATTR_PRED);
        bool less = pred[0] == 'l';
        Limit limit = {.base = pred[1] == 't' ? -1 : 0};
        if ((less || pred[0] == 'g') &&
            add_sum(b, op->operands[less], axes, 1, &limit, 0) &&
            add_sum(b, op->operands[!less], axes, -1, &limit, 0)) {
            apply(b, &limit);
        }
    }
}

/* The conditions without which a term is -inf, or 0 where there is no maximum. */
static void find_conditions(Bounder *b, const Value *value, const NestAxes *axes, int depth,
                            Conditions *found)
{
    const Op *op = value->def;
    NestAxes inner;
    if (!op || depth > MAX_NESTED || !memo_visit(b->seen, value)) {
        return;
    }
    double nothing = b->c->max ? -__builtin_inf() : 0;
    if (op->kind == OP_SELECT && value_is_const(op->operands[2], nothing)) {
        if (found->n < MAX_CONDITIONS) {
            found->items[found->n++] = (Condition){op->operands[0], *axes};
        }
        find_conditions(b, op->operands[1], axes, depth + 1, found);
    } else if (!b->c->max && (op->kind == OP_CAST || op->kind == OP_MUL)) {
        for (int i = 0; i < op->n_operands; i++) {
            find_conditions(b, op->operands[i], axes, depth + 1, found);
        }
    } else if (op_moves_axes(op) && nest_operand_axes(&b->c->nest, op, 0, axes, &inner)) {
        find_conditions(b, op->operands[0], &inner, depth + 1, found);
    }
}

static Conditions conditions_of(Bounder *b, const Value *terms)
{
    Conditions found = {.n = 0};
    b->seen = memo_open(b->c->nest.func);
    find_conditions(b, terms, &b->c->terms, 0, &found);
    memo_close(b->seen);
    return found;
}

/* A tile is left out if it changes no state of any terms. */
static void keep_common(Conditions *common, const Conditions *with)
{
    int n = 0;
    for (int i = 0; i < common->n; i++) {
        bool found = false;
        for (int k = 0; k < with->n && !found; k++) {
            found = with->items[k].value == common->items[i].value;
        }
        common->items[n] = common->items[i];
        n += found;
    }
    common->n = n;
}

void cascade_bounds(Cascade *c, NestScope *s, Value **lo, Value **hi)
{
    Bounder b = {.c = c, .s = s};
    Dim extent = c->nest.loops[c->nest.column].extent;
    Conditions common = conditions_of(&b, c->of);
    for (int i = 0; i < c->n_exps && !c->max; i++) {
        Conditions other = conditions_of(&b, c->exps[i].value);
        keep_common(&common, &other);
    }
    for (int i = 0; i < common.n; i++) {
        add_condition(&b, common.items[i].value, &common.items[i].axes, 0);
    }
    Value *zero = build_i64(&s->b, 0);
    *lo = b.lo ? build_binary(&s->b, OP_MAX, b.lo, zero) : zero;
    *hi = b.hi;
    const Op *end = *hi ? (*hi)->def : NULL;
    bool same = end && end->kind == OP_END && c->nest.loops[c->nest.column - 1].extent == extent;
    if (!same) {
        Value *all = build_size(&s->b, extent);
        *hi = *hi ? build_binary(&s->b, OP_MIN, *hi, all) : all;
    }
}
