/* SPDX-License-Identifier: Apache-2.0 */
/* Worker processes of a sweep, which communicate in lines. Each has its own process group, so that
 * its child processes end with it and the terminal's signals do not reach it; it ends with its
 * parent. */
#ifndef TESSERA_TUNE_SWEEP_WORKER_POOL_H
#define TESSERA_TUNE_SWEEP_WORKER_POOL_H

#include "support/text.h"

#include <signal.h>
#include <sys/types.h>

typedef struct Worker {
    pid_t process; /* 0: none */
    int link, log; /* a socket, where its lines come and go; what it says on standard error */
    char *buffer;  /* lines that have come, to be freed by worker_end */
    size_t n, cap, taken;
    double deadline; /* when it is late, by clock_seconds; 0: never */
} Worker;

/* `environment` as of execve. False: errno. */
bool worker_start(Worker *worker, char *const *arguments, char *const *environment);
/* A line, its end is added. What a process that has ended would have got is lost. */
void worker_send(Worker *worker, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends its group, and frees. How it had ended, if it had, as of waitpid. */
int worker_end(Worker *worker);
/* The last of what it said on standard error, "" for nothing. */
const char *worker_stderr_tail(Arena *arena, const Worker *worker);
/* How one ended that nobody asked to, in words, with the last of what it said; it is ended. */
const char *worker_exit_text(Arena *arena, Worker *worker);

typedef enum EventKind {
    EVENT_NONE, /* nobody said anything until then, or a signal came */
    EVENT_LINE,
    EVENT_ENDED, /* its end of the line is closed */
    EVENT_LATE,
} EventKind;
typedef struct Event {
    EventKind kind;
    size_t worker; /* index */
    char *line;    /* good until the next workers_wait */
} Event;
/* One event of the workers; of those there are (process), until `until` by clock_seconds. */
Event workers_wait(Worker *const *workers, size_t n, double until);

/* The side of the worker: ends with `parent`. False: that has ended already. */
bool worker_begin(pid_t parent);

#endif
