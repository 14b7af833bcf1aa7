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

enum {
    MAX_IN_FLIGHT = 4, /* dots, or arrives, of an iteration */
    MIN_STAGES = 3     /* of a ring buffer: one is held back, one is read, one is filled */
};

typedef struct InFlightLoop {
    Func *func;
    Op *loop;
    Block *body;
    Op *dot_wait;       /* the only one of the body */
    Op *ordered_arrive; /* behind the loop: passes on the ordered MMA issue; NULL: there is none */
    Op *arrives[MAX_IN_FLIGHT];
    int dots, n_arrives;
} InFlightLoop;

/* ---- the shape of the loop ---- */

static int carried_index(const InFlightLoop *f, const Value *value)
{
    bool carried = value && value->block == f->body && value->index > 0;
    return carried ? (int)value->index - 1 : -1;
}

/* True if the dot continues from its result in the previous iteration, which nothing else reads. */
static bool continues(const InFlightLoop *f, const Op *dot)
{
    const Value *accumulator = dot_accumulator(dot);
    int carried = carried_index(f, accumulator);
    for (int i = 0; carried >= 0 && i < f->dot_wait->n_operands; i++) {
        if (f->dot_wait->operands[i] == dot->results[0]) {
            const Value *waited = f->dot_wait->results[i];
            return f->body->last->operands[carried] == waited &&
                   value_count_uses(f->func, waited) == 1 &&
                   value_count_uses(f->func, dot->results[0]) == 1 &&
                   value_count_uses(f->func, accumulator) == 1;
        }
    }
    return false;
}

/* Notes an arrive that releases a pipeline stage, if its ring index grows by one per iteration. */
static bool note_arrive(InFlightLoop *f, Op *op)
{
    const Value *index = op->operands[1];
    int carried = carried_index(f, index);
    const Op *next = carried >= 0 ? f->body->last->operands[carried]->def : NULL;
    bool counts = next && next->kind == OP_ADD && next->operands[0] == index &&
                  value_is_const(next->operands[1], 1);
    int64_t stages = poly_capacity(op->operands[0]->type->dims[0]);
    if (f->n_arrives == MAX_IN_FLIGHT || !counts || stages < MIN_STAGES) {
        return false;
    }
    f->arrives[f->n_arrives++] = op;
    return true;
}

/* mbarrier waits and dots, then the wait for all dots, then arrives; scalars anywhere. */
static bool note_op(InFlightLoop *f, Op *op)
{
    switch (op->kind) {
    case OP_WAIT: return !f->dot_wait;
    case OP_DOT_ASYNC:
        return !f->dot_wait && ++f->dots <= MAX_IN_FLIGHT &&
               !mma_a_in_registers(f->func->target, op);
    case OP_DOT_WAIT:
        if (f->dot_wait || op_int(op, ATTR_PENDING, 0) || op->n_operands != f->dots) {
            return false;
        }
        f->dot_wait = op;
        return true;
    case OP_ARRIVE: return f->dot_wait && note_arrive(f, op);
    case OP_YIELD: return true;
    default:
        return op_has(op, TRAIT_PURE) && !op->n_regions && op->n_results == 1 &&
               type_is_scalar(op->results[0]->type);
    }
}

static bool has_shape(InFlightLoop *f)
{
    for (Op *op = f->body->first; op; op = op->next) {
        if (!note_op(f, op)) {
            return false;
        }
    }
    if (!f->dot_wait || !f->n_arrives || op_attr(f->loop, ATTR_STEPS)->ints[0] <= 0 ||
        op_int(f->loop, ATTR_DESCENDING, 0) || op_int(f->loop, ATTR_SINGLE_TRIP, 0)) {
        return false;
    }
    for (const Op *op = f->body->first; op; op = op->next) {
        if (op->kind == OP_DOT_ASYNC && !continues(f, op)) {
            return false;
        }
    }
    return true;
}

/* Derived: on if a single warp group computes. */
static bool is_wanted(const InFlightLoop *f)
{
    const Op *roles = op_enclosing(f->loop, OP_ROLES);
    const Attr *warps = roles ? op_attr(roles, ATTR_WARPS) : NULL;
    const Attr *teams = roles ? op_attr(roles, ATTR_TEAMS) : NULL;
    int consumer = warps ? warps->n - 1 : 0;
    bool derived = warps && warps->ints[consumer] / (teams ? teams->ints[consumer] : 1) <=
                                f->func->target->group_warps;
    if (!derived && !schedule_user_entry(f->func, "overlap", "")) {
        return false;
    }
    return schedule_decide_on(
        f->func, "overlap", derived, "%s",
        derived ? "one warp group multiplies: its products follow one another without a gap"
                : "several warp groups multiply: one's products run while another's are issued");
}

