/* SPDX-License-Identifier: Apache-2.0 */
/* The public interface: results, the class of each failure, and survival of each failing
 * allocation. */
#include "tests/runtime/harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(errors_of_source)
{
    const char *text = "kernel k(x: f32[N]) -> f32[N] = x + missing\n";
    TesseraStatus status = tessera_program_parse(context, "k.tile", text, strlen(text), &program);
    if (status == TESSERA_OK) {
        TesseraOptions options = {.target = "native"};
        status = compile(&options);
    }
    expect(status, TESSERA_SOURCE, "k.tile:1:");
    ck_assert_ptr_nonnull(strstr(tessera_error(context)->message, "^"));
    TesseraProgram *none;
    expect(tessera_program_parse(context, "<text>", "kernel", 6, &none), TESSERA_SOURCE, "");
    ck_assert_ptr_null(none);
}
END_TEST

START_TEST(errors_of_usage)
{
    const TesseraSignature *signature;
    TesseraOptions options = {.kernel = "first", .target = "sm_90"};
    parse(TWO);
    expect(tessera_program_find(program, NULL, &signature), TESSERA_USAGE, "2 kernels");
    expect(tessera_program_find(program, "secnd", &signature), TESSERA_USAGE, "'second'");
    expect(compile(&options), TESSERA_USAGE, "did you mean 'sm_90a'?");
    options.target = NULL;
    expect(compile(&options), TESSERA_USAGE, "needs a target");
    expect(tessera_device_open(context, "gpu", 0, &device), TESSERA_USAGE, "no device 'gpu'");
    TesseraDebug debug = {.stop_after = "nonsense"};
    expect(tessera_debug(context, &debug), TESSERA_USAGE, "no pass 'nonsense'");
    const char *skip[] = {"tile"};
    debug = (TesseraDebug){.skip = skip, .n_skip = 1};
    expect(tessera_debug(context, &debug), TESSERA_USAGE, "need pass 'tile'");
}
END_TEST

START_TEST(errors_of_environment)
{
    expect(tessera_program_read(context, "/no/such.tile", &program), TESSERA_ENVIRONMENT,
           "/no/such.tile");
    expect(tessera_program_read(context, "/", &program), TESSERA_ENVIRONMENT, "cannot read /");
}
END_TEST

START_TEST(errors_of_schedules)
{
    static const char *const lines[][2] = {
        {"tile", "has no value"},       {"tile 3", "needs a name"},
        {"tiles M 3", "no such key"},   {"warps many", "no such value"},
        {"", "nothing in it"},          {"instruction tensor", "no such value"},
        {"tile M -3", "no such value"},
    };
    parse(ADD);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        TesseraOptions options = {.target = "native", .lines = &lines[i][0], .n_lines = 1};
        expect(compile(&options), TESSERA_USAGE, lines[i][1]);
    }
}
END_TEST

START_TEST(signatures)
{
    TesseraPair bind = {"T", "bf16"};
    TesseraOptions options = {.target = "native", .bindings = &bind, .n_bindings = 1};
    parse(SCALE);
    const TesseraSignature *s = tessera_program_kernel(program, 0);
    ck_assert_str_eq(s->name, "scale");
    ck_assert_uint_eq(s->n_params, 4);
    ck_assert_str_eq(s->params[0].type, "T");
    ck_assert_str_eq(s->params[0].dims[1], "N");
    ck_assert_int_eq(s->params[1].rank, -1);
    ck_assert(s->params[2].is_const);
    ck_assert_int_eq(s->params[3].io, TESSERA_OUT);
    ck_assert_ptr_null(tessera_program_kernel(program, 1));
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    s = tessera_kernel_signature(kernel);
    ck_assert_uint_eq(s->n_params, 3);
    ck_assert_str_eq(s->params[0].type, "bf16");
    ck_assert_str_eq(s->params[2].dims[0], "M");
    ck_assert_uint_eq(s->n_sizes, 2);
}
END_TEST

