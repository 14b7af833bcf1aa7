/* SPDX-License-Identifier: Apache-2.0 */
/* How long a product takes by its tiles: what a multiprocessor multiplies and brings in a step, and
 * how many tiles each of them gets. For products whose operands the copy engine brings and whose
 * sizes are known. */
#ifndef TESSERA_PASSES_ANALYSIS_WAVE_MODEL_H
#define TESSERA_PASSES_ANALYSIS_WAVE_MODEL_H

#include "ir/target/machine.h"
#include "ir/target/target.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct Target Target;

/* Of a tile that three warp groups share. */
enum { THIRDS_ROWS = 192, THIRDS_WARPS = 12 };

typedef struct DotProblem {
    int64_t m, n, k, batch; /* of the whole product */
    int64_t rounds;         /* products over k that are summed: the taps of a convolution */
    int64_t columns_of;     /* a tile's columns are a multiple of it (where more than it) */
    int64_t given_m, given_n, given_k;      /* the user's tiles; 0: none */
    int64_t given_split_k;                  /* of what is contracted; 0: none */
    int64_t given_beside_m, given_beside_n; /* blocks that bring together; 0: none given */
    int64_t given_tail_m, given_tail_n;     /* elements that alone have shares; 0: none given */
    bool may_tail;                          /* may they be some of the tiles only? */
    bool may_share;                         /* can a second launch add what shares come to? */
    bool open;                              /* may m or n be less? */
    bool may_cluster;                       /* can a cluster? */
    int64_t given_cluster;                  /* 1: it must not, more: it must; 0: nothing given */
    bool masked; /* a tile's steps end where a mask says, half of the way on average */
    bool apart;  /* are a step's sums held beside those of all steps? */
    int left_lines, right_lines; /* of the cache, that 128 bytes of a row take; 0: 1 */
    bool may_meet;               /* may blocks bring what they share for one another? */
    bool thirds;                 /* may three warp groups share a tile? */
    int dots;                    /* products of the same extents and left operand */
    int bytes;                   /* of an element of an operand, and of the result */
    int ops;                     /* done with each element of the result */
} DotProblem;

typedef struct DotTiling {
    int64_t m, n, depth;
    int64_t split_k;            /* of what is contracted, each a tile of its own; 1: none */
    bool clustered;             /* a cluster has them, and adds them */
    int64_t beside_m, beside_n; /* tiles side by side that bring what they share once; 0, 1: none */
    int64_t split_k_tail;       /* of rows, or columns, of tiles: these alone have shares; 0: all */
    bool tail_along_n;
    int64_t count; /* tiles in all; without those of a tail */
    bool thirds;   /* three warp groups share one */
    double cycles; /* from the first product to the last store */
} DotTiling;

/* What a product's time is made of, in cycles. */
typedef struct DotCost {
    double multiply, step; /* of a step: the matrix units alone; with all that it waits for */
    double bring;          /* of a step: what it brings alone */
    double end;            /* of a tile: the work on its result */
    double memory;         /* of all: what memory takes to bring the operands once */
    double sum;            /* of all: the launch that adds what shares come to */
    int64_t steps;         /* of a tile */
    double walked;         /* tiles of the multiprocessor that gets most; longest ones, if masked */
} DotCost;
DotCost waves_costs(const Target *target, const Machine *machine, const DotProblem *size,
                    const DotTiling *tiles);
/* Their sum, as far as they do not overlap. */
double waves_cycles(const DotCost *costs);
/* What tiles of m × n cost, in so many shares. */
DotTiling wave_model_tiling(const Target *target, const Machine *machine, const DotProblem *size,
                            int64_t m, int64_t n, int64_t shares);
/* The tiles that cost least. */
DotTiling wave_model_choose(const Target *target, const Machine *machine, const DotProblem *size);
/* Do the tiles want to be dealt out evenly, more than to begin early? They are one wave, and wait
 * longer for operands that others of them have, too, than for the matrix units: much longer, or
 * some tiles have less to wait for than others. */
bool wave_model_is_single_wave(const Target *target, const Machine *machine, const DotProblem *size,
                               const DotTiling *tiles);
/* Blocks of clusters of so many that run at once, at least. */
int64_t wave_model_coresident(const Target *target, int64_t cluster);
/* Tiles that a multiprocessor gets when all have as many; 1.5: half of them idle at the end. */
double waves_count(const Target *target, const DotTiling *tiles);

#endif
