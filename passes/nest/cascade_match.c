/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes cascaded reductions: a maximum, and sums whose terms have as a factor the exponential
 * of the difference from that maximum; or, without a maximum, sums whose terms are computed from a
 * dot. No other op may use the terms, the differences or the exponentials. */
#include "passes/nest/nest.h"

#include "ir/op_axes.h"
#include "ir/summed_factor.h"

static bool is_fn(const Op *op, const char *fn)
{
    return op->kind == OP_REDUCE && op->n_operands == 1 && text_equal(op_word(op, ATTR_FN), fn);
}

static bool is_inf(const Value *value, double inf)
{
    return value_is_const(value_unstretched(value), inf);
}

/* `select (x == inf), 0, r` of a maximum r, for x = r with -inf, or |r|. */
static bool is_reference(const Op *op, const Value *max, ReferenceKind *kind)
{
    const Op *cmp = op->kind == OP_SELECT ? op->operands[0]->def : NULL;
    if (!cmp || cmp->kind != OP_CMP || op->operands[2] != max ||
        !value_is_const(value_unstretched(op->operands[1]), 0) ||
        !text_equal(op_word(cmp, ATTR_PRED), "eq")) {
        return false;
    }
    const Op *abs = value_def_of_kind(cmp->operands[0], OP_ABS);
    bool infinite = abs && abs->operands[0] == max && is_inf(cmp->operands[1], __builtin_inf());
    bool empty = cmp->operands[0] == max && is_inf(cmp->operands[1], -__builtin_inf());
    *kind = infinite ? REFERENCE_INFINITE : REFERENCE_EMPTY;
    return infinite || empty;
}

static bool is_exponential(const Op *op)
{
    const char *fn = op->kind == OP_NAMED ? op_word(op, ATTR_FN) : "";
    return op->kind == OP_FAST_EXP2 || text_equal(fn, "exp") || text_equal(fn, "exp2");
}

static bool add_exp(Cascade *c, Value *value, Value *reference, ReferenceKind kind)
{
    if (c->n_exps == MAX_EXPS) {
        return false;
    }
    c->exps[c->n_exps++] = (CascadeExp){value, reference, kind};
    return true;
}

/* A positive factor of the difference. */
static bool is_scaled(const Op *op, const Value *difference)
{
    for (int i = 0; op->kind == OP_MUL && i < 2; i++) {
        const Attr *factor = value_const(op->operands[1 - i]);
        if (op->operands[i] == difference && factor && factor->f > 0 &&
            factor->f < __builtin_inf()) {
            return true;
        }
    }
    return false;
}

/* The exponentials of a difference; false: something else needs it. */
static bool find_exps(Cascade *c, Value *difference, Value *reference, ReferenceKind kind,
                      bool scaled)
{
    const Block *body = c->nest.func->body;
    c->inner[difference->id] = true;
    for (const ValueUse *use = use_first(difference, body); use; use = use_next(use, body)) {
        Op *op = use->op;
        if (is_exponential(op)) {
            c->inner[op->results[0]->id] = true;
            if (!add_exp(c, op->results[0], reference, kind)) {
                return false;
            }
        } else if (scaled || !is_scaled(op, difference) ||
                   !find_exps(c, op->results[0], reference, kind, true)) {
            return false;
        }
    }
    return true;
}

