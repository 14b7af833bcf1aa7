/* SPDX-License-Identifier: Apache-2.0 */
/* What the code may assume about each size. A known size is reduced to facts that many sizes share,
 * so that there are few variants: the power of two that divides it, and the next of four round
 * numbers per octave (4, 5, 6, 7, 8, 10, 12, …) as its maximum. A size that is such a round number
 * itself is known exactly, so that a row of 4096 or 5120 fills its tile, and one of 131072 the
 * tiles of a cluster. So is a short axis of windows, as the 11 taps of a filter: how its taps are
 * loaded depends on their number. The plan contains the facts, and every launch is checked against
 * them. */
#include "runtime/compile/compilation.h"
#include "support/int_math.h"

#include "ir/build.h"
#include "ir/ir_errors.h"
#include "ir/layout/matrix_instr.h"
#include "ir/text/ir_text.h"

#include <inttypes.h>
#include <stdio.h>

enum { FINE_STEPS = 32, FINE_STEP = 64 };
enum { MAX_SHORT_ROW = 256, SHORT_ROW_STEP = 8 };
enum { MAX_WINDOW = 32 };
enum { MAX_BITS_LOG2 = 60 }; /* of a tensor: 2^57 bytes */
enum { MAX_MULTIPLE = 65536, MAX_EXACT = 1 << 20, DEFAULT_MULTIPLE = 8 };

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Both facts hold. */
static void add_multiple(DimVar *var, int64_t multiple)
{
    int64_t known = var->multiple < 1 ? 1 : var->multiple;
    int64_t both;
    if (!__builtin_mul_overflow(known / greatest_divisor(known, multiple), multiple, &both)) {
        var->multiple = both;
    }
}

static void add_range(DimVar *var, int64_t least, int64_t most)
{
    var->least = least > var->least ? least : var->least;
    var->most = most < var->most ? most : var->most;
}

/* How a size's maximum is rounded up. */
typedef enum Rounding {
    ROUND_COARSE,     /* four steps an octave */
    ROUND_FINE,       /* of kernels with products, whose tiles of warp groups fit finer steps */
    ROUND_SHORT_ROW,  /* the same, but a short row of whole 16-byte accesses, as a head's, is
                       * known exactly: tiles that hold it as a whole need that */
    ROUND_WINDOW,     /* four steps an octave, but up to MAX_WINDOW elements are known exactly */
    ROUND_FINE_WINDOW /* the same, of kernels with products */
} Rounding;

/* The least of {4, 5, 6, 7} * 2^k, or of 1, 2 and 3, that is not below. */
static int64_t next_round(int64_t value)
{
    int64_t unit = 1;
    while (unit <= INT64_MAX / 16 && 8 * unit < value) {
        unit *= 2;
    }
    if (8 * unit < value) {
        return INT64_MAX;
    }
    int64_t units = value / unit + (value % unit != 0);
    return units < 1 ? 1 : units * unit;
}

/* The least multiple of a 32nd of its octave, or of 64, that is not below, or round number: between
 * 64 and 256 there are more of these, as 80, 96 and 160. */
static int64_t next_fine(int64_t value)
{
    int64_t step = FINE_STEP;
    while (step <= INT64_MAX / (4 * FINE_STEPS) && step * 2 * FINE_STEPS < value) {
        step *= 2;
    }
    bool coarse = value <= FINE_STEP || value > step * 2 * FINE_STEPS;
    int64_t rounded = next_round(value);
    return coarse ? rounded : min_i64(rounded, round_up(value, step));
}

/* Does the rounding keep the value as it is? */
static bool is_kept_exact(int64_t value, Rounding rounding)
{
    switch (rounding) {
    case ROUND_SHORT_ROW: return value <= MAX_SHORT_ROW && value % SHORT_ROW_STEP == 0;
    case ROUND_WINDOW:
    case ROUND_FINE_WINDOW: return value <= MAX_WINDOW;
    default: return false;
    }
}

static void facts_of_value(DimVar *var, int64_t value, Rounding rounding)
{
    bool coarse = rounding == ROUND_COARSE || rounding == ROUND_WINDOW;
    int64_t multiple = 1, most = coarse ? next_round(value) : next_fine(value);
    if (value > 0 && is_kept_exact(value, rounding)) {
        most = value;
    }
    while (multiple < MAX_MULTIPLE && value % (multiple * 2) == 0) {
        multiple *= 2;
    }
    if (value == most && value <= MAX_EXACT) {
        multiple = value;
    }
    add_multiple(var, multiple);
    add_range(var, value > 0, most);
}

