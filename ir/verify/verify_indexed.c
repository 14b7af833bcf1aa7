/* SPDX-License-Identifier: Apache-2.0 */
/* Rules of gathers and scatters, scans and folds, and loops of single elements. */
#include "ir/verify/verify_ops.h"

#include <string.h>

static bool same_dims(Type a, Type b)
{
    return a->kind == TYPE_ARRAY && b->kind == TYPE_ARRAY && a->rank == b->rank &&
           a->layout == b->layout && memcmp(a->dims, b->dims, sizeof(Dim) * a->rank) == 0;
}

static bool is_index_dtype(DType dtype)
{
    return dtype == DT_I64 || dtype == DT_I32;
}

static void verify_iota(Verifier *v, const Op *op)
{
    Type type = op->results[0]->type;
    const Attr *dim = op_attr(op, ATTR_DIM);
    if (!dim || dim->n != 1 || type->kind != TYPE_ARRAY || type->rank != 1 ||
        type->dims[0] != dim->dims[0] || !is_index_dtype(type->dtype)) {
        verify_fail(v, op, "the result is no i64 or i32 over `dim`");
    }
}

/* ---- gather, scatter ---- */

static void verify_places(Verifier *v, const Op *op, const Access *access, Type shape)
{
    const Attr *guard = op_attr(op, ATTR_GUARD);
    Type memory = access->memory->type;
    if (memory->rank == 0 || access->n != memory->rank) {
        verify_fail(v, op, "%d indices for %d axes", access->n, memory->rank);
        return;
    }
    for (int i = 0; i < access->n; i++) {
        const Value *index = access->indices[i];
        bool shared = memory->kind == TYPE_SHARED;
        if (shared && i == 0 && (!index || !type_is_scalar(index->type))) {
            verify_fail(v, op, "index 0 is no ring position");
        } else if (shared && !index) {
            continue;
        } else if (!index || index->type->kind != TYPE_ARRAY ||
                   !is_index_dtype(index->type->dtype)) {
            verify_fail(v, op, "index %d is no array of i64 or i32", i);
        } else if (index->type->rank && !same_dims(index->type, shape)) {
            verify_fail(v, op, "index %d has another shape or layout", i);
        }
    }
    if (guard && guard->n != access->n) {
        verify_fail(v, op, "`guard` has not one entry an axis");
    }
}

static void verify_gather(Verifier *v, const Op *op)
{
    Access access = op_access(op, 0);
    Type from = access.memory->type, to = op->results[0]->type;
    bool held =
        from->kind == TYPE_TENSOR || (from->kind == TYPE_ARRAY && v->func->level == LEVEL_TENSOR);
    if (!held || access_next(op, 0) != op->n_operands) {
        verify_fail(v, op, "wants a tensor (before tiles, or an array) and its indices");
        return;
    }
    if (to->kind != TYPE_ARRAY || to->dtype != from->dtype) {
        verify_fail(v, op, "the result has another element type than the memory");
    }
    verify_places(v, op, &access, to);
}

static bool may_scatter_to(const Verifier *v, const Op *op, Type memory)
{
    bool shared = memory->kind == TYPE_SHARED && v->func->level == LEVEL_STAGED;
    bool free = verify_is_among(op_word(op, ATTR_FN), " add min max and or xor ");
    return memory->kind == TYPE_TENSOR || (shared && free && op->n_results == 0);
}

static void verify_scatter(Verifier *v, const Op *op)
{
    static const char *const fns = " set add min max and or xor xchg cas ";
    Access access = op_access(op, 0);
    const char *fn = op_word(op, ATTR_FN);
    if (!verify_is_among(fn, fns)) {
        verify_fail(v, op, "`fn` is none of%s", fns);
        return;
    }
    ScatterParts parts = scatter_parts(op);
    int at = access_next(op, 0), wanted = at + 1 + (text_equal(fn, "cas") ? 1 : 0);
    if (!may_scatter_to(v, op, access.memory->type) || op->n_operands < wanted ||
        op->n_operands > wanted + 1 || op->n_results > 1) {
        verify_fail(v, op,
                    "wants a tensor, its indices, the value, for cas what it compares with, "
                    "and perhaps a mask");
        return;
    }
    Type value = parts.value->type;
    if (value->kind != TYPE_ARRAY || value->dtype != access.memory->type->dtype) {
        verify_fail(v, op, "the value has another element type than the tensor");
        return;
    }
    if ((parts.compare && parts.compare->type != value) ||
        (op->n_results && op->results[0]->type != value)) {
        verify_fail(v, op, "what is compared, or the result, is not of the value's type");
    }
    if (parts.mask && (parts.mask->type->dtype != DT_BOOL || !same_dims(parts.mask->type, value))) {
        verify_fail(v, op, "the mask is no bool of the value's shape");
    }
    verify_places(v, op, &access, value);
    /* Bitwise updates need integers, and every update but `set` needs elements of at least 8 bits.
     * */
    bool bits = text_equal(fn, "and") || text_equal(fn, "or") || text_equal(fn, "xor");
    if (bits && dtype_is_float(value->dtype)) {
        verify_fail(v, op, "bits of a float");
    } else if (!text_equal(fn, "set") && dtype_bits(value->dtype) < 8) {
        verify_fail(v, op, "no atomic on %s", dtype_name(value->dtype));
    }
}

