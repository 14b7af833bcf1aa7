/* SPDX-License-Identifier: Apache-2.0 */
/* The C library over arrays: glibc's vector functions on machines with AVX2 (at most 4 ulp of
 * double), one call per element elsewhere. */
#define _GNU_SOURCE /* exp10 */
#include "tests/math/vectors.h"

#include <math.h>

#if defined __x86_64__ && defined __GLIBC__
typedef double Four __attribute__((vector_size(32)));
typedef double Unaligned __attribute__((vector_size(32), aligned(8)));
#define VECTOR(name)                                                                               \
    __attribute__((target("avx2"))) Four _ZGVdN4v_##name(Four);                                    \
    __attribute__((target("avx2"))) static size_t fours_##name(const double *x, double *y,         \
                                                               size_t n)                           \
    {                                                                                              \
        size_t i = 0;                                                                              \
        for (; i + 4 <= n; i += 4) {                                                               \
            *(Unaligned *)&y[i] = _ZGVdN4v_##name(*(const Unaligned *)&x[i]);                      \
        }                                                                                          \
        return i;                                                                                  \
    }
#define BEGIN(name) (__builtin_cpu_supports("avx2") ? fours_##name(x, y, n) : 0)
#else
#define VECTOR(name)
#define BEGIN(name) 0
#endif

#define FUNCTION(name)                                                                             \
    VECTOR(name)                                                                                   \
    void all_##name(const double *x, double *y, size_t n)                                          \
    {                                                                                              \
        for (size_t i = BEGIN(name); i < n; i++) {                                                 \
            y[i] = name(x[i]);                                                                     \
        }                                                                                          \
    }
#include "tests/math/vectors.def"
