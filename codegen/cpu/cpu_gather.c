/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers. An index that is affine along the lanes becomes a broadcast element, a contiguous
 * vector or a strided access; any other index is an address per lane. */
#include "codegen/cpu/cpu_access.h"

/* ---- i64 arithmetic of the program's own indices, which may wrap ---- */

static LLVMValueRef plus(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b)
{
    if (cpu_is_constant(a, 0)) {
        return b;
    }
    return cpu_is_constant(b, 0) ? a : LLVMBuildAdd(c->l->builder, a, b, "");
}

static LLVMValueRef minus(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b)
{
    return cpu_is_constant(b, 0) ? a : LLVMBuildSub(c->l->builder, a, b, "");
}

static LLVMValueRef times(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b)
{
    if (cpu_is_constant(a, 1) || cpu_is_constant(b, 0)) {
        return b;
    }
    return cpu_is_constant(b, 1) || cpu_is_constant(a, 0) ? a
                                                          : LLVMBuildMul(c->l->builder, a, b, "");
}

/* ---- lanes ---- */

/* What an index is in lane l: first + l * step, all i64; or each[l]. */
typedef struct Lanes {
    LLVMValueRef first, step;
    LLVMValueRef each; /* not NULL: no such pair is known */
} Lanes;

static Point lane_zero(const Point *point)
{
    Point one = *point;
    one.vector_axis = -1;
    one.mask = NULL;
    return one;
}

/* The value is the same in all lanes. */
static bool uniform(CpuEmitter *c, const Value *value, const Point *point);

static bool uniform_op(CpuEmitter *c, const Op *op, const Point *point)
{
    switch (op->kind) {
    case OP_CONST: return true;
    case OP_IOTA:
    case OP_INDEX: return point->vector_axis != 0;
    case OP_LOAD: {
        /* A load is uniform if no index varies along the vector axis. */
        Access access = op_access(op, 0);
        int axis = point->rank;
        for (int i = access.n - 1; i >= 0; i--) {
            const Value *index = access.indices[i];
            bool kept = !index || index->type->kind == TYPE_RANGE;
            if (kept && --axis == point->vector_axis) {
                return false;
            }
        }
        (void)c;
        return true;
    }
    default: break;
    }
    if (!cpu_is_pointwise(op)) {
        return false;
    }
    Point inner = cpu_operand_point(c, op, point);
    for (int i = op->kind == OP_GATHER; i < op->n_operands; i++) {
        if (!uniform(c, op->operands[i], &inner)) {
            return false;
        }
    }
    return true;
}

static bool uniform(CpuEmitter *c, const Value *value, const Point *point)
{
    const Buffer *buffer = c->values[value->id].buffer;
    bool answer;
    if (point->vector_axis < 0 || value->type->rank == 0) {
        return true;
    }
    if (buffer) {
        return buffer->extents[point->vector_axis] == 1;
    }
    if (!value->def) {
        return false; /* carried by a loop over elements */
    }
    if (cpu_seen(c, value, point->vector_axis, &answer)) {
        return answer;
    }
    return cpu_remember(c, value, point->vector_axis, uniform_op(c, value->def, point));
}

static bool affine(CpuEmitter *c, const Value *value, const Point *point, Lanes *out);

/* a * b + d, each affine, one of the factors the same in all lanes. NULL: 1, 0. */
static bool affine_sum(CpuEmitter *c, const Value *const *of, bool subtract, const Point *point,
                       Lanes *out)
{
    Lanes a, b = {llvm_i64(c->l, 1), llvm_i64(c->l, 0), NULL};
    Lanes d = {llvm_i64(c->l, 0), llvm_i64(c->l, 0), NULL};
    if (!affine(c, of[0], point, &a) || (of[1] && !affine(c, of[1], point, &b)) ||
        (of[2] && !affine(c, of[2], point, &d))) {
        return false;
    }
    if (!cpu_is_constant(a.step, 0) && !cpu_is_constant(b.step, 0)) {
        return false;
    }
    LLVMValueRef step = plus(c, times(c, a.step, b.first), times(c, a.first, b.step));
    LLVMValueRef first = times(c, a.first, b.first);
    out->first = subtract ? minus(c, first, d.first) : plus(c, first, d.first);
    out->step = subtract ? minus(c, step, d.step) : plus(c, step, d.step);
    return true;
}

