/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera: compiles kernels written in the tile language and runs them. Version 0.
 *
 *     TesseraContext *context;
 *     tessera_context_new(NULL, &context);
 *     TesseraProgram *program;
 *     tessera_program_read(context, "softmax.tile", &program);
 *     TesseraDevice *device;
 *     tessera_device_open(context, "auto", 0, &device);
 *
 *     TesseraPair bind[] = {{"T", "f32"}};
 *     TesseraFact any[] = {{"N", 1, 0, 0}}; // rows of any length; else: multiples of 8
 *     TesseraOptions options = {0};
 *     options.target = tessera_device_info(device)->target;
 *     options.bindings = bind, options.n_bindings = 1;
 *     options.facts = any, options.n_facts = 1;
 *     TesseraKernel *kernel;
 *     tessera_compile(program, &options, &kernel);
 *
 *     TesseraTensor in = {x, TESSERA_F32, 2, {rows, columns}, NULL};
 *     TesseraTensor out = {y, TESSERA_F32, 2, {rows, columns}, NULL};
 *     TesseraArg args[] = {{in, 0, 0, NULL}, {out, 0, 0, NULL}};
 *     TesseraLaunch *launch;
 *     tessera_prepare(kernel, device, args, 2, &launch);
 *     tessera_launch(launch, NULL);
 *     tessera_sync(device, NULL);
 *
 * x and y point to memory of the device: of the process for "cpu", else from tessera_alloc. C++ has
 * <tessera/tessera.hpp> besides. To compile and link, where $T is the folder that contains include/
 * and lib/:
 *
 *     cc app.c -I$T/include -L$T/lib -ltessera -Wl,-rpath,$T/lib
 *
 * Every call that can fail returns a TesseraStatus; tessera_error has the message. Nothing here
 * prints, exits, or keeps global state. A context and the objects that were created with it may be
 * used by one thread at a time; other threads use other contexts, which may share a cache folder.
 * Text and bytes that a call returns live as long as the object that the call was made on. Objects
 * are freed by their `_free`, which accepts NULL: launches before kernels, kernels before the
 * devices on which they were prepared, the context last. Any other argument that is NULL although a
 * value is needed is a usage error, or gives an empty answer. The same holds for a freed object,
 * unless 64 others of the context have been freed since, and for a launch whose device or kernel
 * was freed.
 *
 * A call may come from a thread whose stack is small: what reads, compiles, explains or interprets
 * programs has a deep stack, that of a thread for which the call waits. The allocator and the
 * caller's log may be called there.
 *
 * Compilations and kernels run in the calling process and have no time limit. A caller that
 * compiles untrusted programs lets a separate process with a time limit do so (tessera_isolate);
 * a caller that runs untrusted kernels has to start such a process for them itself. */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H

#include <tessera/launch.h> /* statuses, contexts, errors, arrays, devices, launches */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- diagnostics: errors, for programs that show them ---- */

/* What the last tessera_compile or tessera_bundle that succeeded warned of; "" for nothing. */
TESSERA_API const char *tessera_warnings(const TesseraContext *context);

/* A part of a source. Lines and columns count from 1, columns once in characters and once in
 * bytes; begin and end count bytes of the file from 0. What is at the end_ is the first outside. */
typedef struct TesseraSpan {
    const char *file; /* NULL: it is in no source, and the rest is 0 */
    int line, column, byte_column;
    int end_line, end_column, end_byte_column;
    size_t begin, end;
} TesseraSpan;

typedef struct TesseraLabel {
    TesseraSpan span;
    const char *text;
} TesseraLabel;

/* Put `text` instead of the span, which may be empty. */
typedef struct TesseraEdit {
    TesseraSpan span;
    const char *text;
} TesseraEdit;

typedef enum TesseraSeverity {
    TESSERA_IS_ERROR,
    TESSERA_IS_WARNING,
    TESSERA_IS_NOTE,
} TesseraSeverity;

