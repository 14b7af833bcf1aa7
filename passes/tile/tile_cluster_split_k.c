/* SPDX-License-Identifier: Apache-2.0 */
/* Split-K within a cluster: the blocks that compute the slices of one tile of a dot form a cluster
 * and exchange their partial results through shared memory. Each block adds up, in the order of the
 * slices, its own part of the tile, and executes the epilogue for that part. This needs no second
 * launch, and no partial results in global memory.
 *
 *   launch dims=[M, N, 4] steps=[64, 128, 0] cluster=4 { (%m, %n, %c)
 *     %sum = for %k of share %c … dot …
 *     for %p = start(%n) + 32 %c … steps=[32] single_trip=2 {
 *       %part = cluster_reduce_scatter %sum axis=1 : f32[%m, %p]
 *       store %y[%m, %p], … %part … } }
 *
 * Source: CUDA C++ Programming Guide, "Distributed Shared Memory"; the exchange is MPI's
 * reduce-scatter. */
#include "passes/tile/tile_emit.h"
#include "passes/tile/tile_steps.h"

#include "ir/ir_errors.h"
#include "ir/nominal_sizes.h"

enum {
    MAX_BYTES = 65536,   /* of what others send, in addition to rings of shared memory */
    MIN_COLUMNS = 8,     /* of a part: pieces of results that are stored as wide as they may be */
    WIDEST_COLUMNS = 32, /* more of a row side by side are no better */
};

/* The axes of a product's tile. */
typedef struct Tile {
    AxisPlan *axis[2];
    int64_t step[2];
} Tile;

static Tile tile_of(TilePlan *plan)
{
    const Value *product = plan->dot->results[0];
    int rank = product->type->rank;
    Tile tile = {{tile_axis_of(plan, product, rank - 2), tile_axis_of(plan, product, rank - 1)},
                 {1, 1}};
    for (int i = 0; i < 2; i++) {
        tile.step[i] = tile.axis[i] ? max_i64(1, tile.axis[i]->step) : 1;
    }
    return tile;
}

/* The axis whose parts the blocks have, 0 or 1: columns while runs of a row stay long, else rows,
 * if there are enough. -1: a part would be too small. */
static int parted_axis(const Tile *tile, int64_t blocks)
{
    bool columns = tile->axis[1] && tile->step[1] % (blocks * MIN_COLUMNS) == 0;
    bool rows = tile->axis[0] && tile->step[0] % blocks == 0;
    bool full = rows && poly_most(tile->axis[0]->dim) > tile->step[0] / 2;
    bool wide = columns && tile->step[1] / blocks >= WIDEST_COLUMNS;
    if (wide || (columns && !full)) {
        return 1;
    }
    return rows ? 0 : -1;
}

/* Blocks whose tiles lie side by side are another cluster. */
static bool combines_slices(Func *func, const TilePlan *plan)
{
    bool given = false;
    for (int i = 0; i < plan->n; i++) {
        const ScheduleEntry *line = schedule_user_entry(func, "multicast", plan->items[i].name);
        given = given || (line && line->number > 1);
    }
    return given;
}

/* Whatever the tiles are. NULL: they can be one. */
static const char *never(Func *func, const Op *group, TilePlan *plan)
{
    if (plan->split_k_tail) {
        return "a tail's shares lie next to tiles that have none";
    }
    if (combines_slices(func, plan)) {
        return "blocks that bring operands together are one";
    }
    for (int i = 0; i < plan->n; i++) {
        if (plan->items[i].whole) {
            return "the epilogue reduces along an axis of the tile";
        }
    }
    bool stores = tile_stores_product(group, plan);
    return stores ? NULL : "not all that is written is the product's tile";
}

bool tile_can_cluster(Func *func, const Op *group, TilePlan *plan)
{
    return is_gpu(func) && func->target->cluster > 1 && tile_can_split_k(plan) &&
           !never(func, group, plan);
}

/* Why the blocks are no cluster; NULL: they can be one. */
static const char *why_not(Func *func, const Op *group, TilePlan *plan, int64_t shares)
{
    Tile tile = tile_of(plan);
    const char *reason = never(func, group, plan);
    bool power = (shares & (shares - 1)) == 0 && shares <= func->target->portable_cluster;
    int bytes = dtype_bytes(plan->dot->results[0]->type->dtype);
    if (reason) {
        return reason;
    }
    if (plan->teams > 1) {
        return "teams of a block's warps have tiles of their own";
    }
    if (tile.step[0] * tile.step[1] * bytes > MAX_BYTES) {
        return "what blocks send one another of a tile does not fit in addition to its operands";
    }
    if (!power) {
        return "a cluster has 2, 4 or 8 blocks";
    }
    return parted_axis(&tile, shares) < 0 ? "a tile has no part for each of the blocks" : NULL;
}

