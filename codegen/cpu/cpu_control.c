/* SPDX-License-Identifier: Apache-2.0 */
/* Control flow: blocks of ops, loops with loop-carried values, branches, and the loop over block
 * ids. */
#include "codegen/cpu/cpu_emit.h"

/* Where a region's yield leaves its values: cells for scalars, buffers for arrays. */
typedef struct Outlet {
    int n;
    LLVMValueRef *cells;
    const Buffer **buffers;
} Outlet;

static void emit_block(CpuEmitter *c, const Block *block, const Outlet *outlet);

static Outlet new_outlet(CpuEmitter *c, int n)
{
    LLVMValueRef *cells = ARENA_ARRAY(c->arena, LLVMValueRef, n);
    return (Outlet){n, cells, ARENA_ARRAY(c->arena, const Buffer *, n)};
}

static bool is_scalar_type(const Value *value)
{
    return value->type->kind == TYPE_ARRAY && value->type->rank == 0;
}

/* ---- yield ---- */

/* An outlet's memory that another value lives in would be overwritten before it is read. */
static bool held_by_other(const Outlet *outlet, const StackSlot *slot, int own)
{
    for (int i = 0; i < outlet->n; i++) {
        if (i != own && outlet->buffers[i] && outlet->buffers[i]->slot == slot) {
            return true;
        }
    }
    return false;
}

static const Buffer *out_of_the_way(CpuEmitter *c, const Outlet *outlet, const Value *value,
                                    int own)
{
    const Buffer *buffer = c->values[value->id].buffer;
    if (!buffer) {
        diag_bug(c->func->diags, "a yielded array has no buffer");
    }
    if (!held_by_other(outlet, buffer->slot, own)) {
        return buffer;
    }
    Buffer *copy = cpu_buffer_for(c, value->type, c->now);
    cpu_copy_buffer(c, buffer, copy, value->type);
    return copy;
}

static void emit_yield(CpuEmitter *c, const Op *op, const Outlet *outlet)
{
    const Buffer **from = ARENA_ARRAY(c->arena, const Buffer *, op->n_operands);
    LLVMValueRef *scalars = ARENA_ARRAY(c->arena, LLVMValueRef, op->n_operands);
    for (int i = 0; i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        if (is_scalar_type(value)) {
            scalars[i] = cpu_scalar(c, value);
        } else {
            from[i] = out_of_the_way(c, outlet, value, i);
        }
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (scalars[i]) {
            cpu_set(c, outlet->cells[i], scalars[i]);
        } else if (from[i]->slot != outlet->buffers[i]->slot) {
            cpu_copy_buffer(c, from[i], outlet->buffers[i], op->operands[i]->type);
        }
    }
}

/* ---- for ---- */

/* The loop is known to walk all of its extent, in whole steps. */
static bool walks_whole(const Op *op, Dim dim)
{
    const Op *hi = for_hi(op)->def;
    return value_is_const(for_lo(op), 0) && hi && hi->kind == OP_SIZE &&
           op_attr(hi, ATTR_DIM)->dims[0] == dim;
}

static bool divides(Dim dim, int64_t step)
{
    return step > 0 && poly_divisor(dim) % step == 0;
}

static void bind_range(CpuEmitter *c, const Value *range, LLVMValueRef start, LLVMValueRef len)
{
    CpuValue *facts = &c->values[range->id];
    facts->start = start;
    facts->len = len;
    facts->end = cpu_add(c, start, len);
}

static void bind_iterator(CpuEmitter *c, const Op *op, LLVMValueRef at, LLVMValueRef hi)
{
    const Value *iterator = op->regions[0]->args[0];
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    Dim dim = op_attr(op, ATTR_DIMS)->dims[0];
    if (iterator->type->kind != TYPE_RANGE) {
        c->values[iterator->id].scalar = at;
        return;
    }
    LLVMValueRef len = llvm_i64(c->l, step);
    if (!walks_whole(op, dim) || !divides(dim, step)) {
        len = cpu_min(c, cpu_sub(c, hi, at), len);
    }
    bind_range(c, iterator, at, len);
}

