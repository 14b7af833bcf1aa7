/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that the facts fix become numbers, so that a tile can hold their axes whole, and windows
 * have steps that are numbers. */
#include "ir/fix_size.h"

#include "ir/build.h"

typedef struct Fixing {
    Func *func;
    const DimVar *var;
    Dim by;
    CloneMap map;
} Fixing;

static Dim fixed(const Fixing *f, Dim dim)
{
    return poly_mentions(dim, f->var) ? poly_substitute(f->func, dim, f->var, f->by) : dim;
}

/* The type with the number, and its strides. */
static Type fixed_type(const Fixing *f, Type type)
{
    if (type->kind != TYPE_TENSOR && type->kind != TYPE_ARRAY) {
        return type;
    }
    Type result = clone_type(&f->map, type);
    if (type->strides) {
        Dim strides[MAX_RANK];
        for (int i = 0; i < type->rank; i++) {
            strides[i] = fixed(f, type->strides[i]);
        }
        result = type_with_strides(f->func, result, strides, type->align);
    }
    return result;
}

static void fix_op(Op *op, void *user)
{
    const Fixing *f = user;
    for (int i = 0; i < op->n_results; i++) {
        op->results[i]->type = fixed_type(f, op->results[i]->type);
    }
    for (int r = 0; r < op->n_regions; r++) {
        for (int i = 0; i < op->regions[r]->n_args; i++) {
            Value *arg = op->regions[r]->args[i];
            arg->type = fixed_type(f, arg->type);
        }
    }
    for (int i = 0; i < op->n_attrs; i++) {
        for (int k = 0; op->attrs[i].dims && k < op->attrs[i].n; k++) {
            op->attrs[i].dims[k] = fixed(f, op->attrs[i].dims[k]);
        }
    }
    int64_t value;
    if (op->kind == OP_SIZE && poly_is_const(op_attr(op, ATTR_DIM)->dims[0], &value)) {
        Builder b = build_before(f->func, op);
        func_replace_uses(f->func, op->results[0], build_i64(&b, value));
        op_remove(op);
    }
}

void fix_size(Func *func, const DimVar *var, int64_t value)
{
    Fixing f = {func, var, poly_const(func, value), clone_map_new(func)};
    clone_map_dim(&f.map, var, f.by);
    for (size_t i = 0; i < func->params.n; i++) {
        Param *param = &func->params.items[i];
        Type type = fixed_type(&f, param->value->type);
        if (type != param->value->type) {
            param->caller_type = param_is_callers(param) ? param_given(param) : param->caller_type;
            param->value->type = type;
        }
    }
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *range = func->dimvars.items[i];
        range->axis_extent =
            range->kind == DIM_RANGE ? fixed(&f, range->axis_extent) : range->axis_extent;
    }
    func_walk(func, fix_op, &f);
}
