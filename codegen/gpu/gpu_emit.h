/* SPDX-License-Identifier: Apache-2.0 */
/* The emitter that all GPUs share: it turns staged, padded IR with layouts into LLVM IR, one
 * kernel function per launch. What differs by vendor is in a GpuTarget: a few hooks, and emit_op
 * for ops that only one of them has.
 *
 * Values. A scalar is one LLVM value, equal in all threads. An array of rank >= 1 is one LLVM
 * value for each register of its layout; registers outside of the array are NULL, and registers
 * that hold the same element (zero basis vectors) share one LLVM value. A range is its first index
 * and its end, both i64. Memory (tensor, shared, mbarrier) is found through gpu_tensor and
 * gpu_shared. */
#ifndef TESSERA_CODEGEN_GPU_GPU_EMIT_H
#define TESSERA_CODEGEN_GPU_GPU_EMIT_H

#include "codegen/codegen.h"
#include "codegen/llvm/llvm.h"
#include "codegen/plan/plan_shared.h"
#include "ir/ir.h"
#include "ir/layout/layout.h"
#include "ir/layout/matrix_instr.h"
#include "ir/target/target.h"

typedef struct GpuEmitter GpuEmitter;

/* The word of 32 bits in which a 16-bit element was loaded together with its neighbour. */
typedef struct GpuHalf {
    LLVMValueRef word; /* i32; NULL: the element was loaded by itself */
    bool high;
} GpuHalf;

/* The registers of one IR value in this thread. Scalars: n = 1. Ranges: n = 2, first and end. */
typedef struct GpuValue {
    LLVMValueRef *regs;
    int n;
    GpuHalf *halves; /* by register; NULL: none were loaded in pairs */
} GpuValue;

/* A thread's part of a coordinate: lane and warp XOR it into one axis of one layout. */
typedef struct GpuCoord {
    const Layout *layout;
    int axis;
    LLVMValueRef value; /* i32 */
} GpuCoord;

/* The threads that execute the code being emitted: the whole block, or one role. Ids are
 * relative to the role's first warp, so that layouts need not know about roles. */
typedef struct GpuRole {
    int first_warp, warps;   /* warps: of a team */
    int teams;               /* that execute the code, each on its own tiles */
    int barrier;             /* named barrier of the role's (first) team; 0: the block's own */
    int group_barriers;      /* first named barrier of its single warp groups; 0: none */
    int order_barriers;      /* first named barrier of the ordered MMA issue; 0: none */
    LLVMValueRef team;       /* i32: which one this is; NULL: there is one */
    LLVMBasicBlockRef entry; /* ends in a branch; what is computed once a role goes before it */
    LLVMValueRef thread;     /* i32, in the role */
    LLVMValueRef lane;       /* i32 */
    LLVMValueRef warp;       /* i32, in the role; uniform in a warp */
    struct {
        GpuCoord *items;
        size_t n, cap;
    } coords;
} GpuRole;

/* A thread's part of an operand of a matrix instruction: elements, or 32-bit words of them. */
typedef struct GpuFragment {
    LLVMValueRef *items;
    int n;
    bool words;
} GpuFragment;

/* One asynchronous copy of a thread to shared memory. */
typedef struct GpuCopyVector {
    LLVMValueRef from, to;
    LLVMValueRef first;  /* the address to which the first lane of the warp copies; lanes follow */
    LLVMValueRef inside; /* i1: the source exists, else zeros are written; NULL: it exists */
    int bytes;           /* 4, 8 or 16 */
} GpuCopyVector;

/* Limits of straight-line code in the loop of a dot without matrix instructions (gpu_fma_dot.c). A
 * limit of 0 means none. */
typedef struct GpuFmaLimits {
    int chunk;           /* k of an iteration */
    int chunk_products;  /* multiply-adds of an iteration */
    int chunk_registers; /* 32-bit registers of the elements that an iteration reads */
    int block_registers; /* the same of a block, which is read at once */
} GpuFmaLimits;

