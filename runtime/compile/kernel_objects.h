/* SPDX-License-Identifier: Apache-2.0 */
/* Public programs and kernels: the objects behind the handles, and the functions that compile and
 * load a kernel. */
#ifndef TESSERA_RUNTIME_COMPILE_KERNEL_OBJECTS_H
#define TESSERA_RUNTIME_COMPILE_KERNEL_OBJECTS_H

#include "runtime/compile/compilation.h"
#include "runtime/launch/launch_context.h"

#include <tessera/tessera.h>

struct TesseraProgram {
    Handle handle;
    ErrorBoundary work;
    const char *name, *text;
    size_t n;
    Imports imports;
    Module *module;
    struct {
        TesseraSignature *items;
        size_t n, cap;
    } signatures;
    ErrorBoundary inferred; /* scratch of tessera_infer */
    ErrorBoundary tuning;   /* and of tessera_tuning */
};

/* The code on one device. */
typedef struct DeviceCode DeviceCode;
struct DeviceCode {
    DeviceCode *next;
    TesseraDevice *device;
    Plan plan;
    JitCode *jit;                /* of a CPU; NULL for a GPU */
    const CodegenTable *codegen; /* its functions */
    LoadedModule loaded;
    bool is_refused; /* by the driver, with this error */
    DeviceError error;
};

struct TesseraKernel {
    Handle handle;
    ErrorBoundary work;
    Compilation compilation;
    TesseraSignature signature;
    DeviceCode *devices;
    TesseraKernel *variants; /* for sizes that became known at a launch (kernel_variants.c) */
    TesseraKernel *next;     /* of these */
    char *bucket;            /* that a variant is for; from the allocator */
    bool is_failed;          /* there is no code of it: launches take the other */
};

/* As tessera_compile, of options that were checked, with another context than the program's. */
TesseraStatus kernel_make(TesseraContext *context, TesseraProgram *program,
                          const TesseraOptions *options, TesseraKernel **kernel);
/* What was made before, from the same pins. */
TesseraStatus kernel_make_again(TesseraContext *context, TesseraProgram *program,
                                const TesseraOptions *options, const PinLookup *pinned,
                                TesseraKernel **kernel);
/* The same under the pins of a bucket, with what its sizes have in common; no other pins hold. */
TesseraStatus kernel_make_pinned(TesseraKernel *like, const char *bucket,
                                 const TesseraOptions *options, TesseraKernel **kernel);
/* Is there a file of pins at all? */
bool pins_may_be(ErrorBoundary *work, TesseraProgram *program, const TesseraOptions *options);
/* What the sizes of a bucket have in common, beside what the options say (kernel_variants.c). */
void options_add_bucket(Arena *arena, TesseraOptions *options, const char *bucket);
/* The kernel for a launch with these arguments: itself, or a variant under pins
 * (kernel_variants.c). */
TesseraKernel *kernel_for(TesseraKernel *kernel, TesseraDevice *device, const TesseraArg *args);
/* Makes code, for when it is loaded; of the kind that a device of the target loads. */
TesseraStatus kernel_make_code(TesseraKernel *kernel, EmitKind kind);
EmitKind kernel_kind(const TesseraKernel *kernel);
/* Compiles the kernel for the device and loads it, unless it is loaded there already. */
TesseraStatus kernel_load(TesseraKernel *kernel, TesseraDevice *device, DeviceCode **out);

#endif
