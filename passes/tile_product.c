/* SPDX-License-Identifier: Apache-2.0 */
/* The unit that multiplies, and the steps of a group around a product. */
#include "passes/tile_steps.h"

#include "ir/errors.h"
#include "passes/an_width.h"

enum {
    SWIZZLED = 128,       /* bytes of a row of shared memory that a matrix unit reads */
    MOST_KNOWN = 1 << 24, /* elements of an axis: more is as if it were not known */
    FMA_DEPTH_BYTES = 64,
    CPU_EDGE = 256,        /* of a tile whose operands and result stay in the second-level cache: */
    CPU_DEPTH_BYTES = 768, /* the longer an edge, the less often the other operand is packed */
    FMA_LEAST = 8,         /* elements of an axis, of derived tiles of fused multiply-adds */
    RASTER_ROWS = 1024,    /* of tiles beside each other (measured: tiles of 128 and 256 rows) */
    BESIDE = 16384,        /* elements of what else is reduced over the product's tile */
};

/* ---- the unit that multiplies ---- */

/* Is the operand a load whose rows run along k? A mask is a copy in registers, as it lies there. */
static bool runs_along_k(const Op *dot, int side)
{
    const Op *load = dot->operands[side]->def;
    bool turned = false, masked = false;
    for (; load && (load->kind == OP_PERMUTE || load->kind == OP_MASK);
         load = load->operands[0]->def) {
        const Attr *perm = load->kind == OP_PERMUTE ? op_attr(load, ATTR_PERM) : NULL;
        turned ^= perm && perm->ints[perm->n - 1] == perm->n - 2;
        masked = masked || load->kind == OP_MASK;
    }
    return load && load->kind == OP_LOAD && turned == (side == 1) && !(masked && side == 1);
}

/* Of a product, as far as they are known; 0: not yet. */
typedef struct Tiles {
    int64_t rows, columns, depth, warps;
    bool along_k; /* both operands */
} Tiles;

static bool tiles_suit(const Unit *unit, const Tiles *tiles)
{
    return tiles->rows % unit->m == 0 && tiles->columns % unit->n == 0 &&
           tiles->depth % unit->k == 0 && (!unit->most_k || tiles->depth <= unit->most_k);
}

static bool operands_suit(const Unit *unit, const Tiles *tiles)
{
    return tiles->along_k || !unit->along_k;
}

static bool suits(const Unit *unit, const Tiles *tiles)
{
    return tiles_suit(unit, tiles) && operands_suit(unit, tiles) &&
           tiles->warps % unit_warps(unit) == 0;
}

typedef struct Choice {
    const Unit *unit; /* NULL: none */
    const Unit *near; /* the first one that operands, tiles or warps keep from it */
} Choice;

/* Of the target's units (of the given word, if any): one for these very operands before others. */
static Choice choose_row(const Func *func, const char *word, DType operands, DType result,
                         const Tiles *tiles)
{
    size_t n;
    const Unit *rows = unit_rows(&n);
    Choice choice = {NULL, NULL};
    for (size_t i = 0; i < n; i++) {
        const Unit *row = &rows[i];
        if (!unit_on(row, func->target) || !unit_takes(row, operands, result) ||
            (word && !text_same(word, row->word))) {
            continue;
        }
        bool better =
            !choice.unit || (choice.unit->operands != operands && row->operands == operands);
        if (!suits(row, tiles)) {
            choice.near = choice.near ? choice.near : row;
        } else if (better) {
            choice.unit = row;
        }
    }
    return choice;
}

static const char *why_not_unit(Func *func, DType operands, const Unit *near, const Tiles *tiles)
{
    if (!unit_first(func->target, NULL)) {
        return arena_printf(func->arena, "%s operands, but no matrix unit that is used here",
                            dtype_name(operands));
    }
    if (!near) {
        return arena_printf(func->arena, "%s operands: no matrix unit here multiplies them exactly",
                            dtype_name(operands));
    }
    if (!operands_suit(near, tiles)) {
        return arena_printf(func->arena,
                            "%s operands: the matrix unit wants 8 bits with k contiguous in both "
                            "(x @ w.T)",
                            dtype_name(operands));
    }
    if (tiles_suit(near, tiles)) {
        return arena_printf(func->arena, "%s operands, but warps that make no group of %d",
                            dtype_name(operands), unit_warps(near));
    }
    return arena_printf(func->arena,
                        "%s operands, but tiles that the matrix unit does not take: it multiplies "
                        "%d rows by %d columns, %d deep",
                        dtype_name(operands), near->m, near->n, near->k);
}

