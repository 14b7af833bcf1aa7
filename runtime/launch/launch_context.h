/* SPDX-License-Identifier: Apache-2.0 */
/* The objects behind the public handles as far as launching needs them. They are the same in
 * libtessera and libtessera-launch. */
#ifndef TESSERA_RUNTIME_LAUNCH_LAUNCH_CONTEXT_H
#define TESSERA_RUNTIME_LAUNCH_LAUNCH_CONTEXT_H

#include "runtime/device/device_launch.h"

#include <tessera/launch.h>

/* What a library adds that has a compiler: libtessera gives the table to context_open
 * (runtime/api/api_context.c), libtessera-launch gives none (runtime/launch/standalone). */
typedef struct ContextHooks {
    /* An error has become the context's: tessera_diagnostics tells it, too. */
    void (*tell)(TesseraContext *context, TesseraStatus status, int code, const char *message);
    /* Frees context->compiler. */
    void (*end)(TesseraContext *context);
    /* Is there code for such a device? */
    bool (*makes)(const char *target);
} ContextHooks;

/* The beginning of every object that has a handle. What is freed stays for a while: as long as no
 * MAX_FREED others are freed after it, using it is an error that is told. */
typedef struct Handle {
    TesseraContext *context; /* that it came from, or of the task that made it */
    bool is_freed;
} Handle;
enum { MAX_FREED = 64 };

struct TesseraContext {
    Allocator allocator;
    int abi; /* of the caller's header: what it does not know is neither read nor written */
    TesseraError error;
    char *message, *reproducer;  /* from the allocator; NULL: none */
    struct KernelMessages *said; /* kernel_messages.c; NULL: nothing yet */
    TesseraLog *log;             /* NULL: nobody wants to know */
    void *log_user;
    const ContextHooks *hooks;      /* NULL: there is no compiler */
    struct CompilerState *compiler; /* runtime/api/api_objects.h */
    Handle *freed[MAX_FREED];       /* a ring; NULL: not used yet */
    unsigned n_freed;
};

struct TesseraDevice {
    Handle handle;
    TesseraContext *context;
    Device *device;
    TesseraDeviceInfo info;
    TesseraAllocation *listed;    /* by the last tessera_memory_list; from the allocator */
    struct DeviceBundle *bundles; /* bundle_launch.c: those that were used on it */
    TesseraLaunch *launches;      /* that were prepared on it */
    LoadedModule *loaded;         /* code of kernels, which they close or the device does */
    TesseraEvent *events;         /* that are not freed */
};

struct TesseraLaunch {
    Handle handle;
    TesseraDevice *device;
    const Plan *plan;
    const LoadedModule *loaded;
    PreparedLaunch *prepared; /* NULL: its device or kernel has been freed */
    const char *variant;      /* of a bundle; NULL: it is from none */
    TesseraLaunch *next;      /* of the device */
};

/* ---- contexts and errors (launch_context.c) ---- */

TesseraStatus context_open(int abi, const TesseraAllocator *allocator, const ContextHooks *hooks,
                           TesseraContext **context);
/* Copies of text into the context; the last ones are freed. */
TesseraStatus context_fail(TesseraContext *context, TesseraStatus status, int driver_code,
                           const char *message);
