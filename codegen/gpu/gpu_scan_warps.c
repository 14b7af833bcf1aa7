/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a scan or fold that crosses warps. Each warp writes its total to shared memory;
 * after a barrier each reads the totals of all in order; a second barrier ends the use of the
 * memory. For each of the scanned values the memory is indexed by the warp along the axis, by the
 * coordinate bits above the warps' bits, and by the element of the other axes. */
#include "codegen/gpu/gpu_scan.h"

/* i32: where the register's total lies among those of its warp. */
static LLVMValueRef total_place(const Folder *f, const FoldWarps *warps, int r)
{
    GpuEmitter *em = f->em;
    const Layout *layout = f->type->layout;
    LLVMValueRef end = gpu_i32(em, __builtin_ctz((unsigned)warps->end));
    LLVMValueRef at = LLVMBuildLShr(em->builder, gpu_coord(em, layout, f->axis, r), end, "");
    for (int axis = 0; axis < f->type->rank; axis++) {
        if (axis != f->axis) {
            at = LLVMBuildMul(em->builder, at, gpu_i32(em, gpu_extent(em, f->type, axis)), "");
            at = LLVMBuildAdd(em->builder, at, gpu_coord(em, layout, axis, r), "");
        }
    }
    return at;
}

/* Other axes may have fewer elements than the threads have places for; NULL: they have not. */
static LLVMValueRef in_rows(const Folder *f, int r)
{
    GpuEmitter *em = f->em;
    LLVMValueRef inside = NULL;
    for (int axis = 0; axis < f->type->rank; axis++) {
        if (axis != f->axis && gpu_overhangs(em, f->type, axis)) {
            LLVMValueRef coord = gpu_coord(em, f->type->layout, axis, r);
            LLVMValueRef extent = gpu_i32(em, gpu_extent(em, f->type, axis));
            LLVMValueRef below = LLVMBuildICmp(em->builder, LLVMIntSLT, coord, extent, "");
            inside = gpu_both(em, inside, below);
        }
    }
    return inside;
}

