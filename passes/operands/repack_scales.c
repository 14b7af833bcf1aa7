/* SPDX-License-Identifier: Apache-2.0 */
/* repack_scales: stores the scales of groups along k so that those of a k step are one row.
 *
 *                                           scratch %p: tensor<bf16[H, N] strides [...]>
 *   %g = k // 128                           %h = 128 * iota dim=[H]
 *   %s = gather %scale[%n, %g]              store %p[:, :], (gather %scale[%n, %h // 128])
 *   %d = dot %a, (mul %b, %s)        →      %s = gather %p[k // 128, %n]
 *                                           %d = dot %a, (mul %b, %s)
 *
 * sink_dequant_scale multiplies the sum of each k step by the scales of its columns. If these are
 * contiguous, TMA loads them as it loads the operands. If a column's scales are (as [N, K / 128]
 * has them), or the scale is computed, each thread gathers or computes those of its columns in each
 * step, which takes longer than the step's products. There are few scales, so a launch that stores
 * them in order takes little more than its start. Scales of the left operand stay: a thread has a
 * few rows only. Requires the tensor level, and known sizes. Changes no bits. */
#include "ir/build.h"
#include "ir/op_axes.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/analysis/cost_model.h"
#include "passes/analysis/constant_runs.h"
#include "passes/analysis/dequant_scale.h"
#include "passes/analysis/repack_cost.h"
#include "passes/operands/repack_store.h"
#include "passes/pass.h"

/* Cycles of a multiprocessor that a multiplication takes longer if threads gather the scales of
 * their columns, measured on the H200; bytes of a scale that the copy reads and writes. */
static const double GAIN = 5.28e-4, COPIED = 8;

typedef struct GroupScales {
    Op *dot;
    FactorSide side;
    int64_t run; /* elements of k that have a scale in common */
    RepackBenefit copy;
} GroupScales;

typedef struct ScaleRepacks {
    Func *func;
    struct {
        GroupScales *items;
        size_t n, cap;
    } factors;
    RepackDecision decision;
} ScaleRepacks;

/* ---- a value at the first element of each group ---- */

typedef struct Sampler {
    Builder b;
    Dim groups;
    int64_t run;
    CloneMap known[MAX_RANK]; /* by the axis that is k */
    bool fails;
} Sampler;

static Value *sampled(Sampler *s, Value *value, int axis);

static Type type_sampled(const Sampler *s, Type type, int axis)
{
    Dim dims[MAX_RANK];
    for (int i = 0; i < type->rank; i++) {
        dims[i] = i == axis ? s->groups : type->dims[i];
    }
    return type_with_dims(s->b.func, type, type->rank, dims);
}

/* An op whose axes are those of its operands, or a constant. */
static Value *element_sampled(Sampler *s, const Op *op, int axis)
{
    Value *operands[MAX_RANK + 1];
    Type type = type_sampled(s, op->results[0]->type, axis);
    for (int i = 0; i < op->n_operands; i++) {
        Value *operand = op->operands[i];
        bool whole = operand->type->kind == TYPE_TENSOR || type_is_scalar(operand->type);
        operands[i] = whole ? operand : sampled(s, operand, axis);
    }
    Op *copy = build_op(&s->b, op->kind, op->n_operands, operands, 1, &type, 0);
    copy->n_attrs = op->n_attrs;
    copy->attrs = op->attrs;
    return copy->results[0];
}

static Value *moved_sampled(Sampler *s, const Op *op, int axis)
{
    Value *operand = op->operands[0];
    int inner = op_operand_axis(op, 0, axis);
    operand = inner >= 0 ? sampled(s, operand, inner) : operand;
    switch (op->kind) {
    case OP_PERMUTE: return build_permute(&s->b, operand, op_attr(op, ATTR_PERM)->ints);
    case OP_EXPAND: return build_expand(&s->b, operand, (int)op_int(op, ATTR_AXIS, 0));
    case OP_SQUEEZE: return build_squeeze(&s->b, operand, (int)op_int(op, ATTR_AXIS, 0));
    default: {
        Type type = type_sampled(s, op->results[0]->type, axis);
        return build_broadcast(&s->b, operand, type->rank, type->dims);
    }
    }
}

static Value *made_sampled(Sampler *s, Value *value, int axis)
{
    const Op *op = value->def;
    bool memory = op && op->kind == OP_GATHER && op->operands[0]->type->kind == TYPE_TENSOR;
    if (op && op_moves_axes(op)) {
        return moved_sampled(s, op, axis);
    }
    if (op && op->kind == OP_IOTA) {
        Value *index = build_iota(&s->b, s->groups, value->type->dtype);
        Value *run = build_int(&s->b, index->type, s->run);
        return build_binary(&s->b, OP_MUL, index, run);
    }
    if (memory || (op && (op->kind == OP_CONST || op_has(op, TRAIT_ELEMENTWISE)))) {
        return element_sampled(s, op, axis);
    }
    s->fails = true;
    return value;
}

