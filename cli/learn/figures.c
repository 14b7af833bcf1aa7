/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the JSON of `explain` into launches and accesses, and evaluates the figures of figures.def
 * over them. */
#include "cli/learn/figures.h"
#include "cli/json_write.h"

#include "runtime/api/api_debug.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* NAN: explain does not say it. */
typedef struct Launch {
    double blocks, threads, registers, shared_bytes;
    double occupancy_blocks, occupancy_warps, occupancy_share;
    double product_tiles, product_waves, product_idle, product_slots, product_slot_bytes,
        bytes_in_flight;
    double read_bytes, written_bytes, asked_read_bytes, memory_read_bytes;
    double matrix_flops, lane_flops, all_flops, all_bytes;
    double memory_seconds, compute_seconds, least_seconds, predicted_seconds;
    double one; /* 1 */
    const char *limiter, *occupancy_limiter;
} Launch;

typedef struct Access {
    const char *kind, *memory;
    double bytes, requests, sectors, least_sectors, wavefronts, conflicts;
    double one; /* 1 */
} Access;

struct Figures {
    Launch *launches;
    size_t n_launches;
    Access *accesses;
    size_t n_accesses;
    Launch launch; /* the one that is being read */
    Access access;
    const char *schedule, *gpu;
};

/* ---- reading ---- */

enum { IN_LAUNCH, IN_ACCESS };

static const struct {
    const char *path;
    int in;
    size_t offset;
} NUMBERS[] = {
    {"launches.blocks", IN_LAUNCH, offsetof(Launch, blocks)},
    {"launches.threads", IN_LAUNCH, offsetof(Launch, threads)},
    {"launches.registers", IN_LAUNCH, offsetof(Launch, registers)},
    {"launches.shared_bytes", IN_LAUNCH, offsetof(Launch, shared_bytes)},
    {"launches.occupancy.blocks", IN_LAUNCH, offsetof(Launch, occupancy_blocks)},
    {"launches.occupancy.warps", IN_LAUNCH, offsetof(Launch, occupancy_warps)},
    {"launches.occupancy.share", IN_LAUNCH, offsetof(Launch, occupancy_share)},
    {"launches.product.tiles", IN_LAUNCH, offsetof(Launch, product_tiles)},
    {"launches.product.waves", IN_LAUNCH, offsetof(Launch, product_waves)},
    {"launches.product.idle_in_last_wave", IN_LAUNCH, offsetof(Launch, product_idle)},
    {"launches.product.slots", IN_LAUNCH, offsetof(Launch, product_slots)},
    {"launches.product.slot_bytes", IN_LAUNCH, offsetof(Launch, product_slot_bytes)},
    {"launches.roofline.read_bytes", IN_LAUNCH, offsetof(Launch, read_bytes)},
    {"launches.roofline.written_bytes", IN_LAUNCH, offsetof(Launch, written_bytes)},
    {"launches.roofline.asked_read_bytes", IN_LAUNCH, offsetof(Launch, asked_read_bytes)},
    {"launches.roofline.memory_read_bytes", IN_LAUNCH, offsetof(Launch, memory_read_bytes)},
    {"launches.roofline.matrix_flops", IN_LAUNCH, offsetof(Launch, matrix_flops)},
    {"launches.roofline.flops", IN_LAUNCH, offsetof(Launch, lane_flops)},
    {"launches.roofline.memory_seconds", IN_LAUNCH, offsetof(Launch, memory_seconds)},
    {"launches.roofline.compute_seconds", IN_LAUNCH, offsetof(Launch, compute_seconds)},
    {"launches.predicted_seconds", IN_LAUNCH, offsetof(Launch, predicted_seconds)},
    {"launches.accesses.bytes", IN_ACCESS, offsetof(Access, bytes)},
    {"launches.accesses.requests", IN_ACCESS, offsetof(Access, requests)},
    {"launches.accesses.sectors", IN_ACCESS, offsetof(Access, sectors)},
    {"launches.accesses.least_sectors", IN_ACCESS, offsetof(Access, least_sectors)},
    {"launches.accesses.wavefronts", IN_ACCESS, offsetof(Access, wavefronts)},
    {"launches.accesses.conflicts", IN_ACCESS, offsetof(Access, conflicts)},
};

/* What explain does not say of this launch or access is NAN, but for the FLOP of a kind. */
static void begin(Figures *f, int in)
{
    char *base = in == IN_ACCESS ? (char *)&f->access : (char *)&f->launch;
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        if (NUMBERS[i].in == in) {
            *(double *)(void *)(base + NUMBERS[i].offset) = NAN;
        }
    }
    if (in == IN_ACCESS) {
        f->access.kind = f->access.memory = NULL;
        f->access.one = 1;
        return;
    }
    f->launch.matrix_flops = f->launch.lane_flops = 0;
    f->launch.limiter = f->launch.occupancy_limiter = NULL;
    f->launch.one = 1;
}