/* The hooks of one vendor. A hook emits at the builder's cursor. */
typedef struct GpuTarget {
    const char *name;
    unsigned shared_space;    /* address space of shared memory; global memory is 1 everywhere */
    const char *device_scope; /* LLVM's name for all threads of the device */
    bool dynamic_shared;      /* the launch, not the code object, gives the size of shared memory */
    GpuFmaLimits fma;

    /* ---- modules and kernels ---- */
    /* Adds module flags and the like. Triple and data layout are set already. */
    void (*module_begin)(GpuEmitter *em);
    /* Gives em->kernel its calling convention, and attributes to it and to its parameters. */
    void (*kernel_attributes)(GpuEmitter *em, int threads, int blocks_per_unit);
    /* A pointer to `bytes` of shared memory for this kernel, aligned to SWIZZLE_ALIGN. */
    LLVMValueRef (*shared_memory)(GpuEmitter *em, int bytes);

    /* ---- threads ---- */
    LLVMValueRef (*thread_id)(GpuEmitter *em); /* i32, in the block */
    LLVMValueRef (*block_id)(GpuEmitter *em);  /* i32, axis x */
    LLVMValueRef (*block_count)(GpuEmitter *em);
    /* The same value; LLVM learns that it is equal in all lanes of a warp. */
    LLVMValueRef (*warp_uniform)(GpuEmitter *em, LLVMValueRef i32);
    /* The i32 of lane ^ mask. */
    LLVMValueRef (*shuffle_xor)(GpuEmitter *em, LLVMValueRef i32, int mask);
    /* An integer with a bit for each lane of the warp: does the i1 hold there? */
    LLVMValueRef (*ballot)(GpuEmitter *em, LLVMValueRef i1);
    /* Like `ballot`: does the i32 of that lane have this bit as this lane's has it? NULL: two
     * ballots do. */
    LLVMValueRef (*same_bit)(GpuEmitter *em, LLVMValueRef i32, uint32_t bit);
    /* Barriers of the lanes of a warp, and of all threads of em->role. They order accesses of
     * shared memory. */
    void (*warp_sync)(GpuEmitter *em);
    void (*sync)(GpuEmitter *em);

    /* ---- values ---- */
    /* A copy of the i32 that LLVM knows nothing about: what depends on it is computed here, in each
     * iteration of a loop, and occupies no registers until then. NULL: values are computed once. */
    LLVMValueRef (*opaque)(GpuEmitter *em, LLVMValueRef i32);
    /* The value, computed at this place instead of behind a branch that needs it first. NULL: LLVM
     * does not move it there. */
    LLVMValueRef (*compute_here)(GpuEmitter *em, LLVMValueRef value);
    /* A loop-carried value of a loop that lanes leave one by one: each lane keeps its last value.
     * NULL: LLVM does so by itself. */
    LLVMValueRef (*loop_carry)(GpuEmitter *em, LLVMValueRef value);
    /* The maxima (or minima) of two pairs of 16-bit floats, in words of 32 bits; NaN wins. NULL:
     * the target has no such instruction. */
    LLVMValueRef (*extreme_pair)(GpuEmitter *em, bool most, DType dtype, LLVMValueRef a,
                                 LLVMValueRef c);
    /* 1/x of an f32 of moderate size, within one unit in the last place. NULL: a division has no
     * branch on this target and needs no other way. */
    LLVMValueRef (*reciprocal)(GpuEmitter *em, LLVMValueRef x);
    /* 2^x of an f32. */
    LLVMValueRef (*fast_exp2)(GpuEmitter *em, LLVMValueRef x);
    /* An approximate op (OP_FAST_…) of an f32. NULL: the target computes the exact one. */
    LLVMValueRef (*fast)(GpuEmitter *em, OpKind kind, LLVMValueRef x);

    /* ---- global memory ---- */
    /* Guarded accesses: a value like `otherwise` (a scalar or a vector) from ptr if the
     * condition holds (NULL: always). `constant`: no thread writes it during the launch; `line`:
     * other threads read the rest of its cache line. NULL: a branch guards the access. */
    LLVMValueRef (*load_if)(GpuEmitter *em, LLVMValueRef condition, LLVMValueRef ptr,
                            LLVMValueRef otherwise, bool constant, bool line);
    void (*store_if)(GpuEmitter *em, LLVMValueRef condition, LLVMValueRef ptr, LLVMValueRef value);
    /* Asynchronous copies to shared memory, in groups (COPY_LOAD, COPY_COMMIT, COPY_WAIT).
     * copy_wait leaves `pending` groups in flight. `full`: i1, each group in flight has copies;
     * NULL: unknown. NULL: the target has no such copies. */
    void (*copy)(GpuEmitter *em, const GpuCopyVector *piece);
    void (*copy_commit)(GpuEmitter *em);
    void (*copy_wait)(GpuEmitter *em, int pending, LLVMValueRef full);
    /* Fills box, swizzle and rank of the tensor map of a bulk_load or bulk_store; `param` is
     * set. */
    void (*describe_map)(GpuEmitter *em, const Op *op, PlanTensorMap *map);

    /* ---- launches and clusters ---- */
    /* Launches that begin while preceding ones end: waits until all preceding launches are done;
     * lets the next launch begin. NULL: the target has no such launches. */
    void (*grid_wait)(GpuEmitter *em);
    void (*grid_launch_dependents)(GpuEmitter *em);
    /* i32: the number of this block in its cluster. NULL, also below: the target has no
     * clusters. */
    LLVMValueRef (*cluster_rank)(GpuEmitter *em);
    /* At the begin of the kernel: initializes n receive mbarriers, the first one at `at`, and
     * arrives at the cluster's barrier. */
    void (*cluster_begin)(GpuEmitter *em, LLVMValueRef at, int n);
    /* Waits until all blocks of the cluster have arrived. */
    void (*cluster_wait)(GpuEmitter *em);
    /* Sets the bytes that each receive mbarrier expects. */
    void (*cluster_expect)(GpuEmitter *em, LLVMValueRef at, int n, const int64_t *bytes);
    /* Sends n words of 4 or 8 bytes, together at most 16, to the address in `block` that
     * corresponds to `at` here, and counts their bytes at its receive mbarrier. */
    void (*cluster_send)(GpuEmitter *em, LLVMValueRef at, LLVMValueRef block, int n,
                         LLVMValueRef *words, LLVMValueRef mbarrier);
    /* Waits until all bytes that the mbarrier expects have arrived. */
    void (*cluster_receive)(GpuEmitter *em, LLVMValueRef mbarrier, LLVMValueRef parity);
    /* One thread, behind its wait: the mbarrier expects as many bytes again. */
    void (*cluster_await)(GpuEmitter *em, LLVMValueRef mbarrier, int64_t bytes);

    /* ---- dots ---- */
    /* One matrix instruction: acc, n values of the result's type, becomes acc + a b. */
    void (*multiply)(GpuEmitter *em, const MatrixInstr *unit, const GpuFragment *a,
                     const GpuFragment *b, LLVMValueRef *acc, int n);
    /* Behind the last instruction of a dot. May be NULL. */
    void (*finish_dot)(GpuEmitter *em, const MatrixInstr *unit, LLVMValueRef *acc, int n);
    /* The eight 4-bit elements of a word as f16 or bf16. NULL, or false: elements are upcast one by
     * one. */
    bool (*widen_word)(GpuEmitter *em, DType from, DType to, LLVMValueRef word, LLVMValueRef *out);
    /* Two 8-bit floats (i8) as f16, in place. NULL, or false: the target has no such
     * instruction. */
    bool (*widen_pair)(GpuEmitter *em, DType from, LLVMValueRef *a, LLVMValueRef *b);
    /* Two f32 as 8-bit floats (i8), in place, rounded as by a cast. NULL, or false: the same. */
    bool (*narrow_pair)(GpuEmitter *em, DType to, LLVMValueRef *a, LLVMValueRef *b);
    /* Loads one word per thread of each of n (1, 2, 4) matrices of 8 rows of 16 bytes; lane
     * 8 * matrix + row has the address of a row. Lane i gets word i % 4 of row i / 4, or, if
     * transposed, of the transposed matrix of 8 × 8 elements of 16 bits. NULL: the target has no
     * such instruction. */
    void (*load_matrices)(GpuEmitter *em, LLVMValueRef at, int n, bool transposed,
                          LLVMValueRef *words);

    /* ---- ops of one vendor ---- */
    /* At the begin of a kernel with mbarriers, outside of roles: initializes them, with a fence and
     * a barrier. */
    void (*barriers_begin)(GpuEmitter *em);
    /* Emits an op that only this vendor has (dots, copies, mbarriers, roles). False: the op is not
     * one of them. */
    bool (*emit_op)(GpuEmitter *em, Op *op);

    /* ---- after emission ---- */
    bool lines;         /* the assembler keeps source locations, and the code is the same */
    const char *passes; /* LLVM passes that run after the middle end; NULL: none */
    const char *const *left_out; /* passes of LLVM's back end (codegen/llvm/llvm_pass_gate.h) */
    /* After LLVM's middle end: rewrites what LLVM's back end must not see. May be NULL. */
    void (*rewrite)(GpuEmitter *em);
    /* The module as text or object in a form of this vendor. False after a diagnostic. */
    bool (*finish)(GpuEmitter *em, EmitKind kind, Code *code);
} GpuTarget;

