/* SPDX-License-Identifier: Apache-2.0 */
/* The search space of a sweep: all combinations of one value per axis, and the schedule text of a
 * combination. */
#ifndef TESSERA_TUNE_SWEEP_SEARCH_SPACE_H
#define TESSERA_TUNE_SWEEP_SEARCH_SPACE_H

#include "runtime/api/api_search.h"
#include "support/text.h"

#include <stdint.h>

/* Choices are numbered: of an axis from 0 on, where 0 leaves the line to the compiler unless the
 * space is declared; of the space as digits, the last axis fastest. */
size_t space_choices(const TesseraSpace *space, size_t axis);
/* How many points there are; UINT64_MAX: at least so many. */
uint64_t space_count(const TesseraSpace *space);
void space_point(const TesseraSpace *space, uint64_t nth, int *point);
uint64_t space_nth(const TesseraSpace *space, const int *point);
/* The lines that are chosen, a key a line, as a schedule block holds them. */
void space_lines(const TesseraSpace *space, const int *point, Text *out);
/* Of all the lines that were decided (a key a line) those that are searched. */
void space_searched(const TesseraSpace *space, const char *lines, Text *out);

/* ---- candidates as numbers ---- */

/* What the candidates of a sweep differ in, from their lines: a column for each number, in steps of
 * doubling, and one for each word that a line may be; all from 0 to 1. */
typedef struct Features {
    size_t n, width;
    double *values; /* n rows */
    int *group;     /* of a column: the line that it is of */
    int groups;
} Features;
void features_make(Arena *arena, const char *const *lines, size_t n, Features *features);

/* A generator that is the same everywhere (SplitMix64). */
uint64_t random_next(uint64_t *state);
uint64_t random_below(uint64_t *state, uint64_t n);

#endif
