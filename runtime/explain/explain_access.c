/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the memory requests of each op of a launch: which addresses the lanes of a warp access,
 * and how many sectors and bank-conflict wavefronts they cause. `tessera explain` and the cost
 * prediction read the totals. */
#include "runtime/explain/explain_access.h"

#include "ir/build.h"
#include "runtime/explain/load_dedup.h"
#include "runtime/explain/warp_request.h"

#include <math.h>

enum { MAX_SHARED_BYTES = 16 };

/* ---- totals ---- */

AccessReport *access_report(Tally *tally, const Op *op, Traffic kind, const Value *memory)
{
    LaunchReport *launch = tally->launch;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        AccessReport *at = &launch->accesses.items[i];
        if (at->op == op && at->kind == kind && at->value == memory) {
            return at;
        }
    }
    diag_bug(tally->diags, "an access of the launch that was not listed");
}

static void keep_sample(AccessReport *report, const WarpRequest *request, int turns)
{
    if (turns > report->sample_cost) {
        report->sample = *request;
        report->sample_cost = turns;
    }
}

void access_request(Tally *tally, AccessReport *report, WarpRequest *request, double times)
{
    tally->examined++;
    request->banks = tally->target->shared_row / SHARED_WORD_BYTES;
    request->pairs = tally->target->family == FAMILY_NVPTX && report->kind == SHARED_LOADS;
    if (!request->active) {
        return;
    }
    report->requests += times;
    report->bytes = request->bytes > report->bytes ? request->bytes : report->bytes;
    report->moved += times * request->bytes * __builtin_popcountll(request->active);
    if (traffic_is_shared(report->kind)) {
        int least, turns = request_wavefronts(request, &least);
        report->wavefronts += times * turns;
        report->least_wavefronts += times * least;
        keep_sample(report, request, turns);
        return;
    }
    bool writes = report->kind == STORES;
    GlobalCounts counts = request_global(tally->memo, request, tally->sector, writes);
    report->packets += times * counts.packets;
    report->missed += times * (report->kind == LOADS
                                   ? dedup_count_new_packets(tally->seen, report->value, request)
                                   : counts.packets);
    report->sectors += times * counts.sectors;
    report->l1_wavefronts += times * counts.l1_wavefronts;
    report->least_sectors += times * counts.least_sectors;
    keep_sample(report, request, counts.sectors);
}

int lanes_of(const Tally *tally)
{
    return tally->target->warp;
}

/* ---- tiles in registers ---- */

static int64_t extent_of(Type type, int axis)
{
    return poly_capacity(type->dims[axis]);
}

/* The register bit that steps by so much along this axis, and no other. */
static bool has_step(const Layout *layout, int along, int step)
{
    for (int bit = 0; bit < layout->bits[IN_REGISTER]; bit++) {
        bool alone = layout->basis[IN_REGISTER][bit][along] == step;
        for (int axis = 0; axis < layout->rank; axis++) {
            alone = alone && (axis == along || layout->basis[IN_REGISTER][bit][axis] == 0);
        }
        if (alone) {
            return true;
        }
    }
    return false;
}

int tile_run_length(Type type, int axis, int64_t most)
{
    int n = 1;
    while (2 * n <= most && extent_of(type, axis) % (2 * n) == 0 &&
           has_step(type->layout, axis, n) &&
           !(layout_thread_bits(type->layout, axis) & (uint32_t)n)) {
        n *= 2;
    }
    return n;
}

static int register_coord(const Layout *layout, int axis, int reg)
{
    int32_t coords[MAX_RANK];
    layout_apply(layout, (uint32_t)reg, 0, 0, coords);
    return coords[axis];
}

bool tile_run_starts(Type type, int axis, int reg, int length)
{
    int64_t extents[MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        extents[i] = extent_of(type, i);
    }
    return layout_register_exists(type->layout, extents, (uint32_t)reg) &&
           (register_coord(type->layout, axis, reg) & (length - 1)) == 0;
}

