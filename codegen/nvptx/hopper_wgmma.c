/* SPDX-License-Identifier: Apache-2.0 */
/* sm_90a: warp-group MMA (wgmma). A warp group (4 warps) multiplies 64 rows of A by up to 256
 * columns of B, 32 bytes of k per instruction. A dot_async issues all instructions of its tile and
 * commits them as one group.
 *
 * Operands in shared memory are given by descriptors (PTX ISA, "Matrix Descriptor"). A column
 * chunk is `pitch` = swizzle bytes wide (hopper.h). There are two arrangements:
 *    k along the columns     one instruction reads 32 bytes of each row; 8 rows are 8 * pitch
 *                            bytes apart (stride offset); chunks are selected by the address, and
 *                            the leading offset is not used
 *    k along the rows        16-bit elements only: m (or n) is contiguous along a row and, after
 *                            `pitch` bytes, continues in the next chunk (leading offset); 8 steps
 *                            of k are 8 * pitch bytes apart (stride offset) */
#include "codegen/nvptx/hopper.h"
#include "codegen/scalar/scalar_ops.h"
#include "ir/build.h"
#include "ir/layout/matrix_instr.h"
#include "support/int_math.h"

enum {
    GROUP_WARPS_BITS = 2,
    A_REGISTERS = 4,
    WORD_BYTES = 4,
    ADDRESS_BITS = 0x3ffff, /* of a byte of a block's shared memory */
};

typedef struct Operand {
    HopperTile tile;
    bool k_rows; /* k along the rows of the tile */
} Operand;

typedef struct Product Product;
struct Product {
    GpuEmitter *em;
    const MatrixInstr *instruction;
    Op *op;
    GpuValue *out;
    Product *joined; /* whose columns follow, in the same instructions; or NULL */
    int64_t m, n, k;
    int repeats;           /* of 64 rows, a warp group */
    int row_registers;     /* registers of one repeat */
    LLVMValueRef *a_words; /* registers of A; NULL: it is in shared memory */
    int a_row_words;       /* of one repeat, */
    int a_stride;          /* which begins this many after the one before */
    Operand a, b;
    LLVMValueRef a_row;        /* of A in shared memory, the first one of the warp group */
    LLVMValueRef b_descriptor; /* i64, of the tile's start */
    const GpuValue *acc;       /* NULL: zero */
    const char *type;          /* of an operand, as PTX calls it */
    int elem_bytes, depth;
    bool ints; /* sums are 32-bit integers */
};

/* ---- descriptors ---- */

static int64_t descriptor_mode(int swizzle)
{
    switch (swizzle) {
    case 128: return 1;
    case 64: return 2;
    default: return 3;
    }
}

static LLVMValueRef descriptor_at(GpuEmitter *em, const Operand *operand, LLVMValueRef address)
{
    if (em->plan_launch->cluster > 1) { /* which block of it stands above the address */
        address = LLVMBuildAnd(em->builder, address, gpu_i32(em, ADDRESS_BITS), "");
    }
    LLVMValueRef unit = LLVMBuildLShr(em->builder, address, gpu_i32(em, 4), "");
    LLVMValueRef wide = LLVMBuildZExt(em->builder, unit, em->i64, "");
    const HopperTile *tile = &operand->tile;
    uint64_t leading = operand->k_rows ? (uint64_t)(tile->rows * tile->pitch / 16) : 1;
    uint64_t stride = (uint64_t)(8 * tile->pitch / 16);
    uint64_t bits = leading << 16 | stride << 32 | (uint64_t)descriptor_mode(tile->swizzle) << 62;
    return LLVMBuildOr(em->builder, wide, LLVMConstInt(em->i64, bits, false), "");
}

/* Bytes from the tile's start to where an instruction begins that takes from `outer` (a row of A, a
 * column of B) and from `k`. */
static int64_t operand_offset(const Operand *operand, int64_t outer, int64_t k)
{
    const HopperTile *tile = &operand->tile;
    int64_t row = operand->k_rows ? k : outer;
    int64_t byte = (operand->k_rows ? outer : k) * tile->elem_bytes;
    return byte / tile->pitch * tile->rows * tile->pitch + row * tile->pitch + byte % tile->pitch;
}

/* ---- reading the op ---- */

