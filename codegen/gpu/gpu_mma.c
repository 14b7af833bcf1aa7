/* SPDX-License-Identifier: Apache-2.0 */
/* The dot op by a matrix instruction of one warp (ir/layout/matrix_instrs.def). Fragments of both
 * operands are read from shared memory (the left one may be in registers); accumulators stay in
 * registers. All addresses follow from the instruction's layouts.
 *
 * The order of k is free as long as both operands use the same one. If threads read by ordinary
 * loads, each thread takes contiguous elements, so that one load is wide; if the left operand is
 * in registers, its layout decides the order. */
#include "codegen/gpu/gpu_emitters.h"
#include "codegen/scalar/scalar_ops.h"
#include "ir/layout/matrix_instr.h"

enum { WORD_BYTES = 4, WORD_HALVES = 8, MAX_RUN = 32, MAX_MATRICES = 4, MAX_BLOCKS = 64 };

typedef struct Side {
    const GpuValue *held; /* NULL: in shared memory */
    const Value *value;   /* that is held */
    SharedTile tile;
    DType dtype;        /* in memory or registers; the unit's own may be wider */
    bool k_is_col;      /* k is contiguous */
    Layout *layout;     /* of the whole tile: axes m or n, k */
    int64_t free;       /* extent of m or n */
    int own, blocks;    /* registers of one instruction; its repeats along m or n */
    int step_bits;      /* register bits between those */
    Layout *rows;       /* where lanes find the rows of 8 × 16 bytes; NULL: each reads its own */
    int word_bits;      /* register bits in a word of such a matrix, */
    int matrix_bits[2]; /* those that number the matrices of one access, */
    int n_matrices;     /* and how many it has */
    LLVMValueRef *elements; /* by register of the layout; by word, where matrices are read */
} Side;

typedef struct Product {
    GpuEmitter *em;
    const Op *op;
    const MatrixInstr *unit;
    Type type;
    int64_t k;
    MmaKOrder depth;
    Side a, b;
    LLVMValueRef *acc;
    int n, own; /* registers of the accumulator; of one instruction */
} Product;

static int bits_in(int count)
{
    int bits = 0;
    while (1 << bits < count) {
        bits++;
    }
    return bits;
}

/* ---- what goes where ---- */

static void open_side(Product *p, Side *side, int nth)
{
    GpuEmitter *em = p->em;
    Access access = op_access_nth(p->op, nth);
    bool turned = op_int(p->op, nth ? ATTR_TB : ATTR_TA, 0) != 0;
    side->dtype = access.memory->type->dtype;
    side->free = gpu_extent(em, p->type, nth);
    if (access.memory->type->kind == TYPE_SHARED) {
        side->tile = gpu_shared_tile(em, &access);
        side->k_is_col = (nth == 1) == turned;
        p->k = side->k_is_col ? side->tile.cols : side->tile.rows;
    } else if (nth == 0) {
        side->held = gpu_value(em, access.memory);
        side->value = access.memory;
    } else {
        gpu_bug(em, p->op, "its right operand is read from shared memory");
    }
}

static void choose_depth(Product *p)
{
    bool plain = p->em->target->load_matrices && p->a.dtype == p->unit->operands &&
                 p->b.dtype == p->unit->operands && dtype_bytes(p->a.dtype) <= WORD_BYTES;
    int bytes = dtype_bytes(p->a.dtype), right = dtype_bytes(p->b.dtype);
    bytes = bytes > right ? bytes : right;
    bool words = p->a.tile.packed || p->b.tile.packed;
    if (p->a.held) {
        if (!mma_k_order_registers(p->unit, p->k, &p->depth)) {
            gpu_bug(p->em, p->op, "its left operand cannot be in registers");
        }
    } else if (plain || mma_reads_elements(p->unit, p->a.dtype, p->b.dtype)) {
        p->depth = mma_k_order_plain(p->unit, p->k);
    } else if (mma_k_in_pairs(p->unit, p->a.dtype, p->b.dtype, !p->b.k_is_col)) {
        p->depth = mma_k_order_pairs(p->unit, p->k);
    } else {
        p->depth = mma_k_order_runs(p->unit, p->k, p->em->func->target->shared_row / bytes,
                                    words ? WORD_HALVES / 2 : 1);
    }
}

static Layout *kept(GpuEmitter *em, Layout layout)
{
    return arena_copy(em->arena, &layout, sizeof layout);
}

