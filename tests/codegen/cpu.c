/* SPDX-License-Identifier: Apache-2.0 */
/* CPU code against the interpreter: programs of tests/codegen/cpu, random data, many sizes. */
#include "codegen/codegen.h"
#include "ir/interp.h"
#include "ir/target.h"
#include "ir/verify.h"
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

static const CodegenOptions OPTIMIZED = {.optimize = 3};

static char *read_file(Arena *arena, const char *path, size_t *n)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s: cannot be read", path);
    char *text = arena_alloc(arena, 1 << 16);
    *n = fread(text, 1, (1 << 16) - 1, file);
    fclose(file);
    return text;
}

static void show_diags(Program *program)
{
    Text text = text_new(&program->arena);
    diags_render(&program->diags, &text);
    ck_abort_msg("%s", text.data);
}

/* Not on the test's stack: a jump to the guard must find it unchanged. */
static void open_program(Program *program, const char *name, const Target *target)
{
    jmp_buf guard;
    memset(program, 0, sizeof *program);
    arena_init(&program->arena, allocator_default());
    diags_init(&program->diags, &program->arena);
    program->arena.guard = &guard;
    program->diags.bug_guard = &guard;
    if (setjmp(guard)) {
        show_diags(program);
    }
    size_t n;
    const char *path = arena_printf(&program->arena, "tests/codegen/cpu/%s.ir", name);
    const char *text = read_file(&program->arena, path, &n);
    int source = diags_add_source(&program->diags, path, text, n);
    program->func = parse_func(&program->arena, &program->diags, source);
    if (!program->func) {
        show_diags(program);
    }
    Text problems = text_new(&program->arena);
    ck_assert_msg(verify_func(program->func, &problems) == 0, "%s", problems.data);
    program->func->target = target;
    program->jit = codegen_jit(program->func, &OPTIMIZED, &program->plan);
    if (!program->jit) {
        show_diags(program);
    }
    program->arena.guard = NULL;
    program->diags.bug_guard = NULL;
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

static void fill_random(DType dtype, unsigned char *data, int64_t n, uint32_t *state)
{
    for (int64_t i = 0; i < n; i++) {
        double unit = (double)next_random(state) / (1 << 23) - 1;
        Scalar value = {.f = unit * 3};
        if (!dtype_is_float(dtype)) {
            value.i = (int64_t)(unit * 100);
        }
        scalar_store(dtype, data + i * dtype_bytes(dtype), value);
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

typedef struct Arrays {
    InterpArg args[8];
    void *mine[8];
    int64_t n[8];
} Arrays;

static const int64_t MARGIN = 64; /* bytes around outputs that nobody may write */

static void make_arrays(Program *program, const int64_t *sizes, uint32_t seed, Arrays *arrays)
{
    memset(arrays, 0, sizeof *arrays);
    for (size_t i = 0; i < program->func->params.n; i++) {
        Type type = program->func->params.items[i].value->type;
        if (type->kind != TYPE_TENSOR) {
            arrays->args[i].number = 0.25;
            arrays->args[i].integer = 20;
            continue;
        }
        int64_t n = elements_of(type, sizes), bytes = n * dtype_bytes(type->dtype) + 2 * MARGIN;
        unsigned char *theirs = malloc((size_t)bytes), *mine = malloc((size_t)bytes);
        memset(theirs, 0x5a, (size_t)bytes);
        fill_random(type->dtype, theirs + MARGIN, n, &seed);
        memcpy(mine, theirs, (size_t)bytes);
        arrays->args[i].tensor.data = theirs + MARGIN;
        arrays->args[i].tensor.bound = calloc((size_t)n + 1, sizeof(double));
        arrays->mine[i] = mine + MARGIN;
        arrays->n[i] = n;
    }
}

static void free_arrays(Arrays *arrays)
{
    for (int i = 0; i < 8; i++) {
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
        void *args[24];
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

static double as_double(DType dtype, const void *at)
{
    Scalar value = scalar_load(dtype, at);
    return dtype_is_float(dtype) ? value.f : (double)value.i;
}

static void compare_margin(const Param *param, const Arrays *arrays, size_t i)
{
    const unsigned char *mine = arrays->mine[i];
    int64_t bytes = arrays->n[i] * dtype_bytes(param->value->type->dtype);
    for (int64_t j = 1; j <= MARGIN; j++) {
        ck_assert_msg(mine[-j] == 0x5a, "written before %s", param->name);
        ck_assert_msg(mine[bytes + j - 1] == 0x5a, "written after %s", param->name);
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
            const char *theirs = arrays->args[i].tensor.data, *mine = arrays->mine[i];
            double a = as_double(dtype, theirs + j * dtype_bytes(dtype));
            double b = as_double(dtype, mine + j * dtype_bytes(dtype));
            bool good = (isnan(a) && isnan(b)) || a == b ||
                        fabs(a - b) <= arrays->args[i].tensor.bound[j];
            ck_assert_msg(good, "%s (%s): %s[%lld] is %.9g, the interpreter says %.9g ± %.3g", name,
                          sizes, param->name, (long long)j, b, a, arrays->args[i].tensor.bound[j]);
        }
    }
}

static void run_sizes(Program *program, const char *name, const int64_t *values)
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
    make_arrays(program, sizes, (uint32_t)(values[0] * 31 + values[1]), &arrays);
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
    {1, 1, 1},    {2, 3, 5},    {16, 16, 16},  {7, 48, 64},   {48, 64, 64},  {49, 65, 65},
    {31, 127, 17}, {64, 128, 128}, {5, 300, 40}, {96, 20, 129}, {0, 5, 3}, {5, 0, 3}, {9, 33, 0},
};
static const Target *const NATIVE = NULL;

static void check_program(const char *name, const Target *target)
{
    Program program;
    open_program(&program, name, target ? target : target_find("native"));
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        run_sizes(&program, name, SIZES[i]);
    }
    close_program(&program);
}

START_TEST(agrees_with_interpreter)
{
    static const char *const NAMES[] = {"add",     "softmax", "linear",    "linear_bf16",
                                        "linear_f16", "matmul", "attention", "shapes"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        check_program(NAMES[i], NATIVE);
    }
}
END_TEST

/* Processors without fma or f16 instructions emulate them, bit for bit. */
START_TEST(old_processors_agree)
{
    Target old = *target_find("x86-64-v3");
    old.cpu = "x86-64-v2";
    old.name = "x86-64-v2";
    old.vector_bytes = 16;
    check_program("softmax", &old);
    check_program("shapes", &old);
    check_program("linear_f16", &old);
    check_program("attention", &old);
    check_program("linear", target_find("x86-64-v3"));
    check_program("linear_bf16", target_find("x86-64-v3"));
}
END_TEST

UNIT_TESTS(codegen_cpu)
{
    TCase *tests = tcase_create("cpu");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, agrees_with_interpreter);
    tcase_add_test(tests, old_processors_agree);
    return tests;
}
