/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces support/deep_stack.c: there is one stack, whose size the linker sets. Where the engine's
 * own stack ends, it traps, and the page starts the program anew. */
#include "support/deep_stack.h"

void deep_stack_call(void (*run)(void *user), void *user)
{
    run(user);
}
