/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates the length of machine code in instructions per thread: for each op and register, the
 * instructions that remain after LLVM and the assembler have folded what they can. The numbers are
 * calibrated on machine code of sm_90a (tests/calibration); other targets need about as many. */
#include "passes/analysis/code_size.h"

#include <math.h>

#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/layout/matrix_instr.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/code_overlap.h"
#include "passes/analysis/code_registers.h"
#include "support/hash_table.h"
#include "support/int_math.h"

enum { QUOTIENTS = 4 };

/* What ops become that are no single instruction. The slow ways of divisions, roots and the like
 * are calls of one function, but each call moves its operands. */
static const double DIVIDE32 = 50, DIVIDE_SHARED = 40, DIVIDE_ONE = 32, DIVIDE_CALL = 17,
                    DIVIDE_SLOW = 40, MULTIPLY64 = 4, DIVIDE64 = 36, DIVIDE_INT = 44,
                    DIVIDE_CONST = 5, DIVIDE_SCALAR = 14, ROOT32 = 16, ROOT64 = 40, RECIPROCAL = 2,
                    FAST_SCALED = 4, DIVIDE_GRID = 10, AXIS = 3, ROW = 1.5, CHECKED = 1.25,
                    LOAD = 1.25, GATHER = 6, STORE = 1.25, SHARED = 1.25, COPY = 24,
                    DOT_STEP = 8, GROUP_PRODUCT = 5.5, MATRIX_LOAD = 1.25, FMA_VECTOR = 4,
                    FMA_CODE = 1100, BULK = 40, WAIT = 8, LOOP = 6, TILES = 60, LAUNCH = 17,
                    SCATTER = 4, CHECK = 2;

static double cast_instructions(const Op *op)
{
    DType from = op->operands[0]->type->dtype, to = op->results[0]->type->dtype;
    if (!dtype_is_float(from) && !dtype_is_float(to)) { /* the sign's word, where there is one */
        bool widens = dtype_bits(to) > dtype_bits(from);
        return widens && dtype_is_signed(from) ? 1 : 0;
    }
    bool narrow = dtype_is_float(to) && dtype_bits(to) < dtype_bits(from);
    if (!narrow) {
        return 1;
    }
    return dtype_bits(from) > 32 ? 2 : 0.5;
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
    double each = DIVIDE_INT;
    if (by) {
        each = DIVIDE_CONST;
    } else if (!type_is_tile(divisor->type)) {
        each = DIVIDE_SCALAR;
    }
    return each * code_words(op->results[0]->type);
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
    if (!type_is_tile(type)) {
        return DIVIDE_CALL;
    }
    if (!type_is_tile(divisor->type) || value_const(value_unstretched(op->operands[0]))) {
        return DIVIDE_ONE;
    }
    return is_shared ? DIVIDE_SHARED : DIVIDE32;
}

/* True if the value of 64 bits has 32 in fact, or the other word is a number. */
static bool is_half(const Value *value)
{
    const Op *op = value->def;
    const Attr *number = value_const(value);
    bool is_cast = op && op->kind == OP_CAST && dtype_bits(op->operands[0]->type->dtype) <= 32;
    return is_cast || (number && !(number->i >> 32));
}

/* Of 64 bits: a product of words, and those with the other halves; a shift by a word is none. */
static double wide_instructions(const Op *op)
{
    bool halves = is_half(op->operands[0]) && is_half(op->operands[1]);
    const Attr *by = value_const(op->operands[1]);
    if (op->kind == OP_MUL) {
        return halves ? 1 : MULTIPLY64;
    }
    return by && by->i == 32 ? 0 : 2;
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
    case OP_MUL:
    case OP_SHL:
    case OP_SHR:
        return dtype_bits(type->dtype) > 32 && !dtype_is_float(type->dtype) ? wide_instructions(op)
                                                                            : code_words(type);
    default: return code_words(type);
    }
}

/* ---- what is emitted ---- */

/* An approximate op of two operands takes the place of the exact value, its second operand. */
static bool takes(const Op *op, int operand)
{
    return !(op_has(op, TRAIT_APPROX) && op->n_operands == 2 && operand == 1);
}

