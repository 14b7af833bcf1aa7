/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one run of the program `tessera`: its context and program, its arena, and how a
 * failed call of the library becomes an exit code. All commands report errors through these
 * functions, so that a failure looks the same everywhere. */
#include "cli/cli.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/session.h"
#include "runtime/api/api_debug.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Beside the program would be in the way of the user's files: in the folder for temporary ones. */
static void keep_reproducer(const char *text)
{
    const char *folder = getenv("TMPDIR");
    char path[512];
    int n = snprintf(path, sizeof path, "%s/tessera-bug-XXXXXX.tile",
                     folder && *folder ? folder : "/tmp");
    int file = n > 0 && (size_t)n < sizeof path ? mkstemps(path, 5) : -1;
    FILE *stream = file >= 0 ? fdopen(file, "w") : NULL;
    if (stream && fputs(text, stream) >= 0 && fclose(stream) == 0) {
        show_note("what reproduces it is in %s", path);
    }
}

int fail_context(const TesseraContext *context)
{
    const TesseraError *error = tessera_error(context);
    const TesseraDiagnostic *items;
    if (tessera_diagnostics(context, &items) > 0) {
        show_diagnostics(context);
    } else {
        fail(error->status, "%s", error->message); /* there was no memory for more */
    }
    if (error->reproducer) {
        keep_reproducer(error->reproducer);
    }
    return (int)error->status;
}

int fail_assertions(const TesseraMessages *said)
{
    const TesseraMessage *failed = NULL;
    for (size_t i = 0; i < said->n && !failed; i++) {
        failed = said->items[i].failed ? &said->items[i] : NULL;
    }
    if (said->failures == 0) {
        return 0;
    }
    if (!failed) {
        return fail_code(FAIL_ASSERTION, TESSERA_FAULT,
                         "%" PRIu64 " assertions failed; the log was full", said->failures);
    }
    int code = fail_code(FAIL_ASSERTION, TESSERA_FAULT, "%s:%d: %s",
                         failed->file ? failed->file : "?", failed->line, failed->text);
    if (said->failures > 1) {
        show_note("%" PRIu64 " assertions failed; this is the first", said->failures);
    }
    return code;
}

static void *or_end(void *memory)
{
    if (!memory) {
        exit(fail(TESSERA_ENVIRONMENT, "out of memory"));
    }
    return memory;
}

void *alloc_or_exit(size_t bytes)
{
    return or_end(calloc(1, bytes ? bytes : 1));
}

char *take_text(const char *text, size_t n)
{
    return or_end(strndup(text, n));
}

/* ---- what is kept ---- */

typedef struct Kept {
    struct Kept *older;
    _Alignas(16) char memory[];
} Kept;
static Kept *kept_list;

void *session_alloc(size_t bytes)
{
    Kept *kept = alloc_or_exit(sizeof *kept + bytes);
    kept->older = kept_list;
    kept_list = kept;
    return kept->memory;
}

char *keep_text(const char *text, size_t n)
{
    char *copy = session_alloc(n + 1);
    memcpy(copy, text, n);
    return copy;
}

void *keep_more(const void *items, size_t n, size_t item_bytes)
{
    void *more = session_alloc((n + 1) * item_bytes);
    if (n > 0) {
        memcpy(more, items, n * item_bytes);
    }
    return more;
}

void session_free(void)
{
    while (kept_list) {
        Kept *older = kept_list->older;
        free(kept_list);
        kept_list = older;
    }
}

/* ---- sessions ---- */

static void write_debug(void *user, const char *text, size_t n)
{
    fwrite(text, 1, n, user);
}

/* "o[3,5]" */
static bool read_trace(const char *text, TesseraDebug *debug)
{
    char *name = name_before(text, '[');
    const char *at = name ? text + strlen(name) : text;
    do {
        char *end;
        errno = 0;
        long long index = strtoll(at + 1, &end, 10);
        if (!name || end == at + 1 || errno != 0 || debug->trace_rank == TESSERA_MAX_RANK) {
            return false;
        }
        debug->trace_index[debug->trace_rank++] = index;
        at = end + strspn(end, " ");
    } while (*at == ',');
    debug->trace = name;
    return strcmp(at, "]") == 0;
}

int session_debug(const Options *options, TesseraContext *context, FILE *to)
{
    TesseraDebug debug = {
        .print_after = options->print_after,
        .print_changed = options->print_changed,
        .stop_after = options->stop_after,
        .skip = options->skips.items,
        .n_skip = options->skips.n,
        .time_passes = options->time_passes,
        .count_work = options->count_work,
        .verify = options->verify,
        .trap_nan = options->trap != NULL,
        .write = write_debug,
        .user = to,
    };
    if (options->trap && strcmp(options->trap, "nan") != 0) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE, "--trap %.60s: only nan can be trapped",
                         options->trap);
    }
    if (options->trace && !read_trace(options->trace, &debug)) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE,
                         "--trace %.60s: an element of a result is wanted, as o[3,5]",
                         options->trace);
    }
    return tessera_debug(context, &debug) == TESSERA_OK ? 0 : fail_context(context);
}

static int open_program(const Options *options, Session *session)
{
    int code = session_debug(options, session->context, stderr);
    code = code ? code : session_warn(options, session->context);
    if (code != 0) {
        return code;
    }
    bool all = (options->describe || is_bundle(options)) && !options->kernel; /* kernels */
    bool ok =
        tessera_program_read(session->context, options->path, &session->program) == TESSERA_OK &&
        (all || tessera_program_find(session->program, options->kernel, &session->signature) ==
                    TESSERA_OK);
    return ok ? 0 : fail_context(session->context);
}