static void end_launch(Figures *f)
{
    Launch *launch = &f->launch;
    launch->all_flops = launch->matrix_flops + launch->lane_flops;
    launch->all_bytes = launch->read_bytes + launch->written_bytes;
    launch->least_seconds = fmax(launch->memory_seconds, launch->compute_seconds);
    launch->bytes_in_flight = launch->product_slot_bytes * (launch->product_slots - 1);
    f->launches = session_grow(f->launches, f->n_launches, sizeof *f->launches);
    f->launches[f->n_launches++] = *launch;
    begin(f, IN_LAUNCH);
}

static void end_access(Figures *f)
{
    f->accesses = session_grow(f->accesses, f->n_accesses, sizeof *f->accesses);
    f->accesses[f->n_accesses++] = f->access;
    begin(f, IN_ACCESS);
}

static void take_text(Figures *f, const char *path, const char *text)
{
    const struct {
        const char *path;
        const char **to;
    } rows[] = {
        {"schedule", &f->schedule},
        {"part", &f->gpu},
        {"launches.predicted_limiter", &f->launch.limiter},
        {"launches.occupancy.limiter", &f->launch.occupancy_limiter},
        {"launches.accesses.kind", &f->access.kind},
        {"launches.accesses.memory", &f->access.memory},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].path, path) == 0) {
            *rows[i].to = session_text(text, strlen(text));
        }
    }
}

static void take_number(Figures *f, const char *path, double number)
{
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        if (strcmp(NUMBERS[i].path, path) == 0) {
            char *base = NUMBERS[i].in == IN_ACCESS ? (char *)&f->access : (char *)&f->launch;
            *(double *)(void *)(base + NUMBERS[i].offset) = number;
        }
    }
}

static void take(void *user, const char *path, const char *text, double number)
{
    Figures *f = user;
    if (!text && strcmp(path, "launches") == 0) {
        end_launch(f);
    } else if (!text && strcmp(path, "launches.accesses") == 0) {
        end_access(f);
    } else if (text && *text) {
        take_text(f, path, text);
    } else if (text) {
        take_number(f, path, number);
    }
}

/* ---- compiling ---- */

/* Opens what `tessera explain` would open, with a text of the lesson or a file. */
static int open_program(const char *path, const char *text, const char *kernel, Session *session)
{
    *session = (Session){0};
    if (tessera_context_new(NULL, &session->context) != TESSERA_OK) {
        return fail(TESSERA_ENVIRONMENT, "out of memory");
    }
    TesseraStatus status =
        text ? tessera_program_parse(session->context, path, text, strlen(text), &session->program)
             : tessera_program_read(session->context, path, &session->program);
    if (status == TESSERA_OK) {
        status = tessera_program_find(session->program, kernel, &session->signature);
    }
    return (int)status;
}

int figures_of(const char *path, const char *text, const Lesson *lesson,
               const LessonSetting *setting, const Strings *lines, Session *session,
               const Figures **figures)
{
    Options options = {.kernel = lesson->kernel, .optimize = NOT_GIVEN, .no_pins = true};
    TesseraOptions compile;
    TesseraBytes bytes;
    int code = open_program(path, text, lesson->kernel, session);
    code = code ? code : setting_apply(setting, &options);
    if (code != 0) {
        return code;
    }
    options.schedule = lines ? *lines : options.schedule;
    const char *gpu = lesson->gpu;
    options.targets.items = &gpu;
    options.targets.n = 1;
    code = session_options(&options, session, NULL, &compile);
    if (code != 0) {
        return code;
    }
    TesseraStatus status = tessera_compile(session->program, &compile, &session->kernel);
    if (status == TESSERA_OK) {
        status = tessera_kernel_figures(session->kernel, &bytes);
    }
    if (status != TESSERA_OK) {
        return (int)status;
    }
    Figures *made = session_alloc(sizeof *made);
    begin(made, IN_LAUNCH);
    begin(made, IN_ACCESS);
    char *json = session_text(bytes.data, bytes.n);
    if (!json_read(json, take, made)) {
        return fail(TESSERA_INTERNAL, "the report of explain is no JSON");
    }
    *figures = made;
    return 0;
}

/* ---- evaluating ---- */

typedef enum FigureOf { MAIN, ALL, ACCESS } FigureOf;
typedef enum FigureNeeds { NOTHING, REGISTERS, TIMES } FigureNeeds;

