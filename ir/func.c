/* SPDX-License-Identifier: Apache-2.0 */
/* Functions: their sizes and strides by name, parameters, intermediates and im2col views. */
#include "ir/build.h"
#include "ir/interns.h"
#include "ir/ir.h"
#include "ir/schedule.h"
#include "support/int_math.h"

Func *func_new(Arena *arena, Diags *diags, const char *name)
{
    Func *func = ARENA_NEW(arena, Func);
    func->arena = arena;
    func->diags = diags;
    func->name = arena_strdup(arena, name);
    func->level = LEVEL_TENSOR;
    func->interns = ARENA_NEW(arena, struct FuncInterns);
    func->schedule = ARENA_NEW(arena, Schedule);
    func->body = build_block(func, NULL);
    return func;
}

static DimVar *dimvar_new(Func *func, DimKind kind, const char *name)
{
    DimVar *var = ARENA_NEW(func->arena, DimVar);
    var->kind = kind;
    var->id = (uint32_t)func->dimvars.n;
    var->name = name ? arena_strdup(func->arena, name) : NULL;
    var->multiple = 1;
    var->least = kind == DIM_STRIDE ? INT64_MIN : 0;
    var->most = INT64_MAX;
    ARENA_PUSH(func->arena, &func->dimvars, var);
    return var;
}

static DimVar *named(Func *func, DimKind kind, const char *name)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        if (var->kind == kind && text_equal(var->name, name)) {
            return var;
        }
    }
    return dimvar_new(func, kind, name);
}

DimVar *func_size(Func *func, const char *name)
{
    return named(func, DIM_SIZE, name);
}

DimVar *func_stride(Func *func, const char *name)
{
    return named(func, DIM_STRIDE, name);
}

void func_name_dim(Func *func, Dim dim, const char *name)
{
    if (dim->n_terms > 1 && !func_dim_name(func, dim)) {
        ARENA_PUSH(func->arena, &func->named, ((NamedDim){dim, name}));
    }
}

const char *func_dim_name(const Func *func, Dim dim)
{
    for (size_t i = 0; i < func->named.n; i++) {
        if (func->named.items[i].dim == dim) {
            return func->named.items[i].name;
        }
    }
    return NULL;
}

DimVar *func_quotient(Func *func, const char *name, Dim of, int64_t by)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        if (var->kind == DIM_SIZE && var->of == of && var->by == by) {
            return var;
        }
    }
    /* The hyphen keeps the name distinct from the source's: only the text form accepts it. */
    const char *own = name ? name : arena_printf(func->arena, "quotient-%zu", func->dimvars.n);
    DimVar *var = dimvar_new(func, DIM_SIZE, own);
    var->unnamed = !name;
    var->of = of;
    var->by = by;
    return var;
}

DimVar *func_own_quotient(Func *func, const char *name, Dim of, int64_t by)
{
    size_t before = func->dimvars.n;
    DimVar *var = func_quotient(func, name, of, by);
    var->unnamed = var->unnamed || func->dimvars.n > before;
    return var;
}

/* True if all variables of the polynomial have a value. */
static bool is_known(Dim dim, const int64_t *sizes)
{
    for (int i = 0; i < dim->n_terms; i++) {
        for (int j = 0; j < dim->terms[i].n; j++) {
            if (sizes[dim->terms[i].vars[j]->id] < 0) {
                return false;
            }
        }
    }
    return true;
}

const DimVar *func_derive_sizes(const Func *func, int64_t *sizes)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        int64_t of;
        if (var->kind != DIM_SIZE || var->by == 0 || !is_known(var->of, sizes)) {
            continue;
        }
        if (!poly_eval(var->of, sizes, &of)) {
            return var;
        }
        int64_t value = floor_div(of, var->by);
        if (value < 0 || (sizes[i] >= 0 && sizes[i] != value)) {
            return var;
        }
        sizes[i] = value;
    }
    return NULL;
}

