/* SPDX-License-Identifier: Apache-2.0 */
/* The files of the pass stage, private to the component:
 *
 *   stage.c                    which operands of dots go through shared memory, and how
 *   stage_ring_buffers.c       buffers, mbarriers and the number of pipeline stages
 *   stage_merge_dots.c         dots that share an instruction
 *   stage_roles.c              producer and consumer
 *   stage_role_resources.c     warps and registers of the roles
 *   stage_pingpong.c           teams of consumer warps
 *   stage_multicast.c          operand tiles that a cluster loads once for all its blocks
 *   stage_async_copies.c       ring buffers that threads fill by asynchronous copies, without roles
 *   stage_register_prefetch.c  operands that threads load one iteration ahead, without roles
 *   stage_tile_prefetch.c      register-resident tiles that are loaded one tile ahead
 *   stage_dot.c                dots that read their operands from shared memory
 *   stage_dot_waits.c          one wait for several dots
 *   stage_masks.c              masks of TMA-loaded operands
 *   stage_epilogue.c           stores through shared memory
 *   stage_persistent.c         how tiles are assigned to blocks
 *   stage_raster.c             the order of tiles
 *   stage_im2col_fallback.c    im2col views that TMA does not load
 *   stage_direct_loads.c       dots without shared memory
 *   stage_merge_axes.c         tensors with more axes than TMA can describe */
#ifndef TESSERA_PASSES_STAGE_STAGE_H
#define TESSERA_PASSES_STAGE_STAGE_H

#include "ir/build.h"
#include "ir/schedule.h"
#include "ir/target/target.h"

/* Operands of the products of a launch, two each (fuse gives its own launches half as many). */
enum { MAX_STAGED = 64, MAX_LENT = 4, SIDE_AUXILIARY = 2, SIDE_REGISTER = 3 };

/* An operand of a product that is a load (perhaps transposed) and nothing else. */
typedef struct StagedOperand {
    Op *load;
    Op *dot;
    int side; /* 0: left, 1: right operand; SIDE_AUXILIARY: none of the product's; SIDE_REGISTER: of
                        no product: registers hold it */
    bool transposed; /* a permute lies between */
    Op *mask;        /* a mask lies between, the outermost one, or NULL */
    bool chosen;     /* it is a select by places, or such selects lie below it */
    bool rounded;    /* to tf32, on the way */
    bool bulk;       /* the copy engine can describe it; or a ring of shared memory has it */
    int64_t rows, cols;
    int stream;
    int64_t together; /* blocks that each bring a part of it for all; 0, 1: each brings its own */
    int parts, part;  /* of a ring that two products' right operands share; 0: it has its own */
    const Op *with;   /* the first of the two */
    Value *shared;
} StagedOperand;

/* Loads that one product of one block waits for together. A ring of slots and two barriers serves
 * one stream, or the same stream of several loops in a row (`leader` is the first). */
typedef struct OperandStream {
    Block *home; /* where the loads are */
    Op *dot;
    int leader;           /* whose ring it uses: a stream's number, often its own */
    int64_t slots, bytes; /* of one slot */
    int loads;
    bool many; /* more products than `dot` read it */
    Value *full, *empty;
    Value *position; /* the consumer's ring position in `home` */
} OperandStream;

struct StageContext;
/* The item of a row next to a product's operands; NULL: the load is none. */
const StagedOperand *stage_auxiliary_operand(const struct StageContext *s, const Op *load);
/* Gives loads of tensors that have more axes than the copy engine describes fewer ones. */
void stage_merge_axes(Func *func, Op *launch);
/* May the copy engine move the tensor: nothing in the launch both reads and writes it, and of an
 * axis that is split the inner axes are numbers. */
bool stage_may_bulk(const Func *func, const Op *launch, const Value *tensor);

/* What went to shared memory through registers; further products of its block read it there. */
typedef struct SharedCopy {
    const Value *value;
    const Block *block;
    Value *shared;
} SharedCopy;

