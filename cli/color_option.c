/* SPDX-License-Identifier: Apache-2.0 */
/* Reads --color before the other options are parsed. */
#include "cli/cli_diagnostics.h"
#include "cli/terminal.h"

#include <string.h>

static int read_wish(const char *text)
{
    return color_set(text) ? 0
                           : fail_code(FAIL_VALUE, TESSERA_USAGE,
                                       "--color %.60s: expected auto, always or never", text);
}

int color_read(int argc, char **argv)
{
    static const char name[] = "--color";
    size_t n = sizeof name - 1;
    int code = 0;
    for (int i = 0; i < argc && code == 0 && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=') {
            code = read_wish(argv[i] + n + 1);
        } else if (strcmp(argv[i], name) == 0 && i + 1 < argc) {
            code = read_wish(argv[++i]);
        }
    }
    return code;
}