static const char *why_unit(Func *func, const Unit *unit, DType operands)
{
    if (unit->most_k) {
        return arena_printf(func->arena,
                            "%s operands: the matrix unit multiplies them exactly, and adds a step "
                            "of k with 13 bits behind the point",
                            dtype_name(operands));
    }
    if (unit->operands == operands) {
        return arena_printf(func->arena,
                            "%s operands: the matrix unit multiplies them exactly, in %s",
                            dtype_name(operands), dtype_name(unit->result));
    }
    return arena_printf(func->arena,
                        "%s operands: as %s, which holds each of them, the matrix unit multiplies "
                        "them exactly",
                        dtype_name(operands), dtype_name(unit->operands));
}

/* "f16 and bf16 in tiles of 64 rows, 16 columns and 16 deep" */
static void add_unit(Text *text, const Func *func, const char *word)
{
    size_t n;
    const Unit *rows = unit_rows(&n), *last = NULL;
    for (size_t i = 0; i < n; i++) {
        const Unit *row = &rows[i];
        if (!unit_on(row, func->target) || (word && !text_same(word, row->word))) {
            continue;
        }
        bool same = last && last->m == row->m && last->n == row->n && last->k == row->k;
        if (last && !same) {
            text_printf(text, ": %d by %d, %d deep", last->m, last->n, last->k);
        }
        text_printf(text, "%s%s", !last ? "" : same ? ", " : "; ", dtype_name(row->operands));
        last = row;
    }
    if (last) {
        text_printf(text, ": %d by %d, %d deep", last->m, last->n, last->k);
    }
}

static void refuse_unit(Func *func, const char *word, const char *reason)
{
    const Line *line = schedule_given(func, "product", "");
    Text units = text_new(func->arena);
    bool any = unit_first(func->target, word) != NULL;
    Diag *d = diag_error(func->diags, ERR_UNIT, line ? line->span : SPAN_NONE,
                         "`product %s` is not possible: %s", word,
                         any ? reason : "the target has no such unit");
    add_unit(&units, func, any ? word : NULL);
    if (units.n == 0) {
        diag_help(func->diags, d, "%s has no matrix unit; `product fma` takes all",
                  func->target->name);
    } else if (!any) {
        diag_help(func->diags, d, "%s has `product %s`; `product fma` takes all",
                  func->target->name, unit_first(func->target, NULL)->word);
    } else {
        diag_help(func->diags, d,
                  "%s multiplies, in tiles of rows by columns or multiples: %s%s; `product fma` "
                  "takes all",
                  func->target->name, units.data,
                  unit_warps(unit_first(func->target, word)) > 1 ? ", by groups of 4 warps" : "");
    }
}

/* The row, or NULL: fused multiply-adds. */
static const Unit *choose_unit(Func *func, DType operands, DType result, const Tiles *tiles)
{
    const Line *given = schedule_given(func, "product", "");
    const char *word = given && given->word ? given->word : NULL;
    bool fma = word && text_same(word, "fma");
    Choice choice = choose_row(func, word, operands, result, tiles);
    if (choice.unit) {
        schedule_word(func, "product", "", choice.unit->word, "%s",
                      why_unit(func, choice.unit, operands));
        return choice.unit;
    }
    if (!fma) {
        const char *reason = why_not_unit(func, operands, choice.near, tiles);
        schedule_word(func, "product", "", "fma", "%s", reason);
        if (word && func->diags->errors == 0) {
            refuse_unit(func, word, reason);
        }
    }
    return NULL;
}