static bool may_be(Func *func, const DimVar *var, int64_t value)
{
    char rule[64] = "";
    if (var->multiple > 1 && value % var->multiple != 0) {
        snprintf(rule, sizeof rule, "%% %" PRId64 " == 0", var->multiple);
    } else if (value < var->least) {
        snprintf(rule, sizeof rule, ">= %" PRId64, var->least);
    } else if (value > var->most) {
        snprintf(rule, sizeof rule, "<= %" PRId64, var->most);
    }
    if (*rule) {
        Text name = text_new(func->arena);
        say_size(var, &name);
        bool sum = var->unnamed && var->by == 1;
        diag_failure_at(func->diags, DIAG_SOURCE, ERR_SIZE_ASSUMED, SPAN_NONE,
                        "%s: size %s is %" PRId64 ", but %s%s%s %s is assumed", func->name,
                        name.data, value, sum ? "(" : "", name.data, sum ? ")" : "", rule);
    }
    return !*rule;
}

static bool give_facts(Func *func, DimVar *var, const TesseraOptions *options, bool *any)
{
    for (size_t i = 0; i < options->n_facts; i++) {
        const TesseraFact *fact = &options->facts[i];
        if (text_equal(fact->name, var->name)) {
            add_multiple(var, fact->multiple > 0 ? fact->multiple : 1);
            add_range(var, fact->least, fact->most > 0 ? fact->most : INT64_MAX);
            *any = *any || fact->multiple > 0;
        }
    }
    /* The source and the facts must leave at least one size. */
    int64_t multiple = var->multiple > 1 ? var->multiple : 1, least = var->least;
    int64_t up = least % multiple ? multiple - least % multiple : 0;
    bool none = __builtin_add_overflow(least, up, &least) || least > var->most;
    if (none) {
        Text rule = text_new(func->arena);
        if (multiple > 1) {
            text_printf(&rule, "a multiple of %" PRId64 ", ", multiple);
        }
        diag_failure_at(func->diags, DIAG_USAGE, ERR_SIZE_ASSUMED, SPAN_NONE,
                        "no size %s of %s is %sat least %" PRId64 " and at most %" PRId64,
                        var->name, func->name, rule.n ? rule.data : "", var->least, var->most);
    }
    return !none;
}

static bool give_sizes(Func *func, DimVar *var, const TesseraOptions *options,
                       Rounding rounding, bool *any)
{
    for (size_t i = 0; i < options->n_sizes; i++) {
        if (text_equal(options->sizes[i].name, var->name) &&
            !may_be(func, var, options->sizes[i].value)) {
            return false;
        }
    }
    for (size_t i = 0; i < options->n_sizes; i++) {
        if (text_equal(options->sizes[i].name, var->name)) {
            facts_of_value(var, options->sizes[i].value, rounding);
            *any = true;
        }
    }
    return true;
}

/* Rows, of the caller's tensors, of which every one begins at a multiple of 16 bytes are what one
 * compiles for. */
static bool is_row(const Func *func, const DimVar *var)
{
    for (size_t i = 0; i < func->params.n; i++) {
        Type type = param_given(&func->params.items[i]);
        bool own = func->params.items[i].io != PARAM_SCRATCH;
        for (int axis = 0; own && type->kind == TYPE_TENSOR && axis < type->rank; axis++) {
            if (type_stride_is(type, axis, 1) && poly_as_var(type->dims[axis]) == var) {
                return true;
            }
        }
    }
    return false;
}

/* Is the size a term of a sum with another one, as the taps R of H - R + 1 places? */
static bool is_term_of(Dim sum, const DimVar *var)
{
    bool others = false;
    for (int i = 0; i < sum->n_terms; i++) {
        const PolyTerm *term = &sum->terms[i];
        others = others || (term->n > 0 && (term->n > 1 || term->vars[0] != var));
    }
    return others && poly_mentions(sum, var);
}

/* An axis of windows over another axis, or that other axis. */
static bool is_window(const Func *func, const DimVar *var)
{
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const DimVar *other = func->dimvars.items[i];
        if (other->by > 0 && is_term_of(other->of, var)) {
            return true;
        }
    }
    for (size_t i = 0; i < func->params.n; i++) {
        Type type = param_given(&func->params.items[i]);
        for (int axis = 0; axis < type->rank; axis++) {
            if (is_term_of(type->dims[axis], var)) {
                return true;
            }
        }
    }
    return false;
}

