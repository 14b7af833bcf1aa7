/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the compiler's part of a context in libtessera-launch, which has no compiler. */
#include "runtime/launch/launch_context.h"

TesseraStatus tessera_context_open(int abi, const TesseraAllocator *allocator,
                                   TesseraContext **context)
{
    return context_open(abi, allocator, NULL, context);
}
