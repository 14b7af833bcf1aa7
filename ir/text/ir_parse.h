/* SPDX-License-Identifier: Apache-2.0 */
/* The internal interface of the parser of the text form (docs/ir.md). Only ir_parse*.c include
 * this.
 *
 * Any text is input: every failure is a diagnostic, then a jump out of the recursion. */
#ifndef TESSERA_IR_TEXT_IR_PARSE_H
#define TESSERA_IR_TEXT_IR_PARSE_H

#include "ir/build.h"
#include "ir/layout/layout.h"

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
    struct {
        const Layout **items;
        size_t n, cap;
    } layouts;
    int depth;
    jmp_buf failed;
} Parser;

/* ir_parse_text.c: characters, words, numbers, names */
_Noreturn void parse_fail(Parser *p, size_t start, const char *what);
void parse_skip(Parser *p);
char parse_peek(Parser *p); /* after blanks and comments; 0 at the end */
bool parse_take(Parser *p, char c);
void parse_need(Parser *p, char c);
/* Letters, digits, `_`, `.`, and `-` inside (target names). "" when there is none. */
const char *parse_word(Parser *p);
bool parse_take_word(Parser *p, const char *wanted);
void parse_need_word(Parser *p, const char *wanted);
int64_t parse_integer(Parser *p);
void parse_number(Parser *p, double *f, int64_t *i);
int parse_int_list(Parser *p, int64_t *out, int most); /* `[` integers `]`; returns the count */
const char *parse_quoted(Parser *p);                   /* "text", with \" \\ \n \t \xNN */
const char *parse_value_name(Parser *p);
Value *parse_value(Parser *p); /* in scope */
void parse_define(Parser *p, Value *named, const char *name);

/* ir_parse_type.c */
int parse_dims(Parser *p, Dim *out); /* `[` dims `]`; returns the count */
Type parse_written_type(Parser *p);  /* NULL for `range`, whose variable the caller knows */
Type parse_value_type(Parser *p);

/* ir_parse_op.c */
void parse_ops(Parser *p, Block *into);
/* `{ (…) … }`; op: whose region it is, NULL: a named function's. */
void parse_region(Parser *p, Op *op, Block *into);

#endif
