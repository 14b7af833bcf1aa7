/* SPDX-License-Identifier: Apache-2.0 */
/* The rules by which a value gets a launch of its own, in parts: fuse_split.c (the order of the
 * rules, and what fuse asks), fuse_split_facts.c (what is known of a group), fuse_split_products.c
 * (rules of products), fuse_split_folds.c (rules of folds and scans), fuse_under_occupied.c (folds
 * of few blocks). Sets of axes are sets of bits, one for each class of axes. Private to fuse. */
#ifndef TESSERA_PASSES_FUSE_FUSE_SPLIT_H
#define TESSERA_PASSES_FUSE_FUSE_SPLIT_H

#include "ir/memo.h"
#include "passes/fuse/fuse.h"

typedef struct Splitter {
    Func *func;
    const FusionGroup *group;
    const Block *block;
    const Block *body; /* of the whole program; NULL: what is found is not asked for */
    Axes axes;
    uint32_t first;  /* number of a value of the group */
    uint64_t *seen;  /* by number from `first`: classes that the value has, or has folded */
    uint16_t *folds; /* likewise: this many follow one another below it */
    uint16_t *nests; /* likewise: this many ops with folds in regions are one made of another */
    Memo *met;       /* by the search that is at work */
    struct {
        int part, whole;
        int64_t by;
    } parts[16]; /* classes: an axis of parts stands for the axis whose parts they are */
    int n_parts;
    int classes[64];
    int64_t most[64], nominal[64]; /* elements of each: by the facts, and for prices */
    int n_classes;
    uint64_t stored, folded; /* classes that are */
    uint64_t walked;         /* the class that blocks share out, for rows and for columns */
    bool separate_sweeps;    /* there is such a class, but each needs its own sweep */
    bool takes_old;          /* the old elements of a scatter are used */
    int folds_alike;         /* of split_under_occupied: 1, or -1: no; 0: not asked yet */
    const Op *dot;           /* the first product */
    int n_dots, n_scans;
} Splitter;

/* ---- fuse_split_facts.c ---- */
/* Looks at the group; ended by split_end. */
Splitter split_begin(Func *func, const FusionGroup *group);
void split_end(Splitter *s);
/* Is an axis taken in parts of different lengths, or in parts and folded, too? */
bool split_parts_conflict(Splitter *s);
/* The number of the axis' class, as axes_class has it, but for parts that of the whole axis. */
int split_axes_class(const Splitter *s, const Value *value, int axis);
/* The class of a value's axis; none of an axis of one element. */
uint64_t split_class(Splitter *s, const Value *value, int axis);
/* The classes of all of a value's axes. */
uint64_t split_classes_of(Splitter *s, const Value *value);
/* Classes that a value has, or has folded. */
uint64_t split_seen(const Splitter *s, const Value *value);
/* Elements along the axes of these classes: at most, by the facts; for prices. */
int64_t split_most(const Splitter *s, uint64_t classes);
int64_t split_nominal(const Splitter *s, uint64_t classes);
bool split_is_fold(const Op *op);
bool split_is_scan(const Op *op);
/* True of folds, products, and ops with regions that have no effect. */
bool split_is_work(const Op *op);
/* The first result of an op that is read: a fold may have results that nothing reads. */
const Value *split_used_result(const Splitter *s, const Op *op);
/* Is it the sum of products, one a batch, which continue in one accumulator? */
bool split_sums_products(const Op *op);
/* Does a tile of the product hold all that the op folds of its result? Then the block folds it
 * before it stores anything, if that is not too much code. */
bool split_folds_in_epilogue(Splitter *s, const Op *op);
/* Does a loop walk the product's batches that the op folds? */
bool split_folds_batches(Splitter *s, const Op *op);
/* How many folds follow one another below the value, but for those sums of products. */
int split_folds_of(const Splitter *s, const Value *value);
typedef bool OpPredicate(const Op *op);
/* An op of the group at or below `value` for which `matches` holds, or `wanted` itself if that is
 * not NULL. Skips what `met` has seen, so that a value with many readers is looked at once. */
const Op *split_search_below(const Splitter *s, const Value *value, OpPredicate *matches,
                             const Op *wanted);
/* The same, where `met` is cleared first. */
const Op *split_find_below(const Splitter *s, const Value *value, OpPredicate *matches);
/* True if `op` is computed from the other one. */
bool split_is_made_of(const Splitter *s, const Op *op, const Op *wanted);
/* True if `op` reduces by the function of the reduction `below` (which may be NULL). */
bool split_continues(const Op *op, const Op *below);
/* True if all that reads the result of a reduction continues with it along one more axis: the two
 * are one reduction over several axes. */
bool split_is_continued(const Splitter *s, const Op *op, const Value *result);
/* What the regions of an op do. */
typedef struct SplitRegions {
    const Splitter *s;
    bool folds;
    const Value *deepest; /* that they read of the group; NULL: nothing that is made of such ops */
} SplitRegions;
SplitRegions split_look_inside(const Splitter *s, const Op *op);

/* ---- rules: each returns the value whose launch must come before, or NULL ---- */
typedef const Value *SplitRule(Splitter *s, const Op *op);

/* fuse_split_products.c */
SplitRule split_folded_product;
SplitRule split_contracted_axis;
SplitRule split_costly_operand;
SplitRule split_other_grid;

/* fuse_split_folds.c */
SplitRule split_repeated;
SplitRule split_before_scatter;
SplitRule split_both_ways;
SplitRule split_scanned_across;
SplitRule split_scan_of_rows;
SplitRule split_long_chain;
SplitRule split_row_inside;
SplitRule split_windows_across;
SplitRule split_fold_across;
SplitRule split_nested_fold;

/* fuse_under_occupied.c */
SplitRule split_under_occupied;

#endif
