/* SPDX-License-Identifier: Apache-2.0 */
/* Ahead-of-time compilation: every kernel for every target in every variant, in one object. */
#include "runtime/bundle/bundle_build.h"

#include "ir/ir_errors.h"
#include "runtime/api/api_objects.h"
#include "runtime/device/plan_bytes.h"

#include <stdlib.h>
#include <string.h>

struct TesseraBundled {
    Handle handle;
    ErrorBoundary work;
    TesseraBytes header, object;
};

/* ---- functions ---- */

/* True for the characters of C names, in every locale. */
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Appends a value as a part of a C name. */
static void add_value(Text *name, const char *value)
{
    for (; *value; value++) {
        switch (*value) {
        case '-': text_char(name, 'm'); break;
        case '.': text_char(name, 'p'); break;
        default: text_char(name, is_word(*value) ? *value : '_'); break;
        }
    }
}

static void add_bound(Text *words, const char *name, const char *value)
{
    text_printf(words, "%s%s = %s", words->n ? ", " : "", name, value);
}

/* A kernel's name as C may have it: f_3d for f[3], vjp_f_ for vjp(f). */
static void add_name(Text *to, const char *name)
{
    for (; *name; name++) {
        text_char(to, is_word(*name) ? *name : *name == ']' ? 'd' : '_');
    }
}

/* "softmax_bf16", "attention_bf16_causal_true": what it was bound to, in the signature's order. */
static void name_function(BundleBuilder *builder, const TesseraSignature *signature,
                          const TesseraOptions *options, BundleFunctionInfo *function)
{
    Arena *arena = &builder->work->arena;
    Text name = text_new(arena), words = text_new(arena);
    add_name(&name, signature->name);
    for (size_t i = 0; i < signature->n_generics; i++) {
        const char *value = bundle_bound_to(options, signature->generics[i]);
        if (value) {
            text_char(&name, '_');
            add_value(&name, value);
            add_bound(&words, signature->generics[i], value);
        }
    }
    for (size_t i = 0; i < signature->n_choices + signature->n_params; i++) {
        bool choice = i < signature->n_choices;
        const TesseraParam *param = choice ? NULL : &signature->params[i - signature->n_choices];
        const char *is = choice ? signature->choices[i].size : param->name;
        const char *value = choice || param->is_const ? bundle_bound_to(options, is) : NULL;
        if (value) {
            text_printf(&name, "_%s_", is);
            add_value(&name, value);
            add_bound(&words, is, value);
        }
    }
    function->of.name = name.data;
    function->of.kernel = arena_strdup(arena, signature->name);
    function->bound = words.n ? words.data : "";
}

static size_t function_of(BundleBuilder *builder, const TesseraSignature *signature,
                          const TesseraOptions *options)
{
    BundleFunctionInfo function = {0};
    name_function(builder, signature, options, &function);
    for (size_t i = 0; i < builder->functions.n; i++) {
        const BundleFunctionInfo *at = &builder->functions.items[i];
        if (text_equal(at->of.name, function.of.name) &&
            text_equal(at->of.kernel, function.of.kernel) &&
            text_equal(at->bound, function.bound)) {
            return i;
        }
    }
    function.options = *options;
    ARENA_PUSH(&builder->work->arena, &builder->functions, function);
    return builder->functions.n - 1;
}

static const TesseraParam *copy_params(Arena *arena, const TesseraSignature *from,
                                       BundleFunctionInfo *to)
{
    to->n_params = from->n_params;
    to->params = ARENA_ARRAY(arena, TesseraParam, from->n_params);
    for (size_t i = 0; i < from->n_params; i++) {
        TesseraParam *param = &to->params[i];
        *param = from->params[i];
        const char **dims = ARENA_ARRAY(arena, const char *, param->rank > 0 ? param->rank : 1);
        for (int axis = 0; axis < param->rank; axis++) {
            dims[axis] = arena_strdup(arena, param->dims[axis]);
        }
        param->name = arena_strdup(arena, param->name);
        param->type = arena_strdup(arena, param->type);
        param->dims = dims;
    }
    return to->params;
}

