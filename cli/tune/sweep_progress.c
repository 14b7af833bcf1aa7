/* SPDX-License-Identifier: Apache-2.0 */
/* Shows the progress of a sweep on one line of the terminal, and its summary at the end. */
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/tune/cmd_tune_sweep.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { TELL_SECONDS = 10, MAX_SHOWN = 3 };

static void show_time(char *out, size_t n, double seconds)
{
    if (seconds < 1e-3) {
        snprintf(out, n, "%.4g us", seconds * 1e6);
    } else {
        snprintf(out, n, "%.4g ms", seconds * 1e3);
    }
}

/* "3 failed (2 crash, 1 wrong)" */
static void show_failed(char *out, size_t n, const size_t *failed)
{
    size_t all = 0, at = 0;
    for (int i = TUNE_OK + 1; i < TUNE_STATUSES; i++) {
        all += failed[i];
    }
    out[0] = '\0';
    if (all == 0) {
        return;
    }
    at = (size_t)snprintf(out, n, ", %zu failed (", all);
    for (int i = TUNE_OK + 1; i < TUNE_STATUSES; i++) {
        if (failed[i] && at < n) {
            bool first = out[at - 1] == '(';
            at += (size_t)snprintf(out + at, n - at, "%s%zu %s", first ? "" : ", ", failed[i],
                                   tune_status_name((TuneStatus)i));
        }
    }
    if (at < n) {
        snprintf(out + at, n - at, ")");
    }
}

/* Rewrites one line on a terminal; otherwise prints a line every TELL_SECONDS. */
void sweep_progress(void *user, const SweepProgress *p)
{
    SweepShow *show = user;
    char best[32], failed[160], rate[32], words[400];
    if (show->json) {
        sweep_progress_json(show, p);
        return;
    }
    if (p->left == 0 && p->all == p->done) {
        if (show->line) {
            fputs("\r\033[K", stderr);
            show->line = false;
        }
    }
    if (!show->terminal && p->seconds - show->last_output < TELL_SECONDS) {
        return;
    }
    show->last_output = p->seconds;
    size_t at = 0;
    if (show->of > 1) {
        at = (size_t)snprintf(words, sizeof words, "%zu of %zu: ", show->nth + 1, show->of);
    }
    at += (size_t)snprintf(words + at, sizeof words - at, "%s %zu/%zu", p->doing, p->done, p->all);
    progress_rate(rate, sizeof rate, p->done, p->seconds);
    at += (size_t)snprintf(words + at, sizeof words - at, "%s", rate);
    if (p->derived > 0 && p->best > 0) {
        show_time(best, sizeof best, p->best);
        at += (size_t)snprintf(words + at, sizeof words - at, ", best %s, %.3f times the derived",
                               best, p->ratio);
        if (p->roof > 0.005 * p->best) {
            at += (size_t)snprintf(words + at, sizeof words - at, ", %.0f %% of the roofline",
                                   100 * p->roof / p->best);
        }
    }
    show_failed(failed, sizeof failed, p->failed);
    at += (size_t)snprintf(words + at, sizeof words - at, "%s", failed);
    if (p->left >= 0) {
        snprintf(words + at, sizeof words - at, p->left < 20 ? ", %.1f s left" : ", %.0f s left",
                 p->left);
    }
    if (show->terminal) {
        struct winsize window;
        bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1;
        if (known && window.ws_col <= strlen(words)) {
            words[window.ws_col - 1] = '\0'; /* a line that wraps cannot be overwritten */
        }
        fprintf(stderr, "\r%s\033[K", words);
        show->line = true;
    } else {
        fprintf(stderr, "%s\n", words);
    }
    fflush(stderr);
}

/* ---- the summary ---- */

/* share: the ratio to the time of the derived schedule; NULL for the derived schedule itself. */
static void show_median(const char *what, const Median *time, const Median *share)
{
    char middle[32], low[32], high[32];
    show_time(middle, sizeof middle, time->middle);
    show_time(low, sizeof low, time->low);
    show_time(high, sizeof high, time->high);
    printf("%s %s, of %zu from %s to %s", what, middle, time->n, low, high);
    if (share && share->middle > 0) {
        printf("; %.3f times the derived, from %.3f to %.3f", 1 / share->middle, 1 / share->high,
               1 / share->low);
    }
    putchar('\n');
}

