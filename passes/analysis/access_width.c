/* SPDX-License-Identifier: Apache-2.0 */
/* Computes how many elements one vector access may move. The width is limited by the known divisors
 * of the extents and of the first index (alignment), by the guard, which must not cut a vector, and
 * by the length of the contiguous runs that a gather reads or a scatter writes. */
#include "passes/analysis/access_width.h"

#include "ir/memo.h"
#include "support/int_math.h"
#include "ir/build.h"
#include "ir/target/target.h"
#include "passes/analysis/index_runs.h"
#include "passes/analysis/range_facts.h"

enum { MAX_DEPTH = 16, BULK_ALIGN = 16 };

static const int64_t ANY = (int64_t)1 << 62;

static int64_t divisor_at(Memo *memo, const Value *value, int depth);

/* A range starts at a multiple of its step, counted from where its loop starts. */
static int64_t range_start_divisor(Memo *memo, const Value *range, int depth)
{
    const Op *op = range->block ? range->block->parent : NULL;
    if (range_aligned(poly_as_range(range->type->dims[0])) > 1) {
        return 1;
    }
    const Attr *steps = op ? op_attr(op, ATTR_STEPS) : NULL;
    if (!steps || range->index >= (uint32_t)steps->n || steps->ints[range->index] <= 0) {
        return 1;
    }
    int64_t step = steps->ints[range->index];
    return op->kind == OP_FOR ? gcd(step, divisor_at(memo, for_lo(op), depth)) : step;
}

/* It ends a step later, or where its loop or its axis ends. */
static int64_t range_end_divisor(Memo *memo, const Value *range, int depth)
{
    int64_t divisor = range_start_divisor(memo, range, depth);
    const Op *op = range->block ? range->block->parent : NULL;
    const Attr *dims = op ? op_attr(op, ATTR_DIMS) : NULL;
    if (!dims || range->index >= (uint32_t)dims->n) {
        return 1;
    }
    divisor = gcd(divisor, poly_divisor(dims->dims[range->index]));
    int64_t upto = axis_end(op, (int)range->index);
    divisor = upto < INT64_MAX ? gcd(divisor, upto) : divisor;
    return op->kind == OP_FOR ? gcd(divisor, divisor_at(memo, for_hi(op), depth)) : divisor;
}

static int64_t product_divisor(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? a : product;
}

static int64_t result_divisor(Memo *memo, const Op *op, int depth)
{
    const Value *a = op->n_operands > 0 ? op->operands[0] : NULL;
    const Value *b = op->n_operands > 1 ? op->operands[1] : NULL;
    switch (op->kind) {
    case OP_CONST: return op_attr(op, ATTR_VALUE)->i ? gcd(op_attr(op, ATTR_VALUE)->i, 0) : ANY;
    case OP_SIZE: return poly_divisor(op_attr(op, ATTR_DIM)->dims[0]);
    case OP_START: return divisor_at(memo, a, depth);
    case OP_END:
    case OP_LEN: return range_end_divisor(memo, a, depth);
    case OP_CAST:
    case OP_BROADCAST:
    case OP_EXPAND: return divisor_at(memo, a, depth);
    case OP_NEG: return divisor_at(memo, a, depth);
    case OP_MUL: return product_divisor(divisor_at(memo, a, depth), divisor_at(memo, b, depth));
    case OP_ADD:
    case OP_SUB:
    case OP_MIN:
    case OP_MAX: return gcd(divisor_at(memo, a, depth), divisor_at(memo, b, depth));
    case OP_SELECT:
        return gcd(divisor_at(memo, b, depth), divisor_at(memo, op->operands[2], depth));
    default: return 1;
    }
}

static int64_t divisor_at(Memo *memo, const Value *value, int depth)
{
    int64_t found;
    if (depth > MAX_DEPTH) {
        return 1;
    }
    if (value->type->kind == TYPE_RANGE) {
        return range_start_divisor(memo, value, depth + 1);
    }
    if (!value->def || !dtype_is_int(value->type->dtype)) {
        return 1;
    }
    return memo_known(memo, value, depth, &found)
               ? found
               : memo_keep(memo, value, depth, result_divisor(memo, value->def, depth + 1));
}

