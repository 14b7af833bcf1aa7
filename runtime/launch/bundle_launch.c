/* SPDX-License-Identifier: Apache-2.0 */
/* Launches kernels of a bundle that is linked into the program. The table is read once per device,
 * a variant is chosen for each launch, and its code is loaded at first use. */
#include "runtime/launch/bundle_call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading ---- */

static bool read_guarded(DeviceBundle *on, const TesseraBundle *bundle, bool *good)
{
    jmp_buf guard;
    on->arena.guard = &guard;
    if (setjmp(guard)) {
        return false;
    }
    *good =
        bundle_from_bytes(&on->arena, bundle->bytes, (size_t)bundle->n, bundle->n_code, &on->table);
    for (int i = 0; *good && i < on->table.n_variants; i++) {
        BundleVariant *variant = &on->table.variants[i];
        variant->about =
            arena_printf(&on->arena, "%s for %s: %s", on->table.functions[variant->function].name,
                         variant->target, variant->about);
    }
    on->loaded = ARENA_ARRAY(&on->arena, LoadedModule, on->table.n_variants + 1);
    on->is_refused = ARENA_ARRAY(&on->arena, bool, on->table.n_variants + 1);
    on->arena.guard = NULL;
    return true;
}

void bundles_free(TesseraDevice *device)
{
    while (device->bundles) {
        DeviceBundle *next = device->bundles->next;
        DeviceBundle *on = device->bundles;
        for (int i = 0; i < MAX_READY; i++) {
            tessera_launch_free(on->ready[i].launch);
            context_drop(device->context, on->ready[i].values);
        }
        for (int i = 0; on->loaded && i < on->table.n_variants; i++) {
            if (on->loaded[i].device) {
                loaded_close(&on->loaded[i]);
            }
        }
        arena_free(&on->arena);
        context_drop(device->context, on);
        device->bundles = next;
    }
}

static TesseraStatus check_version(TesseraContext *context, const TesseraBundle *bundle)
{
    if (bundle->magic != BUNDLE_MAGIC) {
        return context_usage(context, "that is no bundle of tessera's");
    }
    if (bundle->format != BUNDLE_FORMAT) {
        return context_usage(context,
                             "the object is of tessera %.30s and of format %" PRIu64
                             ", this library, %s, reads format %d: compile the object again, or "
                             "link the library that belongs to it",
                             bundle->version, bundle->format, TESSERA_VERSION, BUNDLE_FORMAT);
    }
    return TESSERA_OK;
}

TesseraStatus bundle_open(TesseraDevice *device, const TesseraBundle *bundle, DeviceBundle **out)
{
    for (*out = device->bundles; *out; *out = (*out)->next) {
        if ((*out)->bundle == bundle) {
            return TESSERA_OK;
        }
    }
    TesseraContext *context = device->context;
    TesseraStatus status = check_version(context, bundle);
    DeviceBundle *on = status == TESSERA_OK ? context_take(context, sizeof *on) : NULL;
    bool good = false;
    if (!on) {
        return status == TESSERA_OK ? TESSERA_ENVIRONMENT : status;
    }
    on->bundle = bundle;
    arena_init(&on->arena, context->allocator);
    if (!read_guarded(on, bundle, &good)) {
        status = context_fail(context, TESSERA_ENVIRONMENT, 0, "out of memory");
    } else if (!good) {
        status = context_usage(context, "the bundle is damaged");
    }
    if (status != TESSERA_OK) {
        arena_free(&on->arena);
        context_drop(context, on);
        return status;
    }
    on->next = device->bundles;
    device->bundles = *out = on;
    return TESSERA_OK;
}

/* ---- arguments ---- */

/* Memory for the arguments and sizes of any variant. */
typedef struct PackedArgs {
    LaunchArg *args;
    int64_t *sizes;
} PackedArgs;

/* The launcher's sizes become those of the plan. A size that the tensors do not tell is taken from
 * there, too. */
