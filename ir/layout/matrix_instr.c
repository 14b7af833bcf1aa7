/* SPDX-License-Identifier: Apache-2.0 */
/* The table of matrix instructions and the queries on it: which instruction multiplies given
 * operand types on a target, and which layouts its operands and its result have. */
#include "ir/layout/matrix_instr.h"

#include "ir/schedule.h"
#include "support/text.h"

#include <stdlib.h>

static const MatrixInstr ROWS[] = {
#define WARP_MMA(family, targets, operands, result, m, n, k, instruction, swaps_operands, a, b,    \
                 out)                                                                              \
    {family,      targets,        DT_##operands, DT_##result, 1, m,   n,     k, n,                 \
     instruction, swaps_operands, MMA_WARP,      a,           b, out, false, 0},
#define WARPGROUP_MMA(family, targets, operands, result, warps, m, n, k, max_n, instruction,       \
                      smem_k_major_only, max_accumulate_k)                                         \
    {family, targets, DT_##operands, DT_##result,       warps,           m,                        \
     n,      k,       max_n,         instruction,       false,           MMA_WARPGROUP,            \
     NULL,   NULL,    NULL,          smem_k_major_only, max_accumulate_k},
#include "ir/layout/matrix_instrs.def"
#undef WARP_MMA
#undef WARPGROUP_MMA
};

const MatrixInstr *mma_rows(size_t *n)
{
    *n = sizeof ROWS / sizeof *ROWS;
    return ROWS;
}

bool mma_on(const MatrixInstr *unit, const Target *target)
{
    return schedule_lists(unit->targets, target->name);
}

bool mma_upcasts(DType from, DType to)
{
    bool f8 = from == DT_F8E4M3 || from == DT_F8E5M2;
    bool small = dtype_is_int(from) && dtype_bits(from) <= 8;
    switch (to) {
    case DT_F16:
    case DT_BF16: return from == to || f8 || small;
    case DT_F32: return from == to || dtype_is_narrow(from) || small;
    case DT_I8: return from == to || from == DT_I4 || from == DT_U4;
    case DT_U8: return from == to || from == DT_U4;
    default: return from == to;
    }
}

/* Integers wrap: their sums have the same bits, signed or not. */
static bool takes(const MatrixInstr *unit, DType operands)
{
    bool as_they_are =
        unit->scope == MMA_WARPGROUP; /* read from shared memory by the instruction itself */
    return as_they_are ? operands == unit->operands : mma_upcasts(operands, unit->operands);
}

bool mma_upcasts_a(const MatrixInstr *unit, DType left)
{
    bool half = unit->operands == DT_F16 || unit->operands == DT_BF16;
    return unit->scope == MMA_WARPGROUP && half && (left == DT_I4 || left == DT_U4);
}

bool mma_takes(const MatrixInstr *unit, DType left, DType right, DType result)
{
    bool same = unit->result == result || (dtype_is_int(result) && dtype_is_int(unit->result) &&
                                           dtype_bits(result) == dtype_bits(unit->result));
    return same && (takes(unit, left) || mma_upcasts_a(unit, left)) && takes(unit, right);
}

enum { ANY_DEPTH = 0 };

/* Of those that divide the depth: one whose operands are as they are, else the first. */
static const MatrixInstr *find(const Target *target, const char *word, DType left, DType right,
                               DType result, int64_t depth)
{
    const MatrixInstr *found = NULL;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const MatrixInstr *unit = &ROWS[i];
        if (mma_on(unit, target) && (!word || text_equal(word, unit->family)) &&
            (unit->scope == MMA_WARPGROUP || depth % unit->k == 0) &&
            mma_takes(unit, left, right, result)) {
            if (unit->operands == left || unit->operands == right) {
                return unit;
            }
            found = found ? found : unit;
        }
    }
    return found;
}

const MatrixInstr *mma_find(const Target *target, const char *word, DType left, DType right,
                            DType result)
{
    return find(target, word, left, right, result, ANY_DEPTH);
}

