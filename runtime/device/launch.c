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
        loaded->device->running = NULL; /* the name is the plan's */
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
    LaunchArg *args; /* then one an intermediate */
    int64_t *sizes;
    void *scratch; /* the device's memory for all intermediates, or NULL */
    void *log;     /* the device's memory, or NULL: it says nothing */
    char *maps;    /* DEVICE_MAP_BYTES each, aligned to 64 */
    Step *steps;
};

/* ---- checks ---- */

static bool check_pointer(const Plan *plan, int index, const DeviceTensor *tensor, bool *empty,
                          DeviceError *error)
{
    const PlanParam *param = &plan->params[index];
    size_t before, bytes;
    if (!plan_reach(tensor, &before, &bytes)) {
        return device_fail(error, DIAG_SOURCE, 0, "%s: '%s' has more bytes than memory can",
                           plan->kernel, param->name);
    }
    *empty = bytes == 0;
    if (!*empty && !tensor->data) {
        return device_fail(error, DIAG_USAGE, 0, "%s: '%s' has no data", plan->kernel, param->name);
    }
    if (!*empty && param->align > 1 && (uintptr_t)tensor->data % (uintptr_t)param->align != 0) {
        return device_fail(error, DIAG_USAGE, 0,
                           "%s: the address of '%s' is not a multiple of %d bytes", plan->kernel,
                           param->name, param->align);
    }
    return true;
}

/* As the code knows it: what is contiguous is so also with fewer axes. */
static void merge_axes(const PlanParam *param, DeviceTensor *tensor)
{
    int from = 0;
    DeviceTensor whole = *tensor;
    if (param->rank < 0 || param->n_merged == 0) {
        return;
    }
    tensor->rank = param->n_merged;
    for (int axis = 0; axis < tensor->rank; axis++) {
        tensor->dims[axis] = 1;
        for (int i = 0; i < param->merged[axis] && from < whole.rank; i++) {
            tensor->dims[axis] *= whole.dims[from];
            tensor->strides[axis] = whole.strides[from++];
        }
    }
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
    case ARG_LOG: return p->loaded->device->ops->points ? p->log : (void *)&p->log;
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
                               plan->kernel, axis,
                               map->param < plan->n_params ? plan->params[map->param].name
                                                           : "an intermediate",
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
    step->blocks = plan_resident(launch, step->blocks, p->loaded->device->facts.units);
    step->args = ARENA_ARRAY(&p->arena, void *, launch->n_args + 1);
    for (int i = 0; i < launch->n_args; i++) {
        step->args[i] = arg_address(p, &launch->args[i]);
    }
    return true;
}

/* ---- intermediates ---- */

enum { SCRATCH_ALIGN = 256 };

typedef struct Slot {
    size_t offset, bytes;
} Slot;

/* Room behind the last row counts. */
static bool scratch_bytes(const DeviceTensor *tensor, size_t *bytes)
{
    DeviceTensor whole = *tensor;
    if (tensor->strided) {
        whole.strided = false;
        whole.rank = 2;
        whole.dims[1] = tensor->strides[0];
    }
    return plan_bytes(&whole, bytes);
}

static bool scratch_tensor(Prepared *p, int index, size_t *bytes, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    const PlanScratch *scratch = &plan->scratch[index];
    DeviceTensor *tensor = &p->args[plan->n_params + index].tensor;
    *tensor = (DeviceTensor){
        .dtype = scratch->dtype, .rank = scratch->rank, .strided = scratch->strides != NULL};
    bool fits = true;
    for (int i = 0; i < scratch->rank; i++) {
        fits = fits && plan_eval(&scratch->dims[i], p->sizes, &tensor->dims[i]);
        tensor->dims[i] = tensor->dims[i] < 0 ? 0 : tensor->dims[i];
        fits = fits && (!scratch->strides ||
                        plan_eval(&scratch->strides[i], p->sizes, &tensor->strides[i]));
    }
    if (!fits || !scratch_bytes(tensor, bytes)) {
        return device_fail(error, DIAG_SOURCE, 0,
                           "%s: an intermediate has more bytes than memory can", plan->kernel);
    }
    *bytes = scratch->first > scratch->last ? 0 : *bytes;
    return true;
}

