/* SPDX-License-Identifier: Apache-2.0 */
/* Derivatives of reads and writes of tensors as a whole, and of scatters. */
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

static ResultSeed *seed_of(Derive *d, const Value *memory)
{
    for (size_t i = 0; i < d->seeds.n; i++) {
        if (d->seeds.items[i].result == memory) {
            return &d->seeds.items[i];
        }
    }
    return NULL;
}

static void refuse_memory(Derive *d, const Op *op)
{
    Diag *diag = derive_refuse(d, op, "what is written in parts cannot be differentiated");
    diag_help(d->func->diags, diag,
              "write it as a whole, `y[i, j] = …`, or declare its derivative: "
              "`derivative of f(x, y, g) = …`");
}

void derive_store(Derive *d, const Op *op)
{
    Access access = op_access(op, 0);
    Value *value = op_moved_value(op);
    ResultSeed *seed = seed_of(d, access.memory);
    if (!derive_is_active(d, value)) {
        return;
    }
    if (!seed || seed->overwritten) {
        refuse_memory(d, op);
        return;
    }
    Value *one = seed->gradient ? NULL : build_float(&d->b, value->type, 1);
    derive_add(d, value, one ? one : build_load(&d->b, seed->gradient, access.indices));
}

void derive_scatter(Derive *d, const Op *op)
{
    Access access = op_access(op, 0);
    ScatterParts parts = scatter_parts(op);
    const char *fn = op_word(op, ATTR_FN);
    ResultSeed *seed = seed_of(d, access.memory);
    bool sets = text_equal(fn, "set");
    if (seed) {
        seed->overwritten = seed->overwritten || !text_equal(fn, "add");
    }
    if (!derive_is_active(d, parts.value)) {
        return;
    }
    if (!seed || !seed->gradient || (!sets && !text_equal(fn, "add"))) {
        refuse_memory(d, op);
        return;
    }
    Value *g = build_gather(&d->b, seed->gradient, access.indices);
    const Attr *guard = op_attr(op, ATTR_GUARD);
    if (guard) {
        op_set_ints(d->func, g->def, ATTR_GUARD, guard->n, guard->ints);
    }
    g = build_cast(&d->b, g, derive_dtype(g->type->dtype));
    g = parts.mask ? build_select(&d->b, parts.mask, g, derive_number(d, g, 0)) : g;
    derive_add(d, parts.value, g);
}
