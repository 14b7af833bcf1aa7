/* SPDX-License-Identifier: Apache-2.0 */
/* The objects behind the public handles, as far as launching needs them: the same in libtessera and
 * in libtessera-launch. */
#ifndef TESSERA_RUNTIME_LAUNCH_CONTEXT_H
#define TESSERA_RUNTIME_LAUNCH_CONTEXT_H

#include "runtime/device/launch.h"

#include <tessera/launch.h>

/* What a library adds that has a compiler. */
typedef struct ContextHooks {
    /* An error has become the context's: tessera_diagnostics tells it, too. */
    void (*tell)(TesseraContext *context, TesseraStatus status, int code, const char *message);
    /* Frees context->compiler. */
    void (*end)(TesseraContext *context);
    /* Is there code for such a device? */
    bool (*makes)(const char *target);
} ContextHooks;

struct TesseraContext {
    Allocator allocator;
    int abi; /* of the caller's header: what it does not know is neither read nor written */
    TesseraError error;
    char *message, *reproducer; /* from the allocator; NULL: none */
    struct Said *said;          /* messages.c; NULL: nothing yet */
    TesseraLog *log;            /* NULL: nobody wants to know */
    void *log_user;
    const ContextHooks *hooks; /* NULL: there is no compiler */
    struct Compiler *compiler; /* runtime/runtime.h */
};

struct TesseraDevice {
    TesseraContext *context;
    Device *device;
    TesseraDeviceInfo info;
    TesseraAllocation *listed;    /* by the last tessera_memory_list; from the allocator */
    struct DeviceBundle *bundles; /* bundle.c: those that were used on it */
};

struct TesseraLaunch {
    TesseraDevice *device;
    const Plan *plan;
    Prepared *prepared;
    const char *variant; /* of a bundle; NULL: it is from none */
};

/* ---- contexts and errors (context.c) ---- */

TesseraStatus context_open(int abi, const TesseraAllocator *allocator, const ContextHooks *hooks,
                           TesseraContext **context);
/* Copies of text into the context; the last ones are freed. */
TesseraStatus context_fail(TesseraContext *context, TesseraStatus status, int driver_code,
                           const char *message);
TesseraStatus context_usage(TesseraContext *context, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* With a code of ir/errors.def. */
TesseraStatus context_fail_code(TesseraContext *context, TesseraStatus status, int code,
                                const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The error as it is, and a code of it, for who reads diagnostics. */
void context_tell_code(TesseraContext *context, TesseraStatus status, int code);
TesseraStatus context_device_fail(TesseraContext *context, const DeviceError *error);
/* The error alone; the hook does not hear of it. */
TesseraStatus context_set_error(TesseraContext *context, TesseraStatus status, int driver_code,
                                const char *message);
void context_set(TesseraContext *context, char **slot, const char *text);
TesseraStatus status_of(DiagClass kind);
/* Zeroed memory for an object, or NULL with the context's error set. */
void *context_take(TesseraContext *context, size_t bytes);
void context_drop(TesseraContext *context, void *memory);

/* To who wants to know. */
void context_log(TesseraContext *context, TesseraLogLevel level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- memory (memory.c) ---- */

/* Tells what was not released. */
void memory_report(TesseraDevice *device);

/* ---- arguments (arguments.c) ---- */

TesseraStatus context_null(TesseraContext *context, const char *call, const char *what);
bool type_is_known(TesseraType type);
/* A type, a rank and dims that there may be. */
TesseraStatus tensor_check(TesseraContext *context, const char *kernel, const char *name,
                           const TesseraTensor *tensor);
/* Those that it has, given or because it is contiguous. */
void tensor_strides(const TesseraTensor *tensor, int64_t *strides);

/* ---- launches (devices.c) ---- */

/* Checks and packs arguments, one a parameter of the plan. */
TesseraStatus launch_make(TesseraDevice *device, const Loaded *loaded, const TesseraArg *args,
                          TesseraLaunch **launch);
/* As the plan has it: its axes in the plan's order. */
void launch_pack(const PlanParam *param, const TesseraArg *from, LaunchArg *to);

/* ---- bundles (bundle.c) ---- */

void bundles_free(TesseraDevice *device);

/* ---- what kernels say (messages.c) ---- */

/* One record: which message, and a value each. */
typedef struct SaidRecord {
    const PlanMessage *message;
    int nth; /* of the messages */
    size_t time;
    const union Scalar *values;
} SaidRecord;
typedef struct SaidRecords {
    SaidRecord *items;
    size_t n, cap;
    uint64_t lost, failures;
} SaidRecords;

/* Orders the records and keeps what they say, for context_said. */
TesseraStatus context_hear(TesseraContext *context, SaidRecords *records);
TesseraMessages context_said(const TesseraContext *context);
void said_free(TesseraContext *context);

#endif