/* The inits begin at operand `first`. */
static Outlet carry_in(CpuEmitter *c, const Op *op, int first)
{
    Outlet outlet = new_outlet(c, op->n_results);
    int end = cpu_end_position(c, op);
    for (int i = 0; i < op->n_results; i++) {
        const Value *init = op->operands[first + i], *result = op->results[i];
        int last = c->values[result->id].last;
        if (is_scalar_type(init)) {
            outlet.cells[i] = cpu_cell(c, LLVMTypeOf(cpu_scalar(c, init)));
            cpu_set(c, outlet.cells[i], cpu_scalar(c, init));
        } else {
            outlet.buffers[i] = cpu_take_over(c, init, last > end ? last : end);
        }
    }
    return outlet;
}

static void give(CpuEmitter *c, const Value *value, const Outlet *outlet, int i)
{
    if (outlet->cells[i]) {
        c->values[value->id].scalar = cpu_get(c, outlet->cells[i]);
    } else {
        c->values[value->id].buffer = outlet->buffers[i];
    }
}

/* Where the step begins that the counter stands for: a descending loop takes the last one first. */
static LLVMValueRef loop_start(CpuEmitter *c, const Op *op, LLVMValueRef counter, LLVMValueRef lo,
                               LLVMValueRef hi)
{
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    if (!op_int(op, ATTR_DESCENDING, 0)) {
        return counter;
    }
    LLVMValueRef size = llvm_i64(c->l, step > 0 ? step : 1);
    LLVMValueRef past = cpu_sub(c, cpu_sub(c, hi, lo), llvm_i64(c->l, 1));
    past = cpu_mul(c, LLVMBuildUDiv(c->l->builder, past, size, ""), size);
    return cpu_sub(c, cpu_add(c, lo, past), cpu_sub(c, counter, lo));
}

static void emit_for(CpuEmitter *c, const Op *op)
{
    Dim dim = op_attr(op, ATTR_DIMS)->dims[0];
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    LLVMValueRef lo = cpu_scalar(c, for_lo(op)), hi = cpu_scalar(c, for_hi(op));
    if (!walks_whole(op, dim)) {
        hi = cpu_min(c, hi, cpu_dim(c, dim));
    }
    Outlet outlet = carry_in(c, op, 2);
    CpuTotals *totals = cpu_totals_begin(c, op, outlet.buffers, cpu_sub(c, hi, lo));
    Loop loop = cpu_loop_begin(c, lo, hi, step > 0 ? step : 1);
    bind_iterator(c, op, loop_start(c, op, loop.counter, lo, hi), hi);
    for (int i = 0; i < op->n_results; i++) {
        give(c, op->regions[0]->args[1 + i], &outlet, i);
    }
    emit_block(c, op->regions[0], &outlet);
    cpu_totals_step(c, totals, op, outlet.buffers);
    cpu_loop_end(c, &loop);
    cpu_totals_end(c, totals, op, outlet.buffers);
    for (int i = 0; i < op->n_results; i++) {
        give(c, op->results[i], &outlet, i);
    }
}

/* ---- if ---- */

static void emit_if(CpuEmitter *c, const Op *op)
{
    Outlet outlet = new_outlet(c, op->n_results);
    int end = cpu_end_position(c, op);
    for (int i = 0; i < op->n_results; i++) {
        const Value *result = op->results[i];
        int last = c->values[result->id].last;
        if (is_scalar_type(result)) {
            outlet.cells[i] = cpu_cell(c, llvm_type(c->l, result->type->dtype));
        } else {
            outlet.buffers[i] = cpu_buffer_for(c, result->type, last > end ? last : end);
        }
    }
    Branch branch = cpu_if_begin(c, cpu_scalar(c, op->operands[0]));
    emit_block(c, op->regions[0], &outlet);
    if (op->n_regions > 1) {
        cpu_if_else(c, &branch);
        emit_block(c, op->regions[1], &outlet);
    }
    cpu_if_end(c, &branch);
    for (int i = 0; i < op->n_results; i++) {
        give(c, op->results[i], &outlet, i);
    }
}

/* ---- while on one condition ---- */

