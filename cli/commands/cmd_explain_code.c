/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera explain E0412`: prints the meaning of an error code with an example. Without a code it
 * lists all of them. */
#include "cli/commands/cmd_functions.h"
#include "cli/json_write.h"
#include "cli/options.h"
#include "cli/session.h"

#include <ctype.h>
#include <string.h>

bool is_code(const char *text)
{
    text += strchr("EWew", *text) && *text;
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= 4 && text[digits] == 0;
}

/* ---- for people ---- */

enum { WIDTH = 80 };

static void show_program(const char *head, const char *text)
{
    printf("\n%s\n\n", head);
    while (*text) {
        size_t n = strcspn(text, "\n");
        printf("%s%.*s\n", n > 0 ? "    " : "", (int)n, text);
        text += n + (text[n] != 0);
    }
}

static void show(const TesseraExplanation *row)
{
    printf("%s: %s\n\n", row->code, row->title);
    /* The text is printed in lines of at most WIDTH columns. */
    const char *at = row->text;
    size_t column = 0;
    while (*at) {
        size_t n = strcspn(at, " ");
        if (column > 0 && column + 1 + n > WIDTH) {
            putchar('\n');
            column = 0;
        }
        printf("%s%.*s", column > 0 ? " " : "", (int)n, at);
        column += n + (column > 0);
        at += n + strspn(at + n, " ");
    }
    putchar('\n');
    if (row->wrong) {
        show_program("Wrong:", row->wrong);
        show_program("Mended:", row->mended);
    }
}

/* ---- JSON ---- */

static void member(const char *before, const char *name, const char *text)
{
    printf("%s\"%s\": ", before, name);
    if (text) {
        json_string(stdout, text);
    } else {
        fputs("null", stdout);
    }
}

static void show_json(const TesseraExplanation *row)
{
    member("{", "code", row->code);
    member(", ", "title", row->title);
    member(", ", "text", row->text);
    member(", ", "wrong", row->wrong);
    member(", ", "mended", row->mended);
    puts("}");
}

/* ---- all ---- */

/* The least code that is greater; false after the last. */
static bool next_code(TesseraExplanation *at)
{
    TesseraExplanation row, best = {0};
    for (size_t i = 0; tessera_explanation(i, &row); i++) {
        bool greater = strcmp(row.code + 1, at->code[0] ? at->code + 1 : "") > 0;
        if (greater && (!best.code[0] || strcmp(row.code + 1, best.code + 1) < 0)) {
            best = row;
        }
    }
    *at = best;
    return best.code[0] != 0;
}

int explain_code(const Options *options)
{
    TesseraExplanation row = {0};
    if (options->values.n > 0) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "explain takes one code");
    }
    if (options->html || options->nest || options->against.n > 0) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "--html, --nest and --against are of a program, not of a code");
    }
    if (options->path && !tessera_explain(options->path, &row)) {
        return fail_code(FAIL_NO_CODE, TESSERA_USAGE,
                         "no code '%.60s': `tessera explain` lists all", options->path);
    }
    if (options->path) {
        (options->json ? show_json : show)(&row);
        return 0;
    }
    while (next_code(&row)) {
        if (options->json) {
            show_json(&row);
        } else {
            printf("%s  %s\n", row.code, row.title);
        }
    }
    return 0;
}
