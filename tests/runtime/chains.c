/* SPDX-License-Identifier: Apache-2.0 */
/* Long chains of statements through all passes: a step whose cost grows faster than quadratically
 * exceeds the limit of CPU time or of memory. */
#include "support/text.h"
#include "tests/speed.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>
#include <tessera/tessera.h>

enum { MAX_SECONDS = 6, MAX_BYTES = 500 << 20 };

static void *take(void *user, size_t bytes)
{
    size_t *left = user;
    if (bytes > *left) {
        return NULL;
    }
    *left -= bytes;
    return malloc(bytes);
}

static void drop(void *user, void *memory)
{
    (void)user;
    free(memory);
}

static void expect_ir(const char *name, const char *text, const char *target)
{
    size_t left = MAX_BYTES;
    TesseraAllocator allocator = {take, drop, &left};
    TesseraOptions options = {.target = target};
    TesseraContext *context = NULL;
    TesseraProgram *program = NULL;
    TesseraKernel *kernel = NULL;
    TesseraBytes ir;
    double start = cpu_seconds();
    ck_assert_int_eq(tessera_context_new(&allocator, &context), TESSERA_OK);
    bool made = tessera_program_parse(context, name, text, strlen(text), &program) == TESSERA_OK &&
                tessera_compile(program, &options, &kernel) == TESSERA_OK &&
                tessera_kernel_emit(kernel, "ir", &ir) == TESSERA_OK;
    ck_assert_msg(made, "%s, %s: %s", name, target, tessera_error(context)->message);
    double took = cpu_seconds() - start;
    ck_assert_msg(took < MAX_SECONDS * machine_slowness(), "%s, %s: %.1f s", name, target, took);
    tessera_kernel_free(kernel);
    tessera_program_free(program);
    tessera_context_free(context);
}

/* `step` adds a statement that makes y(i + 1) from y(i), and perhaps from x. */
static void expect_chain(const char *name, const char *parameters, int n,
                         void (*step)(Text *text, int i))
{
    Arena arena;
    arena_init(&arena, allocator_default());
    Text text = text_new(&arena);
    text_printf(&text, "kernel chain(%s) -> f32[M, N] {\n    let y0 = x\n", parameters);
    for (int i = 0; i < n; i++) {
        step(&text, i);
    }
    text_printf(&text, "    return y%d\n}\n", n);
    expect_ir(name, text.data, "native");
    expect_ir(name, text.data, "sm_90a");
    arena_free(&arena);
}

static void two_reductions(Text *text, int i)
{
    text_printf(text, "    let a%d = y%d - max(y%d, axis=1)\n", i, i, i);
    text_printf(text, "    let y%d = a%d / sum(a%d, axis=1)\n", i + 1, i, i);
}

static void other_axis(Text *text, int i)
{
    text_printf(text, "    let y%d = y%d / sum(y%d, axis=%d)\n", i + 1, i, i, i % 2);
}

static void own_reduction(Text *text, int i)
{
    text_printf(text, "    let y%d = y%d + sum(x * %d.5, axis=1)\n", i + 1, i, i);
}

static void product(Text *text, int i)
{
    text_printf(text, "    let y%d = y%d @ w + y%d\n", i + 1, i, i);
}

static void element(Text *text, int i)
{
    text_printf(text, "    let y%d = y%d * 0.5 + x\n", i + 1, i);
}

static void both_last(Text *text, int i)
{
    text_printf(text, "    let y%d = y%d * y%d\n", i + 1, i, i > 0 ? i - 1 : 0);
}

START_TEST(chains_of_statements)
{
    expect_chain("reductions", "x: f32[M, N]", 100, two_reductions);
    expect_chain("reductions of both axes", "x: f32[M, N]", 100, other_axis);
    expect_chain("reductions of one array", "x: f32[M, N]", 200, own_reduction);
    expect_chain("products", "x: f32[M, N], w: f32[N, N]", 60, product);
    expect_chain("elements", "x: f32[M, N]", 3000, element);
    expect_chain("elements of two", "x: f32[M, N]", 1000, both_last);
}
END_TEST

START_TEST(many_results)
{
    enum { RESULTS = 100 };
    Arena arena;
    arena_init(&arena, allocator_default());
    Text text = text_new(&arena), body = text_new(&arena);
    text_add(&text, "kernel many(x: f32[M, N]) -> (");
    for (int i = 0; i < RESULTS; i++) {
        text_printf(&text, "%sy%d: f32[M, N]", i ? ", " : "", i);
        text_printf(&body, "    y%d = x * %d.5 + max(x, axis=1)\n", i, i);
    }
    text_printf(&text, ") {\n%s}\n", body.data);
    expect_ir("results", text.data, "native");
    expect_ir("results", text.data, "sm_90a");
    arena_free(&arena);
}
END_TEST

UNIT_TESTS(runtime_chains)
{
    TCase *tests = tcase_create("chains");
    tcase_set_timeout(tests, 200);
    tcase_add_test(tests, chains_of_statements);
    tcase_add_test(tests, many_results);
    return tests;
}
