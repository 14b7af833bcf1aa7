/* SPDX-License-Identifier: Apache-2.0 */
/* The writer of nests as source, in parts: nest_source.c (the kernel, its launches and schedule),
 * nest_statements.c (statements and loops), nest_expressions.c (what an op is in an expression),
 * nest_text.c (names, sizes, lines, reasons). Private to passes/nest. */
#ifndef TESSERA_PASSES_NEST_NEST_TEXT_H
#define TESSERA_PASSES_NEST_NEST_TEXT_H

#include "ir/build.h"

/* Why a launch cannot be written (nest_reasons.def). */
typedef enum NestReason {
    NEST_REASON_NONE,
#define NEST_REASON(id, text) NEST_REASON_##id,
#include "passes/nest/nest_reasons.def"
#undef NEST_REASON
} NestReason;

/* How tightly the outermost operator of an expression binds. */
typedef enum NestBinding {
    BINDS_CHOICE,
    BINDS_OR,
    BINDS_AND,
    BINDS_NOT,
    BINDS_COMPARISON,
    BINDS_BIT_OR,
    BINDS_BIT_XOR,
    BINDS_BIT_AND,
    BINDS_SHIFT,
    BINDS_SUM,
    BINDS_PRODUCT,
    BINDS_UNARY,
    BINDS_PRIMARY,
} NestBinding;

typedef struct NestExpr {
    const char *text; /* NULL: the value has not been written yet */
    NestBinding binds;
} NestExpr;

/* Values that are not statements yet: expressions that their only reader may contain, in the order
 * in which they are computed. */
typedef struct NestPending {
    Value **items;
    size_t n, cap;
} NestPending;

typedef struct NestWriter {
    Func *func;
    Text *out;
    int indent;
    NestReason reason; /* the first one */
    const Op *at;      /* the op that it is about */
    NestExpr *exprs;   /* by value */
    NestPending pending;
    struct {
        const char **items;
        size_t n, cap;
    } names;        /* that are taken */
    bool unchecked; /* all computed indices of the launch are known to be inside */
    Text *schedule;
    const char *scope; /* of its lines: "launch 1: " */
} NestWriter;

/* ---- nest_text.c ---- */
extern const char *const nest_reasons[];
/* The first reason counts. */
void nest_refuse(NestWriter *w, NestReason reason, const Op *op);
/* A name that nothing else has, made of this one. */
const char *nest_name(NestWriter *w, const char *wish);
/* From here on the name is something's. */
void nest_take_name(NestWriter *w, const char *name);
void nest_line(NestWriter *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A size expression, or the name of a range. */
const char *nest_dim(NestWriter *w, Dim dim);
/* `f32[m, N]` */
const char *nest_type_text(NestWriter *w, Type type);
/* A line of the schedule. */
void nest_entry(NestWriter *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* `m in M by auto`, and what the schedule says of its step; `exact`: `m in M by exactly 64`. */
const char *nest_axis(NestWriter *w, const Value *arg, Dim extent, int64_t step, const char *part,
                      bool exact);

/* ---- nest_statements.c ---- */
void nest_block(NestWriter *w, const Block *block);

/* ---- nest_expressions.c ---- */
/* The expression of an op's result, whose operands have been written. */
NestExpr nest_expression(NestWriter *w, const Op *op);
/* The value in an expression that binds so tightly. */
const char *nest_operand(NestWriter *w, const Value *value, NestBinding binds);
/* The value by itself, with the type and shape that it has. */
const char *nest_whole(NestWriter *w, const Value *value);
/* `x[m, :]` */
const char *nest_access(NestWriter *w, const Access *access);
/* Does it cost nothing, wherever it is written? */
bool nest_is_free(const Op *op);
/* Is it the exact value next to an approximation, which the function of the library computes? */
bool nest_is_exact_twin(const Op *op);
/* The op that computes the value, without what only stretches it. */
const Op *nest_def(const Value *value);
/* The function whose expansion ends with this op (ATTR_EXPANDED); NULL: none does. */
const char *nest_function(NestWriter *w, const Op *op, Value **of);

#endif
