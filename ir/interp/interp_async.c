/* SPDX-License-Identifier: Apache-2.0 */
/* Mbarriers, bulk copies and asynchronous dots. A bulk load arrives late, at a time drawn from the
 * seed.
 *
 * A phase of an mbarrier passes the vector clocks of all agents that arrived at it to those that
 * wait for it. A bulk load writes with the stamp (its mbarrier, the phase that it completes). A
 * bulk store and a dot read, and a copy by threads writes, with a separate component of their
 * agent's clock. For copies by threads it is the number of the async-copy group, which other
 * threads may rely on once it was waited for and all threads passed a barrier. */
#include "ir/interp/interp_internal.h"

#include <string.h>

/* ---- clocks ---- */

static uint32_t n_clocks(const InterpRun *run)
{
    return BY_SLOTS + run->n_slots;
}

static void later(uint32_t *at, uint32_t than)
{
    *at = *at > than ? *at : than;
}

static void clocks_join(Clocks *into, const Clocks *from, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        later(&into->at[i], from->at[i]);
    }
    for (uint32_t i = 0; i < MAX_AGENTS; i++) {
        later(&into->fenced[i], from->fenced[i]);
        later(&into->fenced_copies[i], from->fenced_copies[i]);
    }
}

void clocks_release(const InterpRun *run, const Agent *agent, Clocks *into)
{
    clocks_join(into, &agent->known, n_clocks(run));
    later(&into->at[agent->id], agent->clock);
    later(&into->at[BY_STORES + agent->id], agent->stores_done);
    later(&into->at[BY_PRODUCTS + agent->id], agent->products_done);
    later(&into->at[BY_COPIES + agent->id], agent->copies_done);
    later(&into->fenced[agent->id], agent->fenced_at);
    later(&into->fenced_copies[agent->id], agent->copies_fenced);
}

void async_sync(InterpRun *run)
{
    Agent *agent = run->agent;
    clocks_release(run, agent, &agent->known);
    clocks_join(&agent->known, &agent->joined, n_clocks(run));
    agent->clock++;
}

/* ---- barriers ---- */

void interp_barrier(InterpRun *run, const Op *op)
{
    Ring *ring = ARENA_NEW(run->arena, Ring);
    ring->op = op;
    ring->arrivals = op_int(op, ATTR_ARRIVALS, 1);
    ring->count = run_dim(run, op, run->extents, op->results[0]->type->dims[0]);
    if (ring->count < 1 || ring->count > MAX_SLOTS - (int64_t)run->n_slots) {
        run_fail(run, op, "more than %d barriers in a block", MAX_SLOTS);
    }
    ring->owned = buffer_zeroed(run, (size_t)ring->count * sizeof(Slot));
    ring->slots = (Slot *)(void *)ring->owned->bytes;
    for (int64_t i = 0; i < ring->count; i++) {
        ring->slots[i].ring = ring;
        ring->slots[i].component = BY_SLOTS + run->n_slots++;
    }
    ARENA_PUSH(run->arena, &run->rings, ring);
    run->cells[op->results[0]->id].ring = ring;
}

static Slot *slot_of(InterpRun *run, const Op *op, Access access, int64_t *generation)
{
    Ring *ring = run->cells[access.memory->id].ring;
    int64_t position = run_integer(run, op, access.indices[0]);
    if (position < 0) {
        run_fail(run, op, "ring position %lld", (long long)position);
    }
    *generation = position / ring->count;
    return &ring->slots[position % ring->count];
}

static void complete_generation(InterpRun *run, Slot *slot)
{
    if (slot->arrived < slot->ring->arrivals || slot->copies) {
        return;
    }
    slot->generation++;
    slot->arrived = 0;
    clocks_join(&slot->done, &slot->forming, n_clocks(run));
    slot->done.at[slot->component] = slot->generation;
    memset(&slot->forming, 0, sizeof slot->forming);
}

static void count_arrival(InterpRun *run, const Op *op, Slot *slot)
{
    if (slot->arrived >= slot->ring->arrivals) {
        run_fail(run, op, "one arrival more than the barrier's %lld in generation %u",
                 (long long)slot->ring->arrivals, slot->generation);
    }
    slot->arrived++;
}