typedef struct StageContext {
    Func *func;
    Op *launch;
    Block *body; /* the launch's statements */
    StagedOperand items[MAX_STAGED];
    int n;
    OperandStream streams[MAX_STAGED];
    int n_streams;
    SharedCopy stored[MAX_STAGED];
    int n_stored;
    bool group; /* groups of warps multiply here */
    bool roles, persistent;
    bool swizzle;         /* tiles of shared memory are */
    int64_t held_slots;   /* of tiles that registers hold, which come a tile ahead; 0: none do */
    int teams;            /* of the consumer's warps, each with tiles of its own; 1: none */
    Op *team_loop;        /* in which a team multiplies, or NULL */
    Value *number;        /* i32: how many of the block\'s tiles come before a team\'s, or NULL */
    int64_t together;     /* blocks that run together, to bring what they share once; 0, 1: none */
    bool even;            /* all tiles cost the same */
    bool short_steps;     /* all loops' steps have one product each */
    bool unordered;       /* no order of the tiles is known to be that of their cost */
    Value *counter, *next, *posted, *taken; /* of tiles that blocks take as they end, the numbers
                                               that wait in shared memory; NULL: none do */
    bool paired;          /* each costs more than the one before: blocks walk long and short ones */
    bool counted;         /* the same, but the last pairs leave blocks idle: a counter deals */
    int64_t shared_bytes; /* promised so far */
    struct {
        Op *store; /* goes through the buffer of the operand */
        const StagedOperand *lender;
    } reused_buffers[MAX_LENT];
    int n_lent;
    int n_stores; /* that may go by bulk copy */
} StageContext;

/* Widest of 128, 64, 32 bytes that divides a row of shared memory; 0: none does. */
int64_t swizzle_for(int64_t row_bytes);
Value *shared_tile(StageContext *s, Builder *at, DType dtype, int64_t slots, int64_t rows,
                   int64_t cols);

/* Does it depend on which tile this is? (`depth`: 0.) */
bool stage_varies(const Value *value);
/* Do all tiles cost the same? If not, which ones go first? */
void stage_order(StageContext *s);
/* Teams of the consumer's warps: what the launch asks for, if its statements allow it; 1: none. */
int stage_teams(StageContext *s);
/* i32, before the team's loop: steps of all tiles before this one. */
Value *stage_team_start(StageContext *s);

/* Can the producer compute the scalar (or range) by itself? */
bool stage_is_plain(const StageContext *s, const Value *value);
/* A `wait` for the position's generation of the barrier, or the one before it; an `arrive`. */
void stage_wait(StageContext *s, Builder *b, Value *barrier, Value *position, bool previous);
void stage_arrive(Builder *b, Value *barrier, Value *position);
/* Of one slot. */
int64_t stage_item_bytes(const StagedOperand *item);
/* Finds products that one instruction can multiply (stage_merge_dots.c). */
void stage_join(StageContext *s);
/* The slot of the item's ring, of a position of its stream. */
Value *stage_place(const StageContext *s, Builder *b, const StagedOperand *item, Value *position);
/* Groups the bulk items into streams. */
void stage_streams(StageContext *s);
/* Chooses slots, makes buffers and barriers at the launch's start. */
void stage_rings(StageContext *s, Builder *at);
/* Slots of all rings that fit in addition to `more` bytes of other buffers. */
int64_t stage_shared_capacity(const StageContext *s); /* shared memory of a block, in bytes */
int64_t stage_slots_that_fit(const StageContext *s, int64_t more);
/* Of the producer and the consumer. */
typedef struct RoleResources {
    int64_t warps[2], registers[2]; /* a thread */
} RoleResources;
/* Errors leave numbers that need not fit. */
RoleResources stage_role_resources(StageContext *s, int64_t consumer_warps);
/* Of a thread of the consumer, where a multiprocessor holds this many blocks. */
int64_t stage_registers(const StageContext *s, int64_t consumer_warps, int64_t blocks);
/* Which tiles the blocks of a cluster bring for one another (stage_multicast.c). */
void stage_multicast(StageContext *s);
/* Do blocks take several tiles? `*counted`: from a counter. */
bool stage_choose_persistent(StageContext *s, bool *counted);
/* Does how much a loop with this bound does depend on data? */
bool stage_is_data(const Value *value);
/* A counter of tiles, cleared by a launch before, and the ring through which the producer hands
 * their numbers to the consumer. */