/* New members come at the end. */
typedef struct TesseraDiagnostic {
    TesseraSeverity severity;
    char code[8];        /* "E0412", "W2001", or "" */
    const char *message; /* one line */
    TesseraSpan span;
    const char *label;          /* what is at the span; NULL: nothing more */
    const TesseraLabel *labels; /* further places */
    size_t n_labels;
    const char *note, *help;  /* or NULL */
    const TesseraEdit *edits; /* do what the help says; none: a person has to */
    size_t n_edits;
    const char *human; /* with the source's lines and carets */
    const char *brief; /* file:line:column: error[E0412]: message */
    const char *json;  /* an object on one line */
} TesseraDiagnostic;

/* Of the last call that failed, or of the last tessera_compile when it succeeded: what it warned
 * of. Valid until the next call with the context. */
TESSERA_API size_t tessera_diagnostics(const TesseraContext *context,
                                       const TesseraDiagnostic **diagnostics);

typedef struct TesseraWarnings {
    const char *const *allow; /* codes of warnings to suppress: "W2001"; or "all" */
    size_t n_allow;
    bool deny; /* warnings are errors */
} TesseraWarnings;
/* For later calls with this context; NULL: all warnings are reported. A word that is no code is an
 * error of usage. */
TESSERA_API TesseraStatus tessera_warn(TesseraContext *context, const TesseraWarnings *warnings);

typedef struct TesseraExplanation {
    char code[8];
    const char *title, *text;
    const char *wrong, *mended; /* programs, or lines of a shell; NULL: there is no example */
} TesseraExplanation;
/* By code, "E0412" or "412"; by number from 0 on. False when there is none. The context holds
 * nothing of it: what comes out is constant. */
TESSERA_API bool tessera_explain(const char *code, TesseraExplanation *explanation);
TESSERA_API bool tessera_explanation(size_t index, TesseraExplanation *explanation);

/* ---- element types ---- */

/* "bf16"; NULL for a number that is no type, which has 0 bytes and reads as NaN. */
TESSERA_API const char *tessera_type_name(TesseraType type);
/* False when there is none of this name. */
TESSERA_API bool tessera_type_find(const char *name, TesseraType *type);
/* Of one element by itself; n of them, one after the other, take tessera_type_size. */
TESSERA_API size_t tessera_type_bytes(TesseraType type);
TESSERA_API size_t tessera_type_size(TesseraType type, size_t n);
TESSERA_API bool tessera_type_is_float(TesseraType type);
/* Element `index` of an array in the host's memory, and setting it (rounded to nearest even). */
TESSERA_API double tessera_get(TesseraType type, const void *data, size_t index);
TESSERA_API void tessera_put(TesseraType type, void *data, size_t index, double value);

/* ---- programs and their kernels' signatures ---- */

typedef struct TesseraProgram TesseraProgram;
typedef enum TesseraIo { TESSERA_IN, TESSERA_OUT, TESSERA_INOUT } TesseraIo;

typedef struct TesseraParam {
    const char *name;
    const char *type;        /* "f32", or the name of a generic parameter: "T" */
    int rank;                /* -1: a scalar */
    const char *const *dims; /* as written: "M", "128", "2 * N" */
    TesseraIo io;
    bool is_const;        /* bound at compile time; it is no argument of a launch */
    const char *fallback; /* default, or NULL; of a const parameter, or what `tessera run` gives: a
                           * launch has all of its arguments */
} TesseraParam;

/* A size that is bound at compile time to one of these: `assume D in 64, 128`. */
typedef struct TesseraChoice {
    const char *size;
    const int64_t *values;
    size_t n;
} TesseraChoice;

typedef struct TesseraSignature {
    const char *name;
    const TesseraParam *params; /* inputs, then outputs */
    size_t n_params;
    const char *const *generics; /* T */
    const char *const *classes;  /* what each of them may be: "float", "int", "number", "any" */
    size_t n_generics;
    const char *const *sizes; /* M, N, … in order of appearance */
    size_t n_sizes;
    const TesseraChoice *choices;
    size_t n_choices;
    const char *doc; /* of a program's kernel: the comment right above it; NULL: none */
    bool any_rank;   /* `...` is in its types, as one axis; "gelu[3]" names it for three axes */
} TesseraSignature;

