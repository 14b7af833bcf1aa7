/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera lsp`: a language server on standard input and output, for editors. */
#include "cli/commands/cmd_functions.h"
#include "cli/session_memory.h"
#include "lsp/lsp.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* "M=4096,N=1024", as the settings of an editor have it. */
static char *joined_sizes(const Options *options)
{
    char *text = alloc_or_exit(options->sizes.n * 256 + 1);
    size_t at = 0;
    for (size_t i = 0; i < options->sizes.n; i++) {
        const TesseraSize *size = &options->sizes.items[i];
        at += (size_t)snprintf(text + at, 256, "%s%.200s=%lld", i ? "," : "", size->name,
                               (long long)size->value);
    }
    return text;
}

static char *joined_sets(const Options *options)
{
    char *text = alloc_or_exit(options->sets.n * 512 + 1);
    size_t at = 0;
    for (size_t i = 0; i < options->sets.n; i++) {
        const TesseraPair *pair = &options->sets.items[i];
        at += (size_t)snprintf(text + at, 512, "%s%.200s=%.200s", i ? "," : "", pair->name,
                               pair->value);
    }
    return text;
}

int cmd_lsp(const Options *options)
{
    char *sizes = joined_sizes(options), *sets = joined_sets(options);
    LspSettings settings = {options_target(options), sizes, sets};
    int code = lsp_serve(STDIN_FILENO, STDOUT_FILENO, &settings);
    free(sizes);
    free(sets);
    return code;
}
