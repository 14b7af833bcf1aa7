/* SPDX-License-Identifier: Apache-2.0 */
/* Named buffers of the GPU emulators, and the parsing of the lines on standard input that create,
 * fill and save them. */
#include "tests/codegen/emulator/buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Buffer buffers[MAX_BUFFERS];
int n_buffers;

void fail(const char *what, const char *name)
{
    fprintf(stderr, "emulator: %s: %s\n", what, name);
    exit(1);
}

Buffer *buffer_named(const char *name)
{
    for (int i = 0; i < n_buffers; i++) {
        if (strcmp(buffers[i].name, name) == 0) {
            return &buffers[i];
        }
    }
    fail("no such buffer", name);
}

uint32_t poison_word(void)
{
    static uint32_t value;
    static bool is_known;
    const char *digits = is_known ? NULL : getenv("TESSERA_EMULATED_POISON");
    if (!is_known) {
        value = digits ? (uint32_t)strtoul(digits, NULL, 16) : 0xfff7fff7u;
        is_known = true;
    }
    return value;
}

Buffer *buffer_new(const char *name, uint64_t size, bool is_written)
{
    int at = 0;
    while (at < n_buffers && buffers[at].bytes) {
        at++;
    }
    if (at == MAX_BUFFERS - 1) {
        fail("too many buffers", name);
    }
    n_buffers = at == n_buffers ? at + 1 : n_buffers;
    Buffer *buffer = &buffers[at];
    snprintf(buffer->name, sizeof buffer->name, "%.63s", name);
    buffer->address = FIRST_ADDRESS + (uint64_t)at * APART;
    buffer->size = size;
    buffer->bytes = malloc(size + 4);
    buffer->is_written = is_written;
    for (uint64_t i = 0; i < size; i += 4) {
        uint32_t nothing = poison_word();
        memcpy(buffer->bytes + i, &nothing, sizeof nothing);
    }
    return buffer;
}

void buffer_free(Buffer *buffer)
{
    free(buffer->bytes);
    buffer->bytes = NULL;
    buffer->size = 0;
}

void buffer_add(const char *name, const char *io, uint64_t size, const char *path)
{
    Buffer *buffer = buffer_new(name, size, strcmp(io, "out") == 0);
    FILE *file = *path ? fopen(path, "rb") : NULL;
    if (*path && (!file || fread(buffer->bytes, 1, size, file) != size)) {
        fail("cannot be read", path);
    }
    if (file) {
        fclose(file);
    }
}

void buffer_save(const char *name, const char *path)
{
    const Buffer *buffer = buffer_named(name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(buffer->bytes, 1, buffer->size, file) != buffer->size || fclose(file)) {
        fail("cannot be written", path);
    }
}

uint8_t *buffer_at(uint64_t address, unsigned size, bool writes, char *why, size_t room)
{
    static int last;
    for (int i = -1; i < n_buffers; i++) {
        const Buffer *buffer = &buffers[i < 0 ? last : i];
        if (address - buffer->address < buffer->size &&
            size <= buffer->size - (address - buffer->address)) {
            if (writes && !buffer->is_written) {
                snprintf(why, room, "%s is written, which is an input", buffer->name);
                return NULL;
            }
            last = i < 0 ? last : i;
            return buffer->bytes + (address - buffer->address);
        }
    }
    for (int i = 0; i < n_buffers; i++) {
        const Buffer *buffer = &buffers[i];
        if (address + (1u << 20) - buffer->address < buffer->size + (2u << 20)) {
            snprintf(why, room, "%u bytes at %lld of %s, which has %llu", size,
                     (long long)(address - buffer->address), buffer->name,
                     (unsigned long long)buffer->size);
            return NULL;
        }
    }
    snprintf(why, room, "%u bytes at 0x%llx, where nothing is", size, (unsigned long long)address);
    return NULL;
}

void each_line(void (*step)(const char *line))
{
    static char line[8192];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        step(line);
    }
}
