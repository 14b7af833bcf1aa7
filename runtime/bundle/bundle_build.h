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

/* bundle_is_for: true if the variant names nothing that the kernel lacks. bundle_variant_of returns
 * its options for the kernel, bundle_any_size those of the code for any size. */
bool bundle_is_for(const BundleBuilder *builder, const TesseraSignature *signature,
                   const TesseraOptions *variant);
TesseraOptions bundle_variant_of(const BundleBuilder *builder, const TesseraSignature *signature,
                                 const TesseraOptions *from);
TesseraOptions bundle_any_size(const BundleBuilder *builder, const TesseraSignature *signature,
                               const TesseraOptions *from);
/* Compiles builder->kernel and adds its code as a variant of the function. */
bool bundle_add_code(BundleBuilder *builder, size_t function, bool fallback);
/* Adds a variant for each size bucket that has a pin; only for functions whose variants leave the
 * sizes open (bundle_pins.c). */
bool bundle_add_pinned(BundleBuilder *builder, size_t function, const TesseraOptions *any,
                       const char *target);
/* The value that the options bind to a name, or NULL. */
const char *bundle_bound_to(const TesseraOptions *options, const char *name);
/* Adds the warnings of the current kernel to those of the bundle, each once. */
void bundle_keep_warnings(BundleBuilder *builder);
void bundle_tell_warnings(BundleBuilder *builder);
/* Chooses the C names of a function's parameters. */
void bundle_name_args(BundleBuilder *builder, BundleFunctionInfo *function);
/* A name that two functions would have, or that the header uses otherwise; NULL if none. */
const char *bundle_name_twice(const BundleBuilder *builder);
void bundle_header(const BundleBuilder *builder, Text *out);

#endif
