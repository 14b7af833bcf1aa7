/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates the shared memory that layouts need, assigns an offset to every allocation, and checks
 * that all of it fits. */
#include "ir/ir_errors.h"
#include "ir/schedule.h"
#include "passes/analysis/bank_conflicts.h"
#include "passes/layout/assign_layouts.h"
#include "support/int_math.h"

enum { PLAIN_ALIGN = 128, FOLD_ALIGN = 8, MAX_SKEW = 5, OWN_BYTES = 2048 };

/* ---- scratch ---- */

static const SharedTile PLAIN = {.swizzle = 0};

static Value *new_shared(LayoutPass *pass, const Op *at, Type type, const SharedTile *tile)
{
    Op *launch = op_enclosing(at, OP_LAUNCH);
    Builder b = build_before(pass->func, launch->regions[0]->first);
    Op *op = build_op(&b, OP_SHARED, 0, NULL, 1, &type, 0);
    if (tile->swizzle) {
        op_set_int(pass->func, op, ATTR_SWIZZLE, tile->swizzle);
    }
    if (tile->skew) {
        op_set_int(pass->func, op, ATTR_SKEW, tile->skew);
    }
    return op->results[0];
}

static Value *momentary(LayoutPass *pass, const Op *at, Type type, const SharedTile *tile)
{
    /* The owner is the outermost block of the role, or of the launch if it has no roles. */
    const Op *roles = op_enclosing(at, OP_ROLES);
    const Block *owner = at->parent;
    const Op *outer = roles ? roles : op_enclosing(at, OP_LAUNCH);
    while (owner->parent != outer) {
        owner = owner->parent->parent;
    }
    for (size_t i = 0; i < pass->scratches.n; i++) {
        LayoutScratch *scratch = &pass->scratches.items[i];
        bool same = scratch->shared->type == type && scratch->swizzle == tile->swizzle &&
                    scratch->skew == tile->skew;
        if (same && scratch->owner == owner) {
            return scratch->shared;
        }
    }
    LayoutScratch scratch = {new_shared(pass, at, type, tile), owner, tile->swizzle, tile->skew};
    ARENA_PUSH(pass->func->arena, &pass->scratches, scratch);
    return scratch.shared;
}

static void choose_swizzle(Func *func, SharedTile *tile, const Layout *store, const Layout *load)
{
    static const int candidates[] = {0, 32, 64, 128};
    SharedTile best = *tile;
    int64_t fewest = INT64_MAX, least = 0;
    size_t n = an_swizzled(func) ? sizeof candidates / sizeof *candidates : 1;
    for (size_t i = 0; i < n && fewest > least; i++) {
        tile->swizzle = candidates[i];
        int skews = tile->swizzle ? MAX_SKEW + 1 : 1;
        skews = an_swizzle_fits(tile, tile->swizzle) ? skews : 0;
        for (tile->skew = 0; tile->skew < skews && fewest > least; tile->skew++) {
            least = 0;
            int64_t turns = an_shared_wavefronts(func->target, tile, store, &least) +
                            an_shared_wavefronts(func->target, tile, load, &least);
            if (turns < fewest) {
                fewest = turns;
                best = *tile;
            }
        }
    }
    *tile = best;
}

Value *layout_scratch(LayoutPass *pass, const Op *at, const Value *value, const Layout *to,
                      bool kept)
{
    Type type = value->type;
    SharedTile tile = {.rank = type->rank, .elem_bytes = dtype_bytes(type->dtype)};
    int64_t dims[MAX_RANK + 1] = {1};
    if (type->rank >= MAX_RANK) {
        /* A shared buffer has one axis more than its tile, that of its copies, so a tile's rank is
         * limited to one less. */
        Diag *diag =
            diag_error(pass->func->diags, ERR_NOT_HERE, at->span,
                       "an array of %d axes is handed from thread to thread here", type->rank);
        diag_help(pass->func->diags, diag,
                  "%d axes can be: make one of two that are not folded, or fold it before",
                  MAX_RANK - 1);
        diag_leave(pass->func->diags);
    }
    layout_extents(pass, type, tile.extents);
    for (int axis = 0; axis < type->rank; axis++) {
        dims[axis + 1] = tile.extents[axis];
    }
    choose_swizzle(pass->func, &tile, type->layout, to);
    Type shared = type_shared(pass->func, type->dtype, type->rank + 1, dims);
    return kept ? new_shared(pass, at, shared, &tile) : momentary(pass, at, shared, &tile);
}

