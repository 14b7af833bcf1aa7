/* SPDX-License-Identifier: Apache-2.0 */
/* Prints errors and warnings on stderr in the form that --diagnostics selects: text for people,
 * one line each, or one JSON object each. */
#include "cli/json_write.h"
#include "cli/options.h"
#include "cli/session.h"

#include <stdarg.h>
#include <string.h>

typedef enum Form { FORM_HUMAN, FORM_SHORT, FORM_JSON } Form;

static Form form; /* of all that this process tells */

static int read_form(const char *text)
{
    static const char *const names[] = {"human", "short", "json"};
    for (int i = FORM_HUMAN; i <= FORM_JSON; i++) {
        if (strcmp(text, names[i]) == 0) {
            form = (Form)i;
            return 0;
        }
    }
    return fail_code(FAIL_VALUE, TESSERA_USAGE, "--diagnostics %.60s: human, short or json", text);
}

int diagnostics_read(int argc, char **argv)
{
    static const char name[] = "--diagnostics";
    size_t n = sizeof name - 1;
    int code = 0;
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strncmp(argv[i], name, n) == 0 && argv[i][n] == '=') {
            code = read_form(argv[i] + n + 1);
        } else if (strcmp(argv[i], name) == 0 && i + 1 < argc) {
            code = read_form(argv[++i]);
        }
    }
    return code;
}

static void show(const char *text)
{
    static bool any; /* for people a line is left between them */
    if (any && form == FORM_HUMAN) {
        fputc('\n', stderr);
    }
    any = true;
    fputs(text, stderr);
}

void show_diagnostics(const TesseraContext *context)
{
    const TesseraDiagnostic *items;
    size_t n = tessera_diagnostics(context, &items);
    for (size_t i = 0; i < n; i++) {
        show(form == FORM_HUMAN   ? items[i].human
             : form == FORM_SHORT ? items[i].brief
                                  : items[i].json);
    }
}

static void tell(FILE *to, const char *severity, int code, const char *format, va_list args)
{
    char message[1024], name[16] = "";
    vsnprintf(message, sizeof message, format, args);
    if (code > 0) {
        snprintf(name, sizeof name, "E%04d", code);
    }
    if (form != FORM_JSON) {
        const char *open = *name ? "[" : "", *close = *name ? "]" : "";
        fprintf(to, "%s%s%s%s: %s\n", severity, open, name, close, message);
        return;
    }
    fprintf(to, "{\"severity\":\"%s\",\"code\":", severity);
    if (*name) {
        json_string(to, name);
    } else {
        fputs("null", to);
    }
    fputs(",\"message\":", to);
    json_string(to, message);
    fputs(",\"file\":null,\"label\":null,\"labels\":[],\"notes\":[],\"helps\":[]}\n", to);
}

void show_note(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell(stderr, "note", 0, format, args);
    va_end(args);
}

int fail(TesseraStatus status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell(stderr, "error", 0, format, args);
    va_end(args);
    return (int)status;
}

int fail_code(FailCode code, TesseraStatus status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell(stderr, "error", (int)code, format, args);
    va_end(args);
    return (int)status;
}

size_t fail_words(char *out, size_t n, FailCode code, const char *format, ...)
{
    FILE *to = fmemopen(out, n, "w");
    if (!to) {
        return 0;
    }
    va_list args;
    va_start(args, format);
    tell(to, "error", (int)code, format, args);
    va_end(args);
    long written = ftell(to);
    fclose(to);
    return written > 0 ? (size_t)written : 0;
}

int session_warn(const Options *options, TesseraContext *context)
{
    TesseraWarnings warnings = {options->allow.items, options->allow.n, options->deny};
    return tessera_warn(context, &warnings) == TESSERA_OK ? 0 : fail_context(context);
}