static void arrive(InterpRun *run, const Op *op)
{
    int64_t generation;
    int condition = access_next(op, 0);
    if (condition < op->n_operands && !run_integer(run, op, op->operands[condition])) {
        return;
    }
    Slot *slot = slot_of(run, op, op_access(op, 0), &generation);
    count_arrival(run, op, slot);
    clocks_release(run, run->agent, &slot->forming);
    run->agent->clock++;
    complete_generation(run, slot);
}

/* The hardware compares one bit of the generation: who is two behind waits for ever, or never. */
static bool wait(InterpRun *run, const Op *op)
{
    int64_t generation;
    Slot *slot = slot_of(run, op, op_access(op, 0), &generation);
    int64_t wanted = op_int(op, ATTR_PREVIOUS_PHASE, 0) ? generation : generation + 1;
    if (slot->generation < wanted) {
        return false;
    }
    if (slot->generation > wanted) {
        run_fail(run, op, "waits for generation %lld, but %u are complete", (long long)wanted - 1,
                 slot->generation);
    }
    if (wanted > 0) {
        clocks_join(&run->agent->known, &slot->done, n_clocks(run));
        slot->waited = slot->generation;
    }
    return true;
}

/* ---- bulk copies ---- */

/* What arrives at the barrier, and in shared memory at a time drawn from the seed. */
static void post_copy(InterpRun *run, const Op *op, Access to, Slot *slot, Array *payload)
{
    Pending copy = {.shared = run->cells[to.memory->id].shared, .slot = slot, .payload = payload};
    copy.view = shared_view(run, op, to);
    if (copy.view.n != payload->n || copy.shared->dtype != payload->dtype) {
        run_fail(run, op, "%lld %s elements for %lld %s ones", (long long)payload->n,
                 dtype_name(payload->dtype), (long long)copy.view.n,
                 dtype_name(copy.shared->dtype));
    }
    count_arrival(run, op, slot);
    clocks_join(&slot->forming, &run->agent->known, n_clocks(run));
    slot->copies++;
    slot->loaded = slot->generation + 1;
    shared_take(run, op, copy.shared, &copy.view, (Stamp){slot->component, slot->loaded});
    ARENA_PUSH(run->arena, &run->pending, copy);
}

static void bulk_load(InterpRun *run, const Op *op)
{
    int64_t generation;
    Access to = op_access_nth(op, 1);
    Slot *slot = slot_of(run, op, op_access_nth(op, 2), &generation);
    Array *payload = tensor_read(run, op, op_access_nth(op, 0), MOVER_ENGINE);
    if (op_attr(op, ATTR_PRECISION)) {
        /* The bulk-copy engine rounds the elements that it copies to TF32, in all samples. */
        for (int s = payload->samples ? SAMPLES : 0; s-- >= 0;) {
            float *plane = array_plane(payload, s);
            for (int64_t i = 0; i < payload->n; i++) {
                plane[i] = f32_to_tf32(plane[i]);
            }
        }
    }
    post_copy(run, op, to, slot, payload);
}

/* The number of a tile, which arrives late as a bulk copy does. */
static void take_tile(InterpRun *run, const Op *op)
{
    int64_t generation;
    Access from = op_access_nth(op, 0);
    Slot *slot = slot_of(run, op, op_access_nth(op, 2), &generation);
    Memory *counter = run->cells[from.memory->id].memory;
    int64_t at = run_integer(run, op, from.indices[0]);
    if (at < 0 || at >= counter->n || (counter->unset && counter->unset[at])) {
        run_fail(run, op, "the counter is not set");
    }
    size_t index;
    unsigned char *place = memory_place(counter, at, &index);
    Scalar old = scalar_unpack(counter->dtype, place, index);
    Array *number = array_of_type(run, op, op->results[0]->type);
    scalar_store(counter->dtype, array_at(number, 0), old);
    scalar_pack(counter->dtype, place, index, (Scalar){.i = old.i + 1});
    post_copy(run, op, op_access_nth(op, 1), slot, array_keep(number));
    run_result(run, op, 0, number);
}

