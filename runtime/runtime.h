/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this room share: the objects behind the public handles, and the guards. */
#ifndef TESSERA_RUNTIME_RUNTIME_H
#define TESSERA_RUNTIME_RUNTIME_H

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/schedule.h"
#include "ir/target.h"
#include "passes/pass.h"
#include "runtime/debug.h"
#include "runtime/launch/context.h"
#include "runtime/pins.h"

#include <stdatomic.h>
#include <tessera/tessera.h>

enum { MOST_SOURCE_MIB = 64, MOST_SOURCE = MOST_SOURCE_MIB << 20 };

/* What a context of libtessera has besides. Its texts are from the allocator; NULL: none. */
typedef struct Compiler {
    char *warnings, *formatted;
    Arena told; /* holds the diagnostics of the last call that had any */
    TesseraDiagnostic *diagnostics;
    size_t n_diagnostics;
    int *allowed; /* codes of warnings; from the allocator */
    DiagPolicy policy;
    TesseraDebug debug;
    TesseraTarget target; /* of the last tessera_target */
    struct Cache *cache;  /* cached.c; NULL: was not asked yet */
    char *cache_folder;   /* NULL: as the environment says */
    int64_t cache_limit;
    char *host;      /* this CPU as keys have it: asking it takes longer than a hit; or NULL */
    bool cache_only; /* nothing is compiled to machine code */
    TesseraIsolate isolate;
    double isolate_seconds;       /* 0: as normal */
    char *worker;                 /* from the allocator; NULL: it is looked for */
    char *pins;                   /* the file of pins, or "off"; NULL: beside the source */
    struct TaskGate *gate;        /* tasks.c; NULL: no task yet */
    const atomic_bool *cancelled; /* of a task's own context; NULL: nobody can */
    struct CacheListing *listing; /* of the last tessera_cache_list; NULL: none */
    struct Doctor *doctor;        /* doctor.c; NULL: was not asked */
    const char *making;           /* which of many errors are about; NULL: there is one */
} Compiler;

/* What one object was made from and with: an arena, and the diagnostics in it. */
typedef struct Work {
    TesseraContext *context;
    Arena arena;
    Diags diags;
} Work;

/* Texts that a program imports, by their path below its folder: read once (imports.c). */
typedef struct ImportedText {
    const char *path, *text;
    size_t n;
    const char *file; /* the path from where the program runs */
} ImportedText;

typedef struct Imports {
    Arena *arena;
    const char *folder; /* `.`, or ends in a slash; NULL: text that is in no file */
    struct {
        ImportedText *items;
        size_t n, cap;
    } texts;
} Imports;

/* For the front end; keeps what it reads. */
Importer imports_reader(Imports *imports);
/* The same without reading anything more. */
Importer imports_kept(Imports *imports);
/* All texts, so that a kernel needs its program no more. */
Imports *imports_copy(Arena *arena, const Imports *imports);

struct TesseraProgram {
    Handle handle;
    Work work;
    const char *name, *text;
    size_t n;
    Imports imports;
    Module *module;
    struct {
        TesseraSignature *items;
        size_t n, cap;
    } signatures;
    Work inferred; /* scratch of tessera_infer */
    Work tuning;   /* and of tessera_tuning */
};

/* One compilation: text → func, scheduled. compiler.c */
typedef struct Compilation {
    Work *work;
    const char *name, *text;
    size_t n;
    Imports *imports;
    TesseraOptions options; /* held by the arena */
    const Target *target;   /* NULL: for the interpreter, without passes */
    Func *func;
    TuneChoices choices;     /* that `tune` blocks want tried */
    int source;              /* of the work's diagnostics */
    struct Listings *record; /* the IR after each pass goes here; NULL: nowhere */
    const char *before;      /* the IR as it was last printed, for print_changed */
    bool stopped;            /* by stop_after */
    double flops;
    uint64_t visited; /* ops that were looked at until the last pass (debug_counted) */
    Pinned pinned;
} Compilation;

/* The code on one device. */
typedef struct OnDevice OnDevice;
struct OnDevice {
    OnDevice *next;
    TesseraDevice *device;
    Plan plan;
    JitCode *jit;
    Loaded loaded;
};

struct TesseraKernel {
    Handle handle;
    Work work;
    Compilation compilation;
    TesseraSignature signature;
    bool is_made; /* machine code that was made ahead */
    EmitKind made_kind;
    Code made;
    Plan made_plan;
    OnDevice *devices;
    TesseraKernel *variants; /* for sizes that became known at a launch (variants.c) */
    TesseraKernel *next;     /* of these */
    char *bucket;            /* that a variant is for; from the allocator */
    bool is_failed;          /* there is no code of it: launches take the other */
};

/* ---- errors (context.c) ---- */

TesseraStatus context_fail_diags(TesseraContext *context, TesseraStatus status, const Diags *diags,
                                 const char *rendered);
/* Copies diagnostics for tessera_diagnostics; without memory there are none (told.c). */
void context_tell(TesseraContext *context, const Diags *diags);
void context_tell_plain(TesseraContext *context, TesseraStatus status, int code,
                        const char *message);

/* ---- tasks (tasks.c) ---- */

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
                                const TesseraOptions *options, const Pinned *pinned,
                                TesseraKernel **kernel);
/* The same under the pins of a bucket, with what its sizes have in common; no other pins hold. */
TesseraStatus kernel_make_pinned(TesseraKernel *like, const char *bucket,
                                 const TesseraOptions *options, TesseraKernel **kernel);
