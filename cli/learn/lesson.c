/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the lesson.txt of each folder. A line is a key and its text; a line that begins with blanks
 * continues the line before it:
 *
 *     title Sums of rows
 *     part arrays
 *     kernel rows
 *     data M=33,N=70 set T=f32 values n=7 times 100
 *     gpu sm_90a M=4096,N=4096 set T=bf16
 *     figure at most 0.3 shared load a conflicts/request
 *     error at most 0.001
 *     lacks softmax: This lesson is about writing it by hand.
 *     because answer and has "axis=0": The sum must go over the columns.
 *     hint Look at the axis.
 */
#include "cli/learn/lesson.h"
#include "cli/cli_diagnostics.h"
#include "cli/session_memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

static char *rest_of(const char *at, const char *end)
{
    while (at < end && *at == ' ') {
        at++;
    }
    while (end > at && isspace((unsigned char)end[-1])) {
        end--;
    }
    return session_text(at, (size_t)(end - at));
}

static void bad_line(const Lesson *lesson, const char *text)
{
    fail(TESSERA_INTERNAL, "lessons/%s/lesson.txt: cannot read: %.200s", lesson->folder, text);
    exit(TESSERA_INTERNAL);
}

/* Splits `A: B` at the first colon outside of quotes. */
static void split_colon(const Lesson *lesson, const char *text, const char **before,
                        const char **after)
{
    bool quoted = false;
    const char *at = text;
    for (; *at && (quoted || *at != ':'); at++) {
        quoted = *at == '"' ? !quoted : quoted;
    }
    if (!*at) {
        bad_line(lesson, text);
    }
    *before = rest_of(text, at);
    *after = rest_of(at + 1, at + strlen(at));
}

/* ---- keys ---- */

/* `M=33,N=70 set T=f32 values n=7 times 100`; each part may be missing. */
static LessonSetting read_setting(const Lesson *lesson, const char *text)
{
    LessonSetting setting = {.sizes = "", .sets = "", .values = "", .times = 1};
    char *copy = session_text(text, strlen(text)), *state = NULL;
    for (char *word = strtok_r(copy, " ", &state); word; word = strtok_r(NULL, " ", &state)) {
        bool named =
            strcmp(word, "set") == 0 || strcmp(word, "values") == 0 || strcmp(word, "times") == 0;
        char *value = named ? strtok_r(NULL, " ", &state) : word;
        if (!value) {
            bad_line(lesson, text);
        } else if (!named) {
            setting.sizes = value;
        } else if (*word == 's') {
            setting.sets = value;
        } else if (*word == 'v') {
            setting.values = value;
        } else {
            setting.times = strtod(value, NULL);
        }
    }
    return setting;
}

#define PUSH(list, n, value)                                                                       \
    do {                                                                                           \
        (list) = session_grow((list), (n), sizeof *(list));                                        \
        (list)[(n)++] = (value);                                                                   \
    } while (0)

static double read_limit(const Lesson *lesson, const char *text, bool *at_least, const char **rest)
{
    char *end;
    *at_least = strncmp(text, "at least ", 9) == 0;
    if (!*at_least && strncmp(text, "at most ", 8) != 0) {
        bad_line(lesson, text);
    }
    const char *number = text + (*at_least ? 9 : 8);
    double value = strtod(number, &end);
    if (end == number) {
        bad_line(lesson, text);
    }
    *rest = rest_of(end, end + strlen(end));
    return value;
}

static void read_line(Lesson *lesson, const char *key, const char *text)
{
    if (strcmp(key, "title") == 0) {
        lesson->title = text;
    } else if (strcmp(key, "part") == 0) {
        lesson->part = text;
    } else if (strcmp(key, "kernel") == 0) {
        lesson->kernel = text;
    } else if (strcmp(key, "hint") == 0) {
        PUSH(lesson->hints.items, lesson->hints.n, text);
    } else if (strcmp(key, "data") == 0) {
        PUSH(lesson->data, lesson->n_data, read_setting(lesson, text));
    } else if (strcmp(key, "gpu") == 0) {
        const char *end = text + strcspn(text, " ");
        lesson->gpu = session_text(text, (size_t)(end - text));
        lesson->compile = read_setting(lesson, end);
    } else if (strcmp(key, "figure") == 0) {
        LessonTarget target;
        target.value = read_limit(lesson, text, &target.at_least, &target.figure);
        PUSH(lesson->targets, lesson->n_targets, target);
    } else if (strcmp(key, "error") == 0) {
        const char *rest;
        bool at_least;
        lesson->max_error = read_limit(lesson, text, &at_least, &rest);
    } else if (strcmp(key, "because") == 0) {
        LessonReason reason;
        split_colon(lesson, text, &reason.condition, &reason.text);
        PUSH(lesson->reasons, lesson->n_reasons, reason);
    } else if (strcmp(key, "lacks") == 0) {
        LessonBan ban;
        split_colon(lesson, text, &ban.word, &ban.text);
        PUSH(lesson->bans, lesson->n_bans, ban);
    } else {
        bad_line(lesson, key);
    }
}

