/* SPDX-License-Identifier: Apache-2.0 */
/* The ops scan and fold: elements along an axis are combined in order, by a built-in operation or
 * by the program's own function over several values at once.
 *
 * A coordinate of the axis is a set of bits. From the lowest bit on, groups that differ in one bit
 * are joined: the elements of the later half get the total of the earlier half in front of them,
 * and both halves get the combined total (Hillis and Steele, "Data parallel algorithms", 1986, bit
 * by bit). A register bit costs a combination, a lane bit a shuffle; adjacent warp bits are joined
 * at once, through shared memory. The total of earlier threads is the same for all adjacent
 * registers of a thread: it is computed once and combined with each of them at the end. */
#include "codegen/gpu/gpu_scan.h"
#include "codegen/scalar/scalar_ops.h"

/* ---- the function ---- */

void fold_combine(Folder *f, const Parts earlier, const Parts later, Parts out)
{
    GpuEmitter *em = f->em;
    if (f->op->kind == OP_SCAN) {
        OpKind reduction = scalar_reduction(em->l, f->op);
        out[0] = scalar_combine(em->l, reduction, f->parts[0].dtype, earlier[0], later[0]);
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

static bool same(const Folder *f, const Parts a, const Parts b)
{
    for (int i = 0; i < f->n_parts; i++) {
        if (a[i] != b[i]) {
            return false;
        }
    }
    return true;
}

void fold_set(const Folder *f, Parts to, const LLVMValueRef *from)
{
    for (int i = 0; i < f->n_parts; i++) {
        to[i] = from[i];
    }
}

Memo fold_memo(const Folder *f)
{
    return (Memo){ARENA_ARRAY(f->em->arena, FoldMemoEntry, f->n), 0};
}

FoldMemoEntry *fold_memo_find(const Folder *f, Memo *memo, const Parts a, const Parts b,
                              bool *known)
{
    for (int i = 0; i < memo->n; i++) {
        if (same(f, memo->items[i].a, a) && same(f, memo->items[i].b, b)) {
            *known = true;
            return &memo->items[i];
        }
    }
    FoldMemoEntry *entry = &memo->items[memo->n++];
    fold_set(f, entry->a, a);
    fold_set(f, entry->b, b);
    *known = false;
    return entry;
}

static const LLVMValueRef *joined(Folder *f, Memo *memo, const Parts earlier, const Parts later)
{
    bool known;
    FoldMemoEntry *entry = fold_memo_find(f, memo, earlier, later, &known);
    if (!known) {
        fold_combine(f, earlier, later, entry->first);
    }
    return entry->first;
}

/* ---- registers ---- */

bool fold_has_total(const Folder *f, int r)
{
    return f->parts[0].total[r] != NULL;
}

void fold_totals(const Folder *f, int r, Parts out)
{
    for (int i = 0; i < f->n_parts; i++) {
        out[i] = f->parts[i].total[r];
    }
}

void fold_set_totals(Folder *f, int r, const LLVMValueRef *total)
{
    for (int i = 0; i < f->n_parts; i++) {
        f->parts[i].total[r] = total[i];
    }
}

/* What comes before register r (reverse: after it), as far as it grows now; false: nothing. */
static bool before_of(const Folder *f, int r, Parts out)
{
    for (int i = 0; i < f->n_parts; i++) {
        out[i] = f->threads ? f->parts[i].outer[r] : f->parts[i].around[r];
    }
    return out[0] != NULL;
}

void fold_set_before(Folder *f, int r, const LLVMValueRef *before)
{
    for (int i = 0; i < f->n_parts; i++) {
        *(f->threads ? &f->parts[i].outer[r] : &f->parts[i].around[r]) = before[i];
    }
}

const LLVMValueRef *fold_surrounded(Folder *f, Memo *memo, int r, const Parts more)
{
    Parts have = {NULL};
    if (!before_of(f, r, have)) {
        return more;
    }
    return joined(f, memo, f->reverse ? have : more, f->reverse ? more : have);
}

/* ---- one bit of the coordinate ---- */

/* `joined_bits`: of registers, that lie below along the axis. Their registers have one total; where
 * the tile is no power of two the first of them is there if any is. */
static void register_bit(Folder *f, int bit, int joined_bits)
{
    Memo totals = fold_memo(f), befores = fold_memo(f);
    const LLVMValueRef **total = ARENA_ARRAY(f->em->arena, const LLVMValueRef *, f->n);
    for (int r = 0; r < f->n; r++) {
        int other = r | 1 << bit, there = other & ~joined_bits;
        if (r == other || !fold_has_total(f, r) || !fold_has_total(f, there)) {
            continue;
        }
        Parts low = {NULL}, high = {NULL};
        bool both = fold_has_total(f, other);
        fold_totals(f, r, low);
        fold_totals(f, there, high);
        if (f->scan && f->reverse) {
            fold_set_before(f, r, fold_surrounded(f, &befores, r, high));
        } else if (f->scan && both) {
            fold_set_before(f, other, fold_surrounded(f, &befores, other, low));
        }
        total[r] = joined(f, &totals, low, high);
        total[other] = both ? total[r] : NULL;
    }
    for (int r = 0; r < f->n; r++) {
        if (total[r]) {
            fold_set_totals(f, r, total[r]);
        }
    }
}

void fold_choose(const Folder *f, LLVMValueRef condition, const Parts a, const Parts b, Parts out)
{
    for (int i = 0; i < f->n_parts; i++) {
        out[i] = LLVMBuildSelect(f->em->builder, condition, a[i], b[i], "");
    }
}

void fold_neutrals(const Folder *f, Parts out)
{
    for (int i = 0; i < f->n_parts; i++) {
        out[i] = f->parts[i].neutral;
    }
}

/* The other lane's total in `first`, that of both in `second`. */
static const FoldMemoEntry *exchanged(Folder *f, Memo *memo, int bit, LLVMValueRef upper,
                                      const Parts own)
{
    Parts low = {NULL}, high = {NULL};
    bool known;
    FoldMemoEntry *entry = fold_memo_find(f, memo, own, own, &known);
    if (known) {
        return entry;
    }
    for (int i = 0; i < f->n_parts; i++) {
        entry->first[i] = gpu_shuffle(f->em, own[i], 1 << bit);
    }
    fold_choose(f, upper, entry->first, own, low);
    fold_choose(f, upper, own, entry->first, high);
    fold_combine(f, low, high, entry->second);
    return entry;
}

/* What is before the register, where this lane is in the half that gains. */
static const LLVMValueRef *gained(Folder *f, Memo *memo, Memo *joins, int r, LLVMValueRef upper,
                                  const Parts other)
{
    Parts have = {NULL};
    bool known;
    if (!before_of(f, r, have)) {
        fold_neutrals(f, have);
    }
    FoldMemoEntry *entry = fold_memo_find(f, memo, other, have, &known);
    if (!known) {
        const LLVMValueRef *more = fold_surrounded(f, joins, r, other);
        fold_choose(f, upper, f->reverse ? have : more, f->reverse ? more : have, entry->first);
    }
    return entry->first;
}

static void lane_bit(Folder *f, int bit)
{
    GpuEmitter *em = f->em;
    Memo totals = fold_memo(f), befores = fold_memo(f), joins = fold_memo(f);
    LLVMValueRef own = LLVMBuildAnd(em->builder, em->role->lane, gpu_i32(em, 1 << bit), "");
    LLVMValueRef upper = LLVMBuildICmp(em->builder, LLVMIntNE, own, gpu_i32(em, 0), "");
    f->threads = true;
    for (int r = 0; r < f->n; r++) {
        Parts mine = {NULL};
        if (!fold_has_total(f, r)) {
            continue;
        }
        fold_totals(f, r, mine);
        const FoldMemoEntry *entry = exchanged(f, &totals, bit, upper, mine);
        if (f->scan) {
            fold_set_before(f, r, gained(f, &befores, &joins, r, upper, entry->first));
        }
        fold_set_totals(f, r, entry->second);
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

/* The warp bits from this step on. */
static FoldWarps warps_from(const Folder *f, int32_t step)
{
    FoldWarps warps = {.n = 0};
    for (int bit = bit_along(f, IN_WARP, step); bit >= 0; bit = bit_along(f, IN_WARP, step)) {
        warps.bits[warps.n++] = bit;
        step *= 2;
    }
    warps.end = step;
    return warps;
}

/* ---- elements ---- */

/* Past the extent elements are neutral. Sums of floats begin with 0, which makes 0 of -0. */
static LLVMValueRef element(const Folder *f, const Part *part, const GpuValue *in, int r)
{
    GpuEmitter *em = f->em;
    LLVMValueRef value = in->regs[r];
    if (gpu_overhangs(em, f->type, f->axis)) {
        LLVMValueRef coord = gpu_coord(em, f->type->layout, f->axis, r);
        LLVMValueRef extent = gpu_i32(em, gpu_extent(em, f->type, f->axis));
        LLVMValueRef inside = LLVMBuildICmp(em->builder, LLVMIntSLT, coord, extent, "");
        value = LLVMBuildSelect(em->builder, inside, value, part->neutral, "");
    }
    bool sum = f->op->kind == OP_SCAN && dtype_is_float(part->dtype) &&
               scalar_reduction(em->l, f->op) == OP_ADD;
    return sum ? scalar_combine(em->l, OP_ADD, part->dtype, part->neutral, value) : value;
}

static void find_neutral(const Folder *f, Part *part, int i)
{
    GpuEmitter *em = f->em;
    if (f->op->kind != OP_SCAN) {
        part->neutral = gpu_scalar(em, f->op->operands[f->n_parts + i]);
        return;
    }
    OpKind reduction = scalar_reduction(em->l, f->op);
    part->neutral = scalar_neutral(reduction, part->dtype, gpu_type(em, part->dtype));
}

/* ---- results ---- */

/* `more` in front (reverse: behind) of what is there, if anything is, and if there is more. */
static void put_before(Folder *f, Parts there, const Parts more)
{
    Parts both = {NULL};
    if (more[0] && there[0]) {
        fold_combine(f, f->reverse ? there : more, f->reverse ? more : there, both);
        fold_set(f, there, both);
    } else if (more[0]) {
        fold_set(f, there, more);
    }
}

static void define_scanned(Folder *f)
{
    GpuEmitter *em = f->em;
    GpuValue *out[MAX_PARTS];
    for (int i = 0; i < f->n_parts; i++) {
        out[i] = gpu_define(em, f->op->results[i]);
    }
    for (int r = 0; r < f->n; r++) {
        int first = gpu_canonical(f->type->layout, r);
        Parts values = {NULL};
        if (gpu_exists(em, f->type, r) && first == r) {
            /* An element's result combines the prefixes of the outer and inner steps with its own
             * value. */
            Parts around = {NULL}, outer = {NULL};
            for (int i = 0; i < f->n_parts; i++) {
                const Part *part = &f->parts[i];
                around[i] = part->around[r];
                outer[i] = part->outer[r];
                values[i] = f->exclusive ? NULL : part->element[r];
            }
            put_before(f, values, around);
            put_before(f, values, outer);
            if (!values[0]) {
                fold_neutrals(f, values);
            }
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
            out->regs[r] =
                f->parts[i].total[gpu_canonical(f->type->layout, gpu_canonical(&reduced, source))];
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
    if (f.n_parts > MAX_PARTS) {
        gpu_bug(em, op, "more than 16 values an element");
    }
    f.n = gpu_registers(em, f.type);
    for (int i = 0; i < f.n_parts; i++) {
        /* Each operand of the fold gets its registers for elements, totals and prefixes. */
        Part *part = &f.parts[i];
        const Value *operand = f.op->operands[i];
        const GpuValue *in = gpu_value(em, operand);
        part->dtype = operand->type->dtype;
        find_neutral(&f, part, i);
        part->element = ARENA_ARRAY(em->arena, LLVMValueRef, f.n);
        part->total = ARENA_ARRAY(em->arena, LLVMValueRef, f.n);
        part->around = ARENA_ARRAY(em->arena, LLVMValueRef, f.n);
        part->outer = ARENA_ARRAY(em->arena, LLVMValueRef, f.n);
        for (int r = 0; r < f.n; r++) {
            if (gpu_canonical(f.type->layout, r) == r && gpu_exists(em, f.type, r)) {
                part->element[r] = part->total[r] = element(&f, part, in, r);
            }
        }
    }
    /* The axis is folded bit by bit, from the nearest elements to the farthest: registers, lanes,
     * then warps. */
    int64_t extent = gpu_extent(f.em, f.type, f.axis);
    int joined_bits = 0;
    for (int32_t step = 1; step < extent;) {
        int in_register = bit_along(&f, IN_REGISTER, step), in_lane = bit_along(&f, IN_LANE, step);
        FoldWarps warps = warps_from(&f, step);
        if (in_register >= 0) {
            register_bit(&f, in_register, joined_bits);
            joined_bits |= 1 << in_register;
        } else if (in_lane >= 0) {
            lane_bit(&f, in_lane);
        } else if (warps.n) {
            fold_warps(&f, &warps);
        } else {
            gpu_bug(f.em, f.op, "a step along its axis belongs to no register or lane");
        }
        step = in_register < 0 && in_lane < 0 ? warps.end : step * 2;
    }
    if (f.scan) {
        define_scanned(&f);
    } else {
        define_folded(&f);
    }
}
