/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the public interface share: one object of each kind, created before a test and
 * freed after it; programs; checks of errors. */
#ifndef TESSERA_TESTS_RUNTIME_HARNESS_H
#define TESSERA_TESTS_RUNTIME_HARNESS_H

#include "runtime/api/api_debug.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

static const char SCALE[] = "kernel scale(x: T[M, N], factor: f32, twice: const bool = false) "
                            "-> T[M, N] where T: float {\n    return T(x * factor)\n}\n";
static const char ADD[] = "kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + y\n";
static const char TWO[] = "kernel first(x: f32[N]) -> f32[N] = x\n"
                          "kernel second(x: f32[N]) -> f32[N] = x\n";

static TesseraContext *context;
static TesseraProgram *program;
static TesseraKernel *kernel;
static TesseraDevice *device;

static inline void setup(void)
{
    ck_assert_int_eq(tessera_context_new(NULL, &context), TESSERA_OK);
    program = NULL;
    kernel = NULL;
    device = NULL;
}

static inline void teardown(void)
{
    tessera_kernel_free(kernel);
    tessera_device_free(device);
    tessera_program_free(program);
    tessera_context_free(context);
}

static inline void parse(const char *text)
{
    TesseraStatus status = tessera_program_parse(context, "<text>", text, strlen(text), &program);
    ck_assert_msg(status == TESSERA_OK, "%s", tessera_error(context)->message);
}

static inline TesseraStatus compile(const TesseraOptions *options)
{
    TesseraStatus status = tessera_compile(program, options, &kernel);
    ck_assert((status == TESSERA_OK) == (kernel != NULL));
    return status;
}

static inline void expect(TesseraStatus got, TesseraStatus want, const char *words)
{
    const TesseraError *error = tessera_error(context);
    const char *said = error->message ? error->message : "(nothing)";
    ck_assert_msg(got == want, "status %d, not %d: %s", got, want, said);
    ck_assert_int_eq(error->status, want);
    ck_assert_msg(strstr(said, words) != NULL, "no '%s' in: %s", words, said);
}

enum { N = 1000 };
static float x[N], y[N], z[N] __attribute__((unused));

static inline TesseraArg vector(float *data, int64_t n)
{
    return (TesseraArg){.tensor = {data, TESSERA_F32, 1, {n}}};
}

static inline void prepare_add(int64_t n)
{
    TesseraSize size = {"N", n};
    TesseraOptions options = {.target = "native", .sizes = &size, .n_sizes = 1};
    parse(ADD);
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 2, &device), TESSERA_OK);
    for (int i = 0; i < N; i++) {
        x[i] = (float)i;
        y[i] = 0.5f;
    }
}

/* An allocator that counts, and fails once. */
typedef struct Counting {
    int allocations, fail_at, open;
} Counting;

static inline void *counting_alloc(void *user, size_t bytes)
{
    Counting *counting = user;
    if (++counting->allocations == counting->fail_at) {
        return NULL;
    }
    counting->open++;
    return malloc(bytes);
}

static inline void counting_release(void *user, void *memory)
{
    ((Counting *)user)->open--;
    free(memory);
}

#endif
