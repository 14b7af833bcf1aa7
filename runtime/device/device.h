/* SPDX-License-Identifier: Apache-2.0 */
/* Devices behind one table of functions: the host, CUDA and HIP. A device opens its driver with
 * dlopen (or uses an injected one), allocates memory, loads modules and launches kernels. There
 * are no globals: all state is in Device. */
#ifndef TESSERA_RUNTIME_DEVICE_DEVICE_H
#define TESSERA_RUNTIME_DEVICE_DEVICE_H

#include "runtime/device/plan.h"
#include "support/arena.h"
#include "support/diag.h"

/* What went wrong, without allocating: there may be no memory to say so. */
typedef struct DeviceError {
    DiagClass kind;
    int code; /* the driver's number; 0: not from a driver */
    char text[2048];
} DeviceError;
/* Fills `error`; returns false, to be returned. */
bool device_fail(DeviceError *error, DiagClass kind, int code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A driver's call that failed: in whose name, how the driver names the error and puts it (both may
 * be NULL). `what`: the kernel or thing that it was for; may be empty. */
bool device_fail_call(DeviceError *error, DiagClass kind, int code, const char *call,
                      const char *what, const char *name, const char *text);
/* The message for an error that drivers report as an invalid handle. */
#define DEVICE_FOREIGN "the stream, or the event, is of another context, or has been destroyed"

typedef struct DeviceFacts {
    char name[256];
    char target[64]; /* the compiler's target: "native", "sm_90a", "gfx942" */
    int units;       /* multiprocessors, compute units, threads */
    int clock;       /* MHz at most; 0: not known */
    int warp;
    int max_threads;  /* of a block */
    int shared_bytes; /* the maximum of a block */
    size_t memory_bytes;
    int ordinal;        /* the driver's number of the device; the host: 0 */
    int driver_version; /* as the driver encodes it; 0: no driver */
} DeviceFacts;

/* Code to load: bytes (PTX ended by a zero, cubin, code object), or, on the host, code that is
 * already in memory, found by symbol. */
typedef struct DeviceImage {
    const void *bytes;
    size_t n;
    void *(*symbol)(void *user, const char *name);
    void *user;
    const char *name; /* for messages; may be NULL */
} DeviceImage;

typedef struct DeviceKernel {
    void *function;
    const char *symbol; /* of the plan, for messages */
    int threads, shared_bytes, cluster;
    int workers; /* CPU: the maximum number of threads that share the blocks; 0: all */
    bool early;  /* see PlanLaunch */
} DeviceKernel;

enum { DEVICE_MAP_BYTES = 128 };

/* Windows along a spatial axis: where the first begins, how many there are. */
typedef struct DeviceWindows {
    int64_t first, places;
} DeviceWindows;

typedef struct DeviceTensor {
    void *data; /* in device memory */
    DType dtype;
    int rank;
    int64_t dims[PLAN_SCRATCH_RANK];
    bool strided;                       /* otherwise the tensor is contiguous */
    int64_t strides[PLAN_SCRATCH_RANK]; /* in elements */
} DeviceTensor;

/* What is known of a kind of device without opening one. */
typedef struct DeviceProbe {
    char looked_for[1024]; /* names under which the driver's library was searched for */
    char library[512];     /* its path; "": it was not found */
    char version[32];      /* the driver's; "": not known */
    int n_devices;
    DeviceError error; /* text "": nothing is wrong */
} DeviceProbe;

typedef struct Device Device;
typedef struct DeviceOps DeviceOps;
/* The driver's handles of a module, a stream and an event. Stream NULL: the default one. */
typedef void *DeviceModule;
typedef void *DeviceStream;
typedef void *DeviceEvent;

/* Streams, events and graphs. On the host every call is finished when it returns: a stream is only
 * a name, and the functions for graphs are NULL. */
typedef void *DeviceGraph;
typedef struct DeviceStreams {
    bool (*open)(Device *device, DeviceStream *stream, DeviceError *error);
    void (*close)(Device *device, DeviceStream stream);
    /* Creates an event, which is not recorded yet. */
    bool (*event_create)(Device *device, DeviceEvent *event, DeviceError *error);
    bool (*record)(Device *device, DeviceEvent event, DeviceStream stream, DeviceError *error);
    /* Later work of the stream waits for the event. */
    bool (*wait)(Device *device, DeviceStream stream, DeviceEvent event, DeviceError *error);
    bool (*event_sync)(Device *device, DeviceEvent event, DeviceError *error);
    /* Page-locked host memory, for asynchronous copies. */
    bool (*pin)(Device *device, size_t bytes, void **memory, DeviceError *error);
    void (*unpin)(Device *device, void *memory);
    bool (*copy_in)(Device *device, void *to, const void *from, size_t n, DeviceStream stream,
                    DeviceError *error);
    bool (*copy_out)(Device *device, void *to, const void *from, size_t n, DeviceStream stream,
                     DeviceError *error);
    /* To `device`, in one of its streams, from another device of the same kind. */
    bool (*copy_peer)(Device *device, void *to, Device *other, const void *from, size_t n,
                      DeviceStream stream, DeviceError *error);
    bool (*capture)(Device *device, DeviceStream stream, DeviceError *error);
    bool (*captured)(Device *device, DeviceStream stream, DeviceGraph *graph, DeviceError *error);
    bool (*replay)(Device *device, DeviceGraph graph, DeviceStream stream, DeviceError *error);
    void (*drop)(Device *device, DeviceGraph graph);
} DeviceStreams;

