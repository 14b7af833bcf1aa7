/* SPDX-License-Identifier: Apache-2.0 */
/* tessera-amdgcn: executes kernels of an AMD code object on this machine. It reads commands from
 * standard input, one per line:
 *
 *   object FILE
 *   buffer NAME in|out BYTES [FILE]     a separate buffer, with poison or the file's bytes
 *   value OFFSET BYTES NUMBER           an argument of the next launch
 *   address OFFSET NAME                 the address of a buffer as an argument
 *   launch SYMBOL BLOCKS THREADS        with these arguments, and the metadata's hidden ones
 *   save NAME FILE
 *
 * tessera-amdgcn --decode FILE… only disassembles code objects. The exit status is 1 if a kernel
 * performs an illegal action, 2 if something is not emulated. */
#include "tests/codegen/amdgcn/emulator/emulator.h"
#include "tests/codegen/amdgcn/emulator/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Object object;

static void step(const char *line)
{
    char name[256], path[4096] = "", io[8];
    uint64_t number, steps;
    unsigned offset, size;
    int threads;
    if (sscanf(line, "object %4095s", path) == 1) {
        object_read(&object, path);
    } else if (sscanf(line, "buffer %63s %7s %" SCNu64 " %4095s", name, io, &number, path) >= 3) {
        buffer_add(name, io, number, path);
    } else if (sscanf(line, "value %u %u %" SCNu64, &offset, &size, &number) == 3) {
        launch_argument(offset, size, number);
    } else if (sscanf(line, "address %u %63s", &offset, name) == 2) {
        launch_argument(offset, 8, buffer_named(name)->address);
    } else if (sscanf(line, "launch %255s %u %d", name, &offset, &threads) == 3) {
        const Kernel *kernel = launch_kernel(&object, name, offset, threads, &steps);
        printf("%s: %" PRIu64 " instructions, %d bytes of scratch\n", name, steps,
               kernel->scratch_bytes);
    } else if (sscanf(line, "save %63s %4095s", name, path) == 2) {
        buffer_save(name, path);
    } else {
        fail("this line says nothing", line);
    }
}

int main(int argc, char **argv)
{
    object.only_decoded = argc > 1 && strcmp(argv[1], "--decode") == 0;
    for (int i = 2; object.only_decoded && i < argc; i++) {
        object_read(&object, argv[i]);
        printf("%s: %zu instructions\n", argv[i], object.n_code);
        object_drop(&object);
        object = (Object){.only_decoded = true};
    }
    if (!object.only_decoded) {
        each_line(step);
    }
    return 0;
}
