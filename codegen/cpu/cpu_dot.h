/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that cpu_dot.c and cpu_pack.c share. */
#ifndef TESSERA_CODEGEN_CPU_CPU_DOT_H
#define TESSERA_CODEGEN_CPU_CPU_DOT_H

#include "codegen/cpu/cpu_emit.h"

/* One operand: which of its axes is the product's row (or column), which the summed one. */
typedef struct Side {
    const Value *value;
    int free_axis, sum_axis;
    LLVMValueRef len; /* of the free axis */
    int64_t capacity;
} Side;

typedef struct Product {
    DType dtype;      /* what it is computed in: the result's */
    Side left, right; /* rows, columns; a product with one column is computed transposed */
    LLVMValueRef depth;
    int64_t depth_capacity;
    const Buffer *to;
    int row_axis, column_axis; /* of `to` */
    bool bytes;                /* of 8-bit integers, four at a time: cpu_vnni.c */
    int columns;               /* of a register block: one or two vectors */
} Product;

/* The left operand as the register block reads it: one element at a time. */
typedef struct LeftView {
    LLVMValueRef base;
    int64_t row_stride, depth_stride;
} LeftView;

LeftView cpu_pack_left(CpuEmitter *c, const Product *product);
/* The right operand in panels of `columns`, each all depths long: one vector after the other. */
LLVMValueRef cpu_pack_right(CpuEmitter *c, const Product *product);

/* ---- cpu_vnni.c ---- */
bool cpu_takes_bytes(const CpuEmitter *c, const Product *product);
/* Bytes along the sum that a row, or a column, takes. */
int64_t cpu_bytes_capacity(const CpuEmitter *c, const Product *product);
LeftView cpu_pack_left_bytes(CpuEmitter *c, const Product *product);
LLVMValueRef cpu_pack_right_bytes(CpuEmitter *c, const Product *product);

typedef struct BytesBlock {
    const Product *product;
    LLVMValueRef left, panel; /* of these rows, of these columns */
    int64_t row_stride;
    int rows, vectors;
    const LLVMValueRef *cells; /* rows of vectors */
    LLVMValueRef excess[2];    /* cells: 128 times the sum of each column */
} BytesBlock;
/* Over the whole depth. */
void cpu_bytes_block(CpuEmitter *c, BytesBlock *block);

#endif
