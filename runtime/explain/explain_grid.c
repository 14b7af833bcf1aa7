/* SPDX-License-Identifier: Apache-2.0 */
/* Computes the tiles of a grid for given sizes and maps a block number to its tile, in the
 * rasterization order of the generated code. */
#include "runtime/explain/explain_grid.h"

#include "support/int_math.h"

int64_t steps_over(int64_t extent, int64_t step)
{
    if (extent <= 0) {
        return 0;
    }
    return step > 0 ? ceil_div(extent, step) : extent;
}

bool grid_make(const EvalPoint *context, const Op *op, Grid *grid)
{
    const Attr *dims = op_attr(op, ATTR_DIMS), *steps = op_attr(op, ATTR_STEPS);
    grid->op = op;
    grid->n = dims ? dims->n : 0;
    for (int i = 0; i < grid->n; i++) {
        grid->steps[i] = steps->ints[i];
        if (!context_dim(context, dims->dims[i], &grid->extents[i])) {
            return false;
        }
        int64_t upto = axis_end(op, i);
        grid->extents[i] = grid->extents[i] < upto ? grid->extents[i] : upto;
        bool clustered = i == grid->n - 1 && op_int(op, ATTR_CLUSTER, 1) > 1;
        grid->tiles[i] = clustered
                             ? op_int(op, ATTR_CLUSTER, 1)
                             : steps_over(grid->extents[i] - axis_begin(op, i), grid->steps[i]);
    }
    return true;
}

double grid_tiles(const Grid *grid)
{
    double tiles = 1;
    for (int i = 0; i < grid->n; i++) {
        tiles *= (double)grid->tiles[i];
    }
    return tiles;
}

void grid_bind(EvalPoint *context, const Grid *grid, int axis, int64_t tile)
{
    int64_t step = grid->steps[axis];
    int64_t first = axis_begin(grid->op, axis) + tile * (step ? step : 1);
    context_bind(context, grid->op->regions[0]->args[axis], first, step, grid->extents[axis]);
}

void grid_align(EvalPoint *context, const Grid *grid)
{
    int64_t row = 0, aligned = op_int(grid->op, ATTR_ALIGNED, 1);
    Value **args = grid->op->regions[0]->args;
    for (int i = 0; aligned > 1 && i < grid->n - 1; i++) {
        row = row * grid->extents[i] + context->bound[args[i]->id].first;
    }
    if (aligned > 1) {
        Bound *last = &context->bound[args[grid->n - 1]->id];
        last->first -= (row * grid->extents[grid->n - 1]) & (aligned - 1);
    }
}

/* ---- numbers ---- */

typedef struct Numbers {
    int64_t counts[MAX_RANK]; /* of what goes to one cluster */
    int64_t grouped, together;
    int multicast_axis; /* -1: no tiles side by side go to blocks of a cluster */
    double all;
} Numbers;

/* `grouped` tiles of axis -2 for each tile of axis -1. */
static void split_grouped(const Grid *grid, const Numbers *n, int64_t id, int64_t *tile)
{
    int64_t rows = n->counts[grid->n - 2], cols = n->counts[grid->n - 1];
    int64_t first = id / (n->grouped * cols) * n->grouped, within = id % (n->grouped * cols);
    int64_t height = rows - first < n->grouped ? rows - first : n->grouped;
    tile[grid->n - 1] = within / height;
    tile[grid->n - 2] = first + within % height;
}

static void split(const Grid *grid, const Numbers *n, int64_t id, int64_t *tile)
{
    int left = grid->n;
    if (n->grouped > 1 && left >= 2) {
        int64_t plane = n->counts[left - 2] * n->counts[left - 1];
        split_grouped(grid, n, id % plane, tile);
        id /= plane;
        left -= 2;
    }
    for (int axis = left - 1; axis >= 0; axis--) {
        tile[axis] = axis > 0 ? id % n->counts[axis] : id;
        id /= n->counts[axis];
    }
}

bool grid_bind_nth(EvalPoint *context, const Grid *grid, int64_t block, int64_t blocks, int64_t nth)
{
    /* The counts along the multicast axis are those of clusters. */
    const Attr *multicast_axis = op_attr(grid->op, ATTR_MULTICAST);
    Numbers n = {
        .grouped = op_int(grid->op, ATTR_RASTER_GROUP, 0), .together = 1, .multicast_axis = -1};
    n.all = 1;
    for (int a = 0; a < grid->n; a++) {
        n.counts[a] = grid->tiles[a];
        if (multicast_axis && multicast_axis->ints[a] > 1) {
            n.together = multicast_axis->ints[a];
            n.multicast_axis = a;
            n.counts[a] = steps_over(n.counts[a], n.together);
        }
        n.all *= (double)n.counts[a];
    }
    n.all *= (double)n.together;
    if (n.multicast_axis >= 0 && n.multicast_axis == grid->n - 2 && n.grouped > 1) {
        n.grouped = steps_over(n.grouped, n.together);
    }
    /* Long and short tiles alternate: a block takes one of each. */
    const char *deal = op_word(grid->op, ATTR_DEAL);
    bool paired = deal && text_equal(deal, "pairs"), zigzag = deal && !paired;
    bool pairs = paired && n.all > (double)blocks;
    int64_t id = pairs ? nth / 2 * 2 * blocks + 2 * block + nth % 2 : nth * blocks + block;
    id = zigzag && nth % 2 ? nth * blocks + blocks - 1 - block : id;
    int64_t tile[MAX_RANK] = {0};
    if ((double)id >= n.all) {
        return false;
    }
    if (op_int(grid->op, ATTR_DESCENDING, 0) && !paired) {
        id = (int64_t)n.all - 1 - id;
    }
    split(grid, &n, id / n.together, tile);
    if (n.multicast_axis >= 0) {
        tile[n.multicast_axis] = tile[n.multicast_axis] * n.together + id % n.together;
    }
    if (paired && grid->n > 0) {
        int64_t *last = &tile[grid->n - 1];
        *last = *last % 2 ? *last / 2 : n.counts[grid->n - 1] - 1 - *last / 2;
    }
    for (int axis = 0; axis < grid->n; axis++) {
        grid_bind(context, grid, axis, tile[axis]);
    }
    grid_align(context, grid);
    return true;
}
