/* SPDX-License-Identifier: Apache-2.0 */
/* Internals of the interpreter. Only interp*.c include this.
 *
 * One InterpRun executes one function. Control is explicit (frames, not C recursion), so that an
 * Agent, the block's threads or those of one role, can stop at any op and continue later. All
 * memory comes from one arena of the run; buffers are counted and recycled, because loops allocate
 * many.
 *
 * Error bounds. A reduction or dot has an analytical bound. Its effect on later elementwise ops is
 * sampled: an inexact array carries SAMPLES further executions besides its values, started at
 * value ± bound with signs that differ by source and, in most of them, also by element; the bound
 * is SAFETY times the largest deviation. This is no proof, but it needs no model of how rint,
 * bitcast and select combine. */
#ifndef TESSERA_IR_INTERP_INTERP_INTERNAL_H
#define TESSERA_IR_INTERP_INTERP_INTERNAL_H

#include "ir/interp/interp.h"
#include "support/hash_table.h"

enum { SAMPLES = 12, WHOLE_SAMPLES = 4, SAFETY = 2, MAX_ROUNDS = 1 << 20 };
enum { MAX_AGENTS = 16, MAX_SLOTS = 464 };
/* Components of vector clocks: the agents, then their bulk stores, products and copies, then the
 * barriers' slots (bulk loads: the generation that they complete). */
enum {
    BY_STORES = MAX_AGENTS,
    BY_PRODUCTS = 2 * MAX_AGENTS,
    BY_COPIES = 3 * MAX_AGENTS,
    BY_SLOTS = 4 * MAX_AGENTS,
    MAX_CLOCKS = BY_SLOTS + MAX_SLOTS
};

/* ---- values (interp_value.c) ---- */

typedef struct Buffer {
    struct Buffer *next; /* in the pool */
    int32_t refs;
    uint32_t bin;
    _Alignas(16) unsigned char bytes[];
} Buffer;

enum { POOL_BINS = 160 };

typedef struct Array {
    struct Array *next; /* in the pool */
    int32_t refs;
    DType dtype;
    int rank;
    int64_t dims[MAX_RANK];
    int64_t n;
    Buffer *data;
    Buffer *poison;   /* a byte an element; NULL: none is poison */
    Buffer *samples;  /* SAMPLES planes like data; NULL: exact */
    int32_t agent;    /* of an unsettled product: who issued it, */
    uint32_t product; /* and its number; 0: settled */
} Array;

/* Elements [lo, end) of an axis; in padded functions an array has `extent` of them. */
typedef struct Range {
    int64_t lo, end, extent;
} Range;

/* What was scattered where, an entry an element (interp_scatter.c). */
typedef struct Marks {
    uint8_t *how;     /* the function; 0: stored plainly */
    uint32_t *serial; /* by which execution of an op */
    uint32_t *stored; /* by which block plainly */
    uint32_t *terms;  /* atomic sums: how many were added, of integers by this op, */
    double *size;     /* the sum of their magnitudes, */
    double *moved;    /* and of their bounds */
} Marks;

/* A tensor parameter. */
typedef struct Memory {
    const char *name;
    DType dtype;
    int rank;
    int64_t dims[MAX_RANK];
    int64_t n;
    unsigned char *data;
    /* Where the elements lie, one a dims; NULL: in row-major order. They are counted in that order
     * all the same, in what stands below, too. */
    const int64_t *strides;
    double *bounds;    /* NULL: exact, or not asked for */
    uint32_t *writers; /* which block wrote an element last; NULL: an input */
    uint8_t *unset;    /* 1: never written; NULL: all of it came from outside */
    Marks *marks;      /* NULL until something is scattered */
    uint64_t *changes; /* how often an intermediate was written; NULL: not counted */
    uint64_t seen;     /* of a view of an intermediate: how often, when it was made */
} Memory;

/* Elements of a tensor, from and to planes of arrays. */
void memory_get(const Memory *memory, int64_t offset, int64_t count, void *to);
/* Where element `offset`, counted in row-major order, lies: as element *index from what is
 * returned, 0 but in packed memory. */
