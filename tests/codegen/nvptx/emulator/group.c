/* SPDX-License-Identifier: Apache-2.0 */
/* wgmma: each warp of a warp group computes its own 16 rows. An instruction reads shared memory
 * when it is waited for; until then its accumulators are poison. Instructions that continue with
 * the accumulators of an earlier one share them, also if they were moved to other registers in
 * between. */
#include "tests/codegen/nvptx/emulator/emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 16, MAX_N = 256 };

typedef struct Alias {
    int at, nth;
} Alias;

typedef struct Sums {
    int users, n;
    int at[MAX_N / 2]; /* rows of registers */
    Alias *aliases;
    int n_aliases;
    uint32_t values[MAX_N / 2][LANES];
} Sums;

struct Product {
    Product *next;
    const Inst *inst;
    Sums *sums;
    int group;
    bool adds;
    int a_sign, b_sign;
    bool a_across, b_across; /* m, n along the rows of shared memory */
    uint64_t a, b;
    uint32_t a_words[4][LANES];
};

/* ---- descriptors ---- */

typedef struct Matrix {
    uint32_t first, leading, stride, pitch;
} Matrix;

static Matrix matrix_of(const Warp *warp, const Inst *inst, uint64_t bits)
{
    static const uint32_t pitches[] = {0, 128, 64, 32};
    Matrix matrix = {.first = (uint32_t)(bits & 0x3fff) << 4,
                     .leading = (uint32_t)(bits >> 16 & 0x3fff) << 4,
                     .stride = (uint32_t)(bits >> 32 & 0x3fff) << 4,
                     .pitch = pitches[bits >> 62]};
    if (!matrix.pitch || bits >> 49 & 7) {
        stop(warp, inst, "descriptor 0x%llx", (unsigned long long)bits);
    }
    return matrix;
}

/* 16 bytes: from row (or column) `outer` on and `k`, along one of them. */
static const uint8_t *matrix_at(const Warp *warp, const Inst *inst, const Matrix *matrix,
                                uint32_t bytes, bool across, uint32_t outer, uint32_t k)
{
    uint32_t at;
    if (across) {
        uint32_t byte = outer * bytes;
        at = matrix->first + byte / matrix->pitch * matrix->leading + byte % matrix->pitch +
             k / 8 * matrix->stride + k % 8 * matrix->pitch;
    } else {
        at = matrix->first + outer / 8 * matrix->stride + outer % 8 * matrix->pitch + k * bytes;
    }
    at ^= (at >> 7 & (matrix->pitch / 16 - 1)) << 4;
    const uint8_t *there = block_shared(warp, inst, warp->block, at, 16);
    shared_check(warp, inst, at, 16);
    return there;
}

/* ---- computing ---- */

typedef struct Tiles {
    float a[ROWS][MAX_K], b[MAX_K][MAX_N], sums[ROWS][MAX_N];
} Tiles;

static const Element *elements_of(const Inst *inst)
{
    return element_named(strrchr(inst->text, '.') + 1);
}

/* What is at `outer` and `k` goes to to[outer * outer_step + k * k_step]. */
static void read_matrix(const Warp *warp, const Inst *inst, uint64_t descriptor, bool across,
                        uint32_t first, uint32_t n, float *to, uint32_t outer_step, uint32_t k_step)
{
    const Element *element = elements_of(inst);
    Matrix matrix = matrix_of(warp, inst, descriptor);
    uint32_t bytes = (uint32_t)element->bits / 8, run = 16 / bytes, depth = (uint32_t)inst->count;
    for (uint32_t outer = 0; outer < n; outer += across ? run : 1) {
        for (uint32_t k = 0; k < depth; k += across ? 1 : run) {
            const uint8_t *from = matrix_at(warp, inst, &matrix, bytes, across, first + outer, k);
            for (uint32_t i = 0; i < run; i++) {
                uint64_t bits = 0;
                memcpy(&bits, from + (size_t)(i * bytes), bytes);
                uint32_t row = outer + (across ? i : 0), column = k + (across ? 0 : i);
                to[row * outer_step + column * k_step] = (float)element_value(element, bits);
            }
        }
    }
}

