/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix instructions, from the table matrix_instrs.def: operand types, tile sizes, and the
 * layouts of operands and result in the threads of a warp. The layouts of dots, register operands
 * and reads of shared memory all follow from a row of the table. */
#ifndef TESSERA_IR_LAYOUT_MATRIX_INSTR_H
#define TESSERA_IR_LAYOUT_MATRIX_INSTR_H

#include "ir/layout/layout.h"
#include "ir/target/target.h"

/* Which threads issue an instruction together. */
typedef enum MmaScope { MMA_WARP, MMA_WARPGROUP } MmaScope;

typedef struct MatrixInstr {
    const char *family;      /* of the schedule line: wgmma, mma, mfma, wmma */
    const char *targets;     /* that have it, space separated */
    DType operands, result;  /* element types in registers */
    int warps;               /* that issue it together */
    int m, n, k;             /* of one instruction; tiles are multiples. n: the smallest one */
    int max_n;               /* the largest n of one instruction */
    const char *instruction; /* for code generation */
    bool swaps_operands;     /* the right operand goes first: the manual's layouts, transposed */
    MmaScope scope;
    const char *a, *b, *out; /* layouts of the operands and the result in a warp; NULL if the scope
                              * is a warp group */
    bool smem_k_major_only;  /* in shared memory, k must be contiguous */
    int max_accumulate_k;    /* steps of k that it may add up, as its accumulators keep few bits;
                              * 0: any */
} MatrixInstr;

typedef enum MmaTile { MMA_A, MMA_B, MMA_OUT } MmaTile;

/* All rows, in order. */
const MatrixInstr *mma_rows(size_t *n);
/* Does the target have it? */
bool mma_on(const MatrixInstr *unit, const Target *target);
/* Does every value of `from` have one of the same value in `to`? */
bool mma_upcasts(DType from, DType to);
/* Does a unit of warp groups take a left operand of this type, narrower than its own, that threads
 * read along k and widen in registers on their way to it? */
bool mma_upcasts_a(const MatrixInstr *unit, DType left);
/* Can it multiply operands of these types, as they are or widened? */
bool mma_takes(const MatrixInstr *unit, DType left, DType right, DType result);
/* The row for a product on the target; `word` NULL: the first of any. NULL: none. */
const MatrixInstr *mma_find(const Target *target, const char *word, DType left, DType right,
                            DType result);
/* The target's first row (of the word, if any). NULL: none. */
const MatrixInstr *mma_first(const Target *target, const char *word);
/* True if warp groups multiply what TMA brings to shared memory. */
bool mma_reads_bulk_copies(const Target *target);
/* The row that a dot's `unit` names, whose depth divides the tile's; NULL: fma. */
const MatrixInstr *mma_of_dot(const Target *target, const Op *dot);
/* Can threads read the left operand for it, k along the rows, where it takes shared memory along k
 * alone? */
bool mma_can_read_a(const MatrixInstr *unit);
/* Does this product have its left operand read so? Registers are not written while a product that
 * reads them is in flight: it is settled before the loop that it is in comes round. */
bool mma_a_in_registers(const Target *target, const Op *dot);
/* Then axes m and k of what a thread reads, from the layout of the result: the registers of an
 * instruction, its steps along k (as if there were a power of two), its repeats. */
Layout mma_a_read_layout(const Layout *result, int64_t k);
/* Where threads read a left operand that they widen, which lies along k: all k of their rows. */
Layout mma_a_words_layout(const Layout *result, int64_t k);
/* The layout of a group's result; `turned`: threads read the left operand. */
Layout mma_group_result(const MatrixInstr *unit, const int64_t *extents, int warps, bool turned);
/* Warps that issue the instruction together. */
int mma_warps(const MatrixInstr *unit);
/* The target's first instruction of a warp group, whose m, n and max_n the others share. NULL:
 * none. */
const MatrixInstr *mma_warpgroup(const Target *target);

