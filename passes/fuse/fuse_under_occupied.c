/* SPDX-License-Identifier: Apache-2.0 */
/* Folds that a launch would leave to few blocks: each gets a launch of its own, in which all blocks
 * of the device share the axis (tile/tile_split_axis.c). */
#include "passes/fuse/fuse_split.h"

#include "ir/target/target.h"
#include "support/int_math.h"

enum {
    MAX_ROWS = 64,             /* blocks, too few to walk long rows alone */
    LONG_ROW = 32768,          /* elements: of longer ones a block holds none */
    LONG_WALK_BYTES = 1 << 19, /* of a block: twice, it takes as long as two launches more */
    MAX_WALKS_CPU = 16,        /* blocks, of a CPU */
    RUN_BYTES = 64,            /* of neighbouring columns, that a block takes at least */
    MAX_STEPS = 256,           /* from a fold back to what it reads */
};

/* Bits of the narrowest element in memory that the value is made of, element by element; `most`
 * where none is found within so many steps. */
static int bits_in_memory(const Value *value, int most, int *steps)
{
    const Op *op = value->def;
    int least = op && op->kind == OP_LOAD ? dtype_bits(op->operands[0]->type->dtype) : most;
    bool follows = op && op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; follows && i < op->n_operands && (*steps)-- > 0; i++) {
        least = bits_in_memory(op->operands[i], least, steps);
    }
    return least < most ? least : most;
}

static int bits_read(const Op *fold)
{
    int steps = MAX_STEPS;
    return bits_in_memory(fold->operands[0], dtype_bits(fold->operands[0]->type->dtype), &steps);
}

/* Would too few blocks walk the rows of what `op` folds, which are too long to be held? Of rows
 * that lie across memory each takes a run of neighbours. A fold by itself is shared by all
 * (`split_k`), and no more is read: what is not held is read again for each fold anyway. */
static bool few_would_walk(Splitter *s, const Op *op, uint64_t rows, int64_t held)
{
    const Target *target = s->func->target;
    Type type = op->operands[0]->type;
    bool gpu = target && target->family != FAMILY_CPU;
    uint64_t last = split_class(s, op->operands[0], type->rank - 1) & s->stored & ~rows;
    int64_t run = last ? RUN_BYTES * 8 / bits_read(op) : 1;
    int64_t blocks = mul_sat(split_elements(s, s->stored & ~rows & ~last),
                             ceil_div(split_elements(s, last), run));
    return split_elements(s, rows) > held / run && blocks < (gpu ? target->num_sms : MAX_WALKS_CPU);
}

/* Does another fold along the same axis need it? */
static bool is_folded_again(Splitter *s, const Op *op, uint64_t row)
{
    for (const Op *other = op->next; other; other = other->next) {
        if (split_is_fold(other) && split_is_made_of(s, other, op) &&
            split_class(s, other->operands[0], (int)op_int(other, ATTR_AXIS, 0)) == row) {
            return true;
        }
    }
    return false;
}

/* A few long rows would be walked by as few blocks, as would those that are folded twice. */
const Value *split_under_occupied(Splitter *s, const Op *op)
{
    if (!split_is_fold(op) || split_is_scan(op)) {
        return NULL;
    }
    uint64_t rows = s->stored & s->folded & ~s->walked;
    uint64_t row = split_class(s, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
    int64_t walk = LONG_WALK_BYTES * 8 / bits_read(op);
    bool own = rows & split_seen(s, op->operands[0]);
    bool gpu = s->func->target && s->func->target->family != FAMILY_CPU;
    int64_t cluster = gpu && s->func->target->cluster > 1 ? s->func->target->cluster : 1;
    bool starves =
        own &&
        ((split_elements(s, rows) > LONG_ROW && split_elements(s, s->stored & ~rows) < MAX_ROWS) ||
         few_would_walk(s, op, rows, cluster * LONG_ROW));
    bool again = row && !(row & (s->stored | s->walked)) && few_would_walk(s, op, row, walk) &&
                 is_folded_again(s, op, row);
    return starves || again ? split_used_result(s, op) : NULL;
}
