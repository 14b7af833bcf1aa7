/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong uses of every function of the public interface: NULL, types and numbers that do not exist,
 * contradictory options; and extents that determine sizes only after some arithmetic. */
#include "runtime/api/api_debug.h"
#include "tests/runtime/harness.h"

#include <pthread.h>

/* ---- sizes from extents ---- */

static const char PARTS[] = "kernel parts(x: f32[N - 5], y: f32[2 * M + N]) -> f32[M] = "
                            "fill(2.0, f32[M])\n";

START_TEST(sizes_from_extents)
{
    TesseraLaunch *launch;
    TesseraInferred in;
    TesseraOptions options = {.target = "native"};
    TesseraTensor known[3] = {
        {NULL, TESSERA_F32, 1, {3}, NULL}, {NULL, TESSERA_F32, 1, {14}, NULL}, {.rank = -1}};
    TesseraArg args[3] = {vector(x, 3), vector(y, 14), vector(z, 3)};
    parse(PARTS);
    ck_assert_int_eq(tessera_infer(program, &options, known, &in), TESSERA_OK);
    ck_assert_uint_eq(in.n_sizes, 2);
    ck_assert_int_eq(in.sizes[0].value, 8);
    ck_assert_int_eq(in.sizes[1].value, 3);
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    TesseraStatus status = tessera_prepare(kernel, device, args, 3, &launch);
    expect(status, TESSERA_SOURCE, "M is 3, but this code was compiled for M % 8 == 0");
    tessera_kernel_free(kernel);
    TesseraFact any = {"M", 1, 0, 0};
    options.facts = &any;
    options.n_facts = 1;
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    ck_assert_int_eq(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_OK);
    ck_assert_int_eq(tessera_launch(launch, NULL), TESSERA_OK);
    tessera_launch_free(launch);
    ck_assert(z[0] == 2 && z[2] == 2);
    z[1] = 0;
    ck_assert_int_eq(tessera_interpret(program, &options, args, 3), TESSERA_OK);
    ck_assert(z[1] == 2);
    args[1] = vector(y, 13); /* 2 M would be 5 */
    expect(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_SOURCE, "'y' has 13");
    expect(tessera_interpret(program, &options, args, 3), TESSERA_SOURCE, "'y' has 13");
    known[1].dims[0] = 6; /* 2 M would be -2 */
    expect(tessera_infer(program, &options, known, &in), TESSERA_SOURCE, "no size M makes it");
}
END_TEST

static const char ODD[] = "kernel odd(x: f32[2 * N + 1]) -> f32[2 * N + 1] = x\n";

/* A page of two kernels is of one target. */
START_TEST(kernels_of_two_targets)
{
    TesseraBytes bytes;
    TesseraOptions options = {.target = "sm_90a"};
    prepare_add(N);
    TesseraKernel *first = kernel;
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    expect(tessera_kernel_compare(first, kernel, &bytes), TESSERA_USAGE,
           "the kernels to compare are of native and of sm_90a");
    expect(tessera_kernel_compare(first, NULL, &bytes), TESSERA_USAGE, "other is NULL");
    tessera_kernel_free(first);
}
END_TEST

START_TEST(no_size_fits)
{
    TesseraLaunch *launch;
    TesseraInferred in;
    TesseraFact any = {"N", 1, 0, 0};
    TesseraOptions options = {.target = "native", .facts = &any, .n_facts = 1};
    TesseraTensor known[2] = {{NULL, TESSERA_F32, 1, {6}, NULL}, {.rank = -1}};
    TesseraArg args[2] = {vector(x, 6), vector(y, 6)};
    parse(ODD);
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    ck_assert_int_eq(tessera_device_open(context, "cpu", 1, &device), TESSERA_OK);
    expect(tessera_infer(program, &options, known, &in), TESSERA_SOURCE, "no size N makes it");
    expect(tessera_prepare(kernel, device, args, 2, &launch), TESSERA_SOURCE, "no size N gives");
    expect(tessera_interpret(program, &options, args, 2), TESSERA_SOURCE, "no size N makes it");
    args[0] = vector(x, 7);
    args[1] = vector(y, 7);
    ck_assert_int_eq(tessera_prepare(kernel, device, args, 2, &launch), TESSERA_OK);
    tessera_launch_free(launch);
    args[0] = vector(x, 0); /* N would be negative */
    expect(tessera_prepare(kernel, device, args, 2, &launch), TESSERA_SOURCE, "no size N gives");
}
END_TEST

