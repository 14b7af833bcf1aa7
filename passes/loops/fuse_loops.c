/* SPDX-License-Identifier: Apache-2.0 */
/* fuse_loops: fuses loops over the same axis that read the same memory.
 *
 *   %a = for dims=[M] steps=[64] { load %x … }      %a, %b = for dims=[M] steps=[64] {
 *   store %s[…], %a                              →    load %x … once
 *   %b = for dims=[M] steps=[64] { load %x … }      }
 *                                                   store %s[…], %a
 *
 * Two loops that read the same slices load them from memory twice, because a row does not stay in
 * the cache. After fusion two dots also share the ring buffer of their common operand. The second
 * loop must not depend on the first one, nor on ops between them that cannot move. Requires: tile
 * (the loops exist). Changes no bits. */
#include "ir/build.h"
#include "ir/memo.h"
#include "passes/pass.h"
#include "passes/tile/tile.h"

typedef struct Memories {
    struct {
        const Value *memory;
        bool written;
    } * items;
    size_t n, cap;
    bool unknown; /* effects other than stores; dots by FMA */
} Memories;

/* Each memory once: a list of accesses would be compared with another one, access by access. */
static void note_memory(Func *func, Memories *m, const Value *memory, bool written)
{
    for (size_t i = 0; i < m->n; i++) {
        if (m->items[i].memory == memory) {
            m->items[i].written |= written;
            return;
        }
    }
    if (m->n >= m->cap) {
        m->items = arena_grow(func->arena, m->items, m->n, &m->cap, sizeof *m->items);
    }
    m->items[m->n].memory = memory;
    m->items[m->n++].written = written;
}

/* An FMA dot keeps operands live next to each accumulator: two dots would spill. */
static bool takes_registers(Func *func, const Op *op)
{
    return op->kind == OP_DOT && !dot_instruction(func, op);
}

static void note_op(Func *func, Memories *m, const Op *op)
{
    bool writes = !op_has(op, TRAIT_PURE) && op->n_regions == 0 && op->kind != OP_YIELD;
    m->unknown |= (writes && op->kind != OP_STORE) || takes_registers(func, op);
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && type_is_memory(op->operands[i]->type)) {
            note_memory(func, m, op->operands[i], writes);
        }
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (const Op *inner = op->regions[r]->first; inner; inner = inner->next) {
            note_op(func, m, inner);
        }
    }
}

static bool conflict(const Memories *a, const Memories *b)
{
    for (size_t i = 0; i < a->n; i++) {
        for (size_t k = 0; k < b->n; k++) {
            bool same = a->items[i].memory == b->items[k].memory;
            if (same && (a->items[i].written || b->items[k].written)) {
                return true;
            }
        }
    }
    return false;
}

static bool share_a_read(const Memories *a, const Memories *b)
{
    for (size_t i = 0; i < a->n; i++) {
        for (size_t k = 0; k < b->n; k++) {
            if (a->items[i].memory == b->items[k].memory) {
                return true;
            }
        }
    }
    return false;
}

/* ---- dependences of the second loop ---- */

typedef struct Merge {
    Func *func;
    Op *first, *second;
    Memories own, between; /* of the first loop and of the ops behind it */
    Memo *early;           /* values that are there before it, or can be */
} Merge;

static bool is_between(const Merge *m, const Op *op)
{
    return op->parent == m->first->parent && !op_is_before(op, m->first) &&
           op_is_before(op, m->second);
}

static bool needs_only_earlier(const Merge *m, const Op *op);

/* True if the value exists before the first loop, or its ops can move there. */
static bool is_early(const Merge *m, const Value *value)
{
    const Op *op = value ? value->def : NULL;
    if (!op || !is_between(m, op) || !memo_visit(m->early, value)) {
        return true; /* where it was seen: or the search would have ended */
    }
    bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
    return op != m->first && op_has(op, TRAIT_PURE) && op->n_regions == 0 && !reads &&
           needs_only_earlier(m, op);
}

static bool needs_only_earlier(const Merge *m, const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (!is_early(m, op->operands[i])) {
            return false;
        }
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (const Op *inner = op->regions[r]->first; inner; inner = inner->next) {
            if (!needs_only_earlier(m, inner)) {
                return false;
            }
        }
    }
    return true;
}

static void move_needed(const Merge *m, const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        Op *def = op->operands[i] ? op->operands[i]->def : NULL;
        if (def && is_between(m, def)) {
            move_needed(m, def);
            op_move_before(def, m->first);
        }
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (const Op *inner = op->regions[r]->first; inner; inner = inner->next) {
            move_needed(m, inner);
        }
    }
}

/* ---- when ---- */

static bool same_bound(const Value *a, const Value *b)
{
    return a == b || (a->def && b->def && op_is_same(a->def, b->def));
}

static bool walk_alike(const Op *a, const Op *b)
{
    return op_attr(a, ATTR_DIMS)->dims[0] == op_attr(b, ATTR_DIMS)->dims[0] &&
           op_attr(a, ATTR_STEPS)->ints[0] == op_attr(b, ATTR_STEPS)->ints[0] &&
           op_int(a, ATTR_DESCENDING, 0) == op_int(b, ATTR_DESCENDING, 0) &&
           same_bound(a->operands[0], b->operands[0]) && same_bound(a->operands[1], b->operands[1]);
}

