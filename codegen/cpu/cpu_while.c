/* SPDX-License-Identifier: Apache-2.0 */
/* The `while` op over arrays: a vector of elements iterates at a time, and each lane continues
 * while its own condition holds. The region is evaluated at one index of the loop-carried arrays;
 * the values it computes stay virtual. */
#include "codegen/cpu/cpu_emit.h"

static int lanes_at(const CpuEmitter *c, const Point *point)
{
    return point->vector_axis < 0 ? 1 : c->lanes;
}

static LLVMTypeRef type_at(CpuEmitter *c, const Value *value, const Point *point)
{
    LLVMTypeRef type = llvm_type(c->l, value->type->dtype);
    return type_is_scalar(value->type) ? type : llvm_lanes(type, lanes_at(c, point));
}

static void bind(CpuEmitter *c, const Value *value, const Point *point, LLVMValueRef result)
{
    if (type_is_scalar(value->type)) {
        c->values[value->id].scalar = result;
        return;
    }
    CachedElement known = {value, *point, KNOWN_VALUE, result, NULL};
    ARENA_PUSH(c->arena, &c->known, known);
}

/* ---- carried values at a point ---- */

typedef struct Carried {
    int n;
    LLVMValueRef *cells;
} Carried;

static Carried carry(CpuEmitter *c, int n, Value *const *like, const Point *point)
{
    Carried carried = {n, ARENA_ARRAY(c->arena, LLVMValueRef, n)};
    for (int i = 0; i < n; i++) {
        carried.cells[i] = cpu_cell(c, type_at(c, like[i], point));
    }
    return carried;
}

static void carry_in(CpuEmitter *c, const Carried *carried, Value *const *inits, const Point *point)
{
    for (int i = 0; i < carried->n; i++) {
        cpu_set(c, carried->cells[i], cpu_eval(c, inits[i], point));
    }
}

static void give(CpuEmitter *c, const Carried *carried, Value *const *to, const Point *point)
{
    for (int i = 0; i < carried->n; i++) {
        bind(c, to[i], point, cpu_get(c, carried->cells[i]));
    }
}

/* ---- regions ---- */

static void point_op(CpuEmitter *c, const Op *op, const Point *point);

/* Ends at the yield, whose operands go to `out`. */
static void point_region(CpuEmitter *c, const Block *region, const Point *point, LLVMValueRef *out)
{
    for (const Op *op = region->first; op; op = op->next) {
        if (op->kind != OP_YIELD) {
            point_op(c, op, point);
            continue;
        }
        for (int i = 0; i < op->n_operands; i++) {
            out[i] = cpu_eval(c, op->operands[i], point);
        }
    }
}

static void set_carried(CpuEmitter *c, const Carried *carried, LLVMValueRef *values)
{
    for (int i = 0; i < carried->n; i++) {
        cpu_set(c, carried->cells[i], values[i]);
    }
}

static void point_for(CpuEmitter *c, const Op *op, const Point *point)
{
    LLVMValueRef *next = ARENA_ARRAY(c->arena, LLVMValueRef, op->n_results);
    const Block *region = op->regions[0];
    Carried carried = carry(c, op->n_results, op->operands + 2, point);
    carry_in(c, &carried, op->operands + 2, point);
    LLVMValueRef lo = cpu_scalar(c, for_lo(op)), hi = cpu_scalar(c, for_hi(op));
    hi = cpu_min(c, hi, cpu_dim(c, op_attr(op, ATTR_DIMS)->dims[0]));
    if (region->args[0]->type->kind == TYPE_RANGE) {
        diag_bug(c->func->diags, "a range is walked inside of a loop over elements");
    }
    Loop loop = cpu_loop_begin(c, lo, hi, 1);
    c->values[region->args[0]->id].scalar = loop.counter;
    give(c, &carried, region->args + 1, point);
    point_region(c, region, point, next);
    set_carried(c, &carried, next);
    cpu_loop_end(c, &loop);
    give(c, &carried, op->results, point);
}

/* ---- while ---- */

static LLVMValueRef any_lane(CpuEmitter *c, LLVMValueRef lanes)
{
    bool one = !llvm_lane_count(LLVMTypeOf(lanes));
    return one ? lanes : llvm_call1(c->l, "llvm.vector.reduce.or", lanes);
}

/* Values from outside that the regions read where they are: read once, before the loop. */
static void read_before(CpuEmitter *c, const Op *loop, const Block *region, const Point *point)
{
    for (const Op *op = region->first; op; op = op->next) {
        bool moves =
            !op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_YIELD && op->kind != OP_GATHER;
        for (int i = op->kind == OP_GATHER; i < op->n_operands && !moves; i++) {
            const Value *value = op->operands[i];
            if (value->type->rank == point->rank && !value_is_inside(value, loop)) {
                cpu_eval(c, value, point);
            }
        }
        for (int i = 0; i < op->n_regions; i++) {
            read_before(c, loop, op->regions[i], point);
        }
    }
}

static LLVMValueRef first_active(CpuEmitter *c, const Point *point)
{
    LLVMTypeRef type = llvm_lanes(c->l->i1, lanes_at(c, point));
    return point->mask ? point->mask : llvm_int(type, 1);
}

