/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and shapes of a function: from arguments, from names, and as a signature. */
#include "runtime/compile/kernel_objects.h"

#include "ir/ir_errors.h"
#include "ir/text/ir_text.h"

#include <inttypes.h>

int64_t *sizes_by_id(Func *func, const TesseraSize *sizes, size_t n)
{
    int64_t *values = ARENA_ARRAY(func->arena, int64_t, func->dimvars.n);
    for (size_t i = 0; i < func->dimvars.n; i++) {
        values[i] = -1;
        for (size_t j = 0; j < n; j++) {
            const DimVar *var = func->dimvars.items[i];
            if (var->kind == DIM_SIZE && text_equal(sizes[j].name, var->name)) {
                values[i] = sizes[j].value;
            }
        }
    }
    func_derive_sizes(func, values);
    return values;
}

size_t params_given(const Func *func)
{
    size_t n = 0;
    while (n < func->params.n && param_is_callers(&func->params.items[n])) {
        n++;
    }
    return n;
}

static bool check_tensor(Func *func, const Param *param, const TesseraTensor *tensor)
{
    Type type = param_given(param);
    bool empty = false;
    if (!type_is_known(tensor->type)) {
        diag_failure(func->diags, DIAG_USAGE, "%s: '%s' has an unknown element type, %d",
                     func->name, param->name, (int)tensor->type);
        return false;
    }
    if (tensor->rank != type->rank || (int)tensor->type != (int)type->dtype) {
        diag_failure(func->diags, DIAG_SOURCE,
                     "%s: '%s' is %s of rank %d here, %s of rank %d in the kernel", func->name,
                     param->name, dtype_name((DType)tensor->type), tensor->rank,
                     dtype_name(type->dtype), type->rank);
        return false;
    }
    for (int axis = 0; axis < tensor->rank; axis++) {
        empty = empty || tensor->dims[axis] == 0;
        if (tensor->dims[axis] < 0) {
            diag_failure(func->diags, DIAG_USAGE, "%s: axis %d of '%s' has size %" PRId64,
                         func->name, axis, param->name, tensor->dims[axis]);
            return false;
        }
    }
    if (dtype_is_packed(type->dtype) && !tensor_is_contiguous(tensor)) {
        diag_failure_at(func->diags, DIAG_USAGE, ERR_STRIDES, SPAN_NONE,
                        "%s: '%s' has strides: %s can only be contiguous", func->name, param->name,
                        dtype_name(type->dtype));
        return false;
    }
    if (!empty && !tensor->data) {
        diag_failure(func->diags, DIAG_USAGE, "%s: '%s' has no data", func->name, param->name);
        return false;
    }
    return true;
}

static bool check_dims(Func *func, const Param *param, const TesseraTensor *tensor,
                       const int64_t *sizes)
{
    Type type = param_given(param);
    for (int axis = 0; axis < type->rank; axis++) {
        int64_t want;
        int at = param_axis(param, axis);
        if (!poly_eval(type->dims[axis], sizes, &want) || want != tensor->dims[at]) {
            Text dim = text_new(func->arena);
            say_dim(func, type->dims[axis], &dim);
            diag_failure_at(func->diags, DIAG_SOURCE, ERR_GIVEN_SHAPE, SPAN_NONE,
                            "%s: axis %d of '%s' has %" PRId64 " elements; %s is %" PRId64
                            " by the other tensors",
                            func->name, at, param->name, tensor->dims[at], dim.data, want);
            return false;
        }
    }
    return true;
}

/* False: no size makes the axis what it is. */
static bool solve_axis(Func *func, const Param *param, const TesseraTensor *tensor, int axis,
                       int64_t *sizes, bool *found)
{
    const DimVar *var;
    int64_t value;
    Dim dim = param_given(param)->dims[axis];
    int at = param_axis(param, axis);
    Solved solved = poly_solve(dim, sizes, tensor->dims[at], &var, &value);
    if (solved == SOLVE_NEVER) {
        Text text = text_new(func->arena);
        say_dim(func, dim, &text);
        diag_failure_at(func->diags, DIAG_SOURCE, ERR_GIVEN_SHAPE, SPAN_NONE,
                        "%s: axis %d of '%s' has %" PRId64 " elements; no size %s makes it %s",
                        func->name, at, param->name, tensor->dims[at], var->name, text.data);
        return false;
    }
    if (solved == SOLVE_FOUND) {
        sizes[var->id] = value;
        *found = true;
    }
    return true;
}

