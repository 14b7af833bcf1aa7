/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts dots that depend on one another within a step, as in attention: warp groups multiply
 * values that they have computed from another dot. The dots and the computation of a step overlap
 * if several warp groups alternate, or if dots run during the next step's computation.
 *
 * The latencies are those of the machine (ir/target/machines.def). */
#include "runtime/explain/explain_occupancy.h"
#include "support/int_math.h"

#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target/machine.h"
#include "passes/analysis/cost_model.h"

#include <math.h>

/* Instructions for each operation that is counted: casts, masks, shuffles. What a ring of one slot
 * exposes of the latency of L2. The exponents of the norm of dots and computation: of dots that run
 * under the next step, and of warp groups that alternate; 1: they do not overlap. */
static const double INSTRUCTIONS = 4, EXPOSED = 0.8;
static const double UNDER = 4, ALTERNATING = 2;

static void see_roles(Op *op, void *user)
{
    const Op **roles = user;
    *roles = op->kind == OP_ROLES ? op : *roles;
}

int64_t warps_that_compute(const LaunchReport *launch)
{
    const Op *roles = NULL;
    block_walk(launch->op->regions[0], see_roles, &roles);
    const Attr *warps = roles ? op_attr(roles, ATTR_WARPS) : NULL;
    int64_t sum = 0;
    for (int i = 1; warps && i < warps->n; i++) {
        sum += warps->ints[i];
    }
    return sum > 0 ? sum : launch->warps;
}

static bool overlaps(const Report *report)
{
    const Schedule *schedule = report->input->func->schedule;
    for (size_t i = 0; schedule && i < schedule->entries.n; i++) {
        const ScheduleEntry *line = &schedule->entries.items[i];
        if (text_equal(line->key, "overlap") && line->used && line->symbol) {
            return text_equal(line->symbol, "on");
        }
    }
    return false;
}

/* Of a step: products and what they multiply, and operations on elements. */
typedef struct Step {
    int products;
    double flops, ops;
} Step;

static double elements(Type type)
{
    double n = type->kind == TYPE_ARRAY ? 1 : 0;
    for (int i = 0; n > 0 && i < type->rank; i++) {
        n *= (double)poly_capacity(type->dims[i]);
    }
    return n;
}

/* The loop that has most products; of those alike the one that masks nothing. Others begin or end
 * what it does. */
static void see_loop(Op *op, void *user)
{
    Step *most = user, own = {0};
    for (const Op *at = op->kind == OP_FOR ? op->regions[0]->first : NULL; at; at = at->next) {
        own.products += at->kind == OP_DOT_ASYNC || at->kind == OP_DOT;
        bool renames = at->kind == OP_TO_STATIC; /* which takes no instruction */
        own.ops +=
            op_has(at, TRAIT_ELEMENTWISE) && !renames ? elements(at->results[0]->type) : 0;
        own.ops += at->kind == OP_REDUCE ? elements(at->operands[0]->type) : 0;
    }
    bool less = own.products == most->products && own.ops < most->ops;
    *most = own.products > most->products || less ? own : *most;
}

/* The loop's step; false: there is no loop of such products, or the model knows better. */
static bool step_of(const Report *report, const LaunchReport *launch, OpKind kind, Step *step)
{
    const ProductReport *p = &launch->product;
    const Op *loop = p->op ? op_enclosing(p->op, OP_FOR) : NULL;
    if (!report->card || !loop || p->op->kind != kind || p->modelled || p->alike || p->m < 1 ||
        launch->roofline.matrix_flops <= 0) {
        return false;
    }
    *step = (Step){0};
    block_walk(launch->op->regions[0], see_loop, step);
    step->flops = 2.0 * step->products * (double)p->m * (double)p->n_columns *
                  (double)op_attr(loop, ATTR_STEPS)->ints[0];
    return step->flops > 0;
}

double groups_work(const Machine *machine, double elements)
{
    return INSTRUCTIONS * elements / machine->lanes;
}

bool groups_cost(const Report *report, const LaunchReport *launch, GroupsCost *cost)
{
    const ProductReport *p = &launch->product;
    const Machine *machine = report->target->machine;
    double flops = launch->roofline.matrix_flops, known = report->input->product_flops;
    Step body;
    if (!step_of(report, launch, OP_DOT_ASYNC, &body)) {
        return false;
    }
    /* Loops of persistent blocks end where their tiles say, which only the source tells. */
    flops = known > 0 && known < flops ? known : flops;
    int64_t groups = warps_that_compute(launch) / report->target->group_warps;
    int64_t rows = mma_warpgroup(report->target)->m * (groups > 0 ? groups : 1);
    double whole = (double)round_up(p->m, rows) / (double)p->m;
    double work[] = {whole * body.flops / machine->product16,
                     whole * groups_work(machine, body.ops)};
    double norm = ALTERNATING;
    if (groups < 2) {
        norm = 1;
    } else if (overlaps(report)) {
        norm = UNDER;
    }
    double step = cost_norm(work, 2, norm) + machine->chain_step +
                  (p->slots > 1 ? 0 : EXPOSED * machine->l2_latency);
    double tiles = launch->plan->persistent ? 0 : (double)p->tiles;
    double steps = flops / body.flops / machine->num_sms;
    *cost = (GroupsCost){.steps = steps,
                         .step = step,
                         .tiles = tiles * machine->chain_tile / machine->num_sms,
                         .matrix = steps * work[0],
                         .lanes = steps * work[1]};
    return true;
}

double chained_cycles(const Report *report, const LaunchReport *launch, double alone)
{
    const Machine *machine = report->target->machine;
    Step body;
    if (!step_of(report, launch, OP_DOT, &body)) {
        return alone;
    }
    double steps = launch->roofline.matrix_flops / body.flops / machine->num_sms;
    double compute = steps * groups_work(machine, body.ops);
    double resident = launch->occupancy.resident > 1 ? launch->occupancy.resident : 1;
    double each = resident * (double)warps_that_compute(launch) / report->target->schedulers;
    return (alone + compute) * (1 + 1 / each);
}
