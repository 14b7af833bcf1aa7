/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of the C library over arrays: all_exp(x, y, n) sets y[i] = exp(x[i]), and so on. */
#ifndef TESSERA_TESTS_MATH_VECTORS_H
#define TESSERA_TESTS_MATH_VECTORS_H

#include <stddef.h>

#if defined __x86_64__
#define VECTORIZED __attribute__((target_clones("avx2", "default")))
#else
#define VECTORIZED
#endif

#define FUNCTION(name) void all_##name(const double *x, double *y, size_t n);
#include "tests/math/vectors.def"

#endif