static Operand shared_operand(Product *p, const Access *access, bool k_rows)
{
    Operand operand = {.tile = hopper_tile(p->em, p->op, access), .k_rows = k_rows};
    const HopperTile *tile = &operand.tile;
    if (tile->swizzle == 0 || tile->elem_bytes != p->elem_bytes ||
        tile->chunks * tile->pitch != tile->cols * tile->elem_bytes) {
        gpu_bug(p->em, p->op, "wgmma reads tiles that are swizzled in whole chunks");
    }
    if (k_rows && tile->elem_bytes != 2) {
        gpu_bug(p->em, p->op, "wgmma reads 8-bit operands along k");
    }
    return operand;
}

/* Two 16-bit values in one register. Two roundings from f32 are one instruction. */
static LLVMValueRef pack_pair(GpuEmitter *em, LLVMValueRef low, LLVMValueRef high)
{
    LLVMTypeRef pair = LLVMVectorType(LLVMTypeOf(low), 2);
    LLVMValueRef both;
    if (LLVMIsAFPTruncInst(low) && LLVMIsAFPTruncInst(high) &&
        LLVMTypeOf(LLVMGetOperand(low, 0)) == em->f32) {
        const char *name =
            LLVMTypeOf(low) == em->bf16 ? "llvm.nvvm.ff2bf16x2.rn" : "llvm.nvvm.ff2f16x2.rn";
        both = gpu_intrinsic(em, name, 0, NULL, 2,
                             (LLVMValueRef[]){LLVMGetOperand(high, 0), LLVMGetOperand(low, 0)});
    } else {
        both = LLVMBuildInsertElement(em->builder, LLVMGetPoison(pair), low, gpu_i32(em, 0), "");
        both = LLVMBuildInsertElement(em->builder, both, high, gpu_i32(em, 1), "");
    }
    return LLVMBuildBitCast(em->builder, both, em->i32, "");
}

/* The first row of the tile that the warp group multiplies. */
static LLVMValueRef first_row(GpuEmitter *em, const Layout *layout)
{
    LLVMValueRef row = gpu_i32(em, 0);
    for (int bit = GROUP_WARPS_BITS; bit < layout->bits[IN_WARP]; bit++) {
        int64_t rows = layout->basis[IN_WARP][bit][0];
        LLVMValueRef set = LLVMBuildLShr(em->builder, em->role->warp, gpu_i32(em, bit), "");
        set = LLVMBuildAnd(em->builder, set, gpu_i32(em, 1), "");
        row = LLVMBuildAdd(em->builder, row, LLVMBuildMul(em->builder, set, gpu_i32(em, rows), ""),
                           "");
    }
    return row;
}

/* True if a warp group has rows that the tile has not: 192 rows, of which two groups would have a
 * power of two each, are 128 and 64. */
static bool reaches_past(const Product *p, const Layout *layout)
{
    int64_t rows = p->repeats * p->instruction->m;
    bool found = false;
    for (int warp = 0; warp < p->em->role->warps; warp += 1 << GROUP_WARPS_BITS) {
        int64_t row = 0;
        for (int bit = GROUP_WARPS_BITS; bit < layout->bits[IN_WARP]; bit++) {
            row += warp >> bit & 1 ? layout->basis[IN_WARP][bit][0] : 0;
        }
        found = found || row + rows > p->m;
    }
    return found;
}

/* A's descriptor for one repeat, to which the instruction adds the repeat's offset. For rows that
 * the tile has not, a warp group multiplies the tile's last ones once more, and no thread reads the
 * result: behind the tile are other buffers, or nothing, and the device refuses such an address. */
static LLVMValueRef a_descriptor(Product *p, int repeat)
{
    GpuEmitter *em = p->em;
    const HopperTile *tile = &p->a.tile;
    LLVMValueRef row = p->a_row;
    if (reaches_past(p, p->op->results[0]->type->layout)) {
        int64_t last = p->m - (int64_t)(repeat + 1) * p->instruction->m;
        row = gpu_intrinsic(em, "llvm.umin", 1, &em->i32, 2,
                            (LLVMValueRef[]){row, gpu_i32(em, last)});
    }
    /* With k along the rows, 64 rows of A are whole column chunks. */
    int64_t each = p->a.k_rows ? tile->rows * tile->elem_bytes : tile->pitch;
    LLVMValueRef at = LLVMBuildMul(em->builder, row, gpu_i32(em, each), "");
    return descriptor_at(em, &p->a, LLVMBuildAdd(em->builder, tile->address, at, ""));
}

