/* SPDX-License-Identifier: Apache-2.0 */
/* Terms that several sums need, each with a copy of its own: a nest computes all that its terms
 * are made of, so that terms which another op needs as well would be an array in memory. The
 * gradient of attention is the example: three products and three sums of rows need the same
 * exponentials.
 *
 *   %p = cast (exp (%s - %m) / %l)               store %u, %m; store %z, %l
 *   %v = dot (permute %g), %p            →       %p = cast (exp (permute %s - %u) / %z)
 *   %o = dot %p, %w                              %v = permute (dot %p, %g)
 *                                                %q = cast (exp (%s - %u) / %z)
 *                                                %o = dot %q, %w
 *
 * Products get such operands on their left, in rows of the result. What the copies need of sums of
 * rows they read from memory. All or none: an array that remained would be computed as well. */
#include "passes/nest/nest.h"

#include "ir/op_axes.h"
#include "ir/summed_factor.h"

enum { MAX_SEPARATED = 16 };

/* An operand that reads a sum of rows, or its reciprocal. */
typedef struct RowUse {
    Op *op;
    int at;
} RowUse;

typedef struct Reciprocal {
    const Value *of;
    Value *by;
} Reciprocal;

typedef struct Separated {
    Op *dot, *made; /* as it was, and with the copy; NULL: it has none */
    Value *operand;
    int side;
    bool shared, closed; /* do several ops need some of its terms; only products and sums? */
} Separated;

/* A product that terms are made of, and the items, as bits, whose terms they are. */
typedef struct Scores {
    const Value *dot;
    uint32_t of;
} Scores;

typedef struct Separation {
    Func *func;
    Memo *products, *rows, *closed;
    Separated items[MAX_SEPARATED];
    int n;
    struct {
        Scores *items;
        size_t n, cap;
    } scores;
    struct {
        RowUse *items;
        size_t n, cap;
    } uses;
    struct {
        Reciprocal *items;
        size_t n, cap;
    } reciprocals;
} Separation;

/* ---- which terms ---- */

static bool passes_terms(const Op *op)
{
    return op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
}

/* Is the value element-wise of a product, and no product itself? */
static bool is_term(const Separation *s, const Value *value)
{
    const Op *op = value->def;
    int64_t found;
    if (!op || !passes_terms(op) || memo_known(s->products, value, 0, &found)) {
        return op && passes_terms(op) && found;
    }
    bool term = false;
    for (int i = 0; i < op->n_operands && !term; i++) {
        term = value_def_of_kind(op->operands[i], OP_DOT) || is_term(s, op->operands[i]);
    }
    return memo_keep(s->products, value, 0, term) != 0;
}

static bool is_sum_of_terms(const Separation *s, const Op *op)
{
    return op->kind == OP_REDUCE && op->n_operands == 1 &&
           (is_term(s, op->operands[0]) || value_def_of_kind(op->operands[0], OP_DOT));
}

/* Is the value made of sums of rows of terms, and of no term? */
static bool is_of_rows(const Separation *s, const Value *value)
{
    const Op *op = value->def;
    int64_t found;
    if (!op || memo_known(s->rows, value, 0, &found)) {
        return op && found;
    }
    bool rows = is_sum_of_terms(s, op);
    for (int i = 0; passes_terms(op) && i < op->n_operands && !rows; i++) {
        rows = is_of_rows(s, op->operands[i]);
    }
    return memo_keep(s->rows, value, 0, rows) != 0;
}

static bool is_plain_product(const Op *op)
{
    return op->kind == OP_DOT && op->n_operands == 2 && !op_int(op, ATTR_TA, 0) &&
           !op_int(op, ATTR_TB, 0);
}

/* The operand of the product that is made of terms; -1: neither, or both. */
static int side_of_terms(const Separation *s, const Op *dot)
{
    bool plain = is_plain_product(dot);
    bool left = plain && is_term(s, dot->operands[0]);
    bool right = plain && is_term(s, dot->operands[1]);
    return left == right ? -1 : right;
}