DimVar *func_range(Func *func, const char *name, Dim whole, int64_t capacity)
{
    DimVar *var = dimvar_new(func, DIM_RANGE, name);
    var->axis_extent = whole;
    var->capacity = capacity;
    return var;
}

Type param_given(const Param *param)
{
    return param->caller_type ? param->caller_type : param->value->type;
}

int param_axis(const Param *param, int axis)
{
    return param->axis_perm ? (int)param->axis_perm[axis] : axis;
}

Block *func_function(const Func *func, const char *name)
{
    for (size_t i = 0; i < func->functions.n; i++) {
        if (text_equal(func->functions.items[i].name, name)) {
            return func->functions.items[i].block;
        }
    }
    return NULL;
}

void func_add_function(Func *func, const char *name, Block *block)
{
    NamedBody body = {name, block};
    ARENA_PUSH(func->arena, &func->functions, body);
}

Value *func_param(Func *func, const char *name, Type type, ParamIo io)
{
    Param param = {
        .value = value_new(func, type, name), .io = io, .name = arena_strdup(func->arena, name)};
    param.value->index = (uint32_t)func->params.n;
    ARENA_PUSH(func->arena, &func->params, param);
    return param.value;
}

static bool has_param(const Func *func, const char *name)
{
    for (size_t i = 0; i < func->params.n; i++) {
        if (text_equal(func->params.items[i].name, name)) {
            return true;
        }
    }
    return false;
}

static Value *scratch_of(Func *func, Type type)
{
    size_t n = func->params.n;
    const char *name;
    do {
        name = arena_printf(func->arena, "scratch%zu", n++);
    } while (has_param(func, name));
    return func_param(func, name, type, PARAM_SCRATCH);
}

bool param_is_callers(const Param *param)
{
    return param->io != PARAM_SCRATCH && param_has_memory(param);
}

bool param_has_memory(const Param *param)
{
    return !param->im2col && !param->alias;
}

const Im2colView *func_im2col_of(const Func *func, const Value *memory)
{
    bool tensor = memory->type->kind == TYPE_TENSOR;
    return tensor ? func->params.items[memory->index].im2col : NULL;
}

const Value *func_memory_of(const Func *func, const Value *memory)
{
    if (memory->type->kind != TYPE_TENSOR) {
        return memory;
    }
    const Param *param = &func->params.items[memory->index];
    if (param->im2col) {
        return param->im2col->of;
    }
    return param->alias ? param->alias : memory;
}

int view_places(const Param *view)
{
    int axis = 0, given = 0;
    while (given < 1 + view->im2col->n) {
        given += view->collapsed ? (int)view->collapsed[axis] : 1;
        axis++;
    }
    return given == 1 + view->im2col->n ? axis : 0;
}

int view_inner_places(const Param *view)
{
    int places = view_places(view), inner = 0;
    for (int i = 0; i < view->im2col->n; i++) {
        inner += view->im2col->axes[i].inner > 0;
    }
    return places ? places + inner : 0;
}

Type im2col_source_type(const Func *func, const Im2colView *windows)
{
    return param_given(&func->params.items[windows->of->index]);
}

Value *func_im2col_view(Func *func, const Im2colView *windows, const Dim *places,
                        const Dim *inners, const Dim *taps)
{
    Type of = im2col_source_type(func, windows);
    Dim dims[2 + 3 * MAX_SPATIAL];
    int rank = 0;
    size_t n = func->params.n;
    const char *name = NULL;
    dims[rank++] = of->dims[0];
    for (int i = 0; i < windows->n; i++) {
        dims[rank++] = places[i];
    }
    for (int i = 0; i < windows->n; i++) {
        if (windows->axes[i].inner) {
            dims[rank++] = inners[i];
        }
    }
    for (int i = 0; i < windows->n; i++) {
        if (windows->axes[i].dilation) {
            dims[rank++] = taps[i];
        }
    }
    dims[rank++] = of->dims[of->rank - 1];
    do {
        name = arena_printf(func->arena, "windows%zu", n++);
    } while (has_param(func, name));
    Value *view = func_param(func, name, type_tensor(func, of->dtype, rank, dims), PARAM_IN);
    func->params.items[view->index].im2col = arena_copy(func->arena, windows, sizeof *windows);
    return view;
}

