/* SPDX-License-Identifier: Apache-2.0 */
/* scan and fold: elements along an axis combined in their order, by an operation or by the
 * program's own function over several values at once.
 *
 * An axis' coordinate is bits; from the lowest on, groups that differ in one bit are joined: the
 * later half's elements get the earlier half's total before them, and both halves the total of all
 * (Hillis and Steele, "Data parallel algorithms", 1986, by bits). A bit that is a register's costs
 * a combination, a lane's a shuffle. Layouts keep the axis inside of a warp. */
#include "codegen/gpu/tiles.h"
#include "codegen/scalar_ops.h"

enum { MOST_PARTS = 16 };

/* One of the values that an element is made of. */
typedef struct Part {
    DType dtype;
    LLVMValueRef neutral;
    LLVMValueRef *element; /* by register */
    LLVMValueRef *total;   /* of the group that the register is in */
    LLVMValueRef *around;  /* of the elements before (reverse: after) it; NULL: none yet */
} Part;

typedef struct Folder {
    GpuEmitter *em;
    Op *op;
    Type type;            /* of the operands */
    int axis, n_parts, n; /* n: registers */
    bool scan, reverse, exclusive;
    Part parts[MOST_PARTS];
} Folder;

typedef LLVMValueRef Parts[MOST_PARTS];

/* ---- the function ---- */

static void combine(Folder *f, const Parts earlier, const Parts later, Parts out)
{
    GpuEmitter *em = f->em;
    if (f->op->kind == OP_SCAN) {
        const char *fn = op_word(f->op, ATTR_FN);
        out[0] = scalar_combine(em->l, fn, f->parts[0].dtype, earlier[0], later[0]);
        return;
    }
    Block *region = f->op->regions[0];
    for (int i = 0; i < f->n_parts; i++) {
        gpu_define_scalar(em, region->args[i], earlier[i]);
        gpu_define_scalar(em, region->args[f->n_parts + i], later[i]);
    }
    gpu_emit_block(em, region);
    for (int i = 0; i < f->n_parts; i++) {
        out[i] = gpu_scalar(em, region->last->operands[i]);
    }
}

static void totals_of(const Folder *f, int r, Parts out)
{
    for (int i = 0; i < f->n_parts; i++) {
        out[i] = f->parts[i].total[r];
    }
}

/* Puts a total before (reverse: after) what register r has around it already. */
static void surround(Folder *f, int r, const Parts total, Parts out)
{
    Parts have = {NULL};
    for (int i = 0; i < f->n_parts; i++) {
        have[i] = f->parts[i].around[r];
        out[i] = total[i];
    }
    if (have[0]) {
        combine(f, f->reverse ? have : total, f->reverse ? total : have, out);
    }
}

/* ---- one bit of the coordinate ---- */

/* Registers of one group share their total: it is computed once. */
typedef struct Joined {
    LLVMValueRef low, high;
    Parts total;
} Joined;

static const Joined *join(Folder *f, Joined *done, int *n_done, const Parts low, const Parts high)
{
    for (int i = 0; i < *n_done; i++) {
        if (done[i].low == low[0] && done[i].high == high[0]) {
            return &done[i];
        }
    }
    Joined *joined = &done[(*n_done)++];
    joined->low = low[0];
    joined->high = high[0];
    combine(f, low, high, joined->total);
    return joined;
}

static void register_bit(Folder *f, int bit)
{
    Joined *done = ARENA_ARRAY(f->em->arena, Joined, f->n);
    int n_done = 0;
    for (int r = 0; r < f->n; r++) {
        int other = r | 1 << bit;
        if (r == other || !f->parts[0].total[r]) {
            continue;
        }
        Parts low = {NULL}, high = {NULL}, more = {NULL};
        totals_of(f, r, low);
        totals_of(f, other, high);
        int gains = f->reverse ? r : other;
        if (f->scan) {
            surround(f, gains, f->reverse ? high : low, more);
        }
        const Joined *joined = join(f, done, &n_done, low, high);
        for (int i = 0; i < f->n_parts; i++) {
            f->parts[i].total[r] = f->parts[i].total[other] = joined->total[i];
            if (f->scan) {
                f->parts[i].around[gains] = more[i];
            }
        }
    }
}

