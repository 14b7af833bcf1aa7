/* SPDX-License-Identifier: Apache-2.0 */
/* What to try next: what costs most first. */
#include "runtime/explain/resources.h"

#include "passes/analysis/width.h"
#include "runtime/explain/words.h"

enum { MOST_ADVICE = 5 };

static void say(const Report *report, LaunchReport *launch, const char *words)
{
    for (size_t i = 0; i < launch->advice.n; i++) {
        if (text_same(launch->advice.items[i], words)) {
            return;
        }
    }
    if (launch->advice.n < MOST_ADVICE) {
        ARENA_PUSH(report->input->func->arena, &launch->advice, words);
    }
}

static const char *place(const Report *report, const AccessReport *at)
{
    return at->line ? arena_printf(report->input->func->arena, "line %d: ", at->line) : "";
}

static void spills(const Report *report, LaunchReport *launch)
{
    if (launch->assembled && launch->assembled->spilled > 0) {
        say(report, launch,
            arena_printf(report->input->func->arena,
                         "registers spill %d bytes a thread: smaller tiles (--schedule \"tile …\") "
                         "or fewer blocks a %s (\"blocks …\")",
                         launch->assembled->spilled, unit_words(report->target)));
    }
}

/* Of those that move the same array: one is enough to be told of. */
static bool is_greatest(const LaunchReport *launch, const AccessReport *at)
{
    for (size_t i = 0; i < launch->accesses.n; i++) {
        const AccessReport *other = &launch->accesses.items[i];
        bool alike = other->value == at->value && other->kind == at->kind;
        double more = other->sectors + other->turns - at->sectors - at->turns;
        if (alike && (more > 0 || (more == 0 && other < at))) {
            return false;
        }
    }
    return true;
}

static void sectors(const Report *report, LaunchReport *launch, const AccessReport *at)
{
    Arena *arena = report->input->func->arena;
    double times = at->least_sectors > 0 ? at->sectors / at->least_sectors : 1;
    if (times < 1.3 || at->assumed || traffic_is_shared(at->kind) || !is_greatest(launch, at)) {
        return;
    }
    const char *what = at->op->kind == OP_GATHER && an_width(report->input->func, at->op) == 1
                           ? "its places are computed, so that a thread takes an element at a "
                             "time: a plain index or a slice takes several"
                           : "neighbouring threads should take neighbours in memory, along the "
                             "last axis, in rows that begin at multiples of a sector";
    say(report, launch,
        arena_printf(arena, "%s%s of %s moves %.1f times the sectors that its bytes need: %s",
                     place(report, at), traffic_name(at->kind), at->memory, times, what));
}

static void narrow(const Report *report, LaunchReport *launch, const AccessReport *at)
{
    const Op *op = at->op;
    if ((op->kind != OP_LOAD && op->kind != OP_STORE) || at->bytes >= 8 || at->requests < 1 ||
        !is_greatest(launch, at)) {
        return;
    }
    Access access = op_access(op, 0);
    int last = access.n - 1;
    if (access.n < 1 || !access.indices[last] || access.indices[last]->type->kind != TYPE_RANGE ||
        an_width(report->input->func, op) > (int)op_int(op, ATTR_VECTOR, 1)) {
        return;
    }
    Dim extent = access.memory->type->dims[last];
    int per = report->target->vector_bytes / dtype_bytes(access.memory->type->dtype);
    if (poly_as_var(extent) && poly_divisor(extent) % per) {
        const char *name = dim_words(report->input->func, extent);
        say(report, launch,
            arena_printf(report->input->func->arena,
                         "%s%s of %s takes %d bytes a thread: where %s is a multiple of %d, say so "
                         "(--assume \"%s %% %d == 0\")",
                         place(report, at), traffic_name(at->kind), at->memory, at->bytes, name,
                         per, name, per));
    }
}

static void conflicts(const Report *report, LaunchReport *launch, const AccessReport *at)
{
    if (traffic_is_shared(at->kind) && at->turns > 1.3 * at->least_turns &&
        is_greatest(launch, at)) {
        say(report, launch,
            arena_printf(report->input->func->arena,
                         "%s%s of %s takes %.1f times the turns of shared memory that it would "
                         "without conflicts of banks: another tile, or other warps, change the "
                         "layout",
                         place(report, at), traffic_name(at->kind), at->memory,
                         at->turns / at->least_turns));
    }
}

