/* SPDX-License-Identifier: Apache-2.0 */
/* Shared libraries, of which WASI has none. */
#ifndef TESSERA_PLAYGROUND_WASI_DLFCN_H
#define TESSERA_PLAYGROUND_WASI_DLFCN_H

#include <stddef.h>

enum { RTLD_LAZY = 1, RTLD_NOW = 2, RTLD_LOCAL = 0 };

static inline void *dlopen(const char *path, int mode)
{
    (void)path, (void)mode;
    return NULL;
}

static inline void *dlsym(void *library, const char *symbol)
{
    (void)library, (void)symbol;
    return NULL;
}

static inline int dlclose(void *library)
{
    (void)library;
    return 0;
}

static inline char *dlerror(void)
{
    return "WebAssembly has no shared libraries";
}

#endif
