/* SPDX-License-Identifier: Apache-2.0 */
/* across: a step's last product stays in flight under the next step's first ones.
 *
 *   for %t, %c, %p:                      %e, %q = for %t, %c, %p:
 *     wait %full[%p]                       wait %full[%p]
 *     %s = dot_async %k, %q[%p]            %s = dot_async %k, %q[%p]
 *     %d = dot_async %v, %g[%p]            %d = dot_async %v, %g[%p]
 *     settle %s, %d pending=1              %b = settle %c, %s, %d pending=1
 *     …                                    if (there is a step before) { arrive %empty[%p - 1] }
 *     %o = dot_async %x, %q[%p], %c        …
 *     %f = settle %o               →       %o = dot_async %x, %q[%p], %b
 *     arrive %empty[%p]                    yield %o, %p + 1
 *     yield %f, %p + 1                   %f = settle %e
 *                                        if (there was a step) { arrive %empty[%q - 1] }
 *
 * The first products of a step need nothing of the step before, so they queue behind its last one,
 * and the matrix unit goes on while threads turn to the next step: `late` does so within a step.
 * Only the last one stays in flight: what it and the first ones hold is what registers have room
 * for, and those before it are done by the time it begins. The slots that it reads are handed back
 * that much later: of two, the copies of the step after the next have the rest of a step to come
 * in. Requires: late. Changes no bits. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/unit.h"
#include "passes/pass.h"

enum {
    MOST_ARRIVES = 8,
    LEAST_SLOTS = 2,
    SPARE_REGISTERS = 16, /* of a thread, for addresses: with 8 an assembler lets no product fly */
};

typedef struct Across {
    Func *func;
    Op *loop;
    Block *body;
    Op *first, *last;          /* settles */
    int before;                /* products that are issued before the first one */
    Op *dot;                   /* the last product */
    int carried;               /* which carried value it becomes */
    Op *arrives[MOST_ARRIVES]; /* behind `last`, of slots that it reads */
    int n_arrives;
} Across;

/* ---- the shape ---- */

static int carried_index(const Across *a, const Value *value)
{
    bool carried = value && value->block == a->body && value->index > 0;
    return carried ? (int)value->index - 1 : -1;
}

/* A ring's position that goes up by one with each step. */
static bool counts_steps(const Across *a, const Value *position)
{
    int carried = carried_index(a, position);
    const Op *next = carried >= 0 ? a->body->last->operands[carried]->def : NULL;
    const Op *one = next && next->kind == OP_ADD ? next->operands[1]->def : NULL;
    return one && next->operands[0] == position && one->kind == OP_CONST &&
           op_attr(one, ATTR_VALUE)->i == 1;
}

/* Does the last product read the slot? */
static bool is_read(const Across *a, const Op *arrive)
{
    bool found = false;
    for (int side = 0; side < 2; side++) {
        Access access = op_access_nth(a->dot, side);
        for (int i = 0; i < access.n; i++) {
            found = found || access.indices[i] == arrive->operands[1];
        }
    }
    return found;
}

static bool takes_arrive(Across *a, Op *op)
{
    if (!is_read(a, op)) {
        return true; /* that product is done */
    }
    int64_t slots = poly_capacity(op->operands[0]->type->dims[0]);
    if (a->n_arrives == MOST_ARRIVES || slots < LEAST_SLOTS || !counts_steps(a, op->operands[1])) {
        return false;
    }
    a->arrives[a->n_arrives++] = op;
    return true;
}

static bool makes_scalar(const Op *op)
{
    return op_has(op, TRAIT_PURE) && op->n_results == 1 && type_is_scalar(op->results[0]->type);
}

/* Products in flight may not be met by what moves tiles between registers and shared memory, nor
 * by branches; nor may the unit read, from registers, what threads read there for it. */
static bool takes_op(const Across *a, const Op *op)
{
    switch (op->kind) {
    case OP_SYNC:
    case OP_FENCE_ASYNC:
    case OP_SHARED_STORE:
    case OP_BULK_STORE:
    case OP_BULK_WAIT:
    case OP_TAKE_TURN:
    case OP_PASS_TURN: return false;
    case OP_DOT_ASYNC: return !unit_left_is_read(a->func->target, op);
    default: return op->n_regions == 0;
    }
}

