/* SPDX-License-Identifier: Apache-2.0 */
/* Assembles PTX to machine code by NVIDIA's assembler, in a child process. */
#ifndef TESSERA_CODEGEN_NVPTX_PTXAS_H
#define TESSERA_CODEGEN_NVPTX_PTXAS_H

#include "codegen/codegen.h"

/* Looks at options->ptxas, $TESSERA_PTXAS, PATH, $CUDA_HOME and /usr/local/cuda, in this order;
 * `info`: what it says with -v. False after a diagnostic. */
bool ptxas_assemble(Func *func, const CodegenOptions *options, const Code *ptx, Code *cubin,
                    Code *info);
/* What it says with -v: registers, memory and spills of each kernel. False, without a diagnostic,
 * when there is none or it fails. */
bool ptxas_info(Func *func, const CodegenOptions *options, const Code *ptx, Code *info);

/* $TESSERA_PTXAS, or where one is found; NULL: nowhere. */
const char *ptxas_find(Arena *arena);
/* "12.8", or NULL: it does not say so. */
const char *ptxas_version(Arena *arena, const char *ptxas);

#endif