unsigned char *memory_place(const Memory *memory, int64_t offset, size_t *index);

/* ---- the state of a block (interp_memory.c, interp_async.c) ---- */

/* Who did it, when: a component of the vector clocks and its value. */
typedef struct Stamp {
    uint32_t by, at;
} Stamp;

typedef struct Clocks {
    uint32_t at[MAX_CLOCKS];
    /* What of an agent's stores async engines may see, and of its copies. */
    uint32_t fenced[MAX_AGENTS], fenced_copies[MAX_AGENTS];
} Clocks;

typedef struct Shared {
    struct Shared *older; /* allocations of this block */
    const Op *op;
    DType dtype;
    int rank;
    int64_t dims[MAX_RANK];
    int64_t n, offset; /* bytes from the start of the block's memory; -1: not yet placed */
    unsigned char *data;
    uint8_t *poison;
    double *bounds;
    Stamp *written;
    uint32_t *read[BY_COPIES]; /* last read by that component; NULL: none */
    Buffer *owned[BY_COPIES + 4];
    int n_owned;
    Buffer *self;
    Memory *scattered; /* the same elements as scatters see them; NULL until there is one */
    bool live; /* holds something: memory that shares its bytes may not be written over it unseen */
} Shared;

typedef struct Slot {
    const struct Ring *ring;
    uint32_t component;
    uint32_t arrived, copies; /* in the generation at work */
    uint32_t generation;      /* how many are complete */
    uint32_t loaded, waited;  /* last generation with bulk loads; last waited for */
    Clocks forming, done;
} Slot;

typedef struct Ring {
    const Op *op;
    int64_t count, arrivals;
    Slot *slots;
    Buffer *owned;
} Ring;

/* What an operand stands for: one of these, by the kind of its type. */
typedef union Cell {
    Array *array;
    Range range;
    Memory *memory;
    Shared *shared;
    Ring *ring;
} Cell;

/* One axis of an access. */
typedef struct ViewAxis {
    int64_t start, count;
    int64_t exist; /* elements of the range that exist; the rest is padding */
    int64_t extent, stride;
    bool kept, guarded;
} ViewAxis;

typedef struct View {
    int rank;
    ViewAxis axes[MAX_RANK];
    int64_t n;
} View;

typedef struct Pending {
    Shared *shared;
    View view;
    Array *payload;
    Slot *slot;
} Pending;

/* ---- control (interp.c) ---- */

typedef struct Frame {
    const Op *op; /* whose region runs; NULL: the body */
    const Block *block;
    const Op *at;              /* the next op */
    int64_t next, count, step; /* for: index, end; grids: how many blocks are begun, of how many */
    int64_t first;             /* for: where it begins, */
    bool empty;                /* and that its one step, which is still to come, has no elements */
    int64_t stride, shift;     /* grids: the order is a permutation i -> i * stride + shift */
    int64_t tiles[MAX_RANK], steps[MAX_RANK], dims[MAX_RANK];
    Array **carried; /* while: the values at work, */
    Array *active;   /* and which elements continue; NULL: all */
    bool lanes;      /* elements end one by one, and so do samples */
} Frame;

typedef struct Agent {
    int id;
    const char *name;
    struct {
        Frame *items;
        size_t n, cap;
    } frames;
    bool done;
    const Op *waiting;
    uint32_t clock, fenced_at;
    uint32_t stores, stores_done, products, products_done;
    uint32_t copies, copies_done;  /* groups that are committed, that were waited for */
    uint32_t copied, copies_empty; /* the last group with copies, the last one without */
    uint32_t copies_fenced;        /* the last one that engines may see */
    Clocks known;                  /* what is ordered before the next access of all its threads */
    Clocks joined;                 /* what will be after the next sync */
} Agent;

/* Blocks of a cluster run one after the other: one that needs what others have not come to yet is
 * begun anew when they have. */
typedef struct Cluster {
    int64_t size, block; /* of this block: its number */
    int met;             /* reductions over the cluster that it has come to */
    bool left;           /* it waits for others */
    bool waiting;        /* some block does */
    bool *done;          /* by block */
    HashTable parts;     /* of ClusterParts */
} Cluster;