/* One instruction's layout: axes m, k or n, k or m, n. */
Layout mma_layout(const MatrixInstr *unit, MmaTile tile);
/* Can threads read 8 × 8 elements of this type transposed (ldmatrix)? */
bool mma_loads_transposed(const MatrixInstr *unit, DType dtype);
/* Where the first elements of an axis of a result lie: as the instruction has them; those of lanes
 * 1, 2 and 4 apart 4, 2 and 1; or 1, 8 and 2, and the next ones 4; or 1, 4 and 2. */
typedef enum MmaLaneOrder { LANES_PLAIN, LANES_REVERSED, LANES_WIDE, LANES_CROSSED } MmaLaneOrder;

/* A result over a grid of warps: the instruction's registers, then its repeats along n, then along
 * m; neighbouring warps have neighbouring instructions. `spread`, by axis: this many repeats lie
 * between one another, element by element; a thread reads neighbours of an operand that is
 * contiguous along that axis for all of them at once. `places`: by axis. */
Layout mma_result(const MatrixInstr *unit, const int64_t *extents, const int *warps,
                  const int *spread, const MmaLaneOrder *places);
/* How threads that read an operand of 8 bytes one by one find it in all banks of swizzled rows:
 * half of a warp at a time, four neighbours in each of four rows. An axis that has so much (a
 * warp's). */
MmaLaneOrder mma_lane_order(bool along_k, int64_t extent);
/* The same of a right operand of four bits, along k, in rows of this many swizzled bytes. */
MmaLaneOrder mma_lane_order_packed(const MatrixInstr *unit, int64_t row_bytes);

/* A left operand m × k that lies as a result over this grid does; warps next to each other have
 * copies. */
Layout mma_a_register_layout(const MatrixInstr *unit, const int64_t *extents, const int *warps);

/* Where in a tile each bit of a product's depth lies: bits of (instruction's number along k) * k +
 * (its own k). Any order will do that both operands have. */
typedef struct MmaKOrder {
    int n;
    int32_t bit[LAYOUT_BITS];
} MmaKOrder;

/* k as it is. */
MmaKOrder mma_k_order_plain(const MatrixInstr *unit, int64_t k);
/* A thread's own k are neighbours, as many as in rows of `row` elements all lanes can have: they
 * are read together. Elements that share a register are `distance` of one another, 1 or 4, if a
 * thread has this many. */
MmaKOrder mma_k_order_runs(const MatrixInstr *unit, int64_t k, int row, int distance);
/* A thread's own k are pairs, and those of the lanes next to one another follow: where k runs along
 * rows of swizzled shared memory, lanes meet every second row of it, in banks of its own. A left
 * operand that is contiguous along k is then read from all banks by lanes whose rows are `turned`.
 */
MmaKOrder mma_k_order_pairs(const MatrixInstr *unit, int64_t k);
/* Is that the order for operands of these types in memory? `k_is_row`: of the right one. */
bool mma_k_in_pairs(const MatrixInstr *unit, DType left, DType right, bool k_is_row);
/* Do threads read each element by itself, k as it is? An instruction of several registers of 8
 * bytes wants them side by side, which neighbours in memory are not: each would be moved. */
bool mma_reads_elements(const MatrixInstr *unit, DType left, DType right);
/* A left operand that lies as a result does (tile m × k). False: its threads would need elements of
 * one another. */
bool mma_k_order_registers(const MatrixInstr *unit, int64_t k, MmaKOrder *depth);
/* The layout of an operand's whole tile (m or n) × k: the instruction's registers, its repeats
 * along k, then those of the result along the other axis. */
Layout mma_operand(const MatrixInstr *unit, MmaTile side, const Layout *result,
                   const MmaKOrder *depth);

/* 32-bit registers of a thread for the operands of a step of the instruction's depth. */
int mma_fragments(const MatrixInstr *unit, const Layout *result);

/* Does this bit of an operand's layout move along `axis` alone, of both, by so much? */
bool mma_basis_moves(const int32_t *basis, int axis, int32_t by);
/* ldmatrix: matrices of 8 rows of 16 bytes, of which lanes read rows for one another. Does a warp
 * hold words of an operand (axes m or n, and k; `k_is_col`: k is contiguous) as it hands them
 * out? */
bool mma_uses_ldmatrix(const MatrixInstr *unit, const Layout *layout, DType dtype, bool k_is_col);

#endif
