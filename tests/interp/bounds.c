/* SPDX-License-Identifier: Apache-2.0 */
/* Error bounds: 0 if the bits are exact; otherwise wide enough for another association order, and
 * not much wider. */
#include "tests/interp/product.h"

#include <math.h>

/* exp as the standard library has it: 2^rint(x log2 e) · polynomial of the rest. */
#define EXP(result, operand, dims)                                                                 \
    "    %" result "t = const value=1.4426950408889634 : f32[" dims "]\n"                          \
    "    %" result "u = mul %" operand ", %" result "t : f32[" dims "]\n"                          \
    "    %" result "n = rint %" result "u : f32[" dims "]\n"                                       \
    "    %" result "l = const value=-0.6931471805599453 : f32[" dims "]\n"                         \
    "    %" result "r = fma %" result "n, %" result "l, %" operand " : f32[" dims "]\n"            \
    "    %" result "c = const value=0.16666667 : f32[" dims "]\n"                                  \
    "    %" result "h = const value=0.5 : f32[" dims "]\n"                                         \
    "    %" result "o = const value=1.0 : f32[" dims "]\n"                                         \
    "    %" result "p = fma %" result "r, %" result "c, %" result "h : f32[" dims "]\n"            \
    "    %" result "q = fma %" result "p, %" result "r, %" result "o : f32[" dims "]\n"            \
    "    %" result "v = fma %" result "q, %" result "r, %" result "o : f32[" dims "]\n"            \
    "    %" result "i = cast %" result "n : i32[" dims "]\n"                                       \
    "    %" result "b = const value=127 : i32[" dims "]\n"                                         \
    "    %" result "e = add %" result "i, %" result "b : i32[" dims "]\n"                          \
    "    %" result "w = const value=23 : i32[" dims "]\n"                                          \
    "    %" result "s = shl %" result "e, %" result "w : i32[" dims "]\n"                          \
    "    %" result "f = bitcast %" result "s : f32[" dims "]\n"                                    \
    "    %" result " = mul %" result "v, %" result "f : f32[" dims "]\n"

static const char softmax[] =
    "func softmax level tensor {\n"
    "  size M\n  size N\n  in %x: tensor<f32[M, N]>\n  out %y: tensor<f32[M, N]>\n"
    "  body {\n"
    "    %a = load %x[:, :] : f32[M, N]\n"
    "    %m = reduce %a fn=max axis=1 : f32[M, 1]\n"
    "    %mb = broadcast %m : f32[M, N]\n"
    "    %d = sub %a, %mb : f32[M, N]\n" EXP(
        "z", "d", "M, N") "    %s = reduce %z fn=sum axis=1 : f32[M, 1]\n"
                          "    %sb = broadcast %s : f32[M, N]\n"
                          "    %r = div %z, %sb : f32[M, N]\n"
                          "    store %y[:, :], %r\n"
                          "  }\n}\n";

/* Two products with a softmax between: its exponential sees inexact numbers. */
static const char attention[] =
    "func attention level tensor {\n"
    "  size S\n  size L\n  size D\n"
    "  in %q: tensor<f32[S, D]>\n  in %k: tensor<f32[L, D]>\n  in %v: tensor<f32[L, D]>\n"
    "  out %o: tensor<f32[S, D]>\n"
    "  body {\n"
    "    %qa = load %q[:, :] : f32[S, D]\n"
    "    %ka = load %k[:, :] : f32[L, D]\n"
    "    %va = load %v[:, :] : f32[L, D]\n"
    "    %kt = permute %ka perm=[1, 0] : f32[D, L]\n"
    "    %x0 = dot %qa, %kt : f32[S, L]\n"
    "    %scale = const value=0.125 : f32[S, L]\n"
    "    %x = mul %x0, %scale : f32[S, L]\n"
    "    %m = reduce %x fn=max axis=1 : f32[S, 1]\n"
    "    %mb = broadcast %m : f32[S, L]\n"
    "    %d = sub %x, %mb : f32[S, L]\n" EXP(
        "z", "d", "S, L") "    %s = reduce %z fn=sum axis=1 : f32[S, 1]\n"
                          "    %p = dot %z, %va : f32[S, D]\n"
                          "    %sb = broadcast %s : f32[S, D]\n"
                          "    %r = div %p, %sb : f32[S, D]\n"
                          "    store %o[:, :], %r\n"
                          "  }\n}\n";

/* Numbers that do not add up exactly. */
static void fill_real(Harness *h, int n, int64_t count, unsigned seed)
{
    harness_fill(h, n, count, seed);
    float *values = h->args[n].tensor.data;
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        values[i] = (float)(seed >> 8) * 0x1p-23f - 1.0f;
    }
}

