/* SPDX-License-Identifier: Apache-2.0 */
/* The accesses of shared memory: tiles, partial results of reductions, operands of dots. */
#include "ir/build.h"
#include "ir/bulk_tile.h"
#include "runtime/explain/explain_access.h"
#include "runtime/explain/warp_request.h"

static WarpRequest request_of(const Tally *tally, int bytes)
{
    return (WarpRequest){.lanes = lanes_of(tally), .bytes = bytes};
}

/* ---- tiles ---- */

static void tile_request(Walk *walk, AccessReport *report, const SharedTile *tile, Type type,
                         int reg, int warp, int run, double times)
{
    Tally *tally = walk->user;
    bool loads = report->kind == SHARED_LOADS;
    uint32_t copies = loads ? 0 : tile_copies(type->layout, IN_LANE, lanes_of(tally));
    WarpRequest request = request_of(tally, run * tile->elem_bytes);
    int32_t coords[MAX_RANK];
    layout_apply(type->layout, (uint32_t)reg, 0, (uint32_t)warp, coords);
    for (int lane = 0; lane < request.lanes; lane++) {
        bool inside = tile_inside(type, coords);
        if (loads || (inside && !((uint32_t)lane & copies))) {
            request_add(&request, lane, inside ? an_shared_offset(tile, coords) : 0);
        }
        layout_next_lane(type->layout, (uint32_t)lane, coords);
    }
    access_request(tally, report, &request, times);
}

typedef struct Uses {
    const Value *value;
    const Op *user;
    int n;
} Uses;

static void see_use(Op *op, void *user)
{
    Uses *uses = user;
    for (int i = 0; i < op->n_operands; i++) {
        uses->n += op->operands[i] == uses->value;
        uses->user = op->operands[i] == uses->value ? op : uses->user;
    }
}

/* Its one use is to be stored: only warps that store it load it. */
static bool only_stored(const Op *load)
{
    Uses uses = {.value = load->results[0]};
    block_walk(load->parent, see_use, &uses);
    return uses.n == 1 && uses.user->kind == OP_STORE &&
           uses.user->operands[uses.user->n_operands - 1] == uses.value;
}

void shared_tally(Walk *walk, const Op *op, double times)
{
    Tally *tally = walk->user;
    bool loads = op->kind == OP_SHARED_LOAD;
    Access access = op_access(op, 0);
    Type type = loads ? op->results[0]->type : op->operands[op->n_operands - 1]->type;
    AccessReport *report =
        access_report(tally, op, loads ? SHARED_LOADS : SHARED_STORES, access.memory);
    if (!type->layout || access.memory->type->rank != type->rank + 1) {
        return;
    }
    SharedTile tile = access_shared_tile(&access);
    int axis = shared_run_axis(&access), run = tile_run_length(type, axis, shared_most(&access));
    uint32_t copies =
        loads && !only_stored(op) ? 0 : tile_copies(type->layout, IN_WARP, walk->warps);
    for (int reg = 0; reg < layout_registers(type->layout); reg++) {
        int warps = tile_run_starts(type, axis, reg, run) ? walk->warps : 0;
        for (int warp = 0; warp < warps; warp++) {
            if (!((uint32_t)warp & copies)) {
                tile_request(walk, report, &tile, type, reg, warp, run, times);
            }
        }
    }
}

/* All threads clear all slots, 16 bytes each. */
void clear_tally(Walk *walk, const Op *op, double times)
{
    enum { CLEAR_BYTES = 16 };
    Tally *tally = walk->user;
    const Value *shared = op->results[0];
    if (!bulk_short_tile(walk->context.func, shared)) {
        return;
    }
    AccessReport *report = access_report(tally, op, SHARED_STORES, shared);
    WarpRequest request = request_of(tally, CLEAR_BYTES);
    int64_t elements = 1;
    for (int axis = 0; axis < shared->type->rank; axis++) {
        elements *= poly_capacity(shared->type->dims[axis]);
    }
    for (int lane = 0; lane < request.lanes; lane++) {
        request_add(&request, lane, lane * CLEAR_BYTES);
    }
    double bytes = (double)elements * dtype_memory_bits(shared->type->dtype) / 8;
    access_request(tally, report, &request, times * bytes / (request.lanes * CLEAR_BYTES));
}

/* ---- atomics ---- */

