/* SPDX-License-Identifier: Apache-2.0 */
/* warpgroup_epilogue: lets each warp group store its rows without a barrier over all of them.
 *
 *   bulk_wait                              bulk_wait warpgroups=2
 *   barrier                                barrier warpgroups=2
 *   shared_store %s[…], %x           →     shared_store %s[…], %x
 *   fence_async                            fence_async
 *   barrier                                barrier warpgroups=2
 *   bulk_store %s[…], %y[…]                bulk_store %s[…], %y[…] warpgroups=2
 *
 * Each warp group owns separate rows of a dot's tile. When it has written them to shared memory,
 * one of its threads issues their bulk copy, which touches no rows of another group. With barriers
 * over all groups, the group that finishes first waits in its epilogue for the last one, and the
 * matrix unit is idle; with barriers per group, it starts the dots of the next tile during the
 * epilogue of the others.
 *
 * The price: groups that are out of step occupy two pipeline stages of a ring buffer, so copies run
 * ahead by one stage less. Tiles of many steps, whose epilogue is short in comparison, keep the
 * common barriers, unless threads add partial sums to an accumulator: then one group adds while
 * another multiplies. Roles in which other data passes between warps keep them too, since that
 * may rely on these barriers, and so do rings that hold scales.
 *
 * Requires layouts. Changes no values. */
#include "ir/build.h"
#include "ir/layout/layout.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/pass.h"
#include "support/int_math.h"

enum {
    GROUP_BITS = 2,
    STEPS = 6,
    MAX_STEPS = 32, /* of 64 elements; measured in docs/lab/products.md */
};

static const OpKind SEQUENCE[STEPS] = {OP_BULK_WAIT,   OP_BARRIER, OP_SHARED_STORE,
                                       OP_FENCE_ASYNC, OP_BARRIER, OP_BULK_STORE};

/* True if each warp group owns equally many contiguous rows that no other group owns. */
static bool has_own_rows(Type type, int groups)
{
    const Layout *layout = type->layout;
    int64_t rows = type->rank == 2 ? poly_capacity(type->dims[0]) : 0;
    if (!layout || rows % groups || rows / groups % 8) {
        return false;
    }
    int64_t own = rows / groups;
    if (own & (own - 1)) {
        return false;
    }
    for (int in = 0; in < IN_COUNT; in++) {
        for (int bit = 0; bit < layout->bits[in]; bit++) {
            int64_t step = layout->basis[in][bit][0];
            bool group = in == IN_WARP && bit >= GROUP_BITS;
            if (group ? step != own << (bit - GROUP_BITS) || layout->basis[in][bit][1]
                      : step >= own) {
                return false;
            }
        }
    }
    return layout->bits[IN_WARP] > GROUP_BITS;
}

/* The ops of a store through shared memory, up to the copy; false: they do not follow so. */
static bool find_sequence(Op *copy, Op **ops)
{
    Op *op = copy;
    for (int i = STEPS; i-- > 0; op = op->prev) {
        bool last = i == STEPS - 1;
        while (op && op->kind != SEQUENCE[i] && !last && op_has(op, TRAIT_PURE) &&
               !op_has(op, TRAIT_ACCESS)) {
            op = op->prev;
        }
        if (!op || op->kind != SEQUENCE[i]) {
            return false;
        }
        ops[i] = op;
    }
    return ops[2]->operands[0] == copy->operands[0];
}

typedef struct Role {
    int groups;
    int syncs, stores; /* of a sequence each copy has two barriers and a store */
    int64_t steps;     /* iterations of a tile: the maximum through nested loops */
    bool adds;         /* threads add partial sums to an accumulator */
    bool plain;
    struct {
        Op **items;
        size_t n, cap;
    } copies, waits;
    Func *func;
} Role;