const MatrixInstr *mma_first(const Target *target, const char *word)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        if (mma_on(&ROWS[i], target) && (!word || text_equal(word, ROWS[i].family))) {
            return &ROWS[i];
        }
    }
    return NULL;
}

bool mma_reads_bulk_copies(const Target *target)
{
    return target && target->has_bulk_copy && mma_first(target, "wgmma");
}

/* How many products a sum has, of a tile. */
static int64_t depth_of(const Op *dot, Type right)
{
    int axis = right->rank - (op_int(dot, ATTR_TB, 0) ? 1 : 2);
    int64_t depth = axis < 0 ? -1 : poly_capacity(right->dims[axis]);
    return depth < 0 ? ANY_DEPTH : depth;
}

const MatrixInstr *mma_of_dot(const Target *target, const Op *dot)
{
    const char *word = op_word(dot, ATTR_INSTRUCTION);
    if (!target || !word || text_equal(word, "fma")) {
        return NULL;
    }
    const Access left = op_access_nth(dot, 0), right = op_access_nth(dot, 1);
    bool rounded = op_attr(dot, ATTR_PRECISION) != NULL;
    return find(target, word, rounded ? DT_TF32 : left.memory->type->dtype,
                rounded ? DT_TF32 : right.memory->type->dtype, dot->results[0]->type->dtype,
                depth_of(dot, right.memory->type));
}

bool mma_can_read_a(const MatrixInstr *unit)
{
    enum { WORD_BYTES = 4 };
    return unit->smem_k_major_only && dtype_bytes(unit->operands) == WORD_BYTES;
}

bool mma_a_in_registers(const Target *target, const Op *dot)
{
    const MatrixInstr *unit = mma_of_dot(target, dot);
    Access left = op_access_nth(dot, 0);
    return unit && left.n > 0 &&
           (op_int(dot, ATTR_TA, 0) ? mma_can_read_a(unit)
                                    : mma_upcasts_a(unit, left.memory->type->dtype));
}

Layout mma_group_result(const MatrixInstr *unit, const int64_t *extents, int warps, bool turned)
{
    return turned && mma_can_read_a(unit) ? layout_wgmma_row_permuted(extents[0], extents[1], warps)
                                          : layout_wgmma_acc(extents[0], extents[1], warps);
}

int mma_warps(const MatrixInstr *unit)
{
    return unit->warps;
}

const MatrixInstr *mma_warpgroup(const Target *target)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        if (ROWS[i].scope == MMA_WARPGROUP && mma_on(&ROWS[i], target)) {
            return &ROWS[i];
        }
    }
    return NULL;
}

/* ---- layouts in a warp ---- */

Layout mma_layout(const MatrixInstr *unit, MmaTile tile)
{
    const char *at;
    if (tile == MMA_A) {
        at = unit->a;
    } else if (tile == MMA_B) {
        at = unit->b;
    } else {
        at = unit->out;
    }
    char second = tile == MMA_OUT ? 'n' : 'k';
    Layout layout = {.rank = 2};
    LayoutIn in = IN_REGISTER;
    while (*at) {
        if (*at == ' ') {
            at++;
        } else if (*at == '|') {
            in = IN_LANE;
            at++;
        } else if (*at == '0') {
            layout_add_bit(&layout, in, 0, 0);
            at++;
        } else {
            char *end;
            int axis = *at == second ? 1 : 0;
            layout_add_bit(&layout, in, axis, strtol(at + 1, &end, 10));
            at = end;
        }
    }
    return layout;
}

bool mma_loads_transposed(const MatrixInstr *unit, DType dtype)
{
    return text_equal(unit->family, "mma") && dtype == unit->operands && dtype_bits(dtype) == 16;
}

static int log_of(int64_t power)
{
    int log = 0;
    while ((int64_t)1 << log < power) {
        log++;
    }
    return log;
}

enum { WIDE = 16 /* what LANES_WIDE arranges */ };

