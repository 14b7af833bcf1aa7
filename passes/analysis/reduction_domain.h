/* SPDX-License-Identifier: Apache-2.0 */
/* The domain of a sum of products at the tensor level: the conditions under which a term counts,
 * wherever the program has them: behind the product (`sum(k in K if k <= i)`), or on a factor (`x
 * if k <= i else 0`, a mask). A term that does not count adds 0. */
#ifndef TESSERA_PASSES_ANALYSIS_REDUCTION_DOMAIN_H
#define TESSERA_PASSES_ANALYSIS_REDUCTION_DOMAIN_H

#include "passes/analysis/affine_index.h"
#include "passes/analysis/summed_products.h"

enum { MAX_ATOMS = 16, MAX_SELECTS = 8 };

typedef enum AtomKind {
    ATOM_OTHER,        /* a condition that has no form */
    ATOM_NOT_NEGATIVE, /* form >= 0 */
    ATOM_CONGRUENT,    /* form is a multiple of `by` */
} AtomKind;

/* One of the conditions that all must hold. */
typedef struct DomainAtom {
    AtomKind kind;
    const IndexForm *form; /* over the product's axes */
    int64_t by;
    Value *condition;   /* the bool array that says so … */
    bool negated;       /* … or that says the opposite */
    int axes[MAX_RANK]; /* axis i of it is this axis of the product; -1: it has one element */
} DomainAtom;

typedef struct ReductionDomain {
    SummedProduct sums; /* `mul` without the conditions behind it */
    DomainAtom atoms[MAX_ATOMS];
    int n_atoms;
    const Op *selects[MAX_SELECTS]; /* what has the conditions: select of a condition, a value, 0 */
    int n_selects;
} ReductionDomain;

/* False: `sum` is not the outermost one of f32 products, or has too many conditions. `forms`: of
 * an_index_form. */
bool an_reduction_domain(Func *func, Memo *forms, Op *sum, ReductionDomain *domain);
/* True if the op is one of the domain's selects. */
bool domain_has_select(const ReductionDomain *domain, const Op *op);
/* The read below a factor, behind casts, moves of axes and the domain's selects: where it reads 0,
 * the factor is 0. axes[i]: the product's axis that axis i of its result is; -1: none. NULL: the
 * factor is more than a read. */
const Op *domain_factor_read(const ReductionDomain *domain, const Value *factor, int *axes);

#endif
