/* SPDX-License-Identifier: Apache-2.0 */
/* Compares CPU code with the interpreter: programs of tests/codegen/cpu, random data, many sizes.
 */
#include "codegen/codegen.h"
#include "ir/interp/interp.h"
#include "ir/ir_errors.h"
#include "ir/scalar_eval.h"
#include "ir/target/target.h"
#include "ir/text/ir_text.h"
#include "ir/verify/verify.h"
#include "tests/codegen/cpu_programs.h"
#include "tests/unit.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Program {
    Arena arena;
    Diags diags;
    Func *func;
    JitCode *jit;
    Plan plan;
} Program;

static const CodegenOptions OPTIMIZED = {.optimize = 3}, PLAIN = {.optimize = 0};

static char *read_file(Arena *arena, const char *path)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s: cannot be read", path);
    char *text = arena_alloc(arena, 1 << 16);
    size_t n = fread(text, 1, (1 << 16) - 1, file);
    fclose(file);
    text[n] = 0;
    return text;
}

static void show_diags(Program *program)
{
    Text text = text_new(&program->arena);
    diags_render(&program->diags, &text);
    ck_abort_msg("%s", text.data);
}

static void open_text(Program *program, const char *name, const char *text, const Target *target,
                      const CodegenOptions *options)
{
    jmp_buf guard;
    program->arena.guard = &guard;
    program->diags.bug_guard = &guard;
    if (setjmp(guard)) {
        show_diags(program);
    }
    int source = diags_add_source(&program->diags, name, text, strlen(text));
    program->func = parse_func(&program->arena, &program->diags, source);
    if (!program->func) {
        show_diags(program);
    }
    Text problems = text_new(&program->arena);
    ck_assert_msg(verify_func(program->func, &problems) == 0, "%s", problems.data);
    program->func->target = target;
    Code code;
    if (codegen_emit(program->func, EMIT_OBJ, options, &code, &program->plan)) {
        program->jit = codegen_jit(program->func, &code, &program->plan);
    }
    if (!program->jit) {
        show_diags(program);
    }
    program->arena.guard = NULL;
    program->diags.bug_guard = NULL;
}

static void start_program(Program *program)
{
    memset(program, 0, sizeof *program);
    arena_init(&program->arena, allocator_default());
    diags_init(&program->diags, &program->arena);
}

static void open_program(Program *program, const char *name, const Target *target,
                         const CodegenOptions *options)
{
    start_program(program);
    const char *path = arena_printf(&program->arena, "tests/codegen/cpu/%s.ir", name);
    open_text(program, path, read_file(&program->arena, path), target, options);
}

static void close_program(Program *program)
{
    jit_free(program->jit);
    arena_free(&program->arena);
}

/* ---- data ---- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Any bits, and often a number that is special in some type. */
static void fill_special(DType dtype, unsigned char *data, int64_t n, uint32_t *state)
{
    static const double NUMBERS[] = {0,
                                     -0.0,
                                     1,
                                     -1,
                                     INFINITY,
                                     -INFINITY,
                                     NAN,
                                     0.5,
                                     -2.5,
                                     65504,
                                     65520,
                                     3e38,
                                     1e-40,
                                     2,
                                     31,
                                     64,
                                     -128,
                                     255,
                                     2147483648.0,
                                     -3,
                                     7,
                                     1e19,
                                     -9.3e18,
                                     1e-7,
                                     5.96e-8,
                                     1.17e-38,
                                     9007199254740993.0};
    size_t bytes = (size_t)dtype_bytes(dtype);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = (uint64_t)next_random(state) << 40 ^ (uint64_t)next_random(state) << 20 ^
                        next_random(state);
        double number = NUMBERS[next_random(state) % (sizeof NUMBERS / sizeof *NUMBERS)];
        if (dtype == DT_BOOL) {
            data[i] = bits & 1;
        } else if (next_random(state) % 3 == 0 && !dtype_is_packed(dtype)) {
            memcpy(data + (size_t)i * bytes, &bits, bytes);
        } else {
            Scalar value = scalar_op(OP_CAST, NULL, DT_F64, dtype, &(Scalar){.f = number});
            scalar_pack(dtype, data, (size_t)i, value);
        }
    }
}

static void fill_random(DType dtype, unsigned char *data, int64_t n, uint32_t *state)
{
    for (int64_t i = 0; i < n; i++) {
        double unit = (double)next_random(state) / (1 << 23) - 1;
        Scalar value = {.f = unit * 3};
        if (!dtype_is_float(dtype)) {
            value.i = (int64_t)(unit * 100);
        }
        scalar_pack(dtype, data, (size_t)i, value);
    }
}

