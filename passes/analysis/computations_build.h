/* SPDX-License-Identifier: Apache-2.0 */
/* State of the analysis of computations while it runs. Private to computations*.c. */
#ifndef TESSERA_PASSES_ANALYSIS_COMPUTATIONS_BUILD_H
#define TESSERA_PASSES_ANALYSIS_COMPUTATIONS_BUILD_H

#include "passes/analysis/computations.h"
#include "support/hash_table.h"

/* A value to look at. */
typedef struct Visit {
    Instance instance;
    const UseGuard *guards;
    unsigned factors;
} Visit;

typedef struct ComputeBuild {
    Func *func;
    Computations *all;
    HashTable made; /* computations by their instance */
    HashTable maps; /* of integers, by their instance */
    Memo *counts;   /* instances of each value that is a computation of its own */
    Compute *now;
    HashTable seen; /* of `now`: visits */
    struct {
        Visit **items;
        size_t n, cap;
    } pending; /* of `now` */
    struct {
        const Axis **items; /* by DimVar id: of ranges; NULL: none yet */
        size_t n;
    } ranges;
    Memo *loops;  /* axes of the scalar arguments of loops (const Axis *) */
    Memo *points; /* of `now`: how often an element-wise value was looked at */
} ComputeBuild;

/* ---- computations_instance.c ---- */
/* A new axis of `now`. */
const Axis *compute_add_axis(ComputeBuild *b, Dim extent, const Value *from, ComputeRole role);
/* The base axes of a map belong to `now`, too. */
void compute_keep_axes(ComputeBuild *b, const Affine *map);
/* Factors vary along the axes of the map. */
void compute_note_axes(ComputeBuild *b, const Affine *map, unsigned factors);
void compute_visit(ComputeBuild *b, const Instance *instance, const UseGuard *guards,
                   unsigned factors);
/* True if each element of what a loop or choice carries is computed from its own elements. */
bool compute_goes_by_element(const Op *op);

/* ---- computations_map.c ---- */
/* The map of an integer at these elements; NULL: it has none. */
const Affine *compute_map(ComputeBuild *b, const Value *value, const Affine *const *at);

/* ---- computations_uses.c ---- */
/* The access of a load, gather, store or scatter whose result or value is at `at`. */
void compute_add_access(ComputeBuild *b, const Op *op, const Affine *const *at, UseMode mode,
                        const UseGuard *guards, unsigned factors);
/* The computation of what an op makes: of these elements where that can be, or else of all, as
 * where `at` is NULL. */
Compute *compute_of(ComputeBuild *b, const Instance *wanted);
void compute_use_made(ComputeBuild *b, const Visit *visit);
Compute *compute_new(ComputeBuild *b, ComputeKind kind, const Op *op);

/* ---- computations_fold.c: of `now` ---- */
void compute_build_reduction(ComputeBuild *b); /* reduce and dot */
void compute_build_fold(ComputeBuild *b);      /* by a function of the program */
void compute_build_scan(ComputeBuild *b);

/* ---- computations_domain.c ---- */
/* True if the op is a select that gives `fn`'s identity where its condition does not hold: then its
 * condition is one of the computation's, and `term` is what counts where it holds. */
bool compute_take_condition(ComputeBuild *b, Instance *term, const char *fn, unsigned factors);

/* ---- computations_opaque.c ---- */
void compute_build_opaque(ComputeBuild *b);

/* ---- computations_align.c ---- */
void computations_align(ComputeBuild *b);

#endif
