/* SPDX-License-Identifier: Apache-2.0 */
/* repack_k_major: copies operands that the matrix instruction reads only along k so that k is
 * contiguous.
 *
 *                                     scratch %p: tensor<i8[N, K] strides [128*pitch0 + 128, 1]>
 *                                     %0 = load %b[:, :]
 *                                     %1 = permute %0 perm=[1, 0] : i8[N, K]
 *   %1 = load %b[:, :] : i8[K, N]     store %p[:, :], %1
 *   %d = dot %0, %1 : i32[M, N]   →   %2 = load %p[:, :] : i8[N, K]
 *                                     %3 = permute %2 perm=[1, 0] : i8[K, N]
 *                                     %d = dot %0, %3 : i32[M, N]
 *
 * wgmma reads 16-bit operands from shared memory with either axis contiguous, all others only with
 * k contiguous (matrix_instrs.def: smem_k_major_only), except that a 32-bit left operand may be a
 * register operand. Warp-level instructions read either, at a fraction of the rate. The copy takes
 * one launch at the memory's rate. Its rows are padded, so that TMA can load rows of any length. It
 * pays if each element is multiplied often enough and the dot takes long compared with a launch.
 * Only inputs that nothing writes are copied. Requires the tensor level. Changes no bits of
 * integers; floats are summed in the association order of another instruction. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "ir/layout/matrix_instr.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/analysis/access_width.h"
#include "passes/pass.h"
#include "passes/operands/repack_permuted.h"

/* ---- what is read so ---- */

/* The unit that takes these operands along k alone; NULL: none, or it takes them anyhow. */
static const MatrixInstr *unit_along_k(const Func *func, const Op *dot)
{
    bool rounded = an_rounded(dot);
    DType left = rounded ? DT_TF32 : dot->operands[0]->type->dtype;
    DType right = rounded ? DT_TF32 : dot->operands[1]->type->dtype;
    const ScheduleEntry *given = schedule_user_entry((Func *)func, "instruction", "");
    const MatrixInstr *unit = mma_find(func->target, given ? given->symbol : NULL, left, right,
                                       dot->results[0]->type->dtype);
    return unit && unit->smem_k_major_only ? unit : NULL;
}

/* Along k, or so that threads can read it for the unit; in rows that the copy engine walks? */
static bool is_k_major(const RepackOperand *operand, const MatrixInstr *unit)
{
    Access access = op_access(operand->load, 0);
    bool read = operand->side == 0 && mma_can_read_a(unit) && operand->k == access.n - 2;
    return (operand->k == access.n - 1 || read) && an_tma_rows(&access);
}

static void find_operands(Op *op, void *user)
{
    Repacker *t = user;
    const MatrixInstr *unit = op->kind == OP_DOT ? unit_along_k(t->func, op) : NULL;
    if (!unit) {
        return;
    }
    RepackOperand sides[2];
    bool known = repack_permuted_find(t->func, op, 0, &sides[0]) &&
                 repack_permuted_find(t->func, op, 1, &sides[1]);
    RepackProblem problem = {.dot = op, .way = REPACK_WARPS};
    bool badly[2] = {false, false};
    for (int side = 0; known && side < 2; side++) {
        badly[side] = !is_k_major(&sides[side], unit);
        if (badly[side]) {
            problem.tensors[problem.n++] = sides[side].load->operands[0]->type;
        }
    }
    RepackBenefit copy = problem.n ? an_repack_benefit(t->func, &problem) : (RepackBenefit){0};
    for (int side = 0; side < 2; side++) {
        if (badly[side]) {
            sides[side].copy = copy;
            repack_permuted_add(t, &sides[side]);
        }
    }
}

void pass_repack_k_major(Func *func)
{
    static const RepackReasons why = {
        .pays =
            "the matrix unit of warp groups reads this type along k alone: a copy in which k is "
            "contiguous takes less time than it saves",
        .costs = "a copy in which k is contiguous would take longer than it saves",
        .unknown = "what is not known does not ask for a copy in which k is contiguous",
    };
    Repacker t = {.func = func};
    if (!mma_reads_bulk_copies(func->target)) {
        return;
    }
    func_walk(func, find_operands, &t);
    repack_permuted_choose(&t, "repack_k_major", &why);
}
