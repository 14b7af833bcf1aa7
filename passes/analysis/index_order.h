/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the elements of an index array are in ascending order. */
#ifndef TESSERA_PASSES_ANALYSIS_INDEX_ORDER_H
#define TESSERA_PASSES_ANALYSIS_INDEX_ORDER_H

#include "ir/ir.h"

/* True if the integers (or bools) of a value of the tensor level never fall from one element along
 * `axis` to the next: positions, what the program assumes to be sorted, and what is counted from
 * offsets by comparisons with these. */
bool an_never_falls(const Func *func, const Value *value, int axis);

#endif