static void read_a(Product *p, const Access *a)
{
    GpuEmitter *em = p->em;
    if (a->n == 0) {
        Type type = a->memory->type;
        Layout wanted = layout_wgmma_acc(p->m, p->k, em->role->warps);
        if (!type->layout || !layout_equal(type->layout, &wanted)) {
            gpu_bug(em, p->op, "A in registers has the accumulator's layout");
        }
        /* A's fragment has the accumulator's layout: pairs along the columns share a register, in
         * its order. */
        const GpuValue *value = gpu_value(em, a->memory);
        int registers = layout_registers(&wanted);
        DType to = mma_of_dot(p->em->func->target, p->op)->operands;
        int n = registers / 2;
        p->a_stride = n / p->repeats; /* columns past the last one have registers, but no values */
        p->a_row_words = (int)(p->k / p->depth) * A_REGISTERS;
        p->a_words = ARENA_ARRAY(p->em->arena, LLVMValueRef, n);
        for (int i = 0; i < n; i++) {
            LLVMValueRef low = value->regs[2 * i], high = value->regs[2 * i + 1];
            if (low && high && type->dtype != to) {
                low = scalar_cast(p->em->l, low, type->dtype, to);
                high = scalar_cast(p->em->l, high, type->dtype, to);
            }
            p->a_words[i] = low && high ? pack_pair(p->em, low, high) : NULL;
        }
        return;
    }
    p->a_row_words = (int)(p->k / p->depth) * A_REGISTERS;
    if (op_int(p->op, ATTR_TA, 0) && p->elem_bytes == WORD_BYTES) {
        p->a_words = hopper_read_left(em, p->op, a, p->k);
        p->a_stride = A_REGISTERS << log2_ceil(p->k / p->depth);
        return;
    }
    const MatrixInstr *unit = mma_of_dot(em->func->target, p->op);
    if (mma_upcasts_a(unit, a->memory->type->dtype)) {
        p->a_words = hopper_widen_left(em, p->op, a, unit->operands, p->k);
        p->a_stride = A_REGISTERS << log2_ceil(p->k / p->depth);
        return;
    }
    p->a = shared_operand(p, a, op_int(p->op, ATTR_TA, 0) != 0);
    p->a_row = first_row(em, p->op->results[0]->type->layout);
}

static Product read_product(GpuEmitter *em, Op *op)
{
    Product p = {.em = em, .op = op};
    Access a = op_access_nth(op, 0), b = op_access_nth(op, 1);
    Type result = op->results[0]->type;
    p.m = gpu_extent(em, result, 0);
    p.n = gpu_extent(em, result, 1);
    bool b_transposed = op_int(op, ATTR_TB, 0) != 0;
    p.k = gpu_extent(em, b.memory->type, b.n > 0 ? b.n - (b_transposed ? 1 : 2) : 0);
    /* The instruction of the dot fixes its types and its k. */
    const MatrixInstr *unit = mma_of_dot(p.em->func->target, p.op);
    if (!unit || unit->scope == MMA_WARP) {
        gpu_bug(p.em, p.op, "wgmma multiplies floats and integers of 8 bits, f16, bf16");
    }
    p.instruction = unit;
    p.type = unit->instruction;
    p.elem_bytes = dtype_bytes(b.memory->type->dtype);
    p.depth = unit->k;
    p.ints = !dtype_is_float(b.memory->type->dtype);
    /* The extents and the layout of the result must be those of the instruction. */
    bool f32 = p.op->results[0]->type->dtype == DT_F32;
    int columns = p.ints ? 16 : 8;
    if (p.m % p.instruction->m || p.n % columns || p.k % p.depth ||
        p.em->role->warps % mma_warps(p.instruction) || f32 == p.ints) {
        gpu_bug(p.em, p.op,
                "wgmma multiplies 64 rows, 8 columns (of integers 16), 32 bytes deep (or "
                "multiples), into f32 or 32-bit integers");
    }
    const int64_t extents[] = {p.m, p.n};
    Layout wanted = mma_group_result(mma_of_dot(p.em->func->target, p.op), extents,
                                     p.em->role->warps, op_int(p.op, ATTR_TA, 0) != 0);
    const Layout *layout = p.op->results[0]->type->layout;
    if (!layout || !layout_equal(layout, &wanted)) {
        gpu_bug(p.em, p.op, "the result has the accumulator's layout");
    }
    if (b.n == 0) {
        gpu_bug(em, op, "wgmma takes B from shared memory");
    }
    p.row_registers = 4 << log2_ceil(p.n / 8);
    p.repeats = layout_registers(result->layout) / p.row_registers;
    p.b = shared_operand(&p, &b, !b_transposed);
    p.b_descriptor = descriptor_at(em, &p.b, p.b.tile.address);
    read_a(&p, &a);
    int at = access_next(op, access_next(op, 0));
    /* A zero accumulator needs no registers: the first instruction overwrites it. */
    if (at < op->n_operands && !value_is_const(op->operands[at], 0)) {
        p.acc = gpu_value(em, op->operands[at]);
    }
    return p;
}

