/* SPDX-License-Identifier: Apache-2.0 */
/* kmajor: what a matrix unit takes along k alone is copied once to where k is contiguous.
 *
 *                                     scratch %p: tensor<i8[N, K] strides [128*pitch0 + 128, 1]>
 *                                     %0 = load %b[:, :]
 *                                     %1 = permute %0 perm=[1, 0] : i8[N, K]
 *   %1 = load %b[:, :] : i8[K, N]     store %p[:, :], %1
 *   %d = dot %0, %1 : i32[M, N]   →   %2 = load %p[:, :] : i8[N, K]
 *                                     %3 = permute %2 perm=[1, 0] : i8[K, N]
 *                                     %d = dot %0, %3 : i32[M, N]
 *
 * The unit of warp groups reads operands of 16 bits from shared memory either way, all others only
 * where k is contiguous (units.def: along_k); for a left one of 32 bits threads may read it.
 * Instructions of single warps take any, at a fraction of its rate. A copy takes one launch at the
 * memory's rate, and is pitched: rows of any length are such as the copy engine walks. It pays
 * where each element is multiplied often enough, and where the product is long beside a launch.
 * Only inputs that nothing writes are copied. Requires the tensor stage. Changes no bits of
 * integers; sums of floats are added in the unit's order. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/unit.h"
#include "passes/an_copies.h"
#include "passes/an_factor.h"
#include "passes/an_width.h"
#include "passes/pass.h"

enum { ROW_BYTES = 128 /* of which rows of a copy are a multiple: a line of the cache */ };

/* An operand: a tensor whose axes are permuted, and rounded perhaps. */
typedef struct Operand {
    Op *dot, *load;
    int side, k;             /* k: which axis of the tensor */
    int64_t order[MAX_RANK]; /* the tensor's axes, as the product has them */
    bool rounded;
    CopyWeight copy;
    Value *scratch; /* its copy: the axes but k in their order, then k */
} Operand;

typedef struct Turner {
    Func *func;
    struct {
        Operand *items;
        size_t n, cap;
    } operands;
} Turner;

/* ---- what is read so ---- */

/* The unit that takes these operands along k alone; NULL: none, or it takes them anyhow. */
static const Unit *unit_along_k(const Func *func, const Op *dot)
{
    bool rounded = an_rounded(dot);
    DType left = rounded ? DT_TF32 : dot->operands[0]->type->dtype;
    DType right = rounded ? DT_TF32 : dot->operands[1]->type->dtype;
    const Line *given = schedule_given((Func *)func, "product", "");
    const Unit *unit = unit_find(func->target, given ? given->word : NULL, left, right,
                                 dot->results[0]->type->dtype);
    return unit && unit->along_k ? unit : NULL;
}

/* Every axis of the tensor as it is, or a part of it. */
static bool is_plain(const Func *func, const Op *load)
{
    Access access = op_access(load, 0);
    const Value *memory = access.memory;
    bool plain = memory->type->kind == TYPE_TENSOR && access.n > 1 &&
                 load->results[0]->type->rank == access.n &&
                 func->params.items[memory->index].io == PARAM_IN && !func_windows_of(func, memory);
    for (int i = 0; plain && i < access.n; i++) {
        plain = !access.indices[i] || access.indices[i]->type->kind == TYPE_RANGE;
    }
    return plain;
}

static bool find_operand(const Func *func, Op *dot, int side, Operand *found)
{
    const Value *value = dot->operands[side];
    int rank = value->type->rank;
    *found = (Operand){.dot = dot, .side = side};
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
    found->k = (int)found->order[rank - (side == 0 ? 1 : 2)];
    return op && op->kind == OP_LOAD && is_plain(func, op);
}

/* Along k, or so that threads can read it for the unit; in rows that the copy engine walks? */
static bool lies_well(const Operand *operand, const Unit *unit)
{
    Access access = op_access(operand->load, 0);
    bool read = operand->side == 0 && unit_reads_left(unit) && operand->k == access.n - 2;
    return (operand->k == access.n - 1 || read) && an_bulk_rows(&access);
}