static void verify_await(Verifier *v, const Op *op)
{
    Access access = op_access(op, 0);
    Type from = access.memory->type, to = op->results[0]->type;
    int at = access_next(op, 0);
    if (from->kind != TYPE_TENSOR || from->dtype != DT_U64 || op->n_operands != at + 1 ||
        to->kind != TYPE_ARRAY || to->dtype != DT_U64) {
        verify_fail(v, op, "wants a tensor of u64, its indices and a mask");
        return;
    }
    const Value *mask = op->operands[at];
    if (mask->type->dtype != DT_BOOL || !same_dims(mask->type, to)) {
        verify_fail(v, op, "the mask is no bool of the result's shape");
    }
    verify_places(v, op, &access, to);
}

/* ---- scan, fold ---- */

/* Nothing is left at operand `at`, or scratch: shared memory as a whole. */
static bool may_be_scratch(const Op *op, int at)
{
    return op->n_operands == at ||
           (op->n_operands == at + 3 && op->operands[at] &&
            op->operands[at]->type->kind == TYPE_SHARED && op->operands[at]->type->rank == 2);
}

static void verify_scan(Verifier *v, const Op *op)
{
    static const char *const fns = " sum prod max min ";
    Type type = op->results[0]->type;
    int64_t axis = op_int(op, ATTR_AXIS, -1);
    const char *fn = op_word(op, ATTR_FN);
    if (!verify_is_among(fn, fns)) {
        verify_fail(v, op, "`fn` is none of%s", fns);
    }
    if (op->n_operands < 1 || !may_be_scratch(op, 1)) {
        verify_fail(v, op, "wants an array, and scratch at most");
        return;
    }
    if (type->kind != TYPE_ARRAY || op->operands[0]->type != type || axis < 0 ||
        axis >= type->rank) {
        verify_fail(v, op, "the result is not of the operand's type, or has no such axis");
    }
}

static const Op *end_of(const Block *block)
{
    return block->last && block->last->kind == OP_YIELD ? block->last : NULL;
}

static void verify_folded(Verifier *v, const Op *op, int n)
{
    int64_t axis = op_int(op, ATTR_AXIS, -1);
    Type first = op->operands[0]->type;
    for (int i = 0; i < n; i++) {
        Type from = op->operands[i]->type, to = op->results[i]->type;
        Type neutral = op->operands[n + i]->type;
        if (from->kind != TYPE_ARRAY || !same_dims(from, first) || axis < 0 || axis >= from->rank) {
            verify_fail(v, op, "array %d has another shape, or no such axis", i);
            return;
        }
        if (!type_is_scalar(neutral) || neutral->dtype != from->dtype || to->dtype != from->dtype ||
            to->rank != from->rank) {
            verify_fail(v, op, "array %d, its neutral element and its result do not agree", i);
            return;
        }
        verify_operand_axes(v, op, i, to);
    }
}

static void verify_fold(Verifier *v, const Op *op)
{
    int n = fold_count(op);
    if (n < 1 || op->n_operands < 2 * n || !may_be_scratch(op, 2 * n) || op->n_regions != 1) {
        verify_fail(v, op, "wants n arrays, n neutral elements, n results and a region");
        return;
    }
    verify_folded(v, op, n);
    const Block *region = op->regions[0];
    const Op *yield = end_of(region);
    if (region->n_args != 2 * n || !yield || yield->n_operands != n) {
        verify_fail(v, op, "the region does not make %d scalars of %d", n, 2 * n);
        return;
    }
    for (int i = 0; i < 2 * n; i++) {
        if (region->args[i]->type != op->operands[n + i % n]->type ||
            yield->operands[i % n]->type != op->operands[n + i % n]->type) {
            verify_fail(v, op, "a value of the region is not of its neutral element's type");
            return;
        }
    }
    if (!block_is_scalar(region)) {
        verify_fail(v, op, "the region holds more than arithmetic on scalars");
    }
    const char *extreme = op_word(op, ATTR_ARG);
    if (extreme && (n != 2 || op->operands[1]->type->dtype != DT_I64 ||
                    !verify_is_among(extreme, " max min "))) {
        verify_fail(v, op, "`extreme` wants values and indices, and max or min");
    }
}

