/* SPDX-License-Identifier: Apache-2.0 */
/* How many registers ptxas allocates is estimated when tiles and blocks are chosen
 * (passes/layout/layout_register_pressure.c). Where a thread spills nevertheless because several
 * blocks were to share a multiprocessor, fewer of them take its place: as many as leave each thread
 * the registers that it spilled. A few registers are left spilled where that happens once, or where
 * fewer blocks would leave memory waiting for accesses; and the first plan stays where the second
 * does not help. What the user gives stays; so do launches whose blocks wait for one another or
 * divide registers among roles, because the number of blocks belongs to their plan. */
#include "codegen/nvptx/ptxas_spills.h"

#include "codegen/plan/plan_builder.h"
#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "support/int_math.h"

#include <stdlib.h>
#include <string.h>

enum {
    FEW_BYTES = 32, /* eight registers: tuned rows of softmax spill three and want all blocks */
    REGISTER_BYTES = 4,
    WARP_ACCESSES = 4, /* of each warp that are under way at once */
};

/* What as much as FEW_BYTES in a step of a loop is worth: of a few hundred instructions. */
static const double WORTH = 0.05;

/* Bytes that a thread of the symbol stores to memory for want of registers. */
static int64_t bytes_spilled(const char *info, const char *symbol)
{
    static const char entry[] = "Compiling entry function '", frame[] = "bytes stack frame, ";
    size_t n = strlen(symbol);
    for (const char *at = strstr(info, entry); at; at = strstr(at, entry)) {
        at += sizeof entry - 1;
        const char *next = strstr(at, entry), *found = strstr(at, frame);
        if (strncmp(at, symbol, n) == 0 && at[n] == '\'' && found && (!next || found < next)) {
            return strtol(found + sizeof frame - 1, NULL, 10);
        }
    }
    return 0;
}

/* Its blocks are independent, and several of them share a multiprocessor's registers. */
static bool has_free_blocks(const Op *launch)
{
    const Block *body = launch->regions[0];
    return op_int(launch, ATTR_OCCUPANCY, 1) > 1 && op_int(launch, ATTR_CLUSTER, 1) == 1 &&
           !block_contains(body, OP_SPIN_LOAD) && !block_contains(body, OP_ROLES);
}

/* Blocks, fewer than now, that leave a thread what it spills in addition. */
static int64_t relieved_blocks(const Target *target, int64_t blocks, int64_t threads, int64_t bytes)
{
    int64_t step = target->register_step, parts = max_i64(1, target->schedulers);
    int64_t now = target->registers / (blocks * threads) / step * step;
    int64_t each =
        min_i64(target->registers_thread, round_up(now + ceil_div(bytes, REGISTER_BYTES), step));
    int64_t warps = target->registers / parts / (target->warp * each) * parts;
    return max_i64(1, min_i64(blocks - 1, warps * target->warp / threads));
}

/* ---- few bytes ---- */

static void see_load(Op *op, void *user)
{
    double *widest = user;
    if (op->kind == OP_LOAD || op->kind == OP_GATHER) {
        double bytes = dtype_bits(op->results[0]->type->dtype) / 8.0;
        bytes *= (double)op_int(op, ATTR_VECTOR, 1);
        *widest = bytes > *widest ? bytes : *widest;
    }
}

/* True if a step of a loop may store and load the few registers, and the time that memory loses by
 * fewer accesses under way is less. */
static bool pays_in_loop(const Func *func, const Op *launch, int64_t blocks, int64_t less,
                         int64_t threads)
{
    double widest = 0;
    Block *body = launch->regions[0];
    if (!block_contains(body, OP_FOR) && !block_contains(body, OP_WHILE)) {
        return false;
    }
    block_walk(body, see_load, &widest);
    double each = widest * WARP_ACCESSES * (double)threads;
    double now = machine_memory_reached(func->target->machine, each * (double)blocks);
    double then = machine_memory_reached(func->target->machine, each * (double)less);
    return then >= (1 - WORTH) * now;
}

/* ---- launches ---- */

/* One launch, and what its threads spill. */
typedef struct Spills {
    Func *func;
    Op *op;
    const char *symbol;
    int64_t bytes, blocks, threads;
} Spills;

static Spills spills_of(Func *func, Op *launch, size_t nth, const char *info)
{
    const char *name = func->symbol ? func->symbol : func->name;
    const char *symbol = arena_printf(func->arena, "%s_%zu", name, nth);
    return (Spills){.func = func,
                    .op = launch,
                    .symbol = symbol,
                    .bytes = bytes_spilled(info, symbol),
                    .blocks = op_int(launch, ATTR_OCCUPANCY, 1),
                    .threads = op_attr(launch, ATTR_WARPS)->ints[0] * func->target->warp};
}

/* Gives the launch fewer blocks; true if it did. */
static bool lower(const Spills *s)
{
    Func *func = s->func;
    if (s->bytes == 0 || !has_free_blocks(s->op) || schedule_user_entry(func, "occupancy", "")) {
        return false;
    }
    int64_t less = relieved_blocks(func->target, s->blocks, s->threads, s->bytes);
    if (s->bytes <= FEW_BYTES && !pays_in_loop(func, s->op, s->blocks, less, s->threads)) {
        return false;
    }
    schedule_decide_int(func, "occupancy", "", less,
                        "with %lld blocks ptxas spilled %lld bytes of a thread's registers: fewer "
                        "blocks leave each thread more",
                        (long long)s->blocks, (long long)s->bytes);
    op_set_int(func, s->op, ATTR_OCCUPANCY, less);
    return true;
}

/* Gives the launch its `blocks` again, with which it spilled no more bytes, or few as now; true if
 * it did. */
static bool restore(const Spills *s, int64_t blocks, int64_t bytes)
{
    if (blocks == 0 || s->bytes == 0 || (bytes > FEW_BYTES && s->bytes < bytes)) {
        return false;
    }
    schedule_decide_int(
        s->func, "occupancy", "", blocks,
        "ptxas spills %lld bytes of a thread's registers: with fewer blocks it does, "
        "too",
        (long long)bytes);
    op_set_int(s->func, s->op, ATTR_OCCUPANCY, blocks);
    return true;
}

bool ptxas_relieve(Func *func, PtxasRelief *relief, const char *info)
{
    LaunchOps launches = plan_launch_ops(func);
    bool changed = false, first = !relief->blocks;
    if (first) {
        relief->info = info;
        relief->blocks = ARENA_ARRAY(func->arena, int64_t, launches.n);
    }
    for (size_t i = 0; i < launches.n && !relief->ended; i++) {
        Spills now = spills_of(func, (Op *)launches.items[i], i, info);
        schedule_at_op(func, now.op);
        if (!first) {
            int64_t before = bytes_spilled(relief->info, now.symbol);
            changed = restore(&now, relief->blocks[i], before) || changed;
        } else if (lower(&now)) {
            relief->blocks[i] = now.blocks;
            changed = true;
        }
    }
    schedule_at_launch(func, EVERY_LAUNCH);
    relief->ended = !first;
    return changed;
}