static bool give_sizes(const Call *call, Plan *plan, int64_t *sizes, DeviceError *error)
{
    const BundleFunction *function = &call->on->table.functions[call->function];
    for (int i = 0; i < plan->n_sizes; i++) {
        PlanSize *size = &plan->sizes[i];
        int64_t of = 0;
        sizes[i] = 0;
        for (int j = 0; j < function->n_sizes; j++) {
            if (text_equal(function->sizes[j], size->name)) {
                size->is_given = true;
                sizes[i] = size->given = (int64_t)call->values[plan->n_params + j];
            }
        }
        if (sizes[i] < 0) {
            return device_fail(error, DIAG_SOURCE, 0, "%s: the size %s is %" PRId64, plan->kernel,
                               size->name, sizes[i]);
        }
        if (size->by > 0 && plan_eval(&size->of, sizes, &of)) {
            sizes[i] = of / size->by - (of % size->by < 0);
        }
    }
    return true;
}

static bool pack_values(const Call *call, Plan *plan, PackedArgs *packed, DeviceError *error)
{
    if (!give_sizes(call, plan, packed->sizes, error)) {
        return false;
    }
    for (int i = 0; i < plan->n_params; i++) {
        const PlanParam *param = &plan->params[i];
        TesseraArg arg = {0};
        if (param->rank < 0) {
            packed->args[i] = (LaunchArg){.scalar = call->values[i]};
            continue;
        }
        /* The tensor is contiguous, its axes in the caller's order. */
        const int64_t *sizes = packed->sizes;
        uint64_t value = call->values[i];
        TesseraTensor *tensor = &arg.tensor;
        *tensor = (TesseraTensor){.data = (void *)(uintptr_t)value,
                                  .type = (TesseraType)param->dtype,
                                  .rank = param->rank};
        for (int axis = 0; axis < param->rank; axis++) {
            int64_t *dim = &tensor->dims[param->order[axis]];
            if (!plan_eval(&param->dims[axis], sizes, dim) || *dim < 0) {
                return device_fail(error, DIAG_SOURCE, 0,
                                   "%s: the size of axis %d of '%s' is negative, or overflows",
                                   plan->kernel, param->order[axis], param->name);
            }
        }

        launch_pack(param, &arg, &packed->args[i]);
    }
    return true;
}

static bool pack(const Call *call, Plan *plan, PackedArgs *packed, DeviceError *error)
{
    if (call->values) {
        return pack_values(call, plan, packed, error);
    }
    for (int i = 0; i < plan->n_sizes; i++) {
        plan->sizes[i].is_given = false; /* an earlier call may have set it */
    }
    for (int i = 0; i < plan->n_params; i++) {
        launch_pack(&plan->params[i], &call->args[i], &packed->args[i]);
    }
    return true;
}

/* ---- choosing ---- */

typedef struct Choice {
    int variant; /* -1: none */
    int suits, special;
    int other;   /* another function that suits, too; -1 if none */
    int refused; /* the least specialized variant whose checks fail; -1 if none */
    int refused_special;
    DeviceError error; /* of that variant */
    bool known;        /* the bundle has the function */
    int suitable;      /* number of variants that this device can execute */
} Choice;

static bool is_meant(const Call *call, const BundleVariant *variant)
{
    const BundleFunction *function = &call->on->table.functions[variant->function];
    return call->function >= 0 ? call->function == variant->function
                               : text_equal(function->name, call->kernel) ||
                                     text_equal(function->kernel, call->kernel);
}

bool call_has_arguments(const Call *call, const BundleVariant *variant, DeviceError *error)
{
    const BundleFunction *function = &call->on->table.functions[variant->function];
    int n = variant->plan.n_params + (call->values ? function->n_sizes : 0);
    return call->n == (uint64_t)n ||
           device_fail(error, DIAG_USAGE, 0, "%s wants %d arguments, %" PRIu64 " are given",
                       function->name, n, call->n);
}

/* Prefers variants that suit the device best, among them the most specialized, then the first. */
static void try_variant(const Call *call, int index, const BundlePart *part, PackedArgs *packed,
                        Choice *choice)
{
    BundleVariant *variant = &call->on->table.variants[index];
    DeviceError error;
    choice->known = choice->known || is_meant(call, variant);
    bool usable = is_meant(call, variant) && !call->on->is_refused[index];
    int suits = usable ? variant_suits(variant, part) : -1;
    int special = variant_special(&variant->plan);
    if (suits < 0) {
        return;
    }
    choice->suitable++;
    if (!call_has_arguments(call, variant, &error) || !pack(call, &variant->plan, packed, &error) ||
        !launch_fits(&variant->plan, packed->args, packed->sizes, &error)) {
        if (choice->refused < 0 || special < choice->refused_special) {
            choice->refused = index;
            choice->refused_special = special;
            choice->error = error;
        }
        return;
    }
    const BundleVariant *best =
        choice->variant >= 0 ? &call->on->table.variants[choice->variant] : NULL;
    bool better =
        !best || suits > choice->suits || (suits == choice->suits && special > choice->special);
    if (best && best->function != variant->function) {
        choice->other = better ? best->function : variant->function;
    }
    if (better) {
        choice->variant = index;
        choice->suits = suits;
        choice->special = special;
    }
}

