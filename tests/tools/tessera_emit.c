/* SPDX-License-Identifier: Apache-2.0 */
/* Reads IR text, runs passes and generates code: the tool for the text tests of code generation.
 *
 *     tessera-emit [--target NAME] [--pass NAME]… [--emit llvm|ptx|asm|cubin|hsaco|obj]
 *                  [--ptxas PATH] [--plan FILE] [-o FILE] [FILE | -]
 *
 * `--pass all` runs all passes. --plan writes the launch plan as JSON. The exit code is 1 after a
 * diagnostic. */
#include "codegen/codegen.h"
#include "ir/target/target.h"
#include "ir/text/ir_text.h"
#include "ir/verify/verify.h"
#include "passes/pass.h"
#include "runtime/device/plan_json.h"

#include <stdio.h>
#include <string.h>

enum { MAX_PASSES = 32 };

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

static int complain(const char *what, const char *name)
{
    fprintf(stderr, "tessera-emit: %s %s\n", what, name);
    return 1;
}

static char *read_all(Arena *arena, const char *path, size_t *n)
{
    FILE *file = text_equal(path, "-") ? stdin : fopen(path, "rb");
    Text text = text_new(arena);
    char buffer[4096];
    size_t got;
    while (file && (got = fread(buffer, 1, sizeof buffer, file)) > 0) {
        text_add_n(&text, buffer, got);
    }
    if (file && file != stdin) {
        fclose(file);
    }
    *n = text.n;
    return file ? text.data : NULL;
}

static bool write_all(const char *path, const char *bytes, size_t n)
{
    FILE *file = path ? fopen(path, "wb") : stdout;
    if (!file) {
        return false;
    }
    bool good = fwrite(bytes, 1, n, file) == n;
    return (file == stdout ? fflush(file) : fclose(file)) == 0 && good;
}

/* ---- from text to code ---- */

static bool verified(Func *func, Arena *arena, const char *when)
{
    Text problems = text_new(arena);
    if (verify_func(func, &problems) == 0) {
        return true;
    }
    fprintf(stderr, "invalid IR %s:\n%s\n", when, problems.data);
    return false;
}

static const Pass *find_pass(const char *name)
{
    size_t n;
    const Pass *rows = pass_rows(&n);
    for (size_t i = 0; i < n; i++) {
        if (text_equal(rows[i].name, name)) {
            return &rows[i];
        }
    }
    return NULL;
}

static bool run_pass(Func *func, Arena *arena, const Pass *pass)
{
    func->diags->pass = pass->name;
    pass->run(func);
    return func->diags->errors == 0 && verified(func, arena, pass->name);
}

static int run_all_passes(Func *func, Arena *arena)
{
    size_t n;
    const Pass *rows = pass_rows(&n);
    for (size_t i = 0; i < n; i++) {
        if (!run_pass(func, arena, &rows[i])) {
            return 1;
        }
    }
    return 0;
}

static int run_passes(Func *func, Arena *arena, const Options *options)
{
    if (options->n_passes == 1 && text_equal(options->passes[0], "all")) {
        return run_all_passes(func, arena);
    }
    for (int i = 0; i < options->n_passes; i++) {
        const Pass *pass = find_pass(options->passes[i]);
        if (!pass) {
            return complain("no pass", options->passes[i]);
        }
        if (!run_pass(func, arena, pass)) {
            return 1;
        }
    }
    return 0;
}

static int generate(Func *func, Arena *arena, const Options *options)
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
        Text text = text_new(arena);
        plan_json(&plan, &text);
        if (!write_all(options->out, code.bytes, code.n) ||
            (options->plan && !write_all(options->plan, text.data, text.n))) {
            return complain("cannot write", options->out ? options->out : "the output");
        }
        return 0;
    }
    return complain("no kind of code", options->kind);
}

static int process(Arena *arena, Diags *diags, const Options *options)
{
    size_t n;
    char *text = read_all(arena, options->file, &n);
    if (!text) {
        return complain("cannot read", options->file);
    }
    Func *func = parse_func(arena, diags, diags_add_source(diags, options->file, text, n));
    if (!func || !verified(func, arena, "as given")) {
        return 1;
    }
    if (options->target) {
        func->target = target_find(options->target);
    }
    if (!func->target) {
        return complain("no target", options->target ? options->target : "given");
    }
    int status = run_passes(func, arena, options);
    return status ? status : generate(func, arena, options);
}

static int finish(const Diags *diags, Arena *arena, int status)
{
    Text text = text_new(arena);
    diags_render(diags, &text);
    fputs(text.data ? text.data : "", stderr);
    return diags->errors > 0 ? 1 : status;
}

static bool take(int argc, char **argv, int *at, const char *name, const char **value)
{
    if (!text_equal(argv[*at], name) || *at + 1 >= argc) {
        return false;
    }
    *value = argv[++*at];
    return true;
}

static Options read_options(int argc, char **argv)
{
    Options options = {.file = "-", .kind = "ptx"};
    const char *value;
    for (int at = 1; at < argc; at++) {
        if (take(argc, argv, &at, "--pass", &value)) {
            if (options.n_passes < MAX_PASSES) {
                options.passes[options.n_passes++] = value;
            }
        } else if (!take(argc, argv, &at, "--target", &options.target) &&
                   !take(argc, argv, &at, "--emit", &options.kind) &&
                   !take(argc, argv, &at, "--ptxas", &options.ptxas) &&
                   !take(argc, argv, &at, "--plan", &options.plan) &&
                   !take(argc, argv, &at, "-o", &options.out)) {
            options.file = argv[at];
        }
    }
    return options;
}

int main(int argc, char **argv)
{
    Arena arena;
    Diags diags;
    jmp_buf out_of_memory, bug;
    Options options = read_options(argc, argv);
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    arena.guard = &out_of_memory;
    diags.bug_guard = &bug;
    int status = 2;
    if (setjmp(out_of_memory) == 0) {
        if (setjmp(bug) == 0) {
            status = process(&arena, &diags, &options);
        }
        status = finish(&diags, &arena, status);
    }
    arena_free(&arena);
    return status;
}
