/* SPDX-License-Identifier: Apache-2.0 */
/* The grid: blocks run one after the other, the waves of a block alternately. A wave starts with
 * the registers that its kernel's descriptor asks for, and poison in all others. */
#include "tests/codegen/amdgcn/emulator/emulator.h"
#include "tests/codegen/amdgcn/emulator/launch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURN = 20000, MAX_TURNS = 100000 }; /* instructions of a wave before the next one's turn */

void stop(const Wave *wave, const Inst *inst, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "emulator: ");
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n  %s, block %u, wave %d, 0x%llx: %s\n", wave->block->kernel->name,
            wave->block->id, wave->index, (unsigned long long)inst->address, inst->text);
    exit(1);
}

/* ---- what a wave starts with ---- */

static uint32_t word(const uint8_t *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

_Noreturn static void unsupported(const Kernel *kernel, const char *what)
{
    fprintf(stderr, "emulator: %s: %s is not emulated\n", kernel->name, what);
    exit(2);
}

/* User registers in the order of the descriptor's bits, then the block's id. */
static void start_scalars(Wave *wave, uint64_t kernarg)
{
    static const struct {
        const char *name;
        int registers;
    } USER[] = {
        {NULL, 4}, {"the dispatch packet", 2},   {"the queue", 2}, {"", 2}, {"a dispatch id", 2},
        {NULL, 2}, {"a private segment size", 1}};
    const Kernel *kernel = wave->block->kernel;
    uint32_t second = word(kernel->descriptor + 52), properties = word(kernel->descriptor + 56);
    unsigned at = 0, count = second >> 1 & 31;
    for (int bit = 0; bit < 7; bit++) {
        if (!(properties >> bit & 1)) {
            continue;
        }
        if (!USER[bit].name) { /* of scratch memory, which there is none of: poison */
            at += (unsigned)USER[bit].registers;
            continue;
        }
        if (*USER[bit].name) {
            unsupported(kernel, USER[bit].name);
        }
        wave->s[at++] = (uint32_t)kernarg;
        wave->s[at++] = (uint32_t)(kernarg >> 32);
    }
    if (properties >> 16 & 0x7f) {
        unsupported(kernel, "preloading of arguments");
    }
    if (at > count) {
        unsupported(kernel, "a descriptor with fewer user registers than it asks for");
    }
    if (!(second & 1) && kernel->scratch_bytes) {
        unsupported(kernel, "scratch that the descriptor does not ask for");
    }
    at = count;
    if (wave->major >= 12) {
        wave->s[S_TTMP + 9] = wave->block->id;
        wave->s[S_TTMP + 7] = 0;
        return;
    }
    if (second >> 7 & 1) {
        wave->s[at++] = wave->block->id;
    }
    for (int bit = 8; bit < 10; bit++) {
        if (second >> bit & 1) {
            wave->s[at++] = 0;
        }
    }
    if (second >> 10 & 1) {
        unsupported(kernel, "the work-group's info");
    }
}

static void start_vectors(Wave *wave)
{
    const Kernel *kernel = wave->block->kernel;
    int vgprs = kernel->vgprs;
    for (int i = 0; i < N_VECTORS; i++) {
        int limit = i < FIRST_ACC ? vgprs : FIRST_ACC + vgprs;
        for (int lane = 0; i < limit && lane < MAX_LANES; lane++) {
            wave->v[i][lane] = poison_word();
        }
    }
    for (int lane = 0; lane < wave->n; lane++) { /* x, y, z in 10 bits each; blocks have one row */
        wave->v[0][lane] = (uint32_t)(wave->index * wave->n + lane);
    }
}

static void start_wave(Wave *wave, Block *block, int index, uint64_t kernarg)
{
    int first = index * block->kernel->wave_size, lanes = block->threads - first;
    wave->block = block;
    wave->index = index;
    wave->n = block->kernel->wave_size;
    wave->major = block->object->major;
    wave->state = RUNS;
    wave->pc = object_at(block->object, block->kernel->entry);
    wave->scc = false;
    for (int i = 0; i < N_SCALARS; i++) {
        wave->s[i] = poison_word();
    }
    start_scalars(wave, kernarg);
    start_vectors(wave);
    uint64_t exec = lanes >= 64 ? UINT64_MAX : (UINT64_C(1) << lanes) - 1;
    wave->s[S_EXEC] = (uint32_t)exec;
    wave->s[S_EXEC + 1] = wave->n == 64 ? (uint32_t)(exec >> 32) : 0;
    while (wave->first) {
        Pending *next = wave->first->next;
        free(wave->first);
        wave->first = next;
    }
    wave->last = NULL;
    size_t scratch = (size_t)block->kernel->scratch_bytes * MAX_LANES;
    wave->scratch = realloc(wave->scratch, scratch + 1);
    memset(wave->scratch, (int)(poison_word() & 255), scratch);
    memset(wave->vector_waits, 0, sizeof wave->vector_waits);
    memset(wave->scalar_waits, 0, sizeof wave->scalar_waits);
}

/* ---- running ---- */

static void check_registers(const Wave *wave, const Inst *inst)
{
    const Kernel *kernel = wave->block->kernel;
    for (int i = 0; i < inst->n_operands; i++) {
        const Operand *operand = &inst->operands[i];
        int end = operand->at + operand->count;
        if (operand->kind == VECTOR) {
            bool is_acc = operand->at >= FIRST_ACC;
            int most =
                is_acc ? FIRST_ACC + kernel->vgprs - kernel->accum_offset : kernel->accum_offset;
            if (end > most) {
                stop(wave, inst, "%c%d is not allocated", is_acc ? 'a' : 'v',
                     (end - 1) % FIRST_ACC);
            }
        } else if (operand->kind == SCALAR && operand->at < S_VCC && end > kernel->sgprs) {
            stop(wave, inst, "s%d is not allocated", end - 1);
        }
    }
    for (int i = 0; inst->second && i < 2; i++) {
        check_registers(wave, &inst->second[i]);
    }
}

/* An instruction that another kernel of the object ran first is checked by its registers. */
static bool take_turn(Wave *wave)
{
    Block *block = wave->block;
    Inst *code = block->object->code;
    int steps = 0;
    if (wave->state == WAITS && block->phase != wave->phase) {
        wave->state = RUNS;
    }
    for (; wave->state == RUNS && steps < TURN; steps++) {
        const Inst *inst = &code[wave->pc++];
        if (!inst->run) {
            stop(wave, inst, "the end of the code");
        }
        if (!block->checked[inst - code]) {
            check_registers(wave, inst);
            block->checked[inst - code] = 1;
        }
        inst->run(wave, inst);
    }
    block->steps += (uint64_t)steps;
    return steps > 0;
}

static void run_block(Block *block, uint64_t kernarg)
{
    const Kernel *kernel = block->kernel;
    block->alive = block->n_waves;
    block->arrived = block->phase = 0;
    uint32_t nothing = poison_word();
    for (size_t i = 0; i < sizeof block->lds; i += 4) {
        memcpy(block->lds + i, &nothing, sizeof nothing);
    }
    for (int i = 0; i < block->n_waves; i++) {
        start_wave(block->waves[i], block, i, kernarg);
    }
    for (long turn = 0; block->alive > 0; turn++) {
        bool moved = false;
        for (int i = 0; i < block->n_waves; i++) { /* in one order, then in the other */
            int at = (turn + block->id) % 2 ? block->n_waves - 1 - i : i;
            if (block->waves[at]->state != ENDED) {
                moved |= take_turn(block->waves[at]);
            }
        }
        if (!moved || turn > MAX_TURNS) {
            fprintf(stderr, "emulator: %s, block %u: %s\n", kernel->name, block->id,
                    moved ? "it does not end"
                          : "waves wait for a barrier that others do not reach");
            exit(1);
        }
    }
}

uint64_t launch_grid(const Object *object, const Kernel *kernel, unsigned blocks, int threads,
                     uint64_t kernarg)
{
    static Block block;
    uint8_t *checked = calloc(object->n_code, 1);
    block.object = object;
    block.kernel = kernel;
    block.threads = threads;
    block.n_waves = (threads + kernel->wave_size - 1) / kernel->wave_size;
    block.checked = checked;
    block.steps = 0;
    if (block.n_waves > MAX_WAVES || kernel->lds_bytes > (int)sizeof block.lds) {
        unsupported(kernel, "so large a work-group");
    }
    for (int i = 0; i < block.n_waves; i++) {
        block.waves[i] = block.waves[i] ? block.waves[i] : calloc(1, sizeof(Wave));
    }
    for (block.id = 0; block.id < blocks; block.id++) {
        run_block(&block, kernarg);
    }
    free(checked);
    return block.steps;
}
