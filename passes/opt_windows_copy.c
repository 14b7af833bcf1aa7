/* SPDX-License-Identifier: Apache-2.0 */
/* Copies for pass windows, of what the copy engine cannot walk: made once, by launches of their own.
 *
 * Images whose channels are not last are copied with channels last; those whose channels are no
 * multiple of 16 bytes with zeros behind them. Where a pixel has few channels, each tap would fill
 * little of a product's depth; what the taps along the last axis read is then copied side by side:
 *
 *   sum(r, s, c) x[b, 2*p + r, 2*q + s, c] * w[o, r, s, c]
 *
 *   z[b, h, q, k] = x[b, h, 2*q + k // C, k % C]        k < S*C, and zeros up to 16 bytes
 *   v[o, r, k] = w[o, r, k // C, k % C]             →   sum(r, k) z[b, 2*p + r, q, k] * v[o, r, k]
 *
 * The copy has as many elements as there are taps along that axis for each place, not for each
 * pixel's whole window. Zeros are added to the sum, and its order changes. */
#include "passes/windows.h"

#include "passes/an_varies.h"
#include "passes/an_width.h"
#include "passes/axis_drop.h"

enum {
    PIXEL_BYTES = 16, /* the engine's rows begin at multiples of so many */
    DEPTH = 64,       /* elements of a product's step that a tap with fewer channels leaves empty */
    LEAST_USES = 64,  /* multiplications of each element of a copy, */
    LEAST_WORK = 1 << 26, /* and of all, that a launch is worth */
    MOST_ELEMENTS = 1 << 30,
};

/* ---- which ---- */

static Dim extent_of(const Window *w, int axis)
{
    return w->gather->results[0]->type->dims[axis];
}

/* Of the product's axes: the one that is this of the gather's. */
static int product_axis(const Window *w, int axis)
{
    for (int i = 0; i < w->sums.rank; i++) {
        if (w->axes[i] == axis) {
            return i;
        }
    }
    return WINDOW_NO_AXIS;
}

/* Known to be so many; -1: not. */
static int64_t known(Dim dim)
{
    int64_t most = poly_most(dim);
    return poly_least(dim) == most ? most : -1;
}

static bool is_ordered(const Window *w)
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
    bool whole = op && op->kind == OP_LOAD && op->results[0]->type->rank == value->type->rank;
    for (int i = 1; whole && i <= op_access(op, 0).n; i++) {
        whole = !op->operands[i];
    }
    return whole ? op : NULL;
}

/* The other factor changes along all taps and channels, and nothing else shares its axes. */
static bool may_join(const Window *w)
{
    int last = w->view.n - 1, tap = w->tap[last];
    if (tap < 0) {
        return false;
    }
    unsigned varies = an_varies(w->sums.mul->operands[1 - w->side]);
    unsigned both = 1u << product_axis(w, tap) | 1u << product_axis(w, w->channels);
    return (varies & both) == both;
}

/* Steps of the product's depth, for each place. */
static int64_t steps(int64_t taps, int64_t channels)
{
    return taps * ((channels + DEPTH - 1) / DEPTH);
}

/* Few channels, so that steps are emptier than those of taps that are joined. */
static bool joins(const Window *w)
{
    if (!may_join(w)) {
        return false;
    }
    int64_t channels = known(extent_of(w, w->channels)),
            taps = known(extent_of(w, w->tap[w->view.n - 1]));
    return channels > 0 && taps > 1 && channels < DEPTH && taps <= DEPTH &&
           2 * steps(1, taps * channels) <= steps(taps, channels);
}

/* Are channels whole pieces of 16 bytes? */
static bool is_whole_pieces(const Window *w)
{
    int64_t bytes = dtype_bytes(w->view.of->type->dtype);
    return poly_divisor(extent_of(w, w->channels)) * bytes % PIXEL_BYTES == 0;
}

static bool may_pad(const Window *w)
{
    return (an_varies(w->sums.mul->operands[1 - w->side]) >> product_axis(w, w->channels) & 1);
}

/* Factors of 16 bits, which the matrix unit multiplies. */
static bool is_narrow(DType dtype)
{
    return dtype == DT_F16 || dtype == DT_BF16;
}

WindowCopy window_copy(const Window *w)
{
    bool whole = is_whole_pieces(w);
    return !is_narrow(w->view.of->type->dtype) ? COPY_NONE
           : joins(w)                          ? COPY_JOINED
           : whole                             ? (is_ordered(w) ? COPY_NONE : COPY_TURNED)
           : may_pad(w)                        ? COPY_PADDED
                                               : COPY_NONE;
}

