/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of a dot with given tile sizes, on a target with warp-group MMA and TMA (cost_model.h
 * defines the cost). The sizes must be known. */
#ifndef TESSERA_PASSES_ANALYSIS_DOT_COST_H
#define TESSERA_PASSES_ANALYSIS_DOT_COST_H

#include "ir/target/target.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct Target Target;

typedef struct DotProblem {
    int64_t m, n, k, batch; /* of the whole product */
    int64_t taps;           /* products over k that are summed: filter taps of a convolution */
    int64_t n_multiple;     /* a tile's n is a multiple of it, where it is larger */
    int64_t user_m, user_n, user_k;             /* the user's tiles; 0: none */
    int64_t user_split_k;                       /* the user's slices of k; 0: none */
    int64_t user_multicast_m, user_multicast_n; /* the user's multicast groups; 0: none */
    int64_t user_tail_m, user_tail_n;           /* the user's split-K tail, elements; 0: none */
    int64_t user_cluster;  /* 1: no cluster split-K; more: this many blocks; 0: the model decides */
    bool can_tail;         /* a launch of its own may split k for some of the tiles */
    bool can_split_k;      /* a second launch may combine the slices of k */
    int64_t shared;        /* of `taps`, those of the outermost sum, which slices share; 0: of k */
    bool can_cluster;      /* a cluster may */
    bool can_multicast;    /* blocks may load the tile that they share once */
    bool is_bound;         /* m or n may be less than they are here */
    bool is_nominal;       /* how many tiles there are is not known: the last wave is half full */
    bool masked;           /* k ends where a mask says, half of the way on average */
    bool two_accumulators; /* a step's result is promoted to that of all steps */
    bool three_groups;     /* three warp groups may share a tile */
    int a_lines, b_lines;  /* cache lines that 128 bytes of a row take; 0: 1 */
    bool b_windows;        /* B, not A, is windows of an image: its taps read the same elements */
    double moved;          /* bytes from and to memory; 0: operands and result as they are here */
    int dots;              /* dots of the same extents and A operand */
    int bytes;             /* of an element of an operand, and of the result */
    int epilogue_ops;      /* operations on each element of the result */
    int64_t folds;         /* products that are folded into one result, each of taps / folds taps;
                            * 0, 1: none is */
    int fold_ops;          /* operations on each element of each of them */
} DotProblem;

typedef struct DotTiling {
    int64_t m, n, depth;
    int64_t split_k; /* slices of k, each a tile of its own; 1: k is not split */
    bool clustered;  /* the slices are a cluster, which combines them */
    int64_t multicast_m,
        multicast_n;      /* adjacent tiles that load what they share once; 0, 1: none */
    int64_t split_k_tail; /* rows, or columns, of tiles that alone are split; 0: all */
    bool tail_along_n;
    int64_t count;     /* tiles in all, without those of a tail */
    bool three_groups; /* three warp groups share one */
    double cycles;     /* from the first dot to the last store */
} DotTiling;

/* What the time of a product consists of, in cycles. */
typedef struct DotCost {
    double matrix, l2;   /* of a step: the matrix units, the bytes from L2, each alone */
    double step;         /* of a step, with all that it waits for */
    double epilogue;     /* of a tile, behind its last step */
    double memory;       /* of the product: operands and result, each once */
    double combine;      /* of the launch that combines slices of k */
    int64_t steps;       /* of a tile */
    double tiles_per_sm; /* tiles of the busiest multiprocessor; of masked ones in whole tiles */
} DotCost;

/* `machine`: the target's, or one of its with other rates. */
DotCost dot_cost(const Target *target, const Machine *machine, const DotProblem *size,
                 const DotTiling *tiles);
double dot_cost_cycles(const DotCost *cost);
/* The cycles if the last `tail` of `lines` rows or columns of the tiles are a launch of their own
 * whose k is split into this many slices. */
double dot_cost_with_tail(const Target *target, const Machine *machine, const DotProblem *size,
                          const DotTiling *tiles, int64_t lines, int64_t tail, int64_t slices);
/* Blocks that run at once in clusters of this many, at least. */
int64_t dot_cost_coresident(const Target *target, int64_t cluster);

#endif
