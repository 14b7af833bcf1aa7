/* SPDX-License-Identifier: Apache-2.0 */
/* Simulates the ops of the pipelined loops of all roles step by step, with durations from the rates
 * of the card, and records when each begins and ends. The phase of an mbarrier completes when all
 * of its arrivals have happened; a role that waits for it stops until then, and the others
 * continue. The warp groups of a consumer are simulated separately: they share the matrix unit and
 * the lanes, and each has its part of the tile.
 *
 * The rates alone do not include the interference between units, which the model that predicts the
 * launch's time does. Therefore all durations are stretched until a step takes as long in the
 * steady state as that model predicts; latencies are stretched only if they alone determine the
 * step. */
#include "runtime/explain/explain_timeline.h"

#include "ir/build.h"
#include "ir/target/machine.h"
#include "runtime/explain/explain_occupancy.h"

#include <math.h>

enum { MAX_AGENTS = MAX_LANES_DRAWN - LANE_ROLES, MAX_BARS = 24, STEPS = 16, DRAWN = 6 };
enum { MAX_DOTS = 16, MAX_GROUPS = 4 * STEPS };
enum { HALVINGS = 40, MAX_STRETCH = 64 };
static const double CLOSE = 1e-4, MIN_STRETCH = 1e-3; /* of the expected period; of the rates */

typedef struct Bar {
    const Value *value;
    int arrivals;           /* of a phase */
    double came[STEPS + 1]; /* a warp group's arrival is a part of its role's */
    double done[STEPS + 1];
} Bar;

/* A role, or a block without roles, in its hot loop. */
typedef struct Agent {
    const Op *loop, *at;
    int step, lane;
    double part;           /* of the role's tile */
    bool waits;            /* for another role */
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
    double stretch, latency, copies_free, unit_free, lanes_free;
    Agent agents[MAX_AGENTS];
    int n_agents, teams;
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
    bool matrix = mma_of_dot(s->report->target, op) != NULL;
    double rate = matrix ? machine_product(s->card, bytes) : 2.0 * s->card->lanes;
    return s->stretch * flops / rate;
}

static double work_cycles(const Simulation *s, const Op *op)
{
    Type type = op->n_results ? op->results[0]->type : NULL;
    if (op->kind == OP_REDUCE) {
        type = op->operands[0]->type;
    } else if (!op_has(op, TRAIT_ELEMENTWISE)) {
        return 0;
    }
    return type && type->kind == TYPE_ARRAY && type->rank > 0
               ? s->stretch * groups_work(s->card, capacity_of(type, 0))
               : 0;
}

