/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles built by hand: their bytes, the selection of variants, and launches without a compiler,
 * with each allocation failing once. */
#include "runtime/launch/bundle_format.h"
#include "runtime/launch/launch_context.h"
#include "tests/unit.h"

#include <stdlib.h>
#include <string.h>

/* ---- three functions, of an element more than the other ---- */

static int ran; /* of which variant */

static void fill(void *const *args, int variant)
{
    int64_t n;
    memcpy(&n, args[1], sizeof n);
    ran = variant;
    for (int64_t i = 0; i < n; i++) {
        ((float *)args[0])[i] = (float)variant;
    }
}

static void fill_any(void *const *args, int64_t first, int64_t last)
{
    (void)first;
    (void)last;
    fill(args, 0);
}

static void fill_eights(void *const *args, int64_t first, int64_t last)
{
    (void)first;
    (void)last;
    fill(args, 1);
}

static void fill_few(void *const *args, int64_t first, int64_t last)
{
    (void)first;
    (void)last;
    fill(args, 2);
}

typedef void Work(void *const *args, int64_t first, int64_t last);

static PlanTerm term_n = {1, 1, {0}}, term_one = {1, 0, {0}};
static PlanExpr dim_n = {1, &term_n};
static PlanParam params[] = {{"y", DT_F32, PLAN_OUT, 1, &dim_n, NULL, {0}, 4, 0, {0}}};
static PlanArg plan_args[] = {{ARG_POINTER, 0}, {ARG_SIZE, 0}};
static PlanAxis axis = {{1, &term_one}, 0, 0, 0};
static PlanLaunch launches[] = {
    {"fill_0", 1, &axis, 1, 0, false, 1, 0, 1, 0, false, false, 2, plan_args},
    {"fill_1", 1, &axis, 1, 0, false, 1, 0, 1, 0, false, false, 2, plan_args},
    {"fill_2", 1, &axis, 1, 0, false, 1, 0, 1, 0, false, false, 2, plan_args},
};
static PlanSize sizes[] = {{.name = "N", .multiple = 1, .most = INT64_MAX},
                           {.name = "N", .multiple = 8, .most = INT64_MAX},
                           {.name = "N", .multiple = 1, .most = 64}};
static const char *size_names[] = {"N"};
static BundleFunction function = {"fill_f32", "fill", 1, size_names};
static BundleVariant variants[4];
static const BundleTable TABLE = {"k", 1, &function, 4, variants};

static Arena arena;
static Text bytes;
static void *code[3];
static struct TesseraBundle bundle;

static void begin(void)
{
    static Work *const works[3] = {fill_any, fill_eights, fill_few};
    arena_init(&arena, allocator_default());
    for (int i = 0; i < 3; i++) {
        Plan plan = {.kernel = "fill",
                     .target = "x86-64-v3",
                     .n_sizes = 1,
                     .sizes = &sizes[i],
                     .n_params = 1,
                     .params = params,
                     .n_launches = 1,
                     .launches = &launches[i]};
        variants[i] = (BundleVariant){.target = "x86-64-v3",
                                      .about = i ? "some" : "any size",
                                      .kind = BUNDLE_HOST,
                                      .first = i,
                                      .plan = plan};
        memcpy(&code[i], &works[i], sizeof code[i]);
    }
    variants[3] = variants[0];
    variants[3].kind = BUNDLE_PTX;
    variants[3].target = "sm_80";
    variants[3].code = "text";
    variants[3].n = 4;
    bytes = text_new(&arena);
    bundle_to_bytes(&TABLE, &bytes);
    bundle = (struct TesseraBundle){BUNDLE_MAGIC, BUNDLE_FORMAT, "0", bytes.data, bytes.n, code, 3};
}

static void end(void)
{
    arena_free(&arena);
}

/* ---- bytes ---- */

