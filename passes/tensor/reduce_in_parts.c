/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which products reduce their places in parts. Where only reductions along the pixels of
 * each image read a convolution's result, as a global pooling does, the epilogue can reduce what a
 * tile holds of them (passes/fuse/fuse_epilogue_folds.c), and the result itself is not stored. The
 * same holds for the statistics of rows that no block holds. Tiles must then end with the pixels of
 * an image, so that images and pixels are not collapsed. */
#include "passes/tensor/collapse_intermediates.h"

#include "ir/build.h"
#include "ir/memo.h"
#include "ir/nominal_sizes.h"
#include "ir/op_axes.h"
#include "ir/target/target.h"
#include "passes/analysis/epilogue_folds.h"
#include "passes/tensor/reorder_axes.h"
#include "passes/tile/tile.h"
#include "support/int_math.h"

#include <math.h>

enum {
    MIN_ROWS = 64, /* of a tile, that a warp group multiplies */
    PART = 128,    /* places that a tile reduces, as most tiles have */
    ALIGNED = 4,   /* elements of 16 bytes */
};

static const double MOST_PADDED = 1.34;    /* times the rows, with those of full tiles */
static const double HALF_TILE_LOSS = 0.12; /* of a product's time, in tiles of half the columns */

/* What reductions make of a value along one of its axes. */
typedef struct RowFolds {
    const Block *block;
    Memo *seen;  /* values, by their axis; by REDUCED: what is made of reductions' results */
    int64_t row; /* elements of the longest row that is reduced together; 0: none is */
    bool only;   /* nothing else is made of the value */
    bool both;   /* something is made of it and of a reduction's result */
} RowFolds;
enum { REDUCED = -1 };

static bool is_visited(const RowFolds *f, const Value *value, int axis)
{
    int64_t known;
    return memo_known(f->seen, value, axis - REDUCED, &known);
}

/* Follows the value, whose axis `axis` it is, behind reductions of `row` elements; 0: other ops
 * than reductions were among them. */
static void find_row_folds(RowFolds *f, const Value *value, int axis, int64_t row)
{
    if (is_visited(f, value, axis)) {
        return;
    }
    memo_keep(f->seen, value, axis - REDUCED, 1);
    bool both = axis != REDUCED && is_visited(f, value, REDUCED);
    for (int i = 0; axis == REDUCED && i < value->type->rank; i++) {
        both = both || is_visited(f, value, i);
    }
    f->both = f->both || both;
    f->row = axis == REDUCED && row > f->row ? row : f->row;
    for (const ValueUse *use = use_first(value, f->block); use; use = use_next(use, f->block)) {
        const Op *op = use->op;
        int operand = (int)(use - op->uses), to = axis;
        int64_t more = 1;
        if (op->kind == OP_REDUCE && op->n_operands == 1) {
            int reduced = (int)op_int(op, ATTR_AXIS, 0);
            to = reduced == axis ? REDUCED : axis;
            more = poly_most(value->type->dims[reduced]);
        } else if (op_moves_axes(op)) {
            to = axis == REDUCED ? REDUCED : op_axis(op, operand, axis).result;
        } else if (axis == REDUCED) {
            more = 0; /* what is made of a reduction's result is no longer of its row */
        } else if (op->kind == OP_GATHER && operand == 0) { /* by groups of other axes, perhaps */
            Type type = op->results[0]->type;
            for (to = type->rank - 1; to >= 0 && type->dims[to] != value->type->dims[axis];) {
                to--;
            }
        }
        bool follows =
            op->n_results == 1 && (op->kind == OP_REDUCE || op_moves_axes(op) ||
                                   op->kind == OP_GATHER || op_has(op, TRAIT_ELEMENTWISE));
        bool lost = axis != REDUCED && (!follows || (op->kind == OP_GATHER && to < 0) ||
                                        (op_has(op, TRAIT_ELEMENTWISE) && row > 1));
        f->only = f->only && !lost;
        if (follows && !lost) {
            find_row_folds(f, op->results[0], to, mul_sat(row, more));
        }
    }
}