int64_t an_end_divisor(const Value *range)
{
    Memo *memo = memo_about(range);
    int64_t divisor = range_end_divisor(memo, range, 0);
    memo_close(memo);
    return divisor;
}

int64_t an_divisor(const Value *value)
{
    Memo *memo = memo_about(value);
    int64_t divisor = divisor_at(memo, value, 0);
    memo_close(memo);
    return divisor;
}

/* Rows start at multiples of the last extent, and all other strides are multiples of it; those of a
 * strided tensor, at sums of multiples of its strides, from where it begins. */
int64_t an_row_divisor(const Access *access)
{
    Type type = access->memory->type;
    int64_t divisor = type->align ? type->align / dtype_bytes(type->dtype) : ANY;
    if (!type->strides) {
        return access->n > 1 ? gcd(divisor, poly_divisor(type->dims[access->n - 1])) : divisor;
    }
    for (int axis = 0; axis + 1 < access->n; axis++) {
        divisor = gcd(divisor, poly_divisor(type->strides[axis]));
    }
    return type_stride_is(type, access->n - 1, 1) ? divisor : 1;
}

bool an_tma_rows(const Access *access)
{
    Type type = access->memory->type;
    int last = access->n - 1;
    bool good = !type->align && type_stride_is(type, last, 1);
    for (int axis = 0; type->strides && axis < last; axis++) {
        good = good && poly_least(type->strides[axis]) > 0;
    }
    return good && an_row_divisor(access) * dtype_bits(type->dtype) % (8 * BULK_ALIGN) == 0;
}

static bool is_guarded(const Op *op, int axis)
{
    const Attr *guard = op_attr(op, ATTR_GUARD);
    return guard && axis < guard->n && guard->ints[axis] != 0;
}

/* Are the tensor's axes the launch's, walked by its ranges, and its rows one after the other? Then
 * what aligns the launch's rows aligns the tensor's. */
static bool is_row_of(const Access *access, const Op *launch)
{
    const Attr *dims = op_attr(launch, ATTR_DIMS);
    Type type = access->memory->type;
    for (int i = 0; i < access->n; i++) {
        if (type->strides || type->align || access->n != dims->n ||
            access->memory->type->dims[i] != dims->dims[i] ||
            access->indices[i] != launch->regions[0]->args[i]) {
            return false;
        }
    }
    return true;
}

/* What the first element in memory of each of its tiles is a multiple of, in a launch whose rows
 * are aligned; pieces then straddle both ends of a row. 1: it is no such access. */
static int64_t an_aligned(const Access *access)
{
    const Value *index = access->n ? access->indices[access->n - 1] : NULL;
    bool range = index && index->type->kind == TYPE_RANGE;
    int64_t aligned = range ? range_aligned(poly_as_range(index->type->dims[0])) : 1;
    return aligned > 1 && is_row_of(access, index->block->parent) ? aligned : 1;
}

static int widest(int64_t divisor, int bits, int most_bytes)
{
    int width = 1;
    while (width * 2 * bits <= most_bytes * 8 && divisor % (width * 2) == 0) {
        width *= 2;
    }
    return width;
}

/* Does the access walk rows from their beginning to their end? */
static bool walks_rows(const Access *access)
{
    const Value *index = access->indices[access->n - 1];
    const Op *launch = index && index->block ? index->block->parent : NULL;
    const Attr *dims = launch && launch->kind == OP_LAUNCH ? op_attr(launch, ATTR_DIMS) : NULL;
    return !index || (dims && index->type->kind == TYPE_RANGE && index->index < (uint32_t)dims->n &&
                      dims->dims[index->index] == access->memory->type->dims[access->n - 1]);
}

/* What is behind the rows of an intermediate, up to where the next ones begin, belongs to no
 * row. */
static bool has_padding(const Func *func, const Op *op, const Access *access)
{
    return op->kind == OP_STORE && access->n > 1 && access->memory->type->strides &&
           access->memory->type->kind == TYPE_TENSOR &&
           func->params.items[access->memory->index].io == PARAM_SCRATCH && walks_rows(access);
}

