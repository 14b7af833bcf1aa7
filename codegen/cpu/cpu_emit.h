/* SPDX-License-Identifier: Apache-2.0 */
/* The model by which the CPU back end emits a launch.
 *
 * A launch is a function that iterates over block ids; its body is emitted once, inside that loop.
 * Scalars are LLVM values. An array is either *virtual*, computed element by element inside the
 * loop nest of its reader, or it has a Buffer on the stack (cpu_analyze.c decides). A nest is the
 * set of loops over one array's elements, with vectors along one axis.
 *
 * Nests end at the end of a range, so padding elements past a tail are never computed: masks have
 * no effect here, and a bounds check is emitted only if an index inside its range could leave the
 * tensor. */
#ifndef TESSERA_CODEGEN_CPU_CPU_EMIT_H
#define TESSERA_CODEGEN_CPU_CPU_EMIT_H

#include "codegen/llvm/llvm.h"
#include "codegen/plan/plan_builder.h"
#include "codegen/scalar/scalar_atomic.h"
#include "codegen/scalar/scalar_ops.h"

/* A piece of the stack. Free for another buffer after the op at position `free_after`. */
typedef struct StackSlot {
    LLVMValueRef memory;
    int64_t bytes;
    int free_after;
} StackSlot;

/* A tile in memory. Its vector axis is the last one that is longer than 1, padded to whole vectors,
 * so that full vectors may be read and written at its tail. */
typedef struct Buffer {
    StackSlot *slot;
    DType dtype;
    int rank;
    int vector_axis; /* -1: one element */
    int64_t extents[MAX_RANK], strides[MAX_RANK];
    int64_t bytes;
} Buffer;

typedef struct CpuValue {
    /* from the analysis */
    const Op *reader; /* the one nest that computes it; NULL: none yet */
    bool moved;       /* some reader takes another element than the one that it computes */
    bool many;        /* more than one nest reads it, or one does so repeatedly */
    bool yielded;
    bool stored; /* gets a buffer */
    int cost;    /* of computing one element again */
    bool pieces; /* that loads a cache line of its own for few elements */
    int last;    /* position of its last reader */
    struct {
        unsigned stamp;
        int how;
        bool answer;
    } seen; /* in the walk at work, see cpu_seen */
    /* from the emission */
    LLVMValueRef scalar;
    LLVMValueRef start, end, len; /* ranges */
    const Buffer *buffer;
} CpuValue;

/* A loop of single elements around what is computed: some lanes of its vector may be done. */
typedef struct ActiveLoop {
    const Op *loop;
    LLVMValueRef mask; /* of the lanes outside of it */
    const struct ActiveLoop *outer;
} ActiveLoop;

/* Where a nest stands in an array: a coordinate per axis, i64, counted in the tile. */
typedef struct Point {
    int rank;
    int vector_axis;           /* lanes are consecutive along it; -1: a single element */
    LLVMValueRef at[MAX_RANK]; /* of lane 0 */
    LLVMValueRef mask;         /* lanes that exist; NULL: all */
    const ActiveLoop *inside;  /* NULL: no such loop */
} Point;

typedef enum KnownAs {
    KNOWN_VALUE, /* result: the element, or a vector */
    KNOWN_LANES, /* an index: i64, lane l's is result + l * step; NULL: that is not so */
} KnownAs;

typedef struct CachedElement {
    const Value *value;
    Point point;
    KnownAs as;
    LLVMValueRef result, step;
} CachedElement;

/* A tensor that each call has for itself: its pointer in c->pointers is that of the own one. */
typedef struct PrivateTensor {
    AtomicFn fn;
    int64_t n, copies; /* elements of one; which lanes share */
    LLVMValueRef shared, neutral;
} PrivateTensor;

