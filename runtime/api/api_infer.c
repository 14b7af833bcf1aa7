/* SPDX-License-Identifier: Apache-2.0 */
/* Infers values from arguments: the types of generics from array types, and sizes from shapes. */
#include "runtime/api/api_objects.h"

#include "ir/ir_errors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct Infer {
    ErrorBoundary *work;
    TesseraProgram *program;
    const TesseraSignature *signature;
    const KernelSignature *kernel;
    const TesseraOptions *options;
    const TesseraTensor *known;
    struct {
        TesseraPair *items;
        size_t n, cap;
    } pairs;
    struct {
        TesseraSize *items;
        size_t n, cap;
    } sizes;
    struct {
        const char **items;
        size_t n, cap;
    } origins; /* of sizes: the axis or option that determined each */
    struct {
        const char **items;
        size_t n, cap;
    } holders; /* of pairs: the parameter, or NULL */
} Infer;

/* The index of the pair of that name, or the number of pairs. */
static size_t find_pair(const Infer *in, const char *name)
{
    size_t i = 0;
    while (i < in->pairs.n && !text_equal(in->pairs.items[i].name, name)) {
        i++;
    }
    return i;
}

static void add_pair(Infer *in, TesseraPair pair, const char *holder)
{
    ARENA_PUSH(&in->work->arena, &in->pairs, pair);
    ARENA_PUSH(&in->work->arena, &in->holders, holder);
}

static bool is_size(const Infer *in, const char *name)
{
    for (size_t i = 0; i < in->signature->n_sizes; i++) {
        if (text_equal(in->signature->sizes[i], name)) {
            return true;
        }
    }
    return false;
}

static bool is_generic(const Infer *in, const char *name)
{
    for (size_t i = 0; i < in->signature->n_generics; i++) {
        if (text_equal(in->signature->generics[i], name)) {
            return true;
        }
    }
    return false;
}

/* Records the value of a size. False, after a message, if another value is known already. */
static bool add_size(Infer *in, const char *name, int64_t value, const char *origin)
{
    for (size_t i = 0; i < in->sizes.n; i++) {
        if (!text_equal(in->sizes.items[i].name, name)) {
            continue;
        }
        if (in->sizes.items[i].value == value) {
            return true;
        }
        diag_failure_at(&in->work->diags, DIAG_SOURCE, ERR_GIVEN_SHAPE, SPAN_NONE,
                        "%s: size %s is %" PRId64 " by %s, but %" PRId64 " by %s",
                        in->signature->name, name, in->sizes.items[i].value, in->origins.items[i],
                        value, origin);
        return false;
    }
    TesseraSize size = {arena_strdup(&in->work->arena, name), value};
    ARENA_PUSH(&in->work->arena, &in->sizes, size);
    ARENA_PUSH(&in->work->arena, &in->origins, origin);
    return true;
}

/* True if the text is an integer that fits 64 bits. */
static bool read_integer(const char *text, int64_t *value)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    *value = number;
    return *text && !*end && errno == 0;
}

static bool other_type(Infer *in, const TesseraParam *param, const char *type, const char *want,
                       const char *holder)
{
    const char *name = in->signature->name;
    if (want == param->type) {
        diag_failure_at(&in->work->diags, DIAG_SOURCE, ERR_GIVEN_TYPE, SPAN_NONE,
                        "%s: '%s' has elements of type %s, the kernel expects %s", name,
                        param->name, type, want);
    } else {
        diag_failure_at(&in->work->diags, DIAG_SOURCE, ERR_GIVEN_TYPE, SPAN_NONE,
                        "%s: %s is %s by %s%s%s, but '%s' holds %s", name, param->type, want,
                        holder ? "'" : "the type that is ", holder ? holder : "set",
                        holder ? "'" : "", param->name, type);
    }
    return false;
}

static void describe(const char *type, int rank, const char *const *names, const int64_t *sizes,
                     Text *out)
{
    text_printf(out, "%s[", type);
    for (int i = 0; i < rank; i++) {
        text_add(out, i ? ", " : "");
        if (names) {
            text_add(out, names[i]);
        } else {
            text_printf(out, "%" PRId64, sizes[i]);
        }
    }
    text_add(out, "]");
}

/* The value of a size that is known so far, or of a constant. */
static bool known_name(void *user, const char *name, int64_t *value)
{
    const Infer *in = user;
    for (size_t i = 0; i < in->sizes.n; i++) {
        if (text_equal(in->sizes.items[i].name, name)) {
            *value = in->sizes.items[i].value;
            return true;
        }
    }
    size_t at = find_pair(in, name);
    const char *text = at < in->pairs.n ? in->pairs.items[at].value : NULL;
    for (size_t i = 0; i < in->signature->n_params && !text; i++) {
        const TesseraParam *param = &in->signature->params[i];
        text = param->is_const && text_equal(param->name, name) ? param->fallback : NULL;
    }
    return text && read_integer(text, value);
}

/* Solves an axis with one unknown size for that size. An axis whose sizes are all known is checked
 * once everything is known. */