/* An index that is the whole axis is the lane's own copy. */
static bool scattered_place(Walk *walk, AccessReport *report, const Access *access,
                            const int32_t *coords, int lane, int64_t *at)
{
    EvalPoint *c = &walk->context;
    *at = 0;
    for (int axis = 1; axis < access->n; axis++) {
        int32_t none[MAX_RANK] = {0};
        const Value *value = access->indices[axis];
        int64_t extent = poly_capacity(access->memory->type->dims[axis]), index = lane;
        if (value && !context_eval(c, value, value->type->rank ? coords : none, &index)) {
            return false;
        }
        report->assumed |= value && c->guessed;
        index = !value || c->guessed ? index % extent : index;
        if (index < 0 || index >= extent) {
            return false;
        }
        *at = *at * extent + index;
    }
    return true;
}

void scatter_tally(Walk *walk, const Op *op, double times)
{
    Tally *tally = walk->user;
    Access access = op_access(op, 0);
    Type type = scatter_parts(op).value->type;
    AccessReport *report = access_report(tally, op, SHARED_ATOMICS, access.memory);
    int bytes = dtype_bytes(access.memory->type->dtype);
    for (int reg = 0; type->layout && reg < layout_registers(type->layout); reg++) {
        int warps = tile_run_starts(type, type->rank - 1, reg, 1) ? walk->warps : 0;
        for (int warp = 0; warp < warps; warp++) {
            WarpRequest request = request_of(tally, bytes);
            for (int lane = 0; lane < request.lanes; lane++) {
                int32_t coords[MAX_RANK];
                int64_t at;
                layout_apply(type->layout, (uint32_t)reg, (uint32_t)lane, (uint32_t)warp, coords);
                if (tile_inside(type, coords) &&
                    scattered_place(walk, report, &access, coords, lane, &at)) {
                    request_add(&request, lane, at * bytes);
                }
            }
            access_request(tally, report, &request, times);
        }
    }
}

/* ---- reductions across warps ---- */

enum { ACCESS_BYTES = 16, MAX_RUN = 4 };

typedef struct Scratch {
    Walk *walk;
    AccessReport *writes, *reads;
    Type from, to;
    int axis, bytes;
    uint32_t mask; /* warp bits along the axis */
    int parts;     /* warps along the axis */
    int run;       /* elements of the result that a thread writes and reads at once */
    int64_t elements;
    double times;
} Scratch;

static bool moves(const Scratch *s, LayoutIn in, int bit)
{
    return s->from->layout->basis[in][bit][s->axis] != 0;
}

static int64_t element_at(const Scratch *s, const int32_t *coords)
{
    int64_t element = 0;
    for (int axis = 0; axis < s->to->rank; axis++) {
        if (axis != s->axis) {
            element = element * poly_capacity(s->to->dims[axis]) + coords[axis];
        }
    }
    return element;
}

static bool result_inside(const Scratch *s, const int32_t *coords)
{
    for (int axis = 0; axis < s->to->rank; axis++) {
        if (axis != s->axis && coords[axis] >= poly_capacity(s->to->dims[axis])) {
            return false;
        }
    }
    return true;
}

static void write_parts(const Scratch *s, int reg, int warp)
{
    Tally *tally = s->walk->user;
    Layout reduced = layout_drop_axis(s->from->layout, s->axis);
    uint32_t lanes = tile_copies(&reduced, IN_LANE, lanes_of(tally));
    uint32_t warps = tile_copies(&reduced, IN_WARP, s->walk->warps) & ~s->mask;
    WarpRequest request = request_of(tally, s->bytes * s->run);
    for (int lane = 0; lane < request.lanes && !((uint32_t)warp & warps); lane++) {
        int32_t coords[MAX_RANK];
        layout_apply(s->from->layout, (uint32_t)reg, (uint32_t)lane, (uint32_t)warp, coords);
        if (!((uint32_t)lane & lanes) && result_inside(s, coords)) {
            /* The bits under the mask are gathered into adjacent ones. */
            uint32_t bits = (uint32_t)warp;
            int row = 0, to = 0;
            for (int bit = 0; bit < 32; bit++) {
                if (s->mask >> bit & 1) {
                    row |= (int)(bits >> bit & 1) << to++;
                }
            }
            request_add(&request, lane, (row * s->elements + element_at(s, coords)) * s->bytes);
        }
    }
    access_request(tally, s->writes, &request, s->times);
}

/* Of few warps each thread reads all parts, one after the other (two that lie side by side at
 * once); of many a lane reads one. */
static void read_parts(const Scratch *s, int reg, int warp)
{
    enum { FEW = 2 };
    Tally *tally = s->walk->user;
    bool spread = s->run == 1 && layout_lanes_along(s->from->layout, s->axis) && s->parts > FEW &&
                  s->parts <= lanes_of(tally);
    bool both = s->parts == FEW && s->elements == 1;
    for (int part = 0; part < (spread || both ? 1 : s->parts); part++) {
        WarpRequest request = request_of(tally, s->bytes * (both ? FEW : s->run));
        for (int lane = 0; lane < request.lanes; lane++) {
            int32_t coords[MAX_RANK];
            layout_apply(s->from->layout, (uint32_t)reg, (uint32_t)lane, (uint32_t)warp, coords);
            int64_t row = spread ? lane & (s->parts - 1) : part;
            int64_t element = result_inside(s, coords) ? element_at(s, coords) : 0;
            request_add(&request, lane, (row * s->elements + element) * s->bytes);
        }
        access_request(tally, s->reads, &request, s->times);
    }
}

