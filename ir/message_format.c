/* SPDX-License-Identifier: Apache-2.0 */
/* Formats the text of a print or assert with the values of its record. A float is printed with the
 * fewest digits that give the same value of its type again. */
#include "ir/message_format.h"

#include "ir/scalar.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reads_as(DType dtype, const char *digits, double value)
{
    uint64_t bits = 0;
    scalar_store(dtype, &bits, (Scalar){.f = strtod(digits, NULL)});
    return scalar_load(dtype, &bits).f == value;
}

/* The fewest digits that give the value again, in its own type. */
static void put_float(Text *out, DType dtype, double value)
{
    char digits[40];
    if (isnan(value)) {
        text_add(out, "nan");
        return;
    }
    if (isinf(value)) {
        text_add(out, value < 0 ? "-inf" : "inf");
        return;
    }
    int n = 0;
    do {
        snprintf(digits, sizeof digits, "%.*e", n, value);
    } while (!reads_as(dtype, digits, value) && ++n < 17);
    int exponent = atoi(strchr(digits, 'e') + 1);
    n = exponent > n && exponent < 16 ? exponent : n; /* 70, not 7e+01 */
    snprintf(digits, sizeof digits, "%.*g", n + 1, value);
    text_add(out, digits);
}

static void put_value(Text *out, DType dtype, Scalar value)
{
    if (dtype_is_float(dtype)) {
        put_float(out, dtype, value.f);
    } else if (dtype == DT_BOOL) {
        text_add(out, value.i ? "true" : "false");
    } else if (dtype == DT_U64) {
        text_printf(out, "%" PRIu64, (uint64_t)value.i);
    } else {
        text_printf(out, "%" PRId64, value.i);
    }
}

void say_text(Text *out, const char *text, int n, const DType *dtypes, const Scalar *values)
{
    for (const char *c = text; *c; c++) {
        char *end;
        long at = *c == '{' ? strtol(c + 1, &end, 10) : -1;
        if (*c != '{' || c[1] == '{') {
            text_char(out, *c);
            c += *c == '{';
        } else if (*end == '}' && at >= 0 && at < n) {
            put_value(out, dtypes[at], values[at]);
            c = end;
        } else {
            text_char(out, *c);
        }
    }
}
