/* SPDX-License-Identifier: Apache-2.0 */
/* What the CPU that runs this program can do. */
#ifndef TESSERA_SUPPORT_HOST_CPU_H
#define TESSERA_SUPPORT_HOST_CPU_H

/* Bytes of its vectors, as far as compiled code uses them: 16 (SSE2), 32 (AVX2), 64 (AVX-512). */
int host_vector_bytes(void);
/* The psABI level of x86-64 that it has, 3 or 4; 0: a lower one. */
int host_x86_level(void);

#endif