/* ---- what callers get wrong ---- */

START_TEST(options_that_cannot_be)
{
    static const struct {
        TesseraFact fact;
        const char *words;
    } facts[] = {
        {{"Q", 1, 0, 0}, "no size 'Q': it has N"},
        {{"N", 0, 9, 8}, "cannot be at least 9 and at most 8"},
        {{"N", -4, 0, 0}, "negative"},
        {{"N", 16, 1, 15}, "a multiple of 16, at least 1 and at most 15"},
        {{NULL, 1, 0, 0}, "a name of options.facts is NULL"},
    };
    parse(ADD);
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        TesseraOptions options = {.target = "native", .facts = &facts[i].fact, .n_facts = 1};
        expect(compile(&options), TESSERA_USAGE, facts[i].words);
    }
    TesseraOptions options = {.target = "native", .optimize = 77};
    expect(compile(&options), TESSERA_USAGE, "options.optimize is 77");
    TesseraSize size = {"N", 17};
    TesseraFact even = {"N", 2, 0, 0};
    options = (TesseraOptions){
        .target = "native", .sizes = &size, .n_sizes = 1, .facts = &even, .n_facts = 1};
    expect(compile(&options), TESSERA_SOURCE, "size N is 17, but N % 2 == 0 is assumed");
    size.value = INT64_MAX;
    options = (TesseraOptions){.target = "native", .sizes = &size, .n_sizes = 1};
    expect(compile(&options), TESSERA_SOURCE, "more than 2^57 bytes, with N = 9223372036854775807");
    options = (TesseraOptions){.target = "native", .n_lines = 3};
    expect(compile(&options), TESSERA_USAGE, "a list of options is NULL");
    size.name = "Q";
    options = (TesseraOptions){.target = "native", .sizes = &size, .n_sizes = 1};
    expect(compile(&options), TESSERA_USAGE, "no size 'Q'");
}
END_TEST

START_TEST(arguments_that_cannot_be)
{
    TesseraLaunch *launch;
    TesseraArg args[3] = {vector(x, N), vector(y, N), vector(z, N)};
    TesseraOptions options = {0};
    prepare_add(N);
    args[1].tensor.type = (TesseraType)99;
    expect(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_USAGE, "element type, 99");
    expect(tessera_interpret(program, &options, args, 3), TESSERA_USAGE, "element type, 99");
    args[1] = vector(y, -N);
    expect(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_USAGE, "has size -1000");
    expect(tessera_interpret(program, &options, args, 3), TESSERA_USAGE, "has size -1000");
    args[1] = vector(NULL, N);
    expect(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_USAGE, "has no data");
    expect(tessera_interpret(program, &options, args, 3), TESSERA_USAGE, "has no data");
    args[1].tensor.rank = 1000;
    expect(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_USAGE, "has rank 1000");
    TesseraTensor known[3] = {{NULL, TESSERA_F32, 99, {0}, NULL}, {.rank = -1}, {.rank = -1}};
    TesseraInferred in;
    expect(tessera_infer(program, &options, known, &in), TESSERA_USAGE, "has rank 99");
    expect(tessera_prepare(kernel, device, NULL, 3, &launch), TESSERA_USAGE, "is NULL");
    TesseraDevice *none;
    expect(tessera_device_open(context, "cpu", -1, &none), TESSERA_USAGE, "no device cpu:-1");
    expect(tessera_device_open(context, "cuda", -7, &none), TESSERA_USAGE, "no device cuda:-7");
    expect(tessera_device_open(context, "cpu", 1 << 30, &none), TESSERA_USAGE, "no device cpu:");
    ck_assert_int_ne(tessera_device_open(context, "cuda", 1 << 30, &none), TESSERA_OK);
    ck_assert_ptr_null(none);
}
END_TEST

