/* SPDX-License-Identifier: Apache-2.0 */
/* group_rows: multiplies rows that each select a matrix by an index (grouped matrix products), one
 * run of rows with equal indices at a time.
 *
 *   %g = gather %w[%e, %n, %k]       %run = at each row, the number of its run of equal %e
 *   %p = mul %x, %g                  %which = of each run, its %e
 *   %s = reduce %p fn=sum axis=2     parallel %i: R by 128, %n: N by 256 {
 *   %t = cast %s               →       for %j from start %i to %run[end %i - 1] + 1 {
 *   store %y[:, :], %t                   %d = for %k: K by 64 { dot %x[%i, %k], %w[%which[%j], …] }
 *                                        scatter %y[%i, %n], cast %d where %run[%i] == %j } }
 *
 * A tile of rows needs as many dots as it has runs, each over all rows of the tile; each row keeps
 * the result of its own run. Runs end where a tile of rows ends, so a run belongs to one tile. This
 * pays if equal indices are adjacent: if they are counted from offsets in the order of the rows
 * (`sum(e in E) i64(at[e + 1] <= r)`), or if the program declares it (`assume sorted(e)`).
 * Otherwise each row is multiplied separately, and a warning says what to write. The results are
 * correct for any order of the indices.
 *
 * Requires the tensor level, and gathers of whole axes that are loads. Sums of floats are
 * associated as the dot has them. */
#include "ir/build.h"
#include "ir/ir_errors.h"
#include "ir/layout/matrix_instr.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/index_order.h"
#include "passes/pass.h"

enum {
    ROWS = 128, /* of a tile: what two warp groups multiply at once */
    COLUMNS = 128,
    DEPTH = 64, /* elements of a step along k: a row of swizzled shared memory in 16 bits */
    AXES = 3,   /* of the product: rows, columns, k */
};

/* A sum of products whose second factor is gathered by rows. */
typedef struct Grouped {
    Func *func;
    Op *reduce;
    const Op *gather;
    int row, column, k;   /* axes of the product */
    Value *rows;          /* the first factor, as it is before it is widened: */
    int rows_axis;        /* which of its two axes is that of the rows */
    Value *chosen;        /* integer [R]: the matrix of each row */
    int matrix, w_column; /* axes of the tensor of matrices; the third one is k's */
} Grouped;

/* ---- recognizing ---- */

static Value *behind_casts(Value *value)
{
    while (value->def && (value->def->kind == OP_BROADCAST || value->def->kind == OP_EXPAND ||
                          (value->def->kind == OP_CAST &&
                           dtype_is_float(value->def->operands[0]->type->dtype)))) {
        value = value->def->operands[0];
    }
    return value;
}

/* The axis of the product along which the index counts the whole axis of memory; -1: it does
 * not. */
static int walked_axis(const Value *index, Dim extent)
{
    const Op *op = index->def;
    int axis = 0;
    while (op && (op_moves_axes(op) || op->kind == OP_CAST)) {
        op = op->operands[0]->def;
    }
    if (!op || op->kind != OP_IOTA || op_attr(op, ATTR_DIM)->dims[0] != extent) {
        return -1;
    }
    unsigned varies = an_varies(NULL, index);
    while (axis < index->type->rank && varies != 1u << axis) {
        axis++;
    }
    return axis < index->type->rank && index->type->dims[axis] == extent ? axis : -1;
}

/* Reads what each index of the gather is; false: no matrices chosen by rows. */
static bool read_gather(Grouped *g)
{
    const Op *gather = g->gather;
    Value *memory = gather->operands[0];
    g->matrix = g->w_column = -1;
    if (memory->type->kind != TYPE_TENSOR || memory->type->rank != AXES ||
        !gather_reads_zeros(gather)) {
        return false;
    }
    for (int i = 0; i < AXES; i++) {
        Value *index = gather->operands[1 + i];
        if (index->type->rank != AXES) {
            return false;
        }
        int axis = walked_axis(index, memory->type->dims[i]);
        const Value *base = value_unstretched(index);
        unsigned varies = an_varies(NULL, index);
        if (axis == g->k) {
            continue;
        }
        if (axis >= 0 && g->w_column < 0) {
            g->column = axis;
            g->w_column = i;
        } else if (axis < 0 && g->matrix < 0 && base->type->rank == 1 &&
                   dtype_is_int(base->type->dtype) && (varies & (varies - 1)) == 0) {
            g->chosen = (Value *)base;
            g->matrix = i;
        } else {
            return false;
        }
    }
    g->row = AXES - g->k - g->column;
    return g->matrix >= 0 && g->w_column >= 0 &&
           an_varies(NULL, gather->operands[1 + g->matrix]) == 1u << g->row;
}

