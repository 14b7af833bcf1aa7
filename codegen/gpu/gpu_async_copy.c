/* SPDX-License-Identifier: Apache-2.0 */
/* The op copy_load: the threads of a role copy a tile from global to shared memory without holding
 * it in registers. Thread t copies the 16-byte vectors t, t + threads, … of the pipeline stage in
 * the order in which they are stored there. A warp therefore fills contiguous bytes without bank
 * conflicts, which is the only form that some targets support. The swizzle decides which element
 * of the tensor belongs at a position; it stays within a row, so a warp still reads whole rows. */
#include "codegen/gpu/gpu_emitters.h"

#include "ir/build.h"
#include "support/int_math.h"

enum { MAX_KEPT = 8 };

typedef struct Copy {
    GpuEmitter *em;
    const Op *op;
    Access from;
    SharedTile tile;
    int64_t bytes;    /* of a piece */
    int64_t row;      /* bytes of a row of a chunk: the swizzle, or all */
    int64_t per_row;  /* pieces of it */
    int64_t per_part; /* of a chunk */
    int64_t threads, warp;
    int phases, shift;  /* the row's bits that permute 16-byte pieces */
    LLVMValueRef start; /* the tile's first element in the tensor */
    LLVMValueRef pitch; /* i64: bytes from one row to the next */
    LLVMValueRef step;  /* i64: bytes from one column to the next; NULL: an element */
    LLVMValueRef row_limit, col_limit; /* i32: what is below exists; NULL: all does */
    LLVMValueRef inside;               /* i1: of scalar indices; NULL: they are */
} Copy;

/* ---- where the tile is ---- */

static bool is_guarded(const Op *op, int axis)
{
    const Attr *guard = op_attr(op, ATTR_GUARD);
    return guard && guard->ints[axis];
}

static void find_tensor(Copy *c)
{
    GpuEmitter *em = c->em;
    LLVMBuilderRef b = em->builder;
    LLVMValueRef strides[MAX_RANK], offset = gpu_i64(em, 0);
    LLVMValueRef each = gpu_i64(em, c->tile.elem_bytes);
    int kept = 0;
    gpu_strides(em, c->from.memory->type, strides);
    for (int axis = 0; axis < c->from.n; axis++) {
        const Value *index = c->from.indices[axis];
        bool range = index && index->type->kind == TYPE_RANGE, tile = range || !index;
        LLVMValueRef first = gpu_access_first(em, &c->from, axis);
        offset = LLVMBuildAdd(b, offset, LLVMBuildMul(b, first, strides[axis], ""), "");
        if (tile && kept++ == 0) {
            c->pitch = LLVMBuildMul(b, strides[axis], each, "");
            c->row_limit = is_guarded(c->op, axis) && range ? gpu_range_length(em, index) : NULL;
        } else if (tile) {
            bool dense =
                LLVMIsConstant(strides[axis]) && LLVMConstIntGetZExtValue(strides[axis]) == 1;
            c->step = dense ? NULL : LLVMBuildMul(b, strides[axis], each, "");
            c->col_limit = is_guarded(c->op, axis) && range ? gpu_range_length(em, index) : NULL;
        } else if (is_guarded(c->op, axis)) {
            LLVMValueRef at = gpu_access_first(em, &c->from, axis);
            LLVMValueRef extent = gpu_size_value(em, c->from.memory->type->dims[axis]);
            LLVMValueRef inside = LLVMBuildICmp(b, LLVMIntULT, at, extent, "");
            c->inside = gpu_both(em, c->inside, inside);
        }
    }
    if (kept != 2) {
        gpu_bug(em, c->op, "a copy of a tile that has not two axes");
    }
    offset = LLVMBuildMul(b, offset, each, "");
    c->start = LLVMBuildGEP2(b, em->i8, gpu_tensor(em, c->from.memory), &offset, 1, "");
}

static Copy copy_of(GpuEmitter *em, const Op *op)
{
    Copy c = {.em = em, .op = op, .from = op_access_nth(op, 0)};
    Type to = op_access_nth(op, 1).memory->type;
    const Op *shared = op_access_nth(op, 1).memory->def;
    int64_t cols = gpu_extent(em, to, 2), elem = dtype_bytes(to->dtype);
    int64_t swizzle = op_int(shared, ATTR_SWIZZLE, 0);
    c.bytes = op_int(op, ATTR_VECTOR, 1) * elem;
    c.row = swizzle ? swizzle : cols * elem;
    c.per_row = c.row / c.bytes;
    c.per_part = gpu_extent(em, to, 1) * c.per_row;
    c.warp = 1 << em->warp_bits;
    c.threads = em->role->warps * c.warp;
    c.phases = swizzle ? (int)(swizzle / 16) : 1;
    c.shift = (int)op_int(shared, ATTR_SKEW, 0);
    if (swizzle == 64) {
        c.shift += 1;
    } else if (swizzle == 32) {
        c.shift += 2;
    }
    return c;
}

