/* SPDX-License-Identifier: Apache-2.0 */
/* The unit that multiplies, and the steps of a group around a product. */
#include "passes/tile_steps.h"

#include "ir/errors.h"
#include "passes/an_width.h"

enum {
    UNIT_ROWS = 64, /* of which tiles of a matrix unit are multiples */
    UNIT_COLUMNS = 16,
    UNIT_DEPTH_BYTES = 32,
    MOST_APART = 128,     /* elements whose sums may keep few bits */
    UNIT_WARPS = 4,       /* that multiply together */
    SWIZZLED = 128,       /* bytes of a row of shared memory that it reads */
    MOST_KNOWN = 1 << 24, /* elements of an axis: more is as if it were not known */
    FMA_DEPTH_BYTES = 64,
    CPU_EDGE = 256,        /* of a tile whose operands and result stay in the second-level cache: */
    CPU_DEPTH_BYTES = 768, /* the longer an edge, the less often the other operand is packed */
    FMA_LEAST = 8,         /* elements of an axis, of derived tiles of fused multiply-adds */
    BESIDE = 16384,        /* elements of what else is reduced over the product's tile */
};

/* ---- the unit that multiplies ---- */

/* Operands of 16 bits may lie either way in shared memory; those of 8 bits with k contiguous. */
static bool eight_bits(DType operands)
{
    return dtype_bits(operands) == 8 && operands != DT_BOOL;
}

static bool narrow(DType operands)
{
    return operands == DT_F16 || operands == DT_BF16 || eight_bits(operands);
}

static int64_t unit_depth(DType operands)
{
    return UNIT_DEPTH_BYTES / dtype_bytes(operands);
}

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

static bool operands_lie_well(const Op *dot)
{
    return !eight_bits(dot->operands[0]->type->dtype) ||
           (runs_along_k(dot, 0) && runs_along_k(dot, 1));
}

static bool warps_suit(Func *func)
{
    const Line *line = schedule_given(func, "warps", "");
    return !line || line->number % UNIT_WARPS == 0;
}

static const char *why_not_unit(Func *func, DType operands, bool lie_well)
{
    bool unit = text_same(func->target->product16, "wgmma");
    return !narrow(operands)           ? "%s operands: the matrix units would round them"
           : unit && !lie_well         ? "%s operands: the matrix unit wants 8 bits with k "
                                         "contiguous in both (x @ w.T)"
           : unit && !warps_suit(func) ? "%s operands, but warps that make no group of 4"
           : unit                      ? "%s operands, but tiles that the matrix unit does not take"
                                       : "%s operands, but no matrix unit that is used here";
}

static void refuse_unit(Func *func, const char *reason, DType operands)
{
    const Line *line = schedule_given(func, "product", "");
    Text why = text_new(func->arena);
    text_printf(&why, reason, dtype_name(operands));
    Diag *d = diag_error(func->diags, ERR_UNIT, line ? line->span : SPAN_NONE,
                         "`product wgmma` is not possible: %s", why.data);
    diag_help(func->diags, d,
              "sm_90a multiplies 16-bit floats, 8-bit floats and 8-bit integers in tiles of %d "
              "rows, %d columns and %d bytes deep, by %d warps, or multiples; `product fma` takes "
              "all",
              UNIT_ROWS, UNIT_COLUMNS, UNIT_DEPTH_BYTES, UNIT_WARPS);
}

/* "wgmma" or "fma"; `suits`: the tiles are the unit's, as far as they are known. */
static const char *choose_unit(Func *func, const Op *dot, bool suits)
{
    DType operands = dot->operands[0]->type->dtype;
    bool lie_well = operands_lie_well(dot);
    suits = suits && lie_well && text_same(func->target->product16, "wgmma") && warps_suit(func);
    if (suits && narrow(operands)) {
        bool f8 = eight_bits(operands) && dtype_is_float(operands);
        return schedule_word(func, "product", "", "wgmma",
                             f8 ? "%s operands: the matrix unit multiplies them exactly, and adds "
                                  "a step of k with 13 bits behind the point"
                                : "%s operands: the matrix unit multiplies them exactly, in %s",
                             dtype_name(operands), dtype_name(dot->results[0]->type->dtype));
    }
    const char *reason = why_not_unit(func, operands, lie_well);
    const char *unit = schedule_word(func, "product", "", "fma", reason, dtype_name(operands));
    if (!text_same(unit, "fma") && func->diags->errors == 0) {
        refuse_unit(func, reason, operands);
    }
    return "fma";
}

bool product_adds_apart(const Op *dot)
{
    DType operands = dot->operands[0]->type->dtype;
    return eight_bits(operands) && dtype_is_float(operands);
}

/* The launch may have been tiled for another product of it, which takes any warps. */
static bool launch_suits(const Op *dot)
{
    const Op *launch = op_enclosing(dot, OP_LAUNCH);
    const Attr *warps = launch ? op_attr(launch, ATTR_WARPS) : NULL;
    return !warps || warps->n == 0 || warps->ints[warps->n - 1] % UNIT_WARPS == 0;
}

