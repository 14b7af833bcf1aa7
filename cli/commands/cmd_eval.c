/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera eval 'softmax(x)' x=x.npy`: makes a kernel of the expression, whose parameters have the
 * types and shapes of the arrays that are given, and runs it as `tessera run` does. */
#include "cli/commands/cmd_functions.h"
#include "cli/data/array_args.h"
#include "cli/options.h"
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

/* A type to which no expression converts by itself, but a literal: then the result is an i64. */
static const char PROBE[] = "u4", LITERAL[] = "i64";

typedef struct Parameters {
    char *text;
    size_t n;
} Parameters;

static void append(Parameters *p, const char *text)
{
    size_t more = strlen(text);
    char *grown = session_alloc(p->n + more + 1);
    memcpy(grown, p->text ? p->text : "", p->n);
    memcpy(grown + p->n, text, more);
    p->text = grown;
    p->n += more;
}

/* "f32[3, 4]" */
static void append_type(Parameters *p, const TesseraTensor *tensor)
{
    append(p, tessera_type_name(tensor->type));
    for (int i = 0; i < tensor->rank; i++) {
        char extent[32];
        snprintf(extent, sizeof extent, "%s%lld", i ? ", " : "[", (long long)tensor->dims[i]);
        append(p, extent);
    }
    append(p, tensor->rank > 0 ? "]" : "");
}

/* `name: f32[3, 4]` of NAME=FILE.npy, `name: f32` or `name: i64` of NAME=NUMBER. */
static int add_parameter(Parameters *p, const char *argument)
{
    char *name = name_before(argument, '='), *end;
    if (!name) {
        return fail_code(FAIL_PARAMETER, TESSERA_USAGE,
                         "eval %.60s: expected NAME=FILE.npy or NAME=NUMBER", argument);
    }
    const char *value = argument + strlen(name) + 1;
    append(p, p->n > 0 ? ", " : "");
    append(p, name);
    append(p, ": ");
    strtod(value, &end);
    if (end != value && *end == '\0') {
        append(p, value[strspn(value, "+-0123456789")] == '\0' ? "i64" : "f32");
        return 0;
    }
    TesseraTensor tensor;
    const char *part = slice_after(value);
    char *path = session_text(value, part ? (size_t)(part - value) : strlen(value));
    int code = npy_read(path, NO_TYPE, &tensor);
    if (code == 0) {
        void *block = tensor.data;
        code = part ? slice_apply(part, &tensor) : 0;
        append_type(p, &tensor);
        free(block);
    }
    return code;
}

static char *program_of(const Parameters *parameters, const char *type, const char *expression)
{
    static const char FORM[] = "kernel eval(%s) -> %s =\n    %s\n";
    const char *list = parameters->text ? parameters->text : "";
    size_t n = sizeof FORM + strlen(list) + strlen(type) + strlen(expression);
    char *text = session_alloc(n);
    snprintf(text, n, FORM, list, type, expression);
    return text;
}

/* The type of the expression. The front end names it where it does not fit the declared one
 * (E0411): a result that is declared as PROBE never fits. 0, or an exit code after a message. */
static int find_type(Options *options, const Parameters *parameters, const char *expression,
                     const char **type)
{
    static const char BEHIND[] = " is not converted to ";
    const TesseraDiagnostic *items;
    TesseraContext *context;
    TesseraProgram *program = NULL;
    TesseraKernel *kernel = NULL;
    if (tessera_context_new(NULL, &context) != TESSERA_OK) {
        return fail(TESSERA_ENVIRONMENT, "out of memory");
    }
    options->program = program_of(parameters, PROBE, expression);
    TesseraOptions compile = {.target = "native", .pins = ""};
    TesseraStatus status = tessera_program_parse(context, options->path, options->program,
                                                 strlen(options->program), &program);
    if (status == TESSERA_OK) {
        status = tessera_compile(program, &compile, &kernel);
    }
    int code = 0;
    *type = LITERAL;
    if (status != TESSERA_OK) {
        bool one = tessera_diagnostics(context, &items) == 1 && strcmp(items[0].code, "E0411") == 0;
        const char *end = one ? strstr(items[0].message, BEHIND) : NULL;
        if (end) {
            *type = session_text(items[0].message, (size_t)(end - items[0].message));
        } else {
            code = fail_context(context);
        }
    }
    tessera_kernel_free(kernel);
    tessera_program_free(program);
    tessera_context_free(context);
    return code;
}

int cmd_eval(const Options *options)
{
    Parameters parameters = {0};
    Options run = *options;
    const char *expression = options->values.items[0], *type = LITERAL;
    run.path = "expression";
    run.values.items++;
    run.values.n--;
    int code = 0;
    for (size_t i = 0; i < run.values.n && code == 0; i++) {
        code = add_parameter(&parameters, run.values.items[i]);
    }
    code = code ? code : find_type(&run, &parameters, expression, &type);
    if (code != 0) {
        return code;
    }
    run.program = program_of(&parameters, type, expression);
    return cmd_run(&run);
}
