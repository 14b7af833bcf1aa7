/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how far the results of a candidate may be from those of the derived schedule: the
 * interpreter's bound, as in `run --check`, of a smaller run of the same kernel.
 *
 * Sizes along which nothing is summed are reduced first. Then the summed sizes are halved, the
 * largest first, and the bound is multiplied for each halving, because it grows at most with the
 * number of terms. If a candidate's loops have other steps than the derived schedule, the
 * interpreter uses those steps, too. Values that are rounded once per step (softmax weights
 * relative to the running maximum) are then rounded differently, which neither bound covers, so
 * the results of the two interpreter runs are compared instead. */
#include "cli/data/array_args.h"
#include "cli/data/backend_args.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/tune/cmd_tune_sweep.h"
#include "runtime/api/api_search.h"
#include "support/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST = 8,  /* limit of a size along which nothing is summed */
    SIDES = 2, /* candidate and derived schedule: each may deviate by the bound */
    SAFETY = 4 /* because the smaller run has few rows */
};

/* ---- the smaller run ---- */

static bool is_named(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

typedef struct Smaller {
    TesseraSize *sizes;
    bool *folded, *fixed;
    size_t n;
} Smaller;

static double product(const Smaller *s)
{
    double product = 1;
    for (size_t i = 0; i < s->n; i++) {
        product *= (double)s->sizes[i].value;
    }
    return product;
}

/* Halves the largest of the sizes that are summed over, or of the others; false if all are 1. */
static bool halve(Smaller *s, bool folded)
{
    int64_t *largest = NULL;
    for (size_t i = 0; i < s->n; i++) {
        int64_t *value = &s->sizes[i].value;
        if (s->folded[i] == folded && !s->fixed[i] && *value > 1 &&
            (!largest || *value > *largest)) {
            largest = value;
        }
    }
    if (largest) {
        *largest /= 2;
    }
    return largest;
}

/* ---- running ---- */

typedef struct Runs {
    SweepWork *work;
    Options without; /* the smaller sizes */
    TesseraOptions compile;
    Arrays arrays;
} Runs;

/* Computes the results with their bounds; NULL after an error, which the context holds. */
static TesseraArg *interpret(Runs *r, const char *steps)
{
    const char **lines = session_alloc((strlen(steps) / 2 + 1) *
                                       sizeof *lines); /* a step has two or more characters */
    Session *s = &r->work->session;
    TesseraOptions compile = r->compile;
    /* The steps "j=64,k=8" become one line `tile NAME STEP` each. */
    size_t n = 0;
    for (const char *at = steps; *at;) {
        size_t name = strcspn(at, "="), all = strcspn(at, ",");
        char *line = session_alloc(all + sizeof "tile ");
        sprintf(line, "tile %.*s %.*s", (int)name, at, (int)(all - name - 1), at + name + 1);
        lines[n++] = line;
        at += all + (at[all] == ',');
    }
    compile.n_lines = n;
    compile.lines = lines; /* other schedule lines do not change the results */
    TesseraArg *args = args_for_interpreter(&r->arrays, false);
    if (tessera_interpret(s->program, &compile, args, r->arrays.n) != TESSERA_OK) {
        args_free(&r->arrays, args);
        return NULL;
    }
    return args;
}

/* The root of the mean square of the finite elements. */
static double usual_size(TesseraType type, const void *packed, size_t n)
{
    double sum = 0, counted = 0;
    for (size_t k = 0; k < n; k++) {
        double value = tessera_get(type, packed, k);
        sum += isfinite(value) ? value * value : 0;
        counted += isfinite(value);
    }
    return counted > 0 ? sqrt(sum / counted) : 0;
}

/* Where large terms cancel, other loop steps deviate as far as for elements of the usual magnitude,
 * so the largest deviation of all elements below it is added to each of them. */
static void add_elements(const Array *array, size_t n, const TesseraArg *arg,
                         const TesseraArg *derived, Envelope *envelope)
{
    TesseraType type = array->tensor.type;
    void *packed = tensor_packed(&arg->tensor), *other = tensor_packed(&derived->tensor);
    double usual = usual_size(type, other, n), farthest = 0;
    for (size_t k = 0; k < n; k++) {
        double value = tessera_get(type, packed, k), other_value = tessera_get(type, other, k);
        double difference =
            isfinite(value) && isfinite(other_value) ? SAFETY * fabs(value - other_value) : 0;
        double bound = arg == derived ? SIDES * arg->bound[k] : arg->bound[k] + derived->bound[k];
        value = fabs(other_value) > fabs(value) ? other_value : value;
        bool small = fabs(value) < usual;
        farthest = small && difference > farthest ? difference : farthest;
        envelope_add(envelope, value, bound + (small ? 0 : difference));
    }
    for (size_t k = 0; k < n && farthest > 0; k++) {
        double value = tessera_get(type, other, k);
        envelope_add(envelope, value,
                     fabs(value) < usual ? arg->bound[k] + derived->bound[k] + farthest : 0);
    }
    free(packed);
    free(other);
}

static bool run(Runs *r, const char *steps, const char *derived, double scale)
{
    TesseraArg *want = interpret(r, derived);
    TesseraArg *args = want && strcmp(steps, derived) != 0 ? interpret(r, steps) : want;
    if (args) {
        for (size_t i = 0; i < r->arrays.n; i++) {
            const Array *array = &r->arrays.items[i];
            size_t elements, bytes;
            tensor_bytes(&array->tensor, &elements, &bytes);
            if (!array_is_result(array) || !args[i].bound || elements == 0) {
                continue;
            }
            Envelope envelope = {0};
            add_elements(array, elements, &args[i], &want[i], &envelope);
            envelope_close(&envelope, scale);
            printf("envelope %s", array->param->name);
            envelope_write(&envelope, stdout);
            putchar('\n');
        }
    }
    if (args != want) {
        args_free(&r->arrays, args);
    }
    args_free(&r->arrays, want);
    return args;
}

/* Compiles for the smaller sizes and fills the arrays with random values of these sizes. */
static bool begin(Runs *r, const Smaller *smaller)
{
    Session *s = &r->work->session;
    Options with_consts;
    r->without = *r->work->options;
    r->without.sizes.items = smaller->sizes;
    r->without.sizes.n = smaller->n;
    r->compile = r->work->compile;
    r->compile.sizes = smaller->sizes;
    r->compile.lines = NULL;
    r->compile.n_lines = 0;
    int code = arrays_read(&r->without, s, &r->arrays, &with_consts);
    arrays_give_strides(&r->arrays, &r->compile);
    tessera_kernel_free(s->kernel);
    s->kernel = NULL;
    return code == 0 && tessera_compile(s->program, &r->compile, &s->kernel) == TESSERA_OK &&
           arrays_complete(&r->without, s, &r->compile, true, &r->arrays) == 0;
}

/* The loop steps of the candidate at its own sizes; NULL after an error, which the context
 * holds. */
static const char *steps_of(SweepWork *work, TesseraKernel *kernel)
{
    TesseraPrediction prediction;
    if (!kernel ||
        tessera_kernel_predict(kernel, work->options->threads, &prediction) != TESSERA_OK) {
        return NULL;
    }
    return session_text(prediction.steps, strlen(prediction.steps));
}

static double make_smaller(const SweepWork *work, const TesseraSpace *space, double cost,
                           Smaller *s)
{
    s->n = work->compile.n_sizes;
    s->sizes = alloc_or_exit(s->n * sizeof *s->sizes);
    s->folded = alloc_or_exit(s->n * sizeof *s->folded);
    s->fixed = alloc_or_exit(s->n * sizeof *s->fixed);
    for (size_t i = 0; i < s->n; i++) {
        s->sizes[i] = work->compile.sizes[i];
        s->folded[i] = is_named(space->folded, space->n_folded, s->sizes[i].name) ||
                       is_named(space->ends, space->n_ends, s->sizes[i].name);
        s->fixed[i] = is_named(space->fixed, space->n_fixed, s->sizes[i].name);
    }
    if (work->arrays.n_files == 0) { /* arrays from files keep their sizes */
        for (size_t i = 0; i < s->n; i++) {
            int64_t *value = &s->sizes[i].value;
            *value = !s->folded[i] && !s->fixed[i] && *value > MOST ? MOST : *value;
        }
        while (product(s) > cost && (halve(s, false) || halve(s, true))) {}
    }
    /* Sums are longer than in the smaller run by this factor. A size that only bounds a loop
     * counts as far as it was reduced more than the summed sizes. */
    double all = 1, most = 1, ends = 1;
    for (size_t i = 0; i < s->n; i++) {
        double times = s->sizes[i].value > 0
                           ? (double)work->compile.sizes[i].value / (double)s->sizes[i].value
                           : 1;
        if (is_named(space->folded, space->n_folded, s->sizes[i].name)) {
            all *= times;
            most = times > most ? times : most;
        } else if (s->folded[i]) {
            ends = times > ends ? times : ends;
        }
    }
    return all * (ends > most ? ends / most : 1);
}

void sweep_bound(SweepWork *work, double cost, const char *lines)
{
    TesseraSpace space;
    Smaller smaller = {0};
    Runs runs = {.work = work};
    double began = clock_seconds(), scale = 1;
    TesseraKernel *kernel = sweep_compile(work, ""), *own = sweep_compile(work, lines);
    const char *derived = steps_of(work, kernel), *steps = steps_of(work, own);
    bool good = derived && steps &&
                tessera_kernel_space(kernel, work->options->threads, &space) == TESSERA_OK;
    if (good) {
        scale = make_smaller(work, &space, cost, &smaller);
        good = begin(&runs, &smaller) && run(&runs, steps, derived, scale);
        arrays_free(&work->session, &runs.arrays);
    }
    if (good) {
        bool whole = scale <= 1 || work->arrays.n_files > 0;
        printf("bounded %.6f%s\n", clock_seconds() - began, whole ? " whole" : "");
    } else {
        printf("unbounded %s\n", sweep_error_text(work));
    }
    tessera_kernel_free(kernel);
    tessera_kernel_free(own);
    free(smaller.sizes);
    free(smaller.folded);
    free(smaller.fixed);
}
