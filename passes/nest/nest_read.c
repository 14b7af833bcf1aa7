/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the leaves of the expressions in a nest: reads of memory, indices, and values that an
 * earlier launch stores so that the nest can read them. */
#include "passes/nest/nest.h"

#include "ir/op_axes.h"
#include "ir/target/target.h"

static Value *zero_index(NestScope *s)
{
    return s->nest->dry ? NULL : build_i64(&s->b, 0);
}

bool nest_indices(NestScope *s, const Access *access, const NestAxes *axes, Value **indices)
{
    int own = 0;
    for (int i = 0; i < access->n; i++) {
        Dim dim = access->memory->type->dims[i];
        if (access->indices[i]) {
            static const NestAxes none;
            indices[i] = nest_value(s, access->indices[i], &none);
            if (access->indices[i]->type->kind != TYPE_ARRAY || access->indices[i]->type->rank ||
                !indices[i]) {
                return false;
            }
            continue;
        }
        const NestAxis *axis = &axes->items[own++];
        indices[i] = axis->kind == NEST_LOOP ? s->nest->loops[axis->loop].binder : NULL;
        if (axis->kind == NEST_DROPPED) {
            indices[i] = zero_index(s);
        }
        bool single = axis->kind == NEST_DROPPED || axis->kind == NEST_UNIT;
        if (axis->kind == NEST_UNKNOWN || (single && !dim_is_unit(dim)) ||
            (axis->kind == NEST_WHOLE && nest_whole_extent(s->nest, dim) < 0)) {
            return false;
        }
    }
    return true;
}

static bool is_unchanging(const Nest *nest, const Value *memory)
{
    ParamIo io = nest->func->params.items[memory->index].io;
    return io == PARAM_IN || io == PARAM_SCRATCH;
}

Value *nest_load(NestScope *s, const Op *op, const NestAxes *axes)
{
    Access access = op_access(op, 0);
    Value *indices[MAX_RANK];
    if (!is_unchanging(s->nest, access.memory) || !nest_indices(s, &access, axes, indices)) {
        return NULL;
    }
    return s->nest->dry ? op->results[0] : build_load(&s->b, access.memory, indices);
}

/* The axes with those of ranges and whole tiles as one element. */
static NestAxes scalar_axes(const Nest *nest, const NestAxes *axes, int rank)
{
    NestAxes result = *axes;
    for (int i = 0; i < rank; i++) {
        if (nest_keeps(nest, &axes->items[i])) {
            result.items[i].kind = NEST_DROPPED;
        }
    }
    return result;
}

/* The axis of its shape whose places the index has; -1: it has others. */
static int own_axis(const Value *index)
{
    int axis = 0, n = 0;
    const Op *chain[MAX_RANK], *op = index->def;
    for (; op && (op->kind == OP_BROADCAST || op->kind == OP_EXPAND) && n < MAX_RANK;
         op = op->operands[0]->def) {
        chain[n++] = op;
    }
    if (!op || op->kind != OP_IOTA) {
        return -1;
    }
    while (n-- > 0 && axis >= 0) {
        OpAxis to = op_axis(chain[n], 0, axis);
        axis = to.role == AXIS_TIED ? to.result : -1;
    }
    return axis;
}

/* What a load reads, its axes in memory's order, with those of the gather in theirs. */
static Value *in_order(NestScope *s, Value *read, const int *read_axes, int n, const NestAxes *axes,
                       int rank)
{
    int64_t perm[MAX_RANK];
    bool moves = false;
    int at = 0;
    for (int i = 0; i < rank; i++) {
        int from = 0;
        while (from < n && read_axes[from] != i) {
            from++;
        }
        if (nest_keeps(s->nest, &axes->items[i])) {
            moves = moves || from != at;
            perm[at++] = from;
        }
    }
    return moves ? build_permute(&s->b, read, perm) : read;
}

