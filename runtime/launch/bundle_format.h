/* SPDX-License-Identifier: Apache-2.0 */
/* The format of the object that `tessera compile -o k` writes: a table of functions and of their
 * code for several targets and sizes, as bytes, and the addresses of the host's code. */
#ifndef TESSERA_RUNTIME_LAUNCH_BUNDLE_FORMAT_H
#define TESSERA_RUNTIME_LAUNCH_BUNDLE_FORMAT_H

#include "runtime/device/plan.h"
#include "support/text.h"

/* Format counts up when the bytes or the object change their meaning. The first three members are
 * the same in every format: older and newer libraries say what is wrong. codegen/bundle_object.c
 * makes the object. */
enum { BUNDLE_FORMAT = 4 };
#define BUNDLE_MAGIC UINT64_C(0x656c646e75427354) /* "TsBundle" */
struct TesseraBundle {
    uint64_t magic, format;
    const char *version; /* of the compiler */
    const void *bytes;
    uint64_t n;
    void *const *code; /* the host's: a variant's launches, from BundleVariant.first on */
    uint64_t n_code;
};

typedef enum BundleKind {
    BUNDLE_HOST,   /* it is code of the object */
    BUNDLE_PTX,    /* text, ended by a zero */
    BUNDLE_OBJECT, /* for one part only: cubin, AMD's code object */
    BUNDLE_KINDS,
} BundleKind;

/* One of the typed launchers: a kernel with its generics bound. */
typedef struct BundleFunction {
    const char *name, *kernel; /* "softmax_bf16", "softmax" */
    int n_sizes;               /* those that no other says, in the order of the launcher */
    const char **sizes;
} BundleFunction;

typedef struct BundleVariant {
    int function;
    const char *target;
    const char *about; /* "N % 8 == 0", "any size" */
    BundleKind kind;
    int first; /* of the host's addresses */
    Plan plan;
    const char *code; /* what is loaded on other devices; a zero follows */
    size_t n;
} BundleVariant;

typedef struct BundleTable {
    const char *name; /* what all names begin with: "k" */
    int n_functions;
    BundleFunction *functions;
    int n_variants;
    BundleVariant *variants;
} BundleTable;

void bundle_to_bytes(const BundleTable *table, Text *out);
/* False where the bytes are no table; what counts and indices say is checked. What it points to
 * is the arena's, but code stays where it is. */
bool bundle_from_bytes(Arena *arena, const char *bytes, size_t n, uint64_t n_code,
                       BundleTable *table);

/* ---- which variant (bundle_select.c) ---- */

/* How well the code of a variant suits a part: -1 not at all, else the more the better. */
typedef struct BundlePart {
    bool host;
    const char *target; /* as devices name it */
    int max_threads, shared_bytes;
} BundlePart;
int variant_suits(const BundleVariant *variant, const BundlePart *part);
/* How few launches it takes: bits that its sizes, strides and addresses have to have. */
int variant_special(const Plan *plan);

#endif