/* ---- sorting ---- */

static void verify_sort(Verifier *v, const Op *op)
{
    Type type = op->operands[0]->type;
    if (type->kind != TYPE_ARRAY || type->rank == 0 || type->dtype == DT_BOOL ||
        dtype_bits(type->dtype) < 8) {
        verify_fail(v, op, "wants numbers of 8 bits and more, and an axis");
    } else if (op->results[0]->type != type ||
               op->results[1]->type != type_with_dtype(v->func, type, DT_I64)) {
        verify_fail(v, op, "the results are not of the operand's shape, or not its type and i64");
    }
}

static bool is_row(Type type, DType dtype)
{
    return type->kind == TYPE_ARRAY && type->rank == 1 && type->dtype == dtype;
}

static bool has_groups(Type type)
{
    int64_t groups;
    return type->kind == TYPE_ARRAY && type->rank == 1 && poly_is_const(type->dims[0], &groups) &&
           groups > 0 && groups < UINT16_MAX;
}

static void verify_histogram(Verifier *v, const Op *op)
{
    Type counts = op->results[0]->type;
    if (op->n_operands < 1 || !may_be_scratch(op, 1) || !is_row(op->operands[0]->type, DT_I32) ||
        counts->dtype != DT_I32 || !has_groups(counts)) {
        verify_fail(v, op, "wants a row of i32, scratch at most, and gives counts of groups");
    }
}

static void verify_rank(Verifier *v, const Op *op)
{
    int n = op->n_results;
    if (n < 1 || n > MAX_TABLES || op->n_operands < n + 1 || !may_be_scratch(op, n + 1) ||
        !is_row(op->operands[0]->type, DT_I32)) {
        verify_fail(v, op, "wants a row of i32, a table for each result, and scratch at most");
        return;
    }
    for (int i = 0; i < n; i++) {
        Type digits = op->operands[0]->type, table = op->operands[i + 1]->type;
        if (!has_groups(table) || !is_index_dtype(table->dtype) ||
            table->dims[0] != op->operands[1]->type->dims[0]) {
            verify_fail(v, op, "table %d is no row of i32 or i64 of the groups", i);
        } else if (op->results[i]->type != type_with_dtype(v->func, digits, table->dtype)) {
            verify_fail(v, op, "result %d has not the digits' shape, or another element type", i);
        }
    }
}

static void verify_arrange(Verifier *v, const Op *op)
{
    Type values = op->n_operands > 1 ? op->operands[0]->type : NULL;
    Type places = values ? op->operands[1]->type : NULL, to = op->results[0]->type;
    if (!values || !may_be_scratch(op, 2) || !is_row(values, values->dtype) ||
        !same_dims(values, places) || !is_index_dtype(places->dtype)) {
        verify_fail(v, op, "wants a row, its places in i32 or i64, and scratch at most");
    } else if (to->kind != TYPE_ARRAY || to->rank != 1 || to->dims[0] != values->dims[0] ||
               to->dtype != values->dtype) {
        verify_fail(v, op, "the result is not of the values' shape and element type");
    }
}

static void verify_lookup(Verifier *v, const Op *op)
{
    Type table = op->n_operands > 1 ? op->operands[0]->type : NULL;
    Type to = op->results[0]->type;
    if (!table || !may_be_scratch(op, 2) || !has_groups(table) ||
        !is_row(op->operands[1]->type, DT_I32)) {
        verify_fail(v, op, "wants a table, a row of i32, and scratch at most");
    } else if (!is_row(to, table->dtype) || !same_dims(to, op->operands[1]->type)) {
        verify_fail(v, op, "the result has not the indices' shape, or another element type");
    }
}

/* ---- while ---- */

static bool mixes_elements(const Op *op, const Op *loop)
{
    switch (op->kind) {
    case OP_REDUCE:
    case OP_SCAN:
    case OP_FOLD:
    case OP_SORT:
    case OP_HISTOGRAM:
    case OP_RANK:
    case OP_TILE_SCATTER:
    case OP_LOOKUP:
    case OP_DOT:
    case OP_DOT_ASYNC:
    case OP_PARALLEL:
    case OP_LAUNCH:
    case OP_TILE_LOOP:
    case OP_STORE:
    case OP_ROLES: return true;
    case OP_GATHER:
        return op->operands[0]->type->kind == TYPE_ARRAY && value_is_inside(op->operands[0], loop);
    default: return op_info(op->kind)->levels == LEVEL_STAGED;
    }
}

