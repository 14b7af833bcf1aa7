/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile programs: mutated examples. For any input the front end returns IR that verifies, or
 * errors that render. A crash names its seed: TESSERA_SEED=n runs that one; TESSERA_MUTATIONS=n
 * sets the number of programs. */
#include "frontend/frontend.h"
#include "tests/mutant.h"
#include "tests/unit.h"

#include <string.h>

enum { MUTATIONS = 4000, CHANGES = 6 };

static const char *const FILES[] = {"examples/add.tile",
                                    "examples/softmax.tile",
                                    "examples/linear.tile",
                                    "examples/attention.tile",
                                    "tests/frontend/everything.tile",
                                    "tests/lang/inputs/lanes.tile",
                                    "tests/lang/inputs/control.tile",
                                    "tests/lang/inputs/folds.tile",
                                    "tests/lang/inputs/atomics.tile",
                                    "tests/lang/inputs/conv.tile"};
static const Binding BINDINGS[] = {
    {"T", "bf16"}, {"D", "64"}, {"causal", "true"}, {"stride", "2"}, {"pad", "1"}};
enum { MAX_GIVEN = sizeof BINDINGS / sizeof *BINDINGS };

/* Pieces of the language, and what no program should hold. */
static const char *const PIECES[] = {"(",
                                     ")",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     ",",
                                     ":",
                                     "=",
                                     "->",
                                     "@",
                                     ".T",
                                     "*",
                                     "+",
                                     "-",
                                     "/",
                                     "//",
                                     "%",
                                     "..",
                                     "if",
                                     "else",
                                     "for",
                                     "in",
                                     "by",
                                     "parallel",
                                     "let",
                                     "var",
                                     "return",
                                     "assume",
                                     "fn",
                                     "kernel",
                                     "x",
                                     "y",
                                     "q",
                                     "i",
                                     "j",
                                     "M",
                                     "N",
                                     "D",
                                     "T",
                                     "f32",
                                     "bf16",
                                     "i64",
                                     "bool",
                                     "inf",
                                     "None",
                                     "axis=",
                                     "0",
                                     "1",
                                     "-1",
                                     "1.5",
                                     "1e39",
                                     "9223372036854775807",
                                     "0xffffffff",
                                     "true",
                                     "and",
                                     "not",
                                     "max(",
                                     "sum(x, axis=1)",
                                     "[:, None]",
                                     "index(i)",
                                     "end(j)",
                                     "zeros(f32[i, j])",
                                     "f32[",
                                     "\n",
                                     "#",
                                     ";",
                                     "\"",
                                     "\x80",
                                     "\xff\xfe",
                                     "((((((((",
                                     "[[[[[[[[",
                                     "{{{{{{{{",
                                     "<",
                                     "==",
                                     ">>",
                                     "exp(",
                                     "fast.exp(",
                                     "M*M*M*M*M",
                                     "x[0]",
                                     "ir.bits(",
                                     "schedule k {",
                                     "tune k {",
                                     "tile M 64",
                                     "where",
                                     "float",
                                     "sum(i in N)",
                                     "argmax(j in M if i > j)",
                                     "(x[i - 1] else 0)",
                                     "let t[i in N] =",
                                     "let (a, b) =",
                                     "(x, y)",
                                     "parallel i in N {",
                                     "for k in i..j {",
                                     "while",
                                     "break",
                                     "+=",
                                     "if x[i] > 0 {",
                                     "}",
                                     "y[i] =",
                                     "atomic.add(",
                                     "cumsum(",
                                     "reduce(max,",
                                     "init=0",
                                     "// 2",
                                     "% N",
                                     "[a]",
                                     "[:, i]",
                                     NULL};

/* Has it a type, a const or a size of that name? */
static bool wants(const KernelSignature *kernel, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < kernel->generics.n; i++) {
        found = found || strcmp(kernel->generics.items[i], name) == 0;
    }
    for (size_t i = 0; i < kernel->sizes.n; i++) {
        found = found || strcmp(kernel->sizes.items[i], name) == 0;
    }
    for (size_t i = 0; i < kernel->params.n; i++) {
        const KernelParam *param = &kernel->params.items[i];
        found = found || (param->is_const && strcmp(param->name, name) == 0);
    }
    return found;
}

static void lower(Module *module, const KernelSignature *kernel)
{
    Binding given[MAX_GIVEN];
    size_t n = 0;
    for (size_t i = 0; i < MAX_GIVEN; i++) {
        if (wants(kernel, BINDINGS[i].name)) {
            given[n++] = BINDINGS[i];
        }
    }
    Func *func = frontend_lower(module, kernel, given, n);
    if (func) {
        frontend_schedule(module, kernel, func, "sm_90a", NULL, NULL);
    }
}

static void compile(Arena *arena, const Mutant *program)
{
    Diags diags;
    jmp_buf guard;
    diags_init(&diags, arena);
    diags.bug_guard = arena->guard = &guard;
    Text out = text_new(arena);
    if (setjmp(guard) == 0) {
        int source = diags_add_source(&diags, "mutated.tile", program->text, program->n);
        Module *module = frontend_parse(arena, &diags, source, NULL);
        size_t n = module ? frontend_kernel_count(module) : 0, step = n > 4 ? n / 4 : 1;
        for (size_t i = program->n % step; i < n; i += step) { /* some of many */
            lower(module, frontend_kernel(module, i));
        }
    }
    arena->guard = NULL;
    for (size_t i = 0; i < diags.list.n; i++) {
        const Diag *diag = &diags.list.items[i];
        diag_short(&diags, diag, &out);
        diag_json(&diags, diag, &out);
        for (size_t k = 0; k < diag->fixes.n; k++) {
            Span fix = diag->fixes.items[k].span;
            ck_assert_uint_le(fix.start, fix.end);
            ck_assert_uint_le(fix.end, diags.sources.items[fix.source].n);
        }
        ck_assert_msg(diags.list.items[i].kind != DIAG_INTERNAL, "%s\n%.*s",
                      diags.list.items[i].message, (int)program->n, program->text);
    }
    diags_render(&diags, &out);
}

