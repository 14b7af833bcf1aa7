/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that reductions are complete: the tile that an op reduces, together with the loops that
 * carry its result, covers the whole axis that the op names. If other blocks, or loops over slices
 * of an axis, reduce the rest, an op must combine the partial results explicitly. */
#include "ir/op_axes.h"
#include "ir/text/ir_text.h"
#include "ir/verify/verify_ops.h"

/* ---- which values depend on marked ones ---- */

static void begin_search(Verifier *v)
{
    if (!v->marks) {
        v->marks = ARENA_ARRAY(v->func->arena, uint32_t, v->func->n_values);
    }
    v->search++;
}

static bool is_marked(const Verifier *v, const Value *value)
{
    return value && v->marks[value->id] == v->search;
}

static void mark(Verifier *v, const Value *value)
{
    v->marks[value->id] = v->search;
}

static void mark_results(Verifier *v, const Op *op)
{
    for (int i = 0; i < op->n_results; i++) {
        mark(v, op->results[i]);
    }
}

static bool reads_marked(const Verifier *v, const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (is_marked(v, op->operands[i])) {
            return true;
        }
    }
    return false;
}

/* The tensor that an op writes or reads. A bulk_store names its buffer of shared memory first. */
static const Value *tensor_of(const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        if (op->operands[i] && op->operands[i]->type->kind == TYPE_TENSOR) {
            return op->operands[i];
        }
    }
    return NULL;
}

/* True if the op passes its operand on to other blocks or launches: through an intermediate in
 * global memory, or within the cluster. */
static bool passes_on(const Verifier *v, const Op *op)
{
    const Value *tensor = tensor_of(op);
    switch (op->kind) {
    case OP_CLUSTER_REDUCE:
    case OP_CLUSTER_REDUCE_SCATTER: return true;
    case OP_STORE:
    case OP_BULK_STORE:
    case OP_SCATTER: return tensor && v->func->params.items[tensor->index].io == PARAM_SCRATCH;
    default: return false;
    }
}

/* True if the op reads results of other blocks or launches. */
static bool reads_others(const Verifier *v, const Op *op)
{
    const Value *memory = op->kind == OP_LOAD ? op->operands[0] : NULL;
    return op->kind == OP_SPIN_LOAD ||
           (memory && v->func->params.items[memory->index].io == PARAM_SCRATCH);
}

/* True if the greatest (smallest) of what the op reads is still that of its result, perhaps scaled
 * and shifted, so that a maximum of a tile becomes one of the tiles so far: an exponential of it
 * does not. */
static bool keeps_extreme(const Op *op)
{
    static const OpKind kinds[] = {
        OP_MAX,   OP_MIN,          OP_AND,         OP_OR,     OP_SELECT, OP_CAST,  OP_MASK,
        OP_NEG,   OP_MUL,          OP_ADD,         OP_SUB,    OP_FMA,    OP_FRONT, OP_TO_STATIC,
        OP_REMAT, OP_SHARED_STORE, OP_SHARED_LOAD, OP_REDUCE, OP_CONVERT};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (op->kind == kinds[i]) {
            return true;
        }
    }
    return op_moves_axes(op);
}

/* Marks the values of a block that depend on marked ones and, with `others`, on results of other
 * blocks or launches. True if an op passes a marked value on to other blocks or launches. */
static bool spread_in(Verifier *v, const Block *block, bool others)
{
    bool handed = false;
    for (const Op *op = block->first; op; op = op->next) {
        bool reads = (reads_marked(v, op) && (!v->extreme || keeps_extreme(op))) ||
                     (others && reads_others(v, op));
        int axes = op->kind == OP_FOR ? 1 : 0, inits = op->kind == OP_FOR ? 2 : 0;
        for (int r = 0; r < op->n_regions; r++) {
            const Block *region = op->regions[r];
            for (int i = 0; i + inits < op->n_operands && i + axes < region->n_args; i++) {
                if (is_marked(v, op->operands[i + inits])) {
                    mark(v, region->args[i + axes]);
                }
            }
            handed = spread_in(v, region, others) || handed;
            const Op *yield = region->last;
            for (int i = 0; yield && i < yield->n_operands && i < op->n_results; i++) {
                if (yield->kind == OP_YIELD && is_marked(v, yield->operands[i])) {
                    mark(v, op->results[i]);
                }
            }
        }
        if (reads) {
            mark_results(v, op);
            if (op->kind == OP_SHARED_STORE) {
                mark(v, op->operands[0]); /* so loads from that buffer are marked, too */
            }
            handed = handed || passes_on(v, op);
        }
    }
    return handed;
}

