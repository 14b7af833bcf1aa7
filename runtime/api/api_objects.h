/* SPDX-License-Identifier: Apache-2.0 */
/* The objects behind the public handles, and declarations that the files of the API share. */
#ifndef TESSERA_RUNTIME_API_API_OBJECTS_H
#define TESSERA_RUNTIME_API_API_OBJECTS_H

#include "runtime/api/api_debug.h"
#include "runtime/api/error_boundary.h"
#include "runtime/compile/compilation.h"
#include "runtime/launch/launch_context.h"

#include <stdatomic.h>
#include <tessera/tessera.h>

enum { MAX_SOURCE_MIB = 64, MAX_SOURCE = MAX_SOURCE_MIB << 20 };

/* What a context of libtessera has besides. Its texts are from the allocator; NULL: none. */
typedef struct CompilerState {
    char *warnings, *formatted;
    Arena told; /* holds the diagnostics of the last call that had any */
    TesseraDiagnostic *diagnostics;
    size_t n_diagnostics;
    int *allowed; /* codes of warnings; from the allocator */
    DiagPolicy policy;
    TesseraDebug debug;
    TesseraTarget target; /* of the last tessera_target */
    struct Cache *cache;  /* cached_codegen.c; NULL: was not asked yet */
    char *cache_folder;   /* NULL: as the environment says */
    int64_t cache_limit;
    char *host;      /* this CPU as keys have it: asking it takes longer than a hit; or NULL */
    bool cache_only; /* nothing is compiled to machine code */
    TesseraIsolate isolate;
    double isolate_seconds;       /* 0: as normal */
    char *worker;                 /* from the allocator; NULL: it is looked for */
    char *pins;                   /* the file of pins, or "off"; NULL: beside the source */
    struct TaskGate *gate;        /* api_tasks.c; NULL: no task yet */
    const atomic_bool *cancelled; /* of a task's own context; NULL: nobody can */
    struct CacheListing *listing; /* of the last tessera_cache_list; NULL: none */
    struct Doctor *doctor;        /* api_doctor.c; NULL: was not asked */
    const char *making;           /* which of many errors are about; NULL: there is one */
} CompilerState;

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

/* ---- errors (api_context.c) ---- */

TesseraStatus context_fail_diags(TesseraContext *context, TesseraStatus status, const Diags *diags,
                                 const char *rendered);
/* Copies diagnostics for tessera_diagnostics; without memory there are none (api_diagnostics.c). */
void context_store_diagnostics(TesseraContext *context, const Diags *diags);
void context_tell_plain(TesseraContext *context, TesseraStatus status, int code,
                        const char *message);

/* ---- tasks (api_tasks.c) ---- */

typedef struct TaskGate TaskGate;
void tasks_free(TesseraContext *context);
/* What the task's context takes of the caller's, and, when it is done, the caller's of it: what
 * went wrong, and warnings. */
TesseraStatus context_like(TesseraContext *context, const TesseraContext *from);
void context_take_over(TesseraContext *context, TesseraContext *from);
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

/* ---- arguments (api_arguments.c) ---- */

bool signature_has_size(const TesseraSignature *signature, const char *name);
TesseraStatus args_check(TesseraContext *context, const TesseraSignature *signature,
                         const TesseraArg *args, size_t n);
/* What of the options is NULL and may not be; NULL: nothing. */
const char *options_null(const TesseraOptions *options);
/* Finds the kernel, too. */
TesseraStatus options_check(const TesseraProgram *program, const TesseraOptions *options,
                            const TesseraSignature **signature);
/* The same, and that there is a target. */
TesseraStatus options_suit_compiling(const TesseraProgram *program, const TesseraOptions *options,
                                     const TesseraSignature **signature);

void doctor_free(TesseraContext *context); /* api_doctor.c */

#endif
