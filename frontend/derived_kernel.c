/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that are derivatives of others: `kernel b = vjp(f)`, or `vjp(f)` where a kernel is named.
 * What the outside sees of one follows from f:
 *
 *   kernel f(x: T[M, N], w: f32[N], n: i32) -> y: T[M, N]
 *   vjp(f): (x: T[M, N], w: f32[N], n: i32, d_y: T[M, N]) -> (d_x: T[M, N], d_w: f32[N])
 *   grad(f): the same without d_y, which is 1; f has one result of a single element
 *   jvp(f): (x: T[M, N], w: f32[N], n: i32, d_x: T[M, N], d_w: f32[N]) -> d_y: T[M, N]
 *
 * An `inout` parameter x is a result, too, and so d_x is `inout`: of vjp(f) first the gradient of
 * what is written, then of what was there; of jvp(f) the other way round.
 *
 * lower_derived.c makes its body. */
#include "frontend/messages/frontend_errors.h"
#include "frontend/syntax/ast.h"

#include <string.h>

const char *gradient_name(Arena *arena, const char *of)
{
    return arena_printf(arena, "d_%s", of);
}

/* ---- what has a derivative ---- */

static const char *dtype_text(const ParamDecl *param)
{
    const Expr *type = param->type->kind == EXPR_INDEX ? param->type->a : param->type;
    return type->kind == EXPR_NAME ? type->name : "";
}

/* A float, or a type parameter that may be one, which is then declared to be one. */
static bool has_gradient(const KernelDecl *of, const ParamDecl *param)
{
    DType dtype;
    const char *name = dtype_text(param);
    for (size_t i = 0; i < of->where.generics.n; i++) {
        if (text_equal(of->where.generics.items[i].name, name)) {
            return of->where.generics.items[i].type_class != CLASS_INT;
        }
    }
    return !param->is_const && dtype_from_name(name, strlen(name), &dtype) &&
           dtype_is_float(dtype);
}

static void narrow_class(KernelDecl *kernel, const ParamDecl *param)
{
    for (size_t i = 0; i < kernel->where.generics.n; i++) {
        GenericDecl *generic = &kernel->where.generics.items[i];
        if (text_equal(generic->name, dtype_text(param))) {
            generic->type_class = CLASS_FLOAT;
        }
    }
}

/* ---- which derivative of which kernel ---- */

static Diag *wrong_form(Module *module, const Expr *expr, const char *what)
{
    Diag *diag = front_error(module->diags, ERR_DERIVATIVE, expr->span, "%s", what);
    diag_help(module->diags, diag,
              "write `vjp(f)`, `grad(f)` or `jvp(f)`, where f is the name of a kernel, or "
              "`vjp(f, x)` for the gradient of x only");
    return diag;
}

static KernelDecl *kernel_by_name(Module *module, const Expr *expr)
{
    Nearest nearest = nearest_to(expr->name);
    for (size_t i = 0; i < module->kernels.n; i++) {
        if (text_equal(module->kernels.items[i]->name, expr->name)) {
            return module->kernels.items[i];
        }
        nearest_try(&nearest, module->kernels.items[i]->name);
    }
    Diag *diag = front_error(module->diags, ERR_DERIVATIVE, expr->span,
                             "no kernel is called `%s`", expr->name);
    if (nearest_found(&nearest)) {
        diag_help(module->diags, diag, "did you mean `%s`?", nearest_found(&nearest));
    }
    return NULL;
}

/* f[3], where f has `...` in its types. */
static KernelDecl *kernel_of_rank(Module *module, const Expr *expr)
{
    const Expr *rank = expr->args.n == 1 ? expr->args.items[0] : NULL;
    if (!rank || rank->kind != EXPR_INT || expr->a->kind != EXPR_NAME) {
        Diag *diag = front_error(module->diags, ERR_DERIVATIVE, expr->span,
                                 "a derivative is of a kernel");
        diag_help(module->diags, diag,
                  "write `f[3]` for three axes where the types of f have `...`");
        return NULL;
    }
    return find_of_rank(module, arena_printf(module->arena, "%s[%lld]", expr->a->name,
                                             (long long)rank->integer));
}

static KernelDecl *kernel_of(Module *module, const Expr *expr)
{
    Expr *of = expr->args.n ? expr->args.items[0] : NULL;
    if (!of && module->kernels.n == 1) {
        return module->kernels.items[0];
    }
    if (of && of->kind == EXPR_CALL) {
        return find_derived(module, of);
    }
    if (of && of->kind == EXPR_INDEX) {
        return kernel_of_rank(module, of);
    }
    if (!of || of->kind != EXPR_NAME) {
        wrong_form(module, of ? of : expr, "a derivative is of a kernel");
        return NULL;
    }
    return kernel_by_name(module, of);
}