/* Where an axis' first bits go. */
static int32_t place_of(MmaLaneOrder places, int32_t own)
{
    static const int32_t FIRST_BITS[][4] = {
        [LANES_PLAIN] = {1, 2, 4, 8},
        [LANES_CROSSED] = {1, 4, 2, 8},
        [LANES_REVERSED] = {4, 2, 1, 8},
        [LANES_WIDE] = {1, 8, 2, 4},
    };
    return own >= WIDE ? own : FIRST_BITS[places][log_of(own)];
}

Layout mma_result(const MatrixInstr *unit, const int64_t *extents, const int *warps,
                  const int *spread, const MmaLaneOrder *places)
{
    Layout layout = mma_layout(unit, MMA_OUT);
    const int own[] = {unit->m, unit->n};
    for (int in = IN_REGISTER; in <= IN_LANE; in++) {
        for (int i = 0; i < layout.bits[in]; i++) {
            layout.basis[in][i][0] *= spread[0];
            layout.basis[in][i][1] *= spread[1];
        }
    }
    for (int axis = 1; axis >= 0; axis--) {
        for (int at = 1; at < spread[axis]; at *= 2) {
            layout_add_bit(&layout, IN_REGISTER, axis, at);
        }
        int64_t at = own[axis] * spread[axis];
        for (; places[axis] == LANES_WIDE && at < WIDE; at *= 2) {
            layout_add_bit(&layout, IN_REGISTER, axis, at);
        }
        for (int warp = 1; warp < warps[axis]; warp *= 2, at *= 2) {
            layout_add_bit(&layout, IN_WARP, axis, at < extents[axis] ? at : 0);
        }
        for (; at < extents[axis]; at *= 2) {
            layout_add_bit(&layout, IN_REGISTER, axis, at);
        }
    }
    /* Each basis vector moves to the position that its axis's lane order gives it. */
    for (int in = IN_REGISTER; in < IN_COUNT; in++) {
        for (int i = 0; i < layout.bits[in]; i++) {
            for (int axis = 0; axis < 2; axis++) {
                int32_t *at = &layout.basis[in][i][axis];
                *at = *at ? place_of(places[axis], *at) : 0;
            }
        }
    }
    return layout;
}

MmaLaneOrder mma_lane_order(bool along_k, int64_t extent)
{
    if (along_k) {
        return LANES_REVERSED;
    }
    return extent % WIDE == 0 ? LANES_WIDE : LANES_PLAIN;
}

/* Two rows of 64 bytes lie side by side; which pieces of them are XORed follows from every other
 * row: lanes next to one another have rows 0, 1, 4 and 5. */
MmaLaneOrder mma_lane_order_packed(const MatrixInstr *unit, int64_t row_bytes)
{
    enum { PAIRED = 64 };
    return text_equal(unit->family, "mma") && row_bytes == PAIRED ? LANES_CROSSED : LANES_PLAIN;
}

Layout mma_a_register_layout(const MatrixInstr *unit, const int64_t *extents, const int *warps)
{
    Layout layout = mma_layout(unit, MMA_OUT);
    const int own[] = {unit->m, unit->n};
    for (int warp = 1; warp < warps[1]; warp *= 2) {
        layout_add_bit(&layout, IN_WARP, 1, 0);
    }
    for (int axis = 1; axis >= 0; axis--) {
        int64_t at = own[axis];
        for (int warp = 1; axis == 0 && warp < warps[0]; warp *= 2, at *= 2) {
            layout_add_bit(&layout, IN_WARP, 0, at < extents[0] ? at : 0);
        }
        for (; at < extents[axis]; at *= 2) {
            layout_add_bit(&layout, IN_REGISTER, axis, at);
        }
    }
    return layout;
}