typedef struct InterpRun {
    Func *func;
    Arena *arena;
    const InterpOptions *options;
    Text *problem;
    jmp_buf failed;
    uint64_t random;
    int64_t steps;
    Buffer *free_buffers[POOL_BINS];
    Array *free_arrays;
    Cell *cells;         /* by value id */
    const Op **last_use; /* by value id: the op after which it is dropped; NULL: at the end */
    uint32_t *source;    /* by value id: the ordinal of an op that begins samples */
    uint32_t sources;
    bool *scattered; /* by value id: parameters that are scattered to */
    bool sums_exponentials; /* some exponentials are summed, which need not be exact then */
    int64_t lanes;   /* in a fold: scalars are this many at once; 0: they are scalars */
    uint32_t serial; /* executions of scatters */
    struct {
        const Op **items;
        size_t n, cap;
    } noted;               /* ops that have had their note */
    int64_t *extents;      /* by DimVar id: of arrays */
    int64_t *lens;         /* by DimVar id: elements that exist */
    Agent *agent;          /* at work */
    int64_t block, blocks; /* persistent launches */
    Cluster *cluster;      /* of a launch with clusters; else NULL */
    /* Blocks of outermost grids are numbered through; blocks of one grid may not meet in memory. */
    uint32_t writer, writers, first_writer;
    Shared *shared;
    struct {
        Ring **items;
        size_t n, cap;
    } rings; /* of this block */
    uint32_t n_agents, n_slots;
    struct {
        Pending *items;
        size_t n, cap;
    } pending;
} InterpRun;

