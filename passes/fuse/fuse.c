/* SPDX-License-Identifier: Apache-2.0 */
/* fuse: groups whole-tensor statements into launches.
 *
 *   %0 = load %x[:]                      parallel dims=[] steps=[] {
 *   %1 = load %y[:]               →        %0 = load %x[:]
 *   %2 = add %0, %1                        %1 = load %y[:]
 *   store %z[:], %2                        %2 = add %0, %1
 *                                          store %z[:], %2
 *                                        }
 *
 * A group is a `parallel` without axes: one launch, whose grid `tile` chooses. Statements over the
 * same extents share a group unless a dependence forbids it; each group recomputes the values that
 * it needs from memory. What does not fit into one launch (fuse_split.c) goes through `scratch`
 * tensors, which earlier launches fill. A row reduction and column reductions share a group if one
 * sweep computes both (fuse_column_reductions.c). A `parallel` statement of the source is already a
 * group. Requires: the tensor level. Changes no bits, except that `column_reductions` changes the
 * association order, because `tile` divides the sweep among blocks. */
#include "passes/fuse/fuse.h"

#include "passes/pass.h"

#include <string.h>

bool fuse_has_effect(const Op *op)
{
    bool found = axes_written(op) || op->kind == OP_PARALLEL;
    for (int r = 0; r < op->n_regions && !found; r++) {
        for (const Op *in = op->regions[r]->first; in && !found; in = in->next) {
            found = fuse_has_effect(in);
        }
    }
    return found;
}

/* ---- what must be in memory ---- */

/* A group that was built to look at it: its values' numbers are free again, or tables by number
 * would grow with every look. */
static void drop_trial(Func *func, FusionGroup *group, uint32_t n_values)
{
    op_remove(group->parallel);
    func->n_values = n_values;
}

/* A value that has to be made before this statement runs, and why; NULL: none. */
static Value *wanted_before(Func *func, Op *statement, FuseReason *reason)
{
    uint32_t n_values = func->n_values;
    Block *block = statement->parent;
    Value *read = fuse_changed_read(func, statement);
    *reason = FUSE_CHANGED_READ;
    if (read || statement->kind == OP_PARALLEL) {
        return read;
    }
    if (statement->kind == OP_YIELD || fuse_is_serial(statement)) {
        *reason = FUSE_SEQUENTIAL;
        Value *value = fuse_wanted_outside(func, statement);
        return value && value->def->parent == block ? value : NULL;
    }
    Builder at = build_at_end(func, block);
    FusionGroup group = fuse_group(func, &at, 1, &statement);
    Value *costly = NULL;
    *reason = fuse_nest_check(func, &group, block, &costly);
    drop_trial(func, &group, n_values);
    bool own =
        *reason != FUSE_AXIS_CONFLICT && axes_written(statement) == costly; /* alone already */
    return costly && !own && fuse_may_materialize(func, block, costly) ? costly : NULL;
}

/* The old elements that a scatter gives are used by what follows it. */
static void keep_results(Func *func, Block *block)
{
    for (Op *op = block->first; op; op = op->next) {
        for (int i = 0; fuse_has_effect(op) && i < op->n_results; i++) {
            if (value_has_uses(func, op->results[i])) {
                fuse_materialize(func, op->results[i], FUSE_DEPENDENCE);
            }
        }
    }
}

static void split(Func *func, Block *block)
{
    Op *op = block->first;
    while (op) {
        bool asks = fuse_has_effect(op) || op->kind == OP_YIELD;
        FuseReason reason = FUSE_FITS;
        Value *value = asks ? wanted_before(func, op, &reason) : NULL;
        op = value ? fuse_materialize(func, value, reason) : op->next;
    }
}

/* ---- which statements share a launch ---- */

typedef struct Unit {
    Op *statements[64];
    MemoryEffects touches[64];
    int n;
    bool taken; /* apart: split_launches */
} Unit;

typedef struct Units {
    Func *func;
    Unit **items;
    size_t n, cap;
    size_t n_params;
    size_t *written, *touched; /* by parameter: behind the last unit that does; 0: none does */
} Units;

