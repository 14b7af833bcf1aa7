/* SPDX-License-Identifier: Apache-2.0 */
/* The emitters of single ops, grouped by file. Private to codegen/gpu. */
#ifndef TESSERA_CODEGEN_GPU_GPU_EMITTERS_H
#define TESSERA_CODEGEN_GPU_GPU_EMITTERS_H

#include "codegen/gpu/gpu_emit.h"
#include "codegen/gpu/gpu_shared.h"

/* gpu_chunk_totals.c: sums of a loop that begin at zero again every this many steps. */
typedef struct GpuTotals {
    GpuEmitter *em;
    const Op *op;
    LLVMValueRef chunk;   /* i64: what the loop's counter advances by in a chunk */
    LLVMValueRef many;    /* i1: the loop is longer than that */
    LLVMValueRef **parts; /* by carried value: addresses of vectors of its registers' totals */
} GpuTotals;
/* NULL: it has none. */
GpuTotals *gpu_totals_open(GpuEmitter *em, const Op *op, LLVMValueRef hi);
bool gpu_totals_has(const GpuTotals *totals, int i);
/* Before the loop: the n registers that carried value i starts from. */
void gpu_totals_begin(GpuTotals *totals, int i, LLVMValueRef *regs, int n);
/* Behind a chunk that another one follows, and behind the loop: the n[i] registers of each carried
 * value (0: it has no total) become what the next chunk starts from, or the result. */
void gpu_totals_chunk(GpuTotals *totals, LLVMValueRef **regs, const int *n);
void gpu_totals_end(GpuTotals *totals, LLVMValueRef **regs, const int *n);
/* gpu_shape.c */
void gpu_emit_const(GpuEmitter *em, const Op *op);
void gpu_emit_elementwise(GpuEmitter *em, const Op *op);
/* One register of an op whose operands have its layout; the result is defined already. */
void gpu_emit_register(GpuEmitter *em, const Op *op, int r);
/* Registers r and r + 1 of a cast to 8-bit floats; false: the target takes them one by one. */
bool gpu_emit_narrowed(GpuEmitter *em, const Op *op, int r);
/* gpu_index.c */
/* Is register r of the value one to compute? Copies, and elements that are equal by what their
 * index is, take what the first of them has. */
bool gpu_starts(GpuEmitter *em, const Value *value, const GpuValue *out, int r);
void gpu_emit_index(GpuEmitter *em, const Op *op);
/* Registers [from, from + n) of an index whose result is defined already. */
void gpu_emit_indices(GpuEmitter *em, const Op *op, int from, int n);
/* Of indices that are floats, (a + c) - (b + d) is (a - b) + (c - d), exactly: the first difference
 * is that of many registers. */
bool gpu_is_distance(const Op *op);
LLVMValueRef gpu_emit_distance(GpuEmitter *em, LLVMValueRef left, LLVMValueRef right);
/* For indices, a + c < b + d is a - b < d - c: one difference serves the comparisons of many
 * registers, which then hold no index of 64 bits each. Replaces the two operands. */
bool gpu_compares_indices(const Op *op);
void gpu_compare_difference(GpuEmitter *em, LLVMValueRef operands[2]);
/* gpu_elementwise_chain.c: emits the run of ops that begins here; returns the last one. */
bool gpu_starts_chain(GpuEmitter *em, const Op *op);
Op *gpu_emit_chain(GpuEmitter *em, Op *first);
enum {
    GPU_GROUP = 8, /* registers at a time: enough independent work for a warp to issue */
    GPU_MAX_TILE_REGISTERS = 32, /* of one tile, beyond which registers are short */
};
bool gpu_is_division(const Op *op);
/* gpu_divide.c: a / d of f32, n of them (a NULL: none), where a way without a branch for each is
 * known; else false, and nothing is emitted. */
