/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the tile size or step of each axis. Each choice is recorded as a schedule entry: the
 * user-specified value, or one that is derived from the facts about the target and the sizes, with
 * its reason. */
#include "passes/tile/tile_steps.h"
#include "support/int_math.h"

#include "ir/ir_errors.h"
#include "ir/nominal_sizes.h"
#include "passes/analysis/access_width.h"

enum {
    BLOCK_ELEMENTS = 4096, /* of a memory-bound block, unless a row is longer */
    SMALL_BLOCK = 128,     /* accesses of 16 bytes: worth a block, if it is a row */
    BEGIN_BLOCKS = 8,      /* of a multiprocessor, without which nothing begins too slowly */
    BLOCK_THREADS = 256,   /* of one whose threads hold little */
    MAX_TIED = 512,        /* threads of a row: more would take long to synchronize */
    LOOPED_THREAD = 16,    /* where a loop carries as many in addition to those of its step */
    TURNED_THREAD = 64,    /* bytes of a turned tile that a thread holds */
    LOOP_THREAD = 2, /* elements that loop for themselves: a thread continues until all are done */
    LOOP_ELEMENTS = 512,   /* the same of a block */
    PARTS_THREAD = 4,      /* elements of which a thread adds several parts: of one access of f32 */
    PARTS_ELEMENTS = 1024, /* the same of a block */
    HEAVY_THREAD = 8,      /* elements that take many registers: of two wide accesses of f32 */
    HEAVY_ELEMENTS = 1024, /* the same of a block */
    NUMBERED_ELEMENTS = 2048, /* of a block that waits twice: for numbers of rows, then for rows */
    LOOP_STEP = 8192,         /* of a row that does not fit */
    LONG_ROW = 4096,          /* of 16-bit elements: worth more of them a thread */
    WINDOW_ELEMENTS = 32,     /* of a window that is written out */
};

/* The largest power of two up to `wanted` that divides the axis, if it is no less than `least` (0:
 * any will do, whether it divides or not). */
static int64_t whole_step(Dim dim, int64_t wanted, int64_t least)
{
    int64_t divisor = poly_divisor(dim), whole = divisor & -divisor;
    return least > 0 && whole >= least && whole < wanted ? whole : wanted;
}

/* A step along a row that does not fit. */
static int64_t loop_step(const Func *func, const TilePlan *plan)
{
    int64_t step = is_gpu(func) ? LOOP_STEP * plan->most_thread / ROW_ELEMENTS
                                : min_i64(LOOP_STEP, plan->most_cached);
    return step >> func->retry.plain_halvings;
}

/* Threads that hold a row. A long one of 16-bit elements has many of them a byte, and the work on
 * them is what takes time: with more a thread fewer threads synchronize, and more blocks
 * overlap. */
static int64_t row_threads(const Func *func, const Op *group, int64_t elements)
{
    int64_t most = tile_most_a_thread(group);
    int64_t loads = tile_loads_of_rows(group);
    bool many = elements >= LONG_ROW && tile_is_narrow(group) && tile_rows_are_wide(group) &&
                loads <= MAX_ROW_LOADS;
    bool beside = loads > 1 && elements < 2 * LONG_ROW; /* weights take registers, too */
    int64_t each = beside ? ROW_ELEMENTS + ROW_ELEMENTS / 2 : 2 * ROW_ELEMENTS;
    int64_t fewest = ceil_div(elements, each);
    int64_t threads = elements / ROW_ELEMENTS; /* or a quarter more each */
    if (most < ROW_ELEMENTS) {
        threads = ceil_div(elements, most);
    } else if (many) {
        threads = fewest;
    }
    threads = power_of_two_at_least(max_i64(func->target->warp, threads));
    int64_t limit = loads > MAX_ROW_LOADS ? MAX_TIED / 2 : MAX_TIED;
    if (threads > limit && tile_most_of_ops(group) >= ROW_ELEMENTS) {
        threads = power_of_two_at_least(fewest);
    }
    return min_i64(threads, func->target->max_threads);
}

