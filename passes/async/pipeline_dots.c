/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_dots: keeps the second dot of an iteration in flight under the element-wise work of the
 * next iteration.
 *
 *   for %j, %acc:                          first step: s, p and c = f(acc) of step 0
 *     s = dot_async q, k[j]; dot_wait    →   for %j from the second, %p, %c:
 *     p, c = f(s, acc)                       s = dot_async q, k[j]
 *     acc = dot_async p, v[j], c; dot_wait     a = dot_async p, v[j - 1], c
 *     yield acc                              dot_wait s; … f …; dot_wait a; yield f(s, a)
 *                                          last: acc = dot_async p, v[last], c
 *
 * Consecutive loops over adjacent parts of one axis, as `peel` creates them, are treated as one
 * loop: the first iteration of the later loop, too, runs under the last dot of the earlier one.
 *
 * This is the software pipeline of FlashAttention-3 (Shah et al. 2024, section 3.2) for any loop of
 * that shape: the first dot reads nothing that the loop carries except ring indices, and the result
 * of the second dot is used by the next iteration only. With `ordered_mma on`, the warp groups
 * issue their two dots one after another (section 3.1), and each does its element-wise work while
 * the dots of the others run. Requires: stage. Changes no bits. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/pass.h"

enum {
    MAX_CHAIN = 3, /* loops that peel makes of one */
};

typedef struct Overlap {
    Func *func;
    Op *loop;
    Block *body;
    Op *first, *first_wait, *second, *second_wait;
    Op *wait, *arrive;  /* mbarrier wait and release of the second dot's ring buffer */
    Op *repair;         /* overwrites the padding of its tile, after `wait`; NULL: none does */
    bool ordered_mma;   /* the warp groups issue their dots one after another */
    Value *begin;       /* where the first loop of the chain begins */
    int carried;        /* index of the loop-carried value that is the second dot's result */
    Value *tile, *onto; /* left operand and accumulator of the second dot */
} Overlap;

/* ---- finding the shape ---- */

static Op *find_dot_wait(Block *body, const Op *dot)
{
    for (Op *op = body->first; op; op = op->next) {
        if (op->kind == OP_DOT_WAIT && op->n_operands == 1 && op->operands[0] == dot->results[0]) {
            return op;
        }
    }
    return NULL;
}

static int operand_count(const Op *op)
{
    int n = 0;
    for (int at = 0; at < op->n_operands; at = access_next(op, at)) {
        n++;
    }
    return n;
}

/* The body has two dots; ops with regions may be conditional repairs of padding only. */
static bool find_dots(Overlap *o)
{
    for (Op *op = o->body->first; op; op = op->next) {
        if (op->n_regions && (op->kind != OP_IF || (!op->n_results && o->repair))) {
            return false;
        }
        o->repair = op->n_regions && !op->n_results ? op : o->repair;
        if (op->kind != OP_DOT_ASYNC) {
            continue;
        }
        if (o->second) {
            return false;
        }
        *(o->first ? &o->second : &o->first) = op;
    }
    return o->second && operand_count(o->first) == 2 && operand_count(o->second) == 3;
}

/* The first dot may read no loop-carried value except ring indices. */
static bool first_is_free(const Overlap *o)
{
    for (int i = 0; i < o->first->n_operands; i++) {
        const Value *operand = o->first->operands[i];
        if (operand && operand->block == o->body && !type_is_scalar(operand->type)) {
            return false;
        }
        if (operand && operand->def && operand->def->parent == o->body) {
            return false;
        }
    }
    return true;
}

static bool find_carried(Overlap *o)
{
    const Op *yield = o->body->last;
    Value *result = o->second_wait->results[0];
    o->carried = -1;
    for (int i = 0; i < yield->n_operands; i++) {
        if (yield->operands[i] == result) {
            o->carried = i;
        }
    }
    return o->carried >= 0 && value_count_uses(o->func, result) == 1;
}