void stage_tile_counter(StageContext *s, Builder *b);
/* i32: tiles taken before the block's next one, in the producer and in the consumer. */
Value *stage_take_tile(StageContext *s, Builder *b, Value *position);
Value *stage_read_tile(StageContext *s, Builder *b, Value *position);
/* A ring of mbarriers. */
Value *stage_barriers(StageContext *s, Builder *at, int64_t slots, int64_t arrivals);
/* Splits the launch into a producer and a consumer. */
void stage_roles(StageContext *s);

/* The operand of this product, if it is a load; do groups of warps compute the product, from
 * shared memory, asynchronously? */
const StagedOperand *stage_item(const StageContext *s, const Op *dot, int side);
bool stage_is_wgmma(const StageContext *s, const Op *dot);
/* Does the operand stay in registers? */
bool stage_stays(const StageContext *s, const Op *dot, int side);
/* The operand behind what lies between its load and its product; false: it is computed. */
bool stage_follow_load(const StageContext *s, StagedOperand *item);
/* Masks, in the ring, what the copy engine brought (stage_masks.c). */
void stage_mask(StageContext *s, Builder *b, const StagedOperand *item);
/* The masked operand in registers, read from the ring. */
Value *stage_masked_value(StageContext *s, Builder *b, const StagedOperand *item);
/* Rewrites one product to read shared memory; `s->items` say which operands are there already. */
void stage_dot(StageContext *s, Op *dot);
/* The product, when it is done. */
Op *stage_dot_wait(StageContext *s, Builder *b, Value *unsettled);
/* `copy none` (stage_direct_loads.c): the product becomes a loop over k in which threads load what
 * they multiply. May all of these? Else it is an error. */
bool stage_may_direct(StageContext *s, Op *const *dots, int n);
void stage_direct(StageContext *s, Op *dot);
/* Products that do not need each other settle together (stage_dot_waits.c). */
void stage_settle(Func *func);
/* Tiles that registers hold come a tile ahead (stage_tile_prefetch.c): chooses the items, if it
 * pays. */
bool stage_tile_prefetch(StageContext *s);
/* Loads become reads of shared memory, between a wait and an arrival. */
void stage_consume_held(StageContext *s, OperandStream *stream);
/* Loops whose operands pass through registers, a step ahead of the products. */
void stage_register_prefetch(StageContext *s);
bool stage_can_copy(const StageContext *s, const StagedOperand *item);
/* Loops whose operands they copy so. */
void stage_copies(StageContext *s);
/* Carries one more value through a loop. Returns its argument; `*result` is its last value. The
 * caller adds the operand of the yield. */
Value *stage_carry(Func *func, Op *loop, Value *init, Value **result);
void stage_yield_more(Func *func, Op *yield, Value *value);
/* Sends the stores of products' results through shared memory and bulk copies, where possible. */
void stage_stores(StageContext *s, Block *block, Builder *at);
/* The stores that are left for the end: their buffers are operands'. */
void stage_lent_stores(StageContext *s);
bool stage_has_lent(const StageContext *s, const OperandStream *stream);
/* A load of a view becomes a gather of what it shows (stage_im2col_fallback.c). */
void stage_gather_view(Func *func, Op *load);
/* Can a bulk copy describe this access of a tensor? `parts`: by several boxes, if it has many
 * rows. */
bool tma_can_describe(const Target *target, const Access *access);
bool bulk_describes_parts(const Target *target, const Access *access);

#endif
