/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the nest of a cascaded reduction: the loop that carries the partial results, and the ops
 * that use the final ones. */
#include "passes/nest/nest.h"

#include "ir/op_axes.h"

#include <math.h>

enum { TILE = 128 }; /* rows and columns of a tile, as hand-written sources have them */

typedef struct Emitter {
    Cascade *c;
    NestScope loop, after;
    Value *maximum[2];  /* of the terms so far: before a step, and behind it */
    Value *reference[2]; /* what is subtracted; where both infinities are replaced */
    Value *exps[MAX_EXPS], *rescales[MAX_EXPS];
} Emitter;

/* ---- the loop ---- */

/* What the maximum is replaced by where its difference from an element would be no number. */
static Value *build_reference(Builder *b, ReferenceKind kind, Value *maximum)
{
    bool both = kind == REFERENCE_INFINITE;
    Value *of = both ? build_unary(b, OP_ABS, maximum) : maximum;
    Value *inf = build_float(b, maximum->type, both ? INFINITY : -INFINITY);
    Value *zero = build_float(b, maximum->type, 0);
    return build_select(b, build_cmp(b, "eq", of, inf), zero, maximum);
}

/* The exponentials of the terms, and of the difference of the maxima. */
static bool emit_exps(Emitter *e)
{
    Cascade *c = e->c;
    NestScope *s = &e->loop;
    Value *terms = c->of;
    for (int i = 0; i < c->n_exps; i++) {
        CascadeExp *exp = &c->exps[i];
        if (exp->kind == REFERENCE_NONE) {
            e->exps[i] = nest_value(s, exp->value, &c->terms);
            if (!e->exps[i]) {
                return false;
            }
            continue;
        }
        Value **reference = &e->reference[exp->kind == REFERENCE_INFINITE];
        if (!c->nest.dry && !*reference) {
            *reference = build_reference(&s->b, exp->kind, e->maximum[1]);
        }
        Value *by = c->nest.dry ? exp->reference : *reference;
        nest_define(s, exp->reference, &c->rows, by);
        e->exps[i] = nest_value(s, exp->value, &c->terms);
        NestScope of_rows = {.nest = &c->nest, .b = s->b};
        nest_define(&of_rows, exp->reference, &c->rows, by);
        nest_define(&of_rows, terms, &c->rows, c->nest.dry ? terms : e->maximum[0]);
        e->rescales[i] = nest_value(&of_rows, exp->value, &c->rows);
        if (!e->exps[i] || !e->rescales[i]) {
            return false;
        }
    }
    return true;
}

/* The loop carries what the tile's reduction comes to: together they run over the whole axis, which
 * the verifier checks after every pass. */
static Value *over_loop(const Cascade *c, Value *reduced)
{
    op_set_over(c->nest.func, reduced->def, c->nest.loops[c->nest.column].extent);
    return reduced;
}

/* The term of a sum: the exponential with the factors that vary along the loop. */
static Value *emit_term(Emitter *e, const CascadeFold *fold)
{
    Cascade *c = e->c;
    NestScope *s = &e->loop;
    Value *term = e->exps[fold->exp];
    for (int i = 0; i < fold->n_path && term; i++) {
        const Op *step = fold->path[i];
        int operand;
        if (cascade_leaves_sum(c, step, &operand)) {
            continue;
        }
        const Value *before = i ? fold->path[i - 1]->results[0] : c->exps[fold->exp].value;
        Value *made = NULL;
        if (step->kind == OP_CAST) {
            made = c->nest.dry ? term : build_cast(&s->b, term, step->results[0]->type->dtype);
        } else if (step->kind == OP_NEG) {
            made = c->nest.dry ? term : build_unary(&s->b, OP_NEG, term);
        } else {
            int at = step->kind == OP_SELECT ? 0 : step->operands[0] == before;
            Value *factor = nest_value(s, step->operands[at], &c->terms);
            if (factor && c->nest.dry) {
                made = term;
            } else if (factor && step->kind == OP_MUL) {
                made = build_binary(&s->b, OP_MUL, term, factor);
            } else if (factor) {
                made = build_select(&s->b, factor, term, build_float(&s->b, term->type, 0));
            }
        }
        term = made;
    }
    return term;
}

