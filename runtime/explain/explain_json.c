/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the report as one JSON object (RFC 8259). */
#include "runtime/explain/explain_occupancy.h"

#include <math.h>
#include <stddef.h>
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
            number(j, "conflicts", at->wavefronts - at->least_wavefronts);
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
            number(j, "conflicts", turns - LAUNCH_TOTAL(launch, (Traffic)kind, least_wavefronts));
        } else {
            number(j, "sectors", LAUNCH_TOTAL(launch, (Traffic)kind, sectors));
        }
        close(j, '}');
    }
    close(j, '}');
}

/* ---- records ---- */

/* One member of a record: its key, and where and of which type it is in the struct. */
typedef enum FieldType { FIELD_TEXT, FIELD_INT, FIELD_INT64, FIELD_NUMBER } FieldType;
typedef struct Field {
    const char *key;
    size_t offset;
    FieldType type;
} Field;
#define TYPE_OF(member)                                                                            \
    _Generic((member),                                                                             \
        const char *: FIELD_TEXT,                                                                  \
        int: FIELD_INT,                                                                            \
        int64_t: FIELD_INT64,                                                                      \
        double: FIELD_NUMBER)
#define FIELD(key, record, member)                                                                 \
    {                                                                                              \
        key, offsetof(record, member), TYPE_OF(((record *)0)->member)                              \
    }

static const Field OCCUPANCY[] = {
    FIELD("blocks", Occupancy, resident),
    FIELD("warps", Occupancy, warps),
    FIELD("share", Occupancy, share),
    FIELD("by_warps", Occupancy, blocks[LIMIT_WARPS]),
    FIELD("by_blocks", Occupancy, blocks[LIMIT_BLOCKS]),
    FIELD("by_registers", Occupancy, blocks[LIMIT_REGISTERS]),
    FIELD("by_shared", Occupancy, blocks[LIMIT_SHARED]),
    FIELD("rounds", Occupancy, waves),
};

static const Field ROOFLINE[] = {
    FIELD("matrix_flops", Roofline, matrix_flops),
    FIELD("flops", Roofline, flops),
    FIELD("read_bytes", Roofline, read),
    FIELD("written_bytes", Roofline, written),
    FIELD("asked_read_bytes", Roofline, asked_read),
    FIELD("partly_written_bytes", Roofline, written_in_parts),
    FIELD("memory_read_bytes", Roofline, memory_read),
    FIELD("memory_written_bytes", Roofline, memory_written),
    FIELD("asked_written_bytes", Roofline, asked_written),
    FIELD("intensity", Roofline, intensity),
    FIELD("memory_seconds", Roofline, memory_seconds),
    FIELD("compute_seconds", Roofline, compute_seconds),
};

static const Field PRODUCT[] = {
    FIELD("unit", ProductReport, unit),
    FIELD("rows", ProductReport, m),
    FIELD("columns", ProductReport, n_columns),
    FIELD("slots", ProductReport, slots),
    FIELD("slot_bytes", ProductReport, slot_bytes),
};

static const Field EXPECTED[] = {
    FIELD("tiles", ProductReport, tiles),
    FIELD("waves", ProductReport, waves),
    FIELD("idle_in_last_wave", ProductReport, tail),
    FIELD("expected_share", ProductReport, share),
    FIELD("limiter", ProductReport, limiter),
    FIELD("step_cycles", ProductReport, cost.step),
};

static const Field BUFFER[] = {
    FIELD("name", BufferReport, name),       FIELD("offset", BufferReport, offset),
    FIELD("bytes", BufferReport, bytes),     FIELD("slots", BufferReport, slots),
    FIELD("swizzle", BufferReport, swizzle),
};

static void put_fields(Json *j, const Field *fields, size_t n, const void *record)
{
    for (size_t i = 0; i < n; i++) {
        const void *at = (const char *)record + fields[i].offset;
        switch (fields[i].type) {
        case FIELD_TEXT: words(j, fields[i].key, *(const char *const *)at); break;
        case FIELD_INT: integer(j, fields[i].key, *(const int *)at); break;
        case FIELD_INT64: integer(j, fields[i].key, *(const int64_t *)at); break;
        case FIELD_NUMBER: number(j, fields[i].key, *(const double *)at); break;
        }
    }
}
#define PUT_FIELDS(j, fields, record)                                                              \
    put_fields((j), (fields), sizeof(fields) / sizeof *(fields), (record))

