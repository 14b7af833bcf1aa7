/* SPDX-License-Identifier: Apache-2.0 */
/* Writes ops as expressions of the source language. */
#include "ir/op_axes.h"
#include "ir/text/ir_text.h"
#include "passes/nest/nest_text.h"

#include <math.h>
#include <string.h>

/* The number that all elements of the value are, whatever its shape; NULL: it is none. */
static const Op *literal_of(const Value *value)
{
    const Op *op = value->def;
    while (op && op_moves_axes(op)) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_CONST ? op : NULL;
}

bool nest_is_free(const Op *op)
{
    return op->kind == OP_CONST || op->kind == OP_SIZE || op->kind == OP_BROADCAST ||
           (op_moves_axes(op) && literal_of(op->results[0])) || nest_is_exact_twin(op);
}

const Op *nest_def(const Value *value)
{
    while (value->def && value->def->kind == OP_BROADCAST) {
        value = value->def->operands[0];
    }
    return value->def;
}

/* ---- operands ---- */

static bool is_identifier(const char *text)
{
    return text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789")] ==
           '\0';
}

const char *nest_operand(NestWriter *w, const Value *value, NestBinding binds)
{
    NestExpr expr = w->exprs[value->id];
    if (!expr.text) {
        nest_refuse(w, NEST_REASON_OPERATION, value->def);
        return "?";
    }
    return expr.binds >= binds ? expr.text : arena_printf(w->func->arena, "(%s)", expr.text);
}

/* Is it a number of the source, which takes the type of what stands next to it? */
static bool is_literal(const Value *value)
{
    return literal_of(value) != NULL;
}

const char *nest_whole(NestWriter *w, const Value *value)
{
    const Op *op = value->def;
    bool scalar = type_is_scalar(value->type);
    const char *text = nest_operand(w, value, BINDS_CHOICE);
    if (scalar && is_literal(value)) {
        bool plain = value->type->dtype == DT_BOOL;
        return plain ? text
                     : arena_printf(w->func->arena, "%s(%s)", dtype_name(value->type->dtype), text);
    }
    if (op && (is_literal(value) || op->kind == OP_BROADCAST)) {
        const Value *of = op->kind == OP_BROADCAST ? op->operands[0] : value;
        if (!is_literal(value) && !type_is_scalar(of->type)) {
            nest_refuse(w, NEST_REASON_BROADCAST, op);
        }
        return arena_printf(w->func->arena, "fill(%s, %s)", text, nest_type_text(w, value->type));
    }
    return text;
}

/* Does the operand, before it was stretched, have the result's axis, counted from the end? */
static bool covers(const Value *operand, Dim dim, int from_end)
{
    while (operand->def && operand->def->kind == OP_BROADCAST) {
        operand = operand->def->operands[0];
    }
    if (is_literal(operand) || from_end >= operand->type->rank) {
        return false;
    }
    return operand->type->dims[operand->type->rank - 1 - from_end] == dim;
}

/* The operand that has to be written with its shape, or none of them would have the axes of the
 * result; -1: none has to, -2: none can. */
static int whole_operand(const Op *op, Type type)
{
    int whole = -1;
    for (int i = 0; i < type->rank && whole == -1; i++) {
        bool covered = false;
        for (int k = 0; k < op->n_operands; k++) {
            covered = covered || covers(op->operands[k], type->dims[type->rank - 1 - i], i);
        }
        for (int k = 0; k < op->n_operands && !covered; k++) {
            const Op *def_op = nest_def(op->operands[k]);
            bool scalar = is_literal(op->operands[k]) ||
                          type_is_scalar(def_op ? def_op->results[0]->type : op->operands[k]->type);
            whole = scalar ? k : whole;
        }
        whole = covered || whole >= 0 ? whole : -2;
    }
    return whole;
}

/* Must a literal say its type, because nothing next to it has it? */
static bool types_literals(const Op *op, int first)
{
    for (int i = first; i < op->n_operands; i++) {
        if (!is_literal(op->operands[i])) {
            return false;
        }
    }
    return true;
}

typedef struct Operands {
    NestWriter *w;
    const Op *op;
    int whole;
    bool typed;
} Operands;

