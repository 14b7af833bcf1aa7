/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a learner's program: words that it must do without, then its answers, then the figures
 * that `explain` predicts. What is wrong is explained by the first `because` line of the lesson
 * whose conditions hold. */
#include "cli/learn/lesson_check.h"
#include "cli/learn/answers.h"
#include "cli/learn/figures.h"
#include "cli/learn/page.h"
#include "cli/output_files.h"
#include "cli/session.h"
#include "cli/terminal.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TARGETS = 16, SECONDS = 60 };

typedef struct Check {
    const Lesson *lesson;
    const Options *options;
    const char *path;
    char *program; /* without comments */
    bool answer_wrong;
    bool missed[MAX_TARGETS];
    size_t n_missed;
    char error[8]; /* code of the compiler's first error */
} Check;

static void say(Style style, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void say(Style style, const char *label, const char *format, ...)
{
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    page_line(stdout, style, label, text);
}

/* ---- the program's text ---- */

static char *without_comments(const char *text)
{
    char *out = session_alloc(strlen(text) + 1);
    size_t n = 0;
    while (*text) {
        text += *text == '#' ? strcspn(text, "\n") : 0;
        if (*text) {
            out[n++] = *text++;
        }
    }
    return out;
}

static bool is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool has_word(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = text; (at = strstr(at, word)); at++) {
        if ((at == text || !is_letter(at[-1])) && !is_letter(at[n])) {
            return true;
        }
    }
    return false;
}

/* ---- reasons ---- */

/* `answer`, `figure`, `figure 2`, `error E0402`, `has "text"`, `lacks "text"`. */
static bool holds(const Check *check, const char *condition)
{
    const char *quote = strchr(condition, '"');
    if (quote) {
        char *text = session_text(quote + 1, strcspn(quote + 1, "\""));
        return (strstr(check->program, text) != NULL) == (strncmp(condition, "has", 3) == 0);
    }
    if (strncmp(condition, "error", 5) == 0) {
        return *check->error && strstr(condition, check->error);
    }
    if (strncmp(condition, "figure", 6) == 0) {
        int number = atoi(condition + 6);
        return number > 0 && number <= MAX_TARGETS ? check->missed[number - 1]
                                                   : check->n_missed > 0;
    }
    return strcmp(condition, "answer") == 0 && check->answer_wrong;
}

static void give_reason(const Check *check)
{
    for (size_t i = 0; i < check->lesson->n_reasons; i++) {
        const LessonReason *reason = &check->lesson->reasons[i];
        bool all = true;
        const char *at = reason->condition;
        while (all && at) {
            const char *end = strstr(at, " and ");
            all = holds(check, session_text(at, end ? (size_t)(end - at) : strlen(at)));
            at = end ? end + 5 : NULL;
        }
        if (all) {
            say(STYLE_WARN, "why", "%s", reason->text);
            return;
        }
    }
    say(STYLE_DIM, "help", "`tessera learn hint` has a hint.");
}

/* The compiler's errors, and the lesson's reason for them. */
static int compile_failed(Check *check, const TesseraContext *context, int code)
{
    const TesseraDiagnostic *items;
    if (tessera_diagnostics(context, &items) > 0) {
        snprintf(check->error, sizeof check->error, "%s", items[0].code);
    }
    fflush(stdout);
    fail_context(context);
    give_reason(check);
    return code;
}

/* ---- answers ---- */

static int check_answers(Check *check)
{
    AnswerResult result;
    Session session;
    bool reported;
    int code =
        answers_compare(check->path, check->lesson, check->options, &session, &reported, &result);
    if (code != 0) {
        code = reported ? code : compile_failed(check, session.context, code);
    } else if (result.right) {
        say(STYLE_GOOD, "answers", "right on the interpreter and the CPU, for %zu set%s of data",
            result.n_data, result.n_data == 1 ? "" : "s");
    } else {
        check->answer_wrong = true;
        say(STYLE_BAD, "answers", "wrong: %s", result.where);
        give_reason(check);
        code = TESSERA_DIFFERENT;
    }
    session_close(&session);
    return code;
}

static int check_bans(const Check *check)
{
    for (size_t i = 0; i < check->lesson->n_bans; i++) {
        const LessonBan *ban = &check->lesson->bans[i];
        if (has_word(check->program, ban->word)) {
            say(STYLE_BAD, "program", "has `%s`. %s", ban->word, ban->text);
            return TESSERA_DIFFERENT;
        }
    }
    return 0;
}

