/* SPDX-License-Identifier: Apache-2.0 */
/* Aliases of the caller's tensors in which an axis is split into groups and the elements of a
 * group. */
#ifndef TESSERA_PASSES_TENSOR_SPLIT_READS_H
#define TESSERA_PASSES_TENSOR_SPLIT_READS_H

#include "ir/build.h"

/* Is the tensor one of the caller's that may have aliases: contiguous, with its own axes? */
bool split_can_alias(const Func *func, const Value *tensor);
/* The type of an alias with these axes. */
Type split_type(Func *func, const Value *tensor, int rank, const Dim *dims);
/* Lets gathers that read inputs, or what is stored before, by groups read aliases. */
void split_reads(Func *func);
/* The same for gathers of what is loaded whole from scratch memory, which read it themselves.
 * False: there were none. */
bool split_scratch_reads(Func *func);
/* Lets a scatter that writes all of a result by groups store to an alias; false: it writes
 * otherwise. */
bool split_write(Func *func, Op *scatter);
/* The same for all results that no product is part of (split_axes.c); false: there were none. */
bool split_writes(Func *func);

#endif