typedef enum GpuDivide {
    DIVIDE_CHECKED,   /* checks the operands for whether the short form is exact */
    DIVIDE_ROUNDED,   /* the same for quotients that are only rounded to bf16, which a shorter
                         form computes */
    DIVIDE_UNCHECKED, /* only that shorter form; returns whether it was exact */
    DIVIDE_REPEATED,  /* ROUNDED, for elements that the unchecked form has divided before */
    DIVIDE_MODERATE,  /* the short way: it is */
    DIVIDE_ZEROS,     /* it is but for dividends of zero */
    DIVIDE_ANY,       /* the long way, for whatever there is */
} GpuDivide;
/* `good`, of DIVIDE_UNCHECKED: an i1, or NULL, to which the answer is added. */
bool gpu_emit_divisions(GpuEmitter *em, int n, LLVMValueRef *a, LLVMValueRef *d,
                        LLVMValueRef *quotient, GpuDivide how, LLVMValueRef *good);
/* i1 in `good`: may these be divided in this way (MODERATE or ZEROS)? False: it is not known how.
 * `used`, if given: by register, an i1 of whether its quotient is used at all; NULL: it is. */
bool gpu_divisions_check(GpuEmitter *em, int n, LLVMValueRef *a, LLVMValueRef *d, GpuDivide how,
                         LLVMValueRef *used, LLVMValueRef *good);
/* Is an f32 division's result rounded to bf16 wherever it is used? */
bool gpu_is_rounded(const Op *division);
/* An f32 division of registers [from, from + n) of `out`; the operands are there. */
void gpu_emit_quotients(GpuEmitter *em, const Op *op, int from, int n, GpuDivide how,
                        LLVMValueRef *good);
/* gpu_divisions_check of all registers. */
bool gpu_quotients_check(GpuEmitter *em, const Op *op, GpuDivide how, LLVMValueRef *used,
                         LLVMValueRef *good);
/* broadcast, expand, squeeze, permute, convert: registers by other names. */
void gpu_emit_rename(GpuEmitter *em, const Op *op);
/* front, advance: registers of a tile by the numbers that they have in a strip of it. */
void gpu_emit_strip(GpuEmitter *em, const Op *op);
void gpu_emit_mask(GpuEmitter *em, const Op *op);
/* The same tile with the registers of another layout that only renames; checked. */
void gpu_renamed(GpuEmitter *em, const Op *op, Type from, const GpuValue *in, Type to,
                 GpuValue *out);

/* gpu_reduce.c */
void gpu_emit_reduce(GpuEmitter *em, const Op *op);
/* gpu_cluster.c */
void gpu_emit_cluster_reduce(GpuEmitter *em, const Op *op);
void gpu_emit_cluster_scatter(GpuEmitter *em, const Op *op);
/* The two ends of a kernel with clusters. */
void gpu_cluster_begin(GpuEmitter *em);
void gpu_cluster_end(GpuEmitter *em);
/* Before a walk over tiles that the cluster reduces. */
void gpu_cluster_walk(GpuEmitter *em, const Op *tiles);
/* The same in steps, while registers of the operand get their values, a group at a time. */
typedef struct GpuReduce GpuReduce;
GpuReduce *gpu_reduce_begin(GpuEmitter *em, const Op *op);
void gpu_reduce_take(GpuReduce *red, int from, int n);
void gpu_reduce_end(GpuReduce *red);

/* i32: elements of a tile that lie before a row whose tiles are aligned; NULL: none. */
LLVMValueRef gpu_skipped(GpuEmitter *em, Dim dim);
/* gpu_global.c */
void gpu_emit_load(GpuEmitter *em, const Op *op);
void gpu_emit_store(GpuEmitter *em, const Op *op);
/* gpu_deferred_loads.c: a load that a chain takes a few registers at a time. */
typedef struct GpuLoad GpuLoad;
bool gpu_load_joins(GpuEmitter *em, const Op *op);
/* `loads`: of the chain. */
GpuLoad *gpu_load_begin(GpuEmitter *em, const Op *op, int loads);
void gpu_load_take(GpuLoad *load, int from, int n);
/* gpu_shared.c: do products of warp groups take the registers of this launch? */
bool gpu_is_dot_auxiliary(const Op *op);
/* A store of a tile in steps: a chain gives it a few registers at a time. */
typedef struct GpuStore GpuStore;
GpuStore *gpu_store_begin(GpuEmitter *em, const Op *op);
void gpu_store_take(GpuStore *store, int from, int n);
/* By register, an i1: is any of the piece that it goes with stored? NULL: it is. */
LLVMValueRef *gpu_store_used(GpuStore *store);