/* The value at the first element of each group along the axis. */
static Value *sampled(Sampler *s, Value *value, int axis)
{
    Value *known = clone_get(&s->known[axis], value);
    if (known == value && !s->fails) {
        known = made_sampled(s, value, axis);
        clone_map_value(&s->known[axis], value, known);
    }
    return known;
}

/* ---- which scales ---- */

/* True if the scales of a k step are contiguous in memory. */
static bool is_in_rows(const Value *factor, int along_k)
{
    const Op *op = factor->def;
    while (op && op->kind == OP_CAST) {
        op = op->operands[0]->def;
    }
    return op && op->kind == OP_GATHER && op->operands[0]->type->kind == TYPE_TENSOR &&
           an_constant_run(op->operands[op->n_operands - 1], along_k) == 0;
}

static void find_scales(Op *op, void *user)
{
    ScaleRepacks *r = user;
    ScaledDot found;
    if (op->kind != OP_DOT || op->parent != r->func->body || !an_scaled_dot(r->func, op, &found)) {
        return;
    }
    FactorSide *side = &found.sides[1];
    int64_t run = side->factor ? an_constant_run(side->factor, side->along_k) : 0;
    if (run <= 1 || an_constant_run(side->factor, 1 - side->along_k) != 1 ||
        is_in_rows(side->factor, side->along_k)) {
        return;
    }
    double copied = cost_copy_each(r->func->target->machine, COPIED) / (double)run;
    RepackBenefit copy = an_repack_gain(r->func, op, side->factor->type, GAIN, copied);
    ARENA_PUSH(r->func->arena, &r->factors, ((GroupScales){op, *side, run, copy}));
    an_repack_consider(&r->decision, &copy);
}

/* ---- the launch ---- */

/* The scales again, for each element of the operand, from `rows` of the groups. */
static Value *spread_rows(Builder *b, Value *rows, const GroupScales *scales)
{
    Type type = scales->side.factor->type;
    int k = scales->side.along_k;
    Value *at_k = build_iota(b, type->dims[k], DT_I64);
    at_k = build_binary(b, OP_DIV, at_k, build_int(b, at_k->type, scales->run));
    Value *indices[] = {build_along(b, at_k, k, type), build_places(b, 1 - k, type)};
    Value *spread = build_gather(b, rows, indices);
    op_set_ints(b->func, spread->def, ATTR_GUARD, 2, (int64_t[]){0, 0});
    return build_cast(b, spread, type->dtype);
}

static void repack(Func *func, const GroupScales *scales)
{
    Value *factor = scales->side.factor;
    Value *narrow = an_is_widened(factor) ? factor->def->operands[0] : factor;
    int k = scales->side.along_k;
    Dim over = poly_add(func, factor->type->dims[k], poly_const(func, scales->run - 1));
    DimVar *groups = over ? func_quotient(func, NULL, over, scales->run) : NULL;
    if (!groups) {
        return;
    }
    Sampler s = {
        .b = build_after(func, factor->def), .groups = poly_var(func, groups), .run = scales->run};
    s.b.span = factor->def->span;
    for (int i = 0; i < MAX_RANK; i++) {
        s.known[i] = clone_map_new(func);
    }
    Value *rows = sampled(&s, narrow, k);
    if (s.fails) {
        return;
    }
    rows = k == 0 ? rows : build_permute(&s.b, rows, (int64_t[]){1, 0});
    Value *spread = spread_rows(&s.b, repack_store(&s.b, rows), scales);
    func_replace_uses(func, factor, spread);
}

void pass_repack_scales(Func *func)
{
    static const RepackReasons why = {
        .pays = "scales that lie in the order of columns come with the operands",
        .costs = "a launch that stores the scales in the order of columns would take longer than "
                 "it saves",
        .unknown = "what is not known does not ask for a launch that stores the scales in the "
                   "order of columns",
    };
    ScaleRepacks r = {.func = func};
    if (!mma_reads_bulk_copies(func->target)) {
        return;
    }
    func_walk(func, find_scales, &r);
    an_repack_decide(func, "repack_scales", &why, &r.decision);
    for (size_t i = 0; i < r.factors.n; i++) {
        if (an_repack_is_made(&r.decision, &r.factors.items[i].copy)) {
            repack(func, &r.factors.items[i]);
        }
    }
    func_remove_dead(func);
}