typedef struct CpuEmitter {
    Llvm *l;
    Func *func;
    Arena *arena;
    const Plan *plan;
    int lanes;        /* of a vector, whatever its element type */
    int unroll;       /* vectors that inner loops take at a time; 0: as is best for each */
    CpuValue *values; /* by Value.id */
    struct {
        const Op **items;
        size_t n, cap;
    } ops;          /* by position */
    const Op **nests; /* by position of a store: the last store of its nest */
    bool *in_place;   /* by the same position: the nest loads what it stores to */
    unsigned stamp;   /* of the walk at work */
    bool *written;  /* by parameter: this launch writes it */
    int now;        /* position of the op being emitted */
    LLVMValueRef function;
    LLVMBasicBlockRef entry;  /* allocas and arguments */
    LLVMValueRef *sizes;      /* by DimVar.id */
    LLVMValueRef *pointers;   /* by parameter */
    LLVMValueRef log;         /* of print and assert */
    PrivateTensor **privates; /* by parameter; NULL: shared by all threads */
    LLVMValueRef spare;       /* where accesses that must not happen go */
    struct {
        StackSlot **items;
        size_t n, cap;
    } slots;
    struct {
        CachedElement *items;
        size_t n, cap;
    } known; /* in this nest, dominating the cursor */
} CpuEmitter;

/* ---- cpu_analyze.c ---- */
/* Fills the analysis part of c->values for everything in the launch. */
void cpu_analyze(CpuEmitter *c, const Op *launch);
int cpu_position(const CpuEmitter *c, const Op *op);
int cpu_end_position(const CpuEmitter *c, const Op *op);
/* Expressions share parts: a walk over one remembers its answer for each value and way of asking,
 * or it would take exponential time. cpu_new_walk forgets. */
void cpu_new_walk(CpuEmitter *c);
bool cpu_seen(const CpuEmitter *c, const Value *value, int how, bool *answer);
bool cpu_remember(CpuEmitter *c, const Value *value, int how, bool answer);
/* Reads a tensor that this launch writes. */
bool cpu_reads_written(const CpuEmitter *c, const Op *op);
/* Computed where it is read, if nothing speaks against it. */
bool cpu_is_pointwise(const Op *op);
/* The last store of the nest that a store is in: several in one block of a region share one. */
enum { MAX_STORES = 8 };
const Op *cpu_store_nest(const CpuEmitter *c, const Op *store);
/* The nest that ends with this store loads, without a buffer, elements that it then overwrites. */
bool cpu_is_in_place(const CpuEmitter *c, const Op *last);
/* Every leaf below is contiguous along `axis` of the value, or does not vary along it. */
bool cpu_contiguous(CpuEmitter *c, const Value *value, int axis);

/* ---- cpu_buffers.c ---- */
Buffer *cpu_buffer_shape(CpuEmitter *c, DType dtype, int rank, const int64_t *extents);
/* Gives it memory until after position `free_after`. */
void cpu_buffer_place(CpuEmitter *c, Buffer *buffer, int free_after);
Buffer *cpu_buffer_for(CpuEmitter *c, Type type, int free_after);
LLVMValueRef cpu_buffer_address(CpuEmitter *c, const Buffer *buffer, const LLVMValueRef *at);
LLVMValueRef cpu_buffer_load(CpuEmitter *c, const Buffer *buffer, const Point *point);
void cpu_buffer_store(CpuEmitter *c, const Buffer *buffer, const Point *point, LLVMValueRef value);
/* Element offsets: base + offset elements of the dtype. */
LLVMValueRef cpu_element(CpuEmitter *c, DType dtype, LLVMValueRef base, LLVMValueRef offset);
LLVMValueRef cpu_load_at(CpuEmitter *c, DType dtype, LLVMValueRef address, int lanes);
void cpu_store_at(CpuEmitter *c, DType dtype, LLVMValueRef address, LLVMValueRef value);
/* Between the type in registers and the one in memory (bool). */
LLVMValueRef cpu_to_memory(CpuEmitter *c, DType dtype, LLVMValueRef value);
LLVMValueRef cpu_from_memory(CpuEmitter *c, DType dtype, LLVMValueRef value);
/* An SSA variable: a stack cell that LLVM promotes. */
LLVMValueRef cpu_cell(CpuEmitter *c, LLVMTypeRef type);
LLVMValueRef cpu_get(CpuEmitter *c, LLVMValueRef cell);
void cpu_set(CpuEmitter *c, LLVMValueRef cell, LLVMValueRef value);