/* A row's tile is whole rounds of accesses by all threads: what is past its end is not loaded,
 * but its registers and their arithmetic would be there. */
static int64_t row_step(const Func *func, const Op *group, int64_t most)
{
    if (!is_gpu(func)) {
        return power_of_two_at_least(max_i64(1, most));
    }
    int64_t per_access = row_threads(func, group, most) * tile_widest_access(group);
    return most <= per_access ? power_of_two_at_least(max_i64(1, most))
                              : round_up(most, per_access);
}

/* Says of the user's entry why it cannot be: of `reduction resident`, or of a `tile` of a part of
 * an axis that its block must hold whole. */
static void refuse_resident(Func *func, const AxisPlan *axis, int64_t tile)
{
    const ScheduleEntry *line = tile_row_entry(func, axis->name);
    if (!line) {
        line = schedule_user_entry(func, "tile", axis->name);
        Diag *diag = diag_error(func->diags, ERR_NOT_HERE, line->span, "`tile %s %lld` cannot be",
                                axis->name, (long long)tile);
        diag_note(func->diags, diag,
                  "a loop reads other elements of a row than it writes: a block holds all of %s, "
                  "which may be %lld",
                  axis->name, (long long)poly_most(axis->dim));
        return;
    }
    Diag *diag =
        diag_error(func->diags, ERR_NOT_HERE, line->span, "`reduction resident` cannot be: %s",
                   tile ? "a tile holds only a part of the row" : "a row may have any length");
    if (tile) {
        diag_note(func->diags, diag, "`tile %s %lld`, and %s may be %lld", axis->name,
                  (long long)tile, axis->name, (long long)poly_most(axis->dim));
        diag_help(func->diags, diag, "leave one of the two lines out");
    } else {
        diag_help(func->diags, diag,
                  "say how long it may be: `assume %s <= 4096` in the source, --assume \"%s <= "
                  "4096\", or --size",
                  axis->name, axis->name);
    }
}

/* `reduction` for one of the axes of a row. An axis that is decided otherwise than the first one
 * has an entry of its own, so that the printed entries make the same code. */
static bool is_resident(Func *func, TilePlan *plan, const AxisPlan *axis, bool fits)
{
    const char *derived = fits ? "resident" : "looped";
    bool given = schedule_user_entry(func, "reduction", "") != NULL;
    bool apart = schedule_user_entry(func, "reduction", axis->name) ||
                 (!given && plan->first_row && !text_equal(plan->first_row, derived));
    const char *how =
        schedule_decide_symbol(func, "reduction", apart ? axis->name : "", derived, "%s",
                               fits ? "a row fits the registers of one block, so it is read once"
                                    : "a row may be longer than one block can keep in registers");
    plan->first_row = apart ? plan->first_row : how;
    return text_equal(how, "resident");
}

/* Returns the elements that a resident row takes, or the loop's step; `inner` are those of row axes
 * inside of this one. */
static int64_t choose_row(Func *func, const Op *group, TilePlan *plan, AxisPlan *axis,
                          int64_t inner)
{
    int64_t most = poly_most(axis->dim), aligned = plan->row_align;
    if (axis->how == AXIS_CLUSTER) {
        return axis->step;
    }
    most += most < INT64_MAX - aligned ? aligned - 1 : 0;
    bool fits = axis->held || most <= tile_row_capacity(func, plan) / inner;
    const ScheduleEntry *given = schedule_user_entry(func, "tile", axis->name);
    fits = fits && (axis->held || !given || given->number >= poly_most(axis->dim));
    /* Of no elements there is no tile, so no block: but what it is reduced to must be written. */
    bool may_vanish =
        !axis->held && poly_least(axis->dim) < 1 && !tile_writes_along(group, plan, axis);
    fits = fits && !may_vanish;
    bool resident = is_resident(func, plan, axis, fits);
    bool part = given && given->number < poly_most(axis->dim);
    if (resident && (part || most == INT64_MAX)) {
        refuse_resident(func, axis, most == INT64_MAX ? 0 : given->number);
    }
    if (resident && most != INT64_MAX && !may_vanish) {
        tile_set_step(func, axis, AXIS_ROW, row_step(func, group, most), "the whole row");
        axis->how = axis->step < poly_most(axis->dim) ? AXIS_LOOP : axis->how;
    } else {
        bool addresses = is_gpu(func) && tile_keeps_addresses(group);
        int64_t step = loop_step(func, plan) / inner / (addresses ? 2 : 1);
        tile_set_step(func, axis, AXIS_LOOP, fitted(axis->dim, max_i64(1, step)),
                      plan->most_thread < ROW_ELEMENTS || addresses
                          ? "one step along a long row: elements take many registers, or much code"
                          : "one step along a long row");
    }
    return axis->step;
}

