/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates of the length of machine code, in instructions of a thread: for each op and register,
 * those that it becomes after LLVM and the assembler have folded what they can. Fitted to the
 * machine code of sm_90a (tests/calibration); other targets have about as many. */
#include "passes/analysis/code_size.h"

#include <math.h>

#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/layout/matrix_instr.h"
#include "ir/target/target.h"

/* Bytes of an instruction: all of NVIDIA's have 16; AMD's have 4 to 12, arithmetic with constants
 * mostly 8. */
enum { NVPTX_BYTES = 16, AMDGCN_BYTES = 8 };

/* What ops become that are no single instruction. The slow ways of divisions, roots and the like
 * are calls of one function, but each call moves its operands. */
static const double DIVIDE32 = 50, DIVIDE_SHARED = 40, DIVIDE_ONE = 32, DIVIDE64 = 36,
                    DIVIDE_INT = 44, DIVIDE_CONST = 5, DIVIDE_SCALAR = 14, ROOT32 = 16, ROOT64 = 40,
                    RECIPROCAL = 2, FAST_SCALED = 4, REDUCE = 40, SCAN = 4, LOAD = 1.25, GATHER = 6,
                    STORE = 1.25, SHARED = 1.25, COPY = 24, DOT_STEP = 8, GROUP_PRODUCT = 5.5,
                    MATRIX_LOAD = 1.25, FMA_VECTOR = 4, FMA_CODE = 1100, BULK = 40, WAIT = 8,
                    LOOP = 6, TILES = 60, LAUNCH = 17, SCALAR = 1, SCATTER = 4, CHECK = 2;

/* Registers of a thread that hold different elements of the tile. */
static double registers_of(Type type)
{
    if (!type_is_tile(type)) {
        return SCALAR;
    }
    if (!type->layout) {
        return 1;
    }
    int64_t extents[MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        extents[i] = poly_capacity(type->dims[i]);
    }
    Layout held = layout_compact(type->layout);
    int n = 0;
    for (int r = 0; r < layout_registers(&held); r++) {
        n += layout_register_exists(&held, extents, (uint32_t)r);
    }
    return n;
}

/* Halves of 32 bits that an element takes. */
static double words_of(Type type)
{
    return dtype_bits(type->dtype) > 32 ? 2 : 1;
}

static double cast_instructions(const Op *op)
{
    DType from = op->operands[0]->type->dtype, to = op->results[0]->type->dtype;
    bool narrow = dtype_is_float(to) && dtype_bits(to) < dtype_bits(from);
    return narrow ? 0.5 * (dtype_bits(from) > 32 ? 4 : 1) : 1;
}

static bool is_power_of_two(const Value *divisor)
{
    int exponent;
    const Attr *value = value_const(divisor);
    return value && fabs(frexp(value->f, &exponent)) == 0.5;
}

static double divide_integer(const Op *op, const Value *divisor)
{
    const Attr *by = value_const(divisor);
    if (by && by->i > 0 && (by->i & (by->i - 1)) == 0) {
        return 0; /* what registers add to an index is a number, and so are the bits of it */
    }
    double each = by                             ? DIVIDE_CONST
                  : !type_is_tile(divisor->type) ? DIVIDE_SCALAR
                                                 : DIVIDE_INT;
    return each * words_of(op->results[0]->type);
}

/* Elements that have a divisor in common share its reciprocal, in two parts. */
static double divide_instructions(const Op *op)
{
    Type type = op->results[0]->type;
    const Value *divisor = value_unstretched(op->operands[1]);
    if (!dtype_is_float(type->dtype)) {
        return divide_integer(op, divisor);
    }
    bool is_shared = op->operands[1] != divisor && type_is_tile(divisor->type);
    if (dtype_bits(type->dtype) > 32) {
        return DIVIDE64;
    }
    if (is_power_of_two(divisor)) {
        return 1;
    }
    if (!type_is_tile(divisor->type) || value_const(value_unstretched(op->operands[0]))) {
        return DIVIDE_ONE;
    }
    return is_shared ? DIVIDE_SHARED : DIVIDE32;
}

