/* SPDX-License-Identifier: Apache-2.0 */
/* gather_places: if a select takes an array for one index of a short axis only, the array is
 * computed for that index alone.
 *
 *   %r = broadcast %re : f32[2, M, N]            %g = gather (expand %re)[%c, %m, %n]
 *   %i = broadcast %im : f32[2, M, N]            %h = gather (expand %im)[%c - 1, %m, %n]
 *   %e = cmp %c, 0 pred=eq                  →    %e = cmp %c, 0 pred=eq
 *   %v = select %e, %r, %i                       %v = select %e, %g, %h
 *   store %y[:, :, :], %v                        store %y[:, :, :], %v
 *
 * `y[c, i, j] = re[i, j] if c == 0 else im[i, j]` is a stack of two arrays, which `fuse` stores
 * each at its place (fuse_pieces.c) when they are read as a stack's are. Otherwise a branch that is
 * equal along the axis would be computed for all of its indices. Applies if conditions on that axis
 * alone select a single index for each such branch of a stored value, and each branch is computed
 * from a dot. Requires the tensor level. Changes no bits. */
#include "ir/build.h"
#include "ir/memo.h"
#include "ir/op_axes.h"
#include "ir/summed_factor.h"
#include "passes/pass.h"

enum { MAX_PLACES = 16, MAX_STEPS = 256 };

/* ---- conditions of one axis ---- */

static bool compares(const char *pred, int64_t a, int64_t b)
{
    enum { LESS = 1, EQUAL = 2, GREATER = 4 };
    static const struct {
        const char *pred;
        int holds; /* for these orders of a and b */
    } PREDICATES[] = {
        {"eq", EQUAL},   {"ne", LESS | GREATER}, {"lt", LESS},
        {"gt", GREATER}, {"le", LESS | EQUAL},   {"ge", GREATER | EQUAL},
    };
    int order = EQUAL;
    if (a != b) {
        order = a < b ? LESS : GREATER;
    }
    bool holds = false;
    for (size_t i = 0; i < sizeof PREDICATES / sizeof *PREDICATES; i++) {
        holds = holds || (text_equal(pred, PREDICATES[i].pred) && (PREDICATES[i].holds & order));
    }
    return holds;
}

/* The value at a place of the axis (-1: it has no such axis); false: it depends on more. */
static bool value_at(const Value *value, int axis, int64_t place, int *steps, int64_t *found)
{
    const Op *op = value->def;
    const Attr *number = op ? value_const(value) : NULL;
    int64_t of[2] = {0, 0};
    if (number) {
        *found = number->i;
        return true;
    }
    if (!op || ++*steps > MAX_STEPS || dtype_is_float(value->type->dtype)) {
        return false;
    }
    if (op->kind == OP_IOTA) {
        *found = place;
        return axis == 0;
    }
    if (op_moves_axes(op)) {
        int inner = -1;
        for (int i = 0; i < op->operands[0]->type->rank; i++) {
            OpAxis moved = op_axis(op, 0, i);
            inner = moved.role == AXIS_TIED && moved.result == axis ? i : inner;
        }
        return value_at(op->operands[0], inner, place, steps, found);
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (op->n_operands > 2 || !value_at(op->operands[i], axis, place, steps, &of[i])) {
            return false;
        }
    }
    switch (op->kind) {
    case OP_ADD: return !__builtin_add_overflow(of[0], of[1], found);
    case OP_SUB: return !__builtin_sub_overflow(of[0], of[1], found);
    case OP_AND: *found = of[0] & of[1]; return true;
    case OP_OR: *found = of[0] | of[1]; return true;
    case OP_CMP:
        *found = compares(op_word(op, ATTR_PRED), of[0], of[1]);
        return op->operands[0]->type->dtype == DT_I64 || op->operands[0]->type->dtype == DT_I32;
    default: return false;
    }
}

/* ---- branches ---- */

typedef struct Branch {
    Op *select;
    int at; /* which operand */
    int64_t place;
} Branch;

/* A select that takes its first branch, or (`last`) its second one, at this many first places. */
typedef struct Choice {
    Op *select;
    int64_t first;
    bool last;
} Choice;

typedef struct Branches {
    Func *func;
    Memo *products;
    int axis;
    Branch items[MAX_PLACES];
    int n;
    Choice choices[MAX_PLACES];
    int n_choices;
} Branches;

/* How a select chooses along the axis; false: by more than the axis, or by no first places. */
static bool find_choice(const Branches *b, Op *select, int64_t extent, Choice *choice)
{
    int64_t holds, first = 0, changes = 0, at_first = 0;
    for (int64_t i = 0; i < extent; i++) {
        int steps = 0;
        if (!value_at(select->operands[0], b->axis, i, &steps, &holds)) {
            return false;
        }
        at_first = i == 0 ? holds : at_first;
        changes += i > 0 && first == i && holds != at_first;
        first += first == i && holds == at_first;
        if (first < i && holds == at_first) {
            return false;
        }
    }
    *choice = (Choice){select, first, !at_first};
    return changes == 1;
}

static bool is_of_product(Memo *known, const Value *value)
{
    const Op *op = value->def;
    int64_t found;
    if (!op || memo_known(known, value, 0, &found)) {
        return op && found;
    }
    bool product = op->kind == OP_DOT;
    bool follows = op_moves_axes(op) || op_has(op, TRAIT_ELEMENTWISE);
    for (int i = 0; i < op->n_operands && follows && !product; i++) {
        product = is_of_product(known, op->operands[i]);
    }
    return memo_keep(known, value, 0, product) != 0;
}

