/* SPDX-License-Identifier: Apache-2.0 */
/* Im2col views, expanded to whole matrices: of inputs before the run, of intermediates when they
 * are read after a change. */
#include "ir/interp/interp_internal.h"

#include <string.h>

/* The element of the tensor, whose extents are `of`, that a place of the view shows, whose windows
 * begin at `first`; -1: it is outside. */
static int64_t shown(const Im2colView *windows, const int64_t *first, const int64_t *of,
                     const int64_t *place, int rank)
{
    int inner = 1 + windows->n, tap = inner;
    int64_t at = place[0];
    for (int i = 0; i < windows->n; i++) {
        tap += windows->axes[i].inner > 0;
    }
    for (int i = 0; i < windows->n; i++) {
        int64_t index = place[1 + i] * windows->axes[i].stride + first[i];
        index += windows->axes[i].inner ? place[inner++] * windows->axes[i].inner : 0;
        index += windows->axes[i].dilation ? place[tap++] * windows->axes[i].dilation : 0;
        if (index < 0 || index >= of[1 + i]) {
            return -1;
        }
        at = at * of[1 + i] + index;
    }
    return at * of[1 + windows->n] + place[rank - 1];
}

/* What the tensor shows now. */
static void show(InterpRun *run, const Param *param, Memory *memory)
{
    const Memory *of = run->cells[param->im2col->of->id].memory;
    Type given = param_given(param), whole = im2col_source_type(run->func, param->im2col);
    int64_t dims[MAX_RANK], place[MAX_RANK], extents[MAX_RANK], first[MAX_SPATIAL];
    for (int i = 0; i < given->rank; i++) {
        dims[i] = run_dim(run, NULL, run->lens, given->dims[i]);
    }
    for (int i = 0; i < whole->rank; i++) {
        extents[i] = run_dim(run, NULL, run->lens, whole->dims[i]);
    }
    for (int i = 0; i < param->im2col->n; i++) {
        if (!poly_eval(param->im2col->axes[i].offset, run->lens, &first[i])) {
            run_fail(run, NULL, "%s: where windows begin overflows", memory->name);
        }
    }
    size_t each = (size_t)dtype_bytes(memory->dtype);
    memset(memory->data, 0, each * (size_t)memory->n);
    for (int64_t i = 0; i < memory->n; i++) {
        /* The indices of the view's element along its axes before any were collapsed. */
        int64_t at = i;
        for (int axis = given->rank - 1; axis >= 0; axis--) {
            place[axis] = at % dims[axis];
            at /= dims[axis];
        }
        int64_t from = shown(param->im2col, first, extents, place, given->rank);
        if (from >= 0) {
            memory_get(of, from, 1, memory->data + (size_t)i * each);
        }
    }
    memory->seen = of->changes ? *of->changes : 0;
}

void interp_bind_view(InterpRun *run, const Param *param)
{
    Memory *memory = ARENA_NEW(run->arena, Memory);
    Type type = param->value->type;
    *memory = (Memory){.name = param->name, .dtype = type->dtype, .rank = type->rank, .n = 1};
    for (int i = 0; i < type->rank; i++) {
        memory->dims[i] = run_dim(run, NULL, run->lens, type->dims[i]);
        if (__builtin_mul_overflow(memory->n, memory->dims[i], &memory->n) ||
            memory->n > INT64_MAX / 16) {
            run_fail(run, NULL, "%s is too large", memory->name);
        }
    }
    memory->data = arena_alloc(run->arena, (size_t)dtype_bytes(type->dtype) * (size_t)memory->n);
    run->cells[param->value->id].memory = memory;
    show(run, param, memory);
}

const Memory *interp_shown(InterpRun *run, const Value *tensor)
{
    Memory *memory = run->cells[tensor->id].memory;
    const Param *param = &run->func->params.items[tensor->index];
    if (param->im2col) {
        const Memory *of = run->cells[param->im2col->of->id].memory;
        if (of->changes && *of->changes != memory->seen) {
            show(run, param, memory);
        }
    }
    return memory;
}
