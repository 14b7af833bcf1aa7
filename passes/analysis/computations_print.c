/* SPDX-License-Identifier: Apache-2.0 */
/* Prints computations as text, for `--print-computations`. */
#include "ir/build.h"
#include "ir/text/ir_text.h"
#include "passes/analysis/computations.h"

static const char *const ROLES[] = {"", "reduced ", "scanned ", "ordered "};
static const char *const KINDS[] = {"point", "fold", "scan", "opaque"};

typedef struct Printer {
    Computations *all;
    Text *out;
} Printer;

static void print_extent(const Printer *p, Dim extent)
{
    if (extent) {
        say_dim(p->all->space.func, extent, p->out);
    } else {
        text_add(p->out, "?");
    }
}

static void print_value(const Printer *p, const Value *value)
{
    if (value->type->kind == TYPE_TENSOR) {
        text_add(p->out, p->all->space.func->params.items[value->index].name);
    } else {
        text_printf(p->out, "%%%s", value->name ? value->name : "");
        if (!value->name) {
            text_i64(p->out, value->id);
        }
    }
}

static void print_instance(const Printer *p, const Instance *instance)
{
    print_value(p, instance->value);
    text_add(p->out, "[");
    for (int i = 0; i < instance->value->type->rank; i++) {
        text_add(p->out, i ? ", " : "");
        map_print(&p->all->space, instance->at[i], p->out);
    }
    text_add(p->out, "]");
}

/* ---- axes ---- */

static void print_axes(const Printer *p, const Compute *compute)
{
    ComputeRole last = ROLE_KEPT;
    for (size_t i = 0; i < compute->axes.n; i++) {
        const ComputeAxis *own = &compute->axes.items[i];
        text_add(p->out, i ? ", " : " over ");
        text_add(p->out, own->role != last ? ROLES[own->role] : "");
        last = own->role;
        text_printf(p->out, "%s: ", own->axis->name);
        print_extent(p, own->axis->extent);
    }
}

static void print_set(const Printer *p, const Compute *compute, const char *name, uint64_t set)
{
    const char *before = "";
    text_printf(p->out, " %s {", name);
    for (size_t i = 0; i < compute->axes.n; i++) {
        if (set >> i & 1) {
            text_printf(p->out, "%s%s", before, compute->axes.items[i].axis->name);
            before = ", ";
        }
    }
    text_add(p->out, "}");
}

static void print_product(const Printer *p, const Compute *compute)
{
    ProductAxes axes;
    if (!compute_product_axes(compute, &axes)) {
        return;
    }
    text_add(p->out, "    product");
    print_set(p, compute, "M", axes.m);
    print_set(p, compute, "N", axes.n);
    print_set(p, compute, "K", axes.k);
    const struct {
        const char *name;
        uint64_t set;
    } rest[] = {{"batch", axes.batch},
                {"sum of the left", axes.summed[0]},
                {"sum of the right", axes.summed[1]},
                {"of conditions", axes.none}};
    for (int i = 0; i < 4; i++) {
        if (rest[i].set) {
            print_set(p, compute, rest[i].name, rest[i].set);
        }
    }
    text_add(p->out, "\n");
}

/* ---- conditions ---- */

static const char *factor_text(unsigned factors)
{
    static const char *const TEXTS[] = {"", " (left)", " (right)", " (both)"};
    return TEXTS[factors & 3];
}

static void print_constraint(const Printer *p, const Constraint *constraint)
{
    text_add(p->out, "    where ");
    switch (constraint->kind) {
    case WHERE_AT_LEAST:
        map_print(&p->all->space, constraint->of, p->out);
        if (constraint->data.value) {
            text_add(p->out, constraint->sign < 0 ? " - " : " + ");
            print_instance(p, &constraint->data);
        }
        text_add(p->out, " >= 0");
        break;
    case WHERE_ZERO:
        map_print(&p->all->space, constraint->of, p->out);
        text_add(p->out, " = 0");
        break;
    case WHERE_CONGRUENT:
        text_add(p->out, "(");
        map_print(&p->all->space, constraint->of, p->out);
        text_add(p->out, ") % ");
        say_dim(p->all->space.func, constraint->mod, p->out);
        text_add(p->out, " = 0");
        break;
    case WHERE_HOLDS:
        text_add(p->out, constraint->negated ? "not " : "");
        print_instance(p, &constraint->holds);
        break;
    }
    text_printf(p->out, "%s\n", factor_text(constraint->factors));
}

