/* SPDX-License-Identifier: Apache-2.0 */
/* The names of a text: what each one is, and where it is used. Found in the tree alone, so that
 * they are known in texts with errors, and in functions that nothing calls. */
#ifndef TESSERA_LSP_NAMES_H
#define TESSERA_LSP_NAMES_H

#include "lsp/analysis.h"

typedef enum NameKind {
    NAME_KERNEL,
    NAME_FN,
    NAME_PARAM,
    NAME_RESULT,
    NAME_SIZE, /* M of f32[M, N] */
    NAME_TYPE, /* T of `where T: float` */
    NAME_LET,
    NAME_VAR,
    NAME_INDEX, /* of a loop, a reduction, `y[i] = …` */
    NAME_BUILTIN,
    NAME_DTYPE,
    NAME_FILE, /* of an import */
} NameKind;

typedef struct Definition {
    NameKind kind;
    const char *name;
    Span span;         /* of the name; SPAN_NONE: it is in no text */
    uint32_t from, to; /* where in the text it can be used, of names of a kernel or function */
    const FnDecl *fn;  /* that it is, or that it is in */
    const KernelDecl *kernel;
    const ParamDecl *param;
    bool typed; /* its definition says its type */
} Definition;

typedef struct Use {
    Span span;
    const Definition *definition;
} Use;

struct Names {
    struct {
        Definition **items;
        size_t n, cap;
    } definitions; /* those of other files come when they are used */
    struct {
        Use *items;
        size_t n, cap;
    } uses; /* by their places; a definition is a use of itself */
};

Names *names_of(Analysis *a);
/* What the name that holds or ends at this offset is; NULL: nothing. *span may be NULL. */
const Definition *name_at(const Analysis *a, uint32_t offset, Span *span);
/* The module that a function is called from: its own file, what that imports, the library. Calls
 * `each` for every one of that name, of all names if it is NULL; the first that returns true. */
typedef bool EachFn(void *user, const Module *home, FnDecl *fn);
FnDecl *each_fn(const Module *module, const char *name, EachFn *each, void *user);
/* What of the text is the declaration's: its end is the next declaration. */
const KernelDecl *kernel_at(const Analysis *a, uint32_t offset);
/* The `{` whose block holds the offset; NULL: none. */
const Token *brace_around(const Analysis *a, uint32_t offset);

#endif
