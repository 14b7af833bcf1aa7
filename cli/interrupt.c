/* SPDX-License-Identifier: Apache-2.0 */
/* Being told to stop, by others or by the clock: the file that is being written goes, and the exit
 * status says what happened. At most one file is under way at a time. */
#include "cli/cli.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PATH = 4096, OUT_OF_TIME = 124 };

/* The last one: who reads our output has gone, as `head` does; no words are wanted. */
static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPIPE};
static char under_way[MOST_PATH]; /* changed only while the signals are blocked */

static void stop(int number)
{
    if (under_way[0]) {
        unlink(under_way);
    }
    if (number == SIGALRM) {
        static const char words[] =
            "error[E1023]: compiling takes too long; --timeout SECONDS gives more"
            " time, 0 any\n";
        ssize_t written = write(STDERR_FILENO, words, sizeof words - 1);
        (void)written;
        _exit(OUT_OF_TIME);
    }
    _exit(128 + number);
}

static sigset_t all_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) {
        sigaddset(&set, SIGNALS[i]);
    }
    return set;
}

void interrupts_begin(void)
{
    struct sigaction action = {.sa_handler = stop, .sa_mask = all_signals()};
    for (size_t i = 0; i < sizeof SIGNALS / sizeof *SIGNALS; i++) {
        struct sigaction before;
        /* What the caller lets its children ignore (nohup) stays ignored. */
        if (sigaction(SIGNALS[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN) {
            sigaction(SIGNALS[i], &action, NULL);
        }
    }
}

void interrupts_hold(InterruptHold *hold)
{
    sigset_t set = all_signals();
    pthread_sigmask(SIG_BLOCK, &set, &hold->before);
}

void interrupts_go_on(const InterruptHold *hold)
{
    pthread_sigmask(SIG_SETMASK, &hold->before, NULL);
}

void interrupts_remove(const char *path)
{
    InterruptHold hold;
    interrupts_hold(&hold);
    size_t n = path ? strlen(path) : 0;
    memcpy(under_way, path ? path : "", n < MOST_PATH ? n : 0);
    under_way[n < MOST_PATH ? n : 0] = '\0';
    interrupts_go_on(&hold);
}

void timeout_begin(int seconds)
{
    alarm((unsigned int)seconds);
}

void timeout_end(void)
{
    alarm(0);
}
