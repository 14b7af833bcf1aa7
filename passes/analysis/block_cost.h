/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a launch whose blocks load, reduce and store. The latencies of one block add up: its
 * start, its loads, its barriers, the barriers of its cluster, its stores. Other blocks of the
 * multiprocessor hide these latencies with their work; if there are few, the time grows in whole
 * waves. The blocks of a cluster start at the same time on several multiprocessors, which takes
 * longer for larger clusters. The latencies are those of the machine (ir/target/machines.def). */
#ifndef TESSERA_PASSES_ANALYSIS_BLOCK_COST_H
#define TESSERA_PASSES_ANALYSIS_BLOCK_COST_H

#include "ir/target/machine.h"

typedef struct BlockProblem {
    double blocks, warps;        /* of the launch; of a block */
    double resident;             /* blocks that a multiprocessor holds at once */
    double cluster;              /* blocks; 1: there is none */
    double barriers, cluster_barriers; /* barriers of a block and of its cluster */
    double steps;                /* rounds of loads, of a block */
    double instructions;         /* that a block issues, of all its warps */
    double memory;               /* seconds of the launch's bytes */
    double clock;                /* cycles a second */
} BlockProblem;

typedef enum BlockPart {
    BLOCK_MEMORY,
    BLOCK_ISSUE,  /* of instructions */
    BLOCK_STARTS, /* one after the other */
    BLOCK_LIVES,  /* latencies of the blocks that are resident */
    N_BLOCK_PARTS
} BlockPart;

/* Seconds of each part alone, and of all; `slots`: warps that issue at once. */
double block_seconds(const Machine *machine, double slots, const BlockProblem *problem,
                     double parts[N_BLOCK_PARTS]);

#endif
