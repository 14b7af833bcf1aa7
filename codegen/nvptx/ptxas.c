/* SPDX-License-Identifier: Apache-2.0 */
/* Finds NVIDIA's assembler `ptxas` and runs it as a child process to turn PTX into machine code.
 * It also reads the assembler's version and its report of registers and spills, which `tessera
 * explain` shows. */
#define _GNU_SOURCE
#include "codegen/nvptx/ptxas.h"

#include "ir/ir_errors.h"
#include "ir/target/target.h"
#include "support/fd_io.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

const char *ptxas_find(Arena *arena)
{
    const char *given = getenv("TESSERA_PTXAS");
    if (given && *given) {
        return can_run(given) ? given : NULL;
    }
    const char *found = search_path(arena);
    return found ? found : search_toolkit(arena);
}

static const char *find_or_tell(Func *func, const CodegenOptions *options)
{
    const char *given = options->ptxas ? options->ptxas : getenv("TESSERA_PTXAS");
    if (given && *given) {
        if (can_run(given)) {
            return given;
        }
        diag_failure_at(func->diags, DIAG_ENVIRONMENT, ERR_NO_PTXAS, SPAN_NONE,
                        "%s is not a program that can be run", given);
        return NULL;
    }
    const char *found = ptxas_find(func->arena);
    if (!found) {
        Diag *diag =
            diag_failure_at(func->diags, DIAG_ENVIRONMENT, ERR_NO_PTXAS, SPAN_NONE,
                            "machine code for %s needs NVIDIA's assembler, and there is no "
                            "ptxas in PATH, $CUDA_HOME or /usr/local/cuda",
                            func->target->name);
        diag_help(func->diags, diag,
                  "name it in $TESSERA_PTXAS, or take PTX: the driver assembles "
                  "it when the kernel is loaded");
    }
    return found;
}

/* ---- the process ---- */

/* The input, the output and the log of ptxas. They are files in memory, so none is left behind. */
typedef struct Files {
    int in, out, log;
} Files;

static bool is_open(const Files *files)
{
    return files->in >= 0 && files->out >= 0 && files->log >= 0;
}

static Files open_files(void)
{
    return (Files){memfd_create("ptx", MFD_CLOEXEC), memfd_create("cubin", MFD_CLOEXEC),
                   memfd_create("log", MFD_CLOEXEC)};
}

static void close_files(const Files *files)
{
    int all[] = {files->in, files->out, files->log};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i] >= 0) {
            close(all[i]);
        }
    }
}

static bool read_all(Arena *arena, int file, Code *code)
{
    struct stat info;
    if (fstat(file, &info) != 0) {
        return false;
    }
    code->n = (size_t)info.st_size;
    code->bytes = arena_alloc(arena, code->n + 1);
    code->bytes[code->n] = '\0';
    return fd_read_first(file, code->bytes, code->n);
}

/* Its exit code; -1 when it could not be started or was killed. */
static int run(const char *program, char *const *arguments, const Files *files)
{
    posix_spawn_file_actions_t actions;
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return -1;
    }
    pid_t process;
    int status = 0;
    bool started = (posix_spawn_file_actions_adddup2(&actions, files->in, files->in) == 0 &&
                    posix_spawn_file_actions_adddup2(&actions, files->out, files->out) == 0 &&
                    posix_spawn_file_actions_adddup2(&actions, files->log, STDOUT_FILENO) == 0 &&
                    posix_spawn_file_actions_adddup2(&actions, files->log, STDERR_FILENO) == 0) &&
                   posix_spawn(&process, program, &actions, NULL, arguments, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    if (!started) {
        return -1;
    }
    while (waitpid(process, &status, 0) < 0) {
        if (errno != EINTR) {
            return -1;
        }
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Its exit code; -1 when it could not be run. */
static int run_on(Func *func, const char *ptxas, int optimize, const Files *files)
{
    Arena *arena = func->arena;
    char *arguments[] = {arena_strdup(arena, ptxas),
                         "-v",
                         arena_printf(arena, "-arch=%s", func->target->cpu),
                         arena_printf(arena, "-O%d", optimize),
                         arena_strdup(arena, "-lineinfo"),
                         arena_printf(arena, "/proc/self/fd/%d", files->in),
                         "-o",
                         arena_printf(arena, "/proc/self/fd/%d", files->out),
                         NULL};
    return run(ptxas, arguments, files);
}

static bool assemble(Func *func, const char *ptxas, int optimize, const Files *files, Code *cubin,
                     Code *info)
{
    int code = run_on(func, ptxas, optimize, files);
    *info = (Code){"", 0};
    bool has_info = read_all(func->arena, files->log, info);
    if (code == 0 && read_all(func->arena, files->out, cubin) && cubin->n > 0) {
        return true;
    }
    if (code < 0 || !has_info) {
        diag_failure(func->diags, DIAG_ENVIRONMENT, "%s could not be run", ptxas);
        return false;
    }
    diag_failure(func->diags, DIAG_INTERNAL, "%s does not take the code of %s: %s", ptxas,
                 func->name, info->bytes);
    return false;
}

bool ptxas_assemble(Func *func, const CodegenOptions *options, const Code *ptx, Code *cubin,
                    Code *info)
{
    const char *ptxas = find_or_tell(func, options);
    if (!ptxas) {
        return false;
    }
    Files files = open_files();
    bool good = is_open(&files) && fd_write(files.in, (ptx)->bytes, (ptx)->n);
    if (!good) {
        diag_failure(func->diags, DIAG_ENVIRONMENT, "no memory for the assembler's files: %s",
                     strerror(errno));
    }
    good = good && assemble(func, ptxas, options->optimize, &files, cubin, info);
    close_files(&files);
    return good;
}

/* "Cuda compilation tools, release 12.8, V12.8.93" */
const char *ptxas_version(Arena *arena, const char *ptxas)
{
    static const char before[] = "release ";
    char *arguments[] = {arena_strdup(arena, ptxas), "--version", NULL};
    Files files = open_files();
    Code info = {"", 0};
    bool good =
        is_open(&files) && run(ptxas, arguments, &files) == 0 && read_all(arena, files.log, &info);
    close_files(&files);
    const char *at = good ? strstr(info.bytes, before) : NULL;
    at = at ? at + sizeof before - 1 : NULL;
    return at ? arena_printf(arena, "%.*s", (int)strspn(at, "0123456789."), at) : NULL;
}

bool ptxas_info(Func *func, const CodegenOptions *options, const Code *ptx, Code *info)
{
    const char *ptxas = options->ptxas ? options->ptxas : ptxas_find(func->arena);
    if (!can_run(ptxas)) {
        return false;
    }
    Files files = open_files();
    bool good = is_open(&files) && fd_write(files.in, (ptx)->bytes, (ptx)->n) &&
                run_on(func, ptxas, options->optimize, &files) == 0 &&
                read_all(func->arena, files.log, info);
    close_files(&files);
    return good;
}
