/* SPDX-License-Identifier: Apache-2.0 */
/* Private to names*.c: the walk over the tree with a stack of the names that are visible. */
#ifndef TESSERA_LSP_NAMES_WALK_H
#define TESSERA_LSP_NAMES_WALK_H

#include "lsp/names.h"

typedef struct Resolver {
    Analysis *a;
    Arena *arena;
    Names *names;
    struct {
        Definition **items;
        size_t n, cap;
    } stack; /* visible names, the innermost last */
    const FnDecl *fn;
    const KernelDecl *kernel;
    Span full_span; /* of the declaration that is walked */
    bool binds; /* an unknown name is a size: in types of parameters */
} Resolver;

/* ---- what names are (names_find.c) ---- */
/* The span is the name's at this place. */
void use(Resolver *r, Span span, const Definition *definition);
/* A name that is visible from here on. */
Definition *define_name(Resolver *r, NameKind kind, const char *name, Span span);
Definition *visible(const Resolver *r, const char *name);
/* The one for a thing that is not a part of a kernel or function, or a part of another one. */
Definition *outer_name(Resolver *r, NameKind kind, const char *name, Span span, const FnDecl *fn,
                       const KernelDecl *kernel);
/* What is defined outside of kernels and functions; NULL: nothing of this name. */
Definition *find_outer(Resolver *r, const char *name, size_t n_arguments);
const KernelDecl *find_kernel(const Resolver *r, const char *name);
/* Where the block ends that holds the offset; the one that begins behind it. */
uint32_t block_end(const Analysis *a, uint32_t offset);
uint32_t end_of_body(const Analysis *a, uint32_t offset);

/* ---- the tree (names_walk.c) ---- */
void walk(Resolver *r, const Expr *expr);
void walk_block(Resolver *r, const StmtList *list);

#endif
