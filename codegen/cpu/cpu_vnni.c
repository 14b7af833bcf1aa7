/* SPDX-License-Identifier: Apache-2.0 */
/* Dots of 8-bit integers by vpdpbusd, which adds four products of an unsigned and a signed byte to
 * each i32. Four adjacent elements along k are contiguous, both in the rows of the left operand
 * and in each column of the panels; past the end of k the panels hold 0.
 *
 * If both operands are signed, or both unsigned, the sign bits of the left one are flipped. Its
 * bytes are then off by 128, which subtracting a dot with the constant 128 corrects. All of it
 * wraps as i32 does. */
#include "codegen/cpu/cpu_dot.h"
#include "support/int_math.h"

enum { QUAD = 4 };

bool cpu_takes_bytes(const CpuEmitter *c, const Product *product)
{
    DType left = product->left.value->type->dtype, right = product->right.value->type->dtype;
    return c->l->has_vnni && c->lanes == 16 && left == right && dtype_is_int(left) &&
           dtype_bits(left) == 8 && dtype_bits(product->dtype) == 32;
}

int64_t cpu_bytes_capacity(const CpuEmitter *c, const Product *product)
{
    return round_up(product->depth_capacity, c->lanes);
}

static LLVMValueRef byte_at(CpuEmitter *c, LLVMValueRef base, LLVMValueRef offset)
{
    return LLVMBuildInBoundsGEP2(c->l->builder, c->l->i8, base, &offset, 1, "");
}

static LLVMValueRef buffer_for(CpuEmitter *c, int64_t bytes)
{
    Buffer *buffer = cpu_buffer_shape(c, DT_I8, 1, &bytes);
    cpu_buffer_place(c, buffer, c->now);
    return buffer->slot->memory;
}

static void store(CpuEmitter *c, LLVMValueRef value, LLVMValueRef address)
{
    LLVMSetAlignment(LLVMBuildStore(c->l->builder, value, address), 1);
}

/* ---- rows, and columns whose sum is contiguous: vectors along the sum ---- */

typedef struct Lines {
    const Product *product;
    const Side *side;
    LLVMValueRef base;
} Lines;

/* Lanes past the end are 0. */
static LLVMValueRef bytes_at(CpuEmitter *c, const Side *side, const Point *point)
{
    LLVMValueRef value = cpu_eval(c, side->value, point);
    if (point->mask) {
        LLVMValueRef none = LLVMConstNull(LLVMTypeOf(value));
        value = LLVMBuildSelect(c->l->builder, point->mask, value, none, "");
    }
    return value;
}

static void row_body(CpuEmitter *c, const Point *point, void *user)
{
    const Lines *lines = user;
    const Product *product = lines->product;
    LLVMValueRef value = bytes_at(c, lines->side, point);
    value = LLVMBuildXor(c->l->builder, value, llvm_int(LLVMTypeOf(value), 0x80), "");
    LLVMValueRef row =
        cpu_mul_const(c, point->at[lines->side->free_axis], cpu_bytes_capacity(c, product));
    LLVMValueRef at = cpu_add(c, row, point->at[lines->side->sum_axis]);
    store(c, value, byte_at(c, lines->base, at));
}

static LLVMValueRef quad_offset(CpuEmitter *c, const Product *product, LLVMValueRef column,
                                LLVMValueRef depth)
{
    LLVMBuilderRef b = c->l->builder;
    int64_t columns = product->columns;
    LLVMValueRef first = LLVMBuildAnd(b, column, llvm_i64(c->l, -columns), "");
    LLVMValueRef inner = LLVMBuildAnd(b, column, llvm_i64(c->l, columns - 1), "");
    LLVMValueRef at = cpu_mul_const(c, first, cpu_bytes_capacity(c, product));
    at = cpu_add(c, at, cpu_mul_const(c, depth, columns)); /* depth / 4 * columns * 4 */
    return cpu_add(c, at, cpu_mul_const(c, inner, QUAD));
}

