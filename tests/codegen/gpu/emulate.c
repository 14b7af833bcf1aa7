/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the threads of an AMD GPU as coroutines of this process; emulate.py replaces intrinsics by
 * calls of these functions. The threads of a wave synchronize at shuffles, those of a block at
 * barriers; threads that reach different ones are reported. Blocks run one after the other. Shared
 * memory starts as NaNs. An asynchronous copy arrives when its thread waits for it, not before. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { MAX_THREADS = 1024, STACK_BYTES = 64 * 1024, MAX_COPIES = 64, MAX_COPY = 16 };

typedef enum State { READY, AT_WAVE, AT_BARRIER, DONE } State;

typedef struct Copy { /* on its way; the bytes were read when it began */
    unsigned char *to, bytes[MAX_COPY];
    int size;
} Copy;

typedef struct Thread {
    ucontext_t context;
    State state;
    int value, source, result; /* of a shuffle: given, lane that is read, got */
    long given;                /* the lanes that gave an odd value, a bit each */
    char *stack;
    unsigned char operands[2][64]; /* of a matrix instruction: left, right */
    Copy copies[MAX_COPIES];       /* oldest first */
    int n_copies;
} Thread;

static Thread threads[MAX_THREADS];
static ucontext_t scheduler;
static int current, count, block, blocks, wave;
static void (*kernel)(void);

static void stop(const char *why)
{
    fprintf(stderr, "emulate: block %d, thread %d: %s\n", block, current, why);
    exit(1);
}

static void pause_as(State state)
{
    threads[current].state = state;
    swapcontext(&threads[current].context, &scheduler);
}

static int shuffle(int value, int source)
{
    threads[current].value = value;
    threads[current].source = source;
    pause_as(AT_WAVE);
    return threads[current].result;
}

/* ---- what the code calls ---- */

int emu_thread(void);
int emu_block(void);
void *emu_hidden(void);
void emu_barrier(void);
int emu_first(int value);
long emu_first_wide(long value);
int emu_dpp(int old, int value, int control, int rows, int banks, _Bool bound);
int emu_swizzle(int value, int pattern);
int emu_permute(int address, int value);
int emu_permute_rows(int old, int value, int low, int high, _Bool all, _Bool bound);
int emu_ballot(_Bool holds);
long emu_ballot_wide(_Bool holds);
void emu_wave(void);
float emu_exp2(float x);
void emu_copy(const void *from, void *first, int size, int offset, int policy);
void emu_wait(int counters);
void emu_matrix(int family, int depth, int kind, int is_signed, const void *a, const void *b,
                const void *c, void *d);
void emu_run(void (*code)(void), int n_blocks, int n_threads, int n_wave, void *shared, long bytes);

int emu_thread(void)
{
    return current;
}

int emu_block(void)
{
    return block;
}

void *emu_hidden(void)
{
    return &blocks;
}

void emu_barrier(void)
{
    pause_as(AT_BARRIER);
}

int emu_first(int value)
{
    return shuffle(value, 0);
}

long emu_first_wide(long value)
{
    unsigned low = (unsigned)shuffle((int)value, 0);
    unsigned high = (unsigned)shuffle((int)(value >> 32), 0);
    return (long)((unsigned long)high << 32 | low);
}

int emu_dpp(int old, int value, int control, int rows, int banks, _Bool bound)
{
    int lane = current % wave;
    (void)old;
    if (rows != 15 || banks != 15 || !bound) {
        stop("DPP with masks");
    }
    if (control < 0x100) {
        return shuffle(value, (lane & ~3) | (control >> 2 * (lane & 3) & 3));
    }
    switch (control) {
    case 0x128: return shuffle(value, (lane & ~15) | ((lane - 8) & 15)); /* row_ror:8 */
    case 0x141: return shuffle(value, lane ^ 7);                         /* row_half_mirror */
    default: break;
    }
    if ((control & ~15) != 0x160) {
        stop("a DPP that is not known here");
    }
    return shuffle(value, lane ^ (control & 15));
}

/* Lane i of a row reads lane 4 bits of `low` (i < 8) or `high` of the other row of its half. */
int emu_permute_rows(int old, int value, int low, int high, _Bool all, _Bool bound)
{
    int lane = current % wave, at = lane & 15;
    (void)old;
    if (all || bound) {
        stop("permlanex16 with masks");
    }
    int from = (int)((unsigned)(at < 8 ? low : high) >> 4 * (at & 7) & 15);
    return shuffle(value, (lane & ~15 ^ 16) | from);
}