START_TEST(comes_back)
{
    BundleTable table;
    Text again = text_new(&arena);
    ck_assert(bundle_from_bytes(&arena, bytes.data, bytes.n, 3, &table));
    bundle_to_bytes(&table, &again);
    ck_assert_uint_eq(again.n, bytes.n);
    ck_assert_int_eq(memcmp(again.data, bytes.data, bytes.n), 0);
    ck_assert_str_eq(table.functions[0].sizes[0], "N");
    ck_assert_str_eq(table.variants[3].code, "text");
    ck_assert_int_eq((table.variants[3].code - bytes.data) % 64, 0);
    ck_assert(!bundle_from_bytes(&arena, bytes.data, bytes.n, 2, &table)); /* code is missing */
}
END_TEST

START_TEST(ends_early)
{
    BundleTable table;
    for (size_t n = 0; n < bytes.n; n++) {
        char *part = malloc(n + 1); /* its end is seen */
        memcpy(part, bytes.data, n);
        ck_assert(!bundle_from_bytes(&arena, part, n, 3, &table));
        free(part);
    }
}
END_TEST

/* What damaged bytes ask for is more than there is. */
static void *some_alloc(void *user, size_t n)
{
    (void)user;
    return n < (size_t)1 << 28 ? malloc(n) : NULL;
}

static void some_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

/* Whatever stands there is refused, or is a table that can be used. */
START_TEST(is_damaged)
{
    static const unsigned char others[] = {0, 1, 0x7f, 0x80, 0xff};
    TesseraContext *context;
    TesseraDevice *device;
    TesseraAllocator some = {some_alloc, some_release, NULL};
    ck_assert_int_eq(context_open(TESSERA_ABI, &some, NULL, &context), TESSERA_OK);
    for (size_t i = 0; i < bytes.n; i++) {
        for (size_t j = 0; j < sizeof others; j++) {
            float y[128];
            uint64_t values[2] = {(uint64_t)(uintptr_t)y, 24};
            TesseraLaunch *launch = NULL;
            char before = bytes.data[i];
            bytes.data[i] = (char)others[j];
            ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
            if (tessera_bundle_ready(&bundle, 0, device, values, 2, &launch) == TESSERA_OK) {
                ck_assert_ptr_nonnull(tessera_launch_variant(launch));
            }
            tessera_launch_free(launch);
            tessera_device_free(device);
            bytes.data[i] = before;
        }
    }
    tessera_context_free(context);
}
END_TEST

/* ---- choosing ---- */

START_TEST(suits_parts)
{
    BundleVariant ptx = {.kind = BUNDLE_PTX, .target = "sm_80"};
    BundlePart later = {false, "sm_120", 1024, 99000}, same = {false, "sm_80", 1024, 99000};
    BundlePart hopper = {false, "sm_90a", 1024, 200000}, amd = {false, "gfx942", 1024, 65536};
    ck_assert_int_gt(variant_suits(&ptx, &same), variant_suits(&ptx, &later));
    ck_assert_int_gt(variant_suits(&ptx, &later), 0);
    ck_assert_int_lt(variant_suits(&ptx, &amd), 0);
    BundleVariant nearer = {.kind = BUNDLE_PTX, .target = "sm_89"};
    ck_assert_int_gt(variant_suits(&nearer, &later), variant_suits(&ptx, &later));
    ck_assert_int_lt(variant_suits(&nearer, &same), 0);
    BundleVariant special = {.kind = BUNDLE_PTX, .target = "sm_90a"};
    ck_assert_int_gt(variant_suits(&special, &hopper), 0);
    ck_assert_int_lt(variant_suits(&special, &later), 0);
    PlanLaunch wide = {.threads = 256, .shared_bytes = 150000};
    ptx.plan = (Plan){.n_launches = 1, .launches = &wide};
    ck_assert_int_gt(variant_suits(&ptx, &hopper), 0);
    ck_assert_int_lt(variant_suits(&ptx, &later), 0); /* more than a block may have there */
    BundleVariant object = {.kind = BUNDLE_OBJECT, .target = "sm_80"};
    ck_assert_int_lt(variant_suits(&object, &later), 0);
    BundleVariant host = {.kind = BUNDLE_HOST, .target = "sm_80"};
    ck_assert_int_lt(variant_suits(&host, &same), 0);
    host.target = "x86-64-v9";
    ck_assert_int_lt(variant_suits(&host, &(BundlePart){true, "native", 1, 0}), 0);
}
END_TEST

