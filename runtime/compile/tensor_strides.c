/* SPDX-License-Identifier: Apache-2.0 */
/* The strides of tensors as facts of a compilation, from example tensors, of which only what many
 * tensors share is used, or from text. The strides of a tensor that is contiguous, in its own or
 * another order of axes, follow from its extents. Other strides than 0 and 1 are variables known
 * at launch, of which the code knows the sign and a power of two that divides them. */
#include "runtime/compile/compilation.h"
#include "runtime/launch/launch_context.h"

#include "ir/ir_errors.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_MULTIPLE = 16, USUAL_ALIGN = 16 };

bool tensor_is_contiguous(const TesseraTensor *tensor)
{
    TesseraTensor plain = *tensor;
    int64_t given[TESSERA_MAX_RANK], wanted[TESSERA_MAX_RANK];
    plain.strides = NULL;
    tensor_strides(tensor, given);
    tensor_strides(&plain, wanted);
    for (int axis = 0; axis < tensor->rank; axis++) {
        if (tensor->dims[axis] > 1 && given[axis] != wanted[axis]) {
            return false;
        }
    }
    return true;
}

/* A stride that is known at launch: a multiple of the number, and of its sign. */
static Dim variable(Func *func, const Param *param, int axis, int64_t multiple)
{
    DimVar *var = func_stride(func, arena_printf(func->arena, "%s.%d", param->name, axis));
    var->multiple = multiple < 0 ? -multiple : multiple;
    var->least = multiple > 0 ? 1 : INT64_MIN;
    var->most = multiple < 0 ? -1 : INT64_MAX;
    return poly_var(func, var);
}

/* ---- tensors as they will be ---- */

/* Its strides as those of what is contiguous in some order of the axes, last first; false: it is
 * not. An axis of one element may be anywhere. */
static bool contiguous_strides(Func *func, Type type, const TesseraTensor *tensor, Dim *strides)
{
    int64_t given[TESSERA_MAX_RANK], next = 1;
    unsigned placed = 0;
    Dim product = poly_const(func, 1);
    tensor_strides(tensor, given);
    for (int n = 0; n < tensor->rank; n++) {
        int axis = tensor->rank - 1;
        while (axis >= 0 &&
               ((placed >> axis & 1) || (tensor->dims[axis] != 1 && given[axis] != next))) {
            axis--;
        }
        if (axis < 0 || !product) {
            return false;
        }
        placed |= 1u << axis;
        strides[axis] = product;
        product = poly_mul(func, product, type->dims[axis]);
        next = (int64_t)((uint64_t)next * (uint64_t)tensor->dims[axis]);
    }
    return true;
}

static Dim stride_like(Func *func, const Param *param, const TesseraTensor *tensor, int axis)
{
    int64_t stride = tensor->strides[axis], multiple = 1;
    if (tensor->dims[axis] == 1) { /* any */
        return axis == tensor->rank - 1 ? poly_const(func, 1)
                                        : variable(func, param, axis, MAX_MULTIPLE);
    }
    if (stride == 0 || stride == 1) {
        return poly_const(func, stride);
    }
    while (multiple < MAX_MULTIPLE && stride % (2 * multiple) == 0) {
        multiple *= 2;
    }
    return variable(func, param, axis, stride < 0 ? -multiple : multiple);
}

/* Bytes that divide the address; 0: as many as the target wants. */
static int alignment_like(Type type, const TesseraTensor *tensor)
{
    int align = USUAL_ALIGN, element = dtype_bytes(type->dtype);
    while (align > 1 && (uintptr_t)tensor->data % (uintptr_t)align != 0) {
        align /= 2;
    }
    return align == USUAL_ALIGN || align < element ? 0 : align;
}

static bool is_empty(const TesseraTensor *tensor)
{
    for (int axis = 0; axis < tensor->rank; axis++) {
        if (tensor->dims[axis] == 0) {
            return true;
        }
    }
    return false;
}

