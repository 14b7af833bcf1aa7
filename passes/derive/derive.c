/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point of reverse-mode differentiation. It sweeps over the ops of a block from the last
 * to the first, and each op adds to the gradients of its operands. The rules of the ops are in the
 * other files of this folder. */
#include "passes/derive/derive_sweep.h"

#include <string.h>

/* ---- what depends on what is differentiated by ---- */

static Activity activity_of(const Derive *d, const Value *value)
{
    return value && value->id < d->n_before ? (Activity)d->activity[value->id] : ACTIVE_NO;
}

/* Comparisons and roundings to integers have the derivative 0; the bits of a float are followed,
 * because a float that is made of them again has a derivative that is not given. */
static Activity activity_through(const Derive *d, const Op *op, const Value *operand)
{
    Activity of = activity_of(d, operand);
    bool from_float = operand && operand->type->kind != TYPE_RANGE &&
                      dtype_is_float(operand->type->dtype);
    bool to_float = op->n_results && dtype_is_float(op->results[0]->type->dtype);
    if (of == ACTIVE_NO || (from_float && to_float)) {
        return of;
    }
    if (from_float && op->kind != OP_BITCAST) {
        return op_has(op, TRAIT_ELEMENTWISE) ? ACTIVE_NO : of;
    }
    bool condition = operand->type->dtype == DT_BOOL;
    return condition ? ACTIVE_NO : ACTIVE_BITS;
}

static void note_block(Derive *d, Block *block);

static bool region_is_active(const Derive *d, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->n_operands; i++) {
            if (derive_is_active(d, op->operands[i])) {
                return true;
            }
        }
        for (int i = 0; i < op->n_regions; i++) {
            if (region_is_active(d, op->regions[i])) {
                return true;
            }
        }
    }
    return false;
}

static void note(Derive *d, const Value *value, Activity activity)
{
    if (value->id < d->n_before && activity > d->activity[value->id]) {
        d->activity[value->id] = (uint8_t)activity;
    }
}

static void note_op(Derive *d, Op *op)
{
    Activity activity = ACTIVE_NO;
    for (int i = 0; i < op->n_operands; i++) {
        Activity through = activity_through(d, op, op->operands[i]);
        bool index = op->kind == OP_GATHER && i > 0;
        bool better = !index && through != ACTIVE_NO && activity != ACTIVE_FLOAT;
        activity = better ? through : activity;
    }
    for (int i = 0; i < op->n_regions; i++) {
        for (int k = 0; k < op->regions[i]->n_args && activity == ACTIVE_FLOAT; k++) {
            if (op->regions[i]->args[k]->type->kind == TYPE_ARRAY &&
                dtype_is_float(op->regions[i]->args[k]->type->dtype)) {
                note(d, op->regions[i]->args[k], ACTIVE_FLOAT);
            }
        }
        note_block(d, op->regions[i]);
        activity = region_is_active(d, op->regions[i]) ? ACTIVE_FLOAT : activity;
    }
    if ((op->kind == OP_STORE || op->kind == OP_SCATTER) && activity == ACTIVE_FLOAT) {
        note(d, op->operands[0], ACTIVE_FLOAT); /* what is loaded of it */
    }
    for (int i = 0; i < op->n_results; i++) {
        bool is_float = dtype_is_float(op->results[i]->type->dtype);
        bool bits = activity == ACTIVE_BITS;
        note(d, op->results[i],
             is_float || bits || activity == ACTIVE_NO ? activity : ACTIVE_NO);
    }
}

static const DeriveCall *call_of(const Derive *d, const Value *result)
{
    return result->id < d->n_before ? d->calls[result->id] : NULL;
}

static void note_call(Derive *d, const DeriveCall *call)
{
    bool active = false;
    for (int i = 0; i < call->n_args; i++) {
        active = active || derive_is_active(d, call->args[i]);
    }
    for (int i = 0; i < call->n_results; i++) {
        if (dtype_is_float(call->results[i]->type->dtype) &&
            call->results[i]->id < d->n_before) {
            d->activity[call->results[i]->id] = active ? ACTIVE_FLOAT : ACTIVE_NO;
        }
    }
}

static void note_block(Derive *d, Block *block)
{
    Op *first = d->first && d->first->parent == block ? (Op *)d->first : block->first;
    for (Op *op = first; op; op = op->next) {
        op_visited(op);
        note_op(d, op);
        for (int i = 0; i < op->n_results; i++) {
            if (call_of(d, op->results[i])) {
                note_call(d, call_of(d, op->results[i]));
            }
        }
    }
}

/* ---- the sweep ---- */

