/* SPDX-License-Identifier: Apache-2.0 */
/* Faults planted in a staged dot: the interpreter must report each of them, for every seed. */
#include "tests/interp/product.h"

typedef struct Fault {
    const char *text, *from, *to;
    const char *says; /* one of these, separated by | */
} Fault;

static const Fault faults[] = {
    /* barriers */
    {product_roles, "wait %empty[%i] previous_phase=1\n", "",
     "overwrites|one arrival more"
     "|waits for generation"},
    {product_roles, "wait %full[%i2]\n", "",
     "race: a bulk load wrote|waits for generation|may still read"},
    {product_roles, "arrive %empty[%i2]\n", "", "deadlock"},
    {product_roles, "%full = mbarrier arrivals=2", "%full = mbarrier arrivals=3", "deadlock"},
    {product_roles, "%full = mbarrier arrivals=2", "%full = mbarrier arrivals=1",
     "one arrival more|race|waits for generation"},
    {product_roles, "wait %full[%i2]", "wait %full[%zero]", "race|waits for generation|deadlock"},
    /* products in flight */
    {product_roles, "yield %e, %j2", "yield %d, %j2", "not settled"},
    {product_roles, "dot_wait %d pending=0", "dot_wait %d pending=1", "not settled|may still read"},
    {product_roles,
     "            %e = dot_wait %d pending=0 : f32[%m2, %n2]\n            arrive %empty[%i2]\n",
     "            arrive %empty[%i2]\n            %e = dot_wait %d pending=0 : f32[%m2, %n2]\n",
     "may still read"},
    /* shared memory */
    {product_roles, "barrier ; behind the tile", "", "race: role 1 wrote|race: role 1 stored"},
    {product_roles, "dot_wait %d pending=0", "dot_wait %d pending=9", "not settled|may still read"},
    {product_roles, "fence_async\n", "", "without a fence_async"},
    {product_roles, "fence_async\n          barrier ; behind the tile",
     "barrier\n          fence_async", "without a fence_async"},
    {product_roles, "bulk_wait\n", "", "may still read"},
    {product_roles, "bulk_wait ; the last", "", "ends while bulk stores"},
    {product_roles, "barrier ; before the tile", "", "may still read|overwrites"},
    {product_shared, "barrier ; first", "", "may still read"},
    {product_shared, "barrier ; second", "", "without a sync"},
    {product_shared, "shared_store %sb[%zero, :, :], %b\n", "", "padding or unset memory"},
    /* copies past registers */
    {product_copies, "copy_wait %full pending=1\n", "", "race: a copy|copies are on their way"},
    {product_copies, "copy_wait %full pending=1", "copy_wait %full pending=2",
     "race: a copy|copies are on their way|groups is empty"},
    {product_copies, "barrier ; each step", "", "race: a copy|may still read"},
    {product_copies, "%last = const value=2", "%last = const value=3", "race|may still read"},
    {product_copies, "shared<T[3, 16, 8]>", "shared<T[2, 16, 8]>",
     "race|may still read|overwrites"},
    {product_copies, "copy_commit ; each step", "", "groups is empty|race|copies are on their way"},
    {product_copies, "copy_wait %full pending=1", "copy_wait %always pending=1", "groups is empty"},
    {product_copies, "copy_load %w[%n, %k3], %sb[%slot, :, :] guard=[1, 1]",
     "copy_load %w[%n, %k3], %sb[%slot, :, :]", "reads outside|padding or unset"},
    /* accesses */
    {product_padded, "load %x[%m, %k] guard=[1, 1]", "load %x[%m, %k] guard=[1, 0]",
     "reads outside|padding or unset"},
    {product_padded, "load %x[%m, %k] guard=[1, 1]", "load %x[%m, %k]", "reads outside"},
    {product_padded, "store %y[%m, %n], %r guard=[1, 1]", "store %y[%m, %n], %r guard=[1, 0]",
     "writes outside|writes past"},
    {product_launch, "store %y[%m, %n], %r", "store %x[%m, %n], %r", "elements for|an input"},
};

static bool says(const char *problem, const char *any)
{
    char part[128];
    for (const char *at = any; *at;) {
        size_t n = strcspn(at, "|");
        snprintf(part, sizeof part, "%.*s", (int)n, at);
        if (strstr(problem, part)) {
            return true;
        }
        at += n + (at[n] == '|');
    }
    return false;
}

START_TEST(is_reported)
{
    const Fault *fault = &faults[_i];
    char *text = edited(fault->text, fault->from, fault->to);
    for (uint64_t seed = 0; seed < 8; seed++) {
        Harness h;
        product_begin(&h, text, "bf16", 37, 29, 61);
        bool fine = harness_run(&h, seed, false);
        ck_assert_msg(!fine, "seed %d: \"%s\" instead of \"%s\" was not noticed", (int)seed,
                      fault->to, fault->from);
        ck_assert_msg(says(h.problem.data, fault->says), "seed %d: %s", (int)seed,
                      h.problem.data);
        ck_assert_ptr_null(strchr(h.problem.data, '\n'));
        harness_end(&h);
    }
    free(text);
}
END_TEST