/* Is there a file of pins at all? */
bool pins_may_be(Work *work, TesseraProgram *program, const TesseraOptions *options);
/* What the sizes of a bucket have in common, beside what the options say (variants.c). */
void options_add_bucket(Arena *arena, TesseraOptions *options, const char *bucket);
/* The kernel for a launch with these arguments: itself, or a variant under pins (variants.c). */
TesseraKernel *kernel_for(TesseraKernel *kernel, TesseraDevice *device, const TesseraArg *args);
/* Makes code, for when it is loaded; of the kind that a device of the target loads. */
TesseraStatus kernel_make_code(TesseraKernel *kernel, EmitKind kind);
EmitKind kernel_kind(const TesseraKernel *kernel);

/* ---- arguments (arguments.c) ---- */

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

/* ---- strides (strides.c) ---- */

bool tensor_is_contiguous(const TesseraTensor *tensor);
/* What options say of how tensors lie becomes their types'; false after a diagnostic. */
bool strides_give(Func *func, const TesseraOptions *options, const Target *target);

/* ---- extents (extents.c) ---- */

/* slope * unknown + rest; unknown NULL: a number. */
typedef struct Extent {
    const char *unknown;
    int64_t slope, rest;
} Extent;
/* What a name is, if that is known. */
typedef bool ExtentValue(void *user, const char *name, int64_t *value);
/* False when the text is no such line. */
bool extent_read(Arena *arena, const char *text, ExtentValue *value, void *user, Extent *extent);

void doctor_free(TesseraContext *context); /* doctor.c */

/* ---- guards (work.c) ---- */

void work_init(Work *work, TesseraContext *context);
void work_free(Work *work);
/* Calls with both guards set. False from `task`: there are diagnostics. All that can go wrong
 * becomes a status and the context's error; `reproducer` makes the text for a bug, may be NULL. */
typedef bool WorkTask(void *user);
typedef void WorkReproducer(void *user, Text *out);
TesseraStatus work_run(Work *work, WorkTask *task, WorkReproducer *reproducer, void *user);

/* ---- compiling ---- */

/* The one screen: compiler.c */
bool compile(Compilation *c);
/* What was compiled, to be compiled again with other options or to be told of. */
Compilation compilation_again(const Compilation *c);
/* The front end alone: the kernel typed, its identity known, and how its tensors lie. */
bool compilation_type(Compilation *c, Module **module, const KernelSignature **kernel);
/* Copies what options point to. */
void options_copy(Arena *arena, const TesseraOptions *from, TesseraOptions *to);
/* All floats become f64 (wide.c). */
void compilation_widen(Compilation *c);
void compilation_reproducer(void *compilation, Text *out);

CodegenOptions compilation_codegen(Compilation *c); /* kernel.c */

/* ---- the compile cache (cached.c, cache_calls.c) ---- */

/* Opened when it is first asked for; NULL: no memory. */
struct Cache *context_cache(TesseraContext *context);
void cache_free(TesseraContext *context);
/* codegen_emit, unless what it would make is there already. */
/* Which build of the compiler this is, LLVM with it; false: there is no telling. */
bool build_id(Text *out);
bool cached_emit(Compilation *c, EmitKind kind, Code *code, Plan *plan);
/* The code and its plan as one value, and back; false where it is none. */
Text code_pack(Arena *arena, const Code *code, const Plan *plan);
bool code_unpack(Arena *arena, const Text *value, Code *code, Plan *plan);
/* Makes it anew, here or in a worker. */
bool code_make(Compilation *c, EmitKind kind, Code *code, Plan *plan);
/* By a worker, if that is to be (worker.c); `done`: it was, whatever came of it. */
bool worker_emit(Compilation *c, EmitKind kind, Code *code, Plan *plan, bool *done);
/* As it may stand in the source. */
const char *schedule_block(const Compilation *c, bool reasons); /* kernel.c */
/* The IR as it is now, with the lines of the source that it comes from (explain.c). */
void compilation_record(Compilation *c, const char *pass);

/* facts.c */
bool facts_give(Func *func, const TesseraOptions *options, const Target *target);
bool lines_give(Func *func, const char *const *lines, size_t n); /* lines.c */
/* The name of a schedule among them, or NULL; false: several. */
bool lines_name(Func *func, const char *const *lines, size_t n, const char **name);
/* One that is pinned; where: for people. */
bool line_pin(Func *func, const char *line, Span span, const char *where);
void lines_warn_unused(Func *func);
double func_flops(Func *func, const TesseraOptions *options); /* flops.c */
/* Elements that all ops of a function make under these sizes, roughly; 0: not known. */
double func_work(Func *func, const TesseraSize *sizes, size_t n);
/* Values of the size variables by id, -1 where options have none. */
int64_t *sizes_by_id(Func *func, const TesseraSize *sizes, size_t n); /* shapes.c */
/* How many parameters the caller gives: all but the intermediates, which stand last. */
size_t params_given(const Func *func); /* shapes.c */
/* What follows from the sizes that are known; false after a diagnostic. */
bool sizes_derived(Func *func, int64_t *sizes); /* shapes.c */
/* From the arguments' shapes, and what these leave open from the options; false after a
 * diagnostic. */
bool sizes_from_args(Func *func, const TesseraOptions *options, const TesseraArg *args,
                     int64_t *sizes);                            /* shapes.c */
void signature_of_func(Func *func, TesseraSignature *signature); /* shapes.c */

/* Says how long a part of the compilation took, when that is wanted; `user` is a Compilation. */
void debug_took(void *user, const char *part, double seconds);
/* Likewise how often it looked at an op. */
void debug_counted(Compilation *c, const char *part);
/* Hooks that do what the context's debug settings say (debug.c). */
PassHooks debug_hooks(Compilation *c);
/* After the front end, which is no pass; false: stop. */
bool debug_after_frontend(Compilation *c);

#endif
