/* SPDX-License-Identifier: Apache-2.0 */
/* An emulator of AMD's instruction sets that executes code objects unchanged. The kernel
 * descriptor defines the initial registers of a wave; the metadata defines the kernel's arguments
 * and the size of local memory (LDS). An illegal action is an error that names the instruction: an
 * access outside of the buffers, of the arguments or of LDS; a register that was not allocated; a
 * register that is read before its load was waited for; an unknown instruction. Registers, LDS and
 * non-argument memory start as poison. Results arrive when their counter is waited for, not
 * before. Not modelled: wait states between instructions (s_nop), caches. */
#ifndef TESSERA_TESTS_EMULATOR_H
#define TESSERA_TESTS_EMULATOR_H

#include "tests/codegen/emulator/buffers.h"
#include "tests/codegen/emulator/numbers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    MAX_LANES = 64,
    MAX_OPERANDS = 8,
    N_VECTORS = 512, /* 0-255: v, from 256 on: a */
    FIRST_ACC = 256,
    N_SCALARS = 128,
    S_VCC = 106,
    S_TTMP = 108,
    S_M0 = 124,
    S_NULL = 125,
    S_EXEC = 126,
    MAX_WAVES = 32,
    MAX_KERNELS = 1024,
    MAX_ARGS = 256,
    MAX_HIDDEN = 32,
};

/* ---- decoded code ---- */

typedef enum OperandKind { OPERAND_OFF, VECTOR, SCALAR, SCC, INTEGER, FLOATING } OperandKind;
typedef enum Half { WHOLE, LOW, HIGH } Half;
typedef enum Select { DWORD, BYTE_0, BYTE_1, BYTE_2, BYTE_3, WORD_0, WORD_1 } Select;
typedef enum Lanes {
    DIRECT,
    QUAD,
    SHIFT_LEFT,
    SHIFT_RIGHT,
    ROTATE,
    MIRROR,
    HALF_MIRROR,
    SHARE,
    XOR_ROW,
    DPP8,
    BROADCAST_15,
    BROADCAST_31
} Lanes;

typedef struct Operand {
    OperandKind kind;
    int at, count; /* registers */
    bool negated, absolute, extended, is_hex;
    Half half;
    Select select;
    int64_t integer;
    double floating;
} Operand;

typedef struct Wave Wave;
typedef struct Inst Inst;
typedef struct LaneOp LaneOp;
typedef void Handler(Wave *wave, const Inst *inst);

struct Inst {
    Handler *run;
    const char *text;
    uint64_t address;
    int bytes, target; /* target: of a branch, an index of instructions */
    Operand operands[MAX_OPERANDS];
    int n_operands;
    const LaneOp *op;
    int way, width; /* what a handler's table says */
    bool flag, high;
    int64_t offset, offset1;
    int selects, selects_high, negates, negates_high, bits; /* op_sel and the like; bitop3 */
    bool clamps, packed;
    int scale; /* omod: -1, 0, 1, 2 */
    Lanes lanes;
    int lane_argument, lane_list[8], row_mask, bank_mask;
    bool bounded, fetches_inactive, is_sdwa;
    Select to;
    bool keeps;   /* dst_unused:UNUSED_PRESERVE */
    Inst *second; /* of a dual instruction */
};

/* ---- an object ---- */

typedef struct Hidden {
    char *kind;
    int offset, size;
} Hidden;

typedef struct Kernel {
    char *name;
    int kernarg_bytes, lds_bytes, scratch_bytes, wave_size, max_threads, required_threads;
    int args[MAX_ARGS][2], n_args; /* explicit ones: offset, size */
    Hidden hidden[MAX_HIDDEN];
    int n_hidden;
    const uint8_t *descriptor;
    uint64_t entry;
    int vgprs, accum_offset, sgprs;
} Kernel;

typedef struct Object {
    const uint8_t *bytes;
    size_t size;
    char target[16];
    int major; /* 9, 11, 12 */
    Kernel kernels[MAX_KERNELS];
    int n_kernels;
    Inst *code;
    size_t n_code;
    uint64_t code_begin;
    bool only_decoded; /* nothing is run: what is not emulated may be there */
} Object;