static void occupancy(Json *j, const Occupancy *o)
{
    open(j, "occupancy", '{');
    PUT_FIELDS(j, OCCUPANCY, o);
    words(j, "limiter", limit_name(o->limit));
    close(j, '}');
}

static void roofline(Json *j, const Roofline *r)
{
    open(j, "roofline", '{');
    PUT_FIELDS(j, ROOFLINE, r);
    words(j, "bound", r->memory_bound ? "memory" : "compute");
    close(j, '}');
}

static void time_parts(Json *j, const char *name, const TimePart *parts, int n)
{
    open(j, name, '[');
    for (int i = 0; i < n; i++) {
        open(j, NULL, '{');
        words(j, "what", parts[i].what);
        number(j, "seconds", parts[i].seconds);
        close(j, '}');
    }
    close(j, ']');
}

static void product(Json *j, const ProductReport *p)
{
    open(j, "product", '{');
    PUT_FIELDS(j, PRODUCT, p);
    if (p->limiter) {
        words(j, "expected", p->modelled ? "by the model" : "at most");
        PUT_FIELDS(j, EXPECTED, p);
    }
    close(j, '}');
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
    open(j, "code", '{');
    integer(j, "bytes", launch->code_bytes);
    integer(j, "warps", warps_that_compute(launch));
    number(j, "loop_instructions", launch->loop.instructions);
    number(j, "loop_loads", launch->loop.loads);
    number(j, "loop_shared_stores", launch->loop.shared_stores);
    close(j, '}');
    if (launch->assembled) {
        integer(j, "registers", launch->assembled->registers);
        integer(j, "spilled_bytes", launch->assembled->spilled);
    }
    if (launch->occupancy.known) {
        occupancy(j, &launch->occupancy);
    }
    if (report->sized) {
        roofline(j, &launch->roofline);
        totals(j, launch);
    }
    if (launch->predicted > 0) {
        number(j, "predicted_seconds", launch->predicted);
        words(j, "predicted_limiter", launch->limiter);
        time_parts(j, "predicted_parts", launch->course.parts, launch->course.n_parts);
        time_parts(j, "predicted_alone", launch->course.alone, launch->course.n_alone);
    }
    if (launch->product.op) {
        product(j, &launch->product);
    }
    flag(j, "uncertain", launch->uncertain);
    flag(j, "sampled_coarsely", launch->coarse || launch->untraced);
    flag(j, "trip_count_is_data", launch->data_loops);
    open(j, "accesses", '[');
    for (size_t i = 0; i < launch->accesses.n; i++) {
        access(j, report, &launch->accesses.items[i]);
    }
    close(j, ']');
    open(j, "buffers", '[');
    for (size_t i = 0; i < launch->buffers.n; i++) {
        open(j, NULL, '{');
        PUT_FIELDS(j, BUFFER, &launch->buffers.items[i]);
        close(j, '}');
    }
    close(j, ']');
    open(j, "notes", '[');
    for (size_t i = 0; i < launch->notes.n; i++) {
        words(j, NULL, launch->notes.items[i].text);
    }
    close(j, ']');
    close(j, '}');
}

static void hint_json(Json *j, const Hint *hint)
{
    open(j, NULL, '{');
    words(j, "kind", hint_kind_name(hint->kind));
    words(j, "line", hint->line);
    number(j, "predicted_seconds", hint->before);
    number(j, "predicted_seconds_with", hint->after);
    open(j, "edits", '[');
    for (int i = 0; i < hint->n_edits; i++) {
        const Edit *edit = &hint->edits[i];
        open(j, NULL, '{');
        integer(j, "start", edit->span.start);
        integer(j, "end", edit->span.end);
        words(j, "was", edit->was);
        words(j, "text", edit->text);
        close(j, '}');
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
    words(&j, "part", report->card ? report->card->title : "");
    words(&j, "card", report->target->machine->name);
    words(&j, "schedule", report->input->schedule);
    words(&j, "variant", report->input->variant);
    words(&j, "nominal", report->nominal ? report->nominal : "");
    words(&j, "fact", report->fact ? report->fact : "");
    integer(&j, "retries", func->retries.n);
    words(&j, "retried_for", func->retries.why);
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
    open(&j, "hints", '[');
    for (size_t i = 0; i < report->hints.n; i++) {
        hint_json(&j, &report->hints.items[i]);
    }
    close(&j, ']');
    close(&j, '}');
    text_char(out, '\n');
}
