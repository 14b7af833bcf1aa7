/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a launch into warp roles. The consumer keeps the statements of the launch, with mbarrier
 * waits and arrivals around the dots. The producer has the same loops, reduced to the copies and
 * the ops that bound the loops (decoupled access/execute: Smith 1982). Each IR block with copies
 * has a ring index, which is carried through its loops and through the tiles of a persistent
 * launch. */
#include "passes/stage/stage.h"

#include "ir/ir_errors.h"

/* In the place of a leader: the ring of the tiles' numbers, and what was taken from it. */
enum { NUMBERS = MAX_STAGED, NEXT_TILE, MAX_POSITIONS };

/* Where each ring stands, by its leader's number, on one side. */
typedef struct Positions {
    int leaders[MAX_POSITIONS];
    Value *values[MAX_POSITIONS];
    int n;
} Positions;

static Type position_type(const StageContext *s)
{
    return type_scalar(s->func, DT_I32);
}

static Value *next_position(StageContext *s, Builder *b, Value *position)
{
    return build_binary(b, OP_ADD, position, build_int(b, position_type(s), 1));
}

static int position_of(const Positions *p, int leader)
{
    for (int i = 0; i < p->n; i++) {
        if (p->leaders[i] == leader) {
            return i;
        }
    }
    return -1;
}

static Positions positions_start(StageContext *s, Value *zero)
{
    Positions p = {.n = 0};
    for (int i = 0; i < s->n_streams; i++) {
        if (s->streams[i].leader == i) {
            p.leaders[p.n] = i;
            p.values[p.n++] = zero;
        }
    }
    for (int i = 0; i < 2 && s->counter; i++) {
        p.leaders[p.n] = i == 0 ? NUMBERS : NEXT_TILE;
        p.values[p.n++] = zero;
    }
    return p;
}

/* Does the ring turn anywhere in this block? */
static bool turns_in(const StageContext *s, int leader, const Block *block)
{
    for (int i = 0; i < s->n_streams; i++) {
        if (s->streams[i].leader == leader && block_is_within(s->streams[i].home, block)) {
            return true;
        }
    }
    return false;
}

/* ---- the producer ---- */

typedef struct Producer {
    StageContext *s;
    CloneMap map; /* from the launch's iterators to the producer's */
} Producer;

/* Scalars that bound loops or index copies are computed again on this side, where they stand. */
static Value *own_scalar(const Producer *p, Value *value)
{
    return clone_get(&p->map, value);
}

static void map_iterator(Producer *p, Value *old, Value *by)
{
    clone_map_value(&p->map, old, by);
    if (old->type->kind == TYPE_RANGE) {
        clone_map_dim(&p->map, poly_as_range(old->type->dims[0]), by->type->dims[0]);
    }
}

static const StagedOperand *item_of_load(const StageContext *s, const Op *load)
{
    for (int i = 0; i < s->n; i++) {
        if (s->items[i].load == load && s->items[i].bulk) {
            return &s->items[i];
        }
    }
    return NULL;
}

void stage_wait(StageContext *s, Builder *b, Value *barrier, Value *position, bool previous)
{
    Op *wait = build_op(b, OP_WAIT, 2, (Value *[]){barrier, position}, 0, NULL, 0);
    if (previous) {
        op_set_int(s->func, wait, ATTR_PREVIOUS_PHASE, 1);
    }
}

static bool is_first_load(const StageContext *s, const StagedOperand *item)
{
    for (const Op *op = item->load->parent->first; op != item->load; op = op->next) {
        const StagedOperand *other = item_of_load(s, op);
        if (other && other->stream == item->stream) {
            return false;
        }
    }
    return true;
}

static void produce_load(Producer *p, Builder *b, const StagedOperand *item, Value *position)
{
    StageContext *s = p->s;
    const OperandStream *stream = &s->streams[item->stream];
    Value *operands[MAX_RANK + 8];
    int n = 0;
    if (is_first_load(s, item)) {
        stage_wait(s, b, stream->empty, position, true);
    }
    operands[n++] = item->load->operands[0];
    for (int i = 1; i < item->load->n_operands; i++) {
        operands[n++] = own_scalar(p, item->load->operands[i]);
    }
    operands[n++] = item->shared;
    operands[n++] = stage_place(s, b, item, position);
    for (int axis = 1; axis < item->shared->type->rank; axis++) {
        operands[n++] = NULL;
    }
    operands[n++] = stream->full;
    operands[n++] = position;
    b->span = item->load->span;
    Op *copy = build_op(b, OP_BULK_LOAD, n, operands, 0, NULL, 0);
    if (item->rounded) {
        op_set_word(s->func, copy, ATTR_PRECISION, "tf32");
    }
    if (item->together > 1) {
        op_set_int(s->func, copy, ATTR_CLUSTER, item->together);
    }
}

