/* SPDX-License-Identifier: Apache-2.0 */
/* Type checks the kernels of a text. What a kernel leaves open (element types, constants, sizes
 * with a list of values) is bound to values that are tried in turn: an error is shown only if each
 * of them leads to errors, and then those of the trial with the fewest. */
#include "lsp/analysis.h"

#include <stdlib.h>
#include <string.h>

enum { TRIALS = 6 };

static const char *trial_type(TypeClass type_class, int trial)
{
    static const char *const floats[TRIALS] = {"f32", "bf16", "f16", "f64", "f8e4m3", "f8e5m2"};
    static const char *const ints[TRIALS] = {"i32", "i64", "u8", "i8", "u32", "u64"};
    static const char *const numbers[TRIALS] = {"f32", "i32", "bf16", "i64", "f64", "u8"};
    switch (type_class) {
    case CLASS_FLOAT: return floats[trial];
    case CLASS_INT: return ints[trial];
    default: return numbers[trial];
    }
}

static const char *trial_const(const ParamDecl *param, int trial)
{
    static const char *const numbers[TRIALS] = {"4", "1", "2", "16", "64", "128"};
    bool is_bool = param->type->kind == EXPR_NAME && text_equal(param->type->name, "bool");
    if (is_bool) {
        return trial % 2 ? "true" : "false";
    }
    return numbers[trial];
}

Bindings trial_bindings(Arena *arena, const Module *module, const KernelDecl *kernel, int trial)
{
    Bindings bindings = {0};
    const KernelSignature *signature = &kernel->signature;
    for (size_t i = 0; i < kernel->where.generics.n; i++) {
        const GenericDecl *generic = &kernel->where.generics.items[i];
        Binding binding = {generic->name, trial_type(generic->type_class, trial)};
        ARENA_PUSH(arena, &bindings, binding);
    }
    for (size_t i = 0; i < kernel->params.n; i++) {
        const ParamDecl *param = &kernel->params.items[i];
        if (param->is_const && !param->fallback) {
            Binding binding = {param->name, trial_const(param, trial)};
            ARENA_PUSH(arena, &bindings, binding);
        }
    }
    for (size_t i = 0; i < signature->sizes.n; i++) {
        size_t n;
        const char *size = signature->sizes.items[i];
        const int64_t *values = frontend_allowed(module, signature, size, &n);
        if (values && n > 0) {
            long long value = (long long)values[(size_t)trial % n];
            Binding binding = {size, arena_printf(arena, "%lld", value)};
            ARENA_PUSH(arena, &bindings, binding);
        }
    }
    return bindings;
}

/* What was found while one kernel was lowered: the ends of the lists before and after it. */
typedef struct Found {
    size_t diags, defined, typed;
} Found;

static Found found_so_far(const Analysis *a)
{
    return (Found){a->diags.list.n, a->defined.n, a->typed.n};
}

static void forget_after(Analysis *a, Found found)
{
    a->diags.list.n = found.diags;
    a->defined.n = found.defined;
    a->typed.n = found.typed;
    a->diags.errors = 0;
}

/* Its number of errors; -1 where the front end gave up. */
static int lower_trial(Analysis *a, const KernelDecl *kernel, int trial, bool *open)
{
    jmp_buf guard, *outer = a->diags.bug_guard;
    a->diags.errors = 0;
    a->diags.bug_guard = &guard;
    int errors = -1;
    if (setjmp(guard) == 0) {
        Bindings bindings = trial_bindings(&a->arena, a->module, kernel, trial);
        *open = bindings.n > 0;
        frontend_lower(a->module, &kernel->signature, bindings.items, bindings.n);
        errors = a->diags.errors;
    }
    a->diags.bug_guard = outer;
    return errors;
}

/* True if one of the first n diagnostics is an error in it: what follows from that is noise. */
static bool is_unsound(const Analysis *a, const KernelDecl *kernel, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const Diag *diag = &a->diags.list.items[i];
        if (diag->severity == SEVERITY_ERROR && diag->span.source == kernel->full_span.source &&
            diag->span.start >= kernel->full_span.start &&
            diag->span.start <= kernel->full_span.end) {
            return true;
        }
    }
    return false;
}

/* `syntax`: the diagnostics that were there before all kernels. */
static void check_kernel(Analysis *a, const KernelDecl *kernel, size_t syntax)
{
    Found before = found_so_far(a);
    bool open = false;
    int best = 0, fewest = lower_trial(a, kernel, 0, &open);
    int last = 0;
    for (int trial = 1; trial < TRIALS && open && fewest > 0; trial++) {
        forget_after(a, before);
        int errors = lower_trial(a, kernel, trial, &open);
        last = trial;
        if (errors >= 0 && errors < fewest) {
            fewest = errors;
            best = trial;
        }
    }
    if (last != best) {
        forget_after(a, before);
        lower_trial(a, kernel, best, &open);
    }
    if (is_unsound(a, kernel, syntax)) {
        a->diags.list.n = before.diags;
    }
}

static bool in_broken(const Module *module, Span span)
{
    for (size_t i = 0; i < module->fns.n; i++) {
        const FnDecl *fn = module->fns.items[i];
        if (fn->broken && fn->span.source == span.source && span.start >= fn->full_span.start &&
            span.start < fn->full_span.end) {
            return true;
        }
    }
    return false;
}

static bool is_same(const Diag *a, const Diag *b)
{
    return a->code == b->code && a->span.source == b->span.source &&
           a->span.start == b->span.start && text_equal(a->message, b->message);
}

/* An error of a function is found at each of its calls. */
static void drop_repetitions(Analysis *a, size_t from)
{
    size_t kept = from;
    for (size_t i = from; i < a->diags.list.n; i++) {
        const Diag *diag = &a->diags.list.items[i];
        bool repeated = in_broken(a->module, diag->span);
        for (size_t k = 0; k < kept && !repeated; k++) {
            repeated = is_same(&a->diags.list.items[k], diag);
        }
        if (!repeated) {
            a->diags.list.items[kept++] = *diag;
        }
    }
    a->diags.list.n = kept;
}

void check_kernels(Analysis *a)
{
    enum { MAX_SHOWN = 400 };
    size_t syntax = a->diags.list.n;
    for (size_t i = 0; i < a->module->kernels.n && a->diags.list.n < MAX_SHOWN; i++) {
        KernelDecl *kernel = a->module->kernels.items[i];
        if (kernel->signature.name) {
            check_kernel(a, kernel, syntax);
        }
    }
    drop_repetitions(a, syntax);
}
