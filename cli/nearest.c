/* SPDX-License-Identifier: Apache-2.0 */
/* "Did you mean": the least number of letters to change, insert, leave out or swap. */
#include "cli/cli.h"

#include <string.h>

enum { MOST_LETTERS = 32, MOST_EDITS = 2 };

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Optimal string alignment; both are shorter than MOST_LETTERS. */
static int edits(const char *a, const char *b)
{
    int table[MOST_LETTERS][MOST_LETTERS];
    int n = (int)strlen(a), m = (int)strlen(b);
    for (int i = 0; i <= n; i++) {
        for (int j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                table[i][j] = i + j;
                continue;
            }
            int here = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            here = least(here, 1 + least(table[i - 1][j], table[i][j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            table[i][j] = swapped ? least(here, table[i - 2][j - 2] + 1) : here;
        }
    }
    return table[n][m];
}

const char *nearest_name(const char *text, const char *(*at)(size_t index))
{
    const char *best = NULL, *name;
    int fewest = MOST_EDITS + 1;
    for (size_t i = 0; strlen(text) < MOST_LETTERS && (name = at(i)); i++) {
        /* --sched is short for --schedule rather than like --seed */
        bool begins = strlen(text) > 3 && strncmp(name, text, strlen(text)) == 0;
        int n = begins ? 0 : edits(text, name);
        bool alike = n < (int)strlen(name) && n < fewest;
        best = alike ? name : best;
        fewest = alike ? n : fewest;
    }
    return best;
}
