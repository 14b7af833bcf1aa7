/* SPDX-License-Identifier: Apache-2.0 */
/* What the front end knows of one text: its tree, errors and warnings, types, names. */
#ifndef TESSERA_LSP_ANALYSIS_H
#define TESSERA_LSP_ANALYSIS_H

#include "frontend/syntax/ast.h"
#include "lsp/position.h"

typedef struct TypedSpan {
    Span span;
    const char *type;
    uint32_t order; /* in which they were found */
    bool several;   /* a function's text has other types at other calls */
} TypedSpan;
typedef struct TypedSpans {
    TypedSpan *items;
    size_t n, cap;
} TypedSpans;

typedef struct Names Names;

typedef struct Analysis {
    Arena arena;
    jmp_buf guard; /* of the arena, and of bugs of the front end */
    Diags diags;
    int source; /* the text: an index of diags.sources */
    Module *module;
    bool library; /* the text is one of the standard library's */
    struct {
        Token *items;
        size_t n, cap;
    } tokens;                  /* of the text; the last one is its end */
    TypedSpans defined, typed; /* by their places */
    Names *names;              /* names.h */
    size_t work;               /* expressions and tokens that were looked at */
    double seconds;            /* that it took */
} Analysis;

/* Where memory or the compiler gave up, less is known. NULL without any memory. `reading` is the
 * importer's arena. */
Analysis *analysis_new(const char *name, const char *text, size_t n, const Importer *importer,
                       Arena *reading);
void analysis_free(Analysis *analysis);

/* The type of a name at its definition; of an expression with this place, or of the smallest one
 * around it. NULL: not known. */
const TypedSpan *analysis_defined(const Analysis *a, Span name);
const TypedSpan *analysis_typed(const Analysis *a, Span expression);
const TypedSpan *analysis_around(const Analysis *a, Span inner);
/* The token that holds or ends at this offset; of two the one that begins there. NULL: none. */
const Token *analysis_token(const Analysis *a, uint32_t offset);

/* The values that a kernel was type checked with where its source leaves them open (kernels.c). */
typedef struct Bindings {
    Binding *items;
    size_t n, cap;
} Bindings;
Bindings trial_bindings(Arena *arena, const Module *module, const KernelDecl *kernel, int trial);
/* Lowers all kernels: diagnostics and types. */
void check_kernels(Analysis *a);

#endif
