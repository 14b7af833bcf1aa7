/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses minimum tile sizes for coalesced accesses: along an axis that is contiguous in memory, a
 * tile should have a contiguous run of some length; otherwise each access of a warp moves sectors
 * of which it uses only a small part (NVIDIA, CUDA C++ Best Practices Guide, "Coalesced Access to
 * Global Memory"). A transpose has two such axes. */
#include "ir/nominal_sizes.h"
#include "passes/analysis/index_bounds.h"
#include "passes/tile/tile_steps.h"

enum {
    RUN_BYTES = 128,    /* a cache line */
    BURST_BYTES = 64,   /* of memory: what a shorter run leaves of one is read for nothing */
    MIN_BYTES = 32,     /* a sector */
    BOTH_MAX = 128,     /* elements, where runs along several axes meet in one tile */
    SHARED_BLOCKS = 4,  /* on a multiprocessor */
    MAX_BLOCKS = 2,     /* the same, for the sake of whole bursts */
    COLUMNS_CPU = 1024, /* that are folded at once: of long vectors, in the first-level cache */
    MIN_COLUMNS_CPU = 128, /* the same where fewer make blocks enough: eight vectors */
    ROWS_CPU = 16,      /* where rows of each are held or walked: a cache line of f32 */
    MAX_ROWS_CPU = 64,  /* the same, if as many fit: neighbouring lines come at once */
    BLOCKS_CPU = 16,    /* that wider tiles leave at least; fewer share out what they fold
                           (tile_split_axis.c), and store and add the parts */
    TURNED_CPU = 256,   /* bytes of a run where runs along several axes meet: whole cache lines of
                           both, few enough that the tile stays in the first-level cache */
};

static int item_of_class(const TilePlan *plan, int class)
{
    for (int i = 0; i < plan->n; i++) {
        if (plan->items[i].class == class) {
            return i;
        }
    }
    return -1;
}

static const Value *moved_by(const Op *op)
{
    bool gathers = op->kind == OP_GATHER && op->operands[0]->type->kind == TYPE_TENSOR;
    if (op->kind == OP_LOAD || gathers) {
        return op->results[0];
    }
    return op->kind == OP_STORE ? op->operands[op->n_operands - 1] : NULL;
}

/* The plan's axes that an access walks; on a GPU, whose gathers count, too, without those of
 * windows that are written out. */
static int axes_walked(const Func *func, const TilePlan *plan, const Value *moved)
{
    int n = 0;
    for (int i = 0; i < moved->type->rank; i++) {
        int item = item_of_class(plan, axes_class(plan->axes, moved, i));
        n += item >= 0 && !(is_gpu(func) && plan->items[item].how == AXIS_UNROLL);
    }
    return n;
}

/* The axis of a gather along which its last index grows by one, the only one but for those of
 * windows that are written out; -1: there is none. */
static int gathered_axis(const TilePlan *plan, const Op *gather, const Value *index)
{
    int found = -1;
    for (int i = 0; i < index->type->rank; i++) {
        int item = item_of_class(plan, axes_class(plan->axes, gather->results[0], i));
        int64_t growth;
        if (!an_index_stride(index, i, &growth)) {
            return -1;
        }
        if (growth && !(item >= 0 && plan->items[item].how == AXIS_UNROLL)) {
            if (growth != 1 || found >= 0) {
                return -1;
            }
            found = i;
        }
    }
    return found;
}

/* The plan's item along which the access' elements lie side by side; -1: none. */
static int contiguous_item(const TilePlan *plan, const Op *op, const Value *moved)
{
    Access access = op_access(op, 0);
    int last = access.n - 1, axis = moved->type->rank - 1;
    if (last < 0 || !type_stride_is(access.memory->type, last, 1)) {
        return -1;
    }
    if (op->kind == OP_GATHER) {
        axis = gathered_axis(plan, op, access.indices[last]);
    } else if (access.indices[last]) {
        return -1;
    }
    return axis < 0 ? -1 : item_of_class(plan, axes_class(plan->axes, moved, axis));
}

typedef struct Runs {
    bool along[64];    /* by plan item: some large access is contiguous along it */
    int64_t inner[64]; /* elements that already are contiguous for each index along the item */
    int n, bytes;      /* how many items; bytes of the narrowest element */
    bool packed;    /* elements share bytes: each is placed by itself */
} Runs;

/* Bytes of the widest element that the group works on, at least those of a register of a tile that
 * is turned: elements that share bytes are placed by themselves. */
static int widest_element(const Op *group, const Runs *runs)
{
    int widest = runs->packed ? 8 : 2;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        for (int i = 0; i < op->n_results; i++) {
            const Type type = op->results[i]->type;
            int bytes = type->kind == TYPE_ARRAY ? dtype_bytes(type->dtype) : 0;
            widest = bytes > widest ? bytes : widest;
        }
    }
    return widest;
}

