/* SPDX-License-Identifier: Apache-2.0 */
/* Warns about properties of a scheduled program that cost much time: accesses of which no two lanes
 * share a sector of memory, and tiles that consist mostly of padding. It changes nothing, and
 * without layouts (on a CPU) it reports nothing. */
#include "passes/warn_inefficiency.h"

#include "ir/memo.h"
#include "ir/build.h"
#include "ir/ir_errors.h"
#include "ir/layout/layout.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/tile/tile_hand_tiled.h"

enum {
    SECTOR = 32,         /* bytes that a transaction moves at least */
    SMALL_TILE = 1024,   /* elements; below it is the launch that costs */
    ADJACENT_LANES = 3,  /* bits: 8 neighbours */
    MAX_SMALL = 1 << 16, /* elements of a tensor that caches hold */
    MAX_DEPTH = 16,
    UNIT_ROWS = 64, /* that a matrix unit takes at least */
};

typedef struct Waste {
    Func *func;
    const Op *worst; /* its tile has the least share of elements */
    /* The accumulators' of a matrix unit, whose rows are no choice. */
    struct {
        const Layout **items;
        size_t n, cap;
    } units;
    int64_t elements, slots;
} Waste;

/* ---- coalescing ---- */

/* Does a loop inside of the launch change it? Then what a transaction moves in excess is read in
 * the next rounds. */
static bool find_change(Memo *seen, const Value *value, int depth)
{
    const Op *parent = value->block ? value->block->parent : NULL;
    const Op *def = value->def;
    int64_t known;
    if (depth == 0 || (parent && parent->kind != OP_LAUNCH)) {
        return true;
    }
    if (memo_known(seen, value, depth, &known)) {
        return false; /* or the search would have ended */
    }
    memo_keep(seen, value, depth, 1);
    for (int i = 0; def && i < def->n_operands; i++) {
        if (find_change(seen, def->operands[i], depth - 1)) {
            return true;
        }
    }
    return false;
}

static bool varies(const Value *value)
{
    Memo *seen = memo_about(value);
    bool found = find_change(seen, value, MAX_DEPTH);
    memo_close(seen);
    return found;
}

/* One column of a tensor, the same for the whole launch or a block of it. Where the last axis is
 * walked it is the compiler that chose how. */
static bool is_column(const Access *access)
{
    for (int i = 0; i < access->n; i++) {
        const Value *index = access->indices[i];
        if (index && index->type->kind != TYPE_RANGE && index->type->rank > 0) {
            return false; /* a gather */
        }
    }
    const Value *last = access->indices[access->n - 1];
    return last && last->type->kind != TYPE_RANGE && !varies(last);
}

static bool lanes_move(const Layout *layout)
{
    for (int bit = 0; bit < ADJACENT_LANES; bit++) {
        bool moves = false;
        for (int i = 0; bit < layout->bits[IN_LANE] && i < layout->rank; i++) {
            moves = moves || layout->basis[IN_LANE][bit][i] != 0;
        }
        if (!moves) {
            return false;
        }
    }
    return true;
}

/* Between rows, at most; of rows of any length it is far. */
static int64_t row_bytes(const Type memory)
{
    int64_t most = poly_most(memory->dims[memory->rank - 1]), bytes = dtype_bytes(memory->dtype);
    return most <= INT64_MAX / bytes ? most * bytes : INT64_MAX;
}

static bool is_small(const Type memory)
{
    int64_t elements = 1;
    for (int i = 0; i < memory->rank; i++) {
        int64_t most = poly_most(memory->dims[i]);
        if (most > MAX_SMALL || __builtin_mul_overflow(elements, most, &elements)) {
            return false;
        }
    }
    return elements <= MAX_SMALL;
}

/* Not the source but the caller, or the compiler, chose what a column is. */
static bool has_other_order(const Func *func, const Value *memory)
{
    const Param *param =
        memory->type->kind == TYPE_TENSOR ? &func->params.items[memory->index] : NULL;
    return param && (memory->type->strides || param->axis_perm || param->io == PARAM_SCRATCH);
}

static void check_access(Waste *waste, const Op *op)
{
    Type type = op_moved_value(op)->type;
    Access access = op_access_nth(op, 0);
    Type memory = access.memory ? access.memory->type : NULL;
    if (type->rank == 0 || !type->layout || access.n < 2 || !is_column(&access) ||
        !lanes_move(type->layout) || row_bytes(memory) <= SECTOR || is_small(memory) ||
        has_other_order(waste->func, access.memory)) {
        return;
    }
    bool store = op->kind == OP_STORE;
    const char *name = access.memory->name ? access.memory->name : "a tensor";
    Diag *diag = diag_warning(waste->func->diags, ERR_UNCOALESCED, op->span,
                              "threads %s one column of `%s`: each access is a memory "
                              "transaction of its own",
                              store ? "write" : "read", name);
    diag_help(waste->func->diags, diag,
              "exchange the axes of `%s`, so that adjacent threads access its last axis", name);
}

