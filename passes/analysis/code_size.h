/* SPDX-License-Identifier: Apache-2.0 */
/* How long the machine code of ops is. A tile costs an instruction or several for each register of
 * a thread, since code generation unrolls all of them; code that exceeds the instruction cache is
 * fetched again by every warp that executes it. */
#ifndef TESSERA_PASSES_ANALYSIS_CODE_SIZE_H
#define TESSERA_PASSES_ANALYSIS_CODE_SIZE_H

#include "ir/ir.h"

/* Instructions of a thread for the op, each time it is executed, without the ops in its regions. */
double an_instructions(const Op *op);
/* Estimated bytes of machine code of the op with its regions, and of all ops of a block. */
int64_t an_code_bytes(const Func *func, const Op *op);
int64_t an_block_bytes(const Func *func, const Block *block);

#endif
