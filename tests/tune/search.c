/* SPDX-License-Identifier: Apache-2.0 */
/* Search spaces as points, numbers and schedule text; medians and confidence intervals; the
 * candidates that a sweep measures, on a simulated device with recorded or computed times. */
#include "tests/unit.h"

#include "tune/sweep/search_strategy.h"
#include "tune/sweep/tune_stats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Arena arena;

static void begin(void)
{
    arena_init(&arena, allocator_default());
}

static void end(void)
{
    arena_free(&arena);
}

/* ---- spaces ---- */

static const char *const TILES[] = {"128", "64", "256"}, *const WORDS[] = {"on", "off"},
                         *const SHARES[] = {"2", "4"};
static const TesseraAxis AXES[] = {
    {"tile", "M", TILES, 3, true, "128"},
    {"tile", "N", TILES, 3, true, "128"},
    {"split_k", "", SHARES, 2, true, NULL},
    {"persistent", "", WORDS, 2, false, "on"},
};
static const TesseraSpace PROPOSED = {.axes = AXES, .n_axes = 4};
static const TesseraSpace DECLARED = {.axes = AXES, .n_axes = 4, .declared = true};

static const char *lines_of(const TesseraSpace *space, uint64_t nth)
{
    int point[4];
    Text text = text_new(&arena);
    space_point(space, nth, point);
    ck_assert_uint_eq(space_nth(space, point), nth);
    space_lines(space, point, &text);
    return text.data;
}

START_TEST(points_have_lines)
{
    ck_assert_uint_eq(space_count(&DECLARED), 36);
    ck_assert_uint_eq(space_count(&PROPOSED), 54); /* shares may be left out */
    ck_assert_str_eq(lines_of(&PROPOSED, 0), "");
    ck_assert_str_eq(lines_of(&PROPOSED, 1), "persistent off");
    ck_assert_str_eq(lines_of(&PROPOSED, 53), "tile M 256, N 256\nsplit_k 4\npersistent off");
    ck_assert_str_eq(lines_of(&DECLARED, 0), "tile M 128, N 128\nsplit_k 2\npersistent on");
    TesseraSpace none = {.axes = AXES, .n_axes = 0};
    ck_assert_uint_eq(space_count(&none), 1);
}
END_TEST

START_TEST(searched_lines_are_found)
{
    Text text = text_new(&arena);
    space_searched(&DECLARED, "tile K 64, N 96, M 32;warps 8 producer 4;persistent off;", &text);
    ck_assert_str_eq(text.data, "tile M 32, N 96\npersistent off");
}
END_TEST

START_TEST(lines_are_numbers)
{
    const char *lines[] = {"tile M 64, N 3\npersistent on", "tile M 256, N 3\npersistent off",
                           "tile M 128, N 3"};
    Features f;
    features_make(&arena, lines, 3, &f);
    ck_assert_int_eq(f.groups, 3);
    ck_assert_uint_eq(f.width, 5); /* M, N, on, off, none */
    ck_assert_double_eq(f.values[0], 0);
    ck_assert_double_eq(f.values[f.width], 1);
    double middle = f.values[2 * f.width];
    ck_assert(middle > 0.45 && middle < 0.55);
    ck_assert_double_eq(f.values[1], 0.5); /* which is all the same */
    double far = 0;
    for (size_t i = 2; i < f.width; i++) {
        far += pow(f.values[i] - f.values[f.width + i], 2);
    }
    ck_assert_double_eq_tol(far, 1, 1e-12);
}
END_TEST

/* ---- medians ---- */

