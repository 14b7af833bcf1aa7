/* SPDX-License-Identifier: Apache-2.0 */
/* The registers and accesses of a thread for a tile. Private to the estimates of code length
 * (code_size.h). */
#ifndef TESSERA_PASSES_ANALYSIS_CODE_REGISTERS_H
#define TESSERA_PASSES_ANALYSIS_CODE_REGISTERS_H

#include "ir/layout/layout.h"
#include "passes/analysis/code_size.h"

/* Registers that hold different elements of a tile; the same if it varies along these axes only. */
double code_registers(Type type);
double code_registers_along(Type type, unsigned axes);
/* Halves of 32 bits that an element takes. */
double code_words(Type type);
/* Elements that one access moves to or from shared memory. */
double code_shared_vector(const Func *func, Type type);
/* The bits of a layout's part that move along an axis. */
int code_bits_along(const Layout *layout, LayoutIn part, int axis);

/* True if it is a loop; NULL is none. */
bool code_is_loop(const Op *op);

/* Of a reduction, scan or fold, in addition to the ops of its region, which are counted once
 * (code_combine.c). */
CodeCounts code_combine_counts(const CodeSize *size, const Op *op);

#endif
