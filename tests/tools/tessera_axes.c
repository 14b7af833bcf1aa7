/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the axes of computations with the classes of axes that union-find makes.
 *
 *     tessera-axes [FILE | -]
 *
 * Reads IR text at the tensor level. For each fusion group, and for the statements outside of
 * groups, it looks at each value that the computations look at: the class of an axis of the value
 * (passes/analysis/axis_classes.h) and the map of that axis (passes/analysis/computations.h), where
 * axes that are aligned count as one. It prints a line for each difference, and a last one that
 * counts what was compared:
 *
 *     view       the axis of a value is read at a map of axes, which are loops; the class is one
 *                more loop
 *     fixed      one element of the axis is read; the class is a loop over all of them
 *     several    axes of the computations are one class, because a value is needed at two of them
 *     siblings   axes of different computations are one class, and nothing aligns them
 *     apart      one axis is several classes */
#include "passes/analysis/axis_classes.h"
#include "passes/analysis/computations.h"
#include "tests/tools/shared/ir_tool.h"

#include <stdio.h>
#include <string.h>

static const char tool[] = "tessera-axes";

/* What is known of a class. */
typedef struct ClassFacts {
    int class;
    bool is_view, is_fixed;
    const Axis *axes[16]; /* the first ones, aligned */
    int n;
} ClassFacts;

/* Of one group. */
typedef struct Comparison {
    Computations all;
    Axes axes;
    struct {
        ClassFacts *items;
        size_t n, cap;
    } classes;
    int differences;
} Comparison;

static ClassFacts *facts_of(Comparison *c, int class)
{
    for (size_t i = 0; i < c->classes.n; i++) {
        if (c->classes.items[i].class == class) {
            return &c->classes.items[i];
        }
    }
    ClassFacts added = {.class = class};
    ARENA_PUSH(c->all.space.func->arena, &c->classes, added);
    return &c->classes.items[c->classes.n - 1];
}

static void note_axis(ClassFacts *facts, const Axis *axis)
{
    for (int i = 0; i < facts->n; i++) {
        if (facts->axes[i] == axis) {
            return;
        }
    }
    if (facts->n < (int)(sizeof facts->axes / sizeof *facts->axes)) {
        facts->axes[facts->n++] = axis;
    }
}

static void look_at(Comparison *c, const Instance *instance)
{
    const Value *value = instance->value;
    for (int i = 0; i < value->type->rank; i++) {
        int class = axes_class(&c->axes, value, i);
        const Axis *axis = map_as_axis(instance->at[i]);
        if (class < 0) {
            continue;
        }
        ClassFacts *facts = facts_of(c, class);
        if (axis && axis->make == AXIS_BASE) {
            note_axis(facts, computations_aligned(&c->all, axis));
        } else if (map_is_dim(instance->at[i])) {
            facts->is_fixed = true;
        } else {
            facts->is_view = true;
        }
    }
}

/* True if a computation has both axes, or axes that are aligned with them. */
static bool are_in_one(const Computations *all, const Axis *one, const Axis *other)
{
    for (size_t i = 0; i < all->all.n; i++) {
        const Compute *compute = all->all.items[i];
        bool has_one = false, has_other = false;
        for (size_t k = 0; k < compute->axes.n; k++) {
            const Axis *own = computations_aligned(all, compute->axes.items[k].axis);
            has_one = has_one || own == one;
            has_other = has_other || own == other;
        }
        if (has_one && has_other) {
            return true;
        }
    }
    return false;
}

static const char *kind_of(const Comparison *c, const ClassFacts *facts)
{
    for (int i = 0; i < facts->n; i++) {
        for (int k = 0; k < i; k++) {
            if (are_in_one(&c->all, facts->axes[i], facts->axes[k])) {
                return "several";
            }
        }
    }
    return facts->n > 1 ? "siblings" : facts->n == 1 ? NULL : facts->is_view ? "view" : "fixed";
}

static void report(Comparison *c)
{
    for (size_t i = 0; i < c->classes.n; i++) {
        const ClassFacts *facts = &c->classes.items[i];
        const char *kind = kind_of(c, facts);
        if (kind) { /* numbers behind names would change with other computations */
            printf("%s", kind);
            for (int k = 0; k < facts->n; k++) {
                const char *name = facts->axes[k]->name;
                printf(" %.*s", (int)strcspn(name, "."), name);
            }
            printf("\n");
            c->differences++;
        }
        for (size_t k = 0; k < i; k++) {
            const ClassFacts *other = &c->classes.items[k];
            if (facts->n == 1 && other->n == 1 && facts->axes[0] == other->axes[0]) {
                printf("apart %s\n", facts->axes[0]->name);
                c->differences++;
            }
        }
    }
}

typedef struct Totals {
    int groups, classes, differences;
} Totals;

static void compare(Func *func, Block *block, Totals *totals)
{
    Comparison c = {.all = an_computations(func, block), .axes = an_axes(func, block)};
    map_name_axes(&c.all.space);
    for (size_t i = 0; i < c.all.all.n; i++) {
        const Compute *compute = c.all.all.items[i];
        for (size_t k = 0; k < compute->instances.n; k++) {
            look_at(&c, compute->instances.items[k]);
        }
    }
    report(&c);
    axes_done(&c.axes);
    totals->groups++;
    totals->classes += (int)c.classes.n;
    totals->differences += c.differences;
}

static int process(Diags *diags, const void *file)
{
    Func *func = tool_read_func(tool, diags, file, NULL);
    Totals totals = {0};
    if (!func || func->level != LEVEL_TENSOR) {
        return func ? tool_complain(tool, "not at the tensor level", func->name) : 1;
    }
    bool grouped = false;
    for (Op *op = func->body->first; op; op = op->next) {
        const Attr *dims = op->kind == OP_PARALLEL ? op_attr(op, ATTR_DIMS) : NULL;
        if (dims && dims->n == 0) {
            compare(func, op->regions[0], &totals);
            grouped = true;
        }
    }
    if (!grouped) {
        compare(func, func->body, &totals);
    }
    printf("%d groups, %d classes, %d differences\n", totals.groups, totals.classes,
           totals.differences);
    return 0;
}

int main(int argc, char **argv)
{
    return tool_main(process, argc > 1 ? argv[1] : "-");
}