/* Lists the time of the measuring workers by activity, and the mean time of a compilation. */
static void show_parts(const SweepResult *r)
{
    static const char *const names[SWEEP_PARTS] = {
        [SWEEP_STARTS] = "starting",    [SWEEP_WAITS] = "waiting", [SWEEP_LOADS] = "loading",
        [SWEEP_COMPARES] = "comparing", [SWEEP_TURNS] = "turns",   [SWEEP_LAST] = "the best again",
    };
    const char *gap = "time     ";
    for (int part = 0; part < SWEEP_PARTS; part++) {
        if (r->parts[part] >= 0.05) {
            printf("%s%s %.1f s", gap, names[part], r->parts[part]);
            gap = ", ";
        }
    }
    if (r->compiled > 0) {
        printf("; %zu compiled, %.2g s each\n", r->compiled, r->compiling / (double)r->compiled);
    } else {
        putchar('\n');
    }
}

/* The entries of a schedule in one line. */
static void show_ranked(const SweepRanked *c)
{
    char predicted[32] = "not known";
    if (c->predicted > 0) {
        show_time(predicted, sizeof predicted, c->predicted);
    }
    printf("%12s  ", predicted);
    for (const char *at = c->searched; *at; at++) {
        if (*at != '\n') {
            putchar(*at);
        } else if (at[1]) {
            fputs("; ", stdout);
        }
    }
    putchar('\n');
}

void sweep_ranking_show(const TuneRecord *base, const char *target, const SweepRanking *r)
{
    char failed[160];
    printf("%s%s%s on %s, %s\n", base->kernel, *base->types ? " with " : "", base->types, target,
           base->sizes);
    show_failed(failed, sizeof failed, r->failed);
    printf("space    %zu points; %zu weighed, %zu of them distinct%s\n", r->points, r->weighed,
           r->distinct, failed);
    puts("derived, by the model:");
    show_ranked(&r->items[0]);
    puts("in the order in which a sweep measures them:");
    for (size_t i = 1; i < r->n; i++) {
        show_ranked(&r->items[i]);
    }
    fflush(stdout);
}

void sweep_result_show(const TuneRecord *base, const SweepResult *r)
{
    char failed[160];
    printf("%s%s%s on %s, %s\n", base->kernel, *base->types ? " with " : "", base->types,
           base->device, base->sizes);
    printf("space    %zu points; %zu weighed, %zu of them distinct", r->points, r->weighed,
           r->distinct);
    show_failed(failed, sizeof failed, r->failed);
    printf("\nmeasured %zu in %.1f s%s%s\n", r->measured, r->seconds, failed,
           r->interrupted ? "; stopped" : "");
    show_parts(r);
    printf("room     candidates launched that could not fit: %zu\n", r->launched_too_big);
    if (isfinite(r->agreement)) {
        printf("model    its ranking agrees with the measured one by %.2f (Spearman)\n",
               r->agreement);
    }
    if (r->derived.n > 0) {
        show_median("derived ", &r->derived, NULL);
    }
    if (r->n_best > 0) {
        show_median("best    ", &r->best[0].time, &r->best[0].share);
        for (const char *at = r->best[0].lines; *at;) {
            size_t n = strcspn(at, "\n");
            printf("         %.*s\n", (int)n, at);
            at += n + (at[n] == '\n');
        }
    }
    for (size_t i = 1; i < r->n_best && i < MAX_SHOWN; i++) {
        show_median("then    ", &r->best[i].time, &r->best[i].share);
    }
    if (r->roof > 0 && r->derived.n > 0) {
        double best = r->n_best > 0 ? r->best[0].time.middle : r->derived.middle;
        best = best < r->derived.middle ? best : r->derived.middle;
        if (r->roof > 0.005 * best) {
            printf("roofline %.0f %% of it\n", 100 * r->roof / best);
        }
    }
    if (r->interrupted) {
        printf("winner   not decided: the sweep was stopped%s\n",
               r->unkept ? "" : "; --resume continues");
    } else if (r->n_best > 0 && r->separated) {
        puts("winner   the best one: it is surely faster than the derived one");
    } else {
        puts("winner   the derived schedule: nothing is surely faster");
    }
    fflush(stdout);
}