START_TEST(inference)
{
    TesseraInferred in;
    TesseraSize size = {"M", 3};
    TesseraOptions options = {.sizes = &size, .n_sizes = 1};
    TesseraTensor known[4] = {
        {NULL, TESSERA_F16, 2, {3, 5}, NULL}, {.rank = -1}, {.rank = -1}, {.rank = -1}};
    parse(SCALE);
    ck_assert_int_eq(tessera_infer(program, &options, known, &in), TESSERA_OK);
    ck_assert_uint_eq(in.n_bindings, 1);
    ck_assert_str_eq(in.bindings[0].value, "f16");
    ck_assert_uint_eq(in.n_sizes, 2);
    ck_assert_int_eq(in.sizes[1].value, 5);
    size.value = 4;
    expect(tessera_infer(program, &options, known, &in), TESSERA_SOURCE, "size M is 4 by");
    size.value = 3;
    known[0].rank = 1;
    expect(tessera_infer(program, &options, known, &in), TESSERA_SOURCE,
           "'x' is f16[3], the kernel expects T[M, N]");
    size.name = "Q";
    expect(tessera_infer(program, &options, known, &in), TESSERA_USAGE, "no size 'Q'");
}
END_TEST

/* ---- running ---- */

START_TEST(launches)
{
    TesseraLaunch *launch;
    double seconds;
    float want[N];
    TesseraArg args[3] = {vector(x, N), vector(y, N), vector(z, N)};
    prepare_add(N);
    ck_assert_int_eq(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_OK);
    ck_assert_int_eq(tessera_launch(launch, NULL), TESSERA_OK);
    ck_assert_int_eq(tessera_launch_time(launch, NULL, 3, &seconds), TESSERA_OK);
    ck_assert(seconds > 0);
    tessera_launch_free(launch);
    ck_assert(z[N - 1] == (float)N - 0.5f);
    args[2] = vector(want, N);
    TesseraOptions options = {0};
    TesseraDifference d;
    ck_assert_int_eq(tessera_interpret(program, &options, args, 3), TESSERA_OK);
    ck_assert_int_eq(tessera_compare(TESSERA_F32, N, z, want, NULL, &d), TESSERA_OK);
    z[7] = 1;
    ck_assert_int_eq(tessera_compare(TESSERA_F32, N, z, want, NULL, &d), TESSERA_DIFFERENT);
    ck_assert_uint_eq(d.different, 1);
    ck_assert_uint_eq(d.first, 7);
}
END_TEST

START_TEST(refused_launches)
{
    TesseraLaunch *launch;
    TesseraArg args[3] = {vector(x, 999), vector(y, 999), vector(z, 999)};
    prepare_add(N);
    expect(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_SOURCE,
           "compiled for N % 8 == 0");
    expect(tessera_prepare(kernel, device, args, 2, &launch), TESSERA_USAGE, "takes 3 arguments");
    args[1].tensor.dims[0] = 998;
    expect(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_SOURCE, "");
    args[1] = vector(x + 1, 992);
    args[0] = vector(x, 992);
    args[2] = vector(x, 992);
    expect(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_USAGE, "shares memory");
    args[1].tensor.type = TESSERA_F64;
    expect(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_SOURCE, "holds f64");
    tessera_kernel_free(kernel);
    TesseraOptions options = {.target = "sm_90a"};
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    expect(tessera_prepare(kernel, device, args, 3, &launch), TESSERA_USAGE,
           "was compiled for sm_90a");
}
END_TEST

START_TEST(shapes)
{
    TesseraTensor tensor;
    TesseraSize size = {"N", 12};
    prepare_add(N);
    ck_assert_int_eq(tessera_kernel_shape(kernel, 2, &size, 1, &tensor), TESSERA_OK);
    ck_assert_int_eq(tensor.rank, 1);
    ck_assert_int_eq(tensor.dims[0], 12);
    expect(tessera_kernel_shape(kernel, 2, &size, 0, &tensor), TESSERA_USAGE, "size N");
    expect(tessera_kernel_shape(kernel, 3, &size, 1, &tensor), TESSERA_USAGE, "no parameter 3");
}
END_TEST

