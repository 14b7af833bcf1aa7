/* SPDX-License-Identifier: Apache-2.0 */
/* Opens libtessera-codegen, which contains LLVM, from the folder of libtessera, and gives its table
 * of functions. The library stays open until the process ends, because LLVM's static objects are
 * constructed once. */
#include "runtime/codegen_loader/codegen_loader.h"

#include "support/shared_object.h"

#include <dlfcn.h>
#include <stdatomic.h>

static const char FILE_NAME[] = "libtessera-codegen.so.0";

/* NULL: not opened yet; another attempt may find it. Threads that open it at once find the same. */
static _Atomic(const CodegenTable *) opened;

static const CodegenTable *open_sibling(Arena *arena, const char **why)
{
    const char *path = object_sibling_path(arena, FILE_NAME, FILE_NAME);
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        *why = path ? arena_strdup(arena, dlerror())
                    : arena_printf(arena, "%s is not next to libtessera", FILE_NAME);
        return NULL;
    }
    const CodegenTable *table = dlsym(library, CODEGEN_TABLE);
    Text build = text_new(arena);
    if (!table || !object_build(table, &build) || !text_equal(build.data, codegen_build_id)) {
        *why = arena_printf(arena, "%s is of another build than libtessera", path);
        dlclose(library);
        return NULL;
    }
    return table;
}

const CodegenTable *codegen_find(Arena *arena, const char **why)
{
    const CodegenTable *table = atomic_load(&opened);
    if (!table) {
        table = open_sibling(arena, why);
        if (table) {
            atomic_store(&opened, table);
        }
    }
    return table;
}

void codegen_use(const CodegenTable *table)
{
    atomic_store(&opened, table);
}

const CodegenTable *codegen_open(Arena *arena, Diags *diags)
{
    const char *why;
    const CodegenTable *table = codegen_find(arena, &why);
    if (!table) {
        Diag *diag = diag_failure(diags, DIAG_ENVIRONMENT, "no machine code can be made: %s", why);
        diag_help(diags, diag,
                  "the two libraries must be in one folder, as they were installed; code that is "
                  "in the cache runs without it");
    }
    return table;
}

CodegenHost codegen_native_cpu(Arena *arena)
{
    CodegenHost host = {.cpu = "", .features = ""};
    const CodegenTable *codegen = codegen_find(arena, &host.why);
    if (codegen) {
        codegen->host_cpu(arena, &host);
    }
    return host;
}
