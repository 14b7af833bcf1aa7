/* SPDX-License-Identifier: Apache-2.0 */
/* `tessera compile --emit bundle`: writes a C header and an object that holds the machine code of
 * all kernels for several targets. */
#include "cli/commands/cmd_functions.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/output_files.h"
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>

/* ---- --variant ---- */

enum { NO_NAME, IS_SIZE, IS_TENSOR, IS_OTHER };

static int kind_in(const TesseraSignature *signature, const char *name)
{
    for (size_t i = 0; i < signature->n_choices; i++) {
        if (strcmp(signature->choices[i].size, name) == 0) {
            return IS_OTHER;
        }
    }
    for (size_t i = 0; i < signature->n_sizes; i++) {
        if (strcmp(signature->sizes[i], name) == 0) {
            return IS_SIZE;
        }
    }
    for (size_t i = 0; i < signature->n_params; i++) {
        if (strcmp(signature->params[i].name, name) == 0 && !signature->params[i].is_const) {
            return IS_TENSOR;
        }
    }
    return NO_NAME;
}

/* The kind of the name in the first kernel that has it; the library refuses a name that no kernel
 * has. */
static int kind_of(const Session *session, const char *name)
{
    int kind = NO_NAME;
    for (size_t i = 0; kind == NO_NAME && i < tessera_program_kernels(session->program); i++) {
        kind = kind_in(tessera_program_kernel(session->program, i), name);
    }
    return kind;
}

static int read_piece(const Session *session, const char *text, Options *variant)
{
    const char *from = text + strspn(text, " ");
    char *name = name_before(from, '=');
    if (!name || from[strlen(name) + 1] == '=') {
        return fact_read("--variant", from, variant);
    }
    switch (kind_of(session, name)) {
    case IS_SIZE: return size_read("--variant", from, variant);
    case IS_TENSOR: return strides_read("--variant", from, variant);
    default: return set_read("--variant", from, variant);
    }
}

static int read_variant(const Session *session, const char *text, Options *variant)
{
    for (const char *at = text; *at;) {
        /* Strides contain commas, so text without a relation belongs to the piece before it. */
        size_t next_comma = strcspn(at, ",");
        while (at[next_comma]) {
            size_t next = strcspn(at + next_comma + 1, ",");
            if (memchr(at + next_comma + 1, '=', next) || memchr(at + next_comma + 1, '<', next) ||
                memchr(at + next_comma + 1, '>', next)) {
                break;
            }
            next_comma += 1 + next;
        }
        size_t n = next_comma;
        int code = n ? read_piece(session, session_text(at, n), variant) : 0;
        if (code != 0) {
            return code;
        }
        at += n + (at[n] != '\0');
    }
    return variant->ranges.n == 0
               ? 0
               : fail_code(FAIL_SIZE, TESSERA_USAGE,
                           "--variant \"%.60s\": a variant has one size, no range", text);
}

static void fill_variant(const Options *options, const Options *variant, TesseraOptions *to)
{
    *to = (TesseraOptions){
        .bindings = variant->sets.items,
        .n_bindings = variant->sets.n,
        .sizes = variant->sizes.items,
        .n_sizes = variant->sizes.n,
        .facts = variant->facts.items,
        .n_facts = variant->facts.n,
        .strides = variant->strides.items,
        .n_strides = variant->strides.n,
        .lines = options->schedule.items,
        .n_lines = options->schedule.n,
        .optimize = options_optimize(options),
        .pins = options->no_pins ? "" : options->pins,
    };
}

static int read_variants(const Options *options, const Session *session, TesseraOptions *to)
{
    Options alone = *options;
    alone.facts.n = alone.sets.n = 0; /* --assume and --set apply to all variants */
    if (options->variants.n == 0) {
        fill_variant(options, &alone, &to[0]);
    }
    for (size_t i = 0; i < options->variants.n; i++) {
        Options variant = {0};
        int code = read_variant(session, options->variants.items[i], &variant);
        if (code != 0) {
            return code;
        }
        fill_variant(options, &variant, &to[i]);
    }
    return 0;
}

