/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates sizes, ranges, index values and conditions at one iteration of the loops around an op.
 * Access counting and the launch trace use it instead of running the kernel. */
#include "runtime/explain/explain_point.h"

#include "ir/op_axes.h"
#include "support/int_math.h"
#include "support/text.h"

#include <string.h>

enum { MAX_STEPS = 512, MAX_DEPTH = 48, GUESS_BITS = 20 };

EvalPoint context_of(Func *func, const int64_t *sizes)
{
    EvalPoint context = {.func = func};
    context.dims = ARENA_ARRAY(func->arena, int64_t, func->dimvars.n);
    memcpy(context.dims, sizes, sizeof(int64_t) * func->dimvars.n);
    context.bound = ARENA_ARRAY(func->arena, Bound, func->n_values);
    return context;
}

bool context_dim(const EvalPoint *context, Dim dim, int64_t *out)
{
    for (int i = 0; i < dim->n_terms; i++) {
        for (int k = 0; k < dim->terms[i].n; k++) {
            if (context->dims[dim->terms[i].vars[k]->id] < 0) {
                return false;
            }
        }
    }
    return poly_eval(dim, context->dims, out);
}

void context_bind(EvalPoint *context, const Value *arg, int64_t first, int64_t step, int64_t end)
{
    int64_t past = first + min_i64(step ? step : 1, INT64_MAX - first);
    end = end > first ? end : first; /* of a cluster's tile past the end */
    context->bound[arg->id] = (Bound){true, first, past < end ? past : end, first};
    if (arg->type->kind == TYPE_RANGE) {
        context->dims[poly_as_range(arg->type->dims[0])->id] = context->bound[arg->id].end - first;
    }
}

/* ---- one element ---- */

static bool eval(EvalPoint *c, const Value *value, const int32_t *coords, int depth, int64_t *out);

static bool compare(const char *pred, int64_t a, int64_t b)
{
    static const struct {
        const char *name;
        bool of_signs[3]; /* by the sign of a - b: less, equal, greater */
    } TABLE[] = {
        {"eq", {false, true, false}}, {"ne", {true, false, true}},  {"lt", {true, false, false}},
        {"le", {true, true, false}},  {"gt", {false, false, true}}, {"ge", {false, true, true}},
    };
    size_t i = 0;
    while (i + 1 < sizeof TABLE / sizeof *TABLE && !text_equal(TABLE[i].name, pred)) {
        i++;
    }
    return TABLE[i].of_signs[1 + (a > b) - (a < b)];
}

static bool binary(const Op *op, int64_t a, int64_t b, int64_t *out)
{
    switch (op->kind) {
    case OP_ADD: return !__builtin_add_overflow(a, b, out);
    case OP_SUB: return !__builtin_sub_overflow(a, b, out);
    case OP_MUL: return !__builtin_mul_overflow(a, b, out);
    case OP_DIV: *out = b && b != -1 ? floor_div(a, b) : 0; return b != -1;
    case OP_MOD: *out = b && b != -1 ? a - floor_div(a, b) * b : 0; return true;
    case OP_MIN: *out = a < b ? a : b; return true;
    case OP_MAX: *out = a > b ? a : b; return true;
    case OP_AND: *out = a & b; return true;
    case OP_OR: *out = a | b; return true;
    case OP_XOR: *out = a ^ b; return true;
    case OP_SHL: *out = b >= 0 && b < 40 && a >= 0 && a < 1 << 20 ? a << b : 0; return true;
    case OP_SHR: *out = a >> (b >= 0 && b < 64 ? b : 63); return true;
    case OP_CMP: *out = compare(op_word(op, ATTR_PRED), a, b); return true;
    default: return false;
    }
}

/* The same for the same element of the same tile, and like chance between them. */
static int64_t guess(EvalPoint *c, const Value *value, const int32_t *coords)
{
    uint64_t h = value->id * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < value->type->rank; i++) {
        const DimVar *range = poly_as_range(value->type->dims[i]);
        int64_t at = coords[i] + (range && range->binder ? c->bound[range->binder->id].first : 0);
        h = (h ^ (uint64_t)at) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 31;
    }
    c->guessed = true;
    return (int64_t)(h >> (64 - GUESS_BITS));
}

