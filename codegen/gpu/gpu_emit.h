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
#include "ir/ir.h"
#include "ir/layout/layout.h"
#include "ir/layout/matrix_instr.h"
#include "ir/target/target.h"

typedef struct GpuEmitter GpuEmitter;

/* Where a 16-bit element lies that was loaded with its neighbour. */
typedef struct GpuHalf {
    LLVMValueRef word; /* i32; NULL: it came alone */
    bool high;
} GpuHalf;

/* The registers of one IR value in this thread. Scalars: n = 1. Ranges: n = 2, first and end. */
typedef struct GpuValue {
    LLVMValueRef *regs;
    int n;
    GpuHalf *halves; /* by register; NULL: none were loaded in pairs */
} GpuValue;

/* A thread's part of a coordinate: what lane and warp XOR into one axis of one layout. */
typedef struct GpuCoord {
    const Layout *layout;
    int axis;
    LLVMValueRef value; /* i32 */
} GpuCoord;

/* Who runs the code being emitted: the whole block, or one role. Ids are relative to the role's
 * first warp, so that layouts need not know about roles. */
typedef struct GpuRole {
    int first_warp, warps;   /* warps: of a team */
    int teams;               /* that run the code, each on tiles of its own */
    int barrier;             /* named barrier of the role's (first) team; 0: the block's own */
    int apart;               /* first of the named barriers of its warp groups; 0: none */
    int turns;               /* first of the named barriers of its warp groups' turns; 0: none */
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

/* What a thread has of an operand of a matrix instruction: elements, or words of 32 bits of them.
 * */
typedef struct GpuFragment {
    LLVMValueRef *items;
    int n;
    bool words;
} GpuFragment;

/* What a thread copies to shared memory at once. */
typedef struct GpuCopyVector {
    LLVMValueRef from, to;
    LLVMValueRef first;  /* where its warp's first lane copies to; lanes follow one another */
    LLVMValueRef inside; /* i1: else it is zeros; NULL: it is */
    int bytes;           /* 4, 8, 16: one of target->copies */
} GpuCopyVector;

/* Limits of straight-line code in the loop of a dot without matrix instructions (gpu_fma_dot.c). A
 * limit of 0 means none. */
typedef struct GpuFmaLimits {
    int chunk;           /* k of an iteration */
    int chunk_products;  /* multiply-adds of an iteration */
    int chunk_registers; /* 32-bit registers of the elements that an iteration reads */
    int block_registers; /* the same of a block, which is read at once */
} GpuFmaLimits;

/* What one vendor does in its own way. Hooks emit at the builder's cursor. */
typedef struct GpuTarget {
    const char *name;
    unsigned shared_space;    /* address space of shared memory; global is 1 on both */
    const char *device_scope; /* LLVM's name for all threads of the device */
    bool dynamic_shared;      /* its size is given at launch, not in the code object */
    GpuFmaLimits fma;
    /* Module: triple and data layout are set already; flags, attributes and shared memory are
     * not. */
    void (*module_begin)(GpuEmitter *em);
    /* The kernel function exists; calling convention, attributes of it and of its parameters. */
    void (*kernel_attributes)(GpuEmitter *em, int threads, int blocks_per_unit);
    /* Shared memory of `bytes` for this kernel: a pointer to its first byte, aligned to 1024. */
    LLVMValueRef (*shared_memory)(GpuEmitter *em, int bytes);
    LLVMValueRef (*thread_id)(GpuEmitter *em); /* i32, in the block */
    LLVMValueRef (*block_id)(GpuEmitter *em);  /* i32, axis x */
    LLVMValueRef (*block_count)(GpuEmitter *em);
    /* The same value, known to be equal in all lanes of a warp. */
    LLVMValueRef (*warp_uniform)(GpuEmitter *em, LLVMValueRef i32);
    /* The value (i32) of lane ^ mask. */
    LLVMValueRef (*shuffle_xor)(GpuEmitter *em, LLVMValueRef i32, int mask);
    /* A copy of the i32 that LLVM knows nothing about: what depends on it is computed here, in each
     * iteration of a loop, and occupies no registers until then. NULL: values are computed once. */
    LLVMValueRef (*opaque)(GpuEmitter *em, LLVMValueRef i32);
    /* The greater (or lesser) ones of two pairs of 16-bit floats, words of 32 bits; NaN wins. NULL:
     * no instruction does. */
    LLVMValueRef (*extreme_pair)(GpuEmitter *em, bool most, DType dtype, LLVMValueRef a,
                                 LLVMValueRef c);
    /* For which lanes of the warp i1 holds: a bit each, in an integer of as many bits. */
    LLVMValueRef (*ballot)(GpuEmitter *em, LLVMValueRef i1);
    /* The lanes in whose i32 this bit is as in this lane's, as `ballot` has them. NULL: by one. */
    LLVMValueRef (*same_bit)(GpuEmitter *em, LLVMValueRef i32, uint32_t bit);
    /* The lanes of a warp meet, shared accesses ordered. */
    void (*warp_sync)(GpuEmitter *em);
    /* All threads of em->role meet, shared accesses ordered. */
    void (*sync)(GpuEmitter *em);
    /* 1/x of an f32 of moderate size, within one unit in the last place. NULL: division is not a
     * branch on this target, and needs no help. */
    LLVMValueRef (*reciprocal)(GpuEmitter *em, LLVMValueRef x);
    /* 2^x of an f32. */
    LLVMValueRef (*fast_exp2)(GpuEmitter *em, LLVMValueRef x);
    /* An op that carries its value, of f32 x. NULL: the target takes the value. */
    LLVMValueRef (*fast)(GpuEmitter *em, OpKind kind, LLVMValueRef x);
    /* A guarded access of global memory: a value like `otherwise` (a scalar or a vector) from ptr
     * if the condition (NULL: always) holds. `constant`: nobody writes it during the launch;
     * `line`: all of its line will be read, by others. NULL hooks: a branch. */
    LLVMValueRef (*load_if)(GpuEmitter *em, LLVMValueRef condition, LLVMValueRef ptr,
                            LLVMValueRef otherwise, bool constant, bool line);
    void (*store_if)(GpuEmitter *em, LLVMValueRef condition, LLVMValueRef ptr, LLVMValueRef value);
    /* The value, computed at this place and not where a branch first wants it. NULL: no need. */
    LLVMValueRef (*compute_here)(GpuEmitter *em, LLVMValueRef value);
    /* What a loop that lanes leave one by one takes to its next round: each lane has its own. NULL:
     * LLVM keeps it so. */
    LLVMValueRef (*loop_carry)(GpuEmitter *em, LLVMValueRef value);
    /* Launches that begin while those before them end; NULL: the target has none. Waits until all
     * that was launched before is done; lets what is launched after begin. */
    void (*grid_wait)(GpuEmitter *em);
    void (*grid_launch_dependents)(GpuEmitter *em);
    /* Clusters; NULL: the target has none. i32: which block of its cluster this one is. */
    LLVMValueRef (*cluster_rank)(GpuEmitter *em);
    /* First thing in the kernel: makes n mailboxes, the first one at `at`; tells the others so. The
     * wait until all others have. And what each mailbox awaits then. */
    void (*cluster_begin)(GpuEmitter *em, LLVMValueRef at, int n);
    void (*cluster_wait)(GpuEmitter *em);
    void (*cluster_expect)(GpuEmitter *em, LLVMValueRef at, int n, const int64_t *bytes);
    /* n words of 4 or 8 bytes, together 16 at most, to where block `block` has what this one has at
     * `at`, and word of it to its mailbox; the wait for all that a mailbox awaits. */
    void (*cluster_send)(GpuEmitter *em, LLVMValueRef at, LLVMValueRef block, int n,
                         LLVMValueRef *words, LLVMValueRef mailbox);
    void (*cluster_receive)(GpuEmitter *em, LLVMValueRef mailbox, LLVMValueRef parity);
    /* Of one thread, behind its wait: the mailbox awaits so many bytes anew. */
    void (*cluster_await)(GpuEmitter *em, LLVMValueRef mailbox, int64_t bytes);
    /* One matrix instruction: acc, n values of the result's type, becomes acc + a b. */
    void (*multiply)(GpuEmitter *em, const MatrixInstr *unit, const GpuFragment *a,
                     const GpuFragment *b, LLVMValueRef *acc, int n);
    /* A product's own instructions are done: what they came to is made here. May be NULL. */
    void (*settle)(GpuEmitter *em, const MatrixInstr *unit, LLVMValueRef *acc, int n);
    /* Two 8-bit floats (i8) become f16. False: no instruction of this target does. May be NULL. */
    /* The eight elements of a word, of 4 bits each, as f16 or bf16; NULL, or false: one by one. */
    bool (*widen_word)(GpuEmitter *em, DType from, DType to, LLVMValueRef word, LLVMValueRef *out);
    bool (*widen_pair)(GpuEmitter *em, DType from, LLVMValueRef *a, LLVMValueRef *b);
    /* A word a thread of each of n (1, 2, 4) matrices of 8 rows of 16 bytes, a row at the address
     * of lane 8 * matrix + row: lane i gets word i % 4 of row i / 4, or, `turned`, the transposed
     * matrix' of 8 × 8 elements of 16 bits. NULL: the target has no such instruction. */
    void (*load_matrices)(GpuEmitter *em, LLVMValueRef at, int n, bool turned, LLVMValueRef *words);
    /* Copies past registers, in groups (COPY_LOAD, COPY_COMMIT, COPY_WAIT). `full`: i1, each of the
     * groups that may be on their way has copies; NULL: nobody knows. NULL: the target has none. */
    void (*copy)(GpuEmitter *em, const GpuCopyVector *piece);
    void (*copy_commit)(GpuEmitter *em);
    void (*copy_wait)(GpuEmitter *em, int pending, LLVMValueRef full);
    /* The tensor map that a bulk_load or bulk_store needs; box, swizzle, rank (param is set). */
    void (*describe_map)(GpuEmitter *em, const Op *op, PlanTensorMap *map);
    /* First thing in the kernel, outside of roles, when it has barriers: initialize, fence,
     * sync. */
    void (*barriers_begin)(GpuEmitter *em);
    /* Ops of this vendor (products, copies, barriers, roles). False: not mine. */
    bool (*emit_op)(GpuEmitter *em, Op *op);
    bool lines;                  /* the assembler keeps places in the source, and code the same */
    const char *passes;          /* of LLVM's, after the middle end; NULL: none */
    const char *const *left_out; /* passes of LLVM's back end (codegen/llvm/llvm_pass_gate.h) */
    /* After LLVM's middle end: what its back end must not see. May be NULL. */
    void (*rewrite)(GpuEmitter *em);
    /* The text or object of the module in another form (cubin, hsaco). False after a diagnostic. */
    bool (*finish)(GpuEmitter *em, EmitKind kind, Code *code);
} GpuTarget;

/* A shared or barrier allocation. */
typedef struct GpuShared {
    Op *op;     /* OP_SHARED or OP_MBARRIER */
    int offset; /* bytes from em->shared_base */
    int bytes;  /* all slots */
} GpuShared;

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
    GpuRole *role;    /* who runs the code at the cursor */
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
    int shared_bytes;
    int handed; /* bytes from shared_base: old elements of a scatter for the warps that want them */
    int mailboxes;             /* bytes from shared_base: of reductions over the cluster */
    int n_mailboxes;           /* that have been used */
    bool joined;               /* the cluster's other blocks are known to run */
    struct GpuReduce *waiting; /* reductions that the next one meets for, too; the last of them */
    int n_named_barriers;      /* handed out to roles; ids from 1 */
    struct {
        GpuShared *items;
        size_t n, cap;
    } shareds;
    struct {
        GpuMap *items;
        size_t n, cap;
    } maps;
};

