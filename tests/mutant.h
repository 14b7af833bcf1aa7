/* SPDX-License-Identifier: Apache-2.0 */
/* Random mutations of text, which parsers must survive. */
#ifndef TESSERA_TESTS_MUTANT_H
#define TESSERA_TESTS_MUTANT_H

#include <stddef.h>
#include <stdint.h>

enum { MUTANT_BYTES = 1 << 14 };

typedef struct Mutant {
    char text[MUTANT_BYTES];
    size_t n;
    uint64_t state;           /* of the draws */
    const char *const *words; /* of its language, and what none should hold; ended by NULL */
} Mutant;

/* Draws begin with the seed; there is no text yet. */
void mutant_begin(Mutant *mutant, uint64_t seed, const char *const *words);
uint32_t mutant_draw(Mutant *mutant, size_t below);
/* The beginning of a file. */
void mutant_read(Mutant *mutant, const char *path);
/* One change up to `most`. */
void mutant_change(Mutant *mutant, uint32_t most);

/* The seeds from `first` to before `end` of one of several parts of a test: so many in all as
 * TESSERA_MUTATIONS says, else `n`; TESSERA_SEED names the only one, of every part. */
typedef struct MutantSeeds {
    uint64_t first, end;
} MutantSeeds;
MutantSeeds mutant_seeds(uint64_t n, int part, int parts);

#endif
