/* SPDX-License-Identifier: Apache-2.0 */
/* The value of a tile's padding, its elements past the end of a ragged axis. */
#ifndef TESSERA_PASSES_ANALYSIS_PADDING_VALUE_H
#define TESSERA_PASSES_ANALYSIS_PADDING_VALUE_H

#include "ir/interp/interp.h"

/* True when every padding element along `axis` is known to hold `*out`. A guarded load holds its
 * own value, a mask its own, and what is computed from known padding is known. One case goes
 * further: in x - w, where x is masked with -inf and w is a row's value that is at least its
 * greatest x or never -inf, the padding is -inf wherever the row's own elements are not all NaN. */
bool padding_value(Func *func, const Value *value, int axis, Scalar *out);

#endif
