/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which operand or result of a dot gets a launch of its own. The grid of a dot has tiles
 * along both m and n, so an operand is computed again for each tile of the other one. */
#include "passes/fuse/fuse_split.h"

#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/epilogue_folds.h"

enum {
    MAX_OPERAND_OPS = 6, /* element-wise ops on what a product reads */
    MAX_LOOKS = 256,     /* ops that are examined until an operand counts as too long */
    MAX_BATCHES = 64,    /* that a block multiplies one after the other, and folds */
    TILE_ELEMENTS = 8192 /* of a product, at least */
};

static bool is_dot(const Op *op)
{
    return op->kind == OP_DOT;
}

/* `looks`: that are left, in a tree where only some of the ops count. */
static int weigh(const Splitter *s, const Value *value, int *looks)
{
    const Op *op = value->def;
    if (!op || op->parent != s->block || op->kind == OP_GATHER) {
        return 0;
    }
    if (--*looks < 0) {
        return MAX_OPERAND_OPS + 1;
    }
    bool counts = op->n_results && dtype_is_float(op->results[0]->type->dtype);
    int sum = op_has(op, TRAIT_ELEMENTWISE) && op->kind != OP_CAST && counts;
    for (int i = 0; i < op->n_operands && sum <= MAX_OPERAND_OPS; i++) {
        sum += op->operands[i] ? weigh(s, op->operands[i], looks) : 0;
    }
    return sum;
}

bool split_sums_products(const Op *op)
{
    while (op && op->kind == OP_REDUCE && text_equal(op_word(op, ATTR_FN), "sum")) {
        const Op *from = op->operands[0]->def;
        bool batch = op_int(op, ATTR_AXIS, 0) < op->operands[0]->type->rank - 2;
        op = batch ? from : NULL;
    }
    return op && op->kind == OP_DOT;
}

/* Is all that the program makes of the product made of this value, too? */
static bool represents(const Splitter *s, const Value *value, const Op *dot)
{
    const Value *own = fuse_original(s->group, value);
    const Value *product = fuse_original(s->group, dot->results[0]);
    if (!s->body || !own || !product) {
        return true;
    }
    Splitter all = *s;
    bool found = false;
    all.block = s->body;
    memo_clear(s->met);
    memo_visit(s->met, own);
    for (const Op *op = s->body->first; op && !found; op = op->next) {
        for (int i = 0; fuse_has_effect(op) && i < op->n_operands && !found; i++) {
            found = split_search_below(&all, op->operands[i], NULL, product->def) != NULL;
        }
    }
    return !found;
}

/* The product with the sums of its batches and the moves of axes that only it goes through: what
 * the program means by it. */
static const Value *product_root(const Splitter *s, const Op *dot)
{
    const Value *root = dot->results[0];
    for (;;) {
        const ValueUse *use = use_first(root, s->block);
        const Op *user = use && !use_next(use, s->block) ? use->op : NULL;
        bool moves = user && (user->kind == OP_EXPAND || user->kind == OP_SQUEEZE ||
                              user->kind == OP_PERMUTE);
        if (!user || user->parent != s->block || !(moves || split_sums_products(user))) {
            return root;
        }
        root = user->results[0];
    }
}

/* The class of the axis that the op reduces: many of its operands' elements become one along it. */
static uint64_t reduced_class(Splitter *s, const Op *op)
{
    const Value *from = op->operands[0];
    if (op->kind == OP_DOT) {
        return split_class(s, from, from->type->rank - 1);
    }
    return split_is_fold(op) ? split_class(s, from, (int)op_int(op, ATTR_AXIS, 0)) : 0;
}

/* Instructions on each element of the product's tile. */
static int epilogue_instructions(Splitter *s)
{
    const Value *product = s->dot->results[0];
    uint64_t rows = split_class(s, product, product->type->rank - 2);
    uint64_t both = rows | split_class(s, product, product->type->rank - 1);
    int n = 0;
    for (const Op *op = s->dot->next; op; op = op->next) {
        int own = an_epilogue_instructions(op);
        n += own && (split_classes_of(s, op->results[0]) & both) == both ? own : 0;
    }
    return n;
}

bool split_folds_in_epilogue(Splitter *s, const Op *op)
{
    const Op *dot = s->dot;
    bool fold = op->kind == OP_REDUCE || (op->kind == OP_FOLD && !split_is_scan(op));
    if (!fold || !dot || dot->parent != s->block || op->parent != s->block ||
        !split_find_below(s, op->operands[0], is_dot)) {
        return false;
    }
    int rank = dot->results[0]->type->rank;
    uint64_t class = reduced_class(s, op);
    for (int axis = rank - 2; axis < rank; axis++) {
        if (class && class == split_class(s, dot->results[0], axis)) {
            int64_t whole = an_whole_axis(s->func, dot, axis, s->n_dots);
            return whole > 0 && epilogue_instructions(s) <= an_most_epilogue_instructions(whole);
        }
    }
    return false;
}

/* Is the axis of the dot one of places in the pooling windows of an operand? */
static bool walks_windows(const Splitter *s, const Op *dot, int axis)
{
    for (int i = 0; i < 2; i++) {
        const Op *op = dot->operands[i]->def;
        int own = axis;
        for (; op && op_moves_axes(op) && own >= 0; op = op->operands[0]->def) {
            own = op_operand_axis(op, 0, own);
        }
        const Param *param = op && op->kind == OP_LOAD && op_accesses_whole(op)
                                 ? &s->func->params.items[op->operands[0]->index]
                                 : NULL;
        if (param && param->im2col && view_places(param) && own >= view_places(param) &&
            own < view_inner_places(param)) {
            return true;
        }
    }
    return false;
}

