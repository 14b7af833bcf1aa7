/* SPDX-License-Identifier: Apache-2.0 */
/* A warp: its splits, and the instructions that synchronize lanes and warps. */
#include "tests/codegen/nvptx/emulator/emulator.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void stop(const Warp *warp, const Inst *inst, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "emulator: %s, block %u, warp %d, line %d, %s: ", warp->block->kernel->name,
            warp->block->id, warp->index, inst ? inst->line : 0, inst ? inst->text : "");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void predicate_put(Warp *warp, const Operand *operand, uint32_t mask, uint32_t value)
{
    if (operand->kind != SINK) {
        uint32_t *row = warp->rows + operand->at;
        *row = (*row & ~mask) | (value & mask);
    }
}

/* ---- its life ---- */

static void set_row(Warp *warp, int row, uint32_t value, uint32_t step)
{
    for (uint32_t lane = 0; row && lane < LANES; lane++) {
        warp->rows[(uint32_t)row + lane] = value + lane * step;
    }
}

Warp *warp_new(Block *block, int index)
{
    const Kernel *kernel = block->kernel;
    Warp *warp = calloc(1, sizeof *warp);
    warp->block = block;
    warp->index = index;
    size_t bytes = sizeof *warp->rows * (size_t)kernel->n_rows;
    warp->rows = aligned_alloc(64, (bytes + 63) / 64 * 64);
    memcpy(warp->rows, kernel->rows, bytes);
    warp->local = malloc((size_t)kernel->local_size * LANES + 8);
    poison(warp->local, (size_t)kernel->local_size * LANES);
    int left = kernel->threads - index * LANES;
    warp->live = left >= LANES ? ALL_LANES : (1u << left) - 1;
    warp->splits[0].mask = warp->live;
    warp->n_splits = 1;
    warp->waits_at = -1;
    set_row(warp, kernel->tid, (uint32_t)(index * LANES), 1);
    set_row(warp, kernel->laneid, 0, 1);
    set_row(warp, kernel->ctaid, block->id, 0);
    set_row(warp, kernel->ntid, (uint32_t)kernel->threads, 0);
    set_row(warp, kernel->cluster_rank, (uint32_t)block->rank, 0);
    for (int lane = 0; kernel->shared && lane < LANES; lane++) {
        uint64_t at = SHARED_FIRST + ((uint64_t)block->rank << RANK_SHIFT);
        memcpy(warp->rows + kernel->shared + 2 * lane, &at, sizeof at);
    }
    return warp;
}

void warp_free(Warp *warp)
{
    free(warp->rows);
    free(warp->local);
    free(warp);
}

/* ---- splits ---- */

static void drop_split(Warp *warp, int at)
{
    warp->splits[at] = warp->splits[--warp->n_splits];
}

/* Those that have come to the same place are one again. */
static void merge_splits(Warp *warp)
{
    for (int i = 0; i < warp->n_splits; i++) {
        for (int k = warp->n_splits - 1; k > i; k--) {
            if (warp->splits[k].pc == warp->splits[i].pc) {
                warp->splits[i].mask |= warp->splits[k].mask;
                warp->splits[i].waits = false;
                drop_split(warp, k);
            }
        }
    }
}

/* The one that is furthest behind, and now and then another: it may be what the first waits for. */
static int pick_split(const Warp *warp)
{
    int found = -1;
    bool other = warp->steps % 4096 == 0;
    for (int i = 0; i < warp->n_splits; i++) {
        const Split *split = &warp->splits[i];
        if (!split->waits && (found < 0 || (split->pc < warp->splits[found].pc) != other)) {
            found = i;
        }
    }
    return found;
}

static void end_lanes(Warp *warp, uint32_t mask)
{
    Split *split = &warp->splits[warp->current];
    split->mask &= ~mask;
    warp->live &= ~mask;
    split->pc++;
    if (!split->mask) {
        drop_split(warp, warp->current);
    }
    if (!warp->live) {
        warp->block->alive--;
        warp->block->cluster->alive--;
        copies_check_end(warp);
    }
    for (int i = 0; i < warp->n_splits; i++) {
        warp->splits[i].waits = false;
    }
}