/* Units that a statement is tried in, from the first one on that it may join: where so many had no
 * place for it, a later one is unlikely to have, and the work would grow with the square. */
enum { MAX_TRIES = 64 };

static bool same_extents(Type a, Type b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) {
        same = a->dims[i] == b->dims[i];
    }
    return same;
}

/* One may be what reductions leave of the other's rows. Equal numbers say so only of statements
 * that read the same. */
static bool may_share(const Op *a, const Op *b, bool reads_same)
{
    const Value *left = axes_written(a), *right = axes_written(b);
    if (!left || !right || same_extents(left->type, right->type)) {
        return left && right;
    }
    bool any = false, scatters = a->kind != OP_STORE || b->kind != OP_STORE;
    for (int i = 0; i < left->type->rank && !scatters; i++) {
        for (int k = 0; k < right->type->rank; k++) {
            int64_t extent;
            bool number = poly_is_const(left->type->dims[i], &extent);
            any = any || (left->type->dims[i] == right->type->dims[k] &&
                          (!number || (extent > 1 && reads_same)));
        }
    }
    return any;
}

static bool reads_same(const Units *units, const MemoryEffects *a, const MemoryEffects *b)
{
    bool same = false;
    for (size_t i = 0; i <= (units->n_params - 1) / 64 && units->n_params > 0 && !same; i++) {
        same = (a->loads[i] | a->others[i]) & (b->loads[i] | b->others[i]);
    }
    return same;
}

static FuseReason fit_together(Func *func, const Unit *unit, Op *statement)
{
    uint32_t n_values = func->n_values;
    Op *all[65];
    for (int i = 0; i < unit->n; i++) {
        all[i] = unit->statements[i];
    }
    all[unit->n] = statement;
    Block *block = statement->parent;
    Builder at = build_at_end(func, block);
    FusionGroup group = fuse_group(func, &at, unit->n + 1, all);
    FuseReason reason = fuse_nest_check(func, &group, NULL, NULL);
    drop_trial(func, &group, n_values);
    return reason;
}

/* Why it may not even be tried; FUSE_FITS: it may. */
static FuseReason may_try(const Units *units, const Unit *unit, const Op *statement,
                          const MemoryEffects *touches)
{
    if (unit->n >= 64) {
        return FUSE_FULL;
    }
    bool same = reads_same(units, &unit->touches[0], touches);
    return may_share(unit->statements[0], statement, same) ? FUSE_FITS : FUSE_NO_COMMON_AXIS;
}

/* Says of what a statement stores why it is in no launch before. */
static void note_separate_launch(Func *func, const Op *statement, FuseReason reason)
{
    const Value *memory = statement->n_operands ? statement->operands[0] : NULL;
    if (memory && memory->type->kind == TYPE_TENSOR && !memory->def && !memory->block) {
        Param *param = &func->params.items[memory->index];
        param->separate_reason =
            param->separate_reason ? param->separate_reason : fuse_reason_text(reason);
    }
}

/* Does it store what an op with an effect gives? */
static bool may_join(const Op *statement)
{
    const Value *value = statement->kind == OP_STORE ? axes_written(statement) : NULL;
    while (value && value->def && value->def->kind == OP_EXPAND) {
        value = value->def->operands[0];
    }
    return value && value->def && fuse_has_effect(value->def);
}

/* A scatter and the store of its old elements are one. */
static bool must_join(const Unit *unit, const Op *statement)
{
    const Value *value = statement->kind == OP_STORE ? axes_written(statement) : NULL;
    while (value && value->def && value->def->kind == OP_EXPAND) {
        value = value->def->operands[0];
    }
    for (int i = 0; value && value->def && i < unit->n; i++) {
        if (value->def == unit->statements[i]) {
            return true;
        }
    }
    return false;
}

static StmtDependence unit_order(const Func *func, const Unit *unit, const MemoryEffects *statement)
{
    StmtDependence order = ORDER_NONE;
    for (int i = 0; i < unit->n && order != ORDER_STRICT; i++) {
        StmtDependence own = fuse_order(func, &unit->touches[i], statement);
        order = own > order ? own : order;
    }
    return order;
}

/* Each unit that touches memory is the last one to do so until another one does: behind the last
 * one that writes what the statement reads, or touches what it writes, nothing is in its way. */
