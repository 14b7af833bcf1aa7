/* SPDX-License-Identifier: Apache-2.0 */
/* Runs many programs, each with the header that tests/fuzz/README.md describes.
 *
 *     tessera-fuzz [--jobs N] [--device cpu|cuda|hip] [--seconds N] [FILE]
 *
 * It prints one line per program, separated by tabs: its name, a status (ok invalid refused usage
 * differs outside fault internal crash timeout), the way in which it was run, and the message. The
 * programs run in worker processes, so a crash ends only one of them. */
#include "tests/fuzz/fuzz.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_JOBS = 64, PER_WORKER = 200 };

typedef struct Options {
    int jobs, seconds;
    const char *device, *file;
} Options;

/* What the worker of a lane is at: shared with the parent. */
typedef struct Lane {
    volatile size_t at;
    pid_t pid;
} Lane;

static char *read_all(FILE *file)
{
    size_t n = 0, room = 1 << 16;
    char *text = malloc(room);
    for (size_t got; (got = fread(text + n, 1, room - n - 1, file)) > 0;) {
        n += got;
        if (room - n < 2) {
            text = realloc(text, room *= 2);
        }
    }
    text[n] = 0;
    return text;
}

static void tell(const Case *c, const Outcome *o)
{
    char line[MAX_MESSAGE + 512];
    int n =
        snprintf(line, sizeof line - 1, "%s\t%s\t%s\t%s", c->name, o->status, o->way, o->message);
    n = n > (int)sizeof line - 2 ? (int)sizeof line - 2 : n;
    if (strcmp(o->status, "ok") == 0) {
        n += snprintf(line + n, sizeof line - 1 - (size_t)n, "%zu %zu", o->compared, o->unbounded);
    }
    for (int i = 0; i < n; i++) {
        line[i] = line[i] == '\n' ? '|' : line[i];
    }
    line[n++] = '\n';
    for (int sent = 0; sent < n;) {
        ssize_t now = write(STDOUT_FILENO, line + sent, (size_t)(n - sent));
        if (now <= 0) {
            _exit(3);
        }
        sent += (int)now;
    }
}

/* Seconds of the processor: others may have it. Who waits for ever uses none, and has a clock. */
static void limit(int seconds)
{
    enum { SHARE = 20 };
    struct itimerval timer = {.it_value = {.tv_sec = seconds}};
    setitimer(ITIMER_PROF, &timer, NULL);
    alarm((unsigned)(seconds * SHARE));
}

/* A driver takes seconds to make a device's context, and drops it with its last user: the worker
 * itself is one. */
static void hold_device(const char *kind)
{
    TesseraContext *context;
    TesseraDevice *device;
    if (strcmp(kind, "cpu") != 0 && tessera_context_new(NULL, &context) == TESSERA_OK) {
        tessera_device_open(context, kind, 0, &device);
    }
}

static void work(const Options *o, const Case *cases, size_t n, Lane *lane)
{
    bool usable = true; /* a fault leaves a context that nobody can use */
    hold_device(o->device);
    for (int done = 0; usable && lane->at < n && done < PER_WORKER; done++) {
        static Outcome outcome;
        limit(o->seconds);
        case_run(&cases[lane->at], o->device, &outcome);
        limit(0);
        tell(&cases[lane->at], &outcome);
        usable = strcmp(outcome.status, "fault") != 0;
        lane->at += (size_t)o->jobs;
    }
    _exit(0);
}

static void start(const Options *o, const Case *cases, size_t n, Lane *lane)
{
    pid_t pid = lane->at < n ? fork() : -1;
    if (pid == 0) {
        work(o, cases, n, lane);
    }
    lane->pid = pid;
}

static void ended(const Options *o, const Case *cases, size_t n, Lane *lane, int status)
{
    if (WIFSIGNALED(status) || WEXITSTATUS(status) != 0) {
        static Outcome outcome;
        bool late =
            WIFSIGNALED(status) && (WTERMSIG(status) == SIGPROF || WTERMSIG(status) == SIGALRM);
        outcome_set(&outcome, late ? "timeout" : "crash", "", "%s %d",
                    WIFSIGNALED(status) ? "signal" : "exit",
                    WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        tell(&cases[lane->at], &outcome);
        lane->at += (size_t)o->jobs;
    }
    start(o, cases, n, lane);
}

static void run_all(const Options *o, const Case *cases, size_t n)
{
    Lane *lanes = mmap(NULL, MAX_JOBS * sizeof *lanes, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < o->jobs; i++) {
        lanes[i].at = (size_t)i;
        start(o, cases, n, &lanes[i]);
    }
    int status;
    for (pid_t pid; (pid = wait(&status)) > 0;) {
        for (int i = 0; i < o->jobs; i++) {
            if (lanes[i].pid == pid) {
                ended(o, cases, n, &lanes[i], status);
                break;
            }
        }
    }
}

int main(int argc, char **argv)
{
    Options o = {.jobs = 1, .seconds = 30, .device = "cpu"};
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (more && strcmp(argv[i], "--jobs") == 0) {
            o.jobs = atoi(argv[++i]);
        } else if (more && strcmp(argv[i], "--device") == 0) {
            o.device = argv[++i];
        } else if (more && strcmp(argv[i], "--seconds") == 0) {
            o.seconds = atoi(argv[++i]);
        } else if (argv[i][0] != '-') {
            o.file = argv[i];
        } else {
            fprintf(stderr, "tessera-fuzz: unknown option %s\n", argv[i]);
            return 2;
        }
    }
    o.jobs = o.jobs < 1 ? 1 : o.jobs > MAX_JOBS ? MAX_JOBS : o.jobs;
    FILE *file = o.file ? fopen(o.file, "r") : stdin;
    if (!file) {
        fprintf(stderr, "tessera-fuzz: cannot read %s\n", o.file);
        return 2;
    }
    Case *cases;
    const char *problem;
    size_t n = cases_read(read_all(file), &cases, &problem);
    if (problem) {
        fprintf(stderr, "tessera-fuzz: not understood: %s\n", problem);
        return 2;
    }
    run_all(&o, cases, n);
    return 0;
}
