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

enum { MOST_KERNARG = 4096 };
#define FIRST_ADDRESS UINT64_C(0x7f0000000000)
#define APART UINT64_C(0x100000000)

static Object object;
static uint8_t kernarg[MOST_KERNARG];
static uint8_t given[MOST_KERNARG]; /* bytes of it that are arguments */
static int args[MOST_ARGS][2], n_args;

_Noreturn static void fail(const char *what, const char *name)
{
    fprintf(stderr, "emulator: %s: %s\n", what, name);
    exit(1);
}

static Buffer *buffer_named(const char *name)
{
    for (int i = 0; i < n_buffers; i++) {
        if (strcmp(buffers[i].name, name) == 0) {
            return &buffers[i];
        }
    }
    fail("no such buffer", name);
}

static void add_buffer(const char *name, const char *io, uint64_t size, const char *path)
{
    if (n_buffers == MOST_BUFFERS) {
        fail("too many buffers", name);
    }
    Buffer *buffer = &buffers[n_buffers];
    snprintf(buffer->name, sizeof buffer->name, "%.63s", name);
    buffer->address = FIRST_ADDRESS + (uint64_t)n_buffers++ * APART;
    buffer->size = size;
    buffer->bytes = malloc(size + 4);
    buffer->is_written = strcmp(io, "out") == 0;
    for (uint64_t i = 0; i < size; i += 4) {
        uint32_t poison = POISON;
        memcpy(buffer->bytes + i, &poison, sizeof poison);
    }
    FILE *file = *path ? fopen(path, "rb") : NULL;
    if (*path && (!file || fread(buffer->bytes, 1, size, file) != size)) {
        fail("cannot be read", path);
    }
    if (file) {
        fclose(file);
    }
}

static void add_argument(unsigned offset, unsigned size, uint64_t value)
{
    if (offset + size > MOST_KERNARG || size > 8 || n_args == MOST_ARGS) {
        fail("an argument", "lies too far");
    }
    memcpy(kernarg + offset, &value, size);
    memset(given + offset, 1, size);
    args[n_args][0] = (int)offset;
    args[n_args++][1] = (int)size;
}

/* What HIP fills in, for a grid of one dimension whose blocks are all whole. */
static void add_hidden(const Kernel *kernel, const Hidden *hidden, unsigned blocks, int threads)
{
    const char *kind = hidden->kind;
    uint64_t value = 0;
    if (strcmp(kind, "hidden_block_count_x") == 0) {
        value = blocks;
    } else if (strcmp(kind, "hidden_block_count_y") == 0 ||
               strcmp(kind, "hidden_block_count_z") == 0 ||
               strcmp(kind, "hidden_group_size_y") == 0 ||
               strcmp(kind, "hidden_group_size_z") == 0 || strcmp(kind, "hidden_grid_dims") == 0) {
        value = 1;
    } else if (strcmp(kind, "hidden_group_size_x") == 0) {
        value = (uint64_t)threads;
    } else if (strncmp(kind, "hidden_remainder_", 17) != 0 &&
               strncmp(kind, "hidden_global_offset_", 21) != 0 &&
               strcmp(kind, "hidden_none") != 0) {
        fprintf(stderr, "emulator: %s: %s is not emulated\n", kernel->name, kind);
        exit(2);
    }
    if (hidden->offset < 0 || hidden->offset + hidden->size > kernel->kernarg_bytes ||
        given[hidden->offset]) {
        fail("a hidden argument lies outside, or on another", kind);
    }
    memcpy(kernarg + hidden->offset, &value, (size_t)hidden->size);
}

static void check_arguments(const Kernel *kernel)
{
    if (kernel->n_args != n_args) {
        fail("the metadata has another number of arguments", kernel->name);
    }
    for (int i = 0; i < n_args; i++) {
        if (memcmp(kernel->args[i], args[i], sizeof args[i]) != 0) {
            fail("the metadata has an argument elsewhere", kernel->name);
        }
        if (args[i][0] + args[i][1] > kernel->kernarg_bytes) {
            fail("an argument lies past the segment", kernel->name);
        }
    }
}

static void launch(const char *symbol, unsigned blocks, int threads)
{
    char name[256];
    snprintf(name, sizeof name, "%.250s.kd", symbol);
    const Kernel *kernel = NULL;
    for (int i = 0; i < object.n_kernels; i++) {
        kernel = strcmp(object.kernels[i].name, name) == 0 ? &object.kernels[i] : kernel;
    }
    if (!kernel || !kernel->descriptor) {
        fail("no such kernel", symbol);
    }
    if (kernel->required_threads != threads || threads > kernel->max_threads) {
        fail("the metadata asks for another number of threads", symbol);
    }
    check_arguments(kernel);
    for (int i = 0; i < kernel->n_hidden; i++) {
        add_hidden(kernel, &kernel->hidden[i], blocks, threads);
    }
    Buffer *segment = &buffers[n_buffers++];
    *segment = (Buffer){.name = "the arguments",
                        .bytes = kernarg,
                        .size = (uint64_t)kernel->kernarg_bytes,
                        .address = FIRST_ADDRESS - APART};
    uint64_t steps = launch_grid(&object, kernel, blocks, threads, segment->address);
    printf("%s: %" PRIu64 " instructions, %d bytes of scratch\n", symbol, steps,
           kernel->scratch_bytes);
    n_buffers--;
    n_args = 0;
    memset(given, 0, sizeof given);
    memset(kernarg, 0xf7, sizeof kernarg);
}

static void save(const char *name, const char *path)
{
    const Buffer *buffer = buffer_named(name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(buffer->bytes, 1, buffer->size, file) != buffer->size || fclose(file)) {
        fail("cannot be written", path);
    }
}

static void step(const char *line)
{
    char name[256], path[4096] = "", io[8];
    uint64_t number;
    unsigned offset, size;
    int threads;
    if (sscanf(line, "object %4095s", path) == 1) {
        object_read(&object, path);
    } else if (sscanf(line, "buffer %63s %7s %" SCNu64 " %4095s", name, io, &number, path) >= 3) {
        add_buffer(name, io, number, path);
    } else if (sscanf(line, "value %u %u %" SCNu64, &offset, &size, &number) == 3) {
        add_argument(offset, size, number);
    } else if (sscanf(line, "address %u %63s", &offset, name) == 2) {
        add_argument(offset, 8, buffer_named(name)->address);
    } else if (sscanf(line, "launch %255s %u %d", name, &offset, &threads) == 3) {
        launch(name, offset, threads);
    } else if (sscanf(line, "save %63s %4095s", name, path) == 2) {
        save(name, path);
    } else {
        fail("this line says nothing", line);
    }
}

int main(void)
{
    static char line[8192];
    memset(kernarg, 0xf7, sizeof kernarg);
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        step(line);
    }
    return 0;
}