static size_t behind_conflicts(const Units *units, const MemoryEffects *touches)
{
    size_t behind = 0;
    for (size_t i = 0; i < units->n_params; i++) {
        uint64_t bit = (uint64_t)1 << i % 64;
        bool writes = touches->writes[i / 64] & bit;
        bool reads = (touches->loads[i / 64] | touches->others[i / 64]) & bit;
        size_t last = 0;
        if (writes) {
            last = units->touched[i];
        } else if (reads) {
            last = units->written[i];
        }
        behind = last > behind ? last : behind;
    }
    return behind;
}

static void note_touches(Units *units, size_t unit, const MemoryEffects *touches)
{
    for (size_t i = 0; i < units->n_params; i++) {
        uint64_t bit = (uint64_t)1 << i % 64;
        bool writes = touches->writes[i / 64] & bit;
        bool reads = (touches->loads[i / 64] | touches->others[i / 64]) & bit;
        units->written[i] = writes && unit >= units->written[i] ? unit + 1 : units->written[i];
        units->touched[i] =
            (reads || writes) && unit >= units->touched[i] ? unit + 1 : units->touched[i];
    }
}

static void join(Units *units, size_t at, Op *statement, MemoryEffects touches)
{
    Unit *unit = units->items[at];
    unit->touches[unit->n] = touches;
    unit->statements[unit->n++] = statement;
    note_touches(units, at, &touches);
}

static void place(Func *func, Units *units, Op *statement)
{
    MemoryEffects touches = fuse_touches(func, statement);
    for (size_t i = units->n; i-- > 0 && may_join(statement);) {
        if (must_join(units->items[i], statement)) {
            join(units, i, statement, touches);
            return;
        }
    }
    size_t earliest = behind_conflicts(units, &touches); /* the first unit that it may join */
    for (StmtDependence order = ORDER_NONE; earliest > 0 && order == ORDER_NONE;) {
        order = unit_order(func, units->items[earliest - 1], &touches);
        earliest -= order != ORDER_STRICT;
    }
    FuseReason reason = units->n ? FUSE_DEPENDENCE : FUSE_FITS;
    int tries = MAX_TRIES;
    for (size_t i = earliest; i < units->n && tries > 0; i++) {
        reason = may_try(units, units->items[i], statement, &touches);
        if (reason == FUSE_FITS) {
            tries--;
            reason = fit_together(func, units->items[i], statement);
            if (reason == FUSE_FITS) {
                join(units, i, statement, touches);
                return;
            }
        }
    }
    note_separate_launch(func, statement, reason);
    ARENA_PUSH(func->arena, units, ARENA_NEW(func->arena, Unit));
    join(units, units->n - 1, statement, touches);
}

/* ---- statements that only shared a grid through an intermediate ---- */

/* True if `store` writes an intermediate that only its own unit reads. The unit uses the stored
 * value directly, drop_unread removes the store, and with it the ties of axes that it made. */
static bool is_dropped(const Units *units, size_t at, const Op *store, const MemoryEffects *yield)
{
    const Value *memory = store->kind == OP_STORE ? store->operands[0] : NULL;
    const Func *func = units->func;
    if (!memory || memory->type->kind != TYPE_TENSOR ||
        func->params.items[memory->index].io != PARAM_SCRATCH ||
        func->params.items[memory->index].alias || fuse_is_repacked(store)) {
        return false;
    }
    const Block *all = func->body;
    for (const ValueUse *use = use_first(memory, all); use; use = use_next(use, all)) {
        if (use->op->parent != store->parent) {
            return false;
        }
    }
    size_t word = memory->index / 64;
    uint64_t bit = (uint64_t)1 << memory->index % 64;
    bool read = yield && ((yield->loads[word] | yield->others[word]) & bit);
    for (size_t i = 0; i < units->n && !read; i++) {
        for (int k = 0; i != at && k < units->items[i]->n && !read; k++) {
            const MemoryEffects *touches = &units->items[i]->touches[k];
            read = (touches->loads[word] | touches->others[word]) & bit;
        }
    }
    return !read;
}