static bool spread(Verifier *v, const Block *block)
{
    return spread_in(v, block, false);
}

/* ---- loops over the axis ---- */

/* The axis of the loop or launch that iterates over `whole` in tiles like `tile`; -1: none. */
static int axis_in_tiles(const Op *op, Dim whole, Dim tile)
{
    const Attr *dims = op_attr(op, ATTR_DIMS), *steps = op_attr(op, ATTR_STEPS);
    bool loop = op->kind == OP_FOR || op->kind == OP_TILE_LOOP || op->kind == OP_LAUNCH;
    const DimVar *range = poly_as_range(tile);
    for (int i = 0; loop && dims && steps && i < dims->n; i++) {
        bool own = !range || (range->binder && range->binder->block == op->regions[0]);
        /* Step 0 takes one element, whose index is a scalar. */
        int64_t step = steps->ints[i] ? steps->ints[i] : 1;
        if (own && dims->dims[i] == whole && step == poly_capacity(tile) &&
            (!range || range->binder == op->regions[0]->args[i])) {
            return i;
        }
    }
    return -1;
}

static bool is_all(const Value *value, Dim whole)
{
    const Op *op = value->def;
    int64_t extent;
    if (op && op->kind == OP_CONST) {
        return poly_is_const(whole, &extent) && op_attr(op, ATTR_VALUE)->i >= extent;
    }
    return op && op->kind == OP_SIZE && op_attr(op, ATTR_DIM)->dims[0] == whole;
}

/* The loop whose initial value `nth` is result `i` of this one; NULL: none. */
static const Op *next_loop(const Op *loop, int i, int *nth)
{
    for (const Op *op = loop->next; op; op = op->next) {
        for (int k = 2; op->kind == OP_FOR && k < op->n_operands; k++) {
            if (op->operands[k] == loop->results[i]) {
                *nth = k - 2;
                return op;
            }
        }
    }
    return NULL;
}

/* True if the loop covers the axis from the first element to the last, alone or together with the
 * loops before and after it that continue its carried value, each from where the previous ended. */
static bool covers_axis(const Op *loop, int i, Dim whole)
{
    const Op *first = loop, *last = loop;
    int nth = i;
    while (!value_is_const(for_lo(first), 0)) {
        const Op *before = first->operands[2 + nth]->def;
        if (!before || before->kind != OP_FOR || for_hi(before) != for_lo(first)) {
            return false;
        }
        nth = (int)first->operands[2 + nth]->index;
        first = before;
    }
    nth = i;
    while (!is_all(for_hi(last), whole)) {
        const Op *after = next_loop(last, nth, &nth);
        if (!after || for_lo(after) != for_hi(last)) {
            return false;
        }
        last = after;
    }
    return true;
}

/* ---- the rules ---- */

/* The index of the loop-carried value that depends on the op and on its own previous value; -1:
 * there is none. */
static int carried(Verifier *v, const Op *loop, const Op *op)
{
    const Block *region = loop->regions[0];
    const Op *yield = region->last;
    const char *fn = op->kind == OP_REDUCE ? op_word(op, ATTR_FN) : "";
    int found = -1;
    v->extreme = text_equal(fn, "max") || text_equal(fn, "min");
    for (int i = 0; i < loop->n_results && found < 0; i++) {
        begin_search(v);
        mark_results(v, op);
        spread(v, region);
        bool made = is_marked(v, yield->operands[i]);
        begin_search(v);
        mark(v, region->args[1 + i]);
        spread(v, region);
        found = made && is_marked(v, yield->operands[i]) ? i : -1;
    }
    v->extreme = false;
    return found;
}

