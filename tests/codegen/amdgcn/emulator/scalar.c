/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar instructions: the registers of a wave, branches, barriers, waits. */
#include "tests/codegen/amdgcn/emulator/emulator.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- registers ---- */

uint64_t exec_of(const Wave *wave)
{
    return wave->s[S_EXEC] | (wave->n == MAX_LANES ? (uint64_t)wave->s[S_EXEC + 1] << 32 : 0);
}

static void check_scalar(const Wave *wave, const Inst *inst, int at)
{
    if (wave->scalar_waits[at]) {
        stop(wave, inst, "s%d is used before its load was waited for", at);
    }
}

uint32_t scalar_get(const Wave *wave, const Inst *inst, const Operand *operand, int part)
{
    switch (operand->kind) {
    case SCALAR:
        check_scalar(wave, inst, operand->at + part);
        return operand->at == S_NULL ? 0 : wave->s[operand->at + part];
    case SCC: return wave->scc;
    case FLOATING: return float_to_bits((float)operand->floating);
    case INTEGER: return (uint32_t)(operand->integer >> (part ? 32 : 0));
    default: stop(wave, inst, "an operand that is no scalar");
    }
}

uint64_t scalar_get64(const Wave *wave, const Inst *inst, const Operand *operand)
{
    if (operand->kind == SCALAR && operand->at == S_NULL) {
        return 0;
    }
    if (operand->kind == SCALAR && operand->count < 2) {
        stop(wave, inst, "one register for 64 bits");
    }
    if (operand->kind == FLOATING) {
        uint64_t bits;
        memcpy(&bits, &operand->floating, sizeof bits);
        return bits;
    }
    if (operand->kind == INTEGER && operand->is_hex && operand->integer > INT32_MAX &&
        operand->integer <= UINT32_MAX && !extends_by_zeros(inst)) {
        stop(wave, inst, "is a literal of 32 bits extended by its sign?");
    }
    return scalar_get(wave, inst, operand, 0) | (uint64_t)scalar_get(wave, inst, operand, 1) << 32;
}

void scalar_put(Wave *wave, const Inst *inst, const Operand *operand, int part, uint32_t value)
{
    if (operand->kind != SCALAR) {
        stop(wave, inst, "a result that is no scalar register");
    }
    check_scalar(wave, inst, operand->at + part);
    if (operand->at != S_NULL) {
        wave->s[operand->at + part] = value;
    }
}

void scalar_put64(Wave *wave, const Inst *inst, const Operand *operand, uint64_t value)
{
    scalar_put(wave, inst, operand, 0, (uint32_t)value);
    if (operand->at != S_NULL) {
        scalar_put(wave, inst, operand, 1, (uint32_t)(value >> 32));
    }
}

uint64_t mask_get(const Wave *wave, const Inst *inst, const Operand *operand)
{
    if (operand->kind == INTEGER) {
        return (uint64_t)operand->integer;
    }
    return wave->n == MAX_LANES ? scalar_get64(wave, inst, operand)
                                : scalar_get(wave, inst, operand, 0);
}

void mask_put(Wave *wave, const Inst *inst, const Operand *operand, uint64_t mask)
{
    if (wave->n == MAX_LANES) {
        scalar_put64(wave, inst, operand, mask);
    } else {
        scalar_put(wave, inst, operand, 0, (uint32_t)mask);
    }
}

/* ---- operations: `d` of a and b (or a alone), scc after it ---- */

typedef uint32_t u;
typedef int32_t i;
typedef uint64_t q;
typedef int64_t l;
typedef float f;

static u get_u(Wave *w, const Inst *in, int at)
{
    return scalar_get(w, in, &in->operands[at], 0);
}

static i get_i(Wave *w, const Inst *in, int at)
{
    return (i)get_u(w, in, at);
}

static q get_q(Wave *w, const Inst *in, int at)
{
    return scalar_get64(w, in, &in->operands[at]);
}

static l get_l(Wave *w, const Inst *in, int at)
{
    return (l)get_q(w, in, at);
}

static f get_f(Wave *w, const Inst *in, int at)
{
    const Operand *operand = &in->operands[at];
    u bits = get_u(w, in, at);
    bits = operand->absolute ? bits & 0x7fffffff : bits;
    return bits_to_float(operand->negated ? bits ^ 0x80000000 : bits);
}

static void put_u(Wave *w, const Inst *in, u value)
{
    scalar_put(w, in, &in->operands[0], 0, value);
}

static void put_i(Wave *w, const Inst *in, i value)
{
    put_u(w, in, (u)value);
}

static void put_q(Wave *w, const Inst *in, q value)
{
    scalar_put64(w, in, &in->operands[0], value);
}

static void put_l(Wave *w, const Inst *in, l value)
{
    put_q(w, in, (q)value);
}

