/* SPDX-License-Identifier: Apache-2.0 */
/* The dot op without matrix instructions: operands in shared memory, the accumulator in registers.
 * A run-time loop iterates over k in chunks; a chunk is straight-line code. Along k it proceeds in
 * blocks of one wide access of a; within a block, all multiply-adds of one k are a step (if b is
 * contiguous along k: of one column at all k). Reads are emitted some steps before their use, so
 * that they overlap with other multiply-adds (register blocking and double buffering as in maxas,
 * Gray 2014, and CUTLASS).
 *
 * A step visits the rows alternately forwards and backwards: where the register file delivers two
 * operands per cycle to a multiply-add and caches the last ones, one operand of a and one of b are
 * reused at each change of direction. Sums run over k in ascending order. */
#include "codegen/gpu/gpu_emitters.h"
#include "codegen/scalar/scalar_ops.h"

enum {
    MAX_CHUNK = 32, /* of any target */
    MAX_ACCUMULATORS = 64,
    AHEAD_PRODUCTS = 64, /* multiply-adds between a read and its use: twice the latency of shared
                          * memory */
};

/* One operand: its free axis (m or n) and k, in the shared tile's rows and columns. */
typedef struct DotSide {
    SharedTile tile;
    bool k_is_col;          /* k is contiguous */
    int acc_axis;           /* axis of the accumulator that is the free one */
    int n;                  /* distinct coordinates that this thread's registers have on it */
    int *coords;            /* ascending */
    LLVMValueRef *elements; /* [n][MAX_CHUNK], as they are in memory */
    int vector;             /* elements of a read */
} DotSide;

typedef struct DotLoop {
    GpuEmitter *em;
    const Op *op;
    Type type; /* of the accumulator */
    DotSide a, b;
    int64_t k;
    int chunk, block;
    LLVMValueRef *acc; /* by register */
    int n;
    int *registers; /* [a.n][b.n]: the accumulator, or -1 */
} DotLoop;

/* ---- what a thread needs ---- */

static void add_coord(DotSide *side, int coord)
{
    int at = side->n;
    for (int i = 0; i < side->n; i++) {
        if (side->coords[i] == coord) {
            return;
        }
    }
    for (; at > 0 && side->coords[at - 1] > coord; at--) {
        side->coords[at] = side->coords[at - 1];
    }
    side->coords[at] = coord;
    side->n++;
}

static int coord_at(const DotSide *side, int coord)
{
    int i = 0;
    while (side->coords[i] != coord) {
        i++;
    }
    return i;
}

static bool contiguous_at(const DotSide *side, int at, int n)
{
    if (at + n > side->n || side->coords[at] % n) {
        return false;
    }
    return side->coords[at + n - 1] - side->coords[at] == n - 1;
}

/* Elements of a read along the free axis: every run of coordinates must be whole. */
static int free_vector(const DotLoop *dot, const DotSide *side)
{
    int n = gpu_shared_vector(&side->tile);
    uint32_t thread = layout_thread_bits(dot->type->layout, side->acc_axis);
    for (; n > 1; n /= 2) {
        bool whole = (thread & (uint32_t)(n - 1)) == 0 && side->n % n == 0;
        for (int at = 0; whole && at < side->n; at += n) {
            whole = contiguous_at(side, at, n);
        }
        if (whole) {
            break;
        }
    }
    return n;
}