static void read_left(const Warp *warp, const Product *product, Tiles *tiles)
{
    const Inst *inst = product->inst;
    const Element *element = elements_of(inst);
    if (!inst->flag) {
        read_matrix(warp, inst, product->a, product->a_across, (uint32_t)(warp->index % 4) * ROWS,
                    ROWS, &tiles->a[0][0], MAX_K, 1);
        return;
    }
    int in_word = 32 / element->bits;
    for (int word = 0; word < 4; word++) {
        for (int lane = 0; lane < LANES; lane++) {
            int row, k;
            fragment_place(element, word, lane, true, &row, &k);
            for (int i = 0; i < in_word; i++) {
                uint32_t bits = product->a_words[word][lane];
                bits = in_word > 1 ? bits >> element->bits * i : bits;
                tiles->a[row][k + i] = (float)element_value(element, bits);
            }
        }
    }
}

static void multiply(Tiles *tiles, int n, int depth)
{
    memset(tiles->sums, 0, sizeof tiles->sums);
    for (int row = 0; row < ROWS; row++) {
        for (int k = 0; k < depth; k++) {
            float left = tiles->a[row][k];
            for (int column = 0; column < n; column++) {
                tiles->sums[row][column] += left * tiles->b[k][column];
            }
        }
    }
}

static void compute(const Warp *warp, const Product *product)
{
    static Tiles tiles;
    const Inst *inst = product->inst;
    const Element *element = elements_of(inst);
    int n = 2 * product->sums->n;
    read_left(warp, product, &tiles);
    read_matrix(warp, inst, product->b, product->b_across, 0, (uint32_t)n, &tiles.b[0][0], 1,
                MAX_N);
    multiply(&tiles, n, inst->count);
    for (int i = 0; i < product->sums->n; i++) {
        for (int lane = 0; lane < LANES; lane++) {
            uint32_t *value = &product->sums->values[i][lane];
            float sum =
                tiles.sums[lane / 4 + 8 * (i >> 1 & 1)][8 * (i >> 2) + 2 * (lane & 3) + (i & 1)];
            uint32_t before = product->adds ? *value : 0;
            if (element->is_integer) { /* exact: below 2^24 */
                *value = before + (uint32_t)(int32_t)sum;
            } else {
                *value = float_to_bits(bits_to_float(before) +
                                       sum * (float)(product->a_sign * product->b_sign));
            }
        }
    }
}

static void write_sums(Warp *warp, Sums *sums)
{
    for (int i = 0; i < sums->n; i++) {
        memcpy(warp->rows + sums->at[i], sums->values[i], sizeof *sums->values);
    }
    for (int i = 0; i < sums->n_aliases; i++) {
        memcpy(warp->rows + sums->aliases[i].at, sums->values[sums->aliases[i].nth],
               sizeof *sums->values);
    }
    free(sums->aliases);
    free(sums);
}

static Step run_wait(Warp *warp, const Inst *inst, uint32_t mask)
{
    (void)mask;
    int left = (int)row32(warp, &inst->operands[0])[0];
    while (warp->products && warp->products->group < warp->groups - left) {
        Product *product = warp->products;
        compute(warp, product);
        if (--product->sums->users == 0) {
            write_sums(warp, product->sums);
        }
        warp->products = product->next;
        free(product);
    }
    return NEXT;
}

/* ---- issuing ---- */

static int nth_of(const Sums *sums, int at)
{
    for (int i = 0; i < sums->n; i++) {
        if (sums->at[i] == at) {
            return i;
        }
    }
    for (int i = 0; i < sums->n_aliases; i++) {
        if (sums->aliases[i].at == at) {
            return sums->aliases[i].nth;
        }
    }
    return -1;
}

