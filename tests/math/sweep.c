/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the standard library's functions with the C library.
 *
 *     sweep [--every N] [NAME]…
 *
 * A function of one f32 is tested on every N-th of the 2^32 inputs (1: all of them); slow
 * functions are tested on as many as their rows say. The program prints the largest error of each.
 * On the edges and a sample of inputs the interpreter must give the same bits. The last line says
 * `N passed, N failed`. */
#include "tests/math/reference.h"
#include "tests/math/vectors.h"

#include <tessera/tessera.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 13, MAX_THREADS = 64, STRIDE = 65521 };

/* ---- one compiled function ---- */

typedef struct Kernel {
    TesseraContext *context;
    TesseraDevice *device;
    TesseraProgram *program;
    TesseraKernel *kernel;
} Kernel;

static _Noreturn void stop(const TesseraContext *context)
{
    fprintf(stderr, "%s\n", tessera_error(context)->message);
    exit(1);
}

static void must(const Kernel *k, TesseraStatus status)
{
    if (status != TESSERA_OK) {
        stop(k->context);
    }
}

static Kernel kernel_open(const char *name, const char *type, int operands)
{
    Kernel k = {0};
    char text[256];
    int n = snprintf(text, sizeof text,
                     operands == 1 ? "kernel k(x: %s[N]) -> %s[N] = %s(x)"
                                   : "kernel k(x: %1$s[N], y: %2$s[N]) -> %2$s[N] = %3$s(x, y)",
                     type, type, name);
    must(&k, tessera_context_new(NULL, &k.context));
    must(&k, tessera_device_open(k.context, "cpu", 1, &k.device));
    must(&k, tessera_program_parse(k.context, name, text, (size_t)n, &k.program));
    TesseraOptions options = {.target = tessera_device_info(k.device)->target};
    must(&k, tessera_compile(k.program, &options, &k.kernel));
    return k;
}

static void kernel_close(Kernel *k)
{
    tessera_kernel_free(k->kernel);
    tessera_program_free(k->program);
    tessera_device_free(k->device);
    tessera_context_free(k->context);
}

static TesseraLaunch *prepare(Kernel *k, TesseraType type, void *const *data, size_t n_args,
                              int64_t n)
{
    TesseraArg args[3];
    TesseraLaunch *launch;
    for (size_t i = 0; i < n_args; i++) {
        args[i] = (TesseraArg){.tensor = {data[i], type, 1, {n}}};
    }
    must(k, tessera_prepare(k->kernel, k->device, args, n_args, &launch));
    return launch;
}

/* ---- errors ---- */

typedef struct Worst {
    double ulps;
    double x, y, got, want;
} Worst;

static double from_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t to_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* In units of the last place that `want` has as an f32. Where f32 overflows, infinity counts as
 * 2^128; a zero has the right sign. */
static double ulps(float got, double want)
{
    if (isnan(got) || isnan(want)) {
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    }
    if (fabs(want) > 0x1p128) {
        want = copysign(0x1p128, want);
    }
    if (got == 0 && (to_bits(want) >> 63) != (signbit(got) != 0)) {
        return INFINITY;
    }
    double value = isinf(got) ? copysign(0x1p128, (double)got) : (double)got;
    int64_t exponent = (int64_t)(to_bits(want) >> 52 & 2047) - 1023;
    exponent = exponent < -126 ? -126 : exponent;
    return fabs(value - want) * from_bits((uint64_t)(1023 + 23 - exponent) << 52);
}

typedef double Doubles __attribute__((vector_size(32), aligned(8)));
typedef int64_t Masks __attribute__((vector_size(32), aligned(8)));
typedef float Floats __attribute__((vector_size(16), aligned(4)));
enum { LANES = 4 };

#define PICK(mask, a, b) ((Doubles)(((Masks)(a) & (mask)) | ((Masks)(b) & ~(mask))))
#define LIMITED(v) PICK(v > most, most, PICK(v < -most, -most, v))

