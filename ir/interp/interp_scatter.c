/* SPDX-License-Identifier: Apache-2.0 */
/* Scatters, in an order drawn from the seed. For a tensor that is scattered to, each element
 * records how it was written last. A result that depends on the order is reported, and a conflict
 * that is not allowed is an error. */
#include "ir/interp/interp_coords.h"
#include "ir/interp/interp_reduce.h"
#include "ir/scalar_eval.h"
#include "support/int_math.h"

#include <math.h>
#include <string.h>

typedef enum How {
    HOW_STORE,
    HOW_SET,
    HOW_ADD,
    HOW_MIN,
    HOW_MAX,
    HOW_AND,
    HOW_OR,
    HOW_XOR,
    HOW_XCHG,
    HOW_CAS,
} How;

typedef struct Scattering {
    InterpRun *run;
    const Op *op;
    How how;
    OpKind kind; /* of an atomic that is one */
    Places places;
    Memory *memory;
    Shared *shared; /* whose elements the memory's are; NULL: a tensor's */
    ScatterParts parts;
    const Array *value, *compare, *mask, *active;
    const Buffer *padding;
    Array *old; /* NULL: nothing asks */
} Scattering;

static How how_of(const Op *op, OpKind *kind)
{
    static const struct {
        const char *name;
        How how;
        OpKind kind;
    } names[] = {
        {"set", HOW_SET, OP_CONST}, {"add", HOW_ADD, OP_ADD},     {"min", HOW_MIN, OP_MIN},
        {"max", HOW_MAX, OP_MAX},   {"and", HOW_AND, OP_AND},     {"or", HOW_OR, OP_OR},
        {"xor", HOW_XOR, OP_XOR},   {"xchg", HOW_XCHG, OP_CONST}, {"cas", HOW_CAS, OP_CONST},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (text_equal(names[i].name, op_word(op, ATTR_FN))) {
            *kind = names[i].kind;
            return names[i].how;
        }
    }
    return HOW_SET;
}

void memory_mark(InterpRun *run, Memory *memory)
{
    Marks *marks = ARENA_NEW(run->arena, Marks);
    marks->how = ARENA_ARRAY(run->arena, uint8_t, memory->n);
    marks->serial = ARENA_ARRAY(run->arena, uint32_t, memory->n);
    marks->stored = ARENA_ARRAY(run->arena, uint32_t, memory->n);
    if (memory->bounds) {
        marks->terms = ARENA_ARRAY(run->arena, uint32_t, memory->n);
        marks->size = ARENA_ARRAY(run->arena, double, memory->n);
        marks->moved = ARENA_ARRAY(run->arena, double, memory->n);
    }
    memory->marks = marks;
}

/* ---- one place ---- */

/* Was it written, last, by an element that has no order with this one? */
static bool is_unordered(const Scattering *s, int64_t at)
{
    const Memory *memory = s->memory;
    bool same_op = memory->marks->how[at] && memory->marks->serial[at] == s->run->serial;
    return same_op || is_others(s->run, memory, at, 1);
}

/* Sums in any order, whatever they began with. One addition to a value that stands is exact. */
static void tally(const Scattering *s, int64_t at, double old, double value, double bound)
{
    Marks *marks = s->memory->marks;
    double *bounds = s->memory->bounds;
    if (marks->how[at] != HOW_ADD) {
        marks->terms[at] = 0;
        marks->size[at] = fabs(old) + bounds[at];
        marks->moved[at] = bounds[at];
    }
    marks->terms[at]++;
    marks->size[at] += fabs(value) + bound;
    marks->moved[at] += bound;
    double terms = marks->terms[at] > 1 ? 2.0 * marks->terms[at] : 0;
    DType dtype = s->memory->dtype;
    bounds[at] = rounding(terms, unit_of(dtype), marks->size[at], greatest_of(dtype));
    bounds[at] += marks->moved[at];
}

