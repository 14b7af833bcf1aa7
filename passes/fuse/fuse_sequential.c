/* SPDX-License-Identifier: Apache-2.0 */
/* Loops and choices of the source with a cross-element dependence: the next step reads, at any
 * index, what one step stores. Where the elements that depend on one another are rows that a block
 * can hold, each block runs the loop for its own rows. Otherwise the arrays that the loop carries
 * are intermediates, and tile_sequential.c finds what each block can keep private:
 *
 *   %r = for %a { (%t, %x)                store %s[:], %a
 *     %b = gather %x[%i]            →     for { (%t) %x = load %s[:]; %b = gather %x[%i]
 *     yield %b }                            store %n[:], %b; store %s[:], load %n[:] }
 *                                         %r = load %s[:]
 *
 * The statements inside of such a region are then fused like those of a function's body. */
#include "passes/fuse/fuse_value_at.h"

#include "ir/schedule.h"
#include "ir/target/target.h"

enum {
    MAX_RECOMPUTED = 16, /* ops outside of a loop that each step computes again */
    HELD_THREAD = 8,     /* elements of a row that is carried and folded in each step, at most */
    MANY_ROWS = 32,      /* blocks that walk a loop, each for rows of its own */
};

/* ---- which ---- */

bool fuse_is_serial(const Op *op)
{
    bool found = false;
    for (int r = 0; r < op->n_regions; r++) {
        for (const Op *inner = op->regions[r]->first; inner; inner = inner->next) {
            found = found || inner->kind == OP_PARALLEL || fuse_is_serial(inner);
        }
    }
    return found;
}

typedef struct Classes {
    int items[256];
    Dim dims[256]; /* extents of these */
    int n;
} Classes;

typedef struct Mixing {
    Func *func;
    Axes axes;
    Classes carried, chosen; /* by loops; what choices hand out */
    Classes held;            /* of them: what blocks hold whole */
    int64_t elements;        /* of these */
    Classes far;             /* along which a step reads elements of other places */
    bool products;
    const Op *first; /* that writes */
    Block *block;
    bool found;
} Mixing;

static void add_classes(const Mixing *m, Classes *to, const Value *value)
{
    for (int k = 0; type_is_tile(value->type) && k < value->type->rank && to->n < 256; k++) {
        to->dims[to->n] = value->type->dims[k];
        to->items[to->n++] = axes_class(&m->axes, value, k);
    }
}

static void collect_carried(Op *op, void *user)
{
    Mixing *m = user;
    m->products = m->products || op->kind == OP_DOT;
    for (int r = 0; r < op->n_regions && op->kind != OP_FOLD; r++) {
        for (int i = 0; i < op->regions[r]->n_args; i++) {
            add_classes(m, &m->carried, op->regions[r]->args[i]);
        }
    }
    for (int i = 0; i < op->n_results && op->kind == OP_IF; i++) {
        add_classes(m, &m->chosen, op->results[i]);
    }
}

/* Does the gather read, along this axis of its array, at the place of each of its elements? */
static bool reads_own_place(const Mixing *m, const Op *gather, int axis)
{
    Type type = gather->results[0]->type;
    int own = fuse_own_axis(gather->operands[1 + axis], type);
    return own >= 0 && axes_class(&m->axes, gather->results[0], own) ==
                           axes_class(&m->axes, gather->operands[0], axis);
}

/* Products, and axes along which arrays are read at computed places: not the matrix of a batch from
 * which an element is read. */
static void find_far_reads(Op *op, void *user)
{
    Mixing *m = user;
    const Value *array = op->kind == OP_GATHER ? op->operands[0] : NULL;
    m->products = m->products || op->kind == OP_DOT;
    for (int i = 0; array && array->type->kind == TYPE_ARRAY && i < array->type->rank; i++) {
        if (m->far.n < 256 && !reads_own_place(m, op, i)) {
            m->far.dims[m->far.n] = array->type->dims[i];
            m->far.items[m->far.n++] = axes_class(&m->axes, array, i);
        }
    }
}

static bool is_far(const Mixing *m, int class)
{
    bool far = m->far.n == 256;
    for (int i = 0; i < m->far.n; i++) {
        far = far || m->far.items[i] == class;
    }
    return far;
}

/* Is an axis of what is carried only stored along, and long enough for the blocks of a device? */
static bool has_independent_rows(const Mixing *m)
{
    bool found = false;
    for (int i = 0; i < m->carried.n && !m->products; i++) {
        int class = m->carried.items[i];
        bool independent = class >= 0 && !is_far(m, class) &&
                           !(axes_flags(&m->axes, class) & ~(unsigned)AXIS_STORED);
        found = found || (independent && poly_most(m->carried.dims[i]) >= MANY_ROWS);
    }
    return found;
}

