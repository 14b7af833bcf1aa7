/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the inputs of convolutions that TMA's im2col mode cannot load (im2col_view.c) into a form
 * that it can load, once, by launches of their own.
 *
 * An image whose channels are not the last axis is copied with channels last; one whose channels
 * are no multiple of 16 bytes is padded with zeros. If a pixel has few channels, each filter tap
 * would fill only a small part of the dot's k step; then the elements that the taps along the last
 * spatial axis read are made contiguous:
 *
 *   sum(r, s, c) x[b, 2*p + r, 2*q + s, c] * w[o, r, s, c]
 *
 *   z[b, h, q, k] = x[b, h, 2*q + k // C, k % C]        k < S*C, and zeros up to 16 bytes
 *   v[o, r, k] = w[o, r, k // C, k % C]             →   sum(r, k) z[b, 2*p + r, q, k] * v[o, r, k]
 *
 * For each output position along that axis, the copy has the elements of the taps along that axis
 * only, not of the whole window; windows that do not overlap are copied as a whole. Images whose
 * channels are not last and fill vectors of 8 bytes are permuted first, because gathering single
 * elements takes longer than a second copy with wide accesses. Zeros are added to the sum, and its
 * association order changes. */
#include "passes/operands/im2col_view.h"

#include "ir/drop_axis.h"
#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/exact_values.h"
#include "support/int_math.h"

/* Of the channels of a pixel, that an access of the joined copy takes. */
enum { PERMUTED_BYTES = 8 };

Dim im2col_extent(const Im2colMatch *w, int axis)
{
    return w->gather->results[0]->type->dims[axis];
}

int im2col_product_axis(const Im2colMatch *w, int axis)
{
    for (int i = 0; i < w->sums.rank; i++) {
        if (w->axes[i] == axis) {
            return i;
        }
    }
    return IM2COL_NO_AXIS;
}

bool im2col_is_ordered(const Im2colMatch *w)
{
    for (int i = 0; i < w->view.n + 2; i++) {
        if (w->from[i] != i) {
            return false;
        }
    }
    return true;
}

/* A load of a whole tensor, but for the order of its axes and for its type; axes[i]: which of the
 * tensor's is axis i of the value. NULL: it is none. */
static Op *whole_load(const Value *value, int *axes)
{
    Op *op = value->def;
    for (int i = 0; i < value->type->rank; i++) {
        axes[i] = i;
    }
    while (op && (op->kind == OP_PERMUTE || op->kind == OP_CAST)) {
        for (int i = 0; op->kind == OP_PERMUTE && i < value->type->rank; i++) {
            axes[i] = (int)op_attr(op, ATTR_PERM)->ints[axes[i]];
        }
        op = op->operands[0]->def;
    }
    bool load = op && op->kind == OP_LOAD && op->results[0]->type->rank == value->type->rank;
    return load && op_accesses_whole(op) ? op : NULL;
}

/* ---- copies ---- */

void im2col_read_from(Im2colMatch *w, const Value *scratch)
{
    w->view.of = scratch;
    for (int i = 0; i < w->view.n + 2; i++) {
        w->from[i] = i;
    }
}

void im2col_permute(Func *func, Im2colMatch *w)
{
    Builder b = build_before(func, func->body->first);
    int64_t perm[MAX_RANK];
    Value *all = build_load(&b, (Value *)w->view.of, WHOLE);
    for (int i = 0; i < w->view.n + 2; i++) {
        perm[i] = w->from[i];
    }
    all = im2col_is_ordered(w) ? all : build_permute(&b, all, perm);
    Value *scratch = func_scratch(func, all->type);
    build_store(&b, scratch, WHOLE, all);
    im2col_read_from(w, scratch);
}

bool im2col_permutes_before_join(const Im2colMatch *w)
{
    int64_t bytes = dtype_bytes(w->view.of->type->dtype);
    return !im2col_is_ordered(w) &&
           poly_divisor(im2col_extent(w, w->channels)) * bytes % PERMUTED_BYTES == 0;
}

/* ---- taps joined with channels ---- */

typedef struct Joined {
    Func *func;
    Builder b;
    const Im2colMatch *w;
    int first;     /* spatial axis whose taps are joined */
    unsigned taps; /* axes of the product that are dropped */
    int deep;      /* the one that is longer */
    Dim depth;     /* with zeros, */
    Dim filled;    /* without */
    bool phased;   /* filters have phases of the result */
} Joined;

/* A number that is known is one that is divided by cheaply. */
static Value *sized(Builder *b, Type type, Dim dim)
{
    int64_t n = poly_exact(dim);
    return n >= 0 ? build_int(b, type, n)
                  : build_broadcast(b, build_size(b, dim), type->rank, type->dims);
}

/* What lies along the joined axis for each element of the next of these: channels alone, channels
 * and the last axis' taps, … */
static Dim joined_extent(const Joined *j, int spatial)
{
    const Im2colMatch *w = j->w;
    Dim dim = im2col_extent(w, w->channels);
    for (int i = spatial + 1; i < w->view.n; i++) {
        dim = poly_mul(j->func, dim, im2col_extent(w, w->tap[i]));
    }
    return dim;
}

/* Of what is counted along the joined axis: the tap, which is none of its own behind the last. */
static Value *tap_at(Joined *j, Type type, int axis, int spatial)
{
    Value *each = sized(&j->b, type, joined_extent(j, spatial));
    Value *tap = build_binary(&j->b, OP_DIV, build_places(&j->b, axis, type), each);
    Dim taps = im2col_extent(j->w, j->w->tap[spatial]);
    return spatial == j->first ? tap : build_binary(&j->b, OP_MOD, tap, sized(&j->b, type, taps));
}

static Value *channel_at(Joined *j, Type type, int axis)
{
    Value *at = build_places(&j->b, axis, type);
    Dim channels = im2col_extent(j->w, j->w->channels);
    return j->taps ? build_binary(&j->b, OP_MOD, at, sized(&j->b, type, channels)) : at;
}

static Value *scaled(Builder *b, Value *value, int64_t by)
{
    return by == 1 ? value : build_binary(b, OP_MUL, value, build_int(b, value->type, by));
}

/* Where a spatial axis is read: at a place's tap; outside, behind the last. */
static Value *place_at(Joined *j, Type type, int spatial)
{
    const Im2colMatch *w = j->w;
    int deep = type->rank - 1;
    Value *place =
        scaled(&j->b, build_places(&j->b, 1 + spatial, type), w->view.axes[spatial].stride);
    Value *tap = scaled(&j->b, tap_at(j, type, deep, spatial), w->view.axes[spatial].dilation);
    place = build_binary(&j->b, OP_ADD, place, tap);
    place = build_binary(&j->b, OP_ADD, place, sized(&j->b, type, w->view.axes[spatial].offset));
    Value *filled = sized(&j->b, type, j->filled);
    Value *here = build_cmp(&j->b, "lt", build_places(&j->b, deep, type), filled);
    return spatial == j->first ? build_select(&j->b, here, place, build_int(&j->b, type, -1))
                               : place;
}

/* The images: images, spatial axes, places along the last one, taps joined with channels. */
static Value *joined_images(Joined *j)
{
    const Im2colMatch *w = j->w;
    Type of = w->view.of->type;
    int rank = of->rank, n = w->view.n;
    Dim dims[MAX_RANK];
    Value *indices[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        dims[i] = of->dims[w->from[i]];
    }
    for (int i = j->first; i < n; i++) {
        dims[1 + i] = im2col_extent(w, w->place[i]);
    }
    dims[n + 1] = j->depth;
    Type type = type_array(j->func, DT_I64, rank, dims);
    for (int i = 0; i < n + 1; i++) {
        indices[w->from[i]] =
            i > j->first ? place_at(j, type, i - 1) : build_places(&j->b, i, type);
    }
    indices[w->from[n + 1]] = channel_at(j, type, n + 1);
    Value *all = build_gather(&j->b, (Value *)w->view.of, indices);
    Value *scratch = func_scratch(j->func, all->type);
    build_store(&j->b, scratch, WHOLE, all);
    return scratch;
}

/* The product's axes without the taps. */
static int fewer(const Joined *j, int axis)
{
    return axis - __builtin_popcount(j->taps & ((1u << axis) - 1));
}

/* Of a value whose axis i is axis axes[i] of the new product, stretched to all of its axes. */
static Value *spread(Joined *j, Value *value, const int *axes, const Dim *dims, int rank)
{
    int64_t perm[MAX_RANK] = {0};
    int n = 0;
    for (int axis = 0; axis < rank; axis++) {
        for (int i = 0; i < value->type->rank; i++) {
            if (axes[i] == axis) {
                perm[n++] = i;
            }
        }
    }
    unsigned has = 0;
    for (int i = 0; i < n; i++) {
        has |= 1u << axes[i];
    }
    value = build_permute(&j->b, value, perm);
    value = build_cast(&j->b, value, DT_F32);
    for (int axis = 0; axis < rank; axis++) {
        value = has >> axis & 1 ? value : build_expand(&j->b, value, axis);
    }
    return build_broadcast(&j->b, value, rank, dims);
}

/* A view of what was joined, as a factor. */
static Value *image_factor(Joined *j, const Dim *dims, int rank)
{
    const Im2colMatch *w = j->w;
    Im2colView view = w->view;
    Dim places[MAX_SPATIAL], taps[MAX_SPATIAL];
    int axes[MAX_RANK], n = 0;
    view.of = joined_images(j);
    for (int i = j->first; i < view.n; i++) {
        view.axes[i].stride = 1;
        view.axes[i].dilation = 0;
        view.axes[i].offset = poly_const(j->func, 0);
    }
    axes[n++] = fewer(j, im2col_product_axis(w, w->images));
    for (int i = 0; i < view.n; i++) {
        places[i] = im2col_extent(w, w->place[i]);
        axes[n++] = fewer(j, im2col_product_axis(w, w->place[i]));
    }
    for (int i = 0; i < view.n; i++) {
        taps[i] = view.axes[i].dilation ? im2col_extent(w, w->tap[i]) : NULL;
        if (taps[i]) {
            axes[n++] = fewer(j, im2col_product_axis(w, w->tap[i]));
        }
    }
    axes[n] = fewer(j, j->deep);
    Value *value = build_load(&j->b, func_im2col_view(j->func, &view, places, NULL, taps), WHOLE);
    return spread(j, value, axes, dims, rank);
}

/* The spatial axis whose tap is this of the product's axes; IM2COL_NO_AXIS: none that is joined. */
static int tap_of(const Joined *j, int axis)
{
    for (int i = j->first; i < j->w->view.n; i++) {
        if (im2col_product_axis(j->w, j->w->tap[i]) == axis) {
            return i;
        }
    }
    return IM2COL_NO_AXIS;
}

/* The filters' axes of the product that stay, in the order of their copy: those of the result, of
 * which phases, which only filters have and which come before images, are the last, since their
 * elements are neighbours in the result; then taps. Columns and phases can be collapsed so. */
static void kept_axes(const Joined *j, unsigned varies, unsigned *orders)
{
    unsigned stays = varies & ~(1u << j->deep | j->taps), phases = 0;
    for (int i = im2col_product_axis(j->w, j->w->images); i-- > 0;) {
        bool theirs = j->w->axes[i] < 0;
        phases |= (unsigned)theirs << i;
    }
    unsigned taps = stays & j->w->sums.summed;
    orders[0] = stays & ~phases & ~taps;
    orders[1] = stays & phases & ~taps;
    orders[2] = taps;
}

/* The other factor: taps joined with channels likewise, which are its last axis. */
static Value *filter_factor(Joined *j, const Dim *dims, int rank)
{
    const SummedProduct *sums = &j->w->sums;
    Value *value = sums->mul->operands[1 - j->w->side], *indices[MAX_RANK];
    unsigned varies = an_varies(j->w->varies, value);
    unsigned orders[3];
    int own[MAX_RANK], place[MAX_RANK], axes[MAX_RANK], in[MAX_RANK], n = 0, kept = 0;
    for (int i = sums->rank; i-- > 0;) {
        value = varies >> i & 1 ? value : axis_dropped(&j->b, value, i);
    }
    Dim shape[MAX_RANK];
    for (int i = 0; i < sums->rank; i++) {
        own[n] = i;
        n += (int)(varies >> i & 1);
    }
    kept_axes(j, varies, orders);
    j->phased = orders[1] != 0;
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < n; i++) {
            if (orders[k] >> own[i] & 1) {
                place[i] = kept;
                axes[kept] = fewer(j, own[i]);
                shape[kept++] = value->type->dims[i];
            }
        }
    }
    axes[kept] = fewer(j, j->deep);
    shape[kept] = j->depth;
    const Op *load = whole_load(value, in);
    Type type = type_array(j->func, DT_I64, kept + 1, shape);
    for (int i = 0; i < n; i++) {
        int tap = tap_of(j, own[i]);
        Value **index = &indices[load ? in[i] : i];
        if (tap >= 0) {
            *index = tap_at(j, type, kept, tap);
        } else {
            *index = own[i] == j->deep ? channel_at(j, type, kept)
                                       : build_places(&j->b, place[i], type);
        }
    }
    Value *all = build_gather(&j->b, load ? load->operands[0] : value, indices);
    DType dtype = j->w->view.of->type->dtype;
    bool fits = an_exact_in(value, dtype);
    all = fits ? build_cast(&j->b, all, dtype) : all;
    if (load || fits) {
        Value *scratch = func_scratch(j->func, all->type);
        build_store(&j->b, scratch, WHOLE, all);
        all = build_load(&j->b, func_alias(j->func, scratch), WHOLE);
    }
    return spread(j, all, axes, dims, rank);
}

