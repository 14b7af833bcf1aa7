/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/shared/ir_tool.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "ir/text/ir_text.h"
#include "ir/verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *tool_read(Arena *arena, const char *path, size_t *n)
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

int tool_complain(const char *tool, const char *what, const char *name)
{
    fprintf(stderr, "%s: %s %s\n", tool, what, name);
    return 1;
}

static bool verified(Func *func, const char *when)
{
    Text problems = text_new(func->arena);
    if (verify_func(func, &problems) == 0) {
        return true;
    }
    fprintf(stderr, "invalid IR %s:\n%s\n", when, problems.data);
    return false;
}

Func *tool_read_func(const char *tool, Diags *diags, const char *path, const char *target)
{
    Arena *arena = diags->arena;
    size_t n;
    char *text = tool_read(arena, path, &n);
    if (!text) {
        (void)tool_complain(tool, "cannot read", path);
        return NULL;
    }
    Func *func = parse_func(arena, diags, diags_add_source(diags, path, text, n));
    if (!func || !verified(func, "as given")) {
        return NULL;
    }
    if (target) {
        func->target = target_find(target);
        if (!func->target) {
            (void)tool_complain(tool, "no target", target);
            return NULL;
        }
    }
    return func;
}

bool tool_add_entry(Func *func, const char *text)
{
    const char *equals = strchr(text, '=');
    if (!equals) {
        return false;
    }
    char *key = arena_strndup(func->arena, text, (size_t)(equals - text));
    char *dot = strchr(key, '.');
    if (dot) {
        *dot = '\0';
    }
    char *end;
    long long number = strtoll(equals + 1, &end, 10);
    const char *symbol = *end ? equals + 1 : NULL;
    schedule_add_user(func, (ScheduleEntry){.key = key,
                                            .sub = dot ? dot + 1 : "",
                                            .symbol = symbol,
                                            .number = number,
                                            .origin = ENTRY_COMMAND,
                                            .span = SPAN_NONE});
    return schedule_key(key) != NULL;
}

static bool run_pass(Func *func, const Pass *pass)
{
    func->diags->pass = pass->name;
    pass->run(func);
    return func->diags->errors == 0 && verified(func, pass->name);
}

int tool_run_passes(const char *tool, Func *func, const char *const *names, int n)
{
    size_t n_rows;
    const Pass *rows = pass_rows(&n_rows);
    bool all = n == 1 && text_equal(names[0], "all");
    for (size_t i = 0; all && i < n_rows; i++) {
        if (!run_pass(func, &rows[i])) {
            return 1;
        }
    }
    for (int i = 0; !all && i < n; i++) {
        size_t row = 0;
        while (row < n_rows && !text_equal(rows[row].name, names[i])) {
            row++;
        }
        if (row == n_rows) {
            return tool_complain(tool, "no pass", names[i]);
        }
        if (!run_pass(func, &rows[row])) {
            return 1;
        }
    }
    return 0;
}

bool tool_take(int argc, char **argv, int *at, const char *name, const char **value)
{
    if (!text_equal(argv[*at], name) || *at + 1 >= argc) {
        return false;
    }
    *value = argv[++*at];
    return true;
}

int tool_main(int (*process)(Diags *diags, const void *options), const void *options)
{
    Arena arena;
    Diags diags;
    jmp_buf out_of_memory, bug;
    volatile int status = 2; /* kept across the jumps */
    arena_init(&arena, allocator_default());
    diags_init(&diags, &arena);
    arena.guard = &out_of_memory;
    diags.bug_guard = &bug;
    if (setjmp(out_of_memory) == 0) {
        if (setjmp(bug) == 0) {
            status = process(&diags, options);
        }
        Text text = text_new(&arena);
        diags_render(&diags, &text);
        fputs(text.data ? text.data : "", stderr);
        status = diags.errors > 0 ? 1 : status;
    }
    arena_free(&arena);
    return status;
}