/* True if the unit's statements still share a grid when the stores marked in `dropped` are gone. */
static bool share_without(Func *func, const Unit *unit, const bool *dropped)
{
    uint32_t n_values = func->n_values;
    Builder at = build_at_end(func, unit->statements[0]->parent);
    FusionGroup group = fuse_group(func, &at, unit->n, unit->statements);
    for (Op *op = group.parallel->regions[0]->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < unit->n; i++) {
            if (dropped[i] && op->kind == OP_STORE &&
                op->operands[0] == unit->statements[i]->operands[0]) {
                op_remove(op);
                break;
            }
        }
    }
    Value *costly;
    bool shares =
        fuse_resolve_axis_conflicts(func, &group, &costly) && fuse_shares_grid(func, &group);
    drop_trial(func, &group, n_values);
    return shares;
}

static void add(Unit *unit, const Unit *from, int i)
{
    unit->touches[unit->n] = from->touches[i];
    unit->statements[unit->n++] = from->statements[i];
}

/* Moves the statements that do not share the grid of the unit's first remaining statement into a
 * new unit, which is returned; NULL if all of them share it. */
static Unit *taken_out(Units *units, size_t at, const MemoryEffects *yield)
{
    Func *func = units->func;
    Unit *unit = units->items[at];
    bool dropped[64], kept[64];
    int n_dropped = 0;
    for (int i = 0; i < unit->n; i++) {
        dropped[i] = is_dropped(units, at, unit->statements[i], yield);
        n_dropped += dropped[i];
    }
    bool may = unit->n - n_dropped > 1 && (n_dropped || unit->taken);
    if (!may || share_without(func, unit, dropped)) {
        return NULL;
    }
    Unit *keep = ARENA_NEW(func->arena, Unit), *rest = ARENA_NEW(func->arena, Unit);
    bool any = false;
    for (int i = 0; i < unit->n; i++) {
        Unit trial = *keep;
        add(&trial, unit, i);
        kept[trial.n - 1] = dropped[i];
        bool stays = dropped[i] || !any || must_join(keep, unit->statements[i]) ||
                     (!must_join(rest, unit->statements[i]) && share_without(func, &trial, kept));
        any = any || !dropped[i];
        add(stays ? keep : rest, unit, i);
    }
    *unit = *keep;
    unit->taken = rest->taken = true;
    return rest->n ? rest : NULL;
}

/* Splits units whose statements shared a grid only through an intermediate that is dropped. */
static void split_launches(Units *units, const MemoryEffects *yield)
{
    for (size_t i = 0; i < units->n; i++) {
        Unit *rest = taken_out(units, i, yield);
        if (rest) {
            ARENA_PUSH(units->func->arena, units, rest);
            memmove(&units->items[i + 2], &units->items[i + 1],
                    (units->n - i - 2) * sizeof(Unit *));
            units->items[i + 1] = rest;
            i--; /* what is taken out may read what the unit stores, which is not dropped then */
        }
    }
}

/* ---- launches ---- */

/* What is computed outside of a `parallel` moves into it. */
static void sink_into(Func *func, Op *group)
{
    Op *first = group->regions[0]->first;
    if (!first) {
        return;
    }
    NeededOps needed = fuse_needed_ops(func, group->parent, 1, &group, false);
    CloneMap map = clone_map_new(func);
    Builder at = build_before(func, first);
    for (size_t i = 0; i < needed.n; i++) {
        const Op *op = needed.items[i];
        clone_op(&at, &map, op);
        for (int k = 0; k < op->n_results; k++) {
            block_replace_uses(group->regions[0], op->results[k], clone_get(&map, op->results[k]));
        }
    }
}

static void build_unit(Func *func, Builder *at, const Unit *unit)
{
    Op *first = unit->statements[0];
    if (first->kind == OP_PARALLEL) {
        sink_into(func, first);
        op_move_to_end(first, at->block);
        return;
    }
    Value *costly;
    FusionGroup group = fuse_group(func, at, unit->n, unit->statements);
    if (!fuse_is_serial(first) && !fuse_resolve_axis_conflicts(func, &group, &costly)) {
        diag_bug(func->diags, "a launch walks one value along an axis twice");
    }
}

