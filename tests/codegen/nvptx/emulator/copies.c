/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous copies: cp.async, TMA in tiled and im2col mode, and messages within a cluster. A
 * destination is poison from the start of its copy on; the source is read at the end. */
#include "tests/codegen/nvptx/emulator/emulator.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DELAY = 48 };

typedef enum Kind { SMALL, BOX_LOAD, BOX_STORE, MESSAGE } Kind;
struct Copy {
    Copy *next;
    Kind kind;
    Warp *warp; /* that waits for it */
    const Inst *inst;
    Block *block; /* of the shared memory */
    int lane, group, delay;
    uint32_t shared; /* offset */
    uint64_t global;
    unsigned size, from_global;
    const Map *map;
    int64_t place[8], offset[3];
    uint32_t blocks; /* of the cluster, that get a box */
    Block *told;
    uint32_t barrier;
    uint8_t data[16];
};

Map maps[MAX_MAPS];
int n_maps;
static Copy *told; /* those that tell a barrier */

unsigned random_below(unsigned n)
{
    static uint64_t state = UINT64_C(0x9e3779b97f4a7c15);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state >> 33) % n;
}

static Copy *copy_new(Warp *warp, const Inst *inst, Kind kind)
{
    Copy *copy = calloc(1, sizeof *copy);
    copy->kind = kind;
    copy->warp = warp;
    copy->inst = inst;
    copy->block = warp->block;
    copy->delay = (int)random_below(MAX_DELAY);
    Copy **first = kind == BOX_LOAD || kind == MESSAGE ? &told : &warp->copies;
    copy->next = *first; /* the order does not matter */
    *first = copy;
    return copy;
}

/* ---- boxes ---- */

static uint32_t swizzled(uint32_t at, int bytes)
{
    uint32_t rows = (uint32_t)bytes / 16;
    return bytes ? at ^ (at >> 7 & (rows - 1)) << 4 : at;
}

typedef enum Way { POISONS, LOADS, STORES, CHECKS } Way;

static uint32_t tf32_of(uint32_t bits)
{
    return (bits + 0xfff + (bits >> 13 & 1)) & 0xffffe000;
}

/* Up to 16 bytes, which lie together in shared memory: `n` elements along axis 0 from `at`. */
static void move_run(const Copy *copy, Way way, uint32_t linear, const int64_t *at, int n)
{
    const Map *map = copy->map;
    unsigned size = (unsigned)(map->element * n);
    bool inside = at[0] >= 0 && at[0] + n <= map->dims[0];
    uint64_t address = map->address + (uint64_t)(at[0] * map->element);
    for (int i = 1; i < map->rank; i++) {
        inside = inside && at[i] >= 0 && at[i] < map->dims[i];
        address += (uint64_t)(at[i] * map->strides[i]);
    }
    uint32_t offset = swizzled(copy->shared + linear, map->swizzle);
    uint8_t value[16] = {0};
    if (way == LOADS && inside) {
        memcpy(value, global_at(copy->warp, copy->inst, address, size, 1, false), size);
        for (unsigned i = 0; map->tf32 && i < size; i += 4) {
            uint32_t bits;
            memcpy(&bits, value + i, sizeof bits);
            bits = tf32_of(bits);
            memcpy(value + i, &bits, sizeof bits);
        }
    }
    if (way == CHECKS) {
        if (inside) {
            block_shared(copy->warp, copy->inst, copy->block, offset, size);
            shared_check(copy->warp, copy->inst, offset, size);
        }
        return;
    }
    if (way == STORES) {
        if (inside) {
            memcpy(global_at(copy->warp, copy->inst, address, size, 1, true),
                   block_shared(copy->warp, copy->inst, copy->block, offset, size), size);
        }
        return;
    }
    const Cluster *cluster = copy->block->cluster;
    for (int i = 0; i < cluster->n; i++) {
        if (copy->blocks >> i & 1) {
            uint8_t *to = block_shared(copy->warp, copy->inst, cluster->blocks[i], offset, size);
            if (way == POISONS) {
                shared_check_reads(copy->warp, copy->inst, cluster->blocks[i], offset, size);
                poison(to, size);
            } else {
                memcpy(to, value, size);
                shared_clean(cluster->blocks[i], offset, size);
            }
        }
    }
}

