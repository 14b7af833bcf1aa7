/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the tiles and warps of a dot by warp-level matrix instructions (`mma`). A thread needs
 * registers for its part of the result, for fragments of both operands, and for prefetched operands
 * if the threads load the operands of the next k step during the current one. The number of warps
 * is increased until that fits; after that, k steps become shorter. */
#include "passes/tile/tile_steps.h"

#include "passes/analysis/access_width.h"
#include "passes/analysis/cost_model.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/analysis/masked_operand.h"

enum {
    WARP_ACCUMULATORS = 4096, /* of 32 bits, maximum of a warp if the tile leaves */
    MIN_WARPS = 4,            /* one for each scheduler */
    MAX_THREADS = 256,        /* of a block */
    EDGE_COLUMNS = 2,     /* columns of f64 that take as long as a tile's prologue and epilogue */
    OTHER_REGISTERS = 32, /* of a thread, besides accumulators and fragments: addresses, counters */
    ADDRESS = 2,          /* registers of one */
    REGISTER_BITS = 32,
};

/* ---- what threads load ---- */

/* How threads read an operand from memory: this many neighbours at once, 0: it is computed, and
 * nothing is known; each at an address of its own, unless it is along a row. */
typedef struct OperandRead {
    int64_t width;
    int bits; /* of an element in memory */
    bool in_row, is_async;
} OperandRead;

/* Is the last axis of what is read, along which memory is contiguous, one of the tile's? */
static bool is_along_tile(const TilePlan *plan, const Op *read, const AxisPlan *const *axes)
{
    Access access = op_access(read, 0);
    const Value *last = access.n ? access.indices[access.n - 1] : NULL, *result = read->results[0];
    bool has_full_rows = read->kind == OP_GATHER || !last || last->type->kind == TYPE_RANGE;
    int class = has_full_rows && result->type->rank
                    ? axes_class(plan->axes, result, result->type->rank - 1)
                    : -1;
    return class >= 0 &&
           ((axes[0] && axes[0]->class == class) || (axes[1] && axes[1]->class == class));
}

/* Of the operand `side`, whose axes in the tile are `axes`. */
static OperandRead operand_read(Func *func, const TilePlan *plan, int side,
                                const AxisPlan *const *axes)
{
    const Op *read = an_masked_read(func, plan->dot, side);
    if (!read) {
        return (OperandRead){0};
    }
    Access access = op_access(read, 0);
    DType dtype = access.memory->type->dtype;
    OperandRead found = {.width = 1, .bits = dtype_memory_bits(dtype)};
    const ScheduleEntry *line = schedule_user_entry(func, "copy", "");
    bool is_load = read->kind == OP_LOAD, along = is_along_tile(plan, read, axes);
    int64_t most = (int64_t)8 * func->target->vector_bytes / found.bits;
    if (along && access.n > 1 && is_load) {
        found.width = min_i64(most, power_of_two_at_most(an_row_divisor(&access)));
    } else if (along && !is_load && an_accesses_runs(read)) {
        found.width = most;
    }
    found.in_row = along && is_load;
    found.is_async = is_load && !func_im2col_of(func, access.memory) && !an_rounded(plan->dot) &&
                     !dtype_is_packed(dtype) &&
                     (func->target->async_copy_bytes & (found.width * found.bits / 8)) &&
                     !(line && text_equal(line->symbol, "registers"));
    return found;
}

/* Registers for this many of its elements between global and shared memory. A register has those
 * that one access brings, as far as they fit. */
static int64_t loaded_registers(const OperandRead *read, int64_t elements)
{
    if (!read->width || read->is_async) {
        return 0;
    }
    int64_t each = max_i64(1, min_i64(read->width, REGISTER_BITS / read->bits));
    int64_t words = max_i64(1, read->bits / REGISTER_BITS);
    int64_t addresses = read->in_row ? 0 : ADDRESS * elements / read->width;
    return elements / each * words + addresses;
}

/* True if threads can copy both operands by cp.async in wide vectors. */
static bool are_copied(Func *func, const Op *dot)
{
    const ScheduleEntry *line = schedule_user_entry(func, "copy", "");
    int64_t widest = power_of_two_at_most(func->target->async_copy_bytes);
    bool good = func->target->async_copy_bytes > 0 &&
                !(line && text_equal(line->symbol, "registers")) && !an_rounded(dot);
    for (int side = 0; side < 2 && good; side++) {
        const Op *load = an_operand_load(func, dot, side);
        Access access = load ? op_access(load, 0) : (Access){.n = 0};
        good = access.n > 1 && !func_im2col_of(func, access.memory) &&
               an_row_divisor(&access) * dtype_bits(access.memory->type->dtype) / 8 % widest == 0;
    }
    return good;
}

