/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of JSON: what it takes, what it makes of escapes, what it refuses. */
#include "support/json.h"
#include "tests/unit.h"

#include <string.h>

static Arena arena;

static void begin(void)
{
    arena_init(&arena, allocator_default());
}

static void end(void)
{
    arena_free(&arena);
}

static const Json *parse(const char *text)
{
    return json_parse_all(&arena, text, strlen(text));
}

START_TEST(values)
{
    const Json *json =
        parse(" {\"a\": [1, -2.5e3, true, null], \"b\": {\"c\": \"x\"}, \"a.b\": 1} ");
    ck_assert_int_eq(json->kind, JSON_OBJECT);
    ck_assert_uint_eq(json->n, 3);
    const Json *list = json_member(json, "a");
    ck_assert_uint_eq(list->n, 4);
    ck_assert_double_eq(list->first->next->number, -2500);
    ck_assert(list->first->next->next->truth);
    ck_assert_int_eq(list->first->next->next->next->kind, JSON_NULL);
    ck_assert_str_eq(json_text(json, "b.c"), "x");
    ck_assert_ptr_null(json_text(json, "b.d"));
    ck_assert_ptr_null(json_text(json, "a.c"));
    ck_assert(json_truth(json, "nothing", true));
}
END_TEST

START_TEST(whole_numbers)
{
    int64_t n;
    ck_assert(json_integer(parse("9007199254740991"), &n));
    ck_assert(n == 9007199254740991);
    ck_assert(!json_integer(parse("9007199254740993"), &n));
    ck_assert(!json_integer(parse("0.5"), &n));
    ck_assert(!json_integer(parse("\"1\""), &n));
    ck_assert(!json_integer(NULL, &n));
}
END_TEST

START_TEST(escapes)
{
    ck_assert_str_eq(parse("\"\\n\\u00e9\\/\\\"\"")->text, "\n\xc3\xa9/\"");
    ck_assert_str_eq(parse("\"\\ud83d\\ude00\"")->text, "\xf0\x9f\x98\x80");
    ck_assert_str_eq(parse("\"\\ud83d!\"")->text, "\xef\xbf\xbd!");
    ck_assert_str_eq(parse("\"\\ude00\\ud83d\"")->text, "\xef\xbf\xbd\xef\xbf\xbd");
    const Json *zero = parse("\"a\\u0000b\"");
    ck_assert_uint_eq(zero->n, 3);
    ck_assert_mem_eq(zero->text, "a\0b", 4);
}
END_TEST

START_TEST(refused)
{
    static const char *const texts[] = {
        "",       "{",        "[1",       "[1,]", "{\"a\"}", "{\"a\":}", "{a:1}",
        "1 2",    "tru",      "+1",       "--1",  "\"abc",   "\"\\x\"",  "\"\\u12g4\"",
        "\"\n\"", "\"\xff\"", "\"\xc3\"", "[1}",  "\f1",     "nan",      "\"\\",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert_msg(!parse(texts[i]), "taken: %s", texts[i]);
    }
    char deep[1000];
    memset(deep, '[', sizeof deep);
    ck_assert_ptr_null(json_parse_all(&arena, deep, sizeof deep));
}
END_TEST

START_TEST(several)
{
    static const char text[] = "{} [2] x";
    size_t at, more;
    ck_assert_int_eq(json_parse(&arena, text, sizeof text - 1, &at)->kind, JSON_OBJECT);
    ck_assert_int_eq(json_parse(&arena, text + at, sizeof text - 1 - at, &more)->kind, JSON_ARRAY);
    ck_assert_ptr_null(json_parse(&arena, text + at + more, sizeof text - 1 - at - more, &at));
}
END_TEST

UNIT_TESTS(support_json)
{
    TCase *tests = tcase_create("json");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, values);
    tcase_add_test(tests, whole_numbers);
    tcase_add_test(tests, escapes);
    tcase_add_test(tests, refused);
    tcase_add_test(tests, several);
    return tests;
}
