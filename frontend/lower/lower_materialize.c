/* SPDX-License-Identifier: Apache-2.0 */
/* Intermediate tensors that a program does not name: arrays that are computed before a `parallel`
 * over ranges and read in it by tiles. It also tracks which memory has been written so far. */
#include "frontend/lower/lower.h"

#include <string.h>

/* ---- what has been written ---- */

static WrittenSet with_capacity(Lower *l, const WrittenSet *from, size_t n)
{
    WrittenSet to = {ARENA_ARRAY(l->arena, bool, n), n};
    if (from->n) {
        memcpy(to.items, from->items, sizeof(bool) * from->n);
    }
    return to;
}

static void reserve(Lower *l, size_t n)
{
    if (l->written.n < n) {
        l->written = with_capacity(l, &l->written, n);
    }
}

bool *written_flag(Lower *l, const Value *tensor)
{
    reserve(l, tensor->index + (size_t)1);
    return &l->written.items[tensor->index];
}

WrittenSet written_copy(Lower *l)
{
    return with_capacity(l, &l->written, l->written.n);
}

void written_either(Lower *l, const WrittenSet *other)
{
    reserve(l, other->n);
    for (size_t i = 0; i < other->n; i++) {
        l->written.items[i] = l->written.items[i] || other->items[i];
    }
}

/* ---- arrays from outside of `parallel` ---- */

enum { MAX_UNIFORM = 64 }; /* ops that every block may do again for a scalar */

/* Arithmetic on parameters and sizes alone: made again where it is used. */
static bool is_uniform(const Value *value, int *ops)
{
    const Op *op = value->def;
    if (!op) {
        return true;
    }
    bool plain = op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_CONST || op->kind == OP_SIZE;
    for (int i = 0; plain && i < op->n_operands; i++) {
        plain = ++*ops < MAX_UNIFORM && is_uniform(op->operands[i], ops);
    }
    return plain;
}

/* The tensor that the value is all of, and that nothing will change; NULL: there is none. */
static Value *memory_of(const Lower *l, const Value *value)
{
    const Op *load = value->def && value->def->kind == OP_LOAD ? value->def : NULL;
    for (int i = 1; load && i < load->n_operands; i++) {
        load = load->operands[i] ? NULL : load;
    }
    ParamIo io = load ? l->func->params.items[load->operands[0]->index].io : PARAM_OUT;
    return io == PARAM_IN || io == PARAM_SCRATCH ? load->operands[0] : NULL;
}

/* A scalar is an array of one element there. */
static Value *stored_before(Lower *l, Value *value)
{
    Builder at = build_before(l->func, l->parallel_block->parent);
    at.span = l->b.span;
    Value *elements = value->type->rank ? value : build_expand(&at, value, 0);
    Value *memory = func_scratch(l->func, elements->type);
    build_store(&at, memory, WHOLE, elements);
    return memory;
}

static Val read_outside(Lower *l, const Val *val, Value **memory)
{
    int ops = 0;
    bool scalar = val->value->type->rank == 0;
    if (scalar && is_uniform(val->value, &ops)) {
        return *val;
    }
    *memory = *memory ? *memory : memory_of(l, val->value);
    *memory = *memory ? *memory : stored_before(l, val->value);
    if (scalar) {
        Value *first = build_i64(&l->b, 0);
        return array_val(build_load(&l->b, *memory, &first));
    }
    return (Val){.kind = VAL_TENSOR, .value = *memory};
}

Val val_outside(Lower *l, Symbol *symbol)
{
    Val val = symbol->val;
    int n = val.kind == VAL_TUPLE ? val.n_items : 1;
    Val *items = val.kind == VAL_TUPLE ? val.items : &symbol->val;
    const void *now = val.kind == VAL_TUPLE ? (const void *)val.items : val.value;
    if (symbol->stored_of != now) {
        symbol->stored_of = now;
        symbol->stored = ARENA_ARRAY(l->arena, Value *, n);
    }
    Val *seen = ARENA_ARRAY(l->arena, Val, n);
    for (int i = 0; i < n; i++) {
        seen[i] =
            items[i].kind == VAL_ARRAY ? read_outside(l, &items[i], &symbol->stored[i]) : items[i];
    }
    val.items = seen;
    return val.kind == VAL_TUPLE ? val : seen[0];
}
