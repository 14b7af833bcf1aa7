/* SPDX-License-Identifier: Apache-2.0 */
/* Which step each axis gets. Everything here ends in a schedule line: what the user wrote, else
 * what is derived from the target's facts and what is known of the sizes, with the reason. */
#include "passes/tile.h"

#include <string.h>

enum {
    THREAD_ELEMENTS = 16,     /* of one value that a GPU thread holds in a memory-bound kernel */
    ROW_ELEMENTS = 32,        /* the same where rows are reduced: fewer threads to meet */
    BLOCK_ELEMENTS = 4096,    /* of a memory-bound block, unless a row is longer */
    THREAD_ACCUMULATORS = 64, /* of a product by fused multiply-adds: 8 by 8 */
    ROW_MOST_THREAD = 32,     /* elements of a resident row that a thread may hold */
    ROW_MOST_CPU = 32768, /* elements of a resident row on a CPU: stays in the second-level cache */
    BUSY_THREADS = 1024,  /* of a multiprocessor, in a memory-bound kernel */
    LOOPS_ALONE = 4,      /* steps of loops shrink by up to this before those of grids do */
    SHARED_SLACK = 4096,  /* of shared memory, for reductions and barriers */
    THREAD_HELD_BYTES = 800, /* of accumulators and operands that a thread may hold */
    ACCESS_BYTES = 16,       /* of one access of a thread */
    LOOP_STEP = 8192,        /* of a row that does not fit */
    UNIT_ROWS = 64,          /* of which tiles of a matrix unit are multiples */
    UNIT_COLUMNS = 16,
    UNIT_DEPTH = 16,
};

static int64_t power_of_two_at_least(int64_t n)
{
    int64_t power = 1;
    while (power < n && power < ((int64_t)1 << 40)) {
        power *= 2;
    }
    return power;
}

