/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules that the compiler derives for kernels whose sizes are given: by the settings, or by
 * a comment right above the kernel, `# tessera: --target sm_90a --size M=4096,N=1024 --set T=bf16`.
 * They take longer than an answer may, so they are derived when nothing else waits. */
#ifndef TESSERA_LSP_SCHEDULES_H
#define TESSERA_LSP_SCHEDULES_H

#include "lsp/server.h"

typedef struct Derived {
    struct Derived *next;
    const char *kernel;
    const char *line;  /* "sm_90a: tile M 1; warps 4" */
    const char *block; /* with reasons */
} Derived;

/* Derives what is wanted and not up to date. It stops when a message comes; true: all is done now,
 * and it was not before. */
bool derive_schedules(Server *server);
void derived_free(Document *document);
/* The kernel's; NULL: its sizes are not given, it cannot be compiled, or it is not derived yet. */
const Derived *derived_find(const Document *document, const char *kernel);

#endif
