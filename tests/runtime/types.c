/* SPDX-License-Identifier: Apache-2.0 */
/* Element types in the public interface: names, sizes, packed 4-bit elements. */
#include "tests/unit.h"

#include "tessera/tessera.h"

#include <math.h>
#include <string.h>

START_TEST(names_and_bytes)
{
    static const struct {
        const char *name;
        TesseraType type;
        size_t one, five;
    } types[] = {
        {"bool", TESSERA_BOOL, 1, 5},     {"i64", TESSERA_I64, 8, 40},
        {"bf16", TESSERA_BF16, 2, 10},    {"f8e4m3", TESSERA_F8E4M3, 1, 5},
        {"f8e5m2", TESSERA_F8E5M2, 1, 5}, {"i4", TESSERA_I4, 1, 3},
        {"u4", TESSERA_U4, 1, 3},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        TesseraType found;
        ck_assert(tessera_type_find(types[i].name, &found));
        ck_assert_int_eq(found, types[i].type);
        ck_assert_str_eq(tessera_type_name(found), types[i].name);
        ck_assert_uint_eq(tessera_type_bytes(found), types[i].one);
        ck_assert_uint_eq(tessera_type_size(found, 5), types[i].five);
        ck_assert_uint_eq(tessera_type_size(found, 0), 0);
    }
}
END_TEST

START_TEST(halves_of_bytes)
{
    unsigned char data[3] = {0, 0, 0xf0};
    for (size_t i = 0; i < 5; i++) {
        tessera_put(TESSERA_I4, data, i, (double)i - 4);
    }
    ck_assert_int_eq(memcmp(data, "\xdc\xfe\xf0", 3), 0);
    ck_assert(tessera_get(TESSERA_I4, data, 1) == -3);
    ck_assert(tessera_get(TESSERA_U4, data, 1) == 13);
    tessera_put(TESSERA_I4, data, 1, 100); /* saturates */
    ck_assert(tessera_get(TESSERA_I4, data, 1) == 7);
    ck_assert(tessera_get(TESSERA_I4, data, 0) == -4);
}
END_TEST

START_TEST(small_floats)
{
    unsigned char data[2];
    tessera_put(TESSERA_F8E4M3, data, 0, 1000);
    tessera_put(TESSERA_F8E4M3, data, 1, -0.0009765626); /* over half of the least */
    ck_assert(tessera_get(TESSERA_F8E4M3, data, 0) == 448);
    ck_assert(tessera_get(TESSERA_F8E4M3, data, 1) == -0.001953125);
    tessera_put(TESSERA_F8E5M2, data, 0, (double)NAN);
    ck_assert_uint_eq(data[0], 0x7f);
}
END_TEST

UNIT_TESTS(runtime_types)
{
    TCase *tests = tcase_create("types");
    tcase_add_test(tests, names_and_bytes);
    tcase_add_test(tests, halves_of_bytes);
    tcase_add_test(tests, small_floats);
    return tests;
}
