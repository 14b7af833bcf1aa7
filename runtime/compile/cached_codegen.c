/* SPDX-License-Identifier: Apache-2.0 */
/* Code generation through the compile cache. The front end and the passes run each time, because
 * they are fast; the machine code that LLVM and the assembler make of their IR is cached
 * (runtime/cache). */
#include "runtime/api/api_objects.h"
#include "runtime/compile/compilation.h"
#include "runtime/launch/launch_context.h"

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

bool build_id(Text *out)
{
    static const char here;
    return object_build(&here, out);
}

CodegenHost native_cpu(Arena *arena)
{
    CodegenHost host = {.cpu = "", .features = ""};
    const CodegenTable *codegen = codegen_find(arena, &host.why);
    if (codegen) {
        codegen->host_cpu(arena, &host);
    }
    return host;
}

static const char *host_words(TesseraContext *context, Arena *arena)
{
    CompilerState *compiler = context->compiler;
    if (compiler->host) {
        return compiler->host;
    }
    CodegenHost host = native_cpu(arena);
    const char *words = arena_printf(arena, "cpu %s %s\n", host.cpu, host.features);
    context_set(context, &compiler->host, words);
    return words;
}

static void key_of_tools(Compilation *c, EmitKind kind, Text *key)
{
    struct stat info;
    const char *ptxas = getenv("TESSERA_PTXAS");
    if (kind == EMIT_OBJ) {
        text_add(key, host_words(c->work->context, &c->work->arena));
    }
    if (kind == EMIT_CUBIN && ptxas && stat(ptxas, &info) == 0) {
        text_printf(key, "ptxas %s %" PRId64 " %" PRId64 "\n", ptxas, (int64_t)info.st_size,
                    (int64_t)info.st_mtime);
    }
}

/* All that code depends on: this build, its options and tools, the IR; and the sources, whose names
 * and lines are in the code. False: there is no telling. */
static bool key_of(Compilation *c, EmitKind kind, int optimize, Text *key)
{
    text_printf(key, "tessera %s ", TESSERA_VERSION);
    if (!build_id(key)) {
        return false;
    }
    text_printf(key, "\ntarget %s, kind %d, level %d\n", c->target->name, (int)kind, optimize);
    key_of_tools(c, kind, key);
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

/* ---- the value: the plan's length, the plan, the code ---- */

bool code_unpack(Arena *arena, const Text *value, Code *code, Plan *plan)
{
    uint64_t n;
    if (value->n < sizeof n) {
        return false;
    }
    memcpy(&n, value->data, sizeof n);
    if (n > value->n - sizeof n ||
        !plan_from_bytes(arena, value->data + sizeof n, (size_t)n, plan)) {
        return false;
    }
    size_t before = sizeof n + (size_t)n;
    *code = (Code){value->data + before, value->n - before};
    return true;
}

Text code_pack(Arena *arena, const Code *code, const Plan *plan)
{
    Text bytes = text_new(arena), value = text_new(arena);
    plan_to_bytes(plan, &bytes);
    uint64_t n = bytes.n;
    text_add_n(&value, (const char *)&n, sizeof n);
    text_add_n(&value, bytes.data, bytes.n);
    text_add_n(&value, code->bytes, code->n);
    return value;
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

bool compilation_emit(Compilation *c, EmitKind kind, const CodegenOptions *options, Code *code,
                      Plan *plan)
{
    const CodegenTable *codegen = codegen_open(&c->work->arena, &c->work->diags);
    return codegen && codegen->emit(c->func, kind, options, code, plan);
}

bool generate_code(Compilation *c, EmitKind kind, Code *code, Plan *plan)
{
    CodegenOptions options = compilation_codegen(c);
    bool done;
    bool good = worker_emit(c, kind, code, plan, &done);
    return done ? good : compilation_emit(c, kind, &options, code, plan);
}