/* Whoever makes objects gets them or an error; none of them crashes. */
START_TEST(null_where_objects_are_made)
{
    TesseraProgram *p;
    TesseraInferred in;
    TesseraOptions options = {.target = "native"};
    const TesseraSignature *signature;
    TesseraAllocator broken = {NULL, NULL, NULL};
    TesseraContext *c;
    ck_assert_int_eq(tessera_context_new(NULL, NULL), TESSERA_USAGE);
    ck_assert_int_eq(tessera_context_new(&broken, &c), TESSERA_USAGE);
    ck_assert_int_eq(tessera_context_open(0, NULL, &c), TESSERA_USAGE);
    ck_assert_int_eq(tessera_context_open(TESSERA_ABI + 1, NULL, &c), TESSERA_ENVIRONMENT);
    ck_assert_ptr_null(c);
    ck_assert_int_eq((tessera_context_new)(NULL, &c), TESSERA_OK); /* the symbol */
    tessera_context_free(c);
    expect(tessera_program_parse(context, "t", NULL, 3, &p), TESSERA_USAGE, "text is NULL");
    expect(tessera_program_parse(context, NULL, ADD, 3, &p), TESSERA_USAGE, "name is NULL");
    expect(tessera_program_parse(context, "t", ADD, 3, NULL), TESSERA_USAGE, "program is NULL");
    ck_assert_int_eq(tessera_program_parse(NULL, "t", ADD, 3, &p), TESSERA_USAGE);
    expect(tessera_program_read(context, NULL, &p), TESSERA_USAGE, "path is NULL");
    expect(tessera_program_read(context, "t", NULL), TESSERA_USAGE, "program is NULL");
    ck_assert_int_eq(tessera_program_find(NULL, "f", &signature), TESSERA_USAGE);
    ck_assert_int_eq(tessera_compile(NULL, &options, &kernel), TESSERA_USAGE);
    ck_assert_int_eq(tessera_infer(NULL, &options, NULL, &in), TESSERA_USAGE);
    ck_assert_int_eq(tessera_interpret(NULL, &options, NULL, 0), TESSERA_USAGE);
    ck_assert_int_eq(tessera_device_open(NULL, "cpu", 0, &device), TESSERA_USAGE);
    expect(tessera_device_open(context, NULL, 0, &device), TESSERA_USAGE, "kind is NULL");
    expect(tessera_device_open(context, "cpu", 0, NULL), TESSERA_USAGE, "device is NULL");
    ck_assert_int_eq(tessera_debug(NULL, NULL), TESSERA_USAGE);
    const char *formatted;
    ck_assert_int_eq(tessera_format(NULL, "t", ADD, 3, &formatted), TESSERA_USAGE);
    expect(tessera_format(context, NULL, ADD, 3, &formatted), TESSERA_USAGE, "name is NULL");
    expect(tessera_format(context, "t", NULL, 3, &formatted), TESSERA_USAGE, "text is NULL");
    expect(tessera_format(context, "t", ADD, 3, NULL), TESSERA_USAGE, "formatted is NULL");
    parse(ADD);
    expect(tessera_program_find(program, "add", NULL), TESSERA_USAGE, "signature is NULL");
    expect(tessera_compile(program, NULL, &kernel), TESSERA_USAGE, "options is NULL");
    expect(tessera_compile(program, &options, NULL), TESSERA_USAGE, "kernel is NULL");
    expect(tessera_infer(program, NULL, NULL, &in), TESSERA_USAGE, "options is NULL");
    expect(tessera_infer(program, &options, NULL, NULL), TESSERA_USAGE, "inferred is NULL");
    expect(tessera_interpret(program, NULL, NULL, 0), TESSERA_USAGE, "options is NULL");
    expect(tessera_interpret(program, &options, NULL, 3), TESSERA_USAGE, "args is NULL");
}
END_TEST

