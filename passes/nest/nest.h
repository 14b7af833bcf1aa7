/* SPDX-License-Identifier: Apache-2.0 */
/* Derived nests: whole-tensor programs as the loops that one would write by hand. Private to
 * passes/nest.
 *
 *   cascade_reductions.c  the pass: which reductions share a loop
 *   cascade_match.c       finds a maximum and the sums that depend on it, or sums of a dot
 *   cascade_results.c     uses of the results, as far as the nest computes them
 *   cascade_emit.c        builds the nest
 *   cascade_bounds.c      bounds its loop by the conditions of its terms
 *   nest_value.c          rebuilds tensor-level values inside of a nest
 *   nest_read.c           the leaves of such values
 *   separate_terms.c      gives each of several sums its own copy of shared terms
 *   mask_exponentials.c   exponentials of masked terms in place of masked exponentials
 *   term_conditions.c     conditions of terms that hold somewhere in each row
 *
 * nest_source.h and nest_text.h write the launches of any program as such loops. */
#ifndef TESSERA_PASSES_NEST_NEST_H
#define TESSERA_PASSES_NEST_NEST_H

#include "ir/build.h"
#include "ir/memo.h"

enum {
    MAX_HELD = 256, /* elements of an axis that a tile holds whole */
    MIN_DEPTH = 8,  /* terms of a product: the rounding of a quotient is less than theirs */
};

/* ---- values in a nest ---- */

/* What an axis of a tensor-level value is inside of a nest. */
typedef enum NestAxisKind {
    NEST_UNKNOWN,
    NEST_DROPPED, /* it has one element, or all are alike: no axis */
    NEST_UNIT,    /* the same, as an axis of one element */
    NEST_WHOLE,   /* an axis that a tile holds whole */
    NEST_LOOP,    /* the axis of a loop: its range, or, of a scalar loop, no axis */
} NestAxisKind;

typedef struct NestAxis {
    NestAxisKind kind;
    int loop;
} NestAxis;

typedef struct NestAxes {
    NestAxis items[MAX_RANK];
} NestAxes;

typedef struct NestLoop {
    Dim extent;
    bool is_range;
    Value *binder; /* NULL while the nest is only looked at */
} NestLoop;

typedef struct Nest {
    Func *func;
    Memo *varies;   /* of an_varies */
    bool *depends;  /* by value: made of the reductions that the nest computes */
    bool *product;  /* by value: made of a product */
    uint32_t n_values;
    NestLoop loops[MAX_RANK + 1];
    int n_loops;
    int column;      /* the loop that reduces */
    bool approximates; /* functions may be approximated: all results are rounded to 16 bits */
    bool dry;        /* nothing is built: only whether it can be */
    DimVar *fixed;   /* a size that a tile holds whole and the facts fix; NULL: none */
    int n_products;  /* in the loop */
    int64_t stored;  /* elements of a column that are computed, and stored for the nest */
    int64_t by_fma;  /* the longest axis that a tile holds whole for products without a matrix
                      * instruction; 0: all have one */
    Value *none;     /* stands for what cannot be computed */
    Op *latest;      /* of the ops whose results are read from memory, the last one; NULL: none */
} Nest;

typedef struct NestValue {
    Value *value;
    NestAxes axes;
    Value *by;
} NestValue;

/* One block of the nest: what has been computed in it. */
typedef struct NestScope {
    Nest *nest;
    Builder b;
    struct {
        NestValue *items;
        size_t n, cap;
    } made;
    int depth; /* of ops that are being computed */
} NestScope;

/* Is the value made of the reductions that the nest computes? */
bool nest_depends(const Nest *nest, const Value *value);

/* The value over the nest's axes; NULL: it cannot be computed there. While the nest is only looked
 * at, the value itself. */
Value *nest_value(NestScope *s, Value *value, const NestAxes *axes);
/* The same of an operand of a product: what each step would compute anew is read from memory. */
Value *nest_factor(NestScope *s, Value *value, const NestAxes *axes);
/* Notes a product of operands of these types, with an axis that a tile holds whole. */
void nest_note_product(Nest *nest, const Value *a, const Value *b, Dim whole);
/* From here on the value, over these axes, is `by`. */
void nest_define(NestScope *s, Value *value, const NestAxes *axes, Value *by);
/* The leaves. */
Value *nest_load(NestScope *s, const Op *op, const NestAxes *axes);
Value *nest_gather(NestScope *s, Op *op, const NestAxes *axes);
Value *nest_iota(NestScope *s, const Op *op, const NestAxes *axes);
/* The value from memory, where it is stored before the nest; NULL: it cannot be. */
Value *nest_from_memory(NestScope *s, Value *value, const NestAxes *axes);
/* Does a value with the axis have one in the nest? */
bool nest_keeps(const Nest *nest, const NestAxis *axis);
bool dim_is_unit(Dim dim);
/* The type of such a value. */
Type nest_type(const Nest *nest, Type type, const NestAxes *axes);
/* Its axis that this axis of the value is; -1: none. */
int nest_position(const Nest *nest, const NestAxes *axes, int axis);
/* How an access of memory indexes its axes, where those that the value keeps are these; false: it
 * cannot. */
