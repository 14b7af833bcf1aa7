/* SPDX-License-Identifier: Apache-2.0 */
/* Code generation in a separate process, which may crash without harm to the caller. The request
 * contains the arguments of tessera_compile; the answer is what the cache would store. */
#ifndef TESSERA_RUNTIME_WORKER_COMPILE_WORKER_H
#define TESSERA_RUNTIME_WORKER_COMPILE_WORKER_H

#include "runtime/compile/compilation.h"

/* What is to be made. */
typedef struct WorkerRequest {
    const char *build; /* of the library that asks: another one's worker is not used */
    uint64_t kind;     /* EmitKind */
    const char *name, *text;
    uint64_t n;
    TesseraOptions options;
    Imports *imports;
    PinLookup pinned; /* as pins_again makes it */
} WorkerRequest;

/* In bytes, and back: false where the bytes are no order. The arena holds what it points to. */
void worker_request_write(const WorkerRequest *order, Text *bytes);
bool worker_request_read(Arena *arena, const char *bytes, size_t n, WorkerRequest *order);

/* The program tessera-worker: one order on standard input, the answer on standard output. Ends with
 * the process `parent`. */
TESSERA_API int tessera_worker(int parent);

#endif
