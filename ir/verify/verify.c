/* SPDX-License-Identifier: Apache-2.0 */
/* The verifier: scopes, operand counts and levels are checked here, the rules of each op in
 * verify_ops.c. All failures are collected, one line each. The rules of ops look at operands and
 * into regions, so they are checked only if the scopes and counts of the whole function are right.
 */
#include "ir/interns.h"
#include "ir/text/ir_text.h"
#include "ir/verify/verify.h"
#include "ir/verify/verify_ops.h"

#include <string.h>

void verify_fail(Verifier *v, const Op *op, const char *format, ...)
{
    va_list args;
    v->failures++;
    if (op) {
        print_op(v->func, op, v->out);
        text_add(v->out, ": ");
    }
    va_start(args, format);
    text_vprintf(v->out, format, args);
    va_end(args);
    text_char(v->out, '\n');
}

bool verify_is_among(const char *word, const char *list)
{
    size_t n = word ? strlen(word) : 0;
    for (const char *at = list; n && (at = strstr(at, word)); at++) {
        if (at > list && at[-1] == ' ' && at[n] == ' ') {
            return true;
        }
    }
    return false;
}

/* ---- scopes ---- */

static void check_dims(Verifier *v, const Op *op, Type type)
{
    for (int i = 0; i < type->rank; i++) {
        for (int t = 0; t < type->dims[i]->n_terms; t++) {
            const PolyTerm *term = &type->dims[i]->terms[t];
            for (int k = 0; k < term->n; k++) {
                const DimVar *var = term->vars[k];
                if (var->kind == DIM_RANGE && (!var->binder || !v->visible[var->binder->id])) {
                    verify_fail(v, op, "a type names a range that is not in scope");
                }
            }
        }
    }
}

static void check_operands(Verifier *v, const Op *op)
{
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        const Access access = op_access(op, at);
        if (!access.memory) {
            verify_fail(v, op, "operand %d is missing", at);
            continue;
        }
        if (at + access.n >= op->n_operands) {
            verify_fail(v, op, "operand %d lacks its %d indices", at, access.n);
            return;
        }
        if (!v->visible[access.memory->id]) {
            verify_fail(v, op, "operand %d is not in scope", at);
        }
        for (int i = 0; i < access.n; i++) {
            if (access.indices[i] && !v->visible[access.indices[i]->id]) {
                verify_fail(v, op, "index %d of operand %d is not in scope", i, at);
            }
        }
    }
}

static void check_counts(Verifier *v, const Op *op)
{
    const OpInfo *info = op_info(op->kind);
    if (info->operands != VARIES && info->operands != op->n_operands) {
        verify_fail(v, op, "%d operands, not %d", op->n_operands, info->operands);
    }
    bool needs_some = (info->traits & (TRAIT_ACCESS | TRAIT_REGION)) == TRAIT_ACCESS &&
                      op->kind != OP_DOT_WAIT && op->kind != OP_COPY_WAIT; /* they may wait alone */
    if (info->operands == VARIES && needs_some && op->n_operands == 0) {
        verify_fail(v, op, "no operands");
    }
    if (info->results != VARIES && info->results != op->n_results) {
        verify_fail(v, op, "%d results, not %d", op->n_results, info->results);
    }
    if (!(info->levels & v->func->level)) {
        verify_fail(v, op, "not legal at this stage");
    }
    if (!(info->traits & TRAIT_REGION) && op->n_regions) {
        verify_fail(v, op, "this operation holds no regions");
    }
    if ((info->traits & TRAIT_TERMINATOR) && op->next) {
        verify_fail(v, op, "operations after the end of the region");
    }
}

static void check_block(Verifier *v, const Block *block);

static void check_block(Verifier *v, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        if (op->parent != block) {
            verify_fail(v, op, "the operation's parent is another block");
        }
        check_counts(v, op);
        check_operands(v, op);
        /* A region's arguments are visible inside of the region only. */
        for (int i = 0; i < op->n_regions; i++) {
            Block *region = op->regions[i];
            if (region->parent != op) {
                verify_fail(v, op, "region %d belongs to another operation", i);
            }
            for (int k = 0; k < region->n_args; k++) {
                v->visible[region->args[k]->id] = true;
            }
            for (int k = 0; k < region->n_args; k++) {
                check_dims(v, op, region->args[k]->type);
            }
            check_block(v, region);
            for (int k = 0; k < region->n_args; k++) {
                v->visible[region->args[k]->id] = false;
            }
        }
        for (int i = 0; i < op->n_results; i++) {
            v->visible[op->results[i]->id] = true;
            check_dims(v, op, op->results[i]->type);
        }
    }
    for (const Op *op = block->first; op; op = op->next) {
        for (int i = 0; i < op->n_results; i++) {
            v->visible[op->results[i]->id] = false;
        }
    }
}

