/* SPDX-License-Identifier: Apache-2.0 */
/* The text form prints as it was read; the verifier's refusals; equality of ops; dead code
 * elimination. */
#include "tests/unit.h"

#include "ir/build.h"
#include "ir/text/ir_text.h"
#include "ir/verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct World {
    Arena arena;
    Diags diags;
    Func *func;
    Text said;
    jmp_buf guard;
} World;

static void world_read(World *w, const char *text)
{
    memset(w, 0, sizeof *w);
    arena_init(&w->arena, allocator_default());
    if (setjmp(w->guard)) {
        ck_abort_msg("out of memory, or a bug of ours");
    }
    w->arena.guard = &w->guard;
    diags_init(&w->diags, &w->arena);
    w->diags.bug_guard = &w->guard;
    w->said = text_new(&w->arena);
    w->func =
        parse_func(&w->arena, &w->diags, diags_add_source(&w->diags, "<test>", text, strlen(text)));
    diags_render(&w->diags, &w->said);
}

static void world_end(World *w)
{
    arena_free(&w->arena);
}

/* Every new form once; as the printer writes it. */
static const char forms[] = "func forms level tensor {\n"
                            "  size N\n"
                            "  size P = [5 + -1*N] // 2 most 9\n"
                            "  in %x: tensor<f32[N]>\n"
                            "  in %k: tensor<i32[N, 2]>\n"
                            "  in %h: tensor<i4[N]>\n"
                            "  in %e: tensor<f8e4m3[N]>\n"
                            "  inout %y: tensor<f32[N]>\n"
                            "  scratch %t: tensor<f32[N]>\n"
                            "  body {\n"
                            "    %0 = iota dim=[N] : i64[N]\n"
                            "    %1 = load %x[:] : f32[N]\n"
                            "    %2 = const value=1 : i32\n"
                            "    %3 = gather %k[%0, %2] value=7 guard=[1, 0] : i32[N]\n"
                            "    %4 = gather %1[%3] value=-inf : f32[N]\n"
                            "    %5 = cmp %4, %1 pred=lt : bool[N]\n"
                            "    scatter %y[%0], %4, %5 fn=add\n"
                            "    %6 = scatter %y[%3], %1, %4 fn=cas : f32[N]\n"
                            "    %7 = scan %6 fn=max axis=0 reverse=1 exclusive=1 : f32[N]\n"
                            "    %8 = const value=0.0 : f32\n"
                            "    %9, %10 = fold %7, %3, %8, %2 axis=0 {\n"
                            "      (%11: f32, %12: i32, %13: f32, %14: i32)\n"
                            "      %15 = add %11, %13 : f32\n"
                            "      %16 = max %12, %14 : i32\n"
                            "      yield %15, %16\n"
                            "    } : f32[1], i32[1]\n"
                            "    %17 = while %7 {\n"
                            "      (%18: f32[N])\n"
                            "      %19 = cmp %18, %1 pred=gt : bool[N]\n"
                            "      yield %19\n"
                            "    } {\n"
                            "      (%20: f32[N])\n"
                            "      %21 = sub %20, %1 : f32[N]\n"
                            "      yield %21\n"
                            "    } : f32[N]\n"
                            "    store %t[:], %17\n"
                            "    print %5, %0, %17 text=\"\\\"q\\\" \\\\ \\n\\t\\x01; é\"\n"
                            "    assert %5 text=\"\"\n"
                            "  }\n"
                            "}\n";

START_TEST(what_is_read_prints_the_same)
{
    World w;
    world_read(&w, forms);
    ck_assert_msg(w.func != NULL, "%s", w.said.data);
    ck_assert_msg(verify_func(w.func, &w.said) == 0, "%s", w.said.data);
    Text out = text_new(&w.arena);
    print_func(w.func, &out);
    ck_assert_str_eq(out.data, forms);
    world_end(&w);
}
END_TEST

START_TEST(texts_end_on_their_line)
{
    static const char *const texts[] = {"\"a", "\"a\nb\"", "\"\\q\"", "\"\\x4\"", "\"\\x00\"", "a"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[256];
        snprintf(
            text, sizeof text,
            "func f level tensor {\nbody {\n%%0 = const value=1 : bool\nprint %%0 text=%s\n}\n}",
            texts[i]);
        World w;
        world_read(&w, text);
        ck_assert_msg(w.func == NULL, "%s is read", texts[i]);
        world_end(&w);
    }
}
END_TEST

/* ---- what the verifier refuses ---- */

typedef struct Fault {
    const char *from, *to, *says;
} Fault;

