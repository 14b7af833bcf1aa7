/* SPDX-License-Identifier: Apache-2.0 */
/* Collects the warnings of all compilations of a bundle, so that each is reported once. */
#include "runtime/api/api_objects.h"
#include "runtime/bundle/bundle_build.h"

static void keep_warning(const Diag *from, Diags *to)
{
    if (from->severity != SEVERITY_WARNING || diag_is_reported(to, from->code, from->span)) {
        return;
    }
    Diag *diag = diag_warning(to, from->code, from->span, "%s", from->message);
    for (size_t i = 0; i < from->labels.n; i++) {
        diag_label(to, diag, from->labels.items[i].span, "%s", from->labels.items[i].text);
    }
    for (size_t i = 0; i < from->fixes.n; i++) {
        diag_fix(to, diag, from->fixes.items[i].span, "%s", from->fixes.items[i].text);
    }
    if (from->span_label) {
        diag_span_label(to, diag, "%s", from->span_label);
    }
    if (from->help) {
        diag_help(to, diag, "%s", from->help);
    }
    if (from->note) {
        diag_note(to, diag, "%s", from->note);
    }
}

void bundle_keep_warnings(BundleBuilder *builder)
{
    const Diags *from = &builder->kernel->work.diags;
    /* The same sources have the same numbers in every compilation. */
    Diags *to = &builder->work->diags;
    for (size_t i = to->sources.n; i < from->sources.n; i++) {
        const Source *source = &from->sources.items[i];
        diags_add_source(to, source->name, source->text, source->n);
    }
    for (size_t i = 0; i < from->list.n; i++) {
        keep_warning(&from->list.items[i], &builder->work->diags);
    }
}

void bundle_tell_warnings(BundleBuilder *builder)
{
    TesseraContext *context = builder->work->context;
    Text text = text_new(&builder->work->arena);
    if (builder->work->diags.list.n > 0) {
        diags_render(&builder->work->diags, &text);
    }
    context_set(context, &context->compiler->warnings, text.data);
    context_store_diagnostics(context, &builder->work->diags);
}