/* Only an allocation makes memory or barriers. */
static void check_result_kinds(Verifier *v, const Op *op)
{
    TypeKind kind = TYPE_ARRAY;
    if (op->kind == OP_SHARED) {
        kind = TYPE_SHARED;
    } else if (op->kind == OP_MBARRIER) {
        kind = TYPE_MBARRIER;
    }
    for (int i = 0; i < op->n_results; i++) {
        if (op->results[i]->type->kind != kind) {
            verify_fail(v, op, "result %d is not of the kind that the op makes", i);
        }
    }
}

static void check_rules(Verifier *v, const Block *block)
{
    for (const Op *op = block->first; op; op = op->next) {
        int before = v->failures;
        check_result_kinds(v, op);
        verify_op(v, op);
        if (v->failures == before && op_reduces(op)) {
            verify_over(v, op);
        }
        if (v->failures == before && v->func->interns->layouts.n > 0) {
            verify_layout(v, op);
        }
        for (int i = 0; i < op->n_regions; i++) {
            check_rules(v, op->regions[i]);
        }
    }
}

/* Row-major, with nothing but space between rows. */
static bool is_in_order(Type type)
{
    bool good = !type->align && (!type->strides || type->rank > 1);
    for (int axis = 0; type->strides && axis < type->rank; axis++) {
        bool last = axis == type->rank - 1;
        good =
            good && (last ? type_stride_is(type, axis, 1) : poly_least(type->strides[axis]) >= 0);
    }
    return good;
}

static void check_axis_order(Verifier *v, const Param *param)
{
    Type type = param->value->type;
    unsigned seen = 0;
    if ((type->strides || type->align) && dtype_is_packed(type->dtype)) {
        verify_fail(v, NULL, "%s can only be contiguous", param->name);
    }
    if (param->io == PARAM_SCRATCH && !is_in_order(type)) {
        verify_fail(v, NULL, "%s can only be contiguous, or have longer rows", param->name);
    }
    if (type->align && type->align < dtype_bytes(type->dtype)) {
        verify_fail(v, NULL, "%s begins within an element", param->name);
    }
    for (int axis = 0; axis < type->rank; axis++) {
        int64_t from = param->axis_perm ? param->axis_perm[axis] : axis;
        seen |= from >= 0 && from < type->rank ? 1u << from : 0;
        if (type->strides && param->io != PARAM_IN && type_stride_is(type, axis, 0)) {
            verify_fail(v, NULL, "elements of %s, which is written, share memory", param->name);
        }
    }
    if (seen != (1u << type->rank) - 1) {
        verify_fail(v, NULL, "%s: the order is no permutation of its axes", param->name);
    }
}

/* The product of some of the caller's axes; NULL: there are fewer, or it overflows. */
static Dim merged_extent(Func *func, Type given, int from, int64_t n)
{
    Dim all = n >= 1 && n <= given->rank - from ? poly_const(func, 1) : NULL;
    for (int i = 0; all && i < n; i++) {
        all = poly_mul(func, all, given->dims[from + i]);
    }
    return all;
}

/* The extent with the number in the place of each size that the facts fix: a pass may have replaced
 * such a size below the caller's types. */
static Dim with_fixed_sizes(Func *func, Dim dim)
{
    for (size_t i = 0; dim && i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        int64_t number = size_if_fixed(var);
        if (number && poly_mentions(dim, var)) {
            dim = poly_substitute(func, dim, var, poly_const(func, number));
        }
    }
    return dim;
}

