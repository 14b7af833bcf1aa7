/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares and executes the launches of a plan: it checks arguments against the plan, allocates
 * intermediates, packs kernel arguments and builds tensor maps. A prepared launch keeps one such
 * frame per stream, so that a repeated launch costs only the driver call. */
#include "runtime/device/device_launch.h"

#include "runtime/device/device_memory.h"

#include <inttypes.h>
#include <string.h>

bool loaded_open(Device *device, const Plan *plan, const DeviceImage *image, LoadedModule *loaded,
                 DeviceError *error)
{
    *loaded = (LoadedModule){.device = device, .plan = plan};
    size_t n = (size_t)(plan->n_launches ? plan->n_launches : 1);
    loaded->kernels = device_host_alloc(device, n * sizeof *loaded->kernels);
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

void loaded_close(LoadedModule *loaded)
{
    if (loaded->module) {
        loaded->device->running = NULL; /* the name is the plan's */
        loaded->device->ops->unload(loaded->device, loaded->module);
    }
    if (loaded->kernels) {
        device_host_free(loaded->device, loaded->kernels);
    }
    *loaded = (LoadedModule){0};
}

/* The kernel, grid and arguments of one launch of the plan. */
typedef struct Step {
    const DeviceKernel *kernel;
    int64_t blocks;
    void **args;
} Step;

/* The pointers, tensor maps and scratch memory of a prepared launch on one stream. A plan without
 * intermediates needs only one frame for all streams, because a launch copies its arguments. */
typedef struct Frame Frame;
struct Frame {
    Frame *next;
    DeviceStream stream;
    bool used;        /* false until the first stream takes it */
    unsigned edition; /* of the pointers in it */
    void *scratch;    /* the device's memory for all intermediates, or NULL */
    void **pointers;  /* one per parameter, then per intermediate */
    char *maps;       /* DEVICE_MAP_BYTES each, aligned to 64 */
    Step *steps;
};

struct PreparedLaunch {
    const LoadedModule *loaded;
    Arena arena;
    LaunchArg *given; /* the caller's, one per parameter */
    LaunchArg *args;  /* with axes merged as compiled; then the intermediates */
    size_t *offsets;  /* of the intermediates in the scratch memory */
    size_t scratch_bytes;
    int64_t *sizes;
    int64_t *blocks;           /* one per launch of the plan */
    void *log;                 /* memory of the device; NULL if no kernel prints or asserts */
    unsigned edition, checked; /* of the pointers; the last one tested for overlaps */
    Frame *frames;
};

/* ---- checks ---- */

static bool check_pointer(const Plan *plan, int index, const DeviceTensor *tensor,
                          DeviceError *error)
{
    const PlanParam *param = &plan->params[index];
    size_t before, bytes;
    if (!plan_reach(tensor, &before, &bytes)) {
        return device_fail(error, DIAG_SOURCE, 0, "%s: '%s' has more bytes than memory can hold",
                           plan->kernel, param->name);
    }
    bool empty = bytes == 0;
    if (!empty && !tensor->data) {
        return device_fail(error, DIAG_USAGE, 0, "%s: '%s' has no data", plan->kernel, param->name);
    }
    if (!empty && param->align > 1 && (uintptr_t)tensor->data % (uintptr_t)param->align != 0) {
        return device_fail(error, DIAG_USAGE, 0,
                           "%s: the address of '%s' is not a multiple of %d bytes", plan->kernel,
                           param->name, param->align);
    }
    return true;
}

bool launch_fits(const Plan *plan, const LaunchArg *args, int64_t *sizes, DeviceError *error)
{
    if (!plan_solve(plan, args, sizes, error)) {
        return false;
    }
    for (int i = 0; i < plan->n_params; i++) {
        if (plan->params[i].rank >= 0 && !check_pointer(plan, i, &args[i].tensor, error)) {
            return false;
        }
    }
    return true;
}

/* Merges the axes that the code was compiled to treat as one; a contiguous tensor stays so. */
static void merge_axes(int n_merged, const int *merged, DeviceTensor *tensor)
{
    int from = 0;
    DeviceTensor whole = *tensor;
    if (n_merged == 0) {
        return;
    }
    tensor->rank = n_merged;
    for (int axis = 0; axis < tensor->rank; axis++) {
        tensor->dims[axis] = 1;
        for (int i = 0; i < merged[axis] && from < whole.rank; i++) {
            tensor->dims[axis] *= whole.dims[from];
            tensor->strides[axis] = whole.strides[from++];
        }
    }
}

/* Splits the axes that the code knows as groups and the places in a group: axes of the map that
 * begin with 0 in `split`, and those behind them. */
static void split_axes(int n_split, const int64_t *split, DeviceTensor *tensor)
{
    DeviceTensor whole = *tensor;
    int from = 0;
    for (int axis = 0; axis < n_split && from < whole.rank; from++) {
        int first = axis++;
        tensor->dims[first] = whole.dims[from];
        tensor->strides[first] = whole.strides[from];
        while (axis < n_split && split[axis] > 0) {
            for (int i = first; i < axis; i++) {
                tensor->strides[i] *= split[axis];
            }
            tensor->dims[first] /= split[axis];
            tensor->dims[axis] = split[axis];
            tensor->strides[axis++] = whole.strides[from];
        }
    }
    tensor->rank = n_split ? n_split : whole.rank;
}

/* ---- packing ---- */

static void *arg_address(PreparedLaunch *p, Frame *frame, const PlanArg *arg)
{
    bool points = p->loaded->device->ops->points;
    switch (arg->kind) {
    case ARG_POINTER:
        return points ? frame->pointers[arg->index] : (void *)&frame->pointers[arg->index];
    case ARG_SCALAR: return &p->args[arg->index].scalar;
    case ARG_SIZE: return &p->sizes[arg->index];
    case ARG_MAP: return frame->maps + arg->index * DEVICE_MAP_BYTES;
    case ARG_LOG: return points ? p->log : (void *)&p->log;
    }
    return NULL;
}

/* Evaluates the windows along each spatial axis of an im2col map. A parameter is described by its
 * own axes although the code may have merged them. False if there is no window or a size
 * overflows. */
static bool find_windows(const PreparedLaunch *p, const PlanTensorMap *map, DeviceTensor *tensor,
                         DeviceWindows *windows)
{
    const Plan *plan = p->loaded->plan;
    const PlanParam *param = map->param < plan->n_params ? &plan->params[map->param] : NULL;
    bool good = (param ? param->rank : tensor->rank) == map->rank;
    for (int axis = 0; good && param && param->n_merged && axis < param->rank; axis++) {
        good = plan_eval(&param->dims[axis], p->sizes, &tensor->dims[axis]);
        tensor->rank = param->rank;
        tensor->strided = false;
    }
    for (int i = 0; good && i < map->n_windows; i++) {
        good = plan_eval(&map->windows[i].places, p->sizes, &windows[i].places) &&
               plan_eval(&map->windows[i].first, p->sizes, &windows[i].first) &&
               windows[i].places > 0;
    }
    return good;
}

static bool make_map(PreparedLaunch *p, Frame *frame, int index, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    Device *device = p->loaded->device;
    const PlanTensorMap *map = &plan->maps[index];
    DeviceTensor tensor = p->args[map->param].tensor;
    size_t bytes = 0;
    merge_axes(map->n_merged, map->merged, &tensor);
    split_axes(map->n_split, map->split, &tensor);
    plan_bytes(&tensor, &bytes);
    if (bytes == 0) {
        return true; /* never copied from or to; a descriptor of nothing is refused */
    }
    if (!device->ops->map) {
        return device_fail(error, DIAG_INTERNAL, 0, "%s needs bulk copies, %s has none",
                           plan->kernel, device->ops->name);
    }
    tensor.data = frame->pointers[map->param];
    DeviceWindows windows[PLAN_MAX_SPATIAL] = {{0, 0}};
    if (map->n_windows && !find_windows(p, map, &tensor, windows)) {
        return true; /* there is no block */
    }
    /* The coordinates of bulk copies have 32 bits. */
    for (int axis = 0; axis < tensor.rank; axis++) {
        if (tensor.dims[axis] > INT32_MAX) {
            return device_fail(
                error, DIAG_SOURCE, 0,
                "%s: axis %d of '%s' has %" PRId64 " elements, more than bulk "
                "copies can count: compile it for such a size, or with `copy registers`",
                plan->kernel, axis,
                map->param < plan->n_params ? plan->params[map->param].name : "an intermediate",
                tensor.dims[axis]);
        }
    }

    return device->ops->map(device, map, &tensor, windows, frame->maps + index * DEVICE_MAP_BYTES,
                            error);
}

/* Stores the current pointers in a frame and builds its tensor maps; it allocates nothing. */
static bool fill_frame(PreparedLaunch *p, Frame *frame, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    for (int i = 0; i < plan->n_params; i++) {
        frame->pointers[i] = p->args[i].tensor.data;
    }
    for (int i = 0; i < plan->n_scratch; i++) {
        frame->pointers[plan->n_params + i] = (char *)frame->scratch + p->offsets[i];
    }
    for (int i = 0; i < plan->n_maps; i++) {
        if (!make_map(p, frame, i, error)) {
            return false;
        }
    }
    for (int i = 0; i < plan->n_launches; i++) {
        for (int j = 0; j < plan->launches[i].n_args; j++) {
            frame->steps[i].args[j] = arg_address(p, frame, &plan->launches[i].args[j]);
        }
    }
    frame->edition = p->edition;
    return true;
}

/* Adds a frame for a stream, which is NULL while it is not known yet. */
static Frame *new_frame(PreparedLaunch *p, const DeviceStream *stream, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    Device *device = p->loaded->device;
    Frame *frame = ARENA_NEW(&p->arena, Frame);
    char *maps = arena_alloc(&p->arena, (size_t)plan->n_maps * DEVICE_MAP_BYTES + 64);
    frame->stream = stream ? *stream : NULL;
    frame->maps = maps + (64 - (uintptr_t)maps % 64) % 64;
    frame->pointers = ARENA_ARRAY(&p->arena, void *, plan->n_params + plan->n_scratch);
    frame->steps = ARENA_ARRAY(&p->arena, Step, plan->n_launches);
    for (int i = 0; i < plan->n_launches; i++) {
        void **args = ARENA_ARRAY(&p->arena, void *, plan->launches[i].n_args + 1);
        frame->steps[i] = (Step){&p->loaded->kernels[i], p->blocks[i], args};
    }
    frame->next = p->frames;
    p->frames = frame; /* what it has is freed with the others */
    if (p->scratch_bytes &&
        !memory_alloc(device, MEMORY_WORK, p->scratch_bytes, stream, &frame->scratch, error)) {
        return NULL;
    }
    return fill_frame(p, frame, error) ? frame : NULL;
}

/* new_frame for a running program: returns NULL and frees the frame if memory runs out. */
static Frame *guarded_frame(PreparedLaunch *p, DeviceStream stream, DeviceError *error)
{
    jmp_buf guard;
    Frame *before = p->frames;
    p->arena.guard = &guard;
    Frame *volatile made = NULL;
    if (setjmp(guard)) {
        device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
    } else {
        made = new_frame(p, &stream, error);
    }
    p->arena.guard = NULL;
    if (!made && p->frames != before) {
        if (p->frames->scratch) {
            memory_free(p->loaded->device, MEMORY_WORK, p->frames->scratch, NULL);
        }
        p->frames = before;
    }
    return made;
}

static Frame *frame_of(PreparedLaunch *p, DeviceStream stream, DeviceError *error)
{
    /* A frame with intermediates belongs to one stream; without them one frame serves all streams,
     * since a launch copies its arguments. */
    Frame *frame = p->frames;
    while (frame && p->scratch_bytes && frame->used && frame->stream != stream) {
        frame = frame->next;
    }
    if (!frame) {
        frame = guarded_frame(p, stream, error);
    }
    if (frame && (frame->edition == p->edition || fill_frame(p, frame, error))) {
        frame->stream = stream;
        frame->used = true;
        return frame;
    }
    return NULL;
}

/* ---- preparing ---- */

/* ---- the log ---- */

static bool clear_log(PreparedLaunch *p, DeviceError *error)
{
    static const int64_t head[LOG_HEAD];
    Device *device = p->loaded->device;
    return device->ops->copy_in(device, p->log, head, sizeof head, error);
}

static bool make_log(PreparedLaunch *p, DeviceError *error)
{
    Device *device = p->loaded->device;
    size_t words = LOG_HEAD + (size_t)LOG_RECORDS * (size_t)p->loaded->plan->log_words;
    return p->loaded->plan->log_words == 0 ||
           (device->ops->alloc(device, words * sizeof(int64_t), &p->log, error) &&
            clear_log(p, error));
}

bool launch_log(PreparedLaunch *p, DeviceStream stream, LaunchLog *log, DeviceError *error)
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
    log->records = device_host_alloc(device, bytes + 1);
    if (!log->records) {
        return device_fail(error, DIAG_ENVIRONMENT, 0, "out of memory");
    }
    const void *from = (int64_t *)p->log + LOG_HEAD;
    bool ok = (bytes == 0 || device->ops->copy_out(device, log->records, from, bytes, error)) &&
              clear_log(p, error);
    if (!ok) {
        device_host_free(device, log->records);
    }
    return ok;
}

