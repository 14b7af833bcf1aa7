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
 * x and y point to memory of the device: memory of the process for "cpu", otherwise memory from
 * tessera_alloc. For C++ there is <tessera/tessera.hpp>. To compile and link, where $T is the
 * folder that contains include/ and lib/:
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
 * A call may come from a thread with a small stack: calls that read, compile, explain or interpret
 * programs run in a thread of their own with a large stack, and wait for it. The allocator and the
 * log of the caller may be called from that thread.
 *
 * Compilations and kernels run in the calling process and have no time limit. To compile untrusted
 * programs, use a separate process with a time limit (tessera_isolate). To run untrusted kernels,
 * the caller must start such a process itself. */
#ifndef TESSERA_TESSERA_H
#define TESSERA_TESSERA_H

#include <tessera/launch.h> /* statuses, contexts, errors, arrays, devices, launches */

#ifdef __cplusplus
extern "C" {
#endif

/* ---- diagnostics: errors, for programs that show them ---- */

/* The warnings of the last tessera_compile or tessera_bundle that succeeded; "" if there were
 * none. */
TESSERA_API const char *tessera_warnings(const TesseraContext *context);

/* A part of a source. Lines and columns count from 1, columns once in characters and once in bytes;
 * begin and end count bytes of the file from 0. The end_ members denote the first character behind
 * the span. */
typedef struct TesseraSpan {
    const char *file; /* NULL: there is no source, and all other members are 0 */
    int line, column, byte_column;
    int end_line, end_column, end_byte_column;
    size_t begin, end;
} TesseraSpan;

typedef struct TesseraLabel {
    TesseraSpan span;
    const char *text;
} TesseraLabel;

/* Replace the span, which may be empty, by `text`. */
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
    const char *label;          /* a text for the span; NULL: none */
    const TesseraLabel *labels; /* further spans */
    size_t n_labels;
    const char *note, *help;  /* or NULL */
    const TesseraEdit *edits; /* edits that carry out the help; none: it needs a person */
    size_t n_edits;
    const char *human; /* with the source's lines and carets */
    const char *brief; /* file:line:column: error[E0412]: message */
    const char *json;  /* an object on one line */
} TesseraDiagnostic;

/* The diagnostics of the last call that failed, or the warnings of the last tessera_compile that
 * succeeded. Returns how many there are. Valid until the next call with the context. */
TESSERA_API size_t tessera_diagnostics(const TesseraContext *context,
                                       const TesseraDiagnostic **diagnostics);

typedef struct TesseraWarnings {
    const char *const *allow; /* codes of warnings to suppress: "W2001"; or "all" */
    size_t n_allow;
    bool deny; /* warnings are errors */
} TesseraWarnings;
/* Sets which warnings later calls with this context report; NULL: all. A string that is not a code
 * is a usage error. */
TESSERA_API TesseraStatus tessera_warn(TesseraContext *context, const TesseraWarnings *warnings);

typedef struct TesseraExplanation {
    char code[8];
    const char *title, *text;
    const char *wrong, *mended; /* programs, or shell commands, with the error and without it;
                                   NULL: no example */
} TesseraExplanation;
/* Explains a diagnostic, selected by its code, "E0412" or "412", or by its number, counted from 0.
 * False if there is none. The texts are constants. */
TESSERA_API bool tessera_explain(const char *code, TesseraExplanation *explanation);
TESSERA_API bool tessera_explanation(size_t index, TesseraExplanation *explanation);

/* ---- element types ---- */

/* The name of a type: "bf16". NULL for a number that is not a type; such a type has 0 bytes and its
 * elements read as NaN. */
TESSERA_API const char *tessera_type_name(TesseraType type);
/* Finds a type by its name. False if there is none. */
TESSERA_API bool tessera_type_find(const char *name, TesseraType *type);
/* The bytes of a single element, and of n contiguous elements. */
TESSERA_API size_t tessera_type_bytes(TesseraType type);
TESSERA_API size_t tessera_type_size(TesseraType type, size_t n);
TESSERA_API bool tessera_type_is_float(TesseraType type);
/* Reads element `index` of an array in host memory, and writes it (rounded to nearest even). */
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
    const char *fallback; /* the default value of a const parameter, or of a parameter for
                             `tessera run`; NULL: none. A launch needs all of its arguments */
} TesseraParam;

