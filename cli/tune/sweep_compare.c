/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the results of a candidate with those of the derived schedule. They must have the same
 * bits, or differ by at most twice the interpreter's error bound, because each of the two may
 * deviate by the bound. The bound was computed on a smaller run of the same kernel and is applied
 * to elements by their magnitude. */
#include "cli/session.h"
#include "cli/tune/cmd_tune_sweep.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- bounds by magnitude ---- */

static int exponent_of(double value)
{
    int exponent = 0;
    frexp(value, &exponent);
    exponent = value == 0 ? MIN_EXPONENT : exponent;
    exponent -= MIN_EXPONENT;
    if (exponent < 0) {
        return 0;
    }
    return exponent >= EXPONENTS ? EXPONENTS - 1 : exponent;
}

void envelope_add(Envelope *envelope, double value, double bound)
{
    if (!isfinite(value) || !isfinite(bound)) {
        return; /* gives no bound for other magnitudes */
    }
    double *most = &envelope->most[exponent_of(value)];
    *most = bound > *most ? bound : *most;
    envelope->known = true;
}

/* Octaves of which no element was seen have the bound of the next one above that was: an element
 * can be small because large terms cancel. The bounds of exact zeros do not apply to them. */
void envelope_close(Envelope *envelope, double scale)
{
    double so_far = 0, next = 0;
    int top = EXPONENTS - 1;
    while (top > 0 && !(envelope->most[top] > 0)) {
        top--;
    }
    for (int i = top; i >= 0; i--) {
        double own = envelope->most[i] * scale;
        next = own > 0 && (i > 0 || top == 0) ? own : next;
        envelope->most[i] = own > next ? own : next;
    }
    for (int i = 0; i < EXPONENTS; i++) {
        if (i > top) {
            so_far = so_far * 2;
        } else if (envelope->most[i] > so_far) {
            so_far = envelope->most[i];
        }
        envelope->most[i] = so_far;
    }
}

void envelope_write(const Envelope *envelope, FILE *to)
{
    for (int i = 0; i < EXPONENTS; i++) {
        if (i == 0 || envelope->most[i] != envelope->most[i - 1]) {
            fprintf(to, " %d:%.9g", i, envelope->most[i]);
        }
    }
}

void envelope_read(Envelope *envelope, const char *text)
{
    *envelope = (Envelope){.known = true};
    int from = 0;
    double value = 0;
    while (*text) {
        char *end;
        long at = strtol(text, &end, 10);
        if (end == text || *end != ':' || at < from || at >= EXPONENTS) {
            break;
        }
        for (; from < at; from++) {
            envelope->most[from] = value;
        }
        value = strtod(end + 1, &end);
        text = end + strspn(end, " ");
    }
    for (; from < EXPONENTS; from++) {
        envelope->most[from] = value;
    }
}

/* ---- comparing ---- */

typedef struct Part {
    pthread_t thread;
    bool started;
    TesseraType type;
    const void *got, *want;
    const Envelope *envelope;
    size_t from, to;
    SweepDifference found;
} Part;

static bool is_close(const Part *part, double got, double want, double *bound)
{
    double larger = fabs(got) > fabs(want) ? got : want;
    *bound = part->envelope ? part->envelope->most[exponent_of(larger)] : 0;
    if (got == want || (isnan(got) && isnan(want))) {
        return true;
    }
    return isfinite(got) && isfinite(want) && fabs(got - want) <= *bound;
}

/* Elements that one memcmp compares: most blocks are equal and need no comparison by element. */
enum { AT_ONCE = 128 };

static size_t end_of_same(const Part *part, size_t i)
{
    size_t at = tessera_type_size(part->type, i), n = tessera_type_size(part->type, AT_ONCE);
    while (i % AT_ONCE == 0 && i + AT_ONCE <= part->to &&
           memcmp((const char *)part->got + at, (const char *)part->want + at, n) == 0) {
        i += AT_ONCE;
        at += n;
    }
    return i;
}

static void *compare_part(void *user)
{
    Part *part = user;
    for (size_t i = end_of_same(part, part->from); i < part->to; i = end_of_same(part, i + 1)) {
        double bound, got = tessera_get(part->type, part->got, i);
        double want = tessera_get(part->type, part->want, i);
        if (!is_close(part, got, want, &bound)) {
            if (part->found.different++ == 0) {
                part->found.first = i;
                part->found.got = got;
                part->found.want = want;
                part->found.bound = bound;
            }
        }
    }
    return NULL;
}

static size_t threads_for(size_t n)
{
    enum { EACH = 1 << 16, MOST = 64 };
    long there = sysconf(_SC_NPROCESSORS_ONLN);
    size_t most = there > 1 ? (size_t)there : 1;
    most = most > MOST ? MOST : most;
    return n / EACH + 1 < most ? n / EACH + 1 : most;
}

bool sweep_compare(TesseraType type, size_t n, const void *got, const void *want,
                   const Envelope *envelope, SweepDifference *difference)
{
    *difference = (SweepDifference){0};
    if (memcmp(got, want, tessera_type_size(type, n)) == 0) {
        return true;
    }
    size_t threads = threads_for(n), each = n / threads / AT_ONCE * AT_ONCE;
    Part *parts = alloc_or_exit(threads * sizeof *parts);
    for (size_t i = 0; i < threads; i++) {
        parts[i] = (Part){.type = type,
                          .got = got,
                          .want = want,
                          .envelope = envelope,
                          .from = each * i,
                          .to = i + 1 == threads ? n : each * (i + 1)};
        parts[i].started =
            i > 0 && pthread_create(&parts[i].thread, NULL, compare_part, &parts[i]) == 0;
    }
    for (size_t i = 0; i < threads; i++) {
        if (parts[i].started) {
            pthread_join(parts[i].thread, NULL);
        } else {
            compare_part(&parts[i]);
        }
        if (parts[i].found.different && !difference->different) {
            *difference = parts[i].found;
        } else {
            difference->different += parts[i].found.different;
        }
    }
    free(parts);
    return difference->different == 0;
}
