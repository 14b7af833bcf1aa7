/* SPDX-License-Identifier: Apache-2.0 */
/* Predicts the times of unmeasured candidates: a Gaussian process over the entries of a schedule
 * (C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, chapters 2 and 5).
 * Its mean follows the prediction of the compiler's cost model as far as the two agree; each
 * schedule entry has a fitted length scale. */
#ifndef TESSERA_TUNE_SWEEP_SURROGATE_H
#define TESSERA_TUNE_SWEEP_SURROGATE_H

#include "tune/sweep/search_space.h"

typedef struct Surrogate Surrogate;

/* Of the rows `known` of the features, with log times `y`; `prior`: of each row, the logarithm of
 * what the model predicts. NULL: there are no two measurements. Nothing here is random. */
Surrogate *surrogate_fit(Arena *arena, const Features *features, const double *prior,
                         const size_t *known, const double *y, size_t n);
/* Log time of a row, and how far it may be off (a standard deviation). */
void surrogate_at(const Surrogate *surrogate, size_t row, double *mean, double *deviation);
/* Takes it that the row was measured, with what was expected. */
void surrogate_believe(Surrogate *surrogate, size_t row);

#endif
