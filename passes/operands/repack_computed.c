/* SPDX-License-Identifier: Apache-2.0 */
/* repack_computed: computes a dot operand once, by a launch of its own, where the dot would compute
 * it again for each tile of the other operand.
 *
 *                                            scratch %p: tensor<bf16[N, K] strides [...]>
 *   %d = sub (cast %w), (cast %zero)         %d = sub (cast %w), (cast %zero)
 *   %h = cast %d : bf16[N, K]                %h = cast %d : bf16[N, K]
 *   %q = cast %h : f32[N, K]          →      store %p[:, :], %h repacked=1
 *   %c = dot %a, (mul %q, %s)                %q = cast (load %p[:, :]) : f32[N, K]
 *                                            %c = dot %a, (mul %q, %s)
 *
 * A matrix instruction of warp groups reads its operands from shared memory, which TMA fills from
 * memory alone. What threads compute they store to shared memory themselves, between two barriers,
 * in each step of the dot, and again for each tile of the other operand. A launch that computes
 * each element once takes the time of its bytes, and the dot then runs at TMA's rate. With few rows
 * of the other operand the launch, and the bytes of the wider elements, take longer than that
 * saves: passes/analysis/repack_cost.h compares both. Dequantized weights, looked-up elements,
 * functions of activations and masks from data are such operands. Not a dot whose result is an
 * operand of another dot, as in attention: its operands stay in the block.
 *
 * Requires the tensor level, and known sizes. Changes no bits of what is computed; the dot may be
 * summed in the association order of another instruction. */
#include "ir/build.h"
#include "ir/memo.h"
#include "ir/op_axes.h"
#include "ir/schedule.h"
#include "ir/target/machine.h"
#include "ir/target/target.h"
#include "ir/layout/matrix_instr.h"
#include "passes/analysis/computed_operand.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/analysis/repack_cost.h"
#include "passes/operands/repack_permuted.h"
#include "passes/operands/repack_store.h"
#include "passes/pass.h"

typedef struct Repacked {
    Op *dot;
    Value *value;
    RepackBenefit copy;
} Repacked;

typedef struct Repacks {
    Func *func;
    CodeSize size;
    struct {
        Repacked *items;
        size_t n, cap;
    } operands;
    RepackDecision decision;
} Repacks;

/* ---- which operands ---- */

typedef struct Chain {
    const Op *dot;
    Memo *seen;
    bool found;
} Chain;

static bool is_made_of(Chain *chain, const Value *value)
{
    const Op *op = value ? value->def : NULL;
    if (!op || !memo_visit(chain->seen, value)) {
        return false;
    }
    bool found = op == chain->dot;
    for (int i = 0; i < op->n_operands && !found; i++) {
        found = is_made_of(chain, op->operands[i]);
    }
    return found;
}

static void see_dot(Op *op, void *user)
{
    Chain *chain = user;
    for (int side = 0; op->kind == OP_DOT && op != chain->dot && side < 2; side++) {
        chain->found = chain->found || is_made_of(chain, op->operands[side]);
    }
}

/* True if another dot has an operand that is made of the result of this one. */
static bool is_chained(Func *func, const Op *dot)
{
    Chain chain = {dot, memo_open(func), false};
    func_walk(func, see_dot, &chain);
    memo_close(chain.seen);
    return chain.found;
}

/* True if the matrix instruction of warp groups multiplies the operands. */
static bool is_for_warpgroups(const Func *func, const Op *dot)
{
    ScaledDot found;
    if (an_rounded(dot)) {
        return mma_find(func->target, "wgmma", DT_TF32, DT_TF32, DT_F32);
    }
    bool scaled = an_scaled_dot(func, dot, &found);
    DType left = scaled ? found.left : dot->operands[0]->type->dtype;
    DType right = scaled ? found.right : dot->operands[1]->type->dtype;
    return mma_find(func->target, "wgmma", left, right, dot->results[0]->type->dtype);
}

/* True if the value is gathered for threads that multiply f32: repack_pitched copies it with rows
 * or columns contiguous, where that pays. */
static bool is_gathered_for_threads(const Func *func, const Op *dot, const Value *value)
{
    return value->def && value->def->kind == OP_GATHER && value->type->dtype == DT_F32 &&
           repack_is_for_threads(func, dot);
}

/* True if the value is what memory has, in a wider type: a copy of it has more bytes, and nothing
 * that takes long is computed again. */
static bool only_widens(const Value *value)
{
    const Op *op = value->def;
    while (op && (op->kind == OP_CAST || op_moves_axes(op))) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_LOAD &&
           dtype_bits(value->type->dtype) > dtype_bits(op->results[0]->type->dtype);
}

static void find_operands(Op *op, void *user)
{
    Repacks *r = user;
    if (op->kind != OP_DOT || is_chained(r->func, op)) {
        return;
    }
    for (int side = 0; side < 2; side++) {
        ComputedOperand found;
        if (an_computed_operand(&r->size, op, side, &found) && !only_widens(found.value) &&
            !is_gathered_for_threads(r->func, op, found.value)) {
            bool warpgroups = is_for_warpgroups(r->func, op);
            RepackBenefit copy = an_repack_computed(r->func, op, &found, warpgroups);
            ARENA_PUSH(r->func->arena, &r->operands, ((Repacked){op, found.value, copy}));
            an_repack_consider(&r->decision, &copy);
        }
    }
}

/* ---- the launch ---- */

/* True if the op leads from a part of an operand to the dot. */
static bool leads_to_dot(const Op *op)
{
    return op->kind == OP_DOT || op->kind == OP_CAST || op->kind == OP_MUL || op->kind == OP_TF32 ||
           op->kind == OP_MASK || op->kind == OP_SELECT || op_moves_axes(op);
}

/* Another operand that is repacked may be the same value. */
static bool was_repacked(const Repacks *r, size_t nth)
{
    for (size_t i = 0; i < nth; i++) {
        if (r->operands.items[i].value == r->operands.items[nth].value &&
            r->operands.items[i].copy.pays) {
            return true;
        }
    }
    return false;
}

static void repack(Func *func, Value *value)
{
    Builder b = build_after(func, value->def);
    b.span = value->def->span;
    Value *scratch = repack_store(&b, value);
    Value *read = build_load(&b, scratch, WHOLE);
    const Op *store = read->def->prev;
    read->name = value->name;
    for (const ValueUse *use = use_first(value, func->body), *next; use; use = next) {
        next = use_next(use, func->body);
        if (use->op != store && leads_to_dot(use->op)) {
            op_set_operand(use->op, (int)(use - use->op->uses), read);
        }
    }
}

void pass_repack_computed(Func *func)
{
    static const RepackReasons why = {
        .pays = "a launch that computes the operand once takes less time than computing it again "
                "for each tile of the other operand",
        .costs = "computing the operand in the product takes less time than a launch of its own",
        .unknown = "what is not known does not ask for a launch that computes the operand",
    };
    if (!mma_reads_bulk_copies(func->target)) {
        return;
    }
    Repacks r = {.func = func, .size = an_code_size(func, NULL)};
    func_walk(func, find_operands, &r);
    an_repack_decide(func, "repack_computed", &why, &r.decision);
    for (size_t i = 0; i < r.operands.n; i++) {
        Repacked *operand = &r.operands.items[i];
        operand->copy.pays = an_repack_is_made(&r.decision, &operand->copy);
        if (operand->copy.pays && !was_repacked(&r, i)) {
            repack(func, operand->value);
        }
    }
    func_remove_dead(func);
}
