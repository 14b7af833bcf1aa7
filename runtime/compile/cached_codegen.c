/* SPDX-License-Identifier: Apache-2.0 */
/* Code generation through the compile cache. The front end and the passes run each time, because
 * they are fast; the machine code that LLVM and the assembler make of their IR is cached
 * (runtime/cache). */
#include "runtime/compile/kernel_objects.h"
#include "runtime/context/compiler_context.h"

#include "ir/target/target_card.h"
#include "ir/text/ir_text.h"
#include "runtime/cache/code_cache.h"
#include "runtime/device/plan_bytes.h"
#include "support/shared_object.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WAIT_SECONDS = 60 }; /* for another process that compiles the same */

Cache *context_cache(TesseraContext *context)
{
    if (!context->compiler->cache) {
        CacheOptions options = {context->compiler->cache_folder, context->compiler->cache_limit};
        context->compiler->cache = cache_open(context->allocator, &options);
    }
    return context->compiler->cache;
}

/* ---- the key ---- */

static const char *host_words(TesseraContext *context, Arena *arena)
{
    CompilerState *compiler = context->compiler;
    if (compiler->host) {
        return compiler->host;
    }
    CodegenHost host = codegen_native_cpu(arena);
    const char *words = arena_printf(arena, "cpu %s %s\n", host.cpu, host.features);
    context_set(context, &compiler->host, words);
    return words;
}

/* All that code depends on: this build, its options and tools, the IR; and the sources, whose names
 * and lines are in the code. False: there is no telling. */
static bool key_of(Compilation *c, EmitKind kind, int optimize, Text *key)
{
    text_printf(key, "tessera %s ", TESSERA_VERSION);
    if (!build_id(key)) {
        return false;
    }
    text_printf(key, "\ntarget %s, kind %d, level %d\n", target_spelling(c->target), (int)kind,
                optimize);
    struct stat info;
    const char *ptxas = getenv("TESSERA_PTXAS");
    if (kind == EMIT_OBJ) {
        text_add(key, host_words(c->work->context, &c->work->arena));
    }
    if (kind == EMIT_CUBIN && ptxas && stat(ptxas, &info) == 0) {
        text_printf(key, "ptxas %s %" PRId64 " %" PRId64 "\n", ptxas, (int64_t)info.st_size,
                    (int64_t)info.st_mtime);
    }
    text_printf(key, "symbol %s\n", c->func->symbol ? c->func->symbol : "");
    print_func(c->func, key);
    text_printf(key, "source %s, %zu bytes\n", c->name, c->n);
    text_add_n(key, c->text, c->n);
    for (size_t i = 0; c->imports && i < c->imports->texts.n; i++) {
        const ImportedText *text = &c->imports->texts.items[i];
        text_printf(key, "import %s, %zu bytes\n", text->file, text->n);
        text_add_n(key, text->text, text->n);
    }
    return true;
}

/* ---- finding and storing ---- */

static bool take(const CachedCode *cached, Compilation *c)
{
    Arena *arena = &c->work->arena;
    Text value;
    return cache_take(cached->cache, arena, cached->key, &value) &&
           code_unpack(arena, &value, &c->code, &c->plan);
}

CachedCode cached_code_find(Compilation *c, EmitKind kind)
{
    TesseraContext *context = c->work->context;
    const TesseraDebug *debug = &context->compiler->debug;
    bool is_measured = debug->time_passes || debug->count_work; /* which needs the code made */
    CachedCode cached = {.cache = is_measured ? NULL : context_cache(context),
                         .state = CODE_MISSING};
    enum { KEY_BYTES = 32 << 10 }; /* mostly */
    Text text = text_new_for(&c->work->arena, KEY_BYTES);
    text.exact = true;
    if (cached.cache && !key_of(c, kind, compilation_codegen(c).optimize, &text)) {
        cached.cache = NULL;
    }
    cached.key = (CacheKey){text.data, text.n};
    if (cached.cache && take(&cached, c)) {
        cached.state = CODE_FOUND;
    } else if (context->compiler->cache_only) {
        cached.state = CODE_FORBIDDEN;
        Diag *diag = diag_failure(&c->work->diags, DIAG_ENVIRONMENT,
                                  "%s for %s is not in the cache, and compiling is forbidden",
                                  c->func->name, c->target->name);
        diag_help(&c->work->diags, diag,
                  "run it once where it may compile, with this build, these options and "
                  "this cache");
    } else if (cached.cache) {
        cache_begin(cached.cache, cached.key, WAIT_SECONDS);
        cached.is_locked = true;
        cached.state = take(&cached, c) ? CODE_FOUND : CODE_MISSING;
    }
    return cached;
}

void cached_code_done(Compilation *c, const CachedCode *cached, bool made)
{
    if (!cached->is_locked) {
        return;
    }
    if (made) {
        Text value = code_pack(&c->work->arena, &c->code, &c->plan);
        const char *about =
            arena_printf(&c->work->arena, "%s for %s", c->func->name, c->target->name);
        cache_put(cached->cache, cached->key, about, &value);
    }
    cache_end(cached->cache, cached->key);
}