static bool is_packed(Func *func, const Param *param)
{
    diag_failure_at(func->diags, DIAG_USAGE, ERR_STRIDES, SPAN_NONE,
                    "%s: '%s' has strides: %s can only be contiguous", func->name, param->name,
                    dtype_name(param->value->type->dtype));
    return false;
}

static bool give_like(Func *func, const Param *param, const TesseraTensor *tensor,
                      const Target *target)
{
    Type type = param->value->type;
    Dim strides[TESSERA_MAX_RANK];
    if (tensor->rank != type->rank || is_empty(tensor)) {
        return true; /* the launch says what is wrong */
    }
    bool plain = tensor_is_contiguous(tensor);
    if (dtype_is_packed(type->dtype)) {
        return plain || is_packed(func, param);
    }
    bool contiguous = plain || contiguous_strides(func, type, tensor, strides);
    for (int axis = 0; !contiguous && axis < type->rank; axis++) {
        strides[axis] = stride_like(func, param, tensor, axis);
    }
    bool vectors = target && target->family != FAMILY_CPU; /* that must be aligned */
    int align = vectors ? alignment_like(type, tensor) : 0;
    param->value->type = type_with_strides(func, type, plain ? NULL : strides, align);
    return true;
}

/* ---- words ---- */

typedef struct Words {
    Func *func;
    const Param *param;
    const TesseraOptions *options;
    const char *text, *at;
} Words;

static bool take(Words *w, char c)
{
    w->at += strspn(w->at, " ");
    bool here = *w->at == c;
    w->at += here;
    return here;
}

/* False when there is none, or it does not fit. */
static bool take_number(Words *w, int64_t *number)
{
    char *end;
    errno = 0;
    w->at += strspn(w->at, " ");
    long long value = isdigit((unsigned char)*w->at) ? strtoll(w->at, &end, 10) : 0;
    if (!isdigit((unsigned char)*w->at) || errno) {
        return false;
    }
    w->at = end;
    *number = value;
    return true;
}

/* A size that is bound at compile time is no variable any more. */
static Dim bound_size(Words *w, size_t n)
{
    for (size_t i = 0; i < w->options->n_bindings; i++) {
        const TesseraPair *pair = &w->options->bindings[i];
        Words value = {.at = pair->value};
        int64_t number;
        if (strlen(pair->name) == n && memcmp(pair->name, w->at, n) == 0 &&
            take_number(&value, &number)) {
            w->at += n;
            return poly_const(w->func, number);
        }
    }
    return NULL;
}

static Dim take_size(Words *w)
{
    size_t n = 0;
    while (isalnum((unsigned char)w->at[n]) || w->at[n] == '_') {
        n++;
    }
    for (size_t i = 0; n && i < w->func->dimvars.n; i++) {
        DimVar *var = w->func->dimvars.items[i];
        if (var->kind == DIM_SIZE && strlen(var->name) == n && !memcmp(var->name, w->at, n)) {
            w->at += n;
            return poly_var(w->func, var);
        }
    }
    return n ? bound_size(w, n) : NULL;
}

/* `2*M*N`; NULL when it is none. */
static Dim take_product(Words *w)
{
    Dim product = poly_const(w->func, 1);
    do {
        int64_t number;
        Dim factor = take_number(w, &number) ? poly_const(w->func, number) : take_size(w);
        product = factor ? poly_mul(w->func, product, factor) : NULL;
    } while (product && take(w, '*'));
    return product;
}

static Dim take_stride(Words *w, int axis)
{
    bool minus = take(w, '-');
    if (!take(w, '*')) {
        Dim product = take_product(w);
        return product && minus ? poly_mul(w->func, product, poly_const(w->func, -1)) : product;
    }
    int64_t multiple = 1;
    bool any = !take_number(w, &multiple);
    if (!any && (multiple <= 0 || multiple > INT32_MAX)) {
        return NULL;
    }
    return variable(w->func, w->param, axis, minus ? -multiple : multiple);
}

