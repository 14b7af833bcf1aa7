/* SPDX-License-Identifier: Apache-2.0 */
/* An emulator of the PTX that the back end prints. A register is a row: one value per lane of a
 * warp (a predicate: one bit); constants are rows, too. Code is decoded once. The lanes of a warp
 * run in lockstep; after a divergent branch they form splits, of which the one that is furthest
 * behind continues, until they reconverge.
 *
 * An illegal action is an error that names the line: an access outside of buffers and shared
 * memory, a misaligned one, missing lanes where the whole warp is required, a deadlock.
 * Asynchronous operations complete late, in any order: copies when they are waited for or at a
 * random time before, with a poison destination until then; wgmma when it is waited for, from the
 * contents of shared memory at that time. Registers and shared memory start as poison. Writes of
 * threads must be fenced before copies or wgmma read them. Not modelled: caches and the order in
 * which other threads see writes, other fences, time. */
#ifndef TESSERA_TESTS_PTX_EMULATOR_H
#define TESSERA_TESTS_PTX_EMULATOR_H

#include "tests/codegen/emulator/buffers.h"
#include "tests/codegen/emulator/numbers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LANES = 32,
    MAX_WARPS = 32,
    MAX_PARAMS = 256,
    N_NAMED_BARRIERS = 16,
    SHARED_FIRST = 1024, /* what comes before is the system's */
    LOCAL_FIRST = 1024,  /* of a thread's own memory */
    SHARED_BYTES = 228 * 1024,
    RANK_SHIFT = 24, /* of an address of shared memory: which block of the cluster */
};
#define ALL_LANES UINT32_MAX

/* ---- decoded code ---- */

typedef enum OperandKind { SINK, ROW, PREDICATE, VECTOR, MEMORY, LABEL } OperandKind;

/* ROW: 32 words, or 32 of 64 bits (wide). VECTOR: operands `first` and up of the instruction, n of
 * them. MEMORY: the address in the row at `at`, and `offset`; of a map further operands. */
typedef struct Operand {
    OperandKind kind;
    bool wide, half, negated; /* half: of 16 bits */
    bool is_param;            /* of a call */
    int at;                   /* words from the beginning of a warp's rows */
    int first, n;
    int64_t offset;
} Operand;

typedef struct Warp Warp;
typedef struct Inst Inst;
typedef enum Step { NEXT, JUMPED, WAITS } Step;
typedef Step Run(Warp *warp, const Inst *inst, uint32_t mask);

struct Inst {
    Run *run;
    const char *text; /* the opcode */
    int line;
    int guard; /* of a predicate; -1: none */
    bool guard_negated;
    bool meets; /* all lanes of the warp have to be there */
    Operand *operands;
    int n;           /* of them, those in vectors after them not counted */
    int target;      /* of a branch */
    int way, type;   /* what a handler's decoder says */
    int bits, count; /* of an element, of them */
    int space;
    bool flag;
};

typedef struct Kernel {
    char name[256];
    int param_offset[MAX_PARAMS], param_bytes[MAX_PARAMS], n_params, params_size;
    int threads;
    int local_size; /* bytes a thread */
    Inst *code;
    int n_code;
    uint32_t *rows;                                             /* what a warp's begin as */
    int n_rows;                                                 /* words */
    int tid, ctaid, nctaid, ntid, laneid, cluster_rank, shared; /* rows; 0: not used */
} Kernel;

typedef struct Module {
    Kernel *kernels;
    int n_kernels;
    const char *path;
} Module;
void module_read(Module *module, const char *path);
void module_parse(Module *module, const char *text, const char *path);
void module_drop(Module *module);
const Kernel *kernel_named(const Module *module, const char *symbol); /* or NULL */

/* Finds the handler of an opcode and sets what it needs, or returns NULL. `words`: between dots. */
typedef struct Opcode {
    const char *text;
    char words[16][32];
    int n;
} Opcode;
bool opcode_has(const Opcode *opcode, const char *word);
Run *find_lanes(const Opcode *opcode, Inst *inst);
Run *find_convert(const Opcode *opcode, Inst *inst);
Run *find_flow(const Opcode *opcode, Inst *inst);
Run *find_memory(const Opcode *opcode, Inst *inst);
Run *find_copies(const Opcode *opcode, Inst *inst);
Run *find_barrier(const Opcode *opcode, Inst *inst);
Run *find_matrix(const Opcode *opcode, Inst *inst);
Run *find_group_matrix(const Opcode *opcode, Inst *inst);
/* The size and kind of a number that stands for an operand: 'p', 'u' (32 bits or fewer) or 'q'. */
char immediate_type(const Opcode *opcode, int operand);
int type_bits(const char *word); /* 0: not a type */

/* ---- running ---- */

typedef struct Split {
    uint32_t mask;
    int pc;
    bool waits;
} Split;

typedef struct NamedBarrier {
    int arrived, phase, expected;
} NamedBarrier;

typedef struct Cluster Cluster;
typedef struct Block {
    const Kernel *kernel;
    Cluster *cluster;
    unsigned id;
    int rank; /* in its cluster */
    uint8_t *shared;
    int shared_size;
    uint32_t *written; /* each 16 bytes of it: when a thread did last; 0: none since a copy */
    uint8_t *writers;  /* the warp */
    uint32_t *reads;   /* each 16 bytes of it, by warp: when a thread read them last */
    Warp *warps[MAX_WARPS];
    int n_warps, alive;
    NamedBarrier barriers[N_NAMED_BARRIERS];
} Block;

