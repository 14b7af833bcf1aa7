/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces support/unicode.c: the properties of characters are a table that
 * playground/unicode_table.c wrote with utf8proc. */
#include "support/unicode.h"

/* Characters from `first` up to the next row's. */
static const struct {
    uint32_t first;
    int width;
    bool control;
} RUNS[] = {
#include "unicode_runs.def"
};
enum { N_RUNS = sizeof RUNS / sizeof *RUNS };

static int run_of(uint32_t code)
{
    int low = 0, high = N_RUNS;
    while (high - low > 1) {
        int middle = (low + high) / 2;
        if (RUNS[middle].first <= code) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Bytes of the character that begins with this one; 0: none does. */
static int length_of(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    return first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}

Char char_at(const char *text, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    static const Char malformed = {0xFFFD, 1};
    unsigned char first = (unsigned char)text[0];
    int bytes = length_of(first);
    if (bytes == 0 || (size_t)bytes > n) {
        return malformed;
    }
    uint32_t code = bytes == 1 ? first : first & (0x7Fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        unsigned char next = (unsigned char)text[i];
        if ((next & 0xC0) != 0x80) {
            return malformed;
        }
        code = code << 6 | (next & 0x3Fu);
    }
    bool surrogate = code >= 0xD800 && code < 0xE000;
    bool fits = code >= least[bytes] && code <= 0x10FFFF && !surrogate;
    return fits ? (Char){code, bytes} : malformed;
}

bool char_is_control(uint32_t code)
{
    return RUNS[run_of(code)].control;
}

int char_width(uint32_t code)
{
    return RUNS[run_of(code)].width;
}
