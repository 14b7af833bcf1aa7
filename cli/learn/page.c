/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the placeholders of a page. `{{start}}` on a line is the program start.tile; `{{FILE:
 * FIGURE}}` is a figure of figures.def of that program. Between FILE and `:` there may be
 *
 *     with "tile M 64; warps 4"    further schedule entries, or the name of a schedule
 *     at M=64,N=64                 other sizes than those of the lesson's `gpu` line
 *     set T=f32                    other types and constants
 *
 * so that no number of a text can differ from what the compiler says. */
#include "cli/learn/page.h"
#include "cli/learn/figures.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct Text {
    char *text;
    size_t n, cap;
} Text;

static void add(Text *to, const char *text, size_t n)
{
    if (to->n + n + 1 > to->cap) {
        to->cap = 2 * (to->n + n + 1);
        char *more = session_alloc(to->cap);
        memcpy(more, to->text ? to->text : "", to->n);
        to->text = more;
    }
    memcpy(to->text + to->n, text, n);
    to->n += n;
}

static void add_text(Text *to, const char *text)
{
    add(to, text, strlen(text));
}

/* ---- programs of the lesson ---- */

/* What stands before the colon of a placeholder. */
typedef struct Variant {
    const char *spec;
    const Figures *figures;
} Variant;

typedef struct Filler {
    const Lesson *lesson;
    Variant *variants; /* compiled so far */
    size_t n_variants;
} Filler;

static const char *program_text(const Lesson *lesson, const char *stem)
{
    char name[128];
    snprintf(name, sizeof name, "%s.tile", stem);
    return lesson_file(lesson, name);
}

static int bad_placeholder(const Lesson *lesson, const char *text, const char *why)
{
    return fail(TESSERA_INTERNAL, "lessons/%s/page.md: {{%s}}: %s", lesson->folder, text, why);
}

/* The word or the text in quotes at *at, behind blanks. */
static char *take_word(const char **at)
{
    *at += strspn(*at, " ");
    bool quoted = **at == '"';
    *at += quoted;
    size_t n = strcspn(*at, quoted ? "\"" : " ");
    char *word = session_text(*at, n);
    *at += n + (quoted && (*at)[n] == '"');
    return word;
}

static int compile_variant(const Lesson *lesson, const char *spec, const Figures **figures)
{
    const char *at = spec, *stem = take_word(&at), *key;
    LessonSetting setting = lesson->compile;
    Strings lines = {0};
    while (*(key = take_word(&at))) {
        char *value = take_word(&at);
        if (strcmp(key, "with") == 0) {
            lines.items = session_grow(lines.items, lines.n, sizeof *lines.items);
            lines.items[lines.n++] = value;
        } else if (strcmp(key, "at") == 0) {
            setting.sizes = value;
        } else if (strcmp(key, "set") == 0) {
            setting.sets = value;
        } else {
            return bad_placeholder(lesson, spec, "expected with, at or set");
        }
    }
    const char *text = program_text(lesson, stem);
    if (!text || !lesson->gpu) {
        return bad_placeholder(lesson, spec, text ? "the lesson has no gpu" : "no such program");
    }
    Session session;
    int code = figures_of(stem, text, lesson, &setting, &lines, &session, figures);
    if (code != 0) {
        fail_context(session.context);
    }
    session_close(&session);
    return code;
}

static int find_variant(Filler *f, const char *spec, const Figures **figures)
{
    for (size_t i = 0; i < f->n_variants; i++) {
        if (strcmp(f->variants[i].spec, spec) == 0) {
            *figures = f->variants[i].figures;
            return 0;
        }
    }
    int code = compile_variant(f->lesson, spec, figures);
    if (code == 0) {
        f->variants = session_grow(f->variants, f->n_variants, sizeof *f->variants);
        f->variants[f->n_variants++] = (Variant){spec, *figures};
    }
    return code;
}

/* ---- placeholders ---- */

