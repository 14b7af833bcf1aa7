/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile IR: mutated text of the pass tests. It is rejected with errors that render, or it
 * verifies, prints, parses again to the same text, and is interpreted within a limit of steps.
 * TESSERA_SEED=n runs one; TESSERA_MUTATIONS=n sets the number. */
#include "ir/interp/interp.h"
#include "ir/text/ir_text.h"
#include "ir/verify/verify.h"
#include "tests/mutant.h"
#include "tests/unit.h"

#include <glob.h>
#include <string.h>

enum {
    PARTS = 20,
    MUTATIONS = 4000,
    CHANGES = 5,
    MAX_ELEMENTS = 1 << 14,
    MAX_STEPS = 4000,
    MAX_PARAMS = 32,
    MAX_SIZES = 256
};

static const char *const PIECES[] = {"%",
                                     "%0",
                                     "%1",
                                     "%x",
                                     ":",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "(",
                                     ")",
                                     ",",
                                     "=",
                                     "->",
                                     "-1",
                                     "0",
                                     "1",
                                     "7",
                                     "9223372036854775807",
                                     "4294967296",
                                     "M",
                                     "N",
                                     "f32",
                                     "bf16",
                                     "i64",
                                     "bool",
                                     "i4",
                                     "f8e4m3",
                                     "tensor<",
                                     "shared<",
                                     "tile<",
                                     "in ",
                                     "out ",
                                     "inout ",
                                     "scratch ",
                                     "body {",
                                     "load",
                                     "store",
                                     "gather",
                                     "scatter",
                                     "scan",
                                     "fold",
                                     "while",
                                     "for",
                                     "if",
                                     "yield",
                                     "parallel",
                                     "launch",
                                     "reduce",
                                     "dot",
                                     "select",
                                     "cast",
                                     "bitcast",
                                     "iota",
                                     "broadcast",
                                     "expand",
                                     "squeeze",
                                     "permute",
                                     "mask",
                                     "axis=",
                                     "axis=9",
                                     "perm=[1, 0]",
                                     "fn=sum",
                                     "fn=set",
                                     "fn=cas",
                                     "guard=[0]",
                                     "guard=[1, 1]",
                                     "value=nan",
                                     "value=-inf",
                                     "dims=[M]",
                                     "steps=[4]",
                                     "steps=[-1]",
                                     "dim=[N]",
                                     "reverse=1",
                                     "vector=4",
                                     "pred=lt",
                                     "warps=[4]",
                                     "shared",
                                     "barrier",
                                     "wait",
                                     "arrive",
                                     "barrier",
                                     "bulk_load",
                                     "dot_async",
                                     "dot_wait",
                                     "roles",
                                     "\n",
                                     "\"",
                                     "\x80",
                                     "schedule tile.M = 3",
                                     NULL};

/* Memory for each tensor; false where that is much. */
static bool make_args(Func *func, int64_t *sizes, InterpArg *args)
{
    if (func->params.n > MAX_PARAMS || func->dimvars.n > MAX_SIZES) {
        return false;
    }
    for (size_t i = 0; i < func->dimvars.n; i++) {
        sizes[i] = 5;
    }
    if (func_derive_sizes(func, sizes)) {
        return false;
    }
    for (size_t p = 0; p < func->params.n; p++) {
        Type type = func->params.items[p].value->type;
        size_t n = 1;
        args[p] = (InterpArg){.number = 0.5, .integer = 3};
        for (int i = 0; type->kind == TYPE_TENSOR && i < type->rank; i++) {
            int64_t extent = -1;
            if (!poly_eval(type->dims[i], sizes, &extent) || extent < 0 || extent > MAX_ELEMENTS ||
                (n *= (size_t)extent) > MAX_ELEMENTS) {
                return false;
            }
        }
        args[p].tensor.data = arena_alloc(func->arena, dtype_size(type->dtype, n) + 16);
        memset(args[p].tensor.data, 0, dtype_size(type->dtype, n));
    }
    return true;
}

static void interpret(Func *func, Arena *arena)
{
    InterpArg args[MAX_PARAMS];
    int64_t sizes[MAX_SIZES];
    Text problem = text_new(arena);
    InterpOptions options = {.seed = 1, .most_steps = MAX_STEPS};
    if (make_args(func, sizes, args)) {
        interp_func(func, args, sizes, &options, &problem);
    }
}

static void run(Arena *arena, Diags *diags, const Mutant *s)
{
    Func *func = parse_func(arena, diags, diags_add_source(diags, "mutated.ir", s->text, s->n));
    Text wrong = text_new(arena), once = text_new(arena), again = text_new(arena);
    if (!func || diags->errors || verify_func(func, &wrong) > 0) {
        return;
    }
    print_func(func, &once);
    Func *same = parse_func(arena, diags, diags_add_source(diags, "again.ir", once.data, once.n));
    ck_assert_msg(same != NULL, "printed IR does not parse:\n%s", once.data);
    print_func(same, &again);
    ck_assert_str_eq(once.data, again.data);
    interpret(func, arena);
}

