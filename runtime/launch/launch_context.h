/* SPDX-License-Identifier: Apache-2.0 */
/* The objects behind the public handles as far as launching needs them. They are the same in
 * libtessera and libtessera-launch. */
#ifndef TESSERA_RUNTIME_LAUNCH_LAUNCH_CONTEXT_H
#define TESSERA_RUNTIME_LAUNCH_LAUNCH_CONTEXT_H

#include "runtime/device/device_launch.h"

#include <stdatomic.h>
#include <tessera/launch.h>

/* What a library adds that has a compiler: libtessera gives the table to context_open
 * (runtime/api/api_context.c), libtessera-launch gives none (runtime/launch/standalone). */
typedef struct ContextHooks {
    /* Makes the context's error a diagnostic, too. */
    void (*tell)(TesseraContext *context, TesseraStatus status, int code, const char *message);
    /* Frees context->compiler. */
    void (*end)(TesseraContext *context);
    /* Can the compiler generate code for such a device? */
    bool (*makes)(const char *target);
} ContextHooks;

/* The beginning of every object that has a handle. The memory of a freed object is kept until
 * MAX_FREED others have been freed, so that using it meanwhile is reported as an error. */
typedef struct Handle {
    TesseraContext *context; /* that it was created in, or that of the task that created it */
    bool is_freed;
} Handle;
enum { MAX_FREED = 64 };

/* What tells the card of a device that was opened. Entries are only appended, so that compilations
 * on other threads may read those there are. */
typedef struct SeenDevice {
    char name[256];
    int units, clock;
} SeenDevice;
enum { MAX_SEEN = 8 };

struct TesseraContext {
    Allocator allocator;
    int abi; /* version of the caller's header: newer members are neither read nor written */
    TesseraError error;
    char *message, *reproducer;  /* from the allocator; NULL: none */
    struct KernelMessages *messages; /* kernel_messages.c; NULL: there are none */
    TesseraLog *log;             /* NULL: nothing is logged */
    void *log_user;
    const ContextHooks *hooks;      /* NULL: there is no compiler */
    struct CompilerState *compiler; /* runtime/api/api_objects.h */
    Handle *freed[MAX_FREED];       /* a ring; NULL: not used yet */
    unsigned n_freed;
    SeenDevice seen[MAX_SEEN];
    atomic_int n_seen;
};

struct TesseraDevice {
    Handle handle;
    TesseraContext *context;
    Device *device;
    TesseraDeviceInfo info;
    TesseraAllocation *listed;    /* by the last tessera_memory_list; from the allocator */
    struct DeviceBundle *bundles; /* bundles that were used on it (bundle_launch.c) */
    TesseraLaunch *launches;      /* launches that were prepared on it */
    LoadedModule *loaded;         /* code of kernels; closed by the kernel or with the device */
    TesseraEvent *events;         /* events that are not freed */
};

struct TesseraLaunch {
    Handle handle;
    TesseraDevice *device;
    const Plan *plan;
    const LoadedModule *loaded;
    PreparedLaunch *prepared; /* NULL: its device or kernel has been freed */
    const char *variant;      /* of a bundle; NULL: it does not come from one */
    TesseraLaunch *next;      /* the next one of the device */
};

/* ---- contexts and errors (launch_context.c) ---- */

TesseraStatus context_open(int abi, const TesseraAllocator *allocator, const ContextHooks *hooks,
                           TesseraContext **context);
/* Sets the error of the context, with a copy of the message. */
TesseraStatus context_fail(TesseraContext *context, TesseraStatus status, int driver_code,
                           const char *message);
