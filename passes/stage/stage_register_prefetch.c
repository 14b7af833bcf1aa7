/* SPDX-License-Identifier: Apache-2.0 */
/* Prefetches the operands of dots into registers: the operands of an iteration are loaded during
 * the dots of the previous one.
 *
 *   %r = for lo, hi, %z                  for lo, min(lo + 64, hi) { shared_store %sa[0], … }
 *     %a = load %x[%m, %k]          →    barrier
 *     %b = load %w[%k, %n]               %s, %j = for lo + 64, hi, %z, 0      %k, %c, %i
 *     yield dot %a, %b, %c                 %a = load %x[%m, %k]; %b = load %w[%k, %n]
 *                                          %d = dot %sa[%i], %sb[%i], %c
 *                                          shared_store %sa[%i + 1], %a; …; barrier
 *                                          yield %d, %i + 1
 *                                        %r = if lo < hi { dot %sa[%j], %sb[%j], %s } else { %s }
 *
 * There are two buffers in shared memory: the one that is written was read in the previous
 * iteration, so one barrier per iteration suffices. Warp groups wait for their dot before they
 * store, and fence their stores. Ops between a load and its dot are executed after the dots. Only
 * for loops in which nothing but the operands of the dots depends on the loop index. */
#include "passes/stage/stage.h"

#include "ir/ir_errors.h"
#include "passes/tile/tile.h"

enum { SLOTS = 2, MAX_TILES = 8, MAX_OPS = 256, LEFT_BYTES = 4096 };

typedef enum Part {
    PART_EARLY, /* loads, and what tells where they are */
    PART_LATE,  /* other work on what is loaded */
    PART_STEP,  /* products, and what follows from them or is carried */
    PART_ANY,   /* constants */
} Part;

typedef struct Ahead {
    StageContext *s;
    Func *func;
    Op *loop;
    Block *body;
    Op *ops[MAX_OPS];
    Part parts[MAX_OPS];
    int n;
    Value *values[MAX_TILES], *tiles[MAX_TILES]; /* that are stored, and where */
    int n_tiles;
    int64_t bytes; /* of a slot of all of them */
    bool single;   /* units of single warps multiply; else groups of warps, or threads */
    bool group;
    Type position;
} Ahead;

/* ---- which loops ---- */

static int number_of(const Ahead *a, const Value *value)
{
    for (int i = 0; value && value->def && i < a->n; i++) {
        if (a->ops[i] == value->def) {
            return i;
        }
    }
    return -1;
}

static bool is_carried(const Ahead *a, const Value *value)
{
    return value && value->block == a->body && value->index > 0;
}

static bool follows_step(const Ahead *a, const Op *op)
{
    for (int i = 0; i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        int at = number_of(a, value);
        if (is_carried(a, value) || (at >= 0 && a->parts[at] == PART_STEP)) {
            return true;
        }
    }
    return false;
}

static void make_early(Ahead *a, int at)
{
    if (at < 0 || a->parts[at] != PART_LATE) {
        return;
    }
    a->parts[at] = PART_EARLY;
    for (int i = 0; i < a->ops[at]->n_operands; i++) {
        make_early(a, number_of(a, a->ops[at]->operands[i]));
    }
}

/* False: an op that has a region or does more than make a value. */
static bool sort_ops(Ahead *a)
{
    for (Op *op = a->body->first; op != a->body->last; op = op->next) {
        if (a->n == MAX_OPS || !op_has(op, TRAIT_PURE) || op->n_regions) {
            return false;
        }
        bool step = op->kind == OP_DOT || follows_step(a, op);
        if (step) {
            a->parts[a->n] = PART_STEP;
        } else if (op->kind == OP_CONST) {
            a->parts[a->n] = PART_ANY;
        } else {
            a->parts[a->n] = PART_LATE;
        }
        a->ops[a->n++] = op;
    }
    for (int i = 0; i < a->n; i++) {
        if (a->ops[i]->kind == OP_LOAD || a->ops[i]->kind == OP_GATHER) {
            make_early(a, i);
        }
    }
    return true;
}

/* An operand as it is stored: not transposed. */
static Value *stored(Value *value, bool *transposed)
{
    *transposed = false;
    while (value->def && value->def->kind == OP_PERMUTE) {
        *transposed ^= op_permutes_axes(value->def);
        value = value->def->operands[0];
    }
    return value;
}

