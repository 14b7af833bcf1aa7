/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the text form (docs/ir.md). Any text is input: every failure is a diagnostic, then a jump
 * out of the recursion. What comes back is well-formed, not yet verified. */
#include "ir/build.h"
#include "ir/layout.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "ir/verify.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NESTING = 64, MOST_LIST = 4096 };

typedef struct NameList {
    Value **items;
    size_t n, cap;
} NameList;

typedef struct Parser {
    Arena *arena;
    Diags *diags;
    int source;
    const char *text;
    size_t n, at;
    Func *func;
    NameList names; /* named values in scope, newest last; Value.name holds the printed name */
    struct { const Layout **items; size_t n, cap; } layouts;
    int depth;
    jmp_buf failed;
} Parser;

/* ---- characters ---- */

static _Noreturn void fail(Parser *p, size_t start, const char *what)
{
    uint32_t end = (uint32_t)(p->at > start ? p->at : start + 1);
    diag_error(p->diags, 901, (Span){p->source, (uint32_t)start, end}, "IR text: %s", what);
    longjmp(p->failed, 1);
}

static void skip_space(Parser *p)
{
    while (p->at < p->n) {
        char c = p->text[p->at];
        if (c == ';') {
            while (p->at < p->n && p->text[p->at] != '\n') {
                p->at++;
            }
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            p->at++;
        } else {
            return;
        }
    }
}

static char peek(Parser *p)
{
    skip_space(p);
    return p->at < p->n ? p->text[p->at] : 0;
}

static bool take(Parser *p, char c)
{
    if (peek(p) != c) {
        return false;
    }
    p->at++;
    return true;
}

static void need(Parser *p, char c)
{
    if (!take(p, c)) {
        fail(p, p->at, arena_printf(p->arena, "expected `%c`", c));
    }
}

static bool is_word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.' || c == '-';
}

/* Letters, digits, `_`, `.`, and `-` inside (target names). "" when there is none. */
static const char *word(Parser *p)
{
    skip_space(p);
    size_t start = p->at;
    while (p->at < p->n && is_word_char(p->text[p->at])) {
        p->at++;
    }
    return arena_strndup(p->arena, p->text + start, p->at - start);
}

static bool take_word(Parser *p, const char *wanted)
{
    skip_space(p);
    size_t start = p->at;
    if (strcmp(word(p), wanted) == 0) {
        return true;
    }
    p->at = start;
    return false;
}

static void need_word(Parser *p, const char *wanted)
{
    if (!take_word(p, wanted)) {
        fail(p, p->at, arena_printf(p->arena, "expected `%s`", wanted));
    }
}

static int64_t integer(Parser *p)
{
    skip_space(p);
    size_t start = p->at;
    const char *digits = word(p);
    char *end;
    errno = 0;
    int64_t value = strtoll(digits, &end, 10);
    if (!digits[0] || *end || errno) {
        fail(p, start, "expected an integer");
    }
    return value;
}

/* ---- names ---- */

static const char *value_name(Parser *p)
{
    need(p, '%');
    size_t start = p->at;
    const char *name = word(p);
    if (!name[0]) {
        fail(p, start, "expected a name after %");
    }
    return name;
}

static Value *lookup(Parser *p, const char *name)
{
    for (size_t i = p->names.n; i-- > 0;) {
        if (strcmp(p->names.items[i]->name, name) == 0) {
            return p->names.items[i];
        }
    }
    return NULL;
}

static Value *value(Parser *p)
{
    skip_space(p);
    size_t start = p->at;
    Value *found = lookup(p, value_name(p));
    if (!found) {
        fail(p, start, "no such value");
    }
    return found;
}

static void define(Parser *p, Value *named, const char *name)
{
    named->name = name;
    ARENA_PUSH(p->arena, &p->names, named);
}

/* ---- dimensions and types ---- */

