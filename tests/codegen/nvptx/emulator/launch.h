/* SPDX-License-Identifier: Apache-2.0 */
/* Launches: arguments are added one by one, then the kernel runs. main.c and cuda.c use it. */
#ifndef TESSERA_TESTS_PTX_LAUNCH_H
#define TESSERA_TESTS_PTX_LAUNCH_H

#include "tests/codegen/nvptx/emulator/emulator.h"

/* Of the next launch. A map has to be one that the driver would take. */
void launch_argument(unsigned offset, unsigned size, const void *bytes);
void launch_map(unsigned offset, const Map *map);

/* The kernel with what was given; how many instructions warps executed. */
uint64_t launch_kernel(const Kernel *kernel, unsigned blocks, int threads, int shared, int cluster);

#endif