static int tile_of(const Ahead *a, const Value *value)
{
    int i = 0;
    while (i < a->n_tiles && a->values[i] != value) {
        i++;
    }
    return i;
}

static bool takes_operand(Ahead *a, Value *operand)
{
    bool transposed;
    Value *value = stored(operand, &transposed);
    int at = number_of(a, value), tile = tile_of(a, value);
    if (at < 0 || (a->parts[at] != PART_EARLY && a->parts[at] != PART_LATE) || tile == MAX_TILES) {
        return false;
    }
    if (tile == a->n_tiles) {
        a->values[a->n_tiles++] = value;
        a->bytes += poly_capacity(value->type->dims[0]) * poly_capacity(value->type->dims[1]) *
                    dtype_bytes(value->type->dtype);
    }
    return true;
}

/* What a step has may be of the step before: all but its products' operands. */
static bool takes_step(Ahead *a, const Op *op)
{
    for (int i = op->kind == OP_DOT ? 2 : 0; i < op->n_operands; i++) {
        const Value *value = op->operands[i];
        int at = number_of(a, value);
        bool range = value && value->block == a->body && value->index == 0;
        if (range || (at >= 0 && (a->parts[at] == PART_EARLY || a->parts[at] == PART_LATE))) {
            return false;
        }
    }
    return true;
}

static bool takes_products(Ahead *a)
{
    for (int i = 0; i < a->n; i++) {
        const Op *op = a->ops[i];
        if (a->parts[i] != PART_STEP) {
            continue;
        }
        const MatrixInstr *unit = op->kind == OP_DOT ? dot_instruction(a->func, op) : NULL;
        bool dot = op->kind == OP_DOT;
        bool product = dot && !(unit && unit->max_accumulate_k) &&
                       takes_operand(a, op->operands[0]) && takes_operand(a, op->operands[1]);
        a->single = a->single || (unit && mma_warps(unit) == 1);
        a->group = a->group || (unit && mma_warps(unit) > 1);
        if (!takes_step(a, op) || (dot && !product)) {
            return false;
        }
    }
    return a->n_tiles > 0 && takes_step(a, a->body->last);
}

static bool loads_something(const Ahead *a)
{
    for (int i = 0; i < a->n; i++) {
        if (a->ops[i]->kind == OP_LOAD) {
            return true;
        }
    }
    return false;
}

static const char *why_slots(const Ahead *a, bool fits, int64_t both)
{
    if (!a->single && !a->group) {
        return "other blocks of a multiprocessor multiply while one waits: tiles that are loaded "
               "ahead would take registers from them";
    }
    return arena_printf(a->func->arena,
                        fits ? "a step's tiles are loaded while the one before it multiplies: "
                               "%lld bytes"
                             : "two slots of tiles are more than there is space for: %lld bytes",
                        (long long)both);
}

static bool is_wanted(Ahead *a)
{
    Func *func = a->func;
    int64_t both = SLOTS * a->bytes, capacity = func->target->shared_bytes - LEFT_BYTES;
    bool fits = a->s->shared_bytes + both <= capacity;
    int64_t slots =
        schedule_decide_int(func, "pipeline", "", fits && (a->single || a->group) ? SLOTS : 1, "%s",
                            why_slots(a, fits, both));
    const ScheduleEntry *given = schedule_user_entry(func, "pipeline", "");
    if (given && (slots < 1 || slots > SLOTS)) {
        diag_error(func->diags, ERR_PIPELINE, given->span,
                   "`pipeline %lld`: tiles that pass through registers have one slot or two",
                   (long long)slots);
    }
    return slots == SLOTS;
}

/* ---- the loops ---- */

static void clone_part(Ahead *a, Builder *b, CloneMap *map, Part part)
{
    for (int i = 0; i < a->n; i++) {
        if (a->parts[i] == part) {
            clone_op(b, map, a->ops[i]);
        }
    }
}

static void store_tiles(Ahead *a, Builder *b, const CloneMap *map, Value *position)
{
    for (int i = 0; i < a->n_tiles; i++) {
        Value *operands[] = {a->tiles[i], position, NULL, NULL, clone_get(map, a->values[i])};
        build_op(b, OP_SHARED_STORE, 5, operands, 0, NULL, 0);
    }
    if (a->group) {
        build_bare(b, OP_FENCE_ASYNC);
    }
}

