/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the computations of a function at the tensor level, beginning at the statements that write.
 * Elementwise ops and ops that only move elements are not computations of their own: they end up in
 * the index maps of whatever computation reads them. */
#include "passes/analysis/computations.h"

#include "ir/build.h"
#include "ir/op_axes.h"
#include "passes/analysis/computations_build.h"

enum {
    MAX_POINTS = 64
}; /* instances of an element-wise value in one computation; the value is
                           * read from memory where it is needed at more places */

/* ---- values ---- */

/* What an opaque computation does inside is not looked at. */
static bool is_inside_opaque(const ComputeBuild *b, const Value *value)
{
    const Op *op = b->now->op;
    return b->now->kind == COMPUTE_OPAQUE && op->n_regions > 0 && value_is_inside(value, op);
}

/* A gather from an array: its elements are looked at where it reads them. */
static void visit_gathered(ComputeBuild *b, const Visit *visit)
{
    const Op *op = visit->instance.value->def;
    Value *from = op->operands[0];
    Instance inner = {.value = from};
    const UseGuard *guards = visit->guards;
    const Attr *guard = op_attr(op, ATTR_GUARD);
    bool maps = true;
    for (int i = 0; i < from->type->rank; i++) {
        inner.at[i] = compute_map(b, op->operands[1 + i], visit->instance.at);
        maps = maps && inner.at[i];
    }
    for (int i = 0; maps && i < from->type->rank; i++) {
        Dim extent = from->type->dims[i];
        if ((!guard || guard->ints[i]) && !map_is_inside(&b->all->space, inner.at[i], extent)) {
            UseGuard *outer = ARENA_NEW(b->func->arena, UseGuard);
            *outer = (UseGuard){inner.at[i], extent, guards};
            guards = outer;
        }
    }
    if (maps) {
        compute_visit(b, &inner, guards, visit->factors);
        return;
    }
    compute_add_access(b, op, visit->instance.at, USE_READ, visit->guards, visit->factors);
}

static void visit_elementwise(ComputeBuild *b, const Visit *visit)
{
    Op *op = visit->instance.value->def;
    ARENA_PUSH(b->func->arena, &b->now->body, op);
    for (int i = 0; i < op->n_operands; i++) {
        Instance inner = visit->instance;
        inner.value = op->operands[i];
        compute_visit(b, &inner, visit->guards, visit->factors);
    }
}

/* Element-wise values that are needed at too many places are read from memory. */
static bool has_too_many(ComputeBuild *b, const Value *value)
{
    int64_t n = 0;
    memo_known(b->points, value, 0, &n);
    memo_keep(b->points, value, 0, n + 1);
    return n > MAX_POINTS;
}

static void visit_op(ComputeBuild *b, const Visit *visit)
{
    const Op *op = visit->instance.value->def;
    const Affine *const *at = visit->instance.at;
    const Affine *map = compute_map(b, visit->instance.value, at);
    if (map) {
        compute_note_axes(b, map, visit->factors);
    } else if (has_too_many(b, visit->instance.value)) {
        compute_use_made(b, visit);
    } else if (op->kind == OP_LOAD) {
        compute_add_access(b, op, at, USE_READ, visit->guards, visit->factors);
    } else if (op->kind == OP_GATHER && type_is_memory(op->operands[0]->type)) {
        compute_add_access(b, op, at, USE_READ, visit->guards, visit->factors);
    } else if (op->kind == OP_GATHER) {
        visit_gathered(b, visit);
    } else if (op_moves_axes(op)) {
        Instance inner = instance_moved(&b->all->space, op, at);
        compute_visit(b, &inner, visit->guards, visit->factors);
    } else if (op_has(op, TRAIT_ELEMENTWISE)) {
        visit_elementwise(b, visit);
    } else if (op->kind != OP_CONST && op->kind != OP_SIZE && op->kind != OP_IOTA &&
               !is_inside_opaque(b, visit->instance.value)) {
        compute_use_made(b, visit);
    }
}

static void visit_all(ComputeBuild *b)
{
    while (b->pending.n > 0) {
        const Visit *visit = b->pending.items[--b->pending.n];
        if (visit->instance.value->def) {
            visit_op(b, visit);
        }
    }
}

/* ---- statements ---- */

/* New axes, one for each of the value's. */
static Instance new_instance(ComputeBuild *b, Value *value, ComputeRole role)
{
    Instance result = {.value = value};
    for (int i = 0; i < value->type->rank; i++) {
        Dim extent = value->type->dims[i];
        result.at[i] = poly_is_number(extent, 1)
                           ? map_number(&b->all->space, 0)
                           : map_axis(&b->all->space, compute_add_axis(b, extent, NULL, role));
    }
    return result;
}

