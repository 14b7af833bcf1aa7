/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the matrix instruction for a dot of given element types and tile sizes. */
#include "passes/tile/tile_steps.h"

#include "ir/ir_errors.h"
#include "passes/analysis/dequant_scale.h"

#include <string.h>

/* A mask is a copy in registers, as it lies there. */
bool tile_along_k(const Func *func, const Op *dot, int side)
{
    const Op *load = dot->operands[side]->def;
    ScaledDot found;
    bool turned = false, masked = false, narrow = an_scaled_dot(func, dot, &found);
    while (load && load->kind != OP_LOAD) {
        const Attr *perm = load->kind == OP_PERMUTE ? op_attr(load, ATTR_PERM) : NULL;
        bool passes = perm || load->kind == OP_MASK || load->kind == OP_TF32;
        turned ^= perm && perm->ints[perm->n - 1] == perm->n - 2;
        masked = masked || load->kind == OP_MASK;
        if (passes) {
            load = load->operands[0]->def;
        } else if (narrow) {
            load = found.sides[side].narrow->def;
        } else {
            load = NULL;
        }
        narrow = passes && narrow;
    }
    return load && turned == (side == 1) && !(masked && side == 1);
}

static bool tiles_suit(const MatrixInstr *unit, const MmaTileShape *tiles)
{
    return tiles->rows % unit->m == 0 && tiles->columns % unit->n == 0 &&
           tiles->depth % unit->k == 0 &&
           (!unit->max_accumulate_k || tiles->depth <= unit->max_accumulate_k);
}

static bool operands_suit(const MatrixInstr *unit, const MmaTypes *of, const MmaTileShape *tiles)
{
    if (mma_upcasts_a(unit, of->left)) { /* from shared memory, where it lies as it is stored */
        return tiles->along_k[0] && tiles->stay_out;
    }
    bool left = tiles->along_k[0] || mma_can_read_a(unit);
    return (left && tiles->along_k[1]) || !unit->smem_k_major_only;
}

static bool suits(const MatrixInstr *unit, const MmaTypes *of, const MmaTileShape *tiles)
{
    return tiles_suit(unit, tiles) && operands_suit(unit, of, tiles) &&
           tiles->warps % mma_warps(unit) == 0;
}

static bool is_exact(const MatrixInstr *unit, const MmaTypes *of)
{
    return unit->operands == of->left || unit->operands == of->right;
}

/* "bf16", "f16 and i4" */
static const char *operand_names(const Func *func, const MmaTypes *of)
{
    return of->left == of->right ? dtype_name(of->left)
                                 : arena_printf(func->arena, "%s and %s", dtype_name(of->left),
                                                dtype_name(of->right));
}

typedef struct Choice {
    const MatrixInstr *unit; /* NULL: none */
    const MatrixInstr *nearest; /* the first one that operands, tiles or warps keep from it */
} Choice;

/* Of the target's units (of the given word, if any): one for these very operands before others. */
static Choice choose_row(const Func *func, const char *word, const MmaTypes *of, DType result,
                         const MmaTileShape *tiles)
{
    size_t n;
    const MatrixInstr *rows = mma_rows(&n);
    Choice choice = {NULL, NULL};
    for (size_t i = 0; i < n; i++) {
        const MatrixInstr *row = &rows[i];
        if (!mma_on(row, func->target) || !mma_takes(row, of->left, of->right, result) ||
            (word && !text_equal(word, row->family))) {
            continue;
        }
        bool better = !choice.unit || (!is_exact(choice.unit, of) && is_exact(row, of));
        if (!suits(row, of, tiles)) {
            choice.nearest = choice.nearest ? choice.nearest : row;
        } else if (better) {
            choice.unit = row;
        }
    }
    return choice;
}

static const char *why_not_unit(Func *func, const MmaTypes *of, const MatrixInstr *nearest,
                                const MmaTileShape *tiles)
{
    const char *operands = operand_names(func, of);
    if (!mma_first(func->target, NULL)) {
        return arena_printf(func->arena, "%s operands, but no matrix unit that is used here",
                            operands);
    }
    if (!nearest) {
        return arena_printf(func->arena, "%s operands: no matrix unit here multiplies them exactly",
                            operands);
    }
    if (!operands_suit(nearest, of, tiles)) {
        if (mma_upcasts_a(nearest, of->left)) {
            return arena_printf(func->arena,
                                "%s operands: warp-group MMA upcasts an operand only if k is "
                                "contiguous and TMA loads its rows",
                                operands);
        }
        return arena_printf(func->arena,
                            "%s operands: the matrix unit of warp groups wants k contiguous in "
                            "both (x @ w.T, or copies: repack_k_major)",
                            operands);
    }
    if (tiles_suit(nearest, tiles)) {
        return arena_printf(func->arena, "%s operands, but warps that make no group of %d",
                            operands, mma_warps(nearest));
    }
    return arena_printf(func->arena,
                        "%s operands, but tiles that the matrix unit does not take: it multiplies "
                        "%d rows by %d columns, %d deep",
                        operands, nearest->m, nearest->n, nearest->k);
}