static const Fault faults[] = {
    {"iota dim=[N] : i64[N]", "iota dim=[2] : i64[N]", "no i64 or i32 over `dim`"},
    {"gather %k[%0, %2]", "gather %k[%0, %1]", "index 1 is no array of i64 or i32"},
    {"guard=[1, 0] : i32[N]", "guard=[1] : i32[N]", "`guard` has not one entry an axis"},
    {"value=-inf : f32[N]", "value=-inf : f64[N]", "another element type than the memory"},
    {"gather %1[%3]", "gather %x[%9x]", NULL},
    {"%4, %5 fn=add", "%4, %4 fn=add", "the mask is no bool"},
    {"%4, %5 fn=add", "%4, %5 fn=and", "bits of a float"},
    {"%4, %5 fn=add", "%4, %5 fn=ad", "`fn` is none of"},
    {"%4, %5 fn=add", "%4, %5, %5 fn=add", "wants a tensor, its indices"},
    {"%1, %4 fn=cas : f32[N]", "%1, %4 fn=cas : f64[N]", "the result, is not of the value's type"},
    {"%1, %4 fn=cas", "%1, %5 fn=cas", "what is compared"},
    {"fn=max axis=0", "fn=max axis=1", "has no such axis"},
    {"fn=max axis=0", "fn=ma axis=0", "`fn` is none of"},
    {"%8, %2 axis=0 {", "%2, %8 axis=0 {", "do not agree"},
    {"yield %15, %16", "yield %15", "does not make 2 scalars of 4"},
    {"%16 = max %12, %14 : i32", "%16 = squeeze %10x axis=0 : i32", NULL},
    {"%0 = iota dim=[N] : i64[N]", "%0 = size dim=[] : i64", "no value"},
    {"  body {\n", "  function f { (%a: f32)\n neg %a\n yield %a }\n  body {\n", "results"},
    {"(%18: f32[N])", "(%.2: f32[N])", "expected a name after %"},
    {"(%18: f32[N])", "(%18: f64[N])", "carried value 0 changes its type"},
    {"yield %19", "yield %18", "the condition is no bool"},
    {"%21 = sub %20, %1 : f32[N]", "%21 = scan %20 fn=sum axis=0 : f32[N]",
     "mixes the elements of a while"},
    {"%21 = sub %20, %1 : f32[N]", "%21 = gather %20[%3] : f32[N]",
     "mixes the elements of a while"},
    {"%21 = sub %20, %1 : f32[N]", "%21 = gather : f32[N]", "no operands"},
    {"%21 = sub %20, %1 : f32[N]", "%21 = gather %99[%3] : f32[N]", NULL},
    {"%21 = sub %20, %1 : f32[N]", "%21 = sub %20, %1 : f32[N]\n print %b text=\"\"", NULL},
    {"print %5, %0", "print %0, %5", "wants a `text`, a bool, and values"},
    {"print %5, %0, %17", "print %5, %0, %9", "operand 2 has another shape"},
    {"assert %5 text=\"\"", "assert %5", "wants a `text`"},
    {"in %e: tensor<f8e4m3[N]>", "out %e: f32", "scalar e is no input"},
};

static char *edited(const char *from, const char *to)
{
    const char *at = strstr(forms, from);
    ck_assert_msg(at != NULL, "no \"%s\" to edit", from);
    size_t n = strlen(forms) + strlen(to) + 1;
    char *text = malloc(n);
    ck_assert_ptr_nonnull(text);
    snprintf(text, n, "%.*s%s%s", (int)(at - forms), forms, to, at + strlen(from));
    return text;
}

START_TEST(wrong_forms_are_refused)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        World w;
        char *text = edited(faults[i].from, faults[i].to);
        world_read(&w, text);
        bool refused = !w.func || verify_func(w.func, &w.said) > 0;
        ck_assert_msg(refused, "%s: taken", faults[i].to);
        ck_assert_msg(!faults[i].says || strstr(w.said.data, faults[i].says), "%s: says %s",
                      faults[i].to, w.said.data);
        world_end(&w);
        free(text);
    }
}
END_TEST

/* ---- the same, unused ---- */

static const char twice[] = "func f level tensor {\n size N\n in %x: tensor<f32[N]>\n body {\n"
                            "%v = load %x[:] : f32[N]\n%z = const value=0 : f32\n"
                            "%a = fold %v, %z axis=0 {\n (%p: f32, %q: f32)\n"
                            "%s = add %p, %q : f32\n%t = mul %s, %z : f32\nyield %t\n} : f32[1]\n"
                            "%b = fold %v, %z axis=0 {\n (%i: f32, %j: f32)\n"
                            "%k = add %i, %j : f32\n%l = mul %k, %z : f32\nyield %l\n} : f32[1]\n"
                            "}\n}\n";

