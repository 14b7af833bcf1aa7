/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics as text: columns, marks, hostile sources. */
#include "support/diag.h"
#include "tests/unit.h"

#include <string.h>

typedef struct World {
    Arena arena;
    Diags diags;
    const char *text;
} World;

static void open_world(World *w, const char *text)
{
    arena_init(&w->arena, allocator_default());
    diags_init(&w->diags, &w->arena);
    diags_add_source(&w->diags, "a.tile", text, strlen(text));
    w->text = text;
}

/* The span of the n-th `needle`. */
static Span at(const World *w, const char *needle, int nth)
{
    const char *found = strstr(w->text, needle);
    for (int i = 0; i < nth; i++) {
        found = strstr(found + 1, needle);
    }
    uint32_t start = (uint32_t)(found - w->text);
    return (Span){0, start, start + (uint32_t)strlen(needle)};
}

static void expect(World *w, const char *want)
{
    Text out = text_new(&w->arena);
    diags_render(&w->diags, &out);
    ck_assert_str_eq(out.data, want);
    arena_free(&w->arena);
}

START_TEST(marks_on_one_line)
{
    World w;
    open_world(&w, "let a = x + yy\n");
    Diag *diag = diag_error(&w.diags, 402, at(&w, "+", 0), "shapes do not fit");
    diag_label(&w.diags, diag, at(&w, "x", 0), "f32[M]");
    diag_label(&w.diags, diag, at(&w, "yy", 0), "f32[N]");
    diag_help(&w.diags, diag, "one\ntwo");
    diag_note(&w.diags, diag, "three");
    expect(&w, "error[E0402]: shapes do not fit\n"
               " --> a.tile:1:11\n"
               "  |\n"
               "1 | let a = x + yy\n"
               "  |         - ^ -- f32[N]\n"
               "  |         |\n"
               "  |         f32[M]\n"
               "  |\n"
               "  = help: one\n"
               "          two\n"
               "  = note: three\n");
}
END_TEST

START_TEST(marks_on_several_lines)
{
    World w;
    open_world(&w, "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\n");
    Diag *diag = diag_warning(&w.diags, 0, at(&w, "ten", 0), "later");
    diag_span_label(&w.diags, diag, "here");
    diag_label(&w.diags, diag, at(&w, "wo", 0), "there");
    diag_label(&w.diags, diag, at(&w, "nine", 0), "before");
    expect(&w, "warning: later\n"
               "  --> a.tile:10:1\n"
               "   |\n"
               " 2 | two\n"
               "   |  -- there\n"
               "...\n"
               " 9 | nine\n"
               "   | ---- before\n"
               "10 | ten\n"
               "   | ^^^ here\n");
}
END_TEST

START_TEST(columns_of_wide_characters)
{
    World w;
    open_world(&w, "\t\xe6\xbc\xa2 \xc3\xa9 x\x1b[0m\xff y");
    diag_error(&w.diags, 1, at(&w, "y", 0), "here");
    SourceLoc place = diag_source_loc(&w.diags, at(&w, "y", 0));
    ck_assert_int_eq(place.column, 13);
    ck_assert_int_eq(place.byte, 16);
    expect(&w, "error[E0001]: here\n"
               " --> a.tile:1:13\n"
               "  |\n"
               "1 |     \xe6\xbc\xa2 \xc3\xa9 x\xEF\xBF\xBD[0m\xEF\xBF\xBD y\n"
               "  |                 ^\n");
}
END_TEST

START_TEST(the_end_of_the_file)
{
    World w;
    open_world(&w, "a\r\nb");
    diag_error(&w.diags, 1, (Span){0, 4, 4}, "here");
    diag_error(&w.diags, 1, (Span){0, 99, 200}, "beyond");
    diag_failure(&w.diags, DIAG_USAGE, "no target is called `%s`", "x");
    expect(&w, "error[E0001]: here\n --> a.tile:2:2\n  |\n2 | b\n  |  ^\n\n"
               "error[E0001]: beyond\n --> a.tile:2:2\n  |\n2 | b\n  |  ^\n\n"
               "error: no target is called `x`\n");
}
END_TEST

START_TEST(long_lines_are_cut)
{
    World w;
    char text[5000];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 0;
    text[2500] = '$';
    open_world(&w, text);
    diag_error(&w.diags, 1, at(&w, "$", 0), "here");
    Text out = text_new(&w.arena);
    diags_render(&w.diags, &out);
    ck_assert_uint_lt(out.n, 600);
    ck_assert_ptr_nonnull(strstr(out.data, "$"));
    arena_free(&w.arena);
}
END_TEST