/* Is all within `limit`? As ulps, without branches; n is a multiple of LANES. */
VECTORIZED static bool all_within(const float *got, const double *want, size_t n, double limit)
{
    Masks bad = {0};
    const Doubles most = {0x1p128, 0x1p128, 0x1p128, 0x1p128}, least = most * 0x1p-254;
    for (size_t i = 0; i < n; i += LANES) {
        Doubles g = __builtin_convertvector(*(const Floats *)&got[i], Doubles);
        Doubles w = *(const Doubles *)&want[i];
        Masks signs = ((Masks)g ^ (Masks)w) < 0, nan = (g != g) & (w != w);
        g = LIMITED(g);
        w = LIMITED(w);
        Doubles unit = (Doubles)((Masks)w & INT64_C(0x7ff0000000000000));
        unit = PICK(unit < least, least, unit);
        Doubles off = (Doubles)((Masks)(g - w) & INT64_MAX);
        bad |= ~nan & (~(off * 0x1p23 <= unit * limit) | ((g == 0) & signs));
    }
    return !(bad[0] | bad[1] | bad[2] | bad[3]);
}

VECTORIZED static void fill(float *x, double *wide, size_t n, uint64_t first, uint64_t step)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)first + (uint32_t)i * (uint32_t)step;
        memcpy(&x[i], &bits, sizeof bits);
        wide[i] = (double)x[i];
    }
}

static void compare(const float *x, const float *got, const double *want, size_t n, Worst *worst)
{
    if (all_within(got, want, n, worst->ulps)) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        double off = ulps(got[i], want[i]);
        if (off > worst->ulps) {
            *worst = (Worst){off, (double)x[i], 0, (double)got[i], want[i]};
        }
    }
}

/* ---- one argument of f32 ---- */

typedef struct Sweep {
    const Unary *unary;
    uint64_t step;
    atomic_uint_least64_t next; /* chunk */
    pthread_mutex_t lock;
    Worst worst;
} Sweep;

static void *sweep_worker(void *user)
{
    Sweep *s = user;
    Kernel k = kernel_open(s->unary->name, "f32", 1);
    float *x = aligned_alloc(64, CHUNK * sizeof *x), *got = aligned_alloc(64, CHUNK * sizeof *got);
    double *wide = malloc(CHUNK * sizeof *wide), *want = malloc(CHUNK * sizeof *want);
    TesseraLaunch *launch = prepare(&k, TESSERA_F32, (void *[]){x, got}, 2, CHUNK);
    Worst worst = {0};
    uint64_t first;
    while ((first = atomic_fetch_add(&s->next, CHUNK * s->step)) < UINT64_C(1) << 32) {
        fill(x, wide, CHUNK, first, s->step);
        must(&k, tessera_launch(launch, NULL));
        s->unary->want(wide, want, CHUNK);
        compare(x, got, want, CHUNK, &worst);
    }
    pthread_mutex_lock(&s->lock);
    s->worst = worst.ulps > s->worst.ulps ? worst : s->worst;
    pthread_mutex_unlock(&s->lock);
    tessera_launch_free(launch);
    kernel_close(&k);
    free(x);
    free(got);
    free(wide);
    free(want);
    return NULL;
}

