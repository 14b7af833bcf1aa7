/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera tune FILE.tile --json`: the progress and the outcome of a sweep as lines of JSON on
 * standard output, for programs that start one. */
#include "cli/json_write.h"
#include "cli/tune/cmd_tune_sweep.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const double JSON_SECONDS = 0.2; /* between two lines of progress */

static void key(const char *name)
{
    printf(", \"%s\": ", name);
}

static void number(const char *name, double value)
{
    key(name);
    json_number(stdout, value);
}

static void text(const char *name, const char *value)
{
    key(name);
    json_string(stdout, value);
}

/* {"wrong": 1}: what became of the candidates that were not measured. */
static void failed(const size_t *counts)
{
    const char *gap = "";
    key("failed");
    putchar('{');
    for (int i = TUNE_OK + 1; i < TUNE_STATUSES; i++) {
        if (counts[i]) {
            fputs(gap, stdout);
            json_string(stdout, tune_status_name((TuneStatus)i));
            printf(": %zu", counts[i]);
            gap = ", ";
        }
    }
    putchar('}');
}

void sweep_progress_json(SweepShow *show, const SweepProgress *p)
{
    bool last = p->left == 0 && p->all == p->done;
    if (!last && p->seconds - show->last_output < JSON_SECONDS) {
        return;
    }
    show->last_output = p->seconds;
    printf("{\"progress\": {\"case\": %zu, \"cases\": %zu", show->nth + 1, show->of);
    text("doing", p->doing);
    number("seconds", p->seconds);
    number("left", p->left < 0 ? NAN : p->left);
    printf(", \"done\": %zu, \"all\": %zu", p->done, p->all);
    failed(p->failed);
    number("derived", p->derived > 0 ? p->derived : NAN);
    number("best", p->best > 0 ? p->best : NAN);
    number("ratio", p->best > 0 ? p->ratio : NAN);
    puts("}}");
    fflush(stdout);
}

/* A time; with `share`, also how many times as fast as the derived schedule that is. */
static void median(const char *name, const Median *time, const Median *share)
{
    key(name);
    if (!time || time->n == 0) {
        fputs("null", stdout);
        return;
    }
    printf("{\"n\": %zu", time->n);
    number("seconds", time->middle);
    number("low", time->low);
    number("high", time->high);
    if (share && share->middle > 0) {
        number("ratio", 1 / share->middle);
        number("ratio_low", 1 / share->high);
        number("ratio_high", 1 / share->low);
    }
    putchar('}');
}

/* Lines of a schedule, one after the other in one text. */
static void schedule(const char *lines)
{
    const char *gap = "";
    key("schedule");
    putchar('[');
    while (*lines) {
        size_t n = strcspn(lines, "\n");
        fputs(gap, stdout);
        json_string(stdout, session_text(lines, n));
        gap = ", ";
        lines += n + (lines[n] == '\n');
    }
    putchar(']');
}

static void candidate(const SweepRanked *c)
{
    fputs("{\"predicted\": ", stdout);
    json_number(stdout, c->predicted > 0 ? c->predicted : NAN);
    printf(", \"code\": \"%016" PRIx64 "\"", c->code);
    text("lines", c->asked);
    schedule(c->searched);
    putchar('}');
}

void sweep_ranking_json(const TuneRecord *base, const char *target, const SweepRanking *r)
{
    printf("{\"ranking\": {\"points\": %zu, \"weighed\": %zu, \"distinct\": %zu", r->points,
           r->weighed, r->distinct);
    text("kernel", base->kernel);
    text("types", base->types);
    text("sizes", base->sizes);
    text("target", target);
    failed(r->failed);
    key("derived");
    candidate(&r->items[0]);
    key("candidates");
    putchar('[');
    for (size_t i = 1; i < r->n; i++) {
        fputs(i > 1 ? ", " : "", stdout);
        candidate(&r->items[i]);
    }
    puts("]}}");
    fflush(stdout);
}

void sweep_result_json(const TuneRecord *base, const SweepResult *r)
{
    const SweepWinner *best = r->n_best > 0 ? &r->best[0] : NULL;
    bool faster = best && r->separated && !r->interrupted;
    printf("{\"result\": {\"faster\": %s, \"interrupted\": %s", faster ? "true" : "false",
           r->interrupted ? "true" : "false");
    text("kernel", base->kernel);
    text("types", base->types);
    text("sizes", base->sizes);
    text("bucket", base->bucket);
    text("device", base->device);
    text("target", base->arch);
    printf(", \"weighed\": %zu, \"measured\": %zu", r->weighed, r->measured);
    failed(r->failed);
    number("seconds", r->seconds);
    number("roof", r->roof > 0 ? r->roof : NAN);
    median("derived", &r->derived, NULL);
    median("best", best ? &best->time : NULL, best ? &best->share : NULL);
    schedule(best ? best->lines : "");
    puts("}}");
    fflush(stdout);
}