Value *layout_reduce_scratch(LayoutPass *pass, const Op *reduce)
{
    int axis = (int)op_int(reduce, ATTR_AXIS, 0);
    Type result = reduce->results[0]->type;
    const Layout *from = reduce->operands[0]->type->layout;
    int64_t extents[MAX_RANK];
    int64_t dims[2] = {1, 1};
    layout_extents(pass, result, extents);
    for (int bit = 0; bit < from->bits[IN_WARP]; bit++) {
        dims[0] *= from->basis[IN_WARP][bit][axis] ? 2 : 1;
    }
    for (int i = 0; i < result->rank; i++) {
        dims[1] *= extents[i];
    }
    /* Allocates private scratch memory if that is little: then one barrier suffices for a
     * reduction, or for several. */
    Type type = type_shared(pass->func, result->dtype, 2, dims);
    bool own = dims[0] * dims[1] * dtype_bytes(result->dtype) <= OWN_BYTES;
    return own ? new_shared(pass, reduce, type, &PLAIN) : momentary(pass, reduce, type, &PLAIN);
}

Value *layout_cluster_scratch(LayoutPass *pass, const Op *reduce, int64_t slots)
{
    Type result = reduce->results[0]->type;
    int64_t extents[MAX_RANK];
    int64_t dims[3] = {slots, op_int(op_enclosing(reduce, OP_LAUNCH), ATTR_CLUSTER, 1)};
    enum { MIN_BYTES = 4 }; /* of an element that is sent to another block */
    int bytes = dtype_bytes(result->dtype);
    dims[2] = bytes < MIN_BYTES ? MIN_BYTES / bytes : 1;
    layout_extents(pass, result, extents);
    for (int i = 0; i < result->rank; i++) {
        dims[2] *= extents[i];
    }
    Type type = slots > 1 ? type_shared(pass->func, result->dtype, 3, dims)
                          : type_shared(pass->func, result->dtype, 2, dims + 1);
    return new_shared(pass, reduce, type, &PLAIN);
}

Value *layout_scatter_scratch(LayoutPass *pass, const Op *scatter)
{
    enum { MIN_BYTES = 4 }; /* as above */
    Type part = scatter->results[0]->type;
    int64_t extents[MAX_RANK];
    int64_t dims[2] = {op_int(op_enclosing(scatter, OP_LAUNCH), ATTR_CLUSTER, 1)};
    int bytes = dtype_bytes(part->dtype);
    dims[1] = bytes < MIN_BYTES ? MIN_BYTES / bytes : 1;
    layout_extents(pass, part, extents);
    for (int i = 0; i < part->rank; i++) {
        dims[1] *= extents[i];
    }
    return new_shared(pass, scatter, type_shared(pass->func, part->dtype, 2, dims), &PLAIN);
}

static int64_t fold_aligned(int64_t bytes)
{
    return (bytes + FOLD_ALIGN - 1) / FOLD_ALIGN * FOLD_ALIGN;
}

/* For each value, one total per slice of the axis that a warp owns, aligned to 8 bytes. */
Value *layout_fold_scratch(LayoutPass *pass, const Op *fold)
{
    int axis = (int)op_int(fold, ATTR_AXIS, 0);
    const Layout *from = fold->operands[0]->type->layout;
    int64_t extents[MAX_RANK], dims[2] = {1, 0}, rows = 1, part = INT64_MAX;
    layout_extents(pass, fold->operands[0]->type, extents);
    for (int bit = 0; bit < from->bits[IN_WARP]; bit++) {
        int64_t step = from->basis[IN_WARP][bit][axis];
        part = step && step < part ? step : part;
    }
    while (dims[0] * part < extents[axis]) {
        dims[0] *= 2;
    }
    for (int i = 0; i < from->rank; i++) {
        rows *= i == axis ? 1 : extents[i];
    }
    for (int i = 0; i < fold->n_results; i++) {
        int64_t bytes = rows * dtype_bytes(fold->operands[i]->type->dtype);
        dims[1] += fold_aligned(bytes);
    }
    return momentary(pass, fold, type_shared(pass->func, DT_U8, 2, dims), &PLAIN);
}

