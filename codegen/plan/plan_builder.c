/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the launch plan of a compiled function: sizes with their facts, parameters,
 * intermediates, messages and one entry per launch. The runtime launches from the plan alone and
 * never sees the IR. */
#include "codegen/plan/plan_builder.h"

#include "codegen/plan/plan_shared.h"
#include "ir/build.h"
#include "ir/target/target.h"
#include "ir/text/ir_text.h"

#include <string.h>

_Static_assert((int)PLAN_MAX_RANK == (int)TENSOR_RANK, "axes of a parameter: two limits");
_Static_assert((int)PLAN_SCRATCH_RANK == (int)MAX_RANK, "axes of an intermediate: two limits");

int plan_size_index(const Func *func, const DimVar *var)
{
    int index = 0;
    for (size_t i = 0; i < func->dimvars.n; i++) {
        if (func->dimvars.items[i] == var) {
            return index;
        }
        index += func->dimvars.items[i]->kind != DIM_RANGE;
    }
    diag_bug(func->diags, "%s has no size '%s'", func->name, var->name);
}

/* Views and aliases have no memory of their own: plans know what they are of. */
int plan_param_index(const Func *func, const Value *value)
{
    value = func_memory_of(func, value);
    int index = 0;
    for (size_t i = 0; i < func->params.n; i++) {
        if (func->params.items[i].value == value) {
            return index;
        }
        index += param_has_memory(&func->params.items[i]);
    }
    diag_bug(func->diags, "%%%s is no parameter of %s", value->name ? value->name : "", func->name);
}

_Static_assert((int)PLAN_MAX_DEGREE >= (int)MAX_DEGREE, "a term of a size: two limits");

PlanExpr plan_expr(Func *func, Dim dim)
{
    PlanExpr expr = {dim->n_terms, ARENA_ARRAY(func->arena, PlanTerm, dim->n_terms)};
    for (int i = 0; i < expr.n; i++) {
        /* A term of a polynomial names its variables by their index in the plan. */
        const PolyTerm *from = &dim->terms[i];
        expr.terms[i].coef = from->coef;
        expr.terms[i].n = from->n;
        for (int k = 0; k < from->n; k++) {
            if (from->vars[k]->kind == DIM_RANGE) {
                diag_bug(func->diags, "range '%s' in an extent outside of its launch",
                         from->vars[k]->name);
            }
            expr.terms[i].vars[k] = plan_size_index(func, from->vars[k]);
        }
    }
    return expr;
}

static PlanExpr *plan_exprs(Func *func, int n, const Dim *dims)
{
    PlanExpr *exprs = ARENA_ARRAY(func->arena, PlanExpr, n);
    for (int i = 0; i < n; i++) {
        exprs[i] = plan_expr(func, dims[i]);
    }
    return exprs;
}

static void fill_param(Func *func, const Param *from, PlanParam *to)
{
    Type type = param_given(from);
    to->name = arena_strdup(func->arena, from->name);
    to->dtype = type->dtype;
    /* The plan has its own enum for the direction of a parameter. */
    if (from->io == PARAM_IN) {
        to->io = PLAN_IN;
    } else if (from->io == PARAM_OUT) {
        to->io = PLAN_OUT;
    } else {
        to->io = PLAN_INOUT;
    }
    to->rank = -1;
    to->align = dtype_bytes(type->dtype);
    if (type->kind != TYPE_TENSOR) {
        return;
    }
    to->rank = type->rank;
    int align = func->target->family == FAMILY_CPU ? dtype_bytes(type->dtype) : 16;
    to->align = type->align ? type->align : align;
    to->dims = plan_exprs(func, type->rank, type->dims);
    to->strides = type->strides ? plan_exprs(func, type->rank, type->strides) : NULL;
    for (int i = 0; i < type->rank; i++) {
        to->order[i] = param_axis(from, i);
    }
    for (int i = 0; from->collapsed && i < from->value->type->rank; i++) {
        to->merged[to->n_merged++] = (int)from->collapsed[i];
    }
}

/* ---- intermediates ---- */

static bool runs_concurrently(const Op *launch)
{
    const char *waits = op_word(launch, ATTR_GRID_WAIT);
    return waits && text_equal(waits, "end");
}

static bool has_views(const Func *func)
{
    for (size_t i = 0; i < func->params.n; i++) {
        if (!param_has_memory(&func->params.items[i])) {
            return true;
        }
    }
    return false;
}

