/* SPDX-License-Identifier: Apache-2.0 */
/* Loops whose elements end separately. The loop-carried values are in the frame; after each
 * condition fewer elements are active, and only those take the values of the body. Samples are
 * executions of their own, which end by their own conditions. */
#include "ir/interp/interp_internal.h"

#include <string.h>

static Frame *top(const InterpRun *run)
{
    return &run->agent->frames.items[run->agent->frames.n - 1];
}

/* Nothing but arithmetic on scalars, in one line: samples may go their own ways through it. */
static bool is_arithmetic(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->n_regions) {
            return false;
        }
    }
    return block_is_scalar(block);
}

static bool is_lanes(const Op *op)
{
    const Op *condition = op->regions[0]->last;
    for (int i = 0; i < op->n_operands && condition->operands[0]->type->rank == 0; i++) {
        if (op->operands[i]->type->rank > 0) {
            return false;
        }
    }
    return condition->operands[0]->type->rank > 0 ||
           (op->n_operands > 0 && is_arithmetic(op->regions[0]) && is_arithmetic(op->regions[1]));
}

const Array *while_active(const InterpRun *run)
{
    for (size_t i = run->agent->frames.n; i-- > 0;) {
        const Frame *frame = &run->agent->frames.items[i];
        if (frame->active) {
            return frame->active;
        }
    }
    return NULL;
}

static void begin_region(InterpRun *run, Frame *frame, int region)
{
    frame->block = frame->op->regions[region];
    frame->at = frame->block->first;
    for (int i = 0; i < frame->block->n_args; i++) {
        run->cells[frame->block->args[i]->id].array = array_keep(frame->carried[i]);
    }
}

void while_begin(InterpRun *run, const Op *op)
{
    Array **carried = taken(run, op, 0, op->n_operands);
    const Array *outer = while_active(run);
    Frame frame = {.op = op, .carried = carried, .lanes = is_lanes(op)};
    if (frame.lanes && outer && outer->n == carried[0]->n) {
        frame.active = array_keep((Array *)(uintptr_t)outer);
    }
    ARENA_PUSH(run->arena, &run->agent->frames, frame);
    begin_region(run, top(run), 0);
}

/* Elements that are done may have conditions that mean nothing. */
static void check_condition(InterpRun *run, const Op *yield, const Array *active, Array *condition)
{
    for (int64_t i = 0; condition->poison && i < condition->n; i++) {
        bool goes_on = !active || active->data->bytes[i];
        if (condition->poison->bytes[i] && goes_on) {
            run_fail(run, yield, "whether a loop continues depends on padding or unset memory");
        }
        condition->poison->bytes[i] = 0;
    }
}

/* Of the base plane; with `samples`, of any. */
static bool any(const Array *active, bool samples)
{
    for (int s = -1; s < (samples && active->samples ? SAMPLES : 0); s++) {
        if (memchr(array_plane(active, s), 1, (size_t)active->n)) {
            return true;
        }
    }
    return false;
}

/* The base has ended at round `next`; its samples have as many again to end. */
static bool goes_on(InterpRun *run, Frame *frame, const Op *yield)
{
    bool base = any(frame->active, false);
    if (++frame->next > MAX_ROUNDS) {
        run_fail(run, yield, "a loop does not end after %d rounds", MAX_ROUNDS);
    }
    frame->count = base ? frame->next : frame->count;
    return base || (frame->next < 2 * frame->count + 16 && any(frame->active, true));
}

static bool decide(InterpRun *run, Frame *frame, const Op *yield)
{
    Array *condition = array_keep(run_operand(run, yield, 0));
    drop_block(run, frame->block);
    if (!frame->lanes) {
        bool holds = array_scalar(condition, 0).i != 0;
        check_condition(run, yield, NULL, condition);
        array_drop(run, condition);
        if (++frame->next > MAX_ROUNDS) {
            run_fail(run, yield, "a loop does not end after %d rounds", MAX_ROUNDS);
        }
        return holds;
    }
    Array *active = interp_apply(run, OP_TO_STATIC, NULL, DT_BOOL, 1, &condition);
    check_condition(run, yield, frame->active, active);
    array_drop(run, condition);
    if (frame->active) {
        Array *both[] = {frame->active, active};
        Array *joined = interp_apply(run, OP_AND, NULL, DT_BOOL, 2, both);
        array_drop(run, active);
        array_drop(run, frame->active);
        active = joined;
    }
    frame->active = active;
    return goes_on(run, frame, yield);
}

void while_end(InterpRun *run, const Op *yield)
{
    Frame *frame = top(run);
    if (frame->block == frame->op->regions[1]) {
        /* Lanes whose condition is false keep their carried values. */
        for (int i = 0; i < frame->op->n_results; i++) {
            Array *next = run_unsettled(run, yield, i);
            if (frame->active) {
                Array *choice[] = {frame->active, next, frame->carried[i]};
                next = interp_apply(run, OP_SELECT, NULL, next->dtype, 3, choice);
            } else {
                next = array_keep(next);
            }
            array_drop(run, frame->carried[i]);
            frame->carried[i] = next;
        }
        drop_block(run, frame->block);
        begin_region(run, frame, 0);
    } else if (decide(run, frame, yield)) {
        begin_region(run, frame, 1);
    } else {
        const Op *op = frame->op;
        Array **carried = frame->carried;
        array_drop(run, frame->active);
        run->agent->frames.n--;
        for (int i = 0; i < op->n_results; i++) {
            run_result(run, op, i, carried[i]);
        }
        give_back(run, carried);
    }
}