static int64_t elements_of(Type type, const int64_t *sizes)
{
    int64_t n = 1;
    for (int i = 0; i < type->rank; i++) {
        int64_t extent;
        ck_assert(poly_eval(type->dims[i], sizes, &extent));
        n *= extent;
    }
    return n;
}

/* ---- one run ---- */

typedef void Filler(DType dtype, unsigned char *data, int64_t n, uint32_t *state);

enum { MAX_PARAMS = 40 };

typedef struct Arrays {
    InterpArg args[MAX_PARAMS];
    void *mine[MAX_PARAMS];
    int64_t n[MAX_PARAMS];
} Arrays;

static const int64_t MARGIN = 64; /* bytes around outputs that nobody may write */

static void make_arrays(Program *program, const int64_t *sizes, Filler *fill, uint32_t seed,
                        Arrays *arrays)
{
    memset(arrays, 0, sizeof *arrays);
    for (size_t i = 0; i < program->func->params.n; i++) {
        Type type = program->func->params.items[i].value->type;
        if (type->kind != TYPE_TENSOR) {
            arrays->args[i].number = 0.25;
            arrays->args[i].integer = 20;
            continue;
        }
        int64_t n = elements_of(type, sizes);
        int64_t bytes = (int64_t)dtype_size(type->dtype, (size_t)n) + 2 * MARGIN;
        unsigned char *theirs = malloc((size_t)bytes), *mine = malloc((size_t)bytes);
        memset(theirs, 0x5a, (size_t)bytes);
        fill(type->dtype, theirs + MARGIN, n, &seed);
        memcpy(mine, theirs, (size_t)bytes);
        arrays->args[i].tensor.data = theirs + MARGIN;
        arrays->args[i].tensor.bound = calloc((size_t)n + 1, sizeof(double));
        arrays->mine[i] = mine + MARGIN;
        arrays->n[i] = n;
    }
}

static void free_arrays(Arrays *arrays)
{
    for (int i = 0; i < MAX_PARAMS; i++) {
        if (arrays->mine[i]) {
            free((char *)arrays->mine[i] - MARGIN);
            free((char *)arrays->args[i].tensor.data - MARGIN);
            free(arrays->args[i].tensor.bound);
        }
    }
}

static int64_t blocks_of(const PlanLaunch *launch, const int64_t *by_index)
{
    int64_t blocks = 1;
    for (int i = 0; i < launch->n_axes; i++) {
        int64_t extent = 0, step = launch->axes[i].step ? launch->axes[i].step : 1;
        for (int j = 0; j < launch->axes[i].extent.n; j++) {
            const PlanTerm *term = &launch->axes[i].extent.terms[j];
            int64_t product = term->coef;
            for (int k = 0; k < term->n; k++) {
                product *= by_index[term->vars[k]];
            }
            extent += product;
        }
        int64_t from = launch->axes[i].from, upto = launch->axes[i].upto;
        extent = upto > 0 && upto < extent ? upto : extent;
        extent = extent > from ? extent - from : 0;
        blocks *= (extent + step - 1) / step;
    }
    return blocks;
}

typedef void LaunchFn(void *const *args, int64_t first, int64_t last);

static void run_jit(Program *program, Arrays *arrays, int64_t *by_index)
{
    float number = 0.25f;
    int64_t integer = 20;
    for (int i = 0; i < program->plan.n_launches; i++) {
        const PlanLaunch *launch = &program->plan.launches[i];
        void *args[MAX_PARAMS + 8];
        for (int j = 0; j < launch->n_args; j++) {
            int index = launch->args[j].index;
            bool is_float = launch->args[j].kind == ARG_SCALAR &&
                            dtype_is_float(program->plan.params[index].dtype);
            args[j] = launch->args[j].kind == ARG_POINTER ? arrays->mine[index]
                      : launch->args[j].kind == ARG_SIZE  ? (void *)&by_index[index]
                      : is_float                          ? (void *)&number
                                                          : (void *)&integer;
        }
        LaunchFn *run = (LaunchFn *)(uintptr_t)jit_symbol(program->jit, launch->symbol);
        int64_t blocks = blocks_of(launch, by_index);
        run(args, blocks / 2, blocks); /* in any order, in any parts */
        run(args, 0, blocks / 2);
    }
}