Value *func_scratch(Func *func, Type type)
{
    return scratch_of(func, type_tensor(func, type->dtype, type->rank, type->dims));
}

Value *func_alias(Func *func, const Value *scratch)
{
    Value *alias = scratch_of(func, scratch->type);
    func->params.items[alias->index].alias = scratch;
    return alias;
}

Value *func_split_alias(Func *func, const Value *of, Type type)
{
    size_t n = func->params.n;
    const char *name;
    do {
        name = arena_printf(func->arena, "split%zu", n++);
    } while (has_param(func, name));
    const Value *base = func_memory_of(func, of);
    Value *alias = func_param(func, name, type, func->params.items[base->index].io);
    func->params.items[alias->index].alias = base;
    return alias;
}

bool dim_is_split(Func *func, Dim whole, Dim groups, int64_t by)
{
    const DimVar *quotient = poly_as_var(groups);
    if (poly_mul(func, groups, poly_const(func, by)) == whole) {
        return true;
    }
    if (!quotient || quotient->by != by || poly_divisor(whole) % by != 0) {
        return false;
    }
    /* Rounded up, too: (whole + by - 1) // by. */
    int64_t more;
    Dim less = poly_mul(func, whole, poly_const(func, -1));
    Dim rest = less ? poly_add(func, quotient->of, less) : NULL;
    return rest && poly_is_const(rest, &more) && more >= 0 && more < by;
}

bool dim_is_product(Func *func, Dim whole, Dim outer, Dim inner)
{
    int64_t by;
    if (poly_is_const(inner, &by)) {
        return dim_is_split(func, whole, outer, by);
    }
    if (poly_is_const(outer, &by)) {
        return dim_is_split(func, whole, inner, by);
    }
    return poly_mul(func, outer, inner) == whole;
}

/* A multiple of `multiple` that is at least the extent, and never 0. NULL: it overflows. */
static Dim pitch_of(Func *func, Dim extent, int64_t multiple)
{
    Dim all = poly_const(func, multiple);
    int64_t known;
    if (poly_is_const(extent, &known)) {
        return poly_const(func, (known / multiple + (known % multiple != 0 || !known)) * multiple);
    }
    const char *name = NULL;
    for (size_t n = 0, i = 0; !name; n++) {
        name = arena_printf(func->arena, "pitch%zu", n);
        for (i = 0; name && i < func->dimvars.n; i++) {
            const char *taken = func->dimvars.items[i]->name;
            name = taken && text_equal(taken, name) ? NULL : name;
        }
    }
    Dim whole = poly_var(func, func_own_quotient(func, name, extent, multiple));
    return poly_add(func, poly_mul(func, all, whole), all);
}

Value *func_pitched_scratch(Func *func, Type type, int64_t multiple)
{
    Dim strides[MAX_RANK], next = NULL;
    for (int axis = type->rank - 1; axis >= 0; axis--) {
        bool rows = axis == type->rank - 2;
        if (axis == type->rank - 1) {
            strides[axis] = poly_const(func, 1);
        } else if (rows) {
            strides[axis] = pitch_of(func, type->dims[type->rank - 1], multiple);
        } else {
            strides[axis] = poly_mul(func, next, type->dims[axis + 1]);
        }
        next = strides[axis];
        if (!next) {
            return func_scratch(func, type);
        }
    }
    Type tensor = type_tensor(func, type->dtype, type->rank, type->dims);
    return scratch_of(func, type_with_strides(func, tensor, strides, 0));
}
