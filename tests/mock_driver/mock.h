/* SPDX-License-Identifier: Apache-2.0 */
/* Mock drivers, whose device memory is host memory: the calls of CUDA and HIP are counted, and any
 * one, or all from one on, can be made to fail. Open objects are counted, so that leaks are found.
 * Unit tests link them; as libcuda.so.1 and libamdhip64.so.6 they serve the library and the
 * program, and environment variables select the failures (state.c). */
#ifndef TESSERA_TESTS_MOCK_DRIVER_MOCK_H
#define TESSERA_TESTS_MOCK_DRIVER_MOCK_H

#include "runtime/device/cuda_driver.h"
#include "runtime/device/device_launch.h"
#include "runtime/device/hip_driver.h"

enum { MOCK_MAX = 16 }; /* devices */

typedef struct Mock {
    int calls;          /* so far */
    int fail_at;        /* this call, counted from 1, fails; 0: none */
    bool fail_on;       /* and all after it, as in a context that a kernel has broken */
    unsigned int error; /* what fails returns */
    int n_devices;
    int major;               /* CUDA: of the part: 9 for sm_90a, 8 for sm_80 */
    const void *foreign;     /* CUDA: memory of the host that it does not know */
    bool wrong;              /* what it computes */
    bool hangs;              /* what is launched never ends */
    int open;                /* contexts, memory, modules, events */
    int retained[MOCK_MAX];  /* CUDA: how often the primary context of each device is */
    int pushed;              /* contexts made current */
    void *current;           /* CUDA: the context that is; NULL: none */
    void *below[4];          /* those that it hides */
    int opened;              /* HIP: the device that calls are meant for */
    int device;              /* HIP: the one that is current */
    int launches;
    unsigned int grid, block, shared, cluster;
    int early, version;  /* CUDA: launches that may begin early; the driver's version, 0: 13000 */
    bool large_clusters; /* of more than 8 blocks have been asked for */
    int64_t first_argument;              /* what args[0] points to, of the last launch */
    unsigned char map[DEVICE_MAP_BYTES]; /* of the last launch that has one */
    void *map_address;
    uint64_t map_dims[8], map_strides[8];
    uint32_t map_box[8], map_rank, map_type, map_swizzle;
    uint32_t map_steps[8], map_channels, map_pixels; /* of windows */
    int map_lower[3], map_upper[3];
    int map_argument;    /* which argument is a map; -1: none */
    int log_argument;    /* which is the log, where each launch says one thing; -1: none */
    char function[64];   /* the last one that was looked up */
    char last[64];       /* the name of the first call that failed */
    bool sweeps, broken; /* kernels differ (state.c); one of them has broken the context */
    int sweep[4]; /* of a hundred: those that hang, fault, lie; the argument that these change */
    int loaded;   /* modules */
    float milliseconds;                /* that launches take; 0: 5 in all */
    bool apart;                        /* no device can reach the memory of another */
    int reaches[MOCK_MAX][MOCK_MAX];   /* how often access to the second has been enabled */
    int near, far;        /* copies between devices: with access both ways, by way of the host */
    unsigned int capture; /* mode of this thread */
    bool captures;        /* a stream is captured */
    unsigned int untaken; /* HIP: an error that hipGetLastError has for whoever asks next */
} Mock;

/* A module, and the kernel in it. */
typedef enum MockKind { MOCK_GOOD, MOCK_HANGING, MOCK_FAULTING, MOCK_LYING } MockKind;
typedef struct MockCode {
    uint64_t digest;
    MockKind kind;
} MockCode;

/* There are two devices of each kind: device 0 is the caller's, tests open device 1. A call that
 * wants the opened device's context (HIP: the device) to be current ends the process without. */
/* A stream of another context: launches in it are refused. */
#define MOCK_FOREIGN ((void *)(uintptr_t)0xf0e1)
enum { MOCK_DEVICES = 2, MOCK_CALLERS = 0, MOCK_OPENED = 1, MOCK_ERROR = 2 };
#define MOCK_SHOWN __attribute__((visibility("default")))
extern MOCK_SHOWN Mock mock;
MOCK_SHOWN void mock_reset(int fail_at);
/* The caller's context: another library's or, once a device is open, ours. */
void mock_be_elsewhere(void);
void mock_be_inside(void);
extern const CudaDriver mock_cuda;
extern const HipDriver mock_hip;

/* ---- for the drivers ---- */

/* Counts; true: this call is to fail. */
bool mock_fails(const char *name);
/* Ends the process with the words unless `good`, or something has failed before: what is given
 * back is given back even where the context could not be made current. */
void mock_want(bool good, const char *words);
void *mock_open(size_t bytes);
void mock_close(void *handle);
/* A module of that code, a text; and a launch of it. */
void *mock_open_code(const char *code);
void mock_run_code(const void *code, void **args);
/* Waits as long as what was launched runs. */
void mock_wait(void);
void mock_note_launch(unsigned int grid, unsigned int block, unsigned int shared, void **args);
/* NULL for numbers that are none. */
const char *mock_error_name(unsigned int result);

/* Access of one device to the memory of another; what the driver answers. */
unsigned int mock_reach(int device, int peer);
/* A copy between two. */
void mock_note_copy(int to, int from);
#define MOCK_ALREADY 704u /* it has been enabled before */
#define MOCK_UNSAFE 900u  /* not while a stream is captured, unless the thread says "relaxed" */

#define MOCK_CALL(name)                                                                            \
    do {                                                                                           \
        if (mock_fails(name)) {                                                                    \
            return mock.error;                                                                     \
        }                                                                                          \
    } while (0)

#endif