/* The side of a tile that is turned, of this many bytes an element. */
static int64_t repack_permuted_side(const Func *func, int bytes)
{
    int64_t side = BOTH_MAX;
    while (side * side * bytes > TURNED_BYTES) {
        side /= 2;
    }
    return max_i64(MIN_BYTES / bytes, side >> func->retry.plain_halvings);
}

/* The axes that an access walks; of gathers that go anywhere none, since no tile helps them, nor of
 * those of a CPU, which loads their elements one by one. */
static int axes_that_count(const Func *func, const TilePlan *plan, const Op *op)
{
    const Value *moved = moved_by(op);
    bool single = op->kind == OP_GATHER && moved &&
                  (!is_gpu(func) || contiguous_item(plan, op, moved) < 0);
    return moved && !single ? axes_walked(func, plan, moved) : 0;
}

/* A reduced axis that a tile has as a whole may be shorter than a burst, as the channels of a group
 * are where channels are last: the run continues along the axis around it in memory, of which a
 * tile has several indices. Returns that item instead, and multiplies the elements within it. */
static int continued_item(const TilePlan *plan, const Op *op, const Value *moved, int item,
                          int64_t *inner)
{
    Access access = op_access(op, 0);
    const Type memory = access.memory->type;
    int64_t burst = BURST_BYTES / dtype_bytes(moved->type->dtype);
    for (int at = access.n - 1, axis = moved->type->rank - 1;
         at > 0 && axis > 0 && op->kind != OP_GATHER; at--, axis--) {
        const AxisPlan *whole = &plan->items[item];
        bool is_short = (whole->flags & AXIS_REDUCED) && poly_most(whole->dim) < burst / *inner;
        int next = item_of_class(plan, axes_class(plan->axes, moved, axis - 1));
        if (!is_short || access.indices[at - 1] || next < 0 ||
            (memory->strides && memory->strides[at - 1] != memory->dims[at])) {
            break;
        }
        *inner *= max_i64(1, poly_most(whole->dim));
        item = next;
    }
    return item;
}

static int count_folded(const TilePlan *plan)
{
    int n = 0;
    for (int i = 0; i < plan->n; i++) {
        n += (plan->items[i].flags & (AXIS_REDUCED | AXIS_STORED)) == AXIS_REDUCED;
    }
    return n;
}

/* Only accesses that walk as many axes as any count: the others are small compared to them. Where
 * gathers that go anywhere walk more, a block with runs of the others has many rows. Blocks share
 * out one folded axis then, but not several (tile_split_axis.c): their rows stay in blocks of their
 * own. */
static Runs find_runs(const Func *func, const Op *group, const TilePlan *plan)
{
    Runs runs = {.bytes = 8};
    int most = 0, all = 0;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        const Value *moved = moved_by(op);
        int walked = axes_that_count(func, plan, op);
        int any = moved ? axes_walked(func, plan, moved) : 0;
        most = walked > most ? walked : most;
        all = any > all ? any : all;
    }
    if (is_gpu(func) && all > most && count_folded(plan) > 1) {
        return runs;
    }
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        const Value *moved = moved_by(op);
        bool counts = moved && most > 0 && axes_that_count(func, plan, op) == most;
        int item = counts ? contiguous_item(plan, op, moved) : -1;
        if (item >= 0) {
            int64_t inner = 1;
            item = continued_item(plan, op, moved, item, &inner);
            runs.inner[item] = max_i64(runs.inner[item], inner);
            int bytes = dtype_bytes(moved->type->dtype);
            runs.packed |= dtype_is_packed(moved->type->dtype);
            runs.bytes = bytes < runs.bytes ? bytes : runs.bytes;
            runs.n += !runs.along[item];
            runs.along[item] = true;
        }
    }
    return runs;
}

static int64_t set_runs(Func *func, const Runs *runs, TilePlan *plan, int64_t elements)
{
    int64_t product = 1;
    for (int i = 0; i < plan->n_stored; i++) {
        AxisPlan *axis = &plan->items[i];
        bool wanted = runs->along[i] && !(axis->flags & AXIS_REDUCED) &&
                      !schedule_user_entry(func, "tile", axis->name);
        int64_t each = power_of_two_at_least(max_i64(1, runs->inner[i]));
        axis->min_step = wanted ? fitted(axis->dim, max_i64(1, elements / each)) : 1;
        product *= axis->min_step;
    }
    return product;
}

/* The longest run of at least `least` bytes with which the rows fit this many times; 0: none. */
static int64_t held_run(Func *func, const Runs *runs, TilePlan *plan, int64_t wanted, int least,
                        int64_t capacity)
{
    for (int64_t run = wanted; run * runs->bytes >= least; run /= 2) {
        if (set_runs(func, runs, plan, run) <= capacity) {
            return run;
        }
    }
    return 0;
}

