/* SPDX-License-Identifier: Apache-2.0 */
/* Emits scans and folds by functions of the program. A loop over the axis carries the partial
 * result. If a block processes only a slice of the axis, the same function combines the results of
 * all slices. */
#include "passes/tile/tile_emit.h"

#include "passes/analysis/reduce_identity.h"

static bool is_scan(const Op *op)
{
    return op->kind == OP_SCAN || op_int(op, ATTR_SCAN, 0);
}

/* The type of an operand's tile with one element along the axis that is folded. */
static Type folded_type(const TileEmitter *e, const EmitFrame *frame, const Op *op,
                        const Value *operand)
{
    Dim dims[MAX_RANK];
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    Type type = operand->type;
    for (int i = 0; i < type->rank; i++) {
        int item = emit_item(e, operand, i);
        if (i == axis) {
            dims[i] = poly_const(e->func, 1);
        } else if (item < 0) {
            dims[i] = type->dims[i];
        } else {
            dims[i] = frame->dims[item];
        }
    }
    return type_with_dims(e->func, type, type->rank, dims);
}

/* ---- the program's own function ---- */

/* A value of the function, as an array: what is uniform is spread. */
static Value *lifted(TileEmitter *e, EmitFrame *frame, const CloneMap *map, Value *value,
                     Type shape)
{
    Value *by = clone_get(map, value);
    if (by != value) {
        return by;
    }
    Value *scalar = emit_value(e, frame, value);
    return build_broadcast(&frame->at, scalar, shape->rank, shape->dims);
}

/* f(a, b) element by element: the function's ops on whole tiles. */
static void lift_function(TileEmitter *e, EmitFrame *frame, const Op *fold, int n, Value *const *a,
                          Value *const *b, Value **out)
{
    const Block *f = fold->regions[0];
    CloneMap map = clone_map_new(e->func);
    Type shape = a[0]->type;
    for (int i = 0; i < n; i++) {
        clone_map_value(&map, f->args[i], a[i]);
        clone_map_value(&map, f->args[n + i], b[i]);
    }
    for (const Op *op = f->first; op && op->kind != OP_YIELD; op = op->next) {
        Value *operands[4];
        Type type = type_with_dtype(e->func, shape, op->results[0]->type->dtype);
        for (int i = 0; i < op->n_operands && i < 4; i++) {
            operands[i] = lifted(e, frame, &map, op->operands[i], shape);
        }
        if (op->kind == OP_SIZE) {
            clone_map_value(&map, op->results[0], lifted(e, frame, &map, op->results[0], shape));
            continue;
        }
        Op *copy = build_op(&frame->at, op->kind, op->n_operands, operands, 1, &type, 0);
        copy->n_attrs = op->n_attrs;
        copy->attrs = op->attrs;
        clone_map_value(&map, op->results[0], copy->results[0]);
    }
    for (int i = 0; i < n; i++) {
        out[i] = lifted(e, frame, &map, f->last->operands[i], shape);
    }
}

static Op *fold_of(TileEmitter *e, EmitFrame *frame, const Op *op, Value *const *tiles, int axis,
                   bool scan)
{
    int n = op->n_results;
    Value **neutrals = ARENA_ARRAY(e->func->arena, Value *, n);
    for (int i = 0; i < n; i++) {
        neutrals[i] = emit_value(e, frame, op->operands[n + i]);
    }
    Op *fold =
        build_fold(&frame->at, n, tiles, neutrals, axis, scan, scan && op_int(op, ATTR_REVERSE, 0),
                   scan && op_int(op, ATTR_EXCLUSIVE, 0));
    if (!scan && op_word(op, ATTR_ARG)) {
        op_set_word(e->func, fold, ATTR_ARG, op_word(op, ATTR_ARG));
    }
    CloneMap map = clone_map_new(e->func);
    const Block *from = op->regions[0];
    Block *to = fold->regions[0];
    for (int i = 0; i < from->n_args; i++) {
        clone_map_value(&map, from->args[i], to->args[i]);
    }
    for (const Op *inner = from->first; inner; inner = inner->next) {
        for (int i = 0; i < inner->n_operands; i++) { /* scalars from outside of the function */
            Value *operand = inner->operands[i];
            if (clone_get(&map, operand) == operand) {
                Builder end = frame->at;
                frame->at = build_before(e->func, fold);
                clone_map_value(&map, operand, emit_value(e, frame, operand));
                frame->at = end;
            }
        }
        Builder inside = build_at_end(e->func, to);
        clone_op(&inside, &map, inner);
    }
    return fold;
}