static bool is_among(const Mixing *m, const Classes *classes, const Value *value, int axis)
{
    int class = axes_class(&m->axes, value, axis);
    for (int i = 0; i < classes->n && class >= 0; i++) {
        if (classes->items[i] == class) {
            return true;
        }
    }
    return false;
}

/* May a block hold the whole axis, in addition to those that it holds already? One of no elements
 * would have no block. */
static bool hold(Mixing *m, const Value *value, int axis)
{
    Dim dim = value->type->dims[axis];
    const DimVar *var = poly_as_var(dim);
    int64_t most = poly_most(dim);
    const char *name = var ? var->name : NULL;
    const ScheduleEntry *own = name ? schedule_user_entry(m->func, "reduction", name) : NULL;
    const ScheduleEntry *rows = own ? own : schedule_user_entry(m->func, "reduction", "");
    const ScheduleEntry *tile = name ? schedule_user_entry(m->func, "tile", name) : NULL;
    if (!m->func->target || m->func->target->family == FAMILY_CPU) {
        return false;
    }
    if (is_among(m, &m->held, value, axis)) {
        return true;
    }
    int64_t capacity = (int64_t)m->func->target->max_threads * HELD_THREAD / m->elements;
    if (most > capacity || poly_least(dim) < 1 || m->products ||
        (rows && text_equal(rows->symbol, "looped")) || (tile && tile->number < most)) {
        return false;
    }
    m->elements *= most > 0 ? most : 1;
    m->held.items[m->held.n++] = axes_class(&m->axes, value, axis);
    return m->held.n < 256;
}

/* Inside of a choice a reduction may walk a row that is handed out; what a scan carries along it,
 * and rows of a product's tiles, no loop around the choice has. */
static bool folds_across(Mixing *m, const Op *op)
{
    bool scan = op->kind == OP_SCAN || op_int(op, ATTR_SCAN, 0);
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    return (is_among(m, &m->carried, op->operands[0], axis) && !hold(m, op->operands[0], axis)) ||
           ((scan || m->products) && is_among(m, &m->chosen, op->operands[0], axis));
}

typedef struct Reading {
    const Value *memory;
    bool read;
} Reading;

static void find_read(Op *op, void *user)
{
    Reading *reading = user;
    bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
    reading->read = reading->read || (reads && op->operands[0] == reading->memory);
}

static bool writes_otherwise(Mixing *m, Op *op)
{
    const Value *a = axes_written(op), *b = m->first ? axes_written(m->first) : a;
    Reading reading = {op->operands[0], false};
    bool same = a->type->rank == b->type->rank;
    for (int i = 0; same && i < a->type->rank; i++) {
        same = a->type->dims[i] == b->type->dims[i];
    }
    m->first = m->first ? m->first : op;
    if (op->kind == OP_STORE || op->kind == OP_SCATTER) {
        block_walk(m->block, find_read, &reading);
    }
    return !same || reading.read;
}

static void look_for_folds(Op *op, void *user)
{
    Mixing *m = user;
    if (op->kind == OP_REDUCE || op->kind == OP_SCAN || op->kind == OP_FOLD) {
        m->found = m->found || folds_across(m, op);
    } else if (op->kind == OP_DOT) {
        const Value *a = op->operands[0];
        m->found = m->found || is_among(m, &m->carried, a, a->type->rank - 1);
    }
}

static void look_for_mixing(Op *op, void *user)
{
    Mixing *m = user;
    look_for_folds(op, user);
    if (op->kind == OP_GATHER) {
        m->found = m->found || op->operands[0]->type->kind == TYPE_ARRAY;
    } else if (axes_written(op)) {
        m->found = m->found || writes_otherwise(m, op);
    }
}

/* Each element of a lane's `while` has its own condition: nothing in it mixes elements. */
static bool is_uniform(const Op *op)
{
    return op->kind == OP_FOR || op->kind == OP_IF ||
           (op->kind == OP_WHILE && !type_is_tile(op->regions[0]->last->operands[0]->type));
}

bool fuse_is_uniform(const Op *op)
{
    return is_uniform(op) && !fuse_is_serial(op);
}

bool fuse_steps_mix(Func *func, const Axes *axes, Block *group)
{
    bool found = false;
    for (Op *op = group->first; op && !found; op = op->next) {
        if (op->n_regions && fuse_is_uniform(op)) {
            Mixing m = {.func = func, .axes = *axes, .elements = 1, .block = group};
            collect_carried(op, &m);
            for (int r = 0; r < op->n_regions; r++) {
                block_walk(op->regions[r], collect_carried, &m);
            }
            for (int r = 0; r < op->n_regions; r++) {
                block_walk(op->regions[r], look_for_folds, &m);
            }
            found = m.found;
        }
    }
    return found;
}

