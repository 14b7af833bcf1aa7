/* SPDX-License-Identifier: Apache-2.0 */
/* Reads IR text, runs passes, verifies and prints: the tool for the text tests of the passes.
 *
 *     tessera-opt [--target NAME] [--pass NAME]… [--set KEY[.SUB]=VALUE]… [FILE | -]
 *
 * Without --pass it only parses, verifies and prints. The exit code is 1 after a diagnostic. */
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "ir/text/ir_text.h"
#include "ir/verify/verify.h"
#include "passes/pass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 32 };

typedef struct Options {
    const char *target, *file;
    const char *passes[MAX_NAMES], *lines[MAX_NAMES];
    int n_passes, n_lines;
} Options;

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

static int complain(const char *what, const char *name)
{
    fprintf(stderr, "tessera-opt: %s %s\n", what, name);
    return 1;
}

static int finish(const Diags *diags, Arena *arena, int status)
{
    Text text = text_new(arena);
    diags_render(diags, &text);
    fputs(text.data ? text.data : "", stderr);
    return diags->errors > 0 ? 1 : status;
}

/* KEY[.SUB]=VALUE */
static bool give_line(Func *func, const char *line)
{
    const char *equals = strchr(line, '=');
    if (!equals) {
        return false;
    }
    char *key = arena_strndup(func->arena, line, (size_t)(equals - line));
    char *dot = strchr(key, '.');
    if (dot) {
        *dot = '\0';
    }
    char *end;
    long long number = strtoll(equals + 1, &end, 10);
    const char *word = *end ? equals + 1 : NULL;
    schedule_add_user(func, (ScheduleEntry){.key = key,
                                            .sub = dot ? dot + 1 : "",
                                            .symbol = word,
                                            .number = number,
                                            .origin = ENTRY_COMMAND,
                                            .span = SPAN_NONE});
    return schedule_key(key) != NULL;
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

static bool verified(Func *func, Arena *arena, const char *when)
{
    Text problems = text_new(arena);
    if (verify_func(func, &problems) == 0) {
        return true;
    }
    fprintf(stderr, "invalid IR %s:\n%s\n", when, problems.data);
    return false;
}

static int run_passes(Func *func, Arena *arena, const Options *options)
{
    for (int i = 0; i < options->n_passes; i++) {
        const Pass *pass = find_pass(options->passes[i]);
        if (!pass) {
            return complain("no pass", options->passes[i]);
        }
        func->diags->pass = pass->name;
        pass->run(func);
        if (func->diags->errors > 0) {
            return 1;
        }
        if (!verified(func, arena, pass->name)) {
            return 1;
        }
    }
    return 0;
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
        if (!func->target) {
            return complain("no target", options->target);
        }
    }
    for (int i = 0; i < options->n_lines; i++) {
        if (!give_line(func, options->lines[i])) {
            return complain("no schedule line", options->lines[i]);
        }
    }
    int status = run_passes(func, arena, options);
    Text out = text_new(arena);
    print_func(func, &out);
    fputs(out.data, stdout);
    return status;
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
    Options options = {.file = "-"};
    const char *value;
    for (int at = 1; at < argc; at++) {
        if (take(argc, argv, &at, "--target", &value)) {
            options.target = value;
        } else if (take(argc, argv, &at, "--pass", &value) && options.n_passes < MAX_NAMES) {
            options.passes[options.n_passes++] = value;
        } else if (take(argc, argv, &at, "--set", &value) && options.n_lines < MAX_NAMES) {
            options.lines[options.n_lines++] = value;
        } else {
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
