/* SPDX-License-Identifier: Apache-2.0 */
/* The front end: from text to tensor IR (lexer, parser, AST, names and types, IR). Every mistake
 * of the user is reported here, with its source location; the result is verified IR of
 * LEVEL_TENSOR. */
#ifndef TESSERA_FRONTEND_FRONTEND_H
#define TESSERA_FRONTEND_FRONTEND_H

#include "ir/ir.h"

/* A parsed file. Opaque; lives in the arena. */
typedef struct Module Module;

/* Reads the text of `import "path"`. */
typedef struct Importer {
    /* Returns the text of a file below the folder of the first file, or NULL and the reason. The
     * path is relative, without `..` and empty parts. The text must live until frontend_parse
     * returns. */
    const char *(*read)(void *user, const char *path, size_t *n, const char **why);
    void *user;
} Importer;

/* NULL after errors. `source` indexes diags->sources. Without an importer (NULL) the text cannot
 * import files. */
Module *frontend_parse(Arena *arena, Diags *diags, int source, const Importer *importer);

/* The same for editors: there is a module whatever the errors, with what could be read. */
Module *frontend_read(Arena *arena, Diags *diags, int source, const Importer *importer);

/* Is given the types that frontend_lower finds in the program's own text: of names where they are
 * defined, and of expressions. A function's text is seen at each of its calls. */
typedef struct TypeObserver {
    void (*defined)(void *user, Span name, const char *type);
    void (*typed)(void *user, Span expression, const char *type);
    void *user;
} TypeObserver;
void frontend_observe(Module *module, const TypeObserver *observer);

/* A generic or const parameter's value: T=bf16, D=128, causal=true. */
typedef struct Binding {
    const char *name;
    const char *text; /* as written by the user: "bf16", "128", "true", "0.5" */
} Binding;

/* The signature of a kernel before anything is bound. */
typedef struct KernelParam {
    const char *name;
    const char *dtype; /* "f32", or the name of a generic: "T" */
    int rank;          /* -1: a scalar */
    const char **dims; /* as written: "M", "128" */
    bool is_const;     /* `const bool`: bound at compile time */
    ParamIo io;
    const char *fallback; /* default of a const, or NULL */
} KernelParam;

typedef struct KernelSignature {
    const char *name;
    struct {
        KernelParam *items;
        size_t n, cap;
    } params; /* inputs, then outputs */
    struct {
        const char **items;
        size_t n, cap;
    } generics; /* T */
    struct {
        const char **items;
        size_t n, cap;
    } classes; /* theirs: float, int, number, any */
    struct {
        const char **items;
        size_t n, cap;
    } sizes; /* M, N, … in order of appearance */
    bool any_rank;   /* `...` is in its types: `gelu[3]` is it for three axes instead of one */
    const char *doc; /* the comment right above the kernel, without its `#`; NULL: none */
} KernelSignature;

size_t frontend_kernel_count(const Module *module);
const KernelSignature *frontend_kernel(const Module *module, size_t n);
/* By name, also vjp(f) and `f[3]`; name NULL: the only one. Failure of kind usage (unknown name:
 * the nearest one is named). */
const KernelSignature *frontend_find(Module *module, const char *name);
/* The n characters of the source that `where P = N // 2` defines the kernel's size by; NULL: it
 * defines no such size. */
const char *frontend_definition(const Module *module, const char *kernel, const char *size,
                                size_t *n);
/* The values that `assume D in 64, 80, …` allows; NULL and *n = 0 without such a statement. */
const int64_t *frontend_allowed(const Module *module, const KernelSignature *kernel,
                                const char *size, size_t *n);

/* Type checks and lowers one kernel with its generics and consts bound. Sizes listed in an
 * `assume … in` become constants and must be bound too. NULL after errors. */
Func *frontend_lower(Module *module, const KernelSignature *kernel, const Binding *bindings,
                     size_t n);
/* Adds to func->schedule the entries of the kernel's `schedule` blocks for this target whose `when`
 * holds by the given sizes (by DimVar.id, negative if not given; may be NULL) and by the facts
 * about the other sizes. Blocks with a name apply only if it is `chosen`, and override those
 * without; NULL chooses none. False after errors; an unknown name is a failure of kind usage. */
bool frontend_schedule(Module *module, const KernelSignature *kernel, Func *func,
                       const char *target_name, const int64_t *sizes, const char *chosen);

/* An entry of a `tune` block with the values to try, as written and in the written order. */
typedef struct TuneChoice {
    const char *key, *sub; /* sub "": none */
    bool per_launch;       /* of one launch of the kernel */
    int launch;
    struct {
        const char **items;
        size_t n, cap;
    } values;
    Span span;
    int strength; /* of its block */
} TuneChoice;
typedef struct TuneChoices {
    TuneChoice *items;
    size_t n, cap;
} TuneChoices;
/* The values to try by the kernel's `tune` blocks for this target whose `when` holds. An entry of a
 * stronger block replaces that of a weaker one, as with schedule blocks. False after errors. */
bool frontend_choices(Module *module, const KernelSignature *kernel, Func *func,
                      const char *target_name, const int64_t *sizes, TuneChoices *choices);

#endif
