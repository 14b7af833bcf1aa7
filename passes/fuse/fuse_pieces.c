/* SPDX-License-Identifier: Apache-2.0 */
/* Splits the store of an array that a select by coordinates composes of pieces: a concatenation, a
 * stack, a padded array.
 *
 *   %g = gather %z[%i]                        scatter %y[%i], %g, %c
 *   %h = gather %w[%i - N]             →      %n = not %c
 *   %c = cmp %i, N pred=lt                    scatter %y[%i], %h, %n
 *   %v = select %c, %g, %h
 *   store %y[:], %v
 *
 * Each piece is then stored where its own array is computed (invert_gathers.c). That pays if such
 * an array is costly to compute, or if the pieces are computed from the same elements: one launch
 * reads these once and stores all pieces. */
#include "passes/fuse/fuse_stores.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "passes/analysis/inverse_map.h"

/* Questions about a value, each answered once for all selects of a store. */
enum { OF_COORDINATES, HAS_PIECE };

/* True if the value is made of coordinates and sizes alone. */
static bool is_of_coordinates(const Value *value, Memo *known)
{
    const Op *op = value->def;
    int64_t found;
    if (!op || memo_known(known, value, OF_COORDINATES, &found)) {
        return op && found;
    }
    bool good = op->kind == OP_IOTA || op->kind == OP_CONST || op->kind == OP_SIZE ||
                op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; i < op->n_operands && good; i++) {
        good = is_of_coordinates(op->operands[i], known);
    }
    return memo_keep(known, value, OF_COORDINATES, good) != 0;
}

/* True if what is element-wise of the value has a gather that could be computed where its array is,
 * if it were stored alone. */
static bool has_piece(Func *func, const Block *block, const Value *value, Memo *known)
{
    Op *op = value->def;
    InverseMap inverse;
    int64_t found;
    if (!op || op->parent != block || memo_known(known, value, HAS_PIECE, &found)) {
        return op && op->parent == block && found;
    }
    bool has = op->kind == OP_GATHER && fuse_is_costly_gather(func, op) &&
               an_inverse_map(func, op, &inverse);
    bool inner = op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; inner && i < op->n_operands && !has; i++) {
        has = has_piece(func, block, op->operands[i], known);
    }
    return memo_keep(known, value, HAS_PIECE, has) != 0;
}

/* ---- pieces that are made of the same elements ---- */

enum { MAX_PIECES = 8 };

typedef struct Pieces {
    Func *func;
    const Block *block;
    const Value *arrays[MAX_PIECES];
    int n;
} Pieces;

/* Collects the arrays of which the value, gathers and selects of them, is put together. False if it
 * is something else, or the arrays have different extents. */
static bool find_pieces(Pieces *pieces, const Value *value)
{
    const Op *op = value->def;
    InverseMap inverse;
    if (op && op->kind == OP_SELECT) {
        return find_pieces(pieces, op->operands[1]) && find_pieces(pieces, op->operands[2]);
    }
    const Value *array = op && op->kind == OP_GATHER ? op->operands[0] : NULL;
    if (!array || array->type->kind != TYPE_ARRAY || pieces->n == MAX_PIECES ||
        value_count_uses(pieces->func, array) != 1 || !array->def ||
        array->def->parent != pieces->block || !an_inverse_map(pieces->func, op, &inverse)) {
        return false;
    }
    pieces->arrays[pieces->n++] = array;
    return array->type == pieces->arrays[0]->type;
}

/* True if an element of memory that the value is made of was visited before; visits all of them. */
static bool reads_visited(const Block *block, const Value *value, Memo *before, Memo *seen)
{
    const Op *op = value ? value->def : NULL;
    if (!op || op->parent != block || !memo_visit(seen, value)) {
        return false;
    }
    bool reads =
        (op->kind == OP_LOAD || op->kind == OP_GATHER) && type_is_memory(op->operands[0]->type);
    bool found = reads && !memo_visit(before, value);
    for (int i = 0; i < op->n_operands; i++) {
        found = reads_visited(block, op->operands[i], before, seen) || found;
    }
    return found;
}

/* True if each piece is made of elements that another one is made of, too, and the pieces are of
 * the same extents. */
static bool share_elements(Func *func, const Block *block, const Op *select)
{
    Pieces pieces = {.func = func, .block = block};
    if (!find_pieces(&pieces, select->results[0])) {
        return false;
    }
    Memo *before = memo_open(func), *seen = memo_open(func);
    bool share = true;
    for (int i = 0; i < pieces.n; i++) {
        memo_clear(seen);
        share = (reads_visited(block, pieces.arrays[i], before, seen) || i == 0) && share;
    }
    memo_close(seen);
    memo_close(before);
    return share;
}

static bool is_made_of_pieces(Func *func, const Block *block, const Op *select, Memo *known)
{
    return share_elements(func, block, select) ||
           (is_of_coordinates(select->operands[0], known) &&
            (has_piece(func, block, select->operands[1], known) ||
             has_piece(func, block, select->operands[2], known)));
}

/* ---- the store of each piece ---- */

typedef struct Chain {
    const Op *store;
    Memo *seen;
    struct {
        Op **items; /* from the select on, in the order of the block */
        size_t n, cap;
    } ops;
    bool good;
} Chain;

