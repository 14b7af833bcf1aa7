/* SPDX-License-Identifier: Apache-2.0 */
/* privatize_atomics: accumulates atomics on small tensors in shared memory, merged once per block.
 *
 *   launch dims=[N] steps=[4096] {       launch dims=[N] steps=[4096] persistent=1 {
 *     (%n: range)                          shared_store %own[0, :, :], 0; barrier
 *     …                            →       tiles { … scatter %own[0, %i, :], %v fn=add }
 *     scatter %h[%i], %v fn=add            barrier; %s = reduce (shared_load %own[0, :, :]) fn=sum
 *   }                                      scatter %h[%all], %s, (%s is not 0) fn=add }
 *
 * Few blocks then change the tensor, once each, instead of all threads contending for the same
 * addresses. A block has several copies of the tensor, one per lane if they fit, so that the lanes
 * of a warp do not contend for one element either. 64-bit counts are kept in 32 bits if the tiles
 * of a block cannot count further. On CPUs code generation gives each call its own copy. Requires:
 * stage. Reorders float additions, as atomics do. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/privatizable.h"
#include "passes/analysis/reduce_identity.h"
#include "passes/pass.h"

#include <string.h>

enum {
    MAX_COPIES = 32,     /* banks of shared memory */
    COPIES_BYTES = 32768 /* that a block takes, of parts that have much */
};

typedef struct Own {
    Func *func;
    PrivatizableTensor gathered;
    int64_t copies;
    Value *shared, *zero;
} Own;

/* Copies are added as a reduction does; there is none of bits. */
static const char *reduction(const char *fn)
{
    bool bits = text_equal(fn, "and") || text_equal(fn, "or") || text_equal(fn, "xor");
    if (bits) {
        return NULL;
    }
    return text_equal(fn, "add") ? "sum" : fn;
}

static Value *neutral(Builder *b, const Own *own, Type type)
{
    const char *fn = own->gathered.fn;
    int64_t integer = text_equal(fn, "and") ? -1 : 0;
    double real = -0.0; /* the one that changes no zero */
    if (text_equal(fn, "min") || text_equal(fn, "max")) {
        real = reduce_neutral(fn, type->dtype, &integer);
    }
    return dtype_is_float(type->dtype) ? build_float(b, type, real) : build_int(b, type, integer);
}

/* The tensor's axes, then the copies. */
static Type copies_type(Func *func, const Own *own)
{
    Type tensor = own->gathered.tensor->type;
    Dim dims[MAX_RANK];
    memcpy(dims, tensor->dims, sizeof(Dim) * tensor->rank);
    dims[tensor->rank] = poly_const(func, own->copies);
    return type_array(func, own->gathered.dtype, tensor->rank + (own->copies > 1), dims);
}

/* Whole: `[0, :, :]`. */
static int whole_indices(const Own *own, Value **operands)
{
    int n = 0;
    operands[n++] = own->shared;
    operands[n++] = own->zero;
    while (n <= own->shared->type->rank) {
        operands[n++] = NULL;
    }
    return n;
}

static void begin_own(Builder *b, Own *own)
{
    Func *func = b->func;
    int64_t dims[MAX_RANK] = {1};
    Type type = copies_type(func, own);
    for (int i = 0; i < type->rank; i++) {
        poly_is_const(type->dims[i], &dims[i + 1]);
    }
    Type shared = type_shared(func, type->dtype, type->rank + 1, dims);
    own->shared = build_op(b, OP_SHARED, 0, NULL, 1, &shared, 0)->results[0];
    own->shared->name = own->gathered.tensor->name;
    own->zero = build_int(b, type_scalar(func, DT_I32), 0);
    Value *operands[MAX_RANK + 3];
    int n = whole_indices(own, operands);
    operands[n++] = neutral(b, own, type);
    build_op(b, OP_SHARED_STORE, n, operands, 0, NULL, 0);
}

/* ---- in tiles ---- */

static void redirect(Op *op, void *user)
{
    const Own *own = user;
    if (op->kind != OP_SCATTER || op->operands[0] != own->gathered.tensor) {
        return;
    }
    Func *func = own->func;
    Builder b = build_before(func, op);
    Access access = op_access(op, 0);
    ScatterParts parts = scatter_parts(op);
    Value *indices[MAX_RANK] = {own->zero};
    int64_t guards[MAX_RANK] = {0};
    const Attr *guard = op_attr(op, ATTR_GUARD);
    for (int i = 0; i < access.n; i++) {
        indices[i + 1] = access.indices[i];
        guards[i + 1] = guard ? guard->ints[i] : 0;
    }
    Value *value = build_cast(&b, parts.value, own->gathered.dtype);
    Op *change =
        build_scatter(&b, own->gathered.fn, own->shared, indices, value, NULL, parts.mask, false);
    op_set_ints(func, change, ATTR_GUARD, own->shared->type->rank, guards);
    op_remove(op);
}

/* ---- at the end ---- */