static int64_t power_of_two_at_most(int64_t n)
{
    return n < 1 ? 1 : power_of_two_at_least(n / 2 + 1);
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool is_gpu(const Func *func)
{
    return func->target->family != FAMILY_CPU;
}

/* A tile of at most `wanted` that is no longer than it must be for the axis. */
static int64_t fitted(Dim dim, int64_t wanted)
{
    return smaller(wanted, power_of_two_at_least(larger(1, smaller(poly_most(dim), wanted))));
}

static int64_t checked_step(Func *func, const char *name, int64_t step)
{
    const Line *line = schedule_given(func, "tile", name);
    if (step >= 1 && step <= (1 << 20)) {
        return step;
    }
    Diag *d = diag_error(func->diags, 503, line ? line->span : SPAN_NONE,
                         "`tile %s %lld`: a tile has 1 to 1048576 elements an axis", name,
                         (long long)step);
    (void)d;
    return 1;
}

static void set_step(Func *func, AxisPlan *axis, AxisHow how, int64_t derived, const char *reason)
{
    /* What is not stored has no place in the grid: a loop inside the block walks it. */
    axis->how = how == AXIS_GRID && !(axis->flags & AXIS_STORED) ? AXIS_LOOP : how;
    axis->step = checked_step(func, axis->name,
                              schedule_number(func, "tile", axis->name, derived, "%s", reason));
}

/* ---- the unit that multiplies ---- */
static bool narrow(DType operands)
{
    return operands == DT_F16 || operands == DT_BF16;
}

static const char *why_not_unit(const Func *func, DType operands)
{
    return !narrow(operands) ? "%s operands: the matrix units would round them"
           : text_same(func->target->product16, "wgmma")
               ? "%s operands, but tiles that the matrix unit does not take"
               : "%s operands, but no matrix unit that is used here";
}

static void refuse_unit(Func *func, const char *reason, DType operands)
{
    const Line *line = schedule_given(func, "product", "");
    Text why = text_new(func->arena);
    text_printf(&why, reason, dtype_name(operands));
    Diag *d = diag_error(func->diags, 510, line ? line->span : SPAN_NONE,
                         "`product wgmma` is not possible: %s", why.data);
    diag_help(func->diags, d,
              "sm_90a multiplies f16 and bf16 in tiles of %d rows, %d columns and %d deep, or "
              "multiples; `product fma` takes all",
              UNIT_ROWS, UNIT_COLUMNS, UNIT_DEPTH);
}

/* "wgmma" or "fma"; `suits`: the tiles are the unit's, as far as they are known. */
static const char *choose_unit(Func *func, DType operands, bool suits)
{
    if (suits && narrow(operands) && text_same(func->target->product16, "wgmma")) {
        return schedule_word(func, "product", "", "wgmma",
                             "%s operands: the matrix unit multiplies them exactly, in f32",
                             dtype_name(operands));
    }
    const char *reason = why_not_unit(func, operands);
    const char *unit = schedule_word(func, "product", "", "fma", reason, dtype_name(operands));
    if (!text_same(unit, "fma") && func->diags->errors == 0) {
        refuse_unit(func, reason, operands);
    }
    return "fma";
}

const char *product_unit(Func *func, const Op *dot)
{
    Type a = dot->operands[0]->type, c = dot->results[0]->type;
    bool suits = poly_capacity(c->dims[0]) % UNIT_ROWS == 0 &&
                 poly_capacity(c->dims[1]) % UNIT_COLUMNS == 0 &&
                 poly_capacity(a->dims[1]) % UNIT_DEPTH == 0;
    return choose_unit(func, a->dtype, suits);
}

/* ---- products ---- */

static AxisPlan *plan_axis(TilePlan *plan, const Value *value, int axis)
{
    int class = axes_class(plan->axes, value, axis);
    for (int i = 0; i < plan->n; i++) {
        if (plan->items[i].class == class) {
            return &plan->items[i];
        }
    }
    return NULL;
}

static int64_t product_threads(const AxisPlan *m, const AxisPlan *n)
{
    int64_t elements = (m ? m->step : 1) * (n ? n->step : 1);
    return larger(1, elements / THREAD_ACCUMULATORS);
}

/* Rows of 16 bytes: what the copy engine can describe. Other operands pass through registers. */
static bool operands_stay_out(const Func *func, const Op *dot)
{
    for (int side = 0; side < 2; side++) {
        const Op *load = dot->operands[side]->def;
        while (load && load->kind == OP_PERMUTE) {
            load = load->operands[0]->def;
        }
        if (!load || load->kind != OP_LOAD) {
            return false;
        }
        Type tensor = load->operands[0]->type;
        if (tensor->rank < 2 ||
            poly_divisor(tensor->dims[tensor->rank - 1]) * dtype_bytes(tensor->dtype) % 16) {
            return false;
        }
    }
    return func->target->bulk_copy;
}

static void choose_matrix_unit(Func *func, TilePlan *plan, AxisPlan *m, AxisPlan *n)
{
    bool wide = operands_stay_out(func, plan->dot);
    if (m) {
        set_step(func, m, AXIS_GRID, larger(64, fitted(m->dim, 128)),
                 "two warp groups of 64 rows, or one where there are no more rows");
    }
    if (n) {
        int64_t most = larger(32, (wide ? 256 : 128) / power_of_two_at_least(plan->n_dots));
        set_step(func, n, AXIS_GRID, larger(32, fitted(n->dim, most)),
                 most == 256 ? "the widest product instruction, or as wide as the matrix is"
                 : wide      ? "accumulators of all products share a thread's registers"
                             : "operands pass through registers, which accumulators must leave");
    }
    plan->warps = smaller(8, (m ? larger(1, m->step / 64) : 1) * 4);
}

static void choose_fma_unit(Func *func, TilePlan *plan, AxisPlan *m, AxisPlan *n)
{
    /* Narrow operands take registers twice on a GPU: as they are, and widened. */
    bool twice = is_gpu(func) && dtype_bytes(plan->dot->operands[0]->type->dtype) < 4;
    int64_t rows = is_gpu(func) ? 128 : 64;
    int64_t cols = (twice ? 64 : 128) / power_of_two_at_least(plan->n_dots);
    if (m) {
        set_step(func, m, AXIS_GRID, fitted(m->dim, rows),
                 "rows that share each element of the right operand");
    }
    if (n) {
        set_step(func, n, AXIS_GRID, fitted(n->dim, cols),
                 "columns that share each element of the left operand");
    }
    plan->warps =
        smaller(256 / func->target->warp, larger(1, product_threads(m, n) / func->target->warp));
}

/* Do the user's tiles, where there are any, suit the matrix unit? */
static bool given_suit(Func *func, const TilePlan *plan, const AxisPlan *m, const AxisPlan *n)
{
    bool suit = true;
    for (int i = 0; i < plan->n; i++) {
        const AxisPlan *axis = &plan->items[i];
        const Line *line = schedule_given(func, "tile", axis->name);
        int64_t unit = axis == m ? UNIT_ROWS : axis == n ? UNIT_COLUMNS : UNIT_DEPTH;
        bool batch = axis != m && axis != n && (axis->flags & AXIS_STORED);
        suit = suit && (!line || batch || line->number % unit == 0);
    }
    return suit;
}

static void choose_product(Func *func, TilePlan *plan)
{
    DType operands = plan->dot->operands[0]->type->dtype;
    AxisPlan *m = plan_axis(plan, plan->dot->results[0], 0);
    AxisPlan *n = plan_axis(plan, plan->dot->results[0], 1);
    bool suits = given_suit(func, plan, m, n);
    bool wgmma = text_same(choose_unit(func, operands, suits), "wgmma");
    for (int i = 0; i < plan->n; i++) {
        AxisPlan *axis = &plan->items[i];
        if (axis != m && axis != n && (axis->flags & AXIS_STORED)) {
            set_step(func, axis, AXIS_GRID, 1, "no product along this axis");
        } else if (axis != m && axis != n) {
            int64_t bytes = is_gpu(func) ? (wgmma ? 128 : 64) : 1024;
            set_step(func, axis, AXIS_LOOP, bytes / dtype_bytes(operands),
                     wgmma ? "one 128-byte row of swizzled shared memory"
                           : "as deep as the operands' tiles stay small");
        }
    }
    if (wgmma) {
        choose_matrix_unit(func, plan, m, n);
    } else {
        choose_fma_unit(func, plan, m, n);
    }
    if (is_gpu(func) && plan->n_stored == 2) {
        plan->grouped = schedule_number(func, "raster", "grouped", 8,
                                        "tiles of 8 rows share columns of the right operand in L2");
    }
}

/* ---- rows and plain elements ---- */

/* Gives the stored axes that are left steps that multiply to about `elements`, last axis first. */
static void choose_grid(Func *func, TilePlan *plan, int64_t elements)
{
    for (int i = plan->n_stored; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        if (axis->step) {
            continue;
        }
        set_step(func, axis, AXIS_GRID, fitted(axis->dim, larger(1, elements)),
                 "enough elements a block for wide, overlapping accesses");
        elements /= axis->step;
    }
}

static int64_t row_capacity(const Func *func)
{
    return is_gpu(func) ? (int64_t)func->target->max_threads * ROW_MOST_THREAD : ROW_MOST_CPU;
}

static int64_t row_threads(const Func *func, int64_t elements)
{
    int64_t threads = smaller(elements / ROW_ELEMENTS, func->target->max_threads);
    return power_of_two_at_least(larger(func->target->warp, threads));
}

/* Elements that the widest access of a thread moves, of the narrowest tensor. */
static int64_t widest_access(const Op *group)
{
    int bytes = ACCESS_BYTES;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        if (op->kind == OP_LOAD || op->kind == OP_STORE) {
            int own = dtype_bytes(op->operands[0]->type->dtype);
            bytes = own < bytes ? own : bytes;
        }
    }
    return ACCESS_BYTES / bytes;
}

