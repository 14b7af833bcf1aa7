/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels say: records of a launch's log, or the interpreter's notes, put in order and into
 * words. */
#include "runtime/runtime.h"

#include "ir/interp.h"
#include "ir/say.h"

#include <stdlib.h>
#include <string.h>

struct Said {
    Work work;
    TesseraMessages messages;
};

/* ---- order ---- */

static int by_place(const SaidRecord *a, const SaidRecord *b)
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
    const SaidRecord *a = left, *b = right;
    if (a->nth != b->nth) {
        return a->nth < b->nth ? -1 : 1;
    }
    int order = by_place(a, b);
    return order ? order : a->time < b->time ? -1 : a->time > b->time;
}

/* ---- words ---- */

typedef struct HearTask {
    struct Said *said;
    SaidRecords *records;
} HearTask;

static void put_message(Arena *arena, const SaidRecord *record, TesseraMessage *out)
{
    const PlanMessage *message = record->message;
    Text text = text_new(arena);
    say_text(&text, message->text, message->n, message->dtypes, record->values);
    *out =
        (TesseraMessage){message->fails, text.n ? text.data : "",
                         message->file ? arena_strdup(arena, message->file) : NULL, message->line};
}

static bool hear_task(void *user)
{
    HearTask *task = user;
    SaidRecords *records = task->records;
    Arena *arena = &task->said->work.arena;
    TesseraMessage *items = ARENA_ARRAY(arena, TesseraMessage, records->n);
    if (records->n) {
        qsort(records->items, records->n, sizeof *records->items, compare_records);
    }
    for (size_t i = 0; i < records->n; i++) {
        put_message(arena, &records->items[i], &items[i]);
    }
    task->said->messages = (TesseraMessages){items, records->n, records->lost, records->failures};
    return true;
}

/* Empty, whatever was said before. */
static struct Said *said_begin(TesseraContext *context)
{
    said_free(context);
    context->said = context_take(context, sizeof *context->said);
    if (context->said) {
        work_init(&context->said->work, context);
    }
    return context->said;
}

void said_free(TesseraContext *context)
{
    if (context->said) {
        work_free(&context->said->work);
        context_drop(context, context->said);
        context->said = NULL;
    }
}

TesseraStatus context_hear(TesseraContext *context, SaidRecords *records)
{
    HearTask task = {said_begin(context), records};
    return task.said ? work_run(&task.said->work, hear_task, NULL, &task) : TESSERA_ENVIRONMENT;
}

TesseraStatus tessera_interpret_messages(TesseraContext *context, TesseraMessages *messages)
{
    if (!context || !messages) {
        return context_null(context, __func__, context ? "messages" : "context");
    }
    *messages = context->said ? context->said->messages : (TesseraMessages){0};
    return TESSERA_OK;
}

/* ---- the log of a launch ---- */

typedef struct LogTask {
    HearTask hear;
    const Plan *plan;
    const LaunchLog *log;
} LogTask;

static Scalar scalar_of(DType dtype, int64_t word)
{
    Scalar value = {.i = word};
    if (dtype_is_float(dtype)) {
        memcpy(&value.f, &word, sizeof value.f);
    }
    return value;
}

static bool log_task(void *user)
{
    LogTask *task = user;
    Arena *arena = &task->hear.said->work.arena;
    const LaunchLog *log = task->log;
    SaidRecords records = {.lost = (uint64_t)(log->total - log->n),
                           .failures = (uint64_t)log->failures};
    for (int64_t i = 0; i < log->n; i++) {
        const int64_t *words = log->records + i * log->words;
        const PlanMessage *message = &task->plan->messages[words[0]];
        Scalar *values = ARENA_ARRAY(arena, Scalar, message->n);
        for (int k = 0; k < message->n; k++) {
            values[k] = scalar_of(message->dtypes[k], words[1 + k]);
        }
        SaidRecord record = {message, (int)words[0], (size_t)i, values};
        ARENA_PUSH(arena, &records, record);
    }
    task->hear.records = &records;
    return hear_task(&task->hear);
}

TesseraStatus tessera_launch_messages(TesseraLaunch *launch, void *stream,
                                      TesseraMessages *messages)
{
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
    LogTask task = {{said_begin(context), NULL}, launch->plan, &log};
    TesseraStatus status = !task.hear.said ? TESSERA_ENVIRONMENT
                                           : work_run(&task.hear.said->work, log_task, NULL, &task);
    if (log.records) {
        device_drop(launch->device->device, log.records);
    }
    *messages = status == TESSERA_OK ? context->said->messages : (TesseraMessages){0};
    return status;
}
