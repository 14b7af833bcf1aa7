/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces support/host_cpu.c: no code is made for WebAssembly, so the least will do. */
#include "support/host_cpu.h"

int host_vector_bytes(void)
{
    return 16;
}

int host_x86_level(void)
{
    return 0;
}