/* A row's tile is whole rounds of accesses by all threads: what is past its end is not loaded,
 * but its registers and their arithmetic would be there. */
static int64_t row_step(const Func *func, const Op *group, int64_t most)
{
    if (!is_gpu(func)) {
        return power_of_two_at_least(larger(1, most));
    }
    int64_t round = row_threads(func, most) * widest_access(group);
    return most <= round ? power_of_two_at_least(larger(1, most))
                         : (most + round - 1) / round * round;
}

/* Returns the elements that a resident row takes, or the loop's step; `inner` are those of row axes
 * inside of this one. */
static int64_t choose_row(Func *func, const Op *group, AxisPlan *axis, int64_t inner)
{
    int64_t most = poly_most(axis->dim);
    bool fits = most <= row_capacity(func) / inner;
    const char *how = schedule_word(func, "rows", "", fits ? "resident" : "looped", "%s",
                                    fits ? "a row fits the registers of one block: it is read once"
                                         : "a row may be longer than what one block can hold");
    if (text_same(how, "resident") && most != INT64_MAX) {
        set_step(func, axis, AXIS_ROW, row_step(func, group, most), "the whole row");
    } else {
        set_step(func, axis, AXIS_LOOP, fitted(axis->dim, larger(1, LOOP_STEP / inner)),
                 "one step along a long row");
    }
    return axis->step;
}

