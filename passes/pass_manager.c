/* SPDX-License-Identifier: Apache-2.0 */
/* The table of passes, their ordering constraints with what breaks without each, and the loop that
 * runs the passes. */
#include "passes/pass.h"

#include "ir/build.h"
#include "ir/verify/verify.h"
#include "passes/analysis/axis_classes.h"
#include "support/clock.h"

static const Pass ROWS[] = {
#define PASS(id, name, required, doc) {name, pass_##id, required, doc},
#include "passes/passes.def"
#undef PASS
};

enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

/* Pass `before` must run before pass `after`; `reason` says what would break otherwise. */
typedef struct PassConstraint {
    const char *before, *after, *reason;
} PassConstraint;

static const PassConstraint CONSTRAINTS[] = {
    {"canonicalize_strides", "repack_pitched",
     "repack_pitched takes an operand whose last axis is not the contiguous one for one with "
     "unaligned rows; a transposed matrix would be copied by a launch of its own"},
    {"canonicalize_strides", "lower_sort",
     "lower_sort reads and writes rows along the last axis; if that axis is not contiguous, "
     "each digit pass accesses memory with a stride"},
    {"unroll_loops", "simplify",
     "simplify folds what is computed from the number of a step and finds what steps have in "
     "common; the copies of a body would keep both"},
    {"simplify", "lower_sort",
     "two equal sorts would be lowered to two sequences of radix-sort launches, which nothing "
     "merges afterwards"},
    {"simplify", "sort_terms",
     "sort_terms reads a condition from the ops that compute it; two sums with equal rows would "
     "sort them twice"},
    {"sort_terms", "lower_sort", "the sort of the rows would stay, and fuse cannot tile it"},
    {"lower_sort", "fuse",
     "a sort cannot be tiled: fuse would find no statements for the launches of its digit "
     "passes"},
    {"simplify", "fuse", "a common subexpression would be computed in two launches"},
    {"simplify", "gather_to_load",
     "gather_to_load recognizes an index by the ops that compute it; unfolded constants and "
     "identities would hide that it iterates over a whole axis"},
    {"simplify", "compose_views",
     "compose_views compares the indices that are checked with those of the input; a constant or "
     "an identity between them would hide that they are the same"},
    {"split_phases", "compose_views",
     "the phases of a transposed convolution are gathered from one result; groups that are merged "
     "behind them would be a second gather, and a launch of its own"},
    {"compose_views", "gather_to_load",
     "a reshape that adds an axis of one element is a gather of whole axes, and the window that "
     "reads it a gather of an array; it would stay one"},
    {"simplify", "shift_variance",
     "the row whose mean is subtracted and the one that is summed are recognized as one value; "
     "before simplify they are computed twice"},
    {"collapse_axes", "shift_variance",
     "the sample of a row takes a part of one of its axes, which could then not be collapsed with "
     "the others"},
    {"compose_views", "im2col_view",
     "im2col_view takes gathers from tensors; a window of a reshaped input would be loaded by "
     "single elements"},
    {"simplify", "split_phases",
     "split_phases reads conditions and strides from the ops that compute them; with unfolded "
     "constants a congruence would not be recognized"},
    {"simplify", "distribute_sums",
     "distribute_sums reads the products of a term from the ops that add them; an identity between "
     "them would hide a product"},
    {"distribute_sums", "group_factors",
     "group_factors looks for a product that is summed; a term of several products is none"},
    {"group_factors", "split_axes",
     "split_axes leaves products alone, which it finds by their two factors; with scales of blocks "
     "behind them it would split the columns, and each block would be a product of its own"},
    {"simplify", "split_axes",
     "split_axes reads groups from the ops that compute indices; with unfolded constants a "
     "quotient would not be recognized"},
    {"split_axes", "gather_to_load",
     "split_axes makes gathers of whole axes of aliases; made later, they would stay gathers"},
    {"split_axes", "fuse",
     "a result and what its groups come to have different axes; fuse would make two launches of "
     "them, which read the input twice"},
    {"split_phases", "solve_congruences",
     "a sum of products whose taps are computed from the place is no convolution; split_phases "
     "would find none"},
    {"simplify", "solve_congruences",
     "solve_congruences reads conditions and strides from the ops that compute them; with unfolded "
     "constants a congruence would not be recognized"},
    {"solve_congruences", "gather_to_load",
     "solve_congruences makes gathers, some of which iterate over whole axes; made later, they "
     "would stay gathers"},
    {"split_phases", "gather_to_load",
     "split_phases makes gathers, some of which iterate over whole axes; made later, they would "
     "stay gathers"},
    {"split_phases", "im2col_view",
     "the input of a transposed convolution has windows only once its phases are split; "
     "im2col_view would find none"},
    {"split_phases", "reflect_taps",
     "the taps of a phase already count forwards; reflected before, a congruence would be one of "
     "a tap that counts backwards, which is split as well but computes its phases by an inverse"},
    {"reflect_taps", "im2col_view",
     "TMA's im2col mode walks windows forwards; windows that count backwards would stay gathers"},
    {"gather_to_load", "group_rows",
     "group_rows finds rows by plain loads; gathered by whole axes, they would be copied before "
     "they are multiplied"},
    {"group_rows", "collapse_axes",
     "collapse_axes may join the axis of the rows with another one, of which no run is known"},
    {"gather_to_load", "im2col_view",
     "im2col_view would also match a gather of whole axes, as a convolution without taps; the "
     "view has no memory, and only TMA's im2col mode can load it"},
    {"im2col_view", "collapse_axes",
     "the output positions of a convolution are axes of a tensor only in the view; without it "
     "there are no row axes to collapse"},
    {"im2col_view", "raise_to_dot",
     "the operand of the dot would stay a gather of single elements, which TMA cannot load"},
    {"im2col_view", "split_windows",
     "split_windows splits positions of views; without them it would leave all pooling to a launch "
     "that reads the whole result of the convolution"},
    {"split_windows", "collapse_axes",
     "windows split positions along each spatial axis; collapsed, they are none of a view"},
    {"split_windows", "invert_gathers",
     "invert_gathers would store what follows from a window's place, and no place be left"},
    {"gather_to_load", "collapse_axes",
     "collapse_axes reads from plain loads along which axes a factor varies; a gather may vary "
     "along all, so no axes would be collapsed"},
    {"canonicalize_strides", "collapse_axes",
     "only axes that are adjacent in memory become one; in the old axis order they would not "
     "be found next to each other"},
    {"split_phases", "mask_factors",
     "split_phases reads the conditions of a whole sum; moved onto a factor, a congruence would be "
     "a mask of it"},
    {"mask_factors", "raise_to_dot",
     "a condition behind a product hides it from raise_to_dot; threads would compute a triangular "
     "product term by term"},
    {"collapse_axes", "raise_to_dot",
     "collapse_axes needs all factors to list their axes in the same order; a dot has its "
     "batch axes first, after which row axes may no longer be adjacent, and short row axes that "
     "are still separate leave its tiles partly empty"},
    {"invert_gathers", "collapse_intermediates",
     "a product whose result a gather reads goes through memory for collapse_intermediates; "
     "nothing would be left to invert"},
    {"collapse_axes", "collapse_intermediates",
     "collapse_axes collapses axes of all that is made of a product; a result that is stored for "
     "itself before would end there, and so would the axes"},
    {"collapse_intermediates", "raise_to_dot",
     "collapse_intermediates looks for sums of products and, as collapse_axes does, for row axes "
     "that are adjacent"},
    {"gather_to_load", "raise_to_dot",
     "raise_to_dot reads from plain loads along which axes a factor varies; a gather may vary "
     "along all, so the sum would not become a dot"},
    {"raise_to_dot", "split_batches",
     "split_batches looks for dots; sums of products would stay behind the reshape"},
    {"split_batches", "cascade_reductions",
     "cascade_reductions finds no product behind a reshape, and no array of all scores may stay"},
    {"raise_to_dot", "cascade_reductions",
     "cascade_reductions computes the dot of a maximum's terms tile by tile; as a sum of products "
     "it is a reduction of another axis, and stays in memory"},
    {"cascade_reductions", "sum_thin_dots",
     "cascade_reductions computes the scores of one query tile by tile, as it does those of many; "
     "it finds them by their dot"},
    {"sum_thin_dots", "repack_pitched",
     "repack_pitched would copy a column, whose rows have one element, so that they are aligned"},
    {"sum_thin_dots", "swap_ab",
     "swap_ab would transpose a product of one column, for tiles whose columns do not exist"},
    {"sum_thin_dots", "fuse",
     "a thin dot would have a grid and tiles of its own, most of which are empty"},
    {"cascade_reductions", "expand_functions",
     "cascade_reductions recognizes an exponential by its name; expanded, it is shifts and "
     "polynomials"},
    {"cascade_reductions", "swap_ab",
     "swap_ab transposes dots by the tiles that they would have in a launch of their own"},
    {"cascade_reductions", "repack_pitched",
     "the copies of operands that repack_pitched makes would be computed for dots that the nest "
     "replaces"},
    {"raise_to_dot", "expand_functions",
     "expand_functions recognizes the function of a sum by the dot; without it every function "
     "would be exact"},
    {"expand_functions", "fuse",
     "where fuse sends a dot result through memory, the second launch loads it; "
     "expand_functions would no longer see that it is a sum, and take the exact function"},
    {"simplify", "expand_functions",
     "a named function is one op, which simplify merges with its equals; their many ops would all "
     "be made first"},
    {"raise_to_dot", "fuse",
     "a dot gets its own grid; as multiplications and a sum it would be grouped with "
     "element-wise statements, whose tiles fit no matrix instruction"},
    {"raise_to_dot", "repack_pitched",
     "repack_pitched looks for operands of dots; without dots it would copy nothing"},
    {"raise_to_dot", "narrow_operands",
     "narrow_operands looks for operands of dots; differences of integers would stay f32, which no "
     "matrix instruction multiplies exactly"},
    {"narrow_operands", "swap_ab",
     "swap_ab asks which matrix instruction multiplies the operands; of f32 ones there is none"},
    {"narrow_operands", "repack_upcast",
     "repack_upcast copies a narrow operand if the other one has 16 bits, which it does not have "
     "yet"},
    {"narrow_operands", "repack_mn_major",
     "repack_mn_major copies operands of f32 dots that are not multiplied as narrower ones"},
    {"narrow_operands", "tile",
     "tile chooses the instruction and the step of k, by the operands' types and the scales"},
    {"narrow_operands", "factor_scales",
     "factor_scales takes factors of operands that a matrix instruction multiplies; differences of "
     "integers are f32 before"},
    {"factor_scales", "swap_ab",
     "swap_ab asks which matrix instruction multiplies the operands without their scale"},
    {"factor_scales", "fuse",
     "the scale belongs to the epilogue of the launch, which fuse makes"},
    {"narrow_operands", "repack_scales",
     "repack_scales looks for factors of operands that a matrix instruction multiplies; "
     "differences of integers are f32 before"},
    {"factor_scales", "repack_scales",
     "a scale of whole columns would be found as one of groups where the other operand has groups"},
    {"raise_to_dot", "gather_places",
     "gather_places leaves alone what is made of no product"},
    {"gather_places", "fuse",
     "fuse stores each piece of a select of gathers where its array is computed"},
    {"repack_scales", "fuse",
     "the launch that stores the scales is a statement for which fuse makes a launch; added later "
     "it would belong to no launch"},
    {"raise_to_dot", "repack_computed",
     "repack_computed looks for operands of dots; without dots it would compute none of them"},
    {"expand_functions", "repack_computed",
     "repack_computed counts the instructions of an element; a named function would be one"},
    {"narrow_operands", "repack_computed",
     "repack_computed stores what the matrix instruction multiplies; it would store f32 elements "
     "with their scale"},
    {"repack_computed", "swap_ab",
     "swap_ab asks whether TMA can load the operands; computed ones it refuses"},
    {"repack_computed", "fuse",
     "the launch that computes the operand is a statement for which fuse makes a launch; added "
     "later it would belong to no launch"},
    {"repack_pitched", "fuse",
     "the copy is a statement for which fuse makes a launch; added later it would belong to no "
     "launch"},
    {"repack_pitched", "swap_ab",
     "swap_ab asks whether TMA can load the tensors that the dot reads; it would judge the "
     "tensors that the copies replace"},
    {"raise_to_dot", "repack_k_major",
     "repack_k_major looks for operands of dots; without dots it would copy nothing"},
    {"swap_ab", "repack_k_major",
     "swap_ab transposes and exchanges the operands; a copy made before would have the wrong "
     "axis contiguous"},
    {"repack_k_major", "fuse",
     "the copy is a statement for which fuse makes a launch; added later it would belong to no "
     "launch"},
    {"raise_to_dot", "repack_mn_major",
     "repack_mn_major looks for operands of dots; without dots it would copy nothing"},
    {"swap_ab", "repack_mn_major",
     "swap_ab transposes and exchanges the operands; a copy made before would have the wrong "
     "axis contiguous"},
    {"repack_mn_major", "fuse",
     "the copy is a statement for which fuse makes a launch; added later it would belong to no "
     "launch"},
    {"raise_to_dot", "repack_upcast",
     "repack_upcast looks for operands of dots; without dots it would copy nothing"},
    {"repack_upcast", "fuse",
     "the copy is a statement for which fuse makes a launch; added later it would belong to no "
     "launch"},
    {"swap_ab", "fuse",
     "a transposed dot stores other axes; its fusion group would keep the grid of the original "
     "dot"},
    {"raise_to_dot", "unroll_places",
     "a product of few terms would be threads' multiply-adds instead of a matrix unit's"},
    {"expand_functions", "unroll_places",
     "simplify merges equal named functions of the places; their many ops would all be compared"},
    {"unroll_places", "fuse",
     "fuse would store what all places of an axis need for each pair"},
    {"lower_argmax", "fuse",
     "the two reductions of a row would be added after the launches are formed and would read "
     "the row again"},
    {"fuse", "tile",
     "tile chooses one grid and one set of tiles per fusion group; without groups there is "
     "nothing to map"},
    {"tile", "materialize_reused_tiles",
     "materialize_reused_tiles compares the loops of two launches; without their steps it "
     "cannot recognize equal tiles"},
    {"materialize_reused_tiles", "fold_accumulator",
     "a dot that continues from an accumulator depends on earlier steps; equal tiles of two "
     "launches would no longer compare as equal"},
    {"materialize_reused_tiles", "bounds",
     "masks would make equal tiles of two launches compare as different"},
    {"tile", "sink_dequant_scale",
     "a scale must be constant within one step of k; before tile the k axis has no steps, so "
     "no scale could be moved"},
    {"sink_dequant_scale", "fold_accumulator",
     "a dot that continues from the accumulator contains earlier steps; its scale would "
     "multiply those a second time"},
    {"sink_dequant_scale", "bounds",
     "the load of the scale that sink_dequant_scale adds would have no guard and could read "
     "outside of its tensor"},
    {"tile", "drop_constant_axes",
     "whether a tile lies in one group of an axis depends on its step; there is none before"},
    {"drop_unit_axes", "sink_dequant_scale",
     "the scale of a filter lies behind the window's axes of one element: it would stay with an "
     "operand that stage takes for a narrow one"},
    {"sink_dequant_scale", "drop_constant_axes",
     "the scale that sink_dequant_scale gathers may be equal along the result's axis, too; a "
     "thread would load it for each of its columns"},
    {"drop_constant_axes", "hoist",
     "a gather that does not vary along a loop is moved out of it with the axes that it has; a "
     "thread would keep equal elements in registers across the loop"},
    {"drop_constant_axes", "bounds",
     "the scalar indices that drop_constant_axes makes would have no guards and no proofs"},
    {"tile", "fuse_loops",
     "before tile there are no loops over slices of an axis, so nothing could be fused"},
    {"fuse_loops", "hoist",
     "hoist would move the same loop-invariant op out of both loops; it would be computed "
     "twice and stand between them"},
    {"fuse_loops", "bounds",
     "masks would make equal ranges of two loops compare as different, so the loops would not "
     "be fused"},
    {"tile", "drop_unit_axes",
     "tile creates unit axes where it takes one element of an axis at a time; these would "
     "remain"},
    {"drop_unit_axes", "hoist",
     "drop_unit_axes replaces arrays by scalars where they are used; the index arithmetic of a "
     "convolution would stay in its innermost loop"},
    {"drop_unit_axes", "stage",
     "stage recognizes an operand of a dot as a plain load; a squeezed unit axis in between "
     "would hide it"},
    {"tile", "hoist", "before tile there are no loops out of which ops could be moved"},
    {"hoist", "stage",
     "a loop-invariant tile would be staged through a ring buffer in each iteration, instead "
     "of once into a single buffer"},
    {"hoist", "sink",
     "an op that is still in an inner loop cannot move behind the loop around it; hoisted "
     "later, it would be live across the dots"},
    {"sink", "stage",
     "a tile that is only needed after a loop would be staged before it and occupy shared "
     "memory during its dots"},
    {"tile", "fold_accumulator",
     "before tile no loop carries an accumulator from which a dot could continue"},
    {"bounds", "fold_exp2_scale",
     "bounds infers the value of padding from the plain difference of score and maximum; from "
     "the FMA it cannot, and would add masks"},
    {"fold_exp2_scale", "stage",
     "fold_exp2_scale recognizes scores by the dot that computes them; stage replaces it by "
     "dot_async and dot_wait"},
    {"tile", "peel",
     "before tile loops have no steps, so full tiles cannot be separated from the last one"},
    {"peel", "bounds",
     "bounds would guard and mask all tiles of the loop, including the full ones"},
    {"hoist", "bound_loops",
     "a bound that comes from memory is read before the loop only once hoist has moved its load "
     "out; the loop would walk its whole axis"},
    {"bound_loops", "narrow_indices",
     "bound_loops compares indices in 64 bits; narrowed comparisons would be left alone"},
    {"bound_loops", "peel",
     "peel would split off full tiles that hold no term"},
    {"tile", "narrow_indices",
     "tile creates the ranges whose indices are compared; these comparisons would stay in 64 "
     "bits"},
    {"fold_accumulator", "bounds",
     "a mask on the dot's result would hide that it is added to the accumulator"},
    {"tile", "cpu_launch_config", "the attributes belong to launches, which tile creates"},
    {"tile", "bounds",
     "the step of a range decides whether its last tile is ragged; without steps no access "
     "could be proven to be inside"},
    {"bounds", "stage",
     "a copy may replace a load only if its guard is explicit, and padding that is not yet the "
     "identity element would reach the dots through shared memory"},
    {"tile", "stage",
     "buffers in shared memory have the static extents of tiles; before tile there are none"},
    {"stage", "insert_barriers",
     "stage decides which ops access global memory and where; a barrier inserted before could "
     "end up on the wrong side of a copy"},
    {"stage", "privatize_atomics",
     "privatize_atomics skips launches with roles or with a loop over tiles, which stage "
     "creates; before stage it cannot tell which these are"},
    {"bounds", "privatize_atomics",
     "bounds masks scatters of padding; without masks the copy in shared memory would count "
     "padding"},
    {"privatize_atomics", "assign_layouts",
     "the tiles that clear and merge the copy in shared memory would have no layout"},
    {"insert_barriers", "eliminate_barriers",
     "insert_barriers may add a barrier next to an existing one; the redundant one would "
     "remain"},
    {"bounds", "partial_reductions",
     "padding that is not yet the identity element would be combined into the partial result"},
    {"stage", "partial_reductions",
     "the partial result outlives its range by a to_static op, which is legal only at the "
     "staged level"},
    {"partial_reductions", "insert_barriers",
     "a reduction across warps is a barrier; one that leaves the loop afterwards would take "
     "its barrier with it"},
    {"partial_reductions", "assign_layouts",
     "the loop then carries a whole tile instead of a reduced one; that tile would have no "
     "layout"},
    {"tile", "rematerialize_casts",
     "before tile no reduction crosses warps or a cluster, so nothing would be recomputed, and "
     "long rows of a softmax would spill"},
    {"bounds", "rematerialize_casts",
     "a recomputed value must repeat the mask of the original, which bounds adds"},
    {"rematerialize_casts", "assign_layouts", "recomputed tiles would have no layout"},
    {"partial_reductions", "combine_reductions",
     "reductions that are still inside of loops cannot be moved together; each would keep its "
     "own barrier"},
    {"combine_reductions", "assign_layouts",
     "assign_layouts places the scratch memory of each reduction by where it is live; "
     "reductions that move afterwards could overwrite each other's"},
    {"stage", "pipeline_dots", "only asynchronous dots can be in flight, and stage creates them"},
    {"pipeline_dots", "sink_dot_waits",
     "pipeline_dots recognizes a loop by a wait behind each dot; sink_dot_waits would have "
     "moved these waits"},
    {"sink_dot_waits", "assign_layouts",
     "a dot in flight occupies its accumulator registers; assign_layouts would underestimate "
     "the register pressure"},
    {"sink_dot_waits", "cross_iteration_dots",
     "cross_iteration_dots postpones the last wait of an iteration; dots that still have "
     "separate waits could not stay in flight"},
    {"cross_iteration_dots", "assign_layouts",
     "the loop then also carries accumulators that are in flight; these would have no layout"},
    {"pipeline_dots", "assign_layouts",
     "the loop then also carries the operand of the postponed dot; it would have no layout"},
    {"stage", "assign_layouts",
     "layouts propagate from the fragments of the matrix instruction, which stage chooses; "
     "without it they would need conversions at each dot"},
    {"bounds", "assign_layouts",
     "a layout distributes a padded tile with static extents; unmasked padding would enter the "
     "results"},
    {"assign_layouts", "vectorize",
     "the vector width follows from the contiguous run that a thread owns, which is not known "
     "without a layout"},
    {"assign_layouts", "eliminate_barriers",
     "layout conversions add barriers next to those of stage; the redundant ones would remain"},
    {"assign_layouts", "warpgroup_epilogue",
     "the layout says which rows a warp group owns; without it a barrier per warp group could "
     "miss rows of another one"},
    {"warpgroup_epilogue", "eliminate_barriers",
     "a barrier per warp group does not order accesses of other warp groups; "
     "eliminate_barriers would count it as one that does"},
    {"assign_layouts", "chunk_accumulation",
     "attribute chunks lists the loop-carried values in order; a value or conversion added "
     "afterwards would make it wrong"},
    {"cross_iteration_dots", "chunk_accumulation",
     "attribute chunks has one entry per loop-carried value, and cross_iteration_dots adds "
     "the accumulators in flight to these values"},
    {"assign_layouts", "dependent_launch",
     "the grid wait stands before the first access to global memory; an access added or moved "
     "afterwards could precede it"},
    {"assign_layouts", "fence_slot_reuse",
     "buffers that occupy the same bytes are not known before; a fence between an access to one "
     "and the bulk load into the other would be missing"},
    {"eliminate_barriers", "fence_slot_reuse",
     "a fence in front of a barrier that is removed would be executed for nothing"},
    {"vectorize", "strip_mine",
     "a strip begins where a loop does, of which vectorize knows less than of the tile; its "
     "accesses would become narrower"},
    {"mark_equal_runs", "strip_mine",
     "of where a strip begins less is known than of where its tile does; fewer neighbours would be "
     "known to be equal"},
    {"assign_layouts", "mark_equal_runs",
     "which neighbours a thread holds in adjacent registers is not known without a layout"},
    {"eliminate_barriers", "strip_mine",
     "a barrier in the loop orders one slot of a buffer after another; eliminate_barriers would "
     "not distinguish them and keep those in front of the loop's accesses"},
    {"warpgroup_epilogue", "strip_mine",
     "warpgroup_epilogue recognizes the ops of a store in their order in one block; of stores in "
     "a loop over strips all warp groups would wait for each other"},
    {"bounds", "vectorize",
     "a vector must be inside or outside of a guarded axis as a whole; without the guard it "
     "could straddle the end of the axis"},
};