static bool live_together(const PlanScratch *a, const PlanScratch *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest place that no intermediate has which lives at the same time. */
static size_t lowest_offset(const Plan *plan, const Slot *places, int index)
{
    size_t offset = 0;
    for (int i = 0; i < index; i++) {
        const Slot *other = &places[i];
        if (live_together(&plan->scratch[i], &plan->scratch[index]) && other->bytes &&
            offset < other->offset + other->bytes && other->offset < offset + places[index].bytes) {
            offset = (other->offset + other->bytes + SCRATCH_ALIGN - 1) & -(size_t)SCRATCH_ALIGN;
            i = -1; /* what was passed before may lie here */
        }
    }
    return offset;
}

static bool make_scratch(Prepared *p, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    Device *device = p->loaded->device;
    Slot *places = ARENA_ARRAY(&p->arena, Slot, plan->n_scratch);
    size_t total = 0;
    for (int i = 0; i < plan->n_scratch; i++) {
        if (!scratch_tensor(p, i, &places[i].bytes, error)) {
            return false;
        }
        places[i].offset = lowest_offset(plan, places, i);
        size_t end = places[i].offset + places[i].bytes;
        total = places[i].bytes && end > total ? end : total;
    }
    if (total && !device->ops->alloc(device, total, &p->scratch, error)) {
        return false;
    }
    for (int i = 0; i < plan->n_scratch; i++) {
        p->args[plan->n_params + i].tensor.data = (char *)p->scratch + places[i].offset;
    }
    return true;
}

/* ---- what it says ---- */

static bool clear_log(Prepared *p, DeviceError *error)
{
    static const int64_t head[LOG_HEAD];
    Device *device = p->loaded->device;
    return device->ops->copy_in(device, p->log, head, sizeof head, error);
}

static bool make_log(Prepared *p, DeviceError *error)
{
    Device *device = p->loaded->device;
    size_t words = LOG_HEAD + (size_t)LOG_RECORDS * (size_t)p->loaded->plan->log_words;
    return p->loaded->plan->log_words == 0 ||
           (device->ops->alloc(device, words * sizeof(int64_t), &p->log, error) &&
            clear_log(p, error));
}

bool launch_log(Prepared *p, DeviceStream stream, LaunchLog *log, DeviceError *error)
{
    Device *device = p->loaded->device;
    int64_t head[LOG_HEAD];
    *log = (LaunchLog){.words = p->loaded->plan->log_words};
    if (!device->ops->sync(device, stream, error)) {
        return false;
    }
    if (!p->log) {
        return true;
    }
    if (!device->ops->copy_out(device, head, p->log, sizeof head, error)) {
        return false;
    }
    log->total = head[0];
    log->failures = head[1];
    log->n = head[0] < LOG_RECORDS ? head[0] : LOG_RECORDS;
    size_t bytes = (size_t)log->n * (size_t)log->words * sizeof(int64_t);
    log->records = device_take(device, bytes + 1);
    if (!log->records) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
    }
    const void *from = (int64_t *)p->log + LOG_HEAD;
    bool ok = (bytes == 0 || device->ops->copy_out(device, log->records, from, bytes, error)) &&
              clear_log(p, error);
    if (!ok) {
        device_drop(device, log->records);
    }
    return ok;
}

static bool fill(Prepared *p, const LaunchArg *args, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    bool empty;
    p->args = ARENA_ARRAY(&p->arena, LaunchArg, plan->n_params + plan->n_scratch);
    for (int i = 0; i < plan->n_params; i++) {
        p->args[i] = args[i];
    }
    p->sizes = ARENA_ARRAY(&p->arena, int64_t, plan->n_sizes);
    p->steps = ARENA_ARRAY(&p->arena, Step, plan->n_launches);
    if (!plan_solve(plan, args, p->sizes, error)) {
        return false;
    }
    for (int i = 0; i < plan->n_params; i++) {
        if (plan->params[i].rank >= 0 && !check_pointer(plan, i, &args[i].tensor, &empty, error)) {
            return false;
        }
    }
    if (!plan_check_overlaps(plan, args, error)) {
        return false;
    }
    for (int i = 0; i < plan->n_params; i++) {
        merge_axes(&plan->params[i], &p->args[i].tensor);
    }
    if (!make_scratch(p, error) || !make_log(p, error) || !make_maps(p, error)) {
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
        if (step->blocks > 0 &&
            !device->ops->launch(device, step->kernel, step->blocks, step->args, stream, error)) {
            return false;
        }
        device->running = step->blocks > 0 ? step->kernel->symbol : device->running;
    }
    return true;
}

void launch_free(Prepared *p)
{
    if (p) {
        Device *device = p->loaded->device;
        if (p->scratch) {
            device->ops->release(device, p->scratch);
        }
        if (p->log) {
            device->ops->release(device, p->log);
        }
        arena_free(&p->arena);
        device_drop(device, p);
    }
}