static void choose_memory_bound(Func *func, const Op *group, TilePlan *plan)
{
    int64_t row = 1;
    for (int i = plan->n; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        if (axis->flags & AXIS_STORED && axis->flags & AXIS_REDUCED) {
            row *= choose_row(func, group, axis, row);
        }
    }
    /* Of several reduced axes the last one, which lies contiguous, gets the long steps. */
    for (int i = plan->n; i-- > 0;) {
        AxisPlan *axis = &plan->items[i];
        if (!(axis->flags & AXIS_STORED)) {
            int64_t wanted = larger(1, power_of_two_at_most(LOOP_STEP / 2 / row));
            set_step(func, axis, AXIS_LOOP, fitted(axis->dim, wanted),
                     "one step along a reduced axis");
            row *= axis->step;
        }
    }
    choose_grid(func, plan, power_of_two_at_most(BLOCK_ELEMENTS / row));
    int64_t elements = row;
    for (int i = 0; i < plan->n_stored; i++) {
        elements *= plan->items[i].how == AXIS_GRID ? plan->items[i].step : 1;
    }
    int64_t threads =
        larger(func->target->warp, elements / (row > 1 ? ROW_ELEMENTS : THREAD_ELEMENTS));
    plan->warps =
        power_of_two_at_least(smaller(threads, func->target->max_threads)) / func->target->warp;
}

static int64_t checked_warps(Func *func, int64_t derived, const char *reason)
{
    int64_t most = func->target->max_threads / func->target->warp;
    int64_t warps = schedule_number(func, "warps", "", derived, "%s", reason);
    if (warps < 1 || warps > most || (warps & (warps - 1))) {
        const Line *line = schedule_given(func, "warps", "");
        Diag *d =
            diag_error(func->diags, 504, line ? line->span : SPAN_NONE,
                       "`warps %lld` is not possible on %s", (long long)warps, func->target->name);
        diag_help(func->diags, d, "a power of two from 1 to %lld", (long long)most);
        return derived;
    }
    return warps;
}

/* Memory-bound blocks overlap one another's loads, work and stores: several share a
 * multiprocessor. */
static int64_t checked_blocks(Func *func, int64_t threads, bool wide)
{
    int busy = wide ? BUSY_THREADS : BUSY_THREADS / 2;
    int64_t blocks = schedule_number(
        func, "blocks", "", larger(1, busy / threads),
        wide ? "%d threads of a multiprocessor keep its memory busy"
             : "%d threads of a multiprocessor: guards of single elements take registers",
        busy);
    if (blocks < 1 || blocks > 32 || blocks * threads > 2048) {
        const Line *line = schedule_given(func, "blocks", "");
        Diag *d = diag_error(func->diags, 509, line ? line->span : SPAN_NONE,
                             "`blocks %lld` of %lld threads do not fit a multiprocessor",
                             (long long)blocks, (long long)threads);
        diag_help(func->diags, d, "at most %lld", (long long)larger(1, 2048 / threads));
        return 1;
    }
    return blocks;
}

/* Every tensor's rows can be accessed 16 bytes at a time. */
static bool rows_are_wide(const Op *group)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        if (op->kind != OP_LOAD && op->kind != OP_STORE) {
            continue;
        }
        Type tensor = op->operands[0]->type;
        if (tensor->rank > 1 &&
            poly_divisor(tensor->dims[tensor->rank - 1]) * dtype_bytes(tensor->dtype) % 16) {
            return false;
        }
    }
    return true;
}

