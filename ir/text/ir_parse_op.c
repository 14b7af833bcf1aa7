/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the ops of the text form: attributes, operands, regions. */
#include "ir/text/ir_parse.h"

#include <ctype.h>
#include <string.h>

enum { MAX_NESTING = 64, MAX_LIST = 4096 };

/* ---- attributes ---- */

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
    while (isalpha((unsigned char)parse_peek(p))) {
        size_t start = p->at;
        AttrKey key;
        const char *name = parse_word(p);
        if (parse_peek(p) != '=' || !attribute_key(name, &key)) {
            p->at = start; /* the next operation */
            return;
        }
        parse_need(p, '=');
        int64_t ints[64];
        Dim extents[MAX_RANK];
        double f;
        int64_t i;
        switch (attr_kind(key)) {
        case ATTR_KIND_INT: op_set_int(p->func, op, key, parse_integer(p)); break;
        case ATTR_KIND_NUM:
            parse_number(p, &f, &i);
            op_set_num(p->func, op, key, f, i);
            break;
        case ATTR_KIND_WORD: op_set_word(p->func, op, key, parse_word(p)); break;
        case ATTR_KIND_TEXT: op_set_word(p->func, op, key, parse_quoted(p)); break;
        case ATTR_KIND_INTS: {
            int n = parse_int_list(p, ints, 64);
            op_set_ints(p->func, op, key, n, ints);
            break;
        }
        case ATTR_KIND_DIMS: {
            int n = parse_dims(p, extents);
            op_set_dims(p->func, op, key, n, extents);
            break;
        }
        }
    }
}

/* ---- operations ---- */

static NameList operand_list(Parser *p, OpKind kind)
{
    NameList operands = {0};
    while (parse_peek(p) == '%') {
        /* `%a = …` begins the next operation when this one has no operands. */
        Value *operand = parse_value(p);
        ARENA_PUSH(p->arena, &operands, operand);
        bool gathers = kind == OP_GATHER && operands.n == 1 && operand->type->kind == TYPE_ARRAY;
        if (type_is_memory(operand->type) || gathers) {
            parse_need(p, '[');
            for (int i = 0; i < operand->type->rank; i++) {
                if (i) {
                    parse_need(p, ',');
                }
                Value *index = parse_take(p, ':') ? NULL : parse_value(p);
                ARENA_PUSH(p->arena, &operands, index);
            }
            parse_need(p, ']');
        }
        if (operands.n > MAX_LIST) {
            parse_fail(p, p->at, "too many operands");
        }
        if (!parse_take(p, ',')) {
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
    while (parse_take(p, '%')) {
        parse_word(p);
        if (parse_take(p, ',')) {
            continue;
        }
        assigns = parse_peek(p) == '=';
        break;
    }
    p->at = start;
    return assigns;
}

/* The type of the n-th argument when the text says `range`. */
static Type range_argument(Parser *p, const Op *op, int n, const char *name, size_t start)
{
    const Attr *extents = op_attr(op, ATTR_DIMS), *steps = op_attr(op, ATTR_STEPS);
    if (!extents || !steps || n >= extents->n || n >= steps->n) {
        parse_fail(p, start, "a range without an extent in `dims` and a step in `steps`");
    }
    int64_t step = steps->ints[n];
    return type_range(p->func, func_range(p->func, name, extents->dims[n], step > 0 ? step : 0));
}

void parse_region(Parser *p, Op *op, Block *into)
{
    size_t scope = p->names.n;
    if (++p->depth > MAX_NESTING) {
        parse_fail(p, p->at, "regions nested too deeply");
    }
    parse_need(p, '{');
    if (parse_take(p, '(')) {
        while (!parse_take(p, ')')) {
            if (into->n_args) {
                parse_need(p, ',');
            }
            size_t start = p->at;
            const char *name = parse_value_name(p);
            parse_need(p, ':');
            Type of = parse_written_type(p);
            if (!of && !op) {
                parse_fail(p, start, "a function has no ranges");
            }
            of = of ? of : range_argument(p, op, into->n_args, name, start);
            parse_define(p, block_arg(p->func, into, of, name), name);
        }
    }
    parse_ops(p, into);
    parse_need(p, '}');
    p->depth--;
    p->names.n = scope;
}

enum { MAX_RESULTS = 1024 };

static void operation(Parser *p, Block *into)
{
    const char *names[MAX_RESULTS];
    int n_results = 0;
    while (parse_peek(p) == '%') {
        if (n_results == MAX_RESULTS) {
            parse_fail(p, p->at, "too many results");
        }
        names[n_results++] = parse_value_name(p);
        if (!parse_take(p, ',')) {
            break;
        }
    }
    if (n_results) {
        parse_need(p, '=');
    }
    parse_skip(p);
    size_t start = p->at;
    const char *name = parse_word(p);
    OpKind kind;
    if (!op_from_name(name, strlen(name), &kind)) {
        parse_fail(p, start, arena_printf(p->arena, "no operation is called `%s`", name));
    }
    NameList operands = {0};
    if (!starts_assignment(p)) {
        operands = operand_list(p, kind);
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
    while (parse_peek(p) == '{') {
        if (n_regions == 16) {
            parse_fail(p, p->at, "too many regions");
        }
        regions[n_regions] = build_block(p->func, op);
        parse_region(p, op, regions[n_regions++]);
    }
    op->regions = arena_copy(p->arena, regions, sizeof(Block *) * (size_t)n_regions);
    op->n_regions = (uint16_t)n_regions;
    for (int i = 0; i < n_results; i++) {
        parse_need(p, i ? ',' : ':');
        op->results[i]->type = parse_value_type(p);
        parse_define(p, op->results[i], names[i]);
    }
    Dim tile = op_reduces(op) && !op_attr(op, ATTR_OVER) ? op_reduced_extent(op) : NULL;
    if (tile && p->func->level != LEVEL_TENSOR) {
        op_set_over(p->func, op, tile);
    }
}

void parse_ops(Parser *p, Block *into)
{
    while (parse_peek(p) != '}' && parse_peek(p) != 0) {
        operation(p, into);
    }
}