/* A gather along axes of the nest, and at one place along the others: a load. */
Value *nest_gather(NestScope *s, Op *op, const NestAxes *axes)
{
    Value *indices[MAX_RANK], *memory = op->operands[0];
    Nest *nest = s->nest;
    Type type = op->results[0]->type;
    int read_axes[MAX_RANK], n = 0, n_kept = 0;
    if (memory->type->kind != TYPE_TENSOR || !is_unchanging(nest, memory) ||
        !gather_reads_zeros(op)) { /* so does a load outside of its tensor */
        return NULL;
    }
    for (int i = 0; i < memory->type->rank; i++) {
        Value *index = op->operands[i + 1];
        bool scalar = type_is_scalar(index->type);
        int axis = scalar ? -1 : own_axis(index);
        if (axis < 0 || !nest_keeps(nest, &axes->items[axis])) {
            NestAxes none = scalar_axes(nest, axes, scalar ? 0 : type->rank);
            indices[i] = nest_value(s, index, &none);
            if (!indices[i]) {
                return NULL;
            }
            continue;
        }
        const NestAxis *to = &axes->items[axis];
        bool whole = type->dims[axis] == memory->type->dims[i] && to->kind != NEST_UNIT;
        indices[i] = to->kind == NEST_LOOP ? nest->loops[to->loop].binder : NULL;
        if (!whole || (to->kind == NEST_WHOLE && nest_whole_extent(nest, type->dims[axis]) < 0)) {
            return NULL;
        }
        for (int k = 0; k < n; k++) {
            if (read_axes[k] == axis) {
                return NULL; /* a diagonal */
            }
        }
        read_axes[n++] = axis;
    }
    for (int i = 0; i < type->rank; i++) {
        n_kept += nest_keeps(nest, &axes->items[i]);
    }
    if (n_kept != n || nest->dry) {
        return n_kept == n ? op->results[0] : NULL;
    }
    return in_order(s, build_load(&s->b, memory, indices), read_axes, n, axes, type->rank);
}

Value *nest_iota(NestScope *s, const Op *op, const NestAxes *axes)
{
    const NestAxis *axis = &axes->items[0];
    Type type = op->results[0]->type;
    if (axis->kind == NEST_LOOP) {
        const NestLoop *loop = &s->nest->loops[axis->loop];
        if (loop->extent != type->dims[0]) {
            return NULL;
        }
        if (s->nest->dry) {
            return op->results[0];
        }
        if (loop->is_range) {
            return build_index(&s->b, loop->binder, type->dtype);
        }
        return build_cast(&s->b, loop->binder, type->dtype);
    }
    if (axis->kind != NEST_WHOLE || nest_whole_extent(s->nest, type->dims[0]) < 0) {
        return NULL;
    }
    return s->nest->dry ? op->results[0] : build_iota(&s->b, type->dims[0], type->dtype);
}

/* ---- what has no form in the nest ---- */

Value *nest_store(Func *func, Value *value)
{
    enum { ROW_BYTES = 16 };
    Type type = value->type;
    Builder b = build_after(func, value->def);
    b.span = value->def->span;
    int64_t multiple = ROW_BYTES / dtype_bytes(type->dtype);
    bool rows = dtype_is_narrow(type->dtype) && type->rank > 1 && func->target &&
                func->target->has_bulk_copy && poly_divisor(type->dims[type->rank - 1]) % multiple;
    Value *scratch = rows ? func_pitched_scratch(func, type, multiple) : func_scratch(func, type);
    build_store(&b, scratch, WHOLE, value);
    Value *read = build_load(&b, scratch, WHOLE);
    read->name = value->name;
    return read;
}

/* All that reads the value reads it from memory. */
static const Op *materialize(Func *func, Value *value)
{
    Value *read = nest_store(func, value);
    const Op *store = read->def->prev;
    for (const ValueUse *use = use_first(value, store->parent), *next; use; use = next) {
        next = use_next(use, store->parent);
        if (use->op != store) {
            op_set_operand(use->op, (int)(use - use->op->uses), read);
        }
    }
    return read->def;
}

Value *nest_from_memory(NestScope *s, Value *value, const NestAxes *axes)
{
    Nest *nest = s->nest;
    const Op *op = value->def;
    if (!op || op->parent != nest->func->body || nest_depends(nest, value) ||
        value->type->kind != TYPE_ARRAY || value->type->rank == 0 ||
        value->type->rank > TENSOR_RANK || op->kind == OP_CONST || op->kind == OP_IOTA) {
        return NULL;
    }
    for (int i = 0; i < value->type->rank; i++) {
        const NestAxis *axis = &axes->items[i];
        bool whole = axis->kind == NEST_WHOLE && nest_whole_extent(nest, value->type->dims[i]) > 0;
        if (axis->kind != NEST_LOOP && !whole && !dim_is_unit(value->type->dims[i])) {
            return NULL;
        }
    }
    if (nest->dry) {
        bool later = !nest->latest || op_is_before(nest->latest, op);
        nest->latest = later ? (Op *)op : nest->latest;
        return value;
    }
    return nest_load(s, materialize(nest->func, value), axes);
}
