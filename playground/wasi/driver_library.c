/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces runtime/device/driver_library.c: there are no shared libraries, so no driver of one. */
#include "runtime/device/driver_library.h"

void *library_open(const char *const *names, const char *what, DeviceError *error)
{
    (void)names;
    device_fail(error, DIAG_ENVIRONMENT, 0, "no %s: WebAssembly has no shared libraries", what);
    return NULL;
}

void library_describe(const char *const *names, void *library, DeviceProbe *probe)
{
    (void)names, (void)library, (void)probe;
}

bool library_bind(void *library, const char *what, const LibrarySymbol *symbols, size_t n,
                  void *table, DeviceError *error)
{
    (void)library, (void)symbols, (void)n, (void)table;
    return device_fail(error, DIAG_ENVIRONMENT, 0, "the %s has no symbols", what);
}
