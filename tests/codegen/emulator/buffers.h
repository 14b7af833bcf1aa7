/* SPDX-License-Identifier: Apache-2.0 */
/* What the GPU emulators share: the memory that kernels may access, and the commands on standard
 * input. */
#ifndef TESSERA_TESTS_EMULATOR_BUFFERS_H
#define TESSERA_TESTS_EMULATOR_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIRST_ADDRESS UINT64_C(0x7f0000000000)
#define APART UINT64_C(0x100000000)

typedef struct Buffer {
    char name[64];
    uint64_t address, size;
    uint8_t *bytes;
    bool is_written;
} Buffer;

enum { MAX_BUFFERS = 1024 };
extern Buffer buffers[MAX_BUFFERS];
extern int n_buffers;

_Noreturn void fail(const char *what, const char *name);
/* What nobody has written: a NaN in each float type, an address that nothing has; or what the
 * environment's TESSERA_EMULATED_POISON says, in hexadecimal digits. No answer depends on it. */
uint32_t poison_word(void);
/* Memory of its own, poison. The last place stays free, for a launch's own arguments. */
Buffer *buffer_new(const char *name, uint64_t size, bool is_written);
void buffer_free(Buffer *buffer);
Buffer *buffer_named(const char *name);
/* Poison, or the bytes of the file at `path`, which may be empty. */
void buffer_add(const char *name, const char *io, uint64_t size, const char *path);
void buffer_save(const char *name, const char *path);
/* Where the bytes are, or NULL and why not. */
uint8_t *buffer_at(uint64_t address, unsigned size, bool writes, char *why, size_t room);

/* Of standard input, without its end. */
void each_line(void (*step)(const char *line));

#endif
