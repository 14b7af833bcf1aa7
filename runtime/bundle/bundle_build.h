/* SPDX-License-Identifier: Apache-2.0 */
/* A bundle under construction: bundle_build.c compiles it, bundle_header.c describes it. */
#ifndef TESSERA_RUNTIME_BUNDLE_BUNDLE_BUILD_H
#define TESSERA_RUNTIME_BUNDLE_BUNDLE_BUILD_H

#include "codegen/bundle_object.h"
#include "runtime/api/api_objects.h"
#include "runtime/context/error_boundary.h"
#include "runtime/launch/bundle_format.h"

/* A kernel with its generics bound: a function of the header. */
typedef struct BundleFunctionInfo {
    BundleFunction of;
    const char *bound; /* "T = bf16", or "" */
    TesseraParam *params;
    size_t n_params;
    const char **args; /* names of the C function's parameters: params, then sizes */
    BundleLauncher launcher;
    TesseraOptions options; /* of its first variant */
} BundleFunctionInfo;

typedef struct BundleBuilder {
    ErrorBoundary *work;
    TesseraProgram *program;
    const TesseraBundleOptions *options;
    const char *name;
    TesseraKernel *kernel; /* being compiled, or NULL */
    TesseraStatus status;
    struct {
        BundleFunctionInfo *items;
        size_t n, cap;
    } functions;
    struct {
        BundleVariant *items;
        size_t n, cap;
    } variants;
    struct {
        const char **items;
        size_t n, cap;
    } symbols;
    struct {
        Code *items;
        size_t n, cap;
    } objects;
} BundleBuilder;

/* Is a variant for this kernel? Its options, and those of the code for any size. */
bool bundle_is_for(const BundleBuilder *builder, const TesseraSignature *signature,
                   const TesseraOptions *variant);
TesseraOptions bundle_variant_of(const BundleBuilder *builder, const TesseraSignature *signature,
                                 const TesseraOptions *from);
TesseraOptions bundle_any_size(const BundleBuilder *builder, const TesseraSignature *signature,
                               const TesseraOptions *from);
/* The code of builder->kernel as a variant of the function. */
bool bundle_add_code(BundleBuilder *builder, size_t function, bool fallback);
/* A variant for each bucket of sizes for which there is a pin, where variants say nothing of sizes
 * (bundle_pins.c). */
bool bundle_add_pinned(BundleBuilder *builder, size_t function, const TesseraOptions *any,
                       const char *target);
/* What the options bind a name to, or NULL. */
const char *bundle_bound_to(const TesseraOptions *options, const char *name);
/* What the kernel at hand was warned of becomes the bundle's, once. */
void bundle_keep_warnings(BundleBuilder *builder);
void bundle_tell_warnings(BundleBuilder *builder);
/* The names of C for what a function takes. */
void bundle_name_args(BundleBuilder *builder, BundleFunctionInfo *function);
/* Two functions of one name, or one that the header has otherwise; NULL: there is none. */
const char *bundle_name_twice(const BundleBuilder *builder);
void bundle_header(const BundleBuilder *builder, Text *out);

#endif
