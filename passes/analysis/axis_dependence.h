/* SPDX-License-Identifier: Apache-2.0 */
/* Along which axes the elements of an array of the tensor level differ, one bit per axis. */
#ifndef TESSERA_PASSES_ANALYSIS_AXIS_DEPENDENCE_H
#define TESSERA_PASSES_ANALYSIS_AXIS_DEPENDENCE_H

#include "ir/memo.h"

/* `memo`: of this question alone; NULL: the value is asked about once. */
unsigned an_varies(Memo *memo, const Value *value);
/* A memo that knows the answer for all values that there are. */
Memo *an_varies_all(Func *func);
unsigned an_all_axes(Type type);
/* The operand's axes as those of the result of an op that moves axes; new and stretched ones are
 * none of them. */
unsigned an_axes_moved(const Op *op, unsigned inner);

/* True if the value is computed from places, sizes and numbers alone. `memo`: of this question. */
bool an_is_of_places(Memo *memo, const Value *value);

#endif
