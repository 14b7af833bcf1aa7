/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers for loops, branches and index arithmetic. Constants are folded at once, because most
 * tile extents are static. */
#include "codegen/cpu/cpu_emit.h"

Loop cpu_loop_begin(CpuEmitter *c, LLVMValueRef lo, LLVMValueRef hi, int64_t step)
{
    LLVMBuilderRef b = c->l->builder;
    Loop loop = {llvm_block(c->l, c->function, "head"),
                 llvm_block(c->l, c->function, "body"),
                 llvm_block(c->l, c->function, "after"),
                 NULL,
                 llvm_i64(c->l, step),
                 c->known.n};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
    hi = llvm_bound(c->l, hi);
    LLVMBuildBr(b, loop.head);
    LLVMPositionBuilderAtEnd(b, loop.head);
    loop.counter = LLVMBuildPhi(b, c->l->i64, "");
    LLVMAddIncoming(loop.counter, &lo, &before, 1);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSLT, loop.counter, hi, ""), loop.body, loop.after);
    LLVMPositionBuilderAtEnd(b, loop.body);
    return loop;
}

void cpu_loop_end(CpuEmitter *c, Loop *loop)
{
    LLVMBuilderRef b = c->l->builder;
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
    LLVMValueRef next = LLVMBuildNSWAdd(b, loop->counter, loop->step, "");
    LLVMAddIncoming(loop->counter, &next, &latch, 1);
    LLVMBuildBr(b, loop->head);
    LLVMPositionBuilderAtEnd(b, loop->after);
    c->known.n = loop->known;
}

Branch cpu_if_begin(CpuEmitter *c, LLVMValueRef condition)
{
    LLVMBasicBlockRef then = llvm_block(c->l, c->function, "then");
    Branch branch = {llvm_block(c->l, c->function, "else"), llvm_block(c->l, c->function, "fi"),
                     c->known.n};
    LLVMBuildCondBr(c->l->builder, condition, then, branch.otherwise);
    LLVMPositionBuilderAtEnd(c->l->builder, then);
    return branch;
}

void cpu_if_else(CpuEmitter *c, Branch *branch)
{
    LLVMBuildBr(c->l->builder, branch->after);
    LLVMPositionBuilderAtEnd(c->l->builder, branch->otherwise);
    branch->otherwise = NULL;
    c->known.n = branch->known;
}

void cpu_if_end(CpuEmitter *c, Branch *branch)
{
    if (branch->otherwise) {
        cpu_if_else(c, branch);
    }
    LLVMBuildBr(c->l->builder, branch->after);
    LLVMPositionBuilderAtEnd(c->l->builder, branch->after);
    c->known.n = branch->known;
}

bool cpu_constant(LLVMValueRef value, int64_t *out)
{
    if (!LLVMIsAConstantInt(value)) {
        return false;
    }
    *out = LLVMConstIntGetSExtValue(value);
    return true;
}

bool cpu_is_constant(LLVMValueRef value, int64_t wanted)
{
    int64_t found;
    return cpu_constant(value, &found) && found == wanted;
}

LLVMValueRef cpu_add(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b)
{
    if (cpu_is_constant(a, 0)) {
        return b;
    }
    return cpu_is_constant(b, 0) ? a : LLVMBuildNSWAdd(c->l->builder, a, b, "");
}

LLVMValueRef cpu_sub(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b)
{
    return cpu_is_constant(b, 0) ? a : LLVMBuildNSWSub(c->l->builder, a, b, "");
}

LLVMValueRef cpu_mul(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b)
{
    if (cpu_is_constant(a, 1) || cpu_is_constant(b, 0)) {
        return b;
    }
    return cpu_is_constant(b, 1) || cpu_is_constant(a, 0)
               ? a
               : LLVMBuildNSWMul(c->l->builder, a, b, "");
}

LLVMValueRef cpu_mul_const(CpuEmitter *c, LLVMValueRef a, int64_t by)
{
    return cpu_mul(c, a, llvm_i64(c->l, by));
}

LLVMValueRef cpu_min(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b)
{
    return llvm_call2(c->l, "llvm.smin", a, b);
}

LLVMValueRef cpu_max(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b)
{
    return llvm_call2(c->l, "llvm.smax", a, b);
}

LLVMValueRef cpu_iota(CpuEmitter *c, LLVMTypeRef element)
{
    LLVMValueRef *lanes = ARENA_ARRAY(c->arena, LLVMValueRef, c->lanes);
    for (int i = 0; i < c->lanes; i++) {
        lanes[i] = llvm_int(element, i);
    }
    return LLVMConstVector(lanes, (unsigned)c->lanes);
}

static LLVMValueRef variable(CpuEmitter *c, const DimVar *var)
{
    if (var->kind == DIM_RANGE) {
        LLVMValueRef len = var->binder ? c->values[var->binder->id].len : NULL;
        if (!len) {
            diag_bug(c->func->diags, "range %%%s is used outside of its region", var->name);
        }
        return len;
    }
    return c->sizes[var->id];
}

LLVMValueRef cpu_dim(CpuEmitter *c, Dim dim)
{
    LLVMValueRef sum = llvm_i64(c->l, 0);
    for (int i = 0; i < dim->n_terms; i++) {
        const PolyTerm *term = &dim->terms[i];
        LLVMValueRef product = llvm_i64(c->l, term->coef);
        for (int j = 0; j < term->n; j++) {
            product = cpu_mul(c, product, variable(c, term->vars[j]));
        }
        sum = cpu_add(c, sum, product);
    }
    return sum;
}

int64_t cpu_capacity(CpuEmitter *c, Dim dim)
{
    int64_t capacity = poly_capacity(dim);
    if (capacity < 0) {
        diag_bug(c->func->diags, "an array has an axis without a static extent");
    }
    return capacity;
}