static void point_while(CpuEmitter *c, const Op *op, const Point *point)
{
    LLVMBuilderRef b = c->l->builder;
    Carried carried = carry(c, op->n_results, op->operands, point);
    carry_in(c, &carried, op->operands, point);
    read_before(c, op, op->regions[0], point);
    read_before(c, op, op->regions[1], point);
    LLVMValueRef first = first_active(c, point), condition;
    LLVMValueRef active = cpu_cell(c, LLVMTypeOf(first));
    cpu_set(c, active, first);
    size_t known = c->known.n;
    LLVMBasicBlockRef head = llvm_block(c->l, c->function, "while");
    LLVMBasicBlockRef body = llvm_block(c->l, c->function, "body");
    LLVMBasicBlockRef after = llvm_block(c->l, c->function, "after");
    LLVMBuildBr(b, head);
    LLVMPositionBuilderAtEnd(b, head);
    ActiveLoop inside = {op, point->mask, point->inside};
    Point inner = *point;
    inner.inside = &inside;
    inner.mask = point->vector_axis < 0 ? NULL : cpu_get(c, active);
    give(c, &carried, op->regions[0]->args, &inner);
    point_region(c, op->regions[0], &inner, &condition);
    condition = LLVMBuildAnd(b, condition, cpu_get(c, active), "");
    cpu_set(c, active, condition);
    LLVMBuildCondBr(b, any_lane(c, condition), body, after);
    LLVMPositionBuilderAtEnd(b, body);
    inner.mask = point->vector_axis < 0 ? NULL : condition;
    /* The body computes the next carried values, which only active lanes take over. */
    LLVMValueRef *next = ARENA_ARRAY(c->arena, LLVMValueRef, op->n_results);
    give(c, &carried, op->regions[1]->args, &inner);
    point_region(c, op->regions[1], &inner, next);
    for (int i = 0; i < carried.n; i++) {
        LLVMValueRef kept = cpu_get(c, carried.cells[i]);
        if (inner.mask && llvm_lane_count(LLVMTypeOf(kept))) {
            next[i] = LLVMBuildSelect(c->l->builder, inner.mask, next[i], kept, "");
        }
    }
    set_carried(c, &carried, next);
    LLVMBuildBr(b, head);
    LLVMPositionBuilderAtEnd(b, after);
    c->known.n = known;
    give(c, &carried, op->results, point);
}

static void point_op(CpuEmitter *c, const Op *op, const Point *point)
{
    bool scalar = op->n_results && type_is_scalar(op->results[0]->type);
    switch (op->kind) {
    case OP_WHILE: point_while(c, op, point); return;
    case OP_FOR: point_for(c, op, point); return;
    case OP_IF: {
        /* Either region leaves its results in the same cells. */
        LLVMValueRef *next = ARENA_ARRAY(c->arena, LLVMValueRef, op->n_results);
        Carried carried = carry(c, op->n_results, op->results, point);
        Branch branch = cpu_if_begin(c, cpu_scalar(c, op->operands[0]));
        point_region(c, op->regions[0], point, next);
        set_carried(c, &carried, next);
        if (op->n_regions > 1) {
            cpu_if_else(c, &branch);
            point_region(c, op->regions[1], point, next);
            set_carried(c, &carried, next);
        }
        cpu_if_end(c, &branch);
        give(c, &carried, op->results, point);
    }
        return;
    case OP_STORE:
        cpu_tensor_store(c, op, point, cpu_eval(c, op->operands[op->n_operands - 1], point));
        return;
    case OP_PRINT:
    case OP_ASSERT: cpu_print_at(c, op, point); return;
    case OP_SCATTER: {
        LLVMValueRef old = cpu_scatter_at(c, op, point);
        if (old) {
            bind(c, op->results[0], point, old);
        }
        return;
    }
    default: break;
    }
    if (scalar) {
        cpu_emit_op(c, op);
    } else if (!cpu_is_pointwise(op)) {
        diag_bug(c->func->diags, "%s mixes elements inside of a loop over them",
                 op_info(op->kind)->name);
    } else if (cpu_reads_written(c, op)) {
        cpu_eval(c, op->results[0], point); /* now, before the next store */
    }
}

/* ---- the op ---- */

typedef struct Elements {
    const Op *op;
    const Buffer **to; /* by result */
} Elements;

static void elements_body(CpuEmitter *c, const Point *point, void *user)
{
    const Elements *elements = user;
    const Op *op = elements->op;
    size_t known = c->known.n;
    point_while(c, op, point);
    for (int i = 0; i < op->n_results; i++) {
        cpu_buffer_store(c, elements->to[i], point, cpu_eval(c, op->results[i], point));
    }
    c->known.n = known;
}

void cpu_emit_elements(CpuEmitter *c, const Op *op)
{
    Elements elements = {op, ARENA_ARRAY(c->arena, const Buffer *, op->n_results)};
    for (int i = 0; i < op->n_results; i++) {
        const Value *result = op->results[i];
        elements.to[i] = cpu_buffer_for(c, result->type, c->values[result->id].last);
    }
    Nest nest = cpu_nest_over(c, op->results[0]->type);
    nest.body = elements_body;
    nest.user = &elements;
    cpu_nest(c, &nest);
    for (int i = 0; i < op->n_results; i++) {
        c->values[op->results[i]->id].buffer = elements.to[i];
    }
}
