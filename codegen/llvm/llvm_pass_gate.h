/* SPDX-License-Identifier: Apache-2.0 */
/* Disables single passes of LLVM's back ends for one context. It is written in C++ because LLVM-C
 * can disable a pass only for the whole process. */
#ifndef TESSERA_CODEGEN_LLVM_LLVM_PASS_GATE_H
#define TESSERA_CODEGEN_LLVM_LLVM_PASS_GATE_H

#ifdef __cplusplus
extern "C" {
#endif

struct LLVMOpaqueContext; /* what LLVMContextRef points to */
typedef struct LlvmGate LlvmGate;

/* For everything compiled in `context` from now on. `passes` end with NULL, are named as in
 * `llc -opt-disable=`, and stay the caller's. NULL: out of memory. */
LlvmGate *llvm_gate_new(struct LLVMOpaqueContext *context, const char *const *passes);
/* After its context is disposed of. */
void llvm_gate_free(LlvmGate *gate);

#ifdef __cplusplus
}
#endif

#endif
