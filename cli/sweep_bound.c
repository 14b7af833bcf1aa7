/* SPDX-License-Identifier: Apache-2.0 */
/* How far answers of one kernel may be apart that only sum in another order: the interpreter's
 * bound, as `run --check` has it, of a smaller run of the same kernel. Sizes along which nothing
 * is summed are cut down; those that are summed along stay, or are divided by so much as to end in
 * time, for which the bound is multiplied: it grows with the number of terms, and no faster. */
#include "cli/sweep.h"
#include "cli/check.h"
#include "runtime/search.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 8, SIDES = 2 /* candidate and derived: both may be off */ };

static bool is_folded(const TesseraSpace *space, const char *name)
{
    for (size_t i = 0; i < space->n_folded; i++) {
        if (strcmp(space->folded[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* The part of a size that keeps what divides it by a power of two, as far as that is possible. */
static int64_t cut(int64_t size, int64_t wanted)
{
    return wanted < 1 ? 1 : size <= wanted ? size : wanted;
}

static double shrink_sizes(const SweepWork *work, const TesseraSpace *space, int shrink,
                           TesseraSize *sizes)
{
    double scale = 1;
    for (size_t i = 0; i < work->compile.n_sizes; i++) {
        sizes[i] = work->compile.sizes[i];
        if (work->arrays.n_files > 0) {
            continue; /* what is given is as large as it is */
        }
        int64_t size = sizes[i].value;
        bool folded = is_folded(space, sizes[i].name);
        sizes[i].value = cut(size, folded ? size / shrink : FEW);
        scale *= folded && sizes[i].value > 0 ? (double)size / (double)sizes[i].value : 1;
    }
    return scale;
}

static void tell(const SweepWork *work, const Arrays *arrays, const TesseraArg *args, double scale)
{
    (void)work;
    for (size_t i = 0; i < arrays->n; i++) {
        const Array *array = &arrays->items[i];
        size_t elements, bytes;
        if (!check_is_result(array) || !args[i].bound) {
            continue;
        }
        Envelope envelope = {0};
        tensor_bytes(&array->tensor, &elements, &bytes);
        void *packed = tensor_packed(&args[i].tensor);
        for (size_t k = 0; k < elements; k++) {
            envelope_add(&envelope, tessera_get(array->tensor.type, packed, k), args[i].bound[k]);
        }
        free(packed);
        envelope_close(&envelope, SIDES * scale);
        printf("envelope %s", array->param->name);
        envelope_write(&envelope, stdout);
        putchar('\n');
    }
}

static bool interpret(SweepWork *work, const TesseraOptions *options, double scale)
{
    Session *s = &work->session;
    Options with_consts, without = *work->options;
    Arrays arrays;
    TesseraOptions compile = *options;
    without.sizes.items = (TesseraSize *)(uintptr_t)options->sizes;
    without.sizes.n = options->n_sizes;
    int code = arrays_read(&without, s, &arrays, &with_consts);
    arrays_lie(&arrays, &compile);
    tessera_kernel_free(s->kernel);
    s->kernel = NULL;
    bool good = code == 0 && tessera_compile(s->program, &compile, &s->kernel) == TESSERA_OK &&
                arrays_complete(&without, s, &compile, true, &arrays) == 0;
    TesseraArg *args = good ? check_own(&arrays, false) : NULL;
    good = good && tessera_interpret(s->program, &compile, args, arrays.n) == TESSERA_OK;
    if (good) {
        tell(work, &arrays, args, scale);
    }
    check_drop(&arrays, args);
    arrays_free(s, &arrays);
    return good;
}

void sweep_bound(SweepWork *work, int shrink)
{
    TesseraSpace space;
    TesseraKernel *kernel = sweep_compile(work, "");
    TesseraOptions options = work->compile;
    TesseraSize *sizes = take(options.n_sizes * sizeof *sizes);
    bool good =
        kernel && tessera_kernel_space(kernel, work->options->threads, &space) == TESSERA_OK;
    if (good) {
        double scale = shrink_sizes(work, &space, shrink > 0 ? shrink : 1, sizes);
        options.sizes = sizes;
        options.lines = NULL; /* which change nothing of what it means */
        options.n_lines = 0;
        good = interpret(work, &options, scale);
    }
    if (good) {
        puts("bounded");
    } else {
        printf("unbounded %s\n", sweep_words(work));
    }
    tessera_kernel_free(kernel);
    free(sizes);
}
