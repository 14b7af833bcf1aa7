/* SPDX-License-Identifier: Apache-2.0 */
/* The iterations of `parallel` have no order, so each writes places of its own. An index is made of
 * the variables of `parallel` by sums and products, which is checked here for each variable, or it
 * comes from data that a variable chooses, `y[to[i]]`, `R[at[e]: at[e + 1]]`. Of data nothing is
 * known when compiling: the interpreter reports two iterations that write one place. */
#include "frontend/lower/lower_index.h"

/* True if the index depends on the variable, or on a part of its range. */
static bool mentions(const AxisIndex *axis_index, const IndexVar *var)
{
    const Affine *affine = axis_index->val.affine;
    for (int i = 0; affine && i < affine->n; i++) {
        const IndexVar *own = affine->terms[i].var;
        while (own && own != var) {
            own = own->within;
        }
        if (own) {
            return true;
        }
    }
    return false;
}

/* ---- places from data ---- */

typedef struct DataWalk {
    const Value *arg; /* of `parallel` */
    uint8_t *seen;    /* by value id: bit 0 without, bit 1 behind a read of memory */
    bool found;
} DataWalk;

/* Operations after which different indices may be the same one. */
static bool merges(OpKind kind)
{
    switch (kind) {
    case OP_ADD:
    case OP_SUB:
    case OP_MUL:
    case OP_NEG:
    case OP_CAST:
    case OP_INDEX:
    case OP_START:
    case OP_EXPAND:
    case OP_SQUEEZE:
    case OP_BROADCAST:
    case OP_PERMUTE:
    case OP_MAX: /* of a range's begin and 0 */
    case OP_SELECT: return false;
    default: return true;
    }
}

static void walk_data(DataWalk *walk, const Value *value, bool data)
{
    uint8_t bit = data ? 2 : 1;
    if (!value || walk->found || walk->seen[value->id] & bit) {
        return;
    }
    walk->seen[value->id] |= bit;
    walk->found = value == walk->arg;
    const Op *op = value->def;
    if (!op && value->block && value->block->parent && value->block->parent->kind == OP_FOR) {
        /* A range begins where the loop does; a carried value does as it is before the loop. */
        const Op *loop = value->block->parent;
        walk_data(walk, loop->operands[value->index ? value->index + 1 : 0], data);
        return;
    }
    bool reads = op && (op->kind == OP_LOAD || op->kind == OP_GATHER);
    for (int i = 0; op && (data || reads || !merges(op->kind)) && i < op->n_operands; i++) {
        walk_data(walk, op->operands[i], data || reads);
    }
}

/* True if the index is different for each value of the variable as far as the source can say: by
 * data that the variable chooses, or by a sum with such data. */
static bool chosen_by(const Lower *l, const AxisIndex *axis_index, const Value *arg)
{
    const Val *val = &axis_index->val;
    if ((val->kind != VAL_ARRAY && val->kind != VAL_RANGE) || axis_index->kind == INDEX_SLICE) {
        return false;
    }
    DataWalk walk = {.arg = arg, .seen = ARENA_ARRAY(l->arena, uint8_t, l->func->n_values)};
    walk_data(&walk, val->value, false);
    return walk.found;
}

/* ---- all variables ---- */

static bool same_place(Lower *l, Span span, const char *variable)
{
    Diag *diag = lower_error(l, ERR_PARALLEL_WRITE, span,
                             "iterations over `%s` write the same place", variable);
    diag_help(l->diags, diag,
              "index the result with every variable of `parallel`, or at places from data "
              "that it chooses");
    return false;
}

bool covers_parallel(Lower *l, Span span, const IndexedAccess *places)
{
    for (int i = 0; i < l->n_parallel; i++) {
        const Value *arg = l->parallel_vars[i].arg;
        bool found = false;
        for (int k = 0; k < places->n && !found; k++) {
            found = mentions(&places->at[k], l->parallel_vars[i].var) ||
                    chosen_by(l, &places->at[k], arg);
        }
        if (!found) {
            return same_place(l, span, arg->name);
        }
    }
    Lanes used = 0;
    for (int k = 0; k < places->n; k++) {
        used |= places->at[k].val.lanes;
    }
    for (int i = 0; i < l->n_lanes; i++) {
        if (!(used >> i & 1)) {
            return same_place(l, span, l->lanes[i].name);
        }
    }
    return true;
}