/* The first factor has the axes of the rows and of k. */
static bool read_rows(Grouped *g, Value *factor)
{
    unsigned wanted = 1u << g->row | 1u << g->k;
    if (an_varies(NULL, factor) != wanted) {
        return false;
    }
    g->rows = behind_casts(factor);
    Type type = g->rows->type, product = factor->type;
    if (type->rank != 2 || !dtype_is_float(type->dtype)) {
        return false;
    }
    g->rows_axis = g->row < g->k ? 0 : 1; /* stretching keeps the order of axes */
    return type->dims[g->rows_axis] == product->dims[g->row] &&
           type->dims[1 - g->rows_axis] == product->dims[g->k];
}

static bool find_grouped(Func *func, Op *op, Grouped *g)
{
    const Op *mul = op->kind == OP_REDUCE && op->n_operands == 1 ? op->operands[0]->def : NULL;
    if (!mul || mul->kind != OP_MUL || op->parent != func->body ||
        !text_equal(op_word(op, ATTR_FN), "sum") || mul->results[0]->type->rank != AXES ||
        !dtype_is_float(mul->results[0]->type->dtype)) {
        return false;
    }
    for (int side = 0; side < 2; side++) {
        const Op *gather = behind_casts(mul->operands[side])->def;
        *g = (Grouped){.func = func, .reduce = op, .gather = gather};
        g->k = (int)op_int(op, ATTR_AXIS, 0);
        if (gather && gather->kind == OP_GATHER && gather->results[0]->type->rank == AXES &&
            dtype_is_float(gather->results[0]->type->dtype) && read_gather(g) &&
            read_rows(g, mul->operands[1 - side])) {
            return true;
        }
    }
    return false;
}

/* ---- runs ---- */

typedef struct Runs {
    Value *run;   /* tensor of i64 [R]: at each row, the number of its run */
    Value *which; /* tensor of i64 [R]: of each run, the matrix */
} Runs;

/* An array as a tensor; what is computed is stored first. */
static Value *in_memory(Func *func, Builder *b, Value *value)
{
    const Op *load = value->def;
    Access access = load && load->kind == OP_LOAD ? op_access(load, 0) : (Access){.n = 0};
    if (access.n == value->type->rank && access.memory->type->kind == TYPE_TENSOR &&
        op_accesses_whole(load)) {
        return access.memory;
    }
    Value *tensor = func_scratch(func, value->type);
    build_store(b, tensor, WHOLE, value);
    return tensor;
}

/* A run begins with a tile of rows, and where the index is another one than before. Its number is
 * at least that of the tile's first row, and counts up. */
static Runs number_runs(const Grouped *g, Builder *b)
{
    Func *func = g->func;
    Dim rows = g->chosen->type->dims[0];
    Value *chosen = in_memory(func, b, g->chosen);
    Type type = type_array(func, DT_I64, 1, &rows);
    Runs runs = {func_scratch(func, type), func_scratch(func, type)};
    static const char *const name[] = {"i"};
    static const int64_t step[] = {ROWS};
    Op *nest = build_parallel(b, OP_PARALLEL, 1, &rows, step, name);
    Builder in = build_at_end(func, nest->regions[0]);
    Value *range = nest->regions[0]->args[0];
    Dim tile = range->type->dims[0];
    Value *first = build_range_fact(&in, OP_START, range);
    first = build_broadcast(&in, build_expand(&in, first, 0), 1, &tile);
    Value *row = build_index(&in, range, DT_I64), *one = build_int(&in, row->type, 1);
    Value *before = build_binary(&in, OP_MAX, build_binary(&in, OP_SUB, row, one), first);
    Value *own = build_load(&in, chosen, &range), *last = build_gather(&in, chosen, &before);
    Value *begins = build_cast(&in, build_cmp(&in, "ne", own, last), DT_I64);
    Value *count = build_scan(&in, "sum", begins, 0, false, false);
    Value *number = build_binary(&in, OP_ADD, first, count);
    build_store(&in, runs.run, &range, number);
    Value *matrix = build_cast(&in, own, DT_I64);
    build_scatter(&in, "set", runs.which, &number, matrix, NULL, NULL, false);
    return runs;
}

