/* SPDX-License-Identifier: Apache-2.0 */
/* Search strategies. The model-guided strategy begins with the best candidates by the compiler's
 * cost model and with candidates that differ from those. Then it takes, in batches, the candidates
 * with the largest expected improvement by the Gaussian process (D. R. Jones, M. Schonlau, W. J.
 * Welch, Efficient Global Optimization, 1998); within a batch, each chosen candidate is assumed to
 * take its predicted time. A few candidates are always random. */
#include "tune/sweep/search_strategy.h"

#include "tune/sweep/surrogate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST = 12,    /* candidates that are measured before the model is fitted */
    POOL = 128,    /* the most promising candidates, from which a batch is chosen */
    LEARNED = 256, /* measurements that the model is fitted to: the best and last ones */
    CHANCE = 8,    /* one of so many candidates is random */
};

static bool is_free(const Search *search, size_t i)
{
    return !search->items[i].taken;
}

/* A random candidate that is not taken; n: there is none. */
static size_t any(Search *search)
{
    size_t left = 0;
    for (size_t i = 0; i < search->n; i++) {
        left += is_free(search, i);
    }
    size_t nth = (size_t)random_below(&search->chance, left);
    for (size_t i = 0; i < search->n; i++) {
        if (is_free(search, i) && nth-- == 0) {
            return i;
        }
    }
    return search->n;
}

static double prior_of(const SearchItem *item)
{
    return item->predicted > 0 ? log(item->predicted) : 0;
}

/* The candidate with the least predicted time of those that are not taken. */
static size_t first_ranked(const Search *search)
{
    size_t best = search->n;
    for (size_t i = 0; i < search->n; i++) {
        if (is_free(search, i) &&
            (best == search->n || prior_of(&search->items[i]) < prior_of(&search->items[best]))) {
            best = i;
        }
    }
    return best;
}

static double distance(const Search *search, size_t a, size_t b)
{
    size_t width = search->features->width;
    const double *x = search->features->values + a * width,
                 *y = search->features->values + b * width;
    double square = 0;
    for (size_t i = 0; i < width; i++) {
        square += (x[i] - y[i]) * (x[i] - y[i]);
    }
    return sqrt(square);
}

/* Of the candidates that are not taken and that the cost model does not predict to be slow, the one
 * that differs most from all taken ones. */
static size_t most_unlike(const Search *search)
{
    size_t best = search->n, first = first_ranked(search);
    double most = -1;
    for (size_t i = 0; i < search->n; i++) {
        if (!is_free(search, i) ||
            prior_of(&search->items[i]) > prior_of(&search->items[first]) + log(2)) {
            continue;
        }
        double nearest = INFINITY;
        for (size_t k = 0; k < search->n && nearest > most; k++) {
            double far = search->items[k].taken ? distance(search, i, k) : INFINITY;
            nearest = far < nearest ? far : nearest;
        }
        if (nearest > most) {
            most = nearest;
            best = i;
        }
    }
    return best;
}

/* ---- learning ---- */

typedef struct Learned {
    size_t *rows;
    double *y;
    size_t n;
    double best;
} Learned;

typedef struct Rated {
    double rate;
    size_t row;
} Rated;

static int by_rate(const void *a, const void *b)
{
    const Rated *x = a, *y = b;
    return x->rate < y->rate ? -1 : x->rate > y->rate ? 1 : (x->row > y->row) - (x->row < y->row);
}

/* A failed candidate counts as the slowest one, so that similar candidates are avoided. */
static Learned learn(Arena *arena, const Search *search)
{
    Learned learned = {.best = INFINITY};
    Rated *rated = ARENA_ARRAY(arena, Rated, search->n);
    double worst = -INFINITY;
    size_t n = 0;
    for (size_t i = 0; i < search->n; i++) {
        double time = search->items[i].time;
        if (time > 0 && isfinite(time)) {
            worst = log(time) > worst ? log(time) : worst;
            learned.best = log(time) < learned.best ? log(time) : learned.best;
            rated[n++] = (Rated){log(time), i};
        }
    }
    for (size_t i = 0; i < search->n && n > 0; i++) {
        if (search->items[i].failed) {
            rated[n++] = (Rated){worst, i};
        }
    }
    qsort(rated, n, sizeof *rated, by_rate);
    learned.n = n < LEARNED ? n : LEARNED;
    learned.rows = ARENA_ARRAY(arena, size_t, learned.n + 1);
    learned.y = ARENA_ARRAY(arena, double, learned.n + 1);
    for (size_t i = 0; i < learned.n; i++) {
        /* Takes all measurements, or the best half and an even sample of the others. */
        size_t half = learned.n / 2;
        size_t at =
            n == learned.n || i < half ? i : half + (i - half) * (n - half) / (learned.n - half);
        learned.rows[i] = rated[at].row;
        learned.y[i] = rated[at].rate;
    }
    return learned;
}

