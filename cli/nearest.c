/* SPDX-License-Identifier: Apache-2.0 */
/* The "did you mean" hint for misspelt words of the command line: the name with the fewest edits.
 * An abbreviation is nearer than any other name, so that --sched suggests --schedule and not
 * --seed. */
#include "cli/nearest.h"

#include "support/text.h"

#include <string.h>

enum { MAX_LETTERS = 32, MAX_EDITS = 2, TOO_FAR = MAX_EDITS * TEXT_EDIT + 1 };

static int distance(const char *text, const char *name)
{
    if (strlen(text) >= MAX_LETTERS) {
        return TOO_FAR;
    }
    bool abbreviates = strlen(text) > 3 && strncmp(name, text, strlen(text)) == 0;
    int n = abbreviates ? 0 : text_distance(text, name);
    return n < TEXT_EDIT * (int)strlen(name) ? n : TOO_FAR;
}

const char *nearest_of(const char *text, const char *name)
{
    return distance(text, name) < TOO_FAR ? name : NULL;
}

const char *nearest_name(const char *text, const char *(*name_at)(size_t index))
{
    const char *best = NULL, *name;
    int fewest = TOO_FAR;
    for (size_t i = 0; (name = name_at(i)); i++) {
        int n = distance(text, name);
        if (n < fewest) {
            best = name;
            fewest = n;
        }
    }
    return best;
}
