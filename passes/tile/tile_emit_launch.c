/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the op around an emitted group: a launch with the grid and the attributes of the plan, or,
 * inside of a `parallel` of the source, loops over the axes that a grid would have. */
#include "passes/tile/tile_emit.h"

static void set_launch(const TileEmitter *e, Op *launch)
{
    op_set_ints(e->func, launch, ATTR_WARPS, 1, &e->plan->warps);
    if (e->plan->teams > 1) {
        op_set_ints(e->func, launch, ATTR_TEAMS, 1, &e->plan->teams);
    }
    if (e->plan->occupancy > 1) {
        op_set_int(e->func, launch, ATTR_OCCUPANCY, e->plan->occupancy);
    }
    if (e->plan->row_align > 1) {
        op_set_int(e->func, launch, ATTR_ALIGNED, e->plan->row_align);
    }
    if (e->plan->cluster > 1) {
        op_set_int(e->func, launch, ATTR_CLUSTER, e->plan->cluster);
    }
    if (e->plan->raster_group) {
        op_set_int(e->func, launch, ATTR_RASTER_GROUP, e->plan->raster_group);
    }
    if (e->plan->is_timed) {
        op_set_int(e->func, launch, ATTR_SINGLE_WAVE, e->plan->single_wave);
    }
}

/* `items`: of the launch's axes; -1: of the slices. */
static void set_part(const TileEmitter *e, Op *launch, const int *items)
{
    int64_t from[MAX_RANK * 2] = {0}, upto[MAX_RANK * 2] = {0};
    int n = op_attr(launch, ATTR_DIMS)->n;
    bool begins = false, ends = false;
    for (int i = 0; i < n; i++) {
        from[i] = items[i] < 0 ? 0 : e->plan->items[items[i]].from;
        upto[i] = items[i] < 0 ? 0 : e->plan->items[items[i]].upto;
        begins = begins || from[i] > 0;
        ends = ends || upto[i] > 0;
    }
    if (begins) {
        op_set_ints(e->func, launch, ATTR_AXIS_BEGIN, n, from);
    }
    if (ends) {
        op_set_ints(e->func, launch, ATTR_AXIS_END, n, upto);
    }
}

static void set_multicast(const TileEmitter *e, Op *launch, const int *items)
{
    int64_t multicast[MAX_RANK * 2];
    int n = op_attr(launch, ATTR_DIMS)->n;
    bool any = false;
    for (int i = 0; i < n; i++) {
        int64_t blocks = items[i] < 0 ? 1 : e->plan->items[items[i]].multicast;
        multicast[i] = blocks > 1 ? blocks : 1;
        any = any || blocks > 1;
    }
    if (any) {
        op_set_ints(e->func, launch, ATTR_MULTICAST, n, multicast);
    }
}

/* The part of a tile has the tile's number. */
static void set_part_numbers(const TileEmitter *e, EmitFrame *frame)
{
    Type i64 = type_scalar(e->func, DT_I64);
    for (int i = 0; i < e->plan->n; i++) {
        const AxisPlan *axis = &e->plan->items[i];
        for (int k = 0; k < e->plan->n_stored && axis->how == AXIS_PART; k++) {
            if (e->plan->items[k].class == axis->part_of) {
                Builder *b = &frame->at;
                Value *start = build_op(b, OP_START, 1, &frame->ranges[k], 1, &i64, 0)->results[0];
                Value *by = build_i64(b, e->plan->items[k].step);
                frame->ranges[i] = build_binary(b, OP_DIV, start, by);
                frame->dims[i] = poly_const(e->func, 1);
            }
        }
    }
}

Op *emit_launch(TileEmitter *e, Op *group, EmitFrame *frame, Dim slices, const char *name)
{
    Dim dims[MAX_RANK * 2];
    int64_t steps[MAX_RANK * 2];
    const char *names[MAX_RANK * 2];
    int items[MAX_RANK * 2], n = 0;
    bool adjacent = e->plan->cluster > 1; /* in the grid: the blocks of a cluster */
    if (slices && !adjacent) {
        items[n++] = -1;
    }
    for (int i = 0; i < e->plan->n_stored && n < MAX_RANK * 2; i++) {
        const AxisPlan *axis = &e->plan->items[i];
        if (axis->how != AXIS_LOOP && axis->how != AXIS_CLUSTER) {
            items[n++] = i;
        }
    }
    for (int i = 0; i < e->plan->n_stored && n < MAX_RANK * 2; i++) {
        if (e->plan->items[i].how == AXIS_CLUSTER) {
            items[n++] = i;
        }
    }
    if (slices && adjacent) {
        items[n++] = -1;
    }
    for (int i = 0; i < n; i++) {
        const AxisPlan *axis = items[i] < 0 ? NULL : &e->plan->items[items[i]];
        names[i] = axis ? axis->name : name;
        dims[i] = axis ? axis->dim : slices;
        steps[i] = axis ? axis->step : 0;
    }
    Builder before = build_before(e->func, group);
    Op *launch = build_parallel(&before, OP_LAUNCH, n, dims, steps, names);
    set_launch(e, launch);
    set_multicast(e, launch, items);
    set_part(e, launch, items);
    for (int i = 0; i < n; i++) {
        Value *arg = launch->regions[0]->args[i];
        if (items[i] >= 0) {
            frame->ranges[items[i]] = arg;
            frame->dims[items[i]] = steps[i] ? arg->type->dims[0] : poly_const(e->func, 1);
        }
    }
    frame->at = build_at_end(e->func, launch->regions[0]);
    set_part_numbers(e, frame);
    return launch;
}

EmitFrame emit_frame(const TileEmitter *e)
{
    EmitFrame frame = {.class = -1, .values = clone_map_new(e->func)};
    frame.dims = ARENA_ARRAY(e->func->arena, Dim, e->plan->n + 1);
    frame.ranges = ARENA_ARRAY(e->func->arena, Value *, e->plan->n + 1);
    return frame;
}

void tile_emit(Func *func, Op *group, const TilePlan *plan)
{
    TileEmitter e = {.func = func, .plan = plan};
    EmitFrame frame = emit_frame(&e);
    emit_launch(&e, group, &frame, NULL, NULL);
    emit_effects(&e, group, &frame);
}

/* Loops over the grid's axes, the first one outside. */
static void emit_grid(TileEmitter *e, const Op *group, EmitFrame *frame, int item)
{
    while (item < e->plan->n_stored &&
           (e->plan->items[item].how == AXIS_LOOP || frame->ranges[item])) {
        item++;
    }
    if (item == e->plan->n_stored) {
        emit_effects(e, group, frame);
        return;
    }
    EmitFrame inside;
    emit_loop(e, frame, item, 0, NULL, 0, NULL, &inside);
    inside.class = -1; /* all of the work is inside, as in a launch */
    emit_grid(e, group, &inside, item + 1);
    emit_end(e, &inside, 0, NULL);
}

void tile_emit_here(Func *func, Op *group, const TilePlan *plan)
{
    TileEmitter e = {.func = func, .plan = plan};
    EmitFrame frame = emit_frame(&e);
    frame.at = build_before(func, group);
    if (plan->outer) {
        frame.ranges[plan->outer - plan->items] = plan->outer_range;
        frame.dims[plan->outer - plan->items] = plan->outer_range->type->dims[0];
    }
    emit_grid(&e, group, &frame, 0);
}