START_TEST(intervals_are_of_orders)
{
    static const struct {
        size_t n, k;
    } known[] = {{1, 1}, {5, 1}, {6, 1}, {8, 1}, {9, 2}, {12, 3}, {15, 4}, {25, 8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        double samples[25];
        for (size_t k = 0; k < known[i].n; k++) {
            samples[k] = (double)(known[i].n - k);
        }
        Median m = median_of(samples, known[i].n);
        ck_assert_uint_eq(m.n, known[i].n);
        ck_assert_double_eq(m.low, (double)known[i].k);
        ck_assert_double_eq(m.high, (double)(known[i].n + 1 - known[i].k));
        ck_assert_double_eq(m.middle, (double)(known[i].n + 1) / 2);
    }
    Median none = median_of(NULL, 0);
    ck_assert(isnan(none.middle));
    Median a = {1, 0.9, 1.1, 9}, b = {2, 1.2, 2.1, 9};
    ck_assert(median_is_below(&a, &b) && !median_is_below(&b, &a) && !median_is_below(&none, &b));
}
END_TEST

static double uniform(uint64_t *chance)
{
    return (double)(random_next(chance) >> 11) / (double)((uint64_t)1 << 53);
}

/* Of a skewed distribution: at least 95 of a hundred intervals have the median, 2 of it. */
START_TEST(intervals_have_the_median)
{
    enum { TRIES = 20000, N = 15 };
    uint64_t chance = 1;
    int inside = 0;
    for (int i = 0; i < TRIES; i++) {
        double samples[N];
        for (int k = 0; k < N; k++) {
            samples[k] = 1 / (1 - uniform(&chance));
        }
        Median m = median_of(samples, N);
        inside += m.low <= 2 && 2 <= m.high;
    }
    ck_assert_int_ge(inside, TRIES / 100 * 95);
    ck_assert_int_le(inside, TRIES / 100 * 98); /* 96.5, by the binomial distribution */
}
END_TEST

/* ---- strategies, on a simulated device ---- */

typedef struct Simulated {
    size_t n;
    const char **lines;
    double *predicted, *seconds;
    double best;
} Simulated;

static void add_simulated(Simulated *s, const char *lines, double predicted, double seconds)
{
    s->lines[s->n] = lines;
    s->predicted[s->n] = predicted;
    s->seconds[s->n++] = seconds;
    s->best = s->best == 0 || seconds < s->best ? seconds : s->best;
}

static Simulated new_simulated(size_t most)
{
    return (Simulated){.lines = ARENA_ARRAY(&arena, const char *, most),
                       .predicted = ARENA_ARRAY(&arena, double, most),
                       .seconds = ARENA_ARRAY(&arena, double, most)};
}

/* A product on a GPU: waves of tiles, rings that hide latency, registers that run out; what the
 * model says leaves out the last two, and is off by up to a tenth besides. */
static Simulated product(void)
{
    static const int m[] = {64, 128, 192, 256}, n[] = {64, 96, 128, 160, 192, 224, 256},
                     k[] = {32, 64, 128}, slots[] = {1, 2, 3, 4, 5, 6}, groups[] = {0, 4, 8, 16};
    Simulated s = new_simulated(4 * 7 * 3 * 6 * 4);
    uint64_t chance = 3;
    for (int i = 0; i < 4 * 7 * 3 * 6 * 4; i++) {
        int tm = m[i % 4], tn = n[i / 4 % 7], tk = k[i / 28 % 3], ring = slots[i / 84 % 6],
            group = groups[i / 504];
        double tiles = ceil(4096. / tm) * ceil(4096. / tn), steps = 4096. / tk;
        double multiply = tm * tn * tk / 4096. * 2, bring = (tm + tn) * tk * 2 / 64.;
        double step = pow(pow(multiply, 4) + pow(bring, 4), 0.25) + 50;
        double plain = ceil(tiles / 132) * (steps * step + tm * tn / 12.);
        double hidden = 1 + 0.8 / (ring * ring);
        double cache = 1 + 0.15 * pow((group - 7) / 8., 2);
        double held = tm * tn > 32768 ? 1.9 : 1;
        if ((tm + tn) * tk * 2 * ring <= 227000) {
            add_simulated(&s,
                          arena_printf(&arena,
                                       "tile M %d, N %d, K %d\npipeline %d\nraster grouped %d", tm,
                                       tn, tk, ring, group),
                          plain * (0.9 + 0.2 * uniform(&chance)), plain * hidden * cache * held);
        }
    }
    return s;
}

/* As `tune export` of an exhaustive sweep gives it: predicted, seconds, lines with `;`. */
static Simulated recorded(const char *path)
{
    enum { MOST = 20000 };
    Simulated s = new_simulated(MOST);
    char line[2000], lines[1800];
    double predicted, seconds;
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s is not there", path);
    while (s.n < MOST && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%lf,%lf,%1799[^\n]", &predicted, &seconds, lines) == 3) {
            add_simulated(&s, arena_strdup(&arena, lines), predicted, seconds);
        }
    }
    fclose(file);
    return s;
}

/* The fastest after so many, over the fastest of all. */
static double search_with(const Simulated *s, const Features *features, Strategy strategy,
                          uint64_t seed, size_t budget, size_t *order)
{
    enum { BATCH = 16 };
    Search search = {.strategy = strategy,
                     .chance = seed,
                     .features = features,
                     .items = ARENA_ARRAY(&arena, SearchItem, s->n),
                     .n = s->n};
    uint64_t noise = seed * 77;
    double best = INFINITY;
    for (size_t i = 0; i < s->n; i++) {
        search.items[i] = (SearchItem){.predicted = s->predicted[i], .time = (double)NAN};
    }
    for (size_t done = 0; done < budget;) {
        size_t chosen[BATCH], want = budget - done < BATCH ? budget - done : BATCH;
        size_t n = search_next(&search, want, chosen);
        for (size_t i = 0; i < n; i++) {
            double seconds = s->seconds[chosen[i]];
            ck_assert(isnan(search.items[chosen[i]].time)); /* none twice */
            search.items[chosen[i]].time = seconds * (0.99 + 0.02 * uniform(&noise));
            best = seconds < best ? seconds : best;
            if (order) {
                order[done + i] = chosen[i];
            }
        }
        done += n;
        if (n == 0) {
            break;
        }
    }
    return best / s->best;
}

