/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of folds and scans by a function of the program, whose region is inlined over arrays
 * and differentiated there.
 *
 * A fold y of x is f(f(p, x[i]), s) for each i, where p is the fold of all before i and s of all
 * after it: two exclusive scans, and the derivative of f twice at each element.
 *
 * A scan is y[i] = f(z[i], x[i]), where z[i] is y[i - 1]. With J the derivative of f by z, what
 * flows back from i is b[i] = Jt[i] (g[i] + b[i + 1]): a linear recurrence, which is a scan of
 * pairs of a matrix and a vector from the other end. */
#include "passes/derive/derive_sweep.h"

enum {
    MAX_TUPLE = 16, /* elements of a tuple */
    MAX_PARTS = 3,  /* of them that have a derivative, in a scan: its recurrence is one of tuples of
                     * MAX_PARTS * (MAX_PARTS + 1) */
};

/* The region over arrays: its arguments, what it yields, and its first op. */
typedef struct Inlined {
    Value *yields[MAX_TUPLE];
    const Op *first;
    DeriveRules rules; /* with the calls that are in it now */
} Inlined;

typedef struct Lift {
    Derive *d;
    CloneMap map;
    Type shape;
    DeriveRules *rules;
    const DeriveCall **calls;
    size_t n_calls;
} Lift;

static Type array_of(const Derive *d, DType dtype, Type shape)
{
    return type_array(d->func, dtype, shape->rank, shape->dims);
}

static Value *lifted(Lift *lift, Value *value)
{
    Value *now = clone_get(&lift->map, value);
    return now == value ? build_broadcast(&lift->d->b, value, lift->shape->rank, lift->shape->dims)
                        : now;
}

static bool lift_op(Lift *lift, const Op *op)
{
    Derive *d = lift->d;
    Value *operands[4];
    if (op->n_regions || op->n_results != 1 || op->n_operands > 4) {
        derive_refuse(d, op, "a fold with branches and loops cannot be differentiated");
        return false;
    }
    if (op->kind == OP_SIZE) {
        return true; /* a scalar of the kernel */
    }
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = lifted(lift, op->operands[i]);
    }
    Type type = array_of(d, op->results[0]->type->dtype, lift->shape);
    Op *made = build_op(&d->b, op->kind, op->n_operands, operands, 1, &type, 0);
    made->attrs = ARENA_ARRAY(d->func->arena, Attr, (size_t)op->n_attrs + 1);
    for (int i = 0; i < op->n_attrs; i++) {
        made->attrs[i] = op->attrs[i];
    }
    made->n_attrs = op->n_attrs;
    clone_map_value(&lift->map, op->results[0], made->results[0]);
    return true;
}

/* A call of a function with a declared derivative, over the arrays. */
static void lift_call(Lift *lift, const DeriveCall *call)
{
    Arena *arena = lift->d->func->arena;
    Value **results = ARENA_ARRAY(arena, Value *, (size_t)call->n_results + 1);
    Value **args = ARENA_ARRAY(arena, Value *, (size_t)call->n_args + 1);
    for (int i = 0; i < call->n_results; i++) {
        results[i] = lifted(lift, call->results[i]);
    }
    for (int i = 0; i < call->n_args; i++) {
        args[i] = call->args[i] ? lifted(lift, call->args[i]) : NULL;
    }
    const DeriveRules *rules = lift->d->rules;
    lift->calls[lift->n_calls++] = rules->moved(rules->user, call, results, args);
}

/* f of 2n arrays. False after an error. */
static bool inline_region(Derive *d, const Block *region, Value *const *args, Inlined *out)
{
    Lift lift = {.d = d, .map = clone_map_new(d->func), .shape = args[0]->type};
    size_t most = d->rules->n_calls;
    lift.calls = ARENA_ARRAY(d->func->arena, const DeriveCall *, 2 * most + 1);
    for (size_t i = 0; i < most; i++) {
        lift.calls[lift.n_calls++] = d->rules->calls[i];
    }
    for (int i = 0; i < region->n_args; i++) {
        clone_map_value(&lift.map, region->args[i], args[i]);
    }
    const Op *before = d->block->last;
    for (const Op *op = region->first; op && op->kind != OP_YIELD; op = op->next) {
        if (!lift_op(&lift, op)) {
            return false;
        }
    }
    for (size_t i = 0; i < most; i++) {
        const DeriveCall *call = d->rules->calls[i];
        if (call->results[0]->def && call->results[0]->def->parent == region) {
            lift_call(&lift, call);
        }
    }
    for (int i = 0; i < region->last->n_operands; i++) {
        out->yields[i] = lifted(&lift, region->last->operands[i]);
    }
    out->first = before ? before->next : d->block->first;
    out->rules = *d->rules;
    out->rules.calls = lift.calls;
    out->rules.n_calls = lift.n_calls;
    return true;
}

