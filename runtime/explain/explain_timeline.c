/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the ops of the pipelined loops of all roles step by step, each op as long as the rates
 * of the reference device say, and notes when what happens. An mbarrier's phase of a step completes
 * when all arrivals of that step have come; a role that waits for one that has not stops, and the
 * others go on. */
#include "runtime/explain/explain_timeline.h"

#include "ir/build.h"
#include "ir/target/machine.h"

#include <string.h>

enum { MAX_AGENTS = MAX_LANES_DRAWN - LANE_ROLES, MAX_BARS = 24, STEPS = 16, DRAWN = 6 };
enum { MAX_DOTS = 16, MAX_GROUPS = 4 * STEPS };

typedef struct Bar {
    const Value *value;
    int arrivals; /* of a phase */
    int came[STEPS + 1];
    double done[STEPS + 1];
} Bar;

/* A role, or a block without roles, in its hot loop. */
typedef struct Agent {
    const Op *loop, *at;
    int step, lane;
    double time, settled;  /* settled: when half of the steps are over; */
    double spent[N_SPAN];  /* behind it */
    double dots[MAX_DOTS]; /* when the last ones end, a ring */
    int n_dots;
    double groups[MAX_GROUPS]; /* async-copy groups that land */
    int n_groups;
    double copied; /* when what was copied since the last group lands */
} Agent;

typedef struct Simulation {
    const Report *report;
    const LaunchReport *launch;
    const Machine *card;
    Timeline *timeline;
    double latency, copies_free, unit_free;
    Agent agents[MAX_AGENTS];
    int n_agents;
    Bar bars[MAX_BARS];
    int n_bars;
} Simulation;

/* ---- what ops take ---- */

static double capacity_of(Type type, int from)
{
    double n = 1;
    for (int axis = from; axis < type->rank; axis++) {
        int64_t extent = poly_capacity(type->dims[axis]);
        n *= extent > 0 ? (double)extent : 1;
    }
    return n;
}

static double product_cycles(const Simulation *s, const Op *op)
{
    Type a = op->operands[0]->type, result = op->results[0]->type;
    int last = a->rank - (op_int(op, ATTR_TA, 0) ? 2 : 1);
    int64_t k = poly_capacity(a->dims[last]);
    double flops = 2 * capacity_of(result, 0) * (k > 0 ? (double)k : 1);
    int bytes = dtype_bytes(a->dtype) > 0 ? dtype_bytes(a->dtype) : 1;
    return flops / machine_product(s->card, bytes);
}

static double work_cycles(const Simulation *s, const Op *op)
{
    Type type = op->n_results ? op->results[0]->type : NULL;
    if (op->kind == OP_REDUCE) {
        type = op->operands[0]->type;
    } else if (!op_has(op, TRAIT_ELEMENTWISE)) {
        return 0;
    }
    return type && type->kind == TYPE_ARRAY ? capacity_of(type, 0) / s->card->lanes : 0;
}

static double copy_cycles(const Simulation *s, const Op *op)
{
    const Value *to = op_access_nth(op, 1).memory;
    for (size_t i = 0; i < s->launch->buffers.n; i++) {
        const BufferReport *buffer = &s->launch->buffers.items[i];
        if (buffer->value == to) {
            return (double)buffer->bytes / (buffer->slots > 0 ? buffer->slots : 1) /
                   s->card->l2_bytes;
        }
    }
    return 0;
}

/* ---- spans ---- */

static void add_span(Simulation *s, SpanKind kind, int lane, int step, double from, double upto,
                     const char *what)
{
    TimeSpan span = {kind, lane, step, from, upto, what};
    if (upto > from && step < DRAWN) {
        ARENA_PUSH(s->report->input->func->arena, &s->timeline->spans, span);
    }
}

static void spend_until(Simulation *s, Agent *agent, SpanKind kind, double time, const char *what)
{
    if (time > agent->time) {
        add_span(s, kind, agent->lane, agent->step, agent->time, time, what);
        agent->spent[kind] += agent->step >= STEPS / 2 ? time - agent->time : 0;
        agent->time = time;
    }
}

/* ---- mbarriers ---- */

static Bar *bar_of(Simulation *s, const Value *value)
{
    for (int i = 0; i < s->n_bars; i++) {
        if (s->bars[i].value == value) {
            return &s->bars[i];
        }
    }
    if (s->n_bars == MAX_BARS) {
        return NULL;
    }
    const Op *made = value_def_of_kind(value, OP_MBARRIER);
    s->bars[s->n_bars] =
        (Bar){.value = value, .arrivals = made ? (int)op_int(made, ATTR_ARRIVALS, 1) : 1};
    return &s->bars[s->n_bars++];
}

/* The phase that an op of this step means: its ring index may be that of the step before. */
static int phase_of(const Op *op, int at, int step)
{
    return at < op->n_operands && value_def_of_kind(op->operands[at], OP_SUB) ? step - 1 : step;
}