/* The product of the tiles at a position. */
static void build_product(Ahead *a, Builder *b, CloneMap *map, Op *dot, Value *position)
{
    Value *operands[9] = {NULL};
    bool transposed[2];
    for (int side = 0; side < 2; side++) {
        Value *value = stored(dot->operands[side], &transposed[side]);
        operands[4 * side] = a->tiles[tile_of(a, value)];
        operands[4 * side + 1] = position;
    }
    bool onto = dot->n_operands > 2;
    operands[8] = onto ? clone_get(map, dot->operands[2]) : NULL;
    const MatrixInstr *unit = dot_instruction(a->func, dot);
    bool flies = unit && mma_warps(unit) > 1; /* products of other units may stand next to it */
    OpKind kind = flies ? OP_DOT_ASYNC : OP_DOT;
    Op *product = build_op(b, kind, onto ? 9 : 8, operands, 1, &dot->results[0]->type, 0);
    if (transposed[0]) {
        op_set_int(a->func, product, ATTR_TA, 1);
    }
    if (transposed[1]) {
        op_set_int(a->func, product, ATTR_TB, 1);
    }
    op_inherit_over(a->func, product, dot);
    op_set_word(a->func, product, ATTR_INSTRUCTION, unit ? unit->family : "fma");
    if (unit && unit->operands == DT_TF32) {
        op_set_word(a->func, product, ATTR_PRECISION, "tf32");
    }
    product = flies ? stage_dot_wait(a->s, b, product->results[0]) : product;
    product->results[0]->name = dot->results[0]->name;
    clone_map_value(map, dot->results[0], product->results[0]);
}

static void build_step(Ahead *a, Builder *b, CloneMap *map, Value *position)
{
    for (int i = 0; i < a->n; i++) {
        if (a->parts[i] != PART_STEP) {
            continue;
        }
        if (a->ops[i]->kind == OP_DOT) {
            build_product(a, b, map, a->ops[i], position);
        } else {
            clone_op(b, map, a->ops[i]);
        }
    }
}

/* A loop like the old one, over part of its steps. */
static Op *build_loop(Ahead *a, Builder *b, Value *lo, Value *hi, int n, Value *const *inits,
                      CloneMap *map)
{
    const Value *range = a->body->args[0];
    Op *loop = build_for(b, op_attr(a->loop, ATTR_DIMS)->dims[0],
                         op_attr(a->loop, ATTR_STEPS)->ints[0], range->name, lo, hi, n, inits);
    Value *own = loop->regions[0]->args[0];
    clone_map_value(map, range, own);
    clone_map_dim(map, poly_as_range(range->type->dims[0]), own->type->dims[0]);
    return loop;
}

/* The first step's tiles. */
static void build_start(Ahead *a, Builder *b, Value *lo, Value *hi)
{
    CloneMap map = clone_map_new(a->func);
    Op *loop = build_loop(a, b, lo, hi, 0, NULL, &map);
    Builder in = build_at_end(a->func, loop->regions[0]);
    clone_part(a, &in, &map, PART_ANY);
    clone_part(a, &in, &map, PART_EARLY);
    clone_part(a, &in, &map, PART_LATE);
    store_tiles(a, &in, &map, build_int(&in, a->position, 0));
    build_yield(&in, 0, NULL);
}

static Op *build_rest(Ahead *a, Builder *b, Value *lo, Value *hi)
{
    int n = for_carried(a->loop);
    Value **values = ARENA_ARRAY(a->func->arena, Value *, n + 1);
    for (int i = 0; i < n; i++) {
        values[i] = a->loop->operands[2 + i];
    }
    values[n] = build_int(b, a->position, 0);
    CloneMap map = clone_map_new(a->func);
    Op *loop = build_loop(a, b, lo, hi, n + 1, values, &map);
    Block *body = loop->regions[0];
    for (int i = 0; i < n; i++) {
        clone_map_value(&map, a->body->args[1 + i], body->args[1 + i]);
    }
    Builder in = build_at_end(a->func, body);
    Value *position = body->args[1 + n];
    clone_part(a, &in, &map, PART_ANY);
    clone_part(a, &in, &map, PART_EARLY);
    build_step(a, &in, &map, position);
    clone_part(a, &in, &map, PART_LATE);
    Value *next = build_binary(&in, OP_ADD, position, build_int(&in, a->position, 1));
    store_tiles(a, &in, &map, next);
    build_bare(&in, OP_BARRIER);
    for (int i = 0; i < n; i++) {
        values[i] = clone_get(&map, a->body->last->operands[i]);
    }
    values[n] = next;
    build_yield(&in, n + 1, values);
    return loop;
}