/* The branches of the value, which is taken at these places; false: one is not alike along the
 * axis, or has several places. */
static bool find_branches(Branches *b, Op *select, int at, const bool *places)
{
    Value *value = select->operands[at];
    int64_t extent = 0, place = -1;
    int n = 0;
    poly_is_const(value->type->dims[b->axis], &extent);
    for (int64_t i = 0; i < extent; i++) {
        place = places[i] ? i : place;
        n += places[i];
    }
    Op *op = value->def;
    if (op && op->kind == OP_SELECT && value_count_uses(b->func, value) == 1) {
        bool chosen[2][MAX_PLACES] = {{false}};
        Choice choice;
        if (b->n_choices == MAX_PLACES || !find_choice(b, op, extent, &choice)) {
            return false;
        }
        for (int64_t i = 0; i < extent; i++) {
            chosen[(i < choice.first) == choice.last][i] = places[i];
        }
        b->choices[b->n_choices++] = choice;
        return find_branches(b, op, 1, chosen[0]) && find_branches(b, op, 2, chosen[1]);
    }
    if (n != 1 || b->n == MAX_PLACES || !op || op->kind != OP_BROADCAST ||
        !value_is_equal_along(value, b->axis) || !is_of_product(b->products, value)) {
        return false;
    }
    b->items[b->n++] = (Branch){select, at, place};
    return true;
}

/* ---- the gathers ---- */

/* The array with one place along the axis; NULL: it is spread otherwise. */
static Value *single_place(Builder *b, const Value *spread, int axis)
{
    Value *value = spread->def->operands[0];
    int rank = spread->type->rank;
    Dim dims[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        dims[i] = spread->type->dims[i];
    }
    while (value->type->rank == rank && value->def && value->def->kind == OP_BROADCAST &&
           !poly_is_number(value->type->dims[axis], 1)) {
        value = value->def->operands[0];
    }
    if (value->type->rank != rank || !poly_is_number(value->type->dims[axis], 1)) {
        return NULL;
    }
    dims[axis] = value->type->dims[axis];
    return build_broadcast(b, value, rank, dims);
}

static void gather_branch(Func *func, const Branch *branch, int axis)
{
    Value *spread = branch->select->operands[branch->at];
    Builder b = build_before(func, branch->select);
    Type type = spread->type;
    Value *indices[MAX_RANK], *array = single_place(&b, spread, axis);
    int64_t guard[MAX_RANK] = {0};
    for (int i = 0; i < type->rank && array; i++) {
        Value *index = build_iota(&b, type->dims[i], DT_I64);
        if (i == axis && branch->place) {
            Value *place = build_int(&b, index->type, branch->place);
            index = build_binary(&b, OP_SUB, index, place);
        }
        for (int k = i + 1; k < type->rank; k++) {
            index = build_expand(&b, index, index->type->rank);
        }
        indices[i] = build_broadcast(&b, index, type->rank, type->dims);
    }
    if (array) {
        Value *gather = build_gather(&b, array, indices);
        guard[axis] = 1;
        op_set_ints(func, gather->def, ATTR_GUARD, type->rank, guard);
        op_set_operand(branch->select, branch->at, gather);
    }
}

/* The condition as that of a stack: fuse_pieces.c sees that the branches leave no place over. */
static void state_choice(Func *func, const Choice *choice, int axis)
{
    Op *select = choice->select;
    Builder b = build_before(func, select);
    Type type = select->results[0]->type;
    Value *index = build_iota(&b, type->dims[axis], DT_I64);
    Value *first = build_cmp(&b, "lt", index, build_int(&b, index->type, choice->first));
    for (int k = axis + 1; k < type->rank; k++) {
        first = build_expand(&b, first, first->type->rank);
    }
    Value *left = select->operands[1];
    op_set_operand(select, 0, build_broadcast(&b, first, type->rank, type->dims));
    if (choice->last) {
        op_set_operand(select, 1, select->operands[2]);
        op_set_operand(select, 2, left);
    }
}

/* ---- what is stored ---- */

static void see_store(Op *store, void *user)
{
    Func *func = user;
    Op *op = store;
    int at = store->kind == OP_STORE ? store->n_operands - 1 : -1;
    while (at >= 0 && op->operands[at]->def && op->operands[at]->def->n_operands == 1 &&
           op_has(op->operands[at]->def, TRAIT_ELEMENTWISE)) {
        op = op->operands[at]->def;
        at = 0;
    }
    Value *value = at >= 0 ? op->operands[at] : NULL;
    if (!value || !value->def || value->def->kind != OP_SELECT || store->parent != func->body) {
        return;
    }
    for (int axis = 0; axis < value->type->rank; axis++) {
        int64_t extent;
        bool all[MAX_PLACES];
        if (!poly_is_const(value->type->dims[axis], &extent) || extent < 2 || extent > MAX_PLACES) {
            continue;
        }
        for (int i = 0; i < MAX_PLACES; i++) {
            all[i] = i < extent;
        }
        Branches b = {.func = func, .products = memo_open(func), .axis = axis};
        bool found = find_branches(&b, op, at, all);
        memo_close(b.products);
        for (int i = 0; i < b.n && found; i++) {
            gather_branch(func, &b.items[i], axis);
        }
        for (int i = 0; i < b.n_choices && found; i++) {
            state_choice(func, &b.choices[i], axis);
        }
    }
}

void pass_gather_places(Func *func)
{
    func_walk(func, see_store, func);
    func_remove_dead(func);
}
