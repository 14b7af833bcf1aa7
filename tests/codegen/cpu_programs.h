/* SPDX-License-Identifier: Apache-2.0 */
/* Programs generated for an element type: every elementwise op and cast, indexing, scans, and
 * atomics. */
#ifndef TESSERA_TESTS_CODEGEN_CPU_PROGRAMS_H
#define TESSERA_TESTS_CODEGEN_CPU_PROGRAMS_H

#include "ir/dtype.h"
#include "support/text.h"

#include <stdio.h>

typedef struct OpText {
    Text head, body;
    int outputs;
} OpText;

static void add_line(OpText *text, const char *call, DType out)
{
    const char *name = dtype_name(out);
    int n = text->outputs++;
    text_printf(&text->head, "  out %%o%d: tensor<%s[N]>\n", n, name);
    text_printf(&text->body, "      %%r%d = %s : %s[%%n]\n", n, call, name);
    text_printf(&text->body, "      store %%o%d[%%n], %%r%d guard=[1]\n", n, n);
}

static void add_casts(OpText *text)
{
    for (int to = 0; to < DT_COUNT; to++) {
        add_line(text, "cast %x", (DType)to);
    }
}

static void add_ops(OpText *text, DType dtype)
{
    static const char *const ALL[] = {"add %x, %y", "sub %x, %y",    "mul %x, %y", "div %x, %y",
                                      "mod %x, %y", "min %x, %y",    "max %x, %y", "neg %x",
                                      "abs %x",     "fma %x, %y, %z"};
    static const char *const INTS[] = {"and %x, %y", "or %x, %y",  "xor %x, %y",
                                       "shl %x, %y", "shr %x, %y", "not %x"};
    static const char *const FLOATS[] = {"sqrt %x", "floor %x", "ceil %x", "trunc %x", "rint %x"};
    static const char *const PREDICATES[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    bool is_float = dtype_is_float(dtype);
    size_t n = is_float ? sizeof FLOATS / sizeof *FLOATS : sizeof INTS / sizeof *INTS;
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++) {
        add_line(text, ALL[i], dtype);
    }
    for (size_t i = 0; i < n; i++) {
        add_line(text, is_float ? FLOATS[i] : INTS[i], dtype);
    }
    for (size_t i = 0; i < 6; i++) {
        char call[32];
        snprintf(call, sizeof call, "cmp %%x, %%y pred=%s", PREDICATES[i]);
        add_line(text, call, DT_BOOL);
    }
}

static char *op_program(Arena *arena, DType dtype, bool casts)
{
    const char *name = dtype_name(dtype);
    OpText text = {text_new(arena), text_new(arena), 0};
    text_printf(&text.head, "func ops level loop padded target native {\n  size N\n");
    for (const char *in = "xyz"; *in; in++) {
        text_printf(&text.head, "  in %%in_%c: tensor<%s[N]>\n", *in, name);
        text_printf(&text.body, "      %%%c = load %%in_%c[%%n] guard=[1] : %s[%%n]\n", *in, *in,
                    name);
    }
    if (casts) {
        add_casts(&text);
    } else {
        add_ops(&text, dtype);
    }
    return arena_printf(arena,
                        "%s  body {\n    launch dims=[N] steps=[64] warps=[1] {\n"
                        "      (%%n: range)\n%s    }\n  }\n}\n",
                        text.head.data, text.body.data);
}

static void add_atomics(OpText *text, DType dtype)
{
    static const char *const FNS[] = {"add", "min", "max", "and", "or", "xor"};
    const char *name = dtype_name(dtype);
    for (int i = 0; i < (dtype_is_float(dtype) ? 3 : 6); i++) {
        text_printf(&text->head, "  inout %%s%d: tensor<%s[7]>\n", i, name);
        text_printf(&text->body, "      scatter %%s%d[%%k], %%x fn=%s guard=[1]\n", i, FNS[i]);
    }
    text_printf(&text->head, "  inout %%c: tensor<%s[N]>\n  inout %%d: tensor<%s[N]>\n", name,
                name);
    add_line(text, "scatter %c[%j], %x, %y fn=cas guard=[1]", dtype);
    add_line(text, "scatter %d[%back], %x, %y fn=cas guard=[1]", dtype);
}

static void add_scans(OpText *text, DType dtype)
{
    bool is_float = dtype_is_float(dtype);
    text_printf(&text->body, "      %%m = mask %%x axis=0 value=%s : %s[%%n]\n",
                is_float ? "-inf" : "0", dtype_name(dtype));
    add_line(text, "scan %x fn=max axis=0", dtype);
    add_line(text, "scan %x fn=min axis=0 exclusive=1", dtype);
    if (!is_float) {
        add_line(text, "scan %x fn=prod axis=0", dtype);
        add_line(text, "scan %m fn=sum axis=0 reverse=1", dtype);
    } else {
        add_line(text, "scan %m fn=max axis=0 reverse=1 exclusive=1", dtype);
    }
}

static char *index_program(Arena *arena, DType dtype)
{
    const char *name = dtype_name(dtype);
    OpText text = {text_new(arena), text_new(arena), 0};
    text_printf(&text.head,
                "func index level loop padded target native {\n  size N\n"
                "  in %%at: tensor<i32[N]>\n  in %%in_x: tensor<%s[N]>\n"
                "  in %%in_y: tensor<%s[N]>\n  inout %%set: tensor<%s[N]>\n",
                name, name, name);
    text_printf(&text.body,
                "      %%k = load %%at[%%n] guard=[1] value=-1 : i32[%%n]\n"
                "      %%x = load %%in_x[%%n] guard=[1] : %s[%%n]\n"
                "      %%y = load %%in_y[%%n] guard=[1] : %s[%%n]\n"
                "      %%j = index %%n : i64[%%n]\n      %%all = size dim=[N] : i64\n"
                "      %%one = const value=1 : i64\n      %%last = sub %%all, %%one : i64\n"
                "      %%lasts = broadcast %%last : i64[%%n]\n"
                "      %%back = sub %%lasts, %%j : i64[%%n]\n"
                "      scatter %%set[%%back], %%x fn=set guard=[1]\n",
                name, name);
    add_line(&text, "gather %in_x[%k] guard=[1]", dtype);
    add_line(&text, "gather %in_x[%back] guard=[1]", dtype);
    bool wide = dtype != DT_BOOL && dtype_bits(dtype) >= 8;
    bool arithmetic = wide && !(dtype_is_float(dtype) && dtype_bits(dtype) < 32);
    if (wide) {
        add_atomics(&text, dtype);
    }
    if (arithmetic) {
        add_scans(&text, dtype);
    }
    return arena_printf(arena,
                        "%s  body {\n    launch dims=[N] steps=[200] warps=[1] {\n"
                        "      (%%n: range)\n%s    }\n  }\n}\n",
                        text.head.data, text.body.data);
}

#endif
