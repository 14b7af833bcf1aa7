/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that are not matrix products: small ones are unrolled. In stencils with weighted taps,
 * such as depthwise convolutions, a thread computes a run of output positions, whose windows
 * overlap.
 *
 *   y[h, v, c] = sum(r, s) x[h + r, v + s, c] * w[r, s, c]
 *
 * Lanes are distributed along c, which is contiguous in memory, and the registers of a thread along
 * v. For each r, a thread then reads every element of x that its windows cover once, and each
 * weight once for all of them. Taps along v are unrolled if their number is known, so that two
 * positions share the load of an element. If channels come first, lanes are distributed along the
 * contiguous positions, and the run is along another axis of positions, if windows have one. For a
 * filter of a one-dimensional signal, a thread has several adjacent elements and reads each weight
 * once for them.
 *
 * With a large stride, as of a pooling, the lanes use a part of each cache line for a tap, and the
 * rest for the other taps of that row of the window. Those taps are then unrolled, in a loop over
 * the rows, since the lines of all rows would not stay in L1. */
#include "passes/tile/tile_steps.h"
#include "support/int_math.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "passes/analysis/index_bounds.h"

enum {
    WINDOW_ELEMENTS = 32, /* of a window that is written out */
    WINDOW_CPU = 64,      /* the same on a CPU, where nothing but the window is reduced: a run of
                             places shares the loads of weights and the indices of all taps */
    PADDING_SHARE = 16,   /* of all lanes: less padding does not pay for smaller blocks */
    FEW_CHANNELS = 4,     /* are written out as the window's axes are */
    FEW_COORDINATES = 16, /* likewise, of points of which each meets many others */
    MAX_TAPS = 11,        /* that are written out next to a run */
    RUN = 8,              /* places of a thread */
    LANE_ELEMENTS = 128,  /* of a block, along the axis that lies contiguous */
    LINE_ELEMENTS = 2048, /* likewise, where it has no run */
    LINE_THREADS = 256,   /* of such a block */
    RESIDENT = 1024,      /* threads of a multiprocessor: half of what it may hold */
    KIB = 1024,
    MIN_LANES = 32,       /* neighbours whose windows overlap: of fewer, lanes are idle */
};

bool tile_exact(Dim dim, int64_t *extent)
{
    *extent = poly_most(dim);
    return poly_least(dim) == *extent;
}

static bool has_class(const TilePlan *plan, const Value *value, const AxisPlan *axis)
{
    bool found = false;
    for (int i = 0; i < value->type->rank; i++) {
        found = found || axes_class(plan->axes, value, i) == axis->class;
    }
    return found;
}

/* True if the index is computed from constants, sizes and iotas only: from no element of memory.
 * `seen` has the values of which that is known. */
static bool find_places(Memo *seen, const Value *index)
{
    const Op *op = index->def;
    if (op && !memo_visit(seen, index)) {
        return true;
    }
    bool of_places = op && (op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op) ||
                            op->kind == OP_IOTA || op->kind == OP_CONST || op->kind == OP_SIZE);
    for (int i = 0; of_places && i < op->n_operands; i++) {
        of_places = find_places(seen, op->operands[i]);
    }
    return of_places;
}

static bool is_of_places(const Value *index)
{
    Memo *seen = memo_about(index);
    bool of_places = find_places(seen, index);
    memo_close(seen);
    return of_places;
}

/* Is the axis one of a window: does the index move along it and along a further axis, or as data
 * says? One that moves along it alone, as that of a convolution's channels, walks an axis of the
 * tensor, and neighbours share nothing of what they read there. Nor do the quotients and remainders
 * of the places that a sum goes over, by which the phases of a transposed convolution are read. */
static bool is_window_index(const TilePlan *plan, const Value *index, const AxisPlan *axis)
{
    bool moves = false, moves_others = false, of_places = index && is_of_places(index);
    for (int i = 0; index && i < index->type->rank; i++) {
        int64_t growth;
        bool known = an_index_stride(index, i, &growth);
        const AxisPlan *other = tile_axis_of((TilePlan *)plan, index, i);
        bool own = axes_class(plan->axes, index, i) == axis->class;
        bool shares = !own && other && (other->flags & AXIS_STORED);
        moves = moves || (own && (!known || growth));
        moves_others = moves_others || (known ? !own && growth : shares || !of_places);
    }
    return moves && moves_others;
}

static bool is_window(const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        for (int i = 1; op->kind == OP_GATHER && i < op->n_operands; i++) {
            if (is_window_index(plan, op->operands[i], axis)) {
                return true;
            }
        }
    }
    return false;
}

/* Does a gather move along the axis? */
static bool is_gathered(const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        if (op->kind == OP_GATHER && has_class(plan, op->results[0], axis)) {
            return true;
        }
    }
    return false;
}

