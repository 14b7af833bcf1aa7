/* SPDX-License-Identifier: Apache-2.0 */
/* Scans, and folds by the program's own function. Elements are combined in order. Along the vector
 * axis, adjacent elements inside of a vector are combined first, then one vector after the other;
 * along another axis, elements are combined one by one for a vector of adjacent results. */
#include "codegen/cpu/cpu_emit.h"

enum {
    MAX_PARTS = 16,
    SCAN_VECTORS = 8, /* of a row that are scanned at a time: only adding what came before waits */
    LIGHT = 6,        /* operations of an element, beyond which this many would be much code */
};

typedef struct Fold {
    const Op *op;
    int n;          /* values of an element */
    bool by_region; /* the region of the op combines, else `reduction` */
    OpKind reduction;
    bool plain; /* the region is elementwise: it is as good on vectors */
    bool scan, reverse, exclusive;
    int axis;
    LLVMValueRef len;                /* of the axis */
    LLVMValueRef neutral[MAX_PARTS]; /* scalars */
    LLVMValueRef cells[MAX_PARTS];   /* what was combined so far */
    const Buffer *to[MAX_PARTS];
} Fold;

static DType part_dtype(const Fold *fold, int i)
{
    return fold->op->operands[i]->type->dtype;
}

static LLVMTypeRef part_type(CpuEmitter *c, const Fold *fold, int i, int lanes)
{
    return llvm_lanes(llvm_type(c->l, part_dtype(fold, i)), lanes);
}

/* ---- the function ---- */

static LLVMValueRef region_value(CpuEmitter *c, const Value *value, int lanes)
{
    LLVMValueRef scalar = cpu_scalar(c, value);
    bool widen = lanes > 1 && !llvm_lane_count(LLVMTypeOf(scalar));
    return widen ? llvm_splat(c->l, scalar, llvm_lanes(LLVMTypeOf(scalar), lanes)) : scalar;
}

static bool is_plain(const Block *region)
{
    for (const Op *op = region->first; op; op = op->next) {
        if (!op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_CONST && op->kind != OP_SIZE &&
            op->kind != OP_YIELD) {
            return false;
        }
    }
    return true;
}

/* first ∘ second; `out` may be either. */
static void combine(CpuEmitter *c, const Fold *fold, LLVMValueRef *first, LLVMValueRef *second,
                    LLVMValueRef *out)
{
    if (!fold->by_region) {
        out[0] = scalar_combine(c->l, fold->reduction, part_dtype(fold, 0), first[0], second[0]);
        return;
    }
    const Block *region = fold->op->regions[0];
    int lanes = llvm_lane_count(LLVMTypeOf(first[0]));
    for (int i = 0; i < fold->n; i++) {
        c->values[region->args[i]->id].scalar = first[i];
        c->values[region->args[fold->n + i]->id].scalar = second[i];
    }
    if (!fold->plain) {
        cpu_emit_scalar_region(c, region, out);
        return;
    }
    const Op *op = region->first;
    for (; op->kind != OP_YIELD; op = op->next) {
        /* The ops of the region are emitted with whole vectors in place of their scalars. */
        LLVMValueRef operands[3];
        const Value *result = op->results[0];
        if (op->kind == OP_CONST) {
            LLVMTypeRef type = llvm_lanes(llvm_type(c->l, result->type->dtype), lanes);
            c->values[result->id].scalar =
                llvm_number(c->l, result->type->dtype, type, op_attr(op, ATTR_VALUE));
            continue;
        }
        if (op->kind == OP_SIZE) {
            c->values[result->id].scalar = cpu_dim(c, op_attr(op, ATTR_DIM)->dims[0]);
            continue;
        }
        for (int i = 0; i < op->n_operands; i++) {
            operands[i] = region_value(c, op->operands[i], lanes);
        }
        c->values[result->id].scalar = scalar_emit_op(c->l, op, operands);
    }
    for (int i = 0; i < fold->n; i++) {
        out[i] = region_value(c, op->operands[i], lanes);
    }
}

/* ---- cells ---- */

static void new_cells(CpuEmitter *c, Fold *fold, int lanes)
{
    for (int i = 0; i < fold->n; i++) {
        LLVMTypeRef type = part_type(c, fold, i, lanes);
        fold->cells[i] = cpu_cell(c, type);
        cpu_set(c, fold->cells[i], llvm_splat(c->l, fold->neutral[i], type));
    }
}

static void get_cells(CpuEmitter *c, int n, const LLVMValueRef *cells, LLVMValueRef *out)
{
    for (int i = 0; i < n; i++) {
        out[i] = cpu_get(c, cells[i]);
    }
}

static void set_cells(CpuEmitter *c, const Fold *fold, LLVMValueRef *values)
{
    for (int i = 0; i < fold->n; i++) {
        cpu_set(c, fold->cells[i], values[i]);
    }
}