/* `scan` as the attribute. */
static Op *fold_tiles(TileEmitter *e, EmitFrame *frame, const Op *op, bool scan)
{
    Value **tiles = ARENA_ARRAY(e->func->arena, Value *, op->n_results);
    for (int i = 0; i < op->n_results; i++) {
        tiles[i] = emit_value(e, frame, op->operands[i]);
    }
    Op *fold = fold_of(e, frame, op, tiles, (int)op_int(op, ATTR_AXIS, 0), scan);
    emit_runs_over(e, fold->results[0], op);
    return fold;
}

static void fold_looped(TileEmitter *e, EmitFrame *frame, const Op *op, int item)
{
    int n = op->n_results;
    Value **inits = ARENA_ARRAY(e->func->arena, Value *, n);
    Value **next = ARENA_ARRAY(e->func->arena, Value *, n);
    for (int i = 0; i < n; i++) {
        Type type = folded_type(e, frame, op, op->operands[i]);
        Value *neutral = emit_value(e, frame, op->operands[n + i]);
        inits[i] = build_broadcast(&frame->at, neutral, type->rank, type->dims);
    }
    EmitFrame inside;
    Op *loop = emit_loop(e, frame, item, n, inits, n, op->operands, &inside);
    Op *part = fold_tiles(e, &inside, op, false);
    Value **before = loop->regions[0]->args + 1;
    bool back = op_int(loop, ATTR_DESCENDING, 0) != 0; /* for a scan's sake */
    lift_function(e, &inside, op, n, back ? part->results : before, back ? before : part->results,
                  next);
    emit_end(e, &inside, n, next);
    for (int i = 0; i < n; i++) {
        clone_map_value(&frame->values, op->results[i], loop->results[i]);
    }
}

static void fold_elements(TileEmitter *e, EmitFrame *frame, const Op *op, int item)
{
    int n = op->n_results;
    Value **sums = ARENA_ARRAY(e->func->arena, Value *, n);
    Value **parts = ARENA_ARRAY(e->func->arena, Value *, n);
    for (int64_t k = 0; k < emit_window_elements(e, item); k++) {
        EmitFrame inside = emit_element(e, frame, item, k);
        for (int i = 0; i < n; i++) {
            parts[i] = emit_value(e, &inside, op->operands[i]);
        }
        if (k == 0) {
            sums = arena_copy(e->func->arena, parts, sizeof(Value *) * (size_t)n);
        } else {
            lift_function(e, frame, op, n, sums, parts, sums);
        }
    }
    for (int i = 0; i < n; i++) {
        clone_map_value(&frame->values, op->results[i], sums[i]);
    }
}

/* ---- scans ---- */

Value *emit_nothing(TileEmitter *e, EmitFrame *frame, const Op *op, int i, Type type)
{
    if (op->kind != OP_FOLD) {
        return reduce_neutral_tile(&frame->at, op_word(op, ATTR_FN), type);
    }
    Value *neutral = emit_value(e, frame, op->operands[op->n_results + i]);
    return build_broadcast(&frame->at, neutral, type->rank, type->dims);
}

