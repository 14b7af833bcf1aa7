/* SPDX-License-Identifier: Apache-2.0 */
/* Recognizes operands of dots that are computed element by element from memory (dequantized
 * weights, activation functions, looked-up or masked elements). The pass repack_computed may store
 * such an operand once instead of computing it for every tile. */
#include "passes/analysis/computed_operand.h"

#include "ir/memo.h"
#include "ir/op_axes.h"
#include "passes/analysis/constant_runs.h"
#include "passes/analysis/dequant_scale.h"

enum {
    MAX_OPS = 512, /* that an operand is made of: more are not looked at */
    MAX_TIMES = 4, /* elements of it for each of the largest array that it is made of: windows of a
                      convolution would be many times their image */
    FEWER = 16,    /* times fewer elements than the operand: of what is not element-wise, such as a
                      statistic of each row, a launch reads them as an array */
};

typedef struct Weighing {
    const CodeSize *size;
    Memo *seen;
    const Block *body;
    double elements; /* of the operand */
    double largest;  /* elements that are read of one tensor */
    double instructions, bytes;
    int n_ops;
} Weighing;

static double elements_of(Type type)
{
    double n = 1;
    for (int i = 0; i < type->rank; i++) {
        n *= (double)poly_most(type->dims[i]);
    }
    return n;
}

/* ---- what is computed ---- */

static bool is_zero(const Value *value)
{
    const Attr *number = value_const(value_unstretched(value));
    return number && (dtype_is_float(value->type->dtype) ? number->f == 0 : number->i == 0);
}

/* True if the value has elements from memory for each element of `type`. */
static bool reads_all(Memo *seen, const Value *value, Type type)
{
    const Op *op = value->def;
    if (!op || !memo_visit(seen, value)) {
        return false;
    }
    if (op->kind == OP_LOAD || op->kind == OP_GATHER) {
        return elements_of(op->results[0]->type) >= elements_of(type);
    }
    bool found = false;
    for (int i = 0; i < op->n_operands && !found; i++) {
        found = op->operands[i] && reads_all(seen, op->operands[i], type);
    }
    return found;
}

/* True if the value has elements from memory. */
static bool reads_any(Memo *seen, const Value *value)
{
    const Op *op = value->def;
    if (!op || !memo_visit(seen, value)) {
        return false;
    }
    bool found = op->kind == OP_LOAD || op->kind == OP_GATHER;
    for (int i = 0; i < op->n_operands && !found; i++) {
        found = op->operands[i] && reads_any(seen, op->operands[i]);
    }
    return found;
}

/* The branch of a select that is 0 elsewhere by a condition of coordinates, and perhaps of a number
 * for each row: such a condition bounds loops (bound_loops, peel), and stays. NULL: other ops. */
static Value *bounded_branch(const Op *op)
{
    if (op->kind != OP_SELECT || op->operands[0]->type->rank == 0 ||
        is_zero(op->operands[1]) == is_zero(op->operands[2])) {
        return NULL;
    }
    Memo *seen = memo_about(op->operands[0]);
    bool data = reads_all(seen, op->operands[0], op->results[0]->type);
    memo_close(seen);
    return data ? NULL : op->operands[is_zero(op->operands[1]) ? 2 : 1];
}

static Value *below_moves(Value *value)
{
    for (;;) {
        const Op *op = value->def;
        Value *branch = op ? bounded_branch(op) : NULL;
        bool moves = op && (op_moves_axes(op) || op->kind == OP_MASK || op->kind == OP_TF32);
        if (!branch && !moves) {
            return value;
        }
        value = branch ? branch : op->operands[0];
    }
}

/* The axis of `source` that is axis `at` of a value which is made of it by moves of axes and
 * element-wise ops; -1: none, or it is not made of it. */
static int axis_of_source(const Value *value, const Value *source, int at)
{
    const Op *op = value->def;
    if (value == source || at < 0 || !op) {
        return value == source ? at : -1;
    }
    if (op_moves_axes(op)) {
        return axis_of_source(op->operands[0], source, op_operand_axis(op, 0, at));
    }
    int found = -1;
    bool follows = op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_MASK || op->kind == OP_TF32;
    for (int i = 0; follows && i < op->n_operands && found < 0; i++) {
        bool same = op->operands[i]->type->rank == value->type->rank;
        found = same ? axis_of_source(op->operands[i], source, at) : -1;
    }
    return found;
}