/* Elements at whose multiples a load of a single element lies: the first field of a record's run is
 * aligned to the run, which lets LLVM load its fields at once. */
static inline int64_t gpu_field_alignment(const Op *op)
{
    const Attr *record = op_attr(op, ATTR_RECORD);
    return record && record->ints[0] == 0 ? record->ints[1] : 1;
}

/* An element or vector like `otherwise` from memory that a tensor has there, if `inside` (NULL: it
 * is). */
LLVMValueRef gpu_load_guarded(GpuEmitter *em, const Value *memory, LLVMValueRef inside,
                              LLVMValueRef at, LLVMValueRef otherwise, unsigned align);
void gpu_store_guarded(GpuEmitter *em, LLVMValueRef inside, LLVMValueRef at, LLVMValueRef value,
                       unsigned align);
/* Is it an input? No thread writes one during a launch. */
bool gpu_is_constant(const GpuEmitter *em, const Value *memory);

/* gpu_int4.c: n elements of a tensor, `at` of which are before the first; several begin a byte. */
void gpu_packed_load(GpuEmitter *em, const Value *memory, LLVMValueRef inside, LLVMValueRef at,
                     const Attr *value, int n, LLVMValueRef *regs);
void gpu_packed_store(GpuEmitter *em, const Value *memory, LLVMValueRef inside, LLVMValueRef at,
                      int n, const LLVMValueRef *regs);
/* n of shared memory, likewise; this many words of 32 bits: elements eight a word. */
void gpu_packed_read(GpuEmitter *em, DType dtype, LLVMValueRef at, int n, LLVMValueRef *regs);
void gpu_packed_words(GpuEmitter *em, LLVMValueRef at, int n, LLVMValueRef *words);
/* Of threads that set the same one, any wins. */
void gpu_packed_set(GpuEmitter *em, const Value *memory, LLVMValueRef at, LLVMValueRef value);

/* gpu_gather.c */
void gpu_emit_gather(GpuEmitter *em, const Op *op);
void gpu_emit_scatter(GpuEmitter *em, const Op *op);
void gpu_emit_await(GpuEmitter *em, const Op *op);
/* Register r of a tile; a scalar counts for all. */
LLVMValueRef gpu_in_register(GpuEmitter *em, const Value *value, int r);
/* Does the register stand for an element of the tile? Scalars have the one. */
bool gpu_is_element(GpuEmitter *em, Type type, int r);
/* i1: what acts for the elements that several threads hold, */
LLVMValueRef gpu_acting_thread(GpuEmitter *em, Type type);
/* and whether register r's element is in the tile and a loop of elements around still walks it;
 * NULL: it is. */
LLVMValueRef gpu_acting(GpuEmitter *em, const Op *op, Type type, int r);
/* gpu_print.c: print and assert. */
void gpu_emit_print(GpuEmitter *em, const Op *op);
/* Does it hold in any thread of the role? Through the same memory; all of them come here. */
LLVMValueRef gpu_any_warp(GpuEmitter *em, LLVMValueRef any);

/* gpu_rank.c */
void gpu_emit_histogram(GpuEmitter *em, const Op *op);
void gpu_emit_rank(GpuEmitter *em, const Op *op);
void gpu_emit_arrange(GpuEmitter *em, const Op *op);
void gpu_emit_lookup(GpuEmitter *em, const Op *op);

/* gpu_scan.c: scan and fold */
void gpu_emit_fold(GpuEmitter *em, Op *op);

/* gpu_tensor_maps.c: adds the tensor maps of all bulk copies to the plan. */
void gpu_collect_maps(GpuEmitter *em);

/* gpu_shared.c */
void gpu_emit_shared_load(GpuEmitter *em, const Op *op);
void gpu_emit_shared_store(GpuEmitter *em, const Op *op);