/* A tensor map parameter of this kernel; ops with the same box share one. */
typedef struct GpuMap {
    int plan_map;         /* index into Plan.maps */
    LLVMValueRef pointer; /* the kernel's parameter: address of the 128 bytes */
    struct {
        const Op **items;
        size_t n, cap;
    } ops;
} GpuMap;

struct GpuEmitter {
    Llvm *l; /* the next three and the types are the same as its own */
    Func *func;
    Arena *arena;
    const GpuTarget *target;
    const CodegenOptions *options;
    Plan *plan;

    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTypeRef i1, i8, i16, i32, i64, f16, bf16, f32, f64, global_ptr, shared_ptr;

    /* The kernel being emitted. */
    Op *launch;
    PlanLaunch *plan_launch;
    LLVMValueRef kernel;
    int warps;        /* of the block, all roles */
    int warp_bits;    /* log2 of the lanes of a warp */
    GpuRole *role;    /* the threads that execute the code at the cursor */
    GpuValue *values; /* by Value.id */
    struct {
        uint32_t *items; /* ids of values that have been defined in this launch */
        size_t n, cap;
    } defined;
    const Value **params; /* by their numbers in the plan */
    LLVMValueRef *sizes;  /* i64, by DimVar.id (DIM_SIZE) */
    LLVMValueRef log;     /* of print and assert */
    struct {
        const Layout *layout;
        LLVMValueRef *regs;   /* i1, by register; NULL: all */
    } active;                 /* which elements a loop of elements around the cursor still walks */
    LLVMValueRef shared_base; /* NULL when the kernel has none */
    SharedLayout shared;      /* offsets from shared_base */
    int n_receive_mbarriers;   /* that reductions have taken so far */
    bool joined;               /* the other blocks of the cluster are known to run */
    struct GpuReduce *waiting; /* the last of the reductions that share the next one's barrier */
    int n_named_barriers;      /* assigned to roles; ids from 1 */
    struct {
        GpuMap *items;
        size_t n, cap;
    } maps;
};

