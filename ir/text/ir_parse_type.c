/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the size expressions and types of the text form. */
#include "ir/text/ir_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ALIGN = 64 };

static Dim dim_factor(Parser *p)
{
    size_t start = p->at;
    if (parse_peek(p) == '%') {
        Value *range = parse_value(p);
        if (range->type->kind != TYPE_RANGE) {
            parse_fail(p, start, "not a range");
        }
        return range->type->dims[0];
    }
    if (isdigit((unsigned char)parse_peek(p)) || parse_peek(p) == '-') {
        return poly_const(p->func, parse_integer(p));
    }
    const char *name = parse_word(p);
    if (!name[0]) {
        parse_fail(p, start, "expected a size");
    }
    bool is_stride = strchr(name, '.');
    return poly_var(p->func, is_stride ? func_stride(p->func, name) : func_size(p->func, name));
}

static Dim dim(Parser *p)
{
    Dim sum = NULL;
    do {
        Dim product = dim_factor(p);
        while (parse_take(p, '*')) {
            product = poly_mul(p->func, product, dim_factor(p));
            if (!product) {
                parse_fail(p, p->at, "a size expression too large");
            }
        }
        sum = sum ? poly_add(p->func, sum, product) : product;
        if (!sum) {
            parse_fail(p, p->at, "a size expression too large");
        }
    } while (parse_take(p, '+'));
    return sum;
}

/* `[` dims `]`; returns the count. */
int parse_dims(Parser *p, Dim *out)
{
    int n = 0;
    parse_need(p, '[');
    while (!parse_take(p, ']')) {
        if (n) {
            parse_need(p, ',');
        }
        if (n == MAX_RANK) {
            parse_fail(p, p->at, "more than 8 axes");
        }
        out[n++] = dim(p);
    }
    return n;
}

static DType dtype(Parser *p)
{
    parse_skip(p);
    size_t start = p->at;
    const char *name = parse_word(p);
    DType found;
    if (!dtype_from_name(name, strlen(name), &found)) {
        parse_fail(p, start, "expected an element type");
    }
    return found;
}

static const Layout *layout_ref(Parser *p)
{
    size_t start = p->at;
    const char *name = parse_word(p);
    size_t number = name[0] == 'L' ? strtoul(name + 1, NULL, 10) : p->layouts.n;
    if (number >= p->layouts.n) {
        parse_fail(p, start, "no such layout");
    }
    return p->layouts.items[number];
}

/* What follows a tensor's extents: ` strides [S.0, 1] align 4`. */
static Type axis_order(Parser *p, Type tensor)
{
    Dim strides[MAX_RANK];
    size_t start = p->at;
    bool strided = parse_take_word(p, "strides");
    if (strided && parse_dims(p, strides) != tensor->rank) {
        parse_fail(p, start, "a tensor has one stride an axis");
    }
    int64_t align = parse_take_word(p, "align") ? parse_integer(p) : 0;
    if (align < 0 || align > MAX_ALIGN || (align & (align - 1))) {
        parse_fail(p, start, "an alignment is a power of two up to 64");
    }
    return type_with_strides(p->func, tensor, strided ? strides : NULL, (int)align);
}

static Type memory_type(Parser *p, TypeKind kind)
{
    Dim extents[MAX_RANK];
    int64_t fixed[MAX_RANK] = {0};
    size_t start = p->at;
    parse_need(p, '<');
    DType element = dtype(p);
    int rank = parse_peek(p) == '[' ? parse_dims(p, extents) : 0;
    if (kind == TYPE_TENSOR) {
        Type tensor = axis_order(p, type_tensor(p->func, element, rank, extents));
        parse_need(p, '>');
        return tensor;
    }
    parse_need(p, '>');
    for (int i = 0; i < rank; i++) {
        if (!poly_is_const(extents[i], &fixed[i])) {
            parse_fail(p, start, "shared memory has constant extents");
        }
    }
    return type_shared(p->func, element, rank, fixed);
}

/* NULL for `range`, whose variable the caller knows. */
Type parse_written_type(Parser *p)
{
    if (parse_take_word(p, "range")) {
        return NULL;
    }
    if (parse_take_word(p, "tensor")) {
        return memory_type(p, TYPE_TENSOR);
    }
    if (parse_take_word(p, "shared")) {
        return memory_type(p, TYPE_SHARED);
    }
    if (parse_take_word(p, "mbarrier")) {
        parse_need(p, '<');
        Type ring = type_mbarrier(p->func, parse_integer(p));
        parse_need(p, '>');
        return ring;
    }
    Dim extents[MAX_RANK];
    DType element = dtype(p);
    int rank = parse_peek(p) == '[' ? parse_dims(p, extents) : 0;
    Type type = type_array(p->func, element, rank, extents);
    return parse_take(p, '@') ? type_with_layout(p->func, type, layout_ref(p)) : type;
}

Type parse_value_type(Parser *p)
{
    size_t start = p->at;
    Type found = parse_written_type(p);
    if (!found) {
        parse_fail(p, start, "a range can only be the argument of a region");
    }
    return found;
}
