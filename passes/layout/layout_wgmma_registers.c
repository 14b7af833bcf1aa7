/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that each wgmma fits the registers with which a launch begins. Roles change their
 * registers while a block runs (setmaxnreg), but ptxas allocates each wgmma within the registers
 * that the launch gives every thread: the accumulator, a register A operand, and a fixed number of
 * others. If they do not suffice, ptxas refuses the whole program, so such tiles are refused
 * here. */
#include "ir/ir_errors.h"
#include "passes/layout/assign_layouts.h"

enum {
    LEFT_REGISTERS = 4,
    RESERVED_REGISTERS = 26, /* measured: ptxas 12.9 and 13.0, all types and widths */
    REGISTER_BITS = 32,
};

/* The instruction of the launch that names the most registers. */
typedef struct Widest {
    LayoutPass *pass;
    const Op *product;
    int64_t registers;
} Widest;

static int64_t columns_of(LayoutPass *pass, const Op *product)
{
    int64_t extents[MAX_RANK];
    layout_extents(pass, product->results[0]->type, extents);
    return extents[1];
}

/* Two merged dots have one instruction if it has enough columns. */
static int64_t instruction_columns(LayoutPass *pass, const MatrixInstr *unit, const Op *product)
{
    int64_t columns = columns_of(pass, product);
    const Op *before = op_int(product, ATTR_MERGED, 0) ? product->prev : NULL;
    while (before && before->kind != OP_DOT_ASYNC) {
        before = before->prev;
    }
    int64_t both = columns + (before ? columns_of(pass, before) : 0);
    columns = both <= unit->max_n ? both : columns;
    return columns < unit->max_n ? columns : unit->max_n;
}

static void find_widest(Op *op, void *user)
{
    Widest *widest = user;
    LayoutPass *pass = widest->pass;
    const MatrixInstr *unit = op->kind == OP_DOT_ASYNC ? mma_of_dot(pass->func->target, op) : NULL;
    if (!unit || mma_warps(unit) == 1) {
        return;
    }
    int64_t lanes = (int64_t)mma_warps(unit) * pass->lanes;
    int64_t bits = instruction_columns(pass, unit, op) * unit->m * dtype_bits(unit->result) / lanes;
    bool held = op->operands[0]->type->kind != TYPE_SHARED;
    int64_t registers = bits / REGISTER_BITS + (held ? LEFT_REGISTERS : 0) + RESERVED_REGISTERS;
    if (registers > widest->registers) {
        widest->registers = registers;
        widest->product = op;
    }
}

void layout_check_groups(LayoutPass *pass)
{
    for (const Op *op = pass->func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            Func *func = pass->func;
            Widest widest = {pass, NULL, 0};
            block_walk(op->regions[0], find_widest, &widest);
            int64_t warps = layout_warps(pass, op->regions[0]);
            int64_t blocks = op_int(op, ATTR_OCCUPANCY, 1);
            int64_t most = layout_launch_registers(pass, warps * (blocks > 1 ? blocks : 1));
            if (widest.registers > most) {
                diag_error(
                    func->diags, ERR_REGISTERS, widest.product->span,
                    "kernel %s multiplies by instructions that take %lld registers a thread; those "
                    "of a block of %lld threads of %s begin with %lld",
                    func->name, (long long)widest.registers, (long long)(warps * pass->lanes),
                    func->target->name, (long long)most);
            }
        }
    }
}
