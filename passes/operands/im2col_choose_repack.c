/* SPDX-License-Identifier: Apache-2.0 */
/* Decides how the input of a convolution is copied so that the copy engine can walk it, and whether
 * the copy takes less time than the threads that would gather its elements otherwise. The copies
 * themselves are made in im2col_repack.c. */
#include "ir/nominal_sizes.h"
#include "ir/target/target.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/cost_model.h"
#include "passes/analysis/exact_values.h"
#include "passes/operands/im2col_view.h"
#include "support/int_math.h"

#include <math.h>

enum {
    /* Elements of a product's step that a tap with fewer channels leaves empty, for matrix units,
     * and for multiply-adds in f32, of which a row of a tile has at least FMA_ROW. */
    DEPTH = 64,
    FMA_DEPTH = 16,
    FMA_ROW = 8,
    COLUMNS = 128, /* of a tile that gathers */
    MAX_ELEMENTS = 1 << 30,
    MAX_TAPS = 64, /* of an axis, that are joined */
};

/* Cycles of a multiprocessor, measured on the H200 (docs/lab/convolutions.md). An element of 16
 * bits that is gathered into a tile takes 0.46 to 2.9, one of few channels, each with an address of
 * its own, 3.7 to 29; one that is copied, and loaded again, takes up to 0.53, or 1.3 where taps
 * are joined. */
static const double GATHER_WHOLE = 0.462, GATHER_FEW = 3.7, COPY = 0.528, COPY_JOINED = 1.32;
/* By the model, of multiply-adds in f32: what an element that threads gather takes more than one
 * that the copy engine brings, for each column that it is multiplied with, and what an element of
 * joined taps takes that is copied and loaded again. */
static const double FMA_GATHER = 0.016, FMA_COPY_JOINED = 0.6;
/* The same of few channels, measured (docs/lab/convolutions.md): of an element and column all that
 * a product takes of gathered elements, of rows of at least WIDE_ROW places, and of joined taps,
 * and a row of joined taps that the copy engine walks meanwhile. */
static const double FEW_GATHERED = 0.045, FEW_WALKED = 0.0225, WALKED_ROW = 9, WIDE_ROW = 64;
/* The same, by the model: a pixel that the copy engine walks takes two cache lines of the rate of
 * L2, however few channels it has; an element that is copied from pixels by wide accesses is
 * written, and read from L2. */
static const double WALKED_PIXEL = 4, WIDE_COPY = 0.27;
/* What a tile waits, in each step, for elements that threads gather. */
static const double GATHERED_STEP = 1000;
enum { LAUNCHES = 2 };
static const double MAX_GROWTH = 1.25; /* of a copy of whole windows, over its tensor */

/* Does the other factor change along the product's axis that is this of the gather's? */
static bool is_weighed(const Im2colMatch *w, int axis)
{
    unsigned varies = an_varies(w->varies, w->sums.mul->operands[1 - w->side]);
    return axis >= 0 && (varies >> im2col_product_axis(w, axis) & 1);
}

/* Factors of 16 bits, which the matrix unit multiplies. */
static bool is_narrow(DType dtype)
{
    return dtype == DT_F16 || dtype == DT_BF16;
}

static int64_t depth_of(const Im2colMatch *w)
{
    return is_narrow(w->view.of->type->dtype) ? DEPTH : FMA_DEPTH;
}

/* Steps of the product's depth, for each place. */
static int64_t steps(const Im2colMatch *w, int64_t taps, int64_t channels)
{
    return taps * ceil_div(channels, depth_of(w));
}

/* The filters' taps along the spatial axis, if their number is known and few enough to join; -1. */
static int64_t joinable_taps(const Im2colMatch *w, int spatial)
{
    int tap = w->tap[spatial];
    int64_t taps = is_weighed(w, tap) ? poly_exact(im2col_extent(w, tap)) : -1;
    return taps <= MAX_TAPS ? taps : -1;
}

/* How many of the last spatial axes have taps that are joined with few channels: all, where their
 * windows do not overlap, or else those from the last one on that has several, where steps are
 * emptier without. */
static int joined_axes(const Im2colMatch *w)
{
    int64_t channels = poly_exact(im2col_extent(w, w->channels)), all = 1;
    double grows = 1;
    if (channels <= 0 || channels >= depth_of(w) || !is_weighed(w, w->channels)) {
        return 0;
    }
    for (int i = 0; i < w->view.n; i++) {
        int64_t taps = joinable_taps(w, i);
        all = all > 0 && taps > 0 ? all * taps : -1;
        grows *= (double)taps / (double)w->view.axes[i].stride;
    }
    if (all > 1 && grows <= MAX_GROWTH) {
        return w->view.n;
    }
    int joined = 1;
    int64_t taps = joinable_taps(w, w->view.n - 1);
    for (; taps == 1 && joined < w->view.n; joined++) {
        taps = joinable_taps(w, w->view.n - joined - 1);
    }
    return taps > 1 && steps(w, 1, taps * channels) < steps(w, taps, channels) ? joined : 0;
}

/* Are channels whole pieces of 16 bytes? */
static bool is_whole_pieces(const Im2colMatch *w)
{
    int64_t bytes = dtype_bytes(w->view.of->type->dtype);
    return poly_divisor(im2col_extent(w, w->channels)) * bytes % IM2COL_PIXEL_BYTES == 0;
}

