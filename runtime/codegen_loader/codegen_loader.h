/* SPDX-License-Identifier: Apache-2.0 */
/* The build identification of libtessera-codegen. The loader refuses a library of another build. */
#ifndef TESSERA_RUNTIME_CODEGEN_LOADER_CODEGEN_LOADER_H
#define TESSERA_RUNTIME_CODEGEN_LOADER_CODEGEN_LOADER_H

/* The build of libtessera-codegen that libtessera was linked after; a file of the build folder
 * (cmake/codegen_build.cmake). It makes libtessera's own digest another one, too, so that one
 * number stands for both in the keys of the cache. */
extern const char codegen_build_id[];

#endif
