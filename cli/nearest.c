/* SPDX-License-Identifier: Apache-2.0 */
/* The "did you mean" hint for misspelt words of the command line. */
#include "cli/session.h"

#include "support/text.h"

#include <string.h>

enum { MAX_LETTERS = 32, MAX_EDITS = 2 };

const char *nearest_name(const char *text, const char *(*at)(size_t index))
{
    const char *best = NULL, *name;
    int fewest = MAX_EDITS * TEXT_EDIT + 1;
    for (size_t i = 0; strlen(text) < MAX_LETTERS && (name = at(i)); i++) {
        /* --sched is short for --schedule rather than like --seed */
        bool begins = strlen(text) > 3 && strncmp(name, text, strlen(text)) == 0;
        int n = begins ? 0 : text_distance(text, name);
        bool alike = n < TEXT_EDIT * (int)strlen(name) && n < fewest;
        best = alike ? name : best;
        fewest = alike ? n : fewest;
    }
    return best;
}
