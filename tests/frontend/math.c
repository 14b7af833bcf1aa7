/* SPDX-License-Identifier: Apache-2.0 */
/* The standard library's functions, run by the interpreter and compared with the C library in f64:
 * within 4 ulp over a sample of all 2^32 floats, and at the edges. */
#include "frontend/frontend.h"
#include "ir/interp/interp.h"
#include "tests/unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STRIDE = 131071, SAMPLES = 32768 + 64 };

static const float EDGES[] = {
    0.0f,        -0.0f,      1.0f,       -1.0f,           INFINITY,      -INFINITY,
    NAN,         1e-45f,     -1e-45f,    1.17549435e-38f, 3.4028235e38f, -3.4028235e38f,
    88.72283f,   88.72284f,  -87.33655f, -103.97207f,     -103.97209f,   -104.5f,
    128.0f,      127.99999f, -126.0f,    -149.0f,         -150.0f,       0.625f,
    0.62499994f, -0.625f,    9.010913f,  0.99999994f,     1.0000001f,    0.70710677f,
    1.4142135f,  0.5f,       2.0f};

static void fill_inputs(float *x)
{
    size_t edges = sizeof EDGES / sizeof *EDGES;
    memcpy(x, EDGES, sizeof EDGES);
    for (size_t i = edges; i < SAMPLES; i++) {
        uint32_t bits = (uint32_t)(i - edges) * STRIDE;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

/* In units of the last place of `want` as an f32. */
static double ulps(float got, double want)
{
    if (isnan(want) || isnan(got)) {
        return isnan(want) && isnan(got) ? 0 : INFINITY;
    }
    if (isinf((float)want) || isinf(got)) {
        return got == (float)want ? 0 : INFINITY;
    }
    int exponent;
    frexp(want, &exponent);
    exponent = exponent - 24 < -149 || want == 0 ? -149 : exponent - 24;
    return fabs((double)got - want) / ldexp(1.0, exponent);
}

typedef struct Run {
    Arena arena;
    Diags diags;
    jmp_buf guard;
} Run;

static void evaluate(const char *name, float *x, float *y)
{
    Run run;
    arena_init(&run.arena, allocator_default());
    diags_init(&run.diags, &run.arena);
    const char *text = arena_printf(&run.arena, "kernel k(x: f32[N]) -> f32[N] = %s(x)", name);
    int source = diags_add_source(&run.diags, "k.tile", text, strlen(text));
    Module *module = frontend_parse(&run.arena, &run.diags, source, NULL);
    ck_assert_ptr_nonnull(module);
    Func *func = frontend_lower(module, frontend_kernel(module, 0), NULL, 0);
    ck_assert_ptr_nonnull(func);
    InterpArg args[2] = {{.tensor.data = x}, {.tensor.data = y}};
    int64_t sizes[1] = {SAMPLES};
    InterpOptions options = {.seed = 1};
    Text problem = text_new(&run.arena);
    ck_assert_msg(interp_func(func, args, sizes, &options, &problem), "%s", problem.data);
    arena_free(&run.arena);
}

static void check_function(const char *name, double (*want)(double), double limit)
{
    float *x = malloc(SAMPLES * sizeof *x), *y = malloc(SAMPLES * sizeof *y);
    fill_inputs(x);
    evaluate(name, x, y);
    for (size_t i = 0; i < SAMPLES; i++) {
        double error = ulps(y[i], want((double)x[i]));
        ck_assert_msg(error <= limit, "%s(%a) = %a, which is %g ulp off", name, (double)x[i],
                      (double)y[i], error);
    }
    free(x);
    free(y);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double silu(double x)
{
    return x < -300 ? -0.0 : x * sigmoid(x);
}

START_TEST(within_ulps)
{
    check_function("exp", exp, 1.6);
    check_function("exp2", exp2, 1.5);
    check_function("log", log, 1);
    check_function("log2", log2, 2);
    check_function("tanh", tanh, 2.5);
    check_function("sigmoid", sigmoid, 3);
    check_function("rsqrt", rsqrt, 1.5);
    check_function("silu", silu, 3.5);
}
END_TEST

START_TEST(exact_ones)
{
    check_function("sqrt", sqrt, 0.5);
    check_function("floor", floor, 0);
    check_function("ceil", ceil, 0);
    check_function("trunc", trunc, 0);
    check_function("round", nearbyint, 0);
    check_function("abs", fabs, 0);
}
END_TEST

START_TEST(signs_of_zero)
{
    float x[SAMPLES] = {0.0f, -0.0f}, y[SAMPLES];
    evaluate("tanh", x, y);
    ck_assert(!signbit(y[0]) && signbit(y[1]));
}
END_TEST

UNIT_TESTS(frontend_math)
{
    TCase *tests = tcase_create("math");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, within_ulps);
    tcase_add_test(tests, exact_ones);
    tcase_add_test(tests, signs_of_zero);
    return tests;
}
