/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/analysis/axes.h"

#include "ir/build.h"

/* Tables over the values of a function; those of one that was not asked about are stale. */
typedef struct AxesMemory {
    int32_t *parent; /* union-find over value id * MAX_RANK + axis */
    uint8_t *flags;  /* by class */
    uint32_t *asked; /* by value: when */
    uint32_t now, cap;
    struct AxesMemory *next; /* that nobody uses, either */
} AxesMemory;

static int32_t find(const Axes *axes, const Value *value, int axis)
{
    AxesMemory *memory = axes->memory;
    int32_t *parent = memory->parent, node = (int32_t)value->id * MAX_RANK + axis;
    if (memory->asked[value->id] != memory->now) {
        memory->asked[value->id] = memory->now;
        for (int i = 0; i < MAX_RANK; i++) {
            int32_t own = (int32_t)value->id * MAX_RANK + i;
            parent[own] = own;
            memory->flags[own] = 0;
        }
    }
    while (parent[node] != node) {
        parent[node] = parent[parent[node]];
        node = parent[node];
    }
    return node;
}

/* An axis that nobody has to choose a loop for: one element, or a range that the source walks. */
static bool is_settled(Dim dim)
{
    int64_t extent;
    return (poly_is_const(dim, &extent) && extent == 1) || poly_as_range(dim);
}

static void tie(Axes *axes, const Value *a, int i, const Value *b, int k)
{
    if (!is_settled(a->type->dims[i]) && !is_settled(b->type->dims[k])) {
        axes->memory->parent[find(axes, a, i)] = find(axes, b, k);
    }
}

/* Scalars and what is no array have nothing to tie. */
static void tie_same(Axes *axes, const Value *a, const Value *b)
{
    bool arrays = a->type->kind == TYPE_ARRAY && b->type->kind == TYPE_ARRAY;
    for (int i = 0; arrays && a->type->rank == b->type->rank && i < a->type->rank; i++) {
        tie(axes, a, i, b, i);
    }
}

static void tie_unit(Axes *axes, const Op *op, const Value *longer, const Value *shorter)
{
    int64_t dropped = op_int(op, ATTR_AXIS, 0);
    for (int i = 0; i < shorter->type->rank; i++) {
        tie(axes, shorter, i, longer, i < dropped ? i : i + 1);
    }
}

/* What a product's operands share with its result, and with one another: axes before the last two
 * are walked by all three. */
static void tie_dot(Axes *axes, const Op *op)
{
    const Value *a = op->operands[0], *b = op->operands[1], *result = op->results[0];
    int last = result->type->rank - 1;
    for (int i = 0; i < last - 1; i++) {
        tie(axes, a, i, result, i);
        tie(axes, b, i, result, i);
    }
    tie(axes, a, last - 1, result, last - 1);
    tie(axes, b, last, result, last);
    tie(axes, a, last, b, last - 1);
    if (op->n_operands == 3) {
        tie_same(axes, op->operands[2], result);
    }
}

/* What a region yields becomes these values. */
static void tie_yield(Axes *axes, const Block *region, int n, Value *const *values)
{
    const Op *yield = region->last;
    for (int i = 0; yield && yield->kind == OP_YIELD && i < n && i < yield->n_operands; i++) {
        tie_same(axes, yield->operands[i], values[i]);
    }
}

/* Carried values: inits, arguments, yields, results. */
static void tie_carried(Axes *axes, const Op *op, int first_init, int first_arg)
{
    for (int i = 0; i < op->n_results; i++) {
        tie_same(axes, op->operands[first_init + i], op->results[i]);
        for (int r = 0; r < op->n_regions; r++) {
            tie_same(axes, op->regions[r]->args[first_arg + i], op->results[i]);
        }
    }
    tie_yield(axes, op->regions[op->n_regions - 1], op->n_results, op->results);
}

/* Arrays among the operands walk together with `result`. */
static void tie_arrays(Axes *axes, const Op *op, int first, const Value *result)
{
    for (int i = first; i < op->n_operands; i++) {
        if (op->operands[i]) {
            tie_same(axes, op->operands[i], result);
        }
    }
}