static double as_double(DType dtype, const void *array, int64_t i)
{
    Scalar value = scalar_unpack(dtype, array, (size_t)i);
    return dtype_is_float(dtype) ? value.f : (double)value.i;
}

static void compare_margin(const Param *param, const Arrays *arrays, size_t i)
{
    const unsigned char *mine = arrays->mine[i];
    int64_t bytes = (int64_t)dtype_size(param->value->type->dtype, (size_t)arrays->n[i]);
    for (int64_t j = 1; j <= MARGIN; j++) {
        if (mine[-j] != 0x5a || mine[bytes + j - 1] != 0x5a) {
            ck_abort_msg("written outside of %s", param->name);
        }
    }
}

static void compare(Program *program, const char *name, const Arrays *arrays, const char *sizes)
{
    for (size_t i = 0; i < program->func->params.n; i++) {
        const Param *param = &program->func->params.items[i];
        if (!arrays->mine[i]) {
            continue;
        }
        compare_margin(param, arrays, i);
        DType dtype = param->value->type->dtype;
        for (int64_t j = 0; j < arrays->n[i]; j++) {
            double a = as_double(dtype, arrays->args[i].tensor.data, j);
            double b = as_double(dtype, arrays->mine[i], j);
            double bound = arrays->args[i].tensor.bound[j];
            bool same = a == b && signbit(a) == signbit(b);
            bool good = (isnan(a) && isnan(b)) || same || (bound > 0 && fabs(a - b) <= bound);
            if (!good) { /* an assertion each would cost more than the rest */
                ck_abort_msg("%s (%s): %s[%lld] is %.9g, the interpreter says %.9g ± %.3g", name,
                             sizes, param->name, (long long)j, b, a, bound);
            }
        }
    }
}

static void run_sizes(Program *program, const char *name, Filler *fill, const int64_t *values)
{
    int64_t sizes[64] = {0}, by_index[16] = {0};
    int n = 0;
    Text shown = text_new(&program->arena), problem = text_new(&program->arena);
    for (size_t i = 0; i < program->func->dimvars.n; i++) {
        const DimVar *var = program->func->dimvars.items[i];
        if (var->kind == DIM_SIZE) {
            sizes[var->id] = by_index[n] = values[n];
            text_printf(&shown, "%s=%lld ", var->name, (long long)values[n++]);
        }
    }
    Arrays arrays;
    make_arrays(program, sizes, fill, (uint32_t)(values[0] * 31 + values[1]), &arrays);
    InterpOptions options = {.seed = 1, .bounds = true};
    jmp_buf guard;
    program->arena.guard = &guard;
    program->diags.bug_guard = &guard;
    if (setjmp(guard)) {
        show_diags(program);
    }
    bool ran = interp_func(program->func, arrays.args, sizes, &options, &problem);
    ck_assert_msg(ran, "%s: %s", name, problem.data);
    run_jit(program, &arrays, by_index);
    compare(program, name, &arrays, shown.data);
    free_arrays(&arrays);
}

static const int64_t SIZES[][3] = {
    {1, 1, 1},    {2, 3, 5},     {16, 16, 16},   {7, 48, 64},  {48, 64, 64},
    {49, 65, 65}, {31, 127, 17}, {64, 128, 128}, {5, 300, 40}, {96, 20, 129},
    {0, 5, 3},    {5, 0, 3},     {9, 33, 0},
};
static const Target *const NATIVE = NULL;

static void check_program_as(const char *name, const Target *target, const CodegenOptions *options)
{
    Program program;
    open_program(&program, name, target ? target : target_find("native"), options);
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        run_sizes(&program, name, fill_random, SIZES[i]);
    }
    close_program(&program);
}

static void check_program(const char *name, const Target *target)
{
    check_program_as(name, target, &OPTIMIZED);
}

START_TEST(agrees_with_interpreter)
{
    static const char *const NAMES[] = {
        "add",    "softmax", "linear",  "linear_bf16", "linear_f16", "matmul", "attention",
        "shapes", "gather",  "scatter", "scan",        "fold",       "while",  "bytes"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        check_program(NAMES[i], NATIVE);
    }
}
END_TEST

START_TEST(agrees_without_optimizing)
{
    static const char *const NAMES[] = {"softmax", "gather", "scatter", "scan", "fold", "while"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        check_program_as(NAMES[i], NATIVE, &PLAIN);
    }
}
END_TEST

