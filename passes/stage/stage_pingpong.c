/* SPDX-License-Identifier: Apache-2.0 */
/* Ping-pong: the consumer warps form two teams that work on different tiles, so that the epilogue
 * of one team runs under the dots of the other.
 *
 *   tile_loop %p { (%m, %n, %p: i32)     tile_loop tile_index=1 { (%m, %n, %i: i32)
 *     %c, %q = for %k, %z, %p { … }        %s = steps of %k
 *     … f(%c) …                     →      ordered_wait
 *     store %y[%m, %n], %f                 %c, %q = for %k, %z, %i * %s { … }
 *     yield %q }                           ordered_arrive
 *                                          … f(%c) …
 *                                          store through slot %i }
 *
 * The producer loads the operands of the tiles in order, through one ring buffer. A team issues its
 * dots after the other team has issued all of its own, and computes its ring index from the number
 * of preceding tiles; therefore every tile must take the same number of k steps. Each team has its
 * own shared-memory buffer for storing results. */
#include "passes/stage/stage.h"

#include "ir/ir_errors.h"

enum { TEAMS = 2 };

/* The loop that holds all products; NULL: there are several, or its steps differ. */
static Op *only_loop(const StageContext *s)
{
    Op *loop = NULL;
    for (Op *op = s->body->first; op; op = op->next) {
        if (op->kind == OP_FOR) {
            if (loop) {
                return NULL;
            }
            loop = op;
        }
    }
    bool even = loop && !stage_varies(for_lo(loop)) && !stage_varies(for_hi(loop)) &&
                !op_int(loop, ATTR_DESCENDING, 0) && !op_int(loop, ATTR_SINGLE_TRIP, 0);
    return even ? loop : NULL;
}

/* What a team does by itself: nothing that crosses warps through memory that the other would use,
 * too, and no axes that change places. */
static bool is_own(const Op *op)
{
    bool moves = op->kind == OP_LOAD || op->kind == OP_STORE;
    bool names = op->kind == OP_BROADCAST || op->kind == OP_EXPAND || op->kind == OP_SQUEEZE;
    bool scalar = op->kind == OP_CONST || op->kind == OP_SIZE || op->kind == OP_INDEX ||
                  op->kind == OP_START || op->kind == OP_END || op->kind == OP_LEN;
    return moves || names || scalar || op_has(op, TRAIT_ELEMENTWISE);
}

static bool all_own(const Block *block, const Op *loop)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op != loop && !is_own(op)) {
            return false;
        }
    }
    return true;
}

static bool steps_are_own(const StageContext *s, const Op *loop)
{
    for (const Op *op = loop->regions[0]->first; op; op = op->next) {
        bool operand = op->kind == OP_PERMUTE || op->kind == OP_DOT || op->kind == OP_YIELD;
        if (!operand && (op->kind == OP_STORE || !is_own(op))) {
            return false;
        }
    }
    for (int i = 0; i < s->n; i++) {
        const StagedOperand *item = &s->items[i];
        if (!item->bulk || item->mask || item->load->parent != loop->regions[0] ||
            item->dot->parent != loop->regions[0]) {
            return false;
        }
    }
    return true;
}

/* Each product's operands are loads that the copy engine brings. */
static bool all_staged(const StageContext *s, const Op *loop)
{
    int dots = 0;
    for (const Op *op = loop->regions[0]->first; op; op = op->next) {
        if (op->kind == OP_DOT && !stage_is_wgmma(s, op)) {
            return false;
        }
        dots += op->kind == OP_DOT;
    }
    return dots > 0 && 2 * dots == s->n;
}

static Op *team_loop(const StageContext *s)
{
    Op *loop = only_loop(s);
    bool own = loop && s->persistent && all_own(s->body, loop) && steps_are_own(s, loop) &&
               all_staged(s, loop);
    return own ? loop : NULL;
}

int stage_teams(StageContext *s)
{
    const Attr *teams = op_attr(s->launch, ATTR_TEAMS);
    if (!teams || teams->ints[0] != TEAMS) {
        return 1;
    }
    s->team_loop = team_loop(s);
    if (s->team_loop) {
        s->number = block_arg(s->func, s->body, type_scalar(s->func, DT_I32), "i");
        return TEAMS;
    }
    const ScheduleEntry *given = schedule_user_entry(s->func, "pingpong", "");
    if (given) {
        Diag *d =
            diag_error(s->func->diags, ERR_NOT_HERE, given->span,
                       "`pingpong on` is not possible: it needs persistent tiles with the same "
                       "number of k steps, operands that TMA loads, and an element-wise epilogue");
        diag_help(s->func->diags, d, "`pingpong off`, or leave the line out");
    }
    return 1;
}

/* i32: steps of the loop, before it. */
static Value *steps_of(const Op *loop, Builder *b)
{
    int64_t step = op_attr(loop, ATTR_STEPS)->ints[0];
    Value *extent = build_binary(b, OP_SUB, for_hi(loop), for_lo(loop));
    if (step > 1) {
        extent = build_binary(b, OP_ADD, extent, build_i64(b, step - 1));
        extent = build_binary(b, OP_DIV, extent, build_i64(b, step));
    }
    return build_cast(b, extent, DT_I32);
}

Value *stage_team_start(StageContext *s)
{
    Builder b = build_before(s->func, s->team_loop);
    return build_binary(&b, OP_MUL, s->number, steps_of(s->team_loop, &b));
}