static bool is_read_by(const Op *op, const Value *value)
{
    bool found = false;
    for (int i = 0; i < op->n_operands; i++) {
        found = found || op->operands[i] == value;
    }
    return found;
}

/* Rows of neighbours, none before the tensor's first element. */
static bool is_ascending(Type tensor)
{
    int last = tensor->rank - 1;
    bool good = tensor->rank > 0 && type_stride_is(tensor, last, 1);
    for (int axis = 0; tensor->strides && axis < last; axis++) {
        good = good && poly_least(tensor->strides[axis]) >= 0;
    }
    return good;
}

/* Of a load whose runs begin anywhere: can two aligned pieces bring one, and does nothing look at
 * what comes for padding? How many elements then; 1: no. */
static int an_shifted_width(const Func *func, const Op *op)
{
    Access access = op_access(op, 0);
    Type type = access.memory->type;
    int width = func->target->vector_bytes / dtype_bytes(type->dtype), uses = 0;
    if (op->kind != OP_LOAD || type->kind != TYPE_TENSOR || !is_ascending(type) ||
        dtype_bits(type->dtype) != 16 || access.n < 2 || op_attr(op, ATTR_VALUE) ||
        func->params.items[access.memory->index].io != PARAM_IN || !walks_rows(&access)) {
        return 1;
    }
    for (const Op *use = op->next; use; use = use->next) {
        if (is_read_by(use, op->results[0])) {
            int own = use->kind == OP_STORE ? an_width(func, use) : 1;
            width = own < width ? own : width;
            uses++;
        }
    }
    return uses > 0 && uses == value_count_uses(func, op->results[0]) ? width : 1;
}

int an_vector(const Func *func, const Op *op)
{
    int width = an_width(func, op), shifted = op->kind == OP_LOAD ? an_shifted_width(func, op) : 1;
    return shifted > width ? shifted : width;
}

bool an_accesses_runs(const Op *op)
{
    Type type = op_moved_value(op)->type;
    return type->rank && poly_divisor(type->dims[type->rank - 1]) % 2 == 0 && an_has_runs(op, 2);
}

/* A gather or scatter is as wide as the runs of neighbours in memory that its tile has. */
static int runs_width(const Func *func, const Op *op)
{
    Access access = op_access(op, 0);
    Type type = op_moved_value(op)->type, memory = access.memory->type;
    int64_t divisor = type->rank ? poly_capacity(type->dims[type->rank - 1]) : 1;
    if (is_guarded(op, access.n - 1)) {
        divisor = gcd(divisor, poly_divisor(memory->dims[access.n - 1]));
    }
    int most = widest(divisor, dtype_memory_bits(memory->dtype), func->target->vector_bytes);
    while (most > 1 && !an_has_runs(op, most)) {
        most /= 2;
    }
    return most;
}

int an_width(const Func *func, const Op *op)
{
    if (op->kind == OP_GATHER || op->kind == OP_SCATTER) {
        return runs_width(func, op);
    }
    int most_bytes = func->target->vector_bytes;
    Access access = op_access_nth(op, 0);
    if (access.n == 0) {
        return 1;
    }
    DType dtype = access.memory->type->dtype;
    int bits = dtype_memory_bits(dtype);
    if (an_aligned(&access) > 1) {
        return dtype_is_packed(dtype) ? 1 : widest(an_aligned(&access), bits, most_bytes);
    }
    int last = access.n - 1;
    const Value *index = access.indices[last];
    if (index && index->type->kind != TYPE_RANGE) {
        return 1;
    }
    Dim walked = index ? index->type->dims[0] : access.memory->type->dims[last];
    int64_t divisor = gcd(an_row_divisor(&access), poly_capacity(walked));
    divisor = gcd(divisor, index ? an_divisor(index) : ANY);
    if (is_guarded(op, last) && !has_padding(func, op, &access)) {
        divisor = gcd(divisor, poly_divisor(access.memory->type->dims[last]));
        divisor = gcd(divisor, index ? an_end_divisor(index) : ANY);
    }
    return widest(divisor, bits, most_bytes);
}
