/* SPDX-License-Identifier: Apache-2.0 */
/* im2col_view: replaces the gathered input of a convolution by a view of it as a matrix.
 *
 *                                                   in %v: tensor<bf16[N, P, Q, R, S, C]>
 *                                                       im2col %x [1, 1, -1] [1, 1, -1]
 *   %g = gather %x[%n, %p + %r - 1, %q + %s - 1, %c]
 *            : bf16[N, P, Q, R, S, C]          →    %g = load %v[:, :, :, :, :, :]
 *   %d = sum over r, s, c of %g * …                 %d = …
 *
 * The gather has one index of images, one of channels and between them spatial ones, each the sum
 * of an output position that is kept and a tap that is summed; elements outside read 0. From then
 * on the view is a tensor like any other: its output positions can be collapsed into one row axis
 * (collapse_axes) of a dot (raise_to_dot). A view has no memory, so only what TMA's im2col mode
 * can load becomes one, within the limits of its descriptors. Other inputs are copied first where
 * that pays (passes/operands/im2col_repack.c): channels that are not the last axis, or no multiple
 * of 16 bytes, or so few that a tap would leave most of the dot's k step empty. An input that is
 * computed, such as a norm or another convolution, is stored first, with channels last: each of
 * its elements is read by several taps. A view that does not become an operand of matrix
 * instructions becomes a gather again (passes/stage/stage_im2col_fallback.c). Requires the tensor
 * level. A copy changes the association order of sums. */
#include "passes/operands/im2col_view.h"

#include "ir/fix_size.h"
#include "ir/ir_errors.h"
#include "ir/layout/matrix_instr.h"
#include "ir/op_axes.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/access_width.h"
#include "passes/analysis/axis_dependence.h"
#include "passes/analysis/computations.h"
#include "passes/analysis/im2col_limits.h"
#include "passes/pass.h"

#include <string.h>

enum { NO_AXIS = IM2COL_NO_AXIS };

/* A computed input that has been stored, with its axes in the order of the view. */
typedef struct StoredInput {
    const Value *loaded; /* what all readers of the value read instead */
    const Value *scratch;
    int from[2 + MAX_SPATIAL]; /* as in Im2colMatch */
} StoredInput;

/* What is known of values, each asked once. */
typedef struct Finder {
    Func *func;
    Memo *varies; /* of an_varies */
    Computations *all;
    Instance places; /* of a gather: an axis for each of its result, those of one element, too */
    const DimVar *step; /* of windows: a size that the facts fix; NULL: none is */
    struct {
        StoredInput *items;
        size_t n, cap;
    } stored;
} Finder;

/* The index of the gather as a sum of places; NULL: it has quotients, or no map. */
static const Affine *index_map(const Finder *pass, int index)
{
    const Op *gather = pass->places.value->def;
    const Affine *map = computations_map(pass->all, gather->operands[1 + index], pass->places.at);
    return map_is_sum(map) ? map : NULL;
}

/* ---- which of the gather's axes are what ---- */

/* The one axis of the gather that the index walks from its first element on; NO_AXIS: others. */
static int walked_axis(const Finder *pass, int index)
{
    const Instance *places = &pass->places;
    const Axis *axis = map_as_axis(index_map(pass, index));
    for (int i = 0; axis && i < places->value->type->rank; i++) {
        if (map_as_axis(places->at[i]) == axis) {
            Dim extent = places->value->def->operands[0]->type->dims[index];
            return places->value->type->dims[i] == extent ? i : NO_AXIS;
        }
    }
    return NO_AXIS;
}

/* By how much the index grows along the axis. A size counts as the number that the facts fix. */
static bool find_step(Im2colMatch *w, const Affine *map, const Axis *axis, int64_t *step)
{
    const Term *term = map_term(map, axis);
    const DimVar *size = term ? poly_as_var(term->coef) : NULL;
    *step = size ? size_if_fixed(size) : 0;
    w->step = *step > 0 ? size : w->step;
    return *step > 0 || map_coef(map, axis, step);
}

