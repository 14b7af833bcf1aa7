/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics such as atomic.add(y[i], v): each element of v changes one element of y, in any order,
 * and several may change the same one. An index outside of y has no effect. */
#include "frontend/lower/lower_index.h"
#include "frontend/lower/lower_inline.h"

#include <string.h>

typedef enum AtomTakes { ATOM_ANY, ATOM_NUMBERS, ATOM_BITS } AtomTakes;

/* The functions of `atomic.`; `fn` is the word of the op. */
typedef struct AtomicFunction {
    const char *name, *fn;
    AtomTakes takes;
    bool compares; /* with a further operand, before the value */
} AtomicFunction;

static const AtomicFunction ATOMICS[] = {
    {"atomic.add", "add", ATOM_NUMBERS, false},   {"atomic.min", "min", ATOM_NUMBERS, false},
    {"atomic.max", "max", ATOM_NUMBERS, false},   {"atomic.and", "and", ATOM_BITS, false},
    {"atomic.or", "or", ATOM_BITS, false},        {"atomic.xor", "xor", ATOM_BITS, false},
    {"atomic.exchange", "xchg", ATOM_ANY, false}, {"atomic.cas", "cas", ATOM_ANY, true},
};

typedef struct Atomic {
    const Expr *expr, *target;
    const AtomicFunction *function;
    Value *tensor;
    Val indices[MAX_RANK];
    int64_t guards[MAX_RANK];
    Shape slot;
} Atomic;

static bool check_arguments(Lower *l, const Atomic *a)
{
    size_t needed = a->function->compares ? 3 : 2;
    bool good = a->expr->args.n == needed && a->expr->args.items[0]->kind == EXPR_INDEX;
    for (size_t i = 0; i < a->expr->args.n; i++) {
        good = good && a->expr->args.items[i]->kind != EXPR_NAMED;
    }
    if (!good) {
        Diag *diag = lower_wrong_call(l, a->expr);
        diag_help(l->diags, diag, "write `%s(y[i], %svalue)`", a->function->name,
                  a->function->compares ? "compare, " : "");
    }
    return good;
}

static bool check_type(Lower *l, const Atomic *a)
{
    AtomTakes takes = a->function->takes;
    DType dtype = a->tensor->type->dtype;
    bool fits = takes == ATOM_ANY || (takes == ATOM_BITS ? dtype_is_int(dtype) : dtype != DT_BOOL);
    if (!fits || dtype_bits(dtype) < 8) {
        Diag *diag = lower_error(l, ERR_OPERATOR, a->expr->a->span, "`%s` does not apply to %s",
                                 a->function->name, dtype_name(dtype));
        diag_label(l->diags, diag, a->target->span, "%s", type_text(l, a->tensor->type));
        return false;
    }
    return true;
}

static bool target_tensor(Lower *l, Atomic *a)
{
    Val base = lower_expr(l, a->target->a);
    if (is_poison(&base)) {
        return false;
    }
    if (base.kind != VAL_TENSOR || !base.is_result) {
        Diag *diag = lower_error(l, ERR_NOT_VARIABLE, a->target->span,
                                 "atomics change results and `inout` parameters");
        diag_help(l->diags, diag, "name a result: `-> y: i32[N]`");
        return false;
    }
    if (!local_part(l, a->expr->span, &base)) {
        return false;
    }
    a->tensor = base.value;
    *written_flag(l, base.value) = true;
    invalidate_known_value(l, base.value);
    return true;
}

/* The indices of the target, for each open lane and each element of array indices. */
static bool target_places(Lower *l, Atomic *a)
{
    IndexedAccess places;
    Shape shape = type_shape(a->tensor->type), full;
    if (!lower_access(l, a->target, a->tensor->type->dtype, &shape, &places) ||
        !selected_shape(l, a->target->span, &places, a->indices, &a->slot)) {
        return false;
    }
    for (int i = 0; i < places.n; i++) {
        a->guards[i] = places.at[i].kind == INDEX_AT && !places.at[i].inside;
    }
    a->slot.lanes |= lanes_from(l, 0);
    return full_shape(l, a->target->span, &a->slot, &full);
}

/* An operand in the element type of the target and the shape of its indices. */
static Value *operand(Lower *l, const Atomic *a, const Expr *expr)
{
    Val val = lower_operand(l, expr);
    return fit_to_slot(l, expr->span, &val, a->tensor->type->dtype, &a->slot);
}

static Val build_atomic(Lower *l, const Atomic *a, bool old)
{
    bool compares = a->function->compares;
    Value *compare = compares ? operand(l, a, a->expr->args.items[1]) : NULL;
    Value *value = operand(l, a, a->expr->args.items[compares ? 2 : 1]);
    Value *indices[MAX_RANK];
    if (!value || (compares && !compare)) {
        return poison_val();
    }
    if (l->lane_loop && a->slot.rank > 0) {
        mixes_lanes(l, a->expr->span, a->function->name);
        return poison_val();
    }
    int rank = a->tensor->type->rank;
    for (int i = 0; i < rank; i++) {
        indices[i] = index_operand(l, &a->indices[i], &a->slot);
    }
    Value *mask = l->mask.kind == VAL_ARRAY ? materialize(l, &l->mask, DT_BOOL, &a->slot) : NULL;
    Op *op = build_scatter(&l->b, a->function->fn, a->tensor, indices, value, compare, mask, old);
    op_set_ints(l->func, op, ATTR_GUARD, rank, a->guards);
    op->span = a->expr->span;
    return old ? shaped_val(op->results[0], &a->slot) : poison_val();
}

bool is_atomic(const char *name)
{
    return name && strncmp(name, "atomic.", 7) == 0;
}

Val lower_atomic(Lower *l, const Expr *expr, const char *name, bool old)
{
    Nearest nearest = nearest_to(name);
    for (size_t i = 0; i < sizeof ATOMICS / sizeof *ATOMICS; i++) {
        if (text_equal(ATOMICS[i].name, name)) {
            Atomic a = {.expr = expr, .function = &ATOMICS[i]};
            if (!check_arguments(l, &a)) {
                return poison_val();
            }
            a.target = expr->args.items[0];
            bool good = target_tensor(l, &a) && check_type(l, &a) && target_places(l, &a);
            return good ? build_atomic(l, &a, old) : poison_val();
        }
        nearest_try(&nearest, ATOMICS[i].name);
    }
    Diag *diag = lower_error(l, ERR_FUNCTION, expr->a->span, "no function is called `%s`", name);
    if (!lower_fix_similar(l, diag, expr->a->span, &nearest)) {
        diag_help(l->diags, diag, "there are atomic.add, min, max, and, or, xor, exchange, cas");
    }
    return poison_val();
}
