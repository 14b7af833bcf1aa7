/* SPDX-License-Identifier: Apache-2.0 */
/* units: drops axes of one element where a value is made, not where it is used.
 *
 *   %a = expand %x axis=0 : f32[1, %m]             %a = add %x, %y : f32[%m]
 *   %b = expand %y axis=0 : f32[1, %m]       →
 *   %c = add %a, %b : f32[1, %m]
 *   %d = squeeze %c axis=0 : f32[%m]
 *
 * An index that is the same for all elements becomes a scalar. Batches of a grid are walked one
 * element at a time: tile leaves such axes behind. What is left is a plain tile, which later passes
 * know. Requires: tile. Changes no bits. */
#include "passes/axis_drop.h"
#include "passes/pass.h"

/* The scalar that an array has everywhere, or NULL. */
static Value *scalar_of(Value *value)
{
    while (value->def && (value->def->kind == OP_BROADCAST || value->def->kind == OP_EXPAND)) {
        value = value->def->operands[0];
    }
    return value->type->kind == TYPE_ARRAY && value->type->rank == 0 ? value : NULL;
}

/* One array at least says what shape a gather has. */
static void use_scalars(Op *op)
{
    Access access = op_access(op, 0);
    int arrays = op->kind == OP_SCATTER;
    for (int i = 0; i < access.n; i++) {
        arrays += access.indices[i]->type->rank > 0 && !scalar_of(access.indices[i]);
    }
    for (int i = 0; arrays > 0 && i < access.n; i++) {
        Value *scalar = scalar_of(access.indices[i]);
        access.indices[i] = scalar ? scalar : access.indices[i];
    }
}

static void use_scalars_in(Op *op, void *user)
{
    (void)user;
    if (op->kind == OP_GATHER || op->kind == OP_SCATTER) {
        use_scalars(op);
    }
}

static void drop_unit(Op *op, void *user)
{
    Func *func = user;
    if (op->kind != OP_SQUEEZE) {
        return;
    }
    Builder b = build_before(func, op);
    Value *value = axis_dropped(&b, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
    value->name = value->name ? value->name : op->results[0]->name;
    func_replace_uses(func, op->results[0], value);
    op_remove(op);
}

void pass_opt_units(Func *func)
{
    func_walk(func, drop_unit, func);
    func_walk(func, use_scalars_in, NULL);
    func_remove_dead(func);
}
