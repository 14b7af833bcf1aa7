/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses tiles for reductions whose terms combine arrays that each lack an axis of the terms:
 * forces between pairs of bodies, minimum distances, sums of |a[i, k] - b[j, k]|, matrix products
 * with operations other than * and +. The number of loads from the caches decides their time, so a
 * tile has several elements along each axis that some array lacks, and a thread combines each
 * loaded element with several others in registers. Coalescing alone (tile_coalescing.c) would
 * choose tiles of a single row, for each of which the other array is read again. */
#include "passes/analysis/row_column_sweep.h"
#include "passes/tile/tile_steps.h"

enum {
    MAX_FOLDED = 4,      /* axes along which terms of the same rows are folded, one each */
    LONG_AXIS = 16,      /* elements: what is shorter is read as often whatever the tile */
    PAIR_ROWS = 32,      /* of a tile where one axis is reused, and one is folded */
    FEW_ROWS = 16,       /* the same where several reductions keep their terms in registers */
    PAIR_COLUMNS = 256,  /* folded at once: wide accesses of two warps */
    PRODUCT_ROWS = 32,   /* where two axes are reused: 32 sums a thread, */
    PRODUCT_COLUMNS = 128,
    FEW_COLUMNS = 64,    /* the same where terms, or several reductions, take many registers */
    PRODUCT_DEPTH = 8,   /* and two wide accesses along what is folded */
    LEAST_ROWS = 2,      /* where that would leave multiprocessors idle, */
    LEAST_SIDE = 8,      /* and of two axes that are reused */
    MAX_ROW = 512,       /* of terms' sums that a block holds whole, for a softmax or an argmin */
    ROW_TILE = 2048,     /* elements of all rows of a block: 16 sums a thread */
    MAX_COLUMNS = 1024,  /* with as many elements of a step in exchange, if one is reduced */
    MAX_DEPTH = 64,
    REUSE_WARPS = 4,
    MAX_TILE = 32768,    /* elements of all axes: PRODUCT_ROWS * PRODUCT_COLUMNS * PRODUCT_DEPTH */
    MAX_AXES = 6,        /* of a group: values of more are handed from thread to thread in pieces */
};

typedef uint64_t Items; /* of the plan, as bits */

typedef struct Reuse {
    const TilePlan *plan;
    Items each[MAX_FOLDED]; /* the long axes of what is folded first, of each of several */
    int n_each;
    Items terms;  /* all of these */
    Items folded; /* of these, those along which they are folded first */
    Items reused; /* of these, the others, if some array of the folded ones lacks them */
    int n, all;   /* reductions of such terms; with those of what they come to */
    bool heavy;   /* terms take many registers while they are worked on */
} Reuse;

/* The plan's long axes that the value goes along. */
static Items long_axes(const TilePlan *plan, const Value *value)
{
    Items found = 0;
    for (int i = 0; i < value->type->rank; i++) {
        int class = axes_class(plan->axes, value, i);
        for (int k = 0; k < plan->n; k++) {
            const AxisPlan *axis = &plan->items[k];
            bool is_long = poly_nominal(axis->dim) >= LONG_AXIS && axis->how != AXIS_UNROLL;
            found |= axis->class == class && is_long ? (Items)1 << k : 0;
        }
    }
    return found;
}

static bool is_read(const Op *op)
{
    bool gathers = op->kind == OP_GATHER && op->operands[0]->type->kind == TYPE_TENSOR;
    return op->kind == OP_LOAD || gathers;
}

/* Adds a reduction of terms: along the first axes of all terms, or of what these come to. Several
 * may be folded along an axis each, next to the same others. */
static bool add_reduction(Reuse *reuse, const Op *reduce)
{
    const Value *operand = reduce->operands[0];
    Items terms = long_axes(reuse->plan, operand), folded = 0;
    for (int i = 0; i < reuse->plan->n; i++) {
        bool along = an_folds_along(reuse->plan->axes, reduce, reuse->plan->items[i].class);
        folded |= terms >> i & 1 && along ? (Items)1 << i : 0;
    }
    if (!folded) {
        return true; /* written out */
    }
    reuse->all++;
    for (int i = 0; i < reuse->n_each; i++) {
        if (terms == reuse->each[i] && (folded & ~reuse->folded) == 0) {
            reuse->n++;
            return true;
        }
    }
    Items kept = terms & ~folded;
    bool apart = kept == (reuse->terms & ~reuse->folded) && !(folded & reuse->terms);
    if ((!reuse->n_each || apart) && reuse->n_each < MAX_FOLDED) {
        reuse->each[reuse->n_each++] = terms;
        reuse->terms |= terms;
        reuse->folded |= folded;
        reuse->n++;
        return true;
    }
    return (terms & ~reuse->terms) == 0 && !(terms & reuse->folded);
}

