/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/reduction_domain.h"

#include "ir/build.h"
#include "ir/op_axes.h"
#include "support/int_math.h"

typedef struct Finder {
    Func *func;
    Memo *forms;
    ReductionDomain *domain;
} Finder;

bool domain_has_select(const ReductionDomain *domain, const Op *op)
{
    for (int i = 0; i < domain->n_selects; i++) {
        if (domain->selects[i] == op) {
            return true;
        }
    }
    return false;
}

/* ---- what a comparison says ---- */

/* The form over the product's axes. */
static const IndexForm *over_product(const Finder *f, const Value *value, const int *axes)
{
    const IndexForm *by[FORM_AXES] = {NULL};
    for (int i = 0; i < value->type->rank; i++) {
        by[i] =
            axes[i] >= 0 ? form_axis(f->func, axes[i]) : form_dim(f->func, poly_const(f->func, 0));
    }
    return form_substitute(f->func, an_index_form(f->func, f->forms, value), by);
}

/* What `difference` = 0 says: rest + of % by = 0 has a solution for one remainder alone, and
 * by * (of // by) = of says that the remainder is 0. */
static bool is_congruence(Func *func, const IndexForm *difference, DomainAtom *atom)
{
    int64_t rest;
    if (difference->n_parts != 1) {
        return false;
    }
    const IndexPart *part = &difference->parts[0];
    IndexForm *left = ARENA_NEW(func->arena, IndexForm);
    *left = *difference;
    left->n_parts = 0;
    if (part->is_remainder) {
        bool one = part->times == 1 || part->times == -1;
        if (!one || !form_is_const(left, &rest)) {
            return false;
        }
        int64_t remainder = -rest * part->times;
        atom->form = form_sum(func, part->of, form_dim(func, poly_const(func, remainder)), -1);
        atom->by = part->by;
        return remainder >= 0 && remainder < part->by && atom->form;
    }
    int64_t sign = part->times == part->by ? 1 : part->times == -part->by ? -1 : 0;
    const IndexForm *sum = form_sum(func, left, part->of, sign);
    atom->form = part->of;
    atom->by = part->by;
    return sign && sum && form_is_const(sum, &rest) && rest == 0;
}

/* a `pred` b, or the opposite. */
static void read_comparison(const Finder *f, const Op *cmp, DomainAtom *atom)
{
    static const char *const PREDS[] = {"lt", "le", "gt", "ge", "eq", "ne"};
    static const char *const OPPOSITES[] = {"ge", "gt", "le", "lt", "ne", "eq"};
    const char *pred = op_word(cmp, ATTR_PRED);
    for (int i = 0; atom->negated && i < 6; i++) {
        if (text_equal(pred, PREDS[i])) {
            pred = OPPOSITES[i];
            break;
        }
    }
    const IndexForm *a = over_product(f, cmp->operands[0], atom->axes);
    const IndexForm *b = over_product(f, cmp->operands[1], atom->axes);
    const IndexForm *difference = form_sum(f->func, a, b, -1); /* a - b */
    const IndexForm *one = form_dim(f->func, poly_const(f->func, 1));
    if (!difference) {
        return;
    }
    bool less = pred[0] == 'l', strict = pred[1] == 't';
    if (text_equal(pred, "eq")) {
        atom->kind = is_congruence(f->func, difference, atom) ? ATOM_CONGRUENT : ATOM_OTHER;
    } else if (!text_equal(pred, "ne")) {
        atom->form = less ? form_scaled(f->func, difference, -1) : difference;
        atom->form = strict ? form_sum(f->func, atom->form, one, -1) : atom->form;
        atom->kind = atom->form ? ATOM_NOT_NEGATIVE : ATOM_OTHER;
    }
}

/* ---- conditions ---- */

static void moved_axes(const Op *op, const int *axes, int *inner)
{
    for (int i = 0; i < op->operands[0]->type->rank; i++) {
        OpAxis axis = op_axis(op, 0, i);
        inner[i] = axis.role == AXIS_TIED ? axes[axis.result] : -1;
    }
}

/* Adds the atoms of a condition, or of its opposite. False: there are too many. */
static bool add_condition(const Finder *f, Value *condition, const int *axes, bool negated)
{
    const Op *op = condition->def;
    int inner[MAX_RANK];
    ReductionDomain *domain = f->domain;
    if (op && op->kind == OP_NOT) {
        return add_condition(f, op->operands[0], axes, !negated);
    }
    if (op && op->kind == (negated ? OP_OR : OP_AND)) {
        return add_condition(f, op->operands[0], axes, negated) &&
               add_condition(f, op->operands[1], axes, negated);
    }
    if (op && op_moves_axes(op)) {
        moved_axes(op, axes, inner);
        return add_condition(f, op->operands[0], inner, negated);
    }
    if (domain->n_atoms == MAX_ATOMS) {
        return false;
    }
    DomainAtom *atom = &domain->atoms[domain->n_atoms++];
    *atom = (DomainAtom){.condition = condition, .negated = negated};
    for (int i = 0; i < condition->type->rank; i++) {
        atom->axes[i] = axes[i];
    }
    if (op && op->kind == OP_CMP && op->operands[0]->type->dtype == DT_I64) {
        read_comparison(f, op, atom);
    }
    return true;
}

