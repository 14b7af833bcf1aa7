/* SPDX-License-Identifier: Apache-2.0 */
/* One matrix product at each level has the same result, for every seed. */
#include "ir/scalar_eval.h"
#include "tests/interp/product.h"

static const char *const stages[] = {product_tensor, product_launch, product_padded,
                                     product_shared, product_copies, product_roles};
static const char *const types[] = {"f32", "bf16", "f16"};
static const int64_t shapes[][3] = {{37, 29, 21}, {16, 12, 8}, {1, 1, 1}, {64, 48, 40}, {5, 40, 0},
                                    {0, 7, 5}};

/* The operands are small integers, so every order gives the same bits. */
static void check_answer(Harness *h, const int64_t *shape)
{
    DType dtype = h->func->params.items[2].value->type->dtype;
    for (int64_t i = 0; i < shape[0]; i++) {
        for (int64_t j = 0; j < shape[1]; j++) {
            Scalar sum = {.f = 0};
            for (int64_t k = 0; k < shape[2]; k++) {
                sum.f += (double)(harness_get(h, 0, i * shape[2] + k)
                                  * harness_get(h, 1, j * shape[2] + k));
            }
            sum = scalar_op(OP_CAST, NULL, DT_F32, dtype, &sum);
            float got = harness_get(h, 2, i * shape[1] + j);
            ck_assert_msg(got == (float)sum.f, "[%d, %d] is %g, not %g", (int)i, (int)j,
                          (double)got, sum.f);
        }
    }
}

START_TEST(every_stage_agrees)
{
    const char *text = stages[_i];
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            for (uint64_t seed = 0; seed < 6; seed++) {
                Harness h;
                product_begin(&h, text, types[t], shapes[s][0], shapes[s][1], shapes[s][2]);
                ck_assert_msg(harness_run(&h, seed, seed % 2 != 0), "%s", h.problem.data);
                check_answer(&h, shapes[s]);
                harness_end(&h);
            }
        }
    }
}
END_TEST

/* The loop keeps one product in flight and gives back the slot of the one before. */
START_TEST(one_product_in_flight)
{
    char *text = edited(product_roles, "pending=0", "pending=1");
    char *late = edited(text, "arrive %empty[%i2]\n",
                        "%late = max %back, %zero : i32\n"
                        "            %some = cmp %i2, %p2 pred=gt : bool\n"
                        "            if %some {\n arrive %empty[%back]\n yield\n }"
                         " {\n yield\n }\n");
    char *back = edited(late, "%late", "%unused");
    char *ready = edited(back, "            wait %full[%i2]\n",
                         "            %back = sub %i2, %one : i32\n"
                         "            wait %full[%i2]\n");
    char *end = edited(ready, "          %r = cast %acc",
                       "          %done = dot_wait %acc pending=0 : f32[%m2, %n2]\n"
                       "          %last = sub %q2, %one : i32\n"
                       "          arrive %empty[%last]\n"
                       "          %r = cast %done");
    int64_t shape[3] = {37, 29, 61};
    for (uint64_t seed = 0; seed < 10; seed++) {
        Harness h;
        product_begin(&h, end, "bf16", shape[0], shape[1], shape[2]);
        ck_assert_msg(harness_run(&h, seed, false), "%s", h.problem.data);
        check_answer(&h, shape);
        harness_end(&h);
    }
    free(text);
    free(late);
    free(back);
    free(ready);
    free(end);
}
END_TEST

START_TEST(steps_are_limited)
{
    Harness h;
    product_begin(&h, product_launch, "f32", 37, 29, 21);
    InterpOptions options = {.most_steps = 20};
    ck_assert(!interp_func(h.func, h.args, h.sizes, &options, &h.problem));
    ck_assert_ptr_nonnull(strstr(h.problem.data, "more than 20 steps"));
    harness_end(&h);
}
END_TEST

UNIT_TESTS(interp_stages)
{
    TCase *tests = tcase_create("stages");
    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, every_stage_agrees, 0, sizeof stages / sizeof *stages);
    tcase_add_test(tests, one_product_in_flight);
    tcase_add_test(tests, steps_are_limited);
    return tests;
}
