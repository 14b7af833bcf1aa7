/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of the verifier share. Private to the component. */
#ifndef TESSERA_IR_VERIFY_VERIFY_OPS_H
#define TESSERA_IR_VERIFY_VERIFY_OPS_H

#include "ir/ir.h"

typedef struct Verifier {
    Func *func;
    Text *out;
    bool *visible; /* by value id */
    int failures;
    uint32_t *marks; /* by value id: the last search that reached it; NULL: before the first */
    uint32_t search;
    bool extreme; /* the search follows a maximum or minimum (verify_reduced_axis.c) */
} Verifier;

void verify_fail(Verifier *v, const Op *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* True if `word` is in a list that has a blank before and after each word. False for NULL. */
bool verify_is_among(const char *word, const char *list);
/* The rules of one operation. Its operand and result counts are right already. */
void verify_op(Verifier *v, const Op *op);
/* The same for index notation, scans, folds, loops of elements, print (verify_indexed.c). */
void verify_index_op(Verifier *v, const Op *op);
/* The axes of array operand `at` agree with those of a result of type `to` (verify_ops.c). */
void verify_operand_axes(Verifier *v, const Op *op, int at, Type to);
/* The first operands are memory of these kinds, each with its indices (verify_ops.c). */
void verify_kinds(Verifier *v, const Op *op, int n, const TypeKind *kinds);
/* Copies past registers (verify_async.c). */
void verify_copy_load(Verifier *v, const Op *op);
void verify_copy_wait(Verifier *v, const Op *op);
/* How tiles go to blocks; reductions over a cluster (verify_cluster.c). */
void verify_deal(Verifier *v, const Op *tiles);
void verify_cluster_reduce(Verifier *v, const Op *op);
void verify_parts(Verifier *v, const Op *op);
void verify_cluster_scatter(Verifier *v, const Op *op);
/* Reductions run over all of what they name: a tile of it, and loops that carry the rest
 * (verify_reduced_axis.c). */
void verify_over(Verifier *v, const Op *op);
/* The rules on layouts, for functions that have layouts (verify_layout.c). */
void verify_layout(Verifier *v, const Op *op);

#endif