/* Itself, a view of it, or an alias. */
static bool touches(const Func *func, const Op *launch, const Value *memory, bool views)
{
    bool found = op_reads(launch, memory);
    for (size_t i = 0; views && !found && i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        found = !param_has_memory(param) && func_memory_of(func, param->value) == memory &&
                op_reads(launch, param->value);
    }
    return found;
}

static void fill_params(Func *func, const LaunchOps *launches, Plan *plan)
{
    plan->params = ARENA_ARRAY(func->arena, PlanParam, func->params.n);
    plan->scratch = ARENA_ARRAY(func->arena, PlanScratch, func->params.n);
    for (size_t i = 0; i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        if (!param_has_memory(param)) {
            continue;
        }
        if (param->io == PARAM_SCRATCH) {
            /* An intermediate is live from the first to the last launch that accesses it. */
            PlanScratch *to = &plan->scratch[plan->n_scratch++];
            Type type = param->value->type;
            *to = (PlanScratch){.dtype = type->dtype, .rank = type->rank, .first = 1, .last = 0};
            to->dims = plan_exprs(func, type->rank, type->dims);
            to->strides = type->strides ? plan_exprs(func, type->rank, type->strides) : NULL;
            bool views = has_views(func);
            for (size_t k = launches->n; k-- > 0;) {
                if (touches(func, launches->items[k], param->value, views)) {
                    to->last = to->first > to->last ? (int)k : to->last;
                    to->first = (int)k;
                }
            }
            while (to->first > 0 && to->first <= to->last &&
                   runs_concurrently(launches->items[to->first])) {
                to->first--; /* it may be filled as early */
            }
        } else if (plan->n_scratch) {
            diag_bug(func->diags, "parameter '%s' of %s follows an intermediate", param->name,
                     func->name);
        } else {
            fill_param(func, param, &plan->params[plan->n_params++]);
        }
    }
}

/* ---- what it says ---- */

static bool is_saying(const Op *op)
{
    return op->kind == OP_PRINT || op->kind == OP_ASSERT;
}

typedef struct Sayings {
    Func *func;
    Plan *plan;
    bool found;
} Sayings;

static void count_saying(Op *op, void *user)
{
    Sayings *sayings = user;
    if (is_saying(op)) {
        int nth = (int)op_int(op, ATTR_SITE, 0), words = op->n_operands;
        Plan *plan = sayings->plan;
        sayings->found = true;
        plan->n_messages = nth >= plan->n_messages ? nth + 1 : plan->n_messages;
        plan->log_words = words > plan->log_words ? words : plan->log_words;
    }
}

void plan_message(Func *func, const Op *op, PlanMessage *message)
{
    Arena *arena = func->arena;
    DType *dtypes = ARENA_ARRAY(arena, DType, op->n_operands);
    for (int i = 1; i < op->n_operands; i++) {
        dtypes[i - 1] = op->operands[i]->type->dtype;
    }
    *message = (PlanMessage){.fails = op->kind == OP_ASSERT,
                             .text = arena_strdup(arena, op_word(op, ATTR_TEXT)),
                             .n = op->n_operands - 1,
                             .places = (int)op_int(op, ATTR_N_COORDS, 0),
                             .dtypes = dtypes};
    SourceLoc place = diag_source_loc(func->diags, op->span);
    message->file = place.file ? arena_strdup(arena, place.file) : NULL;
    message->line = place.line;
}

static void fill_message(Op *op, void *user)
{
    Sayings *sayings = user;
    if (is_saying(op)) {
        plan_message(sayings->func, op, &sayings->plan->messages[op_int(op, ATTR_SITE, 0)]);
    }
}

static bool says(Func *func, const Op *launch)
{
    Plan none = {0};
    Sayings sayings = {func, &none, false};
    block_walk(launch->regions[0], count_saying, &sayings);
    return sayings.found;
}

/* ---- launches ---- */

/* Does the launch read or write the tensor, or do the scalars that all launches make? */
static bool takes(const Func *func, const Op *launch, const Value *tensor, bool views)
{
    bool found = touches(func, launch, tensor, views);
    for (const Op *op = func->body->first; op && !found; op = op->next) {
        found = op->kind != OP_LAUNCH && touches(func, op, tensor, views);
    }
    return found;
}

/* A launch has all tensors as arguments. Of more than this many it has those that it takes: LLVM's
 * work on a function grows with the square of its arguments, and drivers limit them. */
