/* SPDX-License-Identifier: Apache-2.0 */
/* Helps that a tool can apply: edits of the user's text. */
#include "frontend/lower.h"

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

bool lower_fix_near(Lower *l, Diag *diag, Span span, const Nearest *nearest)
{
    const char *name = nearest_found(nearest);
    if (name) {
        diag_help(l->diags, diag, "did you mean `%s`?", name);
        lower_fix(l, diag, span, "%s", name);
    }
    return name != NULL;
}