static int64_t longest_row(const TilePlan *plan)
{
    const AxisPlan *row = &plan->items[plan->n - 1];
    return row->how == AXIS_CLUSTER ? row->step : poly_most(row->dim) + plan->row_align - 1;
}

/* Is a tile of this many elements one row, held whole? */
static bool is_one_row(const TilePlan *plan, int64_t elements)
{
    const AxisPlan *last = plan->n ? &plan->items[plan->n - 1] : NULL;
    bool whole = last && (last->how == AXIS_ROW || last->how == AXIS_CLUSTER);
    return whole && last->step == elements;
}

static bool has_loop_of_elements(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->kind == OP_WHILE && op->regions[0]->last->operands[0]->type->rank > 0) {
            return true;
        }
        for (int i = 0; i < op->n_regions; i++) {
            if (has_loop_of_elements(op->regions[i])) {
                return true;
            }
        }
    }
    return false;
}

/* Elements of a tile along the axes whose steps the user gives, rows aside: registers hold what
 * rows take as often. */
static int64_t given_elements(Func *func, const TilePlan *plan)
{
    int64_t elements = 1;
    for (int i = 0; i < plan->n_stored && is_gpu(func); i++) {
        const AxisPlan *axis = &plan->items[i];
        const ScheduleEntry *line =
            tile_is_row(axis) ? NULL : schedule_user_entry(func, "tile", axis->name);
        int64_t step = line ? line->number : 1;
        elements *= step > 0 && step <= LOOP_STEP / elements ? step : 1;
    }
    return elements;
}

/* How often what the group's rows take, with the user's tiles, fits the registers of a block; 0:
 * not once. */
static int64_t row_capacity(const Func *func, const TilePlan *plan, int64_t given)
{
    int64_t capacity = tile_row_capacity(func, plan) / given;
    bool rows = false;
    for (int i = 0; i < plan->n; i++) {
        int64_t most = poly_most(plan->items[i].dim);
        rows = rows || tile_is_row(&plan->items[i]);
        capacity /= tile_is_row(&plan->items[i]) && most > 0 ? most : 1;
    }
    return rows ? capacity : INT32_MAX;
}

static bool has_axis(const TilePlan *plan, const Value *value, const AxisPlan *axis)
{
    for (int i = 0; value && value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        if (axes_class(plan->axes, value, i) == axis->class) {
            return true;
        }
    }
    return false;
}

/* Does some tile have elements along both? */
static bool share_tile(const Op *group, const TilePlan *plan, const AxisPlan *a, const AxisPlan *b)
{
    bool found = false;
    for (int r = 0; r < group->n_regions && !found; r++) {
        for (const Op *op = group->regions[r]->first; op && !found; op = op->next) {
            for (int i = 0; i < op->n_results && !found; i++) {
                const Value *value = op->results[i];
                found = has_axis(plan, value, a) && has_axis(plan, value, b);
            }
            found = found || share_tile(op, plan, a, b);
        }
    }
    return found;
}

/* A short axis that no tile has together with a row that a loop mixes: results of the row. Its
 * block makes all of them. */
