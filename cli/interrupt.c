/* SPDX-License-Identifier: Apache-2.0 */
/* Ends the program on a signal, on --timeout or after a fault of a kernel. It removes the output
 * file that is being written (there is at most one at a time) and sets the exit status. A thread
 * that waits for a device or that loops cannot be stopped alone, so the whole process ends, and
 * the driver frees what it has on the device. */
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/session.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { MAX_PATH = 4096, MAX_WORDS = 1024, OUT_OF_TIME = 124 };
/* Limits of a compilation without --timeout: CPU time, so that a busy machine changes nothing, and
 * elapsed time, which ends an assembler that hangs. */
enum { COMPILING_SECONDS = 60, COMPILING_AT_MAX = 600 };

/* SIGPIPE: the reader of the output has closed it, as `head` does; no message is printed. */
static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGPROF, SIGPIPE};
static char under_way[MAX_PATH]; /* changed only while the signals are blocked */

/* The message and the exit status of an expected end: formatted ahead for the signal handler. */
typedef struct Ending {
    char words[MAX_WORDS];
    size_t n;
    int status;
} Ending;

static Ending out_of_time; /* changed only while no alarm is set */

static void end_with(const Ending *ending)
{
    if (under_way[0]) {
        unlink(under_way);
    }
    ssize_t written = write(STDERR_FILENO, ending->words, ending->n);
    (void)written;
    _exit(ending->status);
}

static void stop(int number)
{
    static const Ending silent;
    bool late = number == SIGALRM || number == SIGPROF;
    Ending ending = late ? out_of_time : silent;
    ending.status = late ? ending.status : 128 + number;
    end_with(&ending);
}

/* ---- traps ---- */

static const struct {
    int number;
    const char *what;
} TRAPS[] = {
    {SIGSEGV, "an access to memory that is not there (SIGSEGV)"},
    {SIGBUS, "an access to memory that is not there (SIGBUS)"},
    {SIGFPE, "arithmetic that the processor refuses (SIGFPE)"},
    {SIGILL, "an instruction that the processor refuses (SIGILL)"},
};
enum { N_TRAPS = sizeof TRAPS / sizeof *TRAPS };
static Ending trapped[N_TRAPS];
static struct sigaction before_traps[N_TRAPS];
static bool traps_are_set;

static void trap(int number)
{
    for (int i = 0; i < N_TRAPS; i++) {
        if (TRAPS[i].number == number) {
            end_with(&trapped[i]);
        }
    }
}

static void set_traps(const char *kernel, const char *where)
{
    struct sigaction action = {.sa_handler = trap};
    for (int i = 0; i < N_TRAPS; i++) {
        trapped[i].n =
            fail_text(trapped[i].words, MAX_WORDS, FAIL_TRAP, "%.60s on %.80s: the kernel made %s",
                      kernel, where, TRAPS[i].what);
        trapped[i].status = TESSERA_FAULT;
        sigaction(TRAPS[i].number, &action, &before_traps[i]);
    }
    traps_are_set = true;
}

static void drop_traps(void)
{
    for (int i = 0; i < N_TRAPS && traps_are_set; i++) {
        sigaction(TRAPS[i].number, &before_traps[i], NULL);
    }
    traps_are_set = false;
}

/* ---- signals of others ---- */

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

void interrupts_release(const InterruptHold *hold)
{
    pthread_sigmask(SIG_SETMASK, &hold->before, NULL);
}

void interrupts_remove(const char *path)
{
    InterruptHold hold;
    interrupts_hold(&hold);
    size_t n = path ? strlen(path) : 0;
    memcpy(under_way, path ? path : "", n < MAX_PATH ? n : 0);
    under_way[n < MAX_PATH ? n : 0] = '\0';
    interrupts_release(&hold);
}

/* ---- the clock ---- */

static void stop_clocks(void)
{
    alarm(0);
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
}

void timeout_begin(const Options *options)
{
    int given = options->timeout;
    stop_clocks();
    out_of_time.n = fail_text(out_of_time.words, MAX_WORDS, FAIL_COMPILE_TIMEOUT,
                              "compiling takes too long; --timeout SECONDS gives more time, 0 any");
    out_of_time.status = OUT_OF_TIME;
    alarm((unsigned int)(given == NOT_GIVEN ? COMPILING_AT_MAX : given));
    if (given == NOT_GIVEN) {
        struct itimerval limit = {.it_value.tv_sec = COMPILING_SECONDS};
        setitimer(ITIMER_PROF, &limit, NULL);
    }
}

void inputs_begin(const Options *options)
{
    int given = options->timeout;
    stop_clocks();
    if (given != NOT_GIVEN) {
        out_of_time.n = fail_text(out_of_time.words, MAX_WORDS, FAIL_COMPILE_TIMEOUT,
                                  "the inputs are not made after %d second%s (--timeout): give "
                                  "smaller sizes, or files",
                                  given, given == 1 ? "" : "s");
        out_of_time.status = OUT_OF_TIME;
        alarm((unsigned int)given);
    }
}

void timeout_end(void)
{
    stop_clocks();
}

void run_begin(const Options *options, bool own_code, const char *kernel, const char *where)
{
    int given = options->timeout;
    stop_clocks();
    fflush(stdout); /* output must not be lost if the kernel ends the program */
    if (own_code) {
        set_traps(kernel, where);
    }
    if (given != NOT_GIVEN) {
        out_of_time.n = fail_text(out_of_time.words, MAX_WORDS, FAIL_KERNEL_TIMEOUT,
                                  "%.60s on %.80s: the kernel has not ended after %d second%s "
                                  "(--timeout)",
                                  kernel, where, given, given == 1 ? "" : "s");
        out_of_time.status = TESSERA_FAULT;
        alarm((unsigned int)given);
    }
}

void run_begin_on(const Options *options, const char *kernel, const TesseraDevice *device)
{
    const TesseraDeviceInfo *info = tessera_device_info(device);
    run_begin(options, strcmp(info->kind, "cpu") == 0, kernel, info->name);
}

void run_end(void)
{
    stop_clocks();
    drop_traps();
}
