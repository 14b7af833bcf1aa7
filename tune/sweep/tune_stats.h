/* SPDX-License-Identifier: Apache-2.0 */
/* Statistics of the times of one kernel: the median, and a confidence interval for the true one. */
#ifndef TESSERA_TUNE_SWEEP_TUNE_STATS_H
#define TESSERA_TUNE_SWEEP_TUNE_STATS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct Median {
    double middle, low, high; /* with at least 95 % confidence, where n is 6 or more */
    size_t n;
} Median;
/* Sorts the samples. The interval is between two of them, whatever their distribution: between the
 * k-th least and the k-th greatest the true median lies unless fewer than k samples are on one side
 * of it, which has the probability 2 * B(k - 1; n, 1/2) (J.-Y. Le Boudec, Performance Evaluation of
 * Computer and Communication Systems, theorem 2.1; H. A. David, H. N. Nagaraja, Order Statistics,
 * 7.1). Of fewer than 6 samples no two have 95 %: the interval is their whole range then. */
Median median_of(double *samples, size_t n);
/* Is a surely less than b? */
bool median_is_below(const Median *a, const Median *b);

#endif