static void column_body(CpuEmitter *c, const Point *point, void *user)
{
    const Lines *lines = user;
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef value = bytes_at(c, lines->side, point);
    int quads = c->lanes / QUAD;
    value = LLVMBuildBitCast(b, value, llvm_lanes(c->l->i32, quads), "");
    for (int i = 0; i < quads; i++) {
        LLVMValueRef one = LLVMBuildExtractElement(b, value, llvm_i64(c->l, i), "");
        LLVMValueRef depth =
            cpu_add(c, point->at[lines->side->sum_axis], llvm_i64(c->l, (int64_t)i * QUAD));
        LLVMValueRef at = quad_offset(c, lines->product, point->at[lines->side->free_axis], depth);
        store(c, one, byte_at(c, lines->base, at));
    }
}

static void pack_lines(CpuEmitter *c, Lines *lines, NestBody *body)
{
    const Side *side = lines->side;
    Nest nest = {.rank = 2, .vector_axis = side->sum_axis, .hoist = side->value, .body = body};
    nest.lens[side->free_axis] = side->len;
    nest.lens[side->sum_axis] = lines->product->depth;
    nest.user = lines;
    cpu_nest(c, &nest);
}

LeftView cpu_pack_left_bytes(CpuEmitter *c, const Product *product)
{
    int64_t depth = cpu_bytes_capacity(c, product);
    Lines lines = {product, &product->left, buffer_for(c, product->left.capacity * depth)};
    pack_lines(c, &lines, row_body);
    return (LeftView){lines.base, depth, 1};
}

/* ---- columns that are contiguous: four rows of the operand at a time ---- */

typedef struct Quad {
    const Lines *lines;
    LLVMValueRef depth;
    bool whole; /* all four rows are there */
} Quad;

static LLVMValueRef widened_row(CpuEmitter *c, const Quad *quad, const Point *point, int i)
{
    const Side *side = quad->lines->side;
    Point there = *point;
    there.at[side->sum_axis] = cpu_add(c, quad->depth, llvm_i64(c->l, i));
    LLVMTypeRef type = llvm_lanes(c->l->i32, c->lanes);
    if (quad->whole || i == 0) {
        return LLVMBuildZExt(c->l->builder, cpu_eval(c, side->value, &there), type, "");
    }
    LLVMValueRef cell = cpu_cell(c, type);
    cpu_set(c, cell, LLVMConstNull(type));
    LLVMValueRef inside = LLVMBuildICmp(c->l->builder, LLVMIntSLT, there.at[side->sum_axis],
                                        quad->lines->product->depth, "");
    Branch branch = cpu_if_begin(c, inside);
    LLVMValueRef value = cpu_eval(c, side->value, &there);
    cpu_set(c, cell, LLVMBuildZExt(c->l->builder, value, type, ""));
    cpu_if_end(c, &branch);
    return cpu_get(c, cell);
}

static void quad_body(CpuEmitter *c, const Point *point, void *user)
{
    const Quad *quad = user;
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef all = widened_row(c, quad, point, 0);
    for (int i = 1; i < QUAD; i++) {
        LLVMValueRef row = widened_row(c, quad, point, i);
        row = LLVMBuildShl(b, row, llvm_int(LLVMTypeOf(row), 8 * i), "");
        all = LLVMBuildOr(b, all, row, "");
    }
    const Lines *lines = quad->lines;
    LLVMValueRef at =
        quad_offset(c, lines->product, point->at[lines->side->free_axis], quad->depth);
    store(c, all, byte_at(c, lines->base, at));
}

static void quad_rows(CpuEmitter *c, const Lines *lines, LLVMValueRef depth, bool whole)
{
    Quad quad = {lines, depth, whole};
    Point point = {.rank = 2, .vector_axis = lines->side->free_axis};
    point.at[lines->side->sum_axis] = depth;
    cpu_vector_loop(c, &point, lines->side->len, quad_body, &quad);
}

