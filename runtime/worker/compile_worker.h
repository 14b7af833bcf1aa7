/* SPDX-License-Identifier: Apache-2.0 */
/* The program tessera-worker generates code in a process of its own, which may crash without harm
 * to the caller. */
#ifndef TESSERA_RUNTIME_WORKER_COMPILE_WORKER_H
#define TESSERA_RUNTIME_WORKER_COMPILE_WORKER_H

#include <tessera/tessera.h>

/* The program tessera-worker: one order on standard input, the answer on standard output. Ends with
 * the process `parent`. */
TESSERA_API int tessera_worker(int parent);

#endif