static void store_parts(CpuEmitter *c, const Fold *fold, const Point *point, LLVMValueRef *values)
{
    for (int i = 0; i < fold->n; i++) {
        cpu_buffer_store(c, fold->to[i], point, values[i]);
    }
}

/* Lanes that do not exist are neutral. */
static void eval_parts(CpuEmitter *c, const Fold *fold, const Point *point, LLVMValueRef *out)
{
    for (int i = 0; i < fold->n; i++) {
        out[i] = cpu_eval(c, fold->op->operands[i], point);
        if (point->mask && point->vector_axis == fold->axis) {
            LLVMValueRef neutral = llvm_splat(c->l, fold->neutral[i], LLVMTypeOf(out[i]));
            out[i] = LLVMBuildSelect(c->l->builder, point->mask, out[i], neutral, "");
        }
    }
}

/* ---- one element after the other ---- */

static void combine_ordered(CpuEmitter *c, const Fold *fold, LLVMValueRef *done, LLVMValueRef *next,
                            LLVMValueRef *out)
{
    if (fold->reverse) {
        combine(c, fold, next, done, out);
    } else {
        combine(c, fold, done, next, out);
    }
}

static void ordered_body(CpuEmitter *c, const Point *point, void *user)
{
    Fold *fold = user;
    LLVMValueRef done[MAX_PARTS], next[MAX_PARTS];
    Point inner = *point;
    new_cells(c, fold, point->vector_axis < 0 ? 1 : c->lanes);
    Loop loop = cpu_loop_begin(c, llvm_i64(c->l, 0), fold->len, 1);
    inner.at[fold->axis] = loop.counter;
    if (fold->reverse) {
        LLVMValueRef last = cpu_sub(c, fold->len, llvm_i64(c->l, 1));
        inner.at[fold->axis] = cpu_sub(c, last, loop.counter);
    }
    eval_parts(c, fold, &inner, next);
    get_cells(c, fold->n, fold->cells, done);
    if (fold->exclusive) {
        store_parts(c, fold, &inner, done);
    }
    combine_ordered(c, fold, done, next, done);
    set_cells(c, fold, done);
    if (fold->scan && !fold->exclusive) {
        store_parts(c, fold, &inner, done);
    }
    cpu_loop_end(c, &loop);
    if (!fold->scan) {
        get_cells(c, fold->n, fold->cells, done);
        store_parts(c, fold, point, done);
    }
}

/* ---- inside of a vector ---- */

static LLVMValueRef shuffle(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b, int n, int first,
                            int step)
{
    LLVMValueRef lanes[64];
    if (n == 1) { /* one element is a scalar */
        return LLVMBuildExtractElement(c->l->builder, a, llvm_i32(c->l, first), "");
    }
    for (int i = 0; i < n; i++) {
        lanes[i] = llvm_i32(c->l, first + i * step);
    }
    return LLVMBuildShuffleVector(c->l->builder, a, b, LLVMConstVector(lanes, (unsigned)n), "");
}

/* Lane l becomes what lane l - by was (reversed: l + by); the rest comes from `fill`. */
static LLVMValueRef shifted(CpuEmitter *c, const Fold *fold, LLVMValueRef value, LLVMValueRef fill,
                            int by)
{
    return fold->reverse ? shuffle(c, value, fill, c->lanes, by, 1)
                         : shuffle(c, fill, value, c->lanes, c->lanes - by, 1);
}

static void scan_chunk(CpuEmitter *c, const Point *point, void *user)
{
    const Fold *fold = user;
    LLVMValueRef parts[MAX_PARTS], done[MAX_PARTS], total[MAX_PARTS];
    eval_parts(c, fold, point, parts);
    get_cells(c, fold->n, fold->cells, done);

    /* The lanes are scanned in log2(lanes) steps, each of which combines with the values shifted by
     * twice the distance. */
    LLVMValueRef moved[MAX_PARTS];
    for (int by = 1; by < c->lanes; by *= 2) {
        for (int i = 0; i < fold->n; i++) {
            LLVMValueRef none = llvm_splat(c->l, fold->neutral[i], LLVMTypeOf(parts[i]));
            moved[i] = shifted(c, fold, parts[i], none, by);
        }
        combine_ordered(c, fold, moved, parts, parts);
    }

    for (int i = 0; i < fold->n; i++) {
        LLVMValueRef none = LLVMGetPoison(LLVMTypeOf(parts[i]));
        total[i] = shuffle(c, parts[i], none, c->lanes, fold->reverse ? 0 : c->lanes - 1, 0);
    }
    combine_ordered(c, fold, done, parts, parts);
    for (int i = 0; i < fold->n && fold->exclusive; i++) {
        parts[i] = shifted(c, fold, parts[i], done[i], 1);
    }
    store_parts(c, fold, point, parts);
    combine_ordered(c, fold, done, total, done);
    set_cells(c, fold, done);
}