static void produce_block(Producer *p, Builder *b, const Block *from, Positions *positions);

static void produce_loop(Producer *p, Builder *b, const Op *loop, Positions *positions)
{
    Func *func = p->s->func;
    const Block *from = loop->regions[0];
    Value *inits[MAX_STAGED];
    int which[MAX_STAGED], n = 0;
    for (int i = 0; i < positions->n; i++) {
        if (turns_in(p->s, positions->leaders[i], from)) {
            which[n] = i;
            inits[n++] = positions->values[i];
        }
    }
    if (n == 0) {
        return;
    }
    Value *lo = own_scalar(p, for_lo(loop)), *hi = own_scalar(p, for_hi(loop));
    Op *copy = build_for(b, op_attr(loop, ATTR_DIMS)->dims[0], op_attr(loop, ATTR_STEPS)->ints[0],
                         from->args[0]->name, lo, hi, n, inits);
    map_iterator(p, from->args[0], copy->regions[0]->args[0]);
    Positions inside = *positions;
    for (int i = 0; i < n; i++) {
        inside.values[which[i]] = copy->regions[0]->args[1 + i];
    }
    Builder body = build_at_end(func, copy->regions[0]);
    produce_block(p, &body, from, &inside);
    for (int i = 0; i < n; i++) {
        inits[i] = inside.values[which[i]];
        positions->values[which[i]] = copy->results[i];
    }
    build_yield(&body, n, inits);
}

/* Leaves in `positions` what they are at the end of the block. */
static void produce_block(Producer *p, Builder *b, const Block *from, Positions *positions)
{
    for (const Op *op = from->first; op; op = op->next) {
        const StagedOperand *item = item_of_load(p->s, op);
        if (item) {
            int at = position_of(positions, p->s->streams[item->stream].leader);
            produce_load(p, b, item, positions->values[at]);
        } else if (op->kind == OP_FOR) {
            produce_loop(p, b, op, positions);
        } else if (op->n_results == 1 && type_is_scalar(op->results[0]->type) &&
                   stage_is_plain(p->s, op->results[0])) {
            clone_op(b, &p->map, op); /* dead ones go with the others */
        }
    }
    for (int i = 0; i < p->s->n_streams; i++) {
        if (p->s->streams[i].home == from) {
            Value **value = &positions->values[position_of(positions, p->s->streams[i].leader)];
            *value = next_position(p->s, b, *value);
        }
    }
}

/* ---- the consumer ---- */

Value *stage_carry(Func *func, Op *loop, Value *init, Value **result)
{
    int n = loop->n_operands;
    Value **operands = ARENA_ARRAY(func->arena, Value *, n + 1);
    for (int i = 0; i < n; i++) {
        operands[i] = loop->operands[i];
    }
    operands[n] = init;
    op_set_operands(func, loop, n + 1, operands);
    *result = op_add_result(func, loop, init->type);
    return block_arg(func, loop->regions[0], init->type, "p");
}

void stage_yield_more(Func *func, Op *yield, Value *value)
{
    int n = yield->n_operands;
    Value **operands = ARENA_ARRAY(func->arena, Value *, n + 1);
    for (int i = 0; i < n; i++) {
        operands[i] = yield->operands[i];
    }
    operands[n] = value;
    op_set_operands(func, yield, n + 1, operands);
}

/* The position of `home`, carried from `start` at the launch's statements. Returns what it is after
 * them. `*inside` is its value in `home`. */
static Value *consume_position(StageContext *s, const Block *home, Value *start, Value **inside)
{
    int n = 0;
    for (const Block *b = home; b != s->body; b = b->parent->parent) {
        n++;
    }
    Op **path = ARENA_ARRAY(s->func->arena, Op *, n); /* innermost first */
    Value *arg = start, **results = ARENA_ARRAY(s->func->arena, Value *, n);
    const Block *at = home;
    for (int i = 0; i < n; i++, at = at->parent->parent) {
        path[i] = at->parent;
    }
    for (int i = n; i-- > 0;) {
        arg = stage_carry(s->func, path[i], arg, &results[i]);
    }
    *inside = arg;
    if (n == 0) {
        Builder b = home->last && home->last->kind == OP_YIELD
                        ? build_before(s->func, home->last)
                        : build_at_end(s->func, (Block *)home);
        return next_position(s, &b, arg);
    }
    for (int i = 0; i < n; i++) {
        Op *yield = path[i]->regions[0]->last;
        Builder b = build_before(s->func, yield);
        stage_yield_more(s->func, yield, i == 0 ? next_position(s, &b, arg) : results[i - 1]);
    }
    return results[n - 1];
}