uint32_t tile_copies(const Layout *layout, LayoutIn in, int count)
{
    uint32_t mask = 0;
    for (int bit = 0; 1 << bit < count; bit++) {
        bool moves = false;
        for (int axis = 0; bit < layout->bits[in] && axis < layout->rank; axis++) {
            moves |= layout->basis[in][bit][axis] != 0;
        }
        mask |= moves ? 0 : 1u << bit;
    }
    return mask;
}

bool tile_inside(Type type, const int32_t *coords)
{
    for (int axis = 0; axis < type->rank; axis++) {
        if (coords[axis] >= extent_of(type, axis)) {
            return false;
        }
    }
    return true;
}

/* ---- shared memory ---- */

SharedTile access_shared_tile(const Access *access)
{
    Type type = access->memory->type;
    SharedTile tile = {.rank = type->rank - 1,
                       .elem_bytes = dtype_bytes(type->dtype),
                       .swizzle = (int)op_int(access->memory->def, ATTR_SWIZZLE, 0),
                       .skew = (int)op_int(access->memory->def, ATTR_SKEW, 0)};
    for (int axis = 1; axis < type->rank; axis++) {
        tile.extents[axis - 1] = extent_of(type, axis);
    }
    return tile;
}

int shared_run_axis(const Access *access)
{
    Type type = access->memory->type;
    int axis = type->rank - 1;
    bool moved =
        op_int(access->memory->def, ATTR_SWIZZLE, 0) || op_int(access->memory->def, ATTR_SKEW, 0);
    while (!moved && axis > 1 && extent_of(type, axis) == 1) {
        axis--;
    }
    return axis - 1;
}

int shared_most(const Access *access)
{
    Type type = access->memory->type;
    int elem = dtype_bytes(type->dtype), bytes = MAX_SHARED_BYTES;
    int64_t swizzle = op_int(access->memory->def, ATTR_SWIZZLE, 0);
    int64_t pitch = swizzle ? swizzle : extent_of(type, shared_run_axis(access) + 1) * elem;
    while (bytes > elem && pitch % bytes) {
        bytes /= 2;
    }
    int most = (int)op_int(access->memory->def, ATTR_VECTOR, bytes / elem);
    return most < bytes / elem ? most : bytes / elem;
}

/* ---- global memory ---- */

typedef struct Global {
    Walk *walk;
    Tally *tally;
    const Op *op;
    AccessReport *report;
    Access access;
    Type tile;
    bool gathers; /* its indices are arrays */
    const Value *mask;
    int axes[MAX_RANK]; /* of memory → of the tile; -1: a scalar */
    int64_t first[MAX_RANK], strides[MAX_RANK], extents[MAX_RANK];
    int64_t limits[MAX_RANK], skips[MAX_RANK]; /* by axis of the tile */
    bool outside;                              /* a scalar index is */
    int bits;                                  /* of an element */
} Global;

/* False: a size is not known, or the tensor has more bits than an address can count. */
static bool find_strides(Global *g)
{
    const EvalPoint *c = &g->walk->context;
    Type type = g->access.memory->type;
    int64_t stride = 1;
    for (int axis = type->rank; axis-- > 0;) {
        if (!context_dim(c, type->dims[axis], &g->extents[axis])) {
            return false;
        }
        g->strides[axis] = stride;
        if (type->strides && !context_dim(c, type->strides[axis], &g->strides[axis])) {
            return false;
        }
        if (__builtin_mul_overflow(stride, g->extents[axis], &stride)) {
            return false;
        }
    }
    return !__builtin_mul_overflow(stride, g->bits, &stride);
}

static void find_range(Global *g, int axis, int at)
{
    const Value *index = g->access.indices[axis];
    g->limits[at] = g->tile->rank ? extent_of(g->tile, at) : 1;
    if (index) {
        const Bound *bound = &g->walk->context.bound[index->id];
        g->first[axis] = bound->first;
        if (op_is_guarded(g->op, axis)) {
            g->limits[at] = bound->end - bound->first;
            g->skips[at] = bound->least - bound->first;
        }
    }
}