START_TEST(null_where_objects_are_used)
{
    TesseraTensor tensor;
    TesseraBytes bytes;
    TesseraResources resources;
    TesseraLaunch *launch;
    const char *text;
    void *memory;
    double seconds;
    prepare_add(N);
    ck_assert_int_eq(tessera_kernel_shape(NULL, 0, NULL, 0, &tensor), TESSERA_USAGE);
    expect(tessera_kernel_shape(kernel, 0, NULL, 1, &tensor), TESSERA_USAGE, "sizes is NULL");
    expect(tessera_kernel_shape(kernel, 0, NULL, 0, NULL), TESSERA_USAGE, "tensor is NULL");
    ck_assert_int_eq(tessera_kernel_emit(NULL, "ir", &bytes), TESSERA_USAGE);
    expect(tessera_kernel_emit(kernel, NULL, &bytes), TESSERA_USAGE, "kind is NULL");
    expect(tessera_kernel_emit(kernel, "ir", NULL), TESSERA_USAGE, "bytes is NULL");
    ck_assert_int_eq(tessera_kernel_schedule(NULL, true, &text), TESSERA_USAGE);
    expect(tessera_kernel_schedule(kernel, true, NULL), TESSERA_USAGE, "text is NULL");
    ck_assert_int_eq(tessera_kernel_resources(NULL, &resources), TESSERA_USAGE);
    expect(tessera_kernel_resources(kernel, NULL), TESSERA_USAGE, "resources is NULL");
    ck_assert_int_eq(tessera_kernel_explain(NULL, TESSERA_EXPLAIN_TEXT, &bytes), TESSERA_USAGE);
    expect(tessera_kernel_explain(kernel, TESSERA_EXPLAIN_TEXT, NULL), TESSERA_USAGE,
           "bytes is NULL");
    expect(tessera_kernel_explain(kernel, (TesseraExplain)9, &bytes), TESSERA_USAGE, "no form 9");
    TesseraFact fact;
    TesseraAccesses accesses;
    TesseraKernel *vjp;
    const char *const none[] = {NULL};
    ck_assert_int_eq(tessera_kernel_vjp(NULL, NULL, 0, &vjp), TESSERA_USAGE);
    expect(tessera_kernel_vjp(kernel, NULL, 1, &vjp), TESSERA_USAGE, "by is NULL");
    expect(tessera_kernel_vjp(kernel, none, 1, &vjp), TESSERA_USAGE, "a name is NULL");
    expect(tessera_kernel_vjp(kernel, NULL, 0, NULL), TESSERA_USAGE, "vjp is NULL");
    ck_assert_int_eq(tessera_kernel_fact(NULL, 0, &fact), TESSERA_USAGE);
    expect(tessera_kernel_fact(kernel, 0, NULL), TESSERA_USAGE, "fact is NULL");
    expect(tessera_kernel_fact(kernel, 9, &fact), TESSERA_USAGE, "no size 9");
    ck_assert_int_eq(tessera_kernel_accesses(NULL, &accesses), TESSERA_USAGE);
    expect(tessera_kernel_accesses(kernel, NULL), TESSERA_USAGE, "accesses is NULL");
    ck_assert_int_eq(tessera_prepare(NULL, device, NULL, 0, &launch), TESSERA_USAGE);
    expect(tessera_prepare(kernel, NULL, NULL, 0, &launch), TESSERA_USAGE, "device is NULL");
    expect(tessera_prepare(kernel, device, NULL, 0, NULL), TESSERA_USAGE, "launch is NULL");
    ck_assert_int_eq(tessera_alloc(NULL, 8, &memory), TESSERA_USAGE);
    expect(tessera_alloc(device, 8, NULL), TESSERA_USAGE, "memory is NULL");
    ck_assert_int_eq(tessera_copy_in(NULL, x, y, 4), TESSERA_USAGE);
    expect(tessera_copy_in(device, NULL, y, 4), TESSERA_USAGE, "to is NULL");
    expect(tessera_copy_out(device, x, NULL, 4), TESSERA_USAGE, "from is NULL");
    ck_assert_int_eq(tessera_copy_out(NULL, x, y, 4), TESSERA_USAGE);
    ck_assert_int_eq(tessera_sync(NULL, NULL), TESSERA_USAGE);
    ck_assert_int_eq(tessera_copy_time(NULL, x, y, 4, 1, &seconds), TESSERA_USAGE);
    expect(tessera_copy_time(device, x, y, 4, 1, NULL), TESSERA_USAGE, "seconds is NULL");
    ck_assert_int_eq(tessera_launch(NULL, NULL), TESSERA_USAGE);
    ck_assert_int_eq(tessera_launch_time(NULL, NULL, 1, &seconds), TESSERA_USAGE);
}
END_TEST

/* With an older failure in the context, which is of a file. */
static void expect_of(TesseraStatus got, const char *call)
{
    TesseraProgram *none;
    const TesseraError *error = tessera_error(context);
    ck_assert_msg(got == TESSERA_USAGE && error->status == got && strstr(error->message, call),
                  "%s: status %d, %s", call, (int)got, error->message);
    ck_assert_int_eq(tessera_error(NULL)->status, TESSERA_USAGE);
    ck_assert_int_eq(tessera_program_read(context, "/no/such.tile", &none), TESSERA_ENVIRONMENT);
    expect(TESSERA_ENVIRONMENT, TESSERA_ENVIRONMENT, "/no/such.tile");
}
#define EXPECT_OF(call, ...) expect_of(call(__VA_ARGS__), #call)

