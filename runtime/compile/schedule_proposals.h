/* SPDX-License-Identifier: Apache-2.0 */
/* Proposes values for a tuner to try if the source has no tune block. */
#ifndef TESSERA_RUNTIME_COMPILE_SCHEDULE_PROPOSALS_H
#define TESSERA_RUNTIME_COMPILE_SCHEDULE_PROPOSALS_H

#include "runtime/compile/compilation.h"

/* For each line that the compiler derived, what else it might have been; its own value first. What
 * cannot be is found by compiling it. `threads`: of a CPU. */
void proposals_make(const Compilation *c, int threads, TuneChoices *choices);

#endif
