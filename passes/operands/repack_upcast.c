/* SPDX-License-Identifier: Apache-2.0 */
/* repack_upcast: copies a narrow operand of a long dot once as 16-bit elements.
 *
 *                                       scratch %p: tensor<f16[N, K] strides [64*pitch0 + 64, 1]>
 *                                       %0 = load %w[:, :] : i4[N, K]
 *                                       %1 = cast %0 : f16[N, K]
 *   %a = cast (load %x[:, :]) : f32     store %p[:, :], %1
 *   %b = cast (load %w[:, :]) : f32     %b = cast (load %p[:, :]) : f32
 *   %d = dot %a, (mul %b, %s)      →    %d = dot %a, (mul %b, %s)
 *
 * wgmma reads its operands from shared memory as they are stored there. Warp-level instructions
 * upcast elements in registers, which is slower and repeats for each tile of the other operand.
 * With many rows that costs more than to upcast each element once and to read up to four times the
 * bytes. The other operand's type represents each of these elements exactly; scales are applied to
 * the accumulator (sink_dequant_scale.c). Only inputs that nothing writes are copied. Requires the
 * tensor level. Changes bits only by the association order of another instruction. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/cost_model.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/analysis/repack_cost.h"
#include "passes/operands/repack_store.h"
#include "passes/pass.h"

/* Cycles of a multiprocessor that a multiplication by single warps takes longer, measured on the
 * H200 (docs/lab/products.md); bytes of an element that the copy reads, half of one, and writes. */
static const double GAIN = 6.23e-4, COPIED = 2.5;

typedef struct Narrow {
    Op *load;
    DType wide;
    RepackBenefit copy;
} Narrow;

typedef struct Widener {
    Func *func;
    struct {
        Narrow *items;
        size_t n, cap;
    } narrows;
    RepackDecision decision;
} Widener;

/* ---- what is widened ---- */

typedef struct Uses {
    const Value *value;
    bool only_casts;
} Uses;

static void see_use(Op *op, void *user)
{
    Uses *uses = user;
    for (int i = 0; i < op->n_operands; i++) {
        bool other = op->operands[i] == uses->value && op->kind != OP_CAST;
        uses->only_casts = uses->only_casts && !other;
    }
}

/* All of an input that nothing writes, read to be widened. */
static bool is_plain(Func *func, const Op *load)
{
    if (!load || load->kind != OP_LOAD) {
        return false;
    }
    Access access = op_access(load, 0);
    const Value *memory = access.memory;
    Uses uses = {load->results[0], true};
    bool plain = memory->type->kind == TYPE_TENSOR && access.n == 2 &&
                 func->params.items[memory->index].io == PARAM_IN && !func_im2col_of(func, memory);
    for (int i = 0; plain && i < access.n; i++) {
        plain = !access.indices[i];
    }
    func_walk(func, see_use, &uses);
    return plain && uses.only_casts;
}

/* Do warp groups multiply 16 bits, but not these? */
static bool is_for_warps(const Func *func, const ScaledDot *found, DType wide)
{
    const ScheduleEntry *given = schedule_user_entry((Func *)func, "instruction", "");
    const char *word = given ? given->symbol : NULL;
    return (!word || text_equal(word, "wgmma")) &&
           !mma_find(func->target, "wgmma", found->left, found->right, DT_F32) &&
           mma_find(func->target, "wgmma", wide, wide, DT_F32);
}

static bool is_half(DType dtype)
{
    return dtype == DT_F16 || dtype == DT_BF16;
}

static void find_narrow(Op *op, void *user)
{
    Widener *w = user;
    ScaledDot found;
    if (op->kind != OP_DOT || !an_scaled_dot(w->func, op, &found) ||
        is_half(found.left) == is_half(found.right)) {
        return;
    }
    int side = is_half(found.left) ? 1 : 0;
    DType wide = side == 1 ? found.left : found.right, from = side == 1 ? found.right : found.left;
    Op *load = found.sides[side].narrow->def;
    if (mma_upcasts(from, wide) && is_for_warps(w->func, &found, wide) && is_plain(w->func, load)) {
        RepackBenefit copy = an_repack_gain(w->func, op, load->operands[0]->type, GAIN,
                                            cost_copy_each(w->func->target->machine, COPIED));
        ARENA_PUSH(w->func->arena, &w->narrows, ((Narrow){load, wide, copy}));
        an_repack_consider(&w->decision, &copy);
    }
}

/* ---- copies ---- */

static void read_copy(Func *func, const Narrow *narrow)
{
    Op *load = narrow->load;
    Value *tensor = load->operands[0];
    Builder b = build_before(func, func->body->first);
    b.span = load->span;
    Value *scratch = repack_store(&b, build_cast(&b, build_load(&b, tensor, WHOLE), narrow->wide));
    b = build_before(func, load);
    b.span = load->span;
    Value *read = build_load(&b, scratch, WHOLE);
    read->name = load->results[0]->name;
    func_replace_uses(func, load->results[0], read);
}

void pass_repack_upcast(Func *func)
{
    static const RepackReasons why = {
        .pays = "warp groups multiply 16 bits faster: a copy that is widened once takes less time "
                "than it saves",
        .costs = "a copy that is widened once would take longer than it saves",
        .unknown = "what is not known does not ask for a copy that is widened",
    };
    Widener w = {.func = func};
    if (!mma_reads_bulk_copies(func->target)) {
        return;
    }
    func_walk(func, find_narrow, &w);
    an_repack_decide(func, "repack_upcast", &why, &w.decision);
    for (size_t i = 0; i < w.narrows.n; i++) {
        if (an_repack_is_made(&w.decision, &w.narrows.items[i].copy)) {
            read_copy(func, &w.narrows.items[i]);
        }
    }
    func_remove_dead(func);
}
