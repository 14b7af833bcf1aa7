/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_IR_FIX_SIZE_H
#define TESSERA_IR_FIX_SIZE_H

#include "ir/ir.h"

/* Replaces the size by its number everywhere below the caller's types. */
void fix_size(Func *func, const DimVar *var, int64_t value);

#endif
