/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, watches and ends the worker processes of a sweep. It exchanges lines with them through
 * sockets and reports how a worker ended together with the last lines of its stderr. */
#define _GNU_SOURCE
#include "tune/sweep/worker_pool.h"

#include "support/clock.h"

#include <errno.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORKERS = 512, MAX_LINE = 1 << 22, MAX_WORDS = 600 };

/* ---- beginning and ending ---- */

static bool spawn(Worker *worker, int end, char *const *arguments, char *const *environment)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigemptyset(&none);
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return false;
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return false;
    }
    errno = posix_spawn_file_actions_adddup2(&actions, end, STDIN_FILENO);
    errno = errno ? errno : posix_spawn_file_actions_adddup2(&actions, end, STDOUT_FILENO);
    errno = errno ? errno : posix_spawn_file_actions_adddup2(&actions, worker->log, STDERR_FILENO);
    errno = errno ? errno
                  : posix_spawnattr_setflags(&attributes,
                                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    errno = errno ? errno : posix_spawnattr_setsigmask(&attributes, &none);
    errno = errno ? errno
                  : posix_spawn(&worker->process, arguments[0], &actions, &attributes, arguments,
                                environment);
    int why = errno;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    errno = why;
    return why == 0;
}

bool worker_start(Worker *worker, char *const *arguments, char *const *environment)
{
    int ends[2];
    *worker = (Worker){.link = -1, .log = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        return false;
    }
    worker->log = memfd_create("log", MFD_CLOEXEC);
    bool good = worker->log >= 0 && spawn(worker, ends[1], arguments, environment);
    int why = errno;
    close(ends[1]);
    if (!good) {
        close(ends[0]);
        if (worker->log >= 0) {
            close(worker->log);
        }
        *worker = (Worker){.link = -1, .log = -1};
        errno = why;
        return false;
    }
    worker->link = ends[0];
    return true;
}

int worker_end(Worker *worker)
{
    int status = 0;
    if (worker->process <= 0) {
        return 0;
    }
    /* Distinguishes a worker that ended by itself, whose process group may still run. */
    pid_t ended = waitpid(worker->process, &status, WNOHANG);
    kill(-worker->process, SIGKILL);
    while (ended == 0 && waitpid(worker->process, &status, 0) < 0 && errno == EINTR) {}
    close(worker->link);
    close(worker->log);
    free(worker->buffer);
    *worker = (Worker){.link = -1, .log = -1};
    return status;
}

const char *worker_stderr_tail(Arena *arena, const Worker *worker)
{
    struct stat info;
    if (worker->log < 0 || fstat(worker->log, &info) != 0 || info.st_size <= 0) {
        return "";
    }
    off_t from = info.st_size > MAX_WORDS ? info.st_size - MAX_WORDS : 0;
    char *words = arena_alloc(arena, MAX_WORDS + 1);
    ssize_t n = pread(worker->log, words, MAX_WORDS, from);
    n = n > 0 ? n : 0;
    while (n > 0 && (words[n - 1] == '\n' || words[n - 1] == ' ')) {
        n--;
    }
    words[n] = '\0';
    return words;
}

const char *worker_exit_text(Arena *arena, Worker *worker)
{
    const char *tail = worker_stderr_tail(arena, worker);
    int status = worker_end(worker);
    const char *gap = *tail ? ": " : "";
    return WIFSIGNALED(status) ? arena_printf(arena, "the worker was ended by %s%s%s",
                                              strsignal(WTERMSIG(status)), gap, tail)
                               : arena_printf(arena, "the worker ended with status %d%s%s",
                                              WEXITSTATUS(status), gap, tail);
}

bool worker_begin(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return getppid() == parent;
}

/* ---- lines ---- */

void worker_send(Worker *worker, const char *format, ...)
{
    va_list args;
    char *line;
    va_start(args, format);
    int n = vasprintf(&line, format, args);
    va_end(args);
    if (n < 0) {
        return;
    }
    line[n++] = '\n'; /* replaces the terminating zero */
    for (int at = 0; at < n && worker->process > 0;) {
        ssize_t sent = send(worker->link, line + at, (size_t)(n - at), MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR) {
            break;
        }
        at += sent > 0 ? (int)sent : 0;
    }
    free(line);
}

/* The next whole line, or NULL. */
static char *take_line(Worker *worker)
{
    char *from = worker->buffer + worker->taken;
    char *end = worker->n > worker->taken ? memchr(from, '\n', worker->n - worker->taken) : NULL;
    if (!end) {
        if (worker->taken > 0) {
            memmove(worker->buffer, from, worker->n - worker->taken);
        }
        worker->n -= worker->taken;
        worker->taken = 0;
        return NULL;
    }
    *end = '\0';
    worker->taken = (size_t)(end + 1 - worker->buffer);
    return from;
}

/* False: the end of the stream. */
static bool receive(Worker *worker)
{
    enum { PIECE = 65536 };
    if (worker->cap - worker->n < PIECE) {
        char *more = worker->cap < MAX_LINE ? realloc(worker->buffer, worker->cap + PIECE) : NULL;
        if (!more) {
            return false;
        }
        worker->buffer = more;
        worker->cap += PIECE;
    }
    ssize_t n = recv(worker->link, worker->buffer + worker->n, worker->cap - worker->n, 0);
    worker->n += n > 0 ? (size_t)n : 0;
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

static Event line_of_any(Worker *const *workers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *line = workers[i]->process > 0 ? take_line(workers[i]) : NULL;
        if (line) {
            return (Event){EVENT_LINE, i, line};
        }
    }
    return (Event){EVENT_NONE, 0, NULL};
}

static Event late_one(Worker *const *workers, size_t n, double now)
{
    for (size_t i = 0; i < n; i++) {
        if (workers[i]->process > 0 && workers[i]->deadline > 0 && now > workers[i]->deadline) {
            return (Event){EVENT_LATE, i, NULL};
        }
    }
    return (Event){EVENT_NONE, 0, NULL};
}

static int wait_milliseconds(Worker *const *workers, size_t n, double until, double now)
{
    for (size_t i = 0; i < n; i++) {
        double deadline = workers[i]->process > 0 ? workers[i]->deadline : 0;
        until = deadline > 0 && deadline < until ? deadline : until;
    }
    double left = (until - now) * 1e3;
    return left <= 0 ? 0 : left > 1e6 ? 1000000 : (int)left + 1;
}

Event workers_wait(Worker *const *workers, size_t n, double until)
{
    struct pollfd files[MAX_WORKERS];
    size_t index[MAX_WORKERS];
    for (;;) {
        Event event = line_of_any(workers, n);
        double now = clock_seconds();
        event = event.kind == EVENT_NONE ? late_one(workers, n, now) : event;
        if (event.kind != EVENT_NONE || now >= until) {
            return event;
        }
        nfds_t open = 0;
        for (size_t i = 0; i < n && open < MAX_WORKERS; i++) {
            if (workers[i]->process > 0) {
                index[open] = i;
                files[open++] = (struct pollfd){.fd = workers[i]->link, .events = POLLIN};
            }
        }
        int ready = poll(files, open, wait_milliseconds(workers, n, until, now));
        if (ready < 0) {
            return (Event){EVENT_NONE, 0, NULL}; /* a signal */
        }
        for (nfds_t i = 0; i < open && ready > 0; i++) {
            if (files[i].revents && !receive(workers[index[i]])) {
                return (Event){EVENT_ENDED, index[i], NULL};
            }
        }
    }
}
