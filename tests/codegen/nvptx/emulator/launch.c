/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up a launch, and checks its arguments against the kernel's declaration. */
#include "tests/codegen/nvptx/emulator/launch.h"

#include <string.h>

static int args[MAX_PARAMS][2], n_args;

void launch_argument(unsigned offset, unsigned size, const void *bytes)
{
    if (offset + size > sizeof params || n_args == MAX_PARAMS) {
        fail("an argument", "lies too far");
    }
    if (n_args == 0) {
        memset(params, 0xf7, sizeof params);
    }
    memcpy(params + offset, bytes, size);
    args[n_args][0] = (int)offset;
    args[n_args++][1] = (int)size;
}

static void check_map(const Map *map)
{
    int64_t inner = map->box[0] * map->element;
    bool ok = map->address % 16 == 0 && inner % 16 == 0 && (!map->swizzle || inner <= map->swizzle);
    for (int i = 0; i < map->rank; i++) {
        ok = ok && map->dims[i] > 0 && (i == 0 || map->strides[i] % 16 == 0) &&
             (map->n_windows ? i > 1 || map->box[i] > 0 : map->box[i] > 0 && map->box[i] <= 256);
    }
    if (!ok) {
        fail("the driver would refuse it", "a map");
    }
}

void launch_map(unsigned offset, const Map *map)
{
    if (n_maps == MAX_MAPS || map->rank > 5 || map->n_windows > 3) {
        fail("too many maps, or axes of one", "map");
    }
    check_map(map);
    maps[n_maps] = *map;
    uint8_t bytes[MAP_BYTES] = {(uint8_t)n_maps++};
    launch_argument(offset, MAP_BYTES, bytes);
}

static void check_arguments(const Kernel *kernel)
{
    if (kernel->n_params != n_args) {
        fail("it has another number of parameters", kernel->name);
    }
    for (int i = 0; i < n_args; i++) {
        if (kernel->param_offset[i] != args[i][0] || kernel->param_bytes[i] != args[i][1]) {
            fail("it has a parameter elsewhere", kernel->name);
        }
    }
}

uint64_t launch_kernel(const Kernel *kernel, unsigned blocks, int threads, int shared, int cluster)
{
    if (kernel->threads != threads || threads > MAX_WARPS * LANES) {
        fail("it asks for another number of threads", kernel->name);
    }
    if (shared > SHARED_BYTES - SHARED_FIRST) {
        fail("too much shared memory", kernel->name);
    }
    if (blocks % (unsigned)cluster) {
        fail("blocks are not whole clusters", kernel->name);
    }
    check_arguments(kernel);
    for (int i = 0; i < LANES && kernel->nctaid; i++) {
        kernel->rows[kernel->nctaid + i] = blocks;
    }
    uint64_t steps = launch_grid(kernel, blocks, threads, shared, cluster);
    n_args = n_maps = 0;
    return steps;
}
