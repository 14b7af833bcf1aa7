/* SPDX-License-Identifier: Apache-2.0 */
/* shift_variance: computes the mean and the variance of long rows in one pass over them.
 *
 *   %s = reduce %x fn=sum axis=1               %c = mean of a sixteenth of each row of %x
 *   %m = f(%s)                                 %e = %x - %c
 *   %d = %x - %m                          →    %s' = sum of %e, %q' = sum of %e * %e
 *   %v = %d * %d                               %s = %s' + n * %c
 *   %q = reduce %v fn=sum axis=1               %t = %m - %c
 *                                              %q = %q' - %t * (2 * %s' - n * %t)
 *
 * The squares of differences from the mean need the mean first, so a row that no block and no
 * cluster holds is read once for each. Sums about another centre c need nothing of the row, and the
 * squares are moved from c to m exactly, whatever m is (Chan, Golub, LeVeque, "Algorithms for
 * Computing the Sample Variance", 1983, "shifted data"). What cancels is bounded: if c is the mean
 * of a share f of the row, the variance is at least f * (m - c)^2, so the sum of squares about c is
 * at most 1 + 1 / f times the one about m. That is why a sixteenth is read, and not a tile.
 *
 * Applies to rows that are longer than a cluster holds, or columns longer than a block holds, that
 * are read from memory, where there is one for each multiprocessor. Of a product's results, the
 * epilogue computes the moments (passes/fuse/fuse_epilogue_folds.c). Requires the tensor level.
 * Reassociates the sums (docs/language.md). Measured on an H200: group norm of 112x8 rows of
 * 2,097,152 elements bf16 3.75 -> 3.25 ms, f32 7.30 -> 5.84; the variance of 4,096 columns of
 * 16,384 f32 135 -> 106 us. */
#include "ir/build.h"
#include "ir/memo.h"
#include "ir/nominal_sizes.h"
#include "ir/sum_terms.h"
#include "ir/target/target.h"
#include "passes/pass.h"

enum {
    LONG_ROW = 1 << 20,    /* elements: of rows as long, no cluster holds one */
    LONG_COLUMN = 1 << 14, /* elements: of columns as long, no block holds a sector's */
    RUN_BYTES = 64,        /* of neighbouring columns, that a block takes at least */
    SAMPLE = 16,           /* 1 / the share of a row whose mean is the centre */
    MAX_OPS = 64,          /* between a row and the memory that it is read from, or its mean */
};

/* Sums right behind one another, which keep their axes with one element. */
typedef struct RowSum {
    Op *innermost, *outermost;
    unsigned summed; /* axes, as bits */
} RowSum;

typedef struct Variance {
    Func *func;
    Value *x, *mean, *deviation; /* deviation: x - mean */
    Op *spread;                  /* the mean, for each element */
    RowSum sum, squares;         /* of x; of the squared deviations */
} Variance;

/* ---- recognizing ---- */

static RowSum row_sum(const Func *func, Op *innermost)
{
    RowSum all = {innermost, innermost, 0};
    for (Op *op = innermost; op && op_is_sum(op); op = value_only_user(func, op->results[0])) {
        all.outermost = op;
        all.summed |= 1u << op_int(op, ATTR_AXIS, 0);
    }
    return all;
}

/* Is a row, or one of the columns that lie side by side, too long to be held, and are there enough
 * for all multiprocessors? Of fewer, all blocks of the device share each fold
 * (passes/fuse/fuse_under_occupied.c). Sizes of which nothing is known are not taken for long. */
static bool is_long(const Machine *machine, Type type, unsigned summed)
{
    double elements = 1, rows = 1;
    for (int i = 0; i < type->rank; i++) {
        bool sums = summed >> i & 1;
        if (poly_is_nominal(type->dims[i])) {
            return false;
        }
        elements *= sums ? (double)poly_nominal(type->dims[i]) : 1;
        rows *= sums ? 1 : (double)poly_nominal(type->dims[i]);
    }
    int last = type->rank - 1;
    bool columns = !(summed >> last & 1) && poly_nominal(type->dims[last]) > 1;
    double run = columns ? (double)RUN_BYTES / dtype_bytes(type->dtype) : 1;
    return elements >= (columns ? LONG_COLUMN : LONG_ROW) && rows / run >= machine->num_sms;
}

