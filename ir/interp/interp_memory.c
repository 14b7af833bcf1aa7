/* SPDX-License-Identifier: Apache-2.0 */
/* Memory accesses as views (start and count per axis), processed row by row; and the tensors. */
#include "ir/interp/interp_internal.h"

#include <string.h>

/* ---- views ---- */

static ViewAxis axis_of(InterpRun *run, const Op *op, Value *index, int64_t extent)
{
    ViewAxis axis = {.count = extent, .exist = extent, .extent = extent, .kept = true};
    if (!index) {
        return axis;
    }
    if (index->type->kind == TYPE_RANGE) {
        Range range = run->cells[index->id].range;
        axis.start = range.lo;
        axis.count = range.extent;
        axis.exist = range.end - range.lo;
        return axis;
    }
    axis.start = run_integer(run, op, index);
    axis.count = axis.exist = 1;
    axis.kept = false;
    return axis;
}

View view_of(InterpRun *run, const Op *op, Access access, int rank, const int64_t *dims)
{
    View view = {.rank = rank, .n = 1};
    const Attr *guard = op_attr(op, ATTR_GUARD);
    int64_t stride = 1;
    bool empty = false;
    for (int i = rank - 1; i >= 0; i--) {
        view.axes[i] = axis_of(run, op, access.indices[i], dims[i]);
        view.axes[i].guarded = guard && i < guard->n && guard->ints[i] != 0;
        view.axes[i].stride = stride;
        empty = empty || view.axes[i].count == 0;
        stride = (int64_t)((uint64_t)stride * (uint64_t)dims[i]); /* next to an empty axis any */
        view.n = (int64_t)((uint64_t)view.n * (uint64_t)view.axes[i].count);
    }
    view.n = empty ? 0 : view.n;
    return view;
}

static Reach reach_of(const ViewAxis *axis, Mover mover, int64_t i)
{
    bool inside = axis->start >= -i && axis->start < axis->extent - i;
    bool exists = i < axis->exist;
    if (mover == MOVER_SHARED) {
        return inside ? REACH_INSIDE : REACH_OUTSIDE;
    }
    if (mover == MOVER_ENGINE) {
        if (!inside) {
            return REACH_GUARDED;
        }
        return exists ? REACH_INSIDE : REACH_PADDING;
    }
    if (axis->guarded) {
        return inside && exists ? REACH_INSIDE : REACH_GUARDED;
    }
    if (!inside) {
        return REACH_OUTSIDE;
    }
    return exists ? REACH_INSIDE : REACH_PADDING;
}

/* Of an access that does not come about, too: hence no overflow. */
static int64_t offset_of(const ViewAxis *axis, int64_t i)
{
    return (int64_t)(((uint64_t)axis->start + (uint64_t)i) * (uint64_t)axis->stride);
}

static Reach worse(Reach a, Reach b)
{
    return a > b ? a : b;
}

typedef struct Segment {
    Reach reach;
    int64_t from, count;
} Segment;

enum { MAX_SEGMENTS = 8 };

typedef struct Walk {
    const View *view;
    Mover mover;
    WalkRun *each;
    void *user;
    Segment segments[MAX_SEGMENTS];
    int n_segments;
    int64_t position;
} Walk;

static void walk_axis(Walk *walk, int axis, Reach outer, int64_t offset)
{
    if (axis == walk->view->rank - 1) {
        /* The last axis is visited as one run per segment. */
        const ViewAxis *last = &walk->view->axes[walk->view->rank - 1];
        for (int i = 0; i < walk->n_segments; i++) {
            const Segment *segment = &walk->segments[i];
            uint64_t at = (uint64_t)offset + (uint64_t)offset_of(last, segment->from);
            walk->each(walk->user, worse(outer, segment->reach), (int64_t)at, walk->position,
                       segment->count);
            walk->position += segment->count;
        }
        return;
    }
    const ViewAxis *at = &walk->view->axes[axis];
    for (int64_t i = 0; i < at->count; i++) {
        uint64_t inner = (uint64_t)offset + (uint64_t)offset_of(at, i);
        walk_axis(walk, axis + 1, worse(outer, reach_of(at, walk->mover, i)), (int64_t)inner);
    }
}