void tile_choose(Func *func, Op *group, TilePlan *plan)
{
    if (plan->dot) {
        choose_product(func, plan);
    } else {
        choose_memory_bound(func, group, plan);
    }
    if (is_gpu(func)) {
        plan->warps = checked_warps(func, plan->warps,
                                    plan->dot ? "a thread holds its share of the product's tile"
                                              : "16 elements of each value a thread, 32 of a row");
        if (!plan->dot) {
            int64_t threads = plan->warps * func->target->warp;
            plan->blocks = checked_blocks(func, threads, rows_are_wide(group));
        }
    } else {
        plan->warps = 1;
    }
}

/* ---- parallels of the source ---- */

typedef struct Steps {
    Func *func;
    int64_t shrink; /* divides the source's steps of loops, and beyond LOOPS_ALONE of grids too */
    int64_t shared; /* bytes of products' operands */
    int64_t once, walked, stored;         /* of it: loaded once, by a loop's step; results' tiles */
    int64_t held;                         /* bytes of accumulators and operands in registers */
    int64_t rows, accumulators, elements; /* largest of the products and of all values */
    bool wgmma, any_dot, loops_first;
} Steps;

static int64_t elements_of(Type type)
{
    int64_t n = 1;
    for (int i = 0; i < type->rank; i++) {
        n *= larger(1, poly_capacity(type->dims[i]));
    }
    return n;
}

/* Does a loop's own range index this load? Then each step brings another tile. */
static bool is_walked(const Op *load)
{
    for (int i = 1; i < load->n_operands; i++) {
        const Value *index = load->operands[i];
        const Op *binder = index && index->block ? index->block->parent : NULL;
        if (binder && binder->kind == OP_FOR) {
            return true;
        }
    }
    return false;
}

static void measure_operand(Steps *steps, const Value *operand)
{
    const Op *load = operand->def;
    int64_t bytes = elements_of(operand->type) * dtype_bytes(operand->type->dtype);
    while (load && load->kind == OP_PERMUTE) {
        load = load->operands[0]->def;
    }
    steps->shared += bytes;
    if (!load || load->kind != OP_LOAD) {
        steps->held += bytes;
    } else if (is_walked(load)) {
        steps->walked += bytes;
    } else {
        steps->once += bytes;
    }
}

static void measure_dot(Steps *steps, const Op *op)
{
    Type c = op->results[0]->type;
    steps->any_dot = true;
    steps->wgmma = text_same(product_unit(steps->func, op), "wgmma") || steps->wgmma;
    measure_operand(steps, op->operands[0]);
    measure_operand(steps, op->operands[1]);
    steps->rows = larger(steps->rows, poly_capacity(c->dims[0]));
    steps->accumulators = larger(steps->accumulators, elements_of(c));
    steps->held += elements_of(c) * dtype_bytes(c->dtype);
}

static void measure_op(Op *op, void *user)
{
    Steps *steps = user;
    for (int i = 0; i < op->n_results; i++) {
        if (op->results[i]->type->kind == TYPE_ARRAY) {
            steps->elements = larger(steps->elements, elements_of(op->results[i]->type));
        }
    }
    if (op->kind == OP_DOT) {
        measure_dot(steps, op);
    } else if (op->kind == OP_STORE) {
        Type value = op->operands[op->n_operands - 1]->type;
        steps->stored += elements_of(value) * dtype_bytes(value->dtype);
    }
}

/* The step of the axis as the source has it, or the user's line. */
static int64_t source_step(Func *func, const Value *arg, int64_t written, int64_t shrink,
                           bool exact)
{
    const DimVar *var = poly_as_range(arg->type->dims[0]);
    int64_t base = written > 0 ? written : 128;
    int64_t derived = exact ? base : larger(smaller(base, 16), base / shrink);
    const char *name = var->name ? var->name : "range";
    if (exact) {
        return base;
    }
    return checked_step(func, name,
                        schedule_number(func, "tile", name, derived, "%s",
                                        shrink == 1
                                            ? "as the source says"
                                            : "the source's, divided until the operands of the "
                                              "products fit shared memory"));
}