/* The last step's products, if there are steps. */
static Op *build_end(Ahead *a, Builder *b, Value *any, const Op *rest)
{
    int n = for_carried(a->loop);
    Value **values = ARENA_ARRAY(a->func->arena, Value *, n + 1);
    Type *types = ARENA_ARRAY(a->func->arena, Type, n + 1);
    for (int i = 0; i < n; i++) {
        types[i] = rest->results[i]->type;
    }
    Op *end = build_if(b, any, n, types);
    Builder yes = build_at_end(a->func, end->regions[0]),
            no = build_at_end(a->func, end->regions[1]);
    CloneMap map = clone_map_new(a->func);
    for (int i = 0; i < n; i++) {
        clone_map_value(&map, a->body->args[1 + i], rest->results[i]);
    }
    clone_part(a, &yes, &map, PART_ANY);
    build_step(a, &yes, &map, rest->results[n]);
    for (int i = 0; i < n; i++) {
        values[i] = clone_get(&map, a->body->last->operands[i]);
    }
    build_yield(&yes, n, values);
    build_yield(&no, n, rest->results);
    return end;
}

static void run_ahead(Ahead *a)
{
    Func *func = a->func;
    Builder top = build_before(func, a->s->launch->regions[0]->first);
    Builder b = build_before(func, a->loop);
    a->position = type_scalar(func, DT_I32);
    for (int i = 0; i < a->n_tiles; i++) {
        Type type = a->values[i]->type;
        a->tiles[i] = shared_tile(a->s, &top, type->dtype, SLOTS, poly_capacity(type->dims[0]),
                                  poly_capacity(type->dims[1]));
        const Op *load = a->values[i]->def;
        a->tiles[i]->name = load->kind == OP_LOAD ? load->operands[0]->name : NULL;
    }
    Value *lo = for_lo(a->loop);
    Value *hi = build_binary(&b, OP_MIN, for_hi(a->loop),
                             build_size(&b, op_attr(a->loop, ATTR_DIMS)->dims[0]));
    Value *second =
        build_binary(&b, OP_ADD, lo, build_i64(&b, op_attr(a->loop, ATTR_STEPS)->ints[0]));
    build_bare(&b, OP_BARRIER); /* who still reads tiles of a loop before */
    build_start(a, &b, lo, build_binary(&b, OP_MIN, second, hi));
    build_bare(&b, OP_BARRIER);
    Op *rest = build_rest(a, &b, second, hi);
    Op *end = build_end(a, &b, build_cmp(&b, "lt", lo, hi), rest);
    for (int i = 0; i < a->loop->n_results; i++) {
        end->results[i]->name = a->loop->results[i]->name;
        func_replace_uses(func, a->loop->results[i], end->results[i]);
    }
    op_remove(a->loop);
}

/* permute, tf32 → tf32, permute: what is stored is then as it was loaded, and transposed by those
 * who read it. Units of 32 bits take it along k alone. */
static void round_first(Func *func, Block *body)
{
    for (Op *op = body->first, *next; op; op = next) {
        next = op->next;
        const Op *turn = op->kind == OP_TF32 ? op->operands[0]->def : NULL;
        if (turn && turn->kind == OP_PERMUTE) {
            Builder b = build_before(func, op);
            Value *rounded = build_unary(&b, OP_TF32, turn->operands[0]);
            Value *turned = build_permute(&b, rounded, op_attr(turn, ATTR_PERM)->ints);
            func_replace_uses(func, op->results[0], turned);
            op_remove(op);
        }
    }
}

static void try_loop(Op *op, void *user)
{
    StageContext *s = user;
    if (op->kind != OP_FOR || op_attr(op, ATTR_STEPS)->ints[0] <= 0 ||
        op_int(op, ATTR_DESCENDING, 0) || op_int(op, ATTR_SINGLE_TRIP, 0)) {
        return;
    }
    Ahead *a = ARENA_NEW(s->func->arena, Ahead);
    *a = (Ahead){.s = s, .func = s->func, .loop = op, .body = op->regions[0]};
    round_first(s->func, a->body);
    if (sort_ops(a) && takes_products(a) && loads_something(a) && is_wanted(a)) {
        run_ahead(a);
    }
}

void stage_register_prefetch(StageContext *s)
{
    block_walk(s->body, try_loop, s);
}
