/* SPDX-License-Identifier: Apache-2.0 */
/* What arguments tell: a generic's type from an array's, sizes from shapes. */
#include "runtime/runtime.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct Infer {
    Work *work;
    TesseraProgram *program;
    const TesseraSignature *signature;
    const KernelSignature *kernel;
    const TesseraOptions *options;
    const TesseraTensor *known;
    struct { TesseraPair *items; size_t n, cap; } pairs;
    struct { TesseraSize *items; size_t n, cap; } sizes;
    struct { const char **items; size_t n, cap; } origins; /* of sizes: who said so */
    struct { const char **items; size_t n, cap; } holders; /* of pairs: the parameter, or NULL */
} Infer;

/* Its place, or how many there are. */
static size_t find_pair(const Infer *in, const char *name)
{
    size_t i = 0;
    while (i < in->pairs.n && !text_same(in->pairs.items[i].name, name)) {
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
        if (text_same(in->signature->sizes[i], name)) {
            return true;
        }
    }
    return false;
}

static bool is_generic(const Infer *in, const char *name)
{
    for (size_t i = 0; i < in->signature->n_generics; i++) {
        if (text_same(in->signature->generics[i], name)) {
            return true;
        }
    }
    return false;
}

/* False when another value is known already. */
static bool add_size(Infer *in, const char *name, int64_t value, const char *origin)
{
    for (size_t i = 0; i < in->sizes.n; i++) {
        if (!text_same(in->sizes.items[i].name, name)) {
            continue;
        }
        if (in->sizes.items[i].value == value) {
            return true;
        }
        diag_failure(&in->work->diags, DIAG_SOURCE,
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

static bool no_such_size(Infer *in, const char *name)
{
    Text list = text_new(&in->work->arena);
    for (size_t i = 0; i < in->signature->n_sizes; i++) {
        text_printf(&list, "%s%s", i ? ", " : ": it has ", in->signature->sizes[i]);
    }
    diag_failure(&in->work->diags, DIAG_USAGE, "%s has no size '%.100s'%s", in->signature->name,
                 name, list.n ? list.data : "");
    return false;
}

static bool add_given(Infer *in)
{
    const TesseraOptions *options = in->options;
    for (size_t i = 0; i < options->n_bindings; i++) {
        TesseraPair pair = options->bindings[i];
        char *end;
        long long value = strtoll(pair.value, &end, 10);
        add_pair(in, pair, NULL);
        bool is_number = *pair.value && !*end;
        if (is_size(in, pair.name) && is_number &&
            !add_size(in, pair.name, value, "the value that is set")) {
            return false;
        }
    }
    for (size_t i = 0; i < options->n_sizes; i++) {
        TesseraSize size = options->sizes[i];
        if (!is_size(in, size.name)) {
            return no_such_size(in, size.name);
        }
        if (size.value < 0) {
            diag_failure(&in->work->diags, DIAG_USAGE, "size %s=%" PRId64 " is negative",
                         size.name, size.value);
            return false;
        }
        if (!add_size(in, size.name, size.value, "the size that is given")) {
            return false;
        }
    }
    return true;
}

static bool other_type(Infer *in, const TesseraParam *param, const char *type, const char *want,
                       const char *holder)
{
    const char *name = in->signature->name;
    if (want == param->type) {
        diag_failure(&in->work->diags, DIAG_SOURCE, "%s: '%s' holds %s, the kernel says %s", name,
                     param->name, type, want);
    } else {
        diag_failure(&in->work->diags, DIAG_SOURCE, "%s: %s is %s by %s%s%s, but '%s' holds %s",
                     name, param->type, want, holder ? "'" : "the type that is ",
                     holder ? holder : "set", holder ? "'" : "", param->name, type);
    }
    return false;
}

static bool infer_type(Infer *in, const TesseraParam *param, const TesseraTensor *tensor)
{
    const char *type = tessera_type_name(tensor->type);
    if (!is_generic(in, param->type)) {
        return text_same(param->type, type) || other_type(in, param, type, param->type, NULL);
    }
    size_t at = find_pair(in, param->type);
    if (at == in->pairs.n) {
        add_pair(in, (TesseraPair){param->type, type}, param->name);
        return true;
    }
    const char *want = in->pairs.items[at].value;
    return text_same(want, type) || other_type(in, param, type, want, in->holders.items[at]);
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

static bool other_rank(Infer *in, const TesseraParam *param, const TesseraTensor *tensor)
{
    Text here = text_new(&in->work->arena), there = text_new(&in->work->arena);
    describe(tessera_type_name(tensor->type), tensor->rank, NULL, tensor->dims, &here);
    describe(param->type, param->rank, param->dims, NULL, &there);
    diag_failure(&in->work->diags, DIAG_SOURCE, "%s: '%s' is %s, the kernel says %s",
                 in->signature->name, param->name, here.data, there.data);
    return false;
}

static bool infer_axis(Infer *in, const TesseraParam *param, const TesseraTensor *tensor, int axis)
{
    const char *dim = param->dims[axis];
    int64_t value = tensor->dims[axis];
    char *end;
    long long number = strtoll(dim, &end, 10);
    if (is_size(in, dim)) {
        const char *origin = arena_printf(&in->work->arena, "axis %d of '%s'", axis, param->name);
        return add_size(in, dim, value, origin);
    }
    if (*dim && !*end && number != value) {
        diag_failure(&in->work->diags, DIAG_SOURCE,
                     "%s: axis %d of '%s' has %" PRId64 " elements, the kernel says %lld",
                     in->signature->name, axis, param->name, value, number);
        return false;
    }
    return true; /* an expression: checked when all sizes are known */
}

static bool infer_param(Infer *in, const TesseraParam *param, const TesseraTensor *tensor)
{
    if (tensor->rank != param->rank) {
        return other_rank(in, param, tensor);
    }
    if (!infer_type(in, param, tensor)) {
        return false;
    }
    for (int axis = 0; axis < tensor->rank; axis++) {
        if (!infer_axis(in, param, tensor, axis)) {
            return false;
        }
    }
    return true;
}

/* Sizes that select a variant (`assume D in 64, 128`) are bindings, too. */
static void bind_assumed(Infer *in)
{
    for (size_t i = 0; i < in->sizes.n; i++) {
        const TesseraSize *size = &in->sizes.items[i];
        size_t n = 0;
        if (frontend_allowed(in->program->module, in->kernel, size->name, &n) && n > 0 &&
            find_pair(in, size->name) == in->pairs.n) {
            const char *value = arena_printf(&in->work->arena, "%" PRId64, size->value);
            add_pair(in, (TesseraPair){size->name, value}, NULL);
        }
    }
}

static bool infer_task(void *user)
{
    Infer *in = user;
    size_t n = (size_t)(in->signature - in->program->signatures.items);
    in->kernel = frontend_kernel(in->program->module, n);
    if (!add_given(in)) {
        return false;
    }
    for (size_t i = 0; in->known && i < in->signature->n_params; i++) {
        const TesseraParam *param = &in->signature->params[i];
        if (in->known[i].rank >= 0 && param->rank >= 0 &&
            !infer_param(in, param, &in->known[i])) {
            return false;
        }
    }
    bind_assumed(in);
    return true;
}

TesseraStatus tessera_infer(TesseraProgram *program, const TesseraOptions *options,
                            const TesseraTensor *known, TesseraInferred *inferred)
{
    TesseraContext *context = program->work.context;
    Infer in = {.work = &program->inferred, .program = program, .options = options,
                .known = known};
    *inferred = (TesseraInferred){0};
    TesseraStatus status = tessera_program_find(program, options->kernel, &in.signature);
    if (status != TESSERA_OK) {
        return status;
    }
    work_free(&program->inferred);
    work_init(&program->inferred, context);
    status = work_run(&program->inferred, infer_task, NULL, &in);
    if (status == TESSERA_OK) {
        *inferred = (TesseraInferred){in.pairs.items, in.pairs.n, in.sizes.items, in.sizes.n};
    }
    return status;
}