static bool plain_place(const Global *g, const int32_t *coords, int run, int64_t *at)
{
    *at = 0;
    for (int axis = 0; axis < g->access.n; axis++) {
        int tile = g->axes[axis];
        *at += (g->first[axis] + (tile >= 0 ? coords[tile] : 0)) * g->strides[axis];
        if (tile >= 0 &&
            (coords[tile] >= g->limits[tile] || coords[tile] + run <= g->skips[tile])) {
            return false;
        }
    }
    return !g->outside;
}

static bool gathered_place(Global *g, const int32_t *coords, int64_t *at)
{
    EvalPoint *c = &g->walk->context;
    int64_t index, held;
    *at = 0;
    if (!tile_inside(g->tile, coords)) {
        return false;
    }
    if (g->mask && context_eval(c, g->mask, coords, &held) && !c->guessed && !held) {
        return false;
    }
    for (int axis = 0; axis < g->access.n; axis++) {
        int32_t none[MAX_RANK] = {0};
        const Value *value = g->access.indices[axis];
        if (!context_eval(c, value, value->type->rank ? coords : none, &index)) {
            c->guessed = true;
            index = coords[0];
        }
        g->report->assumed |= c->guessed;
        if (c->guessed && g->extents[axis] > 0) {
            index = (index % g->extents[axis] + g->extents[axis]) % g->extents[axis];
        }
        if (index < 0 || index >= g->extents[axis]) {
            return false;
        }
        *at += index * g->strides[axis];
    }
    return true;
}

static bool place_of(Global *g, const int32_t *coords, int run, int64_t *at)
{
    bool active = g->gathers ? gathered_place(g, coords, at) : plain_place(g, coords, run, at);
    *at = *at * g->bits / 8;
    return active;
}

/* One thread of all acts for a scalar that is stored; all read one. */
static void tally_scalar(Global *g, double times)
{
    int32_t none[MAX_RANK] = {0};
    int64_t at;
    bool one = g->report->kind != LOADS;
    WarpRequest request = {.lanes = lanes_of(g->tally), .bytes = (g->bits + 7) / 8};
    if (!place_of(g, none, 1, &at)) {
        return;
    }
    for (int lane = 0; lane < (one ? 1 : request.lanes); lane++) {
        request_add(&request, lane, at);
    }
    access_request(g->tally, g->report, &request, times * (one ? 1 : g->walk->warps));
}

static void tally_warp(Global *g, int reg, int warp, int run, double times)
{
    const Layout *layout = g->tile->layout;
    bool loads = g->report->kind == LOADS;
    uint32_t copies = loads ? 0 : tile_copies(layout, IN_LANE, lanes_of(g->tally));
    int bytes = (run * g->bits + 7) / 8;
    /* Fields of a record are loaded by one request, that of the first. */
    const Attr *record = op_attr(g->op, ATTR_RECORD);
    int64_t before = record ? record->ints[0] * bytes : 0;
    WarpRequest request = {.lanes = lanes_of(g->tally),
                           .bytes = record ? bytes * (int)record->ints[1] : bytes};
    int32_t coords[MAX_RANK];
    layout_apply(layout, (uint32_t)reg, 0, (uint32_t)warp, coords);
    for (int lane = 0; lane < request.lanes; lane++) {
        int64_t at;
        if (!((uint32_t)lane & copies) && place_of(g, coords, run, &at)) {
            request_add(&request, lane, at - before);
        }
        layout_next_lane(layout, (uint32_t)lane, coords);
    }
    if (!loads || !dedup_has_load(g->tally->seen, g->op, g->access.memory, warp, &request)) {
        access_request(g->tally, g->report, &request, times);
    }
}

