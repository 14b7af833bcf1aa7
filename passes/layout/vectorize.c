/* SPDX-License-Identifier: Apache-2.0 */
/* vectorize: chooses how many elements each access moves at once.
 *
 *     %0 = load %x[%m, :] : bf16[%m, 4096]@L0
 * → %0 = load %x[%m, :] vector=8 : bf16[%m, 4096]@L0
 *
 * The width is the largest for which a thread owns contiguous elements under the layout, the known
 * divisors of extents and begins guarantee alignment, and no guard cuts a vector: a guarded vector
 * is inside or outside as a whole, so the check of its first element decides for all. For an
 * `index`, the width is the number of adjacent registers whose indices count up from a multiple of
 * that number. Loads of the fields of a record are marked, so that LLVM merges them
 * (vectorize_records.c). A user's limit also applies to accesses of shared memory by threads. Async
 * and bulk copies keep the width that `stage` chose.
 *
 * Requires layouts. Does nothing on targets whose tiles have no layouts (CPU). Changes no
 * values. */
#include "passes/layout/vectorize.h"

#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/ir_errors.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/access_width.h"
#include "passes/pass.h"

enum { LINE_BYTES = 128, LINE_ACCESS = 16 };

typedef struct Vectorizer {
    Func *func;
    int widest, narrowest; /* over all accesses; 0: none seen */
    int64_t shared;        /* maximum of a thread's access to shared memory; 0: no limit */
    int64_t cap;
    bool parts;    /* loads of less than a line, */
    bool clusters; /* in clusters of blocks */
} Vectorizer;

static int access_vector(const Vectorizer *v, const Op *op)
{
    Type type = op_moved_value(op)->type;
    if (type->rank == 0 || !type->layout || op->operands[0]->type->kind != TYPE_TENSOR) {
        return 1;
    }
    int width = an_vector(v->func, op);
    int held = layout_contiguous(type->layout, type->rank - 1);
    return held < width ? held : width;
}

static bool moves_global(const Op *op)
{
    return op->kind == OP_LOAD || op->kind == OP_STORE || op->kind == OP_GATHER ||
           op->kind == OP_SCATTER;
}

/* Clears *shared if the op is a dot that reads it by a matrix instruction: those accesses are not
 * made by single threads. */
static void find_unit_read(Op *op, void *user)
{
    Value **shared = user;
    bool product = op->kind == OP_DOT || op->kind == OP_DOT_ASYNC;
    const char *unit = product ? op_word(op, ATTR_INSTRUCTION) : NULL;
    for (int nth = 0; unit && !text_equal(unit, "fma") && nth < 2; nth++) {
        *shared = op_access_nth(op, nth).memory == *shared ? NULL : *shared;
    }
}

/* True for shared memory that threads access. */
static bool is_of_threads(Op *op)
{
    Value *shared = op->kind == OP_SHARED ? op->results[0] : NULL;
    if (shared) {
        block_walk(op->parent, find_unit_read, &shared);
    }
    return shared != NULL;
}

static void measure(Op *op, void *user)
{
    Vectorizer *v = user;
    if (is_of_threads(op)) {
        /* A schedule entry with a smaller number would limit these accesses, too. */
        int64_t bytes = dtype_bytes(op->results[0]->type->dtype);
        int64_t most = v->func->target->vector_bytes / (bytes > 0 ? bytes : 1);
        v->shared = most > v->shared ? most : v->shared;
    }
    if (op->kind == OP_COPY_LOAD) {
        int width = (int)op_int(op, ATTR_VECTOR, 1);
        v->widest = width > v->widest ? width : v->widest;
    } else if (moves_global(op) && op_moved_value(op)->type->rank > 0) {
        int width = access_vector(v, op);
        v->widest = width > v->widest ? width : v->widest;
        v->narrowest = v->narrowest == 0 || width < v->narrowest ? width : v->narrowest;
    }
}

/* How many adjacent registers hold indices that count up from a multiple of that number, so that
 * they share expressions such as the index divided by four. */
static void set_index_vector(Op *op, void *user)
{
    Func *func = user;
    if (op->kind != OP_INDEX) {
        return;
    }
    Type type = op->results[0]->type;
    int64_t divisor = an_divisor(op->operands[0]), width = 1;
    while (type->layout && width < layout_contiguous(type->layout, 0) &&
           divisor % (2 * width) == 0) {
        width *= 2;
    }
    if (width > 1) {
        op_set_int(func, op, ATTR_VECTOR, width);
    }
}

