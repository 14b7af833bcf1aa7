/* SPDX-License-Identifier: Apache-2.0 */
/* print(…) and assert(condition, …) become an op that produces one message for each open index and
 * each element of its arguments. A message is a text with placeholders; its first values are the
 * coordinates of the element, by which all messages are sorted. */
#include "frontend/lower/lower_index.h"

enum { MAX_MESSAGE_VALUES = 16 };

typedef struct Message {
    const Expr *expr;
    bool fails; /* assert */
    Val vals[MAX_MESSAGE_VALUES];
    int n, parts;
    Shape slot;
    Text text;
} Message;

static bool wrong_use(Lower *l, const Message *s)
{
    Diag *diag = lower_wrong_call(l, s->expr);
    diag_help(l->diags, diag, "%s",
              s->fails ? "write `assert(condition)`, or `assert(condition, \"text\", x, …)`"
                       : "write `print(\"text\", x, …)`: texts and values in any order");
    return false;
}

/* "assertion failed: too large: 3", "x 3 4" */
static void separate(Message *s)
{
    if (s->parts > 0) {
        text_add(&s->text, " ");
    } else if (s->fails) {
        text_add(&s->text, ": ");
    }
    s->parts++;
}

static bool add_value(Lower *l, Message *s, const Expr *expr)
{
    Val val = lower_operand(l, expr);
    Shape shape = shape_of(&val);
    if (is_poison(&val)) {
        return false;
    }
    if (s->n == MAX_MESSAGE_VALUES) {
        Diag *diag = lower_error(l, ERR_ARGUMENTS, expr->span, "more than %d values",
                                 (int)MAX_MESSAGE_VALUES);
        diag_help(l->diags, diag, "print the rest in another statement");
        return false;
    }
    if (!broadcast_shapes(l, expr->span, NULL, &s->vals[s->n ? s->n - 1 : 0], expr, &val, &s->slot,
                          &shape, &s->slot)) {
        return false;
    }
    s->vals[s->n++] = val;
    return true;
}

static bool take_argument(Lower *l, Message *s, const Expr *expr)
{
    if (expr->kind == EXPR_NAMED) {
        return wrong_use(l, s);
    }
    if (expr->kind == EXPR_TEXT) {
        /* In a format text, a brace begins a placeholder: one of the program is doubled. */
        const char *text = expr->name;
        separate(s);
        for (const char *c = text; *c; c++) {
            text_add(&s->text, *c == '{' ? "{{" : "");
            if (*c != '{') {
                text_char(&s->text, *c);
            }
        }
        return true;
    }
    if (!add_value(l, s, expr)) {
        return false;
    }
    separate(s);
    text_printf(&s->text, "{%d}", s->n - 1 - s->fails);
    return true;
}

static bool take_condition(Lower *l, Message *s)
{
    const Expr *expr = s->expr->args.n ? s->expr->args.items[0] : NULL;
    if (!expr || expr->kind == EXPR_TEXT || expr->kind == EXPR_NAMED) {
        return wrong_use(l, s);
    }
    if (!add_value(l, s, expr)) {
        return false;
    }
    if (dtype_of(&s->vals[0]) != DT_BOOL) {
        not_a_condition(l, expr, &s->vals[0]);
        return false;
    }
    return true;
}

/* True for a condition that is known when compiling; a false one is an error. */
static bool is_known(Lower *l, const Message *s)
{
    const Val *condition = &s->vals[0];
    if (!s->fails || condition->kind != VAL_CONST) {
        return false;
    }
    if (!condition->scalar.i && !l->branches && !l->lane_loop && !l->loops) {
        lower_error(l, ERR_ASSERTION, s->expr->span, "this assertion never holds");
    }
    return condition->scalar.i || (!l->branches && !l->lane_loop && !l->loops);
}

/* ---- the coordinates of an element ---- */

/* The index along own axis `axis`, in the shape of the slot. */
static Value *axis_index(Lower *l, const Message *s, int axis)
{
    const DimVar *range = poly_as_range(s->slot.dims[axis]);
    Val index = range ? array_val(build_index(&l->b, range->binder, DT_I64))
                      : iota_val(l, s->slot.dims[axis], 0);
    for (int i = axis + 1; i < s->slot.rank; i++) {
        index.value = build_expand(&l->b, index.value, i - axis);
    }
    return materialize(l, &index, DT_I64, &s->slot);
}