/* Each element on its own, and effects by elements of the loop. */
static void verify_lanes(Verifier *v, const Op *loop, const Block *block, Type shape)
{
    for (const Op *op = block->first; op; op = op->next) {
        const Value *acts = NULL;
        if (op->kind == OP_SCATTER) {
            acts = scatter_parts(op).value;
        } else if (op->kind == OP_PRINT || op->kind == OP_ASSERT) {
            acts = op->operands[0];
        }
        if (mixes_elements(op, loop)) {
            verify_fail(v, op, "mixes the elements of a while");
        } else if (acts && !same_dims(acts->type, shape)) {
            verify_fail(v, op, "acts in another shape than that of the while");
        }
        for (int i = 0; i < op->n_regions; i++) {
            verify_lanes(v, loop, op->regions[i], shape);
        }
    }
}

static bool verify_carried(Verifier *v, const Op *op)
{
    int n = op->n_operands;
    if (op->n_results != n || op->n_regions != 2 || op->regions[0]->n_args != n ||
        op->regions[1]->n_args != n) {
        verify_fail(v, op,
                    "inits, arguments and results do not correspond, or there are no two regions");
        return false;
    }
    for (int i = 0; i < n; i++) {
        Type type = op->results[i]->type;
        if (type->kind != TYPE_ARRAY || op->operands[i]->type != type ||
            op->regions[0]->args[i]->type != type || op->regions[1]->args[i]->type != type) {
            verify_fail(v, op, "carried value %d changes its type", i);
            return false;
        }
    }
    return true;
}

static void verify_while(Verifier *v, const Op *op)
{
    if (!verify_carried(v, op)) {
        return;
    }
    const Op *condition = end_of(op->regions[0]), *next = end_of(op->regions[1]);
    if (!condition || condition->n_operands != 1 || !next || next->n_operands != op->n_results) {
        verify_fail(v, op, "the regions do not yield a bool and the next values");
        return;
    }
    Type holds = condition->operands[0]->type;
    if (holds->dtype != DT_BOOL || holds->kind != TYPE_ARRAY) {
        verify_fail(v, op, "the condition is no bool");
        return;
    }
    if (holds->rank && op->n_results == 0) {
        verify_fail(v, op, "an array of conditions wants carried values of its shape");
    }
    for (int i = 0; i < op->n_results; i++) {
        if (next->operands[i]->type != op->results[i]->type) {
            verify_fail(v, op, "value %d that is yielded has another type than result %d", i, i);
        } else if (holds->rank && !same_dims(holds, op->results[i]->type)) {
            verify_fail(v, op, "carried value %d has another shape than the condition", i);
        }
    }
    if (holds->rank) {
        verify_lanes(v, op, op->regions[0], holds);
        verify_lanes(v, op, op->regions[1], holds);
    }
}

/* ---- print, assert ---- */

static void verify_say(Verifier *v, const Op *op)
{
    if (!op_word(op, ATTR_TEXT) || op->n_operands < 1 || op->n_results ||
        op->operands[0]->type->dtype != DT_BOOL) {
        verify_fail(v, op, "wants a `text`, a bool, and values");
        return;
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (!same_dims(op->operands[i]->type, op->operands[0]->type)) {
            verify_fail(v, op, "operand %d has another shape or layout", i);
        }
    }
}

static void verify_range_operand(Verifier *v, const Op *op)
{
    Type range = op->operands[0]->type, type = op->results[0]->type;
    DType dtype = type->dtype;
    if (range->kind != TYPE_RANGE) {
        verify_fail(v, op, "the operand is no range");
    } else if (op->kind == OP_INDEX && type->dims[0] != range->dims[0]) {
        verify_fail(v, op, "the result is not over that range");
    } else if (op->kind == OP_INDEX && dtype != DT_I64 && dtype != DT_I32 && dtype != DT_F32) {
        verify_fail(v, op, "the result is neither i64, i32 nor f32");
    }
}

void verify_index_op(Verifier *v, const Op *op)
{
    switch (op->kind) {
    case OP_INDEX:
    case OP_START:
    case OP_END:
    case OP_LEN: verify_range_operand(v, op); break;
    case OP_IOTA: verify_iota(v, op); break;
    case OP_GATHER: verify_gather(v, op); break;
    case OP_SCATTER: verify_scatter(v, op); break;
    case OP_SPIN_LOAD: verify_await(v, op); break;
    case OP_REDUCE_PARTS:
    case OP_REPEAT_PARTS: verify_parts(v, op); break;
    case OP_SCAN: verify_scan(v, op); break;
    case OP_FOLD: verify_fold(v, op); break;
    case OP_WHILE: verify_while(v, op); break;
    case OP_SORT: verify_sort(v, op); break;
    case OP_HISTOGRAM: verify_histogram(v, op); break;
    case OP_RANK: verify_rank(v, op); break;
    case OP_TILE_SCATTER: verify_arrange(v, op); break;
    case OP_LOOKUP: verify_lookup(v, op); break;
    case OP_PRINT:
    case OP_ASSERT: verify_say(v, op); break;
    default: break;
    }
}
