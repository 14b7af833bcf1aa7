/* SPDX-License-Identifier: Apache-2.0 */
/* Pin files: measured schedules, stored next to the source that they are for. The format is text
 * made for version control: one entry per kernel, types, device and size bucket, in an order that
 * does not depend on the writer.
 *
 *     tessera pins 1
 * |
 *     pin linear on sm_90a {
 *         device NVIDIA H200
 *         kernel 6f0c1b2a9d3e4f58a7b6c5d4e3f20112
 *         types T=bf16
 *         sizes K=2049..4096%64, M=2049..4096%64, N=2049..4096%64
 *         version 0.1.0
 *         measured K=4096, M=4096, N=4096: 182.3 us …
 *         schedule {
 *             tile M 128, N 256, K 64
 *             pipeline 4
 *         }
 *     }
 *
 * A line that begins with `#` is a comment, which belongs to the entry behind it. */
#ifndef TESSERA_RUNTIME_PINS_PIN_FILE_H
#define TESSERA_RUNTIME_PINS_PIN_FILE_H

#include "support/diag.h"

enum { PINS_FORMAT = 1 };

typedef struct PinLine {
    const char *text; /* "tile M 128, N 256" */
    Span span;
} PinLine;

typedef struct Pin {
    const char *kernel, *arch;  /* "linear", "sm_90a" */
    const char *device;         /* "NVIDIA H200" */
    const char *digest;         /* of the kernel's IR as typed */
    const char *types, *bucket; /* "" where there are none */
    const char *version;        /* of the compiler that it was measured with */
    const char *measured;       /* where it comes from, for people; "": nothing is known */
    const char *comment;        /* lines, each with its `#` and its end; "": none */
    struct {
        PinLine *items;
        size_t n, cap;
    } lines;
    Span span; /* of its first line */
} Pin;

typedef struct Pins {
    Pin *items;
    size_t n, cap;
    const char *tail; /* comments behind the last entry */
} Pins;

/* The name of the file for a source: "linear.tune" for "linear.tile". */
const char *pins_path_for(Arena *arena, const char *source);
/* False after an error that says where; all that can be read is there even so. */
bool pins_read(Diags *diags, Arena *arena, int source, Pins *pins);
/* Instead of the one for the same, or as a further one; its comment stays. */
void pins_put(Arena *arena, Pins *pins, const Pin *pin);
/* Is it for the same kernel, types, device and sizes? */
bool pin_same_place(const Pin *a, const Pin *b);
/* The whole file, in its order. */
void pins_print(Arena *arena, const Pins *pins, Text *out);

#endif