enum { MAX_TENSORS = 256 };

/* On AMD's parts LLVM loads three arguments of 8 bytes as four. That the fourth lies within what
 * the metadata declares, the last argument is there twice, and the second of them not used. */
enum { WORDS_READ_AS_FOUR = 3 };

static void fill_args(Func *func, const Plan *plan, const Op *op, PlanLaunch *launch)
{
    launch->args =
        ARENA_ARRAY(func->arena, PlanArg, plan->n_params + plan->n_scratch + plan->n_sizes + 2);

    /* A launch takes all tensors if there are few, and otherwise those that it accesses. */
    bool all = plan->n_params + plan->n_scratch <= MAX_TENSORS, views = has_views(func);
    int index = 0;
    for (size_t i = 0; i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        bool tensor = param->value->type->kind == TYPE_TENSOR;
        if (param_has_memory(param) && tensor && (all || takes(func, op, param->value, views))) {
            launch->args[launch->n_args++] = (PlanArg){ARG_POINTER, index};
        }
        index += param_has_memory(param);
    }

    for (int i = 0; i < plan->n_params; i++) {
        if (plan->params[i].rank < 0) {
            launch->args[launch->n_args++] = (PlanArg){ARG_SCALAR, i};
        }
    }
    for (int i = 0; i < plan->n_sizes; i++) {
        launch->args[launch->n_args++] = (PlanArg){ARG_SIZE, i};
    }
    if (says(func, op)) {
        launch->args[launch->n_args++] = (PlanArg){ARG_LOG, 0};
    }
    if (func->target->family == FAMILY_AMDGCN && launch->n_args >= WORDS_READ_AS_FOUR) {
        launch->args[launch->n_args] = launch->args[launch->n_args - 1];
        launch->n_args++;
    }
}

const Value *plan_param(const Func *func, int index)
{
    for (size_t i = 0; i < func->params.n; i++) {
        if (param_has_memory(&func->params.items[i]) && index-- == 0) {
            return func->params.items[i].value;
        }
    }
    diag_bug(func->diags, "%s has fewer parameters than its plan", func->name);
}

int plan_arg(const PlanLaunch *launch, PlanArgKind kind, int index)
{
    for (int i = 0; i < launch->n_args; i++) {
        if (launch->args[i].kind == kind && launch->args[i].index == index) {
            return i;
        }
    }
    return -1;
}

static int launch_threads(const Func *func, const Op *launch)
{
    const Attr *warps = op_attr(launch, ATTR_WARPS);
    if (func->target->family == FAMILY_CPU || !warps) {
        return func->target->warp;
    }
    int64_t sum = 0;
    for (int i = 0; i < warps->n; i++) {
        sum += warps->ints[i];
    }
    return (int)sum * func->target->warp;
}

static void find_tiles(Op *op, void *user)
{
    const Op **found = user;
    if (op->kind == OP_TILE_LOOP && !*found) {
        *found = op;
    }
}

static void fill_axes(Func *func, const Op *launch, PlanLaunch *to)
{
    const Op *tiles = NULL;
    if (!op_attr(launch, ATTR_DIMS)) {
        block_walk(launch->regions[0], find_tiles, &tiles);
    }
    const Op *walked = tiles ? tiles : launch;
    const Attr *dims = op_attr(walked, ATTR_DIMS), *steps = op_attr(walked, ATTR_STEPS);
    to->n_axes = dims ? dims->n : 0;
    if (to->n_axes && (!steps || steps->n != dims->n)) {
        diag_bug(func->diags, "launch of %s: dims and steps differ in number", func->name);
    }
    to->axes = ARENA_ARRAY(func->arena, PlanAxis, to->n_axes + 1);
    for (int i = 0; i < to->n_axes; i++) {
        if (steps->ints[i] < 0) {
            diag_bug(func->diags, "launch of %s: the step of axis %d is still open", func->name, i);
        }
        int64_t upto = axis_end(walked, i);
        to->axes[i] = (PlanAxis){plan_expr(func, dims->dims[i]), steps->ints[i],
                                 axis_begin(walked, i), upto < INT64_MAX ? upto : 0};
    }
    const Attr *multicast = op_attr(launch, ATTR_MULTICAST);
    for (int i = 0; multicast && i < to->n_axes;
         i++) { /* whole clusters: steps of all their tiles */
        to->cluster *= (int)multicast->ints[i];
        to->axes[i].step *= multicast->ints[i];
    }
    if (multicast) {
        to->axes[to->n_axes++] =
            (PlanAxis){plan_expr(func, poly_const(func, to->cluster)), 1, 0, 0};
    } else if (to->cluster > 1) { /* always as many */
        int last = to->n_axes - 1;
        int64_t step = steps->ints[last] ? steps->ints[last] : 1;
        Dim all = poly_const(func, to->cluster * step);
        to->axes[last].extent = plan_expr(func, all);
    }
}