/* A place that is kept and a tap that is summed, or a place alone. */
static bool find_spatial(const Finder *pass, Im2colMatch *w, int i, unsigned summed)
{
    w->place[i] = w->tap[i] = NO_AXIS;
    const Affine *map = index_map(pass, w->from[1 + i]);
    int64_t steps[2] = {0, 0}; /* of the place, and of the tap */
    if (!map) {
        return false;
    }
    for (int k = 0; k < pass->places.value->type->rank; k++) {
        bool tap = summed >> k & 1;
        int *which = tap ? &w->tap[i] : &w->place[i];
        int64_t coef;
        if (!find_step(w, map, map_as_axis(pass->places.at[k]), &coef) || coef < 0 ||
            (coef && *which != NO_AXIS)) {
            return false;
        }
        if (coef) {
            *which = k;
            steps[tap] = coef;
        }
    }
    w->view.axes[i].offset = map->base;
    w->view.axes[i].stride = steps[0];
    w->view.axes[i].dilation = steps[1];
    return w->place[i] >= 0;
}

/* The first index that walks an axis which is kept is that of images, the last that walks one which
 * is summed that of channels; those between are spatial, in their order. Where the filters have one
 * of the kept axes, too, as groups do, each of its elements is a product of its own: it comes first
 * instead, and images are walked as places are. */
static bool order_axes(const Finder *pass, Im2colMatch *w, unsigned summed, unsigned groups)
{
    int rank = w->view.of->type->rank, images = NO_AXIS, channels = NO_AXIS, n = 1;
    for (int i = 0; i < rank; i++) {
        int axis = walked_axis(pass, i);
        if (axis >= 0 && (summed >> axis & 1)) {
            channels = i;
            w->channels = axis;
        } else if (axis >= 0 && (groups ? groups >> axis & 1 : images < 0)) {
            images = i;
            w->images = axis;
        }
    }
    if (images < 0 || channels < 0) {
        return false;
    }
    w->from[0] = images;
    for (int i = 0; i < rank; i++) {
        if (i != images && i != channels) {
            w->from[n++] = i;
        }
    }
    w->from[n] = channels;
    return true;
}

/* A contiguous tensor of the caller. Its axes are never permuted, nor are those of what is stored
 * here. */
static bool is_input(const Func *func, const Value *of)
{
    const Param *param = &func->params.items[of->index];
    return !of->type->strides && !of->type->align && param->io == PARAM_IN && !param->axis_perm;
}

/* `summed`, `groups` (kept, and the filters' own): axes of the gather. Each of its axes must be one
 * of an index. */
static bool find_window(Finder *pass, Op *gather, unsigned summed, unsigned groups, Im2colMatch *w)
{
    const Func *func = pass->func;
    const Value *of = gather->operands[0];
    Type from = of->type;
    bool computed = from->kind == TYPE_ARRAY;
    *w = (Im2colMatch){
        .gather = gather, .varies = pass->varies, .view = {.of = of, .n = from->rank - 2}};
    pass->places.value = gather->results[0];
    for (int i = 0; i < gather->results[0]->type->rank; i++) {
        const Axis *axis = axis_new(&pass->all->space, gather->results[0]->type->dims[i], NULL);
        pass->places.at[i] = map_axis(&pass->all->space, axis);
    }
    if ((!computed && !is_input(func, of)) || from->rank < 3 || w->view.n > MAX_SPATIAL ||
        !gather_reads_zeros(gather) || !order_axes(pass, w, summed, groups)) {
        return false;
    }
    unsigned seen = 1u << w->images | 1u << w->channels;
    int n = 2;
    bool taps = false;
    for (int i = 0; i < w->view.n; i++) {
        if (!find_spatial(pass, w, i, summed)) {
            return false;
        }
        taps = taps || w->tap[i] >= 0;
        seen |= 1u << w->place[i] | (w->tap[i] >= 0 ? 1u << w->tap[i] : 0);
        n += 1 + (w->tap[i] >= 0);
    }
    return n == gather->results[0]->type->rank && seen == an_all_axes(gather->results[0]->type) &&
           (taps || !computed);
}

/* ---- whose factor it is ---- */

/* Axes where one more stands at `at`. */
static unsigned spread_at(unsigned axes, int at)
{
    unsigned below = axes & ((1u << at) - 1);
    return below | (axes & ~((1u << at) - 1)) << 1;
}