/* The product's axes in the order of the sum's result. */
static Value *restored(Joined *j, Value *sum)
{
    const SummedProduct *sums = &j->w->sums;
    for (int i = 0; i < sums->rank; i++) {
        if ((sums->summed & ~j->taps) >> i & 1) {
            sum = build_reduce(&j->b, "sum", sum, fewer(j, i));
        }
    }
    /* Phases are scattered: collapse_intermediates follows them through axes that are dropped, not
     * through such that appear. */
    unsigned gone = j->phased ? j->taps & sums->dropped : 0;
    for (int i = 0, at = 0; i < sums->rank; i++) {
        sum = (j->taps & ~gone) >> i & 1 ? build_expand(&j->b, sum, at) : sum;
        at += !(gone >> i & 1);
    }
    for (int i = sums->rank; i-- > 0;) {
        int at = i - __builtin_popcount(gone & ((1u << i) - 1));
        sum = (sums->dropped & ~gone) >> i & 1 ? build_squeeze(&j->b, sum, at) : sum;
    }
    return sum;
}

/* This many elements, and up to the next whole piece. */
static Dim whole_pieces(Func *func, Dim elements, DType dtype)
{
    int64_t piece = IM2COL_PIXEL_BYTES / dtype_bytes(dtype), n = poly_exact(elements);
    if (n >= 0) {
        return poly_const(func, round_up(n, piece));
    }
    Dim up = poly_add(func, elements, poly_const(func, piece - 1));
    return poly_mul(func, poly_const(func, piece),
                    poly_var(func, func_quotient(func, NULL, up, piece)));
}

