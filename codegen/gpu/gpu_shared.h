/* SPDX-License-Identifier: Apache-2.0 */
/* Access to shared-memory tiles element by element, for the shared and the vendor-specific
 * emitters. */
#ifndef TESSERA_CODEGEN_GPU_GPU_SHARED_H
#define TESSERA_CODEGEN_GPU_GPU_SHARED_H

#include "codegen/gpu/gpu_emit.h"

/* A shared tile as code sees it: one slot, its last two axes. */
typedef struct SharedTile {
    LLVMValueRef base;
    int64_t rows, cols;
    int elem_bytes, swizzle, skew;
    int most; /* elements of an access; 0: as many as fit */
    DType dtype;
    bool packed;          /* two elements a byte; columns count elements */
    LLVMValueRef *recomputed; /* the thread part of the address, if it is recomputed at each use;
                                 NULL: it is live */
} SharedTile;
/* A coordinate in it: a part known at run time, which may set `bits`, and a constant part that
 * shares no bits with it. */
typedef struct SharedCoord {
    LLVMValueRef part; /* i32; NULL: 0 */
    uint32_t bits;
    int64_t constant;
} SharedCoord;
SharedTile gpu_shared_tile(GpuEmitter *em, const Access *access);
LLVMValueRef gpu_shared_at(GpuEmitter *em, const SharedTile *tile, SharedCoord row,
                           SharedCoord col);
/* Elements that one access may take without crossing a swizzled piece or losing alignment. */
int gpu_shared_vector(const SharedTile *tile);
/* `n` consecutive elements, as they are in registers (bool: i1). */
void gpu_shared_read(GpuEmitter *em, const SharedTile *tile, LLVMValueRef at, int n,
                     LLVMValueRef *out);

#endif
