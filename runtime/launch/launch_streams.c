/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions for streams, events, graphs, and asynchronous copies. */
#include "runtime/device/device_memory.h"
#include "runtime/launch/launch_context.h"

#include <string.h>

struct TesseraEvent {
    Handle handle;
    TesseraDevice *device;
    DeviceEvent driver_event; /* NULL: its device has been freed, which took it along */
    bool is_recorded;
    TesseraEvent *next; /* of the device */
};

struct TesseraGraph {
    Handle handle;
    TesseraDevice *device;
    DeviceGraph graph;
};

/* Of what lives on a device. */
#define REFUSE_WITHOUT_DEVICE(object)                                                              \
    do {                                                                                           \
        REFUSE_FREED(object);                                                                      \
        if ((object) && (object)->device->handle.is_freed) {                                       \
            return handle_refuse(&(object)->handle, __func__, "the device of " #object);           \
        }                                                                                          \
    } while (0)

static const DeviceStreams *streams_of(const TesseraDevice *device)
{
    return device->device->ops->streams;
}

/* ---- streams ---- */

TesseraStatus tessera_stream_new(TesseraDevice *device, void **stream)
{
    DeviceError error;
    if (stream) {
        *stream = NULL;
    }
    REFUSE_FREED(device);
    if (!device || !stream) {
        return device_missing(device, __func__, "stream");
    }
    return device_check(device, streams_of(device)->open(device->device, stream, &error), &error);
}

void tessera_stream_free(TesseraDevice *device, void *stream)
{
    ANSWER_FREED(device, );
    if (device && stream) {
        memory_leave(device->device, stream);
        streams_of(device)->close(device->device, stream);
    }
}

/* ---- events ---- */

TesseraStatus tessera_event_new(TesseraDevice *device, TesseraEvent **out)
{
    DeviceError error;
    if (out) {
        *out = NULL;
    }
    REFUSE_FREED(device);
    if (!device || !out) {
        return device_missing(device, __func__, "event");
    }
    TesseraEvent *event = handle_take(device->context, sizeof *event);
    if (!event) {
        return TESSERA_ENVIRONMENT;
    }
    event->device = device;
    if (!streams_of(device)->event_create(device->device, &event->driver_event, &error)) {
        context_drop(device->context, event);
        return context_device_fail(device->context, &error);
    }
    event->next = device->events;
    device->events = event;
    *out = event;
    return TESSERA_OK;
}

static void forget(TesseraEvent *event)
{
    Device *device = event->device->device;
    device->ops->event_destroy(device, event->driver_event);
    event->driver_event = NULL;
}

void events_end(TesseraDevice *device)
{
    while (device->events) {
        TesseraEvent *event = device->events;
        device->events = event->next;
        forget(event);
    }
}

void tessera_event_free(TesseraEvent *event)
{
    if (event && !event->handle.is_freed) {
        if (event->driver_event) {
            TesseraEvent **place = &event->device->events;
            while (*place != event) {
                place = &(*place)->next;
            }
            *place = event->next;
            forget(event);
        }
        handle_drop(event->handle.context, &event->handle);
    }
}

TesseraStatus tessera_event_record(TesseraEvent *event, void *stream)
{
    REFUSE_WITHOUT_DEVICE(event);
    DeviceError error;
    if (!event) {
        return context_null(NULL, __func__, "event");
    }
    TesseraDevice *device = event->device;
    bool ok = streams_of(device)->record(device->device, event->driver_event, stream, &error);
    event->is_recorded |= ok;
    return device_check(device, ok, &error);
}

TesseraStatus tessera_event_wait(TesseraEvent *event, void *stream)
{
    REFUSE_WITHOUT_DEVICE(event);
    DeviceError error;
    if (!event) {
        return context_null(NULL, __func__, "event");
    }
    TesseraDevice *device = event->device;
    return device_check(
        device, streams_of(device)->wait(device->device, stream, event->driver_event, &error),
        &error);
}

TesseraStatus tessera_event_sync(TesseraEvent *event)
{
    REFUSE_WITHOUT_DEVICE(event);
    DeviceError error;
    if (!event) {
        return context_null(NULL, __func__, "event");
    }
    TesseraDevice *device = event->device;
    return device_check(device,
                        streams_of(device)->event_sync(device->device, event->driver_event, &error),
                        &error);
}

TesseraStatus tessera_event_elapsed(TesseraEvent *first, TesseraEvent *last, double *seconds)
{
    REFUSE_WITHOUT_DEVICE(first);
    REFUSE_WITHOUT_DEVICE(last);
    DeviceError error;
    const char *null = NULL_ARGUMENT({first, "first"}, {last, "last"}, {seconds, "seconds"});
    if (null) {
        return context_null(first ? first->device->context : NULL, __func__, null);
    }
    *seconds = 0;
    if (first->device != last->device) {
        return context_usage(first->device->context, "%s: the events are of two devices", __func__);
    }
    if (!first->is_recorded || !last->is_recorded) {
        return context_usage(first->device->context, "%s: the %s event was never recorded",
                             __func__, first->is_recorded ? "last" : "first");
    }
    Device *device = first->device->device;
    return device_check(
        first->device,
        device->ops->elapsed(device, first->driver_event, last->driver_event, seconds, &error),
        &error);
}

/* ---- graphs ---- */

static TesseraStatus no_graphs(TesseraDevice *device)
{
    return context_fail(device->context, TESSERA_ENVIRONMENT, 0,
                        "the CPU has no graphs: what is launched there is done when the call "
                        "returns");
}

TesseraStatus tessera_capture_begin(TesseraDevice *device, void *stream)
{
    REFUSE_FREED(device);
    DeviceError error;
    if (!device || !stream) {
        return device_missing(device, __func__, "stream");
    }
    if (!streams_of(device)->capture) {
        return no_graphs(device);
    }
    return device_check(device, streams_of(device)->capture(device->device, stream, &error),
                        &error);
}

TesseraStatus tessera_capture_end(TesseraDevice *device, void *stream, TesseraGraph **out)
{
    DeviceError error;
    if (out) {
        *out = NULL;
    }
    REFUSE_FREED(device);
    if (!device || !stream || !out) {
        return device_missing(device, __func__, stream ? "graph" : "stream");
    }
    if (!streams_of(device)->captured) {
        return no_graphs(device);
    }
    DeviceGraph made;
    if (!streams_of(device)->captured(device->device, stream, &made, &error)) {
        return context_device_fail(device->context, &error);
    }
    TesseraGraph *graph = handle_take(device->context, sizeof *graph);
    if (!graph) {
        streams_of(device)->drop(device->device, made);
        return TESSERA_ENVIRONMENT;
    }
    graph->device = device;
    graph->graph = made;
    *out = graph;
    return TESSERA_OK;
}

TesseraStatus tessera_graph_launch(TesseraGraph *graph, void *stream)
{
    REFUSE_WITHOUT_DEVICE(graph);
    DeviceError error;
    if (!graph) {
        return context_null(NULL, __func__, "graph");
    }
    TesseraDevice *device = graph->device;
    return device_check(
        device, streams_of(device)->replay(device->device, graph->graph, stream, &error), &error);
}

void tessera_graph_free(TesseraGraph *graph)
{
    if (graph && !graph->handle.is_freed) {
        if (!graph->device->handle.is_freed) {
            streams_of(graph->device)->drop(graph->device->device, graph->graph);
        }
        handle_drop(graph->handle.context, &graph->handle);
    }
}

/* ---- copies ---- */

TesseraStatus tessera_copy_in_async(TesseraDevice *device, void *to, const void *from, size_t bytes,
                                    void *stream)
{
    REFUSE_FREED(device);
    DeviceError error;
    if (!device || (bytes > 0 && (!to || !from))) {
        return device_missing(device, __func__, to ? "from_host" : "to");
    }
    return device_check(
        device,
        bytes == 0 || streams_of(device)->copy_in(device->device, to, from, bytes, stream, &error),
        &error);
}

TesseraStatus tessera_copy_out_async(TesseraDevice *device, void *to, const void *from,
                                     size_t bytes, void *stream)
{
    REFUSE_FREED(device);
    DeviceError error;
    if (!device || (bytes > 0 && (!to || !from))) {
        return device_missing(device, __func__, to ? "from" : "to_host");
    }
    return device_check(
        device,
        bytes == 0 || streams_of(device)->copy_out(device->device, to, from, bytes, stream, &error),
        &error);
}

TesseraStatus tessera_copy(TesseraDevice *device, void *to, TesseraDevice *from_device,
                           const void *from, size_t bytes, void *stream)
{
    REFUSE_FREED(device);
    REFUSE_FREED(from_device);
    DeviceError error;
    if (!device || !from_device || (bytes > 0 && (!to || !from))) {
        return device_missing(device, __func__, !from_device ? "from_device" : to ? "from" : "to");
    }
    Device *d = device->device;
    if (d->ops != from_device->device->ops) {
        /* Arrays of devices of different kinds can be copied only by way of the host. */
        return context_usage(device->context,
                             "tessera_copy: from %s to %s: copy by way of the host",
                             from_device->info.kind, device->info.kind);
    }
    bool ok = bytes == 0 ||
              (device == from_device ? d->ops->copy(d, to, from, bytes, stream, &error)
                                     : streams_of(device)->copy_peer(d, to, from_device->device,
                                                                     from, bytes, stream, &error));
    return device_check(device, ok, &error);
}
