/* SPDX-License-Identifier: Apache-2.0 */
/* tessera-amdgcn: runs kernels of a code object for AMD on this machine. Reads what to do from
 * standard input, a line a step:
 *
 *   object FILE
 *   buffer NAME in|out BYTES [FILE]     memory of its own, poison or the file's bytes
 *   value OFFSET BYTES NUMBER           of the next launch's arguments
 *   address OFFSET NAME
 *   launch SYMBOL BLOCKS THREADS        arguments that were given, hidden ones as the metadata asks
 *   save NAME FILE
 *
 * Ends with status 1 when a kernel does what it may not, with 2 when something is not emulated. */
#include "tests/codegen/amdgcn/emulator/emulator.h"
#include "tests/codegen/amdgcn/emulator/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Object object;

static Buffer *buffer_named(const char *name)
{
    for (int i = 0; i < n_buffers; i++) {
        if (strcmp(buffers[i].name, name) == 0) {
            return &buffers[i];
        }
    }
    emulator_fail("no such buffer", name);
}

static void add_buffer(const char *name, const char *io, uint64_t size, const char *path)
{
    if (n_buffers == MOST_BUFFERS) {
        emulator_fail("too many buffers", name);
    }
    Buffer *buffer = buffer_new(name, size, strcmp(io, "out") == 0);
    FILE *file = *path ? fopen(path, "rb") : NULL;
    if (*path && (!file || fread(buffer->bytes, 1, size, file) != size)) {
        emulator_fail("cannot be read", path);
    }
    if (file) {
        fclose(file);
    }
}

static void save(const char *name, const char *path)
{
    const Buffer *buffer = buffer_named(name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(buffer->bytes, 1, buffer->size, file) != buffer->size || fclose(file)) {
        emulator_fail("cannot be written", path);
    }
}

static void step(const char *line)
{
    char name[256], path[4096] = "", io[8];
    uint64_t number, steps;
    unsigned offset, size;
    int threads;
    if (sscanf(line, "object %4095s", path) == 1) {
        object_read(&object, path);
    } else if (sscanf(line, "buffer %63s %7s %" SCNu64 " %4095s", name, io, &number, path) >= 3) {
        add_buffer(name, io, number, path);
    } else if (sscanf(line, "value %u %u %" SCNu64, &offset, &size, &number) == 3) {
        launch_argument(offset, size, number);
    } else if (sscanf(line, "address %u %63s", &offset, name) == 2) {
        launch_argument(offset, 8, buffer_named(name)->address);
    } else if (sscanf(line, "launch %255s %u %d", name, &offset, &threads) == 3) {
        const Kernel *kernel = launch_kernel(&object, name, offset, threads, &steps);
        printf("%s: %" PRIu64 " instructions, %d bytes of scratch\n", name, steps,
               kernel->scratch_bytes);
    } else if (sscanf(line, "save %63s %4095s", name, path) == 2) {
        save(name, path);
    } else {
        emulator_fail("this line says nothing", line);
    }
}

int main(void)
{
    static char line[8192];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        step(line);
    }
    return 0;
}