static bool is_masked(const Op *op)
{
    return op && op->kind == OP_SELECT && value_is_const(op->operands[2], 0);
}

static bool add_select(const Finder *f, const Op *op, const int *axes)
{
    ReductionDomain *domain = f->domain;
    if (domain->n_selects == MAX_SELECTS) {
        return false;
    }
    domain->selects[domain->n_selects++] = op;
    return add_condition(f, op->operands[0], axes, false);
}

/* The conditions on a factor, behind casts and moves of its axes. */
static bool find_factor_conditions(const Finder *f, const Value *factor)
{
    int axes[MAX_RANK], inner[MAX_RANK];
    for (int i = 0; i < factor->type->rank; i++) {
        axes[i] = i;
    }
    for (const Op *op = factor->def; op; op = factor->def) {
        if (is_masked(op)) {
            if (!add_select(f, op, axes)) {
                return false;
            }
            factor = op->operands[1];
        } else if (op_moves_axes(op)) {
            moved_axes(op, axes, inner);
            factor = op->operands[0];
            for (int i = 0; i < factor->type->rank; i++) {
                axes[i] = inner[i];
            }
        } else if (op->kind == OP_CAST) {
            factor = op->operands[0];
        } else {
            break;
        }
    }
    return true;
}

/* A select between sums, which has fewer axes than the product. */
typedef struct Between {
    const Op *op;
    int axes[MAX_RANK];
} Between;

static void begin(Between *select, const Op *op)
{
    select->op = op;
    for (int i = 0; i < op->results[0]->type->rank; i++) {
        select->axes[i] = i;
    }
}

bool an_reduction_domain(Func *func, Memo *forms, Op *sum, ReductionDomain *domain)
{
    Between between[MAX_SELECTS];
    int n = 0;
    *domain = (ReductionDomain){.sums = {.last = sum}};
    Finder f = {func, forms, domain};
    if (!an_is_sum(sum) || !value_has_uses(func, sum->results[0])) {
        return false;
    }
    for (Op *op = sum; op; op = op->operands[op->kind == OP_SELECT]->def) {
        bool select = is_masked(op);
        if (op != sum && value_count_uses(func, op->results[0]) != 1) {
            return false;
        }
        if (!select && !an_pass_sum(&domain->sums, op)) {
            domain->sums.mul = op;
            break;
        }
        if (select && n == MAX_SELECTS) {
            return false;
        }
        if (select) {
            begin(&between[n++], op);
        }
        for (int i = 0; op->kind == OP_SQUEEZE && i < n; i++) {
            for (int k = 0; k < between[i].op->results[0]->type->rank; k++) {
                between[i].axes[k] += between[i].axes[k] >= op_int(op, ATTR_AXIS, 0);
            }
        }
    }
    const Op *mul = domain->sums.mul;
    if (!mul || mul->kind != OP_MUL || mul->results[0]->type->dtype != DT_F32) {
        return false;
    }
    domain->sums.rank = mul->results[0]->type->rank;
    for (int i = 0; i < n; i++) {
        if (!add_select(&f, between[i].op, between[i].axes)) {
            return false;
        }
    }
    return find_factor_conditions(&f, mul->operands[0]) &&
           find_factor_conditions(&f, mul->operands[1]);
}

const Op *domain_factor_read(const ReductionDomain *domain, const Value *factor, int *axes)
{
    int inner[MAX_RANK];
    for (int i = 0; i < factor->type->rank; i++) {
        axes[i] = i;
    }
    const Op *op = factor->def;
    while (op && op->kind != OP_GATHER && op->kind != OP_LOAD) {
        bool select = domain_has_select(domain, op);
        if (!select && op->kind != OP_CAST && !op_moves_axes(op)) {
            return NULL;
        }
        for (int i = 0; op_moves_axes(op) && i < op->operands[0]->type->rank; i++) {
            OpAxis axis = op_axis(op, 0, i);
            inner[i] = axis.role == AXIS_TIED ? axes[axis.result] : -1;
        }
        for (int i = 0; op_moves_axes(op) && i < op->operands[0]->type->rank; i++) {
            axes[i] = inner[i];
        }
        op = op->operands[select]->def;
    }
    return op;
}
