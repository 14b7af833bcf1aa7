/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel fingerprint, under which measured schedules are stored: the typed kernel, its types,
 * its sizes, and the device. */
#include "runtime/compile/kernel_objects.h"
#include "runtime/compile/pin_lookup.h"

#include "ir/text/ir_text.h"
#include "runtime/pins/digest.h"
#include "runtime/pins/size_bucket.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef struct Texts {
    const char **items;
    size_t n, cap;
} Texts;

static const char *join(Arena *arena, Texts *texts)
{
    Text all = text_new(arena);
    if (texts->n > 1) {
        qsort(texts->items, texts->n, sizeof *texts->items, by_text);
    }
    for (size_t i = 0; i < texts->n; i++) {
        text_printf(&all, "%s%s", i ? ", " : "", texts->items[i]);
    }
    return all.n ? all.data : "";
}

/* ---- types and numbers that are bound ---- */

static const char *bound(const Compilation *c, const char *name)
{
    for (size_t i = 0; i < c->options.n_bindings; i++) {
        if (text_equal(c->options.bindings[i].name, name)) {
            return c->options.bindings[i].value;
        }
    }
    return NULL;
}

static void add(Arena *arena, Texts *texts, const char *name, const char *value)
{
    if (value) {
        const char *text = arena_printf(arena, "%s=%s", name, value);
        ARENA_PUSH(arena, texts, text);
    }
}

/* ---- the kernel ---- */

static const char *digest_of(Compilation *c)
{
    Text text = text_new(&c->work->arena);
    print_func(c->func, &text);
    return digest_text(&c->work->arena, text.data, text.n);
}

bool fingerprint_typed(Compilation *c, const Module *module, const KernelSignature *kernel)
{
    if (c->pinned.wanted) {
        Arena *arena = &c->work->arena;
        Texts texts = {0};
        for (size_t i = 0; i < kernel->generics.n; i++) {
            add(arena, &texts, kernel->generics.items[i], bound(c, kernel->generics.items[i]));
        }
        for (size_t i = 0; i < kernel->params.n; i++) {
            const KernelParam *param = &kernel->params.items[i];
            const char *value = param->is_const ? bound(c, param->name) : NULL;
            if (!value && param->is_const) {
                value = param->fallback;
            }
            add(arena, &texts, param->name, value);
        }
        for (size_t i = 0; i < kernel->sizes.n; i++) {
            size_t n;
            const char *size = kernel->sizes.items[i];
            frontend_allowed(module, kernel, size, &n);
            add(arena, &texts, size, n ? bound(c, size) : NULL);
        }
        c->pinned.identity.types = join(arena, &texts);
        c->pinned.identity.plain = digest_of(c);
    }
    return true;
}

bool fingerprint_strided(Compilation *c)
{
    bool has_strides = c->options.n_args > 0 || c->options.n_strides > 0;
    if (c->pinned.wanted) {
        c->pinned.identity.digest = has_strides ? digest_of(c) : c->pinned.identity.plain;
    }
    return true;
}

/* ---- sizes ---- */

static const char *print_sizes(Compilation *c, const int64_t *sizes, bool buckets)
{
    Arena *arena = &c->work->arena;
    Texts texts = {0};
    for (size_t i = 0; i < c->func->dimvars.n; i++) {
        const DimVar *var = c->func->dimvars.items[i];
        if (!(var->kind == DIM_SIZE && var->by == 0 && var->name)) {
            continue;
        }
        if (!sizes || sizes[var->id] < 0) {
            return NULL;
        }
        Text text = text_new(arena);
        Bucket bucket = bucket_of(sizes[var->id]);
        if (buckets) {
            bucket_print(var->name, &bucket, &text);
        } else {
            text_printf(&text, "%s=%" PRId64, var->name, sizes[var->id]);
        }
        ARENA_PUSH(arena, &texts, text.data);
    }
    return join(arena, &texts);
}

const char *buckets_of(Compilation *c, const int64_t *sizes)
{
    return print_sizes(c, sizes, true);
}

const char *sizes_text(Compilation *c, const int64_t *sizes)
{
    return print_sizes(c, sizes, false);
}

const char *architecture_of(Compilation *c)
{
    if (!text_equal(c->target->name, "native")) {
        return c->target->name;
    }
    CodegenHost host = codegen_native_cpu(&c->work->arena);
    return host.cpu ? host.cpu : "native";
}
