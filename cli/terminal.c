/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the terminal and the environment for colour (https://no-color.org) and width. */
#include "cli/terminal.h"
#include "cli/cli_diagnostics.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

typedef enum ColorWish { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER } ColorWish;

static ColorWish wish; /* of this process */

static const char *const SEQUENCES[N_STYLES] = {
    [STYLE_NONE] = "\033[0m",  [STYLE_BOLD] = "\033[1m",  [STYLE_DIM] = "\033[2m",
    [STYLE_CODE] = "\033[36m", [STYLE_GOOD] = "\033[32m", [STYLE_BAD] = "\033[31m",
    [STYLE_WARN] = "\033[33m",
};

static int read_wish(const char *text)
{
    static const char *const names[] = {"auto", "always", "never"};
    for (int i = COLOR_AUTO; i <= COLOR_NEVER; i++) {
        if (strcmp(text, names[i]) == 0) {
            wish = (ColorWish)i;
            return 0;
        }
    }
    return fail_code(FAIL_VALUE, TESSERA_USAGE, "--color %.60s: expected auto, always or never",
                     text);
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

bool has_color(FILE *stream)
{
    if (wish != COLOR_AUTO) {
        return wish == COLOR_ALWAYS;
    }
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(no && *no) && term && *term && strcmp(term, "dumb") != 0 && isatty(fileno(stream));
}

const char *style_of(FILE *stream, Style style)
{
    return has_color(stream) ? SEQUENCES[style] : "";
}

int terminal_columns(void)
{
    const char *given = getenv("COLUMNS");
    struct winsize size;
    int columns = given ? atoi(given) : 0;
    if (columns <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) {
        columns = size.ws_col;
    }
    columns = columns > 0 ? columns : 80;
    return columns < MIN_COLUMNS ? MIN_COLUMNS : columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
}