struct DeviceOps {
    const char *name; /* "cpu", "cuda", "hip" */
    /* NULL: the kind needs no driver. `driver`: as in device_open. */
    void (*probe)(const void *driver, DeviceProbe *probe);
    bool (*open)(Device *device, int ordinal, DeviceError *error);
    /* Instead of open: uses the driver's context of the caller. NULL: the kind has no contexts. */
    bool (*wrap)(Device *device, void *native, DeviceError *error);
    void (*close)(Device *device);
    bool (*alloc)(Device *device, size_t bytes, void **memory, DeviceError *error);
    void (*release)(Device *device, void *memory);
    /* Whether kernels can access this memory; true if unknown. NULL: it is never known. */
    bool (*reaches)(Device *device, const void *memory);
    /* Both run after all earlier work of the default stream, and are finished when they return. */
    bool (*copy_in)(Device *device, void *to, const void *from, size_t n, DeviceError *error);
    bool (*copy_out)(Device *device, void *to, const void *from, size_t n, DeviceError *error);
    /* Within the device, in order with launches. */
    bool (*copy)(Device *device, void *to, const void *from, size_t n, DeviceStream stream,
                 DeviceError *error);
    bool (*load)(Device *device, const DeviceImage *image, DeviceModule *module,
                 DeviceError *error);
    void (*unload)(Device *device, DeviceModule module);
    /* The function of one launch of the plan, ready for its shared memory. */
    bool (*find)(Device *device, DeviceModule module, const PlanLaunch *launch,
                 DeviceKernel *kernel, DeviceError *error);
    /* Encodes a tensor map for TMA in `bytes`, which is aligned to 64. `windows`: of each spatial
     * axis, for an im2col map. NULL: the kind has no tensor maps. */
    bool (*map)(Device *device, const PlanTensorMap *map, const DeviceTensor *tensor,
                const DeviceWindows *windows, void *bytes, DeviceError *error);
    /* `args` are in the order of PlanLaunch.args. */
    bool (*launch)(Device *device, const DeviceKernel *kernel, int64_t blocks, void **args,
                   DeviceStream stream, DeviceError *error);
    bool (*sync)(Device *device, DeviceStream stream, DeviceError *error);
    /* Creates an event and records it in the stream, for timing. */
    bool (*event_record)(Device *device, DeviceStream stream, DeviceEvent *event,
                         DeviceError *error);
    /* Waits for `last`. */
    bool (*elapsed)(Device *device, DeviceEvent first, DeviceEvent last, double *seconds,
                    DeviceError *error);
    void (*event_destroy)(Device *device, DeviceEvent event);
    const DeviceStreams *streams;
    bool points; /* an ARG_POINTER's entry of args is the address itself, not where it is kept */
};

struct Device {
    const DeviceOps *ops;
    Allocator allocator;
    DeviceFacts facts;
    const void *driver;    /* the injected driver's table, or NULL: load one */
    void *state;           /* private to the kind */
    struct Memory *memory; /* its allocations (device_memory.h); NULL: there are none yet */
    const char *running;   /* the last launch that was not waited for, for messages; or NULL */
};

extern const DeviceOps device_host, device_cuda, device_hip;
/* All kinds, accelerators first. */
const DeviceOps *const *device_kinds(size_t *n);
const DeviceOps *device_kind(const char *name);

/* `driver`: CudaDriver or HipDriver to use instead of the installed one; NULL normally. On the
 * host `ordinal` is the number of threads, 0: one a CPU that the process may use. */
Device *device_open(const DeviceOps *ops, Allocator allocator, int ordinal, const void *driver,
                    DeviceError *error);
Device *device_wrap(const DeviceOps *ops, Allocator allocator, void *native, const void *driver,
                    DeviceError *error);
void device_close(Device *device);

void *device_host_alloc(Device *device, size_t bytes); /* zeroed memory of the host, or NULL */
void device_host_free(Device *device, void *memory);

#endif
