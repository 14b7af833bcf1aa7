/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's side of the compile worker: it starts a worker for one request, waits up to a time
 * limit and reads the answer. The worker has its own process group, so that an assembler that it
 * started ends with it. */
#define _GNU_SOURCE
#include "runtime/compile/kernel_objects.h"
#include "runtime/context/compiler_context.h"
#include "runtime/compile/worker_request.h"

#include "support/clock.h"
#include "support/fd_io.h"
#include "support/shared_object.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ---- where it is ---- */

/* The one that is named, or $TESSERA_WORKER, or next to the library. NULL: nowhere. */
static const char *find_worker(const TesseraContext *context, Arena *arena)
{
    const char *named =
        context->compiler->worker ? context->compiler->worker : getenv("TESSERA_WORKER");
    if (named && *named) {
        return access(named, X_OK) == 0 ? named : NULL;
    }
    static const char here;
    const char *found = object_sibling_path(arena, &here, "tessera-worker");
    found = found ? found : object_sibling_path(arena, &here, "../bin/tessera-worker");
    return found && access(found, X_OK) == 0 ? found : NULL;
}

/* ---- a run of it ---- */

typedef struct Run {
    int in, out, log;
    pid_t process;
    int status;
    bool late, cancelled;
} Run;

static bool open_files(Run *run)
{
    run->in = memfd_create("order", MFD_CLOEXEC);
    run->out = memfd_create("answer", MFD_CLOEXEC);
    run->log = memfd_create("log", MFD_CLOEXEC);
    return run->in >= 0 && run->out >= 0 && run->log >= 0;
}

static bool put_order(int file, const Text *bytes)
{
    return fd_write(file, bytes->data, bytes->n) && lseek(file, 0, SEEK_SET) == 0;
}

static Code get_file(Arena *arena, int file)
{
    struct stat info;
    size_t n = fstat(file, &info) == 0 ? (size_t)info.st_size : 0;
    Code code = {arena_alloc(arena, n + 1), 0};
    while (code.n < n) {
        ssize_t got = pread(file, code.bytes + code.n, n - code.n, (off_t)code.n);
        if (got == 0 || (got < 0 && errno != EINTR)) {
            break;
        }
        code.n += got > 0 ? (size_t)got : 0;
    }
    return code;
}

static bool start(const char *worker, Run *run)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char parent[32];
    char *arguments[] = {(char *)(uintptr_t)worker, parent, NULL};
    snprintf(parent, sizeof parent, "%d", (int)getpid());
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return false;
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return false;
    }
    bool good = posix_spawn_file_actions_adddup2(&actions, run->in, STDIN_FILENO) == 0 &&
                posix_spawn_file_actions_adddup2(&actions, run->out, STDOUT_FILENO) == 0 &&
                posix_spawn_file_actions_adddup2(&actions, run->log, STDERR_FILENO) == 0 &&
                posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP) == 0 &&
                posix_spawn(&run->process, worker, &actions, &attributes, arguments, environ) == 0;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return good;
}

/* Until it ends, or is ended: it took too long, or it is not wanted any more. */
static void wait_for(const TesseraContext *context, double seconds, Run *run)
{
    struct timespec nap = {0, 200000};
    double begin = clock_seconds();
    for (;;) {
        pid_t ended = waitpid(run->process, &run->status, WNOHANG);
        if (ended == run->process || (ended < 0 && errno != EINTR)) {
            return;
        }
        run->late = seconds > 0 && clock_seconds() - begin > seconds;
        run->cancelled = context->compiler->cancelled && atomic_load(context->compiler->cancelled);
        if (run->late || run->cancelled) {
            kill(-run->process, SIGKILL);
            while (waitpid(run->process, &run->status, 0) < 0 && errno == EINTR) {}
            return;
        }
        nanosleep(&nap, NULL);
        nap.tv_nsec = nap.tv_nsec < 2000000 ? nap.tv_nsec * 2 : nap.tv_nsec;
    }
}

/* ---- the order ---- */