static float exp_of(float x)
{
    float n = rintf(x * 1.4426950408889634f), r = fmaf(n, -0.6931471805599453f, x);
    float p = fmaf(fmaf(fmaf(r, 0.16666667f, 0.5f), r, 1.0f), r, 1.0f);
    return p * ldexpf(1.0f, (int)n);
}

static void check_within(const Harness *h, int out, int64_t i, float other, double most)
{
    double bound = h->args[out].tensor.bound[i], here = (double)harness_get(h, out, i);
    double far = fabs((double)other - here);
    ck_assert_msg(far <= bound, "[%d]: %g off, bound %g", (int)i, far, bound);
    ck_assert_msg(bound <= most * (fabs(here) + 1e-3), "[%d]: bound %g of %g", (int)i, bound, here);
}

START_TEST(softmax_is_within)
{
    enum { M = 7, N = 300 };
    Harness h;
    harness_begin(&h, softmax);
    harness_size(&h, "M", M);
    harness_size(&h, "N", N);
    fill_real(&h, 0, M * N, 1);
    harness_fill(&h, 1, M * N, 2);
    ck_assert_msg(harness_run(&h, 1, true), "%s", h.problem.data);
    const float *x = h.args[0].tensor.data;
    for (int m = 0; m < M; m++, x += N) {
        float most = -INFINITY, sum = 0;
        for (int n = 0; n < N; n++) {
            most = fmaxf(most, x[n]);
        }
        for (int n = N - 1; n >= 0; n--) { /* the other way round */
            sum += exp_of(x[n] - most);
        }
        for (int n = 0; n < N; n++) {
            check_within(&h, 1, m * N + n, exp_of(x[n] - most) / sum, 1e-4);
        }
    }
    harness_end(&h);
}
END_TEST

enum { S = 40, L = 90, D = 64 };

/* f32, backwards, and in L by steps of 13 with a running maximum. */
static void attention_other(const Harness *h, int s, float *out)
{
    const float *q = h->args[0].tensor.data, *k = h->args[1].tensor.data;
    const float *v = h->args[2].tensor.data;
    float m = -INFINITY, l = 0;
    memset(out, 0, sizeof(float) * D);
    for (int from = 0; from < L; from += 13) {
        float x[13], m1 = m, r;
        int n = L - from < 13 ? L - from : 13;
        for (int j = 0; j < n; j++) {
            x[j] = 0;
            for (int d = D - 1; d >= 0; d--) {
                x[j] += q[s * D + d] * k[(from + j) * D + d];
            }
            x[j] *= 0.125f;
            m1 = fmaxf(m1, x[j]);
        }
        r = isinf(m) ? 0 : exp_of(m - m1);
        l *= r;
        for (int d = 0; d < D; d++) {
            out[d] *= r;
        }
        for (int j = 0; j < n; j++) {
            float p = exp_of(x[j] - m1);
            l += p;
            for (int d = 0; d < D; d++) {
                out[d] += p * v[(from + j) * D + d];
            }
        }
        m = m1;
    }
    for (int d = 0; d < D; d++) {
        out[d] /= l;
    }
}

START_TEST(attention_is_within)
{
    Harness h;
    harness_begin(&h, attention);
    harness_size(&h, "S", S);
    harness_size(&h, "L", L);
    harness_size(&h, "D", D);
    fill_real(&h, 0, S * D, 1);
    fill_real(&h, 1, L * D, 2);
    fill_real(&h, 2, L * D, 3);
    harness_fill(&h, 3, S * D, 4);
    ck_assert_msg(harness_run(&h, 1, true), "%s", h.problem.data);
    for (int s = 0; s < S; s++) {
        float other[D];
        attention_other(&h, s, other);
        for (int d = 0; d < D; d++) {
            check_within(&h, 3, s * D + d, other[d], 0.5);
        }
    }
    harness_end(&h);
}
END_TEST

static const char exact[] =
    "func exact level tensor {\n"
    "  size N\n  in %x: tensor<f32[N]>\n  out %y: tensor<f32[N]>\n  out %z: tensor<f32[1]>\n"
    "  body {\n"
    "    %a = load %x[:] : f32[N]\n" EXP("e", "a",
                                         "N") "    store %y[:], %e\n"
                                              "    %m = reduce %e fn=max axis=0 : f32[1]\n"
                                              "    store %z[:], %m\n"
                                              "  }\n}\n";

