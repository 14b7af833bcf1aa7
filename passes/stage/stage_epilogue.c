/* SPDX-License-Identifier: Apache-2.0 */
/* Stores the results of dots through shared memory, because a thread owns runs that are too short
 * for wide stores. A bulk store proceeds while the next tile is computed; rows that it cannot write
 * are written by threads, adjacent threads per row. */
#include "passes/analysis/access_width.h"
#include "passes/analysis/memory_steps.h"
#include "passes/analysis/range_facts.h"
#include "passes/stage/stage.h"

enum { MAX_LOOP_STORES = 4 }; /* tensors that loops of a launch store tiles of */

/* The copy engine writes whole tiles, cut only where the tensor ends: a range that ends elsewhere,
 * as a part of an axis does, would overwrite what follows it. */
static bool fills_tiles(const Access *access)
{
    bool fills = true;
    for (int i = 0; i < access->n && fills; i++) {
        const Value *index = access->indices[i];
        const DimVar *range =
            index && index->type->kind == TYPE_RANGE ? poly_as_range(index->type->dims[0]) : NULL;
        fills = !range || range_is_full(range) || range_walks_whole(range);
    }
    return fills;
}

/* May this store go by bulk copy? Bytes of its tile, or 0. */
static int64_t bulk_store_bytes(const StageContext *s, const Op *store)
{
    Access access = op_access(store, 0);
    Type value = store->operands[store->n_operands - 1]->type;
    if (!s->func->target->has_bulk_copy || value->rank != 2 ||
        !tma_can_describe(s->func->target, &access) || !fills_tiles(&access) ||
        !stage_may_bulk(s->func, s->launch, access.memory)) {
        return 0;
    }
    return poly_capacity(value->dims[0]) * poly_capacity(value->dims[1]) *
           dtype_bytes(value->dtype);
}

/* Teams have a slot each: in turns at one they would wait with the work on their results, which an
 * assembler puts behind the wait. */
static Value *own_slot(StageContext *s, Builder *b)
{
    return s->number ? s->number : build_int(b, type_scalar(s->func, DT_I32), 0);
}

/* Through this slot of shared memory. Returns what writes it, behind the end of earlier copies. */
static Op *store_through(StageContext *s, Op *store, Value *shared, Value *position)
{
    Access access = op_access(store, 0);
    Value *value = store->operands[store->n_operands - 1];
    Builder b = build_before(s->func, store);
    build_bare(&b, OP_BULK_WAIT);
    build_bare(&b, OP_BARRIER);
    Value *to_shared[] = {shared, position, NULL, NULL, value};
    Op *stored = build_op(&b, OP_SHARED_STORE, 5, to_shared, 0, NULL, 0);
    build_bare(&b, OP_FENCE_ASYNC);
    build_bare(&b, OP_BARRIER);
    Value *to_tensor[MAX_RANK + 8] = {shared, position, NULL, NULL, access.memory};
    for (int i = 0; i < access.n; i++) {
        to_tensor[5 + i] = access.indices[i];
    }
    build_op(&b, OP_BULK_STORE, 5 + access.n, to_tensor, 0, NULL, 0);
    op_remove(store);
    return stored;
}

static Value *buffer_of(StageContext *s, const Op *store, Builder *at)
{
    Type value = store->operands[store->n_operands - 1]->type;
    Value *shared = shared_tile(s, at, value->dtype, s->teams, poly_capacity(value->dims[0]),
                                poly_capacity(value->dims[1]));
    shared->name = op_access(store, 0).memory->name;
    return shared;
}

static void stage_store(StageContext *s, Op *store, Builder *at)
{
    Value *shared = buffer_of(s, store, at);
    Builder b = build_before(s->func, store);
    store_through(s, store, shared, own_slot(s, &b));
}

static bool has_lent(const StageContext *s, const StagedOperand *item)
{
    bool found = false;
    for (int i = 0; i < s->n_lent; i++) {
        found = found || s->reused_buffers[i].lender == item;
    }
    return found;
}

/* An operand that is loaded once, alone, and is a tile like the stored one: no product reads it any
 * more by the time of the store. */
static const StagedOperand *lender_of(const StageContext *s, const Op *store)
{
    Type value = store->operands[store->n_operands - 1]->type;
    for (int i = 0; i < s->n; i++) {
        const StagedOperand *item = &s->items[i];
        if (item->bulk && s->streams[item->stream].home == s->body &&
            s->streams[item->stream].loads == 1 && item->dot->parent != s->body &&
            item->load->results[0]->type == value && !has_lent(s, item)) {
            return item;
        }
    }
    return NULL;
}

