/* SPDX-License-Identifier: Apache-2.0 */
/* The derivative of a kernel as a kernel: its signature is derived_kernel.c's, its body what the
 * sweep makes of the kernel's body (passes/derive), or a declared derivative.
 *
 * Forwards, jvp is the transpose of the transpose. The gradients of the parameters are linear in
 * those of the results; their own derivative by these, with the tangents of the parameters as
 * gradients, is the tangents of the results. What was made on the way is dead. */
#include "frontend/lower/lower_derived.h"
#include "frontend/lower/lower_inline.h"

enum { MAX_KERNEL_PARAMS = 256 };

typedef struct Derived {
    Lower *l;
    const KernelDecl *kernel, *of;
    size_t n_before; /* parameters of the kernel that is differentiated */
    Value *given[MAX_KERNEL_PARAMS]; /* by result, the parameter that is its gradient; NULL: 1 */
    Value *seeds[MAX_KERNEL_PARAMS]; /* jvp: the same, which only stand for them */
    Value *gradients[MAX_KERNEL_PARAMS]; /* by parameter; NULL: 0 */
} Derived;

static Param *param_called(Lower *l, const char *name)
{
    for (size_t i = 0; i < l->func->params.n; i++) {
        if (text_equal(l->func->params.items[i].name, name)) {
            return &l->func->params.items[i];
        }
    }
    return NULL;
}

static Value *old_param(const Derived *k, const char *name)
{
    return param_called(k->l, name)->value; /* the first one: those of k->kernel come after it */
}

static Type tensor_like(Lower *l, Type type)
{
    Dim one = poly_const(l->func, 1);
    return type_tensor(l->func, type->dtype, type->kind == TYPE_TENSOR ? type->rank : 1,
                       type->kind == TYPE_TENSOR ? type->dims : &one);
}

static const char *gradient_of_param(const Derived *k, const char *name)
{
    return gradient_name(k->l->arena, name);
}

/* ---- what is given ---- */

/* The results of the kernel, and the parameters that it writes. */
static const ParamDecl *result_at(const Derived *k, size_t i)
{
    if (i < k->of->results.n) {
        return &k->of->results.items[i];
    }
    i -= k->of->results.n;
    return i < k->of->params.n ? &k->of->params.items[i] : NULL;
}

static bool is_result(const Derived *k, const ParamDecl *decl)
{
    size_t n = (size_t)(decl - k->of->params.items);
    return n >= k->of->params.n || decl->is_inout;
}

/* The gradient of each result is a parameter, or 1. Of a parameter that is written it is one that
 * is written, too, where that has a gradient. */
static void add_given(Derived *k)
{
    Lower *l = k->l;
    const ParamDecl *decl;
    for (size_t i = 0; (decl = result_at(k, i)); i++) {
        Value *tensor = is_result(k, decl) ? old_param(k, decl->name) : NULL;
        if (!tensor || !dtype_is_float(tensor->type->dtype)) {
            continue;
        }
        Value *gradient = NULL;
        bool replaced = decl->is_inout && k->kernel->by[decl - k->of->params.items];
        if (k->kernel->kind == DERIVATIVE_VJP) {
            gradient = func_param(l->func, gradient_of_param(k, decl->name),
                                  tensor_like(l, tensor->type),
                                  replaced ? PARAM_INOUT : PARAM_IN);
        } else if (k->kernel->kind == DERIVATIVE_JVP) {
            const char *name = arena_printf(l->arena, "seed.%s", decl->name);
            gradient = func_param(l->func, name, tensor_like(l, tensor->type), PARAM_IN);
            k->seeds[i] = gradient;
        }
        k->given[i] = gradient;
    }
}

static bool sweep(Derived *k)
{
    Lower *l = k->l;
    DeriveRules rules = derive_rules(l);
    while (derive_unroll(l->func, l->func->body, &rules)) {
        rules = derive_rules(l);
    }
    Derive *d = derive_begin(l->func, l->func->body, &rules);
    const ParamDecl *decl;
    for (size_t i = 0; i < k->of->params.n; i++) {
        if (k->kernel->by[i]) {
            derive_by(d, old_param(k, k->of->params.items[i].name));
        }
    }
    for (size_t i = 0; (decl = result_at(k, i)); i++) {
        Value *tensor = is_result(k, decl) ? old_param(k, decl->name) : NULL;
        if (tensor && dtype_is_float(tensor->type->dtype)) {
            derive_seed_result(d, tensor, k->given[i]);
        }
    }
    if (!derive_run(d)) {
        return false;
    }
    for (size_t i = 0; i < k->of->params.n; i++) {
        k->gradients[i] = k->kernel->by[i]
                              ? derive_gradient(d, old_param(k, k->of->params.items[i].name))
                              : NULL;
    }
    return true;
}