/* A size that must be bound at compile time to one of these values: `assume D in 64, 128`. */
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
    const char *const *classes;  /* the class of types of each generic: "float", "int", "number",
                                    "any" */
    size_t n_generics;
    const char *const *sizes; /* M, N, … in order of appearance */
    size_t n_sizes;
    const TesseraChoice *choices;
    size_t n_choices;
    const char *doc; /* the comment directly above the kernel; NULL: none */
    bool any_rank;   /* its types contain `...`, here as one axis; "gelu[3]" names the kernel for
                        three axes */
} TesseraSignature;

/* Parses a program from text or from a file. `name` stands for the file in messages. */
TESSERA_API TesseraStatus tessera_program_parse(TesseraContext *context, const char *name,
                                                const char *text, size_t n,
                                                TesseraProgram **program);
TESSERA_API TesseraStatus tessera_program_read(TesseraContext *context, const char *path,
                                               TesseraProgram **program);
TESSERA_API void tessera_program_free(TesseraProgram *program);
TESSERA_API size_t tessera_program_kernels(const TesseraProgram *program);
TESSERA_API const TesseraSignature *tessera_program_kernel(const TesseraProgram *program,
                                                           size_t index);
/* The files that the program was read from: its own first, then its imports. NULL past the last
 * one, and for text that was not in a file. */
TESSERA_API const char *tessera_program_file(const TesseraProgram *program, size_t index);
/* Finds the signature of a kernel by its name; NULL: the only kernel of the program. */
TESSERA_API TesseraStatus tessera_program_find(const TesseraProgram *program, const char *name,
                                               const TesseraSignature **signature);

/* Formats a source text: tokens, comments and line breaks stay, the space between tokens changes.
 * `formatted` is valid until the next tessera_format with the context. */
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

/* Facts about a size that hold at every launch: it is a multiple of `multiple`, at least `least`
 * and at most `most`; 0: not known. A fact about an unknown size, or one that no size satisfies, is
 * an error. */
typedef struct TesseraFact {
    const char *name;
    int64_t multiple, least, most;
} TesseraFact;

typedef struct TesseraOptions {
    const char *kernel;          /* NULL: the only one of the program */
    const char *target;          /* "sm_90a", "gfx942", "native", …; see tessera_target */
    const TesseraPair *bindings; /* generic and const parameters: T=bf16, causal=true, D=128 */
    size_t n_bindings;
    /* Expected sizes. The code is specialized for similar sizes (those with the same power of two
     * as a divisor, up to the next round number), and every launch is checked against these facts.
     * If the shapes of the arguments do not determine a size, as for f32[Q + P], this value is
     * used. */
    const TesseraSize *sizes;
    size_t n_sizes;
    /* If nothing else is known of a size, the code assumes that the last axis of a tensor is a
     * multiple of 8 elements; a fact with `multiple` 1 removes that assumption. */
    const TesseraFact *facts;
    size_t n_facts;
    /* Expected arguments, of which only the dims, strides and alignment of the tensors are read.
     * The code is specialized for tensors with such strides, and every launch is checked: the order
     * of the axes, strides of 0 and 1, and of other strides the sign and the largest power of two
     * up to 16 that divides them. One entry per parameter that is not const; n_args 0: all tensors
     * are contiguous. */
    const TesseraArg *args;
    size_t n_args;
    /* The same as text, which overrides `args`: {"x", "*8,1"} accepts rows whose distance is a
     * multiple of 8 elements. One item per axis: a number, an expression of sizes ("1,M":
     * column-major), `*` for any stride above 0, `*8` for multiples of 8, `-*` and `-*8` for
     * negative ones; `@4` at the end if addresses are only multiples of 4 bytes. */
    const TesseraPair *strides;
    size_t n_strides;
    const char *const *lines; /* schedule entries: "tile M 128, N 256"; or the name of a schedule
                                 of the source */
    size_t n_lines;
    int optimize; /* optimization level: 0: the default; 1…3: that of LLVM; -1: LLVM's level 0 */
    bool wide;    /* for tessera_interpret: all floats are f64, including those of the arguments */
    /* A file of pins: schedules that `tessera tune` measured; "": none; NULL: the setting of
     * tessera_pins_use. Entries of the source's schedule blocks and of `lines` override pins. */
    const char *pins;
    /* The device's name, as in tessera_device_info: pins for other devices are ignored; NULL: pins
     * for any device of the target are used. */
    const char *device;
} TesseraOptions;

