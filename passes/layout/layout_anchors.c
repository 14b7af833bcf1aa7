/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the layouts from which all others are derived: those that dots and coalesced accesses to
 * global memory need. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "passes/layout/assign_layouts.h"
#include "support/int_math.h"

/* If the number of warps is not a power of two, the warps past the largest one hold replicas;
 * otherwise they would own elements of warps that do not exist. */
static int64_t down_to_power(int64_t value)
{
    int64_t power = power_of_two_at_least(value);
    return power > value ? power / 2 : power;
}

void layout_extents(LayoutPass *pass, Type type, int64_t *extents)
{
    for (int i = 0; i < type->rank; i++) {
        extents[i] = poly_capacity(type->dims[i]);
        if (extents[i] < 0) {
            diag_bug(pass->func->diags, "axis %d of a tile has no static extent", i);
        }
    }
}

static int region_index(const Op *op, const Block *block)
{
    int index = 0;
    while (op->regions[index] != block) {
        index++;
    }
    return index;
}

int layout_warps(LayoutPass *pass, const Block *block)
{
    for (; block && block->parent; block = block->parent->parent) {
        const Op *op = block->parent;
        const Attr *warps = op_attr(op, ATTR_WARPS);
        if (op->kind == OP_ROLES && warps) {
            int role = region_index(op, block);
            const Attr *teams = op_attr(op, ATTR_TEAMS);
            return (int)(warps->ints[role] / (teams ? teams->ints[role] : 1));
        }
        if (op->kind == OP_LAUNCH && warps) {
            int64_t sum = 0;
            for (int i = 0; i < warps->n; i++) {
                sum += warps->ints[i];
            }
            return (int)sum;
        }
    }
    diag_bug(pass->func->diags, "a tile outside of a launch with warps");
}

int64_t layout_role_registers(const Op *roles, const Op *op)
{
    const Block *block = op->parent;
    while (block->parent != roles) {
        block = block->parent->parent;
    }
    return op_attr(roles, ATTR_REGISTERS)->ints[region_index(roles, block)];
}

int64_t layout_launch_registers(const LayoutPass *pass, int64_t warps)
{
    const Target *target = pass->func->target;
    int64_t each =
        target->registers / (warps * pass->lanes) / target->register_step * target->register_step;
    return each < target->registers_thread ? each : target->registers_thread;
}

Block *layout_value_block(const Value *value)
{
    return value->def ? value->def->parent : value->block;
}

int layout_capped(LayoutPass *pass, int vector)
{
    bool may = !pass->reduces && !pass->folds;
    const ScheduleEntry *line = may ? schedule_user_entry(pass->func, "vector", "") : NULL;
    return line && line->number >= 1 && line->number < vector ? (int)line->number : vector;
}

/* ---- products ---- */

/* Adjacent elements of a dot's result that a thread owns: four, or fewer if the user's `vector` is
 * less than the widest access to one operand takes. */
static int product_run(LayoutPass *pass, const Op *op, int64_t extent)
{
    int bits = dtype_memory_bits(op->operands[0]->type->dtype);
    int wide = 8 * pass->func->target->vector_bytes / bits, capped = layout_capped(pass, wide);
    int run = (int)min_i64(4, power_of_two_at_least(extent));
    return capped < wide && capped < run ? capped : run;
}

static void find_reduction(Op *op, void *user)
{
    bool *found = user;
    *found = *found || op->kind == OP_REDUCE;
}

/* Is an axis reduced in the launch that the op is in? */
static bool launch_reduces(const Op *op)
{
    const Op *launch = op_enclosing(op, OP_LAUNCH);
    bool found = false;
    for (int r = 0; launch && r < launch->n_regions; r++) {
        block_walk(launch->regions[r], find_reduction, &found);
    }
    return found;
}

/* Arranges the warps as a grid of rows × columns (powers of two) whose tiles of the result are as
 * square as possible. If rows are reduced too, all warps go to rows, so that one warp owns a whole
 * row in every value. */
static void split_warps(const int64_t *extents, int64_t warps, int64_t most_rows, int *split)
{
    split[0] = split[1] = 1;
    for (int64_t left = warps; left > 1; left /= 2) {
        bool rows = extents[0] / split[0] >= extents[1] / split[1];
        rows = most_rows > 0 ? split[0] < most_rows : rows;
        split[rows ? 0 : 1] *= 2;
    }
}

/* Elements that a thread holds side by side along an axis of the result: one access reads them
 * where they are neighbours in shared memory. Where k is contiguous there, an access takes k.
 * Neighbours then serve the wide accesses of what follows, but rows of a ring, as the copy engine
 * swizzles them, are in different banks only for threads that hold every eighth. */
