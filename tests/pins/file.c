/* SPDX-License-Identifier: Apache-2.0 */
/* Pin files: what is written reads back, in an order that does not depend on the writer; damage is
 * detected and never read as a schedule. */
#include "tests/unit.h"

#include "runtime/pins/pin_file.h"
#include "runtime/pins/size_bucket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MUTANTS = 20000 };

static Arena arena;
static Diags diags;

static void begin(void)
{
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
}

static void end(void)
{
    arena_free(&arena);
}

static bool read_text(const char *text, size_t n, Pins *pins)
{
    return pins_read(&diags, &arena, diags_add_source(&diags, "a.tune", text, n), pins);
}

static Pin entry(const char *kernel, const char *bucket, const char *line)
{
    Pin pin = {.kernel = kernel,
               .arch = "sm_90a",
               .device = "NVIDIA H200",
               .digest = "0123456789abcdef0123456789abcdef",
               .types = "T=bf16",
               .bucket = bucket,
               .version = "0.1.0",
               .measured = "",
               .comment = ""};
    ARENA_PUSH(&arena, &pin.lines, ((PinLine){line, SPAN_NONE}));
    return pin;
}

static const char *printed(const Pins *pins)
{
    Text text = text_new(&arena);
    pins_print(&arena, pins, &text);
    return text.data;
}

START_TEST(what_is_written_reads_back)
{
    Pins pins = {.tail = ""}, other = {.tail = ""}, again;
    Pin a = entry("linear", "M=33..64%64", "tile M 64"), b = entry("linear", "M=1", "tile M 1");
    Pin c = entry("attention", "", "warps 8 producer 4");
    a.comment = "# two\n# lines\n";
    pins_put(&arena, &pins, &a);
    pins_put(&arena, &pins, &b);
    pins_put(&arena, &pins, &c);
    pins_put(&arena, &other, &c);
    pins_put(&arena, &other, &b);
    pins_put(&arena, &other, &a);
    ck_assert_str_eq(printed(&pins), printed(&other));
    ck_assert(read_text(printed(&pins), strlen(printed(&pins)), &again));
    ck_assert_uint_eq(again.n, 3);
    ck_assert_str_eq(printed(&again), printed(&pins));
    ck_assert_str_eq(again.items[0].kernel, "attention");
    ck_assert_str_eq(again.items[2].comment, "# two\n# lines\n");
    Pin d = entry("linear", "M=33..64%64", "tile M 32"); /* instead of a */
    pins_put(&arena, &again, &d);
    ck_assert_uint_eq(again.n, 3);
    ck_assert_ptr_nonnull(strstr(printed(&again), "# two\n# lines\npin linear"));
    ck_assert_ptr_nonnull(strstr(printed(&again), "tile M 32"));
}
END_TEST

static void expect(const char *text, const char *want, int line)
{
    Pins pins;
    end();
    begin();
    ck_assert_msg(!read_text(text, strlen(text), &pins), "%s", text);
    const Diag *diag = &diags.list.items[0];
    ck_assert_msg(strstr(diag->message, want) != NULL, "%s", diag->message);
    ck_assert_int_eq(diag_source_loc(&diags, diag->span).line, line);
}

#define HEAD "tessera pins 1\n"
#define DIGEST "kernel 0123456789abcdef0123456789abcdef\n"
#define ENTRY "pin f on sm_90a {\ndevice d\n" DIGEST "version 1\n"

START_TEST(what_is_wrong_has_a_place)
{
    expect("kernel f\n", "no file of pins", 1);
    expect("\x7f"
           "ELF\n",
           "no file of pins", 1);
    expect("tessera pins 2\n", "another form", 1);
    expect(HEAD "pin f {\n", "does not begin so", 2);
    expect(HEAD "\n=======\n", "does not begin so", 3);
    expect(HEAD ENTRY, "does not end", 6);
    expect(HEAD ENTRY "schedule {\ntile M 1\n", "does not end", 8);
    expect(HEAD ENTRY "schedule {\ntile M\n}\n}\n", "does not take this", 7);
    expect(HEAD ENTRY "schedule {\ntile\n}\n}\n", "no value", 7);
    expect(HEAD ENTRY "schedule {\npipeline off\n}\n}\n", "does not take this", 7);
    expect(HEAD ENTRY "schedule {\nrm -rf\n}\n}\n", "no schedule key has this name", 7);
    expect(HEAD ENTRY "sizes M=3..8\n}\n", "no such sizes", 6);
    expect(HEAD ENTRY "sizes M=5..8%3\n}\n", "no such sizes", 6);
    expect(HEAD ENTRY "device e\n}\n", "twice", 6);
    expect(HEAD ENTRY "what ever\n}\n", "an entry has no field of this name", 6);
    expect(HEAD "pin f on sm_90a {\n}\n", "does not say its", 2);
    expect(HEAD "pin f on a {\ndevice d\nkernel 12\nversion 1\n}\n", "32 hexadecimal digits", 4);
    expect(HEAD ENTRY "}\n" ENTRY "}\n", "two entries are for the same", 7);
}
END_TEST

