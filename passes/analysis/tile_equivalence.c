/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether two tiles of different loops hold the same elements, possibly transposed, by
 * comparing their defining ops and pairing the loop variables. materialize_reused_tiles looks for
 * tiles that two launches compute. */
#include "passes/analysis/tile_equivalence.h"
#include "ir/build.h"

#include <string.h>

enum { MAX_COMPARED = 4096 };

/* ---- variables ---- */

Dim an_walked(const Value *var)
{
    const Op *loop = var && var->block ? var->block->parent : NULL;
    bool grid = loop && (loop->kind == OP_PARALLEL || loop->kind == OP_LAUNCH);
    bool step = loop && loop->kind == OP_FOR && var->index == 0;
    const Attr *dims = grid || step ? op_attr(loop, ATTR_DIMS) : NULL;
    return dims && (int)var->index < dims->n ? dims->dims[var->index] : NULL;
}

Value *an_paired(const LoopVarMap *vars, const Value *a)
{
    for (int i = 0; i < vars->n; i++) {
        if (vars->items[i].a == a) {
            return vars->items[i].b;
        }
    }
    return NULL;
}

static bool is_taken(const LoopVarMap *vars, const Value *b)
{
    for (int i = 0; i < vars->n; i++) {
        if (vars->items[i].b == b) {
            return true;
        }
    }
    return false;
}

static bool pair(LoopVarMap *vars, const Value *a, const Value *b)
{
    Dim walked = an_walked(a);
    if (an_paired(vars, a) || is_taken(vars, b)) {
        return an_paired(vars, a) == b;
    }
    if (!walked || walked != an_walked(b) || a->type->kind != b->type->kind ||
        vars->n == MAX_LOOP_VARS) {
        return false;
    }
    vars->items[vars->n].a = (Value *)a;
    vars->items[vars->n++].b = (Value *)b;
    return true;
}

/* ---- memory ---- */

/* An input, or what an earlier launch wrote. */
static bool is_steady(const LoopVarMap *vars, const Value *memory)
{
    if (memory->type->kind != TYPE_TENSOR || memory->block || memory->def) {
        return false;
    }
    ParamIo io = vars->func->params.items[memory->index].io;
    bool steady = io == PARAM_IN || io_is_made_here(io);
    for (const Op *op = vars->from; io_is_made_here(io) && steady && op; op = op->next) {
        steady = !op_writes(op, memory);
        if (op == vars->to) {
            break;
        }
    }
    return steady;
}

static bool alike_loads(LoopVarMap *vars, const Op *a, const Op *b)
{
    Access x = op_access(a, 0), y = op_access(b, 0);
    if (x.memory != y.memory || !is_steady(vars, x.memory)) {
        return false;
    }
    for (int i = 0; i < x.n; i++) {
        if (!x.indices[i] != !y.indices[i] ||
            (x.indices[i] && !an_tiles_equivalent(vars, x.indices[i], y.indices[i], false))) {
            return false;
        }
    }
    return true;
}

/* ---- operations ---- */

static bool same_attr(const Op *a, const Op *b, AttrKey key)
{
    const Attr *x = op_attr(a, key), *y = op_attr(b, key);
    if (!x || !y) {
        return x == y;
    }
    bool words = !x->word == !y->word && (!x->word || text_equal(x->word, y->word));
    return words && x->i == y->i && memcmp(&x->f, &y->f, sizeof x->f) == 0;
}

static bool alike_pair(LoopVarMap *vars, const Value *a, const Value *b, const Value *c,
                       const Value *d, bool turned)
{
    int n = vars->n;
    if (an_tiles_equivalent(vars, a, b, turned) && an_tiles_equivalent(vars, c, d, turned)) {
        return true;
    }
    vars->n = n; /* pairs of what did not fit */
    return false;
}

