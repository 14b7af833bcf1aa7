/* SPDX-License-Identifier: Apache-2.0 */
/* Error handling of the examples: print the call that failed with its message, and exit. */
#ifndef TRY_H
#define TRY_H

#include <stdio.h>
#include <stdlib.h>

/* Where `context` is the one that the call is made with. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        TesseraStatus status_ = (call);                                                            \
        if (status_ != TESSERA_OK) {                                                               \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, tessera_error(context)->message);   \
            exit((int)status_);                                                                    \
        }                                                                                          \
    } while (0)

#endif
