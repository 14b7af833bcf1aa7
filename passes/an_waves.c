/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of a product, by what they cost.
 *
 * A step of a block's loop multiplies m × n × depth and brings (m + n) × depth elements from the
 * second-level cache, both at once. What overlaps takes the norm of its parts with exponent 4: the
 * longer one alone, and a fifth more where both take as long. A tile is its steps and the work on
 * its result, which nothing overlaps. Every multiprocessor walks as many tiles as the one that has
 * most: the last wave costs as much as a full one ("wave quantization": NVIDIA, Matrix
 * Multiplication Background User's Guide). Nothing goes faster than memory brings the operands. */
#include "passes/an_waves.h"

#include <math.h>

enum {
    GROUP_ROWS = 64,
    MOST_TILE = 32768, /* elements: 128 accumulators a thread of two warp groups */
    MOST_ROWS = 256,
    MOST_COLUMNS = 256,
    COLUMNS = 16,
    ROW_BYTES = 128,    /* of swizzled shared memory: the least depth */
    SLOT_BYTES = 16384, /* a step that brings no more is made twice as deep */
    STORE_OPS = 8,      /* of an element: to its type, to shared memory */
    TILE_CYCLES = 400,  /* until the first of a tile's results is there */
};

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

static int64_t depth_of(const ProductSize *size, int64_t m, int64_t n)
{
    int64_t row = ROW_BYTES / size->bytes;
    bool small = (m + n) * ROW_BYTES <= SLOT_BYTES && size->k > row;
    return size->given_k ? size->given_k : small ? 2 * row : row;
}

static double step_cycles(const Rates *rates, const ProductSize *size, const ProductTiles *tiles)
{
    int64_t rows = tiles->m < size->m ? tiles->m : size->m;
    int64_t columns = tiles->n < size->n ? tiles->n : size->n;
    double multiply = 2.0 * (double)(tiles->m * tiles->n * tiles->depth) / rates->product16;
    double bring = (double)((rows + columns) * tiles->depth * size->bytes) / rates->unit_bytes;
    /* One warp group alone waits for its own products. */
    int meetings = tiles->m > GROUP_ROWS ? 1 : 2;
    return together(multiply, bring) + meetings * rates->meeting;
}

static double memory_cycles(const Rates *rates, const ProductSize *size)
{
    double m = (double)size->m, n = (double)size->n, k = (double)size->k;
    return (m * k + k * n + m * n) * (double)(size->batch * size->bytes) / rates->memory_bytes;
}

ProductTiles waves_of(const Target *target, const Rates *rates, const ProductSize *size, int64_t m,
                      int64_t n)
{
    ProductTiles tiles = {.m = m, .n = n, .depth = depth_of(size, m, n)};
    tiles.count = parts(size->m, m) * parts(size->n, n) * size->batch;
    double steps = (double)parts(size->k, tiles.depth) * step_cycles(rates, size, &tiles);
    double end = (double)(m * n * (size->ops + STORE_OPS)) / rates->lanes + TILE_CYCLES;
    double walked = (double)parts(tiles.count, target->units);
    tiles.cycles = together(walked * (steps + end), memory_cycles(rates, size));
    return tiles;
}

double waves_count(const Target *target, const ProductTiles *tiles)
{
    return (double)tiles->count / target->units;
}

static bool columns_suit(const ProductSize *size, int64_t n)
{
    bool power = (n & (n - 1)) == 0;
    return n < size->columns_of ? power : n % size->columns_of == 0;
}

/* What the user gives is taken as it is; what is derived beside it fits. */
static bool may_be(const ProductSize *size, int64_t m, int64_t n)
{
    bool fits = m * n <= MOST_TILE || (size->given_n && m == GROUP_ROWS) ||
                (size->given_m && n == COLUMNS) || (size->given_m && size->given_n);
    return fits && (size->given_n || columns_suit(size, n));
}

ProductTiles waves_choose(const Target *target, const Rates *rates, const ProductSize *size)
{
    ProductTiles best = {.m = 0};
    int64_t m = size->given_m ? size->given_m : GROUP_ROWS;
    int64_t most_m = size->given_m ? m : MOST_ROWS;
    for (; m <= most_m; m *= 2) {
        int64_t n = size->given_n ? size->given_n : COLUMNS;
        int64_t most_n = size->given_n ? n : MOST_COLUMNS;
        for (; n <= most_n; n += COLUMNS) {
            ProductTiles tiles = waves_of(target, rates, size, m, n);
            if (may_be(size, m, n) && (!best.m || tiles.cycles < best.cycles)) {
                best = tiles;
            }
        }
    }
    return best;
}
