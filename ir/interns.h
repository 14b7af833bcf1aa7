/* SPDX-License-Identifier: Apache-2.0 */
/* What a function holds once, so that equal means the same pointer. Lists are short (tens of
 * entries), so a search is linear. Only poly.c and ir.c include this. */
#ifndef TESSERA_IR_INTERNS_H
#define TESSERA_IR_INTERNS_H

#include "ir/ir.h"

typedef struct FuncInterns {
    struct {
        Dim *items;
        size_t n, cap;
    } polys;
    struct {
        Type *items;
        size_t n, cap;
    } types;
    struct {
        const Layout **items;
        size_t n, cap;
    } layouts; /* item i has id i */
} FuncInterns;

#endif