bool warp_run(Warp *warp, int steps)
{
    const Kernel *kernel = warp->block->kernel;
    bool done = false;
    for (int i = 0; i < warp->n_splits; i++) {
        warp->splits[i].waits = false;
    }
    while (steps > 0 && warp->live) { /* a split that only waits takes no step */
        int at = warp->n_splits == 1 ? (warp->splits[0].waits ? -1 : 0) : pick_split(warp);
        if (at < 0) {
            return done;
        }
        warp->current = at;
        Split *split = &warp->splits[at];
        if (split->pc >= kernel->n_code) {
            stop(warp, NULL, "runs past the end");
        }
        const Inst *inst = &kernel->code[split->pc];
        uint32_t mask = split->mask;
        if (inst->guard >= 0) {
            uint32_t guard = warp->rows[inst->guard];
            mask &= inst->guard_negated ? ~guard : guard;
        }
        if (!mask) {
            split->pc++;
        } else {
            if (inst->meets && mask != warp->live) {
                split->waits = true;
                continue;
            }
            Step step = inst->run(warp, inst, mask);
            if (step == WAITS) {
                split->waits = true;
                continue;
            }
            split->pc += step == NEXT;
        }
        steps--;
        warp->steps++;
        emulated_time++;
        done = true;
        if (warp->n_splits > 1) {
            merge_splits(warp);
        }
    }
    return done;
}

/* ---- branches ---- */

static Step run_branch(Warp *warp, const Inst *inst, uint32_t mask)
{
    Split *split = &warp->splits[warp->current];
    uint32_t rest = split->mask & ~mask;
    if (rest) {
        warp->splits[warp->n_splits++] = (Split){.mask = rest, .pc = split->pc + 1};
        split->mask = mask;
    }
    split->pc = inst->target;
    return JUMPED;
}

static Step run_return(Warp *warp, const Inst *inst, uint32_t mask)
{
    (void)inst;
    end_lanes(warp, mask);
    return JUMPED;
}

static Step run_nothing(Warp *warp, const Inst *inst, uint32_t mask)
{
    (void)warp, (void)inst, (void)mask;
    return NEXT;
}

static Step run_fence(Warp *warp, const Inst *inst, uint32_t mask)
{
    (void)inst, (void)mask;
    warp->fenced = emulated_time;
    return NEXT;
}

static Step run_trap(Warp *warp, const Inst *inst, uint32_t mask)
{
    (void)mask;
    stop(warp, inst, "a trap");
}

/* ---- lanes of a warp ---- */

static Step run_shuffle(Warp *warp, const Inst *inst, uint32_t mask)
{
    const Operand *to = &inst->operands[0];
    uint32_t out[LANES], got = 0;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint32_t by = row32(warp, &inst->operands[inst->n - 3])[lane] & 31;
        uint32_t limits = row32(warp, &inst->operands[inst->n - 2])[lane];
        uint32_t segment = limits >> 8 & 31, clamp = limits & 31;
        uint32_t most = (lane & segment) | (clamp & ~segment), least = lane & segment;
        uint32_t from = 0;
        bool inside = true;
        switch (inst->way) {
        case 'i': from = least | (by & ~segment), inside = from <= most; break;
        case 'b': from = lane ^ by, inside = from <= most; break;
        case 'd': from = lane + by, inside = from <= most; break;
        default: from = lane - by, inside = lane >= by && from >= most; break;
        }
        from = inside ? from : lane;
        out[lane] = row32(warp, &inst->operands[inst->n - 4])[from];
        got |= (uint32_t)inside << lane;
        if (!(mask >> from & 1) && mask >> lane & 1) {
            out[lane] = poison_word();
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        if (mask >> lane & 1) {
            lane_put(warp, to, lane, out[lane]);
        }
    }
    if (inst->n == 6) {
        predicate_put(warp, &inst->operands[1], mask, got);
    }
    return NEXT;
}

/* Lanes meet here wherever in the code they are: it is not of the aligned ones. */
static Step run_warp_meeting(Warp *warp, const Inst *inst, uint32_t mask)
{
    const Inst *code = warp->block->kernel->code;
    (void)inst;
    if (mask == warp->live) {
        return NEXT;
    }
    for (int i = 0; i < warp->n_splits; i++) {
        if (code[warp->splits[i].pc].run != run_warp_meeting) {
            return WAITS;
        }
    }
    for (int i = 0; i < warp->n_splits; i++) {
        warp->splits[i].waits = false;
        warp->splits[i].pc += i != warp->current;
    }
    return NEXT;
}

static Step run_vote(Warp *warp, const Inst *inst, uint32_t mask)
{
    uint32_t votes = predicate_get(warp, &inst->operands[1]) & mask;
    if (inst->way == 'b') {
        for (int lane = 0; lane < LANES; lane++) {
            if (mask >> lane & 1) {
                lane_put(warp, &inst->operands[0], lane, votes);
            }
        }
    } else {
        uint32_t all = inst->way == 'a'   ? votes == mask
                       : inst->way == 'o' ? votes != 0
                                          : !votes || votes == mask;
        predicate_put(warp, &inst->operands[0], mask, all ? ALL_LANES : 0);
    }
    return NEXT;
}

