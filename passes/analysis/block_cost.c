/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates the time of launches whose blocks load, reduce and store. The latencies of one block
 * add up; the other blocks of the multiprocessor hide a part of them. `tile` chooses the rows of a
 * block by this cost, and `explain` predicts times with it. */
#include "passes/analysis/block_cost.h"

#include "passes/analysis/cost_model.h"

#include <math.h>

/* Blocks of a cluster begin together, which takes as many times as long by this power of them. The
 * exponent of the norm of what overlaps. The share of issue slots that a block fills if it is
 * alone. */
static const double CLUSTER_POWER = 0.6, OVERLAP = 3, RATE = 0.8, NS = 1e-9;

/* Seconds of a block that is alone: its latencies, and `issue`, in which it issues instructions. */
static double life_seconds(const Machine *machine, const BlockProblem *problem, double issue)
{
    double cycles = machine->block_start + problem->barriers * machine->combine +
                    problem->cluster_barriers * machine->cluster_combine;
    double ns =
        machine->load_ns + machine->next_load_ns * fmax(0, problem->steps - 1) + machine->store_ns;
    return cycles / problem->clock + NS * ns + issue;
}

double block_seconds(const Machine *machine, double slots, const BlockProblem *problem,
                     double parts[N_BLOCK_PARTS])
{
    double clock = problem->clock;
    double blocks = ceil(problem->blocks / machine->num_sms); /* of a multiprocessor */
    double alone = problem->instructions / (RATE * fmin(slots, problem->warps)) / clock;
    double cluster = problem->cluster > 1 ? problem->cluster : 1;
    parts[BLOCK_MEMORY] = problem->memory;
    parts[BLOCK_ISSUE] = blocks * problem->instructions / slots / clock;
    parts[BLOCK_STARTS] = blocks * machine->block_next * pow(cluster, CLUSTER_POWER) / clock;
    parts[BLOCK_LIVES] =
        blocks / fmin(problem->resident, blocks) * life_seconds(machine, problem, alone);
    return cost_norm(parts, N_BLOCK_PARTS, OVERLAP);
}
