/* SPDX-License-Identifier: Apache-2.0 */
/* The interning tables of a function, by which equal types, sizes and names are the same pointer.
 * Only the code that creates or lists them includes this header. */
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

/* A value of the function that no op, block or parameter has yet (block.c). */
Value *value_new(Func *func, Type type, const char *name);

#endif