static void apply_call(Derive *d, const DeriveCall *call)
{
    Value **results = ARENA_ARRAY(d->func->arena, Value *, (size_t)call->n_results);
    Value **args = ARENA_ARRAY(d->func->arena, Value *, (size_t)call->n_args + 1);
    for (int i = 0; i < call->n_results; i++) {
        results[i] = derive_gradient(d, call->results[i]);
        if (results[i]) {
            d->gradients[call->results[i]->id] = NULL; /* nothing inside is asked for it */
        }
    }
    for (int i = 0; i < call->n_args; i++) {
        args[i] = NULL;
    }
    if (!d->rules->apply(d->rules->user, &d->b, call, results, args)) {
        d->failed = true;
        return;
    }
    for (int i = 0; i < call->n_args; i++) {
        if (args[i]) {
            derive_add(d, call->args[i], args[i]);
        }
    }
}

static void sweep_results(Derive *d, Op *op)
{
    const DeriveCall *call = NULL;
    Value *g = NULL;
    for (int i = 0; i < op->n_results; i++) {
        Value *gradient = derive_gradient(d, op->results[i]);
        g = g ? g : gradient;
        call = gradient && !call ? call_of(d, op->results[i]) : call;
    }
    if (!g || op->n_operands == 0 || derive_cancels(d, op)) {
        return;
    }
    if (call) {
        apply_call(d, call);
    } else if (op->kind == OP_LOAD) {
        derive_load(d, op, g);
    } else if (op->kind == OP_GATHER) {
        derive_gather(d, op, g);
    } else if (!derive_elementwise(d, op, g) && !derive_axes(d, op, g) &&
               !derive_reduction(d, op, g)) {
        Diag *diag = derive_refuse(d, op, "this cannot be differentiated");
        diag_note(d->func->diags, diag, "no derivative of `%s` is known", op_info(op->kind)->name);
        diag_help(d->func->diags, diag,
                  "make it a function, and declare its derivative: "
                  "`derivative of f(x, y, g) = …`");
    }
}

static void sweep_op(Derive *d, Op *op)
{
    d->b.span = op->span;
    if (op->kind == OP_STORE) {
        derive_store(d, op);
    } else if (op->kind == OP_SCATTER) {
        derive_scatter(d, op);
    } else {
        sweep_results(d, op);
    }
    if (op->n_regions && op->n_results == 0 && region_is_active(d, op->regions[0])) {
        Diag *diag = derive_refuse(d, op, "loops over ranges cannot be differentiated");
        diag_help(d->func->diags, diag,
                  "write it over whole arrays, or declare its derivative: "
                  "`derivative of k(…) = …`");
    }
}

Derive *derive_begin(Func *func, Block *block, const DeriveRules *rules)
{
    Derive *d = ARENA_NEW(func->arena, Derive);
    *d = (Derive){.func = func, .block = block, .rules = rules, .n_before = func->n_values};
    d->b = build_at_end(func, block);
    d->activity = ARENA_ARRAY(func->arena, uint8_t, d->n_before + 1);
    d->gradients = ARENA_ARRAY(func->arena, Value *, d->n_before + 1);
    d->calls = ARENA_ARRAY(func->arena, const DeriveCall *, d->n_before + 1);
    memset(d->activity, 0, d->n_before + 1);
    memset(d->calls, 0, (d->n_before + 1) * sizeof *d->calls);
    memset(d->gradients, 0, (d->n_before + 1) * sizeof *d->gradients);
    for (size_t i = 0; i < rules->n_calls; i++) { /* of those around one another the outermost */
        for (int k = 0; k < rules->calls[i]->n_results; k++) {
            d->calls[rules->calls[i]->results[k]->id] = rules->calls[i];
        }
    }
    return d;
}

void derive_from(Derive *d, const Op *first)
{
    d->first = first;
}

void derive_by(Derive *d, const Value *of)
{
    d->activity[of->id] = ACTIVE_FLOAT;
}

void derive_seed_result(Derive *d, const Value *result, Value *gradient)
{
    ARENA_PUSH(d->func->arena, &d->seeds, ((ResultSeed){result, gradient}));
}

void derive_note(Derive *d)
{
    if (!d->noted) {
        note_block(d, d->block);
        d->last = d->block->last;
        d->noted = true;
    }
}

void derive_seed(Derive *d, Value *of, Value *gradient)
{
    derive_note(d);
    derive_add(d, of, gradient);
}

bool derive_run(Derive *d)
{
    derive_note(d);
    bool ended = !d->last;
    for (Op *op = (Op *)d->last, *before; !ended && !d->failed; op = before) {
        before = op->prev;
        ended = op == d->first || !before;
        op_visited(op);
        sweep_op(d, op);
    }
    return !d->failed;
}
