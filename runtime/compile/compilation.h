/* SPDX-License-Identifier: Apache-2.0 */
/* The state of one compilation, and the functions that operate on it. */
#ifndef TESSERA_RUNTIME_COMPILE_COMPILATION_H
#define TESSERA_RUNTIME_COMPILE_COMPILATION_H

#include "frontend/frontend.h"
#include "ir/schedule.h"
#include "ir/target/target.h"
#include "passes/pass.h"
#include "runtime/context/error_boundary.h"
#include "runtime/cache/code_cache.h"
#include "runtime/codegen_loader/codegen_loader.h"
#include "runtime/compile/pin_lookup.h"
#include "runtime/device/device.h"

#include <tessera/tessera.h>

/* The text of an imported module, by its path below the program's folder. Each is read once
 * (import_reader.c). */
typedef struct ImportedText {
    const char *path, *text;
    size_t n;
    const char *file; /* the path from the working directory */
} ImportedText;

typedef struct Imports {
    Arena *arena;
    const char *folder; /* `.`, or ends in a slash; NULL: the program is in no file */
    struct {
        ImportedText *items;
        size_t n, cap;
    } texts;
} Imports;

/* Reads files for the front end, and keeps their texts. */
Importer imports_reader(Imports *imports);
/* Gives the texts that were kept and reads no file. */
Importer imports_kept(Imports *imports);
/* Copies all texts, so that a kernel does not need its program. */
Imports *imports_copy(Arena *arena, const Imports *imports);

/* One compilation: text → func, scheduled → machine code (compile.c). */
typedef struct Compilation {
    ErrorBoundary *work;
    const char *name, *text;
    size_t n;
    Imports *imports;
    TesseraOptions options; /* in the arena of `work` */
    const Target *target;   /* NULL: no passes run, and the interpreter executes tensor IR */
    Func *func;
    PassHooks hooks;         /* of its passes */
    TileRetry *retry;        /* the function before `tile`; NULL: no pass has run */
    TuneChoices choices;     /* candidates that `tune` blocks list */
    int source;              /* its number among the sources of the diagnostics */
    struct Listings *record; /* receives the IR after each pass; NULL: it is not wanted */
    const char *sorted;      /* a parameter that is taken to be in order, whatever the text says */
    struct NestSource *nest; /* receives the launches as source; NULL: they are not wanted */
    const char *before;      /* the IR as it was last printed, for print_changed */
    bool stopped;            /* the passes ended early: stop_after, or a cancelled task */
    double flops;
    uint64_t visited; /* ops visited up to the last pass (debug_report_phase) */
    PinLookup pinned;
    /* The machine code and its launch plan, once they are made. */
    bool has_code;
    EmitKind code_kind;
    Code code;
    Plan plan;
} Compilation;

/* How far compile() is to go. */
typedef enum CompileLevel { COMPILE_IR, COMPILE_CODE, COMPILE_LOAD } CompileLevel;
typedef struct CompileGoal {
    CompileLevel level;
    EmitKind kind;             /* of the machine code; from COMPILE_CODE on */
    struct DeviceCode *module; /* for COMPILE_LOAD: names its device, and is filled */
} CompileGoal;

/* ---- strides (tensor_strides.c) ---- */

bool tensor_is_contiguous(const TesseraTensor *tensor);
/* Gives the types of parameters the strides that options state; false after a diagnostic. */
bool strides_apply(Func *func, const TesseraOptions *options, const Target *target);

/* ---- extents (extent_solve.c) ---- */

/* slope * unknown + rest; unknown NULL: the extent is a number. */
typedef struct Extent {
    const char *unknown;
    int64_t slope, rest;
} Extent;
/* The value of a name; false: it is not known. */
typedef bool ExtentValue(void *user, const char *name, int64_t *value);
/* False: the text is not linear in one unknown. */
bool extent_read(Arena *arena, const char *text, ExtentValue *value, void *user, Extent *extent);

/* ---- what code assumes (plan_facts.c) ---- */

/* "N % 8 == 0, x with strides", or "any size". usual: what addresses are multiples of. */
const char *plan_facts(Arena *arena, const Plan *plan, int usual);
/* Of addresses of which nothing is said: what a target's code asks for as a rule. */
int usual_align(const Target *target);

/* ---- compiling ---- */

/* The compiler on one screen: compile.c. False after a diagnostic; a module that a driver refuses
 * has the driver's error. True without having reached the goal if a debugging stop or a cancelled
 * task ended the passes (`stopped`). */
bool compile(Compilation *c, CompileGoal goal);
/* Chooses the target and its card, as the options have them; false after a diagnostic. */
bool compilation_target(Compilation *c);
/* A new compilation of the same text with the same options, not yet started. */
Compilation compilation_copy(const Compilation *c);
/* The front end alone: types the kernel, lowers it to tensor IR, computes its fingerprint and
 * applies strides. */
