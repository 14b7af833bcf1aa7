/* SPDX-License-Identifier: Apache-2.0 */
/* repack_pitched: copies a dot operand that TMA cannot describe into one with padded, aligned rows.
 *
 *                                     scratch %p: tensor<bf16[M, K] strides [64*pitch0 + 64, 1]>
 *                                     %0 = load %a[:, :]
 *   %1 = load %a[:, :] : bf16[M, K]   store %p[:, :], %0
 *   %d = dot %1, …                →   %1 = load %p[:, :] : bf16[M, K]
 *                                     %d = dot %1, …
 *
 * TMA needs rows that begin at multiples of 16 bytes. Other operands pass through registers,
 * element by element and once for each tile of the other operand, which leaves the matrix unit idle
 * most of the time. The copy takes one launch at the memory's rate. It pays if both copies of a dot
 * take less than it gains (repack_cost.h). The known sizes decide, since rows of unknown length may
 * be aligned already. Only inputs that nothing writes are copied,
 * and only for matrix instructions and FMA dots that TMA feeds.
 *
 * TMA also cannot load a gather, nor a tensor whose contiguous axis is not an axis of the dot (the
 * last tap of a filter). Such operands are copied with k contiguous, f32 ones that threads multiply
 * with rows or columns contiguous; a gather only if it has at most a few times the elements of the
 * tensor, so that no image of windows is written out.
 *
 *                                     scratch %p: tensor<bf16[F, O, C] strides [...]>
 *                                     %0 = gather %w[%o, %f, %c] : bf16[F, O, C]
 *   %0 = gather %w[%o, %f, %c]        store %p[:, :, :], %0
 *   %d = dot %1, %0               →   %2 = load %p[:, :, :]
 *                                     %d = dot %1, %2
 *
 * Requires the tensor level. Changes no bits. */
#include "ir/build.h"
#include "ir/layout/matrix_instr.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/access_width.h"
#include "passes/analysis/repack_cost.h"
#include "passes/operands/repack_permuted.h"
#include "passes/operands/repack_store.h"
#include "passes/pass.h"

enum {
    ROW_BYTES =
        128,       /* the engine wants 16; what it brings of a row is then one line of the cache */
    MAX_TIMES = 4, /* that a copy of what is gathered is as large as its tensor */
    NO_AXIS = -1,
};

typedef struct Operand {
    Op *load;
    bool permuted; /* copied as its product has it: `load` may be a gather */
    int last;      /* if permuted: the axis that the copy has contiguous */
    RepackBenefit copy;
} Operand;

typedef struct Pitcher {
    Func *func;
    struct {
        Operand *items;
        size_t n, cap;
    } operands;
} Pitcher;

/* ---- what is read so ---- */

/* What is an operand but for the order and number of its axes; NULL: a parameter. */
static Op *operand_source(const Value *value)
{
    Op *op = value->def;
    while (op && (op_moves_axes(op) || op->kind == OP_MASK)) {
        op = op->operands[0]->def;
    }
    return op;
}

/* The axis of what an operand is made of that is its axis `at`; NO_AXIS: none, or it is masked. */
static int axis_of_source(const Value *value, int at)
{
    for (const Op *op = value->def; op && at >= 0; op = op->operands[0]->def) {
        if (!op_moves_axes(op)) {
            return op->kind == OP_MASK ? NO_AXIS : at;
        }
        at = op_operand_axis(op, 0, at);
    }
    return NO_AXIS;
}

/* Would the engine take it if its rows were longer? Its own limits are those of `stage`. */
static bool is_misaligned(const Func *func, const Op *load)
{
    Access access = op_access(load, 0);
    const Value *memory = access.memory, *last = access.indices[access.n - 1];
    bool whole_rows = !last || last->type->kind == TYPE_RANGE;
    return memory->type->kind == TYPE_TENSOR && access.n > 1 && whole_rows &&
           func->params.items[memory->index].io == PARAM_IN &&
           (memory->type->dtype == DT_F16 || memory->type->dtype == DT_BF16) &&
           !an_tma_rows(&access);
}

/* Of input that is gathered: a few times as much at most? */
static bool is_few(const Op *gather)
{
    Type type = gather->results[0]->type, of = gather->operands[0]->type;
    double times = MAX_TIMES, gathered = 1;
    for (int i = 0; i < of->rank; i++) {
        times *= (double)poly_nominal(of->dims[i]);
    }
    for (int i = 0; i < type->rank; i++) {
        gathered *= (double)poly_nominal(type->dims[i]);
    }
    return gathered <= times;
}

