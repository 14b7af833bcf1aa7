/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks for walks that recurse as deep as a program is long. */
#ifndef TESSERA_SUPPORT_DEEP_STACK_H
#define TESSERA_SUPPORT_DEEP_STACK_H

/* Calls `run` on a deep stack and returns when it has returned. That is the stack of a thread which
 * exists for this call, whatever the thread that calls has; a call from such a thread is a plain
 * call. Signals are left to other threads. `run` may not jump out. */
void deep_stack_call(void (*run)(void *user), void *user);

#endif