static void read_tile(InterpRun *run, const Op *op)
{
    Stamp as = {(uint32_t)run->agent->id, run->agent->clock};
    run_result(run, op, 0, shared_read(run, op, op_access(op, 0), as));
}

bool async_complete_one(InterpRun *run)
{
    if (run->pending.n == 0) {
        return false;
    }
    size_t chosen = (size_t)(run_random(run) % run->pending.n);
    Pending copy = run->pending.items[chosen];
    run->pending.items[chosen] = run->pending.items[--run->pending.n];
    shared_put(copy.shared, &copy.view, copy.payload);
    array_drop(run, copy.payload);
    copy.slot->copies--;
    complete_generation(run, copy.slot);
    return true;
}

static void bulk_store(InterpRun *run, const Op *op)
{
    Agent *agent = run->agent;
    Stamp as = {(uint32_t)(BY_STORES + agent->id), ++agent->stores};
    Array *value = shared_read(run, op, op_access_nth(op, 0), as);
    tensor_write(run, op, op_access_nth(op, 1), value, MOVER_ENGINE);
    array_drop(run, value);
}

/* ---- copies by threads ---- */

/* They are there at once, but no op may read before its group was waited for, and what was there
 * before may be gone from now on. */
static void copy_load(InterpRun *run, const Op *op)
{
    Agent *agent = run->agent;
    Access to = op_access_nth(op, 1);
    Shared *shared = run->cells[to.memory->id].shared;
    Array *payload = tensor_read(run, op, op_access_nth(op, 0), MOVER_THREADS);
    View view = shared_view(run, op, to);
    if (view.n != payload->n || shared->dtype != payload->dtype) {
        run_fail(run, op, "%lld %s elements for %lld %s ones", (long long)payload->n,
                 dtype_name(payload->dtype), (long long)view.n, dtype_name(shared->dtype));
    }
    agent->copied = agent->copies + 1;
    shared_take(run, op, shared, &view, (Stamp){(uint32_t)(BY_COPIES + agent->id), agent->copied});
    shared_put(shared, &view, payload);
    array_drop(run, payload);
}

static void copy_commit(Agent *agent)
{
    agent->copies++;
    agent->copies_empty = agent->copied < agent->copies ? agent->copies : agent->copies_empty;
}

static void copy_wait(InterpRun *run, const Op *op)
{
    Agent *agent = run->agent;
    int64_t pending = op_int(op, ATTR_PENDING, 0), done = (int64_t)agent->copies - pending;
    bool full = op->n_operands && run_integer(run, op, op->operands[0]);
    if (full && agent->copies_empty > 0 && (int64_t)agent->copies_empty > done) {
        run_fail(run, op, "one of the newest %lld groups is empty", (long long)pending);
    }
    later(&agent->copies_done, done > 0 ? (uint32_t)done : 0);
}

/* ---- products ---- */

static Array *factor(InterpRun *run, const Op *op, Access access, Stamp as)
{
    if (access.memory->type->kind == TYPE_SHARED) {
        return shared_read(run, op, access, as);
    }
    return array_keep(run_operand(run, op, access.at));
}

static Array *product(InterpRun *run, const Op *op, Stamp as)
{
    Access first = op_access(op, 0), second = op_access_nth(op, 1);
    int third = access_next(op, second.at);
    Array *a = factor(run, op, first, as), *b = factor(run, op, second, as);
    Array *c = NULL;
    if (third < op->n_operands) {
        c = op->kind == OP_DOT ? run_operand(run, op, third) : run_unsettled(run, op, third);
    }
    Array *result = interp_product(run, op, a, b, c);
    array_drop(run, a);
    array_drop(run, b);
    return result;
}

void interp_dot(InterpRun *run, const Op *op)
{
    Stamp as = {(uint32_t)run->agent->id, run->agent->clock};
    run_result(run, op, 0, product(run, op, as));
}

static void dot_async(InterpRun *run, const Op *op)
{
    Agent *agent = run->agent;
    uint32_t number = ++agent->products;
    Array *result = product(run, op, (Stamp){(uint32_t)(BY_PRODUCTS + agent->id), number});
    result->agent = agent->id;
    result->product = number;
    run_result(run, op, 0, result);
}

