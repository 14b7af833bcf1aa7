/* SPDX-License-Identifier: Apache-2.0 */
/* Emits a fusion group over ranges instead of whole axes. Values are emitted on demand, beginning
 * at the stores, into frames (a frame is the body of the launch or of a loop). A value that does
 * not have the axis of a loop is emitted into the frame outside of it, before the loop; a value
 * that the source computes outside of a region is emitted before the op with that region. */
#include "passes/tile/tile_emit.h"
#include "passes/tile/tile_steps.h"

static int item_of(const TileEmitter *e, int class)
{
    for (int i = 0; i < e->plan->n; i++) {
        if (e->plan->items[i].class == class) {
            return i;
        }
    }
    return -1;
}

int emit_item(const TileEmitter *e, const Value *value, int axis)
{
    int class = axes_class(e->plan->axes, value, axis);
    return class < 0 ? -1 : item_of(e, class);
}

bool emit_is_scalar(const TileEmitter *e, int item)
{
    return item >= 0 && e->plan->items[item].step == 0;
}

bool emit_is_looped(const TileEmitter *e, int item)
{
    return item >= 0 && e->plan->items[item].how == AXIS_LOOP;
}

static bool has_class(const TileEmitter *e, const Value *value, int class)
{
    for (int i = 0; value->type->kind == TYPE_ARRAY && i < value->type->rank; i++) {
        if (axes_class(e->plan->axes, value, i) == class) {
            return true;
        }
    }
    return false;
}

/* Ranges of the source's own loops have new variables here. */
static Type type_renamed(const EmitFrame *frame, Type type)
{
    for (; frame; frame = frame->outer) {
        type = clone_type(&frame->values, type);
    }
    return type;
}

bool emit_is_unrolled(const TileEmitter *e, int item)
{
    return item >= 0 && e->plan->items[item].how == AXIS_UNROLL;
}

Type emit_type(const TileEmitter *e, const EmitFrame *frame, const Value *value)
{
    Dim dims[MAX_RANK];
    for (int i = 0; i < value->type->rank; i++) {
        int item = emit_item(e, value, i);
        dims[i] = item < 0 ? value->type->dims[i] : frame->dims[item];
        if (!dims[i]) {
            diag_bug(e->func->diags, "axis %s is walked by no loop here",
                     e->plan->items[item].name);
        }
    }
    return type_renamed(frame, type_with_dims(e->func, value->type, value->type->rank, dims));
}

/* ---- loops ---- */

static void add_scans(TileEmitter *e, EmitFrame *inside, Value *value, CloneMap *seen);

static void add_scans_of(TileEmitter *e, EmitFrame *inside, const Op *op, CloneMap *seen)
{
    for (int i = 0; i < op->n_operands; i++) {
        add_scans(e, inside, op->operands[i], seen);
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (const Op *in = op->regions[r]->first; in; in = in->next) {
            add_scans_of(e, inside, in, seen);
        }
    }
    bool scan = op->kind == OP_SCAN || (op->kind == OP_FOLD && op_int(op, ATTR_SCAN, 0));
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    if (scan && axes_class(e->plan->axes, op->operands[0], axis) == inside->class) {
        if (inside->n_scans == MAX_SCANS) {
            diag_bug(e->func->diags, "more than %d scans in one loop", MAX_SCANS);
        }
        inside->scans[inside->n_scans++] = op;
    }
}

/* The scans along the loop's axis that `value` needs here, innermost first. */
static void add_scans(TileEmitter *e, EmitFrame *inside, Value *value, CloneMap *seen)
{
    if (!value || !value->def || !has_class(e, value, inside->class) ||
        clone_get(seen, value->def->results[0]) != value->def->results[0]) {
        return;
    }
    clone_map_value(seen, value->def->results[0], NULL);
    add_scans_of(e, inside, value->def, seen);
}

EmitFrame emit_frame_in(TileEmitter *e, EmitFrame *outer, Op *op, Builder at)
{
    EmitFrame frame = {.outer = outer, .op = op, .class = -1, .at = at};
    frame.at.span = outer->at.span;
    size_t n = (size_t)e->plan->n;
    frame.values = clone_map_new(e->func);
    frame.dims = arena_copy(e->func->arena, outer->dims, n * sizeof(Dim));
    frame.ranges = arena_copy(e->func->arena, outer->ranges, n * sizeof(Value *));
    return frame;
}

