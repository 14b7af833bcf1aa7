/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a learner's program with the lesson's reference on random data. */
#ifndef TESSERA_CLI_LEARN_ANSWERS_H
#define TESSERA_CLI_LEARN_ANSWERS_H

#include "cli/learn/lesson.h"
#include "cli/session.h"

typedef struct AnswerResult {
    bool right;
    size_t n_data;   /* data sets that were compared */
    char where[768]; /* what is wrong: sizes, backend, element, both values */
    double error;    /* the largest distance from f64, of the largest element */
} AnswerResult;

/* Runs both programs on all data of the lesson, on the interpreter and the CPU, until one answer
 * is wrong. 0, or an exit code: `session` is that of the learner's program, and its context has the
 * diagnostics, unless *reported. */
int answers_compare(const char *path, const Lesson *lesson, const Options *options,
                    Session *session, bool *reported, AnswerResult *result);
/* Seconds of one launch on this machine's GPU, if there is one of the lesson's target; 0: there is
 * none, or it cannot run the program. */
double answers_measure(const char *path, const Lesson *lesson, const Options *options, char *device,
                       size_t n);

#endif
