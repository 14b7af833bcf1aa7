/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the tile sizes of a dot that cost least (dot_cost.h).
 *
 * Candidates are all tiles that the matrix instruction of warp groups takes and the registers hold.
 * Where few tiles leave multiprocessors idle, k is split into slices (split-K), which a second
 * launch or a cluster combines. Where only the last wave is far from full, only as many rows or
 * columns of tiles as it has are split ("stream-K" behind full waves: Osama et al. 2023), by a
 * launch that begins as the last tiles of the others end.
 *
 * A mechanism is chosen only if it gains more than the error of the model; otherwise the plain form
 * stays. */
#include "passes/analysis/wave_model.h"

#include "ir/layout/matrix_instr.h"
#include "passes/analysis/cost_model.h"
#include "support/int_math.h"

#include <math.h>

enum {
    MAX_TILE = 32768,          /* elements: 128 accumulators a thread of two warp groups */
    MAX_TILE_PROMOTED = 26624, /* the same, with accumulators of a step and of all steps */
    MAX_FOLDED = 104,          /* accumulators a thread, with as many of what products fold into */
    GROUPS = 2, GROUP_LANES = 128, /* warp groups of a tile at most, and threads of one */
    THREE_GROUP_COLUMNS = 192, /* 96 accumulators a thread, of at most 160 registers */
    MAX_ROWS = 256,            /* of a tile: four warp groups */
    MIN_STAGE_BYTES = 16384,   /* of a pipeline stage; of a smaller tile a step is twice as deep */
    MIN_STEPS = 4,             /* of a slice of k */
    MAX_WAVES = 4,             /* of slices */
    MAX_SLICES = 128,          /* of k; combining more takes longer than they save */
    MAX_TAIL_SLICES = 16,      /* that a thread of the combining launch adds one by one */
    MAX_EXCHANGED_BYTES = 65536, /* of a tile's results in shared memory, besides the rings */
    ACCUMULATOR_BYTES = 4,       /* of such a result: an f32 */
    MULTICAST_BLOCKS = 2,        /* adjacent blocks of a group */
};

/* How many times faster than the plain form each mechanism must be by the model: what the model
 * erred by on measured products (docs/lab/products.md). A cluster's slices must gain MIN_GAIN by
 * the rate of L2 for one multiprocessor, and CLUSTER_GAIN by the rate under the load of all. */
static const double MULTICAST_GAIN = 1.03, THREE_GROUP_GAIN = 1.04, TAIL_GAIN = 1.05,
                    CLUSTER_GAIN = 1.15, MIN_GAIN = 1.03, HALF_ROW_GAIN = 1.02;

static int64_t step_depth(const Target *target, const DotProblem *size, int64_t m, int64_t n)
{
    int64_t row = target->shared_row / size->bytes; /* the smallest depth */
    bool small = !size->two_accumulators &&
                 (m + n * size->dots) * target->shared_row <= MIN_STAGE_BYTES && size->k > row;
    if (size->user_k) {
        return size->user_k;
    }
    return small ? 2 * row : row;
}

/* True if k ends with at most half a row of a step, as 96 and 160 channels of 16 bits do: steps of
 * half a row then load nothing past its end. */
static bool ends_with_half_row(const Target *target, const DotProblem *size)
{
    int64_t row = target->shared_row / size->bytes, rest = size->k % row;
    return !size->user_k && size->k > row && rest > 0 && 2 * rest <= row;
}

static DotTiling with_cost(const Target *target, const Machine *machine, const DotProblem *size,
                           DotTiling tiles)
{
    int64_t multicast_m = tiles.multicast_m > 1 ? tiles.multicast_m : 1;
    int64_t multicast_n = tiles.multicast_n > 1 ? tiles.multicast_n : 1;
    int64_t rows = cost_waves(size->m, tiles.m * multicast_m) * multicast_m;
    int64_t columns = cost_waves(size->n, tiles.n * multicast_n) * multicast_n;
    tiles.count = rows * columns * size->batch * tiles.split_k;
    DotCost costs = dot_cost(target, machine, size, &tiles);
    tiles.cycles = dot_cost_cycles(&costs);
    return tiles;
}

/* ---- split-K tails ---- */

/* The same tiles, of which `tail` rows or columns of tiles are split along k, behind all others. */
static DotTiling with_tail(const Target *target, const Machine *machine, const DotProblem *size,
                           DotTiling tiles, int64_t lines, int64_t tail, int64_t slices)
{
    tiles.cycles = dot_cost_with_tail(target, machine, size, &tiles, lines, tail, slices);
    tiles.count -= tail * (tiles.count / lines);
    tiles.split_k_tail = tail;
    tiles.split_k = slices;
    return tiles;
}

