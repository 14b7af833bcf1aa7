/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations that the files of `tessera check` share. */
#ifndef TESSERA_CLI_COMMANDS_CMD_CHECK_H
#define TESSERA_CLI_COMMANDS_CMD_CHECK_H

#include "cli/data/array_args.h"
#include "cli/options.h"

/* ---- what is tried (check_sizes.c) ---- */

enum { CHECK_ROUNDS = 7 };

/* How many variants of the types and constants that nothing binds there are, and the bindings of
 * one: those of the command line, too. 0 or an exit code after a message. */
size_t check_variants(const TesseraSignature *signature, const Options *options);
int check_bindings(const TesseraSignature *signature, const Options *options, size_t variant,
                   TesseraPair **pairs, size_t *n);
/* Sizes of one round, under what is known of them (`most` 0: nothing): small ones, primes, tiles
 * and one more or less, zero; smaller where the kernel would be too much work. What the command
 * line gives stays. */
void check_sizes(TesseraKernel *kernel, const TesseraFact *facts, size_t n, const Options *options,
                 int round, TesseraSize *sizes);
/* Would these, of which not all are given, take minutes? What the source assumes of sizes
 * (multiples of 4096) may leave no smaller ones. */
bool check_hopeless(TesseraKernel *kernel, const Options *options, const TesseraSize *sizes,
                    size_t n);
/* Of the n sizes those that no tensor's extents say, as G and C of an axis G * C: to the front.
 * Returns how many. */
size_t check_untold(const TesseraSignature *signature, TesseraSize *sizes, size_t n);

/* ---- how far from f64 (check_rounding.c) ---- */

typedef struct Rounding {
    double ulps;       /* the greatest distance, */
    double got, exact; /* and where it is */
    double share;      /* the greatest distance as a share of the largest element of its tensor */
    bool any;
} Rounding;
/* `exact`: f64 arrays. */
void rounding_add(Rounding *rounding, TesseraType type, size_t n, const void *got,
                  const double *exact);

#endif