/* A buffer of its own would cost the rings the slot that lets copies run ahead; of several results
 * the third slot. */
static bool lends(const StageContext *s, const Op *store, int64_t bytes)
{
    int64_t with_stores = stage_slots_that_fit(s, bytes),
            without_stores = stage_slots_that_fit(s, 0);
    bool ahead = with_stores < 2 && without_stores >= 2,
         third = s->n_stores > 1 && with_stores < 3 && without_stores >= 3;
    return s->n_lent < MAX_LENT && store->parent == s->body && (ahead || third) &&
           lender_of(s, store);
}

bool stage_has_lent(const StageContext *s, const OperandStream *stream)
{
    bool found = false;
    for (int i = 0; i < s->n_lent; i++) {
        found = found || &s->streams[s->reused_buffers[i].lender->stream] == stream;
    }
    return found;
}

/* The slot of the tile before: the copy out of it has ended, and all threads know. */
static void hand_back_before(StageContext *s, const OperandStream *stream, Op *where)
{
    Builder b = build_before(s->func, where);
    Type type = stream->position->type;
    Value *before = build_binary(&b, OP_SUB, stream->position, build_int(&b, type, 1));
    Value *any = build_cmp(&b, "gt", stream->position, build_int(&b, type, 0));
    Value *operands[] = {stream->empty, before, any};
    build_op(&b, OP_ARRIVE, 3, operands, 0, NULL, 0);
}

/* The operand's slot is handed back when the copy out of it has ended: of one slot at once, of two
 * by the next tile, which does not wait for that. */
static void stage_lent_store(StageContext *s, Op *store, const StagedOperand *lender)
{
    const OperandStream *stream = &s->streams[lender->stream];
    Op *stored = store_through(s, store, lender->shared, stream->position);
    for (Op *op = stream->home->first, *next; op; op = next) {
        next = op->next;
        if (op->kind != OP_ARRIVE || op->operands[0] != stream->empty) {
            continue;
        }
        if (stream->slots > 1) {
            op_remove(op);
            continue;
        }
        Builder b = build_before(s->func, op);
        build_bare(&b, OP_BULK_WAIT);
    }
    if (stream->slots > 1) {
        hand_back_before(s, stream, stored);
    }
}

void stage_lent_stores(StageContext *s)
{
    for (int i = 0; i < s->n_lent; i++) {
        stage_lent_store(s, s->reused_buffers[i].store, s->reused_buffers[i].lender);
    }
}

/* ---- by threads ---- */

/* True if elements of the tile are neighbours in memory, or nearly. */
static bool scatters_rows(const StageContext *s, const Op *scatter)
{
    enum {
        MAX_WARPGROUP_STORES = 32
    }; /* elements, of which eight are written: a quarter of two sectors */
    return an_width(s->func, scatter) > 1 || an_has_neighbours(scatter, MAX_WARPGROUP_STORES);
}

/* Rows that the copy engine cannot write, of elements so narrow that what a thread of a product
 * holds side by side is a small part of a sector. */
static int64_t repack_permuted_store_bytes(const StageContext *s, const Op *store)
{
    Access access = op_access(store, 0);
    Type value = op_moved_value(store)->type;
    if (value->rank != 2 || dtype_bytes(value->dtype) > 2 || dtype_is_packed(value->dtype) ||
        !type_stride_is(access.memory->type, access.n - 1, 1) ||
        (store->kind == OP_SCATTER && !scatters_rows(s, store))) {
        return 0;
    }
    return poly_capacity(value->dims[0]) * poly_capacity(value->dims[1]) *
           dtype_bytes(value->dtype);
}

/* The tile is read back as rows of neighbouring lanes. */
static void stage_turned_store(StageContext *s, Op *store, Builder *at)
{
    Value *stored = op_moved_value(store);
    int moved = access_next(store, 0);
    Type value = stored->type;
    Value *shared = shared_tile(s, at, value->dtype, s->teams, poly_capacity(value->dims[0]),
                                poly_capacity(value->dims[1]));
    Builder b = build_before(s->func, store);
    b.span = store->span;
    shared->name = op_access(store, 0).memory->name;
    Value *place[] = {shared, own_slot(s, &b), NULL, NULL, stored};
    build_bare(&b, OP_BARRIER);
    build_op(&b, OP_SHARED_STORE, 5, place, 0, NULL, 0);
    build_bare(&b, OP_BARRIER);
    const Op *load = build_op(&b, OP_SHARED_LOAD, 4, place, 1, &value, 0);
    op_set_operand(store, moved, load->results[0]);
}

