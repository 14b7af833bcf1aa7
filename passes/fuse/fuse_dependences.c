/* SPDX-License-Identifier: Apache-2.0 */
/* Dependences between statements: which of two must stay behind the other, because one writes
 * memory that the other reads or writes. */
#include "passes/fuse/fuse.h"

#include "ir/memo.h"

/* ---- what a statement touches ---- */

typedef struct Reach {
    const Func *func;
    MemoryEffects *touches;
    Memo *seen;
} Reach;

static void set(uint64_t *bits, uint32_t param)
{
    bits[param / 64] |= (uint64_t)1 << param % 64;
}

/* What a view shows is no value that a store has. */
static void touch(const Func *func, Op *op, const MemoryEffects *touches)
{
    const Value *memory = op->n_operands ? op->operands[0] : NULL;
    if (!memory || memory->type->kind != TYPE_TENSOR) {
        return;
    }
    uint32_t index = func_memory_of(func, memory)->index;
    if (op->kind == OP_STORE || op->kind == OP_SCATTER) {
        set(touches->writes, index);
    } else if (op->kind == OP_LOAD && !func_im2col_of(func, memory)) {
        set(touches->loads, index);
    } else {
        set(touches->others, index);
    }
}

static void reach(Op *op, Reach *r);

/* Of an op in a region: those in its own regions are looked at for themselves. */
static void reach_one(Op *op, void *user)
{
    Reach *r = user;
    touch(r->func, op, r->touches);
    for (int i = 0; i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        if (value && value->def && memo_visit(r->seen, value)) {
            reach(value->def, r);
        }
    }
}

static void reach(Op *op, Reach *r)
{
    reach_one(op, r);
    for (int i = 0; i < op->n_regions; i++) {
        block_walk(op->regions[i], reach_one, r);
    }
}

static size_t words_of(const Func *func)
{
    return func->params.n / 64 + 1;
}

MemoryEffects fuse_touches(Func *func, Op *statement)
{
    size_t words = words_of(func);
    uint64_t *bits = ARENA_ARRAY(func->arena, uint64_t, 3 * words);
    MemoryEffects touches = {statement, bits, bits + words, bits + 2 * words};
    Reach r = {func, &touches, memo_open(func)};
    reach(statement, &r);
    memo_close(r.seen);
    return touches;
}

/* ---- order ---- */

/* Memory that changes, as bits by number of the parameter; `scratch`: intermediates alone. */
static uint64_t changing(const Func *func, size_t word, bool scratch)
{
    uint64_t bits = 0;
    for (size_t i = 64 * word; i < func->params.n && i < 64 * (word + 1); i++) {
        const Param *param = &func->params.items[i];
        bool counts = scratch ? param->io == PARAM_SCRATCH : param->io != PARAM_IN;
        bits |= counts && param->value->type->kind == TYPE_TENSOR ? (uint64_t)1 << i % 64 : 0;
    }
    return bits;
}

/* Is it a store of all of a tensor? Who reads that may take the stored value instead, but for what
 * is stored through an alias, whose axes are others. */
static bool stores_whole(const Func *func, const Op *op)
{
    return op->kind == OP_STORE && !fuse_is_repacked(op) &&
           !func->params.items[op->operands[0]->index].alias && op_accesses_whole(op);
}

bool fuse_are_pieces(const Op *a, const Op *b)
{
    const Attr *piece = op_attr(a, ATTR_PIECE), *other = op_attr(b, ATTR_PIECE);
    return piece && other && piece->i == other->i && a->operands[0] == b->operands[0];
}

StmtDependence fuse_order(const Func *func, const MemoryEffects *a, const MemoryEffects *b)
{
    bool forwards = false;
    for (size_t i = 0; i < words_of(func); i++) {
        uint64_t reads_a = a->loads[i] | a->others[i], reads_b = b->loads[i] | b->others[i];
        uint64_t written = b->writes[i];
        if (fuse_are_pieces(a->statement, b->statement)) {
            uint32_t tensor = a->statement->operands[0]->index;
            written &= tensor / 64 == i ? ~((uint64_t)1 << tensor % 64) : ~(uint64_t)0;
        }
        uint64_t clash = (a->writes[i] & (reads_b | written)) | (reads_a & b->writes[i]);
        if (!clash) {
            continue;
        }
        uint64_t only_loads = a->writes[i] & b->loads[i] & ~b->others[i] & ~b->writes[i];
        if (!only_loads || !stores_whole(func, a->statement)) {
            only_loads = 0;
        } else {
            only_loads &= changing(func, i, true);
        }
        if (clash & ~only_loads & changing(func, i, false)) {
            return ORDER_STRICT;
        }
        forwards = forwards || only_loads;
    }
    return forwards ? ORDER_FORWARD : ORDER_NONE;
}