typedef struct TesseraKernel TesseraKernel;

/* Compiles a kernel down to scheduled IR. Machine code is generated when it is first needed. */
TESSERA_API TesseraStatus tessera_compile(TesseraProgram *program, const TesseraOptions *options,
                                          TesseraKernel **kernel);
/* Compiles the kernel that computes gradients (docs/language.md) with respect to the float
 * parameters of these names; n_by 0: all of them. It has the same options, except for schedule
 * entries and arguments. Its parameters are those of the kernel, then d_NAME for each result; its
 * results are d_NAME for each of these parameters. The name "vjp(NAME)", also in `options.kernel`,
 * denotes the same kernel. */
TESSERA_API TesseraStatus tessera_kernel_vjp(TesseraKernel *kernel, const char *const *by,
                                             size_t n_by, TesseraKernel **vjp);
TESSERA_API void tessera_kernel_free(TesseraKernel *kernel);
/* The signature with all generics bound and without const parameters. */
TESSERA_API const TesseraSignature *tessera_kernel_signature(const TesseraKernel *kernel);
/* Type and shape of parameter `index` of that signature for these sizes. */
TESSERA_API TesseraStatus tessera_kernel_shape(const TesseraKernel *kernel, size_t index,
                                               const TesseraSize *sizes, size_t n_sizes,
                                               TesseraTensor *tensor);

/* What the code assumes about size `index` of that signature; a launch with another size fails.
 * `most` is INT64_MAX if there is no bound. */
TESSERA_API TesseraStatus tessera_kernel_fact(const TesseraKernel *kernel, size_t index,
                                              TesseraFact *fact);
/* True if size `index` follows from other sizes, as in H = N // 2. */
TESSERA_API bool tessera_kernel_follows(const TesseraKernel *kernel, size_t index);

typedef struct TesseraBytes {
    const char *data; /* a zero byte follows */
    size_t n;
} TesseraBytes;

/* Emits the code in one form. kind: "ir", "llvm", "ptx", "cubin", "asm", "hsaco" or "obj", if the
 * target has it; or "launch": a description, as JSON, for launching the code without the library
 * (docs/tools.md). */
TESSERA_API TesseraStatus tessera_kernel_emit(TesseraKernel *kernel, const char *kind,
                                              TesseraBytes *bytes);
/* The schedule as a block in the syntax of the source; with `reasons`, each entry has its
 * reason. */
TESSERA_API TesseraStatus tessera_kernel_schedule(TesseraKernel *kernel, bool reasons,
                                                  const char **text);

typedef struct TesseraLaunchInfo {
    const char *symbol;
    int threads, shared_bytes; /* of a block */
    int64_t blocks;            /* for the sizes of the options; -1: some size was not given */
    bool persistent;
} TesseraLaunchInfo;

typedef struct TesseraResources {
    const TesseraLaunchInfo *launches;
    size_t n_launches;
    double flops; /* floating-point operations of the dots as written, for the sizes of the
                     options; 0: not known */
} TesseraResources;
TESSERA_API TesseraStatus tessera_kernel_resources(TesseraKernel *kernel,
                                                   TesseraResources *resources);

typedef enum TesseraExplain {
    TESSERA_EXPLAIN_TEXT, /* the schedule, and a few lines per launch as comments in it */
    TESSERA_EXPLAIN_JSON, /* an object: launches, accesses, occupancy, roofline, notes, hints */
    TESSERA_EXPLAIN_HTML, /* one self-contained page, also with sources, IR, code and pictures */
    TESSERA_EXPLAIN_NEST, /* the launches as a tiled source, with a schedule for its tile sizes */
} TesseraExplain;
/* Reports how the kernel is scheduled and what that costs; totals are for the sizes of the options.
 * No device is needed. For NVIDIA targets, registers are reported if ptxas is available. */
TESSERA_API TesseraStatus tessera_kernel_explain(TesseraKernel *kernel, TesseraExplain form,
                                                 TesseraBytes *bytes);

/* How many accesses of the code are kept inside their tensor by which means. */
typedef struct TesseraAccesses {
    size_t inside;  /* proven at compile time: no check at run time */
    size_t guarded; /* by a bounds check for each element */
    size_t clipped; /* by the clipping of TMA */
    /* Source locations, "file.tile:7", where floats are summed in an unspecified order: only there
     * may results differ between runs. */
    const char *const *float_sums;
    size_t n_float_sums;
} TesseraAccesses;
TESSERA_API TesseraStatus tessera_kernel_accesses(TesseraKernel *kernel, TesseraAccesses *accesses);