/* `name` is what messages call it. */
TESSERA_API TesseraStatus tessera_program_parse(TesseraContext *context, const char *name,
                                                const char *text, size_t n,
                                                TesseraProgram **program);
TESSERA_API TesseraStatus tessera_program_read(TesseraContext *context, const char *path,
                                               TesseraProgram **program);
TESSERA_API void tessera_program_free(TesseraProgram *program);
TESSERA_API size_t tessera_program_kernels(const TesseraProgram *program);
TESSERA_API const TesseraSignature *tessera_program_kernel(const TesseraProgram *program,
                                                           size_t index);
/* The files that the program was read from, its own first, then what it imports; NULL past the
 * last, and for text that was in no file. */
TESSERA_API const char *tessera_program_file(const TesseraProgram *program, size_t index);
/* name NULL: the only kernel of the program. */
TESSERA_API TesseraStatus tessera_program_find(const TesseraProgram *program, const char *name,
                                               const TesseraSignature **signature);

/* The same program in the layout that all sources have: tokens, comments and lines stay, the space
 * between them changes. `formatted` is good until the next tessera_format with the context. */
TESSERA_API TesseraStatus tessera_format(TesseraContext *context, const char *name,
                                         const char *text, size_t n, const char **formatted);

/* ---- compiling ---- */

typedef struct TesseraPair {
    const char *name, *value;
} TesseraPair;

typedef struct TesseraSize {
    const char *name;
    int64_t value;
} TesseraSize;

/* What holds for a size at every launch. Zero: nothing is known. Of unknown sizes, and what no size
 * can fulfil, are errors. */
typedef struct TesseraFact {
    const char *name;
    int64_t multiple, least, most;
} TesseraFact;

typedef struct TesseraOptions {
    const char *kernel;          /* NULL: the only one of the program */
    const char *target;          /* "sm_90a", "gfx942", "native", …; see tessera_target */
    const TesseraPair *bindings; /* generic and const parameters: T=bf16, causal=true, D=128 */
    size_t n_bindings;
    /* Sizes as they will be: the code is made for sizes like these (the power of two that divides
     * them, the next round number), which every launch is checked against. Where the arguments'
     * shapes leave a size open, as those of f32[Q + P] do, it is what is given here. */
    const TesseraSize *sizes;
    size_t n_sizes;
    /* For sizes of which nothing else is known, the code takes a tensor's last axis to be a
     * multiple of 8 elements; a fact of multiple 1 says that it need not be. */
    const TesseraFact *facts;
    size_t n_facts;
    /* Arguments as they will be, of which only the tensors' dims, strides and alignment are looked
     * at: the code is made for tensors that lie like these, which every launch is checked against:
     * the order of axes, strides of 0 and 1, of others the sign and the power of two up to 16 that
     * divides them. One for each parameter that is not const; n_args 0: all are contiguous. */
    const TesseraArg *args;
    size_t n_args;
    /* The same in words, which count more: {"x", "*8,1"} takes rows at a distance that is a
     * multiple of 8. A word an axis: a number, an expression of sizes ("1,M": columns one after the
     * other), `*` for any stride above 0, `*8` for multiples, `-*` and `-*8` below 0; at the end
     * `@4` where addresses are multiples of 4 bytes only. */
    const TesseraPair *strides;
    size_t n_strides;
    const char *const *lines; /* lines of a schedule: "tile M 128, N 256"; or the name of one */
    size_t n_lines;
    int optimize; /* 0: as normal; 1…3: LLVM's level; -1: its level 0 */
    bool wide;    /* of tessera_interpret: all floats are f64, those of the arguments, too */
    /* A file of pins, schedules that `tessera tune` measured; "": none. NULL: as tessera_pins_use
     * says. Lines of the source's schedule blocks, and `lines`, count more. */
    const char *pins;
    /* As tessera_device_info names it: pins of others do not count; NULL: any of the target. */
    const char *device;
} TesseraOptions;

typedef struct TesseraKernel TesseraKernel;

/* Down to scheduled code; machine code is made when it is first asked for. */
TESSERA_API TesseraStatus tessera_compile(TesseraProgram *program, const TesseraOptions *options,
                                          TesseraKernel **kernel);
