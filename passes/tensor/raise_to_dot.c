/* SPDX-License-Identifier: Apache-2.0 */
/* raise_to_dot: recognizes sums of products and rewrites them as dot.
 *
 *   %p = mul %a, %b : f32[M, N, K]           (%a does not change along N, %b not along M)
 *   %s = reduce %p fn=sum axis=2       →     %s = dot %a', %b' : f32[M, N]
 *
 * One axis of the left factor alone, one of the right factor alone and one summed axis of both
 * become the dot's m, n and k. Every other axis becomes a batch axis, and a batch axis that is
 * summed is reduced afterwards: a convolution becomes one dot over the channels for each offset of
 * its window, wherever the channels are. A summed axis along which only one factor varies is summed
 * in that factor before the dot. 16-bit factors stay 16-bit, since their products are exact in f32.
 * Sums without such axes, or too small for a matrix instruction, are left alone. Requires the
 * tensor level. Reassociates the sum; products enter it unrounded. */
#include "ir/build.h"
#include "passes/analysis/summed_products.h"
#include "passes/analysis/axis_dependence.h"
#include "ir/drop_axis.h"
#include "ir/op_axes.h"
#include "passes/pass.h"

enum {
    MIN_EDGE = 4,   /* rows, columns, depth that are worth it, where they are known … */
    GOOD_EDGE = 16, /* … and that leave no matrix unit half empty */
    /* Multiply-adds of 16 bits that a matrix unit does while threads do one of f32 (H100: 989
     * and 67 TFLOP/s, both dense): a sum of one factor that is shorter costs less behind the
     * product. */
    NARROW_RATE = 16,
};

/* What is known of values, each asked once. */
typedef struct Contract {
    Func *func;
    Memo *varies, *axes[2]; /* `axes`: of read_together and taps_viewed; NULL: not asked yet */
} Contract;

/* ---- windows ---- */

static bool is_one_axis(unsigned axes)
{
    return (axes & (axes - 1)) == 0;
}

/* The axes that are read together with another one, by `x[p + r]`: of a window, and as short as it
 * is, or of the places where it lies. */
static unsigned read_together(const Contract *pass, const Op *read)
{
    unsigned axes = 0;
    for (int i = 1; read->kind == OP_GATHER && i < read->n_operands; i++) {
        bool array = read->operands[i]->type->rank > 0;
        unsigned own = array ? an_varies(pass->varies, read->operands[i]) : 0;
        axes |= is_one_axis(own) ? 0 : own;
    }
    return axes;
}

/* The axes of a view of windows that are neither images nor channels. */
static unsigned taps_viewed(const Contract *pass, const Op *read)
{
    bool views = read->kind == OP_LOAD && func_im2col_of(pass->func, read->operands[0]);
    Type type = read->results[0]->type;
    return views ? an_all_axes(type) & ~(1u | 1u << (type->rank - 1)) : 0;
}

typedef enum ReadAxes { READ_TOGETHER, TAPS_VIEWED } ReadAxes;

/* The same of a value that element-wise work and moved axes make of what is read. */
static unsigned axes_read(const Contract *pass, const Value *value, ReadAxes which)
{
    const Op *op = value->def;
    unsigned axes = 0;
    int64_t found;
    if (!op || memo_known(pass->axes[which], value, 0, &found)) {
        return op ? (unsigned)found : 0;
    }
    if (op_moves_axes(op)) {
        axes = an_axes_moved(op, axes_read(pass, op->operands[0], which));
    } else if (op->kind == OP_GATHER || op->kind == OP_LOAD) {
        axes = which == TAPS_VIEWED ? taps_viewed(pass, op) : read_together(pass, op);
    } else if (op_has(op, TRAIT_ELEMENTWISE)) {
        for (int i = 0; i < op->n_operands; i++) {
            axes |= axes_read(pass, op->operands[i], which);
        }
    }
    return (unsigned)memo_keep(pass->axes[which], value, 0, axes);
}

static void note_axes(Op *op, void *user)
{
    for (int i = 0; i < op->n_results; i++) {
        axes_read(user, op->results[i], READ_TOGETHER);
        axes_read(user, op->results[i], TAPS_VIEWED);
    }
}

/* Of all values that there are: operands before what is made of them. */
static void read_axes(Contract *pass)
{
    if (!pass->varies) {
        pass->varies = an_varies_all(pass->func);
        pass->axes[READ_TOGETHER] = memo_open(pass->func);
        pass->axes[TAPS_VIEWED] = memo_open(pass->func);
        func_walk(pass->func, note_axes, pass);
    }
}

static unsigned of_factors(const Contract *pass, const Op *mul, ReadAxes which)
{
    return axes_read(pass, mul->operands[0], which) | axes_read(pass, mul->operands[1], which);
}

/* ---- what is a product ---- */

typedef struct Contraction {
    SummedProduct sums;
    int m, n, k; /* axes */
} Contraction;

static bool is_worth(Type type, int axis, int64_t least)
{
    int64_t extent;
    return !poly_is_const(type->dims[axis], &extent) || extent >= least;
}

