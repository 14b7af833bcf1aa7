/* SPDX-License-Identifier: Apache-2.0 */
/* Along which axes an array of the tensor stage changes, as bits. */
#ifndef TESSERA_PASSES_ANALYSIS_VARIES_H
#define TESSERA_PASSES_ANALYSIS_VARIES_H

#include "ir/ir.h"

enum { VARIES_DEPTH = 64 }; /* ops between a value and what it is read from */

unsigned an_varies(const Value *value);
unsigned an_all_axes(Type type);
/* The operand's axes as those of the result of an op that moves axes; new and stretched ones are
 * none of them. */
unsigned an_axes_moved(const Op *op, unsigned inner);

#endif
