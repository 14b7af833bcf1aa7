/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a function given as text. Arrays are f32 here and are converted to the parameter's type. */
#ifndef TESSERA_TESTS_INTERP_HARNESS_H
#define TESSERA_TESTS_INTERP_HARNESS_H

#include "ir/interp/interp.h"
#include "ir/text/ir_text.h"
#include "ir/verify/verify.h"
#include "tests/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HARNESS_ARGS = 8 };

typedef struct Harness {
    Arena arena;
    Diags diags;
    Func *func;
    int64_t sizes[64];
    InterpArg args[HARNESS_ARGS];
    int64_t counts[HARNESS_ARGS];
    Text problem;
    jmp_buf guard;
} Harness;

static inline void harness_begin(Harness *h, const char *text)
{
    memset(h, 0, sizeof *h);
    arena_init(&h->arena, allocator_default());
    if (setjmp(h->guard)) {
        ck_abort_msg("out of memory, or a bug of ours");
    }
    h->arena.guard = &h->guard;
    diags_init(&h->diags, &h->arena);
    h->diags.bug_guard = &h->guard;
    int source = diags_add_source(&h->diags, "<test>", text, strlen(text));
    h->func = parse_func(&h->arena, &h->diags, source);
    Text said = text_new(&h->arena);
    diags_render(&h->diags, &said);
    ck_assert_msg(h->func != NULL, "%s", said.data);
    ck_assert_msg(verify_func(h->func, &said) == 0, "%s", said.data);
    h->problem = text_new(&h->arena);
}

static inline void harness_end(Harness *h)
{
    arena_free(&h->arena);
}

static inline void harness_size(Harness *h, const char *name, int64_t value)
{
    h->sizes[func_size(h->func, name)->id] = value;
}

/* The tensor parameter `n`, filled with small integers that `seed` draws; returns the elements. */
static inline float *harness_fill(Harness *h, int n, int64_t count, unsigned seed)
{
    DType dtype = h->func->params.items[n].value->type->dtype;
    float *values = ARENA_ARRAY(&h->arena, float, count);
    unsigned char *data = arena_alloc(&h->arena, (size_t)(count * dtype_bytes(dtype)));
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)((int)(seed >> 24) % 7 - 3);
        scalar_store(dtype, data + i * dtype_bytes(dtype), (Scalar){.f = (double)values[i]});
    }
    h->args[n].tensor.data = data;
    h->args[n].tensor.bound = ARENA_ARRAY(&h->arena, double, count);
    h->counts[n] = count;
    return values;
}

static inline float harness_get(const Harness *h, int n, int64_t i)
{
    DType dtype = h->func->params.items[n].value->type->dtype;
    const unsigned char *data = h->args[n].tensor.data;
    return (float)scalar_load(dtype, data + i * dtype_bytes(dtype)).f;
}

static inline bool harness_run(Harness *h, uint64_t seed, bool bounds)
{
    InterpOptions options = {.seed = seed, .bounds = bounds};
    h->problem.n = 0;
    h->problem.data[0] = 0;
    return interp_func(h->func, h->args, h->sizes, &options, &h->problem);
}

/* `text` with the first `from` replaced; a test that edits what is not there is wrong. */
static inline char *edited(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    ck_assert_msg(at != NULL, "no \"%s\" to edit", from);
    size_t n = strlen(text) + strlen(to) + 1;
    char *result = malloc(n);
    ck_assert_ptr_nonnull(result);
    snprintf(result, n, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return result;
}

#endif