/* The last such axis, which is contiguous, as a rule; one that is long enough first. */
static int last_axis(unsigned axes, Type type)
{
    static const int64_t least[] = {GOOD_EDGE, MIN_EDGE};
    for (int pass = 0; pass < 2; pass++) {
        for (int i = type->rank; i-- > 0;) {
            if ((axes >> i & 1) && is_worth(type, i, least[pass])) {
                return i;
            }
        }
    }
    return -1;
}

/* Factors in the other order: `w[o, k] * x[m, k]` for y[m, o]. */
static void swap_factors(Contraction *c)
{
    Op *mul = c->sums.mul;
    Value *first = mul->operands[0];
    int rows = c->m;
    op_set_operand(mul, 0, mul->operands[1]);
    op_set_operand(mul, 1, first);
    c->m = c->n;
    c->n = rows;
}

/* A product may be held either way; the columns are what the result has last, but what is
 * gathered stays where the source has it: only the left factor may pass through registers. */
static bool choose_axes(const Contract *pass, Contraction *c)
{
    const Op *mul = c->sums.mul;
    Type type = mul->results[0]->type;
    unsigned kept = an_all_axes(type) & ~c->sums.summed;
    unsigned left = an_varies(pass->varies, mul->operands[0]);
    unsigned right = an_varies(pass->varies, mul->operands[1]);
    c->m = last_axis(kept & left & ~right, type);
    c->n = last_axis(kept & right & ~left, type);
    unsigned inner = c->sums.summed & left & right;
    unsigned window = of_factors(pass, mul, READ_TOGETHER);
    unsigned taps = of_factors(pass, mul, TAPS_VIEWED);
    c->k = last_axis(inner & ~window & ~taps, type);
    c->k = c->k < 0 ? last_axis(inner, type) : c->k;
    bool found = c->m >= 0 && c->n >= 0 && c->k >= 0;
    if (found && c->m > c->n && !window) {
        swap_factors(c);
    }
    return found;
}

/* ---- the product ---- */

/* The 16 bits that a factor was widened from, or its own type. */
static DType narrow_type(const Value *value)
{
    const Op *op = value->def;
    while (op && op_moves_axes(op)) {
        op = op->operands[0]->def;
    }
    DType from = op && op->kind == OP_CAST ? op->operands[0]->type->dtype : DT_F32;
    return from == DT_F16 || from == DT_BF16 ? from : DT_F32;
}

/* The factor before it was widened. */
static Value *narrowed(Builder *b, Value *value)
{
    const Op *op = value->def;
    if (op->kind == OP_CAST) {
        return op->operands[0];
    }
    Value *operand = narrowed(b, op->operands[0]);
    Type type = type_with_dtype(b->func, value->type, operand->type->dtype);
    Op *copy = build_op(b, op->kind, 1, &operand, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    return copy->results[0];
}

/* A factor over batches, then two axes; `other`: the axis that it does not have. */
static Value *factor(Builder *b, const Contraction *c, int which, const int *batches, int n)
{
    Value *value = c->sums.mul->operands[which];
    int other = which ? c->m : c->n;
    int first = which ? c->k : c->m, second = which ? c->n : c->k;
    int64_t perm[MAX_RANK];
    DType narrow = narrow_type(value);
    if (narrow != DT_F32 && narrow == narrow_type(c->sums.mul->operands[1 - which])) {
        value = narrowed(b, value);
    }
    value = axis_dropped(b, value, other);
    bool ordered = true;
    for (int i = 0; i < n + 2; i++) {
        int axis = i < n ? batches[i] : i == n ? first : second;
        perm[i] = axis - (axis > other);
        ordered = ordered && perm[i] == i;
    }
    return ordered ? value : build_permute(b, value, perm);
}

/* The product's axes in the order of the sum's result, one element along those that are summed. */
static Value *restored(Builder *b, const Contraction *c, Value *value, const int *batches, int n)
{
    int64_t perm[MAX_RANK];
    value = build_expand(b, value, n + 2); /* k */
    for (int i = 0; i < n; i++) {
        perm[batches[i]] = i;
    }
    perm[c->m] = n;
    perm[c->n] = n + 1;
    perm[c->k] = n + 2;
    value = build_permute(b, value, perm);
    for (int i = c->sums.rank; i-- > 0;) {
        value = c->sums.dropped >> i & 1 ? build_squeeze(b, value, i) : value;
    }
    return value;
}

/* ---- sums of one factor ---- */

/* The summed axes along which one factor alone varies, where that factor is to be summed first:
 * sum(k, p) a[m, k, p] * w[k, n] is sum(k) (sum(p) a[m, k, p]) * w[k, n]. Not where nothing is left
 * to contract, where the factor is a view that only the copy engine can read, and where factors of
 * 16 bits would become factors of f32 for a short axis. */
static unsigned summed_first(const Contract *pass, const Contraction *c)
{
    const Op *mul = c->sums.mul;
    Type type = mul->results[0]->type;
    unsigned left = an_varies(pass->varies, mul->operands[0]);
    unsigned right = an_varies(pass->varies, mul->operands[1]);
    unsigned kept = an_all_axes(type) & ~c->sums.summed, of_one = c->sums.summed & (left ^ right);
    bool contracts =
        (kept & left & ~right) && (kept & right & ~left) && (c->sums.summed & left & right);
    if (!contracts || of_factors(pass, mul, TAPS_VIEWED)) {
        return 0;
    }
    bool narrow = narrow_type(mul->operands[0]) != DT_F32 &&
                  narrow_type(mul->operands[0]) == narrow_type(mul->operands[1]);
    int64_t most = 1;
    for (int i = 0; i < type->rank; i++) {
        bool counts = of_one >> i & 1;
        if (counts && __builtin_mul_overflow(most, poly_most(type->dims[i]), &most)) {
            most = INT64_MAX;
        }
    }
    return narrow && most < NARROW_RATE ? 0 : of_one;
}

/* A factor, summed along those of the axes along which it varies, over all axes but these. */
static Value *factor_summed(Builder *b, Value *factor, unsigned varies, unsigned first)
{
    Type type = factor->type;
    Value *value = factor;
    for (int i = type->rank; i-- > 0;) {
        value = varies >> i & 1 ? value : axis_dropped(b, value, i);
    }
    for (int i = type->rank; i-- > 0;) {
        if (varies & first & 1u << i) {
            int at = __builtin_popcount(varies & ((1u << i) - 1));
            value = build_squeeze(b, build_reduce(b, "sum", value, at), at);
        }
    }
    Dim dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < type->rank; i++) {
        if (!(first >> i & 1)) {
            value = varies >> i & 1 ? value : build_expand(b, value, rank);
            dims[rank++] = type->dims[i];
        }
    }
    return build_broadcast(b, value, rank, dims);
}

