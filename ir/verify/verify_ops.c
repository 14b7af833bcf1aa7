/* SPDX-License-Identifier: Apache-2.0 */
/* Rules about the operands and results of each op. */
#include "ir/verify/verify_ops.h"

#include "ir/op_axes.h"

#include <string.h>

static Type operand_type(const Op *op, int n)
{
    return op->operands[n]->type;
}

static Type result_type(const Op *op)
{
    return op->results[0]->type;
}

static bool same_shape(Type a, Type b)
{
    return a->kind == b->kind && a->rank == b->rank && a->layout == b->layout &&
           memcmp(a->dims, b->dims, sizeof(Dim) * a->rank) == 0;
}

static bool is_index(const Value *value)
{
    return type_is_scalar(value->type) && dtype_is_int(value->type->dtype);
}

/* ---- elementwise ---- */

static void verify_elementwise(Verifier *v, const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (operand_type(op, i)->kind != TYPE_ARRAY ||
            !same_shape(operand_type(op, i), result_type(op))) {
            verify_fail(v, op, "operand %d has another shape or layout than the result", i);
            return;
        }
    }
    DType out = result_type(op)->dtype;
    int first = op->kind == OP_SELECT ? 1 : 0;
    DType in = operand_type(op, first)->dtype;
    for (int i = first; i < op->n_operands; i++) {
        if (operand_type(op, i)->dtype != in) {
            verify_fail(v, op, "operands of different element types");
        }
    }
    switch (op->kind) {
    case OP_CMP:
    case OP_ISNAN:
        if (out != DT_BOOL) {
            verify_fail(v, op, "the result is not bool");
        }
        break;
    case OP_CAST: break;
    case OP_BITCAST:
        if (dtype_bits(in) != dtype_bits(out)) {
            verify_fail(v, op, "a bitcast between different widths");
        }
        break;
    default:
        if (in != out) {
            verify_fail(v, op, "the result's element type is not the operands'");
        }
    }
    if (op->kind == OP_SELECT && operand_type(op, 0)->dtype != DT_BOOL) {
        verify_fail(v, op, "the condition is not bool");
    }
    bool narrow = dtype_is_narrow(in);
    if (narrow && op->kind != OP_REMAT && op->kind != OP_CAST && op->kind != OP_SELECT &&
        op->kind != OP_BITCAST) {
        verify_fail(v, op, "arithmetic on %s: cast to f32 first", dtype_name(in));
    }
    if (op->kind == OP_CMP && !verify_is_among(op_word(op, ATTR_PRED), " eq ne lt le gt ge ")) {
        verify_fail(v, op, "no pred, or none that there is");
    }
    if (op->kind == OP_NAMED &&
        (!named_function(op_word(op, ATTR_FN)) || !func_function(v->func, op_word(op, ATTR_FN)))) {
        verify_fail(v, op, "`fn` is no function of named_functions.def with a body here");
    }
}

/* ---- shapes ---- */

void verify_operand_axes(Verifier *v, const Op *op, int at, Type to)
{
    Type from = operand_type(op, at);
    for (int i = 0; i < from->rank; i++) {
        OpAxis axis = op_axis(op, at, i);
        bool tied = (axis.role & (AXIS_TIED | AXIS_SCANNED)) != 0;
        if (tied && from->dims[i] != to->dims[axis.result]) {
            verify_fail(v, op, "axis %d of the result is not axis %d of the operand", axis.result,
                        i);
        }
        if ((axis.role & (AXIS_STRETCHED | AXIS_DROPPED)) && !poly_is_number(from->dims[i], 1)) {
            verify_fail(v, op, "axis %d is %s, but its extent is not the literal 1", i,
                        axis.role == AXIS_DROPPED ? "dropped" : "stretched");
        }
        if (axis.role == AXIS_REDUCED && !poly_is_number(to->dims[axis.result], 1)) {
            verify_fail(v, op, "axis %d is reduced, but the result's extent is not the literal 1",
                        i);
        }
    }
}

