/* SPDX-License-Identifier: Apache-2.0 */
/* Progress with rate and estimated end, rewritten in place. */
#include "cli/progress.h"

#include "support/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

/* Seconds after which a task is long enough to be reported. */
static const double QUIET_SECONDS = 1;

void progress_rate(char *out, size_t n, size_t done, double seconds)
{
    *out = '\0';
    if (seconds >= QUIET_SECONDS && done > 0) {
        snprintf(out, n, ", %.2g/s", (double)done / seconds);
    }
}

void progress_show(const char *what, size_t done, size_t all, double began)
{
    static bool shown;
    double seconds = clock_seconds() - began;
    if (!isatty(STDERR_FILENO) || seconds < QUIET_SECONDS) {
        return;
    }
    if (done < all) {
        char rate[32];
        progress_rate(rate, sizeof rate, done, seconds);
        fprintf(stderr, "\r%s %zu/%zu%s", what, done, all, rate);
        if (done > 0) {
            fprintf(stderr, ", %.1f s left", seconds / (double)done * (double)(all - done));
        }
        fputs("\033[K", stderr);
        shown = true;
    } else if (shown) {
        fputs("\r\033[K", stderr);
    }
    fflush(stderr);
}