/* ---- padding ---- */

/* The most elements that an axis of a tile has. */
static int64_t extent_of(Dim dim)
{
    const DimVar *range = poly_as_range(dim);
    int64_t capacity = poly_capacity(dim);
    int64_t whole = range && range->axis_extent ? poly_most(range->axis_extent) : INT64_MAX;
    return whole < capacity && whole > 0 ? whole : capacity;
}

static int64_t slots_of(const Layout *layout, const int64_t *extents)
{
    int64_t slots = 0;
    for (int reg = 0; reg < layout_registers(layout); reg++) {
        slots += layout_register_exists(layout, extents, (uint32_t)reg);
    }
    for (int in = IN_LANE; in <= IN_WARP; in++) {
        for (int bit = 0; bit < layout->bits[in]; bit++) {
            bool moves = false;
            for (int i = 0; i < layout->rank; i++) {
                moves = moves || layout->basis[in][bit][i] != 0;
            }
            slots *= moves ? 2 : 1;
        }
    }
    return slots;
}

static bool is_unit(const Waste *waste, const Layout *layout)
{
    for (size_t i = 0; i < waste->units.n; i++) {
        if (layout_equal(layout, waste->units.items[i])) {
            return true;
        }
    }
    return false;
}

static const ScheduleEntry *tile_line(const Func *func, const char *axis)
{
    for (size_t i = 0; axis && func->schedule && i < func->schedule->entries.n; i++) {
        const ScheduleEntry *line = &func->schedule->entries.items[i];
        if (text_equal(line->key, "tile") && text_equal(line->sub, axis)) {
            return line;
        }
    }
    return NULL;
}

/* Has the source, or the command line, chosen how many elements this axis of the tile has? A line
 * that was derived is the compiler's choice, unless it keeps what the source says; `by exactly`
 * needs none. */
static bool is_chosen(const Func *func, Dim dim)
{
    const DimVar *range = poly_as_range(dim);
    const DimVar *whole = range && range->axis_extent ? poly_as_var(range->axis_extent) : NULL;
    if (!range || !range->name) {
        return false;
    }
    const ScheduleEntry *line = tile_line(func, range->name);
    line = line || !whole ? line : tile_line(func, whole->name);
    return !line || line->origin == ENTRY_SOURCE || line->origin == ENTRY_COMMAND ||
           line->reason == tile_as_source;
}

static bool is_power(int64_t n)
{
    return (n & (n - 1)) == 0;
}

static void check_tile(Waste *waste, const Op *op)
{
    Type type = op->n_results > 0 ? op->results[0]->type : NULL;
    int64_t extents[MAX_RANK], elements = 1;
    bool chosen = false;
    if (!type || type->kind != TYPE_ARRAY || type->rank == 0 || !type->layout ||
        op->span.source < 0) { /* what nothing in the source stands for is no choice of it */
        return;
    }
    for (int i = 0; i < type->rank; i++) {
        extents[i] = extent_of(type->dims[i]);
        if (extents[i] <= 0) {
            return;
        }
        bool unit = i == 0 && is_unit(waste, type->layout);
        extents[i] = unit && extents[i] < UNIT_ROWS ? UNIT_ROWS : extents[i];
        elements *= extents[i];
        chosen = chosen || (!is_power(extents[i]) && is_chosen(waste->func, type->dims[i]));
    }
    if (!chosen) {
        return;
    }
    int64_t slots = slots_of(type->layout, extents);
    bool worse = !waste->worst || elements * waste->slots < waste->elements * slots;
    if (slots >= SMALL_TILE && elements * 2 < slots && worse) {
        waste->worst = op;
        waste->elements = elements;
        waste->slots = slots;
    }
}

static void check_op(Op *op, void *user)
{
    if (op->kind == OP_LOAD || op->kind == OP_STORE) {
        check_access(user, op);
    }
    check_tile(user, op);
}

static void note_unit(Op *op, void *user)
{
    Waste *waste = user;
    if (op->kind == OP_DOT_ASYNC) {
        ARENA_PUSH(waste->func->arena, &waste->units, op->results[0]->type->layout);
    }
}

void warn_waste(Func *func)
{
    Waste waste = {.func = func};
    if (!func->target || func->target->warp == 1) {
        return;
    }
    func_walk(func, note_unit, &waste);
    func_walk(func, check_op, &waste);
    if (waste.worst) {
        Diag *diag = diag_warning(func->diags, ERR_PADDING, waste.worst->span,
                                  "a tile of %lld elements takes the space of %lld",
                                  (long long)waste.elements, (long long)waste.slots);
        diag_help(func->diags, diag,
                  "extents of tiles are padded to powers of two: choose nearer ones, or smaller "
                  "tiles in the schedule");
    }
}