const Value *axes_written(const Op *op)
{
    switch (op->kind) {
    case OP_STORE: return op->operands[op->n_operands - 1];
    case OP_SCATTER: return scatter_parts(op).value;
    case OP_PRINT:
    case OP_ASSERT: return op->operands[0];
    default: return NULL;
    }
}

/* Elements end one by one: all that is carried has one shape. A scalar condition carries
 * anything. */
static bool goes_by_element(const Op *loop)
{
    return loop->regions[0]->last->operands[0]->type->rank > 0;
}

static void tie_op(Axes *axes, const Op *op)
{
    const Value *result = op->n_results ? op->results[0] : NULL;
    switch (op->kind) {
    case OP_BROADCAST:
        for (int i = 0, skip = result->type->rank - op->operands[0]->type->rank;
             i < op->operands[0]->type->rank; i++) {
            tie(axes, op->operands[0], i, result, i + skip);
        }
        break;
    case OP_EXPAND: tie_unit(axes, op, result, op->operands[0]); break;
    case OP_SQUEEZE: tie_unit(axes, op, op->operands[0], result); break;
    case OP_PERMUTE:
        for (int i = 0; i < result->type->rank; i++) {
            tie(axes, op->operands[0], (int)op_attr(op, ATTR_PERM)->ints[i], result, i);
        }
        break;
    case OP_REDUCE: tie_same(axes, op->operands[0], result); break;
    case OP_DOT: tie_dot(axes, op); break;
    case OP_GATHER: tie_arrays(axes, op, op_access(op, 0).n ? 1 : op->n_operands, result); break;
    case OP_SCATTER:
        tie_arrays(axes, op, 1, axes_written(op));
        if (result) {
            tie_same(axes, result, axes_written(op));
        }
        break;
    case OP_PRINT:
    case OP_ASSERT: tie_arrays(axes, op, 1, axes_written(op)); break;
    case OP_SCAN: tie_same(axes, op->operands[0], result); break;
    case OP_FOLD:
        for (int i = 0; i < op->n_results; i++) {
            tie_same(axes, op->operands[i], op->results[i]);
            tie_same(axes, op->operands[i], op->operands[0]);
        }
        break;
    case OP_WHILE:
        tie_carried(axes, op, 0, 0);
        tie_yield(axes, op->regions[0], 1, op->results);
        for (int i = 1; goes_by_element(op) && i < op->n_results; i++) {
            tie_same(axes, op->results[i], result);
        }
        break;
    case OP_FOR: tie_carried(axes, op, 2, 1); break;
    case OP_IF:
        tie_yield(axes, op->regions[0], op->n_results, op->results);
        tie_yield(axes, op->regions[1], op->n_results, op->results);
        break;
    default:
        if (op_has(op, TRAIT_ELEMENTWISE)) {
            for (int i = 0; i < op->n_operands; i++) {
                tie_same(axes, op->operands[i], result);
            }
        }
    }
}

static void flag(Axes *axes, const Value *value, int axis, unsigned flags)
{
    int class = axes_class(axes, value, axis);
    if (class >= 0) {
        axes->memory->flags[class] |= (uint8_t)flags;
    }
}

static void flag_stored(Axes *axes, const Value *value)
{
    for (int i = 0; i < value->type->rank; i++) {
        flag(axes, value, i, AXIS_STORED);
    }
}

static void flag_op(Op *op, void *user)
{
    Axes *axes = user;
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    switch (op->kind) {
    case OP_REDUCE: flag(axes, op->operands[0], axis, AXIS_REDUCED); break;
    case OP_SCAN: flag(axes, op->operands[0], axis, AXIS_REDUCED | AXIS_SCANNED); break;
    case OP_FOLD:
        flag(axes, op->operands[0], axis,
             AXIS_REDUCED | (op_int(op, ATTR_SCAN, 0) ? AXIS_SCANNED : 0));
        break;
    case OP_DOT:
        flag(axes, op->operands[0], op->operands[0]->type->rank - 1, AXIS_CONTRACTED);
        break;
    default:
        if (axes_written(op)) {
            flag_stored(axes, axes_written(op));
        }
    }
}

