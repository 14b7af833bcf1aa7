/* SPDX-License-Identifier: Apache-2.0 */
/* The computations of a function at the tensor level: what is computed over which axes, which
 * elements of which tensors it reads and writes, and under which conditions its terms exist. The
 * analysis begins at the statements that write and looks at each value where it is needed: an
 * instance is a value with one affine map for each of its axes, over the axes of the computation
 * that reads it. Element-wise ops, and ops and gathers that only move elements (permute, expand,
 * squeeze, broadcast, reshape, slices, reversal), are part of the computation that reads them and
 * end up in the maps of its uses. It changes no IR, and its answers hold until the IR changes. */
#ifndef TESSERA_PASSES_ANALYSIS_COMPUTATIONS_H
#define TESSERA_PASSES_ANALYSIS_COMPUTATIONS_H

#include "ir/memo.h"
#include "ir/sum_terms.h"
#include "passes/analysis/affine_map.h"

typedef struct Compute Compute;

typedef enum ComputeKind {
    COMPUTE_POINT,  /* a statement: each of its elements by itself */
    COMPUTE_FOLD,   /* reductions of one function, one right behind the other; a dot is a sum */
    COMPUTE_SCAN,   /* a running reduction */
    COMPUTE_OPAQUE, /* sort, rank, while, messages, atomics, and what the source tiles by hand: its
                     * uses are known, what it does is not */
} ComputeKind;

typedef enum ComputeRole {
    ROLE_KEPT,    /* the result has it */
    ROLE_REDUCED, /* terms along it are combined in any order */
    ROLE_SCANNED,
    ROLE_ORDERED, /* of an opaque computation: it needs elements along it in an order of its own */
} ComputeRole;

/* Values that the maps of an instance say elements of: axis i of the value is at[i]. */
typedef struct Instance {
    Value *value;
    const Affine *at[MAX_RANK];
} Instance;

uint64_t instance_hash(const Instance *of);
bool instance_same(const Instance *a, const Instance *b);
/* Element `at` of the result of an op that moves axes is this element of its operand. */
Instance instance_moved(AxisSpace *space, const Op *op, const Affine *const *at);

/* An index of a use is inside 0 … extent - 1, or else the read gives `otherwise`: of a gather from
 * an array whose elements are computed where they are needed. */
typedef struct UseGuard {
    const Affine *at;
    Dim extent;
    const struct UseGuard *next; /* of a gather around this one */
} UseGuard;

typedef enum UseMode { USE_READ, USE_WRITE, USE_ATOMIC } UseMode;

/* Elements of a tensor, or of the result of another computation. */
typedef struct Use {
    UseMode mode;
    int rank;
    Value *memory;              /* a tensor; NULL: what `made` computes */
    uint32_t version;           /* statements before this one that write the memory */
    Compute *made;              /* NULL: a tensor */
    const Affine *at[MAX_RANK]; /* NULL: the whole axis, or computed[i] */
    Value *computed[MAX_RANK];  /* an index that has no map; else NULL */
    bool guarded[MAX_RANK];     /* it may be outside, where the read gives `otherwise` and a write
                                 * does nothing */
    const Attr *otherwise;      /* NULL: 0 */
    const UseGuard *guards;
    unsigned factors; /* of a product: bits of the factors that need it; 0: neither does */
    const Op *op;     /* that accesses the memory, or that makes the value */
} Use;

typedef enum ConstraintKind {
    WHERE_AT_LEAST,  /* of + data >= 0 */
    WHERE_ZERO,      /* of = 0 */
    WHERE_CONGRUENT, /* of is a multiple of `mod` */
    WHERE_HOLDS,     /* it has no map */
} ConstraintKind;

/* A condition without which a term of a reduction does not exist: it gives the identity. */
typedef struct Constraint {
    ConstraintKind kind;
    const Affine *of;
    Dim mod;
    Instance data;    /* an integer that has no map, as length[b]; `value` NULL: there is none */
    int sign;         /* of `data`: 1 or -1 */
    Instance holds;   /* the bool array that says so … */
    bool negated;     /* … or that says the opposite */
    const Op *select; /* that has it */
    unsigned factors; /* of a product: it stands on these; 0: behind the product */
} Constraint;

