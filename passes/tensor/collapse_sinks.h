/* SPDX-License-Identifier: Apache-2.0 */
/* Ops at which the collapsing of two axes ends. Private to collapse_axes.c and collapse_sinks.c. */
#ifndef TESSERA_PASSES_TENSOR_COLLAPSE_SINKS_H
#define TESSERA_PASSES_TENSOR_COLLAPSE_SINKS_H

#include "passes/tensor/collapse_values.h"

/* An op that ends what is collapsed: a store, a scatter, a reshape that makes the two axes one, or
 * two reductions that become one. */
typedef struct Sink {
    Op *op;    /* the store, the scatter, the reshape (a gather), or the second reduction */
    Op *first; /* the first reduction; NULL: another op */
    int at;    /* the first axis of the pair, of what the op writes or reads, or `first` reduces */
} Sink;

/* A value that has the sink's pair of axes. */
const Value *sink_pair(const Sink *sink);
/* The values that the sink reads, with their pair of axes as one; in a trial, any values. False:
 * that is not possible. */
bool sink_operands(Collapse *f, const Sink *sink, Value **to);
/* The reduced value with the axes of one element that `value` has, which is made of what `first`
 * reduces by ops that add and drop such axes. */
Value *sink_with_unit_axes(Builder *b, const Sink *sink, Value *reduced, const Value *value);
/* Builds the sink anew, of such values, in place of the old one. Returns the op; NULL for a
 * reduction. */
Op *sink_make(Collapse *f, const Sink *sink);

#endif