void stage_arrive(Builder *b, Value *barrier, Value *position)
{
    build_op(b, OP_ARRIVE, 2, (Value *[]){barrier, position}, 0, NULL, 0);
}

/* The statement of the stream's home in which a product reads it last. */
static Op *last_reader(const StageContext *s, const OperandStream *stream)
{
    Op *last = NULL;
    for (Op *op = stream->home->first; op; op = op->next) {
        for (int i = 0; i < s->n; i++) {
            const StagedOperand *item = &s->items[i];
            bool own = item->bulk && &s->streams[item->stream] == stream;
            last = own && op_ancestor_in(item->dot, stream->home) == op ? op : last;
        }
    }
    return last;
}

/* The last one of a product and the rows next to it that its stream brings. */
static Op *last_of_step(const StageContext *s, const OperandStream *stream)
{
    Op *last = stream->dot;
    for (int i = 0; i < s->n; i++) {
        const StagedOperand *item = &s->items[i];
        bool row = item->side == SIDE_AUXILIARY && &s->streams[item->stream] == stream;
        last = row && op_is_before(last, item->load) ? item->load : last;
    }
    return last;
}

/* Where the tiles are not read any more: behind the product in its own block (stage_dot puts its
 * settle there) and the rows next to it, behind the loops that read tiles which outlive them, so
 * that the next tile's come under the work on this one's result; at the end where a result leaves
 * through their slot. */
static Builder behind_readers(StageContext *s, OperandStream *stream, bool same)
{
    if (same) {
        return build_after(s->func, last_of_step(s, stream));
    }
    if (stream->home == s->body && !stage_has_lent(s, stream)) {
        return build_after(s->func, last_reader(s, stream));
    }
    return stream->home->last->kind == OP_YIELD ? build_before(s->func, stream->home->last)
                                                : build_at_end(s->func, stream->home);
}

/* Waits where the tiles are first read, arrives behind the last reader. */
static void consume_stream(StageContext *s, OperandStream *stream)
{
    Op *first = NULL;
    bool auxiliary = false;
    for (int i = 0; i < s->n; i++) {
        if (s->items[i].bulk && &s->streams[s->items[i].stream] == stream) {
            first = first ? first : s->items[i].load;
            auxiliary = auxiliary || s->items[i].side == SIDE_AUXILIARY;
        }
    }
    if (auxiliary) { /* read where it was loaded */
        for (first = stream->home->first; !item_of_load(s, first); first = first->next) {}
    }
    bool same = stream->dot->parent == stream->home && !stream->many;
    Builder before = build_before(s->func, same && !auxiliary ? stream->dot : first);
    stage_wait(s, &before, stream->full, stream->position, false);
    Builder after = behind_readers(s, stream, same);
    stage_arrive(&after, stream->empty, stream->position);
}

/* Rows next to a product are read into registers, behind the wait for them. */
static void consume_auxiliary(StageContext *s, const StagedOperand *item)
{
    Builder b = build_before(s->func, item->load);
    Value *place[] = {item->shared, s->streams[item->stream].position, NULL};
    Type type = item->load->results[0]->type;
    Value *row = build_op(&b, OP_SHARED_LOAD, 3, place, 1, &type, 0)->results[0];
    func_replace_uses(s->func, item->load->results[0], row);
    op_remove(item->load);
}

/* Streams stand in the order of their loops: a shared ring runs on from one to the next. */
static void consume_streams(StageContext *s, Positions *positions)
{
    for (int i = 0; i < s->n_streams; i++) {
        OperandStream *stream = &s->streams[i];
        Value **value = &positions->values[position_of(positions, stream->leader)];
        *value = consume_position(s, stream->home, *value, &stream->position);
    }
    for (int i = 0; i < s->n_streams; i++) {
        (s->held_slots ? stage_consume_held : consume_stream)(s, &s->streams[i]);
    }
    for (int i = 0; i < s->n; i++) {
        if (s->items[i].side == SIDE_AUXILIARY) {
            consume_auxiliary(s, &s->items[i]);
        }
    }
}