/* Between the mbarrier wait and the dot only the repair and its scalars are allowed. */
static bool find_ring(Overlap *o)
{
    Op *op = o->second->prev;
    bool repaired = false;
    while (op &&
           (op == o->repair || (op_has(op, TRAIT_PURE) && type_is_scalar(op->results[0]->type)))) {
        repaired |= op == o->repair;
        op = op->prev;
    }
    o->wait = op && op->kind == OP_WAIT && repaired == (o->repair != NULL) ? op : NULL;
    o->arrive = o->second_wait->next && o->second_wait->next->kind == OP_ARRIVE
                    ? o->second_wait->next
                    : NULL;
    if (!o->wait || !o->arrive || !o->wait->operands[1] || o->wait->operands[1]->block != o->body) {
        return false;
    }
    Access right = op_access_nth(o->second, 1);
    return type_is_memory(right.memory->type) && right.indices[0] == o->wait->operands[1];
}

static Value *carried_arg(const Overlap *o, int i)
{
    return o->body->args[1 + i];
}

/* Nothing before the first product is settled may need the second one's result. */
static bool acc_is_late(const Overlap *o)
{
    const Value *acc = carried_arg(o, o->carried);
    for (const Op *op = o->body->first; op != o->first_wait; op = op->next) {
        if (op_reads(op, acc)) {
            return false;
        }
    }
    return true;
}

static bool matches(Overlap *o)
{
    if (!find_dots(o) || !first_is_free(o)) {
        return false;
    }
    o->first_wait = find_dot_wait(o->body, o->first);
    o->second_wait = find_dot_wait(o->body, o->second);
    if (!o->first_wait || !o->second_wait || !find_carried(o) || !find_ring(o) || !acc_is_late(o)) {
        return false;
    }
    o->tile = op_access_nth(o->second, 0).memory;
    o->onto = op_access_nth(o->second, 2).memory;
    return !type_is_memory(o->tile->type) && o->tile->def && o->tile->def->parent == o->body;
}

static bool is_of_second(const Overlap *o, const Op *op)
{
    return op == o->second || op == o->second_wait || op == o->wait || op == o->arrive ||
           op == o->repair;
}

/* ---- building it again ---- */

static Value *build_fix(Builder *b, Value *tile)
{
    Dim dims[MAX_RANK];
    for (int i = 0; i < tile->type->rank; i++) {
        dims[i] = poly_const(b->func, poly_capacity(tile->type->dims[i]));
    }
    Type type = type_with_dims(b->func, tile->type, tile->type->rank, dims);
    return build_op(b, OP_TO_STATIC, 1, &tile, 1, &type, 0)->results[0];
}

static Type fixed_type(const Overlap *o)
{
    Dim dims[MAX_RANK];
    for (int i = 0; i < o->tile->type->rank; i++) {
        dims[i] = poly_const(o->func, poly_capacity(o->tile->type->dims[i]));
    }
    return type_with_dims(o->func, o->tile->type, o->tile->type->rank, dims);
}

/* The second product over `tile` and `onto`, at a ring position. */
static Op *build_second(Overlap *o, Builder *b, Value *tile, Value *onto, Value *position)
{
    CloneMap map = clone_map_new(o->func);
    clone_map_value(&map, o->tile, tile);
    clone_map_value(&map, o->onto, onto);
    clone_map_value(&map, o->wait->operands[1], position);
    clone_op(b, &map, o->wait);
    Op *dot = clone_op(b, &map, o->second);
    dot->results[0]->type = onto->type;
    return dot;
}

static void build_arrive(Overlap *o, Builder *b, Value *position)
{
    CloneMap map = clone_map_new(o->func);
    clone_map_value(&map, o->arrive->operands[1], position);
    clone_op(b, &map, o->arrive);
}

static Op *build_dot_wait(Builder *b, int n, Value *const *values, int64_t pending)
{
    Type types[2] = {values[0]->type, n > 1 ? values[1]->type : NULL};
    Op *settle = build_op(b, OP_DOT_WAIT, n, values, n, types, 0);
    op_set_int(b->func, settle, ATTR_PENDING, pending);
    return settle;
}

/* A range, or a number that counts by 1. */
static void map_iterator(const Overlap *o, CloneMap *map, Value *by)
{
    Value *old = o->body->args[0];
    clone_map_value(map, old, by);
    if (old->type->kind == TYPE_RANGE) {
        clone_map_dim(map, poly_as_range(old->type->dims[0]), by->type->dims[0]);
    }
}

