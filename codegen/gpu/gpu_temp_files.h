/* SPDX-License-Identifier: Apache-2.0 */
/* A temporary folder with an input and an output file, for the linker and other programs that
 * accept only files. */
#ifndef TESSERA_CODEGEN_GPU_GPU_TEMP_FILES_H
#define TESSERA_CODEGEN_GPU_GPU_TEMP_FILES_H

#include "codegen/codegen.h"

#define GPU_FILE_IN "in"
#define GPU_FILE_OUT "out"

/* A new folder in $TMPDIR; NULL after a diagnostic. */
const char *gpu_folder(Func *func);
char *gpu_file(Func *func, const char *folder, const char *name);
void gpu_folder_remove(Func *func, const char *folder);
/* False after a diagnostic. */
bool gpu_file_write(Func *func, const char *path, const Code *code);
/* False when it cannot be read. The bytes are followed by a zero. */
bool gpu_file_read(Func *func, const char *path, Code *code);

#endif