/* A walk reads a row once a reduction, and once more. Half bursts cost as much as reading, and
 * writing, twice. */
static bool worth_half_bursts(const Op *group)
{
    int reductions = 0;
    for (const Op *op = group->regions[0]->first; op; op = op->next) {
        reductions += op->kind == OP_REDUCE;
    }
    return reductions >= 2;
}

static bool folds(const TilePlan *plan)
{
    bool any = false;
    for (int i = 0; i < plan->n; i++) {
        any = any || (plan->items[i].flags & AXIS_REDUCED);
    }
    return any;
}

/* True if elements lie side by side along several axes, each of them at least a cache line long. */
static bool is_turned_on_cpu(const Runs *runs, const TilePlan *plan)
{
    int n = 0;
    for (int i = 0; i < plan->n; i++) {
        n += runs->along[i] && poly_most(plan->items[i].dim) >= ROWS_CPU;
    }
    return n > 1;
}

/* Blocks of the grid with runs of that length. */
static int64_t blocks_on_cpu(const Runs *runs, const TilePlan *plan, int64_t run)
{
    int64_t blocks = 1;
    for (int i = 0; i < plan->n_stored; i++) {
        const AxisPlan *axis = &plan->items[i];
        int64_t extent = min_i64(INT32_MAX, max_i64(1, poly_nominal(axis->dim)));
        int64_t tiles = ceil_div(extent, runs->along[i] ? run : 1);
        blocks *= axis->flags & AXIS_REDUCED ? 1 : min_i64(tiles, INT32_MAX / blocks);
    }
    return blocks;
}

/* In addition to rows that a block holds, of which `capacity` fit. */
static int64_t run_with_rows(const Runs *runs, const TilePlan *plan, int64_t capacity)
{
    int64_t run = MAX_ROWS_CPU;
    while (run > ROWS_CPU && (run > capacity || blocks_on_cpu(runs, plan, run) < BLOCKS_CPU)) {
        run /= 2;
    }
    return run;
}

/* The longest run that leaves blocks enough not to share out what is folded, or the longest. */
static int64_t run_of_columns(const Runs *runs, const TilePlan *plan)
{
    for (int64_t run = COLUMNS_CPU; run >= MIN_COLUMNS_CPU; run /= 2) {
        if (blocks_on_cpu(runs, plan, run) > BLOCKS_CPU) {
            return run;
        }
    }
    return COLUMNS_CPU;
}

/* Columns that are folded one by one would take a cache line for an element; so would elements that
 * are read along one axis and stored, or folded, along another. `capacity`: of rows that a block
 * holds; INT32_MAX: it holds none. */
static int64_t run_of_cpu(const Runs *runs, const TilePlan *plan, int64_t capacity)
{
    bool turned = is_turned_on_cpu(runs, plan);
    bool columns = folds(plan) && (turned || runs->n == 1);
    if (columns && capacity < INT32_MAX) {
        return run_with_rows(runs, plan, capacity);
    }
    if (turned) {
        return TURNED_CPU / runs->bytes;
    }
    return columns ? run_of_columns(runs, plan) : 1;
}

int64_t tile_choose_runs(Func *func, const Op *group, TilePlan *plan, RowCapacity capacity)
{
    Runs runs = find_runs(func, group, plan);
    if (!is_gpu(func)) {
        int64_t run = run_of_cpu(&runs, plan, capacity.block);
        return set_runs(func, &runs, plan, max_i64(1, run >> func->retry.plain_halvings));
    }
    int64_t wanted = RUN_BYTES / runs.bytes;
    plan->turned = runs.n > 1 ? widest_element(group, &runs) : 0;
    wanted = plan->turned ? repack_permuted_side(func, plan->turned) : wanted;
    /* A row that is held whole is read once: worth shorter runs. */
    int64_t run = held_run(func, &runs, plan, wanted, BURST_BYTES, capacity.block / SHARED_BLOCKS);
    run = run ? run : held_run(func, &runs, plan, wanted, BURST_BYTES, capacity.block / MAX_BLOCKS);
    /* Of short elements a smaller cluster, which sends less, is worth more than whole lines. */
    int64_t shared = runs.bytes < 4 && !plan->turned ? BURST_BYTES / runs.bytes : wanted;
    run = run ? run : held_run(func, &runs, plan, shared, BURST_BYTES, capacity.cluster);
    if (!run && worth_half_bursts(group)) {
        run = held_run(func, &runs, plan, MIN_BYTES / runs.bytes, MIN_BYTES,
                       max_i64(capacity.block, capacity.cluster));
    }
    return set_runs(func, &runs, plan, run ? run : wanted);
}