static bool kind_of(Module *module, const Expr *expr, DerivativeKind *kind)
{
    static const struct {
        const char *name;
        DerivativeKind kind;
    } kinds[] = {{"vjp", DERIVATIVE_VJP}, {"grad", DERIVATIVE_GRAD}, {"jvp", DERIVATIVE_JVP}};

    const char *name = expr->kind == EXPR_CALL && expr->a->kind == EXPR_NAME ? expr->a->name : "";
    *kind = DERIVATIVE_NONE;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        *kind = text_equal(name, kinds[i].name) ? kinds[i].kind : *kind;
    }

    if (*kind == DERIVATIVE_NONE) {
        wrong_form(module, expr, "this is no derivative of a kernel");
    }
    return *kind != DERIVATIVE_NONE;
}

/* ---- by which parameters ---- */

static bool by_name(Module *module, KernelDecl *kernel, const Expr *name)
{
    const KernelDecl *of = kernel->of;
    for (size_t i = 0; i < of->params.n && name->kind == EXPR_NAME; i++) {
        const ParamDecl *param = &of->params.items[i];
        if (!text_equal(param->name, name->name)) {
            continue;
        }
        kernel->by[i] = true;
        if (param->is_const || !has_gradient(of, param)) {
            Diag *diag = front_error(module->diags, ERR_DERIVATIVE, name->span,
                                     "`%s` has no derivative", name->name);
            diag_label(module->diags, diag, param->span, "it is no float");
            return false;
        }
        return true;
    }
    front_error(module->diags, ERR_DERIVATIVE, name->span, "`%s` has no such parameter", of->name);
    return false;
}

static bool choose_parameters(Module *module, KernelDecl *kernel)
{
    const KernelDecl *of = kernel->of;
    const Expr *expr = kernel->derivative;
    bool any = false;
    kernel->by = ARENA_ARRAY(module->arena, bool, of->params.n + 1);
    for (size_t i = 0; i < of->params.n; i++) {
        const ParamDecl *param = &of->params.items[i];
        kernel->by[i] = expr->args.n < 2 && !param->is_const && has_gradient(of, param);
        any = any || kernel->by[i];
    }
    for (size_t i = 1; i < expr->args.n; i++) {
        any = true;
        if (!by_name(module, kernel, expr->args.items[i])) {
            return false;
        }
    }
    if (!any) {
        wrong_form(module, expr, "the kernel has no parameter to differentiate by");
    }
    return any;
}

/* ---- its parameters and results ---- */

/* A scalar's gradient is a result of one element. */
static Expr *result_type(Module *module, Expr *type)
{
    if (type->kind == EXPR_INDEX) {
        return type;
    }
    Expr *index = ARENA_NEW(module->arena, Expr), *one = ARENA_NEW(module->arena, Expr);
    *one = (Expr){.kind = EXPR_INT, .span = type->span, .integer = 1, .name = "1"};
    *index = (Expr){.kind = EXPR_INDEX, .span = type->span, .a = type, .height = 2};
    ARENA_PUSH(module->arena, &index->args, one);
    return index;
}

static bool is_single(const ParamDecl *result)
{
    for (size_t i = 0; i < result->type->args.n; i++) {
        const Expr *dim = result->type->args.items[i];
        if (dim->kind != EXPR_INT || dim->integer != 1) {
            return false;
        }
    }
    return true;
}

/* The gradient, or tangent, of a result or of a parameter that is written. */
static void add_result_gradient(Module *module, KernelDecl *kernel, const ParamDecl *result)
{
    ParamDecl param = {.name = gradient_name(module->arena, result->name),
                       .span = result->span,
                       .type = result->type};
    bool both = result->is_inout && kernel->by[result - kernel->of->params.items];
    narrow_class(kernel, result);
    if (kernel->kind == DERIVATIVE_VJP) {
        param.is_inout = both;
        ARENA_PUSH(module->arena, &kernel->params, param);
    } else if (kernel->kind == DERIVATIVE_JVP && !both) {
        ARENA_PUSH(module->arena, &kernel->results, param);
    }
}

static bool add_result_gradients(Module *module, KernelDecl *kernel)
{
    const KernelDecl *of = kernel->of;
    int n = 0;
    bool single = true;
    for (size_t i = 0; i < of->results.n + of->params.n; i++) {
        const ParamDecl *result =
            i < of->results.n ? &of->results.items[i] : &of->params.items[i - of->results.n];
        if (!has_gradient(of, result) || (i >= of->results.n && !result->is_inout)) {
            continue;
        }
        n++;
        single = single && is_single(result);
        add_result_gradient(module, kernel, result);
    }
    if (n == 0) {
        wrong_form(module, kernel->derivative, "the kernel has no result of floats");
    } else if (kernel->kind == DERIVATIVE_GRAD && (n > 1 || !single)) {
        Diag *diag = wrong_form(module, kernel->derivative,
                                "`grad` is of a kernel with one result, a single float");
        diag_note(module->diags, diag, "`vjp` takes the gradients of all results");
        return false;
    }
    return n > 0;
}