/* Registers of a thread if the tile is divided among the warps, into tiles as square as can be:
 * accumulators, and the fragments of both operands for one instruction along k. */
static int64_t warp_registers(const Func *func, const MatrixInstr *unit, int64_t rows,
                              int64_t columns, int64_t warps)
{
    for (; warps > 1; warps /= 2) {
        *(rows > columns ? &rows : &columns) /= 2;
    }
    int64_t sums = rows * columns * dtype_bytes(unit->result);
    int64_t fragments = (rows + columns) * unit->k * dtype_bytes(unit->operands);
    return (sums + fragments) / ((int64_t)func->target->warp * 4) + OTHER_REGISTERS;
}

/* Warps of a tile. If copies do not pass through registers, a warp has 64 by 64 elements, for which
 * it reads half as many bytes of shared memory per dot as for 32 by 32, as far as its threads have
 * the registers. The only block of a multiprocessor has two warps for each scheduler: one does not
 * hide the latency of its own f64 fragments. */
static int64_t product_warps(Func *func, const TilePlan *plan, const AxisPlan *m, const AxisPlan *n,
                             bool single_block)
{
    int64_t wide = dtype_bytes(plan->instruction->result) / 4;
    int64_t dots = power_of_two_at_least(plan->n_dots), most = MAX_THREADS / func->target->warp;
    int64_t threads = product_threads(m, n) * wide * dots;
    int64_t warps = min_i64(most, power_of_two_at_most(threads / func->target->warp));
    int64_t rows = m ? m->step : 1, columns = n ? n->step : 1;
    int64_t least =
        max_i64(MIN_WARPS, power_of_two_at_most(rows * columns * wide / WARP_ACCUMULATORS));
    if (single_block) {
        int64_t all =
            ceil_div(rows, plan->instruction->m) * ceil_div(columns, plan->instruction->n);
        least = min_i64(2 * MIN_WARPS, max_i64(MIN_WARPS, power_of_two_at_most(all)));
        return min_i64(most, least);
    }
    while (least < warps && warp_registers(func, plan->instruction, rows, columns, least) >
                                func->target->registers_thread) {
        least *= 2;
    }
    return dots == 1 && least < warps && are_copied(func, plan->dot) ? least : warps;
}

/* A block's tile, whose operands threads load. */
typedef struct LoadedTile {
    OperandRead left, right;
    int64_t rows, columns;
} LoadedTile;

static LoadedTile loaded_tile(Func *func, const TilePlan *plan, const AxisPlan *m,
                              const AxisPlan *n)
{
    const Value *a = plan->dot->operands[0];
    const AxisPlan *k = tile_axis_of((TilePlan *)plan, a, a->type->rank - 1);
    return (LoadedTile){.left = operand_read(func, plan, 0, (const AxisPlan *[]){m, k}),
                        .right = operand_read(func, plan, 1, (const AxisPlan *[]){n, k}),
                        .rows = m ? m->step : 1,
                        .columns = n ? n->step : 1};
}

/* Does a thread have registers for what it loads of a step, in addition to what it multiplies? */
static bool fits_loaded(const Func *func, const TilePlan *plan, const LoadedTile *tile,
                        int64_t warps, int64_t depth)
{
    int64_t threads = warps * func->target->warp;
    int64_t loaded = loaded_registers(&tile->left, tile->rows * depth / threads) +
                     loaded_registers(&tile->right, tile->columns * depth / threads);
    int64_t own = warp_registers(func, plan->instruction, tile->rows, tile->columns, warps);
    return !loaded || own + loaded <= func->target->registers_thread;
}

/* Warps share what threads load, as long as each has an instruction's tile. */
static int64_t warps_that_load(const Func *func, const TilePlan *plan, const LoadedTile *tile,
                               int64_t depth)
{
    const MatrixInstr *unit = plan->instruction;
    int64_t tiles = ceil_div(tile->rows, unit->m) * ceil_div(tile->columns, unit->n);
    int64_t most = min_i64(MAX_THREADS / func->target->warp, tiles), warps = plan->warps;
    while (2 * warps <= most && !fits_loaded(func, plan, tile, warps, depth)) {
        warps *= 2;
    }
    return warps;
}