/* Warps that the user gives; else the launch's, which may have been tiled for another product. */
static int64_t known_warps(Func *func, const Op *dot)
{
    const Line *line = schedule_given(func, "warps", "");
    const Op *launch = dot ? op_enclosing(dot, OP_LAUNCH) : NULL;
    const Attr *warps = launch ? op_attr(launch, ATTR_WARPS) : NULL;
    return line ? line->number : warps && warps->n ? warps->ints[warps->n - 1] : 0;
}

const Unit *product_unit(Func *func, const Op *dot)
{
    Type a = dot->operands[0]->type, c = dot->results[0]->type;
    const Dim *rows = c->dims + c->rank - 2, *depth = a->dims + a->rank - 1;
    Tiles tiles = {poly_capacity(rows[0]), poly_capacity(rows[1]), poly_capacity(depth[0]),
                   known_warps(func, dot), runs_along_k(dot, 0) && runs_along_k(dot, 1)};
    return choose_unit(func, a->dtype, c->dtype, &tiles);
}

/* ---- products ---- */

static int64_t product_threads(const AxisPlan *m, const AxisPlan *n)
{
    int64_t elements = (m ? m->step : 1) * (n ? n->step : 1);
    return larger(1, elements / THREAD_ACCUMULATORS);
}

/* Where tiles did not fit they are halved: columns first, then rows, then the depth. */
typedef enum Turn { TURN_COLUMNS, TURN_ROWS, TURN_DEPTH, TURNS } Turn;

static void set_halved(Func *func, AxisPlan *axis, int64_t step, int64_t least, Turn turn,
                       const char *reason)
{
    int times = (func->fit.smaller + TURNS - 1 - (int)turn) / TURNS;
    int64_t less = step;
    while (times-- > 0 && less / 2 >= least) {
        less = less / 2 / least * least;
    }
    tile_set_step(func, axis, turn == TURN_DEPTH ? AXIS_LOOP : AXIS_GRID, less,
                  less < step ? "halved until a block has room for it" : reason);
}

/* Of sizes that are not known, or of several products. */
static void choose_by_fit(Func *func, TilePlan *plan, AxisPlan *m, AxisPlan *n)
{
    const Unit *unit = plan->unit;
    bool wide = tile_operands_stay_out(func, plan->dot);
    if (m) {
        set_halved(func, m, larger(unit->m, fitted(m->dim, 128)), unit->m, TURN_ROWS,
                   "two warp groups of 64 rows, or one where there are no more rows");
    }
    if (n) {
        bool twice = unit->most_k != 0;
        int64_t most =
            larger(32, (wide && !twice ? 256 : 128) / power_of_two_at_least(plan->n_dots));
        set_halved(func, n, larger(32, fitted(n->dim, most)), unit->n, TURN_COLUMNS,
                   most == 256 ? "the widest product instruction, or as wide as the matrix is"
                   : twice ? "a step's sums and the sums of all steps share a thread's registers"
                   : wide  ? "accumulators of all products share a thread's registers"
                           : "operands pass through registers, which accumulators must leave");
    }
}

/* Warps of a tile: a warp group for each 64 rows, two at most; one, where a block has two tiles. */
static void choose_teams(Func *func, TilePlan *plan, const AxisPlan *m)
{
    bool may = func->target->roles && tile_operands_stay_out(func, plan->dot);
    bool on = may && text_same(schedule_word(func, "pingpong", "", "off",
                                             "the matrix unit's sums and work on results share the "
                                             "registers' ports: measured, they gain little by "
                                             "running at once"),
                               "on");
    plan->teams = on ? 2 : 1;
    plan->warps = on ? 4 : smaller(8, (m ? larger(1, m->step / 64) : 1) * 4);
}