static void run_seed(const glob_t *files, uint64_t seed)
{
    static Mutant source;
    mutant_begin(&source, seed, PIECES);
    const char *path = files->gl_pathv[mutant_draw(&source, files->gl_pathc)];
    mutant_read(&source, path);
    mutant_change(&source, CHANGES);
    Arena arena;
    Diags diags;
    jmp_buf guard;
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    diags.bug_guard = arena.guard = &guard;
    if (setjmp(guard) == 0) {
        run(&arena, &diags, &source);
    }
    arena.guard = NULL;
    Text out = text_new(&arena);
    for (size_t i = 0; i < diags.list.n; i++) {
        ck_assert_msg(diags.list.items[i].kind != DIAG_INTERNAL, "seed %llu, %s: %s\n%.*s",
                      (unsigned long long)seed, path, diags.list.items[i].message, (int)source.n,
                      source.text);
    }
    diags_render(&diags, &out);
    arena_free(&arena);
}

START_TEST(survives_mutations)
{
    glob_t files = {0};
    ck_assert_int_eq(glob("tests/passes/*/*.ir", 0, NULL, &files), 0);
    MutantSeeds seeds = mutant_seeds(MUTATIONS, _i, PARTS);
    for (uint64_t seed = seeds.first; seed < seeds.end; seed++) {
        run_seed(&files, seed);
    }
    globfree(&files);
}
END_TEST

/* As it was found: operations whose operands vary have none. */
START_TEST(refuses_no_operands)
{
    static const char *const ops[] = {"%r = reduce fn=sum axis=0 : f32[1]",
                                      "%r = load : f32[4]",
                                      "store",
                                      "%r = scan fn=sum axis=0 : f32[4]",
                                      "%r = gather : f32[4]",
                                      "scatter fn=set",
                                      "%r = dot : f32[4]"};
    Arena arena;
    Diags diags;
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    Text text = text_new(&arena), wrong = text_new(&arena);
    text_printf(&text,
                "func k level tensor {\n  out %%y: tensor<f32[4]>\n  body {\n    %s\n  }\n}\n",
                ops[_i]);
    Func *func = parse_func(&arena, &diags, diags_add_source(&diags, "k.ir", text.data, text.n));
    ck_assert(!func || diags.errors || verify_func(func, &wrong) > 0);
    arena_free(&arena);
}
END_TEST

/* As they were found by changed programs: a loop's bound that is memory, and a row as the
 * accumulator of a product. */
START_TEST(refuses_types)
{
    static const char *const bodies[][2] = {
        {"%lo = const value=0 : i64\n%hi = shared value=3 : i64\n"
         "for %lo, %hi dims=[3] steps=[0] {\n(%k: i64)\nyield\n}\n",
         "the kind that the op makes"},
        {"%s = shared : shared<bf16[1, 64, 64]>\n%i = const value=0 : i32\n"
         "%z = const value=0 : f32[%n]\n%p = const value=1 : bf16[%m, 64]\n"
         "%d = dot_async %p, %s[%i, :, :], %z instruction=wgmma : f32[%m, %n]\n"
         "%e = dot_wait %d pending=0 : f32[%m, %n]\nstore %y[%m, %n], %e guard=[1, 1]\n",
         "the accumulator"}};
    Arena arena;
    Diags diags;
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    Text text = text_new(&arena), wrong = text_new(&arena);
    text_printf(&text,
                "func k level staged padded target sm_90a {\n  size M\n  size N\n"
                "  out %%y: tensor<f32[M, N]>\n  body {\n"
                "launch dims=[M, N] steps=[64, 64] warps=[4] {\n"
                "(%%m: range, %%n: range)\n%s}\n}\n}\n",
                bodies[_i][0]);
    Func *func = parse_func(&arena, &diags, diags_add_source(&diags, "k.ir", text.data, text.n));
    ck_assert(func && !diags.errors);
    ck_assert_int_gt(verify_func(func, &wrong), 0);
    ck_assert_msg(strstr(wrong.data, bodies[_i][1]), "%s", wrong.data);
    arena_free(&arena);
}
END_TEST

UNIT_TESTS(ir_mutate)
{
    TCase *tests = tcase_create("mutate");
    tcase_add_loop_test(tests, refuses_no_operands, 0, 7);
    tcase_add_loop_test(tests, refuses_types, 0, 2);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, survives_mutations, 0, PARTS);
    return tests;
}