static void lay_out(Product *p, Side *side, int nth)
{
    Layout own = mma_layout(p->unit, nth ? MMA_B : MMA_A);
    Layout layout = mma_operand(p->unit, nth ? MMA_B : MMA_A, p->type->layout, &p->depth);
    side->layout = kept(p->em, layout);
    side->own = 1 << own.bits[IN_REGISTER];
    const Layout *result = p->type->layout;
    side->blocks = 1;
    for (int i = bits_in(p->own); i < result->bits[IN_REGISTER]; i++) {
        side->blocks *= result->basis[IN_REGISTER][i][nth] ? 2 : 1;
    }
    side->step_bits = layout.bits[IN_REGISTER] - own.bits[IN_REGISTER] - bits_in(side->blocks);
    side->elements = ARENA_ARRAY(p->em->arena, LLVMValueRef, layout_registers(side->layout));
}

/* ---- matrices of 8 × 16 bytes, which lanes read for one another ---- */

static bool reads_matrices(const Product *p, const Side *side)
{
    return !side->held && p->em->target->load_matrices &&
           mma_uses_ldmatrix(p->unit, side->layout, side->dtype, side->k_is_col);
}

/* Lane i has the address of row i % 8 of matrix i / 8. */
static void lay_out_rows(Product *p, Side *side)
{
    const Layout *layout = side->layout;
    side->word_bits = bits_in(WORD_BYTES / dtype_bytes(side->dtype));
    Layout rows = {.rank = 2};
    int left = layout->bits[IN_REGISTER] - side->word_bits;
    rows.bits[IN_LANE] = 5;
    for (int i = 0; i < 3; i++) {
        rows.basis[IN_LANE][i][side->k_is_col ? 0 : 1] = 1 << i;
    }
    side->n_matrices = 1;
    for (int i = 0; i < 2 && i < left; i++) {
        int bit = side->word_bits + i;
        side->matrix_bits[i] = bit;
        side->n_matrices *= 2;
        for (int axis = 0; axis < 2; axis++) {
            rows.basis[IN_LANE][3 + i][axis] = layout->basis[IN_REGISTER][bit][axis];
        }
    }
    rows.bits[IN_WARP] = layout->bits[IN_WARP];
    for (int i = 0; i < rows.bits[IN_WARP]; i++) {
        rows.basis[IN_WARP][i][0] = layout->basis[IN_WARP][i][0];
    }
    /* Registers as they are: those of words and matrices are 0 where an address is asked for. */
    rows.bits[IN_REGISTER] = layout->bits[IN_REGISTER];
    for (int i = 0; i < rows.bits[IN_REGISTER]; i++) {
        for (int axis = 0; axis < 2; axis++) {
            rows.basis[IN_REGISTER][i][axis] = layout->basis[IN_REGISTER][i][axis];
        }
    }
    side->rows = kept(p->em, rows);
}

/* ---- reading ---- */

static int32_t most_coord(const Layout *layout)
{
    int32_t most = (int32_t)layout_thread_bits(layout, 0);
    for (int i = 0; i < layout->bits[IN_REGISTER]; i++) {
        most |= layout->basis[IN_REGISTER][i][0];
    }
    return most;
}

/* Threads past the tile's last row or column read what is in it; nothing reads their result. */
static SharedCoord free_coord(Product *p, const Side *side, const Layout *layout, int r)
{
    GpuEmitter *em = p->em;
    int constant = gpu_register_coord(layout, 0, r);
    LLVMValueRef part = gpu_thread_coord(em, layout, 0);
    uint32_t bits = layout_thread_bits(layout, 0);
    if (most_coord(layout) < side->free) {
        return (SharedCoord){bits ? part : NULL, bits, constant};
    }
    LLVMValueRef whole = LLVMBuildOr(em->builder, part, gpu_i32(em, constant), "");
    LLVMValueRef inside =
        LLVMBuildICmp(em->builder, LLVMIntSLT, whole, gpu_i32(em, side->free), "");
    whole = LLVMBuildSelect(em->builder, inside, whole, gpu_i32(em, 0), "");
    return (SharedCoord){whole, UINT32_MAX, 0};
}

/* One ldmatrix reads the matrices of two steps. Where the number of steps is odd, the lanes of a
 * step after the last one read an element inside the tile instead; nothing uses it. */
static SharedCoord depth_coord(Product *p, const Layout *layout, int r)
{
    GpuEmitter *em = p->em;
    int constant = gpu_register_coord(layout, 1, r), end = (int)p->k;
    uint32_t bits = layout_thread_bits(layout, 1);
    LLVMValueRef part = bits ? gpu_thread_coord(em, layout, 1) : NULL;
    if (!bits || ((int)bits | constant) < end) {
        return (SharedCoord){part, bits, constant};
    }
    LLVMValueRef whole = LLVMBuildOr(em->builder, part, gpu_i32(em, constant), "");
    LLVMValueRef inside = LLVMBuildICmp(em->builder, LLVMIntSLT, whole, gpu_i32(em, end), "");
    whole = LLVMBuildSelect(em->builder, inside, whole, gpu_i32(em, 0), "");
    return (SharedCoord){whole, UINT32_MAX, 0};
}

