/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESSERA_TESTS_EMULATOR_LAUNCH_H
#define TESSERA_TESTS_EMULATOR_LAUNCH_H

#include "tests/codegen/amdgcn/emulator/emulator.h"

/* Runs all blocks; how many instructions that were. */
uint64_t launch_grid(const Object *object, const Kernel *kernel, unsigned blocks, int threads,
                     uint64_t kernarg);

#endif