static void verify_broadcast(Verifier *v, const Op *op)
{
    Type from = operand_type(op, 0), to = result_type(op);
    if (from->kind != TYPE_ARRAY || from->dtype != to->dtype || from->rank > to->rank) {
        verify_fail(v, op, "not an array that fits the result");
        return;
    }
    verify_operand_axes(v, op, 0, result_type(op));
}

/* expand and squeeze: `longer` has one axis of extent 1 more. */
static void verify_unit_axis(Verifier *v, const Op *op, Type longer, Type shorter)
{
    int64_t axis = op_int(op, ATTR_AXIS, -1);
    if (longer->rank != shorter->rank + 1 || axis < 0 || axis >= longer->rank ||
        !poly_is_number(longer->dims[axis], 1) || longer->dtype != shorter->dtype) {
        verify_fail(v, op, "does not add or drop one axis of extent 1");
        return;
    }
    verify_operand_axes(v, op, 0, result_type(op));
}

static void verify_permute(Verifier *v, const Op *op)
{
    Type from = operand_type(op, 0), to = result_type(op);
    const Attr *perm = op_attr(op, ATTR_PERM);
    unsigned seen = 0;
    if (!perm || perm->n != from->rank || to->rank != from->rank || from->dtype != to->dtype) {
        verify_fail(v, op, "`perm` does not fit the shapes");
        return;
    }
    for (int i = 0; i < perm->n; i++) {
        if (perm->ints[i] < 0 || perm->ints[i] >= perm->n || (seen & (1u << perm->ints[i]))) {
            verify_fail(v, op, "`perm` is no permutation");
            return;
        }
        seen |= 1u << perm->ints[i];
    }
    verify_operand_axes(v, op, 0, result_type(op));
}

static void verify_mask(Verifier *v, const Op *op)
{
    int64_t axis = op_int(op, ATTR_AXIS, -1);
    if (operand_type(op, 0) != result_type(op)) {
        verify_fail(v, op, "the type changes");
    } else if (axis < 0 || axis >= result_type(op)->rank ||
               !poly_as_range(result_type(op)->dims[axis])) {
        verify_fail(v, op, "axis %d is not a range", (int)axis);
    }
}

/* front, advance */
static void verify_strip(Verifier *v, const Op *op)
{
    Type from = operand_type(op, 0), to = result_type(op);
    int64_t axis = op_int(op, ATTR_AXIS, -1), step = op_int(op, ATTR_STEP, 0);
    bool fits = from->rank == to->rank && from->dtype == to->dtype && axis >= 0 &&
                axis < from->rank && v->func->padded;
    for (int i = 0; fits && i < from->rank; i++) {
        int64_t have = poly_capacity(from->dims[i]), is = poly_capacity(to->dims[i]);
        bool shorter = op->kind == OP_FRONT && i == axis && is > 0 && is <= have;
        fits = from->dims[i] == to->dims[i] || shorter;
    }
    if (!fits) {
        verify_fail(v, op, "not the same tile, or the first part of it, along `axis`");
        return;
    }
    bool within = step > 0 && step <= poly_capacity(from->dims[axis]) && from->layout == to->layout;
    if (op->kind == OP_ADVANCE && !within) {
        verify_fail(v, op, "`step` is not within the tile, or the layout changes");
    }
}

static void verify_reduce(Verifier *v, const Op *op)
{
    static const char *const fns = " sum prod max min ";
    Type from = operand_type(op, 0), to = result_type(op);
    int64_t axis = op_int(op, ATTR_AXIS, -1);
    const char *fn = op_word(op, ATTR_FN);
    if (!verify_is_among(fn, fns)) {
        verify_fail(v, op, "`fn` is none of%s", fns);
    }
    if (axis < 0 || axis >= from->rank || to->rank != from->rank || to->dtype != from->dtype) {
        verify_fail(v, op, "the result does not keep the operand's rank and element type");
        return;
    }
    verify_operand_axes(v, op, 0, result_type(op));
}

/* Equal, or of equal capacity: shared tiles have constants where register tiles have ranges. */
static bool dims_agree(Dim a, Dim b)
{
    return a == b || (poly_capacity(a) >= 0 && poly_capacity(a) == poly_capacity(b));
}

