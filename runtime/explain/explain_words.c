/* SPDX-License-Identifier: Apache-2.0 */
/* Phrases the reasons of the report: names of values, why an access is guarded or slow, and what
 * limits a launch. The sentences are kept here so that the three writers use the same ones. */
#include "runtime/explain/explain_words.h"

#include "ir/build.h"
#include "ir/text/ir_text.h"
#include "passes/analysis/access_width.h"

#include <string.h>

const char *value_words(const Func *func, const Value *value)
{
    for (size_t i = 0; i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        if (param->value == value) {
            const Value *of = func_memory_of(func, value);
            if (param->im2col) {
                return arena_printf(func->arena, "windows of %s", value_words(func, of));
            }
            return param->alias ? value_words(func, of) : param->name;
        }
    }
    for (size_t i = 0; value->name && i < func->params.n; i++) { /* what is held of windows */
        const Param *param = &func->params.items[i];
        if (param->im2col && text_equal(param->value->name, value->name)) {
            return value_words(func, param->value);
        }
    }
    return value->name ? value->name : "";
}

static const char *nominal_words(const Func *func, Dim dim)
{
    Text text = text_new(func->arena);
    say_dim(func, dim, &text);
    return text.data;
}

/* Of several axes that have become one: as their product. */
static bool add_product(Func *func, Text *text, Dim dim)
{
    for (size_t i = 0; i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        int from = 0;
        for (int axis = 0; param->collapsed && axis < param->value->type->rank; axis++) {
            bool found = param->collapsed[axis] > 1 && param->value->type->dims[axis] == dim;
            for (int k = 0; found && k < param->collapsed[axis]; k++) {
                text_add(text, k ? "*" : "");
                const char *words = nominal_words(func, param->caller_type->dims[from + k]);
                bool sum = strpbrk(words, " -") != NULL;
                text_printf(text, sum ? "(%s)" : "%s", words);
            }
            if (found) {
                return true;
            }
            from += (int)param->collapsed[axis];
        }
    }
    return false;
}

const char *dim_words(Func *func, Dim dim)
{
    Text text = text_new(func->arena);
    bool product = dim->n_terms > 1 && add_product(func, &text, dim);
    return product ? text.data : nominal_words(func, dim);
}

const char *unit_words(const Target *target)
{
    return target->family == FAMILY_AMDGCN ? "compute unit" : "multiprocessor";
}

const char *warp_words(const Target *target)
{
    return target->family == FAMILY_AMDGCN ? "wave" : "warp";
}

void scaled_words(Text *out, double value, const char *unit)
{
    static const char *const scales[] = {"", "k", "M", "G", "T", "P"};
    size_t scale = 0;
    while (value >= 999.5 && scale + 1 < sizeof scales / sizeof *scales) {
        value /= 1000;
        scale++;
    }
    text_printf(out, "%.3g %s%s", value, scales[scale], unit);
}

void shape_words(const Report *report, const LaunchReport *launch, Text *out)
{
    const PlanLaunch *plan = launch->plan;
    bool known = launch->blocks >= 0, one = launch->blocks == 1;
    if (known) {
        text_printf(out, "%lld block%s", (long long)launch->blocks, one ? "" : "s");
    }
    if (report->target->family == FAMILY_CPU) {
        text_add(out, known ? ", which " : "blocks, which ");
        text_add(out, one ? "a thread takes" : "threads take one after the other");
    } else {
        text_add(out, known ? " of " : "blocks of ");
        text_printf(out, "%d thread%s", plan->threads, plan->threads == 1 ? "" : "s");
    }
    if (plan->workers > 0) {
        text_printf(out, ", %d at once", plan->workers);
    }
    if (plan->cluster > 1) {
        text_printf(out, ", in clusters of %d", plan->cluster);
    }
}

const char *rounds_words(const Report *report, const LaunchReport *launch)
{
    Arena *arena = report->input->func->arena;
    double rounds = launch->plan->persistent ? 0 : launch->occupancy.waves;
    if (rounds <= 0) {
        return "";
    }
    if (rounds >= 1) {
        return arena_printf(arena, "the grid takes %.3g rounds", rounds);
    }
    return rounds >= 0.01
               ? arena_printf(arena, "the grid fills %.0f %% of the device", 100 * rounds)
               : "the grid fills less than 1 % of the device";
}

