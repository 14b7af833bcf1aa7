/* SPDX-License-Identifier: Apache-2.0 */
/* The dot op over tiles on the stack. The right operand is packed in panels; a block of rows by
 * one or two column vectors stays in registers over the whole k extent of the tile. */
#include "codegen/cpu/cpu_dot.h"

#include <limits.h>

enum { MAX_ROWS = 12, MAX_CELLS = 2 * MAX_ROWS };

/* ---- the register block ---- */

typedef struct Kernel {
    const Product *product;
    LeftView left;
    LLVMValueRef panel; /* of these columns */
    LLVMValueRef row, column;
    int rows, vectors;
    bool from_zero;
    LLVMValueRef cells[MAX_CELLS];
} Kernel;

/* The sum over the depth of a tile begins at zero and is added to what earlier tiles gave as a
 * whole, so that the rounding error grows with the depth of a tile plus the number of tiles, not
 * with their product. */
static void add_cells(CpuEmitter *c, const Kernel *kernel)
{
    DType dtype = kernel->product->dtype;
    for (int i = 0; i < kernel->rows * kernel->vectors; i++) {
        const Product *product = kernel->product;
        LLVMValueRef at[2];
        at[product->row_axis] = cpu_add(c, kernel->row, llvm_i64(c->l, i / kernel->vectors));
        at[product->column_axis] =
            cpu_add(c, kernel->column, llvm_i64(c->l, (int64_t)(i % kernel->vectors) * c->lanes));
        LLVMValueRef address = cpu_buffer_address(c, product->to, at);
        LLVMValueRef sum = cpu_get(c, kernel->cells[i]);
        if (!kernel->from_zero) {
            LLVMValueRef before = cpu_load_at(c, dtype, address, c->lanes);
            sum = dtype_is_float(dtype) ? LLVMBuildFAdd(c->l->builder, before, sum, "")
                                        : LLVMBuildAdd(c->l->builder, before, sum, "");
        }
        cpu_store_at(c, dtype, address, sum);
    }
}

/* Sums may be rounded as one likes: without an fma instruction, twice. */
static LLVMValueRef multiply_add(CpuEmitter *c, DType dtype, LLVMValueRef a, LLVMValueRef b,
                                 LLVMValueRef sum)
{
    if (dtype_is_float(dtype) && !c->l->has_fma) {
        return LLVMBuildFAdd(c->l->builder, LLVMBuildFMul(c->l->builder, a, b, ""), sum, "");
    }
    return scalar_fma(c->l, dtype, a, b, sum);
}

static void some_depths(CpuEmitter *c, const Kernel *kernel, LLVMValueRef left, LLVMValueRef from,
                        LLVMValueRef to, int n)
{
    Loop loop = cpu_loop_begin(c, from, to, n);
    for (int i = 0; i < n; i++) {
        /* One element of depth takes `vectors` loads, `rows` broadcasts and rows × vectors
         * multiply-adds. */
        LLVMValueRef depth = cpu_add(c, loop.counter, llvm_i64(c->l, i));
        const Product *product = kernel->product;
        DType dtype = product->dtype;
        LLVMValueRef columns[2];
        LLVMValueRef column = cpu_mul_const(c, depth, product->columns);
        for (int v = 0; v < kernel->vectors; v++) {
            LLVMValueRef at = cpu_add(c, column, llvm_i64(c->l, (int64_t)v * c->lanes));
            LLVMValueRef address = cpu_element(c, dtype, kernel->panel, at);
            columns[v] = cpu_load_at(c, dtype, address, c->lanes);
        }
        LLVMValueRef at = cpu_mul_const(c, depth, kernel->left.depth_stride);
        for (int row = 0; row < kernel->rows; row++) {
            LLVMValueRef there = cpu_add(c, at, llvm_i64(c->l, row * kernel->left.row_stride));
            LLVMValueRef one = cpu_load_at(c, dtype, cpu_element(c, dtype, left, there), 1);
            LLVMValueRef all = llvm_splat(c->l, one, LLVMTypeOf(columns[0]));
            for (int v = 0; v < kernel->vectors; v++) {
                LLVMValueRef cell = kernel->cells[row * kernel->vectors + v];
                cpu_set(c, cell, multiply_add(c, dtype, all, columns[v], cpu_get(c, cell)));
            }
        }
    }
    cpu_loop_end(c, &loop);
}

static void register_block(CpuEmitter *c, Kernel *kernel)
{
    const Product *product = kernel->product;
    LLVMValueRef offset = cpu_mul_const(c, kernel->row, kernel->left.row_stride);
    DType dtype = product->bytes ? DT_I8 : product->dtype;
    LLVMValueRef left = cpu_element(c, dtype, kernel->left.base, offset);
    LLVMTypeRef type = llvm_lanes(llvm_type(c->l, kernel->product->dtype), c->lanes);
    for (int i = 0; i < kernel->rows * kernel->vectors; i++) {
        kernel->cells[i] = cpu_cell(c, type);
        cpu_set(c, kernel->cells[i], LLVMConstNull(type));
    }
    if (product->bytes) {
        BytesBlock block = {.product = product, .left = left, .panel = kernel->panel};
        block.row_stride = kernel->left.row_stride;
        block.rows = kernel->rows;
        block.vectors = kernel->vectors;
        block.cells = kernel->cells;
        cpu_bytes_block(c, &block);
        add_cells(c, kernel);
        return;
    }
    LLVMValueRef from = llvm_i64(c->l, 0);
    if (c->unroll > 1) {
        LLVMValueRef full_rows =
            LLVMBuildAnd(c->l->builder, product->depth, llvm_i64(c->l, -c->unroll), "");
        some_depths(c, kernel, left, from, full_rows, c->unroll);
        from = full_rows;
    }
    some_depths(c, kernel, left, from, product->depth, 1);
    add_cells(c, kernel);
}

