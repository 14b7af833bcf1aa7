/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles a kernel a second time if it spills registers. LLVM's scheduler overlaps many slow
 * instructions (integer products, loads) and may end with more live values than there are
 * registers; the rest goes to scratch memory, which is slow global memory. The same kernel
 * scheduled for minimal register use mostly fits. The metadata of the kernel tells how much
 * scratch memory it took. */
#define _GNU_SOURCE
#include "codegen/amdgcn/amdgcn_reschedule.h"

#include <stdlib.h>
#include <string.h>

typedef struct Metadata {
    const char *at, *end;
    bool is_text; /* YAML; else MessagePack */
} Metadata;

/* The value of the next `key`; its end, or NULL. */
static const char *value_of(const Metadata *data, const char *from, const char *key)
{
    size_t n = strlen(key);
    const char *found = memmem(from, (size_t)(data->end - from), key, n);
    return found ? found + n : NULL;
}

/* Bytes of a MessagePack integer behind its first one, which has a small number itself. */
static int bytes_behind(unsigned char first)
{
    switch (first) {
    case 0xcc: return 1;
    case 0xcd: return 2;
    case 0xce: return 4;
    default: return 0;
    }
}

static long number_at(const Metadata *data, const char *at)
{
    const unsigned char *bytes = (const unsigned char *)at;
    if (data->is_text) {
        return strtol(at + strspn(at, ": "), NULL, 10);
    }
    int n = bytes_behind(bytes[0]);
    long value = n ? 0 : bytes[0];
    for (int i = 1; i <= n; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

static const char *name_at(const Metadata *data, const char *at, Arena *arena)
{
    if (data->is_text) {
        at += strspn(at, ": ");
        return arena_strndup(arena, at, strcspn(at, "\n"));
    }
    const unsigned char *bytes = (const unsigned char *)at;
    bool is_short = bytes[0] >= 0xa0 && bytes[0] < 0xc0;
    return arena_strndup(arena, at + (is_short ? 1 : 2), is_short ? bytes[0] & 31 : bytes[1]);
}

/* All kernels' scratch memory. `module`: those that have any are to be scheduled for few registers;
 * may be NULL. */
static long scratch_of(GpuEmitter *em, const Code *code, bool is_text, LLVMModuleRef module)
{
    static const char strategy[] = "amdgpu-sched-strategy", few[] = "iterative-minreg";
    static const char size[] = ".private_segment_fixed_size";
    Metadata data = {code->bytes, code->bytes + code->n, is_text};
    long sum = 0;
    for (const char *at = data.at, *to; (to = value_of(&data, at, size)); at = to) {
        long bytes = number_at(&data, to);
        const char *name = NULL;
        for (const char *next = at; (next = value_of(&data, next, ".name")) && next < to;) {
            name = next; /* the last one: arguments have names, too */
        }
        LLVMValueRef kernel = name && module && bytes > 0
                                  ? LLVMGetNamedFunction(module, name_at(&data, name, em->arena))
                                  : NULL;
        if (kernel) {
            LLVMAddAttributeAtIndex(kernel, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                                    LLVMCreateStringAttribute(em->context, strategy,
                                                              sizeof strategy - 1, few,
                                                              sizeof few - 1));
        }
        sum += bytes;
    }
    return sum;
}

/* More than the scheduler's doing is not undone by it, and takes LLVM long. */
enum { MAX_SCRATCH = 1024 };

void amdgcn_emit_module(GpuEmitter *em, LLVMCodeGenFileType type, Code *code)
{
    Llvm *l = em->l;
    bool is_text = type == LLVMAssemblyFile;
    if (em->options->optimize == 0) {
        llvm_emit(l, type, code);
        return;
    }
    l->spare = LLVMCloneModule(l->module); /* emitting changes it */
    llvm_emit(l, type, code);
    long scratch = scratch_of(em, code, is_text, l->spare);
    if (scratch > 0 && scratch <= MAX_SCRATCH) {
        Code rescheduled;
        LLVMModuleRef spare = l->spare;
        l->spare = l->module;
        l->module = spare;
        llvm_emit(l, type, &rescheduled);
        *code = scratch_of(em, &rescheduled, is_text, NULL) < scratch ? rescheduled : *code;
    }
}
