/* SPDX-License-Identifier: Apache-2.0 */
/* Computes what the tiles of a `parallel` of the source need with given tile sizes: bytes of shared
 * memory for the operands of dots, and bytes of registers for accumulators. The loops of a block
 * run one after another, so the block needs as much as its largest loop. */
#include "passes/tile/tile_hand_tiled.h"

#include "support/int_math.h"

static int64_t elements_of(Type type)
{
    int64_t n = 1;
    for (int i = 0; i < type->rank; i++) {
        n *= max_i64(1, poly_capacity(type->dims[i]));
    }
    return n;
}

/* Does a loop's own range index this load? Then each step brings another tile. */
static bool is_walked(const Op *load)
{
    for (int i = 1; i < load->n_operands; i++) {
        const Value *index = load->operands[i];
        const Op *binder = index && index->block ? index->block->parent : NULL;
        if (binder && binder->kind == OP_FOR) {
            return true;
        }
    }
    return false;
}

/* So does what a loop makes of its range: a page that a table names. */
static bool is_placed(const Op *load)
{
    for (int i = 1; i < load->n_operands; i++) {
        const Op *def = load->operands[i] ? load->operands[i]->def : NULL;
        if (def && def->parent->parent && def->parent->parent->kind == OP_FOR) {
            return true;
        }
    }
    return false;
}

static bool is_measured(BlockFootprint *steps, const Op *load)
{
    for (int i = 0; i < steps->n_loads; i++) {
        if (steps->loads[i] == load) {
            return true;
        }
    }
    if (steps->n_loads < MAX_LOADS) {
        steps->loads[steps->n_loads++] = load;
    }
    return false;
}

static bool is_loaded(const Value *operand)
{
    const Op *load = operand->def;
    while (load && load->kind == OP_PERMUTE) {
        load = load->operands[0]->def;
    }
    return load && load->kind == OP_LOAD;
}

static void measure_operand(BlockFootprint *steps, LoopPhase *phase, const Value *operand, bool fma)
{
    const Op *load = operand->def;
    int64_t bytes = elements_of(operand->type) * dtype_bytes(operand->type->dtype);
    while (load && load->kind == OP_PERMUTE) {
        load = load->operands[0]->def;
    }
    bool loaded = load && load->kind == OP_LOAD;
    if (loaded && is_measured(steps, load)) {
        return;
    }
    bool in_turn =
        steps->func->retry.alias_buffers && loaded && (is_walked(load) || is_placed(load));
    steps->shared += in_turn ? max_i64(0, bytes - steps->in_turn) : bytes;
    steps->in_turn = in_turn ? max_i64(bytes, steps->in_turn) : steps->in_turn;
    if (!loaded) {
        steps->operand = max_i64(steps->operand, bytes);
        steps->plain += fma ? bytes : 0;
    } else if (is_walked(load)) {
        phase->walked += bytes;
    } else {
        steps->loaded_once += bytes;
        steps->loaded = load->results[0]->type;
    }
}

/* ---- loops one after another ---- */

/* The statement of the block that an operation is in, with a region; NULL: it is one itself. */
static const Op *statement_around(const Op *op, const Block *block)
{
    while (op && op->parent != block) {
        op = op->parent->parent;
    }
    return op && op->n_regions ? op : NULL;
}

static bool uses(const Op *op, const Value *value)
{
    bool found = op_has_operand(op, value);
    for (int i = 0; i < op->n_regions; i++) {
        found |= block_count_uses(op->regions[i], value) > 0;
    }
    return found;
}

/* Is a result of an earlier loop read in this one, or behind it? What it begins with is its own. */
static bool lives_across(const Value *value, const Op *loop)
{
    for (int i = 0; i < loop->n_regions; i++) {
        if (block_count_uses(loop->regions[i], value) > 0) {
            return true;
        }
    }
    const Op *op = loop->next;
    while (op && !uses(op, value)) {
        op = op->next;
    }
    return op != NULL;
}

/* Bytes of the results of earlier loops that stay while this one runs. */
static int64_t held_across(const Op *loop)
{
    int64_t bytes = 0;
    for (const Op *op = loop->prev; op; op = op->prev) {
        for (int i = 0; op->n_regions && i < op->n_results; i++) {
            Type type = op->results[i]->type;
            if (type->kind == TYPE_ARRAY && lives_across(op->results[i], loop)) {
                bytes += elements_of(type) * dtype_bytes(type->dtype);
            }
        }
    }
    return bytes;
}

static void end_phase(BlockFootprint *steps)
{
    const LoopPhase *phase = &steps->phase, *no_loop = &steps->no_loop;
    steps->held = max_i64(steps->held, no_loop->held + phase->held);
    steps->walked = max_i64(steps->walked, no_loop->walked + phase->walked);
    int n_dots = no_loop->n_dots + phase->n_dots;
    steps->n_dots = n_dots > steps->n_dots ? n_dots : steps->n_dots;
}

static LoopPhase *phase_of(BlockFootprint *steps, const Op *dot)
{
    const Op *loop = statement_around(dot, steps->block);
    if (!loop) {
        return &steps->no_loop;
    }
    if (steps->phase.loop != loop) {
        end_phase(steps);
        steps->phase = (LoopPhase){.loop = loop, .held = held_across(loop)};
    }
    return &steps->phase;
}

static void measure_dot(BlockFootprint *steps, const Op *op)
{
    Type c = op->results[0]->type;
    LoopPhase *phase = phase_of(steps, op);
    const MatrixInstr *unit = dot_instruction(steps->func, op);
    steps->any_dot = true;
    phase->n_dots++;
    steps->wgmma = (unit && mma_warps(unit) > 1) || steps->wgmma;
    steps->unit = unit && mma_warps(unit) == 1 ? unit : steps->unit;
    if (is_loaded(op->operands[0])) {
        Type a = op->operands[0]->type;
        steps->depth = max_i64(steps->depth, poly_capacity(a->dims[a->rank - 1]));
    }
    measure_operand(steps, phase, op->operands[0], !unit);
    measure_operand(steps, phase, op->operands[1], !unit);
    steps->rows = max_i64(steps->rows, poly_capacity(c->dims[0]));
    steps->accumulators = max_i64(steps->accumulators, elements_of(c));
    phase->held += elements_of(c) * dtype_bytes(c->dtype);
}

static void measure_op(Op *op, void *user)
{
    BlockFootprint *steps = user;
    for (int i = 0; i < op->n_results; i++) {
        if (op->results[i]->type->kind == TYPE_ARRAY) {
            steps->elements = max_i64(steps->elements, elements_of(op->results[i]->type));
        }
    }
    steps->ranks |= op->kind == OP_RANK;
    steps->looks_up |= op->kind == OP_LOOKUP;
    if (op->kind == OP_DOT) {
        measure_dot(steps, op);
    } else if (op->kind == OP_STORE) {
        Type value = op->operands[op->n_operands - 1]->type;
        steps->stored += elements_of(value) * dtype_bytes(value->dtype);
        steps->lent = value == steps->loaded ? elements_of(value) * dtype_bytes(value->dtype) : 0;
    }
}

void source_measure(Op *parallel, BlockFootprint *steps)
{
    steps->block = parallel->regions[0];
    measure_op(parallel, steps);
    block_walk(parallel->regions[0], measure_op, steps);
    end_phase(steps);
}
