/* SPDX-License-Identifier: Apache-2.0 */
/* The accesses of one load or store of a tile of a tensor. An address is the tensor's pointer plus
 * a part that is equal for the block, a part of the thread and a part of the register. The first
 * two, and the last one along the last axis, cost almost nothing. Offsets across rows are
 * 64-bit. */
#include "codegen/gpu/gpu_access.h"
#include "ir/build.h"
#include "ir/layout/layout.h"

enum {
    MAX_KEPT = 8,     /* accesses of a tile whose offsets may stay in registers */
    MAX_IN_LOOP = 16, /* loads whose coordinates may, in a loop that has products */
};

static bool is_range(const Value *index)
{
    return index && index->type->kind == TYPE_RANGE;
}

LLVMValueRef gpu_access_first(GpuEmitter *em, const Access *access, int axis)
{
    const Value *index = access->indices[axis];
    if (!index) {
        return gpu_i64(em, 0);
    }
    LLVMValueRef first = gpu_value(em, index)->regs[0];
    return LLVMBuildIntCast2(em->builder, first, em->i64, true, "");
}

/* ---- guards ---- */

static LLVMValueRef below_limit(GlobalAccess *g, int axis, int r)
{
    GpuEmitter *em = g->em;
    const Layout *layout = g->type->layout;
    LLVMValueRef coord = g->slacks[axis] ? gpu_i32(em, gpu_register_coord(layout, axis, r))
                                         : gpu_coord(em, layout, axis, r);
    LLVMValueRef limit = g->slacks[axis] ? g->slacks[axis] : g->limits[axis];
    return LLVMBuildICmp(em->builder, LLVMIntSLT, coord, limit, "");
}

/* i1: is register r of the tile inside on these first axes? NULL: it is. */
LLVMValueRef gpu_inside_on(GlobalAccess *g, int axes, int r)
{
    GpuEmitter *em = g->em;
    LLVMValueRef inside = g->inside;
    for (int axis = 0; axis < axes; axis++) {
        if (g->limits[axis]) {
            inside = gpu_both(em, inside, below_limit(g, axis, r));
        }
        if (g->skips[axis]) {
            LLVMValueRef coord = gpu_coord(em, g->type->layout, axis, r);
            LLVMValueRef past = LLVMBuildICmp(em->builder, LLVMIntSGE, coord, g->skips[axis], "");
            inside = gpu_both(em, inside, past);
        }
    }
    return inside;
}

/* ---- addresses ---- */

static LLVMValueRef advance(GlobalAccess *g, LLVMValueRef place, LLVMValueRef elements)
{
    if (dtype_is_packed(g->dtype)) {
        return LLVMBuildAdd(g->em->builder, place, elements, "");
    }
    LLVMTypeRef type = llvm_memory_type(g->em->l, g->dtype);
    return LLVMBuildGEP2(g->em->builder, type, place, &elements, 1, "");
}

static LLVMValueRef times(GpuEmitter *em, LLVMValueRef i32, LLVMValueRef stride)
{
    LLVMValueRef wide = LLVMBuildZExt(em->builder, i32, em->i64, "");
    return LLVMBuildMul(em->builder, wide, stride, "");
}

/* Neighbours of a window that is written out share an address but for a constant. */
static bool is_tap(const GlobalAccess *g, int axis)
{
    const Value *index = g->access.indices[axis];
    return g->type->rank > 0 && index && index->def && index->def->kind == OP_CONST;
}

static bool has_taps(const GlobalAccess *g)
{
    bool found = false;
    for (int axis = 0; axis < g->access.n; axis++) {
        found = found || is_tap(g, axis);
    }
    return found;
}

static void find_thread(GlobalAccess *g)
{
    GpuEmitter *em = g->em;
    LLVMValueRef offset = gpu_i64(em, 0);
    g->disjoint = true;
    for (int axis = 0; axis < g->access.n; axis++) {
        int tile_axis = g->axes[axis];
        if (tile_axis < 0) {
            continue;
        }
        const Layout *layout = g->type->layout;
        LLVMValueRef coord = gpu_thread_coord(em, layout, tile_axis);
        offset = LLVMBuildAdd(em->builder, offset, times(em, coord, g->strides[axis]), "");
        g->disjoint &= gpu_is_disjoint(g->type->layout, tile_axis);
    }
    g->thread = advance(g, g->block, offset);
}

LLVMValueRef gpu_register_place(GlobalAccess *g, int r)
{
    GpuEmitter *em = g->em;
    /* The taps of an im2col view shift the element by a number of strides. */
    GpuEmitter *e = g->em;
    LLVMValueRef offset = gpu_i64(e, 0);
    for (int tap = 0; tap < g->access.n; tap++) {
        if (is_tap(g, tap)) {
            LLVMValueRef at = gpu_access_first(e, &g->access, tap);
            at = LLVMBuildMul(e->builder, at, g->strides[tap], "");
            offset = LLVMBuildAdd(e->builder, offset, at, "");
        }
    }
    for (int axis = 0; axis < g->access.n; axis++) {
        int tile_axis = g->axes[axis];
        if (tile_axis < 0) {
            continue;
        }
        const Layout *layout = g->type->layout;
        LLVMValueRef coord = g->disjoint ? gpu_i32(em, gpu_register_coord(layout, tile_axis, r))
                                         : gpu_coord(em, layout, tile_axis, r);
        offset = LLVMBuildAdd(em->builder, offset, times(em, coord, g->strides[axis]), "");
    }
    return advance(g, g->disjoint ? g->thread : g->block, offset);
}