static int special_of(int64_t multiple, int64_t least, int64_t most)
{
    PlanSize size = {.name = "N", .multiple = multiple, .least = least, .most = most};
    return variant_special(&(Plan){.n_sizes = 1, .sizes = &size});
}

START_TEST(fewer_launches_are_special)
{
    ck_assert_int_eq(special_of(1, 0, INT64_MAX), 0);
    ck_assert_int_gt(special_of(8, 0, INT64_MAX), special_of(1, 0, INT64_MAX));
    ck_assert_int_gt(special_of(64, 0, INT64_MAX), special_of(8, 0, INT64_MAX));
    ck_assert_int_gt(special_of(1, 0, 4096), special_of(1, 0, 8192));
    ck_assert_int_gt(special_of(8, 0, 4096), special_of(1, 0, 4096));
    ck_assert_int_gt(special_of(4096, 1, 4096), special_of(64, 0, 4096));
    ck_assert_int_gt(special_of(1, 2, INT64_MAX), special_of(1, 0, INT64_MAX));
    PlanParam contiguous = {"x", DT_F32, PLAN_IN, 1, &dim_n, NULL, {0}, 16, 0, {0}};
    PlanParam strided = contiguous;
    strided.strides = &dim_n;
    ck_assert_int_gt(variant_special(&(Plan){.n_params = 1, .params = &contiguous}),
                     variant_special(&(Plan){.n_params = 1, .params = &strided}));
}
END_TEST

/* ---- launching ---- */

typedef struct Counting {
    int allocations, fail_at, open;
} Counting;

static void *counting_alloc(void *user, size_t n)
{
    Counting *counting = user;
    if (++counting->allocations == counting->fail_at) {
        return NULL;
    }
    counting->open++;
    return malloc(n);
}

static void counting_release(void *user, void *memory)
{
    ((Counting *)user)->open--;
    free(memory);
}

static TesseraStatus call(TesseraDevice *device, float *y, int64_t n)
{
    uint64_t values[2] = {(uint64_t)(uintptr_t)y, (uint64_t)n};
    return tessera_bundle_launch(&bundle, 0, device, NULL, values, 2);
}

static TesseraStatus use(TesseraContext *context)
{
    static float y[256];
    static const struct {
        int64_t n;
        int variant;
    } cases[] = {{100, 0}, {128, 1}, {64, 2}, {3, 2}, {128, 1}};
    TesseraDevice *device = NULL;
    TesseraStatus status = tessera_device_open(context, "cpu", 1, &device);
    for (size_t i = 0; i < 5 && status == TESSERA_OK; i++) {
        status = call(device, y, cases[i].n);
        ck_assert(status != TESSERA_OK || ran == cases[i].variant);
        ck_assert(status != TESSERA_OK || (y[0] == (float)ran && y[cases[i].n - 1] == y[0]));
    }
    for (int i = 0; i < 8 && status == TESSERA_OK; i++) { /* elsewhere, with the same sizes */
        memset(y, 0, sizeof y);
        status = call(device, y + i, 128);
        ck_assert(status != TESSERA_OK || (y[i] == 1 && y[i + 127] == 1 && y[i + 128] == 0));
        ck_assert(status != TESSERA_OK || i == 0 || y[i - 1] == 0);
    }
    if (status == TESSERA_OK) {
        status = call(device, NULL, 128);
        ck_assert(status == TESSERA_ENVIRONMENT || status == TESSERA_USAGE);
        status = status == TESSERA_USAGE ? call(device, y, 128) : status;
    }
    for (int64_t n = 1; n <= 70 && status == TESSERA_OK; n++) { /* more than are kept */
        status = call(device, y, n);
    }
    TesseraArg arg = {.tensor = {.data = y, .type = TESSERA_F32, .rank = 1, .dims = {128}}};
    TesseraLaunch *launch = NULL;
    if (status == TESSERA_OK) {
        status = tessera_bundle_prepare(&bundle, "fill_f32", device, &arg, 1, &launch);
    }
    if (status == TESSERA_OK) {
        ck_assert_str_eq(tessera_launch_variant(launch), "fill_f32 for x86-64-v3: some");
        status = tessera_launch(launch, NULL);
        ck_assert(ran == 1);
    }
    tessera_launch_free(launch);
    tessera_device_free(device);
    return status;
}

