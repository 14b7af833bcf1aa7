/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of vectorize. */
#ifndef TESSERA_PASSES_LAYOUT_VECTORIZE_H
#define TESSERA_PASSES_LAYOUT_VECTORIZE_H

#include "ir/ir.h"

/* Marks the loads of fields that one access of a thread can make (ATTR_RECORD). */
void vectorize_records(Func *func);

#endif