/* False: `sum` is not the outermost one of f32 products. */
static bool find_sums(Func *func, Op *sum, SummedProduct *found)
{
    *found = (SummedProduct){.last = sum};
    Op *op = sum;
    if (!op_is_sum(sum) || !value_has_uses(func, sum->results[0])) {
        return false;
    }
    while (op_is_sum(op) || op->kind == OP_SQUEEZE) {
        int axis = (int)op_int(op, ATTR_AXIS, 0);
        if (op->kind == OP_SQUEEZE) {
            found->summed = spread_at(found->summed, axis);
            found->dropped = spread_at(found->dropped, axis) | 1u << axis;
        } else {
            found->summed |= 1u << axis;
        }
        Value *from = op->operands[0];
        if (!from->def || value_count_uses(func, from) != 1) {
            return false;
        }
        op = from->def;
    }
    found->mul = op;
    found->rank = op->n_results ? op->results[0]->type->rank : 0;
    return op->kind == OP_MUL && op->results[0]->type->dtype == DT_F32;
}

/* The gather that a factor is but for its type and axes; axes[i]: which of the gather's is i of the
 * factor. */
static Op *factor_gather(const Value *factor, int *axes)
{
    Op *op = factor->def;
    for (int i = 0; i < factor->type->rank; i++) {
        axes[i] = i;
    }
    for (; op && op->kind != OP_GATHER; op = op->operands[0]->def) {
        if (op->kind == OP_CAST) {
            continue;
        }
        if (!op_moves_axes(op)) {
            return NULL;
        }
        for (int i = 0; i < factor->type->rank; i++) {
            axes[i] = axes[i] < 0 ? NO_AXIS : op_operand_axis(op, 0, axes[i]);
        }
    }
    return op;
}

/* The other factor has columns of its own, and is the same for all images and places, but for those
 * of one axis: groups. */
static bool find_factor(Finder *pass, const SummedProduct *sums, int side, Im2colMatch *w)
{
    int axes[MAX_RANK];
    Op *gather = factor_gather(sums->mul->operands[side], axes);
    unsigned summed = 0, groups = 0;
    unsigned other = an_varies(pass->varies, sums->mul->operands[1 - side]);
    bool columns = false;
    for (int i = 0; gather && i < sums->rank; i++) {
        bool kept = !(sums->summed >> i & 1), weighed = other >> i & 1;
        summed |= axes[i] >= 0 && !kept ? 1u << axes[i] : 0;
        groups |= axes[i] >= 0 && kept && weighed ? 1u << axes[i] : 0;
        columns = columns || (kept && axes[i] < 0 && weighed);
    }
    if (!gather || !columns || (groups & (groups - 1)) ||
        !find_window(pass, gather, summed, groups, w)) {
        return false;
    }
    w->sums = *sums;
    w->side = side;
    for (int i = 0; i < sums->rank; i++) {
        w->axes[i] = axes[i];
    }
    return true;
}

/* ---- what the engine takes ---- */

static bool fits(Func *func, const Im2colMatch *w, int i)
{
    const Dim *dims = w->gather->results[0]->type->dims;
    Im2colExtents extents = {.source = w->view.of->type->dims[w->from[1 + i]],
                             .positions = dims[w->place[i]],
                             .taps = w->tap[i] >= 0 ? dims[w->tap[i]] : NULL};
    return an_im2col_fits(func, &w->view, i, &extents);
}

/* NULL: it does. */
static const char *why_not(Func *func, const Im2colMatch *w, Im2colRepack copy)
{
    const Value *of = w->view.of;
    for (int i = 0; i < of->type->rank; i++) {
        int64_t most = poly_most(of->type->dims[i]);
        if (most > INT32_MAX && most != INT64_MAX) {
            return "an axis has more elements than the copy engine counts";
        }
    }
    int walked = copy == REPACK_JOINED ? w->view.n - w->joined : w->view.n;
    for (int i = 0; i < walked; i++) {
        if (!an_im2col_steps(&w->view, i)) {
            return "the stride is more than 8 pixels, the copy engine's largest";
        }
        if (!fits(func, w, i)) {
            return arena_printf(func->arena,
                                "windows may begin or reach further than the copy engine counts "
                                "(%lld pixels): sizes that are given may show that they do not",
                                (long long)an_im2col_limit(w->view.n) / 2);
        }
    }
    return NULL;
}