static double copy_cycles(const Simulation *s, const Op *op)
{
    const Value *to = op_access_nth(op, 1).memory;
    for (size_t i = 0; i < s->launch->buffers.n; i++) {
        const BufferReport *buffer = &s->launch->buffers.items[i];
        if (buffer->value == to) {
            return s->stretch * (double)buffer->bytes / (buffer->slots > 0 ? buffer->slots : 1) /
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
    const Op *def = value_def_of_kind(value, OP_MBARRIER);
    s->bars[s->n_bars] =
        (Bar){.value = value, .arrivals = def ? (int)op_int(def, ATTR_ARRIVALS, 1) : 1};
    return &s->bars[s->n_bars++];
}

/* The phase that an op of this step means: its ring index may be that of the step before. */
static int phase_of(const Op *op, int at, int step)
{
    return at < op->n_operands && value_def_of_kind(op->operands[at], OP_SUB) ? step - 1 : step;
}

static void arrive(Simulation *s, const Value *value, int phase, double time, double part)
{
    Bar *bar = bar_of(s, value);
    if (bar && phase >= 0 && phase <= STEPS) {
        bar->came[phase] += part;
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
    if (bar->came[phase] < bar->arrivals - CLOSE) {
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
    int of_step = op->kind == OP_BULK_LOAD ? agent->step : agent->n_groups;
    add_span(s, SPAN_COPY, LANE_COPIES, of_step, begins, begins + takes, what);
    s->copies_free = begins + takes;
    if (op->kind == OP_BULK_LOAD) {
        Access bar = op_access_nth(op, 2);
        arrive(s, bar.memory, phase_of(op, bar.at + 1, agent->step), lands, agent->part);
    } else {
        agent->copied = lands > agent->copied ? lands : agent->copied;
    }
}

static void run_dot(Simulation *s, Agent *agent, const Op *op)
{
    double begins = agent->time > s->unit_free ? agent->time : s->unit_free;
    double ends = begins + agent->part * product_cycles(s, op);
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

static void run_work(Simulation *s, Agent *agent, const Op *op)
{
    double takes = agent->part * work_cycles(s, op);
    if (takes > 0) {
        double begins = agent->time > s->lanes_free ? agent->time : s->lanes_free;
        spend_until(s, agent, SPAN_WATCH, begins, "the lanes");
        s->lanes_free = begins + takes;
        spend_until(s, agent, SPAN_WORK, s->lanes_free, "work on elements");
    }
}

/* False: it has to wait for another role. */
static bool run_op(Simulation *s, Agent *agent, const Op *op)
{
    switch (op->kind) {
    case OP_WAIT: return run_wait(s, agent, op);
    case OP_ARRIVE:
        arrive(s, op->operands[0], phase_of(op, 1, agent->step), agent->time, agent->part);
        break;
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
    default: run_work(s, agent, op); break;
    }
    return true;
}

/* The op behind `op` in the loop, into the first region of an `if`, or of a loop of one round, and
 * out of it; NULL: the step's end. */
static const Op *next_op(const Agent *agent, const Op *op)
{
    bool enters = op->kind == OP_IF || (op->kind == OP_FOR && op_int(op, ATTR_SINGLE_TRIP, 0));
    if (enters && op->regions[0]->first) {
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

/* The role's next op; others may then continue. */
static void advance(Simulation *s, Agent *agent)
{
    agent->waits = !run_op(s, agent, agent->at);
    if (agent->waits) {
        return;
    }
    for (int i = 0; i < s->n_agents; i++) {
        s->agents[i].waits = false;
    }
    agent->at = next_op(agent, agent->at);
    if (!agent->at) {
        bool multiplies = agent->n_dots > 0;
        agent->time += multiplies ? s->stretch * s->card->step_overhead : 0;
        agent->step++;
        agent->settled = agent->step == STEPS / 2 ? agent->time : agent->settled;
        agent->at = agent->loop->regions[0]->first;
    }
}

/* The one that is least far in time, so that units serve who asks first; NULL: all wait or end. */
static Agent *next_agent(Simulation *s)
{
    Agent *next = NULL;
    for (int i = 0; i < s->n_agents; i++) {
        Agent *agent = &s->agents[i];
        bool ready = agent->step < STEPS && !agent->waits;
        next = ready && (!next || agent->time < next->time) ? agent : next;
    }
    return next;
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

typedef struct Copier {
    Simulation *simulation;
    Agent *agent;
} Copier;

static void copy_before(Op *op, void *user)
{
    Copier *copier = user;
    if (op->kind == OP_COPY_LOAD) {
        run_copy(copier->simulation, copier->agent, op);
    }
}

/* What was copied before the loop, as its steps copy: what the first wait in it leaves open, and
 * the first step. */
static void begin_groups(Simulation *s, Agent *agent)
{
    Copier copier = {s, agent};
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
        block_walk(agent->loop->regions[0], copy_before, &copier);
        agent->groups[agent->n_groups++] = agent->copied;
    }
}

static const char *role_name(const Simulation *s, const Busiest *found, int nth, int n)
{
    if (found->multiplies && s->teams > 1 && n == 1) {
        return "team 1";
    }
    if (n > 1) {
        Text name = text_new(s->report->input->func->arena);
        text_printf(&name, "consumer %d", nth + 1);
        return name.data;
    }
    if (found->multiplies) {
        return "consumer";
    }
    return found->copies ? "producer" : "role";
}

/* A role in `block` of this many warps, 0: of all; false: it has no such loop, which is no reason
 * to give up. */
static bool add_agents_of(Simulation *s, Block *block, int64_t warps)
{
    Busiest found = {0};
    block_walk(block, find_loop, &found);
    int64_t groups = s->report->target->group_warps > 0 && found.multiplies
                         ? warps / s->report->target->group_warps
                         : 1;
    int n = groups > 1 ? (int)groups : 1;
    if (!found.loop || s->n_agents + n > MAX_AGENTS) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        Timeline *t = s->timeline;
        Agent *agent = &s->agents[s->n_agents++];
        *agent = (Agent){.loop = found.loop,
                         .at = found.loop->regions[0]->first,
                         .lane = t->n_lanes,
                         .part = 1.0 / n};
        const char *name = warps > 0 ? role_name(s, &found, i, n) : "all warps";
        t->lanes[t->n_lanes++] = (Lane){.name = name};
        begin_groups(s, agent);
    }
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
        return found.copies && add_agents_of(s, body, 0);
    }
    const Attr *teams = op_attr(roles, ATTR_TEAMS), *warps = op_attr(roles, ATTR_WARPS);
    for (int i = 0; i < roles->n_regions; i++) {
        s->teams = teams && teams->ints[i] > 1 ? (int)teams->ints[i] : 1;
        add_agents_of(s, roles->regions[i], warps->ints[i] / s->teams);
    }
    return s->n_agents > 1;
}

/* ---- the whole ---- */

static bool run(Simulation *s)
{
    for (Agent *agent; (agent = next_agent(s));) {
        advance(s, agent);
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

/* Teams take turns with whole tiles: while the first one multiplies, the others wait for theirs.
 * False: they would come before what is drawn is over. */
static bool add_idle_teams(Simulation *s)
{
    Timeline *t = s->timeline;
    double end = 0;
    for (size_t i = 0; i < t->spans.n; i++) {
        end = fmax(end, t->spans.items[i].upto);
    }
    if (s->teams > 1 && loop_iterations(s->report, s->agents[s->n_agents - 1].loop) < DRAWN) {
        return false;
    }
    for (int i = 1; i < s->teams && t->n_lanes < MAX_LANES_DRAWN; i++) {
        Text name = text_new(s->report->input->func->arena);
        text_printf(&name, "team %d", i + 1);
        add_span(s, SPAN_WATCH, t->n_lanes, 0, 0, end, "its turn, with the next tile");
        t->lanes[t->n_lanes++] = (Lane){.name = name.data, .idle = true};
    }
    return true;
}

/* `stretch`: of what keeps units busy; `latency`: of the device's. */
static bool simulate(const Report *report, const LaunchReport *launch, double stretch,
                     double latency, Timeline *timeline)
{
    *timeline = (Timeline){.n_lanes = LANE_ROLES, .n_steps = DRAWN};
    timeline->lanes[LANE_COPIES].name = "copies";
    timeline->lanes[LANE_PRODUCTS].name = "products";
    Simulation s = {.report = report, .launch = launch, .timeline = timeline, .stretch = stretch};
    s.card = report->card;
    s.latency = latency * s.card->memory_latency * 1e-9 * s.card->matrix_clock * 1e6;
    return add_agents(&s) && run(&s) && add_idle_teams(&s);
}

/* The timeline, which is made by the rates alone, with the period that is wanted: it grows with the
 * stretch. */
static bool fit(const Report *report, const LaunchReport *launch, double wanted, Timeline *timeline)
{
    double low = MIN_STRETCH, high = MAX_STRETCH, alone = timeline->period;
    bool good = simulate(report, launch, low, 1, timeline);
    if (good && timeline->period > wanted) {
        return simulate(report, launch, wanted / alone, wanted / alone, timeline);
    }
    for (int i = 0; good && i < HALVINGS && fabs(timeline->period - wanted) > CLOSE * wanted; i++) {
        double middle = (low + high) / 2;
        good = simulate(report, launch, middle, 1, timeline);
        *(timeline->period < wanted ? &low : &high) = middle;
    }
    return good;
}

bool timeline_make(const Report *report, const LaunchReport *launch, Timeline *timeline)
{
    if (!report->card || !launch->op || !simulate(report, launch, 1, 1, timeline)) {
        return false;
    }
    double alone = timeline->period, clock = report->card->matrix_clock * 1e6;
    double places = ceil((double)launch->blocks / report->card->num_sms);
    double resident = fmax(1, fmin(launch->occupancy.resident, places));
    double wanted = launch->course.step_seconds * clock * resident;
    bool good = wanted <= 0 || fit(report, launch, wanted, timeline);
    timeline->alone = alone;
    timeline->clock = clock;
    timeline->resident = (int)resident;
    timeline->expected = wanted > 0;
    return good;
}
