/* SPDX-License-Identifier: Apache-2.0 */
/* Gives each of several sums that share terms its own copy of them. A nest computes its terms
 * itself, so terms that another op also needs would have to be stored as an array in memory. In the
 * gradient of attention, for example, three dots and three row sums need the same exponentials.
 *
 *   %p = cast (exp (%s - %m) / %l)               store %u, %m; store %z, %l
 *   %v = dot (permute %g), %p            →       %p = cast (exp (permute %s - %u) / %z)
 *   %o = dot %p, %w                              %v = permute (dot %p, %g)
 *                                                %q = cast (exp (%s - %u) / %z)
 *                                                %o = dot %q, %w
 *
 * The copied operand becomes the left operand of its dot, along the rows of the result. Row sums
 * that the copies need are read from memory. Either all uses of the terms get copies or none does,
 * because a remaining array would have to be computed as well. */
#include "passes/nest/separate_terms.h"

#include "ir/op_axes.h"
#include "ir/summed_factor.h"
#include "passes/nest/nest.h"

/* ---- which terms ---- */

/* The operand of the product that is made of terms; -1: neither, or both. */
static int side_of_terms(const Separation *s, const Op *dot)
{
    bool plain = nest_is_plain_product(dot);
    bool left = plain && nest_is_term(s, dot->operands[0]);
    bool right = plain && nest_is_term(s, dot->operands[1]);
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
                 (nest_passes_terms(op) ? is_closed(s, op->results[0])
                                        : nest_is_sum_of_terms(s, op) || side_of_terms(s, op) >= 0);
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
    if (!nest_is_term(walk->s, value)) {
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
        if (!nest_is_sum_of_terms(s, op) || !text_equal(op_word(op, ATTR_FN), "sum")) {
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
    return item->side == 0 && !nest_swaps_last(op);
}

static Op *last_maximum(const Separation *s)
{
    Op *max = NULL;
    for (Op *op = s->func->body->first; op; op = op->next) {
        bool is_max = nest_is_sum_of_terms(s, op) && text_equal(op_word(op, ATTR_FN), "max");
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
            nest_copy_terms(s, &s->items[i]);
            n++;
        }
    }
    bool all = n > 0 && (!but_columns || (max && n < s->n));
    for (int i = 0; i < s->n && all; i++) {
        all = !s->items[i].made || has_nest(s->func, s->items[i].made);
    }
    if (all) {
        nest_store_rows(s);
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
