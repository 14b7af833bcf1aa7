/* SPDX-License-Identifier: Apache-2.0 */
/* Which values a narrower float type represents exactly. */
#ifndef TESSERA_PASSES_ANALYSIS_EXACT_VALUES_H
#define TESSERA_PASSES_ANALYSIS_EXACT_VALUES_H

#include "ir/ir.h"

/* True if a cast to the float type and back changes no element of the value, but for the bits of
 * NaN: small integers, elements that were of that type, and what chooses among such elements,
 * masks them, or changes their sign. */
bool an_exact_in(const Value *value, DType dtype);

#endif