static bool is_row_result(const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    int64_t extent;
    bool beside = false;
    for (int i = 0; i < plan->n_stored; i++) {
        const AxisPlan *row = &plan->items[i];
        beside = beside || row->held;
        if (row->held && (row == axis || share_tile(group, plan, row, axis))) {
            return false;
        }
    }
    return beside && poly_is_const(axis->dim, &extent) && extent <= BLOCK_ELEMENTS;
}

/* Stored, and no loop of the block walks it for what is folded, too. */
static bool is_in_grid(const AxisPlan *axis)
{
    return (axis->flags & AXIS_STORED) && !axis->walked;
}

/* Does some tile have elements along the axis and along a row? */
static bool shares_tile_with_row(const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    bool found = false;
    for (int i = 0; i < plan->n && !found; i++) {
        found = tile_is_row(&plan->items[i]) && share_tile(group, plan, axis, &plan->items[i]);
    }
    return found;
}

/* Steps of the axes that are reduced only, or walked. Of several the last one, which lies
 * contiguous, gets the long steps. `row`, `given`: elements that rows and the user's tiles take.
 * Returns the most elements that one tile of them takes, without those of the grid. */
static int64_t choose_reduced(Func *func, const Op *group, TilePlan *plan, int64_t row,
                              int64_t given)
{
    int64_t most = row;
    for (int i = plan->n; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        if (is_in_grid(axis) || axis->how == AXIS_UNROLL) {
            continue;
        }
        int64_t beside = shares_tile_with_row(group, plan, axis) ? row : 1;
        for (int k = i + 1; k < plan->n; k++) {
            const AxisPlan *later = &plan->items[k];
            bool counts = !is_in_grid(later) && later->how == AXIS_LOOP;
            beside *= counts && share_tile(group, plan, axis, later) ? later->step : 1;
        }
        int64_t wanted = power_of_two_at_most(loop_step(func, plan) / 2 / (beside * given));
        wanted /= tile_rows_of_folds(func, group, plan, wanted);
        wanted = min_i64(wanted, tile_shared_step(func, group, plan, axis));
        int64_t step = fitted(axis->dim, max_i64(1, wanted));
        step = tile_short_fold_step(func, group, plan, axis, step);
        step = tile_step_for_cache(func, group, plan, axis, step, MAX_TIED * LOOPED_THREAD);
        tile_set_step(func, axis, AXIS_LOOP, step, "one step along a reduced axis");
        most = max_i64(most, beside * axis->step);
    }
    return most;
}

/* Does some tile have elements along this axis of the grid and along one that the block reduces? */
static bool shares_tile_with_reduced(const Op *group, const TilePlan *plan, const AxisPlan *axis)
{
    bool found = false;
    for (int i = 0; i < plan->n && !found; i++) {
        const AxisPlan *other = &plan->items[i];
        bool reduced = tile_is_row(other) || (!is_in_grid(other) && other->how == AXIS_LOOP);
        found = reduced && other != axis && share_tile(group, plan, axis, other);
    }
    return found;
}

/* Gives the stored axes that are left steps that multiply to about `elements`, last axis first, and
 * none less than its run. Those that a tile has together with reduced axes, which take `row`
 * elements, multiply to `elements` with these; others do not: the parts of a norm's statistics lie
 * next to its row. `least`: of a step that divides its axis. */
static void choose_grid(Func *func, const Op *group, TilePlan *plan, int64_t elements, int64_t row,
                        int64_t least)
{
    int64_t runs = 1, reduced = elements / row;
    for (int i = 0; i < plan->n_stored; i++) {
        runs *= plan->items[i].step ? 1 : plan->items[i].min_step;
    }
    for (int i = plan->n_stored; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        if (axis->step) {
            continue;
        }
        bool reduced_too = row > 1 && shares_tile_with_reduced(group, plan, axis);
        runs /= axis->min_step;
        int64_t most = reduced_too ? min_i64(elements, reduced) : elements;
        int64_t wanted = fitted(axis->dim, max_i64(axis->min_step, most / runs));
        tile_set_step(func, axis, AXIS_GRID, whole_step(axis->dim, wanted, least),
                      axis->min_step > 1 && runs > 1
                          ? "contiguous runs of elements along several axes"
                          : "enough elements per block for wide, overlapping accesses");
        elements /= axis->step;
        reduced /= reduced_too ? axis->step : 1;
    }
}