/* True if the last axis of `source` is one that the dot sums along, or one of its result: along
 * that it can be loaded in tiles. */
static bool ends_in_dot_axis(const Value *operand, const Value *source)
{
    int rank = operand->type->rank, last = source->type->rank - 1;
    return axis_of_source(operand, source, rank - 1) == last ||
           axis_of_source(operand, source, rank - 2) == last;
}

/* True if a gather reads elements of an input at coordinates alone: repack_pitched copies those of
 * 16 bits, in the order that the dot wants. */
static bool is_rearranged(const Op *op)
{
    bool gather = op->kind == OP_GATHER && dtype_bits(op->results[0]->type->dtype) == 16;
    Memo *seen = memo_about(op->results[0]);
    for (int i = 1; gather && i < op->n_operands; i++) {
        gather = !reads_any(seen, op->operands[i]);
    }
    memo_close(seen);
    return gather;
}

/* ---- what it takes ---- */

static bool weigh(Weighing *w, const Value *value);

static bool weigh_access(Weighing *w, const Op *op)
{
    const Value *memory = op->operands[0];
    Type type = op->results[0]->type;
    double elements = elements_of(type), each = 1;
    if (memory->type->kind != TYPE_TENSOR || elements > w->elements * MAX_TIMES) {
        return false;
    }
    for (int axis = 0; op->kind == OP_GATHER && axis < type->rank; axis++) {
        int64_t run = an_constant_run(op->results[0], axis);
        each /= run ? (double)run : (double)poly_most(type->dims[axis]);
    }
    double read = elements * each < elements_of(memory->type) ? elements * each
                                                              : elements_of(memory->type);
    w->largest = read > w->largest ? read : w->largest;
    w->bytes += read * dtype_bits(memory->type->dtype) / 8;
    w->instructions += elements * each * an_op_counts(w->size, op).instructions;
    return true;
}

/* A statistic of rows, columns or blocks, whatever makes it: the product would have it from memory,
 * too, since its own launch makes it. */
static bool weigh_statistic(Weighing *w, const Value *value)
{
    double elements = elements_of(value->type);
    w->bytes += elements * dtype_bits(value->type->dtype) / 8;
    return elements * FEWER <= w->elements;
}

/* False: of something else than elements of memory. */
static bool weigh_op(Weighing *w, const Op *op, const Value *value)
{
    if (++w->n_ops > MAX_OPS) {
        return false;
    }
    switch (op->kind) {
    case OP_LOAD: return weigh_access(w, op);
    case OP_GATHER:
        if (!weigh_access(w, op)) {
            return false;
        }
        break;
    case OP_CONST:
    case OP_SIZE:
    case OP_IOTA: return true;
    default:
        if (op_has(op, TRAIT_ELEMENTWISE)) {
            double each = type_is_scalar(op->results[0]->type)
                              ? 0
                              : an_op_counts(w->size, op).instructions;
            w->instructions += each * elements_of(op->results[0]->type);
        } else if (!op_moves_axes(op)) {
            return weigh_statistic(w, value);
        }
    }
    bool good = true;
    for (int i = op->kind == OP_GATHER; i < op->n_operands && good; i++) {
        good = !op->operands[i] || weigh(w, op->operands[i]);
    }
    return good;
}

static bool weigh(Weighing *w, const Value *value)
{
    const Op *op = value->def;
    if (!op || op->parent != w->body) {
        return type_is_scalar(value->type);
    }
    return !memo_visit(w->seen, value) || weigh_op(w, op, value);
}

bool an_computed_operand(const CodeSize *size, const Op *dot, int side, ComputedOperand *found)
{
    ScaledDot scaled;
    bool narrow = an_scaled_dot(size->func, dot, &scaled);
    Value *value = below_moves(narrow ? scaled.sides[side].narrow : dot->operands[side]);
    const Op *op = value->def;
    if (!op || op->parent != dot->parent || dot->parent != size->func->body ||
        value->type->rank == 0 || !(op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_GATHER) ||
        is_rearranged(op) || !ends_in_dot_axis(dot->operands[side], value)) {
        return false;
    }
    Weighing w = {.size = size,
                  .seen = memo_about(value),
                  .body = size->func->body,
                  .elements = elements_of(value->type)};
    bool good = weigh(&w, value) && w.elements <= MAX_TIMES * w.largest;
    memo_close(w.seen);
    *found = (ComputedOperand){value, w.instructions / w.elements, w.bytes / w.elements};
    return good;
}
