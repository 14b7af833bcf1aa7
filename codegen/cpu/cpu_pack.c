/* SPDX-License-Identifier: Apache-2.0 */
/* Packs the operands of a dot: it converts them to the dot's type and stores them in the order in
 * which the register block reads them. A right operand that is contiguous along k (x @ w.T) is
 * read along k and transposed in registers. */
#include "codegen/cpu/cpu_dot.h"
#include "support/int_math.h"

static LLVMValueRef converted(CpuEmitter *c, const Product *product, const Value *value,
                              const Point *point)
{
    return scalar_cast(c->l, cpu_eval(c, value, point), value->type->dtype, product->dtype);
}

/* Rows ahead whose lines are asked for while one is packed: they lie far apart in memory. */
enum { ROWS_AHEAD = 8 };

static void fetch_ahead(CpuEmitter *c, const Side *side, const Point *point)
{
    Point ahead = *point;
    int rows = !point->vector_axis;
    if (point->vector_axis >= 0) {
        ahead.at[rows] = cpu_add(c, ahead.at[rows], llvm_i64(c->l, ROWS_AHEAD));
        ahead.mask = NULL;
        cpu_prefetch(c, side->value, &ahead);
    }
}

/* ---- left ---- */

/* A buffer of the right type is read where it is, transposed or not. */
static const Buffer *ready_buffer(const CpuEmitter *c, const Product *product, int *row, int *depth)
{
    const Value *value = product->left.value;
    *row = product->left.free_axis;
    *depth = product->left.sum_axis;
    while (!c->values[value->id].buffer && value->def && value->def->kind == OP_PERMUTE) {
        const Attr *perm = op_attr(value->def, ATTR_PERM);
        *row = (int)perm->ints[*row];
        *depth = (int)perm->ints[*depth];
        value = value->def->operands[0];
    }
    const Buffer *buffer = c->values[value->id].buffer;
    return buffer && buffer->dtype == product->dtype ? buffer : NULL;
}

typedef struct Pack {
    const Product *product;
    const Buffer *to;
    bool turned;       /* left: depth before rows */
    LLVMValueRef base; /* right: the panels */
} Pack;

static void pack_left_body(CpuEmitter *c, const Point *point, void *user)
{
    const Pack *pack = user;
    const Side *side = &pack->product->left;
    Point there = {.rank = 2, .vector_axis = pack->to->vector_axis};
    there.at[pack->turned] = point->at[side->free_axis];
    there.at[!pack->turned] = point->at[side->sum_axis];
    fetch_ahead(c, side, point);
    cpu_buffer_store(c, pack->to, &there, converted(c, pack->product, side->value, point));
}

static Nest nest_over_side(CpuEmitter *c, const Product *product, const Side *side)
{
    Nest nest = {.rank = 2, .vector_axis = -1, .hoist = side->value};
    nest.lens[side->free_axis] = side->len;
    nest.lens[side->sum_axis] = product->depth;
    (void)c;
    return nest;
}

LeftView cpu_pack_left(CpuEmitter *c, const Product *product)
{
    const Side *side = &product->left;
    int row, depth;
    const Buffer *ready = ready_buffer(c, product, &row, &depth);
    if (ready) {
        return (LeftView){ready->slot->memory, ready->strides[row], ready->strides[depth]};
    }
    bool turned = !cpu_contiguous(c, side->value, side->sum_axis) &&
                  cpu_contiguous(c, side->value, side->free_axis);
    int64_t extents[2];
    extents[turned] = side->capacity;
    extents[!turned] = product->depth_capacity;
    Buffer *buffer = cpu_buffer_shape(c, product->dtype, 2, extents);
    cpu_buffer_place(c, buffer, c->now);
    Pack pack = {product, buffer, turned, NULL};
    Nest nest = nest_over_side(c, product, side);
    if (buffer->vector_axis >= 0) {
        bool along_rows = buffer->vector_axis == (int)turned;
        nest.vector_axis = along_rows ? side->free_axis : side->sum_axis;
    }
    nest.body = pack_left_body;
    nest.user = &pack;
    cpu_nest(c, &nest);
    return (LeftView){buffer->slot->memory, buffer->strides[turned], buffer->strides[!turned]};
}

/* ---- right ---- */