/* Of one element. */
static double element_instructions(const Op *op)
{
    Type type = op->results[0]->type;
    switch (op->kind) {
    case OP_CONST:
    case OP_BITCAST:
    case OP_NEG:
    case OP_ABS:
    case OP_TO_STATIC:
    case OP_REMAT: return 0; /* an operand's modifier, or the same register */
    case OP_CAST: return cast_instructions(op);
    case OP_DIV:
    case OP_MOD: return divide_instructions(op);
    case OP_SQRT: return dtype_bits(type->dtype) > 32 ? ROOT64 : ROOT32;
    case OP_FAST_RECIPROCAL: return RECIPROCAL;
    case OP_FAST_RSQRT:
    case OP_FAST_SQRT:
    case OP_FAST_LOG2: return FAST_SCALED; /* with a scale for subnormal numbers */
    default: return words_of(type);
    }
}

/* ---- what is emitted ---- */

/* An approximate op of two operands takes the place of the exact value, its second operand. */
static bool takes(const Op *op, int operand)
{
    return !(op_has(op, TRAIT_APPROX) && op->n_operands == 2 && operand == 1);
}

/* By value: does an op that is emitted take it? Ops whose results none takes have no code. */
static void mark_taken(const Block *block, bool *taken)
{
    for (const Op *op = block->last; op; op = op->prev) {
        bool emitted = !op_has(op, TRAIT_PURE);
        for (int i = 0; i < op->n_results; i++) {
            emitted = emitted || taken[op->results[i]->id];
        }
        for (int i = 0; i < op->n_operands && emitted; i++) {
            if (op->operands[i] && takes(op, i)) {
                taken[op->operands[i]->id] = true;
            }
        }
        for (int i = op->n_regions; i-- > 0;) {
            mark_taken(op->regions[i], taken);
        }
    }
}

CodeSize an_code_size(const Func *func, const Op *launch)
{
    CodeSize size = {func, ARENA_ARRAY(func->arena, bool, func->n_values)};
    mark_taken(launch ? launch->regions[0] : func->body, size.taken);
    return size;
}

static bool is_emitted(const CodeSize *size, const Op *op)
{
    bool emitted = !op_has(op, TRAIT_PURE);
    for (int i = 0; i < op->n_results; i++) {
        emitted = emitted || size->taken[op->results[i]->id];
    }
    return emitted;
}

/* ---- accesses ---- */

/* Elements that a thread moves at once to or from shared memory: neighbours in its registers, of at
 * most a vector's bytes. */
static double shared_vector(const Func *func, Type type)
{
    if (!type_is_tile(type) || !type->layout) {
        return 1;
    }
    int bytes = dtype_bits(type->dtype) / 8 > 0 ? dtype_bits(type->dtype) / 8 : 1;
    int most = func->target->vector_bytes / bytes;
    int held = layout_contiguous(type->layout, type->rank - 1);
    return held < most ? held : most;
}

/* Indices of the access that are checked. */
static int checks(const Op *op)
{
    const Attr *guard = op_attr(op, ATTR_GUARD);
    int n = 0;
    for (int i = 0; guard && i < guard->n; i++) {
        n += guard->ints[i] != 0;
    }
    return n;
}

/* ---- dots ---- */

/* Of one warp: its part of the tile in instructions of the matrix unit, and what reads their
 * operands from shared memory; of multiply-adds of threads what a thread multiplies. */
static double dot_instructions(const Func *func, const Op *op)
{
    const MatrixInstr *unit = mma_of_dot(func->target, op);
    Dim over = op_reduced_extent(op);
    double depth = over ? (double)poly_capacity(over) : 1;
    double held = registers_of(op->results[0]->type);
    if (!unit) { /* a loop over parts of the depth */
        depth = held * depth > FMA_CODE ? FMA_CODE / held : depth;
        return held * depth + 2 * sqrt(held) * depth / FMA_VECTOR;
    }
    double lanes = (double)func->target->warp * mma_warps(unit);
    double columns = mma_warps(unit) > 1 ? held * lanes / unit->m : unit->n;
    double products = held * lanes / (unit->m * columns) * depth / unit->k;
    if (mma_warps(unit) > 1) {
        return DOT_STEP + products * GROUP_PRODUCT;
    }
    double side = sqrt(held * lanes); /* elements of a warp's tile along each of its sides */
    double bytes = 2 * side * depth * dtype_bits(unit->operands) / 8;
    return products + bytes / (lanes * func->target->vector_bytes) * MATRIX_LOAD;
}

/* ---- ops ---- */

