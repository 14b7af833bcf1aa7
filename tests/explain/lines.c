/* SPDX-License-Identifier: Apache-2.0 */
/* Source lines from the debug information of LLVM IR and of assembly. */
#include "runtime/explain/explain_report.h"
#include "tests/unit.h"

static void expect(const char *text, int n, const int *want)
{
    Arena arena;
    arena_init(&arena, allocator_default());
    Listing listing = {.text = text};
    listing_lines_of_code(&arena, "dir/a.tile", &listing);
    ck_assert_int_eq(listing.n, n);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(listing.lines[i], want[i]);
    }
    arena_free(&arena);
}

START_TEST(reads_llvm)
{
    expect("  %1 = load float, ptr %0, !dbg !7\n"
           "  %2 = fadd float %1, %1\n"
           "  %3 = fmul float %2, %1, !dbg !12\n"
           "!7 = !DILocation(line: 3, column: 5, scope: !4)\n"
           "!12 = !DILocation(line: 90, scope: !5, inlinedAt: !7)\n"
           "!13 = distinct !DISubprogram(line: 5)",
           6, (int[]){3, 0, 3, 0, 0, 0});
}
END_TEST

START_TEST(reads_ptx)
{
    expect("\t.file\t1 \"/x/dir/a.tile\"\n"
           "\t.file\t2 \"/x/b.tile\"\n"
           "\t.loc\t1 4 9\n"
           "\tadd.f32 %f1, %f2, %f3;\n"
           "\t.loc\t2 7 1\n"
           "\tmul.f32 %f1, %f2, %f3;\n"
           "\t.loc\t2 7 1, function_name $L__info_string0, inlined_at 1 5 2\n"
           "\tret;",
           8, (int[]){0, 0, 4, 4, 0, 0, 5, 5});
}
END_TEST

START_TEST(reads_other_assembly)
{
    expect("\t.file\t\"a.tile\"\n"
           "\t.file\t0 \"/x\" \"a.tile\" md5 0x00\n"
           "\t.loc\t0 2 0 prologue_end ; a.tile:2:0\n"
           "\ts_endpgm",
           4, (int[]){0, 0, 2, 2});
}
END_TEST

START_TEST(without_any_there_are_none)
{
    expect("ret\n", 2, (int[]){0, 0});
    expect("", 1, (int[]){0});
}
END_TEST

UNIT_TESTS(explain_lines)
{
    TCase *tests = tcase_create("lines");
    tcase_add_test(tests, reads_llvm);
    tcase_add_test(tests, reads_ptx);
    tcase_add_test(tests, reads_other_assembly);
    tcase_add_test(tests, without_any_there_are_none);
    return tests;
}
