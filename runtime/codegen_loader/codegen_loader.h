/* SPDX-License-Identifier: Apache-2.0 */
/* How libtessera gets at the code generator: by the table of functions of libtessera-codegen, which
 * is opened when it is first needed. Only that library defines the functions of
 * codegen/codegen.h. */
#ifndef TESSERA_RUNTIME_CODEGEN_LOADER_CODEGEN_LOADER_H
#define TESSERA_RUNTIME_CODEGEN_LOADER_CODEGEN_LOADER_H

#include "runtime/codegen_loader/codegen_table.h"

/* NULL after a diagnostic. */
const CodegenTable *codegen_open(Arena *arena, Diags *diags);
/* The same without a diagnostic: NULL, and why the library cannot be opened. */
const CodegenTable *codegen_find(Arena *arena, const char **why);
/* The CPU that "native" means; its names are empty where the library cannot be opened. */
CodegenHost codegen_native_cpu(Arena *arena);
/* For a program that is linked with the code generator: nothing is opened. */
void codegen_use(const CodegenTable *table);

/* The build of libtessera-codegen that libtessera was linked after; a file of the build folder
 * (cmake/codegen_build.cmake). The loader refuses a library of another build. It makes libtessera's
 * own digest another one, too, so that one number stands for both in the keys of the cache. */
extern const char codegen_build_id[];

#endif
