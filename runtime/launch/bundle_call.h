/* SPDX-License-Identifier: Apache-2.0 */
/* One launch of a kernel of a bundle (bundle_launch.c), and the cache of prepared launches
 * (bundle_entry.c). */
#ifndef TESSERA_RUNTIME_LAUNCH_BUNDLE_CALL_H
#define TESSERA_RUNTIME_LAUNCH_BUNDLE_CALL_H

#include "runtime/launch/bundle_format.h"
#include "runtime/launch/launch_context.h"

enum { MAX_READY = 32 };

/* A launch that a typed function prepared: to be had again for the same sizes. */
typedef struct Ready {
    TesseraLaunch *launch; /* NULL: the place is free */
    int function;
    void *stream;
    uint64_t *values, used;
} Ready;

/* A bundle on one device. */
struct DeviceBundle {
    struct DeviceBundle *next;
    const TesseraBundle *bundle;
    Arena arena;
    BundleTable table;
    LoadedModule *loaded; /* one a variant; device NULL: not yet */
    bool *is_refused;     /* one a variant: the driver says that it is for another part */
    Ready ready[MAX_READY];
    uint64_t clock; /* of what was used last */
};
typedef struct DeviceBundle DeviceBundle;

/* What is to be launched: by a typed function its values, else arguments. */
typedef struct Call {
    TesseraDevice *device;
    DeviceBundle *on;
    int function;       /* -1: any of that kernel */
    const char *kernel; /* of whom messages speak */
    const uint64_t *values;
    const TesseraArg *args;
    uint64_t n; /* of the values, or arguments */
} Call;

/* The bundle on the device, read when it is first asked for. */
TesseraStatus bundle_open(TesseraDevice *device, const TesseraBundle *bundle, DeviceBundle **on);
/* As many as the variant wants. */
bool call_has_arguments(const Call *call, const BundleVariant *variant, DeviceError *error);
/* Chooses a variant, loads it and prepares it. */
TesseraStatus call_prepare(const Call *call, TesseraLaunch **launch);

#endif