static bool worker_failed(Compilation *c, const Run *run, const char *worker, double seconds)
{
    Diags *diags = &c->work->diags;
    const char *name = c->func->name, *target = c->target->name;
    if (run->cancelled) {
        diag_failure(diags, DIAG_ENVIRONMENT, "compiling %s was cancelled", name);
    } else if (run->late) {
        diag_failure(diags, DIAG_INTERNAL,
                     "compiling %s for %s takes longer than %g seconds: the worker was ended", name,
                     target, seconds);
    } else if (WIFSIGNALED(run->status)) {
        Code output = get_file(&c->work->arena, run->log);
        Diag *diag = diag_failure(diags, DIAG_INTERNAL,
                                  "compiling %s for %s ended the worker by signal %d (%s)", name,
                                  target, WTERMSIG(run->status), strsignal(WTERMSIG(run->status)));
        diag_help(diags, diag, "it said: %.1000s", output.n ? output.bytes : "nothing");
    } else {
        Code output = get_file(&c->work->arena, run->log);
        diag_failure(diags, DIAG_ENVIRONMENT,
                     "%s is no worker of this library: exit status %d%s%.300s", worker,
                     WEXITSTATUS(run->status), output.n ? ": " : "", output.bytes);
    }
    return false;
}

/* Its errors are those of the compiler here, already in words. */
static bool take_answer(Compilation *c, Run *run, const char *worker, double seconds, Code *code,
                        Plan *plan)
{
    Code answer = get_file(&c->work->arena, run->out);
    uint64_t status;
    bool ended = WIFEXITED(run->status) && !run->late && !run->cancelled;
    if (!ended || answer.n < sizeof status) {
        return worker_failed(c, run, worker, seconds);
    }
    memcpy(&status, answer.bytes, sizeof status);
    Text value = {.data = answer.bytes + sizeof status, .n = answer.n - sizeof status};
    if (status == TESSERA_OK && code_unpack(&c->work->arena, &value, code, plan)) {
        return true;
    }
    bool output = status != TESSERA_OK && value.n > 0;
    diag_failure(&c->work->diags, diag_class_of((TesseraStatus)status), "%.2000s",
                 output ? value.data : "what the worker answers is no code");
    return false;
}

static bool run_order(Compilation *c, const char *worker, const Text *bytes, Code *code, Plan *plan)
{
    const TesseraContext *context = c->work->context;
    enum { NORMAL_SECONDS = 60 };
    double seconds = context->compiler->isolate_seconds > 0 ? context->compiler->isolate_seconds
                                                            : NORMAL_SECONDS;
    Run run = {.in = -1, .out = -1, .log = -1};
    bool good = open_files(&run) && put_order(run.in, bytes) && start(worker, &run);
    if (!good) {
        diag_failure(&c->work->diags, DIAG_ENVIRONMENT, "%s cannot be run: %s", worker,
                     strerror(errno));
    } else {
        wait_for(context, seconds, &run);
        good = take_answer(c, &run, worker, seconds, code, plan);
    }
    const int files[] = {run.in, run.out, run.log};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (files[i] >= 0) {
            close(files[i]);
        }
    }
    return good;
}

/* What watches or changes the passes works here only. */
static bool is_plain(const TesseraDebug *debug)
{
    return !debug->stop_after && debug->n_skip == 0 && !debug->time_passes && !debug->count_work;
}

static bool refuse_without(Compilation *c)
{
    Diag *diag = diag_failure(&c->work->diags, DIAG_ENVIRONMENT,
                              "compiling is to be done by a worker, and there is none");
    diag_help(&c->work->diags, diag,
              "tessera-worker is looked for next to the library and in ../bin; "
              "$TESSERA_WORKER, or tessera_isolate, names one");
    return false;
}

bool worker_emit(Compilation *c, EmitKind kind, Code *code, Plan *plan, bool *done)
{
    TesseraContext *context = c->work->context;
    Arena *arena = &c->work->arena;
    *done = false;
    if (context->compiler->isolate == TESSERA_ISOLATE_NEVER ||
        !is_plain(&context->compiler->debug)) {
        return false;
    }
    const char *worker = find_worker(context, arena);
    Text build = text_new(arena), bytes = text_new(arena);
    *done = worker || context->compiler->isolate == TESSERA_ISOLATE_ALWAYS;
    if (!worker || !build_id(&build)) {
        return *done && refuse_without(c);
    }
    WorkerRequest order = {.build = build.data,
                           .kind = (uint64_t)kind,
                           .name = c->name,
                           .text = c->text,
                           .n = c->n,
                           .options = c->options,
                           .imports = c->imports,
                           .pinned = pins_copy(&c->pinned)};
    worker_request_write(&order, &bytes);
    return run_order(c, worker, &bytes, code, plan);
}