static void open_side(DotLoop *dot, DotSide *side, int operand, int acc_axis, bool k_is_col)
{
    Access access = op_access_nth(dot->op, operand);
    if (access.memory->type->kind != TYPE_SHARED) {
        gpu_bug(dot->em, dot->op, "its operands are read from shared memory");
    }
    side->tile = gpu_shared_tile(dot->em, &access);
    side->k_is_col = k_is_col;
    side->acc_axis = acc_axis;
    side->coords = ARENA_ARRAY(dot->em->arena, int, dot->n + 1);
    for (int r = 0; r < dot->n; r++) {
        if (gpu_holds(dot->em, dot->type, r)) {
            add_coord(side, gpu_register_coord(dot->type->layout, acc_axis, r));
        }
    }
    side->elements = ARENA_ARRAY(dot->em->arena, LLVMValueRef, side->n * MAX_CHUNK);
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static void choose_vector(const DotLoop *dot, DotSide *side)
{
    int most = gpu_shared_vector(&side->tile);
    side->vector = side->k_is_col ? most : free_vector(dot, side);
    while (side->k_is_col && dot->k % side->vector) {
        side->vector /= 2;
    }
}

/* 32-bit registers that the elements of this many k take. */
static int chunk_registers(const DotLoop *dot, int chunk)
{
    return chunk * (dot->a.n * dot->a.tile.elem_bytes + dot->b.n * dot->b.tile.elem_bytes) / 4;
}

/* An iteration is twice as long where a thread has many accumulators, since its first reads wait.
 * Without a loop, reads of the next tile wait for that tile as well: an iteration takes half a tile
 * at most. */
static bool chunk_fits(const DotLoop *dot, int chunk)
{
    const GpuFmaLimits *limits = &dot->em->target->fma;
    bool many = dot->a.n * dot->b.n > MAX_ACCUMULATORS && 2 * chunk <= dot->k;
    int products = many ? 2 * limits->chunk_products : limits->chunk_products;
    return chunk <= limits->chunk && (!products || chunk * dot->a.n * dot->b.n <= products) &&
           (!limits->chunk_registers || chunk_registers(dot, chunk) <= limits->chunk_registers);
}

static bool block_fits(const DotLoop *dot, int block)
{
    const GpuFmaLimits *limits = &dot->em->target->fma;
    return block <= limits->chunk && chunk_registers(dot, block) <= limits->block_registers;
}

/* ---- reading ---- */

/* Threads past the tile's last row or column read an element of it; nothing reads their result. */
static SharedCoord free_coord(DotLoop *dot, const DotSide *side, int coord)
{
    GpuEmitter *em = dot->em;
    const Layout *layout = dot->type->layout;
    LLVMValueRef part = gpu_thread_coord(em, layout, side->acc_axis);
    if (!gpu_overhangs(em, dot->type, side->acc_axis)) {
        return (SharedCoord){part, layout_thread_bits(layout, side->acc_axis), coord};
    }
    int64_t last = gpu_extent(em, dot->type, side->acc_axis) - 1;
    LLVMValueRef limit = gpu_i32(em, side->k_is_col ? last : last - last % side->vector);
    LLVMValueRef whole = LLVMBuildOr(em->builder, part, gpu_i32(em, coord), "");
    LLVMValueRef inside = LLVMBuildICmp(em->builder, LLVMIntSLE, whole, gpu_i32(em, last), "");
    whole = LLVMBuildSelect(em->builder, inside, whole, limit, "");
    return (SharedCoord){whole, UINT32_MAX, 0};
}

/* An access: along k, of coordinate number `at`, or along the free axis, from there on. */
static void read_piece(DotLoop *dot, DotSide *side, int at, LLVMValueRef k, int constant)
{
    LLVMValueRef out[16];
    SharedCoord free = free_coord(dot, side, side->coords[at]),
                along = (SharedCoord){k, ~(uint32_t)(dot->chunk - 1), constant};
    LLVMValueRef from = side->k_is_col ? gpu_shared_at(dot->em, &side->tile, free, along)
                                       : gpu_shared_at(dot->em, &side->tile, along, free);
    gpu_shared_read(dot->em, &side->tile, from, side->vector, out);
    for (int e = 0; e < side->vector; e++) {
        int coord = side->k_is_col ? at : at + e, step = side->k_is_col ? constant + e : constant;
        side->elements[coord * MAX_CHUNK + step] = out[e];
    }
}

/* All of coordinates [at, at + n) at the k of a block. */
static void read_block(DotLoop *dot, DotSide *side, int at, int n, LLVMValueRef k, int constant)
{
    int along = side->k_is_col ? side->vector : 1, across = side->k_is_col ? 1 : side->vector;
    for (int i = 0; i < dot->block; i += along) {
        for (int c = at; c < at + n; c += across) {
            read_piece(dot, side, c, k, constant + i);
        }
    }
}

/* ---- steps ---- */

/* Products that are emitted together: columns [col, col + cols) at k [k, k + depth) of a chunk. */
typedef struct Step {
    int k, depth, col, cols;
} Step;

/* Where elements are widened, a step takes all columns: a k's wide elements are then needed at one
 * place. */
static Step first_step(const DotLoop *dot)
{
    bool narrow = dot->a.tile.dtype != dot->type->dtype || dot->b.tile.dtype != dot->type->dtype;
    if (dot->b.k_is_col) {
        return (Step){0, dot->block, 0, narrow ? dot->b.n : 1};
    }
    return (Step){0, 1, 0, dot->b.n};
}

static int count_steps(const DotLoop *dot)
{
    Step first = first_step(dot);
    return dot->chunk / first.depth * (dot->b.n / first.cols);
}

static Step step_at(const DotLoop *dot, int nth)
{
    Step first = first_step(dot);
    int each = dot->b.n / first.cols;
    return (Step){nth / each * first.depth, first.depth, nth % each * first.cols, first.cols};
}

/* ---- the loop ---- */

static LLVMValueRef multiply_add(DotLoop *dot, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMBuilderRef builder = dot->em->builder;
    DType dtype = dot->type->dtype;
    if (dtype_is_float(dtype)) {
        return scalar_fma(dot->em->l, dtype, a, b, c);
    }
    return LLVMBuildAdd(builder, LLVMBuildMul(builder, a, b, ""), c, "");
}

/* Narrow elements take fewer registers than wide ones: they are cast where they are used. */
static LLVMValueRef element_at(DotLoop *dot, const DotSide *side, int at, int k)
{
    return scalar_cast(dot->em->l, side->elements[at * MAX_CHUNK + k], side->tile.dtype,
                       dot->type->dtype);
}

static void multiply_step(DotLoop *dot, const Step *step, LLVMValueRef *acc)
{
    int last = step->cols - 1;
    for (int k = step->k; k < step->k + step->depth; k++) {
        for (int row = 0; row < dot->a.n; row++) {
            for (int i = 0; i <= last; i++) {
                /* A pair of row and column without a register contributes to no element of this
                 * thread. */
                int column = step->col + (row % 2 ? last - i : i);
                int r = dot->registers[row * dot->b.n + column];
                if (r >= 0) {
                    acc[r] = multiply_add(dot, element_at(dot, &dot->a, row, k),
                                          element_at(dot, &dot->b, column, k), acc[r]);
                }
            }
        }
    }
}

static void emit_loop(DotLoop *dot)
{
    GpuEmitter *em = dot->em;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(em->builder);
    LLVMBasicBlockRef loop = gpu_new_block(em, "dot"), after = gpu_new_block(em, "dot.end");
    LLVMValueRef *phis = ARENA_ARRAY(em->arena, LLVMValueRef, dot->n);
    LLVMValueRef *acc = ARENA_ARRAY(em->arena, LLVMValueRef, dot->n);
    LLVMBuildBr(em->builder, loop);
    gpu_go(em, loop);
    LLVMValueRef k = LLVMBuildPhi(em->builder, em->i32, "k");
    for (int r = 0; r < dot->n; r++) {
        if (gpu_holds(dot->em, dot->type, r)) {
            acc[r] = phis[r] = LLVMBuildPhi(em->builder, LLVMTypeOf(dot->acc[r]), "");
        }
    }

    /* Reads run ahead of the products by enough steps to hide the latency of shared memory. */
    int n = count_steps(dot), read = 0;
    for (int i = 0; i < n; i++) {
        Step step = step_at(dot, i);
        int ahead = 1 + AHEAD_PRODUCTS / (step.depth * step.cols * dot->a.n);
        for (; read < n && read <= i + ahead; read++) {
            Step next = step_at(dot, read);
            if (next.col == 0 && next.k % dot->block == 0) {
                read_block(dot, &dot->a, 0, dot->a.n, k, next.k);
            }
            if (dot->b.k_is_col) {
                read_block(dot, &dot->b, next.col, next.cols, k, next.k);
                continue;
            }
            for (int col = next.col; col < next.col + next.cols; col += dot->b.vector) {
                read_piece(dot, &dot->b, col, k, next.k);
            }
        }
        multiply_step(dot, &step, acc);
    }

    LLVMValueRef next = LLVMBuildNUWAdd(em->builder, k, gpu_i32(em, dot->chunk), "");
    LLVMValueRef more = LLVMBuildICmp(em->builder, LLVMIntULT, next, gpu_i32(em, dot->k), "");
    LLVMBasicBlockRef from[] = {before, LLVMGetInsertBlock(em->builder)};
    LLVMBuildCondBr(em->builder, more, loop, after);
    LLVMAddIncoming(k, (LLVMValueRef[]){gpu_i32(em, 0), next}, from, 2);
    for (int r = 0; r < dot->n; r++) {
        if (phis[r]) {
            LLVMAddIncoming(phis[r], (LLVMValueRef[]){dot->acc[r], acc[r]}, from, 2);
            dot->acc[r] = acc[r];
        }
    }
    gpu_go(em, after);
}

static void start_acc(DotLoop *dot)
{
    GpuEmitter *em = dot->em;
    int at = access_next(dot->op, access_next(dot->op, 0));
    dot->acc = ARENA_ARRAY(em->arena, LLVMValueRef, dot->n);
    GpuValue acc = {.regs = dot->acc, .n = dot->n};
    if (at < dot->op->n_operands) {
        const Value *c = dot->op->operands[at];
        gpu_renamed(em, dot->op, c->type, gpu_value(em, c), dot->type, &acc);
        return;
    }
    LLVMValueRef zero = LLVMConstNull(gpu_type(em, dot->type->dtype));
    for (int r = 0; r < dot->n; r++) {
        dot->acc[r] = gpu_exists(em, dot->type, r) ? zero : NULL;
    }
}

void gpu_emit_dot(GpuEmitter *em, const Op *op)
{
    const Value *result = op->results[0];
    bool ta = op_int(op, ATTR_TA, 0), tb = op_int(op, ATTR_TB, 0);
    DotLoop dot = {.em = em, .op = op, .type = result->type, .n = gpu_registers(em, result->type)};
    if (dot.type->rank != 2) {
        gpu_bug(em, op, "its result is no matrix in registers");
    }
    open_side(&dot, &dot.a, 0, 0, !ta);
    open_side(&dot, &dot.b, 1, 1, tb);
    dot.k = ta ? dot.a.tile.rows : dot.a.tile.cols;

    /* The table maps each pair of row and column to the register of the result. */
    const Layout *layout = dot.type->layout;
    dot.registers = ARENA_ARRAY(dot.em->arena, int, dot.a.n *dot.b.n);
    for (int i = 0; i < dot.a.n * dot.b.n; i++) {
        dot.registers[i] = -1;
    }
    for (int r = 0; r < dot.n; r++) {
        if (gpu_holds(dot.em, dot.type, r)) {
            int row = coord_at(&dot.a, gpu_register_coord(layout, 0, r));
            int col = coord_at(&dot.b, gpu_register_coord(layout, 1, r));
            dot.registers[row * dot.b.n + col] = r;
        }
    }

    /* The chunk of k per iteration is the width of a vector along k, as far as the elements of A
     * fit in registers. */
    DotSide *a = &dot.a, *b = &dot.b;
    choose_vector(&dot, a);
    choose_vector(&dot, b);
    int wide_a = a->k_is_col ? a->vector : 1, wide_b = b->k_is_col ? b->vector : 1;
    int block = wide_a > wide_b ? wide_a : wide_b;
    while (block > 1 && !block_fits(&dot, block)) {
        block /= 2;
    }
    a->vector = a->k_is_col ? least(a->vector, block) : a->vector;
    b->vector = b->k_is_col ? least(b->vector, block) : b->vector;
    dot.block = dot.chunk = block;
    while (dot.k % (2 * dot.chunk) == 0 && chunk_fits(&dot, 2 * dot.chunk)) {
        dot.chunk *= 2;
    }
    start_acc(&dot);
    emit_loop(&dot);
    GpuValue *out = gpu_define(em, result);
    for (int r = 0; r < dot.n; r++) {
        out->regs[r] = dot.acc[gpu_canonical(dot.type->layout, r)];
    }
}
