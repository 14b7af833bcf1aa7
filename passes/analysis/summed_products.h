/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of products, as the tensor stage has them. */
#ifndef TESSERA_PASSES_ANALYSIS_SUMMED_PRODUCTS_H
#define TESSERA_PASSES_ANALYSIS_SUMMED_PRODUCTS_H

#include "ir/ir.h"

/* Sums of sums of a product, none of which anything else reads; axes numbered as the product's. */
typedef struct SummedProduct {
    Op *last; /* the outermost sum */
    Op *mul;
    unsigned summed;  /* axes of the product */
    unsigned dropped; /* of these, between the sums */
    int rank;
} SummedProduct;

/* False: `sum` is not the outermost one of f32 products. */
bool an_summed_product(Func *func, Op *sum, SummedProduct *found);
/* True for a sum along one axis. */
bool an_is_sum(const Op *op);
/* One step down from the sums to the product: counts the axes of a sum or squeeze. False: it is
 * neither. */
bool an_pass_sum(SummedProduct *found, const Op *op);

#endif