static TesseraStatus none_chosen(const Call *call, const Choice *choice)
{
    TesseraContext *context = call->device->context;
    const BundleTable *table = &call->on->table;
    const TesseraDeviceInfo *info = &call->device->info;
    if (!choice->known) {
        return context_usage(context, "%s has no kernel '%.100s'", table->name, call->kernel);
    }
    if (choice->suitable == 0) {
        char names[256];
        size_t n = sizeof names;
        size_t used = 0;
        names[0] = '\0';
        for (int i = 0; i < table->n_variants; i++) {
            const char *target = table->variants[i].target;
            size_t length = strlen(target);
            bool listed = !is_meant(call, &table->variants[i]);
            for (int j = 0; j < i && !listed; j++) {
                listed = is_meant(call, &table->variants[j]) &&
                         text_equal(table->variants[j].target, target);
            }
            if (!listed && used + length + 3 < n) {
                memcpy(names + used, used ? ", " : "", used ? 2 : 0);
                used += used ? 2 : 0;
                memcpy(names + used, target, length + 1);
                used += length;
            }
        }
        return context_usage(context,
                             "%s of %s has no code for %s (%s): it was compiled for %s; add "
                             "another --target",
                             call->kernel, table->name, info->name, info->target, names);
    }
    return context_device_fail(context, &choice->error);
}

static TesseraStatus choose(const Call *call, PackedArgs *packed, Choice *choice)
{
    const BundleTable *table = &call->on->table;
    const DeviceFacts *facts = &call->device->device->facts;
    BundlePart part = {call->device->device->ops == &device_host, facts->target, facts->max_threads,
                       facts->shared_bytes};
    *choice = (Choice){.variant = -1, .other = -1, .refused = -1};
    for (int i = 0; i < table->n_variants; i++) {
        try_variant(call, i, &part, packed, choice);
    }
    if (choice->variant < 0) {
        return none_chosen(call, choice);
    }
    if (choice->other >= 0) {
        int chosen = table->variants[choice->variant].function;
        return context_usage(call->device->context,
                             "%s of %s is both %s and %s here: say which by that name",
                             call->kernel, table->name, table->functions[chosen].name,
                             table->functions[choice->other].name);
    }
    return TESSERA_OK;
}

/* ---- launches ---- */

typedef struct HostCode {
    const TesseraBundle *bundle;
    const BundleVariant *variant;
} HostCode;

static void *host_symbol(void *user, const char *name)
{
    const HostCode *code = user;
    const Plan *plan = &code->variant->plan;
    for (int i = 0; i < plan->n_launches; i++) {
        if (text_equal(plan->launches[i].symbol, name)) {
            return code->bundle->code[code->variant->first + i];
        }
    }
    return NULL;
}

static TesseraStatus load(const Call *call, int index)
{
    DeviceError error;
    LoadedModule *loaded = &call->on->loaded[index];
    const BundleVariant *variant = &call->on->table.variants[index];
    HostCode code = {call->on->bundle, variant};
    DeviceImage image = {.bytes = variant->code, .n = variant->n};
    if (loaded->device) {
        return TESSERA_OK;
    }
    if (variant->kind == BUNDLE_HOST) {
        image = (DeviceImage){.symbol = host_symbol, .user = &code};
    }
    return loaded_open(call->device->device, &variant->plan, &image, loaded, &error)
               ? TESSERA_OK
               : context_device_fail(call->device->context, &error);
}

