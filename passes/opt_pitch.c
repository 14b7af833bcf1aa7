/* SPDX-License-Identifier: Apache-2.0 */
/* pitch: what the copy engine cannot describe is copied once to where it can.
 *
 *                                     scratch %p: tensor<bf16[M, K] strides [64*pitch0 + 64, 1]>
 *                                     %0 = load %a[:, :]
 *   %1 = load %a[:, :] : bf16[M, K]   store %p[:, :], %0
 *   %d = dot %1, …                →   %1 = load %p[:, :] : bf16[M, K]
 *                                     %d = dot %1, …
 *
 * The engine walks rows that begin at multiples of 16 bytes. Others pass through registers, element
 * by element and once for each tile of the other operand, which leaves the matrix unit idle most of
 * the time; a copy of the operand takes one launch at the memory's rate. It pays where each element
 * is multiplied often enough, and where the product is long beside a launch. What sizes are known
 * decides: rows of any length may be aligned as they lie. Only inputs that nothing writes are
 * copied, and only for a matrix unit that the engine feeds. Requires the tensor stage. Changes no
 * bits. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/unit.h"
#include "passes/an_width.h"
#include "passes/pass.h"

/* From the H200 (docs/performance.md): products through registers reach 0.13 of the unit's rate,
 * tiles of the engine half of it, so that a multiplication costs 11 fs less; an element is copied
 * in 1.3 ps, and a launch takes 3 us. */
enum {
    ROW_BYTES =
        128, /* the engine wants 16; what it brings of a row is then one line of the cache */
    LEAST_USES = 128,    /* of each element */
    LEAST_WORK = 1 << 28 /* multiplications */
};

typedef struct Operand {
    Op *load;
    bool known, pays; /* its sizes; the copy, by them */
} Operand;

typedef struct Pitcher {
    Func *func;
    struct {
        Operand *items;
        size_t n, cap;
    } operands;
} Pitcher;

/* ---- what is read so ---- */

/* The load that is an operand but for the order and number of its axes. */
static Op *operand_load(const Value *value)
{
    Op *op = value->def;
    while (op && (op->kind == OP_PERMUTE || op->kind == OP_BROADCAST || op->kind == OP_EXPAND ||
                  op->kind == OP_SQUEEZE || op->kind == OP_MASK)) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_LOAD ? op : NULL;
}

/* Would the engine take it if its rows were longer? Its own limits are those of `stage`. */
static bool lies_badly(const Func *func, const Op *load)
{
    Access access = op_access(load, 0);
    const Value *memory = access.memory, *last = access.indices[access.n - 1];
    bool whole_rows = !last || last->type->kind == TYPE_RANGE;
    return memory->type->kind == TYPE_TENSOR && access.n > 1 && whole_rows &&
           func->params.items[memory->index].io == PARAM_IN &&
           (memory->type->dtype == DT_F16 || memory->type->dtype == DT_BF16) &&
           !an_bulk_rows(&access);
}

/* ---- does it pay? ---- */

/* Of a range: what it is a part of. */
static int64_t most_along(Type type, int axis)
{
    const DimVar *range = poly_as_range(type->dims[axis]);
    return poly_most(range ? range->whole : type->dims[axis]);
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Times that loops around the op walk an axis element by element. */
static int64_t rounds(const Op *op)
{
    int64_t n = 1;
    for (const Op *up = op->parent->parent; up; up = up->parent->parent) {
        const Attr *dims = op_attr(up, ATTR_DIMS);
        for (int i = 0; dims && i < dims->n && i < up->regions[0]->n_args; i++) {
            bool range = up->regions[0]->args[i]->type->kind == TYPE_RANGE;
            n = range ? n : times(n, poly_most(dims->dims[i]));
        }
    }
    return n;
}

static int64_t most_elements(Type type)
{
    int64_t n = 1;
    for (int i = 0; i < type->rank; i++) {
        n = times(n, most_along(type, i));
    }
    return n;
}

static void weigh(const Op *dot, Operand *operand)
{
    Type a = dot->operands[0]->type;
    int64_t elements = most_elements(operand->load->operands[0]->type);
    int64_t work = times(most_elements(dot->results[0]->type), most_along(a, a->rank - 1));
    work = times(work, rounds(dot));
    operand->known = work < INT64_MAX && elements < INT64_MAX;
    operand->pays = operand->known && work >= LEAST_WORK && work / LEAST_USES >= elements;
}

static void find_operands(Op *op, void *user)
{
    Pitcher *p = user;
    for (int side = 0; op->kind == OP_DOT && side < 2; side++) {
        Operand operand = {.load = operand_load(op->operands[side])};
        if (operand.load && lies_badly(p->func, operand.load)) {
            weigh(op, &operand);
            ARENA_PUSH(p->func->arena, &p->operands, operand);
        }
    }
}

/* ---- copies ---- */

static Value *pitched_copy(Func *func, const Value *tensor)
{
    static Value *const WHOLE[MAX_RANK];
    Builder b =
        func->body->first ? build_before(func, func->body->first) : build_at_end(func, func->body);
    Value *all = build_load(&b, (Value *)tensor, WHOLE);
    int64_t multiple = ROW_BYTES / dtype_bytes(tensor->type->dtype);
    Value *scratch = func_pitched_scratch(func, all->type, multiple);
    build_store(&b, scratch, WHOLE, all);
    return scratch;
}

/* One copy serves all products that read the tensor. */
static void move_reads(Pitcher *p, const Value *tensor)
{
    Value *copy = pitched_copy(p->func, tensor);
    for (size_t i = 0; i < p->operands.n; i++) {
        Op *load = p->operands.items[i].load;
        if (load->operands[0] == tensor) {
            load->operands[0] = copy;
        }
    }
}

static const char *reason(const Pitcher *p, bool pays)
{
    bool known = false;
    for (size_t i = 0; i < p->operands.n; i++) {
        known |= p->operands.items[i].known;
    }
    return pays ? "rows are no multiple of 16 bytes: a copy of which they are lets the copy engine "
                  "bring tiles"
           : known
               ? "a copy with rows of 16 bytes would take longer than tiles through registers do"
               : "rows may be multiples of 16 bytes: what is not known does not ask for a copy";
}

void pass_opt_pitch(Func *func)
{
    Pitcher p = {.func = func};
    if (!func->target || !func->target->bulk_copy || !unit_first(func->target, "wgmma")) {
        return;
    }
    func_walk(func, find_operands, &p);
    bool pays = false;
    for (size_t i = 0; i < p.operands.n; i++) {
        pays |= p.operands.items[i].pays;
    }
    if (p.operands.n == 0) {
        return;
    }
    bool given = schedule_given(func, "pitch", "") != NULL;
    const char *on = schedule_word(func, "pitch", "", pays ? "on" : "off", "%s", reason(&p, pays));
    for (size_t i = 0; text_same(on, "on") && i < p.operands.n; i++) {
        const Operand *operand = &p.operands.items[i];
        const Value *tensor = operand->load->operands[0];
        if ((given || operand->pays) && func->params.items[tensor->index].io == PARAM_IN) {
            move_reads(&p, tensor);
        }
    }
}