TesseraStatus context_usage(TesseraContext *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* With a code of ir/ir_errors.def. */
TesseraStatus context_fail_code(TesseraContext *context, TesseraStatus status, int code,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Gives the diagnostic of the context's error a code. */
void context_tell_code(TesseraContext *context, TesseraStatus status, int code);
TesseraStatus context_device_fail(TesseraContext *context, const DeviceError *error);
/* The status of a driver's call. */
TesseraStatus device_check(TesseraDevice *device, bool ok, const DeviceError *error);
/* The error of a call whose device, or otherwise the named argument, is NULL. */
TesseraStatus device_missing(TesseraDevice *device, const char *call, const char *what);
/* Drops the error of a call of this thread that had no context: it is not the last one any more. */
void context_forget_orphan(void);
/* Sets the error only, without a diagnostic. */
TesseraStatus context_set_error(TesseraContext *context, TesseraStatus status, int driver_code,
                                const char *message);
/* The device of this name that was opened in the context; NULL: none, or too many others. */
const SeenDevice *context_seen_device(const TesseraContext *context, const char *name);
void context_set(TesseraContext *context, char **slot, const char *text);
TesseraStatus status_of(DiagClass kind);
/* Zeroed memory for an object, or NULL with the context's error set. */
void *context_take(TesseraContext *context, size_t bytes);
void context_drop(TesseraContext *context, void *memory);

/* ---- handles (handles.c) ---- */

/* As context_take, for an object that begins with a handle. */
void *handle_take(TesseraContext *context, size_t bytes);
/* Frees an object, which must not be freed yet. */
void handle_drop(TesseraContext *context, Handle *handle);
/* Releases all freed objects that are kept. */
void handles_release(TesseraContext *context);
/* False for NULL, which callers check for themselves. */
static inline bool handle_is_freed(const Handle *handle)
{
    return handle && handle->is_freed;
}
/* The error of using a freed handle. A call with a status checks before any other access. */
TesseraStatus handle_refuse(const Handle *handle, const char *call, const char *what);
#define REFUSE_FREED(object)                                                                       \
    do {                                                                                           \
        if ((object) && handle_is_freed(&(object)->handle)) {                                      \
            return handle_refuse(&(object)->handle, __func__, #object);                            \
        }                                                                                          \
    } while (0)
/* The error of using a launch whose device or kernel has been freed. */
TesseraStatus handle_refuse_lost(const Handle *handle, const char *call);
#define REFUSE_ENDED(launch)                                                                       \
    do {                                                                                           \
        REFUSE_FREED(launch);                                                                      \
        if ((launch) && !(launch)->prepared) {                                                     \
            return handle_refuse_lost(&(launch)->handle, __func__);                                \
        }                                                                                          \
    } while (0)
/* A call without a status returns `answer`. */
#define ANSWER_FREED(object, answer)                                                               \
    do {                                                                                           \
        if ((object) && handle_is_freed(&(object)->handle)) {                                      \
            return answer;                                                                         \
        }                                                                                          \
    } while (0)

/* Logs a line, if the context has a log. */
void context_log(TesseraContext *context, TesseraLogLevel level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- memory (launch_memory.c) ---- */

/* Logs allocations that were not released. */
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
/* Checks that type, rank and dims are valid. */
TesseraStatus tensor_check(TesseraContext *context, const char *kernel, const char *name,
                           const TesseraTensor *tensor);
/* The strides of a tensor: stated, or those of a contiguous one. */
void tensor_strides(const TesseraTensor *tensor, int64_t *strides);

/* ---- launches (launch_devices.c) ---- */

/* Checks and packs arguments, one for each parameter of the plan. */
TesseraStatus launch_make(TesseraDevice *device, const LoadedModule *loaded, const TesseraArg *args,
                          TesseraLaunch **launch);
/* Adds a prepared launch to those of the device; NULL: out of memory. */
TesseraLaunch *launch_keep(TesseraDevice *device, const LoadedModule *loaded,
                           PreparedLaunch *prepared);
/* loaded_keep registers loaded code with its device. loaded_end closes it and the launches that use
 * it, whose handles stay until they are freed; it does nothing if the device was freed before. */
void loaded_keep(TesseraDevice *device, LoadedModule *loaded);
void loaded_end(TesseraDevice *device, LoadedModule *loaded);
/* Converts an argument to the form of the plan: axes in the plan's order. */
void launch_pack(const PlanParam *param, const TesseraArg *from, LaunchArg *to);

/* ---- bundles (bundle_launch.c) ---- */

void bundles_free(TesseraDevice *device);
/* Releases the driver's part of all events of a device that is being freed. */
void events_end(TesseraDevice *device);

/* ---- kernel messages (kernel_messages.c) ---- */

/* One record: the message and its values. */
typedef struct KernelMessage {
    const PlanMessage *message;
    int nth; /* index of the message */
    size_t time;
    const union Scalar *values;
} KernelMessage;
typedef struct MessageRecords {
    KernelMessage *items;
    size_t n, cap;
    uint64_t lost, failures;
} MessageRecords;

/* Orders the records and stores their texts for context_messages. */
TesseraStatus context_store_messages(TesseraContext *context, MessageRecords *records);
TesseraMessages context_messages(const TesseraContext *context);
void kernel_messages_free(TesseraContext *context);

#endif