/* ---- uses ---- */

static void print_index(const Printer *p, const Use *use, int i)
{
    if (use->computed[i]) {
        print_value(p, use->computed[i]);
    } else if (use->at[i]) {
        map_print(&p->all->space, use->at[i], p->out);
    } else {
        text_add(p->out, ":");
    }
    text_add(p->out, use->guarded[i] ? "?" : "");
}

static void print_otherwise(const Printer *p, const Use *use)
{
    bool guarded = false;
    for (int i = 0; i < use->rank; i++) {
        guarded = guarded || use->guarded[i];
    }
    if (guarded && use->mode == USE_READ) {
        text_add(p->out, " else ");
        if (use->otherwise && dtype_is_float(use->memory->type->dtype)) {
            text_double(p->out, use->otherwise->f);
        } else {
            text_i64(p->out, use->otherwise ? use->otherwise->i : 0);
        }
    }
    for (const UseGuard *guard = use->guards; guard; guard = guard->next) {
        text_add(p->out, guard == use->guards ? " where 0 <= " : " and 0 <= ");
        map_print(&p->all->space, guard->at, p->out);
        text_add(p->out, " < ");
        say_dim(p->all->space.func, guard->extent, p->out);
    }
}

static void print_use(const Printer *p, const Use *use)
{
    static const char *const MODES[] = {"read ", "write ", "atomic "};
    text_printf(p->out, "    %s", MODES[use->mode]);
    if (use->made) {
        text_printf(p->out, "c%d", use->made->id);
    } else {
        print_value(p, use->memory);
    }
    if (use->version) {
        text_printf(p->out, "@%u", (unsigned)use->version);
    }
    text_add(p->out, "[");
    for (int i = 0; i < use->rank; i++) {
        text_add(p->out, i ? ", " : "");
        print_index(p, use, i);
    }
    text_add(p->out, "]");
    print_otherwise(p, use);
    text_printf(p->out, "%s\n", factor_text(use->factors));
}

/* ---- computations ---- */

/* The arithmetic in program order. */
static void print_body(const Printer *p, const Compute *compute)
{
    if (compute->body.n == 0) {
        return;
    }
    text_add(p->out, "    body");
    for (size_t i = compute->body.n; i-- > 0;) {
        text_printf(p->out, " %s", op_info(compute->body.items[i]->kind)->name);
    }
    text_add(p->out, "\n");
}

static void print_compute(const Printer *p, const Compute *compute)
{
    text_printf(p->out, "  c%d: %s %s", compute->id, KINDS[compute->kind], compute->fn);
    print_axes(p, compute);
    text_add(p->out, "\n");
    if (compute->result.value) {
        text_add(p->out, "    gives ");
        print_instance(p, &compute->result);
        text_add(p->out, "\n");
    }
    print_product(p, compute);
    for (size_t i = 0; i < compute->where.n; i++) {
        print_constraint(p, &compute->where.items[i]);
    }
    print_body(p, compute);
    for (size_t i = 0; i < compute->uses.n; i++) {
        print_use(p, &compute->uses.items[i]);
    }
}

void computations_print(Computations *all, Text *out)
{
    Printer p = {all, out};
    map_name_axes(&all->space);
    text_printf(out, "computations %s {\n", all->space.func->name);
    for (size_t i = 0; i < all->all.n; i++) {
        print_compute(&p, all->all.items[i]);
    }
    for (size_t i = 0; i < all->aligned.n; i++) {
        const Alignment *alignment = &all->aligned.items[i];
        text_printf(out, "  %s may be %s: both ", alignment->axis->name, alignment->with->name);
        if (alignment->by) {
            const Value *memory = op_access(alignment->by, 0).memory;
            bool tensor = memory && memory->type->kind == TYPE_TENSOR;
            text_add(out, "are axes of ");
            print_value(&p, tensor ? memory : alignment->by->results[0]);
            text_add(out, "\n");
        } else {
            text_add(out, "are written\n");
        }
    }
    text_add(out, "}\n");
}
