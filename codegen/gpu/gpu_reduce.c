/* SPDX-License-Identifier: Apache-2.0 */
/* The op reduce: registers of a thread first, then lanes by butterfly shuffles, then warps through
 * shared memory. Several reductions may share one barrier (passes/sync/combine_reductions.c).
 * Every step combines in an order that does not depend on the thread, so all owners of a result
 * get the same bits, on every run. */
#include "codegen/gpu/gpu_reduce.h"
#include "codegen/scalar/scalar_ops.h"
#include "ir/build.h"

#include <string.h>

enum {
    MAX_WARPS = 2 /* whose parts each thread reads by itself */,
    ACCESS_BYTES = 16,
    MAX_RUN = 4
};

/* The element of register r; threads beyond the extent hold none: it counts as neutral. */
static LLVMValueRef element(Reducer *red, LLVMValueRef value, int r)
{
    GpuEmitter *em = red->em;
    if (!gpu_overhangs(em, red->from, red->axis)) {
        return value;
    }
    LLVMValueRef neutral = scalar_neutral(red->reduction, red->dtype, gpu_type(em, red->dtype));
    LLVMValueRef extent = gpu_i32(em, gpu_extent(em, red->from, red->axis));
    LLVMValueRef coord = gpu_coord(em, red->from->layout, red->axis, r);
    LLVMValueRef inside = LLVMBuildICmp(em->builder, LLVMIntSLT, coord, extent, "");
    return LLVMBuildSelect(em->builder, inside, value, neutral, "");
}

/* ---- across warps ---- */

static uint32_t warp_mask(const Reducer *red)
{
    uint32_t mask = 0;
    for (int bit = 0; bit < red->from->layout->bits[IN_WARP]; bit++) {
        if (gpu_reduce_moves(red, red->from->layout->basis[IN_WARP][bit])) {
            mask |= 1u << bit;
        }
    }
    return mask;
}

/* i32: which element of the result (row-major) the register stands for. */
static LLVMValueRef result_element(Reducer *red, int r)
{
    GpuEmitter *em = red->em;
    LLVMValueRef element = gpu_i32(em, 0);
    for (int axis = 0; axis < red->to->rank; axis++) {
        if (axis == red->axis) {
            continue;
        }
        LLVMValueRef extent = gpu_i32(em, gpu_extent(em, red->to, axis));
        element = LLVMBuildMul(em->builder, element, extent, "");
        element = LLVMBuildAdd(em->builder, element, gpu_coord(em, red->from->layout, axis, r), "");
    }
    return element;
}

static LLVMValueRef result_inside(Reducer *red, int r)
{
    GpuEmitter *em = red->em;
    LLVMValueRef inside = NULL;
    for (int axis = 0; axis < red->to->rank; axis++) {
        if (axis != red->axis && gpu_overhangs(em, red->from, axis)) {
            LLVMValueRef coord = gpu_coord(em, red->from->layout, axis, r);
            LLVMValueRef extent = gpu_i32(em, gpu_extent(em, red->from, axis));
            inside =
                gpu_both(em, inside, LLVMBuildICmp(em->builder, LLVMIntSLT, coord, extent, ""));
        }
    }
    return inside;
}

typedef struct Scratch {
    LLVMValueRef base;
    int64_t elements; /* of the result: what one warp writes */
    uint32_t mask;    /* warp bits along the axis */
    int bytes;
} Scratch;

static Scratch find_scratch(Reducer *red, uint32_t mask)
{
    GpuEmitter *em = red->em;
    if (red->op->n_operands < 2) {
        gpu_bug(em, red->op, "crosses warps without scratch");
    }
    const Value *memory = red->op->operands[1];
    Scratch scratch = {gpu_shared_slot(em, memory, NULL), 1, mask, dtype_bytes(red->dtype)};
    for (int axis = 0; axis < red->to->rank; axis++) {
        scratch.elements *= gpu_extent(em, red->to, axis);
    }
    int64_t warps = 1 << __builtin_popcount(mask), capacity = 1;
    for (int axis = 0; axis < memory->type->rank; axis++) {
        capacity *= gpu_extent(em, memory->type, axis);
    }
    if (capacity * dtype_bytes(memory->type->dtype) < warps * scratch.elements * scratch.bytes) {
        gpu_bug(em, red->op, "its scratch is too small");
    }
    return scratch;
}

