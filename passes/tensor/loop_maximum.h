/* SPDX-License-Identifier: Apache-2.0 */
/* Maxima that a loop over tiles computes. */
#ifndef TESSERA_PASSES_TENSOR_LOOP_MAXIMUM_H
#define TESSERA_PASSES_TENSOR_LOOP_MAXIMUM_H

#include "ir/ir.h"

/* True if `maximum` is what a loop over a whole axis leaves of the greatest elements of its tiles,
 * which are computed as `value` is from tiles of the same axis: no element of `value` is greater,
 * unless one of them is NaN. */
bool is_loop_maximum(const Value *maximum, const Value *value);

#endif
