/* SPDX-License-Identifier: Apache-2.0 */
/* Unit tests: a file tests/<component>/<file>.c contains
 *
 *     START_TEST(adds_terms) { ck_assert_int_eq(…); } END_TEST
 *
 *     UNIT_TESTS(component_file)         // letters, digits and _ of "<component>/<file>"
 *     {
 *         TCase *tests = tcase_create("poly");
 *         tcase_add_test(tests, adds_terms);
 *         return tests;
 *     }
 *
 * CMake finds such files and builds one program per component from them (unit_main.c.in). A file
 * with its own main becomes a separate program; both end with Check's line of counts. */
#ifndef TESSERA_TESTS_UNIT_H
#define TESSERA_TESTS_UNIT_H

#include <check.h>

#define UNIT_TESTS(id)                                                                             \
    TCase *unit_tests_##id(void);                                                                  \
    TCase *unit_tests_##id(void)

#endif
