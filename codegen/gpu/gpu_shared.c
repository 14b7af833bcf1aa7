/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory: pipeline stages, and transfers of tiles between registers and shared memory. The
 * address of an element follows shared_offset (layout.h): column chunks, rows, and 16-byte vectors
 * XORed by the row. The thread part and the constant part of an offset share no bits, so that all
 * but the XORed bits of a register's offset are an immediate of the access. */
#include "codegen/gpu/gpu_emitters.h"

#include "ir/build.h"

enum { MAX_VECTOR_BYTES = 16 };

const SharedAllocation *gpu_shared(GpuEmitter *em, const Value *memory)
{
    for (size_t i = 0; i < em->shared.allocations.n; i++) {
        if (em->shared.allocations.items[i].op == memory->def) {
            return &em->shared.allocations.items[i];
        }
    }
    diag_bug(em->func->diags, "%s: memory that this launch does not allocate", em->target->name);
}

/* ---- ring slots ---- */

static int64_t gpu_slot_bytes(GpuEmitter *em, const Value *memory)
{
    int64_t slots = gpu_extent(em, memory->type, 0);
    return plan_memory_bytes(em->func, memory) / (slots ? slots : 1);
}

static LLVMValueRef position_i32(GpuEmitter *em, LLVMValueRef position)
{
    return LLVMBuildIntCast2(em->builder, position, em->i32, false, "");
}

LLVMValueRef gpu_ring_slot(GpuEmitter *em, LLVMValueRef position, int64_t extent)
{
    return LLVMBuildURem(em->builder, position_i32(em, position), gpu_i32(em, extent), "");
}

LLVMValueRef gpu_ring_phase(GpuEmitter *em, LLVMValueRef position, int64_t extent)
{
    return LLVMBuildUDiv(em->builder, position_i32(em, position), gpu_i32(em, extent), "");
}

LLVMValueRef gpu_shared_slot(GpuEmitter *em, const Value *memory, LLVMValueRef position)
{
    const SharedAllocation *shared = gpu_shared(em, memory);
    LLVMValueRef first = gpu_at_const(em, em->shared_base, shared->offset);
    int64_t slots = gpu_extent(em, memory->type, 0);
    if (!position || slots == 1) {
        return first;
    }
    LLVMValueRef slot = gpu_ring_slot(em, position, slots);
    LLVMValueRef bytes = gpu_i32(em, gpu_slot_bytes(em, memory));
    return gpu_at(em, first, LLVMBuildNUWMul(em->builder, slot, bytes, ""));
}

/* ---- tiles ---- */

SharedTile gpu_shared_tile(GpuEmitter *em, const Access *access)
{
    Type type = access->memory->type;
    const Op *op = access->memory->def;
    if (!access->indices[0] || access->indices[0]->type->kind == TYPE_RANGE) {
        gpu_bug(em, op, "its first index is no ring position");
    }
    for (int axis = 1; axis < access->n; axis++) {
        if (access->indices[axis]) {
            gpu_bug(em, op, "a slot is taken in part");
        }
    }
    SharedTile tile = {.rows = 1, .cols = 1, .dtype = type->dtype};
    tile.elem_bytes = dtype_bytes(type->dtype);
    tile.swizzle = (int)op_int(op, ATTR_SWIZZLE, 0);
    tile.skew = (int)op_int(op, ATTR_SKEW, 0);
    tile.most = (int)op_int(op, ATTR_VECTOR, 0);
    for (int axis = 1; axis + 1 < type->rank; axis++) {
        tile.rows *= gpu_extent(em, type, axis);
    }
    tile.cols = type->rank > 1 ? gpu_extent(em, type, type->rank - 1) : 1;
    tile.packed = op_int(op, ATTR_PACKED, 0) != 0;
    tile.base = gpu_shared_slot(em, access->memory, gpu_scalar(em, access->indices[0]));
    return tile;
}

static LLVMValueRef bits_of(GpuEmitter *em, LLVMValueRef value, int shift, int64_t mask)
{
    value = shift ? LLVMBuildLShr(em->builder, value, gpu_i32(em, shift), "") : value;
    return LLVMBuildAnd(em->builder, value, gpu_i32(em, mask), "");
}

static LLVMValueRef scaled(GpuEmitter *em, LLVMValueRef value, int64_t by)
{
    return LLVMBuildNUWMul(em->builder, value, gpu_i32(em, by), "");
}

static LLVMValueRef zero_if_none(GpuEmitter *em, LLVMValueRef value)
{
    return value ? value : gpu_i32(em, 0);
}

