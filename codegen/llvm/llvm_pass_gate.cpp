/* SPDX-License-Identifier: Apache-2.0 */
/* An LLVM pass gate that disables the passes of a given list. The C interface of LLVM cannot
 * disable a pass of a back end for one context only. */
#include "codegen/llvm/llvm_pass_gate.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/OptBisect.h>

#include <new>

struct LlvmGate final : llvm::OptPassGate {
    explicit LlvmGate(const char *const *passes) : left_out(passes)
    {
    }

    bool isEnabled() const override
    {
        return true;
    }

    bool shouldRunPass(llvm::StringRef pass, llvm::StringRef) const override
    {
        for (const char *const *at = left_out; *at; at++) {
            if (pass == *at) {
                return false;
            }
        }
        return true;
    }

  private:
    const char *const *left_out;
};

extern "C" LlvmGate *llvm_gate_new(struct LLVMOpaqueContext *context, const char *const *passes)
{
    LlvmGate *gate = new (std::nothrow) LlvmGate(passes);
    if (gate) {
        llvm::unwrap(context)->setOptPassGate(*gate);
    }
    return gate;
}

extern "C" void llvm_gate_free(LlvmGate *gate)
{
    delete gate;
}