/* The differences of the terms from what the maximum is there. */
static bool find_differences(Cascade *c, Value *reference, ReferenceKind kind)
{
    const Value *terms = c->of;
    const Block *body = c->nest.func->body;
    for (const ValueUse *use = use_first(reference, body); use; use = use_next(use, body)) {
        Op *spread = use->op;
        if (spread->kind != OP_BROADCAST || spread->results[0]->type != terms->type) {
            continue;
        }
        const Value *at = spread->results[0];
        for (const ValueUse *of = use_first(at, body); of; of = use_next(of, body)) {
            if (of->op->kind == OP_SUB && of->op->operands[0] == terms &&
                of->op->operands[1] == at &&
                !find_exps(c, of->op->results[0], reference, kind, false)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- from exponentials to sums ---- */

bool cascade_leaves_sum(const Cascade *c, const Op *step, int *operand)
{
    *operand = 0;
    if (step->kind == OP_SELECT) {
        return c->inner[step->operands[1]->id] && value_is_const(step->operands[2], 0) &&
               value_is_equal_along(step->operands[0], c->axis);
    }
    for (int i = 0; i < 2 && (step->kind == OP_MUL || step->kind == OP_DIV); i++) {
        const Value *factor = step->operands[i];
        if (!c->inner[factor->id] && value_is_equal_along(factor, c->axis)) {
            *operand = i;
            return true;
        }
    }
    return false;
}

/* Does a factor that stays in the sum depend on the maximum? */
static bool is_free(const Cascade *c, const Op *op, int but)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (i != but && nest_depends(&c->nest, op->operands[i])) {
            return false;
        }
    }
    return true;
}

/* A step from a term to one that is a factor times it, rounded or chosen. */
static bool is_step(const Cascade *c, const Op *op, const Value *term)
{
    int operand;
    switch (op->kind) {
    case OP_MUL: {
        int at = op->operands[1] == term;
        return op->operands[0] != op->operands[1] &&
               (cascade_leaves_sum(c, op, &operand) || is_free(c, op, at));
    }
    case OP_DIV:
        return op->operands[0] == term && op->operands[1] != term &&
               cascade_leaves_sum(c, op, &operand);
    case OP_CAST: {
        bool widens = !c->max && dtype_is_narrow(term->type->dtype) &&
                      op->results[0]->type->dtype == DT_F32;
        return widens || (term->type->dtype == DT_F32 && (op->results[0]->type->dtype == DT_F16 ||
                                                          op->results[0]->type->dtype == DT_BF16));
    }
    case OP_SELECT:
        return op->operands[1] == term && value_is_const(op->operands[2], 0) &&
               (cascade_leaves_sum(c, op, &operand) || is_free(c, op, 1));
    case OP_NEG: return true;
    default: return false;
    }
}

/* Is the factor a number near 1, or made of the sums themselves, by which they are normalized? */
static bool is_close_to_one(const Cascade *c, const Value *factor)
{
    const Attr *number = value_const(value_unstretched(factor));
    return number ? number->f >= 0.125 && number->f <= 8 : nest_depends(&c->nest, factor);
}

/* Where the terms are rounded to f16, which has a small range, what leaves the sum must leave no
 * other factor than the exponential, which is at most 1, and must not make up for terms that are
 * too small for f16 without it. */
static bool stays_in_range(const Cascade *c, const CascadeFold *fold)
{
    int operand, n_moved = 0, n_kept = 0;
    bool close_to_one = true;
    for (int i = 0; i < fold->n_path; i++) {
        const Op *step = fold->path[i];
        bool moved = step->kind != OP_SELECT && cascade_leaves_sum(c, step, &operand);
        close_to_one = close_to_one && (!moved || is_close_to_one(c, step->operands[operand]));
        n_moved += moved;
        n_kept += step->kind == OP_MUL && !moved;
        if (step->kind == OP_CAST && step->results[0]->type->dtype == DT_F16 && n_moved &&
            (n_kept || !close_to_one || !c->max)) {
            return false;
        }
    }
    return true;
}

static bool is_unmasked(const Value *value, int depth)
{
    enum { MAX_DEPTH = 12 };
    const Op *op = value->def;
    if (!op || depth == MAX_DEPTH) {
        return false;
    }
    bool scales = op->kind == OP_DIV || op->kind == OP_NEG || op->kind == OP_NAMED;
    bool right = op->kind == OP_MUL && is_unmasked(op->operands[1], depth + 1);
    return op->kind == OP_DOT || right ||
           ((scales || op->kind == OP_MUL || op_moves_axes(op)) &&
            is_unmasked(op->operands[0], depth + 1));
}

bool nest_is_unmasked(const Value *value)
{
    return is_unmasked(value, 0);
}

/* Of a row of -inf alone the terms are NaN, but for those that a condition drops: whether there are
 * others is not known behind the loop. */
static bool has_known_exit(const Cascade *c, const CascadeFold *fold)
{
    bool drops = false;
    int operand;
    for (int i = 0; i < fold->n_path; i++) {
        const Op *step = fold->path[i];
        drops = drops || (step->kind == OP_SELECT && !cascade_leaves_sum(c, step, &operand));
    }
    return !drops || c->exps[fold->exp].kind != REFERENCE_PLAIN ||
           nest_is_unmasked(c->of);
}

static bool add_fold(Cascade *c, const CascadeFold *fold)
{
    if (c->n_folds == MAX_FOLDS || !stays_in_range(c, fold) || !has_known_exit(c, fold)) {
        return false;
    }
    int at = c->n_folds++; /* in the order of the program */
    for (; at > 0 && op_is_before(fold->op, c->folds[at - 1].op); at--) {
        c->folds[at] = c->folds[at - 1];
    }
    c->folds[at] = *fold;
    return true;
}

/* The operand of a product that has the term, if the product contracts the reduced axis; else
 * -1. */
static int contracted_side(const Cascade *c, const Op *op, const Value *term)
{
    int rank = term->type->rank;
    bool plain = op->kind == OP_DOT && op->n_operands == 2 && !op_int(op, ATTR_TA, 0) &&
                 !op_int(op, ATTR_TB, 0) && op->operands[0] != op->operands[1] &&
                 op->results[0]->type->dtype == DT_F32;
    int side = plain && op->operands[1] == term;
    bool along = plain && c->axis == (side ? rank - 2 : rank - 1);
    return along && is_free(c, op, side) ? side : -1;
}

/* The sums of a term; false: something else needs it. */
static bool find_folds(Cascade *c, Value *term, CascadeFold *so_far)
{
    const Block *body = c->nest.func->body;
    c->inner[term->id] = true;
    for (const ValueUse *use = use_first(term, body); use; use = use_next(use, body)) {
        Op *op = use->op;
        CascadeFold fold = *so_far;
        fold.op = op;
        if (op->parent != body) {
            return false;
        }
        fold.side = contracted_side(c, op, term);
        if ((is_fn(op, "sum") && op_int(op, ATTR_AXIS, 0) == c->axis &&
             term->type->dtype == DT_F32) ||
            fold.side >= 0) {
            if (!add_fold(c, &fold)) {
                return false;
            }
            continue;
        }
        if (!is_step(c, op, term) || fold.n_path == MAX_PATH) {
            return false;
        }
        fold.path[fold.n_path++] = op;
        if (!find_folds(c, op->results[0], &fold)) {
            return false;
        }
    }
    return true;
}

/* ---- what depends on the maximum ---- */

/* Are the value's sums what the nest computes, without a maximum? */
static bool is_summed(const Cascade *c, const Value *value)
{
    bool summed = !c->max && value == c->of;
    for (int i = 0; i < c->n_exps && !c->max && !summed; i++) {
        summed = c->exps[i].value == value;
    }
    return summed;
}

static void mark(Cascade *c)
{
    Func *func = c->nest.func;
    for (const Op *op = func->body->first; op; op = op->next) {
        bool depends = c->max && op == c->max, product = op->kind == OP_DOT;
        for (int i = 0; i < op->n_operands; i++) {
            const Value *operand = op->operands[i];
            depends =
                depends || (operand && (is_summed(c, operand) || c->nest.depends[operand->id]));
            product = product || (operand && op_has(op, TRAIT_ELEMENTWISE) &&
                                  c->nest.product[operand->id]);
        }
        if (op->n_results == 1 && op->kind != OP_DOT && !op_has(op, TRAIT_ELEMENTWISE) &&
            op->kind != OP_LOAD && op->kind != OP_GATHER && op->n_operands > 0) {
            product = c->nest.product[op->operands[0]->id];
        }
        for (int i = 0; i < op->n_results; i++) {
            c->nest.depends[op->results[i]->id] = depends;
            c->nest.product[op->results[i]->id] = product;
        }
    }
}

/* The rows of the terms are those of the nest; other axes are loops over scalars. */
static bool choose_loops(Cascade *c)
{
    Type type = c->of->type;
    int rank = type->rank, row = c->axis == rank - 1 ? rank - 2 : rank - 1;
    if (rank < 2 || c->axis < rank - 2) {
        return false;
    }
    Nest *nest = &c->nest;
    for (int i = 0; i < rank - 2; i++) {
        nest->loops[nest->n_loops++] = (NestLoop){type->dims[i], false, NULL};
        c->terms.items[i] = (NestAxis){NEST_LOOP, i};
    }
    nest->column = rank - 1;
    nest->loops[nest->n_loops++] = (NestLoop){type->dims[row], true, NULL};
    nest->loops[nest->n_loops++] = (NestLoop){type->dims[c->axis], true, NULL};
    c->terms.items[row] = (NestAxis){NEST_LOOP, rank - 2};
    c->terms.items[c->axis] = (NestAxis){NEST_LOOP, rank - 1};
    c->rows = c->terms;
    c->rows.items[c->axis] = (NestAxis){NEST_UNIT, 0};
    return true;
}

/* The maximum of the terms and of a further number, as of a sink. */
static void find_maximum(Cascade *c)
{
    Value *result = c->max->results[0];
    const Op *user = value_only_user(c->nest.func, result);
    c->maximum = result;
    for (int i = 0; user && user->kind == OP_MAX && user->parent == c->max->parent && i < 2; i++) {
        if (user->operands[i] == result && !nest_depends(&c->nest, user->operands[1 - i])) {
            c->maximum = user->results[0];
            c->least = user->operands[1 - i];
        }
    }
}

/* Begins with the value whose maximum, or whose sums, are looked for. */
static void begin(Cascade *c, Op *max, Value *of, int axis)
{
    Func *func = c->nest.func;
    c->max = max;
    c->of = of;
    c->first = max ? max : of->def;
    c->axis = axis;
    c->nest.n_values = func->n_values;
    c->nest.depends = ARENA_ARRAY(func->arena, bool, func->n_values);
    c->nest.product = ARENA_ARRAY(func->arena, bool, func->n_values);
    c->inner = ARENA_ARRAY(func->arena, bool, func->n_values);
    mark(c);
}

/* Finds the sums of all exponentials; false: there is no product among them, or something else
 * needs the terms. */
static bool find_all_folds(Cascade *c)
{
    bool any_dot = false;
    for (int i = 0; i < c->n_exps; i++) {
        CascadeFold fold = {.exp = i};
        if (!find_folds(c, c->exps[i].value, &fold)) {
            return false;
        }
    }
    for (int i = 0; i < c->n_folds; i++) {
        any_dot = any_dot || c->folds[i].op->kind == OP_DOT;
    }
    return any_dot || (c->separated && c->n_folds > 0);
}

bool cascade_match(Cascade *c, Op *max)
{
    if (!is_fn(max, "max") || max->results[0]->type->dtype != DT_F32) {
        return false;
    }
    begin(c, max, max->operands[0], (int)op_int(max, ATTR_AXIS, 0));
    find_maximum(c);
    Value *of = c->maximum;
    if (!choose_loops(c) || !find_differences(c, of, REFERENCE_PLAIN)) {
        return false;
    }
    const Block *body = c->nest.func->body;
    for (const ValueUse *use = use_first(of, body); use; use = use_next(use, body)) {
        ReferenceKind kind;
        if (is_reference(use->op, of, &kind) &&
            !find_differences(c, use->op->results[0], kind)) {
            return false;
        }
    }
    return find_all_folds(c);
}

/* Finds products that a value is made of element by element: notes them, or looks for one of
 * them. */
static bool see_products(Memo *seen, Memo *products, const Value *value, bool looks)
{
    const Op *op = value->def;
    bool found = false;
    if (!op || !memo_visit(seen, value)) {
        return false;
    }
    if (op->kind == OP_DOT) {
        return memo_visit(products, value) != looks;
    }
    bool follows = op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; i < op->n_operands && follows && !found; i++) {
        found = see_products(seen, products, op->operands[i], looks) && looks;
    }
    return found;
}

static bool shares_product(const Cascade *c, const Value *with)
{
    Memo *products = memo_open(c->nest.func), *seen = memo_open(c->nest.func);
    see_products(seen, products, c->of, false);
    memo_close(seen);
    seen = memo_open(c->nest.func);
    bool shares = see_products(seen, products, with, true);
    memo_close(seen);
    memo_close(products);
    return shares;
}

/* Other terms over the same axes, on the left of a product as these are, that are made of the same
 * products: one loop computes these once. */
static bool add_partners(Cascade *c, const Op *dot)
{
    const Block *body = c->nest.func->body;
    int rank = c->of->type->rank;
    for (Op *op = body->first; op && c->axis == rank - 1; op = op->next) {
        Value *terms = op->kind == OP_DOT && op != dot ? op->operands[0] : NULL;
        bool alike = terms && terms != c->of && terms->type->rank == rank && terms->def &&
                     terms->def->parent == body && c->nest.product[terms->id];
        for (int i = 0; i < rank && alike; i++) {
            alike = terms->type->dims[i] == c->of->type->dims[i];
        }
        if (!alike || !shares_product(c, terms)) {
            continue;
        }
        if (!add_exp(c, terms, NULL, REFERENCE_NONE)) {
            return false;
        }
        c->first = op_is_before(terms->def, c->first) ? terms->def : c->first;
    }
    mark(c);
    return true;
}

bool cascade_match_product(Cascade *c, const Op *dot, int side)
{
    Value *of = dot->operands[side];
    const Op *rounded = value_def_of_kind(of, OP_CAST);
    /* Sums of what is not rounded share the loop. */
    if (rounded && value_count_uses(c->nest.func, rounded->operands[0]) > 1) {
        of = rounded->operands[0];
    }
    if (!of->def || of->def->parent != c->nest.func->body) {
        return false;
    }
    begin(c, NULL, of, of->type->rank - (side ? 2 : 1));
    return c->nest.product[of->id] && choose_loops(c) && add_exp(c, of, NULL, REFERENCE_NONE) &&
           (!c->partners || add_partners(c, dot)) && find_all_folds(c);
}