static void put_f(Wave *w, const Inst *in, f value)
{
    put_u(w, in, float_to_bits(value));
}

static u lane_unary(const char *name, u bits)
{
    Row from = {.u = {bits}}, to;
    lane_op(name)->run(&to, &from, NULL, NULL, 1);
    return to.u[0];
}

static u lane_binary(const char *name, f a, f b)
{
    Row x = {.f = {a}}, y = {.f = {b}}, to;
    lane_op(name)->run(&to, &x, &y, NULL, 1);
    return to.u[0];
}

static u lane_pair(const char *name, u a, u b)
{
    Row x = {.u = {a & 0xffff}}, y = {.u = {b & 0xffff}}, to;
    lane_op(name)->run(&to, &x, &y, NULL, 1);
    return to.u[0] & 0xffff;
}

static u signs64(q a)
{
    q other = a >> 63 ? ~a : a;
    return other ? (u)__builtin_clzll(other) : UINT32_MAX;
}

static q replicated(u a)
{
    q out = 0;
    for (int k = 0; k < 32; k++) {
        out |= (q)(a >> k & 1) * 3 << 2 * k;
    }
    return out;
}

/* One bit, or all four, for four lanes any of which has its own. */
static q quad_mask(q a)
{
    q out = 0;
    for (int k = 0; k < 16; k++) {
        out |= (q)((a >> 4 * k & 15) != 0) << k;
    }
    return out;
}

static q quads(q a)
{
    q out = 0;
    for (int k = 0; k < 16; k++) {
        out |= (a >> 4 * k & 15) != 0 ? (q)15 << 4 * k : 0;
    }
    return out;
}

static u field(u value, u packed)
{
    u at = packed & 31, n = packed >> 16 & 127;
    return n == 0 ? 0 : value >> at & (n >= 32 ? UINT32_MAX : (1u << n) - 1);
}

static i signed_field(u value, u packed)
{
    u n = packed >> 16 & 127, part = field(value, packed);
    return n == 0 || n >= 32 ? (i)part : (i)(part << (32 - n)) >> (32 - n);
}

static q field64(q value, u packed)
{
    u at = packed & 63, n = packed >> 16 & 127;
    return n == 0 ? 0 : value >> at & (n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1);
}

static l signed_field64(q value, u packed)
{
    u n = packed >> 16 & 127;
    q part = field64(value, packed);
    return n == 0 || n >= 64 ? (l)part : (l)(part << (64 - n)) >> (64 - n);
}

/* C2: scc is what `c` says; K2: scc stays. */
#define C2(name, R, A, B, expression, c)                                                           \
    static void s_##name(Wave *w, const Inst *in)                                                  \
    {                                                                                              \
        A a = get_##A(w, in, 1);                                                                   \
        B b = get_##B(w, in, 2);                                                                   \
        R d = (R)(expression);                                                                     \
        w->scc = c;                                                                                \
        put_##R(w, in, d);                                                                         \
    }
#define K2(name, R, A, B, expression)                                                              \
    static void s_##name(Wave *w, const Inst *in)                                                  \
    {                                                                                              \
        A a = get_##A(w, in, 1);                                                                   \
        B b = get_##B(w, in, 2);                                                                   \
        put_##R(w, in, (R)(expression));                                                           \
    }
#define C1(name, R, A, expression, c)                                                              \
    static void s_##name(Wave *w, const Inst *in)                                                  \
    {                                                                                              \
        A a = get_##A(w, in, 1);                                                                   \
        R d = (R)(expression);                                                                     \
        w->scc = c;                                                                                \
        put_##R(w, in, d);                                                                         \
    }
#define K1(name, R, A, expression)                                                                 \
    static void s_##name(Wave *w, const Inst *in)                                                  \
    {                                                                                              \
        A a = get_##A(w, in, 1);                                                                   \
        put_##R(w, in, (R)(expression));                                                           \
    }
/* IN_PLACE: the result is an operand too, the other a constant of 16 bits. */
#define IN_PLACE(name, R, A, B, expression, c)                                                     \
    static void s_##name(Wave *w, const Inst *in)                                                  \
    {                                                                                              \
        A a = get_##A(w, in, 0);                                                                   \
        B b = (int16_t)get_##B(w, in, 1);                                                          \
        R d = (R)(expression);                                                                     \
        w->scc = c;                                                                                \
        put_##R(w, in, d);                                                                         \
    }
#define COMPARE(name, A, expression)                                                               \
    static void s_##name(Wave *w, const Inst *in)                                                  \
    {                                                                                              \
        A a = get_##A(w, in, 0), b = get_##A(w, in, 1);                                            \
        w->scc = (expression);                                                                     \
    }