/* Has the array an element for each term of some fold? */
static bool is_of_terms(const Reuse *reuse, Items axes)
{
    bool all = false;
    for (int i = 0; i < reuse->n_each; i++) {
        all = all || (axes & reuse->each[i]) == reuse->each[i];
    }
    return all;
}

/* Is the group made of element-wise ops, reductions of the same terms, and stores? */
static bool find_terms(const Op *group, Reuse *reuse)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        bool plain = op->n_regions == 0 && op->kind != OP_SCAN && op->kind != OP_DOT &&
                     op->kind != OP_SCATTER;
        if (!plain || (op->kind == OP_REDUCE && !add_reduction(reuse, op))) {
            return false;
        }
    }
    for (int i = 0; i < reuse->plan->n_stored; i++) {
        reuse->terms &= reuse->folded >> i & 1 ? 0 : ~(Items)0; /* a row: no such group */
    }
    return reuse->terms && reuse->folded;
}

/* Does the condition bound a folded axis by data? Rows with ranges of their own would walk those of
 * all rows of their tile. */
static bool is_range(const Reuse *reuse, const Op *op)
{
    TileRange range;
    return tile_find_range(reuse->plan, op, &range) && (range.places & reuse->folded);
}

/* Does each array lack an axis of the terms? The axes that some array lacks which has what is
 * folded first. */
static bool find_reused(const Op *group, Reuse *reuse)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        Items axes = is_read(op) ? long_axes(reuse->plan, op->results[0]) : 0;
        if (is_of_terms(reuse, axes) || is_range(reuse, op)) {
            return false;
        }
        reuse->reused |= axes & reuse->folded ? reuse->terms & ~reuse->folded & ~axes : 0;
    }
    return reuse->reused != 0;
}

/* Can a block hold the whole row in addition to several others, if the user says nothing of it? */
static bool is_short_row(Func *func, const AxisPlan *axis)
{
    return poly_least(axis->dim) > 0 && poly_most(axis->dim) <= MAX_ROW &&
           !tile_row_entry(func, axis->name) && !schedule_user_entry(func, "tile", axis->name);
}

/* Are its axes free: none held whole but short rows, walked, or scanned? */
static bool is_free(Func *func, const TilePlan *plan)
{
    int rows = 0;
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        bool stored = i < plan->n_stored, row = tile_is_row(axis);
        bool bound = axis->held || axis->walked || axis->whole;
        bound = bound || (row && !is_short_row(func, axis));
        if (bound || (axis->flags & AXIS_SCANNED) || (stored && axis->how == AXIS_LOOP)) {
            return false;
        }
        rows += row;
    }
    return rows <= 1;
}

/* Are several stored axes reused, as those of a product are? */
static bool has_several(const Reuse *reuse)
{
    return (reuse->reused & (reuse->reused - 1)) != 0;
}

static int64_t blocks_of(const TilePlan *plan, const int64_t *steps)
{
    int64_t blocks = 1;
    for (int i = 0; i < plan->n_stored; i++) {
        int64_t tiles = min_i64(INT32_MAX, tiles_of(&plan->items[i], steps[i]));
        blocks *= min_i64(max_i64(1, tiles), INT32_MAX / blocks);
    }
    return blocks;
}

/* Steps of all but what is folded first: as many elements of reused axes as registers have space
 * for. */
static void choose_reused(const Reuse *reuse, int64_t *steps)
{
    const TilePlan *plan = reuse->plan;
    int64_t pairs = reuse->n > 1 ? FEW_ROWS : PAIR_ROWS;
    int64_t columns = reuse->all > 2 || reuse->heavy ? FEW_COLUMNS : PRODUCT_COLUMNS;
    int n = 0;
    for (int i = plan->n; i-- > 0;) {
        const AxisPlan *axis = &plan->items[i];
        bool reused = reuse->reused >> i & 1;
        int64_t most = reused && n < 2 ? PRODUCT_ROWS : 1;
        most = reused && n == 0 ? columns : most;
        most = reused && !has_several(reuse) ? pairs : most;
        most = poly_nominal(axis->dim) < LONG_AXIS ? LONG_AXIS : most;
        most = tile_is_row(axis) ? MAX_ROW : most;
        steps[i] = axis->how == AXIS_UNROLL ? 1 : fitted(axis->dim, most);
        n += reused ? 1 : 0;
    }
}