/* ---- what is made ---- */

/* An intermediate that holds just what is to be stored: it becomes the result. */
static bool becomes_result(Lower *l, Value *value, Type type, const char *name)
{
    const Op *load = value->def;
    if (!load || load->kind != OP_LOAD || value->type->dtype != type->dtype) {
        return false;
    }
    Value *memory = load->operands[0];
    Param *param = &l->func->params.items[memory->index];
    bool whole = memory->type->rank == type->rank && param->io == PARAM_SCRATCH && !param->alias;
    for (int i = 0; whole && i < memory->type->rank; i++) {
        whole = !load->operands[i + 1] && memory->type->dims[i] == type->dims[i];
    }
    int reads = 0;
    for (const ValueUse *use = use_first(memory, l->func->body); use && whole;
         use = use_next(use, l->func->body)) {
        bool writes = use->op->kind == OP_STORE || use->op->kind == OP_SCATTER;
        reads += !writes;
    }
    if (whole && reads == 1) {
        param->io = PARAM_OUT;
        param->name = memory->name = name;
        return true;
    }
    return false;
}

static void store_result(Lower *l, const char *name, Type type, ParamIo io, Value *value)
{
    Value *whole[TENSOR_RANK] = {NULL};
    if (!value) {
        value = build_float(&l->b, type_array(l->func, type->dtype, type->rank, type->dims), 0);
    }
    if (io == PARAM_OUT && becomes_result(l, value, type, name)) {
        return;
    }
    value = build_broadcast(&l->b, value, type->rank, type->dims);
    Value *result = io == PARAM_INOUT ? param_called(l, name)->value
                                      : func_param(l->func, name, type, io);
    build_store(&l->b, result, whole, build_cast(&l->b, value, type->dtype));
}

static void store_gradients(Derived *k)
{
    Lower *l = k->l;
    l->b = build_at_end(l->func, l->func->body);
    for (size_t i = 0; i < k->of->params.n; i++) {
        const ParamDecl *decl = &k->of->params.items[i];
        if (k->kernel->by[i]) {
            Value *of = old_param(k, decl->name);
            store_result(l, gradient_of_param(k, decl->name), tensor_like(l, of->type),
                         decl->is_inout ? PARAM_INOUT : PARAM_OUT,
                         k->gradients[i]);
        }
    }
}

/* ---- forwards ---- */

/* The tangent of a parameter, as an array. */
static Value *tangent_of(Derived *k, const ParamDecl *decl, const Value *of)
{
    Lower *l = k->l;
    Value *whole[TENSOR_RANK] = {NULL};
    Type type = of->type->kind == TYPE_TENSOR ? tensor_like(l, of->type) : of->type;
    ParamIo io = decl->is_inout ? PARAM_INOUT : PARAM_IN;
    Value *value = func_param(l->func, gradient_of_param(k, decl->name), type, io);
    return type->kind == TYPE_TENSOR ? build_load(&l->b, value, whole) : value;
}

static bool push_forward(Derived *k)
{
    Lower *l = k->l;
    DeriveRules rules = derive_rules(l); /* also of calls in declared derivatives */
    Value *tangents[MAX_KERNEL_PARAMS];
    l->b = build_at_end(l->func, l->func->body);
    for (size_t i = 0; i < k->of->params.n; i++) {
        const ParamDecl *decl = &k->of->params.items[i];
        tangents[i] = k->kernel->by[i] ? tangent_of(k, decl, old_param(k, decl->name)) : NULL;
    }
    Derive *d = derive_begin(l->func, l->func->body, &rules);
    const ParamDecl *decl;
    for (size_t i = 0; (decl = result_at(k, i)); i++) {
        if (k->seeds[i]) {
            derive_by(d, k->seeds[i]);
        }
    }
    for (size_t i = 0; i < k->of->params.n; i++) {
        if (tangents[i] && k->gradients[i]) {
            derive_seed(d, k->gradients[i], tangents[i]);
        }
    }
    if (!derive_run(d)) {
        return false;
    }
    l->b = build_at_end(l->func, l->func->body);
    for (size_t i = 0; (decl = result_at(k, i)); i++) {
        if (k->seeds[i]) {
            bool both = decl->is_inout && k->kernel->by[decl - k->of->params.items];
            store_result(l, gradient_of_param(k, decl->name), k->seeds[i]->type,
                         both ? PARAM_INOUT : PARAM_OUT, derive_gradient(d, k->seeds[i]));
        }
    }
    return true;
}

/* ---- what is left out ---- */