/* Describes a function by the first kernel that is compiled for it. */
static void fill_function(BundleBuilder *builder, BundleFunctionInfo *function)
{
    Arena *arena = &builder->work->arena;
    const TesseraSignature *signature = &builder->kernel->signature;
    if (function->args) {
        return;
    }
    copy_params(arena, signature, function);
    function->of.sizes = ARENA_ARRAY(arena, const char *, signature->n_sizes);
    for (size_t i = 0; i < signature->n_sizes; i++) {
        if (!tessera_kernel_follows(builder->kernel, i)) {
            function->of.sizes[function->of.n_sizes++] = arena_strdup(arena, signature->sizes[i]);
        }
    }
    bundle_name_args(builder, function);
    size_t n = function->n_params + (size_t)function->of.n_sizes;
    BundleArg *args = ARENA_ARRAY(arena, BundleArg, n);
    for (size_t i = 0; i < n; i++) {
        bool size = i >= function->n_params;
        const TesseraParam *param = size ? NULL : &function->params[i];
        if (size) {
            args[i].kind = BUNDLE_SIZE;
        } else if (param->rank < 0) {
            args[i].kind = BUNDLE_SCALAR;
        } else {
            args[i].kind = BUNDLE_TENSOR;
        }
        if (!size) {
            dtype_from_name(param->type, strlen(param->type), &args[i].dtype);
        }
    }
    const char *symbol = arena_printf(arena, "%s_%s", builder->name, function->of.name);
    function->launcher = (BundleLauncher){symbol, n, args};
}

/* ---- code ---- */

typedef struct EmitTask {
    TesseraKernel *kernel;
    EmitKind kind;
} EmitTask;

static bool emit_task(void *user)
{
    EmitTask *task = user;
    return compile(&task->kernel->compilation, (CompileGoal){COMPILE_CODE, task->kind, NULL});
}

static void emit_reproducer(void *user, Text *out)
{
    compilation_reproducer(&((EmitTask *)user)->kernel->compilation, out);
}

/* The forms of code of one kernel: machine code and, where later parts can load it, PTX. ptxas is
 * used only if TESSERA_PTXAS names it, so that the same input gives the same bytes everywhere. */
typedef struct Kinds {
    int n;
    struct {
        EmitKind emit;
        BundleKind kind;
    } of[2];
} Kinds;

static Kinds kinds_of(const Target *target)
{
    const char *ptxas = getenv("TESSERA_PTXAS");
    bool alone = target->name[strlen(target->name) - 1] == 'a'; /* sm_90a */
    switch (target->family) {
    case FAMILY_CPU: return (Kinds){1, {{EMIT_OBJ, BUNDLE_HOST}}};
    case FAMILY_AMDGCN: return (Kinds){1, {{EMIT_HSACO, BUNDLE_OBJECT}}};
    case FAMILY_NVPTX: break;
    }
    if (!ptxas || !*ptxas) {
        return (Kinds){1, {{EMIT_PTX, BUNDLE_PTX}}};
    }
    return (Kinds){alone ? 1 : 2, {{EMIT_CUBIN, BUNDLE_OBJECT}, {EMIT_PTX, BUNDLE_PTX}}};
}

static void keep_code(BundleBuilder *builder, const EmitTask *emitted, BundleVariant *variant)
{
    Arena *arena = &builder->work->arena;
    const Code *from = &emitted->kernel->compilation.code;
    Code code = {arena_copy(arena, from->bytes, from->n), from->n};
    variant->first = (int)builder->symbols.n;
    if (variant->kind != BUNDLE_HOST) {
        variant->code = code.bytes;
        variant->n = code.n;
        return;
    }
    for (int i = 0; i < variant->plan.n_launches; i++) {
        ARENA_PUSH(arena, &builder->symbols, variant->plan.launches[i].symbol);
    }
    ARENA_PUSH(arena, &builder->objects, code);
}

static bool same_strides(const Plan *a, const Plan *b)
{
    bool same = true;
    for (int i = 0; i < a->n_params; i++) {
        same = same && !a->params[i].strides == !b->params[i].strides &&
               a->params[i].align == b->params[i].align;
    }
    return same;
}

/* True if a variant for the same launches exists already. */
static bool is_there(const BundleBuilder *builder, const BundleVariant *variant)
{
    for (size_t i = 0; i < builder->variants.n; i++) {
        const BundleVariant *other = &builder->variants.items[i];
        if (other->function == variant->function && other->kind == variant->kind &&
            text_equal(other->target, variant->target) &&
            text_equal(other->about, variant->about) &&
            same_strides(&other->plan, &variant->plan)) {
            return true;
        }
    }
    return false;
}