static Dim dim_factor(Parser *p)
{
    size_t start = p->at;
    if (peek(p) == '%') {
        Value *range = value(p);
        if (range->type->kind != TYPE_RANGE) {
            fail(p, start, "not a range");
        }
        return range->type->dims[0];
    }
    if (isdigit((unsigned char)peek(p)) || peek(p) == '-') {
        return poly_const(p->func, integer(p));
    }
    const char *name = word(p);
    if (!name[0]) {
        fail(p, start, "expected a size");
    }
    return poly_var(p->func, func_size(p->func, name));
}

static Dim dim(Parser *p)
{
    Dim sum = NULL;
    do {
        Dim product = dim_factor(p);
        while (take(p, '*')) {
            product = poly_mul(p->func, product, dim_factor(p));
            if (!product) {
                fail(p, p->at, "a size expression too large");
            }
        }
        sum = sum ? poly_add(p->func, sum, product) : product;
        if (!sum) {
            fail(p, p->at, "a size expression too large");
        }
    } while (take(p, '+'));
    return sum;
}

/* `[` dims `]`; returns the count. */
static int dims(Parser *p, Dim *out)
{
    int n = 0;
    need(p, '[');
    while (!take(p, ']')) {
        if (n) {
            need(p, ',');
        }
        if (n == MAX_RANK) {
            fail(p, p->at, "more than 8 axes");
        }
        out[n++] = dim(p);
    }
    return n;
}

static DType dtype(Parser *p)
{
    skip_space(p);
    size_t start = p->at;
    const char *name = word(p);
    DType found;
    if (!dtype_from_name(name, strlen(name), &found)) {
        fail(p, start, "expected an element type");
    }
    return found;
}

static const Layout *layout_ref(Parser *p)
{
    size_t start = p->at;
    const char *name = word(p);
    size_t number = name[0] == 'L' ? strtoul(name + 1, NULL, 10) : p->layouts.n;
    if (number >= p->layouts.n) {
        fail(p, start, "no such layout");
    }
    return p->layouts.items[number];
}

static Type array_type(Parser *p)
{
    Dim extents[MAX_RANK];
    DType element = dtype(p);
    int rank = peek(p) == '[' ? dims(p, extents) : 0;
    Type type = type_array(p->func, element, rank, extents);
    return take(p, '@') ? type_with_layout(p->func, type, layout_ref(p)) : type;
}

static Type memory_type(Parser *p, TypeKind kind)
{
    Dim extents[MAX_RANK];
    int64_t fixed[MAX_RANK] = {0};
    size_t start = p->at;
    need(p, '<');
    DType element = dtype(p);
    int rank = peek(p) == '[' ? dims(p, extents) : 0;
    need(p, '>');
    if (kind == TYPE_TENSOR) {
        return type_tensor(p->func, element, rank, extents);
    }
    for (int i = 0; i < rank; i++) {
        if (!poly_is_const(extents[i], &fixed[i])) {
            fail(p, start, "shared memory has constant extents");
        }
    }
    return type_shared(p->func, element, rank, fixed);
}

/* NULL for `range`, whose variable the caller knows. */
static Type type(Parser *p)
{
    if (take_word(p, "range")) {
        return NULL;
    }
    if (take_word(p, "tensor")) {
        return memory_type(p, TYPE_TENSOR);
    }
    if (take_word(p, "shared")) {
        return memory_type(p, TYPE_SHARED);
    }
    if (take_word(p, "barrier")) {
        need(p, '<');
        Type ring = type_barrier(p->func, integer(p));
        need(p, '>');
        return ring;
    }
    return array_type(p);
}

static Type value_type(Parser *p)
{
    size_t start = p->at;
    Type found = type(p);
    if (!found) {
        fail(p, start, "a range can only be the argument of a region");
    }
    return found;
}

/* ---- attributes ---- */

