/* SPDX-License-Identifier: Apache-2.0 */
/* Catches LLVM's fatal errors ("Cannot select", out of memory), which by default end the process.
 * It is written in C++ because the exception that `new` throws must be caught. */
#ifndef TESSERA_CODEGEN_LLVM_LLVM_FATAL_H
#define TESSERA_CODEGEN_LLVM_LLVM_FATAL_H

#ifdef __cplusplus
extern "C" {
#else
#include <stdbool.h>
#endif

typedef enum LlvmEnd {
    LLVM_ENDS_WELL,    /* the body returned */
    LLVM_GAVE_UP,      /* by a fatal error */
    LLVM_OUT_OF_MEMORY /* likewise, because memory ran out */
} LlvmEnd;

enum { LLVM_WORDS = 1000 };

/* Runs body(user), which calls LLVM. After a fatal error within it, control is taken from LLVM as
 * its own CrashRecoveryContext does, by a long jump: its frames are gone without an end. All that
 * the body made with LLVM is abandoned then: it must be neither used nor freed, and leaks. `words`:
 * a buffer of LLVM_WORDS bytes for LLVM's message. */
LlvmEnd llvm_guarded(void (*body)(void *user), void *user, char *words);
/* Once a process, before the first body runs. */
void llvm_catch_fatal_errors(void);

#ifdef __cplusplus
}
#endif

#endif