static void build_statement(ComputeBuild *b)
{
    const Op *op = b->now->op;
    Value *written;
    if (op->kind == OP_STORE) {
        written = op->operands[op->n_operands - 1];
    } else if (op->kind == OP_SCATTER) {
        written = scatter_parts(op).value;
    } else {
        written = op->operands[0];
    }
    Instance all = new_instance(b, written, ROLE_KEPT);
    if (op->kind == OP_STORE || op->kind == OP_SCATTER) {
        bool set = op->kind == OP_STORE || text_equal(op_word(op, ATTR_FN), "set");
        compute_add_access(b, op, all.at, set ? USE_WRITE : USE_ATOMIC, NULL, 0);
    }
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        Value *operand = op->operands[at];
        if (operand->type->kind == TYPE_ARRAY &&
            (operand->type->rank == 0 || operand->type->rank == written->type->rank)) {
            all.value = operand;
            compute_visit(b, &all, NULL, 0);
        }
    }
}

static void build_compute(ComputeBuild *b, Compute *compute)
{
    b->now = compute;
    compute->is_built = true;
    b->seen = (HashTable){0};
    memo_clear(b->points);
    if (compute->kind == COMPUTE_SCAN) {
        compute_build_scan(b);
    } else if (compute->kind == COMPUTE_FOLD && compute->op->kind == OP_FOLD) {
        compute_build_fold(b);
    } else if (compute->kind == COMPUTE_FOLD) {
        compute_build_reduction(b);
    } else if (compute->kind == COMPUTE_POINT && compute->result.value) {
        compute_visit(b, &compute->result, NULL, 0);
    } else if (compute->result.value || compute->op->n_regions > 0) {
        compute_build_opaque(b);
    } else {
        build_statement(b);
    }
    visit_all(b);
}

/* True if something outside of the op notices it. */
static bool has_effects(const Op *op)
{
    static const OpKind effects[] = {OP_STORE, OP_SCATTER, OP_PRINT, OP_ASSERT};
    bool found = false;
    for (int r = 0; r < op->n_regions; r++) {
        for (int i = 0; i < 4; i++) {
            found = found || block_contains(op->regions[r], effects[i]);
        }
    }
    return found;
}

/* A loop or choice that writes, and may have results, too. */
static void add_opaque(ComputeBuild *b, const Op *op)
{
    if (op->n_results == 0) {
        compute_new(b, COMPUTE_OPAQUE, op);
    } else {
        compute_of(b, &(Instance){.value = op->results[0]});
    }
}

static void add_statements(ComputeBuild *b, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        const Attr *dims = op->kind == OP_PARALLEL ? op_attr(op, ATTR_DIMS) : NULL;
        bool set = op->kind == OP_SCATTER && text_equal(op_word(op, ATTR_FN), "set");
        if (dims && dims->n == 0) {
            add_statements(b, op->regions[0]);
        } else if (op->kind == OP_STORE || set) {
            compute_new(b, COMPUTE_POINT, op);
        } else if (op->kind == OP_SCATTER || op->kind == OP_PRINT || op->kind == OP_ASSERT) {
            compute_new(b, COMPUTE_OPAQUE, op);
        } else if (has_effects(op)) {
            add_opaque(b, op);
        }
    }
}

Computations *computations_open(Func *func)
{
    Computations *all = ARENA_NEW(func->arena, Computations);
    ComputeBuild *build = ARENA_NEW(func->arena, ComputeBuild);
    all->space.func = func;
    all->build = build;
    *build = (ComputeBuild){.func = func,
                            .all = all,
                            .counts = memo_open(func),
                            .loops = memo_open(func),
                            .points = memo_open(func),
                            .ranges = {.n = func->dimvars.n}};
    build->ranges.items = ARENA_ARRAY(func->arena, const Axis *, func->dimvars.n + 1);
    return all;
}

void computations_close(Computations *all)
{
    memo_close(all->build->counts);
    memo_close(all->build->loops);
    memo_close(all->build->points);
    all->build = NULL;
}

Instance computations_own(Computations *all, Value *value)
{
    Instance own = {.value = value};
    for (int i = 0; i < value->type->rank; i++) {
        Dim extent = value->type->dims[i];
        own.at[i] = poly_is_number(extent, 1)
                        ? map_number(&all->space, 0)
                        : map_axis(&all->space, axis_new(&all->space, extent, NULL));
    }
    return own;
}

const Affine *computations_map(Computations *all, const Value *index, const Affine *const *at)
{
    return compute_map(all->build, index, at);
}

const Compute *computations_of(Computations *all, const Op *op)
{
    Compute *compute = compute_of(all->build, &(Instance){.value = op->results[0]});
    if (!compute->is_built) {
        build_compute(all->build, compute);
    }
    return compute;
}

Computations an_computations(Func *func, Block *block)
{
    Computations *all = computations_open(func);
    add_statements(all->build, block);
    for (size_t i = 0; i < all->all.n; i++) {
        build_compute(all->build, all->all.items[i]);
    }
    computations_align(all->build);
    computations_close(all);
    return *all;
}
