/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a group of statements where it is decided what one launch cannot hold, or should
 * not. Sets of axes are sets of bits, one for each class of them. */
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
    uint16_t *folds; /* likewise: so many follow one another below it */
    uint16_t *nests; /* likewise: so many ops with folds in regions are one made of another */
    Memo *met;       /* by the search that is at work */
    int classes[64];
    int64_t most[64];
    int n_classes;
    uint64_t stored, folded; /* classes that are */
    uint64_t walked;         /* the class that blocks share out, for rows and for columns */
    bool apart;              /* there is such a class, but each has a walk of its own */
    bool takes_old;          /* the old elements of a scatter are used */
    const Op *dot;           /* the first product */
    int n_dots, n_scans;
} Splitter;

/* Classes that a value has, or has folded. */
uint64_t split_seen(const Splitter *s, const Value *value);
/* The class of a value's axis; none of an axis of one element. */
uint64_t split_class(Splitter *s, const Value *value, int axis);
/* Along the axes of these classes, at most. */
int64_t split_elements(const Splitter *s, uint64_t classes);
bool split_is_fold(const Op *op);
bool split_is_scan(const Op *op);
/* Is the op made of the other one? */
bool split_is_made_of(const Splitter *s, const Op *op, const Op *wanted);
/* What is read of an op: a fold may have results that nothing does. */
const Value *split_used_result(const Splitter *s, const Op *op);
/* What too few blocks would walk, and is better folded before, by all of them; NULL: nothing. */
const Value *split_under_occupied(Splitter *s, const Op *op);

#endif
