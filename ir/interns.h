/* SPDX-License-Identifier: Apache-2.0 */
/* What a function interns: one list a kind, searched linearly (they stay short). Room-private. */
#ifndef TESSERA_IR_INTERNS_H
#define TESSERA_IR_INTERNS_H

#include "ir/layout.h"

struct FuncInterns {
    struct { Poly **items; size_t n, cap; } polys;
    struct { TypeData **items; size_t n, cap; } types;
    struct { Layout **items; size_t n, cap; } layouts;
};

#endif
