/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings that only a scheduled program tells: accesses of which no two threads share a
 * transaction, tiles that are mostly padding. Changes nothing; without layouts (CPU) it says
 * nothing. */
#ifndef TESSERA_PASSES_WARN_INEFFICIENCY_H
#define TESSERA_PASSES_WARN_INEFFICIENCY_H

#include "ir/ir.h"

void warn_waste(Func *func);

#endif