/* Few threads read all parts, an element each, and write what they come to in place of the first
 * part. */
static void combine_parts(const Scratch *s)
{
    Tally *tally = s->walk->user;
    for (int64_t first = 0; first < s->elements; first += lanes_of(tally)) {
        for (int part = 0; part <= s->parts; part++) {
            WarpRequest request = request_of(tally, s->bytes);
            int64_t row = part < s->parts ? part : 0;
            for (int lane = 0; lane < request.lanes && first + lane < s->elements; lane++) {
                request_add(&request, lane, (row * s->elements + first + lane) * s->bytes);
            }
            access_request(tally, part < s->parts ? s->reads : s->writes, &request, s->times);
        }
    }
}

static bool is_canonical(const Scratch *s, int reg)
{
    for (int bit = 0; bit < s->from->layout->bits[IN_REGISTER]; bit++) {
        if (reg >> bit & 1 && moves(s, IN_REGISTER, bit)) {
            return false;
        }
    }
    return tile_run_starts(s->from, s->from->rank - 1, reg, s->run);
}

void reduce_tally(Walk *walk, const Op *op, double times)
{
    Tally *tally = walk->user;
    Scratch s = {.walk = walk, .from = op->operands[0]->type, .to = op->results[0]->type};
    if (op->n_operands < 2 || !s.from->layout) {
        return;
    }
    const Value *memory = op->operands[1];
    s.axis = (int)op_int(op, ATTR_AXIS, 0);
    s.bytes = dtype_bytes(s.from->dtype);
    s.times = times;
    int most = ACCESS_BYTES / s.bytes < MAX_RUN ? ACCESS_BYTES / s.bytes : MAX_RUN;
    s.run = s.axis == s.from->rank - 1 ? 1 : tile_run_length(s.from, s.from->rank - 1, most);
    for (int bit = 0; bit < s.from->layout->bits[IN_WARP]; bit++) {
        s.mask |= moves(&s, IN_WARP, bit) ? 1u << bit : 0;
    }
    s.parts = 1 << __builtin_popcount(s.mask);
    s.elements = 1;
    for (int axis = 0; axis < s.to->rank; axis++) {
        s.elements *= poly_capacity(s.to->dims[axis]);
    }
    s.writes = access_report(tally, op, SHARED_STORES, memory);
    s.reads = access_report(tally, op, SHARED_LOADS, memory);
    int registers = layout_registers(s.from->layout), results = 0;
    for (int reg = 0; s.mask && reg < registers; reg++) {
        results += is_canonical(&s, reg) ? s.run : 0;
    }
    bool shared = layout_parts_shared(results, s.parts);
    if (shared) {
        combine_parts(&s);
        s.parts = 1; /* for each to read */
    }
    for (int reg = 0; s.mask && reg < registers; reg++) {
        int warps = is_canonical(&s, reg) ? walk->warps : 0;
        for (int warp = 0; warp < warps; warp++) {
            write_parts(&s, reg, warp);
            read_parts(&s, reg, warp);
        }
    }
}

/* ---- products from shared memory ---- */

typedef struct Side {
    Access access;
    SharedTile tile;
    AccessReport *report;
    int axis;                        /* of the accumulator: m or n */
    bool k_is_col;                   /* k lies side by side */
    int coords[1 << LAYOUT_BITS], n; /* that a thread's registers have on it */
    int vector, elem;
    int64_t rows, cols;
} Side;

static bool add_coord(Side *side, int coord)
{
    int at = side->n;
    for (int i = 0; i < side->n; i++) {
        if (side->coords[i] == coord) {
            return false;
        }
    }
    for (; at > 0 && side->coords[at - 1] > coord; at--) {
        side->coords[at] = side->coords[at - 1];
    }
    side->coords[at] = coord;
    side->n++;
    return true;
}