static const char *why_unit(Func *func, const MatrixInstr *unit, const MmaTypes *of)
{
    if (unit->max_accumulate_k) {
        return arena_printf(func->arena,
                            "%s operands: the matrix unit multiplies them exactly, and adds a step "
                            "of k with 13 bits behind the point",
                            operand_names(func, of));
    }
    if (unit->operands == of->left && unit->operands == of->right) {
        return arena_printf(func->arena,
                            "%s operands: the matrix unit multiplies them exactly, in %s",
                            operand_names(func, of), dtype_name(unit->result));
    }
    return arena_printf(func->arena,
                        "%s operands: as %s, which represents each of them, the matrix unit "
                        "multiplies them exactly",
                        operand_names(func, of), dtype_name(unit->operands));
}

/* "f16 and bf16 in tiles of 64 rows, 16 columns and 16 deep" */
static void add_unit(Text *text, const Func *func, const char *word)
{
    size_t n;
    const MatrixInstr *rows = mma_rows(&n), *last = NULL;
    for (size_t i = 0; i < n; i++) {
        const MatrixInstr *row = &rows[i];
        if (!mma_on(row, func->target) || (word && !text_equal(word, row->family))) {
            continue;
        }
        bool same = last && last->m == row->m && last->n == row->n && last->k == row->k;
        if (last && !same) {
            text_printf(text, ": %d by %d, %d deep", last->m, last->n, last->k);
        }
        if (last) {
            text_add(text, same ? ", " : "; ");
        }
        text_add(text, dtype_name(row->operands));
        last = row;
    }
    if (last) {
        text_printf(text, ": %d by %d, %d deep", last->m, last->n, last->k);
    }
}

/* "`instruction wgmma`, `instruction mma` or `instruction fma`": those that take the types. */
static const char *instructions_for(const Func *func, const MmaTypes *of, DType result)
{
    size_t n;
    const MatrixInstr *rows = mma_rows(&n);
    Text list = text_new(func->arena);
    for (size_t i = 0; i < n; i++) {
        const char *word = arena_printf(func->arena, "`instruction %s`", rows[i].family);
        bool takes = mma_on(&rows[i], func->target) &&
                     mma_takes(&rows[i], of->left, of->right, result);
        if (takes && !strstr(list.data, word)) {
            text_printf(&list, "%s%s", list.n ? ", " : "", word);
        }
    }
    text_printf(&list, "%s`instruction fma`", list.n ? " or " : "");
    return list.data;
}

static void refuse_unit(Func *func, const char *word, const char *reason, const MmaTypes *of,
                        DType result)
{
    const ScheduleEntry *line = schedule_user_entry(func, "instruction", "");
    Text units = text_new(func->arena);
    bool any = mma_first(func->target, word) != NULL;
    Diag *d = diag_error(func->diags, ERR_INSTRUCTION, line ? line->span : SPAN_NONE,
                         "`instruction %s` is not possible: %s", word,
                         any ? reason : "the target has no such unit");
    add_unit(&units, func, any ? word : NULL);
    if (units.n == 0) {
        diag_help(func->diags, d, "%s has no matrix unit; `instruction fma` takes all",
                  func->target->name);
    } else if (!any) {
        diag_help(func->diags, d, "%s multiplies these operands by %s", func->target->name,
                  instructions_for(func, of, result));
    } else {
        diag_help(
            func->diags, d,
            "%s multiplies, in tiles of rows by columns or multiples: %s%s; `instruction fma` "
            "takes all",
            func->target->name, units.data,
            mma_warps(mma_first(func->target, word)) > 1 ? ", by groups of 4 warps" : "");
    }
}

/* The row, or NULL: fused multiply-adds. */
const MatrixInstr *tile_instruction(Func *func, const MmaTypes *of, DType result,
                                    const MmaTileShape *tiles)
{
    const ScheduleEntry *given = schedule_user_entry(func, "instruction", "");
    const char *word = given && given->symbol ? given->symbol : NULL;
    bool fma = word && text_equal(word, "fma");
    Choice choice = choose_row(func, word, of, result, tiles);
    if (choice.unit) {
        schedule_decide_symbol(func, "instruction", "", choice.unit->family, "%s",
                               why_unit(func, choice.unit, of));
        return choice.unit;
    }
    if (!fma) {
        const char *reason = why_not_unit(func, of, choice.nearest, tiles);
        schedule_decide_symbol(func, "instruction", "", "fma", "%s", reason);
        if (word && func->diags->errors == 0) {
            refuse_unit(func, word, reason, of, result);
        }
    }
    return NULL;
}

