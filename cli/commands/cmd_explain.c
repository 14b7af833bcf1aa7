/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera explain FILE`: prints the decisions that were taken for a kernel, with their reasons
 * and their estimated costs. */
#include "cli/commands/cmd_functions.h"
#include "cli/options.h"
#include "cli/output_files.h"
#include "cli/session.h"

#include "runtime/api/api_debug.h"

#include <string.h>

/* The page of the kernel next to the same one with the schedule of --against. */
static int explain_against(const Options *options, Session *session)
{
    TesseraKernel *first = session->kernel;
    TesseraOptions compile;
    TesseraBytes bytes;
    Options other = *options;
    other.schedule = options->against;
    other.schedule.n = 0;
    for (size_t i = 0; i < options->against.n; i++) {
        if (*options->against.items[i]) {
            other.schedule.items[other.schedule.n++] = options->against.items[i];
        }
    }
    session->kernel = NULL;
    int code = session_options(&other, session, NULL, &compile);
    code = code ? code : session_compile(&other, session, &compile);
    if (code == 0 && tessera_kernel_compare(first, session->kernel, &bytes) != TESSERA_OK) {
        code = fail_context(session->context);
    }
    code = code ? code : out_bytes(options->html, &bytes);
    tessera_kernel_free(first);
    return code;
}

static int explain(const Options *options, Session *session)
{
    TesseraBytes bytes;
    TesseraExplain form = TESSERA_EXPLAIN_TEXT;
    if (options->html) {
        form = TESSERA_EXPLAIN_HTML;
    } else if (options->json) {
        form = TESSERA_EXPLAIN_JSON;
    } else if (options->nest) {
        form = TESSERA_EXPLAIN_NEST;
    }
    if (tessera_kernel_explain(session->kernel, form, &bytes) != TESSERA_OK) {
        return fail_context(session->context);
    }
    return out_bytes(options->html ? options->html : "-", &bytes);
}

int cmd_explain(const Options *options)
{
    Session session;
    TesseraOptions compile;
    if (!options->path || is_code(options->path)) {
        return explain_code(options);
    }
    if ((options->json != 0) + (options->html != NULL) + (options->nest != 0) > 1) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "--json, --html FILE, --nest: one of them");
    }
    if (options->targets.n > 1) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "explain is of one --target; --against compares two schedules for it");
    }
    if (options->against.n > 0 && !options->html) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "--against wants --html FILE");
    }
    if (options->values.n > 0) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "explain takes one file; parameters go into --set");
    }
    int code = session_open(options, &session);
    if (code == 0) {
        code = session_options(options, &session, NULL, &compile);
    }
    if (code == 0) {
        code = session_compile(options, &session, &compile);
    }
    if (code == 0) {
        code = options->against.n > 0 ? explain_against(options, &session)
                                      : explain(options, &session);
    }
    session_close(&session);
    return code;
}
