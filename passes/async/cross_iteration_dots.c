/* SPDX-License-Identifier: Apache-2.0 */
/* cross_iteration_dots: keeps the dots of an iteration in flight while the next iteration issues
 * its own.
 *
 *   for %k, %c, %p:                      %e, %q = for %k, %c, %p:
 *     wait %full[%p]                       wait %full[%p]
 *     %d = dot_async …, %c                 %d = dot_async …, %c
 *     %e = dot_wait %d                       %f = dot_wait %d pending=1
 *     arrive %empty[%p]            →       if (there is a step before) { arrive %empty[%p - 1] }
 *     yield %e, %p + 1                     if (it is the last one) { dot_wait; arrive %empty[%p] }
 *                                          yield %f, %p + 1
 *                                        %g = dot_wait %e
 *
 * A single warp group that waits for each dot leaves the matrix unit idle from the end of a dot to
 * the issue of the next one; several warp groups cover for each other. A dot that stays in flight
 * occupies its pipeline stage for longer, so ring buffers of fewer than three stages are left
 * alone. The last iteration releases its pipeline stage (and passes on the ordered MMA issue)
 * inside the loop: behind the loop, the assembler would place work on the result before the
 * release. Dots with a register A operand (tf32) are left alone, because the loads of the next
 * iteration would overwrite registers that are still being read. Requires: stage. Changes no bits.
 */
#include "ir/build.h"
#include "ir/layout/matrix_instr.h"
#include "ir/schedule.h"
#include "passes/pass.h"

enum { MAX_FLIGHTS = 4, MIN_SLOTS = 3 };

typedef struct Flight {
    Func *func;
    Op *loop;
    Block *body;
    Op *settle;
    Op *turn; /* that is passed behind the loop, or NULL */
    Op *arrives[MAX_FLIGHTS];
    int dots, n_arrives;
} Flight;

/* ---- the shape ---- */

static int carried_index(const Flight *f, const Value *value)
{
    bool carried = value && value->block == f->body && value->index > 0;
    return carried ? (int)value->index - 1 : -1;
}

/* It goes on from what the step before it came to, and is only handed to the next one. */
static bool goes_on(const Flight *f, const Op *dot)
{
    int at = access_next(dot, access_next(dot, 0));
    int carried = at < dot->n_operands ? carried_index(f, dot->operands[at]) : -1;
    for (int i = 0; carried >= 0 && i < f->settle->n_operands; i++) {
        if (f->settle->operands[i] == dot->results[0]) {
            const Value *settled = f->settle->results[i];
            return f->body->last->operands[carried] == settled &&
                   value_count_uses(f->func, settled) == 1 &&
                   value_count_uses(f->func, dot->results[0]) == 1 &&
                   value_count_uses(f->func, dot->operands[at]) == 1;
        }
    }
    return false;
}

/* A ring's position that goes up by one with each step. */
static bool counts_steps(const Flight *f, const Value *position)
{
    int carried = carried_index(f, position);
    const Op *next = carried >= 0 ? f->body->last->operands[carried]->def : NULL;
    return next && next->kind == OP_ADD && next->operands[0] == position &&
           value_is_const(next->operands[1], 1);
}

static bool takes_arrive(Flight *f, Op *op)
{
    int64_t slots = poly_capacity(op->operands[0]->type->dims[0]);
    if (f->n_arrives == MAX_FLIGHTS || !counts_steps(f, op->operands[1]) || slots < MIN_SLOTS) {
        return false;
    }
    f->arrives[f->n_arrives++] = op;
    return true;
}

static bool takes_op(Flight *f, Op *op)
{
    switch (op->kind) {
    case OP_WAIT: return !f->settle;
    case OP_DOT_ASYNC:
        return !f->settle && ++f->dots <= MAX_FLIGHTS && !mma_a_in_registers(f->func->target, op);
    case OP_DOT_WAIT:
        if (f->settle || op_int(op, ATTR_PENDING, 0) || op->n_operands != f->dots) {
            return false;
        }
        f->settle = op;
        return true;
    case OP_ARRIVE: return f->settle && takes_arrive(f, op);
    case OP_YIELD: return true;
    default:
        return op_has(op, TRAIT_PURE) && !op->n_regions && op->n_results == 1 &&
               type_is_scalar(op->results[0]->type);
    }
}

static bool has_shape(Flight *f)
{
    for (Op *op = f->body->first; op; op = op->next) {
        if (!takes_op(f, op)) {
            return false;
        }
    }
    if (!f->settle || !f->n_arrives || op_attr(f->loop, ATTR_STEPS)->ints[0] <= 0 ||
        op_int(f->loop, ATTR_DESCENDING, 0) || op_int(f->loop, ATTR_SINGLE_TRIP, 0)) {
        return false;
    }
    for (const Op *op = f->body->first; op; op = op->next) {
        if (op->kind == OP_DOT_ASYNC && !goes_on(f, op)) {
            return false;
        }
    }
    return true;
}

/* ---- who multiplies ---- */

