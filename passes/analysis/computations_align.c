/* SPDX-License-Identifier: Apache-2.0 */
/* Which axes of different computations may iterate together, and which axes of a product are its
 * rows, columns and depth. */
#include "ir/build.h"
#include "passes/analysis/computations_build.h"

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
static bool are_apart(const Classes *classes, int one, int other)
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
    if (!base || one == other || are_apart(classes, one, other)) {
        return;
    }
    bool later = a->id > c->id;
    Alignment added = {later ? a : c, later ? c : a, by};
    ARENA_PUSH(classes->b->func->arena, &classes->b->all->aligned, added);
    classes->parent[one > other ? one : other] = one > other ? other : one;
}

/* Two uses of the same memory, each at an axis of its own. */
static void align_uses(Classes *classes, const Use *a, const Use *c)
{
    for (int i = 0; i < a->rank && i < c->rank; i++) {
        const Axis *one = map_as_axis(a->at[i]), *other = map_as_axis(c->at[i]);
        if (one && other) {
            align(classes, one, other, c->op);
        }
    }
}

/* The use of each memory that was found last. */
static void align_memory(Classes *classes, Memo *last)
{
    const Computations *all = classes->b->all;
    for (size_t i = 0; i < all->all.n; i++) {
        const Compute *compute = all->all.items[i];
        for (size_t k = 0; k < compute->uses.n; k++) {
            Use *use = &compute->uses.items[k];
            int64_t before;
            if (memo_known(last, use->memory, 0, &before)) {
                align_uses(classes, (const Use *)(intptr_t)before, use);
            } else {
                memo_keep(last, use->memory, 0, (intptr_t)use);
            }
        }
    }
}

/* What statements write at the same place, of equal extent. */
static void align_written(Classes *classes)
{
    const Computations *all = classes->b->all;
    const Use *first = NULL;
    for (size_t i = 0; i < all->all.n; i++) {
        const Compute *compute = all->all.items[i];
        const Use *own = compute->uses.n ? &compute->uses.items[0] : NULL;
        if (!own || own->mode != USE_WRITE || compute->kind != COMPUTE_POINT) {
            continue;
        }
        for (int k = 0; first && first->rank == own->rank && k < own->rank; k++) {
            const Axis *a = map_as_axis(first->at[k]), *c = map_as_axis(own->at[k]);
            if (a && c) {
                align(classes, a, c, NULL);
            }
        }
        first = first ? first : own;
    }
}

void computations_align(ComputeBuild *b)
{
    size_t n = b->all->space.axes.n;
    Classes classes = {b, ARENA_ARRAY(b->func->arena, int, n + 1)};
    for (size_t i = 0; i < n; i++) {
        classes.parent[i] = (int)i;
    }
    Memo *last = memo_open(b->func);
    align_memory(&classes, last);
    memo_close(last);
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

/* ---- products ---- */

bool compute_product_axes(const Compute *compute, ProductAxes *axes)
{
    *axes = (ProductAxes){0};
    if (!compute->is_product || compute->axes.n > 64) {
        return false;
    }
    for (size_t i = 0; i < compute->axes.n; i++) {
        const ComputeAxis *own = &compute->axes.items[i];
        bool reduced = own->role == ROLE_REDUCED;
        uint64_t *set = &axes->none;
        switch (own->factors) {
        case 1: set = reduced ? &axes->summed[0] : &axes->m; break;
        case 2: set = reduced ? &axes->summed[1] : &axes->n; break;
        case 3: set = reduced ? &axes->k : &axes->batch; break;
        default: break;
        }
        *set |= (uint64_t)1 << i;
    }
    return true;
}
