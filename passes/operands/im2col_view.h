/* SPDX-License-Identifier: Apache-2.0 */
/* The window that im2col_view has matched, and the copies (im2col_repack.c) of tensors into a form
 * that TMA's im2col mode can load. */
#ifndef TESSERA_PASSES_OPERANDS_IM2COL_VIEW_H
#define TESSERA_PASSES_OPERANDS_IM2COL_VIEW_H

#include "ir/build.h"
#include "ir/memo.h"

enum {
    IM2COL_NO_AXIS = -1,
    IM2COL_PIXEL_BYTES = 16 /* the engine's rows begin at multiples of this many */
};

/* Sums of sums of a product, none of which anything else reads; axes numbered as the product's. */
typedef struct SummedProduct {
    Op *last; /* the outermost sum */
    Op *mul;
    unsigned summed;  /* axes of the product */
    unsigned dropped; /* of these, between the sums */
    int rank;
} SummedProduct;

typedef struct Im2colMatch {
    Op *gather;
    Memo *varies;         /* of an_varies */
    Im2colView view;      /* its spatial axes in the order in which the tensor has them */
    int images, channels; /* axes of the gather */
    int place[MAX_SPATIAL], tap[MAX_SPATIAL];
    int from[2 + MAX_SPATIAL]; /* which of the tensor's axes: images, spatial ones, channels */
    SummedProduct sums;        /* whose factor it is, … */
    int side;                  /* … and which */
    int axes[MAX_RANK];        /* of the product's axes: the gather's */
    int joined; /* spatial axes, the last ones, whose taps are joined with channels */
    const DimVar *step; /* a size that is a step of its windows, which the facts fix; or NULL */
} Im2colMatch;

typedef enum Im2colRepack {
    REPACK_NONE,     /* the tensor lies so that the engine walks it, or no copy of it does; */
    REPACK_PERMUTED, /* a copy with channels last does, */
    REPACK_PADDED,   /* or one with zeros behind them, too; */
    REPACK_JOINED,   /* the taps of a row, each with its few channels, are a product's depth */
} Im2colRepack;

/* Of the gather's axis. */
Dim im2col_extent(const Im2colMatch *window, int axis);
/* Of the product's axes: the one that is this of the gather's; IM2COL_NO_AXIS: none. */
int im2col_product_axis(const Im2colMatch *window, int axis);
/* Has the tensor its images first, its channels last? */
bool im2col_is_ordered(const Im2colMatch *window);
/* Also decides how many axes are joined, if any may be. */
Im2colRepack im2col_repack_kind(Im2colMatch *window, bool joins);
/* Do the sizes that are known say that the copy takes less time than the product gains? */
bool im2col_repack_pays(const Func *func, const Im2colMatch *window, Im2colRepack copy);
/* Makes the view read the scratch tensor, which has its axes in the view's order. */
void im2col_read_from(Im2colMatch *window, const Value *scratch);
/* Makes the permuted copy, which the view reads from then on. */
void im2col_permute(Func *func, Im2colMatch *window);
/* Is a joined copy better made of a permuted one? */
bool im2col_permutes_before_join(const Im2colMatch *window);
/* Of others: makes the whole sum anew, of a copy of the images and one of the filters. */
void im2col_join(Func *func, const Im2colMatch *window, Im2colRepack copy);

#endif