static int fma_run(LayoutPass *pass, const Op *dot, int axis, int64_t extent)
{
    bool single = axis == 0 ? !op_int(dot, ATTR_TA, 0)
                            : op_int(dot, ATTR_TB, 0) && op_enclosing(dot, OP_ROLES);
    return single ? 1 : product_run(pass, dot, extent);
}

/* Dots by fused multiply-adds: a warp owns a nearly square part of the result, so that many lanes
 * share each element that it reads of an operand. */
static Layout patch_layout(LayoutPass *pass, const Op *op, const int64_t *extents,
                           const int *per_thread)
{
    int warps = layout_warps(pass, op->parent);
    static const int order[2] = {1, 0};
    int columns = (int)min_i64(8, power_of_two_at_least(extents[1]) / per_thread[1]);
    int lanes[2] = {pass->lanes / columns, columns};
    int split[2];
    int64_t most_rows =
        launch_reduces(op) ? power_of_two_at_least(extents[0]) / (lanes[0] * per_thread[0]) : 0;
    split_warps(extents, down_to_power(warps), most_rows, split);
    return layout_blocked(2, extents, order, per_thread, lanes, split);
}

/* True if the value has one row or one column, broadcast along the other axis. */
static bool is_spread(const Value *value, int axis)
{
    const Op *broadcast = value->def, *expand;
    if (!broadcast || broadcast->kind != OP_BROADCAST) {
        return false;
    }
    expand = broadcast->operands[0]->def;
    return expand && expand->kind == OP_EXPAND && expand->operands[0]->type->rank == 1 &&
           op_int(expand, ATTR_AXIS, -1) == axis;
}

/* True if a loop adds up products of a column and a row. */
bool layout_sums_outer(const Op *op)
{
    const Op *product = op;
    const Value *sum = op->kind == OP_FMA ? op->operands[2] : NULL;
    if (op->kind == OP_ADD && op->operands[0]->def && op->operands[0]->def->kind == OP_MUL) {
        product = op->operands[0]->def;
        sum = op->operands[1];
    }
    bool carried = sum && !sum->def && sum->block == op->parent && op->parent->parent &&
                   op->parent->parent->kind == OP_FOR;
    return carried && sum->type->rank == 2 && is_spread(product->operands[0], 1) &&
           is_spread(product->operands[1], 0);
}

bool layout_of_outer(LayoutPass *pass, const Op *op, Layout *layout)
{
    int64_t extents[MAX_RANK];
    if (!layout_sums_outer(op)) {
        return false;
    }
    layout_extents(pass, op->results[0]->type, extents);
    int run = product_run(pass, op, extents[1]);
    *layout = patch_layout(pass, op, extents, (int[]){1, run});
    return true;
}

/* Arranges the warps of a matrix instruction as rows × columns, each with its own instructions as
 * long as there are enough. If rows are reduced, or the left operand is in registers with a
 * result's layout, one warp owns a whole row. */
static void unit_grid(LayoutPass *pass, const Op *op, const MatrixInstr *unit,
                      const int64_t *extents, int *grid)
{
    int64_t most[] = {power_of_two_at_least(extents[0]) / unit->m,
                      power_of_two_at_least(extents[1]) / unit->n};
    bool rows_only = launch_reduces(op) || layout_spreads(op->operands[0]);
    grid[0] = grid[1] = 1;
    for (int64_t left = down_to_power(layout_warps(pass, op->parent)); left > 1; left /= 2) {
        bool rows = rows_only || extents[0] / grid[0] >= extents[1] / grid[1];
        rows = grid[0] >= most[0] ? grid[1] >= most[1] : rows || grid[1] >= most[1];
        grid[rows ? 0 : 1] *= 2;
    }
}

/* Repeats of the instruction along an axis to which adjacent elements of an operand in memory are
 * assigned. */
static int unit_spread(LayoutPass *pass, const Op *op, const MatrixInstr *unit, int axis,
                       int64_t rows)
{
    Access access = op_access_nth(op, axis);
    bool turned = op_int(op, axis ? ATTR_TB : ATTR_TA, 0) != 0, along_k = (axis == 1) == turned;
    DType dtype = access.memory->type->dtype;
    int spread = pass->func->target->vector_bytes / dtype_bytes(dtype);
    if (access.memory->type->kind != TYPE_SHARED || along_k || mma_loads_transposed(unit, dtype) ||
        mma_reads_elements(unit, dtype, dtype)) {
        return 1;
    }
    while (spread > 1 && rows % spread != 0) {
        spread /= 2;
    }
    return spread;
}

