/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the layout pass: classes of values that share a layout, and the files that work on
 * them.
 *
 *   layout_classes.c            partitions values into classes that share a layout
 *   layout_solve.c              chooses the layout of each class: anchors, then propagation
 *   layout_anchors.c            the layouts that memory accesses and dots need
 *   layout_cheap.c              values that each use recomputes
 *   layout_transpose.c          layouts of tiles that threads transpose in their registers
 *   layout_scatter.c            the layout of tiles that are only scattered
 *   layout_legalize.c           converts, recomputes or moves values whose uses need another layout
 *   layout_coalesce.c           accesses that need another layout than their tile has
 *   layout_register_pressure.c  registers of live tiles, and the blocks that share a multiprocessor
 *   layout_wgmma_registers.c    registers of a single wgmma
 *   layout_skew.c               skew of the swizzle of FMA operands
 *   layout_shared_memory.c      shared memory for conversions; offsets, and the total size
 *   layout_alias_buffers.c      buffers that are used at different times share bytes */
#ifndef TESSERA_PASSES_LAYOUT_ASSIGN_LAYOUTS_H
#define TESSERA_PASSES_LAYOUT_ASSIGN_LAYOUTS_H

#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/layout/matrix_instr.h"
#include "ir/target/target.h"

/* Shared memory that a role uses for a moment at a time, so that further uses may share it. */
typedef struct LayoutScratch {
    Value *shared;
    const Block *owner; /* the role's region, or the launch's */
    int swizzle, skew;
} LayoutScratch;

/* An op that moves, reduces, loads or stores values of a class. */
typedef struct LayoutLink {
    uint32_t op; /* which of the pass's */
    struct LayoutLink *next;
} LayoutLink;

typedef struct LayoutLinks {
    LayoutLink **first, **last; /* by a class's root, in the order of the ops */
    uint64_t *pending;          /* a bit per op: the layout of an operand or result was decided */
    size_t n_words;
    Value **by_size; /* values that have a class, the largest first */
    size_t n_values, next;
} LayoutLinks;

typedef struct LayoutPass {
    Func *func;
    int lanes;                 /* of a warp */
    bool reduces;              /* some axis is reduced */
    bool folds;                /* or folded, or scanned, or something is summed at one place */
    uint32_t n_values;         /* as many as there were at the start */
    Value **values;            /* by id */
    uint32_t *parent;          /* union-find over ids */
    const Layout **layouts;    /* of the class, by its root's id; NULL: not decided */
    uint8_t *classed;          /* by id: 0 not asked yet, else whether it has a class */
    LayoutLinks *links;        /* which ops have to do with a class */
    struct {
        Op **items;
        size_t n, cap;
    } ops; /* all, in pre-order, at the start */
    struct {
        LayoutScratch *items;
        size_t n, cap;
    } scratches;
} LayoutPass;

/* An array that lives in registers and has axes. */
bool layout_spreads(const Value *value);
/* A value that is cheaper to compute again than to move: constants, indices, and arithmetic on
 * them. Cheap values belong to no class: each use makes its own. */
bool layout_is_cheap(const Value *value);
/* Static extents of an array type. */
void layout_extents(LayoutPass *pass, Type type, int64_t *extents);
/* Warps of the role, or block, that runs this block of code. */
int layout_warps(LayoutPass *pass, const Block *block);
/* Of a thread of the role that `op` is in. */
int64_t layout_role_registers(const Op *roles, const Op *op);
/* That a launch gives each thread, of this many warps on a multiprocessor. */
int64_t layout_launch_registers(const LayoutPass *pass, int64_t warps);
Block *layout_value_block(const Value *value);

/* ---- layout_classes.c ---- */
void layout_build_classes(LayoutPass *pass);
bool layout_has_class(const LayoutPass *pass, const Value *value);
/* The id of the value that stands for the class. */
uint32_t layout_class_root(LayoutPass *pass, const Value *value);
const LayoutLink *layout_class_links(LayoutPass *pass, const Value *value);
/* The first value that has a class; NULL: none has. */
Value *layout_first_classed(const LayoutPass *pass, int n, Value *const *values);
/* Does the op move axes, or reduce one? */
bool layout_is_shape_op(const Op *op);
int64_t layout_elements(LayoutPass *pass, const Value *value);

/* ---- layout_solve.c ---- */
const Layout *layout_intern(LayoutPass *pass, Layout layout);
void layout_solve(LayoutPass *pass);

