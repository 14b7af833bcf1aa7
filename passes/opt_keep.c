/* SPDX-License-Identifier: Apache-2.0 */
/* keep: left operands that a loop does not change are read into registers once.
 *
 *   for %t, %c, %p:                         %r = shared_load %q[%o, :, :]
 *     %s = dot_async %q[%o, :, :], %k[%p]   for %t, %c, %p:
 *     …                               →       %s = dot_async %r, %k[%p]
 *
 * An instruction of 64 rows reads its left operand, as much as a right one of 64 columns, from
 * shared memory at each step, and then takes all that shared memory can bring: products of few
 * columns run at its rate. Registers bring theirs beside it. Where registers hold it all: sums that
 * the loop carries, what a step's first products come to, what the last one reads, and these.
 * Requires: stage. Changes no bits. */
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/unit.h"
#include "passes/pass.h"

enum {
    MOST_KEPT = 8,
    SPARE_REGISTERS = 28, /* of a thread: addresses, and what is at work of a tile */
    FEW_COLUMNS = 64,     /* of a product whose operands take all that shared memory brings */
    LEAST_PRODUCTS = 3,   /* of a step: two leave shared memory free under the work between them */
};

typedef struct Keep {
    Func *func;
    Op *loop;
    Block *body;
    Op *dots[MOST_KEPT];
    int n;
    int products;
    int64_t held, more; /* bytes that a step holds; of the operands to be kept */
} Keep;

static int64_t bytes_of(Type type)
{
    int64_t n = dtype_bytes(type->dtype);
    for (int i = 0; i < type->rank; i++) {
        n *= poly_capacity(type->dims[i]);
    }
    return n;
}

/* Rows of shared memory, with k along them, that the loop does not change. */
static bool is_kept(const Keep *keep, const Op *dot)
{
    Access left = op_access_nth(dot, 0);
    const char *unit = op_word(dot, ATTR_UNIT);
    if (!unit || !text_same(unit, "wgmma") || left.n != 3 || op_int(dot, ATTR_TA, 0) ||
        op_int(dot, ATTR_JOINED, 0) || unit_left_is_read(keep->func->target, dot) ||
        dtype_bytes(left.memory->type->dtype) != 2 || dtype_is_packed(left.memory->type->dtype)) {
        return false;
    }
    Type result = dot->results[0]->type;
    const Value *at = left.indices[0];
    bool outside = at && at->block != keep->body && !(at->def && at->def->parent == keep->body);
    return outside && !left.indices[1] && !left.indices[2] &&
           poly_capacity(result->dims[1]) <= FEW_COLUMNS &&
           poly_capacity(result->dims[0]) == poly_capacity(left.memory->type->dims[1]);
}

/* Writes to shared memory are other tiles' than those that are kept, which are not written while
 * the loop runs. */
static void measure(Keep *keep)
{
    int64_t sums = 0, left = 0, results = 0;
    for (int i = 1; i < keep->body->n_args; i++) {
        Type type = keep->body->args[i]->type;
        sums += type->kind == TYPE_ARRAY && type->rank > 1 ? bytes_of(type) : 0;
    }
    for (Op *op = keep->body->first; op; op = op->next) {
        if (op->kind != OP_DOT_ASYNC) {
            continue;
        }
        keep->products++;
        Access access = op_access_nth(op, 0);
        int right = access_next(op, 0);
        bool goes_on = access_next(op, right) < op->n_operands;
        results += goes_on ? 0 : bytes_of(op->results[0]->type);
        int64_t bytes = access.n > 0 ? 0 : bytes_of(access.memory->type);
        left = bytes > left ? bytes : left;
        if (keep->n < MOST_KEPT && is_kept(keep, op)) {
            keep->dots[keep->n++] = op;
            keep->more +=
                bytes_of(access.memory->type) / poly_capacity(access.memory->type->dims[0]);
        }
    }
    keep->held = sums + left + results;
}

static bool has_room(const Keep *keep)
{
    const Op *roles = op_enclosing(keep->loop, OP_ROLES);
    const Attr *warps = roles ? op_attr(roles, ATTR_WARPS) : NULL;
    const Attr *registers = roles ? op_attr(roles, ATTR_REGISTERS) : NULL;
    if (!warps || !registers) {
        return false;
    }
    const Attr *teams = op_attr(roles, ATTR_TEAMS);
    int last = warps->n - 1; /* the consumer */
    int64_t threads =
        warps->ints[last] * keep->func->target->warp / (teams ? teams->ints[last] : 1);
    return (keep->held + keep->more) / 4 / threads <= registers->ints[last] - SPARE_REGISTERS;
}

static void read_once(Keep *keep, Op *dot)
{
    Access left = op_access_nth(dot, 0);
    Builder b = build_before(keep->func, keep->loop);
    Dim dims[] = {dot->results[0]->type->dims[0], left.memory->type->dims[2]};
    Type tile = type_with_dims(keep->func, dot->results[0]->type, 2, dims);
    tile = type_with_dtype(keep->func, tile, left.memory->type->dtype);
    Value *place[] = {left.memory, left.indices[0], NULL, NULL};
    Value *kept = build_op(&b, OP_SHARED_LOAD, 4, place, 1, &tile, 0)->results[0];
    kept->name = left.memory->name;
    Value *operands[2 * MAX_RANK + 4];
    int n = 0;
    operands[n++] = kept;
    for (int i = access_next(dot, 0); i < dot->n_operands; i++) {
        operands[n++] = dot->operands[i];
    }
    op_set_operands(keep->func, dot, n, operands);
}

static void try_loop(Op *op, void *user)
{
    Keep keep = {.func = user, .loop = op, .body = op->n_regions ? op->regions[0] : NULL};
    if (op->kind != OP_FOR || op_int(op, ATTR_ONCE, 0)) {
        return;
    }
    measure(&keep);
    if (keep.n == 0 || keep.products < LEAST_PRODUCTS || !has_room(&keep) ||
        !text_same(schedule_word(keep.func, "left", "", "shared",
                                 "products of %d columns read both operands there; registers could "
                                 "hold the left ones",
                                 FEW_COLUMNS),
                   "registers")) {
        return;
    }
    for (int i = 0; i < keep.n; i++) {
        read_once(&keep, keep.dots[i]);
    }
}

void pass_opt_keep(Func *func)
{
    func_walk(func, try_loop, func);
}