static Step run_elect(Warp *warp, const Inst *inst, uint32_t mask)
{
    for (int lane = 0; lane < LANES; lane++) {
        if (mask >> lane & 1) {
            lane_put(warp, &inst->operands[0], lane, (uint32_t)__builtin_ctz(mask));
        }
    }
    predicate_put(warp, &inst->operands[1], mask, mask & (0u - mask));
    return NEXT;
}

/* ---- warps of a block, of a cluster ---- */

/* Threads are counted by warps: those that are aligned come whole. */
static Step run_barrier(Warp *warp, const Inst *inst, uint32_t mask)
{
    Block *block = warp->block;
    (void)mask;
    uint32_t which = row32(warp, &inst->operands[0])[__builtin_ctz(warp->live)];
    int threads = inst->n > 1 ? (int)row32(warp, &inst->operands[1])[0] : block->alive * LANES;
    if (which >= N_NAMED_BARRIERS || threads % LANES) {
        stop(warp, inst, "barrier %u of %d threads", which, threads);
    }
    NamedBarrier *barrier = &block->barriers[which];
    if (warp->waits_at < 0) {
        if (barrier->arrived && inst->n > 1 && barrier->expected != threads) {
            stop(warp, inst, "barrier %u of %d threads, and of %d", which, threads,
                 barrier->expected);
        }
        barrier->expected = threads;
        barrier->arrived += LANES;
        warp->waits_phase = barrier->phase;
        if (!inst->flag) {
            warp->waits_at = (int)which;
        }
    }
    if (barrier->arrived >= threads && barrier->arrived > 0) {
        barrier->phase++;
        barrier->arrived = 0;
    }
    if (!inst->flag) {
        if (barrier->phase == warp->waits_phase) {
            return WAITS;
        }
        warp->waits_at = -1;
    }
    return NEXT;
}

static Step run_cluster_arrive(Warp *warp, const Inst *inst, uint32_t mask)
{
    (void)inst, (void)mask;
    Cluster *cluster = warp->block->cluster;
    warp->cluster_phase = cluster->phase;
    if (++cluster->arrived == cluster->alive) {
        cluster->phase++;
        cluster->arrived = 0;
    }
    return NEXT;
}

static Step run_cluster_wait(Warp *warp, const Inst *inst, uint32_t mask)
{
    (void)inst, (void)mask;
    Cluster *cluster = warp->block->cluster;
    if (cluster->arrived > 0 && cluster->arrived >= cluster->alive) { /* others have ended */
        cluster->phase++;
        cluster->arrived = 0;
    }
    return cluster->phase == warp->cluster_phase ? WAITS : NEXT;
}

static Run *find_meeting(const Opcode *opcode, Inst *inst)
{
    const char *first = opcode->words[0], *second = opcode->words[1];
    inst->meets = true;
    if (strcmp(first, "shfl") == 0 || strcmp(first, "vote") == 0) {
        const char *way = opcode->words[2];
        inst->way = strcmp(way, "all") == 0   ? 'a'
                    : strcmp(way, "any") == 0 ? 'o'
                    : strcmp(way, "uni") == 0 ? 'n'
                                              : *way;
        return *first == 's' ? run_shuffle : run_vote;
    }
    if (strcmp(first, "elect") == 0) {
        return run_elect;
    }
    if (strcmp(first, "bar") == 0 && strcmp(second, "warp") == 0) {
        inst->meets = false;
        return run_warp_meeting;
    }
    if (strcmp(first, "bar") == 0 ||
        (strcmp(first, "barrier") == 0 && strcmp(second, "sync") == 0)) {
        inst->flag = strcmp(second, "arrive") == 0;
        return inst->flag || strcmp(second, "sync") == 0 ? run_barrier : NULL;
    }
    if (strcmp(first, "barrier") == 0 && strcmp(second, "cluster") == 0) {
        return strcmp(opcode->words[2], "arrive") == 0 ? run_cluster_arrive : run_cluster_wait;
    }
    if (strcmp(first, "setmaxnreg") == 0) {
        return run_nothing;
    }
    inst->meets = false;
    return NULL;
}

Run *find_flow(const Opcode *opcode, Inst *inst)
{
    static const char *const nothing[] = {"fence",     "membar",  "griddepcontrol", "prefetch",
                                          "nanosleep", "discard", "prefetchu"};
    const char *first = opcode->words[0];
    if (strcmp(first, "bra") == 0) {
        return run_branch;
    }
    if (strcmp(first, "ret") == 0 || strcmp(first, "exit") == 0) {
        return run_return;
    }
    if (strcmp(first, "fence") == 0 && opcode_has(opcode, "proxy")) {
        return opcode_has(opcode, "async") ? run_fence : NULL;
    }
    if (strcmp(first, "trap") == 0) {
        return run_trap;
    }
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
        if (strcmp(first, nothing[i]) == 0) {
            return run_nothing;
        }
    }
    return find_meeting(opcode, inst);
}
