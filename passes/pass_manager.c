/* SPDX-License-Identifier: Apache-2.0 */
/* The table of passes, what must run before what and why, and the loop that runs them. */
#include "passes/pass.h"

#include "ir/build.h"
#include "ir/verify/verify.h"
#include "passes/analysis/axis_classes.h"
#include "passes/retry_smaller_tiles.h"
#include "support/clock.h"

static const Pass ROWS[] = {
#define PASS(id, name, required, doc) {name, pass_##id, required, doc},
#include "passes/passes.def"
#undef PASS
};

enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

/* `before` must run before `after`, because. */
typedef struct PassConstraint {
    const char *before, *after, *reason;
} PassConstraint;

static const PassConstraint CONSTRAINTS[] = {
    {"canonicalize_strides", "gather_to_load",
     "a gather walks the axes that the tensor has in memory"},
    {"canonicalize_strides", "fuse", "what is read in another order is a permuted read"},
    {"canonicalize_strides", "lower_sort",
     "what is sorted is read and written along its last axis"},
    {"simplify", "lower_sort", "what is sorted twice is sorted once, for both uses"},
    {"lower_sort", "fuse", "each pass over a digit is launches of its own"},
    {"simplify", "fuse", "what is said twice would be computed in two launches"},
    {"simplify", "gather_to_load", "an index is told by how little it is made of"},
    {"gather_to_load", "im2col_view", "windows are told by the indices that are left"},
    {"im2col_view", "collapse_axes", "rows of pixels are axes of a tensor then"},
    {"im2col_view", "raise_to_dot", "a view is an operand"},
    {"gather_to_load", "collapse_axes",
     "what a factor does not change along is told by plain reads"},
    {"canonicalize_strides", "collapse_axes",
     "axes become one in the order in which their elements lie"},
    {"collapse_axes", "raise_to_dot",
     "what is no product of matrices yet has its axes in one order"},
    {"gather_to_load", "raise_to_dot",
     "what a factor does not change along is told by plain reads"},
    {"collapse_axes", "raise_to_dot", "products of matrices have their axes already"},
    {"raise_to_dot", "approx_activations", "what comes from a product is told by it"},
    {"approx_activations", "fuse", "how much work a launch does is told by it"},
    {"raise_to_dot", "fuse", "products have grids of their own"},
    {"raise_to_dot", "repack_pitched", "what a product reads is an operand"},
    {"repack_pitched", "fuse", "a copy is a launch of its own"},
    {"repack_pitched", "swap_ab",
     "what the copy engine can bring is told by the tensors that are read"},
    {"raise_to_dot", "repack_k_major", "what a product reads is an operand"},
    {"swap_ab", "repack_k_major", "a transposed product reads its operands the other way round"},
    {"repack_k_major", "fuse", "a copy is a launch of its own"},
    {"raise_to_dot", "repack_mn_major", "what a product reads is an operand"},
    {"swap_ab", "repack_mn_major", "a transposed product reads its operands the other way round"},
    {"repack_mn_major", "fuse", "a copy is a launch of its own"},
    {"raise_to_dot", "repack_upcast", "what a product reads is an operand"},
    {"repack_upcast", "fuse", "a copy is a launch of its own"},
    {"swap_ab", "fuse", "a transposed product is another group"},
    {"lower_argmax", "fuse", "two reductions of a row share a launch"},
    {"fuse", "tile", "one group of statements shares one grid and one set of tiles"},
    {"tile", "materialize_reused_tiles", "what a launch leaves out follows from its steps"},
    {"materialize_reused_tiles", "fold_accumulator",
     "products are told without the sums that they go on from"},
    {"materialize_reused_tiles", "bounds", "masks would tell tiles apart"},
    {"tile", "sink_dequant_scale", "before it there are no steps of k"},
    {"sink_dequant_scale", "fold_accumulator", "what it scales is no sum yet"},
    {"sink_dequant_scale", "bounds", "what it reads is guarded there"},
    {"tile", "fuse_loops", "before it there are no loops over parts of axes"},
    {"fuse_loops", "hoist", "what neither loop changes is moved out of one"},
    {"fuse_loops", "bounds", "masks would tell ranges apart"},
    {"tile", "drop_unit_axes", "it leaves axes of one element behind where it walks an axis so"},
    {"drop_unit_axes", "hoist", "what is dropped is moved no more"},
    {"drop_unit_axes", "stage", "operands of products are plain loads without them"},
    {"tile", "hoist", "before it there are no loops over parts of axes"},
    {"hoist", "stage", "a tile that a loop does not change is staged once, in one slot"},
    {"hoist", "sink", "what leaves one loop may go behind the loop around it"},
    {"sink", "stage", "what is staged before a loop holds shared memory under its products"},
    {"tile", "fold_accumulator", "before it a group's sums are not carried by loops"},
    {"bounds", "fold_exp2_scale", "padding is known through the plain difference"},
    {"fold_exp2_scale", "stage", "scores are told by the products that they come from"},
    {"tile", "peel", "before it loops have no steps"},
    {"peel", "bounds", "full tiles get neither guards nor masks"},
    {"tile", "narrow_indices", "indices are those of the ranges that it makes"},
    {"fold_accumulator", "bounds", "masks hide the product that is added"},
    {"tile", "cpu_launch_config", "launches are made there"},
    {"tile", "bounds", "which accesses may be ragged is known once ranges have steps"},
    {"bounds", "stage",
     "a copy may clip an access only when its guard is explicit, and padding must "
     "be neutral before products read it from shared memory"},
    {"tile", "stage", "buffers have the extents of tiles"},
    {"stage", "insert_barriers", "which op moves what to and from memory is settled there"},
    {"stage", "privatize_atomics", "launches with roles have their own tiles"},
    {"bounds", "privatize_atomics", "what may not be scattered is masked"},
    {"privatize_atomics", "assign_layouts", "it makes tiles of its own"},
    {"insert_barriers", "eliminate_barriers",
     "it may separate what another meeting separates already"},
    {"bounds", "partial_reductions", "what is reduced past the ends is neutral"},
    {"stage", "partial_reductions", "tiles that outlive their ranges are of that stage"},
    {"partial_reductions", "insert_barriers", "a reduction meets where it stands"},
    {"partial_reductions", "assign_layouts", "what a loop carries changes"},
    {"tile", "rematerialize_casts", "which reductions are a cluster's is known"},
    {"bounds", "rematerialize_casts", "what it repeats is masked as it stands"},
    {"rematerialize_casts", "assign_layouts", "tiles that are made anew want layouts, too"},
    {"partial_reductions", "combine_reductions", "reductions have left their loops"},
    {"combine_reductions", "assign_layouts",
     "each reduction that crosses warps gets memory of its own there"},
    {"stage", "pipeline_dots", "only staged products can be in flight"},
    {"pipeline_dots", "sink_dot_waits", "what it takes settles where it says"},
    {"sink_dot_waits", "assign_layouts", "products in flight hold their registers"},
    {"sink_dot_waits", "cross_iteration_dots", "products of a step settle together"},
    {"cross_iteration_dots", "assign_layouts", "what a loop carries changes"},
    {"pipeline_dots", "assign_layouts", "what a loop carries changes"},
    {"stage", "assign_layouts",
     "the matrix unit that a product uses anchors the layouts around it"},
    {"bounds", "assign_layouts", "layouts spread padded tiles, whose extents are static"},
    {"assign_layouts", "vectorize",
     "how many elements an access takes follows from what a thread holds"},
    {"assign_layouts", "eliminate_barriers",
     "moving tiles between layouts adds barriers beside those of stage"},
    {"assign_layouts", "warpgroup_epilogue", "whose rows a warp group holds is settled there"},
    {"warpgroup_epilogue", "eliminate_barriers",
     "a meeting of a group separates nothing of the others"},
    {"assign_layouts", "chunk_accumulation", "what loops carry, and in which layout, is final"},
    {"cross_iteration_dots", "chunk_accumulation",
     "products in flight are no sums that a thread has"},
    {"assign_layouts", "dependent_launch", "what is moved to and from memory is settled there"},
    {"bounds", "vectorize", "a guarded axis may not be read in pieces that straddle its end"},
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
    return going;
}

static bool run_from(Func *func, const PassHooks *hooks, int first)
{
    return run_rows(func, hooks, first, N_ROWS);
}

bool passes_run(Func *func, const PassHooks *hooks)
{
    static const PassHooks NONE = {0};
    hooks = hooks ? hooks : &NONE;
    int tile = row_of("tile");
    bool going = run_rows(func, hooks, 0, tile) && retry_run(func, hooks, tile, run_from);
    func->diags->pass = NULL;
    return going;
}
