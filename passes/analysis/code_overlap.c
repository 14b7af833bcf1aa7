/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates how many elements gathers load when their windows overlap within a thread. The elements
 * of an unrolled window are gathers at shifted indices. If a thread owns a run of output positions
 * along an axis, most elements of one window are also elements of the next one, and code generation
 * loads each element once:
 *
 *   places w, w + 1, … w + 7, read at w, w + 1 and w + 2: 10 elements, not 24 */
#include "passes/analysis/code_overlap.h"

#include <math.h>

#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/op_axes.h"

typedef struct SeenGather SeenGather;
struct SeenGather {
    const Op *op;
    SeenGather *next; /* of those with the same memory and bases */
};

typedef struct GatherKey {
    const CodeOverlap *overlap;
    const Op *op;
} GatherKey;

CodeOverlap code_overlap_new(const Func *func, const CodeSize *size)
{
    CodeOverlap overlap = {.arena = func->arena,
                           .size = size,
                           .places = ARENA_ARRAY(func->arena, IndexPlace, func->n_values)};
    for (uint32_t id = 0; id < func->n_values; id++) {
        overlap.places[id] = (IndexPlace){hash_word(0, id), 0, NO_STRIDE};
    }
    return overlap;
}

/* ---- places ---- */

/* Modulo 2^64, as what is only compared may be. */
static int64_t times(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static int64_t plus(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static IndexPlace sum_of(IndexPlace a, IndexPlace b, int64_t sign)
{
    bool known = a.stride == 0 || b.stride == 0;
    int64_t stride = a.stride == 0 ? b.stride : a.stride;
    return (IndexPlace){a.base + (uint64_t)sign * b.base, plus(a.shift, times(sign, b.shift)),
                        known ? stride : NO_STRIDE};
}

static IndexPlace product_of(IndexPlace a, IndexPlace by)
{
    bool number = by.base == 0;
    int64_t stride = number && a.stride > 0 ? times(a.stride, by.shift) : a.stride;
    return (IndexPlace){hash_word(hash_word(a.base, by.base), (uint64_t)by.shift),
                        number ? times(a.shift, by.shift) : a.shift,
                        number || (a.stride == 0 && by.stride == 0) ? stride : NO_STRIDE};
}

void code_note_places(CodeOverlap *overlap, const Op *op)
{
    if (op->n_results != 1 || dtype_is_float(op->results[0]->type->dtype)) {
        return;
    }
    const Value *result = op->results[0];
    const Attr *number = value_const(result);
    IndexPlace own = {hash_word(0, overlap->size->same[result->id]), 0,
                      type_is_tile(result->type) ? NO_STRIDE : 0};
    const IndexPlace *of[2] = {NULL, NULL};
    for (int i = 0; i < op->n_operands && i < 2; i++) {
        of[i] = op->operands[i] ? &overlap->places[op->operands[i]->id] : NULL;
    }
    if (number) {
        own = (IndexPlace){0, number->i, 0};
    } else if (op->kind == OP_INDEX) {
        own.stride = 1;
    } else if (op->kind == OP_CAST || op_moves_axes(op)) {
        own = *of[0];
    } else if (op->kind == OP_ADD) {
        own = sum_of(*of[0], *of[1], 1);
    } else if (op->kind == OP_SUB) {
        own = sum_of(*of[0], *of[1], -1);
    } else if (op->kind == OP_MUL) {
        own = product_of(*of[0], *of[1]);
    }
    overlap->places[result->id] = own;
}

/* ---- gathers ---- */

static IndexPlace place_along(const CodeOverlap *overlap, const Op *gather, int axis)
{
    Access access = op_access(gather, 0);
    const Value *index = access.indices[axis];
    return index ? overlap->places[index->id] : (IndexPlace){0, 0, NO_STRIDE};
}

static bool has_equal_bases(const void *item, const void *key)
{
    const SeenGather *seen = item;
    const GatherKey *gather = key;
    Access a = op_access(seen->op, 0), b = op_access(gather->op, 0);
    bool equal = a.memory == b.memory && seen->op->results[0]->type == gather->op->results[0]->type;
    for (int axis = 0; axis < a.n && equal; axis++) {
        equal = place_along(gather->overlap, seen->op, axis).base ==
                place_along(gather->overlap, gather->op, axis).base;
    }
    return equal;
}

/* Places of a thread side by side along the tile's axes along which the index varies. */
static int64_t run_along(const CodeOverlap *overlap, const Op *gather, int axis)
{
    const Value *index = op_access(gather, 0).indices[axis];
    const Layout *layout = gather->results[0]->type->layout;
    unsigned varies = index ? overlap->size->varies[index->id] : 0;
    int64_t run = 1;
    if (!layout || !varies || (varies & (varies - 1))) {
        return 1;
    }
    int along = __builtin_ctz(varies);
    for (int pass = 0; pass < layout->bits[IN_REGISTER]; pass++) {
        for (int bit = 0; bit < layout->bits[IN_REGISTER]; bit++) {
            run *= layout->basis[IN_REGISTER][bit][along] == run ? 2 : 1;
        }
    }
    return run;
}

/* Which part of the gather's elements the other one does not bring. */
static double share_without(const CodeOverlap *overlap, const Op *gather, const Op *other)
{
    double share = 0;
    int differ = 0;
    for (int axis = 0; axis < op_access(gather, 0).n; axis++) {
        IndexPlace own = place_along(overlap, gather, axis);
        int64_t there = place_along(overlap, other, axis).shift;
        if (own.shift != there) {
            int64_t run = run_along(overlap, gather, axis), stride = own.stride;
            int64_t steps = stride > 0 ? plus(own.shift, times(-1, there)) / stride : 0;
            bool shares = steps != 0 && steps > -run && steps < run &&
                          times(steps, stride) == plus(own.shift, times(-1, there));
            share = shares ? fabs((double)steps) / (double)run : 1;
            differ++;
        }
    }
    return differ > 1 ? 1 : share;
}

static bool is_around(const Block *outer, const Block *inner)
{
    while (inner && inner != outer) {
        inner = inner->parent ? inner->parent->parent : NULL;
    }
    return inner;
}

double code_own_load_share(CodeOverlap *overlap, const Op *gather)
{
    Access access = op_access(gather, 0);
    uint64_t hash = hash_word(0, access.memory->id);
    for (int axis = 0; axis < access.n; axis++) {
        hash = hash_word(hash, place_along(overlap, gather, axis).base);
    }
    GatherKey key = {overlap, gather};
    SeenGather *first = table_find(&overlap->gathers, hash, has_equal_bases, &key);
    double share = 1;
    for (const SeenGather *seen = first; seen; seen = seen->next) {
        double rest = is_around(seen->op->parent, gather->parent)
                          ? share_without(overlap, gather, seen->op)
                          : 1;
        share = rest < share ? rest : share;
    }
    SeenGather *seen = ARENA_NEW(overlap->arena, SeenGather);
    *seen = (SeenGather){gather, first ? first->next : NULL};
    if (first) {
        first->next = seen;
    } else {
        table_add(overlap->arena, &overlap->gathers, hash, seen);
    }
    return share;
}