typedef struct ComputeAxis {
    const Axis *axis;
    ComputeRole role;
    unsigned factors; /* of a product: bits of the factors that vary along it */
} ComputeAxis;

struct Compute {
    int id;
    ComputeKind kind;
    Instance result; /* `value` NULL: a statement */
    const Op *op;    /* the statement, the outermost reduction, or what is opaque */
    const char *fn;  /* sum, prod, max, min of reductions; else the op's name */
    struct {
        ComputeAxis *items;
        size_t n, cap;
    } axes;
    struct {
        Constraint *items;
        size_t n, cap;
    } where;
    struct {
        Op **items; /* arithmetic on elements, users before what they use */
        size_t n, cap;
    } body;
    struct {
        Use *items;
        size_t n, cap;
    } uses;
    struct {
        const Instance **items; /* all that it looks at, for questions about values */
        size_t n, cap;
    } instances;
    Instance term;       /* of a reduction: what is combined, behind the conditions */
    bool is_product;     /* a sum of products of two factors … */
    Instance factors[2]; /* … these, behind casts, moved axes and conditions: where they are 0, the
                          * factors are */
    bool is_built;       /* it was looked into */
};

/* Two axes of different computations along which both read the same elements of something: a plan
 * may iterate over them together. The analysis only says that it is possible. */
typedef struct Alignment {
    const Axis *axis, *with; /* `with` was made first */
    const Op *by;            /* reads; NULL: both are written, at the same place of equal extent */
} Alignment;

typedef struct Computations {
    AxisSpace space;
    struct {
        Compute **items;
        size_t n, cap;
    } all; /* statements in their order, each before the computations that it needs */
    struct {
        Alignment *items;
        size_t n, cap;
    } aligned;
    int *classes; /* by axis id: the id of an axis that it is aligned with, or its own */
    struct ComputeBuild *build;
} Computations;

/* Of all statements of the block: of a function, or of the region of a fusion group. */
Computations an_computations(Func *func, Block *block);

/* For questions about single ops: what is computed at all places of their result, over axes of its
 * own. Nothing is said of the computations that it uses. An answer holds as long as the op and what
 * it is computed from stay. */
Computations *computations_open(Func *func);
const Compute *computations_of(Computations *all, const Op *op);
/* The computation of a sum of products in f32, i32 or u32, of which nothing else reads a part;
 * NULL: the op is no such sum. */
const Compute *computations_product(Computations *all, const Op *op);
/* Elements of the value along new axes, one for each of its own. */
Instance computations_own(Computations *all, Value *value);
/* The map of an integer array at these elements; NULL: it has none. */
const Affine *computations_map(Computations *all, const Value *index, const Affine *const *at);
void computations_close(Computations *all);

void computations_print(Computations *all, Text *out);

/* The axes of a product: M, N, K and batch are sets of axes. */
typedef struct ProductAxes {
    uint64_t m, n, k, batch; /* bits of Compute.axes */
    uint64_t summed[2];      /* reduced axes along which one factor alone varies */
    uint64_t none;           /* kept axes along which neither does: conditions have them */
} ProductAxes;
/* False: the computation is no sum of products, or has more axes than there are bits. */
bool compute_product_axes(const Compute *compute, ProductAxes *axes);

/* Axes of the products, as bits. */
typedef struct TermAxes {
    unsigned kept, summed; /* of the result, and the others */
    unsigned factors[2];   /* along which the factor varies */
} TermAxes;
/* False: an axis of the computation is not one axis of its term. */
bool compute_term_axes(const Compute *compute, TermAxes *axes);
/* The axis of the term that is this one; -1: none, or several. */
int compute_term_axis(const Compute *compute, const Axis *axis);
/* The axes of the term on which the map depends, as bits. */
unsigned compute_axes_of(const Compute *compute, const Affine *map);
/* True if a condition stands behind the products, and not on a factor. */
bool compute_masks_products(const Compute *compute);
/* True if one of the conditions is the select's. */
bool compute_has_select(const Compute *compute, const Op *select);

/* The axis that it is aligned with, through any number of steps; or itself. */
const Axis *computations_aligned(const Computations *all, const Axis *axis);

#endif
