/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of `tessera check` share. */
#ifndef TESSERA_CLI_COMMANDS_CMD_CHECK_H
#define TESSERA_CLI_COMMANDS_CMD_CHECK_H

#include "cli/data/array_args.h"
#include "cli/options.h"

/* ---- types, constants and sizes to try (check_sizes.c) ---- */

enum { CHECK_ROUNDS = 7 };

/* The number of variants of unbound types and constants, and the bindings of one variant together
 * with those of the command line: 0, or an exit code after a message. */
size_t check_variants(const TesseraSignature *signature, const Options *options);
int check_bindings(const TesseraSignature *signature, const Options *options, size_t variant,
                   TesseraPair **pairs, size_t *n);
/* Chooses the sizes of one round within the facts (`most` 0: no bound): small ones, primes, tiles
 * and one more or less, zero; smaller ones if the kernel would be too much work. Sizes of the
 * command line are not changed. */
void check_sizes(TesseraKernel *kernel, const TesseraFact *facts, size_t n, const Options *options,
                 int round, TesseraSize *sizes);
/* True if these sizes, not all of them given, would take minutes: the assumptions of the source
 * (multiples of 4096) may allow no smaller ones. */
bool check_hopeless(TesseraKernel *kernel, const Options *options, const TesseraSize *sizes,
                    size_t n);
/* Moves to the front those of the n sizes that no extent of a tensor determines, as G and C of an
 * axis G * C, and returns their number. */
size_t check_undetermined(const TesseraSignature *signature, TesseraSize *sizes, size_t n);

/* ---- how far from f64 (check_rounding.c) ---- */

typedef struct Rounding {
    double ulps;       /* the largest distance, */
    double got, exact; /* and the values there */
    double share;      /* the largest distance as a fraction of the largest element of its tensor */
    bool any;
} Rounding;
/* `exact`: f64 arrays. */
void rounding_add(Rounding *rounding, TesseraType type, size_t n, const void *got,
                  const double *exact);

#endif