static LLVMValueRef panel_address(CpuEmitter *c, const Pack *pack, LLVMValueRef column,
                                  LLVMValueRef depth)
{
    int64_t columns = pack->product->columns;
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef first = LLVMBuildAnd(b, column, llvm_i64(c->l, -columns), "");
    LLVMValueRef inner = LLVMBuildAnd(b, column, llvm_i64(c->l, columns - 1), "");
    LLVMValueRef offset = cpu_mul_const(c, first, pack->product->depth_capacity);
    offset = cpu_add(c, offset, cpu_mul_const(c, depth, columns));
    return cpu_element(c, pack->product->dtype, pack->base, cpu_add(c, offset, inner));
}

static void pack_right_body(CpuEmitter *c, const Point *point, void *user)
{
    const Pack *pack = user;
    const Side *side = &pack->product->right;
    fetch_ahead(c, side, point);
    LLVMValueRef value = converted(c, pack->product, side->value, point);
    LLVMValueRef address =
        panel_address(c, pack, point->at[side->free_axis], point->at[side->sum_axis]);
    cpu_store_at(c, pack->product->dtype, address, value);
}

static void pack_single(CpuEmitter *c, const Pack *pack, LLVMValueRef column_from,
                        LLVMValueRef column_to, LLVMValueRef depth_from)
{
    const Side *side = &pack->product->right;
    Point point = {.rank = 2, .vector_axis = -1};
    Loop columns = cpu_loop_begin(c, column_from, column_to, 1);
    Loop depths = cpu_loop_begin(c, depth_from, pack->product->depth, 1);
    point.at[side->free_axis] = columns.counter;
    point.at[side->sum_axis] = depths.counter;
    pack_right_body(c, &point, (void *)pack);
    cpu_loop_end(c, &depths);
    cpu_loop_end(c, &columns);
}

static LLVMValueRef whole_vectors(CpuEmitter *c, LLVMValueRef len)
{
    return LLVMBuildAnd(c->l->builder, len, llvm_i64(c->l, -c->lanes), "");
}

static bool has_rest(const CpuEmitter *c, LLVMValueRef len)
{
    int64_t n;
    return !cpu_constant(len, &n) || n % c->lanes != 0;
}

static void pack_transposed(CpuEmitter *c, const Pack *pack)
{
    LLVMValueRef zero = llvm_i64(c->l, 0);
    LLVMValueRef len = pack->product->right.len, depth = pack->product->depth;
    LLVMValueRef whole_columns = whole_vectors(c, len), whole_depth = whole_vectors(c, depth);
    c->known.n = 0;
    Loop columns = cpu_loop_begin(c, zero, whole_columns, c->lanes);
    Loop depths = cpu_loop_begin(c, zero, whole_depth, c->lanes);
    /* A square of lanes × lanes elements is loaded along the depth, transposed, and stored along
     * the columns. */
    const Side *side = &pack->product->right;
    LLVMValueRef rows[64];
    for (int i = 0; i < c->lanes; i++) {
        Point point = {.rank = 2, .vector_axis = side->sum_axis};
        point.at[side->free_axis] = cpu_add(c, columns.counter, llvm_i64(c->l, i));
        point.at[side->sum_axis] = depths.counter;
        rows[i] = converted(c, pack->product, side->value, &point);
    }

    cpu_transpose(c, rows);
    for (int i = 0; i < c->lanes; i++) {
        LLVMValueRef at = cpu_add(c, depths.counter, llvm_i64(c->l, i));
        cpu_store_at(c, pack->product->dtype, panel_address(c, pack, columns.counter, at), rows[i]);
    }
    cpu_loop_end(c, &depths);
    cpu_loop_end(c, &columns);
    if (has_rest(c, depth)) {
        pack_single(c, pack, zero, whole_columns, whole_depth);
    }
    if (has_rest(c, len)) {
        pack_single(c, pack, whole_columns, len, zero);
    }
    c->known.n = 0;
}

LLVMValueRef cpu_pack_right(CpuEmitter *c, const Product *product)
{
    const Side *side = &product->right;
    int64_t extents[1] = {round_up(side->capacity, product->columns) * product->depth_capacity};
    Buffer *panels = cpu_buffer_shape(c, product->dtype, 1, extents);
    cpu_buffer_place(c, panels, c->now);
    Pack pack = {product, panels, false, panels->slot->memory};
    if (!cpu_contiguous(c, side->value, side->free_axis) &&
        cpu_contiguous(c, side->value, side->sum_axis)) {
        pack_transposed(c, &pack);
        return pack.base;
    }
    Nest nest = nest_over_side(c, product, side);
    nest.vector_axis = side->free_axis;
    nest.body = pack_right_body;
    nest.user = &pack;
    cpu_nest(c, &nest);
    return pack.base;
}
