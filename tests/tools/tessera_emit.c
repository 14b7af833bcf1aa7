/* SPDX-License-Identifier: Apache-2.0 */
/* Reads IR text, runs passes and generates code: the tool for the text tests of code generation.
 *
 *     tessera-emit [--target NAME] [--pass NAME]… [--emit llvm|ptx|asm|cubin|hsaco|obj]
 *                  [--ptxas PATH] [--plan FILE] [-o FILE] [FILE | -]
 *
 * `--pass all` runs all passes. --plan writes the launch plan as JSON. The exit code is 1 after a
 * diagnostic. */
#include "codegen/codegen.h"
#include "runtime/device/plan_json.h"
#include "tests/tools/shared/ir_tool.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PASSES = 32 };

static const char tool[] = "tessera-emit";

typedef struct Options {
    const char *target, *file, *kind, *ptxas, *plan, *out;
    const char *passes[MAX_PASSES];
    int n_passes;
} Options;

static const struct {
    const char *name;
    EmitKind kind;
} kinds[] = {{"llvm", EMIT_LLVM}, {"ptx", EMIT_PTX},     {"cubin", EMIT_CUBIN},
             {"asm", EMIT_ASM},   {"hsaco", EMIT_HSACO}, {"obj", EMIT_OBJ}};

static bool write_all(const char *path, const char *bytes, size_t n)
{
    FILE *file = path ? fopen(path, "wb") : stdout;
    if (!file) {
        return false;
    }
    bool good = fwrite(bytes, 1, n, file) == n;
    return (file == stdout ? fflush(file) : fclose(file)) == 0 && good;
}

static int generate(Func *func, const Options *options)
{
    CodegenOptions codegen = {.optimize = 3, .ptxas = options->ptxas};
    Code code = {0};
    Plan plan = {0};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (!text_equal(kinds[i].name, options->kind)) {
            continue;
        }
        func->diags->pass = "codegen";
        if (!codegen_emit(func, kinds[i].kind, &codegen, &code, &plan)) {
            return 1;
        }
        Text text = text_new(func->arena);
        plan_json(&plan, &text);
        if (!write_all(options->out, code.bytes, code.n) ||
            (options->plan && !write_all(options->plan, text.data, text.n))) {
            return tool_complain(tool, "cannot write", options->out ? options->out : "the output");
        }
        return 0;
    }
    return tool_complain(tool, "no kind of code", options->kind);
}

static int process(Diags *diags, const void *given)
{
    const Options *options = given;
    Func *func = tool_read_func(tool, diags, options->file, options->target);
    if (!func) {
        return 1;
    }
    if (!func->target) {
        return tool_complain(tool, "no target", "given");
    }
    int status = tool_run_passes(tool, func, options->passes, options->n_passes);
    return status ? status : generate(func, options);
}

int main(int argc, char **argv)
{
    Options options = {.file = "-", .kind = "ptx"};
    const char *value;
    for (int at = 1; at < argc; at++) {
        if (tool_take(argc, argv, &at, "--pass", &value)) {
            if (options.n_passes < MAX_PASSES) {
                options.passes[options.n_passes++] = value;
            }
        } else if (!tool_take(argc, argv, &at, "--target", &options.target) &&
                   !tool_take(argc, argv, &at, "--emit", &options.kind) &&
                   !tool_take(argc, argv, &at, "--ptxas", &options.ptxas) &&
                   !tool_take(argc, argv, &at, "--plan", &options.plan) &&
                   !tool_take(argc, argv, &at, "-o", &options.out)) {
            options.file = argv[at];
        }
    }
    return tool_main(process, &options);
}
