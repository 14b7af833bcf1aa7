/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of dots that are computed element by element from memory: dequantized weights,
 * activation functions, looked-up or masked elements. */
#ifndef TESSERA_PASSES_ANALYSIS_COMPUTED_OPERAND_H
#define TESSERA_PASSES_ANALYSIS_COMPUTED_OPERAND_H

#include "passes/analysis/code_size.h"

typedef struct ComputedOperand {
    Value *value;        /* what is computed; the dot reads it through moves of axes, upcasts,
                            scales that stay behind the sum, and conditions that bound its loop */
    double instructions; /* of an element */
    double bytes;        /* that are read of memory, of an element */
} ComputedOperand;

/* True if the operand is such a value: of the function's body, made of loads and gathers from
 * memory alone, and with few more elements than what it is made of. */
bool an_computed_operand(const CodeSize *size, const Op *dot, int side, ComputedOperand *found);

#endif