const char *product_unit(Func *func, const Op *dot)
{
    Type a = dot->operands[0]->type, c = dot->results[0]->type;
    const Dim *rows = c->dims + c->rank - 2, *depth = a->dims + a->rank - 1;
    bool suits = poly_capacity(rows[0]) % UNIT_ROWS == 0 &&
                 poly_capacity(rows[1]) % UNIT_COLUMNS == 0 &&
                 poly_capacity(depth[0]) % unit_depth(a->dtype) == 0 && launch_suits(dot) &&
                 (!product_adds_apart(dot) || poly_capacity(depth[0]) <= MOST_APART);
    return choose_unit(func, dot, suits);
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
    bool wide = tile_operands_stay_out(func, plan->dot);
    if (m) {
        set_halved(func, m, larger(UNIT_ROWS, fitted(m->dim, 128)), UNIT_ROWS, TURN_ROWS,
                   "two warp groups of 64 rows, or one where there are no more rows");
    }
    if (n) {
        bool twice = product_adds_apart(plan->dot);
        int64_t most =
            larger(32, (wide && !twice ? 256 : 128) / power_of_two_at_least(plan->n_dots));
        set_halved(func, n, larger(32, fitted(n->dim, most)), UNIT_COLUMNS, TURN_COLUMNS,
                   most == 256 ? "the widest product instruction, or as wide as the matrix is"
                   : twice ? "a step's sums and the sums of all steps share a thread's registers"
                   : wide  ? "accumulators of all products share a thread's registers"
                           : "operands pass through registers, which accumulators must leave");
    }
}

/* Returns the step along what is contracted. */
static int64_t choose_matrix_unit(Func *func, const Op *group, TilePlan *plan, AxisPlan *m,
                                  AxisPlan *n)
{
    ProductTiles tiles = {.depth = SWIZZLED / dtype_bytes(plan->dot->operands[0]->type->dtype)};
    const char *reason = tile_choose_waves(func, group, plan, m, n, &tiles);
    if (reason) {
        set_halved(func, m, tiles.m, UNIT_ROWS, TURN_ROWS,
                   tiles.m > UNIT_ROWS ? "two warp groups, each of 64 rows or a multiple"
                                       : "one warp group of 64 rows");
        set_halved(func, n, tiles.n, UNIT_COLUMNS, TURN_COLUMNS, reason);
        plan->shares = tiles.shares;
    } else {
        choose_by_fit(func, plan, m, n);
    }
    plan->warps = smaller(8, (m ? larger(1, m->step / 64) : 1) * 4);
    return tiles.depth;
}

/* Products of one matrix after the other are summed. */
static bool is_summed_batch(const TilePlan *plan, const AxisPlan *axis)
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
        (axis && is_summed_batch(kept->plan, axis))) {
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

/* Do the user's tiles, where there are any, suit the matrix unit? */
static bool given_suit(Func *func, const TilePlan *plan, const AxisPlan *m, const AxisPlan *n)
{
    int64_t depth = unit_depth(plan->dot->operands[0]->type->dtype);
    bool suit = true;
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        const Line *line = schedule_given(func, "tile", axis->name);
        int64_t unit = axis == m ? UNIT_ROWS : axis == n ? UNIT_COLUMNS : depth;
        bool batch = axis != m && axis != n && (axis->flags & AXIS_STORED);
        suit = suit && (!line || batch || line->number % unit == 0);
    }
    return suit;
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
        if (!(axis->flags & AXIS_CONTRACTED) && !is_summed_batch(plan, axis)) {
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
    bool suits = given_suit(func, plan, m, n);
    bool wgmma = text_same(choose_unit(func, plan->dot, suits), "wgmma");
    int64_t depth = wgmma ? choose_matrix_unit(func, group, plan, m, n)
                          : choose_fma_unit(func, group, plan, m, n);
    for (int i = 0; i < plan->n; i++) {
        AxisPlan *axis = &plan->items[i];
        if (axis != m && axis != n && (axis->flags & AXIS_STORED)) {
            axis->how = AXIS_SCALAR; /* a batch: one matrix at a time */
            axis->step = 0;
        } else if (is_summed_batch(plan, axis)) {
            axis->how = AXIS_LOOP;
            axis->step = 0;
        } else if (axis->flags & AXIS_CONTRACTED) {
            int64_t least = wgmma ? unit_depth(operands) : FMA_LEAST;
            set_halved(func, axis, depth, least, TURN_DEPTH,
                       !wgmma ? "as deep as the operands' tiles stay small"
                       : depth * dtype_bytes(operands) > SWIZZLED
                           ? "rows of swizzled shared memory; small tiles meet less often"
                           : "one 128-byte row of swizzled shared memory");
        }
    }
    choose_beside(func, group, plan);
    if (is_gpu(func) && plan->n_stored == 2) {
        plan->grouped = schedule_number(func, "raster", "grouped", 8,
                                        "tiles of 8 rows share columns of the right operand in L2");
    }
}