/* Infers bindings and sizes from arguments: T from an element type, M from a shape. `known`: one
 * entry per parameter of the signature, with rank < 0 if that argument is not given; NULL: none is
 * given. Bindings of the options must agree. The result is valid until the next tessera_infer of
 * this program. */
typedef struct TesseraInferred {
    const TesseraPair *bindings; /* including those of the options */
    size_t n_bindings;
    const TesseraSize *sizes;
    size_t n_sizes;
} TesseraInferred;
TESSERA_API TesseraStatus tessera_infer(TesseraProgram *program, const TesseraOptions *options,
                                        const TesseraTensor *known, TesseraInferred *inferred);

typedef struct TesseraTarget {
    const char *name, *family; /* "sm_90a", "nvptx" */
    int warp, max_threads, shared_bytes, units;
    const char *product;      /* matrix instruction for 16-bit elements */
    const char *const *kinds; /* the kinds that tessera_kernel_emit supports; ended by NULL */
} TesseraTarget;
/* NULL past the last. */
TESSERA_API const TesseraTarget *tessera_target(TesseraContext *context, size_t index);

/* ---- pins: schedules that were measured ----
 *
 * `tessera tune pin` writes them, as text, into a file next to the source, linear.tune for
 * linear.tile. An entry belongs to a kernel with its types, a device, and a bucket of sizes: an
 * octave such as 2049..4096, and a divisor. It is used for the sizes of the options if these are
 * given; otherwise each launch uses the code for its own sizes. An entry that no longer applies
 * causes a warning. */

/* Sets the pin file for later calls with this context whose options name none. NULL: the file next
 * to the source; a path: that file; "off": none. */
TESSERA_API TesseraStatus tessera_pins_use(TesseraContext *context, const char *path);

/* The key under which measurements of a kernel are stored. */
typedef struct TesseraTuning {
    const char *kernel;
    const char *digest; /* of the kernel with its types, without sizes and schedule */
    const char *types;  /* "D=128, T=bf16", by name */
    const char *bucket; /* "K=2049..4096%64, M=2049..4096%64" */
    const char *sizes;  /* "K=4096, M=4096" */
    const char *device; /* as tessera_device_info names it; "" without one */
    const char *arch;   /* the target; for a CPU, its name in LLVM */
} TesseraTuning;
/* All sizes must be known. `device` NULL: only the target of the options is used. The texts are
 * valid until the next call of this function with the program. */
TESSERA_API TesseraStatus tessera_tuning(TesseraProgram *program, const TesseraOptions *options,
                                         const TesseraDevice *device, TesseraTuning *tuning);

/* ---- compiling ahead, in threads of the library's ----
 *
 * A task compiles down to machine code in parallel with whatever its caller does, in as many
 * threads as there are CPUs. The allocator must be one for many threads, as malloc is. */

typedef struct TesseraTask TesseraTask;
/* Called in a thread of the library when a task has ended, successfully or not. It may wake other
 * threads, but must not use the task. */
typedef void TesseraDone(void *user, TesseraTask *task);
/* Starts a task. The program must outlive it; the options are copied. done NULL: nothing is
 * called. */
TESSERA_API TesseraStatus tessera_compile_start(TesseraProgram *program,
                                                const TesseraOptions *options, TesseraDone *done,
                                                void *user, TesseraTask **task);
TESSERA_API bool tessera_task_finished(const TesseraTask *task);
/* Cancels a task. If it has not begun, it never will; otherwise it ends after the current pass or
 * code generation. */
TESSERA_API void tessera_task_cancel(TesseraTask *task);
/* Waits for a task and returns its kernel, once. Its errors and warnings become those of the
 * context. */
TESSERA_API TesseraStatus tessera_task_wait(TesseraTask *task, TesseraKernel **kernel);
/* Cancels the task, waits for it and frees it. To be called before the program and the context are
 * freed. */
TESSERA_API void tessera_task_free(TesseraTask *task);

/* One of several kernels that a program will need. */
typedef struct TesseraRequest {
    TesseraProgram *program;
    TesseraOptions options;
    TesseraKernel *kernel; /* the result; NULL on failure */
    TesseraStatus status;  /* of this request */
} TesseraRequest;
/* Compiles all requests as tasks, and loads the kernels on the device (NULL: on none) until one
 * fails. The returned status and the error of the context are those of the first failure. */
