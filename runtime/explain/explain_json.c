/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report as one JSON object (RFC 8259). */
#include "runtime/explain/explain_report.h"

#include <math.h>
#include <string.h>

typedef struct Json {
    Text *out;
    bool first; /* of the object or list that is open */
} Json;

static void key(Json *j, const char *name)
{
    text_add(j->out, j->first ? "" : ", ");
    j->first = false;
    if (name) {
        text_printf(j->out, "\"%s\": ", name);
    }
}

static void open(Json *j, const char *name, char with)
{
    key(j, name);
    text_char(j->out, with);
    j->first = true;
}

static void close(Json *j, char with)
{
    text_char(j->out, with);
    j->first = false;
}

static void words(Json *j, const char *name, const char *text)
{
    key(j, name);
    text_json(j->out, text ? text : "", text ? strlen(text) : 0);
}

static void integer(Json *j, const char *name, int64_t value)
{
    key(j, name);
    text_printf(j->out, "%lld", (long long)value);
}

/* Counts are whole; what samples stand for may not be. */
static void number(Json *j, const char *name, double value)
{
    key(j, name);
    if (value == rint(value) && fabs(value) < 1e15) {
        text_printf(j->out, "%.0f", value);
    } else {
        text_printf(j->out, "%.6g", value);
    }
}

static void flag(Json *j, const char *name, bool value)
{
    key(j, name);
    text_add(j->out, value ? "true" : "false");
}

static void access(Json *j, const Report *report, const AccessReport *at)
{
    open(j, NULL, '{');
    words(j, "kind", traffic_name(at->kind));
    words(j, "op", at->what);
    words(j, "memory", at->memory);
    integer(j, "line", at->line);
    integer(j, "bytes", at->bytes);
    words(j, "why_width", at->why_width);
    words(j, "guard", at->guard);
    if (report->sized) {
        number(j, "requests", at->requests);
        if (traffic_is_shared(at->kind)) {
            number(j, "wavefronts", at->wavefronts);
            number(j, "conflicts", at->wavefronts - at->least_turns);
        } else {
            number(j, "sectors", at->sectors);
            number(j, "least_sectors", at->least_sectors);
        }
        number(j, "moved", at->moved);
        flag(j, "assumed", at->assumed);
    }
    close(j, '}');
}

static void totals(Json *j, const LaunchReport *launch)
{
    static const char *const names[N_TRAFFIC] = {
        "load",          "store",     "atomic",     "shared_load", "shared_store",
        "shared_atomic", "bulk_load", "bulk_store", "copy",
    };
    open(j, "totals", '{');
    for (int kind = 0; kind < N_TRAFFIC; kind++) {
        open(j, names[kind], '{');
        number(j, "requests", LAUNCH_TOTAL(launch, (Traffic)kind, requests));
        if (traffic_is_shared((Traffic)kind)) {
            double turns = LAUNCH_TOTAL(launch, (Traffic)kind, wavefronts);
            number(j, "wavefronts", turns);
            number(j, "conflicts", turns - LAUNCH_TOTAL(launch, (Traffic)kind, least_turns));
        } else {
            number(j, "sectors", LAUNCH_TOTAL(launch, (Traffic)kind, sectors));
        }
        close(j, '}');
    }
    close(j, '}');
}

static void occupancy(Json *j, const Occupancy *o)
{
    open(j, "occupancy", '{');
    integer(j, "blocks", o->resident);
    integer(j, "warps", o->warps);
    number(j, "share", o->share);
    words(j, "limiter", limit_name(o->limit));
    integer(j, "by_warps", o->blocks[LIMIT_WARPS]);
    integer(j, "by_blocks", o->blocks[LIMIT_BLOCKS]);
    integer(j, "by_registers", o->blocks[LIMIT_REGISTERS]);
    integer(j, "by_shared", o->blocks[LIMIT_SHARED]);
    number(j, "rounds", o->waves);
    close(j, '}');
}

