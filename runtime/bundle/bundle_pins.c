/* SPDX-License-Identifier: Apache-2.0 */
/* Variants of a bundle for tuned sizes. The sizes of later launches are not known at build time,
 * so each pinned size bucket gets its own code, which launches with such sizes select. */
#include "runtime/api/api_objects.h"
#include "runtime/bundle/bundle_build.h"

#include "ir/ir_errors.h"

static void add_one(BundleBuilder *builder, size_t function, TesseraKernel *general,
                    const TesseraOptions *options, const char *bucket)
{
    TesseraOptions with = *options;
    options_add_bucket(&builder->work->arena, &with, bucket);
    TesseraStatus status = kernel_make_pinned(general, bucket, &with, &builder->kernel);
    if (status != TESSERA_OK || !bundle_add_code(builder, function, false)) {
        Diag *diag = diag_warning(&builder->work->diags, ERR_PINS_UNUSED, SPAN_NONE,
                                  "the pin of %s for %s does not apply and is ignored",
                                  general->signature.name, bucket);
        diag_note(&builder->work->diags, diag, "%s",
                  tessera_error(builder->work->context)->message);
        builder->status = TESSERA_OK;
    }
    tessera_kernel_free(builder->kernel);
    builder->kernel = NULL;
}

bool bundle_add_pinned(BundleBuilder *builder, size_t function, const TesseraOptions *any,
                       const char *target)
{
    TesseraOptions with = *any;
    TesseraKernel *general;
    const char *bucket;
    with.target = target;
    if (!pins_may_be(builder->work, builder->program, any)) {
        return true;
    }
    CompilerState *compiler = builder->work->context->compiler;
    compiler->bundle_variant = arena_printf(&builder->work->arena, "%s for %s, for any size",
                                            builder->functions.items[function].of.name, target);
    builder->status = tessera_compile(builder->program, &with, &general);
    if (builder->status != TESSERA_OK) {
        return false;
    }
    for (size_t i = 0; (bucket = pins_bucket(&general->compilation, i)); i++) {
        add_one(builder, function, general, &with, bucket);
    }
    tessera_kernel_free(general);
    compiler->bundle_variant = NULL;
    return true;
}