static void depends_on_order(const Scattering *s, int64_t at)
{
    interp_note(s->run, INTERP_UNORDERED, s->op);
    if (s->memory->bounds) {
        s->memory->bounds[at] = INFINITY;
    }
}

static bool same_bits(DType dtype, Scalar a, Scalar b)
{
    unsigned char x[8] = {0}, y[8] = {0};
    scalar_store(dtype, x, a);
    scalar_store(dtype, y, b);
    return memcmp(x, y, sizeof x) == 0;
}

/* Of atomics whose old elements are read: how many of this op there are at a place, and by how much
 * they change it in all. Sums of floats are counted by `tally`. */
static void count_conflicts(const Scattering *s, int64_t at, Scalar value)
{
    Marks *marks = s->memory->marks;
    bool is_float = dtype_is_float(s->memory->dtype);
    if (!s->old || !s->memory->bounds || (is_float && s->how == HOW_ADD)) {
        return;
    }
    if (marks->serial[at] != s->run->serial || !marks->how[at]) {
        marks->terms[at] = 0;
        marks->size[at] = 0;
    }
    marks->terms[at]++;
    marks->size[at] += is_float ? fabs(value.f) : fabs((double)value.i);
}

static Scalar next_of(const Scattering *s, Scalar old, Scalar value, int64_t i)
{
    DType dtype = s->memory->dtype;
    if (s->how == HOW_CAS) {
        return same_bits(dtype, old, array_scalar(s->compare, i)) ? value : old;
    }
    if (s->kind == OP_CONST) {
        return value;
    }
    Scalar both[] = {old, value};
    return scalar_op(s->kind, NULL, dtype, dtype, both);
}

static void bound_place(const Scattering *s, int64_t at, int64_t i, Scalar old, Scalar value,
                        bool unordered)
{
    double *bounds = s->memory->bounds;
    if (!bounds) {
        return;
    }
    double bound = array_bound(s->value, i);
    bool is_float = dtype_is_float(s->memory->dtype);
    if (s->how == HOW_ADD && is_float) {
        tally(s, at, old.f, value.f, bound);
    } else if (s->how == HOW_SET || s->how == HOW_XCHG) {
        /* A third value that equals the second one may be the first of all in another order. */
        bounds[at] = unordered && isinf(bounds[at]) ? bounds[at] : bound;
    } else if (s->how == HOW_ADD) {
        bounds[at] += bound;
    } else {
        bounds[at] = fmax(bounds[at], bound);
    }
}

static void write_place(const Scattering *s, int64_t i, int64_t at)
{
    Memory *memory = s->memory;
    DType dtype = memory->dtype;
    if (s->value->poison && s->value->poison->bytes[i]) {
        place_fail(s->run, s->op, &s->places, i, "padding or unset memory reaches", memory->name);
    }
    if (s->how != HOW_SET && memory->unset && memory->unset[at]) {
        place_fail(s->run, s->op, &s->places, i, "updates what was never written:", memory->name);
    }
    /* It is a race if another block stored to the place, or if one block sets it and another
     * updates it. */
    const InterpRun *run = s->run;
    const Marks *marks = s->memory->marks;
    bool others = is_others(run, s->memory, at, 1);
    bool stored =
        run->writer && marks->stored[at] >= run->first_writer && marks->stored[at] != run->writer;
    if (stored || (others && (marks->how[at] == HOW_SET) != (s->how == HOW_SET))) {
        place_fail(s->run, s->op, &s->places, i, "race: another block writes", s->memory->name);
    }
    const char *race = s->shared ? shared_change(s->run, s->shared, at) : NULL;
    if (race) {
        place_fail(s->run, s->op, &s->places, i, race, memory->name);
    }
    bool unordered = is_unordered(s, at);
    size_t index;
    unsigned char *place = memory_place(memory, at, &index);
    Scalar old = scalar_unpack(dtype, place, index), value = array_scalar(s->value, i);
    Scalar next = next_of(s, old, value, i);
    bound_place(s, at, i, old, value, unordered);
    count_conflicts(s, at, value);
    /* One that compares may find another's value and stand back, and be the first another time. */
    /* If the order of the updates is not fixed, the program's outcome may depend on it: through the
     * element that is written, or through the old element that is returned. */
    bool differs = !same_bits(dtype, old, s->how == HOW_CAS ? value : next);
    How before = s->memory->marks->how[at];
    bool commutes = s->how >= HOW_ADD && s->how <= HOW_XOR && before == s->how;
    if (unordered) {
        if (!commutes && differs) {
            depends_on_order(s, at);
        } else if (s->old) {
            interp_note(s->run, INTERP_UNORDERED, s->op);
        } else if (s->how == HOW_ADD && dtype_is_float(s->memory->dtype)) {
            interp_note(s->run, INTERP_FLOAT_ATOMIC, s->op);
        }
    }
    scalar_pack(dtype, place, index, next);
    if (s->old) {
        scalar_store(dtype, array_at(s->old, i), old);
    }
    memory->marks->how[at] = (uint8_t)s->how;
    memory->marks->serial[at] = s->run->serial;
    memory->writers[at] = s->run->writer;
    if (memory->unset) {
        memory->unset[at] = 0;
    }
}