static const char *put(const Operands *o, int at, NestBinding binds)
{
    const Value *value = o->op->operands[at];
    if (at == o->whole) {
        return nest_whole(o->w, value);
    }
    bool condition = o->op->kind == OP_SELECT && at == 0;
    if (o->typed && !condition && is_literal(value) && value->type->dtype != DT_BOOL) {
        return arena_printf(o->w->func->arena, "%s(%s)", dtype_name(value->type->dtype),
                            nest_operand(o->w, value, BINDS_CHOICE));
    }
    return nest_operand(o->w, value, binds);
}

/* ---- numbers and sizes ---- */

static NestExpr number(NestWriter *w, const Op *op)
{
    static const Attr none = {0};
    const Attr *value = op_attr(op, ATTR_VALUE) ? op_attr(op, ATTR_VALUE) : &none;
    DType dtype = op->results[0]->type->dtype;
    Text text = text_new(w->func->arena);
    if (dtype == DT_BOOL) {
        text_add(&text, value->i ? "true" : "false");
    } else if (!dtype_is_float(dtype)) {
        text_i64(&text, value->i);
    } else if (isnan(value->f)) {
        text_add(&text, "nan");
    } else if (isinf(value->f)) {
        text_add(&text, value->f > 0 ? "inf" : "-inf");
    } else {
        text_double(&text, value->f);
    }
    return (NestExpr){text.data, text.data[0] == '-' ? BINDS_UNARY : BINDS_PRIMARY};
}

static NestExpr size(NestWriter *w, const Op *op)
{
    const char *text = nest_dim(w, op_attr(op, ATTR_DIM)->dims[0]);
    return (NestExpr){text, is_identifier(text) ? BINDS_PRIMARY : BINDS_SUM};
}

/* ---- memory ---- */

const char *nest_access(NestWriter *w, const Access *access)
{
    Text text = text_new(w->func->arena);
    text_add(&text, nest_operand(w, access->memory, BINDS_PRIMARY));
    for (int i = 0; i < access->n; i++) {
        const Value *index = access->indices[i];
        text_add(&text, i ? ", " : "[");
        text_add(&text, index ? nest_operand(w, index, BINDS_OR) : ":");
    }
    text_add(&text, access->n ? "]" : "");
    return text.data;
}

static NestExpr gather(NestWriter *w, const Op *op)
{
    Access access = op_access(op, 0);
    if (access.memory->type->kind != TYPE_TENSOR) {
        nest_refuse(w, NEST_REASON_OPERATION, op);
    }
    const char *text = nest_access(w, &access);
    if (w->unchecked) {
        return (NestExpr){text, BINDS_PRIMARY};
    }
    return (NestExpr){arena_printf(w->func->arena, "(%s else %s)", text, number(w, op).text),
                      BINDS_PRIMARY};
}

/* ---- shapes ---- */

/* The value without leading axes of one element that it was only stretched by; NULL: it is another
 * value. */
static const Value *without_leading(const Value *value, int axes)
{
    const Value *of =
        value->def && value->def->kind == OP_BROADCAST ? value->def->operands[0] : NULL;
    bool same = of && of->type->rank + axes == value->type->rank;
    for (int i = 0; same && i < of->type->rank; i++) {
        same = of->type->dims[i] == value->type->dims[i + axes];
    }
    return same ? of : NULL;
}

/* An axis more, or one less: `x[:, None]`, `x[:, 0]`. */
static NestExpr changed_axis(NestWriter *w, const Op *op, const char *at)
{
    bool drops_first = op->kind == OP_SQUEEZE && op_int(op, ATTR_AXIS, 0) == 0;
    if (drops_first && without_leading(op->operands[0], 1)) {
        return w->exprs[op->operands[0]->id];
    }
    if (nest_def(op->operands[0]) != op->operands[0]->def) {
        nest_refuse(w, NEST_REASON_BROADCAST, op);
    }
    int axis = (int)op_int(op, ATTR_AXIS, 0);
    int n = op->operands[0]->type->rank + (op->kind == OP_EXPAND);
    Text text = text_new(w->func->arena);
    text_add(&text, nest_operand(w, op->operands[0], BINDS_PRIMARY));
    for (int i = 0; i < n; i++) {
        text_add(&text, i ? ", " : "[");
        text_add(&text, i == axis ? at : ":");
    }
    text_add(&text, "]");
    return (NestExpr){text.data, BINDS_PRIMARY};
}