/* By value: does an op that is emitted take it? Ops whose results none takes have no code, and of
 * those that are alike the first one has. */
static void mark_taken(CodeSize *size, const Block *block)
{
    for (const Op *op = block->last; op; op = op->prev) {
        bool emitted = !op_has(op, TRAIT_PURE);
        for (int i = 0; i < op->n_results; i++) {
            emitted = emitted || size->taken[op->results[i]->id];
        }
        for (int i = 0; i < op->n_operands && emitted; i++) {
            if (op->operands[i] && takes(op, i)) {
                size->taken[size->same[op->operands[i]->id]] = true;
            }
        }
        for (int i = op->n_regions; i-- > 0;) {
            mark_taken(size, op->regions[i]);
        }
    }
}

/* ---- what is computed once ---- */

/* Arithmetic on elements and indices: of ops that are alike, code generation keeps one. */
static bool is_numbered(const Op *op)
{
    return op->n_results == 1 && (op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op) ||
                                  op->kind == OP_INDEX || op->kind == OP_CONST);
}

typedef struct Numbering {
    CodeSize *size;
    Arena *arena;
    Memo *varies;
    HashTable ops;
    CodeOverlap overlap;
} Numbering;

typedef struct NumberedOp {
    const Op *op;
    const uint32_t *same;
} NumberedOp;

static bool is_inside(const Block *inner, const Block *outer)
{
    while (inner && inner != outer) {
        inner = inner->parent ? inner->parent->parent : NULL;
    }
    return inner;
}

static bool computes_alike(const void *item, const void *key)
{
    const NumberedOp *first = item, *op = key;
    if (!op_is_alike(first->op, op->op) || !is_inside(op->op->parent, first->op->parent)) {
        return false;
    }
    for (int i = 0; i < op->op->n_operands; i++) {
        if (op->same[op->op->operands[i]->id] != op->same[first->op->operands[i]->id]) {
            return false;
        }
    }
    return true;
}

/* True if it stands in a loop, and is made of nothing that changes from round to round. */
static bool is_invariant(const CodeSize *size, const Op *op)
{
    bool same = code_is_loop(op->parent->parent) && is_numbered(op);
    for (int i = 0; i < op->n_operands && same; i++) {
        const Value *value = op->operands[i];
        const Block *def_block = value->def ? value->def->parent : value->block;
        same = def_block != op->parent || size->invariant[value->id];
    }
    return same;
}

/* A division of few elements, for which the assembler calls a function where operands are extreme.
 * That of a group has its slow way in the kernel's own code. */
static bool is_called(const Op *op)
{
    return op->kind == OP_DIV && op->results[0]->type->dtype == DT_F32 &&
           !is_power_of_two(value_unstretched(op->operands[1])) &&
           code_registers(op->results[0]->type) < QUOTIENTS;
}

/* The first op that compares an index with its end. */
static void note_guards(CodeSize *size, const Op *op)
{
    const Attr *guard = op_attr(op, ATTR_GUARD);
    Access access = op_access(op, 0);
    for (int i = 0; guard && i < guard->n && i < access.n; i++) {
        const Value *index = guard->ints[i] ? access.indices[i] : NULL;
        if (index && !size->guarded[index->id]) {
            size->guarded[index->id] = op;
        }
    }
}

