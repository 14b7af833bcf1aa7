/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces loads of im2col views that TMA does not load by gathers from the underlying tensor.
 *
 *   %a = load %v[%m, %r, %s, %c]     →     %i = index %m, %q = mod %i, Q, …
 *                                          %a = gather %x[%n, %p + %r - 1, %q + %s - 1, %c]
 *
 * All indices are guarded: padding is outside of the tensor, or masked where it is read. */
#include "passes/stage/stage.h"

typedef struct Viewed {
    Builder b;
    const Op *load;
    const Param *param;
    Type type; /* of indices */
} Viewed;

static Value *spread(Viewed *v, Value *scalar)
{
    Value *cast = build_cast(&v->b, scalar, v->type->dtype);
    return build_broadcast(&v->b, cast, v->type->rank, v->type->dims);
}

static Value *constant(Viewed *v, int64_t value)
{
    return build_int(&v->b, v->type, value);
}

/* Where the first window begins. */
static Value *first_place(Viewed *v, Dim first)
{
    int64_t value;
    return poly_is_const(first, &value) ? constant(v, value) : spread(v, build_size(&v->b, first));
}

/* Along axis `at` of the result. */
static Value *spread_along(Viewed *v, Value *line, int at)
{
    for (int i = 0; i < v->type->rank; i++) {
        line = i == at ? line : build_expand(&v->b, line, i);
    }
    return build_broadcast(&v->b, line, v->type->rank, v->type->dims);
}

/* Of the view's axis: a number for each element of the result; `kept`: which of its axes is next.
 */
static Value *index_of(Viewed *v, int axis, int *kept)
{
    Access access = op_access(v->load, 0);
    Value *index = access.indices[axis];
    if (index && index->type->kind != TYPE_RANGE) {
        return spread(v, index);
    }
    DType dtype = v->type->dtype;
    Value *line = index ? build_index(&v->b, index, dtype)
                        : build_iota(&v->b, access.memory->type->dims[axis], dtype);
    return spread_along(v, line, (*kept)++);
}

/* What was merged is split again: the last of the caller's axes counts fastest. */
static void split_index(Viewed *v, Value *merged, int first, int n, Value **out)
{
    Type given = param_given(v->param);
    for (int i = first + n - 1; i > first; i--) {
        Value *extent = spread(v, build_size(&v->b, given->dims[i]));
        out[i] = build_binary(&v->b, OP_MOD, merged, extent);
        merged = build_binary(&v->b, OP_DIV, merged, extent);
    }
    out[first] = merged;
}

static void find_indices(Viewed *v, Value **own)
{
    const Param *param = v->param;
    int kept = 0, at = 0;
    for (int axis = 0; axis < param->value->type->rank; axis++) {
        int n = param->collapsed ? (int)param->collapsed[axis] : 1;
        split_index(v, index_of(v, axis, &kept), at, n, own);
        at += n;
    }
}

static Value *scaled(Viewed *v, Value *index, int64_t by)
{
    return by == 1 ? index : build_binary(&v->b, OP_MUL, index, constant(v, by));
}

static DType index_type(const Param *param)
{
    Type of = param->im2col->of->type;
    int64_t most = poly_most(param->value->type->dims[0]);
    for (int i = 0; i < of->rank; i++) {
        int64_t extent = poly_most(of->dims[i]);
        most = extent > most ? extent : most;
    }
    return most < INT32_MAX / 16 ? DT_I32 : DT_I64;
}

/* Of several axes of the tensor that are one now: -1, which is outside, where one of them is. */
static Value *merged_index(Viewed *v, Value *const *indices, const Dim *dims, int n)
{
    Value *at = indices[0], *inside = NULL;
    for (int i = 0; i < n && n > 1; i++) {
        Value *extent = spread(v, build_size(&v->b, dims[i]));
        Value *above = build_cmp(&v->b, "ge", indices[i], constant(v, 0));
        Value *below = build_cmp(&v->b, "lt", indices[i], extent);
        Value *here = build_binary(&v->b, OP_AND, above, below);
        inside = inside ? build_binary(&v->b, OP_AND, inside, here) : here;
        at = i == 0
                 ? at
                 : build_binary(&v->b, OP_ADD, build_binary(&v->b, OP_MUL, at, extent), indices[i]);
    }
    return inside ? build_select(&v->b, inside, at, constant(v, -1)) : at;
}

void stage_gather_view(Func *func, Op *load)
{
    const Param *param = &func->params.items[load->operands[0]->index];
    const Im2colView *windows = param->im2col;
    Type type = load->results[0]->type;
    Viewed v = {build_before(func, load), load, param,
                type_array(func, index_type(param), type->rank, type->dims)};
    Value *own[MAX_RANK], *indices[MAX_RANK];
    int64_t guard[MAX_RANK];
    const Param *of = &func->params.items[windows->of->index];
    int rank = windows->n + 2, inner = 1 + windows->n, tap = inner, from = 0;
    find_indices(&v, own);
    for (int i = 0; i < windows->n; i++) {
        tap += windows->axes[i].inner > 0;
    }
    indices[0] = own[0];
    for (int i = 0; i < windows->n; i++) {
        Value *index = scaled(&v, own[1 + i], windows->axes[i].stride);
        if (windows->axes[i].inner) {
            Value *within = scaled(&v, own[inner++], windows->axes[i].inner);
            index = build_binary(&v.b, OP_ADD, index, within);
        }
        if (windows->axes[i].dilation) {
            Value *reach = scaled(&v, own[tap++], windows->axes[i].dilation);
            index = build_binary(&v.b, OP_ADD, index, reach);
        }
        indices[1 + i] =
            build_binary(&v.b, OP_ADD, index, first_place(&v, windows->axes[i].offset));
    }
    indices[rank - 1] = own[tap];
    rank = of->value->type->rank;
    for (int i = 0; i < rank; i++) {
        int n = of->collapsed ? (int)of->collapsed[i] : 1;
        indices[i] = merged_index(&v, indices + from, param_given(of)->dims + from, n);
        from += n;
        guard[i] = 1;
    }
    Value *gather = build_gather(&v.b, (Value *)windows->of, indices);
    op_set_ints(func, gather->def, ATTR_GUARD, rank, guard);
    op_set_num(func, gather->def, ATTR_VALUE, 0, 0);
    gather->name = load->results[0]->name;
    func_replace_uses(func, load->results[0], gather);
    op_remove(load);
}