EmitFrame emit_element(TileEmitter *e, EmitFrame *frame, int item, int64_t k)
{
    EmitFrame inside = emit_frame_in(e, frame, NULL, frame->at);
    inside.class = e->plan->items[item].class;
    inside.ranges[item] = build_i64(&frame->at, k);
    inside.dims[item] = poly_const(e->func, 1);
    return inside;
}

Op *emit_loop(TileEmitter *e, EmitFrame *frame, int item, int n, Value *const *inits, int n_roots,
              Value *const *roots, EmitFrame *inside)
{
    const AxisPlan *axis = &e->plan->items[item];
    EmitFrame scans = {.class = axis->class};
    CloneMap seen = clone_map_new(e->func);
    for (int i = 0; i < n_roots; i++) {
        add_scans(e, &scans, roots[i], &seen);
    }
    Value **all = ARENA_ARRAY(e->func->arena, Value *, n + MAX_SCANS * 8);
    int count = 0;
    for (; count < n; count++) {
        all[count] = inits[count];
    }
    for (int i = 0; i < scans.n_scans; i++) {
        count += emit_scan_inits(e, frame, scans.scans[i], all + count);
    }
    bool shared = e->split && e->split->item == item;
    Value *lo = shared ? e->split->lo : build_i64(&frame->at, 0);
    Value *hi = shared ? e->split->hi : build_size(&frame->at, axis->dim);
    Op *loop = build_for(&frame->at, axis->dim, axis->step, axis->name, lo, hi, count, all);
    if (scans.n_scans && op_int(scans.scans[0], ATTR_REVERSE, 0)) {
        op_set_int(e->func, loop, ATTR_DESCENDING, 1);
    }
    if (shared) {
        op_set_int(e->func, loop, ATTR_PART, 1);
    }
    *inside = emit_frame_in(e, frame, loop, build_at_end(e->func, loop->regions[0]));
    inside->class = axis->class;
    Value *walker = loop->regions[0]->args[0];
    inside->ranges[item] = walker;
    inside->dims[item] = axis->step ? walker->type->dims[0] : poly_const(e->func, 1);
    inside->n_scans = scans.n_scans;
    inside->first_scan = 1 + n;
    for (int i = 0; i < scans.n_scans; i++) {
        inside->scans[i] = scans.scans[i];
    }
    return loop;
}

void emit_end(TileEmitter *e, EmitFrame *inside, int n, Value *const *next)
{
    Value **all = ARENA_ARRAY(e->func->arena, Value *, n + MAX_SCANS * 8);
    int count = 0;
    for (; count < n; count++) {
        all[count] = next[count];
    }
    int carried = inside->first_scan;
    for (int i = 0; i < inside->n_scans; i++) {
        int own = emit_scan_next(e, inside, inside->scans[i], carried, all + count);
        carried += own;
        count += own;
    }
    build_yield(&inside->at, count, all);
}

/* ---- values ---- */

/* A scalar axis has one element here: what drops it is expanded again. */
static Value *restore_axes(TileEmitter *e, EmitFrame *frame, const Value *source, Value *value)
{
    for (int i = 0; i < source->type->rank; i++) {
        int item = emit_item(e, source, i);
        if (emit_is_scalar(e, item)) {
            value = build_expand(&frame->at, value, i);
        }
    }
    return value;
}

/* The indices of an access whose whole axes are those of `value`, in order. */
static void emit_indices(TileEmitter *e, EmitFrame *frame, const Op *op, const Value *value,
                         Value **indices)
{
    Access access = op_access(op, 0);
    for (int i = 0, axis = 0; i < access.n; i++) {
        Value *index = access.indices[i];
        if (index) {
            indices[i] = emit_value(e, frame, index);
            axis += index->type->kind == TYPE_RANGE;
            continue;
        }
        int item = emit_item(e, value, axis++);
        indices[i] = item < 0 ? NULL : frame->ranges[item];
    }
}

static void emit_load(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    Value *indices[MAX_RANK];
    emit_indices(e, frame, op, op->results[0], indices);
    Value *value = build_load(&frame->at, op->operands[0], indices);
    clone_map_value(&frame->values, op->results[0], restore_axes(e, frame, op->results[0], value));
}