bool nest_indices(NestScope *s, const Access *access, const NestAxes *axes, Value **indices);
/* The axes of an operand of an op whose result has these; false: the op has no such rule. */
bool nest_operand_axes(Nest *nest, const Op *op, int at, const NestAxes *axes, NestAxes *inner);
/* The extent if a tile can hold the axis whole, else -1. */
int64_t nest_whole_extent(Nest *nest, Dim dim);
/* Stores a value of the body where it is made; returns what is read from there. */
Value *nest_store(Func *func, Value *value);


/* ---- cascades ---- */

enum { MAX_PATH = 12, MAX_FOLDS = 8, MAX_EXPS = 4, MAX_STORES = 8 };

/* What the maximum is replaced by where its difference from an element is not a number. */
typedef enum ReferenceKind {
    REFERENCE_NONE,     /* there is no maximum: the terms are not exponentials of a difference */
    REFERENCE_PLAIN,    /* nothing: exp(-inf - -inf) is NaN */
    REFERENCE_EMPTY,    /* -inf by 0 */
    REFERENCE_INFINITE, /* both infinities by 0 */
} ReferenceKind;

/* An exponential of the difference from the maximum, or, without one, the terms themselves. */
typedef struct CascadeExp {
    Value *value;
    Value *reference; /* what the maximum is there */
    ReferenceKind kind;
} CascadeExp;

/* A sum of terms that have an exponential as a factor. */
typedef struct CascadeFold {
    Op *op;  /* reduce or dot */
    int side; /* of a dot: the operand that has the exponential */
    int exp;
    Op *path[MAX_PATH]; /* from the exponential to the term */
    int n_path;
    NestAxes axes;  /* of its result */
    Value *initial; /* what the loop begins with */
} CascadeFold;

typedef struct Cascade {
    Nest nest;
    Op *max;        /* NULL: the sums depend on no maximum */
    Value *of;      /* its operand, or the value whose sums are computed */
    Op *first;      /* the maximum, or the op that makes `of`: all else is behind it */
    int axis;       /* that is reduced */
    Value *maximum; /* its result, or the greater one of that and of `least`, of which there is one
                     * for each row */
    Value *least;   /* NULL: -inf */
    NestAxes terms, rows; /* axes of its operand and of its result */
    CascadeExp exps[MAX_EXPS];
    int n_exps;
    CascadeFold folds[MAX_FOLDS];
    int n_folds;
    bool *inner;       /* by value: a term, or on the way to one */
    bool *follows;     /* by value: a result, or made of results by the nest */
    NestAxes *results; /* by value: the axes of those */
    Op *stores[MAX_STORES];
    int n_stores;
    bool partners;  /* of a product: other terms that are made of the same products join it */
    bool separated; /* nothing but nests needs the terms: sums of rows alone are worth one */
    Value *leaves; /* a value that an op outside of the nest needs; NULL: none */
} Cascade;

/* The reductions that depend on this maximum; false: none, or something else needs their terms. */
bool cascade_match(Cascade *c, Op *max);
/* The sums, along what the product contracts, of its operand on this side, which is made of another
 * product; false: there are none, or something else needs the operand. */
bool cascade_match_product(Cascade *c, const Op *dot, int side);
/* Would there be a nest of the maximum, or of the terms that are the product's left operand? */
typedef bool (*NestTest)(Func *func, Op *op);
/* Gives each product of terms that several sums need its own copy of them, if there would be a nest
 * for each. True if it has. */
bool nest_separate_terms(Func *func, NestTest has_nest);
/* Is the value a product, scaled or bounded, so that no mask makes all of a row -inf? */
bool nest_is_unmasked(const Value *value);
/* Lets masked terms have the exponentials that a condition drops; true: the function has changed.
 */
bool nest_mask_exponentials(Func *func);
/* The select of `exp(select(c, x, -inf) - m)` where m is the row's greatest such element and c
 * holds somewhere in each row, so that m is a number unless an element is none; NULL: other ops. */
const Op *nest_chosen_power(const Op *power);
/* Is the op one of the sums? */
bool cascade_is_fold(const Cascade *c, const Op *op);
/* Is a factor of the path, or its condition, left out of the sum: does it not vary along the
 * reduced axis? */
bool cascade_leaves_sum(const Cascade *c, const Op *step, int *operand);
/* The stores of what follows from the results. False: it cannot be computed in the nest. */
bool cascade_results(Cascade *c);
/* Lets what is outside of the nest read `leaves` from memory. */
void cascade_store_leaving(Cascade *c);
/* True if all that is made of the sums is rounded to 16 bits. */
bool cascade_is_rounded(const Cascade *c);
/* Builds the nest before the last of the stores; `dry`: says whether it can. */
bool cascade_emit(Cascade *c, bool dry);
/* The op before which the nest is built. */
Op *cascade_place(const Cascade *c);
/* Where the loop begins and ends, at the scope of its parallel. */
void cascade_bounds(Cascade *c, NestScope *s, Value **lo, Value **hi);

#endif
