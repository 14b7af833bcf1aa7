/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the intermediates through which launches pass values, and stores a value before the
 * memory that it was read from is overwritten. */
#include "passes/fuse/fuse.h"

#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/exact_values.h"

/* ---- intermediates ---- */

static bool is_scratch(const Func *func, const Value *memory)
{
    return func->params.items[memory->index].io == PARAM_SCRATCH;
}

bool fuse_is_repacked(const Op *store)
{
    return op_int(store, ATTR_REPACKED, 0);
}

bool fuse_may_materialize(const Func *func, const Block *block, const Value *value)
{
    const Op *op = value->def;
    if (!op || op->parent != block || value->type->kind != TYPE_ARRAY) {
        return false;
    }
    return op->kind != OP_LOAD || !is_scratch(func, op->operands[0]);
}

/* A scalar is stored as a tensor of one element. */
static Value *with_axis(Builder *b, Value *value)
{
    return value->type->rank ? value : build_expand(b, value, 0);
}

typedef struct Operand {
    const Value *value;
    bool found;
} Operand;

static void find_operand(Op *op, void *user)
{
    Operand *operand = user;
    for (int side = 0; op->kind == OP_DOT && side < 2; side++) {
        const Value *value = op->operands[side];
        while (value != operand->value && value->def && op_moves_axes(value->def)) {
            value = value->def->operands[0];
        }
        operand->found = operand->found || value == operand->value;
    }
}

/* Operands of a matrix unit lie so that the copy engine can walk their rows. */
static Value *memory_for(Func *func, const Value *value, Type type)
{
    enum { ROW_BYTES = 16 };
    Operand operand = {value, false};
    bool narrow = type->dtype == DT_F16 || type->dtype == DT_BF16;
    int64_t multiple = ROW_BYTES / dtype_bytes(type->dtype);
    if (func->target && func->target->has_bulk_copy && narrow && type->rank > 1 &&
        poly_divisor(type->dims[type->rank - 1]) % multiple) {
        func_walk(func, find_operand, &operand);
    }
    return operand.found ? func_pitched_scratch(func, type, multiple) : func_scratch(func, type);
}

/* True if the value is what an array in memory has, in another order or type. */
static bool is_copy(const Value *value)
{
    const Op *op = value->def;
    while (op && (op->kind == OP_PERMUTE || op->kind == OP_CAST)) {
        op = op->operands[0]->def;
    }
    return op && (op->kind == OP_LOAD || op->kind == OP_GATHER);
}

/* The narrowest type that has all elements of the value: the greatest of 16-bit elements need no
 * more than they. Of few elements it is their own. */
static DType stored_type(const Value *value)
{
    static const DType narrow[] = {DT_BF16, DT_F16};
    DType dtype = value->type->dtype;
    for (int i = 0; dtype == DT_F32 && value->type->rank > 1 && i < 2; i++) {
        dtype = an_exact_in(value, narrow[i]) ? narrow[i] : dtype;
    }
    return dtype;
}

Op *fuse_materialize(Func *func, Value *value, FuseReason reason)
{
    Builder b = build_after(func, value->def);
    b.span = value->def->span;
    int64_t order[MAX_RANK], back[MAX_RANK];
    bool turned = fuse_intermediate_order(value, order);
    DType dtype = value->type->dtype;
    Value *narrow = build_cast(&b, value, stored_type(value));
    Value *stored = turned ? build_permute(&b, narrow, order) : with_axis(&b, narrow);
    Value *scratch = memory_for(func, value, stored->type);
    Op *store = build_store(&b, scratch, WHOLE, stored);
    func->params.items[scratch->index].separate_reason = fuse_reason_text(reason);
    if (scratch->type->strides && is_copy(stored)) {
        op_set_int(func, store, ATTR_REPACKED, 1);
    }
    Value *read = build_load(&b, scratch, WHOLE);
    if (value->type->rank == 0) {
        read = build_squeeze(&b, read, 0);
    }
    for (int i = 0; turned && i < value->type->rank; i++) {
        back[order[i]] = i;
    }
    read = build_cast(&b, turned ? build_permute(&b, read, back) : read, dtype);
    read->name = value->name;
    for (const ValueUse *use = use_first(value, store->parent), *next; use; use = next) {
        next = use_next(use, store->parent);
        if (use->op->parent != store->parent || op_is_before(store, use->op)) {
            op_set_operand(use->op, (int)(use - use->op->uses), read);
        }
    }
    return store;
}

/* ---- reads of memory that changes ---- */

typedef struct Reads {
    Func *func;
    const Op *reader;
    HashTable seen;
    Value *found;
} Reads;

/* A plain store of all of a tensor, element for element what was read there. */
static bool is_pointwise(Reads *reads, const Op *load)
{
    const Op *store = reads->reader;
    if (store->kind != OP_STORE || load->kind != OP_LOAD) {
        return false;
    }
    Builder at = build_at_end(reads->func, reads->func->body);
    FusionGroup group = fuse_group(reads->func, &at, 1, (Op *[]){(Op *)store});
    Axes axes = an_axes(reads->func, group.parallel->regions[0]);
    const Op *copy = group.parallel->regions[0]->last;
    const Value *read = clone_get(&group.copies, load->results[0]);
    const Value *written = copy->operands[copy->n_operands - 1];
    bool same = read->type->rank == written->type->rank &&
                !axes_conflict(&axes, group.parallel->regions[0]);
    for (int i = 1; same && i <= op_access(load, 0).n; i++) {
        same = load->operands[i] == store->operands[i];
    }
    for (int i = 0; same && i < read->type->rank; i++) {
        same = axes_class(&axes, read, i) == axes_class(&axes, written, i);
    }
    axes_done(&axes);
    op_remove(group.parallel);
    return same;
}

static bool is_stale(Reads *reads, const Op *load)
{
    const Value *memory = load->operands[0];
    for (Op *op = load->next; op && op != reads->reader; op = op->next) {
        if (op_writes(op, memory)) {
            return true;
        }
    }
    return op_writes(reads->reader, memory) && !is_pointwise(reads, load);
}

static bool same_value(const void *item, const void *key)
{
    return item == key;
}

static void look(Reads *reads, Value *value)
{
    Op *op = value ? value->def : NULL;
    if (!op || op->parent != reads->reader->parent || reads->found ||
        table_find(&reads->seen, hash_word(0, value->id), same_value, value)) {
        return;
    }
    table_add(reads->func->arena, &reads->seen, hash_word(0, value->id), value);
    bool memory = (op->kind == OP_LOAD || op->kind == OP_GATHER) &&
                  op->operands[0]->type->kind == TYPE_TENSOR;
    if (memory && reads->func->params.items[op->operands[0]->index].io == PARAM_INOUT &&
        is_stale(reads, op)) {
        reads->found = value;
        return;
    }
    for (int i = 0; i < op->n_operands; i++) {
        look(reads, op->operands[i]);
    }
}

static void look_in_region(Op *op, void *user)
{
    for (int i = 0; i < op->n_operands; i++) {
        look(user, op->operands[i]);
    }
}

Value *fuse_changed_read(Func *func, const Op *reader)
{
    Reads reads = {.func = func, .reader = reader};
    for (int i = 0; i < reader->n_operands; i++) {
        look(&reads, reader->operands[i]);
    }
    for (int r = 0; r < reader->n_regions; r++) {
        block_walk(reader->regions[r], look_in_region, &reads);
    }
    return reads.found;
}
