/* SPDX-License-Identifier: Apache-2.0 */
/* The course of a block that loads, reduces and stores. What waits is of one block: it begins,
 * its loads come, its threads meet, a cluster's blocks meet, its stores go. Other blocks of a
 * multiprocessor fill that with their work, so that with few of them time goes by rounds; and
 * blocks of a cluster begin together, on as many multiprocessors, which takes the longer the more
 * they are.
 *
 * Fitted to 31 schedules of a softmax on an H200 (tests/tune/recorded, model.py). */
#include "runtime/explain/resources.h"

#include "ir/build.h"
#include "ir/layout.h"
#include "ir/rates.h"

#include <math.h>

/* Seconds. */
static const double BEGINS = 0.7e-6, ARRIVES = 1.0e-6,
                    NEXT = 0.25e-6 /* of a loop's step, whose loads are ahead */, MEETS = 0.05e-6,
                    CLUSTER_MEETS = 0.5e-6, LEAVES = 0.3e-6, ISSUED = 0.12e-6;
static const double EACH =
    0.6; /* instructions of an operation: pairs, and what folds into others */
static const double SPILL = 100;                     /* instructions, and what waits for them */
static const double CLUSTER_POWER = 0.6, RATE = 0.8; /* of instructions that could be issued */

typedef struct Course {
    const Report *report;
    bool unknown;                            /* how often it loops, or waits for other blocks */
    double meets, cluster_meets, steps, ops; /* of a block; of a thread */
} Course;

static void walk(Course *course, const Block *block, double times)
{
    bool loads = false;
    for (const Op *op = block->first; op; op = op->next) {
        Type type = op->n_results ? op->results[0]->type : NULL;
        Type of = op->kind == OP_REDUCE ? op->operands[0]->type : type;
        int each = of && of->kind == TYPE_ARRAY && of->layout ? layout_registers(of->layout) : 0;
        bool moves = op->n_operands == 0 || op->kind == OP_BROADCAST || op->kind == OP_AGAIN;
        bool counts = (op_has(op, TRAIT_ELEMENTWISE) && !moves) || op->kind == OP_REDUCE;
        course->ops += counts ? times * each : 0;
        course->unknown = course->unknown || op->kind == OP_AWAIT || op->kind == OP_WHILE ||
                          op->kind == OP_GATHER || op->kind == OP_SCATTER;
        const Op *from = op->kind == OP_FOR ? for_lo(op)->def : NULL;
        bool shared =
            op->kind == OP_FOR && (!from || (from->kind != OP_CONST && from->kind != OP_START));
        course->unknown = course->unknown || shared; /* a part of an axis */
        course->meets += times * (op->kind == OP_SYNC || op->kind == OP_REDUCE);
        course->cluster_meets += times * (op->kind == OP_CLUSTER_REDUCE);
        loads = loads || (op->kind == OP_LOAD && type && type->rank > 0);
        for (int i = 0; i < op->n_regions; i++) {
            walk(course, op->regions[i],
                 op->kind == OP_FOR ? times * rounds_of(course->report, op) : times);
        }
    }
    course->steps += loads ? times : 0;
}

double course_seconds(const Report *report, const LaunchReport *launch, double clock, double memory)
{
    const Rates *rates = rates_of(report->target);
    double units = report->target->units, warp = report->target->warp;
    double resident = launch->occupancy.resident, blocks = (double)launch->blocks;
    if (!rates || resident < 1 || blocks < 1 || launch->plan->persistent) {
        return 0;
    }
    Course course = {.report = report};
    walk(&course, launch->op->regions[0], 1);
    if (course.unknown || launch->uncertain || course.meets <= 0) {
        return 0;
    }
    double accesses = 0;
    for (size_t i = 0; i < launch->accesses.n; i++) {
        accesses += 4 * launch->accesses.items[i].requests / blocks / launch->warps;
    }
    course.ops += SPILL * registers_expected(report, launch).spilled;
    double issued =
        (EACH * course.ops + accesses) * launch->warps; /* warps' instructions of a block */
    double slots = rates->lanes / warp;
    double all = ceil(blocks / units), rounds = all / fmin(resident, all);
    double alone = issued / (RATE * fmin(slots, launch->warps)) / clock;
    double cluster = launch->plan->cluster > 1 ? launch->plan->cluster : 1;
    double life = BEGINS + ARRIVES + NEXT * fmax(0, course.steps - 1) + course.meets * MEETS +
                  course.cluster_meets * CLUSTER_MEETS + LEAVES + alone;
    double parts[] = {memory, all * issued / slots / clock,
                      all * ISSUED * pow(cluster, CLUSTER_POWER), rounds * life};
    double sum = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        sum += parts[i] * parts[i] * parts[i];
    }
    return cbrt(sum);
}
