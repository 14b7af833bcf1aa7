/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts a block that loads, reduces and stores. The latencies of one block add up: its start,
 * its loads, its barriers, the barriers of its cluster, its stores. Other blocks of the
 * multiprocessor fill these gaps with their work, so with few of them the time grows in whole
 * rounds. The blocks of a cluster start together on as many multiprocessors, which takes longer
 * the more there are.
 *
 * The latencies are those of the machine (ir/target/machines.def). */
#include "runtime/explain/explain_occupancy.h"

#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/target/machine.h"
#include "passes/analysis/cost_model.h"

#include <math.h>

/* Blocks of a cluster begin together, which takes as many times as long by this power of them. */
static const double CLUSTER_POWER = 0.6;
static const double OVERLAP = 3; /* the exponent of the norm of what overlaps */
/* Instructions of an operation (pairs of narrow elements, and what folds into others), of an
 * access, and of a register that does not fit, with what waits for it; the share of those that a
 * block could issue if it were alone. Seconds. */
static const double EACH = 0.6, ACCESS = 4, SPILL = 100, RATE = 0.8, NS = 1e-9;

typedef struct BlockTrace {
    const Report *report;
    bool unknown;                            /* how often it loops, or it waits for other blocks */
    double meets, cluster_meets, steps, ops; /* of a block; of a thread */
} BlockTrace;

/* Registers of a thread that an operation goes through. */
static int goes_through(const Op *op)
{
    bool moves = op->n_operands == 0 || op->kind == OP_BROADCAST || op->kind == OP_REMAT;
    bool counts = (op_has(op, TRAIT_ELEMENTWISE) && !moves) || op->kind == OP_REDUCE;
    Type type = !counts                 ? NULL
                : op->kind == OP_REDUCE ? op->operands[0]->type
                                        : op->results[0]->type;
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
        trace->meets += op->kind == OP_BARRIER || op->kind == OP_REDUCE ? times : 0;
        bool meets = op->kind == OP_CLUSTER_REDUCE || op->kind == OP_CLUSTER_REDUCE_SCATTER;
        trace->cluster_meets += meets ? times : 0;
        loads = loads || (op->kind == OP_LOAD && op->results[0]->type->rank > 0);
        for (int i = 0; i < op->n_regions; i++) {
            double rounds = op->kind == OP_FOR ? rounds_of(trace->report, op) : 1;
            follow(trace, op->regions[i], times * rounds);
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

/* Seconds of a block that is alone: its latencies, and `issue`, in which it issues instructions. */
static double life_seconds(const Machine *machine, const BlockTrace *trace, double clock,
                           double issue)
{
    double cycles = machine->block_start + trace->meets * machine->combine +
                    trace->cluster_meets * machine->cluster_combine;
    double ns =
        machine->load_ns + machine->next_load_ns * fmax(0, trace->steps - 1) + machine->store_ns;
    return cycles / clock + NS * ns + issue;
}

double course_seconds(const Report *report, const LaunchReport *launch, double clock, double memory,
                      TimeCourse *course)
{
    const Machine *machine = report->target->machine;
    double resident = launch->occupancy.resident;
    BlockTrace trace = {.report = report};
    follow(&trace, launch->op->regions[0], 1);
    if (resident < 1 || launch->blocks < 1 || launch->warps < 1 || trace.unknown ||
        launch->plan->persistent || launch->uncertain || trace.meets <= 0) {
        return 0;
    }
    double slots = (double)machine->lanes / report->target->warp;
    double blocks = ceil((double)launch->blocks / machine->num_sms); /* of a multiprocessor */
    double issued = instructions(&trace, launch) * launch->warps;
    double alone = issued / (RATE * fmin(slots, launch->warps)) / clock;
    double cluster = launch->plan->cluster > 1 ? launch->plan->cluster : 1;
    double parts[] = {memory, blocks * issued / slots / clock,
                      blocks * machine->block_next * pow(cluster, CLUSTER_POWER) / clock,
                      blocks / fmin(resident, blocks) *
                          life_seconds(machine, &trace, clock, alone)};
    static const char *const names[] = {"memory", "instructions that warps issue",
                                        "starts of blocks", "latencies of a block's life"};
    enum { N = sizeof parts / sizeof *parts };
    for (int i = 0; i < N; i++) {
        course_alone(course, names[i], parts[i]);
    }
    return cost_norm(parts, N, OVERLAP);
}
