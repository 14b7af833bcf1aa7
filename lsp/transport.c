/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes messages with headers. */
#include "lsp/transport.h"
#include "support/fd_io.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    LONGEST_HEADER = 4096,
    LONGEST_MESSAGE = 64 << 20, /* bytes: as long as a source may be */
    BYTES_AT_ONCE = 64 << 10,
};
/* A longer length is taken for nonsense, and its message is not waited for. */
static const uint64_t CREDIBLE_LENGTH = (uint64_t)4 << 30;
static const char LENGTH[] = "Content-Length:";

void transport_init(Transport *t, int in, int out)
{
    *t = (Transport){.in = in, .out = out};
}

void transport_free(Transport *t)
{
    free(t->data);
    t->data = NULL;
}

/* ---- bytes ---- */

static bool reserve(Transport *t)
{
    if (t->at > 0) {
        memmove(t->data, t->data + t->at, t->n - t->at);
        t->n -= t->at;
        t->at = 0;
    }
    if (t->cap - t->n >= BYTES_AT_ONCE) {
        return true;
    }
    size_t cap = t->cap * 2 + BYTES_AT_ONCE;
    char *grown = realloc(t->data, cap);
    if (grown) {
        t->data = grown;
        t->cap = cap;
    }
    return grown != NULL;
}

/* Waits for bytes and adds them; false if none have come. */
static bool receive(Transport *t, int milliseconds)
{
    struct pollfd file = {.fd = t->in, .events = POLLIN};
    int ready = poll(&file, 1, milliseconds);
    if (ready <= 0) {
        return ready < 0 && errno == EINTR;
    }
    if (!reserve(t)) {
        t->ended = true;
        return false;
    }
    ssize_t got = read(t->in, t->data + t->n, BYTES_AT_ONCE);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
        return true;
    }
    t->ended = got <= 0;
    t->n += got > 0 ? (size_t)got : 0;
    size_t dropped = t->discard < t->n - t->at ? (size_t)t->discard : t->n - t->at;
    t->at += dropped;
    t->discard -= dropped;
    return got > 0;
}

/* ---- headers ---- */

/* Behind the empty line that ends the header; NULL: it has not come yet. */
static const char *header_end(const char *from, const char *to)
{
    const char *line = from;
    for (const char *at = from; at < to; at++) {
        if (*at == '\n') {
            if (at == line || (at == line + 1 && *line == '\r')) {
                return at + 1;
            }
            line = at + 1;
        }
    }
    return NULL;
}

/* The length that the header gives; false if it gives none, or none that is a number. */
static bool read_length(const char *from, const char *to, uint64_t *length)
{
    size_t name = sizeof LENGTH - 1;
    for (const char *line = from; line < to;) {
        const char *end = memchr(line, '\n', (size_t)(to - line));
        end = end ? end : to;
        if ((size_t)(end - line) > name && strncasecmp(line, LENGTH, name) == 0) {
            const char *at = line + name;
            while (at < end && (*at == ' ' || *at == '\t')) {
                at++;
            }
            const char *digits = at;
            *length = 0;
            for (; at < end && *at >= '0' && *at <= '9' && *length < CREDIBLE_LENGTH * 4; at++) {
                *length = *length * 10 + (uint64_t)(*at - '0');
            }
            bool whole = at == end || *at == '\r' || *at == ' ';
            return at > digits && (whole || *length >= CREDIBLE_LENGTH * 4);
        }
        line = end + 1;
    }
    return false;
}

/* Drops what stands before the next header; false if there is none yet. */
static bool find_header(Transport *t)
{
    size_t name = sizeof LENGTH - 1;
    while (t->n - t->at >= name) {
        if (strncasecmp(t->data + t->at, LENGTH, name) == 0) {
            t->lost = false;
            return true;
        }
        t->at++;
    }
    return false;
}

static Arrival bad(Transport *t, const char *why, const char **body, size_t *n)
{
    t->lost = true;
    *body = why;
    *n = strlen(why);
    return ARRIVED_BAD;
}

/* Takes a message of the bytes that are there. */
static Arrival take(Transport *t, const char **body, size_t *n)
{
    if (t->discard > 0 || t->n == t->at || (t->lost && !find_header(t))) {
        return ARRIVED_NOTHING;
    }
    const char *from = t->data + t->at, *to = t->data + t->n;
    const char *end = header_end(from, to);
    if (!end || end - from > LONGEST_HEADER) {
        if (to - from <= LONGEST_HEADER) {
            return ARRIVED_NOTHING;
        }
        t->at++; /* else the same header would be found again */
        return bad(t, "a header of more than 4096 bytes", body, n);
    }
    uint64_t length;
    size_t header = (size_t)(end - from);
    if (!read_length(from, end, &length)) {
        t->at += header;
        return bad(t, "a header without a Content-Length that is a number", body, n);
    }
    if (length > LONGEST_MESSAGE) {
        t->at += header;
        Arrival arrival = bad(t, "a message of more than 64 MiB", body, n);
        if (length <= CREDIBLE_LENGTH) {
            size_t here = t->n - t->at;
            t->lost = false;
            t->discard = length > here ? length - here : 0;
            t->at += length > here ? here : (size_t)length;
        }
        return arrival;
    }
    if ((uint64_t)(to - end) < length) {
        return ARRIVED_NOTHING;
    }
    *body = end;
    *n = (size_t)length;
    t->at += header + (size_t)length;
    return ARRIVED;
}

Arrival transport_read(Transport *t, int milliseconds, const char **body, size_t *n)
{
    while (true) {
        Arrival arrival = take(t, body, n);
        if (arrival != ARRIVED_NOTHING) {
            return arrival;
        }
        if (t->ended) {
            return ARRIVED_END;
        }
        if (!receive(t, milliseconds) && !t->ended) {
            return ARRIVED_NOTHING;
        }
    }
}

bool transport_has_input(const Transport *t)
{
    struct pollfd file = {.fd = t->in, .events = POLLIN};
    return t->at < t->n || poll(&file, 1, 0) > 0;
}

void transport_write(Transport *t, const char *body, size_t n)
{
    char header[64];
    int length = snprintf(header, sizeof header, "Content-Length: %zu\r\n\r\n", n);
    t->failed =
        t->failed || !fd_write(t->out, header, (size_t)length) || !fd_write(t->out, body, n);
}