/* Axes of the value other than this one. */
static int count_other_axes(const TilePlan *plan, const Value *value, const AxisPlan *axis)
{
    int n = 0;
    for (int i = 0; i < value->type->rank; i++) {
        const AxisPlan *other = tile_axis_of((TilePlan *)plan, value, i);
        n += other && other != axis;
    }
    return n;
}

/* Is what is reduced along the axis made for pairs of what is read, as of the coordinates of points
 * of which each meets all others? Written out, the coordinates are registers; a tile with an axis
 * of few elements would leave lanes idle and communicate through shared memory. */
static bool is_of_pairs(const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    int reduced = 0, read = 0;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
        bool reduces = op->kind == OP_REDUCE;
        const Value *value = reads ? op->results[0] : NULL;
        value = reduces ? op->operands[0] : value;
        bool along = value && has_class(plan, value, axis);
        if (along && reduces) {
            int at = (int)op_int(op, ATTR_AXIS, 0);
            along = tile_axis_of((TilePlan *)plan, value, at) == axis;
        }
        int n = along ? count_other_axes(plan, value, axis) : 0;
        reduced = !reads && n > reduced ? n : reduced;
        read = reads && n > read ? n : read;
    }
    return reduced > 1 && read < reduced;
}

static bool has_rows(const TilePlan *plan)
{
    bool rows = false;
    for (int i = 0; i < plan->n; i++) {
        rows = rows || tile_is_row(&plan->items[i]);
    }
    return rows;
}

/* What a small window holds is written out: its elements are then plain shifted reads. */
void tile_choose_windows(const Func *func, const Op *group, TilePlan *plan)
{
    int64_t most = is_gpu(func) || has_rows(plan) ? WINDOW_ELEMENTS : WINDOW_CPU;
    int64_t elements = 1, extent = 0;
    for (int i = plan->n; i-- > plan->n_stored;) {
        AxisPlan *axis = &plan->items[i];
        bool small =
            tile_exact(axis->dim, &extent) && extent > 0 && extent * elements <= most;
        bool few = (extent <= FEW_CHANNELS && is_gathered(group, plan, axis)) ||
                   (extent <= FEW_COORDINATES && is_of_pairs(group, plan, axis));
        if (small && !(axis->flags & AXIS_SCANNED) && (few || is_window(group, plan, axis))) {
            axis->how = AXIS_UNROLL;
            axis->step = 0;
            elements *= extent;
        }
    }
}

/* ---- stencils ---- */

typedef struct Stencil {
    TilePlan *plan;
    AxisPlan *lanes, *run, *tap; /* run, tap: NULL where windows overlap along lanes alone */
    AxisPlan *lane_tap;          /* of windows along the lanes; NULL: they have one element */
    int64_t distance;            /* of neighbours of the run, in elements */
    int64_t lane_bytes;          /* from one lane's window to that of the next one */
} Stencil;

/* How an index of a gather moves: a stored axis, one that is only reduced; false: otherwise. */
typedef struct Moves {
    AxisPlan *stored, *reduced;
    int64_t step; /* along the stored one */
} Moves;

static bool find_moves(TilePlan *plan, const Op *gather, int index, Moves *moves)
{
    const Value *at = gather->operands[1 + index];
    *moves = (Moves){.stored = NULL};
    for (int i = 0; i < at->type->rank; i++) {
        AxisPlan *axis = tile_axis_of(plan, at, i);
        int64_t growth;
        if (!an_index_stride(at, i, &growth) || (growth && !axis)) {
            return false;
        }
        AxisPlan **which = axis && (axis->flags & AXIS_STORED) ? &moves->stored : &moves->reduced;
        if (growth && *which && *which != axis) {
            return false;
        }
        *which = growth ? axis : *which;
        moves->step = growth && which == &moves->stored ? growth : moves->step;
    }
    return true;
}

/* Along which axes lie neighbours, and the places whose windows overlap. */
static bool find_stencil(TilePlan *plan, const Op *gather, Stencil *found)
{
    int rank = gather->operands[0]->type->rank;
    Moves moves;
    *found = (Stencil){.plan = plan};
    if (gather->operands[0]->type->kind != TYPE_TENSOR || rank < 1 ||
        !find_moves(plan, gather, rank - 1, &moves) || !moves.stored ||
        (moves.reduced ? tiles_of(moves.stored, 1) < MIN_LANES : moves.step != 1)) {
        return false;
    }
    found->lanes = moves.stored;
    found->lane_tap = moves.reduced;
    found->lane_bytes =
        ceil_div(max_i64(1, moves.step) * dtype_bits(gather->operands[0]->type->dtype), 8);
    if (moves.reduced && poly_most(moves.stored->dim) < tiles_of(moves.reduced, 1)) {
        return false; /* a correlation of long rows at few places: no place has a lane's work */
    }
    for (int i = rank - 2; i >= 0; i--) {
        if (!find_moves(plan, gather, i, &moves) || moves.stored == found->lanes) {
            return false;
        }
        if (moves.stored && moves.reduced && !found->run) {
            found->run = moves.stored;
            found->tap = moves.reduced;
            found->distance = moves.step;
        }
    }
    return found->run || found->lane_tap;
}

