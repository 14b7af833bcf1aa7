/* SPDX-License-Identifier: Apache-2.0 */
/* Sets up a launch: memory, arguments, and the hidden arguments that the metadata lists. */
#include "tests/codegen/amdgcn/emulator/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KERNARG = 4096 };

static uint8_t kernarg[MAX_KERNARG];
static uint8_t given[MAX_KERNARG]; /* bytes of it that are arguments */
static int args[MAX_ARGS][2], n_args;

void launch_argument(unsigned offset, unsigned size, uint64_t value)
{
    if (offset + size > MAX_KERNARG || size > 8 || n_args == MAX_ARGS) {
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

const Kernel *kernel_named(const Object *object, const char *symbol)
{
    char name[256];
    snprintf(name, sizeof name, "%.250s.kd", symbol);
    for (int i = 0; i < object->n_kernels; i++) {
        const Kernel *kernel = &object->kernels[i];
        if (strcmp(kernel->name, name) == 0 && kernel->descriptor) {
            return kernel;
        }
    }
    return NULL;
}

const Kernel *launch_kernel(const Object *object, const char *symbol, unsigned blocks, int threads,
                            uint64_t *steps)
{
    const Kernel *kernel = kernel_named(object, symbol);
    if (!kernel) {
        fail("no such kernel", symbol);
    }
    if (kernel->required_threads != threads || threads > kernel->max_threads) {
        fail("the metadata asks for another number of threads", symbol);
    }
    check_arguments(kernel);
    for (size_t i = 0; i < sizeof kernarg; i++) {
        kernarg[i] = given[i] ? kernarg[i] : poison_word() & 255;
    }
    for (int i = 0; i < kernel->n_hidden; i++) {
        add_hidden(kernel, &kernel->hidden[i], blocks, threads);
    }
    Buffer *segment = &buffers[n_buffers++];
    *segment = (Buffer){.name = "the arguments",
                        .bytes = kernarg,
                        .size = (uint64_t)kernel->kernarg_bytes,
                        .address = FIRST_ADDRESS - APART};
    *steps = launch_grid(object, kernel, blocks, threads, segment->address);
    *segment = (Buffer){0};
    n_buffers--;
    n_args = 0;
    memset(given, 0, sizeof given);
    return kernel;
}
