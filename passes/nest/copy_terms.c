/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the values that are terms of dots, and copies the terms of one dot for a nest that computes
 * them itself (separate_terms.c). The copy has the terms' last two axes exchanged where they are
 * the product's right operand, since products get such operands on their left. Operands that are
 * sums of rows, and reciprocals of these, are not copied: each copy reads them from memory. */
#include "passes/nest/separate_terms.h"

#include "ir/op_axes.h"
#include "passes/nest/nest.h"

/* ---- which values are terms ---- */

bool nest_passes_terms(const Op *op)
{
    return op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
}

bool nest_is_term(const Separation *s, const Value *value)
{
    const Op *op = value->def;
    int64_t found;
    if (!op || !nest_passes_terms(op) || memo_known(s->products, value, 0, &found)) {
        return op && nest_passes_terms(op) && found;
    }
    bool term = false;
    for (int i = 0; i < op->n_operands && !term; i++) {
        term = value_def_of_kind(op->operands[i], OP_DOT) || nest_is_term(s, op->operands[i]);
    }
    return memo_keep(s->products, value, 0, term) != 0;
}

bool nest_is_sum_of_terms(const Separation *s, const Op *op)
{
    return op->kind == OP_REDUCE && op->n_operands == 1 &&
           (nest_is_term(s, op->operands[0]) || value_def_of_kind(op->operands[0], OP_DOT));
}

bool nest_is_of_rows(const Separation *s, const Value *value)
{
    const Op *op = value->def;
    int64_t found;
    if (!op || memo_known(s->rows, value, 0, &found)) {
        return op && found;
    }
    bool rows = nest_is_sum_of_terms(s, op);
    for (int i = 0; nest_passes_terms(op) && i < op->n_operands && !rows; i++) {
        rows = nest_is_of_rows(s, op->operands[i]);
    }
    return memo_keep(s->rows, value, 0, rows) != 0;
}

bool nest_is_plain_product(const Op *op)
{
    return op->kind == OP_DOT && op->n_operands == 2 && !op_int(op, ATTR_TA, 0) &&
           !op_int(op, ATTR_TB, 0);
}

/* ---- copies ---- */

typedef struct TermCopy {
    Separation *s;
    Builder b;
    Value **made[2]; /* by value, as it is and transposed */
    uint32_t n_values;
} TermCopy;