static bool alone(const Func *func, const Op *loop)
{
    const Op *roles = op_enclosing(loop, OP_ROLES);
    const Attr *warps = roles ? op_attr(roles, ATTR_WARPS) : NULL;
    const Attr *teams = roles ? op_attr(roles, ATTR_TEAMS) : NULL;
    int last = warps ? warps->n - 1 : 0; /* the consumer */
    return warps &&
           warps->ints[last] / (teams ? teams->ints[last] : 1) <= func->target->group_warps;
}

static bool is_wanted(const Flight *f)
{
    bool derived = alone(f->func, f->loop);
    if (!derived && !schedule_user_entry(f->func, "overlap", "")) {
        return false;
    }
    const char *on = schedule_decide_symbol(
        f->func, "overlap", "", derived ? "on" : "off", "%s",
        derived ? "one warp group multiplies: its products follow one another without a gap"
                : "several warp groups multiply: one's products run while another's are issued");
    return text_equal(on, "on");
}

/* ---- the loop ---- */

/* Slots that have been read: of this step, or of the one before. */
static void hand_back(const Flight *f, Builder *b, bool before)
{
    for (int i = 0; i < f->n_arrives; i++) {
        Value *position = f->arrives[i]->operands[1];
        Value *operands[] = {f->arrives[i]->operands[0],
                             before ? build_previous(b, position) : position};
        build_op(b, OP_ARRIVE, 2, operands, 0, NULL, 0);
    }
}

static void build_settle(const Flight *f, Builder *b, int n, Value **values)
{
    Type types[MAX_FLIGHTS] = {NULL};
    for (int i = 0; i < n; i++) {
        types[i] = values[i]->type;
    }
    Op *settle = build_op(b, OP_DOT_WAIT, n, values, n, types, 0);
    op_set_int(f->func, settle, ATTR_PENDING, 0);
    for (int i = 0; i < n; i++) {
        func_replace_uses(f->func, values[i], settle->results[i]);
        op_set_operand(settle, i, values[i]);
        settle->results[i]->name = values[i]->name;
    }
}

/* An `if` without else, to be filled. */
static Builder build_when(const Flight *f, Builder *b, Value *condition)
{
    Op *branch = build_if(b, condition, 0, NULL);
    Builder no = build_at_end(f->func, branch->regions[1]);
    build_yield(&no, 0, NULL);
    return build_at_end(f->func, branch->regions[0]);
}

/* Before the loop: where it ends, which is the axis' end at the latest. */
static Value *end_of(const Flight *f)
{
    Builder b = build_before(f->func, f->loop);
    return build_binary(&b, OP_MIN, for_hi(f->loop),
                        build_size(&b, op_attr(f->loop, ATTR_DIMS)->dims[0]));
}

static void arrive_inside(const Flight *f, Value *end)
{
    Builder b = build_before(f->func, f->arrives[0]);
    int64_t step = op_attr(f->loop, ATTR_STEPS)->ints[0];
    Value *start = build_range_fact(&b, OP_START, f->body->args[0]);
    Value *next = build_binary(&b, OP_ADD, start, build_i64(&b, step));
    Builder later = build_when(f, &b, build_cmp(&b, "lt", for_lo(f->loop), start));
    hand_back(f, &later, true);
    build_yield(&later, 0, NULL);
    Builder last = build_when(f, &b, build_cmp(&b, "le", end, next));
    if (f->turn) {
        build_op(&last, OP_ORDERED_ARRIVE, 0, NULL, 0, NULL, 0);
    }
    build_settle(f, &last, 0, NULL);
    hand_back(f, &last, false);
    build_yield(&last, 0, NULL);
}

/* A loop of no steps passes its turn, too: before it, because an assembler that sees a branch
 * between the products and their settling lets each of them end before the next. */
static void pass_before(const Flight *f, Value *end)
{
    Builder b = build_before(f->func, f->loop);
    Value *none = build_cmp(&b, "le", end, for_lo(f->loop));
    Builder when = build_when(f, &b, none);
    build_op(&when, OP_ORDERED_ARRIVE, 0, NULL, 0, NULL, 0);
    build_yield(&when, 0, NULL);
    op_remove(f->turn);
}

static void settle_behind(const Flight *f)
{
    Builder b = build_after(f->func, f->loop);
    Value *values[MAX_FLIGHTS];
    for (int i = 0; i < f->dots; i++) {
        const Op *dot = f->settle->operands[i]->def;
        int at = access_next(dot, access_next(dot, 0));
        values[i] = f->loop->results[carried_index(f, dot->operands[at])];
    }
    build_settle(f, &b, f->dots, values);
}

static void try_loop(Op *op, void *user)
{
    Flight f = {.func = user, .loop = op, .body = op->regions[0]};
    if (op->kind != OP_FOR || !has_shape(&f) || !is_wanted(&f)) {
        return;
    }
    f.turn = op->next && op->next->kind == OP_ORDERED_ARRIVE ? op->next : NULL;
    op_set_int(f.func, f.settle, ATTR_PENDING, f.dots);
    Value *end = end_of(&f);
    if (f.turn) {
        pass_before(&f, end);
    }
    settle_behind(&f);
    arrive_inside(&f, end);
    for (int i = 0; i < f.n_arrives; i++) {
        op_remove(f.arrives[i]);
    }
}

void pass_cross_iteration_dots(Func *func)
{
    func_walk(func, try_loop, func);
}