/* Warps that the user gives; else the launch's, which may have been tiled for another product. */
int64_t tile_known_warps(Func *func, const Op *dot)
{
    const ScheduleEntry *line = schedule_peek_entry(func, "warps", "");
    const Op *launch = dot ? op_enclosing(dot, OP_LAUNCH) : NULL;
    const Attr *warps = launch ? op_attr(launch, ATTR_WARPS) : NULL;
    if (line) {
        return line->number;
    }
    return warps && warps->n ? warps->ints[warps->n - 1] : 0;
}

/* As pass `sink_dequant_scale` leaves them, where it does. */
MmaTypes tile_operands(const Func *func, const Op *dot)
{
    ScaledDot found;
    if (an_rounded(dot)) {
        return (MmaTypes){DT_TF32, DT_TF32};
    }
    return an_scaled_dot(func, dot, &found)
               ? (MmaTypes){found.left, found.right}
               : (MmaTypes){dot->operands[0]->type->dtype, dot->operands[1]->type->dtype};
}

static MmaTileShape tile_shape(Func *func, const Op *dot)
{
    Type a = dot->operands[0]->type, c = dot->results[0]->type;
    const Dim *rows = c->dims + c->rank - 2, *depth = a->dims + a->rank - 1;
    return (MmaTileShape){poly_capacity(rows[0]),
                          poly_capacity(rows[1]),
                          poly_capacity(depth[0]),
                          tile_known_warps(func, dot),
                          {tile_along_k(func, dot, 0), tile_along_k(func, dot, 1)},
                          tile_operands_stay_out(func, dot)};
}

const MatrixInstr *dot_instruction(Func *func, const Op *dot)
{
    MmaTypes of = tile_operands(func, dot);
    MmaTileShape tiles = tile_shape(func, dot);
    return tile_instruction(func, &of, dot->results[0]->type->dtype, &tiles);
}

/* ---- whole axes, rounded up ---- */

enum {
    MAX_DEPTH_TIMES = 2,    /* zeros that are multiplied are at most as many as elements, */
    MAX_COLUMNS_HALVES = 3, /* and at most half as many columns: other instructions have few */
};

/* The extent, rounded up if it is that of a whole axis. */
static int64_t rounded(Dim dim, int64_t unit)
{
    int64_t extent;
    return poly_is_const(dim, &extent) ? round_up(extent, unit) : max_i64(0, poly_capacity(dim));
}

/* The tiles as the instruction would have them. False: of too many zeros. */
static bool round_tiles(const Op *dot, const MatrixInstr *row, MmaTileShape *tiles)
{
    Type a = dot->operands[0]->type, c = dot->results[0]->type;
    int64_t depth = rounded(a->dims[a->rank - 1], row->k);
    int64_t columns = rounded(c->dims[c->rank - 1], row->n);
    bool few = depth <= MAX_DEPTH_TIMES * tiles->depth &&
               2 * columns <= MAX_COLUMNS_HALVES * tiles->columns;
    tiles->depth = depth;
    tiles->columns = columns;
    return few;
}

/* A step that is not chosen yet will suit. */
static MmaTileShape known_shape(Func *func, const Op *dot)
{
    MmaTileShape tiles = tile_shape(func, dot);
    tiles.rows = max_i64(0, tiles.rows);
    tiles.columns = max_i64(0, tiles.columns);
    tiles.depth = max_i64(0, tiles.depth);
    return tiles;
}

const MatrixInstr *tile_rounded_instruction(Func *func, const Op *dot)
{
    const ScheduleEntry *given = schedule_user_entry(func, "instruction", "");
    const char *word = given && given->symbol ? given->symbol : NULL;
    DType result = dot->results[0]->type->dtype;
    MmaTypes of = tile_operands(func, dot);
    MmaTileShape shape = known_shape(func, dot);
    const MatrixInstr *as_is = choose_row(func, word, &of, result, &shape).unit, *found = NULL;
    size_t n;
    const MatrixInstr *rows = mma_rows(&n);
    int64_t least = 0;
    for (size_t i = 0; i < n; i++) {
        const MatrixInstr *row = &rows[i];
        MmaTileShape tiles = shape;
        if (!mma_on(row, func->target) || !mma_takes(row, of.left, of.right, result) ||
            (word && !text_equal(word, row->family)) || !round_tiles(dot, row, &tiles) ||
            !suits(row, &of, &tiles)) {
            continue;
        }
        int64_t elements = tiles.depth * tiles.columns;
        bool exact = is_exact(row, &of), was = found && is_exact(found, &of);
        bool same = found && was == exact && text_equal(found->family, row->family);
        if (!found || (exact && !was) || (same && elements < least)) {
            found = row;
            least = elements;
        }
    }
    bool gains = found && (!as_is || !text_equal(as_is->family, found->family) ||
                           (is_exact(found, &of) && !is_exact(as_is, &of)));
    return gains ? found : NULL;
}
