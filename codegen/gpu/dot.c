/* SPDX-License-Identifier: Apache-2.0 */
/* dot, unit fma: operands in shared memory, the accumulator in registers. A loop at run time walks
 * k in chunks of one wide access; in a chunk each thread reads the rows of a and the columns of b
 * that its accumulators need, and multiplies. Sums run over k in ascending order. */
#include "codegen/gpu/tiles.h"
#include "codegen/scalar_ops.h"

enum { MOST_CHUNK = 8, MOST_CHUNK_REGISTERS = 64 };

/* One operand: its free axis (m or n) and k, in the shared tile's rows and columns. */
typedef struct DotSide {
    SharedTile tile;
    bool k_is_col;          /* k is contiguous */
    int acc_axis;           /* axis of the accumulator that is the free one */
    int n;                  /* distinct coordinates that this thread's registers have on it */
    int *coords;            /* ascending */
    LLVMValueRef *elements; /* [n][chunk], as they are in memory */
    int vector;             /* elements of a read */
} DotSide;

typedef struct DotLoop {
    GpuEmitter *em;
    const Op *op;
    Type type; /* of the accumulator */
    DotSide a, b;
    int64_t k;
    int chunk;
    LLVMValueRef *acc; /* by register */
    int n;
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

/* Is this the register to compute? Others do not exist or are copies. */
static bool computes(const DotLoop *dot, int r)
{
    return gpu_exists(dot->em, dot->type, r) && gpu_canonical(dot->type->layout, r) == r;
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
    uint32_t thread = gpu_thread_bits(dot->type->layout, side->acc_axis);
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
        if (computes(dot, r)) {
            add_coord(side, gpu_register_coord(dot->type->layout, acc_axis, r));
        }
    }
    side->elements = ARENA_ARRAY(dot->em->arena, LLVMValueRef, side->n * MOST_CHUNK);
}

/* 32-bit registers that a chunk's elements take. */
static int chunk_registers(const DotLoop *dot, int chunk)
{
    return chunk * (dot->a.n * dot->a.tile.elem_bytes + dot->b.n * dot->b.tile.elem_bytes) / 4;
}

static void choose_chunk(DotLoop *dot)
{
    int chunk = MOST_CHUNK;
    int wide = 1;
    DotSide *sides[] = {&dot->a, &dot->b};
    for (int i = 0; i < 2; i++) {
        int vector = sides[i]->k_is_col ? gpu_shared_vector(&sides[i]->tile) : 2;
        wide = vector > wide ? vector : wide;
    }
    chunk = wide < chunk ? wide : chunk;
    while (dot->k % chunk || (chunk > 1 && chunk_registers(dot, chunk) > MOST_CHUNK_REGISTERS)) {
        chunk /= 2;
    }
    dot->chunk = chunk;
    for (int i = 0; i < 2; i++) {
        int most = gpu_shared_vector(&sides[i]->tile);
        sides[i]->vector = !sides[i]->k_is_col ? free_vector(dot, sides[i])
                           : most < chunk      ? most
                                               : chunk;
    }
}

/* ---- reading ---- */

/* Threads past the tile's last row or column read an element of it; nobody reads their result. */
static SharedCoord free_coord(DotLoop *dot, const DotSide *side, int coord)
{
    GpuEmitter *em = dot->em;
    const Layout *layout = dot->type->layout;
    LLVMValueRef part = gpu_thread_coord(em, layout, side->acc_axis);
    if (!gpu_overhangs(em, dot->type, side->acc_axis)) {
        return (SharedCoord){part, gpu_thread_bits(layout, side->acc_axis), coord};
    }
    int64_t last = gpu_extent(em, dot->type, side->acc_axis) - 1;
    LLVMValueRef limit = gpu_i32(em, side->k_is_col ? last : last - last % side->vector);
    LLVMValueRef whole = LLVMBuildOr(em->builder, part, gpu_i32(em, coord), "");
    LLVMValueRef inside = LLVMBuildICmp(em->builder, LLVMIntSLE, whole, gpu_i32(em, last), "");
    whole = LLVMBuildSelect(em->builder, inside, whole, limit, "");
    return (SharedCoord){whole, UINT32_MAX, 0};
}

static SharedCoord k_coord(const DotLoop *dot, LLVMValueRef k, int constant)
{
    return (SharedCoord){k, ~(uint32_t)(dot->chunk - 1), constant};
}

static void read_along_k(DotLoop *dot, DotSide *side, LLVMValueRef k)
{
    LLVMValueRef out[MOST_CHUNK];
    for (int at = 0; at < side->n; at++) {
        SharedCoord row = free_coord(dot, side, side->coords[at]);
        for (int i = 0; i < dot->chunk; i += side->vector) {
            LLVMValueRef from = gpu_shared_at(dot->em, &side->tile, row, k_coord(dot, k, i));
            gpu_shared_read(dot->em, &side->tile, from, side->vector, out);
            for (int e = 0; e < side->vector; e++) {
                side->elements[at * MOST_CHUNK + i + e] = out[e];
            }
        }
    }
}

static void read_along_free(DotLoop *dot, DotSide *side, LLVMValueRef k)
{
    LLVMValueRef out[16];
    for (int i = 0; i < dot->chunk; i++) {
        for (int at = 0; at < side->n; at += side->vector) {
            SharedCoord col = free_coord(dot, side, side->coords[at]);
            LLVMValueRef from = gpu_shared_at(dot->em, &side->tile, k_coord(dot, k, i), col);
            gpu_shared_read(dot->em, &side->tile, from, side->vector, out);
            for (int e = 0; e < side->vector; e++) {
                side->elements[(at + e) * MOST_CHUNK + i] = out[e];
            }
        }
    }
}

static void read_side(DotLoop *dot, DotSide *side, LLVMValueRef k)
{
    if (side->k_is_col) {
        read_along_k(dot, side, k);
    } else {
        read_along_free(dot, side, k);
    }
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

/* Cast step by step: the narrow elements of a chunk take fewer registers than the wide ones. */
static void widen(DotLoop *dot, DotSide *side, int k)
{
    for (int at = 0; at < side->n; at++) {
        LLVMValueRef *element = &side->elements[at * MOST_CHUNK + k];
        *element = scalar_cast(dot->em->l, *element, side->tile.dtype, dot->type->dtype);
    }
}

static void multiply(DotLoop *dot, LLVMValueRef *acc)
{
    const Layout *layout = dot->type->layout;
    for (int k = 0; k < dot->chunk; k++) {
        widen(dot, &dot->a, k);
        widen(dot, &dot->b, k);
        for (int r = 0; r < dot->n; r++) {
            if (!computes(dot, r)) {
                continue;
            }
            int row = coord_at(&dot->a, gpu_register_coord(layout, 0, r));
            int col = coord_at(&dot->b, gpu_register_coord(layout, 1, r));
            acc[r] = multiply_add(dot, dot->a.elements[row * MOST_CHUNK + k],
                                  dot->b.elements[col * MOST_CHUNK + k], acc[r]);
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
        if (computes(dot, r)) {
            acc[r] = phis[r] = LLVMBuildPhi(em->builder, LLVMTypeOf(dot->acc[r]), "");
        }
    }
    read_side(dot, &dot->a, k);
    read_side(dot, &dot->b, k);
    multiply(dot, acc);
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
    choose_chunk(&dot);
    start_acc(&dot);
    emit_loop(&dot);
    GpuValue *out = gpu_define(em, result);
    for (int r = 0; r < dot.n; r++) {
        out->regs[r] = dot.acc[gpu_canonical(dot.type->layout, r)];
    }
}
