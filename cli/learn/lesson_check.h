/* SPDX-License-Identifier: Apache-2.0 */
/* The check of a lesson: answers, figures, and the reason where one is not as it should be. */
#ifndef TESSERA_CLI_LEARN_LESSON_CHECK_H
#define TESSERA_CLI_LEARN_LESSON_CHECK_H

#include "cli/learn/lesson.h"

/* Prints what is reached and what is not. 0: all; TESSERA_DIFFERENT: not all, or another exit code
 * after a message. */
int lesson_check(const char *path, const Lesson *lesson, const Options *options);

#endif
