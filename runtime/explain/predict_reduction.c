/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts the time of launches whose blocks load, reduce and store: it adds up the ops and
 * accesses of the launch for the cost model of blocks (passes/analysis/block_cost.h). */
#include "runtime/explain/explain_occupancy.h"

#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/target/machine.h"
#include "passes/analysis/block_cost.h"

/* Instructions of an operation (pairs of narrow elements, and what folds into others), of an
 * access, and of a register that does not fit, with what waits for it. */
static const double EACH = 0.6, ACCESS = 4, SPILL = 30;

typedef struct BlockTrace {
    const Report *report;
    bool unknown;                            /* how often it loops, or it waits for other blocks */
    double barriers, cluster_barriers, steps, ops; /* of a block; of a thread */
} BlockTrace;

/* Registers of a thread that an operation goes through. */
static int goes_through(const Op *op)
{
    bool moves = op->n_operands == 0 || op->kind == OP_BROADCAST || op->kind == OP_REMAT;
    bool counts = (op_has(op, TRAIT_ELEMENTWISE) && !moves) || op->kind == OP_REDUCE;
    Type type;
    if (!counts) {
        type = NULL;
    } else if (op->kind == OP_REDUCE) {
        type = op->operands[0]->type;
    } else {
        type = op->results[0]->type;
    }
    return type && type->kind == TYPE_ARRAY && type->layout ? layout_registers(type->layout) : 0;
}

/* A loop over a part of an axis, or one that depends on other blocks. */
static bool is_unknown(const Op *op)
{
    const Op *from = op->kind == OP_FOR ? for_lo(op)->def : NULL;
    bool whole = from && (from->kind == OP_CONST || from->kind == OP_START);
    return (op->kind == OP_FOR && !whole) || op->kind == OP_SPIN_LOAD || op->kind == OP_WHILE ||
           op->kind == OP_GATHER || op->kind == OP_SCATTER;
}

static void follow(BlockTrace *trace, const Block *block, double times)
{
    bool loads = false;
    for (const Op *op = block->first; op; op = op->next) {
        trace->ops += times * goes_through(op);
        trace->unknown = trace->unknown || is_unknown(op);
        trace->barriers += op->kind == OP_BARRIER || op->kind == OP_REDUCE ? times : 0;
        bool crosses = op->kind == OP_CLUSTER_REDUCE || op->kind == OP_CLUSTER_REDUCE_SCATTER;
        trace->cluster_barriers += crosses ? times : 0;
        loads = loads || (op->kind == OP_LOAD && op->results[0]->type->rank > 0);
        for (int i = 0; i < op->n_regions; i++) {
            double iterations = op->kind == OP_FOR ? loop_iterations(trace->report, op) : 1;
            follow(trace, op->regions[i], times * iterations);
        }
    }
    trace->steps += loads ? times : 0;
}

/* Instructions of a warp. */
static double instructions(const BlockTrace *trace, const LaunchReport *launch)
{
    double requests = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        requests += launch->accesses.items[i].requests;
    }
    int spilled = registers_expected(trace->report, launch).spilled;
    return EACH * (trace->ops + SPILL * spilled) +
           ACCESS * requests / (double)launch->blocks / launch->warps;
}

double course_seconds(const Report *report, const LaunchReport *launch, double clock, double memory,
                      TimeCourse *course)
{
    const Machine *machine = report->target->machine;
    double resident = launch->occupancy.resident;
    BlockTrace trace = {.report = report};
    follow(&trace, launch->op->regions[0], 1);
    if (resident < 1 || launch->blocks < 1 || launch->warps < 1 || trace.unknown ||
        launch->plan->persistent || launch->uncertain || trace.barriers <= 0) {
        return 0;
    }
    double issued = instructions(&trace, launch) * launch->warps;
    BlockProblem problem = {.blocks = (double)launch->blocks,
                            .warps = launch->warps,
                            .resident = resident,
                            .cluster = launch->plan->cluster,
                            .barriers = trace.barriers,
                            .cluster_barriers = trace.cluster_barriers,
                            .steps = trace.steps,
                            .instructions = issued,
                            .memory = memory,
                            .clock = clock};
    double parts[N_BLOCK_PARTS];
    double all =
        block_seconds(machine, (double)machine->lanes / report->target->warp, &problem, parts);
    static const char *const names[N_BLOCK_PARTS] = {
        [BLOCK_MEMORY] = "memory",
        [BLOCK_ISSUE] = "instructions that warps issue",
        [BLOCK_STARTS] = "starts of blocks",
        [BLOCK_LIVES] = "latencies of a block's life",
    };
    for (int i = 0; i < N_BLOCK_PARTS; i++) {
        course_alone(course, names[i], parts[i]);
    }
    return all;
}
