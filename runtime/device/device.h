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
/* What drivers put as an invalid handle. */
#define DEVICE_FOREIGN "the stream, or the event, is of another context, or has been destroyed"

typedef struct DeviceFacts {
    char name[256];
    char target[64]; /* the compiler's name of it: "native", "sm_90a", "gfx942" */
    int units;       /* multiprocessors, compute units, threads */
    int warp;
    int max_threads;  /* of a block */
    int shared_bytes; /* most that a block may have */
    size_t memory_bytes;
    int ordinal;        /* as the driver counts; the host: 0 */
    int driver_version; /* as the driver counts; 0: no driver */
} DeviceFacts;

/* Code to load: bytes (PTX ended by a zero, cubin, code object), or, on the host, code that is
 * already in memory, found by symbol. */
typedef struct DeviceImage {
    const void *bytes;
    size_t n;
    void *(*symbol)(void *user, const char *name);
    void *user;
    const char *name; /* what messages call it; may be NULL */
} DeviceImage;

typedef struct DeviceKernel {
    void *function;
    const char *symbol; /* the plan's; for messages */
    int threads, shared_bytes, cluster;
    int workers; /* CPU: threads that share the blocks at most; 0: all */
    bool early;  /* see PlanLaunch */
} DeviceKernel;

enum { DEVICE_MAP_BYTES = 128 };

/* Windows along a spatial axis: where the first begins, how many there are. */
typedef struct DeviceWindows {
    int64_t first, places;
} DeviceWindows;

typedef struct DeviceTensor {
    void *data; /* the device's memory */
    DType dtype;
    int rank;
    int64_t dims[PLAN_SCRATCH_RANK];
    bool strided;                       /* else contiguous: */
    int64_t strides[PLAN_SCRATCH_RANK]; /* in elements */
} DeviceTensor;

/* What there is of a kind, without opening a device. */
typedef struct DeviceProbe {
    char looked_for[1024]; /* the driver's library, by its names */
    char library[512];     /* where it is; "": nowhere */
    char version[32];      /* the driver's; "": not known */
    int n_devices;
    DeviceError error; /* text "": nothing is wrong */
} DeviceProbe;

typedef struct Device Device;
typedef struct DeviceOps DeviceOps;
/* A module, a stream and a moment as the device's own handle. Stream NULL: the default one. */
typedef void *DeviceModule;
typedef void *DeviceStream;
typedef void *DeviceEvent;

/* Work in an order of its own. On the host all is done when the call returns: a stream is a name,
 * and there are no graphs (NULL). */
typedef void *DeviceGraph;
typedef struct DeviceStreams {
    bool (*open)(Device *device, DeviceStream *stream, DeviceError *error);
    void (*close)(Device *device, DeviceStream stream);
    /* A moment that is none until it is recorded. */
    bool (*moment)(Device *device, DeviceEvent *moment, DeviceError *error);
    bool (*record)(Device *device, DeviceEvent moment, DeviceStream stream, DeviceError *error);
    /* The stream goes on after the moment. */
    bool (*wait)(Device *device, DeviceStream stream, DeviceEvent moment, DeviceError *error);
    bool (*settle)(Device *device, DeviceEvent moment, DeviceError *error);
    /* Memory of the host from and to which copies run by themselves. */
    bool (*pin)(Device *device, size_t bytes, void **memory, DeviceError *error);
    void (*unpin)(Device *device, void *memory);
    bool (*copy_in)(Device *device, void *to, const void *from, size_t n, DeviceStream stream,
                    DeviceError *error);
    bool (*copy_out)(Device *device, void *to, const void *from, size_t n, DeviceStream stream,
                     DeviceError *error);
    /* To `device`, in a stream of its, from another of the same kind. */
    bool (*copy_peer)(Device *device, void *to, Device *other, const void *from, size_t n,
                      DeviceStream stream, DeviceError *error);
    bool (*capture)(Device *device, DeviceStream stream, DeviceError *error);
    bool (*captured)(Device *device, DeviceStream stream, DeviceGraph *graph, DeviceError *error);
    bool (*replay)(Device *device, DeviceGraph graph, DeviceStream stream, DeviceError *error);
    void (*drop)(Device *device, DeviceGraph graph);
} DeviceStreams;

struct DeviceOps {
    const char *name; /* "cpu", "cuda", "hip" */
    /* NULL where there is no driver. `driver`: as in device_open. */
    void (*probe)(const void *driver, DeviceProbe *probe);
    bool (*open)(Device *device, int ordinal, DeviceError *error);
    /* Instead of open: on a context of the caller's, as the driver has it. NULL: it has none. */
    bool (*wrap)(Device *device, void *native, DeviceError *error);
    void (*close)(Device *device);
    bool (*alloc)(Device *device, size_t bytes, void **memory, DeviceError *error);
    void (*release)(Device *device, void *memory);
    /* May kernels use what lies there? NULL: that is not to be known; true where in doubt. */
    bool (*reaches)(Device *device, const void *memory);
    /* Done when they return, and after all earlier work of the default stream. */
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
    /* NULL where there are no bulk copy descriptors. `bytes` is aligned to 64. `windows`: of
     * each spatial axis, of a map of windows. */
    bool (*map)(Device *device, const PlanTensorMap *map, const DeviceTensor *tensor,
                const DeviceWindows *windows, void *bytes, DeviceError *error);
    /* args: as PlanLaunch.args says. */
    bool (*launch)(Device *device, const DeviceKernel *kernel, int64_t blocks, void **args,
                   DeviceStream stream, DeviceError *error);
    bool (*sync)(Device *device, DeviceStream stream, DeviceError *error);
    /* Moments on a stream, for timing. */
    bool (*moment)(Device *device, DeviceStream stream, DeviceEvent *moment, DeviceError *error);
    /* Waits for `last`. */
    bool (*elapsed)(Device *device, DeviceEvent first, DeviceEvent last, double *seconds,
                    DeviceError *error);
    void (*forget)(Device *device, DeviceEvent moment);
    const DeviceStreams *streams;
    bool points; /* an ARG_POINTER's entry of args is the address itself, not where it is kept */
};

struct Device {
    const DeviceOps *ops;
    Allocator allocator;
    DeviceFacts facts;
    const void *driver;    /* the injected driver's table, or NULL: load one */
    void *state;           /* of the kind */
    struct Memory *memory; /* what it handed out (device_memory.h); NULL: nothing yet */
    const char *running; /* what was launched last and not yet waited for; for messages; or NULL */
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