const char *product_words(const Report *report, const LaunchReport *launch)
{
    const ProductReport *p = &launch->product;
    Text text = text_new(report->input->func->arena);
    if (!p->op || !p->instruction || !p->m) {
        return "";
    }
    bool groups = mma_warps(p->instruction) > 1;
    int64_t columns = p->instruction->n;
    if (groups) {
        columns = p->n_columns < 256 ? p->n_columns : 256;
    }
    text_printf(&text, "%s, %d rows by %lld columns, %d deep, an instruction", p->unit,
                p->instruction->m, (long long)columns, p->instruction->k);
    if (p->slots > 1) {
        text_printf(&text, "; a step brings %lld bytes, %lld are on their way meanwhile",
                    (long long)p->slot_bytes, (long long)(p->slot_bytes * (p->slots - 1)));
    }
    return text.data;
}

const char *product_tiles_words(const Report *report, const LaunchReport *launch)
{
    const ProductReport *p = &launch->product;
    bool known = p->op && p->instruction && p->m && p->limiter;
    return known
               ? arena_printf(report->input->func->arena,
                              "%lld tiles: %.2f waves, %.0f %% idle in the last; %s%.0f %% of the "
                              "roofline expected, limited by %s",
                              (long long)p->tiles, p->waves, 100 * p->tail,
                              p->modelled ? "" : "at most ", 100 * p->share, p->limiter)
               : "";
}

void seconds_words(Text *out, double value)
{
    bool small = value < 999.5e-6;
    text_printf(out, small ? "%.3g us" : "%.3g ms", value * (small ? 1e6 : 1e3));
}

void expected_words(Text *out, const LaunchReport *launch)
{
    seconds_words(out, launch->predicted);
    text_printf(out, launch->limiter ? ", limited by %s" : "", launch->limiter);
}

const char *tiles_words(Func *func, const Op *launch)
{
    const Attr *dims = op_attr(launch, ATTR_DIMS), *steps = op_attr(launch, ATTR_STEPS);
    Text text = text_new(func->arena);
    for (int i = 0; dims && i < dims->n; i++) {
        int64_t step = steps->ints[i] ? steps->ints[i] : 1;
        bool number = dims->dims[i]->n_terms == 1 && dims->dims[i]->terms[0].n == 0;
        text_printf(&text, "%s%s%s by %lld", i ? ", " : "", number ? "an axis of " : "",
                    dim_words(func, dims->dims[i]), (long long)step);
    }
    return text.data;
}

/* ---- width ---- */

const char *width_words(Func *func, const Op *op, Traffic kind)
{
    const Target *target = func->target;
    if (traffic_is_bulk(kind)) {
        return "the copy engine moves whole tiles";
    }
    if (kind == COPIES) {
        return "as many neighbours as rows are aligned for, and a thread can copy past its "
               "registers";
    }
    if (traffic_is_shared(kind)) {
        return op->kind == OP_SHARED_LOAD || op->kind == OP_SHARED_STORE
                   ? "as many neighbours as a thread holds, 16 bytes at most"
                   : "";
    }
    if (op->kind == OP_SCATTER || (op->kind == OP_GATHER && an_width(func, op) == 1)) {
        return "places are computed, an element at a time";
    }
    Type type = op_moved_value(op)->type;
    if (type->rank == 0) {
        return "one element for the whole block";
    }
    if (target->warp == 1 || !type->layout) {
        return "vectors are the CPU's";
    }
    int width = (int)op_int(op, ATTR_VECTOR, 1);
    int bytes = width * dtype_bytes(op->operands[0]->type->dtype);
    int may = an_width(func, op);
    int held = layout_contiguous(type->layout, type->rank - 1);
    if (bytes >= target->vector_bytes) {
        return "the widest there is";
    }
    if (may <= width) {
        /* The access is narrower than what is known of the memory would allow. */
        Access access = op_access_nth(op, 0);
        Type memory = access.memory->type;
        int last = access.n - 1;
        const Value *index = access.indices[last];
        long long rows = an_row_divisor(&access);
        if (!type_stride_is(memory, last, 1) && memory->strides) {
            return "no axis of it has neighbours side by side";
        }
        if (index && index->type->kind != TYPE_RANGE) {
            return "its last index is one element";
        }
        if (rows <= width) {
            return arena_printf(func->arena,
                                "rows are known to begin at multiples of %lld element%s only", rows,
                                rows == 1 ? "" : "s");
        }
        return arena_printf(func->arena,
                            "%d bytes: the tile or its guard ends at multiples of them", bytes);
    }
    if (held <= width) {
        return arena_printf(func->arena, "a thread owns %d adjacent element%s", held,
                            held == 1 ? "" : "s");
    }
    return "the schedule's `vector`";
}

/* ---- guard ---- */

