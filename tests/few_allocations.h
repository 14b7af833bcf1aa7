/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator that fails from some allocation on, for tests of running out of memory. */
#ifndef TESSERA_TESTS_FEW_ALLOCATIONS_H
#define TESSERA_TESTS_FEW_ALLOCATIONS_H

#include <stdlib.h>

/* As many allocations succeed; the later ones return NULL. */
static int allocations_left;

static inline void *few_allocate(void *user, size_t bytes)
{
    (void)user;
    return allocations_left-- > 0 ? malloc(bytes) : NULL;
}

static inline void few_release(void *user, void *memory)
{
    (void)user;
    free(memory);
}

#endif
