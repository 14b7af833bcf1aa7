/* SPDX-License-Identifier: Apache-2.0 */
/* Observes a run: the first op that produces a NaN from operands without one, and how one element
 * of a tensor was computed, as a tree of ops from its store to loads and constants. The values are
 * those of the iteration that the store belongs to. Each source expression has one line, however
 * many ops it became. */
#include "ir/interp/interp_internal.h"
#include "ir/op_axes.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_LINES = 400, MAX_TERMS = 8 };

static const Array *array_or_null(const InterpRun *run, const Value *value)
{
    bool is_array = value && value->type->kind == TYPE_ARRAY;
    return is_array ? run->cells[value->id].array : NULL;
}

static void print_index(int rank, const int64_t *index, Text *out)
{
    for (int i = 0; i < rank; i++) {
        text_printf(out, "%s%" PRId64, i ? ", " : "[", index[i]);
    }
    text_add(out, rank ? "]" : "");
}

static void print_element(const Array *array, int64_t at, Text *out)
{
    Scalar value = array_scalar(array, at);
    if (dtype_is_float(array->dtype)) {
        text_printf(out, "%.9g", value.f);
    } else if (array->dtype == DT_BOOL) {
        text_add(out, value.i ? "true" : "false");
    } else {
        text_printf(out, dtype_is_signed(array->dtype) ? "%" PRId64 : "%" PRIu64, value.i);
    }
}

/* ---- the first NaN ---- */

static int64_t first_nan(const Array *array)
{
    bool floats = array && dtype_is_float(array->dtype);
    for (int64_t i = 0; floats && i < array->n; i++) {
        if (isnan(array_scalar(array, i).f)) {
            return i;
        }
    }
    return -1;
}

static void unflatten(const Array *array, int64_t at, int64_t *index)
{
    for (int i = array->rank - 1; i >= 0; i--) {
        index[i] = array->dims[i] ? at % array->dims[i] : 0;
        at = array->dims[i] ? at / array->dims[i] : 0;
    }
}

static _Noreturn void trap(InterpRun *run, const Op *op, const Array *result, int64_t at)
{
    int64_t index[MAX_RANK];
    Text text = text_new(run->arena);
    unflatten(result, at, index);
    print_index(result->rank, index, &text);
    for (int i = 0; i < op->n_operands; i++) {
        const Array *operand = array_or_null(run, op->operands[i]);
        if (operand && operand->n == result->n) {
            text_add(&text, i ? ", " : " of ");
            print_element(operand, at, &text);
        }
    }
    run->options->watch->span = op->span;
    run_fail(run, NULL, "`%s` makes a NaN%s%s", op_info(op->kind)->name, text.n ? ", element " : "",
             text.n ? text.data : "");
}

/* What comes from memory, or was a NaN before, is not caused here. */
static void watch_nan(InterpRun *run, const Op *op)
{
    if (op->kind == OP_LOAD || op->kind == OP_GATHER || op->kind == OP_CONST) {
        return;
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (first_nan(array_or_null(run, op->operands[i])) >= 0) {
            return;
        }
    }
    for (int i = 0; i < op->n_results; i++) {
        const Array *result = array_or_null(run, op->results[i]);
        int64_t at = result && !array_has_poison(result) ? first_nan(result) : -1;
        if (at >= 0) {
            trap(run, op, result, at);
        }
    }
}

/* ---- a tree of one element ---- */

typedef struct Seen {
    const Value *value;
    int64_t at;
} Seen;

typedef struct Trace {
    InterpRun *run;
    Text *out;
    Span above; /* of the last line up in the tree */
    int lines;
    struct {
        Seen *items;
        size_t n, cap;
    } seen;
} Trace;

static void trace_value(Trace *t, const Value *value, const int64_t *index, int depth);

static int64_t offset_of(const Array *array, const int64_t *index)
{
    int64_t at = 0;
    for (int i = 0; i < array->rank; i++) {
        at = at * array->dims[i] + index[i];
    }
    return at;
}

static bool is_seen(Trace *t, const Value *value, int64_t at)
{
    for (size_t i = 0; i < t->seen.n; i++) {
        if (t->seen.items[i].value == value && t->seen.items[i].at == at) {
            return true;
        }
    }
    Seen seen = {value, at};
    ARENA_PUSH(t->run->arena, &t->seen, seen);
    return false;
}

