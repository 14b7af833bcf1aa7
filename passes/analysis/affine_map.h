/* SPDX-License-Identifier: Apache-2.0 */
/* Index maps of computations (computations.h): sums of axes times size expressions. An axis is an
 * identity: two axes are the same exactly if their pointers are. The quotient or remainder of a map
 * is an axis of its own, so that a map is always a base plus terms: a reshape of `j` reads at the
 * axes `j // D` and `j % D`, and their sum D * (j // D) + j % D is `j` again. */
#ifndef TESSERA_PASSES_ANALYSIS_AFFINE_MAP_H
#define TESSERA_PASSES_ANALYSIS_AFFINE_MAP_H

#include "ir/ir.h"
#include "support/hash_table.h"
#include "support/text.h"

typedef struct Affine Affine;

typedef enum AxisMake {
    AXIS_BASE,  /* it is iterated over */
    AXIS_OUTER, /* of // by, rounded down; 0 if `by` is 0 */
    AXIS_INNER, /* of % by */
} AxisMake;

typedef struct Axis {
    AxisMake make;
    int id;           /* in its AxisSpace, in the order in which they were made */
    const char *name; /* unique in its AxisSpace; NULL: map_name_axes has not run */
    Dim extent;       /* it is at least 0 and less than that; NULL: neither is known */
    const Affine *of; /* of an outer or inner one */
    Dim by;
    const Value *from; /* of a base axis: a value that has it, whose name it gets; may be NULL */
} Axis;

typedef struct Term {
    const Axis *axis;
    Dim coef; /* not 0 */
} Term;

struct Affine {
    Dim base;
    int n;
    Term terms[]; /* sorted by the axes' id */
};

/* Owner of axes. */
typedef struct AxisSpace {
    Func *func;
    struct {
        Axis **items;
        size_t n, cap;
    } axes;
    HashTable derived; /* outer and inner axes */
} AxisSpace;

Axis *axis_new(AxisSpace *space, Dim extent, const Value *from);

/* The functions below return NULL if an operand is NULL, if a size expression overflows, and if the
 * index that the map stands for might overflow: the arithmetic on maps is exact. */
const Affine *map_dim(AxisSpace *space, Dim base);
const Affine *map_number(AxisSpace *space, int64_t base);
const Affine *map_axis(AxisSpace *space, const Axis *axis);
const Affine *map_add(AxisSpace *space, const Affine *a, const Affine *b);
const Affine *map_scale(AxisSpace *space, const Affine *a, Dim by);
const Affine *map_subtract(AxisSpace *space, const Affine *a, const Affine *b);
/* a // by and a % by, simplified by what the extents of axes prove. */
const Affine *map_divide(AxisSpace *space, const Affine *a, Dim by);
const Affine *map_modulo(AxisSpace *space, const Affine *a, Dim by);
/* The map with by[i] for each of the base axes axes[i]; others stay. */
const Affine *map_substitute(AxisSpace *space, const Affine *a, int n, const Axis *const *axes,
                             const Affine *const *by);

bool map_equal(const Affine *a, const Affine *b);
/* Folds the map into a hash (hash_word). */
uint64_t map_hash(uint64_t hash, const Affine *a);
/* The axis that the map is; NULL: it is another map. */
const Axis *map_as_axis(const Affine *a);
/* The term of the axis; NULL: there is none. */
const Term *map_term(const Affine *a, const Axis *axis);
/* The number that the axis is multiplied by; 0: the map has no such term. False: it is no
 * number. */
bool map_coef(const Affine *a, const Axis *axis, int64_t *coef);
/* True if the map has no axes. */
bool map_is_dim(const Affine *a);
/* True if the map is this number. */
bool map_is_number(const Affine *a, int64_t *number);
/* True if all of its axes are base axes: it has no quotients or remainders. */
bool map_is_sum(const Affine *a);
/* True if the map depends on the base axis, be it through quotients and remainders. */
bool map_depends_on(const Affine *a, const Axis *base);
/* Its least and greatest value as size expressions; NULL where one is not known. */
void map_bounds(AxisSpace *space, const Affine *a, Dim *lo, Dim *hi);
/* True if the map is at least 0 and less than `extent` for all sizes. */
bool map_is_inside(AxisSpace *space, const Affine *a, Dim extent);

/* Gives all axes their names. */
void map_name_axes(AxisSpace *space);
void map_print(const AxisSpace *space, const Affine *a, Text *out);

#endif