/* A call of nothing has no context to keep its error, which is the last one all the same. */
START_TEST(failures_without_a_context)
{
    TesseraProgram *p;
    TesseraLaunch *launch;
    TesseraBytes bytes;
    TesseraDifference d;
    TesseraMessages messages;
    TesseraOptions options = {.target = "native"};
    TesseraCacheInfo info;
    TesseraTask *task;
    TesseraInferred in;
    void *memory;
    double seconds;
    char data[8] = {0};
    EXPECT_OF(tessera_launch, NULL, NULL);
    EXPECT_OF(tessera_launch_set, NULL, 0, NULL);
    EXPECT_OF(tessera_launch_set_scalar, NULL, 0, 1, 1);
    EXPECT_OF(tessera_launch_with, NULL, NULL, NULL, 0);
    EXPECT_OF(tessera_launch_reserve, NULL, NULL);
    EXPECT_OF(tessera_launch_time, NULL, NULL, 1, &seconds);
    EXPECT_OF(tessera_launch_messages, NULL, NULL, &messages);
    EXPECT_OF(tessera_sync, NULL, NULL);
    EXPECT_OF(tessera_alloc, NULL, 8, &memory);
    EXPECT_OF(tessera_pool_alloc, NULL, 8, NULL, &memory);
    EXPECT_OF(tessera_pool_release, NULL, data, NULL);
    EXPECT_OF(tessera_pool_keep, NULL, 8);
    EXPECT_OF(tessera_copy, NULL, data, NULL, data, 8, NULL);
    EXPECT_OF(tessera_event_record, NULL, NULL);
    EXPECT_OF(tessera_event_wait, NULL, NULL);
    EXPECT_OF(tessera_event_sync, NULL);
    EXPECT_OF(tessera_event_elapsed, NULL, NULL, &seconds);
    EXPECT_OF(tessera_graph_launch, NULL, NULL);
    EXPECT_OF(tessera_prepare, NULL, NULL, NULL, 0, &launch);
    EXPECT_OF(tessera_program_parse, NULL, "t", ADD, 3, &p);
    EXPECT_OF(tessera_compile, NULL, &options, &kernel);
    EXPECT_OF(tessera_infer, NULL, &options, NULL, &in);
    EXPECT_OF(tessera_interpret, NULL, &options, NULL, 0);
    EXPECT_OF(tessera_compile_start, NULL, &options, NULL, NULL, &task);
    EXPECT_OF(tessera_compile_all, NULL, NULL, 0, NULL);
    EXPECT_OF(tessera_task_wait, NULL, &kernel);
    EXPECT_OF(tessera_kernel_emit, NULL, "ir", &bytes);
    EXPECT_OF(tessera_device_open, NULL, "cpu", 0, &device);
    EXPECT_OF(tessera_log, NULL, NULL, NULL);
    EXPECT_OF(tessera_warn, NULL, NULL);
    EXPECT_OF(tessera_pins_use, NULL, NULL);
    EXPECT_OF(tessera_isolate, NULL, TESSERA_ISOLATE_AUTO, NULL, 0);
    EXPECT_OF(tessera_cache_use, NULL, NULL, 0);
    EXPECT_OF(tessera_cache_only, NULL, true);
    EXPECT_OF(tessera_cache_info, NULL, &info);
    EXPECT_OF(tessera_compare, TESSERA_I8, 1, NULL, data, NULL, &d);
    EXPECT_OF(tessera_compare, (TesseraType)-1, 1, data, data, NULL, &d);
    EXPECT_OF(tessera_context_open, TESSERA_ABI, NULL, NULL);
    EXPECT_OF(tessera_context_open, 0, NULL, &(TesseraContext *){NULL});
}
END_TEST

static void *error_of_another_thread(void *user)
{
    *(TesseraStatus *)user = tessera_error(NULL)->status;
    ck_assert_str_eq(tessera_error(NULL)->message, "the context is NULL");
    return NULL;
}