static void set_steps(Op *op, void *user)
{
    const Steps *steps = user;
    Attr *attr = (Attr *)op_attr(op, ATTR_STEPS);
    if (!attr || (op->kind != OP_PARALLEL && op->kind != OP_FOR)) {
        return;
    }
    bool exact = op_int(op, ATTR_EXACT, 0) != 0;
    for (int i = 0; i < attr->n; i++) {
        if (attr->ints[i] == 0) {
            continue;
        }
        Value *arg = op->regions[0]->args[i];
        DimVar *var = poly_as_range(arg->type->dims[0]);
        /* A matrix unit wants many rows; fused multiply-adds want square tiles. */
        int64_t alone = steps->loops_first ? LOOPS_ALONE : 1;
        int64_t shrink = op->kind == OP_FOR ? steps->shrink : steps->shrink / alone;
        attr->ints[i] = source_step(steps->func, arg, attr->ints[i], larger(1, shrink), exact);
        var->capacity = attr->ints[i];
    }
}

static void walk_group(Op *parallel, WalkFn *fn, Steps *steps)
{
    fn(parallel, steps);
    block_walk(parallel->regions[0], fn, steps);
}

/* The source's own steps, to start again from when they are halved. */
typedef struct Saved {
    struct {
        Attr *attr;
        int64_t step;
        int at;
    } items[64];
    int n;
} Saved;

static void save_steps(Op *op, void *user)
{
    Saved *saved = user;
    Attr *attr = (Attr *)op_attr(op, ATTR_STEPS);
    for (int i = 0; attr && i < attr->n && saved->n < 64; i++) {
        saved->items[saved->n].attr = attr;
        saved->items[saved->n].at = i;
        saved->items[saved->n++].step = attr->ints[i];
    }
}

/* A matrix unit's tiles: two slots of what loops bring, and registers for accumulators. */
static bool unit_steps_fit(const Func *func, const Steps *steps)
{
    int64_t threads = 128 * larger(1, smaller(2, steps->rows / 64));
    return steps->once + steps->stored + 2 * steps->walked + SHARED_SLACK <=
               func->target->shared_bytes &&
           steps->held <= threads * THREAD_HELD_BYTES;
}

static bool steps_fit(const Func *func, const Steps *steps)
{
    if (!is_gpu(func) || !steps->any_dot) {
        return true;
    }
    if (steps->wgmma) {
        return unit_steps_fit(func, steps);
    }
    /* A product by fma also stages operands that come from registers, and loops keep two tiles. */
    return steps->shared <= func->target->shared_bytes * 7 / 8 &&
           steps->accumulators <= (int64_t)256 * THREAD_ACCUMULATORS;
}

static int64_t source_warps(const Func *func, const Steps *steps)
{
    if (steps->wgmma) {
        return smaller(8, power_of_two_at_least(larger(1, steps->rows / 64) * 4));
    }
    int64_t threads = steps->any_dot ? steps->accumulators / (THREAD_ACCUMULATORS / 4)
                                     : steps->elements / THREAD_ELEMENTS;
    threads = smaller(larger(threads, func->target->warp),
                      steps->any_dot ? 256 : func->target->max_threads);
    return power_of_two_at_least(threads / func->target->warp);
}

void tile_choose_source(Func *func, Op *parallel)
{
    Saved saved = {.n = 0};
    Steps steps = {.func = func};
    save_steps(parallel, &saved);
    block_walk(parallel->regions[0], save_steps, &saved);
    walk_group(parallel, measure_op, &steps);
    for (int64_t shrink = 1; shrink <= 64; shrink *= 2) {
        for (int i = 0; i < saved.n; i++) {
            saved.items[i].attr->ints[saved.items[i].at] = saved.items[i].step;
        }
        steps = (Steps){.func = func, .shrink = shrink, .loops_first = steps.wgmma};
        walk_group(parallel, set_steps, &steps);
        walk_group(parallel, measure_op, &steps);
        if (steps_fit(func, &steps)) {
            break;
        }
    }
    int64_t warps = 1;
    if (is_gpu(func)) {
        warps = checked_warps(func, source_warps(func, &steps),
                              "a thread holds its share of the tiles");
    }
    op_set_ints(func, parallel, ATTR_WARPS, 1, &warps);
}
