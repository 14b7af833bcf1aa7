/* SPDX-License-Identifier: Apache-2.0 */
/* How many registers ptxas allocates is estimated when tiles and blocks are chosen
 * (passes/layout/layout_register_pressure.c). Where a thread spills nevertheless because several
 * blocks were to share a multiprocessor, fewer of them take its place: as many as leave each thread
 * the registers that it spilled. What the user gives stays; so do launches whose blocks wait for
 * one another or divide registers among roles, because the number of blocks belongs to their
 * plan. */
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
};

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
    int64_t each = min_i64(target->registers_thread,
                           round_up(now + ceil_div(bytes, REGISTER_BYTES), step));
    int64_t warps = target->registers / parts / (target->warp * each) * parts;
    return max_i64(1, min_i64(blocks - 1, warps * target->warp / threads));
}

bool ptxas_relieve(Func *func, const char *info)
{
    LaunchOps launches = plan_launch_ops(func);
    bool changed = false;
    for (size_t i = 0; i < launches.n; i++) {
        Op *launch = (Op *)launches.items[i];
        const char *name = func->symbol ? func->symbol : func->name;
        int64_t bytes = bytes_spilled(info, arena_printf(func->arena, "%s_%zu", name, i));
        int64_t blocks = op_int(launch, ATTR_OCCUPANCY, 1);
        if (bytes <= FEW_BYTES || !has_free_blocks(launch)) {
            continue;
        }
        schedule_at_op(func, launch);
        if (!schedule_user_entry(func, "occupancy", "")) {
            int64_t threads = op_attr(launch, ATTR_WARPS)->ints[0] * func->target->warp;
            int64_t less = relieved_blocks(func->target, blocks, threads, bytes);
            schedule_decide_int(func, "occupancy", "", less,
                                "with %lld blocks ptxas spilled %lld bytes of a thread's "
                                "registers: fewer blocks leave each thread more",
                                (long long)blocks, (long long)bytes);
            op_set_int(func, launch, ATTR_OCCUPANCY, less);
            changed = true;
        }
        schedule_at_launch(func, EVERY_LAUNCH);
    }
    return changed;
}
