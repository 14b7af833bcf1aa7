/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera: devices, and kernels on them that are compiled already. It is all in libtessera, and its
 * header <tessera/tessera.h> includes this one.
 *
 * Every call that can fail returns a TesseraStatus; tessera_error has the words. Nothing here
 * prints, exits, or keeps global state. A context, and what was made with it, is for one thread at
 * a time. Text and bytes that a call hands out live as long as the object that they were asked of.
 * Objects are freed by their `_free`, NULL allowed: launches before the devices that they run on,
 * the context last. Any other argument that is NULL where something is needed is an error of usage,
 * or an answer of nothing. */
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
TESSERA_API void tessera_context_free(TesseraContext *context);

typedef struct TesseraError {
    TesseraStatus status;
    const char *message;    /* for people; errors in a source show the line and a caret */
    int driver_code;        /* what the device's driver said; 0: it was not the driver */
    const char *reproducer; /* of an internal error: text to attach to a report; else NULL */
} TesseraError;

/* Of the last call that failed. Valid until the next call with the context. */
TESSERA_API const TesseraError *tessera_error(const TesseraContext *context);

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
TESSERA_API void tessera_release(TesseraDevice *device, void *memory);
TESSERA_API TesseraStatus tessera_copy_in(TesseraDevice *device, void *to, const void *from_host,
                                          size_t bytes);
TESSERA_API TesseraStatus tessera_copy_out(TesseraDevice *device, void *to_host, const void *from,
                                           size_t bytes);
/* Waits for all work of a stream (NULL: the default one); reports a kernel's fault. */
TESSERA_API TesseraStatus tessera_sync(TesseraDevice *device, void *stream);

/* ---- launching ---- */

typedef struct TesseraLaunch TesseraLaunch;

TESSERA_API void tessera_launch_free(TesseraLaunch *launch);
/* stream: CUstream or hipStream_t; NULL: the default one. On a GPU it returns before the kernel is
 * done. */
TESSERA_API TesseraStatus tessera_launch(TesseraLaunch *launch, void *stream);
/* Seconds that `times` launches take, back to back, by the device's clock. */
TESSERA_API TesseraStatus tessera_launch_time(TesseraLaunch *launch, void *stream, int times,
                                              double *seconds);
/* Seconds of one copy of `bytes` within the device: the measure of what memory can do. */
TESSERA_API TesseraStatus tessera_copy_time(TesseraDevice *device, void *to, const void *from,
                                            size_t bytes, int times, double *seconds);

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
 * kernel goes on, and its results are whatever they are. Valid until the next call of this or
 * tessera_interpret with the context. */
TESSERA_API TesseraStatus tessera_launch_messages(TesseraLaunch *launch, void *stream,
                                                  TesseraMessages *messages);

#ifdef __cplusplus
}
#endif

#endif