/* ---- both ---- */

static void choose_warps(StageContext *s, Op *roles)
{
    RoleResources shares =
        stage_role_resources(s, op_attr(s->launch, ATTR_WARPS)->ints[0] * s->teams);
    int64_t all = shares.warps[0] + shares.warps[1];
    op_set_ints(s->func, s->launch, ATTR_WARPS, 1, &all);
    op_set_ints(s->func, roles, ATTR_WARPS, 2, shares.warps);
    op_set_ints(s->func, roles, ATTR_REGISTERS, 2, shares.registers);
    if (s->teams > 1) {
        op_set_ints(s->func, roles, ATTR_TEAMS, 2, (int64_t[]){1, s->teams});
    }
}

/* A `tile_loop` over the launch's axes, empty, carrying the positions. */
static Op *build_tiles(StageContext *s, Builder *b, const Positions *positions)
{
    Type types[MAX_POSITIONS];
    for (int i = 0; i < positions->n; i++) {
        types[i] = position_type(s);
    }
    Op *tiles = build_op(b, OP_TILE_LOOP, positions->n, positions->values, positions->n, types, 1);
    const Attr *dims = op_attr(s->launch, ATTR_DIMS), *steps = op_attr(s->launch, ATTR_STEPS);
    op_set_dims(s->func, tiles, ATTR_DIMS, dims->n, dims->dims);
    op_set_ints(s->func, tiles, ATTR_STEPS, steps->n, steps->ints);
    static const AttrKey orders[] = {ATTR_RASTER_GROUP, ATTR_DESCENDING, ATTR_CLUSTER};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        if (op_attr(s->launch, orders[i])) {
            op_set_int(s->func, tiles, orders[i], op_int(s->launch, orders[i], 0));
        }
    }
    if (s->counter) {
        op_set_word(s->func, tiles, ATTR_DEAL, "counter");
    } else if (s->paired || !s->even) { /* each block gets as many long ones as the others */
        op_set_word(s->func, tiles, ATTR_DEAL, s->paired ? "pairs" : "zigzag");
    }
    static const AttrKey lists[] = {ATTR_MULTICAST, ATTR_AXIS_BEGIN, ATTR_AXIS_END};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const Attr *list = op_attr(s->launch, lists[i]);
        if (list) {
            op_set_ints(s->func, tiles, lists[i], list->n, list->ints);
        }
    }
    return tiles;
}

/* Fresh iterators for the producer's tiles, one an axis. */
static void tiles_iterators(Producer *p, Op *tiles, const Block *from)
{
    Func *func = p->s->func;
    int axes = from->n_args - (p->s->number != NULL);
    for (int i = 0; i < axes; i++) {
        Type type = from->args[i]->type;
        if (type->kind == TYPE_RANGE) {
            const DimVar *old = poly_as_range(type->dims[0]);
            type = type_range(func, func_range(func, old->name, old->axis_extent, old->capacity));
        }
        Value *arg = block_arg(func, tiles->regions[0], type, from->args[i]->name);
        map_iterator(p, from->args[i], arg);
    }
}

/* What other blocks tell this one's barriers is sent before it ends: each slot is empty. */
static void produce_end(StageContext *s, Builder *b, const Value *position)
{
    Value *next = (Value *)position;
    const OperandStream *stream = &s->streams[0];
    for (int64_t i = 0; s->together > 1 && i < stream->slots; i++) {
        stage_wait(s, b, stream->empty, next, true);
        next = next_position(s, b, next);
    }
}

/* What a walk over tiles from a counter carries on: where the ring of numbers stands, and, last of
 * all, the number of the next tile. */
static void carry_number(StageContext *s, Builder *b, Positions *positions, Value *number)
{
    if (s->counter) {
        Value **ring = &positions->values[position_of(positions, NUMBERS)];
        *ring = next_position(s, b, *ring);
        positions->values[positions->n - 1] = number;
    }
}

