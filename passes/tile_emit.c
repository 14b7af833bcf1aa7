/* SPDX-License-Identifier: Apache-2.0 */
/* The group again, over ranges. Values are emitted on demand, from the stores backwards, into
 * frames: the launch is the outer one, each loop opens one. A value without the loop's axis belongs
 * to the frame outside, before the loop. */
#include "passes/tile.h"

#include "passes/an_reduce.h"

typedef struct Frame {
    struct Frame *outer;
    Op *loop;  /* NULL in the launch's frame */
    int class; /* that the loop walks */
    Builder at;
    CloneMap values; /* what has been emitted here */
    Dim *dims;       /* by plan item: the range that stands for it here; NULL: none yet */
    Value **ranges;
} Frame;

typedef struct Emitter {
    Func *func;
    const TilePlan *plan;
} Emitter;

static Value *emit(Emitter *e, Frame *frame, Value *value);

static int item_of(const Emitter *e, int class)
{
    for (int i = 0; i < e->plan->n; i++) {
        if (e->plan->items[i].class == class) {
            return i;
        }
    }
    return -1;
}

static int item_of_axis(const Emitter *e, const Value *value, int axis)
{
    int class = axes_class(e->plan->axes, value, axis);
    return class < 0 ? -1 : item_of(e, class);
}

static bool has_class(const Emitter *e, const Value *value, int class)
{
    for (int i = 0; i < value->type->rank; i++) {
        if (axes_class(e->plan->axes, value, i) == class) {
            return true;
        }
    }
    return false;
}

static Type type_here(const Emitter *e, const Frame *frame, const Value *value)
{
    Dim dims[MAX_RANK];
    for (int i = 0; i < value->type->rank; i++) {
        int item = item_of_axis(e, value, i);
        dims[i] = item < 0 ? value->type->dims[i] : frame->dims[item];
        if (!dims[i]) {
            diag_bug(e->func->diags, "axis %s is walked by no loop here",
                     e->plan->items[item].name);
        }
    }
    return type_with_dims(e->func, value->type, value->type->rank, dims);
}

static Frame frame_inside(Emitter *e, Frame *outer, Op *loop, int item)
{
    Frame frame = {.outer = outer, .loop = loop, .class = e->plan->items[item].class};
    size_t n = (size_t)e->plan->n;
    frame.at = build_at_end(e->func, loop->regions[0]);
    frame.values = clone_map_new(e->func);
    frame.dims = arena_copy(e->func->arena, outer->dims, n * sizeof(Dim));
    frame.ranges = arena_copy(e->func->arena, outer->ranges, n * sizeof(Value *));
    frame.ranges[item] = loop->regions[0]->args[0];
    frame.dims[item] = frame.ranges[item]->type->dims[0];
    return frame;
}

/* A loop over a whole axis, empty. */
static Op *open_loop(Emitter *e, Frame *frame, int item, Value *init)
{
    const AxisPlan *axis = &e->plan->items[item];
    Value *lo = build_i64(&frame->at, 0), *hi = build_size(&frame->at, axis->dim);
    return build_for(&frame->at, axis->dim, axis->step, axis->name, lo, hi, init ? 1 : 0, &init);
}

/* ---- reductions and products ---- */

static OpKind combiner(const char *fn)
{
    return text_same(fn, "sum")    ? OP_ADD
           : text_same(fn, "prod") ? OP_MUL
           : text_same(fn, "min")  ? OP_MIN
                                   : OP_MAX;
}

static Value *emit_reduce(Emitter *e, Frame *frame, const Op *op)
{
    Value *from = op->operands[0];
    int axis = (int)op_int(op, ATTR_AXIS, 0), item = item_of_axis(e, from, axis);
    const char *fn = op_word(op, ATTR_FN);
    if (item < 0 || e->plan->items[item].how != AXIS_LOOP) {
        return build_reduce(&frame->at, fn, emit(e, frame, from), axis);
    }
    Type type = type_here(e, frame, op->results[0]);
    int64_t integer = 0;
    double neutral = reduce_neutral(fn, type->dtype, &integer);
    Value *init = dtype_is_float(type->dtype) ? build_float(&frame->at, type, neutral)
                                              : build_int(&frame->at, type, integer);
    Op *loop = open_loop(e, frame, item, init);
    Frame inside = frame_inside(e, frame, loop, item);
    Value *part = build_reduce(&inside.at, fn, emit(e, &inside, from), axis);
    Value *next = build_binary(&inside.at, combiner(fn), loop->regions[0]->args[1], part);
    build_yield(&inside.at, 1, &next);
    return loop->results[0];
}

static Value *emit_dot(Emitter *e, Frame *frame, const Op *op)
{
    int item = item_of_axis(e, op->operands[0], 1);
    Type type = type_here(e, frame, op->results[0]);
    Value *init =
        op->n_operands == 3 ? emit(e, frame, op->operands[2]) : build_float(&frame->at, type, 0);
    Op *loop = open_loop(e, frame, item, init);
    Frame inside = frame_inside(e, frame, loop, item);
    Value *a = emit(e, &inside, op->operands[0]), *b = emit(e, &inside, op->operands[1]);
    Value *next = build_dot(&inside.at, a, b, loop->regions[0]->args[1], type->dtype);
    build_yield(&inside.at, 1, &next);
    return loop->results[0];
}