static void emit_iota(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    int item = emit_item(e, op->results[0], 0);
    DType dtype = op->results[0]->type->dtype;
    if (item < 0) {
        emit_copy(e, frame, op);
        return;
    }
    Value *value;
    if (emit_is_scalar(e, item)) {
        value = build_cast(&frame->at, frame->ranges[item], dtype);
        value = build_expand(&frame->at, value, 0);
    } else {
        value = build_index(&frame->at, frame->ranges[item], dtype);
    }
    clone_map_value(&frame->values, op->results[0], value);
}

Op *emit_copy(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    Value **operands = ARENA_ARRAY(e->func->arena, Value *, op->n_operands);
    Type *types = ARENA_ARRAY(e->func->arena, Type, op->n_results);
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = op->operands[i] ? emit_value(e, frame, op->operands[i]) : NULL;
    }
    for (int i = 0; i < op->n_results; i++) {
        types[i] = emit_type(e, frame, op->results[i]);
    }
    Op *copy = build_op(&frame->at, op->kind, op->n_operands, operands, op->n_results, types, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = arena_copy(e->func->arena, op->attrs, sizeof(Attr) * op->n_attrs);
    for (int i = 0; i < op->n_results; i++) {
        clone_map_value(&frame->values, op->results[i], copy->results[i]);
    }
    return copy;
}

static void emit_op(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    frame->at.span = op->span;
    switch (op->kind) {
    case OP_LOAD: emit_load(e, frame, op); break;
    case OP_IOTA: emit_iota(e, frame, op); break;
    case OP_REDUCE: emit_reduce(e, frame, op); break;
    case OP_REDUCE_PARTS: emit_reduce_part(e, frame, op); break;
    case OP_REPEAT_PARTS: emit_repeat_part(e, frame, op); break;
    case OP_SCAN: emit_scan(e, frame, op); break;
    case OP_FOLD: emit_fold(e, frame, op); break;
    case OP_DOT: emit_dot(e, frame, op); break;
    case OP_FOR:
    case OP_IF:
    case OP_WHILE: emit_regions(e, frame, op); break;
    default: emit_copy(e, frame, op);
    }
    for (int i = 0; i < op->n_results; i++) {
        clone_get(&frame->values, op->results[i])->name = op->results[i]->name;
    }
}

static bool belongs(const TileEmitter *e, const EmitFrame *frame, const Value *value)
{
    if (frame->source) {
        return block_is_within(value_block(value), frame->source);
    }
    return !frame->outer || frame->class < 0 || has_class(e, value, frame->class);
}

Value *emit_value(TileEmitter *e, EmitFrame *frame, Value *value)
{
    if (!value->def && !value->block) {
        return value; /* a parameter */
    }
    Value *known = clone_get(&frame->values, value);
    if (known != value) {
        return known;
    }
    if (!belongs(e, frame, value)) {
        EmitFrame *outer = frame->outer;
        Builder end = outer->at;
        outer->at = frame->op ? build_before(e->func, frame->op) : frame->at; /* the same block */
        Value *found = emit_value(e, outer, value);
        outer->at = end;
        return found;
    }
    if (!value->def) {
        return value; /* of a loop around the group */
    }
    Span span = frame->at.span;
    emit_op(e, frame, value->def);
    frame->at.span = span; /* of what reads it */
    return clone_get(&frame->values, value);
}

/* ---- axes of one element ---- */

static Value *permuted_without(Builder *b, const Op *permute, int axis)
{
    const int64_t *perm = op_attr(permute, ATTR_PERM)->ints;
    int64_t left[MAX_RANK], dropped = perm[axis];
    int rank = permute->results[0]->type->rank;
    bool ordered = true;
    for (int i = 0, k = 0; i < rank; i++) {
        if (i != axis) {
            left[k] = perm[i] - (perm[i] > dropped);
            ordered = ordered && left[k] == k;
            k++;
        }
    }
    Value *inner = emit_without(b, permute->operands[0], (int)dropped);
    return ordered ? inner : build_permute(b, inner, left);
}

Value *emit_without(Builder *b, Value *value, int axis)
{
    const Op *op = value->def;
    if (op && op->kind == OP_EXPAND && op_int(op, ATTR_AXIS, 0) == axis) {
        return op->operands[0];
    }
    if (op && op->kind == OP_PERMUTE) {
        return permuted_without(b, op, axis);
    }
    if (op && op->kind == OP_CAST) {
        return build_cast(b, emit_without(b, op->operands[0], axis), value->type->dtype);
    }
    return build_squeeze(b, value, axis);
}