enum { N_CONSTRAINTS = sizeof CONSTRAINTS / sizeof *CONSTRAINTS };

const Pass *pass_rows(size_t *n)
{
    *n = N_ROWS;
    return ROWS;
}

/* -1: no such pass. */
static int row_of(const char *name)
{
    for (int i = 0; i < N_ROWS; i++) {
        if (text_equal(ROWS[i].name, name)) {
            return i;
        }
    }
    return -1;
}

int passes_check_constraints(Text *out)
{
    int broken = 0;
    for (int i = 0; i < N_CONSTRAINTS; i++) {
        int before = row_of(CONSTRAINTS[i].before);
        int after = row_of(CONSTRAINTS[i].after);
        if (before < 0 || after < 0 || before >= after) {
            text_printf(out, "%s must run before %s: %s\n", CONSTRAINTS[i].before,
                        CONSTRAINTS[i].after, CONSTRAINTS[i].reason);
            broken++;
        }
    }
    return broken;
}

typedef struct MapCheck {
    Func *func;
    Text *out;
    int failures;
} MapCheck;

/* One value, one index map: the axes of a group become the launch's loops, so no value may have one
 * of them twice. Two uses that read a value along different axes read two copies of it. */
static void check_maps(Op *op, void *user)
{
    MapCheck *check = user;
    bool group = op->kind == OP_PARALLEL && op_attr(op, ATTR_DIMS)->n == 0 &&
                 !block_contains(op->regions[0], OP_PARALLEL);
    if (!group) {
        return;
    }
    Axes axes = an_axes(check->func, op->regions[0]);
    if (axes_conflict(&axes, op->regions[0])) {
        check->failures++;
        text_printf(check->out, "a launch of %s reads one value along two axes that are one loop\n",
                    check->func->name);
    }
    axes_done(&axes);
}

