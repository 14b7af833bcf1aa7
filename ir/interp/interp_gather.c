/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers read the elements that their indices name. spin_load reads elements that other blocks
 * have written: blocks run one after the other here, so an element that is missing is an error. */
#include "ir/interp/interp_coords.h"

#include "ir/target/target.h"

#include <string.h>

/* ---- places ---- */

Places places_of(InterpRun *run, const Op *op, Access access, int rank, const int64_t *dims)
{
    Places places = {.rank = rank, .ring = access.memory->type->kind == TYPE_SHARED};
    const Attr *guard = op_attr(op, ATTR_GUARD);
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        const Array *index = access.indices[i] ? run->cells[access.indices[i]->id].array : NULL;
        if (!index && access.indices[i]) {
            run_fail(run, op, "an index has no value yet");
        }
        places.indices[i] = index;
        places.inexact = places.inexact || (index && index->samples);
        places.guarded[i] = guard ? guard->ints[i] != 0 : !run->func->padded;
        places.dims[i] = dims[i];
        places.strides[i] = stride;
        stride = (int64_t)((uint64_t)stride * (uint64_t)dims[i]);
    }
    return places;
}

/* Where any place will do neighbours take different ones. */
static int64_t index_at(const Places *places, int axis, int64_t i, int sample)
{
    const Array *index = places->indices[axis];
    if (!index) {
        return i % places->dims[axis];
    }
    size_t at = (size_t)(index->n == 1 ? 0 : i) * (size_t)dtype_bytes(index->dtype);
    int64_t where = scalar_load(index->dtype, (unsigned char *)array_plane(index, sample) + at).i;
    return places->ring && axis == 0 ? where % places->dims[0] : where;
}

CoordKind place_at(const Places *places, int64_t i, int sample, int64_t *offset)
{
    CoordKind place = COORD_INSIDE;
    uint64_t at = 0;
    for (int axis = 0; axis < places->rank; axis++) {
        const Array *index = places->indices[axis];
        int64_t where = index_at(places, axis, i, sample);
        bool inside = where >= 0 && where < places->dims[axis];
        bool guarded = places->guarded[axis];
        CoordKind here = COORD_OUTSIDE;
        if (inside) {
            here = COORD_INSIDE;
        } else if (guarded) {
            here = COORD_GUARDED;
        }
        if (index && index->poison && index->poison->bytes[index->n == 1 ? 0 : i]) {
            here = guarded ? COORD_UNKNOWN : COORD_WILD;
        }
        place = here > place ? here : place;
        at += (uint64_t)where * (uint64_t)places->strides[axis];
    }
    *offset = (int64_t)at;
    return place;
}

bool place_is_wide(const Places *places, int64_t i)
{
    for (int axis = 0; axis < places->rank; axis++) {
        const Array *index = places->indices[axis];
        int64_t hull[2] = {0, 0};
        if (index && index->samples) {
            array_hull(index, index->n == 1 ? 0 : i, hull);
        }
        if (hull[1] - hull[0] > 1) {
            return true;
        }
    }
    return false;
}

void place_fail(InterpRun *run, const Op *op, const Places *places, int64_t i, const char *what,
                const char *name)
{
    Text place = text_new(run->arena);
    text_printf(&place, "%s[", name);
    for (int axis = 0; axis < places->rank; axis++) {
        text_printf(&place, "%s%lld", axis ? ", " : "", (long long)index_at(places, axis, i, -1));
    }
    text_add(&place, "] of [");
    for (int axis = 0; axis < places->rank; axis++) {
        text_printf(&place, "%s%lld", axis ? ", " : "", (long long)places->dims[axis]);
    }
    run_fail(run, op, "%s %s]", what, place.data);
}

/* ---- gather ---- */

typedef struct Gathering {
    InterpRun *run;
    const Op *op;
    Places places;
    const Memory *memory; /* or */
    const Array *array;
    Array *to;
    Scalar fill;
    const Buffer *padding;
    Buffer *bounds; /* of a tensor's elements; made when one is not 0 */
} Gathering;

static void *target_at(const Gathering *g, int sample, int64_t i)
{
    return (unsigned char *)array_plane(g->to, sample) + i * dtype_bytes(g->to->dtype);
}

static void put_fill(const Gathering *g, int sample, int64_t i)
{
    scalar_store(g->to->dtype, target_at(g, sample, i), g->fill);
}

static void put_element(const Gathering *g, int sample, int64_t i, int64_t offset)
{
    size_t bytes = (size_t)dtype_bytes(g->to->dtype);
    if (g->memory) {
        memory_get(g->memory, offset, 1, target_at(g, sample, i));
    } else {
        const unsigned char *from = array_plane(g->array, sample);
        memcpy(target_at(g, sample, i), from + (size_t)offset * bytes, bytes);
    }
}

static void set_poison(Gathering *g, int64_t i)
{
    array_want_poison(g->run, g->to);
    g->to->poison->bytes[i] = 1;
}