/* The kernel that computes gradients (docs/language.md), with the same options but for lines of the
 * schedule and arguments: by the float parameters of these names; n_by 0: by all. Its parameters
 * are the kernel's, then d_NAME for each of its results, its results d_NAME for each of these
 * parameters. A kernel of the name "vjp(NAME)", also in `options.kernel`, is the same. */
TESSERA_API TesseraStatus tessera_kernel_vjp(TesseraKernel *kernel, const char *const *by,
                                             size_t n_by, TesseraKernel **vjp);
TESSERA_API void tessera_kernel_free(TesseraKernel *kernel);
/* The signature with all generics bound and without const parameters. */
TESSERA_API const TesseraSignature *tessera_kernel_signature(const TesseraKernel *kernel);
/* Type and shape of parameter `index` (of that signature) under these sizes. */
TESSERA_API TesseraStatus tessera_kernel_shape(const TesseraKernel *kernel, size_t index,
                                               const TesseraSize *sizes, size_t n_sizes,
                                               TesseraTensor *tensor);

/* What the code takes for granted of size `index` of that signature: launches with others fail.
 * `most` is INT64_MAX where nothing is known. */
TESSERA_API TesseraStatus tessera_kernel_fact(const TesseraKernel *kernel, size_t index,
                                              TesseraFact *fact);
/* Do other sizes say what size `index` is, as in H = N // 2? */
TESSERA_API bool tessera_kernel_follows(const TesseraKernel *kernel, size_t index);

typedef struct TesseraBytes {
    const char *data; /* a zero byte follows */
    size_t n;
} TesseraBytes;

/* kind: "ir", "llvm", "ptx", "cubin", "asm", "hsaco" or "obj", as far as the target has it; or
 * "launch": what must be known to launch that code without the library, as JSON (docs/tools.md). */
TESSERA_API TesseraStatus tessera_kernel_emit(TesseraKernel *kernel, const char *kind,
                                              TesseraBytes *bytes);
/* The schedule as a block that may stand in the source; with reasons, each line has its own. */
TESSERA_API TesseraStatus tessera_kernel_schedule(TesseraKernel *kernel, bool reasons,
                                                  const char **text);

typedef struct TesseraLaunchInfo {
    const char *symbol;
    int threads, shared_bytes; /* of a block */
    int64_t blocks;            /* under the sizes of the options; -1: not all were given */
    bool persistent;
} TesseraLaunchInfo;

typedef struct TesseraResources {
    const TesseraLaunchInfo *launches;
    size_t n_launches;
    double flops; /* of products, as written, under the sizes of the options; 0: not known */
} TesseraResources;
TESSERA_API TesseraStatus tessera_kernel_resources(TesseraKernel *kernel,
                                                   TesseraResources *resources);

typedef enum TesseraExplain {
    TESSERA_EXPLAIN_TEXT, /* the schedule, then a few lines a launch as its comments */
    TESSERA_EXPLAIN_JSON, /* an object: launches, accesses, occupancy, roofline, notes, hints */
    TESSERA_EXPLAIN_HTML, /* one page that needs nothing else: also sources, IR, code, pictures */
    TESSERA_EXPLAIN_NEST, /* the launches as a tiled source, with the schedule of its steps */
} TesseraExplain;
/* How the kernel does what it does, and what that costs; totals under the sizes of the options. No
 * device is needed. Registers of NVIDIA's parts are known where there is a ptxas. */
TESSERA_API TesseraStatus tessera_kernel_explain(TesseraKernel *kernel, TesseraExplain form,
                                                 TesseraBytes *bytes);

/* What keeps each access of the code inside its tensor. */
typedef struct TesseraAccesses {
    size_t inside;  /* by proof: nothing is checked while it runs */
    size_t guarded; /* by a check for each element */
    size_t clipped; /* by the device's copy engine */
    /* Places, "file.tile:7", where floats are summed in any order: only there may runs differ. */
    const char *const *float_sums;
    size_t n_float_sums;
} TesseraAccesses;
TESSERA_API TesseraStatus tessera_kernel_accesses(TesseraKernel *kernel, TesseraAccesses *accesses);

