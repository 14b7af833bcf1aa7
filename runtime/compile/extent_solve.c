/* SPDX-License-Identifier: Apache-2.0 */
/* Solves an extent of a signature, such as `2 * N + 1` or `(H - R) // 2`, for the one size that is
 * not known yet. Before a kernel is lowered only its text exists, so this works on text. */
#include "runtime/compile/compilation.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct Reader {
    Arena *arena;
    const char *at;
    ExtentValue *value;
    void *user;
    bool bad;
} Reader;

static Extent read_sum(Reader *r);

static Extent not_linear(Reader *r)
{
    r->bad = true;
    return (Extent){0};
}

static bool take(Reader *r, const char *token)
{
    r->at += strspn(r->at, " ");
    size_t n = strlen(token);
    bool here = strncmp(r->at, token, n) == 0;
    r->at += here ? n : 0;
    return here;
}

static Extent read_number(Reader *r)
{
    char *end;
    errno = 0;
    long long value = strtoll(r->at, &end, 10);
    if (end == r->at || errno != 0 || isalnum((unsigned char)*end) || *end == '_') {
        return not_linear(r); /* 1_000 and 0x10 are left to the compiler */
    }
    r->at = end;
    return (Extent){.rest = value};
}

static Extent read_name(Reader *r)
{
    size_t n = 0;
    while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_') {
        n++;
    }
    if (n == 0) {
        return not_linear(r);
    }
    const char *name = arena_strndup(r->arena, r->at, n);
    Extent extent = {0};
    r->at += n;
    if (r->value(r->user, name, &extent.rest)) {
        return extent;
    }
    return (Extent){.unknown = name, .slope = 1};
}

static Extent read_atom(Reader *r)
{
    if (take(r, "(")) {
        Extent inner = read_sum(r);
        return take(r, ")") ? inner : not_linear(r);
    }
    if (take(r, "-")) {
        Extent inner = read_atom(r);
        bool over = __builtin_sub_overflow(0, inner.slope, &inner.slope) ||
                    __builtin_sub_overflow(0, inner.rest, &inner.rest);
        return over ? not_linear(r) : inner;
    }
    return isdigit((unsigned char)*r->at) ? read_number(r) : read_name(r);
}

static Extent multiply(Reader *r, Extent a, Extent b)
{
    if (a.unknown && b.unknown) {
        return not_linear(r);
    }
    Extent line = a.unknown ? a : b;
    int64_t factor = a.unknown ? b.rest : a.rest;
    bool over = __builtin_mul_overflow(line.slope, factor, &line.slope) ||
                __builtin_mul_overflow(line.rest, factor, &line.rest);
    return over ? not_linear(r) : line;
}

/* Of known numbers only; floors. */
static Extent divide(Reader *r, Extent a, Extent b)
{
    if (a.unknown || b.unknown || b.rest <= 0) {
        return not_linear(r);
    }
    int64_t quotient = a.rest / b.rest;
    return (Extent){.rest = quotient - (a.rest % b.rest < 0)};
}

static Extent read_product(Reader *r)
{
    Extent product = read_atom(r);
    while (!r->bad) {
        if (take(r, "//")) {
            product = divide(r, product, read_atom(r));
        } else if (take(r, "*")) {
            product = multiply(r, product, read_atom(r));
        } else {
            break;
        }
    }
    return product;
}

static Extent add(Reader *r, Extent a, Extent b, bool minus)
{
    if (a.unknown && b.unknown && !text_equal(a.unknown, b.unknown)) {
        return not_linear(r);
    }
    Extent sum = {.unknown = a.unknown ? a.unknown : b.unknown};
    bool over = minus ? __builtin_sub_overflow(a.slope, b.slope, &sum.slope) ||
                            __builtin_sub_overflow(a.rest, b.rest, &sum.rest)
                      : __builtin_add_overflow(a.slope, b.slope, &sum.slope) ||
                            __builtin_add_overflow(a.rest, b.rest, &sum.rest);
    return over ? not_linear(r) : sum;
}

static Extent read_sum(Reader *r)
{
    Extent sum = read_product(r);
    while (!r->bad) {
        if (take(r, "+")) {
            sum = add(r, sum, read_product(r), false);
        } else if (take(r, "-")) {
            sum = add(r, sum, read_product(r), true);
        } else {
            break;
        }
    }
    return sum;
}

bool extent_read(Arena *arena, const char *text, ExtentValue *value, void *user, Extent *extent)
{
    Reader r = {arena, text, value, user, false};
    *extent = read_sum(&r);
    take(&r, "");
    return !r.bad && *r.at == '\0';
}