static void set_vector(Op *op, void *user)
{
    Vectorizer *v = user;
    if (op->kind == OP_MASK) {
        /* The width is the number of registers that one comparison with the range's end decides. */
        Type type = op->results[0]->type;
        int axis = (int)op_int(op, ATTR_AXIS, 0);
        int64_t end = an_end_divisor(poly_as_range(type->dims[axis])->binder), width = 1;
        while (type->layout && width < layout_contiguous(type->layout, axis) &&
               end % (2 * width) == 0) {
            width *= 2;
        }
        if (width > 1) {
            op_set_int(v->func, op, ATTR_VECTOR, width);
        }
    }
    if (!moves_global(op)) {
        return;
    }
    int64_t width = access_vector(v, op);
    while (width > v->cap) {
        width /= 2;
    }
    if (width > 1) {
        op_set_int(v->func, op, ATTR_VECTOR, width);
    }
    if (width > an_width(v->func, op)) {
        op_set_int(v->func, op, ATTR_UNALIGNED, 1);
    }
}

/* Applies the user's limit to accesses of threads to shared memory. */
static void set_shared_vector(Op *op, void *user)
{
    const Vectorizer *v = user;
    if (is_of_threads(op)) {
        op_set_int(v->func, op, ATTR_VECTOR, v->cap);
    }
}

/* True if the rows of the tile are shorter than a cache line, but those of the tensor are longer:
 * another block reads the rest of the line at about the same time. */
static bool is_part_of_lines(const Op *op)
{
    Access access = op_access(op, 0);
    int last = access.n - 1;
    const Value *index = op->kind == OP_LOAD && last > 0 ? access.indices[last] : NULL;
    Type tensor = access.memory->type;
    if (!index || index->type->kind != TYPE_RANGE || !type_stride_is(tensor, last, 1)) {
        return false;
    }
    int64_t bytes = dtype_bytes(tensor->dtype), run = poly_capacity(index->type->dims[0]) * bytes;
    return op_int(op, ATTR_VECTOR, 1) * bytes == LINE_ACCESS && run > LINE_ACCESS &&
           run < LINE_BYTES && poly_most(tensor->dims[last]) > LINE_BYTES / bytes;
}

static void find_parts(Op *op, void *user)
{
    Vectorizer *v = user;
    if (moves_global(op) && is_part_of_lines(op)) {
        v->parts = true;
        v->clusters |= op_int(op_enclosing(op, OP_LAUNCH), ATTR_CLUSTER, 1) > 1;
    }
}

static void set_line(Op *op, void *user)
{
    if (moves_global(op) && is_part_of_lines(op)) {
        op_set_int(user, op, ATTR_L2_LINE, 1);
    }
}

static void check_cap(Vectorizer *v)
{
    int64_t most = 2 * v->func->target->vector_bytes; /* of halves of a byte */
    const ScheduleEntry *line = schedule_user_entry(v->func, "vector", "");
    if (v->cap >= 1 && v->cap <= most && (v->cap & (v->cap - 1)) == 0) {
        return;
    }
    Diag *diag = diag_error(v->func->diags, ERR_NOT_HERE, line ? line->span : SPAN_NONE,
                            "`vector %lld`: no access of %s takes this many elements",
                            (long long)v->cap, v->func->target->name);
    diag_help(v->func->diags, diag, "a power of two from 1 to %lld", (long long)most);
    v->cap = 1;
}

void pass_vectorize(Func *func)
{
    Vectorizer v = {.func = func};
    if (!func->target || func->target->warp == 1) {
        return;
    }
    func_walk(func, set_index_vector, func);
    func_walk(func, measure, &v);
    if (v.widest == 0) {
        return;
    }
    v.cap = schedule_decide_int(func, "vector", "", v.widest > v.shared ? v.widest : v.shared,
                                "%s: %d bytes an access at most, as far as rows are aligned and no "
                                "guard cuts a piece",
                                func->target->name, func->target->vector_bytes);
    check_cap(&v);
    func_walk(func, set_vector, &v);
    vectorize_records(func);
    if (schedule_user_entry(func, "vector", "")) {
        func_walk(func, set_shared_vector, &v);
    }
    func_walk(v.func, find_parts, &v);
    if (!v.parts || v.func->target->family != FAMILY_NVPTX) {
        return;
    }
    const char *lines = schedule_decide_symbol(
        v.func, "l2_fetch", "", v.clusters ? "line" : "sector", "%s",
        v.clusters ? "clusters with adjacent tiles read the rest of a cache line"
                   : "`line` pays if blocks that run at the same time read the rest of a cache "
                     "line; measure it");
    if (text_equal(lines, "line")) {
        func_walk(v.func, set_line, v.func);
    }
}
