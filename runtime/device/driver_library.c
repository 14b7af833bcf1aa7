/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the shared library of a driver and fills a table of its functions. If the library or a
 * symbol is missing, the error says which one and why. */
#define _GNU_SOURCE
#include "runtime/device/driver_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

/* No one wonders why a file that is not there cannot be opened. */
static bool is_absence(const char *why, const char *name)
{
    return strncmp(why, name, strlen(name)) == 0 && strstr(why, "No such file");
}

void *library_open(const char *const *names, const char *what, DeviceError *error)
{
    bool wonder = false;
    char words[512] = "";
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library) {
            return library;
        }
        const char *why = dlerror();
        if (why && !wonder) {
            wonder = !is_absence(why, *names);
            snprintf(words, sizeof words, "%s", why);
        }
    }
    device_fail(error, DIAG_ENVIRONMENT, 0, "no %s: %s", what, words);
    return NULL;
}

void library_describe(const char *const *names, void *library, DeviceProbe *probe)
{
    struct link_map *map = NULL;
    for (size_t n = 0; *names && n < sizeof probe->looked_for; names++) {
        snprintf(probe->looked_for + n, sizeof probe->looked_for - n, "%s%s", n ? ", " : "",
                 *names);
        n = strlen(probe->looked_for);
    }
    if (library && dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map) {
        snprintf(probe->library, sizeof probe->library, "%s", map->l_name);
    }
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