void products_add_copy(Warp *warp, const Operand *to, const Operand *from)
{
    for (Product *product = warp->products; product; product = product->next) {
        Sums *sums = product->sums;
        int nth = nth_of(sums, from->at);
        if (nth >= 0 && nth_of(sums, to->at) != nth) {
            sums->aliases =
                realloc(sums->aliases, sizeof *sums->aliases * (size_t)(sums->n_aliases + 1));
            sums->aliases[sums->n_aliases++] = (Alias){.at = to->at, .nth = nth};
            return;
        }
    }
}

static Sums *sums_for(Warp *warp, const Inst *inst)
{
    const Operand *to = &inst->operands[0];
    Sums *found = NULL;
    for (Product *product = warp->products; product; product = product->next) {
        if (nth_of(product->sums, part(inst, to, 0)->at) == 0 && product->sums->n == to->n) {
            found = product->sums;
        }
    }
    if (!found) {
        found = calloc(1, sizeof *found);
        found->n = to->n;
        for (int i = 0; i < to->n; i++) {
            found->at[i] = part(inst, to, i)->at;
            memcpy(found->values[i], warp->rows + found->at[i], sizeof *found->values);
        }
    }
    for (int i = 0; i < to->n; i++) {
        products_add_copy(warp, part(inst, to, i), part(inst, to, i));
        found->at[i] = part(inst, to, i)->at;
        for (int lane = 0; lane < LANES; lane++) {
            warp->rows[found->at[i] + lane] = poison_word();
        }
    }
    found->users++;
    return found;
}

static int number(const Warp *warp, const Inst *inst, int operand)
{
    return operand < inst->n ? (int)row32(warp, &inst->operands[operand])[0] : 0;
}

/* sums, A, B, scale of the sums (, signs of A and B) (, transposed A) (, transposed B) */
static Step run_issue(Warp *warp, const Inst *inst, uint32_t mask)
{
    if (mask != ALL_LANES) {
        stop(warp, inst, "lanes are missing");
    }
    Product *product = calloc(1, sizeof *product), **end = &warp->products;
    const Operand *left = &inst->operands[1];
    product->inst = inst;
    product->sums = sums_for(warp, inst);
    product->group = warp->groups;
    product->adds = predicate_get(warp, &inst->operands[3]) != 0;
    product->a_sign = inst->n > 4 ? number(warp, inst, 4) : 1;
    product->b_sign = inst->n > 5 ? number(warp, inst, 5) : 1;
    product->a_across = !inst->flag && number(warp, inst, 6);
    product->b_across = number(warp, inst, inst->flag ? 6 : 7);
    product->b = row64(warp, &inst->operands[2])[0];
    if (inst->flag) {
        for (int i = 0; i < 4; i++) {
            memcpy(product->a_words[i], row32(warp, part(inst, left, i)), sizeof *product->a_words);
        }
    } else {
        product->a = row64(warp, left)[0];
    }
    while (*end) {
        end = &(*end)->next;
    }
    *end = product;
    return NEXT;
}

static Step run_commit(Warp *warp, const Inst *inst, uint32_t mask)
{
    (void)inst, (void)mask;
    warp->groups++;
    return NEXT;
}

static Step run_fence(Warp *warp, const Inst *inst, uint32_t mask)
{
    (void)warp, (void)inst, (void)mask;
    return NEXT;
}

Run *find_group_matrix(const Opcode *opcode, Inst *inst)
{
    if (strcmp(opcode->words[0], "wgmma") != 0) {
        return NULL;
    }
    inst->meets = true;
    const char *what = opcode->words[1];
    if (strcmp(what, "fence") == 0) {
        return run_fence;
    }
    if (strcmp(what, "commit_group") == 0 || strcmp(what, "wait_group") == 0) {
        return *what == 'c' ? run_commit : run_wait;
    }
    int n;
    if (strcmp(what, "mma_async") != 0 || opcode->n != 8 || !element_named(opcode->words[7]) ||
        sscanf(opcode->words[4], "m64n%dk%d", &n, &inst->count) != 2 ||
        inst->operands[0].n != n / 2 || inst->count > MAX_K) {
        return NULL;
    }
    inst->flag = inst->operands[1].kind == VECTOR;
    return run_issue;
}
