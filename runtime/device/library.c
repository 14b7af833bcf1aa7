/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/library.h"

#include <dlfcn.h>
#include <string.h>

void *library_open(const char *const *names, const char *what, DeviceError *error)
{
    const char *first = NULL;
    char words[512] = "";
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library) {
            return library;
        }
        const char *why = dlerror();
        if (!first && why) {
            first = strncpy(words, why, sizeof words - 1);
        }
    }
    device_fail(error, DIAG_ENVIRONMENT, 0, "no %s: %s", what, words);
    return NULL;
}

bool library_bind(void *library, const char *what, const LibrarySymbol *symbols, size_t n,
                  void *table, DeviceError *error)
{
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found && symbols[i].need == SYMBOL_REQUIRED) {
            return device_fail(error, DIAG_ENVIRONMENT, 0, "the %s has no %s: it is too old", what,
                               symbols[i].name);
        }
        memcpy((char *)table + symbols[i].offset, &found, sizeof found);
    }
    return true;
}