void object_read(Object *object, const char *path);
void object_load(Object *object, const uint8_t *bytes, size_t size); /* which it goes on using */
void object_drop(Object *object);
void object_decode(Object *object, const uint8_t *text, size_t size, uint64_t address);
size_t object_at(const Object *object, uint64_t address);
const char *decode_one(Inst *inst, const char *text, int major); /* what is not known, or NULL */

/* ---- memory ---- */

bool sized_half(const char *name,
                Inst *inst); /* the width that a name of a load or store ends with */
uint8_t *memory_at(Wave *wave, const Inst *inst, uint64_t address, unsigned size, bool writes);

/* ---- running ---- */

typedef enum Counter { VM, LGKM, DS, KM, N_COUNTERS } Counter;
typedef struct Pending {
    struct Pending *next;
    Counter counter;
    bool is_scalar_load, to_lds, is_local_store;
    int reg, count; /* vector registers, or scalar ones; 0: none */
    Half half;
    uint64_t exec;
    uint32_t lds_at; /* to_lds: bytes a lane in `count` words */
    uint32_t data[][MAX_LANES];
} Pending;

typedef struct Block {
    const Object *object;
    const Kernel *kernel;
    uint8_t lds[160 * 1024];
    Wave *waves[MAX_WAVES];
    int n_waves, threads, alive, arrived, phase;
    unsigned id;
    uint8_t *checked; /* instructions whose registers this kernel has */
    uint64_t steps;
} Block;

typedef enum State { RUNS, WAITS, ENDED } State;

struct Wave {
    Block *block;
    int n, index, major;
    size_t pc;
    State state;
    int phase;
    bool scc;
    uint32_t s[N_SCALARS];
    uint32_t v[N_VECTORS][MAX_LANES];
    uint8_t vector_waits[N_VECTORS], scalar_waits[N_SCALARS];
    Pending *first, *last;
    uint8_t *scratch; /* of each lane, one after the other */
};

_Noreturn void stop(const Wave *wave, const Inst *inst, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

bool extends_by_zeros(const Inst *inst);
uint64_t exec_of(const Wave *wave);
uint64_t mask_get(const Wave *wave, const Inst *inst, const Operand *operand);
void mask_put(Wave *wave, const Inst *inst, const Operand *operand, uint64_t mask);
uint32_t scalar_get(const Wave *wave, const Inst *inst, const Operand *operand, int part);
uint64_t scalar_get64(const Wave *wave, const Inst *inst, const Operand *operand);
void scalar_put(Wave *wave, const Inst *inst, const Operand *operand, int part, uint32_t value);
void scalar_put64(Wave *wave, const Inst *inst, const Operand *operand, uint64_t value);

void pending_add(Wave *wave, Pending *entry);
void pending_wait(Wave *wave, Counter counter, int left);
Pending *pending_new(Wave *wave, Counter counter, int reg, int count);

/* ---- the instructions: a family's function finds the handler of a name, or NULL ---- */

Handler *find_scalar(const char *name, Inst *inst, int major);
Handler *find_vector(const char *name, Inst *inst, int major);
Handler *find_special(const char *name, Inst *inst, int major);
Handler *find_memory(const char *name, Inst *inst, int major);
Handler *find_private(const char *name, Inst *inst, int major);
Handler *find_local(const char *name, Inst *inst, int major);
Handler *find_matrix(const char *name, Inst *inst, int major);

/* A vector operation of lanes: types of the result and the operands.
 * u: 32 bits, f: f32, q: 64 bits, d: f64, s: 16 bits, h: f16 (both in the low half), b: bf16. */
struct LaneOp {
    const char *name;
    void (*run)(void *d, const void *a, const void *b, const void *c, int n);
    char result, types[4];
};
const LaneOp *lane_op(const char *name);

typedef union Row {
    uint32_t u[MAX_LANES];
    int32_t i[MAX_LANES];
    float f[MAX_LANES];
    uint64_t q[MAX_LANES];
    double d[MAX_LANES];
} Row;
/* The operand's values in all lanes, with its modifiers: in `row`, or where they are. */
const void *fetch(Wave *wave, const Inst *inst, int at, char type, Row *row);
void store(Wave *wave, const Inst *inst, int at, char type, const Row *row);

#endif