static NestExpr permute(NestWriter *w, const Op *op)
{
    const Attr *perm = op_attr(op, ATTR_PERM);
    if (nest_def(op->operands[0]) != op->operands[0]->def) {
        nest_refuse(w, NEST_REASON_BROADCAST, op);
    }
    bool swaps = perm->n >= 2;
    for (int i = 0; i < perm->n; i++) {
        int other = i;
        if (i == perm->n - 1) {
            other = i - 1;
        } else if (i == perm->n - 2) {
            other = i + 1;
        }
        swaps = swaps && perm->ints[i] == other;
    }
    if (swaps) {
        return (NestExpr){
            arena_printf(w->func->arena, "%s.T", nest_operand(w, op->operands[0], BINDS_PRIMARY)),
            BINDS_PRIMARY};
    }
    Text text = text_new(w->func->arena);
    text_printf(&text, "permute(%s, [", nest_operand(w, op->operands[0], BINDS_CHOICE));
    for (int i = 0; i < perm->n; i++) {
        text_printf(&text, "%s%lld", i ? ", " : "", (long long)perm->ints[i]);
    }
    text_add(&text, "])");
    return (NestExpr){text.data, BINDS_PRIMARY};
}

/* ---- many elements ---- */

static NestExpr reduction(NestWriter *w, const Op *op)
{
    const char *of = nest_whole(w, op->operands[0]);
    return (NestExpr){arena_printf(w->func->arena, "%s(%s, axis=%lld)", op_word(op, ATTR_FN), of,
                                   (long long)op_int(op, ATTR_AXIS, 0)),
                      BINDS_PRIMARY};
}

static NestExpr scan(NestWriter *w, const Op *op)
{
    const char *of = nest_whole(w, op->operands[0]);
    Text text = text_new(w->func->arena);
    text_printf(&text, "cum%s(%s, axis=%lld", op_word(op, ATTR_FN), of,
                (long long)op_int(op, ATTR_AXIS, 0));
    text_add(&text, op_int(op, ATTR_REVERSE, 0) ? ", reverse=true" : "");
    text_add(&text, op_int(op, ATTR_EXCLUSIVE, 0) ? ", exclusive=true)" : ")");
    return (NestExpr){text.data, BINDS_PRIMARY};
}

/* A product, and the accumulator that it continues. */
static NestExpr dot(NestWriter *w, const Op *op)
{
    Arena *arena = w->func->arena;
    bool tf32 = text_equal(op_word(op, ATTR_PRECISION), "tf32");
    const char *product =
        tf32 ? arena_printf(arena, "dot(%s, %s, precision=tf32)", nest_whole(w, op->operands[0]),
                            nest_whole(w, op->operands[1]))
             : arena_printf(arena, "%s @ %s", nest_operand(w, op->operands[0], BINDS_PRODUCT),
                            nest_operand(w, op->operands[1], BINDS_UNARY));
    if (op->n_operands == 2) {
        return (NestExpr){product, tf32 ? BINDS_PRIMARY : BINDS_PRODUCT};
    }
    return (NestExpr){
        arena_printf(arena, "%s + %s", nest_operand(w, op->operands[2], BINDS_SUM), product),
        BINDS_SUM};
}

/* ---- element by element ---- */

typedef struct Infix {
    OpKind kind;
    const char *sign, *bools; /* of bools; NULL: the same */
    NestBinding binds;
} Infix;

static const Infix INFIXES[] = {
    {OP_ADD, "+", NULL, BINDS_SUM},     {OP_SUB, "-", NULL, BINDS_SUM},
    {OP_MUL, "*", NULL, BINDS_PRODUCT}, {OP_AND, "&", NULL, BINDS_BIT_AND},
    {OP_OR, "|", NULL, BINDS_BIT_OR},   {OP_XOR, "^", NULL, BINDS_BIT_XOR},
    {OP_SHL, "<<", NULL, BINDS_SHIFT},  {OP_SHR, ">>", NULL, BINDS_SHIFT},
};

typedef struct Prefix {
    OpKind kind;
    const char *name;
} Prefix;

/* Functions of the library that are one op. */
static const Prefix CALLS[] = {
    {OP_ABS, "abs"},     {OP_SQRT, "sqrt"}, {OP_FLOOR, "floor"},         {OP_CEIL, "ceil"},
    {OP_TRUNC, "trunc"}, {OP_RINT, "rint"}, {OP_FAST_EXP2, "fast.exp2"}, {OP_ISNAN, "isnan"},
    {OP_MIN, "min"},     {OP_MAX, "max"},   {OP_INDEX, "index"},         {OP_START, "start"},
    {OP_END, "end"},     {OP_LEN, "len"},
};

