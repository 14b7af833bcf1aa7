/* SPDX-License-Identifier: Apache-2.0 */
/* Drivers made of plain memory: CUDA's and HIP's calls, counted, of which any one can be made to
 * fail. What is open is counted, so that a leak shows. */
#ifndef TESSERA_TESTS_DEVICE_MOCK_H
#define TESSERA_TESTS_DEVICE_MOCK_H

#include "runtime/device/cuda_driver.h"
#include "runtime/device/hip_driver.h"
#include "runtime/device/launch.h"

typedef struct Mock {
    int calls;      /* so far */
    int fail_at;    /* this call, counted from 1, fails; 0: none */
    int open;       /* contexts, memory, modules, events */
    int pushed;     /* contexts made current */
    int pops;       /* their ends, which cannot fail and are no `calls` */
    void *current;  /* CUDA: the context that is; NULL: none */
    void *below[4]; /* those that it hides */
    int device;     /* HIP: the one that is current */
    int launches;
    unsigned int grid, block, shared, cluster;
    int64_t first_argument; /* what args[0] points to, of the last launch */
    unsigned char map[DEVICE_MAP_BYTES]; /* of the last launch that has one */
    uint64_t map_dims[8], map_strides[8];
    uint32_t map_box[8], map_rank, map_type, map_swizzle;
    int map_argument; /* which argument is a map; -1: none */
    char last[64];    /* the name of the call that failed */
} Mock;

/* There are two devices of each kind: device 0 is the caller's, tests open device 1. A call that
 * wants the opened device's context (HIP: the device) to be current fails the test without. */
enum { MOCK_DEVICES = 2, MOCK_CALLERS = 0, MOCK_OPENED = 1 };
extern Mock mock;
void mock_reset(int fail_at);
/* The caller's context: another library's or, once a device is open, ours. */
void mock_be_elsewhere(void);
void mock_be_inside(void);
extern const CudaDriver mock_cuda;
extern const HipDriver mock_hip;

#endif