START_TEST(takes_the_most_special)
{
    TesseraContext *context;
    ck_assert_int_eq(context_open(TESSERA_ABI, NULL, NULL, &context), TESSERA_OK);
    TesseraStatus status = use(context);
    ck_assert_msg(status == TESSERA_OK, "%s", tessera_error(context)->message);
    tessera_context_free(context);
}
END_TEST

START_TEST(memory_ends)
{
    TesseraStatus status = TESSERA_ENVIRONMENT;
    for (int at = 1; status != TESSERA_OK; at++) {
        Counting counting = {0, at, 0};
        TesseraAllocator allocator = {counting_alloc, counting_release, &counting};
        TesseraContext *context = NULL;
        ck_assert_int_lt(at, 2000);
        status = context_open(TESSERA_ABI, &allocator, NULL, &context);
        status = status == TESSERA_OK ? use(context) : status;
        ck_assert(status == TESSERA_OK || status == TESSERA_ENVIRONMENT);
        tessera_context_free(context);
        ck_assert_int_eq(counting.open, 0);
    }
}
END_TEST

START_TEST(names_are_ambiguous)
{
    BundleFunction two[] = {{"fill_a", "fill", 1, size_names}, {"fill_b", "fill", 1, size_names}};
    BundleTable table = {"k", 2, two, 2, variants};
    float y[8];
    TesseraArg arg = {.tensor = {.data = y, .type = TESSERA_F32, .rank = 1, .dims = {8}}};
    TesseraContext *context;
    TesseraDevice *device;
    TesseraLaunch *launch;
    Text other = text_new(&arena);
    variants[1].function = 1;
    bundle_to_bytes(&table, &other);
    variants[1].function = 0;
    struct TesseraBundle with = {BUNDLE_MAGIC, BUNDLE_FORMAT, "0", other.data, other.n, code, 3};
    ck_assert_int_eq(context_open(TESSERA_ABI, NULL, NULL, &context), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    ck_assert_int_eq(tessera_bundle_prepare(&with, "fill", device, &arg, 1, &launch),
                     TESSERA_USAGE);
    ck_assert_ptr_nonnull(strstr(tessera_error(context)->message, "both fill_b and fill_a"));
    ck_assert_int_eq(tessera_bundle_prepare(&with, "fill_a", device, &arg, 1, &launch), TESSERA_OK);
    tessera_launch_free(launch);
    tessera_device_free(device);
    tessera_context_free(context);
}
END_TEST

UNIT_TESTS(launch_bundle)
{
    TCase *tests = tcase_create("bundle");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, comes_back);
    tcase_add_test(tests, ends_early);
    tcase_add_test(tests, is_damaged);
    tcase_add_test(tests, suits_parts);
    tcase_add_test(tests, fewer_launches_are_special);
    tcase_add_test(tests, takes_the_most_special);
    tcase_add_test(tests, memory_ends);
    tcase_add_test(tests, names_are_ambiguous);
    return tests;
}