/* The state behind a step: what there was, for the new maximum, and the tile's terms. */
static Value *emit_step(Emitter *e, const CascadeFold *fold, Value *state)
{
    Cascade *c = e->c;
    NestScope *s = &e->loop;
    Value *term = emit_term(e, fold), *sum = NULL;
    if (!term) {
        return NULL;
    }
    if (fold->op->kind == OP_DOT) {
        NestAxes inner = fold->axes;
        int other = 1 - fold->side, rank = fold->op->results[0]->type->rank;
        inner.items[other ? rank - 2 : rank - 1] = (NestAxis){NEST_LOOP, c->nest.column};
        inner.items[other ? rank - 1 : rank - 2] = (NestAxis){NEST_WHOLE, 0};
        Type type = fold->op->results[0]->type;
        Value *factor = nest_factor(s, fold->op->operands[other], &inner);
        nest_note_product(&c->nest, fold->op->operands[0], fold->op->operands[1],
                          type->dims[other ? rank - 1 : rank - 2]);
        if (!factor || c->nest.dry) {
            return factor;
        }
        sum = build_dot(&s->b, other ? term : factor, other ? factor : term, NULL, DT_F32);
        sum = over_loop(c, sum);
    } else if (c->nest.dry) {
        return term;
    } else {
        int at = nest_position(&c->nest, &c->terms, c->axis);
        sum = over_loop(c, build_reduce(&s->b, "sum", term, at));
    }
    Value *rescale = e->rescales[fold->exp];
    if (!rescale) {
        return build_binary(&s->b, OP_ADD, state, sum);
    }
    rescale = build_broadcast(&s->b, rescale, state->type->rank, state->type->dims);
    return build_fma(&s->b, state, rescale, sum);
}

static bool emit_loop(Emitter *e, Op *loop)
{
    Cascade *c = e->c;
    NestScope *s = &e->loop;
    Value *next[MAX_FOLDS + 1];
    Value *terms = nest_value(s, c->of, &c->terms);
    if (!terms) {
        return false;
    }
    if (c->max && !c->nest.dry) {
        int at = nest_position(&c->nest, &c->terms, c->axis);
        Value *maximum = over_loop(c, build_reduce(&s->b, "max", terms, at));
        e->maximum[0] = loop->regions[0]->args[c->n_folds + 1];
        e->maximum[1] = build_binary(&s->b, OP_MAX, e->maximum[0], maximum);
    }
    if (!emit_exps(e)) {
        return false;
    }
    for (int i = 0; i < c->n_folds; i++) {
        Value *state = c->nest.dry ? NULL : loop->regions[0]->args[i + 1];
        next[i] = emit_step(e, &c->folds[i], state);
        if (!next[i]) {
            return false;
        }
    }
    next[c->n_folds] = e->maximum[1];
    if (!c->nest.dry) {
        build_yield(&s->b, c->n_folds + (c->max != NULL), next);
    }
    return true;
}

/* ---- behind the loop ---- */

/* Is there an element along the axis? NULL: certainly. */
static Value *build_any(Cascade *c, NestScope *s)
{
    Dim extent = c->nest.loops[c->nest.column].extent;
    if (poly_least(extent) > 0) {
        return NULL;
    }
    Value *zero = build_i64(&s->b, 0);
    return build_cmp(&s->b, "gt", build_size(&s->b, extent), zero);
}

/* Of rows in which nothing counted the natural form gives NaN: exp(-inf - -inf). Of no elements at
 * all it gives 0. */
static Value *build_exit(Emitter *e, const CascadeFold *fold, Value *sum)
{
    Cascade *c = e->c;
    NestScope *s = &e->after;
    if (c->exps[fold->exp].kind != REFERENCE_PLAIN) { /* or there is none */
        return sum;
    }
    Value *maximum = nest_value(s, c->maximum, &c->rows), *any = build_any(c, s);
    Value *none = build_cmp(&s->b, "eq", maximum, build_float(&s->b, maximum->type, -INFINITY));
    Value *nan = build_float(&s->b, maximum->type, NAN);
    if (any) {
        any = build_broadcast(&s->b, any, maximum->type->rank, maximum->type->dims);
        nan = build_select(&s->b, any, nan, build_float(&s->b, maximum->type, 0));
    }
    Type type = sum->type;
    nan = build_broadcast(&s->b, nan, type->rank, type->dims);
    none = build_broadcast(&s->b, none, type->rank, type->dims);
    return build_select(&s->b, none, nan, sum);
}

/* Is a factor that has left the sum NaN where the sum should be: itself a sum of this maximum? */
static bool has_exit(const Cascade *c, const Value *factor)
{
    const Value *of = value_unstretched(factor);
    for (int i = 0; i < c->n_folds; i++) {
        const CascadeFold *fold = &c->folds[i];
        if (fold->op->results[0] == of && fold->op->kind == OP_REDUCE) {
            return c->exps[fold->exp].kind == REFERENCE_PLAIN;
        }
    }
    return false;
}