/* ---- files ---- */

static bool ends(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

int check_bundle(const Options *options)
{
    const char *path = options->outputs.n ? options->outputs.items[0] : "";
    const char *emit = options->emit ? options->emit : "bundle";
    const char *object = strcmp(emit, "shared") == 0 ? "so" : "o";
    if (strcmp(emit, "bundle") != 0 && strcmp(emit, "shared") != 0) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "several targets and --variant go with --emit bundle or shared, not %s",
                         emit);
    }
    if (options->stop_after) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE, "--stop-after requires --emit ir");
    }
    if (!*path || strcmp(path, "-") == 0 || ends(path, "/") || ends(path, ".o") ||
        ends(path, ".h") || ends(path, ".so")) {
        return fail_code(FAIL_NO_OUTPUT, TESSERA_USAGE,
                         "-o NAME is required: it names the output files NAME.h and NAME.%s",
                         object);
    }
    if (options->variants.n > 0 && (options->sizes.n > 0 || options->strides.n > 0)) {
        return fail_code(FAIL_CONFLICT, TESSERA_USAGE,
                         "with --variant, sizes and strides are given in the variants");
    }
    return 0;
}

static char *join(const char *path, const char *end)
{
    size_t n = strlen(path), m = strlen(end);
    char *joined = session_alloc(n + m + 1);
    memcpy(joined, path, n);
    memcpy(joined + n, end, m);
    return joined;
}

/* The name in C: "my-kernels" becomes my_kernels. */
static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *name = session_text(slash ? slash + 1 : path, strlen(slash ? slash + 1 : path));
    for (char *at = name; *at; at++) {
        *at = *at == '-' || *at == '.' ? '_' : *at;
    }
    return name;
}

static bool put(OutFile *out, const TesseraBytes *bytes)
{
    return fwrite(bytes->data, 1, bytes->n, out->file) == bytes->n && fflush(out->file) == 0;
}

/* Writes both files or none: neither is renamed before both have been written. */
static int write_both(const TesseraBundled *bundled, const char *header, const char *object)
{
    OutFile first, second;
    int code = out_open(header, &first);
    if (code != 0) {
        return code;
    }
    code = out_open(object, &second);
    if (code != 0) {
        out_cancel(&first);
        return code;
    }
    bool good = put(&second, tessera_bundled_object(bundled)) &&
                put(&first, tessera_bundled_header(bundled));
    code = out_close(&second); /* reports the failure */
    if (!good || code != 0) {
        out_cancel(&first);
        return code;
    }
    return out_close(&first);
}

int compile_bundle(const Options *options, Session *session)
{
    InterruptHold hold;
    const char *path = options->outputs.items[0];
    bool shared = options->emit && strcmp(options->emit, "shared") == 0;
    size_t n = options->variants.n ? options->variants.n : 1;
    TesseraOptions *variants = session_alloc(n * sizeof *variants);
    TesseraBundleOptions bundle = {.name = name_of(path),
                                   .kernel = options->kernel,
                                   .targets = options->targets.items,
                                   .n_targets = options->targets.n,
                                   .variants = variants,
                                   .n_variants = n,
                                   .bindings = options->sets.items,
                                   .n_bindings = options->sets.n,
                                   .facts = options->facts.items,
                                   .n_facts = options->facts.n,
                                   .shared = shared};
    TesseraBundled *bundled;
    const char *object = join(path, shared ? ".so" : ".o");
    int code = read_variants(options, session, variants);
    if (code != 0) {
        return code;
    }
    timeout_begin(options);
    if (tessera_bundle(session->program, &bundle, &bundled) != TESSERA_OK) {
        return fail_context(session->context);
    }
    show_diagnostics(session->context);
    interrupts_hold(&hold);
    code = write_both(bundled, join(path, ".h"), object);
    interrupts_release(&hold);
    tessera_bundled_free(bundled);
    return code == 0 && options->dependencies ? write_dependencies(session->program, object) : code;
}