/* It is of the thread that called, and goes with the next failure there. */
START_TEST(failures_without_a_context_are_of_a_thread)
{
    pthread_t thread;
    TesseraStatus status;
    TesseraContext *other;
    ck_assert_int_eq(tessera_context_open(TESSERA_ABI + 1, NULL, &other), TESSERA_ENVIRONMENT);
    ck_assert_ptr_nonnull(strstr(tessera_error(NULL)->message, "older than the header"));
    ck_assert_int_eq(pthread_create(&thread, NULL, error_of_another_thread, &status), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(tessera_error(NULL)->status, TESSERA_ENVIRONMENT);
    expect(tessera_device_open(context, NULL, 0, &device), TESSERA_USAGE, "kind is NULL");
    ck_assert_str_eq(tessera_error(NULL)->message, "the context is NULL");
}
END_TEST

/* Of requests that cannot begin, the first one's error is the context's, as its status is. */
START_TEST(first_of_several_failures)
{
    TesseraRequest requests[3] = {{.options = {.target = "native"}},
                                  {.options = {.target = "nowhere"}},
                                  {.options = {.target = "native", .kernel = "other"}}};
    parse(ADD);
    for (size_t i = 0; i < 3; i++) {
        requests[i].program = program;
    }
    TesseraStatus status = tessera_compile_all(context, requests, 3, NULL);
    expect(status, requests[1].status, "nowhere");
    tessera_kernel_free(requests[0].kernel);
    requests[1].options.kernel = "neither";
    status = tessera_compile_all(context, requests, 3, NULL);
    expect(status, requests[1].status, "neither");
    tessera_kernel_free(requests[0].kernel);
    ck_assert(!requests[1].kernel && !requests[2].kernel);
}
END_TEST

START_TEST(answers_of_nothing)
{
    TesseraType type;
    TesseraDifference d;
    TesseraType wrong = (TesseraType)-1;
    char data[8] = {0};
    tessera_context_free(NULL);
    tessera_program_free(NULL);
    tessera_kernel_free(NULL);
    tessera_device_free(NULL);
    tessera_launch_free(NULL);
    tessera_release(NULL, NULL);
    ck_assert_int_eq(tessera_error(NULL)->status, TESSERA_USAGE);
    ck_assert_str_eq(tessera_warnings(NULL), "");
    ck_assert_uint_eq(tessera_program_kernels(NULL), 0);
    ck_assert_ptr_null(tessera_program_kernel(NULL, 0));
    ck_assert_ptr_null(tessera_program_file(NULL, 0));
    ck_assert_ptr_null(tessera_kernel_signature(NULL));
    ck_assert_ptr_null(tessera_device_info(NULL));
    ck_assert_ptr_null(tessera_target(NULL, 0));
    ck_assert_ptr_null(tessera_target(context, 1000));
    ck_assert_ptr_null(tessera_type_name(wrong));
    ck_assert_ptr_null(tessera_type_name((TesseraType)(TESSERA_F64 + 100)));
    ck_assert(!tessera_type_find(NULL, &type) && !tessera_type_find("f32", NULL));
    ck_assert_uint_eq(tessera_type_bytes(wrong), 0);
    ck_assert(!tessera_type_is_float(wrong));
    tessera_put(wrong, data, 0, 1);
    tessera_put(TESSERA_F64, NULL, 0, 1);
    double got = tessera_get(wrong, data, 0);
    ck_assert(got != got);
    ck_assert_int_eq(tessera_compare(wrong, 1, data, data, NULL, &d), TESSERA_USAGE);
    ck_assert_int_eq(tessera_compare(TESSERA_I8, 1, NULL, data, NULL, &d), TESSERA_USAGE);
    ck_assert_int_eq(tessera_compare(TESSERA_I8, 1, data, data, NULL, NULL), TESSERA_USAGE);
}
END_TEST

UNIT_TESTS(runtime_misuse)
{
    TCase *tests = tcase_create("misuse");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, sizes_from_extents);
    tcase_add_test(tests, no_size_fits);
    tcase_add_test(tests, kernels_of_two_targets);
    tcase_add_test(tests, options_that_cannot_be);
    tcase_add_test(tests, arguments_that_cannot_be);
    tcase_add_test(tests, null_where_objects_are_made);
    tcase_add_test(tests, null_where_objects_are_used);
    tcase_add_test(tests, failures_without_a_context);
    tcase_add_test(tests, failures_without_a_context_are_of_a_thread);
    tcase_add_test(tests, first_of_several_failures);
    tcase_add_test(tests, answers_of_nothing);
    return tests;
}
