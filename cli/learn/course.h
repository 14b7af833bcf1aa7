/* SPDX-License-Identifier: Apache-2.0 */
/* The learner's directory: a folder for each lesson that was opened, and progress.txt. All are
 * plain files that may be edited and copied. */
#ifndef TESSERA_CLI_LEARN_COURSE_H
#define TESSERA_CLI_LEARN_COURSE_H

#include "cli/learn/lesson.h"

typedef struct LessonProgress {
    bool solved;
    int hints; /* that were shown */
} LessonProgress;

typedef struct Course {
    const Lesson *lessons;
    size_t n;
    char *folder;
    size_t current;
    LessonProgress *progress; /* by lesson */
} Course;

/* The course of the working directory, of a directory above it, or of ./tessera-lessons. Returns 0,
 * or an exit code after a message. `folder` NULL: there is none, which is no failure. */
int course_open(Course *course);
/* Makes the directory, with an empty progress. */
int course_start(Course *course, const char *folder);
int course_save(const Course *course);
/* The lesson's program in the learner's directory. */
char *course_program(const Course *course, const Lesson *lesson);
/* Writes the lesson's page and, where there is none yet, its program. */
int course_write_lesson(const Course *course, const Lesson *lesson, const char *page);
/* Writes the program anew; the old one keeps its text under *kept, or NULL. */
int course_reset(const Course *course, const Lesson *lesson, char **kept);

#endif
