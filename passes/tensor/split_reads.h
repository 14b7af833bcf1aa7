/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of the caller's once more, with an axis split into groups and the places in a group. */
#ifndef TESSERA_PASSES_TENSOR_SPLIT_READS_H
#define TESSERA_PASSES_TENSOR_SPLIT_READS_H

#include "ir/build.h"

/* Is the tensor one of the caller's that may have aliases: contiguous, with its own axes? */
bool split_can_alias(const Func *func, const Value *tensor);
/* The type of an alias with these axes. */
Type split_type(Func *func, const Value *tensor, int rank, const Dim *dims);
/* Lets gathers that read inputs by groups read aliases. */
void split_reads(Func *func);

#endif
