/* SPDX-License-Identifier: Apache-2.0 */
/* lld's ELF linker, in this process. Written in C++ because lld has no C interface. */
#ifndef TESSERA_CODEGEN_AMDGCN_LINK_H
#define TESSERA_CODEGEN_AMDGCN_LINK_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Links one relocatable object into a shared object. False with lld's words in `problem`. */
bool amdgcn_link(const char *in, const char *out, char *problem, size_t problem_bytes);

#ifdef __cplusplus
}
#endif

#endif
