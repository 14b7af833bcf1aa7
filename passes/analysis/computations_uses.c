/* SPDX-License-Identifier: Apache-2.0 */
/* Collects what a computation reads: elements of tensors, and results of other computations. */
#include "ir/build.h"
#include "ir/op_axes.h"
#include "passes/analysis/computations_build.h"

enum { MAX_INSTANCES = 8 }; /* of a value; further ones read a computation of its own axes */

/* ---- other computations ---- */

static bool same_result(const void *item, const void *key)
{
    const Compute *compute = item;
    return instance_same(&compute->result, key);
}

Compute *compute_new(ComputeBuild *b, ComputeKind kind, const Op *op)
{
    Compute *compute = ARENA_NEW(b->func->arena, Compute);
    compute->id = (int)b->all->all.n;
    compute->kind = kind;
    compute->op = op;
    if (op->kind == OP_REDUCE || op->kind == OP_SCAN) {
        compute->fn = op_word(op, ATTR_FN);
    } else if (op->kind == OP_DOT) {
        compute->fn = "sum";
    } else {
        compute->fn = op_info(op->kind)->name;
    }
    ARENA_PUSH(b->func->arena, &b->all->all, compute);
    return compute;
}

static ComputeKind kind_of(const Op *op)
{
    switch (op->kind) {
    case OP_REDUCE:
    case OP_DOT: return COMPUTE_FOLD;
    case OP_SCAN: return COMPUTE_SCAN;
    case OP_FOLD: return op_int(op, ATTR_SCAN, 0) ? COMPUTE_SCAN : COMPUTE_FOLD;
    case OP_LOAD:
    case OP_GATHER: return COMPUTE_POINT;
    default:
        return op_has(op, TRAIT_ELEMENTWISE) || op_moves_axes(op) ? COMPUTE_POINT : COMPUTE_OPAQUE;
    }
}

/* True if each element of the result can be looked at wherever it is. */
static bool takes_map(const Op *op, int axis, const Affine *map)
{
    int along = op_reduces(op) && op->kind != OP_DOT ? (int)op_int(op, ATTR_AXIS, -1) : -1;
    switch (kind_of(op)) {
    case COMPUTE_FOLD: return true;
    case COMPUTE_SCAN: return axis != along || map_as_axis(map);
    default: return compute_goes_by_element(op);
    }
}

/* The computation of what the op makes, of these elements where that can be, or else of all. */
Compute *compute_of(ComputeBuild *b, const Instance *wanted)
{
    const Op *op = wanted->value->def;
    Instance result = {.value = op->results[0]};
    int64_t n = 0;
    memo_known(b->counts, result.value, 0, &n);
    for (int i = 0; i < result.value->type->rank; i++) {
        bool takes = n <= MAX_INSTANCES && wanted->at[i] && takes_map(op, i, wanted->at[i]);
        result.at[i] = takes ? wanted->at[i] : NULL;
    }
    bool own = kind_of(op) == COMPUTE_OPAQUE && result.value->type->rank == 0;
    for (int i = 0; i < result.value->type->rank; i++) {
        own = own || !result.at[i];
    }
    int64_t found;
    if (own && memo_known(b->counts, result.value, 1, &found)) {
        return (Compute *)(intptr_t)found;
    }
    uint64_t hash = own ? 0 : instance_hash(&result);
    Compute *known = own ? NULL : table_find(&b->made, hash, same_result, &result);
    if (known) {
        return known;
    }
    Compute *compute = compute_new(b, kind_of(op), op), *now = b->now;
    b->now = compute;
    for (int i = 0; i < result.value->type->rank; i++) {
        Dim extent = result.value->type->dims[i];
        if (!result.at[i]) {
            result.at[i] =
                poly_is_number(extent, 1)
                    ? map_number(&b->all->space, 0)
                    : map_axis(&b->all->space, compute_add_axis(b, extent, NULL, ROLE_KEPT));
        }
        compute_keep_axes(b, result.at[i]);
    }
    b->now = now;
    compute->result = result;
    if (own) {
        memo_keep(b->counts, result.value, 1, (intptr_t)compute);
    } else {
        memo_keep(b->counts, result.value, 0, n + 1);
        table_add(b->func->arena, &b->made, instance_hash(&result), compute);
    }
    return compute;
}

/* ---- uses ---- */

