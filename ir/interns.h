/* SPDX-License-Identifier: Apache-2.0 */
/* What a function holds once, so that equal means the same pointer. Only what makes them and what
 * lists them includes this. */
#ifndef TESSERA_IR_INTERNS_H
#define TESSERA_IR_INTERNS_H

#include "ir/ir.h"
#include "support/hash_table.h"

typedef struct FuncInterns {
    HashTable polys, types;
    struct {
        const Layout **items;
        size_t n, cap;
    } layouts; /* item i has id i; there are few, a search is linear */
} FuncInterns;

#endif
