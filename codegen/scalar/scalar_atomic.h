/* SPDX-License-Identifier: Apache-2.0 */
/* The atomic change of one element of memory, for all back ends. Memory order is relaxed, because
 * the end of a launch publishes its stores. */
#ifndef TESSERA_CODEGEN_SCALAR_SCALAR_ATOMIC_H
#define TESSERA_CODEGEN_SCALAR_SCALAR_ATOMIC_H

#include "codegen/llvm/llvm.h"

/* The attribute `fn` of a scatter. */
typedef enum AtomicFn {
    ATOMIC_SET, /* any of several stores to one element wins */
    ATOMIC_XCHG,
    ATOMIC_CAS,
    ATOMIC_ADD,
    ATOMIC_MIN,
    ATOMIC_MAX,
    ATOMIC_AND,
    ATOMIC_OR,
    ATOMIC_XOR,
} AtomicFn;
AtomicFn scalar_atomic_fn(const Llvm *l, const Op *scatter);
/* The op that combines the old element and the value, where the order of changes does not matter;
 * false: set, xchg and cas do not combine. */
bool scalar_atomic_op(AtomicFn fn, OpKind *kind);

/* The values are as they are in registers (bool: i1). */
typedef struct AtomicChange {
    AtomicFn fn;
    DType dtype;
    LLVMValueRef value, compare; /* compare: of cas; else NULL */
    bool float_add;              /* the processor adds f32 and f64 by itself */
} AtomicChange;

/* Returns the old element, as it is in registers. May end in another basic block. */
LLVMValueRef scalar_atomic(Llvm *l, const AtomicChange *change, LLVMValueRef address);

/* A half of a byte, the other one of which others may write at the same time: `shift` is 0 or 4
 * (i8), the value four bits. */
void scalar_store_half(Llvm *l, LLVMValueRef address, LLVMValueRef shift, LLVMValueRef value);
/* The same where others may write the same half, too: one of the values stays. Ends in another
 * basic block. */
void scalar_set_half(Llvm *l, LLVMValueRef address, LLVMValueRef shift, LLVMValueRef value);

#endif
