/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_PASSES_OPERANDS_REPACK_STORE_H
#define TESSERA_PASSES_OPERANDS_REPACK_STORE_H

#include "ir/build.h"

/* Stores the value to a new intermediate whose rows are padded to whole cache lines, by a launch of
 * its own (ATTR_REPACKED). Returns the intermediate. */
Value *repack_store(Builder *b, Value *value);

#endif
