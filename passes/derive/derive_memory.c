/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of loads and stores of whole tensors, and of scatters. */
#include "passes/derive/derive_sweep.h"

/* g where index `at` along the axis is the only one that was read. */
static Value *only_at(Derive *d, Value *g, int axis, Value *at)
{
    Value *place = derive_iota_along(d, g->type, axis);
    Value *wanted = build_broadcast(&d->b, build_cast(&d->b, at, DT_I64), place->type->rank,
                                    place->type->dims);
    Value *is_read = build_cmp(&d->b, "eq", place, wanted);
    return build_select(&d->b, is_read, g, derive_number(d, g, 0));
}

void derive_load(Derive *d, const Op *op, Value *g)
{
    Access access = op_access(op, 0);
    Type type = access.memory->type;
    for (int i = 0; i < access.n; i++) {
        if (access.indices[i] && access.indices[i]->type->kind == TYPE_RANGE) {
            derive_refuse(d, op, "a tile of a range cannot be differentiated");
            return;
        }
        g = access.indices[i] ? build_expand(&d->b, g, i) : g;
    }
    g = build_broadcast(&d->b, g, type->rank, type->dims);
    for (int i = 0; i < access.n; i++) {
        g = access.indices[i] ? only_at(d, g, i, access.indices[i]) : g;
    }
    derive_add(d, access.memory, g);
}

/* ---- what is written ---- */

static const ResultSeed *seed_of(const Derive *d, const Value *memory)
{
    for (size_t i = 0; i < d->seeds.n; i++) {
        if (d->seeds.items[i].result == memory) {
            return &d->seeds.items[i];
        }
    }
    return NULL;
}

static bool is_whole(const Access *access)
{
    for (int i = 0; i < access->n; i++) {
        if (access->indices[i]) {
            return false;
        }
    }
    return true;
}

static void refuse_memory(Derive *d, const Op *op)
{
    Diag *diag = derive_refuse(d, op, "what is written in parts cannot be differentiated");
    diag_help(d->func->diags, diag,
              "write it as a whole, `y[i, j] = …`, or declare its derivative: "
              "`derivative of f(x, y, g) = …`");
}

/* The gradient of all of the memory behind the op: an array, or a tensor that is read; NULL: 0, or
 * 1 everywhere if `ones`. */
static Value *memory_gradient(Derive *d, const Value *memory, bool *ones)
{
    const ResultSeed *seed = seed_of(d, memory);
    *ones = seed && !seed->gradient;
    return seed ? seed->gradient : derive_gradient(d, memory);
}

/* A store replaces what was there: a gradient of the old elements is 0. */
void derive_store(Derive *d, const Op *op)
{
    Access access = op_access(op, 0);
    Value *value = op_moved_value(op);
    bool ones;
    Value *g = memory_gradient(d, access.memory, &ones);
    if (derive_is_active(d, value)) {
        bool tensor = g && g->type->kind == TYPE_TENSOR;
        if ((!tensor && !ones && !is_whole(&access)) || derive_is_overwritten(d, access.memory)) {
            refuse_memory(d, op);
            return;
        }
        if (ones) {
            g = build_float(&d->b, value->type, 1);
        } else if (tensor) {
            g = build_load(&d->b, g, access.indices);
        }
        derive_add(d, value, g);
    }
    if (is_whole(&access)) {
        d->gradients[access.memory->id] = NULL;
    }
}

bool derive_is_overwritten(const Derive *d, const Value *memory)
{
    for (size_t i = 0; i < d->overwritten.n; i++) {
        if (d->overwritten.items[i] == memory) {
            return true;
        }
    }
    return false;
}

void derive_scatter(Derive *d, const Op *op)
{
    Access access = op_access(op, 0);
    ScatterParts parts = scatter_parts(op);
    const char *fn = op_word(op, ATTR_FN);
    bool sets = text_equal(fn, "set"), ones;
    if (derive_is_active(d, parts.value)) {
        Value *of = memory_gradient(d, access.memory, &ones);
        if ((!sets && !text_equal(fn, "add")) || derive_is_overwritten(d, access.memory) || ones) {
            refuse_memory(d, op);
            return;
        }
        Value *g = of ? build_gather(&d->b, of, access.indices) : NULL;
        const Attr *guard = op_attr(op, ATTR_GUARD);
        if (g && guard) {
            op_set_ints(d->func, g->def, ATTR_GUARD, guard->n, guard->ints);
        }
        g = g ? build_cast(&d->b, g, derive_dtype(g->type->dtype)) : NULL;
        g = g && parts.mask ? build_select(&d->b, parts.mask, g, derive_number(d, g, 0)) : g;
        derive_add(d, parts.value, g);
    }
    if (!text_equal(fn, "add")) { /* which elements still have what was there is not known */
        ARENA_PUSH(d->func->arena, &d->overwritten, access.memory);
    }
}