/* The tail is as many rows or columns of tiles as are left after the last full wave; its slices
 * occupy all multiprocessors. */
static DotTiling best_tail(const Target *target, const Machine *machine, const DotProblem *size,
                           DotTiling tiles, DotTiling best)
{
    int64_t m = cost_waves(size->m, tiles.m), n = cost_waves(size->n, tiles.n);
    int64_t lines = tiles.tail_along_n ? n : m, each = tiles.count / lines;
    int64_t group = tiles.tail_along_n ? tiles.multicast_n : tiles.multicast_m;
    int64_t given = tiles.tail_along_n ? size->user_tail_n : size->user_tail_m;
    int64_t keep = tiles.count / target->machine->num_sms * target->machine->num_sms / each,
            tail = lines - keep;
    if (given) {
        tail = cost_waves(given, tiles.tail_along_n ? tiles.n : tiles.m);
    }
    tail = group > 1 ? cost_waves(tail, group) * group : tail;
    bool fits = given % (tiles.tail_along_n ? tiles.n : tiles.m) == 0;
    if (tail < 1 || tail >= lines || !fits) {
        return best;
    }
    int64_t steps = cost_waves(size->k, tiles.depth) / MIN_STEPS;
    int64_t most = target->machine->num_sms / (tail * each);
    most = given && most < 2 ? 2 : most;
    most = most < MAX_TAIL_SLICES ? most : MAX_TAIL_SLICES;
    int64_t least = size->user_split_k ? size->user_split_k : 2;
    most = size->user_split_k ? size->user_split_k : min_i64(most, steps);
    for (int64_t slices = least; slices <= most; slices++) {
        DotTiling tailed = with_tail(target, machine, size, tiles, lines, tail, slices);
        best = (given && !best.split_k_tail) || tailed.cycles < best.cycles ? tailed : best;
    }
    return best;
}

static DotTiling better_tail(const Target *target, const Machine *machine, const DotProblem *size,
                             DotTiling whole)
{
    DotTiling best = whole;
    bool given = size->user_tail_m || size->user_tail_n;
    bool may = size->can_tail && whole.split_k == 1 && size->batch == 1 && size->taps == 1 &&
               (!size->user_split_k || given) && whole.count > 0;
    for (int along_n = 0; along_n < 2 && may; along_n++) {
        whole.tail_along_n = along_n;
        if (!given || (along_n ? size->user_tail_n : size->user_tail_m)) {
            best = best_tail(target, machine, size, whole, best);
        }
    }
    return best;
}

/* Multicast in pairs of blocks along either axis, where that gains enough. If both gain as much,
 * the blocks that share A: tiles of one raster group share B in L2 as it is. An operand of one tile
 * is shared by no other tile, and the user's tail is whole groups. */
static DotTiling better_multicast(const Target *target, const Machine *machine,
                                  const DotProblem *size, DotTiling best)
{
    DotTiling single = best;
    bool given = size->user_multicast_m || size->user_multicast_n;
    if (given) {
        best.multicast_m = size->user_multicast_m;
        best.multicast_n = size->user_multicast_n;
        return with_cost(target, machine, size, best);
    }
    for (int along_n = 2; along_n-- > 0 && size->can_multicast;) {
        DotTiling tiles = single;
        *(along_n ? &tiles.multicast_n : &tiles.multicast_m) = MULTICAST_BLOCKS;
        bool several = along_n ? size->n > tiles.n : size->m > tiles.m;
        int64_t tail = along_n ? size->user_tail_n : size->user_tail_m;
        several = several && tail % (MULTICAST_BLOCKS * (along_n ? tiles.n : tiles.m)) == 0;
        tiles = with_cost(target, machine, size, tiles);
        if (several && tiles.cycles * MULTICAST_GAIN < single.cycles &&
            tiles.cycles < best.cycles) {
            best = tiles;
        }
    }
    return best;
}

DotTiling wave_model_tiling(const Target *target, const Machine *machine, const DotProblem *size,
                            int64_t m, int64_t n, int64_t slices)
{
    DotTiling tiles = {.m = m, .n = n, .depth = step_depth(target, size, m, n), .split_k = slices};
    DotTiling best =
        better_multicast(target, machine, size, with_cost(target, machine, size, tiles));
    if (ends_with_half_row(target, size)) {
        tiles.depth = target->shared_row / size->bytes / 2;
        tiles = better_multicast(target, machine, size, with_cost(target, machine, size, tiles));
        best = tiles.cycles * HALF_ROW_GAIN < best.cycles ? tiles : best;
    }
    return best;
}

