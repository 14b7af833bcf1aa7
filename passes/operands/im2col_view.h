/* SPDX-License-Identifier: Apache-2.0 */
/* Windows that the copy engine may walk: what pass windows finds, and copies of tensors that lie so
 * that it can. */
#ifndef TESSERA_PASSES_OPERANDS_IM2COL_VIEW_H
#define TESSERA_PASSES_OPERANDS_IM2COL_VIEW_H

#include "ir/build.h"
#include "ir/memo.h"

enum { WINDOW_NO_AXIS = -1 };

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
} Im2colMatch;

typedef enum Im2colRepack {
    COPY_NONE,   /* the tensor lies so that the engine walks it, or no copy of it does; */
    COPY_TURNED, /* a copy with channels last does, */
    COPY_PADDED, /* or one with zeros behind them, too; */
    COPY_JOINED, /* the taps of a row and their few channels, side by side, are a product's depth */
} Im2colRepack;

/* Has the tensor its images first, its channels last? */
bool window_is_ordered(const Im2colMatch *window);
/* Also decides how many axes are joined, if any may be. */
Im2colRepack window_copy(Im2colMatch *window, bool joins);
/* Do the sizes that are known say that the copy takes less time than the product gains? */
bool window_copy_pays(const Im2colMatch *window, Im2colRepack copy);
/* Of a turned copy: its view is ready to be read. */
void window_turn(Func *func, Im2colMatch *window);
/* Is a joined copy better made of a turned one? */
bool window_turns_before_join(const Im2colMatch *window);
/* Of others: makes the whole sum anew, of a copy of the images and one of the filters. */
void window_join(Func *func, const Im2colMatch *window, Im2colRepack copy);

#endif