static Value *swapped(Builder *b, Value *value)
{
    int64_t perm[MAX_RANK];
    int rank = value->type->rank;
    for (int i = 0; i < rank; i++) {
        perm[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    }
    return rank < 2 ? value : build_permute(b, value, perm);
}

static Type swapped_type(const Func *func, Type type)
{
    Dim dims[MAX_RANK];
    int rank = type->rank;
    for (int i = 0; i < rank; i++) {
        dims[i] = type->dims[i < rank - 2 ? i : 2 * rank - 3 - i];
    }
    return type_array((Func *)(uintptr_t)func, type->dtype, rank, dims);
}

bool nest_swaps_last(const Op *op)
{
    const Attr *perm = op->kind == OP_PERMUTE ? op_attr(op, ATTR_PERM) : NULL;
    bool same = perm && perm->n >= 2;
    for (int i = 0; same && i < perm->n; i++) {
        same = perm->ints[i] == (i < perm->n - 2 ? i : 2 * perm->n - 3 - i);
    }
    return same;
}

static Value *copy_term(TermCopy *c, Value *value, bool transposed);

/* 1 / r, behind r. */
static Value *reciprocal(Separation *s, Value *of)
{
    for (size_t i = 0; i < s->reciprocals.n; i++) {
        if (s->reciprocals.items[i].of == of) {
            return s->reciprocals.items[i].by;
        }
    }
    Builder b = build_after(s->func, of->def);
    b.span = of->def->span;
    Value *by = build_binary(&b, OP_DIV, build_float(&b, of->type, 1), of);
    ARENA_PUSH(s->func->arena, &s->reciprocals, ((Reciprocal){of, by}));
    return by;
}

static bool is_row(const Separation *s, const Value *value)
{
    bool row = value && value->def && nest_is_sum_of_terms(s, value->def);
    for (size_t i = 0; i < s->reciprocals.n && !row; i++) {
        row = s->reciprocals.items[i].by == value;
    }
    return row;
}

/* Notes operands that are sums of rows of an op that the copy has for itself. */
static void note_row_use(TermCopy *c, const Value *value)
{
    Op *copy = value->id >= c->n_values ? value->def : NULL;
    for (int i = 0; copy && i < copy->n_operands; i++) {
        if (is_row(c->s, copy->operands[i])) {
            ARENA_PUSH(c->s->func->arena, &c->s->uses, ((RowUse){copy, i}));
        }
    }
}

static Value *copy_dot(TermCopy *c, const Op *dot)
{
    Value *left = copy_term(c, dot->operands[1], true);
    Value *right = copy_term(c, dot->operands[0], true);
    Value *made = build_dot(&c->b, left, right, NULL, dot->results[0]->type->dtype);
    made->def->attrs = dot->attrs;
    made->def->n_attrs = dot->n_attrs;
    return made;
}

/* Of an axis that is new: among the last two it is the other one. */
static Value *copy_expand(TermCopy *c, const Op *op)
{
    int rank = op->results[0]->type->rank, axis = (int)op_int(op, ATTR_AXIS, 0);
    bool of_last = axis >= rank - 2;
    Value *operand = copy_term(c, op->operands[0], !of_last);
    return build_expand(&c->b, operand, of_last ? 2 * rank - 3 - axis : axis);
}

static Value *copy_broadcast(TermCopy *c, const Op *op, bool transposed)
{
    Value *operand = copy_term(c, op->operands[0], transposed);
    if (transposed && operand->type->rank == 1) {
        operand = build_expand(&c->b, operand, 1);
    }
    Type type = op->results[0]->type;
    type = transposed ? swapped_type(c->s->func, type) : type;
    return build_broadcast(&c->b, operand, type->rank, type->dims);
}

static Value *copy_elementwise(TermCopy *c, const Op *op, bool transposed)
{
    Value *operands[4];
    Type type = op->results[0]->type;
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = copy_term(c, op->operands[i], transposed);
    }
    type = transposed ? swapped_type(c->s->func, type) : type;
    Op *copy = build_op(&c->b, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->attrs = op->attrs;
    copy->n_attrs = op->n_attrs;
    copy->results[0]->name = op->results[0]->name;
    return copy->results[0];
}

/* x / r of a sum of a row as x * (1 / r): it divides each element of a row. NULL: other ops. */
static Value *copy_quotient(TermCopy *c, const Op *op, bool transposed)
{
    const Op *spread = op->kind == OP_DIV && op->results[0]->type->dtype == DT_F32
                           ? value_def_of_kind(op->operands[1], OP_BROADCAST)
                           : NULL;
    const Op *sum = spread ? value_def_of_kind(spread->operands[0], OP_REDUCE) : NULL;
    if (!sum || !nest_is_sum_of_terms(c->s, sum)) {
        return NULL;
    }
    Value *dividend = copy_term(c, op->operands[0], transposed);
    Value *by = reciprocal(c->s, sum->results[0]);
    by = transposed ? swapped(&c->b, by) : by;
    by = build_broadcast(&c->b, by, dividend->type->rank, dividend->type->dims);
    note_row_use(c, by);
    note_row_use(c, by->def->operands[0]);
    return build_binary(&c->b, OP_MUL, dividend, by);
}

/* The terms under the condition, which bounds their loop. NULL: other ops. */
static Value *copy_power(TermCopy *c, const Op *op, bool transposed)
{
    const Op *select = nest_chosen_power(op);
    if (!select) {
        return NULL;
    }
    const Op *sub = op->operands[0]->def;
    Value *of = copy_term(c, select->operands[1], transposed);
    Value *max = copy_term(c, sub->operands[1], transposed);
    Value *operands[] = {build_binary(&c->b, OP_SUB, of, max)};
    Type type = of->type;
    Op *power = build_op(&c->b, OP_NAMED, 1, operands, 1, &type, 0);
    power->attrs = op->attrs;
    power->n_attrs = op->n_attrs;
    Value *zero = build_float(&c->b, type, 0);
    Value *condition = copy_term(c, select->operands[0], transposed);
    return build_select(&c->b, condition, power->results[0], zero);
}

static Value *copy_number(TermCopy *c, const Value *value)
{
    Type type = swapped_type(c->s->func, value->type);
    const Attr *number = value_const(value);
    return dtype_is_float(type->dtype) ? build_float(&c->b, type, number->f)
                                       : build_int(&c->b, type, number->i);
}

static Value *copy_op(TermCopy *c, Value *value, bool transposed)
{
    const Op *op = value->def;
    bool wanted = nest_is_term(c->s, value) || nest_is_of_rows(c->s, value);
    if (!op || value->type->rank < (transposed ? 2 : 0)) {
        return value;
    }
    if (op->kind == OP_DOT && (!transposed || nest_is_plain_product(op))) {
        return transposed ? copy_dot(c, op) : value;
    }
    if (nest_swaps_last(op)) {
        return copy_term(c, op->operands[0], !transposed);
    }
    switch (op->kind) {
    case OP_BROADCAST: return wanted || transposed ? copy_broadcast(c, op, transposed) : value;
    case OP_EXPAND: return transposed ? copy_expand(c, op) : value;
    case OP_CONST: return transposed ? copy_number(c, value) : value;
    default: break;
    }
    if (op_has(op, TRAIT_ELEMENTWISE) && op->n_operands <= 4 && (wanted || transposed)) {
        Value *by = copy_quotient(c, op, transposed);
        by = by ? by : copy_power(c, op, transposed);
        return by ? by : copy_elementwise(c, op, transposed);
    }
    return transposed ? swapped(&c->b, value) : value;
}

static Value *copy_term(TermCopy *c, Value *value, bool transposed)
{
    Value **made = value->id < c->n_values ? &c->made[transposed][value->id] : NULL;
    if (!made || !*made) {
        Span span = c->b.span;
        c->b.span = value->def ? value->def->span : span;
        Value *by = copy_op(c, value, transposed);
        c->b.span = span;
        if (!made) {
            return by;
        }
        *made = by;
        note_row_use(c, by);
    }
    return *made;
}

/* The product with a copy of its terms on its left. */
void nest_copy_terms(Separation *s, Separated *item)
{
    Func *func = s->func;
    Op *dot = item->dot;
    TermCopy c = {.s = s, .b = build_before(func, dot), .n_values = func->n_values};
    c.b.span = dot->span;
    for (int i = 0; i < 2; i++) {
        c.made[i] = ARENA_ARRAY(func->arena, Value *, func->n_values);
    }
    if (item->side == 0) {
        item->made = dot;
        op_set_operand(dot, 0, copy_term(&c, item->operand, false));
        return;
    }
    Value *made = copy_dot(&c, dot);
    item->made = made->def;
    func_replace_uses(func, dot->results[0], swapped(&c.b, made));
}

/* The value, read from memory before `first`, where axes of one element have no place. */
static Value *read_row(Func *func, Value *row, Op *first)
{
    Builder b = build_after(func, row->def);
    int rank = row->type->rank, unit = -1;
    for (int i = rank - 1; i >= rank - 2 && i >= 0 && rank > 1; i--) {
        unit = poly_is_number(row->type->dims[i], 1) ? i : unit;
    }
    b.span = row->def->span;
    Value *read = nest_store(func, unit < 0 ? row : build_squeeze(&b, row, unit));
    op_move_before(read->def, first);
    b = build_after(func, read->def);
    b.span = row->def->span;
    return unit < 0 ? read : build_expand(&b, read, unit);
}

/* The copies read sums of rows from memory: these are not results that the nest of the sums would
 * continue with. They do so as late as possible, since that nest stands before the first of them
 * and behind all that it reads itself. */
void nest_store_rows(Separation *s)
{
    for (size_t i = 0; i < s->uses.n; i++) {
        Value *row = s->uses.items[i].op->operands[s->uses.items[i].at], *read = NULL;
        Op *first = s->uses.items[i].op;
        for (size_t k = i; k < s->uses.n && is_row(s, row); k++) {
            const RowUse *use = &s->uses.items[k];
            first = use->op->operands[use->at] == row && op_is_before(use->op, first) ? use->op
                                                                                      : first;
        }
        for (size_t k = i; k < s->uses.n && is_row(s, row); k++) {
            const RowUse *use = &s->uses.items[k];
            if (use->op->operands[use->at] == row) {
                read = read ? read : read_row(s->func, row, first);
                op_set_operand(use->op, use->at, read);
            }
        }
    }
}