/* `fine`: the kernel has a product. */
static Rounding rounding_of(const Func *func, const DimVar *var, bool fine)
{
    if (is_window(func, var)) {
        return fine ? ROUND_FINE_WINDOW : ROUND_WINDOW;
    }
    if (!fine) {
        return ROUND_COARSE;
    }
    return is_row(func, var) ? ROUND_SHORT_ROW : ROUND_FINE;
}

/* What is known of the sizes gives the quotients made of them. What only states a fact about a sum
 * (by is 1) is in no tensor, and code for other values of it is the same. */
static bool give_quotient(Func *func, DimVar *var, const int64_t *sizes, bool *any)
{
    if (var->by > 0 && sizes[var->id] >= 0) {
        if (!may_be(func, var, sizes[var->id])) {
            return false;
        }
        if (var->by > 1) {
            facts_of_value(var, sizes[var->id], ROUND_COARSE);
        }
        *any = true;
    }
    return true;
}

/* Is it made of a size of which something is known? Then that is all that is known of it. */
static bool follows_known(const Func *func, const DimVar *var, const bool *has_facts)
{
    for (size_t i = 0; var->by > 0 && i < func->dimvars.n; i++) {
        if (has_facts[i] && poly_mentions(var->of, func->dimvars.items[i])) {
            return true;
        }
    }
    return false;
}

/* "M = 8, N = 4": the sizes in a tensor's type. */
static const char *sizes_in(const Func *func, Type type, const int64_t *sizes)
{
    Text text = text_new(func->arena);
    for (size_t i = 0; i < func->dimvars.n; i++) {
        const DimVar *var = func->dimvars.items[i];
        bool mentioned = false;
        for (int axis = 0; axis < type->rank; axis++) {
            mentioned = mentioned || poly_mentions(type->dims[axis], var);
        }
        if (mentioned && var->name && !var->unnamed) {
            text_printf(&text, "%s%s = %" PRId64, text.n ? ", " : "", var->name, sizes[i]);
        }
    }
    return text.data;
}

/* Does the tensor fit an address space? One of which a size is not known may. A launch refuses
 * extents below 0. */
static bool fits_memory(const Func *func, Type type, const int64_t *sizes)
{
    int64_t bits = dtype_bits(type->dtype);
    bool fits = true;
    for (int axis = 0; axis < type->rank; axis++) {
        for (size_t i = 0; i < func->dimvars.n; i++) {
            if (sizes[i] < 0 && poly_mentions(type->dims[axis], func->dimvars.items[i])) {
                return true;
            }
        }
        int64_t extent;
        bool known = poly_eval(type->dims[axis], sizes, &extent);
        if (known && extent <= 0) {
            return true;
        }
        fits = fits && known && !__builtin_mul_overflow(bits, extent, &bits);
    }
    return fits && bits <= (int64_t)1 << MAX_BITS_LOG2;
}

/* What is decided for such sizes, and said of them, would be decided by numbers that overflow. */
bool sizes_fit_memory(Func *func, const int64_t *sizes)
{
    for (size_t i = 0; i < func->params.n; i++) {
        const Param *param = &func->params.items[i];
        Type type = param_given(param);
        if (type->kind == TYPE_TENSOR && !fits_memory(func, type, sizes)) {
            diag_failure_at(func->diags, DIAG_SOURCE, ERR_SIZE_TOO_LARGE, SPAN_NONE,
                            "%s: '%s' would have more than 2^57 bytes, with %s", func->name,
                            param->name, sizes_in(func, type, sizes));
            return false;
        }
    }
    return true;
}

bool size_facts_apply(Func *func, const TesseraOptions *options, const Target *target)
{
    bool fine = block_contains(func->body, OP_DOT) && target && mma_warpgroup(target);
    const int64_t *sizes = sizes_by_id(func, options->sizes, options->n_sizes);
    bool *has_facts = ARENA_ARRAY(func->arena, bool, func->dimvars.n);
    if (!sizes_fit_memory(func, sizes)) {
        return false;
    }
    for (size_t i = 0; i < func->dimvars.n; i++) {
        DimVar *var = func->dimvars.items[i];
        bool any = false;
        if (var->kind != DIM_SIZE) {
            continue;
        }
        Rounding rounding = rounding_of(func, var, fine);
        if (!give_facts(func, var, options, &any) ||
            !give_sizes(func, var, options, rounding, &any)) {
            return false;
        }
        if (!give_quotient(func, var, sizes, &any)) {
            return false;
        }
        has_facts[i] = any = any || follows_known(func, var, has_facts);
        if (!any && is_row(func, var)) {
            add_multiple(var, DEFAULT_MULTIPLE);
        }
    }
    return true;
}
