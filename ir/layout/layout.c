/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts: applying them, comparing them, checking that they cover a tile, and deriving the layout
 * of a result from that of an operand. */
#include "ir/layout/layout.h"

#include "ir/interns.h"

#include <string.h>

static void xor_basis(const Layout *layout, LayoutIn in, uint32_t value, int32_t *coords)
{
    for (int bit = 0; bit < layout->bits[in]; bit++) {
        if (value >> bit & 1) {
            for (int axis = 0; axis < layout->rank; axis++) {
                coords[axis] ^= layout->basis[in][bit][axis];
            }
        }
    }
}

void layout_apply(const Layout *layout, uint32_t reg, uint32_t lane, uint32_t warp, int32_t *coords)
{
    memset(coords, 0, sizeof *coords * layout->rank);
    xor_basis(layout, IN_REGISTER, reg, coords);
    xor_basis(layout, IN_LANE, lane, coords);
    xor_basis(layout, IN_WARP, warp, coords);
}

void layout_next_lane(const Layout *layout, uint32_t lane, int32_t *coords)
{
    xor_basis(layout, IN_LANE, lane ^ (lane + 1), coords);
}

bool layout_parts_shared(int results, int parts)
{
    enum { MAX_PARTS = 32 }; /* that a thread reads by itself in the time of a barrier */
    return parts > 1 && results * parts > MAX_PARTS;
}

int layout_registers(const Layout *layout)
{
    return 1 << layout->bits[IN_REGISTER];
}

static bool same_vector(const int32_t *a, const int32_t *b, int rank)
{
    return rank == 0 || memcmp(a, b, sizeof *a * (size_t)rank) == 0;
}

uint32_t layout_thread_bits(const Layout *layout, int axis)
{
    uint32_t bits = 0;
    for (int in = IN_LANE; in <= IN_WARP; in++) {
        for (int bit = 0; bit < layout->bits[in]; bit++) {
            bits |= (uint32_t)layout->basis[in][bit][axis];
        }
    }
    return bits;
}

bool layout_lanes_along(const Layout *layout, int axis)
{
    for (int bit = 0; bit < layout->bits[IN_LANE]; bit++) {
        for (int other = 0; other < layout->rank; other++) {
            if (other != axis && layout->basis[IN_LANE][bit][other]) {
                return false;
            }
        }
    }
    return true;
}

bool layout_equal(const Layout *a, const Layout *b)
{
    if (a->rank != b->rank || memcmp(a->bits, b->bits, sizeof a->bits) != 0) {
        return false;
    }
    for (int in = 0; in < IN_COUNT; in++) {
        for (int bit = 0; bit < a->bits[in]; bit++) {
            if (!same_vector(a->basis[in][bit], b->basis[in][bit], a->rank)) {
                return false;
            }
        }
    }
    return true;
}

const Layout *func_intern_layout(Func *func, const Layout *layout)
{
    FuncInterns *interns = func->interns;
    for (size_t i = 0; i < interns->layouts.n; i++) {
        if (layout_equal(interns->layouts.items[i], layout)) {
            return interns->layouts.items[i];
        }
    }
    Layout *copy = arena_copy(func->arena, layout, sizeof *layout);
    copy->id = (uint32_t)interns->layouts.n;
    ARENA_PUSH(func->arena, &interns->layouts, copy);
    return copy;
}

void func_drop_layouts(Func *func)
{
    func->interns->layouts.n = 0;
}

/* ---- coverage: Gaussian elimination over coordinates packed into words ---- */

typedef struct BitVector {
    uint64_t words[MAX_RANK / 2]; /* 32 bits an axis */
} BitVector;

static BitVector pack_coords(const int32_t *coords, int rank)
{
    BitVector packed = {0};
    for (int axis = 0; axis < rank; axis++) {
        packed.words[axis / 2] |= (uint64_t)(uint32_t)coords[axis] << (32 * (axis & 1));
    }
    return packed;
}

