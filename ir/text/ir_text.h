/* SPDX-License-Identifier: Apache-2.0 */
/* Printing a function as text, and parsing it. */
#ifndef TESSERA_IR_TEXT_IR_TEXT_H
#define TESSERA_IR_TEXT_IR_TEXT_H

#include "ir/ir.h"

/* The text form. Prints → parses → prints the same. */
void print_func(const Func *func, Text *out);
/* The same; `spans`: of the op that stands on each of its lines, SPAN_NONE where none does. */
typedef struct PrintSpans {
    Span *items;
    size_t n, cap;
} PrintSpans;
void print_func_spans(const Func *func, Text *out, PrintSpans *spans);
void print_type(const Func *func, Type type, Text *out);
void print_dim(const Func *func, Dim dim, Text *out);
/* As a source would write it: `N - K + 1`, `N // 2`; by the name that the source has for it, where
 * `func` is not NULL. */
void say_dim(const Func *func, Dim dim, Text *out);
/* A size that a source has no name for by what it is made of. */
void say_size(const DimVar *var, Text *out);
/* One op without its regions, for messages. */
void print_op(const Func *func, const Op *op, Text *out);

/* NULL, with diagnostics that point into the text, when it is not a function. `source` is an index
 * of diags->sources. */
Func *parse_func(Arena *arena, Diags *diags, int source);

#endif
