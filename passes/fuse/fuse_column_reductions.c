/* SPDX-License-Identifier: Apache-2.0 */
/* Decides whether column reductions share a launch with work on rows. In one launch, each block
 * iterates over a part of the rows and keeps a row and the partial results of the columns in
 * registers, so the rows are read once. */
#include "passes/fuse/fuse.h"

#include "ir/nominal_sizes.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "support/int_math.h"

enum {
    RESERVED_WORDS = 1, /* registers of an element of a row, in addition to what is loaded and
                           folded */
    SHARING = 2,        /* blocks of a multiprocessor: one loads while the other works */
    FOLDED_CPU = 32768, /* elements of a row, and of its columns: in the second-level cache */
    LONGEST = 1 << 20,  /* elements of a row that may have any length */
};

/* Elements along the axes that are both stored and folded, but for the walked one. */
static int64_t row_elements(const Axes *axes, const Block *block, const RowColumnSweep *walk)
{
    int64_t elements = 1, n = 0;
    int seen[64];
    for (const Op *op = block->first; op; op = op->next) {
        const Value *written = axes_written(op);
        for (int i = 0; written && i < written->type->rank; i++) {
            int class = axes_class(axes, written, i);
            bool row = class >= 0 && class != walk->class && n < 64 &&
                       (axes_flags(axes, class) & AXIS_REDUCED);
            for (int k = 0; k < n && row; k++) {
                row = seen[k] != class;
            }
            if (row) {
                int64_t most = poly_most(written->type->dims[i]);
                seen[n++] = class;
                bool fits = elements < LONGEST && most < LONGEST;
                elements = fits ? min_i64(LONGEST, elements * max_i64(1, most)) : LONGEST;
            }
        }
    }
    return elements;
}

/* The maximum number of elements of a row that a block should keep in registers. */
static int64_t max_row_elements(const Target *target, const RowColumnSweep *walk)
{
    int words = walk->folds + walk->loads + RESERVED_WORDS;
    return target->family == FAMILY_CPU ? FOLDED_CPU : target->registers / SHARING / words;
}

static const char *reason(bool fused, bool short_sweep)
{
    if (fused) {
        return "a block keeps a row and the partial results of its columns, so rows are read once";
    }
    if (short_sweep) {
        return "the swept axis is too short to be divided among blocks";
    }
    return "a row and the partial results of its columns may exceed the registers of a block";
}

/* True if the column reductions stay in the launch of the rows. Records the decision if they do
 * not, or if `always_records`. Without a row (one element) there is nothing to decide, and no entry
 * is recorded. */
static bool keeps_fused(Func *func, const Axes *axes, const Block *block,
                        const RowColumnSweep *walk, bool always_records)
{
    int64_t elements = row_elements(axes, block, walk), most = poly_nominal(walk->dim);
    int64_t fits = func->target ? max_row_elements(func->target, walk) : 0;
    bool short_sweep = most <= LONG_WALK / (elements < LONG_WALK ? elements : LONG_WALK);
    if (elements == 1) {
        return true;
    }
    bool fused = elements <= fits && !short_sweep;
    const ScheduleEntry *given = schedule_user_entry(func, "column_reductions", "");
    if (given || (fused && !always_records)) {
        return given ? text_equal(given->symbol, "fused") : fused;
    }
    schedule_decide_symbol(func, "column_reductions", "", fused ? "fused" : "separate", "%s",
                           reason(fused, short_sweep));
    return fused;
}

bool fuse_keeps_column_reductions(Func *func, const Axes *axes, const Block *block,
                                  const RowColumnSweep *walk)
{
    return keeps_fused(func, axes, block, walk, false);
}

void fuse_note_columns(Op *op, void *user)
{
    Func *func = user;
    if (op->kind != OP_PARALLEL || op_attr(op, ATTR_DIMS)->n > 0 || fuse_is_serial(op)) {
        return;
    }
    Axes axes = an_axes(func, op->regions[0]);
    RowColumnSweep walk = an_row_column_sweep(&axes, op->regions[0]);
    if (walk.class >= 0) {
        keeps_fused(func, &axes, op->regions[0], &walk, true);
    }
    axes_done(&axes);
}
