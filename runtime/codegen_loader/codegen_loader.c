/* SPDX-License-Identifier: Apache-2.0 */
/* Implements codegen.h for libtessera: opens libtessera-codegen, which contains LLVM, from the
 * same folder and forwards the calls. The library stays open until the process ends, because
 * LLVM's static objects are constructed once. */
#include "runtime/codegen_loader/codegen_loader.h"

#include "runtime/codegen_loader/codegen_table.h"
#include "support/shared_object.h"

#include <dlfcn.h>
#include <stdatomic.h>

static const char FILE_NAME[] = "libtessera-codegen.so.0";

/* NULL: not opened yet; another attempt may find it. Threads that open it at once find the same. */
static _Atomic(const CodegenTable *) opened;

static const CodegenTable *open_beside(Arena *arena, const char **why)
{
    const char *path = object_beside(arena, FILE_NAME, FILE_NAME);
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        *why = path ? arena_strdup(arena, dlerror())
                    : arena_printf(arena, "%s is not beside libtessera", FILE_NAME);
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

static const CodegenTable *table_get(Arena *arena, const char **why)
{
    const CodegenTable *table = atomic_load(&opened);
    if (!table) {
        table = open_beside(arena, why);
        if (table) {
            atomic_store(&opened, table);
        }
    }
    return table;
}

/* NULL after a diagnostic. */
static const CodegenTable *table_or_say(Arena *arena, Diags *diags)
{
    const char *why;
    const CodegenTable *table = table_get(arena, &why);
    if (!table) {
        Diag *diag = diag_failure(diags, DIAG_ENVIRONMENT, "no machine code can be made: %s", why);
        diag_help(diags, diag,
                  "the two libraries lie in one folder, as they were installed; what is in "
                  "the cache runs without");
    }
    return table;
}

bool codegen_emit(Func *func, EmitKind kind, const CodegenOptions *options, Code *code, Plan *plan)
{
    const CodegenTable *table = table_or_say(func->arena, func->diags);
    return table && table->emit(func, kind, options, code, plan);
}

bool codegen_ptxas_info(Func *func, const CodegenOptions *options, const Code *ptx, Code *said)
{
    const CodegenTable *table = table_or_say(func->arena, func->diags);
    return table && table->assembler_says(func, options, ptx, said);
}

bool codegen_bundle(Arena *arena, Diags *diags, const BundleObject *object, Code *code)
{
    const CodegenTable *table = table_or_say(arena, diags);
    return table && table->bundle(arena, diags, object, code);
}

void codegen_host(Arena *arena, CodegenHost *host)
{
    const char *why;
    const CodegenTable *table = table_get(arena, &why);
    if (table) {
        table->host(arena, host);
    } else {
        *host = (CodegenHost){.cpu = "", .features = "", .why = why};
    }
}

void codegen_host_cpu(Arena *arena, CodegenHost *host)
{
    const char *why;
    const CodegenTable *table = table_get(arena, &why);
    if (table) {
        table->host_cpu(arena, host);
    } else {
        *host = (CodegenHost){.cpu = "", .features = "", .why = why};
    }
}

JitCode *codegen_jit(Func *func, const Code *code, const Plan *plan)
{
    const CodegenTable *table = table_or_say(func->arena, func->diags);
    return table ? table->jit(func, code, plan) : NULL;
}

/* There is code: the library is open. */
void *jit_symbol(JitCode *jit, const char *symbol)
{
    return atomic_load(&opened)->symbol(jit, symbol);
}

void jit_free(JitCode *jit)
{
    if (jit) {
        atomic_load(&opened)->free(jit);
    }
}