/* Every `every`-th input, of a slow function fewer. */
static Worst sweep(const Unary *unary, uint64_t every)
{
    uint64_t step = (uint64_t)unary->step;
    Sweep s = {.unary = unary, .step = step > every ? step : every};
    pthread_mutex_init(&s.lock, NULL);
    pthread_t threads[MAX_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    long n = every == STRIDE ? 1 : processors < MAX_THREADS ? processors : MAX_THREADS;
    for (long i = 0; i < n; i++) {
        pthread_create(&threads[i], NULL, sweep_worker, &s);
    }
    for (long i = 0; i < n; i++) {
        pthread_join(threads[i], NULL);
    }
    return s.worst;
}

/* ---- samples: two arguments of f32; f64 ---- */

enum { SAMPLES = 1 << 15 };
static const double EDGES[] = {0,
                               1,
                               0.5,
                               2,
                               3,
                               1.5,
                               0.75,
                               1.25,
                               0x1p-24,
                               10,
                               100,
                               1e-3,
                               0x1p24,
                               0x1p23,
                               88.5,
                               127,
                               128,
                               149,
                               0x1p-149,
                               0x1p-126,
                               0x1.8p-140,
                               1e30,
                               0x1p127,
                               1e-30,
                               INFINITY,
                               NAN,
                               0x1.fffffep127,
                               0x1.fffffep-1,
                               0x1.000002p0,
                               7,
                               22,
                               44};
enum { N_EDGES = sizeof EDGES / sizeof *EDGES };

static uint64_t random_next(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Edges, any bits, and numbers of the size of 1 to 100, by turns. */
static double sample(size_t i, int argument, bool wide, uint64_t *state)
{
    uint64_t bits = random_next(state);
    size_t edge = argument == 0 ? i % (2 * N_EDGES) : i / (2 * N_EDGES);
    if (edge < 2 * N_EDGES && i < 4 * N_EDGES * N_EDGES) {
        return edge < N_EDGES ? EDGES[edge] : -EDGES[edge - N_EDGES];
    }
    if (i % 2) {
        static const double scales[] = {1, 4, 20, 100, 700};
        return ((double)(bits >> 11) * 0x1p-52 - 1) * scales[i / 2 % 5];
    }
    if (wide) {
        return from_bits(bits);
    }
    uint32_t narrow = (uint32_t)bits;
    float value;
    memcpy(&value, &narrow, sizeof value);
    return (double)value;
}

/* Does the interpreter give the same bits for the first of these inputs? */
static bool same_bits(const Kernel *k, TesseraType type, void *const *data, size_t n_args)
{
    enum { FEW = 4 * N_EDGES * N_EDGES };
    static _Alignas(64) double memory[FEW];
    TesseraArg args[3];
    TesseraOptions options = {0};
    TesseraDifference difference;
    for (size_t i = 0; i < n_args; i++) {
        void *from = i + 1 < n_args ? data[i] : memory;
        args[i] = (TesseraArg){.tensor = {from, type, 1, {FEW}}};
    }
    must(k, tessera_interpret(k->program, &options, args, n_args));
    TesseraStatus status = tessera_compare(type, FEW, data[n_args - 1], memory, NULL, &difference);
    return status == TESSERA_OK;
}

static Worst sample_unary(const Unary *unary, bool *same)
{
    static _Alignas(64) float x[SAMPLES], got[SAMPLES];
    static double wide[SAMPLES], want[SAMPLES];
    void *data[] = {x, got};
    Kernel k = kernel_open(unary->name, "f32", 1);
    TesseraLaunch *launch = prepare(&k, TESSERA_F32, data, 2, SAMPLES);
    Worst worst = {0};
    uint64_t state = 1;
    for (size_t i = 0; i < SAMPLES; i++) {
        x[i] = (float)sample(i, 0, false, &state);
        wide[i] = (double)x[i];
    }
    must(&k, tessera_launch(launch, NULL));
    unary->want(wide, want, SAMPLES);
    compare(x, got, want, SAMPLES, &worst);
    *same = same_bits(&k, TESSERA_F32, data, 2);
    tessera_launch_free(launch);
    kernel_close(&k);
    return worst;
}

static Worst sample_binary(const Binary *binary, bool *same)
{
    static _Alignas(64) float x[SAMPLES], y[SAMPLES], got[SAMPLES];
    Kernel k = kernel_open(binary->name, "f32", 2);
    void *data[] = {x, y, got};
    TesseraLaunch *launch = prepare(&k, TESSERA_F32, data, 3, SAMPLES);
    Worst worst = {0};
    uint64_t state = 1;
    for (size_t i = 0; i < SAMPLES; i++) {
        x[i] = (float)sample(i, 0, false, &state);
        y[i] = (float)sample(i, 1, false, &state);
    }
    must(&k, tessera_launch(launch, NULL));
    for (size_t i = 0; i < SAMPLES; i++) {
        double want = binary->want((double)x[i], (double)y[i]), off = ulps(got[i], want);
        if (off > worst.ulps) {
            worst = (Worst){off, (double)x[i], (double)y[i], (double)got[i], want};
        }
    }
    *same = same_bits(&k, TESSERA_F32, data, 3);
    tessera_launch_free(launch);
    kernel_close(&k);
    return worst;
}

/* As ulps, of f64. */
static double ulps64(double got, long double want)
{
    if (isnan(got) || isnan(want)) {
        return isnan(got) && isnan(want) ? 0 : INFINITY;
    }
    if (fabsl(want) > 0x1p1024L) {
        want = copysignl(0x1p1024L, want);
    }
    if (got == 0 && !signbit(got) != !signbit(want)) {
        return INFINITY;
    }
    long double value = isinf(got) ? copysignl(0x1p1024L, got) : got;
    int exponent = want == 0 ? -1074 : ilogbl(want) - 52;
    return (double)(fabsl(value - want) * ldexpl(1, exponent < -1074 ? 1074 : -exponent));
}

static Worst sample_wide(const Wide *wide, bool *same)
{
    static _Alignas(64) double x[SAMPLES], y[SAMPLES], got[SAMPLES];
    int operands = wide->one ? 1 : 2;
    Kernel k = kernel_open(wide->name, "f64", operands);
    void *data[] = {x, operands == 1 ? got : y, got};
    TesseraLaunch *launch = prepare(&k, TESSERA_F64, data, (size_t)operands + 1, SAMPLES);
    Worst worst = {0};
    uint64_t state = 1;
    for (size_t i = 0; i < SAMPLES; i++) {
        x[i] = sample(i, 0, true, &state);
        y[i] = sample(i, 1, true, &state);
    }
    must(&k, tessera_launch(launch, NULL));
    for (size_t i = 0; i < SAMPLES; i++) {
        long double want = operands == 1 ? wide->one(x[i]) : wide->two(x[i], y[i]);
        double off = ulps64(got[i], want);
        if (off > worst.ulps) {
            worst = (Worst){off, x[i], y[i], got[i], (double)want};
        }
    }
    *same = same_bits(&k, TESSERA_F64, data, (size_t)operands + 1);
    tessera_launch_free(launch);
    kernel_close(&k);
    return worst;
}

/* ---- all ---- */

typedef struct Options {
    uint64_t every;
    char **names;
    int n_names;
    int passed, failed;
} Options;

static bool wanted(const Options *o, const char *name)
{
    for (int i = 0; i < o->n_names; i++) {
        if (strcmp(o->names[i], name) == 0) {
            return true;
        }
    }
    return o->n_names == 0;
}

static void report(Options *o, const char *name, const char *type, const Worst *w, double limit,
                   bool same)
{
    bool good = w->ulps <= limit && same;
    o->passed += good;
    o->failed += !good;
    printf("%s %-14s %s  %.4g ulp at %a", good ? "ok  " : "BAD ", name, type, w->ulps, w->x);
    printf(w->ulps > 0 ? ", %a: %a, not %a\n" : "\n", w->y, w->got, w->want);
    if (!same) {
        printf("     the interpreter and the CPU differ\n");
    }
    fflush(stdout);
}

static void run_unary(Options *o, const Unary *unary)
{
    bool same = true;
    Worst worst = sweep(unary, o->every), other = sample_unary(unary, &same);
    report(o, unary->name, "f32", other.ulps > worst.ulps ? &other : &worst, unary->limit, same);
}

static void run_binary(Options *o, const Binary *binary)
{
    bool same;
    Worst worst = sample_binary(binary, &same);
    report(o, binary->name, "f32", &worst, binary->limit, same);
}

static void run_wide(Options *o, const Wide *wide)
{
    bool same;
    Worst worst = sample_wide(wide, &same);
    report(o, wide->name, "f64", &worst, wide->limit, same);
}

int main(int argc, char **argv)
{
    Options o = {.every = STRIDE, .names = argv + 1, .n_names = argc - 1};
    if (o.n_names > 1 && strcmp(argv[1], "--every") == 0) {
        o.every = strtoull(argv[2], NULL, 10);
        o.every = o.every ? o.every : 1;
        o.names += 2;
        o.n_names -= 2;
    }
    for (size_t i = 0; i < UNARY_COUNT; i++) {
        if (wanted(&o, UNARY[i].name)) {
            run_unary(&o, &UNARY[i]);
        }
    }
    for (size_t i = 0; i < BINARY_COUNT; i++) {
        if (wanted(&o, BINARY[i].name)) {
            run_binary(&o, &BINARY[i]);
        }
    }
    for (size_t i = 0; i < WIDE_COUNT; i++) {
        if (wanted(&o, WIDE[i].name)) {
            run_wide(&o, &WIDE[i]);
        }
    }
    printf("%d passed, %d failed\n", o.passed, o.failed);
    return o.failed != 0;
}