/* Four warps multiply together, from shared memory. Returns the step along what is contracted. */
static int64_t choose_groups(Func *func, const Op *group, TilePlan *plan, AxisPlan *m, AxisPlan *n)
{
    const Unit *unit = plan->unit;
    ProductTiles tiles = {.depth = SWIZZLED / dtype_bytes(plan->dot->operands[0]->type->dtype)};
    const char *reason = tile_choose_waves(func, group, plan, m, n, &tiles);
    if (reason) {
        set_halved(func, m, tiles.m, unit->m, TURN_ROWS,
                   tiles.m > unit->m ? "two warp groups, each of 64 rows or a multiple"
                                     : "one warp group of 64 rows");
        set_halved(func, n, tiles.n, unit->n, TURN_COLUMNS, reason);
        plan->shares = tiles.shares;
    } else {
        choose_by_fit(func, plan, m, n);
    }
    choose_teams(func, plan, m);
    return tiles.depth;
}

/* Each warp multiplies by itself: its fragments serve as many of another operand's as its tile is
 * wide, and its share of the result stays in registers. */
static int64_t choose_warps(Func *func, TilePlan *plan, AxisPlan *m, AxisPlan *n)
{
    const Unit *unit = plan->unit;
    int64_t wide = dtype_bytes(unit->result) / 4;
    int64_t columns = larger(unit->n, 128 / wide / power_of_two_at_least(plan->n_dots));
    if (m) {
        set_halved(func, m, larger(unit->m, fitted(m->dim, 128)), unit->m, TURN_ROWS,
                   "rows that share each fragment of the right operand");
    }
    if (n) {
        set_halved(func, n, larger(unit->n, fitted(n->dim, columns)), unit->n, TURN_COLUMNS,
                   "columns that share each fragment of the left operand");
    }
    int64_t threads = product_threads(m, n) * wide * power_of_two_at_least(plan->n_dots);
    plan->warps =
        smaller(256 / func->target->warp, power_of_two_at_most(threads / func->target->warp));
    int operand = dtype_bytes(plan->dot->operands[0]->type->dtype);
    int64_t four = (int64_t)4 * 256 * SWIZZLED; /* two blocks' slots of two tiles of 128 rows */
    int64_t row = four > func->target->shared_bytes ? SWIZZLED / 2 : SWIZZLED;
    return larger(unit->k, row / operand);
}

/* Products of one matrix after the other are summed. */
bool tile_is_summed_batch(const TilePlan *plan, const AxisPlan *axis)
{
    const Value *product = plan->dot->results[0];
    bool batch = false;
    for (int i = 0; i < product->type->rank - 2; i++) {
        batch = batch || axes_class(plan->axes, product, i) == axis->class;
    }
    return batch && !(axis->flags & AXIS_STORED);
}

typedef struct Kept {
    TilePlan *plan;
    const AxisPlan *m, *n;
    int64_t bytes; /* an element of the product's tile */
} Kept;

static void count_kept(Op *op, void *user)
{
    Kept *kept = user;
    bool fold = op->kind == OP_REDUCE || op->kind == OP_SCAN || op->kind == OP_FOLD;
    const AxisPlan *axis =
        fold ? tile_axis_of(kept->plan, op->operands[0], (int)op_int(op, ATTR_AXIS, 0)) : NULL;
    if ((!fold && op->kind != OP_DOT && op->n_regions == 0) ||
        (axis && tile_is_summed_batch(kept->plan, axis))) {
        return;
    }
    for (int r = 0; r < op->n_results; r++) {
        const Value *value = op->results[r];
        bool rows = !kept->m, columns = !kept->n;
        for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
            const AxisPlan *own = tile_axis_of(kept->plan, value, i);
            rows = rows || own == kept->m;
            columns = columns || own == kept->n;
        }
        kept->bytes += rows && columns ? dtype_bytes(value->type->dtype) : 0;
    }
}

/* Columns of a CPU's tile: all that is accumulated over it stays in the second-level cache. */
static int64_t cached_columns(const Op *group, TilePlan *plan, const AxisPlan *m, const AxisPlan *n)
{
    Kept kept = {plan, m, n, 0};
    block_walk(group->regions[0], count_kept, &kept);
    return power_of_two_at_most(CPU_EDGE * 4 / larger(4, kept.bytes));
}

