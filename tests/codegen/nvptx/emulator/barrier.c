/* SPDX-License-Identifier: Apache-2.0 */
/* mbarriers: the arrivals and bytes of a phase. In memory an mbarrier is the pending bytes, the
 * pending arrivals, the arrivals per phase, and the parity of the phase in the top bit. */
#include "tests/codegen/nvptx/emulator/emulator.h"

#include <stdlib.h>
#include <string.h>

typedef struct Barrier {
    int32_t bytes;
    uint16_t pending, expected;
} Barrier;
enum { PARITY = 0x8000, MAX_ARRIVALS = 4096 };

static Barrier barrier_read(const Warp *warp, const Inst *inst, const uint8_t *at)
{
    Barrier barrier;
    memcpy(&barrier, at, sizeof barrier);
    unsigned expected = barrier.expected & (PARITY - 1);
    if (expected == 0 || expected > MAX_ARRIVALS || barrier.pending > expected) {
        stop(warp, inst, "there is no barrier");
    }
    return barrier;
}

static void barrier_write(uint8_t *at, Barrier barrier)
{
    if (barrier.pending == 0 && barrier.bytes == 0) {
        barrier.expected ^= PARITY;
        barrier.pending = barrier.expected & (PARITY - 1);
    }
    memcpy(at, &barrier, sizeof barrier);
}

void barrier_complete(const Warp *warp, const Inst *inst, Block *block, uint32_t offset,
                      int64_t bytes)
{
    uint8_t *at = block_shared(warp, inst, block, offset, sizeof(Barrier));
    Barrier barrier = barrier_read(warp, inst, at);
    barrier.bytes -= (int32_t)bytes;
    barrier_write(at, barrier);
}

static uint8_t *barrier_of(const Warp *warp, const Inst *inst, const Operand *operand, int lane)
{
    return shared_at(warp, inst, address_of(warp, operand, lane), sizeof(Barrier), 8);
}

static Step run_init(Warp *warp, const Inst *inst, uint32_t mask)
{
    for (int lane = 0; lane < LANES; lane++) {
        if (mask >> lane & 1) {
            uint8_t *at = barrier_of(warp, inst, &inst->operands[0], lane);
            uint16_t count = (uint16_t)lane_get(warp, &inst->operands[1], lane);
            memcpy(at, &(Barrier){.pending = count, .expected = count}, sizeof(Barrier));
        }
    }
    return NEXT;
}

/* way: 'a' an arrival, 'e' one with bytes, 'x' bytes alone */
static Step run_arrive(Warp *warp, const Inst *inst, uint32_t mask)
{
    int at = inst->operands[0].kind == MEMORY ? 0 : 1;
    for (int lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1)) {
            continue;
        }
        uint8_t *memory = barrier_of(warp, inst, &inst->operands[at], lane);
        Barrier barrier = barrier_read(warp, inst, memory);
        uint32_t number =
            inst->n > at + 1 ? (uint32_t)lane_get(warp, &inst->operands[at + 1], lane) : 1;
        uint32_t arrivals = inst->way == 'a' ? number : inst->way == 'e';
        if (arrivals > barrier.pending) {
            stop(warp, inst, "more arrivals than the barrier has");
        }
        barrier.bytes += inst->way == 'a' ? 0 : (int32_t)number;
        barrier.pending = (uint16_t)(barrier.pending - arrivals);
        barrier_write(memory, barrier);
    }
    return NEXT;
}

/* Lanes whose phase is over go on. */
static Step run_wait(Warp *warp, const Inst *inst, uint32_t mask)
{
    uint32_t done = 0;
    for (int lane = 0; lane < LANES; lane++) {
        if (mask >> lane & 1) {
            const uint8_t *at = barrier_of(warp, inst, &inst->operands[1], lane);
            Barrier barrier = barrier_read(warp, inst, at);
            uint32_t parity = (uint32_t)lane_get(warp, &inst->operands[2], lane) & 1;
            done |= (uint32_t)(parity != (uint32_t)(barrier.expected & PARITY) >> 15) << lane;
        }
    }
    Split *split = &warp->splits[warp->current];
    if (!done && mask == split->mask && warp->tried == inst) {
        return WAITS;
    }
    warp->tried = done ? NULL : inst; /* the first time it may give up: there has to be a loop */
    predicate_put(warp, &inst->operands[0], mask, done);
    return NEXT;
}

Run *find_barrier(const Opcode *opcode, Inst *inst)
{
    if (strcmp(opcode->words[0], "mbarrier") != 0 || opcode->n < 2) {
        return NULL;
    }
    const char *what = opcode->words[1];
    if (strcmp(what, "init") == 0) {
        return run_init;
    }
    if (strcmp(what, "arrive") == 0 || strcmp(what, "expect_tx") == 0) {
        inst->way = *what == 'e' ? 'x' : opcode_has(opcode, "expect_tx") ? 'e' : 'a';
        return run_arrive;
    }
    return strcmp(what, "try_wait") == 0 && opcode_has(opcode, "parity") ? run_wait : NULL;
}