static void remove_statements(const Units *units)
{
    for (size_t i = units->n; i-- > 0;) {
        const Unit *unit = units->items[i];
        for (int k = unit->n; k-- > 0;) {
            if (unit->statements[k]->kind != OP_PARALLEL) {
                op_remove(unit->statements[k]);
            }
        }
    }
}

/* ---- intermediates that nothing reads any more ---- */

typedef struct Unread {
    const Func *func;
    uint32_t *reads; /* by value */
} Unread;

static void count_read(Op *op, void *user)
{
    const Unread *unread = user;
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && (i > 0 || op->kind != OP_STORE)) {
            unread->reads[func_memory_of(unread->func, op->operands[i])->id]++;
        }
    }
}

static bool is_unread(const Func *func, const uint32_t *reads, const Value *memory)
{
    return func->params.items[memory->index].io == PARAM_SCRATCH &&
           reads[func_memory_of(func, memory)->id] == 0;
}

static void drop_store(Op *op, void *user)
{
    const Unread *unread = user;
    if (op->kind == OP_STORE && is_unread(unread->func, unread->reads, op->operands[0])) {
        op_remove(op);
    }
}

/* Every launch that wanted one may have been given the value itself. */
static void drop_unread(Func *func)
{
    uint32_t *reads = ARENA_ARRAY(func->arena, uint32_t, func->n_values);
    size_t kept = 0;
    Unread unread = {func, reads};
    func_walk(func, count_read, &unread);
    func_walk(func, drop_store, &unread);
    for (size_t i = 0; i < func->params.n; i++) {
        Param param = func->params.items[i];
        if (!is_unread(func, reads, param.value)) {
            param.value->index = (uint32_t)kept;
            func->params.items[kept++] = param;
        }
    }
    func->params.n = kept;
}

/* ---- a body: the function's, or a region's of a loop that mixes elements ---- */

static void fuse_block(Func *func, Block *block);

/* Loops that mix elements get groups in their regions. */
static void fuse_regions(Func *func, Block *block)
{
    for (Op *op = block->first, *next; op; op = next) {
        next = op->next;
        if (op->n_regions && fuse_has_cross_dependence(func, op)) {
            op = fuse_serialize(func, op);
            next = op->next;
            for (Value *v = fuse_wanted_outside(func, op);
                 v; /* each is read from an intermediate then */
                 v = fuse_wanted_outside(func, op)) {
                fuse_materialize(func, v, FUSE_SEQUENTIAL);
            }
            for (int r = 0; r < op->n_regions; r++) {
                fuse_block(func, op->regions[r]);
            }
        }
    }
}

static void fuse_block(Func *func, Block *block)
{
    Units units = {.func = func};
    fuse_invert_gathers(func, block, INVERT_ALL);
    fuse_gathers(func, block);
    fuse_regions(func, block);
    fuse_gathers(func, block);
    keep_results(func, block);
    fuse_in_place(func, block);
    split(func, block);
    Op *yield = block->last && block->last->kind == OP_YIELD ? block->last : NULL;
    units.n_params = func->params.n;
    units.written = ARENA_ARRAY(func->arena, size_t, func->params.n);
    units.touched = ARENA_ARRAY(func->arena, size_t, func->params.n);
    for (Op *op = block->first; op; op = op->next) {
        if (fuse_has_effect(op)) {
            place(func, &units, op);
        }
    }
    MemoryEffects yielded = yield ? fuse_touches(func, yield) : (MemoryEffects){0};
    split_launches(&units, yield ? &yielded : NULL);
    Builder at = build_at_end(func, block);
    for (size_t i = 0; i < units.n; i++) {
        build_unit(func, &at, units.items[i]);
    }
    remove_statements(&units);
    if (yield) {
        op_move_to_end(yield, block);
        fuse_copy_operands(func, yield);
    }
    func_remove_dead(func);
}

void pass_fuse(Func *func)
{
    func_remove_dead(func);
    fuse_epilogue_folds(func, func->body);
    fuse_block(func, func->body);
    fuse_read_results(func);
    drop_unread(func);
    func_remove_dead(func);
    func_walk(func, fuse_note_columns, func);
}
