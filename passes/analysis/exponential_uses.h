/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are used only as arguments of exponentials. */
#ifndef TESSERA_PASSES_ANALYSIS_EXPONENTIAL_USES_H
#define TESSERA_PASSES_ANALYSIS_EXPONENTIAL_USES_H

#include "ir/ir.h"

/* True if all that is made of the value ends as arguments of exponentials: scaled, shifted, masked,
 * or as their maximum on the way. To an exponential an error of its argument counts as such, not as
 * a share of the argument. */
bool an_only_exponentiated(Func *func, const Value *value);

#endif