#define BIT_COMPARE(name, expression)                                                              \
    static void s_##name(Wave *w, const Inst *in)                                                  \
    {                                                                                              \
        q a = get_q(w, in, 0);                                                                     \
        u b = get_u(w, in, 1);                                                                     \
        w->scc = (expression);                                                                     \
    }
#define HALF_COMPARE(name, expression)                                                             \
    static void s_##name(Wave *w, const Inst *in)                                                  \
    {                                                                                              \
        f a = half_to_float(get_u(w, in, 0) & 0xffff),                                             \
          b = half_to_float(get_u(w, in, 1) & 0xffff);                                             \
        w->scc = (expression);                                                                     \
    }
#include "tests/codegen/amdgcn/emulator/scalar.def"
#undef C2
#undef K2
#undef C1
#undef K1
#undef IN_PLACE
#undef COMPARE
#undef BIT_COMPARE
#undef HALF_COMPARE

/* ---- masks of lanes ---- */

/* Result: exec as it was; exec becomes what the operation says. */
static void run_save_exec(Wave *w, const Inst *in)
{
    bool wide = in->width == 64;
    Operand exec = {.kind = SCALAR, .at = S_EXEC, .count = 2};
    q before = wide ? scalar_get64(w, in, &exec) : w->s[S_EXEC];
    q source = wide ? get_q(w, in, 1) : get_u(w, in, 1), after;
    switch (in->way) {
    case 0: after = source & before; break;
    case 1: after = source | before; break;
    case 2: after = source & ~before; break; /* andn2, and_not1 */
    case 3: after = before & ~source; break; /* andn1, and_not0 */
    case 4: after = source ^ before; break;
    case 5: after = ~(source & before); break;
    case 6: after = ~(source | before); break;
    case 7: after = ~(source ^ before); break;
    case 8: after = source | ~before; break;
    default: after = before | ~source; break;
    }
    after = wide ? after : (u)after;
    w->scc = after != 0;
    before = in->flag ? after : before; /* wrexec */
    if (wide) {
        put_q(w, in, before);
        scalar_put64(w, in, &exec, after);
    } else {
        put_u(w, in, (u)before);
        w->s[S_EXEC] = (u)after;
    }
}

/* ---- control ---- */

static void run_branch(Wave *w, const Inst *in)
{
    q vcc = w->s[S_VCC] | (w->n == MAX_LANES ? (q)w->s[S_VCC + 1] << 32 : 0);
    bool takes = true;
    switch (in->way) {
    case 1: takes = w->scc; break;
    case 2: takes = !w->scc; break;
    case 3: takes = vcc != 0; break;
    case 4: takes = vcc == 0; break;
    case 5: takes = exec_of(w) != 0; break;
    case 6: takes = exec_of(w) == 0; break;
    default: break;
    }
    w->pc = takes ? (size_t)in->target : w->pc;
}

static void run_end(Wave *w, const Inst *in)
{
    Block *block = w->block;
    (void)in;
    w->state = ENDED;
    block->alive--;
    if (block->alive > 0 && block->arrived == block->alive) {
        block->arrived = 0;
        block->phase++;
    }
}

static void signal_barrier(Wave *w)
{
    Block *block = w->block;
    w->phase = block->phase;
    if (++block->arrived == block->alive) {
        block->arrived = 0;
        block->phase++;
    }
}

static void run_barrier(Wave *w, const Inst *in)
{
    for (const Pending *entry = w->first; entry && in->way != 1; entry = entry->next) {
        if (entry->is_local_store) {
            stop(w, in, "a barrier before stores to LDS were waited for");
        }
    }
    if (in->way != 1) {
        signal_barrier(w);
    }
    if (in->way != 0) {
        w->state = WAITS;
    }
}

/* To and from addresses: what branches do not reach. way 0: where the next one is; 1: goes there;
 * 2: both. */
static void run_jump(Wave *w, const Inst *in)
{
    uint64_t next = in->address + (uint64_t)in->bytes, to = next;
    if (in->way > 0) {
        to = scalar_get64(w, in, &in->operands[in->way - 1]);
        w->pc = object_at(w->block->object, to);
    }
    if (in->way != 1) {
        scalar_put64(w, in, &in->operands[0], next);
    }
}

static void run_wait(Wave *w, const Inst *in)
{
    static const struct {
        const char *name;
        Counter counter;
    } COUNTERS[] = {{"vmcnt(", VM}, {"lgkmcnt(", LGKM}};
    for (size_t k = 0; k < 2; k++) {
        const char *at = strstr(in->text, COUNTERS[k].name);
        int left;
        if (at && sscanf(strchr(at, '(') + 1, "%d", &left) == 1) {
            pending_wait(w, COUNTERS[k].counter, left);
        }
    }
}