/* Does a loop of the block walk the axis that the op folds, a batch of the product? Each step
 * multiplies one batch, and folds its tile into the one that the loop carries. All batches as tiles
 * of the grid would be more blocks: places of windows are few compared to windows
 * (passes/tensor/split_windows.c), and of others enough tiles are left. */
bool split_folds_batches(Splitter *s, const Op *op)
{
    const Op *dot = s->dot;
    const Target *target = s->func->target;
    bool gpu = target && target->family != FAMILY_CPU;
    if (!gpu || op->kind != OP_REDUCE || !dot || s->n_dots > 1 || dot->parent != s->block ||
        op->parent != s->block || !split_find_below(s, op->operands[0], is_dot)) {
        return false;
    }
    uint64_t class = reduced_class(s, op);
    bool few = class && !(class & s->stored) && split_most(s, class) <= MAX_BATCHES;
    int64_t tiles = split_nominal(s, s->stored) / TILE_ELEMENTS;
    for (int axis = 0; few && axis < dot->results[0]->type->rank - 2; axis++) {
        if (class == split_class(s, dot->results[0], axis)) {
            return tiles >= target->machine->num_sms || walks_windows(s, dot, axis);
        }
    }
    return false;
}

/* A product and what folds its result share a grid only if a tile holds all that is folded. Else
 * what goes through memory is the last value that all which is made of the product is made of: if
 * |y| did, because a row's greatest is that of |y|, y itself would be multiplied once more. */
const Value *split_folded_product(Splitter *s, const Op *op)
{
    bool fold = split_is_fold(op) && !split_sums_products(op) && !split_folds_in_epilogue(s, op) &&
                !split_folds_batches(s, op);
    for (int i = 0; fold && i < op->n_operands; i++) {
        const Op *dot = split_find_below(s, op->operands[i], is_dot);
        const Value *value = op->operands[i];
        const Value *root = dot ? product_root(s, dot) : NULL;
        Type type = dot ? root->type : NULL;
        while (dot && value != root && value != dot->results[0] &&
               (value->type != type_with_dtype(s->func, type, value->type->dtype) ||
                !represents(s, value, dot))) {
            const Op *def_op = value->def;
            for (int k = 0; k < def_op->n_operands; k++) {
                memo_clear(s->met);
                if (split_search_below(s, def_op->operands[k], NULL, dot)) {
                    value = def_op->operands[k];
                    break;
                }
            }
        }
        if (dot) {
            return value;
        }
    }
    return NULL;
}

/* The grid of a product has tiles of each axis that is stored: no block has all that lies along
 * such an axis, but for short ones, for a fold, or for the product itself, whose operand may be
 * what is stored. */
const Value *split_contracted_axis(Splitter *s, const Op *op)
{
    bool reduces = s->dot && (split_is_fold(op) || op->kind == OP_DOT);
    reduces = reduces && !split_folds_in_epilogue(s, op);
    return reduces && (s->stored & reduced_class(s, op)) ? split_used_result(s, op) : NULL;
}

/* Is it made, element by element, of an intermediate in memory whose elements are wider? Its own
 * are to be there instead: fewer bytes, which the copy engine brings without registers. */
static bool narrows_intermediate(const Splitter *s, const Value *value, DType narrow, int *looks)
{
    const Op *op = value->def;
    if (!op || op->parent != s->block || --*looks < 0) {
        return false;
    }
    if (op->kind == OP_LOAD) {
        const Value *memory = op->operands[0];
        return memory->type->kind == TYPE_TENSOR &&
               dtype_bits(memory->type->dtype) > dtype_bits(narrow) &&
               s->func->params.items[memory->index].io == PARAM_SCRATCH;
    }
    bool found = false;
    for (int i = 0; op_has(op, TRAIT_ELEMENTWISE) && i < op->n_operands && !found; i++) {
        found = narrows_intermediate(s, op->operands[i], narrow, looks);
    }
    return found;
}

/* What a product reads is read once for each tile of the other operand. */
const Value *split_costly_operand(Splitter *s, const Op *op)
{
    for (int i = 0; op->kind == OP_DOT && i < 2; i++) {
        const Value *value = op->operands[i];
        while (value->def && value->def->parent == s->block && op_moves_axes(value->def)) {
            value = value->def->operands[0];
        }
        int looks = MAX_LOOKS, more = MAX_LOOKS;
        if (split_find_below(s, value, split_is_work) ||
            weigh(s, value, &looks) > MAX_OPERAND_OPS ||
            narrows_intermediate(s, value, value->type->dtype, &more)) {
            return value;
        }
    }
    return NULL;
}

/* Products of one launch share rows and columns. */
const Value *split_other_grid(Splitter *s, const Op *op)
{
    if (op->kind != OP_DOT || op == s->dot) {
        return NULL;
    }
    const Value *a = s->dot->results[0], *b = op->results[0];
    bool same = a->type->rank == b->type->rank;
    for (int i = 0; same && i < a->type->rank; i++) {
        same = axes_class(&s->axes, a, i) == axes_class(&s->axes, b, i);
    }
    return same ? NULL : b;
}
