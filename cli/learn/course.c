/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, reads and writes the learner's directory. progress.txt has a line for each lesson of which
 * there is something to say:
 *
 *     current 03-sums
 *     01-first solved
 *     02-shapes solved hints 1 */
#include "cli/learn/course.h"
#include "cli/cli_diagnostics.h"
#include "cli/output_files.h"
#include "cli/session_memory.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char HEAD[] = "# Progress of `tessera learn`";
static const char DEFAULT_FOLDER[] = "tessera-lessons";

static char *joined(const char *folder, const char *name)
{
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = session_alloc(n);
    snprintf(path, n, "%s/%s", folder, name);
    return path;
}

static char *progress_path(const char *folder)
{
    return joined(folder, "progress.txt");
}

/* ---- finding ---- */

/* "", "..", "../..", as long as there is something above. */
static char *find_folder(void)
{
    char cwd[PATH_MAX];
    char *folder = session_text(".", 1);
    size_t levels = 0;
    if (getcwd(cwd, sizeof cwd)) {
        for (const char *at = cwd; *at; at++) {
            levels += *at == '/';
        }
    }
    for (size_t i = 0; i <= levels; i++) {
        if (access(progress_path(folder), F_OK) == 0) {
            return folder;
        }
        folder = i == 0 ? session_text("..", 2) : joined(folder, "..");
    }
    folder = session_text(DEFAULT_FOLDER, sizeof DEFAULT_FOLDER - 1);
    return access(progress_path(folder), F_OK) == 0 ? folder : NULL;
}

/* ---- reading ---- */

static int bad_line(const Course *course, int number, const char *line, const char *why)
{
    return fail_code(FAIL_READ, TESSERA_ENVIRONMENT,
                     "%.200s:%d: %s: %.80s\n  correct the line or delete it: the other lines keep "
                     "their meaning",
                     progress_path(course->folder), number, why, line);
}

static int read_line(Course *course, int number, char *line)
{
    char *copy = session_text(line, strlen(line)), *state = NULL;
    char *word = strtok_r(copy, " \t\r", &state);
    if (!word || *word == '#') {
        return 0;
    }
    bool current = strcmp(word, "current") == 0;
    char *name = current ? strtok_r(NULL, " \t\r", &state) : word;
    size_t index = name ? lesson_find(course->lessons, course->n, name) : course->n;
    if (index == course->n) {
        return bad_line(course, number, line, "there is no such lesson");
    }
    if (current) {
        course->current = index;
    }
    while ((word = strtok_r(NULL, " \t\r", &state))) {
        char *count = strcmp(word, "hints") == 0 ? strtok_r(NULL, " \t\r", &state) : NULL;
        char *end = NULL;
        long hints = count ? strtol(count, &end, 10) : 0;
        if (strcmp(word, "solved") == 0) {
            course->progress[index].solved = true;
        } else if (count && *end == '\0' && hints >= 0 && hints < 1000) {
            course->progress[index].hints = (int)hints;
        } else {
            return bad_line(course, number, line, "expected `solved` or `hints NUMBER`");
        }
    }
    return 0;
}

static int read_progress(Course *course)
{
    char *text;
    size_t n;
    int code = file_read(progress_path(course->folder), &text, &n);
    if (code != 0) {
        return code;
    }
    if (strncmp(text, HEAD, sizeof HEAD - 1) != 0) {
        free(text);
        return fail_code(FAIL_READ, TESSERA_ENVIRONMENT,
                         "%.200s does not begin with `%s`: it is another program's, or damaged; "
                         "`tessera learn start DIR` begins in another directory",
                         progress_path(course->folder), HEAD);
    }
    int number = 1;
    char *copy = text;
    for (char *line; code == 0 && (line = strsep(&copy, "\n")); number++) {
        code = read_line(course, number, line);
    }
    free(text);
    return code;
}

static void course_init(Course *course)
{
    *course = (Course){0};
    course->n = lessons_read(&course->lessons);
    course->progress = session_alloc(course->n * sizeof *course->progress);
}

int course_open(Course *course)
{
    course_init(course);
    course->folder = find_folder();
    return course->folder ? read_progress(course) : 0;
}

/* ---- writing ---- */

static int make_folder(const char *path)
{
    struct stat info;
    if (mkdir(path, 0777) == 0 ||
        (errno == EEXIST && stat(path, &info) == 0 && S_ISDIR(info.st_mode))) {
        return 0;
    }
    return fail_code(FAIL_WRITE, TESSERA_ENVIRONMENT, "cannot make the directory %.200s: %s", path,
                     strerror(errno));
}

static int write_file(const char *path, const char *text)
{
    TesseraBytes bytes = {.data = text, .n = strlen(text)};
    return out_bytes(path, &bytes);
}

int course_save(const Course *course)
{
    OutFile out;
    int code = out_open(progress_path(course->folder), &out);
    if (code != 0) {
        return code;
    }
    fprintf(out.file, "%s; each line may be edited.\n", HEAD);
    fprintf(out.file, "current %s\n", course->lessons[course->current].folder);
    for (size_t i = 0; i < course->n; i++) {
        const LessonProgress *progress = &course->progress[i];
        if (progress->solved || progress->hints > 0) {
            fputs(course->lessons[i].folder, out.file);
            fputs(progress->solved ? " solved" : "", out.file);
            if (progress->hints > 0) {
                fprintf(out.file, " hints %d", progress->hints);
            }
            fputc('\n', out.file);
        }
    }
    return out_close(&out);
}

int course_start(Course *course, const char *folder)
{
    course_init(course);
    folder = folder ? folder : DEFAULT_FOLDER;
    course->folder = session_text(folder, strlen(folder));
    if (access(progress_path(folder), F_OK) == 0) {
        return read_progress(course); /* what is there continues */
    }
    int code = make_folder(folder);
    return code ? code : course_save(course);
}

char *course_program(const Course *course, const Lesson *lesson)
{
    return joined(joined(course->folder, lesson->folder), "lesson.tile");
}

int course_write_lesson(const Course *course, const Lesson *lesson, const char *page)
{
    const char *folder = joined(course->folder, lesson->folder);
    char *program = course_program(course, lesson);
    int code = make_folder(folder);
    code = code ? code : write_file(joined(folder, "page.md"), page);
    bool there = access(program, F_OK) == 0;
    return code || there ? code : write_file(program, lesson_file(lesson, "start.tile"));
}

/* lesson.tile.1, or the next number that is free. */
static char *free_name(const char *path)
{
    size_t n = strlen(path) + 16;
    char *name = session_alloc(n);
    for (int i = 1; i < 1000000; i++) {
        snprintf(name, n, "%s.%d", path, i);
        if (access(name, F_OK) != 0) {
            break;
        }
    }
    return name;
}

int course_reset(const Course *course, const Lesson *lesson, char **kept)
{
    char *program = course_program(course, lesson);
    *kept = NULL;
    if (access(program, F_OK) == 0) {
        *kept = free_name(program);
        if (rename(program, *kept) != 0) {
            return fail_code(FAIL_WRITE, TESSERA_ENVIRONMENT, "cannot rename %.200s: %s", program,
                             strerror(errno));
        }
    }
    int code = make_folder(joined(course->folder, lesson->folder));
    return code ? code : write_file(program, lesson_file(lesson, "start.tile"));
}