static Target old_processor(void)
{
    Target old = *target_find("x86-64-v3");
    old.name = old.cpu = "x86-64-v2";
    old.vector_bytes = 16;
    return old;
}

/* Processors without fma or f16 instructions emulate them, bit for bit. */
START_TEST(old_processors_agree)
{
    Target old = old_processor();
    static const char *const OLD[] = {"softmax", "shapes",  "linear_f16", "attention",
                                      "gather",  "scatter", "while"};
    static const char *const V3[] = {"linear", "linear_bf16", "gather", "scan", "fold"};
    for (size_t i = 0; i < sizeof OLD / sizeof *OLD; i++) {
        check_program(OLD[i], &old);
    }
    for (size_t i = 0; i < sizeof V3 / sizeof *V3; i++) {
        check_program(V3[i], target_find("x86-64-v3"));
    }
}
END_TEST

/* ---- every elementwise op on every type ---- */

static void check_ops(DType dtype, bool casts, const Target *target)
{
    Program program;
    start_program(&program);
    const char *name =
        arena_printf(&program.arena, "%s of %s", casts ? "casts" : "ops", dtype_name(dtype));
    open_text(&program, name, op_program(&program.arena, dtype, casts), target, &OPTIMIZED);
    run_sizes(&program, name, fill_special, (int64_t[]){1500, 0});
    close_program(&program);
}

START_TEST(elements_agree)
{
    Target old = old_processor();
    for (int i = 0; i < DT_COUNT; i++) {
        DType dtype = (DType)i;
        bool arithmetic = dtype != DT_BOOL && !dtype_is_narrow(dtype);
        for (int casts = arithmetic ? 0 : 1; casts < 2; casts++) {
            check_ops(dtype, casts, target_find("native"));
            check_ops(dtype, casts, &old);
        }
    }
}
END_TEST

/* ---- what is indexed, scanned, folded, of every type ---- */

/* Special numbers, but indices that often hit. */
static void fill_indexed(DType dtype, unsigned char *data, int64_t n, uint32_t *state)
{
    Filler *fill = dtype == DT_I32 ? fill_random : fill_special;
    fill(dtype, data, n, state);
}

START_TEST(indexed_elements_agree)
{
    for (int i = 0; i < DT_COUNT; i++) {
        Program program;
        start_program(&program);
        const char *name = arena_printf(&program.arena, "indexed %s", dtype_name((DType)i));
        open_text(&program, name, index_program(&program.arena, (DType)i), target_find("native"),
                  &OPTIMIZED);
        run_sizes(&program, name, fill_indexed, (int64_t[]){199, 0});
        run_sizes(&program, name, fill_indexed, (int64_t[]){32, 0});
        close_program(&program);
    }
}
END_TEST

/* ---- refusals ---- */

START_TEST(refuses_large_tiles)
{
    static const char *const TEXT =
        "func big level loop padded target native {\n  size M\n  in %x: tensor<f32[M, 4096]>\n"
        "  out %y: tensor<f32[4096, 4096]>\n  body {\n    launch dims=[M] steps=[256] warps=[1] {\n"
        "      (%m: range)\n      %0 = load %x[%m, :] guard=[1, 0] : f32[%m, 4096]\n"
        "      %1 = permute %0 perm=[1, 0] : f32[4096, %m]\n"
        "      %2 = dot %1, %0 : f32[4096, 4096]\n      store %y[:, :], %2\n    }\n  }\n}\n";
    Program program;
    start_program(&program);
    int source = diags_add_source(&program.diags, "big", TEXT, strlen(TEXT));
    program.func = parse_func(&program.arena, &program.diags, source);
    ck_assert_ptr_nonnull(program.func);
    Code code;
    ck_assert(!codegen_emit(program.func, EMIT_OBJ, &OPTIMIZED, &code, &program.plan));
    ck_assert_int_eq(program.diags.errors, 1);
    ck_assert_int_eq(program.diags.list.items[0].code, 511);
    close_program(&program);
}
END_TEST

UNIT_TESTS(codegen_cpu)
{
    TCase *tests = tcase_create("cpu");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, agrees_with_interpreter);
    tcase_add_test(tests, old_processors_agree);
    tcase_add_test(tests, agrees_without_optimizing);
    tcase_add_test(tests, elements_agree);
    tcase_add_test(tests, indexed_elements_agree);
    tcase_add_test(tests, refuses_large_tiles);
    return tests;
}