/* Starting a launch takes longer. */
static bool is_small(const LaunchReport *launch)
{
    static const double START_SECONDS = 2e-6;
    const Roofline *r = &launch->roofline;
    return r->memory_seconds < START_SECONDS && r->compute_seconds < START_SECONDS;
}

static void grid(const Report *report, LaunchReport *launch)
{
    const Occupancy *o = &launch->occupancy;
    Arena *arena = report->input->func->arena;
    double rest = o->waves - (double)(int64_t)o->waves;
    if (is_small(launch)) {
        return;
    }
    if (launch->blocks > 0 && launch->blocks < report->target->units) {
        say(report, launch,
            arena_printf(arena,
                         "%lld block%s leave%s %lld of %d %ss idle: smaller tiles, or more "
                         "`shares` of an axis that is folded",
                         (long long)launch->blocks, launch->blocks == 1 ? "" : "s",
                         launch->blocks == 1 ? "s" : "",
                         (long long)(report->target->units - launch->blocks), report->target->units,
                         unit_words(report->target)));
    } else if (!launch->plan->persistent && o->waves > 1 && o->waves < 4 && rest > 0 &&
               rest < 0.5) {
        say(report, launch,
            arena_printf(arena,
                         "%.2f rounds of resident blocks: the last one fills %.0f %% of the device "
                         "(another tile, or `persistent on`)",
                         o->waves, 100 * rest));
    }
}

static void reuse(const Report *report, LaunchReport *launch)
{
    const Roofline *r = &launch->roofline;
    /* caches give a few times what memory does */
    double from_caches = r->asked_read / (3 * report->part->memory * 1e9);
    if (r->read > 0 && r->asked_read > 4 * r->read && !is_small(launch) &&
        from_caches > r->compute_seconds && from_caches > r->memory_seconds) {
        say(report, launch,
            arena_printf(report->input->func->arena,
                         "inputs are asked for %.1f times over, of caches as far as they fit: "
                         "larger tiles read them less often",
                         r->asked_read / r->read));
    }
}

/* The roofline bounds nothing that the model expects to take many times as long: FLOP are not all
 * that warps issue. */
static bool is_far(const LaunchReport *launch, double *times)
{
    const Roofline *r = &launch->roofline;
    double least = r->memory_seconds > r->compute_seconds ? r->memory_seconds : r->compute_seconds;
    *times = launch->predicted / least;
    bool modelled = r->matrix_flops > r->flops && launch->product.modelled;
    return !modelled && launch->predicted > 4 * least;
}

static void bound(const Report *report, LaunchReport *launch)
{
    const Roofline *r = &launch->roofline;
    double times;
    if (!report->sized || is_small(launch)) {
        return;
    }
    if (is_far(launch, &times)) {
        say(report, launch,
            arena_printf(report->input->func->arena,
                         "far from the roofline: the model expects %.0f times the least time; "
                         "instructions, idle %ss or what a step waits for cost more than %s",
                         times, unit_words(report->target),
                         r->memory_bound ? "memory" : "arithmetic"));
    } else if (r->memory_bound) {
        say(report, launch,
            "bound by memory: what would make it faster is fewer bytes, by a narrower type or by "
            "fusing with what makes or takes these arrays");
    } else if (r->matrix_flops > r->flops && launch->product.modelled) {
        say(report, launch,
            arena_printf(report->input->func->arena,
                         "bound by the matrix units, %.0f %% of whose rate is expected: limited by "
                         "%s (tile, shares, pipeline)",
                         100 * launch->product.share, launch->product.limiter));
    } else if (r->matrix_flops > r->flops) {
        say(report, launch,
            "bound by the matrix units: what `tessera bench` measures beyond this bound is filling "
            "and draining pipelines, and work beside products (tile, pipeline, warps)");
    } else if (report->input->product_flops > r->flops / 2) {
        say(report, launch,
            "bound by products on the ordinary units: 16-bit operands (T=bf16) use the matrix "
            "units where the target has them");
    } else {
        say(report, launch,
            "bound by arithmetic: what would make it faster is cheaper functions (`fast.exp`)");
    }
}

void advice_make(const Report *report, LaunchReport *launch)
{
    if (!report->part) {
        return;
    }
    spills(report, launch);
    for (size_t i = 0; i < launch->accesses.n; i++) {
        sectors(report, launch, &launch->accesses.items[i]);
        conflicts(report, launch, &launch->accesses.items[i]);
    }
    for (size_t i = 0; i < launch->accesses.n; i++) {
        narrow(report, launch, &launch->accesses.items[i]);
    }
    grid(report, launch);
    reuse(report, launch);
    bound(report, launch);
}
