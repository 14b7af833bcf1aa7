/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera: devices, and launches of kernels that are already compiled. All of it is in libtessera,
 * too, whose header <tessera/tessera.h> includes this one.
 *
 * Every call that can fail returns a TesseraStatus; tessera_error has the message. Nothing here
 * prints, exits, or keeps global state. A context and the objects that were created with it may be
 * used by one thread at a time; other threads use other contexts. Text and bytes that a call
 * returns live as long as the object that the call was made on. Objects are freed by their `_free`,
 * which accepts NULL: launches before the devices that they run on, the context last. Any other
 * argument that is NULL although a value is needed is a usage error, or gives an empty answer. The
 * same holds for a freed object, unless 64 others of the context have been freed since, and for a
 * launch whose device or kernel was freed; freeing twice does nothing. A stream of another context
 * is an error of the driver. */
#ifndef TESSERA_LAUNCH_H
#define TESSERA_LAUNCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TESSERA_API __attribute__((visibility("default")))
#define TESSERA_VERSION "0.1.0"

/* Whose fault it was. The numbers are the exit codes of the program `tessera`. */
typedef enum TesseraStatus {
    TESSERA_OK = 0,
    TESSERA_SOURCE = 1,      /* the program text, or a size or value that it does not allow */
    TESSERA_USAGE = 2,       /* an unknown target, option or kernel; a wrong argument */
    TESSERA_ENVIRONMENT = 3, /* a driver, a device, a file, memory */
    TESSERA_FAULT = 4,       /* the kernel failed while running; the device may be unusable */
    TESSERA_DIFFERENT = 5,   /* answers differ */
    TESSERA_INTERNAL = 70,   /* a bug of Tessera */
    TESSERA_CANCELLED = 130, /* by tessera_task_cancel */
} TesseraStatus;

/* Version of the library: "0.1.0". */
TESSERA_API const char *tessera_version(void);

/* ---- context and errors ---- */

typedef struct TesseraContext TesseraContext;

typedef struct TesseraAllocator {
    void *(*alloc)(void *user, size_t bytes); /* NULL on failure */
    void (*release)(void *user, void *memory);
    void *user;
} TesseraAllocator;

/* allocator NULL: malloc and free. LLVM and drivers take their own memory. */
TESSERA_API TesseraStatus tessera_context_new(const TesseraAllocator *allocator,
                                              TesseraContext **context);
/* The version of the structures of this header and of tessera.h: it counts up when one of them gets
 * a member, at its end. A library knows all earlier ones: with a context it gives and takes what
 * the header has that the program was compiled with. Of a later header it is an error of the
 * environment. A program that is compiled calls this by the name above. */
#define TESSERA_ABI 1
TESSERA_API TesseraStatus tessera_context_open(int abi, const TesseraAllocator *allocator,
                                               TesseraContext **context);
#define tessera_context_new(allocator, context)                                                    \
    tessera_context_open(TESSERA_ABI, (allocator), (context))
TESSERA_API void tessera_context_free(TesseraContext *context);

typedef struct TesseraError {
    TesseraStatus status;
    const char *message;    /* for people; errors in a source show the line and a caret */
    int driver_code;        /* what the device's driver said; 0: it was not the driver */
    const char *reproducer; /* of an internal error: text to attach to a report; else NULL */
} TesseraError;

/* Of the last call that failed: calls that succeed leave it. Valid until the next call with the
 * context. Where that call had no context, since what it was asked of is NULL or
 * tessera_context_new failed, it is found with any context or NULL, in the thread that called. */
TESSERA_API const TesseraError *tessera_error(const TesseraContext *context);

/* Messages about what the library does: what was compiled and how long that took, what the cache
 * had, devices, memory that was not released. There are no messages unless a log is set. */
typedef enum TesseraLogLevel {
    TESSERA_LOG_WARNING, /* a fault that does not end the call */
    TESSERA_LOG_INFO,    /* something was done */
} TesseraLogLevel;
typedef void TesseraLog(void *user, TesseraLogLevel level, const char *message);
/* Sets the log of later calls with this context; NULL: none. The call that causes a message calls
 * the log, which must not call a function with the same context. */
TESSERA_API TesseraStatus tessera_log(TesseraContext *context, TesseraLog *log, void *user);

/* ---- element types ---- */

