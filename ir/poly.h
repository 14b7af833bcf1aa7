/* SPDX-License-Identifier: Apache-2.0 */
/* Size expressions: polynomials with i64 coefficients over size variables. They are interned, so
 * that two extents are equal exactly if their pointers are. */
#ifndef TESSERA_IR_POLY_H
#define TESSERA_IR_POLY_H

#include "support/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct Func Func;
typedef struct Value Value;
typedef struct Poly Poly;
typedef const Poly *Dim;

typedef enum DimKind {
    DIM_SIZE,   /* a size of the kernel's tensors: known at launch */
    DIM_STRIDE, /* a distance in a tensor's memory: known at launch, may be negative */
    DIM_RANGE,  /* a part of an axis, bound by an argument of a parallel, launch or for */
} DimKind;

/* A variable of size expressions. Names are unique among the sizes and strides of a kernel; those
 * of strides have a dot. */
typedef struct DimVar {
    DimKind kind;
    uint32_t id; /* index into Func.dimvars */
    const char *name;
    /* Of all but ranges: facts that hold for every launch of this code; the plan checks them. */
    int64_t multiple; /* the size is a multiple of this; 1: nothing known */
    int64_t least;    /* 0, of strides INT64_MIN: nothing known */
    int64_t most;     /* INT64_MAX: nothing known */
    Dim of;           /* by > 0: the size is of // by, rounded down, of sizes before it */
    int64_t by;
    bool unnamed; /* a quotient that the source has no name for */
    int64_t nominal; /* assumed by cost estimates if no fact bounds the size; 0: not chosen yet */
    /* DIM_RANGE */
    Dim axis_extent;  /* the extent that this is a part of: M, N, K */
    int64_t capacity; /* most elements it holds: the step; 0: not yet chosen (`by auto`) */
    Value *binder;    /* the block argument, of type range */
    bool holds_all;   /* of a grid: one tile has the whole axis, and no step is chosen for it */
} DimVar;

/* Factors of a term. The number of elements of an array has one for each of its axes, of which
 * there are at most MAX_RANK (ir/ir.h). */
enum { MAX_DEGREE = 12 };

typedef struct PolyTerm {
    int64_t coef;
    uint8_t n; /* factors, sorted by id, repeated for powers */
    DimVar *vars[MAX_DEGREE];
} PolyTerm;

struct Poly {
    uint16_t n_terms;
    PolyTerm terms[]; /* sorted; no zero coefficients; the constant term, if any, first */
};

Dim poly_const(Func *func, int64_t value);
Dim poly_var(Func *func, DimVar *var);
/* NULL on overflow of a coefficient or of the degree, and when an operand is NULL. */
Dim poly_add(Func *func, Dim a, Dim b);
Dim poly_mul(Func *func, Dim a, Dim b);

bool poly_is_const(Dim poly, int64_t *value);
/* True if it is this number; NULL is none. */
bool poly_is_number(Dim poly, int64_t number);
/* The variable if the polynomial is exactly one; else NULL. */
DimVar *poly_as_var(Dim poly);
/* The range if the polynomial is exactly one range variable; else NULL. */
DimVar *poly_as_range(Dim poly);
/* The size that an axis of this extent is named after: of a product of sizes the last one; of a
 * sum, that of the longest product that is added, W of 3 + W - S. NULL: a constant. */
const DimVar *poly_name_giver(Dim poly);
bool poly_mentions(Dim poly, const DimVar *var);
/* The only number that the facts leave for the size; 0: several. */
int64_t size_if_fixed(const DimVar *var);
/* Replaces a variable. */
Dim poly_substitute(Func *func, Dim poly, const DimVar *var, Dim by);
/* A number that divides the value whatever the sizes are, from the variables' facts. */
int64_t poly_divisor(Dim poly);
/* Bounds from the facts; INT64_MAX (least: INT64_MIN) when there is none. Ranges count as their
 * capacity. */
int64_t poly_most(Dim poly);
int64_t poly_least(Dim poly);
/* The one value that the bounds of the sizes leave; -1: there are several. */
int64_t poly_exact(Dim poly);
/* The static extent of a tile axis: the constant, or the capacity of the range; -1 when neither. */
int64_t poly_capacity(Dim poly);
typedef enum Solved {
    SOLVE_OPEN, /* nothing, or more than one size, is unknown, or it is not linear in it */
    SOLVE_FOUND,
    SOLVE_NEVER, /* no size makes it the value */
} Solved;
/* Which size makes the polynomial `value`, when one alone is unknown (negative in `sizes`). */
Solved poly_solve(Dim poly, const int64_t *sizes, int64_t value, const DimVar **var, int64_t *out);
/* Value under `sizes`, indexed by DimVar.id. False on overflow. */
bool poly_eval(Dim poly, const int64_t *sizes, int64_t *out);

#endif