/* The gradient of a parameter is a result, its tangent a parameter. */
static void add_param_gradient(Module *module, KernelDecl *kernel, const ParamDecl *of)
{
    ParamDecl param = *of;
    narrow_class(kernel, of);
    param.name = gradient_name(module->arena, of->name);
    param.fallback = NULL;
    param.is_inout = kernel->kind == DERIVATIVE_JVP && of->is_inout;
    if (kernel->kind == DERIVATIVE_JVP) {
        ARENA_PUSH(module->arena, &kernel->params, param);
    } else if (!of->is_inout || kernel->kind == DERIVATIVE_GRAD) {
        param.type = result_type(module, param.type);
        ARENA_PUSH(module->arena, &kernel->results, param);
    }
}

bool complete_derived(Module *module, KernelDecl *kernel)
{
    if (kernel->of || !kernel->derivative) {
        return true;
    }
    if (!kind_of(module, kernel->derivative, &kernel->kind)) {
        return false;
    }
    KernelDecl *of = kernel->completing ? kernel : kernel_of(module, kernel->derivative);
    if (of == kernel) {
        front_error(module->diags, ERR_DERIVATIVE, kernel->span, "`%s` is its own derivative",
                    kernel->name);
        return false;
    }
    kernel->completing = true;
    bool good = of && complete_derived(module, of);
    kernel->completing = false;
    if (!good) {
        return false;
    }
    kernel->of = of;
    kernel->where = of->where;
    kernel->where.generics.items =
        ARENA_ARRAY(module->arena, GenericDecl, of->where.generics.n + 1);
    for (size_t i = 0; i < of->where.generics.n; i++) {
        kernel->where.generics.items[i] = of->where.generics.items[i];
    }
    kernel->where.generics.cap = of->where.generics.n;
    for (size_t i = 0; i < of->params.n; i++) {
        ParamDecl param = of->params.items[i];
        param.is_inout = false;
        ARENA_PUSH(module->arena, &kernel->params, param);
    }
    if (!choose_parameters(module, kernel)) {
        return false;
    }
    for (size_t i = 0; i < of->params.n && kernel->kind == DERIVATIVE_JVP; i++) {
        if (kernel->by[i]) {
            add_param_gradient(module, kernel, &of->params.items[i]);
        }
    }
    if (!add_result_gradients(module, kernel)) {
        return false;
    }
    for (size_t i = 0; i < of->params.n && kernel->kind != DERIVATIVE_JVP; i++) {
        if (kernel->by[i]) {
            add_param_gradient(module, kernel, &of->params.items[i]);
        }
    }
    return true;
}

/* ---- derivatives that no kernel is declared as ---- */

static bool is_same(const Expr *a, const Expr *b)
{
    bool same = a->kind == b->kind && a->args.n == b->args.n &&
                (a->kind != EXPR_NAME || text_equal(a->name, b->name)) &&
                (a->kind != EXPR_INT || a->integer == b->integer) &&
                ((a->kind != EXPR_CALL && a->kind != EXPR_INDEX) || is_same(a->a, b->a));
    for (size_t i = 0; same && i < a->args.n; i++) {
        same = is_same(a->args.items[i], b->args.items[i]);
    }
    return same;
}

/* vjp(softmax, x), and softmax_vjp_x in its code. */
static void name_derived(Module *module, KernelDecl *kernel)
{
    const Expr *expr = kernel->derivative;
    Text name = text_new(module->arena), symbol = text_new(module->arena);
    text_printf(&name, "%s(%s", expr->a->name, kernel->of->name);
    text_printf(&symbol, "%s_%s", kernel->of->symbol ? kernel->of->symbol : kernel->of->name,
                expr->a->name);
    for (size_t i = 1; i < expr->args.n; i++) {
        text_printf(&name, ", %s", expr->args.items[i]->name);
        text_printf(&symbol, "_%s", expr->args.items[i]->name);
    }
    text_char(&name, ')');
    kernel->name = name.data;
    kernel->symbol = symbol.data;
}

KernelDecl *find_derived(Module *module, Expr *expr)
{
    for (size_t i = 0; i < module->derived.n; i++) {
        const Expr *derivative = module->derived.items[i]->derivative;
        if (derivative && is_same(derivative, expr)) {
            return module->derived.items[i];
        }
    }
    KernelDecl *kernel = ARENA_NEW(module->arena, KernelDecl);
    *kernel = (KernelDecl){.name = "derivative", .span = expr->span, .derivative = expr};
    if (!complete_derived(module, kernel)) {
        return NULL;
    }
    name_derived(module, kernel);
    make_signature(module, kernel);
    ARENA_PUSH(module->arena, &module->derived, kernel);
    return kernel;
}
