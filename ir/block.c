/* SPDX-License-Identifier: Apache-2.0 */
/* Values, blocks and ops: how they are created, linked into blocks, moved and removed, and the list
 * of uses that each value keeps. The builder, clone.c and the parser share it. */
#include "ir/build.h"
#include "ir/interns.h"
#include "ir/ir_errors.h"

#include <string.h>

/* Values of one function. Nested recomputation can square the code; a kernel beyond this limit gets
 * a diagnostic instead of exhausting the memory. */
enum { MAX_VALUES = 1000000 };

Value *value_new(Func *func, Type type, const char *name)
{
    if (func->n_values >= MAX_VALUES) {
        diag_fatal(func->diags, DIAG_SOURCE, ERR_PROGRAM_SIZE,
                   "%s becomes too large: more than %d values; split it into several kernels",
                   func->name, MAX_VALUES);
    }
    Value *value = ARENA_NEW(func->arena, Value);
    value->type = type;
    value->name = name ? arena_strdup(func->arena, name) : NULL;
    value->id = func->n_values++;
    return value;
}

Block *build_block(Func *func, Op *parent)
{
    Block *block = ARENA_NEW(func->arena, Block);
    block->func = func;
    block->parent = parent;
    return block;
}

Value *block_arg(Func *func, Block *block, Type type, const char *name)
{
    Value **args = ARENA_ARRAY(func->arena, Value *, block->n_args + 1);
    if (block->n_args) {
        memcpy(args, block->args, sizeof(Value *) * block->n_args);
    }
    Value *arg = value_new(func, type, name);
    arg->block = block;
    arg->index = block->n_args;
    args[block->n_args++] = arg;
    block->args = args;
    if (type->kind == TYPE_RANGE) {
        DimVar *var = poly_as_range(type->dims[0]);
        var->binder = arg;
    }
    return arg;
}

/* Between the numbers of two ops that follow each other, for those that are put between them. */
#define ORDER_GAP ((uint64_t)1 << 32)

static void block_insert(Block *block, Op *op, Op *before)
{
    op->parent = block;
    op->next = before;
    op->prev = before ? before->prev : block->last;
    if (op->prev) {
        op->prev->next = op;
    } else {
        block->first = op;
    }
    if (before) {
        before->prev = op;
    } else {
        block->last = op;
    }
    uint64_t least = op->prev ? op->prev->order : 0;
    uint64_t most = before ? before->order : least + 2 * ORDER_GAP;
    op->order = least + (most - least) / 2;
    block->numbered = block->numbered && op->order > least && most > least;
}

bool op_is_before(const Op *a, const Op *b)
{
    Block *block = a->parent;
    uint64_t order = 0;
    for (Op *op = block->numbered ? NULL : block->first; op; op = op->next) {
        op->order = order += ORDER_GAP;
        op_visited(op);
    }
    block->numbered = true;
    return a->order < b->order;
}

/* ---- operands and their uses ---- */

static void use_unlink(ValueUse *use)
{
    if (use->link) {
        *use->link = use->next;
        if (use->next) {
            use->next->link = use->link;
        }
        use->link = NULL;
    }
}

static void use_link(ValueUse *use, Value *value)
{
    if (value) {
        use->next = value->uses;
        use->link = &value->uses;
        if (use->next) {
            use->next->link = &use->next;
        }
        value->uses = use;
    }
}

static void unlink_operands(Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        use_unlink(&op->uses[i]);
    }
}

/* Of an op that leaves the function, and of what its regions hold; not of a region that another op
 * has been given. */
static void unlink_all(Op *op)
{
    unlink_operands(op);
    for (int r = 0; r < op->n_regions; r++) {
        for (Op *in = op->regions[r]->first; in && op->regions[r]->parent == op; in = in->next) {
            unlink_all(in);
        }
    }
}

/* Of an op that comes back. */
static void relink(Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && !op->uses[i].link) {
            use_link(&op->uses[i], op->operands[i]);
        }
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (Op *in = op->regions[r]->first; in; in = in->next) {
            relink(in);
        }
    }
}

static void give_operands(Arena *arena, Op *op, int n, Value *const *operands)
{
    op->n_operands = (uint16_t)n;
    op->operands = arena_copy(arena, operands, sizeof(Value *) * (size_t)n);
    op->uses = ARENA_ARRAY(arena, ValueUse, n);
    for (int i = 0; i < n; i++) {
        op->uses[i].op = op;
        use_link(&op->uses[i], op->operands[i]);
    }
}

void op_set_operands(Func *func, Op *op, int n, Value *const *operands)
{
    unlink_operands(op);
    give_operands(func->arena, op, n, operands);
}

void op_set_operand(Op *op, int at, Value *value)
{
    use_unlink(&op->uses[at]);
    ((Value **)(uintptr_t)op->operands)[at] = value;
    use_link(&op->uses[at], value);
}

Op *build_op(Builder *b, OpKind kind, int n_operands, Value *const *operands, int n_results,
             const Type *results, int n_regions)
{
    Arena *arena = b->func->arena;
    Op *op = ARENA_NEW(arena, Op);
    op->kind = kind;
    op->span = b->span;
    give_operands(arena, op, n_operands, operands);
    op->n_results = (uint16_t)n_results;
    op->results = ARENA_ARRAY(arena, Value *, n_results);
    for (int i = 0; i < n_results; i++) {
        op->results[i] = value_new(b->func, results[i], NULL);
        op->results[i]->def = op;
        op->results[i]->index = (uint32_t)i;
    }
    op->n_regions = (uint16_t)n_regions;
    op->regions = ARENA_ARRAY(arena, Block *, n_regions);
    for (int i = 0; i < n_regions; i++) {
        op->regions[i] = build_block(b->func, op);
    }
    block_insert(b->block, op, b->before);
    op_visited(op);
    return op;
}

Value *op_add_result(Func *func, Op *op, Type type)
{
    Value **results = ARENA_ARRAY(func->arena, Value *, op->n_results + 1);
    if (op->n_results) {
        memcpy(results, op->results, sizeof(Value *) * op->n_results);
    }
    Value *result = value_new(func, type, NULL);
    result->def = op;
    result->index = op->n_results;
    results[op->n_results++] = result;
    op->results = results;
    return result;
}

static void block_take_out(Op *op)
{
    Block *block = op->parent;
    if (op->prev) {
        op->prev->next = op->next;
    } else {
        block->first = op->next;
    }
    if (op->next) {
        op->next->prev = op->prev;
    } else {
        block->last = op->prev;
    }
    op->prev = op->next = NULL;
    op->parent = NULL;
}

void op_remove(Op *op)
{
    block_take_out(op);
    unlink_all(op);
}

void op_move_before(Op *op, Op *where)
{
    block_take_out(op);
    block_insert(where->parent, op, where);
    relink(op);
}

void op_move_to_end(Op *op, Block *block)
{
    block_take_out(op);
    block_insert(block, op, NULL);
    relink(op);
}