/* One line with its continuations, joined by blanks; NULL at the end. */
static char *next_line(const char **at)
{
    if (!**at) {
        return NULL;
    }
    char *line = session_alloc(strlen(*at) + 1);
    size_t n = 0;
    do {
        const char *from = *at + strspn(*at, " ");
        size_t length = strcspn(from, "\n");
        n += (size_t)sprintf(line + n, "%s%.*s", n ? " " : "", (int)length, from);
        *at = from + length + (from[length] == '\n');
    } while (n > 0 && **at == ' ');
    return line;
}

static Lesson read_lesson(const char *folder, const char *text)
{
    Lesson lesson = {.folder = folder};
    char *line;
    while ((line = next_line(&text))) {
        size_t n = strcspn(line, " ");
        if (n > 0) {
            read_line(&lesson, session_text(line, n), rest_of(line + n, line + strlen(line)));
        }
    }
    if (!lesson.title || !lesson.part || !lesson.kernel || lesson.n_data == 0) {
        bad_line(&lesson, "title, part, kernel and data are needed");
    }
    return lesson;
}

size_t lessons_read(const Lesson **lessons)
{
    static Lesson *all;
    static size_t n;
    for (const EmbeddedFile *file = n == 0 ? lesson_files : NULL; file && file->name; file++) {
        const char *end = strstr(file->name, "/lesson.txt");
        if (end) {
            char *folder = session_text(file->name, (size_t)(end - file->name));
            all = session_grow(all, n, sizeof *all);
            all[n++] = read_lesson(folder, file->text);
        }
    }
    *lessons = all;
    return n;
}

const char *lesson_file(const Lesson *lesson, const char *name)
{
    size_t n = strlen(lesson->folder);
    for (const EmbeddedFile *file = lesson_files; file->name; file++) {
        if (strncmp(file->name, lesson->folder, n) == 0 && file->name[n] == '/' &&
            strcmp(file->name + n + 1, name) == 0) {
            return file->text;
        }
    }
    return NULL;
}

int lesson_number(const Lesson *lesson)
{
    return atoi(lesson->folder);
}

const char *lesson_name(const Lesson *lesson)
{
    const char *dash = strchr(lesson->folder, '-');
    return dash ? dash + 1 : lesson->folder;
}

size_t lesson_find(const Lesson *lessons, size_t n, const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);
    bool is_number = end != text && *end == '\0';
    for (size_t i = 0; i < n; i++) {
        if (strcmp(lessons[i].folder, text) == 0 || strcmp(lesson_name(&lessons[i]), text) == 0 ||
            (is_number && lesson_number(&lessons[i]) == number)) {
            return i;
        }
    }
    return n;
}

/* Reads each piece of a list with commas. */
static int each_piece(const char *text, Options *options,
                      int (*read)(const char *option, const char *piece, Options *options))
{
    int code = 0;
    for (const char *at = text; *at && code == 0; at += *at == ',') {
        size_t n = strcspn(at, ",");
        code = read("lesson", session_text(at, n), options);
        at += n;
    }
    return code;
}

static int value_read(const char *option, const char *piece, Options *options)
{
    (void)option;
    PUSH(options->values.items, options->values.n, piece);
    return 0;
}

int setting_apply(const LessonSetting *setting, Options *options)
{
    int code = each_piece(setting->sizes, options, size_read);
    code = code ? code : each_piece(setting->sets, options, set_read);
    return code ? code : each_piece(setting->values, options, value_read);
}