/* Fewer of the other axes next to a row that the block holds whole. */
static void leave_registers_for_row(const Reuse *reuse, int64_t *steps)
{
    const TilePlan *plan = reuse->plan;
    int64_t row = 0;
    for (int i = 0; i < plan->n; i++) {
        row = tile_is_row(&plan->items[i]) ? steps[i] : row;
    }
    for (int i = 0; i < plan->n && row; i++) {
        bool reused = reuse->reused >> i & 1 && !tile_is_row(&plan->items[i]);
        steps[i] = reused ? min_i64(steps[i], max_i64(LEAST_ROWS, ROW_TILE / row)) : steps[i];
    }
}

/* Halves the longest of the steps of reused axes until the device has a block for each
 * multiprocessor. Returns how often: what is folded has longer steps instead. */
static int shorten_grid(const Func *func, const Reuse *reuse, int64_t *steps)
{
    const TilePlan *plan = reuse->plan;
    int64_t least = has_several(reuse) ? LEAST_SIDE : LEAST_ROWS;
    int times = 0;
    for (; blocks_of(plan, steps) < func->target->machine->num_sms; times++) {
        int longest = -1;
        for (int i = 0; i < plan->n_stored; i++) {
            bool reused = reuse->reused >> i & 1 && steps[i] > least &&
                          !tile_is_row(&plan->items[i]);
            longest = reused && (longest < 0 || steps[i] > steps[longest]) ? i : longest;
        }
        if (longest < 0) {
            break;
        }
        steps[longest] /= 2;
    }
    return times;
}

static void choose_folded(const Reuse *reuse, int64_t *steps, int shortened)
{
    const TilePlan *plan = reuse->plan;
    int64_t usual = has_several(reuse) ? PRODUCT_DEPTH : PAIR_COLUMNS;
    int64_t columns = reuse->n > 1 ? PAIR_COLUMNS : MAX_COLUMNS;
    int64_t most = has_several(reuse) ? MAX_DEPTH : columns;
    int64_t left = min_i64(most, usual << shortened);
    for (int i = plan->n; i-- > plan->n_stored;) {
        if (reuse->folded >> i & 1) {
            steps[i] = fitted(plan->items[i].dim, left);
            left = reuse->n_each > 1 ? left : max_i64(1, left / steps[i]);
        }
    }
}

/* Halves the longest steps until a thread has registers for its elements: short axes are in the
 * tile whole. */
static void limit_tile(const TilePlan *plan, int64_t *steps)
{
    int64_t elements = INT64_MAX;
    while (elements > MAX_TILE) {
        int longest = -1;
        elements = 1;
        for (int i = 0; i < plan->n; i++) {
            bool can = !tile_is_row(&plan->items[i]) && steps[i] > 1;
            longest = can && (longest < 0 || steps[i] > steps[longest]) ? i : longest;
            elements *= steps[i];
        }
        if (elements > MAX_TILE && longest >= 0) {
            steps[longest] /= 2;
        } else {
            return;
        }
    }
}

static void set_steps(Func *func, TilePlan *plan, const int64_t *steps)
{
    int64_t elements = 1;
    for (int i = plan->n; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        bool stored = i < plan->n_stored;
        int halved = stored && !tile_is_row(axis) ? func->retry.plain_halvings : 0;
        AxisMapping grid = tile_is_row(axis) ? AXIS_ROW : AXIS_GRID;
        if (axis->how != AXIS_UNROLL) {
            tile_set_step(func, axis, stored ? grid : AXIS_LOOP, max_i64(1, steps[i] >> halved),
                          stored ? "elements that share what a thread has loaded"
                                 : "one step along a reduced axis");
            elements *= axis->step;
        }
    }
    plan->elements = elements;
    plan->warps = max_i64(1, min_i64(REUSE_WARPS, elements / func->target->warp));
}

bool tile_choose_reuse(Func *func, const Op *group, TilePlan *plan)
{
    TilePlan tried = *plan; /* with short axes written out, which other groups decide later */
    Reuse reuse = {.plan = &tried};
    int64_t steps[64];
    if (!is_gpu(func) || !is_free(func, plan)) {
        return false;
    }
    tile_choose_windows(func, group, &tried);
    if (!find_terms(group, &reuse) || !find_reused(group, &reuse)) {
        return false;
    }
    if (plan->n > MAX_AXES) {
        return false;
    }
    *plan = tried;
    reuse.heavy = tile_is_heavy(func, group);
    choose_reused(&reuse, steps);
    leave_registers_for_row(&reuse, steps);
    choose_folded(&reuse, steps, shorten_grid(func, &reuse, steps));
    limit_tile(plan, steps);
    set_steps(func, plan, steps);
    return true;
}