static void add_number(Text *to, double value)
{
    char number[32];
    bool is_integer = fabs(value - round(value)) < 1e-9 || fabs(value) >= 1000;
    snprintf(number, sizeof number, is_integer ? "%.0f" : "%.3g", value);
    add_text(to, number);
}

static void add_code(Text *to, const char *text)
{
    add_text(to, "```\n");
    add_text(to, text);
    add_text(to, text[strlen(text) - 1] == '\n' ? "```" : "\n```");
}

static int fill_figure(Filler *f, const char *spec, const char *name, Text *to)
{
    const Figures *figures;
    int code = find_variant(f, spec, &figures);
    if (code != 0) {
        return code;
    }
    double value;
    const char *unit, *words = figure_text(figures, name);
    if (words && strcmp(name, "schedule") == 0) {
        add_code(to, words);
        return 0;
    }
    if (words) {
        add_text(to, words);
        return 0;
    }
    switch (figure_value(figures, name, &value, &unit)) {
    case FIGURE_KNOWN: add_number(to, value); return 0;
    case FIGURE_UNKNOWN: add_text(to, "(only with ptxas)"); return 0;
    case FIGURE_NO_ACCESS: return bad_placeholder(f->lesson, name, "the program has none");
    case FIGURE_NO_NAME: return bad_placeholder(f->lesson, name, "no such figure");
    }
    return 0;
}

static int fill_one(Filler *f, const char *text, Text *to)
{
    const char *colon = strchr(text, ':');
    if (colon) {
        const char *name = colon + 1 + strspn(colon + 1, " ");
        return fill_figure(f, session_text(text, (size_t)(colon - text)), name, to);
    }
    const char *program = program_text(f->lesson, text);
    if (!program) {
        return bad_placeholder(f->lesson, text, "no such program");
    }
    add_code(to, program);
    return 0;
}

/* ---- the page ---- */

static void add_format(Text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_format(Text *to, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add_text(to, text);
}

/* What the check asks for, from lesson.txt. */
static void add_goal(const Lesson *lesson, Text *to)
{
    if (lesson->n_targets == 0 && lesson->max_error == 0) {
        return;
    }
    add_text(to, "\n## To reach\n\n");
    if (lesson->max_error > 0) {
        add_format(to, "- an error of at most %g, as a share of the largest element\n",
                   lesson->max_error);
    }
    for (size_t i = 0; i < lesson->n_targets; i++) {
        const LessonTarget *target = &lesson->targets[i];
        const char *unit = figure_unit(target->figure);
        add_format(to, "- %s %g%s%s", target->at_least ? "at least" : "at most", target->value,
                   *unit == '%' ? "" : " ", unit);
        add_format(to, strcmp(unit, target->figure) == 0 ? "\n" : ": `%s`\n", target->figure);
    }
    if (lesson->n_targets > 0) {
        const char *sets = lesson->compile.sets;
        add_format(to, "\nas predicted for `--target %s --size %s%s%s`.\n", lesson->gpu,
                   lesson->compile.sizes, *sets ? " --set " : "", sets);
    }
}

int page_filled(const Lesson *lesson, char **text)
{
    Filler filler = {.lesson = lesson};
    Text to = {0};
    const char *at = lesson_file(lesson, "page.md"), *open;
    add_format(&to, "# %d. %s\n\n", lesson_number(lesson), lesson->title);
    if (!at) {
        return fail(TESSERA_INTERNAL, "lessons/%s has no page.md", lesson->folder);
    }
    while ((open = strstr(at, "{{"))) {
        const char *close = strstr(open, "}}");
        if (!close) {
            return bad_placeholder(lesson, open, "it does not end");
        }
        add(&to, at, (size_t)(open - at));
        char *inner = session_text(open + 2, (size_t)(close - open - 2));
        for (char *c = inner; *c; c++) {
            *c = *c == '\n' ? ' ' : *c; /* a paragraph's lines may break anywhere */
        }
        int code = fill_one(&filler, inner, &to);
        if (code != 0) {
            return code;
        }
        at = close + 2;
    }
    add_text(&to, at);
    add_goal(lesson, &to);
    *text = session_text(to.text, to.n);
    return 0;
}
