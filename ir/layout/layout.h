/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts: which thread owns which element of a tile, and in which register.
 *
 * A layout is a linear map over bits (F2): the bits of (register, lane, warp) are XORed into the
 * coordinates of an element. `basis[in][bit][axis]` is the contribution of one input bit to one
 * axis. Several inputs may own the same element (a zero basis vector: replication). Extents that
 * are not powers of two are padded up; a register whose element is outside for every thread does
 * not exist. Source: "Linear Layouts", Zhou et al. 2025 (arXiv 2505.23819). */
#ifndef TESSERA_IR_LAYOUT_LAYOUT_H
#define TESSERA_IR_LAYOUT_LAYOUT_H

#include "ir/ir.h"

typedef enum LayoutIn { IN_REGISTER, IN_LANE, IN_WARP, IN_COUNT } LayoutIn;

enum {
    LAYOUT_BITS = 12, /* per input; builders drop further bits, so callers check tiles first */
    MAX_LANES = 64,   /* of a warp, on all targets */
};

/* Shared memory: the rows after which every swizzle repeats, and the alignment of a swizzled tile,
 * which the XOR of address bits requires. */
enum { SWIZZLE_ROWS = 8, SWIZZLE_ALIGN = 1024, MBARRIER_BYTES = 8 };

struct Layout {
    uint8_t rank;
    uint8_t bits[IN_COUNT];                         /* input bits of each kind */
    int32_t basis[IN_COUNT][LAYOUT_BITS][MAX_RANK]; /* powers of two or zero, mostly */
    uint32_t id;                                    /* set when interned: prints as L<id> */
};

/* Coordinates of the element that (reg, lane, warp) owns. */
void layout_apply(const Layout *layout, uint32_t reg, uint32_t lane, uint32_t warp,
                  int32_t *coords);
/* From the coordinates of a lane those of the next one: quicker than to apply it anew. */
void layout_next_lane(const Layout *layout, uint32_t lane, int32_t *coords);
int layout_registers(const Layout *layout); /* 1 << bits[IN_REGISTER] */
/* Adds an input bit that contributes `value` along `axis`; bits past LAYOUT_BITS are dropped. */
void layout_add_bit(Layout *layout, LayoutIn in, int axis, int64_t value);
/* All bits along `axis` that lanes and warps contribute. */
uint32_t layout_thread_bits(const Layout *layout, int axis);
/* True if the lanes of a warp own elements that differ only along `axis`. */
bool layout_lanes_along(const Layout *layout, int axis);
/* True if few threads should combine the partial results in shared memory for all others, given the
 * results that a thread needs and the parts of each. It costs one more barrier. */
bool layout_parts_shared(int results, int parts);
bool layout_equal(const Layout *a, const Layout *b);
/* True if some thread owns each element of a tile of these (padded) extents. */
bool layout_covers(const Layout *layout, const int64_t *extents);
/* True if the first `warps` warps own all of them. (Three warp groups have bits for four.) */
bool layout_owned_by(const Layout *layout, const int64_t *extents, int warps);
/* The layout of a reduction along `axis`: that axis has extent 1; contributions become zero. */
Layout layout_drop_axis(const Layout *layout, int axis);
/* Axis i of the result is axis from[i] of `layout`; -1: it has one element. Registers, lanes and
 * warps keep their elements. */
Layout layout_pick_axes(const Layout *layout, int rank, const int *from);
/* The layout without the register bits that are replicas; replicas across lanes and warps stay.
 * Types name only such layouts. */
Layout layout_compact(const Layout *layout);
/* The register of `from` that owns, in every thread, the element of register `reg` of `to`; -1:
 * there is none. Both distribute the same tile. */
int layout_source_register(const Layout *from, const Layout *to, uint32_t reg);
/* True if every thread owns in `from` all that it owns in `to`: a conversion moves no element. */
bool layout_is_noop_conversion(const Layout *from, const Layout *to);
/* The layout of the first operand of an op that moves axes or leaves them, given the result's. */
Layout layout_of_operand(const Op *op, const Layout *result);
/* The layout of the result, given the first operand's, also of a reduction. Not of a broadcast,
 * whose result has elements that the operand's layout gives to no thread. */
Layout layout_of_result(const Op *op, const Layout *operand);
/* True if a bit of this input contributes along `axis`: a reduction along it crosses that input. */
bool layout_crosses(const Layout *layout, LayoutIn in, int axis);
/* Bits of this input, of `n` bits, that change no coordinate: they select copies of elements. */
uint32_t layout_copy_bits(const Layout *layout, LayoutIn in, int n);
/* True if the register's element is inside these extents for at least one thread. */
bool layout_register_exists(const Layout *layout, const int64_t *extents, uint32_t reg);
/* Contiguous elements along `axis` that one thread owns in consecutive registers (bits 0…). */
int layout_contiguous(const Layout *layout, int axis);

/* A blocked layout: `order[0]` is the fastest axis. Per axis: contiguous elements of a thread,
 * lanes, warps, all powers of two; the rest of `extents` repeats in registers. */
Layout layout_blocked(int rank, const int64_t *extents, const int *order, const int *per_thread,
                      const int *lanes, const int *warps);
/* The accumulator of wgmma m64nNk16 over `warps` warps (4 a group; groups along axis 0 of m×n),
 * as in PTX ISA "wgmma register fragments, D". Register bits: column 1, row 8, columns 8, 16,
 * …, then (when a group has more than 64 rows) rows 64, …: a group's rows are contiguous.
 * Groups without rows of their own own replicas. */
Layout layout_wgmma_acc(int64_t m, int64_t n, int warps);
/* The same with its rows in another order, for left operands of 32-bit elements whose rows are
 * contiguous: a thread's rows are adjacent, two (of 64 rows per group) or four; four lanes with the
 * same k, and those 16 rows away, access all banks of swizzled shared memory. */
Layout layout_wgmma_row_permuted(int64_t m, int64_t n, int warps);

/* Shared tiles: bytes from the start of one pipeline stage to element (row, col). A stage consists
 * of column chunks of `swizzle` bytes (0: one chunk, contiguous rows), each rows × swizzle bytes;
 * inside a chunk, the index of a 16-byte vector is XORed with the row as TMA does (128: 3 bits, 64:
 * 2, 32: 1). `skew`: the row is shifted right by this number of bits first, for threads that are
 * 2^skew rows apart. TMA supports only 0. */
int64_t shared_offset(int64_t rows, int64_t cols, int elem_bytes, int swizzle, int skew,
                      int64_t row, int64_t col);

#endif
