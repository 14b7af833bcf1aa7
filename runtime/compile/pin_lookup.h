/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned schedules: the key of a kernel in a pin file, and the search for its entry. */
#ifndef TESSERA_RUNTIME_COMPILE_PIN_LOOKUP_H
#define TESSERA_RUNTIME_COMPILE_PIN_LOOKUP_H

#include "frontend/frontend.h"
#include "runtime/pins/pin_file.h"

#include <tessera/tessera.h>

struct Compilation;

/* Of a kernel as it is typed. */
typedef struct KernelFingerprint {
    const char *digest; /* of its IR, with how its tensors lie */
    const char *plain;  /* of its IR, as if they were contiguous */
    const char *types;  /* "D=128, T=bf16" */
} KernelFingerprint;

/* What a compilation takes of pins. */
typedef struct PinLookup {
    bool forbidden;     /* the caller does not want them, or they do not hold */
    const char *bucket; /* the one that is wanted; NULL: that of the options' sizes */
    bool wanted;        /* who the kernel is */
    const char *file;   /* that was read; NULL: none */
    const char *text;   /* that is in it */
    size_t n;
    bool named; /* by the caller: what is wrong with it is an error */
    Pins pins;
    KernelFingerprint identity;
    const Pin *taken; /* NULL: none */
    bool later;       /* there are some for sizes that are not known yet */
} PinLookup;

/* After the front end has typed the kernel, before anything is given to it; then after its tensors
 * lie as they will. */
bool fingerprint_typed(struct Compilation *c, const Module *module, const KernelSignature *kernel);
bool fingerprint_strided(struct Compilation *c);
/* "T=bf16" and the sizes' buckets and values, by name; NULL where a size is not known. */
const char *buckets_of(struct Compilation *c, const int64_t *sizes);
const char *sizes_text(struct Compilation *c, const int64_t *sizes);
/* "sm_90a"; the host's CPU by its name for LLVM. */
const char *architecture_of(struct Compilation *c);

/* Reads the file of pins, if there is one; false after an error. Without it nothing asks who the
 * kernel is. It is parsed when it is used, so that the program's own sources come first. */
bool pins_load(struct Compilation *c);
/* For another compilation of the same kernel, in this process or in a worker: the pin file's text
 * as it was read, even if the file has changed since. */
PinLookup pins_copy(const PinLookup *pinned);
/* Gives the kernel's schedule the lines of the entry that is for it. */
bool pins_apply(struct Compilation *c);
/* For arguments of these sizes: the bucket for which there is an entry, or NULL. */
const char *pins_later(struct Compilation *c, const int64_t *sizes);
/* The n-th bucket for which there is an entry, of a compilation that knows no sizes; NULL: no
 * more. */
const char *pins_bucket(struct Compilation *c, size_t n);

#endif