/* ---- the view ---- */

static Value *load_view(Func *func, const Im2colMatch *w)
{
    Type type = w->gather->results[0]->type;
    Dim places[MAX_SPATIAL], taps[MAX_SPATIAL];
    int64_t from[MAX_RANK], perm[MAX_RANK];
    int n = 0;
    bool ordered = true;
    from[n++] = w->images;
    for (int i = 0; i < w->view.n; i++) {
        places[i] = type->dims[w->place[i]];
        from[n++] = w->place[i];
    }
    for (int i = 0; i < w->view.n; i++) {
        taps[i] = w->tap[i] >= 0 ? type->dims[w->tap[i]] : NULL;
        from[n] = w->tap[i];
        n += w->tap[i] >= 0;
    }
    from[n++] = w->channels;
    for (int i = 0; i < n; i++) {
        perm[from[i]] = i;
        ordered = ordered && from[i] == i;
    }
    Builder b = build_before(func, w->gather);
    Value *view = build_load(&b, func_im2col_view(func, &w->view, places, NULL, taps), WHOLE);
    return ordered ? view : build_permute(&b, view, perm);
}

static void refuse(Func *func, const char *reason)
{
    const ScheduleEntry *line = schedule_user_entry(func, "im2col", "");
    Diag *d = diag_error(func->diags, ERR_NOT_HERE, line ? line->span : SPAN_NONE,
                         "`im2col bulk` is not possible: %s", reason);
    diag_help(func->diags, d, "`im2col gather`, or leave the line out");
}

/* The scratch tensor that already holds the computed input in the order of the view, or NULL. */
static const Value *stored_input(const Finder *pass, const Im2colMatch *w)
{
    size_t bytes = sizeof w->from[0] * (size_t)(w->view.n + 2);
    for (size_t i = 0; i < pass->stored.n; i++) {
        const StoredInput *input = &pass->stored.items[i];
        if (input->loaded == w->view.of && !memcmp(input->from, w->from, bytes)) {
            return input->scratch;
        }
    }
    return NULL;
}

/* Stores the computed input of the view with images first and channels last. Everything that reads
 * the value loads it from there. */
static void store_input(Finder *pass, Im2colMatch *w)
{
    Func *func = pass->func;
    Value *value = (Value *)w->view.of;
    const Value *scratch = stored_input(pass, w);
    if (scratch) {
        im2col_read_from(w, scratch);
        return;
    }
    int64_t order[MAX_RANK], back[MAX_RANK];
    Dim dims[MAX_RANK];
    int rank = value->type->rank;
    for (int i = 0; i < rank; i++) {
        order[i] = w->from[i];
        back[w->from[i]] = i;
        dims[i] = value->type->dims[w->from[i]];
    }
    scratch = func_scratch(func, type_array(func, value->type->dtype, rank, dims));
    Builder b = build_after(func, value->def);
    b.span = value->def->span;
    Value *loaded = build_load(&b, (Value *)scratch, WHOLE);
    loaded = im2col_is_ordered(w) ? loaded : build_permute(&b, loaded, back);
    loaded->name = value->name;
    func_replace_uses(func, value, loaded);
    b = build_after(func, value->def);
    b.span = value->def->span;
    value = im2col_is_ordered(w) ? value : build_permute(&b, value, order);
    build_store(&b, func_alias(func, scratch), WHOLE, value);
    StoredInput stored = {.loaded = loaded, .scratch = scratch};
    memcpy(stored.from, w->from, sizeof stored.from);
    ARENA_PUSH(func->arena, &pass->stored, stored);
    im2col_read_from(w, scratch);
}

static bool has_short_pixels(const Im2colMatch *w)
{
    Access rows = {.memory = (Value *)w->view.of, .n = w->view.of->type->rank};
    return !an_tma_rows(&rows);
}

static bool is_computed(const Im2colMatch *w)
{
    return w->view.of->type->kind == TYPE_ARRAY;
}

/* A permuted copy of what is stored anyway costs nothing. */
static bool copies(const Func *func, const Im2colMatch *w, Im2colRepack copy, bool asked)
{
    return asked || (copy == REPACK_PERMUTED && is_computed(w)) ||
           im2col_repack_pays(func, w, copy);
}

