/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/device/launch.h"

#include <inttypes.h>
#include <string.h>

bool loaded_open(Device *device, const Plan *plan, const DeviceImage *image, Loaded *loaded,
                 DeviceError *error)
{
    *loaded = (Loaded){.device = device, .plan = plan};
    size_t n = (size_t)(plan->n_launches ? plan->n_launches : 1);
    loaded->kernels = device_take(device, n * sizeof *loaded->kernels);
    if (!loaded->kernels) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
    }
    DeviceImage named = *image;
    named.name = plan->kernel;
    bool ok = device->ops->load(device, &named, &loaded->module, error);
    for (int i = 0; ok && i < plan->n_launches; i++) {
        ok = device->ops->find(device, loaded->module, &plan->launches[i], &loaded->kernels[i],
                               error);
    }
    if (!ok) {
        loaded_close(loaded);
    }
    return ok;
}

void loaded_close(Loaded *loaded)
{
    if (loaded->module) {
        loaded->device->ops->unload(loaded->device, loaded->module);
    }
    if (loaded->kernels) {
        device_drop(loaded->device, loaded->kernels);
    }
    *loaded = (Loaded){0};
}

typedef struct Step {
    const DeviceKernel *kernel;
    int64_t blocks;
    void **args;
} Step;

struct Prepared {
    const Loaded *loaded;
    Arena arena;
    LaunchArg *args;
    int64_t *sizes;
    char *maps; /* DEVICE_MAP_BYTES each, aligned to 64 */
    Step *steps;
};

/* ---- checks ---- */

static bool check_pointer(const Plan *plan, int index, const DeviceTensor *tensor, bool *empty,
                          DeviceError *error)
{
    const PlanParam *param = &plan->params[index];
    size_t bytes;
    if (!plan_bytes(tensor, &bytes)) {
        return device_fail(error, DIAG_SOURCE, 0, "%s: '%s' has more bytes than memory can",
                           plan->kernel, param->name);
    }
    *empty = bytes == 0;
    if (!*empty && !tensor->data) {
        return device_fail(error, DIAG_USAGE, 0, "%s: '%s' has no data", plan->kernel,
                           param->name);
    }
    if (!*empty && param->align > 1 && (uintptr_t)tensor->data % (uintptr_t)param->align != 0) {
        return device_fail(error, DIAG_USAGE, 0,
                           "%s: the address of '%s' is not a multiple of %d bytes", plan->kernel,
                           param->name, param->align);
    }
    return true;
}

static bool overlap(const DeviceTensor *a, const DeviceTensor *b)
{
    size_t n = 0, m = 0;
    bool sized = plan_bytes(a, &n) && plan_bytes(b, &m);
    uintptr_t p = (uintptr_t)a->data, q = (uintptr_t)b->data;
    return sized && n && m && p < q + m && q < p + n;
}

/* What is written may not be anything else's memory. */
static bool check_overlaps(const Plan *plan, const LaunchArg *args, DeviceError *error)
{
    for (int i = 0; i < plan->n_params; i++) {
        for (int j = 0; j < plan->n_params; j++) {
            bool both = i != j && plan->params[i].rank >= 0 && plan->params[j].rank >= 0;
            if (both && plan->params[i].io != PLAN_IN &&
                overlap(&args[i].tensor, &args[j].tensor)) {
                return device_fail(error, DIAG_USAGE, 0,
                                   "%s: '%s', which is written, shares memory with '%s'",
                                   plan->kernel, plan->params[i].name, plan->params[j].name);
            }
        }
    }
    return true;
}

/* ---- packing ---- */

static void *arg_address(Prepared *p, const PlanArg *arg)
{
    switch (arg->kind) {
    case ARG_POINTER:
        return p->loaded->device->ops->points ? p->args[arg->index].tensor.data
                                              : (void *)&p->args[arg->index].tensor.data;
    case ARG_SCALAR: return &p->args[arg->index].scalar;
    case ARG_SIZE: return &p->sizes[arg->index];
    case ARG_MAP: return p->maps + arg->index * DEVICE_MAP_BYTES;
    }
    return NULL;
}

/* Coordinates of bulk copies have 32 bits. */
static bool check_map(const Plan *plan, const PlanMap *map, const DeviceTensor *tensor,
                      DeviceError *error)
{
    for (int axis = 0; axis < tensor->rank; axis++) {
        if (tensor->dims[axis] > INT32_MAX) {
            return device_fail(error, DIAG_SOURCE, 0,
                               "%s: axis %d of '%s' has %" PRId64 " elements, more than bulk "
                               "copies can count: compile it for such a size, or with `copy plain`",
                               plan->kernel, axis, plan->params[map->param].name,
                               tensor->dims[axis]);
        }
    }
    return true;
}

