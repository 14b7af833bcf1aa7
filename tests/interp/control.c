/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges, loops, branches, grids, conflicts between blocks, and running out of memory. */
#include "tests/interp/product.h"

static int32_t *ints(const Harness *h, int n)
{
    return h->args[n].tensor.data;
}

/* Where the diagonal is, counted row by row with ranges and by hand. */
static const char ranges[] =
    "func ranges level tensor {\n"
    "  size N\n"
    "  out %count: tensor<i32[N]>\n  out %len: tensor<i64[N]>\n  in %shift: i32\n"
    "  body {\n"
    "    parallel dims=[N] steps=[-1] {\n"
    "      (%i: range)\n"
    "      %at = index %i : i32[%i]\n"
    "      %ate = expand %at axis=1 : i32[%i, 1]\n"
    "      %zero = const value=0 : i32[%i, 1]\n"
    "      %lo = const value=0 : i64\n"
    "      %hi = end %i : i64\n"
    "      %sum = for %lo, %hi, %zero dims=[N] steps=[5] {\n"
    "        (%j: range, %c: i32[%i, 1])\n"
    "        %js = index %j : i32[%j]\n"
    "        %je = expand %js axis=0 : i32[1, %j]\n"
    "        %a = broadcast %ate : i32[%i, %j]\n"
    "        %b = broadcast %je : i32[%i, %j]\n"
    "        %le = cmp %b, %a pred=le : bool[%i, %j]\n"
    "        %n = cast %le : i32[%i, %j]\n"
    "        %s = reduce %n fn=sum axis=1 : i32[%i, 1]\n"
    "        %d = add %c, %s : i32[%i, 1]\n"
    "        yield %d\n"
    "      } : i32[%i, 1]\n"
    "      %flat = squeeze %sum axis=1 : i32[%i]\n"
    "      %more = broadcast %shift : i32[%i]\n"
    "      %all = add %flat, %more : i32[%i]\n"
    "      store %count[%i], %all\n"
    "      %start = start %i : i64\n"
    "      %l = len %i : i64\n"
    "      %ends = add %start, %l : i64\n"
    "      %same = cmp %ends, %hi pred=eq : bool\n"
    "      %got = if %same {\n yield %l\n } {\n yield %lo\n } : i64\n"
    "      %wide = broadcast %got : i64[%i]\n"
    "      store %len[%i], %wide\n"
    "    }\n  }\n}\n";

START_TEST(ranges_and_branches)
{
    enum { N = 23 };
    for (uint64_t seed = 0; seed < 5; seed++) {
        Harness h;
        harness_begin(&h, ranges);
        harness_size(&h, "N", N);
        int32_t count[N];
        int64_t len[N], total = 0;
        h.args[0].tensor.data = count;
        h.args[1].tensor.data = len;
        h.args[2].integer = 100;
        ck_assert_msg(harness_run(&h, seed, false), "%s", h.problem.data);
        for (int i = 0; i < N; i += (int)len[i]) {
            ck_assert(len[i] > 0);
            total += len[i];
        }
        ck_assert_int_eq(total, N);
        for (int i = 0; i < N; i++) {
            ck_assert_int_eq(count[i], 100 + i + 1);
        }
        harness_end(&h);
    }
}
END_TEST

/* A loop over integers that carries two values; a loop that never runs hands out its inits. */
static const char fibonacci[] = "func fibonacci level tensor {\n"
                                "  size N\n  out %y: tensor<i32[2]>\n"
                                "  body {\n"
                                "    %lo = const value=0 : i64\n"
                                "    %hi = size dim=[N] : i64\n"
                                "    %a = const value=0 : i32\n"
                                "    %b = const value=1 : i32\n"
                                "    %r, %s = for %lo, %hi, %a, %b dims=[N] steps=[0] {\n"
                                "      (%i: i64, %x: i32, %z: i32)\n"
                                "      %n = add %x, %z : i32\n"
                                "      yield %z, %n\n"
                                "    } : i32, i32\n"
                                "    %one = const value=1 : i64\n"
                                "    store %y[%lo], %r\n"
                                "    store %y[%one], %s\n"
                                "  }\n}\n";

START_TEST(loops_carry)
{
    static const int expect[][3] = {{0, 0, 1}, {1, 1, 1}, {10, 55, 89}};
    for (size_t n = 0; n < 3; n++) {
        Harness h;
        harness_begin(&h, fibonacci);
        harness_size(&h, "N", expect[n][0]);
        harness_fill(&h, 0, 2, 1);
        ck_assert_msg(harness_run(&h, 0, false), "%s", h.problem.data);
        ck_assert_int_eq(ints(&h, 0)[0], expect[n][1]);
        ck_assert_int_eq(ints(&h, 0)[1], expect[n][2]);
        harness_end(&h);
    }
}
END_TEST

