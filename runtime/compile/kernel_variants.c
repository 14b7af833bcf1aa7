/* SPDX-License-Identifier: Apache-2.0 */
/* Size-specific variants of a kernel that was compiled before its sizes were known and for which
 * pins exist. A launch knows its sizes and uses the code for their bucket, which is compiled at
 * the first such launch; if that fails, the code for any size runs. */
#include "runtime/compile/kernel_objects.h"

#include "runtime/pins/size_bucket.h"

#include <string.h>

void options_add_bucket(Arena *arena, TesseraOptions *options, const char *bucket)
{
    const char *name;
    Bucket sizes;
    TesseraFact *facts = ARENA_ARRAY(arena, TesseraFact, options->n_facts + strlen(bucket) + 1);
    size_t n = options->n_facts;
    if (n > 0) {
        memcpy(facts, options->facts, n * sizeof *facts);
    }
    while (bucket_read(arena, &bucket, &name, &sizes)) {
        facts[n++] = (TesseraFact){name, sizes.multiple, sizes.least, sizes.most};
    }
    options->facts = facts;
    options->n_facts = n;
}

/* What one launch needs to know is forgotten after it: kernels are prepared any number of times. */
typedef struct BucketTask {
    TesseraKernel *kernel;
    const TesseraArg *args;
    ErrorBoundary scratch;
    const char *bucket;     /* comes out; NULL: there is no pin for the sizes */
    TesseraOptions options; /* of the variant */
} BucketTask;

static bool bucket_task(void *user)
{
    BucketTask *task = user;
    Compilation c = task->kernel->compilation;
    task->scratch.arena.guard = task->kernel->work.arena.guard;
    task->scratch.diags.bug_guard = task->kernel->work.diags.bug_guard;
    int64_t *sizes = ARENA_ARRAY(&task->scratch.arena, int64_t, c.func->dimvars.n + 1);
    c.work = &task->scratch;
    if (!sizes_from_args(c.func, &c.options, task->args, sizes)) {
        return true; /* the launch says what is wrong */
    }
    task->bucket = pins_later(&c, sizes);
    task->options = c.options;
    if (task->bucket) {
        options_add_bucket(&task->scratch.arena, &task->options, task->bucket);
    }
    return true;
}

static TesseraKernel *find_variant(const TesseraKernel *kernel, const char *bucket)
{
    TesseraKernel *at = kernel->variants;
    while (at && !text_equal(at->bucket, bucket)) {
        at = at->next;
    }
    return at;
}

static TesseraKernel *make_variant(const BucketTask *task, TesseraDevice *device)
{
    TesseraKernel *kernel = task->kernel, *made = NULL;
    DeviceCode *module;
    TesseraContext *context = kernel->work.context;
    if (kernel_make_pinned(kernel, task->bucket, &task->options, &made) != TESSERA_OK ||
        kernel_load(made, device, &module) != TESSERA_OK) {
        context_log(context, TESSERA_LOG_INFO, "%s: the pin for %s does not hold: %s",
                    kernel->signature.name, task->bucket, tessera_error(context)->message);
        tessera_kernel_free(made);
        /* A bucket whose variant failed is remembered, so that it is not compiled at each
         * launch. */
        TesseraKernel *none = handle_take(context, sizeof *none);
        if (none) {
            work_init(&none->work, context);
            none->is_failed = true;
        }
        made = none;
    } else {
        context_log(context, TESSERA_LOG_INFO, "%s: pinned for %s", kernel->signature.name,
                    task->bucket);
    }
    if (made) {
        context_set(context, &made->bucket, task->bucket);
        made->next = kernel->variants;
        kernel->variants = made;
    }
    return made;
}

TesseraKernel *kernel_for(TesseraKernel *kernel, TesseraDevice *device, const TesseraArg *args)
{
    BucketTask task = {.kernel = kernel, .args = args};
    TesseraKernel *variant = NULL;
    if (!kernel->compilation.pinned.later || kernel->compilation.stopped) {
        return kernel;
    }
    size_t n_diags = kernel->work.diags.list.n;
    int errors = kernel->work.diags.errors;
    work_init(&task.scratch, kernel->work.context);
    if (error_boundary_run_here(&kernel->work, bucket_task, &task) == TESSERA_OK && task.bucket) {
        variant = find_variant(kernel, task.bucket);
        variant = variant ? variant : make_variant(&task, device);
    }
    work_free(&task.scratch);
    kernel->work.diags.list.n = n_diags;
    kernel->work.diags.errors = errors;
    return variant && !variant->is_failed ? variant : kernel;
}
