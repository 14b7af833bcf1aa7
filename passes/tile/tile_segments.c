/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses tiles for reductions over ranges that data gives each row: sums over segments, rows of a
 * sparse matrix in compressed form, the mean over the nodes of each graph.
 *
 *   y[r] = sum(e in E if start[r] <= e and e < start[r + 1]) x[e]
 *
 * A block walks the ranges of all of its rows (passes/loops/bound_loops.c), and compares each
 * element with the ends of each of them: of n rows with ranges of length L that is n * n * L
 * comparisons. One row a block is the least work, but blocks begin one after the other. The number
 * of rows minimizes the sum of both. A step is no longer than the ranges of a block are in the
 * mean: what a longer one masks takes as long as what counts. */
#include "passes/analysis/axis_dependence.h"
#include "passes/tile/tile_steps.h"

#include "ir/memo.h"
#include "ir/nominal_sizes.h"

#include <math.h>

enum {
    WARP_ELEMENTS = 512, /* terms of a step that a warp has */
    MOST_WARPS = 8,
    UNIT_WARPS = 64,     /* of a multiprocessor, for which there should be rows */
    COLUMNS = 128,       /* of rows' elements that lie contiguous */
    MOST_ROWS = 16,
    LEAST_STEP = 8,
    LONG_RANGE = 16384,  /* terms of a block for which one more warp loads */
    UNKNOWN_RANGE = 64,  /* elements of a range, where no sizes are known */
    /* Terms that a warp compares until the next block begins. Measured on an H200: ranges of 16
     * elements take least in blocks of 8 rows, of 64 in blocks of 4, of 1024 alone. */
    TERMS_PER_BLOCK = 1024,
};

typedef struct Segments {
    const TilePlan *plan;
    int folded;          /* the item along which the ranges lie; -1: none */
    bool begins, ends;   /* a comparison bounds them there */
    uint64_t rows;       /* the items along which their ends differ */
} Segments;

static int item_of(const TilePlan *plan, int class)
{
    for (int i = 0; i < plan->n; i++) {
        if (plan->items[i].class == class) {
            return i;
        }
    }
    return -1;
}

static uint64_t items_of(const TilePlan *plan, const Value *value)
{
    uint64_t items = 0;
    for (int i = 0; i < value->type->rank; i++) {
        int item = item_of(plan, axes_class(plan->axes, value, i));
        items |= item >= 0 ? (uint64_t)1 << item : 0;
    }
    return items;
}

/* The items along which the elements of the value differ: those of what it repeats. */
static uint64_t varies_along(const TilePlan *plan, const Value *value)
{
    const Op *op = value->def;
    while (op && (op->kind == OP_BROADCAST || op->kind == OP_EXPAND)) {
        value = op->operands[0];
        op = value->def;
    }
    return items_of(plan, value);
}

bool tile_find_range(const TilePlan *plan, const Op *op, TileRange *range)
{
    const char *pred = op->kind == OP_CMP ? op_word(op, ATTR_PRED) : "eq";
    bool orders = !text_equal(pred, "eq") && !text_equal(pred, "ne") &&
                  !dtype_is_float(op->operands[0]->type->dtype);
    Memo *memo = orders ? memo_about(op->results[0]) : NULL;
    *range = (TileRange){0};
    for (int i = 0; memo && i < 2; i++) {
        const Value *value = op->operands[i];
        bool places = an_is_of_places(memo, value);
        bool less = text_equal(pred, "lt") || text_equal(pred, "le");
        range->places |= places ? varies_along(plan, value) : 0;
        range->data |= places ? 0 : varies_along(plan, value);
        range->ends = places ? less == (i == 0) : range->ends;
        range->by_data = range->by_data || !places;
    }
    memo_close(memo);
    return range->places && range->by_data;
}

/* ---- the group ---- */

/* Notes what a comparison says of the ranges. */
static void note_range(Segments *s, const Op *op)
{
    TileRange range;
    if (!tile_find_range(s->plan, op, &range)) {
        return;
    }
    bool along = s->folded >= 0 && range.places == (uint64_t)1 << s->folded;
    bool rows = range.data && range.data >> s->plan->n_stored == 0;
    s->begins = s->begins || (along && rows && !range.ends);
    s->ends = s->ends || (along && rows && range.ends);
    s->rows |= along && rows ? range.data : 0;
}

/* Are its axes those of the grid, but for one that is folded, and those that are written out? */
static bool find_folded(Segments *s)
{
    for (int i = 0; i < s->plan->n; i++) {
        const AxisPlan *axis = &s->plan->items[i];
        bool bound = axis->held || axis->walked || axis->whole || tile_is_row(axis) ||
                     (axis->flags & AXIS_SCANNED);
        if (bound || (i >= s->plan->n_stored && axis->how != AXIS_UNROLL && s->folded >= 0)) {
            return false;
        }
        s->folded = i >= s->plan->n_stored && axis->how != AXIS_UNROLL ? i : s->folded;
    }
    return s->folded >= 0;
}