int64_t tile_held_together(const Func *func, TilePlan *plan)
{
    Tile tile = tile_of(plan);
    int64_t blocks = max_i64(1, plan->split_k);
    for (int i = 0; i < 2; i++) {
        blocks = mul_sat(blocks, tiles_of(tile.axis[i], tile.step[i]));
    }
    bool held = plan->dot->results[0]->type->rank == 2 && func->target->cluster > 1 &&
                plan->split_k > 1 && blocks <= dot_cost_coresident(func->target, plan->split_k);
    return held ? plan->split_k : 0;
}

static int64_t shares_of(Func *func, const TilePlan *plan)
{
    const ScheduleEntry *line = schedule_user_entry(func, "split_k", "");
    if (!tile_can_split_k(plan)) {
        return 1;
    }
    return max_i64(1, line ? line->number : plan->split_k);
}

/* Why blocks that may be a cluster are one, or not. */
static const char *chosen_why(const Func *func, TilePlan *plan, bool join)
{
    if (join) {
        return "blocks that share a tile run together";
    }
    return tile_held_together(func, plan) ? "clusters would take as long"
                                          : "not all clusters would run at once";
}

void tile_choose_cluster_split_k(Func *func, const Op *group, TilePlan *plan, bool derived)
{
    const ScheduleEntry *line = schedule_peek_entry(func, "cluster", "");
    int64_t shares = shares_of(func, plan);
    if (!is_gpu(func) || func->target->cluster < 2 || shares < 2) {
        return;
    }
    const char *reason = why_not(func, group, plan, shares);
    bool join = !reason && derived;
    const char *why = reason ? reason : chosen_why(func, plan, join);
    int64_t blocks = schedule_decide_int(func, "cluster", "", join ? shares : 1, "%s: %s", why,
                                         join ? "each adds what they have for a part of it"
                                              : "a second launch adds the shares");
    if (blocks != 1 && (reason || blocks != shares)) {
        Diag *d = diag_error(func->diags, ERR_NOT_HERE, line->span,
                             "`cluster %lld` is not possible: %s", (long long)blocks,
                             reason ? reason : "its blocks have the shares of a tile, one each");
        if (reason) {
            diag_help(func->diags, d, "leave the line out");
        } else {
            diag_help(func->diags, d, "`cluster %lld`, or 1", (long long)shares);
        }
        return;
    }
    plan->cluster_split_k = blocks;
    for (int i = 0; i < plan->n && blocks > 1; i++) {
        plan->items[i].multicast = 0;
    }
}

/* The rows, or columns, of the tile that are the block's own. */
static EmitFrame part_frame(TileEmitter *e, EmitFrame *frame, const AxisSplit *split, int item,
                            int64_t part)
{
    const AxisPlan *axis = &e->plan->items[item];
    Builder *b = &frame->at;
    Type i64 = type_scalar(e->func, DT_I64);
    Value *first = build_op(b, OP_START, 1, &frame->ranges[item], 1, &i64, 0)->results[0];
    Value *lo = build_binary(b, OP_MUL, split->share, build_i64(b, part));
    lo = build_binary(b, OP_ADD, first, lo);
    Value *hi = build_binary(b, OP_ADD, lo, build_i64(b, part));
    Op *loop = build_for(b, axis->dim, part, axis->name, lo, hi, 0, NULL);
    op_set_int(e->func, loop, ATTR_SINGLE_TRIP, 2);
    EmitFrame inside = emit_frame_in(e, frame, loop, build_at_end(e->func, loop->regions[0]));
    inside.ranges[item] = loop->regions[0]->args[0];
    inside.dims[item] = loop->regions[0]->args[0]->type->dims[0];
    return inside;
}

void tile_emit_cluster_split_k(TileEmitter *e, Op *group, AxisSplit *split)
{
    TilePlan *plan = (TilePlan *)e->plan;
    Op *dot = split->ops[0];
    Tile tile = tile_of(plan);
    int axis = parted_axis(&tile, split->shares);
    int item = (int)(tile.axis[axis] - plan->items);
    EmitFrame frame = emit_frame(e);
    Op *launch = emit_launch(e, group, &frame, poly_const(e->func, split->shares), "share");
    const Block *region = launch->regions[0];
    emit_enter_slice(e, &frame, split, region->args[region->n_args - 1]);
    e->split = split;
    Value *sum = emit_matrix(e, &frame, dot);
    e->split = NULL;
    EmitFrame inside = part_frame(e, &frame, split, item, tile.step[axis] / split->shares);
    Value *part = build_cluster_scatter(&inside.at, "sum", sum, axis, inside.dims[item]);
    emit_map_matrix(&inside, dot, part);
    emit_effects(e, group, &inside);
    emit_end(e, &inside, 0, NULL);
}
