/* SPDX-License-Identifier: Apache-2.0 */
/* cascade_reductions: computes reductions that depend on another one in its loop.
 *
 *   %s = … dot %q, %k : f32[S, L]            parallel dims=[S] steps=[128] { (%i)
 *   %m = reduce %s fn=max axis=1               %l, %a, %m = for … -inf, 0, 0 dims=[L] { (%j, …)
 *   %p = exp (%s - %m)                           %s = … dot %q[%i], %k[%j] : f32[%i, %j]
 *   %l = reduce %p fn=sum axis=1        →        %m' = max %m, (reduce %s fn=max axis=1)
 *   %n = cast (%p / %l)                          %t = %m', or 0 where that is -inf
 *   %o = dot %n, %v : f32[S, D]                  %p = exp (%s - %t), %r = exp (%m - %t)
 *   store %out, %o                               %l' = %l * %r + reduce %p fn=sum axis=1
 *                                                %a' = %a * %r + dot (cast %p), %v[%j] }
 *                                              store %out[%i], %a / %l }
 *
 * A sum of terms w * exp(c * (s - h(m))), where m is the greatest of the same s and h(m) is m or 0,
 * needs no second loop: when a tile raises the maximum, what has been summed is multiplied by
 * exp(c * (m - h(m'))). Several sums share the loop. A factor that does not vary along the loop
 * leaves the sum, also through a rounding to a matrix instruction's 16-bit type. What s is made of
 * is computed tile by tile, so no array over both axes is in memory. Rows in which nothing counts,
 * and loops without steps, give what the whole arrays give. Conditions of the terms, `select c, s,
 * -inf`, bound the loop.
 *
 * Sums that depend on no maximum need only the loop: of a product whose operand f(s) is made of
 * another product, as in attention without softmax, retention, or two layers with few inputs and
 * outputs. There `select c, s, 0` bounds the loop.
 *
 * Terms that several sums need are copied first, so that each sum has its own
 * (separate_terms.c): as in the gradient of attention, whose sums of rows share one loop, and of
 * whose three products one has its own and two, over the same rows, share one.
 *
 * The pass knows no softmax and no attention: these are programs that have this form. It applies
 * where the terms are made of a product, a sum is a product, and a tile can hold the other axes
 * whole. Requires the tensor level and named functions. Reassociates reductions
 * (docs/language.md). */
#include "ir/fix_size.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/nest/nest.h"
#include "passes/pass.h"

enum { MAX_ROUNDS = 64 }; /* values stored and sizes fixed for one nest */

/* Would the nest leave most of a GPU idle that several launches fill? Its blocks walk the whole
 * axis one after the other. */
static bool fills_device(const Cascade *c)
{
    enum { ROWS = 64 };
    const Target *target = c->nest.func->target;
    const Nest *nest = &c->nest;
    int64_t rows = poly_nominal(nest->loops[nest->column - 1].extent);
    double blocks = (double)(rows / ROWS + (rows % ROWS != 0));
    for (int i = 0; i < nest->column - 1; i++) {
        blocks *= (double)poly_nominal(nest->loops[i].extent);
    }
    int64_t columns = poly_nominal(nest->loops[nest->column].extent);
    return !target || target->warp == 1 || columns <= 1024 ||
           blocks * 4 >= target->machine->num_sms;
}

/* Products without a matrix instruction take operands from shared memory: of long axes tiles are
 * small, and their operands are read more often than a launch of its own reads them. By the model,
 * f32 4x16x4096x4096 on an H200: 64 elements 10.3 ms for 10.2, 128 28.6 ms for 18.3. */
static bool tiles_are_large(const Cascade *c)
{
    enum { BY_FMA = 64 };
    const Target *target = c->nest.func->target;
    return !target || target->warp == 1 || c->nest.by_fma <= BY_FMA;
}

/* Does it pay to store the columns' operands that are computed, as those that a table of pages
 * names? A term of f32 and one of 16 bits, each written and read once, against such operands: few
 * rows do not make up for them. */
static bool pays_for_operands(const Cascade *c)
{
    enum { TERM_BYTES = 12, OPERAND_BYTES = 4 };
    int64_t rows = poly_nominal(c->nest.loops[c->nest.column - 1].extent);
    return rows > c->nest.stored * OPERAND_BYTES / TERM_BYTES;
}

/* Is all that the nest reads from memory there before it? */
static bool has_operands(const Cascade *c)
{
    return c->leaves || !c->nest.latest || op_is_before(c->nest.latest, cascade_place(c));
}

/* Without a maximum the other way is two plain products, the second of which computes what follows
 * from it: the nest is no better where an op that it does not compute, as a reshape, follows. */
static bool stays_in_nest(const Cascade *c)
{
    return c->max || c->separated || !c->leaves;
}

typedef enum Outcome { OUTCOME_NONE, OUTCOME_RETRY, OUTCOME_DONE } Outcome;