/* ---- pieces ---- */

/* A piece's row: what the thread adds, and what is known now. */
typedef struct PiecePlace {
    LLVMValueRef piece; /* i32, of the chunk */
    LLVMValueRef row, within;
    int64_t constant; /* rows */
} PiecePlace;

static LLVMValueRef divided(GpuEmitter *em, LLVMValueRef value, int64_t by)
{
    return LLVMBuildUDiv(em->builder, value, gpu_i32(em, by), "");
}

/* i32: bytes from a row's begin that belong to the piece, as the swizzle says. */
static LLVMValueRef unswizzled(const Copy *c, const PiecePlace *at)
{
    GpuEmitter *em = c->em;
    LLVMBuilderRef b = em->builder;
    LLVMValueRef bytes = LLVMBuildNUWMul(b, at->within, gpu_i32(em, c->bytes), "");
    if (c->phases == 1) {
        return bytes;
    }
    LLVMValueRef row = at->row;
    if (at->constant % ((int64_t)c->phases << c->shift)) {
        row = LLVMBuildNUWAdd(b, row, gpu_i32(em, at->constant), "");
    }
    LLVMValueRef phase = LLVMBuildLShr(b, row, gpu_i32(em, c->shift), "");
    phase = LLVMBuildAnd(b, phase, gpu_i32(em, c->phases - 1), "");
    return LLVMBuildXor(b, bytes, LLVMBuildNUWMul(b, phase, gpu_i32(em, 16), ""), "");
}

static LLVMValueRef below(GpuEmitter *em, LLVMValueRef part, int64_t constant, LLVMValueRef limit)
{
    LLVMValueRef at = LLVMBuildNUWAdd(em->builder, part, gpu_i32(em, constant), "");
    return LLVMBuildICmp(em->builder, LLVMIntSLT, at, limit, "");
}

/* i64: bytes in the tensor to the column that lies `across` bytes from a row's begin in a slot. */
static LLVMValueRef tensor_column(const Copy *c, LLVMValueRef across)
{
    LLVMBuilderRef b = c->em->builder;
    if (!c->step) {
        return LLVMBuildZExt(b, across, c->em->i64, "");
    }
    LLVMValueRef col = divided(c->em, across, c->tile.elem_bytes);
    return LLVMBuildMul(b, LLVMBuildZExt(b, col, c->em->i64, ""), c->step, "");
}

static LLVMValueRef tensor_place(const Copy *c, const PiecePlace *at, LLVMValueRef across,
                                 int64_t chunk)
{
    GpuEmitter *em = c->em;
    LLVMBuilderRef b = em->builder;
    LLVMValueRef down = LLVMBuildMul(b, LLVMBuildZExt(b, at->row, em->i64, ""), c->pitch, "");
    LLVMValueRef offset = LLVMBuildAdd(b, down, tensor_column(c, across), "");
    LLVMValueRef thread = LLVMBuildGEP2(b, em->i8, c->start, &offset, 1, "");
    LLVMValueRef more = LLVMBuildMul(b, gpu_i64(em, at->constant), c->pitch, "");
    thread = LLVMBuildGEP2(b, em->i8, thread, &more, 1, "");
    if (!c->step) {
        return gpu_at_const(em, thread, chunk * c->row);
    }
    LLVMValueRef cols = gpu_i64(em, chunk * c->row / c->tile.elem_bytes);
    LLVMValueRef before = LLVMBuildMul(b, cols, c->step, "");
    return LLVMBuildGEP2(b, em->i8, thread, &before, 1, "");
}

static int64_t chunks_of(const Copy *c)
{
    Type to = op_access_nth(c->op, 1).memory->type;
    return gpu_extent(c->em, to, 2) * dtype_bytes(to->dtype) / c->row;
}

static int64_t turns_of(const Copy *c)
{
    return ceil_div(c->per_part, c->threads);
}