static void verify_dot(Verifier *v, const Op *op)
{
    Dim a[MAX_RANK], b[MAX_RANK];
    Access left = op->n_operands ? op_access_nth(op, 0) : (Access){0};
    bool two = left.memory && 1 + left.n < op->n_operands; /* behind its indices */
    Access right = two ? op_access_nth(op, 1) : (Access){0};
    if (!right.memory) {
        verify_fail(v, op, "a product has two operands at least");
        return;
    }
    int rank = result_type(op)->rank, first = rank - 2;
    bool batches = rank == 2 || (rank > 2 && v->func->level == LEVEL_TENSOR);
    if (access_dims(&left, a) != rank || access_dims(&right, b) != rank || !batches) {
        verify_fail(v, op, "not a product of matrices");
        return;
    }
    Dim inner = a[op_reduced_axis(op, rank)];
    for (int i = 0; i < 2 * rank; i++) {
        Dim own = i < rank ? a[i] : b[i - rank];
        OpAxis axis = op_axis(op, i < rank ? 0 : right.at, i % rank);
        if (axis.role == AXIS_CONTRACTED && !dims_agree(own, inner)) {
            verify_fail(v, op, "the inner extents differ");
        } else if (axis.role == AXIS_TIED && !dims_agree(result_type(op)->dims[axis.result], own)) {
            verify_fail(v, op,
                        axis.result < first
                            ? "the batches differ"
                            : "the result's extents are not the operands' outer ones");
        }
    }
    DType of_left = left.memory->type->dtype, of_right = right.memory->type->dtype;
    bool sum = result_type(op)->dtype == DT_F32; /* in which each of 16 bits is exact */
    if (of_left != of_right && !(sum && dtype_bits(of_left) <= 16 && dtype_bits(of_right) <= 16)) {
        verify_fail(v, op, "operands of different element types");
    }
    int third = access_next(op, right.at);
    if (third < op->n_operands && (!same_shape(operand_type(op, third), result_type(op)) ||
                                   operand_type(op, third)->dtype != result_type(op)->dtype)) {
        verify_fail(v, op, "the accumulator is not of the result's type");
    }
}

/* ---- memory ---- */

static void verify_indices(Verifier *v, const Op *op, const Access *access)
{
    for (int i = 0; i < access->n; i++) {
        const Value *index = access->indices[i];
        if (index && index->type->kind != TYPE_RANGE && !is_index(index)) {
            verify_fail(v, op, "index %d is neither a range nor an integer scalar", i);
        }
        int64_t extent;
        if (!index && v->func->level != LEVEL_TENSOR &&
            !poly_is_const(access->memory->type->dims[i], &extent)) {
            verify_fail(v, op, "axis %d is taken whole, but its extent is not static", i);
        }
    }
}

static void verify_moved(Verifier *v, const Op *op, const Access *access, Type value)
{
    Dim dims[MAX_RANK];
    int rank = access_dims(access, dims);
    if (rank != value->rank || access->memory->type->dtype != value->dtype) {
        verify_fail(v, op, "the place and the value differ in rank or element type");
        return;
    }
    for (int i = 0; i < rank; i++) {
        bool shared = access->memory->type->kind == TYPE_SHARED;
        if (shared ? !dims_agree(dims[i], value->dims[i]) : dims[i] != value->dims[i]) {
            verify_fail(v, op, "axis %d of the place is not that of the value", i);
        }
    }
}

static void verify_access(Verifier *v, const Op *op, TypeKind kind, bool store)
{
    Access access = op_access(op, 0);
    if (access.memory->type->kind != kind) {
        verify_fail(v, op, "the first operand is not the memory that it should be");
        return;
    }
    int wanted = 1 + access.n + (store ? 1 : 0);
    if (op->n_operands != wanted) {
        verify_fail(v, op, "%d operands, not %d", op->n_operands, wanted);
        return;
    }
    verify_indices(v, op, &access);
    verify_moved(v, op, &access, store ? operand_type(op, wanted - 1) : result_type(op));
    const Attr *guard = op_attr(op, ATTR_GUARD);
    if (guard && guard->n != access.n) {
        verify_fail(v, op, "`guard` has not one entry an axis");
    }
    Type memory = access.memory->type;
    bool plain = memory->kind == TYPE_TENSOR && type_stride_is(memory, access.n - 1, 1) &&
                 dtype_bits(memory->dtype) == 16 && access.n > 1;
    if (op_int(op, ATTR_UNALIGNED, 0) && (store || !plain || op_attr(op, ATTR_VALUE))) {
        verify_fail(v, op, "`shifted` is of loads of rows of 16-bit elements without a `value`");
    }
}

