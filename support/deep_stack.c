/* SPDX-License-Identifier: Apache-2.0 */
/* Passes, emitters and the interpreter recurse over operands, and LLVM does so, too: a chain of a
 * hundred thousand ops is that many calls deep. How much stack the caller's thread has is not known
 * (8 MB in a main thread, 128 KB in a thread with musl), and C cannot extend it. */
#include "support/deep_stack.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* A function has at most a million values (ir/block.c), and the calls for one of them take less
 * than 1 KB. The memory is reserved, not used: a page of it exists from its first write on. */
static const size_t MOST = (size_t)1 << 30;
/* Where less memory may be reserved, less does for nearly all programs. */
static const size_t LEAST = (size_t)8 << 20;

/* Faults of a thread's own code. All other signals are blocked. */
static const int OF_THREADS[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP, SIGABRT};

static _Thread_local bool is_deep;

typedef struct Call {
    void (*run)(void *user);
    void *user;
} Call;

static void *thread_main(void *user)
{
    const Call *call = user;
    is_deep = true;
    call->run(call->user);
    return NULL;
}

static bool start(pthread_t *thread, Call *call)
{
    pthread_attr_t attr;
    bool started = false;
    if (pthread_attr_init(&attr) != 0) {
        return false;
    }
    for (size_t bytes = MOST; bytes >= LEAST && !started; bytes /= 2) {
        started = pthread_attr_setstacksize(&attr, bytes) == 0 &&
                  pthread_create(thread, &attr, thread_main, call) == 0;
    }
    pthread_attr_destroy(&attr);
    return started;
}

/* The thread inherits what is blocked. */
static bool start_without_signals(pthread_t *thread, Call *call)
{
    sigset_t all, before;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof OF_THREADS / sizeof *OF_THREADS; i++) {
        sigdelset(&all, OF_THREADS[i]);
    }
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = start(thread, call);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void deep_stack_call(void (*run)(void *user), void *user)
{
    Call call = {run, user};
    pthread_t thread;
    if (is_deep || !start_without_signals(&thread, &call)) {
        run(user);
        return;
    }
    pthread_join(thread, NULL);
}