/* Binds what arguments tell: T from an element type, M from a shape. `known`: one entry a parameter
 * of the signature, rank < 0 where nothing is given; NULL: nothing at all. What options bind
 * already must agree. The result is good until the next tessera_infer of this program. */
typedef struct TesseraInferred {
    const TesseraPair *bindings; /* those of the options, too */
    size_t n_bindings;
    const TesseraSize *sizes;
    size_t n_sizes;
} TesseraInferred;
TESSERA_API TesseraStatus tessera_infer(TesseraProgram *program, const TesseraOptions *options,
                                        const TesseraTensor *known, TesseraInferred *inferred);

typedef struct TesseraTarget {
    const char *name, *family; /* "sm_90a", "nvptx" */
    int warp, max_threads, shared_bytes, units;
    const char *product;      /* unit of 16-bit products */
    const char *const *kinds; /* what tessera_kernel_emit makes of it; ended by NULL */
} TesseraTarget;
/* NULL past the last. */
TESSERA_API const TesseraTarget *tessera_target(TesseraContext *context, size_t index);

/* ---- pins: schedules that were measured ----
 *
 * `tessera tune pin` writes them, as text, into a file next to the source, linear.tune for
 * linear.tile. An entry is for a kernel as it is typed, a device, and a bucket of sizes: an octave
 * as 2049..4096, and what divides them. It is used for the sizes of the options, where these are
 * given, else each launch takes the code for its own. What does not hold any more is a warning. */

/* For later calls with this context, where options say nothing else: NULL: the file next to the
 * source; a path: that file; "off": none. */
TESSERA_API TesseraStatus tessera_pins_use(TesseraContext *context, const char *path);

/* What measurements of a kernel are kept under. */
typedef struct TesseraTuning {
    const char *kernel;
    const char *digest; /* of the kernel as it is typed, before sizes and schedule */
    const char *types;  /* "D=128, T=bf16", by name */
    const char *bucket; /* "K=2049..4096%64, M=2049..4096%64" */
    const char *sizes;  /* "K=4096, M=4096" */
    const char *device; /* as tessera_device_info names it; "" without one */
    const char *arch;   /* the target; of a CPU its name for LLVM */
} TesseraTuning;
/* Sizes must all be known. `device` NULL: the options' target alone. Texts are good until the next
 * call of this with the program. */
TESSERA_API TesseraStatus tessera_tuning(TesseraProgram *program, const TesseraOptions *options,
                                         const TesseraDevice *device, TesseraTuning *tuning);

/* ---- compiling ahead, in threads of the library's ----
 *
 * A task compiles down to machine code in parallel with whatever its caller does, in as many
 * threads as there are CPUs. The allocator must be one for many threads, as malloc is. */

typedef struct TesseraTask TesseraTask;
/* Called in a thread of the library's when a task is done, however it ended. It may wake others;
 * with the task it can do nothing. */
typedef void TesseraDone(void *user, TesseraTask *task);
/* The program outlives the task; the options are copied. done NULL: nothing is called. */
TESSERA_API TesseraStatus tessera_compile_start(TesseraProgram *program,
                                                const TesseraOptions *options, TesseraDone *done,
                                                void *user, TesseraTask **task);
TESSERA_API bool tessera_task_finished(const TesseraTask *task);
/* What has not begun will not; what has ends after the pass or the code that it is making. */
TESSERA_API void tessera_task_cancel(TesseraTask *task);
/* Waits, and hands the kernel out, once; errors and warnings are then those of the context. */
TESSERA_API TesseraStatus tessera_task_wait(TesseraTask *task, TesseraKernel **kernel);
/* Cancels, waits and frees; before the program and the context. */
TESSERA_API void tessera_task_free(TesseraTask *task);

/* One of several kernels that a program will need. */
typedef struct TesseraRequest {
    TesseraProgram *program;
    TesseraOptions options;
    TesseraKernel *kernel; /* comes out, or NULL: */
    TesseraStatus status;  /* why */
} TesseraRequest;
/* Compiles all of them, as tasks, and loads them on the device (NULL: on none) as long as nothing
 * has failed. What comes back, and the context's error, is the first failure. */
