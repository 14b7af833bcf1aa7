/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates of the length of machine code, in instructions of a thread: for each op and register,
 * those that it becomes after LLVM and the assembler have folded what they can. Fitted to the
 * machine code of sm_90a (tests/calibration); other targets have about as many. */
#include "passes/analysis/code_size.h"

#include "ir/layout/layout.h"
#include "ir/target/target.h"

/* Bytes of an instruction: all of NVIDIA's have 16; AMD's have 4 to 12, arithmetic with constants
 * mostly 8. */
enum { NVPTX_BYTES = 16, AMDGCN_BYTES = 8 };

/* What ops become that are no single instruction. The slow ways of divisions, roots and the like
 * are calls of one function, but each call moves its operands. */
static const double DIVIDE32 = 24, DIVIDE64 = 60, ROOT32 = 12, ROOT64 = 40, DIVIDE_INT = 20,
                    SHUFFLED = 2, LOAD = 1.25, STORE = 1.5, DOT_STEP = 24, BULK = 24, WAIT = 12,
                    SCALAR = 1;

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

static double divide_instructions(Type type)
{
    bool wide = dtype_bits(type->dtype) > 32;
    return dtype_is_float(type->dtype) ? wide ? DIVIDE64 : DIVIDE32 : DIVIDE_INT * words_of(type);
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
    case OP_MOD: return divide_instructions(type);
    case OP_SQRT: return dtype_bits(type->dtype) > 32 ? ROOT64 : ROOT32;
    case OP_FAST_TANH:
    case OP_FAST_SIN:
    case OP_FAST_COS:
    case OP_FAST_RECIPROCAL:
    case OP_FAST_RSQRT:
    case OP_FAST_SQRT: return 2;
    case OP_FAST_EXP2:
    case OP_FAST_LOG2: return 3; /* with the scale of subnormal numbers */
    default: return words_of(type);
    }
}

double an_instructions(const Op *op)
{
    if (op_has(op, TRAIT_ELEMENTWISE)) {
        return op->n_results == 1 ? element_instructions(op) * registers_of(op->results[0]->type)
                                  : 0;
    }
    const Value *moved = op->kind == OP_LOAD || op->kind == OP_STORE || op->kind == OP_GATHER ||
                                 op->kind == OP_SHARED_LOAD || op->kind == OP_SHARED_STORE
                             ? op_moved_value(op)
                             : NULL;
    int64_t vector = op_int(op, ATTR_VECTOR, 1);
    switch (op->kind) {
    case OP_LOAD: return LOAD * registers_of(moved->type) / (double)vector;
    case OP_STORE: return STORE * registers_of(moved->type) / (double)vector;
    case OP_GATHER: return 4 * registers_of(moved->type) / (double)vector;
    case OP_SHARED_LOAD:
    case OP_SHARED_STORE: return registers_of(moved->type);
    case OP_REDUCE:
    case OP_SCAN:
    case OP_FOLD: return SHUFFLED * registers_of(op->operands[0]->type);
    case OP_MASK:
    case OP_INDEX: return registers_of(op->results[0]->type);
    case OP_ADVANCE: return registers_of(op->results[0]->type);
    case OP_DOT_ASYNC:
    case OP_DOT: return DOT_STEP;
    case OP_BULK_LOAD:
    case OP_BULK_STORE: return BULK;
    case OP_WAIT: return WAIT;
    default: return 0;
    }
}

static double instructions_within(const Op *op)
{
    double all = an_instructions(op);
    for (int i = 0; i < op->n_regions; i++) {
        for (const Op *in = op->regions[i]->first; in; in = in->next) {
            all += instructions_within(in);
        }
    }
    return all;
}

static int bytes_of(const Func *func)
{
    return func->target && func->target->family == FAMILY_AMDGCN ? AMDGCN_BYTES : NVPTX_BYTES;
}

int64_t an_code_bytes(const Func *func, const Op *op)
{
    return (int64_t)(instructions_within(op) * bytes_of(func));
}

int64_t an_block_bytes(const Func *func, const Block *block)
{
    int64_t all = 0;
    for (const Op *op = block->first; op; op = op->next) {
        all += an_code_bytes(func, op);
    }
    return all;
}
