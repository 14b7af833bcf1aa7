/* SPDX-License-Identifier: Apache-2.0 */
/* One load or store of a tile of a tensor, shared by gpu_access.c, gpu_global.c, gpu_row_edges.c
 * and gpu_unaligned.c. */
#ifndef TESSERA_CODEGEN_GPU_GPU_ACCESS_H
#define TESSERA_CODEGEN_GPU_GPU_ACCESS_H

#include "codegen/gpu/gpu_emitters.h"

typedef struct GlobalAccess {
    GpuEmitter *em;
    const Op *op;
    Access access;
    Type type; /* of the tile */
    DType dtype;
    int axes[MAX_RANK];             /* memory axis → tile axis, -1: a scalar index */
    LLVMValueRef strides[MAX_RANK]; /* i64, in elements, of memory axes */
    LLVMValueRef limits[MAX_RANK];  /* i32, of tile axes: indices below exist; NULL: all do */
    LLVMValueRef skips[MAX_RANK];  /* i32, of tile axes: indices below do not exist; NULL: all do */
    LLVMValueRef slacks[MAX_RANK]; /* i32: limit less the thread's part; NULL: not at hand */
    LLVMValueRef inside;           /* i1: scalar indices are inside; NULL: they are */
    LLVMValueRef offset;           /* i64: elements from the tensor's first to the tile's */
    LLVMValueRef block, thread;    /* places: of the tile, of the thread's part */
    bool disjoint;                 /* registers add to the thread's part */
} GlobalAccess;

/* Finds guards, strides and addresses of op's access. */
void gpu_access_begin(GlobalAccess *g);
/* i1: is register r of the tile inside on these first axes? NULL: it is. */
LLVMValueRef gpu_inside_on(GlobalAccess *g, int axes, int r);
/* The place of register r's element: a pointer, of packed elements how many are before it. */
LLVMValueRef gpu_register_place(GlobalAccess *g, int r);
/* Registers an access takes: what `vector` says, if the layout agrees. */
int gpu_access_run(GlobalAccess *g);
/* n neighbours from a place, if inside, else what the op says; as they are in memory. Of no packed
 * elements. */
LLVMValueRef gpu_access_load(GlobalAccess *g, LLVMValueRef inside, LLVMValueRef at, int n);
/* They become the registers of a run. */
void gpu_define_run(GlobalAccess *g, GpuValue *out, const GpuRun *run, LLVMValueRef vector);
void gpu_access_load_run(GlobalAccess *g, GpuValue *out, const GpuRun *run);
/* n registers as neighbours, if inside. */
void gpu_access_store(GlobalAccess *g, LLVMValueRef inside, LLVMValueRef at, int n,
                      const LLVMValueRef *regs);

/* ---- gpu_unaligned.c ---- */
/* A load whose runs begin anywhere (ATTR_UNALIGNED). */
void gpu_shifted_load(GlobalAccess *g, GpuValue *out);

/* ---- gpu_row_edges.c ---- */
typedef struct Edges {
    GlobalAccess *g;
    LLVMValueRef skip, limit; /* i32: coordinates of the row in its tile */
    LLVMValueRef whole;       /* i32: pieces that begin below lie in the tensor as a whole */
    int axis, n;              /* elements of a piece */
} Edges;
bool gpu_has_edges(GlobalAccess *g);
void gpu_edges_load(GlobalAccess *g, GpuValue *out);
/* What the loads compared with where the row ends is not kept for the stores. */
Edges gpu_edges_anew(GlobalAccess *g);
/* i1: does the piece begin inside of all axes and before the limit? */
LLVMValueRef gpu_edges_inside(Edges *edges, const GpuRun *run, LLVMValueRef limit);
/* A piece that is the row's as a whole at once, of another only what is the row's. `first`: i1,
 * this thread stores; NULL: each does. */
void gpu_edges_store(Edges *edges, LLVMValueRef first, const GpuValue *in, const GpuRun *run);

#endif
