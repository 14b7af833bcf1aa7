/* SPDX-License-Identifier: Apache-2.0 */
/* Assignments to results: as a whole, by index, or over lanes. */
#include "frontend/lower/lower_index.h"
#include "frontend/lower/lower_inline.h"

#include <string.h>

Value *fit_to_slot(Lower *l, Span span, const Val *value, DType dtype, const Shape *slot)
{
    Shape from = shape_of(value), both;
    Val slot_val = {.kind = VAL_CONST, .dtype = dtype};
    if (is_poison(value) || !check_fits(l, ERR_RESULT, span, value, dtype, true)) {
        return NULL;
    }
    if (!broadcast_shapes(l, span, NULL, value, NULL, &slot_val, &from, slot, &both)) {
        return NULL;
    }
    if (!shape_equal(&both, slot)) {
        Diag *diag = lower_error(l, ERR_RESULT, span, "%s does not fit into %s", val_text(l, value),
                                 shape_text(l, dtype, slot));
        int64_t one;
        Text index = text_new(l->arena);
        int taken = 0;
        for (int i = 0; i < from.rank; i++) {
            bool kept = taken < slot->rank && from.dims[i] == slot->dims[taken] &&
                        from.rank - i > slot->rank - taken - 1;
            bool drops = from.rank - i > slot->rank - taken && poly_is_number(from.dims[i], 1);
            if (!kept && !drops) {
                break;
            }
            text_add(&index, drops ? ", 0" : ", :");
            taken += !drops;
        }
        if (from.rank > slot->rank && taken == slot->rank && index.n == (size_t)(3 * from.rank)) {
            diag_help(l->diags, diag, "an index drops an axis of extent 1: `x[%s]`",
                      index.data + 2);
        } else if (from.rank > 0 && slot->rank == 1 && poly_is_const(slot->dims[0], &one) &&
                   one == 1) {
            diag_help(l->diags, diag,
                      "one element is expected: fold the axes, as `sum(x)` does, or "
                      "take one by its indices");
        }
        return NULL;
    }
    return materialize(l, value, dtype, slot);
}

void store_whole(Lower *l, Span span, Value *tensor, Val value)
{
    IndexedAccess places = {.n = 0};
    Value *indices[MAX_RANK] = {NULL};
    Shape slot = type_shape(tensor->type);
    if (!covers_parallel(l, span, &places)) {
        return;
    }
    Value *stored = fit_to_slot(l, span, &value, tensor->type->dtype, &slot);
    if (stored) {
        build_store(&l->b, tensor, indices, stored)->span = span;
    }
}

/* ---- by index ---- */

/* Anywhere: outside of the tensor nothing is written. */
static void store_scattered(Lower *l, const Stmt *stmt, Value *tensor, const IndexedAccess *places,
                            const Val *value)
{
    Val indices[MAX_RANK];
    Value *operands[MAX_RANK];
    int64_t guards[MAX_RANK];
    Shape slot, full;
    if (!selected_shape(l, stmt->target->span, places, indices, &slot) ||
        !full_shape(l, stmt->target->span, &slot, &full)) {
        return;
    }
    slot.lanes |= lanes_from(l, 0);
    if (l->lane_loop && slot.rank > 0) {
        Diag *diag = lower_error(l, ERR_LANE_LOOP, stmt->span,
                                 "an array cannot be written inside of a loop that ends element "
                                 "by element");
        diag_help(l->diags, diag, "write single elements, or after the loop");
        return;
    }
    Value *stored = fit_to_slot(l, stmt->value->span, value, tensor->type->dtype, &slot);
    for (int i = 0; stored && i < places->n; i++) {
        operands[i] = index_operand(l, &indices[i], &slot);
        guards[i] = places->at[i].kind == INDEX_AT && !places->at[i].inside;
    }
    if (stored) {
        Value *mask = l->mask.kind == VAL_ARRAY ? materialize(l, &l->mask, DT_BOOL, &slot) : NULL;
        Op *op = build_scatter(&l->b, "set", tensor, operands, stored, NULL, mask, false);
        op_set_ints(l->func, op, ATTR_GUARD, places->n, guards);
        op->span = stmt->span;
    }
}

static void store_places(Lower *l, const Stmt *stmt, Value *tensor, const Expr *target,
                         const Val *value)
{
    IndexedAccess places;
    Shape shape = type_shape(tensor->type);
    Lanes lanes;
    if (!lower_access(l, target, tensor->type->dtype, &shape, &places)) {
        return;
    }
    int n_new_axes = places.new_axes_behind;
    for (int i = 0; i < places.n; i++) {
        n_new_axes += places.new_axes[i];
    }
    if (n_new_axes) {
        lower_error(l, ERR_INDEX, target->span, "a place that is written has no new axes");
        return;
    }
    if (!covers_parallel(l, stmt->span, &places)) {
        return;
    }
    if (l->mask.kind != VAL_ARRAY && !l->lane_loop && is_plain(l, &places, &lanes)) {
        Value *indices[MAX_RANK];
        int lane[MAX_RANK], rank = 0;
        Shape slot = {.lanes = lanes};
        for (int i = 0; i < places.n; i++) {
            const AxisIndex *axis_index = &places.at[i];
            int walks = axis_index->kind == INDEX_AT
                            ? whole_lane(l, &axis_index->val, axis_index->extent)
                            : -1;
            indices[i] = NULL;
            if (axis_index->kind == INDEX_AT && walks < 0) {
                indices[i] = as_index(l, &axis_index->val);
                continue;
            }
            if (axis_index->kind == INDEX_RANGE) {
                indices[i] = axis_index->val.value;
                slot.dims[slot.rank++] = axis_index->val.dim;
            } else if (walks < 0) {
                slot.dims[slot.rank++] = axis_index->extent;
            }
            lane[rank++] = walks;
        }
        Value *stored = fit_to_slot(l, stmt->value->span, value, tensor->type->dtype, &slot);
        if (stored) {
            int64_t perm[MAX_RANK];
            int own = lane_count(lanes);
            bool same = true;
            for (int i = 0; i < rank; i++) {
                Lanes before = lane[i] < 0 ? 0 : lanes & (((Lanes)1 << lane[i]) - 1);
                perm[i] = lane[i] < 0 ? own++ : lane_count(before);
                same = same && perm[i] == i;
            }
            stored = same ? stored : build_permute(&l->b, stored, perm);
            build_store(&l->b, tensor, indices, stored)->span = stmt->span;
        }

    } else {
        store_scattered(l, stmt, tensor, &places, value);
    }
}