/* ---- one element ---- */

static bool is_wanted(const Scattering *s, int64_t i)
{
    if (s->active && s->active->n == s->value->n && !s->active->data->bytes[i]) {
        return false;
    }
    if (s->mask && s->mask->poison && s->mask->poison->bytes[i]) {
        run_fail(s->run, s->op, "the mask depends on padding or unset memory");
    }
    return !s->mask || s->mask->data->bytes[i];
}

/* All places of the box that the indices of element i may lie in. */
static void free_box(const Scattering *s, int64_t i)
{
    const Places *places = &s->places;
    int64_t from[MAX_RANK], n[MAX_RANK], all = 1;
    for (int axis = 0; axis < places->rank; axis++) {
        const Array *index = places->indices[axis];
        int64_t hull[2] = {0, places->dims[axis] - 1};
        if (index) {
            array_hull(index, index->n == 1 ? 0 : i, hull);
        }
        from[axis] = hull[0] > 0 ? hull[0] : 0;
        int64_t last = hull[1] < places->dims[axis] ? hull[1] : places->dims[axis] - 1;
        n[axis] = last < from[axis] ? 0 : last - from[axis] + 1;
        all *= n[axis];
    }
    for (int64_t k = 0; k < all; k++) {
        int64_t at = 0, left = k;
        for (int axis = places->rank - 1; axis >= 0; axis--) {
            at += (from[axis] + left % n[axis]) * places->strides[axis];
            left /= n[axis];
        }
        s->memory->bounds[at] = (double)INFINITY;
    }
}

/* Where executors may differ about the place or the mask, either outcome is right. */
static void note_inexact(const Scattering *s, int64_t i, CoordKind base, int64_t at)
{
    if (s->memory->bounds && s->places.inexact && place_is_wide(&s->places, i)) {
        interp_note(s->run, INTERP_UNORDERED, s->op);
        free_box(s, i);
        return;
    }
    for (int sample = 0; s->memory->bounds && sample < SAMPLES; sample++) {
        int64_t other;
        CoordKind place = place_at(&s->places, i, sample, &other);
        const uint8_t *mask = s->mask ? array_plane(s->mask, sample) : NULL;
        bool elsewhere = place != base || (place == COORD_INSIDE && other != at);
        if (elsewhere || (mask && !mask[i])) {
            if (base == COORD_INSIDE) {
                depends_on_order(s, at);
            }
            if (place == COORD_INSIDE) {
                depends_on_order(s, other);
            }
        }
    }
}