Im2colRepack im2col_repack_kind(Im2colMatch *w, bool joins)
{
    DType dtype = w->view.of->type->dtype;
    bool narrow = is_narrow(dtype), whole = is_whole_pieces(w);
    /* The engine fills tiles of at least 32 bytes a row: so many whole pieces are deep enough. */
    bool shallow = dtype == DT_F32 &&
                   (!whole || poly_most(im2col_extent(w, w->channels)) < FMA_ROW);
    w->joined = joins && (narrow || shallow) ? joined_axes(w) : 0;
    if (w->joined) {
        return REPACK_JOINED;
    }
    if (whole) {
        return im2col_is_ordered(w) ? REPACK_NONE : REPACK_PERMUTED;
    }
    bool pads = (narrow || dtype == DT_F32) && is_weighed(w, w->channels);
    return pads ? REPACK_PADDED : REPACK_NONE;
}

/* Elements that tiles would gather: of each place's window, once for each tile of columns, which
 * are `*per_tile`. */
static double gathered(const Im2colMatch *w, double *per_tile)
{
    Type all = w->sums.mul->results[0]->type;
    unsigned varies = an_varies(w->varies, w->sums.mul->operands[w->side]);
    double window = 1, columns = 1;
    for (int i = 0; i < all->rank; i++) {
        *(varies >> i & 1 ? &window : &columns) *= (double)poly_nominal(all->dims[i]);
    }
    *per_tile = columns < COLUMNS ? columns : COLUMNS;
    return window * columns / *per_tile;
}

/* Do the filters have the type of the image, or elements that it has, as the taps that a transposed
 * convolution picks for a phase? Others would be a product's operand in f32. */
static bool filters_fit(const Im2colMatch *w)
{
    return an_exact_in(w->sums.mul->operands[1 - w->side], w->view.of->type->dtype);
}

/* Do fewer pixels for the engine to walk pay for putting this many taps side by side? */
static bool joins_pixels(const Machine *machine, const Im2colMatch *w, double elements, double taps)
{
    int64_t channels = poly_nominal(im2col_extent(w, w->channels));
    double columns, pixels = gathered(w, &columns) / (double)channels;
    double left = (double)steps(w, 1, (int64_t)taps * channels) / taps;
    return pixels * (1 - left) * WALKED_PIXEL >
           elements * WIDE_COPY + cost_launches(machine, 1) * machine->num_sms;
}

/* Of all multiprocessors, while each waits for the gathered steps of one tile. */
static double waits(const Machine *machine, const Im2colMatch *w)
{
    double steps = (double)ceil_div(poly_nominal(im2col_extent(w, w->channels)), depth_of(w));
    for (int i = 0; i < w->view.n; i++) {
        steps *= w->tap[i] >= 0 ? (double)poly_nominal(im2col_extent(w, w->tap[i])) : 1;
    }
    return steps * GATHERED_STEP * machine->num_sms;
}

/* Cycles that the gathered elements of all tiles take. `few`: channels fill no access. Waits do not
 * count for few channels of f32: schedules name an axis of joined taps by its position, which a
 * given tile of another axis can change, and small convolutions would get such axes. */
static double gather_cycles(const Machine *machine, const Im2colMatch *w, bool few)
{
    double columns, elements = gathered(w, &columns);
    bool narrow = is_narrow(w->view.of->type->dtype);
    double each = few ? GATHER_FEW : GATHER_WHOLE;
    if (!narrow) {
        double row = (double)poly_nominal(im2col_extent(w, w->place[w->view.n - 1]));
        double all = FEW_GATHERED * fmax(1, WIDE_ROW / fmax(1, row));
        each = (few ? all - FEW_WALKED : FMA_GATHER) * columns;
    }
    return few && !narrow ? elements * each : fmax(elements * each, waits(machine, w));
}

/* Cycles that an element takes to be copied, and loaded again. */
static double copy_cycles(const Im2colMatch *w, bool joins)
{
    if (!joins) {
        return COPY;
    }
    return is_narrow(w->view.of->type->dtype) ? COPY_JOINED : FMA_COPY_JOINED;
}

/* What the copy engine takes to walk rows of joined taps beyond the multiply-adds of their product,
 * which matrix units would end sooner. */
static double walk_cycles(const Im2colMatch *w, double taps)
{
    double columns, elements = gathered(w, &columns);
    double channels = (double)poly_nominal(im2col_extent(w, w->channels));
    return elements * fmax(0, WALKED_ROW / (channels * taps) - FEW_WALKED * columns);
}

bool im2col_repack_pays(const Func *func, const Im2colMatch *w, Im2colRepack copy)
{
    const Machine *machine = func->target->machine;
    Type of = w->view.of->type;
    bool joins = copy == REPACK_JOINED;
    double elements = 1, taps = 1;
    for (int i = 0; i < of->rank; i++) {
        elements *= (double)poly_nominal(of->dims[i]);
    }
    for (int i = w->view.n - w->joined; joins && i < w->view.n; i++) {
        taps *= (double)poly_nominal(im2col_extent(w, w->tap[i]));
        elements *= (double)poly_nominal(im2col_extent(w, w->place[i])) /
                    (double)poly_nominal(of->dims[w->from[1 + i]]);
    }
    elements *= taps;
    bool walked = joins && is_whole_pieces(w) &&
                  (im2col_is_ordered(w) || im2col_repack_pays(func, w, REPACK_PERMUTED));
    bool shallow = copy == REPACK_PADDED && !is_narrow(of->dtype) &&
                   poly_least(im2col_extent(w, w->channels)) < FMA_ROW - 1;
    return !shallow && (copy == REPACK_PERMUTED || filters_fit(w)) && elements <= MAX_ELEMENTS &&
           (!walked || joins_pixels(machine, w, elements, taps)) &&
           gather_cycles(machine, w, joins || copy == REPACK_PADDED) >
               elements * copy_cycles(w, joins) +
                   (joins && !is_narrow(of->dtype) ? walk_cycles(w, taps) : 0) +
                   cost_launches(machine, LAUNCHES) * machine->num_sms;
}