static void roofline(Json *j, const LaunchReport *launch)
{
    const Roofline *r = &launch->roofline;
    open(j, "roofline", '{');
    number(j, "matrix_flops", r->matrix_flops);
    number(j, "flops", r->flops);
    number(j, "read_bytes", r->read);
    number(j, "written_bytes", r->written);
    number(j, "asked_read_bytes", r->asked_read);
    number(j, "memory_read_bytes", r->memory_read);
    number(j, "memory_written_bytes", r->memory_written);
    number(j, "asked_written_bytes", r->asked_written);
    number(j, "intensity", r->intensity);
    number(j, "memory_seconds", r->memory_seconds);
    number(j, "compute_seconds", r->compute_seconds);
    words(j, "bound", r->memory_bound ? "memory" : "compute");
    close(j, '}');
}

static void product(Json *j, const ProductReport *p)
{
    open(j, "product", '{');
    words(j, "unit", p->unit ? p->unit : "");
    integer(j, "rows", p->m);
    integer(j, "columns", p->n_columns);
    integer(j, "slots", p->slots);
    integer(j, "slot_bytes", p->slot_bytes);
    if (p->limiter) {
        words(j, "expected", p->modelled ? "by the model" : "at most");
        integer(j, "tiles", p->tiles);
        number(j, "waves", p->waves);
        number(j, "idle_in_last_wave", p->tail);
        number(j, "expected_share", p->share);
        words(j, "limiter", p->limiter);
    }
    close(j, '}');
}

static void buffers(Json *j, const LaunchReport *launch)
{
    open(j, "buffers", '[');
    for (size_t i = 0; i < launch->buffers.n; i++) {
        const BufferReport *at = &launch->buffers.items[i];
        open(j, NULL, '{');
        words(j, "name", at->name);
        integer(j, "offset", at->offset);
        integer(j, "bytes", at->bytes);
        integer(j, "slots", at->slots);
        integer(j, "swizzle", at->swizzle);
        close(j, '}');
    }
    close(j, ']');
}

static void launch_json(Json *j, const Report *report, const LaunchReport *launch)
{
    open(j, NULL, '{');
    words(j, "symbol", launch->plan->symbol);
    words(j, "tiles", launch->tiles);
    words(j, "why", launch->why);
    integer(j, "blocks", launch->blocks);
    integer(j, "threads", launch->plan->threads);
    if (launch->plan->workers > 0) {
        integer(j, "at_once", launch->plan->workers);
    }
    if (launch->plan->cluster > 1) {
        integer(j, "cluster", launch->plan->cluster);
    }
    integer(j, "shared_bytes", launch->shared_bytes);
    flag(j, "persistent", launch->plan->persistent);
    if (launch->assembled) {
        integer(j, "registers", launch->assembled->registers);
        integer(j, "spilled_bytes", launch->assembled->spilled);
    }
    if (launch->occupancy.known) {
        occupancy(j, &launch->occupancy);
    }
    if (report->sized) {
        roofline(j, launch);
        totals(j, launch);
    }
    if (launch->predicted > 0) {
        number(j, "predicted_seconds", launch->predicted);
        words(j, "predicted_limiter", launch->limiter);
    }
    if (launch->product.op) {
        product(j, &launch->product);
    }
    flag(j, "uncertain", launch->uncertain);
    flag(j, "trip_count_is_data", launch->data_loops);
    open(j, "accesses", '[');
    for (size_t i = 0; i < launch->accesses.n; i++) {
        access(j, report, &launch->accesses.items[i]);
    }
    close(j, ']');
    buffers(j, launch);
    open(j, "advice", '[');
    for (size_t i = 0; i < launch->advice.n; i++) {
        words(j, NULL, launch->advice.items[i]);
    }
    close(j, ']');
    close(j, '}');
}

void report_json(const Report *report, Text *out)
{
    const Func *func = report->input->func;
    Json j = {.out = out, .first = true};
    open(&j, NULL, '{');
    words(&j, "kernel", func->name);
    words(&j, "target", report->target->name);
    words(&j, "part", report->part ? report->part->name : "");
    words(&j, "schedule", report->input->schedule);
    words(&j, "variant", report->input->variant);
    open(&j, "sizes", '{');
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        if (var->kind == DIM_SIZE && report->input->sizes[i] >= 0) {
            integer(&j, var->name, report->input->sizes[i]);
        }
    }
    close(&j, '}');
    open(&j, "launches", '[');
    for (int i = 0; i < report->n_launches; i++) {
        launch_json(&j, report, &report->launches[i]);
    }
    close(&j, ']');
    close(&j, '}');
    text_char(out, '\n');
}
