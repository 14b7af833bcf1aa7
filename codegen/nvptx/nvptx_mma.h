/* SPDX-License-Identifier: Apache-2.0 */
/* sm_80 and later: warp-level MMA, and the loads of its fragments from shared memory. */
#ifndef TESSERA_CODEGEN_NVPTX_NVPTX_MMA_H
#define TESSERA_CODEGEN_NVPTX_NVPTX_MMA_H

#include "codegen/gpu/gpu_emit.h"

void nvptx_multiply(GpuEmitter *em, const MatrixInstr *unit, const GpuFragment *a,
                    const GpuFragment *b, LLVMValueRef *acc, int n);
void nvptx_load_matrices(GpuEmitter *em, LLVMValueRef at, int n, bool turned, LLVMValueRef *words);

bool nvptx_widen_word(GpuEmitter *em, DType from, DType to, LLVMValueRef word, LLVMValueRef *out);
/* The two elements of four bits in byte number `byte` (i32) of a word, in 16 bits each: i32. */
LLVMValueRef nvptx_widen_byte(GpuEmitter *em, DType from, DType to, LLVMValueRef word,
                              LLVMValueRef byte);
bool nvptx_widen_pair(GpuEmitter *em, DType from, LLVMValueRef *a, LLVMValueRef *b);
bool nvptx_narrow_pair(GpuEmitter *em, DType to, LLVMValueRef *a, LLVMValueRef *b);

#endif