/* The first line of the source that the op was made from; false when there is none. */
static bool print_place(const Trace *t, Span span)
{
    enum { WIDTH = 60 };
    const Diags *diags = t->run->func->diags;
    if (span.source < 0 || (size_t)span.source >= diags->sources.n || span.end <= span.start) {
        return false;
    }
    const char *text = diags->sources.items[span.source].text + span.start;
    size_t all = span.end - span.start, n = strcspn(text, "\n");
    n = n < all ? n : all;
    n = n < WIDTH ? n : WIDTH;
    text_add_n(t->out, text, n);
    text_printf(t->out, "%s  # line %d", n < all ? " …" : "", diag_source_loc(diags, span).line);
    return true;
}

static void begin_line(Trace *t, int depth)
{
    for (int i = 0; i < depth; i++) {
        text_add(t->out, "  ");
    }
    t->lines++;
}

/* What the source says there, or what the op is. */
static void print_what(const Trace *t, const Value *value, const int64_t *index)
{
    const Op *op = value->def;
    if (!op) {
        text_add(t->out, value->name ? value->name : "a value that a loop carries");
    } else if (op->kind == OP_LOAD && op->operands[0]->type->kind == TYPE_TENSOR) {
        /* The tensor's element that the load reads for element `index` of its result. */
        Access access = op_access(op, 0);
        const Memory *memory = t->run->cells[access.memory->id].memory;
        int64_t at[MAX_RANK];
        View view = view_of(t->run, op, access, memory->rank, memory->dims);
        for (int i = 0, axis = 0; i < view.rank; i++) {
            at[i] = view.axes[i].start + (view.axes[i].kept ? index[axis++] : 0);
        }
        text_add(t->out, memory->name);
        print_index(view.rank, at, t->out);
    } else {
        text_printf(t->out, "%s%s", value->name ? value->name : "", value->name ? " = " : "");
        if (!print_place(t, op->span)) {
            text_add(t->out, op_info(op->kind)->name);
        }
    }
}

/* ---- what an element is made of ---- */

/* Of a maximum the element that it is, else the first. */
static int64_t telling(const Array *operand, const Array *result, int64_t first, int64_t stride,
                       int64_t n, int64_t at)
{
    Scalar want = array_scalar(result, at);
    for (int64_t i = 0; i < n; i++) {
        Scalar got = array_scalar(operand, first + i * stride);
        if (dtype_is_float(operand->dtype) ? got.f == want.f : got.i == want.i) {
            return i;
        }
    }
    return 0;
}

/* The values that a reduction or scan folds, a few of them, and one of them in full. */
static void trace_terms(Trace *t, const Op *op, const Array *result, const int64_t *index,
                        int depth)
{
    const Array *operand = array_or_null(t->run, op->operands[0]);
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    int64_t to[MAX_RANK], stride = 1;
    if (!operand || operand->n == 0) {
        return;
    }
    memcpy(to, index, sizeof *to * (size_t)operand->rank);
    int64_t n = op->kind == OP_SCAN ? index[axis] + 1 : operand->dims[axis];
    to[axis] = 0;
    for (int i = axis + 1; i < operand->rank; i++) {
        stride *= operand->dims[i];
    }
    int64_t first = offset_of(operand, to);
    begin_line(t, depth);
    text_printf(t->out, "of %" PRId64 " elements:", n);
    for (int64_t i = 0; i < n && i < MAX_TERMS; i++) {
        text_add(t->out, i ? ", " : " ");
        print_element(operand, first + i * stride, t->out);
    }
    text_add(t->out, n > MAX_TERMS ? ", …\n" : "\n");
    to[axis] = telling(operand, result, first, stride, n, offset_of(result, index));
    trace_value(t, op->operands[0], to, depth);
}

static void trace_product(Trace *t, const Op *op, const int64_t *index, int depth)
{
    const Array *a = array_or_null(t->run, op->operands[0]);
    const Array *b = array_or_null(t->run, op->operands[1]);
    if (!a || !b) {
        return;
    }
    int64_t left[MAX_RANK], right[MAX_RANK], k = a->dims[a->rank - 1];
    memcpy(left, index, sizeof left);
    memcpy(right, index, sizeof right);
    begin_line(t, depth);
    text_printf(t->out, "of %" PRId64 " products:", k);
    for (int64_t i = 0; i < k && i < MAX_TERMS; i++) {
        left[a->rank - 1] = right[b->rank - 2] = i;
        text_add(t->out, i ? ", " : " ");
        print_element(a, offset_of(a, left), t->out);
        text_add(t->out, "*");
        print_element(b, offset_of(b, right), t->out);
    }
    text_add(t->out, k > MAX_TERMS ? ", …\n" : "\n");
    left[a->rank - 1] = right[b->rank - 2] = 0;
    if (k > 0) {
        trace_value(t, op->operands[0], left, depth);
        trace_value(t, op->operands[1], right, depth);
    }
    if (op->n_operands > 2) {
        trace_value(t, op->operands[2], index, depth);
    }
}