static void open_side(Walk *walk, const Op *op, int operand, bool k_is_col, Side *side)
{
    Type type = op->results[0]->type;
    side->access = op_access_nth(op, operand);
    side->tile = access_shared_tile(&side->access);
    side->report = access_report(walk->user, op, SHARED_LOADS, side->access.memory);
    side->axis = operand;
    side->k_is_col = k_is_col;
    Type memory = side->access.memory->type;
    side->rows = poly_capacity(memory->dims[memory->rank - 2]);
    side->cols = poly_capacity(memory->dims[memory->rank - 1]);
    side->elem = dtype_bytes(memory->dtype);
    for (int reg = 0; reg < layout_registers(type->layout); reg++) {
        int32_t coords[MAX_RANK];
        layout_apply(type->layout, (uint32_t)reg, 0, 0, coords);
        if (tile_run_starts(type, type->rank - 1, reg, 1)) {
            add_coord(side, coords[operand]);
        }
    }
}

static int free_vector(const Side *side, const Layout *layout)
{
    int n = shared_most(&side->access);
    for (; n > 1; n /= 2) {
        bool whole =
            !(layout_thread_bits(layout, side->axis) & (uint32_t)(n - 1)) && side->n % n == 0;
        for (int at = 0; whole && at < side->n; at += n) {
            whole =
                side->coords[at] % n == 0 && side->coords[at + n - 1] - side->coords[at] == n - 1;
        }
        if (whole) {
            break;
        }
    }
    return n;
}

static int choose_chunk(Side *a, Side *b, int64_t k)
{
    enum { MAX_CHUNK = 8, MAX_REGISTERS = 64 };
    int wide = 1;
    Side *sides[] = {a, b};
    for (int i = 0; i < 2; i++) {
        int vector = sides[i]->k_is_col ? shared_most(&sides[i]->access) : 2;
        wide = vector > wide ? vector : wide;
    }
    int chunk = wide < MAX_CHUNK ? wide : MAX_CHUNK;
    while (k % chunk ||
           (chunk > 1 && chunk * (a->n * a->elem + b->n * b->elem) / 4 > MAX_REGISTERS)) {
        chunk /= 2;
    }
    return chunk;
}

static void side_request(Walk *walk, const Side *side, Type type, int coord, int warp, int64_t k,
                         double times)
{
    Tally *tally = walk->user;
    WarpRequest request = request_of(tally, side->vector * side->elem);
    int64_t last = poly_capacity(type->dims[side->axis]) - 1;
    for (int lane = 0; lane < request.lanes; lane++) {
        int32_t own[MAX_RANK], place[MAX_RANK] = {0};
        layout_apply(type->layout, 0, (uint32_t)lane, (uint32_t)warp, own);
        int64_t at = own[side->axis] | coord;
        if (at > last) {
            at = side->k_is_col ? last : last - last % side->vector;
        }
        int rank = side->access.memory->type->rank - 1;
        place[rank - 2] = (int32_t)(side->k_is_col ? at : k);
        place[rank - 1] = (int32_t)(side->k_is_col ? k : at);
        request_add(&request, lane, an_shared_offset(&side->tile, place));
    }
    access_request(tally, side->report, &request, times);
}

/* Steps of k lie alike up to where swizzled rows begin again: a few stand for all. */
static void tally_side(Walk *walk, const Side *side, Type type, int64_t k, double times)
{
    enum { MAX_STEPS = 4 };
    int64_t step = side->k_is_col ? side->vector : 1, n = k / step;
    int64_t taken = n < MAX_STEPS ? n : MAX_STEPS;
    for (int64_t i = 0; i < taken; i++) {
        for (int at = 0; at < side->n; at += side->k_is_col ? 1 : side->vector) {
            for (int warp = 0; warp < walk->warps; warp++) {
                side_request(walk, side, type, side->coords[at], warp, i * (n / taken) * step,
                             times * (double)n / (double)taken);
            }
        }
    }
}

void dot_tally(Walk *walk, const Op *op, double times)
{
    Type type = op->results[0]->type;
    const Value *first = op->operands[0];
    if (!type->layout || first->type->kind != TYPE_SHARED) {
        return;
    }
    Side *a = ARENA_NEW(walk->context.func->arena, Side);
    Side *b = ARENA_NEW(walk->context.func->arena, Side);
    bool ta = op_int(op, ATTR_TA, 0), tb = op_int(op, ATTR_TB, 0);
    open_side(walk, op, 0, !ta, a);
    open_side(walk, op, 1, tb, b);
    int64_t k = ta ? a->rows : a->cols;
    int chunk = choose_chunk(a, b, k);
    Side *sides[] = {a, b};
    for (int i = 0; i < 2; i++) {
        int most = shared_most(&sides[i]->access);
        if (!sides[i]->k_is_col) {
            sides[i]->vector = free_vector(sides[i], type->layout);
        } else if (most < chunk) {
            sides[i]->vector = most;
        } else {
            sides[i]->vector = chunk;
        }
        tally_side(walk, sides[i], type, k, times);
    }
}