Layout mma_a_read_layout(const Layout *result, int64_t k)
{
    enum { LANE_K = 2, HALF_K = 4, SECOND_ROW = 1 /* the bit of a result's register */ };
    Layout layout = {.rank = 2};
    layout_add_bit(&layout, IN_REGISTER, 0, result->basis[IN_REGISTER][SECOND_ROW][0]);
    for (int32_t at = HALF_K; at < k; at *= 2) {
        layout_add_bit(&layout, IN_REGISTER, 1, at);
    }
    for (int i = SECOND_ROW + 1; i < result->bits[IN_REGISTER]; i++) {
        if (result->basis[IN_REGISTER][i][0]) {
            layout_add_bit(&layout, IN_REGISTER, 0, result->basis[IN_REGISTER][i][0]);
        }
    }
    for (int32_t at = 1; at < 1 << LANE_K; at *= 2) {
        layout_add_bit(&layout, IN_LANE, 1, at);
    }
    for (int i = LANE_K; i < result->bits[IN_LANE]; i++) {
        layout_add_bit(&layout, IN_LANE, 0, result->basis[IN_LANE][i][0]);
    }
    for (int i = 0; i < result->bits[IN_WARP]; i++) {
        layout_add_bit(&layout, IN_WARP, 0, result->basis[IN_WARP][i][0]);
    }
    return layout;
}

Layout mma_a_words_layout(const Layout *result, int64_t k)
{
    Layout layout = {.rank = 2};
    for (int32_t at = 1; at < k; at *= 2) {
        layout_add_bit(&layout, IN_REGISTER, 1, at);
    }
    for (int in = IN_REGISTER; in < IN_COUNT; in++) {
        for (int i = 0; i < result->bits[in]; i++) {
            if (in != IN_REGISTER || result->basis[in][i][0]) {
                layout_add_bit(&layout, in, 0, result->basis[in][i][0]);
            }
        }
    }
    return layout;
}

/* ---- depths ---- */

MmaKOrder mma_k_order_plain(const MatrixInstr *unit, int64_t k)
{
    MmaKOrder depth = {.n = log_of(k > unit->k ? k : unit->k)};
    for (int i = 0; i < depth.n; i++) {
        depth.bit[i] = 1 << i;
    }
    return depth;
}

/* What the bits of `in` move along k in one instruction. */
static int32_t bits_of(const MatrixInstr *unit, LayoutIn in)
{
    Layout left = mma_layout(unit, MMA_A);
    int32_t bits = 0;
    for (int i = 0; i < left.bits[in]; i++) {
        bits |= left.basis[in][i][1];
    }
    return bits;
}

/* Deals the next places to the depth's bits of one instruction that are in `which`. */
static void deal(MmaKOrder *depth, const MatrixInstr *unit, int32_t which, int32_t *next)
{
    for (int i = 0; i < log_of(unit->k); i++) {
        if (which >> i & 1) {
            depth->bit[i] = *next;
            *next *= 2;
        }
    }
}

MmaKOrder mma_k_order_runs(const MatrixInstr *unit, int64_t k, int row, int distance)
{
    MmaKOrder depth = mma_k_order_plain(unit, k);
    int own = log_of(unit->k);
    int32_t even = (int32_t)(k & -k), next = 1; /* within it any order covers the tile */
    int32_t lanes = bits_of(unit, IN_LANE), across = 1;
    for (int32_t rest = lanes; rest; rest &= rest - 1) {
        across *= 2;
    }
    deal(&depth, unit, bits_of(unit, IN_REGISTER), &next);
    int step = own;
    for (; step < depth.n && next * across < row && next * across < even; step++, next *= 2) {
        depth.bit[step] = next;
    }
    if (distance < next) {
        /* Bit 1 moves to `distance` and the bits above it, up to `apart`, move down by one:
         * neighbours along k then lie `distance` positions apart. */
        for (int i = 0; i < depth.n; i++) {
            int32_t bit = depth.bit[i];
            if (bit == 1) {
                depth.bit[i] = distance;
            } else if (bit <= distance) {
                depth.bit[i] = bit / 2;
            } else {
                depth.bit[i] = bit;
            }
        }
    }
    deal(&depth, unit, lanes, &next);
    return depth;
}

