/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ops (ir/ops.def) and questions that it answers. */
#include "ir/ir.h"

#include <string.h>

enum {
    ELEMENTWISE = TRAIT_ELEMENTWISE,
    PURE = TRAIT_PURE,
    ACCESS = TRAIT_ACCESS,
    REGION = TRAIT_REGION,
    TERMINATOR = TRAIT_TERMINATOR,
    APPROX = TRAIT_APPROX,
    ASYNC = TRAIT_ASYNC,
    T = LEVEL_TENSOR,
    L = LEVEL_LOOP,
    S = LEVEL_STAGED,
    TL = T | L,
    LS = L | S,
    TLS = T | L | S,
    V = VARIES,
};

static const OpInfo op_table[OP_COUNT] = {
#define OP(id, name, operands, results, traits, levels, axes, doc)                                 \
    {name, operands, results, traits, levels, AXES_##axes, doc},
#include "ir/ops.def"
#undef OP
};

const OpInfo *op_info(OpKind kind)
{
    return &op_table[kind];
}

bool op_has(const Op *op, OpTrait trait)
{
    op_visited(op);
    return (op_table[op->kind].traits & trait) != 0;
}

bool op_has_exact_operand(OpKind kind)
{
    return (op_info(kind)->traits & TRAIT_APPROX) && op_info(kind)->operands == 2;
}

const NamedFunction *named_function(const char *name)
{
    static const NamedFunction rows[] = {
#define NAMED(name, share, near) {#name, share, near},
#include "ir/named_functions.def"
#undef NAMED
    };
    for (size_t i = 0; name && i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

bool op_from_name(const char *name, size_t n, OpKind *out)
{
    for (int i = 0; i < OP_COUNT; i++) {
        if (strlen(op_table[i].name) == n && memcmp(op_table[i].name, name, n) == 0) {
            *out = (OpKind)i;
            return true;
        }
    }
    return false;
}
