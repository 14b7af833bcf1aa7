/* SPDX-License-Identifier: Apache-2.0 */
/* The Gaussian process that predicts the time of candidates which were not measured. It fits a
 * length scale per schedule entry and updates a Cholesky factor as measurements arrive. */
#include "tune/sweep/surrogate.h"

#include <math.h>
#include <string.h>

enum { MAX_BELIEVED = 64, FIT_MAX = 96, FIT_ITERATIONS = 2 };

/* Length scales that are tried for an entry, relative to the range of its values. */
static const double LENGTHS[] = {0.35, 0.8, 2, 6};
enum { N_LENGTHS = sizeof LENGTHS / sizeof *LENGTHS, USUAL = 1 };
static const double NOISE = 0.03, MIN_SPREAD = 0.02; /* of log times */

struct Surrogate {
    const Features *features;
    const double *prior;
    size_t *rows; /* points that were measured, and points whose predicted time is assumed */
    size_t n, cap;
    double slope, level; /* of the mean */
    double *weights;     /* 1 / length², of each column */
    double variance, noise;
    double *factor;   /* the lower Cholesky factor, in rows of `cap` */
    double *residual; /* y minus the mean */
    double *alpha;
};

static double mean_at(const Surrogate *s, size_t row)
{
    return s->level + s->slope * s->prior[row];
}

/* The Matérn kernel of order 5/2. */
static double kernel(const Surrogate *s, size_t a, size_t b)
{
    size_t width = s->features->width;
    const double *x = s->features->values + a * width, *y = s->features->values + b * width;
    double square = 0;
    for (size_t i = 0; i < width; i++) {
        square += (x[i] - y[i]) * (x[i] - y[i]) * s->weights[i];
    }
    double r = sqrt(5 * square);
    return s->variance * (1 + r + r * r / 3) * exp(-r);
}

/* Computes the factor's row of the i-th point. */
static bool add_row(Surrogate *s, size_t i)
{
    double *row = s->factor + i * s->cap;
    for (size_t j = 0; j <= i; j++) {
        const double *other = s->factor + j * s->cap;
        double sum = kernel(s, s->rows[i], s->rows[j]) + (i == j ? s->noise : 0);
        for (size_t k = 0; k < j; k++) {
            sum -= row[k] * other[k];
        }
        if (i == j && sum <= 0) {
            return false;
        }
        row[j] = i == j ? sqrt(sum) : sum / other[j];
    }
    return true;
}

static bool factorize(Surrogate *s)
{
    for (size_t i = 0; i < s->n; i++) {
        if (!add_row(s, i)) {
            return false;
        }
    }
    return true;
}

/* Forward: solves L x = b in place. */
static void solve_lower(const Surrogate *s, double *b)
{
    for (size_t i = 0; i < s->n; i++) {
        const double *row = s->factor + i * s->cap;
        for (size_t k = 0; k < i; k++) {
            b[i] -= row[k] * b[k];
        }
        b[i] /= row[i];
    }
}

static void solve_upper(const Surrogate *s, double *b)
{
    for (size_t i = s->n; i-- > 0;) {
        for (size_t k = i + 1; k < s->n; k++) {
            b[i] -= s->factor[k * s->cap + i] * b[k];
        }
        b[i] /= s->factor[i * s->cap + i];
    }
}

/* The negative logarithm of the measurements' likelihood, without constant terms. Also finds the
 * variance that maximizes the likelihood. */
static double unlikely(Surrogate *s)
{
    s->variance = 1;
    double spread = 0;
    for (size_t i = 0; i < s->n; i++) {
        spread += s->residual[i] * s->residual[i];
    }
    spread = spread / (double)s->n + MIN_SPREAD * MIN_SPREAD;
    s->variance = spread;
    s->noise = NOISE * NOISE;
    if (!factorize(s)) {
        return INFINITY;
    }
    memcpy(s->alpha, s->residual, s->n * sizeof *s->alpha);
    solve_lower(s, s->alpha);
    double fit = 0, volume = 0;
    for (size_t i = 0; i < s->n; i++) {
        fit += s->alpha[i] * s->alpha[i];
        volume += log(s->factor[i * s->cap + i]);
    }
    return fit / 2 + volume;
}

