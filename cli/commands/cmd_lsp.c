/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera lsp`: a language server on standard input and output, for editors. */
#include "cli/commands/cmd_functions.h"
#include "cli/cli_diagnostics.h"
#include "lsp/lsp.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cmd_lsp(const Options *options)
{
    (void)options;
    LspSettings settings = {0};
    return lsp_serve(STDIN_FILENO, STDOUT_FILENO, &settings);
}