/* A row of the box, in parts: whole ones, and single elements at the tensor's edges. */
static void move_row(const Copy *copy, Way way, uint32_t linear, const int64_t *row, int64_t n)
{
    int64_t at[8];
    memcpy(at, row, sizeof at);
    int whole = 16 / copy->map->element;
    for (int64_t done = 0; done < n;) {
        bool across = at[0] < copy->map->dims[0] && at[0] + whole > copy->map->dims[0];
        int step = across || (at[0] < 0 && at[0] + whole > 0) ? 1 : whole;
        step = step > n - done ? 1 : done % whole ? 1 : step;
        move_run(copy, way, linear, at, step);
        at[0] += step;
        done += step;
        linear += (uint32_t)(step * copy->map->element);
    }
}

static void move_box(const Copy *copy, Way way)
{
    const Map *map = copy->map;
    int64_t at[8], index[8] = {0};
    for (uint32_t linear = 0;; linear += (uint32_t)(map->element * map->box[0])) {
        for (int i = 0; i < map->rank; i++) {
            at[i] = copy->place[i] + index[i];
        }
        move_row(copy, way, linear, at, map->box[0]);
        int i = 1;
        while (i < map->rank && ++index[i] == map->box[i]) {
            index[i++] = 0;
        }
        if (i >= map->rank) {
            return;
        }
    }
}

/* Pixels one after the other, each at its window's place. */
static void move_windows(const Copy *copy, Way way)
{
    const Map *map = copy->map;
    int64_t pixel[8], at[8];
    uint32_t linear = 0;
    memcpy(pixel, copy->place, sizeof pixel);
    for (int64_t n = 0; n < map->box[1]; n++) {
        memcpy(at, pixel, sizeof at);
        for (int i = 0; i < map->n_windows; i++) {
            at[1 + i] += copy->offset[i];
        }
        move_row(copy, way, linear, at, map->box[0]);
        linear += (uint32_t)(map->element * map->box[0]);
        int i = 0;
        for (; i < map->n_windows; i++) {
            pixel[1 + i] += map->step[i];
            if (pixel[1 + i] <= map->dims[1 + i] - 1 + map->upper[i]) {
                break;
            }
            pixel[1 + i] = map->lower[i];
        }
        pixel[1 + map->n_windows] += i == map->n_windows;
    }
}

static void move_all(const Copy *copy, Way way)
{
    (copy->map->n_windows ? move_windows : move_box)(copy, way);
}

static int64_t box_bytes(const Map *map)
{
    int64_t bytes = map->element;
    for (int i = 0; i < (map->n_windows ? 2 : map->rank); i++) {
        bytes *= map->box[i];
    }
    return bytes;
}

/* ---- their end ---- */

static void tell(const Copy *copy)
{
    if (copy->kind == MESSAGE) {
        barrier_complete(copy->warp, copy->inst, copy->told, copy->barrier, copy->size);
        return;
    }
    const Cluster *cluster = copy->block->cluster;
    for (int i = 0; i < cluster->n; i++) {
        if (copy->blocks >> i & 1) {
            barrier_complete(copy->warp, copy->inst, cluster->blocks[i], copy->barrier,
                             box_bytes(copy->map));
        }
    }
}

static void finish(const Copy *copy)
{
    uint8_t *shared = NULL;
    if (copy->kind == SMALL || copy->kind == MESSAGE) {
        shared = block_shared(copy->warp, copy->inst, copy->block, copy->shared, copy->size);
    }
    switch (copy->kind) {
    case SMALL:
        memset(shared, 0, copy->size);
        shared_mark(copy->warp, copy->block, copy->shared, copy->size);
        if (copy->from_global) {
            memcpy(shared,
                   global_at(copy->warp, copy->inst, copy->global, copy->from_global, 1, false),
                   copy->from_global);
        }
        break;
    case MESSAGE:
        memcpy(shared, copy->data, copy->size);
        tell(copy);
        break;
    case BOX_STORE: move_all(copy, STORES); break;
    case BOX_LOAD:
        move_all(copy, LOADS);
        tell(copy);
        break;
    }
}

static void finish_and_drop(Copy **at)
{
    Copy *copy = *at;
    *at = copy->next;
    finish(copy);
    free(copy);
}

bool copies_deliver(bool one)
{
    unsigned n = 0;
    for (const Copy *copy = told; copy; copy = copy->next) {
        n++;
    }
    unsigned which = n ? random_below(n) : 0;
    for (Copy **at = &told; *at;) {
        if (one ? which-- == 0 : (*at)->delay-- <= 0) {
            finish_and_drop(at);
        } else {
            at = &(*at)->next;
        }
    }
    return n > 0;
}

void copies_check_end(Warp *warp)
{
    while (warp->copies) {
        if (warp->copies->kind == BOX_STORE) {
            stop(warp, warp->copies->inst, "is not waited for when the warp ends");
        }
        finish_and_drop(&warp->copies);
    }
}

/* ---- the instructions ---- */