/* Does the op hold something that may mix elements, or walk one value in two ways? Where all is
 * element by element, whatever the op is made of decides nothing. */
static bool may_mix(const Op *op)
{
    for (int r = 0; r < op->n_regions; r++) {
        for (const Op *in = op->regions[r]->first; in; in = in->next) {
            bool spread = in->kind == OP_BROADCAST && type_is_scalar(in->operands[0]->type);
            bool plain = op_has(in, TRAIT_ELEMENTWISE) || in->kind == OP_CONST ||
                         in->kind == OP_LOAD || spread || in->kind == OP_SIZE ||
                         in->kind == OP_YIELD || is_uniform(in);
            if (!plain || may_mix(in)) {
                return true;
            }
        }
    }
    return false;
}

/* The arrays that the op reads may be made by the same launch, or (`independent`) are in memory
 * before: then blocks may walk the loop for rows of their own. */
static bool mixes(Func *func, Op *op, bool independent)
{
    if (!fuse_is_uniform(op) || !may_mix(op)) {
        return false;
    }
    uint32_t n_values = func->n_values;
    Builder at = build_before(func, op);
    FusionGroup group = fuse_group(func, &at, 1, &op);
    Value *costly;
    Mixing m = {.func = func, .elements = 1, .block = group.parallel->regions[0]};
    m.found = !fuse_resolve_axis_conflicts(func, &group, &costly);
    m.axes = an_axes(func, m.block);
    block_walk(m.block, collect_carried, &m);
    if (independent) {
        m.products = false;
        for (Op *in = m.block->first; in; in = in->next) { /* not what arrays outside are made of */
            for (int r = 0; r < in->n_regions && in->kind == op->kind; r++) {
                block_walk(in->regions[r], find_far_reads, &m);
            }
        }
    }
    block_walk(m.block, look_for_mixing, &m);
    m.found = m.found && !(independent && has_independent_rows(&m));
    axes_done(&m.axes);
    op_remove(group.parallel);
    func->n_values = n_values; /* or tables by number would grow with every look */
    return m.found;
}

bool fuse_has_cross_dependence(Func *func, Op *op)
{
    return mixes(func, op, false);
}

bool fuse_steps_need_all(Func *func, Op *op)
{
    return mixes(func, op, true);
}

/* ---- values from outside ---- */

typedef struct Outer {
    Func *func;
    const Op *op;
    Value *wanted;
} Outer;

/* Is the memory that it reads written again after it, in its block? */
static bool is_changed(const Func *func, const Op *read)
{
    bool reads = (read->kind == OP_LOAD || read->kind == OP_GATHER) &&
                 read->operands[0]->type->kind == TYPE_TENSOR;
    ParamIo io = reads ? func->params.items[read->operands[0]->index].io : PARAM_IN;
    for (const Op *op = read->next; op && io == PARAM_SCRATCH; op = op->next) {
        if (op->kind == OP_STORE && op->operands[0] == read->operands[0]) {
            return true;
        }
    }
    return io != PARAM_IN && io != PARAM_SCRATCH;
}

static int cost_below(const Func *func, const Value *value)
{
    const Op *op = value->def;
    if (!op) {
        return 0;
    }
    bool changing = is_changed(func, op);
    if (op->n_regions || op->kind == OP_REDUCE || op->kind == OP_SCAN || op->kind == OP_DOT ||
        changing) {
        return MAX_RECOMPUTED + 1;
    }
    int cost = op->kind != OP_LOAD;
    for (int i = 0; i < op->n_operands && cost <= MAX_RECOMPUTED; i++) {
        cost += op->operands[i] ? cost_below(func, op->operands[i]) : 0;
    }
    return cost;
}

static void look_outside(Op *inner, void *user)
{
    Outer *outer = user;
    for (int i = 0; i < inner->n_operands && !outer->wanted; i++) {
        Value *value = inner->operands[i];
        const Block *block = NULL;
        if (value) {
            block = value->def ? value->def->parent : value->block;
        }
        while (block && block->parent != outer->op) {
            block = block->parent ? block->parent->parent : NULL;
        }
        if (value && !block && value->def && value->type->kind == TYPE_ARRAY &&
            cost_below(outer->func, value) > MAX_RECOMPUTED) {
            outer->wanted = value;
        }
    }
}

Value *fuse_wanted_outside(Func *func, Op *op)
{
    Outer outer = {func, op, NULL};
    look_outside(op, &outer);
    for (int r = 0; r < op->n_regions; r++) {
        block_walk(op->regions[r], look_outside, &outer);
    }
    return outer.wanted;
}

