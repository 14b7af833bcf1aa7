/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera run`: compiles a kernel, loads it, launches it, optionally compares its results with
 * the interpreter, and prints or writes them. */
#include "cli/commands/cmd_functions.h"
#include "cli/data/array_args.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/session.h"
#include "runtime/api/api_debug.h"
#include "support/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct Run {
    const Options *options;
    Session session;
    Arrays arrays;
    TesseraOptions compile;
    bool interpreted;
    FILE *to; /* for the output to the user */
    double compile_seconds, run_seconds;
} Run;

/* ---- kernel messages ---- */

/* Prints the messages of `print` where results are printed, and reports failed assertions. */
static int show_messages(const Run *run, const TesseraMessages *messages)
{
    for (size_t i = 0; i < messages->n; i++) {
        const TesseraMessage *message = &messages->items[i];
        if (!message->failed) {
            fprintf(run->to, "%s\n", message->text);
        }
    }
    if (messages->lost) {
        fprintf(stderr, "note: %" PRIu64 " more messages did not fit the log\n", messages->lost);
    }
    return fail_assertions(messages);
}

/* ---- launching ---- */

static int launch(Run *run)
{
    Session *s = &run->session;
    TesseraLaunch *prepared = NULL;
    int code = arrays_upload(s, &run->arrays, true);
    if (code != 0) {
        return code;
    }
    TesseraArg *args = arrays_args(&run->arrays, true);
    double start = clock_seconds();
    timeout_begin(run->options);
    bool ok = tessera_prepare(s->kernel, s->device, args, run->arrays.n, &prepared) == TESSERA_OK;
    timeout_end();
    run->compile_seconds += clock_seconds() - start;
    TesseraMessages messages;
    run_begin_on(run->options, s->signature->name, s->device);
    ok = ok && tessera_launch_time(prepared, NULL, 1, &run->run_seconds) == TESSERA_OK &&
         tessera_launch_messages(prepared, NULL, &messages) == TESSERA_OK;
    run_end();
    free(args);
    code = ok ? show_messages(run, &messages) : fail_context(s->context);
    code = code ? code : arrays_download(s, &run->arrays);
    tessera_launch_free(prepared);
    return code;
}

static int interpret(Run *run)
{
    Session *s = &run->session;
    TesseraArg *args = arrays_args(&run->arrays, false);
    double start = clock_seconds();
    run_begin(run->options, false, s->signature->name, "the interpreter");
    TesseraStatus status = tessera_interpret(s->program, &run->compile, args, run->arrays.n);
    run_end();
    run->run_seconds = clock_seconds() - start;
    TesseraMessages messages;
    free(args);
    bool ok =
        status == TESSERA_OK && tessera_interpret_messages(s->context, &messages) == TESSERA_OK;
    return ok ? show_messages(run, &messages) : fail_context(s->context);
}

/* ---- comparing ---- */

/* How many elements have no bound: any value of theirs passes. */
static size_t count_unbounded(const double *bound, size_t elements)
{
    size_t n = 0;
    for (size_t i = 0; i < elements; i++) {
        n += isfinite(bound[i]) ? 0 : 1;
    }
    return n;
}

static int compare_one(const Array *array, const TesseraArg *want, FILE *to)
{
    TesseraDifference d;
    size_t elements, bytes;
    tensor_bytes(&array->tensor, &elements, &bytes);
    void *got = tensor_packed(&array->tensor), *wanted = tensor_packed(&want->tensor);
    bool differs =
        tessera_compare(array->tensor.type, elements, got, wanted, want->bound, &d) != TESSERA_OK;
    bool same_bits = memcmp(got, wanted, bytes) == 0;
    free(got);
    free(wanted);
    if (differs) {
        return fail_code(
            FAIL_DIFFERENT, TESSERA_DIFFERENT,
            "'%s' differs from the interpreter's in %zu of %zu elements; first at %zu: "
            "%.9g, interpreter %.9g, allowed %.3g",
            array->param->name, d.different, elements, d.first, d.got, d.want, d.bound);
    }
    if (same_bits) {
        fprintf(to, "check  %s: the interpreter's bits\n", array->param->name);
        return 0;
    }
    size_t unbounded = count_unbounded(want->bound, elements);
    fprintf(to, "check  %s: within the bound of the interpreter (at most %.3g of it)",
            array->param->name, d.worst);
    if (unbounded > 0) {
        fprintf(to, "; %zu of %zu elements have no bound and were not compared", unbounded,
                elements);
    }
    fputc('\n', to);
    return 0;
}

static int check(Run *run, void *const *originals, FILE *to)
{
    Session *s = &run->session;
    TesseraArg *args = arrays_args(&run->arrays, false);
    for (size_t i = 0; i < run->arrays.n; i++) {
        const Array *array = &run->arrays.items[i];
        size_t elements, bytes;
        if (array->param->rank < 0 || array->param->io == TESSERA_IN) {
            continue;
        }
        tensor_bytes(&array->tensor, &elements, &bytes);
        void *block = alloc_or_exit(array->bytes);
        args[i].tensor.data = array_moved(array, block);
        args[i].bound = alloc_or_exit(elements * sizeof *args[i].bound);
        if (originals[i]) {
            memcpy(block, originals[i], array->bytes);
        }
    }
    TesseraArg *want = args;
    int code = 0;
    tessera_debug(s->context, NULL);
    run_begin(run->options, false, s->signature->name, "the interpreter");
    if (tessera_interpret(s->program, &run->compile, want, run->arrays.n) != TESSERA_OK) {
        code = fail_context(s->context);
    }
    run_end();
    for (size_t i = 0; i < run->arrays.n; i++) {
        const Array *array = &run->arrays.items[i];
        if (want[i].bound) {
            int one = code == 0 || code == TESSERA_DIFFERENT ? compare_one(array, &want[i], to) : 0;
            code = one ? one : code;
            free((char *)want[i].tensor.data - ((char *)array->tensor.data - (char *)array->block));
            free(want[i].bound);
        }
    }
    free(want);
    return code;
}

/* ---- output ---- */

/* Only the results, of an expression. */
static void show_results(const Run *run, FILE *to)
{
    for (size_t i = 0; i < run->arrays.n; i++) {
        const Array *array = &run->arrays.items[i];
        if (array->param->io == TESSERA_OUT && !array->to) {
            tensor_show_rows(to, &array->tensor);
        }
    }
}

static void show(const Run *run, FILE *to)
{
    if (run->options->program) {
        show_results(run, to);
        return;
    }
    const TesseraDevice *device = run->session.device;
    const TesseraDeviceInfo *info = device ? tessera_device_info(device) : NULL;
    fprintf(to, "%s on %s\n", run->session.signature->name, info ? info->name : "the interpreter");
    for (size_t i = 0; i < run->arrays.n; i++) {
        const Array *array = &run->arrays.items[i];
        const TesseraParam *param = array->param;
        fprintf(to, "%-6s %s: ", io_name(param->io), param->name);
        if (param->rank < 0) {
            scalar_show(to, array);
            fputc('\n', to);
            continue;
        }
        tensor_show(to, &array->tensor, true);
        if (array->from || array->to) {
            fprintf(to, "  %s %s", array->to ? "->" : "<-", array->to ? array->to : array->from);
        } else if (param->io != TESSERA_OUT) {
            fputs("  (random)", to);
        }
        fputc('\n', to);
    }
    if (info) {
        fprintf(to, "time   %.3f ms; compiled in %.1f ms\n", run->run_seconds * 1e3,
                run->compile_seconds * 1e3);
    } else {
        fprintf(to, "time   %.3f ms\n", run->run_seconds * 1e3);
    }
}

static int write_outputs(const Run *run)
{
    for (size_t i = 0; i < run->arrays.n; i++) {
        const Array *array = &run->arrays.items[i];
        if (array->to) {
            int code = npy_write(array->to, &array->tensor);
            if (code != 0) {
                return code;
            }
        }
    }
    return 0;
}

/* ---- the command ---- */

static int execute(Run *run, FILE *to)
{
    /* The arrays that are read and written are kept for the comparison with the interpreter. */
    void **kept = alloc_or_exit(run->arrays.n * sizeof *kept);
    for (size_t i = 0; i < run->arrays.n && run->options->check; i++) {
        const Array *array = &run->arrays.items[i];
        if (array->param->rank >= 0 && array->param->io == TESSERA_INOUT) {
            kept[i] = alloc_or_exit(array->bytes);
            memcpy(kept[i], array->block, array->bytes);
        }
    }
    void **originals = kept;
    int code = run->interpreted ? interpret(run) : launch(run);
    if (code == 0) {
        code = write_outputs(run);
    } else {
        /* After a failure, notes state which output files are missing or older. */
        for (size_t i = 0; i < run->arrays.n; i++) {
            const char *path = run->arrays.items[i].to;
            if (path && strcmp(path, "-") != 0) {
                show_note("%s is not written%s", path,
                          access(path, F_OK) == 0 ? "; what is there is of an earlier run" : "");
            }
        }
    }
    if (code == 0) {
        show(run, to);
    }
    if (code == 0 && run->options->check && !run->interpreted) {
        code = check(run, originals, to);
    }
    for (size_t i = 0; i < run->arrays.n; i++) {
        free(originals[i]);
    }
    free(originals);
    return code;
}

/* The interpreter needs no target; shapes come from a compilation that stops at once. */
static int compile_for_run(Run *run, FILE *to)
{
    Session *s = &run->session;
    double start = clock_seconds();
    int code;
    if (!run->interpreted) {
        code = session_compile(run->options, s, &run->compile);
    } else {
        TesseraOptions shapes = run->compile;
        shapes.target = shapes.target ? shapes.target : "native";
        TesseraDebug stop = {.stop_after = "frontend"};
        tessera_debug(s->context, &stop);
        timeout_begin(run->options);
        code = tessera_compile(s->program, &shapes, &s->kernel) == TESSERA_OK
                   ? 0
                   : fail_context(s->context);
        int again = session_debug(run->options, s->context, run->options->trace ? to : stderr);
        code = code ? code : again;
    }
    run->compile_seconds = clock_seconds() - start;
    return code;
}

static bool uses_stdout(const Options *options)
{
    for (size_t i = 0; i < options->outputs.n; i++) {
        const char *path = options->outputs.items[i];
        const char *equals = strchr(path, '=');
        if (strcmp(path, "-") == 0 || (equals && strcmp(equals + 1, "-") == 0)) {
            return true;
        }
    }
    return false;
}

static int run_in_session(Run *run)
{
    Options with_consts;
    Session *s = &run->session;
    FILE *to = run->to = uses_stdout(run->options) ? stderr : stdout;
    int code = arrays_read(run->options, s, &run->arrays, &with_consts);
    bool watched = run->options->trace || run->options->trap != NOT_GIVEN;
    const char *device = "auto";
    if (run->options->device) {
        device = run->options->device;
    } else if (watched) {
        device = "interp";
    }
    run->interpreted = strcmp(device, "interp") == 0;
    if (code == 0 && watched && !run->interpreted) {
        code = fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "--trace and --trap are the interpreter's: --device interp");
    }
    if (code == 0 && !run->interpreted) {
        code = session_device(run->options, device, s);
    }
    if (code == 0) {
        code = session_options(&with_consts, s, run->arrays.known, &run->compile);
        arrays_give_strides(&run->arrays, &run->compile);
    }
    if (code == 0) {
        code = compile_for_run(run, to);
    }
    if (code == 0) {
        code = arrays_complete(run->options, s, &run->compile, false, &run->arrays);
    }
    return code ? code : execute(run, to);
}

int cmd_run(const Options *options)
{
    Run run = {.options = options};
    int code = session_open(options, &run.session);
    if (code != 0) {
        return code;
    }
    code = run_in_session(&run);
    arrays_free(&run.session, &run.arrays);
    session_close(&run.session);
    return code;
}