static double promise(const Surrogate *surrogate, size_t row, double best)
{
    double mean, deviation;
    surrogate_at(surrogate, row, &mean, &deviation);
    /* The expected improvement: the integral of the normal distribution's part below `best`. */
    double z = (best - mean) / deviation;
    double density = exp(-z * z / 2) / sqrt(2 * acos(-1));
    return (best - mean) * erfc(-z / sqrt(2)) / 2 + deviation * density;
}

/* The most promising candidates that are not taken. */
static size_t make_pool(Arena *arena, const Search *search, const Surrogate *surrogate, double best,
                        size_t *pool)
{
    Rated *rated = ARENA_ARRAY(arena, Rated, search->n + 1);
    size_t n = 0;
    for (size_t i = 0; i < search->n; i++) {
        if (is_free(search, i)) {
            rated[n++] = (Rated){-promise(surrogate, i, best), i};
        }
    }
    qsort(rated, n, sizeof *rated, by_rate);
    n = n < POOL ? n : POOL;
    for (size_t i = 0; i < n; i++) {
        pool[i] = rated[i].row;
    }
    return n;
}

static size_t best_of_pool(const Search *search, const Surrogate *surrogate, double best,
                           const size_t *pool, size_t n)
{
    double most = -1;
    size_t found = search->n;
    for (size_t i = 0; i < n; i++) {
        double here = is_free(search, pool[i]) ? promise(surrogate, pool[i], best) : -1;
        if (here > most) {
            most = here;
            found = pool[i];
        }
    }
    return found;
}

/* ---- the strategies ---- */

static size_t take(Search *search, size_t item, size_t *chosen, size_t n)
{
    if (item < search->n) {
        search->items[item].taken = true;
        chosen[n++] = item;
    }
    return n;
}

static size_t next_first(Search *search, size_t want, size_t *chosen)
{
    size_t n = 0;
    for (size_t i = 0; i < want; i++) {
        size_t item = i % 2 == 0 ? first_ranked(search) : search->n;
        item = item < search->n || first_ranked(search) == search->n ? item : most_unlike(search);
        n = take(search, item, chosen, n);
    }
    return n;
}

static size_t next_learned(Search *search, const Learned *learned, Arena *arena, size_t want,
                           size_t *chosen)
{
    double *prior = ARENA_ARRAY(arena, double, search->n + 1);
    size_t pool[POOL], n = 0;
    for (size_t i = 0; i < search->n; i++) {
        prior[i] = prior_of(&search->items[i]);
    }
    Surrogate *surrogate =
        surrogate_fit(arena, search->features, prior, learned->rows, learned->y, learned->n);
    if (!surrogate) {
        return next_first(search, want, chosen);
    }
    size_t n_pool = make_pool(arena, search, surrogate, learned->best, pool);
    for (size_t i = 0; i < want; i++) {
        bool chance = i % CHANCE == CHANCE - 1;
        size_t item =
            chance ? any(search) : best_of_pool(search, surrogate, learned->best, pool, n_pool);
        n = take(search, item, chosen, n);
        if (item < search->n) {
            surrogate_believe(surrogate, item);
        }
    }
    return n;
}

static size_t next_modelled(Search *search, size_t want, size_t *chosen)
{
    Arena arena;
    jmp_buf guard;
    arena_init(&arena, allocator_default());
    arena.guard = &guard;
    volatile size_t n = 0;
    if (setjmp(guard) == 0) {
        Learned learned = learn(&arena, search);
        n = learned.n < FIRST ? next_first(search, want, chosen)
                              : next_learned(search, &learned, &arena, want, chosen);
    }
    arena_free(&arena);
    return n;
}

size_t search_next(Search *search, size_t want, size_t *chosen)
{
    size_t n = 0;
    if (search->strategy == STRATEGY_MODEL) {
        return next_modelled(search, want, chosen);
    }
    while (n < want) {
        size_t item = search->strategy == STRATEGY_RANDOM ? any(search) : first_ranked(search);
        if (item == search->n) {
            break;
        }
        n = take(search, item, chosen, n);
    }
    return n;
}