static void arrive(Simulation *s, const Value *value, int phase, double time)
{
    Bar *bar = bar_of(s, value);
    if (bar && phase >= 0 && phase <= STEPS) {
        bar->came[phase]++;
        bar->done[phase] = time > bar->done[phase] ? time : bar->done[phase];
    }
}

/* False: what it waits for has not come yet. */
static bool run_wait(Simulation *s, Agent *agent, const Op *op)
{
    Bar *bar = bar_of(s, op->operands[0]);
    int phase = phase_of(op, 1, agent->step);
    int64_t slots = poly_capacity(op->operands[0]->type->dims[0]);
    bool previous = op_int(op, ATTR_PREVIOUS_PHASE, 0);
    phase -= previous ? (int)slots : 0;
    if (!bar || phase < 0) {
        return bar != NULL;
    }
    if (bar->came[phase] < bar->arrivals) {
        return false;
    }
    spend_until(s, agent, SPAN_WAIT, bar->done[phase], previous ? "a free stage" : "data");
    return true;
}

/* ---- the steps of a role ---- */

static void run_copy(Simulation *s, Agent *agent, const Op *op)
{
    double begins = agent->time > s->copies_free ? agent->time : s->copies_free;
    double takes = copy_cycles(s, op), lands = begins + takes + s->latency;
    const char *what = op_access_nth(op, 0).memory->name;
    add_span(s, SPAN_COPY, LANE_COPIES, agent->step, begins, begins + takes, what);
    s->copies_free = begins + takes;
    if (op->kind == OP_BULK_LOAD) {
        Access bar = op_access_nth(op, 2);
        arrive(s, bar.memory, phase_of(op, bar.at + 1, agent->step), lands);
    } else {
        agent->copied = lands > agent->copied ? lands : agent->copied;
    }
}

static void run_dot(Simulation *s, Agent *agent, const Op *op)
{
    double begins = agent->time > s->unit_free ? agent->time : s->unit_free;
    double ends = begins + product_cycles(s, op);
    add_span(s, SPAN_PRODUCT, LANE_PRODUCTS, agent->step, begins, ends, "product");
    s->unit_free = ends;
    agent->dots[agent->n_dots++ % MAX_DOTS] = ends;
    if (op->kind == OP_DOT) {
        spend_until(s, agent, SPAN_WATCH, ends, "the product");
    }
}

static void run_dot_wait(Simulation *s, Agent *agent, const Op *op)
{
    int64_t last = agent->n_dots - 1 - op_int(op, ATTR_PENDING, 0);
    if (last >= 0 && last >= agent->n_dots - MAX_DOTS) {
        spend_until(s, agent, SPAN_WATCH, agent->dots[last % MAX_DOTS], "the product");
    }
}

/* Groups that were made before the loop: those that this step does not wait for. */
static void run_copy_wait(Simulation *s, Agent *agent, const Op *op)
{
    int group = agent->n_groups - 1 - (int)op_int(op, ATTR_PENDING, 0);
    if (group >= 0 && group < MAX_GROUPS) {
        spend_until(s, agent, SPAN_WAIT, agent->groups[group], "data");
    }
}

/* False: it has to wait for another role. */
static bool run_op(Simulation *s, Agent *agent, const Op *op)
{
    double work = work_cycles(s, op);
    switch (op->kind) {
    case OP_WAIT: return run_wait(s, agent, op);
    case OP_ARRIVE: arrive(s, op->operands[0], phase_of(op, 1, agent->step), agent->time); break;
    case OP_BULK_LOAD:
    case OP_COPY_LOAD: run_copy(s, agent, op); break;
    case OP_COPY_COMMIT:
        if (agent->n_groups < MAX_GROUPS) {
            agent->groups[agent->n_groups++] = agent->copied;
        }
        break;
    case OP_COPY_WAIT: run_copy_wait(s, agent, op); break;
    case OP_DOT:
    case OP_DOT_ASYNC: run_dot(s, agent, op); break;
    case OP_DOT_WAIT: run_dot_wait(s, agent, op); break;
    default: break;
    }
    spend_until(s, agent, SPAN_WORK, agent->time + work, "work on elements");
    return true;
}

/* The op behind `op` in the loop, into the first region of an `if` and out of it; NULL: the step's
 * end. */
static const Op *next_op(const Agent *agent, const Op *op)
{
    if (op->kind == OP_IF && op->regions[0]->first) {
        return op->regions[0]->first;
    }
    while (!op->next) {
        const Op *parent = op->parent->parent;
        if (parent == agent->loop) {
            return NULL;
        }
        op = parent;
    }
    return op->next;
}

