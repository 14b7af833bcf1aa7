/* SPDX-License-Identifier: Apache-2.0 */
/* Fills a buffer or a tensor with the elements of an array: in one nest, after parts of the array
 * that lie along another axis in memory have been transposed into buffers of their own. */
#include "codegen/cpu/cpu_emit.h"

#include "ir/memo.h"
#include "ir/op_axes.h"

#include <limits.h>

/* Bytes of the buffer of a part: it stays in the second-level cache. */
enum { MAX_TURNED_BYTES = 65536 };

/* ---- parts of a value ---- */

typedef struct Parts {
    CpuEmitter *c;
    Memo *seen; /* by value and axis: it was looked into */
    const Value *items[MAX_TURNED];
    int n;
} Parts;

static void find_parts(Parts *parts, const Value *value, int axis);

static void find_below(Parts *parts, const Op *op, int axis)
{
    for (int i = 0; i < op->n_operands && op->kind != OP_LOAD && op->kind != OP_GATHER; i++) {
        const Value *operand = op->operands[i];
        int inner = op_moves_axes(op) ? op_operand_axis(op, i, axis) : axis;
        if (operand && operand->type->kind == TYPE_ARRAY && inner >= 0) {
            find_parts(parts, operand, inner);
        }
    }
}

/* The outermost ones; `axis`: along which vectors of the value are computed. */
static void find_parts(Parts *parts, const Value *value, int axis)
{
    CpuEmitter *c = parts->c;
    Type type = value->type;
    int64_t seen;
    if (type->rank < 2 || c->values[value->id].buffer || !value->def || parts->n == MAX_TURNED ||
        memo_known(parts->seen, value, axis, &seen)) {
        return;
    }
    memo_keep(parts->seen, value, axis, 1);
    if (cpu_contiguous(c, value, axis)) {
        return;
    }
    int64_t bytes = dtype_bytes(type->dtype);
    for (int i = 0; i < type->rank; i++) {
        bytes *= cpu_capacity(c, type->dims[i]);
    }
    if (bytes <= MAX_TURNED_BYTES && axis == cpu_vector_axis(c, type) &&
        cpu_turned_axis(c, value, axis) >= 0) {
        parts->items[parts->n++] = value;
        return;
    }
    find_below(parts, value->def, axis);
}

TurnedParts cpu_turn_parts(CpuEmitter *c, const Value *value, int axis)
{
    TurnedParts turned = {.n = 0};
    Parts parts = {.c = c};
    if (axis >= 0 && value->def && !c->values[value->id].buffer) {
        parts.seen = memo_open(c->func);
        find_parts(&parts, value, axis);
        memo_close(parts.seen);
    }
    for (int i = 0; i < parts.n; i++) {
        const Value *part = parts.items[i];
        Buffer *buffer = cpu_buffer_for(c, part->type, c->now);
        cpu_fill_buffer(c, buffer, part);
        c->values[part->id].buffer = buffer;
        turned.parts[turned.n++] = part;
    }
    return turned;
}

void cpu_turned_done(CpuEmitter *c, const TurnedParts *turned)
{
    for (int i = 0; i < turned->n; i++) {
        c->values[turned->parts[i]->id].buffer = NULL;
    }
}

/* ---- into a buffer ---- */

typedef struct Fill {
    const Buffer *to;
    const Value *value;
} Fill;

static void fill_put(CpuEmitter *c, const Point *point, LLVMValueRef vector, void *user)
{
    const Fill *fill = user;
    cpu_buffer_store(c, fill->to, point, vector);
}

static void fill_body(CpuEmitter *c, const Point *point, void *user)
{
    const Fill *fill = user;
    fill_put(c, point, cpu_eval(c, fill->value, point), user);
}

void cpu_fill_buffer(CpuEmitter *c, const Buffer *buffer, const Value *value)
{
    Fill fill = {buffer, value};
    Nest nest = cpu_nest_over(c, value->type);
    nest.hoist = value;
    nest.body = fill_body;
    nest.user = &fill;
    if (!cpu_put_turned(c, &nest, value, fill_put, &fill)) {
        TurnedParts turned = cpu_turn_parts(c, value, nest.vector_axis);
        cpu_nest(c, &nest);
        cpu_turned_done(c, &turned);
    }
}

typedef struct Copy {
    const Buffer *from, *to;
} Copy;

static void copy_body(CpuEmitter *c, const Point *point, void *user)
{
    const Copy *copy = user;
    cpu_buffer_store(c, copy->to, point, cpu_buffer_load(c, copy->from, point));
}

void cpu_copy_buffer(CpuEmitter *c, const Buffer *from, const Buffer *to, Type type)
{
    Copy copy = {from, to};
    Nest nest = cpu_nest_over(c, type);
    nest.body = copy_body;
    nest.user = &copy;
    cpu_nest(c, &nest);
}

/* ---- in place ---- */

static bool dead_after_now(const CpuEmitter *c, const Value *value)
{
    return c->values[value->id].last <= c->now;
}

static bool same_shape(const Buffer *a, const Buffer *b)
{
    if (a->rank != b->rank || dtype_bytes(a->dtype) != dtype_bytes(b->dtype)) {
        return false;
    }
    for (int i = 0; i < a->rank; i++) {
        if (a->extents[i] != b->extents[i]) {
            return false;
        }
    }
    return true;
}