/* ---- everything else ---- */

/* The axes of a load's result, in order, are its operand's that are not dropped. */
static Value *emit_load(Emitter *e, Frame *frame, const Op *op)
{
    Value *indices[MAX_RANK];
    Access access = op_access(op, 0);
    for (int i = 0, axis = 0; i < access.n; i++) {
        indices[i] = access.indices[i];
        if (!indices[i]) {
            int item = item_of_axis(e, op->results[0], axis++);
            indices[i] = item < 0 ? NULL : frame->ranges[item];
        }
    }
    return build_load(&frame->at, access.memory, indices);
}

static Value *emit_plain(Emitter *e, Frame *frame, const Op *op)
{
    Value *operands[8];
    Type type = type_here(e, frame, op->results[0]);
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = emit(e, frame, op->operands[i]);
    }
    Op *copy = build_op(&frame->at, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    return copy->results[0];
}

static Value *emit_op(Emitter *e, Frame *frame, const Op *op)
{
    frame->at.span = op->span;
    switch (op->kind) {
    case OP_LOAD: return emit_load(e, frame, op);
    case OP_REDUCE: return emit_reduce(e, frame, op);
    case OP_DOT: return emit_dot(e, frame, op);
    default: return emit_plain(e, frame, op);
    }
}

static Value *emit(Emitter *e, Frame *frame, Value *value)
{
    if (!value->def) {
        return value;
    }
    if (frame->loop && !has_class(e, value, frame->class)) {
        Frame *outer = frame->outer;
        Builder end = outer->at;
        outer->at = build_before(e->func, frame->loop);
        Value *found = emit(e, outer, value);
        outer->at = end;
        return found;
    }
    Value *known = clone_get(&frame->values, value);
    if (known == value) {
        known = emit_op(e, frame, value->def);
        known->name = value->name;
        clone_map_value(&frame->values, value, known);
    }
    return known;
}

/* ---- stores and the launch ---- */

static void emit_store(Emitter *e, Frame *frame, const Op *op, int from)
{
    Value *value = op->operands[op->n_operands - 1];
    for (int i = from; i < value->type->rank; i++) {
        int item = item_of_axis(e, value, i);
        if (item >= 0 && e->plan->items[item].how == AXIS_LOOP) {
            Op *loop = open_loop(e, frame, item, NULL);
            Frame inside = frame_inside(e, frame, loop, item);
            emit_store(e, &inside, op, i + 1);
            build_yield(&inside.at, 0, NULL);
            return;
        }
    }
    Value *indices[MAX_RANK];
    Access access = op_access(op, 0);
    for (int i = 0, axis = 0; i < access.n; i++) {
        indices[i] = access.indices[i];
        if (!indices[i]) {
            int item = item_of_axis(e, value, axis++);
            indices[i] = item < 0 ? NULL : frame->ranges[item];
        }
    }
    Value *here = emit(e, frame, value);
    frame->at.span = op->span;
    build_store(&frame->at, access.memory, indices, here);
}

static Op *emit_launch(Emitter *e, Op *group, Frame *frame)
{
    Dim dims[MAX_RANK];
    int64_t steps[MAX_RANK];
    const char *names[MAX_RANK];
    int items[MAX_RANK], n = 0;
    for (int i = 0; i < e->plan->n_stored; i++) {
        const AxisPlan *axis = &e->plan->items[i];
        if (axis->how != AXIS_LOOP) {
            items[n] = i;
            names[n] = axis->name;
            dims[n] = axis->dim;
            steps[n++] = axis->step;
        }
    }
    Builder before = build_before(e->func, group);
    Op *launch = build_parallel(&before, OP_LAUNCH, n, dims, steps, names);
    op_set_ints(e->func, launch, ATTR_WARPS, 1, &e->plan->warps);
    if (e->plan->blocks > 1) {
        op_set_int(e->func, launch, ATTR_BLOCKS, e->plan->blocks);
    }
    if (e->plan->grouped) {
        op_set_int(e->func, launch, ATTR_GROUPED, e->plan->grouped);
    }
    for (int i = 0; i < n; i++) {
        frame->ranges[items[i]] = launch->regions[0]->args[i];
        frame->dims[items[i]] = frame->ranges[items[i]]->type->dims[0];
    }
    frame->at = build_at_end(e->func, launch->regions[0]);
    return launch;
}

void tile_emit(Func *func, Op *group, const TilePlan *plan)
{
    Emitter e = {func, plan};
    Frame frame = {.class = -1, .values = clone_map_new(func)};
    frame.dims = ARENA_ARRAY(func->arena, Dim, plan->n);
    frame.ranges = ARENA_ARRAY(func->arena, Value *, plan->n);
    emit_launch(&e, group, &frame);
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        if (op->kind == OP_STORE) {
            emit_store(&e, &frame, op, 0);
        }
    }
}
