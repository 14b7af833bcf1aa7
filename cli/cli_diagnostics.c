/* SPDX-License-Identifier: Apache-2.0 */
/* Prints errors and warnings on stderr in the form that --diagnostics selects: text for people,
 * one line each, or one JSON object each. All commands report errors through these functions, so
 * that a failure looks the same everywhere. */
#include "cli/cli_diagnostics.h"
#include "cli/json_write.h"
#include "cli/terminal.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum Form { FORM_HUMAN, FORM_SHORT, FORM_JSON } Form;

static Form form; /* of all diagnostics of this process */

static int read_form(const char *text)
{
    static const char *const names[] = {"human", "short", "json"};
    for (int i = FORM_HUMAN; i <= FORM_JSON; i++) {
        if (strcmp(text, names[i]) == 0) {
            form = (Form)i;
            return 0;
        }
    }
    return fail_code(FAIL_VALUE, TESSERA_USAGE,
                     "--diagnostics %.60s: expected human, short or json", text);
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
    static bool any; /* the human form has an empty line between two diagnostics */
    if (any && form == FORM_HUMAN) {
        fputc('\n', stderr);
    }
    any = true;
    if (form == FORM_HUMAN && has_color(stderr)) {
        diagnostic_color(stderr, text);
    } else {
        fputs(text, stderr);
    }
}

void show_diagnostics(const TesseraContext *context)
{
    const TesseraDiagnostic *items;
    size_t n = tessera_diagnostics(context, &items);
    for (size_t i = 0; i < n; i++) {
        const char *const forms[] = {items[i].human, items[i].brief, items[i].json};
        show(forms[form]);
    }
}

static void write_diagnostic(FILE *to, const char *severity, int code, const char *format,
                             va_list args)
{
    char message[1024], name[16] = "";
    vsnprintf(message, sizeof message, format, args);
    if (code > 0) {
        snprintf(name, sizeof name, "E%04d", code);
    }
    if (form != FORM_JSON) {
        const char *open = *name ? "[" : "", *close = *name ? "]" : "";
        char text[1100];
        snprintf(text, sizeof text, "%s%s%s%s: %s\n", severity, open, name, close, message);
        if (form == FORM_HUMAN && to == stderr && has_color(to)) {
            diagnostic_color(to, text);
        } else {
            fputs(text, to);
        }
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
    write_diagnostic(stderr, "note", 0, format, args);
    va_end(args);
}

int fail(TesseraStatus status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_diagnostic(stderr, "error", 0, format, args);
    va_end(args);
    return (int)status;
}

int fail_code(FailCode code, TesseraStatus status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_diagnostic(stderr, "error", (int)code, format, args);
    va_end(args);
    return (int)status;
}

size_t fail_text(char *out, size_t n, FailCode code, const char *format, ...)
{
    FILE *to = fmemopen(out, n, "w");
    if (!to) {
        return 0;
    }
    va_list args;
    va_start(args, format);
    write_diagnostic(to, "error", (int)code, format, args);
    va_end(args);
    long written = ftell(to);
    fclose(to);
    return written > 0 ? (size_t)written : 0;
}

int fail_context(const TesseraContext *context)
{
    const TesseraError *error = tessera_error(context);
    const TesseraDiagnostic *items;
    if (tessera_diagnostics(context, &items) > 0) {
        show_diagnostics(context);
    } else {
        fail(error->status, "%s", error->message); /* no memory for a diagnostic */
    }
    if (error->reproducer) {
        /* The folder of temporary files, so that no other folder of the user changes. */
        const char *folder = getenv("TMPDIR");
        char path[512];
        int n = snprintf(path, sizeof path, "%s/tessera-bug-XXXXXX.tile",
                         folder && *folder ? folder : "/tmp");
        int file = n > 0 && (size_t)n < sizeof path ? mkstemps(path, 5) : -1;
        FILE *stream = file >= 0 ? fdopen(file, "w") : NULL;
        if (stream && fputs(error->reproducer, stream) >= 0 && fclose(stream) == 0) {
            show_note("a program that reproduces it is in %s", path);
        }
    }
    return (int)error->status;
}

int fail_assertions(const TesseraMessages *messages)
{
    const TesseraMessage *failed = NULL;
    for (size_t i = 0; i < messages->n && !failed; i++) {
        failed = messages->items[i].failed ? &messages->items[i] : NULL;
    }
    if (messages->failures == 0) {
        return 0;
    }
    if (!failed) {
        return fail_code(FAIL_ASSERTION, TESSERA_FAULT,
                         "%" PRIu64 " assertions failed; the log was full", messages->failures);
    }
    int code = fail_code(FAIL_ASSERTION, TESSERA_FAULT, "%s:%d: %s",
                         failed->file ? failed->file : "?", failed->line, failed->text);
    if (messages->failures > 1) {
        show_note("%" PRIu64 " assertions failed; this is the first", messages->failures);
    }
    return code;
}