static void number(Parser *p, double *f, int64_t *i)
{
    skip_space(p);
    size_t start = p->at;
    while (p->at < p->n && (is_word_char(p->text[p->at]) || p->text[p->at] == '+')) {
        p->at++;
    }
    const char *digits = arena_strndup(p->arena, p->text + start, p->at - start);
    char *end;
    *f = strtod(digits, &end);
    if (!digits[0] || *end) {
        fail(p, start, "expected a number");
    }
    *i = strtoll(digits, NULL, 10);
}

static int int_list(Parser *p, int64_t *out, int most)
{
    int n = 0;
    need(p, '[');
    while (!take(p, ']')) {
        if (n) {
            need(p, ',');
        }
        if (n == most) {
            fail(p, p->at, "the list is too long");
        }
        out[n++] = integer(p);
    }
    return n;
}

static void attribute(Parser *p, Op *op, AttrKey key)
{
    int64_t ints[64];
    Dim extents[MAX_RANK];
    double f;
    int64_t i;
    switch (attr_kind(key)) {
    case ATTR_KIND_INT:
        op_set_int(p->func, op, key, integer(p));
        break;
    case ATTR_KIND_NUM:
        number(p, &f, &i);
        op_set_num(p->func, op, key, f, i);
        break;
    case ATTR_KIND_WORD:
        op_set_word(p->func, op, key, word(p));
        break;
    case ATTR_KIND_INTS: {
        int n = int_list(p, ints, 64);
        op_set_ints(p->func, op, key, n, ints);
        break;
    }
    case ATTR_KIND_DIMS: {
        int n = dims(p, extents);
        op_set_dims(p->func, op, key, n, extents);
        break;
    }
    }
}

static bool attribute_key(const char *name, AttrKey *out)
{
    for (int key = 0; key < ATTR_COUNT; key++) {
        if (strcmp(attr_name((AttrKey)key), name) == 0) {
            *out = (AttrKey)key;
            return true;
        }
    }
    return false;
}

static void attributes(Parser *p, Op *op)
{
    while (isalpha((unsigned char)peek(p))) {
        size_t start = p->at;
        AttrKey key;
        const char *name = word(p);
        if (peek(p) != '=' || !attribute_key(name, &key)) {
            p->at = start; /* the next operation */
            return;
        }
        need(p, '=');
        attribute(p, op, key);
    }
}

/* ---- operations ---- */

static void indices(Parser *p, NameList *operands, int rank)
{
    need(p, '[');
    for (int i = 0; i < rank; i++) {
        if (i) {
            need(p, ',');
        }
        Value *index = take(p, ':') ? NULL : value(p);
        ARENA_PUSH(p->arena, operands, index);
    }
    need(p, ']');
}

static NameList operand_list(Parser *p)
{
    NameList operands = {0};
    while (peek(p) == '%') {
        /* `%a = …` begins the next operation when this one has no operands. */
        Value *operand = value(p);
        ARENA_PUSH(p->arena, &operands, operand);
        if (type_is_memory(operand->type)) {
            indices(p, &operands, operand->type->rank);
        }
        if (operands.n > MOST_LIST) {
            fail(p, p->at, "too many operands");
        }
        if (!take(p, ',')) {
            break;
        }
    }
    return operands;
}

/* An operation without operands may be followed by a line that begins with `%r =`. */
static bool starts_assignment(Parser *p)
{
    size_t start = p->at;
    bool assigns = false;
    while (take(p, '%')) {
        word(p);
        if (take(p, ',')) {
            continue;
        }
        assigns = peek(p) == '=';
        break;
    }
    p->at = start;
    return assigns;
}

static void block(Parser *p, Block *into);

/* The type of the n-th argument when the text says `range`. */
static Type range_argument(Parser *p, const Op *op, int n, const char *name, size_t start)
{
    const Attr *extents = op_attr(op, ATTR_DIMS), *steps = op_attr(op, ATTR_STEPS);
    if (!extents || !steps || n >= extents->n || n >= steps->n) {
        fail(p, start, "a range without an extent in `dims` and a step in `steps`");
    }
    int64_t step = steps->ints[n];
    return type_range(p->func, func_range(p->func, name, extents->dims[n], step > 0 ? step : 0));
}