typedef struct Tying {
    Axes *axes;
    const Value *first; /* that is stored */
} Tying;

/* The axes of more than one element; how many they are. */
static int long_axes(Type type, int *list)
{
    int n = 0;
    for (int i = 0; i < type->rank; i++) {
        if (!is_settled(type->dims[i])) {
            list[n++] = i;
        }
    }
    return n;
}

/* Axes of the same place and extent, past those of one element. What two stores tie does not depend
 * on a third one: an intermediate that nothing reads is dropped later. */
static void tie_equal(Axes *axes, const Value *a, const Value *b)
{
    int own[MAX_RANK], other[MAX_RANK], n = long_axes(a->type, own);
    for (int i = 0; n == long_axes(b->type, other) && i < n; i++) {
        if (a->type->dims[own[i]] == b->type->dims[other[i]]) {
            tie(axes, a, own[i], b, other[i]);
        }
    }
}

/* All stores of a group write over the same grid: their axes are tied pairwise. */
static void tie_one(Op *op, void *user)
{
    Tying *tying = user;
    tie_op(tying->axes, op);
    const Value *value = axes_written(op);
    if (value && tying->first) {
        tie_equal(tying->axes, value, tying->first);
    }
    tying->first = tying->first ? tying->first : value;
}

/* Twice as many as are needed, since asking makes copies. */
static AxesMemory *new_memory(Func *func)
{
    AxesMemory *memory = ARENA_NEW(func->arena, AxesMemory);
    memory->cap = 2 * func->n_values;
    size_t n = (size_t)memory->cap * MAX_RANK;
    memory->parent = arena_alloc_raw(func->arena, sizeof(int32_t) * n);
    memory->flags = arena_alloc_raw(func->arena, n);
    memory->asked = ARENA_ARRAY(func->arena, uint32_t, memory->cap);
    return memory;
}

static void make_room(Axes *axes)
{
    Func *func = axes->func;
    axes->n_values = func->n_values;
    if (axes->memory && axes->memory->cap < func->n_values) {
        axes->memory = NULL; /* too small for any that will be */
    }
    while (!axes->memory && func->spare_axes) {
        AxesMemory *spare = func->spare_axes;
        func->spare_axes = spare->next;
        axes->memory = spare->cap >= func->n_values ? spare : NULL;
    }
    axes->memory = axes->memory ? axes->memory : new_memory(func);
    axes->memory->now++;
}

void axes_again(Axes *axes, Block *block)
{
    make_room(axes);
    Tying tying = {.axes = axes};
    block_walk(block, tie_one, &tying);
    block_walk(block, flag_op, axes);
}

Axes an_axes(Func *func, Block *block)
{
    Axes axes = {.func = func};
    axes_again(&axes, block);
    return axes;
}

void axes_done(Axes *axes)
{
    if (axes->memory) {
        axes->memory->next = axes->func->spare_axes;
        axes->func->spare_axes = axes->memory;
        axes->memory = NULL;
    }
}

int axes_class(const Axes *axes, const Value *value, int axis)
{
    return is_settled(value->type->dims[axis]) ? -1 : find(axes, value, axis);
}

unsigned axes_flags(const Axes *axes, int class)
{
    return axes->memory->flags[class];
}

static bool walks_twice(const Axes *axes, const Value *value)
{
    for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        int class = axes_class(axes, value, i);
        for (int k = 0; k < i; k++) {
            if (class >= 0 && class == axes_class(axes, value, k)) {
                return true;
            }
        }
    }
    return false;
}

typedef struct Search {
    const Axes *axes;
    bool found;
} Search;

static void search_op(Op *op, void *user)
{
    Search *search = user;
    for (int r = 0; r < op->n_results && !search->found; r++) {
        search->found = walks_twice(search->axes, op->results[r]);
    }
}

bool axes_conflict(const Axes *axes, Block *block)
{
    Search search = {axes, false};
    block_walk(block, search_op, &search);
    return search.found;
}