static int how_to_compile(const Options *options, TesseraContext *context)
{
    static const char *const words[] = {"never", "auto", "always"}; /* TesseraIsolate */
    size_t n = sizeof words / sizeof *words, at = 0;
    while (options->isolate && at < n && strcmp(options->isolate, words[at]) != 0) {
        at++;
    }
    if (at == n) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE,
                         "--isolate %.60s: never, auto or always is wanted", options->isolate);
    }
    double seconds = options->timeout > 0 && options->timeout != NO_TIMEOUT ? options->timeout : 0;
    tessera_isolate(context, (TesseraIsolate)at, NULL, seconds);
    tessera_cache_only(context, options->no_jit);
    return 0;
}

int session_open(const Options *options, Session *session)
{
    *session = (Session){0};
    timeout_begin(options);
    if (tessera_context_new(NULL, &session->context) != TESSERA_OK) {
        return fail(TESSERA_ENVIRONMENT, "out of memory");
    }
    int code = how_to_compile(options, session->context);
    code = code == 0 ? open_program(options, session) : code;
    if (code != 0) {
        session_close(session);
    }
    return code;
}

void session_close(Session *session)
{
    timeout_end();
    tessera_kernel_free(session->kernel);
    tessera_device_free(session->device);
    tessera_program_free(session->program);
    tessera_context_free(session->context);
    *session = (Session){0};
}

static const char *device_name(size_t index)
{
    static const char *const names[] = {"auto", "cpu", "cuda", "hip", NULL};
    return names[index];
}

int check_device_name(const char *kind)
{
    size_t n = strcspn(kind, ":");
    for (size_t i = 0; device_name(i); i++) {
        if (strlen(device_name(i)) == n && strncmp(device_name(i), kind, n) == 0) {
            return 0;
        }
    }
    /* what is near to `gpu` is cpu, which is not meant */
    const char *nearest = strncmp(kind, "gpu", 3) == 0 ? NULL : nearest_name(kind, device_name);
    return fail_code(FAIL_DEVICE, TESSERA_USAGE, "no device '%.60s': %s%s%s", kind,
                     nearest ? "did you mean '" : "auto, cpu, cuda, hip, or interp to run",
                     nearest ? nearest : "", nearest ? "'?" : "");
}

int session_device(const Options *options, const char *wish, Session *session)
{
    const char *colon = strchr(wish, ':');
    char *kind = take_text(wish, colon ? (size_t)(colon - wish) : strlen(wish));
    int ordinal = strcmp(kind, "cpu") == 0 ? options->threads : 0;
    int code = 0;
    if (colon) {
        char *end;
        long number = strtol(colon + 1, &end, 10);
        if (end == colon + 1 || *end || number < 0 || number > 1024) {
            code = fail_code(FAIL_DEVICE, TESSERA_USAGE,
                             "--device %.60s: the part after `:` is a number", wish);
        }
        ordinal = (int)number;
    }
    code = code ? code : check_device_name(kind);
    if (code == 0 &&
        tessera_device_open(session->context, kind, ordinal, &session->device) != TESSERA_OK) {
        code = fail_context(session->context);
    }
    free(kind);
    return code;
}

/* Which device it will be, unless it is compiled for another one. */
static void name_device(const Session *session, TesseraOptions *options)
{
    const TesseraDeviceInfo *info = session->device ? tessera_device_info(session->device) : NULL;
    if (info && options->target && strcmp(info->target, options->target) == 0) {
        options->device = info->name;
    }
}

int session_options(const Options *options, Session *session, const TesseraTensor *known,
                    TesseraOptions *out)
{
    TesseraInferred inferred;
    *out = (TesseraOptions){
        .kernel = options->kernel,
        .target = options->target,
        .bindings = options->sets.items,
        .n_bindings = options->sets.n,
        .sizes = options->sizes.items,
        .n_sizes = options->sizes.n,
        .facts = options->facts.items,
        .n_facts = options->facts.n,
        .strides = options->strides.items,
        .n_strides = options->strides.n,
        .lines = options->lines.items,
        .n_lines = options->lines.n,
        .optimize = options->optimize,
        .pins = options->no_pins ? "" : options->pins,
    };
    if (tessera_infer(session->program, out, known, &inferred) != TESSERA_OK) {
        return fail_context(session->context);
    }
    out->bindings = inferred.bindings;
    out->n_bindings = inferred.n_bindings;
    out->sizes = inferred.sizes;
    out->n_sizes = inferred.n_sizes;
    if (!out->target && session->device) {
        out->target = tessera_device_info(session->device)->target;
    }
    name_device(session, out);
    return 0;
}

int session_compile(const Options *options, Session *session, const TesseraOptions *compile)
{
    TesseraOptions with_target = *compile;
    timeout_begin(options);
    if (!with_target.target) {
        int code = session_device(options, "auto", session);
        if (code != 0) {
            return code;
        }
        with_target.target = tessera_device_info(session->device)->target;
        name_device(session, &with_target);
    }
    if (tessera_compile(session->program, &with_target, &session->kernel) != TESSERA_OK) {
        return fail_context(session->context);
    }
    show_diagnostics(session->context);
    return 0;
}

bool size_range_next(const SizeRange *range, int64_t *value)
{
    int64_t next;
    bool over = range->factor ? __builtin_mul_overflow(*value, range->factor, &next)
                              : __builtin_add_overflow(*value, range->step, &next);
    over = over || next > range->last || next == *value;
    *value = over ? range->first : next;
    return !over;
}