/* True if the last row or column of tiles has less than half of a tile. */
static bool ends_short(int64_t extent, int64_t tile)
{
    int64_t rest = extent % tile;
    return rest > 0 && 2 * rest < tile;
}

/* When one wave is dealt out evenly (persistent) instead of as places become free. */
bool wave_model_is_single_wave(const Target *target, const Machine *machine, const DotProblem *size,
                               const DotTiling *tiles)
{
    DotCost costs = dot_cost(target, machine, size, tiles);
    bool both = size->m > tiles->m && size->n > tiles->n;
    bool fits_one_wave =
        tiles->count <= target->machine->num_sms && tiles->split_k <= 1 && !tiles->split_k_tail;
    bool ragged = size->is_bound || ends_short(size->m, tiles->m) || ends_short(size->n, tiles->n);
    bool waits = costs.l2 >= (ragged ? 1 : machine->uneven_l2_percent / 100.0) * costs.matrix;
    double lost = (double)costs.steps * costs.l2 * (machine->uneven_percent / 100.0);
    return both && fits_one_wave && waits && lost > machine->early_start;
}

double wave_model_waves(const Target *target, const DotTiling *tiles)
{
    return (double)tiles->count / target->machine->num_sms;
}

static bool n_is_suitable(const DotProblem *size, int64_t n)
{
    bool power = (n & (n - 1)) == 0;
    return n < size->n_multiple ? power : n % size->n_multiple == 0;
}

/* A tile that the user gives is taken as it is; one that is derived must fit the registers. */
static bool fits_registers(const Target *target, const DotProblem *size, int64_t m, int64_t n)
{
    const MatrixInstr *group = mma_warpgroup(target);
    int64_t groups = m / group->m < GROUPS ? m / group->m : GROUPS;
    if (size->folds > 1 && m * n > MAX_FOLDED * GROUP_LANES * groups) {
        return false;
    }
    bool fits = m * n * size->dots <= (size->two_accumulators ? MAX_TILE_PROMOTED : MAX_TILE) ||
                (size->user_n && m == group->m) || (size->user_m && n == group->n) ||
                (size->user_m && size->user_n);
    return fits && (size->user_n || n_is_suitable(size, n));
}

/* Slices of k that give each multiprocessor one tile, two, or four. */
static DotTiling best_split_k(const Target *target, const Machine *machine, const DotProblem *size,
                              int64_t m, int64_t n)
{
    bool tail =
        size->user_tail_m || size->user_tail_n; /* the user's slices are those of the tail */
    int64_t given = tail ? 0 : size->user_split_k;
    DotTiling best = wave_model_tiling(target, machine, size, m, n, given ? given : 1);
    best = better_tail(target, machine, size, best);
    if (tail) {
        best.cycles = best.split_k_tail ? best.cycles : INFINITY; /* no tail has the user's size */
        return best;
    }
    int64_t count = wave_model_tiling(target, machine, size, m, n, 1).count;
    int64_t steps = cost_waves(size->k, best.depth);
    steps = (size->shared ? steps * size->taps : steps) / MIN_STEPS;
    steps = size->shared && steps > size->shared ? size->shared : steps;
    for (int64_t waves = 1; waves <= MAX_WAVES && size->can_split_k && !given; waves *= 2) {
        int64_t slices = count > 0 ? waves * target->machine->num_sms / count : 1;
        slices = slices > steps ? steps : slices;
        slices = slices > MAX_SLICES ? MAX_SLICES : slices;
        if (slices > 1) {
            DotTiling tiles = wave_model_tiling(target, machine, size, m, n, slices);
            best = tiles.cycles < best.cycles ? tiles : best;
        }
    }
    return best;
}

/* The best tiles of m rows, or `best`, if none costs less. */
static DotTiling better_n(const Target *target, const Machine *machine, const DotProblem *size,
                          int64_t m, DotTiling best)
{
    const MatrixInstr *group = mma_warpgroup(target);
    int64_t n = size->user_n ? size->user_n : group->n;
    int64_t most_n = group->max_n;
    if (size->user_n) {
        most_n = n;
    } else if (m == THREE_GROUP_ROWS) {
        most_n = THREE_GROUP_COLUMNS;
    }
    for (; n <= most_n; n += group->n) {
        DotTiling tiles = best_split_k(target, machine, size, m, n);
        bool three_groups = m == THREE_GROUP_ROWS && !size->user_n;
        bool fits = three_groups ? n_is_suitable(size, n) : fits_registers(target, size, m, n);
        if (fits && (!best.m || tiles.cycles < best.cycles)) {
            best = tiles;
        }
    }
    return best;
}

