/* SPDX-License-Identifier: Apache-2.0 */
/* TMA multicast: blocks with adjacent tiles form a cluster, and an operand tile that they share is
 * loaded once for all of them. Each block loads a part of its rows, and TMA writes that part into
 * the shared memory of every block.
 *
 *   launch multicast=[1, 2] { (%m, %n) … bulk_load %a[%m, %k] cluster=2 … bulk_load %b[%k, %n] … }
 *
 * A pipeline stage is then free when all blocks have read it, so all blocks must execute the same
 * number of iterations. If the number of tiles is odd, the last block works on a tile past the end,
 * for which nothing is read or written. */
#include "passes/stage/stage.h"

#include "ir/layout/layout.h"
#include "ir/memo.h"
#include "ir/ir_errors.h"

enum { MAX_DEPTH = 32 };

static bool find_dependence(Memo *seen, const Value *value, const Value *on, int depth)
{
    const Op *op = value ? value->def : NULL;
    int64_t known;
    if (!value || value == on || depth > MAX_DEPTH) {
        return value != NULL;
    }
    if (memo_known(seen, value, depth, &known)) {
        return false; /* or the search would have ended */
    }
    memo_keep(seen, value, depth, 1);
    for (int i = 0; op && i < op->n_operands; i++) {
        if (find_dependence(seen, op->operands[i], on, depth + 1)) {
            return true;
        }
    }
    return false;
}

static bool depends(const Value *value, const Value *on)
{
    Memo *seen = value ? memo_about(value) : NULL;
    bool found = find_dependence(seen, value, on, 0);
    memo_close(seen);
    return found;
}

/* Does each tile along the axis read the same, in rows that can be shared out? A tensor of no more
 * rows than a tile has comes in a smaller box, whole. */
static bool is_common(const StageContext *s, const StagedOperand *item, const Value *axis,
                      int64_t blocks)
{
    bool same = item->bulk && item->side < SIDE_AUXILIARY && !item->parts &&
                item->rows % (blocks * SWIZZLE_ROWS) == 0 &&
                !func_im2col_of(s->func, item->load->operands[0]);
    for (int i = 1; same && i < item->load->n_operands; i++) {
        same = !depends(item->load->operands[i], axis);
    }
    return same;
}

/* One loop of as many steps for every tile, whose operands come through one ring. */
static bool is_even(const StageContext *s)
{
    const Op *loop = s->n_streams == 1 ? s->streams[0].home->parent : NULL;
    return loop && loop->kind == OP_FOR && loop->parent == s->body && s->even && s->teams <= 1 &&
           s->held_slots == 0;
}

/* Every block brings its own: without a word, unless the user asked for more. */
static void refuse(StageContext *s, const Value *axis)
{
    const ScheduleEntry *line = schedule_user_entry(s->func, "multicast", axis->name);
    if (line) {
        Diag *d =
            diag_error(s->func->diags, ERR_NOT_HERE, line->span,
                       "`multicast %s %lld` is not possible: adjacent tiles along %s share no "
                       "operand that TMA could load in parts, in one loop with the same number "
                       "of iterations",
                       axis->name, (long long)line->number, axis->name);
        diag_help(s->func->diags, d, "leave the line out, or another axis");
    }
    op_drop_attr(s->launch, ATTR_MULTICAST);
}

void stage_multicast(StageContext *s)
{
    const Attr *multicast = op_attr(s->launch, ATTR_MULTICAST);
    int axis = 0;
    while (multicast && axis < multicast->n && multicast->ints[axis] < 2) {
        axis++;
    }
    if (!multicast || axis == multicast->n) {
        return;
    }
    int64_t blocks = multicast->ints[axis];
    const Value *tile = s->body->args[axis];
    for (int i = 0; i < s->n && is_even(s); i++) {
        if (is_common(s, &s->items[i], tile, blocks)) {
            s->items[i].together = blocks;
            s->together = blocks;
        }
    }
    if (s->together < 2) {
        refuse(s, tile);
        return;
    }
    schedule_decide_int(
        s->func, "multicast", tile->name, blocks,
        "rows straddle cache lines, which are requested once: each block loads a part of the "
        "shared tile for all of them");
}