/* ---- figures ---- */

/* What a GPU measures may miss a target by this factor: predictions are off by as much. */
static const double MEASURED_SLACK = 1.25;

static void check_target(Check *check, const Figures *figures, size_t index, double measured)
{
    const LessonTarget *target = &check->lesson->targets[index];
    const char *unit = "", *limit = target->at_least ? "at least" : "at most";
    double value = 0, wanted = target->value;
    FigureState state = figure_value(figures, target->figure, &value, &unit);
    bool by_gpu = measured > 0 && figure_is_time(target->figure);
    if (state == FIGURE_UNKNOWN && !by_gpu) {
        say(STYLE_WARN, "figure",
            "`%s` cannot be predicted here: it needs ptxas, which counts registers (`tessera "
            "doctor` says how to get it); it is not checked",
            target->figure);
        return;
    }
    if (by_gpu) {
        value = figure_with_seconds(target->figure, value, figures_seconds(figures), measured);
        wanted = target->at_least ? wanted / MEASURED_SLACK : wanted * MEASURED_SLACK;
    }
    bool known = state == FIGURE_KNOWN || by_gpu;
    bool good = known && (target->at_least ? value >= wanted : value <= wanted);
    check->missed[index] = !good;
    check->n_missed += !good;
    if (!known) {
        say(STYLE_BAD, "figure", "the program has no %s", target->figure);
    } else {
        bool same = strcmp(unit, target->figure) == 0;
        char number[32];
        snprintf(number, sizeof number, fabs(value) < 1000 ? "%.3g" : "%.0f", value);
        say(good ? STYLE_GOOD : STYLE_BAD, "figure", "%s%s%s%s %s; %s %.3g %s asked for",
            by_gpu ? "measured " : "", same ? "" : target->figure, same ? "" : ": ", number, unit,
            limit, wanted, wanted == 1 ? "is" : "are");
    }
}

/* Seconds that count instead of the predicted ones; 0: there are none. Targets are those of one
 * GPU: what another one of the same kind measures is only said. */
static double measure(const Check *check, const Figures *figures)
{
    const Lesson *lesson = check->lesson;
    const char *gpu = figure_text(figures, "gpu");
    char device[128];
    bool asked = false;
    for (size_t i = 0; i < lesson->n_targets; i++) {
        asked = asked || figure_is_time(lesson->targets[i].figure);
    }
    double seconds =
        asked ? answers_measure(check->path, lesson, check->options, device, sizeof device) : 0;
    if (seconds > 0 && strcmp(device, gpu) != 0) {
        say(STYLE_NONE, "GPU", "%s takes %.4g us; the targets are those of %s", device,
            seconds * 1e6, gpu);
        return 0;
    }
    if (seconds > 0) {
        say(STYLE_NONE, "GPU", "%s is here: times are measured", device);
    }
    return seconds;
}

static int check_figures(Check *check)
{
    const Lesson *lesson = check->lesson;
    const Figures *figures;
    Session session;
    int code = figures_of(check->path, NULL, lesson, &lesson->compile, NULL, &session, &figures);
    if (code != 0) {
        code = compile_failed(check, session.context, code);
        session_close(&session);
        return code;
    }
    session_close(&session);
    double measured = measure(check, figures);
    for (size_t i = 0; i < lesson->n_targets && i < MAX_TARGETS; i++) {
        check_target(check, figures, i, measured);
    }
    if (check->n_missed > 0) {
        give_reason(check);
    }
    return check->n_missed > 0 ? TESSERA_DIFFERENT : 0;
}

int lesson_check(const char *path, const Lesson *lesson, const Options *options)
{
    char *text;
    size_t n;
    Options limited = *options;
    limited.timeout = options->timeout == NOT_GIVEN ? SECONDS : options->timeout;
    int code = file_read(path, &text, &n);
    if (code != 0) {
        return code;
    }
    Check check = {
        .lesson = lesson, .options = &limited, .path = path, .program = without_comments(text)};
    free(text);
    code = check_bans(&check);
    code = code ? code : check_answers(&check);
    return code || lesson->n_targets == 0 ? code : check_figures(&check);
}