/* The factors and conditions that have left the sum. A sum of nothing stays 0. */
static Value *emit_factors(Emitter *e, const CascadeFold *fold, Value *sum)
{
    Cascade *c = e->c;
    NestScope *s = &e->after;
    NestAxes axes = c->rows;
    bool exits = false;
    int operand;
    for (int i = 0; i < fold->n_path; i++) {
        exits = exits || (cascade_leaves_sum(c, fold->path[i], &operand) &&
                          has_exit(c, fold->path[i]->operands[operand]));
    }
    sum = c->nest.dry || exits ? sum : build_exit(e, fold, sum);
    for (int i = 0; i < fold->n_path; i++) {
        const Op *step = fold->path[i];
        if (!cascade_leaves_sum(c, step, &operand)) {
            continue;
        }
        Value *factor = nest_value(s, step->operands[operand], &axes);
        if (!factor || c->nest.dry) {
            if (!factor) {
                return NULL;
            }
            continue;
        }
        if (step->kind == OP_SELECT) {
            Type type = sum->type;
            factor = build_broadcast(&s->b, factor, type->rank, type->dims);
            sum = build_select(&s->b, factor, sum, build_float(&s->b, type, 0));
            continue;
        }
        Value *any = build_any(c, s);
        if (any) {
            Type rows = factor->type;
            Value *one = build_float(&s->b, rows, 1);
            any = build_broadcast(&s->b, any, rows->rank, rows->dims);
            factor = build_select(&s->b, any, factor, one);
        }
        factor = build_broadcast(&s->b, factor, sum->type->rank, sum->type->dims);
        sum = build_binary(&s->b, step->kind, sum, factor);
    }
    return sum;
}

static bool emit_results(Emitter *e, const Op *loop)
{
    Cascade *c = e->c;
    NestScope *s = &e->after;
    Value *maximum = c->maximum;
    if (c->max) {
        nest_define(s, maximum, &c->rows, c->nest.dry ? maximum : loop->results[c->n_folds]);
    }
    for (int pass = 0; pass < 2; pass++) { /* rows first: they are factors of the others */
        for (int i = 0; i < c->n_folds; i++) {
            CascadeFold *fold = &c->folds[i];
            Value *result = fold->op->results[0];
            if ((fold->op->kind == OP_DOT) == (pass == 1)) {
                Value *sum = emit_factors(e, fold, c->nest.dry ? result : loop->results[i]);
                if (!sum) {
                    return false;
                }
                nest_define(s, result, &fold->axes, sum);
            }
        }
    }
    return true;
}

static bool emit_stores(Emitter *e)
{
    Cascade *c = e->c;
    NestScope *s = &e->after;
    if (c->leaves && !nest_value(s, c->leaves, &c->results[c->leaves->id])) {
        return false;
    }
    for (int i = 0; i < c->n_stores; i++) {
        const Op *store = c->stores[i];
        Value *value = store->operands[store->n_operands - 1], *indices[MAX_RANK];
        const NestAxes *axes = &c->results[value->id];
        Access access = op_access(store, 0);
        Value *by = nest_value(s, value, axes);
        if (!by || !nest_indices(s, &access, axes, indices)) {
            return false;
        }
        if (!c->nest.dry) {
            Span span = s->b.span;
            s->b.span = store->span;
            build_store(&s->b, access.memory, indices, by);
            s->b.span = span;
        }
    }
    return true;
}

/* ---- the nest ---- */

/* The name of the axis: its size's, for the second time with its number. */
static const char *loop_name(Cascade *c, int at)
{
    Dim extent = c->nest.loops[at].extent;
    const DimVar *var = NULL;
    for (int i = 0; i < extent->n_terms; i++) {
        const PolyTerm *term = &extent->terms[i];
        var = term->n > 0 ? term->vars[term->n - 1] : var;
    }
    if (!var || !var->name) {
        return at == c->nest.column ? "column" : "row";
    }
    bool repeated = false;
    for (int i = 0; i < at; i++) {
        repeated = repeated || c->nest.loops[i].extent == extent;
    }
    return repeated ? arena_printf(c->nest.func->arena, "%s%d", var->name, at + 1) : var->name;
}

