/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera compile --describe`: prints the parameters and results of each kernel, as text or JSON.
 */
#include "cli/commands/cmd_functions.h"
#include "cli/json_write.h"
#include "cli/options.h"
#include "cli/session.h"

const char *io_name(TesseraIo io)
{
    if (io == TESSERA_IN) {
        return "in";
    }
    return io == TESSERA_OUT ? "out" : "inout";
}

/* ---- for people: as in a source ---- */

static void show_kernel(FILE *to, const TesseraSignature *kernel)
{
    fprintf(to, "%s\n", kernel->name);
    for (size_t i = 0; i < kernel->n_params; i++) {
        const TesseraParam *param = &kernel->params[i];
        fprintf(to, "  %-5s %s: %s%s", io_name(param->io), param->name,
                param->is_const ? "const " : "", param->type);
        for (int j = 0; j < param->rank; j++) {
            fprintf(to, "%s%s%s", j ? ", " : "[", param->dims[j], j + 1 == param->rank ? "]" : "");
        }
        fprintf(to, "%s%s\n", param->fallback ? " = " : "", param->fallback ? param->fallback : "");
    }
    for (size_t i = 0; i < kernel->n_generics; i++) {
        fprintf(to, "  where %s: %s\n", kernel->generics[i], kernel->classes[i]);
    }
    for (size_t i = 0; i < kernel->n_choices; i++) {
        const TesseraChoice *choice = &kernel->choices[i];
        fprintf(to, "  where %s in", choice->size);
        for (size_t k = 0; k < choice->n; k++) {
            fprintf(to, "%s %lld", k ? "," : "", (long long)choice->values[k]);
        }
        fputc('\n', to);
    }
}

/* ---- JSON ---- */

static void name_json(FILE *to, const char *before, const char *name, const char *value)
{
    fputs(before, to);
    json_string(to, name);
    fputs(": ", to);
    json_string(to, value);
}

static void param_json(FILE *to, const TesseraParam *param)
{
    name_json(to, "{", "name", param->name);
    name_json(to, ", ", "io", io_name(param->io));
    name_json(to, ", ", "type", param->type);
    if (param->rank >= 0) {
        fputs(", \"dims\": [", to);
        for (int i = 0; i < param->rank; i++) {
            fputs(i ? ", " : "", to);
            json_string(to, param->dims[i]);
        }
        fputc(']', to);
    }
    fprintf(to, ", \"const\": %s", param->is_const ? "true" : "false");
    if (param->fallback) {
        name_json(to, ", ", "default", param->fallback);
    }
    fputc('}', to);
}

static void kernel_json(FILE *to, const TesseraSignature *kernel)
{
    name_json(to, "{", "name", kernel->name);
    fputs(", \"params\": [", to);
    for (size_t i = 0; i < kernel->n_params; i++) {
        fputs(i ? ", " : "", to);
        param_json(to, &kernel->params[i]);
    }
    fputs("], \"generics\": [", to);
    for (size_t i = 0; i < kernel->n_generics; i++) {
        name_json(to, i ? ", {" : "{", "name", kernel->generics[i]);
        name_json(to, ", ", "class", kernel->classes[i]);
        fputc('}', to);
    }
    fputs("], \"sizes\": [", to);
    for (size_t i = 0; i < kernel->n_sizes; i++) {
        fputs(i ? ", " : "", to);
        /* A size with listed values has these as its member `values`. */
        const char *size = kernel->sizes[i];
        name_json(to, "{", "name", size);
        for (size_t j = 0; j < kernel->n_choices; j++) {
            const TesseraChoice *choice = &kernel->choices[j];
            for (size_t k = 0; choice->size == size && k < choice->n; k++) {
                fprintf(to, "%s%lld", k ? ", " : ", \"values\": [", (long long)choice->values[k]);
                fputs(k + 1 == choice->n ? "]" : "", to);
            }
        }
        fputc('}', to);
    }
    fputs("]}", to);
}

void describe(const Options *options, const Session *session, FILE *to)
{
    size_t n = 0;
    if (options->json) {
        name_json(to, "{", "file", options->path);
        fputs(", \"kernels\": [", to);
    }
    for (size_t i = 0; i < tessera_program_kernels(session->program); i++) {
        const TesseraSignature *kernel = tessera_program_kernel(session->program, i);
        if (session->signature && session->signature != kernel) {
            continue;
        }
        if (options->json) {
            fputs(n++ ? ", " : "", to);
            kernel_json(to, kernel);
        } else {
            show_kernel(to, kernel);
        }
    }
    fputs(options->json ? "]}\n" : "", to);
}
