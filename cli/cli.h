/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs share: the command line as read, arrays of the host, files, failing. */
#ifndef TESSERA_CLI_CLI_H
#define TESSERA_CLI_CLI_H

#include "runtime/debug.h"

#include <tessera/tessera.h>

#include <signal.h>
#include <stdio.h>

/* ---- the command line (options.c) ---- */

typedef struct Strings {
    const char **items;
    size_t n;
} Strings;

enum { NO_TIMEOUT = -1 }; /* none is given */

/* M=1k..16k:x2 or :+512 */
typedef struct SizeRange {
    const char *name;
    int64_t first, last, factor, step; /* one of factor and step is 0 */
} SizeRange;
/* The next value; false: there was none, and it is the first one again. */
bool size_range_next(const SizeRange *range, int64_t *value);

typedef struct Options {
    const char *path, *kernel; /* FILE.tile:KERNEL */
    Strings values;            /* NAME=VALUE after the file */
    Strings outputs;           /* -o */
    Strings targets, variants; /* --target, of which `target` is the last, --variant */
    struct {
        TesseraPair *items;
        size_t n;
    } sets;
    struct {
        TesseraSize *items;
        size_t n;
    } sizes;
    struct {
        SizeRange *items;
        size_t n;
    } ranges; /* sizes that are walked */
    struct {
        TesseraFact *items;
        size_t n;
    } facts;
    struct {
        TesseraPair *items;
        size_t n;
    } strides;
    Strings lines, skips;
    const char *target, *emit, *device, *stop_after, *print_after;
    uint64_t seed;
    int threads, rounds, optimize;
    bool no_jit;
    const char *isolate; /* or NULL */
    int timeout;         /* seconds, 0: any; or NO_TIMEOUT */
    int64_t limit;       /* bytes; -1: none is given */
    bool check, json, print_changed, time_passes, count_work, verify;
    bool describe, dependencies, csv;
    const char *compare, *trace, *trap, *html;
    const char *store, *pins; /* files; NULL: where they are by themselves */
    bool no_pins, all;
    /* Of tune; sizes and types as they stand: they may be given again and again. */
    Strings set_texts, size_texts;
    const char *budget, *strategy, *shard, *devices, *work;
    int candidates, workers;
    bool resume;
    Strings allow; /* codes of warnings */
    bool deny;     /* warnings are errors */
} Options;

typedef struct Verb {
    const char *name, *synopsis, *doc;
    unsigned int bit; /* in OptionRow.verbs */
    int (*run)(const Options *options);
} Verb;

typedef struct OptionRow {
    const char *name, *value; /* "--set", "T=bf16,…"; value NULL: a switch */
    unsigned int verbs;
    const char *doc;
} OptionRow;

enum {
    VERB_RUN = 1,
    VERB_COMPILE = 2,
    VERB_EXPLAIN = 4,
    VERB_BENCH = 8,
    VERB_OTHER = 16,
    VERB_FMT = 32,
    VERB_CHECK = 64,
    VERB_DOCTOR = 128,
    VERB_CACHE = 256,
    VERB_TUNE = 512,
};

extern const OptionRow option_rows[];
extern const size_t n_option_rows;
/* 0, or the exit code after a message. */
int options_read(const Verb *verb, int argc, char **argv, Options *options);
/* One piece of the value of such options, which `option` names in messages. */
int set_read(const char *option, const char *piece, Options *options);
int size_read(const char *option, const char *piece, Options *options);
int fact_read(const char *option, const char *piece, Options *options);
int strides_read(const char *option, const char *text, Options *options);
/* "M" of "M=3", kept, or NULL when it is no NAME=VALUE. */
char *name_before(const char *text, char separator);
/* FILE and KERNEL of FILE.tile[:KERNEL], kept; kernel NULL: there is none. */
void path_split(const char *text, const char **path, const char **kernel);

const Verb *verb_rows(size_t *n);

/* ---- failing and finding (common.c) ---- */

/* The codes of the command line's errors: rows of the table that `tessera explain` shows. */
typedef enum FailCode {
    FAIL_VERB = 1001,
    FAIL_OPTION = 1002,
    FAIL_VALUE = 1003,
    FAIL_SIZE = 1004,
    FAIL_SET = 1005,
    FAIL_READ = 1006,
    FAIL_WRITE = 1007,
    FAIL_NPY = 1008,
    FAIL_DEVICE = 1010,
    FAIL_NO_DEVICE = 1011,
    FAIL_DIFFERENT = 1022,
    FAIL_TIMEOUT = 1023,
    FAIL_ASSUME = 1024,
    FAIL_WHERE_TO = 1025,
    FAIL_HOLD = 1027,
    FAIL_TOGETHER = 1029,
    FAIL_NO_FILE = 1030,
    FAIL_NO_CODE = 1031,
    FAIL_PARAMETER = 1032,
    FAIL_NOT_GIVEN = 1033,
    FAIL_ASSERTION = 1034,
    FAIL_STRIDES = 1035,
    FAIL_SLICE = 1037,
    FAIL_NO_END = 1038,
    FAIL_TRAP = 1039,
    FAIL_PINS = 1050,
    FAIL_STORE = 1051,
    FAIL_SEARCH = 1052,
} FailCode;

