/* SPDX-License-Identifier: Apache-2.0 */
/* The settings for people who work on the compiler; runtime/compile/pass_hooks.c does what they
 * ask for. */
#include "runtime/api/api_objects.h"

#include "ir/ir_errors.h"

static bool is_pass(const char *name)
{
    size_t n;
    const Pass *rows = pass_rows(&n);
    for (size_t i = 0; i < n; i++) {
        if (text_equal(rows[i].name, name)) {
            return true;
        }
    }
    return false;
}

static bool is_skippable(const char *name)
{
    size_t n;
    const Pass *rows = pass_rows(&n);
    for (size_t i = 0; i < n; i++) {
        if (text_equal(rows[i].name, name)) {
            return !rows[i].required;
        }
    }
    return false;
}

TesseraStatus tessera_debug(TesseraContext *context, const TesseraDebug *debug)
{
    if (!context) {
        return context_null(NULL, __func__, "context");
    }
    if (!debug) {
        context->compiler->debug = (TesseraDebug){0};
        return TESSERA_OK;
    }
    const char *print = debug->print_after, *stop = debug->stop_after;
    if (print && !is_pass(print) && !text_equal(print, "all") && !text_equal(print, "frontend")) {
        return context_fail_code(context, TESSERA_USAGE, ERR_NO_PASS,
                                 "--print-after: no pass '%.100s'", print);
    }
    if (stop && !is_pass(stop) && !text_equal(stop, "frontend")) {
        return context_fail_code(context, TESSERA_USAGE, ERR_NO_PASS,
                                 "--stop-after: no pass '%.100s'", stop);
    }
    if (debug->trace && (debug->trace_rank < 0 || debug->trace_rank > TESSERA_MAX_RANK)) {
        return context_usage(context, "--trace: %d indices", debug->trace_rank);
    }
    for (size_t i = 0; i < debug->n_skip; i++) {
        if (!debug->skip || !debug->skip[i]) {
            return context_null(context, __func__, "a pass to skip");
        }
        if (!is_skippable(debug->skip[i])) {
            return context_fail_code(context, TESSERA_USAGE, ERR_NO_PASS, "--skip: %s '%.100s'",
                                     is_pass(debug->skip[i]) ? "the others need pass" : "no pass",
                                     debug->skip[i]);
        }
    }
    context->compiler->debug = *debug;
    return TESSERA_OK;
}