/* ---- cpu_loops.c ---- */
typedef struct Loop {
    LLVMBasicBlockRef head, body, after;
    LLVMValueRef counter; /* i64, valid in the body */
    LLVMValueRef step;
    size_t known;
} Loop;
Loop cpu_loop_begin(CpuEmitter *c, LLVMValueRef lo, LLVMValueRef hi, int64_t step);
void cpu_loop_end(CpuEmitter *c, Loop *loop);
typedef struct Branch {
    LLVMBasicBlockRef otherwise, after;
    size_t known;
} Branch;
Branch cpu_if_begin(CpuEmitter *c, LLVMValueRef condition);
void cpu_if_else(CpuEmitter *c, Branch *branch);
void cpu_if_end(CpuEmitter *c, Branch *branch);

LLVMValueRef cpu_add(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cpu_sub(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cpu_mul(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cpu_mul_const(CpuEmitter *c, LLVMValueRef a, int64_t by);
LLVMValueRef cpu_min(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cpu_max(CpuEmitter *c, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef cpu_iota(CpuEmitter *c, LLVMTypeRef element);
/* Of a size expression; ranges count as their length. */
LLVMValueRef cpu_dim(CpuEmitter *c, Dim dim);
/* Static extent of an array's axis: what its buffer holds. */
int64_t cpu_capacity(CpuEmitter *c, Dim dim);
bool cpu_constant(LLVMValueRef value, int64_t *out);
bool cpu_is_constant(LLVMValueRef value, int64_t wanted);

/* ---- cpu_eval.c ---- */
/* One vector (or element) of an array. */
LLVMValueRef cpu_eval(CpuEmitter *c, const Value *value, const Point *point);
/* The same for the result of one op, whatever is known of it. */
LLVMValueRef cpu_eval_op(CpuEmitter *c, const Op *op, const Point *point);
/* Before the loop over point's vector axis: computes what does not vary along it. After
 * cpu_new_walk. */
void cpu_hoist(CpuEmitter *c, const Value *value, const Point *point);
LLVMValueRef cpu_scalar(CpuEmitter *c, const Value *value);
/* NULL: not known yet. */
const CachedElement *cpu_find_known(const CpuEmitter *c, const Value *value, const Point *point,
                                    KnownAs as);
/* Where an op that is computed element by element reads its operands. */
Point cpu_operand_point(CpuEmitter *c, const Op *op, const Point *point);

/* ---- cpu_access.c ---- */
LLVMValueRef cpu_tensor_load(CpuEmitter *c, const Op *load, const Point *point);
void cpu_tensor_store(CpuEmitter *c, const Op *store, const Point *point, LLVMValueRef value);
/* A hint that what the value is loaded from will be read there; past the end it does no harm. */
void cpu_prefetch(CpuEmitter *c, const Value *value, const Point *point);

/* ---- cpu_gather.c ---- */
LLVMValueRef cpu_gather(CpuEmitter *c, const Op *op, const Point *point);

/* ---- cpu_loop_nest.c ---- */
typedef void NestBody(CpuEmitter *c, const Point *point, void *user);
typedef struct Nest {
    int rank;
    int vector_axis;
    LLVMValueRef lens[MAX_RANK];
    const Value *hoist; /* what the body evaluates at the point; may be NULL */
    NestBody *body;
    void *user;
} Nest;
void cpu_nest(CpuEmitter *c, const Nest *nest);
/* Nest over the elements of a value of this type, vectors along its natural axis. */
Nest cpu_nest_over(CpuEmitter *c, Type type);
int cpu_vector_axis(CpuEmitter *c, Type type);
/* Chunks of one axis, then the masked rest. point->at[axis] and the mask are set for the body. */
void cpu_vector_loop(CpuEmitter *c, Point *point, LLVMValueRef len, NestBody *body, void *user);
/* The same from the end: the masked rest first. */
void cpu_vector_loop_down(CpuEmitter *c, Point *point, LLVMValueRef len, NestBody *body,
                          void *user);

/* ---- cpu_transpose.c ---- */
/* lanes vectors of as many elements: lane i of the k-th becomes lane k of the i-th. */
void cpu_transpose(CpuEmitter *c, LLVMValueRef *rows);
/* An axis along which the value is contiguous in memory where it is not along its vector axis; both
 * are at least a vector long. -1: there is none. */
int cpu_turned_axis(CpuEmitter *c, const Value *value, int vector_axis);
/* Puts a vector of a value where `point` says. */
typedef void PutBody(CpuEmitter *c, const Point *point, LLVMValueRef vector, void *user);
/* Puts all elements of a value that has a turned axis; false: it has none, nothing was emitted.
 * `nest` is over the value; it is used up. */
bool cpu_put_turned(CpuEmitter *c, Nest *nest, const Value *value, PutBody *put, void *user);

/* ---- cpu_fill.c ---- */
/* Parts of a value that have a turned axis where the value as a whole has none (x.T + y): they have
 * a buffer until cpu_turned_done. `axis`: along which vectors of the value are computed. */
enum { MAX_TURNED = 8 };
typedef struct TurnedParts {
    const Value *parts[MAX_TURNED];
    int n;
} TurnedParts;
TurnedParts cpu_turn_parts(CpuEmitter *c, const Value *value, int axis);
void cpu_turned_done(CpuEmitter *c, const TurnedParts *turned);
void cpu_fill_buffer(CpuEmitter *c, const Buffer *buffer, const Value *value);
void cpu_copy_buffer(CpuEmitter *c, const Buffer *from, const Buffer *to, Type type);
/* Computes a virtual value into a buffer of its own, in place of an operand where that is dead. */
void cpu_store_value(CpuEmitter *c, const Value *value);
/* Something below `value` reads this memory; `moved`: count only what is read elsewhere than at the
 * element that is computed. */
bool cpu_reads(CpuEmitter *c, const Value *value, const StackSlot *slot, bool moved);
/* A buffer that holds `value` and may be overwritten: its own if this is its last reader, else a
 * copy. */
const Buffer *cpu_take_over(CpuEmitter *c, const Value *value, int free_after);
/* The stores of the nest that ends with this one. */
void cpu_emit_stores(CpuEmitter *c, const Op *last);

/* ---- cpu_reduce.c ---- */
void cpu_emit_reduce(CpuEmitter *c, const Op *op);

/* ---- cpu_dot.c, cpu_pack.c ---- */
void cpu_emit_dot(CpuEmitter *c, const Op *op);

/* ---- cpu_chunk_totals.c: sums of a loop that begin at zero again every this many steps ---- */
typedef struct CpuTotals CpuTotals;
/* Before a loop of `len` elements, whose carried arrays are in `sums`; NULL: it has none. */
CpuTotals *cpu_totals_begin(CpuEmitter *c, const Op *op, const Buffer *const *sums,
                            LLVMValueRef len);
/* Behind a step, and behind the loop. */
void cpu_totals_step(CpuEmitter *c, const CpuTotals *totals, const Op *op,
                     const Buffer *const *sums);
void cpu_totals_end(CpuEmitter *c, const CpuTotals *totals, const Op *op,
                    const Buffer *const *sums);

/* ---- cpu_fold.c: scan and fold ---- */
void cpu_emit_fold(CpuEmitter *c, const Op *op);

/* ---- cpu_rank.c ---- */
void cpu_emit_histogram(CpuEmitter *c, const Op *op);
void cpu_emit_rank(CpuEmitter *c, const Op *op);
void cpu_emit_arrange(CpuEmitter *c, const Op *op);
void cpu_emit_lookup(CpuEmitter *c, const Op *op);

/* ---- cpu_print.c ---- */
void cpu_emit_print(CpuEmitter *c, const Op *op);
void cpu_print_at(CpuEmitter *c, const Op *op, const Point *point);

/* ---- cpu_scatter.c ---- */
void cpu_emit_scatter(CpuEmitter *c, const Op *op);
/* At one point; the old elements, or NULL where the op has no result. */
LLVMValueRef cpu_scatter_at(CpuEmitter *c, const Op *op, const Point *point);

/* ---- cpu_privatize.c ---- */
/* Around the loop over blocks. */
void cpu_privates_begin(CpuEmitter *c);
void cpu_privates_end(CpuEmitter *c);

/* ---- cpu_while.c ---- */
/* A while over arrays. */
void cpu_emit_elements(CpuEmitter *c, const Op *op);

/* ---- cpu_control.c ---- */
void cpu_emit_op(CpuEmitter *c, const Op *op);
/* A region that yields scalars, here; `out`: what it yields. */
void cpu_emit_scalar_region(CpuEmitter *c, const Block *region, LLVMValueRef *out);
void cpu_emit_launch(CpuEmitter *c, const Op *launch, const PlanLaunch *plan);

#endif