void verify_kinds(Verifier *v, const Op *op, int n, const TypeKind *kinds)
{
    int at = 0;
    for (int i = 0; i < n; i++) {
        if (at >= op->n_operands || operand_type(op, at)->kind != kinds[i]) {
            verify_fail(v, op, "memory operand %d is missing or of another kind", i);
            return;
        }
        Access access = op_access(op, at);
        verify_indices(v, op, &access);
        at = access_next(op, at);
    }
}

/* ---- structure ---- */

static void verify_yield(Verifier *v, const Op *op, const Block *region, int n)
{
    const Op *yield = region->last && region->last->kind == OP_YIELD ? region->last : NULL;
    if (!yield) {
        verify_fail(v, op, "a region does not end in yield");
        return;
    }
    if (yield->n_operands != n) {
        verify_fail(v, op, "yields %d values, not %d", yield->n_operands, n);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (!yield->operands[i] || yield->operands[i]->type != op->results[i]->type) {
            verify_fail(v, op, "value %d that is yielded has another type than result %d", i, i);
        }
    }
}

static bool verify_axes(Verifier *v, const Op *op)
{
    const Attr *dims = op_attr(op, ATTR_DIMS), *steps = op_attr(op, ATTR_STEPS);
    if (!dims || !steps || dims->n != steps->n || op->n_regions != 1) {
        verify_fail(v, op, "`dims`, `steps` and the region do not fit together");
        return false;
    }
    return true;
}

/* What is walked begins with a whole tile. */
static void verify_part(Verifier *v, const Op *op)
{
    static const AttrKey keys[] = {ATTR_AXIS_BEGIN, ATTR_AXIS_END};
    const Attr *steps = op_attr(op, ATTR_STEPS);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const Attr *part = op_attr(op, keys[i]);
        if (part && part->n != steps->n) {
            verify_fail(v, op, "`from` and `upto` have as many elements as there are axes");
            return;
        }
        for (int axis = 0; part && axis < part->n; axis++) {
            int64_t step = steps->ints[axis] > 0 ? steps->ints[axis] : 1;
            if (part->ints[axis] < 0 || (i == 0 && part->ints[axis] % step != 0)) {
                verify_fail(v, op, "axis %d is walked from no multiple of its step", axis);
            }
        }
    }
}

static void verify_iterators(Verifier *v, const Op *op)
{
    const Attr *steps = op_attr(op, ATTR_STEPS);
    const Block *region = op->regions[0];
    if (region->n_args < steps->n) {
        verify_fail(v, op, "fewer arguments than axes");
        return;
    }
    for (int i = 0; i < steps->n; i++) {
        Type type = region->args[i]->type;
        if (steps->ints[i] == 0 ? !is_index(region->args[i]) : type->kind != TYPE_RANGE) {
            verify_fail(v, op, "argument %d is not what its step says", i);
        } else if (steps->ints[i] > 0 && poly_capacity(type->dims[0]) != steps->ints[i]) {
            verify_fail(v, op, "range %d has another capacity than its step", i);
        }
        if (v->func->level != LEVEL_TENSOR && steps->ints[i] < 0) {
            verify_fail(v, op, "axis %d has no step yet", i);
        }
    }
}

static void verify_launch(Verifier *v, const Op *op)
{
    if (!verify_axes(v, op)) {
        return;
    }
    bool persistent = op_int(op, ATTR_PERSISTENT, 0) != 0;
    verify_part(v, op);
    if (op_int(op, ATTR_MAX_TILES, 1) < 1) {
        verify_fail(v, op, "`most` is less than one tile");
    }
    if (persistent ? op->regions[0]->n_args != 0
                   : op->regions[0]->n_args != op_attr(op, ATTR_DIMS)->n) {
        verify_fail(v, op, "the region's arguments are not the axes");
    } else if (!persistent) {
        verify_iterators(v, op);
    }
}