/* ---- the nest ---- */

/* A step of the product: a tile of the rows by a tile of the matrix, in the type of the sum where
 * their types differ. */
static Value *product_step(const Grouped *g, Builder *b, Value *const *tile, Value *x,
                           Value *matrix, Value *sums)
{
    Value *places[2], *in_matrix[AXES];
    places[g->rows_axis] = tile[g->row];
    places[1 - g->rows_axis] = tile[g->k];
    for (int i = 0; i < AXES; i++) {
        if (i == g->matrix) {
            in_matrix[i] = matrix;
        } else if (i == g->w_column) {
            in_matrix[i] = tile[g->column];
        } else {
            in_matrix[i] = tile[g->k];
        }
    }
    static const int64_t turned[] = {1, 0};
    Value *left = build_load(b, x, places);
    Value *right = build_load(b, g->gather->operands[0], in_matrix);
    int k_axis = AXES - g->matrix - g->w_column;
    int64_t guards[AXES] = {0};
    guards[g->matrix] = 1; /* as the gather, it reads zeros outside */
    op_set_ints(g->func, right->def, ATTR_GUARD, AXES, guards);
    left = g->rows_axis == 0 ? left : build_permute(b, left, turned);
    right = k_axis < g->w_column ? right : build_permute(b, right, turned);
    DType sum = sums->type->dtype;
    if (left->type->dtype != right->type->dtype) {
        left = build_cast(b, left, sum);
        right = build_cast(b, right, sum);
    }
    return build_binary(b, OP_ADD, sums, build_dot(b, left, right, NULL, sum));
}

/* All of k for one run. */
static Value *run_product(const Grouped *g, Builder *b, Value *const *grid, Value *x, Value *matrix,
                          Type tile)
{
    Dim k = g->reduce->operands[0]->type->dims[g->k];
    Value *sums = build_float(b, tile, 0);
    Value *hi = build_size(b, k), *lo = build_i64(b, 0);
    Op *loop = build_for(b, k, DEPTH, "k", lo, hi, 1, &sums);
    Block *body = loop->regions[0];
    Value *at[AXES];
    at[g->row] = grid[0];
    at[g->column] = grid[1];
    at[g->k] = body->args[0];
    Builder in = build_at_end(g->func, body);
    Value *next = product_step(g, &in, at, x, matrix, body->args[1]);
    build_yield(&in, 1, &next);
    return loop->results[0];
}

/* Stores the rows of the run. */
static void store_rows(const Grouped *g, Builder *b, Value *const *grid, Value *to, Value *run,
                       const Runs *runs, Value *product)
{
    const Dim *dims = product->type->dims;
    Dim column[] = {dims[0], poly_const(g->func, 1)};
    Value *own = build_expand(b, build_load(b, runs->run, &grid[0]), 1);
    Value *same = build_cmp(b, "eq", own, build_broadcast(b, run, 2, column));
    Value *places[] = {build_expand(b, build_index(b, grid[0], DT_I64), 1),
                       build_expand(b, build_index(b, grid[1], DT_I64), 0)};
    for (int i = 0; i < 2; i++) {
        places[i] = build_broadcast(b, places[i], 2, dims);
    }
    product = build_cast(b, product, to->type->dtype);
    build_scatter(b, "set", to, places, product, NULL, build_broadcast(b, same, 2, dims), false);
}

/* The tile's rows, run after run: each row is in one. */
static void build_runs(const Grouped *g, Builder *b, Value *const *grid, Value *x, Value *to,
                       const Runs *runs)
{
    Dim rows = g->chosen->type->dims[0];
    Dim dims[] = {grid[0]->type->dims[0], grid[1]->type->dims[0]};
    Type tile = type_array(g->func, g->reduce->results[0]->type->dtype, 2, dims);
    Value *first = build_range_fact(b, OP_START, grid[0]);
    Value *last = build_previous(b, build_range_fact(b, OP_END, grid[0]));
    Value *one = build_i64(b, 1);
    Value *hi = build_binary(b, OP_ADD, build_load(b, runs->run, &last), one);
    Op *loop = build_for(b, rows, 1, "run", first, hi, 0, NULL);
    Builder in = build_at_end(g->func, loop->regions[0]);
    Value *run = build_range_fact(&in, OP_START, loop->regions[0]->args[0]);
    Value *matrix = build_load(&in, runs->which, &run);
    Value *product = run_product(g, &in, grid, x, matrix, tile);
    store_rows(g, &in, grid, to, run, runs, product);
    build_yield(&in, 0, NULL);
}