MmaKOrder mma_k_order_pairs(const MatrixInstr *unit, int64_t k)
{
    MmaKOrder depth = mma_k_order_plain(unit, k);
    int own = log_of(unit->k);
    int32_t registers = bits_of(unit, IN_REGISTER), lanes = bits_of(unit, IN_LANE), next = 1;
    int32_t first = registers & -registers;
    deal(&depth, unit, first, &next);
    if (!first && k % (2 * unit->k) == 0) { /* in two instructions */
        depth.bit[own] = next;
        next *= 2;
    }
    deal(&depth, unit, lanes, &next);
    deal(&depth, unit, registers & ~first, &next);
    return depth;
}

static bool as_they_are(const MatrixInstr *unit, DType left, DType right, int bytes)
{
    return text_equal(unit->family, "mma") && dtype_bytes(unit->operands) == bytes &&
           dtype_bytes(left) == bytes && dtype_bytes(right) == bytes;
}

bool mma_k_in_pairs(const MatrixInstr *unit, DType left, DType right, bool k_is_row)
{
    enum { WORD_BYTES = 4, LONG_BYTES = 8 };
    return k_is_row &&
           (as_they_are(unit, left, right, WORD_BYTES) ||
            (as_they_are(unit, left, right, LONG_BYTES) && !mma_reads_elements(unit, left, right)));
}

bool mma_reads_elements(const MatrixInstr *unit, DType left, DType right)
{
    enum { LONG_BYTES = 8 };
    return as_they_are(unit, left, right, LONG_BYTES) && bits_of(unit, IN_REGISTER) != 0;
}

/* Bits of the registers of a result along n, as if it went on for ever: value of the i-th. */
static int32_t result_bit(const MatrixInstr *unit, int nth)
{
    Layout out = mma_layout(unit, MMA_OUT);
    int32_t own = 0;
    for (int i = 0; i < out.bits[IN_REGISTER]; i++) {
        own |= out.basis[IN_REGISTER][i][1];
    }
    for (int32_t value = 1;; value *= 2) {
        if ((own & value) || value >= unit->n) {
            if (nth-- == 0) {
                return value;
            }
        }
    }
}

static bool same_rows(const Layout *left, const Layout *out)
{
    int32_t own[2] = {0, 0};
    for (int i = 0; i < left->bits[IN_REGISTER]; i++) {
        own[0] |= left->basis[IN_REGISTER][i][0];
    }
    for (int i = 0; i < out->bits[IN_REGISTER]; i++) {
        own[1] |= out->basis[IN_REGISTER][i][0];
    }
    for (int i = 0; i < left->bits[IN_LANE]; i++) {
        bool rows = left->basis[IN_LANE][i][0] == out->basis[IN_LANE][i][0];
        bool depth = (left->basis[IN_LANE][i][1] == 0) == (out->basis[IN_LANE][i][1] == 0);
        if (!rows || !depth) {
            return false;
        }
    }
    return own[0] == own[1];
}

bool mma_k_order_registers(const MatrixInstr *unit, int64_t k, MmaKOrder *depth)
{
    if (unit->scope == MMA_WARPGROUP) {
        return false;
    }
    Layout left = mma_layout(unit, MMA_A), out = mma_layout(unit, MMA_OUT);
    *depth = mma_k_order_plain(unit, k);
    if (!same_rows(&left, &out) || k % unit->n != 0) {
        return false;
    }
    for (int i = 0; i < left.bits[IN_LANE]; i++) {
        int32_t own = left.basis[IN_LANE][i][1];
        if (own) {
            depth->bit[log_of(own)] = out.basis[IN_LANE][i][1];
        }
    }
    int nth = 0;
    int32_t registers = bits_of(unit, IN_REGISTER);
    for (int i = 0; i < depth->n; i++) {
        if (1 << i >= unit->k || registers >> i & 1) {
            depth->bit[i] = result_bit(unit, nth++);
        }
    }
    return true;
}