bool sizes_derived(Func *func, int64_t *sizes)
{
    const DimVar *wrong = func_derive_sizes(func, sizes);
    if (!wrong) {
        return true;
    }
    Text text = text_new(func->arena);
    int64_t of = 0;
    say_dim(func, wrong->of, &text);
    poly_eval(wrong->of, sizes, &of);
    if (wrong->by == 1) {
        diag_failure(func->diags, DIAG_SOURCE,
                     "%s: %s is %" PRId64 " here, but it must not be negative", func->name,
                     text.data, of);
        return false;
    }
    diag_failure(func->diags, DIAG_SOURCE,
                 "%s: size %s is (%s) // %" PRId64 ", of %" PRId64 " here: negative, or another "
                 "than that of a tensor",
                 func->name, wrong->unnamed ? "of an axis" : wrong->name, text.data, wrong->by, of);
    return false;
}

/* An axis that has one unknown size gives it, and others their own by it, until none does. */
static bool solve_axes(Func *func, const TesseraArg *args, int64_t *sizes)
{
    for (bool found = true; found;) {
        found = false;
        if (!sizes_derived(func, sizes)) {
            return false;
        }
        for (size_t i = 0; i < params_given(func); i++) {
            const Param *param = &func->params.items[i];
            Type type = param_given(param);
            for (int axis = 0; type->kind == TYPE_TENSOR && axis < type->rank; axis++) {
                if (!solve_axis(func, param, &args[i].tensor, axis, sizes, &found)) {
                    return false;
                }
            }
        }
    }
    return true;
}

static bool check_known(Func *func, const int64_t *sizes)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        if (func->dimvars.items[i]->kind == DIM_SIZE && sizes[i] < 0) {
            diag_failure_at(func->diags, DIAG_SOURCE, ERR_SIZE_UNKNOWN, SPAN_NONE,
                            "%s: no tensor determines the size %s", func->name,
                            func->dimvars.items[i]->name);
            return false;
        }
    }
    return true;
}

bool sizes_from_args(Func *func, const TesseraOptions *options, const TesseraArg *args,
                     int64_t *sizes)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        sizes[i] = -1;
    }
    for (size_t i = 0; i < params_given(func); i++) {
        const Param *param = &func->params.items[i];
        Type type = param_given(param);
        if (type->kind == TYPE_TENSOR && !check_tensor(func, param, &args[i].tensor)) {
            return false;
        }
        for (int axis = 0; type->kind == TYPE_TENSOR && axis < type->rank; axis++) {
            const DimVar *var = poly_as_var(type->dims[axis]);
            if (var && var->by == 0 && sizes[var->id] < 0) {
                sizes[var->id] = args[i].tensor.dims[param_axis(param, axis)];
            }
        }
    }
    if (!solve_axes(func, args, sizes)) {
        return false;
    }
    /* Sizes that no tensor determines come from the options, all at once: for `Q + P` neither
     * is determined. */
    const int64_t *given = sizes_by_id(func, options->sizes, options->n_sizes);
    for (size_t i = 0; i < func->dimvars.n; i++) {
        sizes[i] = sizes[i] < 0 && func->dimvars.items[i]->by == 0 ? given[i] : sizes[i];
    }
    if (!solve_axes(func, args, sizes) || !check_known(func, sizes)) {
        return false;
    }
    for (size_t i = 0; i < params_given(func); i++) {
        const Param *param = &func->params.items[i];
        if (param_given(param)->kind == TYPE_TENSOR &&
            !check_dims(func, param, &args[i].tensor, sizes)) {
            return false;
        }
    }
    return true;
}

static void fill_param(Func *func, const Param *from, TesseraParam *to)
{
    static const TesseraIo ios[] = {TESSERA_IN, TESSERA_OUT, TESSERA_INOUT};
    Type type = param_given(from);
    bool is_tensor = type->kind == TYPE_TENSOR;
    const char **dims = ARENA_ARRAY(func->arena, const char *, type->rank);
    for (int axis = 0; is_tensor && axis < type->rank; axis++) {
        Text dim = text_new(func->arena);
        say_dim(func, type->dims[axis], &dim);
        dims[param_axis(from, axis)] = dim.data;
    }
    *to = (TesseraParam){.name = from->name,
                         .type = dtype_name(type->dtype),
                         .rank = is_tensor ? type->rank : -1,
                         .dims = dims,
                         .io = ios[from->io]};
}

void signature_of_func(Func *func, TesseraSignature *signature)
{
    TesseraParam *params = ARENA_ARRAY(func->arena, TesseraParam, func->params.n);
    const char **sizes = ARENA_ARRAY(func->arena, const char *, func->dimvars.n);
    size_t n_sizes = 0;
    for (size_t i = 0; i < params_given(func); i++) {
        fill_param(func, &func->params.items[i], &params[i]);
    }
    for (size_t i = 0; i < func->dimvars.n; i++) {
        if (func->dimvars.items[i]->kind == DIM_SIZE) {
            sizes[n_sizes++] = func->dimvars.items[i]->name;
        }
    }
    *signature = (TesseraSignature){.name = func->name,
                                    .params = params,
                                    .n_params = params_given(func),
                                    .sizes = sizes,
                                    .n_sizes = n_sizes};
}