/* Without a matrix unit. CPUs pack operands in the type that they compute in. */
static int64_t product_depth(const Func *func, const Op *dot)
{
    int operand = dtype_bytes(dot->operands[0]->type->dtype);
    int result = dtype_bytes(dot->results[0]->type->dtype);
    return is_gpu(func) ? FMA_DEPTH_BYTES / operand : CPU_DEPTH_BYTES / result;
}

/* A tile of fused multiply-adds: an element that a thread reads takes part in as many products as
 * the thread has accumulators on the other side. `cost`: of a product, in percent, by what is read
 * for it and by how few warps hide it. */
typedef struct FmaTile {
    int64_t rows, cols, cost;
} FmaTile;

static int64_t tiles_of(const AxisPlan *axis, int64_t step)
{
    int64_t most = axis ? poly_most(axis->dim) : 1;
    return most == INT64_MAX ? most : (most + step - 1) / step;
}

/* What all tiles take, in turns of all multiprocessors; 0: not known. */
static double fma_time(const Func *func, const AxisPlan *m, const AxisPlan *n, const FmaTile *tile)
{
    int64_t down = tiles_of(m, tile->rows), across = tiles_of(n, tile->cols);
    if (down >= INT32_MAX || across >= INT32_MAX) {
        return 0;
    }
    int64_t turns = (down * across + func->target->units - 1) / func->target->units;
    return (double)turns * (double)(tile->rows * tile->cols * tile->cost);
}

/* Operands that the copy engine brings leave a thread registers for 128 accumulators. */
static FmaTile choose_fma_tile(const Func *func, const TilePlan *plan, const AxisPlan *m,
                               const AxisPlan *n)
{
    static const FmaTile tiles[] = {{128, 256, 100}, {128, 128, 105}, {64, 128, 130}};
    const FmaTile *best = &tiles[0];
    if (plan->n_dots > 1 || !m || !n || plan->n_stored > 2 ||
        dtype_bytes(plan->dot->operands[0]->type->dtype) < 4 ||
        !tile_operands_stay_out(func, plan->dot)) {
        return tiles[1];
    }
    for (size_t i = 1; i < sizeof tiles / sizeof *tiles; i++) {
        if (fma_time(func, m, n, &tiles[i]) < fma_time(func, m, n, best)) {
            best = &tiles[i];
        }
    }
    return *best;
}

static int64_t choose_fma_unit(Func *func, const Op *group, TilePlan *plan, AxisPlan *m,
                               AxisPlan *n)
{
    /* Narrow operands take registers twice on a GPU: as they are, and widened. */
    bool twice = is_gpu(func) && dtype_bytes(plan->dot->operands[0]->type->dtype) < 4;
    FmaTile tile = choose_fma_tile(func, plan, m, n);
    int64_t rows = is_gpu(func) ? tile.rows : CPU_EDGE;
    int64_t cols = is_gpu(func) ? (twice ? 64 : tile.cols) / power_of_two_at_least(plan->n_dots)
                                : cached_columns(group, plan, m, n);
    if (m) {
        set_halved(func, m, fitted(m->dim, rows), FMA_LEAST, TURN_ROWS,
                   "rows that share each element of the right operand");
    }
    if (n) {
        set_halved(func, n, fitted(n->dim, cols), FMA_LEAST, TURN_COLUMNS,
                   "columns that share each element of the left operand");
    }
    plan->warps = smaller(256 / func->target->warp,
                          power_of_two_at_most(product_threads(m, n) / func->target->warp));
    return product_depth(func, plan->dot);
}

/* The user's tiles and warps, where there are any. */
static Tiles given_tiles(Func *func, const TilePlan *plan, const AxisPlan *m, const AxisPlan *n)
{
    Tiles tiles = {.warps = known_warps(func, NULL),
                   .along_k = runs_along_k(plan->dot, 0) && runs_along_k(plan->dot, 1)};
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        const Line *line = schedule_given(func, "tile", axis->name);
        bool batch = axis != m && axis != n && (axis->flags & AXIS_STORED);
        if (line && axis == m) {
            tiles.rows = line->number;
        } else if (line && axis == n) {
            tiles.columns = line->number;
        } else if (line && !batch && (axis->flags & AXIS_CONTRACTED)) {
            tiles.depth = line->number;
        }
    }
    return tiles;
}