static void region(Parser *p, Op *op, Block *into)
{
    size_t scope = p->names.n;
    if (++p->depth > MOST_NESTING) {
        fail(p, p->at, "regions nested too deeply");
    }
    need(p, '{');
    if (take(p, '(')) {
        while (!take(p, ')')) {
            if (into->n_args) {
                need(p, ',');
            }
            size_t start = p->at;
            const char *name = value_name(p);
            need(p, ':');
            Type of = type(p);
            of = of ? of : range_argument(p, op, into->n_args, name, start);
            define(p, block_arg(p->func, into, of, name), name);
        }
    }
    block(p, into);
    need(p, '}');
    p->depth--;
    p->names.n = scope;
}

enum { MOST_RESULTS = 1024 };

static int result_names(Parser *p, const char **names)
{
    int n = 0;
    while (peek(p) == '%') {
        if (n == MOST_RESULTS) {
            fail(p, p->at, "too many results");
        }
        names[n++] = value_name(p);
        if (!take(p, ',')) {
            break;
        }
    }
    if (n) {
        need(p, '=');
    }
    return n;
}

static void result_types(Parser *p, Op *op, int n, const char **names)
{
    for (int i = 0; i < n; i++) {
        need(p, i ? ',' : ':');
        op->results[i]->type = value_type(p);
        define(p, op->results[i], names[i]);
    }
}

static void operation(Parser *p, Block *into)
{
    const char *names[MOST_RESULTS];
    int n_results = result_names(p, names);
    skip_space(p);
    size_t start = p->at;
    const char *name = word(p);
    OpKind kind;
    if (!op_from_name(name, strlen(name), &kind)) {
        fail(p, start, arena_printf(p->arena, "no operation is called `%s`", name));
    }
    NameList operands = {0};
    if (!starts_assignment(p)) {
        operands = operand_list(p);
    }
    Type *later = ARENA_ARRAY(p->arena, Type, n_results);
    for (int i = 0; i < n_results; i++) {
        later[i] = type_scalar(p->func, DT_BOOL);
    }
    Builder b = build_at_end(p->func, into);
    b.span = (Span){p->source, (uint32_t)start, (uint32_t)p->at};
    Op *op = build_op(&b, kind, (int)operands.n, operands.items, n_results, later, 0);
    attributes(p, op);
    Block *regions[16];
    int n_regions = 0;
    while (peek(p) == '{') {
        if (n_regions == 16) {
            fail(p, p->at, "too many regions");
        }
        regions[n_regions] = build_block(p->func, op);
        region(p, op, regions[n_regions++]);
    }
    op->regions = arena_copy(p->arena, regions, sizeof(Block *) * (size_t)n_regions);
    op->n_regions = (uint16_t)n_regions;
    result_types(p, op, n_results, names);
}

static void block(Parser *p, Block *into)
{
    while (peek(p) != '}' && peek(p) != 0) {
        operation(p, into);
    }
}

/* ---- the header ---- */

static void size_line(Parser *p)
{
    DimVar *var = func_size(p->func, word(p));
    for (;;) {
        if (take_word(p, "multiple")) {
            var->multiple = integer(p);
        } else if (take_word(p, "least")) {
            var->least = integer(p);
        } else if (take_word(p, "most")) {
            var->most = integer(p);
        } else {
            break;
        }
    }
    if (var->multiple < 1) {
        fail(p, p->at, "a size is a multiple of 1 at least");
    }
}

static void param_line(Parser *p, ParamIo io)
{
    const char *name = value_name(p);
    need(p, ':');
    Value *param = func_param(p->func, name, value_type(p), io);
    define(p, param, name);
}

