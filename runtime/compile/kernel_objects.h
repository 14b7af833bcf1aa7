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
    struct {
        TesseraSignature **items;
        size_t n, cap;
    } derived; /* of the derivatives that were asked for by name, `vjp(f)` */
    ErrorBoundary inferred; /* results of tessera_infer */
    ErrorBoundary tuning;   /* results of tessera_tuning */
};

/* A kernel's code on one device. */
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
    TesseraKernel *next;     /* the next variant */
    char *bucket;            /* the size bucket of a variant; from the allocator */
    bool is_failed;          /* the variant does not compile: launches use the code for any size */
};

/* As tessera_compile, for options that were checked, and in another context than the program's. */
TesseraStatus kernel_make(TesseraContext *context, TesseraProgram *program,
                          const TesseraOptions *options, TesseraKernel **kernel);
/* Compiles the kernel again with the given pins instead of looking for a pin file. */
TesseraStatus kernel_remake(TesseraContext *context, TesseraProgram *program,
                            const TesseraOptions *options, const PinLookup *pinned,
                            TesseraKernel **kernel);
/* tessera_kernel_vjp. */
TesseraStatus kernel_make_vjp(TesseraKernel *of, const char *const *by, size_t n_by,
                              TesseraKernel **out);
/* Compiles a variant for a size bucket: with the pins of that bucket only, and with the facts that
 * all its sizes share. */
TesseraStatus kernel_make_pinned(TesseraKernel *like, const char *bucket,
                                 const TesseraOptions *options, TesseraKernel **kernel);
/* Is there a file of pins at all? */
bool pins_may_be(ErrorBoundary *work, TesseraProgram *program, const TesseraOptions *options);
/* Adds the facts that all sizes of a bucket share to those of the options (kernel_variants.c). */
void options_add_bucket(Arena *arena, TesseraOptions *options, const char *bucket);
/* The kernel for a launch with these arguments: itself, or a variant under pins
 * (kernel_variants.c). */
TesseraKernel *kernel_for(TesseraKernel *kernel, TesseraDevice *device, const TesseraArg *args);
/* Generates code ahead of loading. */
TesseraStatus kernel_make_code(TesseraKernel *kernel, EmitKind kind);
/* The kind of code that a device of the target loads. */
EmitKind kernel_kind(const TesseraKernel *kernel);
/* Compiles the kernel for the device and loads it, unless it is loaded there already. */
TesseraStatus kernel_load(TesseraKernel *kernel, TesseraDevice *device, DeviceCode **out);

#endif