static int64_t step_of(const Op *loop)
{
    int64_t step = op_attr(loop, ATTR_STEPS)->ints[0];
    return step > 0 ? step : 1;
}

/* An empty loop like the old one that carries, in addition to the same values, the tile. `map`
 * renames the old iterator and carried values; the carried accumulator becomes what the product
 * continues from. */
static Op *build_loop(Overlap *o, Builder *b, Value *lo, Value *hi, Value *const *inits,
                      CloneMap *map)
{
    int n = for_carried(o->loop);
    Op *loop =
        build_for(b, op_attr(o->loop, ATTR_DIMS)->dims[0], op_attr(o->loop, ATTR_STEPS)->ints[0],
                  o->body->args[0]->name, lo, hi, n + 1, inits);
    Block *body = loop->regions[0];
    map_iterator(o, map, body->args[0]);
    for (int i = 0; i < n; i++) {
        clone_map_value(map, carried_arg(o, i), body->args[1 + i]);
    }
    return loop;
}

static void build_yields(Overlap *o, Builder *b, CloneMap *map)
{
    int n = for_carried(o->loop);
    Value **values = ARENA_ARRAY(o->func->arena, Value *, n + 1);
    for (int i = 0; i < n; i++) {
        values[i] = clone_get(map, i == o->carried ? o->onto : o->body->last->operands[i]);
    }
    values[n] = build_fix(b, clone_get(map, o->tile));
    build_yield(b, n + 1, values);
}

/* What step 0 starts from: what the loop does, and no tile yet; or the loop before it. */
static Value *const *start_values(const Overlap *o, Builder *b, const Op *before)
{
    int n = for_carried(o->loop);
    Value **inits = ARENA_ARRAY(o->func->arena, Value *, n + 1);
    for (int i = 0; i < n; i++) {
        inits[i] = o->loop->operands[2 + i];
    }
    inits[n] = before ? NULL : build_float(b, fixed_type(o), 0);
    return before ? before->results : inits;
}

/* Step 0: everything but the second product. Of a loop that continues from another one, none if
 * that had any. */
static Op *build_start(Overlap *o, Builder *b, Value *second, const Op *before)
{
    Value *hi = build_binary(b, OP_MIN, second, for_hi(o->loop));
    Value *const *inits = start_values(o, b, before);
    CloneMap map = clone_map_new(o->func);
    Op *loop = build_loop(o, b, for_lo(o->loop), hi, inits, &map);
    Builder in = build_at_end(o->func, loop->regions[0]);
    for (const Op *op = o->body->first; op != o->body->last; op = op->next) {
        if (!is_of_second(o, op)) {
            clone_op(&in, &map, op);
        }
    }
    build_yields(o, &in, &map);
    return loop;
}

static int count_ops(const Block *block)
{
    int n = 0;
    for (const Op *op = block->first; op; op = op->next) {
        n++;
    }
    return n;
}

/* What waits for the second product: it, and what reads what reads its result. */
typedef struct Late {
    const Op **ops;
    int n;
    const Value *acc;
} Late;

static bool is_late(const Late *late, const Op *op)
{
    bool found = op_reads(op, late->acc);
    for (int i = 0; i < late->n && !found; i++) {
        for (int r = 0; r < late->ops[i]->n_results; r++) {
            found = found || op_reads(op, late->ops[i]->results[r]);
        }
    }
    return found;
}

/* Both products are issued; what comes back is the second one's result, in flight. */
static Value *issue_both(Overlap *o, Builder *b, CloneMap *map, Value *tile, Value *position)
{
    Value *onto = clone_get(map, carried_arg(o, o->carried));
    Value *both[2] = {clone_get(map, o->first->results[0])};
    both[1] = build_second(o, b, tile, onto, position)->results[0];
    if (o->ordered_mma) {
        build_op(b, OP_ORDERED_ARRIVE, 0, NULL, 0, NULL, 0);
    }
    Op *settle = build_dot_wait(b, 2, both, 1);
    clone_map_value(map, o->first_wait->results[0], settle->results[0]);
    return settle->results[1];
}