static bool commutes(OpKind kind)
{
    switch (kind) {
    case OP_ADD:
    case OP_MUL:
    case OP_MIN:
    case OP_MAX:
    case OP_AND:
    case OP_OR:
    case OP_XOR:
    case OP_FMA: return true;
    default: return false;
    }
}

static bool alike_elements(LoopVarMap *vars, const Op *a, const Op *b, bool turned)
{
    if (!same_attr(a, b, ATTR_PRED) || a->n_operands != b->n_operands) {
        return false;
    }
    Value *const *x = a->operands, *const *y = b->operands;
    bool two = a->n_operands >= 2;
    bool first = two ? alike_pair(vars, x[0], y[0], x[1], y[1], turned) ||
                           (commutes(a->kind) && alike_pair(vars, x[0], y[1], x[1], y[0], turned))
                     : an_tiles_equivalent(vars, x[0], y[0], turned);
    return first && (a->n_operands < 3 || an_tiles_equivalent(vars, x[2], y[2], turned));
}

static bool alike_dots(LoopVarMap *vars, const Op *a, const Op *b, bool turned)
{
    Type left = a->operands[0]->type;
    bool plain = a->n_operands == 2 && b->n_operands == 2 && left->rank == 2 &&
                 !poly_as_range(left->dims[1]);
    Value *const *x = a->operands, *const *y = b->operands;
    if (!plain) { /* a sum over a part of an axis */
        return false;
    }
    return turned ? alike_pair(vars, x[0], y[1], x[1], y[0], true)
                  : alike_pair(vars, x[0], y[0], x[1], y[1], false);
}

static bool alike_expands(LoopVarMap *vars, const Op *a, const Op *b, bool turned)
{
    int64_t at = op_int(a, ATTR_AXIS, 0), other = op_int(b, ATTR_AXIS, 0);
    bool tile = a->results[0]->type->rank == 2;
    return at == (tile && turned ? 1 - other : other) &&
           an_tiles_equivalent(vars, a->operands[0], b->operands[0], false);
}

static bool alike_ops(LoopVarMap *vars, const Op *a, const Op *b, bool turned)
{
    switch (a->kind) {
    case OP_CONST: return same_attr(a, b, ATTR_VALUE);
    case OP_LOAD: return !(turned && a->results[0]->type->rank == 2) && alike_loads(vars, a, b);
    case OP_DOT: return alike_dots(vars, a, b, turned);
    case OP_INDEX: return pair(vars, a->operands[0], b->operands[0]);
    case OP_EXPAND: return alike_expands(vars, a, b, turned);
    case OP_BROADCAST: {
        bool line = a->operands[0]->type->rank == 1; /* along the last axis */
        return !(line && turned) &&
               an_tiles_equivalent(vars, a->operands[0], b->operands[0], turned);
    }
    default:
        return op_has(a, TRAIT_ELEMENTWISE) && a->n_operands && a->n_operands <= 3 &&
               alike_elements(vars, a, b, turned);
    }
}

static const Value *unturned(const Value *value, bool *turned)
{
    while (value->def && value->def->kind == OP_PERMUTE && value->type->rank == 2 &&
           op_attr(value->def, ATTR_PERM)->ints[0] == 1) {
        value = value->def->operands[0];
        *turned = !*turned;
    }
    return value;
}

bool an_tiles_equivalent(LoopVarMap *vars, const Value *a, const Value *b, bool turned)
{
    if (!a || !b || vars->compared++ > MAX_COMPARED) {
        return false;
    }
    a = unturned(a, &turned);
    b = unturned(b, &turned);
    if (!a->def || !b->def) {
        return (a == b && !a->block) || (a->block && b->block && pair(vars, a, b));
    }
    return a->def->kind == b->def->kind && a->def->n_results == 1 &&
           a->type->dtype == b->type->dtype && a->type->rank == b->type->rank &&
           a->type->rank <= 2 && alike_ops(vars, a->def, b->def, turned);
}
