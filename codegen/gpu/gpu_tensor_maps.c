/* SPDX-License-Identifier: Apache-2.0 */
/* The tensor maps of a function: each bulk copy needs one, and copies of equal boxes share it. A
 * map is a row of the launch plan and a parameter of the kernels. */
#include "codegen/gpu/gpu_emitters.h"
#include "codegen/plan/plan_builder.h"
#include "ir/build.h"

static bool same_expr(const PlanExpr *a, const PlanExpr *c)
{
    bool same = a->n == c->n;
    for (int i = 0; same && i < a->n; i++) {
        same = a->terms[i].coef == c->terms[i].coef && a->terms[i].n == c->terms[i].n;
        for (int k = 0; same && k < a->terms[i].n; k++) {
            same = a->terms[i].vars[k] == c->terms[i].vars[k];
        }
    }
    return same;
}

static bool same_windows(const PlanTensorMap *a, const PlanTensorMap *c)
{
    bool same = a->n_windows == c->n_windows;
    for (int i = 0; same && i < a->n_windows; i++) {
        same = a->windows[i].step == c->windows[i].step &&
               same_expr(&a->windows[i].first, &c->windows[i].first) &&
               same_expr(&a->windows[i].places, &c->windows[i].places);
    }
    return same;
}

static bool same_map(const PlanTensorMap *a, const PlanTensorMap *c)
{
    bool same = a->param == c->param && a->rank == c->rank && a->swizzle == c->swizzle &&
                a->wide_l2 == c->wide_l2 && a->few == c->few && same_windows(a, c) &&
                a->tf32 == c->tf32 && a->n_merged == c->n_merged;
    for (int axis = 0; same && axis < a->n_merged; axis++) {
        same = a->merged[axis] == c->merged[axis];
    }
    same = same && a->n_split == c->n_split;
    for (int axis = 0; same && axis < a->n_split; axis++) {
        same = a->split[axis] == c->split[axis];
    }
    for (int axis = 0; same && axis < a->rank; axis++) {
        same = a->box[axis] == c->box[axis];
    }
    return same;
}

/* The axes of an alias whose axes are split, by those of its memory (PlanTensorMap.split). */
static void find_split(Func *func, const Value *alias, PlanTensorMap *map)
{
    Type type = alias->type, whole = func_memory_of(func, alias)->type;
    for (int from = 0; from < whole->rank && map->n_split < type->rank; from++) {
        Dim groups = type->dims[map->n_split];
        int64_t by = 1, places;
        map->split[map->n_split++] = 0;
        while (groups != whole->dims[from] && !dim_is_split(func, whole->dims[from], groups, by) &&
               map->n_split < type->rank && poly_is_const(type->dims[map->n_split], &places)) {
            by *= places;
            map->split[map->n_split++] = places;
        }
    }
}

static GpuMap *find_map(GpuEmitter *em, const PlanTensorMap *wanted)
{
    for (size_t i = 0; i < em->maps.n; i++) {
        if (same_map(&em->plan->maps[em->maps.items[i].plan_map], wanted)) {
            return &em->maps.items[i];
        }
    }
    GpuMap map = {.plan_map = plan_add_map(em->func, em->plan, wanted)};
    ARENA_PUSH(em->arena, &em->maps, map);
    return &em->maps.items[em->maps.n - 1];
}

static void collect_map(Op *op, void *user)
{
    GpuEmitter *em = user;
    if (op->kind == OP_SHARED) { /* describe_map asks for the swizzle of the shared side */
        SharedAllocation shared = {op, 0, 0};
        ARENA_PUSH(em->arena, &em->shared.allocations, shared);
    }
    if (op->kind != OP_BULK_LOAD && op->kind != OP_BULK_STORE) {
        return;
    }
    if (!em->target->describe_map) {
        gpu_bug(em, op, "this target has no bulk copies");
    }
    Access tensor = op_access_nth(op, op->kind == OP_BULK_LOAD ? 0 : 1);
    PlanTensorMap map = {.param = plan_param_index(em->func, tensor.memory)};
    const Param *param = &em->func->params.items[tensor.memory->index];
    for (int i = 0; param->alias && param->collapsed && i < tensor.memory->type->rank; i++) {
        map.merged[map.n_merged++] = (int)param->collapsed[i];
    }
    if (param->alias && !param->collapsed) {
        find_split(em->func, tensor.memory, &map);
    }
    em->target->describe_map(em, op, &map);
    const Op *mapped = op;
    GpuMap *found = find_map(em, &map);
    ARENA_PUSH(em->arena, &found->ops, mapped);
}

void gpu_collect_maps(GpuEmitter *em)
{
    block_walk(em->func->body, collect_map, em);
}

LLVMValueRef gpu_map(GpuEmitter *em, const Op *op)
{
    for (size_t i = 0; i < em->maps.n; i++) {
        for (size_t k = 0; k < em->maps.items[i].ops.n; k++) {
            if (em->maps.items[i].ops.items[k] == op) {
                return em->maps.items[i].pointer;
            }
        }
    }
    gpu_bug(em, op, "has no tensor map");
}
