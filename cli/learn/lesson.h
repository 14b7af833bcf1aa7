/* SPDX-License-Identifier: Apache-2.0 */
/* The lessons of the course. The folders lessons/NN-name are built into the program; lesson.txt of
 * a folder says what its page.md teaches and what an answer must reach (lessons/README.md). */
#ifndef TESSERA_CLI_LEARN_LESSON_H
#define TESSERA_CLI_LEARN_LESSON_H

#include "cli/embedded_file.h"
#include "cli/options.h"

#include <stdbool.h>
#include <stddef.h>

/* Sizes, types and scalars for one run or one compilation; texts as the command line has them. */
typedef struct LessonSetting {
    const char *sizes, *sets, *values;
    double times; /* random inputs are multiplied by it */
} LessonSetting;

/* `figure at most 0.3 load x conflicts/request` */
typedef struct LessonTarget {
    bool at_least;
    double value;
    const char *figure;
} LessonTarget;

/* `because CONDITION and …: TEXT`: what is wrong if the conditions hold. */
typedef struct LessonReason {
    const char *condition, *text;
} LessonReason;

/* `lacks WORD: TEXT`: the answer must do without this word. */
typedef struct LessonBan {
    const char *word, *text;
} LessonBan;

typedef struct Lesson {
    const char *folder; /* "03-sums" */
    const char *title, *part, *kernel;
    const char *gpu;       /* target of the figures, as sm_90a; NULL: there is none */
    LessonSetting compile; /* of the figures */
    LessonSetting *data;   /* of the comparison with the reference */
    size_t n_data;
    LessonTarget *targets;
    size_t n_targets;
    double max_error; /* of results, against f64 and the largest element; 0: the bound counts */
    LessonReason *reasons;
    size_t n_reasons;
    LessonBan *bans;
    size_t n_bans;
    Strings hints;
} Lesson;

/* All lessons in their order. A mistake in a lesson.txt ends the program: tests read all. */
size_t lessons_read(const Lesson **lessons);
/* A file of the lesson's folder, or NULL. */
const char *lesson_file(const Lesson *lesson, const char *name);
/* The lesson that "7", "07", "07-name" or "name" means; n if none does. */
size_t lesson_find(const Lesson *lessons, size_t n, const char *text);
/* "NN" of the folder, and the name behind it. */
int lesson_number(const Lesson *lesson);
const char *lesson_name(const Lesson *lesson);
/* Applies a setting to options: --size, --set and scalars. 0, or an exit code after a message. */
int setting_apply(const LessonSetting *setting, Options *options);

#endif