static LLVMValueRef scratch_at(Reducer *red, const Scratch *scratch, LLVMValueRef element)
{
    GpuEmitter *em = red->em;
    LLVMValueRef bytes = LLVMBuildMul(em->builder, element, gpu_i32(em, scratch->bytes), "");
    return gpu_at(em, scratch->base, bytes);
}

/* A lane reads the part of one warp, and lanes combine them: few registers, and short chains. */
static LLVMValueRef gather_partials(Reducer *red, const Scratch *scratch, LLVMValueRef from)
{
    GpuEmitter *em = red->em;
    int warps = 1 << __builtin_popcount(scratch->mask);
    LLVMValueRef mine = LLVMBuildAnd(em->builder, em->role->lane, gpu_i32(em, warps - 1), "");
    LLVMValueRef step = gpu_i32(em, scratch->elements * scratch->bytes);
    from = gpu_at(em, from, LLVMBuildMul(em->builder, mine, step, ""));
    LLVMTypeRef type = llvm_memory_type(em->l, red->dtype);
    LLVMValueRef sum = LLVMBuildLoad2(em->builder, type, from, "");
    sum = gpu_from_memory(em, red->dtype, sum);
    for (int mask = warps / 2; mask > 0; mask /= 2) {
        sum = gpu_reduce_combine(red, sum, gpu_shuffle(em, sum, mask));
    }
    return sum;
}

/* Of `n` registers whose elements lie side by side. */
static void read_partials(Reducer *red, const Scratch *scratch, const int *regs, int n)
{
    GpuEmitter *em = red->em;
    LLVMTypeRef type = llvm_memory_type(em->l, red->dtype);
    LLVMValueRef element = result_element(red, regs[0]), inside = result_inside(red, regs[0]);
    if (inside) {
        element = LLVMBuildSelect(em->builder, inside, element, gpu_i32(em, 0), "");
    }
    LLVMValueRef from = scratch_at(red, scratch, element), parts[MAX_RUN];
    int warps = 1 << __builtin_popcount(scratch->mask);
    if (n == 1 && layout_lanes_along(red->from->layout, red->axis) && warps > MAX_WARPS &&
        warps <= 1 << em->warp_bits) {
        red->regs[regs[0]] = gather_partials(red, scratch, from);
        return;
    }
    for (int warp = 0; warp < warps; warp++) {
        LLVMValueRef at = gpu_at_const(em, from, warp * scratch->elements * scratch->bytes);
        gpu_load_run(em, type, at, n, parts);
        for (int i = 0; i < n; i++) {
            LLVMValueRef *sum = &red->regs[regs[i]];
            LLVMValueRef part = gpu_from_memory(em, red->dtype, parts[i]);
            *sum = warp ? gpu_reduce_combine(red, *sum, part) : part;
        }
    }
}

/* How many registers that stand for results lie side by side in scratch. */
static int run_length(Reducer *red, const Scratch *scratch)
{
    int most = ACCESS_BYTES / scratch->bytes;
    bool inner = red->axis == red->from->rank - 1; /* the neighbours are what was reduced */
    if (inner) {
        return 1;
    }
    return gpu_run_length(red->em, red->from, most < MAX_RUN ? most : MAX_RUN);
}

/* ---- result ---- */

static void define_result(Reducer *red)
{
    GpuEmitter *em = red->em;
    Layout reduced = layout_drop_axis(red->from->layout, red->axis);
    GpuValue *out = gpu_define(em, red->op->results[0]);
    for (int r = 0; r < out->n; r++) {
        if (!gpu_exists(em, red->to, r)) {
            continue;
        }
        int source = layout_source_register(&reduced, red->to->layout, (uint32_t)r);
        if (source < 0) {
            gpu_bug(em, red->op, "its result has another layout than its operand without the axis");
        }
        out->regs[r] = red->regs[gpu_canonical(&reduced, source)];
    }
}