/* ---- effects ---- */

static bool block_has_effect(const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (emit_has_effect(op)) {
            return true;
        }
    }
    return false;
}

bool emit_has_effect(const Op *op)
{
    bool effect = axes_written(op) != NULL;
    for (int i = 0; i < op->n_regions; i++) {
        effect = effect || block_has_effect(op->regions[i]);
    }
    return effect;
}

/* Axes that one scalar stands for have no place in a stored tile. */
static Value *drop_axes(TileEmitter *e, EmitFrame *frame, const Value *source, Value *value)
{
    for (int i = source->type->rank; i-- > 0;) {
        int item = emit_item(e, source, i);
        if (emit_is_scalar(e, item)) {
            value = emit_without(&frame->at, value, i);
        }
    }
    return value;
}

static bool is_write(const Op *op)
{
    return op->kind == OP_STORE || op->kind == OP_SCATTER;
}

/* Emits the reads of what the op overwrites that stand before it, which later ones of its kind use
 * (passes/fuse/fuse_in_place.c). */
static void emit_earlier_reads(TileEmitter *e, EmitFrame *frame, const Op *write)
{
    const Block *block = write->parent;
    bool last = true;
    for (const Op *op = write->next; op && last; op = op->next) {
        last = !is_write(op);
    }
    const ValueUse *use = last ? NULL : use_first(write->operands[0], block);
    for (; use; use = use_next(use, block)) {
        bool reads = use->op->kind == OP_LOAD || use->op->kind == OP_GATHER;
        if (reads && use->op->parent == block && op_is_before(use->op, write)) {
            emit_value(e, frame, use->op->results[0]);
        }
    }
}

static Value *is_first_of_cluster(TileEmitter *e, EmitFrame *frame)
{
    int item = 0;
    while (e->plan->items[item].how != AXIS_CLUSTER) {
        item++;
    }
    Value *start = build_range_fact(&frame->at, OP_START, frame->ranges[item]);
    return build_cmp(&frame->at, "eq", start, build_i64(&frame->at, 0));
}

static void emit_store(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    Value *value = op->operands[op->n_operands - 1], *indices[MAX_RANK];
    emit_indices(e, frame, op, value, indices);
    Value *here = emit_value(e, frame, value);
    frame->at.span = op->span;
    here = drop_axes(e, frame, value, here);
    if (!tile_is_for_one_block(e->plan, op)) {
        build_store(&frame->at, op->operands[0], indices, here);
        return;
    }
    Op *choice = build_if(&frame->at, is_first_of_cluster(e, frame), 0, NULL);
    Builder first = build_at_end(e->func, choice->regions[0]);
    Builder others = build_at_end(e->func, choice->regions[1]);
    build_store(&first, op->operands[0], indices, here);
    build_yield(&first, 0, NULL);
    build_yield(&others, 0, NULL);
}

/* What has no regions, inside of loops over those of its axes that are walked. */
static void emit_written(TileEmitter *e, EmitFrame *frame, const Op *op, int from)
{
    const Value *shape = axes_written(op);
    for (int i = from; i < shape->type->rank; i++) {
        int item = emit_item(e, shape, i);
        if (emit_is_looped(e, item) && !frame->ranges[item]) {
            EmitFrame inside;
            emit_loop(e, frame, item, 0, NULL, op->n_operands, op->operands, &inside);
            emit_written(e, &inside, op, i + 1);
            emit_end(e, &inside, 0, NULL);
            return;
        }
    }
    if (is_write(op)) {
        emit_earlier_reads(e, frame, op);
    }
    if (op->kind == OP_STORE) {
        emit_store(e, frame, op);
    } else {
        emit_copy(e, frame, op);
    }
}

void emit_effect(TileEmitter *e, EmitFrame *frame, const Op *op)
{
    /* What has a result that something else read was emitted with that. */
    if (op->n_results && clone_get(&frame->values, op->results[0]) != op->results[0]) {
        return;
    }
    frame->at.span = op->span;
    if (op->n_regions) {
        emit_regions(e, frame, op);
    } else {
        emit_written(e, frame, op, 0);
    }
}

void emit_effects(TileEmitter *e, const Op *group, EmitFrame *frame)
{
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        if (emit_has_effect(op)) {
            emit_effect(e, frame, op);
        }
    }
}