static void build_nest(Emitter *e, Op *before)
{
    Cascade *c = e->c;
    Nest *nest = &c->nest;
    Dim dims[MAX_RANK + 1];
    int64_t steps[MAX_RANK + 1];
    const char *names[MAX_RANK + 1];
    int n = nest->column;
    for (int i = 0; i < n; i++) {
        dims[i] = nest->loops[i].extent;
        steps[i] = nest->loops[i].is_range ? TILE : 0;
        names[i] = loop_name(c, i);
    }
    Builder b = build_before(nest->func, before);
    b.span = c->first->span;
    Op *parallel = build_parallel(&b, OP_PARALLEL, n, dims, steps, names);
    for (int i = 0; i < n; i++) {
        nest->loops[i].binder = parallel->regions[0]->args[i];
    }
    e->after = (NestScope){.nest = nest, .b = build_at_end(nest->func, parallel->regions[0])};
    e->after.b.span = c->first->span;
}

static Op *build_loop(Emitter *e)
{
    Cascade *c = e->c;
    Nest *nest = &c->nest;
    NestScope *s = &e->after;
    Value *states[MAX_FOLDS + 1], *lo, *hi;
    for (int i = 0; i < c->n_folds; i++) {
        const CascadeFold *fold = &c->folds[i];
        Type type = nest_type(nest, fold->op->results[0]->type, &fold->axes);
        states[i] = build_float(&s->b, type, 0);
    }
    if (c->max) {
        Type rows = nest_type(nest, c->max->results[0]->type, &c->rows);
        states[c->n_folds] =
            c->least ? nest_value(s, c->least, &c->rows) : build_float(&s->b, rows, -INFINITY);
    }
    cascade_bounds(c, s, &lo, &hi);
    Op *loop = build_for(&s->b, nest->loops[nest->column].extent, TILE, loop_name(c, nest->column),
                         lo, hi, c->n_folds + (c->max != NULL), states);
    if (!value_is_const(lo, 0) || hi->def->kind != OP_SIZE) {
        op_set_int(nest->func, loop, ATTR_BOUNDED, 1);
    }
    nest->loops[nest->column].binder = loop->regions[0]->args[0];
    e->loop = (NestScope){.nest = nest, .b = build_at_end(nest->func, loop->regions[0])};
    e->loop.b.span = c->first->span;
    return loop;
}

/* The first op that reads what the nest stores, or the last store. */
Op *cascade_place(const Cascade *c)
{
    Op *last = c->stores[0];
    for (int i = 1; i < c->n_stores; i++) {
        last = op_is_before(last, c->stores[i]) ? c->stores[i] : last;
    }
    for (Op *op = c->first; op != last; op = op->next) {
        for (int i = 0; i < c->n_stores; i++) {
            if (op->kind != OP_STORE && op_reads(op, c->stores[i]->operands[0])) {
                return op;
            }
        }
    }
    return last;
}

/* Does the nest compute the op? Without a maximum it only reads what a reduction gives. */
static bool is_computed(const Cascade *c, const NestScope *s, const Op *op)
{
    bool may = c->max || op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op);
    for (size_t i = 0; i < s->made.n && may; i++) {
        if (op->n_results == 1 && s->made.items[i].value == op->results[0]) {
            return true;
        }
    }
    return false;
}

/* Is what the loop makes of products needed elsewhere, too? It would be computed twice. */
static bool computes_twice(const Cascade *c, const NestScope *s)
{
    const Block *body = c->nest.func->body;
    for (size_t i = 0; i < s->made.n; i++) {
        const Value *value = s->made.items[i].value;
        if (!c->nest.product[value->id] || nest_depends(&c->nest, value)) {
            continue;
        }
        for (const ValueUse *use = use_first(value, body); use; use = use_next(use, body)) {
            const Op *op = use->op;
            bool term = op->n_results == 1 && c->inner[op->results[0]->id];
            if (op != c->max && !term && !cascade_is_fold(c, op) && !is_computed(c, s, op)) {
                return true;
            }
        }
    }
    return false;
}

bool cascade_emit(Cascade *c, bool dry)
{
    Emitter e = {.c = c};
    Op *loop = NULL;
    c->nest.dry = dry;
    c->nest.n_products = 0;
    c->nest.stored = c->nest.by_fma = 0;
    c->nest.latest = NULL;
    if (dry) {
        e.loop = e.after = (NestScope){.nest = &c->nest};
    } else {
        build_nest(&e, cascade_place(c));
        loop = build_loop(&e);
    }
    if (dry && c->least && !nest_value(&e.after, c->least, &c->rows)) {
        return false;
    }
    return emit_loop(&e, loop) && (!dry || c->separated || !computes_twice(c, &e.loop)) &&
           emit_results(&e, loop) && emit_stores(&e);
}