/* ---- where the result goes ---- */

/* The only store of the result, as it is or rounded, with the rows as they are; NULL: it is used in
 * another way. */
static Op *only_store(const Grouped *g)
{
    Value *value = g->reduce->results[0];
    DType sum = value->type->dtype;
    for (Op *user = value_only_user(g->func, value); user; user = value_only_user(g->func, value)) {
        if (user->kind == OP_STORE) {
            Access access = op_access(user, 0);
            bool whole = access.n == 2 && !access.indices[0] && !access.indices[1];
            return whole && g->row < g->column && user->parent == g->func->body ? user : NULL;
        }
        if (user->kind == OP_CAST && dtype_is_float(user->results[0]->type->dtype) &&
            value->type->dtype == sum) {
            value = user->results[0];
            continue;
        }
        if (user->kind != OP_SQUEEZE) {
            return NULL;
        }
        value = user->results[0];
    }
    return NULL;
}

/* Where warp groups multiply, a tile is as wide as their instruction: it asks the second-level
 * cache for fewer bytes a product. */
static int64_t columns_of(const Grouped *g)
{
    const Target *target = g->func->target;
    bool narrow = dtype_bytes(g->rows->type->dtype) == 2 &&
                  g->rows->type->dtype == g->gather->results[0]->type->dtype;
    const MatrixInstr *group = target && target->has_setmaxnreg ? mma_warpgroup(target) : NULL;
    Dim columns = g->reduce->operands[0]->type->dims[g->column];
    return narrow && group && poly_most(columns) > COLUMNS ? group->max_n : COLUMNS;
}

static void build_nest(const Grouped *g, Builder *b, Value *to, const Runs *runs)
{
    Value *x = in_memory(g->func, b, g->rows);
    Type product = g->reduce->operands[0]->type;
    Dim dims[] = {product->dims[g->row], product->dims[g->column]};
    static const char *const names[] = {"i", "n"};
    int64_t steps[] = {ROWS, columns_of(g)};
    Op *nest = build_parallel(b, OP_PARALLEL, 2, dims, steps, names);
    Builder in = build_at_end(g->func, nest->regions[0]);
    build_runs(g, &in, nest->regions[0]->args, x, to, runs);
}

static void group(const Grouped *g)
{
    Func *func = g->func;
    Op *store = only_store(g);
    Builder b = build_before(func, store ? store : g->reduce);
    b.span = g->reduce->span;
    Runs runs = number_runs(g, &b);
    if (store) {
        build_nest(g, &b, op_access(store, 0).memory, &runs);
        op_remove(store);
        return;
    }
    Type product = g->reduce->operands[0]->type;
    Dim dims[] = {product->dims[g->row], product->dims[g->column]};
    Value *result =
        func_scratch(func, type_array(func, g->reduce->results[0]->type->dtype, 2, dims));
    build_nest(g, &b, result, &runs);
    static const int64_t turned[] = {1, 0};
    Value *value = build_load(&b, result, WHOLE);
    value = g->row < g->column ? value : build_permute(&b, value, turned);
    func_replace_uses(func, g->reduce->results[0], build_expand(&b, value, g->k));
}

/* ---- the pass ---- */

static void advise(const Grouped *g)
{
    const Op *load = g->chosen->def;
    const char *name = load && load->kind == OP_LOAD ? load->operands[0]->name : NULL;
    Diag *d = diag_warning(g->func->diags, ERR_SCATTERED_ROWS, g->gather->span,
                           "each row is multiplied separately by the matrix that it selects");
    diag_help(g->func->diags, d,
              "if rows of the same matrix are adjacent, declare it: `assume sorted(%s)`",
              name ? name : "index");
}

static void try_reduce(Op *op, void *user)
{
    Func *func = user;
    Grouped g;
    if (!find_grouped(func, op, &g)) {
        return;
    }
    if (an_never_falls(func, g.chosen, 0)) {
        group(&g);
    } else {
        advise(&g);
    }
}

void pass_group_rows(Func *func)
{
    func_walk(func, try_reduce, func);
    func_remove_dead(func);
}
