/* SPDX-License-Identifier: Apache-2.0 */
/* What libtessera-launch has where libtessera has its compiler: nothing. */
#include "runtime/launch/launch_context.h"

TesseraStatus tessera_context_open(int abi, const TesseraAllocator *allocator,
                                   TesseraContext **context)
{
    return context_open(abi, allocator, NULL, context);
}