/* Gradients of `n_by` arrays from those of the n that were yielded (NULL: 0). */
static bool differentiate(Derive *d, const Inlined *f, int n, Value *const *gradients, int n_by,
                          Value *const *by, Value **out)
{
    Derive *inner = derive_begin(d->func, d->block, &f->rules);
    inner->first = f->first;
    for (int i = 0; i < n_by; i++) {
        derive_by(inner, by[i]);
    }
    for (int i = 0; i < n; i++) {
        if (gradients[i]) {
            derive_seed(inner, f->yields[i], gradients[i]);
        }
    }
    bool good = f->first == NULL || derive_run(inner);
    for (int i = 0; i < n_by; i++) {
        out[i] = derive_gradient(inner, by[i]);
    }
    d->failed = d->failed || !good;
    return good;
}

/* The same fold as an exclusive scan from either end. */
static void exclusive_scan(Derive *d, const Op *op, bool reverse, Value **out)
{
    int n = fold_count(op);
    Op *scan = build_fold(&d->b, n, op->operands, op->operands + n,
                          (int)op_int(op, ATTR_AXIS, 0), true, reverse, true);
    Builder inside = build_at_end(d->func, scan->regions[0]);
    CloneMap map = clone_map_new(d->func);
    for (int i = 0; i < 2 * n; i++) {
        clone_map_value(&map, op->regions[0]->args[i], scan->regions[0]->args[i]);
    }
    clone_block_into(&inside, &map, op->regions[0]);
    for (int i = 0; i < n; i++) {
        out[i] = scan->results[i];
    }
}

/* Arrays that are folded together may be one: its gradient has all of them. */
static void add_once(Derive *d, const Op *op, Value *const *gradients)
{
    for (int i = 0; i < fold_count(op); i++) {
        bool first = true;
        for (int k = 0; k < i; k++) {
            first = first && op->operands[k] != op->operands[i];
        }
        derive_add(d, op->operands[i], first ? gradients[i] : NULL);
    }
}

static bool derive_whole(Derive *d, const Op *op)
{
    int n = fold_count(op);
    Value *args[MAX_TUPLE * 2], *gradients[MAX_TUPLE], *found[MAX_TUPLE];
    Inlined inner, outer;
    exclusive_scan(d, op, false, args);
    for (int i = 0; i < n; i++) {
        args[n + i] = op->operands[i];
    }
    if (!inline_region(d, op->regions[0], args, &inner)) {
        return true;
    }
    Value *suffix[MAX_TUPLE];
    exclusive_scan(d, op, true, suffix);
    for (int i = 0; i < n; i++) {
        args[i] = inner.yields[i];
        args[n + i] = suffix[i];
    }
    if (!inline_region(d, op->regions[0], args, &outer)) {
        return true;
    }
    for (int i = 0; i < n; i++) {
        Value *g = derive_gradient(d, op->results[i]);
        Type type = op->operands[i]->type;
        gradients[i] = g ? build_broadcast(&d->b, g, type->rank, type->dims) : NULL;
    }
    if (differentiate(d, &outer, n, gradients, n, inner.yields, found) &&
        differentiate(d, &inner, n, found, n, op->operands, gradients)) {
        add_once(d, op, gradients);
    }
    return true;
}

/* ---- scans ---- */

/* (m1, v1) and then (m2, v2): what flows through both. */
static void yield_composed(Derive *d, Op *scan, int n, bool reverse)
{
    Builder b = build_at_end(d->func, scan->regions[0]);
    Value *const *first = scan->regions[0]->args, *const *second = first + n * (n + 1);
    Value *const *outer = reverse ? first : second, *const *inner = reverse ? second : first;
    Value *yields[MAX_PARTS * (MAX_PARTS + 1)];
    for (int r = 0; r < n; r++) {
        for (int c = 0; c <= n; c++) {
            Value *sum = c == n ? outer[n * n + r] : NULL;
            for (int k = 0; k < n; k++) {
                Value *left = outer[r * n + k], *right = inner[c == n ? n * n + k : k * n + c];
                sum = sum ? build_fma(&b, left, right, sum) : build_binary(&b, OP_MUL, left, right);
            }
            yields[c == n ? n * n + r : r * n + c] = sum;
        }
    }
    build_yield(&b, n * (n + 1), yields);
}

/* What flows into each element from those behind it (before it, if the scan is reversed). */
static void flow_back(Derive *d, const Op *op, int n, Value *const *matrix, Value *const *vector,
                      Value **out)
{
    bool reverse = op_int(op, ATTR_REVERSE, 0) == 0;
    Value *arrays[MAX_PARTS * (MAX_PARTS + 1)], *neutrals[MAX_PARTS * (MAX_PARTS + 1)];
    for (int i = 0; i < n * (n + 1); i++) {
        arrays[i] = i < n * n ? matrix[i] : vector[i - n * n];
        Type scalar = type_scalar(d->func, arrays[i]->type->dtype);
        neutrals[i] = build_float(&d->b, scalar, i < n * n && i % (n + 1) == 0 ? 1 : 0);
    }
    Op *scan = build_fold(&d->b, n * (n + 1), arrays, neutrals, (int)op_int(op, ATTR_AXIS, 0),
                          true, reverse, true);
    yield_composed(d, scan, n, reverse);
    for (int i = 0; i < n; i++) {
        out[i] = scan->results[n * n + i];
    }
}

