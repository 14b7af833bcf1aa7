/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera compile`: writes machine code or IR to a file. The file is replaced only when the
 * compilation has succeeded. */
#include "cli/commands/cmd_functions.h"
#include "cli/options.h"
#include "cli/output_files.h"
#include "cli/session.h"

#include <string.h>

static const struct {
    const char *family, *kind;
} USUAL[] = {{"cpu", "obj"}, {"nvptx", "ptx"}, {"amdgcn", "hsaco"}};

/* True if the row is that of the target, whichever its card is ("sm_90a@h100"). */
static bool is_row_of(const TesseraTarget *row, const char *target)
{
    size_t n = strcspn(target, "@");
    return strlen(row->name) == n && strncmp(row->name, target, n) == 0;
}

static bool makes(TesseraContext *context, const char *target, const char *kind)
{
    const TesseraTarget *row;
    bool found = strcmp(kind, "ir") == 0;
    for (size_t i = 0; (row = tessera_target(context, i)); i++) {
        for (const char *const *k = row->kinds; is_row_of(row, target) && *k; k++) {
            found = found || strcmp(*k, kind) == 0;
        }
    }
    return found;
}

static const char *usual_kind(TesseraContext *context, const char *target)
{
    const TesseraTarget *row;
    for (size_t i = 0; (row = tessera_target(context, i)); i++) {
        for (size_t j = 0; j < sizeof USUAL / sizeof *USUAL; j++) {
            if (is_row_of(row, target) && strcmp(row->family, USUAL[j].family) == 0) {
                return USUAL[j].kind;
            }
        }
    }
    return "ir";
}

static int emit(const Options *options, Session *session, const char *target)
{
    TesseraBytes bytes;
    const char *path = options->outputs.n ? options->outputs.items[0] : NULL;
    const char *kind;
    if (options->emit) {
        kind = options->emit;
    } else if (options->stop_after) {
        kind = "ir";
    } else {
        kind = usual_kind(session->context, target);
    }
    /* A kind that the target has not is the library's to refuse. */
    if (!path &&
        (strcmp(kind, "cubin") == 0 || strcmp(kind, "hsaco") == 0 || strcmp(kind, "obj") == 0) &&
        makes(session->context, target, kind)) {
        return options->emit
                   ? fail_code(FAIL_NO_OUTPUT, TESSERA_USAGE,
                               "%s is no text: say where to with -o FILE (or -o -)", kind)
                   : fail_code(FAIL_NO_OUTPUT, TESSERA_USAGE,
                               "for %s code is made as %s, which is no text: say where to with -o "
                               "FILE, or make text with --emit %s",
                               target, kind, makes(session->context, target, "asm") ? "asm" : "ir");
    }
    if (tessera_kernel_emit(session->kernel, kind, &bytes) != TESSERA_OK) {
        return fail_context(session->context);
    }
    return out_bytes(path ? path : "-", &bytes);
}

/* `-o NAME=FILE` names a result of a run; here it would make a file of a strange name. */
static int check_output(const Options *options)
{
    const char *path = options->outputs.n ? options->outputs.items[0] : "";
    if (options->outputs.n > 1 || options->values.n > 0) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "compile takes one file and one -o; parameters go into --set");
    }
    if (options->json && !options->describe) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "--json requires --describe");
    }
    if (options->dependencies && (!*path || strcmp(path, "-") == 0 || options->describe)) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "-MD needs -o FILE: it names what depends on the sources");
    }
    if (name_before(path, '=')) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "-o %.200s: compiling has one result: -o FILE (or ./%.200s)", path, path);
    }
    return options_make_bundle(options) && !options->describe ? check_bundle(options) : 0;
}

static int described(const Options *options, Session *session)
{
    OutFile out;
    int code = out_open(options->outputs.n ? options->outputs.items[0] : "-", &out);
    if (code == 0) {
        describe(options, session, out.file);
        code = out_close(&out);
    }
    session_close(session);
    return code;
}

int cmd_compile(const Options *options)
{
    Session session;
    TesseraOptions compile;
    int code = check_output(options);
    if (code != 0) {
        return code;
    }
    code = session_open(options, &session);
    if (code == 0 && options->describe) {
        return described(options, &session);
    }
    if (code == 0 && options_make_bundle(options)) {
        code = compile_bundle(options, &session);
        session_close(&session);
        return code;
    }
    if (code == 0) {
        code = session_options(options, &session, NULL, &compile);
    }
    if (code == 0) {
        code = session_compile(options, &session, &compile);
    }
    if (code == 0) {
        const char *target =
            compile.target ? compile.target : tessera_device_info(session.device)->target;
        code = emit(options, &session, target);
    }
    if (code == 0 && options->dependencies) {
        code = write_dependencies(session.program, options->outputs.items[0]);
    }
    session_close(&session);
    return code;
}