static bool add_kind(BundleBuilder *builder, BundleVariant variant, EmitKind emit, bool fallback)
{
    Arena *arena = &builder->work->arena;
    TesseraKernel *kernel = builder->kernel;
    EmitTask task = {.kernel = kernel, .kind = emit};
    builder->status = error_boundary_run(&kernel->work, emit_task, emit_reproducer, &task);
    if (builder->status != TESSERA_OK) {
        return false;
    }
    /* The plan is copied from the memory of the kernel to that of the bundle. */
    Text bytes = text_new(arena);
    plan_to_bytes(&task.kernel->compilation.plan, &bytes);
    plan_from_bytes(arena, bytes.data, bytes.n, &variant.plan);
    variant.about = plan_facts(arena, &variant.plan, usual_align(kernel->compilation.target));
    if (!fallback || !is_there(builder, &variant)) {
        keep_code(builder, &task, &variant);
        ARENA_PUSH(arena, &builder->variants, variant);
    }
    return true;
}

bool bundle_add_code(BundleBuilder *builder, size_t function, bool fallback)
{
    TesseraKernel *kernel = builder->kernel;
    const Target *target = kernel->compilation.target;
    BundleFunctionInfo *of = &builder->functions.items[function];
    fill_function(builder, of);
    bundle_keep_warnings(builder);
    if (target->family == FAMILY_CPU) {
        kernel->compilation.func->symbol =
            arena_printf(&kernel->work.arena, "%s_v%zu", of->launcher.symbol, builder->variants.n);
    }
    /* The folder of the sources is not in the code: file names begin below it. */
    Compilation *c = &kernel->compilation;
    const char *slash = strrchr(c->name, '/');
    size_t n = slash ? (size_t)(slash + 1 - c->name) : 0;
    Diags *diags = &kernel->work.diags;
    for (size_t i = 0; n && i < diags->sources.n; i++) {
        Source *source = &diags->sources.items[i];
        source->name += strncmp(source->name, c->name, n) == 0 ? n : 0;
    }
    c->name += n;
    Kinds kinds = kinds_of(target);
    bool good = true;
    for (int i = 0; i < kinds.n && good; i++) {
        BundleVariant variant = {
            .function = (int)function, .target = target->name, .kind = kinds.of[i].kind};
        good = add_kind(builder, variant, kinds.of[i].emit, fallback);
    }
    return good;
}

/* ---- variants ---- */

static bool add_variant(BundleBuilder *builder, size_t function, const TesseraOptions *options,
                        const char *target, bool fallback)
{
    CompilerState *compiler = builder->work->context->compiler;
    TesseraOptions with = *options;
    with.target = target;
    compiler->bundle_variant = arena_printf(&builder->work->arena, "%s for %s%s",
                                            builder->functions.items[function].of.name, target,
                                            fallback ? ", for any size" : "");
    builder->status = tessera_compile(builder->program, &with, &builder->kernel);
    bool good = builder->status == TESSERA_OK && bundle_add_code(builder, function, fallback);
    tessera_kernel_free(builder->kernel);
    builder->kernel = NULL;
    compiler->bundle_variant = NULL;
    return good;
}

/* True if no variant of the function fixes a size or states a fact about one. */
static bool are_of_any_size(BundleBuilder *builder, size_t function,
                            const TesseraSignature *signature, const TesseraOptions *variants,
                            size_t n)
{
    for (size_t v = 0; v < n; v++) {
        bool sized = variants[v].n_sizes > 0 || variants[v].n_facts > builder->options->n_facts;
        if (function_of(builder, signature, &variants[v]) == function && sized) {
            return false;
        }
    }
    return true;
}

