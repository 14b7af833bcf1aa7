/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory with a shadow that stores, per element, who wrote it and who read it last, as
 * stamps of vector clocks. An access is a race if the agent's clock does not cover the stamps that
 * it must follow. Order comes from barriers (the agent's own accesses), mbarriers (other roles),
 * dot waits, and bulk waits (copies). */
#include "ir/interp/interp_internal.h"

#include <string.h>

/* ---- allocation ---- */

static void *owned(InterpRun *run, Shared *shared, size_t bytes)
{
    Buffer *buffer = buffer_zeroed(run, bytes);
    shared->owned[shared->n_owned++] = buffer;
    return buffer->bytes;
}

void interp_shared(InterpRun *run, const Op *op)
{
    Type type = op->results[0]->type;
    Buffer *self = buffer_zeroed(run, sizeof(Shared));
    Shared *shared = (Shared *)(void *)self->bytes;
    shared->self = self;
    shared->op = op;
    shared->dtype = type->dtype;
    shared->rank = type->rank;
    shared->n = 1;
    for (int i = 0; i < type->rank; i++) {
        shared->dims[i] = run_dim(run, op, run->extents, type->dims[i]);
        shared->n *= shared->dims[i];
    }
    shared->offset = op_int(op, ATTR_OFFSET, -1);
    shared->data = owned(run, shared, (size_t)(shared->n * dtype_bytes(type->dtype)));
    shared->poison = owned(run, shared, (size_t)shared->n);
    memset(shared->poison, 1, (size_t)shared->n);
    shared->written = owned(run, shared, (size_t)shared->n * sizeof(Stamp));
    if (run->options->bounds) {
        shared->bounds = owned(run, shared, (size_t)shared->n * sizeof(double));
    }
    shared->older = run->shared;
    run->shared = shared;
    run->cells[op->results[0]->id].shared = shared;
}

void shared_drop_all(InterpRun *run)
{
    while (run->shared) {
        Shared *shared = run->shared;
        run->shared = shared->older;
        for (int i = 0; i < shared->n_owned; i++) {
            buffer_drop(run, shared->owned[i]);
        }
        buffer_drop(run, shared->self);
    }
}

View shared_view(InterpRun *run, const Op *op, Access access)
{
    const Shared *shared = run->cells[access.memory->id].shared;
    View view = view_of(run, op, access, shared->rank, shared->dims);
    ViewAxis *ring = &view.axes[0];
    if (view.rank && !ring->kept && ring->start >= 0) {
        ring->start %= ring->extent;
    }
    return view;
}

/* ---- races ---- */

static const char *who(InterpRun *run, uint32_t by)
{
    uint32_t agent = by % MAX_AGENTS;
    const char *name =
        agent == 0 ? "the block" : arena_printf(run->arena, "role %u", (unsigned)(agent - 1));
    if (by >= BY_SLOTS) {
        return "a bulk load";
    }
    if (by >= BY_COPIES) {
        return arena_printf(run->arena, "a copy of %s", name);
    }
    if (by >= BY_PRODUCTS) {
        return arena_printf(run->arena, "a product of %s", name);
    }
    return by >= BY_STORES ? arena_printf(run->arena, "a bulk store of %s", name) : name;
}

typedef struct Use {
    InterpRun *run;
    const Op *op;
    Shared *shared;
    const View *view;
    const char *name;
    Stamp as;
    uint32_t *reads;
    Array *to;
    Buffer *bounds;
} Use;

static _Noreturn void race(const Use *use, int64_t position, const char *format, uint32_t by)
{
    const char *name = who(use->run, by);
    char *what = arena_alloc(use->run->arena, strlen(format) + strlen(name) + 1);
    const char *hole = strchr(format, '@');
    memcpy(what, format, (size_t)(hole - format));
    strcat(what, name);
    strcat(what, hole + 1);
    view_fail(use->run, use->op, use->view, position, what, use->name);
}

static void outside(const Use *use, Reach reach, int64_t position)
{
    if (reach != REACH_INSIDE) {
        view_fail(use->run, use->op, use->view, position, "outside of shared memory:", use->name);
    }
}

/* ---- reading ---- */

static void check_read(const Use *use, int64_t offset, int64_t position)
{
    const Clocks *known = &use->run->agent->known;
    Stamp written = use->shared->written[offset];
    bool own = written.by == (uint32_t)use->run->agent->id;
    if (written.at > known->at[written.by]) {
        race(use, position,
             own ? "race: @ wrote, without a sync since,"
                 : "race: @ wrote, and nothing orders this read after it,",
             written.by);
    }
    bool async = use->as.by >= MAX_AGENTS, own_kind = written.by < MAX_AGENTS;
    bool copied = written.by >= BY_COPIES && written.by < BY_SLOTS;
    if (async && ((own_kind && written.at > known->fenced[written.by]) ||
                  (copied && written.at > known->fenced_copies[written.by - BY_COPIES]))) {
        race(use, position, "race: @ stored, without a fence_async and then a sync,", written.by);
    }
}

static void read_run(void *user, Reach reach, int64_t offset, int64_t position, int64_t count)
{
    Use *use = user;
    outside(use, reach, position);
    Shared *shared = use->shared;
    for (int64_t i = 0; i < count; i++) {
        check_read(use, offset + i, position + i);
        use->reads[offset + i] = use->as.at;
    }
    int64_t bytes = dtype_bytes(shared->dtype);
    memcpy(array_at(use->to, position), shared->data + offset * bytes, (size_t)(count * bytes));
    if (memchr(shared->poison + offset, 1, (size_t)count)) {
        array_want_poison(use->run, use->to);
        memcpy(use->to->poison->bytes + position, shared->poison + offset, (size_t)count);
    }
    for (int64_t i = 0; shared->bounds && i < count; i++) {
        ((double *)(void *)use->bounds->bytes)[position + i] = shared->bounds[offset + i];
    }
}

static uint32_t *plane_of(InterpRun *run, Shared *shared, uint32_t by)
{
    if (!shared->read[by]) {
        shared->read[by] = owned(run, shared, (size_t)shared->n * sizeof(uint32_t));
    }
    return shared->read[by];
}

Array *shared_read(InterpRun *run, const Op *op, Access access, Stamp as)
{
    Shared *shared = run->cells[access.memory->id].shared;
    View view = shared_view(run, op, access);
    Use use = {.run = run, .op = op, .shared = shared, .view = &view, .as = as};
    use.name = access.memory->name ? access.memory->name : "shared memory";
    use.reads = plane_of(run, shared, as.by);
    use.to = array_of_view(run, shared->dtype, &view);
    if (shared->bounds) {
        use.bounds = buffer_zeroed(run, (size_t)view.n * sizeof(double));
    }
    view_walk(&view, MOVER_SHARED, read_run, &use);
    if (use.bounds) {
        /* The error bounds of the elements become samples of the result. */
        uint32_t source = use.op->n_results ? use.run->source[use.op->results[0]->id] : 0;
        const double *bounds = (const double *)(const void *)use.bounds->bytes;
        bool any = false;
        for (int64_t i = 0; i < use.to->n; i++) {
            any = any || bounds[i] > 0;
        }
        if (any) {
            array_spread_all(run, use.to, source, bounds);
        }
        buffer_drop(use.run, use.bounds);
    }
    return use.to;
}

static Stamp own_stamp(const InterpRun *run)
{
    return (Stamp){(uint32_t)run->agent->id, run->agent->clock};
}

void interp_shared_load(InterpRun *run, const Op *op)
{
    Array *loaded = shared_read(run, op, op_access(op, 0), own_stamp(run));
    run_result(run, op, 0, array_alias(run, op, op->results[0]->type, loaded));
    array_drop(run, loaded);
}

/* ---- writing ---- */

static void check_write(const Use *use, int64_t offset, int64_t position)
{
    const Clocks *known = &use->run->agent->known;
    Stamp written = use->shared->written[offset];
    if (written.at > known->at[written.by]) {
        race(use, position, "race: overwrites what @ wrote, unordered,", written.by);
    }
    for (uint32_t by = 0; by < BY_COPIES; by++) {
        const uint32_t *reads = use->shared->read[by];
        if (reads && reads[offset] > known->at[by]) {
            race(use, position, "race: overwrites what @ may still read:", by);
        }
    }
}

/* True if nothing unordered uses any of the elements: their planes are compared one by one, since
 * few components read any one allocation. */
static bool are_free(const Use *use, int64_t offset, int64_t count)
{
    const Clocks *known = &use->run->agent->known;
    const Stamp *written = use->shared->written + offset;
    bool held = false;
    for (int64_t i = 0; i < count; i++) {
        held |= written[i].at > known->at[written[i].by];
    }
    for (uint32_t by = 0; by < BY_COPIES; by++) {
        const uint32_t *reads = use->shared->read[by];
        uint32_t last = 0;
        for (int64_t i = 0; reads && i < count; i++) {
            last = reads[offset + i] > last ? reads[offset + i] : last;
        }
        held |= last > known->at[by];
    }
    return !held;
}

/* Fails at the first element that something unordered uses. */
static void check_writes(const Use *use, int64_t offset, int64_t position, int64_t count)
{
    bool all_free = are_free(use, offset, count);
    for (int64_t i = 0; !all_free && i < count; i++) {
        check_write(use, offset + i, position + i);
    }
}

static void take_run(void *user, Reach reach, int64_t offset, int64_t position, int64_t count)
{
    Use *use = user;
    outside(use, reach, position);
    if (use->shared->scattered) {
        memset(use->shared->scattered->marks->how + offset, 0, (size_t)count);
    }
    check_writes(use, offset, position, count);
    for (int64_t i = 0; i < count; i++) {
        use->shared->written[offset + i] = use->as;
    }
    memset(use->shared->poison + offset, 1, (size_t)count);
}

/* Where its bytes end; here each element has one at least. */
static int64_t end_of(const Shared *shared)
{
    bool packed = op_int(shared->op, ATTR_PACKED, 0) != 0;
    int64_t bytes = packed ? shared->n / 2 : shared->n * dtype_bytes(shared->dtype);
    return shared->offset + bytes;
}

static bool overlaps(const Shared *a, const Shared *b)
{
    int64_t end_a = end_of(a), end_b = end_of(b);
    return a != b && a->offset >= 0 && b->offset >= 0 && a->offset < end_b && b->offset < end_a;
}

void shared_take(InterpRun *run, const Op *op, Shared *shared, const View *view, Stamp as)
{
    for (Shared *other = run->shared; other; other = other->older) {
        if (other->live && overlaps(shared, other)) {
            /* Another allocation in the same bytes ends here: each of its elements must be free to
             * overwrite. */
            View whole = {.rank = 1, .n = other->n};
            whole.axes[0] = (ViewAxis){.count = other->n, .exist = other->n, .extent = other->n};
            whole.axes[0].stride = 1;
            Use use = {.run = run, .op = op, .shared = other, .view = &whole};
            use.name = "(elements in the same bytes)";
            check_writes(&use, 0, 0, other->n);
            memset(other->poison, 1, (size_t)other->n);
            other->live = false;
        }
    }
    shared->live = true;
    Use use = {.run = run, .op = op, .shared = shared, .view = view, .as = as};
    use.name = shared->op->results[0]->name ? shared->op->results[0]->name : "shared memory";
    view_walk(view, MOVER_SHARED, take_run, &use);
}

typedef struct Put {
    Shared *shared;
    const Array *from;
} Put;

static void put_run(void *user, Reach reach, int64_t offset, int64_t position, int64_t count)
{
    Put *put = user;
    Shared *shared = put->shared;
    int64_t bytes = dtype_bytes(shared->dtype);
    (void)reach; /* checked when the place was taken */
    memcpy(shared->data + offset * bytes, array_at(put->from, position), (size_t)(count * bytes));
    if (put->from->poison) {
        memcpy(shared->poison + offset, put->from->poison->bytes + position, (size_t)count);
    } else {
        memset(shared->poison + offset, 0, (size_t)count);
    }
    for (int64_t i = 0; shared->bounds && i < count; i++) {
        shared->bounds[offset + i] = array_bound(put->from, position + i);
    }
}

void shared_put(Shared *shared, const View *view, const Array *value)
{
    Put put = {shared, value};
    view_walk(view, MOVER_SHARED, put_run, &put);
}

void interp_shared_store(InterpRun *run, const Op *op)
{
    Access access = op_access(op, 0);
    Shared *shared = run->cells[access.memory->id].shared;
    Array *value = run_operand(run, op, access_next(op, 0));
    View view = shared_view(run, op, access);
    if (view.n != value->n || value->dtype != shared->dtype) {
        run_fail(run, op, "%lld %s elements for %lld %s ones", (long long)value->n,
                 dtype_name(value->dtype), (long long)view.n, dtype_name(shared->dtype));
    }
    shared_take(run, op, shared, &view, own_stamp(run));
    shared_put(shared, &view, value);
}

/* ---- scatters ---- */

Memory *shared_scattered(InterpRun *run, Shared *shared)
{
    if (!shared->scattered) {
        const char *name = shared->op->results[0]->name;
        Memory *memory = ARENA_NEW(run->arena, Memory);
        *memory = (Memory){.name = name ? name : "shared memory",
                           .dtype = shared->dtype,
                           .rank = shared->rank,
                           .n = shared->n,
                           .data = shared->data,
                           .bounds = shared->bounds,
                           .unset = shared->poison};
        memcpy(memory->dims, shared->dims, sizeof memory->dims);
        memory->writers = ARENA_ARRAY(run->arena, uint32_t, shared->n);
        memory_mark(run, memory);
        shared->scattered = memory;
    }
    return shared->scattered;
}

const char *shared_change(InterpRun *run, Shared *shared, int64_t at)
{
    const Clocks *known = &run->agent->known;
    Stamp written = shared->written[at];
    bool changed = shared->scattered->marks->how[at] && written.by == (uint32_t)run->agent->id;
    if (!changed && written.at > known->at[written.by]) {
        return "race: changes what was stored, unordered,";
    }
    for (uint32_t by = 0; by < BY_COPIES; by++) {
        const uint32_t *reads = shared->read[by];
        if (reads && reads[at] > known->at[by]) {
            return "race: changes what may still be read:";
        }
    }
    shared->written[at] = own_stamp(run);
    return NULL;
}

/* A reduction over warps writes its scratch, synchronizes, reads it, and synchronizes again. */
void interp_scratch(InterpRun *run, const Op *op, Access access)
{
    View view = shared_view(run, op, access);
    shared_take(run, op, run->cells[access.memory->id].shared, &view, own_stamp(run));
    async_sync(run);
}