/* ---- layout_anchors.c ---- */
/* What the unit of a dot or dot_async fixes for its result. */
Layout layout_of_product(LayoutPass *pass, const Op *op);
/* Does a loop add up products of columns with rows, as `copy none` leaves them? */
bool layout_sums_outer(const Op *op);
/* Then: the same layout as a product's, for the same reason. False: it is none. */
bool layout_of_outer(LayoutPass *pass, const Op *op, Layout *layout);
/* Coalesced: runs of `vector` elements, lanes along the last axis, warps over the rows. */
Layout layout_of_memory(LayoutPass *pass, Type type, int vector, int narrowest_bits, int warps);
/* The same of a tile of which some axes, a bit each, are reduced: warps take the others first.
 * `fast`: the axis along which runs and lanes lie. */
Layout layout_of_reduced(LayoutPass *pass, Type type, int vector, int narrowest_bits,
                         uint32_t reduced, int fast, int warps);
/* No more elements side by side in a thread than the user's line `vector`: lanes are side by side
 * instead. Where that changes no order of sums. */
int layout_capped(LayoutPass *pass, int vector);
/* The same, but a warp has elements in a row along the axis, where that leaves none idle: what is
 * folded in order crosses warps once then, not once a register. */
void layout_join_warps_last(LayoutPass *pass, Type type, int axis, Layout *layout);
/* Lanes hold neighbours, registers what follows, warps what follows these: the digits that are
 * ranked. */
Layout layout_in_order(LayoutPass *pass, Type type, int warps);
/* What the unit wants of a left operand in registers. False: it wants none there. */
bool layout_of_left(LayoutPass *pass, const Op *dot, Layout *layout);

/* ---- layout_scatter.c ---- */
/* The layout of what a scatter writes whose neighbours in memory do not lie along the last axis of
 * its tile. False: they do, or nothing is known of the places. */
bool layout_of_scatter(LayoutPass *pass, const Op *scatter, int warps, Layout *layout);

/* ---- layout_transpose.c ---- */
/* The layouts of a tile that is loaded along one axis and stored along another: of the load's
 * result, and of what the permute, which is returned, makes of it. NULL: it is no such tile. */
Op *layout_of_transposed(LayoutPass *pass, const Op *load, Layout *loaded, Layout *stored);

/* ---- layout_coalesce.c ---- */
/* The layout whose accesses are coalesced, where `has` wastes most of what it moves and another
 * does not. NULL: it is good enough. */
const Layout *layout_coalesced_instead(LayoutPass *pass, const Op *op, Type type,
                                       const Layout *has);

/* ---- layout_legalize.c ---- */
void layout_legalize(LayoutPass *pass);

/* ---- layout_shared_memory.c ---- */
/* Scratch of this array's shape, slot axis first, in the launch around `at`, swizzled so that
 * storing `value` and loading it as `to` meet the fewest bank conflicts. Momentary uses in one
 * role share it; `kept`: its contents are wanted for longer, so it is not shared. */
Value *layout_scratch(LayoutPass *pass, const Op *at, const Value *value, const Layout *to,
                      bool kept);
/* Scratch of a reduction that crosses warps: [warps along the axis, elements of the result]. */
Value *layout_reduce_scratch(LayoutPass *pass, const Op *reduce);
/* Memory of a reduction over a cluster, its own: other blocks write to it. [blocks, elements], or
 * [slots, blocks, elements] of several tiles in a row. */
Value *layout_cluster_scratch(LayoutPass *pass, const Op *reduce, int64_t slots);
/* The same where each block gets a part: [blocks, elements of a part]. */
Value *layout_scatter_scratch(LayoutPass *pass, const Op *scatter);
/* Scratch of a scan or fold that crosses warps: [parts of the axis that a warp holds, bytes]. */
Value *layout_fold_scratch(LayoutPass *pass, const Op *fold);
/* Scratch of a histogram, rank or tile_scatter (codegen/gpu/gpu_rank.c). */
Value *layout_rank_scratch(LayoutPass *pass, const Op *op);
/* Gives every shared and barrier allocation its offset. Reports what cannot fit. */
void layout_place_shared(LayoutPass *pass);
/* Notes for passes/retry_smaller_tiles.c that the tiles of this launch must become smaller, and
 * whether they are those of a dot, which it returns. */
bool layout_request_retry(Func *func, const Op *launch);

/* ---- layout_skew.c ---- */
/* Where lanes read rows that are some apart: shifts them for the fewest conflicts of banks. */
void layout_skew(LayoutPass *pass);

/* ---- layout_register_pressure.c ---- */
/* Reports what products hold beyond the registers of a thread. */
void layout_check_registers(LayoutPass *pass);
/* Fewer blocks a multiprocessor where its registers would not hold what their threads do. */
void layout_limit_occupancy(LayoutPass *pass);

/* ---- layout_wgmma_registers.c ---- */
/* Reports instructions of warp groups that take more registers than their launch begins with. */
void layout_check_groups(LayoutPass *pass);

/* ---- layout_alias_buffers.c ---- */

/* Buffers of one type that hold what is needed at different times of a step become one. */
void layout_alias_buffers(LayoutPass *pass, Op *launch);

#endif