/* for and tiles: `first` operands come before the inits, one iterator an axis. */
static void verify_loop(Verifier *v, const Op *op, int first)
{
    if (!verify_axes(v, op)) {
        return;
    }
    verify_iterators(v, op);
    const Block *region = op->regions[0];
    int axes = op_attr(op, ATTR_DIMS)->n, n = op->n_operands - first;
    if (n != op->n_results || region->n_args != axes + n) {
        verify_fail(v, op, "inits, arguments and results do not correspond");
        return;
    }
    for (int i = 0; i < n; i++) {
        if (operand_type(op, first + i) != op->results[i]->type ||
            region->args[axes + i]->type != op->results[i]->type) {
            verify_fail(v, op, "carried value %d changes its type", i);
        }
    }
    verify_yield(v, op, region, n);
}

/* Of a numbered one: nothing carried, one more argument. */
static void verify_tiles(Verifier *v, const Op *op)
{
    if (op_attr(op, ATTR_STEPS)) {
        verify_part(v, op);
    }
    verify_deal(v, op);
    if (!op_int(op, ATTR_TILE_INDEX, 0)) {
        verify_loop(v, op, 0);
        return;
    }
    if (!verify_axes(v, op)) {
        return;
    }
    verify_iterators(v, op);
    const Block *region = op->regions[0];
    int axes = op_attr(op, ATTR_DIMS)->n;
    bool numbered = region->n_args == axes + 1 && type_is_scalar(region->args[axes]->type) &&
                    region->args[axes]->type->dtype == DT_I32;
    if (!numbered || op->n_operands || op->n_results) {
        verify_fail(v, op, "numbered tiles carry nothing, and give their number");
        return;
    }
    verify_yield(v, op, region, 0);
}

static void verify_for(Verifier *v, const Op *op)
{
    const Attr *dims = op_attr(op, ATTR_DIMS);
    if (op->n_operands < 2 || !is_index(op->operands[0]) || !is_index(op->operands[1]) ||
        (dims && dims->n != 1)) {
        verify_fail(v, op, "a loop has lo and hi, and one axis");
        return;
    }
    verify_loop(v, op, 2);
    /* A value that is accumulated in chunks starts at zero in each chunk, which is right for sums
     * only. */
    const Attr *chunks = op_attr(op, ATTR_CHUNKS);
    if (chunks && chunks->n != for_carried(op)) {
        verify_fail(v, op, "`chunks` has not one entry a carried value");
        return;
    }
    for (int i = 0; chunks && i < chunks->n; i++) {
        Type type = operand_type(op, 2 + i);
        bool sums = type_is_tile(type) && dtype_is_float(type->dtype);
        if (chunks->ints[i] < 0 || (chunks->ints[i] > 0 && !sums)) {
            verify_fail(v, op, "carried value %d has no chunks", i);
        }
    }
}

static void verify_if(Verifier *v, const Op *op)
{
    if (!type_is_scalar(operand_type(op, 0)) || operand_type(op, 0)->dtype != DT_BOOL ||
        op->n_regions != 2) {
        verify_fail(v, op, "wants a bool scalar and two regions");
        return;
    }
    verify_yield(v, op, op->regions[0], op->n_results);
    verify_yield(v, op, op->regions[1], op->n_results);
}

static void verify_roles(Verifier *v, const Op *op)
{
    const Attr *warps = op_attr(op, ATTR_WARPS);
    if (!warps || warps->n != op->n_regions) {
        verify_fail(v, op, "`warps` has not one entry a role");
        return;
    }
    const Attr *teams = op_attr(op, ATTR_TEAMS);
    if (teams && teams->n != op->n_regions) {
        verify_fail(v, op, "`teams` has not one entry a role");
        return;
    }
    for (int i = 0; teams && i < teams->n; i++) {
        if (teams->ints[i] < 1 || warps->ints[i] % teams->ints[i]) {
            verify_fail(v, op, "the warps of role %d are no whole teams", i);
        }
    }
}

