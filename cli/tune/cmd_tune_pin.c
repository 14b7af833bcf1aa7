/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune pin`: writes the best measured schedules of a source's kernels to the pin file
 * next to the source. Entries for other kernels, devices and sizes are not changed. */
#include "cli/options.h"
#include "cli/output_files.h"
#include "cli/session.h"
#include "cli/tune/cmd_tune.h"

#include "runtime/pins/pin_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct Pinning {
    const Options *options;
    Arena *arena;
    TesseraContext *context;
    TesseraProgram *program;
    const char *source, *kernel, *path;
    Pins pins;
    size_t pinned, stale;
} Pinning;

/* ---- the file ---- */

static int read_pins(Pinning *p)
{
    Diags diags;
    char *text;
    size_t n;
    p->pins = (Pins){.tail = ""};
    if (access(p->path, F_OK) != 0) {
        return 0;
    }
    int code = file_read(p->path, &text, &n);
    if (code != 0) {
        return code;
    }
    diags_init(&diags, p->arena);
    int source = diags_add_source(&diags, p->path, text, n);
    free(text);
    if (!pins_read(&diags, p->arena, source, &p->pins)) {
        SourceLoc place = diag_source_loc(&diags, diags.list.items[0].span);
        return fail_code(FAIL_PINS, TESSERA_USAGE, "%s:%d:%d: %s; the file stays as it is", p->path,
                         place.line, place.column, diags.list.items[0].message);
    }
    return 0;
}

static int write_pins(const Pinning *p)
{
    OutFile out;
    Text text = text_new(p->arena);
    pins_print(p->arena, &p->pins, &text);
    int code = out_open(p->path, &out);
    if (code == 0) {
        fwrite(text.data, 1, text.n, out.file);
        code = out_close(&out);
    }
    return code;
}

/* ---- records of the current kernel ---- */

/* Splits "D=128, T=bf16" into pairs and returns their number. */
static size_t split_pairs(Arena *arena, const char *text, TesseraPair *pairs)
{
    size_t n = 0;
    while (*text) {
        size_t name = strcspn(text, "="), all = strcspn(text, ",");
        if (name < all) {
            pairs[n].name = arena_strndup(arena, text, name);
            pairs[n++].value = arena_strndup(arena, text + name + 1, all - name - 1);
        }
        text += all;
        text += strspn(text, ", ");
    }
    return n;
}

static bool is_current(const Pinning *p, const TuneRecord *record)
{
    size_t capacity = strlen(record->types) + strlen(record->sizes) + 1;
    TesseraPair *types = ARENA_ARRAY(p->arena, TesseraPair, capacity);
    TesseraPair *texts = ARENA_ARRAY(p->arena, TesseraPair, capacity);
    TesseraSize *sizes = ARENA_ARRAY(p->arena, TesseraSize, capacity);
    TesseraTuning tuning;
    size_t n_sizes = split_pairs(p->arena, record->sizes, texts);
    for (size_t i = 0; i < n_sizes; i++) {
        sizes[i] = (TesseraSize){texts[i].name, strtoll(texts[i].value, NULL, 10)};
    }
    TesseraOptions options = {.kernel = record->kernel,
                              .target = "native",
                              .bindings = types,
                              .n_bindings = split_pairs(p->arena, record->types, types),
                              .sizes = sizes,
                              .n_sizes = n_sizes,
                              .pins = ""};
    return tessera_tuning(p->program, &options, NULL, &tuning) == TESSERA_OK &&
           text_equal(tuning.digest, record->digest);
}

static bool has_kernel(const Pinning *p, const char *name)
{
    const TesseraSignature *found, *wanted;
    return tessera_program_find(p->program, name, &found) == TESSERA_OK &&
           (!p->kernel || (tessera_program_find(p->program, p->kernel, &wanted) == TESSERA_OK &&
                           text_equal(found->name, wanted->name)));
}

/* ---- entries ---- */

static const TuneRecord *winner_of(const TuningCase *group, const char *candidate)
{
    for (size_t i = 0; i < group->n; i++) {
        if (text_equal(group->records[i].candidate, candidate)) {
            return &group->records[i];
        }
    }
    return group->records;
}

static const char *measured_text(Arena *arena, const TuneWinner *choice)
{
    Text text = text_new(arena);
    char day[16];
    /* The date is that of the winner's record for the first sizes. */
    int64_t first = winner_of(&choice->groups[0], choice->candidate)->when;
    time_t seconds = (time_t)first;
    struct tm calendar;
    day[0] = '\0';
    if (gmtime_r(&seconds, &calendar)) {
        strftime(day, 16, "%Y-%m-%d", &calendar);
    }
    text_printf(&text, "%s, %.3fx:", day, choice->ratio);
    for (size_t i = 0; i < choice->n; i++) {
        const TuningCase *group = &choice->groups[i];
        const TuneRecord *won = winner_of(group, choice->candidate);
        text_printf(&text, "%s %s%s", i ? ";" : "", won->sizes, *won->sizes ? ": " : "");
        tune_time(won->median, &text);
        text_add(&text, " [");
        tune_time(won->low, &text);
        text_add(&text, ", ");
        tune_time(won->high, &text);
        text_printf(&text, "] x%" PRId64 ", %.3fx [%.3fx, %.3fx]", won->count, won->ratio,
                    won->ratio_low, won->ratio_high);
    }
    return text.data;
}

static Pin pin_of(Arena *arena, const TuneWinner *choice)
{
    const TuneRecord *of = choice->groups[0].records;
    Pin pin = {.kernel = of->kernel,
               .arch = of->arch,
               .device = of->device,
               .digest = of->digest,
               .types = of->types,
               .bucket = of->bucket,
               .version = of->version,
               .measured = choice->candidate ? measured_text(arena, choice) : "",
               .comment = ""};
    for (const char *at = choice->candidate; at && *at;) {
        size_t n = strcspn(at, "\n");
        PinLine line = {arena_strndup(arena, at, n), SPAN_NONE};
        if (n > 0) {
            ARENA_PUSH(arena, &pin.lines, line);
        }
        at += n + (at[n] == '\n');
    }
    return pin;
}

static void pin_one(Pinning *p, const TuneWinner *choice)
{
    Pin pin = pin_of(p->arena, choice);
    printf("%s%s%s on %s, %s", pin.kernel, *pin.types ? ", " : "", pin.types, pin.device,
           *pin.bucket ? pin.bucket : "any size");
    if (!is_current(p, choice->groups[0].records)) {
        puts(": not pinned, the kernel has changed since");
        p->stale++;
    } else if (!choice->groups[0].derived) {
        puts(": not pinned, what is derived was not measured with it");
    } else if (choice->open) {
        puts(": not pinned, nothing is decided: no sweep got to its last measurement (`--resume` "
             "continues)");
    } else if (choice->candidate) {
        pins_put(p->arena, &p->pins, &pin);
        printf(": pinned, %.3f times as fast as what is derived\n", choice->ratio);
        p->pinned++;
    } else {
        /* The derived schedule is as fast as any other now, so an older pin is removed. */
        bool removed = false;
        for (size_t i = 0; i < p->pins.n; i++) {
            if (pin_same_place(&p->pins.items[i], &pin)) {
                memmove(&p->pins.items[i], &p->pins.items[i + 1],
                        (p->pins.n - i - 1) * sizeof *p->pins.items);
                p->pins.n--;
                removed = true;
                break;
            }
        }

        printf(": %s, what is derived is as good\n", removed ? "its pin is removed" : "not pinned");
        p->pinned += removed;
    }
}

static int pin_all(Pinning *p)
{
    TuneRecords records;
    TuningCases groups;
    size_t seen = 0;
    int code = tune_query(p->options, 1, p->arena, &records);
    code = code ? code : read_pins(p);
    if (code != 0) {
        return code;
    }
    tune_groups(p->arena, &records, &groups);
    for (size_t i = 0; i < groups.n;) {
        TuneWinner choice = tune_winner(&groups.items[i], groups.n - i);
        const TuneRecord *of = groups.items[i].records;
        if (text_equal(of->version, tessera_version()) && has_kernel(p, of->kernel)) {
            seen++;
            pin_one(p, &choice);
        }
        i += choice.n;
    }
    if (seen == 0) {
        return fail_code(FAIL_STORE, TESSERA_USAGE,
                         "nothing was measured of the kernels of %s with tessera %s: "
                         "`tessera tune %s` does",
                         p->source, tessera_version(), p->source);
    }
    return p->pinned > 0 ? write_pins(p) : 0;
}

int tune_pin(const Options *options)
{
    Arena arena;
    Pinning p = {.options = options, .arena = &arena};
    if (options->values.n == 0) {
        return fail_code(FAIL_NO_FILE, TESSERA_USAGE,
                         "tune pin needs a source: tessera tune pin FILE.tile[:KERNEL]");
    }
    path_split(options->values.items[0], &p.source, &p.kernel);
    if (tessera_context_new(NULL, &p.context) != TESSERA_OK) {
        return fail(TESSERA_ENVIRONMENT, "out of memory");
    }
    tune_arena(&arena);
    p.path = options->pins ? options->pins : pins_path_for(&arena, p.source);
    const TesseraSignature *signature;
    bool read = tessera_program_read(p.context, p.source, &p.program) == TESSERA_OK &&
                (!p.kernel || tessera_program_find(p.program, p.kernel, &signature) == TESSERA_OK);
    int code = read ? pin_all(&p) : fail_context(p.context);
    tessera_program_free(p.program);
    tessera_context_free(p.context);
    arena_free(&arena);
    return code;
}