/* True for a result of the kernel that is differentiated, and for what only stood for one. */
static bool is_gone(const Derived *k, const Value *memory)
{
    const Param *param = &k->l->func->params.items[memory->index];
    bool gone = param->io == PARAM_OUT && memory->index < k->n_before;
    for (size_t i = 0; result_at(k, i) && !gone; i++) {
        gone = k->seeds[i] == memory;
    }
    return gone;
}

static bool is_read(const Lower *l, const Value *memory)
{
    const Block *body = l->func->body;
    for (const ValueUse *use = use_first(memory, body); use; use = use_next(use, body)) {
        if (use->op->kind != OP_STORE && use->op->kind != OP_SCATTER) {
            return true;
        }
    }
    return false;
}

static bool is_left_out(const Derived *k, const Op *op)
{
    if (op->kind == OP_PRINT || op->kind == OP_ASSERT) {
        return true;
    }
    if (op->kind != OP_STORE && op->kind != OP_SCATTER) {
        return false;
    }
    const Value *memory = op->operands[0];
    const Param *param = &k->l->func->params.items[memory->index];
    bool written = param->io == PARAM_INOUT && memory->index < k->n_before;
    bool unread = param->io == PARAM_SCRATCH && !is_read(k->l, memory);
    return is_gone(k, memory) || written || unread;
}

/* What the kernel did and its derivative does not: it writes results and messages. What only these
 * needed goes with them, step by step. */
static void leave_out(const Derived *k)
{
    bool changed = true;
    while (changed) {
        Op *next;
        changed = false;
        for (Op *op = k->l->func->body->first; op; op = next) {
            next = op->next;
            if (is_left_out(k, op)) {
                op_remove(op);
                changed = true;
            }
        }
        func_remove_dead(k->l->func);
    }
}

static bool is_called(const Param *param, const char *name)
{
    return name && text_equal(param->name, name);
}

/* Inputs, then results as they are declared, then intermediates. */
static void order_params(const Derived *k)
{
    Func *func = k->l->func;
    size_t n = func->params.n, count = 0, n_results = k->kernel->results.n;
    Param *params = ARENA_ARRAY(k->l->arena, Param, n + 1);
    for (size_t i = 0; i < n; i++) { /* what was written is read alone */
        Param *param = &func->params.items[i];
        param->io = i < k->n_before && param->io == PARAM_INOUT ? PARAM_IN : param->io;
    }
    for (size_t turn = 0; turn < n_results + 2; turn++) {
        bool result = turn > 0 && turn <= n_results;
        const char *name = result ? k->kernel->results.items[turn - 1].name : NULL;
        for (size_t i = 0; i < n; i++) {
            const Param *param = &func->params.items[i];
            bool given = param->io == PARAM_IN || param->io == PARAM_INOUT;
            bool kept = param->io == PARAM_SCRATCH && value_has_uses(func, param->value);
            bool here = kept;
            if (turn == 0) {
                here = given;
            } else if (result) {
                here = param->io == PARAM_OUT && is_called(param, name);
            }
            if (here && !is_gone(k, param->value)) {
                params[count++] = *param;
            }
        }
    }
    for (size_t i = 0; i < count; i++) {
        func->params.items[i] = params[i];
        func->params.items[i].value->index = (uint32_t)i;
    }
    func->params.n = count;
}

static bool is_linear(const Derived *k)
{
    for (size_t i = 0; result_at(k, i); i++) {
        if (k->seeds[i] && value_has_uses(k->l->func, k->seeds[i])) {
            Diag *diag = lower_error(k->l, ERR_DERIVATIVE, k->kernel->span,
                                     "a derivative that is declared is not linear in the gradient");
            diag_help(k->l->diags, diag, "a sum of gradients must give the sum of what each gives");
            return false;
        }
    }
    return true;
}

/* ---- a declared derivative ---- */

static FnDecl *declared(const Derived *k)
{
    const Module *module = k->l->module;
    for (size_t i = 0; i < module->fns.n && !k->of->of; i++) {
        FnDecl *rule = module->fns.items[i];
        if (rule->derivative_of && text_equal(rule->derivative_of, k->of->name)) {
            return rule;
        }
    }
    return NULL;
}

/* The kernel's results, which the derivative may read: intermediates. What computes them is left
 * out if it does not. */
static void keep_results(Derived *k, const FnDecl *rule)
{
    Func *func = k->l->func;
    bool used = false;
    for (size_t i = 0; i < k->of->results.n; i++) {
        size_t n = k->of->params.n + i;
        used = used || (n < rule->params.n && fn_mentions(rule, rule->params.items[n].name));
        Param *param = param_called(k->l, k->of->results.items[i].name);
        param->io = PARAM_SCRATCH;
    }
    while (!used && func->body->last) {
        op_remove(func->body->last);
    }
}