static int32_t at_depth(const MmaKOrder *depth, int32_t own)
{
    int32_t at = 0;
    for (int i = 0; i < depth->n; i++) {
        at |= own >> i & 1 ? depth->bit[i] : 0;
    }
    return at;
}

/* Where a result has what lies at `own` along an axis of the instruction. */
static int32_t placed(const Layout *out, const Layout *result, int axis, int32_t own)
{
    int32_t at = 0;
    for (int in = IN_REGISTER; in <= IN_LANE; in++) {
        for (int i = 0; i < out->bits[in]; i++) {
            at |= out->basis[in][i][axis] & own ? result->basis[in][i][axis] : 0;
        }
    }
    return at;
}

Layout mma_operand(const MatrixInstr *unit, MmaTile side, const Layout *result,
                   const MmaKOrder *depth)
{
    Layout own = mma_layout(unit, side), layout = own, out = mma_layout(unit, MMA_OUT);
    int axis = side == MMA_A ? 0 : 1;
    for (int in = IN_REGISTER; in <= IN_LANE; in++) {
        for (int i = 0; i < own.bits[in]; i++) {
            layout.basis[in][i][0] = placed(&out, result, axis, own.basis[in][i][0]);
            layout.basis[in][i][1] = at_depth(depth, own.basis[in][i][1]);
        }
    }
    for (int i = log_of(unit->k); i < depth->n; i++) {
        layout_add_bit(&layout, IN_REGISTER, 1, depth->bit[i]);
    }
    for (int i = out.bits[IN_REGISTER]; i < result->bits[IN_REGISTER]; i++) {
        if (result->basis[IN_REGISTER][i][axis]) {
            layout_add_bit(&layout, IN_REGISTER, 0, result->basis[IN_REGISTER][i][axis]);
        }
    }
    for (int i = 0; i < result->bits[IN_WARP]; i++) {
        layout_add_bit(&layout, IN_WARP, 0, result->basis[IN_WARP][i][axis]);
    }
    return layout;
}

int mma_fragments(const MatrixInstr *unit, const Layout *result)
{
    enum { WORD_BYTES = 4 };
    Layout out = mma_layout(unit, MMA_OUT);
    int sum = 0;
    for (int axis = 0; axis < 2; axis++) {
        Layout own = mma_layout(unit, axis ? MMA_B : MMA_A);
        int registers = 1 << own.bits[IN_REGISTER];
        for (int i = out.bits[IN_REGISTER]; i < result->bits[IN_REGISTER]; i++) {
            registers *= result->basis[IN_REGISTER][i][axis] ? 2 : 1;
        }
        sum += registers * dtype_bytes(unit->operands) / WORD_BYTES;
    }
    return sum;
}

bool mma_basis_moves(const int32_t *basis, int axis, int32_t by)
{
    return basis[axis] == by && basis[!axis] == 0;
}

bool mma_uses_ldmatrix(const MatrixInstr *unit, const Layout *layout, DType dtype, bool k_is_col)
{
    enum { WORD_BYTES = 4, ROW_LANES = 2 /* bits of lanes along a row */, LANES = 5 };
    int bytes = dtype_bytes(dtype), words = 0;
    if (bytes == 1) {
        words = 2;
    } else if (bytes == 2) {
        words = 1;
    }
    bool fits = bytes <= WORD_BYTES && dtype == unit->operands && (k_is_col || bytes == 2) &&
                layout->bits[IN_REGISTER] >= words;
    for (int i = 0; fits && i < words; i++) {
        fits = mma_basis_moves(layout->basis[IN_REGISTER][i], 1, 1 << i);
    }
    for (int i = 0; fits && i < LANES; i++) {
        int32_t by = i < ROW_LANES ? 1 << (words + i) : 1 << (i - ROW_LANES);
        fits = mma_basis_moves(layout->basis[IN_LANE][i], i < ROW_LANES, by);
    }
    return fits;
}