START_TEST(derivatives)
{
    TesseraKernel *vjp, *again;
    const char *const by_x[] = {"x"}, *const by_z[] = {"z"};
    prepare_add(N);
    ck_assert_int_eq(tessera_kernel_vjp(kernel, by_x, 1, &vjp), TESSERA_OK);
    const TesseraSignature *signature = tessera_kernel_signature(vjp);
    ck_assert_uint_eq(signature->n_params, 4);
    ck_assert_str_eq(signature->params[3].name, "d_x");
    ck_assert_int_eq(signature->params[3].io, TESSERA_OUT);
    ck_assert_int_eq(tessera_kernel_vjp(vjp, NULL, 0, &again), TESSERA_OK);
    tessera_kernel_free(again);
    expect(tessera_kernel_vjp(kernel, by_z, 1, &again), TESSERA_SOURCE, "no such parameter");
    tessera_kernel_free(vjp);
}
END_TEST

START_TEST(emits)
{
    TesseraBytes bytes;
    prepare_add(N);
    ck_assert_int_eq(tessera_kernel_emit(kernel, "ir", &bytes), TESSERA_OK);
    ck_assert_ptr_nonnull(strstr(bytes.data, "func add"));
    ck_assert_int_eq(tessera_kernel_emit(kernel, "asm", &bytes), TESSERA_OK);
    ck_assert_ptr_nonnull(strstr(bytes.data, "add_0"));
    ck_assert_uint_eq(strlen(bytes.data), bytes.n);
    expect(tessera_kernel_emit(kernel, "ptx", &bytes), TESSERA_USAGE, "no 'ptx'");
    expect(tessera_kernel_emit(kernel, "", &bytes), TESSERA_USAGE, "no ''");
}
END_TEST

START_TEST(elements)
{
    uint16_t half[2];
    int8_t small[2];
    tessera_put(TESSERA_BF16, half, 1, 1.00390625); /* a tie: to even */
    ck_assert(tessera_get(TESSERA_BF16, half, 1) == 1);
    tessera_put(TESSERA_F16, half, 0, 65504);
    ck_assert(tessera_get(TESSERA_F16, half, 0) == 65504);
    tessera_put(TESSERA_I8, small, 0, -3.7);
    ck_assert(tessera_get(TESSERA_I8, small, 0) == -3);
    ck_assert_str_eq(tessera_type_name(TESSERA_BF16), "bf16");
    TesseraType type;
    ck_assert(tessera_type_find("u64", &type) && type == TESSERA_U64);
    ck_assert(!tessera_type_find("float", &type));
}
END_TEST

/* ---- the assembler that the environment names ---- */

/* A program that copies its input to the file after -o, or does not. */
static void write_assembler(const char *path, const char *last_line)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "#!/bin/sh\nwhile [ \"$1\" != -o ]; do in=$1; shift; done\n%s\n", last_line);
    fclose(file);
    ck_assert_int_eq(chmod(path, 0700), 0);
}

START_TEST(named_assembler)
{
    char path[] = "/tmp/tessera-ptxas-XXXXXX";
    int file = mkstemp(path);
    TesseraBytes bytes;
    TesseraOptions options = {.target = "sm_90a"};
    ck_assert_int_ge(file, 0);
    close(file);
    parse(ADD);
    ck_assert_int_eq(compile(&options), TESSERA_OK);
    setenv("TESSERA_PTXAS", path, 1);
    write_assembler(path, "cat \"$in\" >\"$2\"");
    ck_assert_int_eq(tessera_kernel_emit(kernel, "cubin", &bytes), TESSERA_OK);
    ck_assert_ptr_nonnull(strstr(bytes.data, ".target sm_90a"));
    write_assembler(path, "echo no such register; exit 1");
    expect(tessera_kernel_emit(kernel, "cubin", &bytes), TESSERA_INTERNAL, "no such register");
    ck_assert_ptr_nonnull(tessera_error(context)->reproducer);
    ck_assert_uint_eq(bytes.n, 0);
    unlink(path);
    expect(tessera_kernel_emit(kernel, "cubin", &bytes), TESSERA_ENVIRONMENT, path);
    unsetenv("TESSERA_PTXAS");
}
END_TEST