/* Statements before the op that write the memory. */
static uint32_t version_of(ComputeBuild *b, const Value *memory, const Op *op)
{
    uint32_t n = 0;
    const Block *body = b->func->body;
    if (memory->type->kind != TYPE_TENSOR || b->func->params.items[memory->index].io == PARAM_IN) {
        return 0;
    }
    const Op *own = op_ancestor_in(op, body);
    for (const ValueUse *use = use_first(memory, body); use; use = use_next(use, body)) {
        const Op *writer = op_ancestor_in(use->op, body);
        bool writes = use->op->operands[0] == memory &&
                      (use->op->kind == OP_STORE || use->op->kind == OP_SCATTER);
        bool before = own != writer ? op_is_before(writer, own)
                                    : use->op != op && use->op->parent == op->parent &&
                                          op_is_before(use->op, op);
        n += writes && before;
    }
    return n;
}

static bool same_use(const Use *a, const Use *b)
{
    bool same = a->mode == b->mode && a->memory == b->memory && a->version == b->version &&
                a->made == b->made && a->guards == b->guards;
    for (int i = 0; same && i < a->rank; i++) {
        same = (a->at[i] && b->at[i] ? map_equal(a->at[i], b->at[i]) : a->at[i] == b->at[i]) &&
               a->computed[i] == b->computed[i] && a->guarded[i] == b->guarded[i];
    }
    return same;
}

static void add_use(ComputeBuild *b, const Use *use)
{
    for (int i = 0; i < use->rank; i++) {
        compute_keep_axes(b, use->at[i]);
        compute_note_axes(b, use->at[i], use->factors);
    }
    for (const UseGuard *guard = use->guards; guard; guard = guard->next) {
        compute_note_axes(b, guard->at, use->factors);
    }
    for (size_t i = 0; i < b->now->uses.n; i++) {
        if (same_use(&b->now->uses.items[i], use)) {
            b->now->uses.items[i].factors |= use->factors;
            return;
        }
    }
    ARENA_PUSH(b->func->arena, &b->now->uses, *use);
}

/* An index of an access: a whole axis, a range, a number, or an array over the result's axes. */
static void set_index(ComputeBuild *b, Use *use, int i, Value *index, const Affine *const *at,
                      int *axis)
{
    if (!index) {
        use->at[i] = at[(*axis)++];
    } else if (index->type->kind == TYPE_RANGE) {
        use->at[i] = at[(*axis)++];
    } else {
        Instance inner = {.value = index};
        for (int k = 0; k < index->type->rank; k++) {
            inner.at[k] = at[k];
        }
        use->at[i] = compute_map(b, index, at);
        if (!use->at[i]) {
            use->computed[i] = index;
            compute_visit(b, &inner, use->guards, use->factors);
        }
    }
}

/* Does the access check the index? Before `bounds`, an attribute says which ones are not. */
static bool is_guarded(ComputeBuild *b, const Op *op, const Use *use, int i, bool indexed)
{
    const Attr *guard = op_attr(op, ATTR_GUARD);
    Dim extent = use->memory->type->dims[i];
    bool checked = guard ? guard->ints[i] : indexed;
    return checked && !map_is_inside(&b->all->space, use->at[i], extent);
}

void compute_add_access(ComputeBuild *b, const Op *op, const Affine *const *at, UseMode mode,
                        const UseGuard *guards, unsigned factors)
{
    Access access = op_access(op, 0);
    bool indexed = op->kind == OP_GATHER || op->kind == OP_SCATTER;
    Use use = {.mode = mode,
               .memory = access.memory,
               .version = version_of(b, access.memory, op),
               .rank = access.n,
               .guards = guards,
               .factors = factors,
               .otherwise = op_attr(op, ATTR_VALUE),
               .op = op};
    if (access.memory->type->kind == TYPE_ARRAY) {
        use.made = compute_of(b, &(Instance){.value = access.memory});
    }
    int axis = 0;
    for (int i = 0; i < access.n; i++) {
        set_index(b, &use, i, access.indices[i], at, &axis);
        use.guarded[i] = is_guarded(b, op, &use, i, indexed);
    }
    add_use(b, &use);
}

void compute_use_made(ComputeBuild *b, const Visit *visit)
{
    const Instance *wanted = &visit->instance;
    Use use = {.mode = USE_READ,
               .memory = wanted->value,
               .made = compute_of(b, wanted),
               .rank = wanted->value->type->rank,
               .guards = visit->guards,
               .factors = visit->factors,
               .op = wanted->value->def};
    for (int i = 0; i < use.rank; i++) {
        use.at[i] = wanted->at[i];
    }
    add_use(b, &use);
}
