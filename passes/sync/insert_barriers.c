/* SPDX-License-Identifier: Apache-2.0 */
/* insert_barriers: inserts a barrier between global stores and later loads of the same memory by
 * other threads of the block.
 *
 *   store %s[%n], %a                        store %s[%n], %a
 *   %b = gather %s[%i]               →      barrier
 *                                           %b = gather %s[%i]
 *
 * Only launches that read what they have written need this: loops whose steps have a cross-element
 * dependence. Accesses that load and store the same element in place get a barrier too, because it
 * costs little. Does nothing on CPUs, where one thread executes a block. Requires: stage. Changes
 * no values. */
#include "ir/build.h"
#include "ir/target/target.h"
#include "passes/analysis/param_effects.h"
#include "passes/pass.h"

typedef struct BarrierInsertion {
    Func *func;
    ParamEffects launch; /* only tensors that the launch both reads and writes need barriers */
} BarrierInsertion;

typedef struct EffectWalk {
    const Func *func;
    ParamEffects effects;
} EffectWalk;

static void add_effects(Op *op, void *user)
{
    EffectWalk *walk = user;
    if (op->kind != OP_SPIN_LOAD) { /* which waits until other blocks have written */
        param_effects_add_op(&walk->effects, walk->func, op);
    }
}

static ParamEffects effects_of(const Func *func, Op *op)
{
    EffectWalk walk = {func, param_effects_new(func)};
    add_effects(op, &walk);
    for (int r = 0; r < op->n_regions; r++) {
        block_walk(op->regions[r], add_effects, &walk);
    }
    return walk.effects;
}

/* True for a loop that each element leaves on its own: the threads of a block cannot synchronize in
 * it, and each of its effects concerns one element. */
static bool is_element_loop(const Op *op)
{
    return op->kind == OP_WHILE && op->regions[0]->last->operands[0]->type->rank > 0;
}

static void insert_before(Func *func, Op *op)
{
    Builder b = build_before(func, op);
    build_op(&b, OP_BARRIER, 0, NULL, 0, NULL, 0);
}

static void order_block(BarrierInsertion *pass, Block *block)
{
    ParamEffects since = param_effects_new(pass->func); /* since the last barrier */
    ParamEffects all = param_effects_new(pass->func);
    for (Op *op = block->first; op; op = op->next) {
        ParamEffects own = effects_of(pass->func, op);
        if (param_effects_conflict(&since, &own, &pass->launch)) {
            insert_before(pass->func, op);
            since = param_effects_new(pass->func);
        }
        param_effects_add(&since, &own);
        param_effects_add(&all, &own);
        for (int r = 0; r < op->n_regions && !is_element_loop(op); r++) {
            order_block(pass, op->regions[r]);
        }
    }
    /* The next iteration of a loop reads or overwrites what this one has written. */
    bool loops =
        block->parent && (block->parent->kind == OP_FOR || block->parent->kind == OP_WHILE);
    if (loops && block->last && param_effects_conflict(&all, &all, &pass->launch)) {
        insert_before(pass->func, block->last);
    }
}

void pass_insert_barriers(Func *func)
{
    bool gpu = func->target && func->target->family != FAMILY_CPU;
    for (Op *op = func->body->first; gpu && op; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            BarrierInsertion pass = {func, effects_of(func, op)};
            if (param_effects_conflict(&pass.launch, &pass.launch, &pass.launch)) {
                order_block(&pass, op->regions[0]);
            }
        }
    }
}