/* Sums each such axis in the factor that has it. Returns the last sum of the product that is
 * left. */
static Op *sum_factors(Contract *pass, Op *op, const Contraction *c, unsigned first)
{
    Builder b = build_before(pass->func, op);
    Value *factors[2];
    for (int i = 0; i < 2; i++) {
        Value *factor = c->sums.mul->operands[i];
        factors[i] = factor_summed(&b, factor, an_varies(pass->varies, factor), first);
    }
    Value *value = build_binary(&b, OP_MUL, factors[0], factors[1]);
    for (int i = c->sums.rank; i-- > 0;) {
        if ((c->sums.summed & ~first) >> i & 1) {
            int gone = __builtin_popcount(first & ((1u << i) - 1));
            value = build_reduce(&b, "sum", value, i - gone);
        }
    }
    Op *last = value->def;
    for (int i = 0; i < c->sums.rank; i++) {
        value = first >> i & 1 ? build_expand(&b, value, i) : value;
    }
    for (int i = c->sums.rank; i-- > 0;) {
        value = c->sums.dropped >> i & 1 ? build_squeeze(&b, value, i) : value;
    }
    value->name = op->results[0]->name;
    func_replace_uses(pass->func, op->results[0], value);
    return last;
}

static void contract_op(Contract *pass, Op *op)
{
    Func *func = pass->func;
    Contraction c;
    int batches[MAX_RANK], n = 0;
    if (!an_summed_product(func, op, &c.sums)) {
        return;
    }
    read_axes(pass);
    unsigned first = summed_first(pass, &c);
    if (first) {
        contract_op(pass, sum_factors(pass, op, &c, first));
        return;
    }
    if (!choose_axes(pass, &c)) {
        return;
    }
    for (int summed = 0; summed < 2; summed++) { /* the summed ones last */
        for (int i = 0; i < c.sums.rank; i++) {
            if (i != c.m && i != c.n && i != c.k && (int)(c.sums.summed >> i & 1) == summed) {
                batches[n++] = i;
            }
        }
    }
    Builder b = build_before(func, op);
    Value *left = factor(&b, &c, 0, batches, n), *right = factor(&b, &c, 1, batches, n);
    Value *sum = build_dot(&b, left, right, NULL, DT_F32);
    for (int i = n; i-- > 0;) {
        sum = c.sums.summed >> batches[i] & 1 ? build_reduce(&b, "sum", sum, i) : sum;
    }
    sum = restored(&b, &c, sum, batches, n);
    sum->name = op->results[0]->name;
    func_replace_uses(func, op->results[0], sum);
}

void pass_raise_to_dot(Func *func)
{
    Contract pass = {.func = func};
    /* The outermost sum of several comes last, and takes the others with it. */
    for (Op *op = func->body->last, *before; op; op = before) {
        before = op->prev;
        contract_op(&pass, op);
    }
    if (pass.varies) {
        memo_close(pass.varies);
        memo_close(pass.axes[READ_TOGETHER]);
        memo_close(pass.axes[TAPS_VIEWED]);
    }
    func_remove_dead(func);
}