static void emit_while(CpuEmitter *c, const Op *op)
{
    LLVMBuilderRef b = c->l->builder;
    Outlet outlet = carry_in(c, op, 0), condition = new_outlet(c, 1);
    condition.cells[0] = cpu_cell(c, c->l->i1);
    LLVMBasicBlockRef head = llvm_block(c->l, c->function, "while");
    LLVMBasicBlockRef body = llvm_block(c->l, c->function, "body");
    LLVMBasicBlockRef after = llvm_block(c->l, c->function, "after");
    LLVMBuildBr(b, head);
    LLVMPositionBuilderAtEnd(b, head);
    for (int i = 0; i < op->n_results; i++) {
        give(c, op->regions[0]->args[i], &outlet, i);
        give(c, op->regions[1]->args[i], &outlet, i);
    }
    emit_block(c, op->regions[0], &condition);
    LLVMBuildCondBr(b, cpu_get(c, condition.cells[0]), body, after);
    LLVMPositionBuilderAtEnd(b, body);
    emit_block(c, op->regions[1], &outlet);
    LLVMBuildBr(b, head);
    LLVMPositionBuilderAtEnd(b, after);
    for (int i = 0; i < op->n_results; i++) {
        give(c, op->results[i], &outlet, i);
    }
}

/* ---- ops ---- */

static void emit_op(CpuEmitter *c, const Op *op, const Outlet *outlet)
{
    c->now = cpu_position(c, op);
    llvm_line(c->l, op->span);
    switch (op->kind) {
    case OP_SIZE:
        c->values[op->results[0]->id].scalar = cpu_dim(c, op_attr(op, ATTR_DIM)->dims[0]);
        return;
    case OP_START:
    case OP_END:
    case OP_LEN: {
        const CpuValue *range = &c->values[op->operands[0]->id];
        LLVMValueRef *scalar = &c->values[op->results[0]->id].scalar;
        if (op->kind == OP_START) {
            *scalar = range->start;
        } else if (op->kind == OP_END) {
            *scalar = range->end;
        } else {
            *scalar = range->len;
        }
        return;
    }
    case OP_REDUCE: cpu_emit_reduce(c, op); return;
    case OP_DOT: cpu_emit_dot(c, op); return;
    case OP_SCAN:
    case OP_FOLD: cpu_emit_fold(c, op); return;
    case OP_HISTOGRAM: cpu_emit_histogram(c, op); return;
    case OP_RANK: cpu_emit_rank(c, op); return;
    case OP_TILE_SCATTER: cpu_emit_arrange(c, op); return;
    case OP_LOOKUP: cpu_emit_lookup(c, op); return;
    case OP_STORE:
        if (cpu_store_nest(c, op) == op) {
            cpu_emit_stores(c, op);
        }
        return;
    case OP_SCATTER: cpu_emit_scatter(c, op); return;
    case OP_PRINT:
    case OP_ASSERT: cpu_emit_print(c, op); return;
    case OP_WHILE:
        if (is_scalar_type(op->regions[0]->last->operands[0])) {
            emit_while(c, op);
        } else {
            cpu_emit_elements(c, op);
        }
        return;
    case OP_FOR: emit_for(c, op); return;
    case OP_IF: emit_if(c, op); return;
    case OP_YIELD: emit_yield(c, op, outlet); return;
    default: break;
    }
    if (!cpu_is_pointwise(op)) {
        diag_bug(c->func->diags, "the CPU has no code for %s", op_info(op->kind)->name);
    }
    /* A scalar is computed at once; a tile only if it is stored in a buffer, since its readers
     * recompute it otherwise. */
    const Value *result = op->results[0];
    CpuValue *facts = &c->values[result->id];
    if (result->type->rank == 0) {
        Point nowhere = {.rank = 0, .vector_axis = -1};
        size_t known = c->known.n;
        facts->scalar = cpu_eval_op(c, op, &nowhere);
        c->known.n = known;
    } else if (facts->stored) {
        cpu_store_value(c, result);
    }
}

static void emit_block(CpuEmitter *c, const Block *block, const Outlet *outlet)
{
    for (const Op *op = block->first; op; op = op->next) {
        emit_op(c, op, outlet);
    }
}

void cpu_emit_op(CpuEmitter *c, const Op *op)
{
    emit_op(c, op, NULL);
}

