/* SPDX-License-Identifier: Apache-2.0 */
/* Diagnostics in the public interface: those of the last call, which warnings there are, and the
 * explanations of codes. */
#include "runtime/api/api_objects.h"

#include "frontend/messages/frontend_errors.h"

#include <string.h>

size_t tessera_diagnostics(const TesseraContext *context, const TesseraDiagnostic **diagnostics)
{
    if (diagnostics) {
        *diagnostics = context ? context->compiler->diagnostics : NULL;
    }
    return context && diagnostics ? context->compiler->n_diagnostics : 0;
}

/* ---- warnings ---- */

/* "W2001"; 0: it is no code of a warning. */
static int warning_code(const char *text)
{
    char name[8];
    for (size_t i = 0; text && error_row(i); i++) {
        int code = error_row(i)->code;
        diag_code_text(code, name);
        if (code >= FIRST_WARNING && text_equal(name, text)) {
            return code;
        }
    }
    return 0;
}

static size_t count_warnings(void)
{
    size_t n = 0;
    for (size_t i = 0; error_row(i); i++) {
        n += error_row(i)->code >= FIRST_WARNING;
    }
    return n;
}

/* "all" takes the place of every code. */
static size_t allow(int *codes, size_t n, const char *text)
{
    if (!text_equal(text, "all")) {
        codes[n++] = warning_code(text);
        return n;
    }
    for (size_t i = 0; error_row(i); i++) {
        if (error_row(i)->code >= FIRST_WARNING) {
            codes[n++] = error_row(i)->code;
        }
    }
    return n;
}

TesseraStatus tessera_warn(TesseraContext *context, const TesseraWarnings *warnings)
{
    if (!context) {
        return context_null(NULL, __func__, "context");
    }
    size_t n = warnings ? warnings->n_allow : 0, n_codes = 0;
    for (size_t i = 0; i < n; i++) {
        const char *text = warnings->allow ? warnings->allow[i] : NULL;
        if (!text || (!text_equal(text, "all") && !warning_code(text))) {
            return context_fail_code(context, TESSERA_USAGE, ERR_WARNING_NAME,
                                     "no warning is called '%.60s': they are W2001 and on",
                                     text ? text : "");
        }
    }
    int *codes = n ? context_take(context, n * count_warnings() * sizeof *codes) : NULL;
    if (n && !codes) {
        return TESSERA_ENVIRONMENT;
    }
    for (size_t i = 0; i < n; i++) {
        n_codes = allow(codes, n_codes, warnings->allow[i]);
    }
    context_drop(context, context->compiler->allowed);
    context->compiler->allowed = codes;
    context->compiler->policy = (DiagPolicy){codes, n_codes, warnings && warnings->deny};
    return TESSERA_OK;
}

/* ---- explanations ---- */

bool tessera_explanation(size_t index, TesseraExplanation *explanation)
{
    const ErrorRow *row = error_row(index);
    if (!row || !explanation) {
        return false;
    }
    const ErrorExample *example = error_example(row->code);
    *explanation = (TesseraExplanation){.title = row->title, .text = row->explanation};
    diag_code_text(row->code, explanation->code);
    if (example) {
        explanation->wrong = example->wrong;
        explanation->mended = example->mended;
    }
    return true;
}

/* With or without its letter and its zeros. */
static bool names_code(const char *text, const char *code)
{
    if (text_equal(text, code)) {
        return true;
    }
    text += *text == code[0] || *text == code[0] + ('a' - 'A');
    text += strspn(text, "0");
    return text_equal(text, code + 1 + strspn(code + 1, "0"));
}

bool tessera_explain(const char *code, TesseraExplanation *explanation)
{
    for (size_t i = 0; code && tessera_explanation(i, explanation); i++) {
        if (names_code(code, explanation->code)) {
            return true;
        }
    }
    return false;
}
