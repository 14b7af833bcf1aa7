/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the terminal and the environment for colour (https://no-color.org) and width. */
#include "cli/terminal.h"

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

bool color_set(const char *text)
{
    static const char *const names[] = {"auto", "always", "never"};
    for (int i = COLOR_AUTO; i <= COLOR_NEVER; i++) {
        if (strcmp(text, names[i]) == 0) {
            wish = (ColorWish)i;
            return true;
        }
    }
    return false;
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
    if (columns < MIN_COLUMNS) {
        return MIN_COLUMNS;
    }
    return columns > MAX_COLUMNS ? MAX_COLUMNS : columns;
}

/* ---- diagnostics ---- */

static void styled(FILE *to, Style style, const char *text, size_t n)
{
    fprintf(to, "%s%.*s%s", style_of(to, style), (int)n, text, style_of(to, STYLE_NONE));
}

/* The style of `error`, `warning`, `note` or `help` at the start of a text; STYLE_NONE: none. */
static Style severity_of(const char *text)
{
    static const struct {
        const char *word;
        Style style;
    } rows[] = {
        {"error", STYLE_BAD}, {"warning", STYLE_WARN}, {"note", STYLE_CODE}, {"help", STYLE_GOOD}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t n = strlen(rows[i].word);
        if (strncmp(text, rows[i].word, n) == 0 && (text[n] == ':' || text[n] == '[')) {
            return rows[i].style;
        }
    }
    return STYLE_NONE;
}

/* `error[E0402]: message`, `  = help: text`, `3 |     source`, `  |     ^ label`. */
static void color_line(FILE *to, const char *line, size_t n)
{
    size_t gutter = strspn(line, " 0123456789");
    bool equals = line[gutter] == '=' && gutter > 0, bar = line[gutter] == '|' && gutter > 0;
    size_t begin = equals ? gutter + 2 : 0;
    Style severity = begin < n ? severity_of(line + begin) : STYLE_NONE;
    size_t word = strcspn(line + begin, ":");
    if (severity != STYLE_NONE && begin + word < n) {
        styled(to, STYLE_DIM, line, begin);
        styled(to, severity, line + begin, word);
        fprintf(to, "%.*s", (int)(n - begin - word), line + begin + word);
        return;
    }
    size_t marks = gutter < n ? gutter + 1 + strspn(line + gutter + 1, " ") : n;
    bool marked = bar && marks < n && strspn(line, " ") == gutter;
    if (bar) {
        styled(to, STYLE_DIM, line, gutter + 1);
        styled(to, marked ? STYLE_BAD : STYLE_NONE, line + gutter + 1, n - gutter - 1);
    } else {
        bool place = strncmp(line + strspn(line, " "), "-->", 3) == 0;
        styled(to, place ? STYLE_DIM : STYLE_NONE, line, n);
    }
}

void diagnostic_color(FILE *to, const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        color_line(to, text, n);
        fputs(text[n] ? "\n" : "", to);
        text += n + (text[n] == '\n');
    }
}