/* Each axis is the product of the caller's that have become it. */
static void check_merged(Verifier *v, const Param *param)
{
    Type type = param->value->type;
    if (!param->collapsed) {
        return;
    }
    bool good = type->kind == TYPE_TENSOR && (!type->strides || param->alias) && !param->axis_perm;
    int from = 0;
    for (int axis = 0; good && axis < type->rank; axis++) {
        Dim merged = merged_extent(v->func, param->caller_type, from, param->collapsed[axis]);
        good = with_fixed_sizes(v->func, merged) == with_fixed_sizes(v->func, type->dims[axis]);
        from += good ? (int)param->collapsed[axis] : 0;
    }
    if (!good || from != param->caller_type->rank) {
        verify_fail(v, NULL, "%s: its axes are not those of the caller, merged", param->name);
    }
}

static bool is_of_sizes(Dim dim)
{
    for (int t = 0; t < dim->n_terms; t++) {
        for (int k = 0; k < dim->terms[t].n; k++) {
            if (dim->terms[t].vars[k]->kind != DIM_SIZE) {
                return false;
            }
        }
    }
    return true;
}

/* A view has a position for each spatial axis, and a place in a pooling window and a tap for those
 * that have them. */
static void check_windows(Verifier *v, const Param *param)
{
    const Im2colView *windows = param->im2col;
    if (!windows) {
        return;
    }
    Type type = param_given(param), of = im2col_source_type(v->func, windows);
    int rank = 2 + windows->n;
    bool good = param->io == PARAM_IN && type->kind == TYPE_TENSOR && !type->strides &&
                of->kind == TYPE_TENSOR && windows->n > 0 && of->rank == 2 + windows->n &&
                of->dtype == type->dtype &&
                (v->func->params.items[windows->of->index].io == PARAM_IN ||
                 v->func->params.items[windows->of->index].io == PARAM_SCRATCH);
    good = good && !func_im2col_of(v->func, windows->of);
    for (int i = 0; i < windows->n; i++) {
        good = good && windows->axes[i].stride > 0 && windows->axes[i].stride <= INT32_MAX &&
               windows->axes[i].dilation >= 0 && windows->axes[i].dilation <= INT32_MAX &&
               windows->axes[i].inner >= 0 && windows->axes[i].inner <= INT32_MAX &&
               is_of_sizes(windows->axes[i].offset);
        rank += (windows->axes[i].dilation > 0) + (windows->axes[i].inner > 0);
    }
    if (!good || type->rank != rank || type->dims[0] != of->dims[0] ||
        type->dims[rank - 1] != of->dims[of->rank - 1]) {
        verify_fail(v, NULL, "%s: these are no windows of the tensor", param->name);
    }
}

/* Each axis of the tensor is one of the alias, or two, or several, of which the inner ones are
 * numbers. */
static bool is_split(Func *func, Type of, Type type)
{
    int from = 0;
    for (int axis = 0; axis < of->rank; axis++) {
        int64_t by = 1, extent;
        int last = from;
        if (from + 1 < type->rank &&
            dim_is_product(func, of->dims[axis], type->dims[from], type->dims[from + 1])) {
            from += 2;
            continue;
        }
        while (last < type->rank && !dim_is_split(func, of->dims[axis], type->dims[from], by)) {
            bool number = ++last < type->rank && poly_is_const(type->dims[last], &extent);
            if (!number || __builtin_mul_overflow(by, extent, &by) || by < 1) {
                return false;
            }
        }
        from = last + 1;
    }
    return from == type->rank;
}

/* Of a tensor of the caller's, or of an intermediate; axes that are split may be collapsed with
 * others. */
static void check_split_alias(Verifier *v, const Param *param, const Param *base)
{
    Type type = param_given(param), of = base->value->type;
    bool good = !base->alias && !base->im2col && !base->axis_perm && !of->strides &&
                !param->axis_perm && !param->value->type->strides && !type->strides;
    if (!good || type->dtype != of->dtype || !is_split(v->func, of, type)) {
        verify_fail(v, NULL, "%s: its axes are not those of the contiguous %s, split", param->name,
                    base->name);
    }
}