const char *guard_words(Func *func, const Op *op, Traffic kind)
{
    Text text = text_new(func->arena);
    if (traffic_is_bulk(kind)) {
        return "the copy engine clips";
    }
    if (traffic_is_shared(kind)) {
        return "";
    }
    Access access = op_access(op, 0);
    for (int axis = 0; axis < access.n; axis++) {
        if (op_is_guarded(op, axis)) {
            const Value *index = access.indices[axis];
            const char *extent = dim_words(func, access.memory->type->dims[axis]);
            text_add(&text, text.n ? "; " : "");
            if (op->kind == OP_GATHER || op->kind == OP_SCATTER) {
                text_printf(&text, "axis %d: nothing proves the index below %s", axis, extent);
            } else if (index && index->type->kind == TYPE_RANGE) {
                const DimVar *range = poly_as_range(index->type->dims[0]);
                text_printf(&text, "axis %d: the last tile of %lld may end past %s", axis,
                            (long long)range->capacity, extent);
            } else {
                text_printf(&text, "axis %d: nothing proves the index below %s", axis, extent);
            }
        }
    }
    for (int axis = 0, n = (int)text.n; axis < access.n && n == 0; axis++) {
        /* An axis without a guard is proven by tiles that divide its extent. */
        const Value *index = access.indices[axis];
        Dim extent = access.memory->type->dims[axis];
        if (!index || index->type->kind != TYPE_RANGE) {
            continue;
        }
        int64_t step = poly_as_range(index->type->dims[0])->capacity;
        if (step > 1 && poly_divisor(extent) % step == 0) {
            text_printf(&text, "%s tiles of %lld divide %s",
                        text.n ? "," : "none:", (long long)step, dim_words(func, extent));
        }
    }
    return text.n ? text.data : "none: inside by proof";
}

/* ---- launches ---- */

typedef struct Use {
    const Value *value;
    bool reads, writes;
} Use;

static void find_use(Op *op, void *user)
{
    Use *use = user;
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] == use->value) {
            bool stores =
                op->kind == OP_STORE || op->kind == OP_SCATTER || op->kind == OP_BULK_STORE;
            use->writes |= stores;
            use->reads |= !stores || op->kind == OP_SCATTER;
        }
    }
}

static Use use_of(const Op *launch, const Value *value)
{
    Use use = {.value = value};
    block_walk(launch->regions[0], find_use, &use);
    return use;
}

const char *split_words(Func *func, const Op *launch)
{
    if (!launch->prev || launch->prev->kind != OP_LAUNCH) {
        return "";
    }
    for (size_t i = 0; i < func->params.n; i++) {
        const Value *value = func->params.items[i].value;
        for (const Op *op = launch->prev; use_of(launch, value).reads && op; op = op->prev) {
            if (op->kind == OP_LAUNCH && use_of(op, value).writes) {
                const char *why = func->params.items[i].separate_reason;
                return arena_printf(func->arena,
                                    "it needs all of %s, which an earlier launch makes: %s",
                                    value_words(func, value),
                                    why ? why : "blocks of one launch do not wait for each other");
            }
        }
    }
    for (size_t i = 0; i < func->params.n; i++) {
        const Value *value = func->params.items[i].value;
        for (const Op *op = launch->prev; use_of(launch, value).writes && op; op = op->prev) {
            if (op->kind == OP_LAUNCH && use_of(op, value).writes) {
                return arena_printf(func->arena, "it writes %s after an earlier launch has",
                                    value_words(func, value));
            }
        }
    }
    for (size_t i = 0; i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        if (param->separate_reason && use_of(launch, param->value).writes) {
            return param->separate_reason;
        }
    }
    return "its grid is another";
}

const char *course_words(const Report *report, const LaunchReport *launch)
{
    Arena *arena = report->input->func->arena;
    const char *line =
        launch->data_loop_line ? arena_printf(arena, "line %d: ", launch->data_loop_line) : "";
    if (launch->equal_parts) {
        return arena_printf(arena,
                            "%sthe trip count is data: all numbers, the times too, are of parts of "
                            "equal length, and of branches taken half of the time",
                            line);
    }
    if (launch->data_loops) {
        return arena_printf(arena,
                            "%sthe trip count is data: all numbers, the times too, are of one "
                            "round of such a loop, and of branches taken half of the time",
                            line);
    }
    return launch->uncertain ? "some of its branches depend on data: counted as if each were taken "
                               "half of the time"
                             : "";
}

const char *sample_words(const LaunchReport *launch)
{
    enum { COARSE = 1, UNTRACED = 2 };
    static const char *const WORDS[] = {
        [0] = "",
        [COARSE] = "a sample: of some loops and axes one round and the last stand for all",
        [UNTRACED] = "what caches keep was not followed: each array counts once in memory",
        [COARSE | UNTRACED] = "a sample: of some loops and axes one round and the last stand for "
                              "all, and each array counts once in memory",
    };
    return WORDS[(launch->coarse ? COARSE : 0) | (launch->untraced ? UNTRACED : 0)];
}