CodeCounts an_op_counts(const CodeSize *size, const Op *op)
{
    const Func *func = size->func;
    if (!is_emitted(size, op)) {
        return (CodeCounts){0};
    }
    if (op_has(op, TRAIT_ELEMENTWISE)) {
        double each = op->n_results == 1 ? element_instructions(op) : 0;
        return (CodeCounts){.instructions = each ? each * registers_of(op->results[0]->type) : 0};
    }
    double vector = (double)op_int(op, ATTR_VECTOR, 1), n;
    switch (op->kind) {
    case OP_LOAD:
    case OP_GATHER:
        n = registers_of(op_moved_value(op)->type) / vector;
        return (CodeCounts){.instructions = (op->kind == OP_LOAD ? LOAD : GATHER) * n, .loads = n};
    case OP_STORE:
        n = registers_of(op_moved_value(op)->type) / vector;
        return (CodeCounts){.instructions = STORE * n};
    case OP_SCATTER:
        n = text_equal(op_word(op, ATTR_FN), "set") ? registers_of(op_moved_value(op)->type) : 0;
        return (CodeCounts){.instructions = (SCATTER + CHECK * checks(op)) * n / vector};
    case OP_SHARED_STORE:
        n = registers_of(op_moved_value(op)->type);
        n /= shared_vector(func, op_moved_value(op)->type);
        return (CodeCounts){.instructions = SHARED * n, .shared_stores = n};
    case OP_SHARED_LOAD:
        n = registers_of(op_moved_value(op)->type);
        return (CodeCounts){.instructions = n / shared_vector(func, op_moved_value(op)->type)};
    case OP_COPY_LOAD: return (CodeCounts){.instructions = COPY};
    case OP_REDUCE:
        n = op->n_operands > 1 ? registers_of(op->results[0]->type) : 0; /* it crosses warps */
        return (CodeCounts){.instructions = REDUCE + registers_of(op->operands[0]->type),
                            .shared_stores = n};
    case OP_SCAN:
    case OP_FOLD:
        n = registers_of(op->operands[0]->type);
        return (CodeCounts){.instructions = REDUCE + SCAN * n};
    case OP_MASK:
    case OP_INDEX:
    case OP_ADVANCE: return (CodeCounts){.instructions = registers_of(op->results[0]->type)};
    case OP_DOT_ASYNC:
    case OP_DOT: return (CodeCounts){.instructions = dot_instructions(func, op)};
    case OP_BULK_LOAD:
    case OP_TAKE_TILE:
    case OP_READ_TILE:
    case OP_BULK_STORE: return (CodeCounts){.instructions = BULK};
    case OP_WAIT:
    case OP_ARRIVE: return (CodeCounts){.instructions = WAIT};
    case OP_TILE_LOOP: return (CodeCounts){.instructions = TILES};
    case OP_FOR:
    case OP_WHILE: return (CodeCounts){.instructions = LOOP};
    case OP_LAUNCH: return (CodeCounts){.instructions = LAUNCH};
    default: return (CodeCounts){0};
    }
}

static void add_counts(CodeCounts *to, CodeCounts more)
{
    to->instructions += more.instructions;
    to->loads += more.loads;
    to->shared_stores += more.shared_stores;
}

CodeCounts an_code_counts(const CodeSize *size, const Op *op)
{
    CodeCounts all = an_op_counts(size, op);
    for (int i = 0; i < op->n_regions; i++) {
        for (const Op *in = op->regions[i]->first; in; in = in->next) {
            add_counts(&all, an_code_counts(size, in));
        }
    }
    return all;
}

int64_t an_code_bytes(const CodeSize *size, const Op *op)
{
    int each = size->func->target->family == FAMILY_AMDGCN ? AMDGCN_BYTES : NVPTX_BYTES;
    return (int64_t)an_code_counts(size, op).instructions * each;
}

/* ---- the hot loop ---- */

typedef struct HotLoop {
    const CodeSize *size;
    const Op *found;
    bool has_dot;
    double instructions;
} HotLoop;

static void see_loop(const Block *block, HotLoop *hot)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_DOT || op->kind == OP_DOT_ASYNC) {
            const Op *loop = op_enclosing(op, OP_FOR);
            hot->found = loop ? loop : hot->found;
            hot->has_dot = hot->has_dot || loop;
        }
        if (op->kind == OP_FOR && !hot->has_dot) {
            double own = an_code_counts(hot->size, op).instructions;
            bool more = own > hot->instructions && !block_contains(op->regions[0], OP_FOR);
            hot->found = more ? op : hot->found;
            hot->instructions = more ? own : hot->instructions;
        }
        for (int i = 0; i < op->n_regions; i++) {
            see_loop(op->regions[i], hot);
        }
    }
}

const Op *an_hot_loop(const CodeSize *size, const Op *launch)
{
    HotLoop hot = {.size = size};
    see_loop(launch->regions[0], &hot);
    return hot.found;
}