/* ---- looking at programs ---- */

START_TEST(formatting)
{
    const char *text = "kernel k(x:f32[N])->f32[N]=x  # same\n", *formatted;
    ck_assert_int_eq(tessera_format(context, "k", text, strlen(text), &formatted), TESSERA_OK);
    ck_assert_str_eq(formatted, "kernel k(x: f32[N]) -> f32[N] = x  # same\n");
    ck_assert_int_eq(tessera_format(context, "k", "", 0, &formatted), TESSERA_OK);
    ck_assert_str_eq(formatted, "");
    expect(tessera_format(context, "k", "kernel (", 8, &formatted), TESSERA_SOURCE, "k:1:8");
    ck_assert_ptr_null(formatted);
    expect(tessera_format(context, "k", "a\0b", 3, &formatted), TESSERA_SOURCE, "zero byte");
}
END_TEST

START_TEST(facts_and_accesses)
{
    TesseraFact fact;
    TesseraAccesses accesses;
    prepare_add(N);
    ck_assert_int_eq(tessera_kernel_fact(kernel, 0, &fact), TESSERA_OK);
    ck_assert_str_eq(fact.name, "N");
    ck_assert_int_eq(fact.multiple, 8);
    ck_assert_int_eq(fact.most, 1024);
    ck_assert_int_eq(tessera_kernel_accesses(kernel, &accesses), TESSERA_OK);
    ck_assert_uint_ge(accesses.inside + accesses.guarded, 3);
    ck_assert_uint_eq(accesses.n_float_sums, 0);
    ck_assert_ptr_null(tessera_program_file(program, 0)); /* it was in no file */
}
END_TEST

/* All floats are f64: a third has no room in f32. */
START_TEST(wide_interpretation)
{
    static const char third[] = "kernel third(x: T[N], y: f32[N]) -> f32[N] where T: float {\n"
                                "    return f32(x) / y\n}\n";
    double a = 1, b = 3, quotient = 0;
    TesseraPair bind = {"T", "bf16"};
    TesseraOptions options = {.bindings = &bind, .n_bindings = 1, .wide = true};
    TesseraArg args[3] = {{.tensor = {&a, TESSERA_F64, 1, {1}}},
                          {.tensor = {&b, TESSERA_F64, 1, {1}}},
                          {.tensor = {&quotient, TESSERA_F64, 1, {1}}}};
    parse(third);
    ck_assert_int_eq(tessera_interpret(program, &options, args, 3), TESSERA_OK);
    ck_assert(quotient == a / b);
    options.wide = false;
    expect(tessera_interpret(program, &options, args, 3), TESSERA_SOURCE, "'x' is f64");
}
END_TEST

START_TEST(traces)
{
    TesseraArg args[3] = {vector(x, 3), vector(y, 3), vector(z, 3)};
    TesseraOptions options = {0};
    TesseraDebug debug = {.trace = "out", .trace_rank = 9};
    prepare_add(N);
    expect(tessera_debug(context, &debug), TESSERA_USAGE, "9 indices");
    debug = (TesseraDebug){.trace = "out", .trace_rank = 1, .trace_index = {3}};
    ck_assert_int_eq(tessera_debug(context, &debug), TESSERA_OK);
    expect(tessera_interpret(program, &options, args, 3), TESSERA_USAGE, "nothing is stored to");
    debug.trace_index[0] = -1;
    ck_assert_int_eq(tessera_debug(context, &debug), TESSERA_OK);
    expect(tessera_interpret(program, &options, args, 3), TESSERA_USAGE, "out[-1]");
    debug = (TesseraDebug){.trap_nan = true};
    ck_assert_int_eq(tessera_debug(context, &debug), TESSERA_OK);
    ck_assert_int_eq(tessera_interpret(program, &options, args, 3), TESSERA_OK);
    x[1] = 1.0f / 0.0f;
    y[1] = -x[1];
    expect(tessera_interpret(program, &options, args, 3), TESSERA_FAULT, "`add` makes a NaN");
}
END_TEST