TESSERA_API TesseraStatus tessera_compile_all(TesseraContext *context, TesseraRequest *requests,
                                              size_t n, TesseraDevice *device);
/* Generates and loads the code, as the first tessera_prepare on the device would. */
TESSERA_API TesseraStatus tessera_kernel_load(TesseraKernel *kernel, TesseraDevice *device);

/* ---- ahead of time: kernels as a part of a program ---- */

typedef struct TesseraBundleOptions {
    const char *name;   /* the prefix of all names in the header: "k" for k_softmax_bf16 */
    const char *kernel; /* NULL: all of the program */
    const char *const *targets; /* each kernel is compiled for each; not "native" */
    size_t n_targets;
    /* A kernel is compiled for each variant that mentions only parameters and sizes of that kernel,
     * or without a variant if there is none; and once more for any size. The members kernel and
     * target are ignored. */
    const TesseraOptions *variants;
    size_t n_variants;
    /* For all kernels that have these parameters and sizes: bindings that a variant does not
     * override, and facts that hold at every launch, so that "any size" means any size that
     * satisfies them. */
    const TesseraPair *bindings;
    size_t n_bindings;
    const TesseraFact *facts;
    size_t n_facts;
    bool shared; /* true: a shared library; false: an object file */
} TesseraBundleOptions;

typedef struct TesseraBundled TesseraBundled;
/* Builds a bundle (see "kernels that are part of the program" in <tessera/launch.h>). The same
 * program and options give the same bytes. */
TESSERA_API TesseraStatus tessera_bundle(TesseraProgram *program,
                                         const TesseraBundleOptions *options,
                                         TesseraBundled **bundled);
TESSERA_API void tessera_bundled_free(TesseraBundled *bundled);
/* The header, and the object or library, which must be linked with libtessera-launch (or
 * libtessera). */
TESSERA_API const TesseraBytes *tessera_bundled_header(const TesseraBundled *bundled);
TESSERA_API const TesseraBytes *tessera_bundled_object(const TesseraBundled *bundled);

/* ---- the compile cache ----
 *
 * Machine code is stored in a folder of the user, one file per entry, under the digest of
 * everything that it was generated from: sources, options, targets, this build. Damaged entries,
 * and entries of other users, are not used. If the cache cannot be read or written, compilation
 * works without it, and tessera_cache_info gives the reason. Several processes may use one
 * folder. */

/* Sets the cache of later calls with this context. folder NULL: $TESSERA_CACHE, else
 * $XDG_CACHE_HOME/tessera, else $HOME/.cache/tessera; "off", also as the value of $TESSERA_CACHE:
 * no cache. limit: maximum bytes, beyond which the least recently used entries are removed; 0:
 * $TESSERA_CACHE_SIZE ("500M"), else 2 GiB. */
TESSERA_API TesseraStatus tessera_cache_use(TesseraContext *context, const char *folder,
                                            int64_t limit);

/* If true, later calls with this context take machine code from the cache only; code that is not in
 * the cache is an environment error. For processes that must not compile. */
TESSERA_API TesseraStatus tessera_cache_only(TesseraContext *context, bool only);

/* New members come at the end. */
typedef struct TesseraCacheInfo {
    const char *folder; /* NULL: there is none */
    const char *why;    /* why the cache is not used; NULL: it is used */
    int64_t limit;
    uint64_t entries, bytes;
    uint64_t hits, misses, kept, refused; /* of this context; refused: damaged entries */
} TesseraCacheInfo;
/* The texts are valid until the next tessera_cache_use. */
TESSERA_API TesseraStatus tessera_cache_info(TesseraContext *context, TesseraCacheInfo *info);

typedef struct TesseraCacheEntry {
    const char *name;  /* of the file */
    const char *about; /* "softmax for sm_90a"; NULL: it is damaged */
    uint64_t bytes;
    int64_t used; /* time of the last use in seconds since 1970, rounded to an hour */
} TesseraCacheEntry;
/* Lists all entries, the most recently used first. Valid until the next call of this function with
 * the context. */
TESSERA_API TesseraStatus tessera_cache_list(TesseraContext *context,
                                             const TesseraCacheEntry **entries, size_t *n);