/* What tile_split_axis.c or tile_lookback.c begins this block's part with; NULL: nothing. */
static Value **beginning(const TileEmitter *e, const Op *scan)
{
    for (int k = 0; e->split && k < e->split->n; k++) {
        if (e->split->ops[k] == scan) {
            return e->split->inits[k];
        }
    }
    return NULL;
}

int emit_scan_inits(TileEmitter *e, EmitFrame *frame, const Op *scan, Value **inits)
{
    int n = scan->n_results;
    Value **begin = beginning(e, scan);
    for (int i = 0; i < n; i++) {
        Type type = folded_type(e, frame, scan, scan->operands[i]);
        inits[i] = begin ? begin[i] : emit_nothing(e, frame, scan, i, type);
    }
    return n;
}

void emit_totals(TileEmitter *e, EmitFrame *frame, const Op *op, Value **out)
{
    if (op->kind != OP_FOLD) {
        Value *tile = emit_value(e, frame, op->operands[0]);
        int axis = (int)op_int(op, ATTR_AXIS, 0);
        out[0] = emit_runs_over(e, build_reduce(&frame->at, op_word(op, ATTR_FN), tile, axis), op);
        return;
    }
    Op *total = fold_tiles(e, frame, op, false);
    for (int i = 0; i < op->n_results; i++) {
        out[i] = total->results[i];
    }
}

void emit_fold_arrays(TileEmitter *e, EmitFrame *frame, const Op *op, Value **parts)
{
    Dim all = parts[0]->type->dims[0];
    if (op->kind != OP_FOLD) {
        parts[0] = build_reduce(&frame->at, op_word(op, ATTR_FN), parts[0], 0);
        op_set_over(e->func, parts[0]->def, all);
        return;
    }
    Op *fold = fold_of(e, frame, op, parts, 0, false);
    op_set_over(e->func, fold, all);
    for (int i = 0; i < op->n_results; i++) {
        parts[i] = fold->results[i];
    }
}

void emit_joined(TileEmitter *e, EmitFrame *frame, const Op *scan, Value *const *before,
                 Value *const *next, Value **out)
{
    bool back = op_int(scan, ATTR_REVERSE, 0) != 0;
    if (scan->kind != OP_FOLD) {
        out[0] =
            build_binary(&frame->at, reduce_combiner(op_word(scan, ATTR_FN)), before[0], next[0]);
    } else {
        lift_function(e, frame, scan, scan->n_results, back ? next : before, back ? before : next,
                      out);
    }
}

/* What came before, and the tile's own total. */
int emit_scan_next(TileEmitter *e, EmitFrame *inside, const Op *scan, int carried, Value **next)
{
    Value **totals = ARENA_ARRAY(e->func->arena, Value *, scan->n_results);
    emit_totals(e, inside, scan, totals);
    emit_joined(e, inside, scan, inside->op->regions[0]->args + carried, totals, next);
    return scan->n_results;
}

Value **emit_share_totals(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    int n = op->n_results;
    Value **totals = ARENA_ARRAY(e->func->arena, Value *, n);
    if (!is_scan(op)) {
        for (int i = 0; i < n; i++) {
            totals[i] = emit_value(e, frame, op->results[i]);
        }
        return totals;
    }
    Value **inits = ARENA_ARRAY(e->func->arena, Value *, n);
    EmitFrame inside;
    emit_scan_inits(e, frame, op, inits);
    Op *loop = emit_loop(e, frame, e->split->item, n, inits, n, op->operands, &inside);
    if (op_int(op, ATTR_REVERSE, 0)) {
        op_set_int(e->func, loop, ATTR_DESCENDING, 1);
    }
    emit_scan_next(e, &inside, op, 1, totals);
    emit_end(e, &inside, n, totals);
    return loop->results;
}

