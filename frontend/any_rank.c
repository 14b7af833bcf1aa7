/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels whose arrays have any number of axes: `...` in a type stands for one axis, and in the
 * kernel `f[3]`, which is asked for by that name, for three. All `...` of a kernel are the same
 * axes, whose extents are called d0, d1, … */
#include "frontend/messages/frontend_errors.h"
#include "frontend/syntax/ast.h"

#include <string.h>

enum { MAX_AXES = 8 };

static const char *const AXES[MAX_AXES] = {"d0", "d1", "d2", "d3", "d4", "d5", "d6", "d7"};

static bool is_rest(const Expr *dim)
{
    return dim->kind == EXPR_NAME && dim->op == TOK_ELLIPSIS;
}

static Expr *type_of_rank(Arena *arena, const Expr *type, int rank)
{
    Expr *made = ARENA_NEW(arena, Expr);
    *made = *type;
    made->args = (ExprList){0};
    for (size_t k = 0; k < type->args.n; k++) {
        Expr *dim = type->args.items[k];
        for (int axis = 0; is_rest(dim) && axis < rank; axis++) {
            Expr *name = ARENA_NEW(arena, Expr);
            *name = *dim;
            name->name = AXES[axis];
            ARENA_PUSH(arena, &made->args, name);
        }
        if (!is_rest(dim)) {
            ARENA_PUSH(arena, &made->args, dim);
        }
    }
    return made;
}

static ParamList params_of_rank(Arena *arena, const ParamList *from, int rank)
{
    ParamList made = {0};
    for (size_t i = 0; i < from->n; i++) {
        ParamDecl param = from->items[i];
        if (param.type && param.type->kind == EXPR_INDEX) {
            param.type = type_of_rank(arena, param.type, rank);
        }
        ARENA_PUSH(arena, &made, param);
    }
    return made;
}

static KernelDecl *called(const Module *module, const char *name, size_t n)
{
    for (size_t i = 0; i < module->kernels.n; i++) {
        KernelDecl *kernel = module->kernels.items[i];
        if (strlen(kernel->name) == n && strncmp(kernel->name, name, n) == 0) {
            return kernel;
        }
    }
    return NULL;
}

/* The number behind the name, its first n bytes, in `f[3]` or in f_3d, as code calls it; 0: there
 * is none. */
static int rank_in(const char *name, size_t *n)
{
    size_t all = strlen(name);
    char digit = all > 3 ? name[all - 2] : 0;
    bool form = all > 3 && ((name[all - 3] == '[' && name[all - 1] == ']') ||
                            (name[all - 3] == '_' && name[all - 1] == 'd'));
    *n = all > 3 && form ? all - 3 : strcspn(name, "[");
    return form && digit >= '1' && digit <= '0' + MAX_AXES ? digit - '0' : 0;
}

bool names_rank(const char *name)
{
    size_t n;
    return strchr(name, '[') || rank_in(name, &n) > 0;
}

KernelDecl *find_of_rank(Module *module, const char *name)
{
    size_t n;
    int rank = rank_in(name, &n);
    const KernelDecl *of = called(module, name, n);
    for (size_t i = 0; of && rank && i < module->derived.n; i++) {
        const char *made = arena_printf(module->arena, "%s[%d]", of->name, rank);
        if (text_equal(module->derived.items[i]->name, made)) {
            return module->derived.items[i];
        }
    }
    if (!of || rank == 0 || !of->any_rank) {
        Diag *diag = diag_failure_at(module->diags, DIAG_USAGE, ERR_NO_KERNEL, SPAN_NONE,
                                     "no kernel is called `%s`", name);
        if (of) {
            diag_help(module->diags, diag,
                      of->any_rank ? "`%s[1]` to `%s[%d]` are there"
                                          : "in the types of `%s` there is no `...`",
                      of->name, of->name, MAX_AXES);
        }
        return NULL;
    }
    KernelDecl *kernel = ARENA_NEW(module->arena, KernelDecl);
    *kernel = *of;
    kernel->name = arena_printf(module->arena, "%s[%d]", of->name, rank);
    kernel->symbol = arena_printf(module->arena, "%s_%dd", of->name, rank);
    kernel->any_rank = false;
    kernel->params = params_of_rank(module->arena, &of->params, rank);
    kernel->results = params_of_rank(module->arena, &of->results, rank);
    memset(&kernel->signature, 0, sizeof kernel->signature);
    memset(&kernel->sets, 0, sizeof kernel->sets);
    make_signature(module, kernel);
    ARENA_PUSH(module->arena, &module->derived, kernel);
    return kernel;
}
