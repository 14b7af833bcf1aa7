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

/* The cause of a failure. The numbers are the exit codes of the program `tessera`. */
typedef enum TesseraStatus {
    TESSERA_OK = 0,
    TESSERA_SOURCE = 1,      /* an error in the program text, or a size or value that it does not
                                allow */
    TESSERA_USAGE = 2,       /* an unknown target, option or kernel; a wrong argument */
    TESSERA_ENVIRONMENT = 3, /* a failure of a driver, a device, a file or memory */
    TESSERA_FAULT = 4,       /* the kernel failed while running; the device may be unusable */
    TESSERA_DIFFERENT = 5,   /* results differ (tessera_compare) */
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

/* Creates a context. allocator NULL: malloc and free. LLVM and drivers allocate their own
 * memory. */
TESSERA_API TesseraStatus tessera_context_new(const TesseraAllocator *allocator,
                                              TesseraContext **context);
/* `abi` is the version of the structures of this header and of tessera.h, which is incremented when
 * one of them gets a new member at its end. A library supports all earlier versions: it reads and
 * writes only the members of the header with which the program was compiled. A later version is an
 * environment error. Programs call this function through the macro tessera_context_new. */
#define TESSERA_ABI 1
TESSERA_API TesseraStatus tessera_context_open(int abi, const TesseraAllocator *allocator,
                                               TesseraContext **context);
#define tessera_context_new(allocator, context)                                                    \
    tessera_context_open(TESSERA_ABI, (allocator), (context))
TESSERA_API void tessera_context_free(TesseraContext *context);

typedef struct TesseraError {
    TesseraStatus status;
    const char *message;    /* text for users; an error in a source shows the line with a caret */
    int driver_code;        /* error code of the device's driver; 0: the error is not the
                               driver's */
    const char *reproducer; /* for an internal error: text to attach to a report; otherwise NULL */
} TesseraError;

/* The error of the last call that failed; successful calls leave it unchanged. Valid until the next
 * call with the context. If that call had no context, because its object was NULL or
 * tessera_context_new failed, the error is returned for any context or NULL in the thread of the
 * call. */
TESSERA_API const TesseraError *tessera_error(const TesseraContext *context);

/* Log messages about compilations and their times, cache hits, devices, and memory that was not
 * released. There are none unless a log is set. */
typedef enum TesseraLogLevel {
    TESSERA_LOG_WARNING, /* a problem that does not end the call */
    TESSERA_LOG_INFO,    /* an action of the library */
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
    TESSERA_F8E4M3, /* as defined by OCP: no infinity; conversions saturate */
    TESSERA_F8E5M2,
    TESSERA_I4, /* two elements per byte, the first in the low half, for any shape of the array */
    TESSERA_U4,
} TesseraType;

/* ---- arrays and arguments ---- */

enum { TESSERA_MAX_RANK = 8 };

/* A tensor: contiguous and row-major, or with strides, for which the kernel must have been compiled
 * (options.args or options.strides). Elements of a tensor that is written must not share memory. */
typedef struct TesseraTensor {
    void *data; /* element [0, 0, …], which need not be the lowest */
    TesseraType type;
    int rank;
    int64_t dims[TESSERA_MAX_RANK];
    /* Distance between adjacent elements along each axis, in elements: 0 if the axis repeats the
     * same elements, negative if it runs backwards. NULL: contiguous, which i4 and u4 must be. */
    const int64_t *strides;
} TesseraTensor;

/* One argument; a launch has one for each parameter that is not const, in the order of the
 * signature. */
typedef struct TesseraArg {
    TesseraTensor tensor; /* data: memory of the device of the launch */
    double number;        /* value of a float scalar */
    int64_t integer;      /* value of an integer or bool scalar */
    double *bound;        /* for outputs of tessera_interpret: receives, for each element, the
                             maximum difference of a backend from the interpreter's value; NULL:
                             not needed */
} TesseraArg;

/* ---- devices ---- */

typedef struct TesseraDevice TesseraDevice;

typedef struct TesseraDeviceInfo {
    const char *kind;   /* "cpu", "cuda", "hip" */
    const char *name;   /* "NVIDIA H200" */
    const char *target; /* the target for which to compile */
    int units;          /* multiprocessors, compute units, threads */
    size_t memory_bytes;
    int warp, max_threads, shared_bytes; /* of a block, the last two */
} TesseraDeviceInfo;

/* Opens a device. kind: "cpu", "cuda", "hip" or "auto" (the first one that is available,
 * accelerators first). ordinal: the number of the device; for "cpu" the number of threads, 0: all
 * that the process may use. */
TESSERA_API TesseraStatus tessera_device_open(TesseraContext *context, const char *kind,
                                              int ordinal, TesseraDevice **device);
TESSERA_API void tessera_device_free(TesseraDevice *device);
TESSERA_API const TesseraDeviceInfo *tessera_device_info(const TesseraDevice *device);

/* Allocates memory of the device, aligned for every kernel. Memory of the device that was allocated
 * elsewhere (cudaMalloc, a tensor library) can be used as well. */
TESSERA_API TesseraStatus tessera_alloc(TesseraDevice *device, size_t bytes, void **memory);
/* Frees what tessera_alloc returned. Any other pointer, or the same one again, is ignored with a
 * message in the log. */
TESSERA_API void tessera_release(TesseraDevice *device, void *memory);
TESSERA_API TesseraStatus tessera_copy_in(TesseraDevice *device, void *to, const void *from_host,
                                          size_t bytes);
TESSERA_API TesseraStatus tessera_copy_out(TesseraDevice *device, void *to_host, const void *from,
                                           size_t bytes);
/* Waits for all work of a stream (NULL: the default one) and reports a fault of a kernel. */
TESSERA_API TesseraStatus tessera_sync(TesseraDevice *device, void *stream);

/* Opens a device for a driver object of the caller. kind "cuda": a CUcontext, which remains the
 * caller's and must outlive the device; "hip": the number of the device as a pointer. */
TESSERA_API TesseraStatus tessera_device_wrap(TesseraContext *context, const char *kind,
                                              void *native, TesseraDevice **device);

/* ---- pooled memory ----
 *
 * tessera_alloc and tessera_release call the driver, which is slow and may wait for the device.
 * Each device also has a pool of memory that is ordered by streams: memory that is released in a
 * stream can be reused in that stream at once, because work there is executed in order, and in
 * other streams after a tessera_sync of that stream. No call waits, and the driver is called only
 * if the pool has no suitable memory. The workspaces of launches are allocated from the pool as
 * well. */

/* Allocates memory for work in `stream`. If the driver has no more memory, all cached memory is
 * returned to it, and the allocation is tried again. Must not be called while the stream is
 * captured, because memory that a graph uses stays in use as long as the graph exists. */
TESSERA_API TesseraStatus tessera_pool_alloc(TesseraDevice *device, size_t bytes, void *stream,
                                             void **memory);
/* Releases memory to the pool. All work that uses it must have been issued to this stream, or be
 * ordered before the later work of this stream (tessera_event_wait). Memory that is not allocated
 * is a usage error; NULL is ignored. */
TESSERA_API TesseraStatus tessera_pool_release(TesseraDevice *device, void *memory, void *stream);
/* Limits the bytes that the pool caches for reuse; the default is 256 MiB. Memory beyond the limit
 * is returned to the driver at once; 0: all of it. */
TESSERA_API TesseraStatus tessera_pool_keep(TesseraDevice *device, size_t bytes);

/* Memory of one device. "Now" counts allocations that were not released yet. Bytes are as
 * requested, except in `kept_bytes` and `most_pool_bytes`, which count what the driver allocated,
 * at most an eighth more. New members come at the end. */
typedef struct TesseraMemory {
    size_t allocations, bytes;          /* of tessera_alloc, now */
    size_t most_bytes;                  /* at any time */
    uint64_t total;                     /* allocations, ever */
    size_t pinned, pinned_bytes;        /* of tessera_alloc_host, now */
    size_t pooled, pooled_bytes;        /* of tessera_pool_alloc, now */
    size_t workspaces, workspace_bytes; /* of launches that are prepared, now */
    size_t kept, kept_bytes;            /* cached by the pool for reuse */
    size_t most_pool_bytes;             /* allocated from the pool plus cached, maximum at any
                                           time */
    uint64_t pool_total, reused; /* allocations from the pool, ever, and how many reused cached
                                    memory */
} TesseraMemory;
TESSERA_API TesseraStatus tessera_memory(TesseraDevice *device, TesseraMemory *memory);

typedef struct TesseraAllocation {
    const void *memory;
    size_t bytes;
    uint64_t number;  /* counted from 1 over all allocations of the device */
    const char *what; /* "tessera_alloc", "tessera_pool_alloc", … */
} TesseraAllocation;
/* Lists the current allocations in the order in which they were made; comparing two lists shows
 * what was not released in between. Valid until the next call of this function with the device.
 * When the device is freed, remaining allocations are freed with a message in the log. */
TESSERA_API TesseraStatus tessera_memory_list(TesseraDevice *device, const TesseraAllocation **list,
                                              size_t *n);

/* ---- streams, events, graphs ----
 *
 * A stream is a stream of the driver, a CUstream or hipStream_t, so streams can be exchanged with
 * other libraries. NULL is the default stream. On the CPU all work is done when the call returns,
 * for any stream; there are no graphs. */

/* Creates a stream that does not synchronize with the default stream. It must be freed before its
 * device. */
TESSERA_API TesseraStatus tessera_stream_new(TesseraDevice *device, void **stream);
TESSERA_API void tessera_stream_free(TesseraDevice *device, void *stream);

/* An event: a point in a stream after it has been recorded there. An event that was never recorded
 * counts as past. */
typedef struct TesseraEvent TesseraEvent;
TESSERA_API TesseraStatus tessera_event_new(TesseraDevice *device, TesseraEvent **event);
TESSERA_API void tessera_event_free(TesseraEvent *event);
TESSERA_API TesseraStatus tessera_event_record(TesseraEvent *event, void *stream);
/* Makes later work of the stream wait for the event; the call itself does not wait. */
TESSERA_API TesseraStatus tessera_event_wait(TesseraEvent *event, void *stream);
/* Waits until the event has happened and reports a fault of a kernel. */
TESSERA_API TesseraStatus tessera_event_sync(TesseraEvent *event);
/* Returns the seconds between two events; waits for the last one. An event that was never recorded
 * is a usage error. */
TESSERA_API TesseraStatus tessera_event_elapsed(TesseraEvent *first, TesseraEvent *last,
                                                double *seconds);

/* Work that is issued to a stream between begin and end is recorded instead of executed, and can be
 * launched repeatedly as one graph. The graph keeps the arguments of that time; launches and their
 * memory must outlive it. A launch can be captured if it ran in this stream before, or after
 * tessera_launch_reserve. */
typedef struct TesseraGraph TesseraGraph;
TESSERA_API TesseraStatus tessera_capture_begin(TesseraDevice *device, void *stream);
TESSERA_API TesseraStatus tessera_capture_end(TesseraDevice *device, void *stream,
                                              TesseraGraph **graph);
TESSERA_API TesseraStatus tessera_graph_launch(TesseraGraph *graph, void *stream);
TESSERA_API void tessera_graph_free(TesseraGraph *graph);

/* Allocates pinned host memory, which the device accesses directly: asynchronous copies of it
 * overlap with the caller. With other host memory they may block. */
TESSERA_API TesseraStatus tessera_alloc_host(TesseraDevice *device, size_t bytes, void **memory);
TESSERA_API void tessera_release_host(TesseraDevice *device, void *memory);
TESSERA_API TesseraStatus tessera_copy_in_async(TesseraDevice *device, void *to,
                                                const void *from_host, size_t bytes, void *stream);
TESSERA_API TesseraStatus tessera_copy_out_async(TesseraDevice *device, void *to_host,
                                                 const void *from, size_t bytes, void *stream);
/* Copies within a device or from another device of the same kind, in a stream of the destination.
 * The first copy between two devices enables peer access, so that copies use the link between them;
 * without a link they go through the host. */
TESSERA_API TesseraStatus tessera_copy(TesseraDevice *device, void *to, TesseraDevice *from_device,
                                       const void *from, size_t bytes, void *stream);

/* ---- exchanging tensors by DLPack ----
 *
 * struct DLManagedTensor is defined by dlpack.h, which users of such tensors include. */

struct DLManagedTensor;
/* Converts a DLPack tensor. `kind` and `ordinal` receive its device in the form of
 * tessera_device_open; NULL: not needed. Nothing is copied: the tensor is valid until the deleter
 * is called, which remains the responsibility of the caller. */
TESSERA_API TesseraStatus tessera_dlpack_in(TesseraContext *context,
                                            const struct DLManagedTensor *managed,
                                            TesseraTensor *tensor, const char **kind, int *ordinal);
/* Converts a tensor in memory of this device to DLPack. The consumer calls its deleter, which calls
 * `release` (NULL: nothing) with `user`, at any time and in any thread. */
TESSERA_API TesseraStatus tessera_dlpack_out(TesseraDevice *device, const TesseraTensor *tensor,
                                             void (*release)(void *user), void *user,
                                             struct DLManagedTensor **managed);

/* ---- launching ---- */

typedef struct TesseraLaunch TesseraLaunch;

TESSERA_API void tessera_launch_free(TesseraLaunch *launch);
/* Launches the kernel. stream: CUstream or hipStream_t; NULL: the default one. On a GPU it returns
 * before the kernel has finished. */
TESSERA_API TesseraStatus tessera_launch(TesseraLaunch *launch, void *stream);
/* Sets the memory, or the value, of parameter `index` of the kernel's signature for later launches.
 * Shapes, strides and types stay, and the new address must have the required alignment. Nothing is
 * allocated; tensor maps are updated. The next launch checks that written tensors share no memory
 * with others. Launches that were issued before keep their arguments. */
TESSERA_API TesseraStatus tessera_launch_set(TesseraLaunch *launch, size_t index, void *data);
TESSERA_API TesseraStatus tessera_launch_set_scalar(TesseraLaunch *launch, size_t index,
                                                    double number, int64_t integer);
/* Combines tessera_launch_set for all tensors and tessera_launch: one address for each tensor
 * parameter, in the order of the signature. Unchanged addresses cost nothing. */
TESSERA_API TesseraStatus tessera_launch_with(TesseraLaunch *launch, void *stream,
                                              void *const *tensors, size_t n_tensors);
/* Describes an object as a DLTensor of dlpack.h, which `tensor` points to; not 0: it cannot.
 * DLPack's exchange interface has such a function for the arrays of a library,
 * dltensor_from_py_object_no_sync. */
typedef int TesseraDescribe(void *object, void *tensor);
typedef struct TesseraSearch {
    TesseraLaunch *const *launches; /* NULL entries are skipped */
    size_t n_launches;
    TesseraDescribe *describe;
    size_t n_objects; /* the number of objects: the first tensors of the signature, or all; at
                         most 64 */
    void **tensors;   /* receives their addresses, in the form of tessera_launch_with */
} TesseraSearch;
/* Finds the launch that was prepared for tensors with the types, shapes, strides and device of the
 * objects, and with the same remainders of the addresses modulo 16. -1: there is none, or an object
 * cannot be described. No error is recorded, and only `describe` is called. */
TESSERA_API int tessera_launch_find(const TesseraSearch *search, void *const *objects);
/* Bytes of device memory for the intermediates of the kernel. Each stream in which a launch runs
 * has its own workspace, so that a prepared launch may run in several streams at once; the first
 * launch in a stream allocates it. */
TESSERA_API size_t tessera_workspace_size(const TesseraLaunch *launch);
/* Allocates the workspace for a stream in advance, so that tessera_launch in this stream allocates
 * nothing and can be captured. A stream in which launches with a workspace ran must have finished
 * its work before it is destroyed. */
TESSERA_API TesseraStatus tessera_launch_reserve(TesseraLaunch *launch, void *stream);
/* Measures the seconds of `times` launches, back to back, by the device's clock. */
TESSERA_API TesseraStatus tessera_launch_time(TesseraLaunch *launch, void *stream, int times,
                                              double *seconds);
/* Measures the seconds that `times` copies of `bytes` within the device take, back to back: the
 * reference for the bandwidth of memory. */
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
 * Tensors are contiguous memory of the device. Of the variants for the device that support the
 * arguments, the most specialized one is used. The first function caches the prepared launch and
 * reuses it for the same sizes in the same stream; the messages of such a kernel are not available.
 * The cached launches belong to the device and live as long. */

typedef struct TesseraBundle TesseraBundle; /* k.h: extern const TesseraBundle k_bundle */

/* Prepares a launch for any types and strides that the bundle has code for. kernel: "softmax", or
 * "softmax_bf16" if several kernels fit the element types and shapes. Otherwise like
 * tessera_prepare. */
TESSERA_API TesseraStatus tessera_bundle_prepare(const TesseraBundle *bundle, const char *kernel,
                                                 TesseraDevice *device, const TesseraArg *args,
                                                 size_t n_args, TesseraLaunch **launch);
/* The variant that a launch uses: "softmax_bf16 for sm_90a: N % 8 == 0". NULL: the launch is not
 * from a bundle. */
TESSERA_API const char *tessera_launch_variant(const TesseraLaunch *launch);

/* Called by the functions of k.o. values: the addresses of tensors, the bits of scalars in the low
 * bytes, then the sizes. */
TESSERA_API TesseraStatus tessera_bundle_launch(const TesseraBundle *bundle, uint64_t function,
                                                TesseraDevice *device, void *stream,
                                                const uint64_t *values, uint64_t n_values);
TESSERA_API TesseraStatus tessera_bundle_ready(const TesseraBundle *bundle, uint64_t function,
                                               TesseraDevice *device, const uint64_t *values,
                                               uint64_t n_values, TesseraLaunch **launch);

/* ---- kernel messages: print and assert ---- */

typedef struct TesseraMessage {
    bool failed;      /* true: a failed assertion; false: a print */
    const char *text; /* without a newline */
    const char *file; /* source file of the statement; NULL: not known */
    int line;
} TesseraMessage;

/* Ordered by the statement, by the indices around it, then in time. */
typedef struct TesseraMessages {
    const TesseraMessage *items;
    size_t n;
    uint64_t lost;     /* messages lost because the log was full; it holds 32768 */
    uint64_t failures; /* failed assertions, including lost ones */
} TesseraMessages;

/* Waits for all work of the stream and returns the messages since the launch was prepared or since
 * the last call. A failed assertion is not an error of this call, nor of tessera_sync: the kernel
 * continues, and its results are undefined. Valid until the next call of this function or
 * tessera_interpret with the context. */
TESSERA_API TesseraStatus tessera_launch_messages(TesseraLaunch *launch, void *stream,
                                                  TesseraMessages *messages);
/* True if the kernel contains a print or an assert. */
TESSERA_API bool tessera_launch_says(const TesseraLaunch *launch);

#ifdef __cplusplus
}
#endif

#endif
