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
#include "passes/pass.h"

typedef struct Touched {
    uint64_t *reads, *writes; /* bits by parameter */
    bool says;                /* records of one launch come before those of the next */
} Touched;

typedef struct Starter {
    Func *func;
    size_t words;
    Touched touched; /* by a launch, or by all that run beside one another */
} Starter;

static void touch(Op *op, void *user)
{
    Starter *s = user;
    s->touched.says |= op->kind == OP_PRINT || op->kind == OP_ASSERT;
    bool writes = op->kind == OP_STORE || op->kind == OP_SCATTER || op->kind == OP_BULK_STORE;
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        const Value *memory = op->operands[at];
        if (memory && memory->type->kind == TYPE_TENSOR) {
            uint32_t index = func_memory_of(s->func, memory)->index;
            uint64_t *bits = writes ? s->touched.writes : s->touched.reads;
            bits[index / 64] |= (uint64_t)1 << index % 64;
        }
    }
}

static Touched touched_by(Func *func, const Op *launch)
{
    Starter s = {func, func->params.n / 64 + 1, {0}};
    s.touched.reads = ARENA_ARRAY(func->arena, uint64_t, s.words);
    s.touched.writes = ARENA_ARRAY(func->arena, uint64_t, s.words);
    for (Op *op = func->body->first; op != launch; op = op->next) {
        if (op->kind != OP_LAUNCH) { /* scalars that each launch makes for itself */
            touch(op, &s);
        }
    }
    block_walk(launch->regions[0], touch, &s);
    return s.touched;
}

static bool needs(const Starter *s, const Touched *own)
{
    const Touched *before = &s->touched;
    bool meet = own->says && before->says;
    for (size_t i = 0; i < s->words; i++) {
        meet |= (before->writes[i] & (own->reads[i] | own->writes[i])) != 0 ||
                (before->reads[i] & own->writes[i]) != 0;
    }
    return meet;
}

static void add(Starter *s, const Touched *own)
{
    for (size_t i = 0; i < s->words; i++) {
        s->touched.reads[i] |= own->reads[i];
        s->touched.writes[i] |= own->writes[i];
    }
    s->touched.says |= own->says;
}

typedef struct Walk {
    const Op *tiles; /* the first of a launch, or NULL */
} Walk;

static void find_tiles(Op *op, void *user)
{
    Walk *walk = user;
    walk->tiles = walk->tiles ? walk->tiles : op->kind == OP_TILE_LOOP ? op : NULL;
}

/* Tiles that are walked, where that is known; else 0. */
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

/* Does the launch leave an eighth of the multiprocessors idle, each of which has room for one of
 * its blocks? Those that were idle before get its first blocks if it begins early, the others come
 * where there is room first, and parts of the device that share a way to the second-level cache get
 * more of them than others. All at once they are dealt out evenly. */
static bool leaves_idle(const Func *func, const Op *launch)
{
    Walk walk = {NULL};
    if (!op_int(launch, ATTR_PERSISTENT, 0) || op_int(launch, ATTR_OCCUPANCY, 1) > 1) {
        return false;
    }
    block_walk(launch->regions[0], find_tiles, &walk);
    int64_t tiles = walk.tiles ? count_tiles(walk.tiles) : 0;
    return tiles > 0 && 8 * tiles <= 7 * (int64_t)func->target->num_sms;
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
    const char *reason = idle ? "blocks of few tiles are dealt out evenly when all multiprocessors "
                                "are free"
                         : even ? "blocks that wait for what their tiles have in common are dealt "
                                  "out evenly when all multiprocessors are free"
                                : "blocks take their places while those before them end";
    return text_equal(schedule_decide_symbol(func, "dependent_launch", "",
                                             idle || even ? "off" : "on", "%s", reason),
                      "on");
}

static void set_waits(Func *func, Op *launch, Starter *s, bool first)
{
    Touched own = touched_by(func, launch);
    bool waits = first || needs(s, &own);
    bool tail = !waits && op_attr(launch, ATTR_AXIS_END); /* beside what fills the device */
    schedule_at_op(func, launch);
    if (!begins_early(func, launch, tail)) {
        s->touched = own;
        return;
    }
    op_set_word(func, launch, ATTR_GRID_WAIT, waits ? "start" : "end");
    if (waits) {
        s->touched = own;
    } else {
        add(s, &own);
    }
}

static bool can_be_early(const Target *target)
{
    return target && target->family == FAMILY_NVPTX && target->cluster > 1; /* from sm_90 on */
}

void pass_dependent_launch(Func *func)
{
    if (!can_be_early(func->target)) {
        return;
    }
    Starter s = {.func = func, .words = func->params.n / 64 + 1};
    bool first = true;
    for (Op *op = func->body->first; op; op = op->next) {
        if (op->kind == OP_LAUNCH) {
            set_waits(func, op, &s, first);
            first = false;
        }
    }
    schedule_at_launch(func, EVERY_LAUNCH);
}