static void tally_tile(Global *g, double times)
{
    const Layout *layout = g->tile->layout;
    int last = g->tile->rank - 1;
    int run = tile_run_length(g->tile, last, op_int(g->op, ATTR_VECTOR, 1));
    bool loads = g->report->kind == LOADS;
    uint32_t copies = loads ? 0 : tile_copies(layout, IN_WARP, g->walk->warps);
    for (int reg = 0; reg < layout_registers(layout); reg++) {
        int warps = tile_run_starts(g->tile, last, reg, run) ? g->walk->warps : 0;
        for (int warp = 0; warp < warps; warp++) {
            if (!((uint32_t)warp & copies)) {
                tally_warp(g, reg, warp, run, times);
            }
        }
    }
}

static void global_tally(Walk *walk, const Op *op, Traffic kind, double times)
{
    Tally *tally = walk->user;
    Global g = {.walk = walk, .tally = tally, .op = op, .access = op_access(op, 0)};
    g.gathers = op->kind == OP_GATHER || op->kind == OP_SCATTER;
    if (op->kind == OP_LOAD || op->kind == OP_GATHER) {
        g.tile = op->results[0]->type;
    } else if (op->kind == OP_SCATTER) {
        g.tile = scatter_parts(op).value->type;
    } else {
        g.tile = op->operands[op->n_operands - 1]->type;
    }
    g.mask = op->kind == OP_SCATTER ? scatter_parts(op).mask : NULL;
    g.bits = dtype_memory_bits(g.access.memory->type->dtype);
    g.report = access_report(tally, op, kind, g.access.memory);
    if (!find_strides(&g)) {
        return;
    }
    /* The coordinates of the first element, by axis of memory. */
    int at = 0;
    for (int axis = 0; axis < g.access.n && !g.gathers; axis++) {
        const Value *index = g.access.indices[axis];
        g.axes[axis] = !index || index->type->kind == TYPE_RANGE ? at++ : -1;
        if (g.axes[axis] >= 0) {
            find_range(&g, axis, g.axes[axis]);
        } else {
            EvalPoint *c = &g.walk->context;
            int32_t none[MAX_RANK] = {0};
            if (!context_eval(c, g.access.indices[axis], none, &g.first[axis])) {
                g.first[axis] = 0;
                c->guessed = true;
            }
            g.report->assumed |= c->guessed;
            if (c->guessed && g.extents[axis] > 0) {
                g.first[axis] %= g.extents[axis];
            }
            g.outside |= op_is_guarded(g.op, axis) &&
                         (g.first[axis] < 0 || g.first[axis] >= g.extents[axis]);
        }
    }
    if (tally->target->warp == 1) {
        /* A CPU has no layouts: only the bytes that are accessed are known. */
        double n = g.outside ? 0 : 1;
        for (int axis = 0; axis < g.tile->rank; axis++) {
            int64_t extent;
            n *= context_dim(&g.walk->context, g.tile->dims[axis], &extent) ? (double)extent : 0;
        }
        g.report->moved += times * n * g.bits / 8;
    } else if (g.tile->rank == 0) {
        tally_scalar(&g, times);
    } else if (g.tile->layout) {
        tally_tile(&g, times);
    }
}

/* ---- whole tiles: of the copy engine, and of threads that copy past their registers ---- */

static void bulk_tally(Walk *walk, const Op *op, Traffic kind, double times)
{
    Tally *tally = walk->user;
    Access access = op_access_nth(op, op->kind == OP_BULK_STORE ? 1 : 0);
    AccessReport *report = access_report(tally, op, kind, access.memory);
    double bytes = dtype_memory_bits(access.memory->type->dtype) / 8.0;
    for (int axis = 0; axis < access.n; axis++) {
        const Value *index = access.indices[axis];
        int64_t extent = 1;
        if (index && index->type->kind == TYPE_RANGE) {
            const Bound *bound = &walk->context.bound[index->id];
            extent = bound->end - bound->first;
        } else if (!index &&
                   !context_dim(&walk->context, access.memory->type->dims[axis], &extent)) {
            return;
        }
        bytes *= (double)extent;
    }
    bytes /= (double)op_int(op, ATTR_CLUSTER, 1); /* a part, for all blocks of the cluster */
    double each = (double)report->bytes * tally->target->warp; /* of a warp's request */
    report->requests += kind == COPIES ? times * ceil(bytes / each) : times;
    report->moved += times * bytes;
    report->sectors += times * bytes / tally->sector;
    report->packets += times * bytes / PACKET_BYTES;
    report->missed += times * bytes / PACKET_BYTES;
    report->least_sectors += times * bytes / tally->sector;
}

