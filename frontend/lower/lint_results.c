/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings about results of which a kernel leaves elements uninitialized: an atomic before the
 * first write, and a result that is written at some indices only. */
#include "frontend/lower/lint.h"
#include "frontend/size_proofs.h"

#include "ir/build.h"

typedef struct Writers {
    const Op *first, *last; /* in the order of the text */
    int n;
    bool atomic; /* the first writer is an atomic */
} Writers;

typedef struct WrittenBy {
    const Func *func;
    Writers *writers; /* by parameter */
} WrittenBy;

static void see_writer(Op *op, void *user)
{
    const WrittenBy *all = user;
    if (op->kind != OP_STORE && op->kind != OP_SCATTER) {
        return;
    }
    const Value *memory = op_access(op, 0).memory;
    if (memory->index >= all->func->params.n ||
        all->func->params.items[memory->index].value != memory) {
        return;
    }
    Writers *writers = &all->writers[memory->index];
    if (!writers->first) {
        writers->first = op;
        writers->atomic = op->kind == OP_SCATTER && !text_equal(op_word(op, ATTR_FN), "set");
    }
    writers->last = op;
    writers->n++;
}

/* ---- whether one writer reaches all elements ---- */

/* True if the count is provably at least the extent of the axis. */
static bool reaches(Func *func, Dim count, Dim extent)
{
    return count == extent || poly_least(dim_sub(func, count, extent)) >= 0;
}

/* The trip count of the loop that binds the index, for a `for` from 0 or a `parallel`; NULL if
 * it is not known. */
static Dim counted_by(const Value *arg)
{
    const Op *loop = arg->block->parent;
    const Attr *dims = op_attr(loop, ATTR_DIMS);
    const Op *lo = loop->kind == OP_FOR ? for_lo(loop)->def : NULL;
    if (loop->kind == OP_FOR && (!lo || lo->kind != OP_CONST || op_int(lo, ATTR_VALUE, 0) != 0)) {
        return NULL;
    }
    return dims && (int)arg->index < dims->n ? dims->dims[arg->index] : NULL;
}

/* True if a read of memory is among the operations that the value is made of. `seen` is a byte for
 * each value of the function. */
static bool comes_from_data(const Value *value, uint8_t *seen)
{
    const Op *op = value ? value->def : NULL;
    if (!op || seen[value->id]) {
        return false;
    }
    seen[value->id] = 1;
    bool reads = op->kind == OP_LOAD || op->kind == OP_GATHER;
    for (int i = 0; i < op->n_operands && !reads; i++) {
        reads = comes_from_data(op->operands[i], seen);
    }
    return reads;
}

/* True if the index provably does not take all values of the axis. */
static bool leaves_out(Func *func, const Value *index, Dim extent)
{
    if (!index || poly_is_number(extent, 1)) {
        return false;
    }
    const Op *def = index->def;
    if (def && def->kind == OP_CONST) {
        return true;
    }
    if (def && def->kind == OP_IOTA) {
        return !reaches(func, op_attr(def, ATTR_DIM)->dims[0], extent);
    }
    if (!def && index->block && index->block->parent) {
        const Op *loop = index->block->parent;
        bool walks = loop->kind == OP_FOR || loop->kind == OP_PARALLEL;
        uint8_t *seen = ARENA_ARRAY(func->arena, uint8_t, func->n_values);
        if (loop->kind == OP_FOR && comes_from_data(for_lo(loop), seen)) {
            return false; /* the other iterations may walk the rest */
        }
        Dim count = walks ? counted_by(index) : extent;
        return !count || !reaches(func, count, extent);
    }
    return false; /* an index from data or arithmetic is not known */
}

static bool is_conditional(const Op *op)
{
    bool masked = op->kind == OP_SCATTER && scatter_parts(op).mask;
    for (const Op *at = op->parent->parent; at && !masked; at = at->parent->parent) {
        masked = at->kind == OP_IF;
    }
    return masked;
}

static const char *what_is_left(Func *func, const Op *op)
{
    Access access = op_access(op, 0);
    if (is_conditional(op)) {
        return "where a condition holds";
    }
    for (int i = 0; i < access.n; i++) {
        if (leaves_out(func, access.indices[i], access.memory->type->dims[i])) {
            return "at some indices";
        }
    }
    return NULL;
}

/* ---- a result ---- */

void lint_results(Lower *l)
{
    WrittenBy all = {l->func, ARENA_ARRAY(l->func->arena, Writers, l->func->params.n)};
    func_walk(l->func, see_writer, &all);
    for (size_t i = 0; i < l->func->params.n; i++) {
        const Param *param = &l->func->params.items[i];
        if (param->value->type->kind == TYPE_TENSOR && param->io == PARAM_OUT) {
            const Writers *writers = &all.writers[i];
            if (!writers->first) {
                continue;
            }
            if (writers->atomic) {
                Diag *diag = front_warning(
                    l->diags, ERR_UNINITIALISED, writers->first->span,
                    "this atomic changes `%s`, which nothing has initialised", param->name);
                diag_help(l->diags, diag,
                          "it begins as what was in memory: initialise it before, as in `%s = "
                          "zeros(…)`, or make it an `inout` parameter",
                          param->name);
                continue;
            }
            const char *left = writers->n == 1 ? what_is_left(l->func, writers->first) : NULL;
            if (left) {
                Diag *diag = front_warning(l->diags, ERR_PARTLY_WRITTEN, writers->first->span,
                                           "`%s` is written %s only", param->name, left);
                diag_help(
                    l->diags, diag,
                    "the other elements stay what was in memory: initialise it before, as in `%s = "
                    "zeros(…)`, or make it an `inout` parameter",
                    param->name);
            }
        }
    }
}
