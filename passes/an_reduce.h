/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the functions that reduce. */
#ifndef TESSERA_PASSES_AN_REDUCE_H
#define TESSERA_PASSES_AN_REDUCE_H

#include "ir/ir.h"

/* What leaves the result as it is: sum 0, prod 1, max -inf or the least, min inf or the most. */
double reduce_neutral(const char *fn, DType dtype, int64_t *integer);

#endif
