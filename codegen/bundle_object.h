/* SPDX-License-Identifier: Apache-2.0 */
/* The object of a bundle, which `tessera compile` builds from many kernels: functions with a C
 * interface, the table that the runtime reads (runtime/launch/bundle_format.h), and the host's
 * code. */
#ifndef TESSERA_CODEGEN_BUNDLE_OBJECT_H
#define TESSERA_CODEGEN_BUNDLE_OBJECT_H

#include "codegen/codegen.h"
#include "support/text.h"

typedef enum BundleArgKind { BUNDLE_TENSOR, BUNDLE_SCALAR, BUNDLE_SIZE } BundleArgKind;
typedef struct BundleArg {
    BundleArgKind kind;
    DType dtype; /* of a scalar */
} BundleArg;

/* symbol(device, stream, args…) launches; symbol_prepare(device, args…, &launch) prepares. */
typedef struct BundleLauncher {
    const char *symbol;
    size_t n_args;
    const BundleArg *args;
} BundleLauncher;

typedef struct BundleObject {
    const char *name, *version; /* NAME_bundle is the table */
    Text bytes;
    size_t n_launchers, n_symbols, n_objects;
    const BundleLauncher *launchers;
    const char *const *symbols; /* of the host's code, in the order of the table */
    const Code *objects;        /* that define them */
    bool shared;                /* a shared library, else an object */
} BundleObject;

/* False after a diagnostic. */
bool codegen_bundle(Arena *arena, Diags *diags, const BundleObject *object, Code *code);

#endif