static LLVMValueRef address(Product *p, const Side *side, const Layout *layout, int r)
{
    GpuEmitter *em = p->em;
    SharedCoord free = free_coord(p, side, layout, r), depth = depth_coord(p, layout, r);
    return side->k_is_col ? gpu_shared_at(em, &side->tile, free, depth)
                          : gpu_shared_at(em, &side->tile, depth, free);
}

/* Register bits of neighbours in memory. */
static int run_bits(const Side *side, int *bits)
{
    int most = bits_in(gpu_shared_vector(&side->tile));
    return gpu_run_bits(side->layout, side->k_is_col ? 1 : 0, most, bits);
}

/* As the unit takes it? A tf32 is an f32 in memory, rounded on its way there. */
static bool is_own(const MatrixInstr *unit, DType dtype)
{
    return dtype == unit->operands || (dtype == DT_F32 && unit->operands == DT_TF32);
}

/* One element, or two. */
static void widen(Product *p, const Side *side, LLVMValueRef *a, LLVMValueRef *b)
{
    Llvm *l = p->em->l;
    bool f8 = side->dtype == DT_F8E4M3 || side->dtype == DT_F8E5M2;
    if (is_own(p->unit, side->dtype)) {
        return;
    }
    if (b && f8 && p->unit->operands == DT_F16) {
        GpuEmitter *em = p->em;
        if (!em->target->widen_pair || !em->target->widen_pair(em, side->dtype, a, b)) {
            scalar_f8_pair_to_f16(l, a, b, side->dtype);
        }
        return;
    }
    *a = scalar_cast(l, *a, side->dtype, p->unit->operands);
    if (b) {
        *b = scalar_cast(l, *b, side->dtype, p->unit->operands);
    }
}

static void read_run(Product *p, Side *side, int r)
{
    int bits[LAYOUT_BITS];
    LLVMValueRef out[MAX_RUN];
    int n = run_bits(side, bits), all = gpu_deposit_bits(bits, n, -1);
    LLVMValueRef at = address(p, side, side->layout, r & ~all);
    if (side->tile.packed) {
        /* Elements of four bits are upcast a word at a time where the target can do so. */
        int n_elements = 1 << n;
        GpuEmitter *em = p->em;
        LLVMValueRef words[MAX_RUN / WORD_HALVES];
        bool done = n_elements % WORD_HALVES == 0 && em->target->widen_word;
        if (done) {
            gpu_packed_words(em, at, n_elements / WORD_HALVES, words);
        }
        for (int i = 0; i < n_elements && done; i += WORD_HALVES) {
            done = em->target->widen_word(em, side->dtype, p->unit->operands,
                                          words[i / WORD_HALVES], out + i);
        }
        if (!done) {
            gpu_shared_read(em, &side->tile, at, n_elements, out);
            for (int i = 0; i < n_elements; i++) {
                widen(p, side, &out[i], NULL);
            }
        }

    } else {
        gpu_shared_read(p->em, &side->tile, at, 1 << n, out);
    }
    for (int i = 0; i < 1 << n; i++) {
        side->elements[(r & ~all) | gpu_deposit_bits(bits, n, i)] = out[i];
    }
    for (int i = 0; i < 1 << n && !side->tile.packed; i += 2) {
        int first = (r & ~all) | gpu_deposit_bits(bits, n, i),
            second = (r & ~all) | gpu_deposit_bits(bits, n, i | 1);
        widen(p, side, &side->elements[first], n ? &side->elements[second] : NULL);
    }
}

/* The register of the held tile with this element. */
static LLVMValueRef held_element(Product *p, const Side *side, int r)
{
    const Layout *has = side->value->type->layout;
    int row = gpu_register_coord(side->layout, 0, r), k = gpu_register_coord(side->layout, 1, r);
    for (int i = 0; i < layout_registers(has); i++) {
        if (gpu_register_coord(has, 0, i) == row && gpu_register_coord(has, 1, i) == k) {
            return side->held->regs[i];
        }
    }
    gpu_bug(p->em, p->op, "its left operand lies otherwise than its result");
}

static int first_register(const Side *side, int step, int block)
{
    int own = bits_in(side->own);
    return step << own | block << (own + side->step_bits);
}

/* Is any of the block's rows or columns in the tile? */
static bool is_there(const Side *side, int block)
{
    return gpu_register_coord(side->layout, 0, first_register(side, 0, block)) < side->free;
}