/* gpu_async_copy.c */
void gpu_emit_copy_load(GpuEmitter *em, const Op *op);
void gpu_emit_copy_wait(GpuEmitter *em, const Op *op);

/* gpu_fma_dot.c: fused multiply-adds; gpu_mma.c: an instruction of a warp */
void gpu_emit_dot(GpuEmitter *em, const Op *op);
void gpu_emit_matrix(GpuEmitter *em, const Op *op, const MatrixInstr *unit);

/* gpu_partials.c: the value, of any type, of lane ^ mask. */
LLVMValueRef gpu_shuffle(GpuEmitter *em, LLVMValueRef value, int mask);
/* An element of a result as a word of shared memory, of this many bytes, and back. */
LLVMValueRef gpu_to_word(GpuEmitter *em, DType dtype, int bytes, LLVMValueRef value);
LLVMValueRef gpu_from_word(GpuEmitter *em, DType dtype, int bytes, LLVMValueRef word);
/* Parts of a result, one behind the other in shared memory: `n` of this many elements. */
typedef struct GpuParts {
    LLVMValueRef base;
    int64_t elements;
    int n, bytes; /* bytes of an element */
    OpKind reduction;
    DType dtype;
} GpuParts;
/* Combines the partial results into the first one. All of them have been written; a barrier of all
 * threads follows. */
void gpu_combine_parts(GpuEmitter *em, const GpuParts *parts);

/* gpu_control.c, gpu_while.c, gpu_tile_grid.c */
void gpu_emit_for(GpuEmitter *em, Op *op);
void gpu_emit_if(GpuEmitter *em, Op *op);
void gpu_emit_while(GpuEmitter *em, Op *op);
void gpu_emit_tiles(GpuEmitter *em, Op *op);
void gpu_emit_launch(GpuEmitter *em, Op *op);
/* A branch around some code: if (condition) { between begin and end }. The values that end is given
 * as {inside, otherwise} pairs are merged. */
typedef struct GpuBranch {
    LLVMBasicBlockRef before, after;
} GpuBranch;
GpuBranch gpu_branch_begin(GpuEmitter *em, LLVMValueRef condition);
void gpu_branch_end(GpuEmitter *em, GpuBranch branch);
LLVMValueRef gpu_branch_end_value(GpuEmitter *em, GpuBranch branch, LLVMValueRef inside,
                                  LLVMValueRef otherwise);

/* Shared memory has bytes where registers have bools or four bits; tensors have them for bools. */
LLVMValueRef gpu_to_memory(GpuEmitter *em, DType dtype, LLVMValueRef value);
LLVMValueRef gpu_from_memory(GpuEmitter *em, DType dtype, LLVMValueRef value);
/* again: registers of 16 bits stay two in one of 32. */
void gpu_emit_remat(GpuEmitter *em, const Op *op);
/* Several registers as one vector, and back. */
LLVMValueRef gpu_pack(GpuEmitter *em, int n, const LLVMValueRef *regs);
void gpu_unpack(GpuEmitter *em, LLVMValueRef vector, int n, LLVMValueRef *out);

/* n neighbours of memory, whose first one is at a multiple of all their bytes. */
void gpu_load_run(GpuEmitter *em, LLVMTypeRef type, LLVMValueRef at, int n, LLVMValueRef *out);

/* i64, elements between neighbours along each axis of a tensor (gpu_coords.c). */
void gpu_strides(GpuEmitter *em, Type tensor, LLVMValueRef *strides);
void gpu_known_strides(GpuEmitter *em, Type tensor, LLVMValueRef *strides);

/* Registers that an access takes at once: `n` of them, contiguous along the last axis. */
enum { GPU_RUN = 32 };

typedef struct GpuRun {
    int n;
    int regs[GPU_RUN];
} GpuRun;
/* How many registers (a power of two, at most `most`) are contiguous along the last axis. */
int gpu_run_length(GpuEmitter *em, Type type, int most);
/* The run that starts at register r; false when r starts none, does not exist or is a copy. */
bool gpu_run_at(GpuEmitter *em, Type type, int r, int length, GpuRun *run);

#endif