/* --diagnostics, wherever it stands: how all that follows is told. Returns 0, or an exit code. */
int diagnostics_read(int argc, char **argv);
/* One diagnostic on stderr; returns the status. */
int fail(TesseraStatus status, const char *format, ...) __attribute__((format(printf, 2, 3)));
int fail_code(FailCode code, TesseraStatus status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What fail_code would say, for who may not print when the time comes: n bytes at most, cut at the
 * end. Returns how many. */
size_t fail_words(char *out, size_t n, FailCode code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void show_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What the last call said, errors or warnings. */
void show_diagnostics(const TesseraContext *context);
/* --allow and -Werror, for the context. */
int session_warn(const Options *options, TesseraContext *context);
/* An assertion that failed is a fault of the kernel: the first one, and how many there were; 0 when
 * all held. */
int fail_assertions(const TesseraMessages *said);
/* The context's error on stderr; keeps a reproducer of an internal one. */
int fail_context(const TesseraContext *context);
/* Ends the program when there is none: the command line tool may. */
void *take(size_t bytes);
char *take_text(const char *text, size_t n);
/* The same until kept_free, at the end of the program: what the command line was read into. */
void *keep(size_t bytes);
char *keep_text(const char *text, size_t n);
/* A larger copy of an array of n items. */
void *keep_more(const void *items, size_t n, size_t item_bytes);
void kept_free(void);

/* Of the names that `at` gives by index until NULL, one that `text` may have been meant to be, or
 * NULL when none is like it. */
const char *nearest_name(const char *text, const char *(*at)(size_t index));

/* What a verb works with. */
typedef struct Session {
    TesseraContext *context;
    TesseraProgram *program;
    const TesseraSignature *signature;
    TesseraDevice *device; /* NULL: none was opened */
    TesseraKernel *kernel;
} Session;
/* Context, debugging switches, program, kernel's signature. */
int session_open(const Options *options, Session *session);
void session_close(Session *session);
/* The debugging switches of the command line; what they tell goes to `to`. */
int session_debug(const Options *options, TesseraContext *context, FILE *to);
/* "cuda:1" */
int session_device(const Options *options, const char *wish, Session *session);
/* 0, or the exit code after a message: there is no kind of devices of this name. */
int check_device_name(const char *kind);
/* Options for the library, with what was inferred from arrays (`known` may be NULL). */
int session_options(const Options *options, Session *session, const TesseraTensor *known,
                    TesseraOptions *out);
/* Target from --target, or of the device of this machine. */
int session_compile(const Options *options, Session *session, const TesseraOptions *compile);

/* The kernels' signatures (describe.c). */
void describe(const Options *options, const Session *session, FILE *to);
/* A rule for make: what `made` is made from, into its file that ends in .d (depend.c). */
int write_dependencies(const TesseraProgram *program, const char *made);

/* ---- machines that read (json.c) ---- */

void json_string(FILE *to, const char *text);
void json_number(FILE *to, double number);
/* A text; a number, with text ""; the end of an object, with text NULL. `path`: its keys, with dots
 * between. */
typedef void JsonEach(void *user, const char *path, const char *text, double number);
/* One value after the other; false when it is no JSON (json_read.c). */
bool json_read(const char *text, JsonEach *each, void *user);

/* ---- being stopped (interrupt.c) ---- */

typedef struct InterruptHold {
    sigset_t before;
} InterruptHold;
void interrupts_begin(void);
/* Between them nobody is stopped. */
void interrupts_hold(InterruptHold *hold);
void interrupts_go_on(const InterruptHold *hold);
/* The file that is removed when the program is stopped, or NULL: none any more. */
void interrupts_remove(const char *path);

/* Between them is compiling: when it takes longer than --timeout, or a minute, the program ends
 * with status 124. */
void timeout_begin(const Options *options);
void timeout_end(void);
/* From here to timeout_end inputs are made, or read: as long as is said, or any time. */
void inputs_begin(const Options *options);
/* Between them a kernel runs, on what `where` says: when that takes longer than --timeout the
 * program ends with status 4; and so it does when `own_code`, which runs on the CPU, makes an
 * access or an instruction that the machine refuses. */
void run_begin(const Options *options, bool own_code, const char *kernel, const char *where);
void run_begin_on(const Options *options, const char *kernel, const TesseraDevice *device);
void run_end(void);

/* ---- files (files.c) ---- */

/* The whole of it, ended by a zero, to be freed; "-": standard input. */
int file_read(const char *path, char **text, size_t *n);

typedef struct OutFile {
    FILE *file;
    const char *path;
    char *temporary; /* NULL: written in place (a pipe, a device, standard output) */
} OutFile;
/* Nothing is seen under `path` before out_close succeeds; "-": standard output. */
int out_open(const char *path, OutFile *out);
int out_close(OutFile *out);
void out_cancel(OutFile *out);
int out_bytes(const char *path, const TesseraBytes *bytes);

/* ---- arrays (npy.c, arrays.c, scalar.c, tensor.c) ---- */

/* Data is taken as it lies in the file, with strides (kept) where that is Fortran order; 0 or an
 * exit code after a message. `wanted`, or NO_TYPE: the parameter's type,
 * where a file's does not tell it: bytes of no type are f8e4m3, or packed for i4 and u4. */
enum { NO_TYPE = -1 };
int npy_read(const char *path, int wanted, TesseraTensor *tensor);
int npy_write(const char *path, const TesseraTensor *tensor);

/* The part that `FILE.npy[::2, 1:].T` names, from `[` or `.T` on; NULL: none. */
const char *slice_after(const char *text);
/* Takes that part of the tensor. */
int slice_apply(const char *text, TesseraTensor *tensor);

typedef struct Array {
    const TesseraParam *param; /* of the bound signature */
    TesseraTensor tensor;      /* in the host's memory */
    bool given;                /* by a file or, a scalar, by its value */
    const char *from, *to;     /* files; of a scalar: its text */
    double number;
    int64_t integer;
    void *block;  /* the host's memory that the tensor lies in, */
    size_t bytes; /* so many of them */
    void *memory; /* the same on the device */
} Array;

/* Strides that it has, given or because it is contiguous. */
void strides_of_tensor(const TesseraTensor *tensor, int64_t *strides);
/* Its elements in row-major order, to be freed. */
void *tensor_packed(const TesseraTensor *tensor);
/* Back to where they lie. */
void tensor_spread(const TesseraTensor *tensor, void *packed);
/* Moves the array to where the words of --strides say (lay.c). */
int array_lay(Array *array, const char *words, const TesseraOptions *compile);

/* Elements; false when there are more bytes than can be. */
bool tensor_bytes(const TesseraTensor *tensor, size_t *elements, size_t *bytes);
/* Standard normal (integers: of a standard deviation of 4, rounded; bool: a coin), from a seed.
 * With `repeat`, a block of it repeated. */
void tensor_random(TesseraTensor *tensor, uint64_t seed, const char *name, bool repeat);
/* "bf16[4, 8]" and a few of its values. */
void tensor_show(FILE *to, const TesseraTensor *tensor, bool values);

/* The parameters of the kernel with what the command line gives them. */
typedef struct Arrays {
    Array *items;
    size_t n;
    TesseraTensor *known; /* by parameter of the unbound signature, for inference */
    size_t n_files;       /* that were read */
    bool random;          /* what is not given may be made up */
    bool bench;           /* nobody looks at the values */
} Arrays;
/* Into number or integer; 0 or an exit code after a message. */
int scalar_read(const TesseraParam *param, const char *text, Array *array);
/* "f32  0.5" */
void scalar_show(FILE *to, const Array *array);
/* Reads the files and scalars that are given. */
int arrays_read(const Options *options, const Session *session, Arrays *arrays,
                Options *with_consts);
/* After compiling: shapes of all, memory for outputs, random inputs where none are given.
 * `scalars`: missing ones are 1, else an error. */
int arrays_complete(const Options *options, const Session *session, const TesseraOptions *compile,
                    bool bench, Arrays *arrays);
/* On the session's device; for the host's interpreter the memory is the arrays' own. */
int arrays_upload(const Session *session, Arrays *arrays, bool copy);
/* Where the tensor begins in another block. */
void *array_moved(const Array *array, void *block);
int arrays_download(const Session *session, Arrays *arrays);
TesseraArg *arrays_args(const Arrays *arrays, bool on_device);
/* What compiling may know of how the arrays that are given lie. */
void arrays_lie(const Arrays *arrays, TesseraOptions *compile);
void arrays_free(const Session *session, Arrays *arrays);

/* ---- verbs ---- */

int verb_run(const Options *options);
int verb_compile(const Options *options);
/* Several targets or variants, in one object (bundle.c). */
bool is_bundle(const Options *options);
int check_bundle(const Options *options);
int compile_bundle(const Options *options, Session *session);
int verb_explain(const Options *options);
/* `explain E0412`, and `explain` alone (codes.c). */
bool is_code(const char *text);
int explain_code(const Options *options);
int verb_bench(const Options *options);
int verb_check(const Options *options);
int verb_tune(const Options *options);
int verb_fmt(const Options *options);
int verb_doctor(const Options *options);
int verb_cache(const Options *options);
int verb_tune(const Options *options);
int verb_targets(const Options *options);
int verb_help(const Options *options);
int verb_version(const Options *options);

#endif
