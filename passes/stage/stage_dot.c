/* SPDX-License-Identifier: Apache-2.0 */
/* Makes dots read their operands from shared memory. An operand either is in a ring buffer already
 * (TMA-loaded), or passes through registers: barrier, store, barrier. The left operand of a matrix
 * instruction may stay in registers. */
#include "passes/stage/stage.h"

#include "ir/memo.h"
#include "passes/tile/tile.h"

Value *shared_tile(StageContext *s, Builder *at, DType dtype, int64_t slots, int64_t rows,
                   int64_t cols)
{
    Type type = type_shared(s->func, dtype, 3, (int64_t[]){slots, rows, cols});
    Op *op = build_op(at, OP_SHARED, 0, NULL, 1, &type, 0);
    op_set_int(s->func, op, ATTR_SWIZZLE, s->swizzle ? swizzle_for(cols * dtype_bytes(dtype)) : 0);
    s->shared_bytes += slots * rows * cols * dtype_bytes(dtype);
    return op->results[0];
}

const StagedOperand *stage_item(const StageContext *s, const Op *dot, int side)
{
    for (int i = 0; i < s->n; i++) {
        if (s->items[i].dot == dot && s->items[i].side == side) {
            return &s->items[i];
        }
    }
    return NULL;
}

const StagedOperand *stage_auxiliary_operand(const StageContext *s, const Op *load)
{
    for (int i = 0; i < s->n; i++) {
        if (s->items[i].load == load && s->items[i].side == SIDE_AUXILIARY) {
            return &s->items[i];
        }
    }
    return NULL;
}

static Value *zero_position(Builder *b)
{
    return build_int(b, type_scalar(b->func, DT_I32), 0);
}

bool stage_is_wgmma(const StageContext *s, const Op *dot)
{
    const MatrixInstr *unit = dot_instruction(s->func, dot);
    return unit && mma_warps(unit) > 1;
}

/* Is it made of a product's result, element by element? */
static bool find_product(Memo *seen, const Value *value, int depth)
{
    const Op *op = value ? value->def : NULL;
    int64_t known;
    if (!op || depth > 16 || memo_known(seen, value, depth, &known)) {
        return false; /* where it was seen: or the search would have ended */
    }
    memo_keep(seen, value, depth, 1);
    if (op->kind == OP_DOT || op->kind == OP_DOT_WAIT) {
        return true;
    }
    bool found = false;
    bool follows = op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_MASK;
    for (int i = 0; follows && !found && i < op->n_operands; i++) {
        found = op->operands[i]->type->rank == value->type->rank &&
                find_product(seen, op->operands[i], depth + 1);
    }
    return found;
}

static bool follows_product(const Value *value)
{
    Memo *seen = memo_about(value);
    bool found = find_product(seen, value, 0);
    memo_close(seen);
    return found;
}

/* A left operand may, where threads hold what they multiply: as it is loaded for groups of warps,
 * which share no rows, if their unit takes it there; for single ones what they have made of a
 * product themselves. */
bool stage_stays(const StageContext *s, const Op *dot, int side)
{
    const StagedOperand *item = stage_item(s, dot, side);
    const MatrixInstr *unit = dot_instruction(s->func, dot);
    MmaKOrder depth;
    if (side != 0 || !unit || (item && item->bulk)) {
        return false;
    }
    if (mma_warps(unit) > 1) {
        return !(item && item->load->parent != dot->parent) && !unit->smem_k_major_only;
    }
    const Value *value = dot->operands[0];
    return !item && follows_product(value) &&
           mma_k_order_registers(unit, poly_capacity(value->type->dims[1]), &depth);
}

/* Registers to a new shared tile. The first sync lets earlier readers of the tile finish. */
static Value *store_tile(StageContext *s, Builder *b, Value *value, bool group)
{
    Builder start = build_before(s->func, s->launch->regions[0]->first);
    Type type = value->type;
    Value *shared = shared_tile(s, &start, type->dtype, 1, poly_capacity(type->dims[0]),
                                poly_capacity(type->dims[1]));
    build_bare(b, OP_BARRIER);
    Value *operands[] = {shared, zero_position(b), NULL, NULL, value};
    build_op(b, OP_SHARED_STORE, 5, operands, 0, NULL, 0);
    if (group) {
        build_bare(b, OP_FENCE_ASYNC);
    }
    build_bare(b, OP_BARRIER);
    return shared;
}

/* A product of warps has read its operands when it is done: another one of the block reads the same
 * tile. (Groups of warps continue reading behind it.) */
