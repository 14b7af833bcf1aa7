/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a plan as bytes and reads it back, for the compile cache, the compile worker and bundles.
 * One function per struct serves both directions, so the two cannot disagree. */
#include "runtime/device/plan_bytes.h"

#include "runtime/device/serialize.h"

/* Whoever adds a member adds it here, too. The sizes are those of 64-bit machines. */
_Static_assert(sizeof(void *) != 8 ||
               (sizeof(PlanSize) == 72 && sizeof(PlanParam) == 112 && sizeof(PlanScratch) == 32 &&
                sizeof(PlanTensorMap) == 312 && sizeof(PlanLaunch) == 72 &&
                sizeof(PlanMessage) == 48 && sizeof(Plan) == 112),
               "a member of the plan is not in its bytes");

static void pass_dtype(Serializer *way, DType *dtype)
{
    int number = (int)*dtype;
    serialize_int(way, &number, 0, DT_COUNT - 1);
    if (!way->out) {
        *dtype = (DType)number;
    }
}

static void pass_expr(Serializer *way, PlanExpr *expr, int sizes)
{
    expr->terms = serialize_items(way, expr->terms, &expr->n, sizeof *expr->terms);
    for (int i = 0; i < expr->n; i++) {
        PlanTerm *term = &expr->terms[i];
        serialize_i64(way, &term->coef);
        serialize_int(way, &term->n, 0, PLAN_MAX_DEGREE);
        for (int v = 0; v < term->n; v++) {
            serialize_int(way, &term->vars[v], 0, sizes - 1);
        }
    }
}

/* One a size of `rank`; none at all where `given` is false. */
static void pass_exprs(Serializer *way, PlanExpr **exprs, int rank, int sizes)
{
    bool given = *exprs != NULL;
    serialize_bool(way, &given);
    if (!way->out) {
        *exprs = NULL;
        if (given) {
            *exprs = ARENA_ARRAY(way->arena, PlanExpr, rank > 0 ? rank : 1);
        }
    }
    for (int i = 0; given && i < rank; i++) {
        pass_expr(way, &(*exprs)[i], sizes);
    }
}

static void pass_param(Serializer *way, PlanParam *param, int sizes)
{
    int io = (int)param->io;
    serialize_text(way, &param->name);
    pass_dtype(way, &param->dtype);
    serialize_int(way, &io, PLAN_IN, PLAN_INOUT);
    param->io = (PlanParamIo)io;
    serialize_int(way, &param->rank, -1, PLAN_MAX_RANK);
    pass_exprs(way, &param->dims, param->rank, sizes);
    pass_exprs(way, &param->strides, param->rank, sizes);
    for (int i = 0; i < PLAN_MAX_RANK; i++) {
        serialize_int(way, &param->order[i], 0, PLAN_MAX_RANK - 1);
    }
    serialize_int(way, &param->align, 0, INT32_MAX);
    serialize_int(way, &param->n_merged, 0, PLAN_MAX_RANK);
    for (int i = 0; i < PLAN_MAX_RANK; i++) {
        serialize_int(way, &param->merged[i], 0, PLAN_MAX_RANK);
    }
}

static void pass_scratch(Serializer *way, PlanScratch *scratch, int sizes)
{
    pass_dtype(way, &scratch->dtype);
    serialize_int(way, &scratch->rank, 0, PLAN_SCRATCH_RANK);
    pass_exprs(way, &scratch->dims, scratch->rank, sizes);
    pass_exprs(way, &scratch->strides, scratch->rank, sizes);
    serialize_int(way, &scratch->first, INT32_MIN, INT32_MAX);
    serialize_int(way, &scratch->last, INT32_MIN, INT32_MAX);
}

static void pass_map(Serializer *way, PlanTensorMap *map, int params, int sizes)
{
    serialize_int(way, &map->param, 0, params - 1);
    serialize_int(way, &map->rank, 0, PLAN_MAX_RANK);
    for (int i = 0; i < PLAN_MAX_RANK; i++) {
        serialize_i64(way, &map->box[i]);
    }
    serialize_int(way, &map->swizzle, 0, INT32_MAX);
    serialize_bool(way, &map->tf32);
    serialize_bool(way, &map->wide_l2);
    serialize_int(way, &map->few, 0, PLAN_MAX_RANK);
    serialize_int(way, &map->n_merged, 0, PLAN_MAX_RANK);
    for (int i = 0; i < PLAN_MAX_RANK; i++) {
        serialize_int(way, &map->merged[i], 0, PLAN_SCRATCH_RANK);
    }
    serialize_int(way, &map->n_split, 0, PLAN_MAX_RANK);
    for (int i = 0; i < PLAN_MAX_RANK; i++) {
        serialize_i64(way, &map->split[i]);
        way->bad |= map->split[i] < 0;
    }
    serialize_int(way, &map->n_windows, 0, PLAN_MAX_SPATIAL);
    for (int i = 0; i < map->n_windows; i++) {
        pass_expr(way, &map->windows[i].first, sizes);
        serialize_i64(way, &map->windows[i].step);
        pass_expr(way, &map->windows[i].places, sizes);
        way->bad |= map->windows[i].step < 1;
    }
    way->bad |= map->n_windows > 0 && map->rank != map->n_windows + 2;
}