/* The other steps. The second product is settled when all is done that does not need it. */
static Op *build_rest(Overlap *o, Builder *b, Value *lo, const Op *start)
{
    CloneMap map = clone_map_new(o->func);
    Op *loop = build_loop(o, b, lo, for_hi(o->loop), start->results, &map);
    Block *body = loop->regions[0];
    Builder in = build_at_end(o->func, body);
    Late late = {.acc = carried_arg(o, o->carried)};
    late.ops = ARENA_ARRAY(o->func->arena, const Op *, count_ops(o->body));
    Value *flying = NULL, *position = NULL;
    for (const Op *op = o->body->first; op != o->body->last; op = op->next) {
        if (is_of_second(o, op)) {
            continue;
        }
        if (op == o->first_wait) {
            position = build_previous(&in, clone_get(&map, o->wait->operands[1]));
            flying = issue_both(o, &in, &map, body->args[body->n_args - 1], position);
        } else if (flying && is_late(&late, op)) {
            late.ops[late.n++] = op;
        } else {
            if (op == o->first && o->ordered_mma) {
                build_op(&in, OP_ORDERED_WAIT, 0, NULL, 0, NULL, 0);
            }
            clone_op(&in, &map, op);
        }
    }
    clone_map_value(&map, late.acc, build_dot_wait(&in, 1, &flying, 0)->results[0]);
    build_arrive(o, &in, position);
    for (int i = 0; i < late.n; i++) {
        clone_op(&in, &map, late.ops[i]);
    }
    build_yields(o, &in, &map);
    return loop;
}

/* Where the last step starts; where the loop ends, if there is none. */
static Value *last_start(Overlap *o, Builder *b, Value *hi)
{
    Value *step = build_i64(b, step_of(o->loop)), *lo = o->begin;
    Value *one = build_i64(b, 1);
    Value *before = build_binary(b, OP_SUB, build_binary(b, OP_SUB, hi, lo), one);
    Value *steps = build_binary(b, OP_MUL, build_binary(b, OP_DIV, before, step), step);
    return build_binary(b, OP_MAX, lo, build_binary(b, OP_ADD, lo, steps));
}

/* The last second product: a loop over the last step, of which there may be none. */
static Value *build_end(Overlap *o, Builder *b, const Op *rest)
{
    Dim dim = op_attr(o->loop, ATTR_DIMS)->dims[0];
    Value *hi = build_binary(b, OP_MIN, for_hi(o->loop), build_size(b, dim));
    Value *onto = rest->results[o->carried], *tile = rest->results[rest->n_results - 1];
    int at = (int)o->wait->operands[1]->index - 1;
    Value *position = build_previous(b, rest->results[at]);
    Op *loop = build_for(b, dim, op_attr(o->loop, ATTR_STEPS)->ints[0], o->body->args[0]->name,
                         last_start(o, b, hi), hi, 1, &onto);
    Builder in = build_at_end(o->func, loop->regions[0]);
    CloneMap map = clone_map_new(o->func);
    map_iterator(o, &map, loop->regions[0]->args[0]);
    clone_map_value(&map, o->tile, tile);
    clone_map_value(&map, o->onto, loop->regions[0]->args[1]);
    clone_map_value(&map, o->wait->operands[1], position);
    for (const Op *op = o->wait; op != o->arrive->next; op = op->next) {
        clone_op(&in, &map, op);
    }
    Value *sum = clone_get(&map, o->second_wait->results[0]);
    build_yield(&in, 1, &sum);
    return loop->results[0];
}

/* All iterations of one loop, except for the last second dot. */
static Op *overlap_loop(Overlap *o, const Op *before)
{
    Builder b = build_before(o->func, o->loop);
    Value *second = build_binary(&b, OP_ADD, o->begin, build_i64(&b, step_of(o->loop)));
    Op *start = build_start(o, &b, second, before);
    Value *lo = before ? build_binary(&b, OP_MAX, for_lo(o->loop), second) : second;
    return build_rest(o, &b, lo, start);
}

static void overlap_chain(Overlap *chain, int n)
{
    Op *rest = NULL;
    for (int i = 0; i < n; i++) {
        chain[i].begin = for_lo(chain[0].loop);
        rest = overlap_loop(&chain[i], rest);
    }
    Overlap *last = &chain[n - 1];
    Builder b = build_before(last->func, last->loop);
    Value *acc = build_end(last, &b, rest);
    for (int i = 0; i < last->loop->n_results; i++) {
        func_replace_uses(last->func, last->loop->results[i],
                          i == last->carried ? acc : rest->results[i]);
    }
    for (int i = n - 1; i >= 0; i--) {
        op_remove(chain[i].loop);
    }
}

