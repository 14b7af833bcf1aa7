/* SPDX-License-Identifier: Apache-2.0 */
/* Walks a launch as its blocks execute it, on a sample: of each loop and grid the last iteration,
 * which may be partial, and a few of the others, which represent the rest. */
#ifndef TESSERA_RUNTIME_EXPLAIN_LAUNCH_TRACE_H
#define TESSERA_RUNTIME_EXPLAIN_LAUNCH_TRACE_H

#include "runtime/explain/explain_point.h"

typedef struct Walk Walk;
/* `times`: how many executions, in all blocks, this one stands for. */
typedef void WalkEach(Walk *walk, const Op *op, double times);

struct Walk {
    EvalPoint context;
    WalkEach *each;
    void (*begin)(Walk *walk); /* a round of a loop, or of the grid; also behind a loop */
    void *user;
    int warps;           /* that run the op: of its role */
    double blocks;       /* that the launch has */
    bool costly;         /* each round takes long: fewer are looked at */
    bool few;            /* there would be very many: one and the last of each */
    bool coarse;         /* of some only one was looked at, or few of all */
    double share;        /* of the looks that a report may take: 1 where launches are few */
    int64_t looks;       /* at ops, so far */
    bool uncertain;      /* met a branch or a loop whose course depends on data */
    const Op *data_loop; /* the first loop whose trip count is data; NULL: there is none */
    bool equal_parts;    /* it walks parts of an axis, which are counted as equally long */
};

void walk_launch(Walk *walk, const Op *launch);

#endif