static double median_over_seeds(const Simulated *s, const Features *features, Strategy strategy,
                                size_t budget)
{
    enum { SEEDS = 10 };
    double found[SEEDS];
    for (int seed = 0; seed < SEEDS; seed++) {
        found[seed] = search_with(s, features, strategy, (uint64_t)seed + 1, budget, NULL);
    }
    return median_of(found, SEEDS).middle;
}

static void compare_strategies(const char *name, const Simulated *s, size_t budget)
{
    Features features;
    features_make(&arena, s->lines, s->n, &features);
    double model = median_over_seeds(s, &features, STRATEGY_MODEL, budget);
    double random = median_over_seeds(s, &features, STRATEGY_RANDOM, budget);
    printf("%s: %zu of %zu candidates, 10 seeds: found %.3f of the best time by the model, %.3f by "
           "chance\n",
           name, budget, s->n, model, random);
    ck_assert_msg(model < random, "%s: %g, by chance %g", name, model, random);
    ck_assert_msg(model < 1.06, "%s: %g of the best", name, model);
}

START_TEST(models_beat_chance)
{
    Simulated s = product();
    ck_assert_uint_gt(s.n, 1000);
    compare_strategies("a product, computed", &s, 48);
    compare_strategies("a product, computed", &s, 96);
    s = recorded("tests/tune/recorded/matmul.csv");
    compare_strategies("matmul of f32, 384 cubed, recorded on a CPU", &s, 32);
}
END_TEST

START_TEST(searches_repeat)
{
    enum { BUDGET = 64 };
    Simulated s = product();
    Features features;
    features_make(&arena, s.lines, s.n, &features);
    for (int strategy = STRATEGY_MODEL; strategy <= STRATEGY_EXHAUSTIVE; strategy++) {
        size_t first[BUDGET], second[BUDGET];
        search_with(&s, &features, (Strategy)strategy, 5, BUDGET, first);
        search_with(&s, &features, (Strategy)strategy, 5, BUDGET, second);
        ck_assert_mem_eq(first, second, sizeof first);
    }
}
END_TEST

START_TEST(exhaustive_has_all_and_the_best_ranked_first)
{
    Simulated s = product();
    Features features;
    features_make(&arena, s.lines, s.n, &features);
    size_t *order = ARENA_ARRAY(&arena, size_t, s.n);
    bool *seen = ARENA_ARRAY(&arena, bool, s.n);
    double found = search_with(&s, &features, STRATEGY_EXHAUSTIVE, 1, s.n, order);
    ck_assert_double_eq(found, 1);
    for (size_t i = 0; i < s.n; i++) {
        ck_assert(!seen[order[i]]);
        seen[order[i]] = true;
        ck_assert(i == 0 || s.predicted[order[i - 1]] <= s.predicted[order[i]]);
    }
}
END_TEST

/* A model that says nothing, times all alike, and candidates that fail. */
START_TEST(searches_live_with_nothing_to_learn)
{
    enum { N = 40 };
    Simulated s = new_simulated(N);
    for (int i = 0; i < N; i++) {
        add_simulated(&s, arena_printf(&arena, "tile M %d", i + 1), 0, 1);
    }
    Features features;
    features_make(&arena, s.lines, s.n, &features);
    ck_assert_double_eq(search_with(&s, &features, STRATEGY_MODEL, 1, N, NULL), 1);
    SearchItem items[N];
    Search search = {.features = &features, .items = items, .n = N, .chance = 1};
    for (int i = 0; i < N; i++) {
        items[i] = (SearchItem){.time = (double)NAN, .failed = i < 30, .taken = i < 30};
    }
    size_t chosen[N];
    ck_assert_uint_eq(search_next(&search, N, chosen), 10);
    ck_assert_uint_eq(search_next(&search, N, chosen), 0);
}
END_TEST

UNIT_TESTS(tune_search)
{
    TCase *tests = tcase_create("search");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, points_have_lines);
    tcase_add_test(tests, searched_lines_are_found);
    tcase_add_test(tests, lines_are_numbers);
    tcase_add_test(tests, intervals_are_of_orders);
    tcase_add_test(tests, intervals_have_the_median);
    tcase_add_test(tests, models_beat_chance);
    tcase_add_test(tests, searches_repeat);
    tcase_add_test(tests, exhaustive_has_all_and_the_best_ranked_first);
    tcase_add_test(tests, searches_live_with_nothing_to_learn);
    return tests;
}