TESSERA_API TesseraStatus tessera_compile_all(TesseraContext *context, TesseraRequest *requests,
                                              size_t n, TesseraDevice *device);
/* Makes and loads the code, as the first tessera_prepare on the device would. */
TESSERA_API TesseraStatus tessera_kernel_load(TesseraKernel *kernel, TesseraDevice *device);

/* ---- ahead of time: kernels as a part of a program ---- */

typedef struct TesseraBundleOptions {
    const char *name;   /* what all names of the header begin with: "k" for k_softmax_bf16 */
    const char *kernel; /* NULL: all of the program */
    const char *const *targets; /* each kernel is compiled for each; not "native" */
    size_t n_targets;
    /* A kernel is compiled for those that name nothing that it has not, else for one that says
     * nothing; and once more for any size. Kernel and target are not looked at. */
    const TesseraOptions *variants;
    size_t n_variants;
    /* For all, as far as they have these: bindings, where a variant has no other, and what holds at
     * every launch, so that "any size" means any of such. */
    const TesseraPair *bindings;
    size_t n_bindings;
    const TesseraFact *facts;
    size_t n_facts;
    bool shared; /* a shared library, else an object */
} TesseraBundleOptions;

typedef struct TesseraBundled TesseraBundled;
/* What <tessera/launch.h> says of kernels that are part of the program. The same program and
 * options make the same bytes. */
TESSERA_API TesseraStatus tessera_bundle(TesseraProgram *program,
                                         const TesseraBundleOptions *options,
                                         TesseraBundled **bundled);
TESSERA_API void tessera_bundled_free(TesseraBundled *bundled);
/* The header, and the object or library, which wants libtessera-launch (or libtessera). */
TESSERA_API const TesseraBytes *tessera_bundled_header(const TesseraBundled *bundled);
TESSERA_API const TesseraBytes *tessera_bundled_object(const TesseraBundled *bundled);

/* ---- the compile cache ----
 *
 * Machine code that tessera_prepare had made is kept in a folder of the user's, a file an entry, by
 * the digest of all that it was made from: sources, options, targets, this build. Damaged entries,
 * and those of others, are not used. A cache that cannot be read or written is none: nothing fails
 * for it, and tessera_cache_info says why. Many processes may use one folder. */

/* For later calls with this context. folder NULL: what $TESSERA_CACHE names, else
 * $XDG_CACHE_HOME/tessera, else $HOME/.cache/tessera; "off": no cache, in $TESSERA_CACHE, too.
 * limit: bytes, of which those used last are kept; 0: $TESSERA_CACHE_SIZE ("500M"), else 2 GiB. */
TESSERA_API TesseraStatus tessera_cache_use(TesseraContext *context, const char *folder,
                                            int64_t limit);

/* For later calls with this context: machine code comes from the cache, and what is not in it is an
 * error of the environment. For processes that must not compile. */
TESSERA_API TesseraStatus tessera_cache_only(TesseraContext *context, bool only);

/* New members come at the end. */
typedef struct TesseraCacheInfo {
    const char *folder; /* NULL: none is known */
    const char *why;    /* why it is not used; NULL: it is */
    int64_t limit;
    uint64_t entries, bytes;
    uint64_t hits, misses, kept, refused; /* of this context; refused: damaged entries */
} TesseraCacheInfo;
/* The texts are good until the next tessera_cache_use. */
TESSERA_API TesseraStatus tessera_cache_info(TesseraContext *context, TesseraCacheInfo *info);

typedef struct TesseraCacheEntry {
    const char *name;  /* of the file */
    const char *about; /* "softmax for sm_90a"; NULL: it is damaged */
    uint64_t bytes;
    int64_t used; /* last, in seconds since 1970, to the hour */
} TesseraCacheEntry;
/* All of them, those used last first. Valid until the next call of this with the context. */
TESSERA_API TesseraStatus tessera_cache_list(TesseraContext *context,
                                             const TesseraCacheEntry **entries, size_t *n);
/* Reads all entries and removes damaged ones: how many there were, how many of them went. */
TESSERA_API TesseraStatus tessera_cache_verify(TesseraContext *context, size_t *checked,
                                               size_t *damaged);
