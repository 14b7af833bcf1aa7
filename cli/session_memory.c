/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the program: blocks that the caller frees, and blocks that live to its end, for
 * whatever the parsed command line points to. */
#include "cli/session_memory.h"
#include "cli/cli_diagnostics.h"

#include <stdlib.h>
#include <string.h>

typedef struct SessionBlock {
    struct SessionBlock *older;
    _Alignas(16) char memory[];
} SessionBlock;
static SessionBlock *newest_block;

static void *or_exit(void *memory)
{
    if (!memory) {
        exit(fail(TESSERA_ENVIRONMENT, "out of memory"));
    }
    return memory;
}

void *alloc_or_exit(size_t bytes)
{
    return or_exit(calloc(1, bytes ? bytes : 1));
}

char *copy_or_exit(const char *text, size_t n)
{
    return or_exit(strndup(text, n));
}

void *session_alloc(size_t bytes)
{
    SessionBlock *block = alloc_or_exit(sizeof *block + bytes);
    block->older = newest_block;
    newest_block = block;
    return block->memory;
}

char *session_text(const char *text, size_t n)
{
    char *copy = session_alloc(n + 1);
    memcpy(copy, text, n);
    return copy;
}

void *session_grow(const void *items, size_t n, size_t item_bytes)
{
    void *more = session_alloc((n + 1) * item_bytes);
    if (n > 0) {
        memcpy(more, items, n * item_bytes);
    }
    return more;
}

void session_free(void)
{
    while (newest_block) {
        SessionBlock *older = newest_block->older;
        free(newest_block);
        newest_block = older;
    }
}
