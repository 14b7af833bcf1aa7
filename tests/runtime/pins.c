/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned schedules through the C API: compilations with known sizes read them from beside the
 * source, and launches of kernels that were compiled without sizes select them. */
#include "tests/few_allocations.h"
#include "tests/runtime/harness.h"

#include <stdio.h>
#include <unistd.h>

static const char SOURCE[] = "kernel add(x: f32[N], y: f32[N]) -> f32[N] = x + y\n";
static char folder[64], source[96], pins[96];
static char said[8192];

static void keep_log(void *user, TesseraLogLevel level, const char *text)
{
    (void)user;
    (void)level;
    strncat(said, text, sizeof said - strlen(said) - 2);
    strcat(said, "\n");
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_ge(fputs(text, file), 0);
    fclose(file);
}

static void begin(void)
{
    setup();
    snprintf(folder, sizeof folder, "/tmp/tessera-pins-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(source, sizeof source, "%s/add.tile", folder);
    snprintf(pins, sizeof pins, "%s/add.tune", folder);
    write_file(source, SOURCE);
    said[0] = '\0';
    tessera_log(context, keep_log, NULL);
    ck_assert_int_eq(tessera_program_read(context, source, &program), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 2, &device), TESSERA_OK);
}

static void end(void)
{
    char command[96];
    teardown();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static TesseraTuning tuning_of(int64_t n)
{
    TesseraTuning tuning;
    TesseraSize sizes[] = {{"N", n}};
    TesseraOptions options = {.target = "native", .sizes = sizes, .n_sizes = 1};
    ck_assert_int_eq(tessera_tuning(program, &options, device, &tuning), TESSERA_OK);
    return tuning;
}

/* An entry for sizes like n, with these lines. */
static void pin(int64_t n, const char *lines, const char *path)
{
    char text[1024];
    TesseraTuning of = tuning_of(n);
    snprintf(text, sizeof text,
             "tessera pins 1\npin %s on %s {\ndevice %s\nkernel %s\nsizes %s\nversion %s\n"
             "schedule {\n%s\n}\n}\n",
             of.kernel, of.arch, of.device, of.digest, of.bucket, tessera_version(), lines);
    write_file(path, text);
}

static const char *schedule(void)
{
    const char *text;
    ck_assert_int_eq(tessera_kernel_schedule(kernel, true, &text), TESSERA_OK);
    return text;
}

static void recompile(const TesseraOptions *options)
{
    tessera_kernel_free(kernel);
    kernel = NULL;
    ck_assert_msg(compile(options) == TESSERA_OK, "%s", tessera_error(context)->message);
}

START_TEST(measurements_have_a_name)
{
    TesseraTuning tuning = tuning_of(1000);
    ck_assert_str_eq(tuning.kernel, "add");
    ck_assert_str_eq(tuning.types, "");
    ck_assert_str_eq(tuning.bucket, "N=513..1024%8");
    ck_assert_str_eq(tuning.sizes, "N=1000");
    ck_assert_str_eq(tuning.device, tessera_device_info(device)->name);
    ck_assert_uint_eq(strlen(tuning.digest), 32);
    ck_assert_str_ne(tuning.arch, "native");
    char digest[40];
    snprintf(digest, sizeof digest, "%s", tuning.digest);
    ck_assert_str_eq(tuning_of(7).digest, digest); /* whatever the sizes are */
    TesseraOptions options = {.target = "sm_90a"};
    expect(tessera_tuning(program, &options, NULL, &tuning), TESSERA_USAGE, "not all sizes");
    expect(tessera_tuning(program, NULL, NULL, &tuning), TESSERA_USAGE, "options");
    options.target = NULL;
    expect(tessera_tuning(program, &options, NULL, &tuning), TESSERA_USAGE, "target");
    options.target = "sm_1";
    expect(tessera_tuning(program, &options, NULL, &tuning), TESSERA_USAGE, "no target");
}
END_TEST

START_TEST(compilations_take_them)
{
    TesseraSize sizes[] = {{"N", 900 * 8}};
    TesseraOptions options = {.target = "native", .sizes = sizes, .n_sizes = 1};
    pin(900 * 8, "tile N 128", pins);
    recompile(&options);
    ck_assert_msg(strstr(schedule(), "tile N 128  # pinned, add.tune:8") != NULL, "%s", schedule());
    ck_assert_str_eq(tessera_warnings(context), "");
    options.device = "another device";
    recompile(&options);
    ck_assert_ptr_null(strstr(schedule(), "pinned"));
    options.device = tessera_device_info(device)->name;
    recompile(&options);
    ck_assert_ptr_nonnull(strstr(schedule(), "pinned"));
    options.pins = "";
    recompile(&options);
    ck_assert_ptr_null(strstr(schedule(), "pinned"));
    options.pins = NULL;
    ck_assert_int_eq(tessera_pins_use(context, "off"), TESSERA_OK);
    recompile(&options);
    ck_assert_ptr_null(strstr(schedule(), "pinned"));
    options.pins = pins; /* options count more than the context */
    recompile(&options);
    ck_assert_ptr_nonnull(strstr(schedule(), "pinned"));
    options.pins = NULL;
    ck_assert_int_eq(tessera_pins_use(context, NULL), TESSERA_OK);
    recompile(&options);
    ck_assert_ptr_nonnull(strstr(schedule(), "pinned"));
    sizes[0].value = 901; /* another bucket */
    recompile(&options);
    ck_assert_ptr_null(strstr(schedule(), "pinned"));
    ck_assert_int_eq(tessera_pins_use(NULL, NULL), TESSERA_USAGE);
}
END_TEST

START_TEST(tasks_take_them)
{
    TesseraSize sizes[] = {{"N", 900 * 8}};
    TesseraOptions options = {.target = "native", .sizes = sizes, .n_sizes = 1};
    char elsewhere[128];
    TesseraTask *task;
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere.tune", folder);
    pin(900 * 8, "tile N 128", elsewhere);
    ck_assert_int_eq(tessera_pins_use(context, elsewhere), TESSERA_OK);
    ck_assert_int_eq(tessera_compile_start(program, &options, NULL, NULL, &task), TESSERA_OK);
    ck_assert_int_eq(tessera_task_wait(task, &kernel), TESSERA_OK);
    ck_assert_ptr_nonnull(strstr(schedule(), "pinned, elsewhere.tune:8"));
    tessera_task_free(task);
}
END_TEST

static float left[1 << 14], right[1 << 14], sum[1 << 14];

static void launch(int64_t n)
{
    TesseraLaunch *made;
    TesseraArg args[3];
    float *data[] = {left, right, sum};
    for (int i = 0; i < 3; i++) {
        args[i] =
            (TesseraArg){.tensor = {.data = data[i], .type = TESSERA_F32, .rank = 1, .dims = {n}}};
    }
    for (int i = 0; i < 1 << 14; i++) {
        left[i] = (float)i;
        right[i] = 0.5f;
        sum[i] = -1;
    }
    ck_assert_msg(tessera_prepare(kernel, device, args, 3, &made) == TESSERA_OK, "%s",
                  tessera_error(context)->message);
    ck_assert_int_eq(tessera_launch(made, NULL), TESSERA_OK);
    ck_assert_int_eq(tessera_sync(device, NULL), TESSERA_OK);
    for (int64_t i = 0; i < n; i++) {
        ck_assert_float_eq(sum[i], left[i] + 0.5f);
    }
    ck_assert(sum[n] == -1);
    tessera_launch_free(made);
}

static int count(const char *words)
{
    int n = 0;
    for (const char *at = said; (at = strstr(at, words)); at++) {
        n++;
    }
    return n;
}

/* The code for a bucket is made when the first launch of such sizes wants it, and once. */
START_TEST(launches_take_them)
{
    pin(7200, "tile N 128", pins);
    recompile(&(TesseraOptions){.target = "native"});
    ck_assert_ptr_nonnull(strstr(tessera_warnings(context), "for some sizes"));
    ck_assert_ptr_null(strstr(schedule(), "pinned"));
    launch(64);
    ck_assert_int_eq(count("pinned for"), 0);
    launch(7200);
    ck_assert_int_eq(count("pinned for N=4097..8192%8"), 1);
    launch(4104);
    launch(8);
    launch(7208);
    ck_assert_int_eq(count("pinned for"), 1);
}
END_TEST

START_TEST(launches_go_on_without)
{
    pin(7200, "tile N 0", pins);
    recompile(&(TesseraOptions){.target = "native"});
    launch(7200);
    launch(4104);
    ck_assert_int_eq(count("does not hold"), 1); /* it is tried once */
}
END_TEST

/* Every failure of memory on the way is one of the caller's, or costs the pin alone. */
START_TEST(memory_may_end)
{
    TesseraAllocator allocator = {few_allocate, few_release, NULL};
    TesseraSize sizes[] = {{"N", 7200}};
    TesseraOptions options = {.target = "native", .sizes = sizes, .n_sizes = 1};
    bool good = false;
    pin(7200, "tile N 128", pins);
    for (int n = 0; n < 400 && !good; n++) {
        TesseraContext *own = NULL;
        TesseraProgram *read = NULL;
        TesseraKernel *made = NULL;
        allocations_left = n;
        good = tessera_context_new(&allocator, &own) == TESSERA_OK &&
               tessera_program_read(own, source, &read) == TESSERA_OK &&
               tessera_compile(read, &options, &made) == TESSERA_OK;
        tessera_kernel_free(made);
        tessera_program_free(read);
        tessera_context_free(own);
    }
    ck_assert(good);
}
END_TEST

UNIT_TESTS(runtime_pins)
{
    TCase *tests = tcase_create("pins");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, measurements_have_a_name);
    tcase_add_test(tests, compilations_take_them);
    tcase_add_test(tests, tasks_take_them);
    tcase_add_test(tests, launches_take_them);
    tcase_add_test(tests, launches_go_on_without);
    tcase_add_test(tests, memory_may_end);
    return tests;
}