/* Is the value computed element by element from what memory holds? */
static bool is_read(const Value *value, Memo *seen, int *ops)
{
    const Op *op = value->def;
    if (!op || !memo_visit(seen, value)) {
        return true;
    }
    bool good = (*ops)-- > 0 &&
                (op->kind == OP_LOAD || op->kind == OP_CONST || op->kind == OP_IOTA ||
                 op->kind == OP_SIZE || op->kind == OP_BROADCAST || op->kind == OP_EXPAND ||
                 op_has(op, TRAIT_ELEMENTWISE));
    for (int i = 0; good && op->kind != OP_LOAD && i < op->n_operands; i++) {
        good = is_read(op->operands[i], seen, ops);
    }
    return good;
}

/* Is the value computed from the sum of a row, and otherwise from what all elements share? */
static bool depends_on(const Value *value, const Value *sum, Memo *seen, int *ops)
{
    const Op *op = value->def;
    if (value == sum) {
        return true;
    }
    bool found = false;
    if (op && op->n_regions == 0 && memo_visit(seen, value)) {
        for (int i = 0; (*ops)-- > 0 && !found && i < op->n_operands; i++) {
            found = depends_on(op->operands[i], sum, seen, ops);
        }
    }
    return found;
}

/* Has the value one element for each row? */
static bool is_of_rows(const Value *value, Type row, unsigned summed)
{
    bool good = value->type->kind == TYPE_ARRAY && value->type->rank == row->rank &&
                value->type->dtype == row->dtype;
    for (int i = 0; good && i < row->rank; i++) {
        int64_t extent;
        good = summed >> i & 1 ? poly_is_const(value->type->dims[i], &extent) && extent == 1
                               : value->type->dims[i] == row->dims[i];
    }
    return good;
}

/* The sum of the rows of x over the same axes of which the mean is made; false: there is none. */
static bool find_sum(Variance *v)
{
    const Block *body = v->func->body;
    for (const ValueUse *use = use_first(v->x, body); use; use = use_next(use, body)) {
        if (!op_is_sum(use->op)) {
            continue;
        }
        v->sum = row_sum(v->func, use->op);
        int ops = MAX_OPS;
        Memo *seen = memo_about(v->mean);
        bool found = v->sum.summed == v->squares.summed &&
                     depends_on(v->mean, v->sum.outermost->results[0], seen, &ops);
        memo_close(seen);
        if (found) {
            return true;
        }
    }
    return false;
}

static bool find_variance(Func *func, Op *square, Variance *v)
{
    Op *difference = square->operands[0]->def, *sum = value_only_user(func, square->results[0]);
    if (square->operands[0] != square->operands[1] || !difference || difference->kind != OP_SUB ||
        !dtype_is_float(square->results[0]->type->dtype) || !sum || !op_is_sum(sum)) {
        return false;
    }
    Op *spread = difference->operands[1]->def;
    *v = (Variance){.func = func,
                    .x = difference->operands[0],
                    .deviation = difference->results[0],
                    .spread = spread,
                    .mean = spread && spread->kind == OP_BROADCAST ? spread->operands[0] : NULL,
                    .squares = row_sum(func, sum)};
    Type type = v->x->type;
    if (!v->mean || !is_of_rows(v->mean, type, v->squares.summed) ||
        !is_long(func->target->machine, type, v->squares.summed)) {
        return false;
    }
    int ops = MAX_OPS;
    Memo *seen = memo_about(v->x);
    bool read = is_read(v->x, seen, &ops);
    memo_close(seen);
    return read && find_sum(v);
}

/* ---- building ---- */

/* The same sums of another term, which may have other extents. */
static Value *build_sums(Builder *b, const Variance *v, Value *term)
{
    Value *sum = term;
    for (const Op *op = v->sum.innermost;; op = value_only_user(v->func, op->results[0])) {
        sum = build_reduce(b, "sum", sum, (int)op_int(op, ATTR_AXIS, 0));
        if (op == v->sum.outermost) {
            return sum;
        }
    }
}

/* How many elements are summed of a row of this type, for each row. */
static Value *build_count(Builder *b, const Variance *v, Type type)
{
    Value *count = build_i64(b, 1);
    for (int i = 0; i < type->rank; i++) {
        if (v->sum.summed >> i & 1) {
            count = build_binary(b, OP_MUL, count, build_size(b, type->dims[i]));
        }
    }
    return count;
}