void cpu_emit_scalar_region(CpuEmitter *c, const Block *region, LLVMValueRef *out)
{
    const Op *yield = region->last;
    Outlet outlet = new_outlet(c, yield->n_operands);
    for (int i = 0; i < outlet.n; i++) {
        outlet.cells[i] = cpu_cell(c, llvm_type(c->l, yield->operands[i]->type->dtype));
    }
    emit_block(c, region, &outlet);
    for (int i = 0; i < outlet.n; i++) {
        out[i] = cpu_get(c, outlet.cells[i]);
    }
}

/* ---- the launch ---- */

typedef struct Grid {
    int n;
    LLVMValueRef extents[MAX_RANK], tiles[MAX_RANK], at[MAX_RANK];
} Grid;

static LLVMValueRef divide(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildUDiv(c->l->builder, a, b, "");
}

static LLVMValueRef rest(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildURem(c->l->builder, a, b, "");
}

static Grid grid_of(CpuEmitter *c, const Op *launch)
{
    const Attr *dims = op_attr(launch, ATTR_DIMS), *steps = op_attr(launch, ATTR_STEPS);
    Grid grid = {.n = dims ? dims->n : 0};
    for (int i = 0; i < grid.n; i++) {
        int64_t step = steps->ints[i];
        grid.extents[i] = grid.tiles[i] = cpu_dim(c, dims->dims[i]);
        if (axis_end(launch, i) < INT64_MAX) {
            grid.tiles[i] = cpu_min(c, grid.tiles[i], llvm_i64(c->l, axis_end(launch, i)));
            grid.extents[i] = grid.tiles[i];
        }
        if (axis_begin(launch, i)) {
            grid.tiles[i] = cpu_sub(c, grid.tiles[i], llvm_i64(c->l, axis_begin(launch, i)));
        }
        if (step > 1) {
            LLVMValueRef up = cpu_add(c, grid.tiles[i], llvm_i64(c->l, step - 1));
            grid.tiles[i] = divide(c, up, llvm_i64(c->l, step));
        }
    }
    return grid;
}

static void decode(CpuEmitter *c, Grid *grid, LLVMValueRef id, int64_t group)
{
    int axis = grid->n - 1;
    if (group > 1 && grid->n >= 2) {
        LLVMValueRef plane = cpu_mul(c, grid->tiles[axis - 1], grid->tiles[axis]);
        /* With raster groups, `group` tiles of axis -2 are visited for each tile of axis -1. */
        LLVMValueRef index = grid->n == 2 ? id : rest(c, id, plane);
        LLVMValueRef slow = grid->tiles[grid->n - 2], fast = grid->tiles[grid->n - 1];
        LLVMValueRef size = cpu_mul_const(c, fast, group);
        LLVMValueRef first = cpu_mul_const(c, divide(c, index, size), group);
        LLVMValueRef rows = cpu_min(c, cpu_sub(c, slow, first), llvm_i64(c->l, group));
        LLVMValueRef inside = rest(c, index, size);
        grid->at[grid->n - 2] = cpu_add(c, first, rest(c, inside, rows));
        grid->at[grid->n - 1] = divide(c, inside, rows);
        id = grid->n == 2 ? id : divide(c, id, plane);
        axis -= 2;
    }
    for (; axis > 0; axis--) {
        grid->at[axis] = rest(c, id, grid->tiles[axis]);
        id = divide(c, id, grid->tiles[axis]);
    }
    if (axis == 0) {
        grid->at[0] = id;
    }
}

/* args[i] is a data pointer or the log, or points to a scalar or a size. */
static void load_arguments(CpuEmitter *c, const PlanLaunch *plan, LLVMValueRef args)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMValueRef *by_index = ARENA_ARRAY(c->arena, LLVMValueRef, plan->n_args);
    for (int i = 0; i < plan->n_args; i++) {
        LLVMValueRef at = llvm_i64(c->l, i);
        LLVMValueRef cell = LLVMBuildInBoundsGEP2(b, c->l->ptr, args, &at, 1, "");
        LLVMValueRef pointer = LLVMBuildLoad2(b, c->l->ptr, cell, "");
        int index = plan->args[i].index;
        if (plan->args[i].kind == ARG_POINTER) {
            c->pointers[index] = pointer;
        } else if (plan->args[i].kind == ARG_LOG) {
            c->log = pointer;
        } else if (plan->args[i].kind == ARG_SCALAR) {
            const Value *value = plan_param(c->func, index);
            c->values[value->id].scalar = cpu_load_at(c, value->type->dtype, pointer, 1);
        } else {
            by_index[index] = LLVMBuildLoad2(b, c->l->i64, pointer, "");
        }
    }
    for (size_t i = 0; i < c->func->dimvars.n; i++) {
        const DimVar *var = c->func->dimvars.items[i];
        if (var->kind != DIM_RANGE) {
            c->sizes[var->id] = by_index[plan_size_index(c->func, var)];
        }
    }
}