static void set_length(Surrogate *s, int group, double length)
{
    for (size_t i = 0; i < s->features->width; i++) {
        if (s->features->group[i] == group) {
            s->weights[i] = 1 / (length * length);
        }
    }
}

/* For each entry in turn, the length scale that maximizes the measurements' likelihood. */
static void fit_lengths(Surrogate *s)
{
    size_t all = s->n;
    s->n = all > FIT_MAX ? FIT_MAX : all;
    double best = unlikely(s);
    int *chosen = (int *)(void *)(s->alpha + s->cap); /* behind alpha: one per group */
    for (int group = 0; group < s->features->groups; group++) {
        chosen[group] = USUAL;
    }
    for (int iteration = 0; iteration < FIT_ITERATIONS; iteration++) {
        for (int group = 0; group < s->features->groups; group++) {
            for (int i = 0; i < N_LENGTHS; i++) {
                set_length(s, group, LENGTHS[i]);
                double one = i == chosen[group] ? best : unlikely(s);
                if (one < best - 1e-9) {
                    best = one;
                    chosen[group] = i;
                }
            }
            set_length(s, group, LENGTHS[chosen[group]]);
        }
    }
    s->n = all;
}

static void solve(Surrogate *s)
{
    memcpy(s->alpha, s->residual, s->n * sizeof *s->alpha);
    solve_lower(s, s->alpha);
    solve_upper(s, s->alpha);
}

Surrogate *surrogate_fit(Arena *arena, const Features *features, const double *prior,
                         const size_t *known, const double *y, size_t n)
{
    if (n < 2) {
        return NULL;
    }
    Surrogate *s = ARENA_NEW(arena, Surrogate);
    *s = (Surrogate){.features = features, .prior = prior, .n = n, .cap = n + MAX_BELIEVED};
    s->rows = ARENA_ARRAY(arena, size_t, s->cap);
    memcpy(s->rows, known, n * sizeof *known);
    s->weights = ARENA_ARRAY(arena, double, features->width + 1);
    s->factor = ARENA_ARRAY(arena, double, s->cap * s->cap);
    s->residual = ARENA_ARRAY(arena, double, s->cap);
    s->alpha = ARENA_ARRAY(arena, double, s->cap + (size_t)features->groups + 1);
    for (int group = 0; group < features->groups; group++) {
        set_length(s, group, LENGTHS[USUAL]);
    }
    /* The mean is level + slope * prior, with a slope near 1 as far as the prior agrees. */
    double x_mean = 0, y_mean = 0, xy = 0, xx = 0;
    for (size_t i = 0; i < s->n; i++) {
        x_mean += s->prior[known[i]] / (double)s->n;
        y_mean += y[i] / (double)s->n;
    }
    for (size_t i = 0; i < s->n; i++) {
        double x = s->prior[known[i]] - x_mean;
        xy += x * (y[i] - y_mean);
        xx += x * x;
    }
    s->slope = xx > 0 ? xy / (xx + 0.01) : 0;
    s->slope = s->slope < 0 ? 0 : s->slope > 1.2 ? 1.2 : s->slope;
    s->level = y_mean - s->slope * x_mean;
    for (size_t i = 0; i < s->n; i++) {
        s->residual[i] = y[i] - mean_at(s, known[i]);
    }
    fit_lengths(s);
    if (isinf(unlikely(s))) {
        return NULL;
    }
    solve(s);
    return s;
}

void surrogate_at(const Surrogate *s, size_t row, double *mean, double *deviation)
{
    enum { MOST = 4096 };
    double against[MOST];
    size_t n = s->n < MOST ? s->n : MOST;
    *mean = mean_at(s, row);
    for (size_t i = 0; i < n; i++) {
        against[i] = kernel(s, row, s->rows[i]);
        *mean += against[i] * s->alpha[i];
    }
    solve_lower(s, against);
    double left = s->variance;
    for (size_t i = 0; i < n; i++) {
        left -= against[i] * against[i];
    }
    *deviation = sqrt(left > 1e-12 ? left : 1e-12);
}

void surrogate_believe(Surrogate *s, size_t row)
{
    double mean, deviation;
    if (s->n == s->cap) {
        return;
    }
    surrogate_at(s, row, &mean, &deviation);
    s->rows[s->n] = row;
    s->residual[s->n] = mean - mean_at(s, row);
    if (add_row(s, s->n)) {
        s->n++;
        solve(s);
    }
}