/* Finds the first value that is like each one, and along which axes it varies. */
static void number_values(Numbering *n, const Block *block)
{
    CodeSize *size = n->size;
    for (const Op *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->n_results; i++) {
            size->varies[op->results[i]->id] = an_varies(n->varies, op->results[i]);
        }
        size->divides |= is_called(op);
        if (op->kind == OP_LOAD || op->kind == OP_STORE || op->kind == OP_GATHER) {
            const Op **first = &size->first[op_access(op, 0).memory->id];
            *first = *first ? *first : op;
            note_guards(size, op);
        }
        if (op->kind == OP_GATHER) {
            size->own_loads[op->results[0]->id] = code_own_load_share(&n->overlap, op);
        }
        if (is_numbered(op)) {
            uint64_t hash = hash_word((uint64_t)op->kind, (uintptr_t)op->results[0]->type);
            for (int i = 0; i < op->n_operands; i++) {
                hash = hash_word(hash, size->same[op->operands[i]->id]);
            }
            const NumberedOp key = {op, size->same};
            const NumberedOp *first = table_find(&n->ops, hash, computes_alike, &key);
            if (first) {
                size->same[op->results[0]->id] = first->op->results[0]->id;
            } else {
                table_add(n->arena, &n->ops, hash, arena_copy(n->arena, &key, sizeof key));
            }
        }
        code_note_places(&n->overlap, op);
        if (op->n_results == 1) {
            size->invariant[op->results[0]->id] = is_invariant(size, op);
        }
        for (int i = 0; i < op->n_regions; i++) {
            number_values(n, op->regions[i]);
        }
    }
}