static void shuffle_totals(Folder *f, int bit, const Parts total, Parts out)
{
    for (int i = 0; i < f->n_parts; i++) {
        out[i] = gpu_shuffle(f->em, total[i], 1 << bit);
    }
}

static void choose(Folder *f, LLVMValueRef condition, const Parts a, const Parts b, Parts out)
{
    for (int i = 0; i < f->n_parts; i++) {
        out[i] = LLVMBuildSelect(f->em->builder, condition, a[i], b[i], "");
    }
}

/* The element's surroundings, where this lane is in the half that gains. */
static void lane_gains(Folder *f, int r, LLVMValueRef upper, const Parts other)
{
    Parts more = {NULL}, have = {NULL}, next = {NULL};
    surround(f, r, other, more);
    for (int i = 0; i < f->n_parts; i++) {
        Part *part = &f->parts[i];
        have[i] = part->around[r] ? part->around[r] : part->neutral;
    }
    choose(f, upper, f->reverse ? have : more, f->reverse ? more : have, next);
    for (int i = 0; i < f->n_parts; i++) {
        f->parts[i].around[r] = next[i];
    }
}

typedef struct Exchanged {
    LLVMValueRef key; /* the first part's total before */
    Parts other, total;
} Exchanged;

static const Exchanged *exchange(Folder *f, Exchanged *done, int *n_done, int bit,
                                 LLVMValueRef upper, int r)
{
    Parts own = {NULL}, low = {NULL}, high = {NULL};
    totals_of(f, r, own);
    for (int i = 0; i < *n_done; i++) {
        if (done[i].key == own[0]) {
            return &done[i];
        }
    }
    Exchanged *found = &done[(*n_done)++];
    found->key = own[0];
    shuffle_totals(f, bit, own, found->other);
    choose(f, upper, found->other, own, low);
    choose(f, upper, own, found->other, high);
    combine(f, low, high, found->total);
    return found;
}

static void lane_bit(Folder *f, int bit)
{
    GpuEmitter *em = f->em;
    Exchanged *done = ARENA_ARRAY(em->arena, Exchanged, f->n);
    int n_done = 0;
    LLVMValueRef own = LLVMBuildAnd(em->builder, em->role->lane, gpu_i32(em, 1 << bit), "");
    LLVMValueRef upper = LLVMBuildICmp(em->builder, LLVMIntNE, own, gpu_i32(em, 0), "");
    for (int r = 0; r < f->n; r++) {
        if (!f->parts[0].total[r]) {
            continue;
        }
        const Exchanged *found = exchange(f, done, &n_done, bit, upper, r);
        if (f->scan) {
            lane_gains(f, r, upper, found->other);
        }
        for (int i = 0; i < f->n_parts; i++) {
            f->parts[i].total[r] = found->total[i];
        }
    }
}

/* ---- the axis ---- */

/* The input bit of a layout that alone moves by `step` along the axis; -1: none. */
static int bit_along(const Folder *f, LayoutIn in, int32_t step)
{
    const Layout *layout = f->type->layout;
    for (int bit = 0; bit < layout->bits[in]; bit++) {
        if (layout->basis[in][bit][f->axis] == step) {
            return bit;
        }
    }
    return -1;
}

static void fold_axis(Folder *f)
{
    int64_t extent = gpu_extent(f->em, f->type, f->axis);
    for (int32_t step = 1; step < extent; step *= 2) {
        int in_register = bit_along(f, IN_REGISTER, step), in_lane = bit_along(f, IN_LANE, step);
        if (in_register >= 0) {
            register_bit(f, in_register);
        } else if (in_lane >= 0) {
            lane_bit(f, in_lane);
        } else {
            gpu_bug(f->em, f->op, "its axis is spread over more than a warp");
        }
    }
}

/* ---- elements ---- */

/* Past the extent, and past the registers that exist, elements are neutral. */
static LLVMValueRef element(const Folder *f, const Part *part, const GpuValue *in, int r)
{
    GpuEmitter *em = f->em;
    if (!gpu_exists(em, f->type, r)) {
        return part->neutral;
    }
    LLVMValueRef value = in->regs[r];
    if (gpu_overhangs(em, f->type, f->axis)) {
        LLVMValueRef coord = gpu_coord(em, f->type->layout, f->axis, r);
        LLVMValueRef extent = gpu_i32(em, gpu_extent(em, f->type, f->axis));
        LLVMValueRef inside = LLVMBuildICmp(em->builder, LLVMIntSLT, coord, extent, "");
        value = LLVMBuildSelect(em->builder, inside, value, part->neutral, "");
    }
    return value;
}