/* The element that came to this place. */
static void trace_sorted(Trace *t, const Op *op, const int64_t *index, int depth)
{
    const Array *places = array_or_null(t->run, op->results[1]);
    int64_t to[MAX_RANK];
    if (places) {
        memcpy(to, index, sizeof *to * (size_t)places->rank);
        to[places->rank - 1] = array_scalar(places, offset_of(places, index)).i;
        trace_value(t, op->operands[0], to, depth);
    }
}

static void trace_operands(Trace *t, const Op *op, const Array *result, const int64_t *index,
                           int depth)
{
    switch (op->kind) {
    case OP_LOAD:
    case OP_FOLD:
    case OP_FOR:
    case OP_WHILE:
    case OP_IF: return;
    case OP_REDUCE:
    case OP_SCAN: trace_terms(t, op, result, index, depth); return;
    case OP_DOT: trace_product(t, op, index, depth); return;
    case OP_SORT: trace_sorted(t, op, index, depth); return;
    default: break;
    }
    for (int i = 0; i < op->n_operands; i++) {
        int64_t to[MAX_RANK];
        if (array_or_null(t->run, op->operands[i])) {
            /* The operand's element from which the result's element `index` is computed. */
            for (int j = 0; j < op->operands[i]->type->rank; j++) {
                OpAxis axis = op_axis(op, i, j);
                to[j] = axis.role == AXIS_TIED ? index[axis.result] : 0;
            }
            trace_value(t, op->operands[i], to, depth);
        }
    }
}

static bool same_span(Span a, Span b)
{
    return a.source >= 0 && a.source == b.source && a.start == b.start && a.end == b.end;
}

/* One line for each part of the source: the ops that it became besides are passed over. */
static bool is_named(const Value *value, Span above)
{
    const Op *op = value->def;
    return !op || op->kind == OP_LOAD || op->kind == OP_GATHER || op->kind == OP_REDUCE ||
           op->kind == OP_SCAN || !same_span(op->span, above);
}

static void trace_value(Trace *t, const Value *value, const int64_t *index, int depth)
{
    const Array *array = array_or_null(t->run, value);
    if (!array || t->lines >= MAX_LINES) {
        return;
    }
    int64_t at = array->n == 1 ? 0 : offset_of(array, index);
    bool seen = is_seen(t, value, at), is_listed = is_named(value, t->above);
    Span above = t->above;
    if (is_listed) {
        begin_line(t, depth);
        print_element(array, at, t->out);
        text_add(t->out, "  ");
        print_what(t, value, index);
        text_add(t->out, seen ? "  (as above)\n" : "\n");
    }
    if (value->def && !seen) {
        t->above = is_listed ? value->def->span : above;
        trace_operands(t, value->def, array, index, depth + is_listed);
        t->above = above;
    }
}

/* A store of the element that is wanted? */
static void watch_store(InterpRun *run, const Op *op)
{
    InterpTrace *watch = run->options->watch;
    Access access = op_access(op, 0);
    const Memory *memory = run->cells[access.memory->id].memory;
    const Value *value = op->operands[access_next(op, 0)];
    const Array *array = array_or_null(run, value);
    if (!text_equal(memory->name, watch->tensor) || memory->rank != watch->rank || !array) {
        return;
    }
    View view = view_of(run, op, access, memory->rank, memory->dims);
    int64_t index[MAX_RANK];
    for (int i = 0, axis = 0; i < view.rank; i++) {
        int64_t inside = watch->index[i] - view.axes[i].start;
        if (inside < 0 || inside >= view.axes[i].exist) {
            return;
        }
        if (view.axes[i].kept) {
            index[axis++] = inside;
        }
    }
    Trace t = {.run = run, .out = watch->out, .above = SPAN_NONE};
    text_add(t.out, memory->name);
    print_index(watch->rank, watch->index, t.out);
    text_char(t.out, '\n');
    trace_value(&t, value, index, 1);
    text_add(t.out, t.lines >= MAX_LINES ? "  …\n" : "");
    watch->found = true;
}

void interp_watch(InterpRun *run, const Op *op)
{
    if (run->options->watch->nan) {
        watch_nan(run, op);
    }
    if (run->options->watch->tensor && op->kind == OP_STORE) {
        watch_store(run, op);
    }
}