static bool affine_op(CpuEmitter *c, const Op *op, const Point *point, Lanes *out)
{
    Value *const *of = op->operands;
    Point inner;
    switch (op->kind) {
    case OP_INDEX:
    case OP_IOTA:
        inner = lane_zero(point);
        out->first = scalar_cast(c->l, cpu_eval(c, op->results[0], &inner),
                                 op->results[0]->type->dtype, DT_I64);
        out->step = llvm_i64(c->l, 1);
        return true;
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE:
    case OP_MASK:
    case OP_TO_STATIC:
        inner = cpu_operand_point(c, op, point);
        return affine(c, of[0], &inner, out);
    default: break;
    }
    if (op->results[0]->type->dtype != DT_I64) { /* narrower ones may wrap between two lanes */
        return false;
    }
    switch (op->kind) {
    case OP_CAST: return dtype_is_int(of[0]->type->dtype) && affine(c, of[0], point, out);
    case OP_ADD:
    case OP_SUB:
        return affine_sum(c, (const Value *[]){of[0], NULL, of[1]}, op->kind == OP_SUB, point, out);
    case OP_MUL: return affine_sum(c, (const Value *[]){of[0], of[1], NULL}, false, point, out);
    case OP_FMA: return affine_sum(c, (const Value *[]){of[0], of[1], of[2]}, false, point, out);
    default: return false;
    }
}

static bool find_affine(CpuEmitter *c, const Value *value, const Point *point, Lanes *out)
{
    cpu_new_walk(c);
    if (uniform(c, value, point)) {
        Point one = lane_zero(point);
        out->first = scalar_cast(c->l, cpu_eval(c, value, &one), value->type->dtype, DT_I64);
        out->step = llvm_i64(c->l, 0);
        return true;
    }
    return !c->values[value->id].buffer && value->def && affine_op(c, value->def, point, out);
}

static bool affine(CpuEmitter *c, const Value *value, const Point *point, Lanes *out)
{
    const CachedElement *known = cpu_find_known(c, value, point, KNOWN_LANES);
    *out = (Lanes){NULL, NULL, NULL};
    if (known) {
        out->first = known->result;
        out->step = known->step;
        return known->step != NULL;
    }
    if (!find_affine(c, value, point, out)) {
        *out = (Lanes){NULL, NULL, NULL};
    }
    CachedElement found = {value, *point, KNOWN_LANES, out->first, out->step};
    ARENA_PUSH(c->arena, &c->known, found);
    return out->step != NULL;
}

/* ---- the access ---- */

static LLVMValueRef lanes_as_vector(CpuEmitter *c, const Lanes *lanes)
{
    if (lanes->each) {
        return lanes->each;
    }
    LLVMTypeRef type = llvm_lanes(c->l->i64, c->lanes);
    LLVMValueRef steps = LLVMBuildMul(c->l->builder, llvm_splat(c->l, lanes->step, type),
                                      cpu_iota(c, c->l->i64), "");
    return LLVMBuildAdd(c->l->builder, llvm_splat(c->l, lanes->first, type), steps, "");
}