static void run_wait_one(Wave *w, const Inst *in)
{
    int left = (int)in->operands[0].integer;
    if (in->flag) { /* of two counters: bits 8 to 13, 0 to 5 */
        pending_wait(w, VM, in->way == VM ? left >> 8 & 63 : 63);
        pending_wait(w, DS, left & 63);
    } else {
        pending_wait(w, (Counter)in->way, left);
    }
}

static void run_wait_idle(Wave *w, const Inst *in)
{
    (void)in;
    for (int k = 0; k < N_COUNTERS; k++) {
        pending_wait(w, (Counter)k, 0);
    }
}

/* ---- names ---- */

typedef struct Name {
    const char *name;
    Handler *run;
    int way, width;
    bool flag;
} Name;

#define C2(name, R, A, B, e, c) {"s_" #name, s_##name, 0, 0, 0},
#define K2(name, R, A, B, e) {"s_" #name, s_##name, 0, 0, 0},
#define C1(name, R, A, e, c) {"s_" #name, s_##name, 0, 0, 0},
#define K1(name, R, A, e) {"s_" #name, s_##name, 0, 0, 0},
#define IN_PLACE(name, R, A, B, e, c) {"s_" #name, s_##name, 0, 0, 0},
#define COMPARE(name, A, e) {"s_" #name, s_##name, 0, 0, 0},
#define BIT_COMPARE(name, e) {"s_" #name, s_##name, 0, 0, 0},
#define HALF_COMPARE(name, e) {"s_" #name, s_##name, 0, 0, 0},
static const Name NAMES[] = {
#include "tests/codegen/amdgcn/emulator/scalar.def"
    {"s_branch", run_branch, 0, 0, 1},
    {"s_cbranch_scc1", run_branch, 1, 0, 1},
    {"s_cbranch_scc0", run_branch, 2, 0, 1},
    {"s_cbranch_vccnz", run_branch, 3, 0, 1},
    {"s_cbranch_vccz", run_branch, 4, 0, 1},
    {"s_cbranch_execnz", run_branch, 5, 0, 1},
    {"s_cbranch_execz", run_branch, 6, 0, 1},
    {"s_getpc_b64", run_jump, 0, 0, 0},
    {"s_setpc_b64", run_jump, 1, 0, 0},
    {"s_swappc_b64", run_jump, 2, 0, 0},
    {"s_endpgm", run_end, 0, 0, 0},
    {"s_barrier", run_barrier, 2, 0, 0},
    {"s_barrier_signal", run_barrier, 0, 0, 0},
    {"s_barrier_wait", run_barrier, 1, 0, 0},
    {"s_waitcnt", run_wait, 0, 0, 0},
    {"s_wait_loadcnt", run_wait_one, VM, 0, 0},
    {"s_wait_dscnt", run_wait_one, DS, 0, 0},
    {"s_wait_kmcnt", run_wait_one, KM, 0, 0},
    {"s_wait_loadcnt_dscnt", run_wait_one, VM, 0, 1},
    {"s_wait_storecnt_dscnt", run_wait_one, DS, 0, 1},
    {"s_wait_idle", run_wait_idle, 0, 0, 0},
};

/* s_and_saveexec_b64, s_and_not1_wrexec_b32 */
static bool find_save_exec(const char *name, Inst *inst)
{
    static const struct {
        const char *name;
        int way;
    } WAYS[] = {{"and", 0},      {"or", 1},      {"andn2", 2}, {"and_not1", 2}, {"andn1", 3},
                {"and_not0", 3}, {"xor", 4},     {"nand", 5},  {"nor", 6},      {"xnor", 7},
                {"orn2", 8},     {"or_not1", 8}, {"orn1", 9},  {"or_not0", 9}};
    const char *end = strstr(name, "_saveexec_b"), *writes = strstr(name, "_wrexec_b");
    const char *at = end ? end : writes;
    for (size_t k = 0; at && k < sizeof WAYS / sizeof *WAYS; k++) {
        size_t n = (size_t)(at - name) - 2;
        if (strlen(WAYS[k].name) == n && strncmp(name + 2, WAYS[k].name, n) == 0) {
            inst->way = WAYS[k].way;
            inst->width = strcmp(at + strlen(at) - 2, "64") == 0 ? 64 : 32;
            inst->flag = writes != NULL;
            return true;
        }
    }
    return false;
}

Handler *find_scalar(const char *name, Inst *inst, int major)
{
    (void)major;
    if (find_save_exec(name, inst)) {
        return run_save_exec;
    }
    for (size_t k = 0; k < sizeof NAMES / sizeof *NAMES; k++) {
        if (strcmp(name, NAMES[k].name) != 0) {
            continue;
        }
        inst->way = NAMES[k].way;
        inst->width = NAMES[k].width;
        inst->flag = NAMES[k].flag;
        inst->target = NAMES[k].run == run_branch ? -1 : 0;
        return NAMES[k].run;
    }
    return NULL;
}
