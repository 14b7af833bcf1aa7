/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers from computed arrays. `x[i - 1]` of a computed x is computed at i - 1 where that is
 * cheap:
 *
 *   %d = sub %a, %b                          %p = gather %x[%i]
 *   %g = gather %d[%i]              →        %q = gather %y[%i]
 *                                            %e = sub %p, %q
 *                                            %g = select %inside, %e, 0
 *
 * A reduction of the array's rows that is read at its own coordinates is used as it is. Otherwise
 * the array is stored, in a narrower type if all readers round it to that type (ir/narrow_moved.h),
 * and the gather reads it from memory. */
#include "passes/fuse/fuse_value_at.h"

#include "ir/narrow_moved.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"

enum {
    MAX_OPS = 8,         /* that are computed again at each place of several */
    MAX_OPS_ONCE = 64,   /* where each element is asked for about once */
    MAX_OPS_ALONE = 4096 /* where nothing else asks for any: they are computed there instead */
};

/* ---- may it be computed at the place? ---- */

typedef struct Asked {
    const Func *func;
    Type shape; /* of the gather's result */
    Memo *seen; /* values that were counted; NULL: each is for each of its uses */
} Asked;

static int weigh(const Asked *a, const Value *value, Value *const *indices, int most);

static int weigh_operands(const Asked *a, const Op *op, Value *const *indices, int first, int most)
{
    int sum = 0;
    for (int i = first; i < op->n_operands && sum <= most; i++) {
        sum += op->operands[i] ? weigh(a, op->operands[i], indices, most - sum) : 0;
    }
    return sum;
}

static int weigh(const Asked *a, const Value *value, Value *const *indices, int most)
{
    const Op *op = value->def;
    Value *inner[MAX_RANK];
    if (type_is_scalar(value->type) || (a->seen && op && !memo_visit(a->seen, value))) {
        return 0;
    }
    if (!op) {
        return most + 1;
    }
    switch (op->kind) {
    case OP_CONST:
    case OP_IOTA: return 0;
    case OP_LOAD: return fuse_is_unchanging(a->func, op->operands[0]) ? 0 : most + 1;
    default: break;
    }
    if (op_moves_axes(op)) {
        fuse_indices_below(op, indices, inner);
        return weigh(a, op->operands[0], inner, most);
    }
    if (fuse_is_at_own_indices(value, indices, a->shape)) {
        return 0;
    }
    if (op->kind == OP_GATHER) {
        return type_is_memory(op->operands[0]->type) && fuse_is_unchanging(a->func, op->operands[0])
                   ? 1 + weigh_operands(a, op, indices, 1, most - 1)
                   : most + 1;
    }
    return op_has(op, TRAIT_ELEMENTWISE) ? 1 + weigh_operands(a, op, indices, 0, most - 1)
                                         : most + 1;
}

static double elements(Type type)
{
    double n = 1;
    for (int i = 0; i < type->rank; i++) {
        n *= (double)poly_nominal(type->dims[i]);
    }
    return n;
}

/* As many elements are asked for as there are: a shift, a flip, a piece, other axes. */
static bool is_single_read(const Op *gather)
{
    Type from = gather->operands[0]->type, to = gather->results[0]->type;
    return to->rank <= from->rank || elements(to) <= elements(from);
}

bool fuse_is_cheap_gather(const Func *func, const Op *gather)
{
    bool single_read = is_single_read(gather);
    bool alone = single_read && value_count_uses(func, gather->operands[0]) == 1;
    int most = MAX_OPS;
    if (alone) {
        most = MAX_OPS_ALONE;
    } else if (single_read) {
        most = MAX_OPS_ONCE;
    }
    const Asked asked = {func, gather->results[0]->type, alone ? memo_open((Func *)func) : NULL};
    Value *indices[MAX_RANK];
    for (int i = 1; i < gather->n_operands; i++) {
        indices[i - 1] = gather->operands[i];
    }
    bool cheap = weigh(&asked, gather->operands[0], indices, most) <= most;
    if (alone) {
        memo_close(asked.seen);
    }
    return cheap;
}

bool fuse_is_cheap_at(const Func *func, const Value *value, Value *const *indices, Type shape)
{
    const Asked asked = {func, shape, NULL};
    return weigh(&asked, value, indices, MAX_OPS_ONCE) <= MAX_OPS_ONCE;
}

/* ---- computing it there ---- */

/* What is read straight from memory is guarded there: an array of the tensor's own extents, not a
 * tile of it. */
static bool is_plain_read(const Op *gather)
{
    const Op *load = gather->operands[0]->def;
    return load && load->kind == OP_LOAD && load->parent && op_accesses_whole(load);
}

static void compute_there(Func *func, Op *gather)
{
    Value *indices[MAX_RANK];
    ValueAt p = fuse_value_at_begin(build_before(func, gather), gather->results[0]->type,
                                    fuse_strays(func, gather));
    for (int i = 1; i < gather->n_operands; i++) {
        indices[i - 1] = gather->operands[i];
    }
    Value *value = fuse_value_at(&p, gather->operands[0], indices);
    if (is_plain_read(gather) && value->def->kind == OP_GATHER) {
        value->def->n_attrs = gather->n_attrs;
        value->def->attrs = gather->attrs;
    } else {
        Value *holds = fuse_inside(&p, gather);
        value = holds ? build_select(&p.at, holds, value, fuse_outside_value(&p, gather)) : value;
    }
    value->name = gather->results[0]->name;
    func_replace_uses(func, gather->results[0], value);
    op_remove(gather);
}

/* ---- all of them ---- */

static bool is_of_array(const Op *op)
{
    return op->kind == OP_GATHER && op->operands[0]->type->kind == TYPE_ARRAY;
}

static bool may_be_stored(const Func *func, const Op *gather)
{
    const Value *of = gather->operands[0];
    return of->def && fuse_may_materialize(func, of->def->parent, of);
}

static void place_gather(Op *op, void *user)
{
    Func *func = user;
    if (!is_of_array(op)) {
        return;
    }
    if (fuse_is_cheap_gather(func, op)) {
        compute_there(func, op);
    } else if (may_be_stored(func, op)) {
        fuse_materialize(func, op->operands[0], FUSE_GATHERED);
        if (fuse_is_cheap_gather(func, op)) { /* it reads the intermediate now */
            compute_there(func, op);
        }
    }
}

void fuse_gathers(Func *func, Block *block)
{
    for (Op *op = block->first, *next; op; op = next) {
        next = op->next;
        narrow_moved(func, op);
    }
    block_walk(block, place_gather, func);
}