static int fold_inits(TileEmitter *e, EmitFrame *frame, int n_folds, Op *const *folds,
                      Value **inits)
{
    int n = 0;
    for (int k = 0; k < n_folds; k++) {
        for (int i = 0; i < folds[k]->n_results; i++) {
            Type type = folded_type(e, frame, folds[k], folds[k]->operands[i]);
            inits[n++] = emit_nothing(e, frame, folds[k], i, type);
        }
    }
    return n;
}

void emit_walk(TileEmitter *e, EmitFrame *frame, int item, int n_folds, Op *const *folds,
               int n_stores, Op *const *stores)
{
    int most = n_folds * MAX_SCANS, n = 0;
    Value **inits = ARENA_ARRAY(e->func->arena, Value *, most);
    Value **next = ARENA_ARRAY(e->func->arena, Value *, most);
    Value **parts = ARENA_ARRAY(e->func->arena, Value *, most);
    EmitFrame inside;
    Op *loop = emit_loop(e, frame, item, fold_inits(e, frame, n_folds, folds, inits), inits, 0,
                         NULL, &inside);
    for (int k = 0; k < n_folds; n += folds[k++]->n_results) {
        emit_totals(e, &inside, folds[k], parts);
        emit_joined(e, &inside, folds[k], loop->regions[0]->args + 1 + n, parts, next + n);
    }
    for (int i = 0; i < n_stores; i++) {
        emit_effect(e, &inside, stores[i]);
    }
    emit_end(e, &inside, n, next);
    n = 0;
    for (int k = 0; k < n_folds; k++) {
        for (int i = 0; i < folds[k]->n_results; i++) {
            clone_map_value(&frame->values, folds[k]->results[i], loop->results[n++]);
        }
    }
}

/* What comes before the tile that is here; NULL: the whole axis is. */
static Value *const *before_tile(const TileEmitter *e, const EmitFrame *frame, const Op *scan)
{
    for (; frame; frame = frame->outer) {
        int carried = frame->first_scan;
        for (int i = 0; i < frame->n_scans; i++) {
            if (frame->scans[i] == scan) {
                return frame->op->regions[0]->args + carried;
            }
            carried += frame->scans[i]->n_results;
        }
    }
    return beginning(e, scan);
}

/* A tile's scan, with what comes before the tile. */
static void add_before(TileEmitter *e, EmitFrame *frame, const Op *op, Value **scanned)
{
    int n = op->n_results;
    Value *const *from = before_tile(e, frame, op);
    Value **before = ARENA_ARRAY(e->func->arena, Value *, n);
    Type shape = scanned[0]->type;
    for (int i = 0; from && i < n; i++) {
        before[i] = build_broadcast(&frame->at, from[i], shape->rank, shape->dims);
    }
    if (from) {
        emit_joined(e, frame, op, before, scanned, scanned);
    }
}

void emit_scan(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    Value *tile = emit_value(e, frame, op->operands[0]);
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    const char *fn = op_word(op, ATTR_FN);
    Value *scan = build_scan(&frame->at, fn, tile, axis, op_int(op, ATTR_REVERSE, 0),
                             op_int(op, ATTR_EXCLUSIVE, 0));
    emit_runs_over(e, scan, op);
    add_before(e, frame, op, &scan);
    clone_map_value(&frame->values, op->results[0], scan);
}

void emit_fold(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    int n = op->n_results, item = emit_item(e, op->operands[0], (int)op_int(op, ATTR_AXIS, 0));
    if (!is_scan(op) && emit_is_unrolled(e, item)) {
        fold_elements(e, frame, op, item);
        return;
    }
    if (!is_scan(op) && emit_is_looped(e, item)) {
        fold_looped(e, frame, op, item);
        return;
    }
    Op *fold = fold_tiles(e, frame, op, is_scan(op));
    Value **out = arena_copy(e->func->arena, fold->results, sizeof(Value *) * (size_t)n);
    if (is_scan(op)) {
        add_before(e, frame, op, out);
    }
    for (int i = 0; i < n; i++) {
        clone_map_value(&frame->values, op->results[i], out[i]);
    }
}