/* ---- the new loop ---- */

/* Releases the pipeline stages that this iteration, or the one before it, has read. */
static void build_arrives(const InFlightLoop *f, Builder *b, bool of_previous)
{
    for (int i = 0; i < f->n_arrives; i++) {
        Value *index = f->arrives[i]->operands[1];
        Value *operands[] = {f->arrives[i]->operands[0],
                             of_previous ? build_previous(b, index) : index};
        build_op(b, OP_ARRIVE, 2, operands, 0, NULL, 0);
    }
}

static void build_dot_wait(const InFlightLoop *f, Builder *b, int n, Value **values)
{
    Type types[MAX_IN_FLIGHT] = {NULL};
    for (int i = 0; i < n; i++) {
        types[i] = values[i]->type;
    }
    Op *wait = build_op(b, OP_DOT_WAIT, n, values, n, types, 0);
    op_set_int(f->func, wait, ATTR_PENDING, 0);
    for (int i = 0; i < n; i++) {
        func_replace_uses(f->func, values[i], wait->results[i]);
        op_set_operand(wait, i, values[i]);
        wait->results[i]->name = values[i]->name;
    }
}

/* An `if` without an else branch; the caller fills its region. */
static Builder build_when(const InFlightLoop *f, Builder *b, Value *condition)
{
    Op *branch = build_if(b, condition, 0, NULL);
    Builder no = build_at_end(f->func, branch->regions[1]);
    build_yield(&no, 0, NULL);
    return build_at_end(f->func, branch->regions[0]);
}

/* Replaces the arrives of the body: each iteration releases what the one before it has read; the
 * last one (`end`: of the loop) also waits for its own dots and releases what they have read. */
static void postpone_arrives(const InFlightLoop *f, Value *end)
{
    Builder b = build_before(f->func, f->arrives[0]);
    int64_t step = op_attr(f->loop, ATTR_STEPS)->ints[0];
    Value *start = build_range_fact(&b, OP_START, f->body->args[0]);
    Value *next = build_binary(&b, OP_ADD, start, build_i64(&b, step));
    Builder later = build_when(f, &b, build_cmp(&b, "lt", for_lo(f->loop), start));
    build_arrives(f, &later, true);
    build_yield(&later, 0, NULL);
    Builder last = build_when(f, &b, build_cmp(&b, "le", end, next));
    if (f->ordered_arrive) {
        build_op(&last, OP_ORDERED_ARRIVE, 0, NULL, 0, NULL, 0);
    }
    build_dot_wait(f, &last, 0, NULL);
    build_arrives(f, &last, false);
    build_yield(&last, 0, NULL);
    for (int i = 0; i < f->n_arrives; i++) {
        op_remove(f->arrives[i]);
    }
}

static void try_loop(Op *op, void *user)
{
    InFlightLoop f = {.func = user, .loop = op, .body = op->regions[0]};
    if (op->kind != OP_FOR || !has_shape(&f) || !is_wanted(&f)) {
        return;
    }
    f.ordered_arrive = op->next && op->next->kind == OP_ORDERED_ARRIVE ? op->next : NULL;
    op_set_int(f.func, f.dot_wait, ATTR_PENDING, f.dots);

    /* A loop without iterations passes on the ordered MMA issue before it, because an assembler
     * that sees a branch between dots and their wait makes each dot end before the next. */
    Builder before = build_before(f.func, op);
    Value *end = build_binary(&before, OP_MIN, for_hi(op),
                              build_size(&before, op_attr(op, ATTR_DIMS)->dims[0]));
    if (f.ordered_arrive) {
        Builder when = build_when(&f, &before, build_cmp(&before, "le", end, for_lo(op)));
        build_op(&when, OP_ORDERED_ARRIVE, 0, NULL, 0, NULL, 0);
        build_yield(&when, 0, NULL);
        op_remove(f.ordered_arrive);
    }

    /* The accumulators are in flight when the loop ends. */
    Builder after = build_after(f.func, op);
    Value *values[MAX_IN_FLIGHT];
    for (int i = 0; i < f.dots; i++) {
        const Op *dot = f.dot_wait->operands[i]->def;
        values[i] = op->results[carried_index(&f, dot_accumulator(dot))];
    }
    build_dot_wait(&f, &after, f.dots, values);
    postpone_arrives(&f, end);
}

void pass_cross_iteration_dots(Func *func)
{
    func_walk(func, try_loop, func);
}