/* Do threads multiply f32, of which the engine may bring the other factor? */
static bool is_for_threads(const Func *func, const Op *dot, int side)
{
    const Op *other = operand_source(dot->operands[1 - side]);
    return other && other->kind == OP_LOAD && repack_is_for_threads(func, dot);
}

/* Gathered by indices that no loop counts, or read whole where the axis that is contiguous is
 * neither one of k nor one of rows or columns. Matrix units take what is contiguous along k,
 * threads rather the rows or columns (repack_mn_major.c). */
static bool is_permuted(const Func *func, const Op *dot, int side, Operand *operand)
{
    const Op *op = operand->load;
    const Value *value = dot->operands[side], *memory = op->operands[0];
    bool threads = memory->type->dtype == DT_F32 && is_for_threads(func, dot, side);
    int rank = value->type->rank, at = side == 0 ? rank - 1 : rank - 2;
    int k = axis_of_source(value, at), other = axis_of_source(value, 2 * rank - 3 - at);
    if (k < 0 || op->parent != func->body || memory->type->kind != TYPE_TENSOR ||
        func->params.items[memory->index].io != PARAM_IN || func_im2col_of(func, memory) ||
        (memory->type->dtype != DT_F16 && memory->type->dtype != DT_BF16 && !threads)) {
        return false;
    }
    int last = op->results[0]->type->rank - 1;
    operand->last = threads && other >= 0 ? other : k;
    return op->kind == OP_GATHER
               ? is_few(op)
               : op_accesses_whole(op) && last > 0 && other >= 0 && k != last && other != last;
}

/* Do rows begin at multiples of 4 bytes, so that threads can copy pieces for later steps? */
static bool suits_threads(const Func *func, const Op *load)
{
    enum { PIECE = 4 };
    Access access = op_access(load, 0);
    return func->target->async_copy_bytes &&
           an_row_divisor(&access) * dtype_bytes(access.memory->type->dtype) % PIECE == 0;
}

/* Adds those of a product's operands that the engine cannot bring, all of which have one price. */
static void find_operands(Op *op, void *user)
{
    Pitcher *p = user;
    RepackProblem problem = {.dot = op, .way = REPACK_ASYNC};
    size_t before = p->operands.n;
    for (int side = 0; op->kind == OP_DOT && side < 2; side++) {
        Operand operand = {.load = operand_source(op->operands[side])};
        bool reads =
            operand.load && (operand.load->kind == OP_LOAD || operand.load->kind == OP_GATHER);
        operand.permuted = reads && is_permuted(p->func, op, side, &operand);
        bool badly = reads && !operand.permuted && operand.load->kind == OP_LOAD &&
                     is_misaligned(p->func, operand.load);
        if (operand.permuted || badly) {
            bool pieces = badly && suits_threads(p->func, operand.load);
            bool threads = operand.load->results[0]->type->dtype == DT_F32;
            if (threads) {
                problem.way = REPACK_THREADS;
            } else if (!pieces) {
                problem.way = REPACK_ELEMENTS;
            }
            problem.tensors[problem.n++] = operand.permuted ? operand.load->results[0]->type
                                                            : operand.load->operands[0]->type;
            ARENA_PUSH(p->func->arena, &p->operands, operand);
        }
    }
    RepackBenefit copy = problem.n ? an_repack_benefit(p->func, &problem) : (RepackBenefit){0};
    for (size_t i = before; i < p->operands.n; i++) {
        p->operands.items[i].copy = copy;
    }
}

/* ---- copies ---- */

static Value *pitched_copy(Func *func, const Value *tensor)
{
    Builder b =
        func->body->first ? build_before(func, func->body->first) : build_at_end(func, func->body);
    return repack_store(&b, build_load(&b, (Value *)tensor, WHOLE));
}

/* One copy serves all products that read the tensor. */
static void move_reads(Pitcher *p, const Value *tensor)
{
    Value *copy = pitched_copy(p->func, tensor);
    for (size_t i = 0; i < p->operands.n; i++) {
        Op *load = p->operands.items[i].load;
        if (load->operands[0] == tensor && !p->operands.items[i].permuted) {
            op_set_operand(load, 0, copy);
        }
    }
}