CodeSize an_code_size(Func *func, const Op *launch)
{
    Arena *arena = func->arena;
    const Block *block = launch ? launch->regions[0] : func->body;
    CodeSize size = {.func = func,
                     .taken = ARENA_ARRAY(arena, bool, func->n_values),
                     .same = ARENA_ARRAY(arena, uint32_t, func->n_values),
                     .invariant = ARENA_ARRAY(arena, bool, func->n_values),
                     .own_loads = ARENA_ARRAY(arena, double, func->n_values),
                     .varies = ARENA_ARRAY(arena, unsigned, func->n_values),
                     .first = ARENA_ARRAY(arena, const Op *, func->n_values),
                     .guarded = ARENA_ARRAY(arena, const Op *, func->n_values)};
    for (uint32_t id = 0; id < func->n_values; id++) {
        size.same[id] = id;
    }
    Numbering numbering = {.size = &size,
                           .arena = arena,
                           .varies = memo_open(func),
                           .overlap = code_overlap_new(func, &size)};
    number_values(&numbering, block);
    memo_close(numbering.varies);
    mark_taken(&size, block);
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
    double held = code_registers(op->results[0]->type);
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

/* ---- accesses and their addresses ---- */

/* Rows that a thread accesses: each has an address of its own, those along a row do not. */
static double rows_of(const Value *moved)
{
    const Layout *layout = type_is_tile(moved->type) ? moved->type->layout : NULL;
    double rows = 1;
    for (int axis = 0; layout && axis + 1 < moved->type->rank; axis++) {
        rows *= exp2(code_bits_along(layout, IN_REGISTER, axis));
    }
    return rows;
}

/* The share of an access's elements that it loads itself (code_overlap.h). */
static double own_load_share(const CodeSize *size, const Op *op)
{
    return op->kind == OP_GATHER ? size->own_loads[op->results[0]->id] : 1;
}

/* Comparisons of an access: of each element or vector along a guarded last axis, of each row along
 * others; of a gather, of each of its indices that differ. Accesses whose indices are alike share
 * them. */
static double guard_instructions(const CodeSize *size, const Op *op)
{
    const Attr *guard = op_attr(op, ATTR_GUARD);
    Access access = op_access(op, 0);
    double rows = rows_of(op_moved_value(op)), sum = 0;
    double accesses = code_registers(op_moved_value(op)->type) / (double)op_int(op, ATTR_VECTOR, 1);
    for (int i = 0; guard && i < guard->n && i < access.n; i++) {
        const Value *index = access.indices[i];
        bool shares = index && size->guarded[index->id] && size->guarded[index->id] != op;
        if (guard->ints[i] && !shares) {
            double along = i + 1 < access.n ? rows : accesses / rows;
            bool tile = index && type_is_tile(index->type);
            sum += tile ? code_registers_along(op_moved_value(op)->type, size->varies[index->id])
                        : along;
        }
    }
    return CHECKED * sum;
}

/* Of an access: the place where its tile begins, of each axis but the last; that of each row. */
static double address(const CodeSize *size, const Op *op)
{
    double rows = rows_of(op_moved_value(op));
    Access access = op_access(op, 0);
    bool shares = size->first[access.memory->id] != op || op_enclosing(op, OP_FOR);
    double each = ROW * (rows - 1) + guard_instructions(size, op);
    return (shares ? 0 : AXIS * (access.n - 1)) + own_load_share(size, op) * each;
}

/* The numbers of a block in a grid of several axes: divisions by numbers of tiles that only a
 * launch knows. */
static double grid_instructions(const Op *launch)
{
    const Attr *dims = op_attr(launch, ATTR_DIMS), *steps = op_attr(launch, ATTR_STEPS);
    int axes = 0;
    for (int i = 0; dims && steps && i < dims->n; i++) {
        int64_t extent;
        axes += !poly_is_const(dims->dims[i], &extent) || extent > steps->ints[i];
    }
    return axes > 1 ? (axes - 1) * DIVIDE_GRID : 0;
}

/* ---- ops ---- */

CodeCounts an_op_counts(const CodeSize *size, const Op *op)
{
    const Func *func = size->func;
    if (!is_emitted(size, op)) {
        return (CodeCounts){0};
    }
    if (op_has(op, TRAIT_ELEMENTWISE)) {
        double each = op->n_results == 1 ? element_instructions(op) : 0, held = 0;
        if (each) {
            const Value *result = op->results[0];
            held = code_registers_along(result->type, size->varies[result->id]);
            held = fmax(1, held / (double)op_int(op, ATTR_EQUAL, 1));
        }
        return (CodeCounts){.instructions = each * held};
    }
    double vector = (double)op_int(op, ATTR_VECTOR, 1), n;
    switch (op->kind) {
    case OP_LOAD:
    case OP_GATHER:
        n = code_registers(op_moved_value(op)->type) / vector;
        n *= own_load_share(size, op);
        return (CodeCounts){.instructions =
                                (op->kind == OP_LOAD ? LOAD : GATHER) * n + address(size, op),
                            .loads = n};
    case OP_STORE:
        n = code_registers(op_moved_value(op)->type) / vector;
        return (CodeCounts){.instructions = STORE * n + address(size, op)};
    case OP_SCATTER:
        n = text_equal(op_word(op, ATTR_FN), "set") ? code_registers(op_moved_value(op)->type) : 0;
        return (CodeCounts){.instructions = (SCATTER + CHECK * checks(op)) * n / vector};
    case OP_SHARED_STORE:
        n = code_registers(op_moved_value(op)->type);
        n /= code_shared_vector(func, op_moved_value(op)->type);
        return (CodeCounts){.instructions = SHARED * n, .shared_stores = n};
    case OP_SHARED_LOAD:
        n = code_registers(op_moved_value(op)->type);
        return (CodeCounts){.instructions = n / code_shared_vector(func, op_moved_value(op)->type)};
    case OP_COPY_LOAD: return (CodeCounts){.instructions = COPY};
    case OP_REDUCE:
    case OP_SCAN:
    case OP_FOLD: return code_combine_counts(size, op);
    case OP_MASK:
    case OP_INDEX:
    case OP_ADVANCE: return (CodeCounts){.instructions = code_registers(op->results[0]->type)};
    case OP_DOT_ASYNC:
    case OP_DOT:
        if (op_int(op, ATTR_MERGED, 0)) { /* the dot before it has the columns of both */
            return (CodeCounts){0};
        }
        return (CodeCounts){.instructions = dot_instructions(func, op)};
    case OP_BULK_LOAD:
    case OP_TAKE_TILE:
    case OP_READ_TILE:
    case OP_BULK_STORE: return (CodeCounts){.instructions = BULK};
    case OP_WAIT:
    case OP_ARRIVE: return (CodeCounts){.instructions = WAIT};
    case OP_TILE_LOOP: return (CodeCounts){.instructions = TILES};
    case OP_FOR:
    case OP_WHILE: return (CodeCounts){.instructions = LOOP};
    case OP_LAUNCH:
        return (CodeCounts){.instructions =
                                LAUNCH + grid_instructions(op) + (size->divides ? DIVIDE_SLOW : 0)};
    default: return (CodeCounts){0};
    }
}