static void compile_mutant(const Mutant *program)
{
    Arena arena;
    arena_init(&arena, allocator_default());
    compile(&arena, program);
    arena_free(&arena);
}

START_TEST(survives_mutations)
{
    static Mutant program;
    MutantSeeds seeds = mutant_seeds(MUTATIONS, 0, 1);
    for (uint64_t seed = seeds.first; seed < seeds.end; seed++) {
        mutant_begin(&program, seed, PIECES);
        mutant_read(&program, FILES[seed % (sizeof FILES / sizeof *FILES)]);
        mutant_change(&program, CHANGES);
        compile_mutant(&program);
    }
}
END_TEST

START_TEST(examples_compile)
{
    static Mutant program;
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        mutant_read(&program, FILES[i]);
        compile_mutant(&program);
    }
}
END_TEST

/* Depth, length and size beyond every limit. */
static void compile_repeated(const char *before, const char *repeated, int times, const char *after)
{
    Arena arena;
    Diags diags;
    jmp_buf guard;
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    diags.bug_guard = arena.guard = &guard;
    Text text = text_new(&arena), out = text_new(&arena);
    text_add(&text, before);
    for (int i = 0; i < times; i++) {
        text_add(&text, repeated);
    }
    text_add(&text, after);
    if (setjmp(guard) == 0) {
        int source = diags_add_source(&diags, "long.tile", text.data, text.n);
        Module *module = frontend_parse(&arena, &diags, source, NULL);
        if (module) {
            frontend_lower(module, frontend_kernel(module, 0), NULL, 0);
        }
    }
    ck_assert_int_gt(diags.errors, 0);
    ck_assert_int_eq(diags.list.items[0].kind, DIAG_SOURCE);
    diags_render(&diags, &out);
    ck_assert_uint_lt(out.n, 1 << 16);
    arena_free(&arena);
}

START_TEST(keeps_limits)
{
    static const char head[] = "kernel k(x: f32[N]) -> f32[N] = ";
    compile_repeated(head, "(", 100000, "x");
    compile_repeated(head, "-", 100000, "x");
    compile_repeated(head, "not ", 100000, "x");
    compile_repeated(head, "x + ", 100000, "x");
    compile_repeated(head, "exp(", 100000, "x");
    compile_repeated(head, "x[", 100000, "x");
    compile_repeated(head, "x if true else ", 100000, "x");
    compile_repeated(head, "x.T", 1, ".T.T.T.T.T");
    compile_repeated("kernel k(x: f32[N]) -> f32[N] ", "{ if true ", 100000, "");
    compile_repeated("kernel k(x: f32[N]) -> f32[N] { return x }\n", "schedule k {\n", 50000, "");
    compile_repeated("kernel k(x: f32[N]) -> f32[N] { return x }\n", "fn f(x) = x\n", 100000, "");
    compile_repeated("kernel k(x: f32[N]) -> f32[N] { return x }\n", "kernel k() -> T[", 20000, "");
    compile_repeated("kernel k(", "x: f32[N], ", 20000, "y: f32[M]) -> f32[N] = x");
    compile_repeated("kernel k(x: f32[", "N*N*N + ", 400, "N]) -> f32[N] = x");
    compile_repeated("kernel k(x: f32[N]) -> f32[N] {\n", "let a = exp(x) + exp(x)\n", 50000,
                     "return x }");
    compile_repeated("kernel k(x: f32[N]) -> f32[N] = x + ", "9", 100000, "");
    compile_repeated("kernel k(x: f32[N]) -> f32[N] = x + \"", "a", 100000, "");
    compile_repeated("", "\xf0\x9f", 100000, "");
}
END_TEST

/* g30(x) would be 2^30 additions. */
START_TEST(refuses_exponential_programs)
{
    Arena arena;
    arena_init(&arena, allocator_default());
    Text text = text_new(&arena);
    text_add(&text, "fn g0(x) = x + 1\n");
    for (int i = 1; i <= 30; i++) {
        text_printf(&text, "fn g%d(x) = g%d(x) + g%d(x)\n", i, i - 1, i - 1);
    }
    compile_repeated(text.data, "", 0, "kernel k(x: f32[N]) -> f32[N] = g30(x)");
    compile_repeated(text.data, "", 0, "kernel k(x: f32[N]) -> f32[N] = x * g30(1.5)");
    arena_free(&arena);
}
END_TEST

UNIT_TESTS(frontend_mutate)
{
    TCase *tests = tcase_create("mutate");
    tcase_set_timeout(tests, 250);
    tcase_add_test(tests, examples_compile);
    tcase_add_test(tests, survives_mutations);
    tcase_add_test(tests, keeps_limits);
    tcase_add_test(tests, refuses_exponential_programs);
    return tests;
}
