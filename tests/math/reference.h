/* SPDX-License-Identifier: Apache-2.0 */
/* Reference results for the standard library's functions by other means: the C library in double
 * (or long double for f64), vectorized where glibc has it. */
#ifndef TESSERA_TESTS_MATH_REFERENCE_H
#define TESSERA_TESTS_MATH_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

typedef void Reference(const double *x, double *y, size_t n);

typedef struct Unary {
    const char *name;
    Reference *want;
    double limit; /* ulp of f32 */
    int step;     /* of --all: 1, or more where the reference is slow */
} Unary;
extern const Unary UNARY[];
extern const size_t UNARY_COUNT;

typedef struct Binary {
    const char *name;
    double (*want)(double, double);
    double limit;
} Binary;
extern const Binary BINARY[];
extern const size_t BINARY_COUNT;

typedef struct Wide {
    const char *name;
    long double (*one)(long double);
    long double (*two)(long double, long double);
    double limit; /* ulp of f64 */
} Wide;
extern const Wide WIDE[];
extern const size_t WIDE_COUNT;

#endif