/* The order of lanes along an axis of the result, which follows the order in which its operand in
 * shared memory is read. */
static MmaLaneOrder places_of(const Op *op, const MatrixInstr *unit, int axis, int64_t extent)
{
    Type left = op_access_nth(op, 0).memory->type, right = op_access_nth(op, 1).memory->type;
    bool turned = op_int(op, axis ? ATTR_TB : ATTR_TA, 0) != 0, along_k = (axis == 1) == turned;
    if (left->kind != TYPE_SHARED || right->kind != TYPE_SHARED) {
        return LANES_PLAIN;
    }
    if (axis == 1 && along_k && dtype_is_packed(right->dtype)) {
        int64_t bits = poly_capacity(right->dims[right->rank - 1]) * dtype_bits(right->dtype);
        return mma_lane_order_packed(unit, bits / 8);
    }
    if (mma_reads_elements(unit, left->dtype, right->dtype)) {
        return mma_lane_order(along_k, extent);
    }
    bool pairs = mma_k_in_pairs(unit, left->dtype, right->dtype, !op_int(op, ATTR_TB, 0));
    return pairs && along_k ? LANES_REVERSED : LANES_PLAIN;
}

Layout layout_of_product(LayoutPass *pass, const Op *op)
{
    int64_t extents[MAX_RANK];
    int grid[2], spread[2], warps = layout_warps(pass, op->parent);
    MmaLaneOrder places[2] = {LANES_PLAIN, LANES_PLAIN};
    const MatrixInstr *unit = mma_of_dot(pass->func->target, op);
    layout_extents(pass, op->results[0]->type, extents);
    if (!unit) {
        int per_thread[2] = {fma_run(pass, op, 0, extents[0]), fma_run(pass, op, 1, extents[1])};
        return patch_layout(pass, op, extents, per_thread);
    }
    if (mma_warps(unit) > 1) {
        return mma_group_result(unit, extents, warps, op_int(op, ATTR_TA, 0) != 0);
    }
    unit_grid(pass, op, unit, extents, grid);
    for (int axis = 0; axis < 2; axis++) {
        int64_t warp = (int64_t)(axis ? unit->n : unit->m) * grid[axis];
        bool whole = extents[axis] % warp == 0;
        spread[axis] = whole ? unit_spread(pass, op, unit, axis, extents[axis] / warp) : 1;
        places[axis] = whole ? places_of(op, unit, axis, extents[axis] / grid[axis]) : LANES_PLAIN;
    }
    return mma_result(unit, extents, grid, spread, places);
}

/* The layout of a result, distributed over the rows of warps; warps of one row hold replicas. */
bool layout_of_left(LayoutPass *pass, const Op *dot, Layout *layout)
{
    int64_t extents[MAX_RANK], result[MAX_RANK];
    int grid[2], warps = layout_warps(pass, dot->parent);
    const MatrixInstr *unit = mma_of_dot(pass->func->target, dot);
    MmaKOrder depth;
    if (!unit || !layout_spreads(dot->operands[0])) {
        return false;
    }
    layout_extents(pass, dot->operands[0]->type, extents);
    if (mma_warps(unit) > 1) {
        *layout = layout_wgmma_acc(extents[0], extents[1], warps);
        return true;
    }
    layout_extents(pass, dot->results[0]->type, result);
    unit_grid(pass, dot, unit, result, grid);
    *layout = mma_a_register_layout(unit, extents, grid);
    return mma_k_order_registers(unit, extents[1], &depth);
}

/* ---- memory ---- */

/* Contiguous runs serve wide accesses, but every thread gets one run before any thread gets two. */
static int64_t run_length(const int64_t *extents, int rank, int vector, int bits, int64_t threads)
{
    int64_t total = 1;
    for (int i = 0; i < rank; i++) {
        total *= power_of_two_at_least(extents[i]);
    }
    int64_t run = min_i64(vector, power_of_two_at_least(extents[rank - 1]));
    while (run > 1 && run * bits > 32 && total / run < threads) {
        run /= 2;
    }
    return run;
}

/* Distributes warps over rows first, so that one warp owns a whole row. Reduced axes come last,
 * because a reduction across warps goes through shared memory. */
static void deal_warps(int rank, uint32_t reduced, int64_t warps, int64_t *remaining, int *split)
{
    int last = rank - 1;
    for (int i = 0; i < 2 * rank; i++) {
        int axis = i % rank + 1 < rank ? last - 1 - i % rank : last;
        if ((reduced >> axis & 1) == (uint32_t)(i >= rank)) {
            split[axis] = (int)min_i64(warps, remaining[axis]);
            warps /= split[axis];
        }
    }
    split[last] *= (int)warps;
}

