/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the CPU for its features. */
#include "support/host_cpu.h"

int host_vector_bytes(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) {
        return 64;
    }
    return __builtin_cpu_supports("avx2") ? 32 : 16;
}

int host_x86_level(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4")) {
        return 4;
    }
    return __builtin_cpu_supports("x86-64-v3") ? 3 : 0;
}
