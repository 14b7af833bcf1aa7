/* SPDX-License-Identifier: Apache-2.0 */
/* The algebra of size expressions: identity by pointer, facts, overflow. */
#include "tests/unit.h"

#include "ir/ir.h"

typedef struct World {
    Arena arena;
    Diags diags;
    Func *func;
    DimVar *m, *n, *i;
    Dim pm, pn, pi;
} World;

/* In place: the function points to the arena. */
static void world_init(World *w)
{
    *w = (World){0};
    arena_init(&w->arena, allocator_default());
    diags_init(&w->diags, &w->arena);
    w->func = func_new(&w->arena, &w->diags, "f");
    w->m = func_size(w->func, "M");
    w->n = func_size(w->func, "N");
    w->pm = poly_var(w->func, w->m);
    w->pn = poly_var(w->func, w->n);
    w->i = func_range(w->func, "i", w->pm, 128);
    w->pi = poly_var(w->func, w->i);
}

static Dim constant(World *w, int64_t value)
{
    return poly_const(w->func, value);
}

START_TEST(equal_polynomials_are_one)
{
    World w;
    world_init(&w);
    Func *f = w.func;
    Dim sum = poly_add(f, w.pm, w.pn);
    ck_assert_ptr_eq(sum, poly_add(f, w.pn, w.pm));
    ck_assert_ptr_eq(poly_mul(f, sum, sum),
                     poly_add(f, poly_add(f, poly_mul(f, w.pm, w.pm), poly_mul(f, w.pn, w.pn)),
                              poly_mul(f, constant(&w, 2), poly_mul(f, w.pn, w.pm))));
    ck_assert_ptr_eq(poly_add(f, sum, poly_mul(f, constant(&w, -1), sum)), constant(&w, 0));
    ck_assert_ptr_eq(poly_mul(f, constant(&w, 0), w.pm), constant(&w, 0));
    ck_assert_ptr_ne(w.pm, w.pn);
    arena_free(&w.arena);
}
END_TEST

START_TEST(overflow_is_refused)
{
    World w;
    world_init(&w);
    Func *f = w.func;
    Dim power = w.pm;
    for (int degree = 1; degree < MAX_DEGREE; degree++) {
        power = poly_mul(f, power, w.pm);
        ck_assert_ptr_nonnull(power);
    }
    ck_assert_ptr_null(poly_mul(f, power, w.pm));
    ck_assert_ptr_null(poly_add(f, constant(&w, INT64_MAX), constant(&w, 1)));
    ck_assert_ptr_null(poly_mul(f, constant(&w, INT64_MIN), constant(&w, -1)));
    ck_assert_ptr_null(poly_add(f, NULL, w.pm));
    int64_t sizes[3] = {INT64_MAX, 2, 0}, value;
    ck_assert(!poly_eval(poly_mul(f, w.pm, w.pn), sizes, &value));
    arena_free(&w.arena);
}
END_TEST

START_TEST(values_and_substitution_agree)
{
    World w;
    world_init(&w);
    Func *f = w.func;
    /* 3 M N - 5 M + 7 at M := N + 2 */
    Dim poly = poly_add(f, poly_mul(f, constant(&w, 3), poly_mul(f, w.pm, w.pn)),
                        poly_add(f, poly_mul(f, constant(&w, -5), w.pm), constant(&w, 7)));
    Dim swapped = poly_substitute(f, poly, w.m, poly_add(f, w.pn, constant(&w, 2)));
    ck_assert(poly_mentions(poly, w.m));
    ck_assert(!poly_mentions(swapped, w.m));
    for (int64_t n = 0; n < 9; n++) {
        int64_t sizes[3] = {n + 2, n, 0}, a, b;
        ck_assert(poly_eval(poly, sizes, &a) && poly_eval(swapped, sizes, &b));
        ck_assert_int_eq(a, 3 * (n + 2) * n - 5 * (n + 2) + 7);
        ck_assert_int_eq(a, b);
    }
    arena_free(&w.arena);
}
END_TEST

START_TEST(facts)
{
    World w;
    world_init(&w);
    Func *f = w.func;
    w.m->multiple = 16;
    w.m->least = 16;
    w.m->most = 4096;
    Dim sum = poly_add(f, poly_mul(f, constant(&w, 2), w.pm), constant(&w, 8));
    ck_assert_int_eq(poly_divisor(sum), 8);
    ck_assert_int_eq(poly_divisor(poly_mul(f, w.pm, w.pn)), 16);
    ck_assert_int_eq(poly_divisor(constant(&w, 0)) % 4096, 0);
    ck_assert_int_eq(poly_divisor(constant(&w, INT64_MIN)) % 1024, 0);
    ck_assert_int_eq(poly_most(sum), 8200);
    ck_assert_int_eq(poly_least(sum), 40);
    ck_assert_int_eq(poly_most(w.pn), INT64_MAX);
    ck_assert_int_eq(poly_least(poly_mul(f, constant(&w, -1), w.pm)), -4096);
    ck_assert_int_eq(poly_least(poly_mul(f, constant(&w, -1), w.pn)), INT64_MIN);
    ck_assert_int_eq(poly_most(w.pi), 128);
    ck_assert_int_eq(poly_capacity(w.pi), 128);
    ck_assert_int_eq(poly_capacity(constant(&w, 7)), 7);
    ck_assert_int_eq(poly_capacity(w.pn), -1);
    ck_assert_ptr_eq(poly_as_range(w.pi), w.i);
    ck_assert_ptr_null(poly_as_range(w.pm));
    ck_assert_ptr_eq(poly_as_var(w.pm), w.m);
    ck_assert_ptr_null(poly_as_var(sum));
    arena_free(&w.arena);
}
END_TEST

UNIT_TESTS(ir_poly)
{
    TCase *tests = tcase_create("poly");
    tcase_add_test(tests, equal_polynomials_are_one);
    tcase_add_test(tests, overflow_is_refused);
    tcase_add_test(tests, values_and_substitution_agree);
    tcase_add_test(tests, facts);
    return tests;
}