static bool not_understood(const Words *w)
{
    Type type = w->param->value->type;
    Diag *diag = diag_failure_at(w->func->diags, DIAG_USAGE, ERR_STRIDES_OPTION, SPAN_NONE,
                                 "%s: '%s' cannot have the strides %.60s", w->func->name,
                                 w->param->name, w->text);
    diag_help(w->func->diags, diag,
              "one an axis, %d of them: 0, 1, a size as M, a product as 2*M, `*` for any, `*8` for "
              "multiples of 8, `-*8` for negative ones; then @4 for addresses that are multiples "
              "of 4 bytes only",
              type->rank);
    return false;
}

/* By its own axes, as the types have it that have no strides. */
static bool is_row_major(Func *func, Type type, const Dim *strides)
{
    Dim next = poly_const(func, 1);
    for (int axis = type->rank - 1; axis >= 0; axis--) {
        if (strides[axis] != next) {
            return false;
        }
        next = poly_mul(func, next, type->dims[axis]);
    }
    return true;
}

static bool give_words(Func *func, const Param *param, const TesseraOptions *options,
                       const char *text)
{
    Words w = {func, param, options, text, text};
    Type type = param->value->type;
    Dim strides[TESSERA_MAX_RANK];
    int64_t align = 0;
    bool strided = *text != '@';
    for (int axis = 0; strided && axis < type->rank; axis++) {
        strides[axis] = axis && !take(&w, ',') ? NULL : take_stride(&w, axis);
        if (!strides[axis]) {
            return not_understood(&w);
        }
    }
    bool aligned = take(&w, '@');
    bool good = !aligned || (take_number(&w, &align) && align >= dtype_bytes(type->dtype) &&
                             align <= USUAL_ALIGN && (align & (align - 1)) == 0);
    if (!good || *w.at) {
        return not_understood(&w);
    }
    if (dtype_is_packed(type->dtype)) {
        return is_packed(func, param);
    }
    strided = strided && !is_row_major(func, type, strides);
    for (int axis = 0; strided && axis < type->rank; axis++) {
        if (param->io != PARAM_IN && poly_is_number(strides[axis], 0)) {
            diag_failure_at(func->diags, DIAG_USAGE, ERR_STRIDES, SPAN_NONE,
                            "%s: elements of '%s', which is written, share memory by the stride 0",
                            func->name, param->name);
            return false;
        }
    }
    align = align == USUAL_ALIGN ? 0 : align;
    param->value->type = type_with_strides(func, type, strided ? strides : NULL, (int)align);
    return true;
}

/* ---- all ---- */

static const char *words_for(const TesseraOptions *options, const char *name)
{
    for (size_t i = 0; i < options->n_strides; i++) {
        if (text_equal(options->strides[i].name, name)) {
            return options->strides[i].value;
        }
    }
    return NULL;
}

static bool names_tensor(const Func *func, const char *name)
{
    for (size_t i = 0; i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        if (param->value->type->kind == TYPE_TENSOR && text_equal(param->name, name)) {
            return true;
        }
    }
    return false;
}

bool strides_apply(Func *func, const TesseraOptions *options, const Target *target)
{
    for (size_t i = 0; i < options->n_strides; i++) {
        if (!names_tensor(func, options->strides[i].name)) {
            diag_failure_at(func->diags, DIAG_USAGE, ERR_NO_PARAMETER, SPAN_NONE,
                            "%s has no tensor '%.60s'", func->name, options->strides[i].name);
            return false;
        }
    }
    for (size_t i = 0; i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        const char *words = words_for(options, param->name);
        bool tensor = param->value->type->kind == TYPE_TENSOR;
        if (words ? !give_words(func, param, options, words)
                  : tensor && i < options->n_args &&
                        !give_like(func, param, &options->args[i].tensor, target)) {
            return false;
        }
    }
    return true;
}