/* ---- what is reduced beside a product ---- */

typedef struct Beside {
    TilePlan *plan;
    const AxisPlan *axis;
    int64_t most; /* elements of a tile that has the axis, along the axes that have steps */
} Beside;

static void look_beside(Op *op, void *user)
{
    Beside *beside = user;
    for (int r = 0; r < op->n_results; r++) {
        const Value *value = op->results[r];
        int64_t elements = 1;
        bool has = false;
        for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
            const AxisPlan *axis = tile_axis_of(beside->plan, value, i);
            has = has || axis == beside->axis;
            elements *= axis && axis != beside->axis ? larger(1, axis->step) : 1;
        }
        beside->most = has ? larger(beside->most, elements) : beside->most;
    }
}

/* The product's tile is large already: little of another axis is held with it. A CPU's buffers are
 * made of whole vectors. */
static void choose_beside(Func *func, const Op *group, TilePlan *plan)
{
    int64_t lanes = is_gpu(func) ? 1 : func->target->vector_bytes / 4;
    for (int i = plan->n_stored; i < plan->n; i++) {
        AxisPlan *axis = &plan->items[i];
        if (!(axis->flags & AXIS_CONTRACTED) && !tile_is_summed_batch(plan, axis)) {
            Beside beside = {plan, axis, 1};
            block_walk(group->regions[0], look_beside, &beside);
            int64_t wanted = power_of_two_at_most(BESIDE / beside.most);
            wanted = wanted < lanes ? 1 : wanted;
            tile_set_step(func, axis, AXIS_LOOP, fitted(axis->dim, wanted),
                          "as much as a block has room for beside a product");
        }
    }
}

void tile_choose_product(Func *func, const Op *group, TilePlan *plan)
{
    DType operands = plan->dot->operands[0]->type->dtype;
    int rank = plan->dot->results[0]->type->rank;
    AxisPlan *m = tile_axis_of(plan, plan->dot->results[0], rank - 2);
    AxisPlan *n = tile_axis_of(plan, plan->dot->results[0], rank - 1);
    Tiles tiles = given_tiles(func, plan, m, n);
    const Unit *unit = choose_unit(func, operands, plan->dot->results[0]->type->dtype, &tiles);
    plan->unit = unit;
    int64_t depth = !unit                  ? choose_fma_unit(func, group, plan, m, n)
                    : unit_warps(unit) > 1 ? choose_groups(func, group, plan, m, n)
                                           : choose_warps(func, plan, m, n);
    for (int i = 0; i < plan->n; i++) {
        AxisPlan *axis = &plan->items[i];
        if (axis != m && axis != n && (axis->flags & AXIS_STORED)) {
            axis->how = AXIS_SCALAR; /* a batch: one matrix at a time */
            axis->step = 0;
        } else if (tile_is_summed_batch(plan, axis)) {
            axis->how = AXIS_LOOP;
            axis->step = 0;
        } else if (axis->flags & AXIS_CONTRACTED) {
            int64_t least = unit ? unit->k : FMA_LEAST;
            set_halved(func, axis, depth, least, TURN_DEPTH,
                       !unit ? "as deep as the operands' tiles stay small"
                       : depth * dtype_bytes(operands) > SWIZZLED
                           ? "rows of swizzled shared memory; small tiles meet less often"
                       : depth * dtype_bytes(operands) == SWIZZLED
                           ? "one 128-byte row of swizzled shared memory"
                           : "half a 128-byte row of swizzled shared memory");
        }
    }
    choose_beside(func, group, plan);
    if (is_gpu(func) && plan->n_stored == 2) {
        int64_t derived =
            plan->unit && m ? smaller(8, larger(1, RASTER_ROWS / larger(64, m->step))) : 8;
        plan->grouped = schedule_number(
            func, "raster", "grouped", derived,
            "%lld tiles of rows share columns of the right operand in L2", (long long)derived);
    }
}