Spot cpu_indexed_spot(CpuEmitter *c, const Op *op, const Point *point)
{
    Access access = op_access(op, 0);
    Type type = access.memory->type;
    Spot spot = {.mask = point->mask, .lanes = point->vector_axis < 0 ? 1 : c->lanes};
    Lanes offset = {llvm_i64(c->l, 0), llvm_i64(c->l, 0), NULL};
    LLVMValueRef strides[MAX_RANK];
    cpu_strides(c, type, strides);
    for (int axis = type->rank - 1; axis >= 0; axis--) {
        /* Indices that are not affine in the lane are evaluated for each lane. */
        Lanes lanes;
        if (!affine(c, access.indices[axis], point, &lanes)) {
            LLVMValueRef each = cpu_eval(c, access.indices[axis], point);
            lanes.each = scalar_cast(c->l, each, access.indices[axis]->type->dtype, DT_I64);
        }
        LLVMValueRef extent = cpu_dim(c, type->dims[axis]);
        if (op_is_guarded(op, axis)) {
            /* The guard of the axis is a scalar where all lanes agree, and a mask of lanes
             * otherwise. */
            LLVMValueRef inside;
            if (!lanes.each && cpu_is_constant(lanes.step, 0)) {
                inside = cpu_within(c, lanes.first, extent);
                spot.inside = cpu_and_also(c, spot.inside, inside);
            } else if (!lanes.each && cpu_is_constant(lanes.step, 1)) {
                inside = cpu_lanes_within(c, lanes.first, extent);
                spot.mask = cpu_and_also(c, spot.mask, inside);
            } else {
                LLVMTypeRef words = llvm_lanes(c->l->i64, c->lanes);
                inside = cpu_within(c, lanes_as_vector(c, &lanes), llvm_splat(c->l, extent, words));
                spot.mask = cpu_and_also(c, spot.mask, inside);
            }
        }
        /* The axis adds `lanes * stride` to the offset, which stays affine if both terms are. */
        if (!offset.each && !lanes.each) {
            offset.first = plus(c, offset.first, times(c, lanes.first, strides[axis]));
            offset.step = plus(c, offset.step, times(c, lanes.step, strides[axis]));
            continue;
        }
        LLVMTypeRef words = llvm_lanes(c->l->i64, c->lanes);
        LLVMValueRef part =
            times(c, lanes_as_vector(c, &lanes), llvm_splat(c->l, strides[axis], words));
        offset.each = LLVMBuildAdd(c->l->builder, lanes_as_vector(c, &offset), part, "");
    }
    spot.each = offset.each;
    if (!offset.each) {
        spot.offset = offset.first;
        spot.stride = cpu_is_constant(offset.step, 1) ? NULL : offset.step;
    }
    cpu_spot_address(c, access.memory, &spot);
    return spot;
}

/* Lanes whose elements lie side by side in descending order are read as a vector and reversed;
 * NULL: they do not, or some lane has a guard. */
static LLVMValueRef load_reversed(CpuEmitter *c, DType dtype, const Spot *spot)
{
    LLVMValueRef lanes[64];
    int64_t stride;
    if (spot->lanes < 2 || spot->each || spot->mask || spot->inside || dtype_is_packed(dtype) ||
        !spot->stride || !cpu_constant(spot->stride, &stride) || stride != -1) {
        return NULL;
    }
    LLVMValueRef first = cpu_element(c, dtype, spot->address, llvm_i64(c->l, 1 - spot->lanes));
    LLVMValueRef vector = cpu_load_at(c, dtype, first, spot->lanes);
    for (int i = 0; i < spot->lanes; i++) {
        lanes[i] = llvm_i32(c->l, spot->lanes - 1 - i);
    }
    return LLVMBuildShuffleVector(c->l->builder, vector, LLVMGetPoison(LLVMTypeOf(vector)),
                                  LLVMConstVector(lanes, (unsigned)spot->lanes), "");
}

LLVMValueRef cpu_gather(CpuEmitter *c, const Op *op, const Point *point)
{
    DType dtype = op->operands[0]->type->dtype;
    Spot spot = cpu_indexed_spot(c, op, point);
    LLVMValueRef reversed = load_reversed(c, dtype, &spot);
    if (reversed) {
        return reversed;
    }
    LLVMTypeRef type = llvm_lanes(llvm_type(c->l, dtype), spot.lanes);
    LLVMValueRef outside = llvm_number(c->l, dtype, type, op_attr(op, ATTR_VALUE));
    return cpu_point_load(c, dtype, spot, point, outside);
}