typedef enum TesseraType {
    TESSERA_BOOL, /* a byte: 0 or 1 */
    TESSERA_I8,
    TESSERA_I16,
    TESSERA_I32,
    TESSERA_I64,
    TESSERA_U8,
    TESSERA_U16,
    TESSERA_U32,
    TESSERA_U64,
    TESSERA_F16,
    TESSERA_BF16,
    TESSERA_F32,
    TESSERA_F64,
    TESSERA_F8E4M3, /* OCP's: no infinity, converting to it saturates */
    TESSERA_F8E5M2,
    TESSERA_I4, /* two a byte, the first in the low half, whatever the array's shape */
    TESSERA_U4,
} TesseraType;

/* ---- arrays and arguments ---- */

enum { TESSERA_MAX_RANK = 8 };

/* Row-major, contiguous, or with strides: then a kernel must have been compiled for such, by
 * options.args or options.strides. Elements of what is written share no memory. */
typedef struct TesseraTensor {
    void *data; /* element [0, 0, …], which need not be the lowest */
    TesseraType type;
    int rank;
    int64_t dims[TESSERA_MAX_RANK];
    /* From one element to the next along each axis, in elements: 0 where an axis repeats the same
     * ones, negative where it goes backwards. NULL: contiguous, as i4 and u4 always are. */
    const int64_t *strides;
} TesseraTensor;

/* One for each parameter that is not const, in the order of the signature. */
typedef struct TesseraArg {
    TesseraTensor tensor; /* data: memory of the device of the launch */
    double number;        /* a float scalar */
    int64_t integer;      /* an integer or bool scalar */
    double *bound;        /* tessera_interpret, outputs: filled with how far from the interpreter's
                             value an executor may be, an element each; NULL: not wanted */
} TesseraArg;

/* ---- devices ---- */

typedef struct TesseraDevice TesseraDevice;

typedef struct TesseraDeviceInfo {
    const char *kind;   /* "cpu", "cuda", "hip" */
    const char *name;   /* "NVIDIA H200" */
    const char *target; /* what to compile for */
    int units;          /* multiprocessors, compute units, threads */
    size_t memory_bytes;
    int warp, max_threads, shared_bytes; /* of a block, the last two */
} TesseraDeviceInfo;

/* kind: "cpu", "cuda", "hip" or "auto" (the first that is there, accelerators first). ordinal:
 * which one; for "cpu" the number of threads, 0: all that the process may use. */
TESSERA_API TesseraStatus tessera_device_open(TesseraContext *context, const char *kind,
                                              int ordinal, TesseraDevice **device);
TESSERA_API void tessera_device_free(TesseraDevice *device);
TESSERA_API const TesseraDeviceInfo *tessera_device_info(const TesseraDevice *device);

/* Memory of the device, aligned for every kernel. Memory that others allocated there (cudaMalloc, a
 * tensor library) will do as well. */
TESSERA_API TesseraStatus tessera_alloc(TesseraDevice *device, size_t bytes, void **memory);
/* Frees what tessera_alloc returned. Any other pointer, or the same one again, is ignored with a
 * message in the log. */
TESSERA_API void tessera_release(TesseraDevice *device, void *memory);
TESSERA_API TesseraStatus tessera_copy_in(TesseraDevice *device, void *to, const void *from_host,
                                          size_t bytes);
TESSERA_API TesseraStatus tessera_copy_out(TesseraDevice *device, void *to_host, const void *from,
                                           size_t bytes);
/* Waits for all work of a stream (NULL: the default one); reports a kernel's fault. */
TESSERA_API TesseraStatus tessera_sync(TesseraDevice *device, void *stream);

/* A device on what the caller has: kind "cuda", a CUcontext, which stays the caller's and outlives
 * the device; "hip", the device's number as a pointer. */
TESSERA_API TesseraStatus tessera_device_wrap(TesseraContext *context, const char *kind,
                                              void *native, TesseraDevice **device);

/* ---- memory that is used again ----
 *
 * tessera_alloc and tessera_release ask the driver, which takes long and may wait for the device.
 * Each device has a pool besides, whose memory belongs to streams: what is released in a stream may
 * be had again in that stream at once, since work there is done in order, and in others when the
 * stream has been waited for (tessera_sync). No thread waits, and the driver is asked only for what
 * is not there. The workspaces of launches come from it, too. */

/* For work in `stream`. Where the driver has no more, it gets back what is kept, and is asked
 * again. Not while the stream is captured: what a graph uses is out as long as the graph is. */