static bool find_settles(Across *a)
{
    for (Op *op = a->body->first; op; op = op->next) {
        if (!takes_op(a, op)) {
            return false;
        }
        if (op->kind == OP_SETTLE) {
            a->first = a->first ? a->first : op;
            a->last = op;
        }
        a->before += op->kind == OP_DOT_ASYNC && !a->first;
    }
    a->dot = a->last ? a->last->operands[a->last->n_operands - 1]->def : NULL;
    return a->last != a->first && op_int(a->last, ATTR_PENDING, 0) == 0 && a->dot &&
           a->dot->kind == OP_DOT_ASYNC && a->dot->parent == a->body &&
           op_int(a->first, ATTR_PENDING, 0) < a->before;
}

static bool ends_behind(Across *a)
{
    for (Op *op = a->last->next; op != a->body->last; op = op->next) {
        if (op->kind == OP_ARRIVE ? !takes_arrive(a, op) : !makes_scalar(op)) {
            return false;
        }
    }
    return true;
}

/* Its result is only handed to the next step, which does not look at it before its own first
 * products. */
static bool goes_on(Across *a)
{
    const Op *yield = a->body->last;
    const Value *settled = a->last->results[a->last->n_results - 1];
    a->carried = -1;
    for (int i = 0; i < yield->n_operands; i++) {
        a->carried = yield->operands[i] == settled ? i : a->carried;
    }
    if (a->carried < 0 || value_count_uses(a->func, settled) != 1 ||
        value_count_uses(a->func, a->dot->results[0]) != 1) {
        return false;
    }
    const Value *arg = a->body->args[1 + a->carried];
    for (const Op *op = a->body->first; op != a->first->next; op = op->next) {
        if (op_reads(op, arg)) {
            return false;
        }
    }
    return true;
}

static bool has_shape(Across *a)
{
    return op_attr(a->loop, ATTR_STEPS)->ints[0] > 0 && !op_int(a->loop, ATTR_DESCENDING, 0) &&
           !op_int(a->loop, ATTR_ONCE, 0) && find_settles(a) && ends_behind(a) && goes_on(a);
}

/* ---- registers ---- */

static int64_t bytes_of(const Value *value)
{
    int64_t n = dtype_bytes(value->type->dtype);
    for (int i = 0; i < value->type->rank; i++) {
        n *= poly_capacity(value->type->dims[i]);
    }
    return n;
}

/* Sums that the loop carries, what the last product reads from registers, and what the first ones
 * come to: all of it is held at once. */
static bool has_room(const Across *a)
{
    const Op *roles = op_enclosing(a->loop, OP_ROLES);
    const Attr *warps = roles ? op_attr(roles, ATTR_WARPS) : NULL;
    const Attr *registers = roles ? op_attr(roles, ATTR_REGISTERS) : NULL;
    if (!warps || !registers) {
        return false;
    }
    int64_t held = 0;
    for (int i = 1; i < a->body->n_args; i++) {
        const Value *arg = a->body->args[i];
        held += arg->type->kind == TYPE_ARRAY && arg->type->rank > 1 ? bytes_of(arg) : 0;
    }
    const Value *left = op_access_nth(a->dot, 0).memory;
    held += type_is_memory(left->type) ? 0 : bytes_of(left);
    for (const Op *op = a->body->first; op != a->first; op = op->next) {
        held += op->kind == OP_DOT_ASYNC ? bytes_of(op->results[0]) : 0;
    }
    const Attr *teams = op_attr(roles, ATTR_TEAMS);
    int last = warps->n - 1; /* the consumer */
    int64_t threads = warps->ints[last] * a->func->target->warp / (teams ? teams->ints[last] : 1);
    return held / 4 / threads <= registers->ints[last] - SPARE_REGISTERS;
}

/* On an H200, of attention's gradients: three groups gain 9 % in a walk of four products, two lose 4
 * to 5 % with 128 elements a head, and nothing with 64: where it is asked for. */