/* All that uses the value must be element-wise, move axes, or be the store. */
static void follow(Func *func, Chain *chain, const Value *value)
{
    for (const ValueUse *use = use_first(value, func->body); use && chain->good;
         use = use_next(use, func->body)) {
        Op *op = use->op;
        bool moves = op_moves_axes(op) || (op_has(op, TRAIT_ELEMENTWISE) && op->n_results == 1);
        if (op == chain->store) {
            continue;
        }
        chain->good = moves && op->parent == chain->store->parent;
        if (chain->good && memo_visit(chain->seen, op->results[0])) {
            follow(func, chain, op->results[0]);
            ARENA_PUSH(func->arena, &chain->ops, op);
        }
    }
}

/* The value where the select is one of its branches. The walk has the ops behind all of their
 * users: from the last one on they are in order. */
static Value *with_branch(Builder *b, const Chain *chain, const Op *select, int branch)
{
    CloneMap map = clone_map_new(b->func);
    clone_map_value(&map, select->results[0], select->operands[branch]);
    for (size_t i = chain->ops.n; i-- > 0;) {
        clone_op(b, &map, chain->ops.items[i]);
    }
    return clone_get(&map, op_moved_value(chain->store));
}

/* The select's condition along the axes of the stored tensor. */
static Value *moved_condition(Builder *b, const Chain *chain, const Op *select)
{
    CloneMap map = clone_map_new(b->func);
    clone_map_value(&map, select->results[0], select->operands[0]);
    for (size_t i = chain->ops.n; i-- > 0;) {
        const Op *op = chain->ops.items[i];
        Value *from = NULL;
        for (int k = 0; k < op->n_operands; k++) {
            Value *known = clone_get(&map, op->operands[k]);
            from = known != op->operands[k] ? known : from;
        }
        if (op_moves_axes(op)) {
            Type type = type_with_dtype(b->func, op->results[0]->type, DT_BOOL);
            Op *copy = build_op(b, op->kind, 1, &from, 1, &type, 0);
            copy->n_attrs = op->n_attrs;
            copy->attrs = op->attrs;
            from = copy->results[0];
        }
        clone_map_value(&map, op->results[0], from);
    }
    return clone_get(&map, op_moved_value(chain->store));
}

static void scatter_piece(Builder *b, const Op *store, int64_t number, Value *value, Value *mask)
{
    Value *tensor = store->operands[0], *indices[MAX_RANK];
    int64_t guard[MAX_RANK] = {0};
    for (int i = 0; i < value->type->rank; i++) {
        indices[i] = build_places(b, i, value->type);
    }
    Op *scatter = build_scatter(b, "set", tensor, indices, value, NULL, mask, false);
    op_set_ints(b->func, scatter, ATTR_GUARD, value->type->rank, guard);
    op_set_int(b->func, scatter, ATTR_PIECE, number);
}

/* Returns true if the store was split at the select. */
static bool split_at(Func *func, Op *store, const Op *select)
{
    Chain chain = {.store = store, .seen = memo_open(func), .good = true};
    follow(func, &chain, select->results[0]);
    memo_close(chain.seen);
    if (!chain.good || type_is_scalar(select->operands[0]->type)) {
        return false;
    }
    Builder b = build_before(func, store);
    b.span = store->span;
    Value *old = store->kind == OP_SCATTER ? scatter_parts(store).mask : NULL;
    Value *holds = moved_condition(&b, &chain, select);
    Value *not = build_unary(&b, OP_NOT, holds);
    Value *first = with_branch(&b, &chain, select, 1);
    Value *second = with_branch(&b, &chain, select, 2);
    int64_t number = op_int(store, ATTR_PIECE, select->results[0]->id);
    scatter_piece(&b, store, number, first, old ? build_binary(&b, OP_AND, old, holds) : holds);
    scatter_piece(&b, store, number, second, old ? build_binary(&b, OP_AND, old, not ) : not );
    op_remove(store);
    return true;
}

/* The first select of pieces among what the value is element-wise made of; NULL: none. */
static Op *find_select(Func *func, const Block *block, const Value *value, Memo *seen, Memo *known)
{
    Op *op = value->def;
    if (!op || op->parent != block || !memo_visit(seen, value)) {
        return NULL;
    }
    if (op->kind == OP_SELECT && is_made_of_pieces(func, block, op, known)) {
        return op;
    }
    bool inner = op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
    Op *found = NULL;
    for (int i = 0; inner && i < op->n_operands && !found; i++) {
        found = find_select(func, block, op->operands[i], seen, known);
    }
    return found;
}

void fuse_split_pieces(Func *func, Block *block)
{
    for (Op *op = block->first, *next; op; op = next) {
        Op *before = op->prev;
        next = op->next;
        if (!fuse_stores_own_elements(func, op)) {
            continue;
        }
        Memo *seen = memo_open(func), *known = memo_open(func);
        Op *select = find_select(func, block, op_moved_value(op), seen, known);
        memo_close(known);
        memo_close(seen);
        if (select && split_at(func, op, select)) {
            next = before ? before->next : block->first; /* the pieces may have pieces */
        }
    }
}