static bool eval_range_op(EvalPoint *c, const Op *op, const int32_t *coords, int64_t *out)
{
    const Bound *range = &c->bound[op->operands[0]->id];
    switch (op->kind) {
    case OP_INDEX: *out = range->first + coords[0]; break;
    case OP_START: *out = range->first; break;
    case OP_END: *out = range->end; break;
    default: *out = range->end - range->first; break;
    }
    return range->known;
}

static bool eval_op(EvalPoint *c, const Value *value, const int32_t *coords, int depth,
                    int64_t *out)
{
    const Op *op = value->def;
    int32_t of[MAX_RANK] = {0};
    int64_t a = 0, b = 0;
    switch (op->kind) {
    case OP_CONST: *out = op_attr(op, ATTR_VALUE)->i; return true;
    case OP_SIZE: return context_dim(c, op_attr(op, ATTR_DIM)->dims[0], out);
    case OP_IOTA: *out = coords[0]; return true;
    case OP_INDEX:
    case OP_START:
    case OP_END:
    case OP_LEN: return eval_range_op(c, op, coords, out);
    case OP_CAST:
        if (dtype_is_float(op->operands[0]->type->dtype)) {
            *out = guess(c, value, coords);
            return true;
        }
        return eval(c, op->operands[0], coords, depth, out);
    case OP_BROADCAST:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_PERMUTE:
    case OP_CONVERT:
    case OP_TO_STATIC:
    case OP_MASK: {
        /* The operand's coordinates are those of the result along the axes that both share, and 0
         * elsewhere. */
        for (int i = 0; i < op->operands[0]->type->rank; i++) {
            OpAxis axis = op_axis(op, 0, i);
            of[i] = axis.role == AXIS_TIED ? coords[axis.result] : 0;
        }
    }
        return eval(c, op->operands[0], of, depth, out);
    case OP_NEG: return eval(c, op->operands[0], coords, depth, &a) && (*out = -a, true);
    case OP_NOT:
        return eval(c, op->operands[0], coords, depth, &a) &&
               (*out = value->type->dtype == DT_BOOL ? !a : ~a, true);
    case OP_SELECT: {
        int64_t which;
        return eval(c, op->operands[0], coords, depth, &which) &&
               eval(c, op->operands[which ? 1 : 2], coords, depth, out);
    }
    default: break;
    }
    if (op->n_operands == 2 && !dtype_is_float(op->operands[0]->type->dtype) &&
        op_has(op, TRAIT_ELEMENTWISE)) {
        bool known = eval(c, op->operands[0], coords, depth, &a);
        b = a; /* of x + x, whose x may be another one: half of the work each */
        bool twice = op->operands[0] == op->operands[1];
        return known && (twice || eval(c, op->operands[1], coords, depth, &b)) &&
               binary(op, a, b, out);
    }
    *out = guess(c, value, coords);
    return true;
}

static bool eval(EvalPoint *c, const Value *value, const int32_t *coords, int depth, int64_t *out)
{
    if (c->steps-- <= 0 || depth > MAX_DEPTH || dtype_is_float(value->type->dtype)) {
        return false;
    }
    if (value->def) {
        return eval_op(c, value, coords, depth + 1, out);
    }
    const Bound *bound = &c->bound[value->id];
    *out = bound->known ? bound->first : guess(c, value, coords);
    return true;
}

bool context_eval(EvalPoint *context, const Value *value, const int32_t *coords, int64_t *out)
{
    context->steps = MAX_STEPS;
    context->guessed = false;
    bool known = eval(context, value, coords, 0, out);
    context->taken += MAX_STEPS - context->steps;
    return known;
}

bool context_scalar(EvalPoint *context, const Value *value, int64_t *out)
{
    int32_t coords[MAX_RANK] = {0};
    return value->type->kind == TYPE_ARRAY && context_eval(context, value, coords, out) &&
           !context->guessed;
}