int emu_swizzle(int value, int pattern)
{
    int lane = current % wave;
    int within = (((lane & 31) & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31);
    return shuffle(value, (lane & ~31) | within);
}

int emu_permute(int address, int value)
{
    return shuffle(value, (address >> 2) % wave);
}

long emu_ballot_wide(_Bool holds)
{
    shuffle(holds, 0);
    return threads[current].given;
}

int emu_ballot(_Bool holds)
{
    return (int)emu_ballot_wide(holds);
}

void emu_wave(void)
{
    shuffle(0, 0);
}

float emu_exp2(float x)
{
    return exp2f(x);
}

/* ---- copies to shared memory ---- */

/* The wave's lanes fill what follows the first one's address, which all of them give. */
void emu_copy(const void *from, void *first, int size, int offset, int policy)
{
    Thread *thread = &threads[current];
    if (thread->n_copies == MAX_COPIES || (size != 4 && size != 16) || offset || policy) {
        stop("a copy of another form, or too many on their way");
    }
    Copy *copy = &thread->copies[thread->n_copies++];
    copy->to = (unsigned char *)first + current % wave * size;
    copy->size = size;
    memcpy(copy->bytes, from, (size_t)size);
}

/* All but the newest, of the counter that counts them: bits 0 to 3, 14 and 15. */
void emu_wait(int counters)
{
    Thread *thread = &threads[current];
    int left = (counters & 15) | (counters >> 14 & 3) << 4, done = thread->n_copies - left;
    for (int i = 0; i < done; i++) {
        memcpy(thread->copies[i].to, thread->copies[i].bytes, (size_t)thread->copies[i].size);
    }
    if (done > 0) {
        memmove(thread->copies, thread->copies + done, (size_t)left * sizeof(Copy));
        thread->n_copies = left;
    }
}

/* ---- matrix instructions: 16 by 16, as AMD's manuals have them ---- */

enum { MATRIX = 16 };
typedef enum Kind { F16, BF16, F32, F64, INT8, FP8, BF8 } Kind;

static const int KIND_BYTES[] = {2, 2, 4, 8, 1, 1, 1};

static double small_float(int bits, int exponents, int bias)
{
    int mantissas = 7 - exponents, mantissa = bits & ((1 << mantissas) - 1);
    int exponent = (bits & 127) >> mantissas;
    double sign = bits & 128 ? -1 : 1;
    if (exponents == 4 && (bits & 127) == 127) {
        return NAN;
    }
    if (exponents == 5 && exponent == 31) {
        return mantissa ? NAN : sign * INFINITY;
    }
    return sign * ldexp(mantissa + (exponent ? 1 << mantissas : 0),
                        (exponent ? exponent : 1) - bias - mantissas);
}

static double element(Kind kind, int is_signed, const unsigned char *from, int at)
{
    union {
        _Float16 f16;
        uint32_t bits;
        float f32;
        double f64;
    } u = {.f64 = 0};
    from += at * KIND_BYTES[kind];
    switch (kind) {
    case INT8: return is_signed ? (signed char)*from : *from;
    case FP8: return small_float(*from, 4, 7);
    case BF8: return small_float(*from, 5, 15);
    default: break;
    }
    memcpy(&u, from, (size_t)KIND_BYTES[kind]);
    if (kind == BF16) {
        u.bits <<= 16;
    }
    return kind == F16 ? (double)u.f16 : kind == F64 ? u.f64 : (double)u.f32;
}

/* CDNA: lane = line + 16 * (k / own), element k % own. RDNA3: all of k, in both halves of a wave.
 * RDNA4: lane = line + 16 * (k / 8). */
static double operand(int family, int depth, Kind kind, int is_signed, int side, int line, int k)
{
    int own = family == 11 ? depth : depth * MATRIX / wave, first = current - current % wave;
    int lane = line + MATRIX * (k / own);
    if (family == 11 && memcmp(threads[first + line].operands[side],
                               threads[first + line + MATRIX].operands[side],
                               (size_t)(depth * KIND_BYTES[kind]))) {
        stop("the halves of the wave have different operands");
    }
    return element(kind, is_signed, threads[first + lane].operands[side], k % own);
}

/* Row and column of register r of this lane's result. */
static void place(int family, Kind kind, int r, int *row, int *column)
{
    int lane = current % wave, part = lane / MATRIX;
    *column = lane % MATRIX;
    *row = family == 11   ? 2 * r + part
           : family == 12 ? 8 * part + r
           : kind == F64  ? 4 * r + part
                          : 4 * part + r;
}

/* Threads wait for one another before, so that all operands are there, and after. */
void emu_matrix(int family, int depth, int kind, int is_signed, const void *a, const void *b,
                const void *c, void *d)
{
    int own = family == 11 ? depth : depth * MATRIX / wave;
    size_t bytes = (size_t)(own * KIND_BYTES[kind]);
    memcpy(threads[current].operands[0], a, bytes);
    memcpy(threads[current].operands[1], b, bytes);
    shuffle(0, 0);
    for (int r = 0; r < MATRIX * MATRIX / wave; r++) {
        int row, column;
        double sum = 0;
        place(family, kind, r, &row, &column);
        for (int k = 0; k < depth; k++) {
            sum += operand(family, depth, kind, is_signed, 0, row, k) *
                   operand(family, depth, kind, is_signed, 1, column, k);
        }
        if (kind == F64) {
            ((double *)d)[r] = ((const double *)c)[r] + sum;
        } else if (kind == INT8) {
            ((uint32_t *)d)[r] = ((const uint32_t *)c)[r] + (uint32_t)(int64_t)sum;
        } else {
            ((float *)d)[r] = (float)(((const float *)c)[r] + sum);
        }
    }
    shuffle(0, 0);
}

/* libgcc has it from version 13 on; a bf16 is returned in the low bits of a vector register. */
float __truncsfbf2(float x);
float __truncsfbf2(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = x != x ? bits >> 16 | 64 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- scheduling ---- */

static void enter(void)
{
    kernel();
    threads[current].state = DONE;
    swapcontext(&threads[current].context, &scheduler);
}

static void start(Thread *thread)
{
    thread->stack = thread->stack ? thread->stack : malloc(STACK_BYTES);
    getcontext(&thread->context);
    thread->context.uc_stack.ss_sp = thread->stack;
    thread->context.uc_stack.ss_size = STACK_BYTES;
    thread->context.uc_link = NULL;
    makecontext(&thread->context, enter, 0);
    thread->state = READY;
    thread->n_copies = 0;
}

static void resume_ready(void)
{
    for (current = 0; current < count; current++) {
        if (threads[current].state == READY) {
            swapcontext(&scheduler, &threads[current].context);
        }
    }
}

/* All threads of a wave have come to a shuffle: exchange. */
static int release_waves(void)
{
    int released = 0;
    for (int first = 0; first < count; first += wave) {
        int here = 0;
        for (int i = first; i < first + wave; i++) {
            here += threads[i].state == AT_WAVE;
        }
        if (here == 0) {
            continue;
        }
        if (here != wave) {
            current = first;
            stop("not all threads of its wave come to a shuffle");
        }
        long given = 0;
        for (int i = 0; i < wave; i++) {
            given |= (long)(threads[first + i].value & 1) << i;
        }
        for (int i = first; i < first + wave; i++) {
            threads[i].given = given;
            threads[i].result = threads[first + threads[i].source].value;
            threads[i].state = READY;
        }
        released = 1;
    }
    return released;
}

static void release_barrier(void)
{
    int here = 0;
    for (int i = 0; i < count; i++) {
        here += threads[i].state == AT_BARRIER;
    }
    if (here != 0 && here != count) {
        stop("not all threads of the block come to a barrier");
    }
    for (int i = 0; here && i < count; i++) {
        threads[i].state = READY;
    }
}

static int is_done(void)
{
    for (int i = 0; i < count; i++) {
        if (threads[i].state != DONE) {
            return 0;
        }
    }
    return 1;
}

void emu_run(void (*code)(void), int n_blocks, int n_threads, int n_wave, void *shared, long bytes)
{
    kernel = code;
    count = n_threads;
    wave = n_wave;
    blocks = n_blocks;
    for (block = 0; block < n_blocks; block++) {
        memset(shared, 0xff, (size_t)bytes);
        for (int i = 0; i < count; i++) {
            start(&threads[i]);
        }
        while (!is_done()) {
            resume_ready();
            if (!release_waves()) {
                release_barrier();
            }
        }
    }
}
