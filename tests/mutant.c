/* SPDX-License-Identifier: Apache-2.0 */
/* Random mutations of text: bytes, words and pieces are inserted, removed, repeated and exchanged.
 */
#include "tests/mutant.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mutant_begin(Mutant *mutant, uint64_t seed, const char *const *words)
{
    mutant->n = 0;
    mutant->words = words;
    mutant->state = seed * 0x9E3779B97F4A7C15u + 1;
    mutant_draw(mutant, 1);
}

uint32_t mutant_draw(Mutant *mutant, size_t below)
{
    mutant->state = mutant->state * 6364136223846793005u + 1442695040888963407u;
    return below ? (uint32_t)((mutant->state >> 33) % below) : 0;
}

void mutant_read(Mutant *mutant, const char *path)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    mutant->n = fread(mutant->text, 1, MUTANT_BYTES, file);
    fclose(file);
}

static void replace(Mutant *mutant, size_t at, size_t removed, const char *by, size_t n)
{
    removed = removed > mutant->n - at ? mutant->n - at : removed;
    if (mutant->n - removed + n > MUTANT_BYTES) {
        return;
    }
    memmove(mutant->text + at + n, mutant->text + at + removed, mutant->n - at - removed);
    memcpy(mutant->text + at, by, n);
    mutant->n += n - removed;
}

static const char *draw_word(Mutant *mutant)
{
    size_t n = 0;
    while (mutant->words[n]) {
        n++;
    }
    return mutant->words[mutant_draw(mutant, n)];
}

/* A piece of the text goes to another place, or is there once more. */
static void move_piece(Mutant *mutant, size_t at)
{
    char moved[64];
    size_t from = mutant_draw(mutant, mutant->n + 1), n = 1 + mutant_draw(mutant, 63);
    n = n > mutant->n - from ? mutant->n - from : n;
    memcpy(moved, mutant->text + from, n);
    replace(mutant, at, mutant_draw(mutant, 2) ? n : 0, moved, n);
}

static void change_once(Mutant *mutant)
{
    enum { SELDOM = 40 };
    size_t at = mutant_draw(mutant, mutant->n + 1);
    const char *word = draw_word(mutant);
    char byte = (char)mutant_draw(mutant, 256), digit = (char)('0' + mutant_draw(mutant, 10));
    switch (mutant_draw(mutant, 7)) {
    case 0: replace(mutant, at, 1, &byte, 1); break;
    case 1: replace(mutant, at, 1, &digit, 1); break;
    case 2: replace(mutant, at, 1 + mutant_draw(mutant, 8), "", 0); break;
    case 3: replace(mutant, at, 0, word, strlen(word)); break;
    case 4: replace(mutant, at, 1 + mutant_draw(mutant, 6), word, strlen(word)); break;
    case 5: move_piece(mutant, at); break;
    default: mutant->n = mutant_draw(mutant, SELDOM) ? mutant->n : at; break;
    }
}

void mutant_change(Mutant *mutant, uint32_t most)
{
    for (uint32_t n = 1 + mutant_draw(mutant, most); n > 0; n--) {
        change_once(mutant);
    }
}

MutantSeeds mutant_seeds(uint64_t n, int part, int parts)
{
    const char *one = getenv("TESSERA_SEED"), *many = getenv("TESSERA_MUTATIONS");
    uint64_t each = (many ? strtoul(many, NULL, 10) : n) / (uint64_t)parts;
    uint64_t first = one ? strtoul(one, NULL, 10) : (uint64_t)part * each;
    return (MutantSeeds){first, one ? first + 1 : first + each};
}