bool window_copy_pays(const Window *w, WindowCopy copy)
{
    Type of = w->view.of->type, all = w->sums.mul->results[0]->type;
    double elements = 1, work = 1;
    for (int i = 0; i < of->rank; i++) {
        elements *= (double)poly_most(of->dims[i]);
    }
    for (int i = 0; i < all->rank; i++) {
        work *= (double)poly_most(all->dims[i]);
    }
    int last = w->view.n - 1;
    if (copy == COPY_JOINED) {
        elements *= (double)poly_most(extent_of(w, w->tap[last])) *
                    (double)poly_most(extent_of(w, w->place[last])) /
                    (double)poly_most(of->dims[w->from[1 + last]]);
    }
    return work >= LEAST_WORK && elements <= MOST_ELEMENTS && work / LEAST_USES >= elements;
}

/* ---- copies ---- */

static Value *const WHOLE[MAX_RANK];

/* The view's tensor has its axes in the view's order from then on. */
static void settle(Window *w, const Value *scratch)
{
    w->view.of = scratch;
    for (int i = 0; i < w->view.n + 2; i++) {
        w->from[i] = i;
    }
}

void window_turn(Func *func, Window *w)
{
    Builder b = build_before(func, func->body->first);
    int64_t perm[MAX_RANK];
    Value *all = build_load(&b, (Value *)w->view.of, WHOLE);
    for (int i = 0; i < w->view.n + 2; i++) {
        perm[i] = w->from[i];
    }
    all = is_ordered(w) ? all : build_permute(&b, all, perm);
    Value *scratch = func_scratch(func, all->type);
    build_store(&b, scratch, WHOLE, all);
    settle(w, scratch);
}

/* ---- taps beside channels ---- */

typedef struct Joined {
    Func *func;
    Builder b;
    const Window *w;
    int last;      /* spatial axis */
    int tap, deep; /* of the product: the axis that is dropped (or none), the one that is longer */
    Dim channels, depth;
} Joined;

/* A number for each element of an array of this type, counted along one axis. */
static Value *counted(Builder *b, Type type, int axis)
{
    Value *line = build_iota(b, type->dims[axis], type->dtype);
    for (int i = 0; i < type->rank; i++) {
        line = i == axis ? line : build_expand(b, line, i);
    }
    return build_broadcast(b, line, type->rank, type->dims);
}

static Value *sized(Builder *b, Type type, Dim dim)
{
    return build_broadcast(b, build_size(b, dim), type->rank, type->dims);
}

/* What is counted along the joined axis: the tap, the channel. */
static Value *tap_at(Joined *j, Type type, int axis)
{
    return build_binary(&j->b, OP_DIV, counted(&j->b, type, axis), sized(&j->b, type, j->channels));
}

static Value *channel_at(Joined *j, Type type, int axis)
{
    if (j->tap < 0) {
        return counted(&j->b, type, axis);
    }
    return build_binary(&j->b, OP_MOD, counted(&j->b, type, axis), sized(&j->b, type, j->channels));
}

static Value *scaled(Builder *b, Value *value, int64_t by)
{
    return by == 1 ? value : build_binary(b, OP_MUL, value, build_int(b, value->type, by));
}

/* Where the last spatial axis is read: at a place's tap, or plainly. */
static Value *last_index(Joined *j, Type type, int axis)
{
    const Window *w = j->w;
    Value *place = counted(&j->b, type, axis);
    if (j->tap < 0) {
        return place;
    }
    place = scaled(&j->b, place, w->view.axes[j->last].step);
    Value *tap = scaled(&j->b, tap_at(j, type, axis + 1), w->view.axes[j->last].apart);
    place = build_binary(&j->b, OP_ADD, place, tap);
    return build_binary(&j->b, OP_ADD, place, sized(&j->b, type, w->view.axes[j->last].first));
}

/* The images: images, spatial axes, places along the last one, taps beside channels. */
static Value *joined_images(Joined *j)
{
    const Window *w = j->w;
    Type of = w->view.of->type;
    int rank = of->rank, n = w->view.n;
    Dim dims[MAX_RANK];
    Value *indices[MAX_RANK];
    for (int i = 0; i < rank; i++) {
        dims[i] = of->dims[w->from[i]];
    }
    dims[n] = j->tap < 0 ? dims[n] : extent_of(w, w->place[j->last]);
    dims[n + 1] = j->depth;
    Type type = type_array(j->func, DT_I64, rank, dims);
    for (int i = 0; i < n; i++) {
        indices[w->from[i]] = counted(&j->b, type, i);
    }
    indices[w->from[n]] = last_index(j, type, n);
    indices[w->from[n + 1]] = channel_at(j, type, n + 1);
    Value *all = build_gather(&j->b, (Value *)w->view.of, indices);
    Value *scratch = func_scratch(j->func, all->type);
    build_store(&j->b, scratch, WHOLE, all);
    return scratch;
}