/* Removes all but those used last that take this many bytes together; 0: all. */
TESSERA_API TesseraStatus tessera_cache_prune(TesseraContext *context, int64_t bytes,
                                              size_t *removed);

/* ---- compiling in a process of its own ----
 *
 * LLVM ends its process when it cannot continue. A worker is a program that compiles one kernel and
 * ends; when it is ended instead, or takes too long, that is an error with a reproducer, and the
 * caller continues. It is looked for next to the library and in ../bin, as tessera-worker, and ends
 * with the thread that started it. A compilation by it takes some milliseconds more. */

typedef enum TesseraIsolate {
    TESSERA_ISOLATE_NEVER, /* as a context begins */
    TESSERA_ISOLATE_AUTO,  /* where there is a worker */
    TESSERA_ISOLATE_ALWAYS,
} TesseraIsolate;
/* For later calls with this context. worker NULL: $TESSERA_WORKER, or it is looked for. seconds:
 * the most that one may take; 0: 60. */
TESSERA_API TesseraStatus tessera_isolate(TesseraContext *context, TesseraIsolate when,
                                          const char *worker, double seconds);

/* ---- what this machine has ---- */

typedef enum TesseraHealth {
    TESSERA_HEALTHY,
    TESSERA_ABSENT, /* it is not here; `cost` says what cannot be done without */
    TESSERA_BROKEN, /* it is here, and cannot be used */
} TesseraHealth;

/* One thing that is looked for. New members come at the end. */
typedef struct TesseraFinding {
    const char *part; /* "compiler", "cpu", "cuda", "cuda:0", "hip", "ptxas", "cache", … */
    TesseraHealth health;
    const char *text;                /* what was found, or what is wrong */
    const char *version;             /* or NULL */
    const char *looked_for;          /* names of files, or NULL */
    const char *cost, *help;         /* what is lost, what can be done about it; or NULL */
    const TesseraDeviceInfo *device; /* or NULL */
} TesseraFinding;

/* Looks for drivers, devices and tools, and runs a small kernel on each device. What is missing is
 * no error of this call. Valid until the next one with the context. */
TESSERA_API TesseraStatus tessera_doctor(TesseraContext *context, const TesseraFinding **findings,
                                         size_t *n);

/* ---- launching ---- */

/* Loads the code if need be, checks sizes, strides, types, alignment, overlap and, on CUDA, that
 * the device reaches the memory; packs the arguments. The tensors' memory stays the caller's.
 * CUDA's driver assembles the code, or the ptxas that the environment's TESSERA_PTXAS names. */
TESSERA_API TesseraStatus tessera_prepare(TesseraKernel *kernel, TesseraDevice *device,
                                          const TesseraArg *args, size_t n_args,
                                          TesseraLaunch **launch);
/* Messages of the last tessera_interpret. */
TESSERA_API TesseraStatus tessera_interpret_messages(TesseraContext *context,
                                                     TesseraMessages *messages);

/* ---- the oracle ---- */

/* Runs the kernel by the plain meaning of its operations, slowly, on arrays in the host's memory.
 * options.target is not needed; with one, ranges of the source have the steps that its schedule
 * gives them: what is rounded once a step is rounded where code for that target does. */
TESSERA_API TesseraStatus tessera_interpret(TesseraProgram *program, const TesseraOptions *options,
                                            const TesseraArg *args, size_t n_args);

typedef struct TesseraDifference {
    size_t different; /* elements that are further apart than allowed */
    size_t first;     /* the first of them */
    double got, want, bound;
    double worst; /* greatest distance as a share of its bound; > 1 or infinite: different */
} TesseraDifference;
/* Compares arrays in the host's memory. Bound 0, or NULL for all: the bits must be the same, where
 * all NaNs are one. TESSERA_DIFFERENT is returned, not recorded as an error. */
TESSERA_API TesseraStatus tessera_compare(TesseraType type, size_t n, const void *got,
                                          const void *want, const double *bound,
                                          TesseraDifference *difference);

#ifdef __cplusplus
}
#endif

#endif
