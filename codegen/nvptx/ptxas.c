/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/nvptx/ptxas.h"

#include "codegen/gpu/files.h"
#include "ir/target.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
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
        diag_help(func->diags, diag, "name it in $TESSERA_PTXAS, or take PTX: the driver assembles "
                                     "it when the kernel is loaded");
    }
    return found;
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

static bool assemble(Func *func, const char *ptxas, int optimize, const char *folder, Code *cubin)
{
    char *in = gpu_file(func, folder, GPU_FILE_IN), *out = gpu_file(func, folder, GPU_FILE_OUT);
    char *log = gpu_file(func, folder, GPU_FILE_LOG);
    char *arguments[] = {arena_strdup(func->arena, ptxas),
                         arena_printf(func->arena, "-arch=%s", func->target->cpu),
                         arena_printf(func->arena, "-O%d", optimize),
                         in,
                         "-o",
                         out,
                         NULL};
    int code = run(ptxas, arguments, log);
    if (code == 0 && gpu_file_read(func, out, cubin)) {
        return true;
    }
    Code said = {"", 0};
    if (code < 0 || !gpu_file_read(func, log, &said)) {
        diag_failure(func->diags, DIAG_ENVIRONMENT, "%s could not be run", ptxas);
        return false;
    }
    diag_failure(func->diags, DIAG_INTERNAL, "%s does not take the code of %s: %s", ptxas,
                 func->name, said.bytes);
    return false;
}

bool ptxas_assemble(Func *func, const CodegenOptions *options, const Code *ptx, Code *cubin)
{
    const char *ptxas = find_ptxas(func, options);
    const char *folder = ptxas ? gpu_folder(func) : NULL;
    if (!folder) {
        return false;
    }
    bool good = gpu_file_write(func, gpu_file(func, folder, GPU_FILE_IN), ptx)
                && assemble(func, ptxas, options->optimize, folder, cubin);
    gpu_folder_remove(func, folder);
    return good;
}