static int highest_bit(const BitVector *vector)
{
    for (int word = MAX_RANK / 2 - 1; word >= 0; word--) {
        if (vector->words[word]) {
            return word * 64 + 63 - __builtin_clzll(vector->words[word]);
        }
    }
    return -1;
}

typedef struct Rows {
    BitVector rows[IN_COUNT * LAYOUT_BITS];
    int n;
} Rows;

/* What is left of the vector after the span's rows: zero when the span holds it. */
static BitVector rows_rest(const Rows *space, BitVector vector)
{
    for (int i = 0; i < space->n; i++) {
        int top = highest_bit(&space->rows[i]);
        if (vector.words[top / 64] >> (top % 64) & 1) {
            for (int word = 0; word < MAX_RANK / 2; word++) {
                vector.words[word] ^= space->rows[i].words[word];
            }
        }
    }
    return vector;
}

static Rows layout_rows(const Layout *layout)
{
    Rows space = {.n = 0};
    for (int in = 0; in < IN_COUNT; in++) {
        for (int bit = 0; bit < layout->bits[in]; bit++) {
            /* The rows stay in the order of insertion: each is reduced by those before it, so one
             * sweep is enough. */
            BitVector vector = pack_coords(layout->basis[in][bit], layout->rank);
            BitVector rest = rows_rest(&space, vector);
            if (highest_bit(&rest) >= 0) {
                space.rows[space.n++] = rest;
            }
        }
    }
    return space;
}

bool layout_covers(const Layout *layout, const int64_t *extents)
{
    Rows space = layout_rows(layout);
    for (int axis = 0; axis < layout->rank; axis++) {
        for (int64_t unit = 1; unit < extents[axis]; unit *= 2) {
            int32_t coords[MAX_RANK] = {0};
            coords[axis] = (int32_t)unit;
            BitVector rest = rows_rest(&space, pack_coords(coords, layout->rank));
            if (highest_bit(&rest) >= 0) {
                return false;
            }
        }
    }
    return true;
}

/* A warp's copies are another's elements; what has bits of its own is disjoint from what registers
 * and lanes add, in all layouts made here. */
bool layout_owned_by(const Layout *layout, const int64_t *extents, int warps)
{
    bool held = true;
    for (uint32_t warp = (uint32_t)warps; warp < 1u << layout->bits[IN_WARP]; warp++) {
        int32_t coords[MAX_RANK];
        uint32_t first = warp;
        bool inside = true;
        layout_apply(layout, 0, 0, warp, coords);
        for (int axis = 0; axis < layout->rank; axis++) {
            inside = inside && coords[axis] < extents[axis];
        }
        for (int bit = 0; bit < layout->bits[IN_WARP]; bit++) {
            static const int32_t zero[MAX_RANK] = {0};
            bool copies = same_vector(layout->basis[IN_WARP][bit], zero, layout->rank);
            first &= copies ? ~(1u << bit) : ~0u;
        }
        held = held && (!inside || first < (uint32_t)warps);
    }
    return held;
}

/* ---- shape ops ---- */

Layout layout_drop_axis(const Layout *layout, int axis)
{
    Layout out = *layout;
    for (int in = 0; in < IN_COUNT; in++) {
        for (int bit = 0; bit < out.bits[in]; bit++) {
            out.basis[in][bit][axis] = 0;
        }
    }
    return out;
}

Layout layout_pick_axes(const Layout *layout, int rank, const int *from)
{
    Layout out = {.rank = (uint8_t)rank};
    memcpy(out.bits, layout->bits, sizeof out.bits);
    for (int in = 0; in < IN_COUNT; in++) {
        for (int bit = 0; bit < out.bits[in]; bit++) {
            for (int axis = 0; axis < rank; axis++) {
                out.basis[in][bit][axis] = from[axis] < 0 ? 0 : layout->basis[in][bit][from[axis]];
            }
        }
    }
    return out;
}