static void settle(InterpRun *run, const Op *op)
{
    Agent *agent = run->agent;
    int64_t done = (int64_t)agent->products - op_int(op, ATTR_PENDING, 0);
    later(&agent->products_done, done > 0 ? (uint32_t)done : 0);
    uint32_t last = 0;
    for (int i = 0; i < op->n_operands; i++) {
        Array *flying = run_unsettled(run, op, i);
        if (flying->product && flying->product < last) {
            run_fail(run, op, "operand %d was issued before the one in front of it", i);
        }
        last = flying->product ? flying->product : last;
        Array *result = array_alias(run, op, op->results[i]->type, flying);
        if (result->product <= agent->products_done) {
            result->product = 0;
        }
        run_result(run, op, i, result);
    }
}

/* ---- all ---- */

bool interp_is_sync(OpKind kind)
{
    switch (kind) {
    case OP_BARRIER:
    case OP_FENCE_ASYNC:
    case OP_ORDERED_WAIT:
    case OP_ORDERED_ARRIVE:
    case OP_BULK_LOAD:
    case OP_TAKE_TILE:
    case OP_READ_TILE:
    case OP_BULK_STORE:
    case OP_BULK_WAIT:
    case OP_COPY_LOAD:
    case OP_COPY_COMMIT:
    case OP_COPY_WAIT:
    case OP_WAIT:
    case OP_ARRIVE:
    case OP_DOT_ASYNC:
    case OP_DOT_WAIT: return true;
    default: return false;
    }
}

bool interp_async(InterpRun *run, const Op *op)
{
    Agent *agent = run->agent;
    switch (op->kind) {
    case OP_BARRIER: async_sync(run); return true;
    case OP_FENCE_ASYNC:
        agent->fenced_at = agent->clock++;
        agent->copies_fenced = agent->copies_done;
        return true;
    case OP_ORDERED_WAIT:
    case OP_ORDERED_ARRIVE: return true; /* the warp groups of a role are one here */
    case OP_BULK_LOAD: bulk_load(run, op); return true;
    case OP_TAKE_TILE: take_tile(run, op); return true;
    case OP_READ_TILE: read_tile(run, op); return true;
    case OP_BULK_STORE: bulk_store(run, op); return true;
    case OP_BULK_WAIT: agent->stores_done = agent->stores; return true;
    case OP_COPY_LOAD: copy_load(run, op); return true;
    case OP_COPY_COMMIT: copy_commit(agent); return true;
    case OP_COPY_WAIT: copy_wait(run, op); return true;
    case OP_WAIT: return wait(run, op);
    case OP_ARRIVE: arrive(run, op); return true;
    case OP_DOT_ASYNC: dot_async(run, op); return true;
    default: settle(run, op); return true;
    }
}

/* ---- a block's life ---- */

void async_end_agent(InterpRun *run, const Agent *agent, const Op *op)
{
    if (agent->products_done < agent->products) {
        run_fail(run, op, "%s ends with products that were never settled", agent->name);
    }
    if (agent->copies_done < agent->copied) {
        run_fail(run, op, "%s ends while copies are on their way", agent->name);
    }
    if (agent->stores_done < agent->stores) {
        run_fail(run, op, "%s ends while bulk stores may still read shared memory", agent->name);
    }
}

static void check_slot(InterpRun *run, const Slot *slot)
{
    if (slot->waited < slot->loaded) {
        run_fail(run, slot->ring->op, "the block ends, and nothing waited for a bulk load of its");
    }
}

void async_end_block(InterpRun *run)
{
    while (async_complete_one(run)) {}
    for (size_t i = 0; i < run->rings.n; i++) {
        Ring *ring = run->rings.items[i];
        for (int64_t slot = 0; slot < ring->count && !cluster_left(run); slot++) {
            check_slot(run, &ring->slots[slot]);
        }
        buffer_drop(run, ring->owned);
    }
    run->rings.n = 0;
    run->n_slots = 0;
    shared_drop_all(run);
}