/* ---- all blocks ---- */

/* Rows of a block: with two vectors of columns, as many as leave registers for these, and for one
 * element of the left operand. A divisor of the tile if one is near. */
static int block_rows(const CpuEmitter *c, const Product *product)
{
    int registers = c->func->target->registers_thread >= 32 ? 24 : 12;
    int most = product->columns > c->lanes ? registers / 2 : 12;
    int64_t rows = product->left.capacity;
    if (rows <= most) {
        return (int)rows;
    }
    for (int n = most; n > most / 2; n--) {
        if (rows % n == 0) {
            return n;
        }
    }
    return most;
}

static void row_blocks(CpuEmitter *c, Kernel *kernel)
{
    const Side *side = &kernel->product->left;
    int step = block_rows(c, kernel->product);
    int64_t full_rows = side->capacity / step * step;
    LLVMValueRef end = cpu_min(c, side->len, llvm_i64(c->l, full_rows));
    kernel->rows = step;
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), end, step);
    kernel->row = loop.counter;
    register_block(c, kernel);
    cpu_loop_end(c, &loop);
    if (full_rows == side->capacity) {
        return;
    }
    kernel->row = llvm_i64(c->l, full_rows);
    kernel->rows = (int)(side->capacity - full_rows);
    Branch branch =
        cpu_if_begin(c, LLVMBuildICmp(c->l->builder, LLVMIntSGT, side->len, kernel->row, ""));
    register_block(c, kernel);
    cpu_if_end(c, &branch);
}

/* ---- the op ---- */

static Side side_of(CpuEmitter *c, const Value *value, int free_axis)
{
    Dim dim = value->type->dims[free_axis];
    return (Side){value, free_axis, !free_axis, cpu_dim(c, dim), cpu_capacity(c, dim)};
}

static bool is_zero(const CpuEmitter *c, const Value *value)
{
    const Attr *attr = value_const(value);
    return attr && !c->values[value->id].buffer && attr->f == 0.0 && attr->i == 0 &&
           !__builtin_signbit(attr->f);
}

void cpu_emit_dot(CpuEmitter *c, const Op *op)
{
    const Value *result = op->results[0];
    const Value *start = op->n_operands > 2 ? op->operands[2] : NULL;
    CpuValue *facts = &c->values[result->id];
    /* The operands' axes give the extents of the product. */
    const Value *a = op->operands[0], *b = op->operands[1];
    Product product = {.dtype = op->results[0]->type->dtype, .row_axis = 0, .column_axis = 1};
    product.left = side_of(c, a, op_int(op, ATTR_TA, 0) ? 1 : 0);
    product.right = side_of(c, b, op_int(op, ATTR_TB, 0) ? 0 : 1);
    Dim depth = a->type->dims[product.left.sum_axis];
    product.depth = cpu_dim(c, depth);
    product.depth_capacity = cpu_capacity(c, depth);
    if (product.right.capacity == 1 && product.left.capacity > 1) {
        Side left = product.left;
        product.left = product.right;
        product.right = left;
        product.row_axis = 1;
        product.column_axis = 0;
    }
    product.columns = product.right.capacity > c->lanes ? 2 * c->lanes : c->lanes;
    product.bytes = cpu_takes_bytes(c, &product);
    bool from_zero = !start || is_zero(c, start);
    /* The sum may not be built in memory that a factor is read from. */
    const Buffer *buffer = start ? c->values[start->id].buffer : NULL;
    if (buffer && (cpu_reads(c, op->operands[0], buffer->slot, false) ||
                   cpu_reads(c, op->operands[1], buffer->slot, false))) {
        c->values[start->id].last = INT_MAX;
    }
    if (from_zero) {
        facts->buffer = cpu_buffer_for(c, result->type, facts->last);
    } else {
        facts->buffer = cpu_take_over(c, start, facts->last);
    }
    product.to = facts->buffer;
    /* Both operands are packed, then each panel of columns is multiplied by all row blocks. */
    Kernel kernel = {.product = &product, .from_zero = from_zero};
    kernel.vectors = product.columns / c->lanes;
    bool bytes = product.bytes;
    kernel.left = bytes ? cpu_pack_left_bytes(c, &product) : cpu_pack_left(c, &product);
    LLVMValueRef panels = bytes ? cpu_pack_right_bytes(c, &product) : cpu_pack_right(c, &product);
    int64_t capacity = bytes ? cpu_bytes_capacity(c, &product) : product.depth_capacity;
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), product.right.len, product.columns);
    kernel.column = loop.counter;
    LLVMValueRef offset = cpu_mul_const(c, loop.counter, capacity);
    kernel.panel = cpu_element(c, bytes ? DT_I8 : product.dtype, panels, offset);
    row_blocks(c, &kernel);
    cpu_loop_end(c, &loop);
}
