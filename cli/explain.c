/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera explain`: the schedule that was used, as it may stand in the source, and its cost. */
#include "cli/cli.h"

static void show_launch(const TesseraLaunchInfo *launch)
{
    printf("# %s: ", launch->symbol);
    if (launch->blocks >= 0) {
        printf("%lld block%s of ", (long long)launch->blocks, launch->blocks == 1 ? "" : "s");
    }
    printf("%d thread%s", launch->threads, launch->threads == 1 ? "" : "s");
    if (launch->shared_bytes > 0) {
        printf(", %d bytes of shared memory a block", launch->shared_bytes);
    }
    puts(launch->persistent ? ", persistent" : "");
}

static int explain(Session *session)
{
    const char *text;
    TesseraResources resources;
    if (tessera_kernel_schedule(session->kernel, true, &text) != TESSERA_OK) {
        return fail_context(session->context);
    }
    fputs(text, stdout);
    if (tessera_kernel_resources(session->kernel, &resources) != TESSERA_OK) {
        return fail_context(session->context);
    }
    for (size_t i = 0; i < resources.n_launches; i++) {
        show_launch(&resources.launches[i]);
    }
    if (resources.flops > 0) {
        printf("# products: %.4g FLOP\n", resources.flops);
    }
    return 0;
}

int verb_explain(const Options *options)
{
    Session session;
    TesseraOptions compile;
    if (!options->path || is_code(options->path)) {
        return explain_code(options);
    }
    if (options->json) {
        return fail_code(FAIL_TOGETHER, TESSERA_USAGE, "--json goes with codes, as E0412");
    }
    if (options->values.n > 0) {
        return fail_code(FAIL_TOGETHER, TESSERA_USAGE,
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
        code = explain(&session);
    }
    session_close(&session);
    return code;
}
