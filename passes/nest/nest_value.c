/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilds tensor-level values inside of a nest. An axis that a scalar loop iterates over is
 * dropped, an axis of a range loop becomes its range, and all other axes stay whole. A value that
 * cannot be rebuilt is read from memory. */
#include "passes/nest/nest.h"

#include "ir/layout/matrix_instr.h"
#include "ir/op_axes.h"
#include "passes/analysis/axis_dependence.h"

enum { MAX_NESTED = 400 }; /* ops on the way to a leaf */

bool nest_depends(const Nest *nest, const Value *value)
{
    return value->id < nest->n_values && nest->depends[value->id];
}

static bool is_product(const Nest *nest, const Value *value)
{
    return value->id < nest->n_values && nest->product[value->id];
}

bool dim_is_unit(Dim dim)
{
    return poly_is_number(dim, 1);
}

int64_t nest_whole_extent(Nest *nest, Dim dim)
{
    int64_t extent = 0;
    DimVar *var = poly_as_var(dim);
    if (!poly_is_const(dim, &extent)) {
        extent = var ? size_if_fixed(var) : 0;
        nest->fixed = extent > 0 && extent <= MAX_HELD ? var : nest->fixed;
    }
    return extent > 0 && extent <= MAX_HELD ? extent : -1;
}

bool nest_keeps(const Nest *nest, const NestAxis *axis)
{
    return axis->kind == NEST_UNIT || axis->kind == NEST_WHOLE ||
           (axis->kind == NEST_LOOP && nest->loops[axis->loop].is_range);
}

int nest_position(const Nest *nest, const NestAxes *axes, int axis)
{
    int at = 0;
    for (int i = 0; i < axis; i++) {
        at += nest_keeps(nest, &axes->items[i]);
    }
    return nest_keeps(nest, &axes->items[axis]) ? at : -1;
}

Type nest_type(const Nest *nest, Type type, const NestAxes *axes)
{
    Dim dims[MAX_RANK];
    int rank = 0;
    for (int i = 0; i < type->rank; i++) {
        const NestAxis *axis = &axes->items[i];
        if (nest_keeps(nest, axis)) {
            dims[rank] = type->dims[i];
            if (axis->kind == NEST_LOOP) {
                dims[rank] = nest->loops[axis->loop].binder->type->dims[0];
            } else if (axis->kind == NEST_UNIT) {
                dims[rank] = poly_const(nest->func, 1);
            }
            rank++;
        }
    }
    return type_array(nest->func, type->dtype, rank, dims);
}

static bool axes_equal(const NestAxes *a, const NestAxes *b, int rank)
{
    for (int i = 0; i < rank; i++) {
        const NestAxis *x = &a->items[i], *y = &b->items[i];
        if (x->kind != y->kind || (x->kind == NEST_LOOP && x->loop != y->loop)) {
            return false;
        }
    }
    return true;
}

/* The same axes but for those of one element, which one has and the other does not. */
static bool axes_alike(const NestAxes *a, const NestAxes *b, int rank)
{
    for (int i = 0; i < rank; i++) {
        const NestAxis *x = &a->items[i], *y = &b->items[i];
        bool single = x->kind <= NEST_UNIT && y->kind <= NEST_UNIT;
        if (!single && (x->kind != y->kind || (x->kind == NEST_LOOP && x->loop != y->loop))) {
            return false;
        }
    }
    return true;
}

void nest_define(NestScope *s, Value *value, const NestAxes *axes, Value *by)
{
    NestValue made = {value, *axes, by};
    ARENA_PUSH(s->nest->func->arena, &s->made, made);
}

/* `by`, over axes `from`, with and without the axes of one element that `to` asks for. */
static Value *with_axes(NestScope *s, Value *by, const NestAxes *from, const NestAxes *to, int rank)
{
    for (int i = rank; i-- > 0 && !s->nest->dry;) {
        bool has = from->items[i].kind == NEST_UNIT, wants = to->items[i].kind == NEST_UNIT;
        if (has && !wants) {
            by = build_squeeze(&s->b, by, nest_position(s->nest, from, i));
        }
    }
    int at = 0;
    for (int i = 0; i < rank && !s->nest->dry; i++) {
        bool has = from->items[i].kind == NEST_UNIT, wants = to->items[i].kind == NEST_UNIT;
        if (wants && !has) {
            by = build_expand(&s->b, by, at);
        }
        at += nest_keeps(s->nest, &to->items[i]);
    }
    return by;
}

