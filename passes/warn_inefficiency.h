/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings that need the scheduled program: accesses of which no two lanes share a sector of
 * memory, and tiles that are mostly padding. Without layouts (on a CPU) there are none. */
#ifndef TESSERA_PASSES_WARN_INEFFICIENCY_H
#define TESSERA_PASSES_WARN_INEFFICIENCY_H

#include "ir/ir.h"

void warn_waste(Func *func);

#endif