/* Counters: one row for all groups and one more per warp; tables have as many entries. */
static int64_t rank_bytes(LayoutPass *pass, const Op *op)
{
    const Value *groups = op->kind == OP_RANK ? op->operands[1] : op->results[0];
    int64_t columns = poly_capacity(groups->type->dims[0]) + 1;
    int64_t bytes = columns * layout_warps(pass, op->parent) * dtype_bytes(DT_I32);
    bytes = fold_aligned(bytes);
    for (int i = 0; op->kind == OP_RANK && i < op->n_results; i++) {
        bytes += fold_aligned(columns * dtype_bytes(op->results[i]->type->dtype));
    }
    return bytes;
}

static int64_t arrange_bytes(const Op *op)
{
    Type type = op->results[0]->type;
    return fold_aligned((poly_capacity(type->dims[0]) + 1) * dtype_bytes(type->dtype));
}

static int64_t lookup_bytes(const Op *op)
{
    Type table = op->operands[0]->type;
    return fold_aligned((poly_capacity(table->dims[0]) + 1) * dtype_bytes(table->dtype));
}

static int64_t scratch_bytes(LayoutPass *pass, const Op *op)
{
    switch (op->kind) {
    case OP_RANK:
    case OP_HISTOGRAM: return rank_bytes(pass, op);
    case OP_TILE_SCATTER: return arrange_bytes(op);
    case OP_LOOKUP: return lookup_bytes(op);
    default: return 0;
    }
}

/* These ops use the memory only while they run, so one allocation of the largest size serves all of
 * them. */
Value *layout_rank_scratch(LayoutPass *pass, const Op *op)
{
    int64_t dims[2] = {1, 0};
    for (size_t i = 0; i < pass->ops.n; i++) {
        const Op *other = pass->ops.items[i];
        int64_t bytes = scratch_bytes(pass, other);
        if (bytes > dims[1] && op_enclosing(other, OP_LAUNCH) == op_enclosing(op, OP_LAUNCH)) {
            dims[1] = bytes;
        }
    }
    return momentary(pass, op, type_shared(pass->func, DT_U8, 2, dims), &PLAIN);
}

/* ---- places ---- */

typedef struct SharedPlace {
    Op *op;
    int64_t bytes, align, slots;
} SharedPlace;

typedef struct Placer {
    Func *func;
    struct {
        SharedPlace *items;
        size_t n, cap;
    } places;
    int64_t total;
    uint32_t first_new; /* values from this id on are this pass's */
} Placer;

static int64_t shared_bytes(const Op *op)
{
    Type type = op->results[0]->type;
    int64_t bytes = op->kind == OP_MBARRIER ? MBARRIER_BYTES : dtype_bytes(type->dtype);
    for (int i = 0; i < type->rank; i++) {
        bytes *= poly_capacity(type->dims[i]);
    }
    return op_int(op, ATTR_PACKED, 0) ? bytes / 2 : bytes;
}

static void collect(Op *op, void *user)
{
    Placer *placer = user;
    if (op->kind != OP_SHARED && op->kind != OP_MBARRIER) {
        return;
    }
    int64_t align = PLAIN_ALIGN;
    if (op->kind == OP_MBARRIER) {
        align = MBARRIER_BYTES;
    } else if (op_int(op, ATTR_SWIZZLE, 0) > 0) {
        align = SWIZZLE_ALIGN;
    }
    SharedPlace place = {op, shared_bytes(op), align, poly_capacity(op->results[0]->type->dims[0])};
    ARENA_PUSH(placer->func->arena, &placer->places, place);
}

/* ---- what does not fit ---- */

static const char *place_name(const SharedPlace *place)
{
    const char *name = place->op->results[0]->name;
    if (name) {
        return name;
    }
    return place->op->kind == OP_MBARRIER ? "barriers" : "scratch";
}

static const char *budget_table(const Placer *placer, int64_t limit)
{
    Text text = text_new(placer->func->arena);
    int64_t gaps = placer->total;
    text_add(&text, "bytes of shared memory, by buffer:");
    for (size_t i = 0; i < placer->places.n; i++) {
        const SharedPlace *place = &placer->places.items[i];
        gaps -= place->bytes;
        text_printf(&text, "\n%10lld  %s", (long long)place->bytes, place_name(place));
        if (place->slots > 1) {
            text_printf(&text, ", %lld slots of %lld", (long long)place->slots,
                        (long long)(place->bytes / place->slots));
        }
    }
    if (gaps > 0) {
        text_printf(&text, "\n%10lld  alignment", (long long)gaps);
    }
    text_printf(&text, "\n%10lld  in all, of %lld", (long long)placer->total, (long long)limit);
    return text.data;
}

