/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the order in which blocks process tiles of different cost: the expensive tiles first, or
 * pairs of an expensive and a cheap tile. */
#include "ir/nominal_sizes.h"
#include "passes/stage/stage.h"
#include "support/int_math.h"

#include <math.h>

enum {
    CACHED_BYTES = 32 << 20, /* of what heads in one group read over and over: it should stay in the
                                second-level cache, in addition to what passes through */
};

/* A share of the axis: from anywhere, as far as every other one, except at the axis' end. */
static bool is_share(const Op *loop)
{
    const Op *end = for_hi(loop)->def, *begin = for_lo(loop)->def;
    const Op *add = end && end->kind == OP_MIN ? end->operands[0]->def : NULL;
    bool clamped = begin && begin->kind == OP_MAX && value_is_const(begin->operands[1], 0);
    const Value *first = clamped ? begin->operands[0] : for_lo(loop);
    return add && add->kind == OP_ADD && add->operands[0] == first &&
           !stage_varies(add->operands[1]) && !stage_varies(end->operands[1]);
}

static bool bounds_are_even(const Op *op)
{
    return op->kind != OP_FOR || is_share(op) ||
           (!stage_varies(for_lo(op)) && !stage_varies(for_hi(op)));
}

typedef struct Uneven {
    Block *body;
    bool some, begins, ends; /* loops; of them, one that begins, or ends, with the tile */
    bool data;               /* which says where one begins or ends */
} Uneven;

typedef struct Bound {
    const Value *at;
    bool begins, ends; /* a loop there */
} Bound;

static void find_bound(Op *op, void *user)
{
    Bound *bound = user;
    bound->begins = bound->begins || (op->kind == OP_FOR && for_lo(op) == bound->at);
    bound->ends = bound->ends || (op->kind == OP_FOR && for_hi(op) == bound->at);
}

/* Where one loop ends and another one begins, one was cut in two. */
static void note_uneven(Op *op, void *user)
{
    Uneven *uneven = user;
    if (bounds_are_even(op) || op_int(op, ATTR_SINGLE_TRIP, 0)) {
        return;
    }
    uneven->some = true;
    uneven->data = uneven->data || stage_is_data(for_lo(op)) || stage_is_data(for_hi(op));
    Bound first = {.at = for_lo(op)}, last = {.at = for_hi(op)};
    block_walk(uneven->body, find_bound, &first);
    block_walk(uneven->body, find_bound, &last);
    uneven->begins = uneven->begins || (stage_varies(for_lo(op)) && !first.ends);
    uneven->ends = uneven->ends || (stage_varies(for_hi(op)) && !last.begins);
}

/* ---- longest first ---- */

/* To the end of the tile's own range, as under a causal mask. */
static bool grows(const Op *loop, const Value *range)
{
    const Op *end = for_hi(loop)->def;
    return end && end->kind == OP_END && end->operands[0] == range;
}

typedef struct Growth {
    const Value *range; /* of the grid's last axis */
    int64_t bytes;      /* that the longest tile's loop reads */
    bool found;
} Growth;

static void see_growth(Op *op, void *user)
{
    Growth *growth = user;
    if (op->kind != OP_FOR || op_attr(op, ATTR_STEPS)->ints[0] <= 0 || !grows(op, growth->range)) {
        return;
    }
    int64_t step = op_attr(op, ATTR_STEPS)->ints[0];
    int64_t extent = poly_nominal(op_attr(op, ATTR_DIMS)->dims[0]), each = 0;
    int dots = 0;
    for (const Op *load = op->regions[0]->first; load; load = load->next) {
        dots += load->kind == OP_DOT;
        if (load->kind == OP_LOAD && load->results[0]->type->kind == TYPE_ARRAY) {
            Type type = load->results[0]->type;
            int64_t elements = 1;
            for (int i = 0; i < type->rank; i++) {
                elements *= poly_capacity(type->dims[i]);
            }
            each += elements * dtype_bytes(type->dtype);
        }
    }
    growth->found = growth->found || dots == 2;
    growth->bytes = max_i64(growth->bytes, mul_sat(each, ceil_div(extent, step)));
}

