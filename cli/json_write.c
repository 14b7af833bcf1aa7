/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON (RFC 8259). Text is escaped; a number that JSON cannot represent becomes null. */
#include "cli/json_write.h"

#include <math.h>

void json_string(FILE *to, const char *text)
{
    fputc('"', to);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            fprintf(to, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(to, "\\u%04x", c);
        } else {
            fputc(c, to);
        }
    }
    fputc('"', to);
}

void json_number(FILE *to, double number)
{
    if (isfinite(number)) {
        fprintf(to, "%.15g", number);
    } else {
        fputs("null", to);
    }
}