static void scatter_element(const Scattering *s, int64_t i)
{
    int64_t at;
    const char *name = s->memory->name;
    if (!is_wanted(s, i)) {
        return;
    }
    CoordKind place = place_at(&s->places, i, -1, &at);
    if (place == COORD_OUTSIDE) {
        place_fail(s->run, s->op, &s->places, i, "writes outside of the tensor:", name);
    }
    if (place == COORD_WILD || place == COORD_UNKNOWN) {
        place_fail(s->run, s->op, &s->places, i,
                   "an index depends on padding or unset memory:", name);
    }
    if (place == COORD_INSIDE && s->padding && s->padding->bytes[i]) {
        place_fail(s->run, s->op, &s->places, i, "an element of padding is scattered to", name);
    }
    if (place == COORD_INSIDE) {
        write_place(s, i, at);
    }
    if (s->places.inexact || (s->mask && s->mask->samples)) {
        note_inexact(s, i, place, at);
    }
}

/* The old element that one of several sees is any of those that there are on the way; where blocks
 * run at the same time, it is not known how many there will be. */
static void free_old(const Scattering *s, int64_t i)
{
    const Marks *marks = s->memory->marks;
    int64_t at;
    if (!is_wanted(s, i) || place_at(&s->places, i, -1, &at) != COORD_INSIDE) {
        return;
    }
    if (!s->run->writer && marks->terms[at] <= 1) {
        return;
    }
    double size = marks->size[at];
    bool known = s->how == HOW_ADD && !s->run->writer, is_float = dtype_is_float(s->old->dtype);
    Scalar old = array_scalar(s->old, i), least = old, most = old;
    if (known && is_float) {
        least.f -= size;
        most.f += size;
        array_free(s->run, s->old, i, least, most);
    } else if (known && size < 0x1p31) {
        least.i -= (int64_t)size;
        most.i += (int64_t)size;
        array_free(s->run, s->old, i, least, most);
    } else {
        array_any(s->run, s->old, i);
    }
}

void interp_scatter(InterpRun *run, const Op *op)
{
    Access access = op_access(op, 0);
    Scattering s = {.run = run, .op = op, .parts = scatter_parts(op)};
    s.how = how_of(op, &s.kind);
    s.shared =
        access.memory->type->kind == TYPE_SHARED ? run->cells[access.memory->id].shared : NULL;
    s.memory = s.shared ? shared_scattered(run, s.shared) : run->cells[access.memory->id].memory;
    if (!s.memory->writers) {
        run_fail(run, op, "writes %s, which is an input", s.memory->name);
    }
    s.places = places_of(run, op, access, s.memory->rank, s.memory->dims);
    int at = access_next(op, 0);
    s.value = run_operand(run, op, at++);
    s.compare = s.parts.compare ? run_operand(run, op, at++) : NULL;
    s.mask = s.parts.mask ? run_operand(run, op, at) : NULL;
    s.active = while_active(run);
    Buffer *padding = padding_of(run, s.parts.value->type, s.value);
    s.padding = padding;
    run->serial++;
    if (op->n_results) {
        s.old = array_of_type(run, op, op->results[0]->type);
        memset(s.old->data->bytes, 0, (size_t)s.old->n * (size_t)dtype_bytes(s.old->dtype));
    }
    /* The elements are scattered in an order drawn from the seed, i * stride + shift modulo their
     * number, so that races show. */
    int64_t n = s.value->n, stride = 1;
    int64_t shift = n ? (int64_t)(run_random(s.run) % (uint64_t)n) : 0;
    for (int64_t tries = 0; tries < 4 && n > 2; tries++) {
        int64_t drawn = 1 + (int64_t)(run_random(s.run) % (uint64_t)(n < 1000003 ? n : 1000003));
        stride = gcd(drawn, n) == 1 ? drawn : stride;
    }
    for (int64_t i = 0; i < n; i++) {
        scatter_element(
            &s, (int64_t)(((uint64_t)i * (uint64_t)stride + (uint64_t)shift) % (uint64_t)n));
    }
    for (int64_t i = 0; s.old && s.memory->bounds && i < s.value->n; i++) {
        free_old(&s, i);
    }
    buffer_drop(run, padding);
    if (s.old) {
        run_result(run, op, 0, s.old);
    }
}