/* Only what is gathered is reduced, and not so little that all of it is written out. */
static bool has_taps_only(const Op *group, const TilePlan *plan)
{
    int64_t elements = 1, extent;
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        bool stored = i < plan->n_stored;
        bool good = stored ? !axis->walked && !axis->held && !tile_is_row(axis)
                           : is_gathered(group, plan, axis) && !(axis->flags & AXIS_SCANNED);
        if (!good) {
            return false;
        }
        bool known = stored || poly_is_const(axis->dim, &extent);
        if (!known || elements > WINDOW_ELEMENTS) {
            elements = WINDOW_ELEMENTS + 1;
        } else if (!stored) {
            elements *= extent;
        }
    }
    return elements > WINDOW_ELEMENTS;
}

/* Would the rows of the windows of all threads of a multiprocessor fill L1 before a thread has read
 * the next tap of each? */
static bool prefers_rows(const Func *func, const Stencil *stencil)
{
    int64_t taps = stencil->run ? poly_most(stencil->tap->dim) : 0;
    return stencil->run && stencil->lane_tap && taps <= MAX_TAPS &&
           RESIDENT * stencil->lane_bytes * (taps + stencil->distance) >
               func->target->machine->l1_kib * KIB;
}

/* Unrolls the taps of one axis of a window, if their number is known; loops over the others. */
static void set_taps(Func *func, const Stencil *stencil, AxisPlan *unrolled)
{
    for (int i = stencil->plan->n_stored; i < stencil->plan->n; i++) {
        AxisPlan *axis = &stencil->plan->items[i];
        int64_t extent;
        if (axis == unrolled && tile_exact(axis->dim, &extent) && extent > 0 &&
            extent <= MAX_TAPS && !schedule_user_entry(func, "tile", axis->name)) {
            axis->how = AXIS_UNROLL;
            axis->step = 0;
        } else {
            tile_set_step(func, axis, AXIS_LOOP, 1,
                          stencil->run ? "one tap at a time, for a run of places"
                                       : "one tap, or one row of taps, at a time");
        }
    }
}

/* As many lanes as a block may have; fewer, where the extent is known and many of them would be
 * padding of its last tile. */
static int64_t lane_step(const Func *func, Dim dim, int64_t most)
{
    int64_t extent, best = fitted(dim, most);
    bool known = tile_exact(dim, &extent);
    for (int64_t step = best; known && step >= func->target->warp; step /= 2) {
        int64_t padded = round_up(extent, step);
        int64_t most_padded = round_up(extent, best);
        best = padded < most_padded - most_padded / PADDING_SHARE ? step : best;
    }
    return best;
}

/* Runs of one length, no more of them than of the longest: of places that lie apart fewer, whose
 * windows cover as many elements. */
static int64_t run_step(Dim dim, int64_t distance)
{
    int64_t extent, run = fitted(dim, max_i64(2, RUN / max_i64(1, distance)));
    if (tile_exact(dim, &extent) && extent > 0) {
        int64_t runs = ceil_div(extent, run);
        run = ceil_div(extent, runs);
    }
    return run;
}

bool tile_choose_stencil(Func *func, const Op *group, TilePlan *plan)
{
    Stencil stencil = {.run = NULL};
    int gathers = 0;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        bool plain = op->kind != OP_SCAN && op->kind != OP_FOLD && op->n_regions == 0;
        if (!plain || (op->kind == OP_GATHER && !find_stencil(plan, op, &stencil))) {
            return false;
        }
        gathers += op->kind == OP_GATHER;
    }
    if (!is_gpu(func) || gathers != 1 || !has_taps_only(group, plan)) {
        return false;
    }
    bool by_rows = prefers_rows(func, &stencil);
    if (by_rows) {
        stencil.run = NULL;
    }
    int64_t elements = 1;
    for (int i = plan->n_stored; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        if (axis == stencil.lanes) {
            int64_t most = stencil.run || by_rows ? LANE_ELEMENTS : LINE_ELEMENTS;
            tile_set_step(func, axis, AXIS_GRID, lane_step(func, axis->dim, most),
                          "neighbours in memory, side by side");
        } else if (axis == stencil.run) {
            tile_set_step(func, axis, AXIS_GRID, run_step(axis->dim, stencil.distance),
                          "places of a thread, whose windows overlap");
        } else {
            tile_set_step(func, axis, AXIS_GRID, 1, "one at a time: a run has elements enough");
        }
        elements *= axis->step;
    }
    set_taps(func, &stencil, by_rows ? stencil.lane_tap : stencil.tap);
    int64_t run = stencil.run && stencil.run->step > 0 ? stencil.run->step : 1;
    int64_t most = stencil.run ? func->target->max_threads : LINE_THREADS;
    plan->elements = elements;
    plan->warps =
        power_of_two_at_least(max_i64(1, min_i64(elements / run, most) / func->target->warp));
    return true;
}
