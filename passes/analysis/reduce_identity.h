/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the functions that reduce. */
#ifndef TESSERA_PASSES_ANALYSIS_REDUCE_IDENTITY_H
#define TESSERA_PASSES_ANALYSIS_REDUCE_IDENTITY_H

#include "ir/build.h"

/* What leaves the result as it is: sum 0, prod 1, max -inf or the least, min inf or the most. */
double reduce_neutral(const char *fn, DType dtype, int64_t *integer);
/* A tile of it. */
Value *reduce_neutral_tile(Builder *b, const char *fn, Type type);
/* The op that does to two elements what the function does to many. */
OpKind reduce_combiner(const char *fn);

#endif