/* True if the block loops over some axis whose tiles it combines element by element
 * (partial_reductions.c). */
static bool walks(const TilePlan *plan)
{
    for (int i = 0; i < plan->n; i++) {
        if (plan->items[i].how == AXIS_LOOP) {
            return true;
        }
    }
    return false;
}

static bool scans(const TilePlan *plan)
{
    for (int i = 0; i < plan->n; i++) {
        if (plan->items[i].flags & AXIS_SCANNED) {
            return true;
        }
    }
    return false;
}

/* Of a wide access, where each element has an address of its own; else of two. */
static int64_t heavy_thread(const Op *group)
{
    return tile_most_of_ops(group) < ROW_ELEMENTS ? HEAVY_THREAD / 2 : HEAVY_THREAD;
}

static void choose_row_results(Func *func, const Op *group, TilePlan *plan)
{
    for (int i = 0; i < plan->n_stored; i++) {
        AxisPlan *axis = &plan->items[i];
        if (!axis->step && is_row_result(group, plan, axis)) {
            tile_set_step(func, axis, AXIS_GRID,
                          power_of_two_at_least(max_i64(1, poly_most(axis->dim))),
                          "the results of a loop over a whole row");
        }
    }
}

/* Rows of the grid, at most. */
static int64_t count_rows(const TilePlan *plan)
{
    int64_t rows = 1;
    for (int i = 0; i < plan->n_stored; i++) {
        int64_t most = tile_is_row(&plan->items[i]) ? 1 : poly_nominal(plan->items[i].dim);
        rows *= min_i64(max_i64(1, most), INT32_MAX / rows);
    }
    return rows;
}

/* Rows of a block of which one would be enough. Blocks begin one after the other over all of the
 * device, at 0.8 a nanosecond on an H200, whatever their size; while one does, memory moves
 * `begin_bytes`. Where so little of a row is moved, several share a block, if enough blocks are
 * left. */
static int64_t rows_of_block(const Func *func, const Op *group, const TilePlan *plan,
                             int64_t elements)
{
    int64_t begin = func->target->machine->begin_bytes;
    int64_t bytes = min_i64(elements * tile_bytes_of_rows(group), begin);
    int64_t rows = bytes > 0 ? power_of_two_at_least(ceil_div(begin, bytes)) : 1;
    int64_t most = count_rows(plan) / (func->target->machine->num_sms * (int64_t)BEGIN_BLOCKS);
    return min_i64(rows, power_of_two_at_most(max_i64(1, most)));
}

/* Does a tile of whole rows end past theirs? Each access then has a predicate for that; one more
 * for rows past the last one, and predicates run out: of 32 loads of a thread, two at a time were
 * on their way (softmax of f32 rows of 7, docs/lab/memory_bound.md). */
static bool rows_are_guarded(const TilePlan *plan)
{
    bool guarded = false;
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        guarded = guarded || (axis->how == AXIS_ROW && axis->step > 0 &&
                              poly_divisor(axis->dim) % axis->step != 0);
    }
    return guarded;
}

/* Of short rows whose elements meet those of another short axis, as in ranking by comparing, a
 * block takes several, and fewer steps of that axis at a time: what it does once is as much for few
 * rows as for many. A walk that no tile has whole is long enough to hide that. */
static int64_t rows_with_loop(Func *func, const Op *group, const TilePlan *plan, int64_t row)
{
    bool walked = false;
    for (int i = 0; i < plan->n && row > 1; i++) {
        const AxisPlan *axis = &plan->items[i];
        bool loop = !is_in_grid(axis) && !tile_is_row(axis);
        bool brief = loop && poly_most(axis->dim) <= BLOCK_ELEMENTS / row;
        for (int k = 0; k < plan->n && brief; k++) {
            walked = walked || (tile_is_row(&plan->items[k]) &&
                                share_tile(group, plan, axis, &plan->items[k]));
        }
    }
    return is_gpu(func) && walked ? rows_of_block(func, group, plan, row) : 1;
}

