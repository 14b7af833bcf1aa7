/* SPDX-License-Identifier: Apache-2.0 */
/* Fix-it hints: edits of the user's text that a tool can apply. */
#include "frontend/lower/lower.h"

#include <string.h>

static bool is_users(const Lower *l, Span span)
{
    const Module *standard = l->module->standard;
    bool library =
        standard && span.source >= standard->first_source && span.source <= standard->source;
    return span.source >= 0 && !library;
}

void lower_fix(Lower *l, Diag *diag, Span span, const char *format, ...)
{
    Text text = text_new(l->arena);
    va_list args;
    va_start(args, format);
    text_vprintf(&text, format, args);
    va_end(args);
    if (is_users(l, span)) {
        diag_fix(l->diags, diag, span, "%s", text.data);
    }
}

void lower_fix_around(Lower *l, Diag *diag, Span span, const char *before, const char *after)
{
    lower_fix(l, diag, (Span){span.source, span.start, span.start}, "%s", before);
    lower_fix(l, diag, (Span){span.source, span.end, span.end}, "%s", after);
}

/* As the first statement of the kernel, if it has any. */
void lower_fix_assume(Lower *l, Diag *diag, const char *rule)
{
    if (l->kernel->body.n > 0) {
        Span span = l->kernel->body.items[0]->span;
        lower_fix(l, diag, (Span){span.source, span.start, span.start}, "assume %s\n    ", rule);
    }
}

bool lower_fix_similar(Lower *l, Diag *diag, Span span, const Nearest *nearest)
{
    const char *name = nearest_found(nearest);
    if (name) {
        diag_help(l->diags, diag, "did you mean `%s`?", name);
        lower_fix(l, diag, span, "%s", name);
    }
    return name != NULL;
}

/* "`sum` does not take `(x, 1)`" */
Diag *lower_wrong_call(Lower *l, const Expr *call)
{
    enum { LONGEST = 60 };
    Span name = call->a->span, given = {call->span.source, name.end, call->span.end};
    const char *callee = source_text(l->diags, l->arena, name);
    const char *passed = source_text(l->diags, l->arena, given);
    size_t n = call->args.n;
    if (n == 0) {
        return lower_error(l, ERR_ARGUMENTS, call->span, "`%s` was passed nothing", callee);
    }
    if (strlen(passed) > LONGEST || strchr(passed, '\n')) {
        return lower_error(l, ERR_ARGUMENTS, call->span, "`%s` does not take %s %zu argument%s",
                           callee, n == 1 ? "this" : "these", n, n == 1 ? "" : "s");
    }
    return lower_error(l, ERR_ARGUMENTS, call->span, "`%s` does not take `%s`", callee, passed);
}