static DotTiling best_tiles(const Target *target, const Machine *machine, const DotProblem *size)
{
    DotTiling best = {.m = 0};
    int64_t m = size->user_m ? size->user_m : mma_warpgroup(target)->m;
    int64_t most_m = size->user_m ? m : MAX_ROWS;
    for (; m <= most_m; m *= 2) {
        best = better_n(target, machine, size, m, best);
    }
    if (size->three_groups && !size->user_m && !size->user_n && best.m) {
        DotTiling three_groups = better_n(target, machine, size, THREE_GROUP_ROWS, best);
        best = three_groups.cycles * THREE_GROUP_GAIN < best.cycles ? three_groups : best;
    }
    return best;
}

/* ---- clusters that combine slices ---- */

/* Tiles of m × n whose slices are the blocks of a cluster, if all clusters run at once; or `best`,
 * if none costs less. */
static DotTiling better_cluster(const Target *target, const Machine *machine,
                                const DotProblem *size, int64_t m, int64_t n, DotTiling best)
{
    int64_t given = size->user_split_k ? size->user_split_k : size->user_cluster;
    for (int64_t slices = 2; slices <= target->portable_cluster; slices *= 2) {
        int64_t depth = step_depth(target, size, m, n);
        DotTiling tiles = {.m = m, .n = n, .depth = depth, .split_k = slices, .clustered = true};
        tiles = with_cost(target, machine, size, tiles);
        bool fits_one_wave = tiles.count <= dot_cost_coresident(target, slices) &&
                             cost_waves(size->k, depth) >= slices * MIN_STEPS;
        if ((given ? slices == given : fits_one_wave) && tiles.cycles < best.cycles) {
            best = tiles;
        }
    }
    return best;
}

/* The machine while all multiprocessors load from L2. By it, larger tiles that load more and slices
 * that load more differ. */
static Machine with_loaded_l2(const Machine *machine)
{
    Machine all = *machine;
    all.l2_bytes = machine->l2_loaded_bytes;
    return all;
}

/* The host starts no launch sooner after the last one. */
static double by_host(const Machine *machine, double cycles, int64_t launches)
{
    return fmax(cycles, cost_launches(machine, (double)launches));
}

static DotTiling better_clustered(const Target *target, const Machine *machine,
                                  const DotProblem *size, DotTiling best)
{
    Machine all = with_loaded_l2(machine);
    bool must = size->user_cluster > 1;
    bool may = best.m && size->can_cluster && size->user_cluster != 1 && !best.split_k_tail &&
               !size->user_multicast_m && !size->user_multicast_n;
    if (!may) {
        return best;
    }
    DotTiling found = {.cycles = INFINITY};
    const MatrixInstr *group = mma_warpgroup(target);
    int64_t m = size->user_m ? size->user_m : group->m, most_m = size->user_m ? m : MAX_ROWS;
    int64_t n0 = size->user_n ? size->user_n : group->n;
    int64_t most_n = size->user_n ? n0 : group->max_n;
    for (; m <= most_m; m *= 2) {
        for (int64_t n = n0; n <= most_n; n += group->n) {
            bool fits = m * n * ACCUMULATOR_BYTES <= MAX_EXCHANGED_BYTES &&
                        fits_registers(target, size, m, n);
            found = fits ? better_cluster(target, &all, size, m, n, found) : found;
        }
    }
    if (!found.m) {
        return best;
    }
    DotCost costs = dot_cost(target, &all, size, &best);
    int64_t launches = best.split_k > 1 ? 2 : 1;
    bool less = by_host(machine, found.cycles, 1) * CLUSTER_GAIN <
                by_host(machine, dot_cost_cycles(&costs), launches);
    found = with_cost(target, machine, size, found);
    less = less &&
           by_host(machine, found.cycles, 1) * MIN_GAIN < by_host(machine, best.cycles, launches);
    return must || less ? found : best;
}

DotTiling wave_model_choose(const Target *target, const Machine *machine, const DotProblem *size)
{
    DotProblem plain = *size;
    plain.can_tail = false;
    plain.user_tail_m = plain.user_tail_n = 0;
    DotTiling best = best_tiles(target, machine, &plain);
    if (size->can_tail) {
        bool given = size->user_tail_m || size->user_tail_n;
        DotTiling tailed = best_tiles(target, machine, size);
        best = tailed.split_k_tail && (given || tailed.cycles * TAIL_GAIN < best.cycles) ? tailed
                                                                                         : best;
    }
    return better_clustered(target, machine, size, best);
}