/* ---- gpu_emit.c: the walk ---- */
void gpu_emit_block(GpuEmitter *em, Block *block);
void gpu_emit_op(GpuEmitter *em, Op *op);

/* ---- gpu_role.c ---- */
/* Enters a role over warps [first, first + warps) of the block, in `teams` teams, at the cursor: it
 * computes the role's ids in an entry block and sets em->role, which the caller restores. */
GpuRole *gpu_role_enter(GpuEmitter *em, int first_warp, int warps, int teams, int barrier);

/* ---- gpu_values.c ---- */
_Noreturn void gpu_bug(GpuEmitter *em, const Op *op, const char *what);
/* The registers of an operand or result (result: allocated, all NULL). */
GpuValue *gpu_value(GpuEmitter *em, const Value *value);
GpuValue *gpu_define(GpuEmitter *em, const Value *value);
void gpu_define_scalar(GpuEmitter *em, const Value *value, LLVMValueRef scalar);
void gpu_define_range(GpuEmitter *em, const Value *value, LLVMValueRef first, LLVMValueRef end);
LLVMValueRef gpu_scalar(GpuEmitter *em, const Value *value);
/* The number of LLVM values that an IR value of this type has. */
int gpu_registers(GpuEmitter *em, Type type);
/* Static extent of an axis of a tile. */
int64_t gpu_extent(GpuEmitter *em, Type type, int axis);
int64_t gpu_elements(GpuEmitter *em, Type type);
/* Bytes of an allocation in shared memory, all pipeline stages. */
/* Does register r hold an element for any thread? */
bool gpu_exists(GpuEmitter *em, Type type, int r);
/* The first register with the same element (zero basis vectors cleared). */
int gpu_canonical(const Layout *layout, int r);
/* The first register that holds the same element, or one that is equal by attribute `equal`. */
int gpu_first_equal(const Value *value, int r);
/* Does register r hold an element of its own? Others do not exist, or are copies. */
bool gpu_holds(GpuEmitter *em, Type type, int r);
LLVMValueRef gpu_size_value(GpuEmitter *em, Dim dim); /* i64 */
/* The register's part of a coordinate. */
int gpu_register_coord(const Layout *layout, int axis, int r);
/* Data pointer of a tensor parameter (address space 1). */
LLVMValueRef gpu_tensor(GpuEmitter *em, const Value *tensor);

/* ---- gpu_coords.c ---- */

/* i1: is register r's element in the tile in this thread? NULL: in all. */
LLVMValueRef gpu_in_tile(GpuEmitter *em, Type type, int r);
/* Do registers and threads move along this axis by different bits? */
bool gpu_is_disjoint(const Layout *layout, int axis);
/* i32: this thread's part of the coordinate on an axis. */
LLVMValueRef gpu_thread_coord(GpuEmitter *em, const Layout *layout, int axis);
/* i32: coordinate on `axis` of register r. */
LLVMValueRef gpu_coord(GpuEmitter *em, const Layout *layout, int axis, int r);
/* i1: is this thread the first of those that hold the same elements? NULL: there are no
 * replicas. */