static Value *stored_tile(StageContext *s, Builder *b, Value *value, bool group)
{
    const Block *block = b->block;
    for (int i = 0; !group && i < s->n_stored; i++) {
        if (s->stored[i].value == value && s->stored[i].block == block) {
            return s->stored[i].shared;
        }
    }
    Value *shared = store_tile(s, b, value, group);
    if (!group && s->n_stored < MAX_STAGED) {
        s->stored[s->n_stored++] = (SharedCopy){value, block, shared};
    }
    return shared;
}

typedef struct Operands {
    Value *items[16];
    int n;
    bool transposed[2];
} Operands;

static void add_shared(Operands *o, Value *shared, Value *position)
{
    o->items[o->n++] = shared;
    o->items[o->n++] = position;
    o->items[o->n++] = NULL;
    o->items[o->n++] = NULL;
}

/* Do groups of warps take the left operand from registers? */
static bool reads_left(const StageContext *s, const Op *dot, int side)
{
    const MatrixInstr *unit = dot_instruction(s->func, dot);
    return side == 0 && unit && mma_warps(unit) > 1 && !unit->smem_k_major_only;
}

/* A loop-invariant load is stored once, where it is loaded; else just before the product. */
static void add_operand(StageContext *s, Operands *o, Op *dot, int side, Builder *before)
{
    const StagedOperand *item = stage_item(s, dot, side);
    bool group = stage_is_wgmma(s, dot);
    Value *value = dot->operands[side];
    if (item && item->bulk && item->chosen && reads_left(s, dot, side)) {
        o->items[o->n++] = stage_masked_value(s, before, item);
        return;
    }
    if (item && item->bulk) {
        o->transposed[side] = item->transposed;
        if (item->mask) {
            stage_mask(s, before, item);
        }
        Value *position = s->streams[item->stream].position;
        add_shared(o, item->shared, stage_place(s, before, item, position));
        return;
    }
    if (stage_stays(s, dot, side)) {
        o->items[o->n++] = value;
        return;
    }
    Builder at = *before;
    if (item && !item->mask) {
        value = item->load->results[0];
        o->transposed[side] = item->transposed;
        if (item->load->parent != dot->parent) {
            at = build_after(s->func, item->load);
        }
        value = item->rounded ? build_unary(&at, OP_TF32, value) : value;
    }
    Value *shared = stored_tile(s, &at, value, group);
    shared->name = item && !shared->name ? item->load->operands[0]->name : shared->name;
    add_shared(o, shared, zero_position(before));
}

/* Its unit's sums keep few bits: others add up those of a step. */
static bool adds_separately(const StageContext *s, const Op *dot)
{
    const MatrixInstr *unit = dot_instruction(s->func, dot);
    return unit && unit->max_accumulate_k;
}

static Op *build_product(StageContext *s, Builder *b, Op *dot, OpKind kind)
{
    Operands o = {.n = 0};
    add_operand(s, &o, dot, 0, b);
    add_operand(s, &o, dot, 1, b);
    if (dot->n_operands == 3 && !adds_separately(s, dot)) {
        o.items[o.n++] = dot->operands[2];
    }
    Op *product = build_op(b, kind, o.n, o.items, 1, &dot->results[0]->type, 0);
    if (o.transposed[0]) {
        op_set_int(s->func, product, ATTR_TA, 1);
    }
    if (o.transposed[1]) {
        op_set_int(s->func, product, ATTR_TB, 1);
    }
    const MatrixInstr *unit = dot_instruction(s->func, dot);
    op_inherit_over(s->func, product, dot);
    op_set_word(s->func, product, ATTR_INSTRUCTION, unit ? unit->family : "fma");
    if (unit && unit->operands == DT_TF32) {
        op_set_word(s->func, product, ATTR_PRECISION, "tf32");
    }
    const StagedOperand *right = stage_item(s, dot, 1);
    if (right && right->part) {
        op_set_int(s->func, product, ATTR_MERGED, 1);
    }
    return product;
}

Op *stage_dot_wait(StageContext *s, Builder *b, Value *unsettled)
{
    Op *settle = build_op(b, OP_DOT_WAIT, 1, &unsettled, 1, &unsettled->type, 0);
    op_set_int(s->func, settle, ATTR_PENDING, 0);
    return settle;
}

void stage_dot(StageContext *s, Op *dot)
{
    Builder b = build_before(s->func, dot);
    bool group = stage_is_wgmma(s, dot);
    Op *product = build_product(s, &b, dot, group ? OP_DOT_ASYNC : OP_DOT);
    if (group) {
        product = stage_dot_wait(s, &b, product->results[0]);
    }
    if (dot->n_operands == 3 && adds_separately(s, dot)) {
        product = build_binary(&b, OP_ADD, dot->operands[2], product->results[0])->def;
    }
    product->results[0]->name = dot->results[0]->name;
    func_replace_uses(s->func, dot->results[0], product->results[0]);
    op_remove(dot);
}
