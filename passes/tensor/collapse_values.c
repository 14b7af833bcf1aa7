/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilds a value with two of its axes collapsed into one, from loads of collapsed tensors, for
 * collapse_axes.c. A trial only checks whether that is possible. */
#include "passes/tensor/collapse_values.h"

#include "ir/drop_axis.h"
#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/tensor/reindex.h"

#include <string.h>

/* ---- types ---- */

bool collapse_dims(Func *func, Type type, int at, Dim *dims)
{
    for (int i = 0; i + 1 < type->rank; i++) {
        if (i == at) {
            dims[i] = poly_mul(func, type->dims[i], type->dims[i + 1]);
        } else if (i > at) {
            dims[i] = type->dims[i + 1];
        } else {
            dims[i] = type->dims[i];
        }
    }
    return at + 1 < type->rank && dims[at] != NULL;
}

static Type merged_type(Func *func, Type type, int at)
{
    Dim dims[MAX_RANK];
    collapse_dims(func, type, at, dims);
    return type_array(func, type->dtype, type->rank - 1, dims);
}

/* ---- memory ---- */

bool collapse_is_whole(const Op *op)
{
    Access access = op_access(op, 0);
    bool whole = access.memory->type->kind == TYPE_TENSOR;
    for (int i = 0; whole && i < access.n; i++) {
        whole = !access.indices[i];
    }
    return whole;
}

/* One pair of axes of each tensor, and contiguous. */
bool collapse_takes_tensor(Collapse *f, const Op *op, int at)
{
    const Value *tensor = op->operands[0];
    if (!collapse_is_whole(op) || tensor->index >= 64) {
        return false;
    }
    const Param *param = &f->func->params.items[tensor->index];
    bool places = !param->im2col || at + 1 < view_places(param);
    bool plain = places && !tensor->type->strides && !param->axis_perm &&
                 !dtype_is_packed(tensor->type->dtype);
    if (!plain || (f->accesses[tensor->index] && f->axis[tensor->index] != at)) {
        return false;
    }
    f->axis[tensor->index] = at;
    f->accesses[tensor->index]++;
    return true;
}

/* True if a statement overwrites what is loaded and another one follows: made anew there, the load
 * would read the new elements. */
static bool is_overwritten(const Func *func, const Op *load)
{
    const Value *memory = load->operands[0];
    bool written = false;
    for (const Op *op = load->next; op && func->params.items[memory->index].io != PARAM_IN;
         op = op->next) {
        if (written && !op_has(op, TRAIT_PURE)) {
            return true;
        }
        written = written || op_writes(op, memory);
    }
    return false;
}

static Value *merged_load(Collapse *f, Op *op, int at)
{
    if (!f->tries) {
        return build_load(&f->b, op->operands[0], WHOLE);
    }
    if (is_overwritten(f->func, op)) {
        return NULL;
    }
    return collapse_takes_tensor(f, op, at) ? op->results[0] : NULL;
}

static Value *keep(Collapse *f, Value *value)
{
    ARENA_PUSH(f->func->arena, &f->kept, value);
    return value;
}

/* ---- axes that move ---- */

static Value *merged_expand(Collapse *f, const Op *op, int at)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    if (axis == at || axis == at + 1) { /* one element and its neighbour */
        return keep(f, op->operands[0]);
    }
    Value *from = collapse_value(f, op->operands[0], axis < at ? at - 1 : at);
    if (!from || f->tries) {
        return from;
    }
    return build_expand(&f->b, from, axis > at ? axis - 1 : axis);
}

static Value *merged_squeeze(Collapse *f, const Op *op, int at)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    if (axis == at + 1) {
        return NULL;
    }
    Value *from = collapse_value(f, op->operands[0], axis <= at ? at + 1 : at);
    if (!from || f->tries) {
        return from;
    }
    return build_squeeze(&f->b, from, axis > at ? axis - 1 : axis);
}

static Value *merged_permute(Collapse *f, const Op *op, int at)
{
    const int64_t *perm = op_attr(op, ATTR_PERM)->ints;
    int64_t fewer[MAX_RANK];
    int n = 0, first = (int)perm[at];
    Value *from = perm[at + 1] == first + 1 ? collapse_value(f, op->operands[0], first) : NULL;
    if (!from || f->tries) {
        return from;
    }
    for (int i = 0; i < op->results[0]->type->rank; i++) {
        if (i != at + 1) {
            fewer[n++] = perm[i] - (perm[i] > first);
        }
    }
    return build_permute(&f->b, from, fewer);
}

