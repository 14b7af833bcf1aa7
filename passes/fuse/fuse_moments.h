/* SPDX-License-Identifier: Apache-2.0 */
/* Partial reductions in the epilogue of a dot. fuse_epilogue_folds.c decides which reductions move
 * there and what is stored; fuse_moments.c builds their replacements. Private to fuse. */
#ifndef TESSERA_PASSES_FUSE_FUSE_MOMENTS_H
#define TESSERA_PASSES_FUSE_FUSE_MOMENTS_H

#include "ir/memo.h"
#include "passes/fuse/fuse_value_at.h"

enum { MAX_FOLDS = 32 /* of one dot */ };

/* What the epilogue makes along one axis of the dot's result, which a tile holds whole, or in parts
 * of `by` elements. */
typedef struct Base {
    Value *value;
    int axis;
    const Op *dot;
    int place;    /* the axis of the dot's result */
    int64_t step; /* of its tiles along that */
    int64_t by;   /* 0: whole */
    Dim parts;    /* how many: 1, or what the extent comes to */
} Base;

/* What a reduction sums: scale * (x - centre) + shift, where x is a view of the base. Absent: 1, 0,
 * 0. All of them are the same along the axis. */
typedef struct AffineView {
    Value *view;
    Value *scale, *centre, *shift;
} AffineView;

typedef struct PartialFold {
    Op *fold;
    Base base;
    AffineView of;        /* of reductions that are no sums the view alone */
    bool squares;         /* of it are summed; then there is no shift */
    Op *difference;       /* NULL, or the base less what its maximum is: the sum is of exponentials
                           * of that */
    int place, n_chained; /* of the reductions that follow one another from `fold` on, this one */
} PartialFold;

/* What the epilogue makes of a base; NULL: it has not been asked for. */
typedef struct Moments {
    Base base;
    Value *sum, *mean, *square, *rest; /* from the mean: sums of squares and of differences */
} Moments;

/* The reductions of one dot's result. */
typedef struct EpilogueFolds {
    Func *func;
    Block *block;
    const Op *dot;
    Memo *without; /* values that are made of no dot, by axis */
    PartialFold partials[MAX_FOLDS];
    Moments moments[MAX_FOLDS];
    Value *others[MAX_FOLDS]; /* results of other reductions */
    Op *picks[MAX_FOLDS];     /* gathers of one element of each row */
    int n, n_moments, n_others, n_picks;
} EpilogueFolds;

/* The axis of op->operands[0] that a view has as its axis `axis`: elements are left as they are;
 * -1: it is no view, or has no such axis. */
int fuse_viewed_axis(const Op *op, int axis);

/* Is the value the same along the axis? */
bool fuse_is_constant_along(const Value *value, int axis);
/* `of` is what operand `at` of the element-wise op is: makes it what the result is. False: that is
 * not affine. */
bool fuse_step_affine(Builder *b, const Op *op, int at, int axis, AffineView *of);
/* The reduction by `fn` of each part of a value that has the base's type. */
Value *fuse_reduce_parts(Builder *b, const Base *base, const char *fn, Value *value);
/* That of the base itself, which is made once. */
Value *fuse_part_of_base(EpilogueFolds *f, const Base *base, const char *fn);
/* fuse_exponentials.c: is the value exp, or 2 to the power, of another one? */
bool fuse_is_exponential(const Value *value);
/* The difference of something from what its maximum along the axis is, if the
 * reduction sums exponentials of that; NULL: it does not. `instructions`: of an exponential. */
Op *fuse_find_difference(Func *func, const Op *fold, int axis, int *instructions);
/* The sums of the parts, each for the maximum of all of its row. */
Value *fuse_sum_exponentials(EpilogueFolds *f, Builder *b, const PartialFold *partial);
/* fuse_picked.c: notes the gathers that read, of each row of a base in parts or of what is made of
 * it, one element at a place that lies in memory; NULL: there are none. */
const Base *fuse_find_picks(EpilogueFolds *f);
/* Makes one a sum over the row. */
void fuse_pick(Func *func, Op *gather, const Base *base);
/* The type with another extent along the axis. */
Type fuse_with_extent(Func *func, Type type, int axis, Dim extent);

/* Puts what the epilogue can make, and little work on it, in the place of the reduction. False:
 * some of what is the same along the axis costs too much to be computed again. */
bool fuse_reduce_in_epilogue(EpilogueFolds *f, const PartialFold *partial);

#endif