/* Adds the code of a function for each target: first the tuned variants, last the fallback. */
static bool add_function(BundleBuilder *builder, size_t function, const TesseraSignature *signature,
                         const TesseraOptions *variants, size_t n)
{
    const TesseraBundleOptions *options = builder->options;
    TesseraOptions any =
        bundle_any_size(builder, signature, &builder->functions.items[function].options);
    bool sizes_open = are_of_any_size(builder, function, signature, variants, n);
    for (size_t t = 0; t < options->n_targets; t++) {
        if (sizes_open && !bundle_add_pinned(builder, function, &any, options->targets[t])) {
            return false;
        }
        for (size_t v = 0; v < n; v++) {
            if (function_of(builder, signature, &variants[v]) == function &&
                !add_variant(builder, function, &variants[v], options->targets[t], false)) {
                return false;
            }
        }
        if (!add_variant(builder, function, &any, options->targets[t], true)) {
            return false;
        }
    }
    return true;
}

static bool add_kernel(BundleBuilder *builder, const TesseraSignature *signature)
{
    static const TesseraOptions nothing = {0};
    const TesseraBundleOptions *options = builder->options;
    TesseraOptions *variants =
        ARENA_ARRAY(&builder->work->arena, TesseraOptions, options->n_variants + 1);
    size_t first = builder->functions.n, n = 0;
    for (size_t i = 0; i < options->n_variants; i++) {
        if (bundle_is_for(builder, signature, &options->variants[i])) {
            variants[n++] = bundle_variant_of(builder, signature, &options->variants[i]);
        }
    }
    if (n == 0) {
        variants[n++] = bundle_variant_of(builder, signature, &nothing);
    }
    for (size_t i = 0; i < n; i++) {
        function_of(builder, signature, &variants[i]);
    }
    for (size_t i = first, end = builder->functions.n; i < end; i++) {
        if (!add_function(builder, i, signature, variants, n)) {
            return false;
        }
    }
    return true;
}

static bool write_object(BundleBuilder *builder, TesseraBundled *bundled)
{
    Arena *arena = &builder->work->arena;
    size_t n = builder->functions.n;
    BundleFunction *functions = ARENA_ARRAY(arena, BundleFunction, n);
    BundleLauncher *launchers = ARENA_ARRAY(arena, BundleLauncher, n);
    for (size_t i = 0; i < n; i++) {
        functions[i] = builder->functions.items[i].of;
        launchers[i] = builder->functions.items[i].launcher;
    }
    BundleTable table = {builder->name, (int)n, functions, (int)builder->variants.n,
                         builder->variants.items};
    BundleObject object = {
        builder->name,          TESSERA_VERSION,         text_new(arena), n,
        builder->symbols.n,     builder->objects.n,      launchers,       builder->symbols.items,
        builder->objects.items, builder->options->shared};
    Code code;
    bundle_to_bytes(&table, &object.bytes);
    const CodegenTable *codegen = codegen_open(arena, &builder->work->diags);
    if (!codegen || !codegen->bundle(arena, &builder->work->diags, &object, &code)) {
        return false;
    }
    bundled->object = (TesseraBytes){code.bytes, code.n};
    return true;
}

typedef struct BundleTask {
    BundleBuilder builder;
    const TesseraSignature *only; /* of options->kernel; NULL: all of the program */
    TesseraBundled *bundled;
} BundleTask;

/* True also if builder->status is an error, which has been reported already. */
static bool bundle_task(void *user)
{
    BundleTask *task = user;
    BundleBuilder *builder = &task->builder;
    TesseraProgram *program = builder->program;
    for (size_t i = 0; i < (task->only ? 1 : program->signatures.n); i++) {
        if (!add_kernel(builder, task->only ? task->only : &program->signatures.items[i])) {
            return true;
        }
    }
    const char *twice = bundle_name_twice(builder);
    if (twice) {
        diag_failure(&builder->work->diags, DIAG_USAGE, "two functions would be called %s_%s",
                     builder->name, twice);
        return false;
    }
    Text header = text_new(&builder->work->arena);
    if (!write_object(builder, task->bundled)) {
        return false;
    }
    bundle_header(builder, &header);
    bundle_tell_warnings(builder);
    task->bundled->header = (TesseraBytes){header.data, header.n};
    return true;
}

/* ---- checks of the options ---- */