void view_walk(const View *view, Mover mover, WalkRun *each, void *user)
{
    if (view->rank == 0) {
        each(user, REACH_INSIDE, 0, 0, 1);
        return;
    }
    if (view->n == 0) {
        return; /* its other axes may be of any length */
    }
    Walk walk = {.view = view, .mover = mover, .each = each, .user = user};
    /* The last axis is split into segments of one reach each: guarded, inside, padding, outside and
     * guarded again. */
    const ViewAxis *axis = &view->axes[view->rank - 1];
    Segment *out = walk.segments;
    int n = 0;
    for (int64_t i = 0; i < axis->count; i++) {
        Reach reach = reach_of(axis, mover, i);
        if (n && (out[n - 1].reach == reach || n == MAX_SEGMENTS)) {
            out[n - 1].count++;
        } else {
            out[n++] = (Segment){reach, i, 1};
        }
    }
    walk.n_segments = n;
    walk_axis(&walk, 0, REACH_INSIDE, 0);
}

Array *array_of_view(InterpRun *run, DType dtype, const View *view)
{
    int64_t dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < view->rank; i++) {
        if (view->axes[i].kept) {
            dims[rank++] = view->axes[i].count;
        }
    }
    return array_new(run, dtype, rank, dims);
}

void view_fail(InterpRun *run, const Op *op, const View *view, int64_t position, const char *what,
               const char *name)
{
    int64_t at[MAX_RANK];
    for (int i = view->rank - 1; i >= 0; i--) {
        at[i] =
            (int64_t)((uint64_t)view->axes[i].start + (uint64_t)(position % view->axes[i].count));
        position /= view->axes[i].count;
    }
    Text place = text_new(run->arena);
    text_printf(&place, "%s[", name);
    for (int i = 0; i < view->rank; i++) {
        text_printf(&place, "%s%lld", i ? ", " : "", (long long)at[i]);
    }
    text_add(&place, "] of [");
    for (int i = 0; i < view->rank; i++) {
        text_printf(&place, "%s%lld", i ? ", " : "", (long long)view->axes[i].extent);
    }
    run_fail(run, op, "%s %s]", what, place.data);
}

/* ---- elements of a tensor ---- */

unsigned char *memory_place(const Memory *memory, int64_t offset, size_t *index)
{
    int64_t place = memory->strides ? 0 : offset;
    *index = 0;
    if (dtype_is_packed(memory->dtype)) {
        *index = (size_t)offset;
        return memory->data;
    }
    for (int i = memory->rank - 1; memory->strides && i >= 0; i--) {
        place += offset % memory->dims[i] * memory->strides[i];
        offset /= memory->dims[i];
    }
    return memory->data + place * dtype_bytes(memory->dtype);
}

/* How many elements are moved at once. */
static int64_t at_once(const Memory *memory, int64_t count)
{
    return memory->strides || dtype_is_packed(memory->dtype) ? 1 : count;
}

void memory_get(const Memory *memory, int64_t offset, int64_t count, void *to)
{
    unsigned char *out = to;
    size_t bytes = (size_t)dtype_bytes(memory->dtype), index;
    bool packed = dtype_is_packed(memory->dtype);
    int64_t n = at_once(memory, count);
    for (int64_t i = 0; i < count; i += n, out += (size_t)n * bytes) {
        const unsigned char *at = memory_place(memory, offset + i, &index);
        if (packed) {
            scalar_store(memory->dtype, out, scalar_unpack(memory->dtype, at, index));
        } else {
            memcpy(out, at, (size_t)n * bytes);
        }
    }
}