static bool find_segments(const Op *group, Segments *s)
{
    if (!find_folded(s)) {
        return false;
    }
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        if (op->n_regions || op->kind == OP_SCAN || op->kind == OP_DOT || op->kind == OP_SCATTER) {
            return false;
        }
        note_range(s, op);
    }
    return s->begins && s->ends;
}

/* The stored item, other than rows, along which what is read for the terms lies contiguous; -1:
 * there is none. */
static int contiguous_item(const Op *group, const Segments *s)
{
    int found = -1;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        const Value *value = op->kind == OP_LOAD || op->kind == OP_GATHER ? op->results[0] : NULL;
        bool term = value && value->type->rank > 1 &&
                    items_of(s->plan, value) >> s->folded & 1;
        int last = term ? item_of(s->plan, axes_class(s->plan->axes, value,
                                                      value->type->rank - 1)) : -1;
        bool column = last >= 0 && last < s->plan->n_stored && !(s->rows >> last & 1);
        found = column ? last : found;
    }
    return found;
}

/* ---- the tile ---- */

/* Elements of a range in the mean, where ranges of all rows make up the axis. */
static int64_t mean_range(const Segments *s)
{
    int64_t rows = 1, elements = poly_nominal(s->plan->items[s->folded].dim);
    for (int i = 0; i < s->plan->n_stored; i++) {
        rows = s->rows >> i & 1 ? max_i64(1, poly_nominal(s->plan->items[i].dim)) : rows;
    }
    return elements > rows ? elements / rows : UNKNOWN_RANGE;
}

static int64_t columns_of(const AxisPlan *axis)
{
    return min_i64(COLUMNS, power_of_two_at_least(max_i64(1, poly_nominal(axis->dim))));
}

/* Warps of a block: more than one where there are few rows, or where their ranges are long. */
static int64_t warps_for(const Func *func, const Segments *s, int64_t range, int64_t rows,
                         int64_t columns)
{
    int64_t blocks = 1, terms = range * rows * rows * columns;
    for (int i = 0; i < s->plan->n_stored; i++) {
        blocks *= min_i64(max_i64(1, poly_nominal(s->plan->items[i].dim)), INT32_MAX / blocks);
    }
    blocks = max_i64(1, blocks / (rows * columns));
    int64_t wanted = func->target->machine->num_sms * (int64_t)UNIT_WARPS / blocks;
    wanted = min_i64(max_i64(wanted, terms / LONG_RANGE), terms / WARP_ELEMENTS);
    return min_i64(MOST_WARPS, power_of_two_at_most(max_i64(1, wanted)));
}

bool tile_choose_segments(Func *func, const Op *group, TilePlan *plan)
{
    TilePlan tried = *plan; /* with short axes written out, which other groups decide later */
    Segments s = {.plan = &tried, .folded = -1};
    if (!is_gpu(func)) {
        return false;
    }
    tile_choose_windows(func, group, &tried);
    if (!find_segments(group, &s)) {
        return false;
    }
    *plan = tried;
    plan->by_ranges = true;
    s.plan = plan;
    int64_t range = mean_range(&s);
    int column = contiguous_item(group, &s), last_row = -1;
    int64_t columns = column >= 0 ? columns_of(&plan->items[column]) : 1;
    double best = sqrt((double)TERMS_PER_BLOCK / ((double)range * (double)columns));
    int64_t rows = min_i64(MOST_ROWS, power_of_two_at_most(max_i64(1, (int64_t)best)));
    int64_t warps = warps_for(func, &s, range, rows, columns);
    int64_t block = (WARP_ELEMENTS * warps) >> func->retry.plain_halvings;
    int64_t step = power_of_two_at_least(min_i64(range * rows, block));
    step = max_i64(LEAST_STEP, min_i64(step, block / (rows * columns)));
    for (int i = 0; i < plan->n_stored; i++) {
        last_row = s.rows >> i & 1 ? i : last_row;
    }
    plan->elements = 1;
    for (int i = plan->n; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        if (axis->how == AXIS_UNROLL) {
            continue;
        }
        if (i == s.folded) {
            tile_set_step(func, axis, AXIS_LOOP, fitted(axis->dim, step),
                          "as long as the ranges of a block are in the mean");
        } else if (i == column) {
            tile_set_step(func, axis, AXIS_GRID, fitted(axis->dim, columns),
                          "contiguous elements of what the ranges have");
        } else {
            tile_set_step(func, axis, AXIS_GRID, i == last_row ? fitted(axis->dim, rows) : 1,
                          "a block walks the ranges of all its rows");
        }
        plan->elements *= axis->step;
    }
    warps = power_of_two_at_least(ceil_div(plan->elements, WARP_ELEMENTS));
    plan->warps = min_i64(warps, MOST_WARPS);
    return true;
}