/* If the tile has fewer elements than there are threads, the remaining threads hold replicas along
 * the last axis. */
static Layout coalesced(LayoutPass *pass, Type type, int64_t run, uint32_t reduced, int warps)
{
    int rank = type->rank, last = rank - 1;
    int64_t extents[MAX_RANK], remaining[MAX_RANK];
    int order[MAX_RANK], per_thread[MAX_RANK], lanes[MAX_RANK], split[MAX_RANK];
    layout_extents(pass, type, extents);
    int64_t more_lanes = pass->lanes;
    for (int axis = last; axis >= 0; axis--) {
        order[last - axis] = axis;
        per_thread[axis] = axis == last ? (int)run : 1;
        remaining[axis] = power_of_two_at_least(extents[axis]) / per_thread[axis];
        lanes[axis] = (int)min_i64(more_lanes, remaining[axis]);
        remaining[axis] /= lanes[axis];
        more_lanes /= lanes[axis];
    }
    deal_warps(rank, reduced, down_to_power(warps), remaining, split);
    lanes[last] *= (int)more_lanes;
    return layout_blocked(rank, extents, order, per_thread, lanes, split);
}

Layout layout_of_memory(LayoutPass *pass, Type type, int vector, int narrowest_bits, int warps)
{
    return layout_of_reduced(pass, type, vector, narrowest_bits, 0, type->rank - 1, warps);
}

/* The layout of the type whose axis `fast` is the last one, with its axes as they are here. */
static Layout with_axis_last(Layout layout, int fast)
{
    for (int in = 0; in < IN_COUNT; in++) {
        for (int bit = 0; bit < layout.bits[in]; bit++) {
            int32_t *at = layout.basis[in][bit], moved = at[layout.rank - 1];
            for (int axis = layout.rank - 1; axis > fast; axis--) {
                at[axis] = at[axis - 1];
            }
            at[fast] = moved;
        }
    }
    return layout;
}

Layout layout_of_reduced(LayoutPass *pass, Type type, int vector, int narrowest_bits,
                         uint32_t reduced, int fast, int warps)
{
    int64_t extents[MAX_RANK];
    int rank = type->rank, last = rank - 1;
    Dim dims[MAX_RANK];
    uint32_t moved = 0;
    for (int axis = 0; axis < rank; axis++) {
        int from;
        if (axis == last) {
            from = fast;
        } else if (axis < fast) {
            from = axis;
        } else {
            from = axis + 1;
        }
        dims[axis] = type->dims[from];
        moved |= (reduced >> from & 1) << axis;
    }
    Type turned = fast == last ? type : type_array(pass->func, type->dtype, rank, dims);
    layout_extents(pass, turned, extents);
    int64_t threads = pass->lanes * down_to_power(warps);
    int64_t run = run_length(extents, rank, vector, narrowest_bits, threads);
    Layout layout = coalesced(pass, turned, run, moved, warps);
    return fast == last ? layout : with_axis_last(layout, fast);
}

/* Gives the axis' steps from `first` on to these bits, in their order, where they have such. */
static int32_t deal_steps(Layout *layout, LayoutIn in, int axis, int32_t first, int32_t step)
{
    for (int bit = 0; bit < layout->bits[in]; bit++) {
        if (layout->basis[in][bit][axis] >= first) {
            layout->basis[in][bit][axis] = step;
            step *= 2;
        }
    }
    return step;
}

void layout_join_warps_last(LayoutPass *pass, Type type, int axis, Layout *layout)
{
    int64_t extents[MAX_RANK];
    int32_t first = 0;
    layout_extents(pass, type, extents);
    for (int bit = layout->bits[IN_WARP]; bit-- > 0;) {
        int32_t own = layout->basis[IN_WARP][bit][axis];
        first = own && (!first || own < first) ? own : first;
    }
    if (first && extents[axis] == power_of_two_at_least(extents[axis])) {
        int32_t step = deal_steps(layout, IN_REGISTER, axis, first, first);
        deal_steps(layout, IN_WARP, axis, first, step);
    }
}

Layout layout_in_order(LayoutPass *pass, Type type, int warps)
{
    Layout layout = layout_of_memory(pass, type, 1, dtype_bits(DT_I32), warps);
    int32_t step = deal_steps(&layout, IN_REGISTER, 0, pass->lanes, pass->lanes);
    deal_steps(&layout, IN_WARP, 0, pass->lanes, step);
    return layout;
}
