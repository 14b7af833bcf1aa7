/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the accesses of the scheduled code by what keeps them inside their tensor: a proof, a
 * bounds check, or clipping by the bulk copy engine. It also lists the atomic float sums, whose
 * association order is unspecified. `tessera check` prints both. */
#include "runtime/compile/kernel_objects.h"

#include "ir/build.h"

typedef struct Looker {
    TesseraAccesses *found;
    Func *func;
    struct {
        const char **items;
        size_t n, cap;
    } atomics;
} Looker;

static bool is_guarded(const Op *op)
{
    const Attr *guard = op_attr(op, ATTR_GUARD);
    for (int i = 0; guard && i < guard->n; i++) {
        if (guard->ints[i]) {
            return true;
        }
    }
    return false;
}

static const char *place_of(const Looker *l, Span span)
{
    SourceLoc place = diag_source_loc(l->func->diags, span);
    return place.file ? arena_printf(l->func->arena, "%s:%d", place.file, place.line)
                      : "a place that is not known";
}

/* min and max give the same in any order, so do integers. */
static bool is_float_sum(const Op *op)
{
    const char *fn = op->kind == OP_SCATTER ? op_word(op, ATTR_FN) : NULL;
    return fn && text_equal(fn, "add") && dtype_is_float(op->operands[0]->type->dtype);
}

static void add_atomic(Looker *l, const char *place)
{
    for (size_t i = 0; i < l->atomics.n; i++) {
        if (text_equal(l->atomics.items[i], place)) {
            return; /* a loop that was split has it twice */
        }
    }
    ARENA_PUSH(l->func->arena, &l->atomics, place);
}

static void look(Op *op, void *user)
{
    Looker *l = user;
    switch (op->kind) {
    case OP_LOAD:
    case OP_STORE:
    case OP_GATHER:
    case OP_COPY_LOAD:
    case OP_SCATTER:
        if (op->operands[0]->type->kind == TYPE_TENSOR) {
            *(is_guarded(op) ? &l->found->guarded : &l->found->inside) += 1;
        }
        break;
    case OP_BULK_LOAD:
    case OP_BULK_STORE: l->found->clipped++; break;
    default: break;
    }
    if (is_float_sum(op)) {
        add_atomic(l, place_of(l, op->span));
    }
}

typedef struct LookTask {
    TesseraKernel *kernel;
    TesseraAccesses *accesses;
} LookTask;

static bool look_task(void *user)
{
    LookTask *task = user;
    Looker l = {.found = task->accesses, .func = task->kernel->compilation.func};
    func_walk(l.func, look, &l);
    task->accesses->float_sums = l.atomics.items;
    task->accesses->n_float_sums = l.atomics.n;
    return true;
}

TesseraStatus tessera_kernel_accesses(TesseraKernel *kernel, TesseraAccesses *accesses)
{
    REFUSE_FREED(kernel);
    LookTask task = {kernel, accesses};
    if (!kernel || !accesses) {
        return context_null(kernel ? kernel->work.context : NULL, __func__,
                            kernel ? "accesses" : "kernel");
    }
    *accesses = (TesseraAccesses){0};
    return error_boundary_run(&kernel->work, look_task, NULL, &task);
}