bool layout_request_retry(Func *func, const Op *launch)
{
    const Block *body = launch->regions[0];
    bool has_dots = block_contains(body, OP_DOT) || block_contains(body, OP_DOT_ASYNC);
    func->retry.is_plain = func->retry.is_plain || !has_dots;
    return has_dots;
}

static void report(const Placer *placer, const Op *launch)
{
    Func *func = placer->func;
    int64_t limit = func->target->shared_bytes;
    Diag *diag =
        diag_error(func->diags, ERR_SHARED_MEMORY, launch->span,
                   "kernel %s needs %lld bytes of shared memory; a block of %s has %lld",
                   func->name, (long long)placer->total, func->target->name, (long long)limit);
    diag_note(func->diags, diag, "%s", budget_table(placer, limit));
    if (layout_request_retry(func, launch)) {
        /* The retry reserves the bytes that `stage` could not count: barriers, alignment, and the
         * buffers that layouts add. */
        int64_t others = placer->total;
        for (size_t i = 0; i < placer->places.n; i++) {
            const SharedPlace *place = &placer->places.items[i];
            bool staged =
                place->op->kind == OP_SHARED && place->op->results[0]->id < placer->first_new;
            others -= staged ? place->bytes : 0;
        }
        ResourceRetry *fit = &placer->func->retry;
        fit->reserved_bytes = fit->reserved_bytes > others ? fit->reserved_bytes : others;
    }
}

static void report_blocks(const Placer *placer, const Op *launch, int64_t blocks, int64_t each,
                          int64_t available)
{
    Func *func = placer->func;
    Diag *diag = diag_error(func->diags, ERR_SHARED_MEMORY, launch->span,
                            "%lld blocks of kernel %s need %lld bytes of shared memory; a "
                            "multiprocessor of %s has %lld",
                            (long long)blocks, func->name, (long long)(blocks * each),
                            func->target->name, (long long)available);
    diag_note(func->diags, diag, "%s\n%10lld  reserved by the device\n%10lld  of %lld blocks",
              budget_table(placer, func->target->shared_bytes),
              (long long)func->target->shared_reserved, (long long)(blocks * each),
              (long long)blocks);
    layout_request_retry(func, launch);
}

/* The blocks of a multiprocessor share its memory: derived ones are as many as have space, so that
 * their threads have the registers of those that have none; the user's must fit. */
static void limit_blocks(const Placer *placer, Op *launch)
{
    Func *func = placer->func;
    int64_t blocks = op_int(launch, ATTR_OCCUPANCY, 1), reserved = func->target->shared_reserved;
    int64_t available = func->target->shared_bytes + reserved, each = placer->total + reserved;
    if (blocks <= 1 || placer->total == 0 || blocks * each <= available) {
        return;
    }
    schedule_at_op(func, launch);
    if (schedule_user_entry(func, "occupancy", "")) {
        report_blocks(placer, launch, blocks, each, available);
    } else {
        op_set_int(func, launch, ATTR_OCCUPANCY,
                   schedule_decide_int(func, "occupancy", "", max_i64(1, available / each),
                                       "a block has %lld bytes of shared memory",
                                       (long long)placer->total));
    }
    schedule_at_launch(func, EVERY_LAUNCH);
}

static void place_launch(Op *launch, void *user)
{
    LayoutPass *pass = user;
    Func *func = pass->func;
    if (launch->kind != OP_LAUNCH) {
        return;
    }
    if (func->retry.alias_buffers) {
        layout_alias_buffers(pass, launch);
    }
    Placer placer = {.func = func, .first_new = pass->n_values};
    block_walk(launch->regions[0], collect, &placer);
    /* Buffers are placed by falling alignment, so that no padding lies between them. */
    for (int64_t align = SWIZZLE_ALIGN; align >= MBARRIER_BYTES; align /= 2) {
        for (size_t i = 0; i < placer.places.n; i++) {
            SharedPlace *place = &placer.places.items[i];
            if (place->align == align) {
                placer.total = round_up(placer.total, align);
                op_set_int(placer.func, place->op, ATTR_OFFSET, placer.total);
                placer.total += place->bytes;
            }
        }
    }
    if (placer.total > func->target->shared_bytes) {
        report(&placer, launch);
    } else {
        limit_blocks(&placer, launch);
    }
}

void layout_place_shared(LayoutPass *pass)
{
    func_walk(pass->func, place_launch, pass);
}