/* Elements of the largest tile of the block: one with what it reduces, or another. */
static int64_t largest_tile(const Op *group, const TilePlan *plan, int64_t row)
{
    int64_t reduced = row, other = 1;
    for (int i = 0; i < plan->n_stored; i++) {
        const AxisPlan *axis = &plan->items[i];
        bool counts = axis->how == AXIS_GRID && !is_row_result(group, plan, axis);
        other *= counts ? axis->step : 1;
        reduced *=
            counts && (row == 1 || shares_tile_with_reduced(group, plan, axis)) ? axis->step : 1;
    }
    return max_i64(reduced, other);
}

/* Has each block a multiprocessor to itself, whose memory accesses it must keep going? Fewer blocks
 * share out what they walk (tile_split_axis.c). */
static bool are_alone(const Func *func, const TilePlan *plan)
{
    int64_t blocks = tile_grid_blocks(plan, true), units = func->target->machine->num_sms;
    return plan->cluster <= 1 && blocks <= units && blocks > units / 2;
}

static void choose_memory_bound(Func *func, const Op *group, TilePlan *plan)
{
    int64_t row = 1, given = given_elements(func, plan);
    plan->most_thread = tile_most_held(group, plan);
    plan->most_cached = tile_most_of_cache(func, group);
    plan->row_align = tile_choose_aligned(func, group, plan);
    RowCapacity capacity = {row_capacity(func, plan, given),
                            tile_cluster_capacity(func, group, plan, given)};
    tile_choose_windows(func, group, plan);
    given *= tile_choose_runs(func, group, plan, capacity);
    tile_choose_cluster(func, group, plan, given);
    for (int i = plan->n; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        if (tile_is_row(axis)) {
            row *= choose_row(func, group, plan, axis, row * given);
        }
    }
    bool parts = is_gpu(func) && tile_choose_parts(group, plan);
    row = choose_reduced(func, group, plan, row, given * rows_with_loop(func, group, plan, row));
    bool loops = is_gpu(func) && has_loop_of_elements(group->regions[0]);
    bool heavy = is_gpu(func) && row == 1 && tile_is_heavy(func, group);
    bool numbered = is_gpu(func) && row == 1 && tile_gathers_runs(group);
    choose_row_results(func, group, plan);
    bool turned = plan->turned && row == 1 && !loops && !heavy;
    /* Of these and of the elements of a thread the last one that applies counts. */
    int64_t block = turned ? TURNED_BYTES / plan->turned : BLOCK_ELEMENTS;
    block = numbered ? NUMBERED_ELEMENTS : block;
    block = heavy ? HEAVY_ELEMENTS : block;
    block = parts ? PARTS_ELEMENTS : block;
    block = loops ? LOOP_ELEMENTS : block;
    bool plain = row == 1 && !turned && !heavy && !parts && !loops;
    StreamTile stream = plain ? tile_choose_stream(func, group, plan) : (StreamTile){0};
    block = stream.block ? stream.block : block;
    if (is_gpu(func) && row > 1) {
        block = min_i64(block, BLOCK_THREADS * tile_most_of_ops(group));
    }
    bool own = is_gpu(func) && is_one_row(plan, row) &&
               row >= SMALL_BLOCK * tile_widest_access(group); /* a row is worth a block */
    if (own) {
        block = row * rows_of_block(func, group, plan, longest_row(plan));
    }
    int64_t serial = tile_serial_elements(func, group, count_rows(plan) * row);
    serial = serial > 0 && serial < block ? max_i64(serial, row) : 0;
    block = (serial ? serial : block) >> func->retry.plain_halvings;
    int64_t least = is_gpu(func) && rows_are_guarded(plan)
                        ? max_i64(1, func->target->warp * ROW_ELEMENTS / row)
                        : 0;
    choose_grid(func, group, plan, plan->row_align > 1 ? row : power_of_two_at_most(block), row,
                least);
    int64_t elements = largest_tile(group, plan, row);
    plan->row_align = plan->row_align > 1 && tile_aligned_fits(plan) ? plan->row_align : 1;
    bool carries = walks(plan) && !scans(plan); /* as many elements in addition to those of a
                                                   step */
    int64_t thread = turned ? TURNED_THREAD / plan->turned : THREAD_ELEMENTS;
    thread = heavy ? heavy_thread(group) : thread;
    thread = parts ? PARTS_THREAD : thread;
    thread = loops ? LOOP_THREAD : thread;
    thread = stream.thread ? stream.thread : thread;
    int64_t in_row = min_i64(plan->most_thread, carries ? LOOPED_THREAD : ROW_ELEMENTS);
    thread = row > 1 ? in_row : thread;
    thread = serial ? min_i64(thread, max_i64(1, min_i64(4, serial / func->target->warp))) : thread;
    int64_t threads = elements / thread;
    if (row > 1 && threads > MAX_TIED && thread >= ROW_ELEMENTS) {
        threads = MAX_TIED;
    }
    if (is_gpu(func) && (own || is_one_row(plan, elements)) && !walks(plan)) {
        threads = elements / row * row_threads(func, group, longest_row(plan));
    }
    if (plan->cluster > 1 && tile_is_row(&plan->items[plan->n - 1])) {
        /* Blocks wait for one another: more of them, of fewer threads. */
        threads = min_i64(row_threads(func, group, elements), MAX_TIED / 2);
    } else if (plan->cluster > 1 && threads > MAX_TIED / 2) { /* columns: likewise */
        threads = max_i64(MAX_TIED / 2, elements / (2 * ROW_ELEMENTS));
    }
    threads *= is_gpu(func) && carries && threads <= MAX_TIED / 2 && are_alone(func, plan) ? 2 : 1;
    threads = max_i64(func->target->warp, min_i64(threads, func->target->max_threads));
    plan->warps = power_of_two_at_least(threads) / func->target->warp;
    plan->elements = elements;
}

