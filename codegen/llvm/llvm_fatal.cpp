/* SPDX-License-Identifier: Apache-2.0 */
/* Handlers for LLVM's fatal errors. Instead of ending the process, a handler jumps back to the
 * innermost llvm_guarded call of its thread, which reports the reason. */
#include "codegen/llvm/llvm_fatal.h"

#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/PrettyStackTrace.h>

#include <csetjmp>
#include <cstdio>
#include <new>

namespace {

struct Guard {
    std::jmp_buf here;
    Guard *outer;
    char *words;
    LlvmEnd end;
};

thread_local Guard *under_way;

/* Where nothing is under way, as in a thread of LLVM's own, it returns, and LLVM ends the
 * process. */
void leave(LlvmEnd end, const char *reason)
{
    Guard *guard = under_way;
    if (guard) {
        std::snprintf(guard->words, LLVM_WORDS, "%s", reason ? reason : "");
        guard->end = end;
        std::longjmp(guard->here, 1);
    }
}

void give_up(void *, const char *reason, bool)
{
    leave(LLVM_GAVE_UP, reason);
}

void want_memory(void *, const char *reason, bool)
{
    leave(LLVM_OUT_OF_MEMORY, reason);
}

} // namespace

extern "C" void llvm_catch_fatal_errors(void)
{
    llvm::install_fatal_error_handler(give_up);
    llvm::install_bad_alloc_error_handler(want_memory);
}

extern "C" LlvmEnd llvm_guarded(void (*body)(void *user), void *user, char *words)
{
    Guard guard = {};
    const void *stack = llvm::SavePrettyStackState();
    guard.outer = under_way;
    guard.words = words;
    under_way = &guard;
    if (setjmp(guard.here) == 0) {
        try {
            body(user);
        } catch (const std::bad_alloc &) {
            guard.end = LLVM_OUT_OF_MEMORY;
        }
    }
    llvm::RestorePrettyStackState(stack);
    under_way = guard.outer;
    return guard.end;
}