/* ---- one statement: all of k for 64 rows and up to 256 columns ---- */

/* Operand numbers: results, then (A's registers | A's descriptor), B's descriptor, then the tied
 * accumulators. */
typedef struct Statement {
    Product *p;
    int64_t n_from, n; /* columns */
    int repeat;
    int results; /* accumulator registers */
    int own;     /* of them, of the product itself; the others are the joined one's */
    int first;   /* of them, in the value */
    Text text, constraints;
    LLVMValueRef *args;
    int n_args;
} Statement;

static void add_arg(Statement *s, const char *constraint, LLVMValueRef arg)
{
    text_printf(&s->constraints, "%s%s", s->constraints.n ? "," : "", constraint);
    s->args[s->n_args++] = arg;
}

/* The statement's n-th sum, as it was, or zero: NULL. */
static LLVMValueRef sum_before(const Statement *s, int i)
{
    const Product *p = i < s->own ? s->p : s->p->joined;
    return p->acc ? p->acc->regs[s->first + (i < s->own ? i : i - s->own)] : NULL;
}

static LLVMValueRef *sum_after(const Statement *s, int i)
{
    const Product *p = i < s->own ? s->p : s->p->joined;
    return &p->out->regs[s->first + (i < s->own ? i : i - s->own)];
}

static void add_list(Text *text, int first, int n)
{
    for (int i = 0; i < n; i++) {
        text_printf(text, "%s$%d", i ? ", " : "{", first + i);
    }
    text_char(text, '}');
}

/* One instruction: k from `k`. Addresses in descriptors are in units of 16 bytes. */
static void add_instruction(Statement *s, int64_t k)
{
    Product *p = s->p;
    Text *text = &s->text;
    int b_at = s->results + (p->a_words ? p->a_row_words : 1);
    int64_t b_offset = operand_offset(&p->b, s->n_from, k) / 16;
    if (!p->a_words) {
        int64_t a_offset = operand_offset(&p->a, (int64_t)s->repeat * p->instruction->m, k) / 16;
        text_printf(text, "add.s64 a, $%d, %d;\n\t", s->results, (int)a_offset);
    }
    text_printf(text, "add.s64 b, $%d, %d;\n\t", b_at, (int)b_offset);
    text_printf(text, "setp.ne.b32 p, %d, 0;\n\t", k > 0 || p->acc);
    text_printf(text, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s ", (int)s->n, p->depth,
                p->ints ? "s32" : "f32", p->type, p->type);
    add_list(text, 0, s->results);
    text_add(text, ", ");
    if (p->a_words) {
        add_list(text, s->results + (int)(k / p->depth) * A_REGISTERS, A_REGISTERS);
    } else {
        text_char(text, 'a');
    }
    text_add(text, p->ints ? ", b, p" : ", b, p, 1, 1");
    if (p->elem_bytes == 2 && !p->a_words) {
        text_printf(text, ", %d", p->a.k_rows);
    }
    if (p->elem_bytes == 2) {
        text_printf(text, ", %d", p->b.k_rows);
    }
    text_add(text, ";\n\t");
}