static void schedule_line(Parser *p)
{
    static const char *const origins[] = {"derived", "source", "command"};
    char *key = arena_strdup(p->arena, word(p));
    char *dot = strchr(key, '.');
    const char *sub = dot ? dot + 1 : "";
    if (dot) {
        *dot = 0;
    }
    need(p, '=');
    skip_space(p);
    bool is_number = isdigit((unsigned char)peek(p)) || peek(p) == '-';
    int64_t amount = is_number ? integer(p) : 0;
    const char *name = is_number ? NULL : word(p);
    for (int origin = LINE_DERIVED; origin <= LINE_COMMAND; origin++) {
        if (take_word(p, origins[origin])) {
            schedule_give(p->func, key, sub, name, amount, (LineOrigin)origin, SPAN_NONE);
            return;
        }
    }
    fail(p, p->at, "expected the line's origin");
}

static void layout_line(Parser *p)
{
    static const char *const inputs[] = {"register", "lane", "warp"};
    Layout layout = {0};
    word(p);
    need(p, '=');
    need_word(p, "rank");
    int64_t rank = integer(p);
    if (rank < 1 || rank > MAX_RANK) {
        fail(p, p->at, "a layout has 1 to 8 axes");
    }
    layout.rank = (uint8_t)rank;
    for (int in = 0; in < IN_COUNT; in++) {
        need_word(p, inputs[in]);
        need(p, '[');
        while (!take(p, ']')) {
            int64_t basis[MAX_RANK] = {0};
            if (layout.bits[in] && !take(p, ',')) {
                fail(p, p->at, "expected `,`");
            }
            if (layout.bits[in] == LAYOUT_BITS || int_list(p, basis, MAX_RANK) != rank) {
                fail(p, p->at, "a basis vector has one number an axis, an input at most 12 bits");
            }
            for (int axis = 0; axis < rank; axis++) {
                layout.basis[in][layout.bits[in]][axis] = (int32_t)basis[axis];
            }
            layout.bits[in]++;
        }
    }
    ARENA_PUSH(p->arena, &p->layouts, func_intern_layout(p->func, &layout));
}

static void header_lines(Parser *p)
{
    for (;;) {
        if (take_word(p, "size")) {
            size_line(p);
        } else if (take_word(p, "in")) {
            param_line(p, PARAM_IN);
        } else if (take_word(p, "out")) {
            param_line(p, PARAM_OUT);
        } else if (take_word(p, "inout")) {
            param_line(p, PARAM_INOUT);
        } else if (take_word(p, "line")) {
            schedule_line(p);
        } else if (take_word(p, "layout")) {
            layout_line(p);
        } else {
            return;
        }
    }
}

static Stage stage(Parser *p)
{
    if (take_word(p, "tensor")) {
        return STAGE_TENSOR;
    }
    if (take_word(p, "launch")) {
        return STAGE_LAUNCH;
    }
    need_word(p, "staged");
    return STAGE_STAGED;
}

static void function(Parser *p)
{
    need_word(p, "func");
    p->func = func_new(p->arena, p->diags, word(p));
    need_word(p, "stage");
    p->func->stage = stage(p);
    p->func->padded = take_word(p, "padded");
    if (take_word(p, "target")) {
        size_t start = p->at;
        p->func->target = target_find(word(p));
        if (!p->func->target) {
            fail(p, start, "no such target");
        }
    }
    need(p, '{');
    header_lines(p);
    need_word(p, "body");
    need(p, '{');
    block(p, p->func->body);
    need(p, '}');
    need(p, '}');
    if (peek(p)) {
        fail(p, p->at, "text after the function");
    }
}

Func *parse_func(Arena *arena, Diags *diags, int source)
{
    Parser *p = ARENA_NEW(arena, Parser);
    p->arena = arena;
    p->diags = diags;
    p->source = source;
    p->text = diags->sources.items[source].text;
    p->n = diags->sources.items[source].n;
    if (setjmp(p->failed)) {
        return NULL;
    }
    function(p);
    return p->func;
}
