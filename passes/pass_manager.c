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
typedef struct PassOrder {
    const char *before, *after, *reason;
} PassOrder;

static const PassOrder ORDERS[] = {
    {"turn", "reads", "a gather walks the axes that the tensor has in memory"},
    {"turn", "fuse", "what is read in another order is a permuted read"},
    {"turn", "sort", "what is sorted is read and written along its last axis"},
    {"simplify", "sort", "what is sorted twice is sorted once, for both uses"},
    {"sort", "fuse", "each pass over a digit is launches of its own"},
    {"simplify", "fuse", "what is said twice would be computed in two launches"},
    {"simplify", "reads", "an index is told by how little it is made of"},
    {"reads", "windows", "windows are told by the indices that are left"},
    {"windows", "flatten", "rows of pixels are axes of a tensor then"},
    {"windows", "contract", "a view is an operand"},
    {"reads", "flatten", "what a factor does not change along is told by plain reads"},
    {"turn", "flatten", "axes become one in the order in which their elements lie"},
    {"flatten", "contract", "what is no product of matrices yet has its axes in one order"},
    {"reads", "contract", "what a factor does not change along is told by plain reads"},
    {"flatten", "contract", "products of matrices have their axes already"},
    {"contract", "near", "what comes from a product is told by it"},
    {"near", "fuse", "how much work a launch does is told by it"},
    {"contract", "fuse", "products have grids of their own"},
    {"contract", "pitch", "what a product reads is an operand"},
    {"pitch", "fuse", "a copy is a launch of its own"},
    {"pitch", "swap", "what the copy engine can bring is told by the tensors that are read"},
    {"contract", "kmajor", "what a product reads is an operand"},
    {"swap", "kmajor", "a transposed product reads its operands the other way round"},
    {"kmajor", "fuse", "a copy is a launch of its own"},
    {"contract", "mnmajor", "what a product reads is an operand"},
    {"swap", "mnmajor", "a transposed product reads its operands the other way round"},
    {"mnmajor", "fuse", "a copy is a launch of its own"},
    {"contract", "widen", "what a product reads is an operand"},
    {"widen", "fuse", "a copy is a launch of its own"},
    {"swap", "fuse", "a transposed product is another group"},
    {"extremes", "fuse", "two reductions of a row share a launch"},
    {"fuse", "tile", "one group of statements shares one grid and one set of tiles"},
    {"tile", "keep", "what a launch leaves out follows from its steps"},
    {"keep", "accumulate", "products are told without the sums that they go on from"},
    {"keep", "bounds", "masks would tell tiles apart"},
    {"tile", "factor", "before it there are no steps of k"},
    {"factor", "accumulate", "what it scales is no sum yet"},
    {"factor", "bounds", "what it reads is guarded there"},
    {"tile", "merge", "before it there are no loops over parts of axes"},
    {"merge", "hoist", "what neither loop changes is moved out of one"},
    {"merge", "bounds", "masks would tell ranges apart"},
    {"tile", "units", "it leaves axes of one element behind where it walks an axis so"},
    {"units", "hoist", "what is dropped is moved no more"},
    {"units", "stage", "operands of products are plain loads without them"},
    {"tile", "hoist", "before it there are no loops over parts of axes"},
    {"hoist", "stage", "a tile that a loop does not change is staged once, in one slot"},
    {"hoist", "sink", "what leaves one loop may go behind the loop around it"},
    {"sink", "stage", "what is staged before a loop holds shared memory under its products"},
    {"tile", "accumulate", "before it a group's sums are not carried by loops"},
    {"bounds", "fast", "padding is known through the plain difference"},
    {"fast", "stage", "scores are told by the products that they come from"},
    {"tile", "peel", "before it loops have no steps"},
    {"peel", "bounds", "full tiles get neither guards nor masks"},
    {"tile", "narrow", "indices are those of the ranges that it makes"},
    {"accumulate", "bounds", "masks hide the product that is added"},
    {"tile", "host", "launches are made there"},
    {"tile", "bounds", "which accesses may be ragged is known once ranges have steps"},
    {"bounds", "stage",
     "a copy may clip an access only when its guard is explicit, and padding must "
     "be neutral before products read it from shared memory"},
    {"tile", "stage", "buffers have the extents of tiles"},
    {"stage", "order", "which op moves what to and from memory is settled there"},
    {"stage", "atomics", "launches with roles have their own tiles"},
    {"bounds", "atomics", "what may not be scattered is masked"},
    {"atomics", "layout", "it makes tiles of its own"},
    {"order", "syncs", "it may separate what another meeting separates already"},
    {"bounds", "defer", "what is reduced past the ends is neutral"},
    {"stage", "defer", "tiles that outlive their ranges are of that stage"},
    {"defer", "order", "a reduction meets where it stands"},
    {"defer", "layout", "what a loop carries changes"},
    {"tile", "again", "which reductions are a cluster's is known"},
    {"bounds", "again", "what it repeats is masked as it stands"},
    {"again", "layout", "tiles that are made anew want layouts, too"},
    {"defer", "meet", "reductions have left their loops"},
    {"meet", "layout", "each reduction that crosses warps gets memory of its own there"},
    {"stage", "overlap", "only staged products can be in flight"},
    {"overlap", "late", "what it takes settles where it says"},
    {"late", "layout", "products in flight hold their registers"},
    {"late", "flight", "products of a step settle together"},
    {"flight", "layout", "what a loop carries changes"},
    {"overlap", "layout", "what a loop carries changes"},
    {"stage", "layout", "the matrix unit that a product uses anchors the layouts around it"},
    {"bounds", "layout", "layouts spread padded tiles, whose extents are static"},
    {"layout", "vectorize", "how many elements an access takes follows from what a thread holds"},
    {"layout", "syncs", "moving tiles between layouts adds barriers beside those of stage"},
    {"layout", "apart", "whose rows a warp group holds is settled there"},
    {"apart", "syncs", "a meeting of a group separates nothing of the others"},
    {"layout", "chunks", "what loops carry, and in which layout, is final"},
    {"flight", "chunks", "products in flight are no sums that a thread has"},
    {"layout", "early", "what is moved to and from memory is settled there"},
    {"bounds", "vectorize", "a guarded axis may not be read in pieces that straddle its end"},
};

enum { N_ORDERS = sizeof ORDERS / sizeof *ORDERS };

const Pass *pass_rows(size_t *n)
{
    *n = N_ROWS;
    return ROWS;
}

/* -1: no such pass. */
static int row_of(const char *name)
{
    for (int i = 0; i < N_ROWS; i++) {
        if (text_same(ROWS[i].name, name)) {
            return i;
        }
    }
    return -1;
}

int passes_check_order(Text *out)
{
    int broken = 0;
    for (int i = 0; i < N_ORDERS; i++) {
        int before = row_of(ORDERS[i].before);
        int after = row_of(ORDERS[i].after);
        if (before < 0 || after < 0 || before >= after) {
            text_printf(out, "%s must run before %s: %s\n", ORDERS[i].before, ORDERS[i].after,
                        ORDERS[i].reason);
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
    if (failures == 0 && func->stage == STAGE_TENSOR) {
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
    bool going = run_rows(func, hooks, 0, tile) && fit_run(func, hooks, tile, run_from);
    func->diags->pass = NULL;
    return going;
}