static const char *elements_a_thread(Func *func, const Op *group, const TilePlan *plan)
{
    int64_t each = plan->elements / (plan->warps * func->target->warp);
    if (tile_is_heavy(func, group) && each <= heavy_thread(group)) {
        return "few elements a thread: each takes many registers";
    }
    return arena_printf(func->arena, "%lld element%s of each value a thread",
                        (long long)max_i64(1, each), each > 1 ? "s" : "");
}

/* Of the tile of a product that groups of warps multiply; 0: none do. */
static int64_t rows_of_groups(TilePlan *plan)
{
    const Value *product = plan->dot ? plan->dot->results[0] : NULL;
    bool grouped = product && plan->instruction && mma_warps(plan->instruction) > 1;
    const AxisPlan *rows = grouped ? tile_axis_of(plan, product, product->type->rank - 2) : NULL;
    return rows ? rows->step : 0;
}

void tile_choose(Func *func, Op *group, TilePlan *plan)
{
    if (plan->dot) {
        tile_choose_product(func, group, plan);
    } else if (!tile_choose_stencil(func, group, plan) &&
               !tile_choose_segments(func, group, plan) &&
               !tile_choose_reuse(func, group, plan)) {
        choose_memory_bound(func, group, plan);
    }
    if (is_gpu(func)) {
        const char *reason = plan->dot ? "a thread holds its share of the product's tile"
                                       : elements_a_thread(func, group, plan);
        plan->warps = tile_checked_warps(func, rows_of_groups(plan), plan->warps, reason);
        if (!plan->dot) {
            int64_t threads = plan->warps * func->target->warp;
            plan->occupancy = tile_choose_blocks(func, group, plan, threads);
        }
    } else {
        plan->warps = 1;
    }
}