/* ---- shared memory ---- */

/* An op whose requests are the same in each round: the places in shared memory depend on layouts
 * and on the tile that lies there, not on the indices of loops and grids. */
typedef struct FixedAccess {
    const Op *op;
    int warps;
    double times; /* of all rounds so far */
} FixedAccess;

static void add_rounds(Walk *walk, const Op *op, double times)
{
    Tally *tally = walk->user;
    for (size_t i = 0; i < tally->fixed.n; i++) {
        FixedAccess *fixed = &tally->fixed.items[i];
        if (fixed->op == op && fixed->warps == walk->warps) {
            fixed->times += times;
            return;
        }
    }
    FixedAccess fixed = {.op = op, .warps = walk->warps, .times = times};
    ARENA_PUSH(walk->context.func->arena, &tally->fixed, fixed);
}

static void fixed_tally(Walk *walk, const Op *op, double times)
{
    const Tally *tally = walk->user;
    switch (op->kind) {
    case OP_SHARED: clear_tally(walk, op, times); break;
    case OP_SHARED_LOAD:
    case OP_SHARED_STORE: shared_tally(walk, op, times); break;
    case OP_REDUCE: reduce_tally(walk, op, times); break;
    case OP_SCAN:
    case OP_FOLD: scan_tally(walk, op, times); break;
    case OP_DOT:
        if (mma_of_dot(tally->target, op)) {
            matrix_tally(walk, op, mma_of_dot(tally->target, op), times);
        } else {
            dot_tally(walk, op, times);
        }
        break;
    case OP_DOT_ASYNC:
        if (mma_a_in_registers(tally->target, op)) {
            matrix_left_tally(walk, op, times);
        }
        break;
    default: break;
    }
}

void access_finish(Walk *walk)
{
    const Tally *tally = walk->user;
    for (size_t i = 0; i < tally->fixed.n; i++) {
        walk->warps = tally->fixed.items[i].warps;
        fixed_tally(walk, tally->fixed.items[i].op, tally->fixed.items[i].times);
    }
}

void access_tally(Walk *walk, const Op *op, double times)
{
    const Tally *tally = walk->user;
    bool tensor =
        op->n_operands > 0 && op->operands[0] && op->operands[0]->type->kind == TYPE_TENSOR;
    const char *fn = op->kind == OP_SCATTER ? op_word(op, ATTR_FN) : NULL;
    switch (op->kind) {
    case OP_LOAD:
    case OP_GATHER:
        if (tensor) {
            global_tally(walk, op, LOADS, times);
        }
        break;
    case OP_STORE: global_tally(walk, op, STORES, times); break;
    case OP_SCATTER:
        if (tensor) {
            global_tally(walk, op, fn && !text_equal(fn, "set") ? ATOMICS : STORES, times);
        } else if (!tally->brief) {
            scatter_tally(walk, op, times);
        }
        break;
    case OP_COPY_LOAD: bulk_tally(walk, op, COPIES, times); break;
    case OP_BULK_LOAD: bulk_tally(walk, op, BULK_LOADS, times); break;
    case OP_BULK_STORE: bulk_tally(walk, op, BULK_STORES, times); break;
    case OP_SHARED:
    case OP_SHARED_LOAD:
    case OP_SHARED_STORE:
    case OP_REDUCE:
    case OP_SCAN:
    case OP_FOLD:
    case OP_DOT:
    case OP_DOT_ASYNC:
        if (!tally->brief) {
            add_rounds(walk, op, times);
        }
        break;
    default: break;
    }
}

