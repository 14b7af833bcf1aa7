/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over two files, each behind a header with its Content-Length. What is malformed is
 * reported once and skipped: the next header that can be read counts again. */
#ifndef TESSERA_LSP_TRANSPORT_H
#define TESSERA_LSP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Transport {
    int in, out;
    char *data; /* bytes that have come and are not taken yet: [at, n) */
    size_t at, n, cap;
    uint64_t discard; /* bytes to come of a message that is too long */
    bool lost;        /* what comes next is not known to be a header */
    bool ended;       /* nothing comes any more */
    bool failed;      /* an answer could not be written */
} Transport;

typedef enum Arrival {
    ARRIVED,         /* a message */
    ARRIVED_BAD,     /* something that is none */
    ARRIVED_NOTHING, /* nothing within the time */
    ARRIVED_END,     /* the other side has closed */
} Arrival;

void transport_init(Transport *t, int in, int out);
void transport_free(Transport *t);
/* Waits `milliseconds` for a message, -1: as long as it takes. *body points to n bytes that live
 * until the next call; of ARRIVED_BAD it is a text that says why. */
Arrival transport_read(Transport *t, int milliseconds, const char **body, size_t *n);
/* True if bytes have come that have not been read, or the other side has closed. */
bool transport_has_input(const Transport *t);
/* With its header. */
void transport_write(Transport *t, const char *body, size_t n);

#endif