TESSERA_API TesseraStatus tessera_pool_alloc(TesseraDevice *device, size_t bytes, void *stream,
                                             void **memory);
/* All work that uses it has been put into this stream, or comes before what the stream gets from
 * now on (tessera_event_wait). Memory that is not out is an error of usage, NULL is none. */
TESSERA_API TesseraStatus tessera_pool_release(TesseraDevice *device, void *memory, void *stream);
/* How many bytes are kept for later, 256 MiB when nothing is said. What is more goes back to the
 * driver, at once; 0: all of it. */
TESSERA_API TesseraStatus tessera_pool_keep(TesseraDevice *device, size_t bytes);

/* Of one device. "Now" is what is out: given, and not given back. Bytes are those that were asked
 * for, but of `kept` and most_pool_bytes those that the driver gave, an eighth more at most. New
 * members come at the end. */
typedef struct TesseraMemory {
    size_t allocations, bytes;          /* of tessera_alloc, now */
    size_t most_bytes;                  /* at any time */
    uint64_t total;                     /* allocations, ever */
    size_t pinned, pinned_bytes;        /* of tessera_alloc_host, now */
    size_t pooled, pooled_bytes;        /* of tessera_pool_alloc, now */
    size_t workspaces, workspace_bytes; /* of launches that are prepared, now */
    size_t kept, kept_bytes;            /* in the pool, ready to be used again */
    size_t most_pool_bytes;             /* out of the pool and kept in it, at any time */
    uint64_t pool_total, reused; /* allocations of the pool, ever, and how many were kept ones */
} TesseraMemory;
TESSERA_API TesseraStatus tessera_memory(TesseraDevice *device, TesseraMemory *memory);

typedef struct TesseraAllocation {
    const void *memory;
    size_t bytes;
    uint64_t number;  /* counted from 1 over all allocations of the device */
    const char *what; /* "tessera_alloc", "tessera_pool_alloc", … */
} TesseraAllocation;
/* What is allocated, in the order of the allocations: where two lists differ, something was not
 * released. Valid until the next call of this with the device. When the device is freed, what is
 * still allocated is freed, with a message in the log. */
TESSERA_API TesseraStatus tessera_memory_list(TesseraDevice *device, const TesseraAllocation **list,
                                              size_t *n);

/* ---- streams, events, graphs ----
 *
 * A stream is the driver's own, a CUstream or hipStream_t: others' can be given wherever one is
 * wanted, and ours to others. NULL is the default stream. On the CPU all work is done when the call
 * returns, whatever its stream; it has no graphs. */

/* One that does not wait for the default stream. Freed by its device, before it. */
TESSERA_API TesseraStatus tessera_stream_new(TesseraDevice *device, void **stream);
TESSERA_API void tessera_stream_free(TesseraDevice *device, void *stream);

/* A moment in a stream, when it has been recorded there; before that, one that is past. */
typedef struct TesseraEvent TesseraEvent;
TESSERA_API TesseraStatus tessera_event_new(TesseraDevice *device, TesseraEvent **event);
TESSERA_API void tessera_event_free(TesseraEvent *event);
TESSERA_API TesseraStatus tessera_event_record(TesseraEvent *event, void *stream);
/* Later work of the stream runs after the event; the call does not wait. */
TESSERA_API TesseraStatus tessera_event_wait(TesseraEvent *event, void *stream);
/* Waits until it has happened; reports a kernel's fault. */
TESSERA_API TesseraStatus tessera_event_sync(TesseraEvent *event);
/* Seconds between two; waits for the last. That one was never recorded is an error of usage. */
TESSERA_API TesseraStatus tessera_event_elapsed(TesseraEvent *first, TesseraEvent *last,
                                                double *seconds);

/* What a stream gets between begin and end is not done but kept, and can be launched again and
 * again as one. Arguments are kept as they are then: launches and their memory outlive the graph.
 * Those that are captured have been made in this stream before, or tessera_launch_reserve has. */
typedef struct TesseraGraph TesseraGraph;
TESSERA_API TesseraStatus tessera_capture_begin(TesseraDevice *device, void *stream);
TESSERA_API TesseraStatus tessera_capture_end(TesseraDevice *device, void *stream,
                                              TesseraGraph **graph);
TESSERA_API TesseraStatus tessera_graph_launch(TesseraGraph *graph, void *stream);
TESSERA_API void tessera_graph_free(TesseraGraph *graph);