static bool folds_are_same(const char *from, const char *to)
{
    World w;
    char *text = strdup(twice);
    char *at = strstr(text, from);
    ck_assert_ptr_nonnull(at);
    memcpy(at, to, strlen(to));
    world_read(&w, text);
    ck_assert_msg(w.func != NULL, "%s", w.said.data);
    const Op *last = w.func->body->last;
    bool same = op_is_same(last, last->prev) && op_is_same(last->prev, last);
    world_end(&w);
    free(text);
    return same;
}

START_TEST(folds_are_compared_with_their_regions)
{
    ck_assert(folds_are_same("%k = add", "%k = add"));
    ck_assert(!folds_are_same("%k = add", "%k = sub"));
    ck_assert(!folds_are_same("add %i, %j", "add %j, %j"));
    ck_assert(!folds_are_same("mul %k, %z", "mul %z, %k"));
    ck_assert(!folds_are_same("mul %k, %z", "mul %i, %z"));
}
END_TEST

static int ops_in(const Block *block)
{
    int n = 0;
    for (const Op *op = block->first; op; op = op->next) {
        n++;
    }
    return n;
}

START_TEST(what_nobody_uses_goes)
{
    World w;
    world_read(&w, twice);
    ck_assert_int_eq(func_remove_dead(w.func), 4);
    ck_assert_int_eq(ops_in(w.func->body), 0);
    world_end(&w);
    world_read(&w, forms);
    int before = ops_in(w.func->body);
    ck_assert_int_eq(func_remove_dead(w.func), 2); /* the fold and a neutral element */
    ck_assert_int_eq(ops_in(w.func->body), before - 2);
    world_end(&w);
}
END_TEST

/* ---- makers ---- */

START_TEST(makers_and_clones)
{
    World w;
    world_read(&w, "func f level tensor {\n size N\n in %x: tensor<f32[N]>\n"
                   " inout %y: tensor<f32[N]>\n body {\n}\n}\n");
    Func *f = w.func;
    Builder b = build_at_end(f, f->body);
    Value *x = f->params.items[0].value, *y = f->params.items[1].value, *all = NULL;
    Value *i = build_iota(&b, x->type->dims[0], DT_I32), *v = build_load(&b, x, &all);
    Value *g = build_gather(&b, build_gather(&b, x, &i), &i);
    Op *old = build_scatter(&b, "cas", y, &i, g, v, build_cmp(&b, "lt", g, v), true);
    Value *s = build_scan(&b, "sum", old->results[0], 0, true, false);
    Value *zero = build_float(&b, type_scalar(f, DT_F32), 0);
    Op *fold = build_fold(&b, 1, &s, &zero, 0, true, false, true);
    Builder in = build_at_end(f, fold->regions[0]);
    Value *sum = build_binary(&in, OP_ADD, fold->regions[0]->args[0], fold->regions[0]->args[1]);
    build_yield(&in, 1, &sum);
    Op *loop = build_while(&b, 1, fold->results);
    in = build_at_end(f, loop->regions[0]);
    Value *go = build_cmp(&in, "gt", loop->regions[0]->args[0], v);
    build_yield(&in, 1, &go);
    in = build_at_end(f, loop->regions[1]);
    Value *next = build_binary(&in, OP_SUB, loop->regions[1]->args[0], v);
    build_yield(&in, 1, &next);
    build_say(&b, OP_PRINT, "a \"text\"", build_cmp(&b, "gt", g, v), 2, (Value *[]){g, i});
    CloneMap map = clone_map_new(f);
    ck_assert(op_is_same(fold, clone_op(&b, &map, fold)));
    ck_assert(op_is_same(loop, clone_op(&b, &map, loop)) == false); /* of the clone's result */
    ck_assert_msg(verify_func(f, &w.said) == 0, "%s", w.said.data);
    world_end(&w);
}
END_TEST

UNIT_TESTS(ir_forms)
{
    TCase *tests = tcase_create("forms");
    tcase_add_test(tests, what_is_read_prints_the_same);
    tcase_add_test(tests, texts_end_on_their_line);
    tcase_add_test(tests, wrong_forms_are_refused);
    tcase_add_test(tests, folds_are_compared_with_their_regions);
    tcase_add_test(tests, what_nobody_uses_goes);
    tcase_add_test(tests, makers_and_clones);
    return tests;
}