LLVMValueRef cpu_pack_right_bytes(CpuEmitter *c, const Product *product)
{
    const Side *side = &product->right;
    int64_t columns = ceil_div(side->capacity, product->columns);
    int64_t bytes = columns * product->columns * cpu_bytes_capacity(c, product);
    Lines lines = {product, side, buffer_for(c, bytes)};
    if (cpu_contiguous(c, side->value, side->free_axis)) {
        /* Whole quads of depth are packed first; a partial quad at the end is padded with zeros. */
        LLVMBuilderRef b = c->l->builder;
        LLVMValueRef depth = lines.product->depth, zero = llvm_i64(c->l, 0);
        LLVMValueRef whole = LLVMBuildAnd(b, depth, llvm_i64(c->l, -QUAD), "");
        c->known.n = 0;
        Loop loop = cpu_loop_begin(c, zero, whole, QUAD);
        quad_rows(c, &lines, loop.counter, true);
        cpu_loop_end(c, &loop);
        Branch branch = cpu_if_begin(c, LLVMBuildICmp(b, LLVMIntSLT, whole, depth, ""));
        quad_rows(c, &lines, whole, false);
        cpu_if_end(c, &branch);
        c->known.n = 0;
    } else {
        pack_lines(c, &lines, column_body);
    }
    return lines.base;
}

/* ---- the register block ---- */

static LLVMValueRef dot_bytes(CpuEmitter *c, const Product *product, LLVMValueRef sum,
                              LLVMValueRef left, LLVMValueRef right)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMTypeRef bytes = llvm_lanes(c->l->i8, QUAD * c->lanes);
    left = LLVMBuildBitCast(b, left, bytes, "");
    right = LLVMBuildBitCast(b, right, bytes, "");
    bool first = dtype_is_signed(product->right.value->type->dtype);
    LLVMValueRef args[3] = {sum, first ? left : right, first ? right : left};
    return llvm_intrinsic(c->l, "llvm.x86.avx512.vpdpbusd.512", 0, NULL, 3, args);
}

static LLVMValueRef load_quads(CpuEmitter *c, LLVMValueRef base, LLVMValueRef at, int lanes)
{
    LLVMTypeRef type = llvm_lanes(c->l->i32, lanes);
    LLVMValueRef load = LLVMBuildLoad2(c->l->builder, type, byte_at(c, base, at), "");
    LLVMSetAlignment(load, 1);
    return load;
}

void cpu_bytes_block(CpuEmitter *c, BytesBlock *block)
{
    LLVMTypeRef type = llvm_lanes(c->l->i32, c->lanes);
    for (int v = 0; v < block->vectors; v++) {
        block->excess[v] = cpu_cell(c, type);
        cpu_set(c, block->excess[v], LLVMConstNull(type));
    }
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), block->product->depth, QUAD);

    /* Four elements of depth are multiplied by one instruction per row and vector. */
    const Product *product = block->product;
    LLVMTypeRef words = llvm_lanes(c->l->i32, c->lanes);
    LLVMValueRef columns[2], from = cpu_mul_const(c, loop.counter, product->columns);
    for (int v = 0; v < block->vectors; v++) {
        LLVMValueRef at = cpu_add(c, from, llvm_i64(c->l, (int64_t)v * c->lanes * QUAD));
        columns[v] = load_quads(c, block->panel, at, c->lanes);
        LLVMValueRef signs = llvm_int(words, 0x80808080), sum = cpu_get(c, block->excess[v]);
        cpu_set(c, block->excess[v], dot_bytes(c, product, sum, signs, columns[v]));
    }
    for (int row = 0; row < block->rows; row++) {
        LLVMValueRef at = cpu_add(c, loop.counter, llvm_i64(c->l, row * block->row_stride));
        LLVMValueRef all = llvm_splat(c->l, load_quads(c, block->left, at, 1), words);
        for (int v = 0; v < block->vectors; v++) {
            LLVMValueRef cell = block->cells[row * block->vectors + v];
            cpu_set(c, cell, dot_bytes(c, product, cpu_get(c, cell), all, columns[v]));
        }
    }

    cpu_loop_end(c, &loop);
    for (int i = 0; i < block->rows * block->vectors; i++) {
        LLVMValueRef sum = cpu_get(c, block->cells[i]);
        LLVMValueRef excess = cpu_get(c, block->excess[i % block->vectors]);
        cpu_set(c, block->cells[i], LLVMBuildSub(c->l->builder, sum, excess, ""));
    }
}