/* Registers an access takes: what `vector` says, if the layout agrees. */
int gpu_access_run(GlobalAccess *g)
{
    return gpu_run_length(g->em, g->type, (int)op_int(g->op, ATTR_VECTOR, 1));
}

/* Accesses of the tile by this thread. */
static int count_runs(GlobalAccess *g)
{
    GpuRun run;
    int n = 0, length = gpu_access_run(g);
    for (int r = 0; r < gpu_registers(g->em, g->type); r++) {
        n += gpu_run_at(g->em, g->type, r, length, &run);
    }
    return n;
}

/* True if a load of the same block forms as many offsets as the store, which can use them. */
static bool shares_offsets(GlobalAccess *g, int runs)
{
    for (const Op *op = g->op->parent->first; op != g->op; op = op->next) {
        Type type = op->kind == OP_LOAD ? op->results[0]->type : NULL;
        if (type && type->rank == g->type->rank && runs > MAX_KEPT &&
            gpu_registers(g->em, type) == gpu_registers(g->em, g->type)) {
            return true;
        }
    }
    return false;
}

/* True if the access is in a loop that also has products. */
static bool is_in_product_loop(const Op *op)
{
    const Op *loop = op_enclosing(op, OP_FOR);
    return loop && (block_contains(loop->regions[0], OP_DOT) ||
                    block_contains(loop->regions[0], OP_DOT_ASYNC));
}

/* Each access of a tile has a coordinate, a mask and an offset of its own, which are the same in
 * each iteration of a loop around it: LLVM would keep all of them, and run out of registers. The
 * limit of an axis less the thread's part of the coordinate leaves a comparison with a constant.
 * Where a guard is a branch, many accesses also form their offsets again; where it is a predicate,
 * only stores do: their rows would hold the offsets through the whole product before them. A few
 * loads in a loop that has products keep their coordinates: the count of the loop's registers
 * includes them, and masks of the products compare the same coordinates. */
static void form_in_place(GlobalAccess *g)
{
    GpuEmitter *em = g->em;
    bool branches = em->target->load_if == NULL;
    int runs = g->type->rank > 0 ? count_runs(g) : 0;
    int few = is_in_product_loop(g->op) ? MAX_IN_LOOP : 1;
    if (runs <= (branches ? MAX_KEPT : few)) {
        return;
    }
    for (int axis = 0; axis < g->type->rank; axis++) {
        LLVMValueRef limit = g->limits[axis];
        if (limit && gpu_is_disjoint(g->type->layout, axis)) {
            limit = branches ? em->target->warp_uniform(em, limit) : limit;
            LLVMValueRef part = gpu_thread_coord(em, g->type->layout, axis);
            g->slacks[axis] = LLVMBuildSub(em->builder, limit, part, "");
        }
    }
    if (!branches && (g->op->kind != OP_STORE || shares_offsets(g, runs))) {
        return;
    }
    for (int axis = 0; axis < g->access.n; axis++) {
        if (!LLVMIsConstant(g->strides[axis])) {
            g->strides[axis] = gpu_rematerialize(em, g->strides[axis]);
        }
    }
}

void gpu_access_begin(GlobalAccess *g)
{
    GpuEmitter *em = g->em;
    int rank = 0;
    g->access = op_access(g->op, 0);
    g->dtype = g->access.memory->type->dtype;
    for (int axis = 0; axis < g->access.n; axis++) {
        const Value *index = g->access.indices[axis];
        g->axes[axis] = !index || is_range(index) ? rank++ : -1;
    }
    if (rank != g->type->rank) {
        gpu_bug(em, g->op, "indices and tile differ in rank");
    }
    if (has_taps(g)) {
        gpu_known_strides(em, g->access.memory->type, g->strides);
    } else {
        gpu_strides(em, g->access.memory->type, g->strides);
    }
    /* Guards: a limit of each axis of the tile, and one condition of all scalar indices. */
    for (int axis = 0; axis < g->access.n; axis++) {
        int tile_axis = g->axes[axis];
        if (tile_axis >= 0) {
            const Value *index = g->access.indices[axis];
            if (op_is_guarded(g->op, axis) && is_range(index)) {
                g->limits[tile_axis] = gpu_range_length(em, index);
                g->skips[tile_axis] = gpu_skipped(em, index->type->dims[0]);
            } else if (gpu_overhangs(em, g->type, tile_axis)) {
                g->limits[tile_axis] = gpu_i32(em, gpu_extent(em, g->type, tile_axis));
            }
        } else if (op_is_guarded(g->op, axis)) {
            LLVMValueRef index = gpu_access_first(em, &g->access, axis);
            LLVMValueRef extent = gpu_size_value(em, g->access.memory->type->dims[axis]);
            LLVMValueRef inside = LLVMBuildICmp(em->builder, LLVMIntULT, index, extent, "");
            g->inside = gpu_both(em, g->inside, inside);
        }
    }

    form_in_place(g);

    /* The start of the tile is the same for all threads, so its offset is computed once. */
    LLVMValueRef offset = gpu_i64(em, 0);
    for (int axis = 0; axis < g->access.n; axis++) {
        if (is_tap(g, axis)) {
            continue;
        }
        LLVMValueRef first = gpu_access_first(em, &g->access, axis);
        first = LLVMBuildMul(em->builder, first, g->strides[axis], "");
        offset = LLVMBuildAdd(em->builder, offset, first, "");
    }
    g->offset = offset;
    g->block =
        dtype_is_packed(g->dtype) ? offset : advance(g, gpu_tensor(em, g->access.memory), offset);

    if (g->type->rank > 0) {
        find_thread(g);
    }
}

