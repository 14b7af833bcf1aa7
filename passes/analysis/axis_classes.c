/* SPDX-License-Identifier: Apache-2.0 */
/* Partitions the axes of all values in a fusion group into classes that iterate together, by
 * union-find over the rules of column `axes` of ir/ops.def. A class becomes one loop or one grid
 * axis, so `fuse` and `tile` both decide by class. */
#include "passes/analysis/axis_classes.h"

#include "ir/build.h"

/* Tables over the values of a function; those of one that was not asked about are stale. */
typedef struct AxesMemory {
    int32_t *parent; /* union-find over value id * MAX_RANK + axis */
    uint8_t *flags;  /* by class */
    uint32_t *asked; /* by value: when */
    uint32_t now, cap;
    struct AxesMemory *next; /* that nothing uses, either */
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

bool axes_is_settled(Dim dim)
{
    return poly_is_number(dim, 1) || poly_as_range(dim);
}

/* ---- which axes iterate together ---- */

typedef struct Ties {
    AxesTieFn *fn;
    void *user;
} Ties;

/* `a` is operand `use` of `by`; `by` NULL: of no op, but an argument or result of a loop. */
static void tie(const Ties *ties, Op *by, int use, Value *a, int i, Value *b, int k)
{
    if (!axes_is_settled(a->type->dims[i]) && !axes_is_settled(b->type->dims[k])) {
        ties->fn(&(AxesTie){by, use, a, i, b, k}, ties->user);
    }
}

/* Scalars and what is no array have nothing to tie. */
static void tie_values(const Ties *ties, Op *by, int use, Value *a, Value *b)
{
    bool arrays = a->type->kind == TYPE_ARRAY && b->type->kind == TYPE_ARRAY;
    for (int i = 0; arrays && a->type->rank == b->type->rank && i < a->type->rank; i++) {
        tie(ties, by, use, a, i, b, i);
    }
}

static void tie_use(const Ties *ties, Op *by, int use, Value *b)
{
    if (by->operands[use]) {
        tie_values(ties, by, use, by->operands[use], b);
    }
}

/* The operand over whose axes the op writes; -1: it writes nothing. */
static int written_operand(const Op *op)
{
    switch (op->kind) {
    case OP_STORE: return op->n_operands - 1;
    case OP_SCATTER: {
        const Value *value = scatter_parts(op).value;
        int i = 0;
        while (op->operands[i] != value) {
            i++;
        }
        return i;
    }
    case OP_PRINT:
    case OP_ASSERT: return 0;
    default: return -1;
    }
}

/* Ties what op_axis says: axes of operands with axes of the result (or of the array that the op
 * writes), and the contracted axis of a dot's right factor with that of the left one. */
static void tie_operands(const Ties *ties, Op *op)
{
    int written = written_operand(op);
    for (int at = 0; at < op->n_operands; at++) {
        Value *operand = op->operands[at];
        Value *result;
        if (written >= 0) {
            result = op->operands[written];
        } else {
            result = op->results[op->kind == OP_FOLD && at < op->n_results ? at : 0];
        }
        bool array = operand && operand != result && operand->type->kind == TYPE_ARRAY;
        if (array && op_has_result_axes(op, at) && operand->type->rank != result->type->rank) {
            continue; /* a pass asks while it replaces operands one by one */
        }
        for (int i = 0; array && i < operand->type->rank; i++) {
            OpAxis axis = op_axis(op, at, i);
            if (axis.role & (AXIS_TIED | AXIS_SCANNED)) {
                tie(ties, op, at, operand, i, result, axis.result);
            } else if (axis.role == AXIS_CONTRACTED && at == 1) {
                Value *left = op->operands[0];
                tie(ties, op, at, operand, i, left, op_reduced_axis(op, left->type->rank));
            }
        }
    }
}

/* What a region yields becomes these values. */
static void tie_yield(const Ties *ties, const Block *region, int n, Value *const *values)
{
    Op *yield = region->last;
    for (int i = 0; yield && yield->kind == OP_YIELD && i < n && i < yield->n_operands; i++) {
        tie_use(ties, yield, i, values[i]);
    }
}

/* Carried values: inits, arguments, yields, results. */
static void tie_carried(const Ties *ties, Op *op, int first_init, int first_arg)
{
    for (int i = 0; i < op->n_results; i++) {
        tie_use(ties, op, first_init + i, op->results[i]);
        for (int r = 0; r < op->n_regions; r++) {
            tie_values(ties, NULL, 0, op->regions[r]->args[first_arg + i], op->results[i]);
        }
    }
    tie_yield(ties, op->regions[op->n_regions - 1], op->n_results, op->results);
}

const Value *axes_written(const Op *op)
{
    op_visited(op);
    int i = written_operand(op);
    return i < 0 ? NULL : op->operands[i];
}

/* Elements end one by one: all that is carried has one shape. A scalar condition carries
 * anything. */
static bool goes_by_element(const Op *loop)
{
    return loop->regions[0]->last->operands[0]->type->rank > 0;
}

static void tie_while(const Ties *ties, Op *op)
{
    tie_carried(ties, op, 0, 0);
    tie_yield(ties, op->regions[0], 1, op->results);
    for (int i = 1; goes_by_element(op) && i < op->n_results; i++) {
        tie_values(ties, NULL, 0, op->results[i], op->results[0]);
    }
}

void axes_ties(Op *op, AxesTieFn *fn, void *user)
{
    const Ties to = {fn, user}, *ties = &to;
    int written = written_operand(op);
    switch (op->kind) {
    case OP_FOLD:
        tie_operands(ties, op);
        for (int i = 1; i < op->n_results; i++) {
            tie_use(ties, op, i, op->operands[0]);
        }
        break;
    case OP_WHILE: tie_while(ties, op); break;
    case OP_FOR: tie_carried(ties, op, 2, 1); break;
    case OP_IF:
        tie_yield(ties, op->regions[0], op->n_results, op->results);
        tie_yield(ties, op->regions[1], op->n_results, op->results);
        break;
    default:
        if (op->n_results || written >= 0) {
            tie_operands(ties, op);
        }
        if (op->n_results && written >= 0) { /* a scatter that also gives the old elements */
            tie_values(ties, NULL, 0, op->results[0], op->operands[written]);
        }
    }
}

/* The axes of more than one element; how many they are. */
static int long_axes(Type type, int *list)
{
    int n = 0;
    for (int i = 0; i < type->rank; i++) {
        if (!axes_is_settled(type->dims[i])) {
            list[n++] = i;
        }
    }
    return n;
}

/* Ties axes of the same place and extent; those of `a` that none of `b` is like are counted. */
static int tie_equal(const Ties *ties, Op *op, const Op *before)
{
    int use = written_operand(op), own[MAX_RANK], other[MAX_RANK], different = 0;
    Value *a = op->operands[use], *b = before->operands[written_operand(before)];
    int n = long_axes(a->type, own);
    bool like = n == long_axes(b->type, other);
    for (int i = 0; i < n; i++) {
        if (!like || a->type->dims[own[i]] != b->type->dims[other[i]]) {
            different++;
        } else if (ties->fn) {
            tie(ties, op, use, a, own[i], b, other[i]);
        }
    }
    return different;
}

void axes_ties_written(Op *op, const AxesWriters *writers, AxesTieFn *fn, void *user)
{
    const Ties ties = {fn, user};
    for (size_t i = 0; i < writers->n; i++) {
        if (writers->items[i] != op) {
            tie_equal(&ties, op, writers->items[i]);
        }
    }
}

void axes_add_writer(Arena *arena, AxesWriters *writers, Op *op)
{
    const Ties none = {NULL, NULL};
    bool anew = axes_written(op) != NULL;
    for (size_t i = 0; i < writers->n && anew; i++) {
        anew = tie_equal(&none, op, writers->items[i]) > 0;
    }
    if (anew) {
        ARENA_PUSH(arena, writers, op);
    }
}

/* ---- classes of them ---- */

static void join(const AxesTie *t, void *user)
{
    Axes *axes = user;
    axes->memory->parent[find(axes, t->a, t->i)] = find(axes, t->b, t->k);
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
    int axis = op_reduces(op) ? op_reduced_axis(op, op->operands[0]->type->rank) : -1;
    if (axis >= 0) {
        unsigned role = op_axis(op, 0, axis).role;
        flag(axes, op->operands[0], axis, role == AXIS_SCANNED ? role | AXIS_REDUCED : role);
    } else if (axes_written(op)) {
        flag_stored(axes, axes_written(op));
    }
}

typedef struct Tying {
    Axes *axes;
    AxesWriters writers;
} Tying;

/* All stores of a group write over the same grid: their axes are tied pairwise. */
static void tie_one(Op *op, void *user)
{
    Tying *tying = user;
    axes_ties(op, join, tying->axes);
    if (axes_written(op)) {
        axes_ties_written(op, &tying->writers, join, tying->axes);
        axes_add_writer(tying->axes->func->arena, &tying->writers, op);
    }
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

static void reserve(Axes *axes)
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

void axes_rebuild(Axes *axes, Block *block)
{
    reserve(axes);
    Tying tying = {.axes = axes};
    block_walk(block, tie_one, &tying);
    block_walk(block, flag_op, axes);
}

Axes an_axes(Func *func, Block *block)
{
    Axes axes = {.func = func};
    axes_rebuild(&axes, block);
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
    return axes_is_settled(value->type->dims[axis]) ? -1 : find(axes, value, axis);
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
