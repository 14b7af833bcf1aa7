/* SPDX-License-Identifier: Apache-2.0 */
/* The public function that formats a source text (tessera_format). It runs the formatter inside an
 * error boundary, like every other call that parses text. */
#include "runtime/api/api_objects.h"

#include "frontend/syntax/formatter.h"

#include <string.h>

typedef struct FormatTask {
    ErrorBoundary work;
    const char *name, *text;
    size_t n;
} FormatTask;

static bool format_task(void *user)
{
    FormatTask *task = user;
    Diags *diags = &task->work.diags;
    TesseraContext *context = task->work.context;
    Text out = text_new(&task->work.arena);
    if (memchr(task->text, '\0', task->n)) {
        diag_failure(diags, DIAG_SOURCE, "%s: a zero byte in the text", task->name);
        return false;
    }
    int source = diags_add_source(diags, task->name, task->text, task->n);
    if (!frontend_format(&task->work.arena, diags, source, &out)) {
        return false;
    }
    char *kept = context_take(context, out.n + 1);
    if (!kept) {
        diag_failure(diags, DIAG_ENVIRONMENT, "out of memory");
        return false;
    }
    memcpy(kept, out.n ? out.data : "", out.n);
    context_drop(context, context->compiler->formatted);
    context->compiler->formatted = kept;
    return true;
}

static void format_reproducer(void *user, Text *out)
{
    const FormatTask *task = user;
    text_printf(out, "# tessera %s, formatting %s\n", TESSERA_VERSION, task->name);
    text_add_n(out, task->text, task->n);
}

TesseraStatus tessera_format(TesseraContext *context, const char *name, const char *text, size_t n,
                             const char **formatted)
{
    const char *null =
        NULL_ARGUMENT({formatted, "formatted"}, {name, "name"}, {n > 0 ? text : "", "text"});
    if (!context || null) {
        return context_null(context, __func__, null ? null : "context");
    }
    if (n > MAX_SOURCE) {
        return context_usage(context, "%s: more than %d MiB of source", name, MAX_SOURCE_MIB);
    }
    FormatTask task = {.name = name, .text = text ? text : "", .n = n};
    *formatted = NULL;
    work_init(&task.work, context);
    TesseraStatus status = error_boundary_run(&task.work, format_task, format_reproducer, &task);
    work_free(&task.work);
    *formatted = status == TESSERA_OK ? context->compiler->formatted : NULL;
    return status;
}