/* Is each axis of the alias one of the tensor, or several that are adjacent in memory? */
static bool is_collapsed(Func *func, const Param *param, Type of)
{
    Type type = param->value->type;
    int from = 0;
    for (int axis = 0; axis < type->rank; axis++) {
        int64_t n = param->collapsed ? param->collapsed[axis] : 1;
        for (int64_t i = 1; i < n && from + 1 < of->rank; i++, from++) {
            Dim rows = of->strides
                           ? poly_mul(func, of->dims[from + 1], of->strides[from + 1])
                           : NULL;
            if (of->strides && of->strides[from] != rows) {
                return false;
            }
        }
        Dim own = type->strides ? type->strides[axis] : NULL;
        if (from >= of->rank || own != (of->strides ? of->strides[from] : NULL)) {
            return false;
        }
        from++;
    }
    return from == of->rank;
}

/* An alias has the axes of the tensor, but for those that are collapsed. */
static void check_alias(Verifier *v, const Param *param)
{
    const Value *of = param->alias;
    if (!of) {
        return;
    }
    const Param *base = of->type->kind == TYPE_TENSOR ? &v->func->params.items[of->index] : NULL;
    bool splits = base && (param_given(param)->rank > of->type->rank ||
                           (base->io != PARAM_SCRATCH && !param->collapsed));
    if (splits && base->io == param->io) {
        check_split_alias(v, param, base);
        return;
    }
    bool good = base && param->io == base->io && !base->alias && !base->im2col &&
                !param->axis_perm && !base->axis_perm && !base->collapsed;
    Type given = param_given(param);
    good = good && given->rank == of->type->rank && given->dtype == of->type->dtype;
    for (int i = 0; good && i < given->rank; i++) {
        good = given->dims[i] == of->type->dims[i];
    }
    if (!good || !is_collapsed(v->func, param, of->type)) {
        verify_fail(v, NULL,
                    "%s: an alias has the memory of a tensor, and its axes or several as one",
                    param->name);
    }
}

static bool is_f32_scalar(const Value *value)
{
    return type_is_scalar(value->type) && value->type->dtype == DT_F32;
}

/* One f32 becomes another one, by pure ops on scalars. */
static void check_function(Verifier *v, const Block *block)
{
    const Op *yield = block->last;
    if (block->n_args != 1 || !is_f32_scalar(block->args[0]) || !yield || yield->kind != OP_YIELD ||
        yield->n_operands != 1 || !is_f32_scalar(yield->operands[0])) {
        verify_fail(v, yield, "a function takes one f32 and yields one");
        return;
    }
    v->visible[block->args[0]->id] = true;
    check_block(v, block);
    v->visible[block->args[0]->id] = false;
    for (const Op *op = block->first; op != yield; op = op->next) {
        if ((op->kind != OP_CONST && !op_has(op, TRAIT_ELEMENTWISE)) || op->n_results != 1 ||
            op->results[0]->type->rank != 0) {
            verify_fail(v, op, "in a function, and not a scalar operation");
        }
    }
    if (v->failures == 0) {
        check_rules(v, block);
    }
}

int verify_func(Func *func, Text *out)
{
    Verifier v = {.func = func, .out = out};
    v.visible = ARENA_ARRAY(func->arena, bool, func->n_values);
    for (size_t i = 0; i < func->params.n; i++) {
        const Value *param = func->params.items[i].value;
        v.visible[param->id] = true;
        if (param->type->kind != TYPE_TENSOR && !type_is_scalar(param->type)) {
            verify_fail(&v, NULL, "parameter %s is neither a tensor nor a scalar", param->name);
        }
        if (param->type->kind != TYPE_TENSOR && func->params.items[i].io != PARAM_IN) {
            verify_fail(&v, NULL, "scalar %s is no input", param->name);
        }
        check_axis_order(&v, &func->params.items[i]);
        check_merged(&v, &func->params.items[i]);
        check_windows(&v, &func->params.items[i]);
        check_alias(&v, &func->params.items[i]);
    }
    for (size_t i = 0; i < func->functions.n; i++) {
        check_function(&v, func->functions.items[i].block);
    }
    check_block(&v, func->body);
    /* From the launch level on, the body holds launches and pure scalars only. */
    if (v.func->level != LEVEL_TENSOR) {
        for (const Op *op = v.func->body->first; op; op = op->next) {
            if (op->kind != OP_LAUNCH && op->kind != OP_PARALLEL && !op_has(op, TRAIT_PURE)) {
                verify_fail(&v, op, "outside of a launch");
            }
        }
    }
    if (v.failures == 0) {
        check_rules(&v, func->body);
    }
    return v.failures;
}
