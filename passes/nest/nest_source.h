/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the launches of a kernel as source code, after `tile` has run. */
#ifndef TESSERA_PASSES_NEST_NEST_SOURCE_H
#define TESSERA_PASSES_NEST_NEST_SOURCE_H

#include "ir/ir.h"

typedef struct NestSource {
    Text source;    /* a kernel, or a comment that says why there is none */
    Text schedule;  /* lines of its schedule: steps and what else belongs to launches */
    int n_launches; /* 0: there is no kernel */
} NestSource;

/* A kernel of `parallel … by auto` and `for … by auto`, and a function for each launch that stores
 * intermediates. `facts`: what is known of sizes is the source's own, and is written as
 * `assume`. */
void nest_source(Func *func, bool facts, NestSource *nest);
/* All of it as one text, with what passes after `tile` decided of launches; `func`: once all of
 * them have run. */
void nest_finish(const Func *func, const NestSource *nest, Text *out);

#endif
