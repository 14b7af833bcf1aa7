/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one run of the program `tessera`: opens its context, program and device as the
 * options say, and translates the options into those of the library. */
#include "cli/session.h"
#include "cli/cli_diagnostics.h"
#include "cli/interrupt.h"
#include "cli/ir_diff.h"
#include "cli/nearest.h"
#include "cli/options.h"
#include "cli/session_memory.h"
#include "runtime/api/api_debug.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
        .print_changed = options->print_changed || options->print_diff,
        .print_computations = options->print_computations,
        .stop_after = options->stop_after,
        .skip = options->skips.items,
        .n_skip = options->skips.n,
        .time_passes = options->time_passes,
        .count_work = options->count_work,
        .verify = options->verify,
        .trap_nan = options->trap != NOT_GIVEN,
        .write = options->print_diff ? ir_diff_write : write_debug,
        .user = to,
    };
    if (options->trace && !read_trace(options->trace, &debug)) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE,
                         "--trace %.60s: expected an element of a result, as o[3,5]",
                         options->trace);
    }
    return tessera_debug(context, &debug) == TESSERA_OK ? 0 : fail_context(context);
}

static TesseraStatus read_program(const Options *options, Session *session)
{
    const char *text = options->program;
    return text ? tessera_program_parse(session->context, options->path, text, strlen(text),
                                        &session->program)
                : tessera_program_read(session->context, options->path, &session->program);
}

static int open_program(const Options *options, Session *session)
{
    TesseraWarnings warnings = {options->allow.items, options->allow.n, options->deny};
    int code = session_debug(options, session->context, stderr);
    if (code != 0) {
        return code;
    }
    bool all_kernels = (options->describe || options_make_bundle(options)) && !options->kernel;
    bool ok = tessera_warn(session->context, &warnings) == TESSERA_OK &&
              read_program(options, session) == TESSERA_OK &&
              (all_kernels || tessera_program_find(session->program, options->kernel,
                                                   &session->signature) == TESSERA_OK);
    return ok ? 0 : fail_context(session->context);
}

int session_open(const Options *options, Session *session)
{
    *session = (Session){0};
    timeout_begin(options);
    if (tessera_context_new(NULL, &session->context) != TESSERA_OK) {
        return fail(TESSERA_ENVIRONMENT, "out of memory");
    }
    double seconds = options->timeout > 0 ? options->timeout : 0;
    tessera_isolate(session->context, (TesseraIsolate)options->isolate, NULL, seconds);
    tessera_cache_only(session->context, options->no_jit);
    int code = open_program(options, session);
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
    /* The name nearest to `gpu` is cpu, which is not meant. */
    const char *nearest = strncmp(kind, "gpu", 3) == 0 ? NULL : nearest_name(kind, device_name);
    return nearest ? fail_code(FAIL_DEVICE, TESSERA_USAGE, "no device '%.60s': did you mean '%s'?",
                               kind, nearest)
                   : fail_code(FAIL_DEVICE, TESSERA_USAGE,
                               "no device '%.60s': auto, cpu, cuda, hip, or interp to run", kind);
}

int session_device(const Options *options, const char *wish, Session *session)
{
    const char *colon = strchr(wish, ':');
    char *kind = copy_or_exit(wish, colon ? (size_t)(colon - wish) : strlen(wish));
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
        .target = options_target(options),
        .bindings = options->sets.items,
        .n_bindings = options->sets.n,
        .sizes = options->sizes.items,
        .n_sizes = options->sizes.n,
        .facts = options->facts.items,
        .n_facts = options->facts.n,
        .strides = options->strides.items,
        .n_strides = options->strides.n,
        .lines = options->schedule.items,
        .n_lines = options->schedule.n,
        .optimize = options_optimize(options),
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
