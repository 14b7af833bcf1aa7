/* SPDX-License-Identifier: Apache-2.0 */
/* The median of repeated times and a confidence interval for it. The interval is computed from
 * order statistics, because times are not normally distributed. */
#include "tune/sweep/tune_stats.h"

#include <math.h>
#include <stdlib.h>

static const double OUTSIDE = 0.05; /* probability that an interval misses the median */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The greatest k for which 2 * B(k - 1; n, 1/2) is at most OUTSIDE; 1 if there is none. */
static size_t order_of(size_t n)
{
    double term = pow(0.5, (double)n), sum = term; /* B(0) */
    size_t k = 1;
    while (k <= n / 2) {
        term *= (double)(n - k + 1) / (double)k;
        sum += term; /* B(k) */
        if (2 * sum > OUTSIDE) {
            break;
        }
        k++;
    }
    return k;
}

Median median_of(double *samples, size_t n)
{
    if (n == 0) {
        double nothing = (double)NAN;
        return (Median){nothing, nothing, nothing, 0};
    }
    qsort(samples, n, sizeof *samples, compare);
    size_t k = order_of(n);
    double middle = n % 2 ? samples[n / 2] : (samples[n / 2 - 1] + samples[n / 2]) / 2;
    return (Median){middle, samples[k - 1], samples[n - k], n};
}

bool median_is_below(const Median *a, const Median *b)
{
    return a->n > 0 && b->n > 0 && a->high < b->low;
}
