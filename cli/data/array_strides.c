/* SPDX-License-Identifier: Apache-2.0 */
/* Host arrays that are not row-major: memory for the strides that --strides gives, and copies from
 * and to contiguous arrays. */
#include "cli/data/array_args.h"
#include "cli/options.h"
#include "cli/session.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNED = 16 };

typedef struct Words {
    const char *text, *at;
    const TesseraOptions *compile;
    int64_t multiples[TESSERA_MAX_RANK]; /* of strides that are free; 0: it is given */
    int64_t strides[TESSERA_MAX_RANK], align;
} Words;

static bool take_char(Words *w, char c)
{
    w->at += strspn(w->at, " ");
    bool here = *w->at == c;
    w->at += here;
    return here;
}

static int64_t take_factor(Words *w)
{
    char *end = NULL;
    w->at += strspn(w->at, " ");
    if (isdigit((unsigned char)*w->at)) {
        int64_t number = strtoll(w->at, &end, 10);
        w->at = end;
        return number;
    }
    size_t n = 0;
    while (isalnum((unsigned char)w->at[n]) || w->at[n] == '_') {
        n++;
    }
    for (size_t i = 0; i < w->compile->n_sizes; i++) {
        const TesseraSize *size = &w->compile->sizes[i];
        if (strlen(size->name) == n && strncmp(size->name, w->at, n) == 0) {
            w->at += n;
            return size->value;
        }
    }
    for (size_t i = 0; i < w->compile->n_bindings; i++) {
        const TesseraPair *pair = &w->compile->bindings[i];
        if (strlen(pair->name) == n && strncmp(pair->name, w->at, n) == 0) {
            w->at += n;
            return strtoll(pair->value, NULL, 10);
        }
    }
    w->at += n;
    return 1;
}

/* The library has checked the text: it is well-formed. */
static void take_stride(Words *w, int axis)
{
    bool minus = take_char(w, '-');
    if (take_char(w, '*')) {
        int64_t multiple = isdigit((unsigned char)*w->at) ? take_factor(w) : 1;
        w->multiples[axis] = minus ? -multiple : multiple;
        return;
    }
    uint64_t product = (uint64_t)take_factor(w);
    while (take_char(w, '*')) {
        product *= (uint64_t)take_factor(w);
    }
    w->strides[axis] = (int64_t)(minus ? -product : product);
}

/* Adds the reach of an axis to the elements before and after element [0, 0, …]; false on overflow.
 * */
static bool add_reach(const TesseraTensor *tensor, int axis, int64_t stride, int64_t *before,
                      int64_t *after)
{
    int64_t far, *end = stride < 0 ? before : after;
    int64_t steps = tensor->dims[axis] > 0 ? tensor->dims[axis] - 1 : 0;
    return !__builtin_mul_overflow(stride < 0 ? -stride : stride, steps, &far) &&
           !__builtin_add_overflow(*end, far, end);
}

/* Chooses free strides, last axis first: the smallest that leave a gap after the inner axes. */
static bool choose_free(Words *w, const TesseraTensor *tensor, int64_t *before, int64_t *after)
{
    bool fits = true;
    for (int axis = 0; axis < tensor->rank; axis++) {
        fits = fits &&
               (w->multiples[axis] || add_reach(tensor, axis, w->strides[axis], before, after));
    }
    for (int axis = tensor->rank - 1; fits && axis >= 0; axis--) {
        int64_t multiple = w->multiples[axis], by = multiple < 0 ? -multiple : multiple;
        if (multiple) {
            int64_t least = (*before + *after + 1) / by * by + by;
            w->strides[axis] = multiple < 0 ? -least : least;
            fits = add_reach(tensor, axis, w->strides[axis], before, after);
        }
    }
    return fits;
}

/* Elements of a file that are to share memory are one: then they must be the same. */
static bool holds(const Array *array, const TesseraTensor *laid, const char *packed)
{
    size_t elements, bytes;
    if (!array->from) {
        return true; /* made up */
    }
    tensor_bytes(laid, &elements, &bytes);
    char *repacked = tensor_packed(laid);
    bool same = memcmp(repacked, packed, bytes) == 0;
    free(repacked);
    return same;
}

int array_apply_strides(Array *array, const char *words, const TesseraOptions *compile)
{
    TesseraTensor *tensor = &array->tensor;
    Words w = {.text = words, .at = words, .compile = compile};
    int64_t before = 0, after = 0, all, width = (int64_t)tessera_type_bytes(tensor->type);
    int rank = tensor->rank;
    for (int axis = 0; *w.text != '@' && axis < rank; axis++) {
        take_stride(&w, axis);
        take_char(&w, ',');
    }
    w.align = take_char(&w, '@') ? take_factor(&w) : ALIGNED;
    if (*words == '@') {
        strides_of_tensor(tensor, w.strides);
    }
    if (!choose_free(&w, tensor, &before, &after) ||
        __builtin_add_overflow(before, after + 1 + 2 * ALIGNED, &all) ||
        __builtin_mul_overflow(all, width, &all)) {
        return fail(TESSERA_SOURCE, "'%s' with strides %.60s reaches farther than memory can",
                    array->param->name, words);
    }
    char *block = aligned_alloc(ALIGNED, ((size_t)all + ALIGNED - 1) / ALIGNED * ALIGNED);
    if (!block) {
        return fail(TESSERA_ENVIRONMENT, "no memory for the %lld bytes of '%s'", (long long)all,
                    array->param->name);
    }
    memset(block, 0xff, (size_t)all); /* between the elements NaNs */
    TesseraTensor laid = *tensor;
    int64_t *strides = session_alloc(sizeof w.strides), first = before * width;
    memcpy(strides, w.strides, sizeof w.strides);
    laid.strides = strides;
    first = (first + ALIGNED - 1) / ALIGNED * ALIGNED + w.align % ALIGNED;
    laid.data = block + first;
    char *packed = tensor_packed(tensor);
    tensor_spread(&laid, packed);
    bool same = holds(array, &laid, packed);
    free(packed);
    if (!same) {
        free(block);
        return fail_code(FAIL_STRIDES, TESSERA_USAGE,
                         "--strides %s=%.60s: elements share memory there that differ in %.200s",
                         array->param->name, words, array->from);
    }
    free(array->block);
    array->block = block;
    array->bytes = (size_t)all;
    array->tensor = laid;
    return 0;
}