/* Reads all entries and removes damaged ones. Returns how many were read, and how many of them were
 * damaged. */
TESSERA_API TesseraStatus tessera_cache_verify(TesseraContext *context, size_t *checked,
                                               size_t *damaged);
/* Removes the least recently used entries until the others take at most this many bytes; 0: removes
 * all. */
TESSERA_API TesseraStatus tessera_cache_prune(TesseraContext *context, int64_t bytes,
                                              size_t *removed);

/* ---- compiling in a process of its own ----
 *
 * LLVM ends its process when it cannot continue. A worker is a program that compiles one kernel and
 * exits. If it crashes or takes too long, the caller gets an error with a reproducer and continues.
 * The program tessera-worker is searched next to the library and in ../bin; it ends with the thread
 * that started it. Compiling in a worker takes a few milliseconds more. */

typedef enum TesseraIsolate {
    TESSERA_ISOLATE_NEVER, /* the initial setting of a context */
    TESSERA_ISOLATE_AUTO,  /* if a worker is found */
    TESSERA_ISOLATE_ALWAYS,
} TesseraIsolate;
/* Sets when later calls with this context use a worker. worker NULL: $TESSERA_WORKER, or else it is
 * searched. seconds: time limit of a worker; 0: 60. */
TESSERA_API TesseraStatus tessera_isolate(TesseraContext *context, TesseraIsolate when,
                                          const char *worker, double seconds);

/* ---- what this machine has ---- */

typedef enum TesseraHealth {
    TESSERA_HEALTHY,
    TESSERA_ABSENT, /* not found; `cost` says what is not possible without it */
    TESSERA_BROKEN, /* found, but it cannot be used */
} TesseraHealth;

/* The result for one driver, device or tool. New members come at the end. */
typedef struct TesseraFinding {
    const char *part; /* "compiler", "cpu", "cuda", "cuda:0", "hip", "ptxas", "cache", … */
    TesseraHealth health;
    const char *text;                /* what was found, or what is wrong */
    const char *version;             /* or NULL */
    const char *looked_for;          /* names of files, or NULL */
    const char *cost, *help;         /* what is not possible, and how to change that; or NULL */
    const TesseraDeviceInfo *device; /* or NULL */
} TesseraFinding;

/* Looks for drivers, devices and tools, and runs a small kernel on each device. Something missing
 * is not an error of this call. The findings are valid until the next call with the context. */
TESSERA_API TesseraStatus tessera_doctor(TesseraContext *context, const TesseraFinding **findings,
                                         size_t *n);

/* ---- launching ---- */

/* Prepares a launch: loads the code if necessary, checks sizes, strides, types, alignment, overlap
 * and, on CUDA, that the device can access the memory, and packs the arguments. The memory of the
 * tensors remains the caller's. On CUDA, the driver assembles the code, or the ptxas that
 * $TESSERA_PTXAS names. */
TESSERA_API TesseraStatus tessera_prepare(TesseraKernel *kernel, TesseraDevice *device,
                                          const TesseraArg *args, size_t n_args,
                                          TesseraLaunch **launch);
/* Messages of the last tessera_interpret. */
TESSERA_API TesseraStatus tessera_interpret_messages(TesseraContext *context,
                                                     TesseraMessages *messages);

/* ---- the reference interpreter ---- */

/* Runs the kernel in the reference interpreter, slowly, on arrays in host memory. options.target is
 * optional; if it is given, loops over ranges have the steps of that target's schedule, so that
 * values which are rounded once per step are rounded as in code for that target. */
TESSERA_API TesseraStatus tessera_interpret(TesseraProgram *program, const TesseraOptions *options,
                                            const TesseraArg *args, size_t n_args);

typedef struct TesseraDifference {
    size_t different; /* number of elements that differ by more than their bound */
    size_t first;     /* index of the first of them */
    double got, want, bound;
    double worst; /* maximum of difference / bound; > 1 or infinite: different */
} TesseraDifference;
/* Compares arrays in host memory. With a bound of 0, or NULL for all elements, the bits must be
 * equal, except that all NaNs are equal. TESSERA_DIFFERENT is returned without recording an
 * error. */
TESSERA_API TesseraStatus tessera_compare(TesseraType type, size_t n, const void *got,
                                          const void *want, const double *bound,
                                          TesseraDifference *difference);

#ifdef __cplusplus
}
#endif

#endif
