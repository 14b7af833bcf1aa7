/* SPDX-License-Identifier: Apache-2.0 */
/* Handles the uses of the results of a cascaded reduction. Elementwise ops up to stores are
 * computed in the nest itself; a result that any other op needs is stored as an intermediate. */
#include "passes/nest/nest.h"

#include "ir/op_axes.h"

enum { MAX_USES = 200 }; /* of one another */

bool cascade_is_fold(const Cascade *c, const Op *op)
{
    for (int i = 0; i < c->n_folds; i++) {
        if (c->folds[i].op == op) {
            return true;
        }
    }
    return false;
}

static bool is_plain(const Op *op)
{
    return op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
}

static bool is_made_here(const Cascade *c, const Value *value)
{
    return value && c->follows[value->id];
}

/* False: two operands are over different axes. */
static bool merge(NestAxis *axis, const NestAxis *with)
{
    if (axis->kind == NEST_UNKNOWN) {
        *axis = *with;
    }
    return with->kind == NEST_UNKNOWN ||
           (axis->kind == with->kind && (axis->kind != NEST_LOOP || axis->loop == with->loop));
}

/* The axes of the result of a plain op, from those of its operands. */
static bool find_axes(Cascade *c, const Op *op)
{
    Value *result = op->results[0];
    NestAxes *axes = &c->results[result->id];
    c->follows[result->id] = true;
    for (int at = 0; at < op->n_operands; at++) {
        const Value *operand = op->operands[at];
        for (int i = 0; is_made_here(c, operand) && i < operand->type->rank; i++) {
            OpAxis axis = op_axis(op, at, i);
            if (axis.role == AXIS_TIED &&
                !merge(&axes->items[axis.result], &c->results[operand->id].items[i])) {
                return false;
            }
        }
    }
    for (int i = 0; i < result->type->rank; i++) {
        NestAxis *axis = &axes->items[i];
        bool unit = poly_is_number(result->type->dims[i], 1);
        if (axis->kind == NEST_UNKNOWN && unit) {
            axis->kind = NEST_UNIT;
        }
    }
    return true;
}

/* Axes that nothing says are held whole. */
static bool complete_axes(Cascade *c, const Value *value)
{
    for (int i = 0; i < value->type->rank; i++) {
        NestAxis *axis = &c->results[value->id].items[i];
        if (axis->kind == NEST_UNKNOWN) {
            axis->kind = NEST_WHOLE;
            if (nest_whole_extent(&c->nest, value->type->dims[i]) < 0) {
                return false;
            }
        }
    }
    return true;
}

/* Is the op below the body, or no part of the nest? */
static bool is_outside(const Cascade *c, const Op *op)
{
    bool term =
        op->n_results == 1 && op->results[0]->id < c->nest.n_values && c->inner[op->results[0]->id];
    return op->parent != c->nest.func->body ||
           (!term && op->kind != OP_STORE && !is_plain(op) && !cascade_is_fold(c, op));
}

static bool leaves(const Cascade *c, const Value *value)
{
    const Block *body = c->nest.func->body;
    for (const ValueUse *use = use_first(value, body); use; use = use_next(use, body)) {
        if (is_outside(c, use->op)) {
            return true;
        }
    }
    return false;
}

void cascade_store_leaving(Cascade *c)
{
    const Block *body = c->nest.func->body;
    Value *read = nest_store(c->nest.func, c->leaves);
    for (const ValueUse *use = use_first(c->leaves, body), *next; use; use = next) {
        next = use_next(use, body);
        if (is_outside(c, use->op)) {
            op_set_operand(use->op, (int)(use - use->op->uses), read);
        }
    }
}

/* Only results are stored, and what the nest reads is not written meanwhile. */
static bool add_store(Cascade *c, Op *store)
{
    const Func *func = c->nest.func;
    const Value *value = store->operands[store->n_operands - 1];
    ParamIo io = func->params.items[store->operands[0]->index].io;
    if (c->n_stores == MAX_STORES || !is_made_here(c, value) || !complete_axes(c, value) ||
        (io != PARAM_OUT && io != PARAM_SCRATCH)) {
        return false;
    }
    for (const Op *op = c->first; op; op = op->next) {
        bool later = io == PARAM_SCRATCH && op_is_before(store, op);
        if (op != store && !later && op_reads(op, store->operands[0])) {
            return false;
        }
    }
    c->stores[c->n_stores++] = store;
    return true;
}