static bool reads_both(const Verifier *v, const Block *block, const uint32_t *made, const Op *scan)
{
    for (const Op *op = block->first; op; op = op->next) {
        bool marked = false, uses = false;
        for (int i = 0; op != scan && i < op->n_operands; i++) {
            marked = marked || is_marked(v, op->operands[i]);
            uses = uses || (op->operands[i] && made[op->operands[i]->id] == v->search);
        }
        for (int r = 0; r < op->n_regions && !(marked && uses); r++) {
            marked = uses = reads_both(v, op->regions[r], made, scan);
        }
        if (marked && uses) {
            return true;
        }
    }
    return false;
}

/* True if an op in the scan's block, or below, combines a value that depends on the scan with a
 * marked one. */
static bool is_combined_with_marked(Verifier *v, const Op *scan)
{
    uint32_t *marks = v->marks, *made = ARENA_ARRAY(v->func->arena, uint32_t, v->func->n_values);
    v->marks = made;
    mark_results(v, scan);
    spread(v, scan->parent);
    v->marks = marks;
    return reads_both(v, scan->parent, made, scan);
}

/* True if the scan of a tile is combined with results of earlier tiles, which the loop carries. */
static bool continues_scan(Verifier *v, const Op *loop, const Op *scan)
{
    begin_search(v);
    for (int i = 1; i < loop->regions[0]->n_args; i++) {
        mark(v, loop->regions[0]->args[i]);
    }
    spread(v, loop->regions[0]);
    return is_combined_with_marked(v, scan);
}

static bool scans(const Op *op)
{
    return op->kind == OP_SCAN || (op->kind == OP_FOLD && op_int(op, ATTR_SCAN, 0));
}

static const Op *launch_of(const Op *op)
{
    while (op && op->kind != OP_LAUNCH) {
        op = op->parent ? op->parent->parent : NULL;
    }
    return op;
}

/* True if the result for a slice of the axis is passed on to be combined, or starts from results of
 * earlier slices. */
static bool slice_is_combined(Verifier *v, const Op *loop, const Op *op)
{
    const Op *launch = launch_of(loop);
    begin_search(v);
    mark_results(v, op);
    mark_results(v, loop);
    if (launch && spread(v, launch->regions[0])) {
        return true;
    }
    begin_search(v);
    if (launch) {
        spread_in(v, launch->regions[0], true);
    }
    for (int i = 2; i < loop->n_operands; i++) {
        if (is_marked(v, loop->operands[i])) {
            return true;
        }
    }
    return scans(op) && is_combined_with_marked(v, op);
}

/* What is wrong with the loop over the op's tiles; NULL: nothing. */
static const char *wrong_loop(Verifier *v, const Op *loop, const Op *op, Dim whole)
{
    if (op_int(loop, ATTR_PART, 0)) {
        /* Slices of an asynchronous dot are combined through shared memory that several roles and
         * blocks write, which this search does not follow; `stage` got the loop verified. */
        return op->kind == OP_DOT_ASYNC || slice_is_combined(v, loop, op)
                   ? NULL
                   : "walks a part of it, and nothing combines the parts";
    }
    int i;
    if (scans(op)) {
        i = continues_scan(v, loop, op) ? 0 : -1;
    } else {
        i = carried(v, loop, op);
    }
    if (i < 0) {
        return "has a tile of it, and the loop over the tiles does not carry what it comes to";
    }
    bool staged = v->func->level == LEVEL_STAGED; /* loops with dots in flight run ahead */
    bool complete = op_int(loop, ATTR_BOUNDED, 0) || covers_axis(loop, i, whole);
    return staged || complete ? NULL : "is in a loop over a part of it";
}

