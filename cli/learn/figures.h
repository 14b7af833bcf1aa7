/* SPDX-License-Identifier: Apache-2.0 */
/* What `explain` predicts of a program, as numbers with names (figures.def). */
#ifndef TESSERA_CLI_LEARN_FIGURES_H
#define TESSERA_CLI_LEARN_FIGURES_H

#include "cli/learn/lesson.h"
#include "cli/session.h"

typedef struct Figures Figures;

/* Compiles a program for the lesson's GPU and reads what explain says. `text` is a source of the
 * lesson; NULL: the file `path`. `lines` may add schedule entries. 0, or an exit code; messages are
 * in the context of `session`, which stays open in either case. */
int figures_of(const char *path, const char *text, const Lesson *lesson,
               const LessonSetting *setting, const Strings *lines, Session *session,
               const Figures **figures);

typedef enum FigureState {
    FIGURE_KNOWN,
    FIGURE_UNKNOWN,   /* registers, and what follows from them, need ptxas */
    FIGURE_NO_ACCESS, /* the program has no such access */
    FIGURE_NO_NAME,   /* figures.def has no such figure */
} FigureState;
/* The value of a figure, and the words that follow the number. */
FigureState figure_value(const Figures *figures, const char *name, double *value,
                         const char **unit);
/* The words that follow its number; "" of no figure. */
const char *figure_unit(const char *name);
/* True if it is a time, or a rate, which a GPU would measure. */
bool figure_is_time(const char *name);
/* Expected seconds, and a figure of time with other seconds instead. */
double figure_with_seconds(const char *name, double value, double predicted, double measured);
double figures_seconds(const Figures *figures);
/* Texts: "schedule", "limiter" (of the time), "occupancy limiter", "gpu"; or NULL. */
const char *figure_text(const Figures *figures, const char *name);

#endif
