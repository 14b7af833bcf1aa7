/* SPDX-License-Identifier: Apache-2.0 */
/* ldmatrix, stmatrix and mma.sync. The fragments of the PTX ISA's tables all follow from one rule.
 */
#include "tests/codegen/nvptx/emulator/emulator.h"

#include <string.h>

static const Element elements[] = {{"bf16", 16, false}, {"f16", 16, false}, {"tf32", 32, false},
                                   {"e4m3", 8, false},  {"e5m2", 8, false}, {"f64", 64, false},
                                   {"s8", 8, true},     {"u8", 8, true}};

const Element *element_named(const char *name)
{
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        if (strcmp(elements[i].name, name) == 0) {
            return &elements[i];
        }
    }
    return NULL;
}

double element_value(const Element *element, uint64_t bits)
{
    double value;
    switch (element->name[0]) {
    case 'b': return (double)bits_to_float((uint32_t)bits << 16);
    case 't': return (double)bits_to_float((uint32_t)bits & 0xffffe000);
    case 'e': return (double)from_f8((uint32_t)bits & 255, element->name[1] == '5');
    case 's': return (int8_t)bits;
    case 'u': return (uint8_t)bits;
    default: break;
    }
    if (element->bits == 16) {
        return (double)half_to_float((uint32_t)bits & 0xffff);
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

void fragment_place(const Element *element, int word, int lane, bool is_a, int *row, int *k)
{
    int in_word = element->bits < 32 ? 32 / element->bits : 1;
    *row = lane / 4 + (is_a ? 8 * (word & 1) : 0);
    *k = (lane & 3) * in_word + (is_a ? word >> 1 : word) * 4 * in_word;
}

/* ---- mma ---- */

typedef struct Tile {
    double at[16][MAX_K];
} Tile;

static void read_fragment(const Warp *warp, const Inst *inst, const Operand *vector,
                          const Element *element, bool is_a, Tile *tile)
{
    for (int word = 0; word < parts(vector); word++) {
        for (int lane = 0; lane < LANES; lane++) {
            uint64_t bits = lane_get(warp, part(inst, vector, word), lane);
            int row, k;
            fragment_place(element, word, lane, is_a, &row, &k);
            for (int i = 0; i < (element->bits < 32 ? 32 / element->bits : 1); i++) {
                uint64_t one = element->bits < 32 ? bits >> element->bits * i : bits;
                tile->at[row][k + i] = element_value(element, one);
            }
        }
    }
}

static uint64_t sum_of(const Inst *inst, uint64_t before, double sum)
{
    double value;
    if (inst->type == 'd') {
        memcpy(&value, &before, sizeof value);
        value += sum;
        memcpy(&before, &value, sizeof before);
        return before;
    }
    if (inst->type == 's') {
        return (uint32_t)before + (uint32_t)(int64_t)sum;
    }
    return float_to_bits((float)((double)bits_to_float((uint32_t)before) + sum));
}

static const Element *left_of[64], *right_of[64];
static int n_products;

static Step run_product(Warp *warp, const Inst *inst, uint32_t mask)
{
    static Tile a, b;
    (void)mask;
    read_fragment(warp, inst, &inst->operands[1], left_of[inst->way], true, &a);
    read_fragment(warp, inst, &inst->operands[2], right_of[inst->way], false, &b);
    const Operand *to = &inst->operands[0], *from = &inst->operands[3];
    for (int i = 0; i < parts(to); i++) {
        for (int lane = 0; lane < LANES; lane++) {
            int row = lane / 4 + 8 * (i >> 1), column = 2 * (lane & 3) + (i & 1);
            double sum = 0;
            for (int k = 0; k < inst->count; k++) {
                sum += a.at[row][k] * b.at[column][k];
            }
            uint64_t before = lane_get(warp, part(inst, from, i), lane);
            lane_put(warp, part(inst, to, i), lane, sum_of(inst, before, sum));
        }
    }
    return NEXT;
}

/* mma.sync.aligned.SHAPE.row.col.D.A.B.C */
static Run *find_mma(const Opcode *opcode, Inst *inst)
{
    if (opcode->n < 10) {
        return NULL;
    }
    const char *shape = opcode->words[3], *sums = opcode->words[opcode->n - 4];
    const Element *left = element_named(opcode->words[opcode->n - 3]);
    const Element *right = element_named(opcode->words[opcode->n - 2]);
    const char *k = strchr(shape, 'k');
    inst->type = strcmp(sums, "f32") == 0   ? 'f'
                 : strcmp(sums, "s32") == 0 ? 's'
                 : strcmp(sums, "f64") == 0 ? 'd'
                                            : 0;
    if (!left || !right || !k || !inst->type || opcode_has(opcode, "satfinite")) {
        return NULL;
    }
    inst->count = 0;
    for (k++; *k; k++) {
        inst->count = inst->count * 10 + *k - '0';
    }
    int at = 0;
    while (at < n_products && (left_of[at] != left || right_of[at] != right)) {
        at++;
    }
    left_of[at] = left;
    right_of[at] = right;
    n_products += at == n_products;
    inst->way = at;
    inst->meets = true;
    return inst->count <= MAX_K ? run_product : NULL;
}

/* ---- ldmatrix ---- */

static Step run_load_matrix(Warp *warp, const Inst *inst, uint32_t mask)
{
    (void)mask;
    const Operand *registers = &inst->operands[inst->type == 'l' ? 0 : 1];
    const Operand *address = &inst->operands[inst->type == 'l' ? 1 : 0];
    for (int nth = 0; nth < parts(registers); nth++) {
        uint8_t *rows[8];
        for (int row = 0; row < 8; row++) {
            rows[row] = shared_at(warp, inst, address_of(warp, address, 8 * nth + row), 16, 16);
            if (inst->type == 'l') {
                shared_note_read(warp, rows[row], 16);
            }
        }
        const Operand *reg = part(inst, registers, nth);
        for (int lane = 0; lane < LANES; lane++) {
            uint32_t word = row32(warp, reg)[lane];
            for (int i = 0; i < 2; i++) {
                int row = inst->flag ? 2 * (lane & 3) + i : lane / 4;
                int column = inst->flag ? lane / 4 : 2 * (lane & 3) + i;
                uint16_t *there = (uint16_t *)(void *)rows[row] + column;
                if (inst->type == 's') {
                    shared_mark(warp, warp->block, (uint32_t)(rows[row] - warp->block->shared), 16);
                    *there = (uint16_t)(word >> 16 * i);
                } else {
                    word = i ? (word & 0xffff) | (uint32_t)*there << 16 : *there;
                }
            }
            row32(warp, reg)[lane] = word;
        }
    }
    return NEXT;
}

Run *find_matrix(const Opcode *opcode, Inst *inst)
{
    const char *first = opcode->words[0];
    if (strcmp(first, "mma") == 0) {
        return find_mma(opcode, inst);
    }
    if ((strcmp(first, "ldmatrix") != 0 && strcmp(first, "stmatrix") != 0) ||
        !opcode_has(opcode, "m8n8")) {
        return NULL;
    }
    inst->type = *first;
    inst->flag = opcode_has(opcode, "trans");
    inst->meets = true;
    return run_load_matrix;
}