static bool may_merge(const Merge *m)
{
    Memories second = {.n = 0};
    if (m->own.unknown || m->second->kind != OP_FOR || !walk_alike(m->first, m->second)) {
        return false;
    }
    note_op(m->func, &second, m->second);
    if (second.unknown || !share_a_read(&m->own, &second) || conflict(&m->own, &second) ||
        conflict(&m->between, &second)) {
        return false;
    }
    memo_clear(m->early);
    return needs_only_earlier(m, m->second);
}

/* ---- the merged loop ---- */

typedef struct Written {
    const Value *memory;
    bool found;
} Written;

static void find_write(Op *op, void *user)
{
    Written *written = user;
    bool writes = op->kind == OP_STORE || op->kind == OP_SCATTER;
    written->found |= writes && op->operands[0] == written->memory;
}

/* True for an input, or what an earlier launch wrote. */
static bool is_only_read(const Func *func, const Block *block, const Value *memory)
{
    const Op *launch = block->parent;
    while (launch && launch->kind != OP_LAUNCH) {
        launch = launch->parent->parent;
    }
    Written written = {memory, false};
    ParamIo io =
        memory->type->kind == TYPE_TENSOR ? func->params.items[memory->index].io : PARAM_INOUT;
    if (launch && io_is_made_here(io)) {
        block_walk(launch->regions[0], find_write, &written);
    }
    return io == PARAM_IN || (launch && io_is_made_here(io) && !written.found);
}

/* The same op, of memory that is only read, earlier in the block. */
static const Op *is_reported(const Func *func, const Block *block, const Op *op)
{
    bool tells = op->n_results == 1 && op->n_regions == 0 && op_has(op, TRAIT_PURE);
    for (int i = 0; i < op->n_operands && tells; i++) {
        const Value *memory = op->operands[i];
        tells = !memory || !type_is_memory(memory->type) || is_only_read(func, block, memory);
    }
    for (const Op *at = block->first; tells && at && at != op; at = at->next) {
        if (at->n_results == 1 && op_is_same(at, op)) {
            return at;
        }
    }
    return NULL;
}

static void append_body(const Merge *m, const Block *from, CloneMap *map)
{
    Block *body = m->first->regions[0];
    Builder b = build_before(m->func, body->last);
    for (const Op *op = from->first; op != from->last; op = op->next) {
        Op *copy = clone_op(&b, map, op);
        const Op *same = is_reported(m->func, body, copy);
        if (same) {
            clone_map_value(map, op->results[0], same->results[0]);
            op_remove(copy);
        }
    }
}

static void append(Func *func, Op *op, int n, Value *const *more)
{
    Value **all = ARENA_ARRAY(func->arena, Value *, op->n_operands + n);
    int count = 0;
    for (int i = 0; i < op->n_operands; i++) {
        all[count++] = op->operands[i];
    }
    for (int i = 0; i < n; i++) {
        all[count++] = more[i];
    }
    op_set_operands(func, op, count, all);
}

static void merge(const Merge *m)
{
    Op *first = m->first, *second = m->second;
    const Block *from = second->regions[0];
    Block *body = first->regions[0];
    int n = second->n_results;
    CloneMap map = clone_map_new(m->func);
    move_needed(m, second);
    clone_map_value(&map, from->args[0], body->args[0]);
    if (from->args[0]->type->kind == TYPE_RANGE) {
        clone_map_dim(&map, poly_as_range(from->args[0]->type->dims[0]),
                      body->args[0]->type->dims[0]);
    }
    for (int i = 0; i < n; i++) {
        const Value *arg = from->args[1 + i];
        clone_map_value(&map, arg,
                        block_arg(m->func, body, clone_type(&map, arg->type), arg->name));
    }
    append_body(m, from, &map);
    Value **next = ARENA_ARRAY(m->func->arena, Value *, n + 1);
    for (int i = 0; i < n; i++) {
        next[i] = clone_get(&map, from->last->operands[i]);
    }
    append(m->func, body->last, n, next);
    append(m->func, first, n, second->operands + 2);
    for (int i = 0; i < n; i++) {
        Value *result = op_add_result(m->func, first, second->results[i]->type);
        result->name = second->results[i]->name;
        func_replace_uses(m->func, second->results[i], result);
    }
    op_remove(second);
}

static void merge_from(Op *op, void *user)
{
    Func *func = user;
    if (op->kind != OP_FOR) {
        return;
    }
    Merge m = {.func = func, .first = op, .early = memo_open(func)};
    note_op(func, &m.own, op);
    for (Op *later = op->next, *next; later; later = next) {
        m.second = later;
        next = later->next;
        if (may_merge(&m)) {
            merge(&m);
            m.own.n = 0;
            note_op(func, &m.own, op);
        } else {
            note_op(func, &m.between, later);
        }
    }
    memo_close(m.early);
}

void pass_fuse_loops(Func *func)
{
    func_walk(func, merge_from, func);
    func_remove_dead(func);
}