/* True if the role got further. */
static bool advance(Simulation *s, Agent *agent)
{
    bool moved = false;
    while (agent->step < STEPS) {
        if (!run_op(s, agent, agent->at)) {
            return moved;
        }
        moved = true;
        agent->at = next_op(agent, agent->at);
        if (!agent->at) {
            bool multiplies = agent->n_dots > 0;
            agent->time += multiplies ? s->card->step_overhead : 0;
            agent->step++;
            agent->settled = agent->step == STEPS / 2 ? agent->time : agent->settled;
            agent->at = agent->loop->regions[0]->first;
        }
    }
    return moved;
}

/* ---- which loops ---- */

typedef struct Busiest {
    const Op *loop;
    int events;
    bool copies, multiplies;
} Busiest;

static void count_events(Op *op, void *user)
{
    Busiest *found = user;
    bool copy = op->kind == OP_BULK_LOAD || op->kind == OP_COPY_LOAD;
    bool dot = op->kind == OP_DOT || op->kind == OP_DOT_ASYNC;
    found->copies = found->copies || copy;
    found->multiplies = found->multiplies || dot;
    found->events += copy || dot || op->kind == OP_WAIT;
}

/* The innermost loop with most that concerns the pipeline. */
static void find_loop(Op *op, void *user)
{
    Busiest *best = user, here = {.loop = op};
    if (op->kind == OP_FOR) {
        block_walk(op->regions[0], count_events, &here);
        if (here.events > 0 && here.events >= best->events &&
            (here.events > best->events || value_is_inside(best->loop->results[0], op))) {
            *best = here;
        }
    }
}

/* What was copied before the loop: what the first wait in it leaves open, and the first step. */
static void begin_groups(Agent *agent, double latency)
{
    int before = 0;
    bool committed = false;
    for (const Op *op = agent->loop->regions[0]->first; op; op = op->next) {
        committed = committed || op->kind == OP_COPY_COMMIT;
        if (op->kind == OP_COPY_WAIT) {
            before = (int)op_int(op, ATTR_PENDING, 0) + !committed;
            break;
        }
    }
    for (; agent->n_groups < before && agent->n_groups < MAX_GROUPS;) {
        agent->groups[agent->n_groups++] = latency;
    }
}

/* A role in `block`; false: it has no such loop, which is no reason to give up. */
static bool add_agent(Simulation *s, Block *block, bool alone)
{
    Busiest found = {0};
    block_walk(block, find_loop, &found);
    if (!found.loop || s->n_agents == MAX_AGENTS) {
        return false;
    }
    Timeline *t = s->timeline;
    Agent *agent = &s->agents[s->n_agents++];
    *agent = (Agent){.loop = found.loop, .at = found.loop->regions[0]->first};
    agent->lane = t->n_lanes;
    const char *name = alone              ? "all warps"
                       : found.multiplies ? "consumer"
                       : found.copies     ? "producer"
                                          : "role";
    t->lanes[t->n_lanes++] = (Lane){.name = name};
    begin_groups(agent, s->latency);
    return true;
}

static void find_roles(Op *op, void *user)
{
    const Op **found = user;
    *found = op->kind == OP_ROLES ? op : *found;
}

static bool add_agents(Simulation *s)
{
    const Op *roles = NULL;
    Block *body = s->launch->op->regions[0];
    block_walk(body, find_roles, &roles);
    if (!roles) {
        Busiest found = {0};
        block_walk(body, find_loop, &found);
        return found.copies && add_agent(s, body, true);
    }
    const Attr *teams = op_attr(roles, ATTR_TEAMS);
    for (int i = 0; i < roles->n_regions; i++) {
        if (teams && teams->ints[i] > 1) {
            return false;
        }
        add_agent(s, roles->regions[i], false);
    }
    return s->n_agents > 1;
}

/* ---- the whole ---- */

static bool run(Simulation *s)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < s->n_agents; i++) {
            moved = advance(s, &s->agents[i]) || moved;
        }
    }
    Timeline *t = s->timeline;
    for (int i = 0; i < s->n_agents; i++) {
        const Agent *agent = &s->agents[i];
        double steady = agent->time - agent->settled;
        if (agent->step < STEPS || steady <= 0) {
            return false;
        }
        double period = steady / (STEPS - STEPS / 2);
        t->period = period > t->period ? period : t->period;
        for (SpanKind kind = 0; kind < N_SPAN; kind++) {
            t->lanes[agent->lane].share[kind] = agent->spent[kind] / steady;
        }
    }
    return true;
}

bool timeline_make(const Report *report, const LaunchReport *launch, Timeline *timeline)
{
    *timeline = (Timeline){.n_lanes = LANE_ROLES, .n_steps = DRAWN};
    timeline->lanes[LANE_COPIES].name = "copies";
    timeline->lanes[LANE_PRODUCTS].name = "products";
    Simulation s = {.report = report, .launch = launch, .timeline = timeline};
    s.card = report->card;
    if (!s.card || !launch->op) {
        return false;
    }
    s.latency = s.card->memory_latency * 1e-9 * s.card->matrix_clock * 1e6;
    return add_agents(&s) && run(&s);
}