static void take_part(Folder *f, int i)
{
    GpuEmitter *em = f->em;
    Part *part = &f->parts[i];
    const Value *operand = f->op->operands[i];
    const GpuValue *in = gpu_value(em, operand);
    part->dtype = operand->type->dtype;
    part->neutral = f->op->kind == OP_SCAN ? scalar_neutral(em->l, op_word(f->op, ATTR_FN),
                                                            part->dtype, gpu_type(em, part->dtype))
                                           : gpu_scalar(em, f->op->operands[f->n_parts + i]);
    part->element = ARENA_ARRAY(em->arena, LLVMValueRef, f->n);
    part->total = ARENA_ARRAY(em->arena, LLVMValueRef, f->n);
    part->around = ARENA_ARRAY(em->arena, LLVMValueRef, f->n);
    for (int r = 0; r < f->n; r++) {
        if (gpu_canonical(f->type->layout, r) == r) {
            part->element[r] = part->total[r] = element(f, part, in, r);
        }
    }
}

/* ---- results ---- */

static void scanned(Folder *f, int r, Parts out)
{
    Parts own = {NULL}, around = {NULL};
    for (int i = 0; i < f->n_parts; i++) {
        Part *part = &f->parts[i];
        own[i] = part->element[r];
        around[i] = part->around[r];
        out[i] = f->exclusive ? (around[i] ? around[i] : part->neutral) : own[i];
    }
    if (!f->exclusive && around[0]) {
        combine(f, f->reverse ? own : around, f->reverse ? around : own, out);
    }
}

static void define_scanned(Folder *f)
{
    GpuEmitter *em = f->em;
    GpuValue *out[MOST_PARTS];
    for (int i = 0; i < f->n_parts; i++) {
        out[i] = gpu_define(em, f->op->results[i]);
    }
    for (int r = 0; r < f->n; r++) {
        int first = gpu_canonical(f->type->layout, r);
        Parts values = {NULL};
        if (gpu_exists(em, f->type, r) && first == r) {
            scanned(f, r, values);
        }
        for (int i = 0; i < f->n_parts; i++) {
            out[i]->regs[r] = first == r ? values[i] : out[i]->regs[first];
        }
    }
}

static void define_folded(Folder *f)
{
    GpuEmitter *em = f->em;
    Layout reduced = layout_drop_axis(f->type->layout, f->axis);
    for (int i = 0; i < f->n_parts; i++) {
        const Value *result = f->op->results[i];
        GpuValue *out = gpu_define(em, result);
        for (int r = 0; r < out->n; r++) {
            if (!gpu_exists(em, result->type, r)) {
                continue;
            }
            int source = layout_source_register(&reduced, result->type->layout, (uint32_t)r);
            if (source < 0) {
                gpu_bug(em, f->op, "its result has another layout than its operand");
            }
            out->regs[r] = f->parts[i].total[gpu_canonical(&reduced, source)];
        }
    }
}

void gpu_emit_fold(GpuEmitter *em, Op *op)
{
    Folder f = {.em = em,
                .op = op,
                .type = op->operands[0]->type,
                .axis = (int)op_int(op, ATTR_AXIS, 0),
                .n_parts = op->n_results,
                .scan = op->kind == OP_SCAN || op_int(op, ATTR_SCAN, 0) != 0,
                .reverse = op_int(op, ATTR_REVERSE, 0) != 0,
                .exclusive = op_int(op, ATTR_EXCLUSIVE, 0) != 0};
    if (f.n_parts > MOST_PARTS) {
        gpu_bug(em, op, "more than 16 values an element");
    }
    f.n = gpu_registers(em, f.type);
    for (int i = 0; i < f.n_parts; i++) {
        take_part(&f, i);
    }
    fold_axis(&f);
    if (f.scan) {
        define_scanned(&f);
    } else {
        define_folded(&f);
    }
}