static int64_t more(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Of a loop and of those around it; more than MAX_STEPS where it is not known. */
static int64_t steps_of(const Op *op)
{
    int64_t all = 1;
    for (; op && op->kind == OP_FOR; op = op->parent->parent) {
        const Type range = op->regions[0]->args[0]->type;
        int64_t step = range->kind == TYPE_RANGE ? more(1, poly_capacity(range->dims[0])) : 1;
        const Attr *dims = op_attr(op, ATTR_DIMS);
        int64_t most = dims ? poly_most(dims->dims[0]) : INT64_MAX;
        int64_t steps = most < INT64_MAX ? ceil_div(most, step) : MAX_STEPS + 1;
        if (__builtin_mul_overflow(all, steps, &all)) {
            return INT64_MAX;
        }
    }
    return all;
}

static bool adds_settled(const Op *op)
{
    bool settled = false;
    for (int i = 0; op->kind == OP_ADD && i < op->n_operands; i++) {
        const Op *def = op->operands[i]->def;
        settled = settled || (def && def->kind == OP_DOT_WAIT);
    }
    return settled;
}

static void see(Op *op, void *user)
{
    Role *role = user;
    role->adds = role->adds || adds_settled(op);
    switch (op->kind) {
    case OP_BARRIER: role->syncs++; return;
    case OP_SHARED_STORE: role->stores++; return;
    case OP_BULK_STORE: ARENA_PUSH(role->func->arena, &role->copies, op); return;
    case OP_BULK_WAIT: ARENA_PUSH(role->func->arena, &role->waits, op); return;
    case OP_FENCE_ASYNC:
    case OP_WAIT:
    case OP_ARRIVE:
    case OP_DOT_ASYNC:
    case OP_DOT_WAIT:
    case OP_LOAD:
    case OP_FOR: role->steps = more(role->steps, steps_of(op)); return;
    case OP_TILE_LOOP:
    case OP_YIELD: return;
    case OP_REDUCE:
    case OP_CONVERT: role->plain = false; return;
    default:
        role->plain = role->plain && op_has(op, TRAIT_PURE) && !op_has(op, TRAIT_ACCESS) &&
                      op->n_regions == 0;
        return;
    }
}

/* True if only this store uses the buffer. A buffer that an operand lends is read by other
 * groups until all have passed the barrier. */
static bool is_own(Func *func, const Op *copy)
{
    return value_count_uses(func, copy->operands[0]) == 2;
}

static const char *reason(const Role *role, bool few)
{
    if (role->adds) {
        return "what steps come to is added by threads: one warp group's sums run under another's "
               "products";
    }
    return few ? "few steps a tile: a warp group that is done continues to the next one"
               : "many steps a tile: warp groups out of step would hold slots of the rings for "
                 "longer";
}

static void consider(Func *func, const Op *roles, int region)
{
    const Attr *warps = op_attr(roles, ATTR_WARPS), *teams = op_attr(roles, ATTR_TEAMS);
    Role role = {.func = func,
                 .plain = true,
                 .groups = (int)warps->ints[region] / func->target->group_warps};
    if (warps->ints[region] % func->target->group_warps || role.groups < 2 ||
        (teams && teams->ints[region] > 1)) {
        return;
    }
    block_walk(roles->regions[region], see, &role);
    bool all = role.plain && role.copies.n > 0 && role.syncs == 2 * (int)role.copies.n &&
               role.stores == (int)role.copies.n;
    for (size_t i = 0; i < role.copies.n && all; i++) {
        Op *ops[STEPS];
        all = find_sequence(role.copies.items[i], ops) && is_own(func, role.copies.items[i]) &&
              has_own_rows(ops[2]->operands[ops[2]->n_operands - 1]->type, role.groups);
    }
    bool few = role.adds || role.steps <= MAX_STEPS;
    all =
        all && text_equal(schedule_decide_symbol(func, "epilogue", "", few ? "warpgroup" : "block",
                                                 "%s", reason(&role, few)),
                          "warpgroup");
    for (size_t i = 0; i < role.copies.n && all; i++) {
        Op *ops[STEPS];
        find_sequence(role.copies.items[i], ops);
        for (int k = 0; k < STEPS; k++) {
            if (SEQUENCE[k] == OP_BARRIER || SEQUENCE[k] == OP_BULK_STORE) {
                op_set_int(func, ops[k], ATTR_WARPGROUPS, role.groups);
            }
        }
    }
    for (size_t i = 0; i < role.waits.n && all; i++) {
        op_set_int(func, role.waits.items[i], ATTR_WARPGROUPS, role.groups);
    }
}

static void see_roles(Op *op, void *user)
{
    for (int i = 0; op->kind == OP_ROLES && i < op->n_regions; i++) {
        consider(user, op, i);
    }
}

void pass_warpgroup_epilogue(Func *func)
{
    if (func->target && func->target->has_bulk_copy) {
        func_walk(func, see_roles, func);
    }
}
