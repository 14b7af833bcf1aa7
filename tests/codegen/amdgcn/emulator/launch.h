/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: arguments are added one by one, then the kernel runs. main.c and hip.c use it. */
#ifndef TESSERA_TESTS_EMULATOR_LAUNCH_H
#define TESSERA_TESTS_EMULATOR_LAUNCH_H

#include "tests/codegen/amdgcn/emulator/emulator.h"

/* An argument of the next launch. */
void launch_argument(unsigned offset, unsigned size, uint64_t value);
/* The kernel of that symbol, with what was given and the hidden arguments that its metadata asks
 * for. `steps`: instructions that waves executed. */
const Kernel *launch_kernel(const Object *object, const char *symbol, unsigned blocks, int threads,
                            uint64_t *steps);
const Kernel *kernel_named(const Object *object, const char *symbol); /* or NULL */

/* Runs all blocks; how many instructions that were. */
uint64_t launch_grid(const Object *object, const Kernel *kernel, unsigned blocks, int threads,
                     uint64_t kernarg);

#endif
