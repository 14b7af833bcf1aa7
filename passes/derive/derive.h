/* SPDX-License-Identifier: Apache-2.0 */
/* Reverse-mode derivatives of tensor IR. A sweep over the ops of a block, the last one first, adds
 * to the gradient of each operand what the gradient of the result makes of it. What it builds comes
 * after the ops that it sweeps over, so that all of their values can be read; what is not needed of
 * them is dead afterwards. The result is tensor IR like any other.
 *
 *   %y = mul %x, %w        the gradient g of %y:     %gx = mul %g, %w
 *                                                    %gw = mul %g, %x
 *
 * Gradients of f16, bf16 and 8-bit floats are f32, as all arithmetic on them is. Only values that
 * depend on what is differentiated are looked at; integers and bools have no derivative. */
#ifndef TESSERA_PASSES_DERIVE_DERIVE_H
#define TESSERA_PASSES_DERIVE_DERIVE_H

#include "ir/build.h"

typedef struct Derive Derive;

/* A call of a function whose derivative is declared: the sweep asks for that, instead of looking
 * inside. */
typedef struct DeriveCall {
    Value **results, **args; /* args: arrays and parameters; NULL for what is known now */
    int n_results, n_args;
    const char *name;
    const void *rule; /* of the caller */
} DeriveCall;

typedef struct DeriveRules {
    const DeriveCall *const *calls;
    size_t n_calls;
    /* Builds the gradients of the arguments (NULL: 0), each of its argument's shape, from those of
     * the results (NULL: 0). False after an error. */
    bool (*apply)(void *user, Builder *b, const DeriveCall *call, Value *const *results,
                  Value **args);
    /* The call of these values instead of its own, of the same shape or arrays instead of scalars.
     * It is among the calls of rules that are asked for later. */
    const DeriveCall *(*moved)(void *user, const DeriveCall *call, Value **results, Value **args);
    void *user;
} DeriveRules;

/* Replaces a loop with a known number of steps by its steps; false: there is none. Calls have moved
 * then. */
bool derive_unroll(Func *func, Block *block, const DeriveRules *rules);

/* `block`: whose ops are swept over. New ops come at its end. */
Derive *derive_begin(Func *func, Block *block, const DeriveRules *rules);
/* The ops from this one on are swept over; NULL: those that come. */
void derive_from(Derive *d, const Op *first);
/* The value, or the tensor, is differentiated by. */
void derive_by(Derive *d, const Value *of);
/* The gradient of what is stored to the result, a tensor: that of this parameter; NULL: 1. */
void derive_seed_result(Derive *d, const Value *result, Value *gradient);
/* The gradient of an array; after what is differentiated by is known. */
void derive_seed(Derive *d, Value *of, Value *gradient);
/* Sweeps over the ops that the block has now, or had when the first gradient was given. False
 * after an error. */
bool derive_run(Derive *d);
/* The gradient, an array of the tensor's or value's shape; NULL: it is 0. */
Value *derive_gradient(Derive *d, const Value *of);
/* The element type of the gradients of values of that type. */
DType derive_dtype(DType dtype);
/* The gradient of a value that was broadcast to the gradient's shape. */
Value *derive_sum_to(Builder *b, Value *gradient, Type type);

#endif