/* Do all uses of the value lead to products and sums of its terms? */
static bool is_closed(const Separation *s, const Value *value)
{
    const Block *body = s->func->body;
    int64_t found;
    if (memo_known(s->closed, value, 0, &found)) {
        return found;
    }
    bool closed = true;
    for (const ValueUse *use = use_first(value, body); use && closed; use = use_next(use, body)) {
        const Op *op = use->op;
        closed = op->parent == body &&
                 (passes_terms(op) ? is_closed(s, op->results[0])
                                   : is_sum_of_terms(s, op) || side_of_terms(s, op) >= 0);
    }
    return memo_keep(s->closed, value, 0, closed) != 0;
}

typedef struct Sharing {
    Separation *s;
    Memo *seen;
    int item;
    bool shared, closed;
} Sharing;

static void note_scores(Separation *s, const Value *dot, int item)
{
    Scores *found = NULL;
    for (size_t i = 0; i < s->scores.n; i++) {
        found = s->scores.items[i].dot == dot ? &s->scores.items[i] : found;
    }
    if (found) {
        found->of |= 1u << item;
    } else {
        ARENA_PUSH(s->func->arena, &s->scores, ((Scores){dot, 1u << item}));
    }
}

/* Walks from an operand to the products that it is made of. */
static void see_terms(Sharing *walk, const Value *value)
{
    const Op *op = value->def;
    if (!op || !memo_visit(walk->seen, value)) {
        return;
    }
    if (op->kind == OP_DOT) {
        walk->closed = walk->closed && is_closed(walk->s, value);
        note_scores(walk->s, value, walk->item);
        return;
    }
    if (!is_term(walk->s, value)) {
        return;
    }
    walk->shared = walk->shared || value_count_uses(walk->s->func, value) > 1;
    for (int i = 0; i < op->n_operands; i++) {
        see_terms(walk, op->operands[i]);
    }
}

/* Are the item's terms made of a product that another item's are made of, too, or of several, whose
 * rows have a greatest element each? */
static bool is_joined(const Separation *s, int item)
{
    bool joined = false;
    int n = 0;
    for (size_t i = 0; i < s->scores.n; i++) {
        uint32_t of = s->scores.items[i].of;
        joined = joined || (of >> item & 1 && (of & (of - 1)));
        n += (of >> item & 1) != 0;
    }
    return joined || n > 1;
}

/* Finds the products that have terms in common with others: two layers of attention behind one
 * another, each with terms of its own, are two nests as they are. False: there are too many. */
static bool find_joined(Separation *s)
{
    for (Op *op = s->func->body->first; op; op = op->next) {
        int side = side_of_terms(s, op);
        if (side < 0) {
            continue;
        }
        if (s->n == MAX_SEPARATED) {
            return false;
        }
        Sharing walk = {s, memo_open(s->func), s->n, false, true};
        see_terms(&walk, op->operands[side]);
        memo_close(walk.seen);
        s->items[s->n++] =
            (Separated){op, NULL, op->operands[side], side, walk.shared, walk.closed};
    }
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        s->items[n] = s->items[i];
        n += is_joined(s, i);
    }
    s->n = n;
    return true;
}

