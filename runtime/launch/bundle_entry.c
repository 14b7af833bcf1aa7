/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that a bundle's header calls. They keep prepared launches and reuse them for calls
 * with the same sizes and address alignments, after setting the new addresses and scalars. */
#include "runtime/launch/bundle_call.h"

#include <inttypes.h>
#include <string.h>

/* True if a prepared launch serves the call. The choice of a variant depends on sizes and on the
 * alignment of addresses; other addresses and scalars are set in the prepared launch. */
static bool is_like(const Call *call, const Ready *ready, void *stream)
{
    enum { MAX_ALIGN = 16 };
    if (!ready->launch || ready->function != call->function || ready->stream != stream) {
        return false;
    }
    const Plan *plan = ready->launch->plan;
    for (uint64_t i = 0; i < call->n; i++) {
        uint64_t differs = ready->values[i] ^ call->values[i];
        bool size = i >= (uint64_t)plan->n_params;
        if (size ? differs != 0 : plan->params[i].rank >= 0 && differs % MAX_ALIGN != 0) {
            return false;
        }
    }
    return true;
}

static Ready *find_ready(const Call *call, void *stream)
{
    for (int i = 0; i < MAX_READY; i++) {
        if (is_like(call, &call->on->ready[i], stream)) {
            return &call->on->ready[i];
        }
    }
    return NULL;
}

/* Waits for running launches before the memory that they use is freed. */
static TesseraStatus drop_ready(const Call *call, Ready *ready)
{
    const Plan *plan = ready->launch->plan;
    bool keeps = plan->n_scratch > 0 || plan->log_words > 0;
    TesseraStatus status = keeps ? tessera_sync(call->device, ready->stream) : TESSERA_OK;
    tessera_launch_free(ready->launch);
    context_drop(call->device->context, ready->values);
    *ready = (Ready){0};
    return status;
}

/* Sets the call's addresses and scalars. A launch that refuses one is dropped: the preparation of a
 * new one reports the error. */
static bool set_values(const Call *call, Ready *ready)
{
    DeviceError error;
    TesseraLaunch *launch = ready->launch;
    for (int i = 0; i < launch->plan->n_params; i++) {
        uint64_t value = call->values[i];
        if (ready->values[i] == value) {
            continue;
        }
        if (launch->plan->params[i].rank < 0) {
            launch_set_scalar(launch->prepared, i, value);
        } else if (!launch_set(launch->prepared, i, (void *)(uintptr_t)value, &error)) {
            drop_ready(call, ready);
            return false;
        }
        ready->values[i] = value;
    }
    return true;
}

/* Frees the slot of the least recently used launch. */
static TesseraStatus free_place(const Call *call, Ready **place)
{
    Ready *ready = call->on->ready;
    for (int i = 1; i < MAX_READY; i++) {
        Ready *other = &call->on->ready[i];
        ready = ready->launch && (!other->launch || other->used < ready->used) ? other : ready;
    }
    *place = ready;
    return ready->launch ? drop_ready(call, ready) : TESSERA_OK;
}

static TesseraStatus make_ready(const Call *call, void *stream, Ready **out)
{
    TesseraContext *context = call->device->context;
    size_t bytes = (size_t)call->n * sizeof *call->values;
    TesseraLaunch *launch = NULL;
    Ready *ready;
    TesseraStatus status = call_prepare(call, &launch);
    status = status == TESSERA_OK ? free_place(call, &ready) : status;
    uint64_t *values = status == TESSERA_OK ? context_take(context, bytes + 1) : NULL;
    if (!values) {
        tessera_launch_free(launch);
        return status == TESSERA_OK ? TESSERA_ENVIRONMENT : status;
    }
    if (bytes > 0) {
        memcpy(values, call->values, bytes);
    }
    *ready = (Ready){launch, call->function, stream, values, 0};
    *out = ready;
    return TESSERA_OK;
}

static TesseraStatus begin_call(const char *name, uint64_t function, Call *call,
                                const TesseraBundle *bundle)
{
    TesseraDevice *device = call->device;
    const char *null =
        NULL_ARGUMENT({bundle, "bundle"}, {device, "device"}, {call->values, "values"});
    if (null) {
        return context_null(device ? device->context : NULL, name, null);
    }
    TesseraStatus status = bundle_open(device, bundle, &call->on);
    if (status != TESSERA_OK) {
        return status;
    }
    const BundleTable *table = &call->on->table;
    if (function >= (uint64_t)table->n_functions) {
        return context_usage(device->context, "%s has no function %" PRIu64, table->name, function);
    }
    call->function = (int)function;
    call->kernel = table->functions[function].name;
    for (int i = 0; i < table->n_variants; i++) {
        DeviceError error;
        const BundleVariant *variant = &table->variants[i];
        if (variant->function == call->function && !call_has_arguments(call, variant, &error)) {
            return context_device_fail(device->context, &error);
        }
    }
    return TESSERA_OK;
}

TesseraStatus tessera_bundle_launch(const TesseraBundle *bundle, uint64_t function,
                                    TesseraDevice *device, void *stream, const uint64_t *values,
                                    uint64_t n_values)
{
    REFUSE_FREED(device);
    Call call = {.device = device, .values = values, .n = n_values};
    TesseraStatus status = begin_call(__func__, function, &call, bundle);
    Ready *ready = status == TESSERA_OK ? find_ready(&call, stream) : NULL;
    if (status == TESSERA_OK && (!ready || !set_values(&call, ready))) {
        status = make_ready(&call, stream, &ready);
    }
    if (status != TESSERA_OK) {
        return status;
    }
    ready->used = ++call.on->clock;
    return tessera_launch(ready->launch, stream);
}

TesseraStatus tessera_bundle_ready(const TesseraBundle *bundle, uint64_t function,
                                   TesseraDevice *device, const uint64_t *values, uint64_t n_values,
                                   TesseraLaunch **launch)
{
    Call call = {.device = device, .values = values, .n = n_values};
    if (!launch) {
        return context_null(device ? device->context : NULL, __func__, "launch");
    }
    *launch = NULL;
    REFUSE_FREED(device);
    TesseraStatus status = begin_call(__func__, function, &call, bundle);
    return status == TESSERA_OK ? call_prepare(&call, launch) : status;
}
