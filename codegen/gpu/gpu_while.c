/* SPDX-License-Identifier: Apache-2.0 */
/* The op while over arrays: each element iterates while its own condition holds. A thread iterates
 * until the last of its registers has ended; the ended ones keep their values and scatter nothing.
 * Threads do not wait for one another, except for their warp where old elements pass between
 * lanes, and for all warps where they pass between warps. */
#include "codegen/gpu/gpu_emitters.h"

typedef struct While {
    GpuEmitter *em;
    Op *op;
    LLVMValueRef **phis; /* by value, by register; NULL: no such register */
    LLVMValueRef *alive; /* i1, by register: has gone on so far. NULL: its condition says it all */
    bool together;       /* the lanes of a warp */
    bool warps_together; /* and all warps */
} While;

static bool is_tile(const Value *value)
{
    return value->type->kind == TYPE_ARRAY && value->type->rank > 0;
}

/* A register that is computed: no copy of another, and inside of the tile. */
static bool is_own(GpuEmitter *em, const Value *value, int r)
{
    return !is_tile(value) ||
           (gpu_exists(em, value->type, r) && gpu_canonical(value->type->layout, r) == r);
}

static void define_from_phis(const While *w, Value *const *values)
{
    for (int i = 0; i < w->op->n_results; i++) {
        GpuValue *out = gpu_define(w->em, values[i]);
        for (int r = 0; r < out->n; r++) {
            int from = is_tile(values[i]) ? gpu_canonical(values[i]->type->layout, r) : r;
            out->regs[r] = w->phis[i][from];
        }
    }
}

static bool has_op(const Block *block, OpKind kind, bool result)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == kind && (!result || op->n_results)) {
            return true;
        }
        for (int i = 0; i < op->n_regions; i++) {
            if (has_op(op->regions[i], kind, result)) {
                return true;
            }
        }
    }
    return false;
}

/* Does a scatter hand old elements from one warp to others? */
static bool hands_on(GpuEmitter *em, const Block *block)
{
    bool found = false;
    for (const Op *op = block->first; op && !found; op = op->next) {
        found = op->kind == OP_SCATTER && plan_exchange_bytes(em->func, op, em->warps) > 0;
        for (int i = 0; i < op->n_regions; i++) {
            found = found || hands_on(em, op->regions[i]);
        }
    }
    return found;
}

/* What an element that is done reads may change, and what it would change it must not. */
static void open_alive(While *w, LLVMBasicBlockRef from)
{
    GpuEmitter *em = w->em;
    const Block *region = w->op->regions[0];
    const Value *condition = region->last->operands[0];
    bool needed = has_op(region, OP_GATHER, false) || has_op(region, OP_SCATTER, false) ||
                  has_op(region, OP_PRINT, false) || has_op(region, OP_ASSERT, false);
    if (!is_tile(condition) || !needed) {
        return;
    }
    int n = gpu_registers(em, condition->type);
    LLVMValueRef yes = LLVMConstInt(em->i1, 1, false);
    w->alive = ARENA_ARRAY(em->arena, LLVMValueRef, n);
    for (int r = 0; r < n; r++) {
        if (is_own(em, condition, r)) {
            w->alive[r] = LLVMBuildPhi(em->builder, em->i1, "");
            LLVMAddIncoming(w->alive[r], &yes, &from, 1);
        }
    }
}

/* Of the elements of a loop around this one, too. */
static LLVMValueRef around(const While *w, const Value *condition, int r)
{
    GpuEmitter *em = w->em;
    bool same = is_tile(condition) && em->active.layout == condition->type->layout;
    LLVMValueRef active = same && em->active.regs ? em->active.regs[r] : NULL;
    return gpu_both(em, active, w->alive ? w->alive[r] : NULL);
}

/* Does a lane of this warp? */
static LLVMValueRef any_lane(GpuEmitter *em, LLVMValueRef any)
{
    for (int mask = 1; mask < 1 << em->warp_bits; mask *= 2) {
        any = LLVMBuildOr(em->builder, any, gpu_shuffle(em, any, mask), "");
    }
    return any;
}