void gpu_emit_copy_load(GpuEmitter *em, const Op *op)
{
    Access to = op_access_nth(op, 1);
    Copy c = copy_of(em, op);
    c.tile = gpu_shared_tile(em, &to);
    find_tensor(&c);
    bool many = chunks_of(&c) * turns_of(&c) > MAX_KEPT;
    if (many && !em->target->load_if && !LLVMIsConstant(c.pitch)) {
        c.pitch = gpu_rematerialize(em, c.pitch); /* as in gpu_global.c, form_in_place */
    }
    for (int64_t chunk = 0; chunk < chunks_of(&c); chunk++) {
        for (int64_t turn = 0; turn < turns_of(&c); turn++) {
            /* Each thread copies one 16-byte vector per iteration to its swizzled offset. */
            LLVMValueRef own = em->role->thread;
            PiecePlace at = {.piece = own};
            if (turn > 0) {
                at.piece = LLVMBuildNUWAdd(em->builder, own, gpu_i32(em, turn * c.threads), "");
            }
            bool whole_rows = c.threads % c.per_row == 0; /* each turn takes whole rows */
            at.constant = whole_rows ? turn * (c.threads / c.per_row) : 0;
            at.row = divided(em, whole_rows ? own : at.piece, c.per_row);
            at.within =
                LLVMBuildURem(em->builder, whole_rows ? own : at.piece, gpu_i32(em, c.per_row), "");
            LLVMValueRef across = unswizzled(&c, &at), inside = c.inside;
            if (c.row_limit) {
                inside = gpu_both(em, inside, below(em, at.row, at.constant, c.row_limit));
            }
            if (c.col_limit) {
                LLVMValueRef col = divided(em, across, c.tile.elem_bytes);
                int64_t before = chunk * c.row / c.tile.elem_bytes;
                inside = gpu_both(em, inside, below(em, col, before, c.col_limit));
            }
            int64_t constant = chunk * c.per_part * c.bytes + turn * c.threads * c.bytes;
            LLVMValueRef size = gpu_i32(em, c.bytes);
            LLVMValueRef mine = LLVMBuildNUWMul(em->builder, em->role->thread, size, "");
            LLVMValueRef first =
                LLVMBuildNUWMul(em->builder, em->role->warp, gpu_i32(em, c.warp * c.bytes), "");
            GpuCopyVector piece = {.to = gpu_at_const(em, gpu_at(em, c.tile.base, mine), constant),
                                   .first =
                                       gpu_at_const(em, gpu_at(em, c.tile.base, first), constant),
                                   .from = tensor_place(&c, &at, across, chunk),
                                   .inside = inside,
                                   .bytes = (int)c.bytes};
            GpuBranch branch = {0};
            bool partly = (turn + 1) * c.threads > c.per_part;
            if (partly) {
                LLVMValueRef limit = gpu_i32(em, c.per_part);
                branch = gpu_branch_begin(
                    em, LLVMBuildICmp(em->builder, LLVMIntULT, at.piece, limit, ""));
            }
            em->target->copy(em, &piece);
            if (partly) {
                gpu_branch_end(em, branch);
            }
        }
    }
}

/* ---- how many ---- */

typedef struct Count {
    GpuEmitter *em;
    const Block *block;
    int64_t least, here;
} Count;

static bool is_even(const Copy *c)
{
    const Attr *guard = op_attr(c->op, ATTR_GUARD);
    bool even = c->per_part % c->threads == 0;
    for (int i = 0; guard && i < guard->n; i++) {
        even = even && !guard->ints[i];
    }
    return even;
}

static void count_copies(Op *op, void *user)
{
    Count *count = user;
    if (op->kind != OP_COPY_LOAD) {
        return;
    }
    Copy c = copy_of(count->em, op);
    int64_t n = is_even(&c) ? chunks_of(&c) * turns_of(&c) : 0;
    if (op->parent != count->block) { /* another group */
        count->least = count->here < count->least ? count->here : count->least;
        count->block = op->parent;
        count->here = 0;
    }
    count->here = n && count->here >= 0 ? count->here + n : -1;
}

int64_t gpu_copies_of_group(GpuEmitter *em)
{
    Count count = {.em = em, .least = INT64_MAX, .here = INT64_MAX};
    block_walk(em->launch->regions[0], count_copies, &count);
    int64_t least = count.here < count.least ? count.here : count.least;
    return least < 0 || least == INT64_MAX ? 0 : least;
}

void gpu_emit_copy_wait(GpuEmitter *em, const Op *op)
{
    LLVMValueRef full = op->n_operands ? gpu_scalar(em, op->operands[0]) : NULL;
    em->target->copy_wait(em, (int)op_int(op, ATTR_PENDING, 0), full);
}