static int64_t part_bytes(const Folder *f, const FoldWarps *warps, int part)
{
    int64_t bytes = warps->rows * dtype_bytes(f->parts[part].dtype);
    return (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
}

/* Pointer to the total of one part at `place` (i32) of the first warp along the axis. */
static LLVMValueRef part_at(const Folder *f, const FoldWarps *warps, int part, LLVMValueRef place)
{
    GpuEmitter *em = f->em;
    int64_t before = 0;
    for (int i = 0; i < part; i++) {
        before += part_bytes(f, warps, i) * warps->groups << warps->n;
    }
    LLVMValueRef bytes = gpu_i32(em, dtype_bytes(f->parts[part].dtype));
    place = LLVMBuildMul(em->builder, place, bytes, "");
    return gpu_at(em, gpu_at_const(em, warps->base, before), place);
}

static void write_totals(const Folder *f, const FoldWarps *warps, LLVMValueRef first, int r)
{
    GpuEmitter *em = f->em;
    LLVMValueRef may = gpu_both(em, first, in_rows(f, r));
    LLVMValueRef row = gpu_i32(em, warps->groups * warps->rows);
    LLVMValueRef place = LLVMBuildMul(em->builder, warps->own, row, "");
    place = LLVMBuildAdd(em->builder, place, total_place(f, warps, r), "");
    GpuBranch branch = {NULL, NULL};
    if (may) {
        branch = gpu_branch_begin(em, may);
    }
    for (int i = 0; i < f->n_parts; i++) {
        const Part *part = &f->parts[i];
        LLVMValueRef value = gpu_to_memory(em, part->dtype, part->total[r]);
        LLVMBuildStore(em->builder, value, part_at(f, warps, i, place));
    }
    if (may) {
        gpu_branch_end(em, branch);
    }
}

static void read_totals(const Folder *f, const FoldWarps *warps, LLVMValueRef place, int warp,
                        Parts out)
{
    GpuEmitter *em = f->em;
    for (int i = 0; i < f->n_parts; i++) {
        DType dtype = f->parts[i].dtype;
        int64_t step = warp * warps->groups * warps->rows * dtype_bytes(dtype);
        LLVMValueRef at = gpu_at_const(em, part_at(f, warps, i, place), step);
        LLVMTypeRef type = llvm_memory_type(em->l, dtype);
        out[i] = gpu_from_memory(em, dtype, LLVMBuildLoad2(em->builder, type, at, ""));
    }
}

/* The warps' totals, in the way of the scan: what is before this one's in `first`, and that of all
 * in `second`. */
static void join_warps(Folder *f, const FoldWarps *warps, int r, FoldMemoEntry *entry)
{
    GpuEmitter *em = f->em;
    LLVMValueRef place = total_place(f, warps, r), inside = in_rows(f, r);
    if (inside) {
        place = LLVMBuildSelect(em->builder, inside, place, gpu_i32(em, 0), "");
    }
    fold_neutrals(f, entry->first);
    int count = 1 << warps->n;
    for (int step = 0; step < count; step++) {
        int warp = f->reverse ? count - 1 - step : step;
        Parts next = {NULL}, sum = {NULL};
        read_totals(f, warps, place, warp, next);
        if (step == 0) {
            fold_set(f, entry->second, next);
            continue;
        }
        if (f->scan) {
            LLVMValueRef own =
                LLVMBuildICmp(em->builder, LLVMIntEQ, warps->own, gpu_i32(em, warp), "");
            fold_choose(f, own, entry->second, entry->first, entry->first);
        }
        fold_combine(f, f->reverse ? next : entry->second, f->reverse ? entry->second : next, sum);
        fold_set(f, entry->second, sum);
    }
}

static void find_scratch(Folder *f, FoldWarps *warps)
{
    GpuEmitter *em = f->em;
    int at = f->op->kind == OP_SCAN ? 1 : 2 * f->n_parts;
    if (at >= f->op->n_operands) {
        gpu_bug(em, f->op, "crosses warps without scratch");
    }
    const Value *memory = f->op->operands[at];
    int64_t capacity = 1, need = 0, padded = 1;
    while (padded < gpu_extent(em, f->type, f->axis)) {
        padded *= 2;
    }
    warps->rows = 1;
    for (int axis = 0; axis < f->type->rank; axis++) {
        warps->rows *= axis == f->axis ? 1 : gpu_extent(em, f->type, axis);
    }
    warps->groups = padded / warps->end;
    for (int axis = 0; axis < memory->type->rank; axis++) {
        capacity *= gpu_extent(em, memory->type, axis);
    }
    for (int i = 0; i < f->n_parts; i++) {
        need += part_bytes(f, warps, i) * warps->groups << warps->n;
    }
    if (need > capacity * dtype_bytes(memory->type->dtype)) {
        gpu_bug(em, f->op, "its scratch is too small");
    }
    warps->base = gpu_shared_slot(em, memory, NULL);
    /* The warp's number along the axis gathers the bits of the warp number that move along it. */
    LLVMValueRef sum = gpu_i32(em, 0);
    for (int k = 0; k < warps->n; k++) {
        LLVMValueRef bit = gpu_i32(em, warps->bits[k]);
        LLVMValueRef part = LLVMBuildLShr(em->builder, em->role->warp, bit, "");
        part = LLVMBuildAnd(em->builder, part, gpu_i32(em, 1), "");
        part = LLVMBuildShl(em->builder, part, gpu_i32(em, k), "");
        sum = LLVMBuildOr(em->builder, sum, part, "");
    }
    warps->own = sum;
}

void fold_warps(Folder *f, FoldWarps *warps)
{
    GpuEmitter *em = f->em;
    Memo read = fold_memo(f), joins = fold_memo(f);
    find_scratch(f, warps);

    /* Of the threads of a warp that own replicas of a total, the first one stores it. */
    Memo written = fold_memo(f);
    /* Of the threads of a warp that hold the same total the first one writes it. */
    Layout totals = *f->type->layout;
    for (int bit = 0; bit < totals.bits[IN_LANE]; bit++) {
        int32_t *step = &totals.basis[IN_LANE][bit][f->axis];
        *step = *step < warps->end ? 0 : *step;
    }
    LLVMValueRef first = gpu_first_holder(f->em, &totals);
    for (int r = 0; r < f->n; r++) {
        Parts own = {NULL};
        bool known = true;
        if (fold_has_total(f, r)) {
            fold_totals(f, r, own);
            fold_memo_find(f, &written, own, own, &known);
        }
        if (!known) {
            write_totals(f, warps, first, r);
        }
    }

    em->target->sync(em);
    f->threads = true;
    for (int r = 0; r < f->n; r++) {
        Parts own = {NULL};
        bool known;
        if (!fold_has_total(f, r)) {
            continue;
        }
        fold_totals(f, r, own);
        FoldMemoEntry *entry = fold_memo_find(f, &read, own, own, &known);
        if (!known) {
            join_warps(f, warps, r, entry);
            /* Each is chosen among as many values as there are warps. The choice is computed here,
             * since behind the next branch all of these values would be live until then. */
            for (int i = 0; i < f->n_parts && f->scan && em->target->compute_here; i++) {
                entry->first[i] = em->target->compute_here(em, entry->first[i]);
            }
        }
        if (f->scan) {
            fold_set_before(f, r, fold_surrounded(f, &joins, r, entry->first));
        }
        fold_set_totals(f, r, entry->second);
    }
    em->target->sync(em); /* before the scratch is written again */
}
