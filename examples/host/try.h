/* SPDX-License-Identifier: Apache-2.0 */
/* What these examples do with an error: they say which call it was, and end. */
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
