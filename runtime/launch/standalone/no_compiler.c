/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of libtessera-launch that open a context: there is no compiler, so that the context
 * has no hooks of one. Those of libtessera are in runtime/api/api_context.c. */
#include "runtime/launch/launch_context.h"

TesseraStatus tessera_context_open(int abi, const TesseraAllocator *allocator,
                                   TesseraContext **context)
{
    return context_open(abi, allocator, NULL, context);
}

/* A program that asks for this name at run time gets the first version of the structures. */
TesseraStatus(tessera_context_new)(const TesseraAllocator *allocator, TesseraContext **context)
{
    return context_open(1, allocator, NULL, context);
}
