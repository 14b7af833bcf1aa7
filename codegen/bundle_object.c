/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the object file of a bundle: the serialized table, the host's code, and one exported C
 * function per kernel that packs its arguments and calls the launcher. LLVM makes the object and
 * lld links the parts, so that ahead-of-time compilation needs no C compiler. */
#include "codegen/bundle_object.h"

#include "codegen/gpu/gpu_temp_files.h"
#include "codegen/llvm/lld_link.h"
#include "codegen/llvm/llvm.h"
#include "runtime/launch/bundle_format.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct BundleJob {
    const BundleObject *object;
    Code *code;
} BundleJob;

/* ---- data ---- */

static LLVMValueRef add_data(Llvm *l, const char *bytes, size_t n, const char *name)
{
    LLVMValueRef data = LLVMConstStringInContext2(l->context, bytes, n, true);
    LLVMValueRef global = LLVMAddGlobal(l->module, LLVMTypeOf(data), name);
    LLVMSetInitializer(global, data);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    return global;
}

/* As aligned as what lies in it (runtime/launch/bundle_serialize.c). */
static LLVMValueRef add_bytes(Llvm *l, const BundleObject *object)
{
    enum { ALIGN = 64 };
    LLVMValueRef bytes = add_data(l, object->bytes.data, object->bytes.n, "bytes");
    LLVMSetAlignment(bytes, ALIGN);
    LLVMSetSection(bytes, ".rodata.tessera");
    return bytes;
}

static LLVMValueRef add_code(Llvm *l, const BundleObject *object)
{
    LLVMTypeRef params[3] = {l->ptr, l->i64, l->i64};
    LLVMTypeRef type = LLVMFunctionType(l->nothing, params, 3, false);
    LLVMValueRef *code = ARENA_ARRAY(l->arena, LLVMValueRef, object->n_symbols + 1);
    for (size_t i = 0; i < object->n_symbols; i++) {
        code[i] = LLVMGetNamedFunction(l->module, object->symbols[i]);
        if (!code[i]) {
            code[i] = LLVMAddFunction(l->module, object->symbols[i], type);
            LLVMSetVisibility(code[i], LLVMHiddenVisibility);
        }
    }
    LLVMValueRef list = LLVMConstArray2(l->ptr, code, object->n_symbols);
    LLVMValueRef global = LLVMAddGlobal(l->module, LLVMTypeOf(list), "code");
    LLVMSetInitializer(global, list);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    return global;
}

static LLVMValueRef add_table(Llvm *l, const BundleObject *object)
{
    _Static_assert(sizeof(struct TesseraBundle) == 56, "the members that follow are these");
    LLVMValueRef members[] = {
        LLVMConstInt(l->i64, BUNDLE_MAGIC, false),
        LLVMConstInt(l->i64, BUNDLE_FORMAT, false),
        add_data(l, object->version, strlen(object->version) + 1, "version"),
        add_bytes(l, object),
        LLVMConstInt(l->i64, object->bytes.n, false),
        add_code(l, object),
        LLVMConstInt(l->i64, object->n_symbols, false),
    };
    LLVMValueRef table = LLVMConstStructInContext(l->context, members, 7, false);
    LLVMValueRef global = LLVMAddGlobal(l->module, LLVMTypeOf(table),
                                        arena_printf(l->arena, "%s_bundle", object->name));
    LLVMSetInitializer(global, table);
    LLVMSetGlobalConstant(global, true);
    return global;
}

/* ---- functions ---- */

/* As C passes it. */
static LLVMTypeRef arg_type(const Llvm *l, const BundleArg *arg)
{
    switch (arg->kind) {
    case BUNDLE_TENSOR: return l->ptr;
    case BUNDLE_SIZE: return l->i64;
    case BUNDLE_SCALAR: break;
    }
    if (arg->dtype == DT_F32 || arg->dtype == DT_F64) {
        return arg->dtype == DT_F32 ? l->f32 : l->f64;
    }
    return LLVMIntTypeInContext(l->context, 8u * (unsigned)dtype_bytes(arg->dtype));
}

static LLVMValueRef as_i64(Llvm *l, LLVMValueRef value)
{
    LLVMTypeRef type = LLVMTypeOf(value);
    if (type == l->ptr) {
        return LLVMBuildPtrToInt(l->builder, value, l->i64, "");
    }
    if (type == l->f32 || type == l->f64) {
        value = LLVMBuildBitCast(l->builder, value, type == l->f32 ? l->i32 : l->i64, "");
    }
    return LLVMTypeOf(value) == l->i64 ? value : LLVMBuildZExt(l->builder, value, l->i64, "");
}

/* All arguments but those before and after are values, which go into an array. */
static LLVMValueRef pack_values(Llvm *l, LLVMValueRef function, unsigned first, size_t n)
{
    LLVMTypeRef type = LLVMArrayType2(l->i64, n);
    LLVMValueRef values = LLVMBuildAlloca(l->builder, type, "values");
    for (size_t i = 0; i < n; i++) {
        LLVMValueRef index = LLVMConstInt(l->i64, i, false);
        LLVMValueRef at = LLVMBuildGEP2(l->builder, l->i64, values, &index, 1, "");
        LLVMValueRef value = as_i64(l, LLVMGetParam(function, first + (unsigned)i));
        LLVMBuildStore(l->builder, value, at);
    }
    return values;
}

