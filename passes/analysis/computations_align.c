/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which axes of different computations may iterate together in one loop. */
#include "ir/build.h"
#include "passes/analysis/computations_build.h"

enum { MAX_COMPARED = 16 }; /* uses of one memory that others are compared with */

/* ---- classes of aligned axes ---- */

typedef struct Classes {
    ComputeBuild *b;
    int *parent; /* by axis id: union-find */
} Classes;

static int class_of(const Classes *classes, const Axis *axis)
{
    int at = axis->id;
    while (classes->parent[at] != at) {
        at = classes->parent[at] = classes->parent[classes->parent[at]];
    }
    return at;
}

/* True if a computation has an axis of either class: those are different axes. */
static bool are_distinct(const Classes *classes, int one, int other)
{
    const Computations *all = classes->b->all;
    for (size_t i = 0; i < all->all.n; i++) {
        const Compute *compute = all->all.items[i];
        bool has_one = false, has_other = false;
        for (size_t k = 0; k < compute->axes.n; k++) {
            int own = class_of(classes, compute->axes.items[k].axis);
            has_one = has_one || own == one;
            has_other = has_other || own == other;
        }
        if (has_one && has_other) {
            return true;
        }
    }
    return false;
}

static void align(Classes *classes, const Axis *a, const Axis *c, const Op *by)
{
    int one = class_of(classes, a), other = class_of(classes, c);
    bool base = a->make == AXIS_BASE && c->make == AXIS_BASE && a->extent == c->extent;
    if (!base || one == other || are_distinct(classes, one, other)) {
        return;
    }
    bool later = a->id > c->id;
    Alignment added = {later ? a : c, later ? c : a, by};
    ARENA_PUSH(classes->b->func->arena, &classes->b->all->aligned, added);
    classes->parent[one > other ? one : other] = one > other ? other : one;
}

static bool can_align_maps(const Affine *a, const Affine *c);

/* The term of `c` that has the coefficient of a term of `a`; NULL: there is none, or several. */
static const Term *like_term(const Term *term, const Affine *c)
{
    const Term *found = NULL;
    for (int i = 0; i < c->n; i++) {
        if (c->terms[i].coef == term->coef) {
            if (found) {
                return NULL;
            }
            found = &c->terms[i];
        }
    }
    const Axis *one = term->axis, *other = found ? found->axis : NULL;
    bool like = other && one->make == other->make && one->by == other->by;
    return like && (!one->of || can_align_maps(one->of, other->of)) ? found : NULL;
}

/* True if the maps differ in their axes alone. */
static bool can_align_maps(const Affine *a, const Affine *c)
{
    bool like = a && c && a->base == c->base && a->n == c->n;
    for (int i = 0; like && i < a->n; i++) {
        like = like_term(&a->terms[i], c) != NULL;
    }
    return like;
}

static void align_maps(Classes *classes, const Affine *a, const Affine *c, const Op *by)
{
    for (int i = 0; can_align_maps(a, c) && i < a->n; i++) {
        const Axis *one = a->terms[i].axis, *other = like_term(&a->terms[i], c)->axis;
        if (one->of) {
            align_maps(classes, one->of, other->of, by);
        } else {
            align(classes, one, other, by);
        }
    }
}

/* Two uses of the same memory, each at axes of its own. */
static void align_uses(Classes *classes, const Use *a, const Use *c)
{
    for (int i = 0; i < a->rank && i < c->rank; i++) {
        align_maps(classes, a->at[i], c->at[i], c->op);
    }
}

/* Each use with the first ones of the same memory. */
static void align_memory(Classes *classes)
{
    const Computations *all = classes->b->all;
    struct {
        const Use **items;
        size_t n, cap;
    } before = {0};
    for (size_t i = 0; i < all->all.n; i++) {
        const Compute *compute = all->all.items[i];
        for (size_t k = 0; k < compute->uses.n; k++) {
            const Use *use = &compute->uses.items[k];
            int found = 0;
            for (size_t j = 0; j < before.n && found < MAX_COMPARED; j++) {
                if (before.items[j]->memory == use->memory) {
                    align_uses(classes, before.items[j], use);
                    found++;
                }
            }
            if (found < MAX_COMPARED) {
                ARENA_PUSH(classes->b->func->arena, &before, use);
            }
        }
    }
}

static const Use *written_by(const Compute *compute)
{
    const Use *first = compute->uses.n ? &compute->uses.items[0] : NULL;
    return first && compute->kind == COMPUTE_POINT && first->mode == USE_WRITE ? first : NULL;
}

/* The axes that a statement writes along, in their order; how many they are. */
static int written_axes(const Use *use, const Axis **axes)
{
    int n = 0;
    for (int i = 0; i < use->rank; i++) {
        const Axis *axis = map_as_axis(use->at[i]);
        axes[n] = axis;
        n += axis != NULL;
    }
    return n;
}

/* What two statements write at the same place, of equal extent. */
static void align_written(Classes *classes)
{
    const Computations *all = classes->b->all;
    const Axis *one[MAX_RANK], *other[MAX_RANK];
    for (size_t i = 0; i < all->all.n; i++) {
        const Use *own = written_by(all->all.items[i]);
        for (size_t k = 0; own && k < i; k++) {
            const Use *before = written_by(all->all.items[k]);
            int n = before ? written_axes(before, one) : 0;
            if (n > 0 && n == written_axes(own, other)) {
                for (int axis = 0; axis < n; axis++) {
                    align(classes, one[axis], other[axis], NULL);
                }
            }
        }
    }
}

void computations_align(ComputeBuild *b)
{
    size_t n = b->all->space.axes.n;
    Classes classes = {b, ARENA_ARRAY(b->func->arena, int, n + 1)};
    for (size_t i = 0; i < n; i++) {
        classes.parent[i] = (int)i;
    }
    align_memory(&classes);
    align_written(&classes);
    b->all->classes = classes.parent;
}

const Axis *computations_aligned(const Computations *all, const Axis *axis)
{
    int at = axis->id;
    while (all->classes[at] != at) {
        at = all->classes[at];
    }
    return all->space.axes.items[at];
}
