/* SPDX-License-Identifier: Apache-2.0 */
/* The hash table, and its use by interning: equal size expressions are the same pointer, also in
 * large functions. */
#include "support/hash_table.h"

#include "ir/build.h"
#include "tests/unit.h"

#include <string.h>

static bool same_number(const void *item, const void *key)
{
    return *(const int *)item == *(const int *)key;
}

START_TEST(finds_what_was_added)
{
    enum { N = 5000 };
    static int numbers[N];
    Arena arena;
    HashTable table = {0};
    arena_init(&arena, allocator_default());
    for (int i = 0; i < N; i++) {
        numbers[i] = i * 7;
        ck_assert_ptr_null(
            table_find(&table, hash_word(0, (uint64_t)i % 50), same_number, &numbers[i]));
        table_add(&arena, &table, hash_word(0, (uint64_t)i % 50), &numbers[i]); /* they collide */
    }
    for (int i = 0; i < N; i++) {
        int key = i * 7;
        ck_assert_ptr_eq(table_find(&table, hash_word(0, (uint64_t)i % 50), same_number, &key),
                         &numbers[i]);
    }
    arena_free(&arena);
}
END_TEST

START_TEST(interns_many)
{
    Arena arena;
    Diags diags;
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    Func *func = func_new(&arena, &diags, "f");
    Dim size = poly_var(func, func_size(func, "N")), first[100];
    for (int i = 0; i < 50000; i++) {
        Dim dim = poly_add(func, size, poly_const(func, i));
        if (i < 100) {
            first[i] = dim;
        }
        type_array(func, DT_F32, 1, &dim);
    }
    for (int i = 0; i < 100; i++) {
        Dim again = poly_add(func, poly_const(func, i), size);
        ck_assert_ptr_eq(again, first[i]);
        ck_assert_ptr_eq(type_array(func, DT_F32, 1, &again), type_array(func, DT_F32, 1, &again));
    }
    arena_free(&arena);
}
END_TEST

/* A chain of 20000 ops of which nobody wants the end goes in one walk. */
START_TEST(dead_chain)
{
    Arena arena;
    Diags diags;
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    Func *func = func_new(&arena, &diags, "f");
    Builder at = build_at_end(func, func->body);
    Value *value = build_float(&at, type_scalar(func, DT_F32), 1);
    for (int i = 1; i < 20000; i++) {
        value = build_binary(&at, OP_ADD, value, value);
    }
    size_t before = arena.total;
    ck_assert_int_eq(func_remove_dead(func), 20000);
    ck_assert_ptr_null(func->body->first);
    ck_assert_uint_lt(arena.total - before, 1 << 20);
    arena_free(&arena);
}
END_TEST

/* Code without end is the user's error, not the end of memory. */
START_TEST(most_values)
{
    Arena arena;
    Diags diags;
    jmp_buf guard;
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    diags.bug_guard = &guard;
    Func *func = func_new(&arena, &diags, "f");
    Builder at = build_at_end(func, func->body);
    if (setjmp(guard) == 0) {
        for (;;) {
            build_float(&at, type_scalar(func, DT_F32), 1);
        }
    }
    ck_assert_int_eq(diags.errors, 1);
    ck_assert_int_eq(diags.list.items[0].kind, DIAG_SOURCE);
    ck_assert_ptr_nonnull(strstr(diags.list.items[0].message, "more than 1000000 values"));
    arena_free(&arena);
}
END_TEST

UNIT_TESTS(ir_table)
{
    TCase *tests = tcase_create("table");
    tcase_add_test(tests, finds_what_was_added);
    tcase_add_test(tests, interns_many);
    tcase_add_test(tests, dead_chain);
    tcase_add_test(tests, most_values);
    return tests;
}