START_TEST(elementwise_is_exact)
{
    Harness h;
    harness_begin(&h, exact);
    harness_size(&h, "N", 100);
    fill_real(&h, 0, 100, 1);
    harness_fill(&h, 1, 100, 2);
    harness_fill(&h, 2, 1, 3);
    ck_assert_msg(harness_run(&h, 1, true), "%s", h.problem.data);
    for (int64_t i = 0; i < 100; i++) {
        ck_assert(h.args[1].tensor.bound[i] == 0);
        ck_assert(harness_get(&h, 1, i) == exp_of(harness_get(&h, 0, i)));
    }
    ck_assert(h.args[2].tensor.bound[0] == 0);
    harness_end(&h);
}
END_TEST

/* A result at a rounding boundary of bf16 may fall to either side. */
START_TEST(narrow_results_differ_by_a_unit)
{
    Harness h;
    product_begin(&h, product_tensor, "bf16", 8, 8, 64);
    ck_assert_msg(harness_run(&h, 1, true), "%s", h.problem.data);
    for (int64_t i = 0; i < 64; i++) {
        double value = fabs((double)harness_get(&h, 2, i));
        ck_assert(h.args[2].tensor.bound[i] <= value * 0x1p-7 + 0x1p-9);
    }
    harness_end(&h);
}
END_TEST

/* Of a long product, relative to the sum of its terms' sizes. */
static double bound_of_long(const char *type, int k)
{
    Harness h;
    product_begin(&h, product_tensor, type, 1, 1, k);
    ck_assert_msg(harness_run(&h, 1, true), "%s", h.problem.data);
    double size = 0, bound = h.args[2].tensor.bound[0];
    for (int i = 0; i < k; i++) {
        size += fabs((double)harness_get(&h, 0, i) * (double)harness_get(&h, 1, i));
    }
    harness_end(&h);
    return bound / size;
}

/* Sums of f32 have a total (passes/loops/chunk_accumulation.c): an error that grows with k is none
 * of theirs. */
START_TEST(long_products_do_not_grow)
{
    double chain = bound_of_long("f32", 16384), twice = bound_of_long("f32", 32768);
    double longer = bound_of_long("f32", 8 * 16384);
    ck_assert_msg(chain >= 16384 * 0x1p-24 && chain <= 16384 * 0x1p-21, "%g", chain);
    ck_assert_msg(twice <= 1.01 * chain && longer <= 1.01 * chain, "%g, %g, %g", chain, twice,
                  longer);
}
END_TEST

static const char *const folds[] = {"sum", "prod", "max", "min"};
static const char fold_text[] =
    "func fold level tensor {\n"
    "  size N\n  in %x: tensor<f32[2, N]>\n  out %y: tensor<f32[2, 1]>\n"
    "  body {\n"
    "    %a = load %x[:, :] : f32[2, N]\n"
    "    %r = reduce %a fn=@ axis=1 : f32[2, 1]\n"
    "    store %y[:, :], %r\n"
    "  }\n}\n";

static float fold_backwards(int fold, const float *x, int n)
{
    static const float empty[] = {0, 1, -INFINITY, INFINITY};
    float result = empty[fold];
    for (int i = n - 1; i >= 0; i--) {
        result = fold == 0   ? result + x[i]
                 : fold == 1 ? result * x[i]
                 : fold == 2 ? fmaxf(result, x[i])
                             : fminf(result, x[i]);
    }
    return result;
}

START_TEST(folds_are_within)
{
    static const int lengths[] = {0, 1, 2, 3, 17, 1000};
    char *text = edited(fold_text, "@", folds[_i]);
    for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        int len = lengths[n];
        Harness h;
        harness_begin(&h, text);
        harness_size(&h, "N", len);
        fill_real(&h, 0, 2 * len, 1);
        harness_fill(&h, 1, 2, 2);
        ck_assert_msg(harness_run(&h, 1, true), "%s", h.problem.data);
        const float *x = h.args[0].tensor.data;
        for (int row = 0; row < 2; row++) {
            float other = fold_backwards(_i, x + row * len, len);
            float here = harness_get(&h, 1, row);
            double bound = h.args[1].tensor.bound[row];
            ck_assert_msg(other == here || fabs((double)(other - here)) <= bound,
                          "%s of %d: %g, %g, bound %g", folds[_i], len, (double)here, (double)other,
                          bound);
            ck_assert(bound <= 0.1 && (bound < 1e-40 || (_i < 2 && len > 2)));
        }
        harness_end(&h);
    }
    free(text);
}
END_TEST

UNIT_TESTS(interp_bounds)
{
    TCase *tests = tcase_create("bounds");
    tcase_add_test(tests, softmax_is_within);
    tcase_add_test(tests, attention_is_within);
    tcase_add_test(tests, elementwise_is_exact);
    tcase_add_test(tests, narrow_results_differ_by_a_unit);
    tcase_add_test(tests, long_products_do_not_grow);
    tcase_add_loop_test(tests, folds_are_within, 0, 4);
    return tests;
}