static TesseraStatus check_targets(TesseraContext *context, const TesseraBundleOptions *options)
{
    for (size_t i = 0; i < options->n_targets; i++) {
        const char *target = options->targets[i];
        if (!target) {
            return context_usage(context, "a target is NULL");
        }
        for (size_t j = 0; j < i; j++) {
            size_t n = strcspn(target, "@"), other = strcspn(options->targets[j], "@");
            if (n == other && strncmp(options->targets[j], target, n) == 0) {
                return context_usage(context, "target %.*s is given twice", (int)(n < 60 ? n : 60),
                                     target);
            }
        }
        if (text_equal(target, "native")) {
            return context_usage(context, "native is whatever this machine is: name x86-64-v3, "
                                          "x86-64-v4, or both, of which the best is taken");
        }
    }
    return options->n_targets ? TESSERA_OK
                              : context_usage(context, "a bundle needs the names of its targets");
}

/* signature: of options->kernel, or NULL. */
static TesseraStatus check_options(const TesseraProgram *program,
                                   const TesseraBundleOptions *options,
                                   const TesseraSignature **signature)
{
    TesseraContext *context = program->work.context;
    bool lists = (options->targets || options->n_targets == 0) &&
                 (options->variants || options->n_variants == 0) &&
                 (options->facts || options->n_facts == 0) &&
                 (options->bindings || options->n_bindings == 0);
    if (!lists || !options->name) {
        return context_usage(context, "%s is NULL", lists ? "options.name" : "a list of options");
    }
    /* A bundle's name begins the names of its C functions. */
    const char *name = options->name;
    bool good = is_word(*name) && !(*name >= '0' && *name <= '9');
    for (const char *at = name; *at; at++) {
        good = good && is_word(*at);
    }
    TesseraStatus status =
        good ? TESSERA_OK
             : context_usage(context, "'%.60s' is no name that one can have in C", name);
    status = status == TESSERA_OK ? check_targets(context, options) : status;
    if (status == TESSERA_OK && (options->kernel || program->signatures.n == 0)) {
        status = tessera_program_find(program, options->kernel, signature);
    }
    TesseraOptions common = {.bindings = options->bindings,
                             .n_bindings = options->n_bindings,
                             .facts = options->facts,
                             .n_facts = options->n_facts};
    const char *missing = status == TESSERA_OK ? options_null(&common) : NULL;
    status = missing ? context_usage(context, "%s is NULL", missing) : status;
    for (size_t i = 0; i < options->n_variants && status == TESSERA_OK; i++) {
        const char *null = options_null(&options->variants[i]);
        status = null ? context_usage(context, "%s is NULL", null) : TESSERA_OK;
    }
    return status;
}

TesseraStatus tessera_bundle(TesseraProgram *program, const TesseraBundleOptions *options,
                             TesseraBundled **out)
{
    TesseraContext *context = program ? program->work.context : NULL;
    const char *null = NULL_ARGUMENT({program, "program"}, {options, "options"}, {out, "bundled"});
    if (out) {
        *out = NULL;
    }
    REFUSE_FREED(program);
    if (null) {
        return context_null(context, __func__, null);
    }
    const TesseraSignature *only = NULL;
    TesseraStatus status = check_options(program, options, &only);
    TesseraBundled *bundled = status == TESSERA_OK ? handle_take(context, sizeof *bundled) : NULL;
    if (!bundled) {
        return status == TESSERA_OK ? TESSERA_ENVIRONMENT : status;
    }
    work_init(&bundled->work, context);
    BundleTask task = {
        {.work = &bundled->work, .program = program, .options = options, .name = options->name},
        only,
        bundled};
    status = error_boundary_run(&bundled->work, bundle_task, NULL, &task);
    tessera_kernel_free(task.builder.kernel);
    context->compiler->bundle_variant = NULL;
    status = status == TESSERA_OK ? task.builder.status : status;
    if (status != TESSERA_OK) {
        tessera_bundled_free(bundled);
        return status;
    }
    *out = bundled;
    return TESSERA_OK;
}

void tessera_bundled_free(TesseraBundled *bundled)
{
    ANSWER_FREED(bundled, );
    if (bundled) {
        TesseraContext *context = bundled->work.context;
        work_free(&bundled->work);
        handle_drop(context, &bundled->handle);
    }
}

const TesseraBytes *tessera_bundled_header(const TesseraBundled *bundled)
{
    ANSWER_FREED(bundled, NULL);
    return bundled ? &bundled->header : NULL;
}

const TesseraBytes *tessera_bundled_object(const TesseraBundled *bundled)
{
    ANSWER_FREED(bundled, NULL);
    return bundled ? &bundled->object : NULL;
}