START_TEST(combining_marks_and_lines_of_windows)
{
    World w;
    open_world(&w, "a\xcc\x81 \xef\xbc\xa1 x\r\ny\r\n"); /* a with an accent, a wide A */
    diag_error(&w.diags, 1, at(&w, "x", 0), "here");
    Diag *diag = diag_error(&w.diags, 1, at(&w, "y", 0), "there");
    diag_label(&w.diags, diag, at(&w, "x", 0), "not here");
    expect(&w, "error[E0001]: here\n --> a.tile:1:6\n  |\n"
               "1 | a\xcc\x81 \xef\xbc\xa1 x\n"
               "  |      ^\n\n"
               "error[E0001]: there\n --> a.tile:2:1\n  |\n"
               "1 | a\xcc\x81 \xef\xbc\xa1 x\n"
               "  |      - not here\n"
               "2 | y\n"
               "  | ^\n");
}
END_TEST

START_TEST(spans_of_several_lines)
{
    World w;
    open_world(&w, "let a = (x +\n    y +\n    z) + 1\n");
    Span span = {0, 8, at(&w, "z)", 0).end};
    Diag *diag = diag_error(&w.diags, 402, span, "too long");
    diag_span_label(&w.diags, diag, "this");
    expect(&w, "error[E0402]: too long\n --> a.tile:1:9\n  |\n"
               "1 | let a = (x +\n"
               "  |         ^^^^\n"
               "...\n"
               "3 |     z) + 1\n"
               "  |     ^^ this\n");
}
END_TEST

START_TEST(forms_for_programs)
{
    World w;
    open_world(&w, "\tlet \xc3\xa9 = exq(\"x\")\n");
    Text brief = text_new(&w.arena), json = text_new(&w.arena);
    Diag *diag = diag_error(&w.diags, 302, at(&w, "exq", 0), "no `%s`\nhere", "exq");
    diag_help(&w.diags, diag, "did you mean \"exp\"?");
    diag_fix(&w.diags, diag, at(&w, "exq", 0), "exp");
    diag_short(&w.diags, diag, &brief);
    diag_json(&w.diags, diag, &json);
    ck_assert_str_eq(brief.data, "a.tile:1:10: error[E0302]: no `exq` here\n");
    ck_assert_str_eq(
        json.data,
        "{\"severity\":\"error\",\"code\":\"E0302\",\"message\":\"no `exq`\\nhere\","
        "\"file\":\"a.tile\",\"line\":1,\"column\":10,\"byte_column\":11,\"end_line\":1,"
        "\"end_column\":13,\"end_byte_column\":14,\"start\":10,\"end\":13,\"label\":null,"
        "\"labels\":[],\"notes\":[],\"helps\":[{\"text\":\"did you mean \\\"exp\\\"?\","
        "\"edits\":[{\"replacement\":\"exp\",\"file\":\"a.tile\",\"line\":1,\"column\":10,"
        "\"byte_column\":11,\"end_line\":1,\"end_column\":13,\"end_byte_column\":14,"
        "\"start\":10,\"end\":13}]}]}\n");
    arena_free(&w.arena);
}
END_TEST

START_TEST(warnings_that_are_not_told)
{
    World w;
    const int allowed[] = {2001};
    open_world(&w, "x y");
    w.diags.policy = (DiagPolicy){allowed, 1, false};
    diag_warning(&w.diags, 2001, at(&w, "x", 0), "quiet");
    diag_warning(&w.diags, 2002, at(&w, "y", 0), "told");
    diag_warning(&w.diags, 2002, at(&w, "y", 0), "told once");
    ck_assert_uint_eq(w.diags.list.n, 1);
    ck_assert_int_eq(w.diags.errors, 0);
    w.diags.policy.deny = true;
    diag_warning(&w.diags, 2003, at(&w, "x", 0), "an error now");
    ck_assert_int_eq(w.diags.errors, 1);
    arena_free(&w.arena);
}
END_TEST

START_TEST(bugs_jump)
{
    World w;
    jmp_buf guard;
    open_world(&w, "");
    w.diags.bug_guard = &guard;
    w.diags.pass = "tile";
    if (setjmp(guard) == 0) {
        diag_bug(&w.diags, "wrong");
    }
    expect(&w, "internal error: wrong\n"
               "  = note: in pass `tile`; this is a bug of Tessera, not of your program\n");
}
END_TEST

UNIT_TESTS(support_diag)
{
    TCase *tests = tcase_create("diag");
    tcase_add_test(tests, marks_on_one_line);
    tcase_add_test(tests, marks_on_several_lines);
    tcase_add_test(tests, columns_of_wide_characters);
    tcase_add_test(tests, the_end_of_the_file);
    tcase_add_test(tests, long_lines_are_cut);
    tcase_add_test(tests, combining_marks_and_lines_of_windows);
    tcase_add_test(tests, spans_of_several_lines);
    tcase_add_test(tests, forms_for_programs);
    tcase_add_test(tests, warnings_that_are_not_told);
    tcase_add_test(tests, bugs_jump);
    return tests;
}