static void call_runtime(Llvm *l, const char *name, const LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef types[8];
    for (unsigned i = 0; i < n; i++) {
        types[i] = LLVMTypeOf(args[i]);
    }
    LLVMTypeRef type = LLVMFunctionType(l->i32, types, n, false);
    LLVMValueRef function = LLVMGetNamedFunction(l->module, name);
    function = function ? function : LLVMAddFunction(l->module, name, type);
    LLVMValueRef status =
        LLVMBuildCall2(l->builder, type, function, (LLVMValueRef *)(uintptr_t)args, n, "");
    LLVMBuildRet(l->builder, status);
}

static LLVMValueRef begin_function(Llvm *l, const char *symbol, LLVMTypeRef *types, unsigned n)
{
    LLVMTypeRef type = LLVMFunctionType(l->i32, types, n, false);
    LLVMValueRef function = LLVMAddFunction(l->module, symbol, type);
    llvm_attribute(l, function, "nounwind");
    LLVMPositionBuilderAtEnd(l->builder, llvm_block(l, function, "entry"));
    return function;
}

/* f(device, stream, values…) and f_prepare(device, values…, launch). */
static void add_launcher(Llvm *l, LLVMValueRef table, const BundleLauncher *launcher, size_t index)
{
    unsigned n = (unsigned)launcher->n_args;
    LLVMTypeRef *types = ARENA_ARRAY(l->arena, LLVMTypeRef, n + 2);
    LLVMValueRef which = LLVMConstInt(l->i64, index, false), many = LLVMConstInt(l->i64, n, false);
    types[0] = types[1] = l->ptr;
    for (unsigned i = 0; i < n; i++) {
        types[i + 2] = arg_type(l, &launcher->args[i]);
    }
    LLVMValueRef f = begin_function(l, launcher->symbol, types, n + 2);
    LLVMValueRef launch[] = {
        table, which, LLVMGetParam(f, 0), LLVMGetParam(f, 1), pack_values(l, f, 2, n), many};
    call_runtime(l, "tessera_bundle_launch", launch, 6);
    memmove(&types[1], &types[2], n * sizeof *types);
    types[n + 1] = l->ptr;
    f = begin_function(l, arena_printf(l->arena, "%s_prepare", launcher->symbol), types, n + 2);
    LLVMValueRef ready[] = {
        table, which, LLVMGetParam(f, 0), pack_values(l, f, 1, n), many, LLVMGetParam(f, n + 1)};
    call_runtime(l, "tessera_bundle_ready", ready, 6);
}

static bool bundle_body(Llvm *l, void *user)
{
    const BundleJob *job = user;
    LLVMValueRef table = add_table(l, job->object);
    for (size_t i = 0; i < job->object->n_launchers; i++) {
        add_launcher(l, table, &job->object->launchers[i], i);
    }
    llvm_verify(l);
    llvm_emit(l, LLVMObjectFile, job->code);
    return true;
}

/* ---- linking ---- */

typedef struct Linking {
    Func *func;
    const BundleObject *object;
    const char *folder;
    const char **line; /* of the linker; its last are the inputs */
    size_t n, inputs;
} Linking;

static void add_word(Linking *linking, const char *word)
{
    linking->line[linking->n++] = word;
}

static bool add_input(Linking *linking, const Code *code)
{
    const char *name = arena_printf(linking->func->arena, "%zu.o", linking->inputs++);
    const char *path = gpu_file(linking->func, linking->folder, name);
    add_word(linking, path);
    return gpu_file_write(linking->func, path, code);
}

static bool link_inputs(Linking *linking, const Code *own, Code *code)
{
    enum { MAX_WORDS = 2048 };
    Func *func = linking->func;
    const BundleObject *object = linking->object;
    char *problem = arena_alloc(func->arena, MAX_WORDS);
    const char *out = gpu_file(func, linking->folder, GPU_FILE_OUT);
    add_word(linking, object->shared ? "-shared" : "-r");
    add_word(linking, "--discard-locals");
    add_word(linking, "-o");
    add_word(linking, out);
    bool good = add_input(linking, own);
    for (size_t i = 0; good && i < object->n_objects; i++) {
        good = add_input(linking, &object->objects[i]);
    }
    if (good && (!lld_link(linking->line, linking->n, problem, MAX_WORDS) ||
                 !gpu_file_read(func, out, code))) {
        diag_failure(func->diags, DIAG_INTERNAL, "%s does not link: %s", object->name, problem);
        good = false;
    }
    return good;
}

bool codegen_bundle(Arena *arena, Diags *diags, const BundleObject *object, Code *code)
{
    enum { OTHER_WORDS = 8 };
    /* The functions are for any part of the family. */
    Target target = *target_find("x86-64-v3");
    target.name = target.cpu = "x86-64";
    Func *func = func_new(arena, diags, object->name);
    func->target = &target;
    const CodegenOptions options = {.optimize = 2};
    LlvmOptions llvm = {&options, false, NULL};
    Code own;
    BundleJob job = {object, &own};
    if (!llvm_run(func, &llvm, bundle_body, &job)) {
        return false;
    }
    Linking linking = {.func = func, .object = object, .folder = gpu_folder(func)};
    linking.line = ARENA_ARRAY(arena, const char *, object->n_objects + OTHER_WORDS);
    if (!linking.folder) {
        return false;
    }
    bool good = link_inputs(&linking, &own, code);
    for (size_t i = linking.n - linking.inputs; i < linking.n; i++) {
        unlink(linking.line[i]);
    }
    gpu_folder_remove(linking.func, linking.folder);
    return good;
}
