/* SPDX-License-Identifier: Apache-2.0 */
/* Arena allocation. Everything the compiler allocates for one compilation is in one Arena and is
 * freed with it, never singly. A failed allocation does not return: it jumps to the error boundary
 * that the outermost caller set (arena_guard), so no caller checks for NULL. */
#ifndef TESSERA_SUPPORT_ARENA_H
#define TESSERA_SUPPORT_ARENA_H

#include <setjmp.h>
#include <stddef.h>

/* Where memory comes from. `alloc` returns NULL on failure; `release` takes what alloc gave. */
typedef struct Allocator {
    void *(*alloc)(void *user, size_t bytes);
    void (*release)(void *user, void *memory);
    void *user;
} Allocator;

typedef struct ArenaChunk ArenaChunk;

typedef struct Arena {
    Allocator allocator;
    ArenaChunk *chunks;   /* newest first */
    char *cursor, *limit; /* free part of the newest chunk */
    size_t total;         /* bytes taken from the allocator */
    size_t cap;           /* refuse to grow beyond; 0: no cap */
    jmp_buf *guard;       /* taken when memory runs out */
} Arena;

/* malloc and free. */
Allocator allocator_default(void);

void arena_init(Arena *arena, Allocator allocator);
void arena_free(Arena *arena);

/* Zeroed memory, aligned to 16 bytes. Jumps to `arena->guard` with value 1 when there is none. */
void *arena_alloc(Arena *arena, size_t bytes);
/* The same as it comes: for bytes that are written before they are read, perhaps never. */
void *arena_alloc_raw(Arena *arena, size_t bytes);
void *arena_copy(Arena *arena, const void *from, size_t bytes);
char *arena_strdup(Arena *arena, const char *text);
char *arena_strndup(Arena *arena, const char *text, size_t n);
char *arena_printf(Arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define ARENA_NEW(arena, T) ((T *)arena_alloc((arena), sizeof(T)))
#define ARENA_ARRAY(arena, T, n) ((T *)arena_alloc((arena), sizeof(T) * (size_t)(n)))

/* Grows an arena-held array: doubles `*cap` until it exceeds `n`. The old copy stays behind. */
void *arena_grow(Arena *arena, void *items, size_t n, size_t *cap, size_t item_bytes);

/* Appends to an array held as {T *items; size_t n, cap;}. */
#define ARENA_PUSH(arena, list, value)                                                             \
    do {                                                                                           \
        if ((list)->n >= (list)->cap) {                                                            \
            (list)->items = arena_grow((arena), (list)->items, (list)->n, &(list)->cap,            \
                                       sizeof *(list)->items);                                     \
        }                                                                                          \
        (list)->items[(list)->n++] = (value);                                                      \
    } while (0)

#endif