static void produce(StageContext *s, Block *region, Value *zero)
{
    Producer p = {s, clone_map_new(s->func)};
    Positions positions = positions_start(s, zero);
    Builder b = build_at_end(s->func, region);
    if (!s->persistent) {
        produce_block(&p, &b, s->body, &positions);
        produce_end(s, &b, positions.values[0]);
        return;
    }
    Op *tiles = build_tiles(s, &b, &positions);
    tiles_iterators(&p, tiles, s->body);
    for (int i = 0; i < positions.n; i++) {
        positions.values[i] = block_arg(s->func, tiles->regions[0], position_type(s), "p");
    }
    Builder inside = build_at_end(s->func, tiles->regions[0]);
    produce_block(&p, &inside, s->body, &positions);
    int ring = position_of(&positions, NUMBERS);
    Value *number = s->counter ? stage_take_tile(s, &inside, positions.values[ring]) : NULL;
    carry_number(s, &inside, &positions, number);
    build_yield(&inside, positions.n, positions.values);
    produce_end(s, &b, tiles->results[0]);
}

/* The launch's statements become the consumer's region, or the region of its tiles. */
static void consume(StageContext *s, Op *roles, Value *zero)
{
    Positions positions = positions_start(s, zero);
    Block *region = roles->regions[1];
    if (!s->persistent) {
        consume_streams(s, &positions);
        return;
    }
    Builder b = build_at_end(s->func, region);
    Op *tiles = build_tiles(s, &b, &positions);
    tiles->regions[0] = s->body;
    s->body->parent = tiles;
    for (int i = 0; i < positions.n; i++) {
        positions.values[i] = block_arg(s->func, s->body, position_type(s), "p");
    }
    consume_streams(s, &positions);
    Builder end = build_at_end(s->func, s->body);
    int ring = position_of(&positions, NUMBERS);
    Value *number = s->counter ? stage_read_tile(s, &end, positions.values[ring]) : NULL;
    carry_number(s, &end, &positions, number);
    build_yield(&end, positions.n, positions.values);
}

/* The same for teams: what a tile begins with follows from its number. */
static void consume_teams(StageContext *s, Op *roles)
{
    Positions positions = {.n = 0};
    Builder b = build_at_end(s->func, roles->regions[1]);
    Op *tiles = build_tiles(s, &b, &positions);
    op_set_int(s->func, tiles, ATTR_TILE_INDEX, 1);
    tiles->regions[0] = s->body;
    s->body->parent = tiles;
    positions = positions_start(s, stage_team_start(s));
    Builder before = build_before(s->func, s->team_loop);
    Builder after = build_after(s->func, s->team_loop);
    build_bare(&before, OP_ORDERED_WAIT);
    build_bare(&after, OP_ORDERED_ARRIVE);
    consume_streams(s, &positions);
    Builder end = build_at_end(s->func, s->body);
    build_yield(&end, 0, NULL);
}

static void finish_stores(StageContext *s, Block *region)
{
    if (s->held_slots) { /* threads store */
        return;
    }
    Builder end = build_at_end(s->func, region);
    build_op(&end, OP_BULK_WAIT, 0, NULL, 0, NULL, 0);
}

void stage_roles(StageContext *s)
{
    Func *func = s->func;
    bool counted = false;
    s->persistent = s->held_slots || stage_choose_persistent(s, &counted);
    Block *outer = build_block(func, s->launch);
    Builder b = build_at_end(func, outer);
    stage_streams(s);
    if (counted) {
        stage_tile_counter(s, &b);
        s->even = false;
    }
    if (!s->held_slots) {
        s->teams = counted ? 1 : stage_teams(s);
        stage_stores(s, s->body, &b);
    }
    stage_multicast(s);
    stage_rings(s, &b);
    Value *zero = build_int(&b, position_type(s), 0);
    Op *roles = build_op(&b, OP_ROLES, 0, NULL, 0, NULL, 2);
    choose_warps(s, roles);
    produce(s, roles->regions[0], zero);
    if (s->persistent) {
        (s->teams > 1 ? consume_teams(s, roles) : consume(s, roles, zero));
        stage_lent_stores(s);
        op_set_int(func, s->launch, ATTR_PERSISTENT, 1);
        finish_stores(s, roles->regions[1]);
    } else {
        consume(s, roles, zero);
        stage_lent_stores(s);
        /* Block arguments stay the launch's: its body becomes the outer block. */
        outer->args = s->body->args;
        outer->n_args = s->body->n_args;
        for (int i = 0; i < outer->n_args; i++) {
            outer->args[i]->block = outer;
        }
        s->body->args = NULL;
        s->body->n_args = 0;
        s->body->parent = roles;
        roles->regions[1] = s->body;
        finish_stores(s, s->body);
    }
    s->launch->regions[0] = outer;
}