TesseraStatus context_usage(TesseraContext *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* With a code of ir/ir_errors.def. */
TesseraStatus context_fail_code(TesseraContext *context, TesseraStatus status, int code,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The error as it is, and a code of it, for who reads diagnostics. */
void context_tell_code(TesseraContext *context, TesseraStatus status, int code);
TesseraStatus context_device_fail(TesseraContext *context, const DeviceError *error);
/* What a driver's call came to. */
TesseraStatus device_check(TesseraDevice *device, bool ok, const DeviceError *error);
/* The call lacks its device or, where it has one, what is named. */
TesseraStatus device_missing(TesseraDevice *device, const char *call, const char *what);
/* What a call without a context failed with, in this thread, is not the last failure any more. */
void context_forget_orphan(void);
/* The error alone; the hook does not hear of it. */
TesseraStatus context_set_error(TesseraContext *context, TesseraStatus status, int driver_code,
                                const char *message);
void context_set(TesseraContext *context, char **slot, const char *text);
TesseraStatus status_of(DiagClass kind);
/* Zeroed memory for an object, or NULL with the context's error set. */
void *context_take(TesseraContext *context, size_t bytes);
void context_drop(TesseraContext *context, void *memory);

/* ---- handles (handles.c) ---- */

/* The same, as the beginning of an object with a handle. */
void *handle_take(TesseraContext *context, size_t bytes);
/* Of one that is not freed yet. */
void handle_drop(TesseraContext *context, Handle *handle);
/* All that are kept. */
void handles_release(TesseraContext *context);
/* NULL is none, and is looked at by who wants another. */
static inline bool handle_is_freed(const Handle *handle)
{
    return handle && handle->is_freed;
}
/* In a call that has a status, before the handle is looked at in any other way. */
TesseraStatus handle_refuse(const Handle *handle, const char *call, const char *what);
#define REFUSE_FREED(object)                                                                       \
    do {                                                                                           \
        if ((object) && handle_is_freed(&(object)->handle)) {                                      \
            return handle_refuse(&(object)->handle, __func__, #object);                            \
        }                                                                                          \
    } while (0)
/* Of a launch that is there, while its device or kernel is not. */
TesseraStatus handle_refuse_lost(const Handle *handle, const char *call);
#define REFUSE_ENDED(launch)                                                                       \
    do {                                                                                           \
        REFUSE_FREED(launch);                                                                      \
        if ((launch) && !(launch)->prepared) {                                                     \
            return handle_refuse_lost(&(launch)->handle, __func__);                                \
        }                                                                                          \
    } while (0)
/* In one that has none. */
#define ANSWER_FREED(object, answer)                                                               \
    do {                                                                                           \
        if ((object) && handle_is_freed(&(object)->handle)) {                                      \
            return answer;                                                                         \
        }                                                                                          \
    } while (0)

/* To who wants to know. */
void context_log(TesseraContext *context, TesseraLogLevel level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- memory (launch_memory.c) ---- */

/* Tells what was not released. */
void memory_report(TesseraDevice *device);

/* ---- arguments (launch_arguments.c) ---- */

TesseraStatus context_null(TesseraContext *context, const char *call, const char *what);
/* The name of the first of a call's arguments that is NULL; NULL: none is. */
typedef struct NamedArgument {
    const void *value;
    const char *name;
} NamedArgument;
const char *null_argument(const NamedArgument *arguments, size_t n);
#define NULL_ARGUMENT(...)                                                                         \
    null_argument((const NamedArgument[]){__VA_ARGS__},                                            \
                  sizeof((const NamedArgument[]){__VA_ARGS__}) / sizeof(NamedArgument))
bool type_is_known(TesseraType type);
/* A type, a rank and dims that there may be. */
TesseraStatus tensor_check(TesseraContext *context, const char *kernel, const char *name,
                           const TesseraTensor *tensor);
/* Those that it has, given or because it is contiguous. */
void tensor_strides(const TesseraTensor *tensor, int64_t *strides);

/* ---- launches (launch_devices.c) ---- */

/* Checks and packs arguments, one a parameter of the plan. */
TesseraStatus launch_make(TesseraDevice *device, const LoadedModule *loaded, const TesseraArg *args,
                          TesseraLaunch **launch);
/* A launch that has been prepared becomes the device's; NULL: there is no memory. */
TesseraLaunch *launch_keep(TesseraDevice *device, const LoadedModule *loaded,
                           PreparedLaunch *prepared);
/* Code that is open is known to the device from now on; and is closed, with the launches of it,
 * whose handles are left for who frees them. Of code that went with its device nothing is left. */
void loaded_keep(TesseraDevice *device, LoadedModule *loaded);
void loaded_end(TesseraDevice *device, LoadedModule *loaded);
/* As the plan has it: its axes in the plan's order. */
void launch_pack(const PlanParam *param, const TesseraArg *from, LaunchArg *to);

/* ---- bundles (bundle_launch.c) ---- */

void bundles_free(TesseraDevice *device);
/* Events of a device that ends: the device's part of them. */
void events_end(TesseraDevice *device);

/* ---- what kernels say (kernel_messages.c) ---- */

/* One record: which message, and a value each. */
typedef struct KernelMessage {
    const PlanMessage *message;
    int nth; /* of the messages */
    size_t time;
    const union Scalar *values;
} KernelMessage;
typedef struct SaidRecords {
    KernelMessage *items;
    size_t n, cap;
    uint64_t lost, failures;
} SaidRecords;

/* Orders the records and keeps what they say, for context_said. */
TesseraStatus context_hear(TesseraContext *context, SaidRecords *records);
TesseraMessages context_said(const TesseraContext *context);
void said_free(TesseraContext *context);

#endif