#define NONE one
#define FIELD_MAIN(name) offsetof(Launch, name)
#define FIELD_ALL(name) offsetof(Launch, name)
#define FIELD_ACCESS(name) offsetof(Access, name)
#define FIGURE(name, of, numerator, denominator, scale, unit, needs)                               \
    {name, of, FIELD_##of(numerator), FIELD_##of(denominator), scale, unit, needs},
static const struct FigureRow {
    const char *name;
    FigureOf of;
    size_t numerator, denominator; /* offsets; that of `one` stands for 1 */
    double scale;
    const char *unit;
    FigureNeeds needs;
} ROWS[] = {
#include "cli/learn/figures.def"
};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

static double field(const void *of, size_t offset)
{
    return *(const double *)(const void *)((const char *)of + offset);
}

/* The row whose name is all of the text, or its last word behind those that say an access. */
static const struct FigureRow *find_row(const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i < N_ROWS; i++) {
        size_t length = strlen(ROWS[i].name);
        bool whole = ROWS[i].of != ACCESS && strcmp(ROWS[i].name, text) == 0;
        bool last = ROWS[i].of == ACCESS && n > length + 1 && text[n - length - 1] == ' ' &&
                    strcmp(text + n - length, ROWS[i].name) == 0;
        if (whole || last) {
            return &ROWS[i];
        }
    }
    return NULL;
}

static const Launch *main_launch(const Figures *f)
{
    const Launch *main = &f->launches[0];
    for (size_t i = 1; i < f->n_launches; i++) {
        if (f->launches[i].predicted_seconds > main->predicted_seconds) {
            main = &f->launches[i];
        }
    }
    return main;
}

/* `shared load a`: kind and tensor; of several, the one with most requests. */
static const Access *find_access(const Figures *f, const char *text, size_t n)
{
    const Access *found = NULL;
    for (size_t i = 0; i < f->n_accesses; i++) {
        const Access *at = &f->accesses[i];
        size_t kind = at->kind ? strlen(at->kind) : 0;
        bool same = kind > 0 && at->memory && n == kind + 1 + strlen(at->memory) &&
                    strncmp(text, at->kind, kind) == 0 &&
                    strncmp(text + kind + 1, at->memory, n - kind - 1) == 0;
        if (same && (!found || at->requests > found->requests)) {
            found = at;
        }
    }
    return found;
}

static double sum(const Figures *f, size_t offset)
{
    double total = 0;
    for (size_t i = 0; i < f->n_launches; i++) {
        total += field(&f->launches[i], offset);
    }
    return total;
}

FigureState figure_value(const Figures *f, const char *name, double *value, const char **unit)
{
    const struct FigureRow *row = find_row(name);
    double numerator, denominator = 1;
    if (!row || f->n_launches == 0) {
        return FIGURE_NO_NAME;
    }
    *unit = row->unit;
    if (row->of == ACCESS) {
        const Access *access = find_access(f, name, strlen(name) - strlen(row->name) - 1);
        if (!access) {
            return FIGURE_NO_ACCESS;
        }
        numerator = field(access, row->numerator);
        denominator = field(access, row->denominator);
    } else if (row->of == MAIN) {
        numerator = field(main_launch(f), row->numerator);
    } else {
        numerator = sum(f, row->numerator);
        bool is_one = row->denominator == offsetof(Launch, one);
        denominator = is_one ? 1 : sum(f, row->denominator);
    }
    *value = row->scale * numerator / (denominator != 0 ? denominator : 1);
    bool has_registers = !isnan(main_launch(f)->registers);
    if (row->needs != NOTHING && !has_registers) {
        return FIGURE_UNKNOWN;
    }
    return isnan(*value) ? FIGURE_NO_ACCESS : FIGURE_KNOWN;
}

/* ---- times ---- */

const char *figure_unit(const char *name)
{
    const struct FigureRow *row = find_row(name);
    return row ? row->unit : "";
}

bool figure_is_time(const char *name)
{
    const struct FigureRow *row = find_row(name);
    return row && row->needs == TIMES;
}

double figures_seconds(const Figures *f)
{
    return sum(f, offsetof(Launch, predicted_seconds));
}

double figure_with_seconds(const char *name, double value, double predicted, double measured)
{
    const struct FigureRow *row = find_row(name);
    bool of_time = row && row->numerator == offsetof(Launch, predicted_seconds);
    return of_time ? value * measured / predicted : value * predicted / measured;
}

const char *figure_text(const Figures *f, const char *name)
{
    const Launch *main = main_launch(f);
    const struct {
        const char *name, *text;
    } rows[] = {
        {"schedule", f->schedule},
        {"limiter", main->limiter},
        {"occupancy limiter", main->occupancy_limiter},
        {"gpu", f->gpu},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return rows[i].text ? rows[i].text : "nothing";
        }
    }
    return NULL;
}