Layout layout_compact(const Layout *layout)
{
    static const int32_t zero[MAX_RANK] = {0};
    Layout out = *layout;
    out.bits[IN_REGISTER] = 0;
    for (int bit = 0; bit < layout->bits[IN_REGISTER]; bit++) {
        const int32_t *basis = layout->basis[IN_REGISTER][bit];
        if (!same_vector(basis, zero, layout->rank)) {
            memcpy(out.basis[IN_REGISTER][out.bits[IN_REGISTER]++], basis, sizeof zero);
        }
    }
    return out;
}

/* ---- questions ---- */

bool layout_crosses(const Layout *layout, LayoutIn in, int axis)
{
    for (int bit = 0; bit < layout->bits[in]; bit++) {
        if (layout->basis[in][bit][axis]) {
            return true;
        }
    }
    return false;
}

static bool is_unit(const int32_t *basis, int rank, int axis, int32_t value)
{
    for (int i = 0; i < rank; i++) {
        if (basis[i] != (i == axis ? value : 0)) {
            return false;
        }
    }
    return true;
}

int layout_contiguous(const Layout *layout, int axis)
{
    int bit = 0;
    while (bit < layout->bits[IN_REGISTER] &&
           is_unit(layout->basis[IN_REGISTER][bit], layout->rank, axis, 1 << bit)) {
        bit++;
    }
    return 1 << bit;
}

/* Threads reach thread 0's element, which has the register's own coordinates, or others; the least
 * coordinate along an axis is what stays of the register's bits when threads clear all they can. A
 * thread's bits and a register's are disjoint in all layouts made here, so thread 0 decides. */
uint32_t layout_copy_bits(const Layout *layout, LayoutIn in, int n)
{
    uint32_t mask = 0;
    for (int bit = 0; bit < n; bit++) {
        bool moves = false;
        for (int axis = 0; bit < layout->bits[in] && axis < layout->rank; axis++) {
            moves |= layout->basis[in][bit][axis] != 0;
        }
        mask |= moves ? 0 : 1u << bit;
    }
    return mask;
}

bool layout_register_exists(const Layout *layout, const int64_t *extents, uint32_t reg)
{
    int32_t coords[MAX_RANK];
    layout_apply(layout, reg, 0, 0, coords);
    for (int axis = 0; axis < layout->rank; axis++) {
        if (coords[axis] >= extents[axis]) {
            return false;
        }
    }
    return true;
}

/* ---- conversion by renaming ---- */

static bool same_threads(const Layout *a, const Layout *b, LayoutIn in)
{
    static const int32_t zero[MAX_RANK] = {0};
    int most = a->bits[in] > b->bits[in] ? a->bits[in] : b->bits[in];
    for (int bit = 0; bit < most; bit++) {
        const int32_t *left = bit < a->bits[in] ? a->basis[in][bit] : zero;
        const int32_t *right = bit < b->bits[in] ? b->basis[in][bit] : zero;
        if (!same_vector(left, right, a->rank)) {
            return false;
        }
    }
    return true;
}

int layout_source_register(const Layout *from, const Layout *to, uint32_t reg)
{
    int32_t wanted[MAX_RANK], coords[MAX_RANK];
    layout_apply(to, reg, 0, 0, wanted);
    for (uint32_t source = 0; source < (uint32_t)layout_registers(from); source++) {
        layout_apply(from, source, 0, 0, coords);
        if (same_vector(coords, wanted, from->rank)) {
            return (int)source;
        }
    }
    return -1;
}

bool layout_is_noop_conversion(const Layout *from, const Layout *to)
{
    if (from->rank != to->rank || !same_threads(from, to, IN_LANE) ||
        !same_threads(from, to, IN_WARP)) {
        return false;
    }
    for (int bit = 0; bit < to->bits[IN_REGISTER]; bit++) {
        if (layout_source_register(from, to, 1u << bit) < 0) {
            return false;
        }
    }
    return true;
}
