/* SPDX-License-Identifier: Apache-2.0 */
/* Creates the axes of a computation and the instances of values that it reads: a value with one
 * index map per axis. */
#include "ir/build.h"
#include "ir/op_axes.h"
#include "passes/analysis/computations_build.h"

/* ---- axes ---- */

static void add_compute_axis(ComputeBuild *b, const Axis *axis, ComputeRole role)
{
    ComputeAxis added = {axis, role, 0};
    for (size_t i = 0; i < b->now->axes.n; i++) {
        if (b->now->axes.items[i].axis == axis) {
            return;
        }
    }
    ARENA_PUSH(b->func->arena, &b->now->axes, added);
}

const Axis *compute_add_axis(ComputeBuild *b, Dim extent, const Value *from, ComputeRole role)
{
    const Axis *axis = axis_new(&b->all->space, extent, from);
    add_compute_axis(b, axis, role);
    return axis;
}

void compute_keep_axes(ComputeBuild *b, const Affine *map)
{
    for (int i = 0; map && i < map->n; i++) {
        const Axis *axis = map->terms[i].axis;
        if (axis->of) {
            compute_keep_axes(b, axis->of);
        } else {
            add_compute_axis(b, axis, ROLE_KEPT);
        }
    }
}

void compute_note_axes(ComputeBuild *b, const Affine *map, unsigned factors)
{
    for (size_t i = 0; factors && map && i < b->now->axes.n; i++) {
        ComputeAxis *own = &b->now->axes.items[i];
        own->factors |= map_depends_on(map, own->axis) ? factors : 0;
    }
}

/* ---- instances ---- */

uint64_t instance_hash(const Instance *of)
{
    uint64_t hash = hash_word(7, of->value->id);
    for (int i = 0; i < of->value->type->rank; i++) {
        hash = map_hash(hash, of->at[i]);
    }
    return hash;
}

bool instance_same(const Instance *a, const Instance *b)
{
    bool same = a->value == b->value;
    for (int i = 0; same && i < a->value->type->rank; i++) {
        same = map_equal(a->at[i], b->at[i]);
    }
    return same;
}

static bool same_visit(const void *item, const void *key)
{
    const Visit *a = item, *b = key;
    return a->guards == b->guards && a->factors == b->factors &&
           instance_same(&a->instance, &b->instance);
}

void compute_visit(ComputeBuild *b, const Instance *instance, const UseGuard *guards,
                   unsigned factors)
{
    Visit visit = {*instance, guards, factors};
    uint64_t hash = instance_hash(instance);
    if (instance->value->type->kind != TYPE_ARRAY ||
        table_find(&b->seen, hash, same_visit, &visit)) {
        return;
    }
    Visit *own = arena_copy(b->func->arena, &visit, sizeof visit);
    table_add(b->func->arena, &b->seen, hash, own);
    ARENA_PUSH(b->func->arena, &b->pending, own);
    ARENA_PUSH(b->func->arena, &b->now->instances, &own->instance);
}

Instance instance_moved(AxisSpace *space, const Op *op, const Affine *const *at)
{
    Instance inner = {.value = op->operands[0]};
    for (int i = 0; i < inner.value->type->rank; i++) {
        OpAxis axis = op_axis(op, 0, i);
        inner.at[i] = axis.role == AXIS_TIED ? at[axis.result] : map_number(space, 0);
    }
    return inner;
}

/* ---- by element ---- */

typedef struct Elements {
    Type shape;
    bool separate; /* so far */
} Elements;

static bool has_shape(const Value *value, Type shape)
{
    Type type = value->type;
    bool same = type->rank == 0 || (type->kind == TYPE_ARRAY && type->rank == shape->rank);
    for (int i = 0; same && i < type->rank; i++) {
        same = type->dims[i] == shape->dims[i];
    }
    return same;
}

static void check_element(Op *op, void *user)
{
    Elements *elements = user;
    bool plain = op_has(op, TRAIT_ELEMENTWISE) || op->kind == OP_CONST || op->kind == OP_SIZE ||
                 op->kind == OP_YIELD || op->kind == OP_WHILE || op->kind == OP_IF ||
                 op->kind == OP_FOR || op->kind == OP_BROADCAST;
    elements->separate = elements->separate && plain;
    for (int i = 0; i < op->n_operands && elements->separate; i++) {
        elements->separate = has_shape(op->operands[i], elements->shape);
    }
    for (int i = 0; i < op->n_results && elements->separate; i++) {
        elements->separate = has_shape(op->results[i], elements->shape);
    }
}

bool compute_goes_by_element(const Op *op)
{
    bool region = op->kind == OP_WHILE || op->kind == OP_IF || op->kind == OP_FOR;
    Elements elements = {.separate = region && op->n_results > 0};
    if (elements.separate) {
        elements.shape = op->results[0]->type;
        check_element((Op *)op, &elements);
    }
    for (int r = 0; r < op->n_regions && elements.separate; r++) {
        block_walk(op->regions[r], check_element, &elements);
    }
    return elements.separate;
}