static Value *build_of_rows(Builder *b, const Variance *v, Value *scalar)
{
    Type type = v->mean->type;
    return build_broadcast(b, build_cast(b, scalar, type->dtype), type->rank, type->dims);
}

/* The mean of the first sixteenth of the longest axis of each row; 0 where it has no elements. */
static Value *build_centre(Builder *b, const Variance *v)
{
    Type type = v->x->type;
    int axis = -1;
    for (int i = 0; i < type->rank; i++) {
        bool longer = axis < 0 || poly_nominal(type->dims[i]) > poly_nominal(type->dims[axis]);
        axis = v->sum.summed >> i & 1 && longer ? i : axis;
    }
    Dim dims[MAX_RANK], whole = type->dims[axis];
    memcpy(dims, type->dims, sizeof *dims * (size_t)type->rank);
    if (poly_divisor(whole) % SAMPLE != 0) {
        whole = poly_add(b->func, whole, poly_const(b->func, SAMPLE - 1));
    }
    dims[axis] = poly_var(b->func, func_own_quotient(b->func, NULL, whole, SAMPLE));
    Type part = type_array(b->func, type->dtype, type->rank, dims);
    Value *places[MAX_RANK];
    for (int i = 0; i < part->rank; i++) {
        places[i] = build_places(b, i, part);
    }
    Value *sum = build_sums(b, v, build_gather(b, v->x, places));
    Value *count = build_binary(b, OP_MAX, build_count(b, v, part), build_i64(b, 1));
    return build_binary(b, OP_DIV, sum, build_of_rows(b, v, count));
}

/* The sums of the deviations from the mean, where something else needs them, too. */
static void replace_sums_of_deviations(const Variance *v, Value *sum)
{
    const Block *body = v->func->body;
    for (const ValueUse *use = use_first(v->deviation, body), *next; use; use = next) {
        next = use_next(use, body);
        RowSum nest = op_is_sum(use->op) ? row_sum(v->func, use->op) : (RowSum){.summed = 0};
        if (nest.summed == v->sum.summed && nest.outermost) {
            func_replace_uses(v->func, nest.outermost->results[0], sum);
        }
    }
}

static void shift(const Variance *v)
{
    Type type = v->x->type;
    Builder b = build_before(v->func, v->sum.innermost);
    Value *centre = build_centre(&b, v);
    Value *from = build_broadcast(&b, centre, type->rank, type->dims);
    Value *e = build_binary(&b, OP_SUB, v->x, from);
    Value *sum = build_sums(&b, v, e);
    Value *squares = build_sums(&b, v, build_binary(&b, OP_MUL, e, e));
    Value *count = build_count(&b, v, type), *n = build_of_rows(&b, v, count);
    Value *whole = build_binary(&b, OP_ADD, sum, build_binary(&b, OP_MUL, n, centre));
    func_replace_uses(v->func, v->sum.outermost->results[0], whole);

    /* Behind the mean, which is NaN for rows without elements: their sums are 0. */
    Type rows = v->mean->type;
    b = build_before(v->func, v->spread);
    Value *none = build_broadcast(&b, build_cmp(&b, "eq", count, build_i64(&b, 0)), rows->rank,
                                  rows->dims);
    Value *zero = build_float(&b, rows, 0), *two = build_float(&b, rows, 2);
    Value *t = build_select(&b, none, zero, build_binary(&b, OP_SUB, v->mean, centre));
    Value *nt = build_binary(&b, OP_MUL, n, t);
    Value *twice = build_binary(&b, OP_SUB, build_binary(&b, OP_MUL, two, sum), nt);
    Value *moved = build_binary(&b, OP_SUB, squares, build_binary(&b, OP_MUL, t, twice));
    Value *negative = build_cmp(&b, "lt", moved, zero); /* by rounding, of equal elements */
    func_replace_uses(v->func, v->squares.outermost->results[0],
                      build_select(&b, negative, zero, moved));
    replace_sums_of_deviations(v, build_binary(&b, OP_SUB, sum, nt));
}

void pass_shift_variance(Func *func)
{
    if (!func->target || func->target->warp == 1) {
        return; /* a CPU's caches hold more of a row */
    }
    for (Op *op = func->body->first, *next; op; op = next) {
        next = op->next;
        Variance v;
        if (op->kind == OP_MUL && find_variance(func, op, &v)) {
            shift(&v);
        }
    }
    func_remove_dead(func);
}