static LLVMTypeRef result_type(GpuEmitter *em, LLVMTypeRef element, int n)
{
    LLVMTypeRef *types = ARENA_ARRAY(em->arena, LLVMTypeRef, n);
    for (int i = 0; i < n; i++) {
        types[i] = element;
    }
    return LLVMStructTypeInContext(em->context, types, (unsigned)n, false);
}

static void see_pending(Op *op, void *user)
{
    bool *found = user;
    *found = *found || (op->kind == OP_DOT_WAIT && op_int(op, ATTR_PENDING, 0) > 0);
}

/* Who waits for all but some counts a group a product: a joined one's has nothing in it then. */
static bool groups_are_counted(GpuEmitter *em)
{
    bool found = false;
    block_walk(em->launch->regions[0], see_pending, &found);
    return found;
}

static void emit_statement(Product *p, int repeat, int64_t n_from, bool last)
{
    GpuEmitter *em = p->em;
    int64_t n = p->n - n_from < p->instruction->max_n ? p->n - n_from : p->instruction->max_n;
    int64_t joined = p->joined ? p->joined->n : 0;
    Statement s = {.p = p,
                   .n_from = n_from,
                   .n = n + joined,
                   .repeat = repeat,
                   .results = (int)((n + joined) / 2),
                   .own = (int)(n / 2),
                   .first = repeat * p->row_registers + (int)(n_from / 2),
                   .text = text_new(em->arena),
                   .constraints = text_new(em->arena)};
    s.args = ARENA_ARRAY(em->arena, LLVMValueRef, s.results + p->a_row_words + 2);

    /* The operands are A (registers or a descriptor), B's descriptor, and the accumulator. */
    Product *product = s.p;
    for (int i = 0; i < s.results; i++) {
        text_printf(&s.constraints, "%s%s", i ? "," : "", product->ints ? "=r" : "=f");
    }
    if (product->a_words) {
        for (int i = 0; i < product->a_row_words; i++) {
            add_arg(&s, "r", product->a_words[s.repeat * product->a_stride + i]);
        }
    } else {
        add_arg(&s, "l", a_descriptor(product, repeat));
    }
    add_arg(&s, "l", product->b_descriptor);
    for (int i = 0; product->acc && i < s.results; i++) {
        add_arg(&s, arena_printf(product->em->arena, "%d", i), sum_before(&s, i));
    }
    text_add(&s.constraints, ",~{memory}");

    text_add(&s.text, "{\n\t.reg .b64 a, b;\n\t.reg .pred p;\n\t");
    if (repeat == 0 && n_from == 0) {
        text_add(&s.text, "wgmma.fence.sync.aligned;\n\t");
    }
    for (int64_t k = 0; k < p->k; k += p->depth) {
        add_instruction(&s, k);
    }
    const char *commit = "wgmma.commit_group.sync.aligned;\n\t";
    text_printf(&s.text, "%s%s}", last ? commit : "",
                last && p->joined && groups_are_counted(em) ? commit : "");
    LLVMTypeRef type = result_type(em, p->ints ? em->i32 : em->f32, s.results);
    LLVMValueRef results =
        gpu_asm(em, type, s.text.data, s.constraints.data, true, s.n_args, s.args);
    for (int i = 0; i < s.results; i++) {
        *sum_after(&s, i) = LLVMBuildExtractValue(em->builder, results, (unsigned)i, "");
    }
}

static void emit_product(Product *p)
{
    /* Of a group that has no power of two of rows, registers past them do not exist. */
    int rows = (int)(p->m / p->instruction->m);
    p->repeats = p->repeats < rows ? p->repeats : rows;
    for (int repeat = 0; repeat < p->repeats; repeat++) {
        for (int64_t n = 0; n < p->n; n += p->instruction->max_n) {
            emit_statement(p, repeat, n,
                           repeat + 1 == p->repeats && n + p->instruction->max_n >= p->n);
        }
    }
}

/* ---- two products in one instruction ---- */

