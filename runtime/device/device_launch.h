/* SPDX-License-Identifier: Apache-2.0 */
/* Launching a plan. A launch is prepared once (sizes checked, arguments packed, tensor maps
 * built); after that it costs only the driver's call. */
#ifndef TESSERA_RUNTIME_DEVICE_DEVICE_LAUNCH_H
#define TESSERA_RUNTIME_DEVICE_DEVICE_LAUNCH_H

#include "runtime/device/device.h"

/* One a parameter of the plan, in its order. */
typedef struct LaunchArg {
    DeviceTensor tensor;
    uint64_t scalar; /* the value in its own type, in the low bytes */
} LaunchArg;

/* ---- what a plan says (plan.c) ---- */

/* False on overflow. */
bool plan_eval(const PlanExpr *expr, const int64_t *sizes, int64_t *out);
/* Sizes from the tensors' shapes and strides, checked against every dimension and every assumed
 * fact. */
bool plan_solve(const Plan *plan, const LaunchArg *args, int64_t *sizes, DeviceError *error);
/* How many blocks: the product over the axes. False on overflow. */
bool plan_blocks(const PlanLaunch *launch, const int64_t *sizes, int64_t *blocks);
/* How many of them are launched on a device of this many multiprocessors: a persistent launch has
 * no more than are there at once, unless each would have too much to do. */
int64_t plan_resident(const PlanLaunch *launch, int64_t blocks, int64_t units);
/* Of a contiguous tensor. False when it is more than a process can address. */
bool plan_bytes(const DeviceTensor *tensor, size_t *bytes);
/* Bytes from its lowest element to the end of its highest, and of these, those before element
 * [0, 0, …]. False when it is more than a process can address. */
bool plan_reach(const DeviceTensor *tensor, size_t *before, size_t *bytes);
/* Elements between neighbours along an axis. */
int64_t plan_stride(const DeviceTensor *tensor, int axis);
/* What is written may share no memory, with itself or anything else (alias_check.c). */
bool plan_check_overlaps(const Plan *plan, const LaunchArg *args, DeviceError *error);

/* An intermediate under these sizes, and its bytes: 0 where no launch uses it. */
bool plan_scratch_tensor(const Plan *plan, int index, const int64_t *sizes, DeviceTensor *tensor,
                         size_t *bytes, DeviceError *error);
/* Where each lies in memory that has as many bytes as come out (plan_intermediates.c). */
size_t plan_place_scratch(const Plan *plan, const size_t *bytes, size_t *offsets);

/* ---- modules and launches ---- */

/* A plan whose code is on a device. */
typedef struct LoadedModule {
    Device *device;
    const Plan *plan;
    DeviceModule module;
    DeviceKernel *kernels;     /* one a launch of the plan */
    struct LoadedModule *next; /* of the caller's, who keeps a list of them */
} LoadedModule;
bool loaded_open(Device *device, const Plan *plan, const DeviceImage *image, LoadedModule *loaded,
                 DeviceError *error);
void loaded_close(LoadedModule *loaded);

/* Would its code take these arguments? All that launch_prepare asks of one tensor at a time. */
bool launch_fits(const Plan *plan, const LaunchArg *args, int64_t *sizes, DeviceError *error);

typedef struct PreparedLaunch PreparedLaunch;
/* The arguments' memory is not copied: it stays the caller's and must outlive the launches. What
 * the plan keeps in memory between its launches belongs to the stream in which they run. */
PreparedLaunch *launch_prepare(const LoadedModule *loaded, const LaunchArg *args,
                               DeviceError *error);
/* One a parameter of the plan, as they are now. */
const LaunchArg *launch_given(const PreparedLaunch *prepared);
/* Other memory, or another value, for parameter `index` of the plan, from the next launch on.
 * Nothing is allocated. */
bool launch_set(PreparedLaunch *prepared, int index, void *data, DeviceError *error);
/* The same for each that is a tensor, in order; what is as it was is not looked at again. */
bool launch_set_all(PreparedLaunch *prepared, void *const *tensors, DeviceError *error);
void launch_set_scalar(PreparedLaunch *prepared, int index, uint64_t scalar);
/* Allocates where a stream is new, and there is memory for it to have. */
bool launch_run(PreparedLaunch *prepared, DeviceStream stream, DeviceError *error);
/* So that the next launch in this stream allocates nothing. */
bool launch_reserve(PreparedLaunch *prepared, DeviceStream stream, DeviceError *error);
/* Bytes that each stream takes. */
size_t launch_workspace(const PreparedLaunch *prepared);
void launch_free(PreparedLaunch *prepared);

/* What a launch said: `n` records of `words` words each, LOG_HEAD said before which. */
typedef struct LaunchLog {
    int64_t *records; /* of the host; the caller's to drop with device_host_free */
    int64_t n, total, failures;
    int words;
} LaunchLog;
/* Waits for the stream, and begins a new log. */
bool launch_log(PreparedLaunch *prepared, DeviceStream stream, LaunchLog *log, DeviceError *error);

#endif