static NestExpr infix(const Operands *o, const char *sign, NestBinding binds)
{
    return (NestExpr){arena_printf(o->w->func->arena, "%s %s %s", put(o, 0, binds), sign,
                                   put(o, 1, (NestBinding)(binds + 1))),
                      binds};
}

static NestExpr call(const Operands *o, const char *name)
{
    Text text = text_new(o->w->func->arena);
    text_printf(&text, "%s(", name);
    for (int i = 0; i < o->op->n_operands; i++) {
        text_printf(&text, "%s%s", i ? ", " : "", put(o, i, BINDS_CHOICE));
    }
    text_add(&text, ")");
    return (NestExpr){text.data, BINDS_PRIMARY};
}

static NestExpr comparison(const Operands *o)
{
    static const char *const names[][2] = {{"eq", "=="}, {"ne", "!="}, {"lt", "<"},
                                           {"le", "<="}, {"gt", ">"},  {"ge", ">="}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (text_equal(names[i][0], op_word(o->op, ATTR_PRED))) {
            return (NestExpr){arena_printf(o->w->func->arena, "%s %s %s", put(o, 0, BINDS_BIT_OR),
                                           names[i][1], put(o, 1, BINDS_BIT_OR)),
                              BINDS_COMPARISON};
        }
    }
    return (NestExpr){0};
}

static NestExpr elementwise(NestWriter *w, const Op *op)
{
    Operands o = {.w = w, .op = op, .typed = types_literals(op, op->kind == OP_SELECT)};
    Arena *arena = w->func->arena;
    Type type = op->results[0]->type;
    bool is_float = dtype_is_float(type->dtype);
    o.whole = type->kind == TYPE_ARRAY ? whole_operand(op, type) : -1;
    if (o.whole == -2) {
        nest_refuse(w, NEST_REASON_BROADCAST, op);
    }
    switch (op->kind) {
    case OP_CMP: return comparison(&o);
    case OP_DIV: return infix(&o, is_float ? "/" : "//", BINDS_PRODUCT);
    case OP_MOD: return infix(&o, "%", BINDS_PRODUCT);
    case OP_NEG:
        return (NestExpr){arena_printf(arena, "-%s", put(&o, 0, BINDS_UNARY)), BINDS_UNARY};
    case OP_NOT:
        return (NestExpr){arena_printf(arena, "~%s", put(&o, 0, BINDS_UNARY)), BINDS_UNARY};
    case OP_FMA:
        return (NestExpr){arena_printf(arena, "%s * %s + %s", put(&o, 0, BINDS_PRODUCT),
                                       put(&o, 1, BINDS_UNARY), put(&o, 2, BINDS_PRODUCT)),
                          BINDS_SUM};
    case OP_SELECT: return call(&o, "where");
    case OP_CAST: return call(&o, dtype_name(type->dtype));
    default: break;
    }
    for (size_t i = 0; i < sizeof INFIXES / sizeof *INFIXES; i++) {
        if (INFIXES[i].kind == op->kind) {
            return infix(&o, INFIXES[i].sign, INFIXES[i].binds);
        }
    }
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++) {
        if (CALLS[i].kind == op->kind) {
            return call(&o, CALLS[i].name);
        }
    }
    return (NestExpr){0};
}

/* ---- functions of the library ---- */

typedef struct Expansion {
    const Block *block;
    const char *mark;
    Value *of; /* the only value that is no part of it */
    bool whole;
} Expansion;

static bool is_part(const Expansion *e, const Op *op)
{
    return op && op->parent == e->block && text_equal(op_word(op, ATTR_EXPANDED), e->mark);
}

static void find_argument(Expansion *e, const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        Value *value = op->operands[i];
        const Op *def_op = nest_def(value);
        if (is_part(e, def_op)) {
            find_argument(e, def_op);
        } else if (!def_op || def_op->kind != OP_CONST) {
            e->whole = e->whole && (!e->of || e->of == value);
            e->of = value;
        }
    }
}