static Value *find_made(NestScope *s, const Value *value, const NestAxes *axes)
{
    for (size_t i = s->made.n; i-- > 0;) {
        const NestValue *made = &s->made.items[i];
        if (made->value == value && axes_equal(&made->axes, axes, value->type->rank)) {
            return made->by;
        }
    }
    for (size_t i = s->made.n; i-- > 0;) {
        const NestValue *made = &s->made.items[i];
        if (made->value == value && made->by != s->nest->none &&
            axes_alike(&made->axes, axes, value->type->rank)) {
            return with_axes(s, made->by, &made->axes, axes, value->type->rank);
        }
    }
    return NULL;
}

/* ---- axes of operands ---- */

bool nest_operand_axes(Nest *nest, const Op *op, int at, const NestAxes *axes, NestAxes *inner)
{
    Type type = op->operands[at]->type;
    for (int i = 0; i < type->rank; i++) {
        OpAxis axis = op_axis(op, at, i);
        switch (axis.role) {
        case AXIS_TIED: inner->items[i] = axes->items[axis.result]; break;
        case AXIS_STRETCHED:
            inner->items[i].kind =
                nest_keeps(nest, &axes->items[axis.result]) ? NEST_UNIT : NEST_DROPPED;
            break;
        case AXIS_DROPPED: inner->items[i].kind = NEST_DROPPED; break;
        case AXIS_CONTRACTED:
            inner->items[i].kind = NEST_WHOLE;
            if (nest_whole_extent(nest, type->dims[i]) < MIN_DEPTH) {
                return false;
            }
            break;
        default: return false;
        }
        if (inner->items[i].kind == NEST_WHOLE && dim_is_unit(type->dims[i])) {
            inner->items[i].kind = NEST_UNIT;
        }
    }
    return true;
}