static bool infer_axis(Infer *in, const TesseraParam *param, const TesseraTensor *tensor, int axis)
{
    int64_t value = tensor->dims[axis], rest;
    Extent extent;
    const char *dim = param->dims[axis];
    const char *origin = arena_printf(&in->work->arena, "axis %d of '%s'", axis, param->name);
    if (is_size(in, dim)) {
        return add_size(in, dim, value, origin);
    }
    if (!extent_read(&in->work->arena, dim, known_name, in, &extent) ||
        __builtin_sub_overflow(value, extent.rest, &rest)) {
        return true;
    }
    if (!extent.unknown && read_integer(dim, &extent.rest) && extent.rest != value) {
        diag_failure_at(&in->work->diags, DIAG_SOURCE, ERR_GIVEN_SHAPE, SPAN_NONE,
                        "%s: axis %d of '%s' has %" PRId64 " elements, the kernel expects %s",
                        in->signature->name, axis, param->name, value, dim);
        return false;
    }
    if (!extent.unknown || extent.slope == 0 || !is_size(in, extent.unknown)) {
        return true;
    }
    bool divides = extent.slope == -1 ? rest > INT64_MIN : rest % extent.slope == 0;
    if (!divides || rest / extent.slope < 0) {
        diag_failure_at(&in->work->diags, DIAG_SOURCE, ERR_GIVEN_SHAPE, SPAN_NONE,
                        "%s: axis %d of '%s' has %" PRId64 " elements; no size %s makes it %s",
                        in->signature->name, axis, param->name, value, extent.unknown,
                        param->dims[axis]);
        return false;
    }
    return add_size(in, extent.unknown, rest / extent.slope, origin);
}

static bool infer_param(Infer *in, const TesseraParam *param, const TesseraTensor *tensor)
{
    if (tensor->rank != param->rank) {
        Text here = text_new(&in->work->arena), there = text_new(&in->work->arena);
        describe(tessera_type_name(tensor->type), tensor->rank, NULL, tensor->dims, &here);
        describe(param->type, param->rank, param->dims, NULL, &there);
        diag_failure_at(&in->work->diags, DIAG_SOURCE, ERR_GIVEN_SHAPE, SPAN_NONE,
                        "%s: '%s' is %s, the kernel expects %s", in->signature->name, param->name,
                        here.data, there.data);
        return false;
    }
    const char *type = tessera_type_name(tensor->type);
    if (!is_generic(in, param->type)) {
        return text_equal(param->type, type) || other_type(in, param, type, param->type, NULL);
    }
    size_t at = find_pair(in, param->type);
    if (at == in->pairs.n) {
        add_pair(in, (TesseraPair){param->type, type}, param->name);
        return true;
    }
    const char *want = in->pairs.items[at].value;
    return text_equal(want, type) || other_type(in, param, type, want, in->holders.items[at]);
}

/* One axis may determine a size that another one needs, so the axes are read until no new size is
 * found. */
static bool infer_sizes(Infer *in)
{
    for (size_t before = SIZE_MAX; before != in->sizes.n;) {
        before = in->sizes.n;
        for (size_t i = 0; i < in->signature->n_params; i++) {
            const TesseraParam *param = &in->signature->params[i];
            const TesseraTensor *tensor = &in->known[i];
            for (int axis = 0; param->rank >= 0 && axis < tensor->rank; axis++) {
                if (!infer_axis(in, param, tensor, axis)) {
                    return false;
                }
            }
        }
    }
    return true;
}

static bool infer_task(void *user)
{
    Infer *in = user;
    in->kernel = frontend_find(in->program->module, in->signature->name);
    /* Values and sizes that the options give come first, so that tensors are compared with
     * them. */
    const TesseraOptions *options = in->options;
    for (size_t i = 0; i < options->n_bindings; i++) {
        TesseraPair pair = options->bindings[i];
        int64_t value;
        add_pair(in, pair, NULL);
        if (is_size(in, pair.name) && read_integer(pair.value, &value) &&
            !add_size(in, pair.name, value, "the value that is set")) {
            return false;
        }
    }
    for (size_t i = 0; i < options->n_sizes; i++) {
        TesseraSize size = options->sizes[i];
        if (!add_size(in, size.name, size.value, "the size that is given")) {
            return false;
        }
    }
    for (size_t i = 0; in->known && i < in->signature->n_params; i++) {
        const TesseraParam *param = &in->signature->params[i];
        if (in->known[i].rank >= 0 && param->rank >= 0 && !infer_param(in, param, &in->known[i])) {
            return false;
        }
    }
    if (in->known && !infer_sizes(in)) {
        return false;
    }
    /* Sizes that select a variant (`assume D in 64, 128`) are bindings, too. */
    for (size_t i = 0; i < in->sizes.n; i++) {
        const TesseraSize *size = &in->sizes.items[i];
        size_t n_allowed = 0;
        if (frontend_allowed(in->program->module, in->kernel, size->name, &n_allowed) &&
            n_allowed > 0 && find_pair(in, size->name) == in->pairs.n) {
            const char *value = arena_printf(&in->work->arena, "%" PRId64, size->value);
            add_pair(in, (TesseraPair){size->name, value}, NULL);
        }
    }
    return true;
}

TesseraStatus tessera_infer(TesseraProgram *program, const TesseraOptions *options,
                            const TesseraTensor *known, TesseraInferred *inferred)
{
    TesseraContext *context = program ? program->work.context : NULL;
    const char *null =
        NULL_ARGUMENT({program, "program"}, {options, "options"}, {inferred, "inferred"});
    if (inferred) {
        *inferred = (TesseraInferred){0};
    }
    REFUSE_FREED(program);
    if (null) {
        return context_null(context, __func__, null);
    }
    Infer in = {.work = &program->inferred, .program = program, .options = options, .known = known};
    TesseraStatus status = options_check(program, options, &in.signature);
    for (size_t i = 0; known && status == TESSERA_OK && i < in.signature->n_params; i++) {
        if (known[i].rank >= 0) {
            status =
                tensor_check(context, in.signature->name, in.signature->params[i].name, &known[i]);
        }
    }
    if (status != TESSERA_OK) {
        return status;
    }
    work_free(&program->inferred);
    work_init(&program->inferred, context);
    status = error_boundary_run(&program->inferred, infer_task, NULL, &in);
    if (status == TESSERA_OK) {
        *inferred = (TesseraInferred){in.pairs.items, in.pairs.n, in.sizes.items, in.sizes.n};
    }
    return status;
}
