/* SPDX-License-Identifier: Apache-2.0 */
/* The reference interpreter. It runs a function of any level by the meaning of its ops alone. A
 * function with roles has one agent per role; at each synchronizing op the interpreter switches
 * agents in an order drawn from a seed. It reports races, deadlocks, reads of dots that were not
 * waited for, padding that reaches an output, and accesses outside of tensors. */
#ifndef TESSERA_IR_INTERP_INTERP_H
#define TESSERA_IR_INTERP_INTERP_H

#include "ir/ir.h"
#include "ir/scalar.h"

/* A tensor as the interpreter sees it: in the parameter's element type (two elements a byte of the
 * packed ones), its axes in the caller's order. */
typedef struct InterpTensor {
    void *data;
    const int64_t *strides; /* in elements, one an axis; NULL: row-major, contiguous */
    /* For outputs, optional: absolute error bound per element (how far an executor that
     * reassociates reductions, or uses approximate ops within their bounds, may be from `data`).
     * 0: exact bits. Reductions and products are bounded by analysis; what elementwise ops make
     * of that is sampled (interp_internal.h), and is no proof. */
    double *bound;
} InterpTensor;

typedef struct InterpArg {
    InterpTensor tensor; /* for tensor parameters */
    double number;       /* for float scalars */
    int64_t integer;     /* for integer and bool scalars */
} InterpArg;

/* What a run has to say. Without somebody to say it to, an assertion that fails ends the run. */
typedef enum InterpNoteKind {
    INTERP_PRINT,
    INTERP_ASSERT,       /* one that failed */
    INTERP_UNORDERED,    /* an outcome that depends on an order which is free: the op's first */
    INTERP_FLOAT_ATOMIC, /* sums of floats in any order: the op's first */
} InterpNoteKind;

typedef struct InterpEvent {
    InterpNoteKind kind;
    const Op *op;
    const char *text; /* of print and assert */
    int n;            /* of their values */
    const DType *dtypes;
    const union Scalar *values;
} InterpEvent;
typedef void InterpNoteFn(void *user, const InterpEvent *note);

/* Looking on (interp_trace.c). */
typedef struct InterpTrace {
    bool nan;           /* the first op that makes a NaN of what is none ends the run, */
    Span span;          /* and this is where it stands */
    const char *tensor; /* how this element of this tensor was computed; NULL: not wanted */
    int rank;
    int64_t index[MAX_RANK];
    Text *out;  /* into here, at each of its stores */
    bool found; /* there was one */
} InterpTrace;

typedef struct InterpOptions {
    uint64_t seed;      /* order of roles, blocks and poison */
    bool bounds;        /* compute error bounds (slower) */
    int64_t most_steps; /* 0: no limit; else an error when exceeded */
    DiagClass *kind;    /* of a failure: a fault, or the sizes', or memory's; may be NULL */
    Span *where;        /* of a failure: the source's; NULL: the op is in the words instead */
    InterpNoteFn *note; /* may be NULL */
    void *user;         /* its first argument */
    InterpTrace *watch; /* may be NULL */
} InterpOptions;

/* args: one per func->params entry, that of a scratch parameter unused; sizes: indexed by DimVar.id
 * (ranges ignored). False with one line in `problem` when the program does something it may not. */
bool interp_func(Func *func, const InterpArg *args, const int64_t *sizes,
                 const InterpOptions *options, Text *problem);


#endif