LLVMValueRef gpu_first_holder(GpuEmitter *em, const Layout *layout);
/* i1: is its warp the first one that holds these elements? NULL: there are no replicas. */
LLVMValueRef gpu_first_warp(GpuEmitter *em, const Layout *layout);
/* i32: the bits of `mask` in `id`, packed together. */
LLVMValueRef gpu_extract_bits(GpuEmitter *em, LLVMValueRef id, uint32_t mask);
/* The bits of a lane's number that select replicas: lanes that differ in them alone hold the same
 * elements. */
uint32_t gpu_lane_copies(const GpuEmitter *em, const Layout *layout);
/* Do some threads hold elements outside of the array, because its extent is no power of two? */
bool gpu_overhangs(GpuEmitter *em, Type type, int axis);
/* a and c; NULL is true. */
LLVMValueRef gpu_both(GpuEmitter *em, LLVMValueRef a, LLVMValueRef c);

/* ---- memory ---- */
const SharedAllocation *gpu_shared(GpuEmitter *em, const Value *memory);
/* Pointer (shared space) to a ring slot of a shared or barrier value: `position` modulo the extent
 * of axis 0; NULL position: slot 0. */
LLVMValueRef gpu_shared_slot(GpuEmitter *em, const Value *memory, LLVMValueRef position);
/* i32: position modulo extent, and position / extent. */
LLVMValueRef gpu_ring_slot(GpuEmitter *em, LLVMValueRef position, int64_t extent);
LLVMValueRef gpu_ring_phase(GpuEmitter *em, LLVMValueRef position, int64_t extent);
/* The kernel's tensor map parameter for a bulk_load or bulk_store. */
LLVMValueRef gpu_map(GpuEmitter *em, const Op *op);
/* First index (i64) that an access has on memory axis `axis`: 0, the range's first, or the
 * scalar. */
LLVMValueRef gpu_access_first(GpuEmitter *em, const Access *access, int axis);
/* i32: how many elements of a range exist. */
LLVMValueRef gpu_range_length(GpuEmitter *em, const Value *range);
/* Finds the register bits that step through a contiguous run along an axis, lowest first; returns
 * their number, `most` at most. */
int gpu_run_bits(const Layout *layout, int axis, int most, int *bits);
/* The register number whose bits `bits` are those of i. */
int gpu_deposit_bits(const int *bits, int n, int i);

/* Copy instructions of a warp in the smallest group of asynchronous copies; 0: the number differs
 * between warps. */
int64_t gpu_copies_of_group(GpuEmitter *em);

/* ---- small LLVM helpers ---- */
/* A new block at the end of the kernel; the cursor moves only by gpu_go. */
LLVMBasicBlockRef gpu_new_block(GpuEmitter *em, const char *name);
void gpu_go(GpuEmitter *em, LLVMBasicBlockRef block);
LLVMValueRef gpu_i32(GpuEmitter *em, int64_t value);
LLVMValueRef gpu_i64(GpuEmitter *em, int64_t value);
LLVMTypeRef gpu_type(GpuEmitter *em, DType dtype); /* bool: i1 */
/* Pointer plus constant or i32 bytes. */
LLVMValueRef gpu_at(GpuEmitter *em, LLVMValueRef ptr, LLVMValueRef bytes);
LLVMValueRef gpu_at_const(GpuEmitter *em, LLVMValueRef ptr, int64_t bytes);
/* The smaller one of two integers with a sign. */
LLVMValueRef gpu_min(GpuEmitter *em, LLVMValueRef a, LLVMValueRef c);
/* Calls an LLVM intrinsic; overloaded types as given. */
LLVMValueRef gpu_intrinsic(GpuEmitter *em, const char *name, int n_types, LLVMTypeRef *types,
                           int n_args, LLVMValueRef *args);
LLVMValueRef gpu_asm(GpuEmitter *em, LLVMTypeRef result, const char *text, const char *constraints,
                     bool effects, int n_args, LLVMValueRef *args);
/* A copy of the i64, which is uniform in a warp. LLVM moves neither the copy nor what depends on it
 * out of a loop. */
LLVMValueRef gpu_rematerialize(GpuEmitter *em, LLVMValueRef i64);
LLVMAttributeRef gpu_attribute(GpuEmitter *em, const char *name, uint64_t value);

#endif