/* Of a program that is tiled by hand, the tile: its begin along each axis. */
static int tile_values(Lower *l, const Message *s, Value **out)
{
    int n = l->parallel_block ? l->parallel_block->n_args : 0;
    for (int i = 0; out && i < n; i++) {
        Value *arg = l->parallel_block->args[i];
        bool range = arg->type->kind == TYPE_RANGE;
        Val at = array_val(range ? build_range_fact(&l->b, OP_START, arg) : arg);
        out[i] = materialize(l, &at, DT_I64, &s->slot);
    }
    return n;
}

static int coordinate_values(Lower *l, const Message *s, Value **out)
{
    int n = tile_values(l, s, out);
    for (int i = 0; i < l->n_lanes; i++) {
        if (s->slot.lanes >> i & 1) {
            out[n++] = materialize(l, &l->lanes[i].index, DT_I64, &s->slot);
        }
    }
    for (int i = 0; i < s->slot.rank; i++) {
        out[n++] = axis_index(l, s, i);
    }
    return n;
}

/* ---- the op ---- */

static Value *condition_value(Lower *l, const Message *s)
{
    Val yes = bool_val(true);
    if (!s->fails) {
        return materialize(l, l->mask.kind == VAL_ARRAY ? &l->mask : &yes, DT_BOOL, &s->slot);
    }
    Value *holds = materialize(l, &s->vals[0], DT_BOOL, &s->slot);
    if (l->mask.kind != VAL_ARRAY) {
        return holds;
    }
    Value *asked = materialize(l, &l->mask, DT_BOOL, &s->slot);
    return build_binary(&l->b, OP_OR, holds, build_unary(&l->b, OP_NOT, asked));
}

static void build_message(Lower *l, Message *s)
{
    Value *values[MAX_MESSAGE_VALUES + 2 * MAX_RANK];
    Shape full;
    int first = s->fails ? 1 : 0, n = 0;
    s->slot.lanes |= lanes_from(l, 0);
    if (!full_shape(l, s->expr->span, &s->slot, &full)) {
        return;
    }
    if (l->lane_loop && s->slot.rank > 0) {
        mixes_lanes(l, s->expr->span, s->fails ? "assert" : "print");
        return;
    }
    const char *before = " where ";
    int at = s->n - s->fails + tile_values(l, s, NULL);
    for (int i = 0; i < l->n_lanes; i++) {
        if (s->slot.lanes >> i & 1) {
            if (s->fails) {
                text_printf(&s->text, "%s%s = {%d}", before, l->lanes[i].name, at);
                before = ", ";
            }
            at++;
        }
    }
    for (int i = 0; i < s->slot.rank; i++) {
        text_printf(&s->text, "%s{%d}", i ? ", " : " at [", at++);
    }
    text_add(&s->text, s->slot.rank ? "]" : "");

    for (int i = first; i < s->n; i++) {
        DType dtype = dtype_of(&s->vals[i]);
        values[n++] = materialize(l, &s->vals[i], dtype, &s->slot);
    }
    Value *when = condition_value(l, s);
    int places = coordinate_values(l, s, values + n);
    Op *op = build_say(&l->b, s->fails ? OP_ASSERT : OP_PRINT, s->text.n ? s->text.data : "", when,
                       n + places, values);
    op_set_int(l->func, op, ATTR_N_COORDS, places);
    op_set_int(l->func, op, ATTR_SITE, l->n_messages++);
    op->span = s->expr->span;
}

void lower_print(Lower *l, const Expr *expr, MessageKind kind)
{
    Message s = {.expr = expr, .fails = kind == MESSAGE_ASSERT, .text = text_new(l->arena)};
    s.vals[0] = bool_val(true); /* the first value meets it */
    text_add(&s.text, s.fails ? "assertion failed" : "");
    if (expr->args.n == 0) {
        wrong_use(l, &s);
        return;
    }
    if (s.fails && !take_condition(l, &s)) {
        return;
    }
    for (size_t i = s.fails; i < expr->args.n; i++) {
        if (!take_argument(l, &s, expr->args.items[i])) {
            return;
        }
    }
    if (!is_known(l, &s)) {
        build_message(l, &s);
    }
}
