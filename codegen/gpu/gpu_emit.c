/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the ops of a launch and calls the emitter of each. */
#include "codegen/gpu/gpu_emitters.h"

#include "ir/build.h"

/* Sums between loads. LLVM moves what is not needed yet behind the branches of later loads: all
 * that was loaded would be kept until the end. */
typedef struct Sums {
    Op *last;   /* a sum since `loaded` was 0; NULL: none */
    int loaded; /* registers */
} Sums;

/* False for a sum that only ops before have read: its registers may be those of a branch, in which
 * it was stored. */
static bool is_read_from(const Value *sum, const Op *op)
{
    for (const ValueUse *use = use_first(sum, op->parent); use; use = use_next(use, op->parent)) {
        if (!op_is_before(op_ancestor_in(use->op, op->parent), op)) {
            return true;
        }
    }
    return false;
}

void gpu_emit_block(GpuEmitter *em, Block *block)
{
    Sums sums = {NULL, 0};
    for (Op *op = block->first; op; op = op->next) {
        Op *first = op;
        if (em->target->compute_here && (op->kind == OP_LOAD || op->kind == OP_GATHER)) {
            /* After many loads, the sum is computed before further ops so that the loaded registers
             * are freed. */
            enum { MANY = 16 };
            const Value *sum = sums.last && sums.loaded >= MANY ? sums.last->results[0] : NULL;
            LLVMValueRef *regs = sum && is_read_from(sum, op) ? em->values[sum->id].regs : NULL;
            for (int r = 0; regs && r < em->values[sum->id].n; r++) {
                int from = gpu_canonical(sum->type->layout, r);
                if (regs[r]) {
                    regs[r] = from < r ? regs[from] : em->target->compute_here(em, regs[r]);
                }
            }
            sums = sum ? (Sums){NULL, 0} : sums;
        }
        if (gpu_starts_chain(em, op)) {
            op = gpu_emit_chain(em, op);
        } else {
            gpu_emit_op(em, op);
        }
        for (Op *done = first; done != op->next; done = done->next) {
            /* The block's loads and its last float addition decide at a later op whether the sum is
             * computed there. */
            Type type = done->n_results == 1 ? done->results[0]->type : NULL;
            if (!type || type->kind != TYPE_ARRAY || !type->layout) {
                continue;
            }
            if (done->kind == OP_LOAD || done->kind == OP_GATHER) {
                sums.loaded += gpu_registers(em, type);
            } else if ((done->kind == OP_FMA || done->kind == OP_ADD) &&
                       dtype_is_float(type->dtype)) {
                sums.last = done;
            }
        }
    }
}

void gpu_emit_op(GpuEmitter *em, Op *op)
{
    llvm_line(em->l, op->span);
    if (em->target->emit_op && em->target->emit_op(em, op)) {
        return;
    }
    if (op->kind == OP_REMAT && em->target->opaque) {
        gpu_emit_remat(em, op);
        return;
    }
    if (op_has(op, TRAIT_ELEMENTWISE)) {
        gpu_emit_elementwise(em, op);
        return;
    }
    switch (op->kind) {
    case OP_CONST: gpu_emit_const(em, op); return;
    case OP_SIZE:
        gpu_define_scalar(em, op->results[0], gpu_size_value(em, op_attr(op, ATTR_DIM)->dims[0]));
        return;
    case OP_INDEX:
    case OP_IOTA: gpu_emit_index(em, op); return;
    case OP_START:
    case OP_END:
    case OP_LEN: {
        GpuValue *range = gpu_value(em, op->operands[0]);
        LLVMValueRef fact = range->regs[op->kind == OP_START ? 0 : 1];
        if (op->kind == OP_LEN) {
            fact = LLVMBuildSub(em->builder, fact, range->regs[0], "");
        }
        gpu_define_scalar(em, op->results[0], fact);
        return;
    }
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE:
    case OP_CONVERT: gpu_emit_rename(em, op); return;
    case OP_FRONT:
    case OP_ADVANCE: gpu_emit_strip(em, op); return;
    case OP_MASK: gpu_emit_mask(em, op); return;
    case OP_REDUCE: gpu_emit_reduce(em, op); return;
    case OP_CLUSTER_REDUCE: gpu_emit_cluster_reduce(em, op); return;
    case OP_CLUSTER_REDUCE_SCATTER: gpu_emit_cluster_scatter(em, op); return;
    case OP_DOT: {
        const MatrixInstr *unit = mma_of_dot(em->func->target, op);
        if (unit) {
            gpu_emit_matrix(em, op, unit);
        } else {
            gpu_emit_dot(em, op);
        }
        return;
    }
    case OP_LOAD: gpu_emit_load(em, op); return;
    case OP_STORE: gpu_emit_store(em, op); return;
    case OP_GATHER: gpu_emit_gather(em, op); return;
    case OP_SCATTER: gpu_emit_scatter(em, op); return;
    case OP_SPIN_LOAD: gpu_emit_await(em, op); return;
    case OP_PRINT:
    case OP_ASSERT: gpu_emit_print(em, op); return;
    case OP_SCAN:
    case OP_FOLD: gpu_emit_fold(em, op); return;
    case OP_HISTOGRAM: gpu_emit_histogram(em, op); return;
    case OP_RANK: gpu_emit_rank(em, op); return;
    case OP_TILE_SCATTER: gpu_emit_arrange(em, op); return;
    case OP_LOOKUP: gpu_emit_lookup(em, op); return;
    case OP_SHARED_LOAD: gpu_emit_shared_load(em, op); return;
    case OP_SHARED_STORE: gpu_emit_shared_store(em, op); return;
    case OP_COPY_LOAD: gpu_emit_copy_load(em, op); return;
    case OP_COPY_COMMIT: em->target->copy_commit(em); return;
    case OP_COPY_WAIT: gpu_emit_copy_wait(em, op); return;
    case OP_BARRIER: em->target->sync(em); return;
    case OP_FOR: gpu_emit_for(em, op); return;
    case OP_IF: gpu_emit_if(em, op); return;
    case OP_WHILE: gpu_emit_while(em, op); return;
    case OP_TILE_LOOP: gpu_emit_tiles(em, op); return;
    case OP_SHARED:        /* placed before the walk */
    case OP_YIELD: return; /* read by the op around it */
    default: gpu_bug(em, op, "this target has no code for it");
    }
}
