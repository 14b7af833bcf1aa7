/* SPDX-License-Identifier: Apache-2.0 */
/* Runs only the front end, for its text tests and for fuzzing:
 *
 *     tessera-front FILE [--kernel NAME] [--target NAME] [--quiet] [NAME=VALUE]…
 *
 * It prints the verified IR of the tensor level. The exit code is 1 after errors in the source, 2
 * after wrong usage, 70 after an internal error. */
#include "frontend/frontend.h"
#include "ir/schedule.h"
#include "ir/text/ir_text.h"

#include <stdio.h>
#include <string.h>

enum { MAX_BINDINGS = 32 };

typedef struct Options {
    const char *file, *kernel, *target;
    Binding bindings[MAX_BINDINGS];
    size_t n;
    bool quiet;
} Options;

static bool read_file(const char *path, Text *text)
{
    FILE *file = fopen(path, "rb");
    char buffer[4096];
    size_t n;
    if (!file) {
        return false;
    }
    while ((n = fread(buffer, 1, sizeof buffer, file)) > 0) {
        text_add_n(text, buffer, n);
    }
    fclose(file);
    return true;
}

static Options read_options(Arena *arena, int argc, char **argv)
{
    Options options = {0};
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        if (text_equal(argv[i], "--quiet")) {
            options.quiet = true;
        } else if (i + 1 < argc && text_equal(argv[i], "--kernel")) {
            options.kernel = argv[++i];
        } else if (i + 1 < argc && text_equal(argv[i], "--target")) {
            options.target = argv[++i];
        } else if (equals && options.n < MAX_BINDINGS) {
            const char *name = arena_strndup(arena, argv[i], (size_t)(equals - argv[i]));
            options.bindings[options.n++] = (Binding){name, equals + 1};
        } else {
            options.file = argv[i];
        }
    }
    return options;
}

static void dump_kernel(Module *module, const KernelSignature *kernel, const Options *options,
                        Text *out)
{
    Func *func = frontend_lower(module, kernel, options->bindings, options->n);
    bool good = func && frontend_schedule(module, kernel, func, options->target, NULL, NULL);
    if (good && !options->quiet) {
        print_func(func, out);
    }
}

/* One kernel, or with --quiet all of them. */
static void dump(Arena *arena, Diags *diags, int source, const Options *options, Text *out)
{
    Module *module = frontend_parse(arena, diags, source, NULL);
    if (!module) {
        return;
    }
    if (options->quiet) {
        for (size_t i = 0; i < frontend_kernel_count(module); i++) {
            dump_kernel(module, frontend_kernel(module, i), options, out);
        }
        return;
    }
    const KernelSignature *kernel = frontend_find(module, options->kernel);
    if (kernel) {
        dump_kernel(module, kernel, options, out);
    }
}

static int status(const Diags *diags)
{
    int worst = 0;
    for (size_t i = 0; i < diags->list.n; i++) {
        const Diag *diag = &diags->list.items[i];
        if (diag->kind == DIAG_INTERNAL) {
            return 70;
        }
        if (diag->severity == SEVERITY_ERROR && worst != 1) {
            worst = diag->kind == DIAG_USAGE ? 2 : 1;
        }
    }
    return worst;
}

int main(int argc, char **argv)
{
    Arena arena;
    Diags diags;
    jmp_buf guard;
    arena_init(&arena, allocator_default());
    arena.guard = &guard;
    diags_init(&diags, &arena);
    diags.bug_guard = &guard;
    Options options = read_options(&arena, argc, argv);
    Text text = text_new(&arena), out = text_new(&arena);
    if (!options.file || !read_file(options.file, &text)) {
        fprintf(stderr, "tessera-front: cannot read the file\n");
        return 3;
    }
    if (setjmp(guard) == 0) {
        int source = diags_add_source(&diags, options.file, text.data, text.n);
        dump(&arena, &diags, source, &options, &out);
        fwrite(out.data, 1, out.n, stdout);
    }
    Text errors = text_new(&arena);
    diags_render(&diags, &errors);
    fwrite(errors.data, 1, errors.n, stderr);
    int code = status(&diags);
    arena_free(&arena);
    return code;
}
