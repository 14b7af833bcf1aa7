/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera learn`: the course in the terminal. Each subcommand opens the learner's directory, does
 * one thing, and writes progress.txt if that has changed. */
#include "cli/learn/cmd_learn.h"
#include "cli/cli_diagnostics.h"
#include "cli/learn/course.h"
#include "cli/learn/lesson_check.h"
#include "cli/learn/page.h"
#include "cli/nearest.h"
#include "cli/output_files.h"
#include "cli/session_memory.h"
#include "cli/terminal.h"

#include <string.h>

/* ---- what subcommands share ---- */

static int no_course(void)
{
    return fail_code(FAIL_READ, TESSERA_ENVIRONMENT,
                     "there is no course here: `tessera learn start` makes the directory "
                     "tessera-lessons, or cd into the one that you have");
}

static const Lesson *current(const Course *course)
{
    return &course->lessons[course->current];
}

/* Opens the course, and makes the lesson that the first word names the current one. */
static int open_at(const Options *options, Course *course)
{
    int code = course_open(course);
    if (code != 0 || !course->folder) {
        return code ? code : no_course();
    }
    if (options->values.n > 0) {
        const char *name = options->values.items[0];
        size_t index = lesson_find(course->lessons, course->n, name);
        if (index == course->n) {
            return fail_code(FAIL_VALUE, TESSERA_USAGE,
                             "no lesson '%.60s': they are 1 to %zu, `tessera learn` lists them",
                             name, course->n);
        }
        course->current = index;
    }
    return 0;
}

static void show_path(const Course *course)
{
    page_line(stdout, STYLE_BOLD, "edit", course_program(course, current(course)));
}

/* Writes the current lesson's files and shows its page. */
static int open_lesson(const Course *course)
{
    char *text;
    int code = page_filled(current(course), &text);
    if (code != 0) {
        return code;
    }
    page_show(stdout, text);
    putchar('\n');
    fflush(stdout);
    code = course_write_lesson(course, current(course), text);
    if (code == 0) {
        show_path(course);
        page_line(stdout, STYLE_NONE, "then", "`tessera learn check`");
    }
    return code;
}

/* ---- subcommands ---- */

static int learn_start(const Options *options)
{
    Course course;
    int code = course_start(&course, options->values.n > 0 ? options->values.items[0] : NULL);
    return code ? code : open_lesson(&course);
}

static int learn_show(const Options *options)
{
    Course course;
    char *text;
    int code = open_at(options, &course);
    code = code ? code : page_filled(current(&course), &text);
    if (code == 0) {
        page_show(stdout, text);
        putchar('\n');
        show_path(&course);
    }
    return code;
}

/* With a lesson's name that one; else the next that is not solved. */
static int learn_next(const Options *options)
{
    Course course;
    int code = open_at(options, &course);
    if (code != 0) {
        return code;
    }
    size_t from = course.current;
    for (size_t i = 1; options->values.n == 0 && i <= course.n; i++) {
        size_t index = (from + i) % course.n;
        if (!course.progress[index].solved) {
            course.current = index;
            break;
        }
        if (i == course.n) {
            puts("All lessons are solved.");
            return 0;
        }
    }
    if (!course.progress[from].solved && course.current != from) {
        printf("Lesson %d stays open.\n\n", lesson_number(&course.lessons[from]));
    }
    code = course_save(&course);
    return code ? code : open_lesson(&course);
}

static int learn_hint(const Options *options)
{
    Course course;
    int code = open_at(options, &course);
    if (code != 0) {
        return code;
    }
    const Lesson *lesson = current(&course);
    LessonProgress *progress = &course.progress[course.current];
    size_t n = lesson->hints.n;
    progress->hints += (size_t)progress->hints < n;
    for (size_t i = 0; i < n && i < (size_t)progress->hints; i++) {
        char label[48];
        snprintf(label, sizeof label, "%zu of %zu", i + 1, n);
        page_line(stdout, STYLE_BOLD, label, lesson->hints.items[i]);
    }
    if ((size_t)progress->hints >= n) {
        page_line(stdout, STYLE_DIM, "",
                  "That was the last one; `tessera learn solution` shows "
                  "an answer.");
    }
    return course_save(&course);
}

static int learn_check(const Options *options)
{
    Course course;
    int code = open_at(options, &course);
    if (code != 0) {
        return code;
    }
    const Lesson *lesson = current(&course);
    printf("%s%d. %s%s\n", style_of(stdout, STYLE_BOLD), lesson_number(lesson), lesson->title,
           style_of(stdout, STYLE_NONE));
    fflush(stdout);
    code = lesson_check(course_program(&course, lesson), lesson, options);
    if (code == 0) {
        page_line(stdout, STYLE_GOOD, "solved", "`tessera learn next` continues.");
        fflush(stdout);
        course.progress[course.current].solved = true;
        code = course_save(&course);
    }
    return code;
}

static int learn_reset(const Options *options)
{
    Course course;
    char *kept;
    int code = open_at(options, &course);
    code = code ? code : course_reset(&course, current(&course), &kept);
    if (code != 0) {
        return code;
    }
    show_path(&course);
    if (kept) {
        page_line(stdout, STYLE_NONE, "kept", kept);
    }
    course.progress[course.current].solved = false;
    return course_save(&course);
}

static int learn_solution(const Options *options)
{
    Course course;
    int code = open_at(options, &course);
    if (code != 0) {
        return code;
    }
    const LessonProgress *progress = &course.progress[course.current];
    const Lesson *lesson = current(&course);
    if (!progress->solved && (size_t)progress->hints < lesson->hints.n) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "%d of %zu hints were read: the solution is shown after them",
                         progress->hints, lesson->hints.n);
    }
    fputs(lesson_file(lesson, "solution.tile"), stdout);
    return 0;
}

static int learn_book(const Options *options)
{
    const Lesson *lessons;
    size_t n = lessons_read(&lessons);
    OutFile out;
    int code = out_open(options->outputs.n > 0 ? options->outputs.items[0] : "-", &out);
    if (code != 0) {
        return code;
    }
    code = book_write(out.file, lessons, n);
    if (code != 0) {
        out_cancel(&out);
        return code;
    }
    return out_close(&out);
}

/* ---- progress ---- */

static void show_lesson(const Course *course, size_t index)
{
    const Lesson *lesson = &course->lessons[index];
    bool solved = course->folder && course->progress[index].solved;
    bool here = course->folder && course->current == index;
    char label[16];
    snprintf(label, sizeof label, "%c%c%3d", here ? '>' : ' ', solved ? '+' : ' ',
             lesson_number(lesson));
    if (solved) {
        page_line(stdout, STYLE_GOOD, label, lesson->title);
    } else {
        page_line(stdout, here ? STYLE_BOLD : STYLE_NONE, label, lesson->title);
    }
}

static int learn_list(const Options *options)
{
    Course course;
    size_t solved = 0;
    (void)options;
    int code = course_open(&course);
    if (code != 0) {
        return code;
    }
    for (size_t i = 0; i < course.n; i++) {
        if (i == 0 || strcmp(course.lessons[i - 1].part, course.lessons[i].part) != 0) {
            printf("%s%s%s%s\n", i ? "\n" : "", style_of(stdout, STYLE_BOLD),
                   course.lessons[i].part, style_of(stdout, STYLE_NONE));
        }
        show_lesson(&course, i);
        solved += course.progress[i].solved;
    }
    putchar('\n');
    if (course.folder) {
        printf("%zu of %zu solved (+), now at lesson %d (>).\n", solved, course.n,
               lesson_number(current(&course)));
        show_path(&course);
    } else {
        page_line(stdout, STYLE_BOLD, "begin", "`tessera learn start [DIR]`");
    }
    return 0;
}

/* ---- the command ---- */

static const struct {
    const char *name;
    int (*run)(const Options *options);
    size_t most; /* words behind it */
} SUBCOMMANDS[] = {
    {"list", learn_list, 0},   {"start", learn_start, 1},       {"show", learn_show, 1},
    {"next", learn_next, 1},   {"hint", learn_hint, 1},         {"check", learn_check, 1},
    {"reset", learn_reset, 1}, {"solution", learn_solution, 1}, {"book", learn_book, 0},
};
enum { N_SUBCOMMANDS = sizeof SUBCOMMANDS / sizeof *SUBCOMMANDS };

static const char *subcommand_name(size_t index)
{
    return index < N_SUBCOMMANDS ? SUBCOMMANDS[index].name : NULL;
}

int cmd_learn(const Options *options)
{
    const char *name = options->path ? options->path : "list";
    for (size_t i = 0; i < N_SUBCOMMANDS; i++) {
        if (strcmp(SUBCOMMANDS[i].name, name) != 0) {
            continue;
        }
        if (options->values.n > SUBCOMMANDS[i].most) {
            return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "learn %s takes nothing more: '%.60s'",
                             name, options->values.items[SUBCOMMANDS[i].most]);
        }
        return SUBCOMMANDS[i].run(options);
    }
    const char *nearest = nearest_name(name, subcommand_name);
    return nearest ? fail_code(FAIL_COMMAND, TESSERA_USAGE,
                               "learn does not '%.60s': did you mean '%s'?", name, nearest)
                   : fail_code(FAIL_COMMAND, TESSERA_USAGE,
                               "learn does not '%.60s': it has list, start, show, next, hint, "
                               "check, reset, solution, book",
                               name);
}