/* The product's axes without the taps. */
static int fewer(const Joined *j, int axis)
{
    return axis - (j->tap >= 0 && axis > j->tap);
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
    const Window *w = j->w;
    Windows view = w->view;
    Dim places[MOST_SPATIAL], taps[MOST_SPATIAL];
    int axes[MAX_RANK], n = 0;
    view.of = joined_images(j);
    if (j->tap >= 0) {
        view.axes[j->last].step = 1;
        view.axes[j->last].apart = 0;
        view.axes[j->last].first = poly_const(j->func, 0);
    }
    axes[n++] = fewer(j, product_axis(w, w->images));
    for (int i = 0; i < view.n; i++) {
        places[i] = extent_of(w, w->place[i]);
        axes[n++] = fewer(j, product_axis(w, w->place[i]));
    }
    for (int i = 0; i < view.n; i++) {
        taps[i] = view.axes[i].apart ? extent_of(w, w->tap[i]) : NULL;
        if (taps[i]) {
            axes[n++] = fewer(j, product_axis(w, w->tap[i]));
        }
    }
    axes[n] = fewer(j, j->deep);
    Value *value = build_load(&j->b, func_view(j->func, &view, places, taps), WHOLE);
    return spread(j, value, axes, dims, rank);
}

/* The other factor: taps beside channels likewise. */
static Value *filter_factor(Joined *j, const Dim *dims, int rank)
{
    Value *value = j->w->sums.mul->operands[1 - j->w->side];
    unsigned varies = an_varies(value);
    int own[MAX_RANK], axes[MAX_RANK], in[MAX_RANK], n = 0, at = 0;
    for (int i = j->w->sums.rank; i-- > 0;) {
        value = varies >> i & 1 ? value : axis_dropped(&j->b, value, i);
    }
    for (int i = 0; i < j->w->sums.rank; i++) {
        if (varies >> i & 1) {
            own[n++] = i;
        }
    }
    const Op *load = whole_load(value, in);
    Value *from = load ? load->operands[0] : value;
    Dim shape[MAX_RANK];
    for (int i = 0; i < n; i++) {
        if (own[i] != j->tap) {
            axes[at] = fewer(j, own[i]);
            shape[at] = own[i] == j->deep ? j->depth : value->type->dims[i];
            at++;
        }
    }
    Type type = type_array(j->func, DT_I64, at, shape);
    Value *indices[MAX_RANK];
    for (int i = 0, to = 0; i < n; i++) {
        int deep = 0;
        while (axes[deep] != fewer(j, j->deep)) {
            deep++;
        }
        Value *index = own[i] == j->tap    ? tap_at(j, type, deep)
                       : own[i] == j->deep ? channel_at(j, type, deep)
                                           : counted(&j->b, type, to);
        to += own[i] != j->tap;
        indices[load ? in[i] : i] = index;
    }
    return spread(j, build_gather(&j->b, from, indices), axes, dims, rank);
}

/* The product's axes in the order of the sum's result. */
static Value *restored(Joined *j, Value *sum)
{
    const SummedProduct *sums = &j->w->sums;
    for (int i = 0; i < sums->rank; i++) {
        if (i != j->tap && (sums->summed >> i & 1)) {
            sum = build_reduce(&j->b, "sum", sum, fewer(j, i));
        }
    }
    sum = j->tap < 0 ? sum : build_expand(&j->b, sum, j->tap);
    for (int i = sums->rank; i-- > 0;) {
        sum = sums->dropped >> i & 1 ? build_squeeze(&j->b, sum, i) : sum;
    }
    return sum;
}

/* So many elements, and up to the next whole piece. */
static Dim whole_pieces(Func *func, Dim elements, DType dtype)
{
    int64_t piece = PIXEL_BYTES / dtype_bytes(dtype), n = known(elements);
    if (n >= 0) {
        return poly_const(func, (n + piece - 1) / piece * piece);
    }
    Dim up = poly_add(func, elements, poly_const(func, piece - 1));
    return poly_mul(func, poly_const(func, piece),
                    poly_var(func, func_quotient(func, NULL, up, piece)));
}

void window_join(Func *func, const Window *w, WindowCopy copy)
{
    Joined j = {.func = func, .w = w, .last = w->view.n - 1};
    Type type = w->sums.mul->results[0]->type;
    Dim dims[MAX_RANK];
    j.b = build_before(func, w->sums.last);
    j.tap = copy == COPY_JOINED ? product_axis(w, w->tap[j.last]) : WINDOW_NO_AXIS;
    j.deep = product_axis(w, w->channels);
    j.channels = extent_of(w, w->channels);
    Dim deep = j.tap < 0 ? j.channels : poly_mul(func, j.channels, extent_of(w, w->tap[j.last]));
    j.depth = whole_pieces(func, deep, w->view.of->type->dtype);
    for (int i = 0; i < type->rank; i++) {
        if (i != j.tap) {
            dims[fewer(&j, i)] = i == j.deep ? j.depth : type->dims[i];
        }
    }
    int rank = type->rank - (j.tap >= 0);
    Value *images = image_factor(&j, dims, rank);
    Value *filters = filter_factor(&j, dims, rank);
    Value *first = w->side == 0 ? images : filters, *second = w->side == 0 ? filters : images;
    Value *sum = restored(&j, build_binary(&j.b, OP_MUL, first, second));
    sum->name = w->sums.last->results[0]->name;
    func_replace_uses(func, w->sums.last->results[0], sum);
}
