/* SPDX-License-Identifier: Apache-2.0 */
/* The front end: from text to tensor IR (lexer, parser, AST, names and types, IR). Every mistake
 * of the user is reported here, with its source location; the result is verified IR of
 * LEVEL_TENSOR. */
#ifndef TESSERA_FRONTEND_FRONTEND_H
#define TESSERA_FRONTEND_FRONTEND_H

#include "ir/ir.h"

/* A parsed file. Opaque; lives in the arena. */
typedef struct Module Module;

/* Where `import "path"` finds its text. */
typedef struct Importer {
    /* The text below the folder of the first file, or NULL and the reason; the path has no `..`, no
     * empty part and is relative. The text must stay until frontend_parse returns. */
    const char *(*read)(void *user, const char *path, size_t *n, const char **why);
    void *user;
} Importer;

/* NULL when there were errors. `source` indexes diags->sources; importer NULL: text that is in no
 * folder, which cannot import. */
Module *frontend_parse(Arena *arena, Diags *diags, int source, const Importer *importer);

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
} KernelSignature;

size_t frontend_kernel_count(const Module *module);
const KernelSignature *frontend_kernel(const Module *module, size_t n);
/* By name; name NULL: the only one. Failure of kind usage (unknown name: the nearest one is
 * named). */
const KernelSignature *frontend_find(Module *module, const char *name);
/* The values that `assume D in 64, 80, …` allows; NULL and *n = 0 when there is no such line. */
const int64_t *frontend_allowed(const Module *module, const KernelSignature *kernel,
                                const char *size, size_t *n);

/* Type checks and lowers one kernel with its generics and consts bound. Sizes listed in an
 * `assume … in` become constants and must be bound too. NULL after errors. */
Func *frontend_lower(Module *module, const KernelSignature *kernel, const Binding *bindings,
                     size_t n);
/* Gives func->schedule the lines of the kernel's `schedule` blocks that are for this target and
 * whose `when` holds: by the sizes that are given (by DimVar.id, negative: not; may be NULL),
 * and by what is known of the others now. Blocks with a name count where it is `chosen` (NULL: none
 * is), more than others. False after errors; an unknown name is a failure of kind usage. */
bool frontend_schedule(Module *module, const KernelSignature *kernel, Func *func,
                       const char *target_name, const int64_t *sizes, const char *chosen);

/* A line of a `tune` block with the values to try, as they are written, in its order. */
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
/* What the kernel's `tune` blocks for this target, whose `when` holds, want tried; of two blocks
 * the stronger one's line counts, as with schedule blocks. False after errors. */
bool frontend_choices(Module *module, const KernelSignature *kernel, Func *func,
                      const char *target_name, const int64_t *sizes, TuneChoices *choices);

#endif
