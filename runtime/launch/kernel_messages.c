/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel messages: sorts and formats the records of a launch's log, or the events of the
 * interpreter. */
#include "runtime/launch/launch_context.h"

#include "ir/message_format.h"
#include "ir/scalar.h"

#include <stdlib.h>
#include <string.h>

struct KernelMessages {
    Arena arena;
    TesseraMessages list;
};

/* ---- order ---- */

static int compare_places(const KernelMessage *a, const KernelMessage *b)
{
    const PlanMessage *message = a->message;
    for (int i = message->n - message->places; i < message->n; i++) {
        if (a->values[i].i != b->values[i].i) {
            return a->values[i].i < b->values[i].i ? -1 : 1;
        }
    }
    return 0;
}

static int compare_records(const void *left, const void *right)
{
    const KernelMessage *a = left, *b = right;
    if (a->nth != b->nth) {
        return a->nth < b->nth ? -1 : 1;
    }
    int order = compare_places(a, b);
    if (order) {
        return order;
    }
    return a->time < b->time ? -1 : a->time > b->time;
}

/* ---- words ---- */

typedef struct MessageTask {
    struct KernelMessages *messages;
    MessageRecords *records;
} MessageTask;

static void store_records(const void *user)
{
    const MessageTask *task = user;
    MessageRecords *records = task->records;
    Arena *arena = &task->messages->arena;
    TesseraMessage *items = ARENA_ARRAY(arena, TesseraMessage, records->n);
    if (records->n) {
        qsort(records->items, records->n, sizeof *records->items, compare_records);
    }
    for (size_t i = 0; i < records->n; i++) {
        const KernelMessage *record = &records->items[i];
        TesseraMessage *out = &items[i];
        const PlanMessage *message = record->message;
        Text text = text_new(arena);
        say_text(&text, message->text, message->n, message->dtypes, record->values);
        *out = (TesseraMessage){message->fails, text.n ? text.data : "",
                                message->file ? arena_strdup(arena, message->file) : NULL,
                                message->line};
    }
    task->messages->list = (TesseraMessages){items, records->n, records->lost, records->failures};
}

typedef void MessageWork(const void *user);

static TesseraStatus guarded(TesseraContext *context, MessageWork *work, const void *user)
{
    jmp_buf guard;
    context->messages->arena.guard = &guard;
    bool enough = setjmp(guard) == 0;
    if (enough) {
        work(user);
    }
    context->messages->arena.guard = NULL;
    return enough ? TESSERA_OK : context_fail(context, TESSERA_ENVIRONMENT, 0, "out of memory");
}

/* Discards earlier messages and starts an empty list. */
static struct KernelMessages *kernel_messages_begin(TesseraContext *context)
{
    kernel_messages_free(context);
    context->messages = context_take(context, sizeof *context->messages);
    if (context->messages) {
        arena_init(&context->messages->arena, context->allocator);
    }
    return context->messages;
}

void kernel_messages_free(TesseraContext *context)
{
    if (context->messages) {
        arena_free(&context->messages->arena);
        context_drop(context, context->messages);
        context->messages = NULL;
    }
}

TesseraStatus context_store_messages(TesseraContext *context, MessageRecords *records)
{
    MessageTask task = {kernel_messages_begin(context), records};
    return task.messages ? guarded(context, store_records, &task) : TESSERA_ENVIRONMENT;
}

TesseraMessages context_messages(const TesseraContext *context)
{
    return context->messages ? context->messages->list : (TesseraMessages){0};
}

/* ---- the log of a launch ---- */

typedef struct LogTask {
    MessageTask store;
    const Plan *plan;
    const LaunchLog *log;
} LogTask;

static void store_log(const void *user)
{
    const LogTask *task = user;
    Arena *arena = &task->store.messages->arena;
    const LaunchLog *log = task->log;
    MessageRecords records = {.lost = (uint64_t)(log->total - log->n),
                              .failures = (uint64_t)log->failures};
    for (int64_t i = 0; i < log->n; i++) {
        const int64_t *words = log->records + i * log->words;
        const PlanMessage *message = &task->plan->messages[words[0]];
        Scalar *values = ARENA_ARRAY(arena, Scalar, message->n);
        for (int k = 0; k < message->n; k++) {
            int64_t word = words[1 + k];
            Scalar value = {.i = word};
            if (dtype_is_float(message->dtypes[k])) {
                memcpy(&value.f, &word, sizeof value.f);
            }
            values[k] = value;
        }
        KernelMessage record = {message, (int)words[0], (size_t)i, values};
        ARENA_PUSH(arena, &records, record);
    }
    store_records(&(MessageTask){task->store.messages, &records});
}

TesseraStatus tessera_launch_messages(TesseraLaunch *launch, void *stream,
                                      TesseraMessages *messages)
{
    REFUSE_ENDED(launch);
    DeviceError error;
    LaunchLog log;
    if (!launch || !messages) {
        return context_null(launch ? launch->device->context : NULL, __func__,
                            launch ? "messages" : "launch");
    }
    TesseraContext *context = launch->device->context;
    *messages = (TesseraMessages){0};
    if (!launch_log(launch->prepared, stream, &log, &error)) {
        return context_device_fail(context, &error);
    }
    LogTask task = {{kernel_messages_begin(context), NULL}, launch->plan, &log};
    TesseraStatus status =
        task.store.messages ? guarded(context, store_log, &task) : TESSERA_ENVIRONMENT;
    if (log.records) {
        device_host_free(launch->device->device, log.records);
    }
    *messages = status == TESSERA_OK ? context_messages(context) : (TesseraMessages){0};
    return status;
}

bool tessera_launch_says(const TesseraLaunch *launch)
{
    return launch && launch->prepared && launch->plan->log_words > 0;
}
