/* SPDX-License-Identifier: Apache-2.0 */
/* What a compile worker is asked for, in bytes: the arguments of tessera_compile. The answer is
 * what the cache would store. */
#ifndef TESSERA_RUNTIME_COMPILE_WORKER_REQUEST_H
#define TESSERA_RUNTIME_COMPILE_WORKER_REQUEST_H

#include "runtime/compile/compilation.h"

/* What is to be made. */
typedef struct WorkerRequest {
    const char *build; /* of the library that asks: another one's worker is not used */
    uint64_t kind;     /* EmitKind */
    const char *name, *text;
    uint64_t n;
    TesseraOptions options;
    Imports *imports;
    PinLookup pinned; /* as pins_copy makes it */
} WorkerRequest;

/* In bytes, and back: false where the bytes are no order. The arena holds what it points to. */
void worker_request_write(const WorkerRequest *order, Text *bytes);
bool worker_request_read(Arena *arena, const char *bytes, size_t n, WorkerRequest *order);

#endif
