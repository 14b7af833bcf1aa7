/* SPDX-License-Identifier: Apache-2.0 */
/* assign_layouts: distributes register tiles over the threads of a block.
 *
 *     %0 = load %x[%m, :] : bf16[%m, 4096]
 *     %1 = cast %0 : f32[%m, 4096]
 *     %2 = reduce %1 fn=max axis=1 : f32[%m, 1]
 *  →  %0 = load %x[%m, :] : bf16[%m, 4096]@L0
 *     %1 = cast %0 : f32[%m, 4096]@L0
 *     %2 = reduce %1, %scratch[:, :] fn=max axis=1 : f32[%m, 1]@L1
 *
 * Afterwards every array of rank 1 or more names its layout, conversions are explicit ops, shared
 * memory has offsets, and its total size fits the target or is reported. Requires padded tiles and
 * dots whose matrix instruction is chosen. Does nothing on targets whose warp is one thread (CPU).
 * Changes no values. */
#include "passes/layout/assign_layouts.h"

#include "ir/ir_errors.h"
#include "passes/pass.h"

/* Maximum elements of a tile per thread. A thread may spill some registers, but a larger tile is a
 * mistake of the schedule. */
enum { MAX_HELD = 1024 };

static void note_value(LayoutPass *pass, Value *value)
{
    pass->values[value->id] = value;
}

static void note_op(Op *op, void *user)
{
    LayoutPass *pass = user;
    ARENA_PUSH(pass->func->arena, &pass->ops, op);
    pass->reduces |= op->kind == OP_REDUCE;
    pass->folds |= op->kind == OP_FOLD || op->kind == OP_SCAN || op->kind == OP_SCATTER;
    for (int i = 0; i < op->n_results; i++) {
        note_value(pass, op->results[i]);
    }
    for (int region = 0; region < op->n_regions; region++) {
        for (int i = 0; i < op->regions[region]->n_args; i++) {
            note_value(pass, op->regions[region]->args[i]);
        }
    }
}

static LayoutPass begin(Func *func)
{
    LayoutPass pass = {.func = func, .lanes = func->target->warp, .n_values = func->n_values};
    pass.values = ARENA_ARRAY(func->arena, Value *, func->n_values);
    pass.parent = ARENA_ARRAY(func->arena, uint32_t, func->n_values);
    pass.layouts = ARENA_ARRAY(func->arena, const Layout *, func->n_values);
    pass.classed = ARENA_ARRAY(func->arena, uint8_t, func->n_values);
    for (uint32_t id = 0; id < func->n_values; id++) {
        pass.parent[id] = id;
    }
    func_walk(func, note_op, &pass);
    return pass;
}

static int64_t elements_a_thread(LayoutPass *pass, const Value *value)
{
    int64_t extents[MAX_RANK];
    int64_t held = 1;
    layout_extents(pass, value->type, extents);
    for (int i = 0; i < value->type->rank; i++) {
        if (__builtin_mul_overflow(held, extents[i], &held)) {
            return INT64_MAX;
        }
    }
    return held / (pass->lanes * layout_warps(pass, layout_value_block(value)));
}

static bool tiles_can_be_held(LayoutPass *pass)
{
    for (uint32_t id = 0; id < pass->n_values; id++) {
        const Value *value = pass->values[id];
        int64_t held = layout_spreads(value) ? elements_a_thread(pass, value) : 0;
        if (held > MAX_HELD) {
            Diag *diag = diag_error(
                pass->func->diags, ERR_REGISTERS, value->def ? value->def->span : SPAN_NONE,
                "a tile of %lld elements a thread does not fit its %d registers", (long long)held,
                pass->func->target->registers_thread);
            diag_help(pass->func->diags, diag, "choose smaller tiles, or more warps");
            const Op *launch = value->def ? op_enclosing(value->def, OP_LAUNCH) : NULL;
            if (launch) {
                layout_request_retry(pass->func, launch);
            }
            return false;
        }
    }
    return true;
}

void pass_assign_layouts(Func *func)
{
    if (!func->target || func->target->warp == 1) {
        return;
    }
    func->level = LEVEL_STAGED; /* conversions and scratch are shared memory */
    LayoutPass pass = begin(func);
    if (!tiles_can_be_held(&pass)) {
        return;
    }
    layout_solve(&pass);
    layout_legalize(&pass);
    int errors = func->diags->errors;
    layout_check_registers(&pass);
    if (func->diags->errors == errors) {
        layout_check_groups(&pass);
    }
    layout_limit_occupancy(&pass);
    layout_skew(&pass);
    layout_place_shared(&pass);
}
