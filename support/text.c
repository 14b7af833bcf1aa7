/* SPDX-License-Identifier: Apache-2.0 */
/* A growing string buffer in an arena: appending, formatted printing, and numbers in the shortest
 * form that reads back to the same value. It also has the edit distance for "did you mean". */
#include "support/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

Text text_new_for(Arena *arena, size_t bytes)
{
    char *data = arena_alloc_raw(arena, bytes + 1);
    *data = '\0';
    return (Text){.arena = arena, .data = data, .cap = bytes + 1};
}

Text text_new(Arena *arena)
{
    return text_new_for(arena, 63);
}

static void move_to_larger(Text *text, size_t wanted)
{
    size_t cap = text->cap;
    while (cap < wanted) {
        cap *= 2;
    }
    char *data = arena_alloc_raw(text->arena, cap);
    memcpy(data, text->data, text->n + 1);
    text->data = data;
    text->cap = cap;
}

static inline void reserve(Text *text, size_t more)
{
    size_t wanted = text->n + more + 1;
    if (wanted > text->cap) {
        move_to_larger(text, wanted);
    }
}

void text_add_n(Text *text, const char *piece, size_t n)
{
    reserve(text, n);
    memcpy(text->data + text->n, piece, n);
    text->n += n;
    text->data[text->n] = 0;
}

void text_add(Text *text, const char *piece)
{
    text_add_n(text, piece, strlen(piece));
}

void text_char(Text *text, char c)
{
    text_add_n(text, &c, 1);
}

void text_repeat(Text *text, char c, int times)
{
    for (int i = 0; i < times; i++) {
        text_char(text, c);
    }
}

void text_i64(Text *text, int64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left);
    if (value < 0) {
        text_char(text, '-');
    }
    text_add_n(text, digits + at, sizeof digits - at);
}

void text_vprintf(Text *text, const char *format, va_list args)
{
    va_list copy;
    va_copy(copy, args);
    size_t available = text->cap - text->n;
    int n = vsnprintf(text->data + text->n, available, format, args);
    if ((size_t)n >= available) {
        reserve(text, (size_t)n);
        vsnprintf(text->data + text->n, (size_t)n + 1, format, copy);
    }
    va_end(copy);
    text->n += (size_t)n;
}

void text_printf(Text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_vprintf(text, format, args);
    va_end(args);
}

enum { MAX_DIGITS = 17, DIGITS_BYTES = 40 }; /* that every double is read back from */

static bool reads_back(double value, int digits, char *text)
{
    snprintf(text, DIGITS_BYTES, "%.*g", digits, value);
    return strtod(text, NULL) == value;
}

/* As few digits as it is read back from: mostly one or two, else about as many as there are. */
static void few_digits(double value, char *text)
{
    int least = 1, most = MAX_DIGITS;
    for (; least <= 2; least++) {
        if (reads_back(value, least, text)) {
            return;
        }
    }
    while (least < most) {
        int middle = (least + most) / 2;
        if (reads_back(value, middle, text)) {
            most = middle;
        } else {
            least = middle + 1;
        }
    }
    snprintf(text, DIGITS_BYTES, "%.*g", most, value);
}

static void add_bits(Text *text, double value)
{
    static const char hexadecimal[] = "0123456789abcdef";
    enum { DIGITS = 2 * sizeof value };
    char digits[DIGITS];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    for (int i = DIGITS; i-- > 0; bits >>= 4) {
        digits[i] = hexadecimal[bits & 15];
    }
    text_add_n(text, digits, DIGITS);
}

void text_double(Text *text, double value)
{
    if (text->exact) {
        add_bits(text, value);
        return;
    }
    if (isnan(value)) {
        text_add(text, "nan");
        return;
    }
    if (isinf(value)) {
        text_add(text, value < 0 ? "-inf" : "inf");
        return;
    }
    char digits[DIGITS_BYTES];
    few_digits(value, digits);
    text_add(text, digits);
    if (!strpbrk(digits, ".e")) {
        text_add(text, ".0");
    }
}

bool text_equal(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

const char *text_line_end(const char *at)
{
    const char *end = strchr(at, '\n');
    return end ? end : at + strlen(at);
}

const char *path_file(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char small(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* Of a character that only one of the two has. */
static int cost_alone(char c)
{
    if (c == '_' || c == '-') {
        return 1;
    }
    return is_digit(c) ? TEXT_EDIT + 1 : TEXT_EDIT;
}

static int cost_replaced(char a, char b)
{
    if (a == b) {
        return 0;
    }
    if (small(a) == small(b)) {
        return 1;
    }
    bool joins = cost_alone(a) == 1 && cost_alone(b) == 1; /* `_` for `-` */
    if (joins) {
        return 1;
    }
    return is_digit(a) && is_digit(b) ? 2 * (TEXT_EDIT + 1) : TEXT_EDIT;
}

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

/* Optimal string alignment, three rows of its table at a time. */
int text_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t na = strlen(a), nb = strlen(b);
    if (na > LONGEST || nb > LONGEST) {
        return LONGEST * TEXT_EDIT;
    }
    int rows[3][LONGEST + 1];
    rows[0][0] = 0;
    for (size_t j = 1; j <= nb; j++) {
        rows[0][j] = rows[0][j - 1] + cost_alone(b[j - 1]);
    }
    for (size_t i = 1; i <= na; i++) {
        int *row = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        row[0] = last[0] + cost_alone(a[i - 1]);
        for (size_t j = 1; j <= nb; j++) {
            int best = last[j - 1] + cost_replaced(a[i - 1], b[j - 1]);
            best = lesser(best, last[j] + cost_alone(a[i - 1]));
            best = lesser(best, row[j - 1] + cost_alone(b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            row[j] = swapped ? lesser(best, before[j - 2] + TEXT_EDIT) : best;
        }
    }
    return rows[na % 3][nb];
}

size_t text_mark(const char *text, size_t n)
{
    static const char mark[3] = "\xef\xbb\xbf";
    return n >= sizeof mark && memcmp(text, mark, sizeof mark) == 0 ? sizeof mark : 0;
}
