/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of one element (scalar.c), for the interpreter and for constant folding. */
#ifndef TESSERA_IR_SCALAR_EVAL_H
#define TESSERA_IR_SCALAR_EVAL_H

#include "ir/ir.h"
#include "ir/scalar.h"

/* operands of element type `in` (of the first data operand; cmp and select see their data type),
 * result of type `out`. `pred` for cmp. */
Scalar scalar_op(OpKind kind, const char *pred, DType in, DType out, const Scalar *operands);

#endif