static void memory_put(const Memory *memory, int64_t offset, int64_t count, const void *from)
{
    const unsigned char *in = from;
    size_t bytes = (size_t)dtype_bytes(memory->dtype), index;
    bool packed = dtype_is_packed(memory->dtype);
    int64_t n = at_once(memory, count);
    if (memory->changes) {
        ++*memory->changes;
    }
    for (int64_t i = 0; i < count; i += n, in += (size_t)n * bytes) {
        unsigned char *at = memory_place(memory, offset + i, &index);
        if (packed) {
            scalar_pack(memory->dtype, at, index, scalar_load(memory->dtype, in));
        } else {
            memcpy(at, in, (size_t)n * bytes);
        }
    }
}

/* ---- reading a tensor ---- */

typedef struct Reading {
    InterpRun *run;
    const Op *op;
    const Memory *memory;
    const View *view;
    Mover mover;
    Array *to;
    Scalar fill;
    Buffer *bounds; /* made when one is not 0 */
} Reading;

bool is_others(const InterpRun *run, const Memory *memory, int64_t offset, int64_t count)
{
    for (int64_t i = 0; memory->writers && run->writer && i < count; i++) {
        uint32_t writer = memory->writers[offset + i];
        if (writer >= run->first_writer && writer != run->writer) {
            return true;
        }
    }
    return false;
}

static void read_run(void *user, Reach reach, int64_t offset, int64_t position, int64_t count)
{
    Reading *r = user;
    int64_t bytes = dtype_bytes(r->to->dtype);
    /* The engine brings what lies past the range's end. */
    if (reach == REACH_INSIDE || (reach == REACH_PADDING && r->mover == MOVER_ENGINE)) {
        if (is_others(r->run, r->memory, offset, count)) {
            view_fail(r->run, r->op, r->view, position,
                      "race: reads what another block writes:", r->memory->name);
        }
        memory_get(r->memory, offset, count, array_at(r->to, position));
        /* The buffer for error bounds is allocated when the first element has one. */
        for (int64_t i = 0; r->memory->bounds && i < count; i++) {
            double bound = r->memory->bounds[offset + i];
            if (bound > 0 && !r->bounds) {
                r->bounds = buffer_zeroed(r->run, (size_t)r->to->n * sizeof(double));
            }
            if (bound > 0) {
                ((double *)(void *)r->bounds->bytes)[position + i] = bound;
            }
        }
        /* Elements that were never written are poison. */
        const uint8_t *unset = r->memory->unset;
        if (unset && memchr(unset + offset, 1, (size_t)count)) {
            array_want_poison(r->run, r->to);
            memcpy(r->to->poison->bytes + position, unset + offset, (size_t)count);
        }
        return;
    }
    if (reach == REACH_OUTSIDE) {
        view_fail(r->run, r->op, r->view, position,
                  "reads outside of the tensor:", r->memory->name);
    }
    if (reach == REACH_PADDING) {
        array_want_poison(r->run, r->to);
        memset(r->to->poison->bytes + position, 1, (size_t)count);
        memset(array_at(r->to, position), r->run->options->seed & 1 ? 0x7f : 0xff,
               (size_t)(count * bytes));
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        scalar_store(r->to->dtype, array_at(r->to, position + i), r->fill);
    }
}

Scalar fill_of(const Op *op, DType dtype)
{
    const Attr *attr = op_attr(op, ATTR_VALUE);
    bool is_float = dtype_is_float(dtype);
    if (!attr || (op->kind != OP_LOAD && op->kind != OP_GATHER)) {
        return is_float ? (Scalar){.f = 0} : (Scalar){.i = 0};
    }
    return is_float ? (Scalar){.f = attr->f} : (Scalar){.i = attr->i};
}