/* NULL: the engine can walk it, or a copy of it. */
static const char *why_no_copy(const Func *func, const Im2colMatch *w, Im2colRepack copy,
                               bool asked)
{
    if (copy == REPACK_NONE && !im2col_is_ordered(w)) {
        return "channels are not last";
    }
    if (copy == REPACK_NONE || copies(func, w, copy, asked)) {
        return copy == REPACK_NONE && has_short_pixels(w)
                   ? "the channels of a pixel are no multiple of 16 bytes"
                   : NULL;
    }
    return copy == REPACK_PERMUTED
               ? "channels are not last: `im2col bulk` copies them so that they are"
               : "the channels of a pixel are no multiple of 16 bytes: `im2col bulk` copies them "
                 "so that they are";
}

static const char *reason_of(Im2colRepack copy)
{
    switch (copy) {
    case REPACK_PERMUTED:
        return "the copy engine walks rows of pixels, of a copy with channels last";
    case REPACK_PADDED:
        return "the copy engine walks rows of pixels, of a copy whose channels end with zeros, so "
               "that they are a multiple of 16 bytes";
    case REPACK_JOINED:
        return "pixels have few channels: a copy has what the taps of a row, or of windows that do "
               "not overlap, read side by side, and the copy engine walks it";
    default:
        return "the copy engine walks rows of pixels, with what is outside 0: no register holds "
               "them";
    }
}

static void view_window(Finder *pass, Im2colMatch *w)
{
    Func *func = pass->func;
    const ScheduleEntry *given = schedule_user_entry(func, "im2col", "");
    bool asked = given && given->symbol && text_equal(given->symbol, "bulk");
    Im2colRepack copy = im2col_repack_kind(w, true);
    if (copy == REPACK_JOINED && !copies(func, w, copy, asked)) {
        copy = im2col_repack_kind(w, false);
    }
    const char *reason = why_not(func, w, copy);
    reason = reason ? reason : why_no_copy(func, w, copy, asked);
    const char *how = schedule_decide_symbol(func, "im2col", "", reason ? "gather" : "bulk", "%s",
                                             reason ? reason : reason_of(copy));
    if (text_equal(how, "gather")) {
        return;
    }
    if (reason) {
        refuse(func, reason);
        return;
    }
    if (is_computed(w)) {
        store_input(pass, w);
    }
    if (copy == REPACK_JOINED || copy == REPACK_PADDED) {
        if (copy == REPACK_JOINED && im2col_permutes_before_join(w)) {
            im2col_permute(func, w);
        }
        im2col_join(func, w, copy);
        return;
    }
    if (copy == REPACK_PERMUTED && !im2col_is_ordered(w)) {
        im2col_permute(func, w);
    }
    Value *view = load_view(func, w);
    view->name = w->gather->results[0]->name;
    func_replace_uses(func, w->gather->results[0], view);
}

/* Does `look` at each window. */
static void each_window(Finder *pass, void (*look)(Finder *pass, Im2colMatch *w))
{
    for (Op *op = pass->func->body->last; op; op = op->prev) {
        SummedProduct sums;
        for (int side = 0; side < 2; side++) {
            Im2colMatch w;
            if (find_sums(pass->func, op, &sums) && find_factor(pass, &sums, side, &w)) {
                look(pass, &w);
            }
        }
    }
}

static void note_step(Finder *pass, Im2colMatch *w)
{
    pass->step = w->step ? w->step : pass->step;
}

/* Views all windows, unless one has a step that is a size: this is returned, to become a number,
 * which the copy engine's steps are. */
static const DimVar *view_windows(Func *func)
{
    Finder pass = {.func = func, .varies = an_varies_all(func), .all = computations_open(func)};
    each_window(&pass, note_step);
    if (!pass.step) {
        each_window(&pass, view_window);
    }
    memo_close(pass.varies);
    computations_close(pass.all);
    return pass.step;
}

void pass_im2col_view(Func *func)
{
    if (!mma_reads_bulk_copies(func->target)) {
        return;
    }
    for (const DimVar *step = view_windows(func); step; step = view_windows(func)) {
        fix_size(func, step, size_if_fixed(step));
    }
    func_remove_dead(func);
}