static void fold_chunk(CpuEmitter *c, const Point *point, void *user)
{
    const Fold *fold = user;
    LLVMValueRef parts[MAX_PARTS], done[MAX_PARTS];
    eval_parts(c, fold, point, parts);
    /* Adjacent lanes are combined pairwise until one element is left, which keeps their order. */
    LLVMValueRef odd[MAX_PARTS];
    for (int n = c->lanes / 2; n >= 1; n /= 2) {
        for (int i = 0; i < fold->n; i++) {
            LLVMValueRef none = LLVMGetPoison(LLVMTypeOf(parts[i]));
            odd[i] = shuffle(c, parts[i], none, n, 1, 2);
            parts[i] = shuffle(c, parts[i], none, n, 0, 2);
        }
        combine(c, fold, parts, odd, parts);
    }
    get_cells(c, fold->n, fold->cells, done);
    combine(c, fold, done, parts, done);
    set_cells(c, fold, done);
}

/* Vectors that a scan takes at a time, where `unroll` does not say. */
static int scanned_at_once(const CpuEmitter *c, const Fold *fold)
{
    const CpuValue *facts = &c->values[fold->op->operands[0]->id];
    bool light = !fold->by_region && (facts->buffer || facts->cost <= LIGHT);
    return c->unroll == 0 && fold->scan && light ? SCAN_VECTORS : c->unroll;
}

static void row_body(CpuEmitter *c, const Point *point, void *user)
{
    Fold *fold = user;
    Point inner = *point;
    int unroll = c->unroll;
    c->unroll = scanned_at_once(c, fold);
    inner.vector_axis = fold->axis;
    inner.at[fold->axis] = llvm_i64(c->l, 0);
    size_t known = c->known.n;
    new_cells(c, fold, fold->scan ? c->lanes : 1);
    NestBody *chunk = fold->scan ? scan_chunk : fold_chunk;
    if (fold->reverse) {
        cpu_vector_loop_down(c, &inner, fold->len, chunk, fold);
    } else {
        cpu_vector_loop(c, &inner, fold->len, chunk, fold);
    }
    if (!fold->scan) {
        LLVMValueRef done[MAX_PARTS];
        get_cells(c, fold->n, fold->cells, done);
        store_parts(c, fold, point, done);
    }
    c->unroll = unroll;
    c->known.n = known;
}

/* ---- the op ---- */

void cpu_emit_fold(CpuEmitter *c, const Op *op)
{
    /* The attributes of the op give the form of the fold. */
    bool own = op->kind == OP_FOLD;
    Fold fold = {.op = op, .n = own ? op->n_results : 1, .axis = (int)op_int(op, ATTR_AXIS, 0)};
    fold.by_region = own;
    fold.reduction = own ? OP_ADD : scalar_reduction(c->l, op);
    fold.plain = !own || is_plain(op->regions[0]);
    fold.scan = !own || op_int(op, ATTR_SCAN, 0);
    fold.reverse = fold.scan && op_int(op, ATTR_REVERSE, 0);
    fold.exclusive = fold.scan && op_int(op, ATTR_EXCLUSIVE, 0);
    fold.len = cpu_dim(c, op->operands[0]->type->dims[fold.axis]);
    if (fold.n > MAX_PARTS) {
        diag_bug(c->func->diags, "a fold of more than %d values at once", MAX_PARTS);
    }
    for (int k = 0; k < fold.n; k++) {
        fold.neutral[k] =
            own ? cpu_scalar(c, op->operands[fold.n + k])
                : scalar_neutral(fold.reduction, part_dtype(&fold, k), part_type(c, &fold, k, 1));
    }
    for (int k = 0; k < fold.n; k++) {
        const Value *result = op->results[k];
        fold.to[k] = cpu_buffer_for(c, result->type, c->values[result->id].last);
    }
    Type type = op->operands[0]->type;
    int vector_axis = cpu_vector_axis(c, type);
    Nest nest = {.rank = type->rank, .vector_axis = -1, .user = &fold};
    for (int i = 0; i < type->rank; i++) {
        nest.lens[i] = i == fold.axis ? llvm_i64(c->l, 1) : cpu_dim(c, type->dims[i]);
    }
    nest.body = ordered_body;
    if (fold.plain && vector_axis == fold.axis) {
        nest.body = row_body;
    } else if (fold.plain) {
        nest.vector_axis = vector_axis;
    }
    cpu_nest(c, &nest);
    for (int i = 0; i < fold.n; i++) {
        c->values[op->results[i]->id].buffer = fold.to[i];
    }
}