static Value *rebuild(Collapse *f, const Op *op, Value **operands, Type type)
{
    Op *copy = build_op(&f->b, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->attrs = op->attrs;
    copy->n_attrs = op->n_attrs;
    return copy->results[0];
}

/* ---- values along one of the two axes ---- */

/* The elements of a value at places along one of its axes, which are all inside. */
typedef struct Taken {
    const Value *value, *places;
    int axis;
    Value *to;
} Taken;

static bool is_taken(const void *item, const void *key)
{
    const Taken *taken = item, *wanted = key;
    return taken->value == wanted->value && taken->places == wanted->places &&
           taken->axis == wanted->axis;
}

static Value *taken(Collapse *f, Value *value, int axis, Value *places);

static Type taken_type(Func *func, Type type, int axis, const Value *places)
{
    Dim dims[MAX_RANK];
    memcpy(dims, type->dims, (size_t)type->rank * sizeof *dims);
    dims[axis] = places->type->dims[0];
    return type_array(func, type->dtype, type->rank, dims);
}

/* True if the op reads an array, or an input, which no statement overwrites. */
static bool reads_constant(const Func *func, const Op *op)
{
    const Value *from = op->operands[0];
    return from->type->kind != TYPE_TENSOR || func->params.items[from->index].io == PARAM_IN;
}

static bool may_gather(const Collapse *f, const Op *gather)
{
    return f->gathers && reads_constant(f->func, gather);
}

static Value *taken_load(Collapse *f, const Op *op, Value *places)
{
    Value *memory = op->operands[0];
    if (memory->type->rank != 1 || !collapse_is_whole(op) || !reads_constant(f->func, op)) {
        return NULL;
    }
    if (f->tries) {
        return op->results[0];
    }
    Value *read = build_gather(&f->b, memory, &places);
    op_set_ints(f->func, read->def, ATTR_GUARD, 1, (int64_t[]){0});
    return read;
}

/* The op moves the axis, or stretches a single element along it. */
static Value *taken_moved(Collapse *f, const Op *op, int axis, Value *places)
{
    Value *from = op->operands[0];
    int own = op_operand_axis(op, 0, axis);
    bool stretched = own < 0 || from->type->dims[own] != op->results[0]->type->dims[axis];
    if (stretched && op->kind != OP_BROADCAST) {
        return NULL;
    }
    from = stretched ? keep(f, from) : taken(f, from, own, places);
    if (!from || f->tries) {
        return from;
    }
    switch (op->kind) {
    case OP_EXPAND: return build_expand(&f->b, from, (int)op_int(op, ATTR_AXIS, 0));
    case OP_SQUEEZE: return build_squeeze(&f->b, from, (int)op_int(op, ATTR_AXIS, 0));
    case OP_PERMUTE: return build_permute(&f->b, from, op_attr(op, ATTR_PERM)->ints);
    default: {
        Type type = taken_type(f->func, op->results[0]->type, axis, places);
        return build_broadcast(&f->b, from, type->rank, type->dims);
    }
    }
}

/* The op again, of those elements of its operands; what a gather reads from stays as it is. */
static Value *taken_elements(Collapse *f, const Op *op, int axis, Value *places)
{
    Value **operands = ARENA_ARRAY(f->func->arena, Value *, op->n_operands);
    for (int i = 0; i < op->n_operands; i++) {
        Value *from = op->operands[i];
        bool whole = (i == 0 && op->kind == OP_GATHER) || !from || from->type->rank == 0;
        if (!whole) {
            operands[i] = taken(f, from, axis, places);
        } else if (from) {
            operands[i] = keep(f, from);
        } else {
            operands[i] = NULL;
        }
        if (!whole && !operands[i]) {
            return NULL;
        }
    }
    if (f->tries) {
        return op->results[0];
    }
    Type type = taken_type(f->func, op->results[0]->type, axis, places);
    return rebuild(f, op, operands, type);
}

static Value *taken_op(Collapse *f, Value *value, int axis, Value *places)
{
    const Op *op = value->def;
    switch (op->kind) {
    case OP_IOTA: return f->tries ? value : build_cast(&f->b, places, value->type->dtype);
    case OP_LOAD: return taken_load(f, op, places);
    case OP_GATHER: return may_gather(f, op) ? taken_elements(f, op, axis, places) : NULL;
    default:
        if (op_moves_axes(op)) {
            return taken_moved(f, op, axis, places);
        }
        return op->kind == OP_CONST || op_has(op, TRAIT_ELEMENTWISE)
                   ? taken_elements(f, op, axis, places)
                   : NULL;
    }
}

/* In a trial, any value. NULL: the value is not made of coordinates, numbers and inputs. */
static Value *taken(Collapse *f, Value *value, int axis, Value *places)
{
    Taken key = {value, places, axis, NULL};
    uint64_t hash = hash_word((uint64_t)axis, value->id);
    const Taken *known = table_find(&f->taken, hash, is_taken, &key);
    if (known || !value->def) {
        return known ? known->to : NULL;
    }
    key.to = taken_op(f, value, axis, places);
    table_add(f->func->arena, &f->taken, hash, arena_copy(f->func->arena, &key, sizeof key));
    return key.to;
}

/* An array that has several elements along one of the two axes and is stretched along the other:
 * the elements at each quotient, or at each remainder, of the axis that the two become. */
static Value *merged_along_one(Collapse *f, const Op *op, int at)
{
    Value *from = op->operands[0];
    Type wide = op->results[0]->type, to = merged_type(f->func, wide, at);
    int first = at - (wide->rank - from->type->rank), own = -1;
    for (int i = first < 0 ? 0 : first; i <= first + 1; i++) {
        if (!poly_is_number(from->type->dims[i], 1)) {
            own = own >= 0 || from->type->dims[i] != wide->dims[at + i - first] ? MAX_RANK : i;
        }
    }
    if (own < 0 || own == MAX_RANK) {
        return NULL;
    }
    if (f->tries) {
        f->divides = true;
        return taken(f, from, own, NULL);
    }
    Value *all = build_iota(&f->b, to->dims[at], DT_I64);
    Value *by = build_broadcast(&f->b, build_size(&f->b, wide->dims[at + 1]), 1, &to->dims[at]);
    Value *places = build_binary(&f->b, own == first ? OP_DIV : OP_MOD, all, by);
    Value *merged = taken(f, from, own, places);
    bool has_other = own == first || first >= 0;
    if (has_other) {
        merged = build_squeeze(&f->b, merged, own == first ? own + 1 : first);
    }
    return build_broadcast(&f->b, merged, to->rank, to->dims);
}

/* Both axes are the operand's, or both are stretched. */
static Value *merged_broadcast(Collapse *f, const Op *op, int at)
{
    Value *from = op->operands[0];
    Type to = merged_type(f->func, op->results[0]->type, at);
    int first = at - (op->results[0]->type->rank - from->type->rank);
    const Dim *dims = from->type->dims, *wide = op->results[0]->type->dims;
    bool both = first >= 0 && dims[first] == wide[at] && dims[first + 1] == wide[at + 1];
    bool new_one = first == -1 && poly_is_number(dims[0], 1);
    bool units = first >= 0 && poly_is_number(dims[first], 1) && poly_is_number(dims[first + 1], 1);
    if (both) {
        from = collapse_value(f, from, first);
    } else if (!units && !new_one && first >= -1) {
        return merged_along_one(f, op, at);
    } else {
        keep(f, from);
        from = (units || new_one) && !f->tries ? build_squeeze(&f->b, from, first + 1) : from;
    }
    return !from || f->tries ? from : build_broadcast(&f->b, from, to->rank, to->dims);
}

/* ---- sums and products ---- */

static bool has_both(const Collapse *f, const Value *value, int at)
{
    return (an_varies(f->varies, value) >> at & 3) == 3;
}

static bool has_none(const Collapse *f, const Value *value, int at)
{
    return (an_varies(f->varies, value) >> at & 3) == 0;
}

static Value *merged_reduce(Collapse *f, const Op *op, int at)
{
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    const Op *mul = op->operands[0]->def;
    if (op->n_operands != 1 || axis == at || axis == at + 1) {
        return NULL;
    }
    if (mul && mul->kind == OP_MUL && text_equal(op_word(op, ATTR_FN), "sum")) {
        const Value *a = mul->operands[0], *b = mul->operands[1];
        f->pays = f->pays || (has_both(f, a, at) && has_none(f, b, at)) ||
                  (has_both(f, b, at) && has_none(f, a, at));
    }
    Value *from = collapse_value(f, op->operands[0], at);
    if (!from || f->tries) {
        return from;
    }
    return build_reduce(&f->b, op_word(op, ATTR_FN), from, axis > at ? axis - 1 : axis);
}

/* The last batch joins the rows where the columns' factor is the same for all of it. */
static Value *merged_dot(Collapse *f, const Op *op, int at)
{
    int last = op->results[0]->type->rank - 1;
    Value *left = op->operands[0], *right = op->operands[1];
    bool batches = at + 1 < last - 1, rows = at == last - 2;
    if (op->n_operands != 2 || op->n_attrs || (!batches && !rows) ||
        (rows && (an_varies(f->varies, right) >> at & 1))) {
        return NULL;
    }
    f->pays = f->pays || rows;
    if (rows) {
        keep(f, right);
    }
    left = collapse_value(f, left, at);
    if (!left || f->tries) {
        return batches && left ? collapse_value(f, right, at) : left;
    }
    right = batches ? collapse_value(f, right, at) : axis_dropped(&f->b, right, at);
    return build_dot(&f->b, left, right, NULL, op->results[0]->type->dtype);
}

/* Element by element; what a gather reads from stays as it is. */
static Value *merged_elements(Collapse *f, const Op *op, int at)
{
    Value **operands = ARENA_ARRAY(f->func->arena, Value *, op->n_operands);
    for (int i = 0; i < op->n_operands; i++) {
        Value *from = op->operands[i];
        bool whole = (i == 0 && op->kind == OP_GATHER) || !from || from->type->rank == 0;
        if (!whole) {
            operands[i] = collapse_value(f, from, at);
        } else if (from) {
            operands[i] = keep(f, from);
        } else {
            operands[i] = NULL;
        }
        if (!whole && !operands[i]) {
            return NULL;
        }
    }
    return f->tries ? op->results[0]
                    : rebuild(f, op, operands, merged_type(f->func, op->results[0]->type, at));
}

/* ---- views ---- */

/* Is the map the place along the axis that two of these become? */
static bool merges_pair(const Collapse *f, const Affine *map, const Instance *own, int at)
{
    AxisSpace *space = &f->all->space;
    const Affine *outer = map_scale(space, own->at[at], own->value->type->dims[at + 1]);
    const Affine *both = outer ? map_add(space, outer, own->at[at + 1]) : NULL;
    return map && both && map_equal(map, both);
}

/* A gather that reads all of an array, or of an input, with an axis as two: a reshape. With these
 * two as one it is what it reads. NULL: it reads something else. */
static Value *merged_view(Collapse *f, const Op *op, int at)
{
    Value *from = op->operands[0];
    bool array = from->type->kind == TYPE_ARRAY;
    bool view = reads_constant(f->func, op) && gather_stays_inside(op);
    Dim dims[MAX_RANK];
    if (!view || from->type->rank != op->results[0]->type->rank - 1 ||
        !collapse_dims(f->func, op->results[0]->type, at, dims)) {
        return NULL;
    }
    Instance own = computations_own(f->all, op->results[0]);
    for (int i = 0; i < from->type->rank && view; i++) {
        const Affine *map = computations_map(f->all, op->operands[1 + i], own.at);
        const Affine *place = own.at[i > at ? i + 1 : i];
        bool whole =
            i == at ? merges_pair(f, map, &own, at) : map && place && map_equal(map, place);
        view = whole && from->type->dims[i] == dims[i];
    }
    if (!view) {
        return NULL;
    }
    /* Products of batches are computed over the axes of their reshapes (split_batches), unless
     * something else needs them as they are. */
    f->pays = f->pays ||
              (array && (from->type->rank <= 2 || value_count_uses(f->func, from) > 1));
    if (array) {
        return keep(f, from);
    }
    return f->tries ? op->results[0] : build_load(&f->b, from, WHOLE);
}

/* The place along axes `at` and `at` + 1 of what the gather reads, as one axis; NULL: none. */
static const Affine *merged_place(Collapse *f, const Op *gather, const Instance *own, int at)
{
    AxisSpace *space = &f->all->space;
    Dim inner = gather->operands[0]->type->dims[at + 1];
    const Affine *outer = computations_map(f->all, gather->operands[1 + at], own->at);
    const Affine *scaled = outer ? map_scale(space, outer, inner) : NULL;
    return map_add(space, scaled, computations_map(f->all, gather->operands[2 + at], own->at));
}

bool collapse_is_merged(Collapse *f, const Op *gather, int at)
{
    const Value *from = gather->operands[0];
    bool can = gather->kind == OP_GATHER && from->type->kind == TYPE_ARRAY &&
               gather_stays_inside(gather) && at + 1 < from->type->rank &&
               gather->results[0]->type->rank < MAX_RANK;
    if (!can) {
        return false;
    }
    Instance own = computations_own(f->all, gather->results[0]);
    for (int i = 0; i < from->type->rank && can; i++) {
        can = computations_map(f->all, gather->operands[1 + i], own.at) != NULL;
    }
    const Affine *place = can ? merged_place(f, gather, &own, at) : NULL;
    return place && map_as_axis(place);
}

Value *collapse_merged(Collapse *f, const Op *gather, int at, Value *from)
{
    Type type = gather->results[0]->type;
    Instance own = computations_own(f->all, gather->results[0]);
    Reindex r = {.b = f->b, .all = f->all, .rank = type->rank};
    Value *indices[MAX_RANK];
    int64_t guards[MAX_RANK] = {0};
    bool whole = from->type->rank == type->rank;
    for (int i = 0; i < type->rank; i++) {
        r.axes[i] = map_as_axis(own.at[i]);
        r.dims[i] = type->dims[i];
    }
    for (int i = 0; i < from->type->rank; i++) {
        const Value *index = gather->operands[1 + i + (i > at)];
        const Affine *place = i == at ? merged_place(f, gather, &own, at)
                                      : computations_map(f->all, index, own.at);
        whole = whole && map_equal(place, own.at[i]) && from->type->dims[i] == type->dims[i];
        indices[i] = reindex_spread(&r, reindex_map(&r, place), (1u << type->rank) - 1);
    }
    if (whole) {
        return from;
    }
    Value *read = build_gather(&f->b, from, indices);
    op_set_ints(f->func, read->def, ATTR_GUARD, from->type->rank, guards);
    return read;
}

static Value *merged_gather(Collapse *f, const Op *op, int at)
{
    Value *view = merged_view(f, op, at);
    if (view || !may_gather(f, op)) {
        return view;
    }
    return merged_elements(f, op, at);
}

/* ---- values ---- */

static Value *merged_op(Collapse *f, Op *op, int at)
{
    switch (op->kind) {
    case OP_LOAD: return merged_load(f, op, at);
    case OP_EXPAND: return merged_expand(f, op, at);
    case OP_SQUEEZE: return merged_squeeze(f, op, at);
    case OP_PERMUTE: return merged_permute(f, op, at);
    case OP_BROADCAST: return merged_broadcast(f, op, at);
    case OP_REDUCE: return merged_reduce(f, op, at);
    case OP_DOT: return merged_dot(f, op, at);
    case OP_GATHER: return merged_gather(f, op, at);
    default:
        return op->kind == OP_CONST || op_has(op, TRAIT_ELEMENTWISE) ? merged_elements(f, op, at)
                                                                     : NULL;
    }
}

typedef struct Known {
    ValuePair pair;
    Value *to;
} Known;

static bool is_pair(const void *item, const void *key)
{
    const ValuePair *pair = item, *wanted = key; /* the first member of a Known, too */
    return pair->value == wanted->value && pair->at == wanted->at;
}

bool collapse_has_pair(const HashTable *set, ValuePair pair)
{
    return table_find(set, hash_word((uint64_t)pair.at, pair.value->id), is_pair, &pair) != NULL;
}

bool collapse_add_pair(Arena *arena, HashTable *set, ValuePair pair)
{
    if (collapse_has_pair(set, pair)) {
        return false;
    }
    table_add(arena, set, hash_word((uint64_t)pair.at, pair.value->id),
              arena_copy(arena, &pair, sizeof pair));
    return true;
}

void collapse_note_pair(Collapse *f, const Value *value, int at)
{
    ValuePair pair = {value, at};
    if (collapse_add_pair(f->func->arena, &f->noted, pair)) {
        ARENA_PUSH(f->func->arena, &f->pairs, pair);
    }
}

/* The value with its axes `at` and `at` + 1 as one; NULL: that is not possible. */
Value *collapse_value(Collapse *f, Value *value, int at)
{
    ValuePair key = {value, at};
    uint64_t hash = hash_word((uint64_t)at, value->id);
    const Known *known = table_find(&f->made, hash, is_pair, &key);
    if (known) {
        return known->to;
    }
    Dim dims[MAX_RANK];
    if (!value->def || !collapse_dims(f->func, value->type, at, dims)) {
        return NULL;
    }
    if (f->tries) {
        collapse_note_pair(f, value, at);
    } else {
        f->b.span = value->def->span;
    }
    Known *entry = ARENA_NEW(f->func->arena, Known);
    *entry = (Known){key, merged_op(f, value->def, at)};
    if (!f->tries && entry->to != value && !entry->to->name) {
        entry->to->name = value->name;
    }
    table_add(f->func->arena, &f->made, hash, entry);
    return entry->to;
}

Collapse collapse_begin(Func *func, bool tries)
{
    Collapse f = {.func = func, .tries = tries};
    for (int i = 0; i < 64; i++) {
        f.axis[i] = -1;
    }
    return f;
}