static Step run_small(Warp *warp, const Inst *inst, uint32_t mask)
{
    for (int lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1)) {
            continue;
        }
        unsigned size = (unsigned)lane_get(warp, &inst->operands[2], lane);
        unsigned from = inst->n > 3 ? (unsigned)lane_get(warp, &inst->operands[3], lane) : size;
        if (from > size) {
            stop(warp, inst, "%u bytes of %u", from, size);
        }
        uint64_t address = address_of(warp, &inst->operands[0], lane);
        poison(shared_at(warp, inst, address, size, size), size);
        Copy *copy = copy_new(warp, inst, SMALL);
        copy->lane = lane;
        copy->group = warp->committed[lane];
        copy->shared = address & ((1u << RANK_SHIFT) - 1);
        copy->global = address_of(warp, &inst->operands[1], lane);
        copy->size = size;
        copy->from_global = from;
        if (copy->global % size && from) {
            stop(warp, inst, "a misaligned address");
        }
    }
    return NEXT;
}

static Step run_commit(Warp *warp, const Inst *inst, uint32_t mask)
{
    for (int lane = 0; lane < LANES; lane++) {
        int *committed = inst->flag ? warp->bulk_committed : warp->committed;
        committed[lane] += (int)(mask >> lane & 1);
    }
    return NEXT;
}

static Step run_wait(Warp *warp, const Inst *inst, uint32_t mask)
{
    int left = inst->n ? (int)row32(warp, &inst->operands[0])[0] : 0;
    for (Copy **at = &warp->copies; *at;) {
        Copy *copy = *at;
        const int *committed = inst->flag ? warp->bulk_committed : warp->committed;
        bool mine = copy->kind == (inst->flag ? BOX_STORE : SMALL) && mask >> copy->lane & 1;
        int newest =
            committed[copy->lane] + (inst->way == 'a'); /* all: what is not committed, too */
        if (mine && copy->group < newest - left) {
            finish_and_drop(at);
        } else {
            at = &copy->next;
        }
    }
    return NEXT;
}

static const Map *map_at(const Warp *warp, const Inst *inst, const Operand *operand, int lane)
{
    uint64_t at = address_of(warp, operand, lane) - PARAMS_ADDRESS;
    uint64_t which = UINT64_MAX;
    if (at + MAP_BYTES <= (uint64_t)warp->block->kernel->params_size && at % 64 == 0) {
        memcpy(&which, params + at, sizeof which);
    }
    if (which >= (uint64_t)n_maps) {
        stop(warp, inst, "there is no map");
    }
    return &maps[which];
}

static void check_box(const Copy *copy, int coordinates)
{
    const Map *map = copy->map;
    if (coordinates != map->rank || (copy->inst->type == 'w') != (map->n_windows > 0)) {
        stop(copy->warp, copy->inst, "the map is another one's");
    }
    if (copy->shared % 128 || (map->swizzle && copy->shared % (8 * (unsigned)map->swizzle))) {
        stop(copy->warp, copy->inst, "a box at %u of shared memory", copy->shared);
    }
}

static void read_place(Copy *copy, const Operand *operand, int lane)
{
    for (int i = 0; i < operand->n && i < 8; i++) {
        const Operand *reg = &copy->inst->operands[operand->first + i];
        copy->place[i] = (int32_t)lane_get(copy->warp, reg, lane);
    }
    check_box(copy, operand->n);
}

/* [shared], [map, place], [barrier] (, offsets) (, blocks) */
static Step run_box_load(Warp *warp, const Inst *inst, uint32_t mask)
{
    for (int lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1)) {
            continue;
        }
        Copy *copy = copy_new(warp, inst, BOX_LOAD);
        uint64_t address = address_of(warp, &inst->operands[0], lane);
        uint64_t barrier = address_of(warp, &inst->operands[2], lane);
        shared_at(warp, inst, address, 1, 16);
        shared_at(warp, inst, barrier, 8, 8);
        copy->map = map_at(warp, inst, &inst->operands[1], lane);
        copy->shared = address & ((1u << RANK_SHIFT) - 1);
        copy->barrier = barrier & ((1u << RANK_SHIFT) - 1);
        copy->blocks = 1u << (address >> RANK_SHIFT);
        if (address >> RANK_SHIFT != barrier >> RANK_SHIFT) {
            stop(warp, inst, "the barrier is another block's");
        }
        const Operand *last = &inst->operands[inst->n - 1];
        if (inst->flag) {
            copy->blocks = (uint32_t)lane_get(warp, last, lane);
        }
        for (int i = 0; inst->type == 'w' && i < inst->operands[3].n; i++) {
            copy->offset[i] = (uint16_t)lane_get(warp, part(inst, &inst->operands[3], i), lane);
        }
        read_place(copy, &inst->operands[1], lane);
        move_all(copy, POISONS);
    }
    return NEXT;
}

