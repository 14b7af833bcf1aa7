/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the number of warps of each role and the registers of its threads. Registers are
 * exchanged between whole warp groups (setmaxnreg), and a role waits until others have released
 * enough: if the roles requested more than the block has, it would hang. */
#include "passes/stage/stage.h"

#include "ir/ir_errors.h"
#include "support/int_math.h"

enum { CONSUMER_REGISTERS = 240 };

static const char *const NAMES[] = {"producer", "consumer"};

/* Points at the line of the source, if one says it. */
static void refuse(StageContext *s, const char *key, const char *sub, const char *what,
                   const char *help)
{
    const ScheduleEntry *line = schedule_user_entry(s->func, key, sub);
    Diag *d = diag_error(s->func->diags, ERR_ROLES, line ? line->span : SPAN_NONE, "%s", what);
    diag_help(s->func->diags, d, "%s", help);
}

static bool check_warps(StageContext *s, const RoleResources *shares, int role)
{
    Arena *arena = s->func->arena;
    const Target *target = s->func->target;
    int64_t warps = shares->warps[role], most = target->max_threads / target->warp;
    int group = target->group_warps;
    if (warps >= group && warps % group == 0 && warps <= most - group) {
        return true;
    }
    refuse(s, "warps", role == 0 ? "producer" : "",
           arena_printf(arena, "a %s of %lld warps is not possible", NAMES[role], (long long)warps),
           arena_printf(arena,
                        "registers move by groups of warps: a multiple of %d, at most %lld; `copy "
                        "registers` does without roles",
                        group, (long long)(most - group)));
    return false;
}

static bool check_registers(StageContext *s, const RoleResources *shares, int role)
{
    Arena *arena = s->func->arena;
    const Target *target = s->func->target;
    int64_t registers = shares->registers[role];
    int step = target->register_step, most = target->registers_thread / step * step;
    if (registers >= target->setmaxnreg_min && registers <= most && registers % step == 0) {
        return true;
    }
    refuse(
        s, "registers", NAMES[role],
        arena_printf(arena, "a %s of %lld registers a thread is not possible", NAMES[role],
                     (long long)registers),
        arena_printf(arena, "a multiple of %d from %d to %d", step, target->setmaxnreg_min, most));
    return false;
}

static bool check_block(StageContext *s, const RoleResources *shares)
{
    const Target *target = s->func->target;
    Arena *arena = s->func->arena;
    int64_t all = shares->warps[0] + shares->warps[1], most = target->max_threads / target->warp;
    if (all <= most) {
        return true;
    }
    refuse(s, "warps", "producer",
           arena_printf(arena, "%lld warps that compute and %lld that copy do not fit a block",
                        (long long)shares->warps[1], (long long)shares->warps[0]),
           arena_printf(arena, "a block of %s has at most %lld", target->name, (long long)most));
    return false;
}

/* What a block has to share out: a launch gives every thread the same count, a multiple of 8, and
 * what a multiprocessor has beyond it belongs to no role (a role that waited for it would hang). */
static int64_t registers_launched(const StageContext *s, const RoleResources *shares,
                                  int64_t blocks)
{
    const Target *target = s->func->target;
    int64_t threads = (shares->warps[0] + shares->warps[1]) * target->warp;
    int64_t all = target->registers / blocks;
    return all / threads / target->register_step * target->register_step * threads;
}

static void check_sum(StageContext *s, const RoleResources *shares)
{
    const Target *target = s->func->target;
    Arena *arena = s->func->arena;
    int64_t give = shares->warps[0] * target->warp, take = shares->warps[1] * target->warp;
    int64_t all = give * shares->registers[0] + take * shares->registers[1];
    int64_t launched = registers_launched(s, shares, op_int(s->launch, ATTR_OCCUPANCY, 1));
    if (all > launched) {
        bool consumer = schedule_user_entry(s->func, "registers", "consumer") != NULL;
        refuse(s, "registers", NAMES[consumer],
               arena_printf(arena,
                            "the roles want %lld threads * %lld + %lld threads * %lld = %lld "
                            "registers",
                            (long long)give, (long long)shares->registers[0], (long long)take,
                            (long long)shares->registers[1], (long long)all),
               arena_printf(arena, "a block of %lld threads of %s is given %lld",
                            (long long)(give + take), target->name, (long long)launched));
    }
}

/* What the producer leaves, as far as one thread can use it. */
static int64_t registers_left(const StageContext *s, const RoleResources *shares, int64_t blocks)
{
    int64_t left = registers_launched(s, shares, blocks) / s->func->target->warp -
                   shares->warps[0] * shares->registers[0];
    int64_t step = s->func->target->register_step, least = s->func->target->setmaxnreg_min;
    int64_t each = left / shares->warps[1] / step * step;
    return clamp_i64(each, least, CONSUMER_REGISTERS);
}

int64_t stage_registers(const StageContext *s, int64_t consumer_warps, int64_t blocks)
{
    const Target *target = s->func->target;
    RoleResources shares = {{target->group_warps, consumer_warps}, {target->setmaxnreg_min, 0}};
    return registers_left(s, &shares, blocks);
}

RoleResources stage_role_resources(StageContext *s, int64_t consumer_warps)
{
    const Target *target = s->func->target;
    RoleResources shares = {.warps[1] = consumer_warps, .registers[1] = CONSUMER_REGISTERS};
    shares.warps[0] = schedule_decide_int(s->func, "warps", "producer", target->group_warps,
                                          "a warp group of which one thread issues copies");
    shares.registers[0] = schedule_decide_int(s->func, "registers", "producer",
                                              target->setmaxnreg_min, "copying needs few");
    if (!check_warps(s, &shares, 0) || !check_warps(s, &shares, 1) || !check_block(s, &shares) ||
        !check_registers(s, &shares, 0)) {
        return shares;
    }
    shares.registers[1] =
        schedule_decide_int(s->func, "registers", "consumer",
                            registers_left(s, &shares, op_int(s->launch, ATTR_OCCUPANCY, 1)),
                            "accumulators stay in registers");
    if (check_registers(s, &shares, 1)) {
        check_sum(s, &shares);
    }
    return shares;
}