void im2col_join(Func *func, const Im2colMatch *w, Im2colRepack copy)
{
    Joined j = {.func = func, .w = w, .first = w->view.n - (copy == REPACK_JOINED ? w->joined : 0)};
    Type type = w->sums.mul->results[0]->type;
    Dim dims[MAX_RANK];
    j.b = build_before(func, w->sums.last);
    j.deep = im2col_product_axis(w, w->channels);
    for (int i = j.first; i < w->view.n; i++) {
        j.taps |= 1u << im2col_product_axis(w, w->tap[i]);
    }
    j.filled = joined_extent(&j, j.first - 1);
    j.depth = whole_pieces(func, j.filled, w->view.of->type->dtype);
    int rank = 0;
    for (int i = 0; i < type->rank; i++) {
        if (!(j.taps >> i & 1)) {
            dims[rank++] = i == j.deep ? j.depth : type->dims[i];
        }
    }
    Value *images = image_factor(&j, dims, rank);
    Value *filters = filter_factor(&j, dims, rank);
    Value *first = w->side == 0 ? images : filters, *second = w->side == 0 ? filters : images;
    Value *sum = restored(&j, build_binary(&j.b, OP_MUL, first, second));
    sum->name = w->sums.last->results[0]->name;
    func_replace_uses(func, w->sums.last->results[0], sum);
}