static Step run_box_store(Warp *warp, const Inst *inst, uint32_t mask)
{
    for (int lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1)) {
            continue;
        }
        Copy *copy = copy_new(warp, inst, BOX_STORE);
        uint64_t address = address_of(warp, &inst->operands[1], lane);
        shared_at(warp, inst, address, 1, 16);
        copy->map = map_at(warp, inst, &inst->operands[0], lane);
        copy->shared = address & ((1u << RANK_SHIFT) - 1);
        copy->lane = lane;
        copy->group = warp->bulk_committed[lane];
        read_place(copy, &inst->operands[0], lane);
        move_all(copy, CHECKS);
    }
    return NEXT;
}

static Step run_message(Warp *warp, const Inst *inst, uint32_t mask)
{
    unsigned size = (unsigned)(inst->bits / 8), all = size * (unsigned)inst->count;
    for (int lane = 0; lane < LANES; lane++) {
        if (!(mask >> lane & 1)) {
            continue;
        }
        uint64_t address = address_of(warp, &inst->operands[0], lane);
        uint64_t barrier = address_of(warp, &inst->operands[2], lane);
        poison(shared_at(warp, inst, address, all, all), all);
        shared_at(warp, inst, barrier, 8, 8);
        Copy *copy = copy_new(warp, inst, MESSAGE);
        copy->block = warp->block->cluster->blocks[address >> RANK_SHIFT];
        copy->told = warp->block->cluster->blocks[barrier >> RANK_SHIFT];
        copy->shared = address & ((1u << RANK_SHIFT) - 1);
        copy->barrier = barrier & ((1u << RANK_SHIFT) - 1);
        copy->size = all;
        for (int i = 0; i < inst->count; i++) {
            uint64_t value = lane_get(warp, part(inst, &inst->operands[1], i), lane);
            memcpy(copy->data + (size_t)i * size, &value, size);
        }
    }
    return NEXT;
}

/* An address of this block's shared memory, of another block. */
static Step run_map_address(Warp *warp, const Inst *inst, uint32_t mask)
{
    for (int lane = 0; lane < LANES; lane++) {
        if (mask >> lane & 1) {
            uint64_t at = lane_get(warp, &inst->operands[1], lane) & ((1u << RANK_SHIFT) - 1);
            uint64_t rank = lane_get(warp, &inst->operands[2], lane);
            lane_put(warp, &inst->operands[0], lane, at | rank << RANK_SHIFT);
        }
    }
    return NEXT;
}

static Run *find_bulk(const Opcode *opcode, Inst *inst)
{
    const char *last = opcode->words[opcode->n - 1];
    inst->flag = true;
    if (opcode_has(opcode, "commit_group")) {
        return run_commit;
    }
    if (opcode_has(opcode, "wait_group")) {
        return run_wait;
    }
    if (!opcode_has(opcode, "tensor") || opcode_has(opcode, "im2col_no_offs")) {
        return NULL;
    }
    if (strcmp(last, "bulk_group") == 0) {
        return run_box_store;
    }
    inst->type = opcode_has(opcode, "im2col") ? 'w' : 't';
    inst->flag = opcode_has(opcode, "multicast::cluster");
    return opcode_has(opcode, "mbarrier::complete_tx::bytes") ? run_box_load : NULL;
}

Run *find_copies(const Opcode *opcode, Inst *inst)
{
    const char *first = opcode->words[0];
    if (strcmp(first, "mapa") == 0) {
        return run_map_address;
    }
    if (strcmp(first, "st") == 0 && opcode_has(opcode, "async")) {
        inst->bits = type_bits(opcode->words[opcode->n - 1]);
        inst->count = opcode_has(opcode, "v4") ? 4 : opcode_has(opcode, "v2") ? 2 : 1;
        return run_message;
    }
    if (strcmp(first, "cp") != 0 || !opcode_has(opcode, "async")) {
        return NULL;
    }
    if (opcode_has(opcode, "bulk")) {
        return find_bulk(opcode, inst);
    }
    if (opcode_has(opcode, "commit_group")) {
        return run_commit;
    }
    if (opcode_has(opcode, "wait_group") || opcode_has(opcode, "wait_all")) {
        inst->way = opcode_has(opcode, "wait_all") ? 'a' : 'g';
        return run_wait;
    }
    return opcode->n == 5 || opcode->n == 6 ? run_small : NULL;
}