static bool see(Cascade *c, Op *op)
{
    bool made = false, term = op->n_results == 1 && c->inner[op->results[0]->id];
    for (int i = 0; i < op->n_operands; i++) {
        const Value *operand = op->operands[i];
        made = made || is_made_here(c, operand);
        if (operand && operand->id < c->nest.n_values && c->inner[operand->id] && !term &&
            !cascade_is_fold(c, op)) {
            return false; /* something else needs a term */
        }
    }
    if (term || !made || cascade_is_fold(c, op)) {
        return true;
    }
    if (op->kind == OP_STORE) {
        return add_store(c, op);
    }
    if (!is_plain(op)) {
        return true; /* it reads memory: `leaves` */
    }
    Value *result = op->results[0];
    if (!find_axes(c, op)) {
        return false;
    }
    if (!c->leaves && leaves(c, result)) {
        c->leaves = result;
        return complete_axes(c, result);
    }
    return true;
}

static bool begin_folds(Cascade *c)
{
    for (int i = 0; i < c->n_folds; i++) {
        CascadeFold *fold = &c->folds[i];
        Value *result = fold->op->results[0];
        fold->axes = c->rows;
        if (fold->op->kind == OP_DOT) {
            int whole = result->type->rank - (fold->side ? 2 : 1);
            int row = result->type->rank - (fold->side ? 1 : 2);
            fold->axes = c->terms;
            fold->axes.items[row] = (NestAxis){NEST_LOOP, c->nest.column - 1};
            fold->axes.items[whole] = (NestAxis){NEST_WHOLE, 0};
            if (nest_whole_extent(&c->nest, result->type->dims[whole]) < 0) {
                return false;
            }
        }
        c->results[result->id] = fold->axes;
        c->follows[result->id] = true;
        c->leaves = !c->leaves && leaves(c, result) ? result : c->leaves;
    }
    if (c->max) {
        c->results[c->max->results[0]->id] = c->rows;
        c->follows[c->max->results[0]->id] = true;
    }
    return true;
}

bool cascade_results(Cascade *c)
{
    c->results = ARENA_ARRAY(c->nest.func->arena, NestAxes, c->nest.n_values);
    c->follows = ARENA_ARRAY(c->nest.func->arena, bool, c->nest.n_values);
    if (!begin_folds(c)) {
        return false;
    }
    for (Op *op = c->first->next; op; op = op->next) {
        if (!see(c, op)) {
            return false;
        }
    }
    return c->leaves || c->n_stores > 0;
}

/* ---- rounding ---- */

static bool rounds(const Cascade *c, Memo *known, const Value *value, int depth);

typedef struct Loads {
    const Cascade *c;
    Memo *known;
    const Value *tensor;
    int depth;
    bool all_round;
} Loads;

static void see_load(Op *op, void *user)
{
    Loads *loads = user;
    bool reads = op->kind != OP_STORE && op->n_regions == 0 && op_reads(op, loads->tensor);
    if (reads && loads->all_round) {
        loads->all_round =
            op->kind == OP_LOAD && rounds(loads->c, loads->known, op->results[0], loads->depth + 1);
    }
}

/* Do all loads of a scratch tensor round what they read, those of other nests among them? */
static bool loads_round(const Cascade *c, Memo *known, const Op *store, int depth)
{
    const Value *tensor = store->operands[0];
    bool narrow = store->kind == OP_STORE &&
                  c->nest.func->params.items[tensor->index].io == PARAM_SCRATCH;
    Loads loads = {c, known, tensor, depth, narrow};
    if (narrow) {
        func_walk(c->nest.func, see_load, &loads);
    }
    return loads.all_round;
}

static bool rounds(const Cascade *c, Memo *known, const Value *value, int depth)
{
    const Block *body = c->nest.func->body;
    int64_t found;
    if (dtype_is_narrow(value->type->dtype) || memo_known(known, value, 0, &found)) {
        return dtype_is_narrow(value->type->dtype) || found;
    }
    bool narrow = depth < MAX_USES;
    for (const ValueUse *use = use_first(value, body); use && narrow; use = use_next(use, body)) {
        narrow = use->op->n_results == 1 ? rounds(c, known, use->op->results[0], depth + 1)
                                         : loads_round(c, known, use->op, depth);
    }
    return memo_keep(known, value, 0, narrow) != 0;
}

bool cascade_is_rounded(const Cascade *c)
{
    Memo *known = memo_open(c->nest.func);
    bool rounded = !c->max || rounds(c, known, c->max->results[0], 0);
    for (int i = 0; i < c->n_folds && rounded; i++) {
        rounded = rounds(c, known, c->folds[i].op->results[0], 0);
    }
    memo_close(known);
    return rounded;
}
