/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune FILE.tile`: runs one sweep for each given combination of types and sizes.
 * Candidates are compiled and measured by child processes of this program, so that a crash of one
 * does not end the sweep; compiled code is stored in a temporary folder that is removed at the
 * end. */
#define _GNU_SOURCE
#include "cli/data/array_args.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/tune/cmd_tune.h"
#include "cli/tune/cmd_tune_sweep.h"
#include "runtime/api/api_search.h"
#include "support/clock.h"
#include "tune/sweep/worker_pool.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <dirent.h>
#include <fcntl.h>

extern char **environ;

enum { MAX_DEVICES = 64, DEFAULT_SECONDS = 60, COMPILE_SECONDS = 60, MAX_MAKERS = 256 };

static volatile sig_atomic_t stopped; /* the signal */

static void note_stop(int number)
{
    stopped = number;
}

/* ---- the folder of compiled code ---- */

/* ---- one case ---- */

static int cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int read_shard(const char *text, SweepOptions *sweep)
{
    char *end = NULL;
    long nth = text ? strtol(text, &end, 10) : 1, of = 1;
    if (text && end != text && *end == '/') {
        of = strtol(end + 1, &end, 10);
    } else if (text) {
        of = 0;
    }
    if (nth < 1 || of < nth || of > 100000 || (text && *end)) {
        return fail_code(FAIL_VALUE, TESSERA_USAGE,
                         "--shard %.60s: expected i/n, with i from 1 to n", text);
    }
    sweep->shard = (int)nth;
    sweep->shards = (int)of;
    return 0;
}

/* "90s", "5m", "2h", "120" */
static int read_budget(const char *text, double *seconds)
{
    char *end;
    *seconds = text ? strtod(text, &end) : DEFAULT_SECONDS;
    if (text) {
        double unit = 1;
        if (*end == 'm') {
            unit = 60;
        } else if (*end == 'h') {
            unit = 3600;
        }
        end += *end == 's' || *end == 'm' || *end == 'h';
        if (end == text || *end || !(*seconds >= 0) || *seconds > 1e7) {
            return fail_code(FAIL_VALUE, TESSERA_USAGE,
                             "--budget %.60s: expected a time, as 60s, 10m or 2h; 0: no limit",
                             text);
        }
        *seconds *= unit;
    }
    return 0;
}

static int read_sweep(const Options *options, SweepOptions *sweep)
{
    *sweep = (SweepOptions){.seed = options->seed,
                            .strategy = (Strategy)options->strategy,
                            .candidates = (size_t)options->candidates,
                            .resume = options->resume,
                            .workers = options->workers ? options->workers : cpus(),
                            .compile_seconds = COMPILE_SECONDS,
                            .kernel_seconds = options->timeout > 0 ? options->timeout : 0,
                            .stop = &stopped};
    sweep->workers = sweep->workers > MAX_MAKERS ? MAX_MAKERS : sweep->workers;
    int code = read_shard(options->shard, sweep);
    code = code ? code : read_budget(options->budget, &sweep->budget);
    if (!options->budget && (options->candidates > 0 || options->resume)) {
        sweep->budget = options->candidates > 0 ? 0 : sweep->budget;
    }
    return code;
}

/* "all", or "cuda:0,cuda:2"; without it the one of --device. */
static size_t list_devices(const Options *options, Session *session, const char **devices)
{
    const TesseraDeviceInfo *info = tessera_device_info(session->device);
    size_t n = 0;
    if (options->devices && strcmp(options->devices, "all") != 0) {
        for (const char *at = options->devices; *at && n < MAX_DEVICES;) {
            size_t length = strcspn(at, ",");
            devices[n++] = session_text(at, length);
            at += length + (at[length] == ',');
        }
        return n;
    }
    const char *given = options->device ? options->device : "auto";
    bool named = strcmp(given, "auto") != 0 && !options->devices;
    devices[n++] = named ? given : info->kind;
    if (!options->devices || strcmp(info->kind, "cpu") == 0) {
        return n;
    }
    for (n = 0; n < MAX_DEVICES; n++) {
        char name[32];
        TesseraDevice *device = NULL;
        if (n > 0 &&
            tessera_device_open(session->context, info->kind, (int)n, &device) != TESSERA_OK) {
            break;
        }
        int length = snprintf(name, sizeof name, "%s:%zu", info->kind, n);
        tessera_device_free(device);
        devices[n] = session_text(name, (size_t)length);
    }
    return n;
}

typedef struct One {
    const Options *options;
    Session session;
    Arrays arrays;
    TesseraOptions compile;
    TesseraSpace space;
    TuneRecord base;
    SweepShow show;
    TuneStore *store;
    double budget;
} One;

/* Longer than the device lives. */
static const char *kept(const char *text)
{
    return session_text(text, strlen(text));
}

static int begin_case(One *one)
{
    Options with_consts;
    Session *s = &one->session;
    TesseraTuning tuning;
    const char *device = one->options->device ? one->options->device : "auto";
    const char *target = options_target(one->options); /* no device is measured on */
    if (one->options->devices && strcmp(one->options->devices, "all") != 0) {
        size_t n = strcspn(one->options->devices, ",");
        device = session_text(one->options->devices, n);
    }
    int code = session_open(one->options, s);
    code = code ? code : arrays_read(one->options, s, &one->arrays, &with_consts);
    code = code || target ? code : session_device(one->options, device, s);
    code = code ? code : session_options(&with_consts, s, one->arrays.known, &one->compile);
    if (code != 0) {
        return code;
    }
    one->compile.target = target ? target : tessera_device_info(s->device)->target;
    one->compile.pins = "";
    arrays_give_strides(&one->arrays, &one->compile);
    if (tessera_tuning(s->program, &one->compile, s->device, &tuning) != TESSERA_OK ||
        tessera_compile(s->program, &one->compile, &s->kernel) != TESSERA_OK) {
        return fail_context(s->context);
    }
    show_diagnostics(s->context);
    timeout_end();
    if (tessera_kernel_space(s->kernel, one->options->threads, &one->space) != TESSERA_OK) {
        return fail_context(s->context);
    }
    one->base = (TuneRecord){.kernel = kept(tuning.kernel),
                             .digest = kept(tuning.digest),
                             .types = kept(tuning.types),
                             .bucket = kept(tuning.bucket),
                             .sizes = kept(tuning.sizes),
                             .device = kept(tuning.device),
                             .arch = kept(tuning.arch),
                             .candidate = "",
                             .version = tessera_version(),
                             .message = ""};
    return 0;
}

static int check_space(const One *one)
{
    if (one->space.n_axes > 0 && space_count(&one->space) > 1) {
        return 0;
    }
    const char *kernel = one->base.kernel, *target = one->compile.target;
    if (one->space.given) {
        return fail_code(
            FAIL_SEARCH, TESSERA_USAGE,
            "nothing to search: --schedule gives `%s` and all else that is to be tried "
            "of %s",
            one->space.given, kernel);
    }
    return fail_code(
        FAIL_SEARCH, TESSERA_USAGE,
        one->space.declared
            ? "nothing to search: the `tune` blocks of %s for %s leave one choice"
            : "nothing to search: no line of the schedule of %s on %s can be otherwise",
        kernel, target);
}

/* Lists what a sweep would measure. */
static int rank_case(One *one, SweepOptions *sweep, Arena *arena, const char *program)
{
    SweepRanking ranking;
    TesseraStatus status = TESSERA_OK;
    const char *why = NULL;
    SweepCommand command = {
        .options = one->options, .target = one->compile.target, .program = program};
    sweep->command = sweep_command;
    sweep->command_user = &command;
    sweep->environment = environ;
    sweep->budget = one->budget;
    if (!sweep_rank(arena, &one->space, &one->base, sweep, &ranking, &status, &why)) {
        if (status == TESSERA_SOURCE || status == TESSERA_USAGE) {
            return fail_code(FAIL_SEARCH, status, "%s", why);
        }
        return fail(status == TESSERA_OK ? TESSERA_ENVIRONMENT : status, "%s", why);
    }
    (one->options->json ? sweep_ranking_json : sweep_ranking_show)(&one->base, one->compile.target,
                                                                   &ranking);
    return 0;
}

static int run_case(One *one, SweepOptions *sweep, Arena *arena, const char *folder,
                    const char *program)
{
    const char *devices[MAX_DEVICES], *why = NULL;
    Session *s = &one->session;
    SweepResult result;
    TesseraStatus status = TESSERA_OK;
    char target[64], kind[16];
    snprintf(target, sizeof target, "%s", one->compile.target);
    snprintf(kind, sizeof kind, "%s", tessera_device_info(s->device)->kind);
    SweepCommand command = {.options = one->options, .target = target, .program = program};
    sweep->n_devices = list_devices(one->options, s, devices);
    sweep->devices = devices;
    sweep->quiet_device = strcmp(kind, "cpu") == 0;
    sweep->command = sweep_command;
    /* The workers have their own cache. The compiling workers assemble PTX if there is an
     * assembler; without one the driver of the measuring worker does. */
    const char *ptxas = one->space.ptxas;
    size_t n = 0, kept = 0;
    while (environ[n]) {
        n++;
    }
    char **out = session_alloc((n + 4) * sizeof *out);
    for (size_t i = 0; i < n; i++) {
        bool ours = strncmp(environ[i], "TESSERA_CACHE", 13) == 0 ||
                    (ptxas && strncmp(environ[i], "TESSERA_PTXAS=", 14) == 0);
        if (!ours) {
            out[kept++] = environ[i];
        }
    }
    out[kept++] = (char *)(uintptr_t)sweep_pair("TESSERA_CACHE", folder);
    out[kept++] = (char *)(uintptr_t) "TESSERA_CACHE_SIZE=64G";
    if (ptxas) {
        out[kept++] = (char *)(uintptr_t)sweep_pair("TESSERA_PTXAS", ptxas);
    }
    sweep->environment = out;
    sweep->progress = sweep_progress;
    sweep->user = &one->show;
    sweep->command_user = &command;
    sweep->budget = one->budget;
    tessera_device_free(s->device); /* its memory is the workers' */
    s->device = NULL;
    bool good =
        sweep_run(arena, &one->space, &one->base, sweep, one->store, &result, &status, &why);
    if (!good && result.empty) {
        return fail_code(FAIL_SEARCH, status, "%s", why);
    }
    if (!good) {
        return fail(status == TESSERA_OK ? TESSERA_ENVIRONMENT : status, "%s",
                    why ? why : "the sweep failed");
    }
    (one->options->json ? sweep_result_json : sweep_result_show)(&one->base, &result);
    if (result.unkept) {
        return tune_failed(result.unkept);
    }
    if (!result.interrupted) {
        return 0;
    }
    return 128 + (stopped ? stopped : SIGINT);
}

static int sweep_case(const Options *options, SweepOptions *sweep, SweepShow *show, double budget,
                      TuneStore *store, const char *folder, const char *program)
{
    One one = {.options = options, .show = *show, .store = store, .budget = budget};
    Arena arena;
    jmp_buf guard;
    arena_init(&arena, allocator_default());
    arena.guard = &guard;
    volatile int code = 0;
    if (setjmp(guard) == 0) {
        code = begin_case(&one);
        code = code ? code : check_space(&one);
        if (code == 0 && options_target(options)) {
            code = rank_case(&one, sweep, &arena, program);
        } else if (code == 0) {
            code = run_case(&one, sweep, &arena, folder, program);
        }
    } else {
        code = fail(TESSERA_ENVIRONMENT, "out of memory");
    }
    arena_free(&arena);
    arrays_free(&one.session, &one.arrays);
    session_close(&one.session);
    return code;
}

/* ---- the command ---- */

static void catch_stops(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = note_stop};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction before;
        if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            sigaction(signals[i], &action, NULL);
        }
    }
}

static int sweep_cases(const Options *options, const SweepCases *cases, TuneStore *store)
{
    char folder[4096], program[4096];
    SweepOptions sweep;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    int code = read_sweep(options, &sweep);
    if (code == 0) {
        const char *where = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/tessera-tune-XXXXXX", where && *where ? where : "/tmp");
        code = mkdtemp(folder)
                   ? 0
                   : fail_code(FAIL_WRITE, TESSERA_ENVIRONMENT,
                               "no folder for compiled code, %.200s: %s", folder, strerror(errno));
    }
    if (code != 0) {
        return code;
    }
    program[n > 0 ? n : 0] = '\0';
    SweepShow show = {
        .terminal = isatty(STDERR_FILENO), .json = options->json, .of = cases->n};
    catch_stops();
    double left = sweep.budget;
    for (size_t i = 0; i < cases->n && code == 0; i++) {
        SweepOptions own = sweep;
        double budget = left / (double)(cases->n - i), began = clock_seconds();
        show.nth = i;
        code = sweep_case(&cases->items[i], &own, &show, budget, store, folder, program);
        left -= clock_seconds() - began;
        left = left < 1 && sweep.budget > 0 ? 1 : left;
    }
    /* Code that did not fit in the folder is compiled again by the measuring workers, one at a
     * time. */
    enum { LEAST = 256 << 10 };
    struct statvfs disk;
    if (statvfs(folder, &disk) == 0 && disk.f_blocks > 0 &&
        disk.f_bavail * (uint64_t)disk.f_frsize < LEAST) {
        show_note("%.200s is full: compiled code could not be kept there and was compiled once "
                  "more; $TMPDIR names another folder",
                  folder);
    }
    DIR *dir = opendir(folder);
    for (struct dirent *at = dir ? readdir(dir) : NULL; at; at = readdir(dir)) {
        if (strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0) {
            unlinkat(dirfd(dir), at->d_name, 0);
        }
    }
    if (dir) {
        closedir(dir);
    }
    rmdir(folder);
    return code;
}

int tune_sweep(const Options *options)
{
    SweepCases cases = {0};
    Arena arena;
    jmp_buf guard;
    TuneStore *store = NULL;
    const char *why = NULL;
    if (options->work) {
        Options one = *options;
        int code = sweep_cases_make(options, &cases);
        one = code ? one : cases.items[0];
        return code ? code : sweep_work(&one);
    }
    if (!options->path) {
        return fail_code(FAIL_NO_FILE, TESSERA_USAGE,
                         "tune needs a file: tessera tune FILE.tile "
                         "--size M=...");
    }
    bool lists = options->targets.n > 0;
    if (options->targets.n > 1 || (lists && (options->device || options->devices))) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "tune measures on a --device, or lists for one --target");
    }
    int code = sweep_cases_make(options, &cases);
    if (code != 0) {
        return code;
    }
    arena_init(&arena, allocator_default());
    arena.guard = &guard;
    if (setjmp(guard) != 0) {
        code = fail(TESSERA_ENVIRONMENT, "out of memory");
    } else if (!lists && !tune_store_open(&arena, options->store, TUNE_WRITE, &store, &why)) {
        code = tune_failed(why);
    } else {
        code = sweep_cases(options, &cases, store);
    }
    if (store) {
        const char *warning = tune_store_warning(store);
        if (warning) {
            show_note("%s", warning);
        }
        tune_store_close(store);
    }
    arena_free(&arena);
    return code;
}