/* ---- carried arrays ---- */

typedef struct Carried {
    Value *now, *next; /* intermediates; NULL: a scalar, carried as before */
} Carried;

/* Region arguments that are arrays are read at the region's start. */
static void read_args(Func *func, Block *region, int first, const Carried *carried, int n)
{
    Builder b = region->first ? build_before(func, region->first) : build_at_end(func, region);
    for (int i = 0; i < n; i++) {
        if (carried[i].now) {
            Value *read = build_load(&b, carried[i].now, WHOLE);
            block_replace_uses(region, region->args[first + i], read);
        }
    }
}

/* At the region's end, the new ones; all of them are made before one is changed. */
static void write_yields(Func *func, Block *region, Carried *carried, int n)
{
    Op *yield = region->last;
    Builder b = build_before(func, yield);
    for (int i = 0; i < n; i++) {
        if (carried[i].now) {
            build_store(&b, carried[i].next, WHOLE, yield->operands[i]);
        }
    }
    for (int i = 0; i < n; i++) {
        if (carried[i].now && carried[i].next != carried[i].now) {
            build_store(&b, carried[i].now, WHOLE, build_load(&b, carried[i].next, WHOLE));
        }
    }
}

static void keep_scalars(Func *func, Op *yield, const Carried *carried, int n)
{
    Value **left = ARENA_ARRAY(func->arena, Value *, n + 1);
    int count = 0;
    for (int i = 0; i < n; i++) {
        if (!carried[i].now) {
            left[count++] = yield->operands[i];
        }
    }
    op_set_operands(func, yield, count, left);
}

/* The same op with what it still carries; its regions' ops move over. */
static Op *without_arrays(Func *func, Op *op, const Carried *carried, int n, int inits, int args)
{
    Builder b = build_before(func, op);
    Value **left = ARENA_ARRAY(func->arena, Value *, op->n_operands + 1);
    Type *types = ARENA_ARRAY(func->arena, Type, n + 1);
    int count = 0;
    for (int i = 0; i < inits; i++) {
        left[count++] = op->operands[i];
    }
    int results = 0;
    for (int i = 0; i < n; i++) {
        if (!carried[i].now) {
            types[results++] = op->results[i]->type;
            if (op->kind != OP_IF) {
                left[count++] = op->operands[inits + i];
            }
        }
    }
    Op *copy = build_op(&b, op->kind, count, left, results, types, op->n_regions);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    for (int r = 0; r < op->n_regions; r++) {
        Block *from = op->regions[r], *to = copy->regions[r];
        for (int i = 0; i < from->n_args; i++) {
            if (i < args || !carried[i - args].now) {
                Value *arg = block_arg(func, to, from->args[i]->type, from->args[i]->name);
                block_replace_uses(from, from->args[i], arg);
            }
        }
        while (from->first) {
            op_move_to_end(from->first, to);
        }
    }
    return copy;
}

static void replace_results(Func *func, Op *op, Op *copy, const Carried *carried, int n)
{
    Builder after = build_after(func, copy);
    for (int i = 0, kept = 0; i < n; i++) {
        Value *by =
            carried[i].now ? build_load(&after, carried[i].now, WHOLE) : copy->results[kept++];
        by->name = op->results[i]->name;
        func_replace_uses(func, op->results[i], by);
    }
}

Op *fuse_serialize(Func *func, Op *op)
{
    int n = op->n_results, inits = 1;
    if (op->kind == OP_WHILE) {
        inits = 0;
    } else if (op->kind == OP_FOR) {
        inits = 2;
    }
    int args = op->kind == OP_FOR ? 1 : 0;
    Carried *carried = ARENA_ARRAY(func->arena, Carried, n + 1);
    Builder b = build_before(func, op);
    for (int i = 0; i < n; i++) {
        if (type_is_tile(op->results[i]->type)) {
            carried[i].now = func_scratch(func, op->results[i]->type);
            carried[i].next = carried[i].now;
            if (op->kind != OP_IF) {
                carried[i].next = func_scratch(func, op->results[i]->type);
                build_store(&b, carried[i].now, WHOLE, op->operands[inits + i]);
            }
        }
    }
    for (int r = 0; r < op->n_regions; r++) {
        bool yields = op->kind != OP_WHILE || r == 1;
        if (op->kind != OP_IF) {
            read_args(func, op->regions[r], args, carried, n);
        }
        if (yields) {
            write_yields(func, op->regions[r], carried, n);
            keep_scalars(func, op->regions[r]->last, carried, n);
        }
    }
    Op *copy = without_arrays(func, op, carried, n, inits, args);
    replace_results(func, op, copy, carried, n);
    op_remove(op);
    return copy;
}