GpuReduce *gpu_reduce_begin(GpuEmitter *em, const Op *op)
{
    const Value *operand = op->operands[0];
    Reducer *red = ARENA_NEW(em->arena, Reducer);
    *red = (Reducer){.em = em,
                     .op = op,
                     .reduction = scalar_reduction(em->l, op),
                     .dtype = operand->type->dtype,
                     .axis = (int)op_int(op, ATTR_AXIS, 0),
                     .from = operand->type,
                     .to = op->results[0]->type,
                     .n = gpu_registers(em, operand->type)};
    red->regs = ARENA_ARRAY(em->arena, LLVMValueRef, red->n);
    red->words = ARENA_ARRAY(em->arena, LLVMValueRef, red->n);
    red->pairs = gpu_reduce_find_pairs(red);
    return red;
}

void gpu_reduce_take(GpuReduce *red, int from, int n)
{
    const GpuValue *in = gpu_value(red->em, red->op->operands[0]);
    for (int r = from; r < from + n; r++) {
        bool counts = in->regs[r] && gpu_canonical(red->from->layout, r) == r;
        LLVMValueRef word = counts && r + 1 < from + n ? gpu_reduce_pair_at(red, r) : NULL;
        if (word) {
            gpu_reduce_take_pair(red, word, r++);
        } else if (counts) {
            int to = gpu_reduce_target(red, r);
            red->regs[to] = gpu_reduce_combine(red, red->regs[to], element(red, in->regs[r], r));
        }
    }
}

/* ---- reductions across warps ---- */

static bool crosses_warps(GpuEmitter *em, const Op *op)
{
    return op && op->kind == OP_REDUCE && op->n_operands > 1 && warp_mask(gpu_reduce_begin(em, op));
}

static bool reads_waiting(const Reducer *red, const Op *op)
{
    for (const Reducer *r = red; r; r = r->before) {
        for (int i = 0; i < op->n_operands; i++) {
            if (op->operands[i] == r->op->results[0] || op->operands[i] == r->op->operands[1]) {
                return true;
            }
        }
    }
    return false;
}

/* Is the next op that does more than compute such a reduction, and nothing up to it needs what
 * waits? Those that wait already had the same answer. */
static bool syncs_with_next(const Reducer *red)
{
    const Op *op = red->op->next;
    while (op && op_has(op, TRAIT_PURE) && !op_has(op, TRAIT_ACCESS) && op->n_regions == 0 &&
           !reads_waiting(red, op)) {
        op = op->next;
    }
    return crosses_warps(red->em, op) && !reads_waiting(red, op);
}

static bool is_in_group(const Reducer *last, const Op *op)
{
    for (const Reducer *r = last; r; r = r->before) {
        if (r->op == op) {
            return true;
        }
    }
    return false;
}

/* True if another barrier follows before this scratch memory is written again. Nothing else uses
 * the memory; in a loop, another op of the same block must synchronize once per iteration. */
static bool syncs_before_next(const Reducer *last)
{
    GpuEmitter *em = last->em;
    for (const Reducer *r = last; r; r = r->before) {
        if (block_count_uses(em->launch->regions[0], r->op->operands[1]) > 1) {
            return false;
        }
    }
    /* Inside a loop the next iteration reuses the scratch memory. */
    bool syncs = !(op_enclosing(last->op, OP_FOR) || op_enclosing(last->op, OP_WHILE) ||
                   op_enclosing(last->op, OP_TILE_LOOP));
    for (const Op *op = last->op->parent->first; op && !syncs; op = op->next) {
        syncs = op->kind == OP_BARRIER || (!is_in_group(last, op) && crosses_warps(em, op));
    }
    return syncs;
}

/* Are parts combined once, and not by all threads that want them? */
static bool shares_parts(Reducer *red, const Scratch *scratch)
{
    int results = 0;
    for (int r = 0; r < red->n; r++) {
        results += gpu_reduce_is_canonical(red, r);
    }
    return layout_parts_shared(results, 1 << __builtin_popcount(scratch->mask));
}