/* The product of the block that comes next, when nothing but waits and scalars stands between. */
static Op *next_product(const Op *op)
{
    const Value *result = op->results[0];
    for (Op *next = op->next; next; next = next->next) {
        for (int i = 0; i < next->n_operands; i++) {
            if (next->operands[i] == result) {
                return NULL;
            }
        }
        if (next->kind == OP_DOT_ASYNC) {
            return next;
        }
        if (next->kind != OP_WAIT && next->kind != OP_CONST &&
            (!op_has(next, TRAIT_PURE) || next->n_regions ||
             !(next->n_results == 1 && type_is_scalar(next->results[0]->type)))) {
            return NULL;
        }
    }
    return NULL;
}

static Op *joined_after(const Op *op)
{
    Op *next = next_product(op);
    return next && op_int(next, ATTR_MERGED, 0) && !op_int(op, ATTR_MERGED, 0) ? next : NULL;
}

static Op *joined_before(const Op *op)
{
    Op *before = op->prev;
    while (before && before->kind != OP_DOT_ASYNC) {
        before = before->prev;
    }
    return before && joined_after(before) == op ? before : NULL;
}

void hopper_emit_dot_async(GpuEmitter *em, Op *op)
{
    const char *unit = op_word(op, ATTR_INSTRUCTION);
    if (!unit || !text_equal(unit, "wgmma")) {
        gpu_bug(em, op, "products in flight are of unit wgmma here");
    }
    if (joined_after(op)) {
        return; /* with the next one */
    }
    Op *first = op_int(op, ATTR_MERGED, 0) ? joined_before(op) : NULL;
    if (first) {
        /* Merged dots are one instruction if both start alike and the instruction is wide
         * enough. */
        Product p = read_product(em, first), joined = read_product(em, op);
        p.out = gpu_define(em, first->results[0]);
        joined.out = gpu_define(em, op->results[0]);
        if ((p.acc == NULL) == (joined.acc == NULL) && p.n + joined.n <= p.instruction->max_n) {
            p.joined = &joined;
            emit_product(&p);
        } else {
            emit_product(&p);
            emit_product(&joined);
        }

        return;
    }
    Product p = read_product(em, op);
    p.out = gpu_define(em, op->results[0]);
    emit_product(&p);
}

/* ---- dot_wait ---- */

void hopper_emit_dot_wait(GpuEmitter *em, Op *op)
{
    int64_t pending = op_int(op, ATTR_PENDING, 0);
    int total = 0, n = 0;
    for (int i = 0; i < op->n_operands; i++) {
        GpuValue *from = gpu_value(em, op->operands[i]), *to = gpu_define(em, op->results[i]);
        for (int r = 0; r < from->n; r++) {
            to->regs[r] = from->regs[r];
        }
        total += from->n;
    }
    LLVMValueRef **slots = ARENA_ARRAY(em->arena, LLVMValueRef *, total + 1);
    for (int i = 0; i + pending < op->n_operands; i++) {
        GpuValue *value = gpu_value(em, op->results[i]);
        for (int r = 0; r < value->n; r++) {
            if (value->regs[r]) {
                slots[n++] = &value->regs[r];
            }
        }
    }

    /* The wait has each awaited value as an output, so that no reader moves before it. */
    Text constraints = text_new(em->arena);
    LLVMValueRef *args = ARENA_ARRAY(em->arena, LLVMValueRef, n + 1);
    LLVMTypeRef *types = ARENA_ARRAY(em->arena, LLVMTypeRef, n + 1);
    for (int i = 0; i < n; i++) {
        args[i] = *slots[i];
        types[i] = LLVMTypeOf(args[i]);
        text_add(&constraints, types[i] == em->f32 ? "=f," : "=r,");
    }
    for (int i = 0; i < n; i++) {
        text_printf(&constraints, "%d,", i);
    }
    text_add(&constraints, "~{memory}");
    const char *text = arena_printf(em->arena, "wgmma.wait_group.sync.aligned %d;", (int)pending);
    LLVMTypeRef type;
    if (n == 0) {
        type = LLVMVoidTypeInContext(em->context);
    } else if (n == 1) {
        type = types[0];
    } else {
        type = LLVMStructTypeInContext(em->context, types, (unsigned)n, false);
    }
    LLVMValueRef out = gpu_asm(em, type, text, constraints.data, true, n, args);
    for (int i = 0; i < n; i++) {
        *slots[i] = n == 1 ? out : LLVMBuildExtractValue(em->builder, out, (unsigned)i, "");
    }
}