static bool is_wanted(const Across *a)
{
    return text_same(schedule_word(a->func, "overlap", "", "step",
                                   "products run under their own step's work; between steps warp "
                                   "groups cover for each other"),
                     "on");
}

/* ---- the loop ---- */

/* Slots that were read by the step before `positions`: arguments of the body, or what the loop
 * comes to. */
static void hand_back(const Across *a, Builder *b, Value *condition, bool inside)
{
    Op *branch = build_if(b, condition, 0, NULL);
    Builder yes = build_at_end(a->func, branch->regions[0]),
            no = build_at_end(a->func, branch->regions[1]);
    for (int i = 0; i < a->n_arrives; i++) {
        Value *arg = a->arrives[i]->operands[1];
        Value *position = inside ? arg : a->loop->results[carried_index(a, arg)];
        Value *operands[] = {
            a->arrives[i]->operands[0],
            build_binary(&yes, OP_SUB, position, build_int(&yes, position->type, 1))};
        build_op(&yes, OP_ARRIVE, 2, operands, 0, NULL, 0);
    }
    build_yield(&yes, 0, NULL);
    build_yield(&no, 0, NULL);
}

/* Replaces `values` by what they are once settled. */
static void settle_values(const Across *a, Builder *b, int n, Value **values, int64_t pending)
{
    Type *types = ARENA_ARRAY(a->func->arena, Type, n);
    for (int i = 0; i < n; i++) {
        types[i] = values[i]->type;
    }
    Op *settle = build_op(b, OP_SETTLE, n, values, n, types, 0);
    op_set_int(a->func, settle, ATTR_PENDING, pending);
    for (int i = 0; i < n; i++) {
        func_replace_uses(a->func, values[i], settle->results[i]);
        settle->operands[i] = values[i];
        settle->results[i]->name = values[i]->name;
    }
}

/* The first settle of a step settles what is in flight from the one before, too. */
static void settle_inside(Across *a)
{
    Op *first = a->first;
    int n = first->n_operands;
    Value **values = ARENA_ARRAY(a->func->arena, Value *, 1 + n);
    values[0] = a->body->args[1 + a->carried];
    for (int i = 0; i < n; i++) {
        values[1 + i] = first->operands[i];
        func_replace_uses(a->func, first->results[i], first->operands[i]);
    }
    Builder b = build_before(a->func, first);
    settle_values(a, &b, 1 + n, values, op_int(first, ATTR_PENDING, 0));
    if (a->n_arrives > 0) {
        Value *start = build_range_fact(&b, OP_START, a->body->args[0]);
        hand_back(a, &b, build_cmp(&b, "lt", for_lo(a->loop), start), true);
    }
    op_remove(first);
}

static void settle_behind(const Across *a)
{
    Builder b = build_after(a->func, a->loop);
    settle_values(a, &b, 1, &a->loop->results[a->carried], 0);
    if (a->n_arrives > 0) {
        Value *size = build_size(&b, op_attr(a->loop, ATTR_DIMS)->dims[0]);
        Value *end = build_binary(&b, OP_MIN, for_hi(a->loop), size);
        hand_back(a, &b, build_cmp(&b, "lt", for_lo(a->loop), end), false);
    }
}

static void try_loop(Op *op, void *user)
{
    Across a = {.func = user, .loop = op, .body = op->n_regions ? op->regions[0] : NULL};
    if (op->kind != OP_FOR || !has_shape(&a) || !has_room(&a) || !is_wanted(&a)) {
        return;
    }
    if (a.last->n_operands > 1) {
        op_set_int(a.func, a.last, ATTR_PENDING, 1);
    } else {
        a.body->last->operands[a.carried] = a.dot->results[0];
        op_remove(a.last);
    }
    settle_inside(&a);
    settle_behind(&a);
    for (int i = 0; i < a.n_arrives; i++) {
        op_remove(a.arrives[i]);
    }
}

void pass_opt_across(Func *func)
{
    func_walk(func, try_loop, func);
    func_remove_dead(func);
}