/* ---- memory that runs out ---- */

/* All but machine code, whose memory is LLVM's. */
static TesseraStatus use(TesseraContext *c, TesseraProgram **p, TesseraKernel **k)
{
    TesseraBytes bytes;
    TesseraInferred in;
    TesseraPair bind = {"T", "f32"};
    TesseraSize some[] = {{"M", 2}, {"N", 8}};
    float data[16] = {1};
    TesseraOptions options = {
        .target = "sm_90a", .bindings = &bind, .n_bindings = 1, .sizes = some, .n_sizes = 2};
    TesseraArg args[] = {{.tensor = {data, TESSERA_F32, 2, {2, 8}}},
                         {.number = 2},
                         {.tensor = {data + 0, TESSERA_F32, 2, {2, 8}}}};
    TesseraStatus status = tessera_program_parse(c, "<text>", SCALE, strlen(SCALE), p);
    const char *formatted;
    status = status ? status : tessera_format(c, "<text>", SCALE, strlen(SCALE), &formatted);
    status = status ? status : tessera_infer(*p, &options, NULL, &in);
    status = status ? status : tessera_compile(*p, &options, k);
    status = status ? status : tessera_kernel_emit(*k, "ir", &bytes);
    return status ? status : tessera_interpret(*p, &options, args, 3);
}

static TesseraStatus use_counting(Counting *counting)
{
    TesseraAllocator allocator = {counting_alloc, counting_release, counting};
    TesseraContext *c = NULL;
    TesseraProgram *p = NULL;
    TesseraKernel *k = NULL;
    TesseraStatus status = tessera_context_new(&allocator, &c);
    if (status == TESSERA_OK) {
        status = use(c, &p, &k);
        ck_assert_msg(status == TESSERA_OK || *tessera_error(c)->message, "no message");
    }
    tessera_kernel_free(k);
    tessera_program_free(p);
    tessera_context_free(c);
    ck_assert_int_eq(counting->open, 0);
    return status;
}

START_TEST(allocation_failures)
{
    Counting counting = {0};
    ck_assert_int_eq(use_counting(&counting), TESSERA_OK);
    int n = counting.allocations;
    ck_assert_int_gt(n, 5);
    for (int i = 1; i <= n; i++) {
        counting = (Counting){.fail_at = i};
        ck_assert_int_eq(use_counting(&counting), TESSERA_ENVIRONMENT);
    }
    printf("%d allocations failed once each\n", n);
}
END_TEST

UNIT_TESTS(runtime_api)
{
    TCase *tests = tcase_create("api");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, errors_of_source);
    tcase_add_test(tests, errors_of_usage);
    tcase_add_test(tests, errors_of_environment);
    tcase_add_test(tests, errors_of_schedules);
    tcase_add_test(tests, signatures);
    tcase_add_test(tests, inference);
    tcase_add_test(tests, launches);
    tcase_add_test(tests, refused_launches);
    tcase_add_test(tests, shapes);
    tcase_add_test(tests, derivatives);
    tcase_add_test(tests, emits);
    tcase_add_test(tests, elements);
    tcase_add_test(tests, named_assembler);
    tcase_add_test(tests, formatting);
    tcase_add_test(tests, facts_and_accesses);
    tcase_add_test(tests, wide_interpretation);
    tcase_add_test(tests, traces);
    tcase_add_test(tests, allocation_failures);
    return tests;
}