/* Memory of the host that the device reads and writes by itself: copies of it in a stream continue
 * while the caller does. Of other memory they may wait. */
TESSERA_API TesseraStatus tessera_alloc_host(TesseraDevice *device, size_t bytes, void **memory);
TESSERA_API void tessera_release_host(TesseraDevice *device, void *memory);
TESSERA_API TesseraStatus tessera_copy_in_async(TesseraDevice *device, void *to,
                                                const void *from_host, size_t bytes, void *stream);
TESSERA_API TesseraStatus tessera_copy_out_async(TesseraDevice *device, void *to_host,
                                                 const void *from, size_t bytes, void *stream);
/* Within a device, or from another of its kind, in a stream of the one that it goes to. The first
 * copy between two gives each access to the other's memory, so that copies take the link between
 * them; where there is none, they go by way of the host. */
TESSERA_API TesseraStatus tessera_copy(TesseraDevice *device, void *to, TesseraDevice *from_device,
                                       const void *from, size_t bytes, void *stream);

/* ---- tensors of others, through DLPack ----
 *
 * struct DLManagedTensor is that of dlpack.h, which who has such tensors has. */

struct DLManagedTensor;
/* What it describes, and where that lies: `kind` and `ordinal` as tessera_device_open takes them,
 * NULL where that is not wanted. Nothing is copied: the tensor is good until the deleter is called,
 * which stays with the caller. */
TESSERA_API TesseraStatus tessera_dlpack_in(TesseraContext *context,
                                            const struct DLManagedTensor *managed,
                                            TesseraTensor *tensor, const char **kind, int *ordinal);
/* The other way, for memory of this device: who takes it calls its deleter, and that `release`
 * (NULL: nothing) with `user`, at any time and in any thread. */
TESSERA_API TesseraStatus tessera_dlpack_out(TesseraDevice *device, const TesseraTensor *tensor,
                                             void (*release)(void *user), void *user,
                                             struct DLManagedTensor **managed);

/* ---- launching ---- */

typedef struct TesseraLaunch TesseraLaunch;

TESSERA_API void tessera_launch_free(TesseraLaunch *launch);
/* stream: CUstream or hipStream_t; NULL: the default one. On a GPU it returns before the kernel is
 * done. */
TESSERA_API TesseraStatus tessera_launch(TesseraLaunch *launch, void *stream);
/* Other memory, or another value, for parameter `index` of the kernel's signature, from the next
 * launch on: shapes, strides and types stay, and the address has the alignment that it must have.
 * Allocates nothing, and copy descriptors get the new address; whether what is written shares
 * memory with anything else is checked by the next launch, when all pointers are set. Launches that
 * were made before keep their arguments. */
TESSERA_API TesseraStatus tessera_launch_set(TesseraLaunch *launch, size_t index, void *data);
TESSERA_API TesseraStatus tessera_launch_set_scalar(TesseraLaunch *launch, size_t index,
                                                    double number, int64_t integer);
/* tessera_launch_set of all tensors at once and tessera_launch: an address for each parameter that
 * is a tensor, in the order of the signature. Those that are as they were cost nothing. */
TESSERA_API TesseraStatus tessera_launch_with(TesseraLaunch *launch, void *stream,
                                              void *const *tensors, size_t n_tensors);
/* Describes an object in DLPack's words: `tensor` is a DLTensor of dlpack.h; not 0: it cannot. The
 * exchange interface of DLPack has such a function for the arrays of a library,
 * dltensor_from_py_object_no_sync. */
typedef int TesseraDescribe(void *object, void *tensor);
typedef struct TesseraSearch {
    TesseraLaunch *const *launches; /* NULL ones are passed over */
    size_t n_launches;
    TesseraDescribe *describe;
    size_t n_objects; /* the first tensors of the signature, or all; at most 64 */
    void **tensors;   /* where their addresses go, as tessera_launch_with wants them */
} TesseraSearch;
/* Which launch was prepared for tensors like the objects: of their types, shapes, strides, device,
 * and with addresses as far from a multiple of 16. -1: none, or an object is not described. No
 * error is kept, and nothing but `describe` is called. */
TESSERA_API int tessera_launch_find(const TesseraSearch *search, void *const *objects);
/* Bytes that the kernel keeps in the device's memory between its launches: intermediates. Each
 * stream in which a launch runs has its own, so that one prepared launch may run in several at
 * once; a stream's is allocated by the first launch in it. */
