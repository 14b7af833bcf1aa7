/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses of the lanes of one tensor access, shared by cpu_access.c, cpu_gather.c and
 * cpu_scatter.c. */
#ifndef TESSERA_CODEGEN_CPU_CPU_ACCESS_H
#define TESSERA_CODEGEN_CPU_CPU_ACCESS_H

#include "codegen/cpu/cpu_emit.h"
#include "codegen/scalar/scalar_atomic.h"

typedef struct Spot {
    LLVMValueRef base;    /* of the tensor */
    LLVMValueRef offset;  /* of lane 0, in elements; with `each`, NULL */
    LLVMValueRef address; /* of lane 0; with `each`, of the tensor; packed elements: NULL */
    LLVMValueRef inside;  /* i1: the indices that all lanes share are inside; NULL: they are */
    LLVMValueRef mask;    /* lanes to touch; NULL: all */
    LLVMValueRef stride;  /* between lanes, in elements; NULL: 1 */
    LLVMValueRef each;    /* offsets of the lanes, in elements; NULL: they follow from `stride` */
    int lanes;
} Spot;

/* Elements between neighbours along each axis of a tensor. */
void cpu_strides(CpuEmitter *c, Type tensor, LLVMValueRef *strides);
LLVMValueRef cpu_and_also(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b); /* NULL: true */
LLVMValueRef cpu_within(CpuEmitter *c, LLVMValueRef index, LLVMValueRef extent);
/* Lanes index, index + 1, … that are at least 0 and below the extent. */
LLVMValueRef cpu_lanes_within(CpuEmitter *c, LLVMValueRef index, LLVMValueRef extent);
/* Lanes that are wanted and inside; NULL: all. */
LLVMValueRef cpu_spot_mask(CpuEmitter *c, const Spot *spot);
/* Of a spot at a point: one element for all lanes is read once. */
LLVMValueRef cpu_point_load(CpuEmitter *c, DType dtype, Spot spot, const Point *point,
                            LLVMValueRef outside);
void cpu_spot_store(CpuEmitter *c, DType dtype, const Spot *spot, LLVMValueRef value);
/* Finds the address, when base and offset (or `each`) are there. */
void cpu_spot_address(CpuEmitter *c, const Value *memory, Spot *spot);

/* ---- cpu_scatter.c ---- */
/* A value at a point: a vector where the point has lanes, also of what is the same in all. */
LLVMValueRef cpu_operand_at(CpuEmitter *c, const Value *value, const Point *point);

/* ---- cpu_int4.c ---- */
/* Offsets of the lanes from the tensor's base, in elements. */
LLVMValueRef cpu_spot_offsets(CpuEmitter *c, const Spot *spot);
LLVMValueRef cpu_packed_load(CpuEmitter *c, DType dtype, const Spot *spot, LLVMValueRef outside);
void cpu_packed_store(CpuEmitter *c, const Spot *spot, LLVMValueRef value);
/* One lane after the other, of those in the mask (NULL: all). */
typedef struct LaneLoop {
    LLVMBasicBlockRef head, after;
    LLVMValueRef left, lane; /* lane: i64 */
} LaneLoop;
LaneLoop cpu_lanes_begin(CpuEmitter *c, LLVMValueRef mask);
void cpu_lanes_end(CpuEmitter *c, const LaneLoop *loop);

/* cpu_privatize.c: changes of a tensor in c->privates, one element or the lanes of a spot */
void cpu_private_change(CpuEmitter *c, const AtomicChange *change, LLVMValueRef address);
void cpu_private_lanes(CpuEmitter *c, const AtomicChange *change, const Spot *spot,
                       const PrivateTensor *own);

/* ---- cpu_gather.c ---- */
/* Of the gather or scatter `op` at a point: lanes that are neither one element nor a constant
 * distance apart have `each`. */
Spot cpu_indexed_spot(CpuEmitter *c, const Op *op, const Point *point);

#endif
