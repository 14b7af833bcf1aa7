/* SPDX-License-Identifier: Apache-2.0 */
/* Copies operands of dots into intermediates whose contiguous axis is another one. It is the common
 * part of repack_k_major and repack_mn_major: finding the operand, estimating the benefit,
 * recording the schedule entry, and replacing the load. */
#include "passes/operands/repack_permuted.h"

#include "ir/build.h"
#include "ir/layout/matrix_instr.h"
#include "ir/schedule.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/operands/repack_store.h"

/* ---- what is read ---- */

/* Every axis of the tensor as it is, or a part of it. */
static bool is_plain(const Func *func, const Op *load)
{
    Access access = op_access(load, 0);
    const Value *memory = access.memory;
    bool plain = memory->type->kind == TYPE_TENSOR && access.n > 1 &&
                 load->results[0]->type->rank == access.n &&
                 func->params.items[memory->index].io == PARAM_IN && !func_im2col_of(func, memory);
    for (int i = 0; plain && i < access.n; i++) {
        plain = !access.indices[i] || access.indices[i]->type->kind == TYPE_RANGE;
    }
    return plain;
}

bool repack_permuted_find(const Func *func, Op *dot, int side, RepackOperand *found)
{
    const Value *value = dot->operands[side];
    int rank = value->type->rank;
    *found = (RepackOperand){.dot = dot, .side = side};
    for (int i = 0; i < rank; i++) {
        found->order[i] = i;
    }
    Op *op = value->def;
    for (; op && (op->kind == OP_PERMUTE || op->kind == OP_TF32); op = op->operands[0]->def) {
        found->rounded |= op->kind == OP_TF32;
        for (int i = 0; op->kind == OP_PERMUTE && i < rank; i++) {
            found->order[i] = op_attr(op, ATTR_PERM)->ints[found->order[i]];
        }
    }
    found->load = op;
    found->last = found->k = (int)found->order[rank - (side == 0 ? 1 : 2)];
    found->free = (int)found->order[rank - (side == 0 ? 2 : 1)];
    return op && op->kind == OP_LOAD && is_plain(func, op);
}

bool repack_is_for_threads(const Func *func, const Op *dot)
{
    const ScheduleEntry *given = schedule_user_entry((Func *)func, "instruction", "");
    bool f32 = dot->operands[0]->type->dtype == DT_F32 && dot->operands[1]->type->dtype == DT_F32 &&
               dot->results[0]->type->dtype == DT_F32;
    return f32 && !an_rounded(dot) &&
           !mma_find(func->target, given ? given->symbol : NULL, DT_F32, DT_F32, DT_F32);
}

/* ---- copies ---- */

/* The copy's axes, as the tensor has them numbered. */
static void copy_order(const RepackOperand *operand, int rank, int64_t *order)
{
    int n = 0;
    for (int i = 0; i < rank; i++) {
        if (i != operand->last) {
            order[n++] = i;
        }
    }
    order[n] = operand->last;
}

static bool is_identity(const int64_t *perm, int rank)
{
    bool same = true;
    for (int i = 0; i < rank; i++) {
        same = same && perm[i] == i;
    }
    return same;
}

static Value *permuted(Builder *b, Value *value, const int64_t *perm)
{
    return is_identity(perm, value->type->rank) ? value : build_permute(b, value, perm);
}

/* One copy serves all products that read the tensor along the same axis: those of operands before
 * it may have made it. */
static Value *copy_of(Func *func, const RepackOperand *operands, RepackOperand *operand)
{
    const Value *tensor = operand->load->operands[0];
    for (const RepackOperand *other = operands; other < operand; other++) {
        if (other->scratch && other->load->operands[0] == tensor && other->last == operand->last) {
            return other->scratch;
        }
    }
    Builder b =
        func->body->first ? build_before(func, func->body->first) : build_at_end(func, func->body);
    int64_t order[MAX_RANK];
    Value *all = build_load(&b, (Value *)tensor, WHOLE);
    copy_order(operand, all->type->rank, order);
    return repack_store(&b, permuted(&b, all, order));
}

/* The product reads a copy. `operands`: the ones that may have made it. */
static void read_copy(Func *func, const RepackOperand *operands, RepackOperand *operand)
{
    Op *dot = operand->dot;
    int rank = operand->load->results[0]->type->rank;
    int64_t order[MAX_RANK], places[MAX_RANK], perm[MAX_RANK];
    Value *indices[MAX_RANK];
    Access access = op_access(operand->load, 0);
    operand->scratch = copy_of(func, operands, operand);
    copy_order(operand, rank, order);
    for (int i = 0; i < rank; i++) {
        indices[i] = access.indices[order[i]];
        places[order[i]] = i;
    }
    for (int i = 0; i < rank; i++) {
        perm[i] = places[operand->order[i]];
    }
    Builder b = build_before(func, dot);
    b.span = operand->load->span;
    Value *value = build_load(&b, operand->scratch, indices);
    value->name = operand->load->results[0]->name;
    value = operand->rounded ? build_unary(&b, OP_TF32, value) : value;
    op_set_operand(dot, operand->side, permuted(&b, value, perm));
}

void repack_permuted_add(Repacker *t, const RepackOperand *operand)
{
    ARENA_PUSH(t->func->arena, &t->operands, *operand);
    an_repack_consider(&t->decision, &operand->copy);
}

void repack_permuted_choose(Repacker *t, const char *key, const RepackReasons *why)
{
    an_repack_decide(t->func, key, why, &t->decision);
    for (size_t i = 0; i < t->operands.n; i++) {
        if (an_repack_is_made(&t->decision, &t->operands.items[i].copy)) {
            read_copy(t->func, t->operands.items, &t->operands.items[i]);
        }
    }
    func_remove_dead(t->func);
}
