/* SPDX-License-Identifier: Apache-2.0 */
/* lld's ELF linker as a function call. It is written in C++ because lld has no C interface. */
#ifndef TESSERA_CODEGEN_LLVM_LLD_LINK_H
#define TESSERA_CODEGEN_LLVM_LLD_LINK_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `ld.lld` with these arguments, files and options. False with lld's words in `problem`. */
bool lld_link(const char *const *arguments, size_t n, char *problem, size_t problem_bytes);

#ifdef __cplusplus
}
#endif

#endif