/* All that reads what was gathered or loaded reads the copy. */
static void repack_permuted_axes(Pitcher *p, const Operand *operand)
{
    Func *func = p->func;
    Value *all = operand->load->results[0];
    int rank = all->type->rank;
    int64_t order[MAX_RANK], back[MAX_RANK];
    Dim dims[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        order[i] = i == rank - 1 ? operand->last : i + (i >= operand->last);
        back[order[i]] = i;
        dims[i] = all->type->dims[order[i]];
    }
    bool same = operand->last == rank - 1;
    Type type = type_array(func, all->type->dtype, rank, dims);
    Value *scratch = func_pitched_scratch(func, type, ROW_BYTES / dtype_bytes(type->dtype));
    Builder b = build_after(func, operand->load);
    Value *copy = build_load(&b, scratch, WHOLE);
    copy->name = all->name;
    copy = same ? copy : build_permute(&b, copy, back);
    func_replace_uses(func, all, copy);
    b = build_after(func, operand->load);
    Op *store = build_store(&b, scratch, WHOLE, same ? all : build_permute(&b, all, order));
    op_set_int(func, store, ATTR_REPACKED, 1);
}

/* Several products may read the same. */
static bool was_permuted(const Pitcher *p, size_t nth)
{
    for (size_t i = 0; i < nth; i++) {
        if (p->operands.items[i].permuted &&
            p->operands.items[i].load == p->operands.items[nth].load) {
            return true;
        }
    }
    return false;
}

/* Do the user's lines leave tiles to the copy engine? */
static bool is_tma_loaded(Func *func)
{
    const ScheduleEntry *copy = schedule_user_entry(func, "copy", ""),
                        *unit = schedule_user_entry(func, "instruction", "");
    return (!copy || !copy->symbol || text_equal(copy->symbol, "bulk")) &&
           (!unit || !unit->symbol || text_equal(unit->symbol, "wgmma") ||
            text_equal(unit->symbol, "fma"));
}

/* `permuted`: a copy that is made, or none where none pays, is of another order of axes. */
static RepackReasons reasons(bool loads_by_tma, bool permuted)
{
    static const RepackReasons order = {
        .pays = "an operand is gathered, or contiguous along no axis of its product: a copy as the "
                "product has it lets the copy engine bring tiles",
        .costs = "a copy of what is gathered would take longer than tiles through registers do",
        .unknown = "rows may be multiples of 16 bytes: what is not known does not ask for a copy",
    };
    static const RepackReasons rows = {
        .pays = "rows are no multiple of 16 bytes: a copy of which they are lets the copy engine "
                "bring tiles",
        .costs = "a copy with rows of 16 bytes would take longer than tiles through registers do",
        .unknown = "rows may be multiples of 16 bytes: what is not known does not ask for a copy",
    };
    static const char *const NONE = "the copy engine brings no tiles here";
    if (!loads_by_tma) {
        return (RepackReasons){NONE, NONE, NONE};
    }
    return permuted ? order : rows;
}

void pass_repack_pitched(Func *func)
{
    Pitcher p = {.func = func};
    if (!mma_reads_bulk_copies(func->target)) {
        return;
    }
    func_walk(func, find_operands, &p);
    bool loads_by_tma = is_tma_loaded(func), permuted = false;
    RepackDecision decision = {.any = false};
    for (size_t i = 0; i < p.operands.n; i++) {
        p.operands.items[i].copy.pays = p.operands.items[i].copy.pays && loads_by_tma;
        an_repack_consider(&decision, &p.operands.items[i].copy);
    }
    for (size_t i = 0; i < p.operands.n; i++) {
        const Operand *operand = &p.operands.items[i];
        permuted |= operand->permuted && (operand->copy.pays || !decision.pays);
    }
    RepackReasons why = reasons(loads_by_tma, permuted);
    an_repack_decide(func, "repack_pitched", &why, &decision);
    for (size_t i = 0; i < p.operands.n; i++) {
        const Operand *operand = &p.operands.items[i];
        const Value *tensor = operand->load->operands[0];
        if (!an_repack_is_made(&decision, &operand->copy)) {
            continue;
        }
        if (operand->permuted) {
            if (!was_permuted(&p, i)) {
                repack_permuted_axes(&p, operand);
            }
        } else if (func->params.items[tensor->index].io == PARAM_IN) {
            move_reads(&p, tensor);
        }
    }
}
