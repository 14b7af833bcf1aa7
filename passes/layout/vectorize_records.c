/* SPDX-License-Identifier: Apache-2.0 */
/* Loads of several fields of one record, found for `vectorize`.
 *
 *     %0 = load %box[%n, 0] : f32[%n]@L0          %0 = load %box[%n, 0] record=[0, 4] : f32[%n]@L0
 *     …                                       →   …
 *     %3 = load %box[%n, 3] : f32[%n]@L0          %3 = load %box[%n, 3] record=[3, 4] : f32[%n]@L0
 *
 * Fields have constant indices along the last axis. Where a block loads each field of an aligned
 * run of a power of two, and no guard can separate them, the first field's address is aligned to
 * the run, and LLVM's load-store vectorizer makes one access of a thread of them. The taps of a
 * filter that is stored [channels, taps] are such fields. */
#include "passes/layout/vectorize.h"

#include "ir/build.h"
#include "ir/target/target.h"
#include "passes/analysis/access_width.h"
#include "support/int_math.h"

enum { MAX_FIELDS = 512 /* of a block: where it has more, each is loaded alone */ };

typedef struct Field {
    Op *op;
    int64_t at; /* its index along the last axis */
} Field;

typedef struct Fields {
    Func *func;
    Field *items;
    size_t n, cap;
} Fields;

/* The index of the access along the axis; NULL: all of it. */
static const Value *index_of(const Op *op, const Access *access, int axis)
{
    return op->kind == OP_GATHER ? op->operands[1 + axis] : access->indices[axis];
}

/* The constant index along the last axis of a load or gather without guards; -1: it has none. */
static int64_t field_index(const Op *op)
{
    if (op->kind != OP_LOAD && op->kind != OP_GATHER) {
        return -1;
    }
    Access access = op_access(op, 0);
    const Attr *guard = op_attr(op, ATTR_GUARD);
    for (int axis = 0; guard && axis < guard->n; axis++) {
        if (guard->ints[axis]) {
            return -1;
        }
    }
    bool tensor = access.memory->type->kind == TYPE_TENSOR && access.n > 0 &&
                  type_stride_is(access.memory->type, access.n - 1, 1);
    const Value *index = tensor ? index_of(op, &access, access.n - 1) : NULL;
    const Attr *at = index && index->type->kind != TYPE_RANGE ? value_const(index) : NULL;
    return at ? at->i : -1;
}

/* True if both read the same records, as arrays of one layout. */
static bool are_of_one_record(const Op *a, const Op *b)
{
    Access of_a = op_access(a, 0), of_b = op_access(b, 0);
    bool same = a->kind == b->kind && of_a.memory == of_b.memory && of_a.n == of_b.n &&
                a->results[0]->type == b->results[0]->type;
    for (int axis = 0; same && axis < of_a.n - 1; axis++) {
        same = index_of(a, &of_a, axis) == index_of(b, &of_b, axis);
    }
    return same;
}

static Op *find_field(const Fields *fields, const Op *like, int64_t at)
{
    for (size_t i = 0; i < fields->n; i++) {
        const Field *field = &fields->items[i];
        if (field->at == at && are_of_one_record(field->op, like)) {
            return field->op;
        }
    }
    return NULL;
}

/* Fields of the longest run that begins with this one, if all of them are loaded: a power of two.
 * Rows, and so records, begin at multiples of the run. */
static int run_from(const Fields *fields, const Field *first)
{
    Access access = op_access(first->op, 0);
    DType dtype = access.memory->type->dtype;
    /* Whole runs in a row: LLVM may load three fields as four, as far as these are aligned. */
    int64_t row = poly_divisor(access.memory->type->dims[access.n - 1]);
    int64_t divisor = gcd(gcd(an_row_divisor(&access), row), first->at);
    int most = dtype_is_packed(dtype) ? 1 : fields->func->target->vector_bytes / dtype_bytes(dtype);
    int run = 1;
    for (int n = 2; n <= most && divisor % n == 0; n *= 2) {
        for (int i = n / 2; i < n; i++) {
            if (!find_field(fields, first->op, first->at + i)) {
                return run;
            }
        }
        run = n;
    }
    return run;
}

static void mark_run(const Fields *fields, const Field *first)
{
    int run = op_attr(first->op, ATTR_RECORD) ? 1 : run_from(fields, first);
    for (int i = 0; run > 1 && i < run; i++) {
        Op *op = find_field(fields, first->op, first->at + i);
        op_set_ints(fields->func, op, ATTR_RECORD, 2, (int64_t[]){i, run});
    }
}

static void mark_records(Func *func, const Block *block)
{
    Fields fields = {.func = func};
    for (Op *op = block->first; op; op = op->next) {
        int64_t at = field_index(op);
        if (at >= 0) {
            ARENA_PUSH(func->arena, &fields, ((Field){op, at}));
        }
        for (int i = 0; i < op->n_regions; i++) {
            mark_records(func, op->regions[i]);
        }
    }
    for (size_t i = 0; i < fields.n && fields.n <= MAX_FIELDS; i++) {
        mark_run(&fields, &fields.items[i]);
    }
}

void vectorize_records(Func *func)
{
    mark_records(func, func->body);
}