/* ---- chains of loops ---- */

/* The loop of full tiles that ends where this one begins and whose results are this one's initial
 * values and have no other use; NULL: there is none. */
static Op *loop_before(const Func *func, const Op *loop)
{
    int n = for_carried(loop);
    Op *before = n > 0 ? loop->operands[2]->def : NULL;
    bool is = before && before->kind == OP_FOR && before->parent == loop->parent &&
              op_int(before, ATTR_FULL_TILES, 0) && for_carried(before) == n &&
              for_hi(before) == for_lo(loop) && step_of(before) == step_of(loop) &&
              op_attr(before, ATTR_DIMS)->dims[0] == op_attr(loop, ATTR_DIMS)->dims[0];
    for (int i = 0; i < n && is; i++) {
        is = loop->operands[2 + i] == before->results[i] &&
             value_count_uses(func, before->results[i]) == 1;
    }
    return is ? before : NULL;
}

static Op *loop_after(const Func *func, const Op *loop)
{
    for (Op *op = loop->next; op; op = op->next) {
        if (op->kind == OP_FOR && loop_before(func, op) == loop) {
            return op;
        }
    }
    return NULL;
}

/* True if both loops compute the same dots from the same ring buffers. */
static bool uses_same_rings(const Overlap *o, const Overlap *before)
{
    return before->carried == o->carried && before->wait->operands[0] == o->wait->operands[0] &&
           before->wait->operands[1]->index == o->wait->operands[1]->index &&
           before->arrive->operands[0] == o->arrive->operands[0] &&
           op_access_nth(before->second, 1).memory == op_access_nth(o->second, 1).memory &&
           fixed_type(before) == fixed_type(o);
}

/* Derived: on with at least three warp groups, whose dots fill the matrix unit while the others do
 * their element-wise work. Two groups fall out of step by themselves (docs/performance.md). */
static bool decide_ordered_mma(const Overlap *o)
{
    const Op *roles = op_enclosing(o->loop, OP_ROLES);
    const Attr *warps = roles ? op_attr(roles, ATTR_WARPS) : NULL;
    int64_t groups = warps ? warps->ints[warps->n - 1] / o->func->target->group_warps : 0;
    bool many = groups > 2;
    return groups > 1 &&
           schedule_decide_on(o->func, "ordered_mma", many, "%s",
                              many ? "products of one warp group follow another's: there are "
                                     "enough to fill the matrix unit meanwhile"
                                   : "warp groups fall out of step by themselves: one's products "
                                     "run under another's element-wise work");
}

static bool find_shape(Overlap *o, Func *func, Op *loop)
{
    *o = (Overlap){.func = func, .loop = loop, .body = loop->regions[0]};
    return matches(o);
}

/* True if a later loop of the chain transforms this one too. */
static bool has_successor(Func *func, const Overlap *o)
{
    Op *after = loop_after(func, o->loop);
    Overlap next;
    return after && find_shape(&next, func, after) && uses_same_rings(&next, o);
}

/* The last loop of a chain transforms the whole chain. */
static void try_loop(Op *op, void *user)
{
    Func *func = user;
    Overlap chain[MAX_CHAIN];
    int first = MAX_CHAIN - 1;
    if (op->kind != OP_FOR || !find_shape(&chain[first], func, op) ||
        has_successor(func, &chain[first]) ||
        !schedule_decide_on(func, "overlap", true,
                            "the second product of a step runs under the next step's "
                            "element-wise work")) {
        return;
    }
    Op *before = loop_before(func, op);
    while (before && first > 0 && find_shape(&chain[first - 1], func, before) &&
           uses_same_rings(&chain[first], &chain[first - 1])) {
        before = loop_before(func, before);
        first--;
    }
    for (int i = first; i < MAX_CHAIN; i++) {
        chain[i].ordered_mma = decide_ordered_mma(&chain[i]);
    }
    overlap_chain(chain + first, MAX_CHAIN - first);
}

void pass_pipeline_dots(Func *func)
{
    func_walk(func, try_loop, func);
    func_remove_dead(func);
}
