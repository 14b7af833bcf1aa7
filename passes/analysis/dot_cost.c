/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a dot for given tile sizes.
 *
 * One k step performs m × n × depth multiplications while (m + n) × depth elements of the next step
 * are fetched from L2. The matrix unit and L2 determine its resource bound (ResMII); barriers and
 * address arithmetic are not hidden. A tile takes its k steps plus its epilogue, which overlaps
 * with nothing. All multiprocessors wait for the one that has most tiles ("wave quantization":
 * NVIDIA, Matrix Multiplication Background User's Guide), and the memory that delivers the operands
 * bounds the whole.
 *
 * The blocks of a multicast group request the tile that they share from L2 only once, but it is
 * delivered to each of them. That pays where rows take more cache lines than their bytes would
 * fill.
 *
 * The partial results of split-K slices go through memory to a launch that combines them, or
 * through the shared memory of a cluster; clusters let fewer blocks run at once. */
#include "passes/analysis/dot_cost.h"

#include "passes/analysis/cost_model.h"
#include "support/int_math.h"

#include <math.h>

enum {
    ACCUMULATOR_BYTES = 4,     /* of an element of a slice's result: an f32 */
    LINE_BYTES = 128,          /* of the cache, which a request of the copy engine asks for */
    STORE_OPS = 8,             /* instructions that convert an element and store it */
    PAIR = 2,                  /* blocks of a cluster for which every multiprocessor has a place */
};

/* Cycles of a lane for an operation of an epilogue: some are folded into others. Measured on
 * `linear` with gelu on the H200. */
static const double OP_CYCLES = 0.65;

/* ---- a step ---- */

static double matrix_cycles(const Machine *machine, const DotProblem *size, const DotTiling *tiles)
{
    double products = (double)(tiles->m * tiles->n * tiles->depth) * size->dots;
    return 2 * products / machine_product(machine, size->bytes);
}

static double l2_cycles(const Machine *machine, const DotProblem *size, const DotTiling *tiles)
{
    int64_t rows = tiles->m < size->m ? tiles->m : size->m;
    int64_t columns = tiles->n < size->n ? tiles->n : size->n;
    int a = size->a_lines > 1 ? size->a_lines : 1, b = size->b_lines > 1 ? size->b_lines : 1;
    int64_t multicast_m = tiles->multicast_m > 1 ? tiles->multicast_m : 1;
    int64_t multicast_n = tiles->multicast_n > 1 ? tiles->multicast_n : 1;
    int64_t requested = rows * a / multicast_n + columns * size->dots * b / multicast_m;
    int64_t arriving = rows + columns * size->dots;
    int64_t lines = requested > arriving ? requested : arriving;
    /* The copy engine takes as long for a part of a line as for all of it, but for rows of at most
     * half a line half as long. (Convolutions of 64 channels on an H200: all 64 a step, 747 cycles;
     * 32, 435; 16, 366. Of 160 channels, steps of 80 take longer than twice those of 64.) */
    int64_t bytes = tiles->depth * size->bytes;
    int64_t row = bytes <= LINE_BYTES / 2 ? LINE_BYTES / 2 : round_up(bytes, LINE_BYTES);
    return (double)(lines * row) / machine->l2_bytes;
}

static double step_cycles(const Machine *machine, const DotProblem *size, const DotTiling *tiles)
{
    bool multicast = tiles->multicast_m > 1 || tiles->multicast_n > 1;
    return cost_step(
        &(StepCost){.busy = {[COST_MATRIX] = matrix_cycles(machine, size, tiles),
                             [COST_L2] = l2_cycles(machine, size, tiles)},
                    .exposed = machine->step_overhead + (multicast ? machine->multicast_step : 0)});
}

/* ---- a tile ---- */

static double epilogue_ops(const DotProblem *size)
{
    return size->epilogue_ops * OP_CYCLES + STORE_OPS;
}

/* Blocks of a cluster send one another their results; each combines and stores a part of them. */
static double exchange_cycles(const Machine *machine, const DotProblem *size,
                              const DotTiling *tiles)
{
    double elements = (double)(tiles->m * tiles->n);
    double own = elements / (double)tiles->split_k * epilogue_ops(size);
    return machine->cluster_sync + elements * ACCUMULATOR_BYTES / machine->dsmem_bytes +
           own / machine->lanes;
}

/* Each product that is folded is complete before its elements are read. */
static double fold_cycles(const Machine *machine, const DotProblem *size, const DotTiling *tiles)
{
    double ops = (double)(tiles->m * tiles->n) * size->fold_ops * OP_CYCLES;
    return size->folds > 1 ? (double)size->folds * (ops / machine->lanes + machine->dot_drain) : 0;
}

static double epilogue_cycles(const Machine *machine, const DotProblem *size,
                              const DotTiling *tiles)
{
    double ops = tiles->split_k > 1 ? STORE_OPS : epilogue_ops(size);
    return (double)(tiles->m * tiles->n) * ops / machine->lanes + machine->dot_drain +
           fold_cycles(machine, size, tiles) +
           (tiles->clustered ? exchange_cycles(machine, size, tiles) : 0);
}

/* ---- the product ---- */

/* Each tap has filters of its own, and reads the image that the others read. Both operands are
 * taken to vary along the batch. */
static double memory_cycles(const Machine *machine, const DotProblem *size)
{
    double m = (double)size->m, n = (double)size->n, k = (double)size->k;
    double a = m * k, b = k * n * size->dots;
    *(size->b_windows ? &a : &b) *= (double)size->taps;
    double all = (a + b + m * n) * (double)(size->batch * size->bytes);
    return cost_memory(machine, size->moved > 0 ? size->moved : all);
}

/* A launch that reads the slices of this many elements, and adds them one by one. */
static double combine_cycles(const Machine *machine, const DotProblem *size, double elements,
                             int64_t slices)
{
    double moved = 2 * elements * (double)slices * ACCUMULATOR_BYTES;
    return machine->start + cost_memory(machine, moved) +
           cost_elements(machine, elements, epilogue_ops(size));
}

/* A cluster's blocks run within one part of the device, and parts differ in size: of 132
 * multiprocessors the driver places 30 clusters of 4, 15 of 8 or 7 of 16 blocks at once. */
int64_t dot_cost_coresident(const Target *target, int64_t cluster)
{
    const Machine *machine = target->machine;
    int64_t usable = cluster > PAIR ? machine->num_sms - machine->cluster_spare : machine->num_sms;
    return usable / cluster * cluster;
}

/* Masked tiles are taken by persistent blocks, longest first, so that these end together, but not
 * before the longest tile does. */
static double tiles_of_busiest(const Target *target, const DotProblem *size, const DotTiling *tiles)
{
    int64_t group_blocks = max_i64(1, tiles->multicast_m) * max_i64(1, tiles->multicast_n);
    int64_t places = dot_cost_coresident(target, tiles->clustered ? tiles->split_k : group_blocks);
    places =
        places > 1 ? places : 1; /* a cluster that the user wants on a card that is too small */
    double even = (double)tiles->count / (double)places;
    if (size->masked) {
        return fmax(1, even / 2);
    }
    return size->is_nominal ? cost_expected_waves(even) : (double)cost_waves(tiles->count, places);
}

DotCost dot_cost(const Target *target, const Machine *machine, const DotProblem *size,
                 const DotTiling *tiles)
{
    double elements = (double)size->m * (double)size->n * (double)size->batch;
    bool combined = tiles->split_k > 1 && !tiles->clustered;
    return (DotCost){
        .matrix = matrix_cycles(machine, size, tiles),
        .l2 = l2_cycles(machine, size, tiles),
        .step = step_cycles(machine, size, tiles),
        .epilogue = epilogue_cycles(machine, size, tiles),
        .memory = memory_cycles(machine, size),
        .combine = combined ? combine_cycles(machine, size, elements, tiles->split_k) : 0,
        .steps = cost_waves(cost_waves(size->k, tiles->depth) * size->taps, tiles->split_k),
        .tiles_per_sm = tiles_of_busiest(target, size, tiles),
    };
}

static double tile_cycles(const DotCost *cost, int64_t steps)
{
    return cost_tile(
        &(TileCost){.steps = (double)steps, .step = cost->step, .epilogue = cost->epilogue});
}

double dot_cost_cycles(const DotCost *cost)
{
    double tiles = cost->tiles_per_sm * tile_cycles(cost, cost->steps);
    return cost_overlap2(tiles, cost->memory) + cost->combine;
}

/* The tail's launch begins as the last tiles of the others end. Each of its multiprocessors has its
 * slices one after the other, but one epilogue. */
double dot_cost_with_tail(const Target *target, const Machine *machine, const DotProblem *size,
                          const DotTiling *tiles, int64_t lines, int64_t tail, int64_t slices)
{
    DotCost cost = dot_cost(target, machine, size, tiles);
    int64_t each = tiles->count / lines, sms = machine->num_sms;
    int64_t along = tiles->tail_along_n ? tiles->n : tiles->m;
    double whole = (double)cost_waves((lines - tail) * each, sms) * tile_cycles(&cost, cost.steps);
    int64_t steps = cost_waves(cost.steps, slices) * cost_waves(tail * each * slices, sms);
    double last = tile_cycles(&cost, steps) + machine->tail_start;
    double elements = (double)(tail * along) * (double)(tiles->tail_along_n ? size->m : size->n);
    return cost_overlap2(whole + last, cost.memory) +
           combine_cycles(machine, size, elements, slices);
}