static bool fill(PreparedLaunch *p, const LaunchArg *args, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    p->given = ARENA_ARRAY(&p->arena, LaunchArg, plan->n_params);
    p->args = ARENA_ARRAY(&p->arena, LaunchArg, plan->n_params + plan->n_scratch);
    for (int i = 0; i < plan->n_params; i++) {
        p->args[i] = p->given[i] = args[i];
    }
    p->sizes = ARENA_ARRAY(&p->arena, int64_t, plan->n_sizes);
    if (!launch_fits(plan, args, p->sizes, error) || !plan_check_overlaps(plan, args, error)) {
        return false;
    }
    /* A kernel that accesses memory of the host faults and destroys the whole context, so such
     * arguments are refused here. */
    Device *device = p->loaded->device;
    for (int i = 0; device->ops->reaches && i < plan->n_params; i++) {
        const DeviceTensor *tensor = &args[i].tensor;
        size_t before = 0, reached = 0;
        bool used = plan->params[i].rank >= 0 && plan_reach(tensor, &before, &reached) && reached;
        if (used && !device->ops->reaches(device, tensor->data)) {
            return device_fail(error, DIAG_USAGE, 0,
                               "%s: '%s' is in host memory, which %s cannot access: copy it to "
                               "memory from tessera_alloc",
                               plan->kernel, plan->params[i].name, device->facts.name);
        }
    }
    for (int i = 0; i < plan->n_params; i++) {
        merge_axes(plan->params[i].n_merged, plan->params[i].merged, &p->args[i].tensor);
    }
    /* The sizes determine the number of blocks of each launch; a persistent launch has at
     * most as many blocks as are resident at once. */
    p->blocks = ARENA_ARRAY(&p->arena, int64_t, plan->n_launches);
    for (int i = 0; i < plan->n_launches; i++) {
        if (!plan_blocks(&plan->launches[i], p->sizes, &p->blocks[i])) {
            return device_fail(error, DIAG_SOURCE, 0, "%s: the number of blocks overflows 64 bits",
                               plan->kernel);
        }
        p->blocks[i] = plan_resident(&plan->launches[i], p->blocks[i], device->facts.units);
    }
    /* All intermediates of the plan share one allocation. */
    p->offsets = ARENA_ARRAY(&p->arena, size_t, plan->n_scratch);
    size_t *bytes = ARENA_ARRAY(&p->arena, size_t, plan->n_scratch);
    for (int i = 0; i < plan->n_scratch; i++) {
        DeviceTensor *tensor = &p->args[plan->n_params + i].tensor;
        if (!plan_scratch_tensor(plan, i, p->sizes, tensor, &bytes[i], error)) {
            return false;
        }
    }
    p->scratch_bytes = plan_place_scratch(plan, bytes, p->offsets);
    return make_log(p, error) && new_frame(p, NULL, error) != NULL;
}

