/* SPDX-License-Identifier: Apache-2.0 */
/* tessera-ptx: executes kernels of a PTX module on this machine. It reads commands from standard
 * input, one per line:
 *
 *   object FILE                         the module's text
 *   buffer NAME in|out BYTES [FILE]     a separate buffer, with poison or the file's bytes
 *   value OFFSET BYTES NUMBER           an argument of the next launch
 *   address OFFSET NAME                 the address of a buffer as an argument
 *   map OFFSET NAME ELEMENT SWIZZLE TF32 RANK WINDOWS DIM… STRIDE… BOX… (LOWER UPPER STEP)…
 *   nothing OFFSET BYTES                in place of a tensor map, for a tensor without elements
 *   shared BYTES CLUSTER                of the next launch
 *   launch SYMBOL BLOCKS THREADS
 *   save NAME FILE
 *
 * The axes of a tensor map are counted from the fastest, strides are in bytes; the box of an
 * im2col map is channels and pixels. The exit status is 1 if a kernel performs an illegal action,
 * 2 if something is not emulated. */
#include "tests/codegen/nvptx/emulator/emulator.h"
#include "tests/codegen/nvptx/emulator/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Module module;
static int shared_bytes, cluster_blocks = 1;

static int64_t next_number(const char **line)
{
    char *end;
    int64_t number = strtoll(*line, &end, 10);
    if (end == *line) {
        fail("a number is missing", "map");
    }
    *line = end;
    return number;
}

static void add_map(unsigned offset, const char *name, const char *rest)
{
    Map map = {.address = buffer_named(name)->address};
    map.element = (int)next_number(&rest);
    map.swizzle = (int)next_number(&rest);
    map.tf32 = next_number(&rest) != 0;
    map.rank = (int)next_number(&rest);
    map.n_windows = (int)next_number(&rest);
    if (map.rank > 5 || map.n_windows > 3) {
        fail("too many axes", "map");
    }
    int64_t *const lists[] = {map.dims, map.strides, map.box};
    for (int list = 0; list < 3; list++) {
        for (int i = 0; i < map.rank; i++) {
            lists[list][i] = next_number(&rest);
        }
    }
    for (int i = 0; i < map.n_windows; i++) {
        map.lower[i] = next_number(&rest);
        map.upper[i] = next_number(&rest);
        map.step[i] = next_number(&rest);
    }
    launch_map(offset, &map);
}

static void launch(const char *symbol, unsigned blocks, int threads)
{
    const Kernel *kernel = kernel_named(&module, symbol);
    if (!kernel) {
        fail("no such kernel", symbol);
    }
    uint64_t steps = launch_kernel(kernel, blocks, threads, shared_bytes, cluster_blocks);
    printf("%s: %" PRIu64 " instructions\n", symbol, steps);
    shared_bytes = 0;
    cluster_blocks = 1;
}

static void step(const char *line)
{
    char name[256], path[4096] = "", io[8];
    uint64_t number;
    unsigned offset, size;
    int threads, rest = 0;
    if (sscanf(line, "object %4095s", path) == 1) {
        module_read(&module, path);
    } else if (sscanf(line, "buffer %63s %7s %" SCNu64 " %4095s", name, io, &number, path) >= 3) {
        buffer_add(name, io, number, path);
    } else if (sscanf(line, "value %u %u %" SCNu64, &offset, &size, &number) == 3 && size <= 8) {
        launch_argument(offset, size, &number);
    } else if (sscanf(line, "address %u %63s", &offset, name) == 2) {
        launch_argument(offset, 8, &buffer_named(name)->address);
    } else if (sscanf(line, "map %u %63s %n", &offset, name, &rest) == 2 && rest) {
        add_map(offset, name, line + rest);
    } else if (sscanf(line, "nothing %u %u", &offset, &size) == 2) {
        uint8_t bytes[MAP_BYTES];
        memset(bytes, 0xff, sizeof bytes);
        launch_argument(offset, size <= MAP_BYTES ? size : MAP_BYTES, bytes);
    } else if (sscanf(line, "shared %d %d", &shared_bytes, &cluster_blocks) == 2) {
        return;
    } else if (sscanf(line, "launch %255s %u %d", name, &offset, &threads) == 3) {
        launch(name, offset, threads);
    } else if (sscanf(line, "save %63s %4095s", name, path) == 2) {
        buffer_save(name, path);
    } else {
        fail("this line says nothing", line);
    }
}

int main(void)
{
    each_line(step);
    return 0;
}