static void finish(Reducer *red)
{
    if (red->before) {
        finish(red->before);
    }
    Scratch scratch = find_scratch(red, warp_mask(red));
    scratch.mask = shares_parts(red, &scratch) ? 0 : scratch.mask;
    GpuRun run;
    int n = run_length(red, &scratch);
    for (int r = 0; r < red->n; r++) {
        if (gpu_reduce_is_canonical(red, r) && gpu_run_at(red->em, red->from, r, n, &run)) {
            read_partials(red, &scratch, run.regs, n);
        }
    }
    define_result(red);
}

/* Of all reductions that share this barrier. */
static void combine_all_parts(Reducer *last)
{
    bool some = false;
    for (Reducer *red = last; red; red = red->before) {
        Scratch scratch = find_scratch(red, warp_mask(red));
        if (shares_parts(red, &scratch)) {
            gpu_combine_parts(red->em, &(GpuParts){.base = scratch.base,
                                                   .elements = scratch.elements,
                                                   .n = 1 << __builtin_popcount(scratch.mask),
                                                   .bytes = scratch.bytes,
                                                   .reduction = red->reduction,
                                                   .dtype = red->dtype});
            some = true;
        }
    }
    if (some) {
        last->em->target->sync(last->em);
    }
}

static void reduce_warps(Reducer *red)
{
    GpuEmitter *em = red->em;
    Scratch scratch = find_scratch(red, warp_mask(red));
    /* Only one of the lanes that hold the same partial result writes it. */
    Layout reduced = layout_drop_axis(red->from->layout, red->axis);
    for (int bit = 0; bit < reduced.bits[IN_WARP]; bit++) {
        if (warp_mask(red) >> bit & 1) {
            reduced.basis[IN_WARP][bit][red->axis] = 1; /* each of these warps writes its own */
        }
    }
    LLVMValueRef first = gpu_first_holder(red->em, &reduced);
    GpuRun run;
    int n = run_length(red, &scratch);
    for (int r = 0; r < red->n; r++) {
        if (gpu_reduce_is_canonical(red, r) && gpu_run_at(em, red->from, r, n, &run)) {
            /* Registers of adjacent elements are stored as one vector. */
            LLVMValueRef values[MAX_RUN];
            GpuBranch branch = {0};
            LLVMValueRef row =
                LLVMBuildMul(em->builder, gpu_extract_bits(em, em->role->warp, scratch.mask),
                             gpu_i32(em, scratch.elements), "");
            LLVMValueRef at = LLVMBuildAdd(em->builder, row, result_element(red, run.regs[0]), "");
            LLVMValueRef may = gpu_both(em, first, result_inside(red, run.regs[0]));
            for (int i = 0; i < n; i++) {
                values[i] = gpu_to_memory(em, red->dtype, red->regs[run.regs[i]]);
            }
            if (may) {
                branch = gpu_branch_begin(em, may);
            }
            LLVMValueRef all = n > 1 ? gpu_pack(em, n, values) : values[0];
            LLVMBuildStore(em->builder, all, scratch_at(red, &scratch, at));
            if (may) {
                gpu_branch_end(em, branch);
            }
        }
    }
    red->before = em->waiting;
    em->waiting = syncs_with_next(red) ? red : NULL;
    if (em->waiting) {
        return;
    }
    em->target->sync(em);
    combine_all_parts(red);
    finish(red);
    if (!syncs_before_next(red)) {
        em->target->sync(em);
    }
}

void gpu_reduce_end(GpuReduce *red)
{
    if (!gpu_reduce_end_pairs(red)) {
        gpu_reduce_registers(red);
        gpu_reduce_lanes(red);
    }
    if (warp_mask(red)) {
        reduce_warps(red);
    } else {
        define_result(red);
    }
}

void gpu_emit_reduce(GpuEmitter *em, const Op *op)
{
    GpuReduce *red = gpu_reduce_begin(em, op);
    gpu_reduce_take(red, 0, red->n);
    gpu_reduce_end(red);
}