/* Heads whose tiles go out together, the longest of all of them first: a device that deals them out
 * as blocks end is left with short ones. Simulated for 132 blocks: 1.005 of what even work would
 * take at 128 heads of 32 tiles, 1.034 head by head; 24 tiles: 1.006 and 1.047. */
static int64_t heads_together(const StageContext *s)
{
    const Attr *dims = op_attr(s->launch, ATTR_DIMS), *steps = op_attr(s->launch, ATTR_STEPS);
    int last = dims->n - 1;
    if (last < 1 || steps->ints[last] <= 0 || steps->ints[last - 1] > 0) {
        return 0;
    }
    Growth growth = {.range = s->body->args[last]};
    block_walk(s->body, see_growth, &growth);
    int64_t fit = CACHED_BYTES / max_i64(1, growth.bytes);
    return growth.found ? max_i64(1, min_i64(fit, poly_nominal(dims->dims[last - 1]))) : 0;
}

/* Pairs of tiles, each a long one and a short one, are all as long; where the last round of pairs
 * leaves blocks idle, a counter gives the blocks more even work, for the launch that clears it.
 * False where the number of tiles is not known. (An H200, causal, us with pairs and with the
 * counter: 5.2 pairs a block 600, 526; 5.3 339, 307; 2.9 60.9, 57.1; 7.8 1660, 1646.) */
static bool last_pairs_leave_idle(const StageContext *s)
{
    static const double LOST = 1.02;
    const Attr *dims = op_attr(s->launch, ATTR_DIMS), *steps = op_attr(s->launch, ATTR_STEPS);
    double tiles = 1;
    for (int i = 0; i < dims->n; i++) {
        if (poly_is_nominal(dims->dims[i])) {
            return false;
        }
        tiles *= (double)ceil_div(poly_nominal(dims->dims[i]), max_i64(1, steps->ints[i]));
    }
    double waves = tiles / 2 / s->func->target->machine->num_sms;
    return waves > 1 && ceil(waves) > LOST * waves;
}

/* How do blocks walk tiles of different cost? On an H200 long and short ones in turn gain 3 to 25 %
 * over one tile a block, by the copies for the next tile: three groups in turns 612 us for 691 at
 * 4096 keys. */
static void choose_walk(StageContext *s)
{
    const ScheduleEntry *line = schedule_user_entry(s->func, "persistent", "");
    if (line && line->symbol) {
        s->paired = text_equal(line->symbol, "on");
    } else if (s->func->target->has_setmaxnreg) {
        s->counted = last_pairs_leave_idle(s);
        s->paired = !s->counted;
    }
}

static void see_products(Op *op, void *user)
{
    int dots = 0;
    for (const Op *inner = op->kind == OP_FOR ? op->regions[0]->first : NULL; inner;
         inner = inner->next) {
        dots += inner->kind == OP_DOT;
    }
    *(bool *)user = *(bool *)user && dots < 2;
}

/* Where the work of a tile grows along an axis, as under a causal mask, the long ones go first:
 * what is left to fill the end with is short. Loops that begin later in later tiles, and end where
 * all do, have the long ones first as they are. */
void stage_order(StageContext *s)
{
    Uneven uneven = {.body = s->body};
    block_walk(s->body, note_uneven, &uneven);
    s->even = !uneven.some;
    s->short_steps = true;
    block_walk(s->body, see_products, &s->short_steps);
    s->unordered = s->short_steps && (uneven.data || (uneven.begins && uneven.ends));
    if (!s->even && !s->unordered &&
        schedule_decide_int(s->func, "raster", "descending", uneven.ends, "%s",
                            uneven.ends
                                ? "later tiles cost more: the long ones go first"
                                : "earlier tiles cost more: the long ones go first as it is")) {
        op_set_int(s->func, s->launch, ATTR_DESCENDING, 1);
        int64_t heads = heads_together(s);
        if (heads) {
            choose_walk(s);
        }
        int64_t grouped =
            heads && !s->paired
                ? schedule_decide_int(s->func, "raster", "grouped", heads,
                                      "tiles of %lld heads together: what they read stays in L2",
                                      (long long)heads)
                : 0;
        if (grouped > 1) {
            op_set_int(s->func, s->launch, ATTR_RASTER_GROUP, grouped);
        }
    }
}