LaunchOps plan_launch_ops(Func *func)
{
    LaunchOps list = {0};
    for (const Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            ARENA_PUSH(func->arena, &list, op);
        }
    }
    return list;
}

void plan_fill(Func *func, Plan *plan)
{
    memset(plan, 0, sizeof *plan);
    if (!func->target) {
        diag_bug(func->diags, "%s has no target", func->name);
    }
    plan->kernel = arena_strdup(func->arena, func->name);
    plan->target = func->target->name;

    /* Every symbolic size is listed with the facts that the code assumes of it. */
    plan->sizes = ARENA_ARRAY(func->arena, PlanSize, func->dimvars.n);
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        if (var->kind != DIM_RANGE) {
            Text name = text_new(func->arena);
            say_size(var, &name);
            PlanSize size = {arena_strdup(func->arena, name.data),
                             var->multiple,
                             var->least,
                             var->most,
                             .by = var->by,
                             .stride = var->kind == DIM_STRIDE};
            if (var->by > 0) {
                size.of = plan_expr(func, var->of);
            }
            plan->sizes[plan->n_sizes++] = size;
        }
    }

    LaunchOps launches = plan_launch_ops(func);
    fill_params(func, &launches, plan);
    Sayings sayings = {func, plan, false};
    func_walk(func, count_saying, &sayings);
    plan->messages = ARENA_ARRAY(func->arena, PlanMessage, plan->n_messages);
    func_walk(func, fill_message, &sayings);
    plan->n_launches = (int)launches.n;
    plan->launches = ARENA_ARRAY(func->arena, PlanLaunch, launches.n);
    for (size_t i = 0; i < launches.n; i++) {
        /* The launch's resources come from the attributes of its op. */
        const Op *launch = launches.items[i];
        PlanLaunch *to = &plan->launches[i];
        const char *name = func->symbol ? func->symbol : func->name;
        to->symbol = arena_printf(func->arena, "%s_%zu", name, i);
        to->threads = launch_threads(func, launch);
        to->persistent = op_int(launch, ATTR_PERSISTENT, 0) != 0;
        to->most_tiles = op_int(launch, ATTR_MAX_TILES, 0);
        to->blocks_per_unit = (int)op_int(launch, ATTR_OCCUPANCY, 1);
        to->cluster = (int)op_int(launch, ATTR_CLUSTER, 1);
        to->workers = (int)op_int(launch, ATTR_THREADS, 0);
        to->dependent = op_word(launch, ATTR_GRID_WAIT) != NULL;
        to->concurrent = runs_concurrently(launch);
        fill_axes(func, launch, to);
        fill_args(func, plan, launch, to);
    }
}

void plan_fill_without_code(Func *func, Plan *plan)
{
    plan_fill(func, plan);
    LaunchOps launches = plan_launch_ops(func);
    for (int i = 0; i < plan->n_launches && func->target->family != FAMILY_CPU; i++) {
        PlanLaunch *launch = &plan->launches[i];
        int warps = launch->threads / func->target->warp;
        launch->shared_bytes = plan_shared(func, launches.items[i], warps).bytes;
    }
}

int plan_add_map(Func *func, Plan *plan, const PlanTensorMap *map)
{
    int index = plan->n_maps;
    PlanTensorMap *maps = ARENA_ARRAY(func->arena, PlanTensorMap, index + 1);
    if (index) {
        memcpy(maps, plan->maps, sizeof *maps * (size_t)index);
    }
    maps[index] = *map;
    plan->maps = maps;
    plan->n_maps = index + 1;
    for (int i = 0; i < plan->n_launches; i++) {
        PlanLaunch *launch = &plan->launches[i];
        PlanArg *args = ARENA_ARRAY(func->arena, PlanArg, launch->n_args + 1);
        memcpy(args, launch->args, sizeof *args * (size_t)launch->n_args);
        args[launch->n_args++] = (PlanArg){ARG_MAP, index};
        launch->args = args;
    }
    return index;
}
