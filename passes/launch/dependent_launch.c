/* SPDX-License-Identifier: Apache-2.0 */
/* dependent_launch: lets launches start before the preceding ones end.
 *
 *     launch dims=[K] … { store %p, … }        launch grid_wait=start dims=[K] … { store %p, … }
 *     launch dims=[M] … { store %q, … }    →   launch grid_wait=end dims=[M] … { store %q, … }
 *     launch dims=[M] … { dot %q, %p … }       launch grid_wait=start dims=[M] … { dot %q, %p … }
 *
 * With programmatic dependent launch, a device starts the blocks of a launch as soon as the blocks
 * of the preceding one leave resources free, instead of after all of them have ended and their
 * caches are written back. A launch with grid_wait=start waits before its first access to memory
 * until all preceding launches, of this kernel or of others, have ended; it gains the time to start
 * its blocks and to initialize their mbarriers. A launch that needs nothing of the launches before
 * it, back to one with grid_wait=start, runs concurrently with them and waits at its end
 * (grid_wait=end), so that the end of a launch implies the end of all launches before it. A launch
 * executes launch_dependents only after its own grid wait, so a dependent launch never overlaps the
 * launch before its predecessor.
 *
 * Two kinds of launches start normally: a single dot that waits long for operands that its tiles
 * share (passes/analysis/wave_model.h), and, where that is not known, a dot that leaves many
 * multiprocessors idle. Their blocks are distributed evenly only if all multiprocessors are free. A
 * split-K tail is the exception: it runs where the last tiles of the other launch leave resources.
 *
 * Requires layouts (it examines the final accesses to memory). Does nothing on targets without such
 * launches. Changes no values. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/param_effects.h"
#include "passes/pass.h"

/* The effects of a launch, or of all launches that run concurrently. */
typedef struct LaunchEffects {
    const Func *func;
    ParamEffects memory;
    bool prints; /* kernel messages of one launch come before those of the next */
} LaunchEffects;

static void add_effects(Op *op, void *user)
{
    LaunchEffects *effects = user;
    effects->prints |= op->kind == OP_PRINT || op->kind == OP_ASSERT;
    param_effects_add_op(&effects->memory, effects->func, op);
}

static void find_tile_loop(Op *op, void *user)
{
    const Op **found = user;
    if (!*found && op->kind == OP_TILE_LOOP) {
        *found = op;
    }
}

/* The number of tiles that the loop visits; 0: it is not known. */
static int64_t count_tiles(const Op *tiles)
{
    const Attr *dims = op_attr(tiles, ATTR_DIMS), *steps = op_attr(tiles, ATTR_STEPS);
    int64_t all = 1;
    for (int i = 0; i < dims->n; i++) {
        int64_t most = poly_most(dims->dims[i]), step = steps->ints[i] > 0 ? steps->ints[i] : 1;
        most = most < axis_end(tiles, i) ? most : axis_end(tiles, i);
        most = most < INT64_MAX ? most - axis_begin(tiles, i) : most;
        if (most == INT64_MAX || __builtin_mul_overflow(all, (most - 1) / step + 1, &all)) {
            return 0;
        }
    }
    return all;
}

/* True if the launch leaves an eighth of the multiprocessors idle, each of which holds one of its
 * blocks. If such a launch starts early, its first blocks go to the idle multiprocessors and the
 * others to those that become free first, so that parts of the device that share a path to the L2
 * cache get more blocks than others. Started on a free device, its blocks are spread evenly. */
static bool leaves_idle(const Func *func, const Op *launch)
{
    if (!op_int(launch, ATTR_PERSISTENT, 0) || op_int(launch, ATTR_OCCUPANCY, 1) > 1) {
        return false;
    }
    const Op *loop = NULL;
    block_walk(launch->regions[0], find_tile_loop, &loop);
    int64_t tiles = loop ? count_tiles(loop) : 0;
    return tiles > 0 && 8 * tiles <= 7 * (int64_t)func->target->machine->num_sms;
}

static bool is_alone(const Func *func, const Op *launch)
{
    bool alone = true;
    for (const Op *op = func->body->first; op; op = op->next) {
        alone = alone && (op->kind != OP_LAUNCH || op == launch);
    }
    return alone;
}

static bool begins_early(Func *func, const Op *launch, bool tail)
{
    bool known = op_attr(launch, ATTR_SINGLE_WAVE) && is_alone(func, launch);
    bool idle = !tail && !known && leaves_idle(func, launch);
    bool even = known && op_int(launch, ATTR_SINGLE_WAVE, 0);
    const char *reason = "blocks take their places while those before them end";
    if (idle) {
        reason = "blocks of few tiles are dealt out evenly when all multiprocessors are free";
    } else if (even) {
        reason = "blocks that wait for what their tiles have in common are dealt out evenly when "
                 "all multiprocessors are free";
    }
    return schedule_decide_on(func, "dependent_launch", !idle && !even, "%s", reason);
}

/* `before`: the effects of the launches that may still run when this one starts. */
static void set_waits(Func *func, Op *launch, LaunchEffects *before, bool first)
{
    /* The launch's own effects, including those of the scalars that each launch computes again. */
    LaunchEffects own = {func, param_effects_new(func), false};
    for (Op *op = func->body->first; op != launch; op = op->next) {
        if (op->kind != OP_LAUNCH) {
            add_effects(op, &own);
        }
    }
    block_walk(launch->regions[0], add_effects, &own);
    bool waits = first || (own.prints && before->prints) ||
                 param_effects_conflict(&before->memory, &own.memory, NULL);
    bool tail = !waits && op_attr(launch, ATTR_AXIS_END); /* concurrent with a full device */
    schedule_at_op(func, launch);
    if (!begins_early(func, launch, tail)) {
        *before = own;
        return;
    }
    op_set_word(func, launch, ATTR_GRID_WAIT, waits ? "start" : "end");
    if (waits) {
        *before = own;
    } else {
        param_effects_add(&before->memory, &own.memory);
        before->prints |= own.prints;
    }
}

void pass_dependent_launch(Func *func)
{
    const Target *target = func->target;
    if (!target || target->family != FAMILY_NVPTX || target->cluster <= 1) { /* before sm_90 */
        return;
    }
    LaunchEffects before = {func, param_effects_new(func), false};
    bool first = true;
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            set_waits(func, op, &before, first);
            first = false;
        }
    }
    schedule_at_launch(func, EVERY_LAUNCH);
}