/* ---- gpu_emit.c: the walk ---- */
void gpu_emit_block(GpuEmitter *em, Block *block);
void gpu_emit_op(GpuEmitter *em, Op *op);

/* ---- gpu_role.c ---- */
/* A role over warps [first, first + warps) of the block, in so many teams, at the cursor: makes its
 * entry block, goes past it, and computes its ids. Becomes em->role; the caller restores the old
 * one. */
GpuRole *gpu_role_enter(GpuEmitter *em, int first_warp, int warps, int teams, int barrier);

/* ---- gpu_values.c ---- */
_Noreturn void gpu_bug(GpuEmitter *em, const Op *op, const char *what);
/* The registers of an operand or result (result: allocated, all NULL). */
GpuValue *gpu_value(GpuEmitter *em, const Value *value);
GpuValue *gpu_define(GpuEmitter *em, const Value *value);
void gpu_define_scalar(GpuEmitter *em, const Value *value, LLVMValueRef scalar);
void gpu_define_range(GpuEmitter *em, const Value *value, LLVMValueRef first, LLVMValueRef end);
LLVMValueRef gpu_scalar(GpuEmitter *em, const Value *value);
/* How many LLVM values an IR value of this type has. */
int gpu_registers(GpuEmitter *em, Type type);
/* Static extent of an axis of a tile. */
int64_t gpu_extent(GpuEmitter *em, Type type, int axis);
int64_t gpu_elements(GpuEmitter *em, Type type);
/* Bytes of an allocation in shared memory, all pipeline stages. */
int64_t gpu_memory_bytes(GpuEmitter *em, const Value *memory);
/* Does register r hold an element for any thread? */
bool gpu_exists(GpuEmitter *em, Type type, int r);
/* The first register with the same element (zero basis vectors cleared). */
int gpu_canonical(const Layout *layout, int r);
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
/* i32: what this thread contributes to the coordinate on an axis. */
LLVMValueRef gpu_thread_coord(GpuEmitter *em, const Layout *layout, int axis);
/* i32: coordinate on `axis` of register r. */
LLVMValueRef gpu_coord(GpuEmitter *em, const Layout *layout, int axis, int r);
/* i1: is this thread the first of those that hold the same elements? NULL: each is. */
LLVMValueRef gpu_first_holder(GpuEmitter *em, const Layout *layout);
/* The same of warps: is it in the first one that holds its elements? NULL: each has its own. */
LLVMValueRef gpu_first_warp(GpuEmitter *em, const Layout *layout);
/* i32: the bits of `mask`, pressed together: which one of those that differ in them only. */
LLVMValueRef gpu_extract_bits(GpuEmitter *em, LLVMValueRef id, uint32_t mask);
/* The bits of a lane that name copies: lanes that differ in them alone hold the same elements. */
uint32_t gpu_lane_copies(const GpuEmitter *em, const Layout *layout);
/* The same of warps, of which a role has so many. */
uint32_t gpu_warp_copies(int warps, const Layout *layout);
/* Do some threads hold elements outside of the array, because its extent is no power of two? */
bool gpu_overhangs(GpuEmitter *em, Type type, int axis);
/* a and c; NULL is true. */
LLVMValueRef gpu_both(GpuEmitter *em, LLVMValueRef a, LLVMValueRef c);

/* ---- memory ---- */
const GpuShared *gpu_shared(GpuEmitter *em, const Value *memory);
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
/* Register bits of neighbours along an axis, lowest first, `most` at most; how many there are. */
int gpu_run_bits(const Layout *layout, int axis, int most, int *bits);
/* The register number whose bits `bits` are those of i. */
int gpu_deposit_bits(const int *bits, int n, int i);

/* Instructions of a warp's for each group of copies, the fewest of all groups; 0: not all warps
 * have as many. */
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
/* Calls an LLVM intrinsic; overloaded types as given. */
LLVMValueRef gpu_intrinsic(GpuEmitter *em, const char *name, int n_types, LLVMTypeRef *types,
                           int n_args, LLVMValueRef *args);
LLVMValueRef gpu_asm(GpuEmitter *em, LLVMTypeRef result, const char *text, const char *constraints,
                     bool effects, int n_args, LLVMValueRef *args);
/* A copy of the i64, which is uniform in a warp. LLVM moves neither it nor what depends on it out
 * of a loop. */
LLVMValueRef gpu_rematerialize(GpuEmitter *em, LLVMValueRef i64);
LLVMAttributeRef gpu_attribute(GpuEmitter *em, const char *name, uint64_t value);

#endif