/* Finds the nest of a maximum, or, of a product, of the sums of its operand on this side. */
static bool find_nest(Cascade *c, Func *func, Op *op, int side, bool separated, bool partners)
{
    *c = (Cascade){.nest = {.func = func, .varies = memo_open(func)},
                   .separated = separated,
                   .partners = partners};
    c->nest.none = ARENA_NEW(func->arena, Value);
    bool found = op->kind == OP_DOT ? cascade_match_product(c, op, side) : cascade_match(c, op);
    return found && cascade_results(c) && stays_in_nest(c) && cascade_emit(c, true) &&
           c->nest.n_products > 0 && has_operands(c) && fills_device(c) && tiles_are_large(c) &&
           (c->nest.stored == 0 || pays_for_operands(c));
}

static bool has_nest(Func *func, Op *op)
{
    Cascade *c = ARENA_NEW(func->arena, Cascade);
    bool found = find_nest(c, func, op, 0, true, false);
    memo_close(c->nest.varies);
    return found;
}

static Outcome cascade_once(Func *func, Op *op, int side, bool separated)
{
    Cascade *c = ARENA_NEW(func->arena, Cascade);
    Outcome outcome = OUTCOME_NONE;
    bool found = separated && op->kind == OP_DOT && find_nest(c, func, op, side, true, true);
    if (found || find_nest(c, func, op, side, separated, false)) {
        outcome = OUTCOME_RETRY;
        if (c->leaves) {
            cascade_store_leaving(c);
        } else if (c->nest.fixed) {
            fix_size(func, c->nest.fixed, size_if_fixed(c->nest.fixed));
        } else {
            c->nest.approximates = cascade_is_rounded(c);
            cascade_emit(c, false);
            for (int i = 0; i < c->n_stores; i++) {
                op_remove(c->stores[i]);
            }
            outcome = OUTCOME_DONE;
        }
    }
    memo_close(c->nest.varies);
    return outcome;
}

/* What a product's operand is made of, without another reduction between them. */
typedef enum MadeOf { MADE_OF_FUNCTION, MADE_OF_PRODUCT, N_MADE_OF } MadeOf;

typedef struct Candidates {
    Memo *known[N_MADE_OF]; /* of is_made_of */
    bool maximum, power, product;
} Candidates;

static bool is_made_of(const Candidates *c, const Value *value, MadeOf what, int depth)
{
    enum { MAX_DEPTH = 16 };
    const Op *op = value->def;
    int64_t found;
    if (!op || depth == MAX_DEPTH || memo_known(c->known[what], value, depth, &found)) {
        return op && depth < MAX_DEPTH && found;
    }
    bool made = what == MADE_OF_PRODUCT ? op->kind == OP_DOT
                                        : op->kind == OP_NAMED || op->kind == OP_FAST_EXP2;
    bool follows = op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; follows && !made && i < op->n_operands; i++) {
        made = is_made_of(c, op->operands[i], what, depth + 1);
    }
    return memo_keep(c->known[what], value, depth, made) != 0;
}

static void see_candidate(Op *op, void *user)
{
    Candidates *c = user;
    c->maximum |= op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "max");
    for (int i = 0; i < 2 && op->kind == OP_DOT; i++) {
        c->power = c->power || is_made_of(c, op->operands[i], MADE_OF_FUNCTION, 0);
        c->product = c->product || is_made_of(c, op->operands[i], MADE_OF_PRODUCT, 0);
    }
}

static Candidates find_candidates(Func *func)
{
    Candidates candidates = {.maximum = false};
    for (int i = 0; i < N_MADE_OF; i++) {
        candidates.known[i] = memo_open(func);
    }
    func_walk(func, see_candidate, &candidates);
    for (int i = 0; i < N_MADE_OF; i++) {
        memo_close(candidates.known[i]);
    }
    return candidates;
}

/* Builds the nests of all ops of the kind. True: the function has changed. */
static bool cascade_all(Func *func, OpKind kind, bool separated)
{
    bool changed = false;
    for (Op *op = func->body->first, *next; op; op = next) {
        Outcome outcome = OUTCOME_NONE;
        next = op->next;
        for (int side = 0; side < (kind == OP_DOT ? 2 : 1) && outcome != OUTCOME_DONE; side++) {
            outcome = OUTCOME_RETRY;
            for (int i = 0; i < MAX_ROUNDS && op->kind == kind && outcome == OUTCOME_RETRY; i++) {
                outcome = cascade_once(func, op, side, separated);
                changed = changed || outcome != OUTCOME_NONE;
            }
        }
        next = outcome == OUTCOME_DONE ? op->next : next;
    }
    return changed;
}

void pass_cascade_reductions(Func *func)
{
    Candidates candidates = find_candidates(func);
    bool cascades = candidates.maximum && candidates.power;
    if (!cascades && !candidates.product) {
        return;
    }
    pass_simplify(func); /* raise_to_dot leaves permutes behind one another */
    if (cascades && nest_mask_exponentials(func)) {
        func_remove_dead(func);
        pass_simplify(func);
    }
    bool separated = candidates.product && nest_separate_terms(func, has_nest);
    bool changed = separated;
    if (separated) {
        pass_simplify(func); /* copies for products of one nest are the same */
    }
    if (cascades) {
        changed = cascade_all(func, OP_REDUCE, separated) || changed;
    }
    if (candidates.product) {
        changed = cascade_all(func, OP_DOT, separated) || changed;
    }
    if (changed) {
        func_remove_dead(func);
        pass_simplify(func);
    }
}