static TesseraStatus make_launch(const Call *call, int index, const LaunchArg *args,
                                 TesseraLaunch **out)
{
    TesseraDevice *device = call->device;
    TesseraContext *context = device->context;
    const BundleVariant *variant = &call->on->table.variants[index];
    DeviceError error;
    TesseraStatus status = load(call, index);
    if (status != TESSERA_OK) {
        return status;
    }
    const LoadedModule *loaded = &call->on->loaded[index];
    PreparedLaunch *prepared = launch_prepare(loaded, args, &error);
    if (!prepared) {
        return context_device_fail(context, &error);
    }
    *out = launch_keep(device, loaded, prepared);
    if (!*out) {
        return TESSERA_ENVIRONMENT;
    }
    (*out)->variant = variant->about;
    return TESSERA_OK;
}

static PackedArgs alloc_packed(const Call *call)
{
    const BundleTable *table = &call->on->table;
    int args = 1, sizes = 1;
    for (int i = 0; i < table->n_variants; i++) {
        const Plan *plan = &table->variants[i].plan;
        args = plan->n_params > args ? plan->n_params : args;
        sizes = plan->n_sizes > sizes ? plan->n_sizes : sizes;
    }
    PackedArgs packed = {context_take(call->device->context, (size_t)args * sizeof *packed.args),
                         context_take(call->device->context, (size_t)sizes * sizeof *packed.sizes)};
    return packed;
}

static TesseraStatus launch_chosen(const Call *call, int variant, PackedArgs *packed,
                                   TesseraLaunch **launch)
{
    DeviceError error; /* unused: these arguments passed the checks of the plan before */
    pack(call, &call->on->table.variants[variant].plan, packed, &error);
    return make_launch(call, variant, packed->args, launch);
}

/* True if the driver cannot load this machine code although the name of the part matches; PTX may
 * still be possible. */
static bool is_unloadable(const Call *call, int variant)
{
    enum { CUDA_NO_BINARY_FOR_GPU = 209 };
    return call->on->table.variants[variant].kind == BUNDLE_OBJECT &&
           call->device->device->ops == &device_cuda &&
           call->device->context->error.driver_code == CUDA_NO_BINARY_FOR_GPU;
}

TesseraStatus call_prepare(const Call *call, TesseraLaunch **launch)
{
    TesseraContext *context = call->device->context;
    Choice choice, other;
    PackedArgs packed = alloc_packed(call);
    TesseraStatus status = packed.args && packed.sizes ? TESSERA_OK : TESSERA_ENVIRONMENT;
    status = status == TESSERA_OK ? choose(call, &packed, &choice) : status;
    if (status == TESSERA_OK) {
        status = launch_chosen(call, choice.variant, &packed, launch);
        if (status != TESSERA_OK && is_unloadable(call, choice.variant)) {
            call->on->is_refused[choice.variant] = true;
            bool left = choose(call, &packed, &other) == TESSERA_OK;
            call->on->is_refused[choice.variant] = left;
            status = launch_chosen(call, left ? other.variant : choice.variant, &packed, launch);
        }
    }
    context_drop(context, packed.args);
    context_drop(context, packed.sizes);
    return status;
}

const char *tessera_launch_variant(const TesseraLaunch *launch)
{
    return launch && launch->prepared ? launch->variant : NULL;
}

static TesseraStatus check_args(TesseraContext *context, const char *kernel, const TesseraArg *args,
                                size_t n)
{
    TesseraStatus status = TESSERA_OK;
    char name[32];
    for (size_t i = 0; i < n && status == TESSERA_OK; i++) {
        snprintf(name, sizeof name, "argument %zu", i + 1);
        status = tensor_check(context, kernel, name, &args[i].tensor);
    }
    return status;
}

TesseraStatus tessera_bundle_prepare(const TesseraBundle *bundle, const char *kernel,
                                     TesseraDevice *device, const TesseraArg *args, size_t n_args,
                                     TesseraLaunch **launch)
{
    const char *null =
        NULL_ARGUMENT({bundle, "bundle"}, {kernel, "kernel"}, {device, "device"},
                      {launch, "launch"}, {n_args > 0 ? (const void *)args : "", "args"});
    if (launch) {
        *launch = NULL;
    }
    REFUSE_FREED(device);
    if (null) {
        return context_null(device ? device->context : NULL, __func__, null);
    }
    Call call = {.device = device, .function = -1, .kernel = kernel, .args = args, .n = n_args};
    TesseraStatus status = check_args(device->context, kernel, args, n_args);
    status = status == TESSERA_OK ? bundle_open(device, bundle, &call.on) : status;
    return status == TESSERA_OK ? call_prepare(&call, launch) : status;
}