_Noreturn void run_fail(InterpRun *run, const Op *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What is no fault of the program's: sizes that it does not allow, memory that there is not. */
_Noreturn void run_refuse(InterpRun *run, DiagClass kind, const Op *op, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
uint64_t run_random(InterpRun *run);
int64_t run_dim(InterpRun *run, const Op *op, const int64_t *values, Dim dim);
Array *run_operand(InterpRun *run, const Op *op, int n);            /* settled */
Array *run_unsettled(InterpRun *run, const Op *op, int n);          /* may be in flight */
int64_t run_integer(InterpRun *run, const Op *op, Value *value);    /* a scalar that is no poison */
void run_result(InterpRun *run, const Op *op, int n, Array *array); /* takes the reference */

/* Runs a region of arithmetic to its yield, which is left to be read; drop_block when done. */
void run_region(InterpRun *run, const Op *op, const Block *block);

/* interp_control.c: a region op begins, the region of the top frame ends (yield may be NULL) */
void control_begin(InterpRun *run, const Op *op);
void control_end(InterpRun *run, const Op *yield);
void drop_block(InterpRun *run, const Block *block);
/* Arrays of operands, each kept; give_back returns the list alone. */
Array **taken(InterpRun *run, const Op *op, int first, int n);
void give_back(InterpRun *run, Array **values);

/* interp_while.c */
void while_begin(InterpRun *run, const Op *op);
void while_end(InterpRun *run, const Op *yield);
/* Which elements of the innermost loop of elements continue; NULL: all, or no such loop. */
const Array *while_active(const InterpRun *run);

/* interp_value.c */
Buffer *buffer_new(InterpRun *run, size_t bytes); /* not zeroed */
Buffer *buffer_zeroed(InterpRun *run, size_t bytes);
Buffer *buffer_keep(Buffer *buffer);
void buffer_drop(InterpRun *run, Buffer *buffer);
Array *array_new(InterpRun *run, DType dtype, int rank, const int64_t *dims);
Array *array_of_type(InterpRun *run, const Op *op, Type type);
Array *array_alias(InterpRun *run, const Op *op, Type type, const Array *from); /* same elements */
Array *array_keep(Array *array);
void array_drop(InterpRun *run, Array *array);
void *array_at(const Array *array, int64_t i);
void *array_plane(const Array *array, int sample); /* the data when exact */
void array_want_poison(InterpRun *run, Array *array);
void array_want_samples(InterpRun *run, Array *array); /* copies of the data */
bool array_has_poison(const Array *array);
/* Spreads the samples of element i to value ± bound, by the signs of that source. */
void array_spread(InterpRun *run, Array *array, uint32_t source, int64_t i, double bound);
/* The same of all elements. */
void array_spread_all(InterpRun *run, Array *array, uint32_t source, const double *bounds);
/* All elements' samples, to value * (1 ± share) ± least. */
void array_spread_share(InterpRun *run, Array *array, uint32_t source, double share, double least);
/* Which way element i of a sample by element rounds: as it does (0), or to the neighbour above (1)
 * or below (-1). */
int array_rounding_way(uint32_t source, int sample, int64_t i);
/* It rounds that way if `exact`, what it is before rounding, may be off by enough. */
void array_round_other_way(Array *array, int way, int sample, int64_t i, double exact, double off);
double array_bound(const Array *array, int64_t i);
/* Least and greatest that element i of an array of integers is in any plane. */
void array_hull(const Array *array, int64_t i, int64_t hull[2]);
/* Element i may be anything from `least` to `most`: samples at both ends, in turns. */
void array_free(InterpRun *run, Array *array, int64_t i, Scalar least, Scalar most);
/* The same, with the ends of the type; of floats infinities. */
void array_any(InterpRun *run, Array *array, int64_t i);
Scalar array_scalar(const Array *array, int64_t i);
void array_fill(Array *array, Scalar value);
/* Elements of one plane as doubles, as i64. */
Buffer *array_doubles(InterpRun *run, const Array *array, int sample);
Buffer *array_ints(InterpRun *run, const Array *array, int sample);
Buffer *array_bounds(InterpRun *run, const Array *array); /* NULL: exact */

/* ---- ops ---- */

typedef struct Flat {
    OpKind kind;
    const char *pred;
    DType in, out;
    int64_t n;
    void *to;
    const void *from[3];
} Flat;
void flat_run(const Flat *flat); /* interp_elementwise.c */

void interp_elementwise(InterpRun *run, const Op *op);
/* The same for arrays of one shape; the result is new. */
Array *interp_apply(InterpRun *run, OpKind kind, const char *pred, DType out, int n,
                    Array *const *items);
/* Elements of an elementwise op's result that their samples say too little of
 * (interp_intervals.c). */
void interp_free_steps(InterpRun *run, const Op *op, Array *const *items, Array *result);
/* What a view shows, once what it is a view of is bound. */
void interp_bind_view(InterpRun *run, const Param *param);
/* The memory of a tensor; of a view of what was written since, made anew. */
const Memory *interp_shown(InterpRun *run, const Value *tensor);
void interp_shape(InterpRun *run, const Op *op); /* interp_shape.c */
void interp_reduce_parts(InterpRun *run, const Op *op);
void interp_repeat_parts(InterpRun *run, const Op *op);
void interp_reduce(InterpRun *run, const Op *op);         /* interp_reduce.c */
void interp_cluster_reduce(InterpRun *run, const Op *op); /* interp_cluster.c */
void interp_cluster_scatter(InterpRun *run, const Op *op);
void cluster_begin(InterpRun *run, const Op *launch, int64_t blocks);
/* Before a block, and at its end. */
void cluster_block(InterpRun *run, int64_t id);
void cluster_block_end(InterpRun *run);
/* Does the block at work wait for others? */
bool cluster_left(const InterpRun *run);
void interp_scan(InterpRun *run, const Op *op); /* interp_scan.c */
void interp_fold(InterpRun *run, const Op *op); /* interp_fold.c */
void interp_sort(InterpRun *run, const Op *op); /* interp_sort.c */
void interp_histogram(InterpRun *run, const Op *op);
void interp_rank(InterpRun *run, const Op *op);
void interp_arrange(InterpRun *run, const Op *op);
void interp_lookup(InterpRun *run, const Op *op);
void interp_gather(InterpRun *run, const Op *op); /* interp_gather.c */
void interp_await(InterpRun *run, const Op *op);
void interp_scatter(InterpRun *run, const Op *op); /* interp_scatter.c */
void memory_mark(InterpRun *run, Memory *memory);  /* it will be scattered to */
/* Shared memory as scatters see it. */
Memory *shared_scattered(InterpRun *run, Shared *shared);
/* An atomic change of an element, which needs no order with other ones. What it needs order with
 * and does not have: a text, else NULL. */
const char *shared_change(InterpRun *run, Shared *shared, int64_t at);
void interp_say(InterpRun *run, const Op *op); /* interp_messages.c */
/* After an op, where somebody looks on (interp_trace.c). */
void interp_watch(InterpRun *run, const Op *op);
/* At most one note of the kind an op. */
void interp_note(InterpRun *run, InterpNoteKind kind, const Op *op);
/* A byte an element: 1 where it is padding by its type's ranges; NULL: none is. */
Buffer *padding_of(InterpRun *run, Type type, const Array *array);

/* c may be NULL. */
Array *interp_product(InterpRun *run, const Op *op, Array *a, Array *b, Array *c);

/* interp_memory.c */

/* What may happen to one element of an access. A later one outweighs an earlier, axis by axis. */
typedef enum Reach {
    REACH_INSIDE,
    REACH_PADDING, /* memory is there, but the range has ended */
    REACH_OUTSIDE, /* of the tensor, and not guarded */
    REACH_GUARDED, /* not touched */
} Reach;

typedef enum Mover {
    MOVER_THREADS, /* guards as the op says */
    MOVER_ENGINE,  /* clips to the tensor and knows nothing of ranges */
    MOVER_SHARED,  /* must be inside */
} Mover;

/* `count` elements in a row: the memory's from `offset`, the access' from `position`. */
typedef void WalkRun(void *user, Reach reach, int64_t offset, int64_t position, int64_t count);

View view_of(InterpRun *run, const Op *op, Access access, int rank, const int64_t *dims);
/* The block of this grid, other than the one at work, that wrote one of these elements. */
bool is_others(const InterpRun *run, const Memory *memory, int64_t offset, int64_t count);
/* The attribute `value` of loads and gathers, else 0. */
Scalar fill_of(const Op *op, DType dtype);
void view_walk(const View *view, Mover mover, WalkRun *each, void *user);
Array *array_of_view(InterpRun *run, DType dtype, const View *view);
_Noreturn void view_fail(InterpRun *run, const Op *op, const View *view, int64_t position,
                         const char *what, const char *name);
void interp_load(InterpRun *run, const Op *op);
void interp_store(InterpRun *run, const Op *op);
Array *tensor_read(InterpRun *run, const Op *op, Access access, Mover mover);
void tensor_write(InterpRun *run, const Op *op, Access access, const Array *value, Mover mover);

/* interp_shared.c */
void interp_shared(InterpRun *run, const Op *op);
void interp_shared_load(InterpRun *run, const Op *op);
void interp_shared_store(InterpRun *run, const Op *op);
View shared_view(InterpRun *run, const Op *op, Access access);
/* `as`: who reads, when. Async readers want the fence of whoever stored. */
Array *shared_read(InterpRun *run, const Op *op, Access access, Stamp as);
/* Takes the place: checks that nothing needs what is there; the elements are poison until put. */
void shared_take(InterpRun *run, const Op *op, Shared *shared, const View *view, Stamp as);
void shared_put(Shared *shared, const View *view, const Array *value);
void shared_drop_all(InterpRun *run);
void interp_scratch(InterpRun *run, const Op *op, Access access);

/* interp_async.c */
void interp_dot(InterpRun *run, const Op *op);
void interp_barrier(InterpRun *run, const Op *op);
bool interp_is_sync(OpKind kind);
/* False: blocked; the op is to be tried again. */
bool interp_async(InterpRun *run, const Op *op);
/* The threads of the agent at work synchronize. */
void async_sync(InterpRun *run);
/* One bulk load in flight arrives; false when there is none. */
bool async_complete_one(InterpRun *run);
void async_end_agent(InterpRun *run, const Agent *agent, const Op *op);
void async_end_block(InterpRun *run);
/* What an agent hands on when all its threads arrive. */
void clocks_release(const InterpRun *run, const Agent *agent, Clocks *into);

#endif