static Value *is_changed(Builder *b, const Own *own, Value *value)
{
    Value *other = neutral(b, own, value->type);
    DType dtype = value->type->dtype;
    if (dtype_is_float(dtype)) { /* -0.0 is not 0.0 here */
        DType bits = dtype_bits(dtype) == 64 ? DT_I64 : DT_I32;
        value = build_bitcast(b, value, bits);
        other = build_bitcast(b, other, bits);
    }
    return build_cmp(b, "ne", value, other);
}

static void hand_on(Builder *b, const Own *own)
{
    Value *tensor = own->gathered.tensor, *operands[MAX_RANK + 2], *indices[MAX_RANK];
    Type type = copies_type(b->func, own);
    int n = whole_indices(own, operands);
    Value *value = build_op(b, OP_SHARED_LOAD, n, operands, 1, &type, 0)->results[0];
    if (own->copies > 1) {
        int last = type->rank - 1;
        value = build_reduce(b, reduction(own->gathered.fn), value, last);
        op_set_over(b->func, value->def, op_reduced_extent(value->def));
        value = build_squeeze(b, value, last);
    }
    for (int i = 0; i < tensor->type->rank; i++) {
        Value *index = build_iota(b, value->type->dims[i], DT_I32);
        indices[i] = build_along(b, index, i, value->type);
    }
    Value *changed = is_changed(b, own, value);
    value = build_cast(b, value, tensor->type->dtype);
    Op *change = build_scatter(b, own->gathered.fn, tensor, indices, value, NULL, changed, false);
    int64_t guards[MAX_RANK] = {0};
    op_set_ints(b->func, change, ATTR_GUARD, tensor->type->rank, guards);
}

/* ---- the launch ---- */

static void put_sync(Builder *b)
{
    build_op(b, OP_BARRIER, 0, NULL, 0, NULL, 0);
}

/* The launch's statements become the region of its tiles. */
static void walk_tiles(Builder *b, Op *launch)
{
    Func *func = b->func;
    const Attr *dims = op_attr(launch, ATTR_DIMS), *steps = op_attr(launch, ATTR_STEPS);
    Op *tiles = build_op(b, OP_TILE_LOOP, 0, NULL, 0, NULL, 1);
    op_set_dims(func, tiles, ATTR_DIMS, dims->n, dims->dims);
    op_set_ints(func, tiles, ATTR_STEPS, steps->n, steps->ints);
    tiles->regions[0] = launch->regions[0];
    tiles->regions[0]->parent = tiles;
    Builder end = build_at_end(func, tiles->regions[0]);
    build_yield(&end, 0, NULL);
}

static void gather(Func *func, Op *launch, const PrivatizableTensor *found, int n)
{
    Own owns[MAX_GATHERED];
    Block *outer = build_block(func, launch);
    Builder b = build_at_end(func, outer);
    int64_t most_tiles = INT64_MAX;
    for (int i = 0; i < n; i++) {
        owns[i] = (Own){.func = func, .gathered = found[i], .copies = 1};
    }
    /* Each reduced tensor gets the largest number of copies that fits into the space in shared
     * memory. */
    int64_t capacity = func->target->shared_bytes / 4, bytes = 0;
    capacity = capacity < COPIES_BYTES ? capacity : COPIES_BYTES;
    for (int64_t copies = 2; copies <= MAX_COPIES; copies *= 2) {
        for (int i = 0; i < n; i++) {
            const PrivatizableTensor *gathered = &owns[i].gathered;
            int64_t each = reduction(gathered->fn) ? copies : 1;
            bytes += gathered->elements * dtype_bytes(gathered->dtype) * each;
        }
        for (int i = 0; i < n && bytes <= capacity; i++) {
            owns[i].copies = reduction(owns[i].gathered.fn) ? copies : 1;
        }
        bytes = 0;
    }
    for (int i = 0; i < n; i++) {
        begin_own(&b, &owns[i]);
        block_walk(launch->regions[0], redirect, &owns[i]);
        int64_t most = found[i].most_tiles;
        most_tiles = most && most < most_tiles ? most : most_tiles;
    }
    put_sync(&b);
    walk_tiles(&b, launch);
    put_sync(&b);
    for (int i = 0; i < n; i++) {
        hand_on(&b, &owns[i]);
    }
    launch->regions[0] = outer;
    op_set_int(func, launch, ATTR_PERSISTENT, 1);
    if (most_tiles != INT64_MAX) {
        op_set_int(func, launch, ATTR_MAX_TILES, most_tiles);
    }
}

void pass_privatize_atomics(Func *func)
{
    for (Op *op = func->body->first; op; op = op->next) {
        PrivatizableTensor found[MAX_GATHERED];
        if (op->kind != OP_LAUNCH) {
            continue;
        }
        schedule_at_op(func, op);
        int n = op_attr(op, ATTR_DIMS)->n ? an_privatizable(func, op, found) : 0;
        if (n > 0) {
            gather(func, op, found, n);
        }
    }
    schedule_at_launch(func, EVERY_LAUNCH);
    func_remove_dead(func);
}