/* ---- y[n, p] = …: names that nothing has become lanes over the axes ---- */

static bool is_fresh(const Lower *l, const Expr *index)
{
    DType dtype;
    return index->kind == EXPR_NAME && !find_symbol(l, index->name) &&
           !dtype_from_name(index->name, strlen(index->name), &dtype);
}

static Symbol *holder(const Lower *l, const Value *tensor)
{
    Symbol *symbol = l->symbols;
    while (symbol && (symbol->val.kind != VAL_TENSOR || symbol->val.value != tensor)) {
        symbol = symbol->older;
    }
    return symbol;
}

static void forget_in(Symbol *symbol, const Value *tensor)
{
    for (; symbol; symbol = symbol->older) {
        if (symbol->val.kind == VAL_TENSOR && symbol->val.value == tensor) {
            symbol->val.known_value = NULL;
        }
    }
}

/* The tensor may be known under other names in the callers. */
void invalidate_known_value(Lower *l, const Value *tensor)
{
    forget_in(l->symbols, tensor);
    for (const CallFrame *frame = l->calls; frame; frame = frame->up) {
        forget_in(frame->symbols, tensor);
    }
}

/* A result without a name is what the user means to write. */
static bool is_unnamed(const Lower *l)
{
    const ParamDecl *first = l->kernel->results.n == 1 ? &l->kernel->results.items[0] : NULL;
    return first && first->type && first->span.start == first->type->span.start;
}

static void no_such_result(Lower *l, const Expr *target)
{
    Diag *diag =
        lower_error(l, ERR_NAME, target->span, "nothing is called `%s` here", target->name);
    if (is_unnamed(l)) {
        Span type = l->kernel->results.items[0].type->span;
        diag_help(l->diags, diag, "give the result this name: `-> %s: %s`", target->name,
                  source_text(l->diags, l->arena, type));
        lower_fix(l, diag, (Span){type.source, type.start, type.start}, "%s: ", target->name);
    } else {
        lower_suggest_similar(l, diag, target);
    }
    define(l, target->name, target->span, poison_val()); /* report it once */
}

void lower_store(Lower *l, const Stmt *stmt)
{
    const Expr *target = stmt->target;
    if (target->a->kind == EXPR_NAME && !find_symbol(l, target->a->name)) {
        no_such_result(l, target->a);
        return;
    }
    Val base = lower_expr(l, target->a);
    if (is_poison(&base)) {
        return; /* its indices are defined by what it is */
    }
    if (base.kind != VAL_TENSOR || !base.is_result) {
        Diag *diag =
            lower_error(l, ERR_NOT_VARIABLE, target->span, "only results are written by index");
        const Symbol *symbol =
            target->a->kind == EXPR_NAME ? find_symbol(l, target->a->name) : NULL;
        if (symbol && symbol->is_var) {
            diag_help(l->diags, diag,
                      "a variable is assigned as a whole: `let next[i in N] = …`, then `%s = next`",
                      target->a->name);
        } else {
            diag_help(l->diags, diag, "name a result: `-> o: f32[N]`");
        }
        return;
    }
    Symbol *symbols = l->symbols;
    int lanes = l->n_lanes;
    Type type = base.value->type;
    int from = l->n_lanes;
    int axis = 0;
    for (size_t i = 0; i < target->args.n; i++) {
        const Expr *index = target->args.items[i];
        if (is_fresh(l, index) && axis < type->rank) {
            Lane *lane =
                open_lane(l, index->name, index->span, type->dims[axis], poly_const(l->func, 0));
            define(l, index->name, index->span, lane ? lane->index : poison_val());
        }
        axis += index->kind != EXPR_NONE;
    }
    bool fresh = l->n_lanes > from;
    const Expr *around = l->target;
    l->target = target;
    Val value = lower_operand(l, stmt->value);
    Symbol *local = base.is_local ? holder(l, base.value) : NULL;
    bool whole = fresh && local && local_by_index(l, stmt, local, &value, lanes);
    if (!whole && local_part(l, stmt->span, &base)) {
        *written_flag(l, base.value) = true;
        invalidate_known_value(l, base.value);
        store_places(l, stmt, base.value, target, &value);
    }
    close_lanes(l, lanes);
    l->target = around;
    l->symbols = symbols;
}
