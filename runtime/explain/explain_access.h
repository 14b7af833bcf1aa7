/* SPDX-License-Identifier: Apache-2.0 */
/* The memory accesses of an op as its warps make them, in one iteration of the loops around it.
 * They must match the code that codegen/gpu emits. */
#ifndef TESSERA_RUNTIME_EXPLAIN_EXPLAIN_ACCESS_H
#define TESSERA_RUNTIME_EXPLAIN_EXPLAIN_ACCESS_H

#include "runtime/explain/explain_report.h"
#include "runtime/explain/launch_trace.h"

#include "ir/layout/matrix_instr.h"
#include "passes/analysis/bank_conflicts.h"
#include "passes/analysis/code_size.h"

typedef struct Tally {
    LaunchReport *launch;
    const Target *target;
    Diags *diags;
    int sector;
    bool brief;             /* shared memory is left out */
    struct LoadDedup *seen;   /* loads of this round */
    struct RequestMemo *memo; /* requests of global memory */
    struct {
        struct FixedAccess *items;
        size_t n, cap;
    } fixed; /* accesses that are the same in each round */
    double matrix_work;     /* matrix_flops as of 16 bits that take as long */
    double flops, matrix_flops; /* of the ops that were walked */
    const CodeSize *code;
    double issued; /* instructions of a thread of each block */
    int64_t examined;           /* requests of warps: what the walk costs */
} Tally;

/* The accesses of an op, `times` over. walk->user is the Tally. */
void access_tally(Walk *walk, const Op *op, double times);
/* After the walk: counts the ops whose requests are the same in each round. */
void access_finish(Walk *walk);

/* ---- for the files of the kinds of access ---- */

AccessReport *access_report(Tally *tally, const Op *op, Traffic kind, const Value *memory);
/* Adds a warp's request to the totals. */
void access_request(Tally *tally, AccessReport *report, WarpRequest *request, double times);
/* A thread's part of a tile: runs of `length` registers along an axis. */
int tile_run_length(Type type, int axis, int64_t most);
bool tile_run_starts(Type type, int axis, int reg, int length);
/* A bit for each lane, or warp of this many, that holds what one with a 0 there holds, too. */
uint32_t tile_copies(const Layout *layout, LayoutIn in, int count);
bool tile_inside(Type type, const int32_t *coords);
/* A slot of the shared memory that is accessed; an_shared_offset then gives an element's place. */
SharedTile access_shared_tile(const Access *access);
/* The axis of its tiles along which elements lie side by side: the last, but for extents of 1. */
int shared_run_axis(const Access *access);
/* Elements that one access may take of it. */
int shared_most(const Access *access);
int lanes_of(const Tally *tally);

void shared_tally(Walk *walk, const Op *op, double times);  /* shared_load, shared_store */
void clear_tally(Walk *walk, const Op *op, double times);   /* of what no copy brings */
void scatter_tally(Walk *walk, const Op *op, double times); /* into shared memory */
void reduce_tally(Walk *walk, const Op *op, double times);  /* through scratch */
void scan_tally(Walk *walk, const Op *op, double times);    /* and folds, likewise */
void dot_tally(Walk *walk, const Op *op, double times);     /* of multiply-adds: operands there */
/* The same of a warp's matrix instruction. */
void matrix_tally(Walk *walk, const Op *op, const MatrixInstr *unit, double times);
/* A left operand that threads read for a group's instruction. */
void matrix_left_tally(Walk *walk, const Op *op, double times);

#endif