static void begin_function(CpuEmitter *c, const PlanLaunch *plan)
{
    Llvm *l = c->l;
    LLVMTypeRef params[3] = {l->ptr, l->i64, l->i64};
    LLVMTypeRef type = LLVMFunctionType(l->nothing, params, 3, false);
    c->function = LLVMAddFunction(l->module, plan->symbol, type);
    if (c->func->symbol) {
        LLVMSetVisibility(c->function, LLVMHiddenVisibility);
    }
    llvm_attribute(l, c->function, "nounwind");
    llvm_param_attribute(l, c->function, 0, "noalias");
    if (c->lanes >= 16) { /* some processors prefer narrower vectors than they have */
        llvm_string_attribute(l, c->function, "prefer-vector-width", "512");
        llvm_string_attribute(l, c->function, "min-legal-vector-width", "512");
    }
    c->entry = llvm_block(l, c->function, "entry");
    LLVMPositionBuilderAtEnd(l->builder, c->entry);
    c->slots.n = 0;
    LLVMTypeRef spare = LLVMArrayType2(l->i8, 64);
    c->spare = LLVMBuildAlloca(l->builder, spare, "spare");
    LLVMSetAlignment(c->spare, 64);
    LLVMBuildStore(l->builder, LLVMConstNull(spare), c->spare);
}

void cpu_emit_launch(CpuEmitter *c, const Op *launch, const PlanLaunch *plan)
{
    if (op_int(launch, ATTR_PERSISTENT, 0)) {
        diag_bug(c->func->diags, "a persistent launch on a CPU");
    }
    c->unroll = (int)op_int(launch, ATTR_UNROLL, 0);
    begin_function(c, plan);
    if (c->l->options->lines) {
        llvm_lines_launch(c->l, c->function, launch);
    }
    load_arguments(c, plan, LLVMGetParam(c->function, 0));
    cpu_analyze(c, launch);
    cpu_privates_begin(c);
    Grid grid = grid_of(c, launch);
    Loop loop = cpu_loop_begin(c, LLVMGetParam(c->function, 1), LLVMGetParam(c->function, 2), 1);
    decode(c, &grid, loop.counter, op_int(launch, ATTR_RASTER_GROUP, 0));
    for (int i = 0; i < grid.n; i++) {
        /* Each grid argument is bound to its tile's start and length, clipped at the end of the
         * axis. */
        const Value *arg = launch->regions[0]->args[i];
        int64_t step = op_attr(launch, ATTR_STEPS)->ints[i];
        int64_t from = axis_begin(launch, i);
        if (arg->type->kind != TYPE_RANGE) {
            LLVMValueRef at = grid.at[i];
            c->values[arg->id].scalar = from ? cpu_add(c, at, llvm_i64(c->l, from)) : at;
            continue;
        }
        LLVMValueRef start = cpu_mul_const(c, grid.at[i], step), len = llvm_i64(c->l, step);
        start = from ? cpu_add(c, start, llvm_i64(c->l, from)) : start;
        if (!divides(op_attr(launch, ATTR_DIMS)->dims[i], step) ||
            (axis_end(launch, i) < INT64_MAX && axis_end(launch, i) % step != 0)) {
            len = cpu_min(c, cpu_sub(c, grid.extents[i], start), len);
        }
        bind_range(c, arg, start, len);
    }
    emit_block(c, launch->regions[0], NULL);
    cpu_loop_end(c, &loop);
    cpu_privates_end(c);
    LLVMBuildRetVoid(c->l->builder);
    llvm_lines_leave(c->l);
}
