/* SPDX-License-Identifier: Apache-2.0 */
/* The arena allocator: memory comes in chunks from the caller's allocator and is freed all at
 * once. A failed allocation jumps to the arena's error boundary. */
#include "support/arena.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 64 * 1024, ALIGNMENT = 16 };

struct ArenaChunk {
    ArenaChunk *older;
    size_t bytes;
};

static void *default_alloc(void *user, size_t bytes)
{
    (void)user;
    return malloc(bytes);
}

static void default_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

Allocator allocator_default(void)
{
    return (Allocator){default_alloc, default_release, NULL};
}

void arena_init(Arena *arena, Allocator allocator)
{
    memset(arena, 0, sizeof *arena);
    arena->allocator = allocator;
}

void arena_free(Arena *arena)
{
    ArenaChunk *chunk = arena->chunks;
    while (chunk) {
        ArenaChunk *older = chunk->older;
        arena->allocator.release(arena->allocator.user, chunk);
        chunk = older;
    }
    Allocator allocator = arena->allocator;
    arena_init(arena, allocator);
}

static void arena_fail(Arena *arena)
{
    if (arena->guard) {
        longjmp(*arena->guard, 1);
    }
    abort(); /* a caller without a guard is a bug of ours */
}

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

/* A chunk with this many bytes: what is large has one to itself, behind the newest, whose free part
 * stays in use. Returns its body. */
static char *arena_add_chunk(Arena *arena, size_t bytes)
{
    size_t header = round_up(sizeof(ArenaChunk));
    bool alone = bytes > CHUNK_BYTES / 4 && arena->chunks;
    size_t body = bytes > CHUNK_BYTES / 4 ? bytes : CHUNK_BYTES;
    if (arena->cap && arena->total + header + body > arena->cap) {
        arena_fail(arena);
    }
    ArenaChunk *chunk = arena->allocator.alloc(arena->allocator.user, header + body);
    if (!chunk) {
        arena_fail(arena);
        return NULL;
    }
    ArenaChunk **place = alone ? &arena->chunks->older : &arena->chunks;
    chunk->older = *place;
    chunk->bytes = header + body;
    *place = chunk;
    arena->total += chunk->bytes;
    char *memory = (char *)chunk + header;
    if (!alone) {
        arena->cursor = memory + bytes;
        arena->limit = memory + body;
    }
    return memory;
}

void *arena_alloc_raw(Arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        arena_fail(arena);
    }
    bytes = round_up(bytes ? bytes : 1);
    if ((size_t)(arena->limit - arena->cursor) < bytes) {
        return arena_add_chunk(arena, bytes);
    }
    char *memory = arena->cursor;
    arena->cursor += bytes;
    return memory;
}

void *arena_alloc(Arena *arena, size_t bytes)
{
    void *memory = arena_alloc_raw(arena, bytes);
    return memset(memory, 0, bytes);
}

void *arena_copy(Arena *arena, const void *from, size_t bytes)
{
    void *to = arena_alloc_raw(arena, bytes);
    if (bytes) {
        memcpy(to, from, bytes);
    }
    return to;
}

char *arena_strndup(Arena *arena, const char *text, size_t n)
{
    char *copy = arena_alloc_raw(arena, n + 1);
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

char *arena_strdup(Arena *arena, const char *text)
{
    return arena_strndup(arena, text, strlen(text));
}

char *arena_printf(Arena *arena, const char *format, ...)
{
    va_list args, args_copy;
    va_start(args, format);
    va_copy(args_copy, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = arena_alloc_raw(arena, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, format, args_copy);
    va_end(args_copy);
    return text;
}

void *arena_grow(Arena *arena, void *items, size_t n, size_t *cap, size_t item_bytes)
{
    size_t wanted = *cap ? *cap * 2 : 8;
    while (wanted <= n) {
        wanted *= 2;
    }
    char *bigger = arena_alloc(arena, wanted * item_bytes);
    if (n) {
        memcpy(bigger, items, n * item_bytes);
    }
    *cap = wanted;
    return bigger;
}