static void verify_after(Func *func, const Pass *pass)
{
    Text problems = text_new(func->arena);
    int failures = verify_func(func, &problems);
    MapCheck maps = {func, &problems, 0};
    if (failures == 0 && func->level == LEVEL_TENSOR) {
        func_walk(func, check_maps, &maps);
    }
    if (failures + maps.failures > 0) {
        diag_bug(func->diags, "invalid IR after pass %s of %s:\n%s", pass->name, func->name,
                 problems.data);
    }
}

static bool is_skipped(const Pass *pass, const PassHooks *hooks)
{
    return !pass->required && hooks->skip && hooks->skip(hooks->user, pass);
}

static bool run_one(const Pass *pass, Func *func, const PassHooks *hooks)
{
    int errors = func->diags->errors;
    func->diags->pass = pass->name;
    double start = clock_cpu_seconds();
    pass->run(func);
    double seconds = clock_cpu_seconds() - start;
    if (func->diags->errors > errors) {
        return false;
    }
    if (hooks->verify) {
        verify_after(func, pass);
    }
    return !hooks->after || hooks->after(hooks->user, pass, func, seconds);
}

static bool run_rows(Func *func, const PassHooks *hooks, int first, int end)
{
    bool going = true;
    for (int i = first; i < end && going; i++) {
        if (!is_skipped(&ROWS[i], hooks)) {
            going = run_one(&ROWS[i], func, hooks);
        }
    }
    func->diags->pass = NULL;
    return going;
}

bool passes_run_before_tile(Func *func, const PassHooks *hooks)
{
    return run_rows(func, hooks, 0, row_of("tile"));
}

bool passes_run_from_tile(Func *func, const PassHooks *hooks)
{
    return run_rows(func, hooks, row_of("tile"), N_ROWS);
}