/* ---- all stores of a launch ---- */

/* A third of shared memory at most: the rings need the rest. Of teams, three slots of them. */
static bool fits_shared(const StageContext *s, int64_t bytes)
{
    enum { MIN_SLOTS = 3 };
    if (s->teams > 1) {
        return bytes && stage_slots_that_fit(s, bytes * s->teams) >= MIN_SLOTS;
    }
    return bytes && s->shared_bytes + bytes <= stage_shared_capacity(s) / 3;
}

/* ---- in loops ---- */

typedef struct LoopStore {
    const Value *memory;
    Type type;
    Value *shared;
} LoopStore;

/* A tile that the loops of a launch store into this tensor: they take turns at one buffer. */
static Value *loop_buffer(StageContext *s, LoopStore *known, int *n, const Op *store, Builder *at)
{
    const Value *memory = op_access(store, 0).memory;
    int64_t bytes = bulk_store_bytes(s, store);
    Type type = store->operands[store->n_operands - 1]->type;
    for (int i = 0; i < *n; i++) {
        if (known[i].memory == memory && known[i].type->dtype == type->dtype &&
            poly_capacity(known[i].type->dims[0]) == poly_capacity(type->dims[0]) &&
            poly_capacity(known[i].type->dims[1]) == poly_capacity(type->dims[1])) {
            return known[i].shared;
        }
    }
    if (*n == MAX_LOOP_STORES || !fits_shared(s, bytes)) {
        return NULL;
    }
    known[*n] = (LoopStore){memory, type, buffer_of(s, store, at)};
    return known[(*n)++].shared;
}

static bool has_product(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_DOT) {
            return true;
        }
    }
    return false;
}

/* What each step of a product's loop stores leaves under the next step's products. */
static void stage_loop_stores(StageContext *s, const Block *block, Builder *at)
{
    LoopStore known[MAX_LOOP_STORES];
    int n = 0;
    for (const Op *loop = block->first; loop && s->teams == 1; loop = loop->next) {
        bool products = loop->kind == OP_FOR && has_product(loop->regions[0]);
        for (Op *op = products ? loop->regions[0]->first : NULL, *next; op; op = next) {
            next = op->next;
            bool bulk = op->kind == OP_STORE && bulk_store_bytes(s, op) > 0;
            Value *shared = bulk ? loop_buffer(s, known, &n, op, at) : NULL;
            if (shared) {
                Builder b = build_before(s->func, op);
                store_through(s, op, shared, build_int(&b, type_scalar(s->func, DT_I32), 0));
            }
        }
    }
}

/* Rows that the copy engine cannot write, in the steps of loops around those of products: runs of
 * rows, which have their results one after the other. */
static void stage_run_stores(StageContext *s, const Block *block, Builder *at)
{
    for (const Op *loop = block->first; loop; loop = loop->next) {
        bool around = loop->kind == OP_FOR && block_contains(loop->regions[0], OP_DOT) &&
                      !has_product(loop->regions[0]);
        for (Op *op = around ? loop->regions[0]->first : NULL; op; op = op->next) {
            if (op->kind == OP_SCATTER && fits_shared(s, repack_permuted_store_bytes(s, op))) {
                stage_turned_store(s, op, at);
            }
        }
    }
}

void stage_stores(StageContext *s, Block *block, Builder *at)
{
    stage_loop_stores(s, block, at);
    stage_run_stores(s, block, at);
    for (const Op *op = block->first; op; op = op->next) {
        s->n_stores += op->kind == OP_STORE && bulk_store_bytes(s, op) > 0;
    }
    for (Op *op = block->first, *next; op; op = next) {
        next = op->next;
        int64_t bytes = op->kind == OP_STORE ? bulk_store_bytes(s, op) : 0;
        if (bytes && lends(s, op, bytes)) {
            s->reused_buffers[s->n_lent].lender = lender_of(s, op);
            s->reused_buffers[s->n_lent++].store = op;
        } else if (fits_shared(s, bytes)) {
            stage_store(s, op, at);
        } else if (!bytes && (op->kind == OP_STORE || op->kind == OP_SCATTER) &&
                   fits_shared(s, repack_permuted_store_bytes(s, op))) {
            stage_turned_store(s, op, at);
        }
    }
}