static GpuFragment fragment(Product *p, Side *side, int step, int block)
{
    int first = first_register(side, step, block);
    for (int r = first; r < first + side->own; r++) {
        /* The element comes from a register operand, from ldmatrix, or from a contiguous run of
         * shared memory. */
        if (side->elements[side->rows ? r >> side->word_bits : r]) {
            continue;
        }
        if (side->held) {
            side->elements[r] = held_element(p, side, r);
            widen(p, side, &side->elements[r], NULL);
        } else if (side->rows) {
            /* One ldmatrix fills the registers of all its matrices. */
            LLVMValueRef words[MAX_MATRICES];
            int n = bits_in(side->n_matrices);
            int first_register =
                r & ~(gpu_deposit_bits(side->matrix_bits, n, -1) | ((1 << side->word_bits) - 1));
            LLVMValueRef at = address(p, side, side->rows, first_register);
            p->em->target->load_matrices(p->em, at, side->n_matrices, !side->k_is_col, words);
            for (int i = 0; i < side->n_matrices; i++) {
                side->elements[(first_register | gpu_deposit_bits(side->matrix_bits, n, i)) >>
                               side->word_bits] = words[i];
            }
        } else {
            read_run(p, side, r);
        }
    }
    return (GpuFragment){.items = side->elements + (first >> side->word_bits),
                         .n = side->own >> side->word_bits,
                         .words = side->rows != NULL};
}

/* ---- multiplying ---- */

static void multiply(Product *p, int step)
{
    GpuFragment a[MAX_BLOCKS], b[MAX_BLOCKS];
    int columns = bits_in(p->b.blocks), own = bits_in(p->own);
    for (int i = 0; i < p->a.blocks; i++) {
        a[i] = is_there(&p->a, i) ? fragment(p, &p->a, step, i) : (GpuFragment){0};
    }
    for (int i = 0; i < p->b.blocks; i++) {
        b[i] = is_there(&p->b, i) ? fragment(p, &p->b, step, i) : (GpuFragment){0};
    }
    for (int i = 0; i < p->a.blocks; i++) {
        for (int j = 0; j < p->b.blocks; j++) {
            if (a[i].n && b[j].n) {
                LLVMValueRef *acc = p->acc + ((i << columns | j) << own);
                p->em->target->multiply(p->em, p->unit, &a[i], &b[j], acc, p->own);
            }
        }
    }
}

void gpu_emit_matrix(GpuEmitter *em, const Op *op, const MatrixInstr *unit)
{
    const Value *result = op->results[0];
    Layout out = mma_layout(unit, MMA_OUT);
    Product p = {.em = em,
                 .op = op,
                 .unit = unit,
                 .type = result->type,
                 .own = 1 << out.bits[IN_REGISTER],
                 .n = gpu_registers(em, result->type)};
    open_side(&p, &p.a, 0);
    open_side(&p, &p.b, 1);
    choose_depth(&p);
    lay_out(&p, &p.a, 0);
    lay_out(&p, &p.b, 1);
    if (p.a.blocks > MAX_BLOCKS || p.b.blocks > MAX_BLOCKS || p.k % unit->k) {
        gpu_bug(em, op, "a tile that its unit does not take");
    }
    Side *sides[] = {&p.a, &p.b};
    for (int i = 0; i < 2; i++) {
        if (reads_matrices(&p, sides[i])) {
            lay_out_rows(&p, sides[i]);
        }
    }

    /* The instruction defines all registers of the accumulator; those outside of the tile are never
     * read. */
    int at = access_next(p.op, access_next(p.op, 0));
    LLVMValueRef zero = LLVMConstNull(gpu_type(em, p.type->dtype));
    p.acc = ARENA_ARRAY(em->arena, LLVMValueRef, p.n);
    GpuValue acc = {.regs = p.acc, .n = p.n};
    if (at < p.op->n_operands) {
        const Value *c = p.op->operands[at];
        gpu_renamed(em, p.op, c->type, gpu_value(em, c), p.type, &acc);
    }
    for (int r = 0; r < p.n; r++) {
        p.acc[r] = p.acc[r] ? p.acc[r] : zero;
    }

    for (int step = 0; step < p.k / unit->k; step++) {
        multiply(&p, step);
    }
    for (int r = 0; em->target->finish_dot && r < p.n; r += p.own) {
        em->target->finish_dot(em, unit, p.acc + r, p.own);
    }
    GpuValue *to = gpu_define(em, result);
    for (int r = 0; r < p.n; r++) {
        to->regs[r] = gpu_exists(em, p.type, r) ? p.acc[r] : NULL;
    }
}
