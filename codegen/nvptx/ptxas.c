/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/nvptx/ptxas.h"

#include "ir/target.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* ---- where it is ---- */

static bool can_run(const char *path)
{
    return path && access(path, X_OK) == 0;
}

static const char *search_path(Arena *arena)
{
    const char *at = getenv("PATH");
    while (at && *at) {
        size_t n = strcspn(at, ":");
        const char *path = arena_printf(arena, "%.*s/ptxas", (int)n, at);
        if (n && can_run(path)) {
            return path;
        }
        at += n + (at[n] == ':');
    }
    return NULL;
}

static const char *search_toolkit(Arena *arena)
{
    const char *homes[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"), "/usr/local/cuda"};
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        const char *path = homes[i] ? arena_printf(arena, "%s/bin/ptxas", homes[i]) : NULL;
        if (can_run(path)) {
            return path;
        }
    }
    return NULL;
}

static const char *find_ptxas(Func *func, const CodegenOptions *options)
{
    const char *given = options->ptxas ? options->ptxas : getenv("TESSERA_PTXAS");
    if (given && *given) {
        if (can_run(given)) {
            return given;
        }
        diag_failure(func->diags, DIAG_ENVIRONMENT, "%s is not a program that can be run", given);
        return NULL;
    }
    const char *found = search_path(func->arena);
    found = found ? found : search_toolkit(func->arena);
    if (!found) {
        Diag *diag = diag_failure(func->diags, DIAG_ENVIRONMENT,
                                  "machine code for %s needs NVIDIA's assembler, and there is no "
                                  "ptxas in PATH, $CUDA_HOME or /usr/local/cuda",
                                  func->target->name);
        diag_help(func->diags, diag, "name it in $TESSERA_PTXAS, or take PTX: the driver assembles it "
                                     "when the kernel is loaded");
    }
    return found;
}

/* ---- files ---- */

typedef struct Scratch {
    const char *folder, *ptx, *cubin, *log;
} Scratch;

static bool open_scratch(Func *func, Scratch *scratch)
{
    const char *tmp = getenv("TMPDIR");
    char *folder = arena_printf(func->arena, "%s/tessera-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) {
        diag_failure(func->diags, DIAG_ENVIRONMENT, "cannot make a folder in %s: %s",
                     tmp && *tmp ? tmp : "/tmp", strerror(errno));
        return false;
    }
    *scratch = (Scratch){folder, arena_printf(func->arena, "%s/code.ptx", folder),
                         arena_printf(func->arena, "%s/code.cubin", folder),
                         arena_printf(func->arena, "%s/log", folder)};
    return true;
}

static void close_scratch(const Scratch *scratch)
{
    unlink(scratch->ptx);
    unlink(scratch->cubin);
    unlink(scratch->log);
    rmdir(scratch->folder);
}

static bool write_file(Func *func, const char *path, const Code *code)
{
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(code->bytes, 1, code->n, file) == code->n;
    good = (file && fclose(file) == 0) && good;
    if (!good) {
        diag_failure(func->diags, DIAG_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno));
    }
    return good;
}

static bool read_file(Arena *arena, const char *path, Code *code)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        return false;
    }
    bool good = fseek(file, 0, SEEK_END) == 0;
    long n = good ? ftell(file) : -1;
    good = n >= 0 && fseek(file, 0, SEEK_SET) == 0;
    if (good) {
        code->n = (size_t)n;
        code->bytes = arena_alloc(arena, code->n + 1);
        good = fread(code->bytes, 1, code->n, file) == code->n;
    }
    fclose(file);
    return good;
}

/* ---- the process ---- */

/* Its exit code; -1 when it could not be started or was killed. */
static int run(const char *program, char *const *arguments, const char *log)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    pid_t process;
    int status = 0;
    int failed = posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log,
                                                  O_WRONLY | O_CREAT | O_TRUNC, 0600);
    failed = failed ? failed
                    : posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    failed = failed ? failed : posix_spawn(&process, program, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed) {
        return -1;
    }
    while (waitpid(process, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool assemble(Func *func, const char *ptxas, int optimize, const Scratch *scratch, Code *cubin)
{
    char *arguments[] = {arena_strdup(func->arena, ptxas),
                         arena_printf(func->arena, "-arch=%s", func->target->cpu),
                         arena_printf(func->arena, "-O%d", optimize),
                         arena_strdup(func->arena, scratch->ptx),
                         "-o",
                         arena_strdup(func->arena, scratch->cubin),
                         NULL};
    int code = run(ptxas, arguments, scratch->log);
    if (code == 0 && read_file(func->arena, scratch->cubin, cubin)) {
        return true;
    }
    Code said = {"", 0};
    if (code < 0 || !read_file(func->arena, scratch->log, &said)) {
        diag_failure(func->diags, DIAG_ENVIRONMENT, "%s could not be run", ptxas);
        return false;
    }
    diag_failure(func->diags, DIAG_INTERNAL, "%s does not take the code of %s: %s", ptxas, func->name,
                 said.bytes);
    return false;
}

bool ptxas_assemble(Func *func, const CodegenOptions *options, const Code *ptx, Code *cubin)
{
    Scratch scratch;
    const char *ptxas = find_ptxas(func, options);
    if (!ptxas || !open_scratch(func, &scratch)) {
        return false;
    }
    bool good = write_file(func, scratch.ptx, ptx)
                && assemble(func, ptxas, options->optimize, &scratch, cubin);
    close_scratch(&scratch);
    return good;
}