/* The op with other operands. */
static Value *built_alike(NestScope *s, const Op *op, Value *const *operands, Type type)
{
    Op *copy = build_op(&s->b, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->attrs = op->attrs;
    copy->n_attrs = op->n_attrs;
    copy->results[0]->name = op->results[0]->name;
    return copy->results[0];
}

/* ---- ops ---- */

static bool has_loop(const NestAxes *axes, int rank, int loop)
{
    bool found = false;
    for (int i = 0; i < rank; i++) {
        found = found || (axes->items[i].kind == NEST_LOOP && axes->items[i].loop == loop);
    }
    return found;
}

/* The elements that a value has for each column; 0: it does not vary along them. */
static int64_t column_elements(Nest *nest, const Value *value, const NestAxes *axes)
{
    int64_t elements = has_loop(axes, value->type->rank, nest->column);
    for (int i = 0; i < value->type->rank && elements; i++) {
        if (axes->items[i].kind == NEST_WHOLE) {
            elements *= nest_whole_extent(nest, value->type->dims[i]);
        }
    }
    return elements;
}

/* The value from memory. What a product makes would be there anyway. */
static Value *from_memory(NestScope *s, Value *value, const NestAxes *axes)
{
    Value *read = nest_from_memory(s, value, axes);
    if (read && !is_product(s->nest, value)) {
        s->nest->stored += column_elements(s->nest, value, axes);
    }
    return read;
}

static Value *nest_moved(NestScope *s, const Op *op, const NestAxes *axes)
{
    Nest *nest = s->nest;
    NestAxes inner;
    Type from = op->operands[0]->type;
    Value *by = nest_operand_axes(nest, op, 0, axes, &inner)
                    ? nest_value(s, op->operands[0], &inner)
                    : NULL;
    if (!by || nest->dry) {
        return by;
    }
    Type type = nest_type(nest, op->results[0]->type, axes);
    if (op->kind == OP_EXPAND) {
        int at = nest_position(nest, axes, (int)op_int(op, ATTR_AXIS, 0));
        return at < 0 ? by : build_expand(&s->b, by, at);
    }
    if (op->kind == OP_PERMUTE) {
        int64_t perm[MAX_RANK];
        int n = 0;
        bool moves = false;
        for (int i = 0; i < from->rank; i++) {
            if (nest_keeps(nest, &axes->items[i])) {
                int axis = (int)op_attr(op, ATTR_PERM)->ints[i];
                perm[n] = nest_position(nest, &inner, axis);
                moves = moves || perm[n] != n;
                n++;
            }
        }
        return moves ? build_permute(&s->b, by, perm) : by;
    }
    return op->kind == OP_BROADCAST ? build_broadcast(&s->b, by, type->rank, type->dims) : by;
}

/* A read of memory, but for moved axes. */
static bool is_read(const Value *value)
{
    const Op *op = value->def;
    while (op && op_moves_axes(op)) {
        op = op->operands[0]->def;
    }
    return op && (op->kind == OP_LOAD || op->kind == OP_GATHER);
}

/* Copies bring operands from memory to matrix instructions: what is computed is stored first. A
 * column's would be computed anew by the blocks of all rows. */
Value *nest_factor(NestScope *s, Value *value, const NestAxes *axes)
{
    NestAxes inner = *axes, below;
    Value *of = value; /* without moved axes, so that rows are stored as they are computed */
    while (of->def && op_moves_axes(of->def) &&
           nest_operand_axes(s->nest, of->def, 0, &inner, &below)) {
        of = of->def->operands[0];
        inner = below;
    }
    if (!is_read(value) && !nest_depends(s->nest, value)) {
        Value *read = from_memory(s, of, &inner);
        if (read) {
            nest_define(s, of, &inner, read);
        }
    }
    return nest_value(s, value, axes);
}

void nest_note_product(Nest *nest, const Value *a, const Value *b, Dim whole)
{
    DType left = a->type->dtype, right = b->type->dtype;
    int64_t extent = nest_whole_extent(nest, whole);
    if (nest->func->target && !mma_find(nest->func->target, NULL, left, right, DT_F32) &&
        extent > nest->by_fma) {
        nest->by_fma = extent;
    }
}

static Value *nest_dot(NestScope *s, const Op *op, const NestAxes *axes)
{
    Nest *nest = s->nest;
    NestAxes inner[2];
    Value *operands[2];
    int rank = op->results[0]->type->rank;
    if (op->n_operands != 2 || op_int(op, ATTR_TA, 0) || op_int(op, ATTR_TB, 0)) {
        return NULL;
    }
    for (int i = 0; i < rank - 2; i++) {
        if (nest_keeps(nest, &axes->items[i])) {
            return NULL; /* several matrices in a tile */
        }
    }
    for (int at = 0; at < 2; at++) {
        operands[at] = nest_operand_axes(nest, op, at, axes, &inner[at])
                           ? nest_factor(s, op->operands[at], &inner[at])
                           : NULL;
        if (!operands[at]) {
            return NULL;
        }
    }
    nest->n_products += has_loop(axes, rank, nest->column);
    Dim contracted = op->operands[0]->type->dims[rank - 1];
    nest_note_product(nest, op->operands[0], op->operands[1], contracted);
    if (nest->dry) {
        return op->results[0];
    }
    Value *dot = build_dot(&s->b, operands[0], operands[1], NULL, op->results[0]->type->dtype);
    dot->def->attrs = op->attrs;
    dot->def->n_attrs = op->n_attrs;
    return dot;
}

/* What the dividend is multiplied by already, if it is a number or, as the divisor is, one of each
 * row, or 1. `dividend`: what is multiplied. */
static Value *nest_numerator(Builder *b, Value **dividend, Type divisor)
{
    const Op *mul = value_def_of_kind(*dividend, OP_MUL);
    const Attr *number = mul ? value_const(mul->operands[1]) : NULL;
    const Op *spread = mul ? value_def_of_kind(mul->operands[1], OP_BROADCAST) : NULL;
    bool alike = spread && spread->operands[0]->type == divisor;
    if (number || alike) {
        *dividend = mul->operands[0];
    }
    if (alike) {
        return spread->operands[0];
    }
    return build_float(b, divisor, number ? number->f : 1);
}

/* x / c of a sum x as x * (1 / c), and (x * k) / c as x * (k / c), where c does not vary along the
 * loop. */
static Value *nest_quotient(NestScope *s, const Op *op, const NestAxes *axes)
{
    Nest *nest = s->nest;
    Value *divisor = op->operands[1];
    unsigned varies = an_varies(nest->varies, divisor);
    NestAxes less = *axes;
    Type type = op->results[0]->type;
    bool rows = false;
    if (!has_loop(axes, type->rank, nest->column) || !is_product(nest, op->operands[0]) ||
        is_product(nest, divisor) || type->dtype != DT_F32 || value_const(divisor)) {
        return NULL;
    }
    for (int i = 0; i < type->rank; i++) {
        const NestAxis *axis = &axes->items[i];
        bool here = varies >> i & 1 && nest_keeps(nest, axis);
        if (here && axis->kind == NEST_LOOP && axis->loop == nest->column) {
            return NULL;
        }
        rows = rows || here;
    }
    for (int i = 0; i < type->rank; i++) {
        bool keeps = varies >> i & 1;
        if (!keeps && nest_keeps(nest, &axes->items[i])) {
            less.items[i].kind = rows ? NEST_UNIT : NEST_DROPPED;
        }
    }
    Value *dividend = nest_value(s, op->operands[0], axes);
    Value *by = dividend ? nest_value(s, divisor, &less) : NULL;
    if (!by || nest->dry) {
        return by ? op->results[0] : NULL;
    }
    Value *numerator = nest_numerator(&s->b, &dividend, by->type);
    by = build_binary(&s->b, OP_DIV, numerator, by);
    by = build_broadcast(&s->b, by, dividend->type->rank, dividend->type->dims);
    Value *result = build_binary(&s->b, OP_MUL, dividend, by);
    result->name = op->results[0]->name;
    return result;
}

static Value *nest_elementwise(NestScope *s, const Op *op, const NestAxes *axes)
{
    Nest *nest = s->nest;
    Value *operands[4];
    if (op->kind == OP_DIV) {
        Value *quotient = nest_quotient(s, op, axes);
        if (quotient) {
            return quotient;
        }
    }
    for (int i = 0; i < op->n_operands; i++) {
        operands[i] = nest_value(s, op->operands[i], axes);
        if (!operands[i]) {
            return NULL;
        }
    }
    if (nest->dry) {
        return op->results[0];
    }
    Value *result = built_alike(s, op, operands, nest_type(nest, op->results[0]->type, axes));
    bool approximates = op->kind == OP_NAMED && nest->approximates &&
                        named_function(op_word(op, ATTR_FN))->share > 0 &&
                        (is_product(nest, op->operands[0]) || nest_depends(nest, op->operands[0]));
    if (approximates) {
        result->def->attrs =
            arena_copy(nest->func->arena, op->attrs, sizeof *op->attrs * op->n_attrs);
        op_set_int(nest->func, result->def, ATTR_NEAR, 1);
    }
    return result;
}

static Value *nest_op(NestScope *s, Op *op, const NestAxes *axes)
{
    Type type = op->results[0]->type;
    switch (op->kind) {
    case OP_LOAD: return nest_load(s, op, axes);
    case OP_GATHER: return nest_gather(s, op, axes);
    case OP_IOTA: return nest_iota(s, op, axes);
    case OP_DOT: return nest_dot(s, op, axes);
    case OP_SIZE:
    case OP_CONST:
        return s->nest->dry ? op->results[0]
                            : built_alike(s, op, NULL, nest_type(s->nest, type, axes));
    default:
        if (op_moves_axes(op)) {
            return nest_moved(s, op, axes);
        }
        return op_has(op, TRAIT_ELEMENTWISE) ? nest_elementwise(s, op, axes) : NULL;
    }
}

Value *nest_value(NestScope *s, Value *value, const NestAxes *axes)
{
    Op *op = value->def;
    if (!op) {
        return value->block ? NULL : value; /* a parameter is a scalar */
    }
    Value *by = find_made(s, value, axes);
    bool failed = by == s->nest->none;
    if (by || op->n_results != 1 || s->depth == MAX_NESTED) {
        return failed ? NULL : by;
    }
    Span span = s->b.span;
    s->b.span = op->span;
    s->depth++;
    by = nest_op(s, op, axes);
    by = by ? by : from_memory(s, value, axes);
    s->depth--;
    s->b.span = span;
    nest_define(s, value, axes, by ? by : s->nest->none);
    return by;
}
