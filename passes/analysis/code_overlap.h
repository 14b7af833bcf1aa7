/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers whose elements overlap within a thread. Private to the estimates of code length
 * (code_size.h). */
#ifndef TESSERA_PASSES_ANALYSIS_CODE_OVERLAP_H
#define TESSERA_PASSES_ANALYSIS_CODE_OVERLAP_H

#include "passes/analysis/code_size.h"
#include "support/hash_table.h"

/* What an index comes to: base + shift. Between neighbouring elements of its tile the index
 * differs by `stride`, which is NO_STRIDE where it is not known. Equal bases are computed alike. */
typedef struct IndexPlace {
    uint64_t base;
    int64_t shift, stride;
} IndexPlace;

enum { NO_STRIDE = -1 };

typedef struct CodeOverlap {
    Arena *arena;
    const CodeSize *size;
    IndexPlace *places; /* by Value.id */
    HashTable gathers;  /* by memory and bases */
} CodeOverlap;

CodeOverlap code_overlap_new(const Func *func, const CodeSize *size);
/* Records the indices that an op computes. Ops come in program order, numbered (CodeSize.same). */
void code_note_places(CodeOverlap *overlap, const Op *op);
/* The fraction of its elements that a gather loads itself. An earlier gather, shifted along one
 * axis, has loaded the others, because the windows of neighbouring output positions overlap. */
double code_own_load_share(CodeOverlap *overlap, const Op *gather);

#endif