static RowFolds row_folds_of(Func *func, const Value *value, int axis)
{
    RowFolds folds = {.block = func->body, .seen = memo_open(func), .only = true};
    find_row_folds(&folds, value, axis, 1);
    memo_close(folds.seen);
    return folds;
}

/* The innermost of the axes of one factor, of which it has several, if reductions reduce it and
 * leave others, such as the pixels of each image; -1: there is none. */
static int reduced_innermost(Func *func, const Result *result, RowFolds *folds)
{
    for (Side side = SIDE_LEFT; side <= SIDE_RIGHT; side++) {
        int last = -1;
        bool leaves = false;
        for (int i = 0; i < result->value->type->rank; i++) {
            bool own = result->axes[i].side == side;
            last = own && (last < 0 || result->axes[i].place > result->axes[last].place) ? i : last;
        }
        for (int i = 0; i < result->value->type->rank && last >= 0; i++) {
            bool other = i != last && result->axes[i].side == side;
            leaves = leaves || (other && row_folds_of(func, result->value, i).row == 0);
        }
        *folds = leaves ? row_folds_of(func, result->value, last) : (RowFolds){0};
        if (folds->row > 0) {
            return last;
        }
    }
    return -1;
}

/* Makes the product's result with the axis as its columns, along which a thread holds neighbours,
 * if the axes of the other factor fill the rows of tiles. */
static void make_columns(Func *func, const Result *result, int axis)
{
    Value *value = result->value;
    int rank = value->type->rank, n = 0;
    int64_t order[MAX_RANK], back[MAX_RANK];
    double rows = 1;
    for (int i = 0; i < rank; i++) {
        bool other =
            result->axes[i].side != SIDE_BOTH && result->axes[i].side != result->axes[axis].side;
        rows *= other ? (double)poly_nominal(value->type->dims[i]) : 1;
        if (i != axis) {
            order[n++] = i;
        }
    }
    order[n] = axis;
    if (ceil(rows / MIN_ROWS) * MIN_ROWS > rows * MOST_PADDED) {
        return;
    }
    for (int i = 0; i < rank; i++) {
        back[order[i]] = i;
    }
    Builder b = build_after(func, value->def);
    b.span = value->def->span;
    Value *ordered = reorder_axes_to(&b, value, order, NULL);
    if (ordered != value) {
        Value *made = build_permute(&b, ordered, back);
        made->name = value->name;
        func_replace_uses(func, value, made);
        func_remove_dead(func);
    }
}

bool collapse_reduces_in_parts(Func *func, const Result *from, const ProductCost *cost)
{
    const Machine *machine = func->target ? func->target->machine : NULL;
    Type type = from->value->type;
    if (!machine || func->target->family == FAMILY_CPU || cost->depth == INT64_MAX ||
        cost->instructions > an_most_epilogue_instructions(PART)) {
        return false;
    }
    RowFolds folds;
    int axis = reduced_innermost(func, from, &folds);
    if (axis < 0 || folds.row <= PART || (!folds.only && folds.row <= tile_longest_row(func))) {
        return false;
    }
    double places = (double)poly_nominal(type->dims[axis]);
    double padded = ceil(places / PART) * PART;
    double rate = cost->narrow ? machine_flops16(machine) : machine_flops32(machine);
    /* Parts of factors of more than 16 bits have tiles of half the size (an_parts_of_axis). */
    double more = padded / places - 1 + (cost->narrow ? 0 : HALF_TILE_LOSS);
    double wasted = more * (2.0 * (double)cost->depth / rate +
                            2.0 * cost->instructions / machine_flops32(machine));
    double once = dtype_bytes(type->dtype) / (1e9 * machine->memory_gbs);
    bool pays = wasted < (folds.only ? 2 * once : once / 2);
    /* What is stored as well leaves in pairs of neighbours, whose rows must be aligned. */
    bool aligned = !folds.both || poly_divisor(type->dims[axis]) % ALIGNED == 0;
    if (pays && folds.only && aligned) {
        make_columns(func, from, axis);
    }
    return pays;
}
