/* SPDX-License-Identifier: Apache-2.0 */
/* f32 dots whose operands are narrower than f32: as loaded, or times a factor that is constant in
 * runs along k (the scale of quantization groups). */
#ifndef TESSERA_PASSES_ANALYSIS_DEQUANT_SCALE_H
#define TESSERA_PASSES_ANALYSIS_DEQUANT_SCALE_H

#include "ir/ir.h"
#include "ir/layout/matrix_instr.h"

typedef struct FactorSide {
    Value *narrow; /* of the operand's axes, but for the permutes on it */
    Value *factor; /* likewise; NULL: none */
    int along_k;   /* which axis of theirs is k */
} FactorSide;

typedef struct ScaledDot {
    FactorSide sides[2];
    int64_t block; /* factors change along k every this many elements; 0: never */
    DType left, right;
} ScaledDot;

/* Is it such a product, and has its target a matrix unit for the narrow types? */
bool an_scaled_dot(const Func *func, const Op *dot, ScaledDot *found);

/* Is it a cast to f32 of a type that a matrix instruction takes instead? */
bool an_is_widened(const Value *value);

/* The type of the elements of an operand, or of its part that is not a factor. */
DType an_narrow_type(const Op *dot, int side);

/* Are both operands rounded to tf32 for it? */
bool an_rounded(const Op *dot);

/* The op that brings an operand of the product, or of the narrow product: a load, or another. */
Op *an_operand_load(const Func *func, const Op *dot, int side);

#endif