/* Which registers continue; *any: does one? NULL: the condition is a scalar, and all continue. */
static LLVMValueRef *conditions(const While *w, LLVMValueRef *any)
{
    GpuEmitter *em = w->em;
    const Value *condition = w->op->regions[0]->last->operands[0];
    const GpuValue *held = gpu_value(em, condition);
    LLVMValueRef *goes_on = ARENA_ARRAY(em->arena, LLVMValueRef, held->n);
    *any = NULL;
    for (int r = 0; r < held->n; r++) {
        if (!is_own(em, condition, r)) {
            continue;
        }
        LLVMValueRef inside = is_tile(condition) ? gpu_in_tile(em, condition->type, r) : NULL;
        goes_on[r] = gpu_both(em, held->regs[r], gpu_both(em, inside, around(w, condition, r)));
        *any = *any ? LLVMBuildOr(em->builder, *any, goes_on[r], "") : goes_on[r];
    }
    if (w->warps_together) {
        *any = gpu_any_warp(em, *any);
    } else if (w->together) {
        *any = any_lane(em, *any);
    }
    return is_tile(condition) ? goes_on : NULL;
}

static void close_phis(const While *w, LLVMValueRef *goes_on)
{
    GpuEmitter *em = w->em;
    const Op *yield = w->op->regions[1]->last;
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(em->builder);
    for (int i = 0; i < w->op->n_results; i++) {
        const GpuValue *next = gpu_value(em, yield->operands[i]);
        bool chooses = goes_on && is_tile(w->op->results[i]);
        bool leaves = em->target->loop_carry && !w->together && !w->warps_together;
        for (int r = 0; r < next->n; r++) {
            LLVMValueRef phi = w->phis[i][r];
            if (phi) {
                LLVMValueRef kept =
                    chooses ? LLVMBuildSelect(em->builder, goes_on[r], next->regs[r], phi, "")
                            : next->regs[r];
                kept = leaves ? em->target->loop_carry(em, kept) : kept;
                LLVMAddIncoming(phi, &kept, &latch, 1);
            }
        }
    }
    int n = w->alive ? gpu_registers(em, w->op->regions[0]->last->operands[0]->type) : 0;
    for (int r = 0; r < n; r++) {
        if (w->alive[r]) {
            LLVMAddIncoming(w->alive[r], &goes_on[r], &latch, 1);
        }
    }
}

/* A region whose elements are those of `regs`. */
static void emit_region(const While *w, int r, LLVMValueRef *regs)
{
    GpuEmitter *em = w->em;
    const Value *condition = w->op->regions[0]->last->operands[0];
    define_from_phis(w, w->op->regions[r]->args);
    if (!is_tile(condition) || !regs) {
        gpu_emit_block(em, w->op->regions[r]);
        return;
    }
    const Layout *layout = em->active.layout;
    LLVMValueRef *outer = em->active.regs;
    em->active.layout = condition->type->layout;
    em->active.regs = regs;
    gpu_emit_block(em, w->op->regions[r]);
    em->active.layout = layout;
    em->active.regs = outer;
}

void gpu_emit_while(GpuEmitter *em, Op *op)
{
    While w = {.em = em, .op = op};
    LLVMBasicBlockRef from = LLVMGetInsertBlock(em->builder);
    LLVMBasicBlockRef head = gpu_new_block(em, "while"), body = gpu_new_block(em, "round");
    LLVMBasicBlockRef after = gpu_new_block(em, "done");
    LLVMValueRef any;
    LLVMBuildBr(em->builder, head);
    gpu_go(em, head);
    /* Each carried register that is not a replica gets a phi. */
    w.phis = ARENA_ARRAY(em->arena, LLVMValueRef *, w.op->n_results + 1);
    for (int i = 0; i < w.op->n_results; i++) {
        const GpuValue *init = gpu_value(em, w.op->operands[i]);
        w.phis[i] = ARENA_ARRAY(em->arena, LLVMValueRef, init->n);
        for (int r = 0; r < init->n; r++) {
            if (init->regs[r] && is_own(em, w.op->results[i], r)) {
                w.phis[i][r] = LLVMBuildPhi(em->builder, LLVMTypeOf(init->regs[r]), "");
                LLVMAddIncoming(w.phis[i][r], &init->regs[r], &from, 1);
            }
        }
    }
    open_alive(&w, from);
    w.together =
        has_op(op->regions[0], OP_SCATTER, true) || has_op(op->regions[1], OP_SCATTER, true);
    w.warps_together = is_tile(op->regions[0]->last->operands[0]) &&
                       (hands_on(em, op->regions[0]) || hands_on(em, op->regions[1]));
    emit_region(&w, 0, w.alive);
    LLVMValueRef *goes_on = conditions(&w, &any);
    LLVMBuildCondBr(em->builder, any, body, after);
    gpu_go(em, body);
    emit_region(&w, 1, goes_on);
    close_phis(&w, goes_on);
    LLVMBuildBr(em->builder, head);
    gpu_go(em, after);
    define_from_phis(&w, op->results);
}