static bool make_map(Prepared *p, int index, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    Device *device = p->loaded->device;
    const PlanMap *map = &plan->maps[index];
    const DeviceTensor *tensor = &p->args[map->param].tensor;
    size_t bytes = 0;
    plan_bytes(tensor, &bytes);
    if (bytes == 0) {
        return true; /* never copied from or to; a descriptor of nothing is refused */
    }
    if (!device->ops->map) {
        return device_fail(error, DIAG_INTERNAL, 0, "%s needs bulk copies, %s has none",
                           plan->kernel, device->ops->name);
    }
    return check_map(plan, map, tensor, error) &&
           device->ops->map(device, map, tensor, p->maps + index * DEVICE_MAP_BYTES, error);
}

static bool make_maps(Prepared *p, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    char *memory = arena_alloc(&p->arena, (size_t)plan->n_maps * DEVICE_MAP_BYTES + 64);
    p->maps = memory + (64 - (uintptr_t)memory % 64) % 64;
    for (int i = 0; i < plan->n_maps; i++) {
        if (!make_map(p, i, error)) {
            return false;
        }
    }
    return true;
}

static bool make_step(Prepared *p, int index, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    const PlanLaunch *launch = &plan->launches[index];
    Step *step = &p->steps[index];
    step->kernel = &p->loaded->kernels[index];
    if (!plan_blocks(launch, p->sizes, &step->blocks)) {
        return device_fail(error, DIAG_SOURCE, 0, "%s: the number of blocks overflows 64 bits",
                           plan->kernel);
    }
    int64_t most = (int64_t)p->loaded->device->facts.units * launch->blocks_per_unit;
    if (launch->persistent && step->blocks > most) {
        step->blocks = most;
    }
    step->args = ARENA_ARRAY(&p->arena, void *, launch->n_args + 1);
    for (int i = 0; i < launch->n_args; i++) {
        step->args[i] = arg_address(p, &launch->args[i]);
    }
    return true;
}

static bool fill(Prepared *p, const LaunchArg *args, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    bool empty;
    p->args = arena_copy(&p->arena, args, (size_t)plan->n_params * sizeof *args);
    p->sizes = ARENA_ARRAY(&p->arena, int64_t, plan->n_sizes);
    p->steps = ARENA_ARRAY(&p->arena, Step, plan->n_launches);
    if (!plan_solve(plan, args, p->sizes, error)) {
        return false;
    }
    for (int i = 0; i < plan->n_params; i++) {
        if (plan->params[i].rank >= 0 &&
            !check_pointer(plan, i, &args[i].tensor, &empty, error)) {
            return false;
        }
    }
    if (!check_overlaps(plan, args, error) || !make_maps(p, error)) {
        return false;
    }
    for (int i = 0; i < plan->n_launches; i++) {
        if (!make_step(p, i, error)) {
            return false;
        }
    }
    return true;
}

static bool guarded_fill(Prepared *p, const LaunchArg *args, DeviceError *error)
{
    jmp_buf guard;
    p->arena.guard = &guard;
    if (setjmp(guard)) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
    }
    bool ok = fill(p, args, error);
    p->arena.guard = NULL;
    return ok;
}

Prepared *launch_prepare(const Loaded *loaded, const LaunchArg *args, DeviceError *error)
{
    Prepared *p = device_take(loaded->device, sizeof *p);
    if (!p) {
        device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
        return NULL;
    }
    p->loaded = loaded;
    arena_init(&p->arena, loaded->device->allocator);
    if (!guarded_fill(p, args, error)) {
        launch_free(p);
        return NULL;
    }
    return p;
}

bool launch_run(Prepared *p, DeviceStream stream, DeviceError *error)
{
    Device *device = p->loaded->device;
    for (int i = 0; i < p->loaded->plan->n_launches; i++) {
        const Step *step = &p->steps[i];
        if (step->blocks > 0 && !device->ops->launch(device, step->kernel, step->blocks,
                                                     step->args, stream, error)) {
            return false;
        }
    }
    return true;
}

void launch_free(Prepared *p)
{
    if (p) {
        Device *device = p->loaded->device;
        arena_free(&p->arena);
        device_drop(device, p);
    }
}