static bool guarded_fill(PreparedLaunch *p, const LaunchArg *args, DeviceError *error)
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

PreparedLaunch *launch_prepare(const LoadedModule *loaded, const LaunchArg *args,
                               DeviceError *error)
{
    PreparedLaunch *p = device_host_alloc(loaded->device, sizeof *p);
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

/* ---- running ---- */

const LaunchArg *launch_given(const PreparedLaunch *p)
{
    return p->given;
}

bool launch_set(PreparedLaunch *p, int index, void *data, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    DeviceTensor tensor = p->given[index].tensor;
    tensor.data = data;
    if (!check_pointer(plan, index, &tensor, error)) {
        return false;
    }
    if (p->given[index].tensor.data != data) {
        p->given[index].tensor.data = p->args[index].tensor.data = data;
        p->edition++;
    }
    return true;
}

bool launch_set_all(PreparedLaunch *p, void *const *tensors, DeviceError *error)
{
    const Plan *plan = p->loaded->plan;
    for (int i = 0; i < plan->n_params; i++) {
        if (plan->params[i].rank >= 0) {
            void *data = *tensors++;
            if (data != p->given[i].tensor.data && !launch_set(p, i, data, error)) {
                return false;
            }
        }
    }
    return true;
}

void launch_set_scalar(PreparedLaunch *p, int index, uint64_t scalar)
{
    p->given[index].scalar = p->args[index].scalar = scalar;
}

size_t launch_workspace(const PreparedLaunch *p)
{
    return p->scratch_bytes;
}

/* Pointers are set one at a time, so tensors can be tested for overlap only at the launch. */
static bool check_together(PreparedLaunch *p, DeviceError *error)
{
    if (p->checked != p->edition) {
        if (!plan_check_overlaps(p->loaded->plan, p->given, error)) {
            return false;
        }
        p->checked = p->edition;
    }
    return true;
}

bool launch_reserve(PreparedLaunch *p, DeviceStream stream, DeviceError *error)
{
    return check_together(p, error) && frame_of(p, stream, error) != NULL;
}

bool launch_run(PreparedLaunch *p, DeviceStream stream, DeviceError *error)
{
    Device *device = p->loaded->device;
    const Frame *frame = check_together(p, error) ? frame_of(p, stream, error) : NULL;
    for (int i = 0; frame && i < p->loaded->plan->n_launches; i++) {
        const Step *step = &frame->steps[i];
        if (step->blocks > 0 &&
            !device->ops->launch(device, step->kernel, step->blocks, step->args, stream, error)) {
            return false;
        }
        device->running = step->blocks > 0 ? step->kernel->symbol : device->running;
    }
    return frame != NULL;
}

void launch_free(PreparedLaunch *p)
{
    if (p) {
        Device *device = p->loaded->device;
        for (Frame *frame = p->frames; frame; frame = frame->next) {
            if (frame->scratch) {
                memory_free(device, MEMORY_WORK, frame->scratch,
                            frame->used ? &frame->stream : NULL);
            }
        }
        if (p->log) {
            device->ops->release(device, p->log);
        }
        arena_free(&p->arena);
        device_host_free(device, p);
    }
}
