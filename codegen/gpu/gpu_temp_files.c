/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary folder with the input and the output file of an external program. The assembler and
 * the linker accept only files, but the rest of code generation works in memory. */
#include "codegen/gpu/gpu_temp_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *gpu_folder(Func *func)
{
    const char *tmp = getenv("TMPDIR");
    tmp = tmp && *tmp ? tmp : "/tmp";
    char *folder = arena_printf(func->arena, "%s/tessera-XXXXXX", tmp);
    if (!mkdtemp(folder)) {
        diag_failure(func->diags, DIAG_ENVIRONMENT, "cannot make a folder in %s: %s", tmp,
                     strerror(errno));
        return NULL;
    }
    return folder;
}

char *gpu_file(Func *func, const char *folder, const char *name)
{
    return arena_printf(func->arena, "%s/%s", folder, name);
}

void gpu_folder_remove(Func *func, const char *folder)
{
    unlink(gpu_file(func, folder, GPU_FILE_IN));
    unlink(gpu_file(func, folder, GPU_FILE_OUT));
    rmdir(folder);
}

bool gpu_file_write(Func *func, const char *path, const Code *code)
{
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(code->bytes, 1, code->n, file) == code->n;
    good = (file && fclose(file) == 0) && good;
    if (!good) {
        diag_failure(func->diags, DIAG_ENVIRONMENT, "cannot write %s: %s", path, strerror(errno));
    }
    return good;
}

bool gpu_file_read(Func *func, const char *path, Code *code)
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
        code->bytes = arena_alloc(func->arena, code->n + 1);
        good = fread(code->bytes, 1, code->n, file) == code->n;
    }
    fclose(file);
    return good;
}