static void find_operands(Op *op, void *user)
{
    Turner *t = user;
    const Unit *unit = op->kind == OP_DOT ? unit_along_k(t->func, op) : NULL;
    if (!unit) {
        return;
    }
    Operand sides[2];
    bool known = find_operand(t->func, op, 0, &sides[0]) && find_operand(t->func, op, 1, &sides[1]);
    for (int side = 0; known && side < 2; side++) {
        if (!lies_well(&sides[side], unit)) {
            sides[side].copy = an_copy_weight(op, sides[side].load->operands[0]->type);
            ARENA_PUSH(t->func->arena, &t->operands, sides[side]);
        }
    }
}

/* ---- copies ---- */

/* The copy's axes, as the tensor has them numbered. */
static void copy_order(const Operand *operand, int rank, int64_t *order)
{
    int n = 0;
    for (int i = 0; i < rank; i++) {
        if (i != operand->k) {
            order[n++] = i;
        }
    }
    order[n] = operand->k;
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

/* One copy serves all products that read the tensor along the same axis. */
static Value *copy_of(Turner *t, Operand *operand)
{
    static Value *const WHOLE[MAX_RANK];
    Func *func = t->func;
    const Value *tensor = operand->load->operands[0];
    for (Operand *other = t->operands.items; other < operand; other++) {
        if (other->scratch && other->load->operands[0] == tensor && other->k == operand->k) {
            return other->scratch;
        }
    }
    Builder b =
        func->body->first ? build_before(func, func->body->first) : build_at_end(func, func->body);
    int64_t order[MAX_RANK];
    Value *all = build_load(&b, (Value *)tensor, WHOLE);
    copy_order(operand, all->type->rank, order);
    Value *turned = permuted(&b, all, order);
    int64_t multiple = ROW_BYTES / dtype_bytes(tensor->type->dtype);
    Value *scratch = func_pitched_scratch(func, turned->type, multiple);
    build_store(&b, scratch, WHOLE, turned);
    return scratch;
}

static void read_copy(Turner *t, Operand *operand)
{
    Op *dot = operand->dot;
    int rank = operand->load->results[0]->type->rank;
    int64_t order[MAX_RANK], places[MAX_RANK], perm[MAX_RANK];
    Value *indices[MAX_RANK];
    Access access = op_access(operand->load, 0);
    operand->scratch = copy_of(t, operand);
    copy_order(operand, rank, order);
    for (int i = 0; i < rank; i++) {
        indices[i] = access.indices[order[i]];
        places[order[i]] = i;
    }
    for (int i = 0; i < rank; i++) {
        perm[i] = places[operand->order[i]];
    }
    Builder b = build_before(t->func, dot);
    b.span = operand->load->span;
    Value *value = build_load(&b, operand->scratch, indices);
    value->name = operand->load->results[0]->name;
    value = operand->rounded ? build_unary(&b, OP_TF32, value) : value;
    dot->operands[operand->side] = permuted(&b, value, perm);
}

static const char *reason(const Turner *t, bool pays)
{
    bool known = false;
    for (size_t i = 0; i < t->operands.n; i++) {
        known |= t->operands.items[i].copy.known;
    }
    return pays ? "the matrix unit of warp groups reads this type along k alone: a copy in which k "
                  "is "
                  "contiguous takes less time than it saves"
           : known ? "a copy in which k is contiguous would take longer than it saves"
                   : "what is not known does not ask for a copy in which k is contiguous";
}

void pass_opt_kmajor(Func *func)
{
    Turner t = {.func = func};
    if (!func->target || !func->target->bulk_copy || !unit_first(func->target, "wgmma")) {
        return;
    }
    func_walk(func, find_operands, &t);
    bool pays = false;
    for (size_t i = 0; i < t.operands.n; i++) {
        pays |= t.operands.items[i].copy.pays;
    }
    if (t.operands.n == 0) {
        return;
    }
    bool given = schedule_given(func, "kmajor", "") != NULL;
    const char *on = schedule_word(func, "kmajor", "", pays ? "on" : "off", "%s", reason(&t, pays));
    for (size_t i = 0; text_same(on, "on") && i < t.operands.n; i++) {
        if (given || t.operands.items[i].copy.pays) {
            read_copy(&t, &t.operands.items[i]);
        }
    }
    func_remove_dead(func);
}