/* A scan whose derivative is looked for. */
typedef struct Scan {
    const Op *op;
    Inlined f;
    Value *args[MAX_TUPLE * 2], **before, **own; /* the scan so far, and the elements */
    int n, parts[MAX_PARTS];                     /* those that have a derivative */
} Scan;

/* The parts of the tuple that depend on elements with a derivative. False: too many. */
static bool find_parts(Derive *d, Scan *s)
{
    int n = fold_count(s->op), before = -1;
    bool active[MAX_TUPLE] = {false};
    for (int i = 0; i < n; i++) {
        active[i] = derive_is_active(d, s->op->operands[i]);
    }
    while (s->n != before) {
        Derive *inner = derive_begin(d->func, d->block, &s->f.rules);
        inner->first = s->f.first;
        for (int i = 0; i < n; i++) {
            if (active[i]) {
                derive_by(inner, s->before[i]);
                derive_by(inner, s->own[i]);
            }
        }
        derive_note(inner);
        before = s->n;
        s->n = 0;
        for (int i = 0; i < n; i++) {
            active[i] = active[i] || derive_is_active(inner, s->f.yields[i]);
            if (active[i] && s->n == MAX_PARTS) {
                return false;
            }
            if (active[i]) {
                s->parts[s->n++] = i;
            }
        }
    }
    return true;
}

/* Gradients of the parts of `by` from those of the parts that f yields. */
static bool differentiate_parts(Derive *d, const Scan *s, Value *const *gradients,
                                Value *const *by, Value **out)
{
    Value *all[MAX_TUPLE] = {NULL}, *of[MAX_PARTS];
    for (int i = 0; i < s->n; i++) {
        all[s->parts[i]] = gradients[i];
        of[i] = by[s->parts[i]];
    }
    bool good = differentiate(d, &s->f, fold_count(s->op), all, s->n, of, out);
    for (int i = 0; i < s->n; i++) {
        out[i] = out[i] ? out[i] : derive_zero(d, s->args[s->parts[i]]->type);
    }
    return good;
}

/* The gradients of what f yields at each element, its results' own ones included. */
static bool flow(Derive *d, const Scan *s, Value **out)
{
    Value *g[MAX_PARTS], *matrix[MAX_PARTS * MAX_PARTS], *vector[MAX_PARTS], *found[MAX_PARTS];
    bool exclusive = op_int(s->op, ATTR_EXCLUSIVE, 0) != 0;
    for (int i = 0; i < s->n; i++) {
        g[i] = derive_gradient(d, s->op->results[s->parts[i]]);
        g[i] = g[i] ? g[i] : derive_zero(d, s->args[s->parts[i]]->type);
    }
    for (int r = 0; r < s->n; r++) { /* row r of J, which is column r of Jt */
        Value *seeds[MAX_PARTS] = {NULL};
        seeds[r] = derive_number(d, g[r], 1);
        if (!differentiate_parts(d, s, seeds, s->before, found)) {
            return false;
        }
        for (int c = 0; c < s->n; c++) {
            matrix[c * s->n + r] = found[c];
        }
    }
    if (!differentiate_parts(d, s, g, s->before, vector)) {
        return false;
    }
    flow_back(d, s->op, s->n, matrix, exclusive ? g : vector, out);
    for (int i = 0; i < s->n && !exclusive; i++) {
        out[i] = build_binary(&d->b, OP_ADD, g[i], out[i]);
    }
    return true;
}

static bool derive_each(Derive *d, const Op *op)
{
    Scan s = {.op = op};
    int n = fold_count(op);
    bool reverse = op_int(op, ATTR_REVERSE, 0) != 0;
    Value *into[MAX_PARTS] = {NULL}, *found[MAX_PARTS], *gradients[MAX_TUPLE] = {NULL};
    s.before = reverse ? s.args + n : s.args;
    s.own = reverse ? s.args : s.args + n;
    exclusive_scan(d, op, reverse, s.before);
    for (int i = 0; i < n; i++) {
        s.own[i] = op->operands[i];
    }
    if (!inline_region(d, op->regions[0], s.args, &s.f)) {
        return true;
    }
    if (!find_parts(d, &s)) {
        return false;
    }
    if (flow(d, &s, into) && differentiate_parts(d, &s, into, s.own, found)) {
        for (int i = 0; i < s.n; i++) {
            gradients[s.parts[i]] = found[i];
        }
        add_once(d, op, gradients);
    }
    return true;
}

bool derive_function_fold(Derive *d, const Op *op)
{
    int n = fold_count(op);
    bool scan = op_int(op, ATTR_SCAN, 0) != 0;
    bool floats = n <= MAX_TUPLE;
    for (int i = 0; i < n && floats; i++) {
        DType dtype = op->operands[i]->type->dtype;
        floats = dtype_is_float(dtype) && derive_dtype(dtype) == dtype;
    }
    return floats && (scan ? derive_each(d, op) : derive_whole(d, op));
}