START_TEST(little_is_enough)
{
    Pins pins;
    static const char text[] = "\xef\xbb\xbf# ours\n" HEAD "\r\n" ENTRY "}\r\n# end";
    ck_assert(read_text(text, sizeof text - 1, &pins));
    ck_assert_uint_eq(pins.n, 1);
    ck_assert_str_eq(pins.items[0].comment, "# ours\n");
    ck_assert_str_eq(pins.tail, "# end\n");
    ck_assert(read_text("", 0, &pins));
    ck_assert(!read_text(HEAD "\0", 17, &pins));
}
END_TEST

/* What reads at all says what it said, or what another whole entry would say. */
START_TEST(mutants_are_read_or_refused)
{
    Pins pins = {.tail = ""}, read;
    Pin a = entry("linear", "M=33..64%64", "tile M 64, N 128"), b = entry("f", "", "pipeline 4");
    pins_put(&arena, &pins, &a);
    pins_put(&arena, &pins, &b);
    const char *text = printed(&pins);
    size_t n = strlen(text);
    int good = 0;
    for (unsigned i = 0; i < MUTANTS; i++) {
        Arena outer = arena;
        char *copy = malloc(n + 8);
        srand(i);
        begin();
        memcpy(copy, text, n);
        size_t at = (size_t)rand() % n, length = i % 3 == 0 ? at : n;
        copy[at] = (char)(i % 3 == 1 ? copy[at] ^ 1 << rand() % 8 : " \n{}#0"[rand() % 6]);
        good += read_text(copy, length, &read);
        ck_assert_uint_le(read.n, 2);
        free(copy);
        arena_free(&arena);
        arena = outer;
    }
    ck_assert_int_gt(good, MUTANTS / 100);
    ck_assert_int_lt(good, MUTANTS * 9 / 10);
}
END_TEST

/* ---- buckets ---- */

static const char *bucket_text(int64_t size)
{
    Text text = text_new(&arena);
    Bucket bucket = bucket_of(size);
    bucket_print("M", &bucket, &text);
    return text.data;
}

START_TEST(sizes_have_buckets)
{
    static const struct {
        int64_t size;
        const char *bucket;
    } rows[] = {{0, "M=0%64"},
                {1, "M=1"},
                {2, "M=2"},
                {3, "M=3..4"},
                {4, "M=3..4"},
                {5, "M=5..8"},
                {8, "M=5..8%8"},
                {64, "M=33..64%64"},
                {65, "M=65..128"},
                {4096, "M=2049..4096%64"},
                {4097, "M=4097..8192"},
                {5000, "M=4097..8192%8"},
                {8192, "M=4097..8192%64"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_str_eq(bucket_text(rows[i].size), rows[i].bucket);
    }
    for (int64_t size = 0; size < 20000; size += 1 + size / 37) { /* each is in its own */
        const char *at = bucket_text(size), *name;
        Bucket bucket = bucket_of(size), read;
        ck_assert(bucket.least <= size && size <= bucket.most && size % bucket.multiple == 0);
        ck_assert_msg(bucket_read(&arena, &at, &name, &read), "%s", at);
        ck_assert(bucket_same(&bucket, &read) && *at == '\0');
        ck_assert_str_eq(name, "M");
    }
    Bucket huge = bucket_of(INT64_MAX);
    ck_assert(huge.least <= huge.most && huge.most == INT64_MAX);
}
END_TEST

UNIT_TESTS(pins_file)
{
    TCase *tests = tcase_create("pins");
    tcase_add_checked_fixture(tests, begin, end);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, what_is_written_reads_back);
    tcase_add_test(tests, what_is_wrong_has_a_place);
    tcase_add_test(tests, little_is_enough);
    tcase_add_test(tests, mutants_are_read_or_refused);
    tcase_add_test(tests, sizes_have_buckets);
    return tests;
}
