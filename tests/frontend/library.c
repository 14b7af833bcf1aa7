/* SPDX-License-Identifier: Apache-2.0 */
/* The standard library: function bodies are parsed at their first call, and all of them parse. */
#include "frontend/syntax/ast.h"
#include "tests/unit.h"

#include <string.h>

START_TEST(every_body_parses)
{
    static const char text[] = "kernel k(x: f32[N]) -> f32[N] = x\n";
    Arena arena;
    Diags diags;
    size_t waited = 0;
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    int source = diags_add_source(&diags, "k.tile", text, strlen(text));
    const Module *module = frontend_parse(&arena, &diags, source, NULL);
    ck_assert_ptr_nonnull(module);
    for (size_t i = 0; i < module->standard->fns.n; i++) {
        FnDecl *fn = module->standard->fns.items[i];
        waited += fn->waits;
        fn_complete(module->standard, fn);
        ck_assert_msg(fn->value || fn->body.n, "%s has no body", fn->name);
        ck_assert_msg(diags.errors == 0, "%s: %s", fn->name, diags.list.items[0].message);
    }
    ck_assert_uint_eq(waited, module->standard->fns.n);
    ck_assert_uint_gt(waited, 200);
    arena_free(&arena);
}
END_TEST

UNIT_TESTS(frontend_library)
{
    TCase *tests = tcase_create("library");
    tcase_add_test(tests, every_body_parses);
    return tests;
}