/* Two buffers in the same bytes: the second may not be written while the first is in use. */
static const char shared_bytes[] = "func twice level staged padded {\n"
                                   "  in %x: tensor<f32[8]>\n  out %y: tensor<f32[8]>\n"
                                   "  body {\n"
                                   "    launch dims=[8] steps=[8] warps=[1] {\n"
                                   "      (%i: range)\n"
                                   "      %s = shared swizzle=0 offset=0 : shared<f32[8]>\n"
                                   "      %t = shared swizzle=0 offset=16 : shared<f32[8]>\n"
                                   "      %a = load %x[%i] : f32[%i]\n"
                                   "      shared_store %s[:], %a\n"
                                   "      barrier ; 1\n"
                                   "      %b = shared_load %s[:] : f32[%i]\n"
                                   "      barrier ; 2\n"
                                   "      shared_store %t[:], %b\n"
                                   "      barrier ; 3\n"
                                   "      %c = shared_load %t[:] : f32[%i]\n"
                                   "      store %y[%i], %c\n"
                                   "    }\n  }\n}\n";

static bool run_shared_bytes(const char *text, const char *expect)
{
    Harness h;
    harness_begin(&h, text);
    harness_fill(&h, 0, 8, 1);
    harness_fill(&h, 1, 8, 2);
    bool fine = harness_run(&h, 0, false);
    bool as_expected = expect ? !fine && strstr(h.problem.data, expect) : fine;
    ck_assert_msg(as_expected, "%s", h.problem.data);
    harness_end(&h);
    return fine;
}

START_TEST(shared_bytes_are_seen)
{
    run_shared_bytes(shared_bytes, NULL);
    char *early = edited(shared_bytes, "barrier ; 2", "");
    run_shared_bytes(early, "may still read");
    char *stale = edited(shared_bytes, "%c = shared_load %t[:]", "%c = shared_load %s[:]");
    run_shared_bytes(stale, "padding or unset memory");
    free(early);
    free(stale);
}
END_TEST

/* Atomic changes of shared memory need order with stores and loads, not with one another. */
static const char shared_counts[] =
    "func counts level staged padded {\n"
    "  in %x: tensor<f32[8]>\n  inout %y: tensor<f32[8]>\n"
    "  body {\n"
    "    launch dims=[8] steps=[8] persistent=1 max_tiles=1 warps=[1] {\n"
    "      %s = shared : shared<f32[1, 8, 2]>\n"
    "      %p = const value=0 : i32\n"
    "      %z = const value=0.0 : f32[8, 2]\n"
    "      shared_store %s[%p, :, :], %z\n"
    "      barrier ; 1\n"
    "      tile_loop dims=[8] steps=[8] {\n"
    "        (%i: range)\n"
    "        %a = load %x[%i] : f32[%i]\n"
    "        %j = index %i : i64[%i]\n"
    "        scatter %s[%p, %j, :], %a fn=add\n"
    "        scatter %s[%p, %p, :], %a fn=add\n"
    "        yield\n"
    "      }\n"
    "      barrier ; 2\n"
    "      %b = shared_load %s[%p, :, :] : f32[8, 2]\n"
    "      %c = reduce %b fn=sum axis=1 : f32[8, 1]\n"
    "      %d = squeeze %c axis=1 : f32[8]\n"
    "      %k = iota dim=[8] : i32[8]\n"
    "      scatter %y[%k], %d fn=add\n"
    "    }\n  }\n}\n";

START_TEST(shared_changes_are_ordered)
{
    run_shared_bytes(shared_counts, NULL);
    char *early = edited(shared_counts, "barrier ; 1", "");
    run_shared_bytes(early, "race: changes what was stored");
    char *read = edited(shared_counts, "barrier ; 2", "");
    run_shared_bytes(read, "without a sync");
    char *unset = edited(shared_counts, "shared_store %s[%p, :, :], %z", "");
    run_shared_bytes(unset, "unset memory"); /* of a block without tiles */
    char *back = edited(shared_counts, "%c = ", "scatter %s[%p, %p, :], %z fn=add\n      %c = ");
    run_shared_bytes(back, "race: changes what may still be read");
    free(early);
    free(read);
    free(unset);
    free(back);
}
END_TEST

UNIT_TESTS(interp_faults)
{
    TCase *tests = tcase_create("faults");
    tcase_add_loop_test(tests, is_reported, 0, sizeof faults / sizeof *faults);
    tcase_add_test(tests, shared_bytes_are_seen);
    tcase_add_test(tests, shared_changes_are_ordered);
    return tests;
}
