/* SPDX-License-Identifier: Apache-2.0 */
/* Variants of a bundle for tuned sizes. The sizes of later launches are not known at build time,
 * so each pinned size bucket gets its own code, which launches with such sizes select. */
#include "runtime/api/api_objects.h"
#include "runtime/bundle/bundle_build.h"

#include "ir/ir_errors.h"

static void add_one(BundleBuilder *making, size_t function, TesseraKernel *general,
                    const TesseraOptions *options, const char *bucket)
{
    TesseraOptions with = *options;
    options_add_bucket(&making->work->arena, &with, bucket);
    TesseraStatus status = kernel_make_pinned(general, bucket, &with, &making->kernel);
    if (status != TESSERA_OK || !bundle_add_code(making, function, false)) {
        Diag *diag = diag_warning(&making->work->diags, ERR_PINS_UNUSED, SPAN_NONE,
                                  "the pin of %s for %s does not hold, and is not used",
                                  general->signature.name, bucket);
        diag_note(&making->work->diags, diag, "%s", tessera_error(making->work->context)->message);
        making->status = TESSERA_OK;
    }
    tessera_kernel_free(making->kernel);
    making->kernel = NULL;
}

bool bundle_add_pinned(BundleBuilder *making, size_t function, const TesseraOptions *any,
                       const char *target)
{
    TesseraOptions with = *any;
    TesseraKernel *general;
    const char *bucket;
    with.target = target;
    if (!pins_may_be(making->work, making->program, any)) {
        return true;
    }
    CompilerState *compiler = making->work->context->compiler;
    compiler->making = arena_printf(&making->work->arena, "%s for %s, for any size",
                                    making->functions.items[function].of.name, target);
    making->status = tessera_compile(making->program, &with, &general);
    if (making->status != TESSERA_OK) {
        return false;
    }
    for (size_t i = 0; (bucket = pins_bucket(&general->compilation, i)); i++) {
        add_one(making, function, general, &with, bucket);
    }
    tessera_kernel_free(general);
    compiler->making = NULL;
    return true;
}