/* Padding that a mask makes neutral; without the mask it reaches the output. */
static const char masked[] =
    "func masked level loop padded {\n"
    "  size M\n  size N\n  in %x: tensor<f32[M, N]>\n  out %y: tensor<f32[M, 1]>\n"
    "  body {\n"
    "    launch dims=[M] steps=[4] warps=[1] {\n"
    "      (%m: range)\n"
    "      %lo = const value=0 : i64\n"
    "      %hi = size dim=[N] : i64\n"
    "      %z = const value=0.0 : f32[%m, 1]\n"
    "      %r = for %lo, %hi, %z dims=[N] steps=[8] {\n"
    "        (%n: range, %c: f32[%m, 1])\n"
    "        %a = load %x[%m, %n] guard=[1, 1] value=5.0 : f32[%m, %n]\n"
    "        %b = mask %a axis=1 value=0.0 : f32[%m, %n]\n"
    "        %s = reduce %b fn=sum axis=1 : f32[%m, 1]\n"
    "        %d = add %c, %s : f32[%m, 1]\n"
    "        yield %d\n"
    "      } : f32[%m, 1]\n"
    "      store %y[%m, :], %r guard=[1, 0]\n"
    "    }\n  }\n}\n";

START_TEST(masks_are_neutral)
{
    Harness h;
    harness_begin(&h, masked);
    harness_size(&h, "M", 6);
    harness_size(&h, "N", 11);
    const float *x = harness_fill(&h, 0, 66, 1);
    harness_fill(&h, 1, 6, 2);
    ck_assert_msg(harness_run(&h, 3, false), "%s", h.problem.data);
    for (int m = 0; m < 6; m++) {
        float sum = 0;
        for (int n = 0; n < 11; n++) {
            sum += x[m * 11 + n];
        }
        ck_assert(harness_get(&h, 1, m) == sum);
    }
    harness_end(&h);
}
END_TEST

/* ---- blocks ---- */

static const char meeting[] = "func meeting level loop {\n"
                              "  size N\n  in %x: tensor<f32[N]>\n  inout %y: tensor<f32[N]>\n"
                              "  body {\n"
                              "    launch dims=[N] steps=[0] warps=[1] {\n"
                              "      (%i: i64)\n"
                              "      %zero = const value=0 : i64\n"
                              "      %a = load %x[%i] : f32\n"
                              "      store %y[%i], %a\n"
                              "    }\n  }\n}\n";

static void run_meeting(const char *text, int64_t n, const char *says)
{
    for (uint64_t seed = 0; seed < 4; seed++) {
        Harness h;
        harness_begin(&h, text);
        harness_size(&h, "N", n);
        harness_fill(&h, 0, n, 1);
        harness_fill(&h, 1, n, 2);
        bool fine = harness_run(&h, seed, false);
        ck_assert_msg(says ? !fine && strstr(h.problem.data, says) : fine, "%s", h.problem.data);
        harness_end(&h);
    }
}

START_TEST(blocks_may_not_meet)
{
    run_meeting(meeting, 5, NULL);
    char *twice = edited(meeting, "store %y[%i]", "store %y[%zero]");
    run_meeting(twice, 1, NULL);
    run_meeting(twice, 5, "another block writes");
    char *reads = edited(meeting, "store %y[%i], %a",
                         "store %y[%i], %a\n      %b = load %y[%zero] : f32\n"
                         "      store %y[%i], %b");
    run_meeting(reads, 1, NULL);
    run_meeting(reads, 5, "another block writes");
    char *far = edited(meeting, "%zero = const value=0",
                       "%zero = const value=-9223372036854775808");
    char *outside = edited(far, "load %x[%i]", "load %x[%zero]");
    run_meeting(outside, 5, "reads outside of the tensor: x[-9223372036854775808] of [5]");
    free(twice);
    free(reads);
    free(far);
    free(outside);
}
END_TEST

/* ---- memory ---- */

typedef struct Counted {
    int left, held;
} Counted;

static void *counted_alloc(void *user, size_t bytes)
{
    Counted *counted = user;
    if (counted->left-- <= 0) {
        return NULL;
    }
    counted->held++;
    return malloc(bytes);
}

static void counted_release(void *user, void *memory)
{
    ((Counted *)user)->held--;
    free(memory);
}

static bool run_with(Counted *counted, int left)
{
    Harness h;
    product_begin(&h, product_tensor, "bf16", 120, 100, 9);
    /* A fresh chunk: the function's own arena then asks for nothing while it is counted. */
    arena_alloc(&h.arena, (size_t)(h.arena.limit - h.arena.cursor) + 1);
    Allocator before = h.func->arena->allocator;
    h.func->arena->allocator = (Allocator){counted_alloc, counted_release, counted};
    ArenaChunk *chunks = h.arena.chunks;
    char *cursor = h.arena.cursor, *limit = h.arena.limit;
    *counted = (Counted){left, 0};
    bool fine = false;
    if (!setjmp(h.guard)) {
        fine = harness_run(&h, 1, true);
    }
    ck_assert_ptr_eq(h.func->arena->guard, &h.guard);
    ck_assert_int_eq(counted->held, 0);
    ck_assert_ptr_eq(h.arena.chunks, chunks);
    h.arena.cursor = cursor;
    h.arena.limit = limit;
    h.func->arena->allocator = before;
    harness_end(&h);
    return fine;
}

START_TEST(memory_may_run_out)
{
    int left = 0;
    Counted counted;
    while (!run_with(&counted, left)) {
        left++;
        ck_assert_int_lt(left, 1000);
    }
    ck_assert_int_gt(left, 3);
}
END_TEST

UNIT_TESTS(interp_control)
{
    TCase *tests = tcase_create("control");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, ranges_and_branches);
    tcase_add_test(tests, loops_carry);
    tcase_add_test(tests, masks_are_neutral);
    tcase_add_test(tests, blocks_may_not_meet);
    tcase_add_test(tests, memory_may_run_out);
    return tests;
}