/* Are there such products, whose terms no other op needs? */
static bool find_shared(Separation *s)
{
    bool shared = false, closed = find_joined(s);
    for (int i = 0; i < s->n; i++) {
        shared = shared || s->items[i].shared;
        closed = closed && s->items[i].closed;
    }
    return shared && closed && s->n > 0;
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

static bool swaps(const Op *op)
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
    bool row = value && value->def && is_sum_of_terms(s, value->def);
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
    if (!sum || !is_sum_of_terms(c->s, sum)) {
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
    bool wanted = is_term(c->s, value) || is_of_rows(c->s, value);
    if (!op || value->type->rank < (transposed ? 2 : 0)) {
        return value;
    }
    if (op->kind == OP_DOT && (!transposed || is_plain_product(op))) {
        return transposed ? copy_dot(c, op) : value;
    }
    if (swaps(op)) {
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
static void separate(Separation *s, Separated *item)
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
 * go on with. They do so as late as possible, since that nest stands before the first of them and
 * behind all that it reads itself. */
static void store_rows(Separation *s)
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

/* ---- sums ---- */

/* The value without factors and divisors that are equal along the axis, which are kept aside. */
typedef struct RowFactors {
    Builder b;
    int axis, n, steps;
    Value *divisors[8];
} RowFactors;

static Value *without_divisors(RowFactors *f, Value *value)
{
    enum { MAX = sizeof f->divisors / sizeof f->divisors[0], MAX_STEPS = 256 };
    const Op *op = ++f->steps > MAX_STEPS ? NULL : value->def;
    if (op && op->kind == OP_DIV && f->n < MAX && value_is_equal_along(op->operands[1], f->axis)) {
        f->divisors[f->n++] = op->operands[1];
        return without_divisors(f, op->operands[0]);
    }
    if (op && op->kind == OP_MUL) {
        Value *left = without_divisors(f, op->operands[0]);
        Value *right = without_divisors(f, op->operands[1]);
        bool same = left == op->operands[0] && right == op->operands[1];
        return same ? value : build_binary(&f->b, OP_MUL, left, right);
    }
    if (op && op->kind == OP_NEG) {
        Value *below = without_divisors(f, op->operands[0]);
        return below == op->operands[0] ? value : build_unary(&f->b, OP_NEG, below);
    }
    return value;
}

/* Sums of rows of quotients by what is equal in a row become quotients of products, so that what
 * depends on other sums of the row leaves the sum. */
static void divide_behind(Separation *s)
{
    for (Op *op = s->func->body->first; op; op = op->next) {
        if (!is_sum_of_terms(s, op) || !text_equal(op_word(op, ATTR_FN), "sum")) {
            continue;
        }
        RowFactors f = {.b = build_before(s->func, op), .axis = (int)op_int(op, ATTR_AXIS, 0)};
        f.b.span = op->span;
        Value *terms = without_divisors(&f, op->operands[0]);
        for (int i = 0; i < f.n; i++) {
            terms = build_binary(&f.b, OP_DIV, terms, f.divisors[i]);
        }
        op_set_operand(op, 0, terms);
    }
}

/* Does the product contract the columns of its terms, as the sums of their rows do? */
static bool contracts_columns(const Separated *item)
{
    const Op *op = item->operand->def;
    while (op->kind == OP_CAST) {
        op = op->operands[0]->def;
    }
    return item->side == 0 && !swaps(op);
}

static Op *last_maximum(const Separation *s)
{
    Op *max = NULL;
    for (Op *op = s->func->body->first; op; op = op->next) {
        bool is_max = is_sum_of_terms(s, op) && text_equal(op_word(op, ATTR_FN), "max");
        max = is_max ? op : max;
    }
    return max;
}

/* Separates the products, or those that do not share a loop with the sums of rows; true if there
 * would be a nest for each. */
static bool separate_all(Separation *s, NestTest has_nest, bool but_columns)
{
    Op *max = but_columns ? last_maximum(s) : NULL;
    int n = 0;
    for (int i = 0; i < s->n; i++) {
        if (!but_columns || !contracts_columns(&s->items[i])) {
            separate(s, &s->items[i]);
            n++;
        }
    }
    bool all = n > 0 && (!but_columns || (max && n < s->n));
    for (int i = 0; i < s->n && all; i++) {
        all = !s->items[i].made || has_nest(s->func, s->items[i].made);
    }
    if (all) {
        store_rows(s);
        divide_behind(s);
        func_remove_dead(s->func);
    }
    return all && (!but_columns || has_nest(s->func, max));
}

static bool attempt(Func *func, NestTest has_nest, bool but_columns)
{
    Separation s = {.func = func,
                    .products = memo_open(func),
                    .rows = memo_open(func),
                    .closed = memo_open(func)};
    Block *before = NULL;
    size_t n_params = func->params.n;
    bool separated = false;
    if (find_shared(&s)) {
        before = func_copy_block(func, func->body);
        separated = separate_all(&s, has_nest, but_columns);
    }
    if (before && !separated) {
        func->body = before;
        func->params.n = n_params;
    }
    memo_close(s.products);
    memo_close(s.rows);
    memo_close(s.closed);
    return separated;
}

bool nest_separate_terms(Func *func, NestTest has_nest)
{
    return attempt(func, has_nest, true) || attempt(func, has_nest, false);
}