/* The first index of no argument of a kind. */
static int end_of(const Plan *plan, PlanArgKind kind)
{
    switch (kind) {
    case ARG_POINTER: return plan->n_params + plan->n_scratch;
    case ARG_SCALAR: return plan->n_params;
    case ARG_SIZE: return plan->n_sizes;
    case ARG_MAP: return plan->n_maps;
    case ARG_LOG: return INT32_MAX;
    }
    return 0;
}

static void pass_launch(Serializer *way, const Plan *plan, PlanLaunch *launch)
{
    serialize_text(way, &launch->symbol);
    launch->axes = serialize_items(way, launch->axes, &launch->n_axes, sizeof *launch->axes);
    for (int i = 0; i < launch->n_axes; i++) {
        pass_expr(way, &launch->axes[i].extent, plan->n_sizes);
        serialize_i64(way, &launch->axes[i].step);
        serialize_i64(way, &launch->axes[i].from);
        serialize_i64(way, &launch->axes[i].upto);
        way->bad |=
            launch->axes[i].step < 0 || launch->axes[i].from < 0 || launch->axes[i].upto < 0;
    }
    serialize_int(way, &launch->threads, 1, INT32_MAX);
    serialize_int(way, &launch->shared_bytes, 0, INT32_MAX);
    serialize_bool(way, &launch->persistent);
    serialize_int(way, &launch->blocks_per_unit, 0, INT32_MAX);
    serialize_i64(way, &launch->most_tiles);
    serialize_int(way, &launch->cluster, 0, INT32_MAX);
    serialize_int(way, &launch->workers, 0, INT32_MAX);
    serialize_bool(way, &launch->dependent);
    serialize_bool(way, &launch->concurrent);
    launch->args = serialize_items(way, launch->args, &launch->n_args, sizeof *launch->args);
    for (int i = 0; i < launch->n_args; i++) {
        PlanArg *arg = &launch->args[i];
        int kind = (int)arg->kind;
        serialize_int(way, &kind, ARG_POINTER, ARG_LOG);
        arg->kind = (PlanArgKind)kind;
        serialize_int(way, &arg->index, 0, end_of(plan, arg->kind) - 1);
    }
}

static void pass_message(Serializer *way, PlanMessage *message)
{
    DType *dtypes = (DType *)(uintptr_t)message->dtypes;
    serialize_bool(way, &message->fails);
    serialize_text(way, &message->text);
    serialize_text(way, &message->file);
    serialize_int(way, &message->line, 0, INT32_MAX);
    dtypes = serialize_items(way, dtypes, &message->n, sizeof *dtypes);
    for (int i = 0; i < message->n; i++) {
        pass_dtype(way, &dtypes[i]);
    }
    message->dtypes = dtypes;
    serialize_int(way, &message->places, 0, message->n);
}

static void pass_plan(Serializer *way, Plan *plan)
{
    serialize_text(way, &plan->kernel);
    serialize_text(way, &plan->target);
    plan->sizes = serialize_items(way, plan->sizes, &plan->n_sizes, sizeof *plan->sizes);
    for (int i = 0; i < plan->n_sizes; i++) {
        PlanSize *size = &plan->sizes[i];
        serialize_text(way, &size->name);
        serialize_i64(way, &size->multiple);
        serialize_i64(way, &size->least);
        serialize_i64(way, &size->most);
        pass_expr(way, &size->of, plan->n_sizes);
        serialize_i64(way, &size->by);
        serialize_bool(way, &size->stride);
        serialize_bool(way, &size->is_given);
        serialize_i64(way, &size->given);
    }
    plan->params = serialize_items(way, plan->params, &plan->n_params, sizeof *plan->params);
    for (int i = 0; i < plan->n_params; i++) {
        pass_param(way, &plan->params[i], plan->n_sizes);
    }
    plan->scratch = serialize_items(way, plan->scratch, &plan->n_scratch, sizeof *plan->scratch);
    for (int i = 0; i < plan->n_scratch; i++) {
        pass_scratch(way, &plan->scratch[i], plan->n_sizes);
    }
    plan->maps = serialize_items(way, plan->maps, &plan->n_maps, sizeof *plan->maps);
    for (int i = 0; i < plan->n_maps; i++) {
        pass_map(way, &plan->maps[i], plan->n_params + plan->n_scratch, plan->n_sizes);
    }
    plan->launches =
        serialize_items(way, plan->launches, &plan->n_launches, sizeof *plan->launches);
    for (int i = 0; i < plan->n_launches; i++) {
        pass_launch(way, plan, &plan->launches[i]);
    }
    serialize_int(way, &plan->log_words, 0, INT32_MAX);
    plan->messages =
        serialize_items(way, plan->messages, &plan->n_messages, sizeof *plan->messages);
    for (int i = 0; i < plan->n_messages; i++) {
        pass_message(way, &plan->messages[i]);
    }
}

void plan_to_bytes(const Plan *plan, Text *out)
{
    Serializer way = {.out = out};
    Plan copy = *plan;
    pass_plan(&way, &copy);
}

bool plan_from_bytes(Arena *arena, const char *bytes, size_t n, Plan *plan)
{
    Serializer way = {.at = bytes, .end = bytes + n, .arena = arena};
    *plan = (Plan){0};
    pass_plan(&way, plan);
    return !way.bad && way.at == way.end && plan->kernel && plan->target;
}