LLVMValueRef gpu_shared_at(GpuEmitter *em, const SharedTile *tile, SharedCoord row, SharedCoord col)
{
    int swizzle = tile->swizzle;
    if (tile->packed) { /* of two elements */
        SharedTile bytes = *tile;
        bytes.packed = false;
        bytes.cols /= 2;
        LLVMValueRef half = col.part ? bits_of(em, col.part, 1, INT32_MAX) : NULL;
        return gpu_shared_at(em, &bytes, row, (SharedCoord){half, col.bits / 2, col.constant / 2});
    }
    if (!swizzle) {
        int64_t pitch = tile->cols * tile->elem_bytes;
        LLVMValueRef part = scaled(em, zero_if_none(em, row.part), pitch);
        LLVMValueRef across = scaled(em, zero_if_none(em, col.part), tile->elem_bytes);
        part = LLVMBuildNUWAdd(em->builder, part, across, "");
        int64_t constant = row.constant * pitch + col.constant * tile->elem_bytes;
        return gpu_at_const(em, gpu_at(em, tile->base, part), constant);
    }
    /* Bits of the row XOR the number of the 16-byte vector: those of address bit 7 and up. */
    int mask = swizzle / 16 - 1;
    int shift = __builtin_ctz((unsigned)(em->func->target->shared_row / swizzle)) + tile->skew;
    int64_t chunk_bytes = tile->rows * swizzle;
    LLVMValueRef rows = zero_if_none(em, row.part);
    LLVMValueRef bytes = scaled(em, zero_if_none(em, col.part), tile->elem_bytes);
    LLVMValueRef chunk = LLVMBuildUDiv(em->builder, bytes, gpu_i32(em, swizzle), "");
    LLVMValueRef within = bits_of(em, bytes, 0, swizzle - 1);
    LLVMValueRef phase = scaled(em, bits_of(em, rows, shift, mask), 16);
    LLVMValueRef part = LLVMBuildXor(em->builder, within, phase, "");

    int64_t col_bytes = col.constant * tile->elem_bytes;
    int64_t constant = (col_bytes % swizzle) ^ ((row.constant >> shift & mask) << 4);
    int64_t bits = (col.bits * (uint32_t)tile->elem_bytes & (uint32_t)(swizzle - 1)) |
                   (int64_t)(row.bits >> shift & (uint32_t)mask) << 4;
    part = LLVMBuildNUWAdd(em->builder, part, scaled(em, rows, swizzle), "");
    part = LLVMBuildNUWAdd(em->builder, part, scaled(em, chunk, chunk_bytes), "");
    if (tile->recomputed) {
        part = *tile->recomputed =
            *tile->recomputed ? *tile->recomputed : em->target->opaque(em, part);
    }
    /* Last, so that neighbours differ by this one instruction. */
    part = LLVMBuildXor(em->builder, part, gpu_i32(em, constant & bits), "");
    constant &= ~bits;
    constant += row.constant * swizzle + col_bytes / swizzle * chunk_bytes;
    return gpu_at_const(em, gpu_at(em, tile->base, part), constant);
}

int gpu_shared_vector(const SharedTile *tile)
{
    int64_t pitch = tile->swizzle ? tile->swizzle : tile->cols * tile->elem_bytes;
    int bytes = MAX_VECTOR_BYTES;
    while (bytes > tile->elem_bytes && pitch % bytes) {
        bytes /= 2;
    }
    int fits = bytes / tile->elem_bytes * (tile->packed ? 2 : 1);
    return tile->most && tile->most < fits ? tile->most : fits;
}

void gpu_shared_read(GpuEmitter *em, const SharedTile *tile, LLVMValueRef at, int n,
                     LLVMValueRef *out)
{
    if (tile->packed) {
        gpu_packed_read(em, tile->dtype, at, n, out);
        return;
    }
    LLVMTypeRef type = llvm_lanes(llvm_memory_type(em->l, tile->dtype), n);
    bool fours = dtype_bits(tile->dtype) == 4;
    type = fours ? LLVMIntTypeInContext(em->context, (unsigned)n * 8) : type;
    LLVMValueRef load = LLVMBuildLoad2(em->builder, type, at, "");
    LLVMSetAlignment(load, (unsigned)(n * tile->elem_bytes));
    if (fours) {
        /* Elements of four bits occupy a byte each. They are shifted out one by one because LLVM
         * turns truncated byte vectors into vectors of i4, which the AMD backend splits through
         * memory. */
        LLVMTypeRef all = LLVMTypeOf(load), word_type = llvm_type(em->l, tile->dtype);
        for (int i = 0; i < n; i++) {
            LLVMValueRef moved = LLVMBuildLShr(em->builder, load, llvm_int(all, i * 8), "");
            out[i] = LLVMBuildTrunc(em->builder, moved, word_type, "");
        }

        return;
    }
    gpu_unpack(em, load, n, out);
    for (int i = 0; i < n; i++) {
        out[i] = gpu_from_memory(em, tile->dtype, out[i]);
    }
}

/* ---- shared_load, shared_store ---- */

/* Tile axes but the last are the row, flattened. */
static SharedCoord row_coord(GpuEmitter *em, const Op *op, Type type, int r)
{
    SharedCoord row = {0};
    int64_t stride = 1;
    for (int axis = type->rank - 2; axis >= 0; axis--) {
        uint32_t bits = layout_thread_bits(type->layout, axis);
        int64_t extent = gpu_extent(em, type, axis);
        if (bits) {
            LLVMValueRef part = scaled(em, gpu_thread_coord(em, type->layout, axis), stride);
            row.part = row.part ? LLVMBuildNUWAdd(em->builder, row.part, part, "") : part;
        }
        bool swizzled = op_int(op_access(op, 0).memory->def, ATTR_SWIZZLE, 0);
        if (extent > 1 && stride & (stride - 1) && swizzled) {
            gpu_bug(em, op, "swizzled rows of several axes whose extents are no powers of two");
        }
        row.bits |= bits * (uint32_t)stride;
        row.constant += gpu_register_coord(type->layout, axis, r) * stride;
        stride *= extent;
    }
    return row;
}

