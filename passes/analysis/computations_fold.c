/* SPDX-License-Identifier: Apache-2.0 */
/* Describes computations that reduce or scan: the terms, the factors of each term, and the
 * conditions. */
#include "ir/build.h"
#include "ir/op_axes.h"
#include "passes/analysis/computations_build.h"

/* The terms of a reduction: its operand, with an axis of its own. */
static Instance reduced_term(ComputeBuild *b, const Op *op, const Instance *result)
{
    Instance term = *result;
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    term.value = op->operands[0];
    Dim extent = term.value->type->dims[axis];
    term.at[axis] = poly_is_number(extent, 1)
                        ? map_number(&b->all->space, 0)
                        : map_axis(&b->all->space, compute_add_axis(b, extent, NULL, ROLE_REDUCED));
    return term;
}

/* A factor of a product, behind the conditions on it. */
static void visit_factor(ComputeBuild *b, Instance factor, unsigned bit)
{
    for (const Op *op = factor.value->def; op; op = factor.value->def) {
        if (op_moves_axes(op)) {
            factor = instance_moved(&b->all->space, op, factor.at);
        } else if (op->kind == OP_CAST) {
            factor.value = op->operands[0];
        } else if (!compute_take_condition(b, &factor, "sum", bit)) {
            break;
        }
    }
    b->now->factors[bit >> 1] = factor;
    compute_visit(b, &factor, NULL, bit);
}

static void contract_dot(ComputeBuild *b, const Op *dot, const Instance *result)
{
    int rank = result->value->type->rank;
    const Op *accumulator = dot->n_operands > 2 ? dot : NULL;
    int along = op_reduced_axis(dot, dot->operands[0]->type->rank);
    const Axis *k = compute_add_axis(b, dot->operands[0]->type->dims[along], NULL, ROLE_REDUCED);
    for (int side = 0; side < 2; side++) {
        Instance factor = {.value = dot->operands[side]};
        for (int i = 0; i < rank; i++) {
            OpAxis axis = op_axis(dot, side, i);
            factor.at[i] =
                axis.role == AXIS_TIED ? result->at[axis.result] : map_axis(&b->all->space, k);
        }
        visit_factor(b, factor, 1u << side);
    }
    if (accumulator) {
        Instance added = *result;
        added.value = dot->operands[2];
        compute_visit(b, &added, NULL, 0);
    }
    b->now->is_product = true;
}

static bool is_reduction(const Op *op, const char *fn)
{
    return op && op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), fn);
}

/* Reductions of one function that nothing else needs, one behind the other, reduce a set of
 * axes. */
void compute_build_reduction(ComputeBuild *b)
{
    Compute *now = b->now;
    Instance term = now->result;
    bool shared = false; /* somebody else needs a value on the way */
    for (const Op *op = term.value->def; op; op = term.value->def) {
        shared = shared || (op != now->op && value_count_uses(b->func, term.value) != 1);
        if (is_reduction(op, now->fn) && !shared) {
            term = reduced_term(b, op, &term);
        } else if (op_moves_axes(op)) {
            term = instance_moved(&b->all->space, op, term.at);
        } else if (!compute_take_condition(b, &term, now->fn, 0)) {
            break;
        }
    }
    now->term = term;
    Op *op = term.value->def;
    bool sums = text_equal(now->fn, "sum");
    if (op && !shared && op->kind == OP_DOT && sums) {
        contract_dot(b, op, &term);
    } else if (op && op->kind == OP_MUL && sums) {
        now->is_product = true;
        ARENA_PUSH(b->func->arena, &now->body, op);
        for (int side = 0; side < 2; side++) {
            Instance factor = term;
            factor.value = op->operands[side];
            visit_factor(b, factor, 1u << side);
        }
    } else {
        compute_visit(b, &term, NULL, 0);
    }
}

/* A reduction or running reduction by a function of the program, of several arrays. */
void compute_build_fold(ComputeBuild *b)
{
    const Op *op = b->now->op;
    Instance term =
        b->now->kind == COMPUTE_FOLD ? reduced_term(b, op, &b->now->result) : b->now->result;
    for (int i = 0; i < fold_count(op); i++) {
        term.value = op->operands[i];
        compute_visit(b, &term, NULL, 0);
    }
}

void compute_build_scan(ComputeBuild *b)
{
    Compute *now = b->now;
    const Affine *along = now->result.at[op_int(now->op, ATTR_AXIS, 0)];
    for (size_t i = 0; i < now->axes.n; i++) {
        if (now->axes.items[i].axis == map_as_axis(along)) {
            now->axes.items[i].role = ROLE_SCANNED;
        }
    }
    if (now->op->kind == OP_FOLD) {
        compute_build_fold(b);
    } else {
        Instance term = now->result;
        term.value = now->op->operands[0];
        compute_visit(b, &term, NULL, 0);
    }
}