/* ---- loads and stores of one run ---- */

static unsigned alignment(GlobalAccess *g, int n)
{
    return (unsigned)(dtype_bytes(g->dtype) * (n > 1 ? n : gpu_field_alignment(g->op)));
}

LLVMValueRef gpu_access_load(GlobalAccess *g, LLVMValueRef inside, LLVMValueRef at, int n)
{
    LLVMTypeRef type = llvm_lanes(llvm_memory_type(g->em->l, g->dtype), n);
    LLVMValueRef otherwise = llvm_number(g->em->l, g->dtype, type, op_attr(g->op, ATTR_VALUE));
    if (g->em->target->load_if && op_int(g->op, ATTR_L2_LINE, 0)) {
        bool constant = gpu_is_constant(g->em, g->access.memory);
        return g->em->target->load_if(g->em, inside, at, otherwise, constant, true);
    }
    return gpu_load_guarded(g->em, g->access.memory, inside, at, otherwise, alignment(g, n));
}

void gpu_define_run(GlobalAccess *g, GpuValue *out, const GpuRun *run, LLVMValueRef vector)
{
    LLVMValueRef regs[sizeof run->regs / sizeof *run->regs];
    if (run->n > 1 && dtype_bits(g->dtype) == 16) {
        /* Elements of 16 bits keep the 32-bit word that holds two of them, so that later ops need
         * not pack them again. */
        LLVMBuilderRef b = g->em->builder;
        LLVMTypeRef type = llvm_memory_type(g->em->l, g->dtype);
        LLVMValueRef words[sizeof run->regs / sizeof *run->regs / 2];
        LLVMTypeRef as_words = llvm_lanes(g->em->i32, run->n / 2);
        gpu_unpack(g->em, LLVMBuildBitCast(b, vector, as_words, ""), run->n / 2, words);
        if (!out->halves) {
            out->halves = ARENA_ARRAY(g->em->arena, GpuHalf, out->n);
        }
        for (int i = 0; i < run->n; i++) {
            LLVMValueRef word = words[i / 2];
            out->halves[run->regs[i]] = (GpuHalf){.word = word, .high = i & 1};
            word = i & 1 ? LLVMBuildLShr(b, word, gpu_i32(g->em, 16), "") : word;
            word = LLVMBuildTrunc(b, word, g->em->i16, "");
            out->regs[run->regs[i]] = LLVMBuildBitCast(b, word, type, "");
        }

        return;
    }
    gpu_unpack(g->em, vector, run->n, regs);
    for (int i = 0; i < run->n; i++) {
        out->regs[run->regs[i]] = gpu_from_memory(g->em, g->dtype, regs[i]);
    }
}

void gpu_access_load_run(GlobalAccess *g, GpuValue *out, const GpuRun *run)
{
    LLVMValueRef at = gpu_register_place(g, run->regs[0]);
    LLVMValueRef inside = gpu_inside_on(g, g->type->rank, run->regs[0]);
    if (!dtype_is_packed(g->dtype)) {
        gpu_define_run(g, out, run, gpu_access_load(g, inside, at, run->n));
        return;
    }
    LLVMValueRef regs[sizeof run->regs / sizeof *run->regs];
    gpu_packed_load(g->em, g->access.memory, inside, at, op_attr(g->op, ATTR_VALUE), run->n, regs);
    for (int i = 0; i < run->n; i++) {
        out->regs[run->regs[i]] = regs[i];
    }
}

void gpu_access_store(GlobalAccess *g, LLVMValueRef inside, LLVMValueRef at, int n,
                      const LLVMValueRef *regs)
{
    LLVMValueRef kept[sizeof((GpuRun *)0)->regs / sizeof(int)];
    if (dtype_is_packed(g->dtype)) {
        gpu_packed_store(g->em, g->access.memory, inside, at, n, regs);
        return;
    }
    for (int i = 0; i < n; i++) {
        kept[i] = gpu_to_memory(g->em, g->dtype, regs[i]);
    }
    gpu_store_guarded(g->em, inside, at, gpu_pack(g->em, n, kept), alignment(g, n));
}