static size_t rule_arguments(Derived *k, Val *vals)
{
    size_t n = 0;
    const ParamDecl *decl;
    for (size_t i = 0; i < k->of->params.n; i++) {
        vals[n++] = find_symbol(k->l, k->of->params.items[i].name)->val;
    }
    for (size_t i = 0; i < k->of->results.n; i++) {
        Value *result = old_param(k, k->of->results.items[i].name);
        vals[n++] = (Val){.kind = VAL_TENSOR, .value = result};
    }
    for (size_t i = 0; (decl = result_at(k, i)) && i < k->of->results.n; i++) {
        Type type = old_param(k, decl->name)->type;
        if (k->given[i]) {
            vals[n++] = (Val){.kind = VAL_TENSOR, .value = k->given[i]};
        } else if (dtype_is_float(type->dtype)) {
            type = type_array(k->l->func, derive_dtype(type->dtype), type->rank, type->dims);
            vals[n++] = array_val(build_float(&k->l->b, type, 1));
        }
    }
    return n;
}

static Diag *wrong_gradient(Derived *k, const FnDecl *rule, const char *what)
{
    Diag *diag = lower_error(k->l, ERR_DERIVATIVE, rule->span, "%s", what);
    diag_help(k->l->diags, diag, "return the gradient of each float parameter of `%s`, in order",
              k->of->name);
    return diag;
}

/* The gradient of parameter i among those that were returned, as an array of its shape. */
static bool take_gradient(Derived *k, const FnDecl *rule, size_t i, const Expr *place, Val gradient)
{
    Lower *l = k->l;
    Type type = old_param(k, k->of->params.items[i].name)->type;
    gradient = as_operand(l, place, gradient);
    if (is_poison(&gradient)) {
        return false;
    }
    Shape shape = shape_of(&gradient);
    Shape wanted = type_shape(type);
    if (!shape_equal(&shape, &wanted) || !dtype_is_float(dtype_of(&gradient))) {
        Diag *diag = wrong_gradient(k, rule, "a gradient has another shape than the parameter");
        diag_note(l->diags, diag, "that of `%s` is %s", k->of->params.items[i].name,
                  val_text(l, &gradient));
        return false;
    }
    k->gradients[i] = as_value(l, &gradient);
    return true;
}

static bool apply_declared(Derived *k, FnDecl *rule)
{
    Lower *l = k->l;
    Val vals[MAX_KERNEL_PARAMS * 3];
    Expr place = {.kind = EXPR_NAME, .name = rule->derivative_of, .span = k->kernel->span};
    Expr call = {.kind = EXPR_CALL, .a = &place, .span = k->kernel->span};
    keep_results(k, rule);
    l->b = build_at_end(l->func, l->func->body);
    size_t n = rule_arguments(k, vals), at = 0;
    for (size_t i = 0; i < n; i++) {
        Expr *arg = &place;
        ARENA_PUSH(l->arena, &call.args, arg);
    }
    Val result = inline_vals(l, &call, rule, l->module, vals);
    if (is_poison(&result)) {
        return false;
    }
    size_t given = result.kind == VAL_TUPLE ? (size_t)result.n_items : 1;
    for (size_t i = 0; i < k->of->params.n; i++) {
        Param *param = param_called(l, k->of->params.items[i].name);
        if (!param || !dtype_is_float(param->value->type->dtype)) {
            continue;
        }
        if (at == given) {
            wrong_gradient(k, rule, "there are fewer gradients than float parameters");
            return false;
        }
        Val one = result.kind == VAL_TUPLE ? result.items[at] : result;
        at++;
        if (k->kernel->by[i] && !take_gradient(k, rule, i, &place, one)) {
            return false;
        }
    }
    if (at < given) {
        wrong_gradient(k, rule, "there are more gradients than float parameters");
    }
    return at == given;
}

bool lower_derived(Lower *l, const KernelDecl *kernel)
{
    if (kernel->of->of && !lower_derived(l, kernel->of)) {
        return false;
    }
    Derived *k = ARENA_NEW(l->arena, Derived);
    *k = (Derived){.l = l, .kernel = kernel, .of = kernel->of, .n_before = l->func->params.n};
    l->n_lanes = 0;
    add_given(k);
    FnDecl *rule = declared(k);
    if (!(rule ? apply_declared(k, rule) : sweep(k))) {
        return false;
    }
    if (kernel->kind != DERIVATIVE_JVP) {
        store_gradients(k);
    } else if (!push_forward(k)) {
        return false;
    }
    leave_out(k);
    if (!is_linear(k)) {
        return false;
    }
    order_params(k);
    return true;
}