bool compilation_type(Compilation *c, Module **module, const KernelSignature **kernel);
/* Copies what options point to. */
void options_copy(Arena *arena, const TesseraOptions *from, TesseraOptions *to);
/* Replaces all floating-point types by f64 (f64_reference.c). */
void compilation_to_f64(Compilation *c);
void compilation_reproducer(void *compilation, Text *out);

CodegenOptions compilation_codegen(Compilation *c); /* compile_options.c */

/* ---- the compile cache (cached_codegen.c, api_cache.c) ---- */

/* The cache, which the first call opens; NULL: out of memory. */
struct Cache *context_cache(TesseraContext *context);
void cache_free(TesseraContext *context);
/* The build identification of this library, and so of LLVM; false: it has none. */
bool build_id(Text *out);
/* The code and its plan as one value, and back; false: the bytes are not such a value. */
Text code_pack(Arena *arena, const Code *code, const Plan *plan);
bool code_unpack(Arena *arena, const Text *value, Code *code, Plan *plan);
/* Code and plan of a compilation in the cache. */
typedef struct CachedCode {
    struct Cache *cache; /* NULL: none is used */
    CacheKey key;
    bool is_locked; /* other processes wait for this one, which makes the entry */
    enum {
        CODE_FOUND, /* it is the compilation's */
        CODE_MISSING,
        CODE_FORBIDDEN, /* it is missing, and must not be made; after a diagnostic */
    } state;
} CachedCode;
CachedCode cached_code_find(Compilation *c, EmitKind kind);
/* Stores what was made, and lets other processes continue. */
void cached_code_done(Compilation *c, const CachedCode *cached, bool made);
/* Generates code in this process; the code generator's table of functions is opened for it. */
bool compilation_emit(Compilation *c, EmitKind kind, const CodegenOptions *options, Code *code,
                      Plan *plan);
/* Generates the code without the cache, here or in a worker. */
bool generate_code(Compilation *c, EmitKind kind, Code *code, Plan *plan);
/* Generates code in a worker process if the context wants that (worker_client.c); `done`: a worker
 * was used, or had to be, and the result is final. */
bool worker_emit(Compilation *c, EmitKind kind, Code *code, Plan *plan, bool *done);
/* The last steps of compile(): the machine code as a driver, or the linker of the CPU's code, loads
 * it, and the module of it on the device (open_module.c). */
bool module_image(Compilation *c, struct DeviceCode *module, DeviceImage *image);
bool module_open(Compilation *c, struct DeviceCode *module, const DeviceImage *image);

/* size_facts.c */
bool size_facts_apply(Func *func, const TesseraOptions *options, const Target *target);
/* Reports a tensor that no address space holds with these sizes (-1: not known). */
bool sizes_fit_memory(Func *func, const int64_t *sizes);
bool schedule_entries_apply(Func *func, const char *const *lines,
                            size_t n); /* schedule_entries.c */
/* The name of a schedule among the lines, or NULL; false: there are several. */
bool lines_name(Func *func, const char *const *lines, size_t n, const char **name);
/* Applies one line of a pin; `where` names the pin in messages. */
bool line_pin(Func *func, const char *line, Span span, const char *where);
void lines_warn_unused(Func *func);
double func_flops(Func *func, const TesseraOptions *options); /* dot_flops.c */
/* About how many elements all ops of a function compute under these sizes; 0: not known. */
double func_work(Func *func, const TesseraSize *sizes, size_t n);
/* Values of the size variables by id; -1: the options do not state it. */
int64_t *sizes_by_id(Func *func, const TesseraSize *sizes, size_t n); /* argument_sizes.c */
/* How many parameters the caller passes: all but the intermediates, which are last. */
size_t params_given(const Func *func); /* argument_sizes.c */
/* Derives sizes from those that are known; false after a diagnostic. */
bool sizes_derived(Func *func, int64_t *sizes); /* argument_sizes.c */
/* Sizes from the shapes of arguments and, where these leave one open, from the options; false after
 * a diagnostic. */
bool sizes_from_args(Func *func, const TesseraOptions *options, const TesseraArg *args,
                     int64_t *sizes);                            /* argument_sizes.c */
void signature_of_func(Func *func, TesseraSignature *signature); /* argument_sizes.c */

/* Report how long a part of the compilation took, and for a phase of it also how many ops it
 * visited, if that is wanted. `user` is a Compilation. */
void debug_report_time(void *user, const char *part, double seconds);
void debug_report_phase(Compilation *c, const char *phase, double seconds);
void debug_report_retries(Compilation *c);
/* Hooks that do what the context's debug settings say (pass_hooks.c). */
PassHooks debug_hooks(Compilation *c);
/* After the front end, which is no pass; false: stop. */
bool debug_after_frontend(Compilation *c);

#endif