struct Cluster {
    Block *blocks[16];
    int n, alive, arrived, phase; /* warps */
};

typedef struct Copy Copy;       /* cp.async, and bulk stores */
typedef struct Product Product; /* wgmma */

struct Warp {
    Block *block;
    int index; /* in its block */
    uint32_t *rows;
    uint8_t *local; /* of its lanes */
    Split splits[LANES];
    int n_splits, current;
    uint32_t live;
    int waits_at, waits_phase; /* a named barrier, or -1 */
    int cluster_phase;
    Copy *copies; /* oldest first */
    int committed[LANES], bulk_committed[LANES];
    Product *products;
    int groups;        /* of products, committed */
    const Inst *tried; /* a wait that gave up */
    uint64_t steps;
    uint32_t fenced; /* when it made its writes known to copies and products */
};

_Noreturn void stop(const Warp *warp, const Inst *inst, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool warp_run(Warp *warp, int steps); /* whether anything was done */
Warp *warp_new(Block *block, int index);
void warp_free(Warp *warp);

static inline uint32_t *row32(const Warp *warp, const Operand *operand)
{
    return warp->rows + operand->at;
}

static inline uint64_t *row64(const Warp *warp, const Operand *operand)
{
    return (uint64_t *)(void *)(warp->rows + operand->at);
}

static inline const Operand *part(const Inst *inst, const Operand *vector, int i)
{
    return vector->kind == VECTOR ? &inst->operands[vector->first + i] : vector;
}

static inline int parts(const Operand *vector)
{
    return vector->kind == VECTOR ? vector->n : 1;
}

static inline uint64_t lane_get(const Warp *warp, const Operand *operand, int lane)
{
    return operand->wide ? row64(warp, operand)[lane] : row32(warp, operand)[lane];
}

static inline void lane_put(Warp *warp, const Operand *operand, int lane, uint64_t value)
{
    if (operand->kind == SINK) {
        return;
    }
    if (operand->wide) {
        row64(warp, operand)[lane] = value;
    } else {
        row32(warp, operand)[lane] = (uint32_t)value;
    }
}

static inline uint32_t predicate_get(const Warp *warp, const Operand *operand)
{
    uint32_t mask = warp->rows[operand->at];
    return operand->negated ? ~mask : mask;
}

void predicate_put(Warp *warp, const Operand *operand, uint32_t mask, uint32_t value);
uint64_t address_of(const Warp *warp, const Operand *operand, int lane);

/* `size` bytes of global or shared memory, aligned to `align`. */
uint8_t *global_at(const Warp *warp, const Inst *inst, uint64_t address, unsigned size,
                   unsigned align, bool writes);
uint8_t *shared_at(const Warp *warp, const Inst *inst, uint64_t address, unsigned size,
                   unsigned align);
uint8_t *block_shared(const Warp *warp, const Inst *inst, Block *block, uint32_t offset,
                      unsigned size);
/* Threads' writes are known to bulk copies and warp groups' products (the asynchronous proxy) when
 * the writer, or who lets them begin, has made a fence since. */
extern uint32_t emulated_time; /* instructions of all warps */
void shared_mark(const Warp *warp, Block *block, uint32_t offset, unsigned size);
void shared_check(const Warp *warp, const Inst *inst, uint32_t offset, unsigned size);
void shared_clean(Block *block, uint32_t offset, unsigned size);
/* A bulk copy may overwrite what a warp read only if that warp has made a fence since. */
void shared_note_read(const Warp *warp, const uint8_t *at, unsigned size);
void shared_check_reads(const Warp *warp, const Inst *inst, const Block *block, uint32_t offset,
                        unsigned size);
void poison(uint8_t *bytes, size_t size);

/* ---- what is asynchronous ---- */

void barrier_complete(const Warp *warp, const Inst *inst, Block *block, uint32_t offset,
                      int64_t bytes);
bool copies_deliver(bool one); /* some of those under way, or one; whether there was any */
void copies_check_end(Warp *warp);
void products_add_copy(Warp *warp, const Operand *to, const Operand *from);
unsigned random_below(unsigned n);

/* ---- matrices ---- */

typedef struct Element {
    const char *name;
    int bits;
    bool is_integer;
} Element;
const Element *element_named(const char *name);
double element_value(const Element *element, uint64_t bits);
float from_f8(uint32_t bits, bool wide_range);
enum { MAX_K = 64 };
/* This lane's words of a fragment with 16 rows: row `row` of A, or column of B, from k on. */
void fragment_place(const Element *element, int word, int lane, bool is_a, int *row, int *k);

/* A map, as the launch makes it. Axis 0 is the fastest; strides in bytes. */
typedef struct Map {
    uint64_t address;
    int rank, element, swizzle, n_windows; /* element: bytes */
    bool tf32;
    int64_t dims[8], strides[8], box[8];
    int64_t lower[3], upper[3], step[3];
} Map;
enum { MAX_MAPS = 64, MAP_BYTES = 128 };
extern Map maps[MAX_MAPS];
extern int n_maps;
extern uint8_t params[4096 + 256];
#define PARAMS_ADDRESS UINT64_C(0x7e0000000000)

/* Runs all blocks; how many instructions that were. */
uint64_t launch_grid(const Kernel *kernel, unsigned blocks, int threads, int shared, int cluster);

#endif
