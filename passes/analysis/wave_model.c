/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of a product, by what they cost.
 *
 * A step of a block's loop multiplies m × n × depth and brings (m + n) × depth elements from the
 * second-level cache, both at once. What overlaps takes the norm of its parts with exponent 4: the
 * longer one alone, and a fifth more where both take as long. A tile is its steps and the work on
 * its result, which nothing overlaps. Every multiprocessor walks as many tiles as the one that has
 * most: the last wave costs as much as a full one ("wave quantization": NVIDIA, Matrix
 * Multiplication Background User's Guide). Nothing goes faster than memory brings the operands.
 *
 * What blocks side by side bring for one another (multicast) is asked of the second-level cache
 * once, but arrives at each of them: it helps where rows take more lines of the cache than they
 * have bytes.
 *
 * Where that leaves many idle, what is contracted is shared out ("split-K"); what the shares come
 * to goes through memory to a launch that adds it, or, if the blocks that share a tile are a
 * cluster, through their shared memory; of clusters fewer blocks run at once. Where it leaves many
 * idle in the last wave only, only as many rows or columns of tiles as that has are shared out
 * ("stream-K" behind full waves: Osama et al. 2023), by a launch that runs as the others' last
 * tiles end. */
#include "passes/analysis/wave_model.h"

#include "ir/layout/matrix_instr.h"

#include <math.h>

enum {
    MAX_TILE = 32768,     /* elements: 128 accumulators a thread of two warp groups */
    THIRDS_COLUMNS = 192, /* 96 accumulators a thread of three groups, which have 160 registers */
    MAX_APART = 26624,    /* where each has one for the step and one for all steps */
    MAX_ROWS = 256,
    SUM_BYTES = 4, /* of what a share comes to: an f32 */
    MIN_STEPS = 4, /* of a share */
    MAX_WAVES = 4,
    MAX_TAIL_SHARES = 16, /* that a thread of the launch behind adds one by one */
    TAIL_CYCLES = 1500,   /* until a launch that began early has its first operands */
    MAX_SHARES = 128,     /* beyond, they take longer to add than they save */
    SLOT_BYTES = 16384,   /* a step that brings no more is made twice as deep */
    STORE_OPS = 8,        /* of an element: to its type, to shared memory */
    PAIR = 2,             /* blocks side by side */
    TILE_CYCLES = 400,    /* until the first of a tile's results is there */
    MAX_SENT = 65536,     /* of a tile's sums, which others send, beside the rings */
    CLUSTER_CYCLES = 500, /* until the last block's sums are there */
    PAIRED = 2,           /* blocks of a cluster that all multiprocessors can have at a time */
};

/* Of an element's operation: some are folded into others (measured on `linear`: gelu). */
static const double OP_CYCLES = 0.65;

/* Blocks that bring for one another wait for one another: a step takes longer, and they are chosen
 * for more than the model may err by. */
static const double TOGETHER_CYCLES = 20, TOGETHER_GAIN = 1.03;

/* Three groups are chosen for more than the model may err by. */
static const double THIRDS_GAIN = 1.04;

/* So are tails: three launches, each of which begins and ends. */
static const double TAIL_GAIN = 1.05;

/* Of what one wave waits for, the part that it waits longer where blocks came as places became
 * free, at least: where bringing takes so many times what multiplying does, or some tiles bring
 * less than others, and end first. Then the cycles that beginning so gains (measured: H200). */
static const double UNEVEN_LOSS = 0.08, UNEVEN_BRINGS = 1.3, EARLY_CYCLES = 2300;

/* And clusters that add shares: by the rate at which all ask the second-level cache, and by that
 * of one alone. */
static const double CLUSTER_GAIN = 1.15, MIN_GAIN = 1.03;

/* Of two things that go on at once. */
static double together(double a, double b)
{
    double a2 = a * a, b2 = b * b;
    return sqrt(sqrt(a2 * a2 + b2 * b2));
}

static int64_t parts(int64_t all, int64_t each)
{
    return all > 0 ? (all - 1) / each + 1 : 0;
}

static int64_t depth_of(const Target *target, const DotProblem *size, int64_t m, int64_t n)
{
    int64_t row = target->shared_row / size->bytes; /* the smallest depth */
    bool small =
        !size->apart && (m + n * size->dots) * target->shared_row <= SLOT_BYTES && size->k > row;
    return size->given_k ? size->given_k : small ? 2 * row : row;
}

static double multiply_cycles(const Machine *machine, const DotProblem *size,
                              const DotTiling *tiles)
{
    double products = (double)(tiles->m * tiles->n * tiles->depth) * size->dots;
    return products * size->bytes / machine->product16; /* of half the bits, twice as many */
}

static double bring_cycles(const Machine *machine, const DotProblem *size, const DotTiling *tiles)
{
    int64_t rows = tiles->m < size->m ? tiles->m : size->m;
    int64_t columns = tiles->n < size->n ? tiles->n : size->n;
    int left = size->left_lines > 1 ? size->left_lines : 1;
    int right = size->right_lines > 1 ? size->right_lines : 1;
    int64_t beside_m = tiles->beside_m > 1 ? tiles->beside_m : 1;
    int64_t beside_n = tiles->beside_n > 1 ? tiles->beside_n : 1;
    int64_t asked = rows * left / beside_n + columns * size->dots * right / beside_m;
    int64_t arrives = rows + columns * size->dots;
    int64_t lines = asked > arrives ? asked : arrives;
    return (double)(lines * tiles->depth * size->bytes) / machine->l2_bytes;
}

static double step_cycles(const Machine *machine, const DotProblem *size, const DotTiling *tiles)
{
    double bring = bring_cycles(machine, size, tiles);
    bool beside = tiles->beside_m > 1 || tiles->beside_n > 1;
    return together(multiply_cycles(machine, size, tiles), bring) + machine->step_overhead +
           (beside ? TOGETHER_CYCLES : 0);
}

static double memory_cycles(const Machine *machine, const DotProblem *size)
{
    double m = (double)size->m, n = (double)size->n, k = (double)size->k;
    double right = k * n * size->dots * (double)size->rounds;
    return (m * k + right + m * n) * (double)(size->batch * size->bytes) / machine->memory_bytes;
}

/* A launch that adds what the shares of so many elements come to, one by one. */
static double sum_cycles(const Target *target, const Machine *machine, const DotProblem *size,
                         double elements, int64_t shares)
{
    double moved = 2 * elements * (double)shares * SUM_BYTES / machine->memory_bytes;
    double work = elements * (size->ops * OP_CYCLES + STORE_OPS) /
                  ((double)machine->lanes * target->machine->num_sms);
    return machine->start + moved + work;
}

/* Clusters lie within a part of the device, and one part has less than the others: of 132
 * multiprocessors 30 clusters of 4, 15 of 8 or 7 of 16 blocks run at once, as the driver says. */
int64_t wave_model_coresident(const Target *target, int64_t cluster)
{
    int64_t held = cluster > PAIRED ? target->machine->num_sms - target->machine->cluster_spare
                                    : target->machine->num_sms;
    return held / cluster * cluster;
}

/* What blocks send of a tile, and the part of it that each adds and stores. */
static double exchange_cycles(const Machine *machine, const DotProblem *size,
                              const DotTiling *tiles)
{
    double elements = (double)(tiles->m * tiles->n);
    double part = elements / (double)tiles->split_k * (size->ops * OP_CYCLES + STORE_OPS);
    return CLUSTER_CYCLES + elements * SUM_BYTES / machine->dsmem_bytes + part / machine->lanes;
}

/* Tiles of the multiprocessor that gets most. Masked ones are walked by persistent blocks, longest
 * first, so that they end together, but not before the longest one does. */
static double walked_tiles(const Target *target, const DotProblem *size, const DotTiling *tiles)
{
    int64_t held =
        tiles->clustered ? wave_model_coresident(target, tiles->split_k) : target->machine->num_sms;
    double half = (double)tiles->count / (double)held / 2;
    return !size->masked ? (double)parts(tiles->count, held) : half > 1 ? half : 1;
}

DotCost waves_costs(const Target *target, const Machine *machine, const DotProblem *size,
                    const DotTiling *tiles)
{
    double ops = STORE_OPS + (tiles->split_k > 1 ? 0 : size->ops * OP_CYCLES);
    double elements = (double)size->m * (double)size->n * (double)size->batch;
    return (DotCost){
        .multiply = multiply_cycles(machine, size, tiles),
        .step = step_cycles(machine, size, tiles),
        .bring = bring_cycles(machine, size, tiles),
        .end = (double)(tiles->m * tiles->n) * ops / machine->lanes + TILE_CYCLES +
               (tiles->clustered ? exchange_cycles(machine, size, tiles) : 0),
        .memory = memory_cycles(machine, size),
        .sum = tiles->split_k > 1 && !tiles->clustered
                   ? sum_cycles(target, machine, size, elements, tiles->split_k)
                   : 0,
        .steps = parts(parts(size->k, tiles->depth) * size->rounds, tiles->split_k),
        .walked = walked_tiles(target, size, tiles),
    };
}

double waves_cycles(const DotCost *costs)
{
    double tile = (double)costs->steps * costs->step + costs->end;
    return together(costs->walked * tile, costs->memory) + costs->sum;
}

static DotTiling priced(const Target *target, const Machine *machine, const DotProblem *size,
                        DotTiling tiles)
{
    int64_t beside_m = tiles.beside_m > 1 ? tiles.beside_m : 1;
    int64_t beside_n = tiles.beside_n > 1 ? tiles.beside_n : 1;
    int64_t rows = parts(size->m, tiles.m * beside_m) * beside_m;
    int64_t columns = parts(size->n, tiles.n * beside_n) * beside_n;
    tiles.count = rows * columns * size->batch * tiles.split_k;
    DotCost costs = waves_costs(target, machine, size, &tiles);
    tiles.cycles = waves_cycles(&costs);
    return tiles;
}

/* ---- a tail of shares ---- */

/* The same tiles, of which `split_k_tail` rows or columns of them have shares, behind all others:
 * what the others take in full waves, then a wave of shares, then the launch that adds them. */
static DotTiling with_tail(const Target *target, const Machine *machine, const DotProblem *size,
                           DotTiling tiles, int64_t lines, int64_t tail, int64_t shares)
{
    DotCost costs = waves_costs(target, machine, size, &tiles);
    int64_t each = tiles.count / lines, along = tiles.tail_along_n ? tiles.n : tiles.m;
    double tile = (double)costs.steps * costs.step + costs.end;
    double whole = (double)parts((lines - tail) * each, target->machine->num_sms) * tile;
    double part = (double)(parts(costs.steps, shares) *
                           parts(tail * each * shares, target->machine->num_sms)) *
                      costs.step +
                  costs.end + TAIL_CYCLES;
    double elements = (double)(tail * along) * (double)(tiles.tail_along_n ? size->m : size->n);
    tiles.split_k_tail = tail;
    tiles.split_k = shares;
    tiles.count -= tail * each;
    tiles.cycles =
        together(whole + part, costs.memory) + sum_cycles(target, machine, size, elements, shares);
    return tiles;
}

/* Of so many rows or columns of tiles, those that no full wave has: all blocks have a part of them.
 */
static DotTiling best_tail(const Target *target, const Machine *machine, const DotProblem *size,
                           DotTiling tiles, DotTiling best)
{
    int64_t m = parts(size->m, tiles.m), n = parts(size->n, tiles.n);
    int64_t lines = tiles.tail_along_n ? n : m, each = tiles.count / lines;
    int64_t beside = tiles.tail_along_n ? tiles.beside_n : tiles.beside_m;
    int64_t given = tiles.tail_along_n ? size->given_tail_n : size->given_tail_m;
    int64_t keep = tiles.count / target->machine->num_sms * target->machine->num_sms / each,
            tail = lines - keep;
    tail = given ? parts(given, tiles.tail_along_n ? tiles.n : tiles.m) : tail;
    tail = beside > 1 ? parts(tail, beside) * beside : tail;
    bool fits = given % (tiles.tail_along_n ? tiles.n : tiles.m) == 0;
    if (tail < 1 || tail >= lines || !fits) {
        return best;
    }
    int64_t steps = parts(size->k, tiles.depth) / MIN_STEPS;
    int64_t most = target->machine->num_sms / (tail * each);
    most = given && most < 2 ? 2 : most;
    most = most < MAX_TAIL_SHARES ? most : MAX_TAIL_SHARES;
    int64_t least = size->given_split_k ? size->given_split_k : 2;
    most = size->given_split_k ? size->given_split_k : most < steps ? most : steps;
    for (int64_t shares = least; shares <= most; shares++) {
        DotTiling tailed = with_tail(target, machine, size, tiles, lines, tail, shares);
        best = (given && !best.split_k_tail) || tailed.cycles < best.cycles ? tailed : best;
    }
    return best;
}

/* Where the last wave is far from full, its tiles have shares of what is contracted. */
static DotTiling better_tail(const Target *target, const Machine *machine, const DotProblem *size,
                             DotTiling whole)
{
    DotTiling best = whole;
    bool given = size->given_tail_m || size->given_tail_n;
    bool may = size->may_tail && whole.split_k == 1 && size->batch == 1 && size->rounds == 1 &&
               (!size->given_split_k || given) && whole.count > 0;
    for (int along_n = 0; along_n < 2 && may; along_n++) {
        whole.tail_along_n = along_n;
        if (!given || (along_n ? size->given_tail_n : size->given_tail_m)) {
            best = best_tail(target, machine, size, whole, best);
        }
    }
    return best;
}

/* Blocks side by side that bring what they share for one another, where that gains enough: along
 * either axis, in pairs; where both gain as much, those that share the left operand: tiles of one
 * group of the raster share the right one in the second-level cache as it is. A tensor of one
 * tile's rows is not brought so. */
static DotTiling better_together(const Target *target, const Machine *machine,
                                 const DotProblem *size, DotTiling best)
{
    DotTiling alone = best;
    bool given = size->given_beside_m || size->given_beside_n;
    if (given) {
        best.beside_m = size->given_beside_m;
        best.beside_n = size->given_beside_n;
        return priced(target, machine, size, best);
    }
    for (int along_n = 2; along_n-- > 0 && size->may_meet;) {
        DotTiling tiles = alone;
        *(along_n ? &tiles.beside_n : &tiles.beside_m) = PAIR;
        bool several = along_n ? size->n > tiles.n : size->m > tiles.m;
        tiles = priced(target, machine, size, tiles);
        if (several && tiles.cycles * TOGETHER_GAIN < alone.cycles && tiles.cycles < best.cycles) {
            best = tiles;
        }
    }
    return best;
}

DotTiling wave_model_tiling(const Target *target, const Machine *machine, const DotProblem *size,
                            int64_t m, int64_t n, int64_t shares)
{
    DotTiling tiles = {.m = m, .n = n, .depth = depth_of(target, size, m, n), .split_k = shares};
    return better_together(target, machine, size, priced(target, machine, size, tiles));
}

/* Does the last row or column of tiles have less than half of what the others have? */
static bool ends_short(int64_t extent, int64_t tile)
{
    int64_t rest = extent % tile;
    return rest > 0 && 2 * rest < tile;
}

bool wave_model_is_single_wave(const Target *target, const Machine *machine, const DotProblem *size,
                               const DotTiling *tiles)
{
    DotCost costs = waves_costs(target, machine, size, tiles);
    bool both = size->m > tiles->m && size->n > tiles->n;
    bool once =
        tiles->count <= target->machine->num_sms && tiles->split_k <= 1 && !tiles->split_k_tail;
    bool ragged = size->open || ends_short(size->m, tiles->m) || ends_short(size->n, tiles->n);
    bool waits = costs.bring >= (ragged ? 1 : UNEVEN_BRINGS) * costs.multiply;
    return both && once && waits && (double)costs.steps * costs.bring * UNEVEN_LOSS > EARLY_CYCLES;
}

double waves_count(const Target *target, const DotTiling *tiles)
{
    return (double)tiles->count / target->machine->num_sms;
}

static bool columns_suit(const DotProblem *size, int64_t n)
{
    bool power = (n & (n - 1)) == 0;
    return n < size->columns_of ? power : n % size->columns_of == 0;
}

/* What the user gives is taken as it is; what is derived beside it fits. */
static bool may_be(const Target *target, const DotProblem *size, int64_t m, int64_t n)
{
    const MatrixInstr *group = mma_warpgroup(target);
    bool fits = m * n * size->dots <= (size->apart ? MAX_APART : MAX_TILE) ||
                (size->given_n && m == group->m) || (size->given_m && n == group->n) ||
                (size->given_m && size->given_n);
    return fits && (size->given_n || columns_suit(size, n));
}

/* Shares that give each multiprocessor a tile, or two, or four. */
static DotTiling best_shares(const Target *target, const Machine *machine, const DotProblem *size,
                             int64_t m, int64_t n)
{
    bool tail = size->given_tail_m || size->given_tail_n; /* whose shares are given */
    int64_t given = tail ? 0 : size->given_split_k;
    DotTiling best = wave_model_tiling(target, machine, size, m, n, given ? given : 1);
    best = better_tail(target, machine, size, best);
    if (tail) {
        best.cycles =
            best.split_k_tail ? best.cycles : INFINITY; /* others have none of the given size */
        return best;
    }
    int64_t count = wave_model_tiling(target, machine, size, m, n, 1).count;
    int64_t steps = parts(size->k, best.depth) / MIN_STEPS;
    for (int64_t waves = 1; waves <= MAX_WAVES && size->may_share && !given; waves *= 2) {
        int64_t shares = count > 0 ? waves * target->machine->num_sms / count : 1;
        shares = shares > steps ? steps : shares;
        shares = shares > MAX_SHARES ? MAX_SHARES : shares;
        if (shares > 1) {
            DotTiling tiles = wave_model_tiling(target, machine, size, m, n, shares);
            best = tiles.cycles < best.cycles ? tiles : best;
        }
    }
    return best;
}

/* The best of so many rows, or `best`, if none costs less. */
static DotTiling better_columns(const Target *target, const Machine *machine,
                                const DotProblem *size, int64_t m, DotTiling best)
{
    const MatrixInstr *group = mma_warpgroup(target);
    int64_t n = size->given_n ? size->given_n : group->n;
    int64_t most_n = size->given_n ? n : m == THIRDS_ROWS ? THIRDS_COLUMNS : group->max_n;
    for (; n <= most_n; n += group->n) {
        DotTiling tiles = best_shares(target, machine, size, m, n);
        bool thirds = m == THIRDS_ROWS && !size->given_n;
        bool fits = thirds ? columns_suit(size, n) : may_be(target, size, m, n);
        if (fits && (!best.m || tiles.cycles < best.cycles)) {
            best = tiles;
        }
    }
    return best;
}

static DotTiling best_tiles(const Target *target, const Machine *machine, const DotProblem *size)
{
    DotTiling best = {.m = 0};
    int64_t m = size->given_m ? size->given_m : mma_warpgroup(target)->m;
    int64_t most_m = size->given_m ? m : MAX_ROWS;
    for (; m <= most_m; m *= 2) {
        best = better_columns(target, machine, size, m, best);
    }
    if (size->thirds && !size->given_m && !size->given_n && best.m) {
        DotTiling thirds = better_columns(target, machine, size, THIRDS_ROWS, best);
        best = thirds.cycles * THIRDS_GAIN < best.cycles ? thirds : best;
    }
    return best;
}

/* ---- clusters that add shares ---- */

/* Of m × n, in shares that are the blocks of a cluster each, where they all run at once; else
 * `best`, if none costs less. */
static DotTiling better_shares(const Target *target, const Machine *machine, const DotProblem *size,
                               int64_t m, int64_t n, DotTiling best)
{
    int64_t given = size->given_split_k ? size->given_split_k : size->given_cluster;
    for (int64_t shares = 2; shares <= target->portable_cluster; shares *= 2) {
        int64_t depth = depth_of(target, size, m, n);
        DotTiling tiles = {.m = m, .n = n, .depth = depth, .split_k = shares, .clustered = true};
        tiles = priced(target, machine, size, tiles);
        bool once = tiles.count <= wave_model_coresident(target, shares) &&
                    parts(size->k, depth) >= shares * MIN_STEPS;
        if ((given ? shares == given : once) && tiles.cycles < best.cycles) {
            best = tiles;
        }
    }
    return best;
}

/* What two thirds of the rate bring from the second-level cache: as much as it was seen to bring
 * when all multiprocessors ask it and nothing else. That tells apart what moves more by larger
 * tiles from what moves more by more shares. */
static Machine asked_by_all(const Machine *machine)
{
    Machine all = *machine;
    all.l2_bytes = machine->l2_bytes * 2 / 3;
    return all;
}

/* A host starts no launch sooner after another. */
static double by_host(const Machine *machine, double cycles, int64_t launches)
{
    return fmax(cycles, (double)(launches * machine->host_cycles));
}

static DotTiling better_clustered(const Target *target, const Machine *machine,
                                  const DotProblem *size, DotTiling best)
{
    Machine all = asked_by_all(machine);
    bool must = size->given_cluster > 1;
    bool may = best.m && size->may_cluster && size->given_cluster != 1 && !best.split_k_tail &&
               !size->given_beside_m && !size->given_beside_n;
    if (!may) {
        return best;
    }
    DotTiling found = {.cycles = INFINITY};
    const MatrixInstr *group = mma_warpgroup(target);
    int64_t m = size->given_m ? size->given_m : group->m, most_m = size->given_m ? m : MAX_ROWS;
    int64_t n0 = size->given_n ? size->given_n : group->n;
    int64_t most_n = size->given_n ? n0 : group->max_n;
    for (; m <= most_m; m *= 2) {
        for (int64_t n = n0; n <= most_n; n += group->n) {
            bool fits = m * n * SUM_BYTES <= MAX_SENT && may_be(target, size, m, n);
            found = fits ? better_shares(target, &all, size, m, n, found) : found;
        }
    }
    if (!found.m) {
        return best;
    }
    DotCost costs = waves_costs(target, &all, size, &best);
    int64_t launches = best.split_k > 1 ? 2 : 1;
    bool less = by_host(machine, found.cycles, 1) * CLUSTER_GAIN <
                by_host(machine, waves_cycles(&costs), launches);
    found = priced(target, machine, size, found);
    less = less &&
           by_host(machine, found.cycles, 1) * MIN_GAIN < by_host(machine, best.cycles, launches);
    return must || less ? found : best;
}

DotTiling wave_model_choose(const Target *target, const Machine *machine, const DotProblem *size)
{
    DotProblem plain = *size;
    plain.may_tail = false;
    plain.given_tail_m = plain.given_tail_n = 0;
    DotTiling best = best_tiles(target, machine, &plain);
    if (size->may_tail) {
        bool given = size->given_tail_m || size->given_tail_n;
        DotTiling tailed = best_tiles(target, machine, size);
        best = tailed.split_k_tail && (given || tailed.cycles * TAIL_GAIN < best.cycles) ? tailed
                                                                                         : best;
    }
    return better_clustered(target, machine, size, best);
}