TESSERA_API size_t tessera_workspace_size(const TesseraLaunch *launch);
/* Allocates it before, so that tessera_launch in this stream allocates nothing and may be captured
 * in a graph. A stream that is destroyed has done its work before, if launches with a workspace ran
 * in it. */
TESSERA_API TesseraStatus tessera_launch_reserve(TesseraLaunch *launch, void *stream);
/* Seconds that `times` launches take, back to back, by the device's clock. */
TESSERA_API TesseraStatus tessera_launch_time(TesseraLaunch *launch, void *stream, int times,
                                              double *seconds);
/* Seconds of one copy of `bytes` within the device: the measure of what memory can do. */
TESSERA_API TesseraStatus tessera_copy_time(TesseraDevice *device, void *to, const void *from,
                                            size_t bytes, int times, double *seconds);

/* ---- kernels that are part of the program ----
 *
 * `tessera compile softmax.tile --set T=bf16 --target sm_90a --target x86-64-v4 --emit bundle -o k`
 * makes k.o, which holds the code for all of its targets, and k.h, which declares a function for
 * each kernel:
 *
 *     TesseraStatus k_softmax_bf16(TesseraDevice *device, void *stream, const void *x, void *out,
 *                                  int64_t M, int64_t N);
 *     TesseraStatus k_softmax_bf16_prepare(TesseraDevice *device, const void *x, void *out,
 *                                          int64_t M, int64_t N, TesseraLaunch **launch);
 *
 * Tensors are contiguous memory of the device. Of the code for the device the one is taken that is
 * made for the fewest sizes and strides, these among them. The first form keeps what it prepared
 * and launches that again for the same sizes in the same stream; what such a kernel prints is not
 * to be had. What it keeps is the device's and lives as long. */

typedef struct TesseraBundle TesseraBundle; /* k.h: extern const TesseraBundle k_bundle */

/* Any types and strides that there is code for. kernel: "softmax", or "softmax_bf16" where element
 * types and shapes leave several. Everything else is as tessera_prepare says. */
TESSERA_API TesseraStatus tessera_bundle_prepare(const TesseraBundle *bundle, const char *kernel,
                                                 TesseraDevice *device, const TesseraArg *args,
                                                 size_t n_args, TesseraLaunch **launch);
/* Which code that is: "softmax_bf16 for sm_90a: N % 8 == 0". NULL: it is from no bundle. */
TESSERA_API const char *tessera_launch_variant(const TesseraLaunch *launch);

/* What the functions of k.o call. values: an address of a tensor, the bits of a scalar in the low
 * bytes; then the sizes. */
TESSERA_API TesseraStatus tessera_bundle_launch(const TesseraBundle *bundle, uint64_t function,
                                                TesseraDevice *device, void *stream,
                                                const uint64_t *values, uint64_t n_values);
TESSERA_API TesseraStatus tessera_bundle_ready(const TesseraBundle *bundle, uint64_t function,
                                               TesseraDevice *device, const uint64_t *values,
                                               uint64_t n_values, TesseraLaunch **launch);

/* ---- what kernels say: print and assert ---- */

typedef struct TesseraMessage {
    bool failed;      /* an assertion that did not hold; else a print */
    const char *text; /* without the end of the line */
    const char *file; /* where the statement stands; NULL: not known */
    int line;
} TesseraMessage;

/* Ordered by the statement, by the indices around it, then in time. */
typedef struct TesseraMessages {
    const TesseraMessage *items;
    size_t n;
    uint64_t lost;     /* how many found the log full, which holds 32768 */
    uint64_t failures; /* assertions that did not hold, lost ones included */
} TesseraMessages;

/* Waits for all work of the stream and takes what has been said since the launch was prepared or
 * last asked. That an assertion does not hold is no error of this call, nor of tessera_sync: the
 * kernel continues, and its results are undefined. Valid until the next call of this or
 * tessera_interpret with the context. */
TESSERA_API TesseraStatus tessera_launch_messages(TesseraLaunch *launch, void *stream,
                                                  TesseraMessages *messages);
/* Does the kernel say anything: is there a print or an assert in it? */
TESSERA_API bool tessera_launch_says(const TesseraLaunch *launch);

#ifdef __cplusplus
}
#endif

#endif
