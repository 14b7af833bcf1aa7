/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the shared library of a driver by name and puts its symbols into a table of function
 * pointers. */
#ifndef TESSERA_RUNTIME_DEVICE_DRIVER_LIBRARY_H
#define TESSERA_RUNTIME_DEVICE_DRIVER_LIBRARY_H

#include "runtime/device/device.h"

typedef enum SymbolNeed { SYMBOL_REQUIRED, SYMBOL_OPTIONAL } SymbolNeed;

typedef struct LibrarySymbol {
    SymbolNeed need;
    const char *name;
    size_t offset; /* of the function pointer in the table */
} LibrarySymbol;

/* Tries the names in order. NULL, with the loader's words, when there is none; `what` names the
 * library to the user. */
void *library_open(const char *const *names, const char *what, DeviceError *error);
/* The names, and where one of them was found: NULL nowhere. */
void library_describe(const char *const *names, void *library, DeviceProbe *probe);
/* False when a required symbol is missing; absent optional ones are NULL. */
bool library_bind(void *library, const char *what, const LibrarySymbol *symbols, size_t n,
                  void *table, DeviceError *error);

#endif