/* Is the value read by other ops than those of the expansion? */
static bool leaves(const Func *func, const Expansion *e, const Value *value)
{
    (void)func;
    for (const ValueUse *use = use_first(value, e->block); use; use = use_next(use, e->block)) {
        const Op *op = use->op;
        bool stretches = op->kind == OP_BROADCAST;
        if (stretches ? leaves(func, e, op->results[0]) : !is_part(e, op)) {
            return true;
        }
    }
    return false;
}

const char *nest_function(NestWriter *w, const Op *op, Value **of)
{
    Expansion e = {.block = op->parent, .mark = op_word(op, ATTR_EXPANDED), .whole = true};
    *of = NULL;
    if (!e.mark || !leaves(w->func, &e, op->results[0])) {
        return NULL;
    }
    find_argument(&e, op);
    if (!e.whole || !e.of) {
        nest_refuse(w, NEST_REASON_FUNCTION, op);
        return NULL;
    }
    *of = e.of;
    return arena_strndup(w->func->arena, e.mark, strcspn(e.mark, "#"));
}

/* ---- approximations ---- */

/* Approximations that have the exact value next to them. */
static const Prefix APPROXIMATIONS[] = {
    {OP_FAST_SQRT, "fast.sqrt"},
    {OP_FAST_RSQRT, "fast.rsqrt"},
    {OP_FAST_RECIPROCAL, "fast.reciprocal"},
};

static bool is_approximation(OpKind kind)
{
    return kind == OP_FAST_SQRT || kind == OP_FAST_RSQRT || kind == OP_FAST_RECIPROCAL;
}

bool nest_is_exact_twin(const Op *op)
{
    const Block *block = op->parent;
    const ValueUse *use = op->n_results == 1 ? use_first(op->results[0], block) : NULL;
    if (!use || use_next(use, block) || use->op->parent != block) {
        return false;
    }
    bool root = op->kind == OP_SQRT && use->op->kind == OP_DIV && nest_is_exact_twin(use->op);
    return root || (is_approximation(use->op->kind) && use - use->op->uses == 1);
}

static NestExpr approximation(NestWriter *w, const Op *op)
{
    for (size_t i = 0; i < sizeof APPROXIMATIONS / sizeof *APPROXIMATIONS; i++) {
        if (APPROXIMATIONS[i].kind == op->kind && nest_is_exact_twin(op->operands[1]->def)) {
            return (NestExpr){arena_printf(w->func->arena, "%s(%s)", APPROXIMATIONS[i].name,
                                           nest_operand(w, op->operands[0], BINDS_CHOICE)),
                              BINDS_PRIMARY};
        }
    }
    return (NestExpr){0};
}

/* ---- each op ---- */

NestExpr nest_expression(NestWriter *w, const Op *op)
{
    Arena *arena = w->func->arena;
    NestExpr expr = {0};
    if (op_moves_axes(op) && literal_of(op->results[0])) {
        return w->exprs[op->operands[0]->id];
    }
    switch (op->kind) {
    case OP_CONST: return number(w, op);
    case OP_SIZE: return size(w, op);
    case OP_BROADCAST: return w->exprs[op->operands[0]->id];
    case OP_FAST_SQRT:
    case OP_FAST_RSQRT:
    case OP_FAST_RECIPROCAL: return approximation(w, op);
    case OP_EXPAND: return changed_axis(w, op, "None");
    case OP_SQUEEZE: return changed_axis(w, op, "0");
    case OP_PERMUTE: return permute(w, op);
    case OP_REDUCE: return reduction(w, op);
    case OP_SCAN: return scan(w, op);
    case OP_DOT: return dot(w, op);
    case OP_LOAD: {
        Access access = op_access(op, 0);
        return (NestExpr){nest_access(w, &access), BINDS_PRIMARY};
    }
    case OP_GATHER: return gather(w, op);
    case OP_IOTA:
        return (NestExpr){
            arena_printf(arena, "iota(%s)", nest_dim(w, op_attr(op, ATTR_DIM)->dims[0])),
            BINDS_PRIMARY};
    default: break;
    }
    if (nest_is_exact_twin(op)) {
        return (NestExpr){"?", BINDS_PRIMARY};
    }
    if (op->n_results == 1) {
        expr = elementwise(w, op);
    }
    if (!expr.text) {
        nest_refuse(w, NEST_REASON_OPERATION, op);
    }
    return expr;
}