static void verify_settle(Verifier *v, const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (i >= op->n_results || operand_type(op, i) != op->results[i]->type) {
            verify_fail(v, op, "results are not the operands");
            return;
        }
    }
}

static void verify_const(Verifier *v, const Op *op)
{
    const Attr *dim = op_attr(op, ATTR_DIM);
    bool has_value = op->kind == OP_CONST ? op_attr(op, ATTR_VALUE) != NULL : dim && dim->n == 1;
    if (!has_value) {
        verify_fail(v, op, "no value");
    }
}

void verify_op(Verifier *v, const Op *op)
{
    static const TypeKind bulk_load[] = {TYPE_TENSOR, TYPE_SHARED, TYPE_MBARRIER};
    static const TypeKind bulk_store[] = {TYPE_SHARED, TYPE_TENSOR};
    static const TypeKind barrier[] = {TYPE_MBARRIER};
    if (op->kind == OP_TO_STATIC) {
        Type from = operand_type(op, 0), to = result_type(op);
        bool fits = from->rank == to->rank && from->dtype == to->dtype && v->func->padded;
        for (int i = 0; fits && i < from->rank; i++) {
            fits = from->dims[i] == to->dims[i] ||
                   poly_capacity(from->dims[i]) == poly_capacity(to->dims[i]);
        }
        if (!fits) {
            verify_fail(v, op, "not the same tile with ranges replaced by their capacities");
        }
        return;
    }
    if (op_has(op, TRAIT_ELEMENTWISE)) {
        verify_elementwise(v, op);
        return;
    }
    switch (op->kind) {
    case OP_CONST:
    case OP_SIZE: verify_const(v, op); break;
    case OP_BROADCAST: verify_broadcast(v, op); break;
    case OP_EXPAND: verify_unit_axis(v, op, result_type(op), operand_type(op, 0)); break;
    case OP_SQUEEZE: verify_unit_axis(v, op, operand_type(op, 0), result_type(op)); break;
    case OP_PERMUTE: verify_permute(v, op); break;
    case OP_MASK: verify_mask(v, op); break;
    case OP_FRONT:
    case OP_ADVANCE: verify_strip(v, op); break;
    case OP_REDUCE: verify_reduce(v, op); break;
    case OP_CLUSTER_REDUCE: verify_cluster_reduce(v, op); break;
    case OP_CLUSTER_REDUCE_SCATTER: verify_cluster_scatter(v, op); break;
    case OP_DOT:
    case OP_DOT_ASYNC: verify_dot(v, op); break;
    case OP_LOAD: verify_access(v, op, TYPE_TENSOR, false); break;
    case OP_STORE: verify_access(v, op, TYPE_TENSOR, true); break;
    case OP_SHARED_LOAD: verify_access(v, op, TYPE_SHARED, false); break;
    case OP_SHARED_STORE: verify_access(v, op, TYPE_SHARED, true); break;
    case OP_PARALLEL:
    case OP_LAUNCH: verify_launch(v, op); break;
    case OP_TILE_LOOP: verify_tiles(v, op); break;
    case OP_FOR: verify_for(v, op); break;
    case OP_IF: verify_if(v, op); break;
    case OP_ROLES: verify_roles(v, op); break;
    case OP_DOT_WAIT: verify_settle(v, op); break;
    case OP_BULK_LOAD: verify_kinds(v, op, 3, bulk_load); break;
    case OP_TAKE_TILE: verify_kinds(v, op, 3, bulk_load); break;
    case OP_READ_TILE: verify_kinds(v, op, 1, &bulk_load[1]); break;
    case OP_COPY_LOAD: verify_copy_load(v, op); break;
    case OP_COPY_WAIT: verify_copy_wait(v, op); break;
    case OP_BULK_STORE: verify_kinds(v, op, 2, bulk_store); break;
    case OP_WAIT:
    case OP_ARRIVE: verify_kinds(v, op, 1, barrier); break;
    default: verify_index_op(v, op); break;
    }
}