Array *tensor_read(InterpRun *run, const Op *op, Access access, Mover mover)
{
    const Memory *memory = interp_shown(run, access.memory);
    View view = view_of(run, op, access, memory->rank, memory->dims);
    Reading reading = {.run = run, .op = op, .memory = memory, .view = &view, .mover = mover};
    reading.to = array_of_view(run, memory->dtype, &view);
    reading.fill = fill_of(op, memory->dtype);
    view_walk(&view, mover, read_run, &reading);
    if (reading.bounds) {
        /* The error bounds of the elements become samples of the result. */
        uint32_t source =
            reading.op->n_results ? reading.run->source[reading.op->results[0]->id] : 0;
        array_spread_all(run, reading.to, source, (double *)(void *)reading.bounds->bytes);
        buffer_drop(reading.run, reading.bounds);
    }
    return reading.to;
}

void interp_load(InterpRun *run, const Op *op)
{
    Array *loaded = tensor_read(run, op, op_access(op, 0), MOVER_THREADS);
    run_result(run, op, 0, array_alias(run, op, op->results[0]->type, loaded));
    array_drop(run, loaded);
}

/* ---- writing a tensor ---- */

typedef struct Writing {
    InterpRun *run;
    const Op *op;
    Memory *memory;
    const View *view;
    const Array *from;
} Writing;

/* What is wrong with writing there; NULL: nothing. */
static const char *fault_of(Reach reach, bool poisoned)
{
    switch (reach) {
    case REACH_OUTSIDE: return "writes outside of the tensor:";
    case REACH_PADDING: return "writes past the end of a range:";
    default: return poisoned ? "padding or unset memory reaches" : NULL;
    }
}

static void write_run(void *user, Reach reach, int64_t offset, int64_t position, int64_t count)
{
    Writing *w = user;
    if (reach == REACH_GUARDED) {
        return;
    }
    const uint8_t *poison = w->from->poison ? w->from->poison->bytes : NULL;
    const uint8_t *first = poison ? memchr(poison + position, 1, (size_t)count) : NULL;
    const char *what = fault_of(reach, first != NULL);
    if (!what && is_others(w->run, w->memory, offset, count)) {
        what = w->run->func->level == LEVEL_TENSOR ? "race: another iteration of `parallel` writes"
                                                   : "race: another block writes";
    }
    if (what) {
        bool is_poison = reach == REACH_INSIDE && first;
        view_fail(w->run, w->op, w->view, is_poison ? first - poison : position, what,
                  w->memory->name);
    }
    for (int64_t i = 0; i < count; i++) {
        w->memory->writers[offset + i] = w->run->writer;
    }
    if (w->memory->unset) {
        memset(w->memory->unset + offset, 0, (size_t)count);
    }
    if (w->memory->marks) {
        memset(w->memory->marks->how + offset, 0, (size_t)count);
        for (int64_t i = 0; i < count; i++) {
            w->memory->marks->stored[offset + i] = w->run->writer;
        }
    }
    memory_put(w->memory, offset, count, array_at(w->from, position));
    for (int64_t i = 0; w->memory->bounds && i < count; i++) {
        w->memory->bounds[offset + i] = array_bound(w->from, position + i);
    }
}

void tensor_write(InterpRun *run, const Op *op, Access access, const Array *value, Mover mover)
{
    Memory *memory = run->cells[access.memory->id].memory;
    View view = view_of(run, op, access, memory->rank, memory->dims);
    if (!memory->writers) {
        run_fail(run, op, "writes %s, which is an input", memory->name);
    }
    if (view.n != value->n || value->dtype != memory->dtype) {
        run_fail(run, op, "%lld %s elements for %lld %s ones", (long long)value->n,
                 dtype_name(value->dtype), (long long)view.n, dtype_name(memory->dtype));
    }
    Writing writing = {run, op, memory, &view, value};
    view_walk(&view, mover, write_run, &writing);
}

void interp_store(InterpRun *run, const Op *op)
{
    Access access = op_access(op, 0);
    tensor_write(run, op, access, run_operand(run, op, access_next(op, 0)), MOVER_THREADS);
}