static SharedCoord col_coord(GpuEmitter *em, Type type, int r)
{
    int last = type->rank - 1;
    uint32_t bits = layout_thread_bits(type->layout, last);
    return (SharedCoord){bits ? gpu_thread_coord(em, type->layout, last) : NULL, bits,
                         gpu_register_coord(type->layout, last, r)};
}

static LLVMValueRef run_address(GpuEmitter *em, const Op *op, const SharedTile *tile, Type type,
                                int r)
{
    return gpu_shared_at(em, tile, row_coord(em, op, type, r), col_coord(em, type, r));
}

static int tile_run(GpuEmitter *em, const Op *op, const SharedTile *tile, Type type)
{
    /* Registers and threads must not move an element's coordinate by the same bits. */
    for (int axis = 0; axis < type->rank; axis++) {
        int all = layout_registers(type->layout) - 1;
        uint32_t mine = (uint32_t)gpu_register_coord(type->layout, axis, all);
        if (mine & layout_thread_bits(type->layout, axis)) {
            gpu_bug(em, op, "a layout whose registers and threads move by the same bits");
        }
    }
    return gpu_run_length(em, type, gpu_shared_vector(tile));
}

void gpu_emit_shared_load(GpuEmitter *em, const Op *op)
{
    Access access = op_access(op, 0);
    Type type = op->results[0]->type;
    GpuValue *out = gpu_define(em, op->results[0]);
    SharedTile tile = gpu_shared_tile(em, &access);
    int length = tile_run(em, op, &tile, type);
    for (int r = 0; r < out->n; r++) {
        GpuRun run;
        if (gpu_run_at(em, type, r, length, &run)) {
            /* A thread outside of the tile reads the first element of the buffer, which no later op
             * uses. */
            Type run_type = op->results[0]->type;
            LLVMValueRef regs[sizeof run.regs / sizeof *run.regs];
            LLVMValueRef inside = gpu_in_tile(em, run_type, run.regs[0]);
            LLVMValueRef at = run_address(em, op, &tile, run_type, run.regs[0]);
            if (inside) {
                at = LLVMBuildSelect(em->builder, inside, at, tile.base, "");
            }
            gpu_shared_read(em, &tile, at, run.n, regs);
            for (int i = 0; i < run.n; i++) {
                out->regs[run.regs[i]] = regs[i];
            }
        }
    }
    for (int r = 0; r < out->n; r++) {
        out->regs[r] = out->regs[gpu_canonical(type->layout, r)];
    }
}

static void see_product(Op *op, void *user)
{
    bool *found = user;
    *found |= op->kind == OP_DOT_ASYNC; /* Hopper alone has such products */
}

bool gpu_is_dot_auxiliary(const Op *op)
{
    bool found = false;
    const Op *around = op;
    while (around->parent && around->parent->parent) {
        around = around->parent->parent;
    }
    for (int i = 0; i < around->n_regions; i++) {
        block_walk(around->regions[i], see_product, &found);
    }
    return found;
}

void gpu_emit_shared_store(GpuEmitter *em, const Op *op)
{
    Access access = op_access(op, 0);
    const Value *value = op->operands[op->n_operands - 1];
    SharedTile tile = gpu_shared_tile(em, &access);
    LLVMValueRef recomputed = NULL;
    tile.recomputed = gpu_is_dot_auxiliary(op) ? &recomputed : NULL;
    int length = tile_run(em, op, &tile, value->type);
    LLVMValueRef first = gpu_first_holder(em, value->type->layout);
    for (int r = 0; r < gpu_value(em, value)->n; r++) {
        GpuRun run;
        if (gpu_run_at(em, value->type, r, length, &run)) {
            /* Of the threads that own replicas only the first one stores. */
            const Value *vector = op->operands[op->n_operands - 1];
            const GpuValue *in = gpu_value(em, vector);
            LLVMValueRef regs[sizeof run.regs / sizeof *run.regs];
            for (int i = 0; i < run.n; i++) {
                regs[i] = gpu_to_memory(em, tile.dtype, in->regs[run.regs[i]]);
            }
            LLVMValueRef may = gpu_both(em, first, gpu_in_tile(em, vector->type, run.regs[0]));
            LLVMValueRef at = run_address(em, op, &tile, vector->type, run.regs[0]);
            GpuBranch branch = {0};
            if (may) {
                branch = gpu_branch_begin(em, may);
            }
            LLVMValueRef store = LLVMBuildStore(em->builder, gpu_pack(em, run.n, regs), at);
            LLVMSetAlignment(store, (unsigned)(run.n * tile.elem_bytes));
            if (may) {
                gpu_branch_end(em, branch);
            }
        }
    }
}