/* A buffer below `value`, reached by elementwise ops alone, that has its last reader here. */
static const Value *dead_operand(CpuEmitter *c, const Value *value, const Buffer *wanted)
{
    const Buffer *buffer = c->values[value->id].buffer;
    bool answer;
    if (buffer) {
        return dead_after_now(c, value) && same_shape(buffer, wanted) ? value : NULL;
    }
    if (!value->def || !op_has(value->def, TRAIT_ELEMENTWISE) || cpu_seen(c, value, 0, &answer)) {
        return NULL;
    }
    cpu_remember(c, value, 0, false);
    for (int i = 0; i < value->def->n_operands; i++) {
        const Value *found = dead_operand(c, value->def->operands[i], wanted);
        if (found) {
            return found;
        }
    }
    return NULL;
}

static bool reads(CpuEmitter *c, const Value *value, const StackSlot *slot, bool counts)
{
    const Buffer *buffer = c->values[value->id].buffer;
    const Op *op = value->def;
    bool answer = false;
    if (buffer) {
        return counts && buffer->slot == slot;
    }
    if (!op || op->kind == OP_LOAD || op->kind == OP_INDEX || op->kind == OP_IOTA ||
        cpu_seen(c, value, counts, &answer)) {
        return answer;
    }
    for (int i = 0; i < op->n_operands && !answer; i++) {
        answer = reads(c, op->operands[i], slot, counts || !op_has(op, TRAIT_ELEMENTWISE));
    }
    return cpu_remember(c, value, counts, answer);
}

bool cpu_reads(CpuEmitter *c, const Value *value, const StackSlot *slot, bool moved)
{
    cpu_new_walk(c);
    return reads(c, value, slot, !moved);
}

void cpu_store_value(CpuEmitter *c, const Value *value)
{
    CpuValue *facts = &c->values[value->id];
    int64_t extents[MAX_RANK];
    for (int i = 0; i < value->type->rank; i++) {
        extents[i] = cpu_capacity(c, value->type->dims[i]);
    }
    Buffer *buffer = cpu_buffer_shape(c, value->type->dtype, value->type->rank, extents);
    cpu_new_walk(c);
    const Value *dead = dead_operand(c, value, buffer);
    StackSlot *slot = dead ? c->values[dead->id].buffer->slot : NULL;
    if (slot && !cpu_reads(c, value, slot, true)) {
        buffer->slot = slot;
        slot->free_after = facts->last > slot->free_after ? facts->last : slot->free_after;
    } else {
        cpu_buffer_place(c, buffer, facts->last);
    }
    cpu_fill_buffer(c, buffer, value);
    facts->buffer = buffer;
}

const Buffer *cpu_take_over(CpuEmitter *c, const Value *value, int free_after)
{
    CpuValue *facts = &c->values[value->id];
    if (facts->buffer && dead_after_now(c, value)) {
        StackSlot *slot = facts->buffer->slot;
        slot->free_after = free_after > slot->free_after ? free_after : slot->free_after;
        facts->last = INT_MAX; /* taken: no other value may */
        return facts->buffer;
    }
    Buffer *copy = cpu_buffer_for(c, value->type, free_after);
    cpu_fill_buffer(c, copy, value);
    return copy;
}

/* ---- into a tensor ---- */

typedef struct Store {
    const Op *op;
    const Value *value;
} Store;

static void store_put(CpuEmitter *c, const Point *point, LLVMValueRef vector, void *user)
{
    const Store *store = user;
    cpu_tensor_store(c, store->op, point, vector);
}

typedef struct Stores {
    Store items[MAX_STORES];
    int n;
} Stores;

/* What several of them are made of is computed once, and all of it before anything is stored. */
static void stores_body(CpuEmitter *c, const Point *point, void *user)
{
    Stores *stores = user;
    LLVMValueRef vectors[MAX_STORES];
    for (int i = 0; i < stores->n; i++) {
        vectors[i] = cpu_eval(c, stores->items[i].value, point);
    }
    for (int i = 0; i < stores->n; i++) {
        store_put(c, point, vectors[i], &stores->items[i]);
    }
}

static void stores_nest(CpuEmitter *c, Stores *stores)
{
    Nest nest = cpu_nest_over(c, stores->items[0].value->type);
    TurnedParts turned[MAX_STORES];
    nest.hoist = stores->items[0].value;
    nest.body = stores_body;
    nest.user = stores;
    for (int i = 0; i < stores->n; i++) {
        turned[i] = cpu_turn_parts(c, stores->items[i].value, nest.vector_axis);
    }
    cpu_nest(c, &nest);
    for (int i = 0; i < stores->n; i++) {
        cpu_turned_done(c, &turned[i]);
    }
}

static bool is_in_nest(const CpuEmitter *c, const Op *op, const Op *last)
{
    return op->kind == OP_STORE && cpu_store_nest(c, op) == last;
}

void cpu_emit_stores(CpuEmitter *c, const Op *last)
{
    Stores stores = {.n = 0};
    const Op *op = last;
    for (const Op *before = last; before; before = before->prev) {
        op = is_in_nest(c, before, last) ? before : op;
    }
    for (; op != last->next; op = op->next) {
        if (!is_in_nest(c, op, last)) {
            continue;
        }
        Store store = {op, op_moved_value(op)};
        Nest nest = cpu_nest_over(c, store.value->type);
        if (cpu_is_in_place(c, last) ||
            !cpu_put_turned(c, &nest, store.value, store_put, &store)) {
            stores.items[stores.n++] = store;
        }
    }
    if (stores.n) {
        stores_nest(c, &stores);
    }
}
