/* SPDX-License-Identifier: Apache-2.0 */
/* repack_mn_major: copies f32 operands of FMA dots so that the rows of the left one, or the columns
 * of the right one, are contiguous.
 *
 *                                      scratch %p: tensor<f32[K, M] strides [32*pitch0 + 32, 1]>
 *                                      %0 = load %a[:, :]
 *                                      %1 = permute %0 perm=[1, 0] : f32[K, M]
 *   %1 = load %a[:, :] : f32[M, K]     store %p[:, :], %1
 *   %d = dot %1, %2 : f32[M, N]   →    %3 = load %p[:, :] : f32[K, M]
 *                                      %4 = permute %3 perm=[1, 0] : f32[M, K]
 *                                      %d = dot %4, %2 : f32[M, N]
 *
 * A thread loads 16 bytes at once. Along k these are four k steps of one row in adjacent registers;
 * the operands of one step are then all in the same bank of the register file, which delivers one
 * operand per cycle, and many steps must be live at once. Along the rows, the operands of a step
 * are in both banks. TMA loads either form; rows that it cannot describe pass through registers,
 * which the copy with its padded rows also avoids. The copy takes a launch at the memory's rate, so
 * the dot must be long compared with it. Only f32 inputs that nothing writes are copied. Requires
 * the tensor level. Changes no bits. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/cost_model.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/analysis/access_width.h"
#include "passes/pass.h"
#include "passes/operands/repack_permuted.h"

/* Cycles of a multiprocessor that a multiplication takes longer if an operand of fused
 * multiply-adds is contiguous along k: 4 % of it, measured on the H200 (docs/lab/products.md).
 * Bytes of an element that the copy reads and writes. */
static const double GAIN = 4.49e-4, COPIED = 8;

static void find_operands(Op *op, void *user)
{
    Repacker *t = user;
    ScaledDot factored;
    if (op->kind != OP_DOT || !repack_is_for_threads(t->func, op) ||
        an_scaled_dot(t->func, op, &factored)) {
        return;
    }
    RepackOperand sides[2];
    bool known = repack_permuted_find(t->func, op, 0, &sides[0]) &&
                 repack_permuted_find(t->func, op, 1, &sides[1]);
    for (int side = 0; known && side < 2; side++) {
        RepackOperand *operand = &sides[side];
        Access access = op_access(operand->load, 0);
        Type tensor = access.memory->type;
        const Machine *machine = t->func->target->machine;
        bool walked = an_tma_rows(&access);
        if (operand->k != access.n - 1 && walked) {
            continue;
        }
        operand->last = operand->free;
        operand->copy =
            walked ? an_repack_gain(t->func, op, tensor, GAIN, cost_copy_each(machine, COPIED))
                   : an_repack_benefit(
                         t->func, &(RepackProblem){op, REPACK_THREADS, {tensor}, 1});
        repack_permuted_add(t, operand);
    }
}

void pass_repack_mn_major(Func *func)
{
    static const RepackReasons why = {
        .pays =
            "threads read what they multiply in both banks of registers: a copy in which rows or "
            "columns are contiguous takes less time than it saves",
        .costs = "a copy in which rows or columns are contiguous would take longer than it saves",
        .unknown =
            "what is not known does not ask for a copy in which rows or columns are contiguous",
    };
    Repacker t = {.func = func};
    if (!func->target || !func->target->has_bulk_copy) {
        return;
    }
    func_walk(func, find_operands, &t);
    repack_permuted_choose(&t, "repack_mn_major", &why);
}
