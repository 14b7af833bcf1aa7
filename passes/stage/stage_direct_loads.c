/* SPDX-License-Identifier: Apache-2.0 */
/* Dots without shared memory (`copy none`): each thread loads the elements that it multiplies.
 *
 *   %a = load %x[%m, %k]                      %d = for %i: K from start(%k) to end(%k), %c {
 *   %b = load %w[%k, %n]               →        %a = load %x[%m, %i]; %b = load %w[%i, %n]
 *   %d = dot %a, %b, %c                         yield fma(%a[:, None], %b[None, :], %c) }
 *
 * Threads of the same row or column load the same elements, and L1 serves all of these loads but
 * the first. Sums run over k in ascending order, as those of dots from shared memory do. */
#include "passes/stage/stage.h"

#include "ir/ir_errors.h"
#include "passes/tile/tile.h"

typedef struct Direct {
    Func *func;
    Op *dot;
    Type type; /* of the result */
    Value *at; /* of k */
} Direct;

/* Is k the last of the two axes that the operand keeps in memory? */
static bool k_is_last(const StagedOperand *item)
{
    return (item->side == 0) != item->transposed;
}

/* The memory's axis that k walks. */
static int k_axis(const StagedOperand *item)
{
    Access access = op_access(item->load, 0);
    int kept[2] = {0, 0}, n = 0;
    for (int i = 0; i < access.n; i++) {
        if (!access.indices[i] || access.indices[i]->type->kind == TYPE_RANGE) {
            kept[n++ & 1] = i;
        }
    }
    return kept[k_is_last(item)];
}

/* A row or column of the operand: [m] or [n]. */
static Value *load_at(const Direct *d, Builder *b, const StagedOperand *item)
{
    Access access = op_access(item->load, 0);
    int axis = k_axis(item);
    Value *indices[MAX_RANK];
    for (int i = 0; i < access.n; i++) {
        indices[i] = i == axis ? d->at : access.indices[i];
    }
    Value *value = build_load(b, access.memory, indices);
    const Attr *guard = op_attr(item->load, ATTR_GUARD);
    if (guard) {
        int64_t guards[MAX_RANK];
        for (int i = 0; i < access.n; i++) {
            guards[i] = i == axis ? 0 : guard->ints[i]; /* k ends with its range */
        }
        op_set_ints(d->func, value->def, ATTR_GUARD, access.n, guards);
    }
    return item->rounded ? build_unary(b, OP_TF32, value) : value;
}

/* As the product's result is, along the other axis the same. */
static Value *operand(const Direct *d, Builder *b, const StagedOperand *item)
{
    Value *value = build_cast(b, load_at(d, b, item), d->type->dtype);
    value = build_expand(b, value, item->side == 0 ? 1 : 0);
    return build_broadcast(b, value, 2, d->type->dims);
}

static Value *add_product(const Direct *d, Builder *b, Value *left, Value *right, Value *sum)
{
    return dtype_is_float(d->type->dtype)
               ? build_fma(b, left, right, sum)
               : build_binary(b, OP_ADD, build_binary(b, OP_MUL, left, right), sum);
}

static Value *zeros(const Direct *d, Builder *b)
{
    return dtype_is_float(d->type->dtype) ? build_float(b, d->type, 0) : build_int(b, d->type, 0);
}

/* From where to where, of what is walked; false: k is a whole axis of constant extent. */
static bool is_range(Dim k, const DimVar **range)
{
    *range = poly_as_range(k);
    return *range != NULL;
}

void stage_direct(StageContext *s, Op *dot)
{
    const StagedOperand *left = stage_item(s, dot, 0), *right = stage_item(s, dot, 1);
    Direct d = {.func = s->func, .dot = dot, .type = dot->results[0]->type};
    Builder b = build_before(s->func, dot);
    Dim k = dot->operands[0]->type->dims[1], whole = k;
    const DimVar *range;
    Value *lo, *hi;
    if (is_range(k, &range)) {
        lo = build_range_fact(&b, OP_START, range->binder);
        hi = build_range_fact(&b, OP_END, range->binder);
        whole = range->axis_extent ? range->axis_extent : k;
    } else {
        lo = build_i64(&b, 0);
        hi = build_size(&b, k);
    }
    Value *sum = dot->n_operands > 2 ? dot->operands[2] : zeros(&d, &b);
    Op *loop = build_for(&b, whole, 0, "i", lo, hi, 1, &sum);
    Block *body = loop->regions[0];
    Builder in = build_at_end(s->func, body);
    in.span = dot->span;
    d.at = body->args[0];
    Value *second = operand(&d, &in, right), *first = operand(&d, &in, left);
    Value *next = add_product(&d, &in, first, second, body->args[1]);
    build_yield(&in, 1, &next);
    loop->results[0]->name = dot->results[0]->name;
    func_replace_uses(s->func, dot->results[0], loop->results[0]);
    op_remove(dot);
}

/* Why not, or NULL. */
static const char *why_not(StageContext *s, const Op *dot)
{
    if (dot_instruction(s->func, dot)) {
        return "the matrix unit reads shared memory (`instruction fma`)";
    }
    for (int side = 0; side < 2; side++) {
        if (!stage_item(s, dot, side)) {
            return "an operand of the product is computed: each thread would compute it for itself";
        }
    }
    return NULL;
}

bool stage_may_direct(StageContext *s, Op *const *dots, int n)
{
    const ScheduleEntry *line = schedule_user_entry(s->func, "copy", "");
    for (int i = 0; i < n; i++) {
        const char *why = why_not(s, dots[i]);
        if (why) {
            Diag *d = diag_error(s->func->diags, ERR_NOT_HERE, line ? line->span : SPAN_NONE,
                                 "`copy none` is not possible: %s", why);
            diag_help(s->func->diags, d, "`copy registers`, or leave the line out");
            return false;
        }
    }
    return true;
}