/* f64 tiles that come through ring buffers: a multiprocessor takes one after the other, so that
 * fewer columns pay if they leave less of the last wave idle. */
static int64_t wave_columns(const Func *func, const TilePlan *plan, const AxisPlan *m,
                            const AxisPlan *n, int64_t most)
{
    int64_t row =
        func->target->shared_row /
        dtype_bytes(plan->instruction->operands); /* so that rows lie in different banks */
    int64_t least = INT64_MAX, best = most, down = tiles_of(m, m->step);
    for (int64_t columns = most; columns >= max_i64(row, most / 2); columns -= row) {
        int64_t across = tiles_of(n, columns), tiles;
        if (__builtin_mul_overflow(down, across, &tiles) || tiles >= INT32_MAX) {
            return most;
        }
        int64_t cost = cost_waves(tiles, func->target->machine->num_sms) * (columns + EDGE_COLUMNS);
        best = cost < least ? columns : best;
        least = min_i64(least, cost);
    }
    return best;
}

/* What is too large for a thread's registers and cannot be halved is shared by more warps, as long
 * as each has an instruction's tile. */
static int64_t shared_by_more(const Func *func, const TilePlan *plan, const AxisPlan *m,
                              const AxisPlan *n, int times)
{
    const MatrixInstr *unit = plan->instruction;
    int64_t tiles = ceil_div(m ? m->step : 1, unit->m) * ceil_div(n ? n->step : 1, unit->n);
    int64_t most = min_i64(MAX_THREADS / func->target->warp, tiles), warps = plan->warps;
    for (; times > 0 && 2 * warps <= most; times--) {
        warps *= 2;
    }
    return warps;
}

/* Tiles for warp-level MMA: each warp reuses a fragment for all fragments of the other operand, and
 * keeps its part of the result in registers. */
int64_t tile_choose_warp_mma(Func *func, TilePlan *plan, AxisPlan *m, AxisPlan *n, bool scaled)
{
    const MatrixInstr *unit = plan->instruction;
    int64_t wide = dtype_bytes(unit->result) / 4;
    /* Factors multiply the sums of a step, and products are folded: either is held, too. */
    bool folds = tile_folded_products(plan) > 1;
    int64_t sums = scaled || folds ? 2 : 1;
    int64_t columns = max_i64(unit->n, 128 / wide / power_of_two_at_least(plan->n_dots) / sums);
    int operand = dtype_bytes(plan->dot->operands[0]->type->dtype);
    bool ring = func->target->has_setmaxnreg && tile_operands_stay_out(func, plan->dot);
    int unhalved = 0;
    if (m) {
        int64_t rows = step_for_short_axis(n, 128, columns, unit->m);
        unhalved += set_halved(func, m, max_i64(unit->m, fitted(m->dim, rows)), unit->m, TURN_ROWS,
                               "rows that share each fragment of the right operand");
    }
    if (n) {
        columns = max_i64(unit->n, fitted(n->dim, columns));
        bool waves = m && ring && operand == 8 && plan->n_stored == 2;
        unhalved +=
            set_halved(func, n, waves ? wave_columns(func, plan, m, n, columns) : columns, unit->n,
                       TURN_COLUMNS,
                       sums > 1 ? tile_two_sums_reason(folds)
                                : "columns that share each fragment of the left operand");
    }
    plan->warps = product_warps(func, plan, m, n, wide > 1 && ring);
    plan->warps = shared_by_more(func, plan, m, n, unhalved);
    int64_t four = (int64_t)4 * 256 *
                   func->target->shared_row; /* two blocks with two stages of tiles of 128 rows */
    int64_t row =
        four > func->target->shared_bytes ? func->target->shared_row / 2 : func->target->shared_row;
    /* A row has few elements of 8 bytes: a step of two rows halves the number of waits. */
    int64_t depth = max_i64(unit->k, row / operand * (operand == 8 && ring ? 2 : 1));
    LoadedTile loaded = loaded_tile(func, plan, m, n);
    plan->warps = warps_that_load(func, plan, &loaded, depth);
    while (depth > unit->k && !fits_loaded(func, plan, &loaded, plan->warps, depth)) {
        depth /= 2;
    }
    return depth;
}