/* What is wrong with a grid whose blocks have one tile of the op each; NULL: nothing. */
static const char *wrong_grid(Verifier *v, const Op *grid, int axis, const Op *op, Dim whole)
{
    const Op *launch = launch_of(grid);
    int64_t blocks = op_int(launch, ATTR_CLUSTER, 1), step = op_attr(grid, ATTR_STEPS)->ints[axis];
    bool last = axis == op_attr(grid, ATTR_DIMS)->n - 1;
    if (blocks > 1 && last && poly_most(whole) / blocks <= step) {
        begin_search(v);
        mark_results(v, op);
        return spread(v, launch->regions[0])
                   ? NULL
                   : "has a block's tile of it, and the cluster does not combine them";
    }
    return "has a block's tile of it, and nothing combines those of other blocks";
}

/* True if the value comes from a loop over the axis that combined its tiles element by element. */
static bool made_by_loop(Verifier *v, const Value *value, Dim whole, Dim tile)
{
    const Op *op = value ? value->def : NULL;
    if (!op || is_marked(v, value)) {
        return false;
    }
    mark(v, value);
    if (op->kind == OP_FOR) {
        const Op *yield = op->regions[0]->last;
        return axis_in_tiles(op, whole, tile) >= 0 ||
               made_by_loop(v, yield->operands[value->index], whole, tile) ||
               made_by_loop(v, op->operands[2 + value->index], whole, tile);
    }
    for (int i = 0; i < op->n_operands; i++) {
        if (made_by_loop(v, op->operands[i], whole, tile)) {
            return true;
        }
    }
    return false;
}

/* A step of a loop, before it or behind it: what is in flight when it begins, or when it ends. */
static bool is_in_tile_loop(Verifier *v, const Op *op, Dim whole, Dim tile)
{
    begin_search(v);
    for (int i = 0; i < op->n_operands; i++) {
        if (made_by_loop(v, op->operands[i], whole, tile)) {
            return true;
        }
    }
    begin_search(v);
    mark_results(v, op);
    spread(v, op->parent);
    for (const Op *loop = op->next; loop; loop = loop->next) {
        for (int i = 2; loop->kind == OP_FOR && i < loop->n_operands; i++) {
            if (is_marked(v, loop->operands[i]) && axis_in_tiles(loop, whole, tile) >= 0) {
                return true;
            }
        }
    }
    return false;
}

static const char *wrong_tile(Verifier *v, const Op *op, Dim whole, Dim tile)
{
    /* Tiles of no range have left the loop that walked them, which another one may surround. */
    bool left = v->func->level == LEVEL_STAGED && !poly_as_range(tile);
    if (left && is_in_tile_loop(v, op, whole, tile)) {
        return NULL;
    }
    for (const Op *at = op->parent->parent; at; at = at->parent ? at->parent->parent : NULL) {
        int axis = axis_in_tiles(at, whole, tile);
        if (axis >= 0) {
            return at->kind == OP_FOR ? wrong_loop(v, at, op, whole)
                                      : wrong_grid(v, at, axis, op, whole);
        }
    }
    return "has a tile of it, and no loop walks it";
}

void verify_over(Verifier *v, const Op *op)
{
    const Attr *over = op_attr(op, ATTR_OVER);
    Dim tile = op_reduced_extent(op);
    int64_t capacity = poly_capacity(tile);
    if (!over ? v->func->level != LEVEL_TENSOR : over->n != 1) {
        verify_fail(v, op, "does not say what it runs over");
        return;
    }
    Dim whole = over ? over->dims[0] : tile;
    const DimVar *range = poly_as_range(tile);
    bool same = whole == tile || (capacity >= 0 && poly_capacity(whole) == capacity);
    bool fits = capacity >= poly_most(whole) && (!range || range->axis_extent == whole);
    const char *wrong = same || fits ? NULL : wrong_tile(v, op, whole, tile);
    if (wrong) {
        Text dim = text_new(v->func->arena);
        say_dim(v->func, whole, &dim);
        verify_fail(v, op, "runs over %s, %s", dim.data, wrong);
    }
}