static void take_inside(Gathering *g, int64_t i, int64_t offset)
{
    put_element(g, -1, i, offset);
    if (g->array) {
        if (g->array->poison && g->array->poison->bytes[offset]) {
            set_poison(g, i);
        }
        return;
    }
    if (is_others(g->run, g->memory, offset, 1)) {
        place_fail(g->run, g->op, &g->places, i,
                   "race: reads what another block writes:", g->memory->name);
    }
    if (g->memory->unset && g->memory->unset[offset]) {
        set_poison(g, i);
    }
    if (g->memory->bounds && g->memory->bounds[offset] > 0) {
        size_t bytes = (size_t)g->to->n * sizeof(double);
        g->bounds = g->bounds ? g->bounds : buffer_zeroed(g->run, bytes);
        ((double *)(void *)g->bounds->bytes)[i] = g->memory->bounds[offset];
    }
}

/* CPUs walk the elements that there are: nothing is read for padding. */
static bool is_skipped(const Gathering *g, int64_t i)
{
    const Target *target = g->run->func->target;
    return target && target->family == FAMILY_CPU && g->padding && g->padding->bytes[i];
}

static void gather_element(Gathering *g, int64_t i)
{
    int64_t offset;
    const char *name = g->memory ? g->memory->name : "an array";
    CoordKind place = place_at(&g->places, i, -1, &offset);
    if ((place == COORD_OUTSIDE || place == COORD_WILD) && is_skipped(g, i)) {
        place = COORD_UNKNOWN;
    }
    switch (place) {
    case COORD_INSIDE: take_inside(g, i, offset); break;
    case COORD_GUARDED: put_fill(g, -1, i); return;
    case COORD_UNKNOWN:
        put_fill(g, -1, i);
        set_poison(g, i);
        return;
    case COORD_OUTSIDE:
        place_fail(g->run, g->op, &g->places, i, "reads outside of the tensor:", name);
    case COORD_WILD:
        place_fail(g->run, g->op, &g->places, i,
                   "an index that nothing checks depends on padding or unset memory:", name);
    }
    if (g->padding && g->padding->bytes[i]) {
        set_poison(g, i);
    }
}

void interp_gather(InterpRun *run, const Op *op)
{
    Access access = op_access(op, 0);
    Gathering g = {.run = run, .op = op};
    if (access.memory->type->kind == TYPE_ARRAY) {
        g.array = run_operand(run, op, 0);
        g.places = places_of(run, op, access, g.array->rank, g.array->dims);
    } else {
        g.memory = run->cells[access.memory->id].memory;
        g.places = places_of(run, op, access, g.memory->rank, g.memory->dims);
    }
    g.to = array_of_type(run, op, op->results[0]->type);
    g.fill = fill_of(op, g.to->dtype);
    Buffer *padding = padding_of(run, op->results[0]->type, g.to);
    g.padding = padding;
    for (int64_t i = 0; i < g.to->n; i++) {
        gather_element(&g, i);
    }
    if (g.places.inexact || (g.array && g.array->samples)) {
        /* Each sample reads its own elements at its own indices. A sample whose unchecked index
         * leaves the tensor keeps the base's element. */
        array_want_samples(g.run, g.to);
        for (int64_t i = 0; g.places.inexact && i < g.to->n; i++) {
            if (place_is_wide(&g.places, i)) {
                array_any(g.run, g.to, i);
            }
        }
        for (int s = 0; s < SAMPLES; s++) {
            for (int64_t i = 0; i < g.to->n; i++) {
                if (g.places.inexact && place_is_wide(&g.places, i)) {
                    continue;
                }
                int64_t offset;
                CoordKind place = place_at(&g.places, i, s, &offset);
                if (place == COORD_INSIDE) {
                    put_element(&g, s, i, offset);
                } else if (place == COORD_GUARDED) {
                    put_fill(&g, s, i);
                }
            }
        }
    }
    if (g.bounds) {
        /* The gathered elements' error bounds become samples of the result. */
        uint32_t source = g.run->source[g.op->results[0]->id];
        array_spread_all(run, g.to, source, (double *)(void *)g.bounds->bytes);
        buffer_drop(g.run, g.bounds);
    }
    buffer_drop(run, padding);
    run_result(run, op, 0, g.to);
}

/* ---- spin_load ---- */

static uint64_t awaited(InterpRun *run, const Op *op, const Places *places, const Memory *memory,
                        int64_t i)
{
    int64_t offset;
    uint64_t word = 0;
    if (place_at(places, i, -1, &offset) != COORD_INSIDE) {
        place_fail(run, op, places, i,
                   "waits outside of the tensor, or for padding:", memory->name);
    }
    if (!memory->unset || !memory->unset[offset]) {
        memory_get(memory, offset, 1, &word);
    }
    if (word == 0) {
        place_fail(run, op, places, i, "waits for ever: no block that has begun writes",
                   memory->name);
    }
    return word;
}

void interp_await(InterpRun *run, const Op *op)
{
    Access access = op_access(op, 0);
    const Memory *memory = run->cells[access.memory->id].memory;
    Places places = places_of(run, op, access, memory->rank, memory->dims);
    const Array *mask = run_operand(run, op, access_next(op, 0));
    Array *to = array_of_type(run, op, op->results[0]->type);
    if (array_has_poison(mask)) {
        run_fail(run, op, "the mask depends on padding or unset memory");
    }
    for (int64_t i = 0; i < to->n; i++) {
        uint64_t word = mask->data->bytes[i] ? awaited(run, op, &places, memory, i) : 0;
        memcpy(array_at(to, i), &word, sizeof word);
    }
    run_result(run, op, 0, to);
}
